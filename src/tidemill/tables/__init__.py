"""WITH (…) → typed, checked table specs; and the catalog that holds them."""

from tidemill.tables.build import (
    CONNECTORS,
    build_table,
    check_insert,
    check_read,
    check_writers,
    definition_of,
    metadata_keys,
    unprotected,
    why_not_runnable,
    with_bootstrap,
    with_options,
)
from tidemill.tables.formats import FORMATS
from tidemill.tables.options import CODES, redacted

__all__ = [
    "CODES",
    "CONNECTORS",
    "FORMATS",
    "build_table",
    "check_insert",
    "check_read",
    "check_writers",
    "definition_of",
    "metadata_keys",
    "redacted",
    "unprotected",
    "why_not_runnable",
    "with_bootstrap",
    "with_options",
]

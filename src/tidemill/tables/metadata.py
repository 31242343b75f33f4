"""Metadata columns: which keys a connector offers, and which declared types they can be cast to.

In: a schema and the connector's table of keys. Out: mistakes, each at its column.
Law: Flink's: reading needs a cast from the key's type, writing a cast to it; a VIRTUAL column is never written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.errors import Diagnostic, Span, did_you_mean
from tidemill.tables.catalog import Metadata
from tidemill.types import SqlType, can_cast


@dataclass(frozen=True)
class MetadataKey:
    read_type: SqlType
    write_type: SqlType | None
    """None: the key can only be read."""
    doc: str


MetadataKeys = Mapping[str, MetadataKey]


def check_readable(
    table: str, column: Metadata, keys: MetadataKeys, span: Span | None
) -> Diagnostic | None:
    """What is wrong with a metadata column for reading."""
    key = keys.get(column.key)
    if key is None:
        return Diagnostic(
            "OPT-050",
            f"Invalid metadata key '{column.key}' in column '{column.name}' of table '{table}'.",
            span,
            _key_hint(column.key, keys, "reading"),
        )
    if not can_cast(key.read_type, column.type):
        return Diagnostic(
            "OPT-051",
            f"Invalid data type for metadata column '{column.name}' of table '{table}'. The column cannot be"
            f" declared as '{column.type}' because the type must be castable from metadata type"
            f" '{key.read_type}'.",
            span,
            f"declare it as {key.read_type.as_nullable}",
        )
    return None


def check_writable(
    table: str, column: Metadata, keys: MetadataKeys, span: Span | None
) -> Diagnostic | None:
    """What is wrong with a metadata column for INSERT INTO."""
    if column.virtual:
        return None
    writable = {name: key for name, key in keys.items() if key.write_type is not None}
    key = writable.get(column.key)
    if key is None:
        return Diagnostic(
            "OPT-052",
            f"Invalid metadata key '{column.key}' in column '{column.name}' of table '{table}':"
            " it cannot be written.",
            span,
            "declare the column VIRTUAL; " + _list_keys(writable, "writing"),
        )
    assert key.write_type is not None
    if not can_cast(column.type, key.write_type):
        return Diagnostic(
            "OPT-051",
            f"Invalid data type for metadata column '{column.name}' of table '{table}'. The column cannot be"
            f" declared as '{column.type}' because the type must be castable to metadata type"
            f" '{key.write_type}'.",
            span,
            f"declare it as {key.write_type.as_nullable}",
        )
    return None


def _key_hint(key: str, keys: MetadataKeys, use: str) -> str:
    if key.startswith("value.") and not any(k.startswith("value.") for k in keys):
        return "the table's format has no metadata; " + _list_keys(keys, use)
    return did_you_mean(key, list(keys)) or _list_keys(keys, use)


def _list_keys(keys: MetadataKeys, use: str) -> str:
    if not keys:
        return "this connector has no metadata"
    return f"the metadata keys for {use} are {', '.join(keys)}"

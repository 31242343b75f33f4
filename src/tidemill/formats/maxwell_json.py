"""The `maxwell-json` format: what Maxwell writes: `data`, `old` and `type`."""

from __future__ import annotations

from functools import partial

from tidemill import types as t
from tidemill.formats import cdc
from tidemill.formats.cdc import Told

_SECONDS = 1_000_000

ENVELOPE = cdc.DataOld(
    insert="insert",
    update="update",
    delete="delete",
    metadata={
        "database": Told(("database",), t.STRING),
        "table": Told(("table",), t.STRING),
        "primary-key-columns": Told(("primary_key_columns",), t.ArrayType(element=t.STRING)),
        "ingestion-timestamp": Told(("ts",), t.BIGINT, epoch=_SECONDS),
    },
)

decoder = partial(cdc.decoder, ENVELOPE)
encoder = partial(cdc.encoder, ENVELOPE)

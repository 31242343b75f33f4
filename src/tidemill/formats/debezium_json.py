"""The `debezium-json` format: what Debezium writes: `before`, `after` and `op`."""

from __future__ import annotations

from functools import partial

from tidemill import types as t
from tidemill.formats import cdc
from tidemill.formats.cdc import Told

_SOURCE = t.MapType(key=t.STRING, value=t.STRING)
_MILLIS = 1000

ENVELOPE = cdc.BeforeAfter(
    "Debezium",
    word="op",
    inserts=("c", "r"),
    update="u",
    delete="d",
    payload_option="schema-include",
    metadata={
        "schema": Told(("schema",), t.STRING, above=True),
        "ingestion-timestamp": Told(("ts_ms",), t.BIGINT, epoch=_MILLIS),
        "source.timestamp": Told(("source", "ts_ms"), t.BIGINT, epoch=_MILLIS),
        "source.database": Told(("source", "db"), t.STRING),
        "source.schema": Told(("source", "schema"), t.STRING),
        "source.table": Told(("source", "table"), t.STRING),
        "source.properties": Told(("source",), _SOURCE),
    },
)

decoder = partial(cdc.decoder, ENVELOPE)
encoder = partial(cdc.encoder, ENVELOPE)

"""The `ogg-json` format: what Oracle GoldenGate writes: `before`, `after` and `op_type`."""

from __future__ import annotations

from functools import partial

from tidemill import types as t
from tidemill.formats import cdc
from tidemill.formats.cdc import Told

ENVELOPE = cdc.BeforeAfter(
    "GoldenGate",
    word="op_type",
    inserts=("I",),
    update="U",
    delete="D",
    metadata={
        "table": Told(("table",), t.STRING),
        "primary-keys": Told(("primary_keys",), t.ArrayType(element=t.STRING)),
        "ingestion-timestamp": Told(("current_ts",), t.STRING, texts=cdc.cut_to_millis_or_null),
        "event-timestamp": Told(("op_ts",), t.STRING, texts=cdc.cut_to_millis),
    },
)

decoder = partial(cdc.decoder, ENVELOPE)
encoder = partial(cdc.encoder, ENVELOPE)

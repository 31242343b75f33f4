"""The `canal-json` format: what Canal writes: `data` and `old`, which are lists of rows, and `type`."""

from __future__ import annotations

from functools import partial

from tidemill import types as t
from tidemill.formats import cdc
from tidemill.formats.cdc import Told

_MILLIS = 1000

ENVELOPE = cdc.DataOld(
    insert="INSERT",
    update="UPDATE",
    delete="DELETE",
    several=True,
    skipped=("CREATE",),
    filters=(("database.include", "database"), ("table.include", "table")),
    metadata={
        "database": Told(("database",), t.STRING),
        "table": Told(("table",), t.STRING),
        "sql-type": Told(("sqlType",), t.MapType(key=t.STRING, value=t.INT)),
        "pk-names": Told(("pkNames",), t.ArrayType(element=t.STRING)),
        "ingestion-timestamp": Told(("ts",), t.BIGINT, epoch=_MILLIS),
        "event-timestamp": Told(("es",), t.BIGINT, epoch=_MILLIS),
    },
)

decoder = partial(cdc.decoder, ENVELOPE)
encoder = partial(cdc.encoder, ENVELOPE)

"""Rows for people: `print` tables and top-level SELECT. In: a DataFrame with columns c0… and maybe `_kind`. Out: lines
of text, which the kernel's sink brings to the driver when a batch is written, and what becomes of them there.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as s

from tidemill.changelog import KIND_COLUMN, RowKind
from tidemill.output import Output
from tidemill.plan import nodes
from tidemill.spark.arrow import map_in_arrow
from tidemill.spark.java import java_class
from tidemill.spark.lower import with_kind
from tidemill.tables.builtin import PrintTable
from tidemill.types import Field

if TYPE_CHECKING:
    import pyarrow as pa

Lines = Sequence[tuple[RowKind, str]]

_PRINTING = threading.Lock()


class Printer:
    """What a job prints, by the number of its sink. The kernel calls it on the driver, batch by batch."""

    def __init__(self, takers: Mapping[int, Callable[[Lines], None]]) -> None:
        self._takers = takers

    def take(self, sink: int, lines: str) -> None:
        rows = [(RowKind(int(line[0])), line[1:]) for line in json.loads(lines)]
        with _PRINTING:
            self._takers[sink](rows)

    class Java:
        implements: Sequence[str] = ("io.tidemill.kafka.Printer",)


def taker_of(root: nodes.Root, output: Output) -> Callable[[Lines], None] | None:
    """Who takes the lines of a root, if it has any."""
    if isinstance(root, nodes.Collect):
        return lambda rows: output.take(root.columns, list(rows))
    if isinstance(root, nodes.Sink) and isinstance(root.table.connector, PrintTable):
        return _print_to(root.table.connector)
    return None


def _print_to(table: PrintTable) -> Callable[[Lines], None]:
    prefix = f"{table.identifier}> " if table.identifier else ""

    def write(rows: Lines) -> None:
        stream: IO[str] = sys.stderr if table.standard_error else sys.stdout
        stream.writelines(f"{prefix}{kind.symbol}{text}\n" for kind, text in rows)
        stream.flush()

    return write


def register_printer(spark: SparkSession, job: str, printer: Printer) -> None:
    ensure_callback_server_started(spark.sparkContext._gateway)
    printers(spark).put(job, printer)


def printers(spark: SparkSession) -> Any:
    return java_class(spark, "io.tidemill.kafka.Printer").BY_JOB


# --- in a Python worker ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Render:
    """Rows to text, in a Python worker: (c0…, _kind) → (_kind, text or JSON)."""

    fields: tuple[Field, ...]
    style: str
    """`json`: one JSON object; `row`: Flink's `[a, b]`; `cells`: a JSON array of texts."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from tidemill.formats import json as json_format

        encoder = json_format.encoder(self.fields, {}) if self.style == "json" else None
        for batch in batches:
            columns = [batch.column(i) for i in range(len(self.fields))]
            if encoder is not None:
                lines = encoder.encode(columns).cast(pa.string())
            else:
                rows = (
                    zip(*(c.to_pylist() for c in columns), strict=True)
                    if columns
                    else [()] * len(batch)
                )
                texts = ([plain_text(v) for v in row] for row in rows)
                if self.style == "row":
                    lines = pa.array(["[" + ", ".join(t) + "]" for t in texts], pa.string())
                else:
                    lines = pa.array(
                        [json.dumps(t, ensure_ascii=False) for t in texts], pa.string()
                    )
            yield pa.RecordBatch.from_arrays(
                [batch.column(KIND_COLUMN), lines], names=["kind", "text"]
            )


def plain_text(value: object) -> str:
    """A value as Flink's Row prints it."""
    import datetime

    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case datetime.datetime():
            shown = value.replace(tzinfo=None).isoformat()
            text = shown.rstrip("0") if "." in shown else shown
            return text + ("Z" if value.tzinfo else "")
        case bytes():
            return "[" + ", ".join(str(b - 256 if b > 127 else b) for b in value) + "]"
        case dict():
            inner = ", ".join(plain_text(v) for v in value.values())
            return f"+I[{inner}]"
        case list() if value and all(isinstance(v, tuple) for v in value):
            return "{" + ", ".join(f"{plain_text(k)}={plain_text(v)}" for k, v in value) + "}"
        case list():
            return "[" + ", ".join(plain_text(v) for v in value) + "]"
        case float():
            from tidemill.formats.java_text import print_double

            return print_double(value)
    return str(value)


def rendered(frame: DataFrame, fields: Sequence[Field], style: str) -> DataFrame:
    schema = s.StructType(
        [s.StructField("kind", s.ByteType()), s.StructField("text", s.StringType())]
    )
    render = Render(tuple(fields), style)
    return map_in_arrow(with_kind(frame), render, schema)

"""Sinks: the rows of a job on their way out. In: DataFrames with columns c0… and maybe `_kind`, one per sink.
Out: one DataFrame for the kernel's Kafka sink, or text lines for `print` and top-level SELECT.

Law: an upsert table gets a record per insert or update-after and a tombstone per delete (or update-before that
arrives); a format that tells kinds gets every row with its kind; any other table gets inserts only, which the planner
has made sure of.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql import types as s

from tidemill.changelog import KIND_COLUMN, RowKind
from tidemill.formats import format_module
from tidemill.plan import nodes
from tidemill.spark.arrow import map_in_arrow
from tidemill.spark.expressions import column_name
from tidemill.spark.faults import RecordFault, reported
from tidemill.spark.lower import with_kind
from tidemill.spark.partitioner import Partition, Partitioner
from tidemill.spark.source import Count
from tidemill.tables.catalog import Metadata, Table
from tidemill.tables.kafka import KafkaTable, TopicTable
from tidemill.tables.upsert_kafka import UpsertKafkaTable
from tidemill.types import MAX_LENGTH, BinaryType, CharType, Field, VarBinaryType, VarCharType

if TYPE_CHECKING:
    import pyarrow as pa

# The kernel sink's columns that a table's writable metadata fills.
_METADATA_COLUMNS: dict[str, tuple[str, str]] = {
    "topic": ("topic", "STRING"),
    "headers": ("headers", "MAP<STRING, BINARY>"),
    "header-list": ("header_list", "ARRAY<STRUCT<key: STRING, value: BINARY>>"),
    "timestamp": ("timestamp", "TIMESTAMP"),
}


@dataclass(frozen=True)
class Encoding:
    """One side of a record: a format over some of the sink's columns."""

    format: str
    options: Mapping[str, object] = field(hash=False)
    fields: tuple[Field, ...]
    columns: tuple[str, ...]

    def encoder(self) -> Any:
        return format_module(self.format).encoder(self.fields, self.options)


@dataclass(frozen=True)
class Encode:
    """Rows to records, in a Python worker: (c0…, _kind?, kernel columns…) → (key?, value, kernel columns…)."""

    table: str
    value: Encoding
    key: Encoding | None
    kept: tuple[str, ...]
    required: tuple[tuple[str, str], ...]
    """Columns that are NOT NULL, with their names in the script."""
    deletes: bool
    """Whether a row that is gone is a record without a value."""
    changes: bool
    """Whether the value's format tells the rows' kinds."""
    dropped: Count | None = field(hash=False, compare=False)
    """Counts the rows that are left out for a NULL where none may be; None stops the job at the first."""
    lengths: tuple[tuple[str, Field], ...] = ()
    """Columns whose values must have the length of their type, each with its field in the script."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        with reported(self.table):
            value_encoder = self.value.encoder()
            key_encoder = self.key.encoder() if self.key else None
        names = [*(["key"] if self.key else []), "value", *self.kept]
        for batch in map(self.enforce, batches):
            columns = []
            if key_encoder is not None and self.key is not None:
                columns.append(self._encode(key_encoder, self.key, batch))
            columns.append(self._values(value_encoder, batch))
            columns += [batch.column(k) for k in self.kept]
            yield pa.RecordBatch.from_arrays(columns, names=names)

    def _values(self, encoder: Any, batch: pa.RecordBatch) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        kinds = (batch.column(KIND_COLUMN),) if self.changes else ()
        encoded = self._encode(encoder, self.value, batch, *kinds)
        if not self.deletes:
            return encoded
        gone = pa.array([int(RowKind.UPDATE_BEFORE), int(RowKind.DELETE)], pa.int8())
        is_delete = pc.is_in(batch.column(KIND_COLUMN), gone)
        return pc.if_else(is_delete, pa.scalar(None, encoded.type), encoded)

    def _encode(self, encoder: Any, side: Encoding, batch: pa.RecordBatch, *kinds: Any) -> Any:
        with reported(self.table):
            return encoder.encode([batch.column(c) for c in side.columns], *kinds)

    def enforce(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch without rows that have a NULL where none may be (`table.exec.sink.not-null-enforcer`)."""
        import pyarrow.compute as pc

        for column, name in self.required:
            if not batch.column(column).null_count:
                continue
            if self.dropped is None:
                raise RecordFault(
                    "RUN-011",
                    f"Column '{name}' is NOT NULL, however, a null value is being written into it"
                    f" (table '{self.table}')",
                    f"filter such rows out: WHERE {name} IS NOT NULL, or SET"
                    f" '{NULL_ENFORCER}' = 'DROP'",
                )
            self.dropped(f"NULL in {name}", batch.column(column).null_count)
            batch = batch.filter(pc.is_valid(batch.column(column)))
        for column, declared in self.lengths:
            self._check_lengths(batch.column(column), declared)
        return batch

    def _check_lengths(self, values: Any, declared: Field) -> None:
        """`table.exec.sink.type-length-enforcer` = ERROR: the first value that does not fit stops the job."""
        import pyarrow.compute as pc

        assert isinstance(declared.type, (CharType, VarCharType, BinaryType, VarBinaryType))
        of_text = isinstance(declared.type, (CharType, VarCharType))
        found = pc.utf8_length(values) if of_text else pc.binary_length(values)
        fixed = isinstance(declared.type, (CharType, BinaryType))
        limit = declared.type.length
        wrong = pc.not_equal(found, limit) if fixed else pc.greater(found, limit)
        if not pc.any(wrong).as_py():
            return
        length = found.filter(wrong)[0].as_py()
        raise RecordFault(
            "RUN-013",
            f"Column '{declared.name}' is {declared.type.as_nullable}, however, a"
            f" {'string' if of_text else 'binary'} of length {length} is being written into it"
            f" (table '{self.table}')",
            f"cast it: CAST({declared.name} AS {declared.type.as_nullable}), or SET '{LENGTH_ENFORCER}' = 'TRIM_PAD'",
        )


NULL_ENFORCER = "table.exec.sink.not-null-enforcer"
LENGTH_ENFORCER = "table.exec.sink.type-length-enforcer"


def _trimmed(column: str, declared: Field) -> str:
    """What TRIM_PAD makes of a column, in Spark's SQL; lengths inside of rows and collections are left alone."""
    match declared.type:
        case CharType(length=length):
            return f"rpad({column}, {length}, ' ')"
        case BinaryType(length=length):
            return f"rpad({column}, {length}, X'00')"
        case VarCharType(length=length) | VarBinaryType(length=length) if length < MAX_LENGTH:
            return f"substring({column}, 1, {length})"
    return column


def kafka_records(
    frame: DataFrame,
    sink: nodes.Sink,
    index: int,
    dropped: Count | None,
    partitioner: Partitioner | None,
    lengths: str = "IGNORE",
) -> DataFrame:
    """The sink's rows as (sink, topic?, partition?, key, value, headers?, timestamp?) for the kernel.

    `dropped` counts rows with a NULL where none may be; without it they stop the job. `lengths` is what becomes of
    values that are too long or too short for their type: IGNORE, TRIM_PAD or ERROR.
    """
    table = sink.table
    connector, schema = table.connector, table.schema
    assert isinstance(connector, TopicTable)
    place = {c.name: column_name(i) for i, c in enumerate(schema.writable)}
    value = Encoding(
        connector.value_format.name,
        connector.value_format.options,
        connector.value_fields(schema),
        tuple(place[c] for c, _ in connector.value_columns),
    )
    key = None
    if connector.key_format is not None:
        key = Encoding(
            connector.key_format.name,
            connector.key_format.options,
            connector.key_fields(schema),
            tuple(place[c] for c, _ in connector.key_columns),
        )
    has_kinds = KIND_COLUMN in frame.columns
    deletes = has_kinds and isinstance(connector, UpsertKafkaTable)
    changes = has_kinds and not connector.value_format.definition.changelog.insert_only
    written = [c for c in schema.metadata if not c.virtual]
    kept = {_METADATA_COLUMNS[c.key]: c for c in written}
    lengthy = [
        (place[c.name], Field(c.name, c.type))
        for c in schema.physical
        if _trimmed(place[c.name], Field(c.name, c.type)) != place[c.name]
    ]
    if lengths == "TRIM_PAD":
        # Before rows go to their writers, which is by key.
        frame = frame.withColumns({n: f.expr(_trimmed(n, declared)) for n, declared in lengthy})
    prepared = frame.select(
        *(n for n in frame.columns if n != KIND_COLUMN or deletes or changes),
        *(
            f.expr(f"CAST({place[column.name]} AS {ddl})").alias(name)
            for (name, ddl), column in kept.items()
        ),
    )
    names = tuple(name for name, _ in kept)
    required = tuple(
        (place[c.name], c.name)
        for c in schema.writable
        if not c.type.nullable and not isinstance(c, Metadata)
    )
    checked = tuple(lengthy) if lengths == "ERROR" else ()
    encode = Encode(table.name, value, key, names, required, deletes, changes, dropped, checked)
    output = s.StructType(
        [
            *([s.StructField("key", s.BinaryType())] if key else []),
            s.StructField("value", s.BinaryType()),
            *(prepared.schema[n] for n in names),
            *([s.StructField("partition", s.IntegerType())] if partitioner else []),
        ]
    )
    columns_of = tuple((place[c.name], c.name) for c in schema.writable)
    run = Partition(encode, partitioner, columns_of) if partitioner else encode
    records = map_in_arrow(_to_writers(prepared, table, place), run, output)
    columns = [f.lit(index).alias("sink")]
    for name, ddl in (
        ("topic", "STRING"),
        ("partition", "INT"),
        ("key", "BINARY"),
        ("value", "BINARY"),
        ("headers", "MAP<STRING, BINARY>"),
        ("header_list", "ARRAY<STRUCT<key: STRING, value: BINARY>>"),
        ("timestamp", "TIMESTAMP"),
    ):
        present = name in records.columns
        columns.append((f.col(name) if present else f.expr(f"CAST(NULL AS {ddl})")).alias(name))
    return records.select(*columns)


def _to_writers(frame: DataFrame, table: Table, place: Mapping[str, str]) -> DataFrame:
    """`sink.parallelism`: rows of a key go to one writer, in their order; rows without a key are spread."""
    connector = table.connector
    assert isinstance(connector, TopicTable)
    if connector.sink_parallelism is None:
        return frame
    key = [name for name, _ in connector.key_columns] or list(table.schema.primary_key)
    # A replayed batch must find the same ways again, so that rows without a key go by all that Spark can hash.
    columns = [place[name] for name in key] or [
        c.name for c in frame.schema if "map<" not in c.dataType.simpleString()
    ]
    return frame.repartition(connector.sink_parallelism, *columns)


def kafka_sink_spec(tables: Sequence[Table], job: str) -> str:
    """Where the kernel writes, for each sink; `job` tells the job from all others, run after run."""
    sinks = []
    for table in tables:
        connector = table.connector
        assert isinstance(connector, TopicTable)
        sinks.append(
            {
                "table": table.name,
                "topic": connector.topics[0] if connector.has_one_topic else None,
                "topics": list(connector.topics) or None,
                "topicPattern": connector.topic_pattern,
                "properties": dict(connector.properties),
                "guarantee": connector.delivery_guarantee.value,
                "transactionalIdPrefix": transactional_id_prefix(table, job),
                "partitioner": _partitioner(connector),
                "buffer": _buffer(connector),
            }
        )
    return json.dumps({"job": job, "sinks": sinks})


def transactional_id_prefix(table: Table, job: str) -> str:
    connector = table.connector
    assert isinstance(connector, TopicTable)
    return connector.transactional_id_prefix or f"tidemill-{job}-{table.name}"


def _partitioner(connector: TopicTable) -> str:
    """`round-robin` is Flink's word for leaving it to the client, as `default` does."""
    fixed = isinstance(connector, KafkaTable) and connector.partitioner == "fixed"
    return "fixed" if fixed else "default"


def _buffer(connector: TopicTable) -> dict[str, int] | None:
    flush = connector.buffer_flush if isinstance(connector, UpsertKafkaTable) else None
    if flush is None:
        return None
    millis = int(flush.interval.total_seconds() * 1000)
    return {"maxRows": flush.max_rows, "intervalMs": millis}


# --- rows as text --------------------------------------------------------------------------------


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

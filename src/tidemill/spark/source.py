"""Scans: a table becomes a streaming DataFrame with columns c0, c1, … in the order that the plan asks for.

Kafka: the kernel's source gives records, `Decode` turns them into columns, Arrow batch by Arrow batch.
Law: a record that cannot be decoded stops the job with its address; nothing is dropped without being counted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as s

from tidemill.changelog import KIND_COLUMN
from tidemill.formats import BadRecord, Decoded, format_module
from tidemill.plan import nodes
from tidemill.plan.expressions import Call, Input
from tidemill.spark.arrow import map_in_arrow
from tidemill.spark.expressions import column_name, to_sql
from tidemill.spark.faults import RecordFault, faults_of
from tidemill.spark.types import spark_type
from tidemill.tables.catalog import Column, Metadata, Physical, Table
from tidemill.tables.formats import VALUE_PREFIX
from tidemill.tables.kafka import TopicTable
from tidemill.types import Field

if TYPE_CHECKING:
    import pyarrow as pa

# Metadata keys of a Kafka table and the kernel's columns for them.
KERNEL_COLUMNS: dict[str, tuple[str, Any]] = {
    "topic": ("topic", s.StringType()),
    "partition": ("partition", s.IntegerType()),
    "headers": ("headers", s.MapType(s.StringType(), s.BinaryType())),
    "leader-epoch": ("leader_epoch", s.IntegerType()),
    "offset": ("offset", s.LongType()),
    "timestamp": ("timestamp", s.TimestampType()),
    "timestamp-type": ("timestamp_type", s.StringType()),
}

Count = Callable[[str, int], None]


def kafka_spec(
    table: Table, columns: Sequence[str], max_rows_per_batch: int | None
) -> dict[str, Any]:
    """The kernel source's JSON spec. Spark prunes no columns of a streaming scan, so they are named here."""
    connector = table.connector
    assert isinstance(connector, TopicTable)
    startup, bounded = connector.effective_startup, connector.bounded
    interval = connector.discovery_interval
    return {
        "table": table.name,
        **topics_spec(connector),
        "columns": list(columns),
        "blocks": True,
        "startup": _position(startup),
        "bounded": _position(bounded),
        "discoveryIntervalMs": int(interval.total_seconds() * 1000) if interval else 0,
        "maxRowsPerBatch": max_rows_per_batch,
    }


def topics_spec(connector: TopicTable) -> dict[str, Any]:
    """Which topics, and how to reach them."""
    topics = (
        {"topics": list(connector.topics)}
        if connector.topics
        else {"topicPattern": connector.topic_pattern}
    )
    return {"properties": dict(connector.properties), **topics}


def _position(position: Any) -> dict[str, Any]:
    return {
        "mode": position.mode.value,
        "timestampMillis": position.timestamp_millis,
        "offsets": {str(k): v for k, v in position.offsets.items()},
    }


@dataclass(frozen=True)
class Side:
    """The key or the value of a record: how to read it, and which columns it gives."""

    format: str
    options: Mapping[str, object] = field(hash=False)
    fields: tuple[Field, ...]
    wanted: tuple[str, ...]
    option_prefix: str
    metadata: tuple[str, ...] = ()
    """Keys of what the format itself tells about a record."""

    def decoder(self) -> Any:
        more = (self.metadata,) if self.metadata else ()
        return format_module(self.format).decoder(self.fields, self.options, self.wanted, *more)


@dataclass(frozen=True)
class Decode:
    """Records to rows, in a Python worker: blocks of (key?, value, topic?, partition, offset…) → (c0, …, _kind?)."""

    table: str
    topic: str | None
    """The table's only topic; None when each record says its own."""
    value: Side
    key: Side | None
    kept: tuple[str, ...]
    """Kernel columns that metadata columns are made of."""
    order: tuple[int, ...]
    """Of the key's columns, then the value's, then the kept ones: which makes c0, which c1, and so on."""
    has_kinds: bool
    """Whether the value tells the rows' kinds, which are then the last column."""
    count: Count = field(hash=False, compare=False)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with faults_of(self.table):
            yield from self._decode(_records(batches))

    def _decode(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        value_decoder = self.value.decoder()
        key_decoder = self.key.decoder() if self.key else None
        names = [column_name(i) for i in range(len(self.order))]
        names += [KIND_COLUMN] if self.has_kinds else []
        for batch in batches:
            value = value_decoder.decode(batch.column("value"))
            self._check(value, self.value, batch)
            origin = value.records
            if self.has_kinds:
                value.columns.append(value.kinds)
            if key_decoder is None or self.key is None:
                columns = list(value.columns)
            else:
                key = key_decoder.decode(batch.column("key"))
                self._check(key, self.key, batch)
                columns, origin = _cross(key, value, batch.num_rows)
            kinds = [columns.pop()] if self.has_kinds else []
            for name in self.kept:
                column = batch.column(name)
                columns.append(column if origin is None else column.take(origin))
            arrays = [*(columns[i] for i in self.order), *kinds]
            yield pa.RecordBatch.from_arrays(arrays, names=names)

    def _check(self, decoded: Decoded, side: Side, batch: pa.RecordBatch) -> None:
        for name, number in decoded.dropped.items():
            self.count(name, number)
        if decoded.bad:
            raise self._fault(decoded.bad[0], side, batch)

    def _fault(self, bad: BadRecord, side: Side, batch: pa.RecordBatch) -> RecordFault:
        partition, offset = (
            batch.column(name)[bad.index].as_py() for name in ("partition", "offset")
        )
        topic = self.topic or batch.column("topic")[bad.index].as_py()
        place = f"table '{self.table}', topic '{topic}', partition {partition}, offset {offset}"
        where = f", field '{bad.field}'" if bad.field else ""
        return RecordFault(
            "RUN-010",
            f"a record cannot be read as {side.format}: {place}{where}: {bad.reason}",
            _hint(bad, side),
        )


def _records(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The records in the kernel's blocks, each an Arrow stream of one batch; nothing is copied."""
    import pyarrow as pa

    for batch in batches:
        for block in batch.column("block"):
            yield from pa.ipc.open_stream(block.as_buffer())


def _hint(bad: BadRecord, side: Side) -> str | None:
    if "ignore-parse-errors" not in side.options:
        return None
    skip = f"'{side.option_prefix}ignore-parse-errors' = 'true' makes such fields NULL and skips such records"
    if bad.field and "yyyy-MM-dd" in bad.reason:
        return (
            f"'{side.option_prefix}timestamp-format.standard' = 'ISO-8601' reads times with a 'T'; epoch numbers need a"
            f" BIGINT column and TO_TIMESTAMP_LTZ; {skip}"
        )
    return skip


def _cross(key: Decoded, value: Decoded, records: int) -> tuple[list[Any], Any]:
    """Every row of a record's key with every row of its value: no key row, no row at all."""
    import pyarrow as pa

    if key.records is None and value.records is None:
        return [*key.columns, *value.columns], None
    by_record: list[list[int]] = [[] for _ in range(records)]
    key_records = range(records) if key.records is None else key.records.to_pylist()
    for row, record in enumerate(key_records):
        by_record[record].append(row)
    value_records = range(records) if value.records is None else value.records.to_pylist()
    key_rows: list[int] = []
    value_rows: list[int] = []
    origin: list[int] = []
    for row, record in enumerate(value_records):
        for key_row in by_record[record]:
            key_rows.append(key_row)
            value_rows.append(row)
            origin.append(record)
    key_index, value_index = pa.array(key_rows, pa.int32()), pa.array(value_rows, pa.int32())
    columns = [c.take(key_index) for c in key.columns] + [
        c.take(value_index) for c in value.columns
    ]
    return columns, pa.array(origin, pa.int32())


@dataclass(frozen=True)
class Decoding:
    """What a scan of a Kafka table takes out of the records, and how it makes rows of that."""

    columns: tuple[str, ...]
    """Of the kernel's columns, those that it reads."""
    decode: Decode
    output: Any
    casts: Mapping[str, str]
    """Columns that are not of the type that the table declares, with their casts."""

    def rows(self, blocks: DataFrame) -> DataFrame:
        decoded = map_in_arrow(blocks, self.decode, self.output)
        # Every projection copies the rows once more, so there is none without need.
        if not self.casts:
            return decoded
        return decoded.withColumns({name: f.expr(cast) for name, cast in self.casts.items()})


def read_kafka(
    spark: SparkSession, scan: nodes.Scan, max_rows_per_batch: int | None, count: Count
) -> DataFrame:
    decoding = decoding_of(scan, count)
    spec = json.dumps(kafka_spec(scan.table, decoding.columns, max_rows_per_batch))
    return decoding.rows(spark.readStream.format("tidemill-kafka").option("spec", spec).load())


def decoding_of(scan: nodes.Scan, count: Count) -> Decoding:
    table, schema = scan.table, scan.table.schema
    connector = table.connector
    assert isinstance(connector, TopicTable)
    column_types = {c.name: c.type for c in schema.columns}
    wanted = [c for n in scan.names if (c := schema.column(n)) is not None]
    physical = [c.name for c in wanted if isinstance(c, Physical)]
    # A column that is in key and value comes from the value, as in Flink.
    in_value = {column: name for column, name in connector.value_columns}
    in_key = {c: n for c, n in connector.key_columns if c not in in_value}
    told = [c.key for c in wanted if isinstance(c, Metadata) and _is_told(c)]
    value = Side(
        connector.value_format.name,
        connector.value_format.options,
        connector.value_fields(schema),
        tuple(in_value[c] for c in physical if c in in_value),
        connector.value_format.prefix,
        tuple(key.removeprefix(VALUE_PREFIX) for key in dict.fromkeys(told)),
    )
    key = None
    if connector.key_format is not None:
        key = Side(
            connector.key_format.name,
            connector.key_format.options,
            connector.key_fields(schema),
            tuple(in_key[c] for c in physical if c in in_key),
            connector.key_format.prefix,
        )
    kept = sorted(
        {KERNEL_COLUMNS[c.key][0] for c in wanted if isinstance(c, Metadata) and not _is_told(c)}
    )
    if not wanted:
        kept = ["partition"]  # a batch without columns would lose its number of rows
    # The address of a record is for messages only; a topic's name per row would cost more than all else.
    topic = connector.topics[0] if connector.has_one_topic else None
    read = ["value", "partition", "offset"]
    read += [*(["key"] if key else []), *([] if topic else ["topic"])]
    read += [k for k in kept if k not in read]

    # A physical column, metadata of the format and a kernel column may all be called alike.
    made = [
        *(("column", c) for c in physical if c in in_key),
        *(("column", c) for c in physical if c in in_value),
        *(("told", key) for key in dict.fromkeys(told)),
        *(("kernel", name) for name in kept),
    ]
    sources = [_source_of(c) for c in wanted] or [("kernel", name) for name in kept]
    kernel_types = dict(KERNEL_COLUMNS.values())
    types = [
        kernel_types[name]
        if where == "kernel"
        else spark_type(
            connector.metadata_keys[name].read_type if where == "told" else column_types[name]
        )
        for where, name in sources
    ]
    fields = [s.StructField(column_name(i), x) for i, x in enumerate(types)]
    has_kinds = not connector.value_format.definition.changelog.insert_only
    if has_kinds:
        fields.append(s.StructField(KIND_COLUMN, s.ByteType()))
    order = tuple(made.index(source) for source in sources)
    decode = Decode(table.name, topic, value, key, tuple(kept), order, has_kinds, count)
    casts = {
        column_name(i): cast
        for i, c in enumerate(wanted)
        if isinstance(c, Metadata) and (cast := _cast(c, connector, i))
    }
    return Decoding(tuple(read), decode, s.StructType(fields), casts)


def _is_told(column: Metadata) -> bool:
    """Whether metadata comes from the value's format, not from Kafka."""
    return column.key.startswith(VALUE_PREFIX)


def _source_of(column: Column) -> tuple[str, str]:
    if not isinstance(column, Metadata):
        return "column", column.name
    return ("told", column.key) if _is_told(column) else ("kernel", KERNEL_COLUMNS[column.key][0])


def _cast(column: Metadata, connector: TopicTable, index: int) -> str | None:
    """From the metadata's own type to the type that the table declares."""
    source = connector.metadata_keys[column.key].read_type
    if source.same(column.type):
        return None
    return to_sql(Call(column.type, "CAST", (Input(source, index, column.name),)))

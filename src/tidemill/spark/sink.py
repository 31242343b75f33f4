"""Sinks: the rows of a job on their way out. In: DataFrames with columns c0… and maybe `_kind`, one per sink.
Out: DataFrames of one shape, whose union the kernel's sink writes: a job is one query, whatever it writes to.

Law: an upsert table gets a record per insert or update-after and a tombstone per delete (or update-before that
arrives); a format that tells kinds gets every row with its kind; any other table gets inserts only, which the planner
has made sure of.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql import types as s

from tidemill.changelog import KIND_COLUMN
from tidemill.formats import format_module
from tidemill.plan import nodes
from tidemill.plan.modes import Modes
from tidemill.spark.access import Access
from tidemill.spark.arrow import map_in_arrow
from tidemill.spark.bounded import located
from tidemill.spark.constraints import Constraints, takes_back
from tidemill.spark.counting import Count
from tidemill.spark.expressions import column_name
from tidemill.spark.faults import reported
from tidemill.spark.java import java_class
from tidemill.spark.kernel_encode import straight_way
from tidemill.spark.lower import TASK_COLUMN
from tidemill.spark.partitioner import Partition, Partitioner
from tidemill.spark.printing import rendered
from tidemill.tables.builtin import BlackholeTable, PrintTable
from tidemill.tables.catalog import Metadata, Table
from tidemill.tables.filesystem import FilesystemTable
from tidemill.tables.kafka import KafkaTable, TopicTable
from tidemill.tables.references import resolved_options
from tidemill.tables.upsert_kafka import NullKeys, UpsertKafkaTable
from tidemill.types import Field

if TYPE_CHECKING:
    import pyarrow as pa

# The kernel sink's columns that a table's writable metadata fills.
_METADATA_COLUMNS: dict[str, tuple[str, str]] = {
    "topic": ("topic", "STRING"),
    "headers": ("headers", "MAP<STRING, BINARY>"),
    "header-list": ("header_list", "ARRAY<STRUCT<key: STRING, value: BINARY>>"),
    "timestamp": ("timestamp", "TIMESTAMP"),
}


# How a row without columns is written: the value of a table that has all its columns in the key.
_WITHOUT_COLUMNS = {"json": b"{}", "csv": b"", "avro": b""}


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
    """Rows to records: (c0…, _kind?, kernel columns…) → (key?, value, kernel columns…).

    In a Python worker, or where the kernel can do it itself (`kernel_encode`) as it says here.
    """

    table: str
    value: Encoding
    key: Encoding | None
    kept: tuple[str, ...]
    constraints: Constraints
    deletes: bool
    """Whether a row that is gone is a record without a value."""
    changes: bool
    """Whether the value's format tells the rows' kinds."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        with reported(self.table):
            # In Flink's order: a schema registry numbers what they register.
            key_encoder = self.key.encoder() if self.key else None
            value_encoder = self.value.encoder()
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
        stays = pc.invert(takes_back(batch)) if self.deletes else None
        if stays is None or pc.all(stays).as_py():
            return self._encode(encoder, self.value, batch, *kinds)
        # Of a row that goes only the key counts: its other columns may hold what no value may.
        encoded = self._encode(encoder, self.value, batch.filter(stays))
        place = pc.subtract(pc.cumulative_sum(stays.cast(pa.int32())), 1)
        return encoded.take(pc.if_else(stays, place, pa.scalar(None, pa.int32())))

    def _encode(self, encoder: Any, side: Encoding, batch: pa.RecordBatch, *kinds: Any) -> Any:
        import pyarrow as pa

        if not side.columns and side.format in _WITHOUT_COLUMNS:
            # Of columns that are not there nobody can tell how many rows they have.
            document = pa.scalar(_WITHOUT_COLUMNS[side.format], pa.binary())
            return pa.repeat(document, batch.num_rows)
        with reported(self.table):
            return encoder.encode([batch.column(c) for c in side.columns], *kinds)

    def enforce(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with every constraint of the table kept."""
        return self.constraints.enforce(batch)


def kafka_records(
    frame: DataFrame,
    sink: nodes.Sink,
    index: int,
    dropped: Count | None,
    partitioner: Partitioner | None,
) -> DataFrame:
    """The sink's rows as (sink, topic?, partition?, key, value, headers?, timestamp?) for the kernel.

    `dropped` counts rows with a NULL where none may be; without it they stop the job.
    """
    table = sink.table
    connector, schema = table.connector, table.schema
    assert isinstance(connector, TopicTable)
    place = {c.name: column_name(i) for i, c in enumerate(schema.writable)}
    value = Encoding(
        connector.value_format.name,
        resolved_options(connector.value_format.options),
        connector.value_fields(schema),
        tuple(place[c] for c, _ in connector.value_columns),
    )
    key = None
    if connector.key_format is not None:
        key = Encoding(
            connector.key_format.name,
            resolved_options(connector.key_format.options),
            connector.key_fields(schema),
            tuple(place[c] for c, _ in connector.key_columns),
        )
    has_kinds = KIND_COLUMN in frame.columns
    deletes = has_kinds and isinstance(connector, UpsertKafkaTable)
    changes = has_kinds and not connector.value_format.definition.changelog.insert_only
    written = [c for c in schema.metadata if not c.virtual]
    filled = {_METADATA_COLUMNS[c.key]: c for c in written}
    if sink.enforcement.lengths == "TRIM_PAD" and connector.sink_parallelism is not None:
        # A key that is cut must be cut before its rows go to their writers.
        frame = kept(frame, sink, dropped)
    fixed = _is_fixed(connector)
    prepared = frame.select(
        *(n for n in frame.columns if n != KIND_COLUMN or deletes or changes),
        *(
            f.expr(f"CAST({place[column.name]} AS {ddl})").alias(name)
            for (name, ddl), column in filled.items()
        ),
    )
    written_by = _to_writers(prepared, table, place)
    if fixed:
        # The number of the writer among those of this sink, which the kernel makes a partition of.
        by_task = connector.sink_parallelism is None
        number = TASK_COLUMN if by_task else "spark_partition_id()"
        written_by = written_by.withColumn("partition", f.expr(number))
    names = (*(name for name, _ in filled), *(["partition"] if fixed else []))
    constraints = _constraints(sink, dropped)
    encode = Encode(table.name, value, key, names, constraints, deletes, changes)
    rows = written_by.drop(TASK_COLUMN)
    if partitioner is None:
        return _records(_encoded(rows, encode), index)
    output = _output(rows, encode).add("partition", s.IntegerType())
    columns_of = tuple((place[c.name], c.name) for c in schema.writable)
    run = Partition(encode, partitioner, columns_of)
    return _records(map_in_arrow(rows, run, output), index)


def _encoded(rows: DataFrame, encode: Encode) -> DataFrame:
    straight = straight_way(encode)
    if straight is None:
        return map_in_arrow(rows, encode, _output(rows, encode))
    documents = java_class(rows.sparkSession, "io.tidemill.encode.Documents")
    return DataFrame(documents.encode(rows._jdf, json.dumps(straight)), rows.sparkSession)


def _output(rows: DataFrame, encode: Encode) -> s.StructType:
    """The columns that `encode` gives."""
    made = ["key", "value"] if encode.key else ["value"]
    fields = [s.StructField(name, s.BinaryType()) for name in made]
    return s.StructType([*fields, *(rows.schema[name] for name in encode.kept)])


def _constraints(sink: nodes.Sink, dropped: Count | None) -> Constraints:
    connector = sink.table.connector
    keyless = isinstance(connector, UpsertKafkaTable) and connector.null_keys is NullKeys.WRITE
    free = sink.table.schema.primary_key if keyless else ()
    columns = tuple(
        (column_name(i), Field(c.name, c.type.as_nullable if c.name in free else c.type))
        for i, c in enumerate(sink.table.schema.writable)
        if not isinstance(c, Metadata)
    )
    by_key = isinstance(connector, UpsertKafkaTable)
    key = frozenset(sink.table.schema.primary_key) if by_key else None
    return Constraints(sink.table.name, columns, sink.enforcement, dropped, key)


def kept(frame: DataFrame, root: nodes.Root, dropped: Count | None) -> DataFrame:
    """The rows with every constraint of their table kept."""
    if not isinstance(root, nodes.Sink):
        return frame
    constraints = _constraints(root, dropped)
    return frame if constraints.is_trivial else map_in_arrow(frame, constraints, frame.schema)


def file_records(
    frame: DataFrame, sink: nodes.Sink, index: int, dropped: Count | None
) -> DataFrame:
    """The rows as lines, each with the partition that it goes to in place of a topic."""
    table = sink.table
    connector = table.connector
    assert isinstance(connector, FilesystemTable)
    place = {c.name: column_name(i) for i, c in enumerate(table.schema.writable)}
    by = [place[key] for key in connector.partition_keys]
    if connector.sink_parallelism is not None or (connector.shuffles and by):
        tasks = connector.sink_parallelism
        frame = frame.repartition(*([tasks] if tasks else []), *(by or frame.columns))
    value = Encoding(
        connector.format.name,
        resolved_options(connector.format.options),
        connector.fields,
        tuple(place[f.name] for f in connector.fields),
    )
    prepared = frame.withColumn("topic", f.expr(_partition_of(connector, place)))
    encode = Encode(table.name, value, None, ("topic",), _constraints(sink, dropped), False, False)
    return _records(_encoded(prepared, encode), index)


def _partition_of(connector: FilesystemTable, place: Mapping[str, str]) -> str:
    """`name=value` of each partition column, the kernel's separator between them."""
    default = connector.default_partition.replace("\\", "\\\\").replace("'", "\\'")
    parts = [
        f"concat('{quote(key, safe=' ')}=', coalesce(nullif(CAST({place[key]} AS STRING), ''), '{default}'))"
        for key in connector.partition_keys
    ]
    return f"concat_ws(char(0), {', '.join(parts)})" if parts else "CAST(NULL AS STRING)"


def printed_records(
    frame: DataFrame, root: nodes.Root, index: int, dropped: Count | None, style: str
) -> DataFrame:
    """The rows as lines of text; a row's kind takes the place of a partition."""
    lines = rendered(kept(frame, root, dropped), root.input.columns, style)
    shown = lines.selectExpr("CAST(kind AS INT) AS partition", "CAST(text AS BINARY) AS value")
    return _records(shown, index)


def swallowed_records(
    frame: DataFrame, root: nodes.Root, index: int, dropped: Count | None
) -> DataFrame:
    nothing = f.expr("CAST(NULL AS BINARY)").alias("value")
    return _records(kept(frame, root, dropped).select(nothing), index)


_RECORD = (
    ("topic", "STRING"),
    ("partition", "INT"),
    ("key", "BINARY"),
    ("value", "BINARY"),
    ("headers", "MAP<STRING, BINARY>"),
    ("header_list", "ARRAY<STRUCT<key: STRING, value: BINARY>>"),
    ("timestamp", "TIMESTAMP"),
)


def _records(frame: DataFrame, index: int) -> DataFrame:
    """The shape that all sinks share, so that their rows can be one union."""
    columns = [f.lit(index).alias("sink")]
    for name, ddl in _RECORD:
        present = name in frame.columns
        columns.append((f.col(name) if present else f.expr(f"CAST(NULL AS {ddl})")).alias(name))
    return frame.select(*columns)


def follows_tasks(root: nodes.Root, modes: Modes) -> bool:
    """Whether it is the task a row comes from that says who writes it.

    So it is with `fixed`, which counts writers, where every task of the operator before the sink is one; and with
    changes that have no key: they have an order only within the task that gave them, and as in Flink stay together.
    """
    if not isinstance(root, nodes.Sink) or not isinstance(root.table.connector, TopicTable):
        return False
    connector = root.table.connector
    if connector.sink_parallelism is None:
        return _is_fixed(connector)
    return not _writer_key(root.table) and not modes.of(root.input).insert_only


def _writer_key(table: Table) -> list[str]:
    """The columns by which rows go to their writers."""
    connector = table.connector
    assert isinstance(connector, TopicTable)
    return [name for name, _ in connector.key_columns] or list(table.schema.primary_key)


def _to_writers(frame: DataFrame, table: Table, place: Mapping[str, str]) -> DataFrame:
    """`sink.parallelism`: rows of a key go to one writer, in their order, and so do a task's changes that have none;
    inserts without a key are spread."""
    connector = table.connector
    assert isinstance(connector, TopicTable)
    writers = connector.sink_parallelism
    if writers is None:
        return frame
    if TASK_COLUMN in frame.columns:
        return frame.repartitionById(writers, f.expr(f"pmod({TASK_COLUMN}, {writers})"))
    # A replayed batch must find the same ways again, so that rows without a key go by all that Spark can hash.
    columns = [place[name] for name in _writer_key(table)] or [
        c.name
        for c in frame.schema
        if "map<" not in c.dataType.simpleString() and c.name != KIND_COLUMN
    ]
    return frame.repartition(writers, *columns)


def sink_spec(roots: Sequence[nodes.Root], job: str, ends: bool, access: Access) -> dict[str, Any]:
    """Where the kernel writes, for each root; `job` tells the job from all others, run after run.

    `ends`: the job ends by itself.
    """
    targets = [_target(root, job, ends, access) for root in roots]
    return {"job": job, "sinks": targets}


def _target(root: nodes.Root, job: str, ends: bool, access: Access) -> dict[str, Any]:
    if not isinstance(root, nodes.Sink):
        return {"table": "SELECT", "connector": "print"}
    table = root.table
    match table.connector:
        case TopicTable() as connector:
            return {
                "table": table.name,
                "connector": "kafka",
                "topic": connector.topics[0] if connector.has_one_topic else None,
                "topics": list(connector.topics) or None,
                "topicPattern": connector.topic_pattern,
                "properties": access.properties(connector),
                "guarantee": connector.delivery_guarantee.value,
                "ends": ends,
                "transactionalIdPrefix": transactional_id_prefix(table, job),
                # `round-robin` is Flink's word for leaving it to the client, as `default` does.
                "partitioner": "fixed" if _is_fixed(connector) else "default",
                "parallelism": connector.sink_parallelism,
                "buffer": _buffer(connector),
            }
        case FilesystemTable() as files:
            return {
                "table": table.name,
                "connector": "filesystem",
                "path": located(files.path),
                "successFile": files.success_file,
            }
        case PrintTable():
            return {"table": table.name, "connector": "print"}
        case BlackholeTable():
            return {"table": table.name, "connector": "blackhole"}
    raise TypeError(type(table.connector))


def transactional_id_prefix(table: Table, job: str) -> str:
    connector = table.connector
    assert isinstance(connector, TopicTable)
    return connector.transactional_id_prefix or f"tidemill-{job}-{table.name}"


def _is_fixed(connector: TopicTable) -> bool:
    return isinstance(connector, KafkaTable) and connector.partitioner == "fixed"


def _buffer(connector: TopicTable) -> dict[str, int] | None:
    flush = connector.buffer_flush if isinstance(connector, UpsertKafkaTable) else None
    if flush is None:
        return None
    millis = int(flush.interval.total_seconds() * 1000)
    return {"maxRows": flush.max_rows, "intervalMs": millis}

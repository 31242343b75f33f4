"""Scans: a table becomes a streaming DataFrame with columns c0, c1, … in the order that the plan asks for.

Kafka: the kernel's source gives records, `Decode` turns them into columns, Arrow batch by Arrow batch. Where the kernel
can do that itself it does (`kernel_decode`), and `Decode` has the records of which it is not sure.
Law: a record that cannot be decoded goes where the table's `scan.bad-records` says; by default it stops the job, with
its address. Nothing is dropped without being counted.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as s

from tidemill.changelog import KIND_COLUMN, ORDER_COLUMN, ORIGIN_COLUMN, RowKind
from tidemill.formats import UNREADABLE, BadRecord, Decoded, format_module
from tidemill.plan import nodes
from tidemill.plan.expressions import Call, Input
from tidemill.spark.access import Access
from tidemill.spark.arrow import arrow_function, map_in_arrow
from tidemill.spark.counting import Count
from tidemill.spark.expressions import column_name, to_sql
from tidemill.spark.faults import RecordFault, reported
from tidemill.spark.java import java_class
from tidemill.spark.kernel_decode import straight_way
from tidemill.spark.letters import letter_box
from tidemill.spark.operators import divert
from tidemill.spark.types import spark_type
from tidemill.tables.catalog import Column, Metadata, Physical, Table
from tidemill.tables.formats import IGNORE_PARSE_ERRORS, VALUE_PREFIX, FormatSpec
from tidemill.tables.kafka import BAD_RECORDS, HEADER_LIST, ROW_KIND, BadRecords, TopicTable
from tidemill.tables.references import resolved_options
from tidemill.tables.upsert_kafka import UpsertKafkaTable
from tidemill.types import BYTES, Field, RowType, SqlType

if TYPE_CHECKING:
    import pyarrow as pa

# Metadata keys of a Kafka table and the kernel's columns for them.
KERNEL_COLUMNS: dict[str, tuple[str, Any]] = {
    "topic": ("topic", s.StringType()),
    "partition": ("partition", s.IntegerType()),
    "headers": ("headers", s.MapType(s.StringType(), s.BinaryType())),
    "header-list": ("header_list", spark_type(HEADER_LIST)),
    "leader-epoch": ("leader_epoch", s.IntegerType()),
    "offset": ("offset", s.LongType()),
    "timestamp": ("timestamp", s.TimestampType()),
    "timestamp-type": ("timestamp_type", s.StringType()),
}

KEY_LOSS = "{} as key"
"""What is said of a record that is left out because of its key, out of what a format says of values."""
NO_ROW = "no row"
"""Of a key that can be read and holds no row: an empty array."""
SKIPPED = "bad record"
DEAD_LETTER = "bad record, in the dead-letter topic"
NULLED = "value that cannot be read and is NULL"
CHANGED_KEY = "update that changes the key"

BAD_COLUMN = "_bad"
# What a dead letter is made of; NULL in a row that is none.
_LETTER = RowType(
    fields=(Field("key", BYTES), Field("value", BYTES), Field("headers", HEADER_LIST)),
)
# What a dead letter says of its origin, beside the record's own headers, and the kernel's columns that tell it.
_HEADER_PREFIX = "tidemill."
_ORIGIN_COLUMNS = ("key", "value", "header_list", "timestamp")


def kafka_spec(
    table: Table, columns: Sequence[str], max_rows_per_batch: int | None, access: Access
) -> dict[str, Any]:
    """The kernel source's JSON spec. Spark prunes no columns of a streaming scan, so they are named here."""
    connector = table.connector
    assert isinstance(connector, TopicTable)
    startup, bounded = connector.effective_startup, connector.bounded
    interval, reading = connector.discovery_interval, connector.reading
    spec = {
        "table": table.name,
        **topics_spec(connector, access),
        "columns": list(columns),
        "startup": _position(startup),
        "bounded": _position(bounded),
        "discoveryIntervalMs": int(interval.total_seconds() * 1000) if interval else 0,
        "maxRowsPerBatch": reading.max_rows_per_batch or max_rows_per_batch,
        "rowsPerSecond": reading.rows_per_second,
        "onDataLoss": reading.data_loss.value,
    }
    if connector.group_id is None:
        spec["defaultGroup"] = f"KafkaSource-{table.identifier}"
    return spec


def topics_spec(connector: TopicTable, access: Access) -> dict[str, Any]:
    """Which topics, and how to reach them."""
    topics = (
        {"topics": list(connector.topics)}
        if connector.topics
        else {"topicPattern": connector.topic_pattern}
    )
    return {"properties": access.properties(connector), **topics}


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
    deletes: bool = False
    """Whether a null is a delete, a row of NULLs, and all else an upsert; which is which its kind tells."""

    def reader(self, judged: bool) -> SideReader:
        """`judged`: a document that `ignore-parse-errors` would skip is a bad record all the same."""
        lenient = bool(self.options.get(_IGNORE))
        strict = self._decoder({**self.options, _IGNORE: False}) if judged and lenient else None
        return SideReader(self, self._decoder(self.options), strict)

    def _decoder(self, options: Mapping[str, object]) -> Any:
        more = (self.metadata,) if self.metadata else ()
        return format_module(self.format).decoder(self.fields, options, self.wanted, *more)


_IGNORE = IGNORE_PARSE_ERRORS.key


@dataclass(frozen=True)
class SideReader:
    """Decodes one side of records."""

    side: Side
    decoder: Any
    strict: Any | None
    """Tells why a document was skipped; it is asked only when one was."""

    def read(self, values: pa.Array) -> Decoded:
        return self._changes(values) if self.side.deletes else self._rows(values)

    def _changes(self, values: pa.Array) -> Decoded:
        """Upserts and deletes, in the order of their records. No format sees the nulls, though some would read them."""
        import pyarrow as pa
        import pyarrow.compute as pc

        present, gone = (
            pc.indices_nonzero(which).cast(pa.int32())
            for which in (values.is_valid(), values.is_null())
        )
        found = self._rows(values.take(present) if len(gone) else values)
        rows = present if found.records is None else present.take(found.records)
        kinds = [_repeated(RowKind.UPDATE_AFTER, len(rows)), _repeated(RowKind.DELETE, len(gone))]
        found.kinds = pa.concat_arrays(kinds)
        if not len(gone):
            return found
        records = pa.concat_arrays([rows, gone])
        order = pc.sort_indices(records)
        return Decoded(
            [pa.concat_arrays([c, pa.nulls(len(gone), c.type)]).take(order) for c in found.columns],
            None if found.records is None else records.take(order),
            found.kinds.take(order),
            [BadRecord(present[b.index].as_py(), b.field, b.reason) for b in found.bad],
            found.dropped,
            found.nulled,
        )

    def _rows(self, values: pa.Array) -> Decoded:
        import pyarrow as pa

        decoded: Decoded = self.decoder.decode(values)
        if self.strict is None or not decoded.dropped.get(UNREADABLE):
            return decoded
        given = set() if decoded.records is None else set(decoded.records.to_pylist())
        without_row = [i for i in range(len(values)) if i not in given and values[i].is_valid]
        judged: Decoded = self.strict.decode(values.take(pa.array(without_row, pa.int32())))
        found = [BadRecord(without_row[b.index], b.field, b.reason) for b in judged.bad]
        decoded.bad = sorted([*decoded.bad, *found], key=lambda bad: bad.index)
        decoded.dropped[UNREADABLE] -= len(found)
        return decoded


def _repeated(kind: RowKind, number: int) -> Any:
    import pyarrow as pa

    return pa.repeat(pa.scalar(int(kind), pa.int8()), number)


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
    bad_records: BadRecords | None
    """With DEAD_LETTER there is a last column, `_bad`: a dead letter has nothing but that, a row everything else."""
    count: Count = field(hash=False, compare=False)
    shared: tuple[tuple[int, int], ...] = ()
    """Of the key's columns and the value's, pairs that are one column. It comes from the value, as in Flink; of a
    delete, which has none, from the key."""
    origin: tuple[str, ...] = ()
    """The kernel columns that make ORIGIN_COLUMN and ORDER_COLUMN, which come after the kind; empty without them."""
    keys: tuple[int, ...] = ()
    """Of the value's columns, those of the primary key, where updates tell the row before."""
    met: Count = field(default=lambda name, number: None, hash=False, compare=False)
    """Counts what gives a row all the same."""

    @property
    def hidden(self) -> tuple[str, ...]:
        """The columns after c0, c1, …, but for dead letters."""
        kind = (KIND_COLUMN,) if self.has_kinds else ()
        return (*kind, *((ORIGIN_COLUMN, ORDER_COLUMN) if self.origin else ()))

    @property
    def has_letters(self) -> bool:
        return self.bad_records is BadRecords.DEAD_LETTER

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self._decode(_records(batches))

    def _decode(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from tidemill.formats.arrow import arrow_type

        judged = self.bad_records is not None
        with reported(self.table):
            value_reader = self.value.reader(judged)
            key_reader = self.key.reader(judged) if self.key else None
        names = [*(column_name(i) for i in range(len(self.order))), *self.hidden]
        letter_type = arrow_type(_LETTER)
        letters = self.has_letters
        for batch in batches:
            value = self._read(value_reader, batch.column("value"))
            if self.keys:
                self._meet(CHANGED_KEY, _changed_keys(value, self.keys))
            bad = [(found, self.value) for found in value.bad]
            origin = value.records
            if self.has_kinds:
                value.columns.append(value.kinds)
            nulled = value.nulled
            if key_reader is None:
                self._count(value.dropped)
                columns = list(value.columns)
            else:
                key = self._read(key_reader, batch.column("key"))
                nulled += key.nulled
                bad = [(found, key_reader.side) for found in key.bad] + bad
                self._count_sides(batch, (key_reader, key), (value_reader, value))
                columns, origin = _cross(key, value, batch.num_rows)
            kinds = [columns.pop()] if self.has_kinds else []
            if self.shared:
                _take_keys_of_deletes(columns, self.shared, *kinds)
            self._meet(NULLED, nulled)
            if bad:
                yield from self._judge(bad, batch, columns)
            columns += [_of_records(batch.column(name), origin) for name in self.kept]
            arrays = [*(columns[i] for i in self.order), *kinds]
            arrays += [_of_records(batch.column(name), origin) for name in self.origin]
            if letters:
                arrays.append(pa.nulls(len(arrays[0]), letter_type))
            yield pa.RecordBatch.from_arrays(arrays, names=[*names, BAD_COLUMN][: len(arrays)])

    def _read(self, reader: SideReader, values: Any) -> Decoded:
        with reported(self.table):
            return reader.read(values)

    def _meet(self, name: str, number: int) -> None:
        if number:
            self.met(name, number)

    def _count(self, losses: Mapping[str, int], form: str = "{}") -> None:
        for name, number in losses.items():
            if number:
                self.count(form.format(name), number)

    def _count_sides(
        self,
        batch: pa.RecordBatch,
        of_key: tuple[SideReader, Decoded],
        of_value: tuple[SideReader, Decoded],
    ) -> None:
        """A record is lost once: as a bad one, which `_judge` counts, else by its key, else by its value."""
        (key_reader, key), (value_reader, value) = of_key, of_value
        by_key, by_value = Counter(key.dropped), Counter(value.dropped)
        if key.records is not None:
            given = set(key.records.to_pylist())
            without_row = [i for i in range(batch.num_rows) if i not in given]
            bad = {found.index for found in (*key.bad, *value.bad)}
            judged = [i for i in without_row if i in bad]
            lost = [i for i in without_row if i not in bad]
            named = self._losses(key_reader, batch.column("key"), lost)
            by_key.subtract(self._losses(key_reader, batch.column("key"), judged))
            by_key[NO_ROW] += len(lost) - named.total()
            by_value.subtract(self._losses(value_reader, batch.column("value"), without_row))
        self._count(by_key, KEY_LOSS)
        self._count(by_value)

    def _losses(self, reader: SideReader, values: Any, records: Sequence[int]) -> Counter[str]:
        """What some records of a batch have added to its losses."""
        import pyarrow as pa

        if not records:
            return Counter()
        return Counter(self._read(reader, values.take(pa.array(records, pa.int32()))).dropped)

    def _judge(
        self, bad: Sequence[tuple[BadRecord, Side]], batch: pa.RecordBatch, columns: Sequence[Any]
    ) -> Iterator[pa.RecordBatch]:
        """What the table's policy makes of bad records: a failure, nothing, or dead letters."""
        import pyarrow as pa

        from tidemill.formats.arrow import arrow_type

        by_record: dict[int, list[tuple[BadRecord, Side]]] = {}
        for found, side in bad:
            by_record.setdefault(found.index, []).append((found, side))
        if self.bad_records in (None, BadRecords.FAIL):
            first, side = by_record[min(by_record)][0]
            raise self._fault(first, side, batch)
        if self.bad_records is BadRecords.SKIP:
            self.count(SKIPPED, len(by_record))
            return
        self.count(DEAD_LETTER, len(by_record))
        letters = [self._letter(batch, i, by_record[i]) for i in sorted(by_record)]
        types = [c.type for c in columns] + [batch.column(k).type for k in self.kept]
        arrays = [pa.nulls(len(letters), types[i]) for i in self.order]
        hidden = [pa.int8()] if self.has_kinds else []
        hidden += [batch.column(name).type for name in self.origin]
        arrays += [pa.nulls(len(letters), type_) for type_ in hidden]
        arrays.append(pa.array(letters, arrow_type(_LETTER)))
        names = (*(column_name(i) for i in range(len(self.order))), *self.hidden, BAD_COLUMN)
        yield pa.RecordBatch.from_arrays(arrays, names=names)

    def _letter(
        self, batch: pa.RecordBatch, index: int, found: Sequence[tuple[BadRecord, Side]]
    ) -> dict[str, Any]:
        """The record as it was, with headers that say where it came from and what is wrong with it."""
        topic, partition, offset = self._address(batch, index)
        errors = "; ".join(
            self._said_of(side, "its {} ") + _complaint(bad, side) for bad, side in found
        )
        origin = {
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "timestamp": batch.column("timestamp").cast("int64")[index].as_py() // 1000,
            "table": self.table,
            "error": errors,
        }
        added = [
            {"key": _HEADER_PREFIX + key, "value": str(value).encode()}
            for key, value in origin.items()
        ]
        return {
            "key": batch.column("key")[index].as_py(),
            "value": batch.column("value")[index].as_py(),
            "headers": [*batch.column("header_list")[index].as_py(), *added],
        }

    def _said_of(self, side: Side, form: str) -> str:
        """Which part of a record it is, where both are read."""
        return "" if self.key is None else form.format("key" if side is self.key else "value")

    def _address(self, batch: pa.RecordBatch, index: int) -> tuple[str, int, int]:
        partition, offset = (batch.column(name)[index].as_py() for name in ("partition", "offset"))
        return self.topic or batch.column("topic")[index].as_py(), partition, offset

    def _fault(self, bad: BadRecord, side: Side, batch: pa.RecordBatch) -> RecordFault:
        topic, partition, offset = self._address(batch, bad.index)
        place = f"table '{self.table}', topic '{topic}', partition {partition}, offset {offset}"
        where = f", field '{bad.field}'" if bad.field else ""
        part = self._said_of(side, "'s {}")
        return RecordFault(
            "RUN-010",
            f"a record{part} cannot be read as {side.format}: {place}{where}: {bad.reason}",
            _hint(bad, side),
        )


def _complaint(bad: BadRecord, side: Side) -> str:
    where = f", field '{bad.field}'" if bad.field else ""
    return f"cannot be read as {side.format}{where}: {bad.reason}"


def _records(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The records in the kernel's blocks, each an Arrow stream of one batch; nothing is copied."""
    import pyarrow as pa

    for batch in batches:
        for block in batch.column("block"):
            yield from pa.ipc.open_stream(block.as_buffer())


def _hint(bad: BadRecord, side: Side) -> str:
    skip = f"'{BAD_RECORDS.key}' = 'skip' or 'dead-letter' lets the job go on without such records"
    if _IGNORE in side.options:
        skip += f"; '{side.option_prefix}{_IGNORE}' = 'true' makes such fields NULL and skips such documents"
    advice = _advice_about_times(bad, side)
    return f"{advice}; {skip}" if advice else skip


# Times that are not in the form that a format expects, in the formats' own words.
_EPOCH = re.compile(r"'yyyy-MM-dd.*' but found '?-?(?P<digits>[0-9]+)'?$")
_TIMESTAMP = re.compile(
    r"'yyyy-MM-dd(?P<wanted>[T ])HH[^']*?(?P<wants_zone>Z?)' but found"
    r" '[0-9]{4}-[0-9]{2}-[0-9]{2}(?P<found>[Tt ])[0-9:.]+(?P<zone>Z?)'$"
)
_STANDARD = "timestamp-format.standard"


def _advice_about_times(bad: BadRecord, side: Side) -> str | None:
    """How a table could read a time that this one does not."""
    epoch = _EPOCH.search(bad.reason)
    if epoch:
        precision = 3 if len(epoch["digits"]) > 10 else 0
        made = f"TO_TIMESTAMP_LTZ({bad.field}, {precision})"
        return f"declare the field BIGINT and make a time of it: {made}"
    time = _TIMESTAMP.search(bad.reason)
    if time is None:
        return None
    has_t = time["found"] != " "
    other_form = has_t != (time["wanted"] == "T")
    if other_form and _STANDARD not in side.options:
        function, zone = ("TO_TIMESTAMP_LTZ", "''Z''") if time["zone"] else ("TO_TIMESTAMP", "")
        made = f"{function}({bad.field}, 'yyyy-MM-dd''T''HH:mm:ss{zone}')"
        return f"declare the field STRING and make a time of it: {made}"
    steps = []
    if time["zone"] and not time["wants_zone"]:
        steps.append("TIMESTAMP_LTZ is the type of times with a 'Z'")
    if time["wants_zone"] and not time["zone"]:
        steps.append("TIMESTAMP is the type of times without a 'Z'")
    if other_form:
        standard, sign = ("ISO-8601", "'T'") if has_t else ("SQL", "space")
        steps.append(f"'{side.option_prefix}{_STANDARD}' = '{standard}' reads times with a {sign}")
    return ", and ".join(steps) or None


def _of_records(column: Any, origin: Any) -> Any:
    """A column of the records as one of the rows that were made of them."""
    return column if origin is None else column.take(origin)


def _take_keys_of_deletes(
    columns: list[Any], shared: Sequence[tuple[int, int]], kinds: Any
) -> None:
    import pyarrow.compute as pc

    is_delete = pc.equal(kinds, int(RowKind.DELETE))
    if pc.any(is_delete).as_py():
        for key, value in shared:
            columns[value] = pc.if_else(is_delete, columns[key], columns[value])


def _changed_keys(changes: Decoded, keys: Sequence[int]) -> int:
    """How many updates change one of these columns: of each, the row before comes right before the row after."""
    import pyarrow as pa
    import pyarrow.compute as pc

    before = pc.indices_nonzero(pc.equal(changes.kinds, int(RowKind.UPDATE_BEFORE)))
    after = pc.add(before, pa.scalar(1, before.type))
    changed: set[int] = set()
    for key in keys if len(before) else ():
        old, new = (changes.columns[key].take(rows) for rows in (before, after))
        if not old.equals(new):
            pairs = zip(old.to_pylist(), new.to_pylist(), strict=True)
            changed.update(i for i, (a, b) in enumerate(pairs) if a != b)
    return len(changed)


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
    inserts: tuple[str, ...] | None
    """What makes the scan's columns of what was decoded where changes are told as inserts; else they are the same."""
    casts: Mapping[str, str]
    """Columns that are not of the type that the table declares, with their casts."""
    dead_letters: str | None
    """Where bad records go, as the kernel wants it."""

    def read(self, spark: SparkSession, spec: Mapping[str, Any], access: Access) -> DataFrame:
        """The table's rows, by the kernel where it can."""
        decoders = java_class(spark, "io.tidemill.kafka.PythonDecoder")
        straight = straight_way(
            self.decode,
            self.output.json(),
            lambda: decoders.keep(arrow_function(self.decode, self.output)._judf.func()),
        )
        if straight is None:
            return self.rows(_load(spark, {**spec, "blocks": True}, access))
        return self._finished(_load(spark, {**spec, "decoding": straight}, access))

    def rows(self, blocks: DataFrame) -> DataFrame:
        """The rows of blocks of records."""
        return self._finished(map_in_arrow(blocks, self.decode, self.output))

    def _finished(self, decoded: DataFrame) -> DataFrame:
        if self.dead_letters is not None:
            decoded = divert(decoded, self.dead_letters)
        # Every projection copies the rows once more, so there is none without need.
        if self.inserts is not None:
            decoded = decoded.selectExpr(*self.inserts)
        if not self.casts:
            return decoded
        return decoded.withColumns({name: f.expr(cast) for name, cast in self.casts.items()})


@dataclass(frozen=True)
class Scanning:
    """What a job has to do with its scan of a table."""

    count: Count = lambda name, number: None
    max_rows_per_batch: int | None = None
    writer: tuple[str, int] | None = None
    """The job's id and the scan's number in it, if the job writes exactly once, dead letters included."""
    every_partition: bool = False
    """Whether a partition without new records has a task too."""
    tells_origin: bool = False
    """Whether rows have an ORIGIN_COLUMN and an ORDER_COLUMN."""
    met: Count = lambda name, number: None
    clock: Mapping[str, Any] | None = None
    """What the kernel is told where somebody asks how far time has come."""
    access: Access = Access()
    ends_with_run: bool = False
    """Whether what is latest when a bounded run begins is the end of the table: nobody can go on from there."""
    types: Mapping[str, SqlType] = field(default_factory=dict)
    """Of the ROW columns of which only some fields are wanted, the types with just these."""


def read_kafka(spark: SparkSession, scan: nodes.Scan, scanning: Scanning) -> DataFrame:
    decoding = decoding_of(scan, scanning)
    spec = kafka_spec(scan.table, decoding.columns, scanning.max_rows_per_batch, scanning.access)
    more = {
        "everyPartition": scanning.every_partition,
        "clock": scanning.clock,
        "endsWithRun": scanning.ends_with_run,
    }
    return decoding.read(spark, {**spec, **more}, scanning.access)


def _load(spark: SparkSession, spec: Mapping[str, Any], access: Access) -> DataFrame:
    hidden = access.hidden(spark, spec)
    return spark.readStream.format("tidemill-kafka").option("spec", hidden).load()


def decoding_of(scan: nodes.Scan, scanning: Scanning) -> Decoding:
    table, schema = scan.table, scan.table.schema
    connector = table.connector
    assert isinstance(connector, TopicTable)
    types_of = {c.name: c.type for c in schema.columns}
    columns = [c for n in scan.names if (c := schema.column(n)) is not None]
    # A row's kind is decoded as such, whatever is made of it then.
    wanted = [c for c in columns if not _is_kind(c)]
    physical = [c.name for c in wanted if isinstance(c, Physical)]
    # A column that is in key and value comes from the value, as in Flink; of a delete without a value, from the key.
    deletes = isinstance(connector, UpsertKafkaTable)
    in_value = {column: name for column, name in connector.value_columns}
    in_key = {c: n for c, n in connector.key_columns if deletes or c not in in_value}
    told = [c.key for c in wanted if isinstance(c, Metadata) and _is_told(c)]
    if _takes_fields_by_name(connector.value_format):
        types_of |= {c: x for c, x in scanning.types.items() if c in in_value and c not in in_key}
    value = Side(
        connector.value_format.name,
        resolved_options(connector.value_format.options),
        tuple(Field(name, types_of[c]) for c, name in connector.value_columns),
        tuple(in_value[c] for c in physical if c in in_value),
        connector.value_format.prefix,
        tuple(key.removeprefix(VALUE_PREFIX) for key in dict.fromkeys(told)),
        deletes,
    )
    key = None
    if connector.key_format is not None:
        key = Side(
            connector.key_format.name,
            resolved_options(connector.key_format.options),
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
    origin = ("partition" if topic else "origin", "offset") if scanning.tells_origin else ()
    read = ["value", "partition", "offset"]
    read += [*(["key"] if key else []), *([] if topic else ["topic"])]
    read += [k for k in (*kept, *origin) if k not in read]
    letters = _dead_letters(table, scanning)
    if letters is not None:
        read += [k for k in _ORIGIN_COLUMNS if k not in read]

    # A physical column, metadata of the format and a kernel column may all be called alike.
    made = [
        *(("key" if c in in_value else "column", c) for c in physical if c in in_key),
        *(("column", c) for c in physical if c in in_value),
        *(("told", key) for key in dict.fromkeys(told)),
        *(("kernel", name) for name in kept),
    ]
    shared = tuple(
        (i, made.index(("column", c))) for i, (where, c) in enumerate(made) if where == "key"
    )
    sources = [_source_of(c) for c in wanted] or [("kernel", name) for name in kept]
    kernel_types = dict(KERNEL_COLUMNS.values())
    types = [
        kernel_types[name]
        if where == "kernel"
        else spark_type(
            connector.metadata_keys[name].read_type if where == "told" else types_of[name]
        )
        for where, name in sources
    ]
    order = tuple(made.index(source) for source in sources)
    policy = connector.reading.bad_records
    decode = Decode(
        table.name,
        topic,
        value,
        key,
        tuple(kept),
        order,
        not connector.changes.insert_only,
        policy,
        scanning.count,
        shared,
        origin,
        _told_keys(table, value.wanted, in_value),
        scanning.met,
    )
    fields = [s.StructField(column_name(i), x) for i, x in enumerate(types)]
    fields += [s.StructField(name, _HIDDEN_TYPES[name]) for name in decode.hidden]
    if letters is not None:
        fields.append(s.StructField(BAD_COLUMN, spark_type(_LETTER)))
    inserts = _as_append(columns, decode) if connector.reading.as_append else None
    casts = {
        column_name(i): cast
        for i, c in enumerate(columns)
        if isinstance(c, Metadata) and (cast := _cast(c, connector, i))
    }
    return Decoding(tuple(read), decode, s.StructType(fields), inserts, casts, letters)


_HIDDEN_TYPES = {
    KIND_COLUMN: s.ByteType(),
    ORIGIN_COLUMN: s.IntegerType(),
    ORDER_COLUMN: s.LongType(),
}


# Formats whose fields have names, so that a ROW need not be read as a whole.
_NAMED = ("json", "debezium-json", "canal-json", "maxwell-json", "ogg-json")


def _takes_fields_by_name(value_format: FormatSpec) -> bool:
    """Not where a missing field is a mistake, or where Flink's older parser looks at all of the table's types."""
    options = {**format_module("json").DEFAULTS, **value_format.options}
    looks_at_all = options["fail-on-missing-field"] or not options["decode.json-parser.enabled"]
    return value_format.name in _NAMED and not looks_at_all


def _is_kind(column: Column) -> bool:
    return isinstance(column, Metadata) and column.key == ROW_KIND


def _told_keys(table: Table, wanted: Sequence[str], in_value: Mapping[str, str]) -> tuple[int, ...]:
    """The places of the primary key's columns in the value, if it tells both rows of an update."""
    connector = table.connector
    assert isinstance(connector, TopicTable)
    if RowKind.UPDATE_BEFORE not in connector.changes:
        return ()
    names = [in_value.get(column) for column in table.schema.primary_key]
    return tuple(wanted.index(name) for name in names if name in wanted)


def _is_told(column: Metadata) -> bool:
    """Whether metadata comes from the value's format, not from Kafka."""
    return column.key.startswith(VALUE_PREFIX)


def _source_of(column: Column) -> tuple[str, str]:
    if not isinstance(column, Metadata):
        return "column", column.name
    return ("told", column.key) if _is_told(column) else ("kernel", KERNEL_COLUMNS[column.key][0])


def _dead_letters(table: Table, scanning: Scanning) -> str | None:
    """The kernel's spec of a sink for dead letters, if the table has one."""
    connector = table.connector
    assert isinstance(connector, TopicTable)
    if connector.reading.dead_letter_topic is None:
        return None
    job, number = scanning.writer or (None, 0)
    return letter_box(
        table.name,
        connector.reading.dead_letter_topic,
        scanning.access.properties(connector),
        job,
        f"{table.name}-dead-letters-{number}",
    )


def _as_append(columns: Sequence[Column], decode: Decode) -> tuple[str, ...]:
    """The columns of a table whose every change is an insert, its kind as a text where a column asks for it."""
    symbols = ", ".join(f"'{kind.symbol}'" for kind in RowKind)
    kind = (
        f"elt({KIND_COLUMN} + 1, {symbols})" if decode.has_kinds else f"'{RowKind.INSERT.symbol}'"
    )
    places = map(column_name, itertools.count())
    shown = [kind if _is_kind(c) else next(places) for c in columns] or [next(places)]
    return tuple(f"{made} AS {column_name(i)}" for i, made in enumerate(shown))


def _cast(column: Metadata, connector: TopicTable, index: int) -> str | None:
    """From the metadata's own type to the type that the table declares."""
    source = connector.metadata_keys[column.key].read_type
    if source.same(column.type):
        return None
    return to_sql(Call(column.type, "CAST", (Input(source, index, column.name),)))

"""The `debezium-avro-confluent` format: changes of a database as Debezium writes them in Avro with a schema registry.

In: a `binary` array of records as those of `avro-confluent`, with the fields before, after and op. Out: the rows and
their kinds: an insert of `after`, a delete of `before`, or an update of both. Written are inserts and deletes.
Law: a record without a value, or of no bytes, is a tombstone and gives no row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemill import types as t
from tidemill.changelog import RowKind
from tidemill.formats import BadRecord, Decoded, Remade, avro
from tidemill.formats.arrow import arrow_field
from tidemill.formats.avro_confluent import NumberedReaders, NumberedWriter, table_schema
from tidemill.formats.avro_schema import debezium_fields

NAME = "debezium-avro-confluent"

# What each op makes of `before` and of `after`.
_OPS: dict[str, tuple[RowKind | None, RowKind | None]] = {
    "c": (None, RowKind.INSERT),
    "r": (None, RowKind.INSERT),
    "u": (RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER),
    "d": (RowKind.DELETE, None),
}
_NAMES = pa.array(list(_OPS), pa.string())
_BEFORE = pa.array([before for before, _ in _OPS.values()], pa.int8())
_AFTER = pa.array([after for _, after in _OPS.values()], pa.int8())


def decoder(
    fields: Sequence[t.Field],
    options: Mapping[str, object],
    wanted: Sequence[str] | None = None,
) -> DebeziumAvroDecoder:
    names = [f.name for f in fields] if wanted is None else list(wanted)
    return DebeziumAvroDecoder(tuple(fields), dict(options), tuple(names))


def encoder(fields: Sequence[t.Field], options: Mapping[str, object]) -> DebeziumAvroEncoder:
    return DebeziumAvroEncoder(tuple(fields), dict(options))


class DebeziumAvroDecoder(Remade):
    def __init__(
        self, fields: tuple[t.Field, ...], options: dict[str, object], wanted: tuple[str, ...]
    ) -> None:
        self._made_of = (fields, options, wanted)
        envelope = debezium_fields(fields)
        self._places = [[f.name for f in fields].index(name) for name in wanted]
        self._rows = avro.Rows(envelope, None)
        schema = table_schema(NAME, envelope, options, nullable=True)
        self._readers = NumberedReaders(schema.record, envelope, self._rows.names, options)

    def decode(self, values: Any) -> Decoded:
        # An empty value is a tombstone as well.
        values = pc.if_else(
            pc.equal(pc.binary_length(values), 0), pa.scalar(None, values.type), values
        )
        found = self._rows.decode(values, self._readers.read)
        before, after, op = found.columns
        records = found.records
        if records is None:
            records = pa.array(range(len(values)), pa.int32())
        number = pc.index_in(op, _NAMES)
        old, new = _BEFORE.take(number), _AFTER.take(number)
        wrong = {
            records[i].as_py(): reason
            for problem, reason in _problems(before, after, op, number, old, new)
            for i in pc.indices_nonzero(problem).to_pylist()
        }
        bad = [BadRecord(i, None, reason) for i, reason in wrong.items()]
        if bad:
            good = pc.invert(pc.is_in(records, pa.array(list(wrong), pa.int32())))
            before, after, old, new, records = (
                x.filter(good) for x in (before, after, old, new, records)
            )
        return Decoded(
            **_changes(before, after, old, new, records, self._places),
            bad=sorted([*found.bad, *bad], key=lambda b: b.index),
            dropped=found.dropped,
        )


def _problems(
    before: Any, after: Any, op: Any, number: Any, old: Any, new: Any
) -> list[tuple[Any, str]]:
    """Masks of records that cannot be, with what is wrong; of several the last one counts."""
    found = []
    for kind, name in ((RowKind.UPDATE_BEFORE, "UPDATE"), (RowKind.DELETE, "DELETE")):
        is_kind = pc.fill_null(pc.equal(old, int(kind)), False)
        reason = (
            f'The "before" field of {name} message is null, if you are using Debezium Postgres Connector, please'
            " check the Postgres table has been set REPLICA IDENTITY to FULL level."
        )
        found.append((pc.and_(is_kind, pc.is_null(before)), reason))
    no_after = pc.and_(pc.is_valid(new), pc.is_null(after))
    found.append((no_after, 'the "after" field is null'))
    unknown = pc.and_(pc.is_null(number), pc.is_valid(op))
    for name in pc.unique(op.filter(unknown)).to_pylist():
        is_it = pc.fill_null(pc.equal(op, name), False)
        found.append((is_it, f'Unknown "op" value "{name}"'))
    found.append((pc.is_null(op), 'the "op" field is null'))
    return found


def _changes(
    before: Any, after: Any, old: Any, new: Any, records: Any, places: Sequence[int]
) -> dict[str, Any]:
    """What came before and then what came after, record by record."""
    count = len(records)
    pairs = pa.array([i + side for i in range(count) for side in (0, count)], pa.int64())
    kinds = pa.concat_arrays([old, new]).take(pairs)
    there = pairs.filter(pc.is_valid(kinds))
    both = [pa.concat_arrays(x) for x in zip(before.flatten(), after.flatten(), strict=True)]
    return {
        "columns": [both[i].take(there) for i in places],
        "kinds": kinds.drop_null(),
        "records": pa.concat_arrays([records, records]).take(there),
    }


class DebeziumAvroEncoder(Remade):
    """The schema is registered when it is made."""

    def __init__(self, fields: tuple[t.Field, ...], options: dict[str, object]) -> None:
        self._made_of = (fields, options)
        envelope = debezium_fields(fields)
        self._arrows = [arrow_field(f) for f in fields]
        schema = table_schema(NAME, envelope, options, nullable=True)
        self._writer = NumberedWriter(schema, envelope, options)

    def encode(self, columns: Sequence[Any], kinds: Any = None) -> Any:
        """An update is a delete and an insert, as in Flink: its two rows come by themselves."""
        count = len(columns[0])
        if kinds is None:
            kinds = pa.array([int(RowKind.INSERT)] * count, pa.int8())
        gone = pc.is_in(kinds, pa.array([RowKind.UPDATE_BEFORE, RowKind.DELETE], pa.int8()))
        fields = [pa.field(f.name, c.type) for f, c in zip(self._arrows, columns, strict=True)]
        before, after = (
            pa.StructArray.from_arrays(list(columns), fields=fields, mask=absent)
            for absent in (pc.invert(gone), gone)
        )
        return self._writer.write([before, after, pc.if_else(gone, "d", "c")])

"""Arrow columns → Avro records, column by column.

In: a schema, the columns' types, one array per column. Out: a `binary` array of bare records, each as Java's encoder
writes it. A column becomes an array of its values' bytes, and a record is what the columns have at its place, joined.
Law: reading gives back what was written. No Python is run per record, but for DECIMALs of more than 18 digits and
numbers of more than 56 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemill import types as t
from tidemill.errors import job_error
from tidemill.formats import avro_schema as schemas
from tidemill.formats.avro_read import swapped

# Takes a column, gives a `binary` array; null stays null.
Bytes = Callable[[Any], Any]

_WORD, _WHOLE = pa.uint64(), pa.int64()


def _u(value: int) -> Any:
    return pa.scalar(value, _WORD)


_0, _1, _2, _3, _4, _7, _8, _32, _56, _63 = map(_u, (0, 1, 2, 3, 4, 7, 8, 32, 56, 63))
_SEVENS, _EIGHTS, _ONES = map(_u, (0x7F7F7F7F7F7F7F7F, 0x8080808080808080, 0x0101010101010101))


def _joined(*parts: Any) -> Any:
    return pc.binary_join_element_wise(*parts, b"")


# ---- numbers ---------------------------------------------------------------------------------------------

# 56 bits → 28 of each four bytes → 14 of each two → seven of each byte: what to keep, what to move, and by how much.
_SPREAD = (
    (_u(0x000000000FFFFFFF), _u(0x00FFFFFFF0000000), _4),
    (_u(0x00003FFF00003FFF), _u(0x0FFFC0000FFFC000), _2),
    (_u(0x007F007F007F007F), _u(0x3F803F803F803F80), _1),
)


@lru_cache(maxsize=8)
def _word_starts(count: int) -> Any:
    return pa.array(range(0, 8 * count, 8), _WORD)


@lru_cache(maxsize=8)
def _evens(count: int) -> Any:
    return pa.array(range(0, 2 * count, 2), pa.int32())


def _parts(words: Any, first: Any, size: Any) -> Any:
    """Of each word some bytes: `size` from the one with the number `first` on."""
    count = len(words)
    if not count:
        return pa.array([], pa.binary())
    start = pc.add(_word_starts(count), first)
    offsets = pc.bit_wise_or(start, pc.shift_left(pc.add(start, size), _32))
    buffers = [None, offsets.buffers()[1], words.buffers()[1]]
    return pa.Array.from_buffers(pa.binary(), 2 * count - 1, buffers).take(_evens(count))


def _varints(zigzag: Any) -> Any:
    """Numbers without nulls, their sign in the lowest bit."""
    if (pc.max(zigzag).as_py() or 0) >= 1 << 56:
        return _long_varints(zigzag)
    for keep, move, by in _SPREAD:
        moved = pc.shift_left(pc.bit_wise_and(zigzag, move), by)
        zigzag = pc.bit_wise_or(pc.bit_wise_and(zigzag, keep), moved)
    # A byte goes on if any higher one is not zero.
    higher = pc.shift_right(zigzag, _8)
    for by in (_8, _u(16), _32):
        higher = pc.bit_wise_or(higher, pc.shift_right(higher, by))
    goes_on = pc.bit_wise_and(pc.add(pc.bit_wise_and(higher, _SEVENS), _SEVENS), _EIGHTS)
    size = pc.shift_right(pc.multiply(pc.shift_right(goes_on, _7), _ONES), _56)
    return _parts(pc.bit_wise_or(zigzag, goes_on), _0, pc.add(size, _1))


def _long_varints(zigzag: Any) -> Any:
    long = pc.greater_equal(zigzag, _u(1 << 56))
    short = _varints(pc.if_else(long, _0, zigzag))
    written = [_varint(value) for value in zigzag.filter(long).to_pylist()]
    return pc.replace_with_mask(short, long, pa.array(written, pa.binary()))


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def _without_nulls(column: Any, write: Bytes) -> Any:
    """Writes the values that are there."""
    if not column.null_count:
        return write(column)
    there = column.is_valid()
    nothing = pa.nulls(len(column), pa.binary())
    return pc.replace_with_mask(nothing, there, write(column.drop_null()))


def _whole_bytes(column: Any) -> Any:
    whole = pc.cast(column, _WHOLE)
    return _varints(pc.bit_wise_xor(pc.shift_left(whole, 1), _sign(whole)).view(_WORD))


def _sign(whole: Any) -> Any:
    """0 or -1. Arrow shifts a signed number by 62 at most."""
    return pc.shift_right(pc.shift_right(whole, 62), 1)


def _boolean_bytes(column: Any) -> Any:
    return pc.if_else(column, b"\x01", b"\x00")


def _packed(arrow: Any, size: int) -> Bytes:
    def write(column: Any) -> Any:
        # An expression's result, so that the buffer begins with the first value.
        column = pc.cast(column, arrow)
        values = pa.concat_arrays([column.slice(0, 0), column])
        offsets = pa.array(range(0, size * (len(values) + 1), size), pa.int32())
        buffers = [None, offsets.buffers()[1], values.buffers()[1]]
        return pa.Array.from_buffers(pa.binary(), len(values), buffers)

    return write


def _text_bytes(column: Any) -> Any:
    found = pc.cast(column, pa.binary())
    size = pc.cast(pc.binary_length(found), _WORD)
    return _joined(_varints(pc.shift_left(size, _1)), found)


def _time_bytes(column: Any) -> Any:
    nanos = pc.cast(pc.cast(column, pa.time64("ns")), _WHOLE)
    return _whole_bytes(pc.divide(nanos, 1_000_000))


def _timestamp_bytes(column: Any) -> Any:
    micros = (
        column if column.type.unit == "us" else pc.cast(column, pa.timestamp("us", column.type.tz))
    )
    micros = pc.cast(micros, _WHOLE)
    # Down, also before 1970.
    millis = pc.divide(micros, 1000)
    above = pc.greater(pc.multiply(millis, 1000), micros)
    return _whole_bytes(pc.if_else(above, pc.subtract(millis, 1), millis))


def _date_bytes(column: Any) -> Any:
    return _whole_bytes(pc.cast(column, pa.int32()))


# ---- decimals --------------------------------------------------------------------------------------------


def _decimal_data(type_: t.DecimalType) -> Bytes:
    """The bytes of the unscaled number, the highest first, as few as it takes."""
    arrow = pa.decimal128(type_.precision, type_.scale)

    def write(column: Any) -> Any:
        column = pc.cast(column, arrow)
        if type_.precision > 18:
            return pa.array(map(_unscaled_bytes, column.to_pylist()), pa.binary())
        fresh = pa.concat_arrays([column.slice(0, 0), column])
        whole = pa.Array.from_buffers(pa.decimal128(38, 0), len(fresh), fresh.buffers())
        number = pc.cast(whole, _WHOLE)
        # How many of the higher bytes say nothing but the sign.
        size = pc.bit_wise_xor(number, _sign(number)).view(_WORD)
        steps = [pc.greater_equal(size, _u(1 << (8 * i - 1))) for i in range(1, 8)]
        used = _1
        for step in steps:
            used = pc.add(pc.cast(step, _WORD), used)
        return _parts(swapped(number.view(_WORD)), pc.subtract(_8, used), used)

    return write


def _unscaled_bytes(value: Decimal) -> bytes:
    sign, digits, _ = value.as_tuple()
    number = int("".join(map(str, digits))) * (-1 if sign else 1)
    return number.to_bytes(
        ((number if number >= 0 else ~number).bit_length()) // 8 + 1, "big", signed=True
    )


# ---- containers ------------------------------------------------------------------------------------------


def _content(column: Any, child: Any) -> tuple[Any, Any]:
    """Offsets from 0, and the part of the child that they speak of, of a list or map array that may be a slice."""
    offsets = column.offsets
    first, last = offsets[0].as_py(), offsets[len(offsets) - 1].as_py()
    return pc.cast(pc.subtract(offsets, first), pa.int32()), child.slice(first, last - first)


def _blocks(offsets: Any, elements: Any) -> Any:
    """All elements in one block, then the empty one that ends it."""
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, elements), b"")
    count = pc.subtract(offsets.slice(1), offsets.slice(0, len(offsets) - 1))
    counts = _varints(pc.shift_left(pc.cast(count, _WORD), _1))
    filled = _joined(counts, joined, b"\x00")
    return pc.if_else(pc.greater(count, 0), filled, pa.scalar(b"\x00", pa.binary()))


def _array_bytes(element: Bytes) -> Bytes:
    def write(column: Any) -> Any:
        offsets, values = _content(column, column.values)
        return _blocks(offsets, element(values))

    return write


def _map_bytes(value: Bytes) -> Bytes:
    """Takes a map array, or a list of (key, value) structs: Arrow's and Spark's maps cannot hold Flink's null key."""

    def write(column: Any) -> Any:
        is_map = pa.types.is_map(column.type)
        offsets, keys = _content(column, column.keys if is_map else column.values.field(0))
        _, items = _content(column, column.items if is_map else column.values.field(1))
        if keys.null_count:
            raise job_error(
                "FMT-004",
                "a map with a NULL key cannot be written as Avro",
                "drop such keys in the query",
            )
        return _blocks(offsets, _joined(_text_bytes(keys), value(items)))

    return write


def _struct_bytes(write: Callable[[Sequence[Any]], Any], size: int) -> Bytes:
    def write_struct(column: Any) -> Any:
        if not size:
            return pa.array([b""] * len(column), pa.binary())
        return write(column.flatten())

    return write_struct


# ---- schemas ---------------------------------------------------------------------------------------------

_SIMPLE: dict[type[t.SqlType], Bytes] = {
    t.BooleanType: _boolean_bytes,
    t.TinyIntType: _whole_bytes,
    t.SmallIntType: _whole_bytes,
    t.IntType: _whole_bytes,
    t.BigIntType: _whole_bytes,
    t.FloatType: _packed(pa.float32(), 4),
    t.DoubleType: _packed(pa.float64(), 8),
    t.CharType: _text_bytes,
    t.VarCharType: _text_bytes,
    t.BinaryType: _text_bytes,
    t.VarBinaryType: _text_bytes,
    t.DateType: _date_bytes,
    t.TimeType: _time_bytes,
    t.TimestampType: _timestamp_bytes,
    t.TimestampLtzType: _timestamp_bytes,
}


def _writer(schema: schemas.Schema, type_: t.SqlType, path: str) -> Bytes:
    """Of a column that may hold nulls if the schema says so."""
    if schema.kind == "null":
        return lambda column: pa.array([b""] * len(column), pa.binary())
    if isinstance(schema, schemas.Union):
        kinds = [branch.kind for branch in schema.branches]
        place = next(i for i, kind in enumerate(kinds) if kind != "null")
        inner = _value_writer(schema.branches[place], type_, path)
        marked, absent = _varint(2 * place), b""
        if "null" in kinds:
            absent = _varint(2 * kinds.index("null"))
        return lambda column: pc.fill_null(_joined(marked, _without_nulls(column, inner)), absent)
    inner = _value_writer(schema, type_, path)

    def write(column: Any) -> Any:
        if column.null_count:
            raise job_error(
                "FMT-005",
                f"a NULL cannot be written as Avro: field '{path}' is NOT NULL",
                "declare the field nullable, or filter such rows out",
            )
        return inner(column)

    return write


def _value_writer(schema: schemas.Schema, type_: t.SqlType, path: str) -> Bytes:
    """Of a column without nulls."""
    match schema, type_:
        case schemas.Record(), t.RowType():
            return _struct_bytes(_row_writer(schema, type_.fields, path + "."), len(type_.fields))
        case schemas.Array(), t.ArrayType():
            return _array_bytes(_writer(schema.items, type_.element, path))
        case schemas.Map(), t.MapType():
            return _map_bytes(_writer(schema.values, type_.value, path))
        case schemas.Map(), t.MultisetType():
            return _map_bytes(_writer(schema.values, t.INT, path))
        case schemas.Enum(), _:
            return _enum_bytes(schema, path)
        case schemas.Fixed(), t.DecimalType():
            return _fixed_decimal_bytes(schema.size, type_)
        case schemas.Fixed(), _:
            return _fixed_bytes(schema.size, path)
        case _, t.DecimalType():
            data = _decimal_data(type_)
            return lambda column: _text_bytes(data(column))
    return _SIMPLE[type(type_)]


def _enum_bytes(schema: schemas.Enum, path: str) -> Bytes:
    symbols = pa.array(schema.symbols, pa.string())

    def write(column: Any) -> Any:
        number = pc.index_in(pc.cast(column, pa.string()), symbols)
        if number.null_count:
            odd = column.filter(number.is_null())[0].as_py()
            raise job_error("FMT-006", f"'{odd}' is no symbol of the enum of field '{path}'")
        return _whole_bytes(number)

    return write


def _fixed_bytes(size: int, path: str) -> Bytes:
    def write(column: Any) -> Any:
        found = pc.cast(column, pa.binary())
        if pc.any(pc.not_equal(pc.binary_length(found), size)).as_py():
            raise job_error("FMT-006", f"field '{path}' takes {size} bytes, neither more nor fewer")
        return found

    return write


def _fixed_decimal_bytes(size: int, type_: t.DecimalType) -> Bytes:
    data = _decimal_data(type_)

    def write(column: Any) -> Any:
        return pa.array(
            [
                int.from_bytes(x, "big", signed=True).to_bytes(size, "big", signed=True)
                for x in data(column).to_pylist()
            ],
            pa.binary(),
        )

    return write


def _row_writer(
    schema: schemas.Record, fields: Iterable[t.Field], path: str = ""
) -> Callable[[Sequence[Any]], Any]:
    pairs = zip(schema.fields, fields, strict=True)
    writers = [_writer(s.schema, f.type, path + f.name) for s, f in pairs]

    def write(columns: Sequence[Any]) -> Any:
        return _joined(*(w(column) for w, column in zip(writers, columns, strict=True)))

    return write


class RecordWriter:
    """Writes rows as records of a schema that says the same as the fields."""

    def __init__(self, schema: schemas.Schema, fields: Sequence[t.Field]) -> None:
        assert isinstance(schema, schemas.Record)
        self.write = _row_writer(schema, fields)

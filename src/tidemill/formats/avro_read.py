"""Avro records → Arrow columns, all records of a chunk at once and field by field.

In: a `Reading`, the types of its fields, a `binary` array. Out: one array per wanted field, and what is wrong with
the records that give no row. A chunk's bytes are one buffer with a position for each record. To read a field is to
take the eight bytes at every position, to make numbers of them by shifts and masks, and to move the positions on; no
Python is run per record. fastavro makes dicts, at a tenth of the speed.
Law: the same rows as `avro_exact` reads. A position that cannot be vouched for is sent behind the data, where it
stays; at the end a record whose position is not its end is read by `avro_exact`, which finds out what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemill import types as t
from tidemill.formats import avro_exact
from tidemill.formats import avro_schema as schemas
from tidemill.formats.arrow import arrow_type

CHUNK = 8192
"""Arrays of so many words stay in the cache; calls of Arrow cost little against the work they do."""

_WORD, _WHOLE = pa.uint64(), pa.int64()


def _u(value: int) -> Any:
    return pa.scalar(value, _WORD)


_0, _1, _2, _3, _4, _7, _8, _32, _56, _63 = map(_u, (0, 1, 2, 3, 4, 7, 8, 32, 56, 63))
_SEVENS = _u(0x7F7F7F7F7F7F7F7F)
_SIZES = _u(0x0102030405060708)
_TWO_7, _TWO_28, _TWO_32, _TWO_63 = 1 << 7, 1 << 28, _u(1 << 32), 1 << 63


@dataclass(frozen=True)
class _Source:
    """The bytes of a chunk, with room behind them for positions that are lost."""

    data: Any
    octets: Any
    words: Any
    lost: Any


# Positions and ends of records → a column (None if nobody wants it) and the positions behind the field.
Column = Callable[[_Source, Any, Any], tuple[Any, Any]]


@dataclass(frozen=True)
class _Field:
    read: Column
    room: int
    """How far a lost position may move on."""
    least: int
    """The bytes that it takes at least."""
    read_some: Callable[[_Source, Any, Any, Any], tuple[Any, Any]] | None = None
    """Reads where a mask says so; elsewhere it gives null and does not move on. None: only `read` is there."""


class _Unsure(Exception):
    """The fast way cannot vouch for a chunk; nothing is said about whether it is right."""


class _ByRecord(Exception):
    """There is no fast way for such a schema."""


# ---- numbers ---------------------------------------------------------------------------------------------


def _take(values: Any, places: Any) -> Any:
    return pc.take(values, places, boundscheck=False)


def _window(source: _Source, at: Any) -> Any:
    """The eight bytes at each position, the first one lowest."""
    place = pc.shift_right(at, _3)
    low = _take(source.words, place)
    high = _take(source.words, pc.add(place, _1))
    bits = pc.shift_left(pc.bit_wise_and(at, _7), _3)
    above = pc.shift_left(pc.shift_left(high, _1), pc.subtract(_63, bits))
    return pc.bit_wise_or(pc.shift_right(low, bits), above)


# Seven bits of each byte → 14 of each two → 28 of each four → 56: what to keep, what to move, and by how much.
_SQUEEZE = (
    (_u(0x007F007F007F007F), _u(0x7F007F007F007F00), _1),
    (_u(0x00003FFF00003FFF), _u(0x3FFF00003FFF0000), _2),
    (_u(0x000000000FFFFFFF), _u(0x0FFFFFFF00000000), _4),
)


def _squeezed(spread: Any, largest: int) -> Any:
    steps = 0 if largest < 1 << 8 else 1 if largest < 1 << 16 else 2 if largest < 1 << 32 else 3
    for keep, move, by in _SQUEEZE[:steps]:
        moved = pc.shift_right(pc.bit_wise_and(spread, move), by)
        spread = pc.bit_wise_or(pc.bit_wise_and(spread, keep), moved)
    return spread


def _largest(array: Any) -> int:
    return pc.max(array).as_py() or 0


def _varint(source: _Source, at: Any) -> tuple[Any, Any]:
    """Variable-length numbers, their sign still in the lowest bit, and the positions behind them."""
    window = _window(source, at)
    # All bits up to the first byte whose highest bit is not set.
    filled = pc.bit_wise_or(window, _SEVENS)
    mask = pc.bit_wise_xor(filled, pc.add(filled, _1))
    size = pc.shift_right(pc.multiply(pc.add(pc.shift_right(mask, _8), _1), _SIZES), _56)
    own = pc.bit_wise_and(window, mask)
    largest = _largest(own)
    if largest < _TWO_63:
        return _squeezed(pc.bit_wise_and(own, _SEVENS), largest), pc.add(at, size)
    value = _squeezed(pc.bit_wise_and(own, _SEVENS), largest)
    return _with_ninth_byte(source, at, value, pc.greater_equal(own, _u(_TWO_63)), pc.add(at, size))


def _with_ninth_byte(
    source: _Source, at: Any, value: Any, long: Any, behind: Any
) -> tuple[Any, Any]:
    """The same, where some numbers go on behind eight bytes."""
    rest = _window(source, pc.add(at, _8))
    ninth = pc.bit_wise_and(rest, _u(0x7F))
    ends = pc.equal(pc.bit_wise_and(rest, _u(0x80)), _0)
    # Of the tenth byte one bit is left.
    tenth = pc.if_else(ends, _0, pc.bit_wise_and(pc.shift_right(rest, _8), _1))
    high = pc.bit_wise_or(pc.shift_left(ninth, _56), pc.shift_left(tenth, _63))
    endless = pc.and_not(pc.not_equal(pc.bit_wise_and(rest, _u(0x8000)), _0), ends)
    size = pc.if_else(ends, _u(9), _u(10))
    next_ = pc.if_else(endless, source.lost, pc.add(at, size))
    return (
        pc.if_else(long, pc.bit_wise_or(value, high), value),
        pc.if_else(long, next_, behind),
    )


def _signed(value: Any) -> Any:
    sign = pc.subtract(_0, pc.bit_wise_and(value, _1))
    return pc.bit_wise_xor(pc.shift_right(value, _1), sign).view(_WHOLE)


def _lose(where: Any, source: _Source, at: Any) -> Any:
    """The positions, those of some records lost."""
    return pc.if_else(where, source.lost, at) if pc.any(where).as_py() else at


def _int(source: _Source, at: Any, end: Any) -> tuple[Any, Any]:
    value, behind = _varint(source, at)
    if _largest(value) >= 1 << 32:
        behind = _lose(pc.greater_equal(value, _TWO_32), source, behind)
    # A small number may be written with idle bytes, but an int has five at most.
    size = pc.subtract(behind, at)
    if _largest(size) > 5:
        behind = _lose(pc.greater(size, _u(5)), source, behind)
    return pc.cast(_signed(value), pa.int32(), safe=False), behind


def _long(source: _Source, at: Any, end: Any) -> tuple[Any, Any]:
    value, at = _varint(source, at)
    return _signed(value), at


def _double(source: _Source, at: Any, end: Any) -> tuple[Any, Any]:
    return _window(source, at).view(pa.float64()), pc.add(at, _8)


def _float(source: _Source, at: Any, end: Any) -> tuple[Any, Any]:
    low = pc.cast(pc.bit_wise_and(_window(source, at), _u(0xFFFFFFFF)), pa.uint32(), safe=False)
    return low.view(pa.float32()), pc.add(at, _4)


def _boolean(source: _Source, at: Any, end: Any) -> tuple[Any, Any]:
    return pc.equal(_take(source.octets, at), pa.scalar(1, pa.uint8())), pc.add(at, _1)


def _null(source: _Source, at: Any, end: Any) -> tuple[Any, Any]:
    return pa.nulls(len(at)), at


_NUMBERS: dict[str, tuple[Column, int, int]] = {
    "null": (_null, 0, 0),
    "boolean": (_boolean, 1, 1),
    "int": (_int, 10, 1),
    "long": (_long, 10, 1),
    "float": (_float, 4, 4),
    "double": (_double, 8, 8),
}

# ---- columns of numbers ----------------------------------------------------------------------------------


def _timestamps(arrow: Any) -> Column:
    def finish(source: _Source, millis: Any, at: Any) -> tuple[Any, Any]:
        most = avro_exact.MOST_MILLIS
        range_ = pc.min_max(millis).as_py()
        if range_["min"] is not None and max(-range_["min"], range_["max"]) > most:
            beyond = pc.or_(pc.greater(millis, most), pc.less(millis, -most))
            at = _lose(beyond, source, at)
        return pc.multiply(millis, 1000).view(arrow), at

    return finish


def _cast(arrow: Any) -> Column:
    return lambda source, found, at: (pc.cast(found, arrow, safe=False), at)


def _times(source: _Source, millis: Any, at: Any) -> tuple[Any, Any]:
    range_ = pc.min_max(millis).as_py()
    if range_["min"] is not None and (range_["min"] < 0 or range_["max"] >= avro_exact.DAY):
        beyond = pc.or_(pc.less(millis, 0), pc.greater_equal(millis, avro_exact.DAY))
        at = _lose(beyond, source, at)
        millis = pc.if_else(beyond, pa.scalar(0, millis.type), millis)
    return pc.multiply(pc.cast(millis, _WHOLE), 1_000_000).view(pa.time64("ns")), at


def _as_they_are(source: _Source, found: Any, at: Any) -> tuple[Any, Any]:
    return found, at


_FINISH: dict[type[t.SqlType], Column] = {
    t.TinyIntType: _cast(pa.int8()),
    t.SmallIntType: _cast(pa.int16()),
    t.BigIntType: _cast(pa.int64()),
    t.FloatType: _cast(pa.float32()),
    t.DoubleType: _cast(pa.float64()),
    t.DateType: lambda source, found, at: (found.view(pa.date32()), at),
    t.TimeType: _times,
    t.TimestampType: _timestamps(pa.timestamp("us")),
    t.TimestampLtzType: _timestamps(pa.timestamp("us", tz="UTC")),
}


def _number(reading: schemas.Scalar, type_: t.SqlType | None) -> _Field:
    read, room, least = _NUMBERS[reading.wrote]
    if type_ is None or isinstance(type_, (t.NullType, t.BooleanType, t.IntType)):
        return _Field(read, room, least, _some(read))
    finish = _FINISH[type(type_)]

    def column(source: _Source, at: Any, end: Any) -> tuple[Any, Any]:
        found, at = read(source, at, end)
        return finish(source, found, at)

    return _Field(column, room, least, _some(column))


def _some(read: Column) -> Callable[[_Source, Any, Any, Any], tuple[Any, Any]]:
    """Reads everywhere, and forgets what is not there."""

    def read_some(source: _Source, at: Any, end: Any, there: Any) -> tuple[Any, Any]:
        found, behind = read(source, at, end)
        return _masked(found, there), pc.if_else(there, behind, at)

    return read_some


def _masked(found: Any, there: Any) -> Any:
    """Nothing is copied: the mask becomes the array's own."""
    if found is None or pa.types.is_null(found.type):
        return found
    if found.null_count or found.offset or there.offset:
        return pc.if_else(there, found, pa.scalar(None, found.type))
    buffers = [there.buffers()[1], *found.buffers()[1:]]
    return pa.Array.from_buffers(found.type, len(found), buffers)


# ---- bytes -----------------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def _evens(count: int) -> Any:
    return pa.array(range(0, 2 * count, 2), pa.int32())


def _pieces(source: _Source, start: Any, stop: Any) -> Any:
    """The bytes between two positions of each record, in order: every other piece of one long array."""
    count = len(start)
    if not count:
        return pa.array([], pa.binary())
    offsets = pc.bit_wise_or(start, pc.shift_left(stop, _32))
    buffers = [None, offsets.buffers()[1], source.data]
    return pa.Array.from_buffers(pa.binary(), 2 * count - 1, buffers).take(_evens(count))


def _length(source: _Source, at: Any, end: Any) -> tuple[Any, Any]:
    value, at = _varint(source, at)
    negative = pc.not_equal(pc.bit_wise_and(value, _1), _0)
    return pc.shift_right(value, _1), _lose(negative, source, at)


def _span(source: _Source, at: Any, end: Any, size: Any) -> tuple[Any, Any, Any]:
    """Where the bytes start and stop, and the positions behind them: nothing is beyond its record's end."""
    # A size may be anything, and a sum beyond 64 bits would be small again.
    stop = pc.add(at, pc.min_element_wise(size, _TWO_32))
    fits = pc.less_equal(stop, end)
    if pc.all(fits).as_py():
        return at, stop, stop
    inside = pc.if_else(fits, stop, end)
    return pc.if_else(fits, at, end), inside, pc.if_else(fits, stop, source.lost)


def _texts(source: _Source, start: Any, stop: Any) -> Any:
    pieces = _pieces(source, start, stop)
    try:
        return pc.cast(pieces, pa.string())
    except pa.ArrowInvalid:
        return pa.array([p.decode("utf-8", "replace") for p in pieces.to_pylist()], pa.string())


# Bytes in the other order: each with its neighbour, then twos, then fours.
_SWAPS = (
    (_u(0x00FF00FF00FF00FF), _8),
    (_u(0x0000FFFF0000FFFF), _u(16)),
    (_u(0x00000000FFFFFFFF), _32),
)


def swapped(words: Any) -> Any:
    for mask, by in _SWAPS:
        up = pc.shift_left(pc.bit_wise_and(words, mask), by)
        words = pc.bit_wise_or(up, pc.bit_wise_and(pc.shift_right(words, by), mask))
    return words


def _decimals(type_: t.DecimalType) -> Callable[[_Source, Any, Any], Any]:
    arrow, limit = arrow_type(type_), 10**type_.precision
    convert = avro_exact.converter(type_)

    def build(source: _Source, start: Any, stop: Any) -> Any:
        size = pc.subtract(stop, start)
        if _largest(size) > 8:
            pieces = _pieces(source, start, stop).to_pylist()
            return pa.array([convert(p) if p else None for p in pieces], arrow)
        # Shifted as signed numbers, which keeps the sign.
        unused = pc.subtract(_u(64), pc.shift_left(size, _3))
        unscaled = pc.shift_right(swapped(_window(source, start)).view(_WHOLE), unused.view(_WHOLE))
        if limit < 10**18:
            fits = pc.and_(pc.less(unscaled, limit), pc.greater(unscaled, -limit))
            if not pc.all(fits).as_py():
                unscaled = pc.if_else(fits, unscaled, pa.scalar(None, _WHOLE))
        whole = pc.cast(unscaled, pa.decimal128(19, 0))
        return pa.Array.from_buffers(arrow, len(whole), whole.buffers(), offset=whole.offset)

    return build


def _bytes(type_: t.SqlType | None, size: int | None) -> _Field:
    """Texts, bytes and decimals; `size` is that of a `fixed`."""
    build: Callable[[_Source, Any, Any], Any]
    is_decimal = isinstance(type_, t.DecimalType)
    match type_:
        case None:
            build = lambda source, start, stop: None  # noqa: E731
        case t.DecimalType():
            build = _decimals(type_)
        case t.CharType() | t.VarCharType():
            build = _texts
        case _:
            build = _pieces

    def read(source: _Source, at: Any, end: Any, there: Any) -> tuple[Any, Any]:
        if size is None:
            length, at = _length(source, at, end)
        else:
            length = _u(size)
        if there is not None:
            length = pc.if_else(there, length, _0)
        start, stop, at = _span(source, at, end, length)
        if is_decimal:
            # There is no number of no bytes.
            at = _lose(pc.equal(start, stop), source, at)
        return build(source, start, stop), at

    def read_some(source: _Source, at: Any, end: Any, there: Any) -> tuple[Any, Any]:
        found, behind = read(source, at, end, there)
        return _masked(found, there), pc.if_else(there, behind, at)

    room, least = (10, 1) if size is None else (0, size)
    return _Field(lambda source, at, end: read(source, at, end, None), room, least, read_some)


def _symbols(reading: schemas.Symbols) -> _Field:
    symbols = pa.array(reading.symbols, pa.string())

    def column(source: _Source, at: Any, end: Any) -> tuple[Any, Any]:
        number, at = _int(source, at, end)
        known = pc.and_(pc.greater_equal(number, 0), pc.less(number, len(symbols)))
        if not pc.all(known).as_py():
            at = _lose(pc.invert(known), source, at)
            number = pc.if_else(known, number, pa.scalar(None, number.type))
        found = symbols.take(number)
        return found, _lose(pc.is_null(found), source, at) if symbols.null_count else at

    return _Field(column, 10, 1)


# ---- containers ------------------------------------------------------------------------------------------


def _scattered(values: Any, where: Any) -> Any:
    """Values of some rows as a column of all rows, the others null."""
    rank = pc.subtract(pc.cumulative_sum(pc.cast(where, pa.int32())), 1)
    return values.take(pc.if_else(where, rank, pa.scalar(None, pa.int32())))


def _nothing(type_: t.SqlType | None, count: int) -> Any:
    return None if type_ is None else pa.nulls(count, arrow_type(type_))


def _branches(reading: schemas.Branches, type_: t.SqlType | None) -> _Field:
    """A union of null and something else, or of one type."""
    is_null = [b == schemas.Scalar("null", "null") for b in reading.branches]
    refused = [isinstance(b, schemas.Refused) for b in reading.branches]
    others = [i for i in range(len(is_null)) if not is_null[i] and not refused[i]]
    if len(others) > 1 or len(is_null) > 63 or not is_null:
        raise _ByRecord
    if not others:
        others = [refused.index(True) if True in refused else 0]
    chosen = others[0]
    inner = _field(reading.branches[chosen], type_)
    chosen_mark = pa.scalar(2 * chosen, pa.uint8())
    null_mark = pa.scalar(2 * is_null.index(True), pa.uint8()) if True in is_null else None

    def column(source: _Source, at: Any, end: Any) -> tuple[Any, Any]:
        mark = _take(source.octets, at)
        there = pc.equal(mark, chosen_mark)
        at = pc.add(at, _1)
        if pc.all(there).as_py():
            return inner.read(source, at, end)
        known = there if null_mark is None else pc.or_(there, pc.equal(mark, null_mark))
        behind = _lose(pc.invert(known), source, at)
        if not pc.any(there).as_py():
            return _nothing(type_, len(at)), behind
        if inner.read_some:
            return inner.read_some(source, behind, end, there)
        found, moved = inner.read(source, at.filter(there), end.filter(there))
        behind = pc.replace_with_mask(behind, there, moved)
        return (None if found is None else _scattered(found, there)), behind

    return _Field(column, inner.room + 1, 1)


def _repeated(element: _Field) -> Callable[[_Source, Any, Any], tuple[Any, list[Any], Any, Any]]:
    """Blocks of elements: in a wave for all first elements, one for all second ones, and so on.

    Gives offsets, the waves' columns, the order that brings them back by record, and the positions. A record of more
    than one block, or of a block with its size, is lost.
    """
    if not element.least:
        raise _ByRecord

    def read(source: _Source, at: Any, end: Any) -> tuple[Any, list[Any], Any, Any]:
        count, at = _length(source, at, end)
        # Each element needs a byte.
        _, _, at = _span(source, at, end, count)
        lost = pc.greater(at, end)
        at = pc.if_else(lost, at, pc.subtract(at, count))
        count = pc.if_else(lost, _0, count)
        has = pc.greater(count, _0)
        rows = pc.indices_nonzero(has)
        place, stop, left = at.filter(has), end.filter(has), count.filter(has)
        wave, waves, owners = 0, [], []
        # Records whose last element has been read: number of the record, elements, position.
        done: list[tuple[Any, Any, Any]] = []
        while len(rows):
            wave += 1
            found, place = element.read(source, place, stop)
            waves.append(found)
            owners.append(rows)
            left = pc.subtract(left, _1)
            more = pc.and_(pc.greater(left, _0), pc.less_equal(place, stop))
            last = pc.invert(more)
            ended = rows.filter(last)
            done.append((ended, pa.array([wave] * len(ended), pa.int32()), place.filter(last)))
            rows, place, stop, left = (x.filter(more) for x in (rows, place, stop, left))
        if not done:
            return pa.array([0] * (len(at) + 1), pa.int32()), [], None, at
        ended, sizes, places = (pa.concat_arrays(x) for x in zip(*done, strict=True))
        by_record = pc.sort_indices(ended)
        places, sizes = places.take(by_record), sizes.take(by_record)
        # Behind the last element there is a block of none.
        empty = pc.equal(_take(source.octets, places), pa.scalar(0, pa.uint8()))
        places = _lose(pc.invert(empty), source, pc.add(places, _1))
        at = pc.replace_with_mask(at, has, places)
        sizes = pc.replace_with_mask(pa.array([0] * len(at), pa.int32()), has, sizes)
        offsets = pa.array(accumulate(sizes.to_pylist(), initial=0), pa.int32())
        return offsets, waves, pc.sort_indices(pa.concat_arrays(owners)), at

    return read


def _ordered(waves: Sequence[Any], order: Any, arrow: Any) -> Any:
    return pa.concat_arrays(waves).take(order) if waves else pa.array([], arrow)


def _items(reading: schemas.Items, type_: t.SqlType | None) -> _Field:
    element_type = type_.element if isinstance(type_, t.ArrayType) else None
    element = _field(reading.item, element_type)
    read = _repeated(element)
    if element_type is None or type_ is None:
        return _Field(lambda *given: (None, read(*given)[3]), element.room + 11, 1)
    arrow, element_arrow = arrow_type(type_), arrow_type(element_type)

    def column(source: _Source, at: Any, end: Any) -> tuple[Any, Any]:
        offsets, waves, order, at = read(source, at, end)
        values = _ordered(waves, order, element_arrow)
        return pa.ListArray.from_arrays(offsets, values, type=arrow), at

    return _Field(column, element.room + 11, 1)


def _entries(reading: schemas.Entries, type_: t.SqlType | None) -> _Field:
    value_type: t.SqlType | None = None
    if isinstance(type_, t.MapType):
        value_type = type_.value
    elif isinstance(type_, t.MultisetType):
        value_type = t.INT
    key, value = (
        _bytes(None if type_ is None else t.STRING, None),
        _field(reading.value, value_type),
    )

    def read_entry(source: _Source, at: Any, end: Any) -> tuple[Any, Any]:
        keys, at = key.read(source, at, end)
        values, at = value.read(source, at, end)
        return (None if type_ is None else (keys, values)), at

    room = key.room + value.room
    read = _repeated(_Field(read_entry, room, 1))
    if value_type is None or type_ is None:
        return _Field(lambda *given: (None, read(*given)[3]), room + 11, 1)
    arrow, value_arrow = arrow_type(type_), arrow_type(value_type)

    def column(source: _Source, at: Any, end: Any) -> tuple[Any, Any]:
        offsets, waves, order, at = read(source, at, end)
        keys = _ordered([k for k, _ in waves], order, pa.string())
        values = _ordered([v for _, v in waves], order, value_arrow)
        owners = pc.list_parent_indices(pa.ListArray.from_arrays(offsets, keys))
        _refuse_equal_keys(owners, keys)
        return pa.MapArray.from_arrays(offsets, keys, values, type=arrow), at

    return _Field(column, room + 11, 1)


def _refuse_equal_keys(owners: Any, keys: Any) -> None:
    """Of equal keys the last one counts, which is seldom enough to be left to the exact way."""
    numbers = pc.cast(keys.dictionary_encode().indices, _WHOLE)
    pairs = pc.add(pc.multiply(pc.cast(owners, _WHOLE), 1 << 32), numbers)
    if pc.count_distinct(pairs).as_py() != len(keys):
        raise _Unsure


def _refused(type_: t.SqlType | None) -> _Field:
    def column(source: _Source, at: Any, end: Any) -> tuple[Any, Any]:
        return _nothing(type_, len(at)), pc.if_else(pc.is_valid(at), source.lost, at)

    return _Field(column, 0, 1)


def _members(
    reading: schemas.Members, types: Sequence[t.SqlType | None]
) -> tuple[Callable[[_Source, Any, Any], tuple[list[Any], Any]], int, int]:
    """The reader's fields, in its order; None for those without a type, which nobody wants."""
    size = len(types)
    members = [(p, _field(r, None if p is None else types[p])) for p, r in reading.members]
    defaults = {
        i: avro_exact.default_of(reading, i, type_)
        for i, type_ in enumerate(types)
        if i in reading.defaults and type_ is not None
    }

    def read(source: _Source, at: Any, end: Any) -> tuple[list[Any], Any]:
        found: list[Any] = [None] * size
        for place, member in members:
            column, at = member.read(source, at, end)
            if place is not None:
                found[place] = column
        for place, value in defaults.items():
            found[place] = pa.repeat(value, len(at))
        return found, at

    return read, sum(m.room for _, m in members), sum(m.least for _, m in members)


def _struct(reading: schemas.Members, type_: t.SqlType | None) -> _Field:
    if not isinstance(type_, t.RowType):
        skip, room, least = _members(reading, [None] * len(reading.names))
        return _Field(lambda source, at, end: (None, skip(source, at, end)[1]), room, least)
    read, room, least = _members(reading, [f.type for f in type_.fields])
    arrow = arrow_type(type_)

    def column(source: _Source, at: Any, end: Any) -> tuple[Any, Any]:
        children, at = read(source, at, end)
        if not children:
            return pa.array([{}] * len(at), arrow), at
        return pa.StructArray.from_arrays(children, fields=list(arrow)), at

    return _Field(column, room, least)


def _field(reading: schemas.Reading, type_: t.SqlType | None) -> _Field:
    """A type of None: nobody wants the field."""
    match reading:
        case schemas.Scalar(wanted="bytes" | "string"):
            return _bytes(type_, None)
        case schemas.Scalar():
            return _number(reading, type_)
        case schemas.Sized(size=size):
            return _bytes(type_, size)
        case schemas.Symbols():
            return _symbols(reading)
        case schemas.Branches():
            return _branches(reading, type_)
        case schemas.Items():
            return _items(reading, type_)
        case schemas.Entries():
            return _entries(reading, type_)
        case schemas.Members():
            return _struct(reading, type_)
        case schemas.Refused():
            return _refused(type_)
    raise _ByRecord


# ---- records ---------------------------------------------------------------------------------------------


class RecordReader:
    """Reads records of one writer's schema into the wanted ones of the reader's fields.

    `header` is how many bytes stand before each record, all of which have them.
    """

    def __init__(
        self,
        reading: schemas.Reading,
        fields: Sequence[t.Field],
        wanted: Iterable[str],
        header: int = 0,
    ) -> None:
        names = set(wanted)
        self._header = header
        places = [i for i, f in enumerate(fields) if f.name in names]
        reading = schemas.pruned(reading, set(places))
        self._fields = [(i, fields[i].name, fields[i].type) for i in places]
        self._arrows = [arrow_type(fields[i].type) for i in places]
        self._exact = avro_exact.reader(reading)
        self._converters = [avro_exact.converter(fields[i].type) for i in places]
        self._read: Callable[[_Source, Any, Any], tuple[list[Any], Any]] | None = None
        self._room = 0
        if isinstance(reading, schemas.Members):
            types = [f.type if i in places else None for i, f in enumerate(fields)]
            with suppress(_ByRecord):
                self._read, self._room, _ = _members(reading, types)

    def read(self, records: Any) -> tuple[list[Any], dict[int, avro_exact.Malformed]]:
        """The wanted fields in the table's order; a bad record has a row of no meaning."""
        if not len(records):
            return [pa.array([], arrow) for arrow in self._arrows], {}
        fast = self._read_all(records)
        if fast is None:
            return self.read_each(records.to_pylist(), self._parse)
        columns, doubtful = fast
        if not len(doubtful):
            return columns, {}
        rows = doubtful.to_pylist()
        exact, bad = self.read_each(records.take(doubtful).to_pylist(), self._parse)
        places = list(range(len(records)))
        for i, row in enumerate(rows):
            places[row] = len(records) + i
        order = pa.array(places, pa.int64())
        pairs = zip(columns, exact, strict=True)
        return (
            [pa.concat_arrays([one, other]).take(order) for one, other in pairs],
            {rows[i]: malformed for i, malformed in bad.items()},
        )

    def _read_all(self, records: Any) -> tuple[list[Any], Any] | None:
        """By Arrow: columns, and the records that it cannot vouch for."""
        if self._read is None:
            return None
        source, start, end = _source(records, self._room)
        try:
            columns, at = self._read(source, pc.add(start, _u(self._header)), end)
        except _Unsure:
            return None
        doubtful = pc.indices_nonzero(pc.not_equal(at, end))
        return [columns[i] for i, _, _ in self._fields], doubtful

    def _parse(self, record: bytes) -> Any:
        return avro_exact.read_record(self._exact, record[self._header :])

    def read_each(
        self, records: Sequence[bytes], parse: Callable[[bytes], Sequence[Any]]
    ) -> tuple[list[Any], dict[int, avro_exact.Malformed]]:
        """Record by record, in Python; `parse` gives the data of all fields of the reader."""
        rows: list[list[Any]] = []
        bad: dict[int, avro_exact.Malformed] = {}
        nothing = [None] * len(self._fields)
        for i, record in enumerate(records):
            try:
                rows.append(self._values(parse(record)))
            except avro_exact.Malformed as malformed:
                bad[i] = malformed
                rows.append(nothing)
        values = zip(*rows, strict=True) if self._fields else ()
        return [pa.array(v, a) for v, a in zip(values, self._arrows, strict=True)], bad

    def _values(self, record: Sequence[Any]) -> list[Any]:
        """A record's data as values of the wanted columns."""
        found = []
        for (i, name, _), convert in zip(self._fields, self._converters, strict=True):
            try:
                found.append(None if record[i] is None else convert(record[i]))
            except avro_exact.Malformed as malformed:
                raise malformed.inside(name) from None
        return found


def _source(records: Any, room: int) -> tuple[_Source, Any, Any]:
    _, offsets, data = records.buffers()
    count = len(records)
    all_offsets = pa.Array.from_buffers(
        pa.int32(), count + 1, [None, offsets], offset=records.offset
    )
    first, last = all_offsets[0].as_py(), all_offsets[count].as_py()
    size = last - first
    # A whole number of words; the last window starts behind the last lost position.
    padded = (size + room + 40) // 8 * 8
    joined = b"".join((memoryview(data)[first:last] if data else b"", bytes(padded - size)))
    buffer = pa.py_buffer(joined)
    moved = pc.cast(pc.subtract(all_offsets, first), _WORD)
    source = _Source(
        buffer,
        pa.Array.from_buffers(pa.uint8(), padded, [None, buffer]),
        pa.Array.from_buffers(_WORD, padded // 8, [None, buffer]),
        _u(size + 1),
    )
    return source, moved.slice(0, count), moved.slice(1)

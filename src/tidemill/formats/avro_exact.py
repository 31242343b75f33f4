"""Avro one record at a time, as Java reads it: bytes → data → values of SQL types.

In: a `Reading` and a record's bytes. Out: a record's fields as a list of data (int, float, str, bytes, list, dict),
and by `converter` the Python values that Arrow takes for a column. Law: this is what `avro_read` must agree with; it
is used for the records that Arrow's kernels cannot vouch for. `Malformed` is the only thing raised for what bytes
hold.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemill import types as t
from tidemill.formats import avro_schema as schemas
from tidemill.formats.arrow import arrow_type
from tidemill.formats.avro_json import default_value

Read = Callable[[bytes, int], tuple[Any, int]]


class Malformed(Exception):
    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path

    def inside(self, name: str) -> Malformed:
        return Malformed(self.reason, f"{name}.{self.path}" if self.path else name)


ENDS_EARLY = "the record ends before its last field"


def _varint(data: bytes, at: int, longest: int, kind: str) -> tuple[int, int]:
    value = shift = 0
    for i in range(at, at + longest):
        if i >= len(data):
            raise Malformed(ENDS_EARLY)
        byte = data[i]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, i + 1
        shift += 7
    raise Malformed(f"Invalid {kind} encoding")


def _signed(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


def read_int(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at, 5, "int")
    return _signed(value & 0xFFFFFFFF), at


def read_long(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at, 10, "long")
    return _signed(value & 0xFFFFFFFFFFFFFFFF), at


def _some_bytes(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    end = at + size
    if end > len(data):
        raise Malformed(ENDS_EARLY)
    return data[at:end], end


def _read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = read_long(data, at)
    if size < 0:
        raise Malformed(f"Malformed data. Length is negative: {size}")
    return _some_bytes(data, at, size)


def _read_text(data: bytes, at: int) -> tuple[str, int]:
    found, at = _read_bytes(data, at)
    return found.decode("utf-8", "replace"), at


def _read_boolean(data: bytes, at: int) -> tuple[bool, int]:
    found, at = _some_bytes(data, at, 1)
    return found == b"\x01", at


def _read_packed(form: str, size: int) -> Read:
    unpack = struct.Struct(form).unpack

    def read(data: bytes, at: int) -> tuple[float, int]:
        found, at = _some_bytes(data, at, size)
        return unpack(found)[0], at

    return read


_SCALARS: dict[str, Read] = {
    "null": lambda data, at: (None, at),
    "boolean": _read_boolean,
    "int": read_int,
    "long": read_long,
    "float": _read_packed("<f", 4),
    "double": _read_packed("<d", 8),
    "bytes": _read_bytes,
    "string": _read_text,
}
_PROMOTED: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("int", "float"): float,
    ("int", "double"): float,
    # Not through a double, which would round twice.
    ("long", "float"): lambda found: pc.cast(
        pa.scalar(found, pa.int64()), pa.float32(), safe=False
    ).as_py(),
    ("long", "double"): float,
}


def reader(reading: schemas.Reading) -> Read:
    match reading:
        case schemas.Scalar():
            return _scalar(reading)
        case schemas.Sized(size=size):
            return lambda data, at: _some_bytes(data, at, size)
        case schemas.Symbols():
            return _symbols(reading)
        case schemas.Items():
            return _items(reader(reading.item))
        case schemas.Entries():
            return _entries(reader(reading.value))
        case schemas.Branches():
            return _branches([reader(b) for b in reading.branches])
        case schemas.Members():
            return _members(reading)
        case schemas.Refused(reason=reason):
            return _refuse(reason)
        case schemas.Again(record=record):
            # Made when it is needed, or it would never end.
            return lambda data, at: reader(schemas.skip(record))(data, at)
    raise TypeError(reading)


def _refuse(reason: str) -> Read:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        raise Malformed(reason)

    return read


def _scalar(reading: schemas.Scalar) -> Read:
    # Texts and bytes are the same on the wire.
    same = reading.wrote in ("string", "bytes")
    plain = _SCALARS[reading.wanted if same else reading.wrote]
    promote = _PROMOTED.get((reading.wrote, reading.wanted))
    if promote is None:
        return plain

    def read(data: bytes, at: int) -> tuple[Any, int]:
        found, at = plain(data, at)
        return promote(found), at

    return read


def _symbols(reading: schemas.Symbols) -> Read:
    def read(data: bytes, at: int) -> tuple[str, int]:
        number, at = read_int(data, at)
        if not 0 <= number < len(reading.symbols):
            raise Malformed(f"the enum has no symbol {number}")
        symbol = reading.symbols[number]
        if symbol is None:
            raise Malformed(f"symbol {number} of the enum is not known to the reader")
        return symbol, at

    return read


def _branches(readers: Sequence[Read]) -> Read:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        number, at = read_int(data, at)
        if not 0 <= number < len(readers):
            raise Malformed(f"Index {number} out of bounds for a union of {len(readers)}")
        return readers[number](data, at)

    return read


def _count(data: bytes, at: int) -> tuple[int, int]:
    """Of a block of an array or map; negative if the size of the block follows."""
    count, at = read_long(data, at)
    if count < 0:
        _, at = read_long(data, at)
        count = -count
    # An element may need no byte at all, but there are no such arrays in earnest.
    if count > len(data):
        raise Malformed(ENDS_EARLY)
    return count, at


def _items(read_item: Read) -> Read:
    def read(data: bytes, at: int) -> tuple[list[Any], int]:
        found: list[Any] = []
        count, at = _count(data, at)
        while count:
            for _ in range(count):
                item, at = read_item(data, at)
                found.append(item)
            count, at = _count(data, at)
        return found, at

    return read


def _entries(read_value: Read) -> Read:
    def read_entry(data: bytes, at: int) -> tuple[tuple[str, Any], int]:
        key, at = _read_text(data, at)
        value, at = read_value(data, at)
        return (key, value), at

    pairs = _items(read_entry)

    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        found, at = pairs(data, at)
        return dict(found), at

    return read


def _members(reading: schemas.Members) -> Read:
    names, size = reading.names, len(reading.names)
    members = [(place, reader(r)) for place, r in reading.members]
    defaults = [(i, default_value(json, schema)) for i, (json, schema) in reading.defaults.items()]

    def read(data: bytes, at: int) -> tuple[list[Any], int]:
        found: list[Any] = [None] * size
        for i, value in defaults:
            found[i] = value
        for place, read_member in members:
            try:
                value, at = read_member(data, at)
            except Malformed as malformed:
                raise malformed if place is None else malformed.inside(names[place]) from None
            if place is not None:
                found[place] = value
        return found, at

    return read


def read_record(read: Read, data: bytes) -> Any:
    """All of the bytes are the record, or it was written by another schema."""
    try:
        found, at = read(data, 0)
    except RecursionError:
        raise Malformed("the record is nested too deeply") from None
    if at != len(data):
        left = len(data) - at
        raise Malformed(
            "1 byte follows the record" if left == 1 else f"{left} bytes follow the record"
        )
    return found


# ---- values of SQL types ---------------------------------------------------------------------------------

Convert = Callable[[Any], Any]
MOST_MILLIS = 2**63 // 1000
"""Of a timestamp, which is kept in microseconds."""
DAY = 86_400_000
"""Milliseconds of a day."""


def _whole(bits: int) -> Convert:
    """Java keeps the lowest bits."""
    half = 1 << (bits - 1)
    return lambda found: (found + half) % (2 * half) - half


def _time(millis: int) -> int:
    if not 0 <= millis < DAY:
        raise Malformed(f"{millis} milliseconds are not a time of day")
    return millis * 1_000_000


def _timestamp(millis: int) -> int:
    if abs(millis) > MOST_MILLIS:
        raise Malformed(f"{millis} milliseconds are beyond what a timestamp can hold")
    return millis * 1000


def _decimal(type_: t.DecimalType) -> Convert:
    limit = 10**type_.precision

    def convert(found: bytes) -> Decimal | None:
        unscaled = int.from_bytes(found, "big", signed=True)
        if not found:
            raise Malformed("a DECIMAL of no bytes")
        return scaled(unscaled, type_.scale) if abs(unscaled) < limit else None

    return convert


def scaled(unscaled: int, scale: int) -> Decimal:
    """Not by `scaleb`, which rounds."""
    return Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))


def _same(found: Any) -> Any:
    return found


_CONVERT: dict[type[t.SqlType], Convert] = {
    t.TinyIntType: _whole(8),
    t.SmallIntType: _whole(16),
    t.TimeType: _time,
    t.TimestampType: _timestamp,
    t.TimestampLtzType: _timestamp,
}


def converter(type_: t.SqlType) -> Convert:
    """Data → what Arrow takes for a column of the type; never called for null."""
    match type_:
        case t.DecimalType():
            return _decimal(type_)
        case t.ArrayType():
            element = _nullable(type_.element)
            return lambda found: [element(x) for x in found]
        case t.MapType():
            value = _nullable(type_.value)
            return lambda found: [(k, value(v)) for k, v in found.items()]
        case t.MultisetType():
            return lambda found: list(found.items())
        case t.RowType():
            return _row(type_)
    return _CONVERT.get(type(type_), _same)


def _nullable(type_: t.SqlType) -> Convert:
    convert = converter(type_)
    return lambda found: None if found is None else convert(found)


def _row(type_: t.RowType) -> Convert:
    fields = [(f.name, _nullable(f.type)) for f in type_.fields]

    def convert(found: Sequence[Any]) -> Mapping[str, Any]:
        row = {}
        for (name, convert_field), value in zip(fields, found, strict=True):
            try:
                row[name] = convert_field(value)
            except Malformed as malformed:
                raise malformed.inside(name) from None
        return row

    return convert


def default_of(reading: schemas.Members, place: int, type_: t.SqlType) -> Any:
    """The value of a field that the writer does not have, as Arrow's scalar."""
    data = default_value(*reading.defaults[place])
    return pa.scalar(_nullable(type_)(data), arrow_type(type_))

"""The `raw` format: a Kafka key or value is the bytes of the only column.

In: a `binary` array; out: one array of texts, bytes, booleans or numbers, and back. A null record is NULL. Columns go
as a whole; only texts of another encoding than UTF-8 go one by one.
Law: what is written is read back as it was. Bytes that are not of the charset become U+FFFD, as when Java makes a
String of them; a character that the charset lacks is written as `?`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemill import types as t
from tidemill.errors import script_error
from tidemill.formats import NULL_VALUE, BadRecord, Decoded, Remade
from tidemill.formats.arrow import arrow_type

DEFAULTS: Mapping[str, object] = {
    "charset": "UTF-8",
    "endianness": "big-endian",
    "line-delimiter": None,
}

_WIDTHS: dict[type[t.SqlType], int] = {
    t.BooleanType: 1,
    t.TinyIntType: 1,
    t.SmallIntType: 2,
    t.IntType: 4,
    t.BigIntType: 8,
    t.FloatType: 4,
    t.DoubleType: 8,
}


def decoder(
    fields: Sequence[t.Field],
    options: Mapping[str, object],
    wanted: Sequence[str] | None = None,
) -> RawDecoder:
    return RawDecoder(tuple(fields), dict(options), None if wanted is None else tuple(wanted))


def encoder(fields: Sequence[t.Field], options: Mapping[str, object]) -> RawEncoder:
    return RawEncoder(tuple(fields), dict(options))


# ---- texts -----------------------------------------------------------------------------------------------


def is_utf8(charset: str) -> bool:
    return charset.lower().replace("_", "-") in ("utf-8", "utf8")


@dataclass(frozen=True)
class _Charset:
    """How Java reads and writes texts under a name; Python's codecs do the same but for byte order marks."""

    name: str

    @property
    def _wide(self) -> str | None:
        """UTF-16 or UTF-32 without an order, which Java takes as big-endian unless a mark says otherwise."""
        plain = self.name.lower().replace("_", "-")
        return plain if plain in ("utf-16", "utf-32") else None

    def decode(self, data: bytes) -> str:
        codec = self.name
        if self._wide:
            marks = ("\ufeff".encode(f"{self._wide}-{order}") for order in ("be", "le"))
            codec = self._wide if data.startswith(tuple(marks)) else f"{self._wide}-be"
        return data.decode(codec, "replace")

    def encode(self, text: str) -> bytes:
        if self._wide:
            mark = "\ufeff" if self._wide == "utf-16" and text else ""
            return (mark + text).encode(f"{self._wide}-be", "replace")
        return text.encode(self.name, "replace")

    def texts(self, values: Any) -> Any:
        if is_utf8(self.name):
            try:
                return values.cast(pa.string())
            except pa.ArrowInvalid:
                pass
        found = values.to_pylist()
        return pa.array([None if v is None else self.decode(v) for v in found], pa.string())

    def bytes_of(self, texts: Any) -> Any:
        texts = pc.cast(texts, pa.string())
        if is_utf8(self.name):
            return pc.cast(texts, pa.binary())
        found = texts.to_pylist()
        return pa.array([None if v is None else self.encode(v) for v in found], pa.binary())


def _only(fields: tuple[t.Field, ...]) -> t.Field:
    if len(fields) != 1:
        shown = ", ".join(f.name for f in fields) or "none"
        raise script_error(
            "FMT-002",
            f"the raw format holds a single column, but there are {len(fields)}: {shown}",
            None,
            "declare one column, or use 'json'",
        )
    type_ = fields[0].type
    if type(type_) not in _WIDTHS and not isinstance(type_, t.STRING_TYPES + t.BINARY_TYPES):
        raise script_error(
            "FMT-002",
            f"the raw format has no representation for the type {type_}",
            None,
            "declare the column as BYTES or STRING, and CAST in the query",
        )
    return fields[0]


# ---- decode ----------------------------------------------------------------------------------------------


class RawDecoder(Remade):
    def __init__(
        self,
        fields: tuple[t.Field, ...],
        options: dict[str, object],
        wanted: tuple[str, ...] | None,
    ) -> None:
        self._made_of = (fields, options, wanted)
        merged = {**DEFAULTS, **options}
        self._field = _only(fields)
        self._is_wanted = wanted is None or len(wanted) == 1
        self._charset = _Charset(str(merged["charset"]))
        self._big = merged["endianness"] == "big-endian"
        delimiter = merged["line-delimiter"]
        self._delimiter = None if delimiter is None else str(delimiter)

    def decode(self, values: Any) -> Decoded:
        result = Decoded([])
        if self._delimiter is not None:
            values, result.records = self._split(values, result, self._delimiter)
        width = _WIDTHS.get(type(self._field.type))
        if width is not None:
            values = self._sift(values, width, result)
        if self._is_wanted:
            result.columns = [self._column(values, width)]
        return result

    def _split(self, values: Any, result: Decoded, delimiter: str) -> tuple[Any, Any]:
        """The parts of each record, and whose they are; an empty one at the end is none."""
        if values.null_count:
            result.dropped[NULL_VALUE] = values.null_count
        parts: list[bytes] = []
        records: list[int] = []
        for record, text in enumerate(self._charset.texts(values).to_pylist()):
            if text is None:
                continue
            found = text.split(delimiter)
            if not found[-1]:
                found.pop()
            parts += map(self._charset.encode, found)
            records += [record] * len(found)
        return pa.array(parts, pa.binary()), pa.array(records, pa.int32())

    def _sift(self, values: Any, width: int, result: Decoded) -> Any:
        """The values that have the type's length. A record with any other gives no row at all."""
        right = pc.fill_null(pc.equal(pc.binary_length(values), width), True)
        if pc.all(right).as_py():
            return values
        records = pa.array(range(len(values))) if result.records is None else result.records
        wrong = pc.unique(records.filter(pc.invert(right)))
        root = self._field.type.root
        reason = f"Size of data received for deserializing {root} type is not {width}."
        result.bad = [BadRecord(r, self._field.name, reason) for r in wrong.to_pylist()]
        kept = pc.invert(pc.is_in(records, wrong))
        result.records = pc.cast(records.filter(kept), pa.int32())
        return values.filter(kept)

    def _column(self, values: Any, width: int | None) -> Any:
        type_ = self._field.type
        if width is None:
            return self._charset.texts(values) if isinstance(type_, t.STRING_TYPES) else values
        # Arrow's numbers have their lowest byte first.
        ordered = pc.binary_reverse(values) if self._big and width > 1 else values
        fixed = ordered.cast(pa.binary(width))
        arrow = pa.int8() if isinstance(type_, t.BooleanType) else arrow_type(type_)
        numbers = pa.Array.from_buffers(arrow, len(fixed), fixed.buffers(), offset=fixed.offset)
        return pc.not_equal(numbers, 0) if isinstance(type_, t.BooleanType) else numbers


# ---- encode ----------------------------------------------------------------------------------------------


class RawEncoder(Remade):
    def __init__(self, fields: tuple[t.Field, ...], options: dict[str, object]) -> None:
        self._made_of = (fields, options)
        merged = {**DEFAULTS, **options}
        self._type = _only(fields).type
        charset = _Charset(str(merged["charset"]))
        delimiter = merged["line-delimiter"]
        self._end = None if delimiter is None else charset.encode(str(delimiter))
        big = merged["endianness"] == "big-endian"
        self._write: Callable[[Any], Any]
        width = _WIDTHS.get(type(self._type))
        if width is not None:
            self._write = _writer_of_numbers(width, big)
        else:
            self._write = charset.bytes_of if isinstance(self._type, t.STRING_TYPES) else _as_it_is

    def encode(self, columns: Sequence[Any]) -> Any:
        written = self._write(columns[0])
        if self._end is None:
            return written
        return pc.binary_join_element_wise(written, self._end, b"")


def _as_it_is(column: Any) -> Any:
    return pc.cast(column, pa.binary())


def _writer_of_numbers(width: int, big: bool) -> Callable[[Any], Any]:
    def write(column: Any) -> Any:
        numbers = pc.cast(column, pa.int8()) if pa.types.is_boolean(column.type) else column
        fixed = pa.Array.from_buffers(
            pa.binary(width), len(numbers), numbers.buffers(), offset=numbers.offset
        )
        written = fixed.cast(pa.binary())
        return pc.binary_reverse(written) if big and width > 1 else written

    return write

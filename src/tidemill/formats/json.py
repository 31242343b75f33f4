"""The `json` format: Kafka values ⇄ Arrow columns, with Flink's coercions and Flink's text.

In: a `binary` array of documents; out: one array per wanted field. Documents are read a chunk at a time, by msgspec if
they are just what the table says (`json_typed`), else by orjson, and turned into columns by Arrow. A column whose
values are not all plainly of its type is converted value by value (`json_exact`), and only a record that orjson cannot
tell exactly is parsed again.
Law: the fast way and the exact way give the same rows; leaving a field out of `wanted` changes nothing but that a
malformed value in it goes unseen. A decoded array may hold nulls where its field is NOT NULL: a format does not judge.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, chain, islice
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tidemill import types as t
from tidemill.errors import job_error
from tidemill.formats import NULL_VALUE, UNREADABLE, BadRecord, Decoded, Remade, json_exact
from tidemill.formats.arrow import arrow_type
from tidemill.formats.arrow_text import (
    Unsure,
    approximate_texts,
    base64_texts,
    content,
    date_texts,
    decimal_texts,
    decimals,
    floats,
    joined,
    patched,
    plain_decimal_texts,
    plain_texts,
    time_texts,
    timestamp_texts,
    where_valid,
)
from tidemill.formats.json_typed import TypedReader

DEFAULTS: Mapping[str, object] = {
    "fail-on-missing-field": False,
    "ignore-parse-errors": False,
    "timestamp-format.standard": "SQL",
    "map-null-key.mode": "FAIL",
    "map-null-key.literal": "null",
    "encode.decimal-as-plain-number": False,
    "encode.ignore-null-fields": False,
    "decode.json-parser.enabled": True,
}

# Small enough that a chunk's dicts are soon reused; 2,048 to 8,192 measured alike, 100,000 at 3/4 of the speed.
_CHUNK = 2048

# What a record without a document, or with an unreadable one, holds: an array of no rows.
NO_ROWS: list[object] = []


def decoder(
    fields: Sequence[t.Field],
    options: Mapping[str, object],
    wanted: Sequence[str] | None = None,
) -> JsonDecoder:
    return JsonDecoder(tuple(fields), dict(options), None if wanted is None else tuple(wanted))


def encoder(fields: Sequence[t.Field], options: Mapping[str, object]) -> JsonEncoder:
    return JsonEncoder(tuple(fields), dict(options))


# ---- decode: fast columns --------------------------------------------------------------------------------


# What pyarrow raises for a value that is not of the wanted type: ArrowInvalid is a ValueError, ArrowTypeError a
# TypeError, and a string with a lone surrogate is a UnicodeEncodeError.
NOT_FAST = (Unsure, ValueError, TypeError, OverflowError)

Values = list[Any]
Fast = Callable[[Values, "Chunk"], Any]
_NONE = type(None)

# A whole number that is -0.
_MINUS_NOUGHT = r"[:,\[]\s*-0\s*[,\]}]"
# A number of more than 15 significant digits, or with an exponent beyond what BigDecimal takes, of which a double does
# not tell.
_LONG_NUMBER = r"[:,\[]\s*-?(?:[0-9.]{17}|[0-9]{16}[eE]|[0-9.]+[eE][-+]?[0-9]{10})"


@dataclass(frozen=True)
class Settings:
    standard: str
    ignore_errors: bool
    fail_on_missing: bool
    tree: json_exact.Tree | None
    """Flink's older parser, by which a number has been a node of a tree before it becomes a text."""

    @classmethod
    def of(cls, options: Mapping[str, object], fields: Sequence[t.Field]) -> Settings:
        by_tree = not options["decode.json-parser.enabled"]
        return cls(
            str(options["timestamp-format.standard"]),
            bool(options["ignore-parse-errors"]),
            bool(options["fail-on-missing-field"]),
            (tree_of(fields) if by_tree else None),
        )


def tree_of(fields: Sequence[t.Field]) -> json_exact.Tree:
    """What numbers are in Jackson's tree, which depends on whether any DECIMAL is in the table."""
    exact = any(_has_decimal(f.type) for f in fields)
    return json_exact.tree_decimal if exact else json_exact.tree_number


def _has_decimal(type_: t.SqlType) -> bool:
    match type_:
        case t.DecimalType():
            return True
        case t.ArrayType(element=inner) | t.MultisetType(element=inner) | t.MapType(value=inner):
            return _has_decimal(inner)
        case t.RowType(fields=fields):
            return any(_has_decimal(f.type) for f in fields)
    return False


@dataclass
class Chunk:
    """Some consecutive records, and what is known about their rows."""

    values: Any
    documents: list[bytes | None]
    columns: list[Values] | None = None
    """The wanted fields, if all the documents are of the table's types."""
    rows: list[dict[str, Any]] = field(default_factory=list)
    records: list[int] | None = None
    """For each row its record; None: row i is all of record i."""
    places: list[int | None] = field(default_factory=list)
    """For each row its place among those of its record; None: it is the whole document."""
    kinds: list[int] | None = None
    """For each row its kind, if the documents tell."""
    heads: list[Any] = field(default_factory=list)
    """For each row the document it came from, if anything beside the row is wanted."""
    bad: dict[int, BadRecord] = field(default_factory=dict)
    nulled: int = 0
    """Values that are NULL because they cannot be read."""
    exact: dict[int, object] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """How many rows there are."""
        return len(self.documents if self.records is None else self.records)

    @cached_property
    def has_long_numbers(self) -> bool:
        return bool(pc.any(pc.match_substring_regex(self.values, _LONG_NUMBER)).as_py())

    @cached_property
    def has_minus_nought(self) -> bool:
        """Whether there may be a whole number that is -0, whose sign orjson does not tell."""
        return bool(pc.any(pc.match_substring_regex(self.values, _MINUS_NOUGHT)).as_py())

    def record(self, row: int) -> int:
        return row if self.records is None else self.records[row]

    def exact_document(self, record: int) -> Any:
        """The record's document with nothing lost."""
        if record not in self.exact:
            document = self.documents[record]
            assert document is not None
            self.exact[record] = json_exact.parse(document)
        return self.exact[record]


def _strict(arrow: Any) -> Fast:
    """pyarrow takes nothing but the right Python type."""

    def build(values: Values, _: Chunk) -> Any:
        return pa.array(values, arrow)

    return build


def _only(kinds: set[type], arrow: Any) -> Fast:
    """pyarrow would also take other Python types, and bend them."""
    allowed = frozenset(kinds | {_NONE})

    def build(values: Values, _: Chunk) -> Any:
        if not allowed.issuperset(map(type, values)):
            raise Unsure
        return pa.array(values, arrow)

    return build


def _fast_integer(arrow: Any) -> Fast:
    numbers = _only({int}, arrow)

    def build(values: Values, chunk: Chunk) -> Any:
        try:
            return numbers(values, chunk)
        except Unsure:
            # Numbers written as texts, as Canal does. Arrow's parser knows hexadecimal ones, too.
            texts = pa.array(values, pa.string())
            return pc.cast(_all_match(texts, "^-?[0-9]+$"), arrow)

    return build


def _all_match(texts: Any, pattern: str) -> Any:
    if pc.all(pc.match_substring_regex(texts, pattern)).as_py() is False:
        raise Unsure
    return texts


def _fast_approximate(arrow: Any) -> Fast:
    numbers, texts = _only({int, float}, pa.float64()), _only({str}, pa.string())

    def build(values: Values, chunk: Chunk) -> Any:
        try:
            found = numbers(values, chunk)
            if 0 in values and chunk.has_minus_nought:
                raise Unsure
            return found if arrow == pa.float64() else floats(found)
        except Unsure:
            # Numbers written as strings. Arrow's parser knows "inf" and "nan", which Java does not.
            parsed = pc.cast(texts(values, chunk), arrow)
            if pc.all(pc.is_finite(parsed)).as_py() is False:
                raise
            return parsed

    return build


def _fast_decimal(type_: t.DecimalType) -> Fast:
    """Doubles back to decimals, without rounding.

    Two decimals of at most 15 digits never share a double. So if no number of the chunk has more digits, and the
    double x is also the nearest one to k / 10^n with |k| < 10^15, then k / 10^n is what the document says.
    """
    arrow = arrow_type(type_)
    allowed = frozenset({int, float, _NONE})
    places_to_try = sorted({min(type_.scale, 6), min(type_.scale, 12)})

    def build(values: Values, chunk: Chunk) -> Any:
        kinds = set(map(type, values))
        if kinds <= {str, _NONE}:
            return decimals(pa.array(values, pa.string()), arrow)
        if not allowed >= kinds or (float in kinds and chunk.has_long_numbers):
            raise Unsure
        doubles = pa.array(values, pa.float64())
        for places in places_to_try:
            power = 10.0**places
            scaled = pc.round(pc.multiply(doubles, power))
            if (pc.max(pc.abs(scaled)).as_py() or 0) >= 1e15:
                break
            if pc.all(pc.equal(pc.divide(scaled, power), doubles)).as_py() is False:
                continue
            unscaled = pc.cast(scaled, pa.int64())
            limit = 10 ** (type_.precision - type_.scale + places)
            if limit < 10**15:
                fits = pc.less(pc.abs(unscaled), pa.scalar(limit, pa.int64()))
                unscaled = pc.if_else(fits, unscaled, pa.scalar(None, pa.int64()))
            whole = pc.cast(unscaled, pa.decimal128(38, 0))
            scaled_down = pa.Array.from_buffers(
                pa.decimal128(38, places), len(whole), whole.buffers(), offset=whole.offset
            )
            return pc.cast(scaled_down, arrow)
        raise Unsure

    return build


def _fast_tree_text(values: Values, _: Chunk) -> Any:
    """Texts of what has been a node of Jackson's tree: whole numbers and booleans are known without a look at it."""
    if not _PLAIN.issuperset(map(type, values)):
        raise Unsure
    try:
        return pa.array(values, pa.string())
    except pa.ArrowTypeError:
        return pa.array(
            [v if v is None or type(v) is str else _word_of(v) for v in values], pa.string()
        )


def _word_of(value: object) -> str:
    return str(value) if value is not True and value is not False else str(value).lower()


_PLAIN = frozenset({str, int, bool, _NONE})
_TEXT = frozenset({str, _NONE})


def _fast_bytes(values: Values, _: Chunk) -> Any:
    # The text of a number is a text to Python, too.
    if not _TEXT.issuperset(map(type, values)):
        raise Unsure
    decode = binascii.a2b_base64
    return pa.array(
        [None if v is None else decode(v, strict_mode=True) for v in values], pa.binary()
    )


def _texts(values: Values, shortest: int) -> Any:
    texts = pa.array(values, pa.string())
    length = pc.min(pc.binary_length(texts)).as_py()
    if length is not None and length < shortest:
        raise Unsure
    return texts


def _fast_date(values: Values, _: Chunk) -> Any:
    return pc.cast(_texts(values, 10), pa.date32())


def _fast_time(values: Values, _: Chunk) -> Any:
    # Arrow parses no times, but timestamps.
    texts = pc.binary_join_element_wise("1970-01-01", _texts(values, 8), " ")
    seconds = pc.floor_temporal(pc.cast(texts, pa.timestamp("ns")), unit="second")
    # Flink's json reads no fraction of a second.
    return pc.cast(pc.cast(seconds, pa.int64()), pa.time64("ns"))


def _fast_timestamp(type_: t.SqlType, settings: Settings) -> Fast:
    """Arrow's parser is strict about digits and ranges; what else it takes is excluded before."""
    zoned = isinstance(type_, t.TimestampLtzType)
    iso = settings.standard == "ISO-8601"
    shortest = len("yyyy-MM-ddTHH:mm" if iso else "yyyy-MM-dd HH:mm:ss") + zoned
    separator = b"T" if iso else b" "
    millis, micros, nanos = (
        pa.timestamp(unit, tz="UTC" if zoned else None) for unit in ("ms", "us", "ns")
    )
    # Flink keeps milliseconds for a precision up to 3.
    coarse = isinstance(type_, (t.TimestampType, t.TimestampLtzType)) and type_.precision <= 3
    unit, kept = ("millisecond", millis) if coarse else ("microsecond", micros)

    def build(values: Values, _: Chunk) -> Any:
        texts = _texts(values, shortest)
        between = pc.binary_slice(pc.cast(texts, pa.binary()), 10, 11)
        if pc.all(pc.equal(between, separator)).as_py() is False:
            raise Unsure
        if zoned and pc.all(pc.ends_with(texts, "Z")).as_py() is False:
            raise Unsure
        try:
            return pc.cast(pc.cast(texts, kept), micros)
        except pa.ArrowInvalid:
            # More digits of a fraction, up to nine, if it is that.
            finer = pc.cast(texts, nanos)
            return pc.cast(pc.floor_temporal(finer, unit=unit), micros)

    return build


def _offsets(lengths: Iterable[int]) -> Any:
    return pa.array(list(accumulate(lengths, initial=0)), pa.int32())


def _nulls(values: Values) -> Any:
    return pa.array([v is None for v in values], pa.bool_()) if None in values else None


def _fast_array(type_: t.ArrayType, settings: Settings) -> Fast:
    arrow, element = arrow_type(type_), _fast(type_.element, settings)
    allowed = frozenset({list, _NONE})

    def build(values: Values, chunk: Chunk) -> Any:
        if not allowed.issuperset(map(type, values)):
            raise Unsure
        lists = [v or () for v in values]
        return pa.ListArray.from_arrays(
            _offsets(map(len, lists)),
            element(list(chain.from_iterable(lists)), chunk),
            type=arrow,
            mask=_nulls(values),
        )

    return build


def _fast_map(type_: t.SqlType, settings: Settings) -> Fast:
    arrow, value = arrow_type(type_), _fast(json_exact.entry_types(type_)[1], settings)
    allowed = frozenset({dict, _NONE})

    def build(values: Values, chunk: Chunk) -> Any:
        if not allowed.issuperset(map(type, values)):
            raise Unsure
        maps: list[dict[str, Any]] = [v or {} for v in values]
        return pa.MapArray.from_arrays(
            _offsets(map(len, maps)),
            pa.array(list(chain.from_iterable(maps)), pa.string()),
            value(list(chain.from_iterable(m.values() for m in maps)), chunk),
            type=arrow,
            mask=_nulls(values),
        )

    return build


def _fast_row(type_: t.RowType, settings: Settings) -> Fast:
    arrow = arrow_type(type_)
    fields = [(f.name, _fast(f.type, settings)) for f in type_.fields]
    names = {name for name, _ in fields}
    allowed = frozenset({dict, _NONE})

    def build(values: Values, chunk: Chunk) -> Any:
        if not allowed.issuperset(map(type, values)):
            raise Unsure
        if settings.fail_on_missing and not all(v is None or names <= v.keys() for v in values):
            raise Unsure
        nothing: dict[str, Any] = {}
        rows = [v or nothing for v in values]
        children = [build_child([r.get(n) for r in rows], chunk) for n, build_child in fields]
        if not children:
            return pa.array(values, arrow)
        return pa.StructArray.from_arrays(children, fields=list(arrow), mask=_nulls(values))

    return build


_FAST: dict[type[t.SqlType], Fast] = {
    t.NullType: lambda values, _: pa.nulls(len(values)),
    t.BooleanType: _strict(pa.bool_()),
    t.TinyIntType: _fast_integer(pa.int8()),
    t.SmallIntType: _fast_integer(pa.int16()),
    t.IntType: _fast_integer(pa.int32()),
    t.BigIntType: _fast_integer(pa.int64()),
    t.FloatType: _fast_approximate(pa.float32()),
    t.DoubleType: _fast_approximate(pa.float64()),
    t.CharType: _strict(pa.string()),
    t.VarCharType: _strict(pa.string()),
    t.BinaryType: _fast_bytes,
    t.VarBinaryType: _fast_bytes,
    t.DateType: _fast_date,
    t.TimeType: _fast_time,
}


def _fast(type_: t.SqlType, settings: Settings) -> Fast:
    if settings.tree and isinstance(type_, t.STRING_TYPES):
        return _fast_tree_text
    simple = _FAST.get(type(type_))
    if simple:
        return simple
    match type_:
        case t.DecimalType():
            return _fast_decimal(type_)
        case t.TimestampType() | t.TimestampLtzType():
            return _fast_timestamp(type_, settings)
        case t.ArrayType():
            return _fast_array(type_, settings)
        case t.MapType() | t.MultisetType():
            return _fast_map(type_, settings)
        case t.RowType():
            return _fast_row(type_, settings)
    raise json_exact.unsupported(type_)


# ---- decode: documents -----------------------------------------------------------------------------------


# What `json_typed` checks and `pa.array` then takes as it is.
_CHECKED = (t.BooleanType, *t.INTEGER_TYPES, *t.STRING_TYPES)


@dataclass(frozen=True)
class Column:
    name: str
    arrow: Any
    fast: Fast
    typed: Fast | None
    """For values whose types have been checked already."""
    convert: json_exact.Convert
    place: tuple[str, ...] = ()
    """Its path in the document, of what is not a field of the rows."""


def column_of(field_: t.Field, settings: Settings) -> Column:
    # First, because it refuses what the format cannot do.
    convert = json_exact.converter(
        field_.type,
        settings.standard,
        settings.ignore_errors,
        settings.fail_on_missing,
        settings.tree,
    )
    arrow = arrow_type(field_.type)
    typed = _strict(arrow) if isinstance(field_.type, _CHECKED) else None
    return Column(field_.name, arrow, _fast(field_.type, settings), typed, convert)


class JsonDecoder(Remade):
    has_kinds = False
    """Whether the documents tell what happened to their rows."""

    def __init__(
        self,
        fields: tuple[t.Field, ...],
        options: dict[str, object],
        wanted: tuple[str, ...] | None,
    ) -> None:
        self._made_of: tuple[object, ...] = (fields, options, wanted)
        self._settings = Settings.of({**DEFAULTS, **options}, fields)
        names = [f.name for f in fields] if wanted is None else list(wanted)
        # In the order of the table, whatever the order that is asked for: the first bad field of a record is
        # then the same one for every query.
        self._fields = [f for f in fields if f.name in names]
        self._columns = [column_of(f, self._settings) for f in self._fields]
        at = {column.name: i for i, column in enumerate(self._columns)}
        self._order = [at[name] for name in names]
        # Where absent and null differ, a struct would not tell.
        missing_fails = self._settings.fail_on_missing
        self._typed = None if missing_fails else TypedReader(self._fields)
        # Also in fields that nobody wants: pruning must not change the answer.
        self._find_missing = (
            json_exact.find_missing(t.RowType(fields=fields)) if missing_fails else None
        )

    def decode(self, values: Any) -> Decoded:
        result = Decoded([])
        types = [c.arrow for c in self._columns] + ([pa.int8()] if self.has_kinds else [])
        parts: list[list[Any]] = [[pa.array([], arrow) for arrow in types]]
        records: list[Iterable[int]] = []
        row_by_row = True
        for start in range(0, len(values), _CHUNK):
            chunk = self._read(values.slice(start, _CHUNK), result)
            arrays = [self._build(i, chunk) for i in range(len(self._columns))]
            result.nulled += chunk.nulled
            if chunk.kinds is not None:
                arrays.append(pa.array(chunk.kinds, pa.int8()))
            rows = range(chunk.size) if chunk.records is None else chunk.records
            row_by_row = row_by_row and chunk.records is None and not chunk.bad
            if chunk.bad:
                kept = [record not in chunk.bad for record in rows]
                arrays = [array.filter(pa.array(kept, pa.bool_())) for array in arrays]
                rows = [record for record in rows if record not in chunk.bad]
                for record in sorted(chunk.bad):
                    bad = chunk.bad[record]
                    result.bad.append(BadRecord(start + record, bad.field, bad.reason))
            records.append([start + r for r in rows] if start else rows)
            parts.append(arrays)
        columns = [pa.concat_arrays(column) for column in zip(*parts, strict=True)]
        result.columns = [columns[i] for i in self._order]
        if self.has_kinds:
            result.kinds = columns[-1]
        if not row_by_row:
            result.records = pa.array(list(chain.from_iterable(records)), pa.int32())
        return result

    def _read(self, values: Any, result: Decoded) -> Chunk:
        chunk = Chunk(values, values.to_pylist())
        if not self._read_typed(chunk, result):
            self._find_rows(chunk, self._parse(chunk, result), result)
        return chunk

    def _read_typed(self, chunk: Chunk, result: Decoded) -> bool:
        """Fill the chunk's columns, if its documents are of the table's types."""
        if self._typed:
            chunk.columns = self._typed.read(chunk.values, chunk.documents)
        return chunk.columns is not None

    def _parse(self, chunk: Chunk, result: Decoded) -> list[Any]:
        documents = chunk.documents
        found: list[Any] = []
        while len(found) < len(documents):
            try:
                # When it raises, `extend` keeps what came before.
                found.extend(map(orjson.loads, islice(documents, len(found), None)))  # type: ignore[arg-type]
            except orjson.JSONDecodeError:
                found.append(self._read_odd(chunk, len(found), result))
        return found

    def _read_odd(self, chunk: Chunk, record: int, result: Decoded) -> object:
        """A record that orjson refuses: none at all, readable all the same, or not."""
        document = chunk.documents[record]
        if not document:
            count(result, NULL_VALUE)
            return NO_ROWS
        try:
            value = chunk.exact[record] = json_exact.parse(document)
            return value
        except json_exact.Unreadable as unreadable:
            self._unreadable(chunk, result, record, str(unreadable))
            return NO_ROWS

    def _find_rows(self, chunk: Chunk, found: list[Any], result: Decoded) -> None:
        """Rows out of documents."""
        if set(map(type, found)) == {dict}:
            chunk.rows = found
        else:
            self._find_rows_one_by_one(chunk, found, result)
        if self._find_missing:
            for i, row in enumerate(chunk.rows):
                absent = self._find_missing(row)
                if absent:
                    record = chunk.record(i)
                    chunk.bad.setdefault(record, BadRecord(record, absent.path, absent.reason))

    def _find_rows_one_by_one(self, chunk: Chunk, found: list[Any], result: Decoded) -> None:
        chunk.records = []
        for record, value in enumerate(found):
            if type(value) is dict:
                chunk.rows.append(value)
                chunk.records.append(record)
                chunk.places.append(None)
            elif type(value) is list:
                others: list[int] = []
                for place, row in enumerate(value):
                    if type(row) is dict:
                        chunk.rows.append(row)
                        chunk.records.append(record)
                        chunk.places.append(place)
                    else:
                        others.append(place)
                if others:
                    place, what = others[0], json_exact.shown(value[others[0]])
                    reason = f"expected an object at [{place}] of the array but found {what}"
                    self._unreadable(chunk, result, record, reason)
            else:
                what = json_exact.shown(value)
                reason = f"expected an object or an array of objects but found {what}"
                self._unreadable(chunk, result, record, reason)

    def _unreadable(
        self, chunk: Chunk, result: Decoded, record: int, reason: str, path: str | None = None
    ) -> None:
        if self._settings.ignore_errors:
            count(result, UNREADABLE)
        else:
            chunk.bad.setdefault(record, BadRecord(record, path, reason))

    def _values(self, column: Column, chunk: Chunk) -> Values:
        name = column.name
        return [row.get(name) for row in chunk.rows]

    def _exact_value(self, column: Column, row: int, chunk: Chunk) -> object:
        """The value with nothing lost."""
        document = chunk.exact_document(chunk.record(row))
        place = chunk.places[row] if chunk.places else None
        return (document if place is None else document[place])[column.name]

    def _build(self, index: int, chunk: Chunk) -> Any:
        column = self._columns[index]
        convert = column.convert
        try:
            if chunk.columns is not None:
                values = chunk.columns[index]
                return (column.typed or column.fast)(values, chunk)
            values = self._values(column, chunk)
            return column.fast(values, chunk)
        except NOT_FAST:
            pass
        converted: Values = []
        for row, value in enumerate(values):
            try:
                converted.append(None if value is None else convert(value))
            except (json_exact.NeedsText, json_exact.Mismatch):
                converted.append(self._convert_exactly(column, row, chunk))
        return pa.array(converted, column.arrow)

    def _convert_exactly(self, column: Column, row: int, chunk: Chunk) -> object:
        try:
            return column.convert(self._exact_value(column, row, chunk))
        except json_exact.Mismatch as mismatch:
            found = mismatch.inside(column.name)
            path, reason = found.path, found.reason
        except json_exact.Unreadable as unreadable:
            # orjson reads a little deeper nesting than Python does.
            path, reason = column.name, str(unreadable)
        if self._settings.ignore_errors:
            chunk.nulled += 1
        else:
            record = chunk.record(row)
            chunk.bad.setdefault(record, BadRecord(record, path, reason))
        return None


def count(result: Decoded, what: str, number: int = 1) -> None:
    result.dropped[what] = result.dropped.get(what, 0) + number


# ---- encode ----------------------------------------------------------------------------------------------

# Takes a column, gives a `string` array of JSON texts; null stays null.
Texts = Callable[[Any], Any]


def _string_texts(column: Any) -> Any:
    column = pc.cast(column, pa.string())
    odd = pc.match_substring_regex(column, json_exact.NEEDS_ESCAPE)
    return patched(joined('"', column, '"'), odd, json_exact.quote_bytes, column)


def _approximate_texts(column: Any) -> Any:
    texts = approximate_texts(column)
    # Jackson quotes what is not a JSON number.
    none = pc.invert(pc.is_finite(column))
    return pc.if_else(none, joined('"', texts, '"'), texts) if pc.any(none).as_py() else texts


def _quoted(write: Texts, end: str = "") -> Texts:
    """Texts that need no escapes."""
    return lambda column: joined('"', write(column), f'{end}"')


def _timestamp_texts(separator: str, zone: str) -> Texts:
    return _quoted(lambda column: timestamp_texts(column, separator), zone)


def _bracketed(column: Any, offsets: Any, texts: Any, brackets: str) -> Any:
    lists = pa.ListArray.from_arrays(offsets, texts)
    texts = joined(brackets[0], pc.binary_join(lists, ","), brackets[1])
    return where_valid(column, texts)


@dataclass(frozen=True)
class _Writing:
    standard: str
    null_key_mode: str
    null_key_literal: str
    plain_decimals: bool
    ignore_nulls: bool


def _array_texts(type_: t.ArrayType, writing: _Writing) -> Texts:
    element = _texts_of(type_.element, writing)

    def texts_of(column: Any) -> Any:
        offsets, values = content(column, column.values)
        return _bracketed(column, offsets, pc.fill_null(element(values), "null"), "[]")

    return texts_of


def _map_texts(type_: t.SqlType, writing: _Writing) -> Texts:
    """Takes a map array, or a list of (key, value) structs: Arrow's and Spark's maps cannot hold Flink's null key."""
    value = _texts_of(json_exact.entry_types(type_)[1], writing)

    def texts_of(column: Any) -> Any:
        is_map = pa.types.is_map(column.type)
        offsets, keys = content(column, column.keys if is_map else column.values.field(0))
        _, items = content(column, column.items if is_map else column.values.field(1))
        values = pc.fill_null(value(items), "null")
        if keys.null_count:
            offsets, keys, values = without_null_keys(offsets, keys, values)
        entries = joined(_string_texts(keys), ":", values)
        return _bracketed(column, offsets, entries, "{}")

    def without_null_keys(offsets: Any, keys: Any, values: Any) -> tuple[Any, Any, Any]:
        if writing.null_key_mode == "LITERAL":
            return offsets, pc.fill_null(keys, writing.null_key_literal), values
        if writing.null_key_mode == "DROP":
            kept = pc.is_valid(keys)
            before = [0, *accumulate(map(int, kept.to_pylist()))]
            shifted = [before[offset] for offset in offsets.to_pylist()]
            return pa.array(shifted, pa.int32()), keys.filter(kept), values.filter(kept)
        raise job_error(
            "FMT-003",
            "JSON format doesn't support to serialize map data with null keys",
            "drop null keys or write a literal for them with the format's option 'map-null-key.mode'"
            " = 'DROP' or 'LITERAL' (and 'map-null-key.literal')",
        )

    return texts_of


def _row_texts(fields: Sequence[t.Field], writing: _Writing) -> Callable[[Sequence[Any]], Any]:
    """Columns → objects, one field after the other in the order of the schema."""
    parts = [(json_exact.quote_bytes(f.name) + ":", _texts_of(f.type, writing)) for f in fields]

    def texts_of(columns: Sequence[Any]) -> Any:
        texts = [write(column) for (_, write), column in zip(parts, columns, strict=True)]
        labels = [("," if i else "{") + label for i, (label, _) in enumerate(parts)]
        if not writing.ignore_nulls or not any(text.null_count for text in texts):
            filled = [pc.fill_null(text, "null") for text in texts]
            return joined(*chain.from_iterable(zip(labels, filled, strict=True)), "}")
        # Every field brings a comma, or nothing at all; the first comma of a row makes way for the brace.
        present = [
            pc.fill_null(joined("," + label, text), "")
            for (label, _), text in zip(parts, texts, strict=True)
        ]
        members = pc.cast(joined(*present), pa.binary())
        opened = pc.binary_replace_slice(members, start=0, stop=1, replacement=b"{")
        return joined(pc.cast(opened, pa.string()), "}")

    return texts_of


def _struct_texts(type_: t.RowType, writing: _Writing) -> Texts:
    write = _row_texts(type_.fields, writing)

    def texts_of(column: Any) -> Any:
        children = [column.field(i) for i in range(len(type_.fields))]
        if not children:
            return where_valid(column, pa.array(["{}"] * len(column), pa.string()))
        return where_valid(column, write(children))

    return texts_of


_TEXTS: dict[type[t.SqlType], Texts] = {
    t.NullType: lambda column: pa.nulls(len(column), pa.string()),
    t.BooleanType: plain_texts,
    t.TinyIntType: plain_texts,
    t.SmallIntType: plain_texts,
    t.IntType: plain_texts,
    t.BigIntType: plain_texts,
    t.FloatType: _approximate_texts,
    t.DoubleType: _approximate_texts,
    t.CharType: _string_texts,
    t.VarCharType: _string_texts,
    t.BinaryType: _quoted(base64_texts),
    t.VarBinaryType: _quoted(base64_texts),
    t.DateType: _quoted(date_texts),
    t.TimeType: _quoted(time_texts),
}


def _texts_of(type_: t.SqlType, writing: _Writing) -> Texts:
    simple = _TEXTS.get(type(type_))
    if simple:
        return simple
    separator = "T" if writing.standard == "ISO-8601" else " "
    match type_:
        case t.DecimalType():
            return plain_decimal_texts if writing.plain_decimals else decimal_texts
        case t.TimestampType():
            return _timestamp_texts(separator, "")
        case t.TimestampLtzType():
            return _timestamp_texts(separator, "Z")
        case t.ArrayType():
            return _array_texts(type_, writing)
        case t.MapType() | t.MultisetType():
            return _map_texts(type_, writing)
        case t.RowType():
            return _struct_texts(type_, writing)
    raise json_exact.unsupported(type_)


class JsonEncoder(Remade):
    def __init__(self, fields: tuple[t.Field, ...], options: dict[str, object]) -> None:
        self._made_of = (fields, options)
        merged = {**DEFAULTS, **options}
        writing = _Writing(
            str(merged["timestamp-format.standard"]),
            str(merged["map-null-key.mode"]).upper(),
            str(merged["map-null-key.literal"]),
            bool(merged["encode.decimal-as-plain-number"]),
            bool(merged["encode.ignore-null-fields"]),
        )
        self._write = _row_texts(fields, writing)

    def encode(self, columns: Sequence[Any]) -> Any:
        return pc.cast(self._write(columns), pa.binary())

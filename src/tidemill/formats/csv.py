"""The `csv` format: Kafka values ⇄ Arrow columns, a line of delimited texts per record, read and written as Flink does.

In: a `binary` array of lines; out: one array per wanted field. Lines that any reader would take apart alike go to
Arrow's parser all at once, the others one by one to `csv_exact`; then each column of texts becomes a column of values,
by Arrow if they are plain, else one by one.
Law: the fast way and the exact way give the same rows; leaving a field out of `wanted` changes nothing but that a
malformed value in it goes unseen. A decoded array may hold nulls where its field is NOT NULL: a format does not judge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from tidemill import types as t
from tidemill.formats import (
    NULL_VALUE,
    UNREADABLE,
    BadRecord,
    Decoded,
    Remade,
    arrow_text,
    csv_exact,
    java_text,
)
from tidemill.formats.arrow import arrow_type
from tidemill.formats.csv_exact import Dialect
from tidemill.formats.json_exact import Mismatch

DEFAULTS: Mapping[str, object] = {
    "field-delimiter": ",",
    "disable-quote-character": False,
    "quote-character": '"',
    "allow-comments": False,
    "ignore-parse-errors": False,
    "array-element-delimiter": ";",
    "escape-character": None,
    "null-literal": None,
    "write-bigdecimal-in-scientific-notation": None,
    "trim-spaces": False,
    "ignore-trailing-unmappable": False,
    "allow-trailing-comma": True,
    "fail-on-missing-columns": False,
    "empty-string-as-null": False,
}

# Large enough that a call of Arrow's parser costs nothing beside its work.
_CHUNK = 32_768


def decoder(
    fields: Sequence[t.Field],
    options: Mapping[str, object],
    wanted: Sequence[str] | None = None,
) -> CsvDecoder:
    return CsvDecoder(tuple(fields), dict(options), None if wanted is None else tuple(wanted))


def encoder(fields: Sequence[t.Field], options: Mapping[str, object]) -> CsvEncoder:
    return CsvEncoder(tuple(fields), dict(options))


def _dialect(options: Mapping[str, object]) -> Dialect:
    def text(key: str) -> str | None:
        value = options[key]
        return None if value is None else str(value)

    return Dialect(
        delimiter=str(options["field-delimiter"]),
        quote=None if options["disable-quote-character"] else text("quote-character"),
        escape=text("escape-character"),
        comments=bool(options["allow-comments"]),
        trim=bool(options["trim-spaces"]),
        element_delimiter=str(options["array-element-delimiter"]),
        null_literal=text("null-literal"),
        empty_is_null=bool(options["empty-string-as-null"]),
        ignore_extra=bool(options["ignore-trailing-unmappable"]),
        allow_trailing=bool(options["allow-trailing-comma"]),
    )


# ---- decode: lines → texts -------------------------------------------------------------------------------


def _codes(chars: str) -> str:
    return "".join(f"\\x{ord(char):02x}" for char in chars)


@dataclass
class _Rows:
    """The lines of a chunk that are rows, as texts."""

    columns: list[Any]
    """Of each wanted column the texts; null: the line is shorter."""
    places: list[int] | None = None
    """Of each row its place among the lines; None: every line is a row."""
    refused: dict[int, str] = field(default_factory=dict)
    """Why the other lines are none."""
    nulls: int = 0
    """How many there are none of."""


class _Lines:
    """Takes lines apart, all that are simple at once.

    A line is simple if it has nothing that Jackson and Arrow might see differently: line ends, escapes, comments,
    blanks that are to be trimmed, signs of another encoding than UTF-8, anything but a delimiter beside a quote.
    """

    def __init__(
        self, dialect: Dialect, columns: int, wanted: Sequence[int], takes_short: bool
    ) -> None:
        self._dialect = dialect
        self._columns = columns
        self._wanted = list(wanted)
        self._takes_short = takes_short
        special = [c for c in (dialect.delimiter, dialect.quote, dialect.escape) if c]
        self._has_simple = "".join(special).isascii() and not set(special) & set("\r\n\0")
        if not self._has_simple:
            return
        stop, quote = _codes(dialect.delimiter), _codes(dialect.quote or "")
        barred = _codes("\r\n\0" + (dialect.escape or ""))
        text = f"[^{stop}{quote}{barred}][^{stop}{barred}]*"
        quoted = f"{quote}(?:[^{quote}{barred}]|{quote}{quote})*{quote}|" if quote else ""
        self._simple = f"^(?:{quoted}{text}|)(?:{stop}(?:{quoted}{text}|))*$"
        odd = [r"^(?:\xef\xbb\xbf|\xfe\xff|\xff\xfe|$)"]
        if dialect.comments:
            odd.append("^[# ]")
        if dialect.trim:
            odd.append(f"(?:^|{stop})[\\x00-\\x20]|[\\x00-\\x20](?:{stop}|$)")
        self._odd = "|".join(odd)
        # Where none of these occurs in any line, all of them are simple.
        self._signs = [b"\r", b"\0", b"\xef\xbb\xbf", b"\xfe\xff", b"\xff\xfe"]
        self._signs += [c.encode() for c in special[1:]]
        if dialect.comments or dialect.trim:
            self._signs.append(b"")
        names = [str(i) for i in range(columns)]
        self._names = names
        self._convert_options = arrow_csv.ConvertOptions(
            column_types={name: pa.string() for name in names},
            # Without any, all would be read.
            include_columns=[names[i] for i in self._wanted] or names[:1],
            check_utf8=False,
            null_values=[],
            strings_can_be_null=False,
        )

    def read(self, lines: Any) -> _Rows:
        if not self._has_simple:
            simple = pa.repeat(False, len(lines))
        else:
            buffer = _one_below_the_other(lines)
            simple = self._find_simple(lines, buffer)
            if simple is None:
                columns, ragged = self._take_apart(buffer)
                if not ragged:
                    return _Rows(columns)
                simple = pa.array([i not in ragged for i in range(len(lines))], pa.bool_())
        return self._read_mixed(lines, simple)

    def _find_simple(self, lines: Any, buffer: bytes) -> Any:
        """Which lines are simple; None when all of them are."""
        valid = _valid_utf8(lines)
        if (
            valid is None
            and not lines.null_count
            and buffer.count(b"\n") == len(lines) - 1
            and not any(sign in buffer for sign in self._signs)
            and not pc.any(pc.equal(pc.binary_length(lines), 0)).as_py()
        ):
            return None
        simple = pc.and_(
            pc.match_substring_regex(lines, self._simple),
            pc.invert(pc.match_substring_regex(lines, self._odd)),
        )
        simple = pc.fill_null(simple if valid is None else pc.and_(simple, valid), False)
        return None if pc.all(simple).as_py() else simple

    def _take_apart(self, buffer: bytes) -> tuple[list[Any], set[int]]:
        """The texts of the wanted columns, without the lines, told beside, that have more or fewer fields."""
        ragged: set[int] = set()

        def leave_out(row: Any) -> str:
            ragged.add(row.number - 1)
            return "skip"

        quote = self._dialect.quote
        table = arrow_csv.read_csv(
            pa.BufferReader(buffer),
            arrow_csv.ReadOptions(
                use_threads=False, block_size=len(buffer) + 1, column_names=self._names
            ),
            arrow_csv.ParseOptions(
                delimiter=self._dialect.delimiter,
                quote_char=quote or False,
                double_quote=True,
                escape_char=False,
                newlines_in_values=False,
                ignore_empty_lines=False,
                invalid_row_handler=leave_out,
            ),
            self._convert_options,
        )
        return [_one_array(table.column(i)) for i in range(len(self._wanted))], ragged

    def _read_mixed(self, lines: Any, simple: Any) -> _Rows:
        places = pc.indices_nonzero(simple).to_pylist()
        columns: list[Any] = [pa.array([], pa.string()) for _ in self._wanted]
        if places:
            columns, ragged = self._take_apart(_one_below_the_other(lines.filter(simple)))
            places = [place for i, place in enumerate(places) if i not in ragged]
        result = _Rows(columns)
        regular = set(places)
        exact: list[list[str]] = []
        for place in range(len(lines)):
            if place in regular:
                continue
            document = lines[place].as_py()
            if document is None:
                result.nulls += 1
                continue
            try:
                exact.append(self._read_exactly(document))
                places.append(place)
            except csv_exact.Unreadable as unreadable:
                result.refused[place] = str(unreadable)
        order = pc.sort_indices(pa.array(places, pa.int64()))
        result.places = [places[i] for i in order.to_pylist()]
        for i, column in enumerate(self._wanted):
            texts = [line[column] if column < len(line) else None for line in exact]
            both = pa.concat_arrays([columns[i], pa.array(texts, pa.string())])
            columns[i] = both.take(order)
        return result

    def _read_exactly(self, document: bytes) -> list[str]:
        found = csv_exact.fields(document, self._dialect, self._columns)
        if len(found) < self._columns and not self._takes_short:
            raise csv_exact.Unreadable(csv_exact.wrong_length(self._columns, len(found)))
        return found


def _one_below_the_other(lines: Any) -> bytes:
    whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
    joined: bytes | None = pc.binary_join(whole, b"\n")[0].as_py()
    # It is null if one of the lines is.
    return joined or b""


def _valid_utf8(lines: Any) -> Any:
    """Which lines are UTF-8; None when all of them are."""
    try:
        lines.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_is_utf8(line) for line in lines.to_pylist()], pa.bool_())
    return None


def _is_utf8(line: bytes | None) -> bool:
    try:
        (line or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def _one_array(column: Any) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


# ---- decode: texts → columns -----------------------------------------------------------------------------

# A column of texts becomes a column of values, or arrow_text.NOT_PLAIN is raised.
Fast = Callable[[Any], Any]


def _fast_boolean(texts: Any) -> Any:
    return pc.equal(pc.ascii_lower(pc.utf8_trim(texts, java_text.BLANKS)), "true")


def _fast_integers(arrow: Any) -> Fast:
    return lambda texts: arrow_text.integers(texts, arrow)


def _fast_approximates(arrow: Any) -> Fast:
    return lambda texts: arrow_text.approximates(texts, arrow)


def _not_fast(texts: Any) -> Any:
    raise arrow_text.Unsure


_FAST: dict[type[t.SqlType], Fast] = {
    t.NullType: lambda texts: pa.nulls(len(texts)),
    t.BooleanType: _fast_boolean,
    t.TinyIntType: _fast_integers(pa.int8()),
    t.SmallIntType: _fast_integers(pa.int16()),
    t.IntType: _fast_integers(pa.int32()),
    t.BigIntType: _fast_integers(pa.int64()),
    t.FloatType: _fast_approximates(pa.float32()),
    t.DoubleType: _fast_approximates(pa.float64()),
    t.CharType: lambda texts: texts,
    t.VarCharType: lambda texts: texts,
    t.BinaryType: _not_fast,
    t.VarBinaryType: _not_fast,
    t.DateType: arrow_text.dates,
    t.TimeType: arrow_text.times,
}


def _fast(type_: t.SqlType, dialect: Dialect) -> Fast:
    simple = _FAST.get(type(type_))
    if simple:
        return simple
    match type_:
        case t.DecimalType():
            arrow = arrow_type(type_)
            return lambda texts: arrow_text.decimals(texts, arrow)
        case t.TimestampType() | t.TimestampLtzType():
            zoned, coarse = isinstance(type_, t.TimestampLtzType), type_.precision <= 3
            return lambda texts: arrow_text.timestamps(texts, zoned, coarse)
        case t.ArrayType():
            return _fast_array(type_, dialect)
        case t.RowType():
            return _fast_row(type_, dialect)
    raise csv_exact.unsupported(type_)


def _split(texts: Any, dialect: Dialect) -> tuple[Any, Any]:
    """Lists of texts, and which of the texts are blank."""
    lists = pc.split_pattern(texts, dialect.element_delimiter)
    blank = pc.equal(pc.utf8_trim(texts, java_text.BLANKS), "")
    return lists, pc.fill_null(pc.and_(blank, pc.equal(pc.list_value_length(lists), 1)), False)


def _elements(texts: Any, dialect: Dialect) -> Any:
    return _with_nulls(pc.utf8_trim(texts, java_text.BLANKS) if dialect.trim else texts, dialect)


def _with_nulls(texts: Any, dialect: Dialect) -> Any:
    nothing = pa.scalar(None, pa.string())
    if dialect.null_literal is not None:
        texts = pc.if_else(pc.equal(texts, dialect.null_literal), nothing, texts)
    if dialect.empty_is_null:
        texts = pc.if_else(pc.equal(texts, ""), nothing, texts)
    return texts


def _fast_array(type_: t.ArrayType, dialect: Dialect) -> Fast:
    arrow, element = arrow_type(type_), _fast(type_.element, dialect)

    def build(texts: Any) -> Any:
        lists, blank = _split(texts, dialect)
        if pc.any(blank).as_py():
            lists = pc.if_else(blank, pa.scalar([], lists.type), lists)
        offsets, values = arrow_text.content(lists, lists.values)
        mask = pc.is_null(lists) if lists.null_count else None
        return pa.ListArray.from_arrays(
            offsets, element(_elements(values, dialect)), type=arrow, mask=mask
        )

    return build


def _fast_row(type_: t.RowType, dialect: Dialect) -> Fast:
    arrow = arrow_type(type_)
    fields = [_fast(f.type, dialect) for f in type_.fields]

    def build(texts: Any) -> Any:
        lists, blank = _split(texts, dialect)
        lists = pc.if_else(blank, pa.scalar(None, lists.type), lists)
        shortest = pc.min(pc.list_value_length(lists)).as_py()
        if not fields or (shortest is not None and shortest < len(fields)):
            raise arrow_text.Unsure
        children = [
            build_child(_elements(pc.list_element(lists, i), dialect))
            for i, build_child in enumerate(fields)
        ]
        return pa.StructArray.from_arrays(children, fields=list(arrow), mask=pc.is_null(lists))

    return build


@dataclass(frozen=True)
class _Column:
    name: str
    arrow: Any
    has_parts: bool
    fast: Fast
    convert: csv_exact.Convert


class CsvDecoder(Remade):
    def __init__(
        self,
        fields: tuple[t.Field, ...],
        options: dict[str, object],
        wanted: tuple[str, ...] | None,
    ) -> None:
        self._made_of = (fields, options, wanted)
        merged = {**DEFAULTS, **options}
        self._dialect = dialect = _dialect(merged)
        self._ignore_errors = bool(merged["ignore-parse-errors"])
        names = [f.name for f in fields] if wanted is None else list(wanted)
        # In the order of the table, whatever the order that is asked for: the first bad field of a record is
        # then the same one for every query.
        used = [i for i, f in enumerate(fields) if f.name in names]
        self._columns = [self._column(fields[i]) for i in used]
        at = {column.name: i for i, column in enumerate(self._columns)}
        self._order = [at[name] for name in names]
        takes_short = self._ignore_errors and not merged["fail-on-missing-columns"]
        self._lines = _Lines(dialect, len(fields), used, takes_short)

    def _column(self, field_: t.Field) -> _Column:
        # First, because it refuses what the format cannot do.
        convert = csv_exact.converter(field_.type, self._dialect, self._ignore_errors)
        has_parts = isinstance(field_.type, (t.ArrayType, t.RowType))
        fast = _fast(field_.type, self._dialect)
        return _Column(field_.name, arrow_type(field_.type), has_parts, fast, convert)

    def decode(self, values: Any) -> Decoded:
        result = Decoded([])
        parts: list[list[Any]] = [[pa.array([], c.arrow) for c in self._columns]]
        places: list[Any] = []
        row_by_row = True
        for start in range(0, len(values), _CHUNK):
            lines = values.slice(start, _CHUNK)
            rows = self._lines.read(lines)
            bad = (
                {}
                if self._ignore_errors
                else {
                    place: BadRecord(start + place, None, why)
                    for place, why in rows.refused.items()
                }
            )
            self._count(result, NULL_VALUE, rows.nulls)
            self._count(result, UNREADABLE, len(rows.refused) - len(bad))
            place_of = range(len(lines)) if rows.places is None else rows.places
            arrays = []
            for column, texts in zip(self._columns, rows.columns, strict=True):
                array, mismatches = self._build(column, texts)
                arrays.append(array)
                if self._ignore_errors:
                    result.nulled += len(mismatches)
                    continue
                for row, mismatch in mismatches.items():
                    found = mismatch.inside(column.name)
                    place = place_of[row]
                    bad.setdefault(place, BadRecord(start + place, found.path, found.reason))
            if bad:
                kept = pa.array([place not in bad for place in place_of], pa.bool_())
                arrays = [array.filter(kept) for array in arrays]
            if bad or rows.places is not None:
                row_by_row = False
            places.append(
                pa.array([start + p for p in place_of if p not in bad], pa.int32())
                if bad or rows.places is not None
                else pa.array(range(start, start + len(lines)), pa.int32())
            )
            result.bad += [bad[place] for place in sorted(bad)]
            parts.append(arrays)
        columns = [pa.concat_arrays(column) for column in zip(*parts, strict=True)]
        result.columns = [columns[i] for i in self._order]
        if not row_by_row:
            result.records = pa.concat_arrays(places)
        return result

    def _count(self, result: Decoded, what: str, number: int) -> None:
        if number:
            result.dropped[what] = result.dropped.get(what, 0) + number

    def _build(self, column: _Column, texts: Any) -> tuple[Any, dict[int, Mismatch]]:
        """The column's values, and what is wrong in which row."""
        # Jackson looks for NULL inside of an array, not for one in its place.
        if not column.has_parts:
            texts = _with_nulls(texts, self._dialect)
        try:
            return column.fast(texts), {}
        except arrow_text.NOT_PLAIN:
            pass
        converted: list[object] = []
        mismatches: dict[int, Mismatch] = {}
        for row, text in enumerate(texts.to_pylist()):
            try:
                converted.append(None if text is None else column.convert(text))
            except Mismatch as mismatch:
                converted.append(None)
                mismatches[row] = mismatch
        return pa.array(converted, column.arrow), mismatches


# ---- encode ----------------------------------------------------------------------------------------------

# Takes a column, gives a `string` array; null stays null.
Texts = Callable[[Any], Any]

# Jackson quotes a text that is longer than this many characters without looking at it.
_LOOKED_AT = 24
_ASTRAL = r"\x{10000}-\x{10FFFF}"

_BARE: dict[type[t.SqlType], Texts] = {
    t.BooleanType: arrow_text.plain_texts,
    t.TinyIntType: arrow_text.plain_texts,
    t.SmallIntType: arrow_text.plain_texts,
    t.IntType: arrow_text.plain_texts,
    t.BigIntType: arrow_text.plain_texts,
    t.FloatType: arrow_text.approximate_texts,
    t.DoubleType: arrow_text.approximate_texts,
    t.NullType: lambda column: pa.nulls(len(column), pa.string()),
}
"""What is never quoted; DECIMAL is not either."""

_QUOTABLE: dict[type[t.SqlType], Texts] = {
    t.CharType: arrow_text.plain_texts,
    t.VarCharType: arrow_text.plain_texts,
    t.BinaryType: arrow_text.base64_texts,
    t.VarBinaryType: arrow_text.base64_texts,
    t.DateType: arrow_text.date_texts,
    t.TimeType: arrow_text.time_texts,
    t.TimestampType: arrow_text.timestamp_texts,
    t.TimestampLtzType: lambda c: arrow_text.joined(arrow_text.timestamp_texts(c), "Z"),
}


class CsvEncoder(Remade):
    def __init__(self, fields: tuple[t.Field, ...], options: dict[str, object]) -> None:
        self._made_of = (fields, options)
        merged = {**DEFAULTS, **options}
        self._dialect = dialect = _dialect(merged)
        self._scientific = bool(merged["write-bigdecimal-in-scientific-notation"])
        self._null = dialect.null_literal or ""
        if dialect.quote:
            # Jackson's loose test: a character up to the greater of delimiter and quote might be special.
            last = max(ord(dialect.delimiter), ord(dialect.quote))
            # It tests halves of characters, which lie before U+E000.
            halves = _ASTRAL if last >= 0xD800 else ""
            also = f"\\x{{{ord(dialect.escape or chr(92)):x}}}"
            self._special = f"[\\x{{0}}-\\x{{{last:x}}}{also}{halves}]"
        self._columns = [self._texts_of(f.type) for f in fields]

    def encode(self, columns: Sequence[Any]) -> Any:
        texts = [
            pc.fill_null(write(column), self._null)
            for write, column in zip(self._columns, columns, strict=True)
        ]
        lines = pc.binary_join_element_wise(*texts, self._dialect.delimiter)
        return pc.cast(lines, pa.binary())

    def _texts_of(self, type_: t.SqlType) -> Texts:
        match type_:
            case t.ArrayType():
                return self._quoted(self._array_texts(self._plain(type_.element)))
            case t.RowType():
                return self._quoted(self._row_texts([self._plain(f.type) for f in type_.fields]))
        plain = self._plain(type_)
        return self._quoted(plain) if type(type_) in _QUOTABLE else plain

    def _plain(self, type_: t.SqlType) -> Texts:
        """The texts of a simple type, before any quotes."""
        if isinstance(type_, t.DecimalType):
            return arrow_text.decimal_texts if self._scientific else arrow_text.plain_decimal_texts
        write = _BARE.get(type(type_)) or _QUOTABLE.get(type(type_))
        if write is None:
            raise csv_exact.unsupported(type_)
        return write

    def _array_texts(self, element: Texts) -> Texts:
        def texts_of(column: Any) -> Any:
            offsets, values = arrow_text.content(column, column.values)
            texts = pc.fill_null(element(values), self._null)
            lists = pa.ListArray.from_arrays(offsets, texts)
            return arrow_text.where_valid(
                column, pc.binary_join(lists, self._dialect.element_delimiter)
            )

        return texts_of

    def _row_texts(self, parts: Sequence[Texts]) -> Texts:
        def texts_of(column: Any) -> Any:
            texts = [
                pc.fill_null(write(column.field(i)), self._null) for i, write in enumerate(parts)
            ]
            joined = pc.binary_join_element_wise(*texts, self._dialect.element_delimiter)
            return arrow_text.where_valid(column, joined)

        return texts_of

    def _quoted(self, write: Texts) -> Texts:
        quote, escape = self._dialect.quote, self._dialect.escape
        if not quote:
            return write

        def texts_of(column: Any) -> Any:
            texts = write(column)
            needed = pc.or_(
                pc.match_substring_regex(texts, self._special),
                pc.greater(_java_length(texts), _LOOKED_AT),
            )
            if not pc.any(needed).as_py():
                return texts
            body = texts
            if escape and escape != quote:
                body = pc.replace_substring(body, escape, escape + escape)
            body = pc.replace_substring(body, quote, quote + quote)
            return pc.if_else(needed, arrow_text.joined(quote, body, quote), texts)

        return texts_of


def _java_length(texts: Any) -> Any:
    """Length in UTF-16."""
    return pc.add(pc.utf8_length(texts), pc.count_substring_regex(texts, f"[{_ASTRAL}]"))

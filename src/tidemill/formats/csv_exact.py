"""Delimited text one record and one value at a time, as Jackson reads it for Flink: the slow half of the `csv` format.

In: the bytes of a record; out: the texts of its fields. Then `converter(type, …)` turns one text into what
`pyarrow.array` takes for the column. Law: this is the measure; `csv.py` answers for itself only where it is sure to
answer the same. Meant to differ from Flink: bytes that are not UTF-8 are refused also where Jackson does not look
(surrogates, forms that are too long).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from tidemill import types as t
from tidemill.errors import script_error
from tidemill.formats import java_text
from tidemill.formats.json_exact import Mismatch

Convert = Callable[[str], object]


class Unreadable(Exception):
    """The bytes do not begin with a line of fields, or with too many of them."""


@dataclass(frozen=True)
class Dialect:
    """How lines are written. Single characters all of them; None: there is none."""

    delimiter: str
    quote: str | None
    escape: str | None
    comments: bool
    trim: bool
    element_delimiter: str
    null_literal: str | None
    empty_is_null: bool
    ignore_extra: bool
    allow_trailing: bool

    def is_null(self, text: str) -> bool:
        return text == self.null_literal or (self.empty_is_null and not text)

    def elements(self, text: str) -> list[str | None]:
        """The texts inside a field that is an ARRAY or a ROW; a blank field has none."""
        if self.element_delimiter not in text and not java_text.trim(text):
            return []
        parts = text.split(self.element_delimiter)
        if self.trim:
            parts = [java_text.trim(part) for part in parts]
        return [None if self.is_null(part) else part for part in parts]


# ---- the record ------------------------------------------------------------------------------------------

_LINE_ENDS = "\r\n"
_ESCAPED = {"0": "\0", "n": "\n", "r": "\r", "t": "\t"}


def fields(document: bytes, dialect: Dialect, columns: int) -> list[str]:
    """The texts of the first line, at most as many as there are columns; later lines are not looked at, as in Flink."""
    # Jackson finds out UTF-16, UTF-32 and byte order marks by itself; so does this.
    encoding = json.detect_encoding(document)
    try:
        return _Scanner(document.decode(encoding), dialect).line(columns)
    except UnicodeDecodeError as error:
        scanner = _Scanner(document[: error.start].decode(encoding, "ignore"), dialect)
        try:
            found = scanner.line(columns)
            if scanner.at < len(scanner.text):
                return found
        except Unreadable:
            pass
        raise Unreadable(f"not text: invalid {encoding} at byte {error.start + 1}") from None


class _Scanner:
    """Where in a text we are. A field is read with the delimiter or line end after it."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        self.text = text
        self.dialect = dialect
        self.at = 0
        self.ended = False
        """Whether the line has no more fields."""
        self._ends = dialect.delimiter + _LINE_ENDS
        self._stop = re.compile(f"[{re.escape(self._ends + (dialect.escape or ''))}]")

    def line(self, columns: int) -> list[str]:
        if self.dialect.comments:
            self._skip_comments()
        if self.at == len(self.text):
            raise Unreadable("there is nothing in it")
        found: list[str] = []
        while not self.ended:
            value = self._field()
            if len(found) == columns:
                if self._may_be_left_out(value):
                    break
                raise Unreadable(
                    f"expected at most {columns} field{'' if columns == 1 else 's'} but found another: '{shown(value)}'"
                )
            found.append(value)
        return found

    def _may_be_left_out(self, value: str) -> bool:
        """A field after the last column."""
        if self.dialect.ignore_extra:
            return True
        return self.dialect.allow_trailing and not java_text.trim(value) and self.ended

    def _skip_comments(self) -> None:
        text = self.text
        while self.at < len(text) and text[self.at] in "# \r\n":
            if text[self.at] != "#":
                self.at += 1
                continue
            while self.at < len(text) and text[self.at] not in _LINE_ENDS:
                self.at += 1

    def _field(self) -> str:
        text, dialect = self.text, self.dialect
        if dialect.trim:
            while self.at < len(text) and text[self.at] <= " ":
                if text[self.at] in self._ends:
                    break
                self.at += 1
        if self.at < len(text) and text[self.at] == dialect.quote:
            self.at += 1
            return self._quoted()
        return self._unquoted()

    def _unquoted(self) -> str:
        parts: list[str] = []
        while True:
            stop = self._stop.search(self.text, self.at)
            end = stop.start() if stop else len(self.text)
            parts.append(self.text[self.at : end])
            self.at = end
            if stop and stop[0] not in self._ends:
                parts.append(self._escaped())
                continue
            self._end_of_field()
            value = "".join(parts)
            return value.rstrip(java_text.BLANKS) if self.dialect.trim else value

    def _escaped(self) -> str:
        self.at += 1
        if self.at == len(self.text):
            raise Unreadable("it ends after an escape character")
        char = self.text[self.at]
        self.at += 1
        return _ESCAPED.get(char, char)

    def _quoted(self) -> str:
        text, quote = self.text, self.dialect.quote
        parts: list[str] = []
        while True:
            if self.at == len(text):
                raise Unreadable("a quote is never closed")
            char = text[self.at]
            if char == quote:
                self.at += 1
                if self.at == len(text) or text[self.at] != quote:
                    break
                parts.append(char)
                self.at += 1
            elif char == self.dialect.escape and char not in _LINE_ENDS:
                parts.append(self._escaped())
            else:
                parts.append(char)
                self.at += 1
        while self.at < len(text) and text[self.at] <= " ":
            if text[self.at] in self._ends:
                break
            self.at += 1
        if self.at < len(text) and text[self.at] not in self._ends:
            raise Unreadable(
                f"expected a delimiter or the end after a closing quote but found '{text[self.at]}'"
            )
        self._end_of_field()
        return "".join(parts)

    def _end_of_field(self) -> None:
        """Over the delimiter, or the line end, which is the last thing that is read."""
        self.ended = self.at == len(self.text) or self.text[self.at] != self.dialect.delimiter
        self.at += self.at < len(self.text)


# ---- one text into one type ------------------------------------------------------------------------------


def shown(text: str) -> str:
    """A text as an error message shows it."""
    return text if len(text) <= 80 else text[:76] + "…"


def _mismatch(expected: str, text: str) -> Mismatch:
    return Mismatch(f"expected {expected} but found '{shown(text)}'")


def _to_boolean(text: str) -> object:
    return java_text.trim(text).lower() == "true"


def _to_integer(bits: int) -> Convert:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    def convert(text: str) -> object:
        try:
            number = java_text.parse_integer(java_text.trim(text))
        except ValueError:
            number = high + 1
        if low <= number <= high:
            return number
        raise _mismatch(f"an integer from {low} to {high}", text)

    return convert


def _to_double(text: str) -> object:
    try:
        return java_text.parse_double(java_text.trim(text))
    except ValueError:
        raise _mismatch("a number", text) from None


def _to_float(text: str) -> object:
    try:
        return java_text.parse_float(java_text.trim(text))
    except ValueError:
        raise _mismatch("a number", text) from None


def _to_decimal(type_: t.DecimalType) -> Convert:
    def convert(text: str) -> object:
        try:
            number = java_text.parse_decimal(text)
        except ValueError:
            raise _mismatch("a decimal number without blanks", text) from None
        return java_text.fit_decimal(number, type_.precision, type_.scale)

    return convert


def _to_bytes(text: str) -> object:
    try:
        return java_text.parse_base64(text)
    except ValueError:
        raise _mismatch("a base64 string", text) from None


def _from_text(parse: Callable[[str], int], expected: str) -> Convert:
    def convert(text: str) -> object:
        try:
            return parse(text)
        except ValueError:
            raise _mismatch(f"'{expected}'", text) from None

    return convert


def _to_timestamp(type_: t.TimestampType | t.TimestampLtzType) -> Convert:
    zoned = isinstance(type_, t.TimestampLtzType)
    form = java_text.SQL_TIMESTAMP_LTZ if zoned else java_text.SQL_TIMESTAMP
    # Flink keeps milliseconds for a precision up to 3.
    micros = 1000 if type_.precision <= 3 else 1

    def parse(text: str) -> int:
        return java_text.parse_timestamp(java_text.trim(text), form) // micros * micros

    return _from_text(parse, form.shown)


def _parse_time(text: str) -> int:
    # Flink's planner gives every TIME the precision 0, and the format cuts to it.
    return java_text.parse_iso_time(text) // _SECOND * _SECOND


_SECOND = 1_000_000_000
_SCALARS: dict[type[t.SqlType], Convert] = {
    t.NullType: lambda text: None,
    t.BooleanType: _to_boolean,
    t.TinyIntType: _to_integer(8),
    t.SmallIntType: _to_integer(16),
    t.IntType: _to_integer(32),
    t.BigIntType: _to_integer(64),
    t.FloatType: _to_float,
    t.DoubleType: _to_double,
    t.CharType: lambda text: text,
    t.VarCharType: lambda text: text,
    t.BinaryType: _to_bytes,
    t.VarBinaryType: _to_bytes,
    t.DateType: _from_text(java_text.parse_sql_date, "yyyy-[M]M-[d]d"),
    t.TimeType: _from_text(_parse_time, "HH:mm[:ss[.f]]"),
}


def unsupported(type_: t.SqlType) -> Exception:
    return script_error(
        "FMT-002",
        f"the csv format has no representation for the type {type_}",
        None,
        "ARRAY and ROW can hold simple types only; declare the column as STRING",
    )


def converter(type_: t.SqlType, dialect: Dialect, ignore_errors: bool) -> Convert:
    """Turns one text that is not NULL into Python's counterpart of the column's Arrow type.

    With `ignore_errors` what is wrong inside an ARRAY or a ROW becomes None; the value itself still raises.
    """

    def inside(convert: Convert, part: str | None, step: str) -> object:
        if part is None:
            return None
        try:
            return convert(part)
        except Mismatch as mismatch:
            if ignore_errors:
                return None
            raise mismatch.inside(step) from None

    match type_:
        case t.ArrayType():
            element = _scalar(type_.element)

            def to_array(text: str) -> object:
                parts = dialect.elements(text)
                return [inside(element, part, f"[{i}]") for i, part in enumerate(parts)]

            return to_array
        case t.RowType():
            parts_of = [(f.name, _scalar(f.type)) for f in type_.fields]

            def to_row(text: str) -> object:
                parts = dialect.elements(text)
                if not parts:
                    return None
                if len(parts) < len(parts_of):
                    if not ignore_errors:
                        raise Mismatch(wrong_length(len(parts_of), len(parts)))
                    parts += [None] * (len(parts_of) - len(parts))
                return {
                    name: inside(convert, part, name)
                    for (name, convert), part in zip(parts_of, parts, strict=False)
                }

            return to_row
    return _scalar(type_)


def _scalar(type_: t.SqlType) -> Convert:
    simple = _SCALARS.get(type(type_))
    if simple:
        return simple
    match type_:
        case t.DecimalType():
            return _to_decimal(type_)
        case t.TimestampType() | t.TimestampLtzType():
            return _to_timestamp(type_)
    raise unsupported(type_)


def wrong_length(expected: int, found: int) -> str:
    return f"Row length mismatch. {expected} fields expected but was {found}."

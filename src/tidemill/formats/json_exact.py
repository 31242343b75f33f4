"""JSON without loss, one document and one value at a time: the slow half of the `json` format.

In: the bytes of a record; out: dicts, lists, strings, booleans, None and `Number`, which keeps a number's text.
Then `converter(type, …)` turns one such value into what `pyarrow.array` takes for the column, by Flink's coercions.
Law: what orjson cannot tell (the text of a number, integers beyond 64 bits, content after the document, raw control
characters, lone surrogates) is right here, and `json.py` comes here whenever a record needs it. A converter also takes
orjson's values and raises NeedsText where they do not tell enough.
"""

from __future__ import annotations

import binascii
import json
import re
from collections.abc import Callable
from decimal import Decimal

from tidemill import types as t
from tidemill.errors import script_error
from tidemill.formats import java_text

Convert = Callable[[object], object]
Tree = Callable[[str | float], "Number"]
"""The text of a number, `Number` or orjson's double, that has been a node of Jackson's tree."""


class Number(str):
    """The text of a JSON number."""

    __slots__ = ()


class Unreadable(Exception):
    """The bytes do not begin with a JSON document."""


class NeedsText(Exception):
    """orjson's value has lost what the column needs; parse the record exactly and convert again."""


class Mismatch(Exception):
    """A value that Flink does not coerce into the column's type."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path

    def inside(self, step: str) -> Mismatch:
        """The same mismatch seen from one level up: `inside("b")`, `inside("[2]")`."""
        joint = "" if not self.path or self.path.startswith("[") else "."
        return Mismatch(self.reason, step + joint + self.path)


# ---- the document ----------------------------------------------------------------------------------------


def _refuse_constant(name: str) -> object:
    raise Unreadable(f"not JSON: {name} is not a JSON value")


_DECODER = json.JSONDecoder(
    parse_int=Number, parse_float=Number, parse_constant=_refuse_constant, strict=False
)
_LEADING_BLANKS = re.compile(r"[ \t\n\r]*")


def parse(document: bytes) -> object:
    """The first JSON document in the bytes; what follows it is not looked at, as in Flink."""
    # Jackson finds out UTF-16, UTF-32 and byte order marks by itself; so does this.
    encoding = json.detect_encoding(document)
    try:
        return _first_document(document.decode(encoding))
    except UnicodeDecodeError as error:
        try:
            return _first_document(document[: error.start].decode(encoding))
        except (Unreadable, UnicodeDecodeError):
            raise Unreadable(f"not JSON: invalid {error.encoding} at byte {error.start}") from None


def _first_document(text: str) -> object:
    start = _LEADING_BLANKS.match(text)
    try:
        return _DECODER.raw_decode(text, start.end() if start else 0)[0]
    except json.JSONDecodeError as error:
        if error.pos >= len(text.rstrip(" \t\n\r")):
            raise Unreadable("not JSON: the document ends too early") from None
        what = error.msg[0].lower() + error.msg[1:]
        raise Unreadable(f"not JSON: {what} at character {error.pos + 1}") from None
    except RecursionError:
        raise Unreadable("not JSON: nested too deeply") from None


# ---- JSON text -------------------------------------------------------------------------------------------

NEEDS_ESCAPE = r'["\\\x00-\x1f\x{10000}-\x{10FFFF}]'
# Jackson's: short forms where JSON has them, else upper-case hexadecimal; what lies above U+001F as it is.
ESCAPES: dict[int, str] = {code: f"\\u{code:04X}" for code in range(32)} | {
    ord(char): "\\" + short
    for char, short in zip('"\\\b\t\n\f\r', '"\\btnfr', strict=True)  # fmt: skip
}


def quote(text: str) -> str:
    """A text inside a text, as Jackson's writer of characters does it."""
    return f'"{text.translate(ESCAPES)}"'


def quote_bytes(text: str) -> str:
    """A text of a document, as Jackson's writer of bytes does it: a character of two surrogates is two escapes."""
    return _ASTRAL.sub(_surrogates, quote(text))


_ASTRAL = re.compile("[\U00010000-\U0010ffff]")


def _surrogates(found: re.Match[str]) -> str:
    code = ord(found[0]) - 0x10000
    return f"\\u{0xD800 + (code >> 10):04X}\\u{0xDC00 + (code & 0x3FF):04X}"


def _is_whole(number: str) -> bool:
    return number.lstrip("-").isdigit()


def _whole_number(value: str) -> Number:
    # JSON has no idle zeros. Not by `int`, which refuses thousands of digits.
    return Number("0" if value == "-0" else value)


def tree_number(value: str | float) -> Number:
    """The text of a number that has been a node of Jackson's tree: a fraction or an exponent makes it a double."""
    if isinstance(value, float):
        # orjson makes doubles of integers beyond 64 bits, too.
        if abs(value) >= 2.0**63:
            raise NeedsText
        return Number(java_text.print_double(value))
    if _is_whole(value):
        return _whole_number(value)
    return Number(java_text.print_double(float(value)))


def tree_decimal(value: str | float) -> Number:
    """The same in a tree for a table that has a DECIMAL: a fraction or an exponent makes it a BigDecimal, whose
    trailing zeros go."""
    if isinstance(value, float):
        raise NeedsText
    if _is_whole(value):
        return _whole_number(value)
    try:
        return Number(java_text.print_decimal(java_text.parse_decimal(value)))
    except ValueError:
        raise _mismatch("a decimal number", value) from None


def compact(value: object, tree: Tree = tree_number) -> str:
    """A value of `parse` or of orjson as JSON text without blanks, as Jackson writes a tree."""
    match value:
        case Number() | float():
            return tree(value)
        case str():
            return quote(value)
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case list():
            return "[" + ",".join(compact(v, tree) for v in value) + "]"
        case dict():
            return "{" + ",".join(f"{quote(k)}:{compact(v, tree)}" for k, v in value.items()) + "}"
    raise TypeError(type(value))


def text_of(value: object) -> str:
    """A value as the text that Jackson's tree gives for it: nothing for an object or array."""
    if isinstance(value, (dict, list)):
        return ""
    return value if isinstance(value, str) else compact(value)


def shown(value: object) -> str:
    """A value as an error message shows it."""
    match value:
        case dict():
            return "an object"
        case list():
            return "an array"
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case Number() | int() | float():
            text = str(value)
        case _:
            text = f"'{value}'"
    return text if len(text) <= 80 else text[:76] + "…" + ("'" if text[0] == "'" else "")


# ---- one value into one type -----------------------------------------------------------------------------


def _mismatch(expected: str, value: object) -> Mismatch:
    return Mismatch(f"expected {expected} but found {shown(value)}")


def written(text: str) -> str:
    """A lone surrogate becomes '?', as when Java writes it in UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _to_string(value: object) -> object:
    match value:
        case str():
            return written(value)
        case bool():
            return "true" if value else "false"
        case int() if value:
            return str(value)
        case dict() | list():
            try:
                return written(compact(value))
            except RecursionError:
                raise Mismatch("nested too deeply to be read as text") from None
    # A float, or 0, which may have been written as -0.
    raise NeedsText


def _text_through(tree: Tree) -> Convert:
    """A STRING of what has been a node of Jackson's tree."""

    def converted(value: object) -> object:
        match value:
            case Number() | float():
                return tree(value)
            case int() if not isinstance(value, bool):
                return str(value)
            case dict() | list():
                try:
                    return written(compact(value, tree))
                except RecursionError:
                    raise Mismatch("nested too deeply to be read as text") from None
        return _to_string(value)

    return converted


def _to_boolean(value: object) -> object:
    if isinstance(value, bool):
        return value
    return isinstance(value, str) and java_text.trim(value).lower() == "true"


def _to_integer(bits: int, truncates: bool) -> Convert:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    expected = f"an integer from {low} to {high}"

    def convert(value: object) -> object:
        number: int | float
        match value:
            case bool():
                raise _mismatch(expected, value)
            case int():
                number = value
            case float():
                number = value
                if abs(number) >= 2.0**53:
                    raise NeedsText
            case Number():
                plain = _is_whole(value)
                if plain and len(value) > 20:
                    raise _mismatch(expected, value)
                number = int(value) if plain else float(value)
            case str():
                try:
                    number = java_text.parse_integer(java_text.trim(value))
                except ValueError:
                    raise _mismatch(expected, value) from None
            case _:
                raise _mismatch(expected, value)
        if isinstance(number, float):
            # Jackson compares the double with the bounds as doubles, then casts as Java casts.
            if not truncates or not float(low) <= number <= float(high):
                raise _mismatch(expected, value)
            return max(low, min(high, int(number)))
        if not low <= number <= high:
            raise _mismatch(expected, value)
        return number

    return convert


def _to_float(tree: Tree | None) -> Convert:
    def convert(value: object) -> object:
        match value:
            case bool():
                pass
            case float() if java_text.may_be_another_float(value):
                raise NeedsText
            case float() if value:
                return value
            case Number() if tree is tree_number and not _is_whole(value):
                return float(value)  # a double in Jackson's tree, and then rounded again
            case 0 | Number("-0"):
                return _nought(value, tree)
            case int() | str():
                try:
                    return java_text.parse_float(java_text.trim(str(value)))
                except ValueError:
                    pass
        raise _mismatch("a number", value)

    return convert


def _to_double(tree: Tree | None) -> Convert:
    def convert(value: object) -> object:
        match value:
            case bool():
                pass
            case float() if value:
                return value
            case 0 | Number("-0"):
                return _nought(value, tree)
            case Number() | int():
                return float(value)
            case str():
                try:
                    return java_text.parse_double(java_text.trim(value))
                except ValueError:
                    pass
        raise _mismatch("a number", value)

    return convert


def _nought(value: object, tree: Tree | None) -> float:
    """A tree does not keep the sign of a whole number that is -0, nor do orjson and msgspec."""
    if tree is not None:
        return value if isinstance(value, float) else 0.0
    if isinstance(value, Number):
        return float(value)
    raise NeedsText


def _to_decimal(type_: t.DecimalType) -> Convert:
    def convert(value: object) -> object:
        match value:
            case bool():
                raise _mismatch("a number", value)
            case int():
                number = Decimal(value)
            case float():
                raise NeedsText
            case str():
                try:
                    number = java_text.parse_decimal(
                        value if isinstance(value, Number) else java_text.trim(value)
                    )
                except ValueError:
                    raise _mismatch("a decimal number", value) from None
            case _:
                raise _mismatch("a number", value)
        return java_text.fit_decimal(number, type_.precision, type_.scale)

    return convert


def _to_bytes(value: object) -> object:
    if isinstance(value, str) and not isinstance(value, Number):
        try:
            return binascii.a2b_base64("".join(value.split()), strict_mode=True)
        except ValueError:
            pass
    raise _mismatch("a base64 string", value)


def _from_text(parse_text: Callable[[str], int], expected: str) -> Convert:
    def convert(value: object) -> object:
        if isinstance(value, str) and not isinstance(value, Number):
            try:
                return parse_text(value)
            except ValueError:
                pass
        raise _mismatch(f"'{expected}'", value)

    return convert


def _to_timestamp(form: java_text.TimestampForm, micros: int) -> Convert:
    """To whole units of so many microseconds: Flink keeps milliseconds for a precision up to 3."""
    return _from_text(
        lambda text: java_text.parse_timestamp(text, form) // micros * micros, form.shown
    )


def _parse_time(text: str) -> int:
    # Flink's json reads no fraction of a second.
    return java_text.parse_time(text) // _SECOND * _SECOND


_SECOND = 1_000_000_000


_TIMESTAMP_FORMS: dict[tuple[str, type[t.SqlType]], java_text.TimestampForm] = {
    ("SQL", t.TimestampType): java_text.SQL_TIMESTAMP,
    ("SQL", t.TimestampLtzType): java_text.SQL_TIMESTAMP_LTZ,
    ("ISO-8601", t.TimestampType): java_text.ISO_TIMESTAMP,
    ("ISO-8601", t.TimestampLtzType): java_text.ISO_TIMESTAMP_LTZ,
}

_SCALARS: dict[type[t.SqlType], Convert] = {
    t.NullType: lambda value: None,
    t.BooleanType: _to_boolean,
    t.TinyIntType: _to_integer(8, truncates=False),
    t.SmallIntType: _to_integer(16, truncates=False),
    t.IntType: _to_integer(32, truncates=True),
    t.BigIntType: _to_integer(64, truncates=True),
    t.CharType: _to_string,
    t.VarCharType: _to_string,
    t.BinaryType: _to_bytes,
    t.VarBinaryType: _to_bytes,
    t.DateType: _from_text(java_text.parse_date, "yyyy-MM-dd"),
    t.TimeType: _from_text(_parse_time, "HH:mm:ss[.f]"),
}


def timestamp_form(type_: t.SqlType, standard: str) -> java_text.TimestampForm:
    return _TIMESTAMP_FORMS[standard, type(type_)]


def entry_types(type_: t.SqlType) -> tuple[t.SqlType, t.SqlType]:
    """Key and value of a MAP, or of a MULTISET, which is a map from element to count."""
    match type_:
        case t.MapType():
            key, value = type_.key, type_.value
        case t.MultisetType():
            key, value = type_.element, t.INT.not_null
        case _:
            raise TypeError(type_)
    if not isinstance(key, t.STRING_TYPES):
        raise script_error(
            "FMT-001",
            f"JSON format doesn't support non-string as key type of map. The type is: {type_}",
            None,
            "an object's keys are strings in JSON: declare the key as STRING",
        )
    return key, value


def unsupported(type_: t.SqlType) -> Exception:
    return script_error(
        "FMT-002",
        f"the json format has no representation for the type {type_}",
        None,
        "declare the column with another type, such as BIGINT or STRING, and CAST in the query",
    )


def converter(
    type_: t.SqlType,
    standard: str,
    ignore_errors: bool,
    fail_on_missing: bool,
    tree: Tree | None = None,
) -> Convert:
    """Turns one value that is not None into Python's counterpart of the column's Arrow type.

    Times are whole numbers (days, nanoseconds of the day, microseconds). With `ignore_errors` what is wrong inside
    a container becomes None; the value itself still raises, and the caller knows what to do. `tree`: what a number is
    as a STRING, where it does not keep the digits that are written.
    """
    if tree and isinstance(type_, t.STRING_TYPES):
        return _text_through(tree)
    scalar = _SCALARS.get(type(type_))
    if scalar:
        return scalar

    def nested(inner: t.SqlType) -> Convert:
        return converter(inner, standard, ignore_errors, fail_on_missing, tree)

    def convert_inside(convert: Convert, value: object, step: str) -> object:
        if value is None:
            return None
        try:
            return convert(value)
        except Mismatch as mismatch:
            if ignore_errors:
                return None
            raise mismatch.inside(step) from None

    match type_:
        case t.FloatType():
            return _to_float(tree)
        case t.DoubleType():
            return _to_double(tree)
        case t.DecimalType():
            return _to_decimal(type_)
        case t.TimestampType() | t.TimestampLtzType():
            micros = 1000 if type_.precision <= 3 else 1
            return _to_timestamp(timestamp_form(type_, standard), micros)
        case t.ArrayType():
            element = nested(type_.element)

            def to_array(value: object) -> object:
                if not isinstance(value, list):
                    raise _mismatch("an array", value)
                return [convert_inside(element, v, f"[{i}]") for i, v in enumerate(value)]

            return to_array
        case t.MapType() | t.MultisetType():
            content = nested(entry_types(type_)[1])

            def to_map(value: object) -> object:
                if not isinstance(value, dict):
                    raise _mismatch("an object", value)
                return [
                    (_to_string(k), convert_inside(content, v, f"['{k}']"))
                    for k, v in value.items()
                ]

            return to_map
        case t.RowType():
            fields = [(f.name, nested(f.type)) for f in type_.fields]

            def to_row(value: object) -> object:
                if not isinstance(value, dict):
                    raise _mismatch("an object", value)
                if fail_on_missing:
                    for name, _ in fields:
                        if name not in value:
                            raise missing(name)
                return {name: convert_inside(f, value.get(name), name) for name, f in fields}

            return to_row
    raise unsupported(type_)


def missing(name: str) -> Mismatch:
    return Mismatch(f"could not find field with name '{name}'", name)


def find_missing(type_: t.SqlType) -> Callable[[object], Mismatch | None] | None:
    """Looks only for absent fields of rows inside a value: what `fail-on-missing-field` asks of a column that is
    not read. None when the type has no row inside."""

    match type_:
        case t.ArrayType():
            element = find_missing(type_.element)
            if element is None:
                return None

            def in_array(value: object) -> Mismatch | None:
                items = value if isinstance(value, list) else []
                found = ((i, element(v)) for i, v in enumerate(items))
                return next((m.inside(f"[{i}]") for i, m in found if m), None)

            return in_array
        case t.MapType():
            content = find_missing(type_.value)
            if content is None:
                return None

            def in_map(value: object) -> Mismatch | None:
                items = value if isinstance(value, dict) else {}
                found = ((k, content(v)) for k, v in items.items())
                return next((m.inside(f"['{k}']") for k, m in found if m), None)

            return in_map
        case t.RowType():
            fields = [(f.name, find_missing(f.type)) for f in type_.fields]

            def in_row(value: object) -> Mismatch | None:
                if not isinstance(value, dict):
                    return None
                for name, _ in fields:
                    if name not in value:
                        return missing(name)
                found = ((n, f(value[n])) for n, f in fields if f)
                return next((m.inside(n) for n, m in found if m), None)

            return in_row
    return None

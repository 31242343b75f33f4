"""Columns ⇄ columns of texts, a whole Arrow array at a time, in the forms that Flink's text formats share.

In: an array; out: a `string` array, or the other way round. Null stays null. Writing is exact: the few values that
Arrow prints otherwise than Java are written one by one. Reading is only for plain texts: whatever Arrow and Java might
see differently raises `Unsure` or what pyarrow raises (`NOT_PLAIN`), and the caller asks `java_text`.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.formats import java_text

_FIRST_DAY = java_text.parse_date("0000-01-01")
_LAST_DAY = java_text.parse_date("9999-12-31")
_DAY_MICROS = 86_400_000_000
_MILLI = 1_000_000
# Of no more digits than a DECIMAL can have: Arrow dies of some exponents (1e-999999999).
_PLAIN_DECIMAL = r"^-?[0-9]{1,38}(?:\.[0-9]{1,38})?$"
# A double that lies halfway between two floats.
_BELOW_FLOAT, _HALFWAY = pa.scalar(0x1FFFFFFF, pa.int64()), pa.scalar(0x10000000, pa.int64())
_LEAST_FLOAT = 2.0**-126


class Unsure(Exception):
    """The texts are not all plain; nothing is said about whether they are right."""


# ArrowInvalid is a ValueError, ArrowTypeError a TypeError.
NOT_PLAIN = (Unsure, ValueError, TypeError, OverflowError)


# ---- texts → values --------------------------------------------------------------------------------------


def integers(texts: Any, arrow: Any) -> Any:
    # Arrow would read hexadecimal digits.
    if pc.any(pc.match_substring(texts, "x", ignore_case=True)).as_py():
        raise Unsure
    return pc.cast(texts, arrow)


def approximates(texts: Any, arrow: Any) -> Any:
    # Arrow knows "inf" and "nan", which Java does not.
    numbers = pc.cast(texts, arrow)
    if pc.all(pc.is_finite(numbers)).as_py() is False:
        raise Unsure
    return numbers


def floats(numbers: Any) -> Any:
    """Doubles that came from texts as floats, if that is what the texts would have given.

    To round a second time makes a difference only for a double halfway between two floats, of which it is not known
    on which side the text was. Below the least normal float the halves are elsewhere.
    """
    halfway = pc.equal(pc.bit_wise_and(numbers.view(pa.int64()), _BELOW_FLOAT), _HALFWAY)
    size = pc.abs(numbers)
    tiny = pc.and_(pc.less(size, _LEAST_FLOAT), pc.greater(size, 0.0))
    if pc.any(pc.or_(halfway, tiny)).as_py():
        raise Unsure
    return pc.cast(numbers, pa.float32(), safe=False)


def decimals(texts: Any, arrow: Any) -> Any:
    if pc.all(pc.match_substring_regex(texts, _PLAIN_DECIMAL)).as_py() is False:
        raise Unsure
    return pc.cast(texts, arrow)


def _of_length(texts: Any, shortest: int, longest: int | None = None) -> None:
    found = pc.min_max(pc.binary_length(texts))
    least, most = found["min"].as_py(), found["max"].as_py()
    if least is not None and (least < shortest or (longest is not None and most > longest)):
        raise Unsure


def dates(texts: Any) -> Any:
    _of_length(texts, 10, 10)
    return pc.cast(texts, pa.date32())


def times(texts: Any) -> Any:
    """HH:mm:ss[.f], cut to seconds."""
    _of_length(texts, 8)
    # Arrow parses no times, but timestamps.
    stamps = pc.binary_join_element_wise("1970-01-01", texts, " ")
    seconds = pc.floor_temporal(pc.cast(stamps, pa.timestamp("ns")), unit="second")
    return pc.cast(pc.cast(seconds, pa.int64()), pa.time64("ns"))


def timestamps(texts: Any, zoned: bool, coarse: bool) -> Any:
    """yyyy-MM-dd HH:mm:ss[.f], with a Z after it if `zoned`; `coarse` keeps milliseconds, else microseconds."""
    _of_length(texts, len("yyyy-MM-dd HH:mm:ss") + zoned)
    zone = "UTC" if zoned else None
    micros = pa.timestamp("us", zone)
    between = pc.binary_slice(pc.cast(texts, pa.binary()), 10, 11)
    if pc.all(pc.equal(between, b" ")).as_py() is False:
        raise Unsure
    if zoned and pc.all(pc.ends_with(texts, "Z")).as_py() is False:
        raise Unsure
    unit, kept = ("millisecond", "ms") if coarse else ("microsecond", "us")
    try:
        return pc.cast(pc.cast(texts, pa.timestamp(kept, zone)), micros)
    except pa.ArrowInvalid:
        # More digits of a fraction, up to nine, if it is that.
        finer = pc.cast(texts, pa.timestamp("ns", zone))
        return pc.cast(pc.floor_temporal(finer, unit=unit), micros)


# ---- values → texts --------------------------------------------------------------------------------------


def joined(*parts: Any) -> Any:
    return pc.binary_join_element_wise(*parts, "")


def patched(texts: Any, odd: Any, write: Callable[..., str], *columns: Any) -> Any:
    """The texts, with those of the few odd rows written one by one in Python from the columns."""
    odd = pc.fill_null(odd, False)
    if not pc.any(odd).as_py():
        return texts
    written = list(map(write, *(column.filter(odd).to_pylist() for column in columns)))
    return pc.replace_with_mask(texts, odd, pa.array(written, pa.string()))


def plain_texts(column: Any) -> Any:
    return pc.cast(column, pa.string())


def approximate_texts(column: Any) -> Any:
    # Arrow prints the shortest digits of either width, in Java's form between these bounds but for a bare integer.
    texts = pc.cast(column, pa.string())
    size = pc.abs(column)
    usual = pc.and_(pc.greater_equal(size, 1e-3), pc.less(size, 1e7))
    odd = pc.invert(pc.or_(usual, pc.equal(size, 0.0)))
    bare = pc.invert(pc.match_substring(texts, "."))
    shortest = column if pa.types.is_float64(column.type) else pc.cast(texts, pa.float64())
    texts = pc.if_else(bare, joined(texts, ".0"), texts)
    return patched(texts, odd, java_text.print_double, shortest, column)


def decimal_texts(column: Any) -> Any:
    """Without idle zeros, and with an exponent where Java writes one."""
    texts = pc.cast(column, pa.string())
    if pa.types.is_decimal(column.type) and column.type.scale > 0:
        texts = pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), ".")
    scientific = pc.match_substring(texts, "E")
    round_number = pc.and_(
        pc.invert(pc.match_substring(texts, ".")),
        pc.and_(pc.ends_with(texts, "0"), pc.not_equal(texts, "0")),
    )
    emptied = pc.equal(texts, "")
    odd = pc.or_(pc.or_(scientific, round_number), emptied)
    return patched(texts, odd, java_text.print_decimal, column)


def plain_decimal_texts(column: Any) -> Any:
    texts = pc.cast(column, pa.string())
    odd = pc.match_substring(texts, "E")
    return patched(texts, odd, java_text.print_plain_decimal, column)


def base64_texts(column: Any) -> Any:
    encode = binascii.b2a_base64
    return pa.array(
        [None if v is None else encode(v, newline=False).decode() for v in column.to_pylist()],
        pa.string(),
    )


def date_texts(column: Any) -> Any:
    days = pc.cast(column, pa.int32())
    odd = pc.or_(pc.less(days, _FIRST_DAY), pc.greater(days, _LAST_DAY))
    return patched(pc.cast(column, pa.string()), odd, java_text.print_date, days)


def _without_idle_zeros(texts: Any) -> Any:
    """12:00:00.120000 → 12:00:00.12, 12:00:00.000000 → 12:00:00; every text has a point."""
    return pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), ".")


def time_texts(column: Any) -> Any:
    nanos = pc.cast(pc.cast(column, pa.time64("ns")), pa.int64())
    millis = pc.cast(pc.divide(nanos, _MILLI), pa.int32())
    return _without_idle_zeros(pc.cast(pc.cast(millis, pa.time32("ms")), pa.string()))


def timestamp_texts(column: Any, separator: str = " ") -> Any:
    """The wall clock of UTC, whatever zone the type names."""

    def print_timestamp(micros: int) -> str:
        days, rest = divmod(micros, _DAY_MICROS)
        return f"{java_text.print_date(days)}{separator}{java_text.print_micros_of_day(rest)}"

    unit = column.type.unit
    micros = column if unit == "us" else pc.cast(column, pa.timestamp("us", column.type.tz))
    micros = pc.cast(micros, pa.int64())
    texts = _without_idle_zeros(pc.cast(pc.cast(micros, pa.timestamp("us")), pa.string()))
    if separator != " ":
        texts = pc.replace_substring(texts, " ", separator)
    odd = pc.or_(
        pc.less(micros, _FIRST_DAY * _DAY_MICROS),
        pc.greater_equal(micros, (_LAST_DAY + 1) * _DAY_MICROS),
    )
    return patched(texts, odd, print_timestamp, micros)


def content(column: Any, child: Any) -> tuple[Any, Any]:
    """Offsets from 0, and the part of the child that they speak of, of a list or map array that may be a slice."""
    offsets = column.offsets
    first, last = offsets[0].as_py(), offsets[len(offsets) - 1].as_py()
    return pc.cast(pc.subtract(offsets, first), pa.int32()), child.slice(first, last - first)


def where_valid(column: Any, texts: Any) -> Any:
    if not column.null_count:
        return texts
    return pc.if_else(pc.is_valid(column), texts, pa.scalar(None, pa.string()))

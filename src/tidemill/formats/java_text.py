"""Texts ⇄ values exactly as Java's parsers and printers do it, which is what Flink's text formats show to the world.

In: a text (or a number); out: the number (or its text). A text that Java refuses raises ValueError.
Home-made because Python's own `int`, `float` and `datetime` accept other texts ("1_0", "nan", no "24:00:00")
and print others (`1e+16`). Differences that are meant: DOUBLE and FLOAT print the shortest digits that read back as
the same number, as JDK 19 and later do (JDK 17 prints 2.0E23 as 1.9999999999999998E23); times are kept in
microseconds (TIME in milliseconds, like Flink), and a date or timestamp that does not fit Arrow's type is refused.
"""

from __future__ import annotations

import binascii
import math
import re
import struct
from calendar import monthrange
from dataclasses import dataclass
from datetime import date
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, ROUND_HALF_UP, Context, Decimal, InvalidOperation

BLANKS = "".join(map(chr, range(33)))
_INTEGER = re.compile(r"[+-]?\d+")
_DOUBLE = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?")
_HEX_DOUBLE = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?"
)
_NOT_FINITE = {
    sign + name: float(sign + name) for sign in ("", "+", "-") for name in ("NaN", "Infinity")
}
_DECIMAL = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE]([+-]?\d+))?")
# 38 digits, one that rounding may add, and room to spare.
_EXACT = Context(prec=60)
_ENDLESS = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
_INT32 = 2**31
_INT64 = 2**63
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_DAYS_IN_400_YEARS = 146097
_MICROS_PER_DAY = 86_400_000_000


def trim(text: str) -> str:
    """String.trim: every character up to the blank goes, at both ends."""
    return text.strip(BLANKS)


def parse_integer(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError(text)
    return int(text)


def parse_double(text: str) -> float:
    found = _DOUBLE.fullmatch(text)
    if found:
        return float(found[1])
    if text in _NOT_FINITE:
        return _NOT_FINITE[text]
    found = _HEX_DOUBLE.fullmatch(text)
    if found:
        try:
            return float.fromhex(found[1])
        except OverflowError:
            return float("-inf" if text[0] == "-" else "inf")
    raise ValueError(text)


def parse_float(text: str) -> float:
    """Float.parseFloat, which rounds once: a double that is rounded to the float nearest to the text."""
    value = parse_double(text)
    found = _DOUBLE.fullmatch(text)
    if not found or not value or math.isinf(value):
        return value
    exact = Decimal(found[1])
    if exact == value or struct.pack("<d", value)[0] & 1:
        return value
    # Of the two doubles around the text the odd one, which is never halfway between two floats.
    return math.nextafter(value, math.inf if exact > value else -math.inf)


def may_be_another_float(value: float) -> bool:
    """Whether a text that is nearest to this double may be nearer to another float than the double is."""
    (bits,) = struct.unpack("<q", struct.pack("<d", value))
    return bits & 0x1FFFFFFF == 0x10000000 or 0 < abs(value) < 2.0**-126


def parse_decimal(text: str) -> Decimal:
    found = _DECIMAL.fullmatch(text)
    if not found:
        raise ValueError(text)
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise ValueError(text) from None
    # BigDecimal keeps its scale in an int; only an exponent of ten digits can leave it.
    if found[1] and len(found[1]) > 9 and abs(int(value.as_tuple().exponent)) >= _INT32:
        raise ValueError(text)
    return value


def fit_decimal(value: Decimal, precision: int, scale: int) -> Decimal | None:
    """Round HALF_UP to the scale; None when the precision is not enough, as Flink's DecimalData does."""
    if not value:
        return Decimal((0, (0,), -scale))
    if value.adjusted() >= precision - scale:
        return None
    if value.adjusted() < -scale - 1:
        return Decimal((0, (0,), -scale))
    fitted = value.quantize(Decimal((0, (1,), -scale)), ROUND_HALF_UP, _EXACT)
    return None if fitted and fitted.adjusted() >= precision - scale else fitted


@dataclass(frozen=True, slots=True)
class TimestampForm:
    """One of Flink's timestamp formats."""

    shown: str
    """The pattern as a user would write it."""
    pattern: re.Pattern[str]
    lenient: bool
    """Java's SMART resolver: 24:00:00 is midnight, February 30 is the month's last day. STRICT refuses both."""


_DATE = r"(-?[0-9]{4}|[+-][0-9]{5,10})-([0-9]{2})-([0-9]{2})"
_SECONDS = r":([0-9]{2})(?:\.([0-9]{0,9}))?"
_TIME = r"([0-9]{2}):([0-9]{2})"
_DATE_ONLY = re.compile(_DATE)
_TIME_ONLY = re.compile(_TIME + _SECONDS)
_ISO_TIME = re.compile(f"{_TIME}(?:{_SECONDS})?")
_SQL_DATE = re.compile(r"([+\d]\d{3})-([+\d]?\d)-([+\d]?\d)")

_BASE64_GROUP = re.compile(r"[\w+/=]{4}", re.ASCII)
_BASE64_CHAR = "[A-Za-z0-9+/]"
_BASE64 = re.compile(
    rf"[\0- ]*(?:{_BASE64_CHAR}{{2}}(?:==|{_BASE64_CHAR}(?:=|{_BASE64_CHAR}))[\0- ]*)*"
)

SQL_TIMESTAMP = TimestampForm(
    "yyyy-MM-dd HH:mm:ss[.f]", re.compile(f"{_DATE} {_TIME}{_SECONDS}"), True
)
SQL_TIMESTAMP_LTZ = TimestampForm(
    "yyyy-MM-dd HH:mm:ss[.f]Z", re.compile(f"{_DATE} {_TIME}{_SECONDS}Z"), True
)
# java.time's own ISO formatter, hence strict and with a 't' allowed; the one with 'Z' is put together by Flink.
ISO_TIMESTAMP = TimestampForm(
    "yyyy-MM-ddTHH:mm[:ss[.f]]", re.compile(f"{_DATE}[Tt]{_TIME}(?:{_SECONDS})?"), False
)
ISO_TIMESTAMP_LTZ = TimestampForm(
    "yyyy-MM-ddTHH:mm[:ss[.f]]Z", re.compile(f"{_DATE}T{_TIME}(?:{_SECONDS})?Z"), True
)


def _epoch_day(year_text: str, month_text: str, day_text: str, lenient: bool) -> int:
    year, month, day = int(year_text), int(month_text), int(day_text)
    if abs(year) > 999_999_999 or (year == 0 and year_text[0] == "-"):
        raise ValueError(year_text)
    # The calendar repeats every 400 years, which takes any year into the range of `date`.
    cycles, year_of_cycle = divmod(year, 400)
    year_of_cycle += 400
    if lenient and 1 <= month <= 12 and day <= 31:
        day = min(day, monthrange(year_of_cycle, month)[1])
    ordinal = date(year_of_cycle, month, day).toordinal()
    return ordinal - _EPOCH_ORDINAL + (cycles - 1) * _DAYS_IN_400_YEARS


def _nano_of_day(
    hour_text: str, minute_text: str, second_text: str | None, fraction: str | None, lenient: bool
) -> int:
    hour, minute, second = int(hour_text), int(minute_text), int(second_text or 0)
    nanos = int((fraction or "").ljust(9, "0"))
    end_of_day = lenient and hour == 24 and minute == second == nanos == 0
    if minute > 59 or second > 59 or (hour > 23 and not end_of_day):
        raise ValueError(hour_text)
    return ((hour * 60 + minute) * 60 + second) * 1_000_000_000 + nanos


def parse_date(text: str) -> int:
    """Days since 1970-01-01."""
    found = _DATE_ONLY.fullmatch(text)
    if not found:
        raise ValueError(text)
    days = _epoch_day(found[1], found[2], found[3], False)
    if not -_INT32 <= days < _INT32:
        raise ValueError(text)
    return days


def parse_time(text: str) -> int:
    """Nanoseconds of the day, cut to milliseconds, which is all that Flink keeps."""
    found = _TIME_ONLY.fullmatch(text)
    if not found:
        raise ValueError(text)
    nanos = _nano_of_day(found[1], found[2], found[3], found[4], True) % 86_400_000_000_000
    return nanos - nanos % 1_000_000


def parse_iso_time(text: str) -> int:
    """LocalTime.parse, nanoseconds of the day: seconds may be left out, and 24:00 is refused."""
    found = _ISO_TIME.fullmatch(text)
    if not found:
        raise ValueError(text)
    return _nano_of_day(found[1], found[2], found[3], found[4], False)


def parse_sql_date(text: str) -> int:
    """java.sql.Date.valueOf, days since 1970-01-01: zeros may be left out, and February 30 is March 1 or 2."""
    found = _SQL_DATE.fullmatch(text)
    if not found:
        raise ValueError(text)
    month, day = int(found[2]), int(found[3])
    if not 1 <= month <= 12 or not 1 <= day <= 31:
        raise ValueError(text)
    return _epoch_day(found[1].replace("+", "0"), found[2], "1", False) + day - 1


def parse_base64(text: str) -> bytes:
    """Jackson's Base64Variants.MIME_NO_LINEFEEDS: blanks may stand between groups of four, not inside of one."""
    if not _BASE64.fullmatch(text):
        raise ValueError(text)
    return b"".join(map(binascii.a2b_base64, _BASE64_GROUP.findall(text)))


def parse_timestamp(text: str, form: TimestampForm) -> int:
    """Microseconds since 1970-01-01 00:00:00; finer digits are cut off."""
    found = form.pattern.fullmatch(text)
    if not found:
        raise ValueError(text)
    year, month, day, hour, minute, second, fraction = found.groups()
    days = _epoch_day(year, month, day, form.lenient)
    micros = days * _MICROS_PER_DAY
    micros += _nano_of_day(hour, minute, second, fraction, form.lenient) // 1000
    if not -_INT64 <= micros < _INT64:
        raise ValueError(text)
    return micros


def print_double(value: float, exact: float | None = None) -> str:
    """Double.toString: plain between 0.001 and 10,000,000, otherwise d.dddE±n.

    Also Float.toString, when given the double with the float's shortest digits, and the float itself as `exact`.
    """
    text = repr(value)
    magnitude = abs(value)
    if 1e-3 <= magnitude < 1e7 or value == 0:
        return text
    if value != value:
        return "NaN"
    if magnitude == float("inf"):
        return "Infinity" if value > 0 else "-Infinity"
    sign, digits, exponent = Decimal(text).as_tuple()
    shown = "".join(map(str, digits)).rstrip("0")
    scientific = int(exponent) + len(digits) - 1
    if len(shown) == 1:
        # Java wants two digits, the nearest ones: Double.MIN_VALUE is 4.9E-324, not 5.0E-324.
        nearest, _, power = f"{abs(value if exact is None else exact):.1e}".partition("e")
        shown, scientific = nearest[0] + nearest[2], int(power)
    return f"{'-' if sign else ''}{shown[0]}.{shown[1:]}E{scientific}"


def print_decimal(value: Decimal) -> str:
    """BigDecimal.stripTrailingZeros().toString(): 100.00 is 1E+2."""
    return str(value.normalize(_ENDLESS)) if value else "0"


def print_plain_decimal(value: Decimal) -> str:
    """BigDecimal.toPlainString(): the scale is kept."""
    return f"{value:f}"


def print_date(epoch_day: int) -> str:
    """DateTimeFormatter.ISO_LOCAL_DATE, also outside of the years that Python knows."""
    cycles, day = divmod(epoch_day + _EPOCH_ORDINAL - 1, _DAYS_IN_400_YEARS)
    shown = date.fromordinal(day + 1)
    year = shown.year + 400 * cycles
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{shown.month:02d}-{shown.day:02d}"


def print_micros_of_day(micros: int) -> str:
    """HH:mm:ss with as many digits of the fraction as there are to show."""
    seconds, fraction = divmod(micros, 1_000_000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{fraction:06d}".rstrip("0") if fraction else text

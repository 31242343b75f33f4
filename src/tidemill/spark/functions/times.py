"""Functions on dates and times as Spark SQL. How to read the tables: `tidemill.spark.functions`.

Law: a TIMESTAMP never passes through the session's zone, in which its wall-clock time may not exist; Spark's
date_format, date_trunc and timestampdiff would take it there. A TIMESTAMP_LTZ is rounded and formatted by its
wall-clock time, and shifted in UTC, as Flink does.
"""

from __future__ import annotations

from tidemill import types as t
from tidemill.plan.expressions import Call, Literal
from tidemill.spark.functions.form import Form, Write, fill, quote
from tidemill.spark.types import spark_ddl

_EPOCH = "TIMESTAMP_NTZ '1970-01-01 00:00:00'"
_PLAIN = "'yyyy-MM-dd HH:mm:ss'"
_NOW = "date_trunc('MILLISECOND', current_timestamp())"

# Units as numbers of months or of milliseconds.
_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
_MILLIS = {
    "WEEK": 604_800_000,
    "DAY": 86_400_000,
    "HOUR": 3_600_000,
    "MINUTE": 60_000,
    "SECOND": 1000,
    "MILLISECOND": 1,
}


def _wall(text: str, type_: t.SqlType) -> str:
    """The wall-clock time of anything that has one."""
    if isinstance(type_, t.TimestampType):
        return text
    if isinstance(type_, t.TimeType):
        return f"make_timestamp_ntz(DATE '1970-01-01', {text})"
    return f"CAST({text} AS TIMESTAMP_NTZ)"


def _shift(text: str, type_: t.SqlType, amount: str, months: bool) -> str:
    """A time of a type, moved by an expression of months or of milliseconds."""
    match type_:
        case t.DateType() if months:
            return f"add_months({text}, {amount})"
        case t.DateType():
            return f"date_add({text}, CAST({amount} div 86400000 AS INT))"
        case t.TimeType():
            return text if months else f"tidemill_add_to_time({text}, {amount})"
        case t.TimestampType() if months:
            return f"({text} + make_ym_interval(0, {amount}))"
        case t.TimestampType():
            # Not by `+`, which makes objects of each: a watermark is computed for every row.
            return f"tidemill_plus_millis({text}, CAST({amount} AS BIGINT))"
    micros = f"unix_micros({text})"
    moved = f"tidemill_add_months({micros}, {amount})" if months else f"{micros} + {amount} * 1000"
    return f"timestamp_micros({moved})"


def _add_interval(sign: str) -> Write:
    def write(call: Call, arguments: list[str]) -> str:
        time, interval = call.arguments
        months = isinstance(interval.type, t.YearMonthIntervalType)
        moved = _shift(arguments[0], time.type, f"({sign} {arguments[1]})", months)
        return f"CAST({moved} AS {spark_ddl(call.type)})"

    return write


def _timestampadd(call: Call, arguments: list[str]) -> str:
    unit, count, time = call.arguments
    assert isinstance(unit, Literal)
    size = _MONTHS.get(str(unit.value)) or _MILLIS[str(unit.value)]
    months = unit.value in _MONTHS
    amount = f"CAST({arguments[1]} * {size} AS INT)" if months else f"({arguments[1]} * {size}L)"
    text, type_ = arguments[2], time.type
    if isinstance(type_, t.DateType) and not isinstance(call.type, t.DateType):
        text, type_ = _wall(text, type_), call.type
    return f"CAST({_shift(text, type_, amount, months)} AS {spark_ddl(call.type)})"


def _timestampdiff(call: Call, arguments: list[str]) -> str:
    unit, *times = arguments
    walls = []
    for text, argument in zip(times, call.arguments[1:], strict=True):
        if isinstance(argument.type, t.TimestampLtzType):
            walls.append(f"timestampadd(MICROSECOND, unix_micros({text}), {_EPOCH})")
        else:
            walls.append(_wall(text, argument.type))
    return f"tidemill_timestampdiff({unit}, {', '.join(walls)})"


def _round_to(function: str) -> Write:
    def write(call: Call, arguments: list[str]) -> str:
        text, unit = arguments
        type_ = call.arguments[0].type
        if isinstance(type_, t.DateType):
            return f"tidemill_{function}_date(unix_date({text}), {unit})"
        if isinstance(type_, t.TimestampLtzType):
            micros = f"tidemill_{function}_zoned(unix_micros({text}), {unit}, current_timezone())"
            return f"timestamp_micros({micros})"
        rounded = f"tidemill_{function}_time({_wall(text, type_)}, {unit})"
        return f"CAST({rounded} AS {spark_ddl(call.type)})"

    return write


def _part(native: str, of_interval: str | None = None) -> Write:
    """A part that Spark knows; of an interval it is a matter of numbers."""

    def write(call: Call, arguments: list[str]) -> str:
        type_ = call.arguments[0].type
        if isinstance(type_, t.INTERVAL_TYPES):
            assert of_interval is not None
            return f"CAST({fill(of_interval, arguments)} AS BIGINT)"
        if isinstance(type_, t.DateType) and native in ("hour", "minute", "second"):
            return f"if({arguments[0]} IS NULL, NULL, 0L)"
        return f"CAST({native}({arguments[0]}) AS BIGINT)"

    return write


def _extract(call: Call, arguments: list[str]) -> str:
    unit = call.function.removeprefix("EXTRACT ")
    return f"tidemill_extract({quote(unit)}, {_wall(arguments[0], call.arguments[0].type)})"


def _date_format(call: Call, arguments: list[str]) -> str:
    text, pattern = arguments
    time = call.arguments[0].type
    if isinstance(time, t.STRING_TYPES):
        return f"tidemill_text_format({text}, {pattern})"
    return f"tidemill_date_format({_wall(text, time)}, {pattern})"


def _to_timestamp(_: Call, arguments: list[str]) -> str:
    if len(arguments) == 1:
        return f"tidemill_text_to_timestamp({arguments[0]}, 3, NULL)"
    return f"tidemill_to_timestamp({', '.join(arguments)})"


def _to_timestamp_ltz(call: Call, arguments: list[str]) -> str:
    text, *rest = arguments
    type_ = call.arguments[0].type
    if isinstance(type_, t.STRING_TYPES):
        pattern = rest[0] if rest else "NULL"
        # Flink: without a zone, UTC is meant, not the session's.
        zone = rest[1] if len(rest) > 1 else "'UTC'"
        return f"tidemill_to_timestamp_ltz({text}, {pattern}, {zone})"
    precision = rest[0] if rest else "3"
    if isinstance(type_, t.APPROXIMATE_TYPES):
        # A fraction of a second counts, a fraction of a millisecond does not.
        text, precision = f"CAST(if({precision} = 0, {text} * 1000, {text}) AS BIGINT)", "3"
    return f"tidemill_of_epoch(CAST({text} AS BIGINT), {precision})"


def _with_zone(function: str) -> Write:
    """For functions that read or write wall-clock times of the session's zone: (what, pattern, zone)."""

    def write(_: Call, arguments: list[str]) -> str:
        pattern = arguments[1] if len(arguments) > 1 else _PLAIN
        return f"tidemill_{function}({arguments[0]}, {pattern}, current_timezone())"

    return write


def _unix_timestamp(call: Call, arguments: list[str]) -> str:
    return _with_zone("unix_timestamp")(call, arguments) if arguments else "unix_timestamp()"


def _to_date(_: Call, arguments: list[str]) -> str:
    if len(arguments) == 1:
        return f"tidemill_text_to_date({arguments[0]}, NULL)"
    return f"tidemill_to_date({', '.join(arguments)})"


FORMS: dict[str, Form] = {
    "CURRENT_TIMESTAMP": _NOW,
    "CURRENT_ROW_TIMESTAMP": _NOW,
    "NOW": _NOW,
    "PROCTIME": _NOW,
    "LOCALTIMESTAMP": f"CAST({_NOW} AS TIMESTAMP_NTZ)",
    "CURRENT_DATE": "current_date()",
    "LOCALTIME": "current_time(0)",
    "CURRENT_TIME": "current_time(0)",
    "TO_TIMESTAMP": _to_timestamp,
    "TO_TIMESTAMP_LTZ": _to_timestamp_ltz,
    "TO_DATE": _to_date,
    "DATE_FORMAT": _date_format,
    "FROM_UNIXTIME": _with_zone("from_unixtime"),
    "UNIX_TIMESTAMP": _unix_timestamp,
    "CONVERT_TZ": "tidemill_convert_tz({0}, {1}, {2})",
    "YEAR": _part("year", "{0} div 12"),
    "QUARTER": _part("quarter"),
    "MONTH": _part("month", "{0} % 12"),
    "WEEK": _part("weekofyear"),
    "DAYOFYEAR": _part("dayofyear"),
    "DAYOFMONTH": _part("dayofmonth", "{0} div 86400000"),
    "DAYOFWEEK": _part("dayofweek"),
    "HOUR": _part("hour", "{0} div 3600000 % 24"),
    "MINUTE": _part("minute", "{0} div 60000 % 60"),
    "SECOND": _part("second", "{0} div 1000 % 60"),
    "EXTRACT MILLISECOND": _extract,
    "EXTRACT MICROSECOND": _extract,
    "EXTRACT NANOSECOND": _extract,
    "EXTRACT EPOCH": _extract,
    "EXTRACT ISODOW": _extract,
    "EXTRACT ISOYEAR": _extract,
    "EXTRACT DECADE": _extract,
    "EXTRACT CENTURY": _extract,
    "EXTRACT MILLENNIUM": _extract,
    "FLOOR TO": _round_to("floor"),
    "CEIL TO": _round_to("ceil"),
    "TIMESTAMPADD": _timestampadd,
    "TIMESTAMPDIFF": _timestampdiff,
    "ADD INTERVAL": _add_interval(""),
    "SUBTRACT INTERVAL": _add_interval("-"),
}

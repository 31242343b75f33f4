"""Functions on dates and times as Spark SQL. How to read the tables: `tidemill.spark.functions`."""

from __future__ import annotations

from tidemill import types as t
from tidemill.plan.expressions import Call, Literal
from tidemill.spark.functions.form import Form, cast_to_result
from tidemill.spark.types import spark_ddl


def _shift(call: Call, arguments: list[str]) -> str:
    text = arguments[0]
    operand, interval = call.arguments
    sign = "+" if call.function == "ADD INTERVAL" else "-"
    if not isinstance(interval, Literal) or not isinstance(interval.value, int):
        raise TypeError("an interval is a constant")
    if isinstance(interval.type, t.YearMonthIntervalType):
        amount = f"make_ym_interval(0, {interval.value})"
    elif isinstance(operand.type, t.DateType):
        amount = f"make_dt_interval({interval.value // 86_400_000})"
    else:
        amount = f"make_dt_interval(0, 0, 0, CAST('{interval.value / 1000:.3f}' AS DECIMAL(18, 6)))"
    return f"CAST({text} {sign} {amount} AS {spark_ddl(call.type)})"


def _epoch(call: Call, arguments: list[str]) -> str:
    """TO_TIMESTAMP_LTZ(number, 0 for seconds or 3 for milliseconds)"""
    text, *precision = arguments
    if not isinstance(call.arguments[0].type, t.INTEGER_TYPES):
        text = f"CAST({text} AS BIGINT)"
    digits = precision[0] if precision else "3"
    return f"if({digits} = 0, timestamp_seconds({text}), timestamp_millis({text}))"


FORMS: dict[str, Form] = {
    "CURRENT_TIMESTAMP": "current_timestamp()",
    "CURRENT_ROW_TIMESTAMP": "current_timestamp()",
    "NOW": "current_timestamp()",
    "PROCTIME": "current_timestamp()",
    "LOCALTIMESTAMP": "localtimestamp()",
    "CURRENT_DATE": "current_date()",
    "LOCALTIME": "current_time(0)",
    "CURRENT_TIME": "current_time(0)",
    "TO_TIMESTAMP": "to_timestamp_ntz({0}{1?, $})",
    "TO_DATE": "to_date({0}{1?, $})",
    "DATE_FORMAT": "date_format({0}, {1})",
    "FROM_UNIXTIME": "from_unixtime({0}{1?, $})",
    "UNIX_TIMESTAMP": "unix_timestamp({*})",
    "YEAR": cast_to_result("year({0})"),
    "QUARTER": cast_to_result("quarter({0})"),
    "MONTH": cast_to_result("month({0})"),
    "WEEK": cast_to_result("weekofyear({0})"),
    "DAYOFYEAR": cast_to_result("dayofyear({0})"),
    "DAYOFMONTH": cast_to_result("dayofmonth({0})"),
    "DAYOFWEEK": cast_to_result("dayofweek({0})"),
    "HOUR": cast_to_result("hour({0})"),
    "MINUTE": cast_to_result("minute({0})"),
    "SECOND": cast_to_result("second({0})"),
    "ADD INTERVAL": _shift,
    "SUBTRACT INTERVAL": _shift,
    "TO_TIMESTAMP_LTZ": _epoch,
}

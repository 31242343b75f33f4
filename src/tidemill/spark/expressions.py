"""Bound expressions as Spark SQL text. In: an `Expr` over columns c0, c1, …. Out: text for `functions.expr`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

from tidemill import types as t
from tidemill.plan.expressions import Call, Expr, Input, Literal, UserCall, rewrite
from tidemill.spark.functions import FORMS, fill
from tidemill.spark.functions.form import quote
from tidemill.spark.types import spark_ddl
from tidemill.spark.user_functions import call_sql


def column_name(index: int) -> str:
    """Columns are known by place: names in a script may repeat and may be anything."""
    return f"c{index}"


_RANDOM = ("RAND", "RAND_INTEGER", "UUID")


def placed(expr: Expr, places: Iterator[int]) -> Expr:
    """The expression with the place of every random call as its last argument, by which it draws numbers of its own."""

    def change(e: Expr) -> Expr | None:
        if not isinstance(e, Call) or isinstance(e, UserCall) or e.function not in _RANDOM:
            return None
        place = Literal(t.INT, next(places))
        return replace(e, arguments=(*(rewrite(a, change) for a in e.arguments), place))

    return rewrite(expr, change)


def to_sql(expr: Expr) -> str:
    match expr:
        case Input():
            return column_name(expr.index)
        case Literal():
            return _literal(expr)
        case UserCall():
            return call_sql(expr.implementation, [to_sql(a) for a in expr.arguments])
        case Call():
            form, arguments = FORMS[expr.function], [to_sql(a) for a in expr.arguments]
            return fill(form, arguments) if isinstance(form, str) else form(expr, arguments)
    raise TypeError(type(expr))


def _literal(expr: Literal) -> str:
    value, type_ = expr.value, expr.type
    if value is None:
        return f"CAST(NULL AS {spark_ddl(type_)})"
    match type_:
        case t.BooleanType():
            return "TRUE" if value else "FALSE"
        case t.DateType() | t.TimeType():
            return f"{type_.root} {quote(str(value))}"
        case t.TimestampType():
            return f"TIMESTAMP_NTZ {quote(str(value))}"
        case t.DoubleType() | t.FloatType() | t.DecimalType():
            shown = format(value, "f") if isinstance(value, Decimal) else repr(value)
            return f"CAST('{shown}' AS {spark_ddl(type_)})"
        case t.BigIntType() | t.DayTimeIntervalType():
            # The smallest BIGINT cannot be written with a suffix.
            return f"CAST('{value!s}' AS BIGINT)"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    return quote(value) if isinstance(value, str) else str(value)

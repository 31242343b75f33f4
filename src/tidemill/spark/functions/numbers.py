"""Arithmetic and functions on numbers as Spark SQL. How to read the tables: `tidemill.spark.functions`."""

from __future__ import annotations

from tidemill import types as t
from tidemill.plan.expressions import Call
from tidemill.spark.functions.form import Form, cast_to_result
from tidemill.spark.types import spark_ddl


def _divide(call: Call, arguments: list[str]) -> str:
    left, right = arguments
    ddl = spark_ddl(call.type)
    remainder = call.function == "%"
    if isinstance(call.type, t.APPROXIMATE_TYPES):
        # Java's rules; Spark would give NULL for a zero divisor.
        signed = f"CASE WHEN {left} > 0 THEN 'Infinity' ELSE '-Infinity' END"
        at_zero = (
            "'NaN'"
            if remainder
            else f"CASE WHEN {left} = 0 OR isnan({left}) THEN 'NaN' ELSE {signed} END"
        )
        operator = "%" if remainder else "/"
        return (
            f"CAST(if({right} = 0, CAST({at_zero} AS {ddl}), {left} {operator} {right}) AS {ddl})"
        )
    exact = isinstance(call.type, t.DecimalType)
    operator = "%" if remainder else "/" if exact else "div"
    zero = f"CAST(raise_error('division by zero') AS {ddl})"
    return (
        f"if({right} = 0 AND {left} IS NOT NULL, {zero}, CAST({left} {operator} {right} AS {ddl}))"
    )


FORMS: dict[str, Form] = {
    "NEGATE": "(- {0})",
    "+": cast_to_result("({0} + {1})"),
    "-": cast_to_result("({0} - {1})"),
    "*": cast_to_result("({0} * {1})"),
    "ABS": cast_to_result("abs({0})"),
    "SIGN": cast_to_result("sign({0})"),
    "CEIL": cast_to_result("ceil({0})"),
    "CEILING": cast_to_result("ceil({0})"),
    "FLOOR": cast_to_result("floor({0})"),
    "ROUND": cast_to_result("round({0}{1?, $})"),
    "POWER": "power({0}, {1})",
    "SQRT": "sqrt({0})",
    "EXP": "exp({0})",
    "LN": "ln({0})",
    "LOG10": "log10({0})",
    "LOG2": "log2({0})",
    "SIN": "sin({0})",
    "COS": "cos({0})",
    "TAN": "tan({0})",
    "ASIN": "asin({0})",
    "ACOS": "acos({0})",
    "ATAN": "atan({0})",
    "ATAN2": "atan2({0}, {1})",
    "DEGREES": "degrees({0})",
    "RADIANS": "radians({0})",
    "PI": "pi()",
    "E": "e()",
    "BIN": "bin({0})",
    "HEX": "hex({0})",
    "/": _divide,
    "%": _divide,
}

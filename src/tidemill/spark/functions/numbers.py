"""Arithmetic and functions on numbers as Spark SQL. How to read the tables: `tidemill.spark.functions`."""

from __future__ import annotations

from tidemill import types as t
from tidemill.plan.expressions import Call, Literal
from tidemill.spark.functions.form import Form, Write, cast_to_result, fill
from tidemill.spark.types import spark_ddl


def _divide(call: Call, arguments: list[str]) -> str:
    left, right = arguments
    ddl = spark_ddl(call.type)
    if isinstance(call.type, t.APPROXIMATE_TYPES):
        # Java's rules for a zero divisor, where Spark would give NULL: infinity of the sign, or NaN for 0 / 0.
        return f"CAST(if({right} = 0, {left} * double('Infinity'), {left} / {right}) AS {ddl})"
    operator = "%" if call.function == "%" else "/" if isinstance(call.type, t.DecimalType) else "div"
    zero = f"CAST(raise_error('division by zero') AS {ddl})"
    return (
        f"if({right} = 0 AND {left} IS NOT NULL, {zero}, CAST({left} {operator} {right} AS {ddl}))"
    )


def _to_whole(exact: str, approximate: str) -> Write:
    """CEIL and FLOOR: Spark's make a BIGINT of a DOUBLE, which holds neither 1e300 nor -0.0."""

    def write(call: Call, arguments: list[str]) -> str:
        if isinstance(call.type, t.INTEGER_TYPES):
            return arguments[0]
        template = approximate if isinstance(call.type, t.APPROXIMATE_TYPES) else exact
        return f"CAST({fill(template, arguments)} AS {spark_ddl(call.type)})"

    return write


def _round(call: Call, arguments: list[str]) -> str:
    text, *digits = arguments
    if all(isinstance(a, Literal) for a in call.arguments[1:]):
        return f"CAST(round({text}, {digits[0] if digits else 0}) AS {spark_ddl(call.type)})"
    # Spark wants to know the digits beforehand.
    return f"CAST(tidemill_round(CAST({text} AS STRING), {digits[0]}) AS {spark_ddl(call.type)})"


def _random(call: Call, arguments: list[str]) -> str:
    """A seed that is not a constant starts a new sequence for each row, of which one number is seen."""
    if call.function == "RAND":
        if not arguments or isinstance(call.arguments[0], Literal):
            return f"rand({', '.join(arguments)})"
        return f"tidemill_rand({arguments[0]})"
    *seed, bound = arguments
    if seed and not isinstance(call.arguments[0], Literal):
        return f"tidemill_rand_integer({seed[0]}, {bound})"
    bad = "CAST(raise_error('the bound of RAND_INTEGER must be positive') AS INT)"
    return f"if({bound} <= 0, {bad}, CAST(floor(rand({', '.join(seed)}) * {bound}) AS INT))"


FORMS: dict[str, Form] = {
    "NEGATE": "(- {0})",
    "+": cast_to_result("({0} + {1})"),
    "-": cast_to_result("({0} - {1})"),
    "*": cast_to_result("({0} * {1})"),
    "/": _divide,
    "%": _divide,
    "ABS": cast_to_result("abs({0})"),
    "SIGN": cast_to_result("sign({0})"),
    "CEIL": _to_whole("ceil({0})", "tidemill_ceil({0})"),
    "CEILING": _to_whole("ceil({0})", "tidemill_ceil({0})"),
    "FLOOR": _to_whole("floor({0})", "tidemill_floor({0})"),
    "ROUND": _round,
    "TRUNCATE": cast_to_result("tidemill_truncate(CAST({0} AS STRING), {1!0})"),
    "POWER": "power({0}, {1})",
    "SQRT": "sqrt({0})",
    "EXP": "exp({0})",
    # Spark's logarithms give NULL where Java's give NaN or infinity.
    "LN": "tidemill_ln({0})",
    "LOG": "tidemill_log({*})",
    "LOG10": "tidemill_log10({0})",
    "LOG2": "tidemill_log2({0})",
    "SIN": "sin({0})",
    "COS": "cos({0})",
    "TAN": "tan({0})",
    "COT": "cot({0})",
    "ASIN": "asin({0})",
    "ACOS": "acos({0})",
    "ATAN": "atan({0})",
    "ATAN2": "atan2({0}, {1})",
    "SINH": "sinh({0})",
    "COSH": "cosh({0})",
    "TANH": "tanh({0})",
    "DEGREES": "degrees({0})",
    "RADIANS": "radians({0})",
    "PI": "pi()",
    "E": "e()",
    "RAND": _random,
    "RAND_INTEGER": _random,
    "BIN": "bin({0})",
    "HEX": "hex({0})",
}

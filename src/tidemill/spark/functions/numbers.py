"""Arithmetic and functions on numbers as Spark SQL. How to read the tables: `tidemill.spark.functions`."""

from __future__ import annotations

from tidemill import types as t
from tidemill.plan.expressions import Call, Literal
from tidemill.spark.functions.form import Form, Write, cast_to_result, fill
from tidemill.spark.types import spark_ddl


def _divide(call: Call, arguments: list[str]) -> str:
    left, right = arguments
    ddl = spark_ddl(call.type)
    if isinstance(call.type, t.FloatType):
        return f"tidemill_divide({left}, {right})"
    if isinstance(call.type, t.DoubleType):
        # Java's rules for a zero divisor, where Spark would give NULL: infinity of the sign, or NaN for 0 / 0.
        return f"if({right} = 0, {left} * double('Infinity'), {left} / {right})"
    operator = (
        "%" if call.function == "%" else "/" if isinstance(call.type, t.DecimalType) else "div"
    )
    zero = f"CAST(raise_error('division by zero') AS {ddl})"
    return (
        f"if({right} = 0 AND {left} IS NOT NULL, {zero}, CAST({left} {operator} {right} AS {ddl}))"
    )


def _signed(template: str, for_many_digits: str) -> Write:
    """Spark keeps 34 digits of a DECIMAL whose sign it changes."""

    def write(call: Call, arguments: list[str]) -> str:
        many = isinstance(call.type, t.DecimalType) and call.type.precision > 34
        text = fill(for_many_digits if many else template, arguments)
        return f"CAST({text} AS {spark_ddl(call.type)})"

    return write


def _to_whole(exact: str, approximate: str) -> Write:
    """CEIL and FLOOR: Spark's make a BIGINT of a DOUBLE, which holds neither 1e300 nor -0.0."""

    def write(call: Call, arguments: list[str]) -> str:
        if isinstance(call.type, t.INTEGER_TYPES):
            return arguments[0]
        template = approximate if isinstance(call.type, t.APPROXIMATE_TYPES) else exact
        return f"CAST({fill(template, arguments)} AS {spark_ddl(call.type)})"

    return write


def _round(call: Call, arguments: list[str]) -> str:
    text, digits = arguments[0], arguments[1] if len(arguments) > 1 else "0"
    ddl = spark_ddl(call.type)
    if call.function == "ROUND" and all(isinstance(a, Literal) for a in call.arguments[1:]):
        return f"CAST(round({text}, {digits}) AS {ddl})"
    # Spark has no TRUNCATE, and its ROUND wants to know the digits beforehand.
    return f"CAST(tidemill_{call.function.lower()}(CAST({text} AS STRING), {digits}) AS {ddl})"


def _log(_: Call, arguments: list[str]) -> str:
    return f"tidemill_{'ln' if len(arguments) == 1 else 'log'}({', '.join(arguments)})"


def _random(call: Call, arguments: list[str]) -> str:
    """A seed that is not a constant starts a new sequence for each row, of which one number is seen."""
    *given, place = arguments
    *seed, bound = given if call.function == "RAND_INTEGER" else [*given, ""]
    if seed and not isinstance(call.arguments[0], Literal):
        return f"tidemill_{call.function.lower()}({', '.join(given)})"
    drawn = f"tidemill_random_seeded({place}, {seed[0]})" if seed else f"tidemill_random({place})"
    if not bound:
        return drawn
    bad = "CAST(raise_error('the bound of RAND_INTEGER must be positive') AS INT)"
    return f"if({bound} <= 0, {bad}, CAST(floor({drawn} * {bound}) AS INT))"


FORMS: dict[str, Form] = {
    "NEGATE": _signed("(- {0})", "tidemill_negate(CAST({0} AS STRING))"),
    "+": cast_to_result("({0} + {1})"),
    "-": cast_to_result("({0} - {1})"),
    "*": cast_to_result("({0} * {1})"),
    "/": _divide,
    "%": _divide,
    "ABS": _signed("abs({0})", "tidemill_abs(CAST({0} AS STRING))"),
    "SIGN": cast_to_result("sign({0})"),
    "CEIL": _to_whole("ceil({0})", "tidemill_ceil(CAST({0} AS DOUBLE))"),
    "CEILING": _to_whole("ceil({0})", "tidemill_ceil(CAST({0} AS DOUBLE))"),
    "FLOOR": _to_whole("floor({0})", "tidemill_floor(CAST({0} AS DOUBLE))"),
    "ROUND": _round,
    "TRUNCATE": _round,
    "SQRT": "sqrt({0})",
    # Java's Math, as in Flink; Spark takes StrictMath, whose last digit may be another.
    "POWER": "tidemill_power({0}, {1})",
    "EXP": "tidemill_exp({0})",
    # Spark's logarithms give NULL where Java's give NaN or infinity.
    "LN": "tidemill_ln({0})",
    "LOG": _log,
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

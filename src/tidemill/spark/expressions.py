"""Bound expressions as Spark SQL text. In: an `Expr` over columns c0, c1, …. Out: text for `functions.expr`.

Spark runs with ANSI mode off, because Flink wraps integers and turns a decimal overflow into NULL; where Flink fails
(a text that is no number, a division by zero) the text says so with raise_error. One table per kind of call; a test
holds its keys equal to `plan.functions`.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from tidemill import types as t
from tidemill.plan.expressions import Call, Expr, Input, Literal
from tidemill.spark.types import spark_ddl


def column_name(index: int) -> str:
    """Columns are known by place: names in a script may repeat and may be anything."""
    return f"c{index}"


def to_sql(expr: Expr) -> str:
    match expr:
        case Input():
            return column_name(expr.index)
        case Literal():
            return _literal(expr)
        case Call():
            special = _SPECIAL.get(expr.function)
            if special is not None:
                return special(expr)
            return _fill(TEMPLATES[expr.function], [to_sql(a) for a in expr.arguments])
    raise TypeError(type(expr))


def _fill(template: str, arguments: list[str]) -> str:
    """`{0}` is an argument, `{*}` all of them, `{1?…}` the rest of the text only if argument 1 is there."""
    if "{*}" in template:
        return template.replace("{*}", ", ".join(arguments))
    for index in range(5):
        marker = f"{{{index}?"
        if marker in template:
            start = template.index(marker)
            end = template.index("}", start)
            inner = template[start + len(marker) : end]
            shown = inner.replace("$", arguments[index]) if index < len(arguments) else ""
            template = template[:start] + shown + template[end + 1 :]
    for index, argument in enumerate(arguments):
        template = template.replace(f"{{{index}}}", argument)
    return template


TEMPLATES: dict[str, str] = {
    # text
    "UPPER": "upper({0})",
    "LOWER": "lower({0})",
    "INITCAP": "initcap({0})",
    "CHAR_LENGTH": "char_length({0})",
    "CHARACTER_LENGTH": "char_length({0})",
    "OCTET_LENGTH": "octet_length({0})",
    "ASCII": "ascii({0})",
    "CHR": "chr({0})",
    "CONCAT": "concat({*})",
    "CONCAT_WS": "concat_ws({*})",
    "SUBSTRING": "substring({0}, {1}{2?, $})",
    "SUBSTR": "substring({0}, {1}{2?, $})",
    "LEFT": "left({0}, {1})",
    "RIGHT": "right({0}, {1})",
    "TRIM": "trim(BOTH {1} FROM {0})",
    "TRIM LEADING": "trim(LEADING {1} FROM {0})",
    "TRIM TRAILING": "trim(TRAILING {1} FROM {0})",
    "LTRIM": "trim(LEADING {1?$ }FROM {0})",
    "RTRIM": "trim(TRAILING {1?$ }FROM {0})",
    "BTRIM": "trim(BOTH {1?$ }FROM {0})",
    "LPAD": "lpad({0}, {1}, {2})",
    "RPAD": "rpad({0}, {1}, {2})",
    "REPEAT": "repeat({0}, {1})",
    "REVERSE": "reverse({0})",
    "REPLACE": "replace({0}, {1}, {2})",
    "OVERLAY": "overlay({0} PLACING {1} FROM {2}{3? FOR $})",
    "POSITION": "locate({0}, {1})",
    "LOCATE": "locate({0}, {1}{2?, $})",
    "INSTR": "instr({0}, {1})",
    "REGEXP_REPLACE": "regexp_replace({0}, {1}, {2})",
    "REGEXP_EXTRACT": "regexp_extract({0}, {1}, {2})",
    "REGEXP": "regexp({0}, {1})",
    "SPLIT_INDEX": r"get(split({0}, concat('\\Q', {1}, '\\E')), {2})",
    "STARTSWITH": "startswith({0}, {1})",
    "ENDSWITH": "endswith({0}, {1})",
    "TO_BASE64": "base64(CAST({0} AS BINARY))",
    "FROM_BASE64": "CAST(unbase64({0}) AS STRING)",
    "MD5": "md5({0})",
    "SHA1": "sha1({0})",
    "SHA256": "sha2({0}, 256)",
    "SHA512": "sha2({0}, 512)",
    "LIKE": "({0} LIKE {1}{2? ESCAPE $})",
    "||": "concat({0}, {1})",
    # numbers
    "NEGATE": "(- {0})",
    "+": "({0} + {1})",
    "-": "({0} - {1})",
    "*": "({0} * {1})",
    "ABS": "abs({0})",
    "SIGN": "sign({0})",
    "CEIL": "ceil({0})",
    "CEILING": "ceil({0})",
    "FLOOR": "floor({0})",
    "ROUND": "round({0}{1?, $})",
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
    # comparison, logic and choice
    "=": "({0} = {1})",
    "<>": "({0} <> {1})",
    "<": "({0} < {1})",
    "<=": "({0} <= {1})",
    ">": "({0} > {1})",
    ">=": "({0} >= {1})",
    "IS DISTINCT FROM": "(NOT ({0} <=> {1}))",
    "IS NOT DISTINCT FROM": "({0} <=> {1})",
    "IS NULL": "({0} IS NULL)",
    "IS NOT NULL": "({0} IS NOT NULL)",
    "IS TRUE": "({0} IS TRUE)",
    "IS FALSE": "({0} IS FALSE)",
    "AND": "({0} AND {1})",
    "OR": "({0} OR {1})",
    "NOT": "(NOT {0})",
    "COALESCE": "coalesce({*})",
    "IFNULL": "ifnull({0}, {1})",
    "NULLIF": "nullif({0}, {1})",
    "IF": "if({0}, {1}, {2})",
    # dates and times: Spark pins the clock to the batch, so a replayed batch sees the same time
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
    "YEAR": "year({0})",
    "QUARTER": "quarter({0})",
    "MONTH": "month({0})",
    "WEEK": "weekofyear({0})",
    "DAYOFYEAR": "dayofyear({0})",
    "DAYOFMONTH": "dayofmonth({0})",
    "DAYOFWEEK": "dayofweek({0})",
    "HOUR": "hour({0})",
    "MINUTE": "minute({0})",
    "SECOND": "second({0})",
    # collections
    "ARRAY": "array({*})",
    "MAP": "map({*})",
    "ARRAY ELEMENT": "get({0}, {1} - 1)",
    "MAP ELEMENT": "element_at({0}, {1})",
    "CARDINALITY": "size({0})",
    "MAP_KEYS": "map_keys({0})",
    "MAP_VALUES": "map_values({0})",
    "ARRAY_CONTAINS": "array_contains({0}, {1})",
}

# Spark's result is wider or narrower than Flink's: bring it to the bound type.
_RESULT_CAST = frozenset(
    [
        "ABS",
        "SIGN",
        "CEIL",
        "CEILING",
        "FLOOR",
        "ROUND",
        "+",
        "-",
        "*",
        "YEAR",
        "QUARTER",
        "MONTH",
        "WEEK",
        "DAYOFYEAR",
        "DAYOFMONTH",
        "DAYOFWEEK",
        "HOUR",
        "MINUTE",
        "SECOND",
    ]
)


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _literal(expr: Literal) -> str:
    value, type_ = expr.value, expr.type
    if value is None:
        return f"CAST(NULL AS {spark_ddl(type_)})"
    match type_:
        case t.BooleanType():
            return "TRUE" if value else "FALSE"
        case t.DateType() | t.TimeType():
            return f"{type_.root} {_text(str(value))}"
        case t.TimestampType():
            return f"TIMESTAMP_NTZ {_text(str(value))}"
        case t.DoubleType() | t.FloatType() | t.DecimalType():
            shown = format(value, "f") if isinstance(value, Decimal) else repr(value)
            return f"CAST('{shown}' AS {spark_ddl(type_)})"
        case t.BigIntType():
            # The smallest BIGINT cannot be written with a suffix.
            return f"CAST('{value!s}' AS BIGINT)"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    return _text(value) if isinstance(value, str) else str(value)


def _cast(call: Call) -> str:
    operand = call.arguments[0]
    source, target = operand.type, call.type
    text, ddl = to_sql(operand), spark_ddl(target)
    if isinstance(target, t.STRING_TYPES):
        return _fit_length(_as_text(source, text), target)
    if isinstance(source, t.STRING_TYPES):
        if isinstance(target, t.BINARY_TYPES):
            return f"CAST({text} AS BINARY)"
        attempt = f"try_cast(trim({text}) AS {ddl})"
        if call.function == "TRY_CAST":
            return attempt
        complaint = f"concat('cannot cast \\'', {text}, '\\' to {target.as_nullable}')"
        return (
            f"if({text} IS NOT NULL AND {attempt} IS NULL,"
            f" CAST(raise_error({complaint}) AS {ddl}), {attempt})"
        )
    if isinstance(source, t.TimestampType) and isinstance(target, t.NUMERIC_TYPES):
        # Seconds since 1970, as for a zoned time, for which Spark has a cast.
        text = f"timestampdiff(SECOND, TIMESTAMP_NTZ '1970-01-01 00:00:00', {text})"
    if (
        isinstance(source, t.TIMESTAMP_TYPES)
        and isinstance(target, t.TIMESTAMP_TYPES)
        and target.precision < min(source.precision, 6)
    ):
        parse = "to_timestamp_ntz" if isinstance(source, t.TimestampType) else "to_timestamp"
        text = f"{parse}({_stamp(text, target.precision)})"
    return f"CAST({text} AS {ddl})"


def _stamp(text: str, digits: int) -> str:
    fraction = "." + "S" * digits if digits else ""
    return f"date_format({text}, 'yyyy-MM-dd HH:mm:ss{fraction}')"


def _as_text(source: t.SqlType, text: str) -> str:
    if isinstance(source, t.STRING_TYPES):
        return text
    if isinstance(source, t.BooleanType):
        return f"upper(CAST({text} AS STRING))"
    if isinstance(source, t.TIMESTAMP_TYPES):
        return _stamp(text, min(6, source.precision))
    return f"CAST({text} AS STRING)"


def _fit_length(text: str, target: t.SqlType) -> str:
    assert isinstance(target, (t.CharType, t.VarCharType))
    if target.length == t.MAX_LENGTH:
        return text
    cut = f"left({text}, {target.length})"
    return f"rpad({cut}, {target.length}, ' ')" if isinstance(target, t.CharType) else cut


def _divide(call: Call) -> str:
    left, right = (to_sql(a) for a in call.arguments)
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


def _shift(call: Call) -> str:
    operand, interval = call.arguments
    sign = "+" if call.function == "ADD INTERVAL" else "-"
    if not isinstance(interval, Literal) or not isinstance(interval.value, int):
        raise TypeError("an interval is a constant")
    text = to_sql(operand)
    if isinstance(interval.type, t.YearMonthIntervalType):
        amount = f"make_ym_interval(0, {interval.value})"
    elif isinstance(operand.type, t.DateType):
        amount = f"make_dt_interval({interval.value // 86_400_000})"
    else:
        amount = f"make_dt_interval(0, 0, 0, CAST('{interval.value / 1000:.3f}' AS DECIMAL(18, 6)))"
    return f"CAST({text} {sign} {amount} AS {spark_ddl(call.type)})"


def _case(call: Call) -> str:
    parts = [to_sql(a) for a in call.arguments]
    whens = " ".join(f"WHEN {c} THEN {r}" for c, r in zip(parts[:-1:2], parts[1:-1:2], strict=True))
    return f"(CASE {whens} ELSE {parts[-1]} END)"


def _extreme(call: Call) -> str:
    parts = [to_sql(a) for a in call.arguments]
    missing = " OR ".join(f"{p} IS NULL" for p in parts)
    return f"if({missing}, NULL, {call.function.lower()}({', '.join(parts)}))"


def _field(call: Call) -> str:
    name = call.arguments[1]
    assert isinstance(name, Literal)
    return f"{to_sql(call.arguments[0])}.`{str(name.value).replace('`', '``')}`"


def _row(call: Call) -> str:
    assert isinstance(call.type, t.RowType)
    parts = []
    for field, argument in zip(call.type.fields, call.arguments, strict=True):
        parts += [_text(field.name), to_sql(argument)]
    return f"named_struct({', '.join(parts)})"


def _in(call: Call) -> str:
    first, *rest = (to_sql(a) for a in call.arguments)
    return f"({first} IN ({', '.join(rest)}))"


def _epoch(call: Call) -> str:
    """TO_TIMESTAMP_LTZ(number, 0 for seconds or 3 for milliseconds)"""
    number, *precision = call.arguments
    text = to_sql(number)
    if not isinstance(number.type, t.INTEGER_TYPES):
        text = f"CAST({text} AS BIGINT)"
    digits = to_sql(precision[0]) if precision else "3"
    return f"if({digits} = 0, timestamp_seconds({text}), timestamp_millis({text}))"


def _recast(call: Call) -> str:
    inner = _fill(TEMPLATES[call.function], [to_sql(a) for a in call.arguments])
    return f"CAST({inner} AS {spark_ddl(call.type)})"


def _regexp_extract(call: Call) -> str:
    parts = [to_sql(a) for a in call.arguments]
    group = parts[2] if len(parts) > 2 else "0"
    # Spark gives '' for no match, Flink NULL.
    return (
        f"if(regexp({parts[0]}, {parts[1]}), regexp_extract({parts[0]}, {parts[1]}, {group}), NULL)"
    )


_SPECIAL: dict[str, Callable[[Call], str]] = {
    "CAST": _cast,
    "TRY_CAST": _cast,
    "/": _divide,
    "%": _divide,
    "ADD INTERVAL": _shift,
    "SUBTRACT INTERVAL": _shift,
    "CASE": _case,
    "GREATEST": _extreme,
    "LEAST": _extreme,
    "FIELD": _field,
    "ROW": _row,
    "IN": _in,
    "TO_TIMESTAMP_LTZ": _epoch,
    "REGEXP_EXTRACT": _regexp_extract,
    **{name: _recast for name in _RESULT_CAST},
}

LOWERED = frozenset(TEMPLATES) | frozenset(_SPECIAL)

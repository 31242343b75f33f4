"""Comparison, logic and choice as Spark SQL. How to read the tables: `tidemill.spark.functions`."""

from __future__ import annotations

from tidemill import types as t
from tidemill.plan.expressions import Call, Expr, Literal
from tidemill.spark.functions.form import Form, quote


def _may_be_nan(expr: Expr) -> bool:
    if not isinstance(expr.type, t.APPROXIMATE_TYPES) or isinstance(expr, Literal):
        return False
    if isinstance(expr, Call) and expr.function == "CAST":
        return isinstance(expr.arguments[0].type, (*t.APPROXIMATE_TYPES, *t.STRING_TYPES))
    return True


def _comparable(call: Call, parts: list[str]) -> list[str]:
    """Spark does not compare maps, but does what is in them."""
    is_map = isinstance(call.arguments[0].type, t.MapType)
    return [f"array_sort(map_entries({part}))" for part in parts] if is_map else parts


def _same(call: Call, parts: list[str]) -> str:
    left, right = _comparable(call, parts)
    same = f"({left} <=> {right})"
    if call.arguments[0] != call.arguments[1] and all(map(_may_be_nan, call.arguments)):
        same = f"({same} AND NOT isnan({left}))"
    return same if call.function == "IS NOT DISTINCT FROM" else f"(NOT {same})"


def _compare(call: Call, parts: list[str]) -> str:
    """Java's rules: NaN is not equal to anything, nor less, nor greater. To Spark it equals itself and is greatest."""
    left, right = call.arguments
    parts = _comparable(call, parts)
    plain = f"({parts[0]} {call.function} {parts[1]})"
    if call.function in ("=", "<>"):
        # Flink's planner takes x = x for TRUE before it knows of a NaN.
        if left == right or not (_may_be_nan(left) and _may_be_nan(right)):
            return plain
        nan = f"isnan({parts[0]})"
        return f"({plain} AND NOT {nan})" if call.function == "=" else f"({plain} OR {nan})"
    greater = 1 if call.function in ("<", "<=") else 0
    if not _may_be_nan(call.arguments[greater]):
        return plain
    return f"({plain} AND NOT isnan({parts[greater]}))"


def _case(_: Call, parts: list[str]) -> str:
    whens = " ".join(f"WHEN {c} THEN {r}" for c, r in zip(parts[:-1:2], parts[1:-1:2], strict=True))
    return f"(CASE {whens} ELSE {parts[-1]} END)"


def _extreme(call: Call, parts: list[str]) -> str:
    if len(parts) == 1:
        return parts[0]
    missing = " OR ".join(f"{p} IS NULL" for p in parts)
    return f"if({missing}, NULL, {call.function.lower()}({', '.join(parts)}))"


def _in(call: Call, parts: list[str]) -> str:
    first, *rest = parts
    found = f"({first} IN ({', '.join(rest)}))"
    if _may_be_nan(call.arguments[0]) and any(map(_may_be_nan, call.arguments[1:])):
        return f"({found} AND NOT isnan({first}))"
    return found


# A DECIMAL is neither, as Flink sees it.
_NUMBERS_THAT_ARE: dict[str, tuple[type[t.SqlType], ...]] = {
    "IS_ALPHA": (),
    "IS_DIGIT": t.INTEGER_TYPES,
    "IS_DECIMAL": (*t.INTEGER_TYPES, *t.APPROXIMATE_TYPES),
}


def _is_of(call: Call, parts: list[str]) -> str:
    """IS_ALPHA, IS_DIGIT, IS_DECIMAL; of what is no text Flink looks at the type alone."""
    type_ = call.arguments[0].type
    if isinstance(type_, t.STRING_TYPES):
        return f"tidemill_{call.function.lower()}({parts[0]})"
    return "TRUE" if isinstance(type_, _NUMBERS_THAT_ARE[call.function]) else "FALSE"


def _typeof(call: Call, parts: list[str]) -> str:
    """The type is known when the job is planned; in full, as it can be declared, if the second argument says so."""
    type_ = call.arguments[0].type
    in_full = quote(str(type_).replace("STRING", t.STRING.full).replace("BYTES", t.BYTES.full))
    return (
        f"if({parts[1]}, {in_full}, {quote(str(type_))})" if len(parts) > 1 else quote(str(type_))
    )


FORMS: dict[str, Form] = {
    "=": _compare,
    "<>": _compare,
    "<": _compare,
    "<=": _compare,
    ">": _compare,
    ">=": _compare,
    "IS DISTINCT FROM": _same,
    "IS NOT DISTINCT FROM": _same,
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
    "CASE": _case,
    "GREATEST": _extreme,
    "LEAST": _extreme,
    "IN": _in,
    "IS_ALPHA": _is_of,
    "IS_DIGIT": _is_of,
    "IS_DECIMAL": _is_of,
    "TYPEOF": _typeof,
}

"""Comparison, logic and choice as Spark SQL. How to read the tables: `tidemill.spark.functions`."""

from __future__ import annotations

from tidemill.plan.expressions import Call
from tidemill.spark.functions.form import Form


def _case(_: Call, parts: list[str]) -> str:
    whens = " ".join(f"WHEN {c} THEN {r}" for c, r in zip(parts[:-1:2], parts[1:-1:2], strict=True))
    return f"(CASE {whens} ELSE {parts[-1]} END)"


def _extreme(call: Call, parts: list[str]) -> str:
    missing = " OR ".join(f"{p} IS NULL" for p in parts)
    return f"if({missing}, NULL, {call.function.lower()}({', '.join(parts)}))"


def _in(_: Call, parts: list[str]) -> str:
    first, *rest = parts
    return f"({first} IN ({', '.join(rest)}))"


FORMS: dict[str, Form] = {
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
    "CASE": _case,
    "GREATEST": _extreme,
    "LEAST": _extreme,
    "IN": _in,
}

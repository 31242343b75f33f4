"""Nodes that make several rows of one: grouping sets, UNNEST, table functions.

In: columns c0, c1, … and the hidden ones. Out: the node's columns, and the hidden ones as they were, so that a row that
is taken back takes back all that was made of it. Law: what is made of a row stays together, in its order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tidemill import types as t
from tidemill.plan import nodes
from tidemill.plan.expressions import Expr
from tidemill.spark.expressions import column_name


def expand(below: DataFrame, node: nodes.Expand, hidden: Sequence[str]) -> DataFrame:
    """Each row once for every grouping set."""
    width = len(node.input.columns)
    varying = [*node.optional, width]
    values = [
        value
        for present, mark in zip(node.sets, node.marks, strict=True)
        for value in (
            *(column_name(c) if c in present else "NULL" for c in node.optional),
            f"{mark}L",
        )
    ]
    made = f.expr(f"stack({len(node.sets)}, {', '.join(values)})")
    kept = [column_name(c) for c in range(width) if c not in node.optional]
    rows = below.select(*kept, *hidden, made.alias(*map(column_name, varying)))
    return rows.select(*map(column_name, range(width + 1)), *hidden)


def correlate(
    below: DataFrame, node: nodes.Correlate, to_sql: Callable[[Expr], str], hidden: Sequence[str]
) -> DataFrame:
    """Each row with the rows that the function makes of it."""
    kept = list(map(column_name, range(len(node.input.columns))))
    collection, values = _collection(node, [to_sql(e) for e in nodes.expressions(node)])
    if node.ordinality:
        values = [*values, "_at + 1"]
    if node.condition is None:
        outer = "_outer" if node.kind == "LEFT" else ""
        made = f.expr(f"posexplode{outer}({collection})").alias("_at", "_row")
        rows = below.select(*kept, *hidden, made)
    else:
        fulfilling = _fulfilling(collection, values, to_sql(node.condition))
        made = f.expr(f"explode_outer({fulfilling})").alias("_pair")
        rows = below.select(*kept, *hidden, made).select(*kept, *hidden, "_pair.*")
    added = [f.expr(v).alias(column_name(len(kept) + i)) for i, v in enumerate(values)]
    return rows.select(*kept, *added, *hidden)


def _collection(node: nodes.Correlate, arguments: Sequence[str]) -> tuple[str, Sequence[str]]:
    """An array, and the node's fields as SQL over an element `_row` of it."""
    first = arguments[0]
    if node.call is not None:
        return first, [f"_row.f{i}" for i in range(len(node.fields))]
    if node.function == "$REPLICATE_ROWS$":
        return f"array_repeat(TRUE, CAST({first} AS INT))", arguments[1:]
    type_ = node.arguments[0].type
    if isinstance(type_, t.MapType):
        return f"map_entries({first})", ["_row.key", "_row.value"]
    assert isinstance(type_, t.ArrayType | t.MultisetType)
    if isinstance(type_, t.MultisetType):
        repeated = "e -> array_repeat(e.key, e.value)"
        first = f"flatten(transform(map_entries({first}), {repeated}))"
    if isinstance(type_.element, t.RowType):
        names = (field.name.replace("`", "``") for field in type_.element.fields)
        return first, [f"_row.`{name}`" for name in names]
    return first, ["_row"]


def _fulfilling(collection: str, values: Sequence[str], condition: str) -> str:
    """The elements whose values fulfil a condition, each with its place, as `_at` and `_row`. The condition knows the
    values as c0, c1, …"""
    places = "(_row, _at) -> named_struct('_at', _at, '_row', _row)"
    holds = condition
    for i, value in enumerate(values):
        holds = f"get(transform(array({value}), {column_name(i)} -> {holds}), 0)"
    # Within the condition an element's place and row have names of their own.
    named = (
        f"get(transform(array(e._at), _at -> get(transform(array(e._row), _row -> {holds}), 0)), 0)"
    )
    return f"filter(transform({collection}, {places}), e -> {named})"

"""Nodes that make several rows of one: grouping sets, UNNEST, table functions.

In: columns c0, c1, … and the hidden ones. Out: the node's columns, and the hidden ones as they were, so that a row that
is taken back takes back all that was made of it. Law: what is made of a row stays together, in its order.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tidemill import types as t
from tidemill.plan import nodes
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
    below: DataFrame, node: nodes.Correlate, arguments: Sequence[str], hidden: Sequence[str]
) -> DataFrame:
    """Each row with the rows that the function makes of it. `arguments` are SQL over `below`; of a function of the
    user's, its call."""
    kept = list(map(column_name, range(len(node.input.columns))))
    collection, names, values = _collection(node, arguments)
    outer = "_outer" if node.kind == "LEFT" else ""
    made = f.expr(f"posexplode{outer}({collection})").alias("_at", *names)
    if node.ordinality:
        values = [*values, "_at + 1"]
    added = [f.expr(v).alias(column_name(len(kept) + i)) for i, v in enumerate(values)]
    return below.select(*kept, *hidden, made).select(*kept, *added, *hidden)


def _collection(
    node: nodes.Correlate, arguments: Sequence[str]
) -> tuple[str, Sequence[str], Sequence[str]]:
    """What is taken apart, the names of its parts, and the fields as SQL over them."""
    first = arguments[0]
    if node.call is not None:
        return first, ["_row"], [f"_row.f{i}" for i in range(len(node.fields))]
    if node.function == "$REPLICATE_ROWS$":
        return f"array_repeat(TRUE, CAST({first} AS INT))", ["_row"], arguments[1:]
    type_ = node.arguments[0].type
    if isinstance(type_, t.MapType):
        return first, ["_key", "_value"], ["_key", "_value"]
    assert isinstance(type_, t.ArrayType | t.MultisetType)
    if isinstance(type_, t.MultisetType):
        repeated = "e -> array_repeat(e.key, e.value)"
        first = f"flatten(transform(map_entries({first}), {repeated}))"
    if isinstance(type_.element, t.RowType):
        names = (field.name.replace("`", "``") for field in type_.element.fields)
        return first, ["_row"], [f"_row.`{name}`" for name in names]
    return first, ["_row"], ["_row"]

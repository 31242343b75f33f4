"""Windows: rows go into them, and come out of them when they close.

In: a plan's window nodes, and their input as columns c0…. Out: the columns of the node, and `_kind` where it is asked
for. Where an aggregate stands over a window function of its own, its rows are not multiplied: they go to slices, which
the windows share.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tidemill import types as t
from tidemill.changelog import KIND_COLUMN
from tidemill.plan import nodes
from tidemill.plan.expressions import Input, walk
from tidemill.spark.expressions import column_name
from tidemill.spark.java import java_class
from tidemill.spark.operators import Demand, Tally, aggregates_spec, operator, table_of
from tidemill.spark.types import spark_ddl
from tidemill.spark.watermarks import zone_of

WINDOW_COLUMN = "_window"
"""The hidden column with the time by which a row goes into its windows, where nobody has put it there yet."""

_PAGED = frozenset(
    ["LISTAGG", "ARRAY_AGG", "COLLECT", "PERCENTILE", "JSON_ARRAYAGG", "JSON_OBJECTAGG"]
)
"""Functions whose state may be large: slices of it cannot be put together."""


def own_windows(node: nodes.WindowAggregate) -> nodes.WindowTableFunction | None:
    """The window function below an aggregate, if nothing looks at its windows in between."""
    below: nodes.Node = node.input
    seen = set(range(len(below.columns)))
    while isinstance(below, nodes.Project | nodes.Filter):
        windows = below.input.windows
        if windows is None:
            return None
        if isinstance(below, nodes.Filter):
            if _reads(below.condition, windows.all):
                return None
        else:
            kept = [below.expressions[i] for i in seen]
            if any(not isinstance(e, Input) and _reads(e, windows.all) for e in kept):
                return None
            seen = {p.index for e in kept for p in walk(e) if isinstance(p, Input)}
        below = below.input
    return below if isinstance(below, nodes.WindowTableFunction) else None


def can_share(node: nodes.WindowAggregate, function: nodes.WindowTableFunction) -> bool:
    """Whether the windows of an aggregate can be made of slices."""
    if function.window.kind == "SESSION":
        return False
    return function.window.kind == "TUMBLE" or not any(_is_paged(c, node) for c in node.calls)


def _is_paged(call: Any, node: nodes.Aggregate) -> bool:
    retracting = not node.input.kinds.insert_only
    return (
        call.function in _PAGED
        or (call.distinct and call.function not in ("MIN", "MAX"))
        or (retracting and call.function not in ("COUNT", "SUM", "AVG"))
    )


def _reads(expression: Any, columns: frozenset[int]) -> bool:
    return any(isinstance(e, Input) and e.index in columns for e in walk(expression))


def without_windows(frame: DataFrame, node: nodes.WindowTableFunction) -> DataFrame:
    """The rows as they are; nobody reads the columns of their windows."""
    width = len(node.input.columns)
    nothing = [
        f.expr(f"CAST(NULL AS {spark_ddl(c.type)})").alias(column_name(width + i))
        for i, c in enumerate(node.columns[width:])
    ]
    time = f.col(column_name(node.time)).alias(WINDOW_COLUMN)
    return frame.select(*_columns(width), *nothing, *_rest(frame, width), time)


def assign_windows(
    frame: DataFrame,
    node: nodes.WindowTableFunction,
    refusing: nodes.WindowAggregate | None,
    tally: Tally,
) -> DataFrame:
    """Each row once for every window that it is in. `refusing`: the aggregate above that fails without a time."""
    width = len(node.input.columns)
    spec = _window_spec(
        node.window, column_name(node.time), node.input.columns[node.time].type, frame
    )
    operators = java_class(frame.sparkSession, "io.tidemill.state.Operators")
    counts = tally.of(f"{_name(node)} of {table_of(node)}")
    told = refusing and refusing.describe()
    rows = DataFrame(
        operators.windows(frame._jdf, json.dumps(spec), told, counts), frame.sparkSession
    )
    bounds = [f.col(c).alias(column_name(width + i)) for i, c in enumerate(_BOUNDS)]
    return rows.select(*_columns(width), *bounds, *_rest(frame, width))


_BOUNDS = ("_start", "_end", "_time")


def _columns(width: int) -> list[str]:
    return [column_name(i) for i in range(width)]


def _rest(frame: DataFrame, width: int) -> list[str]:
    return [c for c in frame.columns if c not in _columns(width)]


def _window_spec(
    window: nodes.Window, time: str, type_: t.SqlType, frame: DataFrame, attached: bool = False
) -> dict[str, Any]:
    size, step = window.size, window.step
    assert size is not None
    return {
        "time": time,
        "attached": attached,
        "size": size,
        "step": size if step is None else step,
        "offset": window.offset or 0,
        "cumulative": window.kind == "CUMULATE",
        "rowtime": window.rowtime,
        "zone": zone_of(type_, frame),
    }


def window_aggregate(
    frame: DataFrame,
    node: nodes.WindowAggregate,
    function: nodes.WindowTableFunction | None,
    demand: Demand,
) -> DataFrame:
    """`function`: whose windows are made of slices; None where rows know their window."""
    windows = node.input.windows
    assert windows is not None
    if function is None:
        end = column_name(min(windows.end))
        # A window that is told by its end alone is as good as one of its own.
        type_ = _clock_type(node.input, windows)
        spec = _window_spec(windows.window, end, type_, frame, attached=True)
    else:
        type_ = function.input.columns[function.time].type
        spec = _window_spec(function.window, WINDOW_COLUMN, type_, frame)
    keys = [k for k in node.keys if k not in windows.all]
    rows = _aggregate(frame, node, keys, spec, demand)
    places = {k: column_name(k) for k in keys}
    places |= dict.fromkeys(windows.start, "_start")
    places |= dict.fromkeys(windows.end, "_end") | dict.fromkeys(windows.time, "_time")
    return _placed(rows, [places[k] for k in node.keys], len(node.calls))


def _clock_type(node: nodes.Node, windows: nodes.WindowColumns) -> t.SqlType:
    """The type of the time that windows were made of."""
    for below in nodes.walk(node):
        if isinstance(below, nodes.WindowTableFunction):
            return below.input.columns[below.time].type
    raise TypeError(type(node))


def group_window_aggregate(
    frame: DataFrame, node: nodes.GroupWindowAggregate, demand: Demand
) -> DataFrame:
    type_ = node.input.columns[node.time].type
    spec = _window_spec(node.window, column_name(node.time), type_, frame)
    rows = _aggregate(frame, node, node.keys, spec, demand)
    bounds = {
        "start": "_start",
        "end": "_end",
        "rowtime": "_time",
        "proctime": "current_timestamp()",
    }
    after = [bounds[p] for p in node.properties]
    return _placed(rows, [column_name(k) for k in node.keys], len(node.calls), after)


def _aggregate(
    frame: DataFrame,
    node: nodes.WindowAggregate | nodes.GroupWindowAggregate,
    keys: Sequence[int],
    window: dict[str, Any],
    demand: Demand,
) -> DataFrame:
    spec = {
        "name": node.describe(),
        "keys": [column_name(k) for k in keys],
        "aggregates": aggregates_spec(node.calls),
        "retracting": not node.input.kinds.insert_only,
        "window": window,
    }
    return operator("windowAggregate", [frame], spec, demand, f"{_name(node)} of {table_of(node)}")


def _name(node: nodes.Node) -> str:
    return node.describe().partition("(")[0]


def _placed(
    rows: DataFrame, before: Sequence[str], calls: int, after: Sequence[str] = ()
) -> DataFrame:
    """The columns of an aggregate in their order, as c0…; all its rows are inserts."""
    columns = [*before, *(f"a{i}" for i in range(calls)), *after]
    named = [f"{c} AS _{column_name(i)}" for i, c in enumerate(columns)]
    return rows.drop(KIND_COLUMN).selectExpr(*named).toDF(*_columns(len(columns)))

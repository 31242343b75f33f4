"""Windows: rows go into them, and come out of them when they close.

In: a plan's window nodes, and their input as columns c0…. Out: the columns of the node, and `_kind` where it is asked
for. Where an aggregate stands over a window function of its own, its rows are not multiplied: they go to slices, which
the windows share, or straight to their session. Rows of a session wait for its end, unless they are only aggregated.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tidemill import types as t
from tidemill.changelog import KIND_COLUMN
from tidemill.plan import nodes
from tidemill.plan.expressions import AggregateCall, Input, walk
from tidemill.spark.expressions import column_name
from tidemill.spark.java import java_class
from tidemill.spark.letters import shown
from tidemill.spark.operators import (
    Demand,
    Tally,
    after_left,
    aggregates_spec,
    operator,
    sides_spec,
    sort_column,
    table_of,
)
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
    """Whether an aggregate makes the windows itself: of slices, or of the rows of a session."""
    return not _overlaps(function.window) or not any(_is_paged(c, node) for c in node.calls)


def _overlaps(window: nodes.Window) -> bool:
    return window.kind in ("HOP", "CUMULATE")


def _is_paged(call: AggregateCall, node: nodes.Aggregate | nodes.GroupWindowAggregate) -> bool:
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
    told = None if refusing is None else refusing.describe()
    rows = _assigned(frame, spec, told, tally.of(_name(node)))
    bounds = [f.col(c).alias(column_name(width + i)) for i, c in enumerate(_BOUNDS)]
    return rows.select(*_columns(width), *bounds, *_rest(frame, width))


def _assigned(
    frame: DataFrame, spec: dict[str, Any], refusing: str | None, counts: Any
) -> DataFrame:
    operators = java_class(frame.sparkSession, "io.tidemill.state.Operators")
    rows = operators.windows(frame._jdf, json.dumps(spec), refusing, counts)
    return DataFrame(rows, frame.sparkSession)


def session_windows(frame: DataFrame, node: nodes.WindowTableFunction, demand: Demand) -> DataFrame:
    """Each row with its session, once this has closed."""
    width = len(node.input.columns)
    type_ = node.input.columns[node.time].type
    spec = {
        "name": node.describe(),
        "keys": [column_name(k) for k in node.partition],
        "columns": _columns(width),
        "window": _window_spec(node.window, column_name(node.time), type_, frame),
    }
    rows = operator("sessions", [frame], spec, demand, _name(node))
    bounds = [f.col(c).alias(column_name(width + i)) for i, c in enumerate(_BOUNDS)]
    kind = [KIND_COLUMN] if KIND_COLUMN in frame.columns else []
    return rows.select(*_columns(width), *bounds, *kind)


def window_rank(frame: DataFrame, node: nodes.WindowRank, demand: Demand) -> DataFrame:
    assert node.input.windows is not None
    spec = {
        "name": node.describe(),
        "partition": [column_name(k) for k in node.partition],
        "columns": _columns(len(node.input.columns)),
        "order": [sort_column(k) for k in node.order],
        "start": node.start,
        "end": node.end,
        "number": node.number is not None,
        "window": _attached_spec(
            node.input, node.input.windows.end.intersection(node.partition), frame
        ),
    }
    rows = operator("windowRank", [frame], spec, demand, _name(node))
    return rows.drop(KIND_COLUMN).toDF(*_columns(len(node.columns)))


def window_deduplicate(
    frame: DataFrame, node: nodes.WindowDeduplicate, demand: Demand
) -> DataFrame:
    assert node.input.windows is not None
    spec = {
        "name": node.describe(),
        "keys": [column_name(k) for k in node.keys],
        "columns": _columns(len(node.columns)),
        "time": column_name(node.time),
        "last": node.last,
        "window": _attached_spec(node.input, node.input.windows.end.intersection(node.keys), frame),
    }
    return operator("windowDeduplicate", [frame], spec, demand, _name(node)).drop(KIND_COLUMN)


def window_join(
    left: DataFrame, right: DataFrame, node: nodes.WindowJoin, condition: str | None, demand: Demand
) -> DataFrame:
    """`condition`: what must hold beside the equalities, over c0… of both sides."""
    windows = node.left.windows
    assert windows is not None
    spec = {
        **sides_spec(node, condition),
        "window": _attached_spec(node.left, windows.end & node.left_keys, left),
    }
    frames = [left, after_left(right, node)]
    return operator("windowJoin", frames, spec, demand, str(spec["name"])).drop(KIND_COLUMN)


_BOUNDS = ("_start", "_end", "_time")


def _columns(width: int) -> list[str]:
    return [column_name(i) for i in range(width)]


def _rest(frame: DataFrame, width: int) -> list[str]:
    return [c for c in frame.columns if c not in _columns(width)]


def _window_spec(
    window: nodes.Window, time: str, type_: t.SqlType, frame: DataFrame, attached: bool = False
) -> dict[str, Any]:
    lengths = [length for length in (window.size, window.step) if length is not None]
    return {
        "time": time,
        "attached": attached,
        "size": lengths[0],
        "step": lengths[-1],
        "offset": window.offset or 0,
        "cumulative": window.kind == "CUMULATE",
        "gap": window.step if window.kind == "SESSION" else 0,
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
        spec = _attached_spec(node.input, windows.end, frame)
    else:
        type_ = function.input.columns[function.time].type
        spec = _window_spec(function.window, WINDOW_COLUMN, type_, frame)
    # The end of a window tells its start, but for a session's.
    told = function is None and windows.window.kind == "SESSION"
    added = windows.end | windows.time | (frozenset() if told else windows.start)
    keys = [k for k in node.keys if k not in added]
    method = "sessionAggregate" if spec["gap"] and function is not None else "windowAggregate"
    letter = None if function is None else _letter(node, function)
    rows = _aggregate(method, frame, node, keys, spec, demand, letter)
    places = {k: column_name(k) for k in keys}
    places |= {} if told else dict.fromkeys(windows.start, "_start")
    places |= dict.fromkeys(windows.end, "_end") | dict.fromkeys(windows.time, "_time")
    return _placed(rows, [places[k] for k in node.keys], len(node.calls))


def _letter(
    node: nodes.WindowAggregate, function: nodes.WindowTableFunction
) -> list[dict[str, str]]:
    """What a late row tells whose windows are still to be made: not their bounds, and its time in any case."""
    assert node.input.windows is not None
    bounds = {column_name(i) for i in node.input.windows.all}
    [columns] = shown(node)
    told = {column: name for column, name in columns.items() if column not in bounds}
    time = function.input.columns[function.time].name
    return [told if time in told.values() else {**told, WINDOW_COLUMN: time}]


def _attached_spec(
    node: nodes.Node, ends: frozenset[int] | set[int], frame: DataFrame
) -> dict[str, Any]:
    """The windows of rows that know them, by one of the columns of their end."""
    assert node.windows is not None
    end = column_name(min(ends))
    return _window_spec(node.windows.window, end, _clock_type(node), frame, attached=True)


def _clock_type(node: nodes.Node) -> t.SqlType:
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
    method = "sessionAggregate" if spec["gap"] else "windowAggregate"
    paged = any(_is_paged(call, node) for call in node.calls)
    if spec["size"] % spec["step"] or (paged and _overlaps(node.window)):
        frame = _assigned(frame, spec, node.describe(), demand.tally.of(_name(node)))
        spec |= {"time": "_end", "attached": True}
    rows = _aggregate(method, frame, node, node.keys, spec, demand)
    bounds = {
        "start": "_start",
        "end": "_end",
        "rowtime": "_time",
        "proctime": "current_timestamp()",
    }
    after = [bounds[p] for p in node.properties]
    return _placed(rows, [column_name(k) for k in node.keys], len(node.calls), after)


def _aggregate(
    method: str,
    frame: DataFrame,
    node: nodes.WindowAggregate | nodes.GroupWindowAggregate,
    keys: Sequence[int],
    window: dict[str, Any],
    demand: Demand,
    letter: Sequence[Mapping[str, str]] | None = None,
) -> DataFrame:
    spec = {
        "name": node.describe(),
        "keys": [column_name(k) for k in keys],
        "aggregates": aggregates_spec(node.calls),
        "retracting": not node.input.kinds.insert_only,
        "window": window,
    }
    return operator(method, [frame], spec, demand, _name(node), letter)


def _name(node: nodes.Node) -> str:
    """Under which an operator counts."""
    return f"{node.describe().partition('(')[0]} of {table_of(node)}"


def _placed(
    rows: DataFrame, before: Sequence[str], calls: int, after: Sequence[str] = ()
) -> DataFrame:
    """The columns of an aggregate in their order, as c0…; all its rows are inserts."""
    columns = [*before, *(f"a{i}" for i in range(calls)), *after]
    named = [f"{c} AS _{column_name(i)}" for i, c in enumerate(columns)]
    return rows.drop(KIND_COLUMN).selectExpr(*named).toDF(*_columns(len(columns)))

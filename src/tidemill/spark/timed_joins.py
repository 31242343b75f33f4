"""Joins over time: of rows whose times are near each other, and of rows with the versions of a table.

In: a plan's node, and its sides as columns c0…. Out: columns c0… of the joined rows, and `_kind` where the left side
has one.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tidemill.changelog import KIND_COLUMN
from tidemill.plan import nodes
from tidemill.spark.expressions import column_name
from tidemill.spark.operators import Demand, after_left, operator, sides_spec
from tidemill.spark.types import spark_ddl


def interval_join(
    left: DataFrame,
    right: DataFrame,
    node: nodes.IntervalJoin,
    condition: str | None,
    demand: Demand,
) -> DataFrame:
    """`condition`: what must hold beside the equalities and the interval."""
    if node.is_empty:
        return _never_joined(left, right, node)
    spec = {
        **sides_spec(node, condition),
        "leftTime": column_name(node.left_time),
        "rightTime": column_name(len(node.left.columns) + node.right_time),
        "lower": node.lower,
        "upper": node.upper,
        "rowtime": node.is_rowtime,
    }
    frames = [left, after_left(right, node)]
    return operator("intervalJoin", frames, spec, demand, str(spec["name"])).drop(KIND_COLUMN)


def _never_joined(left: DataFrame, right: DataFrame, node: nodes.IntervalJoin) -> DataFrame:
    """Rows of outer sides, alone. No row of an inner side passes, but its tasks tell the time."""
    width = len(node.left.columns)
    sides = (
        (left, node.kind in ("LEFT", "FULL"), range(width)),
        (right, node.kind in ("RIGHT", "FULL"), range(width, len(node.columns))),
    )
    alone = []
    for frame, outer, own in sides:
        columns = [
            f.col(column_name(i - own.start)).alias(column_name(i))
            if i in own
            else f.expr(f"CAST(NULL AS {spark_ddl(c.type)})").alias(column_name(i))
            for i, c in enumerate(node.columns)
        ]
        rows = frame.select(*columns)
        alone.append(rows if outer else rows.where("rand() < 0"))
    return alone[0].unionAll(alone[1])


def temporal_join(
    left: DataFrame,
    right: DataFrame,
    node: nodes.TemporalJoin,
    condition: str | None,
    demand: Demand,
) -> DataFrame:
    """Rows of the left side with the version that held at their rowtime."""
    width = len(node.left.columns)
    spec = {
        **sides_spec(node, condition),
        "leftTime": column_name(node.time),
        "rightTime": column_name(width + node.version_time),
    }
    frames = [left, after_left(right, node)]
    rows = operator("temporalJoin", frames, spec, demand, str(spec["name"]))
    return rows.drop(KIND_COLUMN) if demand.mode.insert_only else rows


def lookup_join(
    left: DataFrame, right: DataFrame, node: nodes.LookupJoin, condition: str
) -> DataFrame:
    """Rows of the left side with what the right side has just now. The right side is sent to the tasks of the left one,
    so that rows stay in their tasks and in their order."""
    shifted = after_left(right, node)
    how = "left" if node.kind == "LEFT" else "inner"
    joined = left.join(f.broadcast(shifted), f.expr(condition), how)
    own = [column_name(i) for i in range(len(node.left.columns))]
    hidden = [c for c in left.columns if c not in own]
    return joined.select(*own, *shifted.columns, *hidden)

"""Operators that give rows in the order of time: OVER aggregates, ORDER BY, the first row of a key.

In: a plan's node that is ordered by a time attribute, and its input as columns c0…. Out: the columns of the node. By a
rowtime rows wait for the watermark; by processing time they leave as they come. What leaves is insert-only.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from tidemill import types as t
from tidemill.changelog import KIND_COLUMN
from tidemill.plan import nodes
from tidemill.plan.expressions import SortKey
from tidemill.spark.expressions import column_name
from tidemill.spark.operators import (
    Demand,
    aggregates_spec,
    deduplicate_spec,
    operator,
    sort_column,
    table_of,
)


def over_aggregate(frame: DataFrame, node: nodes.Over, demand: Demand) -> DataFrame:
    width = len(node.input.columns)
    spec = {
        "name": node.describe(),
        "keys": [column_name(k) for k in node.partition],
        "columns": _columns(width),
        "time": _rowtime(node.order[0]),
        "rows": _goes_by_rows(node),
        "preceding": node.frame.preceding,
        "calls": {
            "name": node.describe(),
            "aggregates": aggregates_spec(node.calls),
            "retracting": node.frame.preceding is not None,
        },
    }
    rows = operator("over", [frame], spec, demand, f"OverAggregate of {table_of(node)}")
    return rows.drop(KIND_COLUMN).toDF(*_columns(len(node.columns)))


def temporal_sort(frame: DataFrame, node: nodes.Sort, demand: Demand) -> DataFrame:
    first, *rest = node.order
    spec = {
        "name": node.describe(),
        "keys": [],
        "columns": _columns(len(node.columns)),
        "time": _rowtime(first),
        "order": [sort_column(key) for key in rest],
    }
    rows = operator("temporalSort", [frame], spec, demand, f"TemporalSort of {table_of(node)}")
    return rows.drop(KIND_COLUMN)


def first_by_time(frame: DataFrame, node: nodes.Deduplicate, demand: Demand) -> DataFrame:
    """The first row of each key by a rowtime."""
    spec = deduplicate_spec(node)
    rows = operator("firstByTime", [frame], spec, demand, f"Deduplicate of {table_of(node)}")
    return rows.drop(KIND_COLUMN)


def _columns(width: int) -> list[str]:
    return [column_name(i) for i in range(width)]


def _rowtime(key: SortKey) -> str | None:
    """The column of a rowtime; None where rows come in processing time."""
    is_rowtime = t.time_attribute(key.expression.type) is t.TimeAttribute.ROWTIME
    return column_name(key.column) if is_rowtime else None


def _goes_by_rows(node: nodes.Over) -> bool:
    """Flink: in processing time a RANGE without a bound goes row by row, for it waits for no peers."""
    frame = node.frame
    return frame.rows or (frame.preceding is None and _rowtime(node.order[0]) is None)

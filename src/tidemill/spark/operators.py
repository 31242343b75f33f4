"""The kernel's operators, by name. The only place that knows their Java side: a DataFrame and a JSON spec go in."""

from __future__ import annotations

import json

from pyspark.sql import DataFrame

from tidemill.changelog import KIND_COLUMN
from tidemill.plan import nodes
from tidemill.plan.expressions import Expr, Input
from tidemill.spark.expressions import column_name
from tidemill.spark.types import spark_ddl


def group_aggregate(frame: DataFrame, node: nodes.Aggregate, update_before: bool) -> DataFrame:
    """Columns c0… of the aggregate's input in; its own columns c0… and the row kind out."""
    width = len(node.keys)
    spec = {
        "name": node.describe(),
        "keys": [column_name(k) for k in node.keys],
        "aggregates": [
            {
                "function": call.function,
                "argument": _column(call.argument),
                "distinct": call.distinct,
                "filter": _column(call.filter),
                "output": f"a{i}",
                "type": spark_ddl(call.type),
            }
            for i, call in enumerate(node.calls)
        ],
        "updateBefore": update_before,
    }
    spark = frame.sparkSession
    operators = spark._jvm.io.tidemill.state.Operators
    result = DataFrame(operators.groupAggregate(frame._jdf, json.dumps(spec)), spark)
    renamed = [f"`{column_name(k)}` AS _{column_name(i)}" for i, k in enumerate(node.keys)]
    renamed += [f"a{i} AS _{column_name(width + i)}" for i in range(len(node.calls))]
    placed = result.selectExpr(*renamed, KIND_COLUMN)
    return placed.toDF(*(column_name(i) for i in range(len(node.columns))), KIND_COLUMN)


def divert(frame: DataFrame, spec: str) -> DataFrame:
    """The rows without those that are dead letters, which go to a topic in the task that has read them."""
    spark = frame.sparkSession
    return DataFrame(spark._jvm.io.tidemill.kafka.DeadLetters.divert(frame._jdf, spec), spark)


def _column(expr: Expr | None) -> str | None:
    if expr is None:
        return None
    assert isinstance(expr, Input)
    return column_name(expr.index)

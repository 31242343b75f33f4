"""The kernel's operators, by name. The only place that knows their Java side: a DataFrame and a JSON spec go in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidemill.changelog import KIND_COLUMN
from tidemill.plan import nodes
from tidemill.plan.expressions import AggregateCall, Expr, Input, Literal
from tidemill.spark.expressions import column_name
from tidemill.spark.types import spark_ddl

ORIGIN_COLUMN, ORDER_COLUMN = "_origin", "_order"
"""Hidden columns of a scan whose rows are put in order: the Kafka partition that a row comes from, its offset there."""


@dataclass
class Tally:
    """What the operators of a job met that should not be: by the operator's name, then by what it was."""

    spark: SparkSession
    _counts: list[tuple[str, Any]] = field(default_factory=list)

    def of(self, name: str) -> Any:
        """A place where the kernel counts for one operator."""
        counts = self.spark._jvm.io.tidemill.state.Counts.of(self.spark._jsparkSession)
        self._counts.append((name, counts))
        return counts

    def values(self) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for name, counts in self._counts:
            for what, number in dict(counts.values()).items():
                found[f"{name}: {what}"] = found.get(f"{name}: {what}", 0) + int(number)
        return found


def group_aggregate(
    frame: DataFrame, node: nodes.Aggregate, update_before: bool, tally: Tally
) -> DataFrame:
    """Columns c0… of the aggregate's input in; its own columns c0… and the row kind out."""
    width = len(node.keys)
    spec = {
        "name": node.describe(),
        "keys": [column_name(k) for k in node.keys],
        "aggregates": [
            {
                **_function(call),
                "arguments": [_column(a) for a in call.arguments if isinstance(a, Input)],
                "settings": [str(a.value) for a in call.arguments if isinstance(a, Literal)],
                "filter": _column(call.filter),
                "output": f"a{i}",
                "type": spark_ddl(call.type),
            }
            for i, call in enumerate(node.calls)
        ],
        "updateBefore": update_before,
        "retracting": not node.input.kinds.insert_only,
    }
    result = _operator(frame, "groupAggregate", spec, tally.of(_table(node)))
    renamed = [f"`{column_name(k)}` AS _{column_name(i)}" for i, k in enumerate(node.keys)]
    renamed += [f"a{i} AS _{column_name(width + i)}" for i in range(len(node.calls))]
    placed = result.selectExpr(*renamed, KIND_COLUMN)
    return placed.toDF(*(column_name(i) for i in range(len(node.columns))), KIND_COLUMN)


def _function(call: AggregateCall) -> Mapping[str, Any]:
    if call.function == "APPROX_COUNT_DISTINCT":
        return {"function": "COUNT", "distinct": True}
    return {"function": call.function, "distinct": call.distinct}


def normalize(
    frame: DataFrame, node: nodes.ChangelogNormalize, update_before: bool, tally: Tally
) -> DataFrame:
    """An upsert stream in; the same table as a changelog out. Rows come in Kafka's order where the scan tells it."""
    tells = ORDER_COLUMN in frame.columns
    spec = {
        "name": node.describe(),
        "keys": [column_name(k) for k in node.keys],
        "columns": [column_name(i) for i in range(len(node.columns))],
        "origin": ORIGIN_COLUMN if tells else None,
        "order": ORDER_COLUMN if tells else None,
        "updateBefore": update_before,
        "keepEqual": False,
    }
    return _operator(frame, "normalize", spec, tally.of(_table(node)))


def _operator(frame: DataFrame, method: str, spec: Mapping[str, Any], *more: Any) -> DataFrame:
    spark = frame.sparkSession
    operator = getattr(spark._jvm.io.tidemill.state.Operators, method)
    return DataFrame(operator(frame._jdf, json.dumps(spec), *more), spark)


def _table(node: nodes.Node) -> str:
    """The table whose rows a node works on."""
    scans = (n.table.name for n in nodes.walk(node) if isinstance(n, nodes.Scan))
    return next(scans, "VALUES")


def divert(frame: DataFrame, spec: str) -> DataFrame:
    """The rows without those that are dead letters, which go to a topic in the task that has read them."""
    spark = frame.sparkSession
    return DataFrame(spark._jvm.io.tidemill.kafka.DeadLetters.divert(frame._jdf, spec), spark)


def _column(expr: Expr | None) -> str | None:
    if expr is None:
        return None
    assert isinstance(expr, Input)
    return column_name(expr.index)

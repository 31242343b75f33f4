"""The kernel's operators, by name. The only place that knows their Java side: a DataFrame and a JSON spec go in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidemill.changelog import KIND_COLUMN, ChangelogMode, RowKind
from tidemill.plan import nodes
from tidemill.plan.expressions import Call, Expr, Input
from tidemill.plan.nodes import Keys
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
    result = _operator(frame, "groupAggregate", spec)
    renamed = [f"`{column_name(k)}` AS _{column_name(i)}" for i, k in enumerate(node.keys)]
    renamed += [f"a{i} AS _{column_name(width + i)}" for i in range(len(node.calls))]
    placed = result.selectExpr(*renamed, KIND_COLUMN)
    return placed.toDF(*(column_name(i) for i in range(len(node.columns))), KIND_COLUMN)


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


@dataclass(frozen=True)
class JoinSide:
    """One side of a join: its rows as columns c0…, and the kinds in which they come."""

    frame: DataFrame
    mode: ChangelogMode


def join(
    left: JoinSide,
    right: JoinSide,
    node: nodes.Join,
    mode: ChangelogMode,
    condition: str | None,
    last: bool,
    tally: Tally,
) -> DataFrame:
    """Two changelogs in; columns c0… of the joined table and the row kind out. `condition` is what must hold beside the
    equalities, over c0… of both sides. `last`: no operator comes after."""
    width = len(node.left.columns)
    moved = [
        f"{column_name(i)} AS {column_name(width + i)}" for i in range(len(node.right.columns))
    ]
    kind = [KIND_COLUMN] if KIND_COLUMN in right.frame.columns else []
    shifted = right.frame.selectExpr(*moved, *kind)
    spec = {
        "name": f"Join of {_table(node.left)} and {_table(node.right)}",
        "kind": node.kind,
        "left": _side(left.mode, node.left, [a for a, _ in node.pairs], 0),
        "right": _side(right.mode, node.right, [b for _, b in node.pairs], width),
        "nullSafe": [_is_null_safe(part) for part in node.equalities],
        "condition": condition,
        "updateKey": _update_key(node.upsert_keys, last),
        "updateBefore": RowKind.UPDATE_BEFORE in mode,
        "updates": RowKind.UPDATE_AFTER in mode,
        "deletes": RowKind.DELETE in mode,
    }
    spark = left.frame.sparkSession
    operators = spark._jvm.io.tidemill.state.Operators
    counts = tally.of(str(spec["name"]))
    joined = operators.join(left.frame._jdf, shifted._jdf, json.dumps(spec), counts)
    result = DataFrame(joined, spark)
    return result.drop(KIND_COLUMN) if mode.insert_only else result


def _side(
    mode: ChangelogMode, node: nodes.Node, keys: Sequence[int], shift: int
) -> Mapping[str, Any]:
    def names(columns: Iterable[int]) -> list[str]:
        return [column_name(shift + c) for c in columns]

    unique = None
    if RowKind.UPDATE_AFTER in mode and RowKind.UPDATE_BEFORE not in mode:
        unique = names(_least(nodes.containing(node.upsert_keys, keys)))
    return {"columns": names(range(len(node.columns))), "keys": names(keys), "unique": unique}


def _is_null_safe(equality: Expr) -> bool:
    return isinstance(equality, Call) and equality.function == "IS NOT DISTINCT FROM"


def _least(keys: Keys) -> list[int]:
    return min((sorted(k) for k in keys), key=lambda k: (len(k), k))


def _update_key(keys: Keys, last: bool) -> list[str] | None:
    """What makes two rows of a result the same one. An operator that comes after may know rows by any of their keys;
    a sink knows them by one, and is better off with few columns, of which none turns NULL."""
    if not keys:
        return None
    columns = _least(keys) if last else sorted(frozenset().union(*keys))
    return [column_name(c) for c in columns]


def _operator(frame: DataFrame, method: str, spec: Mapping[str, Any], *more: Any) -> DataFrame:
    spark = frame.sparkSession
    operator = getattr(spark._jvm.io.tidemill.state.Operators, method)
    return DataFrame(operator(frame._jdf, json.dumps(spec), *more), spark)


def _table(node: nodes.Node) -> str:
    """The table whose rows a node works on."""
    return next((n.table.name for n in nodes.walk(node) if isinstance(n, nodes.Scan)), "VALUES")


def divert(frame: DataFrame, spec: str) -> DataFrame:
    """The rows without those that are dead letters, which go to a topic in the task that has read them."""
    spark = frame.sparkSession
    return DataFrame(spark._jvm.io.tidemill.kafka.DeadLetters.divert(frame._jdf, spec), spark)


def _column(expr: Expr | None) -> str | None:
    if expr is None:
        return None
    assert isinstance(expr, Input)
    return column_name(expr.index)

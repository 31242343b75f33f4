"""The kernel's operators, by name. The only place that knows their Java side: a DataFrame and a JSON spec go in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidemill import types as t
from tidemill.changelog import (
    INSERT_ONLY,
    KIND_COLUMN,
    ORDER_COLUMN,
    ORIGIN_COLUMN,
    ChangelogMode,
    RowKind,
)
from tidemill.plan import nodes
from tidemill.plan.expressions import AggregateCall, Call, Expr, Input, Literal, SortKey
from tidemill.plan.nodes import Keys
from tidemill.spark.counting import Numbers
from tidemill.spark.expressions import column_name
from tidemill.spark.java import java_class
from tidemill.spark.letters import LateRows, shown, with_place
from tidemill.spark.types import spark_ddl

_WARNINGS = {
    "key in several partitions": (
        "table '{}' has a key in several partitions, where Kafka keeps no order: the record that is read later counts"
    ),
}


@dataclass
class Tally:
    """What the tables and operators of a job met that should not be: by their names, then by what it was."""

    spark: SparkSession
    _counts: list[tuple[str, Any]] = field(default_factory=list)
    _told: set[str] = field(default_factory=set)
    made: dict[int, dict[str, Any]] = field(default_factory=dict)
    """What was asked of the kernel for a node, by its identity: as much as it takes to read its state back."""
    alarm: str | None = None
    """The name of the alarm that operators set who wait for the clock of the machine; None if none does."""
    scanned: Numbers = field(init=False)
    """What scans have met."""

    def __post_init__(self) -> None:
        self.scanned = Numbers(self.spark)

    def of(self, name: str) -> Any:
        """A place where the kernel counts for one operator."""
        counts = java_class(self.spark, "io.tidemill.state.Counts").of(
            self.spark._jsparkSession, self.alarm
        )
        self._counts.append((name, counts))
        return counts

    def counts(self) -> dict[str, Any]:
        """The kernel's counts by the names of their operators; those of one name one after another."""
        names = nodes.unique_names(name for name, _ in self._counts)
        return dict(zip(names, (counts for _, counts in self._counts), strict=True))

    def values(self) -> Mapping[str, int]:
        found = self.scanned.values()
        for name, counts in self._counts:
            for what, number in dict(counts.values()).items():
                found[f"{name}: {what}"] = found.get(f"{name}: {what}", 0) + int(number)
        return found

    def warnings(self) -> list[str]:
        """What a user should know at once, each thing once."""
        told = []
        for what in self.values():
            name, _, fact = what.rpartition(": ")
            if fact in _WARNINGS and what not in self._told:
                self._told.add(what)
                told.append(f"warning: {_WARNINGS[fact].format(name)}")
        return told


@dataclass(frozen=True)
class Demand:
    """What is asked of an operator besides what its node says."""

    mode: ChangelogMode
    """What may leave it."""
    ttls: Sequence[int]
    """Milliseconds that the state of each input is kept; 0 is for ever."""
    tally: Tally
    node: nodes.Node
    """Whose operator it is."""
    channel: str | None = None
    """The name under which it passes on how far time has come; None where nobody asks."""
    late_rows: LateRows | None = None
    """Where rows go that come too late; None if they are dropped."""


def group_aggregate(frame: DataFrame, node: nodes.Aggregate, demand: Demand) -> DataFrame:
    """Columns c0… of the aggregate's input in; its own columns c0… and the row kind out."""
    width = len(node.keys)
    spec = {
        "name": node.describe(),
        "keys": [column_name(k) for k in node.keys],
        "aggregates": aggregates_spec(node.calls),
        "retracting": not node.input.kinds.insert_only,
    }
    result = operator("groupAggregate", [frame], spec, demand, table_of(node))
    renamed = [f"`{column_name(k)}` AS _{column_name(i)}" for i, k in enumerate(node.keys)]
    renamed += [f"a{i} AS _{column_name(width + i)}" for i in range(len(node.calls))]
    placed = result.selectExpr(*renamed, KIND_COLUMN)
    return placed.toDF(*(column_name(i) for i in range(len(node.columns))), KIND_COLUMN)


def aggregates_spec(calls: Iterable[AggregateCall]) -> list[dict[str, Any]]:
    """Calls as the kernel takes them; their results are called a0, a1, …"""
    return [
        {
            **_function(call),
            "arguments": [_column(a) for a in call.arguments if isinstance(a, Input)],
            "settings": [str(a.value) for a in call.arguments if isinstance(a, Literal)],
            "filter": _column(call.filter),
            "output": f"a{i}",
            "type": spark_ddl(call.type),
        }
        for i, call in enumerate(calls)
    ]


def _function(call: AggregateCall) -> Mapping[str, Any]:
    if call.function == "APPROX_COUNT_DISTINCT":
        return {"function": "COUNT", "distinct": True}
    if call.function == "ROW_NUMBER":
        return {"function": "COUNT", "distinct": False}
    return {"function": call.function, "distinct": call.distinct}


def normalize(
    frame: DataFrame, node: nodes.ChangelogNormalize, demand: Demand, every: bool = False
) -> DataFrame:
    """An upsert stream in; the same table as a changelog out. Rows come in Kafka's order where the scan tells it.
    `every`: each change is told, and not just what a batch comes to."""
    tells = ORDER_COLUMN in frame.columns
    spec = {
        "name": node.describe(),
        "keys": [column_name(k) for k in node.keys],
        "columns": [column_name(i) for i in range(len(node.columns))],
        "origin": ORIGIN_COLUMN if tells else None,
        "order": ORDER_COLUMN if tells else None,
        "filtered": node.condition is not None,
        "every": every,
    }
    return operator("normalize", [frame], spec, demand, table_of(node))


def rank(
    frame: DataFrame,
    node: nodes.Rank,
    arriving: ChangelogMode,
    told_by_place: bool,
    demand: Demand,
) -> DataFrame:
    """`arriving`: what the input sends. `told_by_place`: whether who gets the rows tells them apart by their place."""
    spec = {
        "name": node.describe(),
        "partition": [column_name(k) for k in node.partition],
        "start": node.start,
        "end": node.end,
        "endColumn": None if node.end_column is None else column_name(node.end_column),
        "number": node.number is not None,
        "byRank": node.number is not None or node.start == node.end,
        "deletesByKey": node.row_key is not None and not told_by_place,
        **_ordered(node, arriving),
    }
    result = operator("rank", [frame], spec, demand, f"Rank of {table_of(node)}")
    return result.toDF(*(column_name(i) for i in range(len(node.columns))), KIND_COLUMN)


def limit(frame: DataFrame, node: nodes.Sort, arriving: ChangelogMode, demand: Demand) -> DataFrame:
    """ORDER BY and LIMIT: a Top-N of all rows."""
    assert node.limit is not None
    spec = {
        "name": node.describe(),
        "partition": [],
        "start": node.offset + 1,
        "end": node.offset + node.limit,
        "number": False,
        "byRank": False,
        "deletesByKey": False,
        **_ordered(node, arriving),
    }
    rows = operator("rank", [frame], spec, demand, f"Rank of {table_of(node)}")
    return rows.drop(KIND_COLUMN) if node.kinds.insert_only else rows


def deduplicate(
    frame: DataFrame, node: nodes.Deduplicate, demand: Demand, every: bool = False
) -> DataFrame:
    """The last row of each key, or the first one by processing time. `every`: each last row is told, and not just that
    of a batch."""
    spec = {**deduplicate_spec(node), "every": every and node.last}
    rows = operator("deduplicate", [frame], spec, demand)
    return rows if node.last else rows.drop(KIND_COLUMN)


def deduplicate_spec(node: nodes.Deduplicate) -> dict[str, Any]:
    clock = t.time_attribute(node.input.columns[node.time].type)
    return {
        "name": node.describe(),
        "keys": [column_name(k) for k in node.keys],
        "columns": [column_name(i) for i in range(len(node.columns))],
        "time": column_name(node.time),
        "rowtime": clock is t.TimeAttribute.ROWTIME,
        "last": node.last,
    }


def materialize(
    frame: DataFrame, sink: nodes.Sink, arriving: ChangelogMode, demand: Demand
) -> DataFrame:
    """The rows of a sink's primary key, one for each, where the query has another key."""
    name = f"table '{sink.table.name}'"
    keys = sorted(sink.key)
    upsert_key = min(sink.input.upsert_keys, key=lambda k: (len(k), sorted(k)), default=None)
    spec = {
        "name": name,
        "keys": [column_name(k) for k in keys],
        "keyNames": [sink.table.schema.writable[k].name for k in keys],
        "columns": [column_name(i) for i in range(len(sink.input.columns))],
        "upsertKey": None if upsert_key is None else [column_name(k) for k in sorted(upsert_key)],
        "onConflict": sink.on_conflict or "DEDUPLICATE",
        "insertOnly": arriving.insert_only,
    }
    return operator("materialize", [frame], spec, demand, name)


def _ordered(node: nodes.Rank | nodes.Sort, arriving: ChangelogMode) -> dict[str, Any]:
    """What the kernel is told about the rows of a Top-N and their order."""
    key = node.row_key
    if arriving.insert_only:
        strategy = "APPEND"
    elif node.strategy.startswith("UpdateFastStrategy") and not arriving & {
        RowKind.UPDATE_BEFORE,
        RowKind.DELETE,
    }:
        strategy = "UPDATE"
    else:
        strategy = "RETRACT"
    return {
        "columns": [column_name(i) for i in range(len(node.input.columns))],
        "order": [sort_column(k) for k in node.order],
        "strategy": strategy,
        "rowKey": None if key is None else [column_name(k) for k in key],
    }


def sort_column(key: SortKey) -> dict[str, Any]:
    return {
        "column": column_name(key.column),
        "descending": key.descending,
        "nullsLast": key.nulls_last,
    }


@dataclass(frozen=True)
class JoinSide:
    """One side of a join: its rows as columns c0…, and the kinds in which they come."""

    frame: DataFrame
    mode: ChangelogMode


def join(
    left: JoinSide,
    right: JoinSide,
    node: nodes.Join,
    condition: str | None,
    last: bool,
    demand: Demand,
) -> DataFrame:
    """Two changelogs in; columns c0… of the joined table and the row kind out. `condition` is what must hold beside the
    equalities, over c0… of both sides. `last`: no operator comes after."""
    spec = {
        **sides_spec(node, condition, left.mode, right.mode),
        "updateKey": _update_key(node.upsert_keys, last),
        "updates": RowKind.UPDATE_AFTER in demand.mode,
        "deletes": RowKind.DELETE in demand.mode,
    }
    result = operator(
        "join", [left.frame, after_left(right.frame, node)], spec, demand, str(spec["name"])
    )
    return result.drop(KIND_COLUMN) if demand.mode.insert_only else result


def sides_spec(
    node: nodes.Join,
    condition: str | None,
    left_mode: ChangelogMode = INSERT_ONLY,
    right_mode: ChangelogMode = INSERT_ONLY,
) -> dict[str, Any]:
    """What the kernel is told of the two sides of any join. A row whose side sends updates without the row before is
    known by a key of its own, others by all of their columns."""
    width = len(node.left.columns)
    left, right = [a for a, _ in node.pairs], [b for _, b in node.pairs]
    return {
        "name": f"{type(node).__name__} of {table_of(node.left)} and {table_of(node.right)}",
        "kind": node.kind,
        "left": _side(left_mode, node.left, left, 0),
        "right": _side(right_mode, node.right, right, width),
        "nullSafe": [_is_null_safe(part) for part in node.equalities],
        "condition": condition,
    }


def after_left(right: DataFrame, node: nodes.Join) -> DataFrame:
    """The right side of a join, whose columns are numbered after those of the left."""
    width = len(node.left.columns)
    moved = [
        f"{column_name(i)} AS {column_name(width + i)}" for i in range(len(node.right.columns))
    ]
    hidden = [c for c in (KIND_COLUMN, ORIGIN_COLUMN, ORDER_COLUMN) if c in right.columns]
    return right.selectExpr(*moved, *hidden)


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


def operator(
    method: str,
    frames: Sequence[DataFrame],
    spec: Mapping[str, Any],
    demand: Demand,
    counted: str | None = None,
    letter: Sequence[Mapping[str, str]] | None = None,
) -> DataFrame:
    """`counted`: the name under which it counts what should not be, if it does. `letter`: the columns of a late row
    that are worth telling, where that is not all of them."""
    spark = frames[0].sparkSession
    call = getattr(java_class(spark, "io.tidemill.state.Operators"), method)
    told = {**spec, "updateBefore": RowKind.UPDATE_BEFORE in demand.mode, "ttl": demand.ttls}
    if demand.channel is not None:
        tasks = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
        clock: dict[str, Any] = {"channel": demand.channel, "tasks": tasks}
        if demand.late_rows is not None:
            name = counted or str(spec["name"])
            clock["letters"] = demand.late_rows.spec(
                name, demand.channel, letter or shown(demand.node)
            )
            frames = [with_place(frame) for frame in frames]
        told["clock"] = clock
    demand.tally.made[id(demand.node)] = {
        "operator": method,
        "spec": told,
        "inputs": [frame.schema.json() for frame in frames],
    }
    counts = () if counted is None else (demand.tally.of(counted),)
    return DataFrame(call(*(f._jdf for f in frames), json.dumps(told), *counts), spark)


def table_of(node: nodes.Node) -> str:
    """The table whose rows a node works on."""
    scans = (n.table.name for n in nodes.walk(node) if isinstance(n, nodes.Scan))
    return next(scans, "VALUES")


def divert(frame: DataFrame, spec: str) -> DataFrame:
    """The rows without those that are dead letters, which go to a topic in the task that has read them."""
    spark = frame.sparkSession
    return DataFrame(
        java_class(spark, "io.tidemill.kafka.DeadLetters").divert(frame._jdf, spec), spark
    )


def _column(expr: Expr | None) -> str | None:
    if expr is None:
        return None
    assert isinstance(expr, Input)
    return column_name(expr.index)

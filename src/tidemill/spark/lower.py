"""Plans as DataFrames. In: a plan with its modes. Out: a streaming DataFrame whose columns are c0, c1, … and, where the
stream is not insert-only, `_kind`; where a sink goes by tasks, `_task`; where changes have to be put in Kafka's order,
`_origin` and `_order`. Law: a node that does not read a hidden column passes it on; a job reads a table once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tidemill import types as t
from tidemill.changelog import KIND_COLUMN, ORDER_COLUMN, ORIGIN_COLUMN, RowKind
from tidemill.plan import nodes
from tidemill.plan.expressions import AggregateCall, Call, Expr, Input, Literal, conjunction
from tidemill.plan.functions import GATHER
from tidemill.plan.modes import Modes
from tidemill.plan.rules import condition_of
from tidemill.spark.access import Access
from tidemill.spark.bounded import as_stream, read_bounded
from tidemill.spark.counting import Count
from tidemill.spark.datagen import AT_ONCE, datagen_spec, read_datagen
from tidemill.spark.expressions import column_name, placed, to_sql
from tidemill.spark.generators import correlate, expand
from tidemill.spark.letters import LateRows
from tidemill.spark.operators import (
    Demand,
    JoinSide,
    Tally,
    deduplicate,
    group_aggregate,
    join,
    limit,
    materialize,
    normalize,
    rank,
)
from tidemill.spark.over import first_by_time, over_aggregate, temporal_sort
from tidemill.spark.reads import Read, read_of, scan_below, shared
from tidemill.spark.source import Scanning, read_kafka
from tidemill.spark.timed_joins import interval_join, lookup_join, temporal_join
from tidemill.spark.types import spark_ddl
from tidemill.spark.user_functions import aggregate_sql
from tidemill.spark.watermarks import looks_at_a_clock, observe, source_clock, waits_for_first
from tidemill.spark.windows import (
    WINDOW_COLUMN,
    assign_windows,
    can_share,
    group_window_aggregate,
    own_windows,
    session_windows,
    window_aggregate,
    window_deduplicate,
    window_join,
    window_rank,
    without_windows,
)
from tidemill.tables.builtin import DatagenTable
from tidemill.tables.filesystem import FilesystemTable
from tidemill.tables.jdbc import JdbcTable
from tidemill.tables.kafka import TopicTable

TASK_COLUMN = "_task"
"""The hidden column that says which task of its scan or aggregate gave a row, in the same way in every batch.

Inputs that are united have each their own numbers, as Flink unites them subtask by subtask.
"""
_HIDDEN = (KIND_COLUMN, ORIGIN_COLUMN, ORDER_COLUMN, TASK_COLUMN, WINDOW_COLUMN)


@dataclass(frozen=True)
class Lowering:
    spark: SparkSession
    modes: Modes
    max_rows_per_batch: int | None
    counter: Callable[[str], Count]
    """A place to count losses, per table."""
    tally: Tally
    """Where scans and operators count what should not be."""
    reads: Sequence[Read]
    """The Kafka tables of the job; they are the same for all its roots."""
    exactly_once: str | None = None
    """The job's id, if it writes exactly once."""
    numbers_tasks: bool = False
    """Whether rows have a TASK_COLUMN."""
    ttl: timedelta = timedelta(0)
    """How long operators keep the state of an idle key, where no hint says otherwise; nought is for ever."""
    tells_origin: bool = False
    """Whether rows of a Kafka table have an ORIGIN_COLUMN and an ORDER_COLUMN."""
    static: bool = False
    """Whether rows are looked up, and do not stream."""
    every: bool = False
    """Whether each change of a row counts, and not just what it comes to in a batch: changes are versions."""
    windowing: nodes.WindowAggregate | None = None
    """The aggregate above, whose windows come from below."""
    last: bool = True
    """Whether no operator that shuffles comes after."""
    timed: Container[int] = frozenset()
    """The identities of the nodes that time passes through."""
    access: Access = Access()
    ends_with_run: bool = False
    """Whether a bounded run is the whole of the job, because it leaves no checkpoint."""
    late_rows: LateRows | None = None
    """Where rows go that come too late; None if they are dropped."""
    _channels: Iterator[int] = field(default_factory=itertools.count)
    """Numbers for the operators among them."""
    _places: Iterator[int] = field(default_factory=itertools.count)
    """Numbers for random calls, in the plan's order, so that a job that is started again draws the same."""

    def _sql(self, expr: Expr) -> str:
        return to_sql(placed(expr, self._places))

    told_by_place: nodes.Rank | None = None
    """The Top-N whose rows the sink tells apart by their place in the order, and not by a key of their own."""

    def lower(self, node: nodes.Node) -> DataFrame:
        """A plan, or the rows that come to a root."""
        match node:
            case nodes.Sink() if node.materialize:
                arriving = self.modes.of(node.input)
                rows = materialize(
                    self._below(node.input, node), node, arriving, self._demand(node)
                )
                return self._numbered(rows)
            case nodes.Sink():
                return replace(self, told_by_place=_told_by_place(node)).lower(node.input)
            case nodes.Collect():
                return self.lower(node.input)
            case nodes.Scan():
                return self._numbered(self._scan(node))
            case nodes.Values():
                return self._numbered(self._values(node))
            case nodes.Project():
                expressions = [
                    f.expr(self._sql(e)).alias(column_name(i))
                    for i, e in enumerate(node.expressions)
                ]
                below = self.lower(node.input)
                return below.select(*expressions, *_hidden(below))
            case nodes.WatermarkAssigner():
                below = self.lower(node.input)
                if id(node) not in self.timed or self.static or self._is_observed(node):
                    return below
                return observe(below, column_name(node.column), self._sql(node.expression))
            case nodes.WindowTableFunction():
                return self._window_function(node)
            case nodes.WindowAggregate():
                return self._numbered(self._window_aggregate(node))
            case nodes.GroupWindowAggregate():
                below = self._below(node.input, node)
                return self._numbered(group_window_aggregate(below, node, self._demand(node)))
            case nodes.Filter():
                return self.lower(node.input).where(self._sql(node.condition))
            case nodes.DropUpdateBefore():
                kept = f"{KIND_COLUMN} <> {int(RowKind.UPDATE_BEFORE)}"
                return self.lower(node.input).where(kept)
            case nodes.ChangelogNormalize():
                below = self._in_order(node.input)
                if node.condition is not None:
                    below = self._leaving(below, node.condition)
                return self._numbered(normalize(below, node, self._demand(node), self.every))
            case nodes.Aggregate():
                return self._numbered(self._aggregate(node))
            case nodes.Expand():
                below = self.lower(node.input)
                return expand(below, node, _hidden(below))
            case nodes.Correlate():
                below = self.lower(node.input)
                return correlate(below, node, self._sql, _hidden(below))
            case nodes.WindowRank():
                below = self._below(node.input, node)
                return self._numbered(window_rank(below, node, self._demand(node)))
            case nodes.WindowDeduplicate():
                below = self._below(node.input, node)
                return self._numbered(window_deduplicate(below, node, self._demand(node)))
            case nodes.WindowJoin():
                return self._numbered(self._window_join(node))
            case nodes.Rank():
                rows = rank(
                    self._below(node.input, node),
                    node,
                    self.modes.of(node.input),
                    node is self.told_by_place,
                    self._demand(node),
                )
                return self._numbered(rows)
            case nodes.Over():
                rows = over_aggregate(self._below(node.input, node), node, self._demand(node))
                return self._numbered(rows)
            case nodes.Deduplicate() if waits_for_first(node):
                rows = first_by_time(self._below(node.input, node), node, self._demand(node))
                return self._numbered(rows)
            case nodes.Deduplicate():
                rows = deduplicate(
                    self._below(node.input, node), node, self._demand(node), self.every
                )
                return self._numbered(rows)
            case nodes.Sort() if node.name == "TemporalSort":
                rows = temporal_sort(self._below(node.input, node), node, self._demand(node))
                return self._numbered(rows)
            case nodes.Sort():
                below = self._below(node.input, node)
                arriving = self.modes.of(node.input)
                rows = limit(below, node, arriving, self._demand(node))
                return self._numbered(rows)
            case nodes.LookupJoin():
                return self._lookup_join(node)
            case nodes.IntervalJoin() | nodes.TemporalJoin():
                return self._numbered(self._timed_join(node))
            case nodes.Join():
                return self._numbered(self._join(node))
            case nodes.Union():
                return self._union(node)
        raise TypeError(type(node))

    def _below(self, node: nodes.Node, above: nodes.Node) -> DataFrame:
        """The input of an operator that shuffles: nobody asks for the tasks before it."""
        origin = self.late_rows is not None and self._has_late_rows(above)
        return replace(self, numbers_tasks=False, last=False, tells_origin=origin).lower(node)

    def _has_late_rows(self, node: nodes.Node) -> bool:
        return id(node) in self.timed and looks_at_a_clock(node)

    def _demand(self, node: nodes.Node) -> Demand:
        given = node.ttls or (None,) * len(node.inputs)
        ttls = [(self.ttl if ttl is None else ttl) // timedelta(milliseconds=1) for ttl in given]
        late = self.late_rows if self._has_late_rows(node) else None
        return Demand(self.modes.of(node), ttls, self.tally, node, self._channel(node), late)

    def _channel(self, node: nodes.Node) -> str | None:
        """The name under which a node tells how far time has come, if anybody asks."""
        return f"o{next(self._channels)}" if id(node) in self.timed else None

    def _leaving(self, rows: DataFrame, condition: Expr) -> DataFrame:
        """The same rows; those that do not fulfil a condition take their key out, and are no deletes of the table's."""
        gone, delete = int(RowKind.UPDATE_BEFORE), int(RowKind.DELETE)
        stays = f"({self._sql(condition)}) IS TRUE OR {KIND_COLUMN} = {delete}"
        kind = f"CAST(IF({stays}, {KIND_COLUMN}, {gone}) AS TINYINT)"
        return rows.withColumn(KIND_COLUMN, f.expr(kind))

    def _in_order(self, node: nodes.Node) -> DataFrame:
        """Changes, with what tells those that Kafka has later from those that it has earlier."""
        return replace(self, numbers_tasks=False, last=False, tells_origin=True).lower(node)

    def _numbered(self, rows: DataFrame) -> DataFrame:
        if not self.numbers_tasks:
            return rows
        return rows.withColumn(TASK_COLUMN, f.expr("spark_partition_id()"))

    def _is_observed(self, node: nodes.WatermarkAssigner) -> bool:
        """Whether the rows have passed by their watermark already, before others got them, too."""
        scan = scan_below(node)
        if scan is None or not isinstance(scan.table.connector, TopicTable):
            return False
        return read_of(self.reads, scan)[1].is_shared

    def _scan(self, node: nodes.Scan) -> DataFrame:
        if isinstance(node.table.connector, DatagenTable):
            return read_datagen(self.spark, node, self._channel(node))
        if isinstance(node.table.connector, FilesystemTable | JdbcTable):
            table = read_bounded(self.spark, node, self.counter(node.table.name))
            if self.static:
                return table
            channel = self._channel(node)
            return as_stream(table, node.table.name, channel)
        number, read = read_of(self.reads, node)
        if read.frame is None:
            connector = read.table.connector
            assert isinstance(connector, TopicTable)
            writer = (self.exactly_once, number) if self.exactly_once is not None else None
            scanning = Scanning(
                self.counter(read.table.name),
                self.max_rows_per_batch,
                writer,
                read.every_partition,
                read.tells_origin,
                self.tally.scanned.of(read.table.name),
                source_clock(connector, f"s{number}", self.tally.alarm) if read.timed else None,
                self.access,
                self.ends_with_run,
                read.types,
            )
            rows = read_kafka(self.spark, nodes.Scan(read.table, read.names), scanning)
            read.frame = shared(rows, read) if read.is_shared else rows
        if read.names == node.names and read.tells_origin == self.tells_origin:
            return read.frame
        told = (KIND_COLUMN, *((ORIGIN_COLUMN, ORDER_COLUMN) if self.tells_origin else ()))
        hidden = [name for name in told if name in read.frame.columns]
        places = (column_name(read.names.index(name)) for name in node.names)
        picked = [f.col(place).alias(column_name(i)) for i, place in enumerate(places)]
        return read.frame.select(*picked, *hidden)

    def _values(self, node: nodes.Values) -> DataFrame:
        """Constants, as a source that ends: row i of the generator picks row i of the list."""
        spec = datagen_spec("VALUES", AT_ONCE, len(node.rows), 1, self._channel(node))
        ids = self.spark.readStream.format("tidemill-datagen").option("spec", spec).load()
        columns = []
        for i, column in enumerate(node.fields):
            ddl = spark_ddl(column.type)
            values = ", ".join(f"CAST({self._sql(row[i])} AS {ddl})" for row in node.rows)
            picked = f"get(array({values}), CAST(id AS INT))" if values else f"CAST(NULL AS {ddl})"
            columns.append(f.expr(picked).alias(column_name(i)))
        return ids.select(*columns) if columns else ids

    def _aggregate(self, node: nodes.Aggregate) -> DataFrame:
        """The kernel keeps the rows of a group for an aggregate function of the user's, which is computed of them."""
        gathered = _gathered(node)
        below = self._below(gathered.input, node)
        rows = group_aggregate(below, gathered, self._demand(node))
        if gathered is node:
            return rows
        width = len(node.keys)
        columns = [column_name(i) for i in range(len(node.columns))]
        for i, call in enumerate(node.calls, width):
            if call.implementation is not None:
                made = aggregate_sql(call.implementation, len(call.arguments), columns[i])
                columns[i] = f"{made} AS {columns[i]}"
        return rows.selectExpr(*columns, *_hidden(rows))

    def _window_aggregate(self, node: nodes.WindowAggregate) -> DataFrame:
        """Rows go to their slices where the windows are of this query's making, else they know their window."""
        function = own_windows(node)
        if function is not None and not can_share(node, function):
            function = None
        below = replace(self, windowing=node)._below(node.input, node)
        return window_aggregate(below, node, function, self._demand(node))

    def _join(self, node: nodes.Join) -> DataFrame:
        left, right = (JoinSide(self._below(n, node), self.modes.of(n)) for n in node.inputs)
        condition = self._sql(conjunction(node.residual)) if node.residual else None
        return join(left, right, node, condition, self.last, self._demand(node))

    def _window_function(self, node: nodes.WindowTableFunction) -> DataFrame:
        above = self.windowing
        if above is None or own_windows(above) is not node:
            above = None
        if above and can_share(above, node):
            return without_windows(self.lower(node.input), node)
        if node.window.kind == "SESSION":
            below = self._below(node.input, node)
            return self._numbered(session_windows(below, node, self._demand(node)))
        return assign_windows(self.lower(node.input), node, above, self.tally)

    def _window_join(self, node: nodes.WindowJoin) -> DataFrame:
        left, right = (self._below(n, node) for n in node.inputs)
        condition = self._sql(conjunction(node.residual)) if node.residual else None
        return window_join(left, right, node, condition, self._demand(node))

    def _lookup_join(self, node: nodes.LookupJoin) -> DataFrame:
        right = replace(self, static=True).lower(node.right)
        return lookup_join(self.lower(node.left), right, node, self._sql(node.condition))

    def _timed_join(self, node: nodes.IntervalJoin | nodes.TemporalJoin) -> DataFrame:
        versions = isinstance(node, nodes.TemporalJoin)
        left = self._below(node.left, node)
        right = replace(self, every=versions)._below(node.right, node)
        asked = [p for p in condition_of(node) if p in node.residual]
        condition = self._sql(conjunction(asked)) if asked else None
        if isinstance(node, nodes.TemporalJoin):
            return temporal_join(left, right, node, condition, self._demand(node))
        return interval_join(left, right, node, condition, self._demand(node))

    def _union(self, node: nodes.Union) -> DataFrame:
        parts = [self.lower(p) for p in node.parts]
        if any(KIND_COLUMN in p.columns for p in parts):
            parts = [with_kind(p) for p in parts]
        if any(ORDER_COLUMN in p.columns for p in parts):
            parts = [_with_origin(p) for p in parts]
        whole = parts[0]
        for part in parts[1:]:
            whole = whole.unionAll(part)
        return whole


def _with_origin(frame: DataFrame) -> DataFrame:
    """The same rows; those that are not of records have no place in a partition."""
    if ORDER_COLUMN in frame.columns:
        return frame
    hidden = _hidden(frame)
    return frame.select(
        *(c for c in frame.columns if c not in hidden),
        *(c for c in hidden if c == KIND_COLUMN),
        f.expr("CAST(NULL AS INT)").alias(ORIGIN_COLUMN),
        f.expr("CAST(NULL AS BIGINT)").alias(ORDER_COLUMN),
        *(c for c in hidden if c != KIND_COLUMN),
    )


def _gathered(node: nodes.Aggregate) -> nodes.Aggregate:
    """The same with an array of the group's rows for each aggregate function of the user's."""
    if all(call.implementation is None for call in node.calls):
        return node
    below: list[Expr] = list(nodes.all_inputs(node.input))
    names = [c.name for c in node.input.columns]
    calls = []
    for call in node.calls:
        if call.implementation is not None:
            values = call.arguments or (Literal(t.BOOLEAN.not_null, True),)
            fields = tuple(t.Field(f"f{i}", a.type) for i, a in enumerate(values))
            row = Call(t.RowType(False, fields), "ROW", values)
            names.append(f"$r{len(below)}")
            read = Input(row.type, len(below), names[-1])
            below.append(row)
            gathering = t.ArrayType(element=row.type)
            call = AggregateCall(gathering, GATHER, (read,), filter=call.filter)
        calls.append(call)
    source = nodes.Project(node.input, tuple(below), tuple(names))
    return replace(node, input=source, calls=tuple(calls))


def _hidden(frame: DataFrame) -> list[str]:
    return [c for c in _HIDDEN if c in frame.columns]


def _told_by_place(sink: nodes.Sink) -> nodes.Rank | None:
    """The Top-N below a sink whose primary key is the partition and the number, or the partition of a single row."""
    node, key = sink.input, set(sink.key)
    while isinstance(node, nodes.Project | nodes.Filter | nodes.DropUpdateBefore):
        if isinstance(node, nodes.Project):
            told = [node.expressions[i] for i in key]
            if not all(isinstance(e, Input | Literal) for e in told):
                return None
            key = {e.index for e in told if isinstance(e, Input)}
        node = node.input
    if not isinstance(node, nodes.Rank) or not key:
        return None
    places = {*node.partition, *range(len(node.input.columns), len(node.columns))}
    return node if key <= places and (node.number is not None or node.start == node.end) else None


def with_kind(frame: DataFrame) -> DataFrame:
    """The same rows with their kind as a column; a stream without one is insert-only."""
    if KIND_COLUMN in frame.columns:
        return frame
    insert = f.expr(f"CAST({int(RowKind.INSERT)} AS TINYINT)").alias(KIND_COLUMN)
    task = [c for c in frame.columns if c == TASK_COLUMN]
    return frame.select(*(c for c in frame.columns if c not in task), insert, *task)

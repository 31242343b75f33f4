"""The plan: what a query does, node by node, before anybody says how.

Law: a node is a value; its columns, its keys and the kinds it emits follow from its inputs and cannot be set. What
each node asks of its inputs is written at the node; `modes` walks the plan and asks.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import ClassVar

from tidemill import types as t
from tidemill.changelog import ALL_CHANGES, INSERT_ONLY, ChangelogMode, RowKind
from tidemill.errors import Span
from tidemill.plan.expressions import (
    AggregateCall,
    Call,
    Expr,
    Frame,
    Input,
    Literal,
    SortKey,
    conjuncts,
    describe,
    inputs,
)
from tidemill.tables.catalog import Metadata, Table
from tidemill.types import Field, without_time_precision

Keys = frozenset[frozenset[int]]
NO_KEYS: Keys = frozenset()

_GROWING = ChangelogMode({RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER})


class Updates(Enum):
    """How an update travels: as the new row alone, or with the row before it."""

    AFTER = "after"
    BOTH = "both"


@dataclass(frozen=True)
class Window:
    """A window over time; lengths are milliseconds."""

    kind: str
    """TUMBLE, HOP, CUMULATE or SESSION"""
    size: int | None = None
    """The length; the longest one for CUMULATE; None for SESSION."""
    step: int | None = None
    """HOP's slide, CUMULATE's step, SESSION's gap."""
    offset: int | None = None
    rowtime: bool = True
    """False for processing time."""

    def __str__(self) -> str:
        words = {"HOP": "slide", "CUMULATE": "step", "SESSION": "gap"}
        size = "max_size" if self.kind == "CUMULATE" else "size"
        parts = [] if self.size is None else [f"{size}=[{_milliseconds(self.size)}]"]
        if self.step is not None:
            parts.append(f"{words[self.kind]}=[{_milliseconds(self.step)}]")
        if self.offset is not None:
            parts.append(f"offset=[{_milliseconds(self.offset)}]")
        return f"{self.kind}({', '.join(parts)})"


def _milliseconds(value: int) -> str:
    units = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000))
    for unit, length in units:
        if value and value % length == 0:
            return f"{value // length} {unit}"
    return f"{value} ms"


@dataclass(frozen=True)
class WindowColumns:
    """Which columns tell the window that a row belongs to."""

    window: Window
    start: frozenset[int]
    end: frozenset[int]
    time: frozenset[int] = frozenset()
    by: frozenset[int] | None = frozenset()
    """Columns that a session belongs to, besides its time; None once one of them is gone."""

    def mapped(self, places: dict[int, list[int]]) -> WindowColumns | None:
        """The same after columns have moved; None once the start or the end is gone."""

        def moved(columns: frozenset[int]) -> frozenset[int]:
            return frozenset(new for old in columns for new in places.get(old, ()))

        start, end = moved(self.start), moved(self.end)
        if not start or not end:
            return None
        lost = self.by is None or any(c not in places for c in self.by)
        by = None if lost else moved(self.by or frozenset())
        return WindowColumns(self.window, start, end, moved(self.time), by)

    @property
    def all(self) -> frozenset[int]:
        return self.start | self.end | self.time

    def are_in(self, columns: Iterable[int]) -> bool:
        """Whether columns tell the window: both its ends, and whose session it is."""
        given = set(columns)
        told = bool(self.start & given) and bool(self.end & given)
        return told and self.by is not None and self.by <= given


@dataclass(frozen=True)
class Node:
    """A relation: typed columns, and what may happen to its rows."""

    accepts: ClassVar[ChangelogMode] = ALL_CHANGES
    """The kinds that the node takes from its inputs."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        raise NotImplementedError

    def with_inputs(self, *inputs: Node) -> Node:
        """The same node over other inputs of the same columns."""
        raise NotImplementedError

    @property
    def columns(self) -> tuple[Field, ...]:
        raise NotImplementedError

    @property
    def kinds(self) -> ChangelogMode:
        """The changes this node can produce, were all of them asked for."""
        raise NotImplementedError

    @property
    def upsert_keys(self) -> Keys:
        """Sets of columns of which each tells a changed row from every other one."""
        return NO_KEYS

    @property
    def windows(self) -> WindowColumns | None:
        """The window that each row belongs to, if it does."""
        return None

    @cached_property
    def size(self) -> int:
        """How many nodes the plan has; one that stands twice in it counts twice."""
        return 1 + sum(child.size for child in self.inputs)

    def asks(self, child: int, wanted: Updates) -> tuple[Updates, ...]:
        """What an input has to send so that this node can send what is wanted: in order of preference, none if
        nothing would do."""
        return (wanted,)

    def describe(self) -> str:
        return type(self).__name__


def walk(node: Node) -> Iterator[Node]:
    yield node
    for child in node.inputs:
        yield from walk(child)


def expressions(node: Node) -> tuple[Expr, ...]:
    """What a node computes for each row or group."""
    match node:
        case Project():
            return node.expressions
        case Filter() | Join():
            return (node.condition,)
        case Aggregate() | GroupWindowAggregate() | Over():
            return node.calls
        case Correlate():
            return node.arguments
    return ()


def transform(node: Node, change: object) -> Node:
    """Rebuild a plan from the bottom; `change` sees every node with its new inputs."""
    below = tuple(transform(child, change) for child in node.inputs)
    if any(a is not b for a, b in zip(below, node.inputs, strict=True)):
        node = node.with_inputs(*below)
    return change(node)  # type: ignore[operator, no-any-return]


def input_of(node: Node, index: int) -> Input:
    column = node.columns[index]
    return Input(column.type, index, column.name)


def all_inputs(node: Node) -> tuple[Input, ...]:
    return tuple(Input(c.type, i, c.name) for i, c in enumerate(node.columns))


def unique_names(names: Iterable[str]) -> tuple[str, ...]:
    """A name that was there before gets a number, as in Flink."""
    found: list[str] = []
    for wanted in names:
        name, numbers = wanted, itertools.count()
        while name in found:
            name = f"{wanted}{next(numbers)}"
        found.append(name)
    return tuple(found)


def _listed(node: Node, columns: Iterable[int]) -> str:
    return ", ".join(node.columns[c].name for c in columns)


# --- sources -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scan(Node):
    """Reads columns of a table: physical and metadata ones; computed columns are a Project above."""

    table: Table
    names: tuple[str, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    def with_inputs(self, *inputs: Node) -> Node:
        return self

    @cached_property
    def columns(self) -> tuple[Field, ...]:
        known = {c.name: c for c in self.table.schema.columns}
        # A column becomes a time attribute where the watermark is assigned.
        return tuple(
            Field(n, t.materialized(without_time_precision(known[n].type))) for n in self.names
        )

    @property
    def kinds(self) -> ChangelogMode:
        return self.table.connector.source_mode

    @property
    def upsert_keys(self) -> Keys:
        key = self.table.schema.primary_key
        if not key or not set(key) <= set(self.names):
            return NO_KEYS
        return frozenset({frozenset(self.names.index(k) for k in key)})

    @property
    def metadata(self) -> tuple[str, ...]:
        """The columns that do not come from the record's key or value."""
        known = {c.name: c for c in self.table.schema.columns}
        return tuple(n for n in self.names if isinstance(known[n], Metadata))

    def describe(self) -> str:
        return f"TableSourceScan(table=[{self.table.name}], fields=[{', '.join(self.names)}])"


@dataclass(frozen=True)
class Values(Node):
    rows: tuple[tuple[Expr, ...], ...]
    fields: tuple[Field, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    def with_inputs(self, *inputs: Node) -> Node:
        return self

    @property
    def columns(self) -> tuple[Field, ...]:
        return self.fields

    @property
    def kinds(self) -> ChangelogMode:
        return INSERT_ONLY

    def describe(self) -> str:
        shown = ", ".join("{" + ", ".join(describe(e) for e in row) + "}" for row in self.rows)
        return f"Values(tuples=[{shown}])"


# --- nodes with one input ------------------------------------------------------------------------


@dataclass(frozen=True)
class Single(Node):
    """A node with one input. Unless it says otherwise, it hands on the input's columns, kinds, keys and windows."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, *inputs: Node) -> Node:
        [below] = inputs
        return replace(self, input=below)

    @property
    def columns(self) -> tuple[Field, ...]:
        return self.input.columns

    @property
    def kinds(self) -> ChangelogMode:
        return self.input.kinds

    @property
    def upsert_keys(self) -> Keys:
        return self.input.upsert_keys

    @property
    def windows(self) -> WindowColumns | None:
        return self.input.windows


@dataclass(frozen=True)
class Project(Single):
    expressions: tuple[Expr, ...]
    names: tuple[str, ...]

    @cached_property
    def columns(self) -> tuple[Field, ...]:
        pairs = zip(self.names, self.expressions, strict=True)
        return tuple(Field(n, e.type) for n, e in pairs)

    @cached_property
    def upsert_keys(self) -> Keys:
        at = self._places()
        found: set[frozenset[int]] = set()
        for key in self.input.upsert_keys:
            if all(c in at for c in key):
                found.update(frozenset(k) for k in itertools.product(*(at[c] for c in sorted(key))))
        return frozenset(found)

    @cached_property
    def windows(self) -> WindowColumns | None:
        below = self.input.windows
        return below.mapped(self._places()) if below else None

    def _places(self) -> dict[int, list[int]]:
        """Where each column of the input went."""
        at: dict[int, list[int]] = {}
        for i, expr in enumerate(self.expressions):
            while _changes_nothing(expr):
                assert isinstance(expr, Call)
                expr = expr.arguments[0]
            if isinstance(expr, Input):
                at.setdefault(expr.index, []).append(i)
        return at

    def describe(self) -> str:
        shown = []
        for name, expr in zip(self.names, self.expressions, strict=True):
            text = describe(expr)
            shown.append(text if text == name else f"{text} AS {name}")
        return f"Calc(select=[{', '.join(shown)}])"


def _changes_nothing(expr: Expr) -> bool:
    if not isinstance(expr, Call) or expr.function != "CAST":
        return False
    return expr.arguments[0].type.same(expr.type)


@dataclass(frozen=True)
class Filter(Single):
    condition: Expr

    def asks(self, child: int, wanted: Updates) -> tuple[Updates, ...]:
        # Of an update that no longer fulfils the condition, the row before must leave.
        return () if wanted is Updates.AFTER and not self.is_on_key else (wanted,)

    @property
    def is_on_key(self) -> bool:
        """Whether an update can never make a row enter or leave."""
        read = inputs(self.condition)
        return any(read <= key for key in self.input.upsert_keys)

    def describe(self) -> str:
        return f"Calc(where=[{describe(self.condition)}])"


@dataclass(frozen=True)
class WatermarkAssigner(Single):
    column: int
    expression: Expr

    @cached_property
    def columns(self) -> tuple[Field, ...]:
        below = list(self.input.columns)
        type_ = below[self.column].type
        assert isinstance(type_, t.TIMESTAMP_TYPES)
        rowtime = replace(type_, attribute=t.TimeAttribute.ROWTIME)
        below[self.column] = replace(below[self.column], type=rowtime)
        return tuple(below)

    def describe(self) -> str:
        name = self.input.columns[self.column].name
        return f"WatermarkAssigner(rowtime=[{name}], watermark=[{describe(self.expression)}])"


@dataclass(frozen=True)
class ChangelogNormalize(Single):
    """Completes an upsert stream: remembers the last row of each key."""

    keys: tuple[int, ...]
    condition: Expr | None = None
    """Rows that do not fulfil it are as if they had been deleted."""
    needed: bool = False
    """Whether changes may come twice, so that it cannot be left out."""

    @property
    def kinds(self) -> ChangelogMode:
        return ALL_CHANGES

    @property
    def upsert_keys(self) -> Keys:
        return frozenset({frozenset(self.keys)})

    def asks(self, child: int, wanted: Updates) -> tuple[Updates, ...]:
        return (Updates.AFTER,)

    def describe(self) -> str:
        where = "" if self.condition is None else f", condition=[{describe(self.condition)}]"
        return f"ChangelogNormalize(key=[{_listed(self, self.keys)}]{where})"


@dataclass(frozen=True)
class DropUpdateBefore(Single):
    @property
    def kinds(self) -> ChangelogMode:
        return ChangelogMode(self.input.kinds - {RowKind.UPDATE_BEFORE})

    def asks(self, child: int, wanted: Updates) -> tuple[Updates, ...]:
        return (Updates.BOTH,)

    def describe(self) -> str:
        return "DropUpdateBefore()"


@dataclass(frozen=True)
class Expand(Single):
    """GROUPING SETS: each row once for every set, with the columns that are not in the set as NULL."""

    sets: tuple[frozenset[int], ...]

    @cached_property
    def columns(self) -> tuple[Field, ...]:
        some = frozenset().union(*self.sets)
        optional = {c for c in some if not all(c in s for s in self.sets)}
        below = [
            replace(f, type=f.type.as_nullable) if i in optional else f
            for i, f in enumerate(self.input.columns)
        ]
        return (*below, Field("$e", t.BIGINT.not_null))

    @property
    def upsert_keys(self) -> Keys:
        return NO_KEYS

    def describe(self) -> str:
        return f"Expand(projects=[{', '.join('{' + _listed(self.input, sorted(s)) + '}' for s in self.sets)}])"


@dataclass(frozen=True)
class Aggregate(Single):
    """Groups by columns of its input and keeps one row per group up to date."""

    keys: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    names: tuple[str, ...]

    @cached_property
    def columns(self) -> tuple[Field, ...]:
        below = self.input.columns
        types = [self._key_type(below[k].type) for k in self.keys] + [c.type for c in self.calls]
        return tuple(Field(n, x) for n, x in zip(self.names, types, strict=True))

    def _key_type(self, type_: t.SqlType) -> t.SqlType:
        return t.materialized(type_)

    @property
    def kinds(self) -> ChangelogMode:
        return _GROWING if self.input.kinds.insert_only else ALL_CHANGES

    @property
    def upsert_keys(self) -> Keys:
        return frozenset({frozenset(range(len(self.keys)))})

    @cached_property
    def windows(self) -> WindowColumns | None:
        return None

    def asks(self, child: int, wanted: Updates) -> tuple[Updates, ...]:
        return (Updates.BOTH,)

    def describe(self) -> str:
        return f"GroupAggregate({', '.join(self._parts())})"

    def _parts(self) -> list[str]:
        below = self.input.columns
        parts = []
        if self.keys:
            parts.append(f"groupBy=[{_listed(self.input, self.keys)}]")
        shown = [below[k].name for k in self.keys]
        shown += [
            f"{describe(c)} AS {n}"
            for c, n in zip(self.calls, self.names[len(self.keys) :], strict=True)
        ]
        return [*parts, f"select=[{', '.join(shown)}]"]


@dataclass(frozen=True)
class WindowAggregate(Aggregate):
    """An aggregate whose keys tell the window: it gives each group once, when the window closes."""

    @property
    def kinds(self) -> ChangelogMode:
        return INSERT_ONLY

    def _key_type(self, type_: t.SqlType) -> t.SqlType:
        return type_

    @cached_property
    def windows(self) -> WindowColumns | None:
        below = self.input.windows
        assert below is not None
        places: dict[int, list[int]] = {}
        for at, key in enumerate(self.keys):
            places.setdefault(key, []).append(at)
        return below.mapped(places)

    def describe(self) -> str:
        assert self.input.windows is not None
        return f"WindowAggregate(window=[{self.input.windows.window}], {', '.join(self._parts())})"


@dataclass(frozen=True)
class GroupWindowAggregate(Single):
    """GROUP BY TUMBLE(ts, …): keys, calls, then what the query asks about the window."""

    time: int
    window: Window
    keys: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    properties: tuple[str, ...]
    """start, end, rowtime, proctime"""
    names: tuple[str, ...]

    @cached_property
    def columns(self) -> tuple[Field, ...]:
        below = self.input.columns
        types = [t.materialized(below[k].type) for k in self.keys] + [c.type for c in self.calls]
        types += [self._property_type(p) for p in self.properties]
        return tuple(Field(n, x) for n, x in zip(self.names, types, strict=True))

    def _property_type(self, name: str) -> t.SqlType:
        if name == "rowtime":
            return self.input.columns[self.time].type
        if name == "proctime":
            return t.TimestampLtzType(False, 3, t.TimeAttribute.PROCTIME)
        return t.TimestampType(False, 3)

    @property
    def kinds(self) -> ChangelogMode:
        return INSERT_ONLY

    @property
    def upsert_keys(self) -> Keys:
        return NO_KEYS

    @property
    def windows(self) -> WindowColumns | None:
        return None

    def asks(self, child: int, wanted: Updates) -> tuple[Updates, ...]:
        return (Updates.BOTH,)

    def describe(self) -> str:
        time = self.input.columns[self.time].name
        shown = [self.input.columns[k].name for k in self.keys]
        named = [*(describe(c) for c in self.calls), *self.properties]
        shown += [f"{x} AS {n}" for x, n in zip(named, self.names[len(self.keys) :], strict=True)]
        group = f"groupBy=[{_listed(self.input, self.keys)}], " if self.keys else ""
        return f"GroupWindowAggregate({group}window=[{self.window} on {time}], select=[{', '.join(shown)}])"


@dataclass(frozen=True)
class WindowTableFunction(Single):
    """TABLE(TUMBLE(…)): the input's columns, and the window that each row belongs to."""

    time: int
    window: Window
    partition: tuple[int, ...] = ()

    @cached_property
    def columns(self) -> tuple[Field, ...]:
        bound = t.TimestampType(False, 3)
        time = self.input.columns[self.time].type
        assert isinstance(time, t.TIMESTAMP_TYPES)
        names = ("window_start", "window_end", "window_time")
        types = (bound, bound, replace(time, nullable=False, precision=3))
        added = tuple(Field(n, x) for n, x in zip(names, types, strict=True))
        return (*self.input.columns, *added)

    @property
    def upsert_keys(self) -> Keys:
        return NO_KEYS

    @cached_property
    def windows(self) -> WindowColumns | None:
        width = len(self.input.columns)
        start, end, time = (frozenset({width + i}) for i in range(3))
        return WindowColumns(self.window, start, end, time, frozenset(self.partition))

    def describe(self) -> str:
        by = f", partitionBy=[{_listed(self.input, self.partition)}]" if self.partition else ""
        return f"WindowTableFunction(window=[{self.window} on {self.columns[self.time].name}]{by})"


@dataclass(frozen=True)
class Over(Single):
    """OVER aggregates that share one window of rows: the input's columns, then one for each call."""

    partition: tuple[int, ...]
    order: tuple[SortKey, ...]
    frame: Frame
    calls: tuple[AggregateCall, ...]
    names: tuple[str, ...]
    span: Span | None = field(default=None, compare=False, repr=False)

    @cached_property
    def columns(self) -> tuple[Field, ...]:
        added = (Field(n, c.type) for n, c in zip(self.names, self.calls, strict=True))
        return (*self.input.columns, *added)

    @property
    def is_on_time(self) -> bool:
        return len(self.order) == 1 and t.time_attribute(self.order[0].expression.type) is not None

    @property
    def accepts(self) -> ChangelogMode:  # type: ignore[override]
        return INSERT_ONLY if self.is_on_time else ALL_CHANGES

    @property
    def kinds(self) -> ChangelogMode:
        return INSERT_ONLY if self.is_on_time else ALL_CHANGES

    @property
    def upsert_keys(self) -> Keys:
        return _containing(self.input.upsert_keys, self.partition)

    def asks(self, child: int, wanted: Updates) -> tuple[Updates, ...]:
        return (Updates.BOTH,)

    def describe(self) -> str:
        by = f"partitionBy=[{_listed(self.input, self.partition)}], " if self.partition else ""
        order = ", ".join(str(k) for k in self.order)
        shown = [c.name for c in self.input.columns]
        shown += [f"{describe(c)} AS {n}" for c, n in zip(self.calls, self.names, strict=True)]
        return (
            f"OverAggregate({by}orderBy=[{order}], window=[{self.frame}],"
            f" select=[{', '.join(shown)}])"
        )


def _containing(keys: Keys, columns: Iterable[int]) -> Keys:
    """The keys that still tell rows apart once rows are spread by other columns: changes of one key must not pass
    each other on different ways."""
    wanted = frozenset(columns)
    return frozenset(k for k in keys if wanted <= k)


@dataclass(frozen=True)
class Rank(Single):
    """Top-N: the rows of each partition whose number in the order is from `start` to `end`."""

    function: str
    """ROW_NUMBER, RANK or DENSE_RANK"""
    partition: tuple[int, ...]
    order: tuple[SortKey, ...]
    start: int
    end: int | None
    """None: up to the number in the column `end_column`."""
    number: str | None
    """The name of the column with the number; None if nobody reads it."""
    end_column: int | None = None
    span: Span | None = field(default=None, compare=False, repr=False)

    @cached_property
    def columns(self) -> tuple[Field, ...]:
        added = () if self.number is None else (Field(self.number, t.BIGINT.not_null),)
        return (*self.input.columns, *added)

    @property
    def kinds(self) -> ChangelogMode:
        return ALL_CHANGES

    @property
    def upsert_keys(self) -> Keys:
        below = _containing(self.input.upsert_keys, self.partition)
        if self.function != "ROW_NUMBER":
            return below
        if self.start == self.end:
            return below | {frozenset(self.partition)}
        if self.number is not None:
            return below | {frozenset({*self.partition, len(self.input.columns)})}
        return below

    @property
    def strategy(self) -> str:
        return _strategy(self.input, self.partition, self.order)

    def asks(self, child: int, wanted: Updates) -> tuple[Updates, ...]:
        return _asked_by(self.strategy)

    def describe(self) -> str:
        end = self.input.columns[self.end_column].name if self.end_column is not None else self.end
        by = f"partitionBy=[{_listed(self.input, self.partition)}], " if self.partition else ""
        return (
            f"Rank(strategy=[{self.strategy}], rankType=[{self.function}], rankRange=[rankStart={self.start},"
            f" rankEnd={end}], {by}orderBy=[{', '.join(str(k) for k in self.order)}],"
            f" select=[{', '.join(c.name for c in self.columns)}])"
        )


def _strategy(below: Node, partition: Iterable[int], order: Iterable[SortKey]) -> str:
    """How the first rows of an order are kept up to date."""
    if below.kinds.insert_only:
        return "AppendFastStrategy"
    growth = growing(below)
    # An update that can only bring its row forward needs no row before.
    forward = all(growth.get(k.column) == ("up" if k.descending else "down") for k in order)
    keys = sorted(sorted(k) for k in _containing(below.upsert_keys, partition))
    if not keys or not forward:
        return "RetractStrategy"
    return f"UpdateFastStrategy[{','.join(map(str, keys[0]))}]"


def _asked_by(strategy: str) -> tuple[Updates, ...]:
    if strategy.startswith("UpdateFastStrategy"):
        return (Updates.AFTER, Updates.BOTH)
    return (Updates.BOTH,)


def growing(node: Node) -> dict[int, str]:
    """The columns whose value, for one key, only goes up or only down."""
    if isinstance(node, Aggregate) and node.input.kinds.insert_only:
        found = {}
        for i, call in enumerate(node.calls):
            if call.function == "COUNT" or call.function == "MAX":
                found[len(node.keys) + i] = "up"
            elif call.function == "MIN":
                found[len(node.keys) + i] = "down"
        return found
    if isinstance(node, Project):
        below = growing(node.input)
        return {
            i: below[e.index]
            for i, e in enumerate(node.expressions)
            if isinstance(e, Input) and e.index in below
        }
    return growing(node.input) if isinstance(node, Filter) else {}


@dataclass(frozen=True)
class Deduplicate(Single):
    """The first or the last row of each key, by a time attribute."""

    accepts = INSERT_ONLY

    keys: tuple[int, ...]
    time: int
    last: bool

    @property
    def kinds(self) -> ChangelogMode:
        return ALL_CHANGES if self.last else INSERT_ONLY

    @property
    def upsert_keys(self) -> Keys:
        return frozenset({frozenset(self.keys)})

    def asks(self, child: int, wanted: Updates) -> tuple[Updates, ...]:
        return (Updates.BOTH,)

    def describe(self) -> str:
        # As Flink's EXPLAIN has it: the first row of an order.
        order = f"{self.input.columns[self.time].name} {'DESC' if self.last else 'ASC'}"
        return (
            "Rank(strategy=[AppendFastStrategy], rankType=[ROW_NUMBER], rankRange=[rankStart=1, rankEnd=1],"
            f" partitionBy=[{_listed(self.input, self.keys)}], orderBy=[{order}],"
            f" select=[{', '.join(c.name for c in self.columns)}])"
        )


@dataclass(frozen=True)
class WindowRank(Rank):
    """Top-N of each window, given when the window closes."""

    accepts = INSERT_ONLY

    @property
    def kinds(self) -> ChangelogMode:
        return INSERT_ONLY

    def describe(self) -> str:
        assert self.input.windows is not None
        return f"WindowRank(window=[{self.input.windows.window}], {super().describe().removeprefix('Rank(')}"


@dataclass(frozen=True)
class WindowDeduplicate(Deduplicate):
    @property
    def kinds(self) -> ChangelogMode:
        return INSERT_ONLY

    def describe(self) -> str:
        assert self.input.windows is not None
        which = "LastRow" if self.last else "FirstRow"
        return (
            f"WindowDeduplicate(window=[{self.input.windows.window}], keep=[{which}],"
            f" partitionKeys=[{_listed(self.input, self.keys)}], orderKey=[{self.columns[self.time].name}])"
        )


@dataclass(frozen=True)
class Sort(Single):
    """ORDER BY and LIMIT of a whole result."""

    order: tuple[SortKey, ...]
    offset: int = 0
    limit: int | None = None
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        if not self.order:
            return "Limit"
        if self.limit is not None or self.offset:
            return "SortLimit"
        return "TemporalSort" if self.is_on_time else "Sort"

    @property
    def is_on_time(self) -> bool:
        return (
            bool(self.order)
            and not self.order[0].descending
            and t.time_attribute(self.order[0].expression.type) is not None
        )

    @property
    def accepts(self) -> ChangelogMode:  # type: ignore[override]
        return INSERT_ONLY if self.name == "TemporalSort" else ALL_CHANGES

    @property
    def kinds(self) -> ChangelogMode:
        if self.name == "SortLimit":
            return ALL_CHANGES
        return INSERT_ONLY if self.input.kinds.insert_only else ALL_CHANGES

    @property
    def strategy(self) -> str:
        return _strategy(self.input, (), self.order)

    @property
    def upsert_keys(self) -> Keys:
        return NO_KEYS if self.name == "SortLimit" else self.input.upsert_keys

    def asks(self, child: int, wanted: Updates) -> tuple[Updates, ...]:
        return _asked_by(self.strategy) if self.name == "SortLimit" else (Updates.BOTH,)

    def describe(self) -> str:
        parts = []
        if self.order:
            parts.append(f"orderBy=[{', '.join(str(k) for k in self.order)}]")
        if self.name in ("Limit", "SortLimit"):
            parts += [f"offset=[{self.offset}]", f"fetch=[{self.limit}]"]
        if self.name == "SortLimit":
            parts.append(f"strategy=[{self.strategy}]")
        return f"{self.name}({', '.join(parts)})"


@dataclass(frozen=True)
class Correlate(Single):
    """Each row joined with the rows that a table function makes of it."""

    kind: str
    """INNER or LEFT"""
    function: str
    arguments: tuple[Expr, ...]
    fields: tuple[Field, ...]

    @cached_property
    def columns(self) -> tuple[Field, ...]:
        added = self.fields
        if self.kind == "LEFT":
            added = tuple(replace(f, type=f.type.as_nullable) for f in added)
        names = unique_names(f.name for f in (*self.input.columns, *added))
        both = (*self.input.columns, *added)
        return tuple(replace(f, name=n) for f, n in zip(both, names, strict=True))

    @property
    def upsert_keys(self) -> Keys:
        return NO_KEYS

    def describe(self) -> str:
        call = f"{self.function}({', '.join(describe(a) for a in self.arguments)})"
        kind = "INNER" if self.kind == "INNER" else "LEFT"
        return (
            f"Correlate(invocation=[{call}], joinType=[{kind}],"
            f" select=[{', '.join(c.name for c in self.columns)}])"
        )


@dataclass(frozen=True)
class Match(Single):
    """MATCH_RECOGNIZE."""

    accepts = INSERT_ONLY

    partition: tuple[int, ...]
    order: tuple[SortKey, ...]
    fields: tuple[Field, ...]

    @property
    def columns(self) -> tuple[Field, ...]:
        return self.fields

    @property
    def kinds(self) -> ChangelogMode:
        return INSERT_ONLY

    @property
    def upsert_keys(self) -> Keys:
        return NO_KEYS

    @property
    def windows(self) -> WindowColumns | None:
        return None

    def describe(self) -> str:
        by = f"partitionBy=[{_listed(self.input, self.partition)}], " if self.partition else ""
        return f"Match({by}orderBy=[{', '.join(str(k) for k in self.order)}])"


# --- joins ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Join(Node):
    """A regular join: both sides are remembered, and either may change."""

    kind: str
    """INNER, LEFT, RIGHT, FULL, SEMI or ANTI"""
    left: Node
    right: Node
    condition: Expr
    """Reads the columns of the left side, then those of the right."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    def with_inputs(self, *inputs: Node) -> Node:
        left, right = inputs
        return replace(self, left=left, right=right)

    @property
    def is_half(self) -> bool:
        """SEMI and ANTI give rows of the left side only."""
        return self.kind in ("SEMI", "ANTI")

    @cached_property
    def columns(self) -> tuple[Field, ...]:
        left = [replace(f, type=self._left_type(f.type)) for f in self.left.columns]
        if self.is_half:
            return tuple(left)
        right = [replace(f, type=self._right_type(f.type)) for f in self.right.columns]
        if self.kind in ("RIGHT", "FULL"):
            left = [replace(f, type=f.type.as_nullable) for f in left]
        if self.kind in ("LEFT", "FULL"):
            right = [replace(f, type=f.type.as_nullable) for f in right]
        names = unique_names(f.name for f in (*left, *right))
        return tuple(replace(f, name=n) for f, n in zip((*left, *right), names, strict=True))

    def _left_type(self, type_: t.SqlType) -> t.SqlType:
        return t.materialized(type_)

    def _right_type(self, type_: t.SqlType) -> t.SqlType:
        return t.materialized(type_)

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Columns of the left and of the right side that must be equal."""
        width = len(self.left.columns)
        found = []
        for part in conjuncts(self.condition):
            match part:
                case Call(
                    function="=" | "IS NOT DISTINCT FROM",
                    arguments=(Input(index=a), Input(index=b)),
                ) if (a < width) != (b < width):
                    found.append((min(a, b), max(a, b) - width))
        return tuple(found)

    @property
    def left_keys(self) -> frozenset[int]:
        return frozenset(a for a, _ in self.pairs)

    @property
    def right_keys(self) -> frozenset[int]:
        return frozenset(b for _, b in self.pairs)

    @property
    def kinds(self) -> ChangelogMode:
        if self.kind in ("INNER", "SEMI"):
            return ChangelogMode(self.left.kinds | self.right.kinds)
        return ALL_CHANGES

    @cached_property
    def upsert_keys(self) -> Keys:
        left = _containing(self.left.upsert_keys, self.left_keys)
        if self.is_half:
            return left
        shift = len(self.left.columns)
        right = frozenset(
            frozenset(c + shift for c in k)
            for k in _containing(self.right.upsert_keys, self.right_keys)
        )
        found = {a | b for a in left for b in right}
        if self.kind in ("INNER", "LEFT") and self._is_unique(self.right, self.right_keys):
            found |= left
        if self.kind in ("INNER", "RIGHT") and self._is_unique(self.left, self.left_keys):
            found |= right
        return frozenset(found)

    @staticmethod
    def _is_unique(side: Node, columns: frozenset[int]) -> bool:
        return any(k <= columns for k in side.upsert_keys)

    def _spec(self, side: Node, columns: frozenset[int]) -> str:
        """How a side's rows are remembered: one for each join key, by their own key, or as a bag."""
        if self._is_unique(side, columns):
            return "JoinKeyContainsUniqueKey"
        return "HasUniqueKey" if side.upsert_keys else "NoUniqueKey"

    def asks(self, child: int, wanted: Updates) -> tuple[Updates, ...]:
        if wanted is Updates.BOTH:
            return (Updates.BOTH,)
        side, keys = (self.left, self.left_keys) if child == 0 else (self.right, self.right_keys)
        # Updates of a row stay with one join key only where the row's own key holds it.
        if side.kinds.insert_only or _containing(side.upsert_keys, keys):
            return (Updates.AFTER,)
        return ()

    def describe(self) -> str:
        specs = ""
        if type(self) is Join:
            left = self._spec(self.left, self.left_keys)
            right = self._spec(self.right, self.right_keys)
            specs = f", leftInputSpec=[{left}], rightInputSpec=[{right}]"
        name = type(self).__name__
        return f"{name}(joinType=[{_JOIN_NAMES[self.kind]}], where=[{describe(self.condition)}]{specs})"


_JOIN_NAMES = {
    "INNER": "InnerJoin",
    "LEFT": "LeftOuterJoin",
    "RIGHT": "RightOuterJoin",
    "FULL": "FullOuterJoin",
    "SEMI": "LeftSemiJoin",
    "ANTI": "LeftAntiJoin",
}


@dataclass(frozen=True)
class IntervalJoin(Join):
    """A join of rows whose times are near each other: left_time + lower <= right_time <= left_time + upper."""

    accepts = INSERT_ONLY

    left_time: int
    right_time: int
    lower: int
    upper: int

    def _left_type(self, type_: t.SqlType) -> t.SqlType:
        return type_

    def _right_type(self, type_: t.SqlType) -> t.SqlType:
        return type_

    @property
    def kinds(self) -> ChangelogMode:
        return INSERT_ONLY

    def describe(self) -> str:
        rowtime = t.time_attribute(self.left.columns[self.left_time].type)
        clock = "true" if rowtime is t.TimeAttribute.ROWTIME else "false"
        return (
            f"IntervalJoin(joinType=[{_JOIN_NAMES[self.kind]}], windowBounds=[isRowTime={clock},"
            f" leftLowerBound={-self.upper}, leftUpperBound={-self.lower},"
            f" leftTimeIndex={self.left_time}, rightTimeIndex={self.right_time}],"
            f" where=[{describe(self.condition)}])"
        )


@dataclass(frozen=True)
class WindowJoin(Join):
    """A join of rows of the same window, given when the window closes."""

    accepts = INSERT_ONLY

    def _left_type(self, type_: t.SqlType) -> t.SqlType:
        return type_

    def _right_type(self, type_: t.SqlType) -> t.SqlType:
        return type_

    @property
    def kinds(self) -> ChangelogMode:
        return INSERT_ONLY

    @cached_property
    def windows(self) -> WindowColumns | None:
        left = self.left.windows
        if left is None or self.is_half or self.kind in ("RIGHT", "FULL"):
            return left if self.is_half else None
        return left


@dataclass(frozen=True)
class TemporalJoin(Join):
    """Each row of the left side with the version of the right side's row that held at its time."""

    time: int = 0
    """The left side's time attribute."""

    def _left_type(self, type_: t.SqlType) -> t.SqlType:
        return type_

    @property
    def kinds(self) -> ChangelogMode:
        return self.left.kinds

    @property
    def upsert_keys(self) -> Keys:
        return _containing(self.left.upsert_keys, self.left_keys)

    def asks(self, child: int, wanted: Updates) -> tuple[Updates, ...]:
        return (wanted,) if child == 0 else (Updates.AFTER, Updates.BOTH)

    def describe(self) -> str:
        time = self.left.columns[self.time].name
        return (
            f"TemporalJoin(joinType=[{_JOIN_NAMES[self.kind]}], where=[{describe(self.condition)}],"
            f" asOf=[{time}])"
        )


@dataclass(frozen=True)
class Union(Node):
    """UNION ALL."""

    parts: tuple[Node, ...]
    names: tuple[str, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.parts

    def with_inputs(self, *inputs: Node) -> Node:
        return replace(self, parts=inputs)

    @cached_property
    def columns(self) -> tuple[Field, ...]:
        merged = []
        for i, name in enumerate(self.names):
            types = [p.columns[i].type for p in self.parts]
            type_ = types[0].with_nullable(any(x.nullable for x in types))
            # A clock stays one only where all parts have the same.
            if len({t.time_attribute(x) for x in types}) > 1:
                type_ = t.materialized(type_)
            merged.append(Field(name, type_))
        return tuple(merged)

    @property
    def kinds(self) -> ChangelogMode:
        return ChangelogMode(k for p in self.parts for k in p.kinds)

    def describe(self) -> str:
        return f"Union(all=[true], union=[{', '.join(self.names)}])"


# --- ends ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sink(Single):
    """Writes to a table; its input's columns are exactly the table's writable columns, in order and type."""

    table: Table
    span: Span | None = None
    materialize: bool = False
    """Whether rows of one primary key must be put in order first: the query's key is another one."""
    on_conflict: str | None = None

    @property
    def columns(self) -> tuple[Field, ...]:
        return ()

    @property
    def accepts(self) -> ChangelogMode:  # type: ignore[override]
        return self.table.connector.sink_mode

    @property
    def key(self) -> frozenset[int]:
        """The places of the primary key's columns."""
        names = [c.name for c in self.table.schema.writable]
        return frozenset(names.index(k) for k in self.table.schema.primary_key)

    def describe(self) -> str:
        names = ", ".join(c.name for c in self.input.columns)
        more = ", upsertMaterialize=[true]" if self.materialize else ""
        more += f", conflictStrategy=[{self.on_conflict}]" if self.on_conflict else ""
        return f"Sink(table=[{self.table.identifier}], fields=[{names}]{more})"


@dataclass(frozen=True)
class Collect(Single):
    """The end of a top-level SELECT: its changelog goes to the user."""

    wants: tuple[Updates, ...] = (Updates.BOTH,)
    """Who looks at the rows wants to see what they replace; Flink's EXPLAIN asks for less."""

    def describe(self) -> str:
        return f"Collect(fields=[{', '.join(c.name for c in self.columns)}])"


def literal_number(expr: Expr) -> int | None:
    """The value of a whole number that is written out."""
    while isinstance(expr, Call) and expr.function == "CAST":
        expr = expr.arguments[0]
    value = expr.value if isinstance(expr, Literal) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def project(node: Node, expressions: Sequence[Expr], names: Sequence[str]) -> Node:
    """A Project, left out where it changes nothing."""
    same = all(isinstance(e, Input) and e.index == i for i, e in enumerate(expressions))
    unchanged = [
        t.time_attribute(e.type) is t.time_attribute(c.type)
        for e, c in zip(expressions, node.columns, strict=False)
    ]
    if same and all(unchanged) and tuple(names) == tuple(c.name for c in node.columns):
        return node
    return Project(node, tuple(expressions), tuple(names))

"""Nodes that bring rows together: groups, windows, orders."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property

from tidemill import types as t
from tidemill.changelog import ALL_CHANGES, INSERT_ONLY, ChangelogMode, RowKind
from tidemill.errors import Span
from tidemill.plan.expressions import AggregateCall, Frame, Input, SortKey, describe
from tidemill.plan.nodes.base import (
    NO_KEYS,
    Appending,
    Keys,
    Node,
    Single,
    Updates,
    Window,
    WindowColumns,
    containing,
    listed,
)
from tidemill.plan.nodes.rows import Filter, Project
from tidemill.types import Field

_GROWING = ChangelogMode({RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER})


def missing_bits(columns: Iterable[int], present: frozenset[int]) -> int:
    """A bit for each column, the last one lowest, set where the column is missing."""
    value = 0
    for column in columns:
        value = value * 2 + (column not in present)
    return value


@dataclass(frozen=True)
class Expand(Single):
    """GROUPING SETS: each row once for every set, with the columns that are not in the set as NULL."""

    sets: tuple[frozenset[int], ...]

    @cached_property
    def columns(self) -> tuple[Field, ...]:
        below = [
            replace(f, type=f.type.as_nullable) if i in self.optional else f
            for i, f in enumerate(self.input.columns)
        ]
        return (*below, Field("$e", t.BIGINT.not_null))

    @cached_property
    def grouped(self) -> tuple[int, ...]:
        """The columns that are in some set."""
        return tuple(sorted(frozenset().union(*self.sets)))

    @cached_property
    def optional(self) -> tuple[int, ...]:
        """Those of them that are not in every set."""
        return tuple(c for c in self.grouped if not all(c in s for s in self.sets))

    @cached_property
    def marks(self) -> tuple[int, ...]:
        """What `$e` is for each set."""
        return tuple(missing_bits(self.grouped, s) for s in self.sets)

    @property
    def upsert_keys(self) -> Keys:
        return NO_KEYS

    def describe(self) -> str:
        return f"Expand(projects=[{', '.join('{' + listed(self.input, sorted(s)) + '}' for s in self.sets)}])"


@dataclass(frozen=True)
class Aggregate(Single):
    """Groups by columns of its input and keeps one row per group up to date."""

    keys: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    names: tuple[str, ...]
    ttls: tuple[timedelta | None, ...] = field(default=(), kw_only=True)

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
            parts.append(f"groupBy=[{listed(self.input, self.keys)}]")
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
class GroupWindowAggregate(Appending):
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

    def asks(self, child: int, wanted: Updates) -> tuple[Updates, ...]:
        return (Updates.BOTH,)

    def describe(self) -> str:
        time = self.input.columns[self.time].name
        shown = [self.input.columns[k].name for k in self.keys]
        named = [*(describe(c) for c in self.calls), *self.properties]
        shown += [f"{x} AS {n}" for x, n in zip(named, self.names[len(self.keys) :], strict=True)]
        group = f"groupBy=[{listed(self.input, self.keys)}], " if self.keys else ""
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
        by = f", partitionBy=[{listed(self.input, self.partition)}]" if self.partition else ""
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
        return containing(self.input.upsert_keys, self.partition)

    def asks(self, child: int, wanted: Updates) -> tuple[Updates, ...]:
        return (Updates.BOTH,)

    def describe(self) -> str:
        by = f"partitionBy=[{listed(self.input, self.partition)}], " if self.partition else ""
        order = ", ".join(str(k) for k in self.order)
        shown = [c.name for c in self.input.columns]
        shown += [f"{describe(c)} AS {n}" for c, n in zip(self.calls, self.names, strict=True)]
        return (
            f"OverAggregate({by}orderBy=[{order}], window=[{self.frame}],"
            f" select=[{', '.join(shown)}])"
        )


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
        below = containing(self.input.upsert_keys, self.partition)
        if self.function != "ROW_NUMBER":
            return below
        if self.start == self.end:
            return below | {frozenset(self.partition)}
        if self.number is not None:
            return below | {frozenset({*self.partition, len(self.input.columns)})}
        return below

    @property
    def keeps_one(self) -> bool:
        """Whether each partition has one row, and nobody reads its number."""
        return self.start == self.end == 1 and self.number is None

    @property
    def strategy(self) -> str:
        return _strategy(self.input, self.partition, self.order)

    @property
    def row_key(self) -> tuple[int, ...] | None:
        """Columns that tell the rows of a partition apart, if any do."""
        return _row_key(self.input, self.partition)

    def asks(self, child: int, wanted: Updates) -> tuple[Updates, ...]:
        return _asked_by(self.strategy)

    def describe(self) -> str:
        end = self.input.columns[self.end_column].name if self.end_column is not None else self.end
        by = f"partitionBy=[{listed(self.input, self.partition)}], " if self.partition else ""
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
    keys = sorted(sorted(k) for k in containing(below.upsert_keys, partition))
    if not keys or not forward:
        return "RetractStrategy"
    return f"UpdateFastStrategy[{','.join(map(str, keys[0]))}]"


def _row_key(below: Node, partition: Iterable[int]) -> tuple[int, ...] | None:
    """All keys in one: whichever of them somebody goes by, a row that is told apart by none is another row."""
    keys = containing(below.upsert_keys, partition)
    return tuple(sorted(frozenset().union(*keys))) if keys else None


def _asked_by(strategy: str) -> tuple[Updates, ...]:
    if strategy.startswith("UpdateFastStrategy"):
        return (Updates.AFTER, Updates.BOTH)
    return (Updates.BOTH,)


# Where a value goes as rows are added.
_WAYS = {"COUNT": "up", "MAX": "up", "MIN": "down"}


def growing(node: Node) -> dict[int, str]:
    """The columns whose value, for one key, only goes up or only down."""
    if isinstance(node, Aggregate) and node.input.kinds.insert_only:
        ways = (_WAYS.get(call.function) for call in node.calls)
        return {len(node.keys) + i: way for i, way in enumerate(ways) if way is not None}
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
            f" partitionBy=[{listed(self.input, self.keys)}], orderBy=[{order}],"
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
            f" partitionKeys=[{listed(self.input, self.keys)}], orderKey=[{self.columns[self.time].name}])"
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
    def row_key(self) -> tuple[int, ...] | None:
        """Columns that tell rows apart, if any do."""
        return _row_key(self.input, ())

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

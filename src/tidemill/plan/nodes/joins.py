"""Joins: regular ones, and those that time keeps small."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property

from tidemill import types as t
from tidemill.changelog import ALL_CHANGES, INSERT_ONLY, ChangelogMode, RowKind
from tidemill.plan.expressions import Call, Expr, Input, Literal, conjuncts, describe, rewrite
from tidemill.plan.nodes.base import Keys, Node, Updates, WindowColumns, containing, unique_names
from tidemill.types import Field


@dataclass(frozen=True)
class Join(Node):
    """A regular join: both sides are remembered, and either may change."""

    kind: str
    """INNER, LEFT, RIGHT, FULL, SEMI or ANTI"""
    left: Node
    right: Node
    condition: Expr
    """Reads the columns of the left side, then those of the right."""
    ttls: tuple[timedelta | None, ...] = field(default=(), kw_only=True)

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
    def equalities(self) -> tuple[Expr, ...]:
        """The parts of the condition that say that a column of each side is the same."""
        return tuple(p for p in conjuncts(self.condition) if self._pair(p) is not None)

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Columns of the left and of the right side that must be equal."""
        return tuple(pair for p in self.equalities if (pair := self._pair(p)) is not None)

    @cached_property
    def residual(self) -> tuple[Expr, ...]:
        """What the condition says beside the equalities."""
        others = (p for p in conjuncts(self.condition) if self._pair(p) is None)
        return tuple(p for p in others if not (isinstance(p, Literal) and p.value is True))

    def _pair(self, part: Expr) -> tuple[int, int] | None:
        width = len(self.left.columns)
        match part:
            case Call(
                function="=" | "IS NOT DISTINCT FROM",
                arguments=(Input(index=a), Input(index=b)),
            ) if (a < width) != (b < width):
                return min(a, b), max(a, b) - width
        return None

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
        left = containing(self.left.upsert_keys, self.left_keys)
        if self.is_half:
            return left
        shift = len(self.left.columns)
        right = frozenset(
            frozenset(c + shift for c in k)
            for k in containing(self.right.upsert_keys, self.right_keys)
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
        # Of an update that no longer fulfils the condition, the joined rows must leave.
        if self.residual and not side.kinds.insert_only and RowKind.DELETE not in self.kinds:
            return ()
        # Updates of a row stay with one join key only where the row's own key holds it.
        if side.kinds.insert_only or containing(side.upsert_keys, keys):
            return (Updates.AFTER,)
        return ()

    @property
    def where(self) -> str:
        """The condition, in which columns of the two sides have different names."""
        sides = (*self.left.columns, *self.right.columns)
        names = unique_names(c.name for c in sides)

        def named(e: Expr) -> Expr | None:
            return replace(e, name=names[e.index]) if isinstance(e, Input) else None

        return describe(rewrite(self.condition, named))

    def describe(self) -> str:
        specs = ""
        if type(self) is Join:
            left = self._spec(self.left, self.left_keys)
            right = self._spec(self.right, self.right_keys)
            specs = f", leftInputSpec=[{left}], rightInputSpec=[{right}]"
        name = type(self).__name__
        return f"{name}(joinType=[{_JOIN_NAMES[self.kind]}], where=[{self.where}]{specs})"


_JOIN_NAMES = {
    "INNER": "InnerJoin",
    "LEFT": "LeftOuterJoin",
    "RIGHT": "RightOuterJoin",
    "FULL": "FullOuterJoin",
    "SEMI": "LeftSemiJoin",
    "ANTI": "LeftAntiJoin",
}


@dataclass(frozen=True)
class TimedJoin(Join):
    """A join that time keeps small: rows are only added, and clocks stay clocks."""

    accepts = INSERT_ONLY

    def _left_type(self, type_: t.SqlType) -> t.SqlType:
        return type_

    def _right_type(self, type_: t.SqlType) -> t.SqlType:
        return type_

    @property
    def kinds(self) -> ChangelogMode:
        return INSERT_ONLY


@dataclass(frozen=True)
class IntervalJoin(TimedJoin):
    """A join of rows whose times are near each other: left_time + lower <= right_time <= left_time + upper."""

    left_time: int
    right_time: int
    lower: int
    upper: int

    @property
    def is_empty(self) -> bool:
        """Whether the interval ends before it begins: nothing waits for anything."""
        return self.lower > self.upper

    @property
    def is_rowtime(self) -> bool:
        """Whether event time counts, and not the machine's."""
        clock = t.time_attribute(self.left.columns[self.left_time].type)
        return clock is t.TimeAttribute.ROWTIME

    def describe(self) -> str:
        clock = "true" if self.is_rowtime else "false"
        return (
            f"IntervalJoin(joinType=[{_JOIN_NAMES[self.kind]}], windowBounds=[isRowTime={clock},"
            f" leftLowerBound={-self.upper}, leftUpperBound={-self.lower},"
            f" leftTimeIndex={self.left_time}, rightTimeIndex={self.right_time}],"
            f" where=[{self.where}])"
        )


@dataclass(frozen=True)
class WindowJoin(TimedJoin):
    """A join of rows of the same window, given when the window closes."""

    @cached_property
    def windows(self) -> WindowColumns | None:
        return None if self.kind in ("RIGHT", "FULL") else self.left.windows


@dataclass(frozen=True)
class TemporalJoin(Join):
    """Each row of the left side with the version of the right side's row that held at its time."""

    time: int = 0
    """The left side's time attribute."""

    def _left_type(self, type_: t.SqlType) -> t.SqlType:
        return type_

    @property
    def version_time(self) -> int:
        """The right side's column with the time from which a version holds."""
        clocks = (t.time_attribute(c.type) for c in self.right.columns)
        return next(i for i, clock in enumerate(clocks) if clock is t.TimeAttribute.ROWTIME)

    @property
    def kinds(self) -> ChangelogMode:
        return self.left.kinds

    @property
    def upsert_keys(self) -> Keys:
        return containing(self.left.upsert_keys, self.left_keys)

    def asks(self, child: int, wanted: Updates) -> tuple[Updates, ...]:
        return (wanted,) if child == 0 else (Updates.AFTER, Updates.BOTH)

    def describe(self) -> str:
        time = self.left.columns[self.time].name
        return (
            f"TemporalJoin(joinType=[{_JOIN_NAMES[self.kind]}], where=[{self.where}],"
            f" asOf=[{time}])"
        )


@dataclass(frozen=True)
class LookupJoin(Join):
    """Each row of the left side with the rows that a table has when its batch runs: nothing is remembered."""

    def _left_type(self, type_: t.SqlType) -> t.SqlType:
        return type_

    @property
    def kinds(self) -> ChangelogMode:
        return self.left.kinds

    @property
    def upsert_keys(self) -> Keys:
        return (
            self.left.upsert_keys if self._is_unique(self.right, self.right_keys) else frozenset()
        )

    def asks(self, child: int, wanted: Updates) -> tuple[Updates, ...]:
        return (wanted,)

    def describe(self) -> str:
        left, right = self.left.columns, self.right.columns
        by = ", ".join(f"{right[b].name}={left[a].name}" for a, b in self.pairs)
        return (
            f"LookupJoin(joinType=[{_JOIN_NAMES[self.kind]}], lookup=[{by}], where=[{self.where}])"
        )

"""What every node of a plan has, and how plans are walked."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum
from functools import cached_property
from typing import ClassVar

from tidemill.changelog import ALL_CHANGES, INSERT_ONLY, ChangelogMode
from tidemill.plan.expressions import Expr, Input, Literal, without_casts
from tidemill.types import Field

Keys = frozenset[frozenset[int]]
NO_KEYS: Keys = frozenset()


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
        parts = [] if self.size is None else [f"{size}=[{milliseconds(self.size)}]"]
        if self.step is not None:
            parts.append(f"{words[self.kind]}=[{milliseconds(self.step)}]")
        if self.offset is not None:
            parts.append(f"offset=[{milliseconds(self.offset)}]")
        return f"{self.kind}({', '.join(parts)})"


def milliseconds(value: int) -> str:
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
        """Whether columns tell the window: both its ends."""
        given = set(columns)
        return bool(self.start & given) and bool(self.end & given) and self.by is not None

    def are_grouped_by(self, columns: Iterable[int]) -> bool:
        """Whether columns tell the window and, where it is a session, whose it is and nothing else."""
        given = frozenset(columns)
        is_own = self.window.kind != "SESSION" or self.by == given - self.all
        return self.are_in(given) and is_own


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

    @property
    def ttls(self) -> tuple[timedelta | None, ...]:
        """How long state is kept that each input fills, where a hint says so."""
        return ()

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


@dataclass(frozen=True)
class Leaf(Node):
    """A node where rows come from."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    def with_inputs(self, *inputs: Node) -> Node:
        return self


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
class Appending(Single):
    """A node that makes rows of its own and never takes one back: it hands on neither keys nor windows."""

    @property
    def kinds(self) -> ChangelogMode:
        return INSERT_ONLY

    @property
    def upsert_keys(self) -> Keys:
        return NO_KEYS

    @property
    def windows(self) -> WindowColumns | None:
        return None


def walk(node: Node) -> Iterator[Node]:
    yield node
    for child in node.inputs:
        yield from walk(child)


def mark_arranged(node: Node) -> None:
    """Remember, at the node, that all below it has been through the rules for FROM; a copy forgets it."""
    node.__dict__["_arranged"] = True


def transform(node: Node, change: Callable[[Node], Node], fresh: bool = False) -> Node:
    """Rebuild a plan from the bottom; `change` sees every node with its new inputs. `fresh`: leave out what is marked
    as arranged."""
    if fresh and "_arranged" in node.__dict__:
        return node
    below = tuple(transform(child, change, fresh) for child in node.inputs)
    if any(a is not b for a, b in zip(below, node.inputs, strict=True)):
        node = node.with_inputs(*below)
    return change(node)


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


def listed(node: Node, columns: Iterable[int]) -> str:
    return ", ".join(node.columns[c].name for c in columns)


def containing(keys: Keys, columns: Iterable[int]) -> Keys:
    """The keys that still tell rows apart once rows are spread by other columns: changes of one key must not pass
    each other on different ways."""
    wanted = frozenset(columns)
    return frozenset(k for k in keys if wanted <= k)


def literal_number(expr: Expr) -> int | None:
    """The value of a whole number that is written out."""
    plain = without_casts(expr)
    value = plain.value if isinstance(plain, Literal) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None

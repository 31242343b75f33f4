"""The plan: what a query does, node by node, before anybody says how.

Law: a node is a value; its columns, its keys and the kinds it emits follow from its inputs and cannot be set.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from tidemill.changelog import ALL_CHANGES, INSERT_ONLY, ChangelogMode, RowKind
from tidemill.errors import Span
from tidemill.plan.expressions import AggregateCall, Expr, Input, describe, inputs
from tidemill.tables.catalog import Table
from tidemill.types import Field, without_time_precision


@dataclass(frozen=True)
class Node:
    """A relation: typed columns, and what may happen to its rows."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        raise NotImplementedError

    @property
    def columns(self) -> tuple[Field, ...]:
        raise NotImplementedError

    @property
    def kinds(self) -> ChangelogMode:
        """The changes this node can produce, were all of them asked for."""
        raise NotImplementedError

    @property
    def upsert_keys(self) -> frozenset[frozenset[int]]:
        """Sets of columns of which each tells a changed row from every other one."""
        return frozenset()

    def describe(self) -> str:
        return type(self).__name__


def walk(node: Node) -> Iterator[Node]:
    yield node
    for child in node.inputs:
        yield from walk(child)


@dataclass(frozen=True)
class Scan(Node):
    """Reads columns of a table: physical and metadata ones; computed columns are a Project above."""

    table: Table
    names: tuple[str, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    @cached_property
    def columns(self) -> tuple[Field, ...]:
        known = {c.name: c for c in self.table.schema.columns}
        return tuple(Field(n, without_time_precision(known[n].type)) for n in self.names)

    @property
    def kinds(self) -> ChangelogMode:
        return INSERT_ONLY

    def describe(self) -> str:
        return f"TableSourceScan(table=[{self.table.name}], fields=[{', '.join(self.names)}])"


@dataclass(frozen=True)
class Values(Node):
    rows: tuple[tuple[Expr, ...], ...]
    fields: tuple[Field, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    @property
    def columns(self) -> tuple[Field, ...]:
        return self.fields

    @property
    def kinds(self) -> ChangelogMode:
        return INSERT_ONLY

    def describe(self) -> str:
        shown = ", ".join("{" + ", ".join(describe(e) for e in row) + "}" for row in self.rows)
        return f"Values(tuples=[{shown}])"


@dataclass(frozen=True)
class Project(Node):
    input: Node
    expressions: tuple[Expr, ...]
    names: tuple[str, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @cached_property
    def columns(self) -> tuple[Field, ...]:
        pairs = zip(self.names, self.expressions, strict=True)
        return tuple(Field(n, e.type) for n, e in pairs)

    @property
    def kinds(self) -> ChangelogMode:
        return self.input.kinds

    @cached_property
    def upsert_keys(self) -> frozenset[frozenset[int]]:
        at = {e.index: i for i, e in enumerate(self.expressions) if isinstance(e, Input)}
        kept = (k for k in self.input.upsert_keys if all(c in at for c in k))
        return frozenset(frozenset(at[c] for c in key) for key in kept)

    def describe(self) -> str:
        shown = []
        for name, expr in zip(self.names, self.expressions, strict=True):
            text = describe(expr)
            shown.append(text if text == name else f"{text} AS {name}")
        return f"Calc(select=[{', '.join(shown)}])"


@dataclass(frozen=True)
class Filter(Node):
    input: Node
    condition: Expr

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @property
    def columns(self) -> tuple[Field, ...]:
        return self.input.columns

    @property
    def kinds(self) -> ChangelogMode:
        return self.input.kinds

    @property
    def upsert_keys(self) -> frozenset[frozenset[int]]:
        return self.input.upsert_keys

    @property
    def is_on_key(self) -> bool:
        """Whether an update can never make a row enter or leave."""
        read = inputs(self.condition)
        return any(read <= key for key in self.input.upsert_keys)

    def describe(self) -> str:
        return f"Calc(where=[{describe(self.condition)}])"


@dataclass(frozen=True)
class Aggregate(Node):
    """Groups by columns of its input and keeps one row per group up to date."""

    input: Node
    keys: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    names: tuple[str, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @cached_property
    def columns(self) -> tuple[Field, ...]:
        below = self.input.columns
        types = [below[k].type for k in self.keys] + [c.type for c in self.calls]
        return tuple(Field(n, x) for n, x in zip(self.names, types, strict=True))

    @property
    def kinds(self) -> ChangelogMode:
        if not self.calls:  # DISTINCT: a group, once there, never changes
            return INSERT_ONLY if self.input.kinds.insert_only else ALL_CHANGES
        updates = {RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER}
        return ChangelogMode(updates) if self.input.kinds.insert_only else ALL_CHANGES

    @property
    def upsert_keys(self) -> frozenset[frozenset[int]]:
        return frozenset({frozenset(range(len(self.keys)))})

    def describe(self) -> str:
        below = self.input.columns
        parts = []
        if self.keys:
            parts.append(f"groupBy=[{', '.join(below[k].name for k in self.keys)}]")
        shown = [below[k].name for k in self.keys]
        shown += [
            f"{describe(c)} AS {n}"
            for c, n in zip(self.calls, self.names[len(self.keys) :], strict=True)
        ]
        parts.append(f"select=[{', '.join(shown)}]")
        return f"GroupAggregate({', '.join(parts)})"


@dataclass(frozen=True)
class Union(Node):
    """UNION ALL."""

    parts: tuple[Node, ...]
    names: tuple[str, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.parts

    @cached_property
    def columns(self) -> tuple[Field, ...]:
        merged = []
        for i, name in enumerate(self.names):
            nullable = any(p.columns[i].type.nullable for p in self.parts)
            merged.append(Field(name, self.parts[0].columns[i].type.with_nullable(nullable)))
        return tuple(merged)

    @property
    def kinds(self) -> ChangelogMode:
        return ChangelogMode(k for p in self.parts for k in p.kinds)

    def describe(self) -> str:
        return f"Union(all=[true], union=[{', '.join(self.names)}])"


@dataclass(frozen=True)
class Sink(Node):
    """Writes to a table; its input's columns are exactly the table's writable columns, in order and type."""

    table: Table
    input: Node
    span: Span | None = None

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @property
    def columns(self) -> tuple[Field, ...]:
        return ()

    @property
    def kinds(self) -> ChangelogMode:
        return ChangelogMode()

    def describe(self) -> str:
        names = ", ".join(c.name for c in self.input.columns)
        return f"Sink(table=[{self.table.identifier}], fields=[{names}])"


@dataclass(frozen=True)
class Collect(Node):
    """The end of a top-level SELECT: its changelog goes to the user."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @property
    def columns(self) -> tuple[Field, ...]:
        return self.input.columns

    @property
    def kinds(self) -> ChangelogMode:
        return self.input.kinds

    def describe(self) -> str:
        return f"Collect(fields=[{', '.join(c.name for c in self.columns)}])"

"""Nodes that look at one row at a time, and those where rows come from and go to."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tidemill import types as t
from tidemill.changelog import ALL_CHANGES, INSERT_ONLY, ChangelogMode, RowKind
from tidemill.errors import Span
from tidemill.functions import PythonFunction
from tidemill.plan.expressions import Call, Expr, Input, SortKey, UserCall, describe, inputs
from tidemill.plan.nodes.base import (
    NO_KEYS,
    Appending,
    Keys,
    Leaf,
    Node,
    Single,
    Updates,
    WindowColumns,
    listed,
    unique_names,
)
from tidemill.tables.catalog import Metadata, Table
from tidemill.types import Field, without_time_precision


@dataclass(frozen=True)
class Scan(Leaf):
    """Reads columns of a table: physical and metadata ones; computed columns are a Project above."""

    table: Table
    names: tuple[str, ...]

    @cached_property
    def columns(self) -> tuple[Field, ...]:
        # A column becomes a time attribute where the watermark is assigned.
        return tuple(
            Field(n, t.materialized(without_time_precision(self._type(n)))) for n in self.names
        )

    def _type(self, name: str) -> t.SqlType:
        column = self.table.schema.column(name)
        assert column is not None
        # A delete that is a row of its own has its key, and nothing else for sure.
        whole = self.table.connector.has_unique_rows or name in self.table.schema.primary_key
        return column.type if whole or isinstance(column, Metadata) else column.type.as_nullable

    @property
    def kinds(self) -> ChangelogMode:
        return self.table.connector.source_mode

    @property
    def upsert_keys(self) -> Keys:
        key = self.table.schema.primary_key
        unique = self.table.connector.has_unique_rows
        if not key or not unique or not set(key) <= set(self.names):
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
class Values(Leaf):
    rows: tuple[tuple[Expr, ...], ...]
    fields: tuple[Field, ...]

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
        return f"ChangelogNormalize(key=[{listed(self, self.keys)}]{where})"


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
class Correlate(Single):
    """Each row joined with the rows that a table function makes of it."""

    kind: str
    """INNER or LEFT"""
    function: str
    """UNNEST, $REPLICATE_ROWS$ (the row as often as the first argument says), or the name of a user's function."""
    arguments: tuple[Expr, ...]
    fields: tuple[Field, ...]
    implementation: PythonFunction | None = None
    ordinality: bool = False
    """Whether the last field is the row's number, from 1."""
    condition: Expr | None = None
    """Of LEFT, what a row of the function must fulfil to be joined; it reads the fields."""

    @cached_property
    def call(self) -> UserCall | None:
        """The call of a function of the user's: an array of what it gives for a row."""
        made = self.implementation
        if made is None:
            return None
        return UserCall(made.value, self.function, self.arguments, made)

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
        where = "" if self.condition is None else f" condition=[{describe(self.condition)}],"
        return (
            f"Correlate(invocation=[{call}], joinType=[{self.kind}],{where}"
            f" select=[{', '.join(c.name for c in self.columns)}])"
        )


@dataclass(frozen=True)
class Match(Appending):
    """MATCH_RECOGNIZE."""

    accepts = INSERT_ONLY

    partition: tuple[int, ...]
    order: tuple[SortKey, ...]
    fields: tuple[Field, ...]

    @property
    def columns(self) -> tuple[Field, ...]:
        return self.fields

    def describe(self) -> str:
        by = f"partitionBy=[{listed(self.input, self.partition)}], " if self.partition else ""
        return f"Match({by}orderBy=[{', '.join(str(k) for k in self.order)}])"


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


@dataclass(frozen=True)
class Enforcement:
    """What becomes of values that do not fit a sink's columns, in the words of Flink's settings."""

    lengths: str = "IGNORE"
    """IGNORE, TRIM_PAD or ERROR."""
    nested: str = "IGNORE"
    """How deep constraints are looked at: IGNORE, ROWS or ROWS_AND_COLLECTIONS."""

    def __post_init__(self) -> None:
        if self.nested == "ROWS_AND_COLLECTIONS" and self.lengths == "TRIM_PAD":
            raise ValueError("nothing is cut inside of a collection")


@dataclass(frozen=True)
class Sink(Single):
    """Writes to a table; its input's columns are exactly the table's writable columns, in order and type."""

    table: Table
    span: Span | None = None
    materialize: bool = False
    """Whether rows of one primary key must be put in order first: the query's key is another one."""
    on_conflict: str | None = None
    enforcement: Enforcement = Enforcement()

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


Root = Sink | Collect
"""Where the rows of a job leave it."""

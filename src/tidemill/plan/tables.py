"""CREATE TABLE: from the tree to a typed, checked table. In: a statement and the settings. Out: a `Table`, and what is
worth a warning about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tidemill import types as t
from tidemill.errors import (
    Diagnostic,
    ScriptError,
    did_you_mean,
    in_script_order,
    script_error,
)
from tidemill.plan.expressions import Input
from tidemill.plan.scope import Relation, Scope
from tidemill.sql import ast
from tidemill.sql.dialects import BLINK
from tidemill.tables import build_table
from tidemill.tables.catalog import (
    Column,
    Computed,
    Metadata,
    Physical,
    Schema,
    Table,
    Unusable,
    Watermark,
)


@dataclass(eq=False)
class BrokenTable(ScriptError):
    """A table whose columns are right, and whose options or watermark are not."""

    table: Table | None = None
    """The table as far as queries over it can be checked."""


def bind_table(
    statement: ast.CreateTable, settings: Mapping[str, str]
) -> tuple[Table, list[Diagnostic]]:
    """Type the columns, check keys and watermark, then let the connector read its options."""
    seen: dict[str, ast.ColumnDefinition] = {}
    for definition in statement.columns:
        if definition.name.name in seen:
            raise script_error(
                "PLAN-040",
                f"column '{definition.name.name}' is declared twice",
                definition.name.span,
            )
        seen[definition.name.name] = definition
    key = _primary_key(statement, seen)
    columns = _columns(statement, key)
    problems: list[Diagnostic] = []
    watermark = None
    try:
        watermark = _watermark(statement, columns)
    except ScriptError as error:  # the options are looked at all the same
        problems = error.diagnostics
    schema = Schema(tuple(columns), key, watermark)
    name = statement.name.parts[-1].name
    try:
        connector, warnings = build_table(name, statement, schema, settings)
    except ScriptError as error:
        problems += error.diagnostics
    if problems:
        unusable = Table(name, schema, Unusable(), statement.name.span)
        raise BrokenTable(in_script_order(problems), unusable)
    return Table(name, schema, connector, statement.name.span), warnings


def _primary_key(
    statement: ast.CreateTable, columns: Mapping[str, ast.ColumnDefinition]
) -> tuple[str, ...]:
    keys: list[tuple[tuple[ast.Identifier, ...], bool | None, ast.Node]] = []
    if statement.primary_key is not None:
        found = statement.primary_key
        keys.append((found.columns, found.enforced, found))
    keys += [
        ((column.name,), column.enforced, column)
        for column in statement.columns
        if isinstance(column, ast.PhysicalColumn) and column.primary_key
    ]
    if not keys:
        return ()
    if len(keys) > 1:
        raise script_error("PLAN-041", "a table has one PRIMARY KEY at most", keys[1][2].span)
    names, enforced, node = keys[0]
    if enforced is not False:
        raise script_error(
            "PLAN-042",
            "a PRIMARY KEY must be NOT ENFORCED: the data is not ours, so nobody can enforce it",
            node.span,
            f"write PRIMARY KEY ({', '.join(n.name for n in names)}) NOT ENFORCED"
            + ("" if enforced else f", or run it with --dialect {BLINK.name}"),
        )
    for name in names:
        definition = columns.get(name.name)
        if definition is None:
            raise script_error(
                "PLAN-003",
                f"column '{name.name}' of the PRIMARY KEY is not declared",
                name.span,
                did_you_mean(name.name, list(columns)),
            )
        if not isinstance(definition, ast.PhysicalColumn):
            raise script_error(
                "PLAN-043",
                f"column '{name.name}' of the PRIMARY KEY is not a physical one",
                name.span,
            )
    return tuple(n.name for n in names)


def _columns(statement: ast.CreateTable, key: tuple[str, ...]) -> list[Column]:
    columns: list[Column] = []
    computed: list[ast.ComputedColumn] = []
    for definition in statement.columns:
        name = definition.name.name
        if isinstance(definition, ast.PhysicalColumn):
            type_ = definition.type.not_null if name in key else definition.type
            columns.append(Physical(name, type_))
        elif isinstance(definition, ast.MetadataColumn):
            columns.append(
                Metadata(name, definition.type, definition.key or name, definition.virtual)
            )
        elif isinstance(definition, ast.ComputedColumn):
            computed.append(definition)
            columns.append(Computed(name, t.NullType(), definition.expression))
    # Flink: a computed column sees the physical and metadata columns, not other computed ones.
    scope = _scope_over([c for c in columns if not isinstance(c, Computed)], statement.name)
    for definition in computed:
        bound = scope.bind(definition.expression)
        at = next(i for i, c in enumerate(columns) if c.name == definition.name.name)
        columns[at] = Computed(definition.name.name, bound.type, definition.expression)
    return columns


def _scope_over(columns: list[Column], table: ast.QualifiedName) -> Scope:
    fields = tuple(Input(c.type, i, c.name) for i, c in enumerate(columns))
    return Scope((Relation(table.parts[-1].name, fields),))


def _watermark(statement: ast.CreateTable, columns: list[Column]) -> Watermark | None:
    node = statement.watermark
    if node is None:
        return None
    names = [c.name for c in columns]
    first = node.column.parts[0]
    if first.name not in names:
        raise script_error(
            "PLAN-003",
            f"column '{first.name}' of the WATERMARK is not declared",
            first.span,
            did_you_mean(first.name, names),
        )
    if len(node.column.parts) > 1:
        raise script_error(
            "PLAN-044",
            "a WATERMARK needs a column at the top of the table, not a field inside a ROW",
            node.column.span,
            f"declare a computed column: ts AS {node.column}",
        )
    at = names.index(first.name)
    type_ = columns[at].type
    if not isinstance(type_, t.TIMESTAMP_TYPES):
        raise script_error(
            "PLAN-045",
            f"the WATERMARK's column must be TIMESTAMP(3) or TIMESTAMP_LTZ(3), but '{first.name}' is"
            f" {type_.as_nullable}",
            node.column.span,
            "a computed column can make one: ts AS TO_TIMESTAMP_LTZ(epoch_ms, 3)",
        )
    # A manual prints `view_time TIMESTAMP`; Flink refuses more than milliseconds, so three digits are meant.
    rowtime = replace(type_, precision=min(3, type_.precision), attribute=t.TimeAttribute.ROWTIME)
    columns[at] = replace(columns[at], type=rowtime)
    bound = _scope_over(columns, statement.name).bind(node.expression)
    if not isinstance(bound.type, t.TIMESTAMP_TYPES):
        raise script_error(
            "PLAN-045",
            f"a WATERMARK must be a time, but this is {bound.type}",
            node.expression.span,
        )
    return Watermark(first.name, node.expression)

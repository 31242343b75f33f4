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
from tidemill.plan.user_functions import FindFunction, no_function
from tidemill.sql import ast
from tidemill.sql.dialects import BLINK
from tidemill.tables import build_table
from tidemill.tables.catalog import (
    Column,
    Computed,
    Connector,
    Metadata,
    ObjectPath,
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
    statement: ast.CreateTable,
    settings: Mapping[str, str],
    path: ObjectPath,
    functions: FindFunction = no_function,
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
    columns = _columns(statement, key, functions)
    _check_partitions(statement, seen)
    problems: list[Diagnostic] = []
    watermark = None
    try:
        watermark = _watermark(statement, columns, functions)
    except ScriptError as error:  # the options are looked at all the same
        problems = error.diagnostics
    schema = Schema(tuple(columns), key, watermark)
    connector: Connector = Unusable()
    warnings: list[Diagnostic] = []
    try:
        connector, warnings = build_table(path.name, statement, schema, settings)
    except ScriptError as error:
        problems += error.diagnostics
    table = Table(
        path.name,
        schema,
        Unusable() if problems else connector,
        statement.name.span,
        path.catalog,
        path.database,
        statement,
    )
    if problems:
        raise BrokenTable(in_script_order(problems), table)
    return table, warnings


def _check_partitions(
    statement: ast.CreateTable, columns: Mapping[str, ast.ColumnDefinition]
) -> None:
    """PARTITIONED BY and DISTRIBUTED BY name columns; whether the connector can do it shows when it is written."""
    buckets = statement.distribution.columns if statement.distribution else ()
    for name, what in (
        *((n, "Partition") for n in statement.partitioned_by),
        *((n, "Bucket") for n in buckets),
    ):
        if name.name not in columns:
            available = ", ".join(f"'{c}'" for c in columns)
            raise script_error(
                "PLAN-046",
                f"{what} column '{name.name}' not defined in the table schema. Available columns: [{available}]",
                name.span,
                did_you_mean(name.name, list(columns)),
            )


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


def _columns(
    statement: ast.CreateTable, key: tuple[str, ...], functions: FindFunction
) -> list[Column]:
    columns: list[Column] = []
    computed: list[ast.ComputedColumn] = []
    for definition in statement.columns:
        name, comment = definition.name.name, definition.comment
        if isinstance(definition, ast.PhysicalColumn):
            type_ = definition.type.not_null if name in key else definition.type
            columns.append(Physical(name, type_, comment=comment))
        elif isinstance(definition, ast.MetadataColumn):
            source = definition.key or name
            columns.append(
                Metadata(name, definition.type, source, definition.virtual, comment=comment)
            )
        elif isinstance(definition, ast.ComputedColumn):
            computed.append(definition)
            columns.append(Computed(name, t.NullType(), definition.expression, comment=comment))
    # Flink: a computed column sees the physical and metadata columns, not other computed ones.
    stored = [c for c in columns if not isinstance(c, Computed)]
    scope = _scope_over(stored, statement.name, functions)
    for definition in computed:
        bound = scope.bind(definition.expression)
        at = next(i for i, c in enumerate(columns) if c.name == definition.name.name)
        columns[at] = replace(columns[at], type=bound.type)
    return columns


def _scope_over(columns: list[Column], table: ast.QualifiedName, functions: FindFunction) -> Scope:
    fields = tuple(Input(c.type, i, c.name) for i, c in enumerate(columns))
    return Scope((Relation(table.parts[-1].name, fields),), functions=functions)


def _watermark(
    statement: ast.CreateTable, columns: list[Column], functions: FindFunction
) -> Watermark | None:
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
    bound = _scope_over(columns, statement.name, functions).bind(node.expression)
    if not isinstance(bound.type, t.TIMESTAMP_TYPES):
        raise script_error(
            "PLAN-045",
            f"a WATERMARK must be a time, but this is {bound.type}",
            node.expression.span,
        )
    return Watermark(first.name, node.expression)

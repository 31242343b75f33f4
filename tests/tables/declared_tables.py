"""A declared table for tests: a statement's text → name, tree and schema, as the binder hands them over."""

from __future__ import annotations

from tidemill.errors import Source
from tidemill.sql import ast, parse_script
from tidemill.tables.catalog import Column, Computed, Metadata, Physical, Schema
from tidemill.types import STRING


def declare(file: str, text: str) -> tuple[str, ast.CreateTable, Schema]:
    (statement,) = parse_script(Source(file, text)).statements
    assert isinstance(statement, ast.CreateTable)
    columns = tuple(_column(definition) for definition in statement.columns)
    inline = tuple(
        c.name.name
        for c in statement.columns
        if isinstance(c, ast.PhysicalColumn) and c.primary_key
    )
    key = statement.primary_key
    primary_key = tuple(c.name for c in key.columns) if key else inline
    return str(statement.name), statement, Schema(columns, primary_key)


def _column(definition: ast.ColumnDefinition) -> Column:
    name = definition.name.name
    match definition:
        case ast.PhysicalColumn(type=type_):
            return Physical(name, type_)
        case ast.MetadataColumn(type=type_, key=key, virtual=virtual):
            return Metadata(name, type_, key or name, virtual)
        case ast.ComputedColumn(expression=expression):
            # The type of an expression is the binder's business, and no connector asks for it.
            return Computed(name, STRING, expression)
    raise AssertionError(definition)

"""SHOW and DESCRIBE. In: the names of a session and a statement. Out: the text that Flink's SQL client would show.

Law: nothing is changed, and values of secret options are never in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from tidemill import types as t
from tidemill.errors import ScriptError, display_width, script_error
from tidemill.functions import PythonFunction
from tidemill.plan.functions import AGGREGATES, FUNCTIONS, OVER_ONLY
from tidemill.sql import ast
from tidemill.sql.printer import create_table_text, create_view_text, print_full_expression
from tidemill.tables import redacted
from tidemill.tables.catalog import Column, Computed, Metadata, Schema, Table, View
from tidemill.tables.namespaces import Namespaces

MODULES = ("core",)
"""Flink's modules; there is the one with the built-in functions."""
BUILT_IN = tuple(
    sorted(
        n.lower()
        for n in (*FUNCTIONS, *AGGREGATES, *OVER_ONLY)
        if re.fullmatch(r"[A-Z_][A-Z0-9_]*", n)
    )
)

Rows = Sequence[Sequence[str | None]]


def box(head: Sequence[str], rows: Rows) -> str:
    """A table as Flink's SQL client draws it, and the number of its rows."""
    if not rows:
        return "Empty set"
    cells = [["" if c is None else c for c in row] for row in rows]
    widths = [max(display_width(row[i]) for row in [head, *cells]) for i in range(len(head))]
    rule = "+" + "+".join("-" * (w + 2) for w in widths) + "+"

    def line(row: Sequence[str]) -> str:
        shown = (
            " " * (w - display_width(cell)) + cell for cell, w in zip(row, widths, strict=True)
        )
        return "| " + " | ".join(shown) + " |"

    count = f"{len(rows)} row{'s' * (len(rows) != 1)} in set"
    return "\n".join([rule, line(head), rule, *map(line, cells), rule, count])


def _matches(statement: ast.Show, name: str) -> bool:
    """[NOT] LIKE or ILIKE; `\\` takes the meaning from the sign behind it."""
    if statement.like is None:
        return True
    pattern = ""
    signs = iter(statement.like)
    for sign in signs:
        if sign == "\\":
            pattern += re.escape(next(signs, sign))
        else:
            pattern += {"%": ".*", "_": "."}.get(sign, re.escape(sign))
    flags = re.DOTALL | (re.IGNORECASE if statement.operator == "ILIKE" else 0)
    return (re.fullmatch(pattern, name, flags) is not None) != statement.negated


# --- SHOW ----------------------------------------------------------------------------------------


def show(
    statement: ast.Show,
    names: Namespaces,
    describe: Callable[[ast.QualifiedName], Schema],
) -> str:
    """The answer to SHOW. `describe` gives the columns of a table or view."""
    listed = _lists(statement, names)
    if listed is not None:
        head, found = listed
        return box([head], [[n] for n in sorted(found) if _matches(statement, n)])
    match statement.what:
        case "CURRENT CATALOG":
            return box(["current catalog name"], [[names.catalog]])
        case "CURRENT DATABASE":
            return box(["current database name"], [[names.database]])
        case "FULL MODULES":
            return box(["module name", "used"], [[m, "TRUE"] for m in MODULES])
        case "COLUMNS":
            assert statement.name is not None
            schema = describe(statement.name)
            return columns_box(schema, lambda name: _matches(statement, name))
        case "CREATE TABLE" | "CREATE VIEW":
            assert statement.name is not None
            described = _of_kind(statement, names)
            return _create_text(described, [c.name for c in describe(statement.name).columns])
        case "CREATE CATALOG":
            assert statement.name is not None
            return _create_catalog_text(statement.name.parts[0], names)
        case "PARTITIONS":
            assert statement.name is not None
            return _no_partitions(statement.name, names)
    raise script_error(
        "PLAN-086", f"SHOW {statement.what} has nothing to show here", statement.span
    )


def _lists(statement: ast.Show, names: Namespaces) -> tuple[str, Iterable[str]] | None:
    """The column's name and the entries of the statements that list names; None for the others."""
    match statement.what:
        case "CATALOGS":
            return "catalog name", names.catalogs
        case "DATABASES":
            name = statement.name
            catalog = names.catalog if name is None else names.find_catalog(name.parts[0]).name
            return "database name", names.catalogs[catalog].databases
        case "TABLES":
            return "table name", names.objects(*_place(statement, names))
        case "VIEWS":
            found = names.objects(*_place(statement, names))
            return "view name", [n for n, what in found.items() if isinstance(what, View)]
        case "USER FUNCTIONS":
            return "function name", names.functions(*_place(statement, names))
        case "FUNCTIONS":
            return "function name", {*BUILT_IN, *names.functions(*_place(statement, names))}
        case "MODULES":
            return "module name", MODULES
        case "JARS":
            return "jars", ()
        case "JOBS":
            return "job id", ()
        case "PROCEDURES":
            return "procedure name", ()
        case "MODELS":
            return "model name", ()
    return None


def _place(statement: ast.Show, names: Namespaces) -> tuple[str, str]:
    """Catalog and database of FROM or IN."""
    if statement.name is None:
        return names.catalog, names.database
    catalog, database = names.find_database(statement.name)
    return catalog.name, database.name


def _of_kind(statement: ast.Show, names: Namespaces) -> Table | View:
    assert statement.name is not None
    word = statement.what.removeprefix("CREATE ").lower()
    found = names.find(statement.name)
    if found is None:
        raise names.missing(
            statement.name,
            f"Could not execute SHOW {statement.what}. {word.capitalize()} with identifier"
            f" {names.path(statement.name).quoted} does not exist.",
            None,
        )
    if isinstance(found, View) != (word == "view"):
        other = "view" if isinstance(found, View) else "table"
        raise script_error(
            "PLAN-086",
            f"SHOW {statement.what} is only supported for {word}s, but {found.path.quoted} is a {other}. Please use"
            f" SHOW CREATE {other.upper()} instead.",
            statement.name.span,
        )
    return found


def _create_text(found: Table | View, columns: Sequence[str]) -> str:
    path = (found.catalog, found.database, found.name)
    assert found.statement is not None
    if isinstance(found, View):
        return create_view_text(found.statement, path, columns).rstrip("\n")
    options = redacted({o.key: o.value for o in found.statement.options})
    resolved = {c.name: t.materialized(c.type) for c in found.schema.columns}
    typed = tuple(
        replace(c, type=resolved[c.name.name])
        if isinstance(c, (ast.PhysicalColumn, ast.MetadataColumn))
        else c
        for c in found.statement.columns
    )
    shown = replace(found.statement, columns=typed)
    return create_table_text(shown, path, options.items()).rstrip("\n")


def _create_catalog_text(name: ast.Identifier, names: Namespaces) -> str:
    catalog = names.find_catalog(name)
    lines = [f"CREATE CATALOG {_quoted(catalog.name)}"]
    if catalog.comment:
        lines.append(f"COMMENT {_text(catalog.comment)}")
    options = [f"  {_text(k)} = {_text(v)}" for k, v in sorted(redacted(catalog.options).items())]
    return "\n".join([*lines, "WITH (", ",\n".join(options), ")"])


def _no_partitions(name: ast.QualifiedName, names: Namespaces) -> str:
    found = names.find(name)
    if found is None:
        raise _no_table(name, names)
    raise script_error(
        "PLAN-086",
        f"Table {found.identifier} has no partitions to show: topics are not partitioned by columns",
        name.span,
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


# --- DESCRIBE ------------------------------------------------------------------------------------


def _no_table(name: ast.QualifiedName, names: Namespaces) -> ScriptError:
    return names.missing(
        name,
        f"Tables or views with the identifier '{names.path(name)}' doesn't exist.",
        "SHOW TABLES lists what is there",
    )


def find_described(name: ast.QualifiedName, names: Namespaces) -> Table | View:
    found = names.find(name)
    if found is None:
        raise _no_table(name, names)
    return found


def columns_box(schema: Schema, wanted: Callable[[str], bool] = lambda name: True) -> str:
    """DESCRIBE and SHOW COLUMNS: name, type, null, key, extras, watermark, and comments where there are any."""
    key = f"PRI({', '.join(schema.primary_key)})"
    mark = schema.watermark
    with_comments = any(c.comment for c in schema.columns)
    rows = []
    for column in schema.columns:
        is_rowtime = mark is not None and mark.column == column.name
        row = [
            column.name,
            str(column.type.as_nullable),
            "TRUE" if column.type.nullable else "FALSE",
            key if column.name in schema.primary_key else None,
            _extras(column),
            print_full_expression(mark.expression) if mark is not None and is_rowtime else None,
        ]
        if wanted(column.name):
            rows.append([*row, column.comment] if with_comments else row)
    head = ["name", "type", "null", "key", "extras", "watermark"]
    return box([*head, "comment"] if with_comments else head, rows)


def _extras(column: Column) -> str | None:
    if isinstance(column, Computed):
        return f"AS {print_full_expression(column.expression)}"
    if isinstance(column, Metadata):
        source = "" if column.key == column.name else f" FROM {_text(column.key)}"
        return f"METADATA{source}{' VIRTUAL' if column.virtual else ''}"
    return None


def describe_catalog(statement: ast.Describe, names: Namespaces) -> str:
    catalog = names.find_catalog(statement.name.parts[0])
    rows: list[list[str | None]] = [
        ["name", catalog.name],
        ["type", catalog.options.get("type", "")],
        ["comment", catalog.comment],
    ]
    if statement.extended:
        shown = sorted(redacted(catalog.options).items())
        rows += [[f"option:{k}", v] for k, v in shown if k != "type"]
    return box(["info name", "info value"], rows)


def describe_database(statement: ast.Describe, names: Namespaces) -> str:
    catalog, database = names.find_database(statement.name)
    rows: list[list[str | None]] = [
        ["catalog", catalog.name],
        ["name", database.name],
        ["comment", database.comment],
    ]
    if statement.extended:
        rows += [[f"option:{k}", v] for k, v in sorted(redacted(database.options).items())]
    return box(["info name", "info value"], rows)


def describe_function(
    statement: ast.Describe, names: Namespaces, function: PythonFunction | None
) -> str:
    word = str(statement.name).lower()
    if function is None and word not in BUILT_IN:
        raise script_error(
            "PLAN-059",
            f"Function with the identifier '{statement.name}' doesn't exist.",
            statement.name.span,
            "SHOW FUNCTIONS lists what is there",
        )
    if function is None:
        kind = "AGGREGATE" if word.upper() in AGGREGATES else "SCALAR"
        rows = [["is system function", "true"], ["is temporary", "false"]]
        if statement.extended:
            forms = [f.signature for f in FUNCTIONS.get(word.upper(), ())]
            rows += [["kind", kind], *(["signature", form] for form in forms)]
        return box(["info name", "info value"], rows)
    temporary = [*names.temporary_functions.values(), *names.system_functions.values()]
    rows = [
        ["is system function", "false"],
        ["is temporary", str(any(f is function for f in temporary)).lower()],
        ["class name", function.implementation],
        ["function language", "PYTHON"],
    ]
    if statement.extended:
        rows += [
            ["kind", function.kind.upper()],
            ["is deterministic", str(function.deterministic).lower()],
            ["signature", f"{function.signature} => {function.result}"],
        ]
    return box(["info name", "info value"], rows)


def view_schema(names: Sequence[str], columns: Sequence[t.Field]) -> Schema:
    """A view's columns as DESCRIBE shows them."""
    return Schema(tuple(Column(n, c.type) for n, c in zip(names, columns, strict=True)))


__all__ = [
    "box",
    "columns_box",
    "describe_catalog",
    "describe_database",
    "describe_function",
    "find_described",
    "show",
    "view_schema",
]

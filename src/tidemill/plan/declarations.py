"""CREATE TABLE statements made from others: LIKE, ALTER TABLE and AS SELECT.

In: the tree of a table and what is to be changed. Out: the tree of a CREATE TABLE without LIKE or query, which
`plan.tables` binds like any other. Law: rules about tables stay in one place; a part keeps the span of the text that it
came from, so that a mistake in an ALTER is shown there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from tidemill import types as t
from tidemill.errors import ScriptError, Span, did_you_mean, script_error
from tidemill.sql import ast

# --- parts of a statement ------------------------------------------------------------------------


def primary_key(statement: ast.CreateTable) -> ast.PrimaryKey | None:
    """The key, wherever it is written."""
    if statement.primary_key is not None:
        return statement.primary_key
    for column in statement.columns:
        if isinstance(column, ast.PhysicalColumn) and column.primary_key:
            return ast.PrimaryKey(column.span, None, (column.name,), column.enforced)
    return None


def with_key_apart(statement: ast.CreateTable) -> ast.CreateTable:
    """The same table with its key as a constraint of its own. A second key stays where it is, to be refused."""
    if statement.primary_key is not None:
        return statement
    key = primary_key(statement)
    if key is None:
        return statement
    columns = tuple(
        replace(c, primary_key=False, enforced=None)
        if isinstance(c, ast.PhysicalColumn) and c.name == key.columns[0]
        else c
        for c in statement.columns
    )
    return replace(statement, columns=columns, primary_key=key)


def key_name(key: ast.PrimaryKey) -> str:
    """A constraint's name; Flink makes one up where none is written."""
    return key.name.name if key.name else "PK_" + "_".join(c.name for c in key.columns)


def _column_names(expression: ast.Expression) -> Iterator[str]:
    """Names at the top of every column reference in an expression."""
    found = (n for n in ast.walk(expression) if isinstance(n, ast.ColumnReference))
    return (reference.name.parts[0].name for reference in found)


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"`{n}`" for n in names)


# --- LIKE ----------------------------------------------------------------------------------------

# What holds for a feature that LIKE does not mention, as in Flink.
_DEFAULTS = {
    "OPTIONS": "OVERWRITING",
    "WATERMARKS": "INCLUDING",
    "GENERATED": "INCLUDING",
    "METADATA": "INCLUDING",
    "CONSTRAINTS": "INCLUDING",
    "DISTRIBUTION": "INCLUDING",
    "PARTITIONS": "INCLUDING",
}


def like(statement: ast.CreateTable, base: ast.CreateTable) -> ast.CreateTable:
    """The statement with what LIKE takes over from the base table."""
    assert statement.like is not None
    rules = _like_rules(statement.like)
    own, base = with_key_apart(statement), with_key_apart(base)
    return replace(
        own,
        columns=_like_columns(own.columns, base.columns, rules),
        watermark=_like_watermark(own, base, rules["WATERMARKS"]),
        primary_key=_like_part(own.primary_key, base.primary_key, rules, "CONSTRAINTS"),
        options=_like_options(own.options, base.options, rules["OPTIONS"]),
        partitioned_by=_like_partitions(own, base, rules["PARTITIONS"]),
        distribution=_like_part(own.distribution, base.distribution, rules, "DISTRIBUTION"),
        like=None,
        vendor=own.vendor or (None if own.names_connector else base.vendor),
    )


def _like_rules(node: ast.TableLike) -> dict[str, str]:
    """What to do with each feature. That none is named twice, the parser has seen to."""
    rules = dict(_DEFAULTS)
    for option in node.options:
        if option.feature == "ALL":
            rules = dict.fromkeys(_DEFAULTS, option.behaviour)
    rules |= {o.feature: o.behaviour for o in node.options if o.feature != "ALL"}
    return rules


_ColumnKind = type[ast.ColumnDefinition]
# Kinds of columns that LIKE can leave out or overwrite: what Flink calls them, and the feature.
_GENERATED: dict[_ColumnKind, tuple[str, str, str]] = {
    ast.ComputedColumn: ("Computed", "generated", "GENERATED"),
    ast.MetadataColumn: ("Metadata", "metadata", "METADATA"),
}


def _like_columns(
    own: Sequence[ast.ColumnDefinition],
    base: Sequence[ast.ColumnDefinition],
    rules: Mapping[str, str],
) -> tuple[ast.ColumnDefinition, ...]:
    def is_kept(column: ast.ColumnDefinition) -> bool:
        kind = _GENERATED.get(type(column))
        return kind is None or rules[kind[2]] != "EXCLUDING"

    merged = {c.name.name: c for c in base if is_kept(c)}
    taken = set(merged)
    doubled: list[ast.ColumnDefinition] = []
    for column in own:
        name = column.name.name
        if name not in merged:
            merged[name] = column
            continue
        if name not in taken:
            doubled.append(column)  # twice in the statement itself: refused when it is bound
            continue
        kind = _GENERATED.get(type(column))
        if kind is None:
            raise script_error(
                "PLAN-083",
                f"A column named '{name}' already exists in the base table.",
                column.name.span,
                "leave it out: LIKE takes it over",
            )
        if type(merged[name]) is not type(column):
            raise script_error(
                "PLAN-083",
                f"A column named '{name}' already exists in the base table."
                f" {kind[0]} columns can only overwrite other {kind[0].lower()} columns.",
                column.name.span,
            )
        if rules[kind[2]] != "OVERWRITING":
            raise script_error(
                "PLAN-083",
                f"A {kind[1]} column named '{name}' already exists in the base table. You might want to specify"
                f" EXCLUDING {kind[2]} or OVERWRITING {kind[2]}.",
                column.name.span,
            )
        merged[name] = column
        taken.discard(name)
    return (*merged.values(), *doubled)


def _like_watermark(
    own: ast.CreateTable, base: ast.CreateTable, rule: str
) -> ast.WatermarkDefinition | None:
    if base.watermark is None or rule == "EXCLUDING" or own.watermark is None:
        return own.watermark or (None if rule == "EXCLUDING" else base.watermark)
    if rule != "OVERWRITING":
        raise script_error(
            "PLAN-083",
            f"There already exists a watermark spec for column '{base.watermark.column}' in the base table. You might"
            " want to specify EXCLUDING WATERMARKS or OVERWRITING WATERMARKS.",
            own.watermark.span,
        )
    return own.watermark


# What Flink calls the parts that exist once at the most.
_SINGLE = {"CONSTRAINTS": "a primary key", "DISTRIBUTION": "a distribution defined"}


_Part = TypeVar("_Part", bound=ast.Node)


def _like_part(
    own: _Part | None, base: _Part | None, rules: Mapping[str, str], feature: str
) -> _Part | None:
    if rules[feature] == "EXCLUDING":
        return own
    if own is not None and base is not None:
        raise script_error(
            "PLAN-083",
            f"The base table already has {_SINGLE[feature]}. You might want to specify EXCLUDING {feature}.",
            own.span,
        )
    return own or base


def _like_partitions(
    own: ast.CreateTable, base: ast.CreateTable, rule: str
) -> tuple[ast.Identifier, ...]:
    if rule == "EXCLUDING":
        return own.partitioned_by
    if own.partitioned_by and base.partitioned_by:
        raise script_error(
            "PLAN-083",
            "The base table already has partitions defined. You might want to specify EXCLUDING PARTITIONS.",
            own.partitioned_by[0].span,
        )
    return own.partitioned_by or base.partitioned_by


def _like_options(
    own: Sequence[ast.Option], base: Sequence[ast.Option], rule: str
) -> tuple[ast.Option, ...]:
    if rule == "EXCLUDING":
        return tuple(own)
    known = {o.key: o for o in base}
    for option in own:
        if rule != "OVERWRITING" and option.key in known:
            raise script_error(
                "PLAN-083",
                f"There already exists an option '{option.key}' in the base table. You might want to specify EXCLUDING"
                " OPTIONS or OVERWRITING OPTIONS.",
                option.span,
            )
    return merged_options(base, own)


def merged_options(
    options: Iterable[ast.Option], changes: Sequence[ast.Option]
) -> tuple[ast.Option, ...]:
    """The options with the changes over them."""
    changed = {o.key for o in changes}
    return (*(o for o in options if o.key not in changed), *changes)


# --- ALTER TABLE ---------------------------------------------------------------------------------


def altered(statement: ast.CreateTable, change: ast.TableChange, span: Span) -> ast.CreateTable:
    """The statement as one change of ALTER TABLE makes it; `span` is the ALTER."""
    table = with_key_apart(statement)
    match change:
        case ast.SetOptions():
            return replace(table, options=merged_options(table.options, change.options))
        case ast.ResetOptions():
            return _reset(table, change)
        case ast.RenameColumn():
            return _rename_column(table, change)
        case ast.AddElements():
            return _add(table, change)
        case ast.ModifyElements():
            return _modify(table, change)
        case ast.DropColumns():
            return _drop_columns(table, change)
        case ast.DropElement():
            return _drop_element(table, change)
    raise script_error("PLAN-084", "ALTER TABLE cannot do this", span)


def _refuse(message: str, span: Span, hint: str | None = None) -> ScriptError:
    return script_error("PLAN-084", message, span, hint)


def _reset(table: ast.CreateTable, change: ast.ResetOptions) -> ast.CreateTable:
    if not change.keys:
        raise _refuse("ALTER TABLE RESET does not support empty key", change.span)
    for key, span in zip(change.keys, change.key_spans, strict=True):
        if key == "connector":
            raise _refuse(
                "ALTER TABLE RESET does not support changing 'connector'",
                span,
                "DROP the table and create it anew",
            )
    return replace(table, options=tuple(o for o in table.options if o.key not in change.keys))


def _rename_column(table: ast.CreateTable, change: ast.RenameColumn) -> ast.CreateTable:
    old = _simple(change.column)
    _check_unused(table, old, set())
    if any(c.name.name == change.to.name for c in table.columns):
        raise _refuse(
            f"The column `{change.to.name}` already existed in table schema.", change.to.span
        )
    columns = tuple(_renamed(c, change.to) if c.name.name == old.name else c for c in table.columns)
    key = table.primary_key
    if key is not None:
        named = tuple(change.to if c.name == old.name else c for c in key.columns)
        key = replace(key, columns=named)
    return replace(table, columns=columns, primary_key=key)


def _renamed(column: ast.ColumnDefinition, to: ast.Identifier) -> ast.ColumnDefinition:
    if isinstance(column, ast.MetadataColumn):
        return replace(column, name=to, key=column.key or column.name.name)
    return replace(column, name=to)


def _add(table: ast.CreateTable, change: ast.AddElements) -> ast.CreateTable:
    known = {c.name.name for c in table.columns}
    columns = list(table.columns)
    for placed in change.columns:
        name = placed.definition.name
        if name.name in known:
            raise _refuse(
                f"Column `{name.name}` already exists in the table.",
                name.span,
                "write MODIFY to change it",
            )
        known.add(name.name)
        columns.insert(_place(columns, placed, len(columns)), placed.definition)
    if change.watermark is not None and table.watermark is not None:
        raise _refuse(
            f"The current table has already defined the watermark strategy on `{table.watermark.column}`. You might"
            " want to drop it before adding a new one.",
            change.watermark.span,
        )
    key = change.primary_key or _inline_key(change.columns)
    if key is not None and table.primary_key is not None:
        raise _refuse(
            f"The current table has already defined the primary key constraint"
            f" [{_quoted(c.name for c in table.primary_key.columns)}]. You might want to drop it before adding a new"
            " one.",
            key.span,
        )
    if change.distribution is not None and table.distribution is not None:
        raise _refuse(
            "You can modify it or drop it before adding a new one: the table has a distribution.",
            change.distribution.span,
        )
    return replace(
        table,
        columns=tuple(columns),
        watermark=change.watermark or table.watermark,
        primary_key=change.primary_key or table.primary_key,
        distribution=change.distribution or table.distribution,
    )


def _inline_key(columns: Iterable[ast.PlacedColumn]) -> ast.ColumnDefinition | None:
    inline = (p.definition for p in columns)
    return next((c for c in inline if isinstance(c, ast.PhysicalColumn) and c.primary_key), None)


def _modify(table: ast.CreateTable, change: ast.ModifyElements) -> ast.CreateTable:
    columns = list(table.columns)
    seen: set[str] = set()
    for placed in change.columns:
        name = placed.definition.name
        names = [c.name.name for c in columns]
        if name.name not in names:
            raise _refuse(
                f"Column `{name.name}` does not exist in the table.",
                name.span,
                did_you_mean(name.name, names, "write ADD to add it"),
            )
        if name.name in seen:
            raise _refuse(f"Encounter duplicate column `{name.name}`.", name.span)
        seen.add(name.name)
        at = names.index(name.name)
        old = columns.pop(at)
        definition = placed.definition
        if definition.comment is None:
            definition = replace(definition, comment=old.comment)
        columns.insert(_place(columns, placed, at), definition)
    key = change.primary_key or _inline_key(change.columns)
    if key is not None and table.primary_key is None:
        raise _refuse(
            "The current table does not define any primary key constraint. You might want to add a new one.",
            key.span,
        )
    if change.watermark is not None and table.watermark is None:
        raise _refuse(
            "The current table does not define any watermark. You might want to add a new one.",
            change.watermark.span,
        )
    if change.distribution is not None and table.distribution is None:
        raise _refuse(
            "The current table does not define any distribution. You might want to add a new one.",
            change.distribution.span,
        )
    inline = key if isinstance(key, ast.ColumnDefinition) else None
    return replace(
        table,
        columns=tuple(columns),
        watermark=change.watermark or table.watermark,
        primary_key=None if inline else change.primary_key or table.primary_key,
        distribution=change.distribution or table.distribution,
    )


def _place(
    columns: Sequence[ast.ColumnDefinition], placed: ast.PlacedColumn, otherwise: int
) -> int:
    if placed.first:
        return 0
    if placed.after is None:
        return otherwise
    after, names = _simple(placed.after), [c.name.name for c in columns]
    if after.name not in names:
        raise _refuse(
            f"Referenced column `{after.name}` by 'AFTER' does not exist in the table.",
            after.span,
            did_you_mean(after.name, names),
        )
    return names.index(after.name) + 1


def _drop_columns(table: ast.CreateTable, change: ast.DropColumns) -> ast.CreateTable:
    dropped: dict[str, ast.Identifier] = {}
    for column in change.columns:
        name = _simple(column)
        if name.name in dropped:
            raise _refuse(f"Duplicate column `{name.name}`.", name.span)
        dropped[name.name] = name
    for name in dropped.values():
        _check_unused(table, name, set(dropped))
        if table.primary_key and name.name in [c.name for c in table.primary_key.columns]:
            raise _refuse(
                f"The column `{name.name}` is used as the primary key.",
                name.span,
                "ALTER TABLE … DROP PRIMARY KEY first",
            )
    kept = tuple(c for c in table.columns if c.name.name not in dropped)
    if not kept:
        raise _refuse("a table needs a column", change.span)
    return replace(table, columns=kept)


def _drop_element(table: ast.CreateTable, change: ast.DropElement) -> ast.CreateTable:
    if change.what == "WATERMARK":
        if table.watermark is None:
            raise _refuse("The current table does not define any watermark strategy.", change.span)
        return replace(table, watermark=None)
    if change.what == "DISTRIBUTION":
        if table.distribution is None:
            raise _refuse("Table does not have a distribution to drop.", change.span)
        return replace(table, distribution=None)
    key = table.primary_key
    if key is None:
        raise _refuse("The current table does not define any primary key.", change.span)
    if change.constraint is not None and change.constraint.name != key_name(key):
        raise _refuse(
            f"The current table does not define a primary key constraint named '{change.constraint.name}'. Available"
            f" constraint name: ['{key_name(key)}'].",
            change.constraint.span,
        )
    return replace(table, primary_key=None)


def _simple(name: ast.QualifiedName) -> ast.Identifier:
    if len(name.parts) > 1:
        path = "`.`".join(p.name for p in name.parts)
        raise _refuse(f"Altering the nested row type `{path}` is not supported yet.", name.span)
    return name.parts[0]


def _check_unused(table: ast.CreateTable, name: ast.Identifier, also: set[str]) -> None:
    """Nothing but the columns that go as well may need a column that goes."""
    names = [c.name.name for c in table.columns]
    if name.name not in names:
        raise _refuse(
            f"The column `{name.name}` does not exist in the base table.",
            name.span,
            did_you_mean(name.name, names, f"its columns are {', '.join(names)}"),
        )
    users = [
        c.name.name
        for c in table.columns
        if isinstance(c, ast.ComputedColumn)
        and c.name.name not in also
        and name.name in _column_names(c.expression)
    ]
    if users:
        raise _refuse(
            f"The column `{name.name}` is referenced by computed column {_quoted(users)}.",
            name.span,
        )
    if name.name in [p.name for p in table.partitioned_by]:
        raise _refuse(f"The column `{name.name}` is used as the partition keys.", name.span)
    mark = table.watermark
    if mark and name.name in (mark.column.parts[0].name, *_column_names(mark.expression)):
        raise _refuse(
            f"The column `{name.name}` is referenced by watermark expression.",
            name.span,
            "ALTER TABLE … DROP WATERMARK first",
        )
    if table.distribution and name.name in [c.name for c in table.distribution.columns]:
        raise _refuse(f"The column `{name.name}` is used as a distribution key.", name.span)


# --- AS SELECT -----------------------------------------------------------------------------------


def as_select(statement: ast.CreateTable, produced: Sequence[t.Field]) -> ast.CreateTable:
    """The table of CREATE TABLE … AS SELECT, from the columns that its query gives."""
    assert statement.query is not None
    span = statement.query.span
    if statement.temporary:
        raise script_error(
            "PLAN-085",
            "CREATE TABLE AS SELECT syntax does not support to create temporary table yet.",
            statement.name.span,
            "leave out TEMPORARY: a table is gone with the session anyway",
        )
    given: dict[str, ast.ColumnDefinition] = {}
    for column in produced:
        type_ = t.materialized(column.type)
        if isinstance(type_, t.NullType):
            raise script_error(
                "PLAN-085",
                f"column '{column.name}' of the query has no type",
                span,
                "give it one: CAST(NULL AS …)",
            )
        name = ast.Identifier(span, column.name)
        given[column.name] = ast.PhysicalColumn(span, name, None, type_, span)
    columns = _merge_with_query(statement, given)
    return replace(statement, columns=columns, query=None)


def _merge_with_query(
    statement: ast.CreateTable, given: dict[str, ast.ColumnDefinition]
) -> tuple[ast.ColumnDefinition, ...]:
    own = statement.columns
    if own and all(isinstance(c, ast.NamedColumn) for c in own):
        return _reordered(own, given)
    first: list[ast.ColumnDefinition] = []
    merged = dict(given)
    for place, column in enumerate(own):
        name = column.name.name
        source = given.get(name)
        if source is None:
            first.append(column)
            continue
        assert isinstance(source, ast.PhysicalColumn)
        if isinstance(column, ast.ComputedColumn):
            raise script_error(
                "PLAN-085",
                f"A column named '{name}' already exists in the source schema. Computed columns cannot overwrite"
                " columns from source.",
                column.name.span,
            )
        if isinstance(column, ast.MetadataColumn) and column.virtual:
            raise script_error(
                "PLAN-085",
                f"A column named '{name}' already exists in the source schema. Virtual metadata columns cannot"
                " overwrite columns from source.",
                column.name.span,
            )
        assert isinstance(column, (ast.PhysicalColumn, ast.MetadataColumn))
        if not t.can_assign(source.type, column.type):
            raise script_error(
                "PLAN-085",
                f"Incompatible types for sink column '{name}' at position {place}. The source column has type"
                f" '{source.type}', while the target column has type '{column.type}'.",
                column.type_span,
                "a CAST in the query may help",
            )
        merged[name] = column
    return (*first, *merged.values())


def _reordered(
    names: Sequence[ast.ColumnDefinition], given: Mapping[str, ast.ColumnDefinition]
) -> tuple[ast.ColumnDefinition, ...]:
    for column in names:
        if column.name.name not in given:
            raise script_error(
                "PLAN-085",
                f"Column '{column.name.name}' not found in the source schema.",
                column.name.span,
                did_you_mean(column.name.name, list(given)),
            )
    if len(names) != len(given):
        raise script_error(
            "PLAN-085",
            "The number of columns in the column list must match the number of columns in the source schema.",
            names[0].span.to(names[-1].span),
            f"the query gives {', '.join(given)}",
        )
    return tuple(replace(given[c.name.name], name=c.name, span=c.span) for c in names)


__all__ = ["altered", "as_select", "key_name", "like", "merged_options", "primary_key"]

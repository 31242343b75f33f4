"""Queries: from the tree to a plan. In: a syntax tree and a catalog. Out: plan nodes.

Column pruning happens here, as the last step, so that a scan names exactly the columns that are read.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from tidemill import types as t
from tidemill.errors import Diagnostic, ScriptError, Span, did_you_mean, script_error
from tidemill.functions import PythonFunction
from tidemill.plan import nodes
from tidemill.plan.expressions import (
    AggregateCall,
    Call,
    Expr,
    Input,
    Literal,
    describe,
    inputs,
    rewrite,
    walk,
)
from tidemill.plan.scope import Relation, Scope, cast, not_yet
from tidemill.plan.user_functions import FindFunction, no_function
from tidemill.sql import ast
from tidemill.tables import check_insert, check_read
from tidemill.tables.catalog import (
    Column,
    Computed,
    Metadata,
    Table,
    View,
)
from tidemill.tables.upsert_kafka import UpsertKafkaTable


class Catalog(Protocol):
    """Where the binder looks names up."""

    def find(self, name: ast.QualifiedName) -> Table | View: ...

    def function(self, name: ast.QualifiedName) -> PythonFunction | None: ...

    def within(self, found: Table | View) -> Catalog:
        """The same names, short ones counted from where a table or view stands."""
        ...

    def warn(self, warning: Diagnostic) -> None: ...


# --- queries -------------------------------------------------------------------------------------


def bind_query(query: ast.Query, catalog: Catalog) -> nodes.Node:
    return prune(_Binder(catalog).query(query))


def bind_insert(statement: ast.Insert, catalog: Catalog) -> nodes.Sink:
    target = catalog.find(statement.target)
    if isinstance(target, View):
        raise script_error(
            "PLAN-050", f"'{target.name}' is a view and cannot be written", statement.target.span
        )
    if statement.overwrite:
        raise script_error(
            "PLAN-051",
            "INSERT OVERWRITE does not exist for a Kafka topic",
            statement.span,
            "use INSERT INTO",
        )
    if statement.hints:
        raise not_yet("hints on the target of INSERT", statement.hints[0].span)
    check_insert(target, statement.target.span)
    _refuse_header_list(target, target.schema.writable, statement.target.span)
    query = _Binder(catalog).query(statement.query)
    return nodes.Sink(target, prune(_fit(statement, query, target)), statement.target.span)


def _fit(statement: ast.Insert, query: nodes.Node, table: Table) -> nodes.Node:
    """Bring the query's columns to the table's, by position, with the casts that need not be written."""
    writable = table.schema.writable
    targets: list[Column] = list(writable)
    if statement.columns:
        targets = []
        for part in statement.columns:
            found = next((c for c in writable if c.name == part.name), None)
            if found is None:
                names = [c.name for c in writable]
                raise script_error(
                    "PLAN-003",
                    f"column '{part.name}' not found in table '{table.name}'",
                    part.span,
                    did_you_mean(part.name, names, f"its columns are {', '.join(names)}"),
                )
            targets.append(found)
    mismatch = len(query.columns) != len(targets)
    wrong = [
        (c, f)
        for c, f in zip(targets, query.columns, strict=False)
        if not t.can_assign(f.type, c.type)
    ]
    if mismatch or wrong:
        schema = ", ".join(f"{c.name}: {c.type.as_nullable}" for c in targets)
        given = ", ".join(f"{f.name}: {f.type.as_nullable}" for f in query.columns)
        cause = (
            "different number of columns"
            if mismatch
            else f"incompatible types for sink column '{wrong[0][0].name}'"
        )
        hint = (
            f"the query has {len(query.columns)}, the table takes {len(targets)}"
            if mismatch
            else f"write CAST(… AS {wrong[0][0].type.as_nullable})"
        )
        raise script_error(
            "PLAN-053",
            f"Column types of query result and sink for '{table.identifier}' do not match. Cause: {cause}."
            f" Query schema: [{given}]. Sink schema: [{schema}]",
            statement.query.span,
            hint,
        )
    at = {c.name: i for i, c in enumerate(targets)}
    span = statement.query.span
    expressions: list[Expr] = []
    for column in writable:
        if column.name in at:
            field = query.columns[at[column.name]]
            expressions.append(
                cast(Input(field.type, at[column.name], field.name), column.type, span)
            )
        elif column.type.nullable:
            expressions.append(Literal(column.type.as_nullable, None))
        else:
            raise script_error(
                "PLAN-054",
                f"column '{column.name}' of '{table.name}' is NOT NULL and needs a value",
                span,
            )
    written = tuple(c.name for c in writable)
    same = all(isinstance(e, Input) and e.index == i for i, e in enumerate(expressions))
    if same and tuple(c.name for c in query.columns) == written:
        return query
    return nodes.Project(query, tuple(expressions), written)


class _Binder:
    def __init__(self, catalog: Catalog, common: Mapping[str, nodes.Node] | None = None) -> None:
        self._catalog = catalog
        self._common = dict(common or {})

    def query(self, query: ast.Query) -> nodes.Node:
        if query.order_by:
            raise not_yet("ORDER BY", query.order_by[0].span)
        if query.limit is not None or query.offset is not None:
            raise not_yet("LIMIT", (query.limit or query.offset).span)  # type: ignore[union-attr]
        inner = _Binder(self._catalog, self._common)
        for table in query.common_tables:
            node = inner.query(table.query)
            inner._common[table.name.name] = _rename(node, table.columns, table)
        return inner._body(query.body)

    def _body(self, body: ast.QueryBody) -> nodes.Node:
        match body:
            case ast.Select():
                return self._select(body)
            case ast.NestedQuery():
                return self.query(body.query)
            case ast.Values():
                return self._values(body)
            case ast.SetOperation(operator="UNION"):
                union = self._union(body)
                return union if body.all else _distinct(union)
            case ast.SetOperation():
                raise not_yet(body.operator, body.span)
        raise script_error("PLAN-005", "this query cannot stand here", body.span)

    def _values(self, body: ast.Values) -> nodes.Node:
        rows = [[self._scope().bind(item) for item in row.items] for row in body.rows]
        width = len(rows[0])
        for row, node in zip(rows, body.rows, strict=True):
            if len(row) != width:
                raise script_error(
                    "PLAN-055", f"this row has {len(row)} values, the first has {width}", node.span
                )
        types = [_merge([row[i].type for row in rows], body) for i in range(width)]
        bound = tuple(
            tuple(cast(e, x, body.span) for e, x in zip(row, types, strict=True)) for row in rows
        )
        fields = tuple(t.Field(f"EXPR${i}", x) for i, x in enumerate(types))
        return nodes.Values(bound, fields)

    def _union(self, body: ast.SetOperation) -> nodes.Node:
        sides = [self._body(body.left), self._body(body.right)]
        if len(sides[0].columns) != len(sides[1].columns):
            raise script_error(
                "PLAN-055",
                f"UNION of {len(sides[0].columns)} and {len(sides[1].columns)} columns",
                body.right.span,
            )
        types = [
            _merge([s.columns[i].type for s in sides], body) for i in range(len(sides[0].columns))
        ]
        names = tuple(c.name for c in sides[0].columns)
        parts: list[nodes.Node] = []
        for side in sides:
            fields = [
                cast(Input(c.type, i, c.name), x, body.span)
                for i, (c, x) in enumerate(zip(side.columns, types, strict=True))
            ]
            exact = all(isinstance(f, Input) for f in fields)
            parts.append(side if exact else nodes.Project(side, tuple(fields), names))
        flat = [
            p for part in parts for p in (part.parts if isinstance(part, nodes.Union) else (part,))
        ]
        return nodes.Union(tuple(flat), names)

    def _select(self, body: ast.Select) -> nodes.Node:
        if body.qualify is not None:
            raise not_yet("QUALIFY", body.qualify.span)
        if body.windows:
            raise not_yet("the WINDOW clause", body.windows[0][1].span)
        if body.source is None:
            node: nodes.Node = nodes.Values(((),), ())
            scope = self._scope()
        else:
            node, scope = self._relation(body.source)
        if body.where is not None:
            condition = scope.condition(body.where, "WHERE")
            if any(isinstance(e, AggregateCall) for e in walk(condition)):
                raise script_error(
                    "PLAN-056", "an aggregate cannot stand in WHERE", body.where.span, "use HAVING"
                )
            node = nodes.Filter(node, condition)
        items = self._items(body, scope)
        having = None if body.having is None else scope.condition(body.having, "HAVING")
        grouped = body.group_by is not None or any(
            isinstance(e, AggregateCall) for _, item, _ in items for e in walk(item)
        )
        if grouped or having is not None:
            node, items, having = self._group(body, scope, node, items, having)
        if having is not None:
            node = nodes.Filter(node, having)
        names = tuple(name for name, _, _ in items)
        expressions = tuple(expr for _, expr, _ in items)
        identity = all(isinstance(e, Input) and e.index == i for i, e in enumerate(expressions))
        if not (identity and names == tuple(c.name for c in node.columns)):
            node = nodes.Project(node, expressions, names)
        return _distinct(node) if body.distinct else node

    def _items(self, body: ast.Select, scope: Scope) -> list[tuple[str, Expr, ast.Node]]:
        items: list[tuple[str, Expr, ast.Node]] = []
        for item in body.items:
            if isinstance(item.expression, ast.Star):
                items += [(c.name, c, item) for c in scope.star(item.expression)]
                continue
            bound = scope.bind(item.expression)
            if item.alias is not None:
                name = item.alias.name
            elif isinstance(item.expression, ast.ColumnReference):
                name = item.expression.name.parts[-1].name
            else:
                name = f"EXPR${len(items)}"
            items.append((name, bound, item))
        return items

    def _group(
        self,
        body: ast.Select,
        scope: Scope,
        node: nodes.Node,
        items: list[tuple[str, Expr, ast.Node]],
        having: Expr | None,
    ) -> tuple[nodes.Node, list[tuple[str, Expr, ast.Node]], Expr | None]:
        keys: list[Expr] = []
        for key in body.group_by or ():
            if isinstance(key, ast.GroupingSet):
                raise not_yet(key.kind, key.span)
            bound = self._group_key(key, body, scope)
            if bound not in keys:
                keys.append(bound)
        grouped = bool(keys)
        calls: list[AggregateCall] = []
        for expr in [e for _, e, _ in items] + ([having] if having else []):
            for found in walk(expr):
                if isinstance(found, AggregateCall) and found not in calls:
                    calls.append(found)
        # The aggregate reads plain columns: keys first, then arguments and filters.
        below: list[Expr] = list(keys)

        def column(expr: Expr) -> Input:
            if expr not in below:
                below.append(expr)
            return Input(expr.type, below.index(expr), describe(expr))

        placed = []
        for call in calls:
            arguments = tuple(column(a) for a in call.arguments)
            condition = None if call.filter is None else column(call.filter)
            # An aggregate of a whole table, which may be empty, is NULL then; a count is 0.
            may_be_empty = not grouped and call.function != "COUNT"
            type_ = call.type.with_nullable(call.type.nullable or may_be_empty)
            placed.append(replace(call, arguments=arguments, filter=condition, type=type_))
        key_names = [describe(k) for k in keys]
        input_names = tuple(describe(e) for e in below)
        source = nodes.Project(node, tuple(below), input_names)
        names = (*key_names, *(f"EXPR${i}" for i in range(len(calls))))
        aggregate = nodes.Aggregate(source, tuple(range(len(keys))), tuple(placed), names)

        def above(expr: Expr) -> Expr | None:
            if expr in keys:
                at = keys.index(expr)
                return Input(expr.type, at, key_names[at])
            if isinstance(expr, AggregateCall):
                at = len(keys) + calls.index(expr)
                return Input(aggregate.columns[at].type, at, names[at])
            return None

        lifted = []
        for name, expr, item in items:
            lifted.append((name, self._lift(expr, above, item), item))
        lifted_having = None
        if having is not None:
            assert body.having is not None
            lifted_having = self._lift(having, above, body.having)
        return aggregate, lifted, lifted_having

    @staticmethod
    def _group_key(key: ast.Expression, body: ast.Select, scope: Scope) -> Expr:
        try:
            bound = scope.bind(key)
        except ScriptError as error:
            aliases = [i.alias.name for i in body.items if i.alias is not None]
            if isinstance(key, ast.ColumnReference) and str(key.name) in aliases:
                found = error.diagnostics[0]
                hint = "GROUP BY cannot use an alias of the select list: repeat the expression"
                raise ScriptError([replace(found, hint=hint)]) from None
            raise
        if any(isinstance(e, AggregateCall) for e in walk(bound)):
            raise script_error("PLAN-056", "an aggregate cannot stand in GROUP BY", key.span)
        return bound

    @staticmethod
    def _lift(expr: Expr, above: object, item: ast.Node) -> Expr:
        marks: list[Input] = []

        def change(e: Expr) -> Expr | None:
            lifted: Expr | None = above(e)  # type: ignore[operator]
            if lifted is None and isinstance(e, Input):
                marks.append(e)
            return lifted

        lifted = rewrite(expr, change)
        if marks:
            raise script_error(
                "PLAN-057",
                f"column '{marks[0].name}' is neither grouped nor inside an aggregate",
                item.span,
                f"add {marks[0].name} to GROUP BY, or wrap it in an aggregate such as MAX",
            )
        return lifted

    # --- FROM --------------------------------------------------------------------------------

    def _relation(self, relation: ast.Relation) -> tuple[nodes.Node, Scope]:
        match relation:
            case ast.TableReference():
                node = self._table(relation)
                name = (relation.alias or relation.name.parts[-1]).name
            case ast.Subquery():
                if relation.lateral:
                    raise not_yet("LATERAL", relation.span)
                node = self.query(relation.query)
                name = relation.alias.name if relation.alias else ""
            case ast.Join():
                kind = "window join" if isinstance(relation.right, ast.TableFunction) else "join"
                raise not_yet(f"{relation.kind} {kind}".lower(), relation.span)
            case ast.TableFunction():
                raise not_yet(f"table function {relation.call.name}", relation.span)
            case _:
                raise script_error("PLAN-005", "this cannot stand in FROM", relation.span)
        node = _rename(node, relation.column_aliases, relation)
        fields = tuple(Input(c.type, i, c.name) for i, c in enumerate(node.columns))
        return node, self._scope(Relation(name or None, fields))

    def _scope(self, *relations: Relation) -> Scope:
        return Scope(relations, self._catalog.function)

    def _table(self, reference: ast.TableReference) -> nodes.Node:
        if reference.as_of is not None:
            raise not_yet("FOR SYSTEM_TIME AS OF", reference.span)
        if reference.hints:
            raise not_yet(f"the hint {reference.hints[0].name}", reference.hints[0].span)
        if len(reference.name.parts) == 1 and reference.name.parts[0].name in self._common:
            return self._common[reference.name.parts[0].name]
        found = self._catalog.find(reference.name)
        if isinstance(found, View):
            node = _Binder(self._catalog.within(found)).query(found.query)
            return _named(node, found.columns)
        for warning in check_read(found, reference.span):
            self._catalog.warn(warning)
        return scan(found, reference.span, self._catalog.within(found).function)


def _refuse_header_list(table: Table, columns: Iterable[Column], span: Span) -> None:
    if any(isinstance(c, Metadata) and c.key == "header-list" for c in columns):
        raise not_yet(f"the metadata 'header-list' of table '{table.name}'", span)


def scan(table: Table, span: Span, functions: FindFunction = no_function) -> nodes.Node:
    """A table with all its columns: what is stored, then what is computed from it."""
    schema = table.schema
    if isinstance(table.connector, UpsertKafkaTable):
        raise not_yet(f"reading the upsert-kafka table '{table.name}'", span)
    _refuse_header_list(table, schema.columns, span)
    stored = tuple(c.name for c in schema.columns if not isinstance(c, Computed))
    node: nodes.Node = nodes.Scan(table, stored)
    if len(stored) == len(schema.columns):
        return node
    fields = tuple(Input(c.type, i, c.name) for i, c in enumerate(node.columns))
    scope = Scope((Relation(table.name, fields),), functions)
    expressions = [
        scope.bind(c.expression)
        if isinstance(c, Computed)
        else next(f for f in fields if f.name == c.name)
        for c in schema.columns
    ]
    return nodes.Project(node, tuple(expressions), tuple(c.name for c in schema.columns))


def _merge(types: list[t.SqlType], body: ast.Node) -> t.SqlType:
    merged = types[0]
    for other in types[1:]:
        common = t.common_type(merged, other)
        if common is None:
            raise script_error(
                "PLAN-019",
                f"the rows have no common type: {merged.as_nullable} and {other.as_nullable}",
                body.span,
                "a CAST may help",
            )
        merged = common
    return merged


def _distinct(node: nodes.Node) -> nodes.Node:
    keys = tuple(range(len(node.columns)))
    return nodes.Aggregate(node, keys, (), tuple(c.name for c in node.columns))


def _rename(node: nodes.Node, names: tuple[ast.Identifier, ...], place: ast.Node) -> nodes.Node:
    if names and len(names) != len(node.columns):
        raise script_error(
            "PLAN-055", f"{len(names)} names for {len(node.columns)} columns", place.span
        )
    return _named(node, tuple(n.name for n in names))


def with_unique_names(node: nodes.Node) -> nodes.Node:
    """What a query shows: a name that was there before gets a number, as in Flink."""
    names: list[str] = []
    for column in node.columns:
        name, numbers = column.name, itertools.count()
        while name in names:
            name = f"{column.name}{next(numbers)}"
        names.append(name)
    return _named(node, tuple(names))


def _named(node: nodes.Node, names: tuple[str, ...]) -> nodes.Node:
    if not names or names == tuple(c.name for c in node.columns):
        return node
    same = tuple(Input(c.type, i, c.name) for i, c in enumerate(node.columns))
    return nodes.Project(node, same, names)


# --- pruning -------------------------------------------------------------------------------------


def prune(root: nodes.Node) -> nodes.Node:
    """Leave out every column that nobody reads, down to the scans."""
    return _prune(root, tuple(range(len(root.columns))))


def _prune(node: nodes.Node, wanted: tuple[int, ...]) -> nodes.Node:
    """The same node with just the wanted columns, in that order."""
    match node:
        case nodes.Scan():
            return nodes.Scan(node.table, tuple(node.names[i] for i in wanted))
        case nodes.Project():
            kept = [node.expressions[i] for i in wanted]
            read = tuple(sorted({i for e in kept for i in inputs(e)}))
            below = _prune(node.input, read)
            moved = tuple(_moved(e, read) for e in kept)
            return _merge_projects(below, moved, tuple(node.names[i] for i in wanted))
        case nodes.Filter():
            read = tuple(sorted({*wanted, *inputs(node.condition)}))
            filtered = nodes.Filter(_prune(node.input, read), _moved(node.condition, read))
            return _pick(filtered, tuple(read.index(i) for i in wanted))
        case nodes.Aggregate():
            return _prune_aggregate(node, wanted)
        case nodes.Union():
            parts = tuple(_prune(p, wanted) for p in node.parts)
            return nodes.Union(parts, tuple(node.names[i] for i in wanted))
        case nodes.Values():
            rows = tuple(tuple(row[i] for i in wanted) for row in node.rows)
            return nodes.Values(rows, tuple(node.fields[i] for i in wanted))
    raise TypeError(type(node))


def _prune_aggregate(node: nodes.Aggregate, wanted: tuple[int, ...]) -> nodes.Node:
    width = len(node.keys)
    kept = [i for i in range(len(node.calls)) if width + i in wanted]
    if node.calls and not kept:
        kept = [
            0
        ]  # without a call the aggregate would become a DISTINCT, which emits fewer changes
    calls = [node.calls[i] for i in kept]
    parts = [p for c in calls for p in (*c.arguments, c.filter) if p is not None]
    read = tuple(sorted({*node.keys, *(i for p in parts for i in inputs(p))}))
    moved = tuple(
        replace(
            c,
            arguments=tuple(_moved(a, read) for a in c.arguments),
            filter=None if c.filter is None else _moved(c.filter, read),
        )
        for c in calls
    )
    names = (*node.names[:width], *(node.names[width + i] for i in kept))
    keys = tuple(read.index(k) for k in node.keys)
    pruned = nodes.Aggregate(_prune(node.input, read), keys, moved, names)
    at = {**{i: i for i in range(width)}, **{width + c: width + n for n, c in enumerate(kept)}}
    return _pick(pruned, tuple(at[i] for i in wanted))


def _moved(expr: Expr, read: tuple[int, ...]) -> Expr:
    def change(e: Expr) -> Expr | None:
        return replace(e, index=read.index(e.index)) if isinstance(e, Input) else None

    return rewrite(expr, change)


def _pick(node: nodes.Node, wanted: tuple[int, ...]) -> nodes.Node:
    if wanted == tuple(range(len(node.columns))):
        return node
    fields = tuple(Input(node.columns[i].type, i, node.columns[i].name) for i in wanted)
    return nodes.Project(node, fields, tuple(f.name for f in fields))


def _merge_projects(
    below: nodes.Node, expressions: tuple[Expr, ...], names: tuple[str, ...]
) -> nodes.Node:
    """One Project where two would stand on each other, unless that would compute something twice."""
    if isinstance(below, nodes.Project):
        costly = {i for i, e in enumerate(below.expressions) if isinstance(e, Call)}
        uses = [i.index for e in expressions for i in walk(e) if isinstance(i, Input)]
        if not any(uses.count(i) > 1 for i in costly):
            lower = below.expressions
            merged = tuple(
                rewrite(e, lambda x: lower[x.index] if isinstance(x, Input) else None)
                for e in expressions
            )
            return nodes.Project(below.input, merged, names)
    return nodes.Project(below, expressions, names)

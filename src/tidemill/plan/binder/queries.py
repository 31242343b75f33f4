"""SELECT, set operations, ORDER BY: a whole query, clause by clause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidemill import types as t
from tidemill.errors import Diagnostic, ScriptError, script_error
from tidemill.plan import nodes
from tidemill.plan.binder.relations import (
    Selected,
    first_columns,
    note_hint,
    refuse_aggregates,
    rename,
    state_ttls,
)
from tidemill.plan.binder.subqueries import Subqueries
from tidemill.plan.expressions import (
    AggregateCall,
    Call,
    Expr,
    Input,
    Literal,
    SortKey,
    conjunction,
    rewrite,
)
from tidemill.plan.grouping import (
    Placed,
    group,
    has_aggregates,
    place_overs,
)
from tidemill.plan.nodes import Node, all_inputs
from tidemill.plan.rules import arrange_from
from tidemill.plan.scope import Relation, Scope, cast, common_type_of
from tidemill.sql import ast


class Queries(Subqueries):
    """A query with the queries inside it."""

    def query(self, query: ast.Query, top: bool = False) -> Node:
        """`top`: the rows go out in this order; inside another query, ORDER BY without LIMIT means nothing."""
        inner = self._with_common(query)
        order = query.order_by if top or query.limit or query.offset else ()
        selected = inner._ordered(query, order)
        return first_columns(selected.node, selected.visible)

    def _with_common(self, query: ast.Query) -> Queries:
        inner = type(self)(self._catalog, self._common, self._outer)
        for table in query.common_tables:
            node = type(self)(self._catalog, inner._common).query(table.query)
            inner._common[table.name.name] = rename(node, table.columns, table)
        return inner

    def _ordered(self, query: ast.Query, order: tuple[ast.OrderItem, ...]) -> Selected:
        limit = self._row_count(query.limit, "LIMIT")
        offset = self._row_count(query.offset, "OFFSET") or 0
        selected = self._body(query.body, order)
        if limit == 0:
            empty = nodes.Values((), selected.node.columns)
            return replace(selected, node=empty)
        if not selected.order and limit is None and not offset:
            return selected
        if selected.predicates:
            raise script_error(
                "PLAN-025",
                "a subquery with ORDER BY or LIMIT cannot use columns of the query around it",
                query.span,
                "number the rows with ROW_NUMBER() and join the result",
            )
        first = (query.order_by or (query.limit,))[0] or query.offset
        assert first is not None
        sort = nodes.Sort(selected.node, selected.order, offset, limit, first.span)
        return replace(selected, node=sort)

    @staticmethod
    def _row_count(expression: ast.Expression | None, clause: str) -> int | None:
        if expression is None:
            return None
        bound = Scope().bind(expression)
        value = nodes.literal_number(bound)
        if value is None or value < 0:
            raise script_error(
                "PLAN-072", f"{clause} needs a number that is written out", expression.span
            )
        return value

    def _body(self, body: ast.QueryBody, order: tuple[ast.OrderItem, ...]) -> Selected:
        if isinstance(body, ast.Select):
            return self._select(body, order)
        node = self._rows(body)
        visible = len(node.columns)
        keys = tuple(
            self._sort_key(
                item,
                None,
                [(c.name, c) for c in all_inputs(node)],
            )
            for item in order
        )
        return Selected(node, visible, keys, (), False, False)

    def _plain(self, body: ast.QueryBody) -> Node:
        selected = self._body(body, ())
        return first_columns(selected.node, selected.visible)

    def _rows(self, body: ast.QueryBody) -> Node:
        match body:
            case ast.NestedQuery():
                return self.query(body.query)
            case ast.Values():
                return self._values(body)
            case ast.SetOperation():
                return self._set_operation(body)
        raise script_error("PLAN-005", "this query cannot stand here", body.span)

    def _values(self, body: ast.Values) -> Node:
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

    def _set_operation(self, body: ast.SetOperation) -> Node:
        sides = [self._plain(body.left), self._plain(body.right)]
        if len(sides[0].columns) != len(sides[1].columns):
            raise script_error(
                "PLAN-055",
                f"{body.operator} of {len(sides[0].columns)} and {len(sides[1].columns)} columns",
                body.right.span,
            )
        names = tuple(c.name for c in sides[0].columns)
        parts = _aligned(sides, names, body)
        if body.operator == "UNION":
            flat = [p for q in parts for p in (q.parts if isinstance(q, nodes.Union) else (q,))]
            union = nodes.Union(tuple(flat), names)
            return union if body.all else _distinct(union)
        if body.all:
            return _counted_rows(body.operator, parts, names)
        left, right = parts
        width = len(left.columns)
        same = [
            Call(t.BOOLEAN.not_null, "IS NOT DISTINCT FROM", (a, replace(b, index=b.index + width)))
            for a, b in zip(all_inputs(left), all_inputs(right), strict=True)
        ]
        kind = "SEMI" if body.operator == "INTERSECT" else "ANTI"
        return _distinct(nodes.Join(kind, left, right, conjunction(same)))

    def _select(self, body: ast.Select, order: tuple[ast.OrderItem, ...]) -> Selected:
        around, self._ttls = self._ttls, {}
        for hint in body.hints:
            if hint.name.upper() == "STATE_TTL":
                self._ttls |= state_ttls(hint, body.source)
            else:
                note_hint(hint, self._catalog)
        node, scope = self._from(body)
        ttl, self._ttls = self._ttls_of(body.source), around
        scope = replace(
            scope,
            outer=self._outer,
            windows={name.name: spec for name, spec in body.windows},
            subquery=self._subquery,
        )
        predicates: list[Expr] = []
        problems: list[Diagnostic] = []
        if body.where is not None:
            try:
                condition = scope.condition(body.where, "WHERE")
                refuse_aggregates(condition, "WHERE", body.where)
                node, predicates = self._where(node, condition, scope)
            except ScriptError as error:  # the select list is looked at all the same
                problems = error.diagnostics
        node = arrange_from(node)
        scope = scope.over(node.columns)
        items = self._items(body, scope, problems)
        having = None if body.having is None else scope.condition(body.having, "HAVING")
        qualify = None if body.qualify is None else self._qualify(body.qualify, scope, items)
        keys = [self._sort_key(i, scope, [(n, p.expr) for n, p in items]) for i in order]
        names = [name for name, _ in items]
        # Everything that is computed over the same rows, in one list; clauses are cut from it again below.
        computed = [p for _, p in items]
        computed += [Placed(k.expression, i) for k, i in zip(keys, order, strict=True)]
        if having is not None:
            assert body.having is not None
            computed.append(Placed(having, body.having))
        if qualify is not None:
            assert body.qualify is not None
            computed.append(Placed(qualify, body.qualify))
        self._refuse_outer(computed)
        grouped = body.group_by is not None or having is not None
        grouped = grouped or any(has_aggregates(p.expr) for p in computed)
        zero = len(items) == 1 and _is_count(items[0][1].expr) and body.group_by is None
        outside = [self._outside(p, grouped, body) for p in predicates]
        inner = [e for e, _ in outside]
        if grouped:
            # The row outside picks a group, so that its columns are keys.
            extra = [e for e in inner if e is not None]
            node, exprs = group(
                body, scope, node, [*computed, *(Placed(e, body) for e in extra)], extra, ttl
            )
        else:
            exprs = [p.expr for p in computed]
            exprs += [e for e in inner if e is not None]
        node, exprs = self._join_scalars(node, exprs, scope)
        hidden_keys = exprs[len(items) : len(items) + len(keys)]
        at = len(items) + len(keys)
        if having is not None:
            node = nodes.Filter(node, exprs[at])
            at += 1
        cut = [*exprs[: len(items)], *hidden_keys, *exprs[at + (qualify is not None) :]]
        condition_at = [exprs[at]] if qualify is not None else []
        node, exprs = place_overs(node, [*cut, *condition_at])
        if qualify is not None:
            node = nodes.Filter(node, exprs.pop())
        return self._projected(body, node, names, exprs, keys, outside, grouped, zero)

    def _projected(
        self,
        body: ast.Select,
        node: Node,
        names: list[str],
        exprs: list[Expr],
        keys: list[SortKey],
        outside: list[tuple[Expr | None, Expr]],
        grouped: bool,
        zero: bool,
    ) -> Selected:
        visible = len(names)
        shown, sorts = exprs[:visible], exprs[visible : visible + len(keys)]
        extra = exprs[visible + len(keys) :]
        out: list[Expr] = list(shown)
        places = []
        for expr in sorts:
            if expr not in out:
                if body.distinct:
                    raise script_error(
                        "PLAN-072",
                        "ORDER BY of SELECT DISTINCT must be in the select list",
                        body.span,
                    )
                out.append(expr)
            places.append(out.index(expr))
        behind = len(out)
        out += extra
        labels = [*names, *(f"$o{i}" for i in range(len(out) - visible))]
        node = nodes.project(node, out, labels)
        if body.distinct:
            node = _distinct(node)
        order = tuple(
            replace(k, expression=nodes.input_of(node, p))
            for k, p in zip(keys, places, strict=True)
        )
        predicates = []
        taken = iter(range(behind, len(out)))
        for inner, predicate in outside:
            at = next(taken) if inner is not None else None
            predicates.append(_placed_predicate(predicate, node, at))
        return Selected(node, visible, order, tuple(predicates), grouped, zero)

    def _items(
        self, body: ast.Select, scope: Scope, problems: list[Diagnostic]
    ) -> list[tuple[str, Placed]]:
        """The select list; what is wrong with it is told together with the problems that are known."""
        items: list[tuple[str, Placed]] = []
        found: list[Diagnostic] = []
        for item in body.items:
            try:
                items += self._item(item, scope, len(items))
            except ScriptError as error:
                found += error.diagnostics
        if found or problems:
            raise ScriptError([*found, *problems])
        return items

    @staticmethod
    def _item(item: ast.SelectItem, scope: Scope, at: int) -> list[tuple[str, Placed]]:
        if isinstance(item.expression, ast.Star):
            return [(n, Placed(c, item)) for n, c in scope.star(item.expression)]
        bound = scope.bind(item.expression)
        if item.alias is not None:
            name = item.alias.name
        elif isinstance(item.expression, ast.ColumnReference):
            name = item.expression.name.parts[-1].name
        else:
            name = f"EXPR${at}"
        return [(name, Placed(bound, item))]

    @staticmethod
    def _qualify(node: ast.Expression, scope: Scope, items: list[tuple[str, Placed]]) -> Expr:
        """QUALIFY may use names of the select list."""
        known = {c.name for c in scope.columns}
        aliases = {n: p.expr for n, p in items if n not in known}
        start = len(scope.columns)
        added = tuple(Input(e.type, start + i, n) for i, (n, e) in enumerate(aliases.items()))
        wider = replace(scope, relations=(*scope.relations, Relation(None, added)))
        bound = wider.condition(node, "QUALIFY")
        named = list(aliases.values())
        return rewrite(
            bound,
            lambda e: named[e.index - start] if isinstance(e, Input) and e.index >= start else None,
        )

    def _sort_key(
        self, item: ast.OrderItem, scope: Scope | None, columns: Sequence[tuple[str, Expr]]
    ) -> SortKey:
        """A place in the select list, a name from it, or an expression over the columns below."""
        expression = item.expression
        binder = scope or self._scope()
        if isinstance(expression, ast.NumberLiteral) and expression.text.isdigit():
            at = int(expression.text)
            if not 1 <= at <= len(columns):
                raise script_error(
                    "PLAN-072",
                    f"ORDER BY {at}: the select list has {len(columns)} columns",
                    expression.span,
                )
            return binder.sort_key(item, columns[at - 1][1])
        if isinstance(expression, ast.ColumnReference) and len(expression.name.parts) == 1:
            found = [e for n, e in columns if n == expression.name.parts[0].name]
            if found:
                return binder.sort_key(item, found[0])
        if scope is None:
            relation = Relation(None, tuple(e for _, e in columns if isinstance(e, Input)))
            binder = self._scope(relation)
        return binder.sort_key(item)


def _is_count(expr: Expr) -> bool:
    return isinstance(expr, AggregateCall) and expr.function == "COUNT"


def _placed_predicate(predicate: Expr, node: Node, at: int | None) -> Expr:
    """A condition on the row outside, whose own side has found its column."""

    def change(e: Expr) -> Expr | None:
        if isinstance(e, Input):
            assert at is not None
            return nodes.input_of(node, at)
        return None

    return rewrite(predicate, change)


def _counted_rows(operator: str, sides: Sequence[Node], names: tuple[str, ...]) -> Node:
    """INTERSECT ALL and EXCEPT ALL: count each row on both sides, and give it as often as is left."""
    width = len(names)
    one, none = Literal(t.BIGINT.not_null, 1), Literal(t.BIGINT, None)
    marks = ((one, none), (none, one))
    parts = tuple(
        nodes.Project(side, (*all_inputs(side), *mark), (*names, "$l", "$r"))
        for side, mark in zip(sides, marks, strict=True)
    )
    union = nodes.Union(parts, (*names, "$l", "$r"))
    calls = tuple(
        AggregateCall(t.BIGINT.not_null, "COUNT", (nodes.input_of(union, width + i),))
        for i in (0, 1)
    )
    counted = nodes.Aggregate(union, tuple(range(width)), calls, (*names, "$l", "$r"))
    left, right = nodes.input_of(counted, width), nodes.input_of(counted, width + 1)
    times: Expr = Call(t.BIGINT.not_null, "-", (left, right))
    if operator == "INTERSECT":
        fewer = Call(t.BOOLEAN.not_null, "<", (left, right))
        times = Call(t.BIGINT.not_null, "CASE", (fewer, left, right))
    some = Call(t.BOOLEAN.not_null, ">", (times, Literal(t.BIGINT.not_null, 0)))
    kept = nodes.Filter(counted, some)
    row = all_inputs(kept)[:width]
    fields = tuple(t.Field(c.name, c.type) for c in row)
    copies = nodes.Correlate(kept, "INNER", "$REPLICATE_ROWS$", (times, *row), fields)
    given = all_inputs(copies)[width + 2 :]
    return nodes.Project(copies, given, names)


def _aligned(sides: list[Node], names: tuple[str, ...], body: ast.Node) -> list[Node]:
    """The sides of a set operation, cast to their common types."""
    width = range(len(sides[0].columns))
    types = [_merge([s.columns[i].type for s in sides], body) for i in width]
    parts: list[Node] = []
    for side in sides:
        fields = [cast(e, x, body.span) for e, x in zip(all_inputs(side), types, strict=True)]
        exact = all(isinstance(f, Input) for f in fields)
        parts.append(side if exact else nodes.Project(side, tuple(fields), names))
    return parts


def _merge(types: list[t.SqlType], body: ast.Node) -> t.SqlType:
    return common_type_of(types, body.span, "the rows")


def _distinct(node: Node) -> Node:
    keys = tuple(range(len(node.columns)))
    return nodes.Aggregate(node, keys, (), tuple(c.name for c in node.columns))

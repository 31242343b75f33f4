"""Queries: from the tree to a plan. In: a syntax tree and a catalog. Out: plan nodes, arranged by `rules`.

Names are resolved clause by clause, in SQL's order: FROM and WHERE first, since they tell which columns are clocks;
then groups, OVER, the select list, ORDER BY.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from tidemill import types as t
from tidemill.changelog import RowKind
from tidemill.errors import Diagnostic, Span, did_you_mean, script_error
from tidemill.functions import TABLE, PythonFunction
from tidemill.plan import nodes
from tidemill.plan.expressions import (
    AggregateCall,
    Call,
    Expr,
    Input,
    Literal,
    OuterInput,
    OverCall,
    SortKey,
    Subquery,
    conjunction,
    conjuncts,
    inputs,
    rewrite,
    walk,
)
from tidemill.plan.grouping import (
    TIME_ATTRIBUTE_HINT,
    Placed,
    group,
    has_aggregates,
    milliseconds,
    place_overs,
)
from tidemill.plan.nodes import Node, all_inputs
from tidemill.plan.rules import RANKS, arrange, arrange_from, filtered
from tidemill.plan.scope import Relation, Scope, cast
from tidemill.plan.user_functions import FindFunction, check_user_call, no_function
from tidemill.sql import ast
from tidemill.tables import check_insert, check_read
from tidemill.tables.catalog import Column, Computed, Table, View
from tidemill.tables.upsert_kafka import UpsertKafkaTable

AstChange = Callable[[ast.Expression], ast.Expression]


class Catalog(Protocol):
    """Where the binder looks names up."""

    def find(self, name: ast.QualifiedName) -> Table | View: ...

    def function(self, name: ast.QualifiedName) -> PythonFunction | None: ...

    def within(self, found: Table | View) -> Catalog:
        """The same names, short ones counted from where a table or view stands."""
        ...

    def warn(self, warning: Diagnostic) -> None: ...

    def setting(self, key: str) -> str | None: ...

    @property
    def view_plans(self) -> dict[int, tuple[View, Node]]: ...

    def with_options(self, table: Table, hint: ast.Hint) -> Table: ...


# --- entry points --------------------------------------------------------------------------------


def bind_query(query: ast.Query, catalog: Catalog) -> Node:
    """A query whose result is looked at."""
    return _finished(bind_view(query, catalog), query.span)


def bind_view(query: ast.Query, catalog: Catalog) -> Node:
    """A query as it was written, to learn its columns, which have names of their own. What can be run of it shows once
    it is used."""
    node = _Binder(catalog).query(query, top=True)
    return _named(node, nodes.unique_names(c.name for c in node.columns))


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
    if statement.partition:
        raise script_error(
            "PLAN-051",
            "INSERT INTO … PARTITION does not exist for a Kafka topic",
            statement.partition[0][0].span,
            "select the partition's value as a column",
        )
    for hint in statement.hints:
        target = _hinted(target, hint, catalog)
    check_insert(target, statement.target.span)
    query = _Binder(catalog).query(statement.query, top=True)
    fitted = _fit(statement, query, target)
    sink = nodes.Sink(
        _finished(fitted, statement.query.span),
        target,
        statement.target.span,
        on_conflict=statement.on_conflict,
    )
    if statement.on_conflict and not isinstance(target.connector, UpsertKafkaTable):
        raise script_error(
            "PLAN-052",
            f"ON CONFLICT needs an upsert table, and '{target.name}' is none",
            statement.target.span,
            "leave ON CONFLICT out",
        )
    return sink


def _finished(node: Node, span: Span) -> Node:
    arranged = arrange(node)
    _check_order(arranged, span)
    return arranged


def _check_order(root: Node, span: Span) -> None:
    """What can be sorted without end: by time, or no more than the first rows."""
    for node in nodes.walk(root):
        place = getattr(node, "span", None) or span
        if isinstance(node, nodes.Rank) and node.function != "ROW_NUMBER":
            raise script_error(
                "PLAN-070",
                f"{node.function}() on a streaming table is not supported, as in Flink",
                place,
                "use ROW_NUMBER()",
            )
        if isinstance(node, nodes.WindowRank) and _is_proctime(node):
            raise script_error(
                "PLAN-070",
                "deduplication of a window by processing time is not supported, as in Flink",
                place,
                "order by a rowtime attribute",
            )
        if isinstance(node, nodes.Sort) and node.name == "Sort":
            raise script_error(
                "PLAN-072",
                "Sort on a non-time-attribute field is not supported: the rows never end",
                place,
                "order by a time attribute first, ascending, or add LIMIT",
            )
        if isinstance(node, nodes.Sort) and node.limit is None and node.name != "TemporalSort":
            raise script_error(
                "PLAN-072", "OFFSET needs a LIMIT: the rows never end", place, "add LIMIT"
            )
        if isinstance(node, nodes.Over):
            _check_over(node, place)
        if isinstance(node, nodes.IntervalJoin):
            left = node.left.columns[node.left_time].type
            right = node.right.columns[node.right_time].type
            if not isinstance(left, type(right)):
                raise script_error(
                    "PLAN-079",
                    f"an interval join needs times of one type, but these are {left} and {right}",
                    place,
                    "declare both as TIMESTAMP(3), or both as TIMESTAMP_LTZ(3)",
                )


def _is_proctime(rank: nodes.Rank) -> bool:
    first = rank.order[0].expression.type
    keeps_one = rank.start == rank.end == 1 and rank.number is None
    return keeps_one and t.time_attribute(first) is t.TimeAttribute.PROCTIME


def _check_over(node: nodes.Over, place: Span) -> None:
    if node.calls[0].function in RANKS and not node.is_on_time:
        hint = "write WHERE number <= 10 in the query around it: a Top-N can be ordered by anything"
    else:
        hint = "write ORDER BY and a time attribute, ascending"
    if len(node.order) != 1:
        raise script_error(
            "PLAN-070", "an OVER window can only be ordered by a single time column", place, hint
        )
    if node.order[0].descending:
        raise script_error(
            "PLAN-070", "an OVER window can only be ordered in ASCENDING mode", place, hint
        )


# --- INSERT --------------------------------------------------------------------------------------


def _fit(statement: ast.Insert, query: Node, table: Table) -> Node:
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


# --- queries -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SubqueryPlan:
    """A query inside an expression: its own columns first, then those that the conditions read."""

    node: Node
    width: int
    predicates: tuple[Expr, ...]
    """Conditions over the node's columns and those of the row outside."""
    one_row: bool
    """Whether there is at most one row for each row outside."""
    zero: bool
    """Whether no row means 0: a lone COUNT."""

    @property
    def columns(self) -> tuple[t.Field, ...]:
        return self.node.columns[: self.width]


@dataclass(frozen=True)
class _Selected:
    node: Node
    visible: int
    """Columns of the select list; what follows is for ORDER BY and the row outside."""
    order: tuple[SortKey, ...]
    predicates: tuple[Expr, ...]
    is_aggregate: bool
    zero: bool


class _Binder:
    def __init__(
        self,
        catalog: Catalog,
        common: Mapping[str, Node] | None = None,
        outer: Scope | None = None,
    ) -> None:
        self._catalog = catalog
        self._common = dict(common or {})
        self._outer = outer

    def query(self, query: ast.Query, top: bool = False) -> Node:
        """`top`: the rows go out in this order; inside another query, ORDER BY without LIMIT means nothing."""
        inner = self._with_common(query)
        order = query.order_by if top or query.limit or query.offset else ()
        selected = inner._ordered(query, order)
        return _first(selected.node, selected.visible)

    def _with_common(self, query: ast.Query) -> _Binder:
        inner = _Binder(self._catalog, self._common, self._outer)
        for table in query.common_tables:
            node = _Binder(self._catalog, inner._common).query(table.query)
            inner._common[table.name.name] = _rename(node, table.columns, table)
        return inner

    def _ordered(self, query: ast.Query, order: tuple[ast.OrderItem, ...]) -> _Selected:
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

    # --- bodies ------------------------------------------------------------------------------

    def _body(self, body: ast.QueryBody, order: tuple[ast.OrderItem, ...]) -> _Selected:
        if isinstance(body, ast.Select):
            return self._select(body, order)
        node = self._rows(body)
        visible = len(node.columns)
        keys = tuple(
            self._sort_key(
                item,
                None,
                [(c.name, i) for i, c in zip(all_inputs(node), node.columns, strict=True)],
            )
            for item in order
        )
        return _Selected(node, visible, keys, (), False, False)

    def _plain(self, body: ast.QueryBody) -> Node:
        selected = self._body(body, ())
        return _first(selected.node, selected.visible)

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

    # --- SELECT ------------------------------------------------------------------------------

    def _select(self, body: ast.Select, order: tuple[ast.OrderItem, ...]) -> _Selected:
        for hint in body.hints:
            self._note(hint)
        node, scope = self._from(body)
        scope = replace(
            scope,
            outer=self._outer,
            windows={name.name: spec for name, spec in body.windows},
            subquery=self._subquery,
        )
        predicates: list[Expr] = []
        if body.where is not None:
            condition = scope.condition(body.where, "WHERE")
            _refuse_aggregates(condition, "WHERE", body.where)
            node, predicates = self._where(node, condition, scope, body.where)
        node = arrange_from(node)
        scope = scope.over(node.columns)
        items = self._items(body, scope)
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
                body, scope, node, [*computed, *(Placed(e, body) for e in extra)], extra
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
    ) -> _Selected:
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
        return _Selected(node, visible, order, tuple(predicates), grouped, zero)

    def _items(self, body: ast.Select, scope: Scope) -> list[tuple[str, Placed]]:
        items: list[tuple[str, Placed]] = []
        for item in body.items:
            if isinstance(item.expression, ast.Star):
                items += [(n, Placed(c, item)) for n, c in scope.star(item.expression)]
                continue
            bound = scope.bind(item.expression)
            if item.alias is not None:
                name = item.alias.name
            elif isinstance(item.expression, ast.ColumnReference):
                name = item.expression.name.parts[-1].name
            else:
                name = f"EXPR${len(items)}"
            items.append((name, Placed(bound, item)))
        return items

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

    # --- subqueries --------------------------------------------------------------------------

    def _subquery(self, query: ast.Query, scope: Scope) -> SubqueryPlan:
        inner = _Binder(self._catalog, self._common, replace(scope, outer=None))
        inner = inner._with_common(query)
        has_end = query.limit is not None or query.offset is not None
        selected = inner._ordered(query, query.order_by if has_end else ())
        node, visible = selected.node, selected.visible
        limited = selected.visible if not selected.predicates else len(node.columns)
        one_row = selected.is_aggregate and not _groups(query.body)
        return SubqueryPlan(
            _first(node, limited),
            visible,
            selected.predicates,
            one_row,
            selected.zero,
        )

    def _where(
        self, node: Node, condition: Expr, scope: Scope, place: ast.Node
    ) -> tuple[Node, list[Expr]]:
        """Apply a condition; subqueries become joins. Gives the parts that speak of the row outside."""
        width = len(node.columns)
        outside: list[Expr] = []
        plain: list[Expr] = []
        halves: list[tuple[Subquery, bool]] = []
        others: list[Expr] = []
        for part in conjuncts(condition):
            subqueries = [e for e in walk(part) if isinstance(e, Subquery)]
            negated = isinstance(part, Call) and part.function == "NOT"
            inner = part.arguments[0] if isinstance(part, Call) and negated else part
            if isinstance(inner, Subquery) and inner.kind != "SCALAR":
                halves.append((inner, negated))
            elif subqueries:
                others.append(part)
            elif any(isinstance(e, OuterInput) for e in walk(part)):
                outside.append(part)
            else:
                plain.append(part)
        node = filtered(node, plain)
        for subquery, negated in halves:
            node = self._half_join(node, subquery, negated, scope)
        if others:
            node, others = self._join_scalars(node, others, scope)
            node = _first(nodes.Filter(node, conjunction(others)), width)
        return node, outside

    def _half_join(self, node: Node, subquery: Subquery, negated: bool, scope: Scope) -> Node:
        plan = subquery.plan
        assert isinstance(plan, SubqueryPlan)
        span = subquery.span
        assert span is not None
        width = len(node.columns)
        right = plan.node
        parts = [_joined(p, width) for p in plan.predicates]
        for at, operand in enumerate(subquery.operands):
            column = plan.columns[at]
            other = Input(column.type, width + at, column.name)
            same = scope.compare("=", operand, other, span)
            if negated and same.type.nullable:
                # NOT IN is unknown, and so not true, once a NULL is compared.
                unknown = Call(t.BOOLEAN.not_null, "IS NULL", (same,))
                same = Call(t.BOOLEAN, "OR", (unknown, same))
            parts.append(same)
        if not parts:
            right = _whether_any(right)
        kind = "ANTI" if negated else "SEMI"
        return nodes.Join(kind, node, right, conjunction(parts))

    def _join_scalars(
        self, node: Node, exprs: Sequence[Expr], scope: Scope
    ) -> tuple[Node, list[Expr]]:
        """Join the value of each scalar query to its row."""
        done = list(exprs)
        found = list(dict.fromkeys(e for x in exprs for e in walk(x) if isinstance(e, Subquery)))
        for subquery in found:
            assert isinstance(subquery.plan, SubqueryPlan)
            if subquery.kind != "SCALAR":
                node, truth = self._join_truth(node, subquery, scope)
                done = [_replaced(x, subquery, truth) for x in done]
                continue
            plan = subquery.plan
            right = plan.node if plan.one_row else _single_value(plan)
            width = len(node.columns)
            parts = [_joined(p, width) for p in plan.predicates]
            node = nodes.Join("LEFT", node, right, conjunction(parts))
            value: Expr = nodes.input_of(node, width)
            if plan.zero and plan.predicates:
                nothing = Literal(t.BIGINT.not_null, 0)
                value = Call(t.BIGINT, "COALESCE", (value, nothing))
            done = [_replaced(x, subquery, value) for x in done]
        return node, done

    def _join_truth(self, node: Node, subquery: Subquery, scope: Scope) -> tuple[Node, Expr]:
        """Join to each row whether IN or EXISTS holds for it; where they stand in a larger expression, this is a value
        like any other, and unknown where a NULL decides."""
        plan = subquery.plan
        assert isinstance(plan, SubqueryPlan) and subquery.span is not None
        if plan.predicates:
            raise script_error(
                "PLAN-025",
                f"{subquery.kind} (SELECT …) that uses the row around it can stand only in WHERE, alone or with AND",
                subquery.span,
                "write a LEFT JOIN and test the joined column, or UNION ALL two queries",
            )
        width = len(node.columns)
        if subquery.kind == "EXISTS":
            node = nodes.Join("LEFT", node, _least_truth(plan.node), conjunction([]))
            return node, Call(t.BOOLEAN.not_null, "IS NOT NULL", (nodes.input_of(node, width),))
        keys = tuple(range(plan.width))
        columns = all_inputs(plan.node)
        count = AggregateCall(t.BIGINT.not_null, "COUNT")
        known = AggregateCall(t.BIGINT.not_null, "COUNT", (columns[0],))
        counted = nodes.Aggregate(plan.node, (), (count, known), ("c", "ck"))
        node = nodes.Join("INNER", node, counted, conjunction([]))
        truth = Literal(t.BOOLEAN.not_null, True)
        names = (*(c.name for c in plan.columns), "i")
        marked = nodes.Project(plan.node, (*columns[: plan.width], truth), names)
        least = AggregateCall(truth.type, "MIN", (nodes.input_of(marked, plan.width),))
        distinct = nodes.Aggregate(marked, keys, (least,), names)
        same = [
            scope.compare("=", o, Input(c.type, width + 2 + i, c.name), subquery.span)
            for i, (o, c) in enumerate(zip(subquery.operands, plan.columns, strict=True))
        ]
        node = nodes.Join("LEFT", node, distinct, conjunction(same))
        rows, keyed, found = (nodes.input_of(node, width + i) for i in (0, 1, 2 + plan.width))
        zero, unknown = Literal(t.BIGINT.not_null, 0), Literal(t.BOOLEAN, None)
        false = Literal(t.BOOLEAN.not_null, False)
        is_null = [Call(t.BOOLEAN.not_null, "IS NULL", (o,)) for o in subquery.operands]
        cases: list[Expr] = [Call(t.BOOLEAN.not_null, "=", (rows, zero)), false]
        for test in is_null:
            cases += [test, unknown]
        cases += [Call(t.BOOLEAN.not_null, "IS NOT NULL", (found,)), truth]
        cases += [Call(t.BOOLEAN.not_null, "<", (keyed, rows)), unknown, false]
        return node, Call(t.BOOLEAN, "CASE", tuple(cases))

    def _outside(
        self, predicate: Expr, grouped: bool, body: ast.Select
    ) -> tuple[Expr | None, Expr]:
        """The side of a condition that is ours, and the condition with an Input 0 in its place."""
        match predicate:
            case Call(function="=", arguments=(a, b)):
                ours, theirs = (b, a) if _reads_outside(a) else (a, b)
                if not _reads_outside(ours) and not inputs(theirs):
                    column = Input(ours.type, 0, "$k")
                    return ours, replace(predicate, arguments=(theirs, column))
        if grouped:
            raise script_error(
                "PLAN-025",
                "an aggregate in a subquery can be tied to the row outside by = only",
                body.span,
                "join the two tables and aggregate afterwards",
            )
        read = sorted(inputs(predicate))
        if len(read) > 1:
            raise script_error(
                "PLAN-025",
                "a condition on the row outside can compare one column of the subquery",
                body.span,
                "write it as several conditions, joined by AND",
            )
        if not read:
            return None, predicate
        mine = next(e for e in walk(predicate) if isinstance(e, Input))
        placed = rewrite(predicate, lambda e: replace(e, index=0) if isinstance(e, Input) else None)
        return mine, placed

    def _refuse_outer(self, computed: Sequence[Placed]) -> None:
        for placed in computed:
            if any(isinstance(e, OuterInput) for e in walk(placed.expr)):
                raise script_error(
                    "PLAN-025",
                    "a subquery can use columns of the query around it in its WHERE only",
                    placed.place.span,
                    "join the two tables instead",
                )

    # --- FROM --------------------------------------------------------------------------------

    def _from(self, body: ast.Select) -> tuple[Node, Scope]:
        if body.source is None:
            return nodes.Values(((),), ()), self._scope()
        node, scope = self._relation(body.source)
        if node.size > _MOST_NODES:
            raise script_error(
                "PLAN-023",
                f"this query has more than {_MOST_NODES} operators, with the views that it uses",
                body.source.span,
                "write what several queries need to a topic, and read it from there",
            )
        names = [r.name for r in scope.relations if r.name]
        twice = next((n for n in names if names.count(n) > 1), None)
        if twice is not None:
            raise script_error(
                "PLAN-004",
                f"'{twice}' stands twice in FROM",
                body.source.span,
                "give each its own name with AS",
            )
        return node, scope

    def _relation(self, relation: ast.Relation) -> tuple[Node, Scope]:
        match relation:
            case ast.TableReference():
                if relation.as_of is not None:
                    raise script_error(
                        "PLAN-074",
                        "FOR SYSTEM_TIME AS OF needs a table to its left, whose time it takes",
                        relation.span,
                        "write FROM facts JOIN versions FOR SYSTEM_TIME AS OF facts.ts ON …",
                    )
                node = self._table(relation)
                name = (relation.alias or relation.name.parts[-1]).name
            case ast.Subquery():
                node = self.query(relation.query)
                name = relation.alias.name if relation.alias else ""
            case ast.Join():
                return self._join(relation)
            case ast.TableFunction():
                return self._table_function(
                    relation, nodes.Values(((),), ()), self._scope(), "INNER"
                )
            case ast.MatchRecognize():
                node = self._match(relation)
                name = relation.alias.name if relation.alias else ""
            case _:
                raise script_error("PLAN-005", "this cannot stand in FROM", relation.span)
        node = _rename(node, relation.column_aliases, relation)
        return node, self._scope(Relation(name or None, all_inputs(node)))

    def _scope(self, *relations: Relation) -> Scope:
        return Scope(relations, functions=self._catalog.function)

    def _table(self, reference: ast.TableReference) -> Node:
        if len(reference.name.parts) == 1 and reference.name.parts[0].name in self._common:
            return self._common[reference.name.parts[0].name]
        found = self._catalog.find(reference.name)
        if isinstance(found, View):
            plans = self._catalog.view_plans
            if id(found) not in plans:
                node = _Binder(self._catalog.within(found)).query(found.query)
                plans[id(found)] = found, _named(node, found.columns)
            return plans[id(found)][1]
        for hint in reference.hints:
            found = _hinted(found, hint, self._catalog)
        for warning in check_read(found, reference.span):
            self._catalog.warn(warning)
        duplicates = (self._catalog.setting("table.exec.source.cdc-events-duplicate") or "").lower()
        functions = self._catalog.within(found).function
        return scan(found, reference.span, duplicates == "true", functions)

    def _note(self, hint: ast.Hint) -> None:
        _note_hint(hint, self._catalog)

    # --- joins -------------------------------------------------------------------------------

    def _join(self, join: ast.Join) -> tuple[Node, Scope]:
        left, left_scope = self._relation(join.left)
        kind = {"CROSS": "INNER", "LEFT SEMI": "SEMI", "LEFT ANTI": "ANTI"}.get(
            join.kind, join.kind
        )
        match join.right:
            case ast.TableReference(as_of=ast.Expression() as as_of):
                return self._temporal_join(join, kind, left, left_scope, join.right, as_of)
            case ast.TableFunction() if not _is_window(join.right.call):
                self._check_correlate(join, kind)
                return self._table_function(join.right, left, left_scope, kind)
            case ast.Subquery(lateral=True):
                return self._lateral(join, kind, left, left_scope, join.right)
        right, right_scope = self._relation(join.right)
        scope = _side_by_side(left_scope, right_scope, len(left.columns))
        condition, common = self._join_condition(join, scope, left_scope, right_scope, left)
        node = nodes.Join(kind, left, right, condition)
        if kind in ("SEMI", "ANTI"):
            return node, left_scope.over(node.columns)
        return node, replace(scope.over(node.columns), common=common)

    def _join_condition(
        self, join: ast.Join, scope: Scope, left: Scope, right: Scope, node: Node
    ) -> tuple[Expr, tuple[tuple[str, Expr], ...]]:
        if join.condition is not None:
            condition = replace(scope, subquery=None).condition(join.condition, "ON")
            _refuse_aggregates(condition, "ON", join.condition)
            return condition, ()
        names = [u.name for u in join.using]
        if join.natural:
            others = {c.name for c in right.columns}
            names = [c.name for c in left.columns if c.name in others]
        parts, common = [], []
        spans = {u.name: u.span for u in join.using}
        for name in names:
            span = spans.get(name, join.span)
            reference = ast.QualifiedName(span, (ast.Identifier(span, name),))
            a = left.column(reference)
            b = _shifted(right.column(reference), len(node.columns))
            parts.append(scope.compare("=", a, b, span))
            whole = Call(a.type, "COALESCE", (a, b)) if join.kind == "FULL" else a
            common.append((name, b if join.kind == "RIGHT" else whole))
        return conjunction(parts), tuple(common)

    def _lateral(
        self, join: ast.Join, kind: str, left: Node, scope: Scope, right: ast.Subquery
    ) -> tuple[Node, Scope]:
        """A subquery that may use the columns to its left: joined by what it says about them."""
        if kind not in ("INNER", "LEFT"):
            raise script_error("PLAN-025", f"{kind} JOIN LATERAL does not exist", join.span)
        plan = self._subquery(right.query, scope)
        width = len(left.columns)
        parts = [_joined(p, width) for p in plan.predicates]
        names = tuple(c.name for c in plan.columns)
        if right.column_aliases:
            names = tuple(n.name for n in right.column_aliases)
        inner = Relation(
            right.alias.name if right.alias else None,
            tuple(
                Input(c.type, i, n)
                for i, (c, n) in enumerate(zip(plan.columns, names, strict=False))
            ),
        )
        both = _side_by_side(scope, self._scope(inner), width)
        if join.condition is not None:
            parts.append(both.condition(join.condition, "ON"))
        node = nodes.Join(kind, left, plan.node, conjunction(parts))
        return node, both.over(node.columns)

    @staticmethod
    def _check_correlate(join: ast.Join, kind: str) -> None:
        always = join.condition is None or (
            isinstance(join.condition, ast.BooleanLiteral) and join.condition.value
        )
        if kind not in ("INNER", "LEFT") or join.using or not always:
            raise script_error(
                "PLAN-075",
                "a table function can be joined by CROSS JOIN, or by LEFT JOIN … ON TRUE",
                join.span,
                "put the condition into WHERE",
            )

    def _temporal_join(
        self,
        join: ast.Join,
        kind: str,
        left: Node,
        left_scope: Scope,
        reference: ast.TableReference,
        as_of: ast.Expression,
    ) -> tuple[Node, Scope]:
        if kind not in ("INNER", "LEFT"):
            raise script_error(
                "PLAN-074", f"{kind} JOIN … FOR SYSTEM_TIME AS OF does not exist", join.span
            )
        time = left_scope.bind(as_of)
        attribute = t.time_attribute(time.type)
        if attribute is None or not isinstance(time, Input):
            raise script_error(
                "PLAN-074",
                "FOR SYSTEM_TIME AS OF takes a time attribute of the left table",
                as_of.span,
                TIME_ATTRIBUTE_HINT,
            )
        right = _rename(self._table(reference), reference.column_aliases, reference)
        name = (reference.alias or reference.name.parts[-1]).name
        right_scope = self._scope(Relation(name, all_inputs(right)))
        scope = _side_by_side(left_scope, right_scope, len(left.columns))
        condition, common = self._join_condition(join, scope, left_scope, right_scope, left)
        node = nodes.TemporalJoin(kind, left, right, condition, time.index)
        self._check_temporal(node, join, reference, attribute)
        return node, replace(scope.over(node.columns), common=common)

    @staticmethod
    def _check_temporal(
        node: nodes.TemporalJoin,
        join: ast.Join,
        reference: ast.TableReference,
        attribute: t.TimeAttribute,
    ) -> None:
        place = join.condition.span if join.condition is not None else join.span
        equalities = (p for p in conjuncts(node.condition) if isinstance(p, Call))
        if not any(p.function == "=" for p in equalities):
            raise script_error(
                "PLAN-074", "a temporal join needs an equality between the two tables", place
            )
        versions = arrange(node.right)
        if not any(key <= node.right_keys for key in versions.upsert_keys):
            raise script_error(
                "PLAN-074",
                f"a temporal join needs the PRIMARY KEY of '{reference.name}' in its condition",
                place,
                "declare the key in CREATE TABLE, or keep the last row per key with ROW_NUMBER() = 1 in a view",
            )
        if attribute is t.TimeAttribute.PROCTIME:
            raise script_error(
                "PLAN-074",
                "Processing-time temporal join is not supported yet, as in Flink",
                reference.span,
                "join at a rowtime attribute, or use a regular join",
            )
        clocks = [t.time_attribute(c.type) for c in node.right.columns]
        if t.TimeAttribute.ROWTIME not in clocks:
            raise script_error(
                "PLAN-074",
                f"'{reference.name}' needs a rowtime attribute: without it its versions have no time",
                reference.span,
                TIME_ATTRIBUTE_HINT,
            )

    # --- table functions ---------------------------------------------------------------------

    def _table_function(
        self, relation: ast.TableFunction, left: Node, scope: Scope, kind: str
    ) -> tuple[Node, Scope]:
        call = relation.call
        name = str(call.name).upper()
        alias = relation.alias.name if relation.alias else None
        if _is_window(call):
            node = _rename(self._window_function(name, call), relation.column_aliases, relation)
            return node, self._scope(Relation(alias, all_inputs(node)))
        made = self._catalog.function(call.name)
        if made is not None:
            check_user_call(made, call, TABLE)
            assert isinstance(made.result, t.RowType)
            name, arguments, fields = (
                made.name,
                scope.user_arguments(made, call),
                made.result.fields,
            )
        elif name == "UNNEST":
            arguments = (scope.bind(call.arguments[0]),)
            fields = _unnested(arguments[0].type, call.arguments[0].span)
        else:
            raise script_error(
                "PLAN-015",
                f"table function {call.name} does not exist",
                call.name.span,
                "TUMBLE, HOP, CUMULATE, SESSION and UNNEST are there, and what CREATE FUNCTION makes",
            )
        if relation.with_ordinality:
            fields = (*fields, t.Field("ORDINALITY", t.INT.not_null))
        if relation.column_aliases:
            if len(relation.column_aliases) != len(fields):
                raise script_error(
                    "PLAN-055",
                    f"{len(relation.column_aliases)} names for {len(fields)} columns",
                    relation.span,
                )
            pairs = zip(fields, relation.column_aliases, strict=True)
            fields = tuple(replace(f, name=a.name) for f, a in pairs)
        node = nodes.Correlate(left, kind, name, arguments, fields)
        width = len(left.columns)
        added = tuple(
            Input(c.type, width + i, f.name)
            for i, (c, f) in enumerate(zip(node.columns[width:], fields, strict=True))
        )
        return node, replace(scope, relations=(*scope.relations, Relation(alias, added)))

    def _window_function(self, name: str, call: ast.FunctionCall) -> Node:
        forms = _WINDOW_FORMS[name]
        given: dict[str, ast.Expression] = {}
        for at, argument in enumerate(call.arguments):
            if isinstance(argument, ast.NamedArgument):
                word, value = argument.name.name.upper(), argument.value
            else:
                word, value = forms[at] if at < len(forms) else "", argument
            if word not in forms or word in given:
                raise script_error(
                    "PLAN-058",
                    f"{name} does not take this argument",
                    argument.span,
                    f"its form is {name}({', '.join(forms)})",
                )
            given[word] = value
        missing = [f for f in forms if f not in given and f != "OFFSET"]
        if missing:
            raise script_error(
                "PLAN-058",
                f"{name} needs {', '.join(missing)}",
                call.span,
                f"its form is {name}({', '.join(forms)})",
            )
        data, descriptor = given["DATA"], given["TIMECOL"]
        if not isinstance(data, ast.TableArgument):
            raise script_error(
                "PLAN-058",
                f"the first argument of {name} is a table",
                data.span,
                "write TABLE name",
            )
        if not isinstance(descriptor, ast.DescriptorArgument) or len(descriptor.columns) != 1:
            raise script_error(
                "PLAN-058",
                f"{name} needs the column of its time",
                descriptor.span,
                "write DESCRIPTOR(column)",
            )
        node, scope = self._relation(data.relation)
        column = descriptor.columns[0]
        time = scope.column(ast.QualifiedName(column.span, (column,)))
        attribute = t.time_attribute(time.type)
        if attribute is None or not isinstance(time, Input):
            raise script_error(
                "PLAN-073",
                f"the window function requires the timecol is a time attribute type, but is {time.type.as_nullable}",
                descriptor.span,
                TIME_ATTRIBUTE_HINT,
            )
        partition = [scope.bind(p) for p in data.partition_by]
        by = tuple(p.index for p in partition if isinstance(p, Input))
        if len(by) != len(partition) or (partition and name != "SESSION"):
            raise script_error(
                "PLAN-058", f"{name} cannot be partitioned so", data.partition_by[0].span
            )
        lengths = {
            word: milliseconds(Scope().bind(value), value.span)
            for word, value in given.items()
            if word not in ("DATA", "TIMECOL")
        }
        for word, length in lengths.items():
            if length <= 0 and word != "OFFSET":
                raise script_error(
                    "PLAN-071", f"{word} of a window must be longer than nothing", given[word].span
                )
        step = next((lengths[w] for w in ("SLIDE", "STEP", "GAP") if w in lengths), None)
        rowtime = attribute is t.TimeAttribute.ROWTIME
        window = nodes.Window(name, lengths.get("SIZE"), step, lengths.get("OFFSET"), rowtime)
        return nodes.WindowTableFunction(node, time.index, window, by)

    def _match(self, relation: ast.MatchRecognize) -> Node:
        """MATCH_RECOGNIZE: its columns are the partition's and the measures."""
        node, scope = self._relation(relation.input)
        partition = [scope.bind(p) for p in relation.partition_by]
        order = tuple(scope.sort_key(i) for i in relation.order_by)
        if not order or t.time_attribute(order[0].expression.type) is None:
            raise script_error(
                "PLAN-076",
                "MATCH_RECOGNIZE must be ordered by a time attribute first",
                relation.order_by[0].span if relation.order_by else relation.span,
                TIME_ATTRIBUTE_HINT,
            )
        if relation.rows_per_match == "ALL":
            raise script_error(
                "PLAN-076", "ALL ROWS PER MATCH is not supported, as in Flink", relation.span,
                "use ONE ROW PER MATCH",
            )  # fmt: skip
        variables = [*_variables(relation.pattern), *(s.name for s, _ in relation.subsets)]
        columns = scope.columns
        inside = self._scope(
            *(Relation(v, columns) for v in dict.fromkeys(variables)), *scope.relations
        )
        for _, definition in relation.definitions:
            self._measure(definition, inside, node, order)
        fields = [t.Field(p.name, p.type) for p in partition if isinstance(p, Input)]
        for measure in relation.measures:
            type_ = self._measure(measure.expression, inside, node, order)
            fields.append(t.Field(measure.alias.name, type_))
        by = tuple(p.index for p in partition if isinstance(p, Input))
        return nodes.Match(node, by, order, tuple(fields))

    @staticmethod
    def _measure(
        expression: ast.Expression, scope: Scope, node: Node, order: tuple[SortKey, ...]
    ) -> t.SqlType:
        """The type of an expression over the rows of a match: of FIRST(a.x), LAST(a.x) and the like, that of a.x."""

        def plain(e: ast.Expression) -> ast.Expression:
            if isinstance(e, ast.FunctionCall) and str(e.name).upper() in (
                "FIRST",
                "LAST",
                "PREV",
                "NEXT",
            ):
                return e.arguments[0]
            return e

        if isinstance(expression, ast.FunctionCall):
            name = str(expression.name).upper()
            if name == "MATCH_ROWTIME":
                return order[0].expression.type.not_null
            if name == "MATCH_PROCTIME":
                return t.TimestampLtzType(False, 3, t.TimeAttribute.PROCTIME)
        return _bind_within(scope, expression, plain).type


def _bind_within(scope: Scope, expression: ast.Expression, plain: AstChange) -> Expr:
    """Bind a measure or a definition: its row functions are replaced by their first argument, wherever they stand."""
    return scope.bind(_rewritten(expression, plain))


def _rewritten(node: ast.Expression, change: AstChange) -> ast.Expression:
    changed = change(node)
    if changed is not node:
        return _rewritten(changed, change)
    if isinstance(node, ast.Unary):
        return replace(node, operand=_rewritten(node.operand, change))
    if isinstance(node, ast.Binary):
        return replace(
            node, left=_rewritten(node.left, change), right=_rewritten(node.right, change)
        )
    if isinstance(node, (ast.FunctionCall)):
        return replace(node, arguments=tuple(_rewritten(a, change) for a in node.arguments))
    if isinstance(node, ast.IsTest | ast.Cast):
        return replace(node, operand=_rewritten(node.operand, change))
    if isinstance(node, ast.Between):
        return replace(
            node,
            operand=_rewritten(node.operand, change),
            low=_rewritten(node.low, change),
            high=_rewritten(node.high, change),
        )
    if isinstance(node, ast.Case):
        return replace(
            node,
            branches=tuple(
                (_rewritten(a, change), _rewritten(b, change)) for a, b in node.branches
            ),
            otherwise=None if node.otherwise is None else _rewritten(node.otherwise, change),
        )
    return node


def _variables(pattern: ast.Pattern) -> list[str]:
    match pattern:
        case ast.PatternVariable():
            return [pattern.name.name]
        case ast.PatternSequence() | ast.PatternAlternation() | ast.PatternPermutation():
            return [v for p in pattern.parts for v in _variables(p)]
        case ast.PatternExclusion() | ast.PatternRepetition():
            return _variables(pattern.operand)
    raise TypeError(type(pattern))


# Views of views double with every join of one with itself.
_MOST_NODES = 2000

_WINDOW_FORMS = {
    "TUMBLE": ("DATA", "TIMECOL", "SIZE", "OFFSET"),
    "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"),
    "CUMULATE": ("DATA", "TIMECOL", "STEP", "SIZE", "OFFSET"),
    "SESSION": ("DATA", "TIMECOL", "GAP"),
}


def _is_window(call: ast.FunctionCall) -> bool:
    return str(call.name).upper() in _WINDOW_FORMS


def _unnested(type_: t.SqlType, span: Span) -> tuple[t.Field, ...]:
    """The columns of UNNEST."""
    match type_:
        case t.ArrayType(element=t.RowType() as row) | t.MultisetType(element=t.RowType() as row):
            return tuple(
                replace(f, type=f.type.with_nullable(f.type.nullable or row.nullable))
                for f in row.fields
            )
        case t.ArrayType(element=element) | t.MultisetType(element=element):
            return (t.Field("f0", element),)
        case t.MapType(key=key, value=value):
            return (t.Field("f0", key), t.Field("f1", value))
    raise script_error(
        "PLAN-075",
        f"UNNEST needs an ARRAY, a MAP or a MULTISET, but this is {type_.as_nullable}",
        span,
    )


# --- tables --------------------------------------------------------------------------------------


def scan(
    table: Table, span: Span, duplicates: bool = False, functions: FindFunction = no_function
) -> Node:
    """A table with all its columns: what is stored, then what is computed from it, then its clock. An upsert table
    is completed; so are changes that may come twice."""
    schema = table.schema
    stored = tuple(c.name for c in schema.columns if not isinstance(c, Computed))
    node: Node = nodes.Scan(table, stored)
    if len(stored) != len(schema.columns):
        fields = all_inputs(node)
        scope = Scope((Relation(table.name, fields),), functions=functions)
        expressions = [
            scope.bind(c.expression)
            if isinstance(c, Computed)
            else next(f for f in fields if f.name == c.name)
            for c in schema.columns
        ]
        node = nodes.Project(node, tuple(expressions), tuple(c.name for c in schema.columns))
    if schema.watermark is not None:
        at = next(i for i, c in enumerate(schema.columns) if c.name == schema.watermark.column)
        scope = Scope((Relation(table.name, all_inputs(node)),), functions=functions)
        node = nodes.WatermarkAssigner(node, at, scope.bind(schema.watermark.expression))
    mode = table.connector.source_mode
    incomplete = not mode.insert_only and RowKind.UPDATE_BEFORE not in mode
    twice = duplicates and RowKind.UPDATE_BEFORE in mode
    if twice and not schema.primary_key:
        raise script_error(
            "PLAN-079",
            f"'table.exec.source.cdc-events-duplicate' needs a PRIMARY KEY of table '{table.name}'",
            span,
            "declare PRIMARY KEY (…) NOT ENFORCED, by which a change that came twice is known",
        )
    if incomplete or twice:
        names = [c.name for c in schema.columns]
        keys = tuple(names.index(k) for k in schema.primary_key)
        node = nodes.ChangelogNormalize(node, keys, needed=twice)
    return node


def _hinted(table: Table | View, hint: ast.Hint, catalog: Catalog) -> Table:
    if hint.name.upper() == "OPTIONS" and isinstance(table, Table):
        return catalog.with_options(table, hint)
    if isinstance(table, View):
        raise script_error(
            "PLAN-077",
            f"the hint {hint.name} is not for a view",
            hint.span,
            "write it at the tables inside the view",
        )
    _note_hint(hint, catalog)
    return table


# Hints of Flink that tell a batch job how to join.
_BATCH_HINTS = ("BROADCAST", "SHUFFLE_HASH", "SHUFFLE_MERGE", "NEST_LOOP", "LOOKUP", "MULTI_JOIN")


def _note_hint(hint: ast.Hint, catalog: Catalog) -> None:
    name = hint.name.upper()
    if name not in (*_BATCH_HINTS, "STATE_TTL", "OPTIONS"):
        raise script_error(
            "PLAN-077",
            f"hint {hint.name} does not exist",
            hint.span,
            did_you_mean(name, ["OPTIONS", "STATE_TTL", *_BATCH_HINTS]),
        )
    if name == "OPTIONS":
        raise script_error("PLAN-077", "the hint OPTIONS stands behind a table's name", hint.span)
    message = f"hint {name} has no effect" + (" yet" if name == "STATE_TTL" else " here")
    catalog.warn(Diagnostic("PLAN-078", message, hint.span, severity="warning"))


# --- small steps ---------------------------------------------------------------------------------


def _refuse_aggregates(condition: Expr, clause: str, place: ast.Node) -> None:
    if any(isinstance(e, AggregateCall) for e in walk(condition)):
        raise script_error(
            "PLAN-056", f"an aggregate cannot stand in {clause}", place.span, "use HAVING"
        )
    if any(isinstance(e, OverCall) for e in walk(condition)):
        raise script_error(
            "PLAN-056", f"OVER cannot stand in {clause}", place.span, "use QUALIFY, or a subquery"
        )


def _reads_outside(expr: Expr) -> bool:
    return any(isinstance(e, OuterInput) for e in walk(expr))


def _is_count(expr: Expr) -> bool:
    return isinstance(expr, AggregateCall) and expr.function == "COUNT"


def _groups(body: ast.QueryBody) -> bool:
    return not isinstance(body, ast.Select) or body.group_by is not None


def _placed_predicate(predicate: Expr, node: Node, at: int | None) -> Expr:
    """A condition on the row outside, whose own side has found its column."""

    def change(e: Expr) -> Expr | None:
        if isinstance(e, Input):
            assert at is not None
            return nodes.input_of(node, at)
        return None

    return rewrite(predicate, change)


def _joined(predicate: Expr, width: int) -> Expr:
    """The condition of a join: the row outside is the left side."""

    def change(e: Expr) -> Expr | None:
        if isinstance(e, OuterInput):
            return Input(e.type, e.index, e.name)
        return replace(e, index=e.index + width) if isinstance(e, Input) else None

    return rewrite(predicate, change)


def _shifted(expr: Expr, by: int) -> Expr:
    return rewrite(expr, lambda e: replace(e, index=e.index + by) if isinstance(e, Input) else None)


def _replaced(expr: Expr, old: Expr, new: Expr) -> Expr:
    return rewrite(expr, lambda e: new if e == old else None)


def _side_by_side(left: Scope, right: Scope, width: int) -> Scope:
    moved = tuple(
        replace(r, columns=tuple(replace(c, index=c.index + width) for c in r.columns))
        for r in right.relations
    )
    return replace(left, relations=(*left.relations, *moved), common=())


def _least_truth(node: Node) -> nodes.Aggregate:
    """MIN of TRUE: NULL if there is no row."""
    truth = Literal(t.BOOLEAN.not_null, True)
    marked = nodes.Project(node, (truth,), ("i",))
    call = AggregateCall(t.BOOLEAN, "MIN", (Input(truth.type, 0, "i"),))
    return nodes.Aggregate(marked, (), (call,), ("m",))


def _whether_any(node: Node) -> Node:
    """One row if there is any, none otherwise."""
    least = _least_truth(node)
    found = Call(t.BOOLEAN.not_null, "IS NOT NULL", (nodes.input_of(least, 0),))
    return nodes.Filter(least, found)


def _single_value(plan: SubqueryPlan) -> Node:
    """The value of a query that must give one row; more of them stop the job."""
    node = plan.node
    keys = tuple(range(plan.width, len(node.columns)))
    value = nodes.input_of(node, 0)
    call = AggregateCall(value.type.as_nullable, "SINGLE_VALUE", (value,))
    names = (*(node.columns[k].name for k in keys), node.columns[0].name)
    single = nodes.Aggregate(node, keys, (call,), names)
    places = [len(keys), *range(len(keys))]
    return nodes.project(
        single,
        [nodes.input_of(single, p) for p in places],
        [single.columns[p].name for p in places],
    )


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
    merged = t.materialized(types[0])
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


def _distinct(node: Node) -> Node:
    keys = tuple(range(len(node.columns)))
    return nodes.Aggregate(node, keys, (), tuple(c.name for c in node.columns))


def _first(node: Node, width: int) -> Node:
    """The first columns of a node."""
    if len(node.columns) == width:
        return node
    kept = all_inputs(node)[:width]
    return nodes.Project(node, kept, tuple(c.name for c in kept))


def _rename(node: Node, names: tuple[ast.Identifier, ...], place: ast.Node) -> Node:
    if names and len(names) != len(node.columns):
        raise script_error(
            "PLAN-055", f"{len(names)} names for {len(node.columns)} columns", place.span
        )
    return _named(node, tuple(n.name for n in names))


def _named(node: Node, names: tuple[str, ...]) -> Node:
    return nodes.project(node, all_inputs(node), names) if names else node

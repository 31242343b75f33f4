"""Queries inside expressions: IN, EXISTS and scalar ones become joins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidemill import types as t
from tidemill.errors import script_error
from tidemill.plan import nodes
from tidemill.plan.binder.relations import (
    Relations,
    Selected,
    SubqueryPlan,
    first_columns,
    joined,
)
from tidemill.plan.expressions import (
    AggregateCall,
    Call,
    Expr,
    Input,
    Literal,
    OuterInput,
    Subquery,
    conjunction,
    conjuncts,
    inputs,
    rewrite,
    walk,
)
from tidemill.plan.grouping import (
    Placed,
)
from tidemill.plan.nodes import Node, all_inputs
from tidemill.plan.rules import filtered
from tidemill.plan.scope import Scope
from tidemill.sql import ast


class Subqueries(Relations):
    """WHERE, and what may hold a query."""

    def _with_common(self, query: ast.Query) -> Subqueries:
        raise NotImplementedError

    def _ordered(self, query: ast.Query, order: tuple[ast.OrderItem, ...]) -> Selected:
        raise NotImplementedError

    def _subquery(self, query: ast.Query, scope: Scope) -> SubqueryPlan:
        inner = type(self)(self._catalog, self._common, replace(scope, outer=None))
        inner = inner._with_common(query)
        has_end = query.limit is not None or query.offset is not None
        selected = inner._ordered(query, query.order_by if has_end else ())
        node, visible = selected.node, selected.visible
        limited = selected.visible if not selected.predicates else len(node.columns)
        one_row = selected.is_aggregate and not _groups(query.body)
        return SubqueryPlan(
            first_columns(node, limited),
            visible,
            selected.predicates,
            one_row,
            selected.zero,
        )

    def _where(self, node: Node, condition: Expr, scope: Scope) -> tuple[Node, list[Expr]]:
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
            elif _reads_outside(part):
                outside.append(part)
            else:
                plain.append(part)
        node = filtered(node, plain)
        for subquery, negated in halves:
            node = self._half_join(node, subquery, negated, scope)
        if others:
            node, others = self._join_scalars(node, others, scope)
            node = first_columns(nodes.Filter(node, conjunction(others)), width)
        return node, outside

    def _half_join(self, node: Node, subquery: Subquery, negated: bool, scope: Scope) -> Node:
        plan = subquery.plan
        assert isinstance(plan, SubqueryPlan)
        span = subquery.span
        assert span is not None
        width = len(node.columns)
        right = plan.node
        parts = [joined(p, width) for p in plan.predicates]
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
            parts = [joined(p, width) for p in plan.predicates]
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
            if _reads_outside(placed.expr):
                raise script_error(
                    "PLAN-025",
                    "a subquery can use columns of the query around it in its WHERE only",
                    placed.place.span,
                    "join the two tables instead",
                )


def _reads_outside(expr: Expr) -> bool:
    return any(isinstance(e, OuterInput) for e in walk(expr))


def _groups(body: ast.QueryBody) -> bool:
    return not isinstance(body, ast.Select) or body.group_by is not None


def _replaced(expr: Expr, old: Expr, new: Expr) -> Expr:
    return rewrite(expr, lambda e: new if e == old else None)


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

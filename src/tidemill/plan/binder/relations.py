"""FROM: tables, joins, table functions, from the tree to nodes and the names that they bring."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Protocol

from tidemill import types as t
from tidemill.changelog import RowKind
from tidemill.errors import Diagnostic, ScriptError, Span, did_you_mean, script_error
from tidemill.functions import TABLE, PythonFunction
from tidemill.plan import nodes
from tidemill.plan.expressions import (
    Call,
    Expr,
    Input,
    Literal,
    OuterInput,
    OverCall,
    SortKey,
    UserCall,
    conjunction,
    conjuncts,
    inputs,
    rewrite,
    shifted,
    walk,
)
from tidemill.plan.grouping import TIME_ATTRIBUTE_HINT, Placed, has_aggregates, milliseconds
from tidemill.plan.nodes import Node, all_inputs
from tidemill.plan.rules import arrange
from tidemill.plan.scope import Relation, Scope
from tidemill.plan.user_functions import FindFunction, check_user_call, no_function
from tidemill.sql import ast
from tidemill.tables import check_read
from tidemill.tables.catalog import Computed, Table, View
from tidemill.tables.options import parse_duration

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


# Views of views double with every join of one with itself.
_MOST_NODES = 2000
_WINDOW_FORMS = {
    "TUMBLE": ("DATA", "TIMECOL", "SIZE", "OFFSET"),
    "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"),
    "CUMULATE": ("DATA", "TIMECOL", "STEP", "SIZE", "OFFSET"),
    "SESSION": ("DATA", "TIMECOL", "GAP"),
}
# What picks a row of those that a pattern's variable stands for.
_ROW_FUNCTIONS = ("FIRST", "LAST", "PREV", "NEXT")
# Hints of Flink that tell a batch job how to join.
_BATCH_HINTS = ("BROADCAST", "SHUFFLE_HASH", "SHUFFLE_MERGE", "NEST_LOOP", "LOOKUP", "MULTI_JOIN")


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
class Selected:
    node: Node
    visible: int
    """Columns of the select list; what follows is for ORDER BY and the row outside."""
    order: tuple[SortKey, ...]
    predicates: tuple[Expr, ...]
    is_aggregate: bool
    zero: bool


class Relations:
    """What stands in FROM. Queries inside it are bound by the class that completes this one."""

    def __init__(
        self,
        catalog: Catalog,
        common: Mapping[str, Node] | None = None,
        outer: Scope | None = None,
    ) -> None:
        self._catalog = catalog
        self._common = dict(common or {})
        self._outer = outer
        self._ttls: dict[str, timedelta] = {}
        """How long state is kept that a table of this query block fills, by its name (STATE_TTL)."""

    def query(self, query: ast.Query, top: bool = False) -> Node:
        raise NotImplementedError

    def _subquery(self, query: ast.Query, scope: Scope) -> SubqueryPlan:
        raise NotImplementedError

    def _items(
        self, body: ast.Select, scope: Scope, problems: list[Diagnostic]
    ) -> list[tuple[str, Placed]]:
        raise NotImplementedError

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
        node = rename(node, relation.column_aliases, relation)
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
                node = type(self)(self._catalog.within(found)).query(found.query)
                plans[id(found)] = found, named(node, found.columns)
            return plans[id(found)][1]
        for hint in reference.hints:
            found = hinted(found, hint, self._catalog)
        for warning in check_read(found, reference.span):
            self._catalog.warn(warning)
        duplicates = (self._catalog.setting("table.exec.source.cdc-events-duplicate") or "").lower()
        functions = self._catalog.within(found).function
        return scan(found, reference.span, duplicates == "true", functions)

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
                node, scope = self._table_function(join.right, left, left_scope, kind)
                return self._correlated(join, node, scope), scope
            case ast.Subquery(lateral=True):
                return self._lateral(join, kind, left, left_scope, join.right)
        right, right_scope = self._relation(join.right)
        scope = _side_by_side(left_scope, right_scope, len(left.columns))
        condition, common = self._join_condition(join, scope, left_scope, right_scope, left)
        ttls = self._ttls_of(join.left), self._ttls_of(join.right)
        node = nodes.Join(kind, left, right, condition, ttls=ttls if any(ttls) else ())
        if kind in ("SEMI", "ANTI"):
            return node, left_scope.over(node.columns)
        return node, replace(scope.over(node.columns), common=common)

    def _ttls_of(self, relation: ast.Relation | None) -> timedelta | None:
        return self._ttls.get(_name_of(relation) or "")

    def _join_condition(
        self, join: ast.Join, scope: Scope, left: Scope, right: Scope, node: Node
    ) -> tuple[Expr, tuple[tuple[str, Expr], ...]]:
        if join.condition is not None:
            condition = replace(scope, subquery=None).condition(join.condition, "ON")
            refuse_aggregates(condition, "ON", join.condition)
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
            b = shifted(right.column(reference), len(node.columns))
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
        if (select := _of_function(right.query)) is not None:
            return self._lateral_function(join, kind, left, scope, right, select)
        plan = self._subquery(right.query, scope)
        width = len(left.columns)
        parts = [joined(p, width) for p in plan.predicates]
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

    def _lateral_function(
        self,
        join: ast.Join,
        kind: str,
        left: Node,
        scope: Scope,
        right: ast.Subquery,
        select: ast.Select,
    ) -> tuple[Node, Scope]:
        """LATERAL (SELECT … FROM UNNEST(x) WHERE …): the rows of a table function, of which some are chosen. As in
        Flink, nothing but the function's arguments reads the columns to its left."""
        assert isinstance(select.source, ast.TableFunction)
        whole, joint = self._table_function(select.source, left, scope, kind)
        assert isinstance(whole, nodes.Correlate)
        inside = self._scope(joint.relations[-1])
        node: Node = whole
        if select.where is not None:
            condition = inside.condition(select.where, "WHERE")
            refuse_aggregates(condition, "WHERE", select.where)
            node = _choosing(whole, condition, select.where.span)
        items = self._items(select, inside, [])
        for _, item in items:
            if has_aggregates(item.expr) or any(isinstance(e, OverCall) for e in walk(item.expr)):
                raise script_error(
                    "PLAN-025",
                    "an aggregate over a table function of the row around it is not supported, as in Flink",
                    item.place.span,
                    "join the function's rows by CROSS JOIN, and group them by a key of the row",
                )
        exprs = [item.expr for _, item in items]
        if isinstance(node, nodes.Correlate) and kind == "LEFT":
            node, exprs = _none_without_row(node, exprs)
        width = len(left.columns)
        names = [n for n, _ in items]
        if right.column_aliases:
            _check_names(right.column_aliases, len(names), right)
            names = [a.name for a in right.column_aliases]
        known = (c.name for c in left.columns)
        kept = (*all_inputs(node)[:width], *exprs)
        made = nodes.Project(node, kept, nodes.unique_names((*known, *names)))
        added = tuple(
            Input(e.type, width + i, n) for i, (e, n) in enumerate(zip(exprs, names, strict=True))
        )
        relation = Relation(right.alias.name if right.alias else None, added)
        both = replace(scope, relations=(*scope.relations, relation))
        condition, _ = self._join_condition(join, both, scope, both, made)
        if isinstance(condition, Literal) and condition.value is True:
            return made, both
        raise script_error(
            "PLAN-075",
            "a subquery over a table function can be joined by CROSS JOIN, or by LEFT JOIN … ON TRUE",
            join.span,
            "put the condition into its WHERE",
        )

    @staticmethod
    def _check_correlate(join: ast.Join, kind: str) -> None:
        if kind not in ("INNER", "LEFT") or join.using or join.natural:
            raise script_error(
                "PLAN-075",
                "a table function can be joined by CROSS JOIN, or by LEFT JOIN … ON TRUE",
                join.span,
                "what compares it with other tables stands in WHERE",
            )

    def _correlated(self, join: ast.Join, node: Node, scope: Scope) -> Node:
        """A table function whose rows must fulfil a condition to be joined."""
        assert isinstance(node, nodes.Correlate)
        condition, _ = self._join_condition(join, scope, scope, scope, node)
        if isinstance(condition, Literal) and condition.value is True:
            return node
        assert join.condition is not None
        return _choosing(node, condition, join.condition.span)

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
        now = isinstance(time, Call) and time.function == "PROCTIME"
        if attribute is None or not (isinstance(time, Input) or now):
            raise script_error(
                "PLAN-074",
                "FOR SYSTEM_TIME AS OF takes a time attribute of the left table",
                as_of.span,
                TIME_ATTRIBUTE_HINT,
            )
        right = rename(self._table(reference), reference.column_aliases, reference)
        name = (reference.alias or reference.name.parts[-1]).name
        right_scope = self._scope(Relation(name, all_inputs(right)))
        scope = _side_by_side(left_scope, right_scope, len(left.columns))
        condition, common = self._join_condition(join, scope, left_scope, right_scope, left)
        node: nodes.Join
        if attribute is t.TimeAttribute.PROCTIME and _is_looked_up(right):
            node = nodes.LookupJoin(kind, left, right, condition)
            _check_equality(node, join)
        else:
            place = time.index if isinstance(time, Input) else 0
            node = nodes.TemporalJoin(kind, left, right, condition, place)
            self._check_temporal(node, join, reference, attribute)
        return node, replace(scope.over(node.columns), common=common)

    @staticmethod
    def _check_temporal(
        node: nodes.TemporalJoin,
        join: ast.Join,
        reference: ast.TableReference,
        attribute: t.TimeAttribute,
    ) -> None:
        place = _check_equality(node, join)
        versions = arrange(node.right)
        compared = _compared(node)
        if not any(key <= compared for key in versions.upsert_keys):
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
                "join at a rowtime attribute, use a regular join, or look rows up in a 'filesystem' or 'jdbc' table",
            )
        clocks = [t.time_attribute(c.type) for c in node.right.columns]
        if t.TimeAttribute.ROWTIME not in clocks:
            raise script_error(
                "PLAN-074",
                f"'{reference.name}' needs a rowtime attribute: without it its versions have no time",
                reference.span,
                TIME_ATTRIBUTE_HINT,
            )

    def _table_function(
        self, relation: ast.TableFunction, left: Node, scope: Scope, kind: str
    ) -> tuple[Node, Scope]:
        call = relation.call
        name = str(call.name).upper()
        alias = relation.alias.name if relation.alias else None
        if _is_window(call):
            node = rename(self._window_function(name, call), relation.column_aliases, relation)
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
            if len(call.arguments) != 1:
                raise script_error("PLAN-012", "UNNEST takes one argument", call.span)
            arguments = (self._unnested_argument(call.arguments[0], scope),)
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
            _check_names(relation.column_aliases, len(fields), relation)
            pairs = zip(fields, relation.column_aliases, strict=True)
            fields = tuple(replace(f, name=a.name) for f, a in pairs)
        node = nodes.Correlate(left, kind, name, arguments, fields, made, relation.with_ordinality)
        width = len(left.columns)
        added = tuple(
            Input(c.type, width + i, f.name)
            for i, (c, f) in enumerate(zip(node.columns[width:], fields, strict=True))
        )
        return node, replace(scope, relations=(*scope.relations, Relation(alias, added)))

    def _unnested_argument(self, argument: ast.Expression, scope: Scope) -> Expr:
        try:
            return scope.bind(argument)
        except ScriptError:
            if self._outer is None:
                raise
            self._outer.bind(argument)
            raise script_error(
                "PLAN-025",
                "UNNEST in a subquery cannot read the row around it, as in Flink",
                argument.span,
                "join it in FROM: CROSS JOIN UNNEST(…)",
            ) from None

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
            self._measure(definition, inside, order)
        fields = [t.Field(p.name, p.type) for p in partition if isinstance(p, Input)]
        for measure in relation.measures:
            type_ = self._measure(measure.expression, inside, order)
            fields.append(t.Field(measure.alias.name, type_))
        by = tuple(p.index for p in partition if isinstance(p, Input))
        return nodes.Match(node, by, order, tuple(fields))

    @staticmethod
    def _measure(expression: ast.Expression, scope: Scope, order: tuple[SortKey, ...]) -> t.SqlType:
        """The type of an expression over the rows of a match: of FIRST(a.x), LAST(a.x) and the like, that of a.x."""

        def plain(e: ast.Expression) -> ast.Expression:
            if isinstance(e, ast.FunctionCall) and str(e.name).upper() in _ROW_FUNCTIONS:
                return e.arguments[0]
            return e

        if isinstance(expression, ast.FunctionCall):
            name = str(expression.name).upper()
            if name == "MATCH_ROWTIME":
                return order[0].expression.type.not_null
            if name == "MATCH_PROCTIME":
                return t.TimestampLtzType(False, 3, t.TimeAttribute.PROCTIME)
        return scope.bind(_rewritten(expression, plain)).type


def _choosing(node: nodes.Correlate, condition: Expr, span: Span) -> Node:
    """A table function of which only the rows that fulfil a condition are joined."""
    width = len(node.input.columns)
    if any(i < width for i in inputs(condition)):
        raise script_error(
            "PLAN-075",
            "the condition of a table function reads nothing but the function's columns, as in Flink",
            span,
            "put it into WHERE, or give the function what it needs as an argument",
        )
    if node.kind == "INNER":
        return nodes.Filter(node, condition)
    if any(isinstance(e, UserCall) for e in walk(condition)):
        raise script_error(
            "PLAN-075",
            "the condition of a LEFT JOIN with a table function cannot call a Python function",
            span,
        )
    return replace(node, condition=shifted(condition, -width))


def _none_without_row(node: nodes.Correlate, exprs: list[Expr]) -> tuple[Node, list[Expr]]:
    """What is computed of a row of the function is NULL where it gave none: there its number is."""
    if all(isinstance(e, Input) for e in exprs):
        return node, exprs
    if not node.ordinality:
        fields = (*node.fields, t.Field("ORDINALITY", t.INT.not_null))
        node = replace(node, fields=fields, ordinality=True)
    number = nodes.input_of(node, len(node.columns) - 1)
    is_there = Call(t.BOOLEAN.not_null, "IS NOT NULL", (number,))
    return node, [
        e
        if isinstance(e, Input)
        else Call(e.type.as_nullable, "CASE", (is_there, e, Literal(e.type.as_nullable, None)))
        for e in exprs
    ]


def _of_function(query: ast.Query) -> ast.Select | None:
    """A query that does nothing but choose from the rows of a table function."""
    body = query.body
    more = (*query.common_tables, *query.order_by, query.limit, query.offset)
    if not isinstance(body, ast.Select) or any(m is not None for m in more):
        return None
    plain = body.group_by is None and body.having is None and body.qualify is None
    source = body.source
    if not plain or body.distinct or not isinstance(source, ast.TableFunction):
        return None
    return None if _is_window(source.call) else body


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
    if isinstance(node, ast.FunctionCall):
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


def hinted(table: Table | View, hint: ast.Hint, catalog: Catalog) -> Table:
    if hint.name.upper() == "OPTIONS" and isinstance(table, Table):
        return catalog.with_options(table, hint)
    if isinstance(table, View):
        raise script_error(
            "PLAN-077",
            f"the hint {hint.name} is not for a view",
            hint.span,
            "write it at the tables inside the view",
        )
    note_hint(hint, catalog)
    return table


def _is_looked_up(node: Node) -> bool:
    """Whether it is a table that ends, with what is computed of its rows."""
    while isinstance(node, nodes.Project | nodes.Filter | nodes.WatermarkAssigner):
        node = node.input
    return isinstance(node, nodes.Scan) and node.table.connector.is_looked_up


def _compared(join: nodes.Join) -> frozenset[int]:
    """Columns of the right side that must be equal to what the left side has, or makes of it."""
    width = len(join.left.columns)
    found = set()
    for part in conjuncts(join.condition):
        if isinstance(part, Call) and part.function == "=":
            for one, other in (part.arguments, part.arguments[::-1]):
                if (
                    isinstance(one, Input)
                    and one.index >= width
                    and max(inputs(other), default=width) < width
                ):
                    found.add(one.index - width)
    return frozenset(found)


def _check_equality(node: nodes.Join, join: ast.Join) -> Span:
    place = join.condition.span if join.condition is not None else join.span
    equalities = (p for p in conjuncts(node.condition) if isinstance(p, Call))
    if not any(p.function == "=" for p in equalities):
        raise script_error(
            "PLAN-074", "a temporal join needs an equality between the two tables", place
        )
    return place


def _name_of(relation: ast.Relation | None) -> str | None:
    """What a query calls something that stands in FROM."""
    match relation:
        case ast.TableReference():
            return (relation.alias or relation.name.parts[-1]).name
        case ast.Subquery(alias=ast.Identifier(name=name)):
            return name
    return None


def state_ttls(hint: ast.Hint, source: ast.Relation | None) -> dict[str, timedelta]:
    """STATE_TTL('t' = '1d'): how long the state of each table of a query block is kept."""
    known = {name for name in map(_name_of, _relations(source)) if name is not None}
    found: dict[str, timedelta] = {}
    for name, text in hint.arguments:
        if name is None:
            raise script_error(
                "PLAN-077",
                "STATE_TTL needs a table and a time",
                hint.span,
                "write /*+ STATE_TTL('t' = '1 d') */",
            )
        if name not in known:
            raise script_error(
                "PLAN-077",
                f"STATE_TTL names '{name}', which is no table of this query",
                hint.span,
                did_you_mean(name, sorted(known))
                or "name a table as FROM does, by its alias if it has one",
            )
        try:
            found[name] = parse_duration(text)
        except ValueError:
            raise script_error(
                "PLAN-077",
                f"'{text}' is no time to live",
                hint.span,
                "write '1 d', '12 h' or '30 min'",
            ) from None
    return found


def _relations(source: ast.Relation | None) -> Iterator[ast.Relation]:
    if isinstance(source, ast.Join):
        yield from _relations(source.left)
        yield from _relations(source.right)
    elif source is not None:
        yield source


def note_hint(hint: ast.Hint, catalog: Catalog) -> None:
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
    message = f"hint {name} has no effect here"
    catalog.warn(Diagnostic("PLAN-078", message, hint.span, severity="warning"))


def refuse_aggregates(condition: Expr, clause: str, place: ast.Node) -> None:
    if has_aggregates(condition):
        raise script_error(
            "PLAN-056", f"an aggregate cannot stand in {clause}", place.span, "use HAVING"
        )
    if any(isinstance(e, OverCall) for e in walk(condition)):
        raise script_error(
            "PLAN-056", f"OVER cannot stand in {clause}", place.span, "use QUALIFY, or a subquery"
        )


def joined(predicate: Expr, width: int) -> Expr:
    """The condition of a join: the row outside is the left side."""

    return rewrite(
        shifted(predicate, width),
        lambda e: Input(e.type, e.index, e.name) if isinstance(e, OuterInput) else None,
    )


def _side_by_side(left: Scope, right: Scope, width: int) -> Scope:
    moved = tuple(
        replace(r, columns=tuple(replace(c, index=c.index + width) for c in r.columns))
        for r in right.relations
    )
    return replace(left, relations=(*left.relations, *moved), common=())


def _check_names(names: tuple[ast.Identifier, ...], columns: int, place: ast.Node) -> None:
    if names and len(names) != columns:
        raise script_error("PLAN-055", f"{len(names)} names for {columns} columns", place.span)


def rename(node: Node, names: tuple[ast.Identifier, ...], place: ast.Node) -> Node:
    _check_names(names, len(node.columns), place)
    return named(node, tuple(n.name for n in names))


def first_columns(node: Node, width: int) -> Node:
    """The first columns of a node."""
    if len(node.columns) == width:
        return node
    kept = all_inputs(node)[:width]
    return nodes.Project(node, kept, tuple(c.name for c in kept))


def named(node: Node, names: tuple[str, ...]) -> Node:
    return nodes.project(node, all_inputs(node), names) if names else node

"""Expressions: from the tree to typed, bound form. In: a syntax tree and the columns in scope. Out: `Expr`s whose
names are input columns and whose types are Flink's. Law: a mistake points at the text that made it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, time
from decimal import Decimal
from math import isinf
from typing import Protocol

from tidemill import types as t
from tidemill.errors import ScriptError, Span, did_you_mean, script_error
from tidemill.functions import AGGREGATE, SCALAR, PythonFunction
from tidemill.plan.expressions import (
    AggregateCall,
    Call,
    Expr,
    Frame,
    Input,
    Literal,
    OuterInput,
    OverCall,
    SortKey,
    Subquery,
    UserCall,
    rewrite,
    walk,
    without_casts,
)
from tidemill.plan.functions import FUNCTIONS, NOT_YET, REFUSALS, SET_MARKS, TYPES, Function
from tidemill.plan.functions.aggregates import SIGNATURES, aggregate_type
from tidemill.plan.functions.json import is_path
from tidemill.plan.functions.logic import COMPARISONS
from tidemill.plan.functions.times import UNITS
from tidemill.plan.user_functions import (
    FindFunction,
    check_user_call,
    no_function,
    wrong_user_argument,
)
from tidemill.sql import ast

_TEMPORAL = (t.DateType, t.TimeType, *t.TIMESTAMP_TYPES)
# Functions that may be written like a column; the time functions are known to the parser.
_WITHOUT_PARENTHESES = (["PI"],)
# What a query may ask about the window that it groups by: function, window, property.
WINDOW_PROPERTIES = {
    f"{window}_{name}": (window, name.lower())
    for window in ("TUMBLE", "HOP", "SESSION")
    for name in ("START", "END", "ROWTIME", "PROCTIME")
}


@dataclass(frozen=True)
class Relation:
    """One entry of a FROM clause: its name, and its columns as they stand in the row below."""

    name: str | None
    columns: tuple[Input, ...]


class BoundQuery(Protocol):
    """What the binder makes of a query inside an expression."""

    @property
    def columns(self) -> tuple[t.Field, ...]: ...


@dataclass(frozen=True)
class Scope:
    relations: tuple[Relation, ...] = ()
    outer: Scope | None = None
    """The columns around a subquery."""
    common: tuple[tuple[str, Expr], ...] = ()
    """Columns of JOIN … USING: their name stands for both sides."""
    windows: Mapping[str, ast.WindowSpecification] = field(default_factory=dict)
    """The WINDOW clause."""
    subquery: Callable[[ast.Query, Scope], BoundQuery] | None = None
    functions: FindFunction = no_function
    """Where functions are looked up that scripts have made."""

    @property
    def columns(self) -> tuple[Input, ...]:
        return tuple(c for r in self.relations for c in r.columns)

    def over(self, columns: Sequence[t.Field]) -> Scope:
        """The same names over columns whose types may have changed."""

        def moved(expr: Input) -> Input:
            return replace(expr, type=columns[expr.index].type)

        relations = (replace(r, columns=tuple(map(moved, r.columns))) for r in self.relations)
        return replace(self, relations=tuple(relations))

    # --- names -------------------------------------------------------------------------------

    def star(self, node: ast.Star) -> tuple[tuple[str, Expr], ...]:
        if node.qualifier is None:
            if not self.relations:
                raise script_error("PLAN-001", "'*' needs a FROM clause", node.span)
            merged = {name for name, _ in self.common}
            rest = ((c.name, c) for c in self.columns if c.name not in merged)
            return (*self.common, *rest)
        wanted = str(node.qualifier)
        for relation in self.relations:
            if relation.name == wanted:
                return tuple((c.name, c) for c in relation.columns)
        row = self._find(node.qualifier)
        if row is not None and isinstance(row.type, t.RowType):
            span = node.qualifier.span
            return tuple(
                (f.name, _fields(row, (ast.Identifier(span, f.name),))) for f in row.type.fields
            )
        names = [r.name for r in self.relations if r.name]
        raise script_error(
            "PLAN-002",
            f"table '{wanted}' is not in the FROM clause",
            node.span,
            did_you_mean(wanted, names),
        )

    def column(self, name: ast.QualifiedName) -> Expr:
        found = self._find(name)
        if found is None and self.outer is not None:
            around = self.outer._find(name)
            if around is not None:
                return rewrite(around, _from_outside)
        if found is None and [p.name for p in name.parts] in _WITHOUT_PARENTHESES:
            return self._apply(name.parts[0].name, [], name.span)
        if found is None:
            raise self._missing(name.parts[0], self.columns, self._place())
        return found

    def _find(self, name: ast.QualifiedName) -> Expr | None:
        parts = [p.name for p in name.parts]
        for relation in self.relations:
            if len(parts) > 1 and relation.name == parts[0]:
                found = [c for c in relation.columns if c.name == parts[1]]
                if not found:
                    raise self._missing(name.parts[1], relation.columns, f"table '{parts[0]}'")
                return _fields(found[0], name.parts[2:])
        for merged, expr in self.common:
            if merged == parts[0]:
                return _fields(expr, name.parts[1:])
        found = [c for c in self.columns if c.name == parts[0]]
        if len(found) > 1:
            owners = [f"'{r.name}'" for r in self.relations if any(c in found for c in r.columns)]
            several = len(owners) > 1
            raise script_error(
                "PLAN-004",
                f"column '{parts[0]}' is ambiguous"
                + (f": {' and '.join(owners)} have one" if several else ", it stands there twice"),
                name.span,
                "write the table's name in front of it"
                if several
                else "give one of them another name",
            )
        return _fields(found[0], name.parts[1:]) if found else None

    def _place(self) -> str:
        names = [f"'{r.name}'" for r in self.relations if r.name]
        if not names:
            return "the query"
        return ("table " if len(names) == 1 else "tables ") + ", ".join(names)

    @staticmethod
    def _missing(part: ast.Identifier, known: Sequence[Input], place: str) -> ScriptError:
        names = [c.name for c in known]
        hint = did_you_mean(
            part.name, names, f"its columns are {', '.join(names)}" if names else None
        )
        return script_error(
            "PLAN-003", f"column '{part.name}' not found in {place}", part.span, hint
        )

    # --- expressions -------------------------------------------------------------------------

    def bind(self, node: ast.Expression) -> Expr:
        match node:
            case ast.ColumnReference():
                return self.column(node.name)
            case ast.NumberLiteral():
                return _number(node)
            case ast.StringLiteral():
                return Literal(t.CharType(False, _chars(node.value)), node.value)
            case ast.BinaryLiteral():
                return Literal(t.BinaryType(False, max(1, len(node.value))), node.value)
            case ast.BooleanLiteral():
                return Literal(t.BOOLEAN.not_null, node.value)
            case ast.NullLiteral():
                return Literal(t.NullType(), None)
            case ast.TemporalLiteral():
                return _temporal(node)
            case ast.IntervalLiteral():
                return _interval(node)
            case ast.Unary(operator="-", operand=ast.NumberLiteral() as number):
                return _number(number, negative=True)
            case ast.Unary():
                return self._unary(node)
            case ast.Binary():
                return self._binary(node)
            case ast.IsTest():
                return self._is_test(node)
            case ast.Between():
                return self._between(node)
            case ast.InList():
                items = [self.bind(node.operand), *(self.bind(i) for i in node.items)]
                return _negated(self._apply("IN", items, node.span), node.negated)
            case ast.Like():
                arguments = [self.bind(node.operand), self.bind(node.pattern)]
                if node.escape is not None:
                    arguments.append(self.bind(node.escape))
                name = "SIMILAR TO" if node.similar else "LIKE"
                return _negated(self._apply(name, arguments, node.span), node.negated)
            case ast.Case():
                return self._case(node)
            case ast.Cast():
                target = t.without_time_precision(node.type)
                operand = self.bind(node.operand)
                if t.time_attribute(operand.type) and operand.type.same(target):
                    # What is cast is no clock any more.
                    return Call(target.with_nullable(operand.type.nullable), "CAST", (operand,))
                return cast(operand, target, node.span, node.safe)
            case ast.FunctionCall():
                return self._call(node)
            case ast.ArrayConstructor():
                return self._array(node)
            case ast.MapConstructor():
                return self._map(node)
            case ast.RowConstructor():
                items = [self.bind(i) for i in node.items]
                fields = tuple(t.Field(f"EXPR${i}", e.type) for i, e in enumerate(items))
                return Call(t.RowType(False, fields), "ROW", tuple(items))
            case ast.ElementAccess():
                return self._element(node)
            case ast.FieldAccess():
                return _fields(self.bind(node.operand), (node.field,))
            case ast.Star():
                raise script_error(
                    "PLAN-001", "'*' can stand only in a select list or in COUNT(*)", node.span
                )
            case ast.InQuery():
                return _negated(self._in_query(node), node.negated)
            case ast.Exists():
                plan = self._subquery(node.query, node.span)
                return Subquery(t.BOOLEAN.not_null, "EXISTS", plan, (), node.span)
            case ast.ScalarQuery():
                plan = self._subquery(node.query, node.span)
                if len(plan.columns) != 1:
                    raise script_error(
                        "PLAN-024",
                        f"a query in the place of a value must have one column, not {len(plan.columns)}",
                        node.span,
                    )
                return Subquery(plan.columns[0].type.as_nullable, "SCALAR", plan, (), node.span)
        raise script_error("PLAN-005", "this expression cannot stand here", node.span)

    def _subquery(self, query: ast.Query, span: Span) -> BoundQuery:
        if self.subquery is None:
            raise script_error("PLAN-024", "a query cannot stand in this expression", span)
        return self.subquery(query, self)

    def _in_query(self, node: ast.InQuery) -> Expr:
        items = (
            node.operand.items if isinstance(node.operand, ast.RowConstructor) else [node.operand]
        )
        operands = [self.bind(i) for i in items]
        plan = self._subquery(node.query, node.span)
        if len(plan.columns) != len(operands):
            raise script_error(
                "PLAN-024",
                f"IN compares {len(operands)} value{'s' * (len(operands) != 1)} with a query of"
                f" {len(plan.columns)} columns",
                node.span,
            )
        # Compared once here, so that a mistake points at the operand.
        for operand, column in zip(operands, plan.columns, strict=True):
            self._apply("=", [operand, Input(column.type, 0, column.name)], node.operand.span)
        nullable = any(o.type.nullable for o in operands) or any(
            c.type.nullable for c in plan.columns
        )
        type_ = t.BOOLEAN.with_nullable(nullable)
        return Subquery(type_, "IN", plan, tuple(operands), node.span)

    def compare(self, operator: str, left: Expr, right: Expr, span: Span) -> Expr:
        return self._apply(operator, [left, right], span)

    def condition(self, node: ast.Expression, clause: str) -> Expr:
        bound = self.bind(node)
        if isinstance(bound.type, t.NullType):
            return cast(bound, t.BOOLEAN, node.span)
        if not isinstance(bound.type, t.BooleanType):
            raise script_error(
                "PLAN-006",
                f"{clause} needs a condition, but this is {bound.type.as_nullable}",
                node.span,
            )
        return bound

    def _unary(self, node: ast.Unary) -> Expr:
        operand = self.bind(node.operand)
        if node.operator == "NOT":
            return self._apply("NOT", [operand], node.span)
        if not isinstance(operand.type, (*t.NUMERIC_TYPES, *t.INTERVAL_TYPES)):
            raise _no_operator(node.operator, [operand.type], node.span)
        return operand if node.operator == "+" else Call(operand.type, "NEGATE", (operand,))

    def _binary(self, node: ast.Binary) -> Expr:
        left, right = self.bind(node.left), self.bind(node.right)
        if node.operator in ("+", "-", "*", "/", "%"):
            return arithmetic(node.operator, left, right, node.span)
        return self._apply(node.operator, [left, right], node.span)

    def _is_test(self, node: ast.IsTest) -> Expr:
        operand = self.bind(node.operand)
        if node.test == "DISTINCT FROM":
            assert node.other is not None
            name = "IS NOT DISTINCT FROM" if node.negated else "IS DISTINCT FROM"
            return self._apply(name, [operand, self.bind(node.other)], node.span)
        if node.test in ("NULL", "UNKNOWN"):
            return self._apply("IS NOT NULL" if node.negated else "IS NULL", [operand], node.span)
        if node.test in ("TRUE", "FALSE") or node.test.startswith("JSON"):
            return _negated(self._apply(f"IS {node.test}", [operand], node.span), node.negated)
        raise AssertionError(node.test)

    def _between(self, node: ast.Between) -> Expr:
        operand, low, high = self.bind(node.operand), self.bind(node.low), self.bind(node.high)

        def within(a: Expr, b: Expr) -> Expr:
            least = self._apply(">=", [operand, a], node.span)
            most = self._apply("<=", [operand, b], node.span)
            return self._apply("AND", [least, most], node.span)

        found = within(low, high)
        if node.symmetric:
            found = self._apply("OR", [found, within(high, low)], node.span)
        return _negated(found, node.negated)

    def _case(self, node: ast.Case) -> Expr:
        conditions: list[Expr] = []
        results: list[Expr] = []
        for condition, result in node.branches:
            if node.operand is None:
                conditions.append(self.condition(condition, "WHEN"))
            else:
                pair = [self.bind(node.operand), self.bind(condition)]
                conditions.append(self._apply("=", pair, condition.span))
            results.append(self.bind(result))
        otherwise = (
            Literal(t.NullType(), None) if node.otherwise is None else self.bind(node.otherwise)
        )
        type_, unified = _unify(
            _of_one_kind([*results, otherwise], node.span), node.span, "the branches of CASE"
        )
        if isinstance(type_, t.NullType):
            raise _only_nulls("the branches of CASE", node.span)
        arguments = [e for pair in zip(conditions, unified, strict=False) for e in pair]
        return Call(type_, "CASE", (*arguments, unified[-1]))

    def _array(self, node: ast.ArrayConstructor) -> Expr:
        type_, items = _unify(
            [self.bind(i) for i in node.items], node.span, "the elements of ARRAY"
        )
        if isinstance(type_, t.NullType):
            raise _only_nulls("the elements of ARRAY", node.span)
        return Call(t.ArrayType(False, type_), "ARRAY", tuple(items))

    def _map(self, node: ast.MapConstructor) -> Expr:
        items = [self.bind(i) for i in node.items]
        if len(items) % 2 or not items:
            raise script_error("PLAN-007", "MAP[…] needs keys and values in turn", node.span)
        if any(isinstance(i.type, t.NullType) for i in items):
            raise script_error("PLAN-013", "MAP does not take a bare NULL", node.span, _TYPED_NULL)
        key, keys = _unify(items[::2], node.span, "the keys of MAP")
        value, values = _unify(items[1::2], node.span, "the values of MAP")
        arguments = tuple(e for pair in zip(keys, values, strict=True) for e in pair)
        return Call(t.MapType(False, key, value), "MAP", arguments)

    def _element(self, node: ast.ElementAccess) -> Expr:
        operand, index = self.bind(node.operand), self.bind(node.index)
        if isinstance(index.type, t.NullType):
            raise script_error(
                "PLAN-013", "[…] does not take a bare NULL", node.index.span, _TYPED_NULL
            )
        match operand.type:
            case t.ArrayType(element=element):
                if not isinstance(index.type, t.INTEGER_TYPES):
                    raise _no_index(operand.type, index.type, node.index.span)
                if isinstance(index, Literal) and isinstance(index.value, int) and index.value < 1:
                    raise script_error(
                        "PLAN-008",
                        f"an array has no element {index.value}",
                        node.index.span,
                        "elements are counted from 1",
                    )
                index = cast(index, t.INT, node.index.span)
                return Call(element.as_nullable, "ARRAY ELEMENT", (operand, index))
            case t.MapType(key=key, value=value):
                if not t.can_assign(index.type, key):
                    raise _no_index(operand.type, index.type, node.index.span)
                index = cast(index, key, node.index.span)
                return Call(value.as_nullable, "MAP ELEMENT", (operand, index))
        raise script_error(
            "PLAN-008",
            f"[…] needs an ARRAY or a MAP, but this is {operand.type}",
            node.operand.span,
        )

    # --- calls -------------------------------------------------------------------------------

    def _call(self, node: ast.FunctionCall) -> Expr:
        made = self.functions(node.name)
        if made is not None:
            return self._user_call(made, node)
        name = str(node.name).upper()
        if node.over is not None:
            return self._over(name, node)
        if name in SET_MARKS:
            marked = tuple(self.bind(a) for a in node.arguments)
            return AggregateCall(t.BIGINT.not_null, name, marked)
        if name in SIGNATURES:
            return self._aggregate(name, node)
        if name in WINDOW_PROPERTIES:
            of_window = tuple(self.bind(a) for a in node.arguments)
            return Call(t.TimestampType(False, 3), name, of_window)
        if name == "CURRENT_WATERMARK" and len(node.arguments) == 1:
            time_column = self.bind(node.arguments[0])
            if t.time_attribute(time_column.type) is not t.TimeAttribute.ROWTIME:
                raise script_error(
                    "PLAN-013",
                    "CURRENT_WATERMARK needs a rowtime attribute",
                    node.arguments[0].span,
                )
            return Call(t.materialized(time_column.type).as_nullable, name, (time_column,))
        if node.distinct or node.filter is not None or node.star:
            raise script_error("PLAN-009", f"{name} is not an aggregate function", node.span)
        if name == "EXTRACT":
            return self._extract(node)
        if name == "OVERLAPS":
            return self._overlaps(node)
        if (node.form or "").endswith(" TO"):
            name = "FLOOR TO" if name == "FLOOR" else "CEIL TO"
        if name in UNITS:
            _check_unit(name, node)
        if name == "MOD" and len(node.arguments) == 2:
            left, right = (self.bind(a) for a in node.arguments)
            return arithmetic("%", left, right, node.span)
        if name == "TRIM" and node.form in ("TRIM LEADING", "TRIM TRAILING"):
            name = node.form
        if name in _JSON_READS:
            return self._json_read(name, node)
        if name in ("JSON_OBJECT", "JSON_ARRAY"):
            return self._json_build(name, node)
        if name == "JSON":
            raise script_error(
                "PLAN-009",
                "JSON can stand only as a value of JSON_OBJECT or JSON_ARRAY",
                node.span,
            )
        arguments = [self.bind(a) for a in node.arguments]
        if name.startswith("TRIM") and len(arguments) == 1:
            arguments.append(Literal(t.CharType(False, 1), " "))
        return self._apply(name, arguments, node.span, node.name.span)

    def _user_call(self, function: PythonFunction, node: ast.FunctionCall) -> Expr:
        check_user_call(function, node, SCALAR, AGGREGATE)
        arguments = self.user_arguments(function, node)
        if function.kind == SCALAR:
            return UserCall(function.result, function.name, arguments, function)
        _refuse_nested(arguments, node)
        condition = None if node.filter is None else self.condition(node.filter, "FILTER")
        return AggregateCall(
            function.result.as_nullable,
            function.name.lower(),
            arguments,
            filter=condition,
            implementation=function,
        )

    def user_arguments(self, function: PythonFunction, node: ast.FunctionCall) -> tuple[Expr, ...]:
        """The arguments of a call, cast to what the function takes."""
        arguments = [self.bind(a) for a in node.arguments]
        for index, argument in enumerate(arguments):
            wanted = function.parameter(index)
            if wanted is None:
                if isinstance(argument.type, t.NullType):
                    raise _only_nulls(f"the arguments of {function.name}", node.span)
                continue
            if not t.can_assign(argument.type, wanted):
                raise wrong_user_argument(function, index, argument.type, node)
            arguments[index] = cast(argument, wanted.as_nullable, node.span)
        return tuple(arguments)

    def _json_read(self, name: str, node: ast.FunctionCall) -> Expr:
        """JSON_EXISTS(text, path, on error), JSON_VALUE(text, path, type, on empty, on error) and JSON_QUERY(text,
        path, wrapper, on empty, on error): what the clauses say, or leave out, as constants."""
        says = dict(_JSON_READS[name])
        for clause in (node.form or "").removeprefix("JSON ").split(", ") if node.form else ():
            behaviour, _, event = clause.rpartition(" ON ")
            says[event if behaviour else "WRAPPER"] = behaviour or clause
        plain = [a for a in node.arguments if not isinstance(a, ast.NamedArgument)]
        type_ = node.returning or t.STRING
        call = self._apply(name, [self.bind(a) for a in plain], node.span)
        assert isinstance(call, Call)
        path = call.arguments[1]
        if isinstance(path, Literal) and isinstance(path.value, str) and not is_path(path.value):
            raise script_error(
                "PLAN-022",
                f"'{path.value}' is not a JSON path that can be followed",
                plain[1].span,
                "write members, indexes, slices and wildcards: $.a['b c'][0][1:3][*]..d",
            )
        for argument in node.arguments:
            if isinstance(argument, ast.NamedArgument):
                says[argument.name.name.removeprefix("ON ")] = self._json_default(argument, type_)
        if name != "JSON_EXISTS":
            if not isinstance(type_, t.STRING_TYPES) and not any(
                type_.same(r) for r in _JSON_RETURNS[name]
            ):
                raise script_error("PLAN-013", f"{name} cannot return {type_}", node.span)
            call = replace(call, type=type_.as_nullable)
        if name == "JSON_VALUE":
            says = {"RETURNING": type_.root, **says}
        constants = tuple(Literal(t.STRING.not_null, word) for word in says.values())
        return replace(call, arguments=(*call.arguments, *constants))

    def _json_default(self, argument: ast.NamedArgument, type_: t.SqlType) -> str:
        found = self.bind(argument.value)
        if not isinstance(found, Literal) or not t.can_assign(found.type, type_):
            raise script_error("PLAN-013", f"DEFAULT needs a constant {type_}", argument.value.span)
        value = str(found.value)
        return f"={value.lower() if isinstance(found.value, bool) else value}"

    def _json_build(self, name: str, node: ast.FunctionCall) -> Expr:
        """JSON_OBJECT(absent, key, value, …), JSON_ARRAY(absent, value, …), of which the first is a constant: whether a
        NULL is left out."""
        absent = node.form == "JSON ABSENT ON NULL" if node.form else name == "JSON_ARRAY"
        items: list[Expr] = []
        for index, argument in enumerate(node.arguments):
            is_key = name == "JSON_OBJECT" and index % 2 == 0
            if isinstance(argument, ast.FunctionCall) and str(argument.name).upper() == "JSON":
                inner = [self.bind(a) for a in argument.arguments]
                item = self._apply("JSON", inner, argument.span, argument.name.span)
            else:
                item = self.bind(argument)
            if is_key and (not isinstance(item.type, t.STRING_TYPES) or _is_null(item)):
                raise script_error(
                    "PLAN-013", "a key must be a text that is not NULL", argument.span
                )
            items.append(item)
        call = self._apply(name, items, node.span, node.name.span)
        assert isinstance(call, Call)
        flag = Literal(t.BOOLEAN.not_null, absent)
        return replace(call, arguments=(flag, *call.arguments))

    def _extract(self, node: ast.FunctionCall) -> Expr:
        unit, operand = node.arguments
        assert isinstance(unit, ast.StringLiteral)
        names = {"DAY": "DAYOFMONTH", "DOY": "DAYOFYEAR", "DOW": "DAYOFWEEK"}
        name = names.get(unit.value.upper(), unit.value.upper())
        known = name if name in FUNCTIONS else f"EXTRACT {name}"
        return self._apply(known, [self.bind(operand)], node.span)

    def _overlaps(self, node: ast.FunctionCall) -> Expr:
        """(start, end or length) OVERLAPS (start, end or length): neither ends before the other begins."""
        periods = []
        for side in node.arguments:
            if not isinstance(side, ast.RowConstructor) or len(side.items) != 2:
                raise script_error("PLAN-013", "OVERLAPS needs two periods (from, to)", side.span)
            begin, end = (self.bind(item) for item in side.items)
            if isinstance(end.type, t.INTERVAL_TYPES):
                end = arithmetic("+", begin, end, side.span)
            if not isinstance(begin.type, _TEMPORAL) or not isinstance(end.type, _TEMPORAL):
                raise _no_operator("OVERLAPS", [begin.type, end.type], side.span)
            bounds = [self._apply(f, [begin, end], side.span) for f in ("LEAST", "GREATEST")]
            periods.append(bounds)
        [first, second] = periods
        reaches = self._apply(">=", [first[1], second[0]], node.span)
        reached = self._apply(">=", [second[1], first[0]], node.span)
        return self._apply("AND", [reaches, reached], node.span)

    def _aggregate(self, name: str, node: ast.FunctionCall) -> Expr:
        if SIGNATURES[name].over_only:
            raise script_error(
                "PLAN-010",
                f"{name} needs an OVER clause",
                node.span,
                f"write {name}() OVER (PARTITION BY … ORDER BY …)",
            )
        type_, arguments, condition = self._aggregated(name, node)
        order = tuple(self.sort_key(i) for i in node.order_by)
        # Of MIN and MAX, DISTINCT changes nothing.
        distinct = node.distinct and name not in ("MIN", "MAX")
        return AggregateCall(type_, name, arguments, distinct, condition, order)

    def _aggregated(
        self, name: str, node: ast.FunctionCall
    ) -> tuple[t.SqlType, tuple[Expr, ...], Expr | None]:
        """Result type, arguments and filter of an aggregate."""
        condition = None if node.filter is None else self.condition(node.filter, "FILTER")
        if node.star:
            if name != "COUNT":
                raise script_error(
                    "PLAN-010", f"{name}(*) does not exist; only COUNT(*) does", node.span
                )
            return t.BIGINT.not_null, (), condition
        least, most = SIGNATURES[name].arguments
        if not least <= len(node.arguments) <= most:
            counts = {(0, 0): "no arguments", (1, 1): "one argument", (2, 2): "two arguments"}
            wanted = counts.get((least, most), f"{least} to {most} arguments")
            hint = "count rows of several columns with COUNT(DISTINCT (a, b)) later; use one column now"
            raise script_error(
                "PLAN-010",
                f"{name} takes {wanted}",
                node.span,
                hint if name == "COUNT" and node.arguments else None,
            )
        arguments = tuple(self.bind(a) for a in node.arguments)
        if node.over is None:
            _refuse_nested(arguments, node)
        filtered = node.filter is not None
        type_ = aggregate_type(name, [a.type for a in arguments], node.distinct, filtered)
        if type_ is None:
            raise script_error(
                "PLAN-010",
                f"{name} does not take {arguments[0].type.as_nullable}",
                node.arguments[0].span,
            )
        if name == "PERCENTILE":
            return self._percentile(node, arguments, type_, condition)
        return type_, self._with_settings(name, node, arguments), condition

    def _with_settings(
        self, name: str, node: ast.FunctionCall, arguments: tuple[Expr, ...]
    ) -> tuple[Expr, ...]:
        """The arguments of an aggregate; constants behind the first say how to aggregate."""
        separators = [a.value if isinstance(a, Literal) else None for a in arguments[1:]]
        if name == "LISTAGG" and not all(isinstance(s, str) for s in separators):
            raise script_error(
                "PLAN-013",
                "the separator of LISTAGG must be a constant text",
                node.arguments[1].span,
                "write it out: LISTAGG(x, '|')",
            )
        if name == "LAG" and node.nulls == "IGNORE NULLS":
            raise not_yet("LAG … IGNORE NULLS", node.span)
        if name == "ARRAY_AGG" and node.nulls == "IGNORE NULLS":
            return (*arguments, Literal(t.STRING.not_null, node.nulls))
        if name not in ("JSON_ARRAYAGG", "JSON_OBJECTAGG"):
            return arguments
        *keys, value = arguments
        if keys and (not isinstance(keys[0].type, t.STRING_TYPES) or _is_null(keys[0])):
            raise script_error(
                "PLAN-013", "a key must be a text that is not NULL", node.arguments[0].span
            )
        text = self._apply("JSON_STRING", [value], node.span, node.name.span)
        absent = node.form == "JSON ABSENT ON NULL" if node.form else name == "JSON_ARRAYAGG"
        setting = Literal(t.STRING.not_null, f"{'ABSENT' if absent else 'NULL'} ON NULL")
        return (*keys, text, setting)

    def _percentile(
        self,
        node: ast.FunctionCall,
        arguments: tuple[Expr, ...],
        type_: t.SqlType,
        condition: Expr | None,
    ) -> tuple[t.SqlType, tuple[Expr, ...], Expr | None]:
        """PERCENTILE(value, share or shares, how often): the columns first, then the shares as constants."""
        value, share, *often = arguments
        several = isinstance(share, Call) and share.function == "ARRAY"
        shares = [
            without_casts(s) for s in (share.arguments if isinstance(share, Call) else [share])
        ]
        for found in shares:
            constant = isinstance(found, Literal) and isinstance(found.type, t.NUMERIC_TYPES)
            if not constant or not 0 <= float(str(found.value)) <= 1:  # type: ignore[attr-defined]
                raise script_error(
                    "PLAN-013",
                    "PERCENTILE needs a constant between 0 and 1, or an ARRAY of them",
                    node.arguments[1].span,
                )
        if not isinstance(value.type, t.NUMERIC_TYPES):
            raise script_error(
                "PLAN-010",
                f"PERCENTILE does not take {value.type.as_nullable}",
                node.arguments[0].span,
            )
        if often and not isinstance(often[0].type, t.INTEGER_TYPES):
            raise script_error(
                "PLAN-013", "how often a value counts must be an integer", node.arguments[2].span
            )
        if several:
            type_ = t.ArrayType(type_.nullable, t.DOUBLE)
        columns = [Call(t.DOUBLE.with_nullable(value.type.nullable), "CAST", (value,))]
        columns += [Call(t.BIGINT.with_nullable(o.type.nullable), "CAST", (o,)) for o in often]
        return type_, (*columns, *shares), condition

    # --- OVER --------------------------------------------------------------------------------

    def sort_key(self, item: ast.OrderItem, bound: Expr | None = None) -> SortKey:
        expr = self.bind(item.expression) if bound is None else bound
        # Flink: NULLs are the smallest.
        last = item.descending if item.nulls_first is None else not item.nulls_first
        return SortKey(expr, item.descending, last)

    def _over(self, name: str, node: ast.FunctionCall) -> Expr:
        if name not in SIGNATURES:
            raise script_error("PLAN-009", f"{name} is not an aggregate function", node.span)
        assert node.over is not None
        spec = self._window(node.over)
        type_, arguments, condition = self._aggregated(name, node)
        partition = tuple(self.bind(p) for p in spec.partition_by)
        order = tuple(self.sort_key(i) for i in spec.order_by)
        numbering = SIGNATURES[name].over_only
        if numbering and not order and name not in ("LAG", "LEAD"):
            raise script_error(
                "PLAN-070", f"{name} needs ORDER BY in its OVER clause", node.over.span
            )
        if spec.frame is None:
            by_rows = numbering and name not in ("LAG", "LEAD")
            frame = Frame(by_rows, None)
        else:
            frame = self._frame(spec.frame)
        if not numbering and name != "COUNT":  # an empty frame has no value
            type_ = type_.with_nullable(type_.nullable or condition is not None)
        return OverCall(
            type_, name, arguments, node.distinct, condition, partition, order, frame, node.span
        )

    def _window(self, over: ast.WindowSpecification | ast.Identifier) -> ast.WindowSpecification:
        base = over if isinstance(over, ast.Identifier) else over.base
        if base is None:
            assert isinstance(over, ast.WindowSpecification)
            return over
        if base.name not in self.windows:
            raise script_error(
                "PLAN-070",
                f"window '{base.name}' is not in the WINDOW clause",
                base.span,
                did_you_mean(base.name, list(self.windows)),
            )
        found = self._window(self.windows[base.name])
        if isinstance(over, ast.Identifier):
            return found
        return replace(
            over,
            base=None,
            partition_by=over.partition_by or found.partition_by,
            order_by=over.order_by or found.order_by,
            frame=over.frame or found.frame,
        )

    def _frame(self, frame: ast.WindowFrame) -> Frame:
        ends_now = frame.end is None or frame.end.kind == "CURRENT ROW"
        if not ends_now or "FOLLOWING" in frame.start.kind:
            raise script_error(
                "PLAN-070",
                "a frame must end at the CURRENT ROW: rows that FOLLOW are not known yet",
                frame.span,
                "write ROWS BETWEEN n PRECEDING AND CURRENT ROW",
            )
        rows = frame.unit == "ROWS"
        if frame.start.kind == "UNBOUNDED PRECEDING":
            return Frame(rows, None)
        if frame.start.kind == "CURRENT ROW":
            return Frame(rows, 0)
        assert frame.start.value is not None
        value = self.bind(frame.start.value)
        wanted = t.INTEGER_TYPES if rows else (t.DayTimeIntervalType,)
        if not isinstance(value, Literal) or not isinstance(value.type, wanted):
            kind = "a number of rows" if rows else "an interval, such as INTERVAL '1' HOUR"
            raise script_error(
                "PLAN-070", f"PRECEDING needs {kind} that is written out", frame.start.span
            )
        assert isinstance(value.value, int)
        return Frame(rows, value.value)

    def _apply(
        self, name: str, arguments: list[Expr], span: Span, name_span: Span | None = None
    ) -> Expr:
        overloads = FUNCTIONS.get(name)
        if overloads is None:
            raise _unknown_function(name, name_span or span)
        counted = [f for f in overloads if f.accepts(len(arguments))]
        if not counted:
            raise script_error(
                "PLAN-012",
                f"{name} does not take {len(arguments)} argument{'s' * (len(arguments) != 1)}",
                span,
                f"its form is {' or '.join(f.signature for f in overloads)}",
            )
        reason = REFUSALS[name](arguments) if name in REFUSALS else None
        if reason is not None:
            raise script_error("PLAN-013", reason, span, "a CAST may help")
        taking = [f for f in counted if f.takes(arguments)]
        return _typed_call((taking or counted)[0], arguments, span)


def _from_outside(expr: Expr) -> Expr | None:
    return OuterInput(expr.type, expr.index, expr.name) if isinstance(expr, Input) else None


def _typed_call(function: Function, arguments: list[Expr], span: Span) -> Expr:
    if not function.bare_null and any(isinstance(a.type, t.NullType) for a in arguments):
        raise script_error(
            "PLAN-013",
            f"{function.name} does not take a bare NULL",
            span,
            _TYPED_NULL,
        )
    shared = [i for i in range(len(arguments)) if function.parameter(i).is_shared]
    common: t.SqlType | None = None
    if shared:
        subject = f"the arguments of {function.name}"
        common, unified = _unify([arguments[i] for i in shared], span, subject)
        for index, expr in zip(shared, unified, strict=True):
            arguments[index] = expr
    for index, argument in enumerate(arguments):
        parameter = function.parameter(index)
        if not parameter.takes(argument.type):
            raise _wrong_argument(function, index, argument.type, span)
        if parameter.kind in TYPES:
            arguments[index] = cast(argument, TYPES[parameter.kind], span)
        elif parameter.kind == "element":
            array = arguments[0].type
            assert isinstance(array, t.ArrayType)
            if not t.can_assign(argument.type, array.element):
                raise _wrong_argument(function, index, argument.type, span)
            arguments[index] = cast(argument, array.element, span)
        elif isinstance(argument.type, t.NullType) and parameter.kind not in ("common", "any"):
            family = parameter.families[-1]
            target = t.STRING if family is t.VarCharType else family()
            arguments[index] = cast(argument, target, span)
    if function.result == "common" and isinstance(common, t.NullType):
        raise _only_nulls(f"the arguments of {function.name}", span)
    result = function.result_type(arguments, common)
    return Call(result, function.name, tuple(arguments))


_TYPED_NULL = "give it a type: CAST(NULL AS …)"
# Clauses of the functions that read JSON, and what holds where they are left out.
_JSON_READS = {
    "JSON_EXISTS": {"ERROR": "FALSE"},
    "JSON_VALUE": {"EMPTY": "NULL", "ERROR": "NULL"},
    "JSON_QUERY": {"WRAPPER": "WITHOUT WRAPPER", "EMPTY": "NULL", "ERROR": "NULL"},
}
# What they can return besides text.
_JSON_RETURNS: dict[str, tuple[t.SqlType, ...]] = {
    "JSON_VALUE": (t.INT, t.DOUBLE, t.BOOLEAN),
    "JSON_QUERY": (t.ArrayType(element=t.STRING),),
}


def _is_null(expr: Expr) -> bool:
    plain = without_casts(expr)
    return isinstance(plain, Literal) and plain.value is None


def _chars(text: str) -> int:
    """The length of a text as Java counts it."""
    return len(text.encode("utf-16-le")) // 2


def _refuse_nested(arguments: Sequence[Expr], node: ast.FunctionCall) -> None:
    if any(isinstance(e, AggregateCall | OverCall) for a in arguments for e in walk(a)):
        raise script_error("PLAN-011", "an aggregate cannot stand inside an aggregate", node.span)


def _only_nulls(subject: str, span: Span) -> ScriptError:
    return script_error("PLAN-019", f"{subject} are all NULL and have no type", span, _TYPED_NULL)


def _no_index(operand: t.SqlType, index: t.SqlType, span: Span) -> ScriptError:
    return script_error(
        "PLAN-008", f"{operand.as_nullable} has no element by {index.as_nullable}", span
    )


def _wrong_argument(function: Function, index: int, found: t.SqlType, span: Span) -> ScriptError:
    wanted = function.parameter(index).kind
    if function.name in ("AND", "OR", "NOT", "||"):
        return _no_operator(function.name, [found], span)
    return script_error(
        "PLAN-013",
        f"argument {index + 1} of {function.name} must be {wanted}, but is {found.as_nullable}",
        span,
        f"its form is {function.signature}; a CAST may help",
    )


def _check_unit(name: str, node: ast.FunctionCall) -> None:
    place, units = UNITS[name]
    unit = node.arguments[place]
    assert isinstance(unit, ast.StringLiteral)
    if unit.value not in units:
        raise script_error(
            "PLAN-013",
            f"{name} does not know {unit.value}",
            unit.span,
            f"units are {', '.join(units)}",
        )


def _unknown_function(name: str, span: Span) -> ScriptError:
    if name in NOT_YET:
        return script_error(
            "PLAN-014",
            f"function {name} is not supported yet",
            span,
            "docs/functions.md lists what is there",
        )
    known = [*FUNCTIONS, *SIGNATURES, *NOT_YET]
    return script_error(
        "PLAN-015",
        f"function {name} does not exist",
        span,
        did_you_mean(
            name, [k for k in known if k[0].isalpha()], "docs/functions.md lists what is there"
        ),
    )


def not_yet(what: str, span: Span | None) -> ScriptError:
    return script_error("PLAN-020", f"not yet runnable: {what}", span, NOT_YET_HINT)


NOT_YET_HINT = (
    "docs/differences.md lists what is not there yet; 'tidemill check --plan-only' accepts it"
)


def _no_operator(operator: str, types: Sequence[t.SqlType], span: Span) -> ScriptError:
    found = " and ".join(str(x.as_nullable) for x in types)
    return script_error(
        "PLAN-016", f"'{operator}' does not apply to {found}", span, "a CAST may help"
    )


def _negated(expr: Expr, negated: bool) -> Expr:
    return Call(expr.type, "NOT", (expr,)) if negated else expr


def _fields(expr: Expr, path: Sequence[ast.Identifier]) -> Expr:
    for part in path:
        if not isinstance(expr.type, t.RowType):
            raise script_error(
                "PLAN-017",
                f"'{part.name}' is not a field: what stands before it is {expr.type}",
                part.span,
            )
        found = [f for f in expr.type.fields if f.name == part.name]
        if not found:
            names = [f.name for f in expr.type.fields]
            raise script_error(
                "PLAN-003",
                f"field '{part.name}' not found",
                part.span,
                did_you_mean(part.name, names),
            )
        type_ = found[0].type.with_nullable(found[0].type.nullable or expr.type.nullable)
        expr = Call(type_, "FIELD", (expr, Literal(t.STRING.not_null, part.name)))
    return expr


def cast(expr: Expr, target: t.SqlType, span: Span, safe: bool = False) -> Expr:
    """CAST, left out where it changes nothing."""
    if not t.can_cast(expr.type, target):
        raise script_error(
            "PLAN-018", f"{expr.type.as_nullable} cannot be cast to {target.as_nullable}", span
        )
    nullable = expr.type.nullable or safe
    if expr.type.same(target) and nullable == expr.type.nullable:
        return expr
    return Call(target.with_nullable(nullable), "TRY_CAST" if safe else "CAST", (expr,))


def _unify(items: list[Expr], span: Span, subject: str) -> tuple[t.SqlType, list[Expr]]:
    """Cast all items to their common type. In a comparison, text that meets a number, a time or a boolean gives way."""
    if not items:
        raise script_error("PLAN-019", f"{subject} are missing", span)
    others = [i.type for i in items if not isinstance(i.type, (*t.STRING_TYPES, t.NullType))]
    giving_way = bool(others) and all(
        isinstance(o, (t.BooleanType, *t.NUMERIC_TYPES, t.DateType, t.TimeType, *t.TIMESTAMP_TYPES))
        for o in others
    )
    if giving_way and subject.removeprefix("the arguments of ") in COMPARISONS:
        target = others[0].as_nullable
        items = [cast(i, target, span) if isinstance(i.type, t.STRING_TYPES) else i for i in items]
    merged = common_type_of([i.type for i in items], span, subject)
    return merged, [cast(i, merged, span) for i in items]


def common_type_of(types: Sequence[t.SqlType], span: Span, subject: str) -> t.SqlType:
    merged = t.materialized(types[0])
    for other in types[1:]:
        common = t.common_type(merged, other)
        if common is None:
            raise script_error(
                "PLAN-019",
                f"{subject} have no common type: {merged.as_nullable} and {other.as_nullable}",
                span,
                "a CAST may help",
            )
        merged = common
    return merged


def _of_one_kind(items: list[Expr], span: Span) -> list[Expr]:
    """Of TIMESTAMP and TIMESTAMP_LTZ in a CASE, Flink takes that which comes first."""
    found = [i.type for i in items if isinstance(i.type, t.TIMESTAMP_TYPES)]
    if not found:
        return items
    kind = type(found[0])
    return [
        cast(i, kind(i.type.nullable, i.type.precision), span)
        if isinstance(i.type, t.TIMESTAMP_TYPES)
        else i
        for i in items
    ]


def arithmetic(operator: str, left: Expr, right: Expr, span: Span) -> Expr:
    a, b = left.type, right.type
    nullable = a.nullable or b.nullable
    if operator == "%" and isinstance(a, t.APPROXIMATE_TYPES) | isinstance(b, t.APPROXIMATE_TYPES):
        raise _no_operator(operator, [a, b], span)
    if isinstance(a, t.NUMERIC_TYPES) and isinstance(b, t.NUMERIC_TYPES):
        decimals = t.as_decimal(a), t.as_decimal(b)
        if isinstance(a, t.DecimalType) or isinstance(b, t.DecimalType):
            first, second = decimals
            if first is not None and second is not None:
                result: t.SqlType = t.decimal_result(operator, first, second)
                pair = (cast(left, first, span), cast(right, second, span))
                return Call(result.with_nullable(nullable), operator, pair)
        common = t.common_type(a, b)
        assert common is not None
        # Flink: a remainder has the type of the divisor.
        result = b if operator == "%" and isinstance(b, t.INTEGER_TYPES) else common
        call = Call(
            common.with_nullable(nullable),
            operator,
            (cast(left, common, span), cast(right, common, span)),
        )
        return cast(call, result.with_nullable(nullable), span)
    if operator == "+" and isinstance(a, t.INTERVAL_TYPES) and isinstance(b, _TEMPORAL):
        left, right, a, b = right, left, b, a
    if operator in ("+", "-") and isinstance(a, _TEMPORAL) and isinstance(b, t.INTERVAL_TYPES):
        name = "ADD INTERVAL" if operator == "+" else "SUBTRACT INTERVAL"
        return Call(t.materialized(a).with_nullable(nullable), name, (left, right))
    if operator in ("+", "-") and isinstance(a, t.INTERVAL_TYPES) and a.same(b):
        return Call(a.with_nullable(nullable), operator, (left, right))
    if operator == "*" and isinstance(a, t.NUMERIC_TYPES) and isinstance(b, t.INTERVAL_TYPES):
        left, right, a, b = right, left, b, a
    if operator == "*" and isinstance(a, t.INTERVAL_TYPES) and isinstance(b, t.NUMERIC_TYPES):
        return Call(a.with_nullable(nullable), operator, (left, right))
    raise _no_operator(operator, [a, b], span)


# --- literals ------------------------------------------------------------------------------------


def _number(node: ast.NumberLiteral, negative: bool = False) -> Literal:
    sign = "-" if negative else ""
    if "e" in node.text.lower():
        number = float(sign + node.text)
        if isinf(number):
            raise script_error("PLAN-021", "this number does not fit a DOUBLE", node.span)
        return Literal(t.DOUBLE.not_null, number)
    value = Decimal(sign + node.text)
    scale = len(node.text.partition(".")[2])
    if not scale:
        whole = int(value)
        if -(2**31) <= whole < 2**31:
            return Literal(t.INT.not_null, whole)
        if -(2**63) <= whole < 2**63:
            return Literal(t.BIGINT.not_null, whole)
        raise script_error(
            "PLAN-021", "this number does not fit a BIGINT", node.span, "cast it from a text"
        )
    # Every digit counts that is written, zeros too.
    digits = len(node.text) - 1
    if digits > 38:
        raise script_error("PLAN-021", "this number has more than 38 digits", node.span)
    return Literal(t.DecimalType(False, digits, scale), value)


_DATE_FORM = r"(\d{4})-(\d{1,2})-(\d{1,2})"
_TIME_FORM = r"(\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9}))?"
_TEMPORAL_FORMS = {
    ast.TemporalKind.DATE: _DATE_FORM,
    ast.TemporalKind.TIME: _TIME_FORM,
    ast.TemporalKind.TIMESTAMP: f"{_DATE_FORM}(?: {_TIME_FORM})?",
}
_TEMPORAL_EXAMPLES = {
    ast.TemporalKind.DATE: "2020-12-31",
    ast.TemporalKind.TIME: "23:59:59",
    ast.TemporalKind.TIMESTAMP: "2020-12-31 23:59:59.123",
}


def _temporal(node: ast.TemporalLiteral) -> Literal:
    matched = re.fullmatch(_TEMPORAL_FORMS[node.kind], node.text)
    day, of_day, fraction = "", "00:00:00", ""
    try:
        if matched is None:
            raise ValueError
        parts = list(matched.groups())
        if node.kind is not ast.TemporalKind.TIME:
            day = date(*map(int, parts[:3])).isoformat()
            parts = parts[3:]
        if parts and parts[0] is not None:
            hour, minute, second = map(int, parts[:3])
            of_day = time(hour, minute, second).isoformat()
            fraction = parts[3] or ""
    except ValueError:
        raise script_error(
            "PLAN-022",
            f"'{node.text}' is not a {node.kind.value}",
            node.span,
            f"write it as {node.kind.value} '{_TEMPORAL_EXAMPLES[node.kind]}'",
        ) from None
    if node.kind is ast.TemporalKind.DATE:
        return Literal(t.DateType(False), day)
    if node.kind is ast.TemporalKind.TIME:
        # Flink's planner knows TIME(0) only.
        return Literal(t.TimeType(False, 0), of_day)
    text = f"{day} {of_day}" + (f".{fraction}" if fraction else "")
    return Literal(t.TimestampType(False, len(fraction)), text)


_UNIT_MILLIS = {
    "WEEK": 604_800_000,
    "DAY": 86_400_000,
    "HOUR": 3_600_000,
    "MINUTE": 60_000,
    "SECOND": 1000,
}
_UNIT_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}


def _interval(node: ast.IntervalLiteral) -> Literal:
    sign = -1 if node.negative else 1
    text = node.text.strip()
    if text[:1] in "+-":
        sign, text = (-sign if text[0] == "-" else sign), text[1:].strip()
    numbers = re.findall(r"\d+(?:\.\d+)?", text)
    months, millis = node.unit in _UNIT_MONTHS, list(_UNIT_MILLIS)
    units = list(_UNIT_MONTHS) if months else millis
    last = node.to_unit or node.unit
    wanted = [
        u
        for u in units[units.index(node.unit) : units.index(last) + 1]
        if u not in ("QUARTER", "WEEK")
    ]
    wanted = wanted or [node.unit]
    if len(numbers) != len(wanted) or re.sub(r"[\d.\s:\-]", "", text):
        raise script_error(
            "PLAN-022",
            f"'{node.text}' is not an interval of {' TO '.join((wanted[0], wanted[-1]))}",
            node.span,
        )
    factors = _UNIT_MONTHS if months else _UNIT_MILLIS
    total = sum(Decimal(n) * factors[u] for n, u in zip(numbers, wanted, strict=True))
    type_: t.SqlType = t.YearMonthIntervalType(False) if months else t.DayTimeIntervalType(False)
    return Literal(type_, sign * int(total))


__all__ = ["WINDOW_PROPERTIES", "BoundQuery", "Relation", "Scope", "arithmetic", "cast", "not_yet"]

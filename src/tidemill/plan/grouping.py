"""GROUP BY and OVER: from expressions that hold aggregates to nodes that compute them.

In: a node, and expressions over its columns. Out: a node above it, and the same expressions over its columns, in which
an Input stands for every aggregate. Law: an aggregate reads plain columns; what must be computed for it is projected
below it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal

from tidemill import types as t
from tidemill.errors import ScriptError, Span, script_error
from tidemill.plan import nodes
from tidemill.plan.expressions import (
    AggregateCall,
    Call,
    Expr,
    Input,
    Literal,
    OverCall,
    describe,
    rewrite,
    walk,
)
from tidemill.plan.functions import SET_MARKS
from tidemill.plan.functions.aggregates import SIGNATURES, aggregate_type
from tidemill.plan.nodes import Node, all_inputs
from tidemill.plan.scope import WINDOW_PROPERTIES, Scope, arithmetic, cast
from tidemill.sql import ast

_GROUP_WINDOWS = {"TUMBLE": (2, 3), "HOP": (3, 4), "SESSION": (2, 2)}


@dataclass(frozen=True)
class Placed:
    """An expression and the text that it comes from."""

    expr: Expr
    place: ast.Node


@dataclass(frozen=True)
class _GroupWindow:
    time: Expr
    window: nodes.Window
    arguments: tuple[Expr, ...]


def has_aggregates(expr: Expr) -> bool:
    return any(isinstance(e, AggregateCall) for e in walk(expr))


def group(
    body: ast.Select,
    scope: Scope,
    node: Node,
    items: Sequence[Placed],
    extra_keys: Sequence[Expr] = (),
    ttl: timedelta | None = None,
) -> tuple[Node, list[Expr]]:
    """The aggregate, and the items above it; `extra_keys` are grouped by as well, before the others. `ttl`: how long
    its state is kept, if a hint says so. A grouping set that stands there twice gives its rows twice, by an aggregate
    of its own."""
    keys = list(extra_keys)
    sets, window = _grouping(body, scope, keys)
    again = max(map(sets.count, sets))
    rounds = [[s for s in dict.fromkeys(sets) if sets.count(s) > n] for n in range(again)]
    made = [_grouped(body, node, items, keys, r, n, window, ttl) for n, r in enumerate(rounds)]
    if len(made) == 1:
        return made[0]
    names = tuple(f"EXPR${i}" for i in range(len(items)))
    parts = tuple(nodes.Project(below, tuple(exprs), names) for below, exprs in made)
    union = nodes.Union(parts, names)
    return union, list(all_inputs(union))


def _grouped(
    body: ast.Select,
    node: Node,
    items: Sequence[Placed],
    all_keys: Sequence[Expr],
    given: Sequence[frozenset[int]],
    number: int,
    window: _GroupWindow | None,
    ttl: timedelta | None,
) -> tuple[Node, list[Expr]]:
    """One aggregate for different grouping sets; `number` of them came before it."""
    present = sorted(frozenset().union(*given))
    keys = [all_keys[k] for k in present]
    sets = [frozenset(present.index(k) for k in s) for s in given]
    window_columns = _Window(window)
    # An aggregate of a whole table, which may be empty, is NULL then; a count is 0.
    may_be_empty = window is None and (not keys or any(not s for s in sets))
    items = [Placed(_reduced(item, may_be_empty), item.place) for item in items]
    calls: list[AggregateCall] = []
    for item in items:
        for found in walk(item.expr):
            if isinstance(found, AggregateCall) and found.function not in SET_MARKS:
                calls += [found] if found not in calls else []
    below: list[Expr] = list(keys)
    # Where a set leaves a key out, the key is NULL; an aggregate reads its value from a column of its own.
    blanked = {k for k in range(len(keys)) if not all(k in s for s in sets)}

    def column(expr: Expr) -> Input:
        at = next((i for i, e in enumerate(below) if e == expr and i not in blanked), len(below))
        if at == len(below):
            below.append(expr)
        return Input(expr.type, at, describe(expr))

    time = column(window.time).index if window else 0
    placed = tuple(_over_columns(call, column, may_be_empty) for call in calls)
    source: Node = nodes.Project(node, tuple(below), nodes.unique_names(describe(e) for e in below))
    names = [*(describe(k) for k in keys), *(f"EXPR${i}" for i in range(len(calls)))]
    places = list(range(len(keys)))
    if len(sets) > 1:
        source = nodes.Expand(source, tuple(sets))
        places.append(len(below))
        names.insert(len(keys), "$e")
    width = len(places)
    made: Node
    if window is not None:
        asked = window_columns.asked(items)
        names += [f"w${p}" for p in asked]
        made = nodes.GroupWindowAggregate(
            source, time, window.window, tuple(places), placed, asked, tuple(names)
        )
    else:
        made = _aggregate(source, tuple(places), placed, tuple(names), body)
        if type(made) is nodes.Aggregate and ttl is not None:
            made = replace(made, ttls=(ttl,))

    def above(expr: Expr) -> Expr | None:
        if expr in keys:
            at = keys.index(expr)
        elif expr in all_keys:
            return Literal(expr.type.as_nullable, None)
        elif isinstance(expr, AggregateCall) and expr.function == "GROUP_ID":
            return Literal(t.BIGINT.not_null, number)
        elif isinstance(expr, AggregateCall) and expr.function in SET_MARKS:
            marks = [nodes.missing_bits(range(len(keys)), s) for s in sets]
            expanded = Input(t.BIGINT.not_null, width - 1, "$e")
            return _mark(expr, all_keys, dict(zip(marks, given, strict=True)), expanded, body)
        elif isinstance(expr, AggregateCall):
            at = width + calls.index(expr)
        elif (found := window_columns.property(expr)) is not None:
            assert isinstance(made, nodes.GroupWindowAggregate)
            at = width + len(calls) + made.properties.index(found)
        else:
            return None
        return nodes.input_of(made, at)

    return made, [_lift(item, above) for item in items]


# Variance and deviation: whether of all rows, not of a sample of them; whether its root.
_DEVIATIONS = {
    "VAR_POP": (True, False),
    "VAR_SAMP": (False, False),
    "VARIANCE": (False, False),
    "STDDEV_POP": (True, True),
    "STDDEV_SAMP": (False, True),
    "STDDEV": (False, True),
}


def _reduced(item: Placed, may_be_empty: bool) -> Expr:
    """The same expression, in which sums and counts stand for variances and deviations."""

    def change(call: Expr) -> Expr | None:
        if not isinstance(call, AggregateCall) or call.function not in _DEVIATIONS:
            return None
        return _deviation(call, may_be_empty, item.place.span)

    return rewrite(item.expr, change)


def _deviation(call: AggregateCall, may_be_empty: bool, span: Span) -> Expr:
    """As Flink has it: the arithmetic is that of the argument's type, so that whole numbers have whole deviations."""
    of_all, root = _DEVIATIONS[call.function]
    [argument] = call.arguments
    operand = cast(argument, call.type, span)
    squares = _sum_like(call, arithmetic("*", operand, operand, span))
    total = cast(_sum_like(call, argument), call.type, span)
    count = replace(call, type=t.BIGINT.not_null, function="COUNT")
    mean = arithmetic("/", arithmetic("*", total, total, span), count, span)
    one = Literal(t.INT.not_null, 1)
    divisor: Expr = count
    if not of_all:
        alone = Call(t.BOOLEAN.not_null, "=", (count, cast(one, t.BIGINT, span)))
        rest = arithmetic("-", count, one, span)
        divisor = Call(t.BIGINT, "CASE", (alone, Literal(t.BIGINT, None), rest))
    found = arithmetic("/", arithmetic("-", squares, mean, span), divisor, span)
    if root:
        half = cast(Literal(t.DecimalType(False, 2, 1), Decimal("0.5")), t.DOUBLE, span)
        power = (cast(found, t.DOUBLE, span), half)
        found = Call(t.DOUBLE.with_nullable(found.type.nullable), "POWER", power)
    return _of_type(found, call.type.with_nullable(call.type.nullable or may_be_empty))


def _of_type(expr: Expr, type_: t.SqlType) -> Expr:
    if expr.type.same(type_) and expr.type.nullable == type_.nullable:
        return expr
    return Call(type_, "CAST", (expr,))


def _sum_like(call: AggregateCall, operand: Expr) -> AggregateCall:
    """SUM of an operand over the rows that a call is of."""
    filtered = call.filter is not None
    type_ = aggregate_type("SUM", [operand.type], call.distinct, filtered)
    assert type_ is not None
    return replace(call, type=type_, function="SUM", arguments=(operand,))


def _aggregate(
    source: Node,
    keys: tuple[int, ...],
    calls: tuple[AggregateCall, ...],
    names: tuple[str, ...],
    body: ast.Select,
) -> Node:
    windows = source.windows
    if windows is None or not windows.are_grouped_by(keys):
        return nodes.Aggregate(source, keys, calls, names)
    window = windows.window
    size, step = window.size or 0, window.step or 1
    if window.kind in ("HOP", "CUMULATE") and size % step:
        words = "slide" if window.kind == "HOP" else "step"
        raise script_error(
            "PLAN-071",
            f"an aggregate over {window.kind} windows needs a size that is a multiple of the {words},"
            f" but {size} ms is no multiple of {step} ms",
            body.span,
        )
    return nodes.WindowAggregate(source, keys, calls, names)


def _over_columns(
    call: AggregateCall, column: Callable[[Expr], Input], may_be_empty: bool
) -> AggregateCall:
    # A user's own aggregate has no signature.
    signature = SIGNATURES.get(call.function)
    of_nothing = may_be_empty and (signature is None or signature.null_of_nothing)
    nullable = call.type.nullable or of_nothing
    return replace(
        call,
        arguments=tuple(
            a if _is_setting(call, i) else column(a) for i, a in enumerate(call.arguments)
        ),
        filter=None if call.filter is None else column(call.filter),
        order_by=tuple(replace(k, expression=column(k.expression)) for k in call.order_by),
        type=call.type.with_nullable(nullable),
    )


def _is_setting(call: AggregateCall, at: int) -> bool:
    """Whether an argument is a constant that says how to aggregate, such as LISTAGG's separator. What LAG gives where
    there is no row is a value like others."""
    return at > 0 and isinstance(call.arguments[at], Literal) and (call.function, at) != ("LAG", 2)


def _lift(item: Placed, above: Callable[[Expr], Expr | None]) -> Expr:
    marks: list[Input] = []

    def change(e: Expr) -> Expr | None:
        lifted = above(e)
        if lifted is None and isinstance(e, Input):
            marks.append(e)
        if lifted is None and isinstance(e, Call) and e.function in WINDOW_PROPERTIES:
            window = WINDOW_PROPERTIES[e.function][0]
            raise script_error(
                "PLAN-058",
                f"{e.function} needs the same {window}(…) in GROUP BY",
                item.place.span,
                f"add {window}(…) with the same arguments to GROUP BY",
            )
        return lifted

    lifted = rewrite(item.expr, change)
    if marks:
        raise script_error(
            "PLAN-057",
            f"column '{marks[0].name}' is neither grouped nor inside an aggregate",
            item.place.span,
            f"add {marks[0].name} to GROUP BY, or wrap it in an aggregate such as MAX",
        )
    return lifted


# --- what is grouped by --------------------------------------------------------------------------


def _grouping(
    body: ast.Select, scope: Scope, keys: list[Expr]
) -> tuple[list[frozenset[int]], _GroupWindow | None]:
    """Adds the keys to those that are there; gives the grouping sets as places among them."""
    window: _GroupWindow | None = None
    always = set(range(len(keys)))

    def place(key: ast.Expression) -> int:
        bound = _key(key, body, scope)
        if bound not in keys:
            keys.append(bound)
        return keys.index(bound)

    choices: list[list[frozenset[int]]] = []
    for element in body.group_by or ():
        if isinstance(element, ast.GroupingSet):
            parts = [frozenset(place(k) for k in part) for part in element.sets]
            choices.append(_sets(element.kind, parts))
            continue
        name = str(element.name).upper() if isinstance(element, ast.FunctionCall) else ""
        if isinstance(element, ast.FunctionCall) and name in _GROUP_WINDOWS:
            if window is not None:
                raise script_error("PLAN-058", "GROUP BY has a second window", element.span)
            window = _group_window(name, element, scope)
        elif isinstance(element, ast.RowConstructor):
            always |= {place(k) for k in element.items}
        else:
            always.add(place(element))
    sets = [frozenset(always).union(*combination) for combination in itertools.product(*choices)]
    return sets, window


def _sets(kind: str, parts: list[frozenset[int]]) -> list[frozenset[int]]:
    empty: frozenset[int] = frozenset()
    if kind == "ROLLUP":
        return [empty.union(*parts[:n]) for n in range(len(parts), -1, -1)]
    if kind == "CUBE":
        chosen = itertools.product((True, False), repeat=len(parts))
        return [
            empty.union(*(p for p, take in zip(parts, row, strict=True) if take)) for row in chosen
        ]
    return parts


def _key(key: ast.Expression, body: ast.Select, scope: Scope) -> Expr:
    try:
        bound = scope.bind(key)
    except ScriptError as error:
        aliases = [i.alias.name for i in body.items if i.alias is not None]
        if isinstance(key, ast.ColumnReference) and str(key.name) in aliases:
            found = error.diagnostics[0]
            hint = "GROUP BY cannot use an alias of the select list: repeat the expression"
            raise ScriptError([replace(found, hint=hint)]) from None
        raise
    if any(isinstance(e, AggregateCall | OverCall) for e in walk(bound)):
        raise script_error("PLAN-056", "an aggregate cannot stand in GROUP BY", key.span)
    return bound


def _group_window(name: str, call: ast.FunctionCall, scope: Scope) -> _GroupWindow:
    arguments = tuple(scope.bind(a) for a in call.arguments)
    least, most = _GROUP_WINDOWS[name]
    if not least <= len(arguments) <= most:
        forms = {
            "TUMBLE": "TUMBLE(time, size)",
            "HOP": "HOP(time, slide, size)",
            "SESSION": "SESSION(time, gap)",
        }
        raise script_error("PLAN-058", f"the form of this window is {forms[name]}", call.span)
    time = arguments[0]
    attribute = t.time_attribute(time.type)
    if attribute is None or not isinstance(time, Input):
        raise script_error(
            "PLAN-073",
            f"a window needs a time attribute, but this is {time.type.as_nullable}",
            call.arguments[0].span,
            TIME_ATTRIBUTE_HINT,
        )
    lengths = [
        milliseconds(a, n.span) for a, n in zip(arguments[1:], call.arguments[1:], strict=True)
    ]
    rowtime = attribute is t.TimeAttribute.ROWTIME
    if name == "HOP":
        window = nodes.Window(name, lengths[1], lengths[0], rowtime=rowtime)
    elif name == "SESSION":
        window = nodes.Window(name, None, lengths[0], rowtime=rowtime)
    else:
        window = nodes.Window(name, lengths[0], rowtime=rowtime)
    return _GroupWindow(time, window, arguments)


TIME_ATTRIBUTE_HINT = (
    "declare WATERMARK FOR the column in CREATE TABLE, or a computed column AS PROCTIME()"
)


def milliseconds(expr: Expr, span: Span) -> int:
    """The length of a window."""
    if isinstance(expr, Literal) and isinstance(expr.type, t.DayTimeIntervalType):
        assert isinstance(expr.value, int)
        return expr.value
    raise script_error(
        "PLAN-058",
        f"the length of a window must be an interval that is written out, not {describe(expr)}",
        span,
        "write INTERVAL '10' MINUTE",
    )


@dataclass(frozen=True)
class _Window:
    """What the select list asks about the group window."""

    window: _GroupWindow | None

    def property(self, expr: Expr) -> str | None:
        if self.window is None or not isinstance(expr, Call):
            return None
        kind, name = WINDOW_PROPERTIES.get(expr.function, (None, None))
        matches = kind == self.window.window.kind and expr.arguments == self.window.arguments
        return name if matches else None

    def asked(self, items: Sequence[Placed]) -> tuple[str, ...]:
        found = (self.property(e) for item in items for e in walk(item.expr))
        return tuple(dict.fromkeys(p for p in found if p is not None))


def _mark(
    call: AggregateCall,
    keys: Sequence[Expr],
    sets: Mapping[int, frozenset[int]],
    expanded: Input,
    body: ast.Select,
) -> Expr:
    """GROUPING(a, b): a bit for each argument, set where the row's grouping set does not have it. `sets` are known by
    what the column `expanded` says of a row."""
    at = []
    for argument in call.arguments:
        if argument not in keys:
            raise script_error(
                "PLAN-057", f"the argument of {call.function} must be in GROUP BY", body.span
            )
        at.append(keys.index(argument))
    choices: list[Expr] = []
    for mark, one in sets.items():
        is_one = Call(t.BOOLEAN.not_null, "=", (expanded, Literal(t.BIGINT.not_null, mark)))
        choices += [is_one, Literal(t.BIGINT.not_null, nodes.missing_bits(at, one))]
    # The last set is what none of the others is.
    choices[-2:] = choices[-1:]
    return choices[0] if len(sets) == 1 else Call(t.BIGINT.not_null, "CASE", tuple(choices))


# --- OVER ----------------------------------------------------------------------------------------


def _reduced_over(over: Expr) -> Expr | None:
    """Sums and counts of the same window, where Flink computes with them: of an average too, whose sum has the type of
    its argument here."""
    if not isinstance(over, OverCall) or over.span is None:
        return None
    if over.function in _DEVIATIONS:
        made = _deviation(over.call, False, over.span)
    elif over.function == "AVG":
        total = cast(_sum_like(over.call, over.arguments[0]), over.type, over.span)
        count = replace(over.call, type=t.BIGINT.not_null, function="COUNT")
        made = _of_type(arithmetic("/", total, count, over.span), over.type)
    else:
        return None

    def back(call: Expr) -> Expr | None:
        if not isinstance(call, AggregateCall):
            return None
        return replace(over, type=call.type, function=call.function, arguments=call.arguments)

    return rewrite(made, back)


def place_overs(node: Node, exprs: Sequence[Expr]) -> tuple[Node, list[Expr]]:
    """Nodes for the OVER aggregates in expressions; one for all that share a window."""
    exprs = [rewrite(e, _reduced_over) for e in exprs]
    found = list(dict.fromkeys(e for x in exprs for e in walk(x) if isinstance(e, OverCall)))
    if not found:
        return node, list(exprs)
    below: list[Expr] = list(all_inputs(node))
    names = [c.name for c in node.columns]

    def column(expr: Expr) -> Input:
        if expr not in below:
            below.append(expr)
            names.append(f"$f{len(below) - 1}")
        at = below.index(expr)
        return Input(expr.type, at, names[at])

    shapes = []
    for over in found:
        partition = tuple(column(p).index for p in over.partition_by)
        order = tuple(replace(k, expression=column(k.expression)) for k in over.order_by)
        call = _over_columns(over.call, column, may_be_empty=False)
        shapes.append((over, (partition, order, over.frame), call))
    made: Node = nodes.project(node, below, nodes.unique_names(names))
    places: dict[OverCall, int] = {}
    for shape in dict.fromkeys(s for _, s, _ in shapes):
        members = [(over, call) for over, s, call in shapes if s == shape]
        partition, order, frame = shape
        width = len(made.columns)
        made = nodes.Over(
            made,
            partition,
            order,
            frame,
            tuple(call for _, call in members),
            tuple(f"w{len(places) + i}$o" for i in range(len(members))),
            members[0][0].span,
        )
        places |= {over: width + i for i, (over, _) in enumerate(members)}
    return made, [
        rewrite(x, lambda e: nodes.input_of(made, places[e]) if isinstance(e, OverCall) else None)
        for x in exprs
    ]

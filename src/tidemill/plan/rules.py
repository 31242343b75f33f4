"""Rules that bring a bound plan into the shape in which its changelog is inferred and run.

In: a plan as the query was written. Out: a plan of the same result. Law: a rule leaves the columns of the node that it
replaces as they are, so that nobody above has to be told; `RULES` is their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace

from tidemill import types as t
from tidemill.plan import nodes
from tidemill.plan.expressions import (
    AggregateCall,
    Call,
    Expr,
    Input,
    Literal,
    SortKey,
    UserCall,
    conjunction,
    conjuncts,
    inputs,
    moved,
    rewrite,
    rewrite_keys,
    shifted,
    walk,
    without_casts,
)
from tidemill.plan.functions import is_deterministic
from tidemill.plan.nodes import Node, all_inputs, input_of, literal_number

Rule = Callable[[Node], Node]


def _is_true(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.value is True


def filtered(node: Node, parts: Sequence[Expr]) -> Node:
    wanted = [p for p in parts if not _is_true(p)]
    return nodes.Filter(node, conjunction(wanted)) if wanted else node


# --- filters go down -----------------------------------------------------------------------------


def push_filters(root: Node, fresh: bool = False) -> Node:
    """Let every condition stand as low as it can."""
    return nodes.transform(root, _push, fresh)


def _push(node: Node) -> Node:
    if not isinstance(node, nodes.Filter):
        return node
    below, parts = node.input, conjuncts(node.condition)
    if any(isinstance(p, Literal) and p.value is False for p in parts):
        return nodes.Values((), below.columns)
    if not all(is_deterministic(p) for p in parts):
        return filtered(below, parts)
    match below:
        case nodes.Filter():
            return _push(
                nodes.Filter(below.input, conjunction([*conjuncts(below.condition), *parts]))
            )
        case nodes.Project():
            return _push_through_project(below, parts)
        case nodes.Join():
            return _push_into_join(below, parts)
        case nodes.Union():
            pushed = (_push(nodes.Filter(p, conjunction(parts))) for p in below.parts)
            return replace(below, parts=tuple(pushed))
        case nodes.Aggregate(keys=keys) if keys:
            places = dict(enumerate(keys))
            window = below.windows.all if below.windows else frozenset()
            return _push_some(below, parts, lambda p: inputs(p) <= places.keys() - window, places)
        case nodes.WindowTableFunction() | nodes.Correlate():
            width = len(below.input.columns)
            return _push_some(below, parts, lambda p: all(i < width for i in inputs(p)))
        case nodes.Over():
            by = set(below.partition)
            return _push_some(below, parts, lambda p: bool(inputs(p)) and inputs(p) <= by)
        case nodes.ChangelogNormalize():
            by = set(below.keys)
            rest = [p for p in parts if not (inputs(p) and inputs(p) <= by)]
            low = [p for p in parts if p not in rest]
            inner = _push(filtered(below.input, low)) if low else below.input
            known = [] if below.condition is None else conjuncts(below.condition)
            condition = conjunction([*known, *rest]) if known or rest else None
            return replace(below, input=inner, condition=condition)
    return filtered(below, parts)


def _push_some(
    node: nodes.Single,
    parts: Sequence[Expr],
    fits: Callable[[Expr], bool],
    places: dict[int, int] | None = None,
) -> Node:
    low = [p for p in parts if fits(p)]
    if not low:
        return filtered(node, parts)
    carried = [p if places is None else moved(p, places) for p in low]
    inner = _push(filtered(node.input, carried))
    return filtered(node.with_inputs(inner), [p for p in parts if p not in low])


def _push_through_project(below: nodes.Project, parts: Sequence[Expr]) -> Node:
    """What is only handed on can be asked for earlier; what is computed is asked for once it is there."""
    plain = {i: e for i, e in enumerate(below.expressions) if isinstance(e, (Input, Literal))}
    low = [p for p in parts if inputs(p) <= plain.keys()]
    if not low:
        return filtered(below, parts)
    carried = [rewrite(p, lambda e: plain[e.index] if isinstance(e, Input) else None) for p in low]
    inner = _push(filtered(below.input, carried))
    return filtered(replace(below, input=inner), [p for p in parts if p not in low])


# Functions that are NULL, or not true, where an argument is NULL.
_STRICT = frozenset(
    [
        "=",
        "<>",
        "<",
        "<=",
        ">",
        ">=",
        "LIKE",
        "+",
        "-",
        "*",
        "/",
        "%",
        "CAST",
        "IS NOT NULL",
        "NEGATE",
        "AND",
    ]
)


def _rejects_null(part: Expr, columns: Iterable[int]) -> bool:
    """Whether a condition cannot hold where these columns are NULL."""
    wanted = set(columns)

    def strict(expr: Expr) -> bool:
        if isinstance(expr, Input):
            return expr.index in wanted
        if isinstance(expr, Call) and expr.function in _STRICT:
            return any(strict(a) for a in expr.arguments)
        return False

    return strict(part)


def _push_into_join(join: nodes.Join, parts: Sequence[Expr]) -> Node:
    width = len(join.left.columns)
    whole = len(join.left.columns) + (0 if join.is_half else len(join.right.columns))
    left_side, right_side = range(width), range(width, whole)
    kind = join.kind
    if type(join) is nodes.Join:
        kind = _simplified(kind, parts, left_side, right_side)
    to_left = [
        p
        for p in parts
        if kind in ("INNER", "LEFT", "SEMI", "ANTI") and inputs(p) <= set(left_side)
    ]
    to_right = [
        p
        for p in parts
        if kind in ("INNER", "RIGHT")
        and inputs(p) <= set(right_side)
        and p not in to_left
        and not isinstance(join, nodes.TemporalJoin)
    ]
    rest = [p for p in parts if p not in to_left and p not in to_right]
    condition = conjuncts(join.condition)
    if kind == "INNER" and type(join) is nodes.Join:
        condition, rest = [*condition, *rest], []
    left = _push(filtered(join.left, to_left)) if to_left else join.left
    theirs = [shifted(p, -width) for p in to_right]
    right = _push(filtered(join.right, theirs)) if theirs else join.right
    kept = [c for c in condition if not _is_true(c)]
    placed = replace(join, kind=kind, left=left, right=right, condition=conjunction(kept))
    return filtered(placed, rest)


def _simplified(kind: str, parts: Sequence[Expr], left: range, right: range) -> str:
    """An outer join whose added rows no condition lets through is less of an outer join."""
    no_left = kind in ("RIGHT", "FULL") and any(_rejects_null(p, left) for p in parts)
    no_right = kind in ("LEFT", "FULL") and any(_rejects_null(p, right) for p in parts)
    if kind == "FULL":
        if no_left and no_right:
            return "INNER"
        return "LEFT" if no_left else "RIGHT" if no_right else "FULL"
    return "INNER" if no_left or no_right else kind


def split_join_conditions(root: Node, fresh: bool = False) -> Node:
    """What a join's condition says about one side only is asked of that side before the join."""

    def split(node: Node) -> Node:
        if type(node) is not nodes.Join:
            return node
        width = len(node.left.columns)
        parts = conjuncts(node.condition)
        low_left = [
            p
            for p in parts
            if node.kind in ("INNER", "RIGHT", "SEMI") and inputs(p) and max(inputs(p)) < width
        ]
        low_right = [
            p
            for p in parts
            if node.kind in ("INNER", "LEFT", "SEMI", "ANTI")
            and inputs(p)
            and min(inputs(p)) >= width
        ]
        if not low_left and not low_right:
            return node
        left = _push(filtered(node.left, low_left)) if low_left else node.left
        right = node.right
        if low_right:
            right = _push(filtered(right, [shifted(p, -width) for p in low_right]))
        rest = [p for p in parts if p not in low_left and p not in low_right]
        return replace(node, left=left, right=right, condition=conjunction(rest))

    return nodes.transform(root, split, fresh)


# --- joins over time -----------------------------------------------------------------------------


def name_joins(root: Node, fresh: bool = False) -> Node:
    """Find the joins whose condition binds them to a window or to an interval of time."""

    def name(node: Node) -> Node:
        if type(node) is not nodes.Join:
            return node
        return _window_join(node) or _interval_join(node) or node

    return nodes.transform(root, name, fresh)


def _window_join(join: nodes.Join) -> Node | None:
    left, right = join.left.windows, join.right.windows
    if left is None or right is None or left.window != right.window:
        return None
    starts = any(a in left.start and b in right.start for a, b in join.pairs)
    ends = any(a in left.end and b in right.end for a, b in join.pairs)
    if not (starts and ends):
        return None
    return nodes.WindowJoin(join.kind, join.left, join.right, join.condition)


def _interval_join(join: nodes.Join) -> Node | None:
    """left_time + lower <= right_time <= left_time + upper, however it is written."""
    width = len(join.left.columns)
    types = [c.type for c in (*join.left.columns, *join.right.columns)]
    lower: int | None = None
    upper: int | None = None
    times: tuple[int, int] | None = None
    for part in conjuncts(join.condition):
        found = _time_bound(part, types, width)
        if found is None:
            continue
        left_time, right_time, operator, distance = found
        if times is not None and times != (left_time, right_time):
            continue
        times = (left_time, right_time)
        # right_time `operator` left_time + distance
        if operator in (">", ">=", "="):
            bound = distance + (operator == ">")
            lower = bound if lower is None else max(lower, bound)
        if operator in ("<", "<=", "="):
            bound = distance - (operator == "<")
            upper = bound if upper is None else min(upper, bound)
    if times is None or lower is None or upper is None:
        return None
    return nodes.IntervalJoin(
        join.kind, join.left, join.right, join.condition, times[0], times[1] - width, lower, upper
    )


def condition_of(join: nodes.Join) -> list[Expr]:
    """The parts of a join's condition that are asked of every pair of rows: not those that say an interval of time."""
    parts = conjuncts(join.condition)
    if not isinstance(join, nodes.IntervalJoin):
        return parts
    width = len(join.left.columns)
    types = [c.type for c in (*join.left.columns, *join.right.columns)]
    times = (join.left_time, width + join.right_time)
    bounds = ((p, _time_bound(p, types, width)) for p in parts)
    return [p for p, bound in bounds if bound is None or bound[:2] != times]


_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def _time_bound(
    part: Expr, types: Sequence[t.SqlType], width: int
) -> tuple[int, int, str, int] | None:
    """A comparison of two clocks, one of each side: left column, right column, operator, milliseconds."""
    if not isinstance(part, Call) or part.function not in _TURNED:
        return None
    first, second = (_shifted_time(a) for a in part.arguments)
    if first is None or second is None:
        return None
    (a, a_shift), (b, b_shift) = first, second
    clocks = {t.time_attribute(types[a]), t.time_attribute(types[b])}
    if (a < width) == (b < width) or len(clocks) != 1 or None in clocks:
        return None
    operator = part.function
    if a < width:  # a + a_shift op b + b_shift, with a on the left
        a, a_shift, b, b_shift, operator = b, b_shift, a, a_shift, _TURNED[operator]
    # a is the right side's: a op b + (b_shift - a_shift)
    return b, a, operator, b_shift - a_shift


def _shifted_time(expr: Expr) -> tuple[int, int] | None:
    match expr:
        case Input():
            return expr.index, 0
        case Call(function="CAST", arguments=(inner,)) if isinstance(expr.type, t.TIMESTAMP_TYPES):
            return _shifted_time(inner)
        case Call(
            function="ADD INTERVAL" | "SUBTRACT INTERVAL", arguments=(inner, Literal(value=int(ms)))
        ) if isinstance(expr.arguments[1].type, t.DayTimeIntervalType):
            found = _shifted_time(inner)
            sign = 1 if expr.function == "ADD INTERVAL" else -1
            return None if found is None else (found[0], found[1] + sign * ms)
    return None


# --- what a join compares ------------------------------------------------------------------------


def compute_join_columns(root: Node) -> Node:
    """What a join compares by = becomes a column of its side, and so does what only a side's own rows can tell:
    the answers of a user's functions. Of an inner join, what must not be asked inside is asked of its result."""

    def compute(node: Node) -> Node:
        # A window's join compares the windows' columns, which must stay what they are.
        if not isinstance(node, nodes.Join) or isinstance(node, nodes.WindowJoin):
            return node
        return _with_columns(node)

    return nodes.transform(root, compute)


def _with_columns(join: nodes.Join) -> Node:
    width, parts = len(join.left.columns), conjuncts(join.condition)
    above = [p for p in parts if join.kind == "INNER" and not can_stand_in_join(p, width)]
    inside = [p for p in parts if p not in above]
    asked = condition_of(join)
    found = list(dict.fromkeys(e for p in inside if p in asked for e in _computed(p, width)))
    if not found and not above:
        return join
    left = [e for e in found if max(inputs(e)) < width]
    right = [shifted(e, -width) for e in found if e not in left]
    sides = (_extended(join.left, left), _extended(join.right, right))
    places = {i: i for i in range(width)}
    places |= {width + i: width + len(left) + i for i in range(len(join.right.columns))}
    columns: dict[Expr, Expr] = {e: input_of(sides[0], width + i) for i, e in enumerate(left)}
    for i, e in enumerate(right):
        column = input_of(sides[1], len(join.right.columns) + i)
        columns[shifted(e, width)] = shifted(column, len(sides[0].columns))

    def placed(e: Expr) -> Expr | None:
        if e in columns:
            return columns[e]
        return replace(e, index=places[e.index]) if isinstance(e, Input) else None

    condition = conjunction([rewrite(p, placed) for p in inside])
    whole: Node = replace(join, left=sides[0], right=sides[1], condition=condition)
    whole = filtered(whole, [moved(p, places) for p in above])
    given = tuple(input_of(whole, places[i]) for i in range(len(join.columns)))
    return nodes.Project(whole, given, tuple(c.name for c in join.columns))


def _extended(node: Node, more: Sequence[Expr]) -> Node:
    if not more:
        return node
    width = len(node.columns)
    names = (*(c.name for c in node.columns), *(f"$f{width + i}" for i in range(len(more))))
    return nodes.Project(node, (*all_inputs(node), *more), names)


def _side_of(expr: Expr, width: int) -> str | None:
    """The side of a join whose columns an expression reads; None if it reads both or nothing."""
    sides = {"left" if i < width else "right" for i in inputs(expr)}
    return sides.pop() if len(sides) == 1 else None


def _computed(part: Expr, width: int) -> list[Expr]:
    """Of a part of a join's condition, what is to be a column; columns that are there are not."""
    if not is_deterministic(part):
        return []
    match part:
        case Call(function="=" | "IS NOT DISTINCT FROM", arguments=(a, b)):
            if {_side_of(a, width), _side_of(b, width)} == {"left", "right"}:
                return [e for e in (a, b) if not isinstance(e, Input)]
    return _user_calls(part, width)


def _user_calls(expr: Expr, width: int) -> list[Expr]:
    if not isinstance(expr, Call) or not any(isinstance(e, UserCall) for e in walk(expr)):
        return []
    if _side_of(expr, width) is not None:
        return [expr]
    return [e for a in expr.arguments for e in _user_calls(a, width)]


def can_stand_in_join(part: Expr, width: int) -> bool:
    """Whether the operator can ask it of two rows, again and again: it must always answer the same, and in the JVM."""
    calls = (e for e in walk(part) if isinstance(e, UserCall))
    return is_deterministic(part) and all(_side_of(c, width) is not None for c in calls)


# --- Top-N ---------------------------------------------------------------------------------------

RANKS = ("ROW_NUMBER", "RANK", "DENSE_RANK")


def find_ranks(root: Node) -> Node:
    """A condition on the number of a row in an order: only the first rows are ever needed."""

    def find(node: Node) -> Node:
        if not isinstance(node, nodes.Filter) or not isinstance(node.input, nodes.Over):
            return node
        over = node.input
        if len(over.calls) != 1 or over.calls[0].function not in RANKS:
            return node
        number = len(over.input.columns)
        start, end, end_column, rest = 1, None, None, []
        for part in conjuncts(node.condition):
            found = _rank_bound(part, number)
            if found is None:
                rest.append(part)
                continue
            low, high, column = found
            start = max(start, low)
            end = high if end is None else end if high is None else min(end, high)
            end_column = column if column is not None else end_column
        if end is None and end_column is None:
            return node
        name = over.columns[number].name
        single = start == end and over.calls[0].function == "ROW_NUMBER"
        rank: Node = nodes.Rank(
            over.input,
            over.calls[0].function,
            over.partition,
            over.order,
            start,
            end,
            None if single else name,
            end_column if end is None else None,
            over.span,
        )
        if single:  # the number is known
            added = Literal(t.BIGINT.not_null, start)
            names = (*(c.name for c in over.input.columns), name)
            rank = nodes.Project(rank, (*all_inputs(rank), added), names)
        return filtered(rank, rest)

    return nodes.transform(root, find)


def _rank_bound(part: Expr, number: int) -> tuple[int, int | None, int | None] | None:
    """Least and greatest number, or the column that holds the greatest."""
    if not isinstance(part, Call) or part.function not in _TURNED or len(part.arguments) != 2:
        return None
    left, right = (without_casts(a) for a in part.arguments)
    operator = part.function
    if isinstance(right, Input) and right.index == number:
        left, right, operator = right, left, _TURNED[operator]
    if not (isinstance(left, Input) and left.index == number):
        return None
    if isinstance(right, Input) and right.index != number and operator == "<=":
        return 1, None, right.index
    value = literal_number(right)
    if value is None:
        return None
    return {
        "<=": (1, value, None),
        "<": (1, value - 1, None),
        "=": (value, value, None),
        ">=": (value, None, None),
        ">": (value + 1, None, None),
    }[operator]


def name_ranks(root: Node) -> Node:
    """Ranks that belong to a window, and those that only keep the first or the last row."""

    def name(node: Node) -> Node:
        if type(node) is not nodes.Rank:
            return node
        [first, *more] = node.order
        clock = t.time_attribute(first.expression.type)
        single = node.function == "ROW_NUMBER" and node.keeps_one
        keeps_one = single and clock is not None and not more
        window = node.input.windows
        in_window = window is not None and window.are_in(node.partition)
        if in_window and node.input.kinds.insert_only:
            if keeps_one and clock is t.TimeAttribute.ROWTIME:
                return nodes.WindowDeduplicate(
                    node.input, node.partition, first.column, first.descending
                )
            return nodes.WindowRank(**{f.name: getattr(node, f.name) for f in fields(node)})
        if keeps_one and node.input.kinds.insert_only:
            return nodes.Deduplicate(node.input, node.partition, first.column, first.descending)
        return node

    return nodes.transform(root, name)


# --- aggregates of single rows -------------------------------------------------------------------


def drop_needless_aggregates(root: Node) -> Node:
    """Where the keys of an aggregate tell the rows of its input apart, each group is a row."""

    def drop(node: Node) -> Node:
        if type(node) is not nodes.Aggregate:
            return node
        keys, known = frozenset(node.keys), node.input.upsert_keys
        # Flink: of an aggregate with calls, only where its keys are that key.
        if not any(key == keys or (key <= keys and not node.calls) for key in known):
            return node
        values: list[Expr] = [input_of(node.input, k) for k in node.keys]
        for call in node.calls:
            value = _of_one_row(call)
            if value is None:
                return node
            values.append(value)
        return nodes.Project(node.input, tuple(values), node.names)

    return nodes.transform(root, drop)


def _of_one_row(call: AggregateCall) -> Expr | None:
    if call.filter is not None:
        return None
    if call.function in ("MIN", "MAX", "SUM") and call.argument is not None:
        if call.argument.type.same(call.type):
            return call.argument
        return Call(call.type, "CAST", (call.argument,))
    if call.function == "COUNT" and call.argument is None:
        return Literal(t.BIGINT.not_null, 1)
    return None


# --- columns that nobody reads -------------------------------------------------------------------


def prune(root: Node) -> Node:
    """Leave out every column that nobody reads, down to the scans."""
    if isinstance(root, (nodes.Sink, nodes.Collect)):
        return root.with_inputs(prune(root.input))
    return _prune(root, tuple(range(len(root.columns))))


def _prune(node: Node, wanted: tuple[int, ...]) -> Node:
    """The same node with just the wanted columns, in that order."""
    match node:
        case nodes.Scan():
            return nodes.Scan(node.table, tuple(node.names[i] for i in wanted))
        case nodes.Values():
            rows = tuple(tuple(row[i] for i in wanted) for row in node.rows)
            return nodes.Values(rows, tuple(node.fields[i] for i in wanted))
        case nodes.Project():
            kept = [node.expressions[i] for i in wanted]
            read = tuple(sorted({i for e in kept for i in inputs(e)}))
            below = _prune(node.input, read)
            at = _places(read)
            names = tuple(node.names[i] for i in wanted)
            return _merged(below, tuple(moved(e, at) for e in kept), names)
        case nodes.Union():
            parts = tuple(_prune(p, wanted) for p in node.parts)
            return nodes.Union(parts, tuple(node.names[i] for i in wanted))
        case nodes.Aggregate():
            return _prune_aggregate(node, wanted)
        case nodes.Join():
            return _prune_join(node, wanted)
        case nodes.Match():
            return _pick(node, wanted)  # a pattern may read anything
        case nodes.Single():
            return _prune_single(node, wanted)
    raise TypeError(type(node))


def _places(read: Sequence[int]) -> dict[int, int]:
    return {old: new for new, old in enumerate(read)}


def _columns(at: dict[int, int], columns: Iterable[int]) -> tuple[int, ...]:
    return tuple(at[c] for c in columns)


def _sorted_by(at: dict[int, int], keys: tuple[SortKey, ...]) -> tuple[SortKey, ...]:
    return rewrite_keys(
        keys, lambda e: replace(e, index=at[e.index]) if isinstance(e, Input) else None
    )


def _calls(at: dict[int, int], calls: Iterable[AggregateCall]) -> tuple[AggregateCall, ...]:
    return tuple(moved(c, at) for c in calls)  # type: ignore[misc]


def _key_columns(keys: Iterable[SortKey]) -> set[int]:
    return {i for k in keys for i in inputs(k.expression)}


def _prune_single(node: nodes.Single, wanted: tuple[int, ...]) -> Node:
    """Nodes that hand on their input's columns, and may add some at the end."""
    width = len(node.input.columns)
    passed = {i for i in wanted if i < width}
    added = [i for i in range(width, len(node.columns)) if i in wanted]
    match node:
        case nodes.Filter():
            read = passed | inputs(node.condition)
        case nodes.WatermarkAssigner():
            if node.column not in wanted:  # a clock that nobody looks at
                return _prune(node.input, wanted)
            read = passed | inputs(node.expression)
        case nodes.ChangelogNormalize():
            read = passed | {*node.keys} | (inputs(node.condition) if node.condition else set())
        case nodes.Expand():
            read = passed.union(*node.sets)
        case nodes.GroupWindowAggregate():
            return _prune_group_window(node, wanted)
        case nodes.WindowTableFunction():
            read = passed | {node.time, *node.partition}
        case nodes.Over():
            if not added:
                return _prune(node.input, wanted)
            calls = [node.calls[i - width] for i in added]
            read = passed | {*node.partition} | _key_columns(node.order)
            read |= {i for c in calls for i in inputs(c)}
        case nodes.Rank():
            read = passed | {*node.partition} | _key_columns(node.order)
            read |= {node.end_column} if node.end_column is not None else set()
        case nodes.Deduplicate():
            read = passed | {*node.keys, node.time}
        case nodes.Sort():
            read = passed | _key_columns(node.order)
        case nodes.Correlate():
            read = passed | {i for a in node.arguments for i in inputs(a)}
        case _:
            read = set(passed)
    columns = tuple(sorted(read))
    at = _places(columns)
    below = _prune(node.input, columns)
    kept: Node
    match node:
        case nodes.Filter():
            kept = nodes.Filter(below, moved(node.condition, at))
        case nodes.WatermarkAssigner():
            kept = nodes.WatermarkAssigner(below, at[node.column], moved(node.expression, at))
        case nodes.ChangelogNormalize():
            condition = None if node.condition is None else moved(node.condition, at)
            keys = _columns(at, node.keys)
            kept = replace(node, input=below, keys=keys, condition=condition)
        case nodes.Expand():
            kept = nodes.Expand(below, tuple(frozenset(_columns(at, s)) for s in node.sets))
        case nodes.WindowTableFunction():
            kept = replace(
                node,
                input=below,
                time=at[node.time],
                partition=_columns(at, node.partition),
            )
        case nodes.Over():
            kept = replace(
                node,
                input=below,
                partition=_columns(at, node.partition),
                order=_sorted_by(at, node.order),
                calls=_calls(at, calls),
                names=tuple(node.names[i - width] for i in added),
            )
        case nodes.Rank():
            kept = replace(
                node,
                input=below,
                partition=_columns(at, node.partition),
                order=_sorted_by(at, node.order),
                number=node.number if added else None,
                end_column=None if node.end_column is None else at[node.end_column],
            )
        case nodes.Deduplicate():
            kept = replace(node, input=below, keys=_columns(at, node.keys), time=at[node.time])
        case nodes.Sort():
            kept = replace(node, input=below, order=_sorted_by(at, node.order))
        case nodes.Correlate():
            arguments = tuple(moved(a, at) for a in node.arguments)
            kept = replace(node, input=below, arguments=arguments)
        case _:
            kept = node.with_inputs(below)
    # Added columns of these can be left out; a window's, an expansion's and a table function's come all together.
    sparse = isinstance(node, (nodes.Over, nodes.Rank))
    behind = added if sparse else range(width, len(node.columns))
    at |= {old: len(columns) + i for i, old in enumerate(behind)}
    return _pick(kept, _columns(at, wanted))


def _prune_aggregate(node: nodes.Aggregate, wanted: tuple[int, ...]) -> Node:
    width = len(node.keys)
    kept = [i for i in range(len(node.calls)) if width + i in wanted]
    calls = [node.calls[i] for i in kept]
    read = tuple(sorted({*node.keys, *(i for c in calls for i in inputs(c))}))
    at = _places(read)
    names = (*node.names[:width], *(node.names[width + i] for i in kept))
    pruned = replace(
        node,
        input=_prune(node.input, read),
        keys=_columns(at, node.keys),
        calls=_calls(at, calls),
        names=names,
    )
    places = {**{i: i for i in range(width)}, **{width + c: width + n for n, c in enumerate(kept)}}
    return _pick(pruned, _columns(places, wanted))


def _prune_group_window(node: nodes.GroupWindowAggregate, wanted: tuple[int, ...]) -> Node:
    width = len(node.keys) + len(node.calls)
    kept = [i for i in range(len(node.properties)) if width + i in wanted]
    read = tuple(sorted({node.time, *node.keys, *(i for c in node.calls for i in inputs(c))}))
    at = _places(read)
    pruned = replace(
        node,
        input=_prune(node.input, read),
        time=at[node.time],
        keys=_columns(at, node.keys),
        calls=_calls(at, node.calls),
        properties=tuple(node.properties[i] for i in kept),
        names=(*node.names[:width], *(node.names[width + i] for i in kept)),
    )
    places = {**{i: i for i in range(width)}, **{width + c: width + n for n, c in enumerate(kept)}}
    return _pick(pruned, _columns(places, wanted))


def _prune_join(node: nodes.Join, wanted: tuple[int, ...]) -> Node:
    width = len(node.left.columns)
    read = {*wanted, *inputs(node.condition)}
    if isinstance(node, nodes.IntervalJoin):
        read |= {node.left_time, width + node.right_time}
    if isinstance(node, nodes.TemporalJoin):
        # The version that holds is found by the right side's clock and key.
        read |= {node.time}
        read |= {
            width + i
            for i, c in enumerate(node.right.columns)
            if t.time_attribute(c.type) is not None
        }
    left = tuple(sorted(i for i in read if i < width))
    right = tuple(sorted(i - width for i in read if i >= width))
    at = _places(left) | {width + old: len(left) + new for old, new in _places(right).items()}
    changed: dict[str, object] = {
        "left": _prune(node.left, left),
        "right": _prune(node.right, right),
        "condition": moved(node.condition, at),
    }
    if isinstance(node, nodes.IntervalJoin):
        changed["left_time"] = at[node.left_time]
        changed["right_time"] = at[width + node.right_time] - len(left)
    if isinstance(node, nodes.TemporalJoin):
        changed["time"] = at[node.time]
    pruned: Node = replace(node, **changed)  # type: ignore[arg-type]
    return _pick(pruned, _columns(at, wanted))


def _pick(node: Node, wanted: tuple[int, ...]) -> Node:
    if wanted == tuple(range(len(node.columns))):
        return node
    columns = tuple(input_of(node, i) for i in wanted)
    return nodes.Project(node, columns, tuple(c.name for c in columns))


def _merged(below: Node, expressions: tuple[Expr, ...], names: tuple[str, ...]) -> Node:
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
            return nodes.project(below.input, merged, names)
    return nodes.project(below, expressions, names)


RULES: tuple[Rule, ...] = (
    push_filters,
    split_join_conditions,
    name_joins,
    compute_join_columns,
    find_ranks,
    prune,
    drop_needless_aggregates,
    prune,
    name_ranks,
)


def arrange(node: Node) -> Node:
    for rule in RULES:
        node = rule(node)
    return node


def arrange_from(node: Node) -> Node:
    """The rules for what stands in FROM and WHERE, before the select list is bound: they tell which columns stay
    clocks. Views and subqueries below have been through them."""
    for rule in (push_filters, split_join_conditions, name_joins):
        node = rule(node, fresh=True)
    nodes.mark_arranged(node)
    return node

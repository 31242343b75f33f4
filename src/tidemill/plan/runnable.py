"""What a plan holds that cannot be executed yet. In: a plan. Out: a diagnostic for each such thing, by its name.

Law: `check`, `run` and Python ask here and nowhere else, so that they agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tidemill import types as t
from tidemill.errors import Diagnostic, Span
from tidemill.plan import nodes
from tidemill.plan.expressions import AggregateCall, Call, Literal, describe, walk
from tidemill.plan.functions import AGGREGATES, OVER_ONLY
from tidemill.plan.nodes import Node
from tidemill.plan.rules import can_stand_in_join
from tidemill.plan.scope import NOT_YET_HINT
from tidemill.tables import why_not_runnable

# Nodes that have no operator: the node, and how a user calls it. The first that fits is meant.
_NODES: tuple[tuple[type[Node], Callable[[Node], str]], ...] = (
    (nodes.Match, lambda n: "MATCH_RECOGNIZE"),
)
_FUNCTIONS = frozenset(["CURRENT_WATERMARK", "SOURCE_WATERMARK"])


# Types that Flink compares element by element.
_WITHOUT_ORDER = (t.ArrayType, t.MultisetType, t.MapType, t.RowType)


def not_runnable(roots: Iterable[Node], span: Span) -> tuple[Diagnostic, ...]:
    """One diagnostic for each thing, sources first. `span` is the job's; a sink has a place of its own."""
    missing: list[Diagnostic] = []
    for root in roots:
        place = (root.span if isinstance(root, nodes.Sink) else None) or span
        found = (r for node in reversed(list(nodes.walk(root))) for r in _reasons(node))
        missing += [
            Diagnostic("PLAN-020", f"not yet runnable: {r}", place, NOT_YET_HINT)
            for r in dict.fromkeys(found)
        ]
    return tuple(missing)


def _of_aggregate(call: AggregateCall, node: Node) -> Iterator[str]:
    """A function of the user's is computed from the rows of its group, which ARRAY_AGG keeps."""
    if call.implementation is not None and type(node) is not nodes.Aggregate:
        yield f"the Python aggregate function {call.function} in a window"
    known = OVER_ONLY if isinstance(node, nodes.Over) else ("SINGLE_VALUE",)
    if call.implementation is None and call.function not in (*AGGREGATES, *known):
        yield f"aggregate function {call.function}"
    if call.function == "LAG" and not all(isinstance(a, Literal) for a in call.arguments[1:2]):
        yield "LAG by a number of rows that is not written out"
    if call.order_by:
        yield f"ORDER BY within {call.function}"
    if call.distinct and call.function in ("PERCENTILE", "JSON_OBJECTAGG"):
        yield f"{call.function}(DISTINCT …)"


def _reasons(node: Node) -> Iterator[str]:
    for kind, name in _NODES:
        if isinstance(node, kind):
            yield name(node)
            break
    if isinstance(node, nodes.Scan | nodes.Sink):
        why = why_not_runnable(node.table)
        if why:
            yield f"{why} of table '{node.table.name}'"
    if isinstance(node, nodes.Over) and not node.is_on_time:
        yield "OVER in an order that is not of a time attribute"
    if isinstance(node, nodes.Rank | nodes.Sort):
        unordered = (k.expression.type for k in node.order)
        yield from (f"ORDER BY of {x}" for x in unordered if isinstance(x, _WITHOUT_ORDER))
    if isinstance(node, nodes.WindowRank) and node.end_column is not None:
        yield "window Top-N whose number of rows is a column"
    elif isinstance(node, nodes.Rank) and node.end_column is not None:
        type_ = node.input.columns[node.end_column].type
        if not isinstance(type_, t.INTEGER_TYPES):
            yield f"Top-N whose number of rows is a column of type {type_}"
    if isinstance(node, nodes.Join):
        width = len(node.left.columns)
        for part in node.residual:
            if not can_stand_in_join(part, width):
                yield f"the condition {describe(part)} of a {node.kind} JOIN, which is asked more than once"
    for expr in nodes.expressions(node):
        for part in walk(expr):
            if isinstance(part, AggregateCall):
                yield from _of_aggregate(part, node)
            if isinstance(part, Call) and part.function in _FUNCTIONS:
                yield f"function {part.function}"

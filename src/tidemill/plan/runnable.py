"""What a plan holds that cannot be executed yet. In: a plan. Out: a diagnostic for each such thing, by its name.

Law: `check`, `run` and Python ask here and nowhere else, so that they agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tidemill.errors import Diagnostic, Span
from tidemill.plan import nodes
from tidemill.plan.expressions import AggregateCall, Call, walk
from tidemill.plan.functions import AGGREGATES
from tidemill.plan.nodes import Node
from tidemill.plan.scope import NOT_YET_HINT
from tidemill.tables import why_not_runnable

# Nodes that have no operator: the node, and how a user calls it. The first that fits is meant.
_NODES: tuple[tuple[type[Node], Callable[[Node], str]], ...] = (
    (nodes.WindowJoin, lambda n: "window join"),
    (nodes.IntervalJoin, lambda n: "interval join"),
    (nodes.TemporalJoin, lambda n: "temporal join"),
    (nodes.Join, lambda n: f"{_join_kind(n)} join"),
    (nodes.WindowAggregate, lambda n: "window aggregate"),
    (nodes.GroupWindowAggregate, lambda n: "group window aggregate"),
    (nodes.WindowTableFunction, lambda n: "window table function"),
    (nodes.WindowRank, lambda n: "window Top-N"),
    (nodes.WindowDeduplicate, lambda n: "window deduplication"),
    (nodes.Rank, lambda n: "Top-N"),
    (nodes.Deduplicate, lambda n: "deduplication"),
    (nodes.Over, lambda n: "OVER aggregate"),
    (nodes.Sort, lambda n: "LIMIT" if n.describe().startswith("Limit") else "ORDER BY"),
    (nodes.Correlate, lambda n: _correlate(n)),
    (nodes.Match, lambda n: "MATCH_RECOGNIZE"),
    (nodes.Expand, lambda n: "GROUPING SETS"),
)
_FUNCTIONS = frozenset(["CURRENT_WATERMARK", "SOURCE_WATERMARK"])


def _correlate(node: Node) -> str:
    assert isinstance(node, nodes.Correlate)
    copies = node.function == "$REPLICATE_ROWS$"
    return "INTERSECT ALL or EXCEPT ALL" if copies else f"table function {node.function}"


def _join_kind(node: Node) -> str:
    assert isinstance(node, nodes.Join)
    return "inner" if node.kind == "INNER" else node.kind.lower()


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


def _reasons(node: Node) -> Iterator[str]:
    for kind, name in _NODES:
        if isinstance(node, kind):
            yield name(node)
            break
    if isinstance(node, nodes.Scan | nodes.Sink):
        why = why_not_runnable(node.table, written=isinstance(node, nodes.Sink))
        if why:
            yield f"{why} of table '{node.table.name}'"
    if isinstance(node, nodes.ChangelogNormalize) and node.needed:
        yield "changes that may be repeated (table.exec.source.cdc-events-duplicate)"
    if isinstance(node, nodes.Sink) and node.materialize:
        key = ", ".join(node.table.schema.primary_key)
        yield f"writing to '{node.table.name}' by a PRIMARY KEY ({key}) that is not the query's own key"
    if isinstance(node, nodes.Sink) and node.on_conflict:
        yield f"ON CONFLICT DO {node.on_conflict}"
    for expr in nodes.expressions(node):
        for part in walk(expr):
            if isinstance(part, AggregateCall) and part.function not in (
                *AGGREGATES,
                "SINGLE_VALUE",
            ):
                yield f"aggregate function {part.function}"
            if isinstance(part, AggregateCall) and part.order_by:
                yield f"ORDER BY within {part.function}"
            if isinstance(part, AggregateCall) and part.distinct and part.function == "PERCENTILE":
                yield "PERCENTILE(DISTINCT …)"
            if isinstance(part, Call) and part.function in _FUNCTIONS:
                yield f"function {part.function}"

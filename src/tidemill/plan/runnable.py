"""What plans but does not run yet, by name. `check` shows it, `run` refuses it: both ask here."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tidemill.errors import Diagnostic, Span
from tidemill.plan import nodes
from tidemill.plan.expressions import AggregateCall, Call, Expr, walk
from tidemill.plan.functions import AGGREGATES
from tidemill.plan.nodes import Node
from tidemill.plan.scope import NOT_YET_HINT

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
    (nodes.Correlate, lambda n: "UNNEST"),
    (nodes.Match, lambda n: "MATCH_RECOGNIZE"),
    (nodes.Expand, lambda n: "GROUPING SETS"),
    (nodes.ChangelogNormalize, lambda n: "upsert-kafka source"),
    (nodes.DropUpdateBefore, lambda n: "changelog source"),
)
_FUNCTIONS = frozenset(["CURRENT_WATERMARK", "SOURCE_WATERMARK"])


def _join_kind(node: Node) -> str:
    assert isinstance(node, nodes.Join)
    return "inner" if node.kind == "INNER" else node.kind.lower()


def not_runnable(root: Node, span: Span) -> list[Diagnostic]:
    """One diagnostic for each thing that is missing, in the order of the data."""
    found = dict.fromkeys(
        reason for node in reversed(list(nodes.walk(root))) for reason in _reasons(node)
    )
    return [Diagnostic("PLAN-020", f"not yet runnable: {r}", span, NOT_YET_HINT) for r in found]


def _reasons(node: Node) -> Iterator[str]:
    for kind, name in _NODES:
        if isinstance(node, kind):
            yield name(node)
            break
    if isinstance(node, nodes.Scan) and not node.kinds.insert_only:
        yield f"reading changes from table '{node.table.name}'"
    if isinstance(node, nodes.Aggregate) and not node.input.kinds.insert_only:
        yield f"an aggregate over an updating input ({node.describe()})"
    if isinstance(node, nodes.Sink) and node.materialize:
        key = ", ".join(node.table.schema.primary_key)
        yield f"writing to '{node.table.name}' by a PRIMARY KEY ({key}) that is not the query's own key"
    if isinstance(node, nodes.Sink) and node.on_conflict:
        yield f"ON CONFLICT DO {node.on_conflict}"
    for expr in _expressions(node):
        for part in walk(expr):
            if isinstance(part, AggregateCall) and part.function not in AGGREGATES:
                yield f"aggregate function {part.function}"
            if isinstance(part, Call) and part.function in _FUNCTIONS:
                yield f"function {part.function}"


def _expressions(node: Node) -> tuple[Expr, ...]:
    match node:
        case nodes.Project():
            return node.expressions
        case nodes.Filter():
            return (node.condition,)
        case nodes.Aggregate() | nodes.GroupWindowAggregate() | nodes.Over():
            return node.calls
    return ()

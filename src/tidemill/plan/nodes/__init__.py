"""The plan: what a query does, node by node, before anybody says how.

Law: a node is a value; its columns, its keys and the kinds it emits follow from its inputs and cannot be set. What
each node asks of its inputs is written at the node; `modes` walks the plan and asks.
"""

from __future__ import annotations

from tidemill.plan.expressions import Expr
from tidemill.plan.nodes.base import (
    NO_KEYS,
    Keys,
    Node,
    Single,
    Updates,
    Window,
    WindowColumns,
    all_inputs,
    containing,
    input_of,
    literal_number,
    mark_arranged,
    milliseconds,
    transform,
    unique_names,
    walk,
)
from tidemill.plan.nodes.groups import (
    Aggregate,
    Deduplicate,
    Expand,
    GroupWindowAggregate,
    Over,
    Rank,
    Sort,
    WindowAggregate,
    WindowDeduplicate,
    WindowRank,
    WindowTableFunction,
    growing,
    missing_bits,
)
from tidemill.plan.nodes.joins import (
    IntervalJoin,
    Join,
    LookupJoin,
    TemporalJoin,
    WindowJoin,
)
from tidemill.plan.nodes.rows import (
    ChangelogNormalize,
    Collect,
    Correlate,
    DropUpdateBefore,
    Enforcement,
    Filter,
    Match,
    Project,
    Root,
    Scan,
    Sink,
    Union,
    Values,
    WatermarkAssigner,
    project,
)

__all__ = [
    "Aggregate",
    "ChangelogNormalize",
    "Collect",
    "Correlate",
    "Deduplicate",
    "DropUpdateBefore",
    "Enforcement",
    "Expand",
    "Filter",
    "GroupWindowAggregate",
    "IntervalJoin",
    "Join",
    "LookupJoin",
    "Keys",
    "Match",
    "NO_KEYS",
    "Node",
    "Over",
    "Project",
    "Rank",
    "Root",
    "Scan",
    "Single",
    "Sink",
    "Sort",
    "TemporalJoin",
    "Union",
    "Updates",
    "Values",
    "WatermarkAssigner",
    "Window",
    "WindowAggregate",
    "WindowColumns",
    "WindowDeduplicate",
    "WindowJoin",
    "WindowRank",
    "WindowTableFunction",
    "all_inputs",
    "containing",
    "expressions",
    "growing",
    "input_of",
    "literal_number",
    "mark_arranged",
    "milliseconds",
    "missing_bits",
    "project",
    "transform",
    "unique_names",
    "walk",
]


def expressions(node: Node) -> tuple[Expr, ...]:
    """What a node computes for each row or group."""
    match node:
        case Project():
            return node.expressions
        case Filter() | Join():
            return (node.condition,)
        case Aggregate() | GroupWindowAggregate() | Over():
            return node.calls
        case Correlate():
            return node.arguments if node.call is None else (node.call,)
        case WatermarkAssigner():
            return (node.expression,)
        case ChangelogNormalize() if node.condition is not None:
            return (node.condition,)
    return ()

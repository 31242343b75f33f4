"""Changelog modes of every edge. In: an arranged plan. Out: the plan as it runs, and what each of its nodes emits.

Follows Flink's passes: what kinds a node can produce follows from below (`Node.kinds`); whether an update must bring
the row before it is asked from above (`Node.asks`). Law: a node never emits a kind that its consumer did not accept, no
update-before is produced that nobody needs, and a query that cannot be served is refused with Flink's sentence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidemill.changelog import ALL_CHANGES, ChangelogMode, RowKind
from tidemill.errors import Span, script_error
from tidemill.plan import nodes
from tidemill.plan.nodes import Node, Updates
from tidemill.tables.builtin import PrintTable


@dataclass(frozen=True)
class Modes:
    """The mode in which each node of one plan emits, by identity."""

    emitted: dict[int, ChangelogMode]

    def of(self, node: Node) -> ChangelogMode:
        return self.emitted[id(node)]


def infer_modes(
    root: nodes.Root, span: Span, materialize: str = "AUTO", require_on_conflict: bool = False
) -> tuple[Node, Modes]:
    """Settle who sends what. Nodes may be added (DropUpdateBefore) or left out (ChangelogNormalize). `materialize` and
    `require_on_conflict` are the settings table.exec.sink.upsert-materialize and …require-on-conflict."""
    _check(root, span)
    emitted: dict[int, ChangelogMode] = {}
    for wanted in _wanted(root):
        below = _settle(root.input, wanted, emitted)
        if below is not None:
            break
    assert below is not None, "every node can send updates with the row before"
    settled: Node = root.with_inputs(below)
    if isinstance(root, nodes.Sink):
        settled = replace(root, input=below, materialize=_must_materialize(root, materialize))
        if require_on_conflict and settled.materialize and root.on_conflict is None:
            raise script_error(
                "PLAN-032",
                f"the query's own key is not the primary key of '{root.table.name}', and rows of one key may conflict",
                root.span,
                "add ON CONFLICT DO DEDUPLICATE, DO NOTHING or DO ERROR",
            )
    emitted[id(settled)] = emitted[id(below)]
    return settled, Modes(emitted)


# --- refusals ------------------------------------------------------------------------------------


def _check(node: Node, span: Span) -> None:
    for child in node.inputs:
        _check(child, span)
        excess = child.kinds - node.accepts
        if RowKind.UPDATE_AFTER in node.accepts:
            excess = excess - {RowKind.UPDATE_BEFORE}
        words = {RowKind.DELETE: "delete"}
        found = sorted({words.get(k, "update") for k in excess}, reverse=True)
        if not found:
            continue
        producer = _producer(child).describe()
        if isinstance(node, nodes.Sink):
            raise script_error(
                "PLAN-030",
                f"Table sink '{node.table.identifier}' doesn't support consuming {' and '.join(found)} changes"
                f" which is produced by node {producer}",
                node.span,
                "write to an 'upsert-kafka' table with a PRIMARY KEY, or use a CDC format such as 'debezium-json'",
            )
        raise script_error(
            "PLAN-031",
            f"{node.describe().partition('(')[0]} doesn't support consuming {' and '.join(found)} changes"
            f" which is produced by node {producer}",
            span,
            "give it rows that do not change: read an append-only table, or aggregate in a window",
        )


def _producer(node: Node) -> Node:
    """The node that makes the changes which others only hand on."""
    below = [c for c in node.inputs if not c.kinds.insert_only]
    made_here = isinstance(node, (nodes.Aggregate, nodes.ChangelogNormalize)) or not below
    return node if made_here else _producer(below[0])


# --- updates -------------------------------------------------------------------------------------


def _wanted(root: nodes.Root) -> tuple[Updates, ...]:
    if isinstance(root, nodes.Collect):
        return root.wants
    if RowKind.UPDATE_BEFORE in root.accepts:
        return (Updates.BOTH,)
    if root.key and root.key not in root.input.upsert_keys:
        return (Updates.BOTH,)  # rows of one sink key come and go one by one
    return (Updates.AFTER, Updates.BOTH)


def _must_materialize(sink: nodes.Sink, setting: str) -> bool:
    """Whether rows of one sink key may come from different keys of the query, out of order."""
    if not sink.key:
        return False
    ordered = any(k <= sink.key for k in sink.input.upsert_keys)
    if sink.on_conflict in ("NOTHING", "ERROR"):
        return not ordered
    if setting in ("NONE", "FORCE"):
        return setting == "FORCE"
    takes_all = sink.accepts == ALL_CHANGES and not isinstance(sink.table.connector, PrintTable)
    return not sink.input.kinds.insert_only and not takes_all and not ordered


def _settle(node: Node, wanted: Updates, emitted: dict[int, ChangelogMode]) -> Node | None:
    """A copy of the node, with all below it, that sends updates as wanted; None if there is none. A copy, since a node
    that stands twice in a plan may be asked for different things."""
    if isinstance(node, nodes.ChangelogNormalize) and _is_needless(node, wanted):
        return _settle(node.input, wanted, emitted)
    below = []
    for at, child in enumerate(node.inputs):
        settled = None
        for alternative in (Updates.BOTH,) if child.kinds.insert_only else node.asks(at, wanted):
            settled = _settle(child, alternative, emitted)
            if settled is not None:
                break
        if settled is None:
            return None
        below.append(settled)
    copy = node.with_inputs(*below)
    # What only hands rows on sends what it gets; what makes rows of its own was asked for all of them.
    kinds = copy.kinds if isinstance(node, nodes.Project | nodes.Filter) else node.kinds
    if isinstance(node, nodes.Scan):
        copy = replace(node)
        emitted[id(copy)] = kinds
        if wanted is Updates.BOTH or RowKind.UPDATE_BEFORE not in kinds:
            return copy
        copy = nodes.DropUpdateBefore(copy)
    if wanted is Updates.AFTER:
        kinds = ChangelogMode(kinds - {RowKind.UPDATE_BEFORE})
    emitted[id(copy)] = kinds
    return copy


def _is_needless(node: nodes.ChangelogNormalize, wanted: Updates) -> bool:
    """Whether an upsert stream may go on as it is: nobody needs the row before, and no row can leave by a condition."""
    if wanted is Updates.BOTH or node.condition is not None or node.needed:
        return False
    return not any(n.metadata for n in nodes.walk(node) if isinstance(n, nodes.Scan))

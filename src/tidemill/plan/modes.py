"""Changelog modes of every edge. In: a plan. Out: the same plan, with what each node really emits.

Follows Flink's passes: what kinds a node can produce follows from below (`Node.kinds`); whether an update must
bring the row before it is asked from above. Law: a node never emits a kind that its consumer did not accept, and no
update-before is produced that nobody needs.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.changelog import ChangelogMode, RowKind
from tidemill.errors import script_error
from tidemill.plan import nodes
from tidemill.plan.scope import not_yet
from tidemill.tables.upsert_kafka import UpsertKafkaTable


@dataclass(frozen=True)
class Modes:
    """The mode in which each node of one plan emits, by identity."""

    emitted: dict[int, ChangelogMode]

    def of(self, node: nodes.Node) -> ChangelogMode:
        return self.emitted[id(node)]


def infer_modes(root: nodes.Node) -> Modes:
    emitted: dict[int, ChangelogMode] = {}
    needs_before = True
    if isinstance(root, nodes.Sink):
        accepted = root.table.connector.sink_mode
        _check_sink(root, accepted)
        # An upsert sink wants no update-before, but takes it (as a delete) where a filter needs it to make rows leave.
        needs_before = RowKind.UPDATE_BEFORE in accepted or _has_leaving_rows(root.input)
    _emit(root, needs_before, emitted)
    return Modes(emitted)


def _emit(node: nodes.Node, needs_before: bool, emitted: dict[int, ChangelogMode]) -> None:
    unwanted = frozenset() if needs_before else frozenset({RowKind.UPDATE_BEFORE})
    emitted[id(node)] = ChangelogMode(node.kinds - unwanted)
    if isinstance(node, nodes.Aggregate):
        # Only append-only input reaches an aggregate until it can retract.
        needs_before = True
    for child in node.inputs:
        _emit(child, needs_before, emitted)


def _has_leaving_rows(node: nodes.Node) -> bool:
    if isinstance(node, nodes.Filter) and not node.kinds.insert_only and not node.is_on_key:
        return True
    return not isinstance(node, nodes.Aggregate) and any(_has_leaving_rows(c) for c in node.inputs)


def _check_sink(sink: nodes.Sink, accepted: ChangelogMode) -> None:
    found = sink.input.kinds
    excess = sorted(
        {
            "delete" if k is RowKind.DELETE else "update"
            for k in found - accepted - {RowKind.UPDATE_BEFORE}
        },
        reverse=True,
    )
    if excess:
        producer = next(n for n in nodes.walk(sink.input) if isinstance(n, nodes.Aggregate))
        raise script_error(
            "PLAN-030",
            f"Table sink '{sink.table.identifier}' doesn't support consuming {' and '.join(excess)} changes"
            f" which is produced by node {producer.describe()}",
            sink.span,
            "write to an 'upsert-kafka' table with a PRIMARY KEY, or use a CDC format such as 'debezium-json'",
        )
    key = sink.table.schema.primary_key
    if found.insert_only or not isinstance(sink.table.connector, UpsertKafkaTable):
        return
    names = [c.name for c in sink.table.schema.writable]
    wanted = frozenset(names.index(k) for k in key)
    if not any(upsert_key <= wanted for upsert_key in sink.input.upsert_keys):
        raise not_yet(
            f"writing to '{sink.table.name}' by a PRIMARY KEY ({', '.join(key)}) that is not the query's own key",
            sink.span or sink.table.span,  # type: ignore[arg-type]
        )

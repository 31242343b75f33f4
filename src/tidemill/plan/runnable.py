"""What a plan holds that cannot be executed yet. In: a plan. Out: a diagnostic for each such thing, by its name.

Law: `check`, `run` and Python ask here and nowhere else, so that they agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidemill.errors import Diagnostic, Span
from tidemill.plan import nodes
from tidemill.tables import why_not_runnable


def not_runnable(roots: Iterable[nodes.Node], span: Span) -> tuple[Diagnostic, ...]:
    """`span` is the job's; a sink has a place of its own."""
    found = []
    for root in roots:
        place = (root.span if isinstance(root, nodes.Sink) else None) or span
        found += [
            Diagnostic(
                "PLAN-020",
                f"not yet runnable: {what}",
                place,
                "docs/differences.md lists what is not there yet; 'tidemill check --plan-only' accepts it",
            )
            for what in dict.fromkeys(w for node in nodes.walk(root) for w in _missing(node))
        ]
    return tuple(found)


def _missing(node: nodes.Node) -> Iterator[str]:
    match node:
        case nodes.Scan(table=table):
            why = why_not_runnable(table, written=False)
            if why:
                yield f"{why} of table '{table.name}'"
        case nodes.Sink(table=table):
            why = why_not_runnable(table, written=True)
            if why:
                yield f"{why} of table '{table.name}'"
        case nodes.Aggregate(input=below) if not below.kinds.insert_only:
            yield f"an aggregate over an updating input ({node.describe()})"

"""Laws of every plan: what an expression reads is there and of the type it says, what arrives is accepted, and the
rules leave the columns of a query as they were."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from recorded import compiled, plan_paths

from tidemill.changelog import RowKind
from tidemill.plan import nodes
from tidemill.plan.environment import Job
from tidemill.plan.expressions import Expr, Input, OuterInput, OverCall, Subquery, walk
from tidemill.plan.rules import arrange


def reads(node: nodes.Node) -> Iterator[tuple[Expr, tuple[str, ...]]]:
    """Every expression of a node, with the types of the columns that it may read."""
    below = tuple(str(c.type.as_nullable) for child in node.inputs for c in child.columns)
    ordered = isinstance(node, nodes.Over | nodes.Rank | nodes.Sort | nodes.Match)
    keys = node.order if ordered else ()  # type: ignore[attr-defined]
    for expr in (*nodes.expressions(node), *(k.expression for k in keys)):
        yield expr, below


def without_clock(type_: str) -> str:
    return type_.replace(" *ROWTIME*", "").replace(" *PROCTIME*", "")


def check_expressions(node: nodes.Node) -> None:
    for expr, types in reads(node):
        for part in walk(expr):
            assert not isinstance(part, OuterInput | OverCall | Subquery), node.describe()
            if isinstance(part, Input):
                assert 0 <= part.index < len(types), node.describe()
                wanted = without_clock(types[part.index])
                assert without_clock(str(part.type.as_nullable)) == wanted, node.describe()


def check_modes(node: nodes.Node, job: Job, at: int) -> None:
    for child in node.inputs:
        emitted = job.modes[at].of(child)
        # An upsert sink takes the row before as a delete where a filter makes rows leave.
        allowed = node.accepts | (
            {RowKind.UPDATE_BEFORE} if RowKind.UPDATE_AFTER in node.accepts else set()
        )
        assert emitted <= allowed, node.describe()
        # A complete stream may have been left as it came: what was an insert is an update by its key.
        assert emitted <= child.kinds | {RowKind.INSERT}, child.describe()


def check_keys(node: nodes.Node) -> None:
    for key in node.upsert_keys:
        assert all(0 <= c < len(node.columns) for c in key), node.describe()
    if node.windows is not None:
        assert all(0 <= c < len(node.columns) for c in node.windows.all), node.describe()


@pytest.mark.parametrize("path", plan_paths(), ids=lambda p: p.stem)
def test_every_plan_keeps_the_laws(path: Path) -> None:
    planned = 0
    for statement in compiled(path):
        for job in statement.jobs:
            planned += 1
            for at, root in enumerate(job.roots):
                for node in nodes.walk(root):
                    check_expressions(node)
                    check_modes(node, job, at)
                    if not isinstance(node, nodes.Sink):
                        check_keys(node)
    assert planned > 20


@pytest.mark.parametrize("path", plan_paths(), ids=lambda p: p.stem)
def test_rules_leave_the_columns_as_they_are(path: Path) -> None:
    for statement in compiled(path):
        for job in statement.jobs:
            for root in job.roots:
                again = arrange(root.input)
                before = [(c.name, str(c.type)) for c in root.input.columns]
                assert [(c.name, str(c.type)) for c in again.columns] == before, statement.name

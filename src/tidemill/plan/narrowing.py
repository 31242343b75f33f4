"""What of a table's rows a query looks at: the fields of its ROW columns, and which rows at all.

In: the roots of a job. Out: for each scan what is asked of it, by its identity. Law: who decodes no more than the
fields, and leaves out rows that fulfil none of the conditions, changes no result. What is not known to be narrow is
wide: a column that goes anywhere as a whole is asked for as a whole, and a condition counts only if it always answers
the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from tidemill import types as t
from tidemill.plan import nodes
from tidemill.plan.expressions import (
    Call,
    Expr,
    Input,
    Literal,
    UserCall,
    conjuncts,
    rewrite,
    walk,
)
from tidemill.plan.functions import is_deterministic

Part = Mapping[str, "Part"] | None
"""Of a ROW, the fields that are read, with what is read of each; None: all of it."""
NOTHING: Part = {}


@dataclass
class Asked:
    """What a query asks of a scan."""

    parts: list[Part]
    """By column of the scan."""
    conditions: list[list[Expr]] = field(default_factory=list)
    """For each way from the scan up, what its rows must fulfil, over the columns of the scan."""


def asked_of_scans(roots: Iterable[nodes.Node]) -> dict[int, Asked]:
    found: dict[int, Asked] = {}
    for root in roots:
        _visit(root, [None] * len(root.columns), [], found)
    return found


def together(one: Part, other: Part) -> Part:
    if one is None or other is None:
        return None
    names = [*one, *(name for name in other if name not in one)]
    return {name: together(one.get(name, NOTHING), other.get(name, NOTHING)) for name in names}


def narrowed(type_: t.SqlType, part: Part) -> t.SqlType:
    """The type with just the fields that are read, in their order."""
    if not part or not isinstance(type_, t.RowType):
        return type_
    kept = (t.Field(f.name, narrowed(f.type, part[f.name])) for f in type_.fields if f.name in part)
    return t.RowType(type_.nullable, tuple(kept))


def _visit(
    node: nodes.Node, parts: Sequence[Part], conditions: list[Expr], found: dict[int, Asked]
) -> None:
    """`parts`: what is read of the node's columns; `conditions`: what its rows must fulfil to be read at all."""
    match node:
        case nodes.Scan():
            asked = found.setdefault(id(node), Asked([NOTHING] * len(node.columns)))
            asked.parts = [together(*pair) for pair in zip(asked.parts, parts, strict=True)]
            # One that is not sure may be what keeps the next one from failing.
            asked.conditions.append(list(takewhile(_is_sure, conditions)))
        case nodes.Project():
            below = [NOTHING] * len(node.input.columns)
            for expression, part in zip(node.expressions, parts, strict=True):
                _read(expression, part, below)
            placed = [rewrite(c, lambda e: _given(node, e)) for c in conditions]
            _visit(node.input, below, placed, found)
        case nodes.Filter():
            below = list(parts)
            _read(node.condition, None, below)
            _visit(node.input, below, [*conjuncts(node.condition), *conditions], found)
        case nodes.WatermarkAssigner():
            below = list(parts)
            below[node.column] = None
            _read(node.expression, None, below)
            _visit(node.input, below, conditions, found)
        case _:
            for child in node.inputs:
                _visit(child, [None] * len(child.columns), [], found)


def _given(project: nodes.Project, expr: Expr) -> Expr | None:
    return project.expressions[expr.index] if isinstance(expr, Input) else None


def _is_sure(condition: Expr) -> bool:
    return is_deterministic(condition) and not any(isinstance(e, UserCall) for e in walk(condition))


def _read(expr: Expr, part: Part, below: list[Part]) -> None:
    """Add what an expression reads, if `part` of what it gives is read."""
    if part is not None and not part:
        return
    path: list[str] = []
    inner = expr
    while (
        isinstance(inner, Call)
        and inner.function == "FIELD"
        and isinstance(name := inner.arguments[1], Literal)
    ):
        path.insert(0, str(name.value))
        inner = inner.arguments[0]
    if isinstance(inner, Input):
        for step in reversed(path):
            part = {step: part}
        below[inner.index] = together(below[inner.index], part)
        return
    for e in inner.arguments if isinstance(inner, Call) else ():
        _read(e, None, below)

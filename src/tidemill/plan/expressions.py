"""Bound expressions: every name resolved to an input column, every node typed.

Operators, special forms and functions are all `Call`s; what a call means is said once, in `functions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal

from tidemill.types import SqlType

LiteralValue = bool | int | float | Decimal | str | bytes | None


@dataclass(frozen=True)
class Expr:
    type: SqlType


@dataclass(frozen=True)
class Input(Expr):
    """Column `index` of the node below."""

    index: int
    name: str


@dataclass(frozen=True)
class Literal(Expr):
    """A constant. Dates and times are kept as their SQL text, intervals as months or milliseconds."""

    value: LiteralValue


@dataclass(frozen=True)
class Call(Expr):
    function: str
    arguments: tuple[Expr, ...]


@dataclass(frozen=True)
class AggregateCall(Expr):
    """COUNT(DISTINCT x) FILTER (WHERE …). Lives in an Aggregate node; above it, an Input stands for it."""

    function: str
    argument: Expr | None
    distinct: bool
    filter: Expr | None


def walk(expr: Expr) -> Iterator[Expr]:
    yield expr
    if isinstance(expr, Call):
        for argument in expr.arguments:
            yield from walk(argument)
    elif isinstance(expr, AggregateCall):
        for part in (expr.argument, expr.filter):
            if part is not None:
                yield from walk(part)


def inputs(expr: Expr) -> set[int]:
    """Indexes of the input columns that an expression reads."""
    return {e.index for e in walk(expr) if isinstance(e, Input)}


def rewrite(expr: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """Replace, from the top, every node for which `change` has an answer."""
    changed = change(expr)
    if changed is not None:
        return changed
    if isinstance(expr, Call):
        return replace(expr, arguments=tuple(rewrite(a, change) for a in expr.arguments))
    return expr


def describe(expr: Expr) -> str:
    """A short text for plans and messages."""
    match expr:
        case Input():
            return expr.name
        case Literal(value=None):
            return "NULL"
        case Literal(value=str(text)):
            return "'" + text.replace("'", "''") + "'"
        case Literal():
            return str(expr.value).upper() if isinstance(expr.value, bool) else str(expr.value)
        case Call():
            inner = ", ".join(describe(a) for a in expr.arguments)
            if expr.function in ("CAST", "TRY_CAST"):
                inner += f" AS {expr.type.as_nullable}"
            return f"{expr.function}({inner})"
        case AggregateCall():
            inner = "*" if expr.argument is None else describe(expr.argument)
            call = f"{expr.function}({'DISTINCT ' if expr.distinct else ''}{inner})"
            return call if expr.filter is None else f"{call} FILTER {describe(expr.filter)}"
    raise TypeError(type(expr))

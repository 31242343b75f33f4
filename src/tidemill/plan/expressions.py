"""Bound expressions: every name resolved to an input column, every node typed.

Operators, special forms and functions are all `Call`s; what a call means is said once, in `functions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from tidemill.errors import Span
from tidemill.functions import PythonFunction
from tidemill.types import BOOLEAN, SqlType

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
class UserCall(Call):
    """A call of a function that the script has made with CREATE FUNCTION."""

    implementation: PythonFunction


@dataclass(frozen=True)
class OuterInput(Expr):
    """Column `index` of the row around a subquery. Gone from a plan once the subquery has become a join."""

    index: int
    name: str


@dataclass(frozen=True)
class SortKey:
    """A column to sort by; without a word, Flink has NULLs first when ascending and last when descending."""

    expression: Expr
    descending: bool = False
    nulls_last: bool = False

    @property
    def column(self) -> int:
        assert isinstance(self.expression, Input)
        return self.expression.index

    def __str__(self) -> str:
        text = f"{describe(self.expression)} {'DESC' if self.descending else 'ASC'}"
        if self.nulls_last != self.descending:
            text += " NULLS LAST" if self.nulls_last else " NULLS FIRST"
        return text


@dataclass(frozen=True)
class AggregateCall(Expr):
    """COUNT(DISTINCT x) FILTER (WHERE …). Lives in an Aggregate node; above it, an Input stands for it."""

    function: str
    arguments: tuple[Expr, ...] = ()
    distinct: bool = False
    filter: Expr | None = None
    order_by: tuple[SortKey, ...] = ()
    implementation: PythonFunction | None = None
    """Of a function that the script has made; its name is in small letters then, as no built-in one's is."""

    @property
    def argument(self) -> Expr | None:
        return self.arguments[0] if self.arguments else None


@dataclass(frozen=True)
class Frame:
    """ROWS or RANGE, and how far back: a number of rows, milliseconds, or None for all that came before."""

    rows: bool
    preceding: int | None

    def __str__(self) -> str:
        start = "UNBOUNDED" if self.preceding is None else str(self.preceding)
        return f"{'ROWS' if self.rows else 'RANGE'} BETWEEN {start} PRECEDING AND CURRENT ROW"


@dataclass(frozen=True)
class OverCall(Expr):
    """SUM(x) OVER (PARTITION BY … ORDER BY …). Lives in an Over node; above it, an Input stands for it."""

    function: str
    arguments: tuple[Expr, ...]
    distinct: bool
    filter: Expr | None
    partition_by: tuple[Expr, ...]
    order_by: tuple[SortKey, ...]
    frame: Frame
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def call(self) -> AggregateCall:
        return AggregateCall(self.type, self.function, self.arguments, self.distinct, self.filter)


@dataclass(frozen=True)
class Subquery(Expr):
    """IN, EXISTS or a scalar query inside an expression. Gone from a plan once it has become a join."""

    kind: str
    """IN, EXISTS or SCALAR"""
    plan: object
    """What the binder made of the query."""
    operands: tuple[Expr, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)


def walk(expr: Expr) -> Iterator[Expr]:
    yield expr
    if isinstance(expr, Call):
        for argument in expr.arguments:
            yield from walk(argument)
    elif isinstance(expr, AggregateCall | OverCall):
        for part in (*expr.arguments, *(k.expression for k in expr.order_by)):
            yield from walk(part)
        for part in expr.partition_by if isinstance(expr, OverCall) else ():
            yield from walk(part)
        if expr.filter is not None:
            yield from walk(expr.filter)
    elif isinstance(expr, Subquery):
        for operand in expr.operands:
            yield from walk(operand)


def inputs(expr: Expr) -> set[int]:
    """Indexes of the input columns that an expression reads."""
    return {e.index for e in walk(expr) if isinstance(e, Input)}


def rewrite(expr: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """Replace, from the top, every node for which `change` has an answer."""
    changed = change(expr)
    if changed is not None:
        return changed
    match expr:
        case Call():
            return replace(expr, arguments=tuple(rewrite(a, change) for a in expr.arguments))
        case AggregateCall() | OverCall():
            changed = replace(
                expr,
                arguments=tuple(rewrite(a, change) for a in expr.arguments),
                filter=None if expr.filter is None else rewrite(expr.filter, change),
                order_by=rewrite_keys(expr.order_by, change),
            )
            if isinstance(changed, OverCall):
                by = tuple(rewrite(p, change) for p in changed.partition_by)
                return replace(changed, partition_by=by)
            return changed
        case Subquery():
            return replace(expr, operands=tuple(rewrite(o, change) for o in expr.operands))
    return expr


def moved(expr: Expr, places: Mapping[int, int]) -> Expr:
    """The same expression over columns that stand elsewhere."""

    def change(e: Expr) -> Expr | None:
        return replace(e, index=places[e.index]) if isinstance(e, Input) else None

    return rewrite(expr, change)


def shifted(expr: Expr, by: int) -> Expr:
    """The same expression over columns that all stand so much further on."""
    return moved(expr, {i: i + by for i in inputs(expr)})


def without_casts(expr: Expr) -> Expr:
    while isinstance(expr, Call) and expr.function == "CAST":
        expr = expr.arguments[0]
    return expr


def rewrite_keys(
    keys: tuple[SortKey, ...], change: Callable[[Expr], Expr | None]
) -> tuple[SortKey, ...]:
    return tuple(replace(k, expression=rewrite(k.expression, change)) for k in keys)


def conjuncts(condition: Expr) -> list[Expr]:
    """The parts of which all must hold."""
    if isinstance(condition, Call) and condition.function == "AND":
        return [part for a in condition.arguments for part in conjuncts(a)]
    return [condition]


def conjunction(parts: Sequence[Expr]) -> Expr:
    """The opposite of `conjuncts`; of no parts, TRUE."""
    if not parts:
        return Literal(BOOLEAN.not_null, True)
    whole = parts[0]
    for part in parts[1:]:
        nullable = whole.type.nullable or part.type.nullable
        whole = Call(BOOLEAN.with_nullable(nullable), "AND", (whole, part))
    return whole


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
            inner = ", ".join(describe(a) for a in expr.arguments)
            if not inner and expr.function == "COUNT":
                inner = "*"
            call = f"{expr.function}({'DISTINCT ' if expr.distinct else ''}{inner})"
            return call if expr.filter is None else f"{call} FILTER {describe(expr.filter)}"
        case OverCall():
            return f"{describe(expr.call)} OVER"
        case OuterInput():
            return expr.name
        case Subquery():
            return f"{expr.kind}(…)"
    raise TypeError(type(expr))

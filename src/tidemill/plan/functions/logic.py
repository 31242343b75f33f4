"""Comparison, logic and choice. How to read a signature: `tidemill.plan.functions`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidemill import types as t
from tidemill.plan.expressions import Expr

SIGNATURES = """
=                     common common                           -> BOOLEAN
<>                    common common                           -> BOOLEAN
<                     ordered:common ordered:common           -> BOOLEAN
<=                    ordered:common ordered:common           -> BOOLEAN
>                     ordered:common ordered:common           -> BOOLEAN
>=                    ordered:common ordered:common           -> BOOLEAN
IS DISTINCT FROM      common common                           -> BOOLEAN!
IS NOT DISTINCT FROM  common common                           -> BOOLEAN!
IS NULL               any                                     -> BOOLEAN!
IS NOT NULL           any                                     -> BOOLEAN!
IS TRUE               boolean                                 -> BOOLEAN!
IS FALSE              boolean                                 -> BOOLEAN!
AND                   boolean boolean                         => BOOLEAN
OR                    boolean boolean                         => BOOLEAN
NOT                   boolean                                 => BOOLEAN
IN                    common common...                        -> BOOLEAN
COALESCE              common...                               -> common&
IFNULL                common common                           -> common&
NULLIF                any any                                 -> $1?
IF                    boolean common common                   => common
GREATEST              scalar:common...                        => common
LEAST                 scalar:common...                        => common
IS_ALPHA              string|number                           => BOOLEAN!
IS_DIGIT              string|number                           => BOOLEAN!
IS_DECIMAL            string|number                           => BOOLEAN!
TYPEOF                any [BOOLEAN]                           -> STRING?
"""

EQUALITIES = ("=", "<>", "NULLIF", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
COMPARISONS = (*EQUALITIES, "<", "<=", ">", ">=", "IN")


def _meet(arguments: Sequence[Expr], one: type[t.SqlType], *others: type[t.SqlType]) -> str | None:
    """A refusal if a type of one kind is compared with one of another kind."""
    first = next((a.type for a in arguments if isinstance(a.type, one)), None)
    second = next((a.type for a in arguments if isinstance(a.type, others)), None)
    if first is None or second is None:
        return None
    return f"{first.as_nullable} is not compared with {second.as_nullable}"


def _comparison(arguments: Sequence[Expr]) -> str | None:
    return _meet(arguments, t.DateType, *t.TIMESTAMP_TYPES)


def _equality(arguments: Sequence[Expr]) -> str | None:
    """A text gives way to a number or boolean where the two are ordered, but is not tested for equality with it."""
    kinds = (t.BooleanType, *t.NUMERIC_TYPES)
    found = (_meet(arguments, kind, *t.STRING_TYPES) for kind in kinds)
    return _comparison(arguments) or next(filter(None, found), None)


def _nullif(arguments: Sequence[Expr]) -> str | None:
    bare = isinstance(arguments[0].type, t.NullType)
    return "the first argument of NULLIF is a bare NULL" if bare else _equality(arguments)


REFUSALS: dict[str, Callable[[Sequence[Expr]], str | None]] = {
    **dict.fromkeys(COMPARISONS, _comparison),
    **dict.fromkeys(EQUALITIES, _equality),
    "NULLIF": _nullif,
}

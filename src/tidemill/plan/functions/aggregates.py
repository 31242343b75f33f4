"""Aggregate functions: how many arguments each takes and what type it gives.

All of them are planned; `tidemill.plan.runnable` says which of them run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidemill import types as t

# What Flink's aggregates do not take: MIN and MAX, and any with DISTINCT.
_NOT_ORDERED = (*t.BINARY_TYPES, t.ArrayType, t.MapType, t.MultisetType, t.RowType)
_NOT_DISTINCT = (*t.BINARY_TYPES, t.MapType, t.MultisetType, t.RowType)

# From the first argument's type to the result's, whose nullability is that of the argument; None if it is not taken.
Result = Callable[[t.SqlType], t.SqlType | None]


def _extreme(x: t.SqlType) -> t.SqlType | None:
    return None if isinstance(x, _NOT_ORDERED) else x


def _sum(x: t.SqlType) -> t.SqlType | None:
    if isinstance(x, t.DecimalType):
        return t.DecimalType(x.nullable, 38, x.scale)
    return x if isinstance(x, t.NUMERIC_TYPES) else None


def _mean(x: t.SqlType) -> t.SqlType | None:
    if isinstance(x, t.DecimalType):
        return t.DecimalType(x.nullable, 38, max(6, x.scale))
    return x if isinstance(x, t.NUMERIC_TYPES) else None


def _text(x: t.SqlType) -> t.SqlType | None:
    return t.STRING if isinstance(x, t.STRING_TYPES) else None


@dataclass(frozen=True)
class Aggregate:
    result: Result
    arguments: tuple[int, int] = (1, 1)
    """Least and most."""
    nulls: str = ""
    """'' as the argument; '!' never; '?' always."""
    over_only: bool = False
    null_of_nothing: bool = True
    """Whether the type says that it is NULL of a table without rows."""


def _always(type_: t.SqlType) -> Result:
    return lambda _: type_


_JSON = t.VarCharType(length=2000)

_NUMBERING = {
    "ROW_NUMBER": Aggregate(_always(t.BIGINT), (0, 0), "!", True),
    "RANK": Aggregate(_always(t.BIGINT), (0, 0), "!", True),
    "DENSE_RANK": Aggregate(_always(t.BIGINT), (0, 0), "!", True),
    "PERCENT_RANK": Aggregate(_always(t.DOUBLE), (0, 0), "!", True),
    "CUME_DIST": Aggregate(_always(t.DOUBLE), (0, 0), "!", True),
    "NTILE": Aggregate(_always(t.BIGINT), (1, 1), "!", True),
    "LAG": Aggregate(lambda x: x, (1, 3), "?", True),
    "LEAD": Aggregate(lambda x: x, (1, 3), "?", True),
}

SIGNATURES: dict[str, Aggregate] = {
    "COUNT": Aggregate(_always(t.BIGINT), (1, 1), "!", null_of_nothing=False),
    "APPROX_COUNT_DISTINCT": Aggregate(_always(t.BIGINT), (1, 1), "!", null_of_nothing=False),
    "SUM": Aggregate(_sum),
    "AVG": Aggregate(_mean),
    "MIN": Aggregate(_extreme),
    "MAX": Aggregate(_extreme),
    **{
        name: Aggregate(_mean)
        for name in ("STDDEV_POP", "STDDEV_SAMP", "STDDEV", "VAR_POP", "VAR_SAMP", "VARIANCE")
    },
    "FIRST_VALUE": Aggregate(lambda x: x),
    "LAST_VALUE": Aggregate(lambda x: x),
    "SINGLE_VALUE": Aggregate(lambda x: x, nulls="?"),
    "LISTAGG": Aggregate(_text, (1, 2), null_of_nothing=False),
    "COLLECT": Aggregate(lambda x: t.MultisetType(element=x), nulls="!", null_of_nothing=False),
    "ARRAY_AGG": Aggregate(lambda x: t.ArrayType(element=x), null_of_nothing=False),
    "JSON_ARRAYAGG": Aggregate(_always(_JSON), (1, 1), "!", null_of_nothing=False),
    "JSON_OBJECTAGG": Aggregate(_always(_JSON), (2, 2), "!", null_of_nothing=False),
    "PERCENTILE": Aggregate(_always(t.DOUBLE), (2, 3)),
    **_NUMBERING,
}


def aggregate_type(
    function: str, arguments: Sequence[t.SqlType], distinct: bool, filtered: bool
) -> t.SqlType | None:
    """The result type of an aggregate of a group, or None when it does not take such an argument."""
    signature = SIGNATURES[function]
    first = t.materialized(arguments[0]) if arguments else t.BIGINT
    if isinstance(first, t.NullType) or (distinct and isinstance(first, _NOT_DISTINCT)):
        return None
    result = signature.result(first)
    if result is None:
        return None
    if function in ("LAG", "LEAD"):
        # Calcite: what stands for a row that is not there decides.
        return result.with_nullable(len(arguments) < 3 or arguments[2].nullable)
    # FILTER may leave nothing of a group.
    nullable = first.nullable or filtered
    return result.with_nullable({"": nullable, "!": False, "?": True}[signature.nulls])

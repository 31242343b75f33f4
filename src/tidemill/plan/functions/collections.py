"""Functions on arrays and maps. How to read a signature: `tidemill.plan.functions`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidemill import types as t
from tidemill.plan.expressions import Expr

SIGNATURES = """
CARDINALITY           collection                              => INT
ELEMENT               array                                   => element~
ARRAY_CONTAINS        array element                           -> BOOLEAN^
ARRAY_POSITION        array element                           -> INT
ARRAY_APPEND          array element                           -> ARRAY<element>
ARRAY_PREPEND         array element                           -> ARRAY<element>
ARRAY_REMOVE          array element                           -> $1^
ARRAY_CONCAT          array:common...                         -> common
ARRAY_UNION           array:common array:common               -> common
ARRAY_EXCEPT          array:common array:common               -> common
ARRAY_INTERSECT       array:common array:common               -> common
ARRAY_DISTINCT        array                                   -> $1
ARRAY_REVERSE         array                                   -> $1
ARRAY_SLICE           array INT [INT]                         -> $1
ARRAY_SORT            array [BOOLEAN] [BOOLEAN]               -> $1
ARRAY_JOIN            array string [string]                   -> STRING
ARRAY_MAX             array                                   -> element?
ARRAY_MIN             array                                   -> element?
MAP_KEYS              map                                     -> ARRAY<key>
MAP_VALUES            map                                     -> ARRAY<value>
MAP_ENTRIES           map                                     -> ARRAY<ROW<key, value>>
MAP_FROM_ARRAYS       array array                             -> MAP<element, element>
MAP_UNION             map:common...                           -> common
"""


def _array(expr: Expr) -> t.ArrayType:
    assert isinstance(expr.type, t.ArrayType)
    return expr.type


def _map(expr: Expr) -> t.MapType:
    assert isinstance(expr.type, t.MapType)
    return expr.type


def _element(arguments: Sequence[Expr]) -> t.SqlType:
    array = _array(arguments[0])
    return array.element.with_nullable(array.nullable or array.element.nullable)


def _appended(arguments: Sequence[Expr]) -> t.SqlType:
    element, added = _array(arguments[0]).element, arguments[1].type
    return t.ArrayType(element=element.with_nullable(element.nullable or added.nullable))


def _entries(arguments: Sequence[Expr]) -> t.SqlType:
    of = _map(arguments[0])
    fields = (t.Field("key", of.key), t.Field("value", of.value))
    return t.ArrayType(element=t.RowType(fields=fields))


def _zipped(arguments: Sequence[Expr]) -> t.SqlType:
    keys, values = arguments
    return t.MapType(key=_array(keys).element, value=_array(values).element)


RULES: dict[str, Callable[[Sequence[Expr]], t.SqlType]] = {
    "element": _element,
    "ARRAY<element>": _appended,
    "ARRAY<key>": lambda arguments: t.ArrayType(element=_map(arguments[0]).key),
    "ARRAY<value>": lambda arguments: t.ArrayType(element=_map(arguments[0]).value),
    "ARRAY<ROW<key, value>>": _entries,
    "MAP<element, element>": _zipped,
}


def _of(takes: tuple[type[t.SqlType], ...], what: str) -> Callable[[Sequence[Expr]], str | None]:
    def refuse(arguments: Sequence[Expr]) -> str | None:
        array = arguments[0].type
        if not isinstance(array, t.ArrayType) or isinstance(array.element, takes):
            return None
        return f"this takes an array of {what}, but the elements are {array.element.as_nullable}"

    return refuse


_SORTABLE = (
    *(t.BooleanType, t.DateType, t.TimeType),
    *(*t.NUMERIC_TYPES, *t.STRING_TYPES, *t.TIMESTAMP_TYPES),
)
_ordered = _of(_SORTABLE, "values that have an order")

REFUSALS: dict[str, Callable[[Sequence[Expr]], str | None]] = {
    "ARRAY_MAX": _ordered,
    "ARRAY_MIN": _ordered,
    "ARRAY_SORT": _ordered,
    "ARRAY_JOIN": _of(t.STRING_TYPES, "texts"),
}

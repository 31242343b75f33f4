"""Arrays, maps and rows as Spark SQL. How to read the tables: `tidemill.spark.functions`."""

from __future__ import annotations

from tidemill import types as t
from tidemill.plan.expressions import Call, Literal
from tidemill.spark.functions.form import Form, quote


def _field(call: Call, arguments: list[str]) -> str:
    name = call.arguments[1]
    assert isinstance(name, Literal)
    return f"{arguments[0]}.`{str(name.value).replace('`', '``')}`"


def _row(call: Call, arguments: list[str]) -> str:
    assert isinstance(call.type, t.RowType)
    parts = []
    for field, argument in zip(call.type.fields, arguments, strict=True):
        parts += [quote(field.name), argument]
    return f"named_struct({', '.join(parts)})"


def _with(values: dict[str, str], body: str) -> str:
    """Evaluate values once and use each more than once, as `v.name`."""
    members = ", ".join(f"'{name}', {value}" for name, value in values.items())
    return f"get(transform(array(named_struct({members})), v -> {body}), 0)"


def _cardinality(call: Call, parts: list[str]) -> str:
    """Spark's size of a NULL is -1, that of arrays alone NULL."""
    listed = (
        parts[0] if isinstance(call.arguments[0].type, t.ArrayType) else f"map_keys({parts[0]})"
    )
    return f"array_size({listed})"


def _element(_: Call, parts: list[str]) -> str:
    complaint = quote("ELEMENT takes an array of one element, but this one has more")
    return _with(
        {"a": parts[0]}, f"if(size(v.a) > 1, get(v.a, raise_error({complaint})), get(v.a, 0))"
    )


def _slice(_: Call, parts: list[str]) -> str:
    """Places from 1, negative ones from the end; a slice reaches no further than the array does."""
    values = {"a": parts[0], "s": parts[1], "e": parts[2] if len(parts) > 2 else "-1"}
    start = "greatest(if(v.s < 0, size(v.a) + v.s + 1, v.s), 1)"
    end = "if(v.e < 0, size(v.a) + v.e + 1, greatest(v.e, 1))"
    missing = "v.a IS NULL OR v.s IS NULL OR v.e IS NULL"
    length = f"greatest(CAST({end} AS BIGINT) - {start} + 1, 0)"
    cut = f"slice(v.a, {start}, CAST(least({length}, size(v.a)) AS INT))"
    return _with(values, f"if({missing}, NULL, {cut})")


def _sort(call: Call, parts: list[str]) -> str:
    """NULL comes first where it goes up and last where it goes down, unless the third argument says so."""
    values = {"a": parts[0], "up": parts[1] if len(parts) > 1 else "TRUE"}
    values["first"] = parts[2] if len(parts) > 2 else values["up"]
    missing = "v.a IS NULL OR v.up IS NULL OR v.first IS NULL"
    order = (
        "CASE WHEN l IS NULL AND r IS NULL THEN 0"
        " WHEN l IS NULL THEN if(v.first, -1, 1) WHEN r IS NULL THEN if(v.first, 1, -1)"
        " WHEN l < r THEN if(v.up, -1, 1) WHEN l > r THEN if(v.up, 1, -1) ELSE 0 END"
    )
    if len(parts) == 1:
        return f"sort_array({parts[0]})"
    return _with(values, f"if({missing}, NULL, array_sort(v.a, (l, r) -> {order}))")


FORMS: dict[str, Form] = {
    "ARRAY": "array({*})",
    "MAP": "map({*})",
    "ARRAY ELEMENT": "get({0}, {1} - 1)",
    "MAP ELEMENT": "element_at({0}, {1})",
    "FIELD": _field,
    "ROW": _row,
    "CARDINALITY": _cardinality,
    "ELEMENT": _element,
    # A NULL is found by a NULL.
    "ARRAY_CONTAINS": lambda _, p: _with({"a": p[0], "x": p[1]}, "exists(v.a, e -> e <=> v.x)"),
    "ARRAY_POSITION": lambda _, p: f"CAST(array_position({p[0]}, {p[1]}) AS INT)",
    "ARRAY_APPEND": "array_append({0}, {1})",
    "ARRAY_PREPEND": "array_prepend({0}, {1})",
    "ARRAY_REMOVE": lambda _, p: _with({"a": p[0], "x": p[1]}, "filter(v.a, e -> NOT (e <=> v.x))"),
    "ARRAY_CONCAT": "concat({*})",
    "ARRAY_UNION": "array_union({0}, {1})",
    "ARRAY_EXCEPT": "array_except({0}, {1})",
    "ARRAY_INTERSECT": "array_intersect({0}, {1})",
    "ARRAY_DISTINCT": "array_distinct({0})",
    "ARRAY_REVERSE": "reverse({0})",
    "ARRAY_SLICE": _slice,
    "ARRAY_SORT": _sort,
    "ARRAY_JOIN": "array_join({*})",
    "ARRAY_MAX": "array_max({0})",
    "ARRAY_MIN": "array_min({0})",
    "MAP_KEYS": "map_keys({0})",
    "MAP_VALUES": "map_values({0})",
    "MAP_ENTRIES": "map_entries({0})",
    "MAP_FROM_ARRAYS": "map_from_arrays({0}, {1})",
    "MAP_UNION": "map_concat({*})",
}

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


FORMS: dict[str, Form] = {
    "ARRAY": "array({*})",
    "MAP": "map({*})",
    "ARRAY ELEMENT": "get({0}, {1} - 1)",
    "MAP ELEMENT": "element_at({0}, {1})",
    "CARDINALITY": "size({0})",
    "MAP_KEYS": "map_keys({0})",
    "MAP_VALUES": "map_values({0})",
    "ARRAY_CONTAINS": "array_contains({0}, {1})",
    "FIELD": _field,
    "ROW": _row,
}

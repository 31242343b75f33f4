"""Functions on JSON as Spark SQL, all of the kernel's making. How to read the tables: `tidemill.spark.functions`."""

from __future__ import annotations

from tidemill import types as t
from tidemill.plan.expressions import Call, Expr, Literal
from tidemill.spark.functions.form import Form, quote
from tidemill.spark.types import spark_ddl

# What the words of a WRAPPER clause come to.
_WRAPPERS = {
    "WITHOUT WRAPPER": "WITHOUT",
    "WITH CONDITIONAL WRAPPER": "CONDITIONAL",
    "WITH UNCONDITIONAL WRAPPER": "UNCONDITIONAL",
}


def _value(call: Call, parts: list[str]) -> str:
    text = f"tidemill_json_value({', '.join(parts)})"
    return (
        text if isinstance(call.type, t.STRING_TYPES) else f"CAST({text} AS {spark_ddl(call.type)})"
    )


def _query(call: Call, parts: list[str]) -> str:
    name = "json_query_array" if isinstance(call.type, t.ArrayType) else "json_query"
    wrapper = call.arguments[2]
    assert isinstance(wrapper, Literal)
    parts = [*parts[:2], quote(_WRAPPERS[str(wrapper.value)]), *parts[3:]]
    return f"tidemill_{name}({', '.join(parts)})"


def _marks(values: tuple[Expr, ...]) -> str:
    """A `j` for each value that is JSON already."""
    built = ("JSON_OBJECT", "JSON_ARRAY", "JSON")
    return quote(
        "".join("j" if isinstance(v, Call) and v.function in built else "-" for v in values)
    )


def _struct(values: list[str]) -> str:
    return f"named_struct({', '.join(f'{quote(str(i))}, {v}' for i, v in enumerate(values))})"


def _object(call: Call, parts: list[str]) -> str:
    absent, *members = parts
    if not members:
        return quote("{}")
    marks = _marks(call.arguments[2::2])
    keys, values = f"array({', '.join(members[::2])})", _struct(members[1::2])
    return f"tidemill_json_object({keys}, {values}, {marks}, {absent})"


def _array(call: Call, parts: list[str]) -> str:
    absent, *values = parts
    if not values:
        return quote("[]")
    return f"tidemill_json_array({_struct(values)}, {_marks(call.arguments[1:])}, {absent})"


FORMS: dict[str, Form] = {
    "IS JSON": "tidemill_is_json({0}, 'VALUE')",
    "IS JSON VALUE": "tidemill_is_json({0}, 'VALUE')",
    "IS JSON OBJECT": "tidemill_is_json({0}, 'OBJECT')",
    "IS JSON ARRAY": "tidemill_is_json({0}, 'ARRAY')",
    "IS JSON SCALAR": "tidemill_is_json({0}, 'SCALAR')",
    "JSON_EXISTS": "tidemill_json_exists({*})",
    "JSON_VALUE": _value,
    "JSON_QUERY": _query,
    "JSON_STRING": "tidemill_json_string(named_struct('v', {0}))",
    "JSON_OBJECT": _object,
    "JSON_ARRAY": _array,
    "JSON": "{0}",
    "JSON_QUOTE": "tidemill_json_quote({0})",
    "JSON_UNQUOTE": "tidemill_json_unquote({0})",
}

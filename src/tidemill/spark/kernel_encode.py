"""What the kernel encodes by itself: records straight from Spark's rows, for formats and types that it knows.

In: an `Encode`, which is the whole truth about a table's records. Out: its straight way as the kernel wants it, or None
where there is none. Law: the bytes, the refusals and their words are the same on both ways (docs/performance.md says
what it is worth).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidemill import types as t
from tidemill.changelog import KIND_COLUMN, TAKES_BACK
from tidemill.formats.json import DEFAULTS
from tidemill.plan.nodes import Enforcement

if TYPE_CHECKING:
    from tidemill.spark.sink import Encode, Encoding

Spec = dict[str, Any]

_SIMPLE = (
    t.BooleanType,
    t.TinyIntType,
    t.SmallIntType,
    t.IntType,
    t.BigIntType,
    t.FloatType,
    t.DoubleType,
    t.DecimalType,
    t.CharType,
    t.VarCharType,
    t.BinaryType,
    t.VarBinaryType,
    t.DateType,
    t.TimeType,
    t.TimestampType,
    t.TimestampLtzType,
)


class _No(Exception):
    """There is no straight way for a side."""


def straight_way(encode: Encode) -> Spec | None:
    constraints = encode.constraints
    refusals = {
        column: constraints.refusal(declared.name).told
        for column, declared in constraints.columns
        if not declared.type.nullable
    }
    drops = constraints.dropped is not None and bool(refusals)
    if encode.changes or drops or constraints.enforcement != Enforcement():
        return None
    try:
        return {
            "key": encode.key and _side(encode.key, refusals),
            "value": _side(encode.value, refusals),
            "gone": KIND_COLUMN if encode.deletes else None,
            "goes": [int(kind) for kind in TAKES_BACK],
            "kept": list(encode.kept),
        }
    except _No:
        return None


def _side(side: Encoding, refusals: Mapping[str, Spec]) -> Spec:
    if side.format != "json":
        raise _No
    options = {**DEFAULTS, **side.options}
    return {
        "fields": [
            {**_field(field), "column": column, "missing": refusals.get(column)}
            for field, column in zip(side.fields, side.columns, strict=True)
        ],
        "iso": options["timestamp-format.standard"] == "ISO-8601",
        "plainDecimals": bool(options["encode.decimal-as-plain-number"]),
        "ignoresNulls": bool(options["encode.ignore-null-fields"]),
    }


def _field(field: t.Field) -> Spec:
    return {"name": field.name, **_content(field.type)}


def _content(type_: t.SqlType) -> Spec:
    match type_:
        case t.RowType(fields=fields):
            return {"fields": [_field(f) for f in fields]}
        case t.ArrayType(element=element):
            return {"element": _content(element)}
    if not isinstance(type_, _SIMPLE):
        raise _No
    return {}

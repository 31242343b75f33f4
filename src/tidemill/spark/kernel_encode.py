"""What the kernel encodes by itself: records straight from Spark's rows, for formats and types that it knows.

In: an `Encode`, which is the whole truth about a table's records. Out: its straight way as the kernel wants it, or None
where there is none. Law: the bytes, the refusals and their words are the same on both ways (docs/performance.md says
what it is worth).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tidemill import types as t
from tidemill.changelog import KIND_COLUMN, TAKES_BACK
from tidemill.formats import format_module, json_exact
from tidemill.formats.raw import is_utf8
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
    written = {*encode.value.columns, *(encode.key.columns if encode.key else ())}
    if drops or constraints.enforcement != Enforcement() or not refusals.keys() <= written:
        return None
    try:
        return {
            "key": encode.key and _side(encode.key, refusals, False),
            "value": _side(encode.value, refusals, encode.changes),
            "kind": KIND_COLUMN if encode.deletes or encode.changes else None,
            "goes": _KINDS if encode.deletes else [],
            "kept": list(encode.kept),
        }
    except _No:
        return None


_KINDS = [int(kind) for kind in TAKES_BACK]


def _side(side: Encoding, refusals: Mapping[str, Spec], tells: bool) -> Spec:
    if side.format not in _FORMATS:
        raise _No
    form, base = _FORMATS[side.format]
    options = {**format_module(base).DEFAULTS, **side.options}
    return {
        "fields": [
            {**_field(field), "column": column, "missing": refusals.get(column)}
            for field, column in zip(side.fields, side.columns, strict=True)
        ],
        "tells": tells,
        base: form(side, options),
    }


def _json(side: Encoding, options: Any) -> Spec:
    return {
        "iso": options["timestamp-format.standard"] == "ISO-8601",
        "plainDecimals": bool(options["encode.decimal-as-plain-number"]),
        "ignoresNulls": bool(options["encode.ignore-null-fields"]),
    }


def _envelope(side: Encoding, options: Any) -> Spec:
    form = _json(side, options)
    envelope = format_module(side.format).ENVELOPE
    there, gone = envelope.written(with_nulls=not form["ignoresNulls"])
    return {**form, "changes": {"there": there, "gone": gone, "goes": _KINDS}}


def _csv(side: Encoding, options: Any) -> Spec:
    quote = None if options["disable-quote-character"] else options["quote-character"] or None
    escape = options["escape-character"]
    if not all(str(mark).isascii() for mark in (options["field-delimiter"], quote, escape)):
        raise _No
    return {
        "delimiter": options["field-delimiter"],
        "quote": quote,
        "escape": escape,
        "nullLiteral": options["null-literal"] or "",
        "elementDelimiter": options["array-element-delimiter"],
        "plainDecimals": not options["write-bigdecimal-in-scientific-notation"],
    }


def _raw(side: Encoding, options: Any) -> Spec:
    if not is_utf8(str(options["charset"])):
        raise _No
    return {
        "lowFirst": options["endianness"] != "big-endian",
        "end": options["line-delimiter"] or "",
    }


_FORMATS: Mapping[str, tuple[Callable[[Any, Any], Spec], str]] = {
    "json": (_json, "json"),
    "debezium-json": (_envelope, "json"),
    "ogg-json": (_envelope, "json"),
    "canal-json": (_envelope, "json"),
    "maxwell-json": (_envelope, "json"),
    "csv": (_csv, "csv"),
    "raw": (_raw, "raw"),
}
"""What writes the straight way of a format, and the format whose options it has."""


def _field(field: t.Field) -> Spec:
    return {"name": field.name, **_content(field.type)}


def _content(type_: t.SqlType) -> Spec:
    match type_:
        case t.RowType(fields=fields):
            return {"fields": [_field(f) for f in fields]}
        case t.ArrayType(element=element):
            return {"element": _content(element)}
        case t.MapType() | t.MultisetType():
            return {"element": _content(json_exact.entry_types(type_)[1])}
    if not isinstance(type_, _SIMPLE):
        raise _No
    return {}

"""What the kernel decodes by itself: rows straight from Kafka's bytes, for formats and types where it can be sure.

In: a `Decode`, which is the whole truth about a table's records. Out: its straight way as the kernel wants it, or None
where there is none. Law: the kernel leaves every record that is not just what the table says to `Decode`, so that the
rows, the losses and the messages are the same with and without it (docs/performance.md says what it is worth).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidemill import types as t
from tidemill.formats import format_module, json_exact
from tidemill.formats.cdc import BeforeAfter, DataOld
from tidemill.formats.raw import is_utf8

if TYPE_CHECKING:
    from tidemill.spark.source import Decode, Side

Spec = dict[str, Any]

_NUMBERS: dict[type[t.SqlType], str] = {
    t.BooleanType: "BOOLEAN",
    t.TinyIntType: "TINYINT",
    t.SmallIntType: "SMALLINT",
    t.IntType: "INT",
    t.BigIntType: "BIGINT",
    t.FloatType: "FLOAT",
    t.DoubleType: "DOUBLE",
    t.CharType: "STRING",
    t.VarCharType: "STRING",
    t.DateType: "DATE",
    t.TimestampType: "TIMESTAMP",
    t.TimestampLtzType: "TIMESTAMP_LTZ",
}
_TEXTS = {**_NUMBERS, t.DecimalType: "DECIMAL"}
"""Of formats that write numbers and times as text."""
_OBJECTS = {
    **_TEXTS,
    t.RowType: "ROW",
    t.ArrayType: "ARRAY",
    t.MapType: "MAP",
    t.MultisetType: "MAP",
}
_TIMES = (t.DateType, t.TimestampType, t.TimestampLtzType)
_RAW = {
    **{type_: name for type_, name in _NUMBERS.items() if type_ not in _TIMES},
    t.BinaryType: "BYTES",
    t.VarBinaryType: "BYTES",
}


class _No(Exception):
    """There is no straight way for a side."""


def straight_way(decode: Decode, schema: str, python: Callable[[], str]) -> Spec | None:
    """`schema` is that of all the columns that `decode` gives; `python` gives the kernel's name for `decode`."""
    in_key = len(decode.key.wanted) if decode.key else 0
    in_value = in_key + len(decode.value.wanted)
    if decode.value.metadata:
        return None
    places = {made: at for at, made in enumerate(decode.order)}
    places |= {one: places[other] for one, other in decode.shared}
    try:
        key = None
        if decode.key is not None:
            key = _side(decode.key, [places[i] for i in range(in_key)], None)
        value_places = [places[i] for i in range(in_key, in_value)]
        width = len(decode.order)
        value = _side(decode.value, value_places, width if decode.has_kinds else None)
        if "envelope" in value:
            value["envelope"]["keys"] = [value_places[i] for i in decode.keys]
    except _No:
        return None
    kept = [
        {"column": decode.kept[made - in_value], "at": at}
        for at, made in enumerate(decode.order)
        if made >= in_value
    ]
    hidden = width + decode.has_kinds
    kept += [{"column": name, "at": hidden + i} for i, name in enumerate(decode.origin)]
    upsert = None
    if decode.value.deletes:
        of_key = {places[i] for i in range(in_key)}
        upsert = {
            "kind": width,
            "values": [at for at in value_places if at not in of_key],
            "shared": bool(decode.shared),
        }
    return {
        "schema": schema,
        "value": value,
        "key": key,
        "upsert": upsert,
        "kept": kept,
        "nulls": [hidden + len(decode.origin)] if decode.has_letters else [],
        "python": python(),
    }


def _side(side: Side, places: Sequence[int], kind: int | None) -> Spec:
    if side.format not in _FORMATS:
        raise _No
    form, base = _FORMATS[side.format]
    options = {**format_module(base).DEFAULTS, **side.options}
    return form(side, dict(zip(side.wanted, places, strict=True)), kind, options)


def _json(side: Side, places: Mapping[str, int], kind: int | None, options: Any) -> Spec:
    if options["fail-on-missing-field"]:
        raise _No  # it asks for absent fields, which the kernel takes for NULL
    return {
        "format": "json",
        "fields": [_field(f, places[f.name], _OBJECTS) for f in side.fields if f.name in places],
        "iso": options["timestamp-format.standard"] == "ISO-8601",
    }


def _envelope(side: Side, places: Mapping[str, int], kind: int | None, options: Any) -> Spec:
    envelope = format_module(side.format).ENVELOPE
    assert isinstance(envelope, BeforeAfter | DataOld)
    around: Spec = {
        "update": envelope.update,
        "delete": envelope.delete,
        "payload": bool(envelope.payload(side.options)),
        "kind": kind,
    }
    if isinstance(envelope, BeforeAfter):
        around |= {"before": "before", "after": "after", "word": envelope.word}
        around |= {"inserts": list(envelope.inserts)}
    else:
        if any(side.options.get(option) is not None for option, _ in envelope.filters):
            raise _No
        around |= {"before": "old", "after": "data", "word": "type", "inserts": [envelope.insert]}
        around |= {"completes": True, "deletesAfter": True, "several": envelope.several}
    return {
        **_json(side, places, kind, options),
        # Canal writes all values so.
        "texts": isinstance(envelope, DataOld),
        "envelope": around,
    }


def _csv(side: Side, places: Mapping[str, int], kind: int | None, options: Any) -> Spec:
    delimiter = str(options["field-delimiter"])
    quote = "" if options["disable-quote-character"] else str(options["quote-character"] or "")
    odd = quote + str(options["escape-character"] or "")
    marks = delimiter + odd
    if not marks.isascii() or len(set(marks)) < len(marks) or set(marks) & set("\r\n\0"):
        raise _No
    if options["trim-spaces"] or options["allow-comments"]:
        raise _No
    return {
        "format": "csv",
        "fields": [_field(f, places.get(f.name), _TEXTS) for f in side.fields],
        "csv": {
            "delimiter": delimiter,
            "odd": odd,
            "nullLiteral": options["null-literal"],
            "emptyIsNull": bool(options["empty-string-as-null"]),
        },
    }


def _avro(side: Side, places: Mapping[str, int], kind: int | None, options: Any) -> Spec:
    if options["encoding"] != "binary" or not options["timestamp_mapping.legacy"]:
        raise _No
    for field in side.fields:
        times = (t.TimestampType, t.TimestampLtzType)
        if isinstance(field.type, times) and field.type.precision > 3:
            raise _No
    fields = [_field(f, places.get(f.name), _NUMBERS) for f in side.fields]
    return {"format": "avro", "fields": fields}


def _raw(side: Side, places: Mapping[str, int], kind: int | None, options: Any) -> Spec:
    if options["line-delimiter"] is not None or not is_utf8(str(options["charset"])):
        raise _No
    [field] = side.fields
    return {
        "format": "raw",
        "fields": [_field(field, places.get(field.name), _RAW)],
        "lowFirst": options["endianness"] != "big-endian",
    }


_Form = Callable[[Any, Mapping[str, int], int | None, Any], Spec]
_FORMATS: Mapping[str, tuple[_Form, str]] = {
    "json": (_json, "json"),
    "debezium-json": (_envelope, "json"),
    "ogg-json": (_envelope, "json"),
    "canal-json": (_envelope, "json"),
    "maxwell-json": (_envelope, "json"),
    "csv": (_csv, "csv"),
    "avro": (_avro, "avro"),
    "raw": (_raw, "raw"),
}
"""What writes the straight way of a format, and the format whose options it has."""


def _field(field: t.Field, at: int | None, names: Mapping[type[t.SqlType], str]) -> Spec:
    name = names.get(type(field.type))
    if name is None:
        raise _No
    more: Spec = {}
    match field.type:
        case t.RowType(fields=inner):
            more = {"fields": [_field(f, i, names) for i, f in enumerate(inner)]}
        case t.ArrayType(element=element):
            more = {"fields": [_field(t.Field("", element), 0, names)]}
        case t.MapType() | t.MultisetType():
            entry = json_exact.entry_types(field.type)
            more = {"fields": [_field(t.Field("", of), 0, names) for of in entry]}
        case t.DecimalType(precision=precision, scale=scale):
            more = {"precision": precision, "scale": scale}
        case t.TimestampType(precision=precision) | t.TimestampLtzType(precision=precision):
            more = {"precision": precision}
    return {"name": field.name, "type": name, "at": at, "nullable": field.type.nullable, **more}

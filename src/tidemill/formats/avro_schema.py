"""Avro schemas: from a table's columns, from JSON, and what a writer's schema means to a reader's.

In: columns or the JSON of a schema. Out: schemas as values, and a `Reading`: how bytes that were written by one
schema become data of another, by Avro's rules of resolution as Java applies them. Law: this module knows no bytes.
What does not go together is not an error here but a `Refused` in its place, for it matters only to a record that gets
there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidemill import types as t

RECORD_NAME = "org.apache.flink.avro.generated.record"

# ---- schemas ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Schema:
    """Base of all schemas. `kind` is Avro's name of the type."""

    kind: str
    logical: Mapping[str, Any] = field(default_factory=dict, kw_only=True, hash=False)
    """What the schema says beside its type: `logicalType`, `precision`, `scale`."""


@dataclass(frozen=True)
class Named(Schema):
    name: str
    """With its namespace."""


@dataclass(frozen=True)
class Fixed(Named):
    size: int


@dataclass(frozen=True)
class Enum(Named):
    symbols: tuple[str, ...]
    default: str | None


@dataclass(frozen=True)
class Array(Schema):
    items: Schema


@dataclass(frozen=True)
class Map(Schema):
    values: Schema


@dataclass(frozen=True)
class Union(Schema):
    branches: tuple[Schema, ...]


@dataclass(frozen=True)
class RecordField:
    name: str
    schema: Schema
    aliases: tuple[str, ...] = ()
    default: tuple[Any] | None = None
    """The JSON of the default value; None when there is none."""


@dataclass(frozen=True, eq=False)
class Record(Named):
    """Equal to itself only, because it may hold itself."""

    fields: list[RecordField] = field(default_factory=list, repr=False)


NULL = Schema("null")
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


class BadSchema(ValueError):
    """The JSON is no Avro schema, or not the one that is wanted."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


# ---- from JSON -------------------------------------------------------------------------------------------


def parse(text: str) -> Schema:
    try:
        return _Parser().schema(json.loads(text), None)
    except (json.JSONDecodeError, RecursionError) as error:
        raise BadSchema(f"not JSON: {error}") from None


class _Parser:
    def __init__(self) -> None:
        self._named: dict[str, Schema] = {}

    def schema(self, node: Any, space: str | None) -> Schema:
        match node:
            case str():
                return self._by_name(node, space)
            case list():
                return Union("union", tuple(self.schema(branch, space) for branch in node))
            case {"type": str(kind)}:
                return self._described(kind, node, space)
            case {"type": inner}:
                return self.schema(inner, space)
        raise BadSchema(f"no type: {json.dumps(node)}")

    def _by_name(self, name: str, space: str | None) -> Schema:
        if name in PRIMITIVES:
            return Schema(name)
        found = self._named.get(_full_name(name, space)) or self._named.get(name)
        if found is None:
            raise BadSchema(f"undefined name: {name}")
        return found

    def _described(self, kind: str, node: dict[str, Any], space: str | None) -> Schema:
        says: dict[str, Any] = {
            k: node[k] for k in ("logicalType", "precision", "scale") if k in node
        }
        if kind in PRIMITIVES:
            return Schema(kind, logical=says)
        if kind == "array" and "items" in node:
            return Array(kind, self.schema(node["items"], space))
        if kind == "map" and "values" in node:
            return Map(kind, self.schema(node["values"], space))
        if kind not in ("record", "error", "enum", "fixed"):
            return self._by_name(kind, space)
        try:
            name = _full_name(node["name"], node.get("namespace", space))
            if kind == "fixed":
                return self._keep(Fixed(kind, name, int(node["size"]), logical=says))
            if kind == "enum":
                return self._keep(Enum(kind, name, tuple(node["symbols"]), node.get("default")))
            record = self._keep(Record("record", name))
            assert isinstance(record, Record)
            record.fields.extend(self._field(f, name.rpartition(".")[0]) for f in node["fields"])
            return record
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, BadSchema):
                raise
            raise BadSchema(f"not a whole {kind}: {error}") from None

    def _field(self, node: dict[str, Any], space: str) -> RecordField:
        return RecordField(
            node["name"],
            # The type is all of what stands beside the name if it is not wrapped once more.
            self.schema(node["type"], space),
            tuple(node.get("aliases", ())),
            (node["default"],) if "default" in node else None,
        )

    def _keep(self, schema: Named) -> Schema:
        self._named[schema.name] = schema
        return schema


def _full_name(name: str, space: str | None) -> str:
    return name if "." in name or not space else f"{space}.{name}"


# ---- from a table ----------------------------------------------------------------------------------------

_SIMPLE: dict[type[t.SqlType], str] = {
    t.NullType: "null",
    t.BooleanType: "boolean",
    t.TinyIntType: "int",
    t.SmallIntType: "int",
    t.IntType: "int",
    t.BigIntType: "long",
    t.FloatType: "float",
    t.DoubleType: "double",
    t.CharType: "string",
    t.VarCharType: "string",
    t.BinaryType: "bytes",
    t.VarBinaryType: "bytes",
}


def schema_of(fields: Sequence[t.Field], legacy: bool) -> Any:
    """The schema that Flink makes of columns, as the JSON's values; `legacy` is `timestamp_mapping.legacy`."""
    return _json_of(t.RowType(fields=tuple(fields), nullable=False), RECORD_NAME, legacy)


def text_of(schema: Any) -> str:
    """The JSON of a schema's values as Java prints it."""
    return json.dumps(schema, separators=(",", ":"), ensure_ascii=False)


def _json_of(type_: t.SqlType, name: str, legacy: bool) -> Any:
    plain = _plain_json_of(type_, name, legacy)
    return ["null", plain] if type_.nullable and plain != "null" else plain


def _plain_json_of(type_: t.SqlType, name: str, legacy: bool) -> Any:
    simple = _SIMPLE.get(type(type_))
    if simple:
        return simple
    match type_:
        case t.DecimalType():
            says = {"precision": type_.precision, "scale": type_.scale}
            return {"type": "bytes", "logicalType": "decimal", **says}
        case t.DateType():
            return {"type": "int", "logicalType": "date"}
        case t.TimeType():
            return {"type": "int", "logicalType": "time-millis"}
        case t.TimestampType() | t.TimestampLtzType():
            local = "" if legacy or isinstance(type_, t.TimestampLtzType) else "local-"
            unit = "millis" if type_.precision <= 3 else "micros"
            return {"type": "long", "logicalType": f"{local}timestamp-{unit}"}
        # Inside of arrays and maps Flink knows but the legacy mapping.
        case t.ArrayType():
            return {"type": "array", "items": _json_of(type_.element, name, True)}
        case t.MapType():
            return {"type": "map", "values": _json_of(type_.value, name, True)}
        case t.MultisetType():
            return {"type": "map", "values": ["null", "int"]}
        case t.RowType():
            return _record_json_of(type_, name, legacy)
    raise TypeError(f"{type_} has no Avro counterpart")


def _record_json_of(type_: t.RowType, name: str, legacy: bool) -> Any:
    # Java prints a namespace where it is not that of the record around.
    space, _, short = name.rpartition(".")
    fields = [
        {"name": f.name, "type": _json_of(f.type, f"{name}_{f.name}", legacy)}
        | ({"default": None} if f.type.nullable else {})
        for f in type_.fields
    ]
    outermost = {"namespace": space} if name == RECORD_NAME else {}
    return {"type": "record", "name": short, **outermost, "fields": fields}


def type_of(schema: Schema) -> t.SqlType | None:
    """The SQL type that Flink reads out of a schema; None if there is none."""
    match schema:
        case Union(branches=branches):
            others = [b for b in branches if b.kind != "null"]
            if len(others) != 1 or len(branches) > 2:
                return None
            inner = type_of(others[0])
            return inner and inner.with_nullable(len(branches) == 2)
        case Record(fields=fields):
            types = [type_of(f.schema) for f in fields]
            if None in types:
                return None
            pairs = zip(fields, types, strict=True)
            named = tuple(t.Field(f.name, x) for f, x in pairs if x)
            return t.RowType(fields=named, nullable=False)
        case Array(items=items):
            element = type_of(items)
            return element and t.ArrayType(element=element, nullable=False)
        case Map(values=values):
            value = type_of(values)
            return value and t.MapType(key=t.STRING.not_null, value=value, nullable=False)
        case Enum():
            return t.STRING.not_null
        case Fixed(size=size):
            return _decimal_of(schema) or t.VarBinaryType(length=size, nullable=False)
    if schema.kind == "bytes":
        return _decimal_of(schema) or t.BYTES.not_null
    logical = (schema.kind, schema.logical.get("logicalType"))
    found = _LOGICAL.get(logical) or _LOGICAL.get((schema.kind, None))
    return found and (found if schema.kind == "null" else found.not_null)


def given(format_: str, text: str, fields: Sequence[t.Field]) -> Schema:
    """The schema that a table's option `schema` gives for its records, which have these fields."""
    try:
        schema = parse(text)
    except BadSchema as bad:
        raise BadSchema(f"the option 'schema' is no Avro schema: {bad}") from None
    found = type_of(schema)
    said = [(f.name, f.type) for f in found.fields] if isinstance(found, t.RowType) else None
    if said != [(f.name, f.type) for f in fields]:
        raise BadSchema(
            f"Schema provided for '{format_}' format does not match the table schema: {text}",
            f"the schema says {found}, the table {t.RowType(fields=tuple(fields))}",
        )
    return schema


def debezium_fields(fields: Sequence[t.Field]) -> tuple[t.Field, ...]:
    """Of what Debezium writes around a row; it tells more (source, ts_ms), which nobody asks for."""
    row = t.RowType(fields=tuple(fields))
    return t.Field("before", row), t.Field("after", row), t.Field("op", t.STRING)


def _decimal_of(schema: Schema) -> t.SqlType | None:
    if schema.logical.get("logicalType") != "decimal":
        return None
    try:
        precision, scale = schema.logical["precision"], schema.logical.get("scale", 0)
        return t.DecimalType(precision=precision, scale=scale, nullable=False)
    except (KeyError, TypeError, ValueError):
        return None


# By the legacy mapping, the only one that formats with a schema option know.
_LOGICAL: dict[tuple[str, str | None], t.SqlType] = {
    ("null", None): t.NullType(),
    ("boolean", None): t.BOOLEAN,
    ("int", None): t.INT,
    ("int", "date"): t.DateType(),
    ("int", "time-millis"): t.TimeType(precision=3),
    ("long", None): t.BIGINT,
    ("long", "timestamp-millis"): t.TimestampType(precision=3),
    ("long", "timestamp-micros"): t.TimestampType(precision=6),
    ("long", "time-micros"): t.TimeType(precision=6),
    ("float", None): t.FloatType(),
    ("double", None): t.DOUBLE,
    ("string", None): t.STRING,
}

# ---- resolution ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reading:
    """How to read what a writer wrote."""


@dataclass(frozen=True)
class Scalar(Reading):
    wrote: str
    wanted: str
    """What Avro's promotions make of it: an int may be wanted as a double."""


@dataclass(frozen=True)
class Sized(Reading):
    """A `fixed`: bytes, as many as the schema says."""

    size: int


@dataclass(frozen=True)
class Symbols(Reading):
    symbols: tuple[str | None, ...]
    """By the writer's number; None is one that the reader does not know."""


@dataclass(frozen=True)
class Items(Reading):
    item: Reading


@dataclass(frozen=True)
class Entries(Reading):
    value: Reading


@dataclass(frozen=True)
class Branches(Reading):
    branches: tuple[Reading, ...]


@dataclass(frozen=True)
class Members(Reading):
    """A record. It gives the reader's fields in the reader's order."""

    members: tuple[tuple[int | None, Reading], ...]
    """In the writer's order; with the place among the reader's fields, or None to skip it."""
    names: tuple[str, ...]
    defaults: Mapping[int, tuple[Any, Schema]] = field(hash=False)
    """The JSON of the values of fields that the writer does not have, and their schemas."""


@dataclass(frozen=True)
class Refused(Reading):
    """The two schemas do not go together."""

    reason: str


@dataclass(frozen=True, eq=False)
class Again(Reading):
    """Something to skip that lies inside of itself."""

    record: Record


_PROMOTIONS = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}


def resolve(writer: Schema, reader: Schema) -> Reading:
    if isinstance(writer, Union):
        return Branches(tuple(resolve(branch, reader) for branch in writer.branches))
    if isinstance(reader, Union):
        return _resolve_into(writer, reader)
    if writer.kind != reader.kind:
        if reader.kind in _PROMOTIONS.get(writer.kind, ()):
            return Scalar(writer.kind, reader.kind)
        return _mismatch(writer, reader)
    match writer, reader:
        case Record(), Record():
            return _resolve_record(writer, reader)
        case Array(), Array():
            return Items(resolve(writer.items, reader.items))
        case Map(), Map():
            return Entries(resolve(writer.values, reader.values))
        case Enum(name=name), Enum() if name != reader.name:
            return _mismatch(writer, reader)
        case Fixed(name=name), Fixed() if name != reader.name:
            return _mismatch(writer, reader)
        case Enum(), Enum():
            known = {s: s for s in reader.symbols}
            return Symbols(tuple(known.get(s, reader.default) for s in writer.symbols))
        case Fixed(), Fixed():
            same = writer.size == reader.size
            return Sized(writer.size) if same else _mismatch(writer, reader)
    return Scalar(writer.kind, reader.kind)


def _resolve_into(writer: Schema, reader: Union) -> Reading:
    """The reader's branch of the very type, else the first one that can take it."""
    readings = [resolve(writer, branch) for branch in reader.branches]
    for branch, reading in zip(reader.branches, readings, strict=True):
        if branch.kind == writer.kind and not isinstance(reading, Refused):
            return reading
    able = (r for r in readings if not isinstance(r, Refused))
    return next(able, _mismatch(writer, reader))


def _resolve_record(writer: Record, reader: Record) -> Reading:
    places: dict[str, int] = {}
    for i, f in enumerate(reader.fields):
        for name in (*f.aliases, f.name):
            places.setdefault(name, i)
    members: list[tuple[int | None, Reading]] = []
    for f in writer.fields:
        place = places.get(f.name)
        skipped = place is None
        reading = skip(f.schema) if skipped else resolve(f.schema, reader.fields[place or 0].schema)
        members.append((place, reading))
    there = {place for place, _ in members}
    absent = [i for i in range(len(reader.fields)) if i not in there]
    for i in absent:
        if reader.fields[i].default is None:
            name = reader.fields[i].name
            return Refused(
                f"Found {writer.name}, expecting {reader.name}, missing required field {name}"
            )
    defaults = {
        i: (d[0], reader.fields[i].schema) for i in absent if (d := reader.fields[i].default)
    }
    return Members(tuple(members), tuple(f.name for f in reader.fields), defaults)


def _mismatch(writer: Schema, reader: Schema) -> Refused:
    return Refused(f"Found {_shown(writer)}, expecting {_shown(reader)}")


def _shown(schema: Schema) -> str:
    return schema.name if isinstance(schema, Named) else schema.kind


def skip(schema: Schema, inside: tuple[Record, ...] = ()) -> Reading:
    """How to get past something that nobody wants."""
    match schema:
        case Record():
            if schema in inside:
                return Again(schema)
            deeper = (*inside, schema)
            members = tuple((None, skip(f.schema, deeper)) for f in schema.fields)
            return Members(members, (), {})
        case Array(items=items):
            return Items(skip(items, inside))
        case Map(values=values):
            return Entries(skip(values, inside))
        case Union(branches=branches):
            return Branches(tuple(skip(b, inside) for b in branches))
        case Fixed(size=size):
            return Sized(size)
        case Enum():
            return Scalar("int", "int")
    return Scalar(schema.kind, schema.kind)


def pruned(reading: Reading, wanted: set[int]) -> Reading:
    """A record's reading without the fields that nobody wants."""
    if not isinstance(reading, Members):
        return reading
    members = tuple((p if p in wanted else None, r) for p, r in reading.members)
    return Members(members, reading.names, reading.defaults)

"""Avro's JSON: documents ⇄ data, as Java's JsonDecoder and JsonEncoder; also the default values in schemas.

In: a schema and a document, or a schema and data. Out: data as `avro_exact` knows it, or the document's text. A value
of a union is an object of one member that names the branch; bytes are texts of the characters U+0000 to U+00FF.
Law: reading raises nothing but `Misfit` for what a document holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.formats import avro_schema as schemas
from tidemill.formats import java_text, json_exact


class Misfit(Exception):
    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path


def default_value(json: Any, schema: schemas.Schema) -> Any:
    """A default in a schema: of a union it is a value of the first branch, without a name around it."""
    if isinstance(schema, schemas.Union):
        return default_value(json, schema.branches[0])
    match schema:
        case schemas.Array():
            return [default_value(item, schema.items) for item in json]
        case schemas.Map():
            return {k: default_value(v, schema.values) for k, v in json.items()}
        case schemas.Record():
            return [
                default_value(
                    json[f.name] if f.name in json else (f.default or (None,))[0], f.schema
                )
                for f in schema.fields
            ]
    return read(json, schema)


# ---- reading ---------------------------------------------------------------------------------------------

_RANGES = {"int": 2**31, "long": 2**63}
_NOT_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_NOT_NUMBERS |= {"INF": math.inf, "-INF": -math.inf}


def read(found: Any, schema: schemas.Schema) -> Any:
    match schema:
        case schemas.Union():
            return _read_union(found, schema)
        case schemas.Record():
            return _read_record(found, schema)
        case schemas.Array():
            return [read(x, schema.items) for x in _expect(found, list, "array-start")]
        case schemas.Map():
            entries = _expect(found, dict, "map-start").items()
            return {json_exact.written(k): read(v, schema.values) for k, v in entries}
        case schemas.Enum():
            if found not in schema.symbols:
                raise Misfit(f"Unknown symbol in enum {json_exact.shown(found)}")
            return found
        case schemas.Fixed():
            return _bytes(found, "fixed")
    return _SCALARS[schema.kind](found)


def _expect(found: Any, kind: type, name: str) -> Any:
    if type(found) is not kind:
        raise Misfit(f"Expected {name}. Got {json_exact.shown(found)}")
    return found


def _read_union(found: Any, schema: schemas.Union) -> Any:
    if found is None:
        label, inner = "null", None
    elif type(found) is dict and found:
        label, inner = next(iter(found.items()))
    else:
        raise Misfit(f"Expected start-union. Got {json_exact.shown(found)}")
    for branch in schema.branches:
        if branch_name(branch) == label:
            return read(inner, branch)
    raise Misfit(f"Unknown union branch {label}")


def branch_name(schema: schemas.Schema) -> str:
    return schema.name if isinstance(schema, schemas.Named) else schema.kind


def _read_record(found: Any, schema: schemas.Record) -> list[Any]:
    members = _expect(found, dict, "record-start")
    values = []
    for f in schema.fields:
        if f.name not in members:
            raise Misfit(f"Expected field name not found: {f.name}")
        try:
            values.append(read(members[f.name], f.schema))
        except Misfit as misfit:
            path = f"{f.name}.{misfit.path}" if misfit.path else f.name
            raise Misfit(misfit.reason, path) from None
    return values


def _null(found: Any) -> None:
    if found is not None:
        raise Misfit(f"Expected null. Got {json_exact.shown(found)}")


def _whole(kind: str) -> Callable[[Any], int]:
    low, high = -_RANGES[kind], _RANGES[kind] - 1

    def take(found: Any) -> int:
        if type(found) not in (int, float, json_exact.Number):
            raise Misfit(f"Expected {kind}. Got {json_exact.shown(found)}")
        # More than 20 digits are beyond any range, and thousands are more than `int` takes.
        number = int(found) if _is_whole(found) and len(str(found)) <= 20 else float(found)
        # Jackson compares a double with the bounds as doubles, then casts as Java casts.
        if not type(number)(low) <= number <= type(number)(high):
            raise Misfit(f"Numeric value ({json_exact.shown(found)}) out of range of {kind}")
        return max(low, min(high, int(number)))

    return take


def _is_whole(found: Any) -> bool:
    return type(found) is int or str(found).lstrip("-").isdigit()


def _float(found: Any) -> float:
    # Rounded once, from the digits.
    is_number = type(found) is json_exact.Number
    return java_text.parse_float(found) if is_number else _approximate(found)


def _approximate(found: Any) -> float:
    if type(found) in (int, float, json_exact.Number):
        return float(found)
    if type(found) is str and found in _NOT_NUMBERS:
        return _NOT_NUMBERS[found]
    raise Misfit(f"Expected a number. Got {json_exact.shown(found)}")


def _bytes(found: Any, name: str = "bytes") -> bytes:
    # Java writes `?` for what is beyond.
    return str(_expect(found, str, name)).encode("latin-1", "replace")


_SCALARS: dict[str, Callable[[Any], Any]] = {
    "null": _null,
    "boolean": lambda found: _expect(found, bool, "boolean"),
    "int": _whole("int"),
    "long": _whole("long"),
    "float": _float,
    "double": _approximate,
    "bytes": _bytes,
    "string": lambda found: json_exact.written(_expect(found, str, "string")),
}

# ---- writing ---------------------------------------------------------------------------------------------


def write(data: Any, schema: schemas.Schema) -> str:
    match schema:
        case schemas.Union():
            return _write_union(data, schema)
        case schemas.Record(fields=fields):
            members = (
                f"{json_exact.quote_bytes(f.name)}:{write(x, f.schema)}"
                for f, x in zip(fields, data, strict=True)
            )
            return f"{{{','.join(members)}}}"
        case schemas.Array(items=items):
            return f"[{','.join(write(x, items) for x in data)}]"
        case schemas.Map(values=values):
            entries = (f"{json_exact.quote_bytes(k)}:{write(v, values)}" for k, v in data.items())
            return f"{{{','.join(entries)}}}"
        case schemas.Enum():
            return json_exact.quote_bytes(data)
        case schemas.Fixed():
            return _quote_data(data)
    return _TEXTS[schema.kind](data)


def _write_union(data: Any, schema: schemas.Union) -> str:
    if data is None:
        return "null"
    branch = next(b for b in schema.branches if b.kind != "null")
    return f"{{{json_exact.quote_bytes(branch_name(branch))}:{write(data, branch)}}}"


def _quote_data(data: bytes) -> str:
    return json_exact.quote_bytes(data.decode("latin-1"))


def _double_text(data: float) -> str:
    text = java_text.print_double(data)
    return text if text[-1].isdigit() else f'"{text}"'


def _float_text(data: float) -> str:
    shortest = float(pc.cast(pa.scalar(data, pa.float32()), pa.string()).as_py())
    text = java_text.print_double(shortest, data)
    return text if text[-1].isdigit() else f'"{text}"'


_TEXTS: dict[str, Callable[[Any], str]] = {
    "null": lambda data: "null",
    "boolean": lambda data: "true" if data else "false",
    "int": str,
    "long": str,
    "float": _float_text,
    "double": _double_text,
    "bytes": _quote_data,
    "string": json_exact.quote_bytes,
}

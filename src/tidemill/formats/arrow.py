"""SQL types as Arrow types: the layout of every column that crosses between the JVM and Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from tidemill import types as t

_SIMPLE: dict[type[t.SqlType], Callable[[], pa.DataType]] = {
    t.NullType: pa.null,
    t.BooleanType: pa.bool_,
    t.TinyIntType: pa.int8,
    t.SmallIntType: pa.int16,
    t.IntType: pa.int32,
    t.BigIntType: pa.int64,
    t.FloatType: pa.float32,
    t.DoubleType: pa.float64,
    t.DateType: pa.date32,
    t.CharType: pa.string,
    t.VarCharType: pa.string,
    t.BinaryType: pa.binary,
    t.VarBinaryType: pa.binary,
    t.TimeType: lambda: pa.time64("ns"),
    t.TimestampType: lambda: pa.timestamp("us"),
    t.TimestampLtzType: lambda: pa.timestamp("us", tz="UTC"),
}


def arrow_type(type_: t.SqlType) -> Any:
    simple = _SIMPLE.get(type(type_))
    if simple:
        return simple()
    match type_:
        case t.DecimalType():
            return pa.decimal128(type_.precision, type_.scale)
        case t.ArrayType():
            return pa.list_(pa.field("element", arrow_type(type_.element), type_.element.nullable))
        case t.MapType():
            return pa.map_(
                arrow_type(type_.key),
                pa.field("value", arrow_type(type_.value), type_.value.nullable),
            )
        case t.MultisetType():
            return pa.map_(arrow_type(type_.element), pa.field("value", pa.int32(), False))
        case t.RowType():
            return pa.struct([arrow_field(f) for f in type_.fields])
    raise TypeError(f"{type_} has no Arrow counterpart")


def arrow_field(field: t.Field) -> Any:
    return pa.field(field.name, arrow_type(field.type), field.type.nullable)

"""SQL types as Spark types, and the other way as far as the kernel needs it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import types as s

from tidemill import types as t

_SIMPLE: dict[type[t.SqlType], Any] = {
    t.NullType: s.NullType,
    t.BooleanType: s.BooleanType,
    t.TinyIntType: s.ByteType,
    t.SmallIntType: s.ShortType,
    t.IntType: s.IntegerType,
    t.BigIntType: s.LongType,
    t.FloatType: s.FloatType,
    t.DoubleType: s.DoubleType,
    t.DateType: s.DateType,
    t.CharType: s.StringType,
    t.VarCharType: s.StringType,
    t.BinaryType: s.BinaryType,
    t.VarBinaryType: s.BinaryType,
    t.TimestampType: s.TimestampNTZType,
    t.TimestampLtzType: s.TimestampType,
    # Intervals are numbers of months and of milliseconds, as in Flink.
    t.YearMonthIntervalType: s.IntegerType,
    t.DayTimeIntervalType: s.LongType,
}


def spark_type(type_: t.SqlType) -> Any:
    simple = _SIMPLE.get(type(type_))
    if simple is not None:
        return simple()
    match type_:
        case t.DecimalType():
            return s.DecimalType(type_.precision, type_.scale)
        case t.TimeType():
            # Spark keeps microseconds at most.
            return s.TimeType(min(6, type_.precision))
        case t.ArrayType():
            return s.ArrayType(spark_type(type_.element), type_.element.nullable)
        case t.MapType():
            return s.MapType(spark_type(type_.key), spark_type(type_.value), type_.value.nullable)
        case t.MultisetType():
            return s.MapType(spark_type(type_.element), s.IntegerType(), False)
        case t.RowType():
            return spark_schema(type_.fields)
    raise TypeError(f"{type_} has no Spark counterpart")


def spark_schema(fields: Iterable[t.Field]) -> Any:
    """Every column may hold NULL: what a record holds is not checked against NOT NULL when it is read."""
    return s.StructType([s.StructField(f.name, spark_type(f.type), True) for f in fields])


def spark_ddl(type_: t.SqlType) -> str:
    """The type as Spark SQL text, for casts. Names of fields may be anything."""
    match type_:
        case t.ArrayType():
            return f"array<{spark_ddl(type_.element)}>"
        case t.MapType():
            return f"map<{spark_ddl(type_.key)},{spark_ddl(type_.value)}>"
        case t.MultisetType():
            return f"map<{spark_ddl(type_.element)},int>"
        case t.RowType():
            names = (f.name.replace("`", "``") for f in type_.fields)
            parts = (f"`{n}`:{spark_ddl(f.type)}" for n, f in zip(names, type_.fields, strict=True))
            return f"struct<{','.join(parts)}>"
    return str(spark_type(type_).simpleString())

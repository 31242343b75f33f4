"""Flink's `datagen`: the kernel counts rows at the wanted rate, Spark expressions make values out of the number.

Every value is a hash of (field, row number), so that a replayed batch holds the same rows, and so does the next run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tidemill import types as t
from tidemill.plan import nodes
from tidemill.spark.expressions import column_name
from tidemill.spark.types import spark_ddl
from tidemill.tables.builtin import DatagenTable, Random, Sequence

AT_ONCE = 1_000_000_000
"""A rate that does not hold anything up."""


def datagen_spec(
    table: str,
    rows_per_second: int,
    number_of_rows: int | None,
    partitions: int | None,
    channel: str | None = None,
) -> str:
    """`channel`: under which it tells that its rows are over, where somebody waits for them."""
    return json.dumps(
        {
            "table": table,
            "rowsPerSecond": rows_per_second,
            "numberOfRows": number_of_rows,
            "partitions": partitions or 1,
            "channel": channel,
        }
    )


def read_datagen(spark: SparkSession, scan: nodes.Scan, channel: str | None = None) -> DataFrame:
    """`channel`: the name under which its tasks tell their event time; None if nobody asks."""
    connector = scan.table.connector
    assert isinstance(connector, DatagenTable)
    spec = datagen_spec(
        scan.table.name,
        connector.rows_per_second,
        connector.total_rows,
        connector.scan_parallelism,
        channel,
    )
    rows = spark.readStream.format("tidemill-datagen").option("spec", spec).load()
    made = {field.name: field for field in connector.fields}
    columns = [
        f.expr(_expression(made[name])).alias(column_name(i)) for i, name in enumerate(scan.names)
    ]
    return rows.select(*columns) if columns else rows


def _expression(field: Random | Sequence) -> str:
    if isinstance(field, Sequence):
        return f"CAST(CAST(id + {field.start} AS STRING) AS {spark_ddl(field.type)})"
    return _random(field, "id")


def _random(field: Random, row: str) -> str:
    """A value of the field for a row; `row` is text that differs from row to row and element to element."""
    value = f"CAST({_value(field, row)} AS {spark_ddl(field.type)})"
    if field.null_rate <= 0:
        return value
    return f"if({_uniform(field, row, 'null')} < {field.null_rate!r}, NULL, {value})"


def _hash(field: Random, row: str, salt: str = "") -> str:
    name = (field.name + "/" + salt).replace("'", "''").replace("\\", "\\\\")
    return f"xxhash64('{name}', {row})"


def _uniform(field: Random, row: str, salt: str = "") -> str:
    """A DOUBLE in [0, 1)."""
    return f"(shiftrightunsigned({_hash(field, row, salt)}, 11) / 9007199254740992.0D)"


def _value(field: Random, row: str) -> str:
    match field.type:
        case t.BooleanType():
            return f"({_hash(field, row)} & 1 = 1)"
        case t.TinyIntType() | t.SmallIntType() | t.IntType() | t.BigIntType():
            return _whole(field, row)
        case t.DecimalType() | t.FloatType() | t.DoubleType():
            low, high = float(field.min or 0), float(field.max or 0)
            # Written as a mix of both ends: their distance can be beyond a DOUBLE.
            share = _uniform(field, row)
            return f"({low!r}D * (1 - {share}) + {high!r}D * {share})"
        case t.CharType() | t.VarCharType():
            return _text(field, row)
        case t.BinaryType() | t.VarBinaryType():
            return f"unhex({_text(field, row, double=True)})"
        case t.TimestampType() | t.TimestampLtzType():
            past = int(field.max_past.total_seconds() * 1000) if field.max_past else 0
            back = f"CAST({_uniform(field, row)} * {past} AS BIGINT)"
            now = "unix_millis(current_timestamp())"
            stamp = f"timestamp_millis({now} - {back})"
            return (
                f"CAST({stamp} AS TIMESTAMP_NTZ)"
                if isinstance(field.type, t.TimestampType)
                else stamp
            )
        case t.DateType():
            return "current_date()"
        case t.TimeType():
            return "current_time()"
        case t.ArrayType() | t.MapType() | t.MultisetType():
            return _collection(field, row)
        case t.RowType():
            parts = []
            for child, declared in zip(field.children, field.type.fields, strict=True):
                name = declared.name.replace("'", "''")
                parts.append(f"'{name}', {_random(child, row)}")
            return f"named_struct({', '.join(parts)})"
    raise TypeError(f"datagen makes no {field.type}")


def _whole(field: Random, row: str) -> str:
    low, high = int(field.min or 0), int(field.max or 0)
    span = high - low + 1
    if span >= 2**63:
        return _hash(field, row)
    # The smallest BIGINT has no literal, hence the text.
    return f"(pmod({_hash(field, row)}, CAST('{span}' AS BIGINT)) + CAST('{low}' AS BIGINT))"


def _text(field: Random, row: str, double: bool = False) -> str:
    """Hexadecimal letters, as Flink's generator gives."""
    length = (field.length or 0) * (2 if double else 1)
    chunks = max(1, -(-length // 64))
    pieces = ", ".join(
        f"sha2(CAST({_hash(field, row, str(i))} AS STRING), 256)" for i in range(chunks)
    )
    count: str = str(length)
    if field.variable_length:
        count = f"CAST(1 + floor({_uniform(field, row, 'length')} * {max(1, length)}) AS INT)"
    return f"left(concat({pieces}), {count})"


def _collection(field: Random, row: str) -> str:
    size = field.length or 0
    rows = [f"concat({row}, '/{i}')" for i in range(size)]

    def elements(child: Random) -> Iterator[str]:
        return (_random(child, r) for r in rows)

    if isinstance(field.type, t.ArrayType):
        return f"array({', '.join(elements(field.children[0]))})"
    if isinstance(field.type, t.MapType):
        keys, values = (f"array({', '.join(elements(c))})" for c in field.children)
    else:
        keys = f"array({', '.join(elements(field.children[0]))})"
        values = f"array({', '.join('1' for _ in rows)})"
    # Equal keys collapse, as in any map.
    entries = f"arrays_zip({keys} AS k, {values} AS v)"
    return (
        f"map_from_entries(aggregate({entries}, filter({entries}, x -> false), (found, x) ->"
        f" if(exists(found, y -> y.k = x.k), found, concat(found, array(x)))))"
    )

"""The kernel's straight way to documents beside the format's own encoder in Python: the same bytes.

FUZZ=n tries n times as many rows.
"""

from __future__ import annotations

import json as plain_json
import os
import random
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from json_cases import cases, type_of, value_of
from pyspark.sql import DataFrame, SparkSession
from test_json_encode import column_of, encode

from tidemill import types as t
from tidemill.spark.arrow import map_in_arrow
from tidemill.spark.constraints import Constraints
from tidemill.spark.java import java_class
from tidemill.spark.kernel_encode import straight_way
from tidemill.spark.sink import Encode, Encoding
from tidemill.spark.types import spark_schema

pytestmark = pytest.mark.spark

ROWS = 2000 * (int(os.environ.get("FUZZ", "0")) or 1)


def way_of(
    fields: Sequence[t.Field], options: Mapping[str, object], format_: str = "json"
) -> dict[str, Any] | None:
    columns = tuple(f"c{i}" for i in range(len(fields)))
    value = Encoding(format_, options, tuple(fields), columns)
    return straight_way(Encode("t", value, None, (), Constraints("t", ()), False, False))


def kernel_encode(
    spark: SparkSession,
    fields: Sequence[t.Field],
    columns: Sequence[Any],
    options: Mapping[str, object],
) -> list[str]:
    way = way_of(fields, options)
    assert way is not None
    names = [f"c{i}" for i in range(len(fields))]
    batch = pa.RecordBatch.from_arrays(list(columns), names=names)

    def give(_: Iterator[Any]) -> Iterator[Any]:
        yield batch

    schema = spark_schema([t.Field(name, f.type) for name, f in zip(names, fields, strict=True)])
    rows = map_in_arrow(spark.range(1, numPartitions=1), give, schema)
    documents = java_class(spark, "io.tidemill.encode.Documents")
    made = DataFrame(documents.encode(rows._jdf, plain_json.dumps(way)), spark)
    return [bytes(row.value).decode() for row in made.collect()]


def has_straight_way(type_: t.SqlType) -> bool:
    return way_of([t.Field("f", type_)], {}) is not None


def test_each_value_of_the_data_file(spark: SparkSession) -> None:
    groups: dict[str, list[tuple[Mapping[str, object], str]]] = {}
    for _, options, line in cases("json_encode.txt"):
        groups.setdefault(repr(options), []).append((options, line))
    tried = 0
    for of_options in groups.values():
        options = of_options[0][0]
        fields, columns, expected = [], [], []
        for _, line in of_options:
            type_text, rest = line.split(" | ", 1)
            value_text, text = rest.rsplit(" | ", 1)
            type_ = type_of(type_text)
            if has_straight_way(type_):
                name = f"f{len(fields)}"
                fields.append(t.Field(name, type_))
                columns.append(column_of([value_of(value_text), None], type_))
                expected.append(f'"{name}":{text}')
        if options.get("encode.ignore-null-fields"):
            nothing = "{}"
            expected = [e for e in expected if not e.endswith(":null")]
        else:
            nothing = "{" + ",".join(f'"{f.name}":null' for f in fields) + "}"
        found = kernel_encode(spark, fields, columns, options)
        assert found == ["{" + ",".join(expected) + "}", nothing]
        assert found == encode(fields, columns, options)
        tried += len(fields)
    assert tried > 80


# ---- any values ------------------------------------------------------------------------------------------

_CHARACTERS = [
    "a",
    "Z",
    "0",
    '"',
    "\\",
    "/",
    "\b",
    "\x00",
    "\x1f",
    "\x7f",
    "\n",
    "é",
    "日",
    "😀",
    "\uffff",
    " ",
]
_INNER = (t.Field("a", t.INT), t.Field('b"c', t.STRING))


def _text(dice: random.Random) -> str:
    return "".join(dice.choices(_CHARACTERS, k=dice.choice([0, 1, 3, 20])))


def _double(dice: random.Random) -> float:
    (bits,) = struct.unpack("<d", dice.randbytes(8))
    return dice.choice([bits, float(dice.randrange(-(10**6), 10**6)) / 4, 0.0, -0.0, dice.random()])


def _float(dice: random.Random) -> float:
    (bits,) = struct.unpack("<f", dice.randbytes(4))
    return dice.choice([bits, dice.randrange(1000) / 8])


def _integer(bits: int) -> Callable[[random.Random], int]:
    return lambda dice: dice.randrange(-(2 ** (bits - 1)), 2 ** (bits - 1)) >> dice.randrange(bits)


def _decimal(precision: int, scale: int) -> Callable[[random.Random], Decimal]:
    def draw(dice: random.Random) -> Decimal:
        digits = dice.randrange(10 ** dice.randrange(1, precision + 1)) // 10 ** dice.randrange(4)
        zeros = 10 ** dice.randrange(3)
        value = digits * zeros if digits * zeros < 10**precision else digits
        return Decimal(dice.choice([1, -1]) * value).scaleb(-scale)

    return draw


_DAY = 86_400_000_000
_FIELDS: list[tuple[t.SqlType, Callable[[random.Random], object]]] = [
    (t.BOOLEAN, lambda dice: dice.random() < 0.5),
    (t.TinyIntType(), _integer(8)),
    (t.SmallIntType(), _integer(16)),
    (t.INT, _integer(32)),
    (t.BIGINT, _integer(64)),
    (t.FloatType(), _float),
    (t.DOUBLE, _double),
    (t.STRING, _text),
    (t.DecimalType(precision=10, scale=2), _decimal(10, 2)),
    (t.DecimalType(precision=38, scale=18), _decimal(38, 18)),
    (t.DecimalType(precision=20, scale=0), _decimal(20, 0)),
    (t.VarBinaryType(length=2**31 - 1), lambda dice: dice.randbytes(dice.randrange(6))),
    (t.DateType(), lambda dice: dice.choice([dice.randrange(-800_000, 3_000_000), 0, -1])),
    (t.TimeType(precision=3), lambda dice: dice.randrange(86_400_000) * 1_000_000),
    (
        t.TimestampType(precision=6),
        lambda dice: dice.choice([1, 10, 1000, 10**6, _DAY]) * dice.randrange(-(10**6), 10**6),
    ),
    (t.TimestampLtzType(precision=3), lambda dice: dice.randrange(-(10**14), 10**15) * 1000),
    (t.RowType(fields=_INNER), lambda dice: {"a": dice.choice([None, 5]), 'b"c': _text(dice)}),
    (
        t.ArrayType(element=t.STRING),
        lambda dice: [dice.choice([None, _text(dice)]) for _ in range(dice.randrange(4))],
    ),
]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"timestamp-format.standard": "ISO-8601", "encode.ignore-null-fields": True},
        {"encode.decimal-as-plain-number": True},
    ],
    ids=["as it is", "ISO-8601 without nulls", "plain decimals"],
)
def test_any_rows_are_the_same_bytes(spark: SparkSession, options: dict[str, object]) -> None:
    dice = random.Random(7)
    fields = [t.Field(f"f{i}", type_) for i, (type_, _) in enumerate(_FIELDS)]
    columns = [
        column_of([None if dice.random() < 0.1 else draw(dice) for _ in range(ROWS)], type_)
        for type_, draw in _FIELDS
    ]
    found = kernel_encode(spark, fields, columns, options)
    for ours, expected in zip(found, encode(fields, columns, options), strict=True):
        assert ours == expected


@pytest.mark.parametrize("type_", ["MAP<STRING, INT>", "ARRAY<MAP<STRING, INT>>"])
def test_what_only_python_writes_has_no_straight_way(type_: str) -> None:
    assert not has_straight_way(type_of(type_))
    assert way_of([t.Field("f", t.INT)], {}, "csv") is None

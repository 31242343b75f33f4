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
from json_cases import cases, column_of, type_of, value_of
from pyspark.sql import DataFrame, SparkSession

from tidemill import types as t
from tidemill.changelog import KIND_COLUMN
from tidemill.formats import format_module
from tidemill.spark.arrow import map_in_arrow
from tidemill.spark.constraints import Constraints
from tidemill.spark.java import java_class
from tidemill.spark.kernel_encode import straight_way
from tidemill.spark.sink import Encode, Encoding
from tidemill.spark.types import spark_schema

pytestmark = pytest.mark.spark

ROWS = 2000 * (int(os.environ.get("FUZZ", "0")) or 1)


def way_of(
    fields: Sequence[t.Field],
    options: Mapping[str, object],
    format_: str = "json",
    tells: bool = False,
) -> dict[str, Any] | None:
    columns = tuple(f"c{i}" for i in range(len(fields)))
    value = Encoding(format_, options, tuple(fields), columns)
    return straight_way(Encode("t", value, None, (), Constraints("t", ()), False, tells))


def kernel_encode(
    spark: SparkSession,
    fields: Sequence[t.Field],
    columns: Sequence[Any],
    options: Mapping[str, object],
    format_: str = "json",
    kinds: Any = None,
) -> list[bytes | None]:
    way = way_of(fields, options, format_, kinds is not None)
    assert way is not None
    named = {f"c{i}": column for i, column in enumerate(columns)}
    schema = spark_schema([t.Field(name, f.type) for name, f in zip(named, fields, strict=True)])
    if kinds is not None:
        named[KIND_COLUMN] = kinds
        schema = schema.add(KIND_COLUMN, "byte", False)
    batch = pa.RecordBatch.from_arrays(list(named.values()), names=list(named))

    def give(_: Iterator[Any]) -> Iterator[Any]:
        yield batch

    rows = map_in_arrow(spark.range(1, numPartitions=1), give, schema)
    documents = java_class(spark, "io.tidemill.encode.Documents")
    made = DataFrame(documents.encode(rows._jdf, plain_json.dumps(way)), spark)
    return [None if row.value is None else bytes(row.value) for row in made.collect()]


def python_encode(
    fields: Sequence[t.Field],
    columns: Sequence[Any],
    options: Mapping[str, object],
    format_: str,
    *kinds: Any,
) -> list[bytes | None]:
    encoder = format_module(format_).encoder(fields, options)
    return encoder.encode(columns, *kinds).to_pylist()  # type: ignore[no-any-return]


def has_straight_way(type_: t.SqlType) -> bool:
    return way_of([t.Field("f", type_)], {}) is not None


def grouped(
    data: str,
) -> Iterator[tuple[Mapping[str, object], list[tuple[t.Field, Any, str]]]]:
    """The cases of a data file by their options: a field, its value and its text each."""
    groups: dict[str, list[tuple[Mapping[str, object], str]]] = {}
    for _, options, line in cases(data):
        groups.setdefault(repr(options), []).append((options, line))
    for of_options in groups.values():
        found = []
        for _, line in of_options:
            type_text, rest = line.split(" | ", 1)
            value_text, text = rest.rsplit(" | ", 1)
            type_ = type_of(type_text)
            if has_straight_way(type_):
                found.append((t.Field(f"f{len(found)}", type_), value_of(value_text), text))
        yield of_options[0][0], found


def test_each_value_of_the_data_file_of_json(spark: SparkSession) -> None:
    tried = 0
    for options, found in grouped("json_encode.txt"):
        fields = [field for field, _, _ in found]
        columns = [column_of([value, None], field.type) for field, value, _ in found]
        expected = [f'"{field.name}":{text}' for field, _, text in found]
        if options.get("encode.ignore-null-fields"):
            nothing = "{}"
            expected = [e for e in expected if not e.endswith(":null")]
        else:
            nothing = "{" + ",".join(f'"{f.name}":null' for f in fields) + "}"
        documents = kernel_encode(spark, fields, columns, options)
        assert documents == [("{" + ",".join(expected) + "}").encode(), nothing.encode()]
        assert documents == python_encode(fields, columns, options, "json")
        tried += len(fields)
    assert tried > 80


def test_each_value_of_the_data_file_of_csv(spark: SparkSession) -> None:
    tried = 0
    for options, found in grouped("csv_encode.txt"):
        fields = [field for field, _, _ in found]
        columns = [column_of([value, None], field.type) for field, value, _ in found]
        delimiter = str(options.get("field-delimiter", ","))
        line = delimiter.join(text for _, _, text in found).replace("␊", "\n")
        nothing = delimiter.join([str(options.get("null-literal", ""))] * len(found))
        lines = kernel_encode(spark, fields, columns, options, "csv")
        assert lines == [line.encode(), nothing.encode()]
        tried += len(fields)
    assert tried > 50


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
_MAPS: list[tuple[t.SqlType, Callable[[random.Random], object]]] = [
    (
        t.MapType(key=t.STRING, value=t.DOUBLE),
        lambda dice: _entries(dice, lambda: dice.choice([None, _double(dice)])),
    ),
    (
        t.MapType(key=t.STRING, value=t.RowType(fields=_INNER)),
        lambda dice: _entries(dice, lambda: {"a": dice.choice([None, 5]), 'b"c': _text(dice)}),
    ),
    (t.MultisetType(element=t.STRING), lambda dice: _entries(dice, lambda: dice.randrange(9))),
]


def _entries(dice: random.Random, value: Callable[[], object]) -> list[tuple[str, object]]:
    return list({_text(dice): value() for _ in range(dice.randrange(4))}.items())


WAYS: dict[str, tuple[str, dict[str, object]]] = {
    "json": ("json", {}),
    "json, ISO-8601 without nulls": (
        "json",
        {"timestamp-format.standard": "ISO-8601", "encode.ignore-null-fields": True},
    ),
    "json, plain decimals": ("json", {"encode.decimal-as-plain-number": True}),
    "debezium-json": ("debezium-json", {}),
    "debezium-json without nulls": ("debezium-json", {"encode.ignore-null-fields": True}),
    "ogg-json": ("ogg-json", {}),
    "canal-json": ("canal-json", {"timestamp-format.standard": "ISO-8601"}),
    "maxwell-json": ("maxwell-json", {"encode.decimal-as-plain-number": True}),
    "csv": ("csv", {}),
    "csv with NULL and semicolons": ("csv", {"null-literal": "n/a", "field-delimiter": ";"}),
    "csv with tabs and other quotes": ("csv", {"field-delimiter": "\t", "quote-character": "'"}),
    "csv with an escape": ("csv", {"escape-character": "\\"}),
    "csv whose escape is its quote": ("csv", {"escape-character": '"'}),
    "csv without quotes": ("csv", {"disable-quote-character": True, "escape-character": "^"}),
    "csv with exponents": ("csv", {"write-bigdecimal-in-scientific-notation": True}),
    "csv with other elements": ("csv", {"array-element-delimiter": "é|"}),
}


@pytest.mark.parametrize("way", WAYS)
def test_any_rows_are_the_same_bytes(spark: SparkSession, way: str) -> None:
    format_, options = WAYS[way]
    dice = random.Random(7) if "FUZZ" not in os.environ else random.Random()
    made = _FIELDS if format_ == "csv" else _FIELDS + _MAPS
    fields = [t.Field(f"f{i}", type_) for i, (type_, _) in enumerate(made)]
    columns = [
        column_of([None if dice.random() < 0.1 else draw(dice) for _ in range(ROWS)], type_)
        for type_, draw in made
    ]
    found = kernel_encode(spark, fields, columns, options, format_)
    assert found == python_encode(fields, columns, options, format_)
    if format_.endswith("-json"):
        kinds = pa.array([dice.randrange(4) for _ in range(ROWS)], pa.int8())
        told = kernel_encode(spark, fields, columns, options, format_, kinds)
        assert told == python_encode(fields, columns, options, format_, kinds)
        assert told != found


@pytest.mark.parametrize("order", ["big-endian", "little-endian"])
@pytest.mark.parametrize("end", [None, "\n", "é|"])
def test_any_raw_values_are_the_same_bytes(
    spark: SparkSession, order: str, end: str | None
) -> None:
    dice = random.Random(7)
    options = {"endianness": order, "line-delimiter": end}
    for type_, draw in _FIELDS:
        if not isinstance(type_, RAW):
            continue
        values = [None if dice.random() < 0.1 else draw(dice) for _ in range(100)]
        field, column = t.Field("f", type_), column_of(values, type_)
        found = kernel_encode(spark, [field], [column], options, "raw")
        assert found == python_encode([field], [column], options, "raw")


RAW = (
    t.BooleanType,
    t.TinyIntType,
    t.SmallIntType,
    t.IntType,
    t.BigIntType,
    t.FloatType,
    t.DoubleType,
    t.VarCharType,
    t.VarBinaryType,
)


def test_what_only_python_writes_has_no_straight_way() -> None:
    assert way_of([t.Field("f", t.INT)], {}, "avro") is None
    assert way_of([t.Field("f", t.INT)], {"field-delimiter": "é"}, "csv") is None
    assert way_of([t.Field("f", t.STRING)], {"charset": "UTF-16"}, "raw") is None


def test_a_column_that_must_be_there_and_is_not_written_has_no_straight_way() -> None:
    """As one that only says which directory a line goes to."""
    value = Encoding("json", {}, (t.Field("v", t.INT),), ("c0",))
    needed = Constraints("t", (("c1", t.Field("day", t.VarCharType(length=3, nullable=False))),))
    assert straight_way(Encode("t", value, None, (), needed, False, False)) is None

"""The kernel's straight way through documents beside the formats' own decoders in Python: where the kernel gives rows,
they are those that Python gives; of plain documents it is sure.

Documents are made of odd and plain parts, and then damaged byte by byte. FUZZ=n tries n times as many.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import random
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from tidemill import types as t
from tidemill.formats import format_module
from tidemill.formats.json_exact import entry_types
from tidemill.spark.java import java_class
from tidemill.spark.kernel_decode import straight_way
from tidemill.spark.source import Decode, Side

pytestmark = pytest.mark.spark

ROUNDS = 500 * (int(os.environ.get("FUZZ", "0")) or 1)

JSON_FIELDS = (
    t.Field("id", t.BIGINT),
    t.Field("name", t.STRING),
    t.Field("price", t.DOUBLE),
    t.Field("small", t.FloatType()),
    t.Field("yes", t.BOOLEAN),
    t.Field("n", t.INT),
    t.Field("tiny", t.TinyIntType()),
    t.Field("cost", t.DecimalType(precision=10, scale=2)),
    t.Field("long", t.DecimalType(precision=30, scale=4)),
    t.Field("day", t.DateType()),
    t.Field("at", t.TimestampType(precision=3)),
    t.Field("fine", t.TimestampType(precision=6)),
    t.Field("zoned", t.TimestampLtzType(precision=3)),
    t.Field(
        "inner",
        t.RowType(fields=(t.Field("a", t.INT), t.Field("b", t.STRING), t.Field("id", t.BIGINT))),
    ),
)
LISTS = (
    t.Field("id", t.BIGINT),
    t.Field(
        "mixed",
        t.RowType(
            fields=(
                t.Field("a", t.STRING),
                t.Field("b", t.STRING),
                t.Field("c", t.INT),
                t.Field("d", t.DecimalType(precision=30, scale=4)),
            )
        ),
    ),
    t.Field("tags", t.ArrayType(element=t.STRING)),
    t.Field("numbers", t.ArrayType(element=t.INT)),
    t.Field("marks", t.ArrayType(element=t.BOOLEAN)),
    t.Field("costs", t.ArrayType(element=t.DecimalType(precision=30, scale=4))),
    t.Field(
        "rows",
        t.ArrayType(element=t.RowType(fields=(t.Field("a", t.INT), t.Field("b", t.STRING)))),
    ),
    t.Field("grid", t.ArrayType(element=t.ArrayType(element=t.BIGINT))),
)
MAPS = (
    t.Field("id", t.BIGINT),
    t.Field("words", t.MapType(key=t.STRING, value=t.STRING)),
    t.Field("counts", t.MapType(key=t.CharType(length=3), value=t.INT.not_null)),
    t.Field("bag", t.MultisetType(element=t.STRING)),
    t.Field("rates", t.MapType(key=t.STRING, value=t.DecimalType(precision=30, scale=4))),
    t.Field(
        "nested",
        t.MapType(
            key=t.STRING,
            value=t.RowType(
                fields=(
                    t.Field("a", t.INT),
                    t.Field("b", t.MapType(key=t.STRING, value=t.ArrayType(element=t.BIGINT))),
                )
            ),
        ),
    ),
    t.Field("list", t.ArrayType(element=t.MapType(key=t.STRING, value=t.BOOLEAN))),
)
FLAT = tuple(f for f in JSON_FIELDS if f.name != "inner")
AVRO_FIELDS = (
    t.Field("id", t.BigIntType(nullable=False)),
    t.Field("name", t.STRING),
    t.Field("price", t.DOUBLE),
    t.Field("small", t.FloatType()),
    t.Field("yes", t.BOOLEAN),
    t.Field("n", t.INT),
    t.Field("day", t.DateType()),
    t.Field("at", t.TimestampType(precision=3)),
    t.Field("last", t.VarCharType(length=2**31 - 1, nullable=False)),
)
RAW_NUMBERS: dict[t.SqlType, int] = {
    t.BOOLEAN: 1,
    t.TinyIntType(): 1,
    t.SmallIntType(): 2,
    t.INT: 4,
    t.BIGINT: 8,
    t.FloatType(): 4,
    t.DOUBLE: 8,
}
SHORT = (t.Field("short", t.SmallIntType()), t.Field("code", t.CharType(length=3)))
WIDE, WIDE_FLAT = (*JSON_FIELDS, *SHORT), (*FLAT, *SHORT)
WIDE_AVRO = (*AVRO_FIELDS, t.Field("tiny", t.TinyIntType()), SHORT[0])


# ---- the kernel's side -----------------------------------------------------------------------------------


class Kernel:
    """A decoder of the kernel; `read` gives the rows of a document, or None where it is not sure. `read_all` reads one
    after the other: what the decoder learns from one it uses for the next.

    `as_key`: of the side that a record's key is read with, beside a value of which nothing is wanted. `keys`: the
    primary key's columns.
    """

    def __init__(
        self,
        spark: Any,
        reader: Any,
        side: Side,
        kinds: bool,
        as_key: bool = False,
        keys: tuple[int, ...] = (),
    ) -> None:
        order = tuple(range(len(side.wanted)))
        value, key = (Side("json", {}, (), (), ""), side) if as_key else (side, None)
        decode = Decode(
            "t", "t", value, key, (), order, kinds, None, lambda name, number: None, keys=keys
        )
        way = straight_way(decode, "", lambda: "")
        assert way is not None
        loader = java_class(spark, "java.lang.Thread").currentThread().getContextClassLoader()
        spec = loader.loadClass("io.tidemill.decode.Decoder$Spec")
        mapper = java_class(spark, "com.fasterxml.jackson.databind.ObjectMapper")()
        self._decoder = java_class(spark, "io.tidemill.decode.Decoder").of(
            mapper.readValue(json.dumps(way["key" if as_key else "value"]), spec)
        )
        self._reader = reader
        self._width = len(order) + kinds
        types = {f.name: f.type for f in side.fields}
        self._types = [types[name] for name in side.wanted] + [t.TinyIntType()] * kinds

    def read(self, document: bytes) -> list[list[Any]] | None:
        return self.read_all([document])[0]

    def read_all(self, documents: Sequence[bytes]) -> list[list[list[Any]] | None]:
        given = b"".join(struct.pack(">i", len(document)) + document for document in documents)
        found = io.BytesIO(self._reader.read(self._decoder, self._width, bytearray(given)))
        return [self._rows(found) for _ in documents]

    def _rows(self, found: io.BytesIO) -> list[list[Any]] | None:
        (number,) = struct.unpack(">b", found.read(1))
        if number < 0:
            return None
        lengths = (struct.unpack(">i", found.read(4))[0] for _ in range(number))
        return [unpacked(found.read(length), self._types) for length in lengths]


def unpacked(row: bytes, types: Sequence[t.SqlType]) -> list[Any]:
    """The values in an UnsafeRow: a bit for each NULL, eight bytes for each value, then what is longer."""
    start = (len(types) + 63) // 64 * 8
    values: list[Any] = []
    for i, type_ in enumerate(types):
        if row[i // 8] >> i % 8 & 1:
            values.append(None)
            continue
        word = row[start + 8 * i : start + 8 * i + 8]
        (whole,) = struct.unpack("<q", word)
        part = row[whole >> 32 :][: whole & 0xFFFFFFFF]
        match type_:
            case t.BooleanType():
                values.append(bool(word[0]))
            case t.DoubleType():
                values.append(bits(struct.unpack("<d", word)[0]))
            case t.FloatType():
                values.append(bits(struct.unpack("<f", word[:4])[0]))
            case t.TinyIntType():
                values.append(struct.unpack("<b", word[:1])[0])
            case t.SmallIntType():
                values.append(struct.unpack("<h", word[:2])[0])
            case t.IntType() | t.DateType():
                values.append(struct.unpack("<i", word[:4])[0])
            case t.DecimalType(precision=precision, scale=scale):
                unscaled = whole if precision <= 18 else int.from_bytes(part, "big", signed=True)
                values.append(Decimal(unscaled).scaleb(-scale))
            case t.CharType() | t.VarCharType():
                values.append(part.decode())
            case t.VarBinaryType():
                values.append(part)
            case t.RowType(fields=fields):
                values.append(unpacked(part, [f.type for f in fields]))
            case t.ArrayType(element=element):
                values.append(elements(part, element))
            case t.MapType() | t.MultisetType():
                key, value = entry_types(type_)
                (size,) = struct.unpack("<q", part[:8])
                keys = elements(part[8 : 8 + size], key)
                values.append(list(zip(keys, elements(part[8 + size :], value), strict=True)))
            case _:
                values.append(whole)
    return values


def elements(array: bytes, type_: t.SqlType) -> list[Any]:
    """Of an UnsafeArrayData: their number, a bit for each NULL, their places, then what is longer."""
    (number,) = struct.unpack("<q", array[:8])
    start = 8 + (number + 63) // 64 * 8
    size = SIZES.get(type(type_), 8)
    values = []
    for i in range(number):
        if array[8 + i // 8] >> i % 8 & 1:
            values.append(None)
            continue
        # As the only value of a row, whose longer part is what the array has.
        word = array[start + size * i :][:size].ljust(8, b"\0")
        if size == 8 and not isinstance(type_, FIXED):
            (whole,) = struct.unpack("<q", word)
            part = array[whole >> 32 :][: whole & 0xFFFFFFFF]
            word = struct.pack("<q", 16 << 32 | len(part)) + part
        values += unpacked(bytes(8) + word, [type_])
    return values


SIZES = {
    t.BooleanType: 1,
    t.TinyIntType: 1,
    t.SmallIntType: 2,
    t.IntType: 4,
    t.DateType: 4,
    t.FloatType: 4,
}
FIXED = (t.BigIntType, t.DoubleType, t.TimestampType, t.TimestampLtzType)


def bits(number: float) -> str:
    """Tells 0.0 from -0.0."""
    return number.hex()


# ---- Python's side ---------------------------------------------------------------------------------------


def python_rows(
    decoder: Any, document: bytes, types: Sequence[t.SqlType]
) -> list[list[Any]] | None:
    decoded = decoder.decode(pa.array([document], pa.binary()))
    if decoded.bad:
        return None
    columns = [*decoded.columns, *([] if decoded.kinds is None else [decoded.kinds])]
    rows = zip(*(plain_values(c, x) for c, x in zip(columns, types, strict=True)), strict=True)
    return [list(row) for row in rows]


def plain_values(column: Any, type_: t.SqlType) -> list[Any]:
    match type_:
        case t.DoubleType() | t.FloatType():
            return [None if v is None else bits(v) for v in column.to_pylist()]
        case t.DateType():
            return column.cast(pa.int32()).to_pylist()
        case t.TimestampType() | t.TimestampLtzType():
            return column.cast(pa.int64()).to_pylist()
        case t.RowType(fields=fields):
            parts = [plain_values(column.field(i), f.type) for i, f in enumerate(fields)]
            rows = [list(row) for row in zip(*parts, strict=True)]
            return [
                row if valid else None
                for row, valid in zip(rows, column.is_valid().to_pylist(), strict=True)
            ]
        case t.ArrayType(element=element):
            return [
                plain_values(value.values, element) if value.is_valid else None for value in column
            ]
        case t.MapType() | t.MultisetType():
            key, value = entry_types(type_)
            return [
                list(zip(plain_values(keys, key), plain_values(items, value), strict=True))
                if entries.is_valid
                else None
                for entries, (keys, items) in zip(column, map(_entries, column), strict=True)
            ]
    return column.to_pylist()


def _entries(entries: Any) -> tuple[Any, Any]:
    """Keys and values of one map; none of one that is NULL."""
    inside = entries.values
    return ((), ()) if inside is None else (inside.field(0), inside.field(1))


# ---- documents -------------------------------------------------------------------------------------------

STRANGE = [
    "0", "-0", "1", "-1", "7", "127", "128", "-128", "-129", "2147483647", "2147483648", "9223372036854775807",
    "9223372036854775808", "-9223372036854775808", "123456789012345678901234567890", "0.0", "-0.0", "1.5", "0.1",
    "1e3", "1E-3", "1e400", "1e-400", "2.2250738585072014e-308", "3.4028236e38", "16777217", "0.30000000000000004",
    "1.00000005960464477539062500001", "1e-40",
    "9007199254740993", "1.005", "12345678.91", "123456789.12", "99999999.995", "01", "1.", ".5", "+1", "1e", "--1",
    "true", "false", "null", "nul", "True", "[]", "{}", '""', '"x"', '"1"', '"1.5"', '"true"', '"\\u0041\\n\\""',
    '"\\ud83d\\ude00"', '"\\ud83d"', '"\\udc00x"', '"\\x"', '"é😀"', '"\t"', '"' + "y" * 40 + '"', '"a\\/b\\\\"',
    '"2024-02-29"', '"2023-02-29"', '"2024-2-9"', '"2024-02-29 12:34:56"', '"2024-02-29 12:34:56.1"',
    '"2024-02-29 12:34:56.123456789"', '"2024-02-29 12:34:56.123456"', '"2024-02-29T12:34:56"', '"2024-02-29 24:00:00"',
    '"2024-02-29 12:34:56Z"', '"2024-02-29 12:34:56.5Z"', '"1969-12-31 23:59:59.999999"', '"0001-01-01 00:00:00"',
    '"2024-02-29 12:34"', '"2024-02-29 12:34:56."', '"0000-01-01"', '"9999-12-31"', '{"a":null}', '{"a":1,"b":2,"a":3}',
    '{"a":"b","\\u0061":"c"}',
]  # fmt: skip

PLAIN: dict[str, list[str]] = {
    "id": ["1", "-5", "12345678901234567", "9223372036854775807", "null"],
    "name": ['"a"', '"é"', '""', '"with \\"quotes\\" and \\u00e9"', "null", '"' + "z" * 30 + '"'],
    "price": ["1.5", "0.1", "3", "-2.25", "1e10", "123456.789", "null"],
    "small": ["1.5", "0.1", "16777216", "null"],
    "yes": ["true", "false", "null"],
    "n": ["0", "7", "-7", "2147483647", "null"],
    "tiny": ["1", "-128", "null"],
    "short": ["1", "-32768", "32767", "null"],
    "code": ['"a"', '"abc"', '"abcd"', '""', "null"],
    "cost": ["1", "1.5", "-12.34", "null"],
    "long": ["1", "123456789.1234", "-0.5", "null"],
    "day": ['"2024-02-29"', '"1969-12-31"', "null"],
    "at": ['"2024-02-29 12:34:56"', '"2024-02-29 12:34:56.789"', "null"],
    "fine": ['"2024-02-29 12:34:56.123456"', '"1960-01-01 00:00:00.5"', "null"],
    "zoned": ['"2024-02-29 12:34:56Z"', '"2024-02-29 12:34:56.5Z"', "null"],
    "inner": ['{"a":1,"b":"x","id":2}', "{}", '{ "id" : 3 , "z" : [1, {"y": null}] }', "null"],
    "mixed": [
        '{"b":"x","d":null,"a":"y"}',
        '{"d":1.5,"a":"y"}',
        '{"a":"y","b":"x","c":1}',
        "{}",
        "null",
    ],
    "tags": ['["a","b"]', "[]", '[ "é" , null ]', '["\\u0041"]', "null"],
    "numbers": ["[1,2,3]", "[null]", "[-1]", "null"],
    "marks": ["[true,false]", "[null,true,false,true]", "null"],
    "costs": ["[1.5]", "[null,123456789.1234]", "null"],
    "rows": ['[{"b":"x","a":1},{"a":2}]', "[null,{}]", "[]", "null"],
    "grid": ["[[1,2],[],null,[3]]", "[]", "null"],
    "words": [
        '{"a":"b","c":null}',
        "{}",
        '{ "é" : "\\u0041" , "\\u00e9" : "x" }',
        "{" + ",".join(f'"key{i}":"{i}"' for i in range(40)) + "}",
        "null",
    ],
    "counts": ['{"a":1,"abcd":-2}', '{"é":0}', "{}", "null"],
    "bag": ['{"a":1,"b":2}', "{}", "null"],
    "rates": ['{"a":1.5,"b":null}', '{"b":123456789.1234}', "null"],
    "nested": [
        '{"x":{"b":{"y":[1,null],"z":null},"a":1},"w":null}',
        '{"x":{"a":2}}',
        '{"x":{"b":{}}}',
        "null",
    ],
    "list": ['[{"a":true},{"b":false,"c":null},null,{}]', "[]", "null"],
}


def objects(dice: random.Random, names: Sequence[str], odd: float, texts: bool = False) -> str:
    """`texts`: numbers and booleans are mostly written as texts."""
    members = []
    for name in dice.sample(names, dice.randint(0, len(names))):
        strange = dice.random() < odd
        value = dice.choice(STRANGE if strange else PLAIN[name])
        if texts and value[0] not in '"{[n' and dice.random() < 0.8:
            value = f'"{value}"'
        members.append((name, value))
    if dice.random() < 0.3:
        members.insert(dice.randint(0, len(members)), ("else", dice.choice(STRANGE)))
    if members and dice.random() < odd / 4:
        members.append(members[0])
    blank = dice.choice(["", "", " ", "\n\t"])
    return "{" + ",".join(f'{blank}"{n}"{blank}:{blank}{v}{blank}' for n, v in members) + "}"


def damaged(dice: random.Random, document: bytes) -> bytes:
    places = bytearray(document)
    for _ in range(dice.choice([0, 0, 1, 2])):
        at = dice.randint(0, len(places))
        what = dice.randrange(3)
        if what == 0 or at == len(places):
            places[at:at] = bytes([dice.choice(b'"\\{}[],:0-.eE\x00\x80\xc3\xed \n')])
        elif what == 1:
            del places[at]
        else:
            places[at] = dice.randrange(256)
    return bytes(places)


def json_documents(dice: random.Random, fields: Sequence[t.Field] = JSON_FIELDS) -> Iterator[bytes]:
    names = [f.name for f in fields]
    while True:
        document = objects(dice, names, dice.choice([0, 0, 0.2, 1])).encode("utf-8")
        yield damaged(dice, document) if dice.random() < 0.5 else document


Documents = Callable[[random.Random], Iterator[bytes]]


def iso(documents: Documents) -> Documents:
    """The same with a T between a day and its time."""

    def with_t(dice: random.Random) -> Iterator[bytes]:
        return (re.sub(rb"(-\d\d) (\d\d:)", rb"\1T\2", d) for d in documents(dice))

    return with_t


def envelopes(
    word: str,
    words: Sequence[str],
    payload: bool,
    fields: Sequence[t.Field] = FLAT,
    names_of_sides: tuple[str, str] = ("before", "after"),
    several: bool = False,
    texts: bool = False,
) -> Documents:
    def documents(dice: random.Random) -> Iterator[bytes]:
        names = [f.name for f in fields]
        while True:
            odd = dice.choice([0, 0, 0.1])
            rows = [objects(dice, names, odd, texts) for _ in range(2)]
            if several:
                rows = [f"[{row}]" for row in rows]
                if dice.random() < odd:
                    rows[dice.randrange(2)] = dice.choice(["[]", "{}", "[null]", "[{},{}]"])
            sides = [dice.choice([row] * 6 + ["null"]) for row in rows]
            members = list(zip(names_of_sides, sides, strict=True))
            members.append((word, json.dumps(dice.choice(words))))
            members.append(("source", '{"table":"t"}'))
            dice.shuffle(members)
            document = "{" + ",".join(f'"{n}":{v}' for n, v in members) + "}"
            if payload:
                document = f'{{"schema":{{"x":[]}},"payload":{document}}}'
            encoded = document.encode("utf-8")
            yield damaged(dice, encoded) if dice.random() < 0.3 else encoded

    return documents


def csv_lines(dice: random.Random) -> Iterator[bytes]:
    return lines_of(dice, b",")


def csv_of(delimiter: str = ",", odd: Sequence[str] = ()) -> Documents:
    """`odd`: what is put in the place of a text, now and then; {} is the text."""
    return lambda dice: lines_of(dice, delimiter.encode(), odd, WIDE_FLAT)


def lines_of(
    dice: random.Random,
    delimiter: bytes,
    forms: Sequence[str] = (),
    fields: Sequence[t.Field] = FLAT,
) -> Iterator[bytes]:
    while True:
        odd = dice.choice([0, 0, 0.1])
        parts = []
        for field in fields:
            value = dice.choice(STRANGE if dice.random() < odd else PLAIN[field.name])
            text = (
                json.loads(value)
                if value.startswith('"') and "\\x" not in value and "\t" not in value
                else value
            )
            if forms and dice.random() < 0.05:
                text = dice.choice(forms).format(text)
            parts.append(("NULL" if text == "null" else text).encode("utf-8", "replace"))
        line = delimiter.join(parts)
        yield damaged(dice, line) if dice.random() < 0.3 else line


LAST = 2**63 // 1000 * 1000
"""The last millisecond of a timestamp."""


def avro_records(dice: random.Random, fields: Sequence[t.Field] = AVRO_FIELDS) -> Iterator[bytes]:
    encoder = format_module("avro").encoder(fields, {})
    choices: list[tuple[Any, list[Any]]] = [
        (pa.int64(), [0, 1, -1, 2**62, -(2**63), 2**63 - 1, 300]),
        (pa.string(), [None, "", "a", "é😀", "x" * 70]),
        (pa.float64(), [None, 0.0, -0.0, 1.5, float("inf")]),
        (pa.float32(), [None, 0.5, -1.25]),
        (pa.bool_(), [None, True, False]),
        (pa.int32(), [None, 0, -1, 2**31 - 1, -(2**31)]),
        (pa.date32(), [None, 0, -1, 19000]),
        (pa.timestamp("us"), [None, 0, -1000, 1_700_000_000_000_000, LAST, -LAST]),
        (pa.string(), ["", "last"]),
    ]
    choices += [(pa.int8(), [None, 0, -1, 127, -128]), (pa.int16(), [None, 0, 32767, -32768])]
    while True:
        chosen = choices[: len(fields)]
        columns = [pa.array([dice.choice(values)], type_) for type_, values in chosen]
        record = encoder.encode(columns)[0].as_py()
        yield damaged(dice, record) if dice.random() < 0.4 else record


def raw_records(dice: random.Random, width: int | None = None) -> Iterator[bytes]:
    """Texts, or numbers that mostly have the right length."""
    while True:
        if width is None:
            text = dice.choice(["", "a", "é", "日本", "😀", "plain " * 5, "\0", "\ufeffx"]).encode()
            yield damaged(dice, text)
        else:
            yield dice.randbytes(width if dice.random() < 0.7 else dice.randrange(10))


ISO = {"timestamp-format.standard": "ISO-8601"}
NULL = {"null-literal": "NULL"}

CANAL = ["INSERT", "UPDATE", "UPDATE", "UPDATE", "DELETE", "CREATE"]
MAXWELL = ["insert", "update", "update", "update", "delete", "bootstrap-insert"]

CASES: dict[str, tuple[str, tuple[t.Field, ...], dict[str, Any], Any]] = {
    "json": ("json", JSON_FIELDS, {}, json_documents),
    "json, some columns": ("json", JSON_FIELDS, {"wanted": ("inner", "id", "cost")}, json_documents),
    "json with arrays": ("json", LISTS, {}, partial(json_documents, fields=LISTS)),
    "json with maps": ("json", MAPS, {}, partial(json_documents, fields=MAPS)),
    "maxwell-json with maps": (
        "maxwell-json", MAPS, {}, envelopes("type", MAXWELL, False, MAPS, ("old", "data")),
    ),
    "canal-json with arrays": (
        "canal-json", LISTS, {},
        envelopes("type", CANAL, False, LISTS, ("old", "data"), several=True, texts=True),
    ),
    "debezium-json": ("debezium-json", FLAT, {}, envelopes("op", "crudx", False)),
    "debezium-json in a payload": (
        "debezium-json", FLAT, {"schema-include": True}, envelopes("op", "crud", True),
    ),
    "ogg-json": ("ogg-json", FLAT, {}, envelopes("op_type", "IUDT", False)),
    "canal-json": (
        "canal-json", WIDE, {},
        envelopes("type", CANAL, False, WIDE, ("old", "data"), several=True, texts=True),
    ),
    "maxwell-json": (
        "maxwell-json", WIDE, {}, envelopes("type", MAXWELL, False, WIDE, ("old", "data")),
    ),
    "csv": ("csv", FLAT, {"null-literal": "NULL"}, csv_lines),
    "csv, some columns": (
        "csv", FLAT, {"null-literal": "NULL", "wanted": ("name", "id", "cost")}, csv_lines,
    ),
    "json, ISO-8601, as key": (
        "json", WIDE, {**ISO, "as_key": True}, iso(partial(json_documents, fields=WIDE)),
    ),
    "debezium-json with rows inside": (
        "debezium-json", WIDE, {}, envelopes("op", "crud", False, WIDE),
    ),
    "debezium-json, ISO-8601": ("debezium-json", FLAT, ISO, iso(envelopes("op", "crud", False))),
    "ogg-json with rows inside": (
        "ogg-json", JSON_FIELDS, {}, envelopes("op_type", "IUD", False, JSON_FIELDS),
    ),
    "csv with semicolons": (
        "csv", WIDE_FLAT, {**NULL, "field-delimiter": ";"}, csv_of(";", [",", '"{};"']),
    ),
    "csv with tabs, as key": (
        "csv", WIDE_FLAT, {**NULL, "field-delimiter": "\t", "as_key": True}, csv_of("\t", ["", " {} "]),
    ),
    "csv with other quotes": (
        "csv", WIDE_FLAT, {**NULL, "quote-character": "'"}, csv_of(odd=["'{}'", "'{}"]),
    ),
    "csv without quotes": (
        "csv", WIDE_FLAT, {**NULL, "disable-quote-character": True}, csv_of(odd=['"{}"', '"{}']),
    ),
    "csv with an escape": (
        "csv", WIDE_FLAT, {**NULL, "escape-character": "\\"}, csv_of(odd=["\\{}", "{}\\,", '"\\"{}"']),
    ),
    "csv, empty is NULL": (
        "csv", WIDE_FLAT, {**NULL, "empty-string-as-null": True}, csv_of(odd=["", '""']),
    ),
    "avro": ("avro", AVRO_FIELDS, {}, avro_records),
    "avro, as key": (
        "avro", WIDE_AVRO, {"as_key": True}, partial(avro_records, fields=WIDE_AVRO),
    ),
    "avro, some columns": ("avro", AVRO_FIELDS, {"wanted": ("last", "n")}, avro_records),
    "raw texts": ("raw", (t.Field("v", t.STRING),), {}, raw_records),
    "raw texts, as key": ("raw", (t.Field("v", t.STRING),), {"as_key": True}, raw_records),
    **{
        f"raw {type_}, {order}": (
            "raw", (t.Field("v", type_),), {"endianness": order}, partial(raw_records, width=width),
        )
        for type_, width in RAW_NUMBERS.items() for order in ("big-endian", "little-endian")
    },
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_where_the_kernel_is_sure_it_is_right(spark: Any, reader: Any, case: str) -> None:
    name, fields, options, documents = CASES[case]
    dice = random.Random(case) if "FUZZ" not in os.environ else random.Random()
    options = dict(options)
    wanted = options.pop("wanted", tuple(f.name for f in fields))
    as_key = options.pop("as_key", False)
    kinds = name.endswith("-json")
    side = Side(name, options, fields, wanted, f"{name}.")
    kernel = Kernel(spark, reader, side, kinds, as_key)
    decoder = format_module(name).decoder(fields, options, wanted)
    sure = 0
    tried = list(itertools.islice(documents(dice), ROUNDS))
    for document, found in zip(tried, kernel.read_all(tried), strict=True):
        if found is not None:
            sure += 1
            assert found == python_rows(decoder, document, kernel._types), document
    assert ROUNDS / 5 < sure < ROUNDS


# What the kernel has learned from a document must not make it blind for the next one.
IN_TURN: dict[str, list[bytes]] = {
    "json": [
        b'{"id":1,"name":"a","price":1.5,"day":"2024-02-29","inner":{"a":1,"b":"x"}}',
        b' { "n" : 7 , "x" : [ null ] , "yes" : true } ',
    ],
    "debezium-json": [b'{"before":{"id":1},"after":{"id":2,"name":"x"},"op":"u"}'],
    "ogg-json": [b'{"after":{"id":2,"n":3},"op_type":"I"}'],
    "canal-json": [b'{"data":[{"id":"2","name":"x"}],"old":[{"id":"1"}],"type":"UPDATE"}'],
    "maxwell-json": [b'{"data":{"id":2,"n":3},"old":{"n":null},"type":"update"}'],
    "csv": [b"1,a,1.5,2.5,true,7,1,1.25,3,2024-02-29,2024-02-29 12:00:00,NULL,NULL"],
    "avro": [
        bytes.fromhex("02" + "00" * 7 + "026c"),
        bytes.fromhex("02" + "020261" + "00" + "00" + "0201" + "0206" + "00" + "0202" + "026c"),
        # Numbers with idle bytes: five are an int, six are none.
        bytes.fromhex("82808000" + "00" * 4 + "028680808000" + "00" * 2 + "026c"),
        bytes.fromhex("82808000" + "00" * 4 + "02868080808000" + "00" * 2 + "026c"),
        bytes.fromhex("82808000" + "00" * 4 + "82808080800006" + "00" * 2 + "026c"),
    ],
}


@pytest.mark.parametrize("name", IN_TURN)
def test_each_byte_in_turn_may_be_another(spark: Any, reader: Any, name: str) -> None:
    _, fields, options, _ = CASES[name]
    wanted = tuple(f.name for f in fields)
    side = Side(name, options, fields, wanted, "")
    kernel = Kernel(spark, reader, side, name.endswith("-json"))
    decoder = format_module(name).decoder(fields, options, wanted)
    assert kernel.read(IN_TURN[name][0]) is not None
    for document in IN_TURN[name]:
        right = python_rows(decoder, document, kernel._types)
        changed = [
            document[:at] + bytes([other]) + document[at + 1 :]
            for at in range(len(document))
            for other in b'"x?\\{}],:0\x00\x80 '
        ]
        found = kernel.read_all([each for pair in changed for each in (document, pair)])
        assert all(rows in (None, right) for rows in found[::2])
        for each, rows in zip(changed, found[1::2], strict=True):
            if rows is not None:
                assert rows == python_rows(decoder, each, kernel._types), each


PLAIN_DOCUMENTS = {
    "json": [
        b'{"id":1,"name":"a","price":1.5,"inner":{"a":1}}',
        b' { "name" : "\\u00e9\\n" , "unknown" : [1, {"x": "\\""}], "id" : -9223372036854775808 } ',
        b"{}",
    ],
    "debezium-json": [
        b'{"before":null,"after":{"id":1},"op":"c","source":{"ts_ms":1}}',
        b'{"op":"u","before":{"id":1},"after":{"id":2,"name":"x"}}',
        b'{"before":{"id":1},"after":null,"op":"d"}',
    ],
    "debezium-json with rows inside": [
        b'{"before":null,"after":{"id":1,"inner":{"a":1,"b":"x","id":2},"short":2,"code":"abc"},"op":"c"}',
    ],
    "ogg-json": [
        b'{"op_type":"I","after":{"id":1,"name":"x"},"pos":"1"}',
        b'{"op_type":"U","before":{"id":1},"after":{"id":2,"name":"x"},"table":"t"}',
        b'{"before":{"id":1},"op_type":"D"}',
    ],
    "canal-json": [
        b'{"data":[{"id":"1","price":"1.5","yes":"true","cost":"3.14"}],"old":null,"type":"INSERT"}',
        b'{"data":[{"id":"1","name":"b"}],"es":1,"mysqlType":{"id":"int"},"old":[{"name":"a"}],"type":"UPDATE"}',
        b'{"type":"DELETE","old":null,"data":[{"id":1}]}',
    ],
    "maxwell-json": [
        b'{"database":"d","type":"insert","ts":1,"data":{"id":1,"long":123.4567}}',
        b'{"type":"update","old":{},"data":{"id":1,"inner":{"a":1,"b":"x"},"long":1.5,"name":"n"}}',
        b'{"type":"delete","data":{"id":1}}',
    ],
    "debezium-json, ISO-8601": [
        b'{"op":"c","after":{"at":"2024-02-29T12:00:00.123","zoned":"2024-02-29T12:00:00Z"}}'
    ],
    "csv": [b"1,a,1.5,2.5,true,7,1,1.25,3,2024-02-29,2024-02-29 12:00:00,NULL,NULL"],
    "csv with semicolons": [b"1;a;1.5;2.5;true;7;1;1.25;3;2024-02-29;NULL;NULL;NULL;2;abc"],
    "csv, empty is NULL": [b"1,,1.5,2.5,true,7,1,1.25,3,2024-02-29,NULL,NULL,NULL,2,"],
    "avro": [
        bytes.fromhex("02" + "020278" + "00" * 3 + "020e" + "00" * 2 + "0278"),
        bytes.fromhex("00" * 9),
    ],
    "json with arrays": [
        b'{"tags":["a",null,"b"],"numbers":[1,-2],"marks":[true],"rows":[{"a":1,"b":"x"}],"grid":[[1],[]]}',
        b'{"mixed":{"d":123456789.25,"b":"x","a":"y"},"costs":[ 1.5 , null ] , "tags" : [ ] }',
    ],
    "json with maps": [
        b'{"words":{"a":"b","c":null,"\\u00e9":""},"counts":{"a":1},"bag":{"x":2},"rates":{"a":1.25}}',
        b'{"nested":{"x":{"a":1,"b":{"y":[1,null]}},"z":null},"list":[{"a":true},{}]}',
        ('{"words":{' + ",".join(f'"k{i}":"v"' for i in range(50)) + "}}").encode(),
    ],
    "raw texts": ["é".encode(), b""],
    "raw INT, big-endian": [bytes(4)],
}


@pytest.mark.parametrize("name", PLAIN_DOCUMENTS)
def test_the_kernel_is_sure_of_plain_documents(spark: Any, reader: Any, name: str) -> None:
    format_name, fields, options, _ = CASES[name]
    wanted = tuple(f.name for f in fields)
    side = Side(format_name, options, fields, wanted, "")
    kernel = Kernel(spark, reader, side, format_name.endswith("-json"))
    assert [d for d in PLAIN_DOCUMENTS[name] if kernel.read(d) is None] == []


@pytest.mark.parametrize("type_", [t.BINARY_TYPES[0](length=4), t.VarBinaryType(length=2**31 - 1)])
def test_raw_bytes_are_as_they_are(spark: Any, reader: Any, type_: t.SqlType) -> None:
    side = Side("raw", {}, (t.Field("v", type_),), ("v",), "")
    kernel = Kernel(spark, reader, side, False)
    kernel._types = [t.VarBinaryType(length=2**31 - 1)]
    documents = [b"", b"\xff\x00x", b"four", bytes(100)]
    assert kernel.read_all(documents) == [[[d]] for d in documents]


def test_equal_rows_inside_have_equal_bytes(spark: Any, reader: Any) -> None:
    """Spark compares rows inside, as keys and as values, by their bytes."""
    side = Side("json", {}, LISTS, ("mixed", "rows"), "")
    kernel = Kernel(spark, reader, side, False)
    kernel._types = [t.VarBinaryType(length=2**31 - 1)] * 2
    documents = [
        b'{"mixed":{"a":"y","b":"x","c":null,"d":null},"rows":[{"a":1,"b":"x"},null]}',
        b'{"rows":[{"b":"x","a":1},null],"mixed":{"b":"x","a":"y"}}',
        b'{"mixed":{"d":null,"b":"x","a":"y"},"rows":[{"b":"x","a":1},null]}',
        b'{"mixed":{"z":[1],"b":"x","d":null,"a":"y"},"rows":[{"b":"\\u0078","a":1},null]}',
    ]
    found = kernel.read_all(documents)
    assert all(rows == found[0] for rows in found)
    assert found[0] != kernel.read_all([b'{"mixed":{"a":"x","b":"y"}}'])[0]


KEYS: dict[str, tuple[t.SqlType, tuple[str, ...]]] = {
    "INT": (t.INT, ("1", "2", "null")),
    "BOOLEAN": (t.BOOLEAN, ("true", "false", "null")),
    "STRING": (t.STRING, ('"a"', '"b"', '"ab"', '""', "null")),
    "DECIMAL(10, 2)": (t.DecimalType(precision=10, scale=2), ("1.00", "1.01")),
    "DECIMAL(30, 2)": (t.DecimalType(precision=30, scale=2), ("1.00", "1.01")),
    "ROW": (t.RowType(fields=(t.Field("a", t.STRING),)), ('{"a": "x"}', '{"a": "y"}')),
}


@pytest.mark.parametrize("name", KEYS)
def test_an_update_that_changes_the_key_is_for_python(spark: Any, reader: Any, name: str) -> None:
    """Which counts it. One of another column is not, nor is an insert or a delete."""
    type_, values = KEYS[name]
    fields = (t.Field("v", t.STRING), t.Field("k", type_))
    side = Side("debezium-json", {}, fields, ("v", "k"), "")
    kernel = Kernel(spark, reader, side, True, keys=(1,))

    def read(old: str, now: str, word: str = "u") -> bool:
        sides = f'"before": {{"v": "x", "k": {old}}}, "after": {{"v": "longer", "k": {now}}}'
        return kernel.read(f'{{{sides}, "op": "{word}"}}'.encode()) is not None

    sure = {(old, now) for old in values for now in values if read(old, now)}
    assert sure == {(value, value) for value in values}
    assert read(values[0], values[1], "c") and read(values[0], values[1], "d")


@pytest.mark.parametrize("delimiter", ["\0", "\r", "\n"])
def test_lines_whose_delimiter_may_end_them_are_for_python(delimiter: str) -> None:
    side = Side("csv", {"field-delimiter": delimiter}, FLAT[:2], ("id", "name"), "csv.")
    decode = Decode("t", "t", side, None, (), (0, 1), False, None, lambda name, number: None)
    assert straight_way(decode, "", lambda: "") is None

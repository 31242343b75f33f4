"""Whatever a record holds, a decoder answers: with rows, with a BadRecord that can be shown, or with a counted loss."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from json_cases import type_of

from tidemill import types as t
from tidemill.formats import format_module

SCALARS = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10, 2)", "DECIMAL(38, 18)", "STRING",
    "BYTES", "DATE", "TIME", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP_LTZ(3)", "ARRAY<DECIMAL(10, 2)>",
    "ROW<a STRING>",
)  # fmt: skip
TYPES = (*SCALARS, "ARRAY<ARRAY<STRING>>", "MAP<STRING, INT>", "MAP<STRING, STRING>")

# Exponents beyond what Java, Python and Arrow each take; more digits than Python makes a number of; half characters.
EXPONENTS = [
    f"{digits}{e}{sign}{size}"
    for digits in ("1", "0", "-1.5")
    for e in "eE"
    for sign in ("", "-")
    for size in ("309", "5000", "999999999", "2147483648", "999999999999999999", "9" * 20)
]
NUMBERS = [
    *EXPONENTS,
    "9" * 5000,
    "-" + "9" * 5000,
    "0." + "9" * 5000,
    "-0",
    "1" + "0" * 400 + ".5",
]
TEXTS = [
    *NUMBERS, "", " ", "٣", "+1.5", "0x1p99999", "NaN", "Infinity", "\ud800", "a\udc00b", "\x00", "=", "AAA=", "é",
    "+999999999-01-01", "-999999999-12-31 00:00:00", "0000-00-00", "9999-99-99 99:99:99", "24:00:00", "99:99:99",
    "2020-01-01T00:00:00Z",
]  # fmt: skip
DOCUMENTS = [
    *NUMBERS, *(json.dumps(text) for text in TEXTS), "null", "true", "[]", "{}", '{"a":1}', '{"a":"\\ud800"}',
    '{"\\ud800":"x"}', '{"\\ud800":1e999}', f"[{'9' * 5000}]", f'{{"a":{"9" * 5000},"b":1e400}}', "[1e400]",
    "[[1, null], null]", "[" * 2000 + "]" * 2000, '{"a":' * 2000 + "1" + "}" * 2000,
]  # fmt: skip


def plain(value: str) -> bytes:
    return f'{{"f":{value}}}'.encode()


def change(word: str, op: str, rows: Callable[[str], str]) -> Callable[[str], bytes]:
    return lambda value: f"""{{{rows(plain(value).decode())},"{word}":"{op}"}}""".encode()


def before_after(row: str) -> str:
    return f'"before":{row},"after":{row}'


def data_old(row: str) -> str:
    return f'"data":{row},"old":{row}'


JSON_FORMATS: dict[str, tuple[str, dict[str, object], Callable[[str], bytes]]] = {
    "json": ("json", {}, plain),
    "json by tree": ("json", {"decode.json-parser.enabled": False}, plain),
    "json, errors ignored": ("json", {"ignore-parse-errors": True}, plain),
    "json in an array": ("json", {}, lambda value: b"[" + plain(value) + b"]"),
    "debezium-json": ("debezium-json", {}, change("op", "u", before_after)),
    "ogg-json": ("ogg-json", {}, change("op_type", "U", before_after)),
    "maxwell-json": ("maxwell-json", {}, change("type", "update", data_old)),
    "canal-json": (
        "canal-json", {}, change("type", "UPDATE", lambda row: f'"data":[{row}],"old":[{row}]')
    ),
    "avro": ("avro", {"encoding": "json"}, plain),
}  # fmt: skip


def decoder_of(name: str, options: dict[str, object], type_: t.SqlType) -> Any:
    return format_module(name).decoder((t.Field("f", type_),), options)


def check(name: str, options: dict[str, object], type_: t.SqlType, records: list[bytes]) -> None:
    decoder = decoder_of(name, options, type_)
    alone = [decoder.decode(pa.array([record], pa.binary())) for record in records]
    together = decoder.decode(pa.array(records, pa.binary()))
    for bad in [bad for decoded in (*alone, together) for bad in decoded.bad]:
        f"{bad.field}: {bad.reason}".encode()
    assert sum(len(decoded.bad) for decoded in alone) == len(together.bad)
    assert sum(len(d.columns[0]) for d in alone) == len(together.columns[0])


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("case", JSON_FORMATS)
def test_no_document_raises(case, type_):
    name, options, document = JSON_FORMATS[case]
    found = type_of(type_)
    check(name, options, found.not_null if name == "avro" else found, [*map(document, DOCUMENTS)])


@pytest.mark.parametrize("case", JSON_FORMATS)
def test_no_other_document_raises(case):
    name, options, _ = JSON_FORMATS[case]
    documents = [*DOCUMENTS, '{"f', "{", "\x00", "[1]", '[{"f":1},2]']
    check(name, options, t.STRING, [document.encode() for document in documents])


@pytest.mark.parametrize("type_", SCALARS)
def test_no_line_raises(type_):
    lines = [text.encode("utf-8", "surrogatepass") for text in TEXTS]
    longer, lenient = [line + b",more" for line in lines], {"ignore-parse-errors": True}
    check("csv", {}, type_of(type_), lines)
    check("csv", lenient, type_of(type_), longer)
    # A line alone takes a millisecond: these only come together.
    for options, others in (({}, longer), (lenient, lines)):
        decoder_of("csv", options, type_of(type_)).decode(pa.array(others, pa.binary()))


_json_values = st.recursive(
    st.sampled_from(DOCUMENTS) | st.text(st.characters(), max_size=5).map(json.dumps),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{','.join(items)}]")
        | st.dictionaries(st.sampled_from(['"a"', '"\\ud800"']), inner, max_size=2).map(
            lambda members: "{" + ",".join(f"{k}:{v}" for k, v in members.items()) + "}"
        )
    ),
    max_leaves=4,
)


@pytest.mark.parametrize("case", JSON_FORMATS)
@settings(max_examples=60, deadline=None)
@given(st.sampled_from(TYPES), st.lists(_json_values, min_size=1, max_size=3), st.data())
def test_no_mixture_raises(case, type_, values, data):
    name, options, document = JSON_FORMATS[case]
    records = [bytearray(document(value)) for value in values]
    broken = data.draw(st.sampled_from(records))
    broken[data.draw(st.integers(0, min(len(broken), 60) - 1))] = data.draw(st.integers(0, 255))
    check(name, options, type_of(type_), [bytes(record) for record in records])


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(["avro", "csv", "raw"]), st.sampled_from(SCALARS), st.binary(max_size=40))
def test_no_bytes_raise(name, type_, record):
    if name == "raw" and type_ not in (*SCALARS[1:7], "STRING", "BYTES"):
        return
    decoder_of(name, {}, type_of(type_)).decode(pa.array([record], pa.binary()))

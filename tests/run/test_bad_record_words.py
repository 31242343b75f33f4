"""What is said of a record that cannot be read: which part of it, and what would help. No Spark runs for it."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from tidemill import types as t
from tidemill.formats import format_module
from tidemill.spark.faults import RecordFault
from tidemill.spark.source import Decode, Side
from tidemill.tables.kafka import BadRecords

TIMESTAMP, LTZ = t.TimestampType(precision=3), t.TimestampLtzType(precision=3)
ISO = {"timestamp-format.standard": "ISO-8601"}


def side(name: str, type_: t.SqlType, options: dict[str, Any] | None = None) -> Side:
    options = {**format_module(name).DEFAULTS, **(options or {})}
    return Side(name, options, (t.Field("f", type_),), ("f",), f"{name}.")


def fault(
    value: Side, document: str, key: Side | None = None, key_document: str = ""
) -> RecordFault:
    order = tuple(range(1 + (key is not None)))
    decode = Decode("t", "topic", value, key, (), order, False, None, lambda name, number: None)
    with pytest.raises(RecordFault) as caught:
        list(decode._decode(iter([record(document, key_document)])))
    return caught.value


def said(found: RecordFault) -> dict[str, str]:
    return json.loads(str(found).removeprefix("TIDEMILL"))


def record(value: str, key: str) -> pa.RecordBatch:
    columns: dict[str, pa.Array] = {
        "key": pa.array([key.encode()], pa.binary()),
        "value": pa.array([value.encode()], pa.binary()),
        "partition": pa.array([0], pa.int32()),
        "offset": pa.array([7], pa.int64()),
        "timestamp": pa.array([0], pa.timestamp("us")),
        "header_list": pa.array(
            [[]], pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
        ),
    }
    return pa.RecordBatch.from_pydict(columns)


# ---- what would help -------------------------------------------------------------------------------------

HINTS = [
    ("json", TIMESTAMP, {}, "2020-01-01T00:00:00", "'json.timestamp-format.standard' = 'ISO-8601' reads"),
    ("json", TIMESTAMP, {}, "2020-01-01T00:00:00Z", "TIMESTAMP_LTZ is the type of times with a 'Z', and 'json.time"),
    ("json", TIMESTAMP, {}, "2020-01-01 00:00:00Z", "TIMESTAMP_LTZ is the type of times with a 'Z'; '"),
    ("json", TIMESTAMP, ISO, "2020-01-01T00:00:00Z", "TIMESTAMP_LTZ is the type of times with a 'Z'; '"),
    ("json", TIMESTAMP, ISO, "2020-01-01 00:00:00", "'json.timestamp-format.standard' = 'SQL' reads times with a sp"),
    ("json", LTZ, {}, "2020-01-01 00:00:00", "TIMESTAMP is the type of times without a 'Z'; '"),
    ("json", LTZ, {}, "2020-01-01T00:00:00.5Z", "'json.timestamp-format.standard' = 'ISO-8601' reads"),
    ("json", LTZ, ISO, "2020-01-01T00:00:00", "TIMESTAMP is the type of times without a 'Z'; '"),
    ("json", TIMESTAMP, {}, "2020-01-01T00:00:00+01:00", "'scan.bad-records' = 'skip'"),
    ("csv", TIMESTAMP, {}, "2020-01-01T00:00:00", "STRING and make a time of it: TO_TIMESTAMP(f, 'yyyy-MM-dd''T''HH"),
    ("csv", LTZ, {}, "2020-01-01T00:00:00Z", "STRING and make a time of it: TO_TIMESTAMP_LTZ(f, 'yyyy-MM-dd''T''HH"),
    ("csv", TIMESTAMP, {}, "1700000000000", "TO_TIMESTAMP_LTZ(f, 3)"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "type_", "options", "text", "hint"), HINTS)
def test_a_time_in_another_form_has_a_hint_that_helps(name, type_, options, text, hint):
    document = text if name == "csv" else f'{{"f": "{text}"}}'
    found = said(fault(side(name, type_, options), document))["hint"]
    assert hint in found
    assert "timestamp-format" not in found or name != "csv"


# ---- which part ------------------------------------------------------------------------------------------


def test_a_record_of_a_value_alone_is_called_a_record():
    found = said(fault(side("json", t.INT), "]"))["message"]
    assert found.startswith("a record cannot be read as json: table 't', topic 'topic'")


@pytest.mark.parametrize(
    ("key", "value", "part"), [("]", '{"f":1}', "key"), ('{"f":1}', "]", "value")]
)
def test_where_keys_are_read_it_is_said_which_part_is_bad(key, value, part):
    both = side("json", t.INT), side("json", t.BIGINT)
    message = said(fault(both[0], value, both[1], key))["message"]
    assert message.startswith(f"a record's {part} cannot be read as json: ")


def test_a_dead_letter_says_of_both_parts_what_is_wrong():
    sides = side("json", t.INT), side("csv", t.INT)
    letters = BadRecords.DEAD_LETTER
    decode = Decode("t", "x", *sides, (), (0, 1), False, letters, lambda name, number: None)
    [letter, _] = decode._decode(iter([record('{"f":"\\ud800"}', "x")]))
    headers = {h["key"]: h["value"] for h in letter.column("_bad")[0].as_py()["headers"]}
    assert headers["tidemill.error"].decode() == (
        "its key cannot be read as csv, field 'f': expected an integer from -2147483648 to 2147483647 but found 'x'; "
        "its value cannot be read as json, field 'f': expected an integer from -2147483648 to 2147483647 but found '?'"
    )

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.broker.records import Record, format_line, parse_line
from tidemill.errors import UsageError


def parse(text: str, plain: bool = False) -> Record:
    return parse_line(text.encode(), 7, plain)


VALUES = [
    # the JSON of a value, the bytes written
    ('"text"', b"text"),
    ('"\\u4e16\\n"', "世\n".encode()),
    ('""', b""),
    ("null", None),
    ("5", b"5"),
    ("1.10", b"1.10"),
    ("12345678901234567890.123456789", b"12345678901234567890.123456789"),
    ("true", b"true"),
    ('{ "b" : 1.0,\t"a" : [ 1, "x y" ], "b": 2 }', b'{"b":1.0,"a":[1,"x y"],"b":2}'),
    ('["\\" , ", 1 ]', b'["\\" , ",1]'),
    ("[]", b"[]"),
    ('{"base64": "/wA="}', b"\xff\x00"),
    ('{"base64": 1}', b'{"base64":1}'),
    ('{"base64": "eA==", "more": 1}', b'{"base64":"eA==","more":1}'),
]


@pytest.mark.parametrize(("text", "written"), VALUES)
def test_value_and_key_become_bytes(text: str, written: bytes | None) -> None:
    record = parse(f' {{"key" : {text} , "value" :{text}}} ')
    assert (record.key, record.value) == (written, written)


PLAIN = [
    "hello",
    "5",
    '"quoted"',
    "[1, 2]",
    '{"a": 1}',
    "{}",
    '{"key": "k"}',
    '{"value": 1, "other": 2}',
    '{"value": }',
    '{"value": NaN}',
    '{"value": 1} trailing',
    "{" * 3000,
    '{"value":' + "[" * 5000,
    '  {"a": 1}  ',
]


@pytest.mark.parametrize("line", PLAIN)
def test_line_that_is_no_envelope_is_the_value_itself(line: str) -> None:
    assert parse(line) == Record(line.encode())


def test_plain_takes_an_envelope_as_a_value() -> None:
    line = '{"key": "k", "value": "v"}'
    assert parse(line, plain=True) == Record(line.encode())


def test_bytes_that_are_not_utf8_are_a_value() -> None:
    assert parse_line(b'{"value": "\xff"}', 1) == Record(b'{"value": "\xff"}')


def test_members_of_an_envelope() -> None:
    record = parse(
        '{"value": null, "partition": 3, "timestamp": 1700000000000, "topic": "t", "offset": 9,'
        ' "headers": {"a": "x", "n": null, "i": 1.0, "b": {"base64": "/w=="}}}'
    )
    assert record == Record(
        value=None,
        headers=(("a", b"x"), ("n", None), ("i", b"1.0"), ("b", b"\xff")),
        partition=3,
        timestamp_ms=1700000000000,
    )


def test_headers_as_pairs_keep_repeated_names() -> None:
    record = parse('{"value": "v", "headers": [["a", "1"], ["a", null]]}')
    assert record.headers == (("a", b"1"), ("a", None))


@pytest.mark.parametrize(
    ("members", "what"),
    [
        ('"partition": "1"', "its partition is not a partition number"),
        ('"partition": -1', "its partition is not a partition number"),
        ('"partition": 5000000000', "its partition is not a partition number"),
        ('"timestamp": 1.5', "its timestamp is not a number of milliseconds since 1970"),
        ('"timestamp": 0', "its timestamp is not a number of milliseconds since 1970"),
        ('"timestamp": true', "its timestamp is not a number of milliseconds since 1970"),
        ('"headers": "x"', "its headers are neither an object nor a list of pairs"),
        ('"headers": [["a"]]', "its headers are neither an object nor a list of pairs"),
        ('"headers": {"\\ud800": "x"}', "its header has half of a surrogate pair"),
        ('"key": {"base64": "?"}', "its key is not base64"),
        ('"key": "\\ud800"', "its key has half of a surrogate pair"),
    ],
)
def test_malformed_envelope_is_refused_with_its_line(members: str, what: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(f'{{"value": 1, {members}}}')
    assert f"KAFKA-005: line 7 is not a record: {what}" in str(caught.value)


SHOWN = [
    (b"text", '"text"'),
    (b"5", '"5"'),
    (b'"x"', '"\\"x\\""'),
    (b"", '""'),
    (None, "null"),
    ("世界".encode(), '"世界"'),
    (b'{"a":1.10}', '{"a":1.10}'),
    (b'[1,"x y"]', '[1,"x y"]'),
    (b'{"a": 1}', '"{\\"a\\": 1}"'),
    (b'{"a":NaN}', '"{\\"a\\":NaN}"'),
    (b'{"a":', '"{\\"a\\":"'),
    (b'{"base64":"eA=="}', '"{\\"base64\\":\\"eA==\\"}"'),
    (b"\xff\x00", '{"base64":"/wA="}'),
]


@pytest.mark.parametrize(("value", "text"), SHOWN)
def test_value_is_shown_as_json_only_if_it_survives(value: bytes | None, text: str) -> None:
    line = format_line(Record(value, partition=0, timestamp_ms=1))
    assert line == f'{{"key":null,"value":{text},"headers":{{}},"partition":0,"timestamp":1}}'


def test_address_adds_topic_and_offset() -> None:
    record = Record(b"v", topic="t", offset=4, partition=1, timestamp_ms=2)
    assert format_line(record, address=True).endswith(
        '"partition":1,"timestamp":2,"topic":"t","offset":4}'
    )


CONTENTS = (
    st.none()
    | st.binary()
    | st.text(st.characters(codec="utf-8")).map(str.encode)
    | st.sampled_from([value for value, _ in SHOWN])
)


@given(
    st.builds(
        Record,
        value=CONTENTS,
        key=CONTENTS,
        headers=st.lists(
            st.tuples(st.text(st.characters(codec="utf-8"), max_size=3), CONTENTS)
        ).map(tuple),
        partition=st.integers(0, 2**31 - 1),
        timestamp_ms=st.integers(1, 2**63 - 1),
    )
)
def test_every_record_survives_its_line(record: Record) -> None:
    line = format_line(record, address=True)
    assert "\n" not in line
    assert parse_line(line.encode(), 1) == record

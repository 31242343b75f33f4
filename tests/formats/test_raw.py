from __future__ import annotations

import pickle
import struct

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from json_cases import type_of

from tidemill import types as t
from tidemill.errors import ScriptError
from tidemill.formats import BadRecord, Decoded, raw
from tidemill.formats.arrow import arrow_type

LITTLE = {"endianness": "little-endian"}


def decode(type_text, records, options=None, wanted=None) -> Decoded:
    fields = [t.Field("f", type_of(type_text))]
    return raw.decoder(fields, options or {}, wanted).decode(pa.array(records, pa.binary()))


def encode(type_text, values, options=None) -> list[bytes | None]:
    type_ = type_of(type_text)
    column = pa.array([None, *values], arrow_type(type_)).slice(1)
    written = raw.encoder([t.Field("f", type_)], options or {}).encode([column])
    assert written.type == pa.binary()
    return written.to_pylist()


# Type, value, its bytes with the highest first and with the lowest first.
NUMBERS = [
    ("BOOLEAN", True, b"\x01", b"\x01"),
    ("BOOLEAN", False, b"\x00", b"\x00"),
    ("TINYINT", -1, b"\xff", b"\xff"),
    ("SMALLINT", 258, b"\x01\x02", b"\x02\x01"),
    ("INT", 16909060, b"\x01\x02\x03\x04", b"\x04\x03\x02\x01"),
    ("INT", -2, b"\xff\xff\xff\xfe", b"\xfe\xff\xff\xff"),
    ("BIGINT", 2**63 - 1, b"\x7f" + b"\xff" * 7, b"\xff" * 7 + b"\x7f"),
    ("FLOAT", 33.333, struct.pack(">f", 33.333), struct.pack("<f", 33.333)),
    ("DOUBLE", 33.333333, struct.pack(">d", 33.333333), struct.pack("<d", 33.333333)),
]


@pytest.mark.parametrize(("type_text", "value", "big", "little"), NUMBERS)
def test_numbers(type_text, value, big, little):
    for options, data in (({}, big), (LITTLE, little)):
        decoded = decode(type_text, [None, data, data], options)
        [column] = decoded.columns
        assert column.type == arrow_type(type_of(type_text))
        expected = pa.scalar(value, column.type).as_py()
        assert column.to_pylist() == [None, expected, expected]
        assert decoded.records is None
        assert not decoded.bad
        assert encode(type_text, [None, value, value], options) == [None, data, data]


def test_any_byte_but_zero_is_true():
    assert decode("BOOLEAN", [b"\x00", b"\x07", b"\xff"]).columns[0].to_pylist() == [
        False,
        True,
        True,
    ]


def test_a_wrong_length_is_a_bad_record():
    decoded = decode("INT", [b"\0\0\0\1", b"abc", None, b"", b"\0\0\0\2"])
    reason = "Size of data received for deserializing INT type is not 4."
    assert decoded.bad == [BadRecord(1, "f", reason), BadRecord(3, "f", reason)]
    assert decoded.columns[0].to_pylist() == [1, None, 2]
    assert decoded.records.to_pylist() == [0, 2, 4]


@pytest.mark.parametrize(
    ("charset", "text", "data"),
    [
        ("UTF-8", "é€😀", "é€😀".encode()),
        ("utf-8", "", b""),
        ("ISO-8859-1", "é", b"\xe9"),
        ("US-ASCII", "a", b"a"),
        ("UTF-16", "a€", b"\xfe\xff\x00a\x20\xac"),
        ("UTF-16BE", "a€", b"\x00a\x20\xac"),
        ("UTF-16LE", "a€", b"a\x00\xac\x20"),
        ("UTF-32", "a", b"\x00\x00\x00a"),
        ("GBK", "中", b"\xd6\xd0"),
        ("windows-1252", "€", b"\x80"),
    ],
)
def test_charsets(charset, text, data):
    options = {"charset": charset}
    assert encode("STRING", [text, None], options) == [data, None]
    assert decode("STRING", [data, None], options).columns[0].to_pylist() == [text, None]


def test_byte_order_marks_are_understood():
    records = [b"\xff\xfea\x00", b"\xfe\xff\x00a", b"\x00a"]
    assert decode("STRING", records, {"charset": "UTF-16"}).columns[0].to_pylist() == ["a"] * 3


def test_what_a_charset_lacks():
    assert encode("STRING", ["a€"], {"charset": "US-ASCII"}) == [b"a?"]
    assert decode("STRING", [b"a\xff"], {"charset": "US-ASCII"}).columns[0].to_pylist() == [
        "a\ufffd"
    ]
    assert decode("STRING", [b"ok", b"a\xffb"]).columns[0].to_pylist() == ["ok", "a\ufffdb"]


def test_bytes_pass_as_they_are():
    records = [b"\x00\xff", b"", None]
    assert decode("BYTES", records).columns[0].to_pylist() == records
    assert encode("BYTES", records) == records


def test_a_line_delimiter_makes_rows():
    options = {"line-delimiter": "\n"}
    decoded = decode("STRING", [b"a\nb\n", b"", None, b"\n\nc", b"d"], options)
    assert decoded.columns[0].to_pylist() == ["a", "b", "", "", "c", "d"]
    assert decoded.records.to_pylist() == [0, 0, 3, 3, 3, 4]
    assert decoded.dropped == {"null value": 1}
    assert encode("STRING", ["a", None], options) == [b"a\n", None]


def test_a_wrong_part_spoils_its_record():
    decoded = decode("TINYINT", [b"a|b", b"c|dd|e", b"f"], {"line-delimiter": "|"})
    assert decoded.columns[0].to_pylist() == [97, 98, 102]
    assert decoded.records.to_pylist() == [0, 0, 2]
    assert [b.index for b in decoded.bad] == [1]


def test_a_column_that_nobody_wants():
    decoded = decode("INT", [b"\0\0\0\1", b"x"], wanted=[])
    assert decoded.columns == []
    assert [b.index for b in decoded.bad] == [1]


def test_they_travel():
    fields = [t.Field("f", t.INT)]
    decoder = pickle.loads(pickle.dumps(raw.decoder(fields, LITTLE)))
    encoder = pickle.loads(pickle.dumps(raw.encoder(fields, LITTLE)))
    written = encoder.encode([pa.array([7], pa.int32())])
    assert written.to_pylist() == [b"\x07\0\0\0"]
    assert decoder.decode(written).columns[0].to_pylist() == [7]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (["INT", "INT"], "holds a single column, but there are 2: f0, f1"),
        ([], "there are 0: none"),
        (["DATE"], "no representation for the type DATE"),
        (["ARRAY<INT>"], "no representation for the type ARRAY<INT>"),
    ],
)
def test_what_raw_cannot_carry(fields, reason):
    made = [t.Field(f"f{i}", type_of(text)) for i, text in enumerate(fields)]
    for make in (raw.decoder, raw.encoder):
        with pytest.raises(ScriptError, match=reason):
            make(made, {})


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(["TINYINT", "SMALLINT", "INT", "BIGINT", "DOUBLE"]).flatmap(
        lambda name: st.tuples(
            st.just(name),
            st.lists(
                st.none()
                | (
                    st.floats(allow_nan=False)
                    if name == "DOUBLE"
                    else st.integers(*_bounds(name)).map(int)
                )
            ),
        )
    ),
    st.booleans(),
)
def test_numbers_come_back(typed, little):
    name, values = typed
    options = LITTLE if little else {}
    records = encode(name, values, options)
    assert decode(name, records, options).columns[0].to_pylist() == values


def _bounds(name: str) -> tuple[int, int]:
    bits = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}[name]
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

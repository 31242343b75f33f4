"""`avro-confluent` and `debezium-avro-confluent` against `harness.registry`, a registry in this process."""

from __future__ import annotations

import json
import pickle
import socket

import pyarrow as pa
import pytest
from avro_types import batches
from hypothesis import given
from test_avro import PROPERTY, columns_of, same

from harness import registry as harness
from tidemill import types as t
from tidemill.errors import JobError
from tidemill.formats import BadRecord, avro, avro_confluent

AB = (t.Field("a", t.INT), t.Field("b", t.STRING))


@pytest.fixture
def registry():
    with harness.running() as found:
        yield found


def options(registry, **more):
    return {"url": registry.url, "subject": "orders-value", **more}


def decode(fields, records, given_options, wanted=None, module=avro_confluent):
    return module.decoder(fields, given_options, wanted).decode(pa.array(records, pa.binary()))


def encode(fields, rows, given_options) -> list[bytes]:
    return (
        avro_confluent.encoder(fields, given_options).encode(columns_of(fields, rows)).to_pylist()
    )


def numbered(number: int, record: bytes) -> bytes:
    return b"\x00" + number.to_bytes(4, "big") + record


def rows_of(decoded) -> list[tuple]:
    return list(zip(*(c.to_pylist() for c in decoded.columns), strict=True))


def writer_schema(*fields, name="Order") -> str:
    return json.dumps({"type": "record", "name": name, "namespace": "shop", "fields": list(fields)})


# ---- reading and writing ---------------------------------------------------------------------------------


def test_a_process_asks_once_for_each_schema(registry):
    for _ in range(3):
        records = encode(AB, [(1, "x")] * 10, options(registry))
        assert len(rows_of(decode(AB, records, options(registry)))) == 10
    assert registry.requests == ["POST /subjects/orders-value/versions", "GET /schemas/ids/1"]


@PROPERTY
@given(batches())
def test_what_is_written_is_read_again(batch):
    fields, rows = batch
    with harness.running() as registry:
        columns = columns_of(fields, rows)
        records = avro_confluent.encoder(fields, options(registry)).encode(columns)
        decoded = avro_confluent.decoder(fields, options(registry)).decode(records)
        assert not decoded.bad
        assert all(same(x, y) for x, y in zip(decoded.columns, columns, strict=True))


PROMOTIONS = [
    ("int", t.BIGINT, "04", 2),
    ("int", t.DOUBLE, "04", 2.0),
    ("long", t.FloatType(), "04", 2.0),
    ("float", t.DOUBLE, "0000c03f", 1.5),
    ("bytes", t.STRING, "0278", "x"),
    ("string", t.BYTES, "0278", b"x"),
    (["null", "int", "long"], t.BIGINT, "0404", 2),
    (["null", "int", "long"], t.BIGINT, "00", None),
]


@pytest.mark.parametrize(("wrote", "type_", "data", "expected"), PROMOTIONS)
def test_promotions(registry, wrote, type_, data, expected):
    number = registry.register("s", writer_schema({"name": "f", "type": wrote}))
    decoded = decode(
        (t.Field("f", type_),), [numbered(number, bytes.fromhex(data))], options(registry)
    )
    assert rows_of(decoded) == [(expected,)]


MISFITS = [
    ("string", t.INT, "0278", "f", "Found string, expecting union"),
    ("long", t.INT, "02", "f", "Found long, expecting union"),
    ("double", t.FloatType(), "0" * 16, "f", "Found double, expecting union"),
    (["null", "int"], t.INT.not_null, "00", "f", "Found null, expecting int"),
    (
        {"type": "enum", "name": "E", "symbols": ["A"]},
        t.STRING,
        "00",
        "f",
        "Found shop.E, expecting union",
    ),
]


@pytest.mark.parametrize(("wrote", "type_", "data", "path", "reason"), MISFITS)
def test_schemas_that_do_not_go_together_make_records_bad(
    registry, wrote, type_, data, path, reason
):
    number = registry.register("s", writer_schema({"name": "f", "type": wrote}))
    decoded = decode(
        (t.Field("f", type_),), [numbered(number, bytes.fromhex(data))], options(registry)
    )
    assert decoded.bad == [BadRecord(0, path, reason)]


def test_a_union_is_bad_only_where_it_does_not_fit(registry):
    number = registry.register("s", writer_schema({"name": "f", "type": ["null", "int", "string"]}))
    records = [numbered(number, bytes.fromhex(x)) for x in ("00", "0204", "040278")]
    decoded = decode((t.Field("f", t.INT),), records, options(registry))
    assert rows_of(decoded) == [(None,), (2,)]
    assert decoded.bad == [BadRecord(2, "f", "Found string, expecting union")]


def test_bad_records(registry):
    good = encode(AB, [(1, "x")], options(registry))[0]
    other = registry.register("s", writer_schema({"name": "a", "type": "int"}))
    required = (t.Field("a", t.INT), t.Field("z", t.INT.not_null))
    proto = registry.register("p", 'syntax = "proto3";', "PROTOBUF")
    broken = registry.register("q", '{"type":"point"}')
    records = [
        b"{}",
        b"\x00\x00",
        numbered(77, b""),
        good,
        numbered(proto, b""),
        numbered(broken, b""),
        None,
        good + b"!",
    ]
    decoded = decode(AB, records, options(registry))
    assert rows_of(decoded) == [(1, "x")]
    assert decoded.records.to_pylist() == [3]
    assert decoded.dropped == {avro.NULL_VALUE: 1}
    assert [(b.index, b.reason) for b in decoded.bad] == [
        (0, "Unknown data format. Magic number does not match"),
        (1, "the record ends before the number of its schema"),
        (2, f"Could not find schema with id 77 in registry {registry.url}"),
        (4, f"schema {proto} is no Avro schema but PROTOBUF"),
        (5, f"schema {broken} of the registry cannot be read: undefined name: point"),
        (7, "1 byte follows the record"),
    ]
    [bad] = decode(required, [numbered(other, b"\x02")], options(registry)).bad
    assert bad.reason == (
        f"schema {other} does not fit the table: Found shop.Order, expecting"
        " org.apache.flink.avro.generated.record, missing required field z"
    )


def test_recursive_schemas_are_passed_over(registry):
    node = {
        "type": "record",
        "name": "Node",
        "fields": [{"name": "next", "type": ["null", "Node"]}, {"name": "n", "type": "int"}],
    }
    number = registry.register(
        "s", writer_schema({"name": "list", "type": node}, {"name": "a", "type": "int"})
    )
    record = numbered(number, bytes.fromhex("0200" + "02" + "04" + "06"))
    assert rows_of(decode(AB, [record], options(registry))) == [(3, None)]


# ---- the option 'schema' ---------------------------------------------------------------------------------

GIVEN = writer_schema(
    {"name": "a", "type": ["null", "int"], "default": None},
    {
        "name": "b",
        "type": {"type": "enum", "name": "Size", "symbols": ["S", "L"], "default": "S"},
        "default": "L",
    },
    name="Shirt",
)
SHIRTS = (t.Field("a", t.INT), t.Field("b", t.STRING.not_null))


def test_a_given_schema_is_registered_and_used(registry):
    records = encode(SHIRTS, [(1, "L")], options(registry, schema=GIVEN))
    assert registry.schemas == {1: GIVEN}
    assert records == [numbered(1, bytes.fromhex("020202"))]
    assert rows_of(decode(SHIRTS, records, options(registry, schema=GIVEN))) == [(1, "L")]


def test_a_given_schema_may_be_nullable(registry):
    nullable = f'["null", {GIVEN}]'
    records = encode(SHIRTS, [(1, "L")], options(registry, schema=nullable))
    assert records == [numbered(1, bytes.fromhex("02020202"))]
    assert rows_of(decode(SHIRTS, records, options(registry, schema=nullable))) == [(1, "L")]


def test_a_given_schema_tells_defaults(registry):
    old = registry.register("s", writer_schema({"name": "a", "type": "int"}))
    decoded = decode(SHIRTS, [numbered(old, b"\x02")], options(registry, schema=GIVEN))
    assert rows_of(decoded) == [(1, "L")]


def test_a_value_that_is_no_symbol_stops_the_job(registry):
    with pytest.raises(JobError, match="'XL' is no symbol of the enum of field 'b'"):
        encode(SHIRTS, [(1, "XL")], options(registry, schema=GIVEN))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GIVEN, "does not match the table schema"),
        ("{", "is no Avro schema"),
        ('"int"', "does not match the table schema"),
    ],
)
def test_a_given_schema_must_say_the_tables_columns(registry, text, message):
    with pytest.raises(JobError, match=message) as raised:
        avro_confluent.decoder(AB, options(registry, schema=text))
    assert raised.value.diagnostics[0].code == "FMT-010"


# ---- the registry ----------------------------------------------------------------------------------------


def refused(action) -> tuple[str, str]:
    with pytest.raises(JobError) as raised:
        action()
    [found] = raised.value.diagnostics
    return found.code, found.message


def test_a_registry_that_is_not_there():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://name:secret@127.0.0.1:{closed.getsockname()[1]}"
    code, message = refused(lambda: encode(AB, [], {"url": url, "subject": "s"}))
    assert code == "FMT-007"
    assert "Connection refused" in message
    assert "secret" not in message


def test_the_next_url_is_asked_if_one_does_not_answer(registry):
    with harness.running(broken=503) as broken:
        given_options = options(registry, url=f"{broken.url}, {registry.url}/")
        assert len(encode(AB, [(1, "x")], given_options)) == 1
        assert broken.requests
    code, message = refused(lambda: encode((AB[0],), [], given_options | {"url": f"{broken.url}"}))
    assert code == "FMT-007"


def test_an_address_that_is_none():
    assert (
        refused(lambda: encode(AB, [], {"url": "localhost:8081", "subject": "s"}))[0] == "FMT-007"
    )


CREDENTIALS = [
    ({"user_info": "ann:pa:ss"}, {"basic-auth.user-info": "ann:pa:ss"}),
    (
        {"user_info": "ann:pa:ss"},
        {
            "basic-auth.credentials-source": "USER_INFO",
            "properties.*": {"basic.auth.user.info": "ann:pa:ss"},
        },
    ),
    (
        {"token": "t0ken"},
        {"bearer-auth.credentials-source": "STATIC_TOKEN", "bearer-auth.token": "t0ken"},
    ),
]


@pytest.mark.parametrize(("asked", "given_options"), CREDENTIALS)
def test_credentials(asked, given_options):
    with harness.running(**asked) as registry:
        assert encode(AB, [], options(registry, **given_options)) == []
        code, message = refused(
            lambda: encode(AB, [], options(registry, **{"basic-auth.user-info": "ann:wrong"}))
        )
        assert code == "FMT-009"
        assert "wrong" not in message
        assert "subject 'orders-value'" in message


def test_credentials_in_the_url():
    with harness.running(user_info="ann:p@ss") as registry:
        url = registry.url.replace("://", "://ann:p%40ss@")
        assert encode(AB, [], options(registry, url=url)) == []


def test_a_source_of_credentials_that_is_not_known(registry):
    given_options = options(registry, **{"basic-auth.credentials-source": "SASL_INHERIT"})
    assert refused(lambda: encode(AB, [], given_options)) == (
        "FMT-009",
        "the credentials' source 'SASL_INHERIT' is not supported",
    )


def test_a_store_that_cannot_be_read_does_not_tell_its_password(registry, tmp_path):
    given_options = options(
        registry,
        **{"ssl.keystore.location": str(tmp_path / "none"), "ssl.keystore.password": "s3cret"},
    )
    code, message = refused(lambda: encode(AB, [], given_options))
    assert code == "FMT-009"
    assert "s3cret" not in message


def test_decoder_and_encoder_survive_pickling(registry):
    encoder = pickle.loads(pickle.dumps(avro_confluent.encoder(AB, options(registry))))
    decoder = pickle.loads(pickle.dumps(avro_confluent.decoder(AB, options(registry), ["b"])))
    assert decoder.decode(encoder.encode(columns_of(AB, [(1, "x")]))).columns[0].to_pylist() == [
        "x"
    ]

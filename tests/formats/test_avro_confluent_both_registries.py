"""`avro-confluent` and `debezium-avro-confluent` against both registries; a test's parameter says which.

`in_process` is `harness.registry`, `apicurio` the real one of `harness.apicurio`.
"""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from avro_types import batches
from hypothesis import given
from test_avro import PROPERTY, columns_of, same
from test_avro_confluent_in_process_registry import (
    AB,
    decode,
    encode,
    numbered,
    refused,
    rows_of,
    writer_schema,
)

from harness import registry as in_process
from tidemill import types as t
from tidemill.changelog import RowKind
from tidemill.formats import avro, avro_confluent, debezium_avro_confluent
from tidemill.formats import avro_schema as schemas
from tidemill.formats.registry import registry_of


@pytest.fixture(params=["in_process", pytest.param("apicurio", marks=pytest.mark.kafka)])
def registry(request):
    if request.param == "apicurio":
        yield request.getfixturevalue("apicurio")
    else:
        with in_process.running() as found:
            yield found


@pytest.fixture
def subject(topic_name):
    return topic_name("value")


@pytest.fixture
def options(registry, subject):
    return {"url": registry.url, "subject": subject}


# ---- reading and writing ---------------------------------------------------------------------------------


def test_records_begin_with_the_number_of_the_schema(registry, subject, options):
    records = encode(AB, [(1, "x"), (None, None)], options)
    [(number, schema)] = registry.versions(subject).items()
    assert schema == schemas.schema_of(AB, legacy=True)
    assert records == [numbered(number, bytes.fromhex("0202020278")), numbered(number, b"\x00\x00")]
    assert rows_of(decode(AB, records, options)) == [(1, "x"), (None, None)]


def test_what_is_known_is_not_asked_for_again(registry, options):
    records = encode(AB, [(1, "x")], options)
    assert rows_of(decode(AB, records, options)) == [(1, "x")]
    with registry.silent():
        assert encode(AB, [(1, "x")], options) == records
        assert rows_of(decode(AB, records, options)) == [(1, "x")]


def test_subjects_may_hold_any_character(registry, subject, options):
    name = f"a/b c-ü?&-{subject}"
    encode(AB, [], options | {"subject": name})
    assert list(registry.versions(name).values()) == [schemas.schema_of(AB, legacy=True)]


@pytest.mark.kafka
def test_apicurio_is_told_a_schema_by_many_at_once(apicurio, topic_name):
    """As the tasks of a job do, each in a process of its own; Apicurio refuses those that come in second."""
    together = threading.Barrier(8)

    def number(task: int, subject: str, schema: str) -> int:
        alone = registry_of({"url": apicurio.url, "properties.*": {"task": str(task)}})
        together.wait()
        return alone.register(subject, schema)

    first, later = (schemas.text_of(schemas.schema_of(f, legacy=True)) for f in (AB[:1], AB))
    subjects = [topic_name("value") for _ in range(10)]
    with ThreadPoolExecutor(8) as tasks:
        for subject, schema in itertools.product(subjects, (first, later)):
            numbers = set(tasks.map(number, range(8), [subject] * 8, [schema] * 8))
            assert numbers == {list(apicurio.versions(subject))[-1]}


_serial = itertools.count(1)


@pytest.mark.kafka
@PROPERTY
@given(batches())
def test_apicurio_takes_the_schema_of_any_table(apicurio, batch):
    """Its Avro is Java's, which has more rules for names, defaults and logical types than ours."""
    fields, rows = batch
    columns = columns_of(fields, rows)
    for module in (avro_confluent, debezium_avro_confluent):
        options = {"url": apicurio.url, "subject": f"any-table-{next(_serial)}"}
        records = module.encoder(fields, options).encode(columns)
        decoded = module.decoder(fields, options).decode(records)
        assert not decoded.bad
        assert all(same(x, y) for x, y in zip(decoded.columns, columns, strict=True))


def test_older_and_newer_schemas_are_read_side_by_side(registry, subject, options):
    """Fields are found by name; a missing one is NULL, an unknown one is passed over, and an int may be a long."""
    old = registry.register(subject, writer_schema({"name": "id", "type": "int"}))
    new = registry.register(
        f"{subject}-new",
        writer_schema(
            {"name": "tags", "type": {"type": "array", "items": "string"}},
            {"name": "name", "type": ["string", "null"]},
            {"name": "colour", "type": {"type": "enum", "name": "Colour", "symbols": ["RED"]}},
            {"name": "id", "type": "long"},
        ),
    )
    fields = (t.Field("id", t.BIGINT), t.Field("name", t.STRING))
    records = [
        numbered(old, b"\x02"),
        numbered(new, bytes.fromhex("0202610000027800" + "04")),
        numbered(new, bytes.fromhex("0002" + "0006")),
        numbered(old, b"\x08"),
    ]
    decoded = decode(fields, records, options)
    assert not decoded.bad
    assert rows_of(decoded) == [(1, None), (2, "x"), (3, None), (4, None)]
    assert rows_of(decode(fields, records, options, ["name"])) == [
        (None,),
        ("x",),
        (None,),
        (None,),
    ]


# ---- what the registry refuses ---------------------------------------------------------------------------


def test_an_incompatible_schema_is_refused_with_its_subject(registry, subject, options):
    encode(AB, [], options)
    code, message = refused(lambda: encode((t.Field("a", t.STRING),), [], options))
    assert code == "FMT-008"
    assert f"{registry.url} refuses it for subject '{subject}'" in message
    assert "incompatible" in message.lower()
    # A new nullable column is compatible.
    encode((*AB, t.Field("c", t.INT)), [], options)
    assert len(registry.versions(subject)) == 2


def test_a_schema_that_is_none_is_refused(subject, options):
    code, message = refused(lambda: registry_of(options).register(subject, '{"type":"point"}'))
    assert code == "FMT-008"
    assert f"subject '{subject}'" in message


def test_records_whose_schema_is_not_there_or_not_avro_are_bad(registry, subject, options):
    good = encode(AB, [(1, "x")], options)[0]
    proto = registry.register(f"{subject}-p", 'syntax = "proto3"; message M {}', "PROTOBUF")
    decoded = decode(AB, [numbered(2**31 - 1, b""), good, numbered(proto, b"")], options)
    assert rows_of(decoded) == [(1, "x")]
    assert [(b.index, b.reason) for b in decoded.bad] == [
        (0, f"Could not find schema with id 2147483647 in registry {registry.url}"),
        (2, f"schema {proto} is no Avro schema but PROTOBUF"),
    ]


# ---- changes ---------------------------------------------------------------------------------------------

INSERT, UB, UA, D = RowKind
REPLICA = "please check the Postgres table has been set REPLICA IDENTITY to FULL level."


def debezium(registry, subject):
    """Records as Debezium's own schema makes them: with names, a source, and one type used twice."""
    value = {
        "type": "record",
        "name": "Value",
        "fields": [
            {"name": "a", "type": "int"},
            {"name": "b", "type": ["null", "string"], "default": None},
        ],
    }
    source = {"type": "record", "name": "Source", "fields": [{"name": "ts_ms", "type": "long"}]}
    return registry.register(
        subject,
        writer_schema(
            {"name": "before", "type": ["null", value], "default": None},
            {"name": "after", "type": ["null", "Value"], "default": None},
            {"name": "source", "type": source},
            {"name": "op", "type": "string"},
            name="Envelope",
        ),
    )


def change(number: int, before: str, after: str, op: str) -> bytes:
    return numbered(number, bytes.fromhex(f"{before}{after}02") + b"\x02" + op.encode())


ONE, TWO, NONE = "0202020278", "020400", "00"


def test_changes_have_kinds(registry, subject, options):
    number = debezium(registry, subject)
    records = [
        change(number, NONE, ONE, "c"),
        None,
        change(number, ONE, TWO, "u"),
        b"",
        change(number, TWO, NONE, "d"),
        change(number, NONE, TWO, "r"),
    ]
    decoded = decode(AB, records, options, None, debezium_avro_confluent)
    assert not decoded.bad
    assert decoded.dropped == {avro.NULL_VALUE: 2}
    assert decoded.kinds.to_pylist() == [INSERT, UB, UA, D, INSERT]
    assert decoded.records.to_pylist() == [0, 2, 2, 4, 5]
    assert rows_of(decoded) == [(1, "x"), (1, "x"), (2, None), (2, None), (2, None)]
    pruned = decode(AB, records, options, ["b"], debezium_avro_confluent)
    assert rows_of(pruned) == [("x",), ("x",), (None,), (None,), (None,)]
    assert decode(AB, records, options, [], debezium_avro_confluent).kinds == decoded.kinds


def test_changes_that_cannot_be(registry, subject, options):
    number = debezium(registry, subject)
    records = [
        change(number, NONE, TWO, "u"),
        change(number, NONE, NONE, "d"),
        change(number, NONE, NONE, "c"),
        change(number, NONE, ONE, "t"),
        change(number, NONE, ONE, "c"),
        b"\x01",
    ]
    decoded = decode(AB, records, options, None, debezium_avro_confluent)
    assert rows_of(decoded) == [(1, "x")]
    assert decoded.records.to_pylist() == [4]
    head = "if you are using Debezium Postgres Connector, " + REPLICA
    assert [(b.index, b.reason) for b in decoded.bad] == [
        (0, f'The "before" field of UPDATE message is null, {head}'),
        (1, f'The "before" field of DELETE message is null, {head}'),
        (2, 'the "after" field is null'),
        (3, 'Unknown "op" value "t"'),
        (5, "Unknown data format. Magic number does not match"),
    ]


def test_changes_are_written_as_inserts_and_deletes(registry, subject, options):
    encoder = debezium_avro_confluent.encoder(AB, options)
    kinds = pa.array([INSERT, UB, UA, D], pa.int8())
    records = encoder.encode(columns_of(AB, [(n, "x") for n in range(4)]), kinds)
    [(number, schema)] = registry.versions(subject).items()
    assert schema[0] == "null"
    # The schema is ["null", envelope], so that 02 begins every record.
    assert records.to_pylist() == [
        numbered(number, bytes.fromhex("02" + data))
        for data in (
            "000202000202780202" + "63",
            "0202020202780002" + "0264",
            "0002020402027802" + "0263",
            "02020602027800020264",
        )
    ]
    decoded = debezium_avro_confluent.decoder(AB, options).decode(records)
    assert decoded.kinds.to_pylist() == [INSERT, D, INSERT, D]
    assert rows_of(decoded) == [(n, "x") for n in range(4)]
    alone = encoder.encode(columns_of(AB, [(1, None)]))
    assert debezium_avro_confluent.decoder(AB, options).decode(alone).kinds.to_pylist() == [INSERT]

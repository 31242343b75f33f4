"""Registry formats from Kafka to Kafka, against Apicurio's registry (`harness.apicurio`)."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from world import World

from harness.apicurio import Apicurio
from tidemill import types as t
from tidemill.errors import JobError
from tidemill.formats import avro_confluent

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

KEY = (t.Field("id", t.INT.not_null),)
COUNTED = (*KEY, t.Field("n", t.BIGINT))
ORDERS = "(id INT, customer STRING, price DECIMAL(8, 2))"


def confluent(registry: Apicurio) -> dict[str, str]:
    """Values under a schema; the subject is the topic's, with `-value`."""
    return {"format": "avro-confluent", "avro__confluent_url": registry.url}


def keyed(registry: Apicurio, fields: str) -> dict[str, str]:
    """Keys too; their subject is the topic's, with `-key`."""
    return confluent(registry) | {
        "key_format": "avro-confluent",
        "key_avro__confluent_url": registry.url,
        "key_fields": fields,
    }


def number_of(data: bytes) -> int:
    """The schema's number, with which keys and values begin."""
    assert data[0] == 0
    return int.from_bytes(data[1:5], "big")


def test_keys_and_values_are_written_under_schemas_and_read_back(
    world: World, apicurio: Apicurio
) -> None:
    source = world.create(
        {"id": 1, "customer": "ann", "price": 1.5}, {"id": 2, "customer": None, "price": 20}
    )
    middle, target = world.create(hint="middle"), world.create(hint="target")
    table = f"CREATE TABLE middle {ORDERS} {world.kafka(middle, **keyed(apicurio, 'id'))};"
    world.run(
        f"CREATE TABLE orders {ORDERS} {world.kafka(source)};"
        f"{table} INSERT INTO middle SELECT * FROM orders"
    )
    [key], [value] = (apicurio.versions(f"{middle}-{part}") for part in ("key", "value"))
    assert key != value
    assert [(number_of(r.key), number_of(r.value)) for r in world.records(middle)] == [
        (key, value)
    ] * 2
    world.run(
        f"{table} CREATE TABLE target {ORDERS} {world.kafka(target)};"
        "INSERT INTO target SELECT id + 10, UPPER(customer), price FROM middle"
    )
    assert world.values(target) == [
        {"id": 11, "customer": "ANN", "price": 1.5},
        {"id": 12, "customer": None, "price": 20.0},
    ]


def test_a_table_reads_what_is_written_under_a_later_schema(
    world: World, apicurio: Apicurio
) -> None:
    source = world.create({"id": 1, "customer": "ann", "price": 2})
    middle, target = world.create(hint="middle"), world.create(hint="target")
    options = world.kafka(middle, **confluent(apicurio))
    later = "(id INT, note STRING, customer STRING, price DECIMAL(8, 2))"
    for columns, row in ((ORDERS, "*"), (later, "id + 1, 'new', customer, price")):
        world.run(
            f"CREATE TABLE orders {ORDERS} {world.kafka(source)};"
            f"CREATE TABLE middle {columns} {options};"
            f"INSERT INTO middle SELECT {row} FROM orders"
        )
    written = [number_of(r.value) for r in world.records(middle)]
    assert written == list(apicurio.versions(f"{middle}-value"))
    assert len(set(written)) == 2
    world.run(
        f"CREATE TABLE middle {ORDERS} {options};"
        f"CREATE TABLE target {ORDERS} {world.kafka(target)};"
        "INSERT INTO target SELECT * FROM middle"
    )
    assert world.values(target) == [
        {"id": 1, "customer": "ann", "price": 2.0},
        {"id": 2, "customer": "ann", "price": 2.0},
    ]


def test_a_row_that_is_gone_is_a_key_under_its_schema_and_no_value(
    world: World, apicurio: Apicurio
) -> None:
    source = world.create({"id": 1}, {"id": 2})
    once = world.create(hint="once")
    options = {
        "key_format": "avro-confluent",
        "key_avro__confluent_url": apicurio.url,
        "value_format": "avro-confluent",
        "value_avro__confluent_url": apicurio.url,
    }

    def read(records: list[bytes | None], fields: tuple[t.Field, ...]) -> list[tuple[object, ...]]:
        decoder = avro_confluent.decoder(fields, {"url": apicurio.url})
        columns = decoder.decode(pa.array(records, pa.binary())).columns
        return list(zip(*(c.to_pylist() for c in columns), strict=True))

    script = (
        f"CREATE TABLE seen (id INT) {world.kafka(source)};"
        "CREATE TABLE once (id INT, n BIGINT, PRIMARY KEY (id) NOT ENFORCED)"
        f"{world.upsert(once, **options)};"
        "INSERT INTO once SELECT id, COUNT(*) FROM seen GROUP BY id HAVING COUNT(*) < 2"
    )
    world.run(script, keep=True)
    world.produce(source, {"id": 2})
    world.run(script, keep=True)
    assert list(apicurio.versions(f"{once}-key")) != list(apicurio.versions(f"{once}-value"))
    found = world.records(once)
    keys, values = read([r.key for r in found], KEY), read([r.value for r in found], COUNTED)
    assert (sorted(keys[:2]), keys[2:]) == ([(1,), (2,)], [(2,)])
    assert sorted(values) == [(1, 1), (2, 1)]
    assert found[2].value is None


def test_changes_are_written_and_read_as_debezium_does(world: World, apicurio: Apicurio) -> None:
    source = world.create({"id": 1}, {"id": 1}, {"id": 2})
    changes, totals = world.create(hint="changes"), world.create(hint="totals")
    debezium = {
        "format": "debezium-avro-confluent",
        "debezium__avro__confluent_url": apicurio.url,
    }
    table = "(id INT, n BIGINT, PRIMARY KEY (id) NOT ENFORCED)"
    script = (
        f"CREATE TABLE seen (id INT) {world.kafka(source)};"
        f"CREATE TABLE changes {table} {world.kafka(changes, **debezium)};"
        "INSERT INTO changes SELECT id, COUNT(*) FROM seen GROUP BY id"
    )
    world.run(script, keep=True)
    world.produce(source, {"id": 2})
    world.run(script, keep=True)
    [(null, envelope)] = apicurio.versions(f"{changes}-value").values()
    assert null == "null"
    assert [f["name"] for f in envelope["fields"]] == ["before", "after", "op"]
    world.run(
        f"CREATE TABLE changes {table} {world.kafka(changes, **debezium)};"
        f"CREATE TABLE totals (id INT, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) {world.upsert(totals)};"
        "INSERT INTO totals SELECT * FROM changes"
    )
    assert {k: v["n"] for k, v in world.table(totals).items()} == {'{"id":1}': 2, '{"id":2}': 2}


def stopped(world: World, options: dict[str, str]) -> tuple[str, str]:
    """The code and the message of a job that writes one number."""
    source, target = world.create({"id": 1}), world.create(hint="target")
    with pytest.raises(JobError) as raised:
        world.run(
            f"CREATE TABLE orders (id INT) {world.kafka(source)};"
            f"CREATE TABLE target (id INT) {world.kafka(target, **options)};"
            "INSERT INTO target SELECT id FROM orders"
        )
    assert world.records(target) == []
    [found] = raised.value.diagnostics
    return found.code, found.message


def test_a_schema_that_the_registry_refuses_stops_the_job(world: World, apicurio: Apicurio) -> None:
    subject = world.topic("subject")
    text = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "string"}]}
    apicurio.register(subject, json.dumps(text))
    code, message = stopped(world, confluent(apicurio) | {"avro__confluent_subject": subject})
    assert code == "FMT-008"
    assert f"{apicurio.url} refuses it for subject '{subject}'" in message
    assert "Incompatible artifact" in message


def test_a_registry_that_is_away_is_named(world: World, apicurio: Apicurio) -> None:
    away = "http://127.0.0.1:9"
    code, message = stopped(world, confluent(apicurio) | {"avro__confluent_url": away})
    assert code == "FMT-007"
    assert away in message

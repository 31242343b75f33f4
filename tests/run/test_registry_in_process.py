"""Registry formats from Kafka to Kafka, against `harness.registry`, a registry in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from world import World

from harness import registry as harness
from harness.registry import SchemaRegistry

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

ORDERS = "(id INT, customer STRING, price DECIMAL(8, 2))"


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with harness.running() as found:
        yield found


def confluent(registry: SchemaRegistry, subject: str) -> dict[str, str]:
    return {
        "format": "avro-confluent",
        "avro__confluent_url": registry.url,
        "avro__confluent_subject": subject,
    }


def test_rows_are_written_under_a_schema_and_read_back(
    world: World, registry: SchemaRegistry
) -> None:
    source = world.create(
        {"id": 1, "customer": "ann", "price": 1.5}, {"id": 2, "customer": None, "price": 20}
    )
    middle, target = world.create(hint="middle"), world.create(hint="target")
    world.run(
        f"CREATE TABLE orders {ORDERS} {world.kafka(source)};"
        f"CREATE TABLE middle {ORDERS} {world.kafka(middle, **confluent(registry, 'orders'))};"
        "INSERT INTO middle SELECT * FROM orders"
    )
    assert [r.value[:5] for r in world.records(middle)] == [b"\x00\x00\x00\x00\x01"] * 2
    world.run(
        f"CREATE TABLE middle {ORDERS} {world.kafka(middle, **confluent(registry, 'orders'))};"
        f"CREATE TABLE target {ORDERS} {world.kafka(target)};"
        "INSERT INTO target SELECT id + 10, UPPER(customer), price FROM middle"
    )
    assert world.values(target) == [
        {"id": 11, "customer": "ANN", "price": 1.5},
        {"id": 12, "customer": None, "price": 20.0},
    ]
    assert list(registry.subjects) == ["orders"]


def test_changes_are_written_and_read_as_debezium_does(
    world: World, registry: SchemaRegistry
) -> None:
    source = world.create({"id": 1}, {"id": 1}, {"id": 2})
    changes, totals = world.create(hint="changes"), world.create(hint="totals")
    debezium = {
        "format": "debezium-avro-confluent",
        "debezium__avro__confluent_url": registry.url,
        "debezium__avro__confluent_subject": "changes",
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
    world.run(
        f"CREATE TABLE changes {table} {world.kafka(changes, **debezium)};"
        f"CREATE TABLE totals (id INT, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) {world.upsert(totals)};"
        "INSERT INTO totals SELECT * FROM changes"
    )
    assert {k: v["n"] for k, v in world.table(totals).items()} == {'{"id":1}': 2, '{"id":2}': 2}


def test_a_registry_that_is_away_is_named(world: World, registry: SchemaRegistry) -> None:
    from tidemill.errors import JobError

    options = confluent(registry, "orders")
    options["avro__confluent_url"] = "http://127.0.0.1:9"
    source, target = world.create({"id": 1}), world.create(hint="target")
    with pytest.raises(JobError) as refused:
        world.run(
            f"CREATE TABLE orders (id INT) {world.kafka(source)};"
            f"CREATE TABLE target (id INT) {world.kafka(target, **options)};"
            "INSERT INTO target SELECT id FROM orders"
        )
    assert "http://127.0.0.1:9" in str(refused.value)

"""Tables and scripts of the Kafka manual and the upsert-kafka manual, run as they are printed."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import fastavro
import pytest
from world import World

from harness.manuals import manual
from tidemill.broker import start
from tidemill.broker.records import Record
from tidemill.errors import JobError

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def script(world: World, *titles: str, **topics: str) -> str:
    return "".join(f"{manual(title, world.broker.bootstrap, **topics)};\n" for title in titles)


def avro(data: bytes, **fields: Any) -> dict[str, Any]:
    """A record without its schema, as the avro format writes it."""
    described = [{"name": name, "type": type_} for name, type_ in fields.items()]
    schema = {"type": "record", "name": "record", "fields": described}
    read = io.BytesIO(data)
    row = fastavro.schemaless_reader(read, schema, None)
    assert not read.read()
    assert isinstance(row, dict)
    return row


def test_page_views_and_visitors_per_region_in_avro(world: World) -> None:
    views = [(1, "Oslo"), (2, "Oslo"), (1, "Oslo"), (3, "Rome")]
    source = world.create(
        *(
            {"user_id": u, "page_id": 7, "view_time": "2026-01-05 10:00:00.5", "user_region": r}
            for u, r in views
        ),
    )
    target = world.create(hint="per-region")
    titles = ("page views per region", "page views", "counting")
    pv_uv = script(
        world,
        *(f"upsert-kafka: {title}" for title in titles),
        page_views=source,
        pageviews_per_region=target,
    )

    def result() -> dict[str, tuple[int, int]]:
        """The last count of every region, by keys and values that are read as Flink declares them."""
        table = {}
        count = ["null", "long"]
        for record in world.records(target):
            assert record.key is not None and record.value is not None
            key = avro(record.key, user_region="string")
            row = avro(record.value, user_region="string", pv=count, uv=count)
            assert key == {"user_region": row["user_region"]}
            table[row["user_region"]] = (row["pv"], row["uv"])
        return table

    world.run(pv_uv, keep=True)
    assert result() == {"Oslo": (3, 2), "Rome": (1, 1)}
    world.produce(source, {"user_id": 9, "page_id": 8, "view_time": None, "user_region": "Rome"})
    world.run(pv_uv, keep=True)
    assert result() == {"Oslo": (3, 2), "Rome": (2, 2)}


def test_a_table_and_its_metadata(world: World) -> None:
    topic = world.create(Record(b"1,7,buy", timestamp_ms=1_000))
    world.run(
        script(world, "kafka: a table", user_behavior=topic)
        + "INSERT INTO KafkaTable VALUES (2, 8, 'cart', TO_TIMESTAMP_LTZ(2500, 3));"
    )
    world.run(
        script(world, "kafka: metadata", user_behavior=topic) + "SELECT * FROM KafkaTable;",
        table_local__time__zone="UTC",
    )
    names = ("event_time", "partition", "offset", "user_id", "item_id", "behavior")
    assert [tuple(row[name] for name in names) for _, row in world.rows] == [
        ("1970-01-01 00:00:01Z", 0, 0, 1, 7, "buy"),
        ("1970-01-01 00:00:02.5Z", 0, 1, 2, 8, "cart"),
    ]


def test_metadata_of_a_format(world: World) -> None:
    row = {"user_id": 1, "item_id": 7, "behavior": "buy"}
    origin = {"ts_ms": 1_000, "table": "behaviors"}
    topic = world.create(
        {"before": None, "after": row, "op": "c", "source": origin},
        {"before": row, "after": None, "op": "d", "source": origin},
    )
    world.run(
        script(world, "kafka: metadata of a format", user_behavior=topic)
        + "SELECT * FROM KafkaTable;"
    )
    told = {"event_time": "1970-01-01 00:00:01Z", "origin_table": "behaviors", "partition_id": 0}
    assert world.rows == [
        ("+I", {**told, "offset": 0, **row}),
        ("-D", {**told, "offset": 1, **row}),
    ]


def test_key_and_value_formats(world: World) -> None:
    topic = world.create()
    tables = script(world, "kafka: key and value formats", user_behavior=topic)
    world.run(tables + "INSERT INTO KafkaTable VALUES (TO_TIMESTAMP_LTZ(1000, 3), 1, 7, 'buy');")
    (record,) = world.records(topic)
    assert json.loads(record.key) == {"user_id": 1, "item_id": 7}
    assert json.loads(record.value) == {"user_id": 1, "item_id": 7, "behavior": "buy"}
    # A key that cannot be read and one that is not there, and a value that lacks a field.
    world.produce(topic, Record(b"{}", b"{"), Record(b"{}"), Record(b'{"item_id": 8}', b"{}"))
    world.run(tables + "SELECT user_id, item_id, behavior FROM KafkaTable;")
    assert [list(row.values()) for _, row in world.rows] == [[1, 7, "buy"], [None, 8, None]]
    assert world.losses == {
        "KafkaTable: unreadable document as key": 1,
        "KafkaTable: null value as key": 1,
    }


def test_fields_of_one_name_in_key_and_value(world: World) -> None:
    topic = world.create()
    tables = script(world, "kafka: overlapping fields", user_behavior=topic)
    world.run(tables + "INSERT INTO KafkaTable VALUES (1, 2, 3, 4, 'buy');")
    (record,) = world.records(topic)
    assert json.loads(record.key) == {"version": 1, "user_id": 2, "item_id": 3}
    assert json.loads(record.value) == {"version": 4, "behavior": "buy"}
    world.run(tables + "SELECT * FROM KafkaTable;")
    assert [list(row.values()) for _, row in world.rows] == [[1, 2, 3, 4, "buy"]]


def test_key_and_value_formats_of_an_upsert_table(world: World) -> None:
    topic = world.create()
    world.run(
        script(world, "upsert-kafka: key and value formats", user_behavior=topic)
        + "INSERT INTO KafkaTable VALUES (TIMESTAMP '2026-01-05 10:00:00', 1, 7, 'buy');",
        table_local__time__zone="UTC",
    )
    (record,) = world.records(topic)
    assert json.loads(record.key) == {"user_id": 1}
    assert json.loads(record.value) == {"item_id": 7, "behavior": "buy"}
    assert record.timestamp_ms == 1_767_607_200_000


# The listener keeps its name and asks for a password; the broker itself has one, too.
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
ASKS_FOR_A_PASSWORD = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        f'{PLAIN} required username="broker" password="b" user_broker="b" user_username="password";'
    ),
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    own = start(tmp_path_factory.mktemp("guarded"), port=0, settings=ASKS_FOR_A_PASSWORD)
    yield own
    own.stop()


@pytest.mark.parametrize("prefix", ["", "org.apache.flink.kafka.shaded."])
def test_a_broker_that_asks_for_a_password(world: World, guarded: Any, prefix: str) -> None:
    """The login module as the manual prints it, and as it names that of the SQL client's jar."""
    world = World(guarded, world.spark, world.topic, world.checkpoint)
    table = script(world, "kafka: SASL_PLAINTEXT", user_behavior=world.topic())
    table = table.replace(PLAIN, prefix + PLAIN)
    world.run(table + "INSERT INTO KafkaTable VALUES (1, 7, 'buy', TO_TIMESTAMP_LTZ(1000, 3));")
    world.run(table + "SELECT user_id, item_id, behavior FROM KafkaTable;")
    assert [list(row.values()) for _, row in world.rows] == [[1, 7, "buy"]]
    with pytest.raises(JobError, match="uthentication"):
        world.run(table.replace(r"\"password\"", r"\"wrong\"") + "SELECT * FROM KafkaTable;")

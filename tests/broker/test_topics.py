from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from harness.kafka import consume, fold, produce
from tidemill.broker import Broker, topics
from tidemill.broker.records import Record
from tidemill.errors import JobError, TidemillError, UsageError

pytestmark = pytest.mark.kafka

Name = Callable[..., str]


def test_created_topic_has_partitions_and_configuration(broker: Broker, topic_name: Name) -> None:
    name = topic_name()
    assert not topics.exists(broker.bootstrap, name)
    topics.create(broker.bootstrap, name, partitions=3, configs={"cleanup.policy": "compact"})
    assert topics.exists(broker.bootstrap, name)
    assert topics.partitions(broker.bootstrap)[name] == 3
    with pytest.raises(JobError, match="as a compacted topic does without a key"):
        produce(broker.bootstrap, name, "no key")
    assert not topics.ensure(broker.bootstrap, name)
    assert topics.ensure(broker.bootstrap, topic_name())


@pytest.mark.parametrize(
    ("name", "configs", "expected"),
    [
        (
            "no spaces",
            {},
            "KAFKA-004: topic 'no spaces' could not be created: Topic name is invalid",
        ),
        ("", {}, "KAFKA-004: topic '' could not be created"),
        ("x", {"retention": "1"}, "Unknown topic config name: retention"),
    ],
)
def test_topic_that_cannot_be_is_refused(
    broker: Broker, name: str, configs: dict[str, str], expected: str
) -> None:
    with pytest.raises(JobError) as caught:
        topics.create(broker.bootstrap, name, configs=configs)
    assert expected in str(caught.value)


def test_creating_a_topic_twice_is_refused(broker: Broker, topic_name: Name) -> None:
    name = topic_name()
    topics.create(broker.bootstrap, name)
    with pytest.raises(JobError, match=f"KAFKA-003: topic '{name}' already exists"):
        topics.create(broker.bootstrap, name)


RECORDS = [
    Record(b"v", b"k", (("a", b"1"), ("a", b"\xff"), ("n", None)), 2, 1_600_000_000_000),
    Record(None, b"k", (), 2, 1_600_000_000_001),
    Record(b"", b"", (), 2, 1_600_000_000_002),
    Record(b"\xff\x00\xfe", None, (), 2, 1),
    Record('{"名":1}'.encode(), b"\x80", (), 2, 1_600_000_000_003),
]


def test_records_come_back_as_they_were_written(broker: Broker, topic_name: Name) -> None:
    name = topic_name()
    topics.create(broker.bootstrap, name, partitions=3)
    assert topics.write(broker.bootstrap, name, RECORDS) == len(RECORDS)
    found = consume(broker.bootstrap, name)
    assert [
        Record(r.value, r.key, r.headers, r.partition, r.timestamp_ms) for r in found
    ] == RECORDS
    assert [(r.topic, r.offset) for r in found] == [(name, n) for n in range(len(RECORDS))]
    assert topics.end_offsets(broker.bootstrap, name) == {0: 0, 1: 0, 2: 5}
    assert topics.start_offsets(broker.bootstrap, name) == {0: 0, 1: 0, 2: 0}
    assert topics.Topic(name, 3, 5) in topics.list_topics(broker.bootstrap)


def test_missing_partition_is_named(broker: Broker, topic_name: Name) -> None:
    name = topic_name()
    topics.create(broker.bootstrap, name)
    with pytest.raises(JobError, match="record 2 was not written .* fewer partitions"):
        produce(broker.bootstrap, name, "fine", {"value": "x", "partition": 1})


def test_missing_topic_is_named_with_the_nearest(broker: Broker, topic_name: Name) -> None:
    name = topic_name("orders")
    topics.create(broker.bootstrap, name)
    for ask in (topics.end_offsets, consume):
        with pytest.raises(JobError) as caught:
            ask(broker.bootstrap, name[:-1])
        assert f"KAFKA-002: topic '{name[:-1]}' does not exist" in str(caught.value)
        assert "did you mean" in str(caught.value)
    assert not topics.exists(broker.bootstrap, name[:-1])


def test_writing_to_a_missing_topic_lets_the_broker_create_it(
    broker: Broker, topic_name: Name
) -> None:
    name = topic_name()
    produce(broker.bootstrap, name, "v")
    assert [r.value for r in consume(broker.bootstrap, name)] == [b"v"]


def test_upsert_topic_folds_to_a_table(broker: Broker, topic_name: Name) -> None:
    name = topic_name()
    upserts = [("a", 1), ("b", 1), ("a", 2), ("b", None)]
    produce(broker.bootstrap, name, *({"key": k, "value": v} for k, v in upserts))
    assert fold(broker.bootstrap, name) == {"a": 2}


def test_reading_ends_where_the_topic_ended_at_the_start(broker: Broker, topic_name: Name) -> None:
    name = topic_name()
    produce(broker.bootstrap, name, "1", "2")
    seen = []
    for record in topics.read(broker.bootstrap, name):
        produce(broker.bootstrap, name, "later")
        seen.append(record.value)
    assert seen == [b"1", b"2"]


def test_aborted_transactions_are_not_read(broker: Broker, topic_name: Name) -> None:
    name = topic_name()
    topics.create(broker.bootstrap, name)
    settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": name, "log_level": 0}
    producer = Producer(settings)
    producer.init_transactions(20)
    for value, end in (("kept", producer.commit_transaction), ("no", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(name, value)
        producer.flush()
        end()
    # The topic ends with a control record, which no reader is given.
    assert [r.value for r in consume(broker.bootstrap, name)] == [b"kept"]


def test_following_waits_for_what_comes(broker: Broker, topic_name: Name) -> None:
    name = topic_name()
    produce(broker.bootstrap, name, "old")
    seen: list[bytes | None] = []
    done = threading.Event()
    read = topics.read(broker.bootstrap, name, from_beginning=False, follow=True, until=done.is_set)
    reader = threading.Thread(target=lambda: seen.extend(r.value for r in read))
    reader.start()
    time.sleep(0.5)
    produce(broker.bootstrap, name, "new")
    deadline = time.monotonic() + 10
    while not seen and time.monotonic() < deadline:
        time.sleep(0.05)
    done.set()
    reader.join(10)
    assert seen == [b"new"]


@pytest.mark.parametrize(
    "ask",
    [
        lambda address: topics.create(address, "t"),
        lambda address: topics.exists(address, "t"),
        lambda address: topics.list_topics(address),
        lambda address: topics.write(address, "t", [Record(b"v")]),
        lambda address: list(topics.read(address, "t")),
    ],
)
def test_refusing_broker_is_named_at_once(
    ask: Callable[[str], object], capfd: pytest.CaptureFixture[str]
) -> None:
    began = time.monotonic()
    with pytest.raises(JobError) as caught:
        ask("127.0.0.1:1")
    assert time.monotonic() - began < 2
    expected = "KAFKA-001: no Kafka broker is reachable at 127.0.0.1:1: connection refused"
    assert expected in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_listener_that_is_not_kafka_is_named_in_time(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        began = time.monotonic()
        with pytest.raises(JobError, match=f"KAFKA-001: .* at {address}: it does not answer"):
            topics.exists(address, "t")
    assert time.monotonic() - began < 15
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "address", ["", "localhost", "localhost:", "localhost:x", "h:0", "h:70000"]
)
def test_malformed_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError) as caught:
        topics.reach(address)
    assert "KAFKA-008" in str(caught.value)


def test_unknown_host_is_named() -> None:
    with pytest.raises(TidemillError, match="KAFKA-001: .* at no-such-host.invalid:9092: "):
        topics.reach("no-such-host.invalid:9092")


def test_one_reachable_address_of_several_is_enough(broker: Broker) -> None:
    topics.reach(f"127.0.0.1:1, {broker.bootstrap}")

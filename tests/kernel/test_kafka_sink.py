"""The Kafka sink of the kernel, driven from PySpark against a real broker."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kernel_jobs import Job, JobFailed, Topic, finish, timestamp_of

from harness.kafka import consume

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

Make = Callable[..., Topic]

SCHEMA = (
    "sink int, topic string, partition int, key binary, value binary,"
    " headers map<string,binary>, timestamp timestamp"
)


def sinks(*targets: Topic | dict[str, Any]) -> str:
    """The spec of a sink for whole tables, or for the topics that they stand for."""
    described = [
        target
        if isinstance(target, dict)
        else {
            "table": f"table-{i}",
            "topic": target.name,
            "properties": {"bootstrap.servers": target.bootstrap},
            "guarantee": "at-least-once",
        }
        for i, target in enumerate(targets)
    ]
    return json.dumps({"sinks": described})


def target(topic: Topic, properties: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    settings = {"bootstrap.servers": topic.bootstrap} | (properties or {})
    return {"table": "orders", "topic": topic.name, "properties": settings} | more


def save(frame: Any, spec: str) -> None:
    """A batch write; a failure of ours comes out as a JobFailed."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        frame.write.format("tidemill-kafka").option("spec", spec).mode("append").save()
    except (Py4JJavaError, PySparkException) as e:
        raise JobFailed(str(e)) from None


def numbers(spark: Any, count: int, checkpoint: Path, spec: str, **datagen: Any) -> Job:
    """Stream 0, 1, 2 … as text into a sink, key and value alike."""
    from pyspark.sql import functions as F

    generated = {"rowsPerSecond": 100_000, "numberOfRows": count} | datagen
    frame = spark.readStream.format("tidemill-datagen").option("spec", json.dumps(generated))
    text = F.col("id").cast("string").cast("binary")
    writer = frame.load().select(text.alias("key"), text.alias("value")).writeStream
    writer = writer.format("tidemill-kafka").option("spec", spec)
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    return Job(writer.start(), [])


# -- what is written ---------------------------------------------------------------------------


def test_every_column_reaches_its_place(spark: Any, make_topic: Make) -> None:
    from datetime import UTC, datetime

    first, second = make_topic(partitions=3), make_topic()
    at = datetime(2024, 5, 1, 12, 0, 0, 123000, tzinfo=UTC)
    rows = [
        (0, None, 2, b"k", b"v", {"a": b"1", "b": None}, at),
        (0, None, 2, b"k", None, None, None),
        (1, None, None, None, b"other", {}, None),
        (0, second.name, 0, b"", b"by name", None, None),
        (None, None, 1, None, b"", None, None),
    ]
    begun = int(time.time() * 1000) - 1000
    save(spark.createDataFrame(rows, SCHEMA).coalesce(1), sinks(first, second))

    default, full, tombstone = first.read()
    assert (full.partition(), full.key(), full.value()) == (2, b"k", b"v")
    assert sorted(full.headers()) == [("a", b"1"), ("b", None)]
    assert timestamp_of(full) == 1714564800123
    assert (tombstone.key(), tombstone.value(), tombstone.headers()) == (b"k", None, None)
    assert begun < timestamp_of(tombstone) < begun + 600_000
    assert (default.partition(), default.key(), default.value()) == (1, None, b"")
    # Two tables are two producers: in a topic that both write to, they have no common order.
    by_name, other = sorted(second.read(), key=lambda record: record.value())
    assert (other.key(), other.value(), other.headers()) == (None, b"other", None)
    assert (by_name.key(), by_name.value()) == (b"", b"by name")


# A list of headers, and what is in the record.
HEADER_LISTS: dict[str, tuple[Any, Any]] = {
    "in order, equal keys included": ([("b", b"1"), ("a", b""), ("b", b"2")],) * 2,
    "an entry without a value": ([("a", None)],) * 2,
    "an entry without a key": ([(None, b"1"), ("a", b"2")], [("a", b"2")]),
    "no entry in its place": ([None, ("a", b"1"), None], [("a", b"1")]),
    "nothing that could be written": ([None, (None, b"1"), (None, None)], None),
    "empty": ([], None),
    "NULL": (None, None),
}


def test_a_list_of_headers_is_written(spark: Any, make_topic: Make) -> None:
    topic = make_topic()
    rows = [(name.encode(), given) for name, (given, _) in HEADER_LISTS.items()]
    schema = "value binary, header_list array<struct<key: string, value: binary>>"
    save(spark.createDataFrame(rows, schema).coalesce(1), sinks(topic))
    found = {record.value().decode(): record.headers() for record in topic.read()}
    assert found == {name: written for name, (_, written) in HEADER_LISTS.items()}


def test_only_the_value_is_needed(spark: Any, make_topic: Make) -> None:
    topic = make_topic()
    save(spark.createDataFrame([(b"v",), (None,)], "value binary").coalesce(1), sinks(topic))
    assert [(r.key(), r.value()) for r in topic.read()] == [(None, b"v"), (None, None)]


def test_keys_go_where_the_java_client_puts_them(spark: Any, make_topic: Make) -> None:
    topic = make_topic(partitions=7)
    keys = [f"key-{n}".encode() for n in range(50)]
    save(spark.createDataFrame([(k, k) for k in keys], "key binary, value binary"), sinks(topic))
    murmur = spark._jvm.org.apache.kafka.common.utils.Utils
    placed = {record.key(): record.partition() for record in topic.read()}
    assert placed == {k: murmur.toPositive(murmur.murmur2(k)) % 7 for k in keys}


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_a_fixed_partitioner_gives_each_writer_a_partition(
    spark: Any, make_topic: Make, guarantee: str
) -> None:
    topic = make_topic(partitions=2)
    rows = [(str(n).encode(),) for n in range(30)]
    frame = spark.createDataFrame(rows, "value binary").repartition(3)
    spec = json.loads(sinks(target(topic, guarantee=guarantee, partitioner="fixed")))
    spec["job"] = spec["sinks"][0]["transactionalIdPrefix"] = topic.name
    save(frame, json.dumps(spec))
    found = consume(topic.bootstrap, topic.name)
    assert sorted(int(r.value or b"") for r in found) == list(range(30))
    by_partition = Counter(r.partition for r in found)
    assert by_partition == {0: 20, 1: 10}


def test_fixed_takes_the_writer_that_a_row_names(spark: Any, make_topic: Make) -> None:
    topic = make_topic(partitions=3)
    rows = [(writer, str(writer).encode()) for writer in range(8)]
    frame = spark.createDataFrame(rows, "partition int, value binary")
    save(frame, sinks(target(topic, partitioner="fixed")))
    assert {int(r.value()): r.partition() for r in topic.read()} == {w: w % 3 for w in range(8)}


@pytest.mark.parametrize("guarantee", ["at-least-once", "none"])
def test_a_stream_is_written_over_many_epochs(
    spark: Any, make_topic: Make, tmp_path: Path, guarantee: str
) -> None:
    topic = make_topic(partitions=2)
    spec = sinks(target(topic, guarantee=guarantee))
    job = finish(numbers(spark, 1000, tmp_path, spec, maxRowsPerBatch=300))
    assert len(job.progress) >= 4
    deadline = time.monotonic() + 10
    while len(topic.read()) < 1000 and guarantee == "none" and time.monotonic() < deadline:
        time.sleep(0.1)
    assert sorted(int(r.value()) for r in topic.read()) == list(range(1000))
    again = finish(numbers(spark, 1200, tmp_path, spec))
    assert again.query.exception() is None
    while len(topic.read()) < 1200 and guarantee == "none" and time.monotonic() < deadline:
        time.sleep(0.1)
    assert sorted(int(r.value()) for r in topic.read()) == list(range(1200))


def test_progress_says_what_was_written_to_each_table(
    spark: Any, make_topic: Make, tmp_path: Path
) -> None:
    topic = make_topic()
    job = finish(numbers(spark, 100, tmp_path, sinks(topic)))
    metrics = job.progress[-1]["sink"]["metrics"]
    size = 2 * sum(len(str(n)) for n in range(100))
    assert (metrics["rows"], metrics["bytes"]) == ("100", str(size))
    written = json.loads(metrics["tables"])["table-0"]
    assert (written["rows"], written["bytes"]) == (100, size)
    assert 1 <= written["writers"] <= 2
    assert sum(p["sink"]["numOutputRows"] for p in job.progress) == 100


def test_what_the_engine_must_own_is_overridden(spark: Any, make_topic: Make) -> None:
    topic = make_topic()
    meddling = {"value.serializer": "no.such.Class", "transactional.id": "mine"}
    frame = spark.createDataFrame([(b"v",)], "value binary")
    save(frame, sinks(target(topic, meddling)))
    assert [r.value() for r in topic.read()] == [b"v"]


def test_compression_is_the_users_choice(spark: Any, make_topic: Make) -> None:
    topic = make_topic()
    frame = spark.createDataFrame([(b"v" * 1000,)] * 50, "value binary")
    for codec in ("lz4", "zstd", "snappy", "gzip"):
        save(frame, sinks(target(topic, {"compression.type": codec})))
    assert len(topic.read()) == 200


# -- what is refused ---------------------------------------------------------------------------


def test_other_columns_are_refused(spark: Any, make_topic: Make) -> None:
    topic = make_topic()
    with pytest.raises(JobFailed, match="no column 'valu'"):
        save(spark.createDataFrame([(b"v",)], "valu binary"), sinks(topic))
    with pytest.raises(JobFailed, match="no column 'value' of type STRING"):
        save(spark.createDataFrame([("v",)], "value string"), sinks(topic))
    with pytest.raises(JobFailed, match="needs the column 'value'"):
        save(spark.createDataFrame([(b"v",)], "key binary"), sinks(topic))


# Columns beside the value, client properties, and what the fault says.
FAULTS = {
    "a partition that is not there": ({"partition": "5"}, {}, "has no partition 5: it has 1"),
    "a timestamp before 1970": ({"timestamp": "timestamp_millis(-1)"}, {}, "before 1970"),
    "a record that is too large": ({}, {"max.request.size": "2000"}, "max.request.size"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_record_that_cannot_be_sent_is_a_fault(spark: Any, make_topic: Make, name: str) -> None:
    from pyspark.sql import functions as F

    columns, properties, expected = FAULTS[name]
    topic = make_topic()
    frame = spark.createDataFrame([(b"x" * 5000,)], "value binary")
    frame = frame.withColumns({column: F.expr(text) for column, text in columns.items()})
    begun = time.monotonic()
    with pytest.raises(JobFailed) as failed:
        save(frame, sinks(target(topic, properties)))
    assert time.monotonic() - begun < 10
    assert failed.value.fault["code"] == "RUN-006"
    for part in (expected, "'orders'", topic.name):
        assert part in failed.value.fault["message"]


def test_the_broker_can_refuse_a_record(spark: Any, make_topic: Make) -> None:
    topic = make_topic(max_message_bytes="1000")
    with pytest.raises(JobFailed) as failed:
        save(spark.createDataFrame([(b"x" * 5000,)], "value binary"), sinks(target(topic)))
    assert failed.value.fault["code"] == "RUN-006"
    assert topic.name in failed.value.fault["message"]
    # The next write has a producer that works.
    save(spark.createDataFrame([(b"v",)], "value binary"), sinks(target(topic)))
    assert [r.value() for r in topic.read()] == [b"v"]


def test_a_row_without_topic_is_a_fault(spark: Any, make_topic: Make) -> None:
    spec = sinks(target(make_topic()) | {"topic": None})
    with pytest.raises(JobFailed) as failed:
        save(spark.createDataFrame([(b"v",)], "value binary"), spec)
    assert failed.value.fault["code"] == "RUN-006"
    assert "has no topic" in failed.value.fault["message"]


def test_an_unreachable_broker_is_a_fault_without_secrets(
    spark: Any, make_topic: Make, tmp_path: Path
) -> None:
    topic = make_topic()
    settings = {
        "bootstrap.servers": "127.0.0.1:9",
        "max.block.ms": "1500",
        "ssl.key.password": "hunter2-hunter2",
    }
    with pytest.raises(JobFailed) as failed:
        finish(numbers(spark, 10, tmp_path, sinks(target(topic, settings))))
    assert failed.value.fault["code"] == "RUN-006"
    assert topic.name in failed.value.fault["message"]
    assert "127.0.0.1:9" in failed.value.fault["hint"]
    assert "hunter2" not in failed.value.text

"""The Kafka source of the kernel, driven from PySpark against a real broker."""

from __future__ import annotations

import json
import threading
import time
import zoneinfo
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
)
from kernel_jobs import Job, JobFailed, Topic, finish

from harness.waiting import wait_for
from tidemill.spark.java import java_class

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

ALL = ["key", "value", "topic", "partition", "origin", "offset", "timestamp", "timestamp_type"]
ALL += ["leader_epoch", "headers", "header_list"]

Make = Callable[..., Topic]
Start = Callable[..., Job]


def read(spark: Any, topic: Topic, properties: dict[str, str] | None = None, **spec: Any) -> Any:
    described = {
        "table": "orders",
        "properties": {"bootstrap.servers": topic.bootstrap} | (properties or {}),
        "topics": [topic.name],
        "startup": {"mode": "earliest-offset"},
        "bounded": {"mode": "unbounded"},
        "discoveryIntervalMs": 300000,
    } | spec
    wanted = {key: value for key, value in described.items() if value is not None}
    return spark.readStream.format("tidemill-kafka").option("spec", json.dumps(wanted)).load()


def values(job: Job) -> list[str]:
    return sorted(bytes(row.value).decode() for row in job.rows)


def notices(spark: Any) -> str:
    """What was told to the user since the last call."""
    return str(java_class(spark, "io.tidemill.Notices").take())


def numbers(start: int, end: int) -> list[str]:
    return [f"{n:04}" for n in range(start, end)]


# -- rows --------------------------------------------------------------------------------------


def test_a_record_has_all_its_columns(
    spark: Any, make_topic: Make, jobs: Start, tmp_path: Path
) -> None:
    topic = make_topic(partitions=2)
    headers = [("a", b"1"), ("b", None), ("a", b"2"), ("ü", b"")]
    topic.write(b"v0", partition=1, key=b"k", headers=headers, timestamp=1_700_000_000_123)
    topic.write(None, b"", partition=1, timestamp=5)
    frame = read(spark, topic)
    assert frame.columns == ALL
    assert [f.dataType.simpleString() for f in frame.schema.fields] == [
        "binary",
        "binary",
        "string",
        "int",
        "int",
        "bigint",
        "timestamp",
        "string",
        "int",
        "map<string,binary>",
        "array<struct<key:string,value:binary>>",
    ]
    from pyspark.sql import functions as F

    job = finish(jobs(frame.withColumn("timestamp", F.unix_millis("timestamp")), tmp_path))
    first, tombstone, empty = sorted(job.rows, key=lambda row: row.offset)
    assert (bytes(first.key), bytes(first.value)) == (b"k", b"v0")
    assert (first.topic, first.partition, first.offset) == (topic.name, 1, 0)
    assert (first.timestamp, first.timestamp_type) == (1_700_000_000_123, "CreateTime")
    assert first.leader_epoch == 0
    assert first.headers == {"a": b"2", "b": None, "ü": b""}
    assert [tuple(header) for header in first.header_list] == headers
    assert (tombstone.key, tombstone.value, tombstone.timestamp) == (None, None, 5)
    assert (tombstone.headers, tombstone.header_list) == ({}, [])
    assert bytes(empty.value) == b""


def test_blocks_hold_what_rows_hold(
    spark: Any, make_topic: Make, jobs: Start, tmp_path: Path
) -> None:
    topic = make_topic(partitions=2)
    headers = [("a", b"1"), ("b", None), ("a", b"2"), ("ü", b"")]
    topic.write(b"v0", partition=1, key=b"k", headers=headers, timestamp=1_700_000_000_123)
    topic.write(None, b"", partition=1, timestamp=5)
    topic.write(*numbers(0, 9_000), partition=0, headers=[("n", b"x")])
    topic.write("a" * 600_000, "b" * 600_000, "c", partition=0)
    frame = read(spark, topic, blocks=True)
    assert frame.columns == ["block"]
    job = finish(jobs(frame, tmp_path / "blocks"))
    batches = [b for row in job.rows for b in pa.ipc.open_stream(bytes(row.block))]
    assert max(b.num_rows for b in batches) == 8192
    found = sorted(pa.Table.from_batches(batches).to_pylist(), key=address)
    rows = finish(jobs(read(spark, topic), tmp_path / "rows")).rows
    assert len(found) == len(rows) == 9_006
    utc = zoneinfo.ZoneInfo("UTC")
    for record, row in zip(found, sorted((r.asDict() for r in rows), key=address), strict=True):
        record["headers"] = dict(record["headers"])
        record["timestamp"] = record["timestamp"].astimezone(utc)
        row["timestamp"] = row["timestamp"].astimezone(utc)
        row["header_list"] = [header.asDict() for header in row["header_list"]]
        assert record == row
    last = [p["sources"][0]["metrics"]["records"] for p in job.progress][-1]
    assert last == "9006"


def address(record: dict[str, Any]) -> tuple[int, int]:
    return record["partition"], record["offset"]


def test_log_append_time_is_named(
    spark: Any, make_topic: Make, jobs: Start, tmp_path: Path
) -> None:
    topic = make_topic(message_timestamp_type="LogAppendTime")
    topic.write(b"v", timestamp=5)
    [row] = finish(jobs(read(spark, topic, columns=["timestamp_type"]), tmp_path)).rows
    assert row.asDict() == {"timestamp_type": "LogAppendTime"}


def test_only_the_wanted_columns_are_read_in_the_wanted_order(
    spark: Any, make_topic: Make, jobs: Start, tmp_path: Path
) -> None:
    topic = make_topic()
    topic.write(b"v", key=b"k")
    frame = read(spark, topic, columns=["offset", "value"])
    assert frame.columns == ["offset", "value"]
    [row] = finish(jobs(frame, tmp_path)).rows
    assert (row.offset, bytes(row.value)) == (0, b"v")


def test_rows_without_columns_can_be_counted(
    spark: Any, make_topic: Make, jobs: Start, tmp_path: Path
) -> None:
    topic = make_topic(partitions=2)
    topic.write(*numbers(0, 30), partition=0)
    topic.write(*numbers(0, 12), partition=1)
    assert len(finish(jobs(read(spark, topic, columns=[]), tmp_path)).rows) == 42


def test_an_unknown_column_or_field_is_refused(spark: Any, make_topic: Make) -> None:
    topic = make_topic()
    with pytest.raises(Exception, match="no column 'valu'"):
        read(spark, topic, columns=["valu"])
    with pytest.raises(Exception, match="not a valid SourceSpec"):
        read(spark, topic, topicz=1)


# -- start and end -----------------------------------------------------------------------------


@pytest.fixture
def filled(make_topic: Make) -> Topic:
    """Offsets 0..9 in each of two partitions; the timestamp of an offset is 1000 times itself."""
    topic = make_topic(partitions=2)
    for partition in (0, 1):
        for offset in range(10):
            topic.write(f"{partition}.{offset}", partition=partition, timestamp=1000 * offset + 1)
    return topic


def offsets_read(job: Job) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {0: [], 1: []}
    for row in job.rows:
        found[row.partition].append(row.offset)
    return {partition: sorted(offsets) for partition, offsets in found.items()}


STARTS = {
    "earliest": ({"mode": "earliest-offset"}, 0, 0),
    "latest": ({"mode": "latest-offset"}, 10, 10),
    "timestamp": ({"mode": "timestamp", "timestampMillis": 6500}, 7, 7),
    "timestamp after the end": ({"mode": "timestamp", "timestampMillis": 99_000}, 10, 10),
    # A partition that is not listed starts at the group's offset, else at the beginning.
    "specific, one listed": ({"mode": "specific-offsets", "offsets": {"1": 8}}, 0, 8),
    "specific, out of range": ({"mode": "specific-offsets", "offsets": {"0": 99, "1": 9}}, 0, 9),
}


@pytest.mark.parametrize("name", STARTS)
def test_startup_mode(spark: Any, filled: Topic, jobs: Start, tmp_path: Path, name: str) -> None:
    startup, first, second = STARTS[name]
    job = finish(jobs(read(spark, filled, startup=startup), tmp_path))
    assert offsets_read(job) == {0: list(range(first, 10)), 1: list(range(second, 10))}


def test_group_offsets_are_where_the_group_left_off(
    spark: Any, filled: Topic, jobs: Start, tmp_path: Path
) -> None:
    group = {"group.id": f"{filled.name}-g"}
    filled.commit(group["group.id"], {0: 4, 1: 9})
    at_group = {"mode": "group-offsets"}
    job = finish(jobs(read(spark, filled, group, startup=at_group), tmp_path / "a"))
    assert offsets_read(job) == {0: [4, 5, 6, 7, 8, 9], 1: [9]}
    # Done: the group is now at the end, for whoever watches it.
    assert filled.committed(group["group.id"]) == [10, 10]
    listed = {"mode": "specific-offsets", "offsets": {"0": 7}}
    job = finish(jobs(read(spark, filled, group, startup=listed), tmp_path / "b"))
    assert offsets_read(job) == {0: [7, 8, 9], 1: []}


@pytest.mark.parametrize(("reset", "expected"), [("earliest", 0), ("latest", 10)])
def test_a_partition_without_group_offset_is_reset(
    spark: Any, filled: Topic, jobs: Start, tmp_path: Path, reset: str, expected: int
) -> None:
    group = {"group.id": f"{filled.name}-g", "auto.offset.reset": reset}
    filled.commit(group["group.id"], {0: 4})
    job = finish(jobs(read(spark, filled, group, startup={"mode": "group-offsets"}), tmp_path))
    assert offsets_read(job) == {0: [4, 5, 6, 7, 8, 9], 1: list(range(expected, 10))}


def test_nothing_is_committed_to_a_group_that_nobody_named(
    spark: Any, filled: Topic, jobs: Start, tmp_path: Path
) -> None:
    group = "KafkaSource-default_catalog.default_database.orders"
    finish(jobs(read(spark, filled, defaultGroup=group), tmp_path))
    assert filled.committed(group) == [-1001, -1001]


def test_without_reset_a_missing_group_offset_is_a_fault(
    spark: Any, filled: Topic, jobs: Start, tmp_path: Path
) -> None:
    group = {"group.id": f"{filled.name}-g"}
    filled.commit(group["group.id"], {0: 4})
    with pytest.raises(JobFailed) as failed:
        finish(jobs(read(spark, filled, group, startup={"mode": "group-offsets"}), tmp_path))
    assert failed.value.fault["code"] == "RUN-004"
    assert f"{filled.name}-1" in failed.value.fault["message"]
    assert "'properties.auto.offset.reset'" in failed.value.fault["hint"]


ENDS = {
    "latest": ({"mode": "latest-offset"}, 10, 10),
    "timestamp": ({"mode": "timestamp", "timestampMillis": 6500}, 7, 7),
    # A partition that is not listed and where the group has committed nothing gives no rows.
    "specific": ({"mode": "specific-offsets", "offsets": {"0": 3}}, 3, 0),
    "before the start": ({"mode": "specific-offsets", "offsets": {"0": 0, "1": 0}}, 0, 0),
}


@pytest.mark.parametrize("name", ENDS)
def test_bounded_mode(spark: Any, filled: Topic, jobs: Start, tmp_path: Path, name: str) -> None:
    bounded, first, second = ENDS[name]
    job = finish(jobs(read(spark, filled, bounded=bounded), tmp_path))
    assert offsets_read(job) == {0: list(range(first)), 1: list(range(second))}


def test_bounded_by_group_offsets(spark: Any, filled: Topic, jobs: Start, tmp_path: Path) -> None:
    group = {"group.id": f"{filled.name}-g"}
    bounded = {"mode": "group-offsets"}
    filled.commit(group["group.id"], {0: 2})
    with pytest.raises(JobFailed) as failed:
        finish(jobs(read(spark, filled, group, bounded=bounded), tmp_path / "a"))
    assert failed.value.fault["code"] == "RUN-004"
    filled.commit(group["group.id"], {1: 5})
    job = finish(jobs(read(spark, filled, group, bounded=bounded), tmp_path / "b"))
    assert offsets_read(job) == {0: [0, 1], 1: [0, 1, 2, 3, 4]}


def test_an_end_that_is_not_there_yet_is_waited_for(
    spark: Any, filled: Topic, jobs: Start, tmp_path: Path
) -> None:
    bounded = {"mode": "specific-offsets", "offsets": {"0": 12, "1": 1}}
    job = jobs(read(spark, filled, bounded=bounded), tmp_path)
    wait_for(lambda: len(job.rows) == 11)
    time.sleep(0.5)
    assert job.query.isActive
    filled.write("a", "b", "c")
    finish(job)
    assert offsets_read(job) == {0: list(range(12)), 1: [0]}


def test_start_and_end_are_decided_once(
    spark: Any, filled: Topic, jobs: Start, tmp_path: Path
) -> None:
    startup, bounded = {"mode": "latest-offset"}, {"mode": "latest-offset"}
    job = finish(jobs(read(spark, filled, startup=startup), tmp_path / "a"))
    assert job.rows == []
    filled.write("new")
    job = finish(jobs(read(spark, filled, startup=startup), tmp_path / "a"))
    assert offsets_read(job) == {0: [10], 1: []}
    stored = json.loads((tmp_path / "a" / "sources" / "0" / "bounds").read_text())
    assert stored["start"][filled.name] == {"0": 10, "1": 10}
    assert stored["end"] is None

    job = finish(jobs(read(spark, filled, bounded=bounded), tmp_path / "b"))
    assert len(job.rows) == 21
    filled.write("beyond")
    assert finish(jobs(read(spark, filled, bounded=bounded), tmp_path / "b")).rows == []


def test_a_time_to_start_at_is_looked_up_once(
    spark: Any, filled: Topic, jobs: Start, tmp_path: Path
) -> None:
    startup = {"mode": "timestamp", "timestampMillis": 99_000}
    assert finish(jobs(read(spark, filled, startup=startup), tmp_path)).rows == []
    # Looked up again, the start would be the second of them.
    filled.write("early", timestamp=50_000)
    filled.write("late", timestamp=100_000)
    job = finish(jobs(read(spark, filled, startup=startup), tmp_path))
    assert offsets_read(job) == {0: [10, 11], 1: []}


@pytest.mark.parametrize(("begun", "moved"), [(4, 0), (4, 12), (10, 0)])
def test_a_checkpoint_counts_before_the_groups_offsets(
    spark: Any, filled: Topic, jobs: Start, tmp_path: Path, begun: int, moved: int
) -> None:
    """The group is moved back or ahead between two runs, of which the first may have read nothing."""
    group = {"group.id": f"{filled.name}-g"}
    frame = read(spark, filled, group, startup={"mode": "group-offsets"})
    filled.commit(group["group.id"], {0: begun, 1: 10})
    job = finish(jobs(frame, tmp_path))
    assert offsets_read(job) == {0: list(range(begun, 10)), 1: []}
    filled.write("a", "b", "c")
    filled.move(group["group.id"], {0: moved, 1: 0})
    job = finish(jobs(frame, tmp_path))
    assert offsets_read(job) == {0: [10, 11, 12], 1: []}
    assert filled.committed(group["group.id"])[0] == 13


def test_empty_topics_end_at_once(
    spark: Any, make_topic: Make, jobs: Start, tmp_path: Path
) -> None:
    topic = make_topic(partitions=3)
    assert finish(jobs(read(spark, topic, bounded={"mode": "latest-offset"}), tmp_path)).rows == []


def test_starts_are_counted_below_a_checkpoint(
    spark: Any, filled: Topic, jobs: Start, tmp_path: Path
) -> None:
    starts = java_class(spark, "io.tidemill.Lifecycle")
    both = read(spark, filled).union(read(spark, filled, table="other"))
    assert starts.fixed(str(tmp_path)) == 0
    finish(jobs(both, tmp_path / "job"))
    assert starts.fixed(str(tmp_path)) == starts.fixed(f"file://{tmp_path}/") == 2
    assert starts.fixed(f"file:{tmp_path}/job") == 2
    assert starts.fixed(str(tmp_path / "jo")) == 0


# -- batches -----------------------------------------------------------------------------------


def test_a_job_that_is_asked_to_end_before_it_has_a_source_begins_no_batch(
    spark: Any, filled: Topic, jobs: Start, tmp_path: Path
) -> None:
    lifecycle = java_class(spark, "io.tidemill.Lifecycle")
    lifecycle.begin(str(tmp_path))
    lifecycle.drain(str(tmp_path))
    assert finish(jobs(read(spark, filled), tmp_path)).rows == []
    assert lifecycle.isDrained(str(tmp_path))
    lifecycle.begin(str(tmp_path))
    assert len(finish(jobs(read(spark, filled), tmp_path)).rows) == 20


def test_a_restart_reads_every_offset_once(
    spark: Any, make_topic: Make, jobs: Start, tmp_path: Path
) -> None:
    topic = make_topic(partitions=2)
    group = {"group.id": f"{topic.name}-g"}
    topic.write(*numbers(0, 500), partition=0)
    topic.write(*numbers(500, 1000), partition=1)
    frame = read(spark, topic, group, maxRowsPerBatch=200)
    first = jobs(frame, tmp_path, available_now=False)
    wait_for(lambda: len(first.rows) >= 400)
    first.query.stop()
    assert first.query.exception() is None
    topic.write(*numbers(1000, 1100), partition=1)
    second = finish(jobs(frame, tmp_path))
    seen = {(row.partition, row.offset) for row in [*first.rows, *second.rows]}
    assert seen == {(0, n) for n in range(500)} | {(1, n) for n in range(600)}
    # foreachBatch repeats a batch that was under way; nothing else may come twice.
    repeated = len(first.rows) + len(second.rows) - 1100
    assert repeated in (0, 200)
    assert topic.committed(group["group.id"]) == [500, 600]
    assert second.progress[-1]["sources"][0]["endOffset"][topic.name] == {"0": 500, "1": 600}


def test_a_replayed_batch_is_the_same_batch(
    spark: Any, make_topic: Make, jobs: Start, tmp_path: Path
) -> None:
    topic = make_topic()
    topic.write(*numbers(0, 50))
    first = finish(jobs(read(spark, topic), tmp_path))
    (tmp_path / "commits" / "0").unlink()
    topic.write(*numbers(50, 60))
    second = finish(jobs(read(spark, topic), tmp_path))
    assert second.rows[:50] == first.rows
    assert values(second) == numbers(0, 60)
    assert second.batches == [50, 10]


def test_a_batch_takes_its_share_of_every_partition(
    spark: Any, make_topic: Make, jobs: Start, tmp_path: Path
) -> None:
    topic = make_topic(partitions=3)
    topic.write(*numbers(0, 900), partition=0)
    topic.write(*numbers(0, 60), partition=2)
    taken: list[dict[int, int]] = []

    def count(batch: Any, _: int) -> None:
        taken.append({row["partition"]: row["count"] for row in batch.collect()})

    frame = read(spark, topic, columns=["partition"], maxRowsPerBatch=200)
    writer = frame.writeStream.option("checkpointLocation", str(tmp_path))
    query = writer.foreachBatch(lambda b, i: count(b.groupBy("partition").count(), i))
    query.trigger(availableNow=True).start().awaitTermination(60)
    assert sum(sum(batch.values()) for batch in taken) == 960
    assert max(sum(batch.values()) for batch in taken) == 200
    # The short partition gets at least the half of an even share, and is done first.
    assert taken[0][2] >= 50
    assert [len(batch) for batch in taken] == [2, 2, 1, 1, 1][: len(taken)]


def test_a_batch_may_be_smaller_than_the_number_of_partitions(
    spark: Any, make_topic: Make, jobs: Start, tmp_path: Path
) -> None:
    topic = make_topic(partitions=5)
    for partition in range(5):
        topic.write("a", "b", partition=partition)
    job = finish(jobs(read(spark, topic, maxRowsPerBatch=3), tmp_path))
    assert job.batches == [3, 3, 3, 1]
    assert len({(row.partition, row.offset) for row in job.rows}) == 10
    # Every partition has its turn before one has its second.
    assert {row.partition for row in job.rows[:6]} == set(range(5))


def test_available_now_ends_at_what_is_there_at_the_start(
    spark: Any, make_topic: Make, jobs: Start, tmp_path: Path
) -> None:
    topic = make_topic()
    topic.write(*numbers(0, 10))
    frame = read(spark, topic, maxRowsPerBatch=4)
    rows: list[Any] = []

    def collect_and_write_more(batch: Any, _: int) -> None:
        rows.extend(batch.collect())
        topic.write("more")

    writer = frame.writeStream.option("checkpointLocation", str(tmp_path))
    query = writer.foreachBatch(collect_and_write_more).trigger(availableNow=True).start()
    assert query.awaitTermination(60)
    assert len(rows) == 10
    assert len(finish(jobs(frame, tmp_path)).rows) == 3


def test_lag_is_reported_by_partition(
    spark: Any, make_topic: Make, jobs: Start, tmp_path: Path
) -> None:
    topic = make_topic(partitions=2)
    topic.write(*numbers(0, 30), partition=0)
    topic.write(*numbers(0, 10), partition=1)
    job = finish(jobs(read(spark, topic, maxRowsPerBatch=20), tmp_path))
    metrics = [p["sources"][0]["metrics"] for p in job.progress if p["numInputRows"]]
    assert [m["lag"] for m in metrics] == ["20", "0"]
    assert json.loads(metrics[-1]["partitions"]) == {topic.name: {"0": 0, "1": 0}}
    assert sum(json.loads(metrics[0]["partitions"])[topic.name].values()) == 20


def test_new_partitions_are_read_from_their_beginning(
    spark: Any, make_topic: Make, jobs: Start, tmp_path: Path
) -> None:
    topic = make_topic()
    topic.write("a")
    frame = read(spark, topic, startup={"mode": "latest-offset"}, discoveryIntervalMs=200)
    job = jobs(frame, tmp_path, available_now=False)
    wait_for(lambda: java_class(spark, "io.tidemill.Lifecycle").fixed(str(tmp_path)) == 1)
    for future in topic.admin.create_partitions([NewPartitions(topic.name, 2)]).values():
        future.result(30)
    topic.write("b", "c", partition=1)
    wait_for(lambda: values(job) == ["b", "c"])
    topic.write("d", partition=1)
    wait_for(lambda: values(job) == ["b", "c", "d"])


def test_a_pattern_matches_whole_names(
    spark: Any, make_topic: Make, jobs: Start, tmp_path: Path
) -> None:
    one, two, not_it = make_topic(hint="x"), make_topic(hint="x"), make_topic(hint="y")
    for topic in (one, two, not_it):
        topic.write(topic.name)
    stem = one.name.rpartition("-x-")[0].replace("[", r"\[")
    frame = read(spark, one, topics=None, topicPattern=f"{stem}-x-[0-9]+")
    assert values(finish(jobs(frame, tmp_path))) == sorted([one.name, two.name])


# -- gaps and losses ---------------------------------------------------------------------------


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_transaction_markers_do_not_hold_up_the_end(
    spark: Any, make_topic: Make, jobs: Start, tmp_path: Path, isolation: str
) -> None:
    topic = make_topic()
    settings = {"bootstrap.servers": topic.bootstrap, "transactional.id": topic.name}
    producer = Producer(settings)
    producer.init_transactions(30)
    for text, end in [
        ("kept", producer.commit_transaction),
        ("lost", producer.abort_transaction),
        ("last", producer.abort_transaction),
    ]:
        producer.begin_transaction()
        producer.produce(topic.name, text)
        producer.flush(30)
        end(30)
    frame = read(spark, topic, {"isolation.level": isolation}, bounded={"mode": "latest-offset"})
    job = finish(jobs(frame, tmp_path), 20)
    expected = ["kept"] if isolation == "read_committed" else ["kept", "last", "lost"]
    assert values(job) == expected
    # The next batch begins where the position, not the last record, was.
    topic.write("after")
    job = finish(jobs(read(spark, topic, {"isolation.level": isolation}), tmp_path / "b"), 20)
    assert values(job) == sorted([*expected, "after"])


@pytest.fixture
def under_way(make_topic: Make) -> Iterator[tuple[Topic, Producer]]:
    """Offsets 0..2, then 3 and 4 of a transaction that is open, then 5: up to 3 is stable, up to 6 is there."""
    topic = make_topic()
    topic.write(*numbers(0, 3))
    producer = Producer({"bootstrap.servers": topic.bootstrap, "transactional.id": topic.name})
    producer.init_transactions(30)
    producer.begin_transaction()
    for text in numbers(3, 5):
        producer.produce(topic.name, text)
    producer.flush(30)
    topic.write("0005")
    yield topic, producer


COMMITTED = {"isolation.level": "read_committed"}


@pytest.mark.parametrize(
    ("mode", "offset", "reset"),
    [
        ("group-offsets", 5, "none"),
        ("group-offsets", 6, "earliest"),
        ("specific-offsets", 4, "none"),
    ],
)
def test_a_start_behind_an_open_transaction_is_in_range(
    spark: Any,
    under_way: tuple[Topic, Producer],
    jobs: Start,
    tmp_path: Path,
    mode: str,
    offset: int,
    reset: str,
) -> None:
    topic, producer = under_way
    group = f"{topic.name}-g"
    properties = COMMITTED | {"group.id": group, "auto.offset.reset": reset}
    startup: dict[str, Any] = {"mode": mode}
    if mode == "group-offsets":
        topic.commit(group, {0: offset})
    else:
        startup["offsets"] = {"0": offset}
    job = jobs(read(spark, topic, properties, startup=startup), tmp_path, available_now=False)
    wait_for(lambda: len(job.progress) > 0)
    time.sleep(0.5)
    assert job.query.isActive
    assert job.rows == []
    producer.commit_transaction(30)
    topic.write("last")
    wait_for(lambda: "last" in values(job))
    assert values(job) == [*numbers(offset, 6), "last"]


def test_a_restart_that_reads_committed_records_waits_for_them(
    spark: Any, under_way: tuple[Topic, Producer], jobs: Start, tmp_path: Path
) -> None:
    topic, producer = under_way
    assert len(finish(jobs(read(spark, topic), tmp_path)).rows) == 6
    committed = read(spark, topic, COMMITTED)
    assert finish(jobs(committed, tmp_path)).rows == []
    # The batch is repeated, and up to its end not all is stable.
    (tmp_path / "commits" / "0").unlink()
    job = jobs(committed, tmp_path)
    time.sleep(8)
    assert job.query.isActive
    producer.abort_transaction(30)
    assert values(finish(job)) == ["0000", "0001", "0002", "0005"]


def test_compacted_offsets_do_not_hold_up_the_end(
    spark: Any, make_topic: Make, jobs: Start, tmp_path: Path
) -> None:
    topic = make_topic(cleanup_policy="compact", segment_ms="50", min_cleanable_dirty_ratio="0.001")
    eager = ConfigResource(
        ConfigResource.Type.BROKER,
        "1",
        incremental_configs=[
            ConfigEntry(
                "log.cleaner.backoff.ms",
                "100",
                incremental_operation=AlterConfigOpType.SET,
            )
        ],
    )
    for future in topic.admin.incremental_alter_configs([eager]).values():
        future.result(30)
    for n in range(10):
        topic.write(str(n), key=b"k")
    deadline = time.monotonic() + 40
    while len(topic.read()) > 4:
        # A new record closes the segment, so that the cleaner may have it.
        topic.write("x", key=b"k")
        time.sleep(0.3)
        assert time.monotonic() < deadline, "the broker does not compact"
    bounded = {"mode": "specific-offsets", "offsets": {"0": 5}}
    assert finish(jobs(read(spark, topic, bounded=bounded), tmp_path / "a"), 20).rows == []
    bounded = {"mode": "latest-offset"}
    job = finish(jobs(read(spark, topic, bounded=bounded), tmp_path / "b"), 20)
    assert [row.offset for row in job.rows] == [record.offset() for record in topic.read()]


def delete_before(topic: Topic, offset: int) -> None:
    place = TopicPartition(topic.name, 0, offset)
    for future in topic.admin.delete_records([place]).values():
        future.result(30)


def test_deleted_records_are_a_fault_or_a_warning(
    spark: Any, make_topic: Make, jobs: Start, tmp_path: Path
) -> None:
    topic = make_topic()
    topic.write(*numbers(0, 5))
    finish(jobs(read(spark, topic), tmp_path))
    topic.write(*numbers(5, 20))
    delete_before(topic, 12)
    with pytest.raises(JobFailed) as failed:
        finish(jobs(read(spark, topic), tmp_path))
    assert failed.value.fault["code"] == "RUN-003"
    assert f"offset 5 of partition {topic.name}-0" in failed.value.fault["message"]
    assert "12 to 20" in failed.value.fault["message"]
    notices(spark)
    job = finish(jobs(read(spark, topic, onDataLoss="warn"), tmp_path))
    assert values(job) == numbers(12, 20)
    assert notices(spark).splitlines() == [
        f"table 'orders': the records of partition {topic.name}-0 from offset 5 on are gone;"
        " reading goes on at 12"
    ]


def remove(topic: Topic) -> None:
    for future in topic.admin.delete_topics([topic.name]).values():
        future.result(30)
    wait_for(lambda: topic.name not in topic.admin.list_topics(timeout=10).topics)


def make_anew(topic: Topic) -> None:
    def is_made() -> bool:
        try:
            return bool(topic.create())
        except Exception:
            return False

    wait_for(is_made)


@pytest.mark.parametrize(("length", "repeats"), [(1, False), (20, False), (20, True)])
def test_a_topic_made_anew_is_a_fault_or_read_from_its_beginning(
    spark: Any, make_topic: Make, jobs: Start, tmp_path: Path, length: int, repeats: bool
) -> None:
    topic = make_topic()
    topic.write(*numbers(0, 9))
    finish(jobs(read(spark, topic), tmp_path))
    if repeats:
        (tmp_path / "commits" / "0").unlink()
    remove(topic)
    make_anew(topic)
    topic.write(*numbers(100, 100 + length))
    with pytest.raises(JobFailed) as failed:
        finish(jobs(read(spark, topic), tmp_path))
    assert failed.value.fault["code"] == "RUN-003"
    assert f"topic '{topic.name}' was made anew" in failed.value.fault["message"]
    notices(spark)
    job = jobs(read(spark, topic, onDataLoss="warn"), tmp_path, available_now=False)
    wait_for(lambda: len(job.rows) >= length)
    assert "from offset 9 on are gone; reading goes on at 0" in notices(spark)
    topic.write("last")
    wait_for(lambda: "last" in values(job))
    assert values(job) == [*numbers(100, 100 + length), "last"]
    job.query.stop()
    # What is read of the new topic is remembered as its own.
    assert finish(jobs(read(spark, topic), tmp_path)).rows == []


@pytest.mark.parametrize("length", [1, 20])
def test_a_topic_made_anew_while_the_job_runs_is_read_from_its_beginning(
    spark: Any, make_topic: Make, jobs: Start, tmp_path: Path, length: int
) -> None:
    topic = make_topic()
    topic.write(*numbers(0, 9))
    frame = read(spark, topic, discoveryIntervalMs=200)
    job = jobs(frame, tmp_path, available_now=False)
    wait_for(lambda: len(job.rows) == 9)
    said = [notices(spark)]
    remove(topic)
    wait_for(lambda: bool(said.append(notices(spark)) or "was removed" in "".join(said)))
    make_anew(topic)
    topic.write(*numbers(100, 100 + length))
    wait_for(lambda: len(job.rows) >= 9 + length)
    topic.write("last")
    wait_for(lambda: "last" in values(job))
    assert values(job) == [*numbers(0, 9), *numbers(100, 100 + length), "last"]
    assert f"topic '{topic.name}' was made anew; it is read from its beginning" in (
        "".join(said) + notices(spark)
    )


def test_a_topic_that_is_removed_before_its_batch_is_read_gives_no_rows(
    spark: Any, make_topic: Make, tmp_path: Path
) -> None:
    stays, goes = make_topic(hint="stays"), make_topic()
    stays.write("stays")
    goes.write("goes")
    rows: list[Any] = []

    def remove_and_collect(batch: Any, _: int) -> None:
        if not rows:
            remove(goes)
            time.sleep(1)  # the broker takes a topic off its list before its log
        rows.extend(batch.collect())

    notices(spark)
    frame = read(spark, stays, topics=[stays.name, goes.name])
    writer = frame.writeStream.option("checkpointLocation", str(tmp_path))
    query = writer.foreachBatch(remove_and_collect).trigger(availableNow=True).start()
    assert query.awaitTermination(60)
    assert [bytes(row.value) for row in rows] == [b"stays"]
    told = [line for line in notices(spark).splitlines() if "was removed" in line]
    assert told == [
        f"table 'orders': topic '{goes.name}' was removed; what was not read of it is lost, and the"
        " job goes on without it"
    ]


def test_a_broker_that_delivers_nothing_is_a_fault(
    spark: Any, make_topic: Make, jobs: Start, tmp_path: Path
) -> None:
    topic = make_topic()
    topic.write("v")
    patient = {
        "fetch.min.bytes": "50000000",
        "fetch.max.wait.ms": "20000",
        "default.api.timeout.ms": "1500",
        "request.timeout.ms": "1400",
        "retry.backoff.max.ms": "500",
    }
    with pytest.raises(JobFailed) as failed:
        finish(jobs(read(spark, topic, patient), tmp_path))
    assert failed.value.fault["code"] == "RUN-005"
    for part in (topic.name, "partition 0", "offset 0"):
        assert part in failed.value.fault["message"]


def test_a_missing_topic_is_a_fault(
    spark: Any, make_topic: Make, jobs: Start, tmp_path: Path
) -> None:
    topic = make_topic()
    with pytest.raises(JobFailed) as failed:
        finish(jobs(read(spark, topic, topics=[topic.name, "nope"]), tmp_path))
    assert failed.value.fault["code"] == "RUN-002"
    assert "'nope'" in failed.value.fault["message"]
    assert topic.bootstrap in failed.value.fault["message"]
    assert "nope" not in topic.admin.list_topics(timeout=10).topics


# -- clients -----------------------------------------------------------------------------------


def bean(spark: Any, client: str, attribute: str) -> Any:
    """An attribute of a Kafka client of this JVM, or None if there is no such client."""
    jvm = spark._jvm
    server = jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer()
    name = jvm.javax.management.ObjectName(f"kafka.consumer:type={client}")

    def array(kind: Any, *items: Any) -> Any:
        filled = spark.sparkContext._gateway.new_array(kind, len(items))
        for i, item in enumerate(items):
            filled[i] = item
        return filled

    def call(method: str, *arguments: Any) -> Any:
        # The server's class is hidden in its module, its interface is not.
        kind = jvm.java.lang.Class
        types = [kind.forName("javax.management.ObjectName"), kind.forName("java.lang.String")]
        found = kind.forName("javax.management.MBeanServer").getMethod(
            method, array(kind, *types[: len(arguments)])
        )
        return found.invoke(server, array(jvm.java.lang.Object, *arguments))

    return call("getAttribute", name, attribute) if call("isRegistered", name) else None


def test_a_consumer_is_kept_over_batches_and_closed_with_the_query(
    spark: Any, make_topic: Make, jobs: Start, tmp_path: Path
) -> None:
    topic = make_topic()
    job = jobs(read(spark, topic), tmp_path, available_now=False)

    def started() -> Any:
        return bean(spark, f"app-info,id=tidemill-orders-{topic.name}-0", "StartTimeMs")

    topic.write("a")
    wait_for(lambda: len(job.rows) == 1)
    wait_for(lambda: started() is not None)
    begun = started()
    topic.write("b", "c")
    wait_for(lambda: len(job.rows) == 3)
    assert started() == begun
    job.query.stop()
    wait_for(lambda: started() is None)


def test_an_idle_query_asks_the_broker_seldom(
    spark: Any, make_topic: Make, jobs: Start, tmp_path: Path
) -> None:
    topic = make_topic()
    topic.write("a")
    job = jobs(read(spark, topic), tmp_path, available_now=False)
    wait_for(lambda: len(job.rows) == 1)

    def requests() -> float:
        driver = "consumer-metrics,client-id=tidemill-orders-driver"
        return float(bean(spark, driver, "request-total"))

    time.sleep(0.5)
    before = requests()
    time.sleep(1)
    assert requests() - before < 15


def test_stopping_is_not_a_failure_even_without_a_broker(
    spark: Any, make_topic: Make, jobs: Start, tmp_path: Path
) -> None:
    topic = make_topic()
    idle = jobs(read(spark, topic), tmp_path / "a", available_now=False)
    nowhere = {"bootstrap.servers": "127.0.0.1:9"}
    lost = jobs(read(spark, topic, nowhere), tmp_path / "b", available_now=False)
    bounded = {"mode": "specific-offsets", "offsets": {"0": 5}}
    waiting = jobs(read(spark, topic, bounded=bounded), tmp_path / "c")
    time.sleep(1.5)
    begun = time.monotonic()
    for job in (idle, lost, waiting):
        job.query.stop()
        assert job.query.exception() is None
    assert time.monotonic() - begun < 15


def test_an_unreachable_broker_is_a_fault_that_names_it(
    spark: Any, make_topic: Make, jobs: Start, tmp_path: Path
) -> None:
    topic = make_topic()
    nowhere = {
        "bootstrap.servers": "127.0.0.1:9",
        "default.api.timeout.ms": "1500",
        "request.timeout.ms": "1000",
    }
    with pytest.raises(JobFailed) as failed:
        finish(jobs(read(spark, topic, nowhere), tmp_path))
    assert failed.value.fault["code"] == "RUN-001"
    assert "127.0.0.1:9" in failed.value.fault["message"]


SECRET = "hunter2-hunter2"


@pytest.mark.parametrize(
    "properties",
    [
        {"security.protocol": "SASL_PLAINTEXT", "sasl.jaas.config": f"Module x='{SECRET}'"},
        {"ssl.key.password": SECRET, "max.poll.records": SECRET},
        {"ssl.key.password": SECRET, "bootstrap.servers": "not an address"},
    ],
)
def test_secrets_are_in_no_error(
    spark: Any, make_topic: Make, jobs: Start, tmp_path: Path, properties: dict[str, str]
) -> None:
    topic = make_topic()
    with pytest.raises(JobFailed) as failed:
        finish(jobs(read(spark, topic, properties), tmp_path))
    assert SECRET not in failed.value.text
    assert failed.value.fault["code"] in ("RUN-001", "RUN-008")
    assert SECRET not in read(spark, topic, properties)._jdf.queryExecution().toString()


def test_what_the_engine_must_own_is_overridden(
    spark: Any, make_topic: Make, jobs: Start, tmp_path: Path
) -> None:
    topic = make_topic()
    topic.write("v")
    meddling = {
        "value.deserializer": "no.such.Class",
        "key.deserializer": "no.such.Class",
        "enable.auto.commit": "true",
        "auto.offset.reset": "latest",
        "group.id": f"{topic.name}-g",
    }
    assert values(finish(jobs(read(spark, topic, meddling), tmp_path))) == ["v"]


# -- questions before a job --------------------------------------------------------------------


def admin_spec(bootstrap: str, **more: Any) -> str:
    return json.dumps({"properties": {"bootstrap.servers": bootstrap}} | more)


def test_topics_are_described_and_created(spark: Any, make_topic: Make) -> None:
    admin = java_class(spark, "io.tidemill.kafka.Admin")
    topic = make_topic(partitions=3)
    new = f"{topic.name}-new"
    shape = {"partitions": 2, "configs": {"cleanup.policy": "compact"}}
    created = admin.createTopics(
        admin_spec(topic.bootstrap, topics={new: shape, topic.name: shape})
    )
    assert json.loads(created) == {"created": [new], "existing": [topic.name]}
    asked = admin_spec(topic.bootstrap, topics=[topic.name, new, "nope"])
    found = json.loads(admin.describeTopics(asked, 15000))
    # A broker that does not look at rights tells all of them.
    rights = found.pop("operations")
    assert {name: {"READ", "WRITE", "ALTER"} <= set(may) for name, may in rights.items()} == {
        topic.name: True,
        new: True,
    }
    assert found == {"topics": {topic.name: 3, new: 2}, "missing": ["nope"]}
    asked = admin_spec(topic.bootstrap, topicPattern=f"{topic.name}.*")
    assert json.loads(admin.describeTopics(asked, 15000))["topics"] == {topic.name: 3, new: 2}


@pytest.mark.parametrize(
    ("address", "is_passing"),
    [
        ("127.0.0.1:9", True),
        # The names of brokers that are away may be away with them.
        ("no-such-host.invalid:9092", True),
        ("not an address", False),
    ],
)
def test_an_unreachable_broker_is_noticed_in_time(
    spark: Any, address: str, is_passing: bool
) -> None:
    from py4j.protocol import Py4JJavaError

    begun = time.monotonic()
    with pytest.raises(Py4JJavaError) as failed:
        asked = admin_spec(address, topics=["t"])
        java_class(spark, "io.tidemill.kafka.Admin").describeTopics(asked, 2000)
    assert time.monotonic() - begun < 4
    message = failed.value.java_exception.getMessage()
    assert message.startswith("TIDEMILL{")
    fault = json.loads(message.removeprefix("TIDEMILL"))
    assert fault["code"] == "RUN-001"
    assert address in fault["message"]
    assert fault.get("passing", False) is is_passing


def test_two_queries_read_one_table_independently(
    spark: Any, filled: Topic, jobs: Start, tmp_path: Path
) -> None:
    frame = read(spark, filled)
    both = [jobs(frame, tmp_path / name) for name in "ab"]
    threads = [threading.Thread(target=finish, args=(job,)) for job in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(job.rows) for job in both] == [20, 20]

"""Exactly-once tables of the kernel's Kafka sink: what a reader of committed records sees after every kind of restart.

A crash is played by what it leaves behind: a batch that is on the broker and not in Spark's commit log, or a batch
of which only some writers have committed. Real kills are in tests/faces/test_kills.py.
"""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import OffsetSpec
from kernel_jobs import Job, JobFailed, Topic, finish

from harness.kafka import consume

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

Make = Callable[..., Topic]


def sink(job: str, *topics: Topic, prefix: str = "p", **properties: str) -> str:
    """The spec of one exactly-once table per topic; each test has prefixes of its own, named after its topics."""
    return json.dumps(
        {
            "job": job,
            "sinks": [
                {
                    "table": f"table-{i}",
                    "topic": topic.name,
                    "properties": {"bootstrap.servers": topic.bootstrap, **properties},
                    "guarantee": "exactly-once",
                    "transactionalIdPrefix": f"{topics[0].name}-{prefix}",
                }
                for i, topic in enumerate(topics)
            ],
        }
    )


@pytest.fixture
def numbers(spark: Any) -> Iterator[Callable[..., Job]]:
    """Starts a query that writes 0, 1, 2 … from two tasks, up to `count` or without end.

    `breaks_at` is a task that fails when most of its rows are through; `sleeps` is for how many seconds one of them
    stops before its last row; `in_headers` puts what makes a record large into a header.
    """
    from pyspark.sql import functions as F

    started: list[Any] = []

    def start(
        spec: str,
        checkpoint: Path,
        count: int | None,
        size: int = 0,
        sinks: int = 1,
        breaks_at: int | None = None,
        per_batch: int = 300,
        sleeps: int = 0,
        in_headers: bool = False,
    ) -> Job:
        # Those of a count are all due at once, so that batches are as large as they may be.
        rate = 1_000_000_000 if count else 200
        datagen = {"rowsPerSecond": rate, "maxRowsPerBatch": per_batch}
        if count:
            datagen["numberOfRows"] = count
        frame = spark.readStream.format("tidemill-datagen").option("spec", json.dumps(datagen))
        number = F.col("id").cast("string")
        text = F.rpad(number, 20 if in_headers else max(size, 20), " ").cast("binary")
        if sleeps:
            nap = f"reflect('java.lang.Thread', 'sleep', {sleeps * 1000}L)"
            text = F.when(F.expr(f"id = {count} - 1 AND {nap} IS NULL"), None).otherwise(text)
        broken = F.expr(
            f"IF(id > 700 AND spark_partition_id() = {-1 if breaks_at is None else breaks_at},"
            " raise_error('broken on purpose'), NULL)"
        )
        frame = frame.load().repartition(2, "id")
        columns = [F.coalesce(broken.cast("binary"), text).alias("value")]
        if in_headers:
            columns.append(
                F.create_map(F.lit("h"), F.rpad(number, size, " ").cast("binary")).alias("headers")
            )
        frame = frame.select(*columns)
        whole = frame.withColumn("sink", F.lit(0))
        for i in range(1, sinks):
            whole = whole.unionAll(frame.withColumn("sink", F.lit(i)))
        writer = whole.writeStream.format("tidemill-kafka").option("spec", spec)
        writer = writer.option("checkpointLocation", str(checkpoint))
        if count:
            writer = writer.trigger(availableNow=True)
        job = Job(writer.start(), [])
        started.append(job.query)
        return job

    yield start
    for query in started:
        query.stop()


def committed(topic: Topic) -> list[int]:
    return sorted(int(r.value or b"") for r in consume(topic.bootstrap, topic.name))


def is_transaction_open(topic: Topic) -> bool:
    """Whether there are records that are neither committed nor given up."""

    def ends(level: IsolationLevel) -> list[int]:
        asked = {
            TopicPartition(topic.name, p): OffsetSpec.latest() for p in range(topic.partitions)
        }
        found = topic.admin.list_offsets(asked, isolation_level=level)
        return [answer.result().offset for answer in found.values()]

    return ends(IsolationLevel.READ_UNCOMMITTED) != ends(IsolationLevel.READ_COMMITTED)


def forget_last_commit(checkpoint: Path) -> None:
    """Spark has not heard that its last batch was written."""
    commits = [p for p in (checkpoint / "commits").iterdir() if p.name.isdigit()]
    last = max(commits, key=lambda p: int(p.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


# -- a batch again -----------------------------------------------------------------------------


def test_a_stream_is_written_once_over_epochs_and_runs(
    numbers: Callable[..., Job], make_topic: Make, tmp_path: Path
) -> None:
    topic = make_topic(partitions=2)
    spec = sink("job", topic)
    job = finish(numbers(spec, tmp_path, 1000))
    assert len(job.progress) >= 4
    assert committed(topic) == list(range(1000))
    finish(numbers(spec, tmp_path, 1200))
    assert committed(topic) == list(range(1200))


@pytest.mark.parametrize("sinks", [1, 2])
def test_a_batch_that_was_written_is_not_written_again(
    numbers: Callable[..., Job], make_topic: Make, tmp_path: Path, sinks: int
) -> None:
    topics = [make_topic(partitions=2) for _ in range(sinks)]
    spec = sink("job", *topics)
    finish(numbers(spec, tmp_path, 500, sinks=sinks))
    forget_last_commit(tmp_path)
    finish(numbers(spec, tmp_path, 700, sinks=sinks))
    for topic in topics:
        assert committed(topic) == list(range(700))


@pytest.mark.parametrize("size", [20, 100_000], ids=["held", "too much to hold"])
@pytest.mark.parametrize("at", [0, 1])
def test_a_batch_that_was_written_in_part_is_completed(
    numbers: Callable[..., Job], make_topic: Make, tmp_path: Path, at: int, size: int
) -> None:
    topic = make_topic(partitions=2)
    spec = sink("job", topic)
    rows = {"count": 800, "size": size, "per_batch": 800}
    with pytest.raises(JobFailed, match="broken on purpose"):
        finish(numbers(spec, tmp_path, breaks_at=at, **rows))
    seen = committed(topic)
    assert max(Counter(seen).values(), default=1) == 1
    assert len(seen) < 800
    finish(numbers(spec, tmp_path, **rows))
    assert committed(topic) == list(range(800))


# -- time and memory ---------------------------------------------------------------------------


@pytest.mark.parametrize("in_headers", [False, True], ids=["values", "headers"])
def test_more_than_a_writer_holds_is_sent_before_the_batch_is_complete(
    numbers: Callable[..., Job], make_topic: Make, tmp_path: Path, in_headers: bool
) -> None:
    topic = make_topic(partitions=2)
    rows = {"size": 100_000, "in_headers": in_headers, "per_batch": 800, "sleeps": 5}
    job = numbers(sink("job", topic), tmp_path, 800, **rows)
    while not is_transaction_open(topic):
        assert job.query.isActive
    # Sending what is held takes less.
    time.sleep(2)
    assert is_transaction_open(topic)
    finish(job)
    assert committed(topic) == list(range(800))


def test_a_transaction_that_was_open_for_too_long_is_told_and_may_be_tried_again(
    numbers: Callable[..., Job], make_topic: Make, tmp_path: Path
) -> None:
    topic = make_topic(partitions=2)
    spec = sink("job", topic, **{"transaction.timeout.ms": "1000"})
    rows = {"count": 800, "size": 100_000, "per_batch": 800}
    with pytest.raises(JobFailed) as failed:
        # The broker looks for such transactions every second.
        finish(numbers(spec, tmp_path, sleeps=10, **rows))
    assert failed.value.fault["code"] == "RUN-014"
    assert failed.value.fault["passing"]
    assert "'properties.transaction.timeout.ms'" in failed.value.fault["hint"]
    finish(numbers(sink("job", topic), tmp_path, **rows))
    assert committed(topic) == list(range(800))


# -- other jobs --------------------------------------------------------------------------------


def test_a_fresh_job_under_an_old_prefix_writes_from_its_beginning(
    numbers: Callable[..., Job], make_topic: Make, tmp_path: Path
) -> None:
    topic = make_topic()
    finish(numbers(sink("old", topic), tmp_path / "old", 500))
    finish(numbers(sink("new", topic), tmp_path / "new", 200))
    assert Counter(committed(topic)) == Counter([*range(500), *range(200)])
    # The old one comes back, and still knows what it has written.
    forget_last_commit(tmp_path / "old")
    finish(numbers(sink("old", topic), tmp_path / "old", 600))
    assert Counter(committed(topic)) == Counter([*range(600), *range(200)])


def test_a_job_whose_prefix_another_takes_is_fenced_and_told_so(
    numbers: Callable[..., Job], make_topic: Make, tmp_path: Path
) -> None:
    topic = make_topic()
    first = numbers(sink("first", topic), tmp_path / "first", None)
    while len(committed(topic)) < 100:
        assert first.query.isActive
    finish(numbers(sink("second", topic), tmp_path / "second", 300))
    with pytest.raises(JobFailed) as failed:
        finish(first)
    assert failed.value.fault["code"] == "RUN-009"
    assert f"'{topic.name}-p-…'" in failed.value.fault["message"]
    assert "sink.transactional-id-prefix" in failed.value.fault["hint"]
    # Whatever the first had written by then is whole: the numbers from 0 without a gap.
    values = Counter(committed(topic))
    assert list(values) == list(range(len(values)))


def test_an_old_copy_of_a_checkpoint_is_refused(
    numbers: Callable[..., Job], make_topic: Make, tmp_path: Path
) -> None:
    topic = make_topic()
    spec = sink("job", topic)
    finish(numbers(spec, tmp_path / "now", 300))
    shutil.copytree(tmp_path / "now", tmp_path / "old")
    finish(numbers(spec, tmp_path / "now", 1200))
    with pytest.raises(JobFailed) as failed:
        finish(numbers(spec, tmp_path / "old", 1200))
    assert failed.value.fault["code"] == "RUN-012"
    assert committed(topic) == list(range(1200))


# -- what is refused ---------------------------------------------------------------------------


def test_a_transaction_longer_than_the_broker_allows_is_refused(
    numbers: Callable[..., Job], make_topic: Make, tmp_path: Path
) -> None:
    spec = sink("job", make_topic(), **{"transaction.timeout.ms": "3600000000"})
    with pytest.raises(JobFailed) as failed:
        finish(numbers(spec, tmp_path, 10))
    assert failed.value.fault["code"] == "RUN-008"
    assert "transaction.timeout.ms" in failed.value.fault["message"]


def test_a_record_that_the_broker_refuses_is_named_and_nothing_is_visible(
    numbers: Callable[..., Job], make_topic: Make, tmp_path: Path
) -> None:
    topic = make_topic(max_message_bytes="1000")
    with pytest.raises(JobFailed) as failed:
        finish(numbers(sink("job", topic), tmp_path, 1, size=5000))
    assert failed.value.fault["code"] == "RUN-006"
    assert topic.name in failed.value.fault["message"]
    assert committed(topic) == []

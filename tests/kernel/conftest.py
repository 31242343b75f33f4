"""One Spark JVM with the kernel jar for all kernel tests, and short ways to make and read topics."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tidemill.broker import Broker

ROOT = Path(__file__).resolve().parent.parent.parent
JARS = ROOT / "src" / "tidemill" / "jars"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    subprocess.run([sys.executable, ROOT / "tools" / "kernel.py", "build"], check=True)
    settings = {
        "spark.jars": ",".join(str(jar) for jar in sorted(JARS.glob("*.jar"))),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.sql.streaming.checkpointFileManagerClass": (
            "io.tidemill.checkpoint.LocalCheckpointFileManager"
        ),
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }
    builder = SparkSession.builder.master("local[2]").appName("tidemill-kernel-tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@dataclass
class Topic:
    """A topic of the embedded broker, with the client's own view of it."""

    name: str
    bootstrap: str
    partitions: int = 1
    configs: dict[str, str] = field(default_factory=dict)

    def create(self) -> Topic:
        topic = NewTopic(self.name, self.partitions, 1, config=self.configs)
        for future in self.admin().create_topics([topic]).values():
            future.result(30)
        return self

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap})

    def write(self, *values: Any, partition: int = 0, **record: Any) -> None:
        """Write values (text, bytes or None), all with the same key, headers and timestamp."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 0})
        failed: list[Any] = []
        for value in values:
            producer.produce(
                self.name,
                value,
                partition=partition,
                on_delivery=lambda error, _: failed.append(error) if error else None,
                **record,
            )
        producer.flush(30)
        assert not failed

    def read(self) -> list[Any]:
        """All records there are, in order of partition and offset."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "reader"})
        records = []
        try:
            for partition in range(self.partitions):
                place = TopicPartition(self.name, partition)
                low, high = consumer.get_watermark_offsets(place, 10)
                consumer.assign([TopicPartition(self.name, partition, low)])
                at = low
                while at < high:
                    message = consumer.poll(10)
                    assert message is not None, f"no record at {at} of {high}"
                    assert message.error() is None, message.error()
                    records.append(message)
                    at = message.offset() + 1
        finally:
            consumer.close()
        return records

    def committed(self, group: str) -> list[int]:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group})
        try:
            places = [TopicPartition(self.name, p) for p in range(self.partitions)]
            return [place.offset for place in consumer.committed(places, 10)]
        finally:
            consumer.close()

    def commit(self, group: str, offsets: dict[int, int]) -> None:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group})
        try:
            places = [TopicPartition(self.name, p, offset) for p, offset in offsets.items()]
            consumer.commit(offsets=places, asynchronous=False)
        finally:
            consumer.close()


def timestamp_of(message: Any) -> int:
    kind, millis = message.timestamp()
    assert kind != TIMESTAMP_NOT_AVAILABLE
    return int(millis)


@pytest.fixture
def make_topic(broker: Broker, topic_name: Callable[..., str]) -> Callable[..., Topic]:
    def make(partitions: int = 1, hint: str = "t", **configs: str) -> Topic:
        named = {key.replace("_", "."): value for key, value in configs.items()}
        return Topic(topic_name(hint), broker.bootstrap, partitions, named).create()

    return make


@dataclass
class Job:
    """A finished or running query with what its sink has collected."""

    query: Any
    rows: list[Any]

    @property
    def progress(self) -> list[dict[str, Any]]:
        return [json.loads(p.json) for p in self.query.recentProgress]

    @property
    def batches(self) -> list[int]:
        """The number of input rows of each batch that had any."""
        return [p["numInputRows"] for p in self.progress if p["numInputRows"]]


class JobFailed(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        start = text.find("TIDEMILL{")
        self.text = text
        self.fault: dict[str, str] = (
            json.JSONDecoder().raw_decode(text[start + len("TIDEMILL") :])[0] if start >= 0 else {}
        )


@pytest.fixture
def jobs(spark: Any) -> Iterator[Callable[..., Job]]:
    """Start a query that collects its rows on the driver; every one is stopped in the end."""
    started: list[Any] = []

    def start(frame: Any, checkpoint: Path, available_now: bool = True) -> Job:
        rows: list[Any] = []
        writer = frame.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
        writer = writer.option("checkpointLocation", str(checkpoint))
        if available_now:
            writer = writer.trigger(availableNow=True)
        job = Job(writer.start(), rows)
        started.append(job.query)
        return job

    yield start
    for query in started:
        query.stop()


def finish(job: Job, seconds: int = 60) -> Job:
    """Wait for the end of a job; its failure is an exception with the fault in it."""
    from pyspark.errors import StreamingQueryException

    try:
        assert job.query.awaitTermination(seconds), "the job did not end"
    except StreamingQueryException:
        failed = job.query._jsq.exception().get()
        raise JobFailed(str(failed.toString())) from None
    return job

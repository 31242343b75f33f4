"""Topics and queries as the kernel tests speak of them."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyspark
from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    ConsumerGroupTopicPartitions,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

import tidemill
from harness.kafka import client

CLASSPATH = os.pathsep.join(
    str(Path(package.__file__).parent / "jars" / "*") for package in (tidemill, pyspark)
)
"""Of what is compiled against the kernel."""


@dataclass
class Topic:
    """A topic of the embedded broker, with the client's own view of it."""

    name: str
    bootstrap: str
    partitions: int = 1
    configs: dict[str, str] = field(default_factory=dict)

    def create(self) -> Topic:
        topic = NewTopic(self.name, self.partitions, 1, config=self.configs)
        for future in self.admin.create_topics([topic]).values():
            future.result(30)
        return self

    @cached_property
    def admin(self) -> AdminClient:
        # Kept: a client that is collected takes its unanswered requests with it.
        return AdminClient(client(self.bootstrap))

    def write(self, *values: Any, partition: int = 0, **record: Any) -> None:
        """Write values (text, bytes or None), all with the same key, headers and timestamp."""
        producer = Producer(client(self.bootstrap, **{"linger.ms": 0}))
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
        consumer = Consumer(client(self.bootstrap, **{"group.id": "reader"}))
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
        consumer = Consumer(client(self.bootstrap, **{"group.id": group}))
        try:
            places = [TopicPartition(self.name, p) for p in range(self.partitions)]
            return [place.offset for place in consumer.committed(places, 10)]
        finally:
            consumer.close()

    def commit(self, group: str, offsets: dict[int, int]) -> None:
        consumer = Consumer(client(self.bootstrap, **{"group.id": group}))
        try:
            places = [TopicPartition(self.name, p, offset) for p, offset in offsets.items()]
            consumer.commit(offsets=places, asynchronous=False)
        finally:
            consumer.close()

    def move(self, group: str, offsets: dict[int, int]) -> None:
        """Alter a group's offsets from outside, as an operator of Kafka does."""
        places = [TopicPartition(self.name, p, offset) for p, offset in offsets.items()]
        request = [ConsumerGroupTopicPartitions(group, places)]
        for future in self.admin.alter_consumer_group_offsets(request).values():
            future.result(30)


def timestamp_of(message: Any) -> int:
    kind, millis = message.timestamp()
    assert kind != TIMESTAMP_NOT_AVAILABLE
    return int(millis)


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


def finish(job: Job, seconds: int = 60) -> Job:
    """Wait for the end of a job; its failure is an exception with the fault in it."""
    from pyspark.errors import StreamingQueryException

    try:
        assert job.query.awaitTermination(seconds), "the job did not end"
    except StreamingQueryException:
        failed = job.query._jsq.exception().get()
        raise JobFailed(str(failed.toString())) from None
    return job

"""The broker that is measured with. Its inputs are filled once and kept below build/bench, for the next run.

In: names of inputs and numbers of rows. Out: topics. Law: a topic is used again only if the same code has filled it
to its end; everything listens on loopback.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from bench import inputs
from bench.outcomes import Pair
from tidemill.broker import Broker, start, topics

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from harness import registry  # noqa: E402

SECONDS = 60


def home() -> Path:
    return Path(os.environ.get("TIDEMILL_BENCH_HOME") or ROOT / "build" / "bench").expanduser()


class World:
    """A running broker, a schema registry, and a directory that goes when they do."""

    def __init__(self, broker: Broker, registry: str, place: Path, kept: Path) -> None:
        self.bootstrap = broker.bootstrap
        self.registry = registry
        self.place = place
        self._kept = kept
        # It goes when the broker's data does.
        self._list = broker.data / "topics.json"
        self._numbers = itertools.count(1)
        # Only what is fatal is told: a broker that is stopped is no news.
        self._admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 2})

    # --- inputs -----------------------------------------------------------------------------

    def value(self, name: str, rows: int) -> str:
        """What `${name}` stands for: a filled topic, or a directory of files."""
        if name in inputs.FILES:
            path = self._kept / f"{name}-{_version()}"
            path.mkdir(exist_ok=True)
            inputs.FILES[name](path)
            return str(path)
        return self.topic(name, rows)

    def topic(self, name: str, rows: int) -> str:
        topic = f"{name}-{rows}-{_version()}"
        ready = self._ready()
        if topic not in ready:
            # One that was being filled when somebody stopped us.
            self.drop(topic)
            print(f"filling {name} with {rows:,} rows …", flush=True)
            inputs.INPUTS[name](self.bootstrap, topic, rows)
            self._note([*ready, topic])
        return topic

    def _ready(self) -> list[str]:
        try:
            found: list[str] = json.loads(self._list.read_text("utf-8"))
        except FileNotFoundError:
            return []
        current = [t for t in found if t.endswith(f"-{_version()}")]
        for topic in set(found) - set(current):
            self.drop(topic)
        if current != found:
            self._note(current)
        return current

    def _note(self, ready: list[str]) -> None:
        fresh = self._list.with_suffix(".new")
        fresh.write_text(json.dumps(ready), encoding="utf-8")
        fresh.replace(self._list)

    # --- outputs ----------------------------------------------------------------------------

    def name(self) -> str:
        """Of a topic that nobody has."""
        return f"run-{os.getpid()}-{time.time_ns()}-{next(self._numbers)}"

    def fresh(self) -> str:
        """A new topic."""
        name = self.name()
        topics.create(self.bootstrap, name, inputs.PARTITIONS, {})
        return name

    def directory(self) -> Path:
        path = self.place / f"run-{next(self._numbers)}"
        path.mkdir()
        return path

    def drop(self, topic: str) -> None:
        with contextlib.suppress(Exception):
            # One that is not there is gone as well.
            self._admin.delete_topics([topic])[topic].result(SECONDS)

    def records(self, topic: str) -> Iterator[Pair]:
        """What is committed, a partition after the other: those of a key in their order."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "bench",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
            }
        )
        try:
            numbers = consumer.list_topics(topic, SECONDS).topics[topic].partitions
            for number in sorted(numbers):
                consumer.assign([TopicPartition(topic, number, 0)])
                is_over = False
                while not is_over:
                    for message in consumer.consume(10_000, 0.5):
                        error = message.error()
                        if error is None:
                            yield message.key(), message.value()
                        elif error.code() == KafkaError._PARTITION_EOF:
                            is_over = True
                        else:
                            raise RuntimeError(f"topic '{topic}' could not be read: {error.str()}")
        finally:
            consumer.close()


def lines(directory: Path) -> Iterator[Pair]:
    """The lines of the files that a run has finished, each after the partition's directory that it is in."""
    for path in sorted(p for p in directory.rglob("*") if p.is_file()):
        below = path.relative_to(directory)
        if not any(part.startswith((".", "_")) for part in below.parts):
            for line in path.read_bytes().splitlines():
                yield None, f"{below.parent.as_posix()}: ".encode() + line


def _version() -> str:
    """Of the code that fills the inputs."""
    code = b"".join(path.read_bytes() for path in inputs.SOURCES)
    return hashlib.sha256(code).hexdigest()[:8]


@contextlib.contextmanager
def running() -> Iterator[World]:
    kept = home()
    kept.mkdir(parents=True, exist_ok=True)
    broker = start(kept / "broker", port=0)
    place = Path(tempfile.mkdtemp(prefix="bench-", dir=kept))
    try:
        with registry.running() as schemas:
            for subject, schema in inputs.REGISTERED.items():
                schemas.register(subject, schema)
            yield World(broker, schemas.url, place, kept)
    finally:
        broker.stop()
        shutil.rmtree(place, ignore_errors=True)

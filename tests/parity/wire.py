"""A case's topics, records, consumer groups, schemas and files: the recorder and the replay see the same wire."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from case import Case, Look, Offsets, Record, Schemas, Topic, unfill
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from harness import registry
from harness.kafka import client
from tidemill.broker import topics
from tidemill.broker.records import Record as WireRecord

SECONDS = 30


def names_of(case: Case, run: str) -> dict[str, str]:
    """The real names of a case's topics and groups, which nobody else has."""
    return {each.name: f"parity-{run}-{each.name}" for each in (*case.topics, *case.groups)}


@dataclass(frozen=True)
class World:
    """Where a case runs: the values for a script's `${…}`, and its registry if it has one."""

    values: Mapping[str, str]
    registry: registry.SchemaRegistry | None

    def schemas(self) -> Schemas | None:
        """What the registry has, a subject's versions in their order."""
        if self.registry is None:
            return None
        subjects = self.registry.subjects
        return tuple(
            (unfill(subject, self.values), self.registry.schemas[number])
            for subject in sorted(subjects)
            for number in subjects[subject]
        )

    def files(self, case: Case) -> dict[str, tuple[str, ...]]:
        """Of each directory that is looked at, the lines, each behind the subdirectory that it is in."""
        return {
            look.files: tuple(sorted(_lines_of(Path(self.values[look.files]))))
            for look in case.looks
            if look.files
        }


def _lines_of(root: Path) -> Iterator[str]:
    for path in root.rglob("*"):
        if path.is_file() and not path.name.startswith((".", "_")):
            place = path.parent.relative_to(root).as_posix()
            yield from (f"{place} {line}" for line in path.read_text("utf-8").splitlines())


@contextmanager
def world(bootstrap: str, case: Case, names: Mapping[str, str], run: str) -> Iterator[World]:
    with tempfile.TemporaryDirectory() as place:
        values = {**names, "BOOTSTRAP": bootstrap}
        for name, lines in case.files:
            directory = Path(place, name)
            directory.mkdir()
            if lines:
                (directory / "lines").write_text("\n".join(lines) + "\n", "utf-8")
            values[name] = str(directory)
        if case.registry is None:
            yield World(values, None)
            return
        with registry.running() as found:
            for subject, schema in case.registry:
                found.register(subject, schema)
            # Clients keep what they have learnt of a registry by its address, and a port may come again.
            yield World({**values, "REGISTRY": f"{found.url}/{run}"}, found)


def prepare(bootstrap: str, case: Case, names: Mapping[str, str]) -> None:
    """Make what is there before the script starts: topics, the first records, committed offsets."""
    for topic in case.topics:
        if topic.partitions:
            _create(bootstrap, topic, topic.partitions, names)
    write_step(bootstrap, case, 0, names)
    admin = _admin(bootstrap)
    if case.deleted:
        kept = admin.delete_records(_partitions(case.deleted, names), request_timeout=SECONDS)
        for done in kept.values():
            done.result()
    for group in case.groups:
        if group.offsets:
            commit(bootstrap, names[group.name], group.offsets, names)


def commit(bootstrap: str, group: str, offsets: Offsets, names: Mapping[str, str]) -> None:
    """Put offsets in place that a consumer group is to have committed."""
    with _member(bootstrap, group) as member:
        member.commit(offsets=_partitions(offsets, names), asynchronous=False)


def committed(bootstrap: str, group: str, names: Mapping[str, str]) -> Offsets:
    """What a consumer group has committed; topics by their names in the case."""
    short = {real: name for name, real in names.items()}
    with _member(bootstrap, group) as member:
        there = member.list_topics(timeout=SECONDS).topics.values()
        places = [
            TopicPartition(t.topic, p) for t in there if t.topic in short for p in t.partitions
        ]
        found = member.committed(places, SECONDS)
    return tuple(sorted((short[p.topic], p.partition, p.offset) for p in found if p.offset >= 0))


@contextmanager
def _member(bootstrap: str, group: str) -> Iterator[Consumer]:
    """One who may ask and say what a group has committed, and waits until its broker knows.

    Not an admin client: while a broker makes its first group, that of librdkafka crashes when it asks, and what it says
    is lost.
    """
    member = Consumer(client(bootstrap, **{"group.id": group, "enable.auto.commit": False}))
    try:
        yield member
    finally:
        member.close()


def write_step(bootstrap: str, case: Case, number: int, names: Mapping[str, str]) -> None:
    """What a step brings: partitions, then records, each with its topic of the case, in their order."""
    step = case.steps[number]
    admin = _admin(bootstrap)
    for name, partitions in step.partitions:
        if topics.exists(bootstrap, names[name]):
            wanted = NewPartitions(names[name], partitions)
            admin.create_partitions([wanted])[names[name]].result(SECONDS)
        else:
            _create(bootstrap, case.topic(name), partitions, names)
    by_topic = itertools.groupby(step.records, key=lambda pair: (pair[0], pair[1].transaction))
    for (topic, transaction), group in by_topic:
        records = [record for _, record in group]
        if transaction:
            _write_in_transaction(bootstrap, names[topic], records, transaction)
        else:
            topics.write(bootstrap, names[topic], [_wire_record(record) for record in records])


def _create(bootstrap: str, topic: Topic, partitions: int, names: Mapping[str, str]) -> None:
    topics.create(bootstrap, names[topic.name], partitions, dict(topic.configs))


def _write_in_transaction(
    bootstrap: str, name: str, records: Iterable[Record], transaction: str
) -> None:
    """Leaves the records and, after them, a marker that has an offset too."""
    producer = Producer({**_settings(bootstrap), "transactional.id": f"{name}-writer"})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    for r in records:
        stamp = {} if r.timestamp_ms is None else {"timestamp": r.timestamp_ms}
        headers = list(r.headers)
        producer.produce(name, r.value, r.key, r.partition or 0, headers=headers, **stamp)
    # An abort would throw away what has not been sent.
    producer.flush(SECONDS)
    if transaction == "committed":
        producer.commit_transaction(SECONDS)
    else:
        producer.abort_transaction(SECONDS)


def _wire_record(r: Record) -> WireRecord:
    return WireRecord(r.value, r.key, r.headers, r.partition, r.timestamp_ms)


def _settings(bootstrap: str) -> dict[str, object]:
    return client(bootstrap, log_level=0)


def _admin(bootstrap: str) -> AdminClient:
    """To be kept as long as its answers are awaited: they die with it."""
    return AdminClient(_settings(bootstrap))


def _partitions(offsets: Offsets, names: Mapping[str, str]) -> list[TopicPartition]:
    return [TopicPartition(names[topic], number, offset) for topic, number, offset in offsets]


def read(bootstrap: str, case: Case, look: Look, name: str) -> list[Record]:
    """What a topic holds, with just the facts that are looked at."""
    assert look.topic
    several = case.topic(look.topic).partitions > 1
    records = []
    for r in topics.read(bootstrap, name):
        # Kafka picks the partition of a record without a key.
        picked = several and r.key is None and "partitions" not in look.words
        stamp = r.timestamp_ms if "timestamps" in look.words else None
        records.append(Record(r.value, r.key, r.headers, None if picked else r.partition, stamp))
    return records

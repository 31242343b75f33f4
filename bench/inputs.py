"""Topics to measure with, the same in every run. Each function fills a new topic with so many rows."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from confluent_kafka import Producer

from tidemill import types as t
from tidemill.broker import topics
from tidemill.formats import format_module

USERS = 200_000
PARTITIONS = 2


def orders(bootstrap: str, topic: str, rows: int) -> None:
    """JSON documents of about 115 bytes: user_id, item, amount, region, n, note."""
    dice = random.Random(42)
    _fill(bootstrap, topic, (_order(dice, i) for i in range(rows)))


def tagged(bootstrap: str, topic: str, rows: int) -> None:
    """Such documents with two tags in an array, which only Python reads, in place of the note."""
    dice = random.Random(42)
    _fill(
        bootstrap,
        topic,
        (
            b'{"user_id":%d,"item":"item-%06d","amount":%d.%02d,"region":"region-%02d","n":%d,"tags":["%014x","%014x"]}'
            % (dice.randrange(USERS), i % 999_983, i % 997, i % 100, i % 37, i % 11, i, i)
            for i in range(rows)
        ),
    )


def changes(bootstrap: str, topic: str, rows: int) -> None:
    """Updates of such rows as Debezium writes them; a record has two rows."""
    dice = random.Random(42)
    source = b'"source":{"db":"shop","table":"orders","ts_ms":1700000000000},"ts_ms":1700000000001'
    _fill(
        bootstrap,
        topic,
        (
            b'{"before":%s,"after":%s,"op":"u",%s}' % (_order(dice, i), _order(dice, i), source)
            for i in range(rows)
        ),
    )


def lines(bootstrap: str, topic: str, rows: int) -> None:
    """Lines of such rows, with the note twice as long, so that they have about 115 bytes, too."""
    dice = random.Random(42)
    _fill(
        bootstrap,
        topic,
        (
            b"%d,item-%06d,%d.%02d,region-%02d,%d,%064x"
            % (dice.randrange(USERS), i % 999_983, i % 997, i % 100, i % 37, i % 11, i)
            for i in range(rows)
        ),
    )


def binaries(bootstrap: str, topic: str, rows: int) -> None:
    """The rows of `lines` as Avro writes them, in about 115 bytes."""
    dice = random.Random(42)
    encoder = format_module("avro").encoder(
        (
            t.Field("user_id", t.BIGINT),
            t.Field("item", t.STRING),
            t.Field("amount", t.DOUBLE),
            t.Field("region", t.STRING),
            t.Field("n", t.INT),
            t.Field("note", t.STRING),
        ),
        {},
    )

    def documents() -> Iterator[bytes]:
        for start in range(0, rows, 10_000):
            numbers = range(start, min(rows, start + 10_000))
            columns = [
                pa.array([dice.randrange(USERS) for _ in numbers], pa.int64()),
                pa.array([f"item-{i % 999_983:06}" for i in numbers]),
                pa.array([i % 997 + i % 100 / 100 for i in numbers]),
                pa.array([f"region-{i % 37:02}" for i in numbers]),
                pa.array([i % 11 for i in numbers], pa.int32()),
                pa.array([f"{i:074x}" for i in numbers]),
            ]
            yield from encoder.encode(columns).to_pylist()

    _fill(bootstrap, topic, documents())


def clicks(bootstrap: str, topic: str, rows: int) -> None:
    """Documents of about 115 bytes, 10,000 to a second of event time, up to half a second out of order: user_id (one of
    100,000), page, n, ts, note."""
    _fill(bootstrap, topic, _timed(random.Random(42), rows))


def visits(bootstrap: str, topic: str, rows: int) -> None:
    """Others of the same users at the same time."""
    _fill(bootstrap, topic, _timed(random.Random(43), rows))


def _timed(dice: random.Random, rows: int) -> Iterator[bytes]:
    for i in range(rows):
        ms = max(0, i // 10 - dice.randrange(500))
        minutes, rest = divmod(ms, 60_000)
        yield (
            b'{"user_id":%d,"page":"page-%04d","n":%d,"ts":"2024-01-01 %02d:%02d:%06.3f","note":"%032x"}'
            % (
                dice.randrange(100_000),
                i % 9973,
                i % 11,
                minutes // 60,
                minutes % 60,
                rest / 1000,
                i,
            )
        )


def upserts(bootstrap: str, topic: str, rows: int) -> None:
    """Upserts of a million keys in documents of about 100 bytes, one in five a delete: id; region, amount, note."""
    produce(bootstrap, topic, _upserts(random.Random(42), rows, 1_000_000))


def left(bootstrap: str, topic: str, rows: int) -> None:
    """Half of the rows: upserts of 500,000 keys, one in ten a delete."""
    produce(bootstrap, topic, _upserts(random.Random(1), rows // 2, 500_000, 0.1))


def right(bootstrap: str, topic: str, rows: int) -> None:
    """The other half, of the same keys."""
    produce(bootstrap, topic, _upserts(random.Random(2), rows - rows // 2, 500_000, 0.1))


def _upserts(
    dice: random.Random, rows: int, keys: int, deletes: float = 0.2
) -> Iterator[tuple[int, bytes, bytes | None]]:
    for i in range(rows):
        key = dice.randrange(keys)
        value = b'{"id":%d,"region":"region-%03d","amount":%d,"note":"%032x"}' % (
            key,
            dice.randrange(1000),
            i % 997,
            i,
        )
        yield key, b'{"id":%d}' % key, None if dice.random() < deletes else value


def _order(dice: random.Random, i: int) -> bytes:
    return (
        b'{"user_id":%d,"item":"item-%06d","amount":%d.%02d,"region":"region-%02d","n":%d,"note":"%032x"}'
        % (dice.randrange(USERS), i % 999_983, i % 997, i % 100, i % 37, i % 11, i)
    )


def _fill(bootstrap: str, topic: str, documents: Iterable[bytes]) -> None:
    produce(bootstrap, topic, ((i, None, document) for i, document in enumerate(documents)))


def produce(
    bootstrap: str, topic: str, records: Iterable[tuple[int, bytes | None, bytes | None]]
) -> None:
    """Records go to the partitions that their numbers say."""
    topics.create(bootstrap, topic, PARTITIONS, {})
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 50,
            "batch.size": 1 << 20,
            "queue.buffering.max.messages": 500_000,
        }
    )
    for i, (number, key, value) in enumerate(records):
        while True:
            try:
                producer.produce(topic, value, key, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
        if i % 10_000 == 0:
            producer.poll(0)
    producer.flush()


INPUTS: dict[str, Callable[[str, str, int], None]] = {
    "orders": orders,
    "tagged": tagged,
    "changes": changes,
    "lines": lines,
    "binaries": binaries,
    "clicks": clicks,
    "visits": visits,
    "upserts": upserts,
    "left": left,
    "right": right,
}

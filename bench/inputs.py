"""Topics and files to measure with, the same in every run and on every machine.

In: a broker, the name of a new topic, a number of rows. Out: the topic, filled. Law: no tie decides what a query
gives. All rows of a key are in one partition, in the order of their numbers; an amount is there once, and a sum of
any of them is exact; a version of a key has a time that no other has.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from confluent_kafka import Producer

from bench.nexmark import generator
from tidemill import types as t
from tidemill.broker import topics
from tidemill.formats import avro_schema, format_module

USERS = 200_000
MANY_USERS = 2_000_000
VISITORS = 100_000
FEW = 150_000
"""Fewer rows than these are there to compare results, and have so few keys that a key has twenty rows."""
AMOUNTS = 1 << 23
"""Quarters, of which each is there once in so many rows."""
PARTITIONS = 2
NEXMARK_ROWS, NEXMARK_SECONDS = 300_000, 25
"""Fewer rows than these take so long in event time."""

Numbered = tuple[int, bytes | None, bytes | None]
"""The number that says which partition a record goes to, its key and its value."""


def orders(bootstrap: str, topic: str, rows: int) -> None:
    """JSON documents of about 115 bytes: user_id, item, amount, region, n, note."""
    dice = random.Random(42)
    produce(bootstrap, topic, (order(dice.randrange(_keys(USERS, rows)), i) for i in range(rows)))


def many_orders(bootstrap: str, topic: str, rows: int) -> None:
    """Such documents of two million users, each of whom has an order before any has two."""
    produce(bootstrap, topic, (order(_spread(i, _keys(MANY_USERS, rows)), i) for i in range(rows)))


def tagged(bootstrap: str, topic: str, rows: int) -> None:
    """Such documents with two tags in an array in place of the note."""
    _noted(bootstrap, topic, rows, b'"tags":["%014x","%014x"]')


def marked(bootstrap: str, topic: str, rows: int) -> None:
    """Such documents with a map in place of the note."""
    _noted(bootstrap, topic, rows, b'"marks":{"a":"%010x","b":"%010x"}')


def timed(bootstrap: str, topic: str, rows: int) -> None:
    """Such documents with a time of day in place of the note, which only Python reads."""
    _noted(bootstrap, topic, rows, b'"at":"12:34:56","mark":"%08x%08x"')


def _noted(bootstrap: str, topic: str, rows: int, note: bytes) -> None:
    dice = random.Random(42)
    text = _ORDER.replace(b'"note":"%032x"', note)
    _fill(bootstrap, topic, (text % (*_fields(dice.randrange(USERS), i), i) for i in range(rows)))


def changes(bootstrap: str, topic: str, rows: int) -> None:
    """Updates of such rows as Debezium writes them; a record has two rows."""
    source = b'"source":{"db":"shop","table":"orders","ts_ms":1700000000000},"ts_ms":1700000000001'
    text = b'{"before":%s,"after":%s,"op":"u",' + source + b"}"
    _updates(bootstrap, topic, rows, text)


def ogg(bootstrap: str, topic: str, rows: int) -> None:
    """The same updates as GoldenGate writes them."""
    rest = (
        b'"table":"SHOP.ORDERS","op_ts":"2024-01-01 00:00:00.000000","pos":"00000000000000000000"'
    )
    _updates(bootstrap, topic, rows, b'{%s,"op_type":"U","before":%%s,"after":%%s}' % rest)


def canal(bootstrap: str, topic: str, rows: int) -> None:
    """The same updates as Canal writes them; what was changed is the whole row."""
    rest = b'"database":"shop","table":"orders","es":1700000000000,"ts":1700000000001,"isDdl":false'
    _updates(bootstrap, topic, rows, b'{"old":[%s],"data":[%s],"type":"UPDATE",' + rest + b"}")


def maxwell(bootstrap: str, topic: str, rows: int) -> None:
    """And as Maxwell does."""
    rest = b'"database":"shop","table":"orders","ts":1700000000,"xid":1,"commit":true'
    _updates(bootstrap, topic, rows, b'{"old":%s,"data":%s,"type":"update",' + rest + b"}")


def _updates(bootstrap: str, topic: str, rows: int, text: bytes) -> None:
    dice = random.Random(42)

    def documents() -> Iterator[bytes]:
        for i in range(rows):
            before, after = (order(dice.randrange(USERS), i)[2] for _ in range(2))
            yield text % (before, after)

    _fill(bootstrap, topic, documents())


def lines(bootstrap: str, topic: str, rows: int) -> None:
    """Lines of such rows, with the note twice as long, so that they have about 115 bytes, too."""
    dice = random.Random(42)
    text = b"%d,item-%06d,%d.%02d,region-%02d,%d,%064x"
    _fill(bootstrap, topic, (text % _fields(dice.randrange(USERS), i) for i in range(rows)))


def binaries(bootstrap: str, topic: str, rows: int) -> None:
    """The rows of `lines` as Avro writes them, in about 115 bytes."""
    _fill(bootstrap, topic, _in_avro(_COLUMNS, _orders, rows))


def registered(bootstrap: str, topic: str, rows: int) -> None:
    """The same behind the number of their schema in the registry."""
    _fill(bootstrap, topic, (_framed(1, record) for record in _in_avro(_COLUMNS, _orders, rows)))


def registered_changes(bootstrap: str, topic: str, rows: int) -> None:
    """Updates of such rows as Debezium writes them, likewise; a record has two rows."""
    _fill(bootstrap, topic, (_framed(2, record) for record in _in_avro(_CHANGE, _changes, rows)))


_COLUMNS = (
    t.Field("user_id", t.BIGINT),
    t.Field("item", t.STRING),
    t.Field("amount", t.DOUBLE),
    t.Field("region", t.STRING),
    t.Field("n", t.INT),
    t.Field("note", t.STRING),
)
_CHANGE = (
    t.Field("before", t.RowType(fields=_COLUMNS)),
    t.Field("after", t.RowType(fields=_COLUMNS)),
    t.Field("op", t.STRING),
)
REGISTERED = {
    subject: avro_schema.text_of(avro_schema.schema_of(columns, legacy=True))
    for subject, columns in (("orders-value", _COLUMNS), ("changes-value", _CHANGE))
}
"""The schemas of the registry, which numbers them from 1 on."""


def _framed(schema: int, record: bytes) -> bytes:
    return b"\0" + schema.to_bytes(4, "big") + record


def _in_avro(
    columns: Sequence[t.Field],
    some: Callable[[random.Random, Sequence[int]], list[pa.Array]],
    rows: int,
) -> Iterator[bytes]:
    dice = random.Random(42)
    encoder = format_module("avro").encoder(columns, {})
    for start in range(0, rows, 10_000):
        numbers = range(start, min(rows, start + 10_000))
        yield from encoder.encode(some(dice, numbers)).to_pylist()


def _orders(dice: random.Random, numbers: Sequence[int]) -> list[pa.Array]:
    return [
        pa.array([dice.randrange(USERS) for _ in numbers], pa.int64()),
        pa.array([f"item-{i % 999_983:06}" for i in numbers]),
        pa.array([_spread(i, AMOUNTS) / 4 for i in numbers]),
        pa.array([f"region-{i % 37:02}" for i in numbers]),
        pa.array([i % 11 for i in numbers], pa.int32()),
        pa.array([f"{i:074x}" for i in numbers]),
    ]


def _changes(dice: random.Random, numbers: Sequence[int]) -> list[pa.Array]:
    names = [column.name for column in _COLUMNS]
    before, after = (pa.StructArray.from_arrays(_orders(dice, numbers), names) for _ in range(2))
    return [before, after, pa.array(["u"] * len(numbers))]


def clicks(bootstrap: str, topic: str, rows: int) -> None:
    """Documents of about 115 bytes, 10,000 to a second of event time, up to half a second out of order: user_id (one of
    100,000), page, n, ts, note."""
    _fill(bootstrap, topic, _timed(random.Random(42), rows))


def visits(bootstrap: str, topic: str, rows: int) -> None:
    """Others of the same users at the same time."""
    _fill(bootstrap, topic, _timed(random.Random(43), rows))


def profiles(bootstrap: str, topic: str, rows: int) -> None:
    """A tenth of the rows: versions of those users, one a millisecond of the same time: user_id; level, ts, note."""
    dice = random.Random(44)

    def versions() -> Iterator[Numbered]:
        for i in range(rows // 10):
            user = dice.randrange(_keys(VISITORS, rows))
            text = b'{"user_id":%d,"level":"level-%02d","ts":"%s","note":"%032x"}'
            yield user, b'{"user_id":%d}' % user, text % (user, i % 17, _moment(i), i)

    produce(bootstrap, topic, versions())


def _timed(dice: random.Random, rows: int) -> Iterator[bytes]:
    text = b'{"user_id":%d,"page":"page-%04d","n":%d,"ts":"%s","note":"%032x"}'
    for i in range(rows):
        moment = _moment(max(0, i // 10 - dice.randrange(500)))
        yield text % (dice.randrange(_keys(VISITORS, rows)), i % 9973, i % 11, moment, i)


def _moment(ms: int) -> bytes:
    minutes, rest = divmod(ms, 60_000)
    return b"2024-01-01 %02d:%02d:%06.3f" % (minutes // 60, minutes % 60, rest / 1000)


def upserts(bootstrap: str, topic: str, rows: int) -> None:
    """Upserts of a million keys in documents of about 100 bytes, one in five a delete: id; region, amount, note."""
    produce(bootstrap, topic, _upserts(random.Random(42), rows, _keys(1_000_000, rows)))


def left(bootstrap: str, topic: str, rows: int) -> None:
    """Half of the rows: upserts of 500,000 keys, one in ten a delete."""
    produce(bootstrap, topic, _upserts(random.Random(1), rows // 2, _keys(500_000, rows), 0.1))


def right(bootstrap: str, topic: str, rows: int) -> None:
    """The other half, of the same keys."""
    produce(
        bootstrap, topic, _upserts(random.Random(2), rows - rows // 2, _keys(500_000, rows), 0.1)
    )


def nexmark(bootstrap: str, topic: str, rows: int) -> None:
    """Events of Nexmark, of 335 bytes. Few of them are so far apart that they span some windows of ten seconds, too."""
    density = generator.DENSITY if rows >= NEXMARK_ROWS else rows / NEXMARK_SECONDS
    produce(bootstrap, topic, ((turn, None, e) for turn, e in generator.events(rows, density)))


def _upserts(dice: random.Random, rows: int, keys: int, deletes: float = 0.2) -> Iterator[Numbered]:
    for i in range(rows):
        key = dice.randrange(keys)
        value = b'{"id":%d,"region":"region-%03d","amount":%d,"note":"%032x"}' % (
            key,
            dice.randrange(1000),
            i % 997,
            i,
        )
        yield key, b'{"id":%d}' % key, None if dice.random() < deletes else value


_ORDER = b'{"user_id":%d,"item":"item-%06d","amount":%d.%02d,"region":"region-%02d","n":%d,"note":"%032x"}'


def order(user: int, i: int) -> Numbered:
    return user, None, _ORDER % _fields(user, i)


def _fields(user: int, i: int) -> tuple[int, ...]:
    quarters = _spread(i, AMOUNTS)
    return user, i % 999_983, quarters // 4, quarters % 4 * 25, i % 37, i % 11, i


def _keys(number: int, rows: int) -> int:
    return number if rows >= FEW else max(1, min(number, rows // 20))


def _spread(i: int, numbers: int) -> int:
    """Every number below `numbers`, in no order that shows, before any comes again: it shares no factor with 48,271."""
    return i * 48_271 % numbers


def _fill(bootstrap: str, topic: str, documents: Iterable[bytes]) -> None:
    produce(bootstrap, topic, ((i, None, document) for i, document in enumerate(documents)))


def produce(
    bootstrap: str, topic: str, records: Iterable[Numbered], partitions: int = PARTITIONS
) -> None:
    """Records go to the partitions that their numbers say."""
    topics.create(bootstrap, topic, partitions, {})
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
                producer.produce(topic, value, key, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.05)
        if i % 10_000 == 0:
            producer.poll(0)
    if producer.flush(600):
        raise RuntimeError(f"topic '{topic}' could not be filled")


INPUTS: dict[str, Callable[[str, str, int], None]] = {
    "orders": orders,
    "many_orders": many_orders,
    "tagged": tagged,
    "marked": marked,
    "timed": timed,
    "changes": changes,
    "ogg": ogg,
    "canal": canal,
    "maxwell": maxwell,
    "lines": lines,
    "binaries": binaries,
    "registered": registered,
    "registered_changes": registered_changes,
    "clicks": clicks,
    "visits": visits,
    "profiles": profiles,
    "upserts": upserts,
    "left": left,
    "right": right,
    "nexmark": nexmark,
}

FILES: dict[str, Callable[[Path], None]] = {"side_input": generator.side_input}
"""What writes the files of a new directory, for tables that are looked up."""

SOURCES = (Path(__file__), Path(generator.__file__))
"""The code that says what is in an input: topics that another version has filled are filled anew."""

"""Rows in the order of time against a plain computation: OVER aggregates of every kind of frame, and the first row of a
key, over random rows that come out of order and late, with a restart in between.

One job has all of them, over many keys. Only the last row of a batch moves the watermark, so that what is late does not
depend on how the job cuts the rows into batches of its own. FUZZ=n draws other rows."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar

import pytest

from harness.waiting import settle
from tidemill import Session
from tidemill.broker import Broker, topics
from tidemill.broker.records import Record
from tidemill.changelog import RowKind
from tidemill.types import Field

SEED = int(os.environ.get("FUZZ", "0"))
KEYS = 30
BATCHES = 6
ROWS = 150
DELAY = 10
EPOCH = datetime(2024, 1, 1, tzinfo=UTC)
NEVER = -(10**9)


@dataclass(frozen=True)
class Row:
    id: int
    key: str
    value: int | None
    time: int
    """Seconds."""

    @property
    def record(self) -> Record:
        at = (EPOCH + timedelta(seconds=self.time)).strftime("%Y-%m-%d %H:%M:%S")
        members = {"id": self.id, "k": self.key, "v": self.value, "ts": at}
        return Record(json.dumps(members).encode(), None)


def drawn(rng: random.Random) -> Iterator[list[Row]]:
    """Batches: times up to the latest so far, then one that may be later."""
    latest, number = 60, 0
    for _ in range(BATCHES):
        times = [latest - rng.choice((0, 1, 3, 8, 15, 40)) for _ in range(ROWS)]
        latest += rng.choice((0, 5, 10, 60))
        batch = []
        for at in (*times, latest):
            value = rng.choice((None, *range(-3, 6)))
            batch.append(Row(number, f"k{rng.randrange(KEYS)}", value, at))
            number += 1
        yield batch


Aggregates = tuple[int | None, ...]
Given = list[tuple[int, Aggregates]]


def aggregates(rows: list[Row]) -> Aggregates:
    """SUM, COUNT, MIN, COUNT(DISTINCT), LAST_VALUE."""
    values = [r.value for r in rows if r.value is not None]
    if not values:
        return (None, 0, None, 0, None)
    return (sum(values), len(values), min(values), len(set(values)), values[-1])


@dataclass
class Model:
    """One frame over one key. Times are seconds; `reach` is a number of rows or seconds, None without a bound."""

    rows: bool
    reach: int | None
    waiting: list[Row] = field(default_factory=list)
    seen: list[Row] = field(default_factory=list)
    """What was given and is not forgotten."""
    last: float = NEVER
    ends: list[float] = field(default_factory=list)

    def take(self, batch: list[Row], before: int, now: int) -> Given:
        for row in batch:
            if row.time > (before if self.reach is None else self.last):
                self.waiting.append(row)
                self._expect(row.time)
        if now == before:
            return []
        due = sorted((r for r in self.waiting if r.time <= now), key=lambda r: r.time)
        self.waiting = [r for r in self.waiting if r.time > now]
        given: Given = []
        for at, group in groupby(due, key=lambda r: r.time):
            peers = list(group)
            for i, row in enumerate(peers, 1):
                upto = self.seen + peers[: i if self.rows else None]
                given.append((row.id, aggregates(self._frame(upto, at))))
            self.seen += peers
            self.last = at
        self._forget(now)
        return given

    def _frame(self, upto: list[Row], at: int) -> list[Row]:
        if self.reach is None:
            return upto
        if self.rows:
            return upto[-self.reach - 1 :]
        return [r for r in upto if r.time >= at - self.reach]

    def _expect(self, at: int) -> None:
        """Flink's timers that forget a key; only the last one does, but each of them counts as given."""
        if self.rows or self.reach is None:
            return
        if not self.ends or self.ends[-1] < at + self.reach + 0.001:
            self.ends.append(at + 1.5 * self.reach + 0.001)

    def _forget(self, now: int) -> None:
        while self.ends and self.ends[0] <= now:
            self.last = max(self.last, self.ends.pop(0))
            if not self.ends:
                self.seen, self.last = [], NEVER


@dataclass
class Arrivals(Model):
    """By processing time: rows as they come."""

    def take(self, batch: list[Row], before: int, now: int) -> Given:
        given: Given = []
        for row in batch:
            self.seen.append(row)
            given.append((row.id, aggregates(self._frame(self.seen, 0))))
        return given


@dataclass
class First:
    """The first row of a key."""

    first: Row | None = None
    is_done: bool = False

    def take(self, batch: list[Row], before: int, now: int) -> Given:
        for row in batch:
            in_time = row.time >= before and not self.is_done
            if in_time and (self.first is None or row.time < self.first.time):
                self.first = row
        if self.is_done or self.first is None or now == before or self.first.time > now:
            return []
        self.is_done = True
        return [(self.first.id, (None,) * 5)]


FRAMES: dict[str, tuple[Callable[[], Model], str]] = {
    "all rows": (lambda: Model(True, None), "ts ROWS BETWEEN UNBOUNDED PRECEDING"),
    "all peers": (lambda: Model(False, None), "ts RANGE BETWEEN UNBOUNDED PRECEDING"),
    "some rows": (lambda: Model(True, 2), "ts ROWS BETWEEN 2 PRECEDING"),
    "a range": (lambda: Model(False, 9), "ts RANGE BETWEEN INTERVAL '9' SECOND PRECEDING"),
    "arrivals": (lambda: Arrivals(True, 3), "p ROWS BETWEEN 3 PRECEDING"),
}
MODELS: dict[str, Callable[[], Model | First]] = {
    **{name: made for name, (made, _) in FRAMES.items()},
    "first": First,
}


def script(bootstrap: str, topic: str) -> str:
    parts = [
        f"""SELECT '{name}' AS f, id, SUM(v) OVER w AS s, COUNT(v) OVER w AS c, MIN(v) OVER w AS lo,
  COUNT(DISTINCT v) OVER w AS d, LAST_VALUE(v) OVER w AS l
FROM t WINDOW w AS (PARTITION BY k ORDER BY {frame} AND CURRENT ROW)"""
        for name, (_, frame) in FRAMES.items()
    ]
    none = "CAST(NULL AS INT)"
    parts.append(f"""SELECT 'first', id, {none}, CAST(NULL AS BIGINT), {none}, CAST(NULL AS BIGINT), {none}
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS rn FROM t) WHERE rn = 1""")
    return f"""CREATE TABLE t (
  id INT, k STRING, v INT, ts TIMESTAMP(3), p AS PROCTIME(),
  WATERMARK FOR ts AS ts - INTERVAL '{DELAY}' SECOND
) WITH (
  'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'json'
);
{" UNION ALL ".join(parts)};"""


class Taken:
    style: ClassVar[str] = "json"

    def __init__(self) -> None:
        self.rows: Counter[tuple[Any, ...]] = Counter()

    def take(self, fields: tuple[Field, ...], rows: Iterable[tuple[RowKind, str]]) -> None:
        for kind, text in rows:
            assert kind is RowKind.INSERT
            self.rows[tuple(json.loads(text).values())] += 1


def by_key(batch: list[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in batch:
        found.setdefault(row.key, []).append(row)
    return found


@pytest.mark.spark
@pytest.mark.kafka
def test_rows_in_the_order_of_time(broker: Broker, spark: Any, tmp_path: Path) -> None:
    topics.create(broker.bootstrap, "over-properties", 1)
    output, sql = Taken(), script(broker.bootstrap, "over-properties")
    models = {(name, f"k{key}"): made() for name, made in MODELS.items() for key in range(KEYS)}
    right: Counter[tuple[Any, ...]] = Counter()
    watermark = NEVER
    session: Session | None = None
    try:
        for number, batch in enumerate(drawn(random.Random(SEED))):
            topics.write(broker.bootstrap, "over-properties", [row.record for row in batch])
            if number % 3 == 0:  # what is known lies in the checkpoint
                if session is not None:
                    session.close()
                session = Session(spark, checkpoint=tmp_path, output=output)
                [*_, job] = session.execute(sql, name="over")
            settle(job.query)
            now = max(watermark, max(row.time for row in batch) - DELAY)
            came = by_key(batch)
            for (name, key), model in models.items():
                for id_, values in model.take(came.get(key, []), watermark, now):
                    right[name, id_, *values] += 1
            watermark = now
            assert output.rows == right, f"FUZZ={SEED}, batch {number}"
    finally:
        if session is not None:
            session.close()
    assert len({name for name, *_ in right}) == len(MODELS)


@pytest.mark.spark
@pytest.mark.kafka
def test_a_range_forgets_keys_that_are_out_of_reach(
    broker: Broker, spark: Any, tmp_path: Path
) -> None:
    topic = "over-forgets"
    topics.create(broker.bootstrap, topic, 1)
    table = script(broker.bootstrap, topic).partition(");")[0]
    sql = f"""{table});
SELECT id, MIN(v) OVER (PARTITION BY k ORDER BY {FRAMES["a range"][1]} AND CURRENT ROW) AS lo FROM t;"""
    rows = [Row(i, f"k{i % 50}", i, i % 60) for i in range(500)]
    with Session(spark, checkpoint=tmp_path, output=Taken()) as session:
        [*_, job] = session.execute(sql, name="over")
        kept = []
        for batch in (rows, [Row(500, "k0", 0, 1000)]):
            topics.write(broker.bootstrap, topic, [row.record for row in batch])
            settle(job.query)
            reports = [p for p in job.query.recentProgress if p["numInputRows"]]
            kept.append(sum(s["numRowsTotal"] for s in reports[-1]["stateOperators"]))
    # What is left is the row that waits, its alarm, and the watermarks of the tasks.
    assert kept[0] >= 100
    assert kept[1] <= 6

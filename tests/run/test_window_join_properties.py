"""Window joins against a plain computation: of every kind, over every kind of window, with equalities and conditions
that are drawn, over random rows that come out of order, twice and late, with restarts in between.

One job has all of them, over many keys. FUZZ=n draws other joins and rows. What is late must not depend on how the job
cuts its input into batches: one that starts takes all there is as one, and while it runs it is given only rows that
move no watermark."""

from __future__ import annotations

import json
import os
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
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
STARTS = (True, False, True)
"""For each step, whether it waits for the job to start."""
ROWS = 150
"""Of each table in each step."""
KEYS = (None, *range(20))
VALUES = (None, *range(-3, 6))
DELAY = 5
EPOCH = datetime(2024, 1, 1, tzinfo=UTC)
NEVER = -(10**9)


@dataclass(frozen=True)
class Row:
    key: int | None
    value: int | None
    time: int
    """Seconds, as all times here."""

    @property
    def record(self) -> Record:
        members = {"k": self.key, "v": self.value, "t": self.time, "ts": shown(self.time)}
        return Record(json.dumps(members).encode(), None)


def shown(seconds: int) -> str:
    return (EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%d %H:%M:%S")


@dataclass(frozen=True)
class Windows:
    sql: str
    ends: Callable[[int], Iterable[int]]
    """Of the windows that a time is in."""


def lengths(*seconds: int) -> str:
    return ", ".join(f"INTERVAL '{length}' SECOND" for length in seconds)


WINDOWS = (
    Windows(f"TUMBLE(TABLE {{}}, DESCRIPTOR(ts), {lengths(10)})", lambda t: [t // 10 * 10 + 10]),
    Windows(
        f"HOP(TABLE {{}}, DESCRIPTOR(ts), {lengths(4, 12)})",
        lambda t: range(t // 4 * 4 + 4, t // 4 * 4 + 16, 4),
    ),
    Windows(
        f"CUMULATE(TABLE {{}}, DESCRIPTOR(ts), {lengths(5, 15)})",
        lambda t: range(t // 5 * 5 + 5, t // 15 * 15 + 20, 5),
    ),
)
KINDS = ("INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI")
EQUALITIES: tuple[tuple[str, Callable[[Row, Row], bool]], ...] = (
    ("l.k = r.k", lambda a, b: a.key is not None and a.key == b.key),
    ("l.k IS NOT DISTINCT FROM r.k", lambda a, b: a.key == b.key),
)
# Of two values that are not NULL; with one that is, none of them holds.
CONDITIONS: tuple[tuple[str, Callable[[int, int], bool]] | None, ...] = (
    None,
    ("l.v < r.v", lambda a, b: a < b),
    ("l.v <> r.v AND l.v > 0", lambda a, b: a != b and a > 0),
    ("l.v + r.v = 3", lambda a, b: a + b == 3),
)
Given = tuple[Row | None, Row | None, int]
"""Of the left, of the right, and the end of their window."""


@dataclass
class Join:
    """One join, and what its windows hold that are open."""

    kind: str
    windows: Windows
    equality: int
    condition: int
    late: int = 0
    """Rows whose windows had all closed."""
    open: dict[int, tuple[list[Row], list[Row]]] = field(
        default_factory=lambda: defaultdict(lambda: ([], []))
    )

    @property
    def sql(self) -> str:
        condition = CONDITIONS[self.condition]
        left, right = (f"TABLE({self.windows.sql.format(name)})" for name in "lr")
        on = " AND ".join(
            (
                "l.window_start = r.window_start AND l.window_end = r.window_end",
                EQUALITIES[self.equality][0],
                *(() if condition is None else (condition[0],)),
            )
        )
        if self.kind in ("SEMI", "ANTI"):
            none = "CAST(NULL AS INT)"
            columns = f"l.k, l.v, l.t, {none}, {none}, {none}, l.window_end"
            exists = "NOT EXISTS" if self.kind == "ANTI" else "EXISTS"
            others = f"SELECT * FROM (SELECT * FROM {right}) r WHERE {on}"
            whole = f"(SELECT * FROM {left}) l WHERE {exists} ({others})"
        else:
            columns = "l.k, l.v, l.t, r.k, r.v, r.t, COALESCE(l.window_end, r.window_end)"
            whole = f"(SELECT * FROM {left}) l {self.kind} JOIN (SELECT * FROM {right}) r ON {on}"
        return f"SELECT '{self.kind}', {columns} FROM {whole}"

    def take(self, rows: tuple[list[Row], ...], before: int, now: int) -> Iterator[Given]:
        for side in (0, 1):
            for row in rows[side]:
                ends = [end for end in self.windows.ends(row.time) if end > before]
                self.late += not ends
                for end in ends:
                    self.open[end][side].append(row)
        for end in [end for end in self.open if end <= now]:
            for left, right in self._joined(*self.open.pop(end)):
                yield left, right, end

    def _joined(self, left: list[Row], right: list[Row]) -> Iterator[tuple[Row | None, Row | None]]:
        pairs = [
            (i, j) for i, a in enumerate(left) for j, b in enumerate(right) if self._matches(a, b)
        ]
        if self.kind in ("SEMI", "ANTI"):
            matched = {i for i, _ in pairs}
            yield from (
                (a, None) for i, a in enumerate(left) if (i in matched) == (self.kind == "SEMI")
            )
            return
        yield from ((left[i], right[j]) for i, j in pairs)
        if self.kind in ("LEFT", "FULL"):
            yield from ((left[i], None) for i in {*range(len(left))} - {i for i, _ in pairs})
        if self.kind in ("RIGHT", "FULL"):
            yield from ((None, right[j]) for j in {*range(len(right))} - {j for _, j in pairs})

    def _matches(self, a: Row, b: Row) -> bool:
        condition = CONDITIONS[self.condition]
        if not EQUALITIES[self.equality][1](a, b):
            return False
        if condition is None:
            return True
        return a.value is not None and b.value is not None and condition[1](a.value, b.value)


def drawn_joins(rng: random.Random) -> list[Join]:
    """Each kind of join once, each kind of window twice, half of the joins with a condition."""
    windows = rng.sample(WINDOWS * 2, 6)
    conditions = rng.sample((0, 0, 0, 1, 2, 3), 6)
    return [
        Join(kind, over, rng.choice((0, 0, 1)), condition)
        for kind, over, condition in zip(KINDS, windows, conditions, strict=True)
    ]


@dataclass
class Input:
    """One table: what has come of it."""

    latest: int = 60

    def draw(self, rng: random.Random, moves: bool) -> list[Row]:
        """Rows with times up to the latest so far, some of them twice, and one that is later."""
        rows = [self._row(rng, self.latest - rng.choice((0, 1, 3, 8, 15, 40))) for _ in range(ROWS)]
        rows += rng.sample(rows, ROWS // 8)
        if moves:
            self.latest += rng.choice((5, 10, 40))
            rows.append(self._row(rng, self.latest))
        return rows

    def _row(self, rng: random.Random, at: int) -> Row:
        return Row(rng.choice(KEYS), rng.choice(VALUES), at)


def script(bootstrap: str, names: dict[str, str], joins: list[Join]) -> str:
    tables = [
        f"""CREATE TABLE {name} (k INT, v INT, t INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - {lengths(DELAY)}) WITH (
  'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'json');"""
        for name, topic in names.items()
    ]
    return "\n".join(tables) + "\nUNION ALL\n".join(join.sql for join in joins) + ";"


class Taken:
    style: ClassVar[str] = "json"

    def __init__(self) -> None:
        self.rows: Counter[tuple[Any, ...]] = Counter()

    def take(self, fields: tuple[Field, ...], rows: Iterable[tuple[RowKind, str]]) -> None:
        for kind, text in rows:
            assert kind is RowKind.INSERT
            self.rows[tuple(json.loads(text).values())] += 1


def flat(kind: str, left: Row | None, right: Row | None, end: int) -> tuple[Any, ...]:
    sides = ((None,) * 3 if r is None else (r.key, r.value, r.time) for r in (left, right))
    return (kind, *next(sides), *next(sides), shown(end))


@pytest.mark.spark
@pytest.mark.kafka
def test_rows_of_the_same_window(
    broker: Broker, spark: Any, topic_name: Callable[..., str], tmp_path: Path
) -> None:
    names = {name: topic_name(name) for name in "lr"}
    for topic in names.values():
        topics.create(broker.bootstrap, topic, 1)
    rng = random.Random(SEED)
    joins, inputs = drawn_joins(rng), (Input(), Input())
    output, sql = Taken(), script(broker.bootstrap, names, joins)
    right: Counter[tuple[Any, ...]] = Counter()
    before = NEVER
    session: Session | None = None

    try:
        for step, starts in enumerate(STARTS):
            if starts and session is not None:
                session.close()
            rows = tuple(table.draw(rng, starts) for table in inputs)
            for topic, some in zip(names.values(), rows, strict=True):
                topics.write(broker.bootstrap, topic, [row.record for row in some])
            if starts:  # What is known lies in the checkpoint.
                session = Session(spark, checkpoint=tmp_path, output=output)
                [*_, job] = session.execute(sql, name="joins")
            settle(job.query)
            now = max(before, min(table.latest for table in inputs) - DELAY)
            for join in joins:
                right.update(flat(join.kind, *given) for given in join.take(rows, before, now))
            before = now
            assert output.rows == right, f"FUZZ={SEED}, step {step}"
    finally:
        if session is not None:
            session.close()
    assert {kind for kind, *_ in right} == {*KINDS}
    assert all(join.late for join in joins)

"""Windows of random rows, out of order and late: what comes out is what a model gives, cut into the same batches.

The model is Flink's rule, row by row: what a row's window needs, whether it is late by the watermark before its batch,
and what closes by the one after it."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
from world import Collected, World

from tidemill import Session as TidemillSession

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

# In milliseconds, as all times here.
DELAY = 5000
GAP = 4000
SIZE = 10_000
BEGIN = datetime(2024, 1, 1)

Row = dict[str, Any]


def shown(at: float) -> str:
    time = BEGIN + timedelta(milliseconds=at)
    return time.strftime("%Y-%m-%d %H:%M:%S.%f").rstrip("0").rstrip(".")


def random_rows(seed: int, count: int = 240) -> list[Row]:
    """Time goes on by about a second a row; some rows are a little back, a few far."""
    rng = random.Random(seed)
    rows = []
    for i in range(count):
        back = rng.choice([0, 0, 0, 1000, 2000, 3000, rng.randrange(5000, 30_000)])
        at = max(0, i * 700 - back + rng.choice([0, 500, 1]))
        rows.append({"k": rng.choice("abc"), "x": rng.randint(1, 20), "ts": at, "n": i})
    return rows


@dataclass
class Session:
    start: float
    end: float
    rows: list[Row] = field(default_factory=list)


@dataclass
class Sessions:
    """The open sessions of each key."""

    open: dict[str, list[Session]] = field(default_factory=dict)

    def add(self, row: Row, watermark: float) -> bool:
        """Whether the row is not late."""
        sessions = self.open.setdefault(row["k"], [])
        end = row["ts"] + GAP
        touched = [s for s in sessions if s.start <= end and row["ts"] <= s.end]
        if not touched and end - 1 <= watermark:
            return False
        whole = Session(
            min([row["ts"], *(s.start for s in touched)]), max([end, *(s.end for s in touched)])
        )
        whole.rows = [*(r for s in touched for r in s.rows), row]
        self.open[row["k"]] = [*(s for s in sessions if s not in touched), whole]
        return True

    def close(self, watermark: float) -> Iterator[tuple[float, float, list[Row]]]:
        for key, sessions in self.open.items():
            due = [s for s in sessions if s.end - 1 <= watermark]
            self.open[key] = [s for s in sessions if s not in due]
            yield from ((s.start, s.end, s.rows) for s in due)


@dataclass
class Tumbling:
    """The open windows of each key."""

    open: dict[tuple[str, float], list[Row]] = field(default_factory=dict)

    def add(self, row: Row, watermark: float) -> bool:
        end = row["ts"] // SIZE * SIZE + SIZE
        if end - 1 <= watermark:
            return False
        self.open.setdefault((row["k"], end), []).append(row)
        return True

    def close(self, watermark: float) -> Iterator[tuple[float, float, list[Row]]]:
        for key, end in [at for at in self.open if at[1] - 1 <= watermark]:
            yield end - SIZE, end, self.open.pop((key, end))


def expected(
    rows: list[Row],
    batches: list[int],
    windows: Sessions | Tumbling,
    give: Callable[[float, float, list[Row]], list[Row]],
) -> tuple[Counter[str], int]:
    """What comes out, and how many rows are late."""
    given: Counter[str] = Counter()
    late, watermark, at = 0, float("-inf"), 0
    for size in batches:
        batch = rows[at : at + size]
        late += sum(not windows.add(row, watermark) for row in batch)
        at += size
        watermark = max(watermark, max(row["ts"] for row in batch) - DELAY)
        for start, end, held in windows.close(watermark if at < len(rows) else float("inf")):
            given.update(repr(sorted(row.items())) for row in give(start, end, held))
    return given, late


def told(row: Row, start: float, end: float) -> Row:
    return {"k": row["k"], "s": shown(start), "e": shown(end)}


def sums(start: float, end: float, rows: list[Row]) -> list[Row]:
    total, first_number = sum(r["x"] for r in rows), min(r["n"] for r in rows)
    return [told(rows[0], start, end) | {"c": len(rows), "v": total, "f": first_number}]


def distinct(start: float, end: float, rows: list[Row]) -> list[Row]:
    found = {r["x"] for r in rows}
    big = sum(x > 9 for x in found)
    return [told(rows[0], start, end) | {"c": len(found), "v": sum(found), "f": big}]


def all_rows(start: float, end: float, rows: list[Row]) -> list[Row]:
    return [told(r, start, end) | {"n": r["n"]} for r in rows]


def greatest(start: float, end: float, rows: list[Row]) -> list[Row]:
    ordered = sorted(rows, key=lambda r: (-r["x"], r["n"]))[:2]
    return [told(r, start, end) | {"n": r["n"], "p": i} for i, r in enumerate(ordered, 1)]


def first(start: float, end: float, rows: list[Row]) -> list[Row]:
    row = min(rows, key=lambda r: (r["ts"], r["n"]))
    return [told(row, start, end) | {"n": row["n"]}]


def last(start: float, end: float, rows: list[Row]) -> list[Row]:
    row = max(rows, key=lambda r: (r["ts"], r["n"]))
    return [told(row, start, end) | {"n": row["n"]}]


def seconds(length: int) -> str:
    return f"INTERVAL '{length // 1000}' SECOND"


SESSION = f"TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), {seconds(GAP)}))"
TUMBLE = f"TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), {seconds(SIZE)}))"
BOUNDS = "k, window_start AS s, window_end AS e"
DISTINCT = (
    "COUNT(DISTINCT x) AS c, SUM(DISTINCT x) AS v, COUNT(DISTINCT x) FILTER (WHERE x > 9) AS f"
)


def numbered(windows: str, order: str, condition: str, columns: str) -> str:
    by = "PARTITION BY window_start, window_end, k"
    inner = f"SELECT *, ROW_NUMBER() OVER ({by} ORDER BY {order}) AS p FROM {windows}"
    return f"SELECT {columns} FROM ({inner}) WHERE {condition}"


CASES: dict[str, tuple[str, Callable[[], Sessions | Tumbling], Callable[..., list[Row]], str]] = {
    "sums of sessions": (
        f"SELECT {BOUNDS}, COUNT(*) AS c, SUM(x) AS v, MIN(n) AS f FROM {SESSION}"
        " GROUP BY k, window_start, window_end",
        Sessions,
        sums,
        "WindowAggregate of t",
    ),
    "distinct values of sessions": (
        f"SELECT {BOUNDS}, {DISTINCT} FROM {SESSION} GROUP BY k, window_start, window_end",
        Sessions,
        distinct,
        "WindowAggregate of t",
    ),
    "GROUP BY SESSION": (
        f"SELECT k, SESSION_START(ts, {seconds(GAP)}) AS s, SESSION_END(ts, {seconds(GAP)}) AS e,"
        f" {DISTINCT} FROM t GROUP BY k, SESSION(ts, {seconds(GAP)})",
        Sessions,
        distinct,
        "GroupWindowAggregate of t",
    ),
    "rows of sessions": (
        f"SELECT {BOUNDS}, n FROM {SESSION}",
        Sessions,
        all_rows,
        "WindowTableFunction of t",
    ),
    "the greatest of windows": (
        numbered(TUMBLE, "x DESC", "p <= 2", f"{BOUNDS}, n, p"),
        Tumbling,
        greatest,
        "WindowRank of t",
    ),
    "the first of windows": (
        numbered(TUMBLE, "ts", "p = 1", f"{BOUNDS}, n"),
        Tumbling,
        first,
        "WindowDeduplicate of t",
    ),
    "the last of windows": (
        numbered(TUMBLE, "ts DESC", "p = 1", f"{BOUNDS}, n"),
        Tumbling,
        last,
        "WindowDeduplicate of t",
    ),
}


def create(world: World, rows: list[Row]) -> str:
    topic = world.create(*({**row, "ts": shown(row["ts"])} for row in rows))
    return (
        "CREATE TABLE t (k STRING, x INT, ts TIMESTAMP(3), n INT,"
        f" WATERMARK FOR ts AS ts - {seconds(DELAY)}) {world.kafka(topic, scan_bounded_mode='latest-offset')};"
    )


@pytest.mark.parametrize("name", CASES)
def test_windows_are_those_of_a_model(name: str, world: World) -> None:
    """Every second time late rows are letters, which changes nothing else."""
    query, windows, give, counted = CASES[name]
    number = sorted(CASES).index(name)
    rows = random_rows(number)
    box = world.create()
    becomes = "dead-letter" if number % 2 else "drop"
    world.run(
        create(world, rows) + query,
        tidemill_batch_max__rows="37",
        table_exec_late__rows=becomes,
        table_exec_late__rows_topic=box,
    )
    assert len(world.batches) > 3 and sum(world.batches) == len(rows)
    wanted, late = expected(rows, world.batches, windows(), give)
    found = Counter(repr(sorted(row.items())) for _, row in world.rows)
    assert found == wanted
    assert late > 0
    assert world.oddities[f"{counted}: late row"] == late
    assert len(world.records(box)) == (late if becomes == "dead-letter" else 0)


def test_sessions_of_processing_time(world: World) -> None:
    """What comes at one time is one session; the end closes it."""
    topic = world.create(*({"k": k} for k in "aab"))
    table = f"CREATE TABLE t (k STRING, p AS PROCTIME()) {world.kafka(topic, scan_bounded_mode='latest-offset')};"
    world.run(f"{table} SELECT k, COUNT(*) AS c FROM t GROUP BY k, SESSION(p, INTERVAL '1' MINUTE)")
    assert sorted((row["k"], row["c"]) for _, row in world.rows) == [("a", 2), ("b", 1)]


def test_a_session_of_processing_time_closes_without_input(world: World) -> None:
    topic = world.create(*({"k": k} for k in "aab"))
    table = f"CREATE TABLE t (k STRING, p AS PROCTIME()) {world.kafka(topic)};"
    query = "SELECT k, COUNT(*) AS c FROM t GROUP BY k, SESSION(p, INTERVAL '1' SECOND)"
    deadline = time.monotonic() + 60
    with TidemillSession(world.spark, output=Collected(world.rows)) as session:
        session.execute(f"{table} {query}")
        while len(world.rows) < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
    assert sorted((row["k"], row["c"]) for _, row in world.rows) == [("a", 2), ("b", 1)]

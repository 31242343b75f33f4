"""Joins over time against what a person would compute with all rows at hand, and what they keep of them."""

from __future__ import annotations

import random
import time
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest
from world import Collected, World

from tidemill import Session

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

BEGIN = datetime(2024, 1, 1)
UNORDERED = 20
"""Rows come up to so many seconds too late, which the watermark allows for."""


def at(seconds: int) -> str:
    return (BEGIN + timedelta(seconds=seconds)).isoformat(sep=" ")


def shuffled(chance: random.Random, times: list[int]) -> list[int]:
    """The same times, none of which comes after one that is more than UNORDERED seconds later."""
    return sorted(times, key=lambda t: t + chance.uniform(0, UNORDERED))


def reading(per_batch: int) -> dict[str, str]:
    """A table that ends, so that in the end all rows are given."""
    return {"scan_max__rows__per__batch": str(per_batch), "scan_bounded_mode": "latest-offset"}


def table(world: World, name: str, rows: list[dict[str, Any]], columns: str, per_batch: int) -> str:
    topic = world.create(*rows, hint=name, partitions=1)
    delay = f"WATERMARK FOR ts AS ts - INTERVAL '{UNORDERED}' SECOND"
    options = world.kafka(topic, **reading(per_batch))
    return f"CREATE TABLE {name} ({columns}, ts TIMESTAMP(3), {delay}) {options};"


def rows_of(chance: random.Random, number: int) -> list[dict[str, Any]]:
    times = shuffled(chance, [chance.randrange(300) for _ in range(number)])
    keys = [1, 2, 3, None]
    return [{"id": i, "k": chance.choice(keys), "ts": at(t)} for i, t in enumerate(times)]


def seconds(row: dict[str, Any]) -> float:
    return (datetime.fromisoformat(row["ts"]) - BEGIN).total_seconds()


@pytest.mark.parametrize("kind", ["INNER", "LEFT", "RIGHT", "FULL"])
@pytest.mark.parametrize(("lower", "upper", "per_batch"), [(-5, 10, 9), (3, 8, 1000)])
def test_every_pair_within_an_interval_is_given_once(
    world: World, kind: str, lower: int, upper: int, per_batch: int
) -> None:
    chance = random.Random(f"{kind}{lower}")
    left, right = rows_of(chance, 60), rows_of(chance, 60)
    world.run(
        table(world, "l", left, "id INT, k INT", per_batch)
        + table(world, "r", right, "id INT, k INT", per_batch)
        + f"""SELECT l.id AS a, r.id AS b FROM l {kind} JOIN r ON l.k = r.k AND MOD(l.id + r.id, 3) <> 0
        AND r.ts BETWEEN l.ts + INTERVAL '{lower}' SECOND AND l.ts + INTERVAL '{upper}' SECOND;"""
    )
    pairs = [
        (a["id"], b["id"])
        for a in left
        for b in right
        if a["k"] is not None
        and a["k"] == b["k"]
        and (a["id"] + b["id"]) % 3
        and lower <= seconds(b) - seconds(a) <= upper
    ]
    expected: list[tuple[int | None, int | None]] = list(pairs)
    if kind in ("LEFT", "FULL"):
        expected += [(a["id"], None) for a in left if a["id"] not in {p[0] for p in pairs}]
    if kind in ("RIGHT", "FULL"):
        expected += [(None, b["id"]) for b in right if b["id"] not in {p[1] for p in pairs}]
    assert Counter((r["a"], r["b"]) for _, r in world.rows) == Counter(expected)


@pytest.mark.parametrize("per_batch", [9, 1000])
def test_every_row_meets_the_version_of_its_time(world: World, per_batch: int) -> None:
    chance = random.Random(per_batch)
    left = rows_of(chance, 80)
    times = shuffled(chance, chance.sample(range(300), 60))
    versions = [{"k": chance.choice([1, 2]), "v": i, "ts": at(t)} for i, t in enumerate(times)]
    topic = world.create(
        *({"key": f'{{"k":{v["k"]}}}', "value": v} for v in versions), hint="versions"
    )
    world.run(
        table(world, "l", left, "id INT, k INT", per_batch)
        + f"""CREATE TABLE versions (k INT, v INT, ts TIMESTAMP(3), PRIMARY KEY (k) NOT ENFORCED,
        WATERMARK FOR ts AS ts - INTERVAL '{UNORDERED}' SECOND)
        {world.upsert(topic, **reading(per_batch))};
        SELECT l.id, v.v FROM l LEFT JOIN versions FOR SYSTEM_TIME AS OF l.ts AS v ON l.k = v.k;"""
    )
    expected = {}
    for row in left:
        known = [v for v in versions if v["k"] == row["k"] and v["ts"] <= row["ts"]]
        expected[row["id"]] = max(known, key=lambda v: v["ts"])["v"] if known else None
    assert {r["id"]: r["v"] for _, r in world.rows} == expected
    assert len(world.rows) == len(left)


def test_state_goes_with_the_watermark(world: World) -> None:
    """Of ten thousand seconds, rows of about the last thirty are kept, and timers for them."""
    left = [{"id": i, "k": i % 50, "ts": at(i)} for i in range(10_000)]
    script = (
        table(world, "l", left, "id INT, k INT", 1000)
        + table(world, "r", left, "id INT, k INT", 1000)
        + "SELECT l.id FROM l LEFT JOIN r ON l.k = r.k AND r.ts BETWEEN l.ts AND l.ts + INTERVAL '5' SECOND;"
    )
    script = script.replace(
        "'scan.bounded.mode' = 'latest-offset'", "'scan.bounded.mode' = 'unbounded'"
    )
    with Session(world.spark, checkpoint=world.checkpoint, output=Collected(world.rows)) as session:
        job = next(j for j in session.execute(script) if not isinstance(j, str))
        job.query.processAllAvailable()
        [operator] = job.query.lastProgress["stateOperators"]
    # All have met the row of their own second.
    assert len(world.rows) == 10_000
    # A value and a timer for each of the keys that have rows, and the watermark of each task.
    assert operator["numRowsTotal"] < 2 * 50 + 10


def test_in_processing_time_a_row_is_given_alone_though_nothing_comes(world: World) -> None:
    left, right = (world.kafka(world.create(*rows)) for rows in ([{"k": 1}, {"k": 2}], [{"k": 2}]))
    script = f"""
        CREATE TABLE l (k INT, proc AS PROCTIME()) {left};
        CREATE TABLE r (k INT, proc AS PROCTIME()) {right};
        SELECT l.k AS a, r.k AS b FROM l LEFT JOIN r
        ON l.k = r.k AND r.proc BETWEEN l.proc AND l.proc + INTERVAL '3' SECOND;
    """
    with Session(world.spark, checkpoint=world.checkpoint, output=Collected(world.rows)) as session:
        list(session.execute(script))
        deadline = time.monotonic() + 60
        while len(world.rows) < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
    assert sorted((r["a"], r["b"]) for _, r in world.rows) == [(1, None), (2, 2)]


def test_in_processing_time_rows_of_one_batch_are_at_the_same_time(world: World) -> None:
    rows = [{"id": i, "k": i} for i in range(5)]
    left, right = (world.kafka(world.create(*rows, hint=name)) for name in "lr")
    for condition in (
        "r.proc BETWEEN l.proc AND l.proc + INTERVAL '1' HOUR",
        "r.proc BETWEEN l.proc - INTERVAL '1' HOUR AND l.proc",
    ):
        world.rows.clear()
        world.run(
            f"""
            CREATE TABLE l (id INT, k INT, proc AS PROCTIME()) {left};
            CREATE TABLE r (id INT, k INT, proc AS PROCTIME()) {right};
            SELECT l.id AS a, r.id AS b FROM l FULL JOIN r ON l.k = r.k AND {condition};
            """
        )
        assert sorted((r["a"], r["b"]) for _, r in world.rows) == [(i, i) for i in range(5)]

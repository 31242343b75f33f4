"""The normalise operator against Flink's rules, written down as a few lines of Python, and against random streams."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from typing import Any

import pytest
from streams import SYMBOLS, Run, Stream, new_counts, operators

pytestmark = pytest.mark.spark

COLUMNS = {"k": "INT", "v": "STRING", "n": "DOUBLE"}
HIDDEN = {"_kind": "TINYINT", "_origin": "INT", "_order": "BIGINT"}
Row = dict[str, Any]
Table = dict[int, tuple[Any, ...]]


def normalize(
    frame: Any,
    update_before: bool = True,
    ordered: bool = True,
    ttl: int | None = None,
    filtered: bool = False,
) -> tuple[Any, Any]:
    from pyspark.sql import DataFrame

    session = frame.sparkSession
    spec = {
        "name": "ChangelogNormalize of test",
        "keys": ["k"],
        "columns": list(COLUMNS),
        "origin": "_origin" if ordered else None,
        "order": "_order" if ordered else None,
        "filtered": filtered,
        "updateBefore": update_before,
        "ttl": None if ttl is None else [ttl],
    }
    counts = new_counts(session)
    return DataFrame(
        operators(session).normalize(frame._jdf, json.dumps(spec), counts), session
    ), counts


def model(
    table: Table, rows: list[Row], update_before: bool = True, keep_equal: bool = False
) -> list[tuple[Any, ...]]:
    """Flink's mini-batch: only the last change of a key counts. Changes `table`; the order of keys is open."""
    last: dict[int, Row] = {}
    for row in sorted(rows, key=lambda r: (r["_origin"], r["_order"])):
        last[row["k"]] = row
    changes: list[tuple[Any, ...]] = []
    for key, row in last.items():
        old, new = table.get(key), (row["k"], row["v"], row["n"])
        if SYMBOLS[row["_kind"]] in ("-U", "-D"):
            if old is not None:
                changes.append(("-D", *old))
                del table[key]
            continue
        table[key] = new
        if old is None:
            changes.append(("+I", *new))
        elif keep_equal or old != new:
            changes += [("-U", *old)] * update_before + [("+U", *new)]
    return changes


def by_key(changes: list[tuple[Any, ...]]) -> dict[int, list[tuple[Any, ...]]]:
    keyed: dict[int, list[tuple[Any, ...]]] = {}
    for change in changes:
        keyed.setdefault(change[1], []).append(change)
    return keyed


def upsert(key: int, value: str | None, order: int, origin: int = 0, kind: str = "+U") -> Row:
    return {
        "k": key,
        "v": value,
        "n": None,
        "_kind": SYMBOLS.index(kind),
        "_origin": origin,
        "_order": order,
    }


START = Callable[[Any], Run]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([("+U", "a")], ["+I a"]),
        ([("+U", "a"), ("+U", "a")], ["+I a"]),
        ([("+U", "a"), ("+U", "b")], ["+I a", "-U a +U b"]),
        ([("-D", None)], []),
        ([("+U", "a"), ("-D", None)], ["+I a", "-D a"]),
        ([("+U", "a"), ("-U", "x")], ["+I a", "-D a"]),
        ([("+U", "a"), ("-D", None), ("+I", "b")], ["+I a", "-D a", "+I b"]),
        ([("+U", "a"), ("-D", None), ("-D", None)], ["+I a", "-D a"]),
        ([("+U", None), ("+U", "a")], ["+I None", "-U None +U a"]),
    ],
    ids=lambda x: " ".join("".join(map(str, r)) for r in x) or "nothing",
)
def test_one_change_a_batch_gives_what_flink_gives(
    spark: Any, run: START, rows: list[tuple[str, Any]], expected: list[str]
) -> None:
    stream = Stream(spark, COLUMNS | HIDDEN, 1)
    frame, _ = normalize(stream.frame)
    job = run(frame)
    seen = []
    for number, (kind, value) in enumerate(rows):
        stream.add([upsert(1, value, number, kind=kind)])
        seen.append(" ".join(f"{symbol} {v}" for symbol, _, v, _ in job.take()))
    assert [s for s in seen if s] == expected


@pytest.mark.parametrize("update_before", [True, False])
@pytest.mark.parametrize("keep_equal", [False, True])
def test_random_upserts_give_the_table_in_every_batch(
    spark: Any, run: START, update_before: bool, keep_equal: bool
) -> None:
    pick = random.Random(f"{update_before} {keep_equal}")
    stream = Stream(spark, COLUMNS | HIDDEN, 3)
    frame, counts = normalize(stream.frame, update_before, ttl=3_600_000 if keep_equal else None)
    job = run(frame)
    table: Table = {}
    offsets = [0, 0, 0]
    unknown = 0
    for batch in range(12):
        rows = []
        for _ in range(pick.randrange(1, 120)):
            key = pick.randrange(25)
            origin = key % 3
            offsets[origin] += 1
            kind = pick.choices(SYMBOLS, [2, 1, 5, 3])[0]
            row = upsert(key, pick.choice(["a", "b", "c", None]), offsets[origin], origin, kind)
            rows.append(row | {"n": pick.choice([None, 0.5, -1.0])})
        known = set(table)
        for row in rows:
            kind = SYMBOLS[row["_kind"]]
            unknown += (
                kind == "-D"
                and row["k"] not in known
                and all(r is row for r in rows if r["k"] == row["k"])
            )
            known |= {row["k"]} if kind in ("+I", "+U") else set()
        expected = model(table, rows, update_before, keep_equal)
        # Order is what the columns say, not what the source happens to give.
        pick.shuffle(rows)
        stream.add(rows)
        if batch == 5:
            again = job.take_twice()
            assert by_key(again) == by_key(expected)
            continue
        if batch % 4 == 3:
            job.restart()
        assert by_key(job.take()) == by_key(expected)
    assert dict(counts.values()).get("delete of an unknown row", 0) >= unknown > 0
    assert "key in several partitions" not in dict(counts.values())


@pytest.mark.parametrize(
    ("batches", "unknown", "known", "filtered"),
    [
        (["-D"], 1, 0, False),
        (["-D -D +U -D -D"], 3, 0, False),
        (["+I -D +I"], 0, 0, False),
        (["+I +I +U"], 0, 1, False),
        (["+I", "+I +U -D +I"], 0, 1, False),
        (["+I", "+U -D +I +I"], 0, 1, False),
        (["+I", "-D", "-D +I"], 1, 0, False),
        (["-D +I +I -U -D", "-D"], 0, 1, True),
    ],
)
def test_what_should_not_come_is_counted_wherever_it_stands_in_a_batch(
    spark: Any, run: START, batches: list[str], unknown: int, known: int, filtered: bool
) -> None:
    """Of a table that is filtered nobody knows which rows it has."""
    stream = Stream(spark, COLUMNS | HIDDEN, 1)
    frame, counts = normalize(stream.frame, filtered=filtered)
    job = run(frame)
    offset = 0
    for batch in batches:
        kinds = batch.split()
        stream.add([upsert(1, "x", offset + i, kind=kind) for i, kind in enumerate(kinds)])
        offset += len(kinds)
        job.take()
    expected = {"delete of an unknown row": unknown, "insert of a known row": known}
    assert dict(counts.values()) == {name: n for name, n in expected.items() if n}


def test_a_key_in_several_partitions_is_counted_and_the_later_record_wins(
    spark: Any, run: START
) -> None:
    stream = Stream(spark, COLUMNS | HIDDEN, 2)
    frame, counts = normalize(stream.frame)
    job = run(frame)
    stream.add([upsert(1, "first", 7, origin=0)])
    assert job.take() == [("+I", 1, "first", None)]
    stream.add([upsert(1, "second", 3, origin=1)])
    assert job.take() == [("-U", 1, "first", None), ("+U", 1, "second", None)]
    assert dict(counts.values()) == {"key in several partitions": 1}
    # Within one batch nobody knows which was read later: always the same one wins.
    stream.add([upsert(1, "of 1", 4, origin=1), upsert(1, "of 0", 8, origin=0)])
    assert job.take()[-1] == ("+U", 1, "of 1", None)
    assert dict(counts.values()) == {"key in several partitions": 2}


def test_without_origins_rows_are_in_the_order_of_their_task(spark: Any, run: START) -> None:
    stream = Stream(spark, COLUMNS | HIDDEN, 1)
    frame, _ = normalize(stream.frame, ordered=False)
    job = run(frame)
    stream.add([upsert(k, f"{k} {i}", 0) for i in range(50) for k in range(4)])
    assert sorted(job.take()) == [("+I", k, f"{k} 49", None) for k in range(4)]


def test_state_is_forgotten_the_store_shrinks_and_no_empty_batch_runs(
    spark: Any, run: START
) -> None:
    stream = Stream(spark, COLUMNS | HIDDEN, 1)
    frame, _ = normalize(stream.frame, ttl=8000)
    job = run(frame)
    for _ in range(2):  # the first batch takes its time
        stream.add([upsert(k, "old", k) for k in range(1000)])
        job.take()
    stream.add([upsert(0, "old", 1000)])
    assert job.take() == [("-U", 0, "old", None), ("+U", 0, "old", None)], "equal rows go on"
    progress = job.query.lastProgress
    assert progress.stateOperators[0].numRowsTotal == 1000
    time.sleep(8.5)
    assert job.query.lastProgress.batchId == progress.batchId
    stream.add([upsert(0, "new", 1001), upsert(1, None, 1002, kind="-D")])
    assert job.take() == [("+I", 0, "new", None)], "what is forgotten is not taken back"
    assert job.query.lastProgress.stateOperators[0].numRowsTotal == 1


def test_a_job_may_be_given_a_time_to_live_later(spark: Any, run: START) -> None:
    stream = Stream(spark, COLUMNS | HIDDEN, 1)
    job = run(normalize(stream.frame)[0])
    stream.add([upsert(1, "a", 1)])
    job.take()
    job.query.stop()
    job.frame = normalize(stream.frame, ttl=3_600_000)[0]
    job.restart()
    stream.add([upsert(1, "b", 2)])
    assert job.take() == [("-U", 1, "a", None), ("+U", 1, "b", None)]
    job.frame = normalize(stream.frame)[0]
    job.restart()
    stream.add([upsert(1, "c", 3)])
    assert job.take() == [("-U", 1, "b", None), ("+U", 1, "c", None)]

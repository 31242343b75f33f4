"""The first and the last row of each key, against a few lines of Python."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from typing import Any

import pytest
from streams import Run, Stream, operators

pytestmark = pytest.mark.spark

COLUMNS = {"k": "INT", "v": "STRING", "at": "TIMESTAMP_NTZ"}
Row = dict[str, Any]
Change = tuple[Any, ...]
START = Callable[[Any], Run]


def deduplicate(
    frame: Any, last: bool, by_time: bool, update_before: bool = True, ttl: int | None = None
) -> Any:
    from pyspark.sql import DataFrame

    spec = {
        "name": "Deduplicate of test",
        "keys": ["k"],
        "columns": list(COLUMNS),
        "time": "at",
        "rowtime": by_time,
        "last": last,
        "updateBefore": update_before,
        "ttl": None if ttl is None else [ttl],
    }
    session = frame.sparkSession
    return DataFrame(operators(session).deduplicate(frame._jdf, json.dumps(spec)), session)


def model(
    table: dict[int, Row], rows: list[Row], last: bool, by_time: bool, update_before: bool
) -> dict[int, list[Change]]:
    """The net change of each key; changes `table`."""
    before = dict(table)
    for row in rows:
        old = table.get(row["k"])
        late = by_time and old is not None and (old["at"] or "") > (row["at"] or "")
        repeated = not by_time and old is not None and old["v"] == row["v"]
        if old is None or (last and not late and not repeated):
            table[row["k"]] = row
    changes: dict[int, list[Change]] = {}
    for key in {r["k"] for r in rows}:
        was, now = before.get(key), table[key]
        if was is not None and not by_time and was["v"] == now["v"]:
            table[key] = was  # a row that came back within the batch is not seen
        elif was is None:
            changes[key] = [("+I", key, now["v"], now["at"])]
        elif was != now:
            changes[key] = [("-U", key, was["v"], was["at"])] * update_before
            changes[key] += [("+U", key, now["v"], now["at"])]
    return changes


def by_key(changes: list[Change]) -> dict[int, list[Change]]:
    keyed: dict[int, list[Change]] = {}
    for symbol, key, v, at in changes:
        shown = None if at is None else at.isoformat(sep=" ")
        keyed.setdefault(key, []).append((symbol, key, v, shown))
    return keyed


def at(second: int) -> str:
    return f"2024-01-01 00:00:{second:02}"


@pytest.mark.parametrize(
    ("last", "by_time", "rows", "expected"),
    [
        (True, False, [("a", 1), ("b", 0)], ["+I a", "-U a +U b"]),
        (True, False, [("a", 1), ("a", 1)], ["+I a"]),
        (True, False, [("a", 1), ("a", 2), ("b", 3)], ["+I a", "-U a +U b"]),
        (True, True, [("a", 1), ("b", 0), ("c", 1)], ["+I a", "-U a +U c"]),
        (True, True, [("a", None), ("b", 0), ("c", None)], ["+I a", "-U a +U b"]),
        (False, False, [("a", 1), ("b", 0), ("a", 1)], ["+I a"]),
    ],
    ids=[
        "last come",
        "equal row",
        "later equal row",
        "latest time",
        "no time is before all",
        "first come",
    ],
)
def test_one_row_a_batch_gives_what_flink_gives(
    spark: Any,
    run: START,
    last: bool,
    by_time: bool,
    rows: list[tuple[str, int | None]],
    expected: list[str],
) -> None:
    stream = Stream(spark, COLUMNS)
    job = run(deduplicate(stream.frame, last, by_time))
    seen = []
    for value, second in rows:
        stream.add([{"k": 1, "v": value, "at": None if second is None else at(second)}])
        seen.append(" ".join(f"{symbol} {v}" for symbol, _, v, _ in job.take()))
    assert [s for s in seen if s] == expected


@pytest.mark.parametrize(
    ("last", "by_time", "update_before"),
    [(True, False, True), (True, True, True), (True, True, False), (False, False, True)],
    ids=["last come", "latest", "latest without the row before", "first come"],
)
def test_random_rows_give_the_table_in_every_batch(
    spark: Any, run: START, last: bool, by_time: bool, update_before: bool
) -> None:
    pick = random.Random(f"{last} {by_time} {update_before}")
    stream = Stream(spark, COLUMNS, 1)
    job = run(deduplicate(stream.frame, last, by_time, update_before))
    table: dict[int, Row] = {}
    for batch in range(10):
        rows: list[Row] = [
            {
                "k": pick.randrange(40),
                "v": pick.choice(["a", "b", "c", None]),
                "at": pick.choice([None, *(at(s) for s in range(batch, batch + 10))])
                if by_time
                else at(batch),
            }
            for _ in range(pick.randrange(1, 120))
        ]
        expected = model(table, rows, last, by_time, update_before)
        stream.add(rows)
        if batch == 4:
            again = job.take_twice()
        else:
            if batch % 3 == 2:
                job.restart()
            again = job.take()
        assert by_key(again) == expected, batch


def test_the_first_row_by_rowtime_needs_watermarks(spark: Any) -> None:
    stream = Stream(spark, COLUMNS)
    with pytest.raises(Exception, match="known to a watermark only"):
        deduplicate(stream.frame, last=False, by_time=True)


# --- time to live --------------------------------------------------------------------------------


# Which row is kept, the row that comes while it is, and what leaves then and when its own time is over.
LATER: dict[str, tuple[dict[str, bool], str, list[str], list[str]]] = {
    "later rows of a first one": ({"last": False, "by_time": False}, "b", [], ["+I c"]),
    "late rows of a latest one": ({"last": True, "by_time": True}, "b", [], ["+I c"]),
    "equal rows of a last one": (
        {"last": True, "by_time": False},
        "a",
        ["-U a", "+U a"],
        ["-U a", "+U c"],
    ),
}


def test_only_rows_that_are_kept_keep_a_key_alive(spark: Any, run: START) -> None:
    """As in Flink: a row that is passed over writes no state; an equal one is written, and sent again."""
    streams = {name: Stream(spark, COLUMNS, 1) for name in LATER}
    jobs = {
        name: run(deduplicate(streams[name].frame, **LATER[name][0], ttl=6000)) for name in LATER
    }

    def add(name: str, key: int, value: str, second: int) -> list[str]:
        streams[name].add([{"k": key, "v": value, "at": at(second)}])
        return [f"{symbol} {v}" for symbol, _, v, _ in jobs[name].take()]

    for name in LATER:
        add(name, 0, "warm", 0)  # the first batch takes its time
    for name in LATER:
        assert add(name, 1, "a", 9) == ["+I a"]
    time.sleep(3.5)
    for name, (_, value, then, _) in LATER.items():
        assert add(name, 1, value, 5) == then, name
    time.sleep(3)
    for name, (_, _, _, at_last) in LATER.items():
        assert add(name, 1, "c", 5) == at_last, name


def test_a_first_row_may_be_given_a_time_to_live_later(spark: Any, run: START) -> None:
    stream = Stream(spark, COLUMNS, 1)
    job = run(deduplicate(stream.frame, last=False, by_time=False))
    row = {"k": 1, "v": "a", "at": at(0)}
    stream.add([row])
    assert len(job.take()) == 1
    job.frame = deduplicate(stream.frame, last=False, by_time=False, ttl=2000)
    job.restart()
    stream.add([row])
    assert job.take() == [], "its time begins now"
    time.sleep(2.5)
    stream.add([row])
    assert len(job.take()) == 1

"""One row for each primary key of a sink out of the rows that a query has for it, against a plain list in Python."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from streams import SYMBOLS, Run, Stream, new_counts, operators

pytestmark = pytest.mark.spark

COLUMNS = {"k": "STRING", "id": "INT", "v": "INT", "_kind": "TINYINT"}
Row = tuple[str, str, int, int]
"""The symbol, the sink's key, the query's key, a value."""
Change = tuple[Any, ...]
START = Callable[[Any], Run]


def materialize(
    frame: Any,
    upsert_key: bool = False,
    on_conflict: str = "DEDUPLICATE",
    insert_only: bool = False,
) -> tuple[Any, Any]:
    from pyspark.sql import DataFrame

    spec = {
        "name": "table 'out'",
        "keys": ["k"],
        "keyNames": ["name"],
        "columns": ["k", "id", "v"],
        "upsertKey": ["id"] if upsert_key else None,
        "onConflict": on_conflict,
        "insertOnly": insert_only,
    }
    session = frame.sparkSession
    counts = new_counts(session)
    return DataFrame(
        operators(session).materialize(frame._jdf, json.dumps(spec), counts), session
    ), counts


def fed(rows: list[Row]) -> list[dict[str, Any]]:
    names = ("_kind", "k", "id", "v")
    return [dict(zip(names, (SYMBOLS.index(r[0]), *r[1:]), strict=True)) for r in rows]


def shown(changes: list[Change]) -> str:
    return " ".join(f"{symbol} {id_}:{v}" for symbol, _, id_, v in changes)


@pytest.mark.parametrize(
    ("given", "batches", "expected"),
    [
        pytest.param(
            {},
            [[("+I", "a", 1, 5)], [("+I", "a", 2, 6)], [("-D", "a", 2, 6)], [("-D", "a", 1, 5)]],
            ["+I 1:5", "+U 2:6", "+U 1:5", "-D 1:5"],
            id="the last row that lives is seen",
        ),
        pytest.param(
            {},
            [[("+I", "a", 1, 5), ("+I", "a", 2, 6)], [("-D", "a", 1, 5)]],
            ["+I 2:6", ""],
            id="a row that is not seen goes unseen",
        ),
        pytest.param(
            {},
            [[("+I", "a", 1, 5), ("+I", "a", 1, 5), ("+I", "a", 2, 6)], [("-D", "a", 1, 5)]],
            ["+I 2:6", ""],
            id="of equal rows the first goes",
        ),
        pytest.param(
            {},
            [[("-D", "a", 1, 5)], [("-U", "a", 1, 5), ("+I", "a", 1, 5)], [("+I", "a", 2, 6)]],
            ["", "", "+I 2:6"],
            id="a removal waits for the rows of its batch",
        ),
        pytest.param(
            {"upsert_key": True},
            [[("+I", "a", 1, 5)], [("+U", "a", 1, 7)], [("-D", "a", 1, 9)]],
            ["+I 1:5", "+U 1:7", "-D 1:7"],
            id="the upsert key says which row is meant",
        ),
        pytest.param(
            {"upsert_key": True},
            [[("+I", "a", 1, 5)], [("+U", "a", 1, 7), ("-U", "a", 1, 5)]],
            ["+I 1:5", "+U 1:7"],
            id="a row before that comes late takes nothing out",
        ),
        pytest.param(
            {"on_conflict": "NOTHING"},
            [[("+I", "a", 1, 5)], [("+I", "a", 2, 6)], [("-D", "a", 1, 5)], [("-D", "a", 2, 6)]],
            ["+I 1:5", "", "+U 2:6", "-D 2:6"],
            id="the first row stays while it lives",
        ),
        pytest.param(
            {"on_conflict": "NOTHING", "insert_only": True},
            [[("+I", "a", 1, 5)], [("+I", "a", 2, 6)]],
            ["+I 1:5", ""],
            id="the first of rows that are never taken out",
        ),
        pytest.param(
            {"insert_only": True},
            [[("+I", "a", 1, 5)], [("+I", "a", 2, 6), ("+I", "a", 3, 7)]],
            ["+I 1:5", "+U 3:7"],
            id="the last of rows that are never taken out",
        ),
        pytest.param(
            {"on_conflict": "ERROR", "upsert_key": True},
            [[("+I", "a", 1, 5)], [("+I", "a", 2, 6), ("-D", "a", 1, 5)], [("+U", "a", 2, 7)]],
            ["+I 1:5", "+U 2:6", "+U 2:7"],
            id="a conflict that is over within a batch is none",
        ),
    ],
)
def test_each_batch_gives_what_flink_gives(
    spark: Any, run: START, given: dict[str, Any], batches: list[list[Row]], expected: list[str]
) -> None:
    stream = Stream(spark, COLUMNS, 1)
    frame, _ = materialize(stream.frame, **given)
    job = run(frame)
    seen = []
    for batch in batches:
        stream.add(fed(batch))
        seen.append(shown(job.take()))
    assert seen == expected


@pytest.mark.parametrize("upsert_key", [True, False], ids=["upsert key", "whole rows"])
def test_two_rows_for_one_key_end_a_job_that_asks_for_it(
    spark: Any, run: START, upsert_key: bool
) -> None:
    stream = Stream(spark, COLUMNS, 1)
    frame, _ = materialize(stream.frame, upsert_key, "ERROR")
    job = run(frame)
    stream.add(fed([("+I", "a", 1, 5), ("+I", "b", 2, 6)]))
    assert len(job.take()) == 2
    stream.add(fed([("+I", "a", 2, 6)]))
    with pytest.raises(
        Exception, match=r"RUN-025.*table 'out': 2 rows have the primary key \(name = a\)"
    ):
        job.take()


class Model:
    """The rows of each key as a list, and which of them is seen."""

    def __init__(self, upsert_key: bool, first: bool) -> None:
        self.upsert_key, self.first = upsert_key, first
        self.rows: dict[str, list[Change]] = {}
        self.unknown = 0

    def seen(self, key: str) -> Change | None:
        rows = self.rows.get(key)
        return rows[0 if self.first else -1] if rows else None

    def batch(self, rows: list[Row]) -> dict[str, list[Change]]:
        before = {r[1]: self.seen(r[1]) for r in rows}
        for symbol, *body in rows:
            row = tuple(body)
            live = self.rows.setdefault(row[0], [])
            at = next(
                (i for i, r in enumerate(live) if r[1] == row[1] or not self.upsert_key), None
            )
            same = live.index(row) if row in live else None
            found = at if self.upsert_key else same
            if symbol in ("-U", "-D"):
                if found is None:
                    self.unknown += 1
                else:
                    live.pop(found)
                continue
            if self.upsert_key and at is not None:
                live.pop(at)
            live.append(row)
        changes = {}
        for key, old in before.items():
            now = self.seen(key)
            if now is None and old is not None:
                changes[key] = [("-D", *old)]
            elif now is not None and now != old:
                changes[key] = [("+I" if old is None else "+U", *now)]
        return changes


@pytest.mark.parametrize("upsert_key", [True, False], ids=["upsert key", "whole rows"])
@pytest.mark.parametrize("on_conflict", ["DEDUPLICATE", "NOTHING"])
def test_random_changes_give_one_row_a_key(
    spark: Any, run: START, upsert_key: bool, on_conflict: str
) -> None:
    pick = random.Random(f"{upsert_key} {on_conflict}")
    stream = Stream(spark, COLUMNS, 1)
    frame, counts = materialize(stream.frame, upsert_key, on_conflict)
    job = run(frame)
    model = Model(upsert_key, on_conflict == "NOTHING")
    live: dict[int, tuple[str, int, int]] = {}
    for batch in range(10):
        rows: list[Row] = []
        # The middle batches are large: the rows of a key then lie in pages.
        for _ in range(pick.randrange(1, 2_000 if batch in (3, 5) else 60)):
            id_ = pick.randrange(800 if batch in (3, 5) else 30)
            old = live.pop(id_, None)
            if old is not None:
                rows.append((pick.choice(["-U", "-D"]), *old))
            if old is None or pick.random() < 0.6:
                live[id_] = (pick.choice("abc"), id_, pick.randrange(3))
                rows.append((pick.choice(["+I", "+U"]), *live[id_]))
        if pick.random() < 0.3:
            rows.append(("-D", "a", 5_000, 0))
        expected = model.batch(rows)
        stream.add(fed(rows))
        if batch == 6:
            again = job.take_twice()
        else:
            if batch % 3 == 2:
                job.restart()
            again = job.take()
        keyed: dict[str, list[Change]] = {}
        for change in again:
            keyed.setdefault(change[1], []).append(change)
        assert keyed == expected, batch
    assert dict(counts.values()).get("delete of an unknown row", 0) >= model.unknown

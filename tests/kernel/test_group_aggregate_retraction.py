"""The group aggregate over rows that come and go, against the model, with random cuts, restarts and replays."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest
from aggregate_model import Model, Row, by_key, call, group_aggregate, new_counts, typed
from streams import SYMBOLS, Run, Stream

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("time_type")]

COLUMNS = {
    "k": "STRING",
    "tiny": "TINYINT",
    "i": "INT",
    "big": "BIGINT",
    "f": "FLOAT",
    "d": "DOUBLE",
    "n": "DECIMAL(10,2)",
    "w": "DECIMAL(30,4)",
    "s": "STRING",
    "b": "BOOLEAN",
    "day": "DATE",
    "at": "TIMESTAMP",
    "clock": "TIME(6)",
    "list": "ARRAY<INT>",
    "nested": "STRUCT<x: INT, y: STRING>",
    "keep": "BOOLEAN",
}
KIND = {"_kind": "TINYINT"}
SUMS = {
    "tiny": "tinyint",
    "i": "int",
    "big": "bigint",
    "f": "float",
    "d": "double",
    "n": "decimal(38,2)",
    "w": "decimal(38,4)",
}
AVERAGES = {**SUMS, "n": "decimal(38,6)", "w": "decimal(38,6)"}
ORDERED = [name for name in COLUMNS if name not in ("k", "list", "nested", "keep")]


def sums() -> list[dict[str, Any]]:
    calls = [
        call("COUNT", None, "n0", "bigint"),
        call("COUNT", None, "n1", "bigint", filter_="keep"),
        call("COUNT", "list", "n2", "bigint"),
    ]
    for name, type_ in SUMS.items():
        calls.append(call("SUM", name, f"sum_{name}", type_))
        calls.append(call("AVG", name, f"avg_{name}", AVERAGES[name], filter_="keep"))
    return calls


def random_texts(rng: random.Random) -> Row:
    """One row as texts; few different values, so that rows are equal in some columns."""
    row: Row = {
        "k": rng.choice(["a", "b", "ü", ""]),
        "tiny": str(rng.choice([-128, 0, 127])),
        "i": str(rng.choice([rng.randint(-5, 5), 2**31 - 1, -(2**31)])),
        "big": str(rng.choice([rng.randint(-5, 5), 2**63 - 1, -(2**63)])),
        "f": str(rng.randint(-20, 20) / 4),
        "d": rng.choice(["0.1", "-0.7", "1e9", "3.25", "0.0"]),
        "n": str(Decimal(rng.randint(-5, 5)) / 4),
        "w": rng.choice([str(rng.randint(-9, 9) / 8), "9" * 26 + ".9999", "-" + "9" * 26]),
        "s": rng.choice(["", "z", "é", "\U0001f600", "\uffee", "a,b"]),
        "b": rng.choice(["true", "false"]),
        "day": f"20{rng.randint(10, 13)}-02-03",
        "at": f"20{rng.randint(10, 13)}-02-03 04:05:06.{rng.randint(0, 2)}",
        "clock": f"04:05:06.{rng.randint(0, 3)}",
        "list": json.dumps([rng.randint(0, 1), rng.choice([None, 1])]),
        "nested": json.dumps({"x": rng.randint(0, 1), "y": rng.choice(["p", None])}),
        "keep": rng.choice(["true", "false"]),
    }
    return {name: None if rng.random() < 0.15 else value for name, value in row.items()}


@dataclass
class Table:
    """A table that changes at random. A batch is a list of (kind, row), what it takes out being in it before."""

    rng: random.Random
    make: Callable[[random.Random], Row]
    key: str = "k"
    rows: list[Row] = field(default_factory=list)

    def batch(self, size: int) -> list[tuple[str, Row]]:
        changes: list[tuple[str, Row]] = []
        for _ in range(size):
            choice = self.rng.random()
            if choice < 0.45 or not self.rows:
                self.rows.append(self.make(self.rng))
                changes.append(("+I", self.rows[-1]))
            elif choice < 0.7:
                changes.append(("-D", self._some()))
            elif choice < 0.95:
                old, new = self._some(), self.make(self.rng)
                if self.rng.random() < 0.7:
                    new = {**new, self.key: old[self.key]}
                self.rows.append(new)
                changes += [("-U", old), ("+U", new)]
            else:
                gone = self.rng.choice(self.rows)[self.key]
                changes += [("-D", r) for r in self.rows if r[self.key] == gone]
                self.rows = [r for r in self.rows if r[self.key] != gone]
        return changes

    def _some(self) -> Row:
        return self.rows.pop(self.rng.randrange(len(self.rows)))


def fed(batch: list[tuple[str, Row]]) -> list[Row]:
    return [{**row, "_kind": str(SYMBOLS.index(kind))} for kind, row in batch]


def signs(batch: list[tuple[str, Row]]) -> list[int]:
    return [-1 if kind in ("-U", "-D") else 1 for kind, _ in batch]


def follows_the_model(
    spark: Any,
    run: Callable[[Any], Run],
    rng: random.Random,
    calls: list[dict[str, Any]],
    keys: list[str],
    update_before: bool = True,
    sizes: tuple[int, ...] = (1, 5, 40, 12, 12, 60, 7),
) -> None:
    # One map task, so that the order of rows is known to the model too.
    stream = Stream(spark, COLUMNS | KIND, partitions=1)
    counts = new_counts(spark)
    job = run(group_aggregate(stream.frame, keys, calls, update_before, counts))
    table = Table(rng, random_texts)
    batches = [table.batch(size) for size in sizes]
    rows = typed(spark, COLUMNS, [row for batch in batches for _, row in batch])
    model = Model(keys, calls, update_before)
    kinds = set()
    for number, batch in enumerate(batches):
        if number in (3, 5):
            job.restart()
        stream.add(fed(batch))
        known, rows = rows[: len(batch)], rows[len(batch) :]
        changes = job.take()
        assert by_key(changes, len(keys)) == model.batch(known, signs(batch)), f"batch {number}"
        kinds |= {change[0] for change in changes}
    assert kinds >= {"+I", "+U"} and ("-U" in kinds) == update_before
    assert dict(counts.values()) == {}


@pytest.mark.parametrize(
    ("keys", "update_before", "seed"),
    [(["k"], True, 1), ([], True, 2), (["k", "b"], False, 3)],
    ids=["one key", "no key", "no update before"],
)
def test_sums_and_counts_are_those_of_the_model(
    spark: Any, run: Callable[[Any], Run], keys: list[str], update_before: bool, seed: int
) -> None:
    follows_the_model(spark, run, random.Random(seed), sums(), keys, update_before)


# --- groups that come and go ---------------------------------------------------------------------


SMALL = {"k": "STRING", "v": "INT", **KIND}


def change(kind: str, key: str | None, value: int | str | None) -> Row:
    text = None if value is None else str(value)
    return {"k": key, "v": text, "_kind": str(SYMBOLS.index(kind))}


def test_group_is_deleted_with_its_last_row_and_comes_back(
    spark: Any, run: Callable[[Any], Run]
) -> None:
    stream = Stream(spark, SMALL)
    job = run(group_aggregate(stream.frame, ["k"], [call("SUM", "v", "t", "int")]))
    stream.add([change("+I", "a", 1), change("+I", "a", 2)])
    assert job.take() == [("+I", "a", 3)]
    stream.add([change("-D", "a", 1)])
    assert job.take() == [("-U", "a", 3), ("+U", "a", 2)]
    stream.add([change("-D", "a", 2)])
    assert job.take() == [("-D", "a", 2)]
    stream.add([change("+I", "a", 5), change("-D", "a", 5)])
    assert job.take() == []
    job.restart()
    stream.add([change("+I", "a", None)])
    assert job.take() == [("+I", "a", None)]
    stream.add([change("-D", "a", None), change("+I", "a", 4)])
    assert job.take() == [("-U", "a", None), ("+U", "a", 4)]


def test_whole_table_is_a_group_too(spark: Any, run: Callable[[Any], Run]) -> None:
    stream = Stream(spark, SMALL)
    job = run(group_aggregate(stream.frame, [], [call("COUNT", None, "n", "bigint")]))
    stream.add([change("+I", "a", 1)])
    assert job.take() == [("+I", 1)]
    stream.add([change("-D", "a", 1)])
    assert job.take() == [("-D", 1)]


def test_update_within_a_group_is_one_change(spark: Any, run: Callable[[Any], Run]) -> None:
    stream = Stream(spark, SMALL)
    job = run(group_aggregate(stream.frame, ["k"], [call("SUM", "v", "t", "int")], False))
    stream.add([change("+I", "a", 1), change("+I", "b", 1)])
    job.take()
    stream.add(
        [change("-U", "a", 1), change("+U", "a", 1), change("-U", "b", 1), change("+U", "b", 2)]
    )
    assert job.take() == [("+U", "b", 2)]


def test_keys_alone_are_distinct_rows(spark: Any, run: Callable[[Any], Run]) -> None:
    """SELECT DISTINCT: a group has no calls, and is there or not."""
    stream = Stream(spark, SMALL)
    job = run(group_aggregate(stream.frame, ["k"], []))
    stream.add([change("+I", "a", 1), change("+I", "a", 2), change("+I", None, 1)])
    assert sorted(job.take(), key=str) == [("+I", "a"), ("+I", None)]
    stream.add([change("-D", "a", 1), change("-D", None, 1)])
    assert job.take() == [("-D", None)]
    stream.add([change("-D", "a", 2)])
    assert job.take() == [("-D", "a")]


def test_rows_of_a_group_that_is_not_there_are_counted(
    spark: Any, run: Callable[[Any], Run]
) -> None:
    stream = Stream(spark, SMALL)
    counts = new_counts(spark)
    calls = [call("SUM", "v", "t", "int")]
    job = run(group_aggregate(stream.frame, ["k"], calls, counts=counts))
    stream.add([change("-D", "a", 7), change("-D", "a", 8)])
    assert job.take() == []
    stream.add([change("+I", "a", 1)])
    assert job.take() == [("+I", "a", 1)]
    stream.add([change("-D", "a", 1), change("-D", "a", 1)])
    assert job.take() == [("-D", "a", 1)]
    assert dict(counts.values()) == {"delete of an unknown row": 3}


def test_row_may_be_taken_out_before_it_is_put_in(spark: Any, run: Callable[[Any], Run]) -> None:
    """Within a batch, when the two come from different tasks."""
    stream = Stream(spark, SMALL, partitions=1)
    counts = new_counts(spark)
    calls = [call("SUM", "v", "t", "int"), call("COUNT", "v", "n", "bigint")]
    job = run(group_aggregate(stream.frame, ["k"], calls, counts=counts))
    stream.add([change("-D", "a", 7), change("+I", "a", 3), change("+I", "a", 7)])
    assert job.take() == [("+I", "a", 3, 1)]
    assert dict(counts.values()) == {}


def test_replayed_batch_gives_the_same_changes_in_the_same_order(
    spark: Any, run: Callable[[Any], Run]
) -> None:
    rng = random.Random(11)
    columns = {"k": "STRING", "v": "DOUBLE", **KIND}
    stream = Stream(spark, columns, partitions=3)
    calls = [call("SUM", "v", "t", "double"), call("COUNT", None, "n", "bigint")]
    job = run(group_aggregate(stream.frame, ["k"], calls))
    table = Table(rng, lambda r: {"k": f"k{r.randint(0, 30)}", "v": repr(r.gauss(0, 1e9))})
    stream.add(fed(table.batch(300)))
    job.take()
    job.fail_once = lambda number: True
    stream.add(fed(table.batch(200)))
    with pytest.raises(Exception, match="stopped on purpose"):
        job.query.processAllAvailable()
    first = job.taken()
    job.restart()
    assert job.take() == first
    assert {c[0] for c in first} == {"+I", "-U", "+U", "-D"}

"""The group aggregate over rows that come and go, against the model, with random cuts, restarts and replays."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from aggregate_model import Model, Row, by_key, call, difference, group_aggregate, typed
from streams import SYMBOLS, Run, Stream, new_counts

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
    "often": "BIGINT",
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
ORDERED = [name for name in COLUMNS if name not in ("k", "list", "nested", "keep", "often")]


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


def extremes() -> list[dict[str, Any]]:
    names = (*ORDERED, "list", "nested")
    calls = [call("COUNT", name, f"count_{name}", "bigint", distinct=True) for name in names]
    for name in ORDERED:
        calls.append(call("MIN", name, f"min_{name}", COLUMNS[name].lower()))
        calls.append(call("MAX", name, f"max_{name}", COLUMNS[name].lower(), True, "keep"))
    for name in ("tiny", "i", "big", "f", "n", "w"):
        calls.append(call("SUM", name, f"sum_{name}", SUMS[name], distinct=True))
        calls.append(call("AVG", name, f"avg_{name}", AVERAGES[name], True, "keep"))
    return calls


def collections() -> list[dict[str, Any]]:
    calls = []
    for name in (*ORDERED, "list", "nested"):
        type_ = COLUMNS[name].lower()
        calls.append(call("FIRST_VALUE", name, f"first_{name}", type_))
        calls.append(call("LAST_VALUE", name, f"last_{name}", type_, filter_="keep"))
        calls.append(call("ARRAY_AGG", name, f"all_{name}", f"array<{type_}>"))
        if name != "list":
            calls.append(call("COLLECT", name, f"set_{name}", f"map<{type_},int>"))
    return [
        *calls,
        call("ARRAY_AGG", "s", "distinct_s", "array<string>", True, "keep"),
        call("FIRST_VALUE", "i", "distinct_i", "int", True),
        call("LISTAGG", "s", "text", "string"),
        call("LISTAGG", "s", "bars", "string", filter_="keep", settings=["|ü|"]),
        call("LISTAGG", "s", "once", "string", distinct=True),
        call("JSON_ARRAYAGG", "s", "json", "string"),
        call("JSON_ARRAYAGG", "s", "json_kept", "string", settings=["ABSENT ON NULL"]),
        call("PERCENTILE", "d", "median", "double", settings=["0.5"]),
        call("PERCENTILE", "d", "some", "array<double>", settings=["0.9", "0.0", "0.25", "1.0"]),
        call("PERCENTILE", ["d", "often"], "weighed", "double", settings=["0.4"]),
    ]


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
        "often": str(rng.randint(-1, 3)),
    }
    return {name: None if rng.random() < 0.15 else value for name, value in row.items()}


@dataclass
class Table:
    """A table that changes at random. A batch is a list of (kind, row), what it takes out being in it before."""

    rng: random.Random
    make: Callable[[random.Random], Row]
    key: str = "k"
    empties: bool = True
    """Whether all rows of a key go at once now and then."""
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
            elif choice < 0.95 or not self.empties:
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
        wanted = model.batch(known, signs(batch))
        assert not difference(calls, by_key(changes, len(keys)), wanted), f"batch {number}"
        kinds |= {change[0] for change in changes}
    assert kinds >= {"+I", "+U"} and ("-U" in kinds) == update_before
    assert "delete of an unknown row" not in dict(counts.values())


@pytest.mark.parametrize(
    ("keys", "update_before", "seed"),
    [(["k"], True, 1), ([], True, 2), (["k", "b"], False, 3)],
    ids=["one key", "no key", "no update before"],
)
def test_sums_and_counts_are_those_of_the_model(
    spark: Any, run: Callable[[Any], Run], keys: list[str], update_before: bool, seed: int
) -> None:
    follows_the_model(spark, run, random.Random(seed), sums(), keys, update_before)


@pytest.mark.parametrize(("keys", "seed"), [(["k"], 4), ([], 5)], ids=["one key", "no key"])
def test_extremes_and_distinct_values_are_those_of_the_model(
    spark: Any, run: Callable[[Any], Run], keys: list[str], seed: int
) -> None:
    follows_the_model(spark, run, random.Random(seed), extremes(), keys)


@pytest.mark.parametrize(("keys", "seed"), [(["k"], 6), ([], 7)], ids=["one key", "no key"])
def test_collections_are_those_of_the_model(
    spark: Any, run: Callable[[Any], Run], keys: list[str], seed: int
) -> None:
    follows_the_model(spark, run, random.Random(seed), collections(), keys)


@pytest.mark.parametrize("calls", [extremes(), collections()], ids=["extremes", "collections"])
def test_rows_that_only_come_give_the_same_without_kinds(
    spark: Any, run: Callable[[Any], Run], calls: list[dict[str, Any]]
) -> None:
    rng = random.Random(8)
    stream = Stream(spark, COLUMNS, partitions=1)
    job = run(group_aggregate(stream.frame, ["k"], calls))
    batches = [[random_texts(rng) for _ in range(size)] for size in (1, 20, 7, 40)]
    rows = typed(spark, COLUMNS, [row for batch in batches for row in batch])
    model = Model(["k"], calls)
    for number, batch in enumerate(batches):
        if number == 2:
            job.restart()
        stream.add(batch)
        known, rows = rows[: len(batch)], rows[len(batch) :]
        assert not difference(calls, by_key(job.take(), 1), model.batch(known)), f"batch {number}"


def test_large_groups_lie_in_pages(spark: Any, run: Callable[[Any], Run], tmp_path: Path) -> None:
    """Values of a group that fill many pages come and go; what a batch does not touch is not in the group's value."""
    rng = random.Random(9)
    calls = [
        call("MIN", "v", "least", "string"),
        call("MAX", "v", "most", "string"),
        call("COUNT", "v", "n", "bigint", distinct=True),
        call("FIRST_VALUE", "v", "first", "string"),
        call("LAST_VALUE", "v", "last", "string"),
        call("LISTAGG", "v", "all", "string"),
    ]
    columns = {"k": "STRING", "v": "STRING"}
    stream = Stream(spark, columns | KIND, partitions=1)
    job = run(group_aggregate(stream.frame, ["k"], calls))
    model = Model(["k"], calls)
    table = Table(
        rng,
        lambda r: {"k": r.choice(["few", *["many"] * 9]), "v": f"value {r.randint(0, 900)}"},
        empties=False,
    )

    def goes(batch: list[tuple[str, Row]], number: int) -> None:
        stream.add(fed(batch))
        wanted = model.batch([row for _, row in batch], signs(batch))
        assert not difference(calls, by_key(job.take(), 1), wanted), f"batch {number}"

    for number in range(4):
        grown = [table.make(rng) for _ in range(400)]
        table.rows += grown
        goes([*(("+I", row) for row in grown), *table.batch(60)], number)
        if number == 2:
            job.restart()
    assert rows_of_state(job) > 10
    # A small bag lies in the group's value, and each of the three has a limit.
    assert max(value_sizes(spark, job, tmp_path)) < 3 * 4096
    rng.shuffle(table.rows)
    for number in range(3):
        gone, table.rows = table.rows[:500], table.rows[500:]
        goes([("-D", row) for row in gone], 4 + number)
    goes([("-D", row) for row in table.rows], 7)
    assert rows_of_state(job) == 0


def rows_of_state(job: Run) -> int:
    """How many values there are, pages included."""
    return int(job.query.lastProgress["stateOperators"][0]["numRowsTotal"])


def value_sizes(spark: Any, job: Run, checkpoints: Path) -> list[int]:
    """The sizes of the groups' own values; the job goes on."""
    job.query.stop()
    reader = spark.read.format("statestore").option("stateVarName", "state")
    rows = reader.load(str(checkpoints / "checkpoint-0")).select("value").collect()
    job.restart()
    return [len(row.value.value) for row in rows]


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


# Of a group each: the changes of some batches, what the last one gives, and how many rows are unknown.
BEFORE_THE_GROUP = {
    "an update of an unknown row": (["", "", "-U 7, +U 8"], "+I 8 1", 1),
    "unknown rows, then others": (["", "", "-D 7, -D 8, +I 3, +I 7"], "+I 10 2", 2),
    "what is taken out later counts against others": (["", "", "+I 3, -D 3, -D 7, +I 4"], "", 0),
    "an unknown row, and one that goes again": (["", "", "-D 7, +I 3, -D 3"], "", 1),
    "a group that is there": (["", "+I 3", "-D 7, +I 7"], "", 0),
    "a group that was there": (["+I 3", "-D 3", "-U 3, +U 4"], "+I 4 1", 1),
}


def test_rows_that_are_taken_out_of_a_group_before_it_is_there(
    spark: Any, run: Callable[[Any], Run]
) -> None:
    """As in Flink, also where it makes batches: what comes first for a group and is taken out, is skipped."""
    stream = Stream(spark, SMALL, partitions=1)
    counts = new_counts(spark)
    calls = [call("SUM", "v", "t", "int"), call("COUNT", "v", "n", "bigint")]
    job = run(group_aggregate(stream.frame, ["k"], calls, counts=counts))
    for number in range(3):
        texts = [
            (key, text.split())
            for key, (batches, _, _) in BEFORE_THE_GROUP.items()
            for text in batches[number].split(", ")
            if text
        ]
        stream.add([change(kind, key, value) for key, (kind, value) in texts])
        last = job.take()
    found = {key: f"{symbol} {t} {n}" for symbol, key, t, n in last}
    assert found == {key: want for key, (_, want, _) in BEFORE_THE_GROUP.items() if want}
    unknown = sum(number for _, _, number in BEFORE_THE_GROUP.values())
    assert dict(counts.values()) == {"delete of an unknown row": unknown}


def test_tasks_put_rows_in_one_after_another(spark: Any, run: Callable[[Any], Run]) -> None:
    """Rows of a batch that come from different tasks: what one has put in, another may take out."""
    stream = Stream(spark, SMALL, partitions=2)
    job = run(group_aggregate(stream.frame, ["k"], [call("SUM", "v", "t", "int")]))
    stream.add([change("+I", "a", 1), change("-D", "a", 1)])
    assert job.take() == []


def test_value_that_was_never_there_is_counted_and_forgotten(
    spark: Any, run: Callable[[Any], Run]
) -> None:
    stream = Stream(spark, SMALL, partitions=1)
    counts = new_counts(spark)
    calls = [
        call("MAX", "v", "most", "int"),
        call("COUNT", "v", "n", "bigint", distinct=True),
        call("LAST_VALUE", "v", "last", "int"),
        call("ARRAY_AGG", "v", "all", "array<int>"),
    ]
    job = run(group_aggregate(stream.frame, ["k"], calls, counts=counts))
    stream.add([change("+I", "a", 1), change("+I", "a", 2), change("+I", "a", 3)])
    assert job.take() == [("+I", "a", 3, 3, 3, [1, 2, 3])]
    stream.add([change("-D", "a", 9)])
    assert job.take() == []
    assert dict(counts.values()) == {"delete of an unknown row": 1}
    stream.add([change("+I", "a", 9), change("-D", "a", 8), change("+I", "a", 8)])
    assert job.take() == [("-U", "a", 3, 3, 3, [1, 2, 3]), ("+U", "a", 9, 4, 9, [1, 2, 3, 9])]


def test_values_live_as_long_as_their_group(spark: Any, run: Callable[[Any], Run]) -> None:
    """With a time to live, what leaves is what was sent before, however old its values are."""
    stream = Stream(spark, SMALL, partitions=1)
    calls = [call("MAX", "v", "most", "int"), call("FIRST_VALUE", "v", "first", "int")]
    job = run(group_aggregate(stream.frame, ["k"], calls, ttl=8000))
    stream.add([change("+I", "a", 9)])
    assert job.take() == [("+I", "a", 9, 9)]
    for value in range(4):
        time.sleep(2.5)
        stream.add([change("+I", "a", value)])
        assert job.take() == [("-U", "a", 9, 9), ("+U", "a", 9, 9)]
    stream.add([change("-D", "a", 9)])
    assert job.take() == [("-U", "a", 9, 9), ("+U", "a", 3, 0)]


def test_an_update_of_a_group_that_is_forgotten_is_an_insert(
    spark: Any, run: Callable[[Any], Run]
) -> None:
    stream = Stream(spark, SMALL, partitions=1)
    job = run(group_aggregate(stream.frame, ["k"], [call("SUM", "v", "t", "int")], ttl=2000))
    stream.add([change("+I", "a", 9)])
    assert job.take() == [("+I", "a", 9)]
    time.sleep(2.5)
    stream.add([change("-U", "a", 9), change("+U", "a", 5)])
    assert job.take() == [("+I", "a", 5)]


def test_zeros_and_nans_are_groups_by_their_bits(spark: Any, run: Callable[[Any], Run]) -> None:
    """As in Flink: 0.0 and -0.0 are two groups, all NaNs are one."""
    stream = Stream(spark, {"k": "DOUBLE", **KIND})
    job = run(group_aggregate(stream.frame, ["k"], [call("COUNT", None, "n", "bigint")]))
    rows = [{"k": k, "_kind": "0"} for k in ("0.0", "-0.0", "NaN", "-0.0", "NaN", "NaN")]
    stream.add(rows)
    assert sorted(map(repr, job.take())) == ["('+I', -0.0, 2)", "('+I', 0.0, 1)", "('+I', nan, 3)"]
    stream.add([{"k": "-0.0", "_kind": "3"}, {"k": "0.0", "_kind": "3"}])
    assert sorted(map(repr, job.take())) == [
        "('+U', -0.0, 1)",
        "('-D', 0.0, 1)",
        "('-U', -0.0, 2)",
    ]


def test_scalar_subquery_of_several_rows_stops_the_job(
    spark: Any, run: Callable[[Any], Run]
) -> None:
    stream = Stream(spark, SMALL, partitions=1)
    job = run(group_aggregate(stream.frame, [], [call("SINGLE_VALUE", "v", "v", "int")]))
    stream.add([change("+I", "a", 1)])
    assert job.take() == [("+I", 1)]
    stream.add([change("+I", "a", 2), change("-D", "a", 1)])
    assert job.take() == [("-U", 1), ("+U", 2)]
    stream.add([change("-U", "a", 2), change("+U", "a", None)])
    assert job.take() == [("-U", 2), ("+U", None)]
    stream.add([change("+I", "a", None)])
    with pytest.raises(Exception, match=r"RUN-026.*has more than one row"):
        job.take()


def test_json_object_has_its_members_by_name(spark: Any, run: Callable[[Any], Run]) -> None:
    stream = Stream(spark, SMALL, partitions=1)
    calls = [
        call("JSON_OBJECTAGG", ["k", "v"], "all", "string", settings=["NULL ON NULL"]),
        call("JSON_OBJECTAGG", ["k", "v"], "some", "string", settings=["ABSENT ON NULL"]),
    ]
    frame = stream.frame.selectExpr("k", "CAST(v AS STRING) AS v", "_kind")
    job = run(group_aggregate(frame, [], calls))
    stream.add([change("+I", "b", 1), change("+I", 'a"', 2), change("+I", "c", None)])
    assert job.take() == [("+I", '{"a\\"":2,"b":1,"c":null}', '{"a\\"":2,"b":1}')]
    stream.add([change("+U", "b", 3), change("-U", "b", 1), change("-D", "c", None)])
    assert job.take()[1] == ("+U", '{"a\\"":2,"b":3}', '{"a\\"":2,"b":3}')
    stream.add([change("+I", "b", 3)])
    with pytest.raises(Exception, match=r"RUN-027.*key 'b' is there twice"):
        job.take()


def test_sums_that_do_not_fit_are_counted(spark: Any, run: Callable[[Any], Run]) -> None:
    stream = Stream(spark, {"i": "INT", "big": "BIGINT", "w": "DECIMAL(38,0)"}, partitions=1)
    calls = [
        call("SUM", n, n, t) for n, t in (("i", "int"), ("big", "bigint"), ("w", "decimal(38,0)"))
    ]
    counts = new_counts(spark)
    job = run(group_aggregate(stream.frame, [], calls, counts=counts))
    most = {"i": str(2**31 - 1), "big": str(2**63 - 1), "w": "9" * 38}
    stream.add([most])
    job.take()
    assert dict(counts.values()) == {}
    stream.add([{"i": "1", "big": "1", "w": "1"}])
    assert job.take()[1] == ("+U", -(2**31), -(2**63), None)
    assert dict(counts.values()) == {"sum that does not fit its type": 3}


def test_replayed_batch_gives_the_same_changes_in_the_same_order(
    spark: Any, run: Callable[[Any], Run]
) -> None:
    rng = random.Random(11)
    columns = {"k": "STRING", "v": "DOUBLE", **KIND}
    stream = Stream(spark, columns, partitions=3)
    calls = [
        call("SUM", "v", "t", "double"),
        call("MAX", "v", "most", "double"),
        call("LAST_VALUE", "v", "last", "double"),
        call("ARRAY_AGG", "v", "all", "array<double>"),
    ]
    job = run(group_aggregate(stream.frame, ["k"], calls))
    table = Table(rng, lambda r: {"k": f"k{r.randint(0, 30)}", "v": repr(r.gauss(0, 1e9))})
    stream.add(fed(table.batch(300)))
    job.take()
    stream.add(fed(table.batch(200)))
    assert {c[0] for c in job.take_twice()} == {"+I", "-U", "+U", "-D"}

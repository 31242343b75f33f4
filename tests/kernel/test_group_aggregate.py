"""The group aggregate operator against a plain Python model of Flink's changelog, micro-batch by micro-batch."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from aggregate_model import WIDTHS, Model, by_key, call, group_aggregate, typed
from streams import Run, Stream

pytestmark = pytest.mark.spark


# --- every function over every type --------------------------------------------------------------

COLUMNS = {
    "k0": "STRING",
    "k1": "INT",
    "tiny": "TINYINT",
    "small": "SMALLINT",
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
    "local": "TIMESTAMP_NTZ",
    "clock": "TIME(6)",
    "list": "ARRAY<INT>",
    "nested": "STRUCT<x: INT, y: STRING>",
    "keep": "BOOLEAN",
}

SUMS = {
    "tiny": "tinyint",
    "small": "smallint",
    "i": "int",
    "big": "bigint",
    "f": "float",
    "d": "double",
    "n": "decimal(38,2)",
    "w": "decimal(38,4)",
}
AVERAGES = {**SUMS, "n": "decimal(38,6)", "w": "decimal(38,6)"}
ORDERED = [name for name in COLUMNS if name not in ("k0", "k1", "list", "nested", "keep")]


def every_call() -> list[dict[str, Any]]:
    calls = [
        call("COUNT", None, "n0", "bigint"),
        call("COUNT", None, "n1", "bigint", filter_="keep"),
    ]
    for name in COLUMNS:
        if name in ("k0", "k1", "keep"):
            continue
        calls.append(call("COUNT", name, f"count_{name}", "bigint"))
        calls.append(call("COUNT", name, f"distinct_{name}", "bigint", distinct=True))
    for name, type_ in SUMS.items():
        calls.append(call("SUM", name, f"sum_{name}", type_, filter_="keep"))
        calls.append(call("SUM", name, f"sum_distinct_{name}", type_, distinct=True))
    for name, type_ in AVERAGES.items():
        calls.append(call("AVG", name, f"avg_{name}", type_))
        calls.append(call("AVG", name, f"avg_distinct_{name}", type_, True, "keep"))
    for name in ORDERED:
        calls.append(call("MIN", name, f"min_{name}", COLUMNS[name].lower()))
        calls.append(call("MAX", name, f"max_{name}", COLUMNS[name].lower(), True, "keep"))
    return calls


def random_texts(rng: random.Random) -> dict[str, Any]:
    """One row as texts; floating-point values are such that sums of distinct ones are exact in any order."""
    day = f"20{rng.randint(10, 30)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
    clock = f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02}:07.{rng.randint(0, 999999):06}"
    row: dict[str, Any] = {
        "k0": rng.choice(["a", "b", "ü", ""]),
        "k1": str(rng.randint(1, 3)),
        "tiny": str(rng.randint(-128, 127)),
        "small": str(rng.randint(-(2**15), 2**15 - 1)),
        "i": str(rng.choice([rng.randint(-50, 50), 2**31 - 1, -(2**31)])),
        "big": str(rng.choice([rng.randint(-50, 50), 2**63 - 1, -(2**63)])),
        "f": str(rng.randint(-2000, 2000) / 4),
        "d": str(rng.randint(-(10**6), 10**6) / 8),
        "n": str(Decimal(rng.randint(-(10**10) + 1, 10**10 - 1)).scaleb(-2)),
        "w": rng.choice([str(rng.randint(-99, 99) / 8), "9" * 26 + ".9999"]),
        "s": rng.choice(["", "z", "é", "\U0001f600", "\uffee"]) + str(rng.randint(0, 40)),
        "b": rng.choice(["true", "false"]),
        "day": day,
        "at": f"{day} {clock}",
        "local": f"{day} {clock}",
        "clock": clock,
        "list": json.dumps([rng.randint(0, 3), rng.choice([None, 1])]),
        "nested": json.dumps({"x": rng.randint(0, 3), "y": rng.choice(["p", None])}),
        "keep": rng.choice(["true", "false"]),
    }
    return {name: None if rng.random() < 0.15 else value for name, value in row.items()}


@pytest.mark.parametrize(
    ("keys", "update_before", "seed"),
    [(["k0", "k1"], True, 1), ([], True, 2), (["k0"], False, 3)],
    ids=["two keys", "no key", "no update before"],
)
def test_changes_are_those_of_the_model(
    spark: Any, run: Callable[[Any], Run], keys: list[str], update_before: bool, seed: int
) -> None:
    rng = random.Random(seed)
    calls = every_call()
    # One map task, so that the order of rows is known to the model too.
    stream = Stream(spark, COLUMNS, partitions=1)
    job = run(group_aggregate(stream.frame, keys, calls, update_before))
    batches = [[random_texts(rng) for _ in range(rng.choice([1, 7, 40]))] for _ in range(5)]
    rows = typed(spark, COLUMNS, [row for batch in batches for row in batch])
    model = Model(keys, calls, update_before)
    for number, batch in enumerate(batches):
        if number == 3:
            job.restart()
        stream.add(batch)
        known, rows = rows[: len(batch)], rows[len(batch) :]
        assert by_key(job.take(), len(keys)) == model.batch(known), f"batch {number}"


# --- the changelog -------------------------------------------------------------------------------


def test_first_result_is_inserted_then_updated_in_pairs(
    spark: Any, run: Callable[[Any], Run]
) -> None:
    stream = Stream(spark, {"k": "STRING", "v": "INT"})
    job = run(group_aggregate(stream.frame, ["k"], [call("SUM", "v", "total", "int")]))
    stream.add([{"k": "a", "v": "1"}, {"k": "a", "v": "2"}])
    assert job.take() == [("+I", "a", 3)]
    stream.add([{"k": "a", "v": "4"}])
    assert job.take() == [("-U", "a", 3), ("+U", "a", 7)]


def test_equal_result_is_not_sent_again(spark: Any, run: Callable[[Any], Run]) -> None:
    stream = Stream(spark, {"k": "STRING", "v": "INT"})
    job = run(group_aggregate(stream.frame, ["k"], [call("MAX", "v", "most", "int")]))
    stream.add([{"k": "a", "v": "5"}])
    assert job.take() == [("+I", "a", 5)]
    stream.add([{"k": "a", "v": "4"}, {"k": "b", "v": None}])
    assert job.take() == [("+I", "b", None)]
    stream.add([{"k": "a", "v": "6"}, {"k": "b", "v": None}])
    assert job.take() == [("-U", "a", 5), ("+U", "a", 6)]


def test_group_whose_rows_are_all_filtered_out_still_exists(
    spark: Any, run: Callable[[Any], Run]
) -> None:
    stream = Stream(spark, {"k": "STRING", "v": "INT", "f": "BOOLEAN"})
    calls = [
        call("COUNT", None, "n", "bigint", filter_="f"),
        call("COUNT", "v", "d", "bigint", True, "f"),
        call("SUM", "v", "t", "int", filter_="f"),
    ]
    job = run(group_aggregate(stream.frame, ["k"], calls))
    stream.add([{"k": "a", "v": "1", "f": "false"}, {"k": "a", "v": "1", "f": None}])
    assert job.take() == [("+I", "a", 0, 0, None)]
    stream.add([{"k": "a", "v": "1", "f": "false"}])
    assert job.take() == []
    stream.add([{"k": "a", "v": "1", "f": "true"}])
    assert job.take() == [("-U", "a", 0, 0, None), ("+U", "a", 1, 1, 1)]


def test_null_keys_are_one_group(spark: Any, run: Callable[[Any], Run]) -> None:
    stream = Stream(spark, {"k": "STRING", "j": "INT"})
    job = run(group_aggregate(stream.frame, ["k", "j"], [call("COUNT", None, "n", "bigint")]))
    stream.add([{"k": None, "j": None}, {"k": "", "j": None}, {"k": None, "j": "0"}] * 2)
    first = by_key(job.take(), 2)
    assert first == {
        (None, None): [("+I", None, None, 2)],
        ("", None): [("+I", "", None, 2)],
        (None, 0): [("+I", None, 0, 2)],
    }
    stream.add([{"k": None, "j": None}])
    assert job.take() == [("-U", None, None, 2), ("+U", None, None, 3)]


def test_output_keeps_types_and_nullability(spark: Any) -> None:
    stream = Stream(spark, {"k": "STRING", "n": "DECIMAL(10,2)"})
    frame = stream.frame.selectExpr("coalesce(k, '') AS k", "k AS `a.b`", "n")
    calls = [call("COUNT", None, "c", "bigint"), call("SUM", "n", "t", "decimal(38,2)")]
    schema = group_aggregate(frame, ["k", "a.b"], calls).schema
    assert [(f.name, f.dataType.simpleString(), f.nullable) for f in schema.fields] == [
        ("k", "string", False),
        ("a.b", "string", True),
        ("c", "bigint", False),
        ("t", "decimal(38,2)", True),
        ("_kind", "tinyint", False),
    ]


def test_stateless_steps_may_follow(spark: Any, run: Callable[[Any], Run]) -> None:
    stream = Stream(spark, {"k": "STRING", "v": "INT"})
    totals = group_aggregate(stream.frame, ["k"], [call("SUM", "v", "t", "int")])
    job = run(totals.where("t > 10").selectExpr("upper(k) AS k", "t * 2 AS t", "_kind"))
    stream.add([{"k": "a", "v": "1"}, {"k": "b", "v": "11"}])
    assert job.take() == [("+I", "B", 22)]
    stream.add([{"k": "a", "v": "20"}])
    assert job.take() == [("+U", "A", 42)]


# --- arithmetic ----------------------------------------------------------------------------------


def test_sums_of_integers_wrap_in_the_width_of_the_result(
    spark: Any, run: Callable[[Any], Run]
) -> None:
    columns = {"tiny": "TINYINT", "small": "SMALLINT", "i": "INT", "big": "BIGINT"}
    stream = Stream(spark, columns)
    calls = [call("SUM", name, name, type_.lower()) for name, type_ in columns.items()]
    job = run(group_aggregate(stream.frame, [], calls))
    stream.add([{name: str(2 ** (WIDTHS[t.lower()] - 1) - 1) for name, t in columns.items()}])
    assert job.take() == [("+I", 127, 32767, 2**31 - 1, 2**63 - 1)]
    stream.add([dict.fromkeys(columns, "1")])
    assert job.take()[1] == ("+U", -128, -32768, -(2**31), -(2**63))


def test_decimal_sum_beyond_the_result_is_null_and_exact_when_it_comes_back(
    spark: Any, run: Callable[[Any], Run]
) -> None:
    stream = Stream(spark, {"w": "DECIMAL(38,0)", "n": "DECIMAL(18,2)"})
    calls = [
        call("SUM", "w", "w", "decimal(38,0)"),
        call("SUM", "n", "n", "decimal(38,2)"),
        call("AVG", "n", "a", "decimal(38,6)"),
    ]
    job = run(group_aggregate(stream.frame, [], calls))
    most = "9" * 38
    large = Decimal("9" * 16 + ".99")
    stream.add([{"w": most, "n": str(large)}] * 20)
    assert job.take() == [("+I", None, large * 20, large.quantize(Decimal("0.000001")))]
    stream.add([{"w": "-" + most, "n": "0.01"}] * 20)
    average = (large * 20 + Decimal("0.20")) / 40
    assert job.take()[1] == ("+U", Decimal(0), large * 20 + Decimal("0.20"), average)


def test_extremes_of_floating_point_numbers_are_ordered_as_in_java(
    spark: Any, run: Callable[[Any], Run]
) -> None:
    stream = Stream(spark, {"d": "DOUBLE", "f": "FLOAT"})
    calls = [
        call(function, name, function + name, type_)
        for name, type_ in (("d", "double"), ("f", "float"))
        for function in ("MIN", "MAX")
    ]
    job = run(group_aggregate(stream.frame, [], calls))
    stream.add([{"d": "0.0", "f": "0.0"}, {"d": "-0.0", "f": "-0.0"}])
    assert repr(job.take()) == "[('+I', -0.0, 0.0, -0.0, 0.0)]"
    stream.add([{"d": "NaN", "f": "NaN"}, {"d": "-Infinity", "f": "Infinity"}])
    assert repr(job.take()[1]) == "('+U', -inf, nan, -0.0, nan)"


def test_floating_sums_do_not_depend_on_batches(spark: Any, run: Callable[[Any], Run]) -> None:
    """Adding 0.1 to 1e15 row by row rounds each time; adding their partial sum would round once."""
    values = [1e15, *[0.1, 0.7, 1.3] * 30]
    calls = [call("SUM", "v", "t", "double"), call("AVG", "v", "a", "double")]
    finals = []
    last: tuple[Any, ...] = ()
    for cuts in ([91], [1, 90], [30, 61]):
        stream = Stream(spark, {"v": "DOUBLE"}, partitions=1)
        job = run(group_aggregate(stream.frame, [], calls))
        left = list(values)
        for cut in cuts:
            stream.add([{"v": repr(value)} for value in left[:cut]])
            left = left[cut:]
            last = job.take()[-1]
        job.query.stop()
        finals.append(last[1:])
    total = 0.0
    for value in values:
        total += value
    assert finals == [(total, total / 91)] * 3


# --- distinct ------------------------------------------------------------------------------------


@pytest.mark.parametrize("type_", ["BIGINT", "STRING"])
def test_large_distinct_sets_leave_the_group_and_stay_exact(
    spark: Any, run: Callable[[Any], Run], tmp_path: Path, type_: str
) -> None:
    rng = random.Random(7)
    stream = Stream(spark, {"k": "STRING", "v": type_, "f": "BOOLEAN"})
    calls = [
        call("COUNT", "v", "n", "bigint", distinct=True),
        call("COUNT", "v", "m", "bigint", True, "f"),
        call("COUNT", None, "rows", "bigint"),
    ]
    if type_ == "BIGINT":
        calls.append(call("SUM", "v", "t", "bigint", distinct=True))
    job = run(group_aggregate(stream.frame, ["k"], calls))
    model = Model(["k"], calls, True)
    # From inline to one bucket to many, small batches between large ones, a restart with buckets.
    for number, (size, variety) in enumerate(
        [(40, 90), (120, 90), (3000, 4000), (5, 4000), (3000, 9000)]
    ):
        if number == 3:
            job.restart()
        rows = [
            {
                "k": "few" if rng.random() < 0.02 else "many",
                "v": rng.randint(-variety, variety),
                "f": rng.random() < 0.5,
            }
            for _ in range(size)
        ]
        if type_ == "STRING":
            rows = [{**row, "v": f"user-{row['v']}"} for row in rows]
        stream.add([{**row, "v": str(row["v"]), "f": str(row["f"]).lower()} for row in rows])
        assert by_key(job.take(), 1) == model.batch(rows), f"batch {number}"
    job.query.stop()
    state = spark.read.format("statestore").load(
        str(tmp_path / "checkpoint-0"), stateVarName="state"
    )
    assert max(len(row.value.value) for row in state.select("value").collect()) < 2000


# --- replay and size -----------------------------------------------------------------------------


def test_replayed_batch_gives_the_same_rows_in_the_same_order(
    spark: Any, run: Callable[[Any], Run]
) -> None:
    rng = random.Random(5)
    stream = Stream(spark, {"k": "STRING", "v": "DOUBLE"}, partitions=3)
    calls = [call("SUM", "v", "t", "double"), call("COUNT", "v", "n", "bigint", distinct=True)]
    job = run(group_aggregate(stream.frame, ["k"], calls))
    stream.add([{"k": f"k{rng.randint(0, 30)}", "v": repr(rng.gauss(0, 1e9))} for _ in range(300)])
    assert len(job.take()) > 20
    stream.add([{"k": f"k{rng.randint(0, 30)}", "v": repr(rng.gauss(0, 1e9))} for _ in range(300)])
    assert len(job.take_twice()) > 40


def test_more_keys_than_a_map_task_keeps_at_once(spark: Any, run: Callable[[Any], Run]) -> None:
    """300,000 keys overflow the combiner's table; after that it lets rows through one by one."""
    stream = Stream(spark, {"first": "INT", "last": "INT"}, partitions=1)
    keyed = stream.frame.selectExpr("explode(sequence(first, last)) AS k").selectExpr(
        "k % 300000 AS k"
    )
    totals = group_aggregate(keyed, ["k"], [call("COUNT", None, "n", "bigint")])
    counted: list[Any] = []
    writer = totals.writeStream.foreachBatch(
        lambda batch, _: counted.extend(batch.groupBy("_kind", "n").count().collect())
    )
    query = writer.start()
    try:
        stream.add([{"first": "0", "last": "300009"}])
        query.processAllAvailable()
        stream.add([{"first": "0", "last": "4"}])
        query.processAllAvailable()
    finally:
        query.stop()
    assert sorted(map(tuple, counted[:2])) == [(0, 1, 299_990), (0, 2, 10)]
    assert sorted(map(tuple, counted[2:])) == [(1, 2, 5), (2, 3, 5)]


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            call("MEDIAN", "v", "x", "int"),
            "MEDIAN(v): unknown function; known are [ARRAY_AGG, AVG",
        ),
        (call("SUM", "s", "x", "int"), "SUM(s): no INT can be made of STRING"),
        (call("SUM", None, "x", "int"), "SUM(*): an argument is needed"),
        (call("COUNT", None, "x", "bigint", distinct=True), "DISTINCT needs an argument"),
        (call("COUNT", "v", "x", "int"), "the result is BIGINT, not INT"),
        (call("MIN", "list", "x", "array<int>"), "MIN(list): ARRAY<INT> has no order"),
        (call("MAX", "v", "x", "bigint"), "the result has the argument's type INT, not BIGINT"),
        (call("SUM", "gone", "x", "int"), "the input has no column 'gone', only [v, s, list]"),
        (call("SUM", "v", "x", "int", filter_="s"), "the filter is not BOOLEAN"),
    ],
)
def test_impossible_calls_are_refused_by_name(
    spark: Any, wrong: dict[str, Any], message: str
) -> None:
    stream = Stream(spark, {"v": "INT", "s": "STRING", "list": "ARRAY<INT>"})
    with pytest.raises(Exception, match="GroupAggregate of test: ") as refusal:
        group_aggregate(stream.frame, [], [wrong])
    assert message in str(refusal.value)

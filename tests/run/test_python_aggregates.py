"""Aggregate functions in Python: over the rows of a group, as they come from the kernel, and in running jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from world import Collected, World, finish

from tidemill import JobError, Session
from tidemill.functions import PythonFunction, load_function
from tidemill.plan.functions import AGGREGATES, GATHER
from tidemill.spark.faults import RecordFault
from tidemill.spark.user_functions import EvaluateAggregate, aggregate_sql, register

MODULE = """
from __future__ import annotations
from decimal import Decimal
from tidemill import udaf

class Weighted:
    def open(self, context):
        self.zero = 0.0

    def create_accumulator(self):
        return [self.zero, 0]

    def accumulate(self, accumulator, value: float | None, weight: int = 1):
        if value is not None:
            accumulator[0] += value * weight
            accumulator[1] += weight

    def get_value(self, accumulator) -> float | None:
        return accumulator[0] / accumulator[1] if accumulator[1] else None

class Tally:
    def create_accumulator(self):
        return []

    def accumulate(self, accumulator):
        accumulator.append(1)

    def get_value(self, accumulator) -> int:
        return len(accumulator)

class Words:
    def create_accumulator(self):
        return {}

    def accumulate(self, accumulator, word: str):
        accumulator[word] = accumulator.get(word, 0) + len(word)

    def get_value(self, accumulator) -> dict[str, int]:
        return dict(sorted(accumulator.items()))

@udaf(result_type="DECIMAL(10, 2)", func_type="arrow", input_types=["DECIMAL(10, 2)"])
def spread(x):
    import pyarrow.compute as pc
    found = pc.min_max(x).as_py()
    return None if found["max"] is None else found["max"] - found["min"]

@udaf(result_type="BIGINT", func_type="arrow")
def total(x):
    import pyarrow.compute as pc
    return pc.sum(x)

class Wrong(Tally):
    def get_value(self, accumulator) -> int:
        return "many"
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "aggregates.py").write_text(MODULE)
    monkeypatch.chdir(Path("/"))
    return tmp_path


def made(module: Path, name: str) -> PythonFunction:
    return load_function(name.lower(), f"aggregates.{name}", [module])


def groups(type_: dict[str, Any], *rows: list[tuple[Any, ...]] | None) -> Any:
    listed = [r if r is None else [dict(zip(type_, x, strict=True)) for x in r] for r in rows]
    return pa.array(listed, pa.list_(pa.struct(list(type_.items()))))


def test_a_group_of_rows_becomes_a_value(module: Path) -> None:
    given = groups(
        {"f0": pa.float64(), "f1": pa.int64()},
        [(1.0, 1), (4.0, 2)],
        None,
        [],
        [(None, 1), (7.0, 3)],
    )
    evaluate = EvaluateAggregate(made(module, "Weighted"), False)
    assert evaluate(given).to_pylist() == [3.0, None, None, 7.0]
    # A batch may be a part of another one.
    assert evaluate(given.slice(3)).to_pylist() == [7.0]


def test_a_function_without_arguments_sees_how_many_rows_there_are(module: Path) -> None:
    given = groups({"f0": pa.bool_()}, [(True,), (True,)], None)
    assert EvaluateAggregate(made(module, "Tally"), True)(given).to_pylist() == [2, 0]


def test_a_function_over_arrays_is_called_once_a_group(module: Path) -> None:
    given = groups({"f0": pa.int32()}, [(1,), (2,)], None, [(None,)], [(5,)])
    found = EvaluateAggregate(made(module, "total"), False)(given)
    assert found.type == pa.int64() and found.to_pylist() == [3, None, None, 5]


def test_what_goes_wrong_names_the_function(module: Path) -> None:
    with pytest.raises(RecordFault, match="function 'words' failed: TypeError.*of aggregates.py"):
        EvaluateAggregate(made(module, "Words"), False)(groups({"f0": pa.string()}, [(None,)]))
    with pytest.raises(RecordFault, match="gave a value of type str that is not BIGINT"):
        EvaluateAggregate(made(module, "Wrong"), True)(groups({"f0": pa.bool_()}, []))


@pytest.mark.spark
def test_groups_travel_to_the_workers(spark: Any, module: Path) -> None:
    weighted, words, spread = (made(module, n) for n in ("Weighted", "Words", "spread"))
    register(spark, [weighted, words, spread])
    frame = spark.sql(
        "SELECT array(named_struct('f0', 1D, 'f1', 1L), named_struct('f0', 4D, 'f1', 2L)) AS a,"
        " array(named_struct('f0', 'x'), named_struct('f0', 'yy'), named_struct('f0', 'x')) AS b,"
        " CAST(array(named_struct('f0', 1.5), named_struct('f0', 4)) AS ARRAY<STRUCT<f0: DECIMAL(10, 2)>>) AS c"
    )
    [row] = frame.selectExpr(
        aggregate_sql(weighted, 2, "a"), aggregate_sql(words, 1, "b"), aggregate_sql(spread, 1, "c")
    ).collect()
    assert (row[0], row[1], str(row[2])) == (3.0, {"x": 2, "yy": 2}, "2.50")


# --- in a job -----------------------------------------------------------------------------------

runs = pytest.mark.skipif(GATHER not in AGGREGATES, reason=f"the kernel has no {GATHER} yet")
V = "(VALUES ('a', 1.0, 'x'), ('a', 4.0, 'yy'), ('b', 7.0, 'z'), ('b', CAST(NULL AS DECIMAL(2, 1)), 'z')) AS v(k, n, w)"


@runs
@pytest.mark.spark
def test_aggregate_functions_in_a_query(spark: Any, module: Path) -> None:
    rows: list[tuple[str, Any]] = []
    names = ("Weighted", "Tally", "Words", "spread")
    created = "".join(f"CREATE FUNCTION {n} AS 'aggregates.{n}' LANGUAGE PYTHON;" for n in names)
    with Session(spark, python_files=[module], output=Collected(rows)) as session:
        for job in session.execute(
            f"{created} SELECT k, weighted(n), weighted(n, 2) FILTER (WHERE n > 1), COUNT(*), tally(), words(w)['z'],"
            f" spread(n), SUM(n) FROM {V} GROUP BY k HAVING tally() > 1"
        ):
            if not isinstance(job, str):
                finish(job)
    found = sorted(tuple(row.values()) for _, row in rows)
    assert found == [("a", 2.5, 4.0, 2, 2, None, 3.0, 5.0), ("b", 7.0, 7.0, 2, 2, 2, 0.0, 7.0)]


@runs
@pytest.mark.spark
def test_an_exception_in_a_job_is_a_diagnostic(spark: Any, module: Path) -> None:
    script = "CREATE FUNCTION w AS 'aggregates.Wrong' LANGUAGE PYTHON; SELECT w() FROM (VALUES (1))"
    with Session(spark, python_files=[module]) as session, pytest.raises(JobError) as raised:
        for job in session.execute(script):
            if not isinstance(job, str):
                finish(job)
    assert [d.code for d in raised.value.diagnostics] == ["RUN-041"]


@runs
@pytest.mark.spark
@pytest.mark.kafka
def test_rows_that_are_taken_back_leave_the_group(world: World, module: Path) -> None:
    world.python_files.append(module)

    def change(op: str, before: Any = None, after: Any = None) -> dict[str, Any]:
        return {"before": before, "after": after, "op": op}

    one, two, three = {"k": 1, "n": 2.0}, {"k": 1, "n": 4.0}, {"k": 1, "n": 8.0}
    source, target = world.create(change("c", after=one)), world.create(hint="out")
    script = f"""CREATE FUNCTION w AS 'aggregates.Weighted' LANGUAGE PYTHON;
        CREATE TABLE s (k INT, n DOUBLE) {world.kafka(source, format="debezium-json")};
        CREATE TABLE o (k INT, m DOUBLE, PRIMARY KEY (k) NOT ENFORCED) {world.upsert(target)};
        INSERT INTO o SELECT k, w(n) FROM s GROUP BY k"""
    world.run(script, keep=True)
    world.produce(source, change("c", after=two))
    world.run(script, keep=True)
    world.produce(source, change("u", one, three))
    world.run(script, keep=True)
    world.produce(source, change("d", three), change("d", two))
    world.run(script, keep=True)
    found = [v and v["m"] for v in world.values(target)]
    assert found == [2.0, 3.0, 6.0, None]

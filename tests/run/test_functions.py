"""Python functions in running jobs: code that workers do not have, values of every type, and what goes wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from world import Collected, finish

from tidemill import JobError, Session

pytestmark = pytest.mark.spark

RATES = "RATE = 2\n\ndef doubled(x):\n    return x * RATE\n"
PRICES = """
from __future__ import annotations
import datetime, random
from decimal import Decimal
import rates
from tidemill import udf

def plus(a: int, b: int = 1) -> int | None:
    return None if a is None else a + b

def twice(x: int) -> int:
    return rates.doubled(x)

def joined(separator: str, *parts: str) -> str:
    return separator.join("-" if p is None else p for p in parts)

def fixed() -> str:
    return "fixed"

@udf(result_type="DECIMAL(10, 2)", input_types=["DECIMAL(10, 2)"])
def third(x):
    return x / 3

@udf(result_type="ROW<n INT, words ARRAY<STRING>>")
def parsed(text):
    return (len(text), text.split())

@udf(result_type="MAP<STRING, BIGINT>")
def counted(words):
    return {w: words.count(w) for w in words}

def seen(m: dict[str, int], r, t: datetime.datetime, d: datetime.date) -> str:
    return f"{sorted(m.items())} {r} {t.isoformat()} {d.isoformat()}"

@udf(result_type="BIGINT", func_type="arrow")
def total(a, b):
    import pyarrow.compute as pc
    return pc.add(a, b)

class Counter:
    def open(self, context):
        self.base = 100

    def eval(self, x: int) -> int:
        return self.base + x

def strict(x: int) -> int:
    return 10 // x

@udf(result_type="BIGINT")
def wrong(x):
    return "many"

import threading
LOCK = threading.Lock()

def locked(x: int) -> int:
    with LOCK:
        return x
"""


@pytest.fixture
def run(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "rates.py").write_text(RATES)
    (tmp_path / "prices.py").write_text(PRICES)
    # Nothing but --pyfiles leads to the modules, and workers know nothing of it.
    monkeypatch.chdir(Path("/"))

    def running(script: str, *names: str) -> list[Any]:
        rows: list[tuple[str, Any]] = []
        made = "".join(
            f"CREATE FUNCTION {n.lower()} AS 'prices.{n}' LANGUAGE PYTHON;\n" for n in names
        )
        with Session(spark, python_files=[tmp_path], output=Collected(rows)) as session:
            for job in session.execute(made + script):
                finish(job)
        return [row for _, row in rows]

    return running


def test_scalar_functions_of_modules_that_workers_do_not_have(run: Any) -> None:
    rows = run(
        "SELECT plus(a), plus(a, 10), twice(a), joined('/', b, b), joined('/'), fixed(), counter(a)"
        " FROM (VALUES (1, 'x'), (2, CAST(NULL AS STRING))) AS t(a, b) WHERE plus(a) > 1",
        "plus", "twice", "joined", "fixed", "Counter",
    )  # fmt: skip
    values = sorted(tuple(r.values()) for r in rows)
    assert values == [
        (2, 11, 2, "x/x", "", "fixed", 101),
        (3, 12, 4, "-/-", "", "fixed", 102),
    ]


def test_null_is_none_both_ways_and_functions_can_be_nested(run: Any) -> None:
    rows = run("SELECT plus(plus(a)) AS p FROM (VALUES (1), (CAST(NULL AS INT))) AS t(a)", "plus")
    assert sorted((r["p"] for r in rows), key=str) == [3, None]


def test_values_of_nested_types(run: Any) -> None:
    [row] = run(
        "SELECT third(CAST(10 AS DECIMAL(10, 2))) AS d, parsed('a b a').n AS n,"
        " counted(parsed('a b a').words)['a'] AS c,"
        " seen(MAP['k', CAST(1 AS BIGINT)], ROW(1, 'x'), TIMESTAMP '2024-02-03 04:05:06.007', DATE '2024-02-03') AS s,"
        " total(CAST(1 AS BIGINT), CAST(2 AS BIGINT)) AS t",
        "third", "parsed", "counted", "seen", "total",
    )  # fmt: skip
    assert row["d"] == 3.33 and row["n"] == 5 and row["c"] == 2 and row["t"] == 3
    assert row["s"].startswith("[('k', 1)] {") and row["s"].endswith(
        "2024-02-03T04:05:06.007000 2024-02-03"
    )


def test_a_function_in_a_computed_column_a_view_and_a_group(run: Any) -> None:
    rows = run(
        "CREATE TABLE g (n INT, p AS plus(n)) WITH ('connector' = 'datagen', 'fields.n.kind' = 'sequence',"
        " 'fields.n.start' = '1', 'fields.n.end' = '4');"
        "CREATE VIEW v AS SELECT p, twice(p) AS q FROM g;"
        "SELECT MOD(q, 4) AS k, COUNT(*) AS c FROM v GROUP BY MOD(q, 4);",
        "plus", "twice",
    )  # fmt: skip
    final = {r["k"]: r["c"] for r in rows}
    assert final == {0: 2, 2: 2}


def test_an_exception_names_function_message_and_line(run: Any) -> None:
    with pytest.raises(JobError) as raised:
        run("SELECT strict(a) FROM (VALUES (0)) AS t(a)", "strict")
    [found] = raised.value.diagnostics
    assert found.code == "RUN-040" and found.span is not None
    assert found.message.startswith("function 'strict' failed: ZeroDivisionError: ")
    assert "of prices.py)" in found.message


def test_a_null_that_a_function_does_not_expect_is_hinted_at(run: Any) -> None:
    with pytest.raises(JobError) as raised:
        run("SELECT strict(a) FROM (VALUES (CAST(NULL AS BIGINT))) AS t(a)", "strict")
    [found] = raised.value.diagnostics
    assert found.code == "RUN-040" and "NULL" in (found.hint or "")


def test_a_value_that_is_not_of_the_result_type(run: Any) -> None:
    with pytest.raises(JobError) as raised:
        run("SELECT wrong(a) FROM (VALUES (1)) AS t(a)", "wrong")
    [found] = raised.value.diagnostics
    assert found.code == "RUN-041"
    assert found.message.startswith(
        "function 'wrong' gave a value of type str that is not BIGINT: "
    )


def test_what_cannot_travel_is_told_before_the_job_runs(run: Any) -> None:
    with pytest.raises(JobError) as raised:
        run("SELECT locked(a) FROM (VALUES (1)) AS t(a)", "locked")
    [found] = raised.value.diagnostics
    assert found.code == "RUN-042" and "locked" in found.message


def test_a_table_with_a_function_as_a_frame(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("def f(x: int) -> int:\n    return x + 1\n")
    with Session(spark, python_files=[tmp_path]) as session:
        session.execute(
            "CREATE FUNCTION f AS 'one.f' LANGUAGE PYTHON; CREATE DATABASE d;"
            "CREATE TABLE d.g (n INT, p AS default_database.f(n)) WITH ('connector' = 'datagen',"
            " 'number-of-rows' = '1', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '1')"
        )
        frame = session.table("d.g")
        assert frame.columns == ["n", "p", "_kind"]
        query = frame.writeStream.format("memory").queryName("functions_frame")
        query.trigger(availableNow=True).start().awaitTermination()
        found = frame.sparkSession.sql("SELECT to_json(struct(*)) FROM functions_frame").collect()
        assert [json.loads(r[0]) for r in found] == [{"n": 1, "p": 2, "_kind": 0}]

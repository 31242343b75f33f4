"""Medians, ratios, files of results, and how they are shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import figures
from bench.engines import Turn, usage
from bench.growth import AXES, axis_figure, several_sinks
from bench.latency import batches_of
from bench.suite import rated

MACHINE = {
    "cores": 2,
    "memory_gb": 8.0,
    "cpu": "A CPU",
    "system": "Linux",
    "versions": {"tidemill": "1", "flink": "2"},
}


def result(name: str, ratio: float = 2.0, **more: Any) -> dict[str, Any]:
    return {
        "workload": name,
        "what": "Rows | of a topic, into nothing.",
        "rows": 2_000_000,
        "ratio": ratio,
        "measured_ratio": ratio,
        "ratio_low": ratio - 0.1,
        "ratio_high": ratio + 0.1,
        "wanted": 1.5,
        "ours_rows_per_s": 2_000_000,
        "flink_rows_per_s": 1_000_000,
        "ours_cpu_seconds": 3.0,
        "flink_cpu_seconds": 6.0,
        "ours_peak_mb": 1500,
        "flink_peak_mb": 2500,
        "compared_rows": 1000,
        "ours_output": 10,
        "flink_output": 20,
        "flink_setting": "mini-batch",
        "equal": True,
        "difference": "equal",
        "measured": "2026-11-17T20:00:00+00:00",
        "machine": MACHINE,
        **more,
    }


# --- statistics ----------------------------------------------------------------------------------


def test_a_ratio_is_the_median_of_the_rounds_to_the_better_setting() -> None:
    rivals = {"plain": [10.0, 10.0, 10.0], "mini-batch": [20.0, 25.0, 10.0]}
    assert figures.rating([40.0, 40.0, 40.0], rivals) == (2.0, 1.6, 4.0, "mini-batch")


@given(
    st.lists(st.tuples(*[st.floats(0.1, 1000)] * 3), min_size=1, max_size=7).map(
        lambda rounds: list(zip(*rounds, strict=True))
    )
)
def test_a_ratio_lies_within_its_spread(rounds: list[tuple[float, ...]]) -> None:
    ours, plain, mini = rounds
    ratio, low, high, best = figures.rating(ours, {"plain": plain, "mini": mini})
    assert low <= ratio <= high
    assert best in ("plain", "mini")


def test_a_geometric_mean_is_nought_if_a_ratio_is() -> None:
    assert figures.geometric_mean([1, 4]) == pytest.approx(2)
    assert figures.geometric_mean([1, 0, 4]) == 0
    assert figures.geometric_mean([]) == 0


def test_a_percentile_is_a_value_that_was_there() -> None:
    values = [float(i) for i in range(1, 101)]
    assert figures.percentile(values, 0.5) == 50
    assert figures.percentile(values, 0.99) == 99
    assert figures.percentile([7.0], 0.99) == 7
    assert figures.percentile([1.0, 2.0], 0.0) == 1


def turns(*seconds: float) -> list[Turn]:
    return [Turn(s, 2 * s, 100 * s) for s in seconds]


def test_a_result_has_all_that_is_asked_of_it() -> None:
    equality = {"equal": True, "difference": "equal", "ours_output": 1, "flink_output": 2}
    found = rated(
        100,
        {"tidemill": turns(1, 2, 4), "plain": turns(8, 8, 8), "mini-batch": turns(4, 4, 4)},
        equality,
    )
    assert (found["ratio"], found["ratio_low"], found["ratio_high"]) == (2.0, 1.0, 4.0)
    assert (found["ours_rows_per_s"], found["flink_rows_per_s"]) == (50, 25)
    assert (found["ours_cpu_seconds"], found["flink_cpu_seconds"]) == (4, 8)
    assert (found["ours_peak_mb"], found["flink_peak_mb"]) == (400, 400)
    assert found["flink_setting"] == "mini-batch"


def test_a_result_that_is_not_equal_counts_as_nought() -> None:
    equality = {"equal": False, "difference": "1 rows only here"}
    found = rated(100, {"tidemill": turns(1), "plain": turns(4)}, equality)
    assert found["ratio"] == 0 and found["measured_ratio"] == 4


# --- processes -----------------------------------------------------------------------------------


def test_a_tree_of_processes_is_measured() -> None:
    import os
    import subprocess
    import sys

    before = usage(os.getpid())
    burn = "import time; b = bytearray(50 << 20); e = time.process_time() + 0.3\nwhile time.process_time() < e: pass"
    wait = burn + "\nprint(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", wait], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdin and child.stdout
        child.stdout.readline()
        alive = usage(os.getpid())
        assert alive.cpu_seconds - before.cpu_seconds >= 0.25
        assert alive.mb - before.mb >= 40
        child.stdin.write(b"\n")
        child.stdin.flush()
        child.wait()
    # What has ended still counts for those that have waited for it.
    assert usage(os.getpid()).cpu_seconds >= alive.cpu_seconds - 0.01


# --- files ---------------------------------------------------------------------------------------


def test_a_result_replaces_the_one_with_its_name_and_keeps_the_others(tmp_path: Path) -> None:
    path = tmp_path / "results" / "bench.json"
    order = ["a", "b", "c"]
    figures.store(path, [result("c"), result("a")], order)
    figures.store(path, [result("a", ratio=3.0)], order)
    assert [(r["workload"], r["ratio"]) for r in figures.load(path)] == [("a", 3.0), ("c", 2.0)]
    # One whose case is gone goes as well.
    figures.store(path, [result("b")], ["a", "b"])
    assert [r["workload"] for r in json.loads(path.read_text("utf-8"))] == ["a", "b"]


def test_there_may_be_no_file_yet(tmp_path: Path) -> None:
    assert figures.load(tmp_path / "none.json") == []


# --- what is shown -------------------------------------------------------------------------------


def test_a_line_says_what_was_measured() -> None:
    line = figures.line_of(result("pv_uv"))
    for part in ("pv_uv", "2,000,000 rows/s", "ratio 2.00 (1.90 … 2.10), wanted 1.5", "equal"):
        assert part in line
    assert "NOT EQUAL: 3 rows" in figures.line_of(result("x", equal=False, difference="3 rows"))
    compared = {**result("x"), "ratio": None}
    assert figures.line_of(compared).endswith("1,000 rows compared: equal")
    assert figures.missed([compared]) == []
    assert "FAILED: it died" in figures.line_of({"workload": "x", "error": "it died"})


def test_what_was_missed_is_named() -> None:
    found = figures.missed(
        [
            result("fast"),
            result("slow", 1.2),
            result("wrong", 0.0, equal=False, difference="3 rows"),
            result("large", ours_peak_mb=3000),
            {"workload": "dead", "error": "it died", "ratio": 0.0},
            result("nexmark/q1", 1.0, wanted=0.7),
            result("nexmark/q2", 1.0, wanted=0.7),
        ]
    )
    assert found == [
        "slow is 1.20 × Flink, wanted 1.5",
        "wrong: the results are not equal: 3 rows",
        "large: 3,000 MB at most, Flink 2,500 MB",
        "dead: it died",
        "the geometric mean of Nexmark is 1.00 × Flink, wanted 1.5",
    ]


def test_the_tables_show_every_workload_once() -> None:
    results = [
        result("pv_uv"),
        result("slow", 1.2),
        result("wrong", 0.0, equal=False, difference="3 | rows"),
        {**result("dead", 0.0), "error": "it died"},
        result("nexmark/q3", 2.0, wanted=0.7),
        result("nexmark/q4", 0.5, wanted=0.7, flink_setting="plain"),
    ]
    text = figures.beside_flink(results)
    assert "`pv_uv`: rows \\| of a topic |" in text
    assert (
        "**1.20** (missed)" in text and "**no**: 3 \\| rows" in text and "failed: it died" in text
    )
    assert "1,000,000 (mini-batches)" in text and "q3" not in text
    assert "2026-11-17: 2 cores (A CPU), 8.0 GB" in text
    rates, costs = (
        [line for line in part.splitlines() if line.startswith("| ")] for part in text.split("What")
    )
    for rows, number in ((rates, 4), (costs, 3)):
        assert len(rows) == 2 + number
        assert len({line.replace("\\|", "").count("|") for line in rows}) == 1
    text = figures.nexmark(results)
    assert "`q3`" in text and "`q4`" in text and "pv_uv" not in text
    assert "**1.00** (wanted 1.5); the least is 0.50, `q4`" in text


def test_what_was_not_measured_says_so() -> None:
    assert "make bench`" in figures.beside_flink([])
    assert "make bench ONLY=nexmark/`" in figures.nexmark([])
    assert "make bench-latency`" in figures.latency([])
    assert "make bench-growth`" in figures.growth([])


def test_latencies_are_held_to_their_targets() -> None:
    run = {
        "engine": "tidemill",
        "guarantee": "exactly-once",
        "checkpoints": None,
        "load": "20,000 rows/s",
        "rows_per_s": 19_990,
        "p50_ms": 412.4,
        "p99_ms": 1300.0,
        "max_ms": 1500.0,
        "sent": 1000,
        "arrived": 1000,
        "wanted": [500, 1200],
        "measured": "2026-11-17",
        "machine": MACHINE,
    }
    text = figures.latency(
        [run, {**run, "p99_ms": 1200.0}, {**run, "wanted": None, "checkpoints": "1 s"}]
    )
    assert text.count("**missed**") == 1 and text.count("| met |") == 1
    assert "tidemill, checkpoints every 1 s" in text
    assert "12 rows never came in time" in figures.latency([{**run, "arrived": 988}])


def test_batches_are_read_out_of_reports() -> None:
    def report(second: int, total: int, **durations: int) -> dict[str, Any]:
        return {
            "timestamp": f"2026-11-17T20:00:{second:02d}.500Z",
            "durationMs": {"triggerExecution": 40, **durations},
            "sources": [{"metrics": {"records": str(total)}}],
        }

    reports = [
        report(1, 5, addBatch=30),
        report(2, 5),
        report(4, 1005, addBatch=30),
        report(5, 1005, addBatch=30),
    ]
    assert batches_of(reports) == [
        {"at": 0.0, "rows": 5, "ms": 40},
        {"at": 3.0, "rows": 1000, "ms": 40},
    ]


def test_growth_is_a_factor_between_the_first_and_the_last() -> None:
    by_name = {axis.name: axis for axis in AXES}
    figure = axis_figure(by_name["input"], [(10, 2.0), (30, 9.0), (100, 2.5)])
    assert figure["factor"] == 1.25
    memory = axis_figure(by_name["batch"], [(10, 90.0), (100, 120.0), (1000, 110.0)])
    assert memory["factor"] == 120
    found = [figure | {"measured": "2026-11-17", "machine": MACHINE}]
    cost = {"name": "start", "what": "a start", "value": 3.21, "unit": "s"}
    text = figures.growth([*found, cost | {"measured": "2026-11-17", "machine": MACHINE}])
    assert "| 1.25 | 1.3 | met |" in text and "| a start | 3.21 s |" in text


def test_several_sinks_are_one_statement_set() -> None:
    script = several_sinks(3)
    assert script.count("INSERT INTO") == script.count("CREATE TABLE copies") == 3
    assert "${out2}" in script and "${out3}" not in script

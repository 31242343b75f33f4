"""What the header of a case says, and the script in which its result can be compared."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench import workloads
from bench.workloads import CaseError, Totals
from tidemill.errors import Source
from tidemill.plan.environment import Environment, Job, compile_script
from tidemill.tables.modern import read_modern

SINK = "CREATE TABLE hole (a INT) WITH ('connector' = 'blackhole');\n"
EVERY = workloads.paths()


def written(place: Path, text: str, name: str = "case.sql") -> Path:
    path = place / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_header_says_all_there_is_to_know(tmp_path: Path) -> None:
    text = (
        "-- Clicks of each user,\n-- into nothing.\n-- wanted: 1.5\n-- state\n-- rows: 5000\n-- compared: 400\n"
        f"-- quick: 30\n-- totals: c by g, h\n{SINK}"
    )
    found = workloads.read(written(tmp_path, text), "nexmark/")
    assert (found.name, found.what) == ("nexmark/case", "Clicks of each user, into nothing.")
    assert (found.rows, found.compared, found.quick, found.wanted) == (5000, 400, 30, 1.5)
    assert found.has_state and found.has_checkpoints
    assert found.totals == Totals("c", ("g", "h"))


def test_what_a_header_leaves_out_has_a_default(tmp_path: Path) -> None:
    found = workloads.read(written(tmp_path, f"-- Rows.\n{SINK}"))
    assert (found.rows, found.compared, found.quick, found.wanted) == (
        2_000_000,
        100_000,
        None,
        None,
    )
    assert not found.has_state and not found.has_checkpoints and found.totals is None
    assert workloads.read(written(tmp_path, f"-- Rows.\n{SINK}"), "nexmark/").wanted == 0.7


def test_checkpoints_may_be_without_state(tmp_path: Path) -> None:
    found = workloads.read(written(tmp_path, f"-- Rows.\n-- checkpoints\n{SINK}"))
    assert found.has_checkpoints and not found.has_state


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (SINK, "the first line must be a comment"),
        (f"-- Rows.\n-- row: 3\n{SINK}", "'row' is not known"),
        (f"-- Rows.\n-- rows: many\n{SINK}", "'rows' is a number of records, not 'many'"),
        (f"-- Rows.\n-- rows: 3\n-- rows: 4\n{SINK}", "'rows' is said twice"),
        (f"-- Rows.\n-- wanted: twice\n{SINK}", "'wanted' is a ratio"),
        (f"-- Rows.\n-- totals: c\n{SINK}", "which column is summed up"),
        (f"-- Rows.\n-- state\n-- and more.\n{SINK}", "the sentence ends where the header begins"),
        ("-- Rows.\nCREATE TABLE a (a INT);\n", "there are 0"),
        (f"-- Rows.\n{SINK}{SINK}", "there are 2"),
    ],
)
def test_a_case_that_cannot_be_used_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(CaseError, match=re.escape(reason)):
        workloads.read(written(tmp_path, text))


def test_a_blackhole_becomes_a_topic_of_changes(tmp_path: Path) -> None:
    found = workloads.read(written(tmp_path, f"-- Rows.\n{SINK}"))
    assert found.kind == "changes"
    assert "blackhole" not in found.comparable
    assert "'topic' = '${out}'" in found.comparable and "'debezium-json'" in found.comparable
    assert "out" not in found.names


def test_a_blackhole_with_a_key_becomes_an_upsert_topic(tmp_path: Path) -> None:
    source = "CREATE TABLE a (a INT, PRIMARY KEY (a) NOT ENFORCED) WITH ('topic' = '${in}');\n"
    keyed = SINK.replace("a INT", "a INT, PRIMARY KEY (a) NOT ENFORCED")
    found = workloads.read(written(tmp_path, f"-- Rows.\n{source}{keyed}"))
    assert found.kind == "keyed"
    assert "'upsert-kafka'" in found.comparable and "'topic' = '${out}'" in found.comparable
    # Only the key of the table that is written to counts.
    assert workloads.read(written(tmp_path, f"-- Rows.\n{source}{SINK}")).kind == "changes"


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ("'connector' = 'kafka', 'topic' = '${out}', 'format' = 'json'", "rows"),
        ("'connector' = 'upsert-kafka', 'topic' = '${out}'", "keyed"),
        ("'connector' = 'filesystem', 'path' = '${files}'", "files"),
    ],
)
def test_what_is_written_elsewhere_is_compared_as_it_is(
    tmp_path: Path, options: str, kind: str
) -> None:
    source = "CREATE TABLE a (a INT) WITH ('connector' = 'upsert-kafka', 'topic' = '${in}');\n"
    text = f"-- Rows.\n{source}CREATE TABLE b (a INT) WITH ({options});\n"
    found = workloads.read(written(tmp_path, text))
    assert found.kind == kind
    assert found.comparable == text


def test_where_only_totals_are_compared_the_input_has_no_end(tmp_path: Path) -> None:
    source = (
        "CREATE TABLE a (a INT) WITH ('topic' = '${in}', 'scan.bounded.mode' = 'latest-offset',\n"
        "  'format' = 'json');\n"
    )
    found = workloads.read(written(tmp_path, f"-- Rows.\n-- totals: c by g\n{source}{SINK}"))
    assert "scan.bounded.mode" in found.script
    assert "scan.bounded.mode" not in found.comparable
    assert "'topic' = '${in}',\n  'format' = 'json'" in found.comparable


def test_statements_of_another_file_may_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, "CREATE TABLE first (a INT);\n", "tables.sql")
    path = written(tmp_path, f"-- Rows.\n-- after: tables.sql\n{SINK}")
    assert workloads.read(path).script.index("first") < workloads.read(path).script.index("hole")
    monkeypatch.setattr(workloads, "PLACES", {"": tmp_path})
    assert [p.name for _, p in workloads.paths()] == ["case.sql"]


def test_cases_are_chosen_by_name_prefix_and_speed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, head in (("q2", ""), ("q10", "-- quick: 5\n"), ("q6", "")):
        written(tmp_path, f"-- Rows.\n{head}{SINK}", f"{name}.sql")
    monkeypatch.setattr(workloads, "PLACES", {"nexmark/": tmp_path})
    assert [w.name for w in workloads.every()] == ["nexmark/q2", "nexmark/q6", "nexmark/q10"]
    assert [w.name for w in workloads.chosen()] == ["nexmark/q2", "nexmark/q6", "nexmark/q10"]
    assert [w.name for w in workloads.chosen(quick=True)] == ["nexmark/q10"]
    assert [w.name for w in workloads.chosen(["nexmark/q2"])] == ["nexmark/q2"]
    assert len(workloads.chosen(["nexmark/"])) == 3
    with pytest.raises(CaseError, match="no case is called 'q2'"):
        workloads.chosen(["q2"])


# --- the cases that there are ---------------------------------------------------------------------


@pytest.mark.parametrize(("prefix", "path"), EVERY, ids=[f"{p}{f.stem}" for p, f in EVERY])
def test_a_case_can_be_run_and_compared(prefix: str, path: Path) -> None:
    from bench import inputs

    case = workloads.read(path, prefix)
    assert case.names <= {*inputs.INPUTS, *inputs.FILES, "BOOTSTRAP", "REGISTRY", "out", "files"}
    assert case.names & {*inputs.INPUTS}
    servers = {"BOOTSTRAP": "localhost:9092", "REGISTRY": "http://localhost:8081"}
    values = dict.fromkeys({*case.names, "out"}, "x") | servers
    for script in (case.script, case.comparable):
        modern = read_modern([Source(path.name, script)], values)
        answers = compile_script(modern.script, Environment())
        (job,) = [answer for answer in answers if isinstance(answer, Job)]
        assert not job.not_runnable


def test_there_is_a_case_for_every_kind_of_work() -> None:
    names = {w.name for w in workloads.every()}
    decoded = {"decode", "csv", "avro", "raw", "debezium", "canal", "maxwell"}
    assert names >= decoded | {"encode", "exactly_once", "group_by_100", "group_by", "group_by_2m"}
    assert names >= {"pv_uv", "upsert_sum", "keep_last", "top_10", "join", "tumble", "hop"}
    assert names >= {"cumulate", "session", "interval_join", "temporal_join"}

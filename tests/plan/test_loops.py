"""Jobs that would read what they write are refused, and `--allow-loop` lets them be."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tidemill import Session
from tidemill.cli import cli
from tidemill.errors import ScriptError, Source
from tidemill.plan.advice import advise
from tidemill.plan.environment import Environment, Job, compile_script
from tidemill.plan.loops import loops
from tidemill.sql import parse_script

KAFKA = "'connector' = 'kafka', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset'"
UPSERT = "'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json'"


def kafka(name: str, topic: str, servers: str = "b:9092", more: str = "") -> str:
    word = "topic" if re.fullmatch(r"[\w;-]+", topic) else "topic-pattern"
    return (
        f"CREATE TABLE {name} (a INT, `topic` STRING METADATA) WITH ({KAFKA}, '{word}' = '{topic}',"
        f" 'properties.bootstrap.servers' = '{servers}'{more});\n"
        if ";" in topic or word != "topic"
        else f"CREATE TABLE {name} (a INT) WITH ({KAFKA}, '{word}' = '{topic}',"
        f" 'properties.bootstrap.servers' = '{servers}'{more});\n"
    )


def upsert(name: str, topic: str) -> str:
    return (
        f"CREATE TABLE {name} (a INT, PRIMARY KEY (a) NOT ENFORCED) WITH ({UPSERT}, 'topic' = '{topic}',"
        " 'properties.bootstrap.servers' = 'b:9092');\n"
    )


COPY = "INSERT INTO w SELECT * FROM r;"
BOUNDED = ", 'scan.bounded.mode' = 'latest-offset'"

LOOPS = {
    "one topic": kafka("r", "t") + kafka("w", "t") + COPY,
    "one table": kafka("w", "t") + "INSERT INTO w SELECT a + 1 FROM w;",
    "through a view": kafka("r", "t") + kafka("w", "t") + "CREATE VIEW v AS SELECT a FROM r;"
    "INSERT INTO w SELECT a FROM v;",
    "one of several brokers": kafka("r", "t", "x:1,b:9092") + kafka("w", "t", "b:9092 , y:2") + COPY,
    "this machine by two names": kafka("r", "t", "localhost:1") + kafka("w", "t", "127.0.0.1:1") + COPY,
    "the same variable": kafka("r", "t", "${env:NOBODY_SET_IT}")
    + kafka("w", "t", "${env:NOBODY_SET_IT}") + COPY,
    "one of the topics that are read": kafka("r", "s;t") + kafka("w", "t")
    + "INSERT INTO w SELECT a FROM r;",
    "all topics that may be written": kafka("r", "s;t;u") + kafka("w", "t;s") + COPY,
    "a pattern that is read": kafka("r", "t.*") + kafka("w", "tt") + "INSERT INTO w SELECT a FROM r;",
    "one pattern": kafka("r", "t.*") + kafka("w", "t.*") + COPY,
    "an upsert table": upsert("w", "t") + "INSERT INTO w SELECT a + 1 FROM w;",
    "an upsert table and another": kafka("r", "t") + upsert("w", "t") + COPY,
    "one of the sinks of a set": kafka("r", "t") + kafka("w", "t") + kafka("o", "o")
    + "EXECUTE STATEMENT SET BEGIN INSERT INTO o SELECT * FROM r; INSERT INTO w SELECT * FROM r; END;",
}  # fmt: skip

NONE = {
    "two topics": kafka("r", "s") + kafka("w", "t") + COPY,
    "two clusters": kafka("r", "t", "x:1") + kafka("w", "t", "y:1") + COPY,
    "an end before the first row is written": kafka("r", "t", more=BOUNDED) + kafka("w", "t") + COPY,
    "some of the topics": kafka("r", "t") + kafka("w", "t;s")
    + "INSERT INTO w SELECT a, 's' FROM r;",
    "another pattern": kafka("r", "t.*") + kafka("w", "tt.*") + COPY,
    "two jobs of a script": kafka("r", "t") + kafka("o", "o") + kafka("w", "t")
    + "INSERT INTO w SELECT * FROM o; INSERT INTO o SELECT * FROM r;",
}  # fmt: skip


def jobs(text: str) -> list[Job]:
    script = parse_script(Source("case.sql", text))
    return [a for a in compile_script(script, Environment()) if isinstance(a, Job)]


@pytest.mark.parametrize("name", LOOPS)
def test_a_job_that_reads_what_it_writes_is_refused(name: str) -> None:
    [found] = loops(jobs(LOOPS[name]))
    assert found.code == "PLAN-093" and found.severity == "error"
    assert found.span is not None and found.span.text == "w"
    assert found.hint is not None and "--allow-loop" in found.hint
    with pytest.raises(ScriptError, match="it would read what it writes"):
        Session().compile(parse_script(Source("case.sql", LOOPS[name])))


@pytest.mark.parametrize("name", NONE)
def test_what_is_no_loop_is_not_refused(name: str) -> None:
    assert loops(jobs(NONE[name])) == []
    Session().compile(parse_script(Source("case.sql", NONE[name])))


def test_the_user_may_mean_it() -> None:
    script = parse_script(Source("case.sql", LOOPS["one topic"]))
    assert Session(allow_loop=True).compile(script)
    # What is there when the job starts does not change by what it writes.
    assert Session(bounded=True).compile(script)


def test_late_rows_that_come_back() -> None:
    text = (
        "SET 'table.exec.late-rows' = 'dead-letter'; SET 'table.exec.late-rows.topic' = 't';"
        + kafka("r", "t") + kafka("w", "o") + COPY
    )  # fmt: skip
    [found] = loops(jobs(text))
    assert found.message == "late rows go to topic 't', which the same job reads through 'r'"


def test_jobs_of_one_script_that_feed_each_other_are_only_advised_about() -> None:
    text = NONE["two jobs of a script"]
    script = parse_script(Source("case.sql", text))
    found = advise(script, jobs(text))
    assert "ADV-005" in {d.code for d in found}


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "loop.sql"
    path.write_text(LOOPS["one topic"])

    def run(*arguments: str) -> tuple[object, str]:
        try:
            cli([*arguments], standalone_mode=False)
        except SystemExit as end:
            return end.code, capsys.readouterr().err
        except ScriptError as refused:
            return refused.exit_code, str(refused)
        raise AssertionError

    code, shown = run("check", str(path))
    assert code == 1 and "error PLAN-093" in shown and "ADV-005" not in shown
    code, shown = run("check", "--allow-loop", str(path))
    assert code == 0 and "PLAN-093" not in shown and "warning ADV-005" in shown
    code, shown = run("check", "--plan-only", str(path))
    assert code == 0 and "warning PLAN-093" in shown
    code, shown = run("explain", str(path))
    assert code == 0 and "warning PLAN-093" in shown
    code, shown = run("run", str(path))
    assert code == 1 and "error PLAN-093" in shown

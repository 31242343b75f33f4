"""The examples are right; runs of them are tests of `run`."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tidemill.cli import cli
from tidemill.errors import ScriptError, Source
from tidemill.plan.environment import Environment, Job, compile_script
from tidemill.sql import parse_script, read_script
from tidemill.tables.modern import read_modern

EXAMPLES = Path(__file__).parent.parent / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.sql"))
PROGRAMS = [p for p in sorted(EXAMPLES.glob("*.py")) if "Session" in p.read_text("utf-8")]
"""The other files of Python's hold functions of scripts."""
CASES = sorted((EXAMPLES.parent / "bench" / "cases").glob("*.sql"))
VARIABLES = {"BOOTSTRAP": "localhost:9092"}
TOPICS = EXAMPLES / "topics"
"""For a script, what is in its topics before it runs, and under `expected` what it makes of that."""
DIALECTS = {"blink.sql": "blink", "dli.sql": "dli"}
"""Examples that are not Flink's own SQL."""


def test_there_are_examples() -> None:
    names = {p.name for p in SCRIPTS}
    assert names >= {"first.sql", "filter.sql", "flink110.sql"}
    # One for every manual.
    assert names >= {"behaviour.sql", "pageviews.sql", "oceanus.sql", "blink.sql", "dli.sql"}
    assert names >= {*DIALECTS}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.name)
def test_script_passes_check_with_nothing_to_remark(path: Path) -> None:
    environment = Environment()
    modern = read_modern([read_script(path)], VARIABLES)
    assert [d.name for d in modern.dialects] == [DIALECTS.get(path.name, "flink")]
    assert [n.code for n in modern.to_tell] == ["DIA-001"] * (path.name in DIALECTS)
    try:
        answers = compile_script(modern.script, environment)
    except ScriptError as error:  # a kind of query that is not even planned
        missing = error.diagnostics
    else:
        jobs = [answer for answer in answers if isinstance(answer, Job)]
        assert jobs
        missing = [what for job in jobs for what in job.not_runnable]
    assert not missing
    assert not environment.warnings and not environment.meaningless


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.name)
def test_script_begins_with_how_to_run_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    head = text[: text.upper().index("CREATE TABLE")]
    assert all(line.startswith("--") for line in head.splitlines())
    (run,) = re.findall(r"^--     (tidemill run .*)$", head, re.MULTILINE)
    assert run.endswith(f"examples/{path.name}")
    for name in set(re.findall(r"\$\{(\w+)\}", text)):
        assert f"--var {name}=" in run


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_a_benchmark_can_be_run(path: Path) -> None:
    variables = dict.fromkeys(re.findall(r"\$\{(\w+)\}", path.read_text("utf-8")), "x") | VARIABLES
    modern = read_modern([read_script(path)], variables)
    (job,) = [
        answer for answer in compile_script(modern.script, Environment()) if isinstance(answer, Job)
    ]
    assert not job.not_runnable


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.name)
def test_sql_inside_a_program_passes_check(path: Path) -> None:
    environment = Environment()
    statements = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Call(func=ast.Attribute(attr="execute"), args=[ast.Constant(value=str(sql))]):
                script = parse_script([Source(path.name, sql)], {})
                statements += script.statements
                compile_script(script, environment)
    assert statements
    tables = re.findall(r'session\.table\("(\w+)"\)', path.read_text(encoding="utf-8"))
    assert tables and set(tables) <= set(environment.objects)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.name)
def test_script_goes_through_every_command(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As a newcomer would type it: explain, format and translate, besides check."""
    variables = [f"--var={name}={value}" for name, value in VARIABLES.items()]
    used = variables if "${" in path.read_text("utf-8") else []
    for command, arguments in (
        ("explain", [*used]),
        ("format", ["--check"]),
        ("translate", [*used, "--from", DIALECTS.get(path.name, "flink-1.10")]),
    ):
        with pytest.raises(SystemExit) as ended:
            cli([command, str(path), *arguments])
        shown = capsys.readouterr()
        assert not ended.value.code, shown.err
        if command == "explain":
            assert "changelogMode=[" in shown.out
        if command == "translate":
            parse_script([Source(path.name, shown.out)], VARIABLES)


@pytest.mark.parametrize("folder", sorted(TOPICS.iterdir()), ids=lambda p: p.name)
def test_records_beside_a_script_are_of_its_topics(folder: Path) -> None:
    script = (EXAMPLES / f"{folder.name}.sql").read_text(encoding="utf-8")
    given, expected = sorted(folder.glob("*.jsonl")), sorted(folder.glob("expected/*.jsonl"))
    assert given and expected
    for path in (*given, *expected):
        assert f"'topic' = '{path.stem}'" in script
    for path in given:
        written = f"tidemill topic write {path.stem} {path.relative_to(EXAMPLES.parent)}\n"
        assert written in script
    for path in expected:
        assert f"tidemill topic read {path.stem}\n" in script

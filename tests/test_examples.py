"""The examples are right; runs of them are tests of `run`."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.manuals import DLI_RECORDS, vendor
from tidemill.cli import cli, main
from tidemill.errors import ScriptError, Source
from tidemill.plan.environment import Environment, Job, compile_script
from tidemill.sql import parse_script, read_script
from tidemill.sql.dialects import DIALECTS
from tidemill.tables.modern import read_modern

EXAMPLES = Path(__file__).parent.parent / "examples"
SCRIPTS = sorted(EXAMPLES.rglob("*.sql"))
PROGRAMS = [p for p in sorted(EXAMPLES.glob("*.py")) if "Session" in p.read_text("utf-8")]
"""The other files of Python's hold functions of scripts."""
VARIABLES = {"BOOTSTRAP": "localhost:9092"}
VENDORS = ("oceanus", "blink", "dli")
"""Whose examples have a directory of their own."""
TOPICS = {
    **{EXAMPLES / f"{p.name}.sql": p for p in (EXAMPLES / "topics").iterdir()},
    **{p: p.with_suffix("") for v in VENDORS for p in sorted((EXAMPLES / v).glob("*.sql"))},
}
"""For a script, where there is what is in its topics before it runs, and under `expected` what it makes of that."""


def dialect(path: Path) -> str:
    """Oceanus writes Flink's own SQL."""
    return path.parent.name if path.parent.name in ("blink", "dli") else "flink"


def shown(path: Path) -> str:
    return str(path.relative_to(EXAMPLES))


def test_there_are_examples() -> None:
    names = {p.name for p in SCRIPTS}
    assert names >= {"first.sql", "filter.sql", "flink110.sql"}
    # One for every manual.
    assert names >= {"behaviour.sql", "pageviews.sql"}
    assert {path.parent.name for path in SCRIPTS} >= {*VENDORS}


@pytest.mark.parametrize("path", SCRIPTS, ids=shown)
def test_script_passes_check_with_nothing_to_remark(path: Path) -> None:
    environment = Environment(python_files=[str(EXAMPLES)])
    modern = read_modern([read_script(path)], VARIABLES)
    assert [d.name for d in modern.dialects] == [dialect(path)]
    assert [n.code for n in modern.to_tell] == ["DIA-001"] * (dialect(path) != "flink")
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


@pytest.mark.parametrize("path", SCRIPTS, ids=shown)
def test_script_begins_with_how_to_run_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    head = text[: text.upper().index("CREATE TABLE")]
    assert all(line.startswith("--") for line in head.splitlines())
    (run,) = re.findall(r"^--     (tidemill run .*)$", head, re.MULTILINE)
    assert run.endswith(f"examples/{shown(path)}")
    for name in set(re.findall(r"\$\{(\w+)\}", text)):
        assert f"--var {name}=" in run


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


@pytest.mark.parametrize("path", SCRIPTS, ids=shown)
def test_script_goes_through_every_command(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As a newcomer would type it: explain, format and translate, besides check."""
    variables = [f"--var={name}={value}" for name, value in VARIABLES.items()]
    used = variables if "${" in path.read_text("utf-8") else []
    for command, arguments in (
        ("explain", [*used, f"--pyfiles={EXAMPLES}"]),
        ("format", ["--check"]),
        ("translate", [*used, "--from", dialect(path).replace("flink", "flink-1.10")]),
    ):
        with pytest.raises(SystemExit) as ended:
            cli([command, str(path), *arguments])
        shown = capsys.readouterr()
        assert not ended.value.code, shown.err
        if command == "explain":
            assert "changelogMode=[" in shown.out
        if command == "translate":
            parse_script([Source(path.name, shown.out)], VARIABLES)


@pytest.mark.parametrize("path", TOPICS, ids=shown)
def test_records_beside_a_script_are_of_its_topics(path: Path) -> None:
    script, folder = path.read_text(encoding="utf-8"), TOPICS[path]
    given, expected = sorted(folder.glob("*.jsonl")), sorted(folder.glob("expected/*.jsonl"))
    assert given and expected
    for records in (*given, *expected):
        assert re.search(rf"'?topic'? = '{records.stem}'", script)
    for records in given:
        written = f"tidemill topic write {records.stem} {records.relative_to(EXAMPLES.parent)}\n"
        assert written in script
    for records in expected:
        assert f"tidemill topic read {records.stem}\n" in script


# --- the vendors' --------------------------------------------------------------------------------

Typed = Callable[..., tuple[object, str]]
ADDRESS = "localhost:9092"
DATAHUB = vendor("blink: the example").partition(";\n")[0] + ";"
AS_KAFKA = """
create table datahub_input (
  messageKey VARBINARY,
  `message` VARBINARY,
  id as cast(messageKey as VARCHAR),
  nm as cast(`message` as VARCHAR)
) with (
  type = 'kafka010',
  topic = 'names',
  bootstrap.servers = 'localhost:9092',
  startupMode = 'EARLIEST'
);"""
# What an example changes of its manual, as the comment at its top says: texts, and how often they stand there.
CHANGES: dict[str, list[tuple[str, str, int]]] = {
    "oceanus/upsert.sql": [("172.28.28.13:9092", ADDRESS, 1), ("'...'", f"'{ADDRESS}'", 1)],
    "blink/result_table.sql": [
        (DATAHUB, AS_KAFKA, 1),
        ("<yourTopicName>", "names_by_id", 1),
        ("<yourServerAddress>", ADDRESS, 1),
    ],
    "dli/orders.sql": [
        ("KafkaAddress1:KafkaPort,KafkAddress2:KafkaPort", ADDRESS, 2),
        ("'connector' = 'kafka', 'topic' = 'KafkaTopic'", "'connector' = 'kafka', 'topic' = 'orders'", 1),
        ("'topic' = 'KafkaTopic'", "'topic' = 'orders_by_id'", 1),
        ("'GroupId'", "'orders-by-id'", 1),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_the_example_of_a_manual_is_changed_only_as_its_head_says(name: str) -> None:
    path = EXAMPLES / name
    original = vendor(f"{path.parent.name}: the example")
    for old, new, times in CHANGES[name]:
        assert original.count(old) == times
        original = original.replace(old, new)
    whose = DIALECTS[dialect(path)]
    texts = (original, path.read_text(encoding="utf-8"))
    printed, example = (parse_script(Source(name, text), {}, whose) for text in texts)
    assert example.statements == printed.statements
    head = texts[1][: texts[1].index("CREATE TABLE")]
    assert "-- Changed: " in head


def test_the_records_of_dli_are_those_of_the_manual() -> None:
    lines = (EXAMPLES / "dli/orders/orders.jsonl").read_text("utf-8").splitlines()
    assert lines == list(DLI_RECORDS)


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Typed:
    """What a command ends with, and what it says on standard error."""

    def run(*command: str) -> tuple[object, str]:
        monkeypatch.setattr("sys.argv", ["tidemill", *command])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, capsys.readouterr().err

    return run


@pytest.mark.parametrize("command", ["check", "run"])
def test_blinks_example_as_it_is_printed_is_refused_because_of_datahub(
    command: str, tmp_path: Path, typed: Typed
) -> None:
    script = tmp_path / "blink.sql"
    script.write_text(vendor("blink: the example"), encoding="utf-8")
    code, said = typed(command, str(script))
    assert code == 1
    assert "error OPT-010: 'type' = 'datahub' is Blink's way to name a connector" in said
    assert "hint: DataHub speaks the Kafka protocol: use 'kafka' with its Kafka endpoint" in said


def test_dlis_example_as_it_is_printed_is_refused_because_it_would_read_what_it_writes(
    tmp_path: Path, typed: Typed
) -> None:
    script = tmp_path / "dli.sql"
    script.write_text(vendor("dli: the example"), encoding="utf-8")
    for command in ("check", "run"):
        code, said = typed(command, str(script))
        assert code == 1
        assert "error PLAN-093: table 'UPSERTKAFKASINK' writes topic 'KafkaTopic'" in said
        assert "which the same job reads through 'orders'" in said
        assert "--allow-loop" in said
    code, said = typed("check", "--allow-loop", str(script))
    assert code == 0, said

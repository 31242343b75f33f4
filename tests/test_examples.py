"""The examples are right; runs of them are tests of `run`."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tidemill.errors import Source
from tidemill.plan.environment import Environment, Job, compile_script
from tidemill.sql import parse_script, read_script

EXAMPLES = Path(__file__).parent.parent / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.sql"))
VARIABLES = {"BOOTSTRAP": "localhost:9092"}


def test_there_are_examples() -> None:
    assert {p.name for p in SCRIPTS} >= {"first.sql", "filter.sql", "pageviews.sql"}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.name)
def test_script_passes_check_with_nothing_to_remark(path: Path) -> None:
    environment = Environment()
    answers = compile_script(parse_script([read_script(path)], VARIABLES), environment)
    assert [answer for answer in answers if isinstance(answer, Job)]
    assert not environment.warnings and not environment.meaningless


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.name)
def test_script_begins_with_how_to_run_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    head = text[: text.index("CREATE")]
    assert all(line.startswith("--") for line in head.splitlines())
    (run,) = re.findall(r"^--     (tidemill run .*)$", head, re.MULTILINE)
    assert run.endswith(f"examples/{path.name}")
    for name in set(re.findall(r"\$\{(\w+)\}", text)):
        assert f"--var {name}=" in run


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda p: p.name)
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

"""The rules of Flink's Kafka tables, V1 to V33, each by its number: a script, and what is said about it.

`REWRITE=1 pytest tests/tables` writes what comes out into the files: read the diff before you keep it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from test_table_specs import describe

from harness.datadriven import Case, check, load
from tidemill.errors import ScriptError, Source, TidemillError
from tidemill.plan.environment import Environment, compile_script
from tidemill.sql import parse_script
from tidemill.tables.catalog import Table
from tidemill.tables.modern import read_modern

DATA = Path(__file__).parent / "data"


def outcome(case: Case) -> str:
    environment = Environment()
    try:
        script = read_modern([Source("t.sql", case.input)], {}, None).script
        compile_script(script, environment)
    except TidemillError as error:
        return str(error)
    table = environment.objects["t"]
    assert isinstance(table, Table)
    return "\n".join(
        [*(w.render() for w in environment.warnings), "accepted", describe(table.connector)]
    )


def test_every_rule_does_what_it_says() -> None:
    check(DATA / "rules.txt", outcome)


def test_no_rule_is_left_out() -> None:
    names = [case.command for case in load(DATA / "rules.txt")]
    assert list(dict.fromkeys(names)) == [f"V{n}" for n in range(1, 34)]


def test_every_mistake_of_a_script_is_told_in_one_go() -> None:
    check(DATA / "mistakes_of_a_script.txt", outcome)


def test_a_broken_table_does_not_outlive_its_script() -> None:
    environment = Environment()
    broken = "CREATE TABLE t (id BIGINT) WITH ('connector' = 'datagen', 'rows' = '1')"
    with pytest.raises(ScriptError):
        compile_script(parse_script(Source("a.sql", broken)), environment)
    mended = broken.replace("'rows'", "'number-of-rows'")
    compile_script(parse_script(Source("b.sql", mended)), environment)
    assert "t" in environment.objects

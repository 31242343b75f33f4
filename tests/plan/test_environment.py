"""Statements that define, change and show names: scripts to the texts they answer with, or to diagnostics.

Every answer of a script is shown, then its jobs as the tables that they write and the types of what they write there.
`make rewrite` writes the files anew, the diff is what to review.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.datadriven import Case, check, load
from tidemill.errors import Source, TidemillError
from tidemill.plan.environment import Environment, Job, Text, compile_script
from tidemill.sql import parse_script

HERE = Path(__file__).parent
FILES = sorted((HERE / "environment").glob("*.txt"))

TABLES = """
CREATE TABLE orders (
  id BIGINT NOT NULL COMMENT 'the key',
  item VARCHAR(32),
  amount DECIMAL(10, 2),
  ts TIMESTAMP(3),
  part INT METADATA FROM 'partition' VIRTUAL,
  twice AS amount * 2,
  seen AS PROCTIME(),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND,
  PRIMARY KEY (id) NOT ENFORCED
) COMMENT 'orders of today' WITH (
  'connector' = 'upsert-kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = 'b:9092',
  'key.format' = 'json', 'value.format' = 'json', 'properties.sasl.jaas.config' = 'secret;');
CREATE TABLE log (a INT, b STRING) WITH (
  'connector' = 'kafka', 'topic' = 'log', 'properties.bootstrap.servers' = 'b:9092',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'json');
"""


def answer(case: Case) -> str:
    environment = Environment(python_files=[str(HERE / "environment" / "python")])
    if "empty" not in case.arguments:
        compile_script(parse_script(Source("tables.sql", TABLES)), environment)
    shown: list[str] = []
    try:
        script = parse_script(Source("case.sql", case.input))
        shown += (_text(found) for found in compile_script(script, environment))
    except TidemillError as error:
        shown.append(str(error))
    shown = [w.render() for w in environment.warnings] + shown
    return "\n".join(shown).replace(str(HERE), "HERE").replace(str(Path.cwd()), "CWD")


def _text(found: Job | Text) -> str:
    if isinstance(found, Text):
        return found.text
    target = found.target if found.sinks else "shown"
    columns = [", ".join(f"{c.name} {c.type}" for c in r.input.columns) for r in found.roots]
    return "\n".join(f"job: {target}: {c}" for c in columns)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_statements_answer_or_are_refused(path: Path) -> None:
    check(path, answer)


def test_the_files_hold_cases() -> None:
    assert sum(len(load(path)) for path in FILES) > 100

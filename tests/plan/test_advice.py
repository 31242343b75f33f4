"""Advice: scripts that are right, and what is said about them. `REWRITE=1` writes the file anew: read the diff."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from recorded import compiled, plan_paths

from harness.datadriven import Case, check, load
from tidemill.errors import Source, TidemillError
from tidemill.plan.advice import CODES, advise
from tidemill.plan.environment import Environment, Job, compile_script
from tidemill.plan.explain import tree
from tidemill.tables.modern import read_modern

HERE = Path(__file__).parent
CASES = HERE / "advice.txt"
PAGE = HERE.parent.parent / "docs" / "errors.md"

TABLES = """
CREATE TABLE clicks (
  id BIGINT, page STRING, n INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH (
  'connector' = 'kafka', 'topic' = 'clicks', 'properties.bootstrap.servers' = 'b:9092',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'json');
CREATE TABLE some_clicks (id BIGINT, page STRING) WITH (
  'connector' = 'kafka', 'topic' = 'clicks', 'properties.bootstrap.servers' = 'b:9092',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', 'format' = 'json');
CREATE TABLE plain (id BIGINT, page STRING) WITH (
  'connector' = 'kafka', 'topic' = 'plain', 'properties.bootstrap.servers' = 'b:9092',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'json');
CREATE TABLE pages (page STRING, c BIGINT, PRIMARY KEY (page) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'pages', 'properties.bootstrap.servers' = 'b:9092',
  'key.format' = 'json', 'value.format' = 'json');
CREATE TABLE counts (c BIGINT, page STRING, PRIMARY KEY (c) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'counts', 'properties.bootstrap.servers' = 'b:9092',
  'key.format' = 'json', 'value.format' = 'json');
CREATE TABLE versions (
  page STRING, c BIGINT, ts TIMESTAMP(3), PRIMARY KEY (page) NOT ENFORCED, WATERMARK FOR ts AS ts
) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'versions', 'properties.bootstrap.servers' = 'b:9092',
  'key.format' = 'json', 'value.format' = 'json');
CREATE TABLE shown (page STRING, x STRING) WITH ('connector' = 'print');
"""


def given(case: Case) -> str:
    sources = [Source("tables.sql", TABLES), Source("case.sql", case.input)]
    try:
        script = read_modern(sources, {"PASSWORD": "hunter2"}, None).script
        answers = compile_script(script, Environment())
    except TidemillError as error:
        return str(error)
    found = advise(script, [a for a in answers if isinstance(a, Job)])
    assert all(d.severity == "warning" and d.hint for d in found)
    return "\n".join(d.render() for d in found) or "nothing"


def test_what_is_worth_a_word() -> None:
    check(CASES, given)


def test_every_advice_is_shown_and_every_one_has_its_silence() -> None:
    cases = load(CASES)
    said = {code for case in cases for code in re.findall(r"ADV-\d{3}", case.expected)}
    assert said == set(CODES)
    assert sum(case.expected == "nothing" for case in cases) >= len(CODES)


def test_every_statement_whose_plan_was_recorded_can_be_advised_on() -> None:
    said: Counter[str] = Counter()
    for statement in (s for path in plan_paths() for s in compiled(path)):
        said.update(d.code for d in advise(statement.script, statement.jobs) if d.render())
        for job in statement.jobs:
            for root, modes in zip(job.roots, job.modes, strict=True):
                assert tree(root, modes)["operator"]
    assert said["ADV-001"] > 300 and said["ADV-002"] > 50 and said["ADV-004"] > 10


def test_every_advice_has_a_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for code, title in CODES.items():
        section = re.search(rf"^### {code}: (.+)\n(?s:(.*?))^#", page, re.MULTILINE)
        assert section, code
        assert section[1].lower() == title
        for part in ("**Why it matters.**", "**What to do.**", "```"):
            assert part in section[2], f"{code}: {part}"

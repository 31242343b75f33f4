"""Plans as text and as trees: changelog modes, upsert keys and time attributes."""

from __future__ import annotations

from typing import Any

from tidemill.errors import Source
from tidemill.plan.environment import Environment, Job, Text, compile_script
from tidemill.plan.explain import tree
from tidemill.sql import parse_script

TABLES = """
CREATE TABLE clicks (page STRING, ts TIMESTAMP(3), seen AS PROCTIME(), WATERMARK FOR ts AS ts) WITH (
  'connector' = 'datagen');
CREATE TABLE pages (page STRING, c BIGINT, PRIMARY KEY (page) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'pages', 'properties.bootstrap.servers' = 'b:9092',
  'key.format' = 'json', 'value.format' = 'json');
"""
INSERT = "INSERT INTO pages SELECT page, COUNT(*) FROM clicks GROUP BY page"


def last_answer(sql: str) -> Job | Text:
    return compile_script(parse_script(Source("t.sql", TABLES + sql)), Environment())[-1]


def explained(sql: str) -> list[str]:
    answer = last_answer(sql)
    assert isinstance(answer, Text)
    return answer.text.splitlines()


def operators(plan: Any) -> dict[str, dict[str, Any]]:
    found = {plan["operator"].partition("(")[0]: plan}
    for below in plan["inputs"]:
        found |= operators(below)
    return found


def test_explain_changelog_mode_shows_modes_keys_and_clocks() -> None:
    lines = explained(f"EXPLAIN CHANGELOG_MODE {INSERT}")
    assert lines[0].startswith("Sink(table=[default_catalog.default_database.pages]")
    (aggregate,) = [line for line in lines if "GroupAggregate" in line]
    assert aggregate.endswith("changelogMode=[I,UA], upsertKeys=[[page]])")
    clocks = explained("EXPLAIN CHANGELOG_MODE SELECT ts, seen FROM clicks")
    assert any("timeAttributes=[ts ROWTIME" in line for line in clocks)


def test_explain_alone_says_what_flink_says() -> None:
    assert not [line for line in explained(f"EXPLAIN {INSERT}") if "upsertKeys" in line]


def test_a_plan_as_a_tree() -> None:
    job = last_answer(INSERT)
    assert isinstance(job, Job)
    found = operators(tree(job.roots[0], job.modes[0]))
    assert found["Sink"]["changelog_mode"] == []
    assert found["GroupAggregate"]["changelog_mode"] == ["I", "UA"]
    assert found["GroupAggregate"]["upsert_keys"] == [["page"]]
    assert found["GroupAggregate"]["columns"][0] == {"name": "page", "type": "STRING"}
    assert found["TableSourceScan"]["inputs"] == []
    select = last_answer("SELECT ts FROM clicks")
    assert isinstance(select, Job)
    clocks = operators(tree(select.roots[0], select.modes[0]))
    assert clocks["WatermarkAssigner"]["time_attributes"]["ts"] == "ROWTIME"
    assert clocks["TableSourceScan"]["time_attributes"] == {}

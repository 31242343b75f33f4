"""Scripts to plans, or to diagnostics: `make rewrite` writes the files anew, the diff is what to review."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.datadriven import Case, check, load
from tidemill.errors import Source, TidemillError
from tidemill.plan.environment import Environment, Job, compile_script
from tidemill.plan.explain import explain
from tidemill.sql import parse_script

FILES = sorted((Path(__file__).parent / "data").glob("*.txt"))

TABLES = """
CREATE TABLE t (id BIGINT, v INT, s STRING, d DECIMAL(10, 2), ts TIMESTAMP(3)) WITH (
  'connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'b:9092',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'json');
CREATE TABLE m (
  id BIGINT, twice AS id * 2, ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp',
  part BIGINT METADATA FROM 'partition' VIRTUAL
) WITH (
  'connector' = 'kafka', 'topic' = 'm', 'properties.bootstrap.servers' = 'b:9092',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'json');
CREATE TABLE copy (id BIGINT, s STRING) WITH (
  'connector' = 'kafka', 'topic' = 'copy', 'properties.bootstrap.servers' = 'b:9092', 'format' = 'json');
CREATE TABLE totals (s STRING, c BIGINT, x INT, PRIMARY KEY (s) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'totals', 'properties.bootstrap.servers' = 'b:9092',
  'key.format' = 'json', 'value.format' = 'json');
CREATE TABLE clicks (
  id BIGINT, page STRING, n INT, ts TIMESTAMP(3), seen AS PROCTIME(), tags ARRAY<STRING>,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH (
  'connector' = 'kafka', 'topic' = 'clicks', 'properties.bootstrap.servers' = 'b:9092',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'json');
CREATE TABLE prices (
  page STRING, price INT, since TIMESTAMP(3), PRIMARY KEY (page) NOT ENFORCED, WATERMARK FOR since AS since
) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'prices', 'properties.bootstrap.servers' = 'b:9092',
  'key.format' = 'json', 'value.format' = 'json');
CREATE TABLE must (page STRING, price INT NOT NULL, PRIMARY KEY (page) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'must', 'properties.bootstrap.servers' = 'b:9092',
  'key.format' = 'json', 'value.format' = 'json');
CREATE TABLE printed (id BIGINT) WITH ('connector' = 'print');
CREATE TABLE gen (id BIGINT) WITH ('connector' = 'datagen');
"""


def answer(case: Case) -> str:
    environment = Environment()
    compile_script(parse_script(Source("tables.sql", TABLES)), environment)
    try:
        script = parse_script(Source("case.sql", case.input))
        answers = compile_script(script, environment)
    except TidemillError as error:
        return str(error)
    shown = [w.render() for w in environment.warnings]
    for job in answers:
        assert isinstance(job, Job)
        shown += [d.render() for d in job.not_runnable]
        for root, modes in zip(job.roots, job.modes, strict=True):
            types = ", ".join(f"{c.name} {c.type}" for c in root.input.columns)
            shown.append(f"{explain(root, modes, keys=True)}\n=> {types}")
    return "\n".join(shown)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_scripts_become_plans_or_diagnostics(path: Path) -> None:
    check(path, answer)


def test_the_files_hold_cases() -> None:
    assert sum(len(load(path)) for path in FILES) > 50

"""`group-offsets` goes on where a Flink job of that group stopped: by the offsets that Flink has recorded and, where
Flink is installed and PARITY=full, by a job of Flink's on the spot."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
import wire
from case import CASES, Case, fill, read_answer, read_case
from test_case_files import recorder

from tidemill import Session
from tidemill.broker import Broker, topics
from tidemill.broker.records import Record

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

# A job of Flink's over three partitions, of which one is empty, that has read all there was.
CASE = read_case(CASES / "reading" / "offsets_are_committed_to_the_group.case")
READ = (("in", 0, 3), ("in", 1, 1))
LATER = [(101, 0), (102, 1), (103, 2), (104, 0)]

SCRIPT = """
CREATE TABLE src (id INT, p INT METADATA FROM 'partition' VIRTUAL) WITH (
  'connector' = 'kafka',
  'topic' = '${in}',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'properties.group.id' = '${g}',
  'properties.auto.offset.reset' = 'earliest',
  'scan.startup.mode' = 'group-offsets',
  'scan.bounded.mode' = 'latest-offset',
  'format' = 'json'
);
SELECT id, p FROM src;
"""


class Rows:
    style = "json"

    def __init__(self) -> None:
        self.rows: list[tuple[int, int]] = []

    def take(self, fields: Any, rows: Any) -> None:
        self.rows += [tuple(json.loads(text).values()) for _, text in rows]


def go_on(case: Case, names: dict[str, str], broker: Broker, spark: Any) -> list[tuple[int, int]]:
    """Write more records, and give what a job of ours reads under the group."""
    later = [Record(json.dumps({"id": i}).encode(), partition=p) for i, p in LATER]
    topics.write(broker.bootstrap, names["in"], later)
    output = Rows()
    values = {**names, "BOOTSTRAP": broker.bootstrap}
    with Session(spark, variables=values, output=output) as session:
        for job in session.execute(SCRIPT):
            if not isinstance(job, str):
                job.query.awaitTermination()
    return sorted(output.rows)


def test_a_group_goes_on_where_flink_has_recorded_that_it_stopped(
    broker: Broker, spark: Any
) -> None:
    names = wire.names_of(CASE, "recorded-group")
    wire.prepare(broker.bootstrap, CASE, names)
    wire.write_step(broker.bootstrap, CASE, 1, names)
    stopped = read_answer(CASE.answer_path).result.groups["g"]
    wire.commit(broker.bootstrap, names["g"], stopped, names)
    assert go_on(CASE, names, broker, spark) == LATER
    ends = topics.end_offsets(broker.bootstrap, names["in"])
    found = wire.committed(broker.bootstrap, names["g"], names)
    assert {partition: offset for _, partition, offset in found} == ends


def flink_home() -> Path:
    if os.environ.get("PARITY") != "full":
        pytest.skip("a job of Flink's runs with PARITY=full only")
    home = recorder.install.flink_home()
    if recorder.install.installed(home) is None:
        pytest.skip(f"there is no Flink in {home}: make parity-setup")
    return Path(home)


@pytest.mark.slow
def test_a_group_goes_on_where_a_job_of_flinks_stops(
    broker: Broker, spark: Any, tmp_path: Path
) -> None:
    oracle = recorder.Oracle(flink_home())
    try:
        names = wire.names_of(CASE, "live-group")
        values = {**names, "BOOTSTRAP": broker.bootstrap}
        wire.prepare(broker.bootstrap, CASE, names)
        started = oracle.ask("start", statements=[fill(s, values) for s in CASE.statements])
        assert "error" not in started, started
        # Flink commits with a checkpoint, up to ten seconds after it has read.
        deadline = time.monotonic() + 60
        while wire.committed(broker.bootstrap, names["g"], names) != READ:
            assert time.monotonic() < deadline, "Flink has not committed what it has read"
            time.sleep(0.5)
        oracle.ask("stop", savepoints=str(tmp_path))
    finally:
        oracle.close()
    assert go_on(CASE, names, broker, spark) == LATER

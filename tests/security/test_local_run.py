"""`tidemill run --local` on a secured embedded broker: the tables are given what lets them in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.kafka import consume, produce
from tidemill.broker import Security, start

_SCRIPT = """
CREATE TABLE a (n BIGINT) WITH (
  'connector' = 'kafka', 'topic' = 'a', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset',
  'properties.bootstrap.servers' = 'far.example:9092', 'properties.security.protocol' = 'SSL'
);
CREATE TABLE b (n BIGINT) WITH (
  'connector' = 'kafka', 'topic' = 'b', 'format' = 'json', 'properties.bootstrap.servers' = 'far.example:9092'
);
INSERT INTO b SELECT n + 1 FROM a;
"""


@pytest.mark.spark
def test_tables_of_a_local_run_get_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMILL_HOME", str(tmp_path))
    running = start(
        port=0, security=Security(tls=True, mechanisms=("SCRAM-SHA-256",), users={"i#me": None})
    )
    try:
        admin = running.admin
        produce(admin["bootstrap.servers"], "a", '{"n": 1}', via=admin)
        script = tmp_path / "job.sql"
        script.write_text(_SCRIPT)
        command = [sys.executable, "-c", "from tidemill.cli import main; main()"]
        done = subprocess.run(
            [*command, "run", "--local", "--bounded", str(script)],
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert done.returncode == 0, done.stderr
        assert [r.value for r in consume(admin["bootstrap.servers"], "b", via=admin)] == [
            b'{"n":2}'
        ]
        assert running.secured is not None
        assert running.secured.password("i#me") not in done.stdout + done.stderr
    finally:
        running.stop()

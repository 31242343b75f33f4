"""On a cluster: the files that tables name are this machine's, and the tasks get them all the same; neither they nor
their passwords are seen on the way."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark
import pytest

from harness.java import SHORT_LIVED
from harness.processes import watched
from harness.search import holders
from harness.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.kafka]

# The job is started, then the files are taken away, and only then is there something to do for a task.
PROGRAM = """
import json, sys, time
from pathlib import Path
from tidemill import Session

given = json.loads(sys.stdin.read())
session = Session(master="local-cluster[2,1,1024]", checkpoint=given["checkpoint"], conf=given["conf"])
with session:
    (job,) = [j for j in session.execute(given["script"]) if not isinstance(j, str)]
    session.wait_ready([job])
    Path(given["application"]).write_text(session.spark.sparkContext.applicationId)
    for name in given["files"]:
        Path(name).rename(name + ".away")
    Path(given["gone"]).touch()
    deadline = time.monotonic() + 120
    while job.is_active and time.monotonic() < deadline and not Path(given["done"]).exists():
        time.sleep(0.1)
    failure = job.failure()
    print("failure:", failure)
    job.stop()
"""


def test_stores_and_keytabs_reach_the_tasks(
    mutual_tls: Any, topic_name: Callable[..., str], tmp_path: Path
) -> None:
    """Sources, sinks, dead letters, and the client that reads the markers of transactions."""
    source, target, letters = (topic_name(hint) for hint in ("in", "out", "letters"))
    for topic in (source, target, letters):
        mutual_tls.create(topic)
    home = mutual_tls.secured.home
    stores = tmp_path / "stores"
    stores.mkdir()
    changes = {}
    for option, path in (
        ("ssl.truststore.location", home / "truststore.jks"),
        ("ssl.keystore.location", home / "users" / "alice.jks"),
    ):
        copy = stores / path.name
        copy.write_bytes(path.read_bytes())
        changes[option] = str(copy)
    access = mutual_tls.table_options(changes=changes)
    script = f"""
    CREATE TABLE s (n INT) WITH ('connector' = 'kafka', 'topic' = '{source}', 'format' = 'json',
      'scan.startup.mode' = 'earliest-offset', 'scan.bad-records' = 'dead-letter',
      'scan.dead-letter.topic' = '{letters}', {access});
    CREATE TABLE t (n INT) WITH ('connector' = 'kafka', 'topic' = '{target}', 'format' = 'json',
      'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{target}', {access});
    INSERT INTO t SELECT n FROM s;
    """
    gone, done, application = tmp_path / "gone", tmp_path / "done", tmp_path / "application"
    events = tmp_path / "events"
    events.mkdir()
    given = {
        "script": script,
        "checkpoint": str(tmp_path / "checkpoint"),
        "files": list(changes.values()),
        "gone": str(gone),
        "done": str(done),
        "application": str(application),
        "conf": {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": events.as_uri(),
            "spark.executor.memory": "512m",
            "spark.driver.memory": "512m",
            "spark.driver.extraJavaOptions": SHORT_LIVED,
            "spark.executor.extraJavaOptions": SHORT_LIVED,
            "spark.pyspark.python": sys.executable,
        },
    }
    with (tmp_path / "out").open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        )
    assert process.stdin is not None
    process.stdin.write(json.dumps(given))
    process.stdin.close()
    said = tmp_path / "out"
    try:
        with watched(process.pid) as lines:
            wait_for(lambda: gone.exists() or process.poll() is not None, 150)
            assert gone.exists(), said.read_text()
            mutual_tls.produce(source, '{"n": 1}', "{", '{"n": 2}')
            wait_for(
                lambda: len(mutual_tls.consume(target)) == 2 or process.poll() is not None, 150
            )
            done.touch()
            assert process.wait(90) == 0, said.read_text()
    finally:
        process.kill()
        process.wait()
    assert "failure: None" in said.read_text()
    assert [r.value for r in mutual_tls.consume(target)] == [b'{"n":1}', b'{"n":2}']
    assert [r.value for r in mutual_tls.consume(letters)] == [b"{"]
    seen = {
        "said": said.read_bytes(),
        **{f"ps: {line}": line.encode() for line in lines},
        **{str(path): path.read_bytes() for path in events.rglob("*") if path.is_file()},
        **_left_on_workers(application.read_text()),
    }
    assert any("CoarseGrainedExecutorBackend" in where for where in seen)
    assert any(b"tidemill-kafka" in text for where, text in seen.items() if str(events) in where)
    assert any(b"Finished task" in text for where, text in seen.items() if "stderr" in where)
    assert holders(seen, mutual_tls.client()["ssl.truststore.password"]) == []
    for path in changes.values():
        # A part that is of this store only.
        assert holders(seen, Path(path + ".away").read_bytes()[200:260]) == []


def _left_on_workers(application: str) -> dict[str, bytes]:
    """What executors have written; workers of a local cluster keep it in Spark's own directory."""
    work = Path(pyspark.__file__).parent / "work" / application
    left = {
        f"executor: {path.relative_to(work)}": path.read_bytes()
        for path in work.rglob("*")
        if path.is_file() and path.suffix not in (".jar", ".zip")
    }
    shutil.rmtree(work)
    return left

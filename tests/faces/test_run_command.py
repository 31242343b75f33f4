"""`tidemill run` as a process: what the terminal shows, exit codes, Ctrl-C, kill -9 and a restart."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from command import Command

from harness.kafka import consume, fold, produce
from tidemill.broker import Broker, start, topics

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

SELECT = """
CREATE TABLE gen (id BIGINT, v INT) WITH ('connector' = 'datagen', 'number-of-rows' = '5',
  'fields.id.kind' = 'sequence',
  'fields.id.start' = '1', 'fields.id.end' = '5', 'fields.v.min' = '7', 'fields.v.max' = '7');
CREATE TABLE seen (id BIGINT) WITH ('connector' = 'print', 'print-identifier' = 'seen');
SET 'table.dml-sync' = 'true';
SET state.backend = rocksdb;
SET 'table.dml-sink' = 'true';
INSERT INTO seen SELECT id FROM gen WHERE id < 3;
SELECT id FROM gen WHERE id > 3;
SELECT id FROM gen WHERE FALSE;
SELECT COUNT(*) AS n, SUM(v) AS total FROM gen;
"""


def with_(broker: Broker, topic: str, connector: str = "kafka") -> str:
    common = f"'connector' = '{connector}', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{broker.bootstrap}'"
    if connector == "kafka":
        return f"WITH ({common}, 'scan.startup.mode' = 'earliest-offset', 'format' = 'json')"
    return f"WITH ({common}, 'key.format' = 'json', 'value.format' = 'json')"


def test_a_first_script_needs_no_topic(tidemill: Command) -> None:
    done = tidemill("run", tidemill.script(SELECT), "--output", "jsonl")
    assert done.wait() == 0, done.stderr()
    lines = done.stdout().splitlines()
    assert sorted(lines[:2]) == ["seen> +I[1]", "seen> +I[2]"]
    # One SELECT after the other.
    assert [json.loads(line) for line in lines[2:]] == [
        {"op": "+I", "row": {"id": 4}},
        {"op": "+I", "row": {"id": 5}},
        {"op": "+I", "row": {"n": 5, "total": 35}},
    ]
    shown = done.stderr()
    assert "\nready\n" in shown
    assert "accepted, without effect here: state.backend" in shown
    assert "did you mean 'table.dml-sync'?" in shown
    assert "no --checkpoint" in shown
    assert "done: job/select 3: rows in 5 from gen, rows out 1, 1 batch\n" in shown
    assert "Traceback" not in shown
    assert "WARN" not in shown


def test_an_unreachable_broker_is_named_within_15_seconds(tidemill: Command) -> None:
    script = """
    CREATE TABLE src (id INT) WITH ('connector' = 'kafka', 'topic' = 't', 'format' = 'json',
      'properties.bootstrap.servers' = '{address}', 'properties.group.id' = 'g');
    SELECT id FROM src;
    """
    with socket.socket() as silent:  # accepts, and never says a word
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        for address in (f"127.0.0.1:{port}", "127.0.0.1:1"):
            begin = time.monotonic()
            done = tidemill("run", tidemill.script(script.format(address=address)))
            spark_start = 12
            assert time.monotonic() - begin < 15 + spark_start
            assert done.wait() == 3
            assert "error RUN-001" in done.stderr()
            assert address in done.stderr()
            assert "job.sql:2:18" in done.stderr()
            assert "Traceback" not in done.stderr()


def test_ctrl_c_stops_cleanly_and_the_same_command_resumes(
    tidemill: Command, broker: Broker, topic_name: Callable[..., str]
) -> None:
    source, target = topic_name("in"), topic_name("out")
    topics.create(broker.bootstrap, source, 2, {})
    topics.create(broker.bootstrap, target, 1, {})
    script = tidemill.script(f"""
    CREATE TABLE src (k STRING) {with_(broker, source)};
    CREATE TABLE dst (k STRING, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) {with_(broker, target, "upsert-kafka")};
    INSERT INTO dst SELECT k, COUNT(*) FROM src GROUP BY k;
    """)
    arguments = ("run", script, "--checkpoint", "cp", "--set", "pipeline.name=mine")
    for turn in (1, 2):
        produce(broker.bootstrap, source, *['{"k":"a"}'] * 3)
        running = tidemill.start(*arguments)
        running.until("ready")
        end = time.monotonic() + 60
        while fold(broker.bootstrap, target) != {'{"k":"a"}': {"k": "a", "n": 3 * turn}}:
            assert time.monotonic() < end, fold(broker.bootstrap, target)
            time.sleep(0.3)
        os.killpg(running.process.pid, signal.SIGINT)
        assert running.wait(30) == 0, running.stderr()
        assert "stopped: mine/dst: rows in 3 from src" in running.stderr()
        assert "Traceback" not in running.stderr()
    assert (tidemill.place / "cp" / "mine" / "dst").is_dir()


def test_a_driver_killed_in_mid_batch_loses_nothing(
    tidemill: Command, broker: Broker, topic_name: Callable[..., str]
) -> None:
    source, totals, copy = topic_name("in"), topic_name("totals"), topic_name("copy")
    rows, keys = 60_000, 500
    topics.create(broker.bootstrap, source, 2, {})
    for name in (totals, copy):
        topics.create(broker.bootstrap, name, 2, {})
    produce(broker.bootstrap, source, *(f'{{"id":{i},"k":{i % keys}}}' for i in range(rows)))
    script = tidemill.script(f"""
    CREATE TABLE src (id BIGINT, k INT) {with_(broker, source)};
    CREATE TABLE totals (k INT, n BIGINT, total BIGINT, PRIMARY KEY (k) NOT ENFORCED)
      {with_(broker, totals, "upsert-kafka")};
    CREATE TABLE copied (id BIGINT) {with_(broker, copy)};
    EXECUTE STATEMENT SET BEGIN
      INSERT INTO totals SELECT k, COUNT(*), SUM(id) FROM src GROUP BY k;
      INSERT INTO copied SELECT id FROM src;
    END;
    """)
    arguments = ("run", script, "--checkpoint", "cp", "--bounded")
    for _ in range(2):
        running = tidemill.start(*arguments)
        running.until("ready")
        # The sinks have begun to write, the batch is not committed.
        end = time.monotonic() + 60
        before = sum(topics.end_offsets(broker.bootstrap, copy).values())
        while sum(topics.end_offsets(broker.bootstrap, copy).values()) == before:
            assert time.monotonic() < end
            if running.process.poll() is not None:
                break
            time.sleep(0.01)
        os.killpg(running.process.pid, signal.SIGKILL)
        running.wait()
    done = tidemill(*arguments)
    assert done.wait() == 0, done.stderr()
    ids = {json.loads(r.value)["id"] for r in consume(broker.bootstrap, copy) if r.value}
    assert ids == set(range(rows))
    folded = fold(broker.bootstrap, totals)
    assert len(folded) == keys
    expected = {k: (rows // keys, sum(range(k, rows, keys))) for k in range(keys)}
    assert {r["k"]: (r["n"], r["total"]) for r in folded.values()} == expected


def test_a_failing_job_is_exit_code_3_and_says_where(
    tidemill: Command, broker: Broker, topic_name: Callable[..., str]
) -> None:
    source = topic_name("in")
    produce(broker.bootstrap, source, '{"id":1}', "not json")
    script = tidemill.script(
        f"CREATE TABLE src (id INT) {with_(broker, source)};\nSELECT id FROM src;"
    )
    done = tidemill("run", script, "--bounded")
    assert done.wait() == 3
    assert f"topic '{source}', partition 0, offset 1" in done.stderr()
    assert "failed: job/select" in done.stderr()
    assert "Traceback" not in done.stderr()


def test_a_job_waits_for_its_broker_as_long_as_it_is_told_and_can_be_stopped(
    tidemill: Command, tmp_path: Path, topic_name: Callable[..., str]
) -> None:
    own, source = start(tmp_path / "broker", port=0), topic_name("in")
    try:
        topics.create(own.bootstrap, source, 1, {})
        script = tidemill.script(f"""
        CREATE TABLE src (id INT) WITH ('connector' = 'kafka', 'topic' = '{source}', 'format' = 'json',
          'properties.bootstrap.servers' = 'PLAINTEXT://{own.bootstrap}', 'scan.startup.mode' = 'earliest-offset',
          'properties.default.api.timeout.ms' = '4000', 'properties.request.timeout.ms' = '2000');
        SELECT id FROM src;
        """)
        running = tidemill.start("run", script, "--restart-for", "100 s")
        running.until("ready")
    finally:
        own.stop()
    running.until("it will be started again from its checkpoint")
    running.until("the job waits for it, at most 9[0-9] s more")
    os.killpg(running.process.pid, signal.SIGINT)
    assert running.wait(30) == 0, running.stderr()
    assert "stopped: job/select" in running.stderr()


def test_local_brings_its_own_broker_and_says_how_to_look(tidemill: Command) -> None:
    script = tidemill.script("""
    CREATE TABLE dst (id INT) WITH ('connector' = 'kafka', 'topic' = 'numbers', 'format' = 'json',
      'properties.bootstrap.servers' = 'far-away:9092');
    INSERT INTO dst VALUES (1), (2);
    """)
    done = tidemill("run", "--local", script)
    assert done.wait() == 0, done.stderr()
    assert "starting the embedded broker" in done.stderr()
    assert "tidemill topic read numbers" in done.stderr()
    assert tidemill("broker", "start", "--detach", "--port", "0").wait() == 0
    try:
        read = tidemill("topic", "read", "numbers", "--from-beginning")
        assert [json.loads(line)["value"] for line in read.stdout().splitlines()] == [
            {"id": 1},
            {"id": 2},
        ]
    finally:
        assert tidemill("broker", "stop").wait() == 0


def test_two_jobs_that_would_share_a_checkpoint_are_refused(tidemill: Command) -> None:
    script = tidemill.script("""
    CREATE TABLE gen (id INT) WITH ('connector' = 'datagen', 'number-of-rows' = '1');
    CREATE TABLE hole (id INT) WITH ('connector' = 'blackhole');
    INSERT INTO hole SELECT id FROM gen;
    INSERT INTO hole SELECT id FROM gen;
    """)
    done = tidemill("run", script, "--checkpoint", "cp")
    assert done.wait() == 1
    assert "share the checkpoint 'job/hole'" in done.stderr()

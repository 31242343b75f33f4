from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.kafka import consume, produce
from harness.waiting import wait_for
from tidemill.broker import Broker, default_data, find_running, start, status, topics
from tidemill.errors import JobError, TidemillError, UsageError

pytestmark = pytest.mark.kafka


def diagnose(*arguments: object, **options: object) -> str:
    """The text of the refusal to start so."""
    with pytest.raises(TidemillError) as caught:
        start(*arguments, **options).stop()  # type: ignore[arg-type]
    return str(caught.value)


@pytest.fixture
def listening() -> Iterator[int]:
    """A port that another program has."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


def test_fixture_is_a_running_broker(broker: Broker) -> None:
    assert broker.is_running()
    assert find_running(broker.data) == broker
    assert status(broker.data).broker == broker
    host, port = broker.bootstrap.split(":")
    assert (host, int(port)) == ("127.0.0.1", broker.port)


def test_it_listens_on_loopback_only(broker: Broker) -> None:
    settings = (broker.data / "server.properties").read_text()
    addresses = [
        line for line in settings.splitlines() if "listeners=" in line or "voters=" in line
    ]
    assert len(addresses) == 3
    assert all("127.0.0.1:" in line and "0.0.0.0" not in line for line in addresses)


def test_log_is_in_the_data_directory(broker: Broker) -> None:
    assert "started (kafka.server.KafkaRaftServer)" in broker.log.read_text()


def test_data_in_use_is_refused_with_the_address(broker: Broker) -> None:
    text = diagnose(broker.data, 0)
    assert text.startswith(f"error BRK-005: a broker already runs on '{broker.data}'")
    assert f"at {broker.bootstrap} (process {broker.pid})" in text
    assert broker.is_running()


def test_taken_port_is_refused_with_the_way_out(tmp_path: Path, listening: int) -> None:
    text = diagnose(tmp_path / "data", listening)
    assert f"BRK-001: port {listening} of 127.0.0.1 is taken" in text
    assert "--port 0" in text
    assert not (tmp_path / "data").exists()


def test_foreign_directory_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(UsageError, match="BRK-003: .* is not empty and not the data of"):
        start(tmp_path, 0)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_data_of_a_newer_kafka_is_refused(tmp_path: Path) -> None:
    (tmp_path / "version").write_text("4.10.0\n")
    text = diagnose(tmp_path, 0)
    assert "BRK-004" in text
    assert "was written by Kafka 4.10.0, newer than the embedded Kafka 4.3.1" in text


def test_file_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    assert "BRK-002: the data directory" in diagnose(tmp_path / "data", 0)


@pytest.mark.parametrize("pid", ["dead", "reused"])
def test_stale_state_is_not_a_broker(tmp_path: Path, pid: str) -> None:
    """A reused pid is that of a process which is alive and not ours to stop: this one."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    state = {"port": 1, "started": "2024-01-01T00:00:00+00:00"}
    state["pid"] = os.getpid() if pid == "reused" else dead.pid
    (tmp_path / "version").write_text("4.3.1\n")
    (tmp_path / "broker.lock").touch()
    (tmp_path / "broker.json").write_text(json.dumps(state))
    assert find_running(tmp_path) is None
    assert status(tmp_path).exists
    assert status(tmp_path).broker is None


def test_two_brokers_and_a_kill_lose_nothing(broker: Broker, tmp_path: Path) -> None:
    # Kafka by itself would split this path at the comma and misread the rest.
    data = tmp_path / "second, 数据 broker"
    second = start(data, 0)
    try:
        assert second.bootstrap != broker.bootstrap
        topics.create(second.bootstrap, "kept", partitions=2)
        produce(second.bootstrap, "kept", {"key": "k", "value": "v", "partition": 1})
        assert not topics.exists(broker.bootstrap, "kept")

        os.kill(second.pid, signal.SIGKILL)
        second.wait()
        assert find_running(data) is None
        assert (data / "broker.json").exists()

        second = start(data, 0)
        (record,) = consume(second.bootstrap, "kept")
        assert (record.key, record.value, record.partition) == (b"k", b"v", 1)
        assert broker.is_running()
    finally:
        second.stop()
    assert not second.is_running()
    assert (data / "kafka" / ".kafka_cleanshutdown").exists()
    second.stop()


def test_damaged_data_is_a_sentence_with_the_log(tmp_path: Path) -> None:
    (tmp_path / "version").write_text("4.3.1\n")
    (tmp_path / "kafka").mkdir()
    (tmp_path / "kafka" / "meta.properties").write_text("version=1\nnode.id=7\ncluster.id=x\n")
    text = diagnose(tmp_path, 0)
    assert "BRK-007: the broker did not start: " in text
    assert "node" in text.splitlines()[0]
    assert f"hint: its log is {tmp_path / 'broker.log'}" in text
    assert find_running(tmp_path) is None


def test_broker_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from tidemill.broker import start;"
        "print(start(Path(sys.argv[1]), 0).bootstrap, flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        address = parent.stdout.readline().strip()
        running = find_running(tmp_path)
        assert running is not None
        assert running.bootstrap == address
        parent.kill()
    wait_for(lambda: not running.is_running())
    assert (tmp_path / "kafka" / ".kafka_cleanshutdown").exists()


def test_package_gives_all_that_it_names() -> None:
    import tidemill.broker as package

    assert all(hasattr(package, name) for name in package.__all__)
    assert not hasattr(package, "stop")


def test_default_data_follows_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TIDEMILL_HOME", str(tmp_path))
    assert default_data() == tmp_path / "broker"
    monkeypatch.delenv("TIDEMILL_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    assert default_data() == tmp_path / "share" / "tidemill" / "broker"


def test_importing_the_broker_imports_no_kafka_client() -> None:
    script = (
        "import sys, tidemill.broker, tidemill.cli.broker, tidemill.cli.topic;"
        "print([m for m in ('confluent_kafka', 'pyspark', 'pyarrow') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.stdout == "[]\n", run.stderr


def test_start_under_way_is_told_from_a_running_broker(tmp_path: Path) -> None:
    import fcntl

    (tmp_path / "version").write_text("4.3.1\n")
    with (tmp_path / "broker.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(JobError, match="BRK-005: another broker is just starting"):
            start(tmp_path, 0)

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from harness.kafka import consume, produce
from tidemill.broker import Broker, find_running, topics
from tidemill.cli import cli
from tidemill.cli.broker import broker as broker_group
from tidemill.cli.topic import topic as topic_group
from tidemill.errors import TidemillError

pytestmark = pytest.mark.kafka

Name = Callable[..., str]


def run(
    group: click.Group, *arguments: str, stdin: str | bytes | None = None
) -> tuple[int, str, str]:
    """Exit code, standard output and standard error, as the command `tidemill` gives them."""
    result = CliRunner().invoke(cli, [str(group.name), *arguments], input=stdin)
    if isinstance(result.exception, TidemillError):
        return result.exception.exit_code, result.stdout, result.stderr + str(result.exception)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def spawn(group: str, *arguments: str, **options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "from tidemill.cli import main; main()", group, *arguments]
    return subprocess.Popen(  # type: ignore[call-overload, no-any-return]
        command, text=True, **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    )


# --- tidemill broker


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home of its own for what runs by default; no broker of it is left behind."""
    monkeypatch.setenv("TIDEMILL_HOME", str(tmp_path / "home"))
    yield tmp_path / "home" / "broker"
    left = find_running()
    if left:
        left.stop()


def test_detached_broker_outlives_its_command(home: Path, broker: Broker) -> None:
    # The shared broker has fetched the jars, so that no notice about them stands in the output.
    code, out, _ = run(broker_group, "status")
    assert code == 3
    assert out == f"no broker is running on {home}; nothing is kept there\n"

    with spawn("broker", "start", "--detach", "--port", "0") as command:
        out, err = command.communicate(timeout=60)
    assert (command.returncode, err) == (0, "")
    running = find_running()
    assert running is not None
    assert out == (
        f"broker running at {running.bootstrap}\n"
        f"  data  {home}\n  log   {home}/broker.log\n  stop  tidemill broker stop\n"
    )

    code, out, _ = run(broker_group, "status")
    assert code == 0
    assert f"running at {running.bootstrap}" in out
    assert f"pid   {running.pid}" in out
    code, _, err = run(broker_group, "start", "--port", "0")
    assert (code, "BRK-005" in err) == (3, True)

    # Without --bootstrap the topic commands find it.
    assert run(topic_group, "create", "t")[0] == 0
    assert run(topic_group, "list")[1].splitlines()[1].split() == ["t", "1", "0"]

    code, out, _ = run(broker_group, "stop")
    assert (code, out) == (
        0,
        f"broker at {running.bootstrap} stopped; its topics are kept in {home}\n",
    )
    assert run(broker_group, "stop") == (0, f"no broker is running on {home}\n", "")
    assert run(broker_group, "status")[1].endswith("; its topics are kept\n")


def test_interrupt_stops_a_broker_in_the_foreground(tmp_path: Path) -> None:
    with spawn("broker", "start", "--port", "0", "--data", str(tmp_path)) as command:
        assert command.stdout is not None
        first = [command.stdout.readline() for _ in range(4)]
        running = find_running(tmp_path)
        assert running is not None
        assert first[0] == f"broker running at {running.bootstrap}\n"
        assert first[3] == "  stop  Ctrl-C\n"
        command.send_signal(signal.SIGINT)
        out, err = command.communicate(timeout=30)
    assert (command.returncode, out, err) == (0, "broker stopped\n", "")
    assert not running.is_running()


@pytest.mark.parametrize(
    "arguments", [["start", "--port", "x"], ["start", "--port", "70000"], ["restart"]]
)
def test_wrong_arguments_are_usage_errors(arguments: list[str]) -> None:
    assert run(broker_group, *arguments)[0] == 2


def test_foreign_directory_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    code, _, err = run(broker_group, "start", "--data", str(tmp_path), "--port", "0")
    assert (code, "BRK-003" in err) == (2, True)


# --- tidemill topic


@pytest.fixture
def at(broker: Broker) -> tuple[str, str]:
    return "--bootstrap", broker.bootstrap


LINES = """\
{"key": "u1", "value": {"n": 1.10}, "headers": {"h": "x"}, "partition": 1, "timestamp": 1700000000000}
{"key": "u1", "value": null, "partition": 1, "timestamp": 1700000000001}

{"key": {"base64": "/wA="}, "value": {"base64": "gA=="}, "partition": 1, "timestamp": 1700000000002}
{"value": "世界", "partition": 1, "timestamp": 1700000000003}
"""
READ = """\
{"key":"u1","value":{"n":1.10},"headers":{"h":"x"},"partition":1,"timestamp":1700000000000}
{"key":"u1","value":null,"headers":{},"partition":1,"timestamp":1700000000001}
{"key":{"base64":"/wA="},"value":{"base64":"gA=="},"headers":{},"partition":1,"timestamp":1700000000002}
{"key":null,"value":"世界","headers":{},"partition":1,"timestamp":1700000000003}
"""


def test_what_is_read_can_be_written_again(
    at: tuple[str, str], topic_name: Name, tmp_path: Path
) -> None:
    first, second = topic_name(), topic_name()
    for name in (first, second):
        assert run(topic_group, "create", name, "--partitions", "2", *at) == (
            0,
            f"topic '{name}' created with 2 partitions\n",
            "",
        )
    code, out, err = run(topic_group, "write", first, *at, stdin=LINES)
    assert (code, out, err) == (0, "", f"4 records written to topic '{first}'\n")
    assert run(topic_group, "read", first, *at) == (0, READ, "")
    copy = tmp_path / "copy.jsonl"
    copy.write_text(run(topic_group, "read", first, "--address", *at)[1], encoding="utf-8")
    assert run(topic_group, "write", second, str(copy), *at)[0] == 0
    for options in ([], ["--from-beginning"], ["--bounded"], ["--from-beginning", "--bounded"]):
        assert run(topic_group, "read", second, *options, *at)[1] == READ
    assert run(topic_group, "read", second, "--max", "1", *at)[1] == READ.splitlines(True)[0]
    assert run(topic_group, "read", second, "--plain", "--max", "2", *at)[1] == '{"n":1.10}\n\n'
    assert json.loads(copy.read_text(encoding="utf-8").splitlines()[2])["offset"] == 2


def test_lines_of_a_windows_file_and_plain_values(at: tuple[str, str], topic_name: Name) -> None:
    name = topic_name()
    text = b'\xef\xbb\xbf{"value": "a"}\r\nb c\r\n{"x": 1}\r\n\xff'
    code, _, err = run(topic_group, "write", name, "-", *at, stdin=text)
    assert (code, err) == (0, f"4 records written to topic '{name}' (created by the broker)\n")
    assert [r.value for r in consume(at[1], name)] == [b"a", b"b c", b'{"x": 1}', b"\xff"]
    plain = topic_name()
    run(topic_group, "write", plain, "--plain", *at, stdin='{"value": "a"}\n\nb\n')
    assert [r.value for r in consume(at[1], plain)] == [b'{"value": "a"}', b"", b"b"]


def test_malformed_line_is_named_and_what_stands_before_it_written(
    at: tuple[str, str], topic_name: Name
) -> None:
    name = topic_name()
    lines = 'first\n{"value": 1, "partition": "x"}\nnever\n'
    code, _, err = run(topic_group, "write", name, *at, stdin=lines)
    assert code == 2
    assert "KAFKA-005: line 2 is not a record" in err
    assert [r.value for r in consume(at[1], name)] == [b"first"]


def test_list_hides_the_topics_of_kafka_itself(at: tuple[str, str], topic_name: Name) -> None:
    name = topic_name()
    produce(at[1], name, "1", "2")
    topics.ensure(at[1], "__looks_internal")
    code, out, _ = run(topic_group, "list", *at)
    assert code == 0
    assert out.splitlines()[0].split() == ["topic", "partitions", "records"]
    assert [name, "1", "2"] in [line.split() for line in out.splitlines()]
    assert "__looks_internal" not in out
    assert "__looks_internal" in run(topic_group, "list", "--all", *at)[1]


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["read", "no-such-topic"], 3, "KAFKA-002: topic 'no-such-topic' does not exist"),
        (["read", "t", "--follow", "--bounded"], 2, "give one of them"),
        (["read", "t", "--max", "0"], 2, "--max"),
        (["write", "t", "no-such-file"], 2, "no-such-file"),
        (["create", "t", "--partitions", "0"], 2, "--partitions"),
        (["create", "t", "--config", "x"], 2, "'x' is not of the form K=V"),
        (["create"], 2, "Missing argument 'NAME'"),
    ],
)
def test_mistakes_are_sentences(
    at: tuple[str, str], arguments: list[str], code: int, expected: str
) -> None:
    found, _, err = run(topic_group, *arguments, *at)
    assert found == code
    assert expected in err


def test_no_broker_at_all_says_how_to_get_one(home: Path) -> None:
    code, _, err = run(topic_group, "list")
    assert code == 3
    assert "KAFKA-007: no embedded broker is running" in err
    assert "tidemill broker start --detach" in err


def test_interrupt_ends_following_quietly(at: tuple[str, str], topic_name: Name) -> None:
    name = topic_name()
    produce(at[1], name, "old")
    with spawn("topic", "read", name, "--follow", "--from-beginning", *at) as command:
        assert command.stdout is not None
        assert json.loads(command.stdout.readline())["value"] == "old"
        produce(at[1], name, "new")
        assert json.loads(command.stdout.readline())["value"] == "new"
        command.send_signal(signal.SIGINT)
        out, err = command.communicate(timeout=20)
    assert (command.returncode, out, err) == (0, "", "")


def test_closed_pipe_ends_reading_quietly(at: tuple[str, str], topic_name: Name) -> None:
    name = topic_name()
    produce(at[1], name, *(["x" * 1000] * 500))
    with spawn("topic", "read", name, *at) as command:
        assert command.stdout is not None
        command.stdout.readline()
        command.stdout.close()
        assert command.wait(20) == 0
        assert command.stderr is not None
        assert command.stderr.read() == ""


def test_interrupt_while_typing_keeps_what_was_typed(at: tuple[str, str], topic_name: Name) -> None:
    name = topic_name()
    topics.create(at[1], name)
    outer, inner = pty.openpty()
    try:
        with spawn("topic", "write", name, *at, stdin=inner) as command:
            assert command.stderr is not None
            assert command.stderr.readline() == "one record a line; end with Ctrl-D\n"
            os.write(outer, b"typed\n")
            deadline = time.monotonic() + 10
            while not consume(at[1], name) and time.monotonic() < deadline:
                time.sleep(0.1)
            command.send_signal(signal.SIGINT)
            _, err = command.communicate(timeout=20)
    finally:
        os.close(outer)
        os.close(inner)
    assert (command.returncode, err) == (0, f"\n1 record written to topic '{name}'\n")
    assert [r.value for r in consume(at[1], name)] == [b"typed"]

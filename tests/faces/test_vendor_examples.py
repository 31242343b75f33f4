"""The examples of vendors as a newcomer tries them: the lines at the head of each, typed one after the other.

What the last of them, `tidemill topic read`, shows is `expected` beside the script: every record, byte for byte.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator

import pytest
from command import Command, Process

from harness.manuals import DLI_RECORDS, vendor
from test_examples import EXAMPLES
from tidemill.broker.records import parse_line

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

Pairs = list[tuple[bytes | None, bytes | None]]
START = ["broker", "start", "--detach"]


@pytest.fixture(scope="module")
def tidemill(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Command]:
    """Where the examples are, and the broker that their first line starts."""
    place = tmp_path_factory.mktemp("vendors")
    (place / "examples").symlink_to(EXAMPLES)
    command = Command(place, place / "home")
    assert command(*START, "--port", "0").wait() == 0
    yield command
    command.end()
    assert command("broker", "stop").wait() == 0


def printed(script: str) -> list[list[str]]:
    """The commands of its head, after the first."""
    text = (EXAMPLES / script).read_text(encoding="utf-8")
    start, *others = [line.split() for line in re.findall("^--     tidemill (.*)", text, re.M)]
    assert start == START
    return others


def expected(script: str) -> Pairs:
    [path] = (EXAMPLES / script).with_suffix("").glob("expected/*.jsonl")
    return pairs(path.read_text(encoding="utf-8"))


def pairs(lines: str) -> Pairs:
    records = [parse_line(line.encode(), at) for at, line in enumerate(lines.splitlines(), 1)]
    return [(record.key, record.value) for record in records]


def read_until(tidemill: Command, job: Process, read: list[str], count: int) -> Pairs:
    end = time.monotonic() + 60
    while len(found := pairs(tidemill(*read).stdout())) < count:
        assert job.process.poll() is None and time.monotonic() < end, job.stderr()
    return found


def stop(job: Process) -> None:
    os.killpg(job.process.pid, signal.SIGINT)
    assert job.wait(60) == 0, job.stderr()
    assert "Traceback" not in job.stderr()


@pytest.mark.parametrize("script", ["oceanus/upsert.sql", "dli/orders.sql"])
def test_an_example_that_reads_what_comes_after_its_start(tidemill: Command, script: str) -> None:
    run, write, read = printed(script)
    job = tidemill.start(*run)
    job.until("\nready\n")
    assert tidemill(*write).wait() == 0
    assert read_until(tidemill, job, read, len(expected(script))) == expected(script)
    stop(job)


def test_the_examples_of_blink(tidemill: Command) -> None:
    scripts = ("blink/result_table.sql", "blink/source_table.sql")
    lines = [line for script in scripts for line in printed(script)]
    done = tidemill.in_turn(*lines)
    assert [each.code for each in done] == [0] * len(lines), [each.err for each in done]
    shown = [
        each.out for line, each in zip(lines, done, strict=True) if line[:2] == ["topic", "read"]
    ]
    assert [pairs(out) for out in shown] == [expected(script) for script in scripts]


def test_dlis_example_as_it_is_printed_feeds_itself_where_that_is_allowed(
    tidemill: Command,
) -> None:
    script = tidemill.script(vendor("dli: the example"), "dli.sql")
    job = tidemill.start("run", "--local", "--allow-loop", script)
    job.until("\nready\n")
    given: Pairs = [(None, line.encode()) for line in DLI_RECORDS]
    written = tidemill.script("\n".join(DLI_RECORDS), "orders.jsonl")
    assert tidemill("topic", "write", "KafkaTopic", written).wait() == 0
    once = expected("dli/orders.sql")
    read = ["topic", "read", "KafkaTopic"]
    found = read_until(tidemill, job, read, len(given) + 2 * len(once))
    assert found[: len(given)] == given
    assert found[len(given) :][: 2 * len(once)] == once * 2
    stop(job)
    assert "ADV-005" in job.stderr()

"""`tidemill demo` as a process: Ctrl-C ends it as its time does."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import pytest
from command import Command

from harness.kafka import fold
from harness.waiting import wait_for
from tidemill.broker import find_running
from tidemill.errors import JobError

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def test_ctrl_c_ends_the_demo_with_its_batch(
    tidemill: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMILL_HOME", str(tidemill.home))
    running = tidemill.start("demo", "--seconds", "300")

    def counts() -> bool:
        broker, found = find_running(), {}
        with suppress(JobError):  # The topic is not there at first.
            found = fold(broker.bootstrap, "pageviews_per_region") if broker else {}
        return bool(found)

    wait_for(counts, 90)
    os.killpg(running.process.pid, signal.SIGINT)
    assert running.wait(60) == 0, running.stderr()
    assert "stopping …" in running.stderr() and "What to try next" in running.stderr()
    assert "error" not in running.stderr() and "Traceback" not in running.stderr()
    assert "Shenzhen" in running.stdout()
    assert find_running() is None

"""`tidemill demo` as a process: Ctrl-C ends it as its time does."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import pytest
from command import Command

from harness.kafka import fold
from harness.waiting import wait_for
from tidemill.broker import start
from tidemill.errors import JobError

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def test_ctrl_c_ends_the_demo_with_its_batch(tidemill: Command) -> None:
    broker = start(tidemill.home / "broker", port=0)
    try:
        running = tidemill.start("demo", "--seconds", "300")

        def counts() -> bool:
            with suppress(JobError):  # The topic is not there at first.
                return bool(fold(broker.bootstrap, "pageviews_per_region"))
            return False

        wait_for(counts, 90)
        os.killpg(running.process.pid, signal.SIGINT)
        assert running.wait(60) == 0, running.stderr()
    finally:
        broker.stop()
    assert "stopping …" in running.stderr() and "What to try next" in running.stderr()
    assert "error" not in running.stderr() and "Traceback" not in running.stderr()
    assert "Shenzhen" in running.stdout()

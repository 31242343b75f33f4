"""What tests of several areas share: one real broker and registry for the whole run, and names for topics."""

from __future__ import annotations

import datetime
import itertools
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from harness.apicurio import Apicurio, running
from harness.java import SHORT_LIVED
from tidemill.broker import Broker, start

KERNEL = Path(__file__).parent.parent / "tools" / "kernel.py"

# Property tests try the same examples in every run, so that a commit is judged by what it changed; `make fuzz` and
# FUZZ=1 look for new ones. How long an example takes says more of the machine than of the code.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("new examples", deadline=None)
settings.load_profile("new examples" if "FUZZ" in os.environ else "repeatable")

# Processes of one run choose the same cases of the day, also around midnight.
os.environ.setdefault("TODAY", str(datetime.datetime.now(datetime.UTC).date().toordinal()))

# A run in the background of a shell ignores Ctrl-C, and so would every command that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# spark-submit, through which Spark is started here and by every command, gives this to its JVM.
os.environ["SPARK_SUBMIT_OPTS"] = SHORT_LIVED


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real Kafka on a random loopback port; `.bootstrap` is its address, `.data` its directory."""
    running = start(tmp_path_factory.mktemp("broker"), port=0)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The one Spark JVM of the run, with the kernel and the settings that jobs run with."""
    from tidemill.spark.engine import create_spark

    subprocess.run([sys.executable, KERNEL, "build"], check=True)
    session = create_spark("local[2]", {"spark.sql.shuffle.partitions": "2"})
    yield session
    session.stop()


@pytest.fixture(scope="session")
def apicurio() -> Iterator[Apicurio]:
    """A real schema registry on a random loopback port; tests take a subject that no other test uses."""
    with running() as registry:
        yield registry


_serial = itertools.count(1)


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> Callable[..., str]:
    """A function that gives a topic name which no other test uses; the topic is not created."""

    def name(hint: str = "t") -> str:
        test = re.sub(r"[^A-Za-z0-9._-]+", "-", request.node.name)[:80]
        return f"{test}-{hint}-{next(_serial)}"

    return name

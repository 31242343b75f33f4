"""What tests of several areas share: one real broker for the whole run, and names for topics."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tidemill.broker import Broker, start


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

    session = create_spark("local[2]", {"spark.sql.shuffle.partitions": "2"})
    yield session
    session.stop()


_serial = itertools.count(1)


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> Callable[..., str]:
    """A function that gives a topic name which no other test uses; the topic is not created."""

    def name(hint: str = "t") -> str:
        test = re.sub(r"[^A-Za-z0-9._-]+", "-", request.node.name)[:80]
        return f"{test}-{hint}-{next(_serial)}"

    return name

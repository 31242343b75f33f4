"""What tests of several areas share: one real broker for the whole run, and names for topics."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator

import pytest

from tidemill.broker import Broker, start


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real Kafka on a random loopback port; `.bootstrap` is its address, `.data` its directory."""
    running = start(tmp_path_factory.mktemp("broker"), port=0)
    yield running
    running.stop()


_serial = itertools.count(1)


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> Callable[..., str]:
    """A function that gives a topic name which no other test uses; the topic is not created."""

    def name(hint: str = "t") -> str:
        test = re.sub(r"[^A-Za-z0-9._-]+", "-", request.node.name)[:80]
        return f"{test}-{hint}-{next(_serial)}"

    return name

"""Whole scripts on the shared Spark and the shared broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from world import World

from tidemill.broker import Broker


@pytest.fixture
def world(
    broker: Broker, spark: Any, topic_name: Callable[..., str], tmp_path: Path
) -> Iterator[World]:
    yield World(broker, spark, topic_name, tmp_path / "checkpoint")

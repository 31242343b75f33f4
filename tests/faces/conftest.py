"""A command for each test; whatever it started is ended with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from command import Command


@pytest.fixture
def tidemill(tmp_path: Path) -> Iterator[Command]:
    command = Command(tmp_path, tmp_path / "home")
    yield command
    command.end()

"""Properties of the kernel's inner parts, tested in Java: they live beside the packages they look into."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from kernel_jobs import CLASSPATH


@pytest.mark.spark
@pytest.mark.parametrize(
    ("properties", "number"), [("state.StateEncodingProperties", 14), ("kafka.PaceProperties", 5)]
)
@pytest.mark.parametrize("seed", [20260727])
def test_properties_hold(java_tests: Path, properties: str, number: int, seed: int) -> None:
    classpath = os.pathsep.join([str(java_tests), CLASSPATH])
    run = subprocess.run(
        ["java", "-cp", classpath, f"io.tidemill.{properties}", str(seed)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    assert run.stdout.count("holds: ") == number, run.stdout

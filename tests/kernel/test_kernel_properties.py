"""Properties of the kernel's inner parts, tested in Java: they live beside the packages they look into."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidemill.broker.jars import find_javac

ROOT = Path(__file__).resolve().parent.parent.parent
TESTS = ROOT / "kernel/src/test/java"
JARS = ROOT / "src/tidemill/jars"


@pytest.fixture(scope="module")
def classpath(tmp_path_factory: pytest.TempPathFactory) -> str:
    import pyspark

    subprocess.run([sys.executable, ROOT / "tools" / "kernel.py", "build"], check=True)
    classes = tmp_path_factory.mktemp("classes")
    spark = Path(pyspark.__file__).parent / "jars"
    path = os.pathsep.join([str(JARS / "*"), str(spark / "*")])
    command = [find_javac(), "--release", "17", "-proc:none", "-cp", path, "-d", classes]
    built = subprocess.run([*command, *TESTS.rglob("*.java")], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return os.pathsep.join([str(classes), path])


@pytest.mark.spark
@pytest.mark.parametrize(
    ("properties", "number"), [("state.StateEncodingProperties", 14), ("kafka.PaceProperties", 5)]
)
@pytest.mark.parametrize("seed", [20260727])
def test_properties_hold(classpath: str, properties: str, number: int, seed: int) -> None:
    run = subprocess.run(
        ["java", "-cp", classpath, f"io.tidemill.{properties}", str(seed)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    assert run.stdout.count("holds: ") == number, run.stdout

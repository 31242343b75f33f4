"""The stored forms of keyed state, tested in Java: the properties live beside the package they look into."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidemill.broker.jars import find_javac

ROOT = Path(__file__).resolve().parent.parent.parent
PROPERTIES = ROOT / "kernel/src/test/java/io/tidemill/state/StateEncodingProperties.java"
KERNEL = ROOT / "src/tidemill/jars/tidemill-kernel.jar"


@pytest.fixture(scope="module")
def classpath(tmp_path_factory: pytest.TempPathFactory) -> str:
    import pyspark

    subprocess.run([sys.executable, ROOT / "tools" / "kernel.py", "build"], check=True)
    classes = tmp_path_factory.mktemp("classes")
    path = os.pathsep.join([str(KERNEL), str(Path(pyspark.__file__).parent / "jars" / "*")])
    built = subprocess.run(
        [find_javac(), "--release", "17", "-proc:none", "-cp", path, "-d", classes, PROPERTIES],
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    return os.pathsep.join([str(classes), path])


@pytest.mark.spark
@pytest.mark.parametrize("seed", [20260727])
def test_stored_forms_keep_their_properties(classpath: str, seed: int) -> None:
    run = subprocess.run(
        ["java", "-cp", classpath, "io.tidemill.state.StateEncodingProperties", str(seed)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    assert run.stdout.count("holds: ") == 10, run.stdout

"""The wheel: what it carries, and that it works in an empty environment, from any directory."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

import tidemill

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "tidemill"

SCRIPT = """
CREATE TABLE numbers (n BIGINT, half AS n / 2) WITH (
  'connector' = 'datagen', 'number-of-rows' = '4', 'fields.n.kind' = 'sequence',
  'fields.n.start' = '1', 'fields.n.end' = '4');
SELECT COUNT(*) AS c, SUM(n) AS s, SUM(half) AS h FROM numbers;
"""


@dataclass
class Installed:
    home: Path
    elsewhere: Path

    def run(self, program: str, *arguments: str) -> str:
        """Run a program of the environment in a directory of no importance, as a fresh shell would."""
        kept = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "JAVA_HOME", "LANG")}
        done = subprocess.run(
            [self.home / "bin" / program, *arguments],
            cwd=self.elsewhere,
            env=kept,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as `make wheel` does, from a copy: setuptools leaves things beside the sources, and finds what it left."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(
        PACKAGE, source / "src" / "tidemill", ignore=shutil.ignore_patterns("__pycache__")
    )
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "dist", "."]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = (source / "dist").iterdir()
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel in an environment of its own; its needs, 400 MB of them, come from the one that runs the tests."""
    home = tmp_path_factory.mktemp("a place with spaces") / "env"
    venv.create(home, symlinks=True, with_pip=False)
    python = home / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-index"]
    done = subprocess.run(
        [*command, "--no-deps", wheel], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # A path in a .pth file is searched, but its own .pth files, the editable install among them, are not read.
    (site,) = home.glob("lib/python*/site-packages")
    (site / "needs.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return Installed(home, tmp_path_factory.mktemp("elsewhere"))


def test_it_carries_the_whole_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {n for n in archive.namelist() if ".dist-info/" not in n}
    ours = (p for p in PACKAGE.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    assert names == {p.relative_to(PACKAGE.parent).as_posix() for p in ours}
    for needed in (
        "tidemill/py.typed",
        "tidemill/jars/tidemill-kernel.jar",
        "tidemill/spark/log4j2.properties",
        "tidemill/broker/log4j2.properties",
        "tidemill/broker/kafka.lock",
        "tidemill/cli/demo.sql",
    ):
        assert needed in names
    assert any(n.startswith("tidemill/jars/kafka-clients-3.9.") for n in names)


def test_it_runs_from_any_directory(installed: Installed) -> None:
    shown = installed.run(
        "python", "-c", "import tidemill; print(tidemill.__file__, tidemill.jars())"
    )
    place, jars = shown.rsplit(" ", 1)
    assert Path(place).is_relative_to(installed.home)
    assert str(ROOT) not in jars
    assert installed.run("tidemill", "--version").split()[-1] == tidemill.__version__
    (installed.elsewhere / "numbers.sql").write_text(SCRIPT)
    installed.run("tidemill", "check", "numbers.sql")
    lines = installed.run("tidemill", "run", "numbers.sql", "--output", "jsonl").splitlines()
    assert [json.loads(line) for line in lines] == [
        {"op": "+I", "row": {"c": 4, "s": 10, "h": 4}},
    ]

"""A script brings no code of its own: what lies beside it, or where the command is given, is not run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command import COMMAND

SCRIPT = """
CREATE TABLE t (a INT) WITH ('connector' = 'datagen', 'number-of-rows' = '1');
CREATE FUNCTION f AS 'evil.f' LANGUAGE PYTHON;
SELECT f(a) FROM t;
"""
PARTITIONER = """
CREATE TABLE t (a INT) WITH ('connector' = 'datagen', 'number-of-rows' = '1');
CREATE TABLE w (a INT) WITH ('connector' = 'kafka', 'topic' = 'w', 'format' = 'json',
  'properties.bootstrap.servers' = 'b:1', 'sink.partitioner' = 'evil:Evil');
INSERT INTO w SELECT a FROM t;
"""
EVIL = """
from pathlib import Path
Path(__file__).with_name("it-was-run").touch()
def f(x: int) -> int:
    return x
class Evil:
    def partition(self, row, key, value, topic, partitions):
        return 0
"""
# The command as installed, and as `python -c` and `python -m` start it, which look in the current directory first.
WAYS = {
    "installed": [str(COMMAND)],
    "-c": [sys.executable, "-c", "from tidemill.cli import main; main()"],
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "evil.py").write_text(EVIL)
    return tmp_path


def check(place: Path, way: str, script: str, *arguments: str) -> tuple[int, str]:
    (place / "job.sql").write_text(script)
    done = subprocess.run(
        [*WAYS[way], "check", "job.sql", *arguments],
        capture_output=True,
        text=True,
        cwd=place,
        env={k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"},
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("script", [SCRIPT, PARTITIONER], ids=["function", "partitioner"])
@pytest.mark.parametrize("setting", ["", "SET 'python.files' = '.';\n"], ids=["beside", "named"])
def test_python_beside_a_script_is_not_loaded(
    place: Path, way: str, script: str, setting: str
) -> None:
    code, said = check(place, way, setting + script)
    assert code == 1 and "error PLAN-088" in said and "there is no Python module 'evil'" in said
    assert f"--pyfiles {place}" in said
    assert not (place / "it-was-run").exists()


@pytest.mark.parametrize("allowed", ["--pyfiles=.", "--pyfiles=evil.py", "--set=python.files=."])
def test_the_command_line_allows_it(place: Path, allowed: str) -> None:
    code, said = check(place, "installed", SCRIPT, allowed)
    assert code == 0, said
    assert (place / "it-was-run").exists()

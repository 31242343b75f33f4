"""A script brings no code of its own: what lies beside it, or where the command is given, is not run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command import COMMAND

from harness.packages import install

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
FORMAT = """
CREATE TABLE t (a INT) WITH ('connector' = 'kafka', 'topic' = 't', 'format' = 'evil',
  'properties.bootstrap.servers' = 'b:1');
SELECT a FROM t;
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


def typed(place: Path, way: str, command: str, script: str, *arguments: str) -> tuple[int, str]:
    """What a command ends with, and what it says."""
    (place / "job.sql").write_text(script)
    done = subprocess.run(
        [*WAYS[way], command, "job.sql", *arguments],
        capture_output=True,
        text=True,
        cwd=place,
        env={k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"},
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("script", [SCRIPT, PARTITIONER], ids=["function", "partitioner"])
@pytest.mark.parametrize("setting", ["", "SET 'python.files' = '.';\n"], ids=["beside", "named"])
def test_python_beside_a_script_is_not_loaded(
    place: Path, way: str, script: str, setting: str
) -> None:
    code, said = typed(place, way, "check", setting + script)
    assert code == 1 and "error PLAN-088" in said and "there is no Python module 'evil'" in said
    assert f"--pyfiles {place}" in said
    assert not (place / "it-was-run").exists()


@pytest.mark.parametrize("allowed", ["--pyfiles=.", "--pyfiles=evil.py", "--set=python.files=."])
def test_the_command_line_allows_it(place: Path, allowed: str) -> None:
    code, said = typed(place, "installed", "check", SCRIPT, allowed)
    assert code == 0, said
    assert (place / "it-was-run").exists()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("command", ["check", "run"])
def test_a_format_beside_a_script_is_not_loaded(place: Path, way: str, command: str) -> None:
    install(place, "evil-formats", "evil = evil:Evil")
    code, said = typed(place, way, command, FORMAT)
    assert code == 1 and "error OPT-011" in said and "no such format" in said
    assert not (place / "it-was-run").exists()


@pytest.mark.spark
def test_workers_load_nothing_that_lies_beside_the_script(place: Path) -> None:
    """Their daemon is a `python -m`, which would take these for Python's own."""
    for name in ("socket", "struct", "tidemill", "pyspark"):
        (place / f"{name}.py").write_text(EVIL)
    (place / "allowed").mkdir()
    (place / "allowed" / "shop.py").write_text("def f(x: int) -> int:\n    return 42\n")
    script = SCRIPT.replace("evil", "shop")
    code, said = typed(place, "installed", "run", script, "--pyfiles=allowed", "--output=jsonl")
    assert code == 0 and ":42}" in said, said
    assert not (place / "it-was-run").exists()

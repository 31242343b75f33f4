"""`tools/setup.py` on machines that lack something: one sentence that says what to do. And what CI lets nobody lack."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness import kdc

ROOT = Path(__file__).parent.parent
SETUP = ROOT / "tools" / "setup.py"


def run(project: Path, **environment: str) -> str:
    (project / "tools").mkdir(exist_ok=True)
    shutil.copy(SETUP, project / "tools")
    (project / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["no-such-package"]\nbuild-backend = "x"\n'
        '[project]\nname = "p"\nversion = "1"\n'
    )
    done = subprocess.run(
        [sys.executable, project / "tools" / "setup.py"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr.strip()


def fake_jdk(place: Path, version: str) -> str:
    (place / "bin").mkdir(parents=True)
    javac = place / "bin" / "javac"
    javac.write_text(f"#!/bin/sh\necho javac {version}\n")
    javac.chmod(0o755)
    return str(place)


def test_no_jdk(tmp_path: Path) -> None:
    told = run(tmp_path, JAVA_HOME=str(tmp_path / "nowhere"))
    assert told.startswith("tidemill set-up: no javac in JAVA_HOME")
    assert "install a JDK 17" in told


def test_an_old_java(tmp_path: Path) -> None:
    told = run(tmp_path, JAVA_HOME=fake_jdk(tmp_path / "jdk", "11.0.2"))
    assert "a JDK 17 or newer is needed" in told
    assert "is version 11" in told


def test_no_network(tmp_path: Path) -> None:
    told = run(
        tmp_path,
        JAVA_HOME=fake_jdk(tmp_path / "jdk", "17.0.1"),
        PIP_INDEX_URL="http://127.0.0.1:1/simple",
        PIP_EXTRA_INDEX_URL="",
        PIP_RETRIES="0",
        PIP_CONFIG_FILE=os.devnull,
    )
    assert told.startswith("tidemill set-up: packages could not be downloaded")
    assert "\n" not in told


def test_ci_fails_where_kerberos_cannot_be_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\nCI=true make test-security\n" in (ROOT / ".ci" / "run").read_text()
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="CI has to try Kerberos: no apt-get"):
        kdc.required("no apt-get")
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match="no apt-get"):
        kdc.required("no apt-get")

from __future__ import annotations

from pathlib import Path

import pytest

from tidemill.broker import find_java, find_javac
from tidemill.errors import JobError


def install_java(
    home: Path, version: str, programs: tuple[str, ...] = ("java", "javac"), release: bool = True
) -> Path:
    """A directory that looks like a JDK; its programs only say their version."""
    (home / "bin").mkdir(parents=True)
    for program in programs:
        said = f'openjdk version "{version}"' if program == "java" else f"javac {version}"
        path = home / "bin" / program
        path.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
        path.chmod(0o755)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


@pytest.mark.parametrize("release", [True, False])
@pytest.mark.parametrize("version", ["17", "17.0.15", "21.0.2", "25-ea"])
def test_java_on_the_path_is_found(tmp_path: Path, version: str, release: bool) -> None:
    install_java(tmp_path, version, release=release)
    assert find_java() == tmp_path / "bin" / "java"
    assert find_javac() == tmp_path / "bin" / "javac"


def test_java_home_beats_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_java(tmp_path, "17.0.1")
    home = install_java(tmp_path / "jdk", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert find_java() == home / "bin" / "java"


@pytest.mark.parametrize("release", [True, False])
@pytest.mark.parametrize(("version", "shown"), [("1.8.0_402", "8"), ("11.0.22", "11")])
def test_old_java_is_refused_with_its_version(
    tmp_path: Path, version: str, shown: str, release: bool
) -> None:
    install_java(tmp_path, version, release=release)
    with pytest.raises(JobError) as caught:
        find_java()
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "SETUP-002"
    assert f"is Java {shown}: Tidemill needs Java 17 or newer" in diagnostic.message


def test_no_java_says_what_to_install() -> None:
    with pytest.raises(JobError) as caught:
        find_java()
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "SETUP-001"
    assert diagnostic.hint == "install a JDK 17 or newer, or set JAVA_HOME to one"


def test_java_home_without_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(JobError, match="gone', which has no bin/java"):
        find_java()


def test_stub_that_only_fails_counts_as_no_java(tmp_path: Path) -> None:
    install_java(tmp_path, "17", release=False)
    (tmp_path / "bin" / "java").write_text(
        "#!/bin/sh\necho 'no Java runtime present' >&2\nexit 1\n"
    )
    with pytest.raises(JobError, match="SETUP-001: no Java found"):
        find_java()


def test_runtime_without_compiler_is_told_apart(tmp_path: Path) -> None:
    install_java(tmp_path, "17", programs=("java",))
    assert find_java().name == "java"
    with pytest.raises(JobError, match="SETUP-003: no Java compiler found"):
        find_javac()

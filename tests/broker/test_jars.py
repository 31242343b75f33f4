from __future__ import annotations

import hashlib
import socket
from pathlib import Path

import pytest

from tidemill.broker import jars
from tidemill.broker.server import KAFKA_VERSION, LOCK
from tidemill.errors import JobError, TidemillError, UsageError

CONTENT = b"not a real jar, but these bytes"
SUM = hashlib.sha256(CONTENT).hexdigest()
OTHER_SUM = hashlib.sha256(b"something else").hexdigest()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIDEMILL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "jars"


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")


def write_lock(directory: Path, *lines: str) -> Path:
    lock = directory / "test.lock"
    lock.write_text("# a comment\n\n" + "".join(f"{line}\n" for line in lines))
    return lock


def put(path: Path, content: bytes = CONTENT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def code_of(caught: pytest.ExceptionInfo[TidemillError]) -> str:
    (diagnostic,) = caught.value.diagnostics
    assert "\n" not in diagnostic.message
    return diagnostic.code


# --- without Ivy


def test_kafka_lock_holds_the_version_we_name() -> None:
    locked = jars.read_lock(LOCK)
    assert f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}" in [jar.coordinate for jar in locked]
    assert len({jar.path for jar in locked}) == len(locked) > 40


def test_cached_jars_need_neither_java_nor_network(
    tmp_path: Path, cache: Path, no_java: None
) -> None:
    lock = write_lock(tmp_path, f"g.h:a:1.0 {SUM}  # why", f"g.h:b:2:linux {SUM}")
    paths = [put(cache / "g.h" / "a-1.0.jar"), put(cache / "g.h" / "b-2-linux.jar")]
    assert jars.fetch(lock, note=pytest.fail) == paths


def test_missing_jar_without_java_says_so(tmp_path: Path, no_java: None) -> None:
    with pytest.raises(JobError) as caught:
        jars.fetch(write_lock(tmp_path, f"g:a:1 {SUM}"))
    assert code_of(caught) == "SETUP-001"


def test_cache_that_cannot_be_written_is_named(tmp_path: Path, cache: Path) -> None:
    put(cache.parent, b"a file where the directory should be")
    with pytest.raises(JobError) as caught:
        jars.fetch(write_lock(tmp_path, f"g:a:1 {SUM}"))
    assert code_of(caught) == "SETUP-009"


@pytest.mark.parametrize(
    "line",
    [
        "g:a:1",
        f"g:a {SUM}",
        f"g:a:1:x:y {SUM}",
        "g:a:1 abc",
        f"g:a:1 {SUM.upper()}",
        f"g:a:../../1 {SUM}",
        f"g:a:1@ {SUM}",
        f"g:a:1@../zip {SUM}",
    ],
)
def test_malformed_lock_line_is_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(UsageError) as caught:
        jars.fetch(write_lock(tmp_path, line))
    assert code_of(caught) == "SETUP-007"


def test_proxy_of_the_environment_is_given_to_java(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    assert jars._proxy_properties() == [
        "-Dhttps.proxyHost=proxy.example",
        "-Dhttps.proxyPort=3128",
    ]


# --- with Ivy, on repositories of this machine


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Maven repository in a directory, made known the way a company makes its own known."""
    root = tmp_path / "repository"
    root.mkdir()
    settings(tmp_path, monkeypatch, f"{root.as_uri()}/")
    return root


def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: str) -> None:
    path = tmp_path / "ivysettings.xml"
    path.write_text(
        '<ivysettings><settings defaultResolver="own"/><resolvers>'
        f'<ibiblio name="own" m2compatible="true" usepoms="false" root="{root}"/>'
        "</resolvers></ivysettings>"
    )
    monkeypatch.setenv("TIDEMILL_IVY_SETTINGS", str(path))


@pytest.mark.kafka
def test_missing_jars_are_fetched_once(
    tmp_path: Path, repository: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(repository / "g/h/a/1.0/a-1.0.jar")
    put(repository / "g/h/b/2/b-2-linux.jar")
    put(repository / "g/h/b/2/b-2-sources.jar")
    put(repository / "g/h/c/3/c-3-all.tar.gz")
    lock = write_lock(
        tmp_path, f"g.h:a:1.0 {SUM}", f"g.h:b:2:linux {SUM}", f"g.h:c:3:all@tar.gz {SUM}"
    )
    damaged = put(cache / "g.h" / "a-1.0.jar", CONTENT[:5])
    notes: list[str] = []
    expected = [damaged, cache / "g.h" / "b-2-linux.jar", cache / "g.h" / "c-3-all.tar.gz"]
    assert jars.fetch(lock, notes.append) == expected
    assert notes == [f"fetching 3 jars of test (once; cached in {cache})"]
    assert [path.read_bytes() for path in expected] == [CONTENT] * 3
    assert {p for p in cache.rglob("*") if p.is_file()} == set(expected)

    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert jars.fetch(lock, notes.append) == expected
    assert len(notes) == 1


@pytest.mark.kafka
def test_wrong_checksum_is_refused_and_not_cached(
    tmp_path: Path, repository: Path, cache: Path
) -> None:
    put(repository / "g/a/1/a-1.jar")
    put(repository / "g/b/1/b-1.jar")
    with pytest.raises(JobError) as caught:
        jars.fetch(write_lock(tmp_path, f"g:a:1 {SUM}", f"g:b:1 {OTHER_SUM}"))
    assert code_of(caught) == "SETUP-006"
    assert f"g:b:1 has SHA-256 {SUM}, but the lock says {OTHER_SUM}" in str(caught.value)
    assert list(cache.iterdir()) == []


@pytest.mark.kafka
def test_jar_that_the_repository_lacks_is_named(tmp_path: Path, repository: Path) -> None:
    with pytest.raises(JobError) as caught:
        jars.fetch(write_lock(tmp_path, f"g.h:absent:1 {SUM}"))
    assert code_of(caught) == "SETUP-005"
    assert "no jar g.h:absent:1" in str(caught.value)


@pytest.mark.kafka
def test_repository_out_of_reach_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        settings(tmp_path, monkeypatch, f"http://127.0.0.1:{closed.getsockname()[1]}/")
        with pytest.raises(JobError) as caught:
            jars.fetch(write_lock(tmp_path, f"g:a:1 {SUM}"))
    assert code_of(caught) == "SETUP-004"
    assert "out of reach (ConnectException: Connection refused)" in str(caught.value)
    assert "connect to the network once" in str(caught.value)


def test_settings_file_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMILL_IVY_SETTINGS", str(tmp_path / "gone.xml"))
    with pytest.raises(UsageError) as caught:
        jars.fetch(write_lock(tmp_path, f"g:a:1 {SUM}"))
    assert code_of(caught) == "SETUP-010"


@pytest.mark.kafka
def test_lock_is_written_with_all_that_a_jar_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "repository"
    settings(tmp_path, monkeypatch, f"{root.as_uri()}/")
    path = tmp_path / "ivysettings.xml"
    path.write_text(path.read_text().replace('usepoms="false"', 'usepoms="true"'))
    head = "<project><modelVersion>4.0.0</modelVersion><groupId>g</groupId><version>1</version>"
    needs = "<dependency><groupId>g</groupId><artifactId>b</artifactId><version>1</version>"
    put(
        root / "g/a/1/a-1.pom",
        f"{head}<artifactId>a</artifactId><dependencies>{needs}</dependency>"
        "</dependencies></project>".encode(),
    )
    put(root / "g/b/1/b-1.pom", f"{head}<artifactId>b</artifactId></project>".encode())
    put(root / "g/a/1/a-1.jar")
    put(root / "g/b/1/b-1.jar")
    assert jars.main(["lock", "g:a:1"]) == 0
    lock = tmp_path / "new.lock"
    lock.write_text(capsys.readouterr().out)
    assert [(j.coordinate, j.sha256) for j in jars.read_lock(lock)] == [
        ("g:a:1", SUM),
        ("g:b:1", SUM),
    ]


def test_command_without_arguments_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert jars.main([]) == 2
    assert "fetch LOCK" in capsys.readouterr().err

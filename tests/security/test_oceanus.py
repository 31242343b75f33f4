"""Oceanus' manual against brokers that refuse: its example with the WITH options of both of its sections on security,
with its advanced parameters as `--job-config` and its program package as `--package`."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.manuals import vendor
from tidemill.broker import Security, start, topics
from tidemill.broker.records import Record

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

COMMAND = Path(sys.executable).with_name("tidemill")
GIVEN = [Record('{"id": 1, "name": "李雷"}'.encode()), Record(b'{"id": 1, "name": "Lei"}')]
EXPECTED = [
    (b'{"id":1}', '{"id":1,"name":"李雷"}'.encode()),
    (b'{"id":1}', b'{"id":1,"name":"Lei"}'),
]


def example(bootstrap: str, security: str) -> str:
    """The example of the manual, its addresses filled in and the options of a section added to both tables."""
    text = vendor("oceanus: the example")
    for address in ("'172.28.28.13:9092'", "'...'"):
        key = "'properties.bootstrap.servers' = "
        assert text.count(key + address) == 1
        text = text.replace(key + address, f"{vendor(security).strip()}\n  {key}'{bootstrap}'")
    return text


def run(place: Path, script: str, admin: Mapping[str, str], *arguments: str) -> None:
    """Run the script as a user does, write when it is ready, and wait for what comes out."""
    address = admin["bootstrap.servers"]
    for topic in ("Data-Input", "topic"):
        topics.ensure(address, topic, client=admin)
    before = len(list(topics.read(address, "topic", client=admin)))
    (place / "job.sql").write_text(script, encoding="utf-8")
    errors = place / "stderr"
    with errors.open("wb") as stderr:
        job = subprocess.Popen(
            [COMMAND, "run", "job.sql", *arguments],
            cwd=place,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,
            env={**os.environ, "TIDEMILL_HOME": str(place / "home")},
        )

    def wait_for(condition: Any) -> None:
        end = time.monotonic() + 90
        while not condition():
            assert job.poll() is None and time.monotonic() < end, errors.read_text("utf-8")
            time.sleep(0.2)

    def written() -> list[tuple[bytes | None, bytes | None]]:
        return [(r.key, r.value) for r in topics.read(address, "topic", client=admin)][before:]

    try:
        wait_for(lambda: "\nready\n" in errors.read_text("utf-8"))
        topics.write(address, "Data-Input", GIVEN, client=admin)
        wait_for(lambda: len(written()) >= len(EXPECTED))
        assert written() == EXPECTED
        os.killpg(job.pid, signal.SIGINT)
        assert job.wait(60) == 0, errors.read_text("utf-8")
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()


def test_sasl_plain_with_the_user_of_an_instance(sasl_plaintext: Any, tmp_path: Path) -> None:
    script = example(sasl_plaintext.bootstrap, "oceanus: SASL/PLAIN")
    assert 'username="ckafka-xxxxxxxx#YourUserName" password="YourPassword"' in script
    run(tmp_path, script, sasl_plaintext.admin)
    assert "YourPassword" not in (tmp_path / "stderr").read_text("utf-8")


CLIENT = "hadoop/172.28.2.13"
"""The principal of the manual's advanced parameters."""


@pytest.fixture
def emr(kdc: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A broker whose service is called hadoop, as that of the manual is."""
    asked = Security(mechanisms=("GSSAPI",), kdc=kdc.address, keytab=kdc.keytab("hadoop/localhost"))
    broker = start(tmp_path_factory.mktemp("emr"), port=0, security=asked)
    yield broker
    broker.stop()


def packed(place: Path, kdc: Any) -> Path:
    """The jar of the manual: `jar cvf kafka-xxx.jar krb5.conf emr.keytab`."""
    jar = place / "kafka-xxx.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n\n")
        archive.write(kdc.keytab(CLIENT), "emr.keytab")
        archive.write(kdc.conf, "krb5.conf")
    return jar


def advanced(place: Path) -> Path:
    text = vendor("oceanus: advanced parameters")
    assert f"principal: {CLIENT}@EMR-4K3VR5FD\n" in text
    path = place / "advanced.txt"
    path.write_text(text + "\n", encoding="utf-8")
    return path


def test_kerberos_with_the_advanced_parameters_and_the_program_package(
    kdc: Any, emr: Any, tmp_path: Path
) -> None:
    script = example(f"localhost:{emr.port}", "oceanus: SASL/GSSAPI")
    config, jar = advanced(tmp_path), packed(tmp_path, kdc)
    run(tmp_path, script, emr.admin, "--job-config", str(config), "--package", str(jar))
    told = (tmp_path / "stderr").read_text("utf-8")
    # One of the five is of a file system, and is said to be ignored.
    assert "fs.hdfs.hadoop.security.authentication" in told


def test_kerberos_with_the_files_beside_the_parameters(kdc: Any, emr: Any, tmp_path: Path) -> None:
    script = example(f"localhost:{emr.port}", "oceanus: SASL/GSSAPI")
    config = advanced(tmp_path)
    shutil.copy(kdc.keytab(CLIENT), tmp_path / "emr.keytab")
    shutil.copy(kdc.conf, tmp_path / "krb5.conf")
    run(tmp_path, script, emr.admin, "--job-config", str(config))

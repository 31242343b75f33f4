"""Kerberos as Oceanus describes it, against a real KDC: its blocks of options and of parameters."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness.java import SHORT_LIVED
from harness.kdc import REALM, Kdc
from tidemill import Session
from tidemill.errors import JobError, TidemillError

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

COMMAND = Path(sys.executable).with_name("tidemill")

# As the manual prints them; the principal and the service are those of the brokers here.
OPTIONS = """
  'properties.security.protocol' = 'SASL_PLAINTEXT',
  'properties.sasl.mechanism' = 'GSSAPI',
  'properties.sasl.kerberos.service.name' = 'kafka'"""
PARAMETERS = f"""security.kerberos.login.principal: kafka/172.28.2.13@{REALM}
security.kerberos.login.keytab: emr.keytab
security.kerberos.login.conf: krb5.conf
security.kerberos.login.contexts: KafkaClient
fs.hdfs.hadoop.security.authentication: kerberos
"""
ROWS = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]


@dataclass
class Place:
    """A directory with what Oceanus' manual collects in its first steps, and a table to read and one to write."""

    broker: Any
    directory: Path
    source: str
    sink: str
    environment: dict[str, str] = field(default_factory=dict)

    def script(self, options: str = OPTIONS, before: str = "") -> str:
        address = f"'properties.bootstrap.servers' = '{self.broker.bootstrap}'"
        return f"""{before}
CREATE TABLE `kafka_json_source_table` (`id` INT, `name` STRING) WITH (
  'connector' = 'kafka', 'topic' = '{self.source}', 'scan.startup.mode' = 'earliest-offset',
  'properties.group.id' = 'testGroup', {address}, 'format' = 'json',{options});
CREATE TABLE kafka_upsert_sink_table (id INT, name STRING, PRIMARY KEY (id) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = '{self.sink}', {address},
  'key.format' = 'json', 'value.format' = 'json',{options});
INSERT INTO kafka_upsert_sink_table SELECT * FROM kafka_json_source_table;
"""

    def parameters(self, text: str = PARAMETERS) -> Path:
        path = self.directory / "job.conf"
        path.write_text(text)
        return path

    def run(
        self, *arguments: str | Path, script: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """The command, bounded, with temporary files in a directory of its own."""
        path = self.directory / "job.sql"
        path.write_text(script or self.script())
        temporary = self.directory / "tmp"
        temporary.mkdir(exist_ok=True)
        return subprocess.run(
            [COMMAND, "run", path, "--bounded", "--master", "local[1]", *arguments],
            capture_output=True,
            text=True,
            timeout=240,
            cwd=temporary,
            env={**os.environ, "TMPDIR": str(temporary), **self.environment},
            check=False,
        )

    @property
    def left_over(self) -> list[Path]:
        """Of what was taken out of packages."""
        return list((self.directory / "tmp").rglob("tidemill-package-*"))

    def written(self) -> list[Any]:
        return sorted((json.loads(r.value) for r in self.broker.consume(self.sink)), key=str)


@pytest.fixture
def place(kerberos: Any, kdc: Kdc, topic_name: Callable[..., str], tmp_path: Path) -> Place:
    source, sink = topic_name("in"), topic_name("out")
    kerberos.create(source)
    kerberos.create(sink)
    kerberos.produce(source, *(json.dumps(row) for row in ROWS))
    shutil.copy(kdc.conf, tmp_path / "krb5.conf")
    shutil.copy(kdc.keytab("kafka/172.28.2.13"), tmp_path / "emr.keytab")
    return Place(kerberos, tmp_path, source, sink)


# --- the command ---------------------------------------------------------------------------------


def test_parameters_of_the_console_with_the_files_beside_them(place: Place) -> None:
    done = place.run("--job-config", place.parameters())
    assert done.returncode == 0, done.stderr
    assert place.written() == ROWS
    assert (
        "notice OPT-084: 'fs.hdfs.hadoop.security.authentication' is accepted and ignored"
        in done.stderr
    )
    assert "warning" not in done.stderr


def test_files_in_a_package_as_the_manual_packs_them(place: Place) -> None:
    """What the command line sets beats the file."""
    config = place.directory / "elsewhere" / "job.conf"
    config.parent.mkdir()
    config.write_text(PARAMETERS.replace("kafka/172.28.2.13", "nobody").replace("emr.", "no."))
    package = place.directory / "kafka-xxx.jar"
    with zipfile.ZipFile(package, "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
        for name in ("krb5.conf", "emr.keytab"):
            jar.write(place.directory / name, name)
    login = "security.kerberos.login"
    settings = (
        f"--set={login}.principal=kafka/172.28.2.13@{REALM}",
        f"--set={login}.keytab=emr.keytab",
    )
    done = place.run("--job-config", config, "--package", package, *settings)
    assert done.returncode == 0, done.stderr
    assert place.written() == ROWS
    assert place.left_over == []


def test_a_ticket_of_kinit_by_parameters_of_the_command_line(place: Place, kdc: Kdc) -> None:
    cache = place.directory / "tickets"
    principal = f"kafka/172.28.2.13@{REALM}"
    kdc.run("kinit", "-c", str(cache), "-kt", str(place.directory / "emr.keytab"), principal)
    place.environment["KRB5CCNAME"] = f"FILE:{cache}"
    given = {
        "principal": principal,
        "conf": place.directory / "krb5.conf",
        "contexts": "KafkaClient",
    }
    settings = [f"--set=security.kerberos.login.{key}={value}" for key, value in given.items()]
    done = place.run(*settings)
    assert done.returncode == 0, done.stderr
    assert place.written() == ROWS


# --- sessions on the Spark of the run: one JVM, so one krb5.conf ----------------------------------


def finish(session: Session, script: str) -> None:
    for job in session.execute(script):
        assert not isinstance(job, str)
        job.wait()
        failure = job.failure()
        if failure is not None:
            raise failure


def refused(session: Session, script: str) -> JobError:
    began = time.monotonic()
    with session, pytest.raises(JobError) as error:
        finish(session, script)
    assert time.monotonic() - began < 15
    return error.value


@pytest.mark.parametrize("conf", ["krb5-conf.path", "login.conf"])
def test_settings_by_set(place: Place, spark: Any, conf: str) -> None:
    settings = "".join(
        f"SET '{key}' = '{value}';\n"
        for key, value in {
            "security.kerberos.login.principal": f"kafka/172.28.2.13@{REALM}",
            "security.kerberos.login.keytab": str(place.directory / "emr.keytab"),
            f"security.kerberos.{conf}": str(place.directory / "krb5.conf"),
            "security.kerberos.login.contexts": "Client,KafkaClient",
        }.items()
    )
    with Session(spark, bounded=True) as session:
        finish(session, place.script(before=settings))
        assert [w.code for w in session.environment.warnings] == ["OPT-076"]
    assert place.written() == ROWS


def test_a_package_given_to_a_session(place: Place, spark: Any, tmp_path: Path) -> None:
    package = tmp_path / "kafka-xxx.jar"
    with zipfile.ZipFile(package, "w") as jar:
        jar.write(place.directory / "krb5.conf", "krb5.conf")
        jar.write(place.directory / "emr.keytab", "emr.keytab")
    for name in ("krb5.conf", "emr.keytab"):
        (place.directory / name).unlink()
    with Session(spark, bounded=True, job_config=place.parameters(), packages=[package]) as session:
        finish(session, place.script())
    assert place.written() == ROWS


def test_another_principal_than_the_services_is_warned_of_and_runs(
    place: Place, spark: Any, kdc: Kdc
) -> None:
    shutil.copy(kdc.keytab("orders"), place.directory / "emr.keytab")
    config = place.parameters(PARAMETERS.replace("kafka/172.28.2.13", "orders"))
    with Session(spark, bounded=True, job_config=config) as session:
        finish(session, place.script())
        warnings = [w for w in session.environment.warnings if w.severity == "warning"]
    assert {w.code for w in warnings} == {"OPT-075"}
    assert "is 'kafka', and the principal's first part is 'orders'" in warnings[0].message
    assert place.written() == ROWS


def test_a_service_that_is_not_there_is_refused(place: Place, spark: Any) -> None:
    session = Session(spark, bounded=True, job_config=place.parameters())
    error = refused(session, place.script(OPTIONS.replace("'kafka'", "'nobodys'")))
    assert {w.code for w in session.environment.warnings} >= {"OPT-075"}
    assert "RUN-007" in str(error)
    assert place.written() == []


def test_keys_that_are_not_the_principals_any_more_are_refused(
    place: Place, spark: Any, kdc: Kdc
) -> None:
    kdc.keytab("kafka/172.28.2.13", renew=True)
    error = refused(Session(spark, bounded=True, job_config=place.parameters()), place.script())
    assert "RUN-007" in str(error)
    assert place.written() == []


def test_a_principal_that_the_keytab_does_not_have_is_refused(place: Place, spark: Any) -> None:
    config = place.parameters(PARAMETERS.replace("kafka/172.28.2.13", "nobody"))
    error = refused(Session(spark, bounded=True, job_config=config), place.script())
    assert "RUN-007" in str(error)


def test_files_that_are_nowhere_are_told_before_anything_starts(place: Place, spark: Any) -> None:
    (place.directory / "emr.keytab").unlink()
    with (
        Session(spark, job_config=place.parameters()) as session,
        pytest.raises(TidemillError) as error,
    ):
        session.execute(place.script())
    assert "OPT-077" in str(error.value) and str(place.directory) in str(error.value)


def test_another_krb5_conf_in_the_same_process_is_refused(place: Place, spark: Any) -> None:
    with Session(spark, bounded=True, job_config=place.parameters()) as session:
        finish(session, place.script())
    conf = place.directory / "krb5.conf"
    conf.write_text(conf.read_text().replace("rdns = false", "rdns = true"))
    error = refused(Session(spark, bounded=True, job_config=place.parameters()), place.script())
    assert "RUN-029" in str(error) and "one krb5.conf" in str(error)


# --- a cluster -----------------------------------------------------------------------------------

# The job is started, then its files are taken away, and only then is there something to do for a task.
PROGRAM = """
import json, sys, time
from pathlib import Path
from tidemill import Session

given = json.loads(sys.stdin.read())
with Session(
    master="local-cluster[1,1,1024]", job_config=given["config"], conf=given["conf"], checkpoint=given["checkpoint"]
) as session:
    (job,) = session.execute(given["script"])
    session.wait_ready([job])
    for name in given["files"]:
        Path(name).unlink()
    Path(given["gone"]).touch()
    deadline = time.monotonic() + 120
    while job.is_active and time.monotonic() < deadline and not Path(given["done"]).exists():
        time.sleep(0.1)
    print("failure:", job.failure())
    job.stop()
"""


@pytest.mark.slow
def test_the_keytab_and_the_krb5_conf_reach_the_tasks_of_a_cluster(place: Place) -> None:
    gone, done, said = (place.directory / name for name in ("gone", "done", "said"))
    given = {
        "script": place.script(),
        "config": str(place.parameters()),
        "checkpoint": str(place.directory / "checkpoint"),
        "files": [str(place.directory / name) for name in ("emr.keytab", "krb5.conf")],
        "gone": str(gone),
        "done": str(done),
        "conf": {
            "spark.executor.memory": "512m",
            "spark.driver.memory": "512m",
            "spark.driver.extraJavaOptions": SHORT_LIVED,
            "spark.executor.extraJavaOptions": SHORT_LIVED,
            "spark.pyspark.python": sys.executable,
        },
    }
    with said.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=place.directory,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        )
    assert process.stdin is not None
    process.stdin.write(json.dumps(given))
    process.stdin.close()
    more = {"id": 3, "name": "c"}
    try:
        until(lambda: gone.exists() or process.poll() is not None)
        assert gone.exists(), said.read_text()
        place.broker.produce(place.source, json.dumps(more))
        until(lambda: place.written() == [*ROWS, more] or process.poll() is not None)
        done.touch()
        assert process.wait(90) == 0, said.read_text()
    finally:
        process.kill()
        process.wait()
    assert "failure: None" in said.read_text()
    assert place.written() == [*ROWS, more]


def until(condition: Callable[[], bool], seconds: float = 150) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)

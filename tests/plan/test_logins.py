"""Kerberos settings, job configurations, packages and named authentication, as a script is read: no JVM, no secret.

A case of logins.txt is a script; what stands above its line `==` is the file of --job-config. Arguments: `beside` and
`package` name files beside that file and inside a jar, `set` is a --set, `checking` reads as `tidemill check`,
`credentials=none` takes the file of credentials away.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.datadriven import Case, check
from tidemill.errors import Source, TidemillError
from tidemill.plan.environment import Environment, Job, compile_script
from tidemill.sql import parse_script
from tidemill.tables.job_config import Attachments, read_job_config
from tidemill.tables.kafka import TopicTable
from tidemill.tables.logins import Logins

HERE = Path(__file__).parent

CREDENTIALS = """
[my_ssl]
type = "kafka_ssl"
trust_store = "trust.jks"
trust_store_password = "${env:TRUST}"

[lost]
type = "kafka_ssl"
trust_store = "trust.jks"
trust_store_password = "${env:NOT_SET}"

[in_a_file]
type = "kafka_ssl"
trust_store = "${env:STORES}/trust.jks"
trust_store_password = "${file:secret}"

[both_ways]
type = "kafka_ssl"
trust_store = "trust.jks"
trust_store_password = "one"
key_store = "key.jks"
key_store_password = "two"
key_password = "three"

[my_krb]
type = "kerberos"
principal = "orders@EXAMPLE.COM"
keytab = "orders.keytab"
krb5_conf = "krb5.conf"

[other_realm]
type = "kerberos"
principal = "orders@EXAMPLE.ORG"
keytab = "orders.keytab"
krb5_conf = "other.conf"
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("work", "config", "home"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("TIDEMILL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TRUST", "from-a-variable")
    monkeypatch.setenv("STORES", "/stores")
    return tmp_path


def reading(place: Path) -> Callable[[Case], str]:
    def read(case: Case) -> str:
        arguments = case.arguments
        for old in (*(place / "config").iterdir(), *(place / "home").iterdir()):
            old.unlink()
        config, _, script = case.input.rpartition("==\n")
        if arguments.get("credentials") != "none":
            file = place / "home" / "credentials.toml"
            file.touch(mode=0o600)
            file.write_text(CREDENTIALS)
            (place / "home" / "krb5.conf").write_text("one")
            (place / "home" / "other.conf").write_text("other")
            (place / "home" / "secret").write_text("from-a-file${env:TRUST}\n")
        for name in filter(None, arguments.get("beside", "").split(",")):
            (place / "config" / name).write_text("one")
        packages = []
        if "package" in arguments:
            packages.append(place / "config" / "kafka-xxx.jar")
            with zipfile.ZipFile(packages[0], "w") as jar:
                jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
                for name in arguments["package"].split(","):
                    jar.writestr(name, "one")
        path = None
        if config:
            path = place / "config" / "job.conf"
            path.write_text(config)
        found = []
        overrides = dict([arguments["set"].split(":")]) if "set" in arguments else {}
        environment = None
        try:
            environment = Environment(
                overrides=overrides,
                config=read_job_config(path) if path else (),
                logins=Logins.given(None, path, packages, checking="checking" in arguments),
            )
            answers = compile_script(parse_script(Source("t.sql", script)), environment)
            logged_in = [
                f"table {table.name}:{told}"
                for job in answers
                if isinstance(job, Job) and "checking" not in arguments
                for table in job.tables
                if isinstance(table.connector, TopicTable)
                for told in [told_to_client(environment, job, table.connector)]
            ]
            found = logged_in or ["ok"]
        except TidemillError as error:
            found = [f"exit code {error.exit_code}", str(error)]
        warnings = [w.render() for w in environment.warnings] if environment else []
        return "\n".join([*warnings, *found]).replace(str(place), "DIR")

    return read


def told_to_client(environment: Environment, job: Job, connector: TopicTable) -> str:
    """What the kernel is given beside the table's own properties; secrets as the file has them."""
    assert environment.logins is not None
    named = environment.logins.with_named(connector.properties, connector)
    properties = environment.logins.with_kerberos(named, job.settings)
    added = {k: v for k, v in properties.items() if k not in connector.properties}
    environment.logins.close()
    told = "".join(f"\n  {k}: {v}" for k, v in sorted(added.items()))
    return re.sub(r"/[^\s\"]*/tidemill-package-[^/]*/", "UNPACKED/", told) or " as it says itself"


def test_logins(place: Path) -> None:
    check(HERE / "logins.txt", reading(place))


# --- what is taken out of packages ---------------------------------------------------------------


def test_a_file_of_a_package_is_its_owners_alone_and_is_gone_in_the_end(tmp_path: Path) -> None:
    jar = tmp_path / "p.jar"
    with zipfile.ZipFile(jar, "w") as made:
        made.writestr("emr.keytab", b"\x05\x02key")
    attachments = Attachments(None, (jar,))
    path = Path(attachments.path("emr.keytab"))
    assert path.read_bytes() == b"\x05\x02key"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o077 == 0
    assert path.parent.parent.stat().st_mode & 0o077 == 0
    assert attachments.path("emr.keytab") == str(path)
    attachments.close()
    assert not path.exists() and not path.parent.parent.exists()
    again = Path(attachments.path("emr.keytab"))
    assert again.exists()
    del attachments
    assert not again.exists()


def test_a_file_beside_the_configuration_comes_before_one_of_a_package(tmp_path: Path) -> None:
    jar = tmp_path / "p.jar"
    with zipfile.ZipFile(jar, "w") as made:
        made.writestr("emr.keytab", "packed")
    (tmp_path / "emr.keytab").write_text("beside")
    assert Attachments(tmp_path, (jar,)).read("emr.keytab") == b"beside"
    assert Attachments(None, (jar,)).read("emr.keytab") == b"packed"


def test_a_name_of_a_package_cannot_lead_out_of_the_private_directory(tmp_path: Path) -> None:
    jar = tmp_path / "p.jar"
    with zipfile.ZipFile(jar, "w") as made:
        made.writestr("../../evil.keytab", "x")
    attachments = Attachments(None, (jar,))
    path = Path(attachments.path("../../evil.keytab"))
    assert path.name == "evil.keytab"
    assert os.path.commonpath([path, attachments._private or ""]) == str(attachments._private)
    attachments.close()


@pytest.mark.parametrize("content", [None, b"no jar"])
def test_a_package_that_is_none_is_told(tmp_path: Path, content: bytes | None) -> None:
    jar = tmp_path / "p.jar"
    if content is not None:
        jar.write_bytes(content)
    with pytest.raises(TidemillError, match=r"CLI-032: --package .*p\.jar cannot be read") as error:
        Attachments(None, (jar,))
    assert error.value.exit_code == 2


# --- lines of a job's configuration --------------------------------------------------------------


def test_values_of_a_job_configuration(tmp_path: Path) -> None:
    path = tmp_path / "job.conf"
    path.write_text(
        "# comment\n\n"
        "security.kerberos.login.principal: hadoop/172.28.2.13@EMR-4K3VR5FD\n"
        "a: plain value   # behind it a comment\n"
        "b:no space\r\n"
        "c: user#name\n"
        "d: 'it''s # quoted'  # comment\n"
        'e: "x: y"\n'
        "---\n"
        "  f.g-h_i :  1\n"
        "j: host:9092,other:9092"
    )
    assert {o.key: o.value for o in read_job_config(path)} == {
        "security.kerberos.login.principal": "hadoop/172.28.2.13@EMR-4K3VR5FD",
        "a": "plain value",
        "b": "no space",
        "c": "user#name",
        "d": "it's # quoted",
        "e": "x: y",
        "f.g-h_i": "1",
        "j": "host:9092,other:9092",
    }
    assert [o.value_span.text for o in read_job_config(path)][2:4] == ["no space", "user#name"]


def test_a_job_configuration_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(
        TidemillError, match=r"CLI-031: --job-config .*gone cannot be read: No such"
    ):
        read_job_config(tmp_path / "gone")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TidemillError, match="it is not UTF-8"):
        read_job_config(tmp_path / "bytes")


def test_a_wrong_line_with_a_secret_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "job.conf"
    path.write_text("s3.secret-key=hunter2\n'fs.password: 'hunter2' x\nok: 1\n")
    with pytest.raises(TidemillError) as error:
        read_job_config(path)
    assert "hunter2" not in str(error.value)
    assert "line 1 of" in str(error.value) and "line 2 of" in str(error.value)
    path.write_text("my.own.password: hunter2\nparallelism.default: hunter2\n")
    environment_error = None
    try:
        Environment(config=read_job_config(path))
    except TidemillError as raised:
        environment_error = raised
    assert environment_error is not None and environment_error.exit_code == 2
    assert "job.conf:2:22: error OPT-081" in str(environment_error)
    path.write_text("my.own.password: hunter2\n")
    environment = Environment(config=read_job_config(path))
    assert "hunter2" not in "\n".join(w.render() for w in environment.warnings)
    assert [w.code for w in environment.warnings] == ["OPT-080"]

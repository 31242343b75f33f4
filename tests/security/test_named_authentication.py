"""DLI's named authentication against brokers that refuse: entries of a file of credentials, made by `tidemill auth`."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness.kafka import consume, produce
from harness.kdc import REALM, Kdc
from tidemill import Session
from tidemill.broker import topics
from tidemill.cli import cli
from tidemill.errors import JobError

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

COMMAND = Path(sys.executable).with_name("tidemill")
STORE_PASSWORD = "test1234"

# The three records of DLI's example, as it writes them.
ORDERS = [
    {
        "order_id": "202103251202020001",
        "order_channel": "miniAppShop",
        "pay_amount": "60.00",
    },
    {"order_id": "202103251505050001", "order_channel": "qqShop", "pay_amount": "500.00"},
    {
        "order_id": "202103251202020001",
        "order_channel": "miniAppShop",
        "pay_amount": "60.00",
    },
]
BY_ID = {
    "202103251202020001": 60.0,
    "202103251505050001": 500.0,
}


@dataclass
class Names:
    """A file of credentials, and a job between two tables of a broker."""

    spark: Any
    topic: Callable[..., str]
    file: Path

    def add(self, name: str, *arguments: str | Path, passwords: str = "") -> None:
        given = ["auth", "add", name, *map(str, arguments), "--credentials", str(self.file)]
        done = CliRunner().invoke(cli, given, input=passwords, catch_exceptions=False)
        assert done.exit_code == 0, done.output

    def ssl(self, name: str, home: Path, *more: str | Path, passwords: str | None = None) -> None:
        given = passwords if passwords is not None else f"{STORE_PASSWORD}\n" * 3
        self.add(
            name,
            "--type",
            "kafka_ssl",
            "--trust-store",
            home / "truststore.jks",
            *more,
            passwords=given,
        )

    def kerberos(self, name: str, kdc: Kdc, user: str) -> None:
        given = (
            "--principal",
            f"{user}@{REALM}",
            "--keytab",
            kdc.keytab(user),
            "--krb5-conf",
            kdc.conf,
        )
        self.add(name, "--type", "kerberos", *given)

    def topics(self, admin: dict[str, str]) -> tuple[str, str]:
        """One with orders, and one for what becomes of them."""
        servers = admin["bootstrap.servers"]
        source, sink = self.topic("in"), self.topic("out")
        for topic in (source, sink):
            topics.create(servers, topic, 1, client=admin)
        produce(servers, source, *(json.dumps(order) for order in ORDERS), via=admin)
        return source, sink

    def script(self, bootstrap: str, source: str, sink: str, options: str) -> str:
        columns = "order_id string, order_channel string, pay_amount double"
        return f"""
CREATE TABLE orders ({columns}) WITH (
  'connector' = 'kafka', 'topic' = '{source}', 'properties.bootstrap.servers' = '{bootstrap}',
  'properties.group.id' = 'GroupId', 'scan.startup.mode' = 'earliest-offset', "format" = "json",
  {options});
CREATE TABLE UPSERTKAFKASINK ({columns}, PRIMARY KEY (order_id) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = '{sink}', 'properties.bootstrap.servers' = '{bootstrap}',
  'key.format' = 'json', 'value.format' = 'json', {options});
insert into UPSERTKAFKASINK select * from orders;
"""

    def run(
        self,
        bootstrap: str,
        admin: dict[str, str],
        options: str,
        settings: Mapping[str, str] | None = None,
    ) -> dict[str, float]:
        """Orders go through both tables; what comes out, by id."""
        source, sink = self.topics(admin)
        given: dict[str, Any] = {"dialect": "dli", "credentials": self.file, "settings": settings}
        with Session(self.spark, bounded=True, **given) as session:
            for job in session.execute(self.script(bootstrap, source, sink, options)):
                assert not isinstance(job, str)
                job.wait()
                failure = job.failure()
                if failure is not None:
                    raise failure
        return self.written(admin, sink)

    def written(self, admin: dict[str, str], sink: str) -> dict[str, float]:
        records = consume(admin["bootstrap.servers"], sink, admin)
        values = [json.loads(record.value or b"") for record in records]
        return {value["order_id"]: value["pay_amount"] for value in values}

    def refused(self, bootstrap: str, admin: dict[str, str], options: str) -> str:
        began = time.monotonic()
        with pytest.raises(JobError) as error:
            self.run(bootstrap, admin, options)
        assert time.monotonic() - began < 20
        assert STORE_PASSWORD not in str(error.value)
        return str(error.value)


@pytest.fixture
def names(spark: Any, topic_name: Callable[..., str], tmp_path: Path) -> Names:
    return Names(spark, topic_name, tmp_path / "credentials.toml")


def plain(user: str, password: str) -> str:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return f"""'properties.security.protocol' = 'SASL_SSL', 'properties.sasl.mechanism' = 'PLAIN',
  'properties.sasl.jaas.config' = '{module} required username=\\"{user}\\" password=\\"{password}\\";'"""


KERBEROS = "'properties.security.protocol' = '{}', 'properties.sasl.mechanism' = 'GSSAPI'"


# --- kafka_ssl -----------------------------------------------------------------------------------


def test_ssl_by_name(names: Names, mutual_tls: Any) -> None:
    home = mutual_tls.secured.home
    names.ssl("my_ssl", home, "--key-store", home / "users" / "alice.jks")
    options = "'properties.security.protocol' = 'SSL', 'ssl_auth_name' = 'my_ssl'"
    assert names.run(mutual_tls.bootstrap, mutual_tls.admin, options) == BY_ID


def test_sasl_ssl_by_name_with_a_login_of_the_tables_own(names: Names, sasl_ssl: Any) -> None:
    names.ssl("my_ssl", sasl_ssl.secured.home)
    options = f"{plain('xxx', 'xxx')}, 'ssl_auth_name' = 'my_ssl'"
    assert names.run(sasl_ssl.bootstrap, sasl_ssl.admin, options) == BY_ID


def test_a_password_in_a_variable_and_one_in_a_file(
    names: Names, mutual_tls: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRUST_STORE_PASSWORD", STORE_PASSWORD)
    (tmp_path / "secret").write_text(STORE_PASSWORD + "\n")
    home = mutual_tls.secured.home
    places = ("--trust-store-password-env", "TRUST_STORE_PASSWORD")
    places += ("--key-store-password-file", str(tmp_path / "secret"))
    names.ssl("my_ssl", home, "--key-store", home / "users" / "alice.jks", *places, passwords="\n")
    options = "'properties.security.protocol' = 'SSL', 'ssl_auth_name' = 'my_ssl'"
    assert names.run(mutual_tls.bootstrap, mutual_tls.admin, options) == BY_ID


def test_an_unknown_authority_is_refused(
    names: Names, sasl_ssl: Any, other_authority: Path
) -> None:
    names.ssl("my_ssl", other_authority)
    options = f"{plain('xxx', 'xxx')}, 'ssl_auth_name' = 'my_ssl'"
    assert "RUN-007" in names.refused(sasl_ssl.bootstrap, sasl_ssl.admin, options)


def test_a_wrong_password_of_a_store_is_told(names: Names, mutual_tls: Any) -> None:
    home = mutual_tls.secured.home
    names.ssl("my_ssl", home, passwords="not-it-at-all\n")
    options = "'properties.security.protocol' = 'SSL', 'ssl_auth_name' = 'my_ssl'"
    told = names.refused(mutual_tls.bootstrap, mutual_tls.admin, options)
    assert "not-it-at-all" not in told


# --- kerberos ------------------------------------------------------------------------------------


def test_kerberos_by_name(names: Names, kerberos: Any, kdc: Kdc) -> None:
    names.kerberos("my_krb", kdc, "orders-by-name")
    options = f"{KERBEROS.format('SASL_PLAINTEXT')}, 'krb_auth_name' = 'my_krb'"
    assert names.run(kerberos.bootstrap, kerberos.admin, options) == BY_ID


@pytest.mark.parametrize("way", ["kerberos", "kerberos_ssl"])
def test_keys_that_are_not_the_principals_any_more_are_refused(
    request: pytest.FixtureRequest, names: Names, way: str, kdc: Kdc, tmp_path: Path
) -> None:
    broker = request.getfixturevalue(way)
    old = tmp_path / "old.keytab"
    old.write_bytes(kdc.keytab("renewed").read_bytes())
    kdc.keytab("renewed", renew=True)
    login = ("--principal", f"renewed@{REALM}", "--keytab", old, "--krb5-conf", kdc.conf)
    names.add("my_krb", "--type", "kerberos", *login)
    options = f"{KERBEROS.format(broker.secured.protocol)}, 'krb_auth_name' = 'my_krb'"
    if broker.secured.asked.tls:
        names.ssl("my_ssl", broker.secured.home)
        options += f", {SERVICE}, 'ssl_auth_name' = 'my_ssl'"
    told = names.refused(broker.bootstrap, broker.admin, options)
    assert "RUN-007" in told
    assert "the keytab has no key for the principal, or an old one" in told


# The service of kerberos_ssl is not the one that DLI's tables have by default.
SERVICE = "'properties.sasl.kerberos.service.name' = 'hadoop'"


def test_a_trust_store_by_name_with_a_login_of_the_jobs_settings(
    names: Names, kerberos_ssl: Any, kdc: Kdc
) -> None:
    names.ssl("my_ssl", kerberos_ssl.secured.home)
    settings = {
        "security.kerberos.login.principal": f"orders-by-name@{REALM}",
        "security.kerberos.login.keytab": str(kdc.keytab("orders-by-name")),
        "security.kerberos.login.conf": str(kdc.conf),
        "security.kerberos.login.contexts": "KafkaClient",
    }
    options = f"{KERBEROS.format('SASL_SSL')}, {SERVICE}, 'ssl_auth_name' = 'my_ssl'"
    assert names.run(kerberos_ssl.bootstrap, kerberos_ssl.admin, options, settings) == BY_ID


def test_both_names_on_one_table_by_the_command(
    names: Names, kerberos_ssl: Any, kdc: Kdc, tmp_path: Path
) -> None:
    names.ssl("my_ssl", kerberos_ssl.secured.home)
    names.kerberos("my_krb", kdc, "orders-by-name")
    both = "'ssl_auth_name' = 'my_ssl', 'krb_auth_name' = 'my_krb'"
    options = f"{KERBEROS.format('SASL_SSL')}, {SERVICE}, {both}"
    source, sink = names.topics(kerberos_ssl.admin)
    script = tmp_path / "job.sql"
    script.write_text(names.script(kerberos_ssl.bootstrap, source, sink, options))
    flags = ("--bounded", "--dialect", "dli", "--master", "local[1]")
    done = subprocess.run(
        [COMMAND, "run", script, *flags, "--credentials", names.file],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert names.written(kerberos_ssl.admin, sink) == BY_ID
    assert STORE_PASSWORD not in done.stdout + done.stderr

"""DLI's named authentication against brokers that refuse: entries of a file of credentials, made by `tidemill auth`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness.kafka import consume, produce
from harness.kdc import REALM, Kdc
from tidemill import Session
from tidemill.broker import Broker, Security, start, topics
from tidemill.cli import cli
from tidemill.errors import JobError

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

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

    def run(self, bootstrap: str, admin: dict[str, str], options: str) -> dict[str, float]:
        """Orders go through both tables; what comes out, by id."""
        servers = admin["bootstrap.servers"]
        source, sink = self.topic("in"), self.topic("out")
        for topic in (source, sink):
            topics.create(servers, topic, 1, client=admin)
        produce(servers, source, *(json.dumps(order) for order in ORDERS), via=admin)
        columns = "order_id string, order_channel string, pay_amount double"
        with Session(self.spark, bounded=True, dialect="dli", credentials=self.file) as session:
            for job in session.execute(f"""
CREATE TABLE orders ({columns}) WITH (
  'connector' = 'kafka', 'topic' = '{source}', 'properties.bootstrap.servers' = '{bootstrap}',
  'properties.group.id' = 'GroupId', 'scan.startup.mode' = 'earliest-offset', "format" = "json",
  {options});
CREATE TABLE UPSERTKAFKASINK ({columns}, PRIMARY KEY (order_id) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = '{sink}', 'properties.bootstrap.servers' = '{bootstrap}',
  'key.format' = 'json', 'value.format' = 'json', {options});
insert into UPSERTKAFKASINK select * from orders;
"""):
                assert not isinstance(job, str)
                job.wait()
                failure = job.failure()
                if failure is not None:
                    raise failure
        values = [json.loads(record.value or b"") for record in consume(servers, sink, admin)]
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


def test_keys_that_are_not_the_principals_any_more_are_refused(
    names: Names, kerberos: Any, kdc: Kdc, tmp_path: Path
) -> None:
    old = tmp_path / "old.keytab"
    old.write_bytes(kdc.keytab("renewed").read_bytes())
    kdc.keytab("renewed", renew=True)
    principal = f"renewed@{REALM}"
    names.add(
        "my_krb",
        "--type",
        "kerberos",
        "--principal",
        principal,
        "--keytab",
        old,
        "--krb5-conf",
        kdc.conf,
    )
    options = f"{KERBEROS.format('SASL_PLAINTEXT')}, 'krb_auth_name' = 'my_krb'"
    assert "RUN-007" in names.refused(kerberos.bootstrap, kerberos.admin, options)


@pytest.fixture(scope="module")
def kerberos_ssl(kdc: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """SASL_SSL with GSSAPI."""
    asked = Security(
        tls=True,
        mechanisms=("GSSAPI",),
        store_password=STORE_PASSWORD,
        kdc=kdc.address,
        keytab=kdc.keytab("hadoop/localhost"),
    )
    broker = start(tmp_path_factory.mktemp("kerberos_ssl"), port=0, security=asked)
    yield broker
    broker.stop()


def test_both_names_on_one_table(names: Names, kerberos_ssl: Broker, kdc: Kdc) -> None:
    assert kerberos_ssl.secured is not None
    names.ssl("my_ssl", kerberos_ssl.secured.home)
    names.kerberos("my_krb", kdc, "orders-by-name")
    both = "'ssl_auth_name' = 'my_ssl', 'krb_auth_name' = 'my_krb'"
    service = "'properties.sasl.kerberos.service.name' = 'hadoop'"
    options = f"{KERBEROS.format('SASL_SSL')}, {service}, {both}"
    address = f"localhost:{kerberos_ssl.port}"
    assert names.run(address, kerberos_ssl.admin, options) == BY_ID

"""Every way to log in × right and wrong credentials × a table that is read and one that is written."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from guarded import READ, WRITE, Proxy, counted, refusal, run

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"

# The broker, by its fixture, and the mechanism.
WAYS = [
    ("sasl_plaintext", "PLAIN"),
    ("sasl_plaintext", "SCRAM-SHA-256"),
    ("sasl_plaintext", "SCRAM-SHA-512"),
    ("sasl_plaintext", "OAUTHBEARER"),
    ("sasl_ssl", "PLAIN"),
    ("sasl_ssl", "SCRAM-SHA-256"),
    ("sasl_ssl", "SCRAM-SHA-512"),
    ("mutual_tls", None),
    ("kerberos", "GSSAPI"),
    ("kerberos_ssl", "GSSAPI"),
]
NAMES = [f"{broker}-{mechanism or 'certificate'}" for broker, mechanism in WAYS]
# What the refusal of wrong credentials is about.
SAID = {None: "refused our certificate", "GSSAPI": "keytab"}


def table(topic: str, options: str) -> str:
    return (
        f"CREATE TABLE t (n INT) WITH ('connector' = 'kafka', 'topic' = '{topic}', 'format' = 'json',"
        f" 'scan.startup.mode' = 'earliest-offset', {options});\n"
    )


@pytest.fixture
def krb5_conf(request: pytest.FixtureRequest, spark: Any, mechanism: str | None) -> None:
    """The JVM of this run logs in at the test's KDC."""
    if mechanism == "GSSAPI":
        conf = request.getfixturevalue("kdc").conf
        spark._jvm.java.lang.System.setProperty("java.security.krb5.conf", str(conf))
        spark._jvm.sun.security.krb5.Config.refresh()


@pytest.fixture
def right(request: pytest.FixtureRequest, way: str, mechanism: str | None) -> str:
    return str(request.getfixturevalue(way).table_options(mechanism))


@pytest.fixture
def proxy(request: pytest.FixtureRequest, way: str) -> Iterator[Proxy]:
    with counted(request.getfixturevalue(way).broker.port) as proxy:
        yield proxy


@pytest.fixture
def wrong(
    request: pytest.FixtureRequest, way: str, mechanism: str | None, proxy: Proxy, tmp_path: Path
) -> str:
    """Options of a client that knocks at the proxy, by the name of the broker's host."""
    broker = request.getfixturevalue(way)
    host = broker.bootstrap.partition(":")[0]
    changes = {"bootstrap.servers": f"{host}:{proxy.port}"}
    if mechanism is None:
        other = request.getfixturevalue("other_authority") / "users" / "alice.jks"
        changes["ssl.keystore.location"] = str(other)
        return str(broker.table_options(mechanism, changes=changes))
    if mechanism == "OAUTHBEARER":
        # A token of somebody whom it does not name as the broker wants it.
        line = f'{OAUTH} required unsecuredLoginPrincipalClaimName="who" unsecuredLoginStringClaim_who="alice";'
        changes["sasl.jaas.config"] = line
        return str(broker.table_options(mechanism, changes=changes))
    if mechanism == "GSSAPI":
        # Its keys were renewed since.
        old = shutil.copy(broker.kdc.keytab("mallory"), tmp_path / "old.keytab")
        broker.kdc.keytab("mallory", renew=True)
        return str(broker.table_options(mechanism, "mallory", str(old), changes))
    return str(broker.table_options(mechanism, password="not-this-one", changes=changes))


@pytest.mark.parametrize(("way", "mechanism"), WAYS, ids=NAMES)
@pytest.mark.usefixtures("krb5_conf")
class TestWay:
    def test_right_credentials_of_a_sink(
        self,
        request: pytest.FixtureRequest,
        spark: Any,
        way: str,
        right: str,
        topic_name: Callable[..., str],
    ) -> None:
        broker, topic = request.getfixturevalue(way), topic_name()
        broker.create(topic)
        run(spark, table(topic, right) + WRITE)
        assert [record.value for record in broker.consume(topic)] == [b'{"n":1}']

    def test_right_credentials_of_a_source(
        self,
        request: pytest.FixtureRequest,
        spark: Any,
        way: str,
        right: str,
        topic_name: Callable[..., str],
    ) -> None:
        broker, topic = request.getfixturevalue(way), topic_name()
        broker.create(topic)
        broker.produce(topic, '{"n": 1}', '{"n": 2}')
        assert run(spark, table(topic, right) + READ) == ['{"n":1}', '{"n":2}']

    @pytest.mark.parametrize("statement", [READ, WRITE], ids=["source", "sink"])
    def test_wrong_credentials(
        self,
        spark: Any,
        mechanism: str | None,
        wrong: str,
        proxy: Proxy,
        topic_name: Callable[..., str],
        statement: str,
    ) -> None:
        told = refusal(spark, table(topic_name(), wrong) + statement)
        assert told.code == "RUN-007"
        assert SAID.get(mechanism, f"refused a login by {mechanism}") in told.message
        assert proxy.connections <= 3

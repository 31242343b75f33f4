"""TLS: who gets in, and what each kind of refusal says."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from guarded import READ, WRITE, counted, refusal, run

from harness.manuals import manual
from tidemill.broker import Broker, Security, security, start
from tidemill.broker.java import keytool
from tidemill.broker.server import KAFKA_VERSION

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

Names = Callable[..., str]


def table(topic: str, options: str) -> str:
    return (
        f"CREATE TABLE t (n INT) WITH ('connector' = 'kafka', 'topic' = '{topic}', 'format' = 'json',"
        f" 'scan.startup.mode' = 'earliest-offset', {options});\n"
    )


def written(properties: dict[str, str]) -> str:
    return ", ".join(f"'properties.{k}' = '{v}'" for k, v in properties.items())


# --- the broker's certificate --------------------------------------------------------------------


@pytest.mark.parametrize("statement", [READ, WRITE], ids=["source", "sink"])
def test_an_authority_that_is_not_known(
    spark: Any, sasl_ssl: Any, other_authority: Path, topic_name: Names, statement: str
) -> None:
    with counted(sasl_ssl.broker.port) as proxy:
        changes = {
            "bootstrap.servers": proxy.bootstrap,
            "ssl.truststore.location": str(other_authority / "truststore.jks"),
        }
        script = table(topic_name(), sasl_ssl.table_options("PLAIN", changes=changes))
        told = refusal(spark, script + statement)
        assert told.code == "RUN-007"
        assert told.message.startswith(
            f"table 't': looking up topics: the certificate of the broker at {proxy.bootstrap} is of an authority that"
            " is not trusted here: "
        )
        assert "properties.ssl.truststore.location" in (told.hint or "")
        time.sleep(1)
        assert proxy.connections <= 3


def test_no_trust_store_at_all(spark: Any, sasl_ssl: Any, topic_name: Names) -> None:
    changes = {"ssl.truststore.location": None, "ssl.truststore.password": None}
    told = refusal(
        spark, table(topic_name(), sasl_ssl.table_options("PLAIN", changes=changes)) + READ
    )
    assert told.code == "RUN-007"
    assert "is of an authority that is not trusted here" in told.message


@pytest.fixture(scope="module")
def expired_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A broker whose certificate its authority has signed for days that are over."""
    place = tmp_path_factory.mktemp("expired_broker")
    asked = Security(tls=True, users={"alice": None}, store_password="test1234")
    (place / "version").write_text(f"{KAFKA_VERSION}\n")
    security.prepare(place, asked, is_new=True)
    home = place / "security"
    own = ("-keystore", home / "ca.p12", "-storetype", "PKCS12", "-storepass:env", "CA")
    keytool("-delete", "-alias", "broker", *own, secrets={"CA": (home / "ca.password").read_text()})
    (home / "broker.p12").unlink()
    authority, names = security.Authority(home), "ip:127.0.0.1,dns:localhost"
    authority.issue("broker", security.BROKER, home / "broker.p12", san=names, days=(-10, -5))
    broker = start(place, port=0, security=asked)
    yield broker
    broker.stop()


@pytest.mark.parametrize("statement", [READ, WRITE], ids=["source", "sink"])
def test_a_certificate_whose_days_are_over(
    spark: Any, expired_broker: Any, topic_name: Names, statement: str
) -> None:
    home = expired_broker.data / "security"
    with counted(expired_broker.port) as proxy:
        properties = {
            "bootstrap.servers": proxy.bootstrap,
            "security.protocol": "SSL",
            "ssl.truststore.location": str(home / "truststore.jks"),
            "ssl.truststore.password": "test1234",
            "ssl.keystore.location": str(home / "users" / "alice.jks"),
            "ssl.keystore.password": "test1234",
        }
        told = refusal(spark, table(topic_name(), written(properties)) + statement)
        assert told.code == "RUN-007"
        broker = f"the broker at {proxy.bootstrap}"
        assert f"the certificate of {broker} has expired: NotAfter: " in told.message
        assert "clock" in (told.hint or "")
        time.sleep(1)
        assert proxy.connections <= 3


@pytest.mark.parametrize(
    ("way", "mechanism"), [("sasl_ssl", "SCRAM-SHA-256"), ("mutual_tls", None)]
)
def test_a_certificate_for_another_host(
    request: pytest.FixtureRequest,
    spark: Any,
    topic_name: Names,
    way: str,
    mechanism: str | None,
) -> None:
    broker, topic = request.getfixturevalue(way), topic_name()
    broker.create(topic)
    with counted(broker.broker.port, "127.0.0.2") as proxy:
        changes = {"bootstrap.servers": proxy.bootstrap}
        script = table(topic, broker.table_options(mechanism, changes=changes))
        for statement in (READ, WRITE):
            told = refusal(spark, script + statement)
            assert told.code == "RUN-007"
            another = f"the certificate of the broker at {proxy.bootstrap} is for another host"
            assert another in told.message
            assert "'properties.ssl.endpoint.identification.algorithm' = ''" in (told.hint or "")
        # As the manuals have it for those who know.
        changes["ssl.endpoint.identification.algorithm"] = ""
        script = table(topic, broker.table_options(mechanism, changes=changes))
        run(spark, script + WRITE)
        assert run(spark, script + READ) == ['{"n":1}']


# --- the client's certificate --------------------------------------------------------------------


def test_a_client_without_a_certificate(spark: Any, mutual_tls: Any, topic_name: Names) -> None:
    with counted(mutual_tls.broker.port) as proxy:
        keys = ("ssl.keystore.location", "ssl.keystore.password", "ssl.key.password")
        changes = {"bootstrap.servers": proxy.bootstrap, **dict.fromkeys(keys)}
        told = refusal(spark, table(topic_name(), mutual_tls.table_options(changes=changes)) + READ)
        assert told.code == "RUN-007"
        assert (
            f"the broker at {proxy.bootstrap} refused a client without a certificate"
            in told.message
        )
        assert "'properties.ssl.keystore.location'" in (told.hint or "")
        time.sleep(1)
        assert proxy.connections <= 4


@pytest.mark.parametrize("statement", [READ, WRITE], ids=["source", "sink"])
def test_a_client_whose_certificate_is_of_another_authority(
    spark: Any, mutual_tls: Any, other_authority: Path, topic_name: Names, statement: str
) -> None:
    changes = {"ssl.keystore.location": str(other_authority / "users" / "alice.jks")}
    script = table(topic_name(), mutual_tls.table_options(changes=changes))
    told = refusal(spark, script + statement)
    assert told.code == "RUN-007"
    assert f"the broker at {mutual_tls.bootstrap} refused our certificate: " in told.message
    assert "'properties.ssl.keystore.location'" in (told.hint or "")


@pytest.mark.parametrize("statement", [READ, WRITE], ids=["source", "sink"])
def test_a_client_whose_certificate_has_expired(
    spark: Any, mutual_tls: Any, expired_key_store: Path, topic_name: Names, statement: str
) -> None:
    """The broker says no more than that it does not want it: its days are read here."""
    with counted(mutual_tls.broker.port) as proxy:
        changes = {
            "bootstrap.servers": proxy.bootstrap,
            "ssl.keystore.location": str(expired_key_store),
        }
        told = refusal(
            spark, table(topic_name(), mutual_tls.table_options(changes=changes)) + statement
        )
        assert told.code == "RUN-007"
        refused = f"the broker at {proxy.bootstrap} refused our certificate, which has expired"
        assert f"{refused}: NotAfter: " in told.message
        assert "'properties.ssl.keystore.location'" in (told.hint or "")
        time.sleep(1)
        assert proxy.connections <= 4


# --- protocols that do not fit -------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT", "SSL"])
def test_a_protocol_that_the_listener_does_not_speak(
    spark: Any, sasl_ssl: Any, topic_name: Names, protocol: str
) -> None:
    with counted(sasl_ssl.broker.port) as proxy:
        changes = {"bootstrap.servers": proxy.bootstrap, "security.protocol": protocol}
        told = refusal(
            spark, table(topic_name(), sasl_ssl.table_options("PLAIN", changes=changes)) + READ
        )
        assert told.code == "RUN-007"
        assert f"the broker at {proxy.bootstrap} speaks SASL_SSL (it takes PLAIN, " in told.message
        assert f"'properties.security.protocol' is {protocol}" in told.message
        time.sleep(1)
        assert proxy.connections <= 12


def test_a_plain_client_of_a_listener_that_wants_certificates(
    spark: Any, mutual_tls: Any, topic_name: Names
) -> None:
    changes = {"security.protocol": "PLAINTEXT"}
    told = refusal(spark, table(topic_name(), mutual_tls.table_options(changes=changes)) + READ)
    assert told.code == "RUN-007"
    assert f"the broker at {mutual_tls.bootstrap} speaks SSL or SASL_SSL, and" in told.message


# --- stores --------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["truststore", "keystore"])
def test_a_store_that_cannot_be_opened(
    spark: Any, mutual_tls: Any, topic_name: Names, tmp_path: Path, which: str
) -> None:
    changes = {f"ssl.{which}.password": "not-this-one"}
    told = refusal(spark, table(topic_name(), mutual_tls.table_options(changes=changes)) + READ)
    assert told.code == "RUN-008"
    assert told.message == (
        f"table 't': the file of 'properties.ssl.{which}.location' cannot be opened with"
        f" 'properties.ssl.{which}.password'"
    )
    (tmp_path / "store").write_text("not a store")
    changes = {f"ssl.{which}.location": str(tmp_path / "store")}
    told = refusal(spark, table(topic_name(), mutual_tls.table_options(changes=changes)) + READ)
    assert told.code == "RUN-008"
    assert f"the file of 'properties.ssl.{which}.location' cannot be read as JKS" in told.message
    changes = {f"ssl.{which}.location": str(tmp_path / "nowhere.jks")}
    told = refusal(spark, table(topic_name(), mutual_tls.table_options(changes=changes)) + READ)
    assert told.code == "RUN-050"


# --- as the manual prints it ---------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["", "org.apache.flink.kafka.shaded."])
def test_sasl_ssl_as_the_manual_prints_it(
    spark: Any, sasl_ssl: Any, topic_name: Names, prefix: str
) -> None:
    """The whole statement, its JAAS line with backslashes; the placeholders of its paths filled. The manual's key store
    is for brokers that ask for a client's certificate as well."""
    topic = topic_name()
    sasl_ssl.create(topic)
    home = sasl_ssl.secured.home
    script = manual("kafka: SASL_SSL", sasl_ssl.bootstrap, user_behavior=topic)
    script = script.replace("/path/to/kafka.client.truststore.jks", str(home / "truststore.jks"))
    script = script.replace(
        "/path/to/kafka.client.keystore.jks", str(home / "users" / "username.jks")
    )
    script = script.replace("org.apache.kafka.common", f"{prefix}org.apache.kafka.common") + ";\n"
    assert r"username=\"username\" password=\"password\"" in script
    run(spark, script + "INSERT INTO KafkaTable VALUES (1, 7, 'buy', TO_TIMESTAMP_LTZ(1000, 3));")
    started = "'scan.startup.mode' = 'earliest-offset', 'properties.security"
    script = script.replace("'properties.security", started)
    assert run(spark, script + "SELECT user_id, item_id, behavior FROM KafkaTable") == [
        '{"user_id":1,"item_id":7,"behavior":"buy"}'
    ]


def test_tls_against_a_broker_without(spark: Any, broker: Broker, topic_name: Names) -> None:
    """The other way round is above."""
    properties = {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SSL",
        "ssl.endpoint.identification.algorithm": "",
    }
    told = refusal(spark, table(topic_name(), written(properties)) + READ)
    assert told.code == "RUN-007"
    assert f"the broker at {broker.bootstrap} speaks PLAINTEXT" in told.message

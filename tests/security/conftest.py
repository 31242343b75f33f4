"""Brokers that refuse: one for each protocol, started when the first test asks for it and kept for the whole run.

    sasl_plaintext   SASL_PLAINTEXT with PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER (unsecured tokens), and GSSAPI
                     where there can be a KDC
    sasl_ssl         SASL_SSL with PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, and GSSAPI where there can be a KDC; client
                     certificates are looked at, if any come
    mutual_tls       SSL with client certificates required
    kerberos         sasl_plaintext with a real KDC: skipped where there can be none, and failed then if CI=true
    kerberos_ssl     sasl_ssl likewise; its service is called hadoop, which no default is

Everything whose name begins with `denied-` (topics, groups, transactional ids) is one of which no user has any right;
all else is everyone's who has logged in.

CI gives these tests ten minutes, all together.
"""

from __future__ import annotations

import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from harness import kdc as kdcs
from harness.certificates import PASSWORD, Identity, make_identity
from harness.kafka import consume, fold, produce
from harness.kdc import Kdc
from tidemill.broker import Broker, Security, clients, start, topics
from tidemill.broker.records import Record
from tidemill.broker.security import (
    KERBEROS,
    MECHANISMS,
    Authority,
    Secured,
    options_text,
    service_and_host,
)

ALICE = "alice"
STORE_PASSWORD = "test1234"
"""Of every key store and trust store, as the manual of Kafka tables has it."""

# alice has a password at random; the others are the manuals' own.
USERS = {
    ALICE: None,
    "username": "password",
    "ckafka-xxxxxxxx#YourUserName": "YourPassword",
    "xxx": "xxx",
}
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"

_AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


_BEGAN = time.monotonic()
_LIMIT_SECONDS = 600


def pytest_sessionfinish(session: pytest.Session) -> None:
    is_part = hasattr(session.config, "workerinput")
    took = time.monotonic() - _BEGAN
    if os.environ.get("CI") == "true" and not is_part and took > _LIMIT_SECONDS:
        print(f"\n{took:.0f} s, and CI gives the tests of security {_LIMIT_SECONDS} s")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("kafka")


@dataclass(frozen=True)
class SecuredBroker:
    broker: Broker
    kdc: Kdc | None = None

    @property
    def secured(self) -> Secured:
        found = self.broker.secured
        assert found is not None
        return found

    @property
    def bootstrap(self) -> str:
        """The listener of users. Kerberos asks for a service by the name of its host."""
        return f"{'localhost' if self.kdc else '127.0.0.1'}:{self.broker.port}"

    # As an administrator, for what a test prepares and looks at; tests of access are to come by `bootstrap`.

    @property
    def admin(self) -> dict[str, str]:
        """For `topics.*(admin["bootstrap.servers"], …, client=admin)`, at a listener of the administrator's own."""
        return self.broker.admin

    def create(self, topic: str, partitions: int = 1) -> None:
        topics.create(self.admin["bootstrap.servers"], topic, partitions, client=self.admin)

    def produce(self, topic: str, *records: Record | dict[str, Any] | str | bytes) -> None:
        produce(self.admin["bootstrap.servers"], topic, *records, via=self.admin)

    def consume(self, topic: str) -> list[Record]:
        return consume(self.admin["bootstrap.servers"], topic, via=self.admin)

    def fold(self, topic: str) -> dict[str | None, Any]:
        return fold(self.admin["bootstrap.servers"], topic, via=self.admin)

    # As a user.

    def password(self, user: str = ALICE) -> str:
        return self.secured.password(user)

    def client(
        self,
        mechanism: str | None = None,
        user: str = ALICE,
        password: str | None = None,
        kind: str = "jks",
        with_key: bool = False,
    ) -> dict[str, str]:
        """Properties of a client, passwords as they are; the right one unless another is given.

        kind: of the stores, jks or p12.  with_key: a key store where none is required.  For GSSAPI the user is a
        principal of the KDC; what is given as its password is taken for a keytab's path.
        """
        home = self.secured.home
        properties = {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": self.secured.protocol,
        }
        if self.secured.mechanisms:
            mechanism = mechanism or self.secured.mechanisms[0]
            properties["sasl.mechanism"] = mechanism
            properties["sasl.jaas.config"] = self._login(mechanism, user, password)
        if mechanism == "GSSAPI":
            assert self.secured.principal is not None
            properties["sasl.kerberos.service.name"] = service_and_host(self.secured.principal)[0]
        if self.secured.asked.tls:
            properties["ssl.truststore.location"] = str(home / f"truststore.{kind}")
            properties["ssl.truststore.password"] = STORE_PASSWORD
        if self.secured.asked.tls and (with_key or not self.secured.mechanisms):
            properties["ssl.keystore.location"] = str(home / "users" / f"{user}.{kind}")
            properties["ssl.keystore.password"] = STORE_PASSWORD
            properties["ssl.key.password"] = STORE_PASSWORD
        return properties

    def _login(self, mechanism: str, user: str, password: str | None) -> str:
        if mechanism == "GSSAPI":
            assert self.kdc is not None, "this broker knows no KDC"
            path = password or str(self.kdc.keytab(user))
            own = {
                "useKeyTab": "true",
                "storeKey": "true",
                "keyTab": path,
                "principal": f"{user}@{kdcs.REALM}",
            }
            return clients.jaas(KERBEROS, own)
        if mechanism == "OAUTHBEARER":
            return clients.jaas(OAUTH, {"unsecuredLoginStringClaim_sub": user})
        return clients.jaas(
            MECHANISMS[mechanism], {"username": user, "password": password or self.password(user)}
        )

    def table_options(
        self,
        mechanism: str | None = None,
        user: str = ALICE,
        password: str | None = None,
        changes: Mapping[str, str | None] | None = None,
        **how: Any,
    ) -> str:
        """The same as the text of a WITH clause: `'properties.…' = '…', …`. `changes`: other values; None: left out."""
        told: dict[str, str | None] = {
            **self.client(mechanism, user, password, **how),
            **(changes or {}),
        }
        return options_text({key: value for key, value in told.items() if value is not None})


# --- brokers ------------------------------------------------------------------------------------


def _started(place: Path, security: Security, settings: Mapping[str, str] | None = None) -> Broker:
    broker = start(place, port=0, settings={**_AUTHORIZER, **(settings or {})}, security=security)
    try:
        _deny(broker)
    except BaseException:
        broker.stop()
        raise
    return broker


def _deny(broker: Broker) -> None:
    """A right of nobody's on all that begins with `denied-`: what someone has a right to is not everyone's any more."""
    admin = broker.admin
    client = AdminClient(
        {
            "bootstrap.servers": admin["bootstrap.servers"],
            "error_cb": lambda error: None,
            **clients.settings(admin),
        }
    )
    kinds = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
    rights = [
        AclBinding(
            kind,
            "denied-",
            ResourcePatternType.PREFIXED,
            "User:nobody",
            "*",
            AclOperation.ALL,
            AclPermissionType.ALLOW,
        )
        for kind in kinds
    ]
    for answer in client.create_acls(rights, request_timeout=20).values():
        answer.result()


@pytest.fixture(scope="session")
def sasl_ssl(
    tmp_path_factory: pytest.TempPathFactory, possible_kdc: Kdc | str
) -> Iterator[SecuredBroker]:
    kdc = possible_kdc if isinstance(possible_kdc, Kdc) else None
    asked = Security(
        tls=True,
        mechanisms=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", *(["GSSAPI"] if kdc else [])),
        users={name: USERS[name] for name in (ALICE, "username", "xxx")},
        store_password=STORE_PASSWORD,
        kdc=kdc.address if kdc else None,
        keytab=kdc.keytab("hadoop/localhost") if kdc else None,
    )
    broker = _started(tmp_path_factory.mktemp("sasl_ssl"), asked)
    yield SecuredBroker(broker, kdc)
    broker.stop()


@pytest.fixture(scope="session")
def mutual_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    asked = Security(tls=True, users={ALICE: None}, store_password=STORE_PASSWORD)
    broker = _started(tmp_path_factory.mktemp("mutual_tls"), asked)
    yield SecuredBroker(broker)
    broker.stop()


@pytest.fixture(scope="session")
def sasl_plaintext(
    tmp_path_factory: pytest.TempPathFactory, possible_kdc: Kdc | str
) -> Iterator[SecuredBroker]:
    kdc = possible_kdc if isinstance(possible_kdc, Kdc) else None
    mechanisms = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", *(["GSSAPI"] if kdc else [])]
    asked = Security(
        mechanisms=tuple(mechanisms),
        users=USERS,
        kdc=kdc.address if kdc else None,
        keytab=kdc.keytab("kafka/localhost") if kdc else None,
    )
    # Not offered to users: its tokens are believed as they come. Clients of it are to be tested all the same.
    oauth = {
        "listener.name.client.sasl.enabled.mechanisms": ",".join([*mechanisms, "OAUTHBEARER"]),
        "listener.name.client.oauthbearer.sasl.jaas.config": clients.jaas(
            OAUTH, {"unsecuredLoginStringClaim_sub": "broker"}
        ),
    }
    broker = _started(tmp_path_factory.mktemp("sasl_plaintext"), asked, oauth)
    yield SecuredBroker(broker, kdc)
    broker.stop()


@pytest.fixture(scope="session")
def possible_kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc | str]:
    """A KDC, or the reason why there is none."""
    reason = kdcs.install()
    if reason is not None:
        yield reason
        return
    with kdcs.running(tmp_path_factory.mktemp("kdc")) as kdc:
        yield kdc


@pytest.fixture(scope="session")
def kdc(possible_kdc: Kdc | str) -> Kdc:
    """A real KDC; `.conf` is its krb5.conf, `.keytab("alice")` makes a principal and its keytab."""
    return kdcs.required(possible_kdc)


@pytest.fixture(scope="session")
def kerberos(kdc: Kdc, sasl_plaintext: SecuredBroker) -> SecuredBroker:
    return sasl_plaintext


@pytest.fixture(scope="session")
def kerberos_ssl(kdc: Kdc, sasl_ssl: SecuredBroker) -> SecuredBroker:
    return sasl_ssl


# --- what is wrong ------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def other_authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with `truststore.jks|p12` of an authority that signed nothing, and `users/alice.jks|p12` that it
    signed; STORE_PASSWORD opens all."""
    home = tmp_path_factory.mktemp("other_authority")
    (home / "users").mkdir()
    Authority.make(home, STORE_PASSWORD).issue_user(ALICE)
    return home


@pytest.fixture(scope="session")
def expired_key_store(mutual_tls: SecuredBroker) -> Path:
    """A key store (JKS) whose certificate mutual_tls' own authority signed, and whose days are over."""
    home = mutual_tls.secured.home
    Authority(home).issue_user("expired", days=(-10, -5))
    return home / "users" / "expired.jks"


@dataclass(frozen=True)
class TlsServer:
    """Not a Kafka: what shakes hands and no more."""

    address: str
    identity: Identity

    def client(self) -> dict[str, str]:
        """Properties that trust it."""
        return {
            "bootstrap.servers": self.address,
            "security.protocol": "SSL",
            "ssl.truststore.location": str(self.identity.path.with_suffix(".JKS")),
            "ssl.truststore.password": PASSWORD,
        }


@pytest.fixture(scope="session")
def expired_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsServer]:
    """A server whose certificate is trusted by `.client()` and expired."""
    identity = make_identity(tmp_path_factory.mktemp("expired"), "expired", days=(-10, -5))
    identity.trust_store("JKS")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.pem)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = threading.Thread(target=_shake_hands, args=(listener, context), daemon=True)
        serving.start()
        yield TlsServer(f"127.0.0.1:{listener.getsockname()[1]}", identity)
        # A thread in accept() is not woken by a close.
        listener.shutdown(socket.SHUT_RDWR)
    serving.join(10)


def _shake_hands(listener: socket.socket, context: ssl.SSLContext) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            connection.settimeout(5)
            try:
                context.wrap_socket(connection, server_side=True).close()
            except OSError:
                continue

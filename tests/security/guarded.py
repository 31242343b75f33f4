"""A broker that asks who one is and looks at rights, and what a test does with it: users, rights, topics, scripts.

All users log in with PLAIN, SCRAM or a token at one listener without TLS, so that a broker is up in a few seconds;
TLS is the matter of `test_tls.py`.
"""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tidemill import Session
from tidemill.broker import Broker
from tidemill.errors import Diagnostic, JobError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"

ADMIN, ADMIN_PASSWORD = "boss", "boss-secret-1"
# Names with a # in them are what Oceanus gives its users: instance#user.
NAMES = ("alice", "bob", "carol", "erin", "ckafka-x1y2z3#dave")
USERS = {name: f"{name}-secret-1" for name in NAMES}

SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        f'{PLAIN} required username="{ADMIN}" password="{ADMIN_PASSWORD}" user_{ADMIN}="{ADMIN_PASSWORD}" '
        + " ".join(
            f'"user_{name}"="{password}"' for name, password in USERS.items() if "#" not in name
        )
        + ";"
    ),
    "listener.name.plaintext.scram-sha-256.sasl.jaas.config": f"{SCRAM} required;",
    "listener.name.plaintext.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
    "listener.name.plaintext.oauthbearer.sasl.jaas.config": (
        f'{OAUTH} required unsecuredLoginStringClaim_sub="{ADMIN}";'
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # The controller's listener asks for nothing.
    "super.users": f"User:{ADMIN};User:ANONYMOUS",
}

PATIENCE_SECONDS = 15.0


def login(user: str, password: str | None = None, mechanism: str = "PLAIN") -> dict[str, str]:
    """What a table says to log in."""
    password = USERS[user] if password is None else password
    if mechanism == "OAUTHBEARER":
        line = f'{OAUTH} required unsecuredLoginStringClaim_sub="{user}";'
    else:
        module = PLAIN if mechanism == "PLAIN" else SCRAM
        line = f'{module} required username="{user}" password="{password}";'
    return {
        "properties.security.protocol": "SASL_PLAINTEXT",
        "properties.sasl.mechanism": mechanism,
        "properties.sasl.jaas.config": line,
    }


@dataclass
class Guarded:
    """The broker, and an administrator's hands on it."""

    broker: Broker
    _admin: AdminClient = field(init=False)

    def __post_init__(self) -> None:
        self._admin = AdminClient(self.client())
        for name, password in USERS.items():
            for kind in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
                made = UserScramCredentialUpsertion(
                    name, ScramCredentialInfo(kind, 4096), password.encode()
                )
                for future in self._admin.alter_user_scram_credentials([made]).values():
                    future.result(30)

    def client(self, **more: str) -> dict[str, str]:
        return {
            "bootstrap.servers": self.broker.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": ADMIN,
            "sasl.password": ADMIN_PASSWORD,
            **more,
        }

    def create(self, name: str, *values: str) -> str:
        for future in self._admin.create_topics([NewTopic(name, 1, 1)]).values():
            future.result(30)
        self.write(name, *values)
        return name

    def write(self, name: str, *values: str) -> None:
        producer = Producer(self.client())
        for value in values:
            producer.produce(name, value)
        assert producer.flush(30) == 0

    def read(self, name: str, count: int) -> list[str]:
        """So many committed records of a topic with one partition."""
        from confluent_kafka import TopicPartition

        consumer = Consumer(
            self.client(**{"group.id": "reader", "isolation.level": "read_committed"})
        )
        try:
            consumer.assign([TopicPartition(name, 0, 0)])
            found = consumer.consume(count, 30)
            return [record.value().decode() for record in found]
        finally:
            consumer.close()

    def allow(
        self, user: str, operation: str, kind: str, name: str, prefixed: bool = False
    ) -> None:
        """Takes effect at once: there is one node."""
        for future in self._admin.create_acls(
            [_binding(AclBinding, user, operation, kind, name, prefixed)]
        ).values():
            future.result(30)
        time.sleep(0.2)

    def denials(self, name: str) -> int:
        """How often the broker has denied something of that name to anybody, by its log."""
        denied = re.compile(f"is Denied operation = .*:{re.escape(name)} ")
        log = self.broker.log.read_text(errors="replace")
        return sum(bool(denied.search(line)) for line in log.splitlines())

    def forbid(
        self, user: str, operation: str, kind: str, name: str, prefixed: bool = False
    ) -> None:
        wanted = _binding(AclBindingFilter, user, operation, kind, name, prefixed)
        for future in self._admin.delete_acls([wanted]).values():
            assert len(future.result(30)) == 1


def _binding(form: Any, user: str, operation: str, kind: str, name: str, prefixed: bool) -> Any:
    pattern = ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL
    return form(
        ResourceType[kind],
        name,
        pattern,
        f"User:{user}",
        "*",
        AclOperation[operation],
        AclPermissionType.ALLOW,
    )


def table(
    bootstrap: str, topic: str, access: Mapping[str, str], name: str = "t", **more: str
) -> str:
    """A table over a topic; `more` with __ for - and _ for ."""
    given = {k.replace("__", "-").replace("_", "."): v for k, v in more.items()}
    options = {
        "connector": "kafka",
        "topic": topic,
        "properties.bootstrap.servers": bootstrap,
        "scan.startup.mode": "earliest-offset",
        "format": "json",
        **access,
        **given,
    }
    listed = ", ".join(f"'{k}' = '{v}'" for k, v in options.items())
    return f"CREATE TABLE {name} (n INT) WITH ({listed});\n"


READ = "SELECT n FROM t"
WRITE = "INSERT INTO t VALUES (1)"


class Rows:
    """Keeps what a SELECT gives."""

    style = "json"

    def __init__(self) -> None:
        self.rows: list[str] = []

    def take(self, fields: Any, rows: list[tuple[Any, str]]) -> None:
        self.rows += [text for _, text in rows]


def run(spark: Any, script: str, checkpoint: Path | None = None) -> list[str]:
    """Run a script to its end; its rows, or the JobError that it ends with."""
    rows = Rows()
    with Session(spark, bounded=True, checkpoint=checkpoint, output=rows) as session:
        for job in session.execute(script):
            if isinstance(job, str):
                continue
            assert job.wait(60), "it does not end"
            failure = job.failure()
            if failure is not None:
                raise failure
    return rows.rows


# What says more of this machine's files than of a broker: it was not asked.
BEFORE_THE_BROKER = ("RUN-008", "RUN-050")


def refusal(spark: Any, script: str, checkpoint: Path | None = None) -> Diagnostic:
    """What a script is refused with, in time: which table, which broker, what was refused, and what to check."""
    started = time.monotonic()
    try:
        run(spark, script, checkpoint)
    except JobError as error:
        took = time.monotonic() - started
        assert took < PATIENCE_SECONDS, f"{took:.1f} s"
        (told,) = error.diagnostics
        for password in (*USERS.values(), ADMIN_PASSWORD):
            assert password not in str(error)
        assert re.search(r"table '\w+'", told.message), told.message
        if told.code not in BEFORE_THE_BROKER:
            addresses = re.findall(r"'properties\.bootstrap\.servers' = '([^']+)'", script)
            assert any(address in told.message for address in addresses), told.message
        assert told.hint
        assert told.span is not None
        return told
    raise AssertionError("nothing was refused")


class Proxy:
    """Passes bytes on to a broker and counts who connects."""

    def __init__(self, target: int, host: str) -> None:
        self._target = target
        self._server = socket.create_server((host, 0))
        self.connections = 0
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._server.getsockname()[1])

    @property
    def bootstrap(self) -> str:
        return f"{self._server.getsockname()[0]}:{self.port}"

    def _serve(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            self.connections += 1
            far = socket.create_connection(("127.0.0.1", self._target))
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=_pump, args=(source, sink), daemon=True).start()

    def close(self) -> None:
        self._server.close()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
    except OSError:
        pass
    for end in (source, sink):
        end.close()


@contextmanager
def counted(port: int, host: str = "127.0.0.1") -> Iterator[Proxy]:
    """In front of the broker of a port, under another address of this machine."""
    proxy = Proxy(port, host)
    try:
        yield proxy
    finally:
        proxy.close()

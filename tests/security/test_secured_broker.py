"""The brokers themselves: each kind lets the right ones in and nobody else, is on loopback only, and stays the same."""

from __future__ import annotations

import os
import re
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from guarded import READ, WRITE
from guarded import run as run_script

from harness.kdc import REALM, Kdc
from harness.sockets import is_loopback, listening
from tidemill.broker import Broker, find_running, server, topics
from tidemill.broker.clients import parse_properties, write_properties
from tidemill.broker.jars import fetch
from tidemill.broker.java import find_java
from tidemill.broker.records import Record
from tidemill.broker.security import kerberos_login
from tidemill.cli import cli
from tidemill.cli.broker import broker as broker_group
from tidemill.cli.topic import topic as topic_group
from tidemill.errors import JobError, TidemillError

Name = Callable[..., str]

KINDS = ["sasl_plaintext", "sasl_ssl", "mutual_tls"]
WAYS = [
    ("sasl_plaintext", "PLAIN", {}),
    ("sasl_plaintext", "PLAIN", {"user": "ckafka-xxxxxxxx#YourUserName"}),
    ("sasl_plaintext", "SCRAM-SHA-256", {"user": "ckafka-xxxxxxxx#YourUserName"}),
    ("sasl_plaintext", "SCRAM-SHA-512", {}),
    ("sasl_ssl", "PLAIN", {"user": "xxx"}),
    ("sasl_ssl", "SCRAM-SHA-256", {"kind": "p12"}),
    ("sasl_ssl", "SCRAM-SHA-256", {"user": "username", "with_key": True}),
    ("sasl_ssl", "SCRAM-SHA-512", {}),
    ("mutual_tls", None, {"kind": "jks"}),
    ("mutual_tls", None, {"kind": "p12"}),
]


@pytest.fixture
def secured(request: pytest.FixtureRequest) -> object:
    return request.getfixturevalue(request.param)


def names(case: object) -> str | None:
    if isinstance(case, dict):
        return "-".join(f"{key}={value}" for key, value in case.items()) or "alice"
    return str(case or "certificate")


@pytest.mark.parametrize(("secured", "mechanism", "how"), WAYS, indirect=["secured"], ids=names)
def test_the_right_credentials_read_and_write(secured, mechanism, how, topic_name: Name) -> None:  # type: ignore[no-untyped-def]
    client, name = secured.client(mechanism, **how), topic_name()
    topics.create(secured.bootstrap, name, 2, client=client)
    assert topics.write(secured.bootstrap, name, [Record(b"v", b"k")], client) == 1
    assert [(r.key, r.value) for r in topics.read(secured.bootstrap, name, client=client)] == [
        (b"k", b"v")
    ]
    assert sum(topics.end_offsets(secured.bootstrap, name, client).values()) == 1
    assert [r.value for r in secured.consume(name)] == [b"v"]


def refusal(bootstrap: str, client: dict[str, str] | None) -> str:
    """What a client is told that is not let in."""
    began = time.monotonic()
    with pytest.raises(JobError) as caught:
        topics.exists(bootstrap, "any", client)
    assert time.monotonic() - began < 15
    text = str(caught.value)
    assert text.startswith(
        f"error KAFKA-009: the Kafka broker at {bootstrap} does not let this client in: "
    ), text
    return text


@pytest.mark.parametrize(
    ("secured", "mechanism"),
    dict.fromkeys((kind, way) for kind, way, _ in WAYS if way),
    indirect=["secured"],
)
@pytest.mark.parametrize("user", ["alice", "nobody"])
def test_a_wrong_password_or_user_is_refused(secured, mechanism: str, user: str) -> None:  # type: ignore[no-untyped-def]
    client = secured.client(mechanism, user, password="not-the-one")
    text = refusal(secured.bootstrap, client)
    assert "uthentication" in text
    assert "not-the-one" not in text


@pytest.mark.parametrize("secured", KINDS, indirect=True)
def test_no_listener_is_open(secured) -> None:  # type: ignore[no-untyped-def]
    refusal(secured.bootstrap, None)
    refusal(secured.admin["bootstrap.servers"], None)
    wrong = {**secured.admin, "sasl.jaas.config": 'x required username="alice" password="p";'}
    refusal(secured.admin["bootstrap.servers"], wrong)
    settings = parse_properties((secured.broker.data / "server.properties").read_text())
    listeners = [listener.rpartition(":")[2] for listener in settings["listeners"].split(",")]
    assert len(listeners) == 3
    assert [serves_strangers(int(port)) for port in listeners] == [False] * 3


def test_the_open_broker_does_serve_strangers(broker: Broker) -> None:
    """So that the test above says something."""
    settings = parse_properties((broker.data / "server.properties").read_text())
    ports = [int(listener.rpartition(":")[2]) for listener in settings["listeners"].split(",")]
    assert [serves_strangers(port) for port in ports] == [True, True]


def serves_strangers(port: int) -> bool:
    """Whether a listener answers DescribeCluster, which brokers and controllers know, without any login."""
    # Of version 0: correlation 7, no client id, no tags; without authorized operations, no tags.
    body = struct.pack(">hhihBBB", 60, 0, 7, -1, 0, 0, 0)
    request = struct.pack(">i", len(body)) + body
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(request)
            answer = connection.recv(8)
    except ConnectionError:
        return False
    return len(answer) == 8 and struct.unpack(">ii", answer)[1] == 7


@pytest.mark.parametrize("secured", KINDS, indirect=True)
def test_a_secured_broker_listens_on_loopback_only(secured) -> None:  # type: ignore[no-untyped-def]
    found = listening(secured.broker.pid)
    assert len(found) == 3
    assert all(is_loopback(address) for address, _ in found), found


def test_the_open_broker_listens_on_loopback_only(broker: Broker) -> None:
    found = listening(broker.pid)
    assert len(found) == 2
    assert all(is_loopback(address) for address, _ in found), found


@pytest.mark.parametrize("secured", KINDS, indirect=True)
def test_no_password_is_on_the_command_line_or_in_the_log(secured) -> None:  # type: ignore[no-untyped-def]
    passwords = [path.read_text() for path in secured.secured.home.rglob("*.password")]
    # Short ones, which the manuals print, are found in anything.
    hidden = [password for password in passwords if len(password) > 20]
    assert len(hidden) >= 3
    command = Path(f"/proc/{secured.broker.pid}/cmdline").read_text()
    log = secured.broker.log.read_text(errors="replace")
    assert not any(password in text for password in hidden for text in (command, log))
    assert (secured.broker.data / "server.properties").stat().st_mode & 0o777 == 0o600
    for path in secured.secured.home.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.parametrize("secured", ["sasl_ssl", "mutual_tls"], indirect=True)
def test_a_broker_of_an_unknown_authority_is_not_trusted(secured, other_authority: Path) -> None:  # type: ignore[no-untyped-def]
    client = {
        **secured.client(),
        "ssl.truststore.location": str(other_authority / "truststore.jks"),
    }
    assert "certificate verify failed" in refusal(secured.bootstrap, client)


def test_a_certificate_is_required_and_looked_at(
    mutual_tls, other_authority: Path, expired_key_store: Path
) -> None:  # type: ignore[no-untyped-def]
    client = mutual_tls.client()
    bare = {
        key: value
        for key, value in client.items()
        if not key.startswith(("ssl.key.", "ssl.keystore."))
    }
    refusal(mutual_tls.bootstrap, bare)
    for store in (other_authority / "users" / "alice.p12", expired_key_store):
        refusal(mutual_tls.bootstrap, {**client, "ssl.keystore.location": str(store)})


def test_a_server_whose_certificate_has_expired_is_not_trusted(expired_server) -> None:  # type: ignore[no-untyped-def]
    refusal(expired_server.address, expired_server.client())


@pytest.mark.parametrize("secured", KINDS, indirect=True)
def test_a_right_that_nobody_has_is_refused(secured, topic_name: Name) -> None:  # type: ignore[no-untyped-def]
    name = f"denied-{topic_name()}"
    secured.create(name)
    client = secured.client()
    with pytest.raises(JobError, match="KAFKA-00[26]"):
        topics.write(secured.bootstrap, name, [Record(b"v")], client)
    with pytest.raises(JobError, match="KAFKA-00[26]"):
        list(topics.read(secured.bootstrap, name, client=client))
    secured.produce(name, "by the administrator")
    assert [r.value for r in secured.consume(name)] == [b"by the administrator"]


# --- what the library of the topic commands cannot do, Kafka's own client does --------------------

_ASK = """
import java.io.FileInputStream;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;

class Ask {
    public static void main(String[] given) throws Exception {
        Properties properties = new Properties();
        try (FileInputStream file = new FileInputStream(given[0])) {
            properties.load(file);
        }
        properties.put("default.api.timeout.ms", "12000");
        properties.put("request.timeout.ms", "5000");
        try (Admin admin = Admin.create(properties)) {
            System.out.println("topics " + admin.listTopics().names().get().contains(given[1]));
        } catch (Exception problem) {
            Throwable root = problem;
            while (root.getCause() != null) root = root.getCause();
            System.out.println("refused " + root);
        }
        System.exit(0);
    }
}
"""


def ask(place: Path, client: dict[str, str], topic: str, *options: str) -> str:
    """What Kafka's Java client says of a topic: `topics true`, `topics false` or `refused …`."""
    (place / "Ask.java").write_text(_ASK)
    (place / "client.properties").write_text(write_properties(client))
    classpath = os.pathsep.join(str(path) for path in fetch(server.LOCK))
    command = [
        find_java(),
        "-XX:TieredStopAtLevel=1",
        *options,
        "-cp",
        classpath,
        place / "Ask.java",
    ]
    done = subprocess.run(
        [*command, place / "client.properties", topic], capture_output=True, text=True, timeout=120
    )
    answers = [line for line in done.stdout.splitlines() if line.startswith(("topics", "refused"))]
    assert answers, done.stdout + done.stderr
    return answers[-1]


def test_a_ticket_of_the_kdc_lets_in(kerberos, kdc: Kdc, tmp_path: Path, topic_name: Name) -> None:  # type: ignore[no-untyped-def]
    name = topic_name()
    kerberos.create(name)
    conf = f"-Djava.security.krb5.conf={kdc.conf}"
    assert ask(tmp_path, kerberos.client("GSSAPI", "alice"), name, conf) == "topics true"
    old = tmp_path / "old.keytab"
    old.write_bytes(kdc.keytab("bob").read_bytes())
    kdc.keytab("bob", renew=True)
    assert ask(tmp_path, kerberos.client("GSSAPI", "bob", str(old)), name, conf).startswith(
        "refused"
    )
    with pytest.raises(
        TidemillError, match="KAFKA-011: the topic commands cannot log in with the mechanism GSSAPI"
    ):
        topics.exists(kerberos.bootstrap, name, kerberos.client("GSSAPI"))


def test_a_token_lets_in(sasl_plaintext, tmp_path: Path, topic_name: Name) -> None:  # type: ignore[no-untyped-def]
    name = topic_name()
    sasl_plaintext.create(name)
    assert ask(tmp_path, sasl_plaintext.client("OAUTHBEARER"), name) == "topics true"


# --- commands -----------------------------------------------------------------------------------


def run(group: click.Group, *arguments: str, stdin: str | None = None) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, [str(group.name), *arguments], input=stdin)
    if isinstance(result.exception, TidemillError):
        return result.exception.exit_code, result.stdout, result.stderr + str(result.exception)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("TIDEMILL_HOME", str(tmp_path / "home"))
    yield tmp_path / "home" / "broker"
    left = find_running()
    if left:
        left.stop()


START = ["start", "--detach", "--port", "0"]
SECURED = ["--tls", "--sasl", "SCRAM-SHA-512", "--sasl", "plain", "--user", "ckafka-1#me"]


def test_commands_start_and_use_a_secured_broker_which_stays_the_same(
    home: Path, tmp_path: Path
) -> None:
    code, out, err = run(broker_group, *START, *SECURED)
    assert (code, err) == (0, f"making keys and users in {home / 'security'}\n")
    running = find_running()
    assert running is not None
    password = home / "security" / "users" / "ckafka-1#me.password"
    assert "  asks  SASL_SSL: SCRAM-SHA-512, PLAIN\n" in out
    assert f"  with  {home}/security/options.sql, the options of tables\n" in out
    assert "table options (SCRAM-SHA-512):\n" in out
    assert "'properties.security.protocol' = 'SASL_SSL'" in out
    assert f'required username="ckafka-1#me" password="${{file:{password}}}";' in out
    assert (
        f"'properties.ssl.truststore.password' = '${{file:{home}/security/stores.password}}'" in out
    )
    secret = password.read_text()
    assert secret not in out

    # Without more words, the topic commands are the administrator's.
    assert run(topic_group, "create", "t")[0] == 0
    assert run(topic_group, "write", "t", stdin="one\n")[0] == 0
    # With a file they are who it says.
    assert running.secured is not None
    client = running.secured.client("SCRAM-SHA-512")
    for key, value in client.items():
        for name in ("users/ckafka-1#me.password", "stores.password"):
            value = value.replace(
                f"${{file:{home}/security/{name}}}", (home / "security" / name).read_text()
            )
        client[key] = value
    own = tmp_path / "client.properties"
    own.write_text(write_properties({**client, "acks": "all"}))
    code, out, err = run(topic_group, "read", "t", "--plain", "--properties", str(own))
    assert (code, out, err) == (0, "one\n", "without effect on topic commands: acks\n")
    code, _, err = run(topic_group, "list", "--bootstrap", running.bootstrap)
    assert (code, "KAFKA-009" in err, "--properties FILE" in err) == (3, True, True)

    code, out, _ = run(broker_group, "status")
    assert (code, "asks  SASL_SSL: SCRAM-SHA-512, PLAIN" in out, "options.sql" in out) == (
        0,
        True,
        True,
    )
    assert run(broker_group, "stop")[0] == 0
    code, _, err = run(broker_group, *START, "--tls")
    assert code == 2
    assert "BRK-008" in err
    assert "was made with SASL_SSL: SCRAM-SHA-512, PLAIN, not with SSL" in err

    assert run(broker_group, *START)[0] == 0
    again = find_running()
    assert again is not None
    assert password.read_text() == secret
    for mechanism in ("SCRAM-SHA-512", "PLAIN"):
        told = {**client, "sasl.mechanism": mechanism}
        assert [r.value for r in topics.read(again.bootstrap, "t", client=told)] == [b"one"]


def test_commands_start_and_use_a_broker_with_kerberos_alone(
    home: Path, kdc: Kdc, tmp_path: Path
) -> None:
    keytab = kdc.keytab("bob", "kafka/localhost")
    kerberos = ["--sasl", "GSSAPI", "--kdc", kdc.address, "--keytab", str(keytab)]
    code, out, _ = run(broker_group, *START, *kerberos)
    assert code == 0
    running = find_running()
    assert running is not None
    assert f"'properties.bootstrap.servers' = 'localhost:{running.port}'" in out
    assert "'properties.sasl.kerberos.service.name' = 'kafka'" in out
    assert f"SET 'security.kerberos.login.conf' = '{home}/security/krb5.conf';" in out
    # The administrator needs no ticket, and tables of a local run are the administrator's.
    assert run(topic_group, "create", "t")[0] == 0
    assert running.client["bootstrap.servers"] == running.admin["bootstrap.servers"]
    assert running.client["sasl.jaas.config"] != running.admin["sasl.jaas.config"]
    secured = running.secured
    assert secured is not None
    login = kerberos_login(str(kdc.keytab("alice")), f"alice@{REALM}")
    address = {"bootstrap.servers": f"localhost:{running.port}"}
    client = {**address, **secured.client(), "sasl.jaas.config": login}
    conf = f"-Djava.security.krb5.conf={secured.krb5_conf}"
    assert ask(tmp_path, client, "t", conf) == "topics true"


# Each start, and what it prints options for.
STARTS = [
    (("--tls",), ("",)),
    (("--sasl", "PLAIN", "--sasl", "SCRAM-SHA-256"), (" (PLAIN)", " (SCRAM-SHA-256)")),
    (("--tls", "--sasl", "SCRAM-SHA-512", "--sasl", "GSSAPI"), (" (SCRAM-SHA-512)", " (GSSAPI)")),
]


@pytest.mark.spark
@pytest.mark.parametrize(("given", "mechanisms"), STARTS, ids=lambda texts: "".join(texts))
def test_the_printed_options_let_tables_in(
    request: pytest.FixtureRequest,
    spark: Any,
    home: Path,
    topic_name: Name,
    given: tuple[str, ...],
    mechanisms: tuple[str, ...],
) -> None:
    """Cut out of what the command prints, and pasted into a table that is written and read."""
    kdc = request.getfixturevalue("kdc") if "GSSAPI" in given else None
    if kdc is not None:
        given += ("--kdc", kdc.address, "--keytab", str(kdc.keytab("kafka/localhost")))
    code, out, err = run(broker_group, *START, *given)
    assert code == 0, err
    _, *printed = out.split("table options")
    assert len(printed) == len(mechanisms)
    for mechanism, text in zip(mechanisms, printed, strict=True):
        heading, _, text = text.partition(":\n")
        assert heading == mechanism
        options, _, settings = text.partition("-- and in front of the tables")
        before = "".join(re.findall("(?m)^-- (SET .*)$", settings))
        if kdc is not None:
            before = before.replace("YOU@", "alice@")
            before = before.replace("YOUR.keytab", str(kdc.keytab("alice")))
        table = (
            f"{before} CREATE TABLE t (n INT) WITH ('connector' = 'kafka', 'topic' = '{topic_name()}',"
            f" 'format' = 'json', 'scan.startup.mode' = 'earliest-offset', {options});"
        )
        run_script(spark, table + WRITE)
        assert run_script(spark, table + READ) == ['{"n":1}'], heading

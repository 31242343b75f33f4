"""What a secured broker is made of, without starting one: no JVM, so no keys."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from click.testing import CliRunner

from tidemill.broker import Security
from tidemill.broker import security as securities
from tidemill.broker.security import keytab_principals
from tidemill.cli import cli
from tidemill.errors import TidemillError, UsageError


def entry(principal: str) -> bytes:
    """An entry of a keytab, as MIT's tools write it."""
    name, _, realm = principal.partition("@")
    parts = name.split("/")
    body = struct.pack(">H", len(parts))
    for text in (realm, *parts):
        body += struct.pack(">H", len(text)) + text.encode()
    body += struct.pack(">IIB", 1, 0, 2) + struct.pack(">HH", 18, 32) + bytes(32)
    return struct.pack(">i", len(body)) + body


HOLE = struct.pack(">i", -7) + bytes(7)


def keytab(place: Path, *principals: str) -> Path:
    path = place / "some.keytab"
    path.write_bytes(b"\x05\x02" + HOLE + b"".join(entry(p) for p in principals))
    return path


def test_principals_of_a_keytab_are_read(tmp_path: Path) -> None:
    names = ["alice@A.B", "kafka/localhost@A.B"]
    assert keytab_principals(keytab(tmp_path, *names, names[1]).read_bytes()) == names
    for damaged in (b"", b"PK", b"\x05\x02\x00\x00\x00\x09\x00"):
        with pytest.raises(ValueError, match="it "):
            keytab_principals(damaged)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (
            {"mechanisms": ("DIGEST-MD5",)},
            "BRK-009: the embedded broker has no SASL mechanism DIGEST-MD5",
        ),
        (
            {"users": {"a": None}},
            "BRK-009: users, a KDC or a keytab are given, but neither TLS nor SASL",
        ),
        (
            {"mechanisms": ("GSSAPI",), "users": {"a": None}},
            "BRK-009: the users of a broker with GSSAPI alone",
        ),
        ({"tls": True, "users": {"a b": None}}, "BRK-009: 'a b' cannot be the name of a user"),
        ({"tls": True, "users": {'a"': None}}, "BRK-009"),
        ({"tls": True, "users": {"../a": None}}, "BRK-009"),
        (
            {"tls": True, "users": {"tidemill-admin": None}},
            "BRK-009: the user 'tidemill-admin' is the broker's own",
        ),
        (
            {"mechanisms": ("PLAIN",), "users": {"a": "p,q"}},
            "BRK-009: the password of 'a' holds a blank, comma",
        ),
        ({"tls": True, "kdc": "h:88"}, "BRK-009: a KDC and a keytab are of use with GSSAPI only"),
        (
            {"mechanisms": ("GSSAPI",), "kdc": "h"},
            "BRK-010: 'h' is not an address of the form HOST:PORT",
        ),
    ],
)
def test_wishes_that_cannot_be_are_refused(asked: dict[str, object], expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        Security(**asked)  # type: ignore[arg-type]
    assert expected in str(caught.value)
    assert "p,q" not in str(caught.value)


@pytest.mark.parametrize(
    ("asked", "protocol"),
    [
        (Security(tls=True), "SSL"),
        (Security(tls=True, mechanisms=("PLAIN",)), "SASL_SSL"),
        (Security(mechanisms=("PLAIN",)), "SASL_PLAINTEXT"),
    ],
)
def test_protocol_follows_from_tls_and_sasl(asked: Security, protocol: str) -> None:
    assert asked.protocol == protocol


USERS = {"alice": None, "ckafka-1#bob": "given"}
ASKED = Security(mechanisms=("PLAIN", "SCRAM-SHA-256"), users=USERS)


def test_every_listener_of_a_secured_broker_asks_who_comes(tmp_path: Path) -> None:
    secured = securities.prepare(tmp_path, ASKED, is_new=True)
    assert secured is not None
    told = secured.settings(1, 2, 3)
    assert (
        told["listeners"] == "CLIENT://127.0.0.1:1,INTERNAL://127.0.0.1:2,CONTROLLER://127.0.0.1:3"
    )
    protocols = dict(pair.split(":") for pair in told["listener.security.protocol.map"].split(","))
    assert protocols == dict.fromkeys(["CLIENT", "INTERNAL", "CONTROLLER"], "SASL_PLAINTEXT")
    for listener in ("internal", "controller"):
        assert told[f"listener.name.{listener}.sasl.enabled.mechanisms"] == "PLAIN"
        assert "alice" not in told[f"listener.name.{listener}.plain.sasl.jaas.config"]
    assert '"user_ckafka-1#bob"="given"' in told["listener.name.client.plain.sasl.jaas.config"]
    assert secured.format_arguments()[3] == "SCRAM-SHA-256=[name=ckafka-1#bob,password=given]"


def test_secrets_are_files_of_their_owner_and_options_name_them(tmp_path: Path) -> None:
    secured = securities.prepare(tmp_path, ASKED, is_new=True)
    assert secured is not None
    secured.write_client_files(9, 10)
    files = [path for path in secured.home.rglob("*") if path.is_file()]
    assert len(files) == 7
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in (secured.home, secured.home / "users")} == {
        0o700
    }
    text = secured.options_file.read_text()
    passwords = [secured.password(name) for name in USERS]
    assert not any(password in text for password in passwords)
    assert f'username="alice" password="${{file:{secured.home}/users/alice.password}}";' in text
    assert text.count("'properties.bootstrap.servers' = '127.0.0.1:9'") == 4
    assert secured.admin()["bootstrap.servers"] == "127.0.0.1:10"
    assert secured.client("PLAIN")["sasl.jaas.config"].startswith(
        "org.apache.kafka.common.security.plain.Plain"
    )
    again = securities.prepare(tmp_path, None, is_new=False)
    assert again == secured
    assert [again.password(name) for name in USERS] == passwords


def test_secured_directory_stays_as_it_was_made(tmp_path: Path) -> None:
    securities.prepare(tmp_path, ASKED, is_new=True)
    same = Security(mechanisms=("SCRAM-SHA-256", "PLAIN"))
    securities.check(tmp_path, same, is_new=False)
    securities.check(tmp_path, None, is_new=False)
    for other, expected in (
        (Security(tls=True), "was made with SASL_PLAINTEXT: PLAIN, SCRAM-SHA-256, not with SSL"),
        (
            Security(mechanisms=ASKED.mechanisms, users={"eve": None}),
            "was made with the users alice, ckafka-1#bob",
        ),
    ):
        with pytest.raises(UsageError, match=f"BRK-008: the broker of '.*' {expected}"):
            securities.check(tmp_path, other, is_new=False)
    # No topic was made yet: what a start that failed has left is made anew.
    other = Security(mechanisms=("PLAIN",))
    securities.check(tmp_path, other, is_new=True)
    made = securities.prepare(tmp_path, other, is_new=True)
    assert made is not None
    assert (made.mechanisms, made.users) == (("PLAIN",), ("tidemill",))


def test_open_directory_is_not_secured_afterwards(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match="BRK-008: .* was made without security, and its topics are there"
    ):
        securities.check(tmp_path, ASKED, is_new=False)


def test_broker_is_who_its_keytab_says(tmp_path: Path) -> None:
    path = keytab(
        tmp_path,
        "alice@R.X",
        "kafka/far.example@R.X",
        "broker/localhost@R.X",
        "kafka/localhost@R.X",
    )
    asked = Security(mechanisms=("GSSAPI",), kdc="127.0.0.1:8888", keytab=path)
    secured = securities.prepare(tmp_path, asked, is_new=True)
    assert secured is not None
    assert secured.principal == "broker/localhost@R.X"
    told = secured.settings(1, 2, 3)
    assert told["advertised.listeners"].startswith("CLIENT://localhost:1,")
    assert told["listener.name.client.sasl.kerberos.service.name"] == "broker"
    assert "kdc = 127.0.0.1:8888" in secured.krb5_conf.read_text()
    assert "default_realm = R.X" in secured.krb5_conf.read_text()
    assert secured.users == ()
    moved = Security(
        mechanisms=("GSSAPI",), kdc="127.0.0.1:9", keytab=path, principal="kafka/localhost"
    )
    secured = securities.prepare(tmp_path, moved, is_new=False)
    assert secured is not None
    assert secured.principal == "kafka/localhost@R.X"
    assert "kdc = 127.0.0.1:9\n" in secured.krb5_conf.read_text()


@pytest.mark.parametrize(
    ("principals", "principal", "expected"),
    [
        (["alice@R"], None, "no principal of the keytab '.*' is of the form service/HOST@REALM"),
        (["kafka/no-such-host.invalid@R"], None, "no principal of the keytab"),
        (["kafka/localhost@R"], "other", "holds no key of 'other'"),
    ],
)
def test_keytab_without_the_broker_is_refused(
    tmp_path: Path, principals: list[str], principal: str | None, expected: str
) -> None:
    path = keytab(tmp_path, *principals)
    asked = Security(mechanisms=("GSSAPI",), kdc="h:88", keytab=path, principal=principal)
    with pytest.raises(UsageError, match=f"BRK-010: .*{expected}"):
        securities.check(tmp_path / "data", asked, is_new=True)


def start(*arguments: str) -> TidemillError:
    """The refusal to start so; `main` prints it."""
    problem = CliRunner().invoke(cli, ["broker", "start", *arguments]).exception
    assert isinstance(problem, TidemillError), problem
    return problem


def test_kerberos_without_a_kdc_says_how_to_get_one(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for given, missing in (
        ([], "--kdc HOST:PORT and --keytab FILE"),
        (["--kdc", "localhost:88"], "--keytab FILE"),
    ):
        problem = start("--data", str(data), "--port", "0", "--sasl", "gssapi", *given)
        assert problem.exit_code == 2
        text = str(problem)
        assert f"BRK-010: --sasl GSSAPI needs {missing}" in text
        assert "apt-get install krb5-kdc" in text
        assert "kadmin.local" in text
    assert not data.exists()


def test_user_without_security_is_a_mistake(tmp_path: Path) -> None:
    problem = start("--data", str(tmp_path / "data"), "--port", "0", "--user", "a")
    assert "add --tls, --sasl MECHANISM or both" in str(problem)

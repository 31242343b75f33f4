"""`tidemill auth`: entries come and go, the file is its owner's alone, and a password is never shown: no JVM."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import subprocess
import termios
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner
from command import COMMAND

from tidemill.cli import cli
from tidemill.errors import TidemillError
from tidemill.tables.credentials import KAFKA_SSL, Credentials, Entry, default_credentials

SECRETS = ("s3cret-trust", "s3cret-key", "s3cret-inner")


@dataclass
class Auth:
    place: Path

    @property
    def file(self) -> Path:
        return self.place / "home" / "credentials.toml"

    def __call__(self, *arguments: str, given: str = "") -> str:
        done = CliRunner().invoke(cli, ["auth", *arguments], input=given)
        if isinstance(done.exception, TidemillError):
            raise done.exception
        assert done.exit_code == 0, done.output
        assert not any(secret in done.output for secret in SECRETS)
        return done.output

    def refused(self, *arguments: str, given: str = "") -> str:
        with pytest.raises(TidemillError) as error:
            self(*arguments, given=given)
        assert error.value.exit_code == 2
        text = str(error.value)
        assert not any(secret in text for secret in SECRETS)
        return text.replace(str(self.place), "DIR")

    def stored(self, name: str) -> dict[str, str]:
        found = tomllib.loads(self.file.read_text())[name]
        return {k: v.replace(str(self.place), "DIR") for k, v in found.items()}


@pytest.fixture
def auth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Auth:
    monkeypatch.setenv("TIDEMILL_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for name in ("trust.jks", "key.jks", "secret.txt", "emr.keytab", "krb5.conf"):
        (tmp_path / name).write_text(name)
    return Auth(tmp_path)


SSL = ("add", "my_ssl", "--type", "kafka_ssl", "--trust-store", "trust.jks")
BOTH = (*SSL, "--key-store", "key.jks")
KERBEROS = ("--type", "kerberos", "--principal", "orders@R", "--keytab", "emr.keytab")


# --- adding --------------------------------------------------------------------------------------


def test_passwords_come_from_standard_input_a_line_each(auth: Auth) -> None:
    auth(*BOTH, given="\n".join(SECRETS) + "\n")
    assert auth.stored("my_ssl") == {
        "type": "kafka_ssl",
        "trust_store": "DIR/trust.jks",
        "trust_store_password": "s3cret-trust",
        "key_store": "DIR/key.jks",
        "key_store_password": "s3cret-key",
        "key_password": "s3cret-inner",
    }
    assert auth.file.stat().st_mode & 0o777 == 0o600
    assert auth.file.parent.stat().st_mode & 0o777 == 0o700


def test_lines_that_are_empty_or_missing_are_no_passwords(auth: Auth) -> None:
    auth(*BOTH, given="\ns3cret-key\n")
    assert set(auth.stored("my_ssl")) == {"type", "trust_store", "key_store", "key_store_password"}


def test_a_password_may_stay_in_a_variable_or_in_a_file(auth: Auth) -> None:
    places = ("--trust-store-password-env", "TRUST", "--key-store-password-file", "secret.txt")
    auth(*BOTH, *places, given="s3cret-inner\n")
    stored = auth.stored("my_ssl")
    assert stored["trust_store_password"] == "${env:TRUST}"
    assert stored["key_store_password"] == "${file:DIR/secret.txt}"
    assert stored["key_password"] == "s3cret-inner"


def test_a_kerberos_login(auth: Auth) -> None:
    auth("add", "my_krb", *KERBEROS, "--krb5-conf", "krb5.conf")
    assert auth.stored("my_krb") == {
        "type": "kerberos",
        "principal": "orders@R",
        "keytab": "DIR/emr.keytab",
        "krb5_conf": "DIR/krb5.conf",
    }


def test_a_terminal_is_asked_without_echo(auth: Auth) -> None:
    driver, terminal = pty.openpty()
    process = subprocess.Popen(
        [COMMAND, *("auth", *SSL)],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(terminal)
    said = b""
    while b"empty: none" not in said:
        said += os.read(driver, 1000)
    os.write(driver, b"s3cret-trust\n")
    while True:
        try:
            more = os.read(driver, 1000)
        except OSError:  # Linux' word for the end of a terminal
            break
        if not more:
            break
        said += more
    os.close(driver)
    assert process.wait() == 0, said
    assert b"added 'my_ssl'" in said and b"s3cret" not in said
    assert auth.stored("my_ssl")["trust_store_password"] == "s3cret-trust"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("add", "a", "--type", "kafka_ssl"), "CLI-035: 'kafka_ssl' needs --trust-store"),
        (("add", "a", "--type", "kerberos", "--principal", "p"), "'kerberos' needs --keytab"),
        (
            ("add", "a", "--type", "kafka_ssl", "--trust-store", "gone.jks"),
            "CLI-035: --trust-store gone.jks: there is no such file",
        ),
        (
            (*SSL, "--principal", "p"),
            "CLI-035: --principal is of 'kerberos' and not of 'kafka_ssl'",
        ),
        (
            ("add", "a", *KERBEROS, "--key-password-env", "X"),
            "--key-password-env is of 'kafka_ssl'",
        ),
        ((*SSL, "--key-password-env", "X"), "CLI-035: --key-password-env needs --key-store"),
        (
            (*SSL, "--trust-store-password-env", "X", "--trust-store-password-file", "secret.txt"),
            "one of them is enough",
        ),
        (
            (*SSL, "--trust-store-password-file", "gone.txt"),
            "CLI-035: --trust-store-password-file gone.txt: there is no such file",
        ),
        (("remove", "a"), "CLI-036: there is no 'a' in DIR/home/credentials.toml"),
    ],
)
def test_what_cannot_be_is_told(auth: Auth, arguments: tuple[str, ...], told: str) -> None:
    assert told in auth.refused(*arguments)
    assert not auth.file.exists()


def test_no_option_takes_a_password_itself(auth: Auth) -> None:
    done = CliRunner().invoke(cli, ["auth", *SSL, "--trust-store-password", "s3cret-trust"])
    assert done.exit_code == 2
    assert not auth.file.exists()


# --- what is there already -----------------------------------------------------------------------


HAND_WRITTEN = """# mine
[first]  # the first
type = "kerberos"
principal = "a@R"
keytab = '/k'

[ "my_ssl" ]
type = "kafka_ssl"
trust_store = "t"
trust_store_password = "s3cret-trust"
# the last
[last]
type = "kerberos"
principal = "b@R"
keytab = "/k"
"""


def written(auth: Auth, text: str = HAND_WRITTEN, mode: int = 0o600) -> None:
    auth.file.parent.mkdir()
    auth.file.write_text(text)
    auth.file.chmod(mode)


def test_what_others_wrote_into_the_file_stays(auth: Auth) -> None:
    written(auth)
    auth("add", "more", *KERBEROS)
    text = auth.file.read_text()
    assert text.startswith(HAND_WRITTEN) and "[more]" in text
    auth("remove", "more")
    assert auth.file.read_text() == HAND_WRITTEN
    auth("remove", "my_ssl")
    assert "s3cret" not in auth.file.read_text()
    assert list(tomllib.loads(auth.file.read_text())) == ["first", "last"]
    assert auth.file.read_text().startswith("# mine\n[first]  # the first\n")


def test_an_entry_is_replaced_only_when_that_is_said(auth: Auth) -> None:
    written(auth)
    told = auth.refused(*SSL, given="new\n")
    assert "CLI-036: there is a 'my_ssl' in DIR/home/credentials.toml already" in told
    assert "--replace" in told
    auth(*SSL, "--replace", given="new\n")
    assert auth.stored("my_ssl")["trust_store_password"] == "new"
    assert set(tomllib.loads(auth.file.read_text())) == {"first", "my_ssl", "last"}


def test_a_file_that_cannot_be_changed_without_harm_stays_as_it_is(auth: Auth) -> None:
    text = 'my_ssl = { type = "kafka_ssl", trust_store = "t" }\n'
    written(auth, text)
    assert "CLI-036" in auth.refused("remove", "my_ssl")
    assert auth.file.read_text() == text


def test_names_and_values_of_any_kind_read_back(tmp_path: Path) -> None:
    file = Credentials(tmp_path / "c.toml")
    names = ["a.b", "with space", 'quo"te', "名前", "plain-1_2"]
    value = 'a"b\\c\nd\te\x7f${env:X} é名 # [x]'
    for name in names:
        file.add(Entry(name, KAFKA_SSL, {"trust_store": "/t", "trust_store_password": value}))
    read = Credentials(tmp_path / "c.toml").entries
    assert list(read) == names
    assert all(entry.values["trust_store_password"] == value for entry in read.values())
    for name in names:
        file.remove(name)
    assert Credentials(tmp_path / "c.toml").entries == {}


# --- reading -------------------------------------------------------------------------------------


def test_the_list_has_names_types_and_paths_and_no_password(auth: Auth) -> None:
    auth(*BOTH, "--trust-store-password-env", "TRUST", given="s3cret-key\n")
    auth("add", "my_krb", *KERBEROS)
    assert auth("list").replace(str(auth.place), "DIR") == (
        "my_krb  kerberos\n"
        "  principal: orders@R\n"
        "  keytab: DIR/emr.keytab\n"
        "my_ssl  kafka_ssl\n"
        "  trust store: DIR/trust.jks\n"
        "  trust store password: ${env:TRUST}\n"
        "  key store: DIR/key.jks\n"
        "  key store password: set\n"
    )
    lines = [json.loads(line) for line in auth("list", "--json").splitlines()]
    assert [line["name"] for line in lines] == ["my_krb", "my_ssl"]
    assert lines[1]["key_store_password"] == "set"


def test_a_password_with_a_reference_in_it_is_not_shown(auth: Auth) -> None:
    auth(*SSL, given="s3cret-trust${env:X}\n")
    assert "trust store password: set" in auth("list")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o620])
def test_a_file_that_others_may_use_is_not_read(auth: Auth, mode: int) -> None:
    written(auth, mode=mode)
    for arguments in (("list",), ("remove", "first"), ("add", "x", *KERBEROS)):
        told = auth.refused(*arguments)
        assert "CLI-033: DIR/home/credentials.toml holds passwords, and others" in told
        assert f"(mode {mode:04o})" in told
        assert "chmod 600 DIR/home/credentials.toml" in told
    assert auth.file.read_text() == HAND_WRITTEN


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[a]\ntype = "kafka_ssl"\ntrust_store_password = "s3cret-trust\n', "(at line 3, column"),
        ("[a]\ntype = 1\n", "CLI-034: DIR/home/credentials.toml: entry 'a' has no 'type' of"),
        ('[a]\ntype = "ssl"\n', "entry 'a' has no 'type' of 'kafka_ssl' or 'kerberos'"),
        ('a = "s3cret-key"\n', "entry 'a' is not a table"),
        ('[a]\ntype = "kafka_ssl"\n', "entry 'a' ('kafka_ssl') lacks 'trust_store'"),
        (
            '[a]\ntype = "kafka_ssl"\ntrust_store = "t"\ntruststore_password = "s3cret-trust"\n',
            "entry 'a' ('kafka_ssl') has no value 'truststore_password'\n"
            " hint: did you mean 'trust_store_password'?",
        ),
        ('[a]\ntype = "kafka_ssl"\ntrust_store = 5\n', "entry 'a': 'trust_store' is not a text"),
    ],
)
def test_a_malformed_file_is_told_without_what_is_in_it(auth: Auth, text: str, told: str) -> None:
    written(auth, text)
    assert told in auth.refused("list")


def test_an_empty_list_says_where_it_looked(auth: Auth) -> None:
    assert "credentials.toml has no entries" in auth("list")


def test_the_file_is_in_the_users_configuration_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("TIDEMILL_HOME", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert default_credentials() == tmp_path / "tidemill" / "credentials.toml"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    assert default_credentials() == Path.home() / ".config" / "tidemill" / "credentials.toml"


def test_another_file_may_be_given(auth: Auth) -> None:
    auth("add", "my_krb", *KERBEROS, "--credentials", "other.toml")
    assert "my_krb" in auth("list", "--credentials", "other.toml")
    assert "no entries" in auth("list")

"""Named authentication, as DLI has it: a table says a name, and a file of the user's says what stands behind it.

    [my_ssl]
    type = "kafka_ssl"
    trust_store = "/etc/kafka/client.truststore.jks"
    trust_store_password = "${env:TRUST_STORE_PASSWORD}"

In: `ssl_auth_name` and `krb_auth_name` of a table, and that file. Out: properties of the Kafka client. Law: the file is
for its owner alone, or it is not read; what it holds is never shown, but for names, types, paths and references; a
property comes from the script or from an entry, never from both.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from tidemill.errors import (
    Diagnostic,
    ScriptError,
    Span,
    did_you_mean,
    in_script_order,
    job_error,
    usage_error,
)
from tidemill.sql import ast
from tidemill.tables.kerberos import CONF_PROPERTY, JAAS, SERVICE_NAME, Login
from tidemill.tables.options import TEXT, Option, OptionReader, shown
from tidemill.tables.references import Unresolved, has_reference, is_reference, resolved

KAFKA_SSL = "kafka_ssl"
KERBEROS = "kerberos"

DEFAULT_SERVICE = "kafka"
"""The service's name where a table with `krb_auth_name` says none: DLI's manual has none to say."""


# --- what a table says -------------------------------------------------------------------------

SSL_AUTH_NAME = Option(
    "ssl_auth_name",
    TEXT,
    "Name of an entry of the type `kafka_ssl` (`tidemill auth`): its trust store and key store. DLI's.",
)
KRB_AUTH_NAME = Option(
    "krb_auth_name",
    TEXT,
    "Name of an entry of the type `kerberos` (`tidemill auth`): its principal, keytab and krb5.conf. DLI's.",
)
NAME_OPTIONS: tuple[Option[Any], ...] = (SSL_AUTH_NAME, KRB_AUTH_NAME)

# By option: the protocols it is for, and the mechanisms beside each; none where there is no SASL.
_COMBINATIONS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    SSL_AUTH_NAME.key: {"SSL": (), "SASL_SSL": ("GSSAPI", "PLAIN")},
    KRB_AUTH_NAME.key: {"SASL_PLAINTEXT": ("GSSAPI",), "SASL_SSL": ("GSSAPI",)},
}
_PROTOCOL = "properties.security.protocol"
_MECHANISM = "properties.sasl.mechanism"


@dataclass(frozen=True)
class NamedAuthentication:
    """The names on a table; one of them at least."""

    ssl: str | None = None
    krb: str | None = None

    def __post_init__(self) -> None:
        if self.ssl is None and self.krb is None:
            raise ValueError("a named authentication has a name")

    @property
    def names(self) -> list[tuple[str, str, str]]:
        """Option, the type of its entry, and the entry's name."""
        pairs = ((SSL_AUTH_NAME, KAFKA_SSL, self.ssl), (KRB_AUTH_NAME, KERBEROS, self.krb))
        return [(option.key, kind, name) for option, kind, name in pairs if name is not None]


def read_named(reader: OptionReader) -> NamedAuthentication | None:
    """The names that a table gives, and whether its other options go with them."""
    for option in NAME_OPTIONS:
        if reader.has(option):
            _check_combination(reader, option.key)
    ssl, krb = reader.get(SSL_AUTH_NAME), reader.get(KRB_AUTH_NAME)
    return NamedAuthentication(ssl, krb) if ssl is not None or krb is not None else None


def _check_combination(reader: OptionReader, option: str) -> None:
    protocols = _COMBINATIONS[option]
    protocol = (reader.text(_PROTOCOL) or "").upper()
    if has_reference(protocol):
        return
    if protocol not in protocols:
        _violated(reader, option, f"'{option}'", _PROTOCOL, tuple(protocols))
        return
    mechanisms = protocols[protocol]
    mechanism = reader.text(_MECHANISM) or ""
    if not mechanisms or has_reference(mechanism):
        return
    if mechanism not in mechanisms:
        _violated(reader, option, f"'{option}' beside '{protocol}'", _MECHANISM, mechanisms)
    elif mechanism == "PLAIN" and not reader.has(f"properties.{JAAS}"):
        reader.error(
            "OPT-070",
            f"'{option}' beside 'PLAIN' needs 'properties.{JAAS}', and there is none: the entry holds no password"
            " for it",
            reader.value_span(_MECHANISM),
            f"add 'properties.{JAAS}' = 'org.apache.kafka.common.security.plain.PlainLoginModule required"
            ' username="…" password="${env:…}";\'',
        )


def _violated(
    reader: OptionReader, option: str, who: str, key: str, expected: tuple[str, ...]
) -> None:
    given = reader.text(key)
    words = " or ".join(f"'{word}'" for word in expected)
    # With a mechanism SASL is meant, else the plainest.
    is_sasl = key == _MECHANISM or reader.has(_MECHANISM)
    but = "and there is none" if given is None else f"but it is '{shown(key, given)}'"
    reader.error(
        "OPT-070",
        f"{who} needs '{key}' = {words}, {but}",
        reader.key_span(option) if given is None else reader.value_span(key),
        f"{'add' if given is None else 'write'} '{key}' = '{expected[-1 if is_sasl else 0]}'",
    )


# --- entries -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Item:
    """One value of an entry: its key in the file, and the property of the client that it becomes."""

    key: str
    doc: str
    property: str | None = None
    required: bool = False
    is_file: bool = False
    is_secret: bool = False


KINDS: Mapping[str, tuple[Item, ...]] = {
    KAFKA_SSL: (
        Item(
            "trust_store",
            "Key store that holds the certificates to trust.",
            "ssl.truststore.location",
            required=True,
            is_file=True,
        ),
        Item("trust_store_password", "Its password.", "ssl.truststore.password", is_secret=True),
        Item(
            "key_store",
            "Key store with the client's own certificate, if the brokers ask for one.",
            "ssl.keystore.location",
            is_file=True,
        ),
        Item("key_store_password", "Its password.", "ssl.keystore.password", is_secret=True),
        Item(
            "key_password",
            "Password of the key in it, if it is another one.",
            "ssl.key.password",
            is_secret=True,
        ),
    ),
    KERBEROS: (
        Item("principal", "Who logs in: user@REALM, or service/host@REALM.", required=True),
        Item("keytab", "File with the keys of the principal.", required=True, is_file=True),
        Item("krb5_conf", "krb5.conf of the realm, if it is not the machine's.", is_file=True),
    ),
}
"""What the entries of each type hold."""


@dataclass(frozen=True)
class Entry:
    name: str
    type: str
    values: Mapping[str, str] = field(repr=False)

    def __post_init__(self) -> None:
        known = {item.key: item for item in KINDS[self.type]}
        lacking = [k for k, item in known.items() if item.required and not self.values.get(k)]
        if lacking or not set(self.values) <= set(known):
            raise ValueError(f"not the values of '{self.type}': {lacking}")

    def properties(
        self, directory: Path, resolve: Callable[[str, str], str] = lambda key, text: text
    ) -> dict[str, str]:
        """What the client is told; a path that is not absolute counts from `directory`. `resolve` gives what a value
        with references comes to; without it they stay."""
        values = {
            item.key: resolve(item.key, _anchored(directory, self.values[item.key], item.is_file))
            for item in KINDS[self.type]
            if item.key in self.values
        }
        if self.type == KAFKA_SSL:
            return {
                i.property: values[i.key]
                for i in KINDS[KAFKA_SSL]
                if i.property and i.key in values
            }
        login = Login(values["principal"], values["keytab"], values.get("krb5_conf"))
        conf = {CONF_PROPERTY: login.conf} if login.conf is not None else {}
        return {JAAS: login.jaas, **conf}

    @property
    def described(self) -> list[tuple[str, str]]:
        """What may be shown of it: paths, the principal and references; of a password only that there is one."""
        return [
            (item.key, self.values[item.key] if _may_show(item, self.values[item.key]) else "set")
            for item in KINDS[self.type]
            if item.key in self.values
        ]


def _may_show(item: Item, value: str) -> bool:
    return not item.is_secret or is_reference(value)


def _anchored(directory: Path, text: str, is_file: bool) -> str:
    """A value whose relative paths count from the directory: its own if it is one, and those of its references."""
    if has_reference(text):
        path = r"(?<=\$\{file:)[^{}\n]*"
        return re.sub(
            path, lambda found: str(directory / found[0].strip()), text, flags=re.IGNORECASE
        )
    return str(directory / Path(text).expanduser()) if is_file else text


# --- the file ----------------------------------------------------------------------------------


def default_credentials() -> Path:
    """TIDEMILL_HOME/credentials.toml, else that of the user's configuration directory."""
    home = os.environ.get("TIDEMILL_HOME")
    if home:
        return Path(home).expanduser() / "credentials.toml"
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser() / "tidemill" / "credentials.toml"


@dataclass(frozen=True)
class Credentials:
    """The file of named authentications; it is read when a name is looked up, and not before."""

    path: Path
    may_be_missing: bool = False
    """Whether names that cannot be looked up because there is no file are a warning, as `check` likes it on a machine
    where the job will not run."""

    @cached_property
    def entries(self) -> Mapping[str, Entry]:
        return {name: self._entry(name, given) for name, given in self._read().items()}

    @property
    def exists(self) -> bool:
        return self.path.exists()

    def _read(self) -> dict[str, Any]:
        try:
            with self.path.open("rb") as file:
                mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
                if mode & 0o077:
                    raise usage_error(
                        "CLI-033",
                        f"{self.path} holds passwords, and others than its owner may use it (mode {mode:04o})",
                        f"chmod 600 {self.path}",
                    )
                return tomllib.load(file)
        except FileNotFoundError:
            return {}
        except OSError as error:
            message = f"the credentials in {self.path} cannot be read: {error.strerror}"
            raise usage_error("CLI-034", message) from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            # Words of the TOML reader: what it expected and where, never the line.
            reason = str(error) if isinstance(error, tomllib.TOMLDecodeError) else "not UTF-8"
            message = f"the credentials in {self.path} cannot be read: {reason}"
            raise usage_error(
                "CLI-034", message, "write TOML, or use 'tidemill auth add'"
            ) from None

    def _entry(self, name: str, given: object) -> Entry:
        where = f"{self.path}: entry '{name}'"
        if not isinstance(given, dict):
            raise usage_error("CLI-034", f"{where} is not a table", f"write [{name}] above it")
        kind = given.get("type")
        if not isinstance(kind, str) or kind not in KINDS:
            raise usage_error(
                "CLI-034",
                f"{where} has no 'type' of {' or '.join(map(repr, KINDS))}",
                f'add type = "{KAFKA_SSL}" or type = "{KERBEROS}"',
            )
        values = {key: value for key, value in given.items() if key != "type"}
        known = [item.key for item in KINDS[kind]]
        for key, value in values.items():
            if key not in known:
                hint = did_you_mean(key, known, f"'{kind}' has {', '.join(known)}")
                raise usage_error("CLI-034", f"{where} ('{kind}') has no value '{key}'", hint)
            if not isinstance(value, str):
                raise usage_error("CLI-034", f"{where}: '{key}' is not a text", "put it in quotes")
        for item in KINDS[kind]:
            if item.required and not values.get(item.key):
                raise usage_error("CLI-034", f"{where} ('{kind}') lacks '{item.key}'", item.doc)
        return Entry(name, kind, values)

    # what a table's names mean

    def check(
        self, named: NamedAuthentication, options: tuple[ast.Option, ...]
    ) -> list[Diagnostic]:
        """What is wrong with the names of a table, whose options these are. Looks at no secret."""
        given = {option.key: option for option in options}
        found: list[Diagnostic] = []
        for option, kind, name in named.names:
            span = given[option].value_span if option in given else None
            entry = self.entries.get(name)
            if entry is None:
                found.append(self._missing(option, kind, name, span))
            elif entry.type != kind:
                names = [e.name for e in self.entries.values() if e.type == kind]
                found.append(
                    Diagnostic(
                        "OPT-072",
                        f"'{option}' needs an entry of the type '{kind}', but '{name}' in {self.path} is of the type"
                        f" '{entry.type}'",
                        span,
                        f"of that type are {', '.join(names)}"
                        if names
                        else f"tidemill auth add NAME --type {kind}",
                    )
                )
            else:
                found += self._given_twice(option, entry, given)
        return in_script_order(found)

    def _missing(self, option: str, kind: str, name: str, span: Span | None) -> Diagnostic:
        add = f"tidemill auth add {name} --type {kind} …"
        if not self.exists:
            return Diagnostic(
                "OPT-071",
                f"'{name}' of '{option}' cannot be looked up: there are no credentials in {self.path}",
                span,
                f"{add}, or give another file: --credentials FILE",
                "warning" if self.may_be_missing else "error",
            )
        known = [entry.name for entry in self.entries.values() if entry.type == kind]
        return Diagnostic(
            "OPT-071",
            f"there is no '{name}', which '{option}' names, in {self.path}",
            span,
            did_you_mean(name, known, f"'tidemill auth list' shows what is there; {add}"),
        )

    def _given_twice(
        self, option: str, entry: Entry, given: Mapping[str, ast.Option]
    ) -> list[Diagnostic]:
        keys = [f"properties.{key}" for key in entry.properties(self.path.parent)]
        return [
            Diagnostic(
                "OPT-073",
                f"'{key}' is given here and by '{entry.name}', which '{option}' names",
                given[key].span,
                f"leave '{key}' or '{option}' out",
            )
            for key in keys
            if key in given
        ]

    def added_to(
        self, properties: Mapping[str, str], named: NamedAuthentication | None
    ) -> dict[str, str]:
        """The properties of a table's client with what its names stand for."""
        found = dict(properties)
        for option, kind, name in named.names if named else ():
            entry = self.entries.get(name)
            if entry is None or entry.type != kind:
                # The file has been changed since the script was checked.
                missing = self._missing(option, kind, name, None)
                raise ScriptError([replace(missing, severity="error")])
            found |= entry.properties(
                self.path.absolute().parent, partial(self._resolved, entry.name)
            )
            if kind == KERBEROS:
                found.setdefault(SERVICE_NAME, DEFAULT_SERVICE)
        return found

    def _resolved(self, name: str, key: str, text: str) -> str:
        try:
            return resolved(text)
        except Unresolved as problem:
            message = f"'{key}' of '{name}' in {self.path}: {problem.reason}"
            raise job_error("OPT-017", message, problem.hint) from None

    # changes

    def add(self, entry: Entry, replaces: bool = False) -> None:
        """Write an entry into the file; what else is there stays to the letter."""
        text, entries = self._text(), self._read()
        if entry.name in entries:
            if not replaces:
                raise usage_error(
                    "CLI-036",
                    f"there is a '{entry.name}' in {self.path} already",
                    "--replace puts the new one in its place",
                )
            text = self._cut(text, entry.name)
        written = {"type": entry.type, **entry.values}
        lines = [f"[{_toml_key(entry.name)}]", *(f"{k} = {_toml(v)}" for k, v in written.items())]
        gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
        self._write(text + gap + "\n".join(lines) + "\n", {**entries, entry.name: written})

    def remove(self, name: str) -> None:
        text, entries = self._text(), self._read()
        if name not in entries:
            hint = did_you_mean(name, list(entries), "'tidemill auth list' shows what is there")
            raise usage_error("CLI-036", f"there is no '{name}' in {self.path}", hint)
        rest = {key: value for key, value in entries.items() if key != name}
        self._write(self._cut(text, name), rest)

    def _text(self) -> str:
        return self.path.read_text(encoding="utf-8") if self.exists else ""

    @staticmethod
    def _cut(text: str, name: str) -> str:
        """The text without one table: from its head up to the next."""
        spellings = {name, json.dumps(name, ensure_ascii=False), f"'{name}'"}
        kept: list[str] = []
        inside = False
        for line in text.splitlines(keepends=True):
            head = re.match(r"\s*\[\s*(.*?)\s*\]\s*(?:#.*)?$", line.rstrip("\r\n"))
            if head:
                inside = head[1] in spellings
            if not inside:
                kept.append(line)
        return "".join(kept).rstrip("\n") + "\n" if "".join(kept).strip() else ""

    def _write(self, text: str, expected: Mapping[str, Any]) -> None:
        if tomllib.loads(text) != expected:
            raise usage_error(
                "CLI-036",
                f"{self.path} is written in a way that cannot be changed here without harm",
                "change it with an editor",
            )
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Made for its owner alone, and put in its place when it is whole: a reader meets the old one or the new one.
        descriptor, name = tempfile.mkstemp(prefix=".credentials-", dir=self.path.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            Path(name).replace(self.path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def _toml(text: str) -> str:
    """A TOML string; JSON's is one but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml(name)

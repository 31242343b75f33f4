"""A secured embedded broker: its authority, its stores, its users, and what servers and clients are told of them.

In: what is asked for (TLS, mechanisms of SASL, users, a KDC). Out: files in the data directory, settings of the
broker, properties of its clients.

    DATA/security/security.json          what was asked for; holds no secret
    DATA/security/ca.p12, ca.pem         the authority: its key with what it signed, and its certificate alone
    DATA/security/broker.p12             the broker's key; ca.password opens both
    DATA/security/truststore.jks|p12     the authority's certificate for clients of Java
    DATA/security/users/NAME.jks|p12     a user's key and certificate; stores.password opens them and the trust stores
    DATA/security/users/NAME.password    a user's password of SASL
    DATA/security/broker.keytab          a copy of what --keytab names; krb5.conf says where the KDC is
    DATA/security/admin.properties       how `tidemill topic` gets in: the administrator, at a listener of its own
    DATA/security/options.sql            what tables say, for every mechanism and user

The last two are written at each start, since they hold the port. Law: every listener asks for credentials, the
broker's own two included; no secret stands on a command line or is readable by another user of the machine; what was
made once is the same at the next start.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import socket
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tidemill.broker.clients import jaas, parse_properties, write_properties
from tidemill.broker.java import keytool
from tidemill.errors import usage_error

HOST = "127.0.0.1"

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"

# Each mechanism and the login module of its clients.
MECHANISMS = {"PLAIN": PLAIN, "SCRAM-SHA-256": SCRAM, "SCRAM-SHA-512": SCRAM, "GSSAPI": KERBEROS}

DEFAULT_USER = "tidemill"
# Whom the broker's own listeners let in; super users, if an authorizer is switched on.
BROKER, ADMIN = "tidemill-broker", "tidemill-admin"

_VALID_DAYS = "3650"
_KDC_HINT = (
    "a test KDC on Debian: apt-get install krb5-kdc krb5-admin-server, krb5_newrealm, service krb5-kdc start, then"
    " kadmin.local -q 'addprinc -randkey kafka/localhost' and kadmin.local -q 'ktadd -k kafka.keytab kafka/localhost';"
    " start the broker with --kdc localhost:88 --keytab kafka.keytab (docs/security.md, 'A test KDC')"
)


@dataclass(frozen=True, slots=True)
class Security:
    """What is asked of a broker. Passwords that are None are made at random."""

    tls: bool = False
    mechanisms: tuple[str, ...] = ()
    users: Mapping[str, str | None] = field(default_factory=dict)
    store_password: str | None = None
    kdc: str | None = None
    keytab: Path | None = None
    principal: str | None = None

    def __post_init__(self) -> None:
        unknown = [m for m in self.mechanisms if m not in MECHANISMS]
        if unknown:
            known = ", ".join(MECHANISMS)
            message = f"the embedded broker has no SASL mechanism {unknown[0]}"
            raise usage_error("BRK-009", message, f"mechanisms are {known}")
        if not self.tls and not self.mechanisms:
            message = "users, a KDC or a keytab are given, but neither TLS nor SASL is asked for"
            raise usage_error("BRK-009", message, "add --tls, --sasl MECHANISM or both")
        if self.users and not self.tls and self.mechanisms == ("GSSAPI",):
            message = "the users of a broker with GSSAPI alone are the principals of its KDC"
            raise usage_error("BRK-009", message, "leave --user out, or add another --sasl")
        for name, password in self.users.items():
            # What JAAS, SCRAM's tool, a certificate's name and a file's name all take as it is.
            if not re.fullmatch(r"[A-Za-z0-9_][\w.#@$-]*", name, re.ASCII):
                message = f"'{name}' cannot be the name of a user"
                hint = "letters, digits and . _ - # @ $ can, as in instance#user"
                raise usage_error("BRK-009", message, hint)
            if name in (BROKER, ADMIN):
                raise usage_error("BRK-009", f"the user '{name}' is the broker's own")
            if password is not None and not re.fullmatch(r"""[^\s,"'\\]+""", password):
                message = f"the password of '{name}' holds a blank, comma, quote or backslash"
                raise usage_error("BRK-009", message)
        if "GSSAPI" not in self.mechanisms and (self.kdc or self.keytab or self.principal):
            message = "a KDC and a keytab are of use with GSSAPI only"
            raise usage_error("BRK-009", message, "add --sasl GSSAPI")
        if self.kdc is not None and not re.fullmatch(r"[\w.\[\]:-]+:\d{1,5}", self.kdc):
            message = f"'{self.kdc}' is not an address of the form HOST:PORT"
            raise usage_error("BRK-010", message, _KDC_HINT)

    @property
    def protocol(self) -> str:
        if not self.mechanisms:
            return "SSL"
        return "SASL_SSL" if self.tls else "SASL_PLAINTEXT"

    @property
    def words(self) -> str:
        return ": ".join(filter(None, (self.protocol, ", ".join(self.mechanisms))))

    @property
    def has_users(self) -> bool:
        return self.tls or any(m != "GSSAPI" for m in self.mechanisms)


# --- made once ----------------------------------------------------------------------------------


def find(place: Path) -> Secured | None:
    """What the broker of a data directory is secured by, if it is."""
    try:
        return Secured._load(place / "security")
    except (FileNotFoundError, NotADirectoryError):
        return None


def check(place: Path, asked: Security | None, is_new: bool) -> None:
    """Refuse what the directory cannot become, or what cannot be made at all, before anything is written."""
    found = find(place)
    if asked is None or (is_new and found is None):
        if asked is not None and "GSSAPI" in asked.mechanisms:
            _broker_principal(asked)
        return
    other = (
        "choose another directory with --data DIR, or delete this one if its topics are not needed"
    )
    if found is None:
        message = f"the broker of '{place}' was made without security, and its topics are there"
        raise usage_error("BRK-008", message, other)
    if is_new:
        return
    difference = found._difference(asked)
    if difference:
        message = f"the broker of '{place}' {difference}"
        hint = f"start it without these options, as it was made ({found.words}); {other}"
        raise usage_error("BRK-008", message, hint)
    if asked.kdc or asked.keytab:
        _broker_principal(asked)


def prepare(place: Path, asked: Security | None, is_new: bool) -> Secured | None:
    """What `check` let pass: the security that is there, or made now."""
    home = place / "security"
    found = find(place)
    if asked is None:
        return found
    if found is not None and is_new and found._difference(asked):
        # Of a start that failed before there was a topic.
        shutil.rmtree(home)
        found = None
    if found is None:
        fresh = place / "security.new"
        shutil.rmtree(fresh, ignore_errors=True)
        _make(fresh, asked)
        fresh.rename(home)
        found = Secured._load(home)
    elif asked.keytab is not None:
        # A KDC may move, and keys are renewed.
        _write_facts(home, found.asked, found.users, _make_kerberos(home, asked))
        found = Secured._load(home)
    return found


def _make(home: Path, asked: Security) -> None:
    home.mkdir(mode=0o700)
    (home / "users").mkdir(mode=0o700)
    users = dict(asked.users or {DEFAULT_USER: None}) if asked.has_users else {}
    for name in (BROKER, ADMIN):
        write_secret(home / f"{name}.password", _random())
    for name, password in users.items():
        write_secret(home / "users" / f"{name}.password", password or _random())
    if asked.tls:
        authority = Authority.make(home, asked.store_password or _random())
        authority.issue("broker", BROKER, home / "broker.p12", san="ip:127.0.0.1,dns:localhost")
        for name in users:
            authority.issue_user(name)
    principal = _make_kerberos(home, asked) if "GSSAPI" in asked.mechanisms else None
    _write_facts(home, asked, users, principal)


def _write_facts(home: Path, asked: Security, users: Iterable[str], principal: str | None) -> None:
    facts = {
        "tls": asked.tls,
        "mechanisms": asked.mechanisms,
        "users": list(users),
        "principal": principal,
    }
    write_secret(home / "security.json", json.dumps(facts))


def _random() -> str:
    # Begins with a letter: a dash in front would be an option to some tool.
    return "p" + secrets.token_urlsafe(24)


def write_secret(path: Path, text: str | bytes) -> None:
    """A file that only its owner reads, from its first byte on; one that is there is replaced."""
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        file.write(text.encode() if isinstance(text, str) else text)
    fresh.replace(path)


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority: `ca.p12` holds its key and every key that it signed."""

    home: Path

    @classmethod
    def make(cls, home: Path, store_password: str) -> Authority:
        made = cls(home)
        write_secret(home / "ca.password", _random())
        write_secret(home / "stores.password", store_password)
        name = ("-alias", "ca", "-dname", "CN=Tidemill embedded authority", "-ext", "bc:c")
        made._generate(*name, "-ext", "ku=keyCertSign,cRLSign")
        certificate = keytool(
            "-exportcert", "-rfc", "-alias", "ca", *made._own(), secrets=made._secrets()
        )
        write_secret(home / "ca.pem", certificate)
        for kind in ("jks", "p12"):
            store = (
                "-keystore",
                home / f"truststore.{kind}",
                *_kind(kind),
                "-storepass:env",
                "STORES",
            )
            given = ("-importcert", "-noprompt", "-alias", "ca", "-file", home / "ca.pem")
            keytool(*given, *store, secrets=made._secrets())
            (home / f"truststore.{kind}").chmod(0o600)
        return made

    def issue(
        self,
        alias: str,
        name: str,
        *stores: Path,
        san: str | None = None,
        days: tuple[int, int] | None = None,
    ) -> None:
        """A key for a name, signed, in stores of its own; `days`: valid from and to, counted from now."""
        names = ("-ext", f"san={san}") if san else ()
        validity = (
            ("-startdate", f"{days[0]:+d}d", "-validity", str(days[1] - days[0])) if days else ()
        )
        signed = ("-alias", alias, "-dname", f"CN={name}", "-signer", "ca", *names, *validity)
        self._generate(*signed, "-ext", "eku=serverAuth,clientAuth")
        own = alias == "broker"
        password = (
            "-deststorepass:env",
            "CA" if own else "STORES",
            "-destkeypass:env",
            "CA" if own else "STORES",
        )
        for store in stores:
            kind = store.suffix.removeprefix(".")
            source = (
                "-srckeystore",
                self.home / "ca.p12",
                "-srcstorepass:env",
                "CA",
                "-srcalias",
                alias,
            )
            target = ("-destkeystore", store, "-deststoretype", _kind(kind)[1], *password)
            keytool("-importkeystore", "-noprompt", *source, *target, secrets=self._secrets())
            store.chmod(0o600)

    def issue_user(self, name: str, days: tuple[int, int] | None = None) -> None:
        """A user's key stores, both kinds."""
        stem = self.home / "users" / name
        stores = [stem.with_name(f"{name}.{kind}") for kind in ("jks", "p12")]
        # Aliases know no upper case, names do.
        self.issue(f"user-{name.encode().hex()}", name, *stores, days=days)

    def _generate(self, *given: str) -> None:
        validity = () if "-validity" in given else ("-validity", _VALID_DAYS)
        key = ("-genkeypair", "-keyalg", "EC", "-groupname", "secp256r1", *validity)
        keytool(*key, *given, *self._own(), secrets=self._secrets())
        (self.home / "ca.p12").chmod(0o600)

    def _own(self) -> tuple[str | Path, ...]:
        return ("-keystore", self.home / "ca.p12", "-storetype", "PKCS12", "-storepass:env", "CA")

    def _secrets(self) -> dict[str, str]:
        return {
            "CA": _text(self.home / "ca.password"),
            "STORES": _text(self.home / "stores.password"),
        }


def _kind(suffix: str) -> tuple[str, str]:
    return "-storetype", {"jks": "JKS", "p12": "PKCS12"}[suffix]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


# --- Kerberos -----------------------------------------------------------------------------------


def keytab_principals(data: bytes) -> list[str]:
    """The principals whose keys a keytab holds, in its order; ValueError if it is none."""
    if data[:2] != b"\x05\x02":
        raise ValueError("it does not begin as a keytab does")
    found: dict[str, None] = {}
    at = 2
    try:
        while at + 4 <= len(data):
            (size,) = struct.unpack_from(">i", data, at)
            at += 4
            # A negative size is a hole where an entry was removed.
            if size > 0:
                found[_principal(data[at : at + size])] = None
            at += abs(size)
    except (struct.error, UnicodeDecodeError) as problem:
        raise ValueError("it is cut off or damaged") from problem
    return list(found)


def _principal(entry: bytes) -> str:
    (count,) = struct.unpack_from(">H", entry)
    texts, at = [], 2
    for _ in range(count + 1):
        (size,) = struct.unpack_from(">H", entry, at)
        texts.append(entry[at + 2 : at + 2 + size].decode())
        at += 2 + size
    realm, *names = texts
    return f"{'/'.join(names)}@{realm}"


def _broker_principal(asked: Security) -> str:
    """Who the broker is: `service/host@REALM`, of the keytab; the host must be a name of this machine's loopback."""
    if asked.kdc is None or asked.keytab is None:
        missing = " and ".join(
            name
            for name, value in (("--kdc HOST:PORT", asked.kdc), ("--keytab FILE", asked.keytab))
            if value is None
        )
        raise usage_error("BRK-010", f"--sasl GSSAPI needs {missing}", _KDC_HINT)
    try:
        held = keytab_principals(asked.keytab.read_bytes())
    except OSError as problem:
        message = f"the keytab '{asked.keytab}' cannot be read: {problem.strerror or problem}"
        raise usage_error("BRK-010", message, _KDC_HINT) from None
    except ValueError as problem:
        raise usage_error(
            "BRK-010", f"'{asked.keytab}' is not a keytab: {problem}", _KDC_HINT
        ) from None
    names = ", ".join(held) or "none"
    if asked.principal is not None:
        chosen = [p for p in held if asked.principal in (p, p.partition("@")[0])]
        if not chosen:
            message = f"the keytab '{asked.keytab}' holds no key of '{asked.principal}'"
            raise usage_error("BRK-010", message, f"its principals: {names}")
    else:
        chosen = [p for p in held if re.fullmatch(r"[^/@]+/[^/@]+@.+", p)]
    local = [p for p in chosen if _is_loopback(service_and_host(p)[1])]
    if not local:
        form = "of the form service/HOST@REALM with a HOST of the loopback"
        message = f"no principal of the keytab '{asked.keytab}' is {form}"
        raise usage_error("BRK-010", message, f"kafka/localhost would do; its principals: {names}")
    return local[0]


def service_and_host(principal: str) -> tuple[str, str]:
    service, _, host = principal.partition("@")[0].partition("/")
    return service, host


def _is_loopback(host: str) -> bool:
    try:
        return socket.gethostbyname(host).startswith("127.")
    except OSError:
        return False


def _make_kerberos(home: Path, asked: Security) -> str:
    principal = _broker_principal(asked)
    assert asked.keytab is not None and asked.kdc is not None
    write_secret(home / "broker.keytab", asked.keytab.read_bytes())
    write_secret(home / "krb5.conf", krb5_conf(principal.rpartition("@")[2], asked.kdc))
    return principal


def krb5_conf(realm: str, kdc: str) -> str:
    """What a client of one KDC has to know; nothing is asked of a name server."""
    return (
        f"[libdefaults]\n  default_realm = {realm}\n  dns_lookup_kdc = false\n  dns_lookup_realm = false\n"
        "  dns_canonicalize_hostname = false\n  rdns = false\n  udp_preference_limit = 1\n"
        f"[realms]\n  {realm} = {{\n    kdc = {kdc}\n  }}\n"
        f"[domain_realm]\n  localhost = {realm}\n"
    )


# --- what is there ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Secured:
    """The security of a data directory."""

    home: Path
    asked: Security
    users: tuple[str, ...]
    principal: str | None
    """The broker's own, of Kerberos."""

    @classmethod
    def _load(cls, home: Path) -> Secured:
        facts = json.loads(_text(home / "security.json"))
        asked = Security(facts["tls"], tuple(facts["mechanisms"]))
        return cls(home, asked, tuple(facts["users"]), facts["principal"])

    @property
    def protocol(self) -> str:
        return self.asked.protocol

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return self.asked.mechanisms

    @property
    def words(self) -> str:
        return self.asked.words

    @property
    def options_file(self) -> Path:
        return self.home / "options.sql"

    @property
    def krb5_conf(self) -> Path:
        return self.home / "krb5.conf"

    def password(self, user: str) -> str:
        return _text(self._password_file(user))

    def _password_file(self, user: str) -> Path:
        return (self.home / "users" if user in self.users else self.home) / f"{user}.password"

    def _difference(self, asked: Security) -> str | None:
        if (asked.tls, set(asked.mechanisms)) != (self.asked.tls, set(self.mechanisms)):
            return f"was made with {self.words}, not with {asked.words}"
        if asked.users and set(asked.users) != set(self.users):
            return f"was made with the users {', '.join(self.users)}, not with {', '.join(asked.users)}"
        return None

    # What the broker is told.

    def settings(self, port: int, internal_port: int, controller_port: int) -> dict[str, str]:
        """Listeners and who may come in; paths are relative to the data directory, which is where it runs."""
        client = "listener.name.client."
        host = service_and_host(self.principal)[1] if self.principal else HOST
        settings = {
            "listeners": (
                f"CLIENT://{HOST}:{port},INTERNAL://{HOST}:{internal_port},CONTROLLER://{HOST}:{controller_port}"
            ),
            # Kerberos asks for the service by the name of its host.
            "advertised.listeners": f"CLIENT://{host}:{port},INTERNAL://{HOST}:{internal_port}",
            "listener.security.protocol.map": (
                f"CLIENT:{self.protocol},INTERNAL:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT"
            ),
            "inter.broker.listener.name": "INTERNAL",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            # Of use once an authorizer is switched on.
            "super.users": f"User:{BROKER};User:{ADMIN}",
        }
        own = self._own_login()
        for listener, users in (("internal", (BROKER, ADMIN)), ("controller", (BROKER,))):
            settings[f"listener.name.{listener}.sasl.enabled.mechanisms"] = "PLAIN"
            settings[f"listener.name.{listener}.plain.sasl.jaas.config"] = jaas(
                PLAIN, {**own, **{f"user_{name}": self.password(name) for name in users}}
            )
        if self.mechanisms:
            settings[client + "sasl.enabled.mechanisms"] = ",".join(self.mechanisms)
        for mechanism in self.mechanisms:
            settings[f"{client}{mechanism.lower()}.sasl.jaas.config"] = self._server_login(
                mechanism
            )
        if self.principal:
            settings[client + "sasl.kerberos.service.name"] = service_and_host(self.principal)[0]
        if self.asked.tls:
            settings |= {client + key: value for key, value in self._server_tls().items()}
        return settings

    def _own_login(self) -> dict[str, str]:
        return {"username": BROKER, "password": self.password(BROKER)}

    def _server_login(self, mechanism: str) -> str:
        if mechanism == "PLAIN":
            return jaas(PLAIN, {f"user_{name}": self.password(name) for name in self.users})
        if mechanism == "GSSAPI":
            assert self.principal is not None
            return kerberos_login("security/broker.keytab", self.principal)
        return jaas(MECHANISMS[mechanism], {})

    def _server_tls(self) -> dict[str, str]:
        password = _text(self.home / "ca.password")
        return {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": "security/broker.p12",
            "ssl.keystore.password": password,
            "ssl.key.password": password,
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": "security/truststore.p12",
            "ssl.truststore.password": _text(self.home / "stores.password"),
            # Where SASL says who comes, a certificate is looked at if there is one.
            "ssl.client.auth": "requested" if self.mechanisms else "required",
            # The user's name and not the whole of the certificate's.
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
        }

    def format_arguments(self) -> list[str]:
        """What Kafka's storage tool is told: users of SCRAM are there from the first moment."""
        return [
            argument
            for mechanism in self.mechanisms
            if mechanism.startswith("SCRAM-")
            for user in self.users
            for argument in (
                "--add-scram",
                f"{mechanism}=[name={user},password={self.password(user)}]",
            )
        ]

    def jvm_options(self) -> list[str]:
        return ["-Djava.security.krb5.conf=security/krb5.conf"] if self.principal else []

    # What clients are told.

    def client(
        self, mechanism: str | None = None, user: str | None = None, kind: str = "jks"
    ) -> dict[str, str]:
        """Properties of a client as Kafka's Java client takes them; passwords are references to their files.

        mechanism and user: the first ones unless given.  kind: of the stores, jks or p12.
        """
        user = user or (self.users[0] if self.users else "")
        mechanism = mechanism or (self.mechanisms[0] if self.mechanisms else None)
        properties = {"security.protocol": self.protocol}
        if mechanism is not None:
            properties["sasl.mechanism"] = mechanism
        if mechanism == "GSSAPI":
            assert self.principal is not None
            properties["sasl.kerberos.service.name"] = service_and_host(self.principal)[0]
        elif mechanism is not None:
            login = {"username": user, "password": reference(self._password_file(user))}
            properties["sasl.jaas.config"] = jaas(MECHANISMS[mechanism], login)
        if self.asked.tls:
            password = reference(self.home / "stores.password")
            properties["ssl.truststore.location"] = str(self.home / f"truststore.{kind}")
            properties["ssl.truststore.password"] = password
        if self.asked.tls and mechanism is None:
            properties["ssl.keystore.location"] = str(self.home / "users" / f"{user}.{kind}")
            properties["ssl.keystore.password"] = password
            properties["ssl.key.password"] = password
        return properties

    def local_client(self, bootstrap: str) -> dict[str, str]:
        """What tables on this machine are given: a user's, or the administrator's where users are a KDC's."""
        mechanism = next((m for m in self.mechanisms if m != "GSSAPI"), None)
        if mechanism is None and self.mechanisms:
            login = {"username": ADMIN, "password": reference(self._password_file(ADMIN))}
            return {**self.admin(), "sasl.jaas.config": jaas(PLAIN, login)}
        return {"bootstrap.servers": bootstrap, **self.client(mechanism)}

    def admin(self) -> dict[str, str]:
        """The administrator's properties, its address and password among them."""
        return parse_properties(_text(self.home / "admin.properties"))

    def write_client_files(self, port: int, internal_port: int) -> None:
        """What says how to get in, at the ports of this start."""
        login = {"username": ADMIN, "password": self.password(ADMIN)}
        admin = {
            "bootstrap.servers": f"{HOST}:{internal_port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": jaas(PLAIN, login),
        }
        write_secret(self.home / "admin.properties", write_properties(admin))
        mechanisms: tuple[str | None, ...] = self.mechanisms or (None,)
        parts = [
            f"-- Options of Kafka tables on the embedded broker at {HOST}:{port}, {self.words}."
        ]
        parts += [
            "-- Passwords are read from the files when a job starts. Stores are there as .p12, too."
        ]
        for mechanism in mechanisms:
            for user in self.users if mechanism != "GSSAPI" else ("",):
                who = f"user {user}" if user else "a principal of the KDC"
                parts.append(f"\n-- {', '.join(filter(None, (mechanism, who)))}")
                parts.append(self.option_text(port, mechanism, user))
        write_secret(self.options_file, "\n".join(parts) + "\n")

    def option_text(self, port: int, mechanism: str | None = None, user: str | None = None) -> str:
        """What a table says between the parentheses of WITH, for a person to copy."""
        mechanism = mechanism or (self.mechanisms[0] if self.mechanisms else None)
        host = (
            service_and_host(self.principal)[1]
            if self.principal and mechanism == "GSSAPI"
            else HOST
        )
        text = options_text({"bootstrap.servers": f"{host}:{port}", **self.client(mechanism, user)})
        if mechanism == "GSSAPI":
            assert self.principal is not None
            text += (
                "\n-- and in front of the tables, or in a file for --job-config:"
                f"\n-- SET 'security.kerberos.login.principal' = 'YOU@{self.principal.rpartition('@')[2]}';"
                "\n-- SET 'security.kerberos.login.keytab' = 'YOUR.keytab';"
                f"\n-- SET 'security.kerberos.login.conf' = '{_quoted(str(self.krb5_conf))}';"
                "\n-- SET 'security.kerberos.login.contexts' = 'KafkaClient';"
            )
        return text


def reference(path: Path) -> str:
    """How an option's value names a file that holds the secret."""
    return f"${{file:{path}}}"


def kerberos_login(keytab: str, principal: str) -> str:
    options = {"useKeyTab": "true", "storeKey": "true", "keyTab": keytab, "principal": principal}
    return jaas(KERBEROS, options)


def options_text(properties: Mapping[str, str]) -> str:
    """Client properties as the options of a table."""
    lines = (f"  'properties.{key}' = '{_quoted(value)}'" for key, value in properties.items())
    return ",\n".join(lines)


def _quoted(text: str) -> str:
    return text.replace("'", "''")


def describe(secured: Secured, port: int) -> Iterable[str]:
    """What a person who starts the broker has to know: the options of the first user, for every mechanism."""
    for mechanism in secured.mechanisms or (None,):
        yield f"table options{f' ({mechanism})' if mechanism else ''}:"
        yield secured.option_text(port, mechanism)

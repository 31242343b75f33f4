"""Client properties in the form that Kafka's own tools take (`--command-config FILE`), told to librdkafka.

In: a file of Java's properties, or the mapping that it is. Out: what the client library beneath `topics` is
configured with: the user out of a JAAS line, certificates out of key stores and trust stores (JKS, PKCS12, PEM). Law:
what cannot be told to the library is refused by name; no message holds a value of a secret.
"""

from __future__ import annotations

import atexit
import re
import secrets
import shutil
import socket
import struct
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tidemill.broker.java import ToolFailed, keytool
from tidemill.errors import did_you_mean, usage_error

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

# Mechanisms that the library does with a user's name and password.
_WITH_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

# What is read here; all else in a file is of no use to the topic commands.
_READ = frozenset(
    {"bootstrap.servers", "client.id", "security.protocol", "sasl.mechanism", "sasl.jaas.config"}
    | {f"ssl.truststore.{name}" for name in ("location", "password", "type", "certificates")}
    | {
        f"ssl.keystore.{name}"
        for name in ("location", "password", "type", "certificate.chain", "key")
    }
    | {"ssl.key.password", "ssl.endpoint.identification.algorithm"}
)

_STORES = {b"\xfe\xed\xfe\xed": "JKS", b"\xce\xce\xce\xce": "JCEKS", b"0": "PKCS12", b"-": "PEM"}
"""Kinds of stores by their first bytes, as Java itself tells JKS from PKCS12."""


# --- the form of Java ---------------------------------------------------------------------------


def read_properties(path: Path) -> dict[str, str]:
    """A file for `--properties`, as `--command-config` of Kafka's own tools takes it."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "it is not UTF-8"
        message = f"the properties file '{path}' cannot be read: {reason}"
        raise usage_error("KAFKA-010", message) from None
    return parse_properties(text)


_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """java.util.Properties: `key=value`, `key: value` or `key value`, with continued lines and escapes."""
    found: dict[str, str] = {}
    lines = iter(re.split(r"\r\n|\r|\n", text))
    for line in lines:
        line = line.lstrip(" \t\f")
        if not line or line[0] in "#!":
            continue
        # A line goes on if an odd number of backslashes ends it.
        while re.search(r"(?<!\\)(?:\\\\)*\\$", line):
            line = line[:-1] + next(lines, "").lstrip(" \t\f")
        parts = re.fullmatch(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", line, re.DOTALL)
        assert parts is not None
        found[_unescaped(parts[1])] = _unescaped(parts[2])
    return found


def _unescaped(text: str) -> str:
    def one(escape: re.Match[str]) -> str:
        if escape[1]:
            return chr(int(escape[1], 16))
        return _ESCAPES.get(escape[2], escape[2])

    return re.sub(r"\\(?:u([0-9A-Fa-f]{4})|(.))", one, text, flags=re.DOTALL)


def write_properties(properties: Mapping[str, str]) -> str:
    """The text that `parse_properties` and Java read back."""
    return "".join(f"{key}={value}\n".replace("\\", "\\\\") for key, value in properties.items())


def jaas(module: str, options: Mapping[str, str]) -> str:
    """A line for `sasl.jaas.config`."""
    words = [f"{_jaas_name(key)}={_jaas_quoted(value)}" for key, value in options.items()]
    return " ".join([module, "required", *words]) + ";"


def _jaas_name(name: str) -> str:
    # Kafka cuts a word at a # or @; in quotes a name may hold them.
    return name if re.fullmatch(r"[A-Za-z_][\w$-]*", name, re.ASCII) else _jaas_quoted(name)


def _jaas_quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def jaas_options(line: str) -> dict[str, str]:
    """The options of the one entry in a `sasl.jaas.config`; ValueError says what is wrong with it.

    A little more than Kafka's parser takes: everything but blanks, quotes, `=`, `;` and comments belongs to a word.
    """
    tokens = [
        _jaas_text(quoted) if quoted else word or sign
        for quoted, word, sign in re.findall(
            r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|(?:/\*.*?\*/|//[^\n]*|([^\s"'=;]+))|([=;])""",
            line,
            re.DOTALL,
        )
        if quoted or word or sign
    ]
    if not tokens or tokens[-1] != ";":
        raise ValueError("it does not end with a semicolon")
    body = tokens[2:-1]
    if len(tokens) < 3 or len(body) % 3 or any(sign != "=" for sign in body[1::3]):
        raise ValueError('it is not of the form: MODULE required name="value" …;')
    return dict(zip(body[0::3], body[2::3], strict=True))


def _jaas_text(quoted: str) -> str:
    return re.sub(r"\\(.)", r"\1", quoted[1:-1], flags=re.DOTALL)


# --- what is spoken at an address ---------------------------------------------------------------


def speaks_kafka(host: str, port: int, timeout: float = 5) -> bool:
    """Whether a Kafka answers at the port, without TLS: it tells everyone its versions, who has not logged in, too."""
    # Size, ApiVersions request of version 0, correlation 0, no client id.
    request = struct.pack(">ihhih", 10, 18, 0, 0, -1)
    try:
        with socket.create_connection((host, port), timeout=timeout) as connection:
            connection.sendall(request)
            # Size and correlation: a TLS listener sends an alert of seven bytes.
            return connection.recv(8)[4:] == bytes(4)
    except OSError:
        return False


def speaks_tls(host: str, port: int, timeout: float = 5) -> bool:
    """Whether one shakes hands at the port, whoever it is."""
    import ssl  # only for who asks

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), timeout=timeout) as connection,
            context.wrap_socket(connection),
        ):
            return True
    except ssl.SSLError as problem:
        return "ALERT" in (problem.reason or "")
    except OSError:
        return False


# --- the form of librdkafka ---------------------------------------------------------------------


def unused(properties: Mapping[str, str]) -> list[str]:
    """The properties that the topic commands have no use for."""
    return sorted(key for key in properties if key not in _READ)


def settings(properties: Mapping[str, str]) -> dict[str, Any]:
    """What the library is told of how to get in."""
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        message = f"security.protocol '{protocol}' is none of Kafka's"
        raise usage_error(
            "KAFKA-010", message, did_you_mean(protocol, PROTOCOLS, f"{', '.join(PROTOCOLS)}")
        )
    told: dict[str, Any] = {"security.protocol": protocol}
    if "client.id" in properties:
        told["client.id"] = properties["client.id"]
    if protocol.startswith("SASL_"):
        told |= _sasl(properties)
    if protocol.endswith("SSL"):
        told |= _trust(properties) | _key(properties)
        # Java's empty text: the certificate need not name the host.
        check = properties.get("ssl.endpoint.identification.algorithm", "https").strip()
        told["ssl.endpoint.identification.algorithm"] = check.lower() or "none"
    return told


def _sasl(properties: Mapping[str, str]) -> dict[str, Any]:
    mechanism = properties.get("sasl.mechanism", "GSSAPI").upper()
    if mechanism not in _WITH_PASSWORD:
        kerberos = " (Kerberos)" if mechanism == "GSSAPI" else ""
        message = f"the topic commands cannot log in with the mechanism {mechanism}{kerberos}: their library lacks it"
        hint = (
            f"they can with {', '.join(_WITH_PASSWORD)} and with client certificates; Kafka's own kafka-topics.sh and"
            " kafka-console-consumer.sh take the same file as --command-config; tables of scripts know every mechanism"
        )
        raise usage_error("KAFKA-011", message, hint)
    line = properties.get("sasl.jaas.config")
    if line is None:
        raise usage_error(
            "KAFKA-010", f"sasl.jaas.config is missing, which {mechanism} needs", _JAAS_HINT
        )
    try:
        options = jaas_options(line)
    except ValueError as problem:
        raise usage_error(
            "KAFKA-010", f"sasl.jaas.config cannot be read: {problem}", _JAAS_HINT
        ) from None
    if "username" not in options or "password" not in options:
        raise usage_error(
            "KAFKA-010", "sasl.jaas.config names no username and password", _JAAS_HINT
        )
    return {
        "sasl.mechanism": mechanism,
        "sasl.username": options["username"],
        "sasl.password": options["password"],
    }


_JAAS_HINT = 'for example: org.apache.kafka.common.security.plain.PlainLoginModule required username="…" password="…";'


def _trust(properties: Mapping[str, str]) -> dict[str, Any]:
    if "ssl.truststore.certificates" in properties:
        return {"ssl.ca.pem": properties["ssl.truststore.certificates"]}
    if "ssl.truststore.location" not in properties:
        return {}  # what the machine trusts
    path, kind = _store(properties, "truststore")
    if kind == "PEM":
        return {"ssl.ca.location": str(path)}
    # A trust store may be read without its password; then it is not checked for changes.
    password = properties.get("ssl.truststore.password", "")
    return {"ssl.ca.pem": _certificates(path, path.stat().st_mtime_ns, kind, password)}


def _key(properties: Mapping[str, str]) -> dict[str, Any]:
    key_password = properties.get("ssl.key.password")
    opened = {"ssl.key.password": key_password} if key_password else {}
    if "ssl.keystore.key" in properties:
        chain = properties.get("ssl.keystore.certificate.chain", "")
        return {
            "ssl.key.pem": properties["ssl.keystore.key"],
            "ssl.certificate.pem": chain,
            **opened,
        }
    if "ssl.keystore.location" not in properties:
        return {}
    path, kind = _store(properties, "keystore")
    if kind == "PEM":
        return {"ssl.key.location": str(path), "ssl.certificate.location": str(path), **opened}
    password = properties.get("ssl.keystore.password", "")
    if kind != "PKCS12":
        path, password = _as_pkcs12(
            path, path.stat().st_mtime_ns, kind, password, key_password or password
        )
    return {"ssl.keystore.location": str(path), "ssl.keystore.password": password}


def _store(properties: Mapping[str, str], which: str) -> tuple[Path, str]:
    path = Path(properties[f"ssl.{which}.location"]).expanduser()
    try:
        with path.open("rb") as file:
            begin = file.read(4)
    except OSError as problem:
        message = f"ssl.{which}.location: '{path}' cannot be read: {problem.strerror or problem}"
        raise usage_error("KAFKA-010", message) from None
    for first, kind in _STORES.items():
        if begin.startswith(first):
            return path, kind
    message = f"ssl.{which}.location: '{path}' is no store of the kinds JKS, PKCS12 or PEM"
    raise usage_error("KAFKA-010", message)


@cache
def _certificates(path: Path, changed: int, kind: str, password: str) -> str:
    """All certificates of a trust store as PEM. `changed`: a file that is written anew is read anew."""
    given = ("-list", "-rfc", "-keystore", path, "-storetype", kind)
    opened = ("-storepass:env", "STORE") if password else ()
    said = _opened("truststore", path, *given, *opened, secrets={"STORE": password})
    found = re.findall(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", said, re.DOTALL)
    if not found:
        message = f"ssl.truststore.location: '{path}' holds no certificate"
        raise usage_error("KAFKA-010", message)
    return "\n".join(found) + "\n"


@cache
def _as_pkcs12(
    path: Path, changed: int, kind: str, password: str, key_password: str
) -> tuple[Path, str]:
    """A key store as the library reads it, in a directory of this process."""
    fresh = secrets.token_hex(16)
    target = _directory() / f"{secrets.token_hex(8)}.p12"
    source = ("-srckeystore", path, "-srcstoretype", kind, "-srcstorepass:env", "STORE")
    made = ("-destkeystore", target, "-deststoretype", "PKCS12", "-deststorepass:env", "FRESH")
    # Each entry of a store has its own password; only an import by alias can say it.
    listed = _opened("keystore", path, "-list", "-keystore", path, "-storetype", kind, "-storepass:env", "STORE",
                     secrets={"STORE": password})  # fmt: skip
    keys = re.findall(r"^(.+?), [^\n]*PrivateKeyEntry", listed, re.MULTILINE)
    if not keys:
        raise usage_error("KAFKA-010", f"ssl.keystore.location: '{path}' holds no private key")
    alias = ("-srcalias", keys[0], "-srckeypass:env", "KEY", "-destkeypass:env", "FRESH")
    _opened("keystore", path, "-importkeystore", "-noprompt", *source, *made, *alias,
            secrets={"STORE": password, "KEY": key_password, "FRESH": fresh})  # fmt: skip
    target.chmod(0o600)
    return target, fresh


@cache
def _directory() -> Path:
    made = tempfile.mkdtemp(prefix="tidemill-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)


def _opened(which: str, path: Path, *given: str | Path, secrets: Mapping[str, str]) -> str:
    try:
        return keytool(*given, secrets=secrets)
    except ToolFailed as problem:
        message = f"ssl.{which}.location: '{path}' cannot be opened: {problem}"
        raise usage_error("KAFKA-010", message, f"check ssl.{which}.password") from None

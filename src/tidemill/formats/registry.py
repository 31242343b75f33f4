"""A Confluent schema registry, by its REST protocol.

In: the options of a registry format. Out: schemas by their number, and numbers for schemas. What has been found is
kept for the life of the process, so that a job asks once for each schema and not for each batch. urllib is enough for
two requests; the registry's own Python client would bring an HTTP library and its own Avro.
Law: an error names the address, the subject and the number, and never a password or token.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from tidemill.errors import JobError, job_error

TIMEOUT_SECONDS = 20
_CONTENT = "application/vnd.schemaregistry.v1+json"

# Options of the table → properties of Confluent's client, which can also be given by themselves.
_PROPERTIES = {
    "ssl.keystore.location": "schema.registry.ssl.keystore.location",
    "ssl.keystore.password": "schema.registry.ssl.keystore.password",
    "ssl.truststore.location": "schema.registry.ssl.truststore.location",
    "ssl.truststore.password": "schema.registry.ssl.truststore.password",
    "basic-auth.credentials-source": "basic.auth.credentials.source",
    "basic-auth.user-info": "basic.auth.user.info",
    "bearer-auth.credentials-source": "bearer.auth.credentials.source",
    "bearer-auth.token": "bearer.auth.token",
}


class NotFound(Exception):
    """The registry has no such schema."""


@dataclass(frozen=True)
class _Answer:
    status: int
    body: Mapping[str, Any]

    @property
    def message(self) -> str:
        return str(self.body.get("message", "no message"))


@dataclass
class Registry:
    urls: tuple[str, ...]
    """Without credentials; the first that answers is asked."""
    headers: Mapping[str, str] = field(repr=False)
    tls: ssl.SSLContext | None = field(repr=False)
    _schemas: dict[int, str] = field(default_factory=dict, repr=False)
    _numbers: dict[tuple[str, str], int] = field(default_factory=dict, repr=False)

    def schema(self, number: int) -> str:
        """The JSON of a schema; NotFound if there is none of that number."""
        if number not in self._schemas:
            answer = self._ask(f"/schemas/ids/{number}")
            if answer.status == 404:
                raise NotFound(f"Could not find schema with id {number} in registry {self._shown}")
            self._check(answer, f"schema {number}")
            if answer.body.get("schemaType", "AVRO") != "AVRO":
                raise NotFound(f"schema {number} is no Avro schema but {answer.body['schemaType']}")
            self._schemas[number] = str(answer.body["schema"])
        return self._schemas[number]

    def register(self, subject: str, schema: str) -> int:
        """The number of a schema, which is registered under the subject if it is not."""
        known = self._numbers.get((subject, schema))
        if known is not None:
            return known
        path = f"/subjects/{urllib.parse.quote(subject, safe='')}/versions"
        answer = self._ask(path, {"schema": schema})
        if answer.status == 409:
            # Tasks register at the same time, and Apicurio takes the first and refuses the others,
            # "already exists". By now the schema is there, unless it is refused for what it says.
            answer = self._ask(path, {"schema": schema})
        if answer.status in (409, 422):
            raise job_error(
                "FMT-008",
                f"Could not register schema in registry: {self._shown} refuses it for subject '{subject}':"
                f" {answer.message}",
                "make the table's columns compatible with the schemas that the subject has (a new column nullable),"
                " or name another 'subject'",
            )
        self._check(answer, f"subject '{subject}'")
        number = int(answer.body["id"])
        self._numbers[subject, schema] = number
        return number

    @property
    def _shown(self) -> str:
        return ", ".join(self.urls)

    def _check(self, answer: _Answer, what: str) -> None:
        if answer.status in (401, 403):
            raise job_error(
                "FMT-009",
                f"the schema registry {self._shown} refuses access to {what}: {answer.status} {answer.message}",
                "check 'basic-auth.user-info' or 'bearer-auth.token'",
            )
        if answer.status != 200:
            raise job_error(
                "FMT-007",
                f"the schema registry {self._shown} does not answer for {what}: {answer.status} {answer.message}",
            )

    def _ask(self, path: str, body: Mapping[str, Any] | None = None) -> _Answer:
        failures = []
        hint = "check the option 'url', and that the registry is up"
        for url in self.urls:
            try:
                answer = self._ask_one(url + path, body)
            except (OSError, http.client.HTTPException) as error:
                reason = error.reason if isinstance(error, urllib.error.URLError) else error
                if isinstance(reason, ssl.SSLCertVerificationError):
                    hint = (
                        "the registry's certificate must be for the host in 'url', and signed by one that"
                        " 'ssl.truststore.location' holds"
                    )
                failures.append(f"{url}: {reason}")
                continue
            if answer.status < 500:
                return answer
            failures.append(f"{url}: {answer.status} {answer.message}")
        raise job_error(
            "FMT-007",
            f"the schema registry cannot be reached: {'; '.join(failures)}",
            hint,
        )

    def _ask_one(self, url: str, body: Mapping[str, Any] | None) -> _Answer:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, dict(self.headers))
        try:
            with urllib.request.urlopen(
                request, timeout=TIMEOUT_SECONDS, context=self.tls
            ) as found:
                return _Answer(found.status, _members(found.read()))
        except urllib.error.HTTPError as refused:
            with refused:
                return _Answer(refused.code, _members(refused.read()))


def _members(body: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    return (
        found
        if isinstance(found, dict)
        else {"message": "the answer is not that of a schema registry"}
    )


# ---- from options ----------------------------------------------------------------------------------------


def registry_of(options: Mapping[str, object]) -> Registry:
    """One for equal options in a process."""
    given: dict[str, str] = {}
    family = options.get("properties.*")
    if isinstance(family, Mapping):
        given.update(family)
    given.update(
        {name: str(options[o]) for o, name in _PROPERTIES.items() if options.get(o) is not None}
    )
    return _registry(str(options["url"]), tuple(sorted(given.items())))


@lru_cache(maxsize=32)
def _registry(url: str, given: tuple[tuple[str, str], ...]) -> Registry:
    properties = dict(given)
    urls, in_url = [], None
    for one in url.split(","):
        parts = urllib.parse.urlsplit(one.strip().rstrip("/"))
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise job_error(
                "FMT-007",
                "the option 'url' is no address of a schema registry",
                "such as 'http://localhost:8081', or several with commas between them",
            )
        if parts.username:
            name, password = (
                urllib.parse.unquote(x or "") for x in (parts.username, parts.password)
            )
            in_url = f"{name}:{password}"
        urls.append(parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl())
    headers = {"Accept": f"{_CONTENT}, application/json", "Content-Type": _CONTENT}
    headers |= _authorization(properties, in_url)
    return Registry(tuple(urls), headers, _tls(properties))


def _authorization(properties: Mapping[str, str], in_url: str | None) -> dict[str, str]:
    for kind, known in (("basic", ("URL", "USER_INFO")), ("bearer", ("STATIC_TOKEN",))):
        source = properties.get(f"{kind}.auth.credentials.source")
        if source is not None and source.upper() not in known:
            raise job_error(
                "FMT-009",
                f"the credentials' source '{source}' is not supported",
                f"'{kind}-auth.credentials-source' is {' or '.join(known)}",
            )
    token = properties.get("bearer.auth.token")
    if token is not None:
        return {"Authorization": f"Bearer {token}"}
    from_url = properties.get("basic.auth.credentials.source", "").upper() == "URL"
    user = in_url if from_url else properties.get("basic.auth.user.info", in_url)
    if user is None:
        return {}
    return {"Authorization": f"Basic {base64.b64encode(user.encode()).decode()}"}


def _tls(properties: Mapping[str, str]) -> ssl.SSLContext | None:
    prefix = "schema.registry.ssl."
    trusted, own = (properties.get(f"{prefix}{s}store.location") for s in ("trust", "key"))
    if trusted is None and own is None:
        return None
    try:
        context = ssl.create_default_context()
        if trusted is not None:
            password = properties.get(f"{prefix}truststore.password")
            context.load_verify_locations(cadata=_certificates(trusted, password))
        if own is not None:
            context.load_cert_chain(
                own, password=properties.get(f"{prefix}keystore.password") or ""
            )
    except (OSError, ValueError) as error:
        reason = (
            error.strerror
            if isinstance(error, OSError) and error.strerror
            else type(error).__name__
        )
        raise job_error(
            "FMT-009",
            f"the key or trust store of the schema registry cannot be read: {reason}",
            "a key store is a PEM file with key and certificates: openssl pkcs12 -in store.p12 -out store.pem;"
            " a trust store is a PEM file, or one that Java's keytool reads",
        ) from None
    return context


def _certificates(location: str, password: str | None) -> str:
    with open(location, "rb") as store:
        content = store.read()
    if b"-----BEGIN CERTIFICATE" in content:
        return content.decode()
    return _java_certificates(location, password)


def _java_certificates(location: str, password: str | None) -> str:
    """The certificates in a store of Java's. The password goes by the environment, where nobody lists it."""
    home = os.environ.get("JAVA_HOME")
    keytool = os.path.join(home, "bin", "keytool") if home else "keytool"
    command = [keytool, "-list", "-rfc", "-keystore", location, "-storepass:env", "STORE_PASSWORD"]
    environment = {**os.environ, "STORE_PASSWORD": password or ""}
    listed = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if "BEGIN CERTIFICATE" not in listed.stdout:
        raise ValueError("no certificates")
    return listed.stdout


__all__ = ["JobError", "NotFound", "Registry", "registry_of"]

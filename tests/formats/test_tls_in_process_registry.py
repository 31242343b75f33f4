"""Registry formats over TLS, against `harness.registry`, a registry in this process with a certificate of its own."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from harness import registry as harness
from harness.certificates import PASSWORD, Identity, make_identity
from harness.registry import SchemaRegistry
from tidemill import types as t
from tidemill.errors import Diagnostic, JobError
from tidemill.formats import avro_confluent

FIELDS = (t.Field("a", t.INT),)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return make_identity(tmp_path_factory.mktemp("server"), "registry")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return make_identity(tmp_path_factory.mktemp("client"), "ann")


@contextmanager
def running(
    server: Identity, only: Identity | None = None, **settings: str
) -> Iterator[SchemaRegistry]:
    """`only`: who may come."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(server.pem)
    if only is not None:
        tls.verify_mode = ssl.CERT_REQUIRED
        tls.load_verify_locations(only.certificate)
    with harness.running(tls, **settings) as registry:
        assert registry.url.startswith("https://")
        yield registry


def travel(registry: SchemaRegistry, **options: object) -> list[int]:
    """Write and read numbers: both ask the registry."""
    given = {"url": registry.url, "subject": "s", **options}
    records = avro_confluent.encoder(FIELDS, given).encode([pa.array([1, 2], pa.int32())])
    [numbers] = avro_confluent.decoder(FIELDS, given).decode(records).columns
    assert registry.requests == ["POST /subjects/s/versions", "GET /schemas/ids/1"]
    return numbers.to_pylist()


def refused(registry: SchemaRegistry, **options: object) -> Diagnostic:
    with pytest.raises(JobError) as raised:
        travel(registry, **options)
    assert registry.requests == []
    [found] = raised.value.diagnostics
    assert PASSWORD not in found.message
    return found


def trust(store: Path, password: str | None = None) -> dict[str, object]:
    return {
        "ssl.truststore.location": str(store),
        **({} if password is None else {"ssl.truststore.password": password}),
    }


def key(store: Path, password: str | None = None) -> dict[str, object]:
    return {
        "ssl.keystore.location": str(store),
        **({} if password is None else {"ssl.keystore.password": password}),
    }


def test_a_trust_store_may_be_a_pem_file(server: Identity) -> None:
    with running(server) as registry:
        assert travel(registry, **trust(server.certificate)) == [1, 2]


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_a_trust_store_may_be_one_of_java_s(server: Identity, kind: str) -> None:
    store = server.trust_store(kind)
    with running(server) as registry:
        found = refused(registry, **trust(store, "wrong"))
        assert (found.code, found.message) == (
            "FMT-009",
            "the key or trust store of the schema registry cannot be read: ValueError",
        )
        assert travel(registry, **trust(store, PASSWORD)) == [1, 2]


def test_a_trust_store_may_be_given_by_the_client_s_own_property(server: Identity) -> None:
    given = {"schema.registry.ssl.truststore.location": str(server.certificate)}
    with running(server) as registry:
        assert travel(registry, **{"properties.*": given}) == [1, 2]


def test_a_registry_that_nobody_vouches_for_is_refused(server: Identity, client: Identity) -> None:
    with running(server) as registry:
        for options in ({}, trust(client.certificate)):
            found = refused(registry, **options)
            assert found.code == "FMT-007"
            assert f"cannot be reached: {registry.url}: " in found.message
            assert "certificate verify failed" in found.message
            assert "'ssl.truststore.location'" in (found.hint or "")


def test_a_certificate_for_another_host_is_refused(server: Identity) -> None:
    with running(server) as registry:
        url = registry.url.replace("127.0.0.1", "localhost")
        found = refused(registry, url=url, **trust(server.certificate))
        assert found.code == "FMT-007"
        assert "Hostname mismatch" in found.message


def test_a_client_shows_its_certificate(server: Identity, client: Identity) -> None:
    with running(server, only=client) as registry:
        trusted = trust(server.certificate)
        assert refused(registry, **trusted).code == "FMT-007"
        assert refused(registry, **trusted, **key(server.pem)).code == "FMT-007"
        found = refused(registry, **trusted, **key(client.locked_pem, "wrong"))
        assert found.code == "FMT-009"
        assert travel(registry, **trusted, **key(client.locked_pem, PASSWORD)) == [1, 2]
    with running(server, only=client) as registry:
        assert travel(registry, **trusted, **key(client.pem)) == [1, 2]


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        ({"user_info": "ann:secret"}, {"basic-auth.user-info": "ann:secret"}),
        ({"token": "t0ken"}, {"bearer-auth.token": "t0ken"}),
    ],
    ids=["basic", "bearer"],
)
def test_credentials_travel_over_tls(
    server: Identity, asked: dict[str, str], options: dict[str, object]
) -> None:
    with running(server, **asked) as registry:
        assert travel(registry, **trust(server.certificate), **options) == [1, 2]

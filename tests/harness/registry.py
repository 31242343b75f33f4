"""A schema registry in the test's own process: Confluent's REST protocol, with storage and a check of schemas.

In: requests of a client. Out: what a real registry answers, with its status and error codes: the same schema has the
same number everywhere; a schema that is none is refused (422), one that cannot read what its subject has already
(BACKWARD) too (409). `user_info` or `token` ask for credentials. Law: the check is this module's own, and fastavro
parses.

It starts in no time, needs no Java, and can be told to ask for credentials, to be out of order or to hold what no
registry would take. `harness.apicurio` is a real one; what both can do is tried with both.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

import fastavro

_PROMOTIONS = {
    ("int", "long"),
    ("int", "float"),
    ("int", "double"),
    ("long", "float"),
    ("long", "double"),
    ("float", "double"),
    ("string", "bytes"),
    ("bytes", "string"),
}


@dataclass
class SchemaRegistry:
    user_info: str | None = None
    token: str | None = None
    broken: int | None = None
    """A status with which all requests are answered."""
    url: str = ""
    schemas: dict[int, str] = field(default_factory=dict)
    types: dict[int, str] = field(default_factory=dict)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    def register(self, subject: str, schema: str, kind: str = "AVRO") -> int:
        """Without any check, as another client did it long ago."""
        known = [n for n, text in self.schemas.items() if _content(text) == _content(schema)]
        number = known[0] if known else len(self.schemas) + 1
        self.schemas[number], self.types[number] = schema, kind
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def versions(self, subject: str) -> dict[int, Any]:
        """The schemas of a subject in their order, by their numbers."""
        return {number: json.loads(self.schemas[number]) for number in self.subjects[subject]}

    @contextmanager
    def silent(self) -> Iterator[None]:
        """It is there, and answers nobody."""
        self.broken = 503
        try:
            yield
        finally:
            self.broken = None

    def answer(self, method: str, path: str, headers: Any, body: bytes) -> tuple[int, Any]:
        self.requests.append(f"{method} {path}")
        if self.broken:
            return self.broken, {"error_code": self.broken * 100 + 1, "message": "out of order"}
        if not self._is_allowed(headers.get("Authorization")):
            return 401, {"error_code": 401, "message": "Unauthorized"}
        # A registry may live below a path, and Confluent's own client adds questions of its own.
        parts = path.partition("?")[0].strip("/").split("/")
        match method, [unquote(part) for part in parts]:
            case "GET", [*_, "schemas", "ids", number]:
                return self._by_number(int(number))
            case "POST", [*_, "subjects", subject, "versions"]:
                return self._post(subject, json.loads(body)["schema"])
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _is_allowed(self, given: str | None) -> bool:
        if self.user_info:
            return given == "Basic " + base64.b64encode(self.user_info.encode()).decode()
        return given == f"Bearer {self.token}" if self.token else given is None

    def _by_number(self, number: int) -> tuple[int, Any]:
        if number not in self.schemas:
            return 404, {"error_code": 40403, "message": f"Schema {number} not found"}
        kind = self.types[number]
        return 200, {"schema": self.schemas[number]} | (
            {} if kind == "AVRO" else {"schemaType": kind}
        )

    def _post(self, subject: str, schema: str) -> tuple[int, Any]:
        try:
            fastavro.parse_schema(json.loads(schema))
        except Exception as error:
            return 422, {
                "error_code": 42201,
                "message": f"Input schema is an invalid Avro schema: {error}",
            }
        for version in self.subjects.get(subject, []):
            if not can_read(json.loads(schema), json.loads(self.schemas[version])):
                message = f"Schema being registered is incompatible with an earlier schema for subject {subject}"
                return 409, {"error_code": 409, "message": message}
        return 200, {"id": self.register(subject, schema)}


def _content(schema: str) -> Any:
    """What two schemas have in common that differ only in blanks."""
    try:
        return json.loads(schema)
    except ValueError:
        return schema


def can_read(reader: Any, writer: Any) -> bool:
    """Whether every value of the writer's schema has its place in the reader's. No names are looked up."""
    if isinstance(writer, list):
        return all(can_read(reader, branch) for branch in writer)
    if isinstance(reader, list):
        return any(can_read(branch, writer) for branch in reader)
    kinds = [s["type"] if isinstance(s, dict) else s for s in (writer, reader)]
    if kinds == ["record", "record"]:
        has = {f["name"]: f["type"] for f in writer["fields"]}
        return all(
            can_read(f["type"], has[f["name"]]) if f["name"] in has else "default" in f
            for f in reader["fields"]
        )
    if kinds == ["array", "array"]:
        return can_read(reader["items"], writer["items"])
    if kinds == ["map", "map"]:
        return can_read(reader["values"], writer["values"])
    return kinds[0] == kinds[1] or tuple(kinds) in _PROMOTIONS


@contextmanager
def running(tls: ssl.SSLContext | None = None, **settings: Any) -> Iterator[SchemaRegistry]:
    registry = SchemaRegistry(**settings)

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, found = registry.answer(self.command, self.path, self.headers, body)
            written = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(written)))
            self.end_headers()
            self.wfile.write(written)

        do_GET = do_POST = _serve

        def log_message(self, format: str, *given: Any) -> None:
            """Tests look at `requests`."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
    )
    thread.start()
    registry.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

"""Apicurio Registry, a real schema registry, in a process of its own.

In: its locked archive. Out: the address below which it speaks Confluent's protocol, and what a test asks or tells it as
another client would. A subject's schemas must be BACKWARD compatible, as from Confluent's own registry.
Law: it listens on 127.0.0.1 at a port that was free, keeps everything in memory, calls nobody, and is gone at the end.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import tarfile
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tidemill.broker.jars import fetch
from tidemill.broker.java import find_java

LOCK = Path(__file__).with_name("apicurio.lock")
_START_SECONDS = 60


@dataclass(frozen=True)
class Apicurio:
    url: str
    process: subprocess.Popen[bytes]

    def register(self, subject: str, schema: str, kind: str = "AVRO") -> int:
        path = f"/subjects/{quote(subject, safe='')}/versions"
        return int(self._ask("POST", path, {"schema": schema, "schemaType": kind})["id"])

    def versions(self, subject: str) -> dict[int, Any]:
        """The schemas of a subject in their order, by their numbers."""
        path = f"/subjects/{quote(subject, safe='')}/versions"
        found = [self._ask("GET", f"{path}/{version}") for version in self._ask("GET", path)]
        return {each["id"]: json.loads(each["schema"]) for each in found}

    @contextmanager
    def silent(self) -> Iterator[None]:
        """It is there, and answers nobody."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(
            self.url + path,
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/vnd.schemaregistry.v1+json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)


@contextmanager
def running() -> Iterator[Apicurio]:
    [archive] = fetch(LOCK)
    with tempfile.TemporaryDirectory(prefix="apicurio-") as made:
        place = Path(made)
        with tarfile.open(archive) as packed:
            packed.extractall(place, filter="data")
        log = place / "apicurio.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                _command(place), stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
            )
        try:
            found = Apicurio(f"{_address(process, log)}/apis/ccompat/v7", process)
            found._ask("PUT", "/config", {"compatibility": "BACKWARD"})
            yield found
        finally:
            process.kill()  # it has nothing to put away
            process.wait()


def _command(place: Path) -> list[str | Path]:
    [runner] = place.glob("*-runner.jar")
    settings = {
        "java.io.tmpdir": place,
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": 0,
        # Off anyway, unless a variable of the environment turns it on; it is all that would call another server.
        "registry.auth.enabled": "false",
    }
    given = [f"-D{name}={value}" for name, value in settings.items()]
    return [find_java(), "-XX:TieredStopAtLevel=1", "-Xmx256m", *given, "-jar", runner]


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    """Where it listens, which it says when it is ready."""
    deadline = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        said = re.search(r"Listening on: (http://\S+)", log.read_text(errors="replace"))
        if said:
            return said[1]
        time.sleep(0.05)
    raise RuntimeError(f"Apicurio did not start:\n{log.read_text(errors='replace')}")

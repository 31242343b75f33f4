"""Brokers of Kafka 0.9 and 0.10.2 as far as a client's first questions go: such brokers need a Java that is gone.

In: connections on a loopback port. Out: the answers that those releases give, by their protocol. A broker before 0.10
does not know the question which requests it knows, and hangs up; one of 0.10.2 answers it, and what its topics are.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

METADATA, API_VERSIONS = 3, 18
UNSUPPORTED_VERSION = 35

# Key: lowest and highest version, of release 0.10.2.
REQUESTS_0_10_2 = {
    0: (0, 2),
    1: (0, 3),
    2: (0, 1),
    METADATA: (0, 2),
    8: (0, 2),
    9: (0, 2),
    10: (0, 0),
    11: (0, 1),
    12: (0, 0),
    13: (0, 0),
    14: (0, 0),
    15: (0, 0),
    16: (0, 0),
    17: (0, 0),
    API_VERSIONS: (0, 0),
    19: (0, 1),
    20: (0, 1),
}
RELEASES: dict[str, dict[int, tuple[int, int]]] = {
    "0.9": {METADATA: (0, 0)},
    "0.10.2": REQUESTS_0_10_2,
    "no Kafka": {},
}


@contextmanager
def running(release: str, topic: str) -> Iterator[str]:
    """The address of a broker with one topic of one partition; `release` is one of RELEASES."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        threading.Thread(target=_serve, args=(server, release, topic, port), daemon=True).start()
        yield f"127.0.0.1:{port}"


def _serve(server: socket.socket, release: str, topic: str, port: int) -> None:
    while True:
        try:
            client, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=_talk, args=(client, release, topic, port), daemon=True).start()


def _talk(client: socket.socket, release: str, topic: str, port: int) -> None:
    with client, client.makefile("rb") as stream:
        while True:
            head = stream.read(4)
            if len(head) < 4:
                return
            request = stream.read(struct.unpack(">i", head)[0])
            key, version, number = struct.unpack(">hhi", request[:8])
            answer = _answer(release, key, version, topic, port)
            if answer is None:
                return
            body = struct.pack(">i", number) + answer
            client.sendall(struct.pack(">i", len(body)) + body)


def _answer(release: str, key: int, version: int, topic: str, port: int) -> bytes | None:
    """None: the broker hangs up."""
    known = RELEASES[release]
    if key == API_VERSIONS and key in known and version > 0:
        return struct.pack(">hi", UNSUPPORTED_VERSION, 0)
    if key not in known or not known[key][0] <= version <= known[key][1]:
        return None
    if key == API_VERSIONS:
        rows = b"".join(struct.pack(">hhh", k, *versions) for k, versions in known.items())
        return struct.pack(">hi", 0, len(known)) + rows
    return _metadata(version, topic, port) if key == METADATA else None


def _metadata(version: int, topic: str, port: int) -> bytes:
    me = 0
    rack = _text(None) if version >= 1 else b""
    brokers = struct.pack(">ii", 1, me) + _text("127.0.0.1") + struct.pack(">i", port) + rack
    cluster = _text("old") if version >= 2 else b""
    controller = struct.pack(">i", me) if version >= 1 else b""
    internal = b"\0" if version >= 1 else b""
    partition = struct.pack(">hii", 0, 0, me) + struct.pack(">ii", 1, me) * 2
    topics = struct.pack(">ih", 1, 0) + _text(topic) + internal + struct.pack(">i", 1) + partition
    return brokers + cluster + controller + topics


def _text(text: str | None) -> bytes:
    if text is None:
        return struct.pack(">h", -1)
    return struct.pack(">h", len(text)) + text.encode()

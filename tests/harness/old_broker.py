"""Brokers of Kafka 0.9, 0.10.2 and 0.11.0 as far as a job asks them: such brokers need a Java that is gone.

In: connections on a loopback port. Out: the answers that those releases give, by their protocol. A broker before 0.10
does not know the question which requests it knows, and hangs up; one of 0.10.2 answers it, and what its topics are;
one of 0.11.0 answers all that a job over its topic asks. The topic is empty, and forgets what is written.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

PRODUCE, LIST_OFFSETS, METADATA = 0, 2, 3
API_VERSIONS, INIT_PRODUCER_ID, DESCRIBE_CONFIGS = 18, 22, 32
UNSUPPORTED_VERSION = 35
NOW = struct.pack(">i", 0)
"""Not throttled."""

# Key: lowest and highest version.
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
REQUESTS_0_11_0 = {
    PRODUCE: (0, 3),
    1: (0, 5),
    LIST_OFFSETS: (0, 2),
    METADATA: (0, 4),
    8: (0, 3),
    9: (0, 3),
    10: (0, 1),
    11: (0, 2),
    12: (0, 1),
    13: (0, 1),
    14: (0, 1),
    15: (0, 1),
    16: (0, 1),
    17: (0, 0),
    API_VERSIONS: (0, 1),
    19: (0, 2),
    20: (0, 1),
    **dict.fromkeys(range(21, 34), (0, 0)),
}
RELEASES: dict[str, dict[int, tuple[int, int]]] = {
    "0.9": {METADATA: (0, 0)},
    "0.10.2": REQUESTS_0_10_2,
    "0.11.0": REQUESTS_0_11_0,
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
            (client_id,) = struct.unpack(">h", request[8:10])
            body = request[10 + max(client_id, 0) :]
            answer = _answer(release, key, version, body, topic, port)
            if answer is None:
                return
            client.sendall(struct.pack(">ii", 4 + len(answer), number) + answer)


def _answer(
    release: str, key: int, version: int, body: bytes, topic: str, port: int
) -> bytes | None:
    """None: the broker hangs up."""
    known = RELEASES[release]
    if key == API_VERSIONS and key in known and version > known[key][1]:
        return struct.pack(">hi", UNSUPPORTED_VERSION, 0)
    if key not in known or not known[key][0] <= version <= known[key][1]:
        return None
    if key == API_VERSIONS:
        rows = b"".join(struct.pack(">hhh", k, *versions) for k, versions in known.items())
        return struct.pack(">hi", 0, len(known)) + rows + NOW * (version > 0)
    if key == METADATA:
        return _metadata(version, topic, port)
    partition = struct.pack(">i", 1) + _text(topic) + struct.pack(">iih", 1, 0, 0)
    if key == LIST_OFFSETS:
        return NOW * (version >= 2) + partition + struct.pack(">qq", -1, 0)
    if key == INIT_PRODUCER_ID:
        return NOW + struct.pack(">hqh", 0, 1, 0)
    if key == PRODUCE:
        return partition + struct.pack(">qq", 0, -1) + NOW
    if key == DESCRIBE_CONFIGS:
        return NOW + struct.pack(">ih", 1, 0) + _text(None) + _resource(body) + struct.pack(">i", 0)
    return None


def _resource(body: bytes) -> bytes:
    """The type and the name of the first of those that are asked for."""
    (length,) = struct.unpack(">h", body[5:7])
    return body[4 : 7 + length]


def _metadata(version: int, topic: str, port: int) -> bytes:
    me = 0
    rack = _text(None) if version >= 1 else b""
    brokers = struct.pack(">ii", 1, me) + _text("127.0.0.1") + struct.pack(">i", port) + rack
    cluster = _text("old") if version >= 2 else b""
    controller = struct.pack(">i", me) if version >= 1 else b""
    internal = b"\0" if version >= 1 else b""
    partition = struct.pack(">hii", 0, 0, me) + struct.pack(">ii", 1, me) * 2
    topics = struct.pack(">ih", 1, 0) + _text(topic) + internal + struct.pack(">i", 1) + partition
    return NOW * (version >= 3) + brokers + cluster + controller + topics


def _text(text: str | None) -> bytes:
    if text is None:
        return struct.pack(">h", -1)
    return struct.pack(">h", len(text)) + text.encode()

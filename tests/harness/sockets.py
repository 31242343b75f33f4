"""What a process listens on, as the kernel says it."""

from __future__ import annotations

import ipaddress
import os
import struct
from collections.abc import Iterator
from pathlib import Path

_LISTEN = "0A"


def listening(pid: int) -> list[tuple[str, int]]:
    """Address and port of every TCP socket on which a process listens, sorted; none of one that has ended."""
    try:
        return sorted(_listening(pid))
    except FileNotFoundError:
        return []


def _listening(pid: int) -> Iterator[tuple[str, int]]:
    inodes = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(descriptor)
        except OSError:
            continue  # closed meanwhile
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == _LISTEN and words[9] in inodes:
                address, _, port = words[1].partition(":")
                yield _address(address), int(port, 16)


def _address(text: str) -> str:
    """The kernel prints words of 32 bits as this machine holds them."""
    raw = b"".join(struct.pack("=I", int(text[i : i + 8], 16)) for i in range(0, len(text), 8))
    address = ipaddress.ip_address(raw)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address).is_loopback

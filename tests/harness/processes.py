"""Processes as `ps` shows them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def family(root: int) -> dict[int, str]:
    """A process and all that it has started, and those have started, as far as they run: their command lines."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                status = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            parents[int(entry.name)] = int(status[1])
    found = {root} & parents.keys()
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    lines = {}
    for pid in found:
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        lines[pid] = b" ".join(words).decode(errors="replace")
    return lines


@contextmanager
def watched(root: int) -> Iterator[set[str]]:
    """All command lines that a family has had, from now until the end; a process of a tenth of a second may slip."""
    seen: set[str] = set()
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.1):
            seen.update(family(root).values())

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield seen
    finally:
        ended.set()
        watching.join()

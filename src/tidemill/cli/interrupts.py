"""Ctrl-C, to a command whose jobs should end with the batch that they are at."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def interrupts() -> Iterator[Callable[[], bool]]:
    """Ctrl-C asks for a clean stop; a second one ends at once.

    Spark brings a handler of its own, which cancels the batch, so this comes after its start.
    """
    hits: list[int] = []

    def handle(number: int, frame: object) -> None:
        hits.append(number)
        if len(hits) > 1:
            raise KeyboardInterrupt
        print("\nstopping …", file=sys.stderr, flush=True)

    previous = {s: signal.signal(s, handle) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(hits)
    finally:
        for number, old in previous.items():
            signal.signal(number, old)

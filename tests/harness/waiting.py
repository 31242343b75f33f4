"""Until something has come to pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def wait_for(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.05)


def settle(query: Any) -> None:
    """Until a streaming query has read what is in its topics now, and has nothing left to do.

    The kernel looks for news of an idle topic every 100 ms. A look that began before the news may end long after it
    on a busy machine, and is what the first wait can meet: the second one begins after that look's end.
    """
    time.sleep(0.12)
    query.processAllAvailable()
    query.processAllAvailable()

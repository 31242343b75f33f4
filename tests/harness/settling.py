"""When a streaming query has taken in everything that was written before."""

from __future__ import annotations

import time
from typing import Any


def settle(*queries: Any) -> None:
    """Until each query has read what is in its topics now, and has nothing left to do.

    The kernel looks for news of an idle topic every 100 ms. A look that began before the news may end long after it
    on a busy machine, and is what the first wait can meet: the second one begins after that look's end.
    """
    time.sleep(0.12)
    for query in queries:
        query.processAllAvailable()
        query.processAllAvailable()

"""The embedded Kafka and the jars it is made of. Sits on `errors`; imports no Kafka client."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidemill.broker.jars import fetch
    from tidemill.broker.java import find_java, find_javac
    from tidemill.broker.security import Secured, Security
    from tidemill.broker.server import Broker, Status, default_data, find_running, start, status

__all__ = [
    "Broker",
    "Secured",
    "Security",
    "Status",
    "default_data",
    "fetch",
    "find_java",
    "find_javac",
    "find_running",
    "start",
    "status",
]

_ELSEWHERE = {
    "Secured": "security",
    "Security": "security",
    "fetch": "jars",
    "find_java": "java",
    "find_javac": "java",
}


def __getattr__(name: str) -> object:
    # Imported on use: `python -m tidemill.broker.jars` must find its module not yet loaded.
    if name not in __all__:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    module = importlib.import_module(f"{__name__}.{_ELSEWHERE.get(name, 'server')}")
    return getattr(module, name)

"""The embedded Kafka and the jars it is made of. Sits on `errors`; imports no Kafka client."""

from __future__ import annotations

from tidemill.broker.jars import fetch
from tidemill.broker.java import find_java, find_javac
from tidemill.broker.server import Broker, Status, default_data, find_running, start, status

__all__ = [
    "Broker",
    "Status",
    "default_data",
    "fetch",
    "find_java",
    "find_javac",
    "find_running",
    "start",
    "status",
]

"""Records into and out of a real topic, for tests of every area."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tidemill.broker import topics
from tidemill.broker.records import Record, format_line, parse_line


def client(bootstrap: str, **settings: Any) -> dict[str, Any]:
    """Settings of a client of the library's own: what `topics` cannot do."""
    # Half of the backoff passes before the library connects at all.
    return {"bootstrap.servers": bootstrap, "reconnect.backoff.ms": 20, **settings}


Via = Mapping[str, str] | None
"""Properties of a client, where a broker asks who comes."""


def produce(
    bootstrap: str, topic: str, *records: Record | dict[str, Any] | str | bytes, via: Via = None
) -> None:
    """Write records, each a Record, the members of one (`{"key": …, "value": …}`), or a value."""
    topics.write(bootstrap, topic, [_record(r) for r in records], via)


def _record(given: Record | dict[str, Any] | str | bytes) -> Record:
    if isinstance(given, Record):
        return given
    if isinstance(given, dict):
        return parse_line(json.dumps(given, ensure_ascii=False).encode(), number=1)
    return Record(given.encode() if isinstance(given, str) else given)


def consume(bootstrap: str, topic: str, via: Via = None) -> list[Record]:
    """What the topic holds now: committed records, in order within a partition."""
    return list(topics.read(bootstrap, topic, client=via))


def consume_members(bootstrap: str, topic: str, via: Via = None) -> list[dict[str, Any]]:
    """The same as `tidemill topic read` shows it, parsed."""
    return [json.loads(format_line(record)) for record in consume(bootstrap, topic, via)]


def fold(bootstrap: str, topic: str, via: Via = None) -> dict[str | None, Any]:
    """The table that an upsert topic is: key text → last value parsed as JSON, tombstones gone."""
    table: dict[str | None, Any] = {}
    for record in consume(bootstrap, topic, via):
        key = None if record.key is None else record.key.decode()
        if record.value is None:
            table.pop(key, None)
        else:
            table[key] = json.loads(record.value)
    return table

"""Records into and out of a real topic, for tests of every area."""

from __future__ import annotations

import json
from typing import Any

from tidemill.broker import topics
from tidemill.broker.records import Record, format_line, parse_line


def client(bootstrap: str, **settings: Any) -> dict[str, Any]:
    """Settings of a client of the library's own: what `topics` cannot do."""
    # Half of the backoff passes before the library connects at all.
    return {"bootstrap.servers": bootstrap, "reconnect.backoff.ms": 20, **settings}


def produce(bootstrap: str, topic: str, *records: Record | dict[str, Any] | str | bytes) -> None:
    """Write records, each a Record, the members of one (`{"key": …, "value": …}`), or a value."""
    topics.write(bootstrap, topic, [_record(r) for r in records])


def _record(given: Record | dict[str, Any] | str | bytes) -> Record:
    if isinstance(given, Record):
        return given
    if isinstance(given, dict):
        return parse_line(json.dumps(given, ensure_ascii=False).encode(), number=1)
    return Record(given.encode() if isinstance(given, str) else given)


def consume(bootstrap: str, topic: str) -> list[Record]:
    """What the topic holds now: committed records, in order within a partition."""
    return list(topics.read(bootstrap, topic))


def consume_members(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    """The same as `tidemill topic read` shows it, parsed."""
    return [json.loads(format_line(record)) for record in consume(bootstrap, topic)]


def fold(bootstrap: str, topic: str) -> dict[str | None, Any]:
    """The table that an upsert topic is: key text → last value parsed as JSON, tombstones gone."""
    table: dict[str | None, Any] = {}
    for record in consume(bootstrap, topic):
        key = None if record.key is None else record.key.decode()
        if record.value is None:
            table.pop(key, None)
        else:
            table[key] = json.loads(record.value)
    return table

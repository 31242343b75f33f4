"""Examples run: what is written to their topics, and what is in them then. The vendors' are typed by tests/faces."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from world import World

from test_examples import TOPICS, VENDORS, shown
from tidemill import Session
from tidemill.broker import topics
from tidemill.broker.records import Record, parse_line
from tidemill.tables import with_bootstrap
from tidemill.tables.catalog import Connector
from tidemill.tables.kafka import TopicTable

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

PATIENCE_SECONDS = 60
OURS = [script for script in TOPICS if script.parent.name not in VENDORS]


def read(path: Path) -> list[Record]:
    lines = path.read_bytes().splitlines()
    return [parse_line(line, number) for number, line in enumerate(lines, 1)]


def content(records: list[Record]) -> Any:
    """What a topic of keys holds in the end, by key; the values of another one, in order."""
    values = [meaning(r.value) for r in records]
    if all(r.key is None for r in records):
        return values
    last = {json.dumps(meaning(r.key)): v for r, v in zip(records, values, strict=True)}
    return {key: v for key, v in last.items() if v is not None}


def meaning(data: bytes | None) -> Any:
    """JSON as what it says, other text as it is."""
    try:
        return None if data is None else json.loads(data)
    except ValueError:
        return data.decode()


@pytest.mark.parametrize("script", OURS, ids=shown)
def test_an_example_makes_of_its_records_what_is_expected(script: Path, world: World) -> None:
    broker, folder = world.broker.bootstrap, TOPICS[script]
    given = {path.stem: read(path) for path in folder.glob("*.jsonl")}
    expected = {path.stem: content(read(path)) for path in folder.glob("expected/*.jsonl")}
    own = {name: world.create(hint=name) for name in (*given, *expected)}

    def here(connector: Connector) -> Connector:
        moved = with_bootstrap(connector, broker)
        if not isinstance(moved, TopicTable):
            return moved
        return replace(moved, topics=tuple(own[name] for name in moved.topics))

    def found() -> dict[str, Any]:
        return {name: content(list(topics.read(broker, own[name]))) for name in expected}

    with Session(world.spark, checkpoint=world.checkpoint) as session:
        session.adapt_tables(here)
        started = session.run_script(script)
        jobs = [job for job in started if not isinstance(job, str)]
        session.wait_ready(jobs)
        for name, records in given.items():
            topics.write(broker, own[name], records)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while found() != expected and time.monotonic() < deadline:
            assert all(job.is_active for job in jobs), [job.failure() for job in jobs]
            time.sleep(0.2)
    assert found() == expected

"""A format of another package in a job: the example of docs/formats/plugins.md is installed, and its script runs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from command import Command

from harness.kafka import consume, produce
from harness.packages import example, install_example
from tidemill.broker import Broker, topics

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def test_workers_read_and_write_the_format_of_a_plugin(
    tidemill: Command,
    broker: Broker,
    topic_name: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    install_example(packages)
    paths = [str(packages), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    topic = topic_name()
    topics.create(broker.bootstrap, topic, 1, {})
    produce(broker.bootstrap, topic, b"user=mia&path=/cart", b"user=zoe&path=/")
    page = example("sql").replace("'clicks'", f"'{topic}'")
    table, semicolon, query = page.replace("localhost:9092", broker.bootstrap).partition(";")
    insert = "SET 'table.dml-sync' = 'true'; INSERT INTO clicks VALUES ('mia', '/help');"
    script = tidemill.script(table + semicolon + insert + query)
    done = tidemill("run", script, "--bounded", "--output", "jsonl")
    assert done.wait() == 0, done.stderr()
    rows = [json.loads(line)["row"] for line in done.stdout().splitlines()]
    assert rows == [{"path": "/cart"}, {"path": "/help"}]
    assert consume(broker.bootstrap, topic)[-1].value == b"user=mia&path=/help"

"""One test's topics and scripts, and what came out of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from harness.kafka import consume, fold, produce
from tidemill import Session
from tidemill.broker import Broker, topics
from tidemill.changelog import RowKind
from tidemill.errors import JobError
from tidemill.types import Field


class Collected:
    """Keeps the rows of a SELECT, values as the json format writes them."""

    style: ClassVar[str] = "json"

    def __init__(self, rows: list[tuple[str, Any]]) -> None:
        self._rows = rows

    def take(self, fields: tuple[Field, ...], rows: list[tuple[RowKind, str]]) -> None:
        self._rows += [(kind.symbol, json.loads(text)) for kind, text in rows]


def finish(job: Any) -> None:
    """Wait until a job has ended; raise what made it fail."""
    try:
        job.query.awaitTermination()
    except Exception:
        failure = job.failure()
        assert isinstance(failure, JobError)
        raise failure from None


@dataclass
class World:
    """One test's topics, and a way to run scripts over them."""

    broker: Broker
    spark: Any
    topic: Callable[..., str]
    checkpoint: Path
    rows: list[tuple[str, Any]] = field(default_factory=list)
    losses: dict[str, int] = field(default_factory=dict)
    oddities: dict[str, int] = field(default_factory=dict)
    reports: list[Any] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    python_files: list[Path] = field(default_factory=list)

    def create(self, *records: Any, hint: str = "t", partitions: int = 1) -> str:
        name = self.topic(hint)
        topics.create(self.broker.bootstrap, name, partitions, {})
        self.produce(name, *records)
        return name

    def produce(self, name: str, *records: Any) -> None:
        if records:
            plain = [
                json.dumps(r) if isinstance(r, dict) and "value" not in r else r for r in records
            ]
            produce(self.broker.bootstrap, name, *plain)

    def kafka(self, topic: str, **options: str) -> str:
        """The WITH clause of a kafka/json table over a topic."""
        given = {key.replace("__", "-").replace("_", "."): value for key, value in options.items()}
        every = {
            "connector": "kafka",
            "topic": topic,
            "properties.bootstrap.servers": self.broker.bootstrap,
            "scan.startup.mode": "earliest-offset",
            "format": "json",
            **given,
        }
        return "WITH (" + ", ".join(f"'{k}' = '{v}'" for k, v in every.items()) + ")"

    def upsert(self, topic: str, **options: str) -> str:
        given = {key.replace("__", "-").replace("_", "."): value for key, value in options.items()}
        every = {
            "connector": "upsert-kafka",
            "topic": topic,
            "properties.bootstrap.servers": self.broker.bootstrap,
            "key.format": "json",
            "value.format": "json",
            **given,
        }
        return "WITH (" + ", ".join(f"'{k}' = '{v}'" for k, v in every.items()) + ")"

    def run(
        self, sql: str, *, keep: bool = False, reset_state: bool = False, **settings: str
    ) -> None:
        """Run a script, bounded, to its end. `keep` resumes from this test's checkpoint."""
        given = {key.replace("__", "-").replace("_", "."): value for key, value in settings.items()}

        session = Session(
            self.spark,
            checkpoint=self.checkpoint if keep else None,
            bounded=True,
            reset_state=reset_state,
            settings=given,
            python_files=self.python_files,
            output=Collected(self.rows),
        )
        with session:
            for job in session.execute(sql):
                if isinstance(job, str):
                    continue
                finish(job)
                self.losses.update(job.losses())
                self.oddities.update(job.oddities())
                self.reports += job.reports()
                self.notices += job.notices()

    @property
    def batches(self) -> list[int]:
        """The number of input rows of each batch that had any."""
        return [r["numInputRows"] for r in self.reports if r["numInputRows"]]

    def values(self, topic: str) -> list[Any]:
        found = consume(self.broker.bootstrap, topic)
        return [None if r.value is None else json.loads(r.value) for r in found]

    def records(self, topic: str) -> list[Any]:
        return consume(self.broker.bootstrap, topic)

    def table(self, topic: str) -> dict[str | None, Any]:
        return fold(self.broker.bootstrap, topic)


def job_directory(world: World) -> Path:
    """Where the one job of a test keeps its progress; not what was moved aside."""
    [found] = [p.parent for p in world.checkpoint.glob("*/*/commits") if ".old-" not in str(p)]
    return found


def forget_last_commit(world: World) -> None:
    """As if the job had been killed at the end of its last batch."""
    commits = [p for p in (job_directory(world) / "commits").iterdir() if p.name.isdigit()]
    max(commits, key=lambda p: int(p.name)).unlink()

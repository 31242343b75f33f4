"""A job that is killed again and again, and writes every row once. `make test-kill` is the long proof: 25 kills.

Beside the job a reader looks at the output as `isolation.level = read_committed` shows it. Records that are written
and not yet visible mean an open transaction: a kill at that moment fell between a writer's first record and its
commit, and as long as it lasts the reader waits.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from command import Command, Process
from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from harness.kafka import consume, fold, produce
from tidemill.broker import Broker, topics

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

KILLS = int(os.environ.get("KILLS", "0"))
"""How often the job is killed in the long proof; without it only the short test runs."""
long_proof = pytest.mark.skipif(not KILLS, reason="part of the long proof: make test-kill")

KEYS = 20

SCRIPT = """\
SET 'tidemill.batch.max-rows' = '{batch}';
CREATE TABLE numbers (k INT, n INT) WITH (
  'connector' = 'kafka', 'topic' = '{name}-in', 'properties.bootstrap.servers' = '{bootstrap}',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'json');
CREATE TABLE plain (k INT, n INT) WITH (
  'connector' = 'kafka', 'topic' = '{name}-plain', 'properties.bootstrap.servers' = '{bootstrap}',
  'key.format' = 'json', 'key.fields' = 'k', 'value.format' = 'json',
  'properties.transaction.timeout.ms' = '{timeout}',
  'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{prefix}');
CREATE TABLE totals (k INT, rows_seen BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = '{name}-totals', 'properties.bootstrap.servers' = '{bootstrap}',
  'key.format' = 'json', 'value.format' = 'json', 'sink.delivery-guarantee' = 'exactly-once');
EXECUTE STATEMENT SET BEGIN
  INSERT INTO plain SELECT k, n FROM numbers;
  INSERT INTO totals SELECT k, COUNT(*) FROM numbers GROUP BY k;
END;
"""


@dataclass
class Watcher:
    """How far each output partition is written, how far it is visible, and since when the two differ."""

    admin: AdminClient
    places: list[TopicPartition]
    waits: list[tuple[float, float]] = field(default_factory=list)
    """From when until when a reader of committed records was held up."""
    visible: int = 0
    is_open: bool = False
    _since: dict[TopicPartition, float] = field(default_factory=dict)

    def look(self) -> None:
        def ends(level: IsolationLevel) -> dict[TopicPartition, int]:
            asked = {place: OffsetSpec.latest() for place in self.places}
            answers = self.admin.list_offsets(asked, isolation_level=level, request_timeout=10)
            return {place: answer.result().offset for place, answer in answers.items()}

        try:
            # In this order a commit between the two questions looks like no transaction at all.
            written = ends(IsolationLevel.READ_UNCOMMITTED)
            visible = ends(IsolationLevel.READ_COMMITTED)
        except KafkaException:
            return  # the client's view of the topic was too old; the next look has a new one
        now = time.monotonic()
        for place in self.places:
            if visible[place] < written[place]:
                self._since.setdefault(place, now)
            elif place in self._since:
                self.waits.append((self._since.pop(place), now))
        self.visible = sum(visible.values())
        self.is_open = bool(self._since)


@contextmanager
def watching(watcher: Watcher) -> Iterator[Watcher]:
    ended = threading.Event()

    def run() -> None:
        while not ended.is_set():
            watcher.look()
            time.sleep(0.003)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield watcher
    finally:
        ended.set()
        thread.join()
    watcher.look()


@dataclass
class Trial:
    """One job over topics of its own, and what became of it."""

    command: Command
    broker: Broker
    name: str
    batch: int = 2000
    timeout_ms: int = 60_000
    rows: int = 0
    inside: int = 0
    downs: list[tuple[float, float]] = field(default_factory=list)
    """From each kill until the next process was ready."""

    def __post_init__(self) -> None:
        for output in ("in", "plain", "totals"):
            topics.create(self.broker.bootstrap, f"{self.name}-{output}", 2, {})
        self.checkpoint = self.command.place / "checkpoint"
        self.script = self.write_script(f"{self.name}-prefix")

    def write_script(self, prefix: str) -> str:
        text = SCRIPT.format(
            name=self.name,
            bootstrap=self.broker.bootstrap,
            batch=self.batch,
            timeout=self.timeout_ms,
            prefix=prefix,
        )
        return self.command.script(text, "kills.sql")

    def watcher(self) -> Watcher:
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        outputs = [f"{self.name}-plain", f"{self.name}-totals"]
        return Watcher(admin, [TopicPartition(topic, p) for topic in outputs for p in (0, 1)])

    def feed(self, count: int) -> None:
        """The next numbers, each under the key that it leaves when divided by KEYS."""
        more = range(self.rows, self.rows + count)
        lines = (json.dumps({"k": n % KEYS, "n": n}) for n in more)
        produce(
            self.broker.bootstrap,
            f"{self.name}-in",
            *({"key": str(n % KEYS), "value": line} for n, line in zip(more, lines, strict=True)),
        )
        self.rows += count

    def start(self, checkpoint: Path | None = None) -> Process:
        process = self.command.start(
            "run", self.script, "--checkpoint", str(checkpoint or self.checkpoint)
        )
        process.until("(?m)^ready$", 180)
        return process

    def kill(self, process: Process, watcher: Watcher) -> float:
        os.killpg(process.process.pid, signal.SIGKILL)
        at = time.monotonic()
        process.wait()
        # What the dead process has sent is with the broker by now; what is open stays open.
        time.sleep(0.2)
        self.inside += watcher.is_open
        return at

    def finish(self, process: Process, seconds: float = 180) -> None:
        end = time.monotonic() + seconds
        while sum(self.totals().values()) < self.rows:
            assert process.process.poll() is None, process.stderr()
            assert time.monotonic() < end, f"{sum(self.totals().values())} of {self.rows} rows"
            time.sleep(0.5)
        process.process.send_signal(signal.SIGTERM)
        assert process.wait() == 0, process.stderr()

    def totals(self) -> dict[str, int]:
        table = fold(self.broker.bootstrap, f"{self.name}-totals")
        return {str(key): value["rows_seen"] for key, value in table.items()}

    def plain(self) -> dict[int, list[int]]:
        """What a reader of committed records finds under each key, in order."""
        by_key: dict[int, list[int]] = {k: [] for k in range(KEYS)}
        for record in consume(self.broker.bootstrap, f"{self.name}-plain"):
            row = json.loads(record.value or b"")
            by_key[row["k"]].append(row["n"])
        return by_key

    def all_rows(self) -> dict[int, list[int]]:
        return {k: list(range(k, self.rows, KEYS)) for k in range(KEYS)}

    def check_once_and_in_order(self) -> None:
        assert self.plain() == self.all_rows()
        counts: dict[bytes, list[int]] = {}
        for record in consume(self.broker.bootstrap, f"{self.name}-totals"):
            seen = json.loads(record.value or b"")["rows_seen"]
            counts.setdefault(record.key or b"", []).append(seen)
        # A batch that was counted or written twice would repeat a number or go back.
        assert all(c == sorted(set(c)) for c in counts.values())
        assert [c[-1] for c in counts.values()] == [self.rows // KEYS] * KEYS

    def batch_seconds(self) -> float:
        """The longest batch, by the times of Spark's two logs; one that was killed counts from its second start."""
        lasted = []
        job = next(self.checkpoint.glob("*/*/commits")).parent
        # Files know the time of day, and all else here the time since the machine started.
        offset = time.time() - time.monotonic()
        for commit in (job / "commits").iterdir():
            begun = job / "offsets" / commit.name
            if commit.name.isdigit() and begun.exists():
                ended = commit.stat().st_mtime
                starts = [until + offset for _, until in self.downs if until + offset < ended]
                lasted.append(ended - max([begun.stat().st_mtime, *starts]))
        return max(lasted, default=0)

    def longest_wait(self, watcher: Watcher) -> float:
        """How long a reader was held up at most, not counting when no job ran."""

        def beyond(since: float, until: float) -> float:
            down = sum(max(0, min(until, u) - max(since, s)) for s, u in self.downs)
            return until - since - down

        return max((beyond(*wait) for wait in watcher.waits), default=0)

    def survive(self, kills: int, rows: int) -> None:
        """Feed `rows` numbers while the job is killed, two times of three aimed at an open transaction."""
        chance = random.Random(kills)
        share = rows // (kills + 1) // KEYS * KEYS
        with watching(self.watcher()) as watcher:
            killed: float | None = None
            for number in range(kills + 1):
                self.feed(share if number < kills else rows - self.rows)
                process = self.start()
                if killed is not None:
                    self.downs.append((killed, time.monotonic()))
                if number == kills:
                    self.finish(process)
                    break
                before = watcher.visible
                self._until(process, lambda before=before: watcher.visible > before)
                if number % 3 == 2:
                    time.sleep(chance.uniform(0, 1.5))
                else:
                    self._until(process, lambda: watcher.is_open, 30)
                killed = self.kill(process, watcher)
        self.check_once_and_in_order()
        wait, batch = self.longest_wait(watcher), self.batch_seconds()
        print(
            f"\n{kills} kills, {self.inside} inside a transaction; {rows:,} rows once and in order;"
            f" a reader waited {wait:.2f} s at most, the longest batch took {batch:.2f} s"
        )
        assert wait <= max(batch, 1.0)

    def die_inside(self, watcher: Watcher) -> None:
        """Run, and be killed between a writer's first record and its commit."""
        for _ in range(10):
            self.feed(20_000)
            process = self.start()
            self._until(process, lambda: watcher.is_open)
            self.kill(process, watcher)
            if self.inside:
                return
        raise AssertionError("ten kills, and none inside a transaction")

    def _until(self, process: Process, condition: object, seconds: float = 120) -> None:
        assert callable(condition)
        end = time.monotonic() + seconds
        while not condition() and time.monotonic() < end:
            assert process.process.poll() is None, process.stderr()
            time.sleep(0.001)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return f"{request.node.name[5:25]}-{os.getpid()}"


def test_a_killed_job_writes_every_row_once(tidemill: Command, broker: Broker, name: str) -> None:
    trial = Trial(tidemill, broker, name, batch=500)
    trial.survive(2, 12_000)


@long_proof
def test_many_kills(tidemill: Command, broker: Broker, name: str) -> None:
    trial = Trial(tidemill, broker, name)
    trial.survive(KILLS, 8_000 * KILLS)
    assert trial.inside >= KILLS // 5


@long_proof
def test_a_job_that_is_down_longer_than_its_transaction_may_last(
    tidemill: Command, broker: Broker, name: str
) -> None:
    trial = Trial(tidemill, broker, name, timeout_ms=5_000)
    with watching(trial.watcher()) as watcher:
        trial.die_inside(watcher)
        end = time.monotonic() + 90
        while watcher.is_open:
            assert time.monotonic() < end, "the broker has not aborted what was left open"
            time.sleep(0.1)
        trial.finish(trial.start())
    trial.check_once_and_in_order()


@long_proof
def test_a_fresh_start_under_an_old_prefix_writes_all_rows_again(
    tidemill: Command, broker: Broker, name: str
) -> None:
    trial = Trial(tidemill, broker, name)
    with watching(trial.watcher()) as watcher:
        trial.die_inside(watcher)
        before = trial.plain()
        trial.finish(trial.start(tidemill.place / "fresh"))
    # What the first job had begun is gone, and what it had committed is not taken for the second one's.
    assert trial.plain() == {k: before[k] + rows for k, rows in trial.all_rows().items()}


@long_proof
def test_a_second_job_with_the_prefix_fences_the_first(
    tidemill: Command, broker: Broker, name: str
) -> None:
    trial = Trial(tidemill, broker, name, batch=500)
    trial.feed(10_000)
    first = trial.start()
    with watching(trial.watcher()) as watcher:
        trial._until(first, lambda: watcher.visible > 0)
        second = trial.start(tidemill.place / "another")
        # The first job notices when it next writes after the second one's first transaction.
        end = time.monotonic() + 120
        while first.process.poll() is None:
            assert time.monotonic() < end, "both jobs write under one prefix"
            trial.feed(1_000)
            time.sleep(1)
        assert first.wait() == 3
    assert "RUN-009" in first.stderr()
    assert "sink.transactional-id-prefix" in first.stderr()
    second.process.send_signal(signal.SIGTERM)
    assert second.wait() == 0, second.stderr()

"""A job that is killed again and again, and writes every row once. `make test-kill` is the long proof: 25 kills, and a
third as many of a job that keeps state in five operators upon each other, and of one with windows of event time.

Beside the job a consumer with `isolation.level = read_committed` reads the outputs, and a watcher asks how far they
are written and how far they are visible. Records that are written and not yet visible mean an open transaction: a kill
at that moment fell between a writer's first record and its commit, and as long as it lasts the reader waits.
"""

from __future__ import annotations

import json
import math
import os
import random
import re
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest
from command import Command, Process
from confluent_kafka import Consumer, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from harness.kafka import consume, fold, produce
from tidemill.broker import Broker, topics
from tidemill.broker.records import Record

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

KILLS = int(os.environ.get("KILLS", "0"))
"""How often the job is killed in the long proof; without it only the short tests run."""
long_proof = pytest.mark.skipif(not KILLS, reason="part of the long proof: make test-kill")

KEYS = 20
USERS = 2_000
TEAMS = 200
PLACES = 3
LAST = (USERS, USERS + 1)
"""Users whose records are the last of each partition."""
SHOPS = 200
WINDOW_MS = 10_000
DELAY_MS = 2_000
BEHIND_MS = (0, 20_000)
"""How far the time of each partition is behind that of the first."""
FIRST_COMMIT_SECONDS = 10.0
"""About what a job needs from its start until its first rows are visible; a trial measures it."""
LOOK_SECONDS = 0.5
"""What a wait may seem longer than it was: the broker writes the marks of a commit a little after it has promised to,
and looks take time."""
Interval = tuple[float, float]
Row = dict[str, Any]

NUMBERS = """\
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
  'key.format' = 'json', 'value.format' = 'json',
  'properties.transaction.timeout.ms' = '{timeout}', 'sink.delivery-guarantee' = 'exactly-once');
EXECUTE STATEMENT SET BEGIN
  INSERT INTO plain SELECT k, n FROM numbers;
  INSERT INTO totals SELECT k, COUNT(*) FROM numbers GROUP BY k;
END;
"""

BEST = """\
SET 'tidemill.batch.max-rows' = '{batch}';
CREATE TABLE users (uid INT, team INT, PRIMARY KEY (uid) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = '{name}-users', 'properties.bootstrap.servers' = '{bootstrap}',
  'key.format' = 'json', 'value.format' = 'json');
CREATE TABLE orders (oid INT, uid INT, amount INT, PRIMARY KEY (oid) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = '{name}-orders', 'properties.bootstrap.servers' = '{bootstrap}',
  'key.format' = 'json', 'value.format' = 'json');
CREATE TABLE best (team INT, place BIGINT, uid INT, total INT, n BIGINT, PRIMARY KEY (team, place) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = '{name}-best', 'properties.bootstrap.servers' = '{bootstrap}',
  'key.format' = 'json', 'value.format' = 'json',
  'properties.transaction.timeout.ms' = '{timeout}',
  'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{prefix}');
CREATE VIEW totals AS
  SELECT u.team, u.uid, SUM(o.amount) AS total, COUNT(*) AS n FROM orders AS o JOIN users AS u ON o.uid = u.uid
  GROUP BY u.team, u.uid;
INSERT INTO best SELECT team, place, uid, total, n FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY team ORDER BY total DESC, uid) AS place FROM totals)
WHERE place <= {places};
"""

SALES = """\
SET 'tidemill.batch.max-rows' = '{batch}';
CREATE TABLE orders (shop INT, amount INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '{delay}' SECOND) WITH (
  'connector' = 'kafka', 'topic' = '{name}-orders', 'properties.bootstrap.servers' = '{bootstrap}',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'json');
CREATE TABLE sales (shop INT, started TIMESTAMP(3), n BIGINT, total INT) WITH (
  'connector' = 'kafka', 'topic' = '{name}-sales', 'properties.bootstrap.servers' = '{bootstrap}', 'format' = 'json',
  'properties.transaction.timeout.ms' = '{timeout}',
  'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{prefix}');
INSERT INTO sales SELECT shop, window_start, COUNT(*), SUM(amount)
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '{window}' SECOND)) GROUP BY shop, window_start, window_end;
"""


@dataclass
class Watcher:
    """How far each output partition is written, how far it is visible, and since when the two differ."""

    admin: AdminClient
    places: list[TopicPartition]
    waits: list[Interval] = field(default_factory=list)
    """From when until when a reader of committed records was held up."""
    opened: float | None = None
    """When the youngest of the open transactions was first seen, if there is one."""
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
        self.opened = max(self._since.values(), default=None)


@dataclass
class Reader:
    """A consumer of committed records beside the job, and what was not right with those that it was given."""

    consumer: Consumer
    arrived: int = 0
    """How many rows have come."""
    wrong: list[str] = field(default_factory=list)

    def look(self) -> None:
        for message in self.consumer.consume(1000, 0.05):
            if message.error() is not None:
                self.wrong.append(message.error().str())
            else:
                value = message.value()
                self.take(
                    message.topic(), message.key(), None if value is None else json.loads(value)
                )

    def take(self, topic: str, key: bytes, row: Row | None) -> None:
        raise NotImplementedError


@dataclass
class NumbersReader(Reader):
    """What came under each key."""

    rows: dict[int, list[int]] = field(default_factory=lambda: {k: [] for k in range(KEYS)})
    counts: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(KEYS), 0))

    def take(self, topic: str, key: bytes, row: Row | None) -> None:
        assert row is not None
        if topic.endswith("-plain"):
            self._take_row(**row)
        else:
            self._take_count(**row)

    def _take_row(self, k: int, n: int) -> None:
        due = k + KEYS * len(self.rows[k])
        if n != due:
            self.wrong.append(f"of key {k} came {n} when {due} was due")
        self.rows[k].append(n)
        self.arrived += 1

    def _take_count(self, k: int, rows_seen: int) -> None:
        # A batch that was counted or written twice would repeat a number or go back.
        if rows_seen <= self.counts[k]:
            self.wrong.append(f"key {k} was counted {rows_seen} after {self.counts[k]}")
        self.counts[k] = rows_seen


@dataclass
class BestReader(Reader):
    """The table as it is now, and at which change of a user's orders the row of a place was right.

    Law: each row is one that some prefix of the input gives, and never an older one than the row before it.
    """

    table: dict[bytes, Row] = field(default_factory=dict)
    teams: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    """All teams that a user was ever in."""
    sums: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    """The total and the number of a user's orders after each change of one of them."""
    _at: dict[tuple[bytes, int], int] = field(default_factory=lambda: defaultdict(int))

    def take(self, topic: str, key: bytes, row: Row | None) -> None:
        self.arrived += 1
        if row == self.table.get(key):
            self.wrong.append(f"{key!r} was {row}, and is written again")
        if row is None:
            self.table.pop(key, None)
            return
        self.table[key] = row
        uid = row["uid"]
        if row["team"] not in self.teams[uid]:
            self.wrong.append(f"{row}, but the user was never in this team")
        try:
            since = self._at[key, uid]
            self._at[key, uid] = self.sums[uid].index((row["total"], row["n"]), since)
        except ValueError:
            self.wrong.append(
                f"{row}, but from change {since} on the sums are {self.sums[uid][since:]}"
            )


@dataclass
class SalesReader(Reader):
    """What came of each window. Law: it comes once, when all orders of its time are there."""

    due: dict[tuple[int, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    """Of each shop and begin of a window the amounts that were fed."""
    windows: set[tuple[int, int]] = field(default_factory=set)

    def take(self, topic: str, key: bytes, row: Row | None) -> None:
        assert row is not None
        window = row["shop"], _ms(row["started"])
        amounts = self.due.get(window, [])
        if window in self.windows:
            self.wrong.append(f"{row} came again")
        if (row["n"], row["total"]) != (len(amounts), sum(amounts)):
            self.wrong.append(f"{row}, but the amounts are {amounts}")
        self.windows.add(window)
        self.arrived += 1


@contextmanager
def beside(look: Callable[[], None]) -> Iterator[None]:
    """Look again and again, in a thread of its own, and once more at the end."""
    ended = threading.Event()

    def run() -> None:
        while not ended.is_set():
            look()
            time.sleep(0.003)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    look()


@dataclass
class Trial:
    """One job over topics of its own, and what became of it. What the job does is said by the classes below."""

    text: ClassVar[str]
    """The script."""
    inputs: ClassVar[tuple[str, ...]]
    outputs: ClassVar[tuple[str, ...]]

    command: Command
    broker: Broker
    name: str
    batch: int = 2000
    timeout_ms: int = 60_000
    rows: int = 0
    inside: int = 0
    """How many kills fell between a writer's first record and its commit."""
    unready: int = 0
    """How many kills fell before the process was ready."""
    downs: list[Interval] = field(default_factory=list)
    """From each kill until a process was ready again."""
    reader: Reader = field(init=False)
    _down: float | None = None
    _launched: float = 0.0

    def __post_init__(self) -> None:
        for topic in (*self.inputs, *self.outputs):
            topics.create(self.broker.bootstrap, f"{self.name}-{topic}", 2, {})
        self.checkpoint = self.command.place / "checkpoint"
        text = self.text.format(
            name=self.name,
            bootstrap=self.broker.bootstrap,
            batch=self.batch,
            timeout=self.timeout_ms,
            prefix=f"{self.name}-prefix",
            places=PLACES,
            delay=DELAY_MS // 1000,
            window=WINDOW_MS // 1000,
        )
        self.script = self.command.script(text, "kills.sql")

    def new_reader(self, consumer: Consumer) -> Reader:
        raise NotImplementedError

    def feed(self, count: int) -> None:
        """Write so many records more."""
        raise NotImplementedError

    def is_complete(self) -> bool:
        """Whether all that was fed has come out."""
        raise NotImplementedError

    def check(self) -> None:
        """That what has come out is right."""
        raise NotImplementedError

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Have the watcher and the reader look."""
        server = {"bootstrap.servers": self.broker.bootstrap}
        outputs = [f"{self.name}-{output}" for output in self.outputs]
        places = [TopicPartition(topic, p, 0) for topic in outputs for p in (0, 1)]
        consumer = Consumer(
            {
                **server,
                "group.id": self.name,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 50,
            }
        )
        consumer.assign(places)
        self.watcher = Watcher(AdminClient(server), places)
        self.reader = self.new_reader(consumer)
        try:
            with beside(self.watcher.look), beside(self.reader.look):
                yield
        finally:
            consumer.close()

    def launch(self, checkpoint: Path | None = None) -> Process:
        """Start it, and do not wait until it is ready."""
        self._launched = time.monotonic()
        place = str(checkpoint or self.checkpoint)
        # Waits are compared with the batches of the whole run, so none of them may be forgotten.
        keep = "spark.sql.streaming.minBatchesToRetain=100000"
        return self.command.start("run", self.script, "--checkpoint", place, "--conf", keep)

    def start(self, checkpoint: Path | None = None) -> Process:
        process = self.launch(checkpoint)
        assert self._until(process, lambda: self.is_ready(process), 180, 0.05), process.stderr()
        return process

    def is_ready(self, process: Process) -> bool:
        if not re.search("(?m)^ready$", process.stderr()):
            return False
        if self._down is not None:
            self.downs.append((self._down, time.monotonic()))
            self._down = None
        return True

    def kill(self, process: Process) -> None:
        self.unready += not self.is_ready(process)
        os.killpg(process.process.pid, signal.SIGKILL)
        self._down = self._down or time.monotonic()
        process.wait()
        # What the dead process has sent is with the broker by now; what is open stays open.
        time.sleep(0.2)
        self.inside += self._is_inside()

    def finish(self, process: Process, is_complete: Callable[[], bool] | None = None) -> None:
        """Stop the job when all has come out."""
        assert self._until(process, is_complete or self.is_complete, 180, every=0.2), (
            f"{self.reader.arrived} rows have come of {self.rows} that were fed"
        )
        process.process.send_signal(signal.SIGTERM)
        assert process.wait() == 0, process.stderr()

    def batches(self) -> list[Interval]:
        """From when until when each batch lasted, by the times of Spark's two logs."""
        job = next(self.checkpoint.glob("*/*/commits")).parent
        # Files know the time of day, and all else here the time since the machine started.
        ahead = time.time() - time.monotonic()
        return [
            (
                (job / "offsets" / commit.name).stat().st_mtime - ahead,
                commit.stat().st_mtime - ahead,
            )
            for commit in (job / "commits").iterdir()
            if commit.name.isdigit()
        ]

    def alive(self, intervals: list[Interval]) -> list[Interval]:
        """Intervals without the times when no job ran; one that a kill cuts becomes several."""
        parts = []
        for since, until in intervals:
            for down, up in [*self.downs, (math.inf, math.inf)]:
                parts.append((since, min(down, until)))
                since = max(since, up)
        return [(since, until) for since, until in parts if since < until]

    def check_waits(self) -> str:
        """A reader waits for one batch at most: each wait is as long as a batch that ran meanwhile, or shorter."""
        waits, batches = self.alive(self.watcher.waits), self.alive(self.batches())
        excess = []
        for since, until in waits:
            meanwhile = [end - begin for begin, end in batches if begin < until and since < end]
            excess.append(until - since - max([LOOK_SECONDS, *meanwhile]))
        assert max(excess, default=0) <= 0, f"a reader waited {max(excess):.2f} s longer"
        longest = [
            max((end - begin for begin, end in them), default=0) for them in (waits, batches)
        ]
        return "a reader waited {:.2f} s at most, the longest batch took {:.2f} s".format(*longest)

    def survive(self, kills: int, rows: int) -> None:
        """Feed `rows` records while the job is killed: anywhere from its start on, in a transaction, or after one."""
        chance = random.Random(kills)
        share = rows // (kills + 1)
        first_commit = FIRST_COMMIT_SECONDS
        with self.watched():
            for number in range(kills):
                self.feed(share)
                if number % 3 == 0:
                    # Also while it starts, while it fences its predecessor, and while it reads markers.
                    process = self.launch()
                    at = self._launched + chance.uniform(0, first_commit)
                    while time.monotonic() < at:
                        self.is_ready(process)
                        time.sleep(0.01)
                else:
                    process = self.start()
                    # A transaction may be the first after a start, which repeats the one that the last kill cut.
                    if number % 3 == 2 or chance.random() < 0.5:
                        seen = self.reader.arrived
                        assert self._until(process, lambda seen=seen: self.reader.arrived > seen)
                        first_commit = time.monotonic() - self._launched
                    if number % 3 == 1:
                        self.stop_inside(process)
                    else:
                        time.sleep(chance.uniform(0, 1.5))
                assert process.process.poll() is None, process.stderr()
                self.kill(process)
                assert not self.reader.wrong
            self.feed(rows - self.rows)
            self.finish(self.start())
        self.check()
        print(
            f"\n{kills} kills, {self.unready} before the job was ready, {self.inside} inside a transaction;"
            f" {rows:,} records went in, {self.reader.arrived:,} came out; {self.check_waits()}"
        )

    def stop_inside(self, process: Process) -> bool:
        """Freeze it between a writer's first record and its commit; one that was faster goes on to its next batch."""
        while self._until(process, self._is_inside, 30):
            os.killpg(process.process.pid, signal.SIGSTOP)
            time.sleep(0.2)
            if self._is_inside():
                return True
            os.killpg(process.process.pid, signal.SIGCONT)
        return False

    def die_inside(self, rows: int) -> None:
        """Run, and be killed between a writer's first record and its commit."""
        process = self.start()
        for _ in range(10):
            self.feed(rows)
            if self.stop_inside(process):
                break
        self.kill(process)
        assert self.inside == 1

    def _is_inside(self) -> bool:
        """Whether the process that runs, or ran last, has begun a transaction that is open."""
        # One that dies early may leave a transaction as it found it, which an earlier kill fell into.
        return (self.watcher.opened or 0) > self._launched

    def _until(
        self,
        process: Process,
        condition: Callable[[], bool],
        seconds: float = 120,
        every: float = 0.001,
    ) -> bool:
        """Whether the condition came to hold while the job ran."""
        end = time.monotonic() + seconds
        while not condition():
            assert process.process.poll() is None, process.stderr()
            if time.monotonic() > end:
                return False
            time.sleep(every)
        return True


@dataclass
class Numbers(Trial):
    """Numbers are copied, and counted by the key that each leaves when divided by KEYS."""

    text = NUMBERS
    inputs = ("in",)
    outputs = ("plain", "totals")
    reader: NumbersReader = field(init=False)

    def new_reader(self, consumer: Consumer) -> Reader:
        return NumbersReader(consumer)

    def feed(self, count: int) -> None:
        more = range(self.rows, self.rows + count)
        lines = (json.dumps({"k": n % KEYS, "n": n}) for n in more)
        produce(
            self.broker.bootstrap,
            f"{self.name}-in",
            *({"key": str(n % KEYS), "value": line} for n, line in zip(more, lines, strict=True)),
        )
        self.rows += count

    def is_complete(self) -> bool:
        return self.has_had(self.rows)

    def has_had(self, rows: int) -> bool:
        """Whether the reader has had so many rows, and the totals are complete."""
        return self.reader.arrived >= rows and sum(self.totals().values()) >= self.rows

    def totals(self) -> dict[str, int]:
        table = fold(self.broker.bootstrap, f"{self.name}-totals")
        return {str(key): value["rows_seen"] for key, value in table.items()}

    def plain(self) -> dict[int, list[int]]:
        """What a new reader of committed records finds under each key, in order."""
        by_key: dict[int, list[int]] = {k: [] for k in range(KEYS)}
        for record in consume(self.broker.bootstrap, f"{self.name}-plain"):
            row = json.loads(record.value or b"")
            by_key[row["k"]].append(row["n"])
        return by_key

    def all_rows(self) -> dict[int, list[int]]:
        return {k: list(range(k, self.rows, KEYS)) for k in range(KEYS)}

    def check(self) -> None:
        """Every row came once and in order."""
        assert not self.reader.wrong
        assert self.reader.rows == self.all_rows()
        assert self.reader.counts == {k: len(rows) for k, rows in self.all_rows().items()}
        assert self.plain() == self.all_rows()


@dataclass
class Best(Trial):
    """Orders and users come, change and go: of each team the users who have ordered most, by their place.

    An order stays with its user, and all orders of a user are in one partition: so their sums after any prefix of the
    input are known beforehand. Every partition ends with a user, or an order, of whom the answer tells.
    """

    text = BEST
    inputs = ("users", "orders")
    outputs = ("best",)
    reader: BestReader = field(init=False)
    chance: random.Random = field(default_factory=lambda: random.Random(7))
    amounts: dict[int, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    """Of each user the orders that are there, and their amounts."""

    def new_reader(self, consumer: Consumer) -> Reader:
        return BestReader(consumer)

    def feed(self, count: int) -> None:
        """Changes of orders, and before them of every tenth user, at first of all. Some delete what is not there."""
        users = self.chance.sample(range(USERS), USERS // 10) if self.rows else range(USERS)
        self.rows += count
        teams = [self.chance.choice([None, *range(TEAMS)]) for _ in users]
        changes = [self._user(uid, team) for uid, team in zip(users, teams, strict=True)]
        self._write("users", [*changes, *(self._user(uid, self._last_team) for uid in LAST)])
        changes = []
        for _ in range(count):
            oid = self.chance.randrange(4 * USERS)
            changes.append(self._order(oid, oid % USERS, self.chance.choice([None, 1, 2, 3])))
        self._write("orders", [*changes, *(self._order(-uid, uid, self.rows) for uid in LAST)])

    @property
    def _last_team(self) -> int:
        return TEAMS + self.rows

    def _write(self, topic: str, records: list[Record]) -> None:
        topics.write(self.broker.bootstrap, f"{self.name}-{topic}", records)

    def _user(self, uid: int, team: int | None) -> Record:
        if team is not None:
            self.reader.teams[uid].add(team)
        return _upsert({"uid": uid}, None if team is None else {"team": team}, uid % 2)

    def _order(self, oid: int, uid: int, amount: int | None) -> Record:
        amounts = self.amounts[uid]
        if amount is None:
            amounts.pop(oid, None)
        else:
            amounts[oid] = amount
        self.reader.sums[uid].append((sum(amounts.values()), len(amounts)))
        row = None if amount is None else {"uid": uid, "amount": amount}
        return _upsert({"oid": oid}, row, uid % 2)

    def is_complete(self) -> bool:
        last = [r for r in self.reader.table.copy().values() if r["team"] == self._last_team]
        return [r["total"] for r in last] == [self.rows] * len(LAST)

    def answer(self) -> list[Row]:
        """What the query gives over the tables that the topics hold."""
        users, orders = (
            fold(self.broker.bootstrap, f"{self.name}-{topic}").values() for topic in self.inputs
        )
        team_of = {user["uid"]: user["team"] for user in users}
        amounts: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for order in orders:
            if order["uid"] in team_of:
                amounts[team_of[order["uid"]]][order["uid"]].append(order["amount"])
        best = []
        for team, of_user in amounts.items():
            ordered = sorted((-sum(them), uid, len(them)) for uid, them in of_user.items())
            for place, (total, uid, n) in enumerate(ordered[:PLACES], 1):
                best.append({"team": team, "place": place, "uid": uid, "total": -total, "n": n})
        return sorted(best, key=_place)

    def check(self) -> None:
        assert not self.reader.wrong
        table = fold(self.broker.bootstrap, f"{self.name}-best")
        assert sorted(table.values(), key=_place) == self.answer()


@dataclass
class Sales(Trial):
    """The orders of each shop in every ten seconds. One partition is behind the other, and in both they come out of
    order, by less than the watermark waits for: so none is late, and what every window holds is known beforehand."""

    text = SALES
    inputs = ("orders",)
    outputs = ("sales",)
    reader: SalesReader = field(init=False)
    chance: random.Random = field(default_factory=lambda: random.Random(7))
    latest: dict[int, int] = field(default_factory=dict)
    """The greatest time of each partition."""

    def new_reader(self, consumer: Consumer) -> Reader:
        return SalesReader(consumer)

    def feed(self, count: int) -> None:
        records = [self._order(n) for n in range(self.rows, self.rows + count)]
        self.rows += count
        topics.write(self.broker.bootstrap, f"{self.name}-orders", records)

    def _order(self, n: int) -> Record:
        """A hundred to a second."""
        partition = n % 2
        at = 60_000 + 10 * n - BEHIND_MS[partition] - self.chance.randrange(DELAY_MS)
        self.latest[partition] = max(at, self.latest.get(partition, 0))
        shop, amount = self.chance.randrange(SHOPS), self.chance.randrange(100)
        self.reader.due[shop, at // WINDOW_MS * WINDOW_MS].append(amount)
        order = {"shop": shop, "amount": amount, "ts": _shown(at)}
        return Record(json.dumps(order).encode(), partition=partition)

    def closed(self) -> dict[tuple[int, int], list[int]]:
        """The windows that the watermark has passed."""
        watermark = min(self.latest.values()) - DELAY_MS
        return {
            window: amounts
            for window, amounts in self.reader.due.items()
            if window[1] + WINDOW_MS - 1 <= watermark
        }

    def is_complete(self) -> bool:
        return self.reader.arrived >= len(self.closed())

    def check(self) -> None:
        assert not self.reader.wrong
        found = [
            json.loads(record.value or b"")
            for record in consume(self.broker.bootstrap, f"{self.name}-sales")
        ]
        assert sorted(found, key=_window) == [
            {"shop": shop, "started": _shown(start), "n": len(amounts), "total": sum(amounts)}
            for (shop, start), amounts in sorted(self.closed().items())
        ]


BEGIN = datetime(2024, 1, 1)


def _shown(ms: int) -> str:
    return (BEGIN + timedelta(milliseconds=ms)).isoformat(" ", "milliseconds").removesuffix(".000")


def _ms(shown: str) -> int:
    return (datetime.fromisoformat(shown) - BEGIN) // timedelta(milliseconds=1)


def _window(row: Row) -> tuple[int, str]:
    return row["shop"], row["started"]


def _upsert(key: Row, row: Row | None, partition: int) -> Record:
    value = None if row is None else json.dumps({**key, **row}).encode()
    return Record(value, json.dumps(key).encode(), partition=partition)


def _place(row: Row) -> tuple[int, int]:
    return row["team"], row["place"]


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return f"{request.node.name[5:25]}-{os.getpid()}"


def test_a_killed_job_writes_every_row_once(tidemill: Command, broker: Broker, name: str) -> None:
    trial = Numbers(tidemill, broker, name, batch=500)
    trial.survive(2, 12_000)


@long_proof
def test_many_kills(tidemill: Command, broker: Broker, name: str) -> None:
    trial = Numbers(tidemill, broker, name)
    trial.survive(KILLS, 8_000 * KILLS)
    assert trial.inside >= KILLS // 5


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        ([(1, 3, 1), (1, 5, 2), None, (1, 3, 1)], None),
        ([(1, 5, 2), (1, 5, 2)], "is written again"),
        ([None], "is written again"),
        ([(2, 3, 1)], "was never in this team"),
        ([(1, 8, 2)], "from change 0 on"),
        ([(1, 7, 2), (1, 5, 2)], "from change 3 on"),
    ],
)
def test_a_row_that_no_prefix_gives_is_noticed(
    rows: list[tuple[int, int, int] | None], wrong: str | None
) -> None:
    reader = BestReader(None)
    reader.teams[9] = {1}
    reader.sums[9] = [(3, 1), (5, 2), (3, 1), (7, 2)]
    for row in rows:
        members = row and {"team": row[0], "place": 1, "uid": 9, "total": row[1], "n": row[2]}
        reader.take("best", b"key", members)
    assert len(reader.wrong) == (wrong is not None)
    assert all(str(wrong) in found for found in reader.wrong)


@long_proof
def test_many_kills_of_a_chain(tidemill: Command, broker: Broker, name: str) -> None:
    kills = max(3, KILLS // 3)
    trial = Best(tidemill, broker, name, batch=1000)
    trial.survive(kills, 4_000 * kills)
    assert trial.inside >= kills // 5


@long_proof
def test_many_kills_of_windows(tidemill: Command, broker: Broker, name: str) -> None:
    kills = max(3, KILLS // 3)
    trial = Sales(tidemill, broker, name, batch=1000)
    trial.survive(kills, 8_000 * kills)
    assert trial.inside >= kills // 5


def test_a_job_that_is_down_longer_than_its_transaction_may_last(
    tidemill: Command, broker: Broker, name: str
) -> None:
    trial = Numbers(tidemill, broker, name, timeout_ms=5_000)
    with trial.watched():
        trial.die_inside(4_000)
        end = time.monotonic() + 60
        while trial.watcher.opened is not None:
            assert time.monotonic() < end, "the broker has not aborted what was left open"
            time.sleep(0.1)
        trial.finish(trial.start())
    trial.check()


@long_proof
def test_a_fresh_start_under_an_old_prefix_writes_all_rows_again(
    tidemill: Command, broker: Broker, name: str
) -> None:
    trial = Numbers(tidemill, broker, name)
    with trial.watched():
        trial.die_inside(20_000)
        before = trial.plain()
        # The first job may have counted all rows, so only those of the second one show that it has done its work.
        all_of_both = sum(len(rows) for rows in before.values()) + trial.rows
        second = trial.start(tidemill.place / "fresh")
        trial.finish(second, lambda: trial.has_had(all_of_both))
    # What the first job had begun is gone, and what it had committed is not taken for the second one's.
    assert trial.plain() == {k: before[k] + rows for k, rows in trial.all_rows().items()}


@long_proof
def test_a_second_job_with_the_prefix_fences_the_first(
    tidemill: Command, broker: Broker, name: str
) -> None:
    trial = Numbers(tidemill, broker, name, batch=500)
    trial.feed(10_000)
    with trial.watched():
        first = trial.start()
        assert trial._until(first, lambda: trial.reader.arrived > 0)
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

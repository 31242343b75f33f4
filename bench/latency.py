"""How long a row is on its way: `python -m bench.latency [--seconds 30]`.

From a producer's clock to a consumer that reads committed records, on this machine, through a job that copies a topic
of JSON documents to another; for both engines and both guarantees, at 5,000 and 20,000 rows a second and at half of
what gets through while the producer sends all it can. The producer sends every 5 ms what is due then. Flink
writes records of an at-least-once table at once, and commits those of an exactly-once one with its checkpoints, which
are 10 s apart elsewhere here; for this they are measured at 1 s, too. At last a Tidemill job is idle, falls a backlog
behind, and is idle again: the sizes of its batches are kept. Out: figures/latency.json. Exit code 1 names what was
missed.
"""

from __future__ import annotations

import argparse
import array
import multiprocessing
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from bench import figures, inputs, program, world
from bench.engines import CHECKPOINTS, Engine, EngineError, Flink, Tidemill, machine
from bench.world import World

RATES = (5_000, 20_000)
WARM_SECONDS = 10
"""What comes in the first seconds does not count."""
TICK = 0.005
AT_ONCE = 20_000
"""So many rows have one time; a producer that cannot keep up looks at the clock again."""
SAMPLED = 25_000
"""So many rows of a second are looked at."""
DRAIN_SECONDS = 60.0
FLOOD = 500_000
"""More rows a second than the producer can send."""
FLOOD_SECONDS = 10.0
BACKLOG = 2_000_000
IDLE_RATE = 500
WANTED = {"at-least-once": (300, 800), "exactly-once": (500, 1200)}
"""The most milliseconds of p50 and p99, at 20,000 rows a second."""

SCRIPT = """
CREATE TABLE sent (us BIGINT, id BIGINT, note STRING) WITH (
  'connector' = 'kafka',
  'topic' = '${inp}',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'scan.startup.mode' = 'earliest-offset',
  'format' = 'json'
);
CREATE TABLE seen (us BIGINT, id BIGINT, note STRING) WITH (
  'connector' = 'kafka',
  'topic' = '${out}',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'sink.delivery-guarantee' = '${GUARANTEE}',
  'sink.transactional-id-prefix' = '${out}',
  'properties.transaction.timeout.ms' = '600000',
  'format' = 'json'
);
INSERT INTO seen SELECT us, id, UPPER(note) FROM sent;
"""
DOCUMENT = b'{"us":%d,"id":%d,"note":"%032x%032x"}'
"""The time is in microseconds: sixteen digits, and stands in the same place in what comes out."""
AT = slice(len(b'{"us":'), len(b'{"us":') + 16)


# --- a producer and a consumer, in processes of their own ----------------------------------------


def produce(bootstrap: str, topic: str, rate: float, seconds: float, told: Any) -> None:
    """Send so many rows a second, each with the time at which it is sent; tell how many there were."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 1,
            "batch.size": 1 << 18,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    begin, sent = time.monotonic(), 0
    while (passed := time.monotonic() - begin) < seconds:
        moment = time.time_ns() // 1000
        for number in range(sent, min(int(rate * passed), sent + AT_ONCE)):
            while True:
                try:
                    document = DOCUMENT % (moment, number, number, number)
                    producer.produce(topic, document, partition=number % inputs.PARTITIONS)
                    break
                except BufferError:
                    producer.poll(0.01)
            sent = number + 1
        producer.poll(0)
        time.sleep(max(0.0, TICK - (time.monotonic() - begin - passed)))
    producer.flush(60)
    told.put((sent, time.monotonic() - begin))


def consume(bootstrap: str, topic: str, every: int, over: Any, arrived: Any, told: Any) -> None:
    """The time at which rows were sent, and how many milliseconds they took; `arrived` is how many came so far.

    Looking at each would need a core of its own where many come: then every second one tells, or fewer.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench-latency",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 5,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, n, 0) for n in range(inputs.PARTITIONS)])
    moments, waits = array.array("q"), array.array("d")
    number = 0
    while not over.is_set():
        messages = consumer.consume(20_000, 0.005)
        now = time.time_ns() // 1000
        for message in messages:
            error = message.error()
            if error is not None:
                told.put(error.str())
                return
            number += 1
            if number % every == 0:
                moment = int(message.value()[AT])
                moments.append(moment)
                waits.append((now - moment) / 1000)
        arrived.value = number
    consumer.close()
    told.put((moments.tobytes(), waits.tobytes()))


@dataclass(frozen=True)
class Flow:
    """What was sent, how fast, and how long each row was on its way; milliseconds, by the time of sending."""

    sent: int
    arrived: int
    rows_per_s: float
    waits: list[tuple[int, float]]


def flow(here: World, inp: str, out: str, rate: float, seconds: float) -> Flow:
    context = multiprocessing.get_context("spawn")
    over, seen, sent = context.Event(), context.Queue(), context.Queue()
    arrived = context.Value("q", 0)
    every = max(1, round(rate / SAMPLED))
    reader = context.Process(target=consume, args=(here.bootstrap, out, every, over, arrived, seen))
    writer = context.Process(target=produce, args=(here.bootstrap, inp, rate, seconds, sent))
    reader.start()
    try:
        writer.start()
        number, took = sent.get(timeout=seconds + 120)
        writer.join()
        # All that was sent counts, also what is committed last.
        deadline = time.monotonic() + DRAIN_SECONDS
        while arrived.value < number and time.monotonic() < deadline:
            time.sleep(0.2)
    finally:
        over.set()
    answer = seen.get(timeout=60)
    reader.join()
    if isinstance(answer, str):
        raise EngineError(f"the consumer failed: {answer}")
    moments, waits = array.array("q", answer[0]), array.array("d", answer[1])
    return Flow(number, arrived.value, number / took, list(zip(moments, waits, strict=True)))


# --- runs ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rival:
    name: str
    engine: Engine
    checkpoints: str | None = None

    def settings(self) -> dict[str, str]:
        if self.checkpoints is None:
            return {}
        return {**CHECKPOINTS, "execution.checkpointing.interval": self.checkpoints}


class Latencies:
    def __init__(self, here: World, seconds: float) -> None:
        self.world = here
        self.seconds = seconds

    def start(self, rival: Rival, guarantee: str) -> tuple[str, str, Path]:
        inp, out, place = self.world.fresh(), self.world.fresh(), self.world.directory()
        values = {
            "BOOTSTRAP": self.world.bootstrap,
            "GUARANTEE": guarantee,
            "inp": inp,
            "out": out,
        }
        rival.engine.start(SCRIPT, values, place / "checkpoint", rival.settings())
        return inp, out, place

    def stop(self, rival: Rival, inp: str, out: str, place: Path) -> list[dict[str, Any]]:
        reports: list[dict[str, Any]] = rival.engine.ask("stop").get("reports", [])
        for topic in (inp, out):
            self.world.drop(topic)
        shutil.rmtree(place, ignore_errors=True)
        return reports

    def peak(self, rival: Rival) -> float:
        """Rows a second of an at-least-once table while a producer sends all it can, and a consumer reads: they need
        cores of this machine, too, and without them one would find what cannot be sent."""
        for _ in range(2):  # once to warm up
            inp, out, place = self.start(rival, "at-least-once")
            try:
                found = flow(self.world, inp, out, FLOOD, FLOOD_SECONDS)
            finally:
                self.stop(rival, inp, out, place)
        if found.arrived < found.sent:
            raise EngineError(f"{rival.name}: {found.sent - found.arrived} rows did not come out")
        begun = min(moment for moment, _ in found.waits)
        ended = max(moment + wait * 1000 for moment, wait in found.waits)
        return found.arrived / (ended - begun) * 1_000_000

    def _backlog(self, inp: str, rows: int) -> None:
        moment = time.time_ns() // 1000
        producer = Producer(
            {
                "bootstrap.servers": self.world.bootstrap,
                "linger.ms": 20,
                "batch.size": 1 << 20,
                "queue.buffering.max.messages": 500_000,
            }
        )
        for i in range(rows):
            while True:
                try:
                    producer.produce(
                        inp, DOCUMENT % (moment, i, i, i), partition=i % inputs.PARTITIONS
                    )
                    break
                except BufferError:
                    producer.poll(0.05)
            if i % 10_000 == 0:
                producer.poll(0)
        producer.flush(300)

    def measure(self, rival: Rival, guarantee: str, rate: float, load: str) -> dict[str, Any]:
        inp, out, place = self.start(rival, guarantee)
        try:
            found = flow(self.world, inp, out, rate, WARM_SECONDS + self.seconds)
        finally:
            self.stop(rival, inp, out, place)
        if not found.waits:
            raise EngineError(f"{rival.name}: no row came out within {DRAIN_SECONDS:g} seconds")
        first = min(moment for moment, _ in found.waits) + WARM_SECONDS * 1_000_000
        counted = sorted(wait for moment, wait in found.waits if moment >= first)
        if not counted:
            raise EngineError(f"{rival.name}: no row came out after the first seconds")
        return {
            "engine": rival.name,
            "guarantee": guarantee,
            "checkpoints": rival.checkpoints,
            "load": load,
            "rows_per_s": round(found.rows_per_s),
            "p50_ms": round(figures.percentile(counted, 0.5), 1),
            "p99_ms": round(figures.percentile(counted, 0.99), 1),
            "max_ms": round(counted[-1], 1),
            "arrived": found.arrived,
            "sent": found.sent,
        }

    def batches(self, rival: Rival, backlog: int, seconds: float) -> list[dict[str, float]]:
        """Idle, so many rows behind, and idle again: when each batch began, its rows, and how long it took."""
        inp, out, place = self.start(rival, "at-least-once")
        context = multiprocessing.get_context("spawn")
        told = context.Queue()
        try:
            for is_behind in (True, False):
                idle = (self.world.bootstrap, inp, IDLE_RATE, seconds, told)
                writer = context.Process(target=produce, args=idle)
                writer.start()
                told.get(timeout=seconds + 120)
                writer.join()
                if is_behind:
                    self._backlog(inp, backlog)
            time.sleep(3)
        finally:
            reports = self.stop(rival, inp, out, place)
        return batches_of(reports)


def batches_of(reports: Sequence[dict[str, Any]]) -> list[dict[str, float]]:
    """Batches with rows out of Spark's reports; the kernel's counter of records is a total."""
    from datetime import datetime

    found: list[dict[str, float]] = []
    begun: float | None = None
    before = 0
    for report in reports:
        if "addBatch" not in report.get("durationMs", {}):
            continue
        total = sum(int(s["metrics"].get("records", 0)) for s in report["sources"])
        at = datetime.fromisoformat(report["timestamp"].replace("Z", "+00:00")).timestamp()
        begun = at if begun is None else begun
        if total > before:
            took = report["durationMs"]["triggerExecution"]
            found.append({"at": round(at - begun, 3), "rows": total - before, "ms": took})
        before = max(before, total)
    return found


def name_of(figure: figures.Figure) -> str:
    if "batches" in figure:
        return "batches"
    parts = [figure["engine"], figure["guarantee"], figure.get("checkpoints"), figure["load"]]
    return " ".join(str(p) for p in parts if p)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=30.0, help="of each run that count")
    parser.add_argument("--backlog", type=int, default=BACKLOG)
    parser.add_argument("--rates", type=int, nargs="*", default=list(RATES))
    parser.add_argument("--only", nargs="+", choices=["tidemill", "flink", "batches"], default=[])
    parser.add_argument("--results", type=Path, default=figures.FIGURES / "latency.json")
    asked = parser.parse_args()
    only = asked.only or ["tidemill", "flink", "batches"]
    on = machine()
    found: list[dict[str, Any]] = []
    order: list[str] = []

    def keep(figure: dict[str, Any]) -> None:
        figure |= {"measured": figures.now(), "machine": on}
        figure = {"name": name_of(figure), **figure}
        order.append(figure["name"])
        found.append(figure)
        known = [f["name"] for f in figures.load(asked.results)]
        whole = [*known, *(n for n in order if n not in known)]
        figures.store(asked.results, [figure], whole, key="name")

    with world.running() as here, ExitStack() as stack:
        place = here.directory()
        latencies = Latencies(here, asked.seconds)
        ours: Engine | None = None
        for name, make in (("tidemill", Tidemill), ("flink", Flink)):
            if name not in only and not (name == "tidemill" and "batches" in only):
                continue
            engine: Engine = stack.enter_context(make(place))
            if name == "tidemill":
                ours = engine
            if name not in only:
                continue
            plain = Rival(name, engine, "10 s" if name == "flink" else None)
            peak = latencies.peak(plain)
            print(f"{name}: peak {peak:,.0f} rows/s", flush=True)
            loads = [(f"{rate:,} rows/s", rate) for rate in asked.rates]
            loads.append(("half of its peak", round(peak / 2)))
            for guarantee in ("at-least-once", "exactly-once"):
                rivals = [plain]
                if name == "flink" and guarantee == "exactly-once":
                    rivals.append(Rival(name, engine, "1 s"))
                for rival in rivals:
                    for load, rate in loads:
                        figure = latencies.measure(rival, guarantee, rate, load)
                        if name == "tidemill" and rate == 20_000:
                            figure["wanted"] = WANTED[guarantee]
                        print(
                            f"{name_of(figure):52} p50 {figure['p50_ms']:8,.0f} ms"
                            f"   p99 {figure['p99_ms']:8,.0f} ms   {figure['rows_per_s']:,} rows/s",
                            flush=True,
                        )
                        keep(figure)
        if "batches" in only:
            assert ours is not None
            sizes = latencies.batches(
                Rival("tidemill", ours), asked.backlog, min(20.0, asked.seconds)
            )
            print(f"batches: {len(sizes)}, rows {', '.join(str(b['rows']) for b in sizes[:40])}")
            keep({"batches": sizes, "backlog": asked.backlog})
    print(f"written to {asked.results}", file=sys.stderr)
    problems = [
        f"{f['name']}: p50 {f['p50_ms']:.0f} ms, p99 {f['p99_ms']:.0f} ms, wanted at most {f['wanted']}"
        for f in found
        if "wanted" in f and (f["p50_ms"] > f["wanted"][0] or f["p99_ms"] > f["wanted"][1])
    ]
    figures.require(problems)


if __name__ == "__main__":
    program.run(main)

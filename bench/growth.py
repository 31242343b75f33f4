"""What becomes dearer as something grows: `python -m bench.growth [--only input state …]`.

Tidemill alone. Each axis is measured at some sizes, and the factor between the first and the last is held to a limit:
time per row as the input grows tenfold, time of a batch as the state does, time per row as partitions go from 2 to 64
and as sinks go from 1 to 8; the memory of a Python worker as batches grow; what closing windows reads as others stay
open. And costs: the start of a script, a batch of one row, and a job that waits. Out: figures/growth.json. Exit code
1 names what was missed.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import figures, inputs, program, world
from bench.engines import ROOT, EngineError, Meter, Tidemill, Turn
from bench.inputs import Numbered
from bench.world import World
from tidemill.broker import topics
from tidemill.broker.records import Record

SOURCE = """
CREATE TABLE orders (user_id BIGINT, item STRING, amount DOUBLE, region STRING, n INT) WITH (
  'connector' = 'kafka', 'topic' = '${inp}', 'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', 'format' = 'json');
"""
TOTALS = """
CREATE TABLE totals (user_id BIGINT, c BIGINT, amount DOUBLE) WITH ('connector' = 'blackhole');
INSERT INTO totals SELECT user_id, COUNT(*), SUM(amount) FROM orders GROUP BY user_id;
"""
BALANCES = """
CREATE TABLE balances (id BIGINT, region STRING, amount BIGINT, note STRING, PRIMARY KEY (id) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = '${inp}', 'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'scan.bounded.mode' = 'latest-offset', 'key.format' = 'json', 'value.format' = 'json');
CREATE TABLE totals (region STRING, c BIGINT, amount BIGINT, letters INT) WITH ('connector' = 'blackhole');
INSERT INTO totals SELECT region, COUNT(*), SUM(amount), SUM(CHAR_LENGTH(note)) FROM balances GROUP BY region;
"""
VISITS = """
CREATE TABLE visits (id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH (
  'connector' = 'kafka', 'topic' = '${inp}', 'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'json');
CREATE TABLE counts (id BIGINT, c BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO counts SELECT id, COUNT(*) FROM TABLE(TUMBLE(TABLE visits, DESCRIPTOR(ts), INTERVAL '10' SECOND))
GROUP BY id, window_start, window_end;
"""
TIMED = """
CREATE TABLE orders (user_id BIGINT, item STRING, amount DOUBLE, region STRING, n INT, `at` TIME) WITH (
  'connector' = 'kafka', 'topic' = '${inp}', 'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', 'format' = 'json');
CREATE TABLE copies WITH ('connector' = 'kafka', 'topic' = '${out}', 'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'format' = 'avro') LIKE orders (EXCLUDING OPTIONS);
INSERT INTO copies SELECT * FROM orders;
"""
ECHO = """
CREATE TABLE sent (id BIGINT) WITH (
  'connector' = 'kafka', 'topic' = '${inp}', 'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'json');
"""
COPY = "CREATE TABLE hole (id BIGINT) WITH ('connector' = 'blackhole'); INSERT INTO hole SELECT id FROM sent;"
COUNT = (
    "CREATE TABLE hole (id BIGINT, c BIGINT) WITH ('connector' = 'blackhole');"
    " INSERT INTO hole SELECT id, COUNT(*) FROM sent GROUP BY id;"
)

UPDATES = 15
"""Batches of updates over a state, of which the first third is not counted: they follow the loading's."""


@dataclass(frozen=True)
class Sizes:
    """How large things are; all of it a hundredth to see whether it works."""

    rows: int = 2_000_000
    keys: int = 10_000_000
    batch: int = 100_000
    windows: int = 1_000_000

    @classmethod
    def tiny(cls) -> Sizes:
        return cls(rows=20_000, keys=20_000, batch=1_000, windows=5_000)


class Growth:
    """The axes. Each gives its points; time is in microseconds a row unless the axis says another unit."""

    def __init__(self, here: World, sizes: Sizes) -> None:
        self.world = here
        self.sizes = sizes

    # --- running ----------------------------------------------------------------------------

    def run(
        self,
        engine: Tidemill,
        script: str,
        inp: str,
        settings: Mapping[str, str] | None = None,
        place: Path | None = None,
    ) -> Turn:
        """A run into fresh topics that are thrown away; `place` keeps its checkpoint."""
        own = place or self.world.directory()
        wanted = sorted(set(re.findall(r"\$\{(out\d*)\}", script)))
        outs = {name: self.world.fresh() for name in wanted}
        values = {"BOOTSTRAP": self.world.bootstrap, "inp": inp, **outs}
        try:
            return engine.run(script, values, own / "checkpoint", settings)
        finally:
            for topic in outs.values():
                self.world.drop(topic)
            if place is None:
                shutil.rmtree(own, ignore_errors=True)

    def engine(self, **conf: str) -> Tidemill:
        return Tidemill(self.world.directory(), conf)

    def per_row(self, engine: Tidemill, script: str, inp: str, rows: int) -> float:
        """Microseconds of its batches' time, the median of three runs."""
        return statistics.median(
            busy_ms(self.run(engine, script, inp)) * 1000 / rows for _ in range(3)
        )

    # --- axes -------------------------------------------------------------------------------

    def input(self) -> Iterator[tuple[float, float]]:
        with self.engine() as engine:
            most = self.sizes.rows
            self.run(engine, SOURCE + TOTALS, self.world.topic("orders", most))
            for rows in (most // 10, most // 3, most):
                topic = self.world.topic("orders", rows)
                yield rows, self.per_row(engine, SOURCE + TOTALS, topic, rows)

    def state(self) -> Iterator[tuple[float, float]]:
        """A tenth of the keys come, then updates of them, then the other keys, then updates of all."""
        few, keys, batch = self.sizes.keys // 10, self.sizes.keys, self.sizes.batch
        topic = self.world.name()
        inputs.produce(self.world.bootstrap, topic, balances(few, keys, UPDATES * batch))
        kinds = [
            kind
            for kind, rows in (
                ("load", few),
                ("few", UPDATES * batch),
                ("load", keys - few),
                ("all", UPDATES * batch),
            )
            for _ in range(-(-rows // batch))
        ]
        with self.engine() as engine:
            turn = self.run(engine, BALANCES, topic, {"tidemill.batch.max-rows": str(batch)})
        self.world.drop(topic)
        times: dict[str, list[float]] = {}
        for kind, report in zip(kinds, busy(turn), strict=True):
            times.setdefault(kind, []).append(report["durationMs"]["triggerExecution"])
        for kind, number in (("few", few), ("all", keys)):
            yield number, statistics.median(times[kind][UPDATES // 3 :])

    def partitions(self) -> Iterator[tuple[float, float]]:
        rows = self.sizes.rows // 2
        with self.engine() as engine:
            for number in (2, 8, 32, 64):
                topic = self.world.name()
                dice = random.Random(42)
                orders = (inputs.order(dice.randrange(inputs.USERS), i) for i in range(rows))
                inputs.produce(self.world.bootstrap, topic, orders, number)
                self.run(engine, SOURCE + TOTALS, topic)
                yield number, self.per_row(engine, SOURCE + TOTALS, topic, rows)
                self.world.drop(topic)

    def sinks(self) -> Iterator[tuple[float, float]]:
        rows = self.sizes.rows // 4
        topic = self.world.topic("orders", rows)
        with self.engine() as engine:
            self.run(engine, several_sinks(1), topic)
            for number in (1, 2, 4, 8):
                yield number, self.per_row(engine, several_sinks(number), topic, rows)

    def batch(self) -> Iterator[tuple[float, float]]:
        """In a Spark of its own for each size: a worker that is used again keeps the peak of what it did before."""
        rows = self.sizes.rows
        topic = self.world.topic("timed", rows)
        for number in (rows // 200, rows // 2, rows):
            with self.engine() as engine:
                settings = {"tidemill.batch.max-rows": str(number)}
                self.run(engine, TIMED, topic, settings)
                most = worker_megabytes(engine.pid)
            if not most:
                raise EngineError("no Python worker ran")
            yield number, most

    def windows(self) -> Iterator[tuple[float, float]]:
        keys = self.sizes.windows
        for others in (0, keys):
            topic, place = self.world.name(), self.world.directory()
            inputs.produce(self.world.bootstrap, topic, visits(keys, others))
            with self.engine() as engine:
                state = self._closing(engine, topic, place, keys, others)
            self.world.drop(topic)
            shutil.rmtree(place, ignore_errors=True)
            yield others, int(state["customMetrics"]["rocksdbTotalBytesReadThroughIterator"])

    def _closing(
        self, engine: Tidemill, topic: str, place: Path, keys: int, others: int
    ) -> dict[str, Any]:
        """What the operator reports of the batch in which windows close. The job is not bounded, or all would."""
        values = {"BOOTSTRAP": self.world.bootstrap, "inp": topic}
        engine.start(VISITS, values, place / "checkpoint")
        try:
            self._read(engine, keys + others)
            # The watermark moves when both partitions have come so far.
            last = [Record(visit(p, 16)[2], partition=p) for p in range(inputs.PARTITIONS)]
            topics.write(self.world.bootstrap, topic, last)
            reports = self._read(engine, keys + others + len(last))
        finally:
            engine.ask("stop")
        [state] = [r for r in reports if r["numInputRows"]][-1]["stateOperators"]
        if state["numRowsTotal"] >= others + 10:
            raise EngineError("the window has not closed")
        return dict(state)

    def _read(self, engine: Tidemill, rows: int) -> list[dict[str, Any]]:
        deadline = time.monotonic() + 600
        while True:
            reports: list[dict[str, Any]] = engine.ask("reports")["reports"]
            done = [r for r in reports if "addBatch" in r["durationMs"]]
            if done and records_of(done[-1]) >= rows:
                time.sleep(2)
                return [
                    r for r in engine.ask("reports")["reports"] if "addBatch" in r["durationMs"]
                ]
            if time.monotonic() > deadline:
                raise EngineError("the job did not read its topic in ten minutes")
            time.sleep(0.5)

    # --- costs ------------------------------------------------------------------------------

    def costs(self) -> Iterator[dict[str, Any]]:
        yield {
            "name": "start",
            "what": "`tidemill run` of a script over ten rows, from the command to its end",
            "value": self.start_seconds(),
            "unit": "s",
        }
        with self.engine() as engine:
            for name, query, what in (
                ("one-row", COPY, "a batch of one row, without state"),
                ("one-row-state", COUNT, "a batch of one row, with state"),
            ):
                took, idle = self.empty(engine, ECHO + query)
                yield {"name": name, "what": what, "value": took, "unit": "ms"}
            yield {
                "name": "idle",
                "what": "CPU of a job with state that waits for rows",
                "value": idle * 1000,
                "unit": "ms a second",
            }

    def start_seconds(self) -> float:
        topic, place = self.world.fresh(), self.world.directory()
        topics.write(self.world.bootstrap, topic, [Record(b'{"id":%d}' % i) for i in range(10)])
        script = place / "start.sql"
        script.write_text(ECHO + COPY, encoding="utf-8")
        tidemill = "from tidemill.cli import main; main()"
        command = [sys.executable, "-c", tidemill, "run", "--bounded", str(script)]
        command += [f"--var=BOOTSTRAP={self.world.bootstrap}", f"--var=inp={topic}"]
        seconds = []
        for _ in range(3):
            begin = time.monotonic()
            done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
            if done.returncode:
                raise EngineError(f"tidemill run failed: {done.stderr.strip()}")
            seconds.append(time.monotonic() - begin)
        self.world.drop(topic)
        return statistics.median(seconds)

    def empty(self, engine: Tidemill, script: str) -> tuple[float, float]:
        """The milliseconds of a batch of one row, and CPU seconds a second of a job that waits."""
        topic, place = self.world.fresh(), self.world.directory()
        values = {"BOOTSTRAP": self.world.bootstrap, "inp": topic}
        engine.start(script, values, place / "checkpoint")
        try:
            for i in range(60):
                topics.write(self.world.bootstrap, topic, [Record(b'{"id":%d}' % (i % 10))])
                time.sleep(0.25)
            self._read(engine, 60)
            with Meter(engine.pid) as meter:
                time.sleep(10)
        finally:
            reports = engine.ask("stop")["reports"]
        self.world.drop(topic)
        shutil.rmtree(place, ignore_errors=True)
        times = [
            r["durationMs"]["triggerExecution"] for r in reports if "addBatch" in r["durationMs"]
        ]
        return statistics.median(times[len(times) // 2 :]), meter.cpu_seconds / 10


# --- what is read, and how reports are read ------------------------------------------------------


def several_sinks(number: int) -> str:
    """One statement set that writes one table into so many topics."""
    tables = "".join(
        f"CREATE TABLE copies{i} (user_id BIGINT, item STRING, amount DOUBLE) WITH ("
        f" 'connector' = 'kafka', 'topic' = '${{out{i}}}',"
        f" 'properties.bootstrap.servers' = '${{BOOTSTRAP}}', 'format' = 'json');\n"
        for i in range(number)
    )
    inserts = "".join(
        f"INSERT INTO copies{i} SELECT user_id, item, amount FROM orders WHERE n <> {i};\n"
        for i in range(number)
    )
    return f"{SOURCE}{tables}EXECUTE STATEMENT SET BEGIN\n{inserts}END;\n"


def balances(few: int, keys: int, updates: int) -> Iterator[Numbered]:
    """Every second record goes to the second partition, with odd keys: a batch takes as many of each."""
    dice = random.Random(42)
    serial = 0
    for number in range(few):
        yield balance(number, serial := serial + 1)
    for number in range(updates):
        yield balance(dice.randrange(few // 2) * 2 + number % 2, serial := serial + 1)
    for number in range(few, keys):
        yield balance(number, serial := serial + 1)
    for number in range(updates):
        yield balance(dice.randrange(keys // 2) * 2 + number % 2, serial := serial + 1)


def balance(key: int, serial: int) -> Numbered:
    # About 100 bytes, as a document and as a row of the state.
    value = b'{"id":%d,"region":"region-%03d","amount":%d,"note":"%032x"}'
    return key, b'{"id":%d}' % key, value % (key, serial % 1000, serial % 997, serial)


def visits(keys: int, others: int) -> Iterator[Numbered]:
    """First those of the window that closes; the watermark stays before its end."""
    yield from (visit(number, 5) for number in range(keys))
    yield from (visit(number, 12) for number in range(others))


def visit(key: int, second: int) -> tuple[int, None, bytes]:
    return key, None, b'{"id":%d,"ts":"2024-01-01 00:00:%02d"}' % (key, second)


def busy(turn: Turn) -> list[dict[str, Any]]:
    return [r for r in turn.reports if r["numInputRows"] and "addBatch" in r["durationMs"]]


def busy_ms(turn: Turn) -> float:
    """The time of batches alone: starting a query is another matter."""
    return sum(float(r["durationMs"]["triggerExecution"]) for r in busy(turn))


def records_of(report: Mapping[str, Any]) -> int:
    return sum(int((s.get("metrics") or {}).get("records", 0)) for s in report["sources"])


def worker_megabytes(root: int) -> float:
    """The most that any Python worker below a process has had in memory."""
    parents, peaks = {}, {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            status = dict(re.findall(r"(PPid|VmHWM):\s+(\d+)", (process / "status").read_text()))
            is_worker = b"pyspark.daemon" in (process / "cmdline").read_bytes()
        except OSError:
            continue  # it has just ended
        parents[int(process.name)] = int(status["PPid"])
        if is_worker:
            peaks[int(process.name)] = int(status.get("VmHWM", 0)) / 1024

    def is_below(process: int) -> bool:
        while process and process != root:
            process = parents.get(process, 0)
        return process != 0

    return max((mb for process, mb in peaks.items() if is_below(process)), default=0.0)


# --- the command ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Axis:
    name: str
    what: str
    x: str
    unit: str
    measure: Callable[[Growth], Iterator[tuple[float, float]]]
    limit: float
    """Of the last point to the first, or, if `is_absolute`, of any point."""
    is_absolute: bool = False


AXES = (
    Axis("input", "rows of the input, GROUP BY of 200,000 keys", "rows", "µs per row", Growth.input, 1.3),
    Axis("state", "keys in the state, batches of 100,000 updates", "keys", "ms per batch", Growth.state, 1.3),
    Axis("partitions", "partitions of the topic, GROUP BY", "partitions", "µs per row", Growth.partitions, 32),
    Axis("sinks", "tables that a statement set writes to", "sinks", "µs per row", Growth.sinks, 8),
    Axis("batch", "rows of a batch that Python decodes and encodes", "rows", "MB of a worker", Growth.batch, 400, True),
    Axis("windows", "keys in open windows, as a million others close", "keys", "bytes read", Growth.windows, 1.1),
)  # fmt: skip


def axis_figure(axis: Axis, points: Sequence[tuple[float, float]]) -> dict[str, Any]:
    first, last = points[0][1], points[-1][1]
    factor = max(y for _, y in points) if axis.is_absolute else last / first if first else 0.0
    return {
        "name": axis.name,
        "axis": axis.name,
        "what": axis.what,
        "x": axis.x,
        "unit": axis.unit,
        "points": [{"x": x, "y": round(y, 3)} for x, y in points],
        "factor": round(factor, 3),
        "limit": axis.limit,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [axis.name for axis in AXES]
    parser.add_argument("--only", nargs="+", choices=[*names, "costs"], default=[*names, "costs"])
    parser.add_argument("--tiny", action="store_true", help="see that it works; measures nothing")
    parser.add_argument("--results", type=Path, default=figures.FIGURES / "growth.json")
    asked = parser.parse_args()
    order = [*names, "start", "one-row", "one-row-state", "idle"]
    on = figures.machine()
    problems = []

    def keep(figure: dict[str, Any]) -> None:
        figure |= {"measured": figures.now(), "machine": on}
        figures.store(asked.results, [figure], order, key="name")

    with world.running() as here:
        growth = Growth(here, Sizes.tiny() if asked.tiny else Sizes())
        for axis in AXES:
            if axis.name not in asked.only:
                continue
            points = []
            for x, y in axis.measure(growth):
                print(f"{axis.name:12} {x:12,.0f} {axis.x:10} {y:12,.3f} {axis.unit}", flush=True)
                points.append((x, y))
            figure = axis_figure(axis, points)
            print(
                f"{axis.name:12} factor {figure['factor']:.2f}, at most {axis.limit:g}", flush=True
            )
            if figure["factor"] > axis.limit:
                problems.append(
                    f"{axis.name}: {figure['factor']:.2f}, wanted at most {axis.limit:g}"
                )
            keep(figure)
        if "costs" in asked.only:
            for cost in growth.costs():
                print(f"{cost['what']}: {cost['value']:.3g} {cost['unit']}", flush=True)
                keep(cost)
    print(f"written to {asked.results}", file=sys.stderr)
    figures.require(problems)


if __name__ == "__main__":
    program.run(main)

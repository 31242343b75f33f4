"""What one machine does, held to its targets: rates of reading, grouping and writing, as ratios to another rate of the
same run, and the memory of Python's workers, at small, usual and large batches.

    python bench/run.py [--rows 3000000] [--rounds 3] [--only decode exactly-once …]

One broker, topics of two partitions, one Spark; the workloads take turns, and the medians of their rates count.
The raw read gives, row by row, what a decoding scan takes out of Kafka: each record's value and its address.
A rate is rows over the time of the batches, so that starting a query does not count. Memory is measured in a Spark of
its own for each batch size, because a worker that is used again keeps the peak of what it did before.
Exit code 1 names what was missed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import tempfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import inputs
from tidemill import Session
from tidemill.broker import start, topics
from tidemill.spark.access import Access
from tidemill.spark.source import topics_spec
from tidemill.tables.catalog import Table

BATCH = 1_000_000

SCRIPT = """
CREATE TABLE orders (user_id BIGINT, item STRING, amount DOUBLE, region STRING, n INT) WITH (
  'connector' = 'kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', 'format' = 'json');
CREATE TABLE tagged (tags ARRAY<STRING>) WITH ('topic' = 'tagged') LIKE orders (OVERWRITING OPTIONS);
CREATE TABLE copies (user_id BIGINT, item STRING, amount DOUBLE, region STRING, n INT) WITH (
  'connector' = 'kafka', 'topic' = 'copies', 'properties.bootstrap.servers' = '${BOOTSTRAP}', 'format' = 'json');
CREATE TABLE sure_copies WITH ('sink.delivery-guarantee' = 'exactly-once') LIKE copies (OVERWRITING OPTIONS);
CREATE TABLE hole (user_id BIGINT, item STRING, amount DOUBLE, region STRING, n INT) WITH ('connector' = 'blackhole');
CREATE TABLE tagged_hole WITH ('connector' = 'blackhole') LIKE tagged (EXCLUDING OPTIONS);
CREATE TABLE totals (user_id BIGINT, c BIGINT, amount DOUBLE) WITH ('connector' = 'blackhole');
"""


@dataclass(frozen=True)
class Rate:
    """A workload, and the least that its ratio to another one should be."""

    statement: str | None
    beside: str = "raw-read"
    wanted: float | None = None


RATES = {
    "raw-read": Rate(None),
    "decode": Rate("INSERT INTO hole SELECT * FROM orders", wanted=0.25),
    "group-by": Rate(
        "INSERT INTO totals SELECT user_id, COUNT(*), SUM(amount) FROM orders GROUP BY user_id",
        wanted=0.1,
    ),
    "at-least-once": Rate("INSERT INTO copies SELECT * FROM orders"),
    "exactly-once": Rate("INSERT INTO sure_copies SELECT * FROM orders", "at-least-once", 0.85),
}
MEMORY = {
    "decode-memory": "INSERT INTO tagged_hole SELECT * FROM tagged",
    "encode-memory": "INSERT INTO copies SELECT * FROM orders",
}
"""Work of Python's workers alone: the kernel decodes plain documents by itself."""
WORKER_MEGABYTES = 400


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=[*RATES, *MEMORY], default=[*RATES, *MEMORY])
    chosen = parser.parse_args()
    # What a chosen workload is compared with is measured, too.
    beside = {RATES[name].beside for name in chosen.only if name in RATES}
    rated = [name for name in RATES if name in {*chosen.only, *beside}]
    filled = ["orders", "tagged"] if "decode-memory" in chosen.only else ["orders"]
    with tempfile.TemporaryDirectory() as place:
        broker = start(Path(place), port=0)
        try:
            for name in filled:
                print(f"filling {name} with {chosen.rows:,} rows …", flush=True)
                inputs.INPUTS[name](broker.bootstrap, name, chosen.rows)
            topics.create(broker.bootstrap, "copies", inputs.PARTITIONS, {})
            print(f"\n{chosen.rows:,} rows, {platform.machine()}", flush=True)
            missed = []
            if rated:
                rates = measure_rates(rated, chosen.rounds, broker.bootstrap, place)
                missed += show_rates(rates, chosen.rounds)
            for name in MEMORY:
                if name in chosen.only:
                    missed += measure_memory(name, chosen.rows, broker.bootstrap, place)
        finally:
            broker.stop()
    if missed:
        raise SystemExit("\n".join(f"missed: {what}" for what in missed))


def run(session: Session, statement: str | None, batch: int, place: str) -> Any:
    """The query of a workload, just started."""
    fresh = tempfile.mkdtemp(dir=place)
    session.execute(f"SET 'execution.checkpointing.dir' = '{fresh}'")
    session.execute(f"SET 'tidemill.batch.max-rows' = '{batch}'")
    if statement is None:
        return raw_read(session, batch, fresh)
    # A name of its own: two jobs of a session may not share one.
    return session.execute(statement, name=Path(fresh).name)[0].query  # type: ignore[union-attr]


def raw_read(session: Session, batch: int, checkpoint: str) -> Any:
    table = session.environment.objects["orders"]
    assert isinstance(table, Table)
    spec = {
        "table": "orders",
        **topics_spec(table.connector, Access()),  # type: ignore[arg-type]
        "columns": ["value", "partition", "offset"],
        "startup": {"mode": "earliest-offset"},
        "bounded": {"mode": "latest-offset"},
        "discoveryIntervalMs": 0,
        "maxRowsPerBatch": batch,
    }
    records = (
        session.spark.readStream.format("tidemill-kafka").option("spec", json.dumps(spec)).load()
    )
    writer = records.writeStream.format("noop").trigger(availableNow=True)
    return writer.option("checkpointLocation", checkpoint).start()


# --- rates ---------------------------------------------------------------------------------------


def measure_rates(
    names: Collection[str], rounds: int, bootstrap: str, place: str
) -> dict[str, list[float]]:
    rates: dict[str, list[float]] = {name: [] for name in names}
    with Session(variables={"BOOTSTRAP": bootstrap}) as session:
        session.execute(SCRIPT)
        for turn in range(rounds + 1):
            for name in names:
                found = rate(run(session, RATES[name].statement, BATCH, place))
                if turn:  # the first round warms the JVM up
                    rates[name].append(found)
    return rates


def rate(query: Any) -> float:
    query.awaitTermination()
    reports = [json.loads(r.json) for r in query.recentProgress]
    busy = [r for r in reports if r["numInputRows"]]
    rows = max(int(r["sources"][0]["metrics"]["records"]) for r in busy)
    return rows / (sum(r["durationMs"]["triggerExecution"] for r in busy) / 1000)


def show_rates(rates: Mapping[str, list[float]], rounds: int) -> list[str]:
    """Prints the table; gives what was missed."""
    medians = {name: statistics.median(found) for name, found in rates.items()}
    missed = []
    print(f"\nmedians of {rounds}, batches of {BATCH:,} rows, {inputs.USERS:,} keys")
    print(f"{'workload':14} {'rows/s':>12} {'ratio':>7} {'wanted':>7}   to             spread")
    for name, median in medians.items():
        target = RATES[name]
        ratio = median / medians[target.beside]
        wanted = f"{target.wanted:.2f}" if target.wanted is not None else ""
        spread = f"{min(rates[name]):,.0f} … {max(rates[name]):,.0f}"
        print(f"{name:14} {median:12,.0f} {ratio:7.2f} {wanted:>7}   {target.beside:14} {spread}")
        if target.wanted is not None and ratio < target.wanted:
            missed.append(f"{name} is {ratio:.2f} × {target.beside}, wanted {wanted}")
    return missed


# --- memory --------------------------------------------------------------------------------------


def measure_memory(name: str, rows: int, bootstrap: str, place: str) -> list[str]:
    """Prints a line for each size of batches, up to all rows at once; gives what was missed."""
    missed = []
    print(f"\n{name:14} {'rows a batch':>12} {'MB':>7} {'wanted':>7}")
    for batch in sorted({min(10_000, rows), min(BATCH, rows), rows}):
        with Session(variables={"BOOTSTRAP": bootstrap}) as session:
            session.execute(SCRIPT)
            most = peak(run(session, MEMORY[name], batch, place), worker_megabytes)
        print(f"{'':14} {batch:12,} {most:7,.0f} {f'< {WORKER_MEGABYTES}':>7}", flush=True)
        if not most:
            missed.append(f"{name}: no Python worker ran with {batch:,} rows a batch")
        elif most >= WORKER_MEGABYTES:
            missed.append(
                f"{name}: a Python worker had {most:,.0f} MB with {batch:,} rows a batch,"
                f" wanted under {WORKER_MEGABYTES}"
            )
    return missed


def peak(query: Any, look: Callable[[], float]) -> float:
    most = 0.0
    while not query.awaitTermination(0.5):
        most = max(most, look())
    return max(most, look())


def worker_megabytes() -> float:
    """The most that any Python worker of this process's Spark has had in memory."""
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

    def is_ours(process: int) -> bool:
        while process and process != os.getpid():
            process = parents.get(process, 0)
        return process != 0

    return max((megabytes for process, megabytes in peaks.items() if is_ours(process)), default=0.0)


if __name__ == "__main__":
    main()

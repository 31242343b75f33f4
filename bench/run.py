"""Rows per second of Kafka → decode → blackhole, of GROUP BY, as ratios to a raw read of the same topic; of writing
exactly once, as a ratio to writing at least once; and the memory of Python's workers.

    python bench/run.py [--rows 3000000] [--rounds 3]

One broker, one topic of two partitions, one Spark; the workloads take turns, and the medians of their rates count.
The raw read gives, row by row, what a decoding scan takes out of Kafka: each record's value and its address.
A rate is rows over the time of the batches, so that starting a query does not count.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import statistics
import tempfile
from pathlib import Path
from typing import Any

import inputs
from tidemill import Session
from tidemill.broker import start, topics
from tidemill.spark.source import topics_spec
from tidemill.tables.catalog import Table

KEYS = inputs.USERS
BATCH = 1_000_000

SCRIPT = """
CREATE TABLE orders (user_id BIGINT, item STRING, amount DOUBLE, region STRING, n INT) WITH (
  'connector' = 'kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', 'format' = 'json');
CREATE TABLE copies (user_id BIGINT, item STRING, amount DOUBLE, region STRING, n INT) WITH (
  'connector' = 'kafka', 'topic' = 'copies', 'properties.bootstrap.servers' = '${BOOTSTRAP}', 'format' = 'json');
CREATE TABLE sure_copies WITH ('sink.delivery-guarantee' = 'exactly-once') LIKE copies (OVERWRITING OPTIONS);
CREATE TABLE hole (user_id BIGINT, item STRING, amount DOUBLE, region STRING, n INT) WITH ('connector' = 'blackhole');
CREATE TABLE totals (user_id BIGINT, c BIGINT, amount DOUBLE) WITH ('connector' = 'blackhole');
"""
WORKLOADS = {
    "raw read": None,
    "decode": "INSERT INTO hole SELECT * FROM orders",
    f"GROUP BY, {KEYS:,} keys": (
        "INSERT INTO totals SELECT user_id, COUNT(*), SUM(amount) FROM orders GROUP BY user_id"
    ),
    "copy, at least once": "INSERT INTO copies SELECT * FROM orders",
    "copy, exactly once": "INSERT INTO sure_copies SELECT * FROM orders",
}
# A workload's ratio to another, and the least that it should be.
TARGETS = {
    "decode": ("raw read", 0.25),
    f"GROUP BY, {KEYS:,} keys": ("raw read", 0.1),
    "copy, exactly once": ("copy, at least once", 0.85),
}
WORKER_MEGABYTES = 400


def raw_read(session: Session) -> Any:
    table = session.environment.objects["orders"]
    assert isinstance(table, Table)
    spec = {
        "table": "orders",
        **topics_spec(table.connector),  # type: ignore[arg-type]
        "columns": ["value", "partition", "offset"],
        "startup": {"mode": "earliest-offset"},
        "bounded": {"mode": "latest-offset"},
        "discoveryIntervalMs": 0,
        "maxRowsPerBatch": BATCH,
    }
    records = (
        session.spark.readStream.format("tidemill-kafka").option("spec", json.dumps(spec)).load()
    )
    writer = records.writeStream.format("noop").trigger(availableNow=True)
    return writer.option("checkpointLocation", tempfile.mkdtemp()).start()


def rate(query: Any) -> float:
    query.awaitTermination()
    reports = [json.loads(r.json) for r in query.recentProgress]
    busy = [r for r in reports if r["numInputRows"]]
    rows = max(int(r["sources"][0]["metrics"]["records"]) for r in busy)
    return rows / (sum(r["durationMs"]["triggerExecution"] for r in busy) / 1000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        broker = start(Path(place), port=0)
        try:
            print(f"filling a topic with {chosen.rows:,} rows …", flush=True)
            inputs.orders(broker.bootstrap, "orders", chosen.rows)
            topics.create(broker.bootstrap, "copies", inputs.PARTITIONS, {})
            with Session(variables={"BOOTSTRAP": broker.bootstrap}) as session:
                session.execute(SCRIPT)
                rates: dict[str, list[float]] = {name: [] for name in WORKLOADS}
                for turn in range(chosen.rounds + 1):
                    for name, statement in WORKLOADS.items():
                        fresh = tempfile.mkdtemp(dir=place)
                        session.execute(f"SET 'execution.checkpointing.dir' = '{fresh}'")
                        query = (
                            raw_read(session)
                            if statement is None
                            else session.execute(statement)[0].query
                        )  # type: ignore[union-attr]
                        found = rate(query)
                        if turn:  # the first round warms the JVM up
                            rates[name].append(found)
                memory = worker_megabytes()
        finally:
            broker.stop()
    medians = {name: statistics.median(found) for name, found in rates.items()}
    print(
        f"\n{chosen.rows:,} rows, {chosen.rounds} rounds, {platform.machine()}, batches of {BATCH:,} rows\n"
    )
    print(f"{'workload':28} {'rows/s':>12} {'ratio':>7} {'wanted':>7}   spread")
    for name, median in medians.items():
        beside, least = TARGETS.get(name, ("raw read", None))
        wanted = f"{least:.2f}" if least is not None else ""
        spread = f"{min(rates[name]):,.0f} … {max(rates[name]):,.0f}"
        print(f"{name:28} {median:12,.0f} {median / medians[beside]:7.2f} {wanted:>7}   {spread}")
    print(f"\nmost memory of a Python worker: {memory:,.0f} MB, wanted under {WORKER_MEGABYTES}")


def worker_megabytes() -> float:
    """The most that any Python worker of this machine's Spark has had in memory."""
    peaks = [0.0]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if b"pyspark.daemon" in (process / "cmdline").read_bytes():
                status = (process / "status").read_text()
                peaks += [int(kb) / 1024 for kb in re.findall(r"VmHWM:\s+(\d+) kB", status)]
        except OSError:
            continue  # it has just ended
    return max(peaks)


if __name__ == "__main__":
    main()

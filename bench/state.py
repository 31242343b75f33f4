"""Batches over a growing state: `python bench/state.py [--keys 10000000] [--batch 100000]`.

An upsert table of so many keys, rows of 100 bytes, is normalised and summed up, with a heap of 2 GiB. First comes a
tenth of the keys, then batches that update them, then the other keys, then batches that update all. Out: the time of
the batches of either kind, medians, and their ratio; exit code 1 if the job did not live through it or if batches over
all keys take more than 1.3 times as long.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import inputs
from tidemill import Session
from tidemill.broker import start

HEAP = "2g"
MOST = 1.3
UPDATES = 15
"""Batches of updates of either kind, of which the first third is not counted: they follow the loading's."""

SCRIPT = """
CREATE TABLE balances (id BIGINT, region STRING, amount BIGINT, note STRING, PRIMARY KEY (id) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'balances', 'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'scan.bounded.mode' = 'latest-offset', 'key.format' = 'json', 'value.format' = 'json');
CREATE TABLE totals (region STRING, c BIGINT, amount BIGINT, letters INT) WITH ('connector' = 'blackhole');
INSERT INTO totals SELECT region, COUNT(*), SUM(amount), SUM(CHAR_LENGTH(note)) FROM balances GROUP BY region;
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument("--batch", type=int, default=100_000)
    chosen = parser.parse_args()
    few, all_keys, batch = chosen.keys // 10, chosen.keys, chosen.batch
    phases = [("load", few), ("few", UPDATES * batch), ("load", all_keys - few)]
    phases.append(("all", UPDATES * batch))
    with tempfile.TemporaryDirectory() as place:
        broker = start(Path(place), port=0)
        try:
            print(f"filling balances with {sum(n for _, n in phases):,} rows …", flush=True)
            inputs.produce(broker.bootstrap, "balances", rows(few, all_keys, UPDATES * batch))
            seconds, last = run(broker.bootstrap, batch, place)
        finally:
            broker.stop()
    kinds = [kind for kind, number in phases for _ in range(-(-number // batch))]
    times: dict[str, list[float]] = {}
    for kind, took in zip(kinds, seconds, strict=True):
        times.setdefault(kind, []).append(took)
    medians = {
        kind: statistics.median(found[UPDATES // 3 :] if kind != "load" else found)
        for kind, found in times.items()
    }
    print(f"\n{all_keys:,} keys, batches of {batch:,} rows, heap {HEAP}; medians")
    for kind, keys in (("few", few), ("all", all_keys)):
        print(f"updates of {keys:12,} keys {medians[kind]:8.2f} s a batch")
    for operator in last["stateOperators"]:
        print(f"state {operator['numRowsTotal']:12,} rows")
    ratio = medians["all"] / medians["few"]
    print(f"ratio {ratio:.2f}, wanted at most {MOST}")
    if ratio > MOST:
        raise SystemExit(f"missed: batches over all keys take {ratio:.2f} times as long")


def rows(few: int, keys: int, updates: int) -> Iterator[tuple[int, bytes, bytes]]:
    """Every second record goes to the second partition, with odd keys: a batch takes as many of each."""
    dice = random.Random(42)
    serial = 0
    for number in range(few):
        yield upsert(number, serial := serial + 1)
    for number in range(updates):
        yield upsert(dice.randrange(few // 2) * 2 + number % 2, serial := serial + 1)
    for number in range(few, keys):
        yield upsert(number, serial := serial + 1)
    for number in range(updates):
        yield upsert(dice.randrange(keys // 2) * 2 + number % 2, serial := serial + 1)


def upsert(key: int, serial: int) -> tuple[int, bytes, bytes]:
    # About 100 bytes, as a document and as a row of the state.
    value = b'{"id":%d,"region":"region-%03d","amount":%d,"note":"%032x"}'
    return key, b'{"id":%d}' % key, value % (key, serial % 1000, serial % 997, serial)


def run(bootstrap: str, batch: int, place: str) -> tuple[list[float], Any]:
    """How long each batch took, and the last one's report."""
    conf = {"spark.driver.memory": HEAP, "spark.sql.streaming.numRecentProgressUpdates": "10000"}
    with Session(variables={"BOOTSTRAP": bootstrap}, conf=conf, checkpoint=place) as session:
        session.execute(f"SET 'tidemill.batch.max-rows' = '{batch}'")
        job: Any = session.execute(SCRIPT)[-1]
        begin = time.monotonic()
        while not job.query.awaitTermination(10):
            done = job.query.lastProgress
            if done:
                say = f"\r{time.monotonic() - begin:6.0f} s, batch {done['batchId']}"
                print(say, end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
        failure = job.failure()
        if failure is not None:
            raise SystemExit(f"missed: the job failed: {failure}")
        reports = [json.loads(r.json) for r in job.query.recentProgress]
        busy = [r for r in reports if r["numInputRows"]]
        return [r["durationMs"]["triggerExecution"] / 1000 for r in busy], busy[-1]


if __name__ == "__main__":
    main()

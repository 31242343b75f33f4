"""What closing windows reads: `python bench/windows.py [--keys 1000000]`.

A window of so many keys closes, once alone and once beside a later window with as many keys, which stays open. Out:
the bytes of state that closing has read by iterators, and its time; exit code 1 if the open window makes it read more
than a tenth more.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import inputs
from tidemill import Session
from tidemill.broker import Broker, start, topics
from tidemill.broker.records import Record

MOST = 1.1

SCRIPT = """
CREATE TABLE visits (id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH (
  'connector' = 'kafka', 'topic' = '${TOPIC}', 'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'json');
CREATE TABLE counts (id BIGINT, c BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO counts SELECT id, COUNT(*) FROM TABLE(TUMBLE(TABLE visits, DESCRIPTOR(ts), INTERVAL '10' SECOND))
GROUP BY id, window_start, window_end;
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=1_000_000)
    keys = parser.parse_args().keys
    read = {}
    with tempfile.TemporaryDirectory() as place:
        broker = start(Path(place), port=0)
        try:
            for others in (0, keys):
                read[others], seconds = close(broker, keys, others, f"{place}/{others}")
                print(
                    f"{keys:,} keys close beside {others:,} that stay: {read[others]:,} bytes read,"
                    f" {seconds:.1f} s",
                    flush=True,
                )
        finally:
            broker.stop()
    ratio = read[keys] / read[0]
    print(f"ratio {ratio:.3f}, wanted at most {MOST}")
    if ratio > MOST:
        raise SystemExit(f"missed: beside an open window, closing reads {ratio:.2f} times as much")


def close(broker: Broker, keys: int, others: int, place: str) -> tuple[int, float]:
    """What the batch reads in which they close, and its seconds."""
    topic = f"visits-{others}"
    inputs.produce(broker.bootstrap, topic, rows(keys, others))
    run(broker, topic, place)
    # The watermark moves when both partitions have come so far.
    last = [Record(visit(p, 16)[2], partition=p) for p in range(inputs.PARTITIONS)]
    topics.write(broker.bootstrap, topic, last)
    report = run(broker, topic, place)
    [state] = report["stateOperators"]
    assert state["numRowsTotal"] < others + 10, "the window has not closed"
    read = int(state["customMetrics"]["rocksdbTotalBytesReadThroughIterator"])
    return read, report["durationMs"]["triggerExecution"] / 1000


def run(broker: Broker, topic: str, place: str) -> Any:
    """Reads what there is; the report of the last batch with rows."""
    variables = {"BOOTSTRAP": broker.bootstrap, "TOPIC": topic}
    with Session(variables=variables, checkpoint=place, bounded=True) as session:
        job: Any = session.execute(SCRIPT)[-1]
        job.query.awaitTermination()
        failure = job.failure()
        if failure is not None:
            raise SystemExit(f"missed: the job failed: {failure}")
        reports = [json.loads(r.json) for r in job.query.recentProgress]
        return [r for r in reports if r["numInputRows"]][-1]


def rows(keys: int, others: int) -> Iterator[tuple[int, None, bytes]]:
    """First those of the window that closes; the watermark stays before its end."""
    yield from (visit(number, 5) for number in range(keys))
    yield from (visit(number, 12) for number in range(others))


def visit(key: int, second: int) -> tuple[int, None, bytes]:
    return key, None, b'{"id":%d,"ts":"2024-01-01 00:00:%02d"}' % (key, second)


if __name__ == "__main__":
    main()

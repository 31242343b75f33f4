"""What is shown of a running job, out of Spark's reports."""

from __future__ import annotations

import json
from typing import Any

from tidemill.spark.progress import Progress


def report(batch: int, **writers: int) -> dict[str, Any]:
    tables = {name: {"rows": 5, "bytes": 50, "writers": n} for name, n in writers.items()}
    return {
        "batchId": batch,
        "durationMs": {"triggerExecution": 1000, "addBatch": 900},
        "sources": [{"description": "tidemill-kafka[orders: o]", "numInputRows": 1200}],
        "sink": {"numOutputRows": 5, "metrics": {"tables": json.dumps(tables)}},
    }


def line(*reports: dict[str, Any]) -> str:
    progress = Progress()
    progress.add(reports)
    return progress.line()


def test_the_line_tells_rows_rates_and_writers() -> None:
    assert line(report(0, copy=3)) == (
        "orders 1,200 in | 5 out by 3 writers | 1,200 rows/s in, 5 out | batch 1,000 ms"
    )


def test_the_writers_of_several_tables_are_told_apart() -> None:
    assert " | 10 out by 1 writer of copy, 2 of totals | " in line(
        report(0, copy=1, totals=1), report(1, copy=1, totals=2)
    )


def test_a_sink_without_writers_tells_none() -> None:
    assert " | 5 out | " in line(report(0))
    noop = report(0) | {"sink": {"numOutputRows": -1}}
    assert " | 0 out | " in line(noop)


def test_what_operators_remember_is_told_from_the_sources_up() -> None:
    progress = Progress(["GroupAggregate", "ChangelogNormalize"])
    remembered = [
        {"numRowsTotal": 37, "memoryUsedBytes": 810, "customMetrics": {"rocksdbSstFileSize": 0}},
        {
            "numRowsTotal": 691000,
            "memoryUsedBytes": 97_000_000,
            "customMetrics": {"rocksdbSstFileSize": 1_410_000_000},
        },
    ]
    progress.add([report(0) | {"stateOperators": remembered}])
    assert progress.line().endswith(
        " | state ChangelogNormalize 691,000 rows, 1.5 GB; GroupAggregate 37 rows, 810 bytes"
    )

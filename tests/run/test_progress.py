"""What is shown of a running job, out of Spark's reports."""

from __future__ import annotations

import json
from typing import Any

from tidemill.spark.progress import Progress, late_warnings, times_of


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


def test_the_rows_of_a_table_that_ends_are_counted_and_not_its_batch() -> None:
    once = {"description": "tidemill-datagen[files]", "numInputRows": 1}
    first = report(0)
    told = first | {
        "sources": [once, *first["sources"], once],
        "observedMetrics": {"rows of files/a": {"rows": 40}, "rows of files/b": {"rows": 2}},
    }
    assert line(told).startswith("files 42 in | orders 1,200 in | ")


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


def test_rows_that_come_late_are_told_once_they_are_many() -> None:
    told: set[str] = set()
    met = {"WindowAggregate of orders: late row": 2, "orders: bad record": 50}
    assert late_warnings(met, 0, told) == []
    assert late_warnings(met, 2000, told) == []
    [line] = late_warnings(met, 1999, told)
    assert line.startswith("warning: WindowAggregate of orders: 2 of 1,999 rows came late")
    assert late_warnings(met, 10, told) == []
    origin = "late row from partition {} of topic 'in'"
    met = {"Join: late row": 9, f"Join: {origin.format(0)}": 2, f"Join: {origin.format(1)}": 7}
    [line] = late_warnings(met, 100, told)
    assert "9 of 100 rows came late, most of them from partition 1 of topic 'in'; " in line


def test_the_slowest_partition_is_named() -> None:
    times: dict[str, Any] = {
        "in": {"0": {"time": 9000, "watermark": 7000}, "1": {"idle": True}, "2": {}}
    }
    source: dict[str, Any] = {
        "description": "tidemill-kafka[orders: in]",
        "metrics": {"times": json.dumps(times), "partitions": json.dumps({"in": {"0": 4}})},
    }
    found = times_of(source)
    assert found is not None
    assert found.watermark is None
    assert str(found) == "orders watermark none yet by partition 2 of topic 'in'"
    assert [(p.lag, p.idle) for p in found.partitions] == [(4, False), (0, True), (0, False)]
    times["in"].pop("2")
    source["metrics"]["times"] = json.dumps(times)
    found = times_of(source)
    assert found is not None
    assert str(found) == "orders watermark 1970-01-01 00:00:07 by partition 0 of topic 'in'"

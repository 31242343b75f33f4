"""The datagen source of the kernel: numbers in order, at a rate, the same on every replay."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kernel_jobs import Job, finish

pytestmark = pytest.mark.spark

Start = Callable[..., Job]


def generate(spark: Any, **spec: Any) -> Any:
    described = {"rowsPerSecond": 10_000} | spec
    return spark.readStream.format("tidemill-datagen").option("spec", json.dumps(described)).load()


def ids(job: Job) -> list[int]:
    return [row.id for row in job.rows]


def test_a_bounded_generator_ends_at_its_number_of_rows(
    spark: Any, jobs: Start, tmp_path: Path
) -> None:
    frame = generate(spark, numberOfRows=5000)
    assert frame.dtypes == [("id", "bigint")]
    assert sorted(ids(finish(jobs(frame, tmp_path)))) == list(range(5000))
    assert ids(finish(jobs(frame, tmp_path))) == []
    more = generate(spark, numberOfRows=5010)
    assert sorted(ids(finish(jobs(more, tmp_path)))) == list(range(5000, 5010))


def test_no_rows_end_at_once(spark: Any, jobs: Start, tmp_path: Path) -> None:
    assert ids(finish(jobs(generate(spark, numberOfRows=0), tmp_path))) == []
    assert ids(finish(jobs(generate(spark, numberOfRows=None), tmp_path / "b"))) == []


def test_the_rate_is_kept(spark: Any, jobs: Start, tmp_path: Path) -> None:
    begun = time.monotonic()
    job = finish(jobs(generate(spark, rowsPerSecond=100, numberOfRows=150), tmp_path))
    assert time.monotonic() - begun >= 1.5
    assert len(job.rows) == 150
    assert max(job.batches) < 150


def test_time_without_a_query_owes_nothing(spark: Any, jobs: Start, tmp_path: Path) -> None:
    frame = generate(spark, rowsPerSecond=1000)
    first = jobs(frame, tmp_path, available_now=False)
    deadline = time.monotonic() + 20
    while not first.rows and time.monotonic() < deadline:
        time.sleep(0.02)
    first.query.stop()
    seen = len(first.rows)
    time.sleep(1.5)
    begun = time.monotonic()
    second = jobs(frame, tmp_path, available_now=False)
    while not second.rows and time.monotonic() < deadline:
        time.sleep(0.02)
    second.query.stop()
    assert len(second.rows) <= 1000 * (time.monotonic() - begun) + seen
    together = sorted(set(ids(first)) | set(ids(second)))
    assert together == list(range(len(together)))


def test_a_replayed_batch_is_the_same_batch(spark: Any, jobs: Start, tmp_path: Path) -> None:
    frame = generate(spark, numberOfRows=500, maxRowsPerBatch=100, partitions=3)
    first = finish(jobs(frame, tmp_path))
    last = max(int(p.name) for p in (tmp_path / "commits").iterdir() if p.name.isdigit())
    (tmp_path / "commits" / str(last)).unlink()
    second = finish(jobs(frame, tmp_path))
    assert len(second.rows) > 0
    assert ids(second) == ids(first)[-len(second.rows) :]


@pytest.mark.parametrize("partitions", [None, 1, 3])
def test_a_batch_is_split_over_partitions(
    spark: Any, jobs: Start, tmp_path: Path, partitions: int | None
) -> None:
    from pyspark.sql import functions as F

    spec = {"numberOfRows": 90, "rowsPerSecond": 1_000_000}
    if partitions:
        spec["partitions"] = partitions
    frame = generate(spark, **spec).withColumn("task", F.spark_partition_id())
    job = finish(jobs(frame, tmp_path))
    assert {row.task for row in job.rows} == set(range(partitions or 2))


def test_waiting_for_a_row_can_be_stopped(spark: Any, jobs: Start, tmp_path: Path) -> None:
    job = jobs(generate(spark, rowsPerSecond=1, numberOfRows=100), tmp_path)
    time.sleep(0.5)
    job.query.stop()
    assert job.query.exception() is None


def test_a_bad_spec_is_refused(spark: Any) -> None:
    with pytest.raises(Exception, match="must be positive"):
        generate(spark, rowsPerSecond=0)
    with pytest.raises(Exception, match="not a valid datagen spec"):
        generate(spark, rows=1)

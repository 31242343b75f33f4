"""Jobs: a plan becomes a streaming query with a checkpoint, is watched, and ends.

In: a `Job` and where its checkpoint lives. Out: a `RunningJob`. Law: a job's checkpoint says for which zone it was made
and keeps it; whatever stops a query is told as a diagnostic, or as a fault of ours with its whole text.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import IO, Any

from pyspark.accumulators import AccumulatorParam
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tidemill.changelog import RowKind
from tidemill.errors import Diagnostic, JobError, job_error, usage_error
from tidemill.output import Output, TableOutput
from tidemill.plan import nodes
from tidemill.plan.environment import Job
from tidemill.plan.modes import Modes
from tidemill.plan.scope import not_yet
from tidemill.spark.faults import diagnose
from tidemill.spark.lower import Lowering
from tidemill.spark.progress import as_reports
from tidemill.spark.sink import kafka_records, kafka_sink_spec, rendered
from tidemill.spark.source import topics_spec
from tidemill.spark.user_functions import register
from tidemill.tables.builtin import BlackholeTable, DatagenTable, PrintTable
from tidemill.tables.catalog import Table
from tidemill.tables.kafka import TopicTable

DEFAULT_MAX_ROWS = 1_000_000
TEXT_MAX_ROWS = 50_000
"""Rows per batch where every row is collected and printed."""
CONNECT_TIMEOUT_MS = 8_000


class _Counts(AccumulatorParam[dict[str, int]]):  # type: ignore[misc]
    """Losses by name, added up over tasks."""

    def zero(self, value: dict[str, int]) -> dict[str, int]:
        return {}

    def addInPlace(self, left: dict[str, int], right: dict[str, int]) -> dict[str, int]:  # noqa: N802
        for name, number in right.items():
            left[name] = left.get(name, 0) + number
        return left


@dataclass(frozen=True)
class _Counter:
    """Counts in a worker what the driver shows; travels with the function that uses it."""

    table: str
    accumulator: Any = field(hash=False, compare=False)

    def __call__(self, name: str, number: int) -> None:
        self.accumulator.add({f"{self.table}: {name}": number})


@dataclass
class Printed:
    """Rows that a job has printed; Spark does not count them."""

    rows: int = 0

    def add(self, number: int) -> None:
        self.rows += number


@dataclass
class RunningJob:
    job: Job
    name: str
    query: StreamingQuery
    checkpoint: str
    kafka_sources: int
    dropped: Any
    printed: Printed
    spark: SparkSession

    def is_ready(self) -> bool:
        """Whether the start offsets of all its tables are fixed."""
        return int(_lifecycle(self.spark).fixed(self.checkpoint)) >= self.kafka_sources

    @property
    def is_active(self) -> bool:
        return bool(self.query.isActive)

    def reports(self) -> list[Mapping[str, Any]]:
        """Spark's latest progress reports, oldest first."""
        return as_reports(self.query.recentProgress)

    def losses(self) -> dict[str, int]:
        return dict(self.dropped.value)

    def failure(self) -> JobError | None:
        """Why the query ended, if it did not end well."""
        error = self.query.exception()
        if error is None:
            return None
        text = str(error)
        known = diagnose(text, self.name, self.job.span)
        if known is not None:
            return known
        fault = JobError(
            [Diagnostic("RUN-099", f"job '{self.name}' failed: {_first_line(text)}", self.job.span)]
        )
        fault.__cause__ = error
        return fault

    def stop(self, patience_seconds: float = 60.0) -> None:
        """Finish the batch that is running, and stop; after `patience_seconds` stop all the same."""
        lifecycle = _lifecycle(self.spark)
        lifecycle.drain(self.checkpoint)
        deadline = time.monotonic() + patience_seconds
        while self.is_active and time.monotonic() < deadline:
            # Between triggers no batch runs, and one that begins now finds nothing to do.
            if lifecycle.isDrained(self.checkpoint) or not self.query.status["isTriggerActive"]:
                break
            time.sleep(0.02)
        self.query.stop()

    def wait(self, timeout: float | None = None) -> bool:
        return (
            bool(self.query.awaitTermination(timeout))
            if timeout
            else bool(self.query.awaitTermination())
        )


def _lifecycle(spark: SparkSession) -> Any:
    return spark._jvm.io.tidemill.Lifecycle


def machine_zone() -> str:
    """The machine's time zone by name: TZ, or what /etc/localtime points at."""
    named = os.environ.get("TZ", "").lstrip(":")
    if named:
        return named
    target = os.path.realpath("/etc/localtime")
    return target.split("zoneinfo/", 1)[1] if "zoneinfo/" in target else "UTC"


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else "no reason given"


# --- before a job starts -------------------------------------------------------------------------


def check_tables(spark: SparkSession, job: Job) -> None:
    """Reach the brokers and find the source topics, so that a slip is told before anything runs."""
    admin = spark._jvm.io.tidemill.kafka.Admin
    seen: set[tuple[str, tuple[str, ...], str | None]] = set()
    sources = _kafka_sources(job)
    # Sources first: a topic that is written as well must exist all the same.
    for table in [*sources, *job.sinks]:
        connector = table.connector
        if not isinstance(connector, TopicTable):
            continue
        key = (connector.bootstrap_servers, connector.topics, connector.topic_pattern)
        if key in seen:
            continue
        seen.add(key)
        spec = json.dumps(topics_spec(connector))
        try:
            found = json.loads(admin.describeTopics(spec, CONNECT_TIMEOUT_MS))
        except Exception as error:
            known = diagnose(str(error), table.name, table.span)
            if known is None:
                raise
            raise known from None
        missing = found["missing"]
        if table in sources and (missing or not found["topics"]):
            what = (
                f"topic '{missing[0]}'"
                if missing
                else f"a topic that matches '{connector.topic_pattern}'"
            )
            raise job_error(
                "RUN-002",
                f"{what} of table '{table.name}' does not exist at {connector.bootstrap_servers}",
                f"create it: tidemill topic create {missing[0] if missing else 'NAME'}"
                f" --bootstrap {connector.bootstrap_servers}",
                table.span,
            )


def _kafka_sources(job: Job) -> list[Table]:
    return [t for t in job.sources if isinstance(t.connector, TopicTable)]


# --- starting ------------------------------------------------------------------------------------


@dataclass
class Runner:
    """Starts jobs in one SparkSession."""

    spark: SparkSession
    checkpoint_root: str | None = None
    output: Output = field(default_factory=TableOutput)
    bounded: bool = False
    """Read every Kafka table up to what is latest at the start (`--bounded`)."""

    def start(self, job: Job, name: str, taken: Container[str] = ()) -> RunningJob:
        """`taken`: names of other jobs, from which this one's must differ."""
        checkpoint = self.checkpoint(job, name)
        label = f"{name}/{job.target}"
        numbers = itertools.count(2)
        while label in taken:
            label = f"{name}/{job.target} {next(numbers)}"
        self._configure(job, checkpoint)
        check_tables(self.spark, job)
        register(self.spark, job.functions)
        dropped = self.spark.sparkContext.accumulator({}, _Counts())
        style = _text_sink(job)
        most = job.settings.get("tidemill.batch.max-rows")
        max_rows = most if isinstance(most, int) else TEXT_MAX_ROWS if style else DEFAULT_MAX_ROWS

        def frame(root: nodes.Sink | nodes.Collect, modes: Modes) -> DataFrame:
            lowering = Lowering(self.spark, modes, max_rows, lambda table: _Counter(table, dropped))
            return lowering.lower(root.input)

        frames = [frame(root, modes) for root, modes in zip(job.roots, job.modes, strict=True)]
        printed = Printed()
        writer = self._writer(job, frames, printed, dropped)
        writer = writer.queryName(label).option("checkpointLocation", checkpoint)
        if ends_by_itself(job, self.bounded):
            writer = writer.trigger(availableNow=True)
        else:
            interval = job.settings.get("execution.checkpointing.interval")
            millis = int(interval.total_seconds() * 1000) if isinstance(interval, timedelta) else 0
            writer = writer.trigger(processingTime=f"{millis} milliseconds")
        _lifecycle(self.spark).begin(checkpoint)
        query = writer.start()
        sources = len(_kafka_sources(job))
        return RunningJob(job, label, query, checkpoint, sources, dropped, printed, self.spark)

    def checkpoint(self, job: Job, name: str) -> str:
        if self.checkpoint_root is None:
            if not self.spark.sparkContext.master.startswith("local"):
                raise usage_error(
                    "RUN-031",
                    "a job on a cluster needs a checkpoint directory that all its machines see",
                    "give --checkpoint, for example hdfs:///tidemill/checkpoints",
                )
            return Path(tempfile.mkdtemp(prefix="tidemill-checkpoint-")).as_uri()
        root = self.checkpoint_root
        if "://" not in root and not root.startswith("file:"):
            root = Path(root).resolve().as_uri()
        return f"{root.rstrip('/')}/{name}/{job.target}"

    def _configure(self, job: Job, checkpoint: str) -> None:
        zone = str(job.settings.get("table.local-time-zone") or machine_zone())
        stored = self._stored(checkpoint)
        if stored.get("time_zone", zone) != zone:
            raise job_error(
                "RUN-030",
                f"the checkpoint was made with 'table.local-time-zone' = '{stored['time_zone']}', not '{zone}'",
                "set the old zone, or start with another --checkpoint",
                job.span,
            )
        if not stored:
            self._store(checkpoint, {"time_zone": zone})
        parallelism = job.settings.get("parallelism.default")
        cores = self.spark.sparkContext.defaultParallelism
        self.spark.conf.set("spark.sql.session.timeZone", zone)
        self.spark.conf.set("spark.sql.shuffle.partitions", str(parallelism or cores))

    def _stored(self, checkpoint: str) -> dict[str, Any]:
        """What the job wrote beside Spark's own files when it first started."""
        path, system = self._hadoop(checkpoint)
        if not system.exists(path):
            return {}
        stream = system.open(path)
        try:
            text = self.spark._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()
        return dict(json.loads(text))

    def _store(self, checkpoint: str, facts: Mapping[str, Any]) -> None:
        path, system = self._hadoop(checkpoint)
        stream = system.create(path, True)
        try:
            stream.write(bytearray(json.dumps(facts).encode()))
        finally:
            stream.close()

    def _hadoop(self, checkpoint: str) -> tuple[Any, Any]:
        path = self.spark._jvm.org.apache.hadoop.fs.Path(f"{checkpoint}/tidemill.json")
        return path, path.getFileSystem(self.spark._jsc.hadoopConfiguration())

    def _writer(self, job: Job, frames: list[DataFrame], printed: Printed, dropped: Any) -> Any:
        root = job.roots[0]
        sinks = [r for r in job.roots if isinstance(r, nodes.Sink)]
        if sinks and all(isinstance(s.table.connector, TopicTable) for s in sinks):
            drops = job.settings.get("table.exec.sink.not-null-enforcer") == "DROP"
            records = [
                kafka_records(f, s, i, _Counter(s.table.name, dropped) if drops else None)
                for i, (f, s) in enumerate(zip(frames, sinks, strict=True))
            ]
            whole = records[0]
            for part in records[1:]:
                whole = whole.unionAll(part)
            spec = kafka_sink_spec([s.table for s in sinks])
            return whole.writeStream.format("tidemill-kafka").option("spec", spec)
        if len(job.roots) > 1:
            raise not_yet("a STATEMENT SET whose sinks are not all Kafka tables", job.span)
        if isinstance(root, nodes.Sink) and isinstance(root.table.connector, BlackholeTable):
            return frames[0].writeStream.format("noop")
        if isinstance(root, nodes.Sink):
            assert isinstance(root.table.connector, PrintTable)
            lines = rendered(frames[0], root.input.columns, "row")
            return lines.writeStream.foreachBatch(_Printer(root.table.connector, printed))
        output, fields = self.output, root.columns
        lines = rendered(frames[0], fields, output.style)

        def deliver(batch: DataFrame, _: int) -> None:
            rows = [(RowKind(r[0]), r[1]) for r in batch.collect()]
            printed.add(len(rows))
            with _PRINTING:
                output.take(fields, rows)

        return lines.writeStream.foreachBatch(deliver)


def _text_sink(job: Job) -> bool:
    return any(
        isinstance(r, nodes.Collect) or isinstance(r.table.connector, PrintTable) for r in job.roots
    )


def ends_by_itself(job: Job, bounded: bool) -> bool:
    """Whether every source of the job has an end; `bounded` gives one to each Kafka table."""
    for table in job.sources:
        match table.connector:
            case TopicTable() as kafka if not (bounded or kafka.bounded.is_bounded):
                return False
            case DatagenTable() as datagen if datagen.total_rows is None:
                return False
    return True


_PRINTING = threading.Lock()


class _Printer:
    """The `print` sink: on the driver, one line per row."""

    def __init__(self, table: PrintTable, printed: Printed) -> None:
        self._printed = printed
        self._prefix = f"{table.identifier}> " if table.identifier else ""
        self._to_stderr = table.standard_error

    def __call__(self, batch: DataFrame, _: int) -> None:
        stream: IO[str] = sys.stderr if self._to_stderr else sys.stdout
        rows = batch.collect()
        self._printed.add(len(rows))
        with _PRINTING:
            for kind, text in rows:
                stream.write(f"{self._prefix}{RowKind(kind).symbol}{text}\n")
            stream.flush()

"""Jobs: a plan becomes a streaming query with a checkpoint, is watched, and ends.

In: a `Job` and where its checkpoint lives. Out: a `RunningJob`. Law: a job's checkpoint says for which zone it was made
and keeps it, and gives the job an id that no other has; whatever stops a query is told as a diagnostic, or as a fault
of ours with its whole text.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from tidemill.plan.scope import not_yet
from tidemill.plan.user_functions import python_path
from tidemill.spark.faults import diagnose, is_passing
from tidemill.spark.lower import Lowering
from tidemill.spark.partitioner import Partitioner, load_partitioner
from tidemill.spark.progress import as_reports
from tidemill.spark.restarts import Recovery, Restarts
from tidemill.spark.sink import (
    LENGTH_ENFORCER,
    NULL_ENFORCER,
    kafka_records,
    kafka_sink_spec,
    rendered,
    transactional_id_prefix,
)
from tidemill.spark.source import topics_spec
from tidemill.spark.user_functions import register
from tidemill.tables.builtin import BlackholeTable, DatagenTable, PrintTable
from tidemill.tables.catalog import Table
from tidemill.tables.kafka import DeliveryGuarantee, TopicTable
from tidemill.tables.upsert_kafka import UpsertKafkaTable

DEFAULT_MAX_ROWS = 1_000_000
TEXT_MAX_ROWS = 50_000
"""Rows per batch where every row is collected and printed."""
CONNECT_TIMEOUT_MS = 8_000
_FACTS = "tidemill.json"
_NEW_FACTS = "tidemill.json.new"


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
    begin: Callable[[], StreamingQuery]
    """Starts the query anew, from its checkpoint."""
    recovery: Recovery
    _said: list[str] = field(default_factory=list)
    _is_stopped: bool = False
    _failed_run: str | None = None

    def is_ready(self) -> bool:
        """Whether the start offsets of all its tables are fixed."""
        return int(_lifecycle(self.spark).fixed(self.checkpoint)) >= self.kafka_sources

    @property
    def is_active(self) -> bool:
        """Whether it runs, or waits for a broker to come back; looking is what starts it again then."""
        if self.query.isActive:
            return True
        self._recover()
        return bool(self.query.isActive) or self.recovery.is_waiting

    def _recover(self) -> None:
        error = None if self._is_stopped else self.query.exception()
        if error is None:
            return
        # Each run of the query fails once; after that it is only a matter of time.
        if self._failed_run != self.query.runId:
            self._failed_run = self.query.runId
            text = str(error)
            if not is_passing(text) or not self.recovery.fail(self._last_batch()):
                return
            known = diagnose(text, self.name)
            why = known.diagnostics[0].message if known else _first_line(text)
            self._said.append(f"{self.name}: {why}; it will be started again from its checkpoint")
        if self.recovery.is_due():
            try:
                self.query = self.begin()
            except Exception as failed:
                text = str(failed)
                if is_passing(text) and self.recovery.fail(self._last_batch()):
                    return
                raise diagnose(text, self.name, self.job.span) or failed from None
            self._said.append(f"{self.name}: started again")

    def _last_batch(self) -> int:
        return max((int(r["batchId"]) for r in self.reports()), default=-1)

    def notices(self) -> list[str]:
        """What there is to tell the user since the last call."""
        said = [*self._said, *self.spark._jvm.io.tidemill.Notices.take().splitlines()]
        self._said.clear()
        return said

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
        self._is_stopped = True
        lifecycle = _lifecycle(self.spark)
        lifecycle.drain(self.checkpoint)
        deadline = time.monotonic() + patience_seconds
        while self.query.isActive and time.monotonic() < deadline:
            # Between triggers no batch runs, and one that begins now finds nothing to do.
            if lifecycle.isDrained(self.checkpoint) or not self.query.status["isTriggerActive"]:
                break
            time.sleep(0.02)
        self.query.stop()

    def wait(self, timeout: float | None = None) -> bool:
        """Return when the job has ended, or after `timeout` seconds: then False."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.is_active:
            if deadline is not None and time.monotonic() >= deadline:
                return False
            time.sleep(0.05)
        return True


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


@dataclass(frozen=True)
class Targets:
    """What was found out of the topics that a job writes to."""

    notices: list[str]
    partitions: Mapping[str, Mapping[str, int]]
    """By table and topic; a topic that is not there yet is not named."""


def check_tables(spark: SparkSession, job: Job) -> Targets:
    """Reach the brokers and find the topics, so that a slip is told before anything runs."""
    admin = spark._jvm.io.tidemill.kafka.Admin
    seen: set[tuple[str, tuple[str, ...], str | None]] = set()
    told: list[str] = []
    # Sources first: a topic that is written as well must exist all the same.
    for table in _kafka_sources(job):
        connector = table.connector
        assert isinstance(connector, TopicTable)
        key = (connector.bootstrap_servers, connector.topics, connector.topic_pattern)
        if key in seen:
            continue
        seen.add(key)
        found = _ask(admin.describeTopics, topics_spec(connector), table)
        missing = found["missing"]
        if not missing and not found["topics"] and connector.discovery_interval:
            told.append(
                f"no topic matches '{connector.topic_pattern}' of table '{table.name}' yet; it is waited for"
            )
        elif missing or not found["topics"]:
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
    _check_dead_letters(admin, _kafka_sources(job))
    partitions: dict[str, Mapping[str, int]] = {}
    targets = {t.identifier: t for t in job.sinks if isinstance(t.connector, TopicTable)}
    for table in targets.values():
        said, partitions[table.name] = _check_target(admin, table)
        told += said
    return Targets(told, partitions)


def _ask(question: Callable[..., str], spec: Mapping[str, Any], table: Table) -> dict[str, Any]:
    try:
        return dict(json.loads(question(json.dumps(spec), CONNECT_TIMEOUT_MS)))
    except Exception as error:
        known = diagnose(str(error), table.name, table.span)
        if known is None:
            raise
        raise known from None


def _check_dead_letters(admin: Any, tables: Sequence[Table]) -> None:
    """A topic for dead letters must be there before the first one comes, perhaps in the middle of a night."""
    for table in tables:
        connector = table.connector
        assert isinstance(connector, TopicTable)
        topic = connector.reading.dead_letter_topic
        if topic is None:
            continue
        spec = {"properties": dict(connector.properties), "topics": [topic]}
        found = _ask(admin.describeTopics, spec, table)
        if found["missing"]:
            raise job_error(
                "RUN-002",
                f"topic '{topic}' for dead letters of table '{table.name}' does not exist at"
                f" {connector.bootstrap_servers}",
                f"create it: tidemill topic create {topic} --bootstrap {connector.bootstrap_servers}",
                table.span,
            )


def _check_target(admin: Any, table: Table) -> tuple[list[str], Mapping[str, int]]:
    """Make the missing topic of a sink if its options say how; else leave that to the broker, if it does it."""
    connector = table.connector
    assert isinstance(connector, TopicTable)
    found = _ask(admin.describeTargets, topics_spec(connector), table)
    told = []
    if isinstance(connector, UpsertKafkaTable):
        told += [
            f"topic '{topic}' of upsert table '{table.name}' is not compacted: set its cleanup.policy to compact,"
            " or old changes pile up and expire"
            for topic in found["topics"]
            if topic not in found["compacted"]
        ]
    properties = dict(connector.properties)
    for topic in found["missing"]:
        shape = connector.new_topic
        if shape is not None:
            policy = shape.cleanup_policy
            wanted = {
                "partitions": shape.partitions,
                "replicas": shape.replication_factor,
                "configs": {"cleanup.policy": policy} if policy else {},
            }
            spec = {"properties": properties, "topics": {topic: wanted}}
            _ask(lambda text, _: str(admin.createTopics(text)), spec, table)
            told.append(f"topic '{topic}' of table '{table.name}' created")
            if shape.partitions is not None:
                found["topics"][topic] = shape.partitions
            continue
        refused = properties.get("allow.auto.create.topics", "").lower() == "false"
        if refused or found["createsTopics"] is False:
            compact = " --config cleanup.policy=compact"
            raise job_error(
                "RUN-002",
                f"topic '{topic}' of table '{table.name}' does not exist at {connector.bootstrap_servers}"
                + ("" if refused else ", and the broker does not create topics by itself"),
                f"create it: tidemill topic create {topic}"
                f"{compact if isinstance(connector, UpsertKafkaTable) else ''}"
                f" --bootstrap {connector.bootstrap_servers},"
                " or let the job do it: 'sink.create-topic.partitions' = '…'",
                table.span,
            )
        told.append(
            f"topic '{topic}' of table '{table.name}' does not exist: the broker is left to create it"
        )
    return told, found["topics"]


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
    python_files: Sequence[str] = ()
    """Where a partitioner is looked for first."""
    restart_for: timedelta | None = None
    """How long to wait for a broker that is away (`--restart-for`); None: as the settings say."""

    def start(self, job: Job, name: str, taken: Container[str] = ()) -> RunningJob:
        """`taken`: names of other jobs, from which this one's must differ."""
        checkpoint = self.checkpoint(job, name)
        label = f"{name}/{job.target}"
        numbers = itertools.count(2)
        while label in taken:
            label = f"{name}/{job.target} {next(numbers)}"
        targets = check_tables(self.spark, job)
        register(self.spark, job.functions)
        dropped = self.spark.sparkContext.accumulator({}, _Counts())
        style = _text_sink(job)
        most = job.settings.get("tidemill.batch.max-rows")
        max_rows = most if isinstance(most, int) else TEXT_MAX_ROWS if style else DEFAULT_MAX_ROWS

        exactly_once = any(
            isinstance(t.connector, TopicTable)
            and t.connector.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE
            for t in job.sinks
        )

        printed = Printed()

        def begin() -> StreamingQuery:
            # Every time: the settings of the session are those of the job that was started last.
            job_id = self._configure(job, checkpoint)
            self._end_transactions(job, job_id)
            lowering = Lowering(
                self.spark,
                job.modes[0],
                max_rows,
                lambda table: _Counter(table, dropped),
                job_id if exactly_once else None,
            )
            frames = [
                replace(lowering, modes=modes).lower(root.input)
                for root, modes in zip(job.roots, job.modes, strict=True)
            ]
            writer = self._writer(job, job_id, targets, frames, printed, dropped)
            writer = writer.queryName(label)
            writer = writer.option("checkpointLocation", checkpoint)
            if ends_by_itself(job, self.bounded):
                writer = writer.trigger(availableNow=True)
            else:
                interval = job.settings.get("execution.checkpointing.interval")
                millis = (
                    int(interval.total_seconds() * 1000) if isinstance(interval, timedelta) else 0
                )
                writer = writer.trigger(processingTime=f"{millis} milliseconds")
            _lifecycle(self.spark).begin(checkpoint)
            return writer.start()

        servers = sorted(
            {
                t.connector.bootstrap_servers
                for t in job.tables
                if isinstance(t.connector, TopicTable)
            }
        )
        recovery = Recovery(
            Restarts.of(job.settings, self.restart_for), servers, targets.notices.append
        )
        return RunningJob(
            job,
            label,
            begin(),
            checkpoint,
            len(_kafka_sources(job)),
            dropped,
            printed,
            self.spark,
            begin,
            recovery,
            targets.notices,
        )

    def _end_transactions(self, job: Job, job_id: str) -> None:
        """What a killed run has left open holds up readers until it is ended."""
        admin = self.spark._jvm.io.tidemill.kafka.Admin
        for table in job.sinks:
            connector = table.connector
            if (
                isinstance(connector, TopicTable)
                and connector.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE
            ):
                spec = {
                    "properties": dict(connector.properties),
                    "prefix": transactional_id_prefix(table, job_id),
                }
                admin.endTransactions(json.dumps(spec), CONNECT_TIMEOUT_MS)

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

    def _configure(self, job: Job, checkpoint: str) -> str:
        """Settle what stays the same in all runs from this checkpoint; the id of the job."""
        zone = str(job.settings.get("table.local-time-zone") or machine_zone())
        stored = self._stored(checkpoint)
        if stored.get("time_zone", zone) != zone:
            raise job_error(
                "RUN-030",
                f"the checkpoint was made with 'table.local-time-zone' = '{stored['time_zone']}', not '{zone}'",
                "set the old zone, or start with another --checkpoint",
                job.span,
            )
        facts = {
            "time_zone": zone,
            "job": stored.get("job") or uuid.uuid4().hex[:16],
            "writers": _writers(job),
        }
        if stored.get("writers", {}) != facts["writers"] and self._is_batch_open(checkpoint):
            raise job_error(
                "RUN-033",
                "the batch that the job was stopped in must be finished by as many writers as began it, and"
                " 'sink.parallelism' has changed",
                "start the job with the old 'sink.parallelism', stop it with Ctrl-C, and change it then",
                job.span,
            )
        if facts != stored:
            self._store(checkpoint, facts)
        parallelism = job.settings.get("parallelism.default")
        cores = self.spark.sparkContext.defaultParallelism
        self.spark.conf.set("spark.sql.session.timeZone", zone)
        self.spark.conf.set("spark.sql.shuffle.partitions", str(parallelism or cores))
        return str(facts["job"])

    def _is_batch_open(self, checkpoint: str) -> bool:
        """Whether a batch has been planned and not been committed: it will be run again."""

        def last(log: str) -> int:
            path, system = self._hadoop(checkpoint, log)
            names = (
                [s.getPath().getName() for s in system.listStatus(path)]
                if system.exists(path)
                else []
            )
            return max((int(name) for name in names if name.isdigit()), default=-1)

        return last("offsets") > last("commits")

    def _stored(self, checkpoint: str) -> dict[str, Any]:
        """What the job wrote beside Spark's own files when it first started."""
        for name in (_FACTS, _NEW_FACTS):
            path, system = self._hadoop(checkpoint, name)
            if system.exists(path):
                stream = system.open(path)
                try:
                    text = self.spark._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
                finally:
                    stream.close()
                return dict(json.loads(text)) if text.endswith("}") else {}
        return {}

    def _store(self, checkpoint: str, facts: Mapping[str, Any]) -> None:
        """A kill at any point leaves the old facts or the new ones."""
        new, system = self._hadoop(checkpoint, _NEW_FACTS)
        stream = system.create(new, True)
        try:
            stream.write(bytearray(json.dumps(facts).encode()))
        finally:
            stream.close()
        path, _ = self._hadoop(checkpoint, _FACTS)
        system.delete(path, False)
        system.rename(new, path)

    def _hadoop(self, checkpoint: str, name: str) -> tuple[Any, Any]:
        path = self.spark._jvm.org.apache.hadoop.fs.Path(f"{checkpoint}/{name}")
        return path, path.getFileSystem(self.spark._jsc.hadoopConfiguration())

    def _writer(
        self,
        job: Job,
        job_id: str,
        targets: Targets,
        frames: list[DataFrame],
        printed: Printed,
        dropped: Any,
    ) -> Any:
        root = job.roots[0]
        sinks = [r for r in job.roots if isinstance(r, nodes.Sink)]
        if sinks and all(isinstance(s.table.connector, TopicTable) for s in sinks):
            drops = job.settings.get(NULL_ENFORCER) == "DROP"
            lengths = str(job.settings.get(LENGTH_ENFORCER) or "IGNORE")
            records = []
            for i, (frame, sink) in enumerate(zip(frames, sinks, strict=True)):
                counter = _Counter(sink.table.name, dropped) if drops else None
                partitioner = self._partitioner(job, sink.table, targets)
                records.append(kafka_records(frame, sink, i, counter, partitioner, lengths))
            whole = records[0]
            for part in records[1:]:
                whole = whole.unionAll(part)
            spec = kafka_sink_spec([s.table for s in sinks], job_id)
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

    def _partitioner(self, job: Job, table: Table, targets: Targets) -> Partitioner | None:
        files = str(job.settings.get("python.files") or "").split(",")
        given = [*self.python_files, *(f.strip() for f in files if f.strip())]
        directories = python_path(job.span.source.name, given)
        return load_partitioner(table, directories, targets.partitions[table.name])


def _text_sink(job: Job) -> bool:
    return any(
        isinstance(r, nodes.Collect) or isinstance(r.table.connector, PrintTable) for r in job.roots
    )


def _writers(job: Job) -> dict[str, int]:
    """How many writers the exactly-once tables of a job have, where it says so."""
    return {
        t.name: t.connector.sink_parallelism
        for t in job.sinks
        if isinstance(t.connector, TopicTable)
        and t.connector.sink_parallelism is not None
        and t.connector.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE
    }


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

"""Jobs: a plan becomes a streaming query with a checkpoint, is watched, and ends.

In: a `Job` and where its checkpoint lives. Out: a `RunningJob`. Law: a job's checkpoint says for which zone it was made
and keeps it, and gives the job an id that no other has; whatever stops a query is told as a diagnostic, or as a fault
of ours with its whole text.
"""

from __future__ import annotations

import itertools
import json
import os
import tempfile
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tidemill.errors import Diagnostic, JobError, usage_error
from tidemill.output import Output, TableOutput
from tidemill.plan import nodes
from tidemill.plan.environment import Job
from tidemill.plan.user_functions import python_path
from tidemill.spark.access import Access
from tidemill.spark.checkpoints import Checkpoint, settle
from tidemill.spark.counting import Numbers
from tidemill.spark.engine import is_local
from tidemill.spark.faults import diagnose, is_passing
from tidemill.spark.java import java_class
from tidemill.spark.letters import late_rows
from tidemill.spark.lower import Lowering
from tidemill.spark.operators import Tally
from tidemill.spark.partitioner import Partitioner, load_partitioner
from tidemill.spark.preflight import (
    CONNECT_TIMEOUT_MS,
    Targets,
    check_tables,
    check_writers,
    kafka_sources,
)
from tidemill.spark.printing import Printer, printers, register_printer, taker_of
from tidemill.spark.progress import as_reports
from tidemill.spark.reads import reads_of
from tidemill.spark.restarts import Recovery, Restarts
from tidemill.spark.sink import (
    file_records,
    follows_tasks,
    kafka_records,
    kept,
    printed_records,
    sink_spec,
    swallowed_records,
    transactional_id_prefix,
)
from tidemill.spark.state import kept_by, operator_names
from tidemill.spark.user_functions import register
from tidemill.spark.watermarks import alarm_of, timed
from tidemill.tables.builtin import BlackholeTable, DatagenTable, PrintTable
from tidemill.tables.catalog import Table
from tidemill.tables.filesystem import FilesystemTable
from tidemill.tables.kafka import TopicTable
from tidemill.tables.logins import Logins

DEFAULT_MAX_ROWS = 2_000_000
TEXT_MAX_ROWS = 50_000
"""Rows per batch where every row is collected and printed."""


@dataclass
class RunningJob:
    job: Job
    id: str
    """Tells it from every other job, in all its runs."""
    name: str
    query: StreamingQuery
    checkpoint: str
    kafka_sources: int
    dropped: Numbers
    tally: Tally
    spark: SparkSession
    begin: Callable[[], StreamingQuery]
    """Starts the query anew, from its checkpoint."""
    recovery: Recovery
    access: Access
    _said: list[str] = field(default_factory=list)
    _is_stopped: bool = False
    _failed_run: str | None = None
    _released_run: str | None = None

    def is_ready(self) -> bool:
        """Whether the start offsets of all its tables are fixed."""
        return int(_lifecycle(self.spark).fixed(self.checkpoint)) >= self.kafka_sources

    @property
    def is_active(self) -> bool:
        """Whether it runs, or waits for a broker to come back; looking is what starts it again then."""
        if self.query.isActive:
            return True
        self._recover()
        lives = bool(self.query.isActive) or (self.recovery.is_waiting and not self._is_stopped)
        if not lives:
            printers(self.spark).remove(self.id)
            self._release()
        return lives

    def _release(self) -> None:
        """Gives back what a query that has ended holds."""
        if self._released_run == self.query.runId:
            return
        self._released_run = self.query.runId
        self.access.forget(self.spark)
        java_class(self.spark, "io.tidemill.state.Store").release(self.query.runId)
        java_class(self.spark, "io.tidemill.kafka.Producers").release(self.id)

    def _recover(self) -> None:
        error = None if self._is_stopped else self.query.exception()
        if error is None:
            return
        # Each run of the query fails once; after that it is only a matter of time.
        if self._failed_run != self.query.runId:
            self._failed_run = self.query.runId
            text = self._text_of(error)
            # Spark reports what a trigger has done when it is over; one that finds nothing to do reports, too.
            if not is_passing(text) or not self.recovery.fail(bool(self.query.recentProgress)):
                return
            self._tell_failure(text)
        if self.recovery.is_due():
            try:
                self.query = self.begin()
            except Exception as failed:
                text = self._text_of(failed)
                if not is_passing(text):
                    raise diagnose(text, self.name, self.job.span) or failed from None
                if self.recovery.fail(has_worked=False):
                    self._tell_failure(text)
                return
            self.recovery.tell("started", f"{self.name}: started again")

    def _text_of(self, error: Exception) -> str:
        return self.access.scrubbed(str(error), self.job.tables)

    def _tell_failure(self, text: str) -> None:
        known = diagnose(text, self.name)
        why = known.diagnostics[0].message if known else _first_line(text)
        self.recovery.tell(
            "failed", f"{self.name}: {why}; it will be started again from its checkpoint"
        )

    def notices(self) -> list[str]:
        """What there is to tell the user since the last call."""
        said = [*self._said, *java_class(self.spark, "io.tidemill.Notices").take().splitlines()]
        said += self.tally.warnings()
        self._said.clear()
        return said

    @property
    def operators(self) -> list[str]:
        """The names of those with state, from the sinks down."""
        return operator_names(self.job)

    def reports(self) -> list[Mapping[str, Any]]:
        """Spark's latest progress reports, oldest first."""
        return as_reports(self.query.recentProgress)

    def losses(self) -> dict[str, int]:
        return self.dropped.values()

    def oddities(self) -> dict[str, int]:
        """What tables and operators met that should not be, and what became of it is documented."""
        return dict(self.tally.values())

    def failure(self) -> JobError | None:
        """Why the job ended, if it did not end well."""
        error = self.query.exception()
        if error is None or (self._is_stopped and self.recovery.is_waiting):
            # One that waited for its broker ended because it was stopped.
            return None
        text = self._text_of(error)
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
        self._release()

    def wait(self, timeout: float | None = None) -> bool:
        """Return when the job has ended, or after `timeout` seconds: then False."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.is_active:
            if deadline is not None and time.monotonic() >= deadline:
                return False
            time.sleep(0.05)
        return True


def _lifecycle(spark: SparkSession) -> Any:
    return java_class(spark, "io.tidemill.Lifecycle")


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
    """Where a partitioner is looked for (`--pyfiles`), beside the installed packages."""
    restart_for: timedelta | None = None
    """How long to wait for a broker that is away (`--restart-for`); None: as the settings say."""
    reset_state: bool = False
    """Start a job anew whose checkpoint does not fit it (`--reset-state`)."""
    logins: Logins = field(default_factory=Logins)
    """What the tables of jobs may log in with."""

    def start(self, job: Job, name: str, taken: Container[str] = ()) -> RunningJob:
        """`taken`: names of other jobs, from which this one's must differ."""
        checkpoint = self.checkpoint(job, name)
        label = f"{name}/{job.target}"
        numbers = itertools.count(2)
        while label in taken:
            label = f"{name}/{job.target} {next(numbers)}"
        ships = not is_local(self.spark.sparkContext.master)
        access = Access(job.settings, self.logins, ships)
        targets = check_tables(self.spark, job, access)
        register(self.spark, job.functions)
        dropped = Numbers(self.spark)
        tally = Tally(self.spark, alarm=alarm_of(job.roots))
        style = _text_sink(job)
        most = job.settings.get("tidemill.batch.max-rows")
        max_rows = most if isinstance(most, int) else TEXT_MAX_ROWS if style else DEFAULT_MAX_ROWS

        cores = self.spark.sparkContext.defaultParallelism
        wanted = int(str(job.settings.get("parallelism.default") or cores))
        settled = settle(
            Checkpoint(self.spark, checkpoint),
            job,
            _zone(job),
            wanted,
            self.reset_state,
            targets.notices,
        )
        job_id = settled.job_id
        check_writers(self.spark, job, job_id, access)
        ends = ends_by_itself(job, self.bounded)
        by_task = [follows_tasks(*pair) for pair in zip(job.roots, job.modes, strict=True)]

        def prepare() -> Any:
            # Every time: the settings of the session are those of the job that was started last.
            self.spark.conf.set("spark.sql.session.timeZone", _zone(job))
            self.spark.conf.set("spark.sql.shuffle.partitions", str(settled.parallelism))
            self._end_transactions(job, settled.ids, access)
            on_time = timed(job.roots)
            letters = late_rows(job, job_id, access)
            lowering = Lowering(
                self.spark,
                job.modes[0],
                max_rows,
                dropped.of,
                tally,
                reads_of(job.roots, any(by_task), on_time, letters is not None),
                job_id if job.exactly_once else None,
                ttl=_ttl(job),
                timed=on_time,
                access=access,
                ends_with_run=self.bounded and self.checkpoint_root is None,
                late_rows=letters,
            )
            frames = [
                replace(lowering, modes=modes, numbers_tasks=numbers).lower(root)
                for root, modes, numbers in zip(job.roots, job.modes, by_task, strict=True)
            ]
            writer = self._writer(job, job_id, ends, targets, frames, dropped, access)
            writer = writer.queryName(label)
            writer = writer.option("checkpointLocation", checkpoint)
            if ends:
                writer = writer.trigger(availableNow=True)
            else:
                interval = job.settings.get("execution.checkpointing.interval")
                millis = (
                    int(interval.total_seconds() * 1000) if isinstance(interval, timedelta) else 0
                )
                writer = writer.trigger(processingTime=f"{millis} milliseconds")
            return writer

        def begin(writer: Any) -> StreamingQuery:
            _lifecycle(self.spark).begin(checkpoint)
            query: StreamingQuery = writer.start()
            java_class(self.spark, "io.tidemill.checkpoint.ProgressFile").follow(
                self.spark._jsparkSession,
                self.spark._jsc.hadoopConfiguration(),
                str(query.id),
                checkpoint,
                label,
                operator_names(job),
                tally.counts(),
            )
            return query

        try:
            first = prepare()
            settled.seal(kept_by(job, tally), targets.notices)
            query = begin(first)
        except Exception:
            access.forget(self.spark)
            raise
        servers = sorted(
            {access.servers(t.connector) for t in job.tables if isinstance(t.connector, TopicTable)}
        )
        recovery = Recovery(
            Restarts.of(job.settings, self.restart_for), servers, targets.notices.append
        )
        return RunningJob(
            job,
            job_id,
            label,
            query,
            checkpoint,
            len(kafka_sources(job)),
            dropped,
            tally,
            self.spark,
            lambda: begin(prepare()),
            recovery,
            access,
            targets.notices,
        )

    def _end_transactions(self, job: Job, ids: Iterable[str], access: Access) -> None:
        """What a killed run has left open holds up readers until it is ended."""
        admin = java_class(self.spark, "io.tidemill.kafka.Admin")
        for table, job_id in itertools.product(job.exactly_once, ids):
            connector = table.connector
            assert isinstance(connector, TopicTable)
            spec = {
                "properties": access.properties(connector),
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

    def _writer(
        self,
        job: Job,
        job_id: str,
        ends: bool,
        targets: Targets,
        frames: list[DataFrame],
        dropped: Numbers,
        access: Access,
    ) -> Any:
        drops = job.settings.get("table.exec.sink.not-null-enforcer") == "DROP"
        counters = [
            dropped.of(root.table.name) if drops and isinstance(root, nodes.Sink) else None
            for root in job.roots
        ]
        if len(job.roots) == 1 and _swallows(job.roots[0]):
            # Here every column is computed, which is what one who measures wants.
            return kept(frames[0], job.roots[0], counters[0]).writeStream.format("noop")
        parts: list[DataFrame] = []
        takers = {}
        for i, (frame, root) in enumerate(zip(frames, job.roots, strict=True)):
            taker = taker_of(root, self.output)
            if taker is not None:
                takers[i] = taker
                style = self.output.style if isinstance(root, nodes.Collect) else "row"
                parts.append(printed_records(frame, root, i, counters[i], style))
            elif _swallows(root):
                parts.append(swallowed_records(frame, root, i, counters[i]))
            elif isinstance(root, nodes.Sink) and isinstance(root.table.connector, FilesystemTable):
                parts.append(file_records(frame, root, i, counters[i]))
            else:
                assert isinstance(root, nodes.Sink)
                partitioner = self._partitioner(root.table, targets, access)
                parts.append(kafka_records(frame, root, i, counters[i], partitioner))
        whole = reduce(DataFrame.unionAll, parts)
        if takers:
            register_printer(self.spark, job_id, Printer(takers))
        hidden = access.hidden(self.spark, sink_spec(job.roots, job_id, ends, access))
        return whole.writeStream.format("tidemill-kafka").option("spec", hidden)

    def _partitioner(self, table: Table, targets: Targets, access: Access) -> Partitioner | None:
        directories = python_path(self.python_files)
        return load_partitioner(table, directories, targets.partitions[table.name], access)


def _text_sink(job: Job) -> bool:
    return any(
        isinstance(r, nodes.Collect) or isinstance(r.table.connector, PrintTable) for r in job.roots
    )


def _ttl(job: Job) -> timedelta:
    ttl = job.settings.get("table.exec.state.ttl")
    return ttl if isinstance(ttl, timedelta) else timedelta(0)


def _zone(job: Job) -> str:
    return str(job.settings.get("table.local-time-zone") or machine_zone())


def _swallows(root: nodes.Root) -> bool:
    return isinstance(root, nodes.Sink) and isinstance(root.table.connector, BlackholeTable)


def ends_by_itself(job: Job, bounded: bool) -> bool:
    """Whether every source of the job has an end; `bounded` gives one to each Kafka table."""
    for table in job.sources:
        match table.connector:
            case TopicTable() as kafka if not (bounded or kafka.bounded.is_bounded):
                return False
            case DatagenTable() as datagen if datagen.total_rows is None:
                return False
    return True

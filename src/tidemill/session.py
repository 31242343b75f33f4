"""Session: the façade that the command line, notebooks and Python programs share.

    from tidemill import Session
    s = Session()
    s.execute("CREATE TABLE orders (…) WITH ('connector' = 'kafka', …)")
    job = s.execute("INSERT INTO totals SELECT …")
    s.table("orders").filter("amount > 10")      # a streaming DataFrame

In: SQL text. Out: running jobs, or DataFrames. Spark starts with the first statement that needs it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemill.errors import Diagnostic, JobError, Source, job_error, usage_error
from tidemill.output import Output, TableOutput
from tidemill.plan.environment import (
    Environment,
    Job,
    Text,
    compile_script,
    place_of,
    require_runnable,
    shared_place,
)
from tidemill.plan.loops import require_no_loop
from tidemill.sql import ast, parse_script, read_script
from tidemill.sql.dialects import dialect_named
from tidemill.tables.catalog import Connector, Table
from tidemill.tables.job_config import read_job_config
from tidemill.tables.kafka import TopicTable
from tidemill.tables.logins import Logins
from tidemill.tables.modern import read_modern
from tidemill.tables.references import has_reference, resolved, unresolved

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidemill.spark.access import Access
    from tidemill.spark.runner import RunningJob

__all__ = ["Session"]


class Session:
    """Tables, settings and jobs over one SparkSession.

    `spark`: use this session's context instead of starting one; it must have been started with `tidemill.jars()`.
    `master`, `checkpoint`, `bounded`, `restart_for`, `reset_state`: as on the command line. `settings`: Flink's keys,
    beating SET.
    `dialect`: whose SQL is written: flink, oceanus, blink or dli; default: found out from each text.
    `python_files`: files and directories from which Python functions may be loaded, beside installed packages.
    `job_config`: a file of settings, which `settings` beat; `packages`: jars with the files that settings name.
    `credentials`: the file of named authentications; default: the user's own.
    `allow_loop`: whether a job may read what it writes.
    `output`: where the rows of a top-level SELECT go; default: a table on standard output.
    Further keyword arguments are Spark settings with underscores for dots: `spark_driver_memory="4g"`.
    """

    def __init__(
        self,
        spark: SparkSession | None = None,
        *,
        master: str | None = None,
        checkpoint: str | Path | None = None,
        bounded: bool = False,
        restart_for: timedelta | None = None,
        reset_state: bool = False,
        settings: Mapping[str, str] | None = None,
        variables: Mapping[str, str] | None = None,
        dialect: str | None = None,
        conf: Mapping[str, str] | None = None,
        python_files: Sequence[str | Path] = (),
        job_config: str | Path | None = None,
        packages: Sequence[str | Path] = (),
        credentials: str | Path | None = None,
        allow_loop: bool = False,
        output: Output | None = None,
        **spark_conf: str,
    ) -> None:
        self._logins = Logins.given(credentials, job_config, packages)
        self.environment = Environment(
            overrides=dict(settings or {}),
            config=() if job_config is None else read_job_config(Path(job_config)),
            logins=self._logins,
            python_files=[str(f) for f in python_files],
        )
        self.jobs: list[RunningJob] = []
        self._given = spark
        self._spark: SparkSession | None = None
        self._owns_spark = False
        self._master = master
        self._checkpoint = None if checkpoint is None else str(checkpoint)
        self._variables = dict(variables or {})
        self._dialect = None if dialect is None else dialect_named(dialect)
        strange = [k for k in spark_conf if not k.startswith("spark_")]
        if strange:
            raise TypeError(
                f"Session() has no argument '{strange[0]}'; Spark's settings start with spark_"
            )
        self._conf = {**(conf or {}), **{k.replace("_", "."): v for k, v in spark_conf.items()}}
        self._bounded = bounded
        self._restart_for = restart_for
        self._reset_state = reset_state
        self._allow_loop = allow_loop
        self._output = output or TableOutput()
        self._names: set[str] = set()
        self._frames: list[Access] = []
        """Of the tables that were given as DataFrames."""

    # --- Spark -------------------------------------------------------------------------------

    @property
    def spark(self) -> SparkSession:
        """The SparkSession that jobs run in; starting it takes a few seconds."""
        if self._spark is None:
            from tidemill.spark.engine import attach, create_spark, is_running

            if self._given is not None:
                self._spark = attach(self._given, self._conf)
            else:
                # In a notebook another Spark may be running: it is shared, and outlives this session.
                self._owns_spark = not is_running()
                self._spark = create_spark(self._master, self._conf)
        return self._spark

    def close(self) -> None:
        """Stop all jobs, and Spark if this session started it."""
        for job in self.jobs:
            if job.is_active:
                job.stop()
        for access in self._frames if self._spark is not None else ():
            access.forget(self._spark)
        self._frames.clear()
        if self._spark is not None and self._owns_spark:
            self._spark.stop()
        self._spark = None
        self._logins.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # --- statements --------------------------------------------------------------------------

    def adapt_tables(self, change: Any) -> None:
        """Apply a change to the connector of every table that is created from now on."""
        previous = self.environment.adapt

        def both(connector: Connector) -> Connector:
            return change(previous(connector))  # type: ignore[no-any-return]

        self.environment.adapt = both

    def compile(self, script: ast.Script) -> list[Job | Text]:
        """Bind every statement, without running anything."""
        answers = compile_script(script, self.environment)
        require_runnable(answers)
        # What ends at the offsets of its start does not read what it writes.
        if not self._allow_loop and not self._bounded:
            require_no_loop(answers)
        return answers

    def execute(self, sql: str, *, name: str = "session") -> list[RunningJob | str]:
        """Run statements; each INSERT starts a job (and waits for it under `table.dml-sync`)."""
        return self.start_all(self.compile(self._read([Source("<sql>", sql)])), name)

    def run_script(self, *paths: str | Path) -> list[RunningJob | str]:
        """Run files as one script; a job's name comes from the first of them."""
        if not paths:
            raise usage_error("CLI-001", "no script given")
        script = self._read([read_script(p) for p in paths])
        return self.start_all(self.compile(script), Path(paths[0]).stem)

    def _read(self, sources: Sequence[Source]) -> ast.Script:
        modern = read_modern(sources, self._variables, self._dialect)
        self.environment.warnings += modern.to_tell
        return modern.script

    def start_all(self, answers: Sequence[Job | Text], name: str) -> list[RunningJob | str]:
        self.prepare(answers, name)
        return list(self.start_each(answers, name))

    def prepare(self, answers: Sequence[Job | Text], name: str) -> None:
        """What must hold before a job starts and can be found out without Spark; then start Spark."""
        jobs = [a for a in answers if isinstance(a, Job)]
        self._check_checkpoints(jobs, name)
        tables = {t.identifier: t for job in jobs for t in job.tables}.values()
        require_references(tables)
        for table in tables:
            if isinstance(table.connector, TopicTable):
                # What stands behind its names is there.
                self._logins.with_named({}, table.connector)
                _knock(table, resolved(table.connector.bootstrap_servers))
        if jobs:
            _ = self.spark

    def start_each(self, answers: Sequence[Job | Text], name: str) -> Iterator[RunningJob | str]:
        """Start jobs in order; each is given as soon as it runs."""
        for answer in answers:
            if isinstance(answer, Text):
                yield answer.text
                continue
            job = self.start(answer, name)
            yield job
            if answer.settings.get("table.dml-sync") is True:
                job.wait()
                failure = job.failure()
                if failure is not None:
                    raise failure

    def start(self, job: Job, name: str) -> RunningJob:
        from tidemill.spark.runner import Runner

        runner = Runner(
            self.spark,
            self.checkpoint_root(job),
            self._output,
            self._bounded,
            self.environment.allowed_files,
            self._restart_for,
            self._reset_state,
            self._logins,
        )
        running = runner.start(job, self._job_name(job, name), {j.name for j in self.jobs})
        self.jobs.append(running)
        return running

    @staticmethod
    def _job_name(job: Job, name: str) -> str:
        return str(job.settings.get("pipeline.name") or name)

    def checkpoint_root(self, job: Job) -> str | None:
        """Where checkpoints are kept: as this session was told, else as the script says; None: nowhere."""
        chosen = job.settings.get("execution.checkpointing.dir")
        return self._checkpoint or (str(chosen) if chosen else None)

    def _check_checkpoints(self, jobs: Iterable[Job], name: str) -> None:
        """Two jobs must not share a checkpoint: their state would be mixed. Exactly-once cannot be without one."""
        for job in jobs:
            if self.checkpoint_root(job) is None:
                _refuse_exactly_once(job)
                continue
            place = place_of(job, name)
            if place in self._names:
                raise shared_place(place, job.span)
            self._names.add(place)

    # --- DataFrames --------------------------------------------------------------------------

    def table(self, name: str) -> DataFrame:
        """A table or view as a streaming DataFrame: its columns, and `_kind` (0 +I, 1 -U, 2 +U, 3 -D).

        `name` may have its database and catalog in front.
        """
        from tidemill.spark.access import Access
        from tidemill.spark.engine import is_local
        from tidemill.spark.lower import Lowering, with_kind
        from tidemill.spark.operators import Tally
        from tidemill.spark.reads import reads_of
        from tidemill.spark.runner import DEFAULT_MAX_ROWS
        from tidemill.spark.user_functions import register
        from tidemill.spark.watermarks import alarm_of, timed

        parts = [name] if name in self.environment.objects else name.split(".")
        path = ".".join(f"`{part.replace('`', '``')}`" for part in parts)
        query = parse_script(Source("<table>", f"SELECT * FROM {path}"), {})
        statement = query.statements[0]
        assert isinstance(statement, ast.QueryStatement)
        answer = self.environment.apply(statement)
        assert isinstance(answer, Job)
        require_runnable([answer])
        register(self.spark, answer.functions)
        root, modes = answer.roots[0], answer.modes[0]
        uncounted = lambda table: lambda what, number: None  # noqa: E731
        on_time = timed([root])
        tally = Tally(self.spark, alarm=alarm_of([root]))
        reads = reads_of([root], timed=on_time)
        access = Access(
            answer.settings, self._logins, ships=not is_local(self.spark.sparkContext.master)
        )
        self._frames.append(access)
        lowering = Lowering(
            self.spark,
            modes,
            DEFAULT_MAX_ROWS,
            uncounted,
            tally,
            reads,
            timed=on_time,
            access=access,
        )
        frame = with_kind(lowering.lower(root.input))
        return frame.toDF(*(c.name for c in root.input.columns), "_kind")

    # --- waiting -----------------------------------------------------------------------------

    def wait_ready(self, jobs: Sequence[RunningJob], poll_seconds: float = 0.05) -> None:
        """Return when the start offsets of all tables are fixed, or a job has ended."""
        while not all(j.is_ready() or not j.is_active for j in jobs):
            time.sleep(poll_seconds)


def require_references(tables: Iterable[Table]) -> None:
    """Refuse references that lead nowhere, all of them at once; those of properties that `--local` has taken away do
    not count."""
    problems: list[Diagnostic] = []
    for table in tables:
        options = table.statement.options if table.statement else ()
        if isinstance(table.connector, TopicTable):
            properties = table.connector.properties.items()
            referring = {f"properties.{key}" for key, text in properties if has_reference(text)}
            options = tuple(
                o for o in options if not o.key.startswith("properties.") or o.key in referring
            )
        problems += unresolved(options)
    if problems:
        raise JobError(list(dict.fromkeys(problems)))


def _refuse_exactly_once(job: Job) -> None:
    """Without a checkpoint a job does not know what it has written before."""
    for table in job.exactly_once:
        raise job_error(
            "RUN-032",
            f"table '{table.name}' is written exactly once, and that needs a checkpoint",
            "give --checkpoint DIR, or SET 'execution.checkpointing.dir', where the job keeps what it has done",
            job.span,
        )


_KNOCK_SECONDS = 5.0


def _knock(table: Table, servers: str) -> None:
    """Fail at once if nobody listens at any of the addresses; whether it is a Kafka, the client finds out."""
    from tidemill.spark.restarts import silence

    reasons = silence(servers, _KNOCK_SECONDS)
    if reasons:
        raise job_error(
            "RUN-001",
            f"no broker of table '{table.name}' can be reached ({'; '.join(reasons)})",
            "check 'properties.bootstrap.servers'; 'tidemill run --local' brings a broker of its own",
            table.span,
        )

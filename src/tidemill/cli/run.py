"""`tidemill run`: compile the script, start its jobs, watch them, say what happened."""

from __future__ import annotations

import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidemill.cli.interrupts import interrupts
from tidemill.cli.options import (
    allow_loop_option,
    credentials_option,
    dialect_option,
    job_config_option,
    package_option,
    pairs,
    pyfiles_option,
)
from tidemill.errors import JobError, TidemillError, display_width, usage_error
from tidemill.output import JsonLines, TableOutput
from tidemill.plan.advice import advise
from tidemill.plan.environment import Environment, Job, Text, compile_script, require_runnable
from tidemill.plan.loops import require_no_loop
from tidemill.session import Session
from tidemill.sql import read_script
from tidemill.sql.dialects import Dialect
from tidemill.tables import unprotected, with_bootstrap
from tidemill.tables.job_config import read_job_config
from tidemill.tables.kafka import TopicTable
from tidemill.tables.logins import Logins
from tidemill.tables.modern import read_modern
from tidemill.tables.options import DURATION, BadValue

if TYPE_CHECKING:
    from tidemill.broker import Broker
    from tidemill.spark.progress import Progress
    from tidemill.spark.runner import RunningJob

_POLL_SECONDS = 0.25
_LOG_SECONDS = 10.0


def say(text: str) -> None:
    """Everything that is not a result goes to stderr."""
    print(text, file=sys.stderr, flush=True)


class _Duration(click.ParamType[timedelta]):
    """As in options and settings: `90 s`, `10 min`; a bare number is milliseconds."""

    name = "duration"

    def convert(self, value: Any, param: Any, ctx: Any) -> timedelta:
        try:
            return DURATION.parse(value)
        except BadValue as error:
            raise usage_error("CLI-002", f"--restart-for: {error.reason}", error.hint) from None


@click.command()
@click.argument("scripts", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--var", "variables", multiple=True, metavar="NAME=VALUE", help="Fill ${NAME}.")
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Beats the script's SET."
)
@job_config_option
@package_option
@credentials_option
@dialect_option
@pyfiles_option
@click.option(
    "--checkpoint", metavar="DIR", help="Keep progress and state here; the same command resumes."
)
@click.option("--master", metavar="URL", help="Spark master; default: this machine, all cores.")
@click.option("--conf", "confs", multiple=True, metavar="KEY=VALUE", help="A setting of Spark's.")
@click.option(
    "--bounded", is_flag=True, help="Read Kafka tables up to what is there at the start, then end."
)
@click.option(
    "--restart-for",
    type=_Duration(),
    metavar="DURATION",
    help="Wait so long for a broker that goes away; default: as the settings say, else 10 min.",
)
@click.option(
    "--reset-state",
    is_flag=True,
    help="Where a job's checkpoint is of another query: move it aside and start anew.",
)
@allow_loop_option
@click.option("--local", is_flag=True, help="Use the embedded broker for every Kafka table.")
@click.option(
    "--output",
    type=click.Choice(["table", "jsonl"]),
    default="table",
    help="Form of a SELECT's rows.",
)
def run(
    scripts: tuple[Path, ...],
    variables: tuple[str, ...],
    settings: tuple[str, ...],
    job_config: Path | None,
    packages: tuple[Path, ...],
    credentials: Path | None,
    dialect: Dialect | None,
    python_files: tuple[str, ...],
    checkpoint: str | None,
    master: str | None,
    confs: tuple[str, ...],
    bounded: bool,
    restart_for: timedelta | None,
    reset_state: bool,
    allow_loop: bool,
    local: bool,
    output: str,
) -> None:
    """Run SCRIPTS (several files are one script). Every INSERT is a job of its own.

    Prints `ready` when the start offsets of all tables are fixed; ends when all jobs have ended, or at Ctrl-C.
    """
    overrides = pairs(settings, "--set")
    modern = read_modern([read_script(s) for s in scripts], pairs(variables, "--var"), dialect)
    # The script is checked before anything is started for it.
    first = Environment(
        overrides=overrides,
        config=() if job_config is None else read_job_config(job_config),
        logins=Logins.given(credentials, job_config, packages),
        python_files=python_files,
    )
    if local:
        first.adapt = unprotected
    first.warnings += modern.to_tell
    try:
        answers = compile_script(modern.script, first)
        require_runnable(answers)
        if not allow_loop and not bounded:
            require_no_loop(answers)
        first.warnings += advise(modern.script, [a for a in answers if isinstance(a, Job)])
    finally:
        for warning in first.warnings:
            say(warning.render())
    if first.meaningless:
        say(f"accepted, without effect here: {', '.join(first.meaningless)}")
    conf = pairs(confs, "--conf")
    with _Broker(local) as broker:
        session = Session(
            master=master,
            checkpoint=checkpoint,
            bounded=bounded,
            restart_for=restart_for,
            reset_state=reset_state,
            settings=overrides,
            conf=conf,
            python_files=python_files,
            job_config=job_config,
            packages=packages,
            credentials=credentials,
            allow_loop=allow_loop,
            output=TableOutput() if output == "table" else JsonLines(),
        )
        if broker.client:
            client = broker.client
            address = client["bootstrap.servers"]
            session.adapt_tables(lambda connector: with_bootstrap(connector, address, client))
            broker.create_topics(answers)
        jobs = [a for a in answers if isinstance(a, Job)]
        if jobs and not any(session.checkpoint_root(j) for j in jobs):
            say(
                "no --checkpoint: jobs start fresh and keep their progress in a temporary directory"
            )
        name = scripts[0].stem
        try:
            code = _run(session, session.compile(modern.script), name)
        finally:
            session.close()
        broker.farewell(answers)
    raise SystemExit(code)


# --- jobs ----------------------------------------------------------------------------------------


def _run(session: Session, answers: list[Job | Text], name: str) -> int:
    """Start everything, watch it, and report. Returns the exit code."""
    watch = _Watch()
    session.prepare(answers, name)
    with interrupts() as stopped:
        try:
            for at, answer in enumerate(session.start_each(answers, name), 1):
                if isinstance(answer, str):
                    print(answer, flush=True)
                else:
                    watch.jobs.append(answer)
                    # As in Flink's client, what follows a SELECT waits until it has ended.
                    while not answer.job.sinks and at < len(answers) and answer.is_active:
                        if stopped():
                            break
                        watch.look()
                        time.sleep(_POLL_SECONDS)
                    watch.look()
                if stopped() or watch.failed:
                    break
            session.wait_ready(watch.jobs)
            if watch.jobs:
                watch.say("ready")
            while watch.any_active() and not stopped():
                watch.look()
                time.sleep(_POLL_SECONDS)
        finally:
            for job in watch.jobs:
                if job.is_active:
                    job.stop()
            watch.look(final=True)
    watch.summary(interrupted=stopped())
    return 3 if watch.failed else 0


class _Watch:
    """Follows jobs: a line that is written over on a terminal, log lines otherwise."""

    def __init__(self) -> None:
        self.jobs: list[RunningJob] = []
        self.failed: dict[str, JobError] = {}
        self._progress: dict[str, Progress] = {}
        self._late: dict[str, set[str]] = {}
        """By job, the operators of which it was told that rows come late to them."""
        self._shown = ""
        self._last_log = time.monotonic()
        self._terminal = sys.stderr.isatty()

    def any_active(self) -> bool:
        return any(j.is_active for j in self.jobs)

    def look(self, final: bool = False) -> None:
        from tidemill.spark.progress import Progress, late_warnings

        for job in self.jobs:
            progress = self._progress.setdefault(job.name, Progress(job.operators))
            progress.add(job.reports())
            late = self._late.setdefault(job.name, set())
            for line in [*job.notices(), *late_warnings(job.oddities(), progress.total_in, late)]:
                self.say(line)
            if job.name not in self.failed and not job.is_active:
                failure = job.failure()
                if failure is not None:
                    self.failed[job.name] = failure
                    self._clear()
                    _report(failure)
        if final:
            self._clear()
            return
        if self._terminal:
            self._overwrite(self._line())
        elif time.monotonic() - self._last_log >= _LOG_SECONDS:
            self._last_log = time.monotonic()
            for job in self.jobs:
                if job.is_active and self._progress[job.name].batches:
                    say(f"{job.name}: {self._progress[job.name].line()}")

    def say(self, line: str) -> None:
        """A line of its own, where the line that is written over was."""
        self._clear()
        say(line)

    def _line(self) -> str:
        active = [j for j in self.jobs if j.is_active]
        return "   ".join(
            f"{j.name.partition('/')[2]}: {self._progress[j.name].line()}" for j in active
        )

    def _overwrite(self, text: str) -> None:
        import shutil

        width = shutil.get_terminal_size().columns - 1
        while display_width(text) > width:
            text = text[:-1]
        if text != self._shown:
            sys.stderr.write("\r\x1b[2K" + text)
            sys.stderr.flush()
            self._shown = text

    def _clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
            self._shown = ""

    def summary(self, interrupted: bool) -> None:
        for job in self.jobs:
            progress = self._progress[job.name]
            end = "failed" if job.name in self.failed else "stopped" if interrupted else "done"
            total = (
                " + ".join(f"{n:,} from {t}" for t, n in sorted(progress.rows_in.items())) or "0"
            )
            batches = f"{progress.batches} batch{'es' * (progress.batches != 1)}"
            say(f"{end}: {job.name}: rows in {total}, rows out {progress.rows_out:,}, {batches}")
            for what, number in sorted(job.losses().items()):
                say(f"  dropped: {what}: {number:,}")
            for what, number in sorted(job.oddities().items()):
                say(f"  met: {what}: {number:,}")


def _report(failure: TidemillError) -> None:
    say(str(failure))
    if failure.diagnostics and failure.diagnostics[0].code == "RUN-099":
        from tidemill.spark.engine import log_file

        say(
            f" hint: this looks like a fault of ours or of the cluster; Spark's log is {log_file()}"
        )


# --- --local -------------------------------------------------------------------------------------


class _Broker:
    """The embedded broker of `--local`: the running one, or one for this run that keeps its data."""

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted
        self._own: Broker | None = None
        self._admin: dict[str, str] = {}
        self.client: dict[str, str] = {}
        """What its tables are told: the address, and how to get in."""

    def __enter__(self) -> _Broker:
        if self._wanted:
            from tidemill import broker

            found = broker.find_running()
            if found is None:
                say("starting the embedded broker …")
                found = self._own = broker.start()
            self._admin, self.client = found.admin, found.client
        return self

    def __exit__(self, *exc: object) -> None:
        if self._own is not None:
            self._own.stop()

    def create_topics(self, answers: list[Job | Text]) -> None:
        from tidemill.broker import topics

        for topic in _topics(answers):
            topics.ensure(self._admin["bootstrap.servers"], topic, client=self._admin)

    def farewell(self, answers: list[Job | Text]) -> None:
        if not self.client:
            return
        start = "tidemill broker start --detach; " if self._own is not None else ""
        for topic in _topics(answers):
            say(f"look at '{topic}': {start}tidemill topic read {topic} --from-beginning")
            start = ""


def _topics(answers: list[Job | Text]) -> list[str]:
    found: dict[str, None] = {}
    for job in answers:
        for table in job.tables if isinstance(job, Job) else ():
            if isinstance(table.connector, TopicTable):
                found.update(dict.fromkeys(table.connector.topics))
                letters = table.connector.reading.dead_letter_topic
                found.update({letters: None} if letters else {})
    return list(found)

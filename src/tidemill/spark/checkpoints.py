"""A job's checkpoint: Spark's logs, and beside them what we keep of the job, in `tidemill.json`.

In: a job, and where its checkpoint is. Out: under which id and how wide it runs, or why it cannot go on from there.
Law: what a checkpoint holds is taken up by the job that it was made for, or by none. Nothing of it is deleted: what
does not fit is moved aside, and only if that is asked for and when the job that takes its place can be lowered.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession

from tidemill.errors import JobError, job_error
from tidemill.plan.environment import Job
from tidemill.plan.fingerprint import Fingerprint, difference, fingerprint
from tidemill.spark.java import java_class
from tidemill.spark.sink import transactional_id_prefix
from tidemill.tables.kafka import TopicTable

_FACTS = "tidemill.json"
_NEW_FACTS = "tidemill.json.new"
_ASIDE = ".old-"
_PARTITIONS = "spark.sql.shuffle.partitions"


@dataclass(frozen=True)
class Checkpoint:
    """The directory of one job."""

    spark: SparkSession
    place: str
    """Its URI."""

    def facts(self) -> dict[str, Any]:
        """What the job wrote beside Spark's own files when it started last."""
        text = self._read(_FACTS)
        if text is not None:
            try:
                return dict(json.loads(text))
            except ValueError:
                raise damaged(f"'{self._named(_FACTS)}' is broken") from None
        # A kill between two steps of `keep`, or within the first one.
        text = self._read(_NEW_FACTS)
        return dict(json.loads(text)) if text is not None and text.endswith("}") else {}

    def keep(self, facts: Mapping[str, Any]) -> None:
        """A kill at any point leaves the old facts or the new ones."""
        new, system = self._hadoop(_NEW_FACTS)
        stream = system.create(new, True)
        try:
            stream.write(bytearray(json.dumps(facts).encode()))
        finally:
            stream.close()
        path, _ = self._hadoop(_FACTS)
        system.delete(path, False)
        system.rename(new, path)

    @property
    def is_job(self) -> bool:
        path, system = self._hadoop("offsets")
        return bool(system.exists(path)) and _ASIDE not in self.place.rpartition("/")[2]

    def children(self) -> list[Checkpoint]:
        path, system = self._hadoop("")
        if not system.exists(path):
            return []
        names = sorted(
            str(s.getPath().getName()) for s in system.listStatus(path) if s.isDirectory()
        )
        return [Checkpoint(self.spark, f"{self.place}/{name}") for name in names]

    @property
    def last_batch(self) -> int:
        """The number of the last batch that was planned, -1 if there is none."""
        return self._last("offsets")

    def is_batch_open(self) -> bool:
        """Whether a batch has been planned and not been committed: it will be run again."""
        return self.last_batch > self._last("commits")

    def partitions(self, batch: int) -> int | None:
        """In how many parts the state is cut that a batch works on."""
        found = self._entry("offsets", batch).get("conf", {}).get(_PARTITIONS)
        return None if found is None else int(found)

    def check(self, has_state: bool) -> None:
        """Raise what is missing or broken of all that a job goes on from."""
        last, committed = self.last_batch, self._last("commits")
        if committed < 0:
            return
        self._entry("commits", committed)
        self._entry("offsets", committed)
        partitions = self.partitions(committed)
        if has_state and partitions is not None:
            files = java_class(self.spark, "io.tidemill.checkpoint.StateFiles")
            # The state of version 1 is what the first batch, which has the number 0, leaves.
            wrong = files.broken(self.place, self._conf, committed + 1, partitions)
            if wrong:
                raise damaged(wrong)
        if last > committed:
            self._entry("offsets", last)

    def unfinished_partitions(self) -> int | None:
        """The parallelism to which the state was being brought when that was broken off."""
        last = self.last_batch
        if last < 1 or not self.is_batch_open() or self._read(f"offsets/{last - 1}") is None:
            return None
        before, now = self.partitions(last - 1), self.partitions(last)
        return now if before is not None and before != now else None

    def move_aside(self) -> str:
        """Make room for a new one; the old one's new place."""
        aside = f"{self.place}{_ASIDE}{datetime.now(UTC):%Y%m%dT%H%M%S}"
        path, system = self._hadoop("")
        if not system.rename(path, self._path(aside)):
            raise job_error(
                "RUN-037", f"the checkpoint '{self.place}' cannot be moved to '{aside}'"
            )
        return aside

    def _last(self, log: str) -> int:
        path, system = self._hadoop(log)
        names = (
            [s.getPath().getName() for s in system.listStatus(path)] if system.exists(path) else []
        )
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def _entry(self, log: str, batch: int) -> dict[str, Any]:
        """What Spark wrote of a batch, of which there are a version and a line of JSON first."""
        text = self._read(f"{log}/{batch}")
        path = self._named(f"{log}/{batch}")
        if text is None:
            raise damaged(f"'{path}' is missing")
        lines = text.splitlines()
        try:
            return dict(json.loads(lines[1]))
        except (IndexError, ValueError):
            raise damaged(f"'{path}' is broken") from None

    def _named(self, name: str) -> str:
        return f"{self._path(self.place).toUri().getPath()}/{name}"

    def _read(self, name: str) -> str | None:
        path, system = self._hadoop(name)
        if not system.exists(path):
            return None
        stream = system.open(path)
        try:
            return str(
                java_class(self.spark, "org.apache.commons.io.IOUtils").toString(stream, "UTF-8")
            )
        finally:
            stream.close()

    def _path(self, place: str) -> Any:
        return java_class(self.spark, "org.apache.hadoop.fs.Path")(place)

    def _hadoop(self, name: str) -> tuple[Any, Any]:
        path = self._path(f"{self.place}/{name}" if name else self.place)
        return path, path.getFileSystem(self._conf)

    @property
    def _conf(self) -> Any:
        return self.spark._jsc.hadoopConfiguration()


def jobs_below(place: Checkpoint) -> list[Checkpoint]:
    """The checkpoint at a place, or those that `run --checkpoint` has made below it; none that was moved aside."""
    if place.is_job:
        return [place]
    return [
        job for script in place.children() for job in [script, *script.children()] if job.is_job
    ]


_RESET = "--reset-state drops the state and starts the job anew"


def damaged(what: str) -> JobError:
    return job_error(
        "RUN-038",
        f"the checkpoint is damaged: {what}",
        f"bring it back from a copy, or start with another --checkpoint; {_RESET}",
    )


# --- going on from one ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Settled:
    """What stays the same in all runs from a checkpoint, or until a batch is done."""

    checkpoint: Checkpoint
    job_id: str
    parallelism: int
    facts: Mapping[str, Any]
    stored: Mapping[str, Any]
    drops: JobError | None = None
    """Why the checkpoint does not fit, if its state is to be dropped for that."""

    @property
    def ids(self) -> tuple[str, ...]:
        """The job's id, and those under which it may have left transactions open."""
        former = self.stored.get("job") if self.drops is not None else None
        return (self.job_id,) if former is None else (str(former), self.job_id)

    def seal(self, operators: Sequence[Mapping[str, Any]], notices: list[str]) -> None:
        """The job is going to run: from now on the checkpoint is its own. `operators` is what `state` reads back."""
        if self.drops is not None:
            aside = self.checkpoint.move_aside()
            notices.append(
                f"{self.drops.diagnostics[0].message}; the state is dropped and the job starts anew,"
                f" what was there is kept in {aside}"
            )
        facts = json.loads(json.dumps({**self.facts, "operators": operators}))
        if self.drops is not None or facts != self.stored:
            self.checkpoint.keep(facts)


def settle(
    checkpoint: Checkpoint,
    job: Job,
    zone: str,
    parallelism: int,
    reset_state: bool,
    notices: list[str],
) -> Settled:
    """`parallelism` is what the job would have in a new checkpoint."""
    taken = fingerprint(job.roots, job.modes)
    is_open = checkpoint.is_batch_open()
    stored: dict[str, Any] = {}
    misfit = None
    try:
        stored = checkpoint.facts()
        _check_fit(checkpoint, job, zone, stored, taken, is_open)
    except JobError as error:
        if not reset_state:
            raise
        misfit = error
    if not stored and checkpoint.last_batch < 0:
        notices += _left_behind(checkpoint, job)
    goes_on = misfit is None
    job_id = str((goes_on and stored.get("job")) or uuid.uuid4().hex[:16])
    if goes_on:
        parallelism = _kept_parallelism(
            checkpoint, job, stored, taken, parallelism, is_open, notices
        )
    facts = {
        "time_zone": zone,
        "job": job_id,
        "parallelism": parallelism,
        **_writers(job, job_id),
        "fingerprint": taken.to_json(),
    }
    return Settled(checkpoint, job_id, parallelism, facts, stored, misfit)


def _left_behind(checkpoint: Checkpoint, job: Job) -> list[str]:
    """A job is known by its sinks: with one more or less it is another, and that is easily overlooked."""
    above = checkpoint.place.removesuffix(f"/{job.target}")
    own = set(job.target.split("+"))
    others = [
        c.place.rpartition("/")[2]
        for c in Checkpoint(checkpoint.spark, above).children()
        if c.is_job
    ]
    return [
        f"{job.target}: starts fresh; the checkpoint '{name}' beside it is of a job with other sinks"
        for name in others
        if name != job.target and own & set(name.split("+"))
    ]


def _check_fit(
    checkpoint: Checkpoint,
    job: Job,
    zone: str,
    stored: Mapping[str, Any],
    taken: Fingerprint,
    is_open: bool,
) -> None:
    """Raise why the job cannot go on from the checkpoint."""
    if stored.get("time_zone", zone) != zone:
        raise job_error(
            "RUN-030",
            f"the checkpoint was made with 'table.local-time-zone' = '{stored['time_zone']}', not '{zone}'",
            f"set the old zone, or start with another --checkpoint; {_RESET}",
            job.span,
        )
    before = None
    if "fingerprint" in stored:
        try:
            before = Fingerprint.from_json(stored["fingerprint"])
        except ValueError:
            raise job_error(
                "RUN-035",
                "the checkpoint was made by a later release of Tidemill",
                f"run that release, or start with another --checkpoint; {_RESET}",
                job.span,
            ) from None
        found = difference(before, taken)
        if found is not None:
            raise job_error(
                "RUN-034",
                f"the checkpoint was made by another query: {found}",
                "what has state, and what comes before it, must stay as it was: keep the old query, or start with"
                f" another --checkpoint; {_RESET}",
                found.span or job.span,
            )
    checkpoint.check(has_state=not taken.is_stateless)
    unfinished = checkpoint.unfinished_partitions()
    if unfinished is not None:
        raise job_error(
            "RUN-036",
            f"the state was being brought to a parallelism of {unfinished}, and that was broken off",
            f"finish it: tidemill state repartition {checkpoint.place} {unfinished}",
            job.span,
        )
    if job.exactly_once and is_open:
        _check_writers(job, stored, before, taken)


def _check_writers(
    job: Job, stored: Mapping[str, Any], before: Fingerprint | None, taken: Fingerprint
) -> None:
    """In an open batch every writer must have the rows that it had, or some are lost and others there twice."""
    now = _writers(job, str(stored.get("job")))
    changed = [
        f"'{option}'"
        for fact, option in _WRITER_OPTIONS.items()
        if any(stored.get(fact, {}).get(name, n) != n for name, n in now[fact].items())
    ]
    if before is not None and before.flow != taken.flow:
        changed.append("the query")
    if changed:
        raise job_error(
            "RUN-033",
            "the batch that the job was stopped in must be finished by the writers that began it, and"
            f" {changed[0]} has changed",
            f"start the job with the old {changed[0].removeprefix('the ')}, stop it with Ctrl-C, and change it then;"
            f" {_RESET}",
            job.span,
        )


# What the checkpoint calls a fact of `_writers`, and the option that it comes from.
_WRITER_OPTIONS = {"writers": "sink.parallelism", "prefixes": "sink.transactional-id-prefix"}


def _writers(job: Job, job_id: str) -> dict[str, dict[str, Any]]:
    """How many writers the exactly-once tables of a job have, where it says so, and the prefixes of their ids."""
    counts, prefixes = {}, {}
    for table in job.exactly_once:
        assert isinstance(table.connector, TopicTable)
        counts[table.name] = table.connector.sink_parallelism
        prefixes[table.name] = transactional_id_prefix(table, job_id)
    return {"writers": counts, "prefixes": prefixes}


def _kept_parallelism(
    checkpoint: Checkpoint,
    job: Job,
    stored: Mapping[str, Any],
    taken: Fingerprint,
    wanted: int,
    is_open: bool,
    notices: list[str],
) -> int:
    """State is cut by it, and in an open batch every writer must have the rows that it had."""
    if not taken.is_stateless:
        # What the last batch has worked with, whatever older releases have written beside it.
        last = checkpoint.last_batch
        kept = (checkpoint.partitions(last) if last >= 0 else None) or wanted
        if kept != wanted:
            notices.append(
                f"{job.target}: the state in the checkpoint is for a parallelism of {kept}, and the job goes on with"
                f" it; 'tidemill state repartition {checkpoint.place} {wanted}' makes it {wanted}"
            )
        return kept
    if job.exactly_once and is_open:
        kept = int(stored.get("parallelism", wanted))
        if kept != wanted:
            notices.append(
                f"{job.target}: the job was stopped inside a batch, and goes on with the parallelism of that batch,"
                f" {kept}; {wanted} counts when it is started after a stop with Ctrl-C"
            )
        return kept
    return wanted


# --- cutting state anew --------------------------------------------------------------------------


def repartition(checkpoint: Checkpoint, parallelism: int) -> bool:
    """Cut the state of a job that does not run into so many parts; False if it is cut so already.

    It is a batch without rows in Spark's logs: one that was broken off is found there, and finished by another call.
    """
    stored = checkpoint.facts()
    last = checkpoint.last_batch
    if last < 0:
        raise _not_now(
            "has done no batch yet", "its first start decides: SET 'parallelism.default'"
        )
    taken = Fingerprint.from_json(stored["fingerprint"]) if "fingerprint" in stored else None
    if taken is not None and taken.is_stateless:
        raise _not_now(
            "has no state", "its parallelism follows 'parallelism.default' at every start"
        )
    waiting = [o["name"] for o in stored.get("operators", ()) if "clock" in o.get("spec", {})]
    if waiting:
        # Spark moves state by the key under which it is kept; what waits for a time is kept by that time.
        raise _not_now(
            f"has state that waits for a time, in {waiting[0]}: it cannot be cut anew yet",
            "start with the other parallelism and a new checkpoint, or with --reset-state",
        )
    unfinished = checkpoint.unfinished_partitions()
    if unfinished not in (None, parallelism):
        raise _not_now(
            f"was being brought to a parallelism of {unfinished}, and that was broken off",
            f"finish it first: tidemill state repartition {checkpoint.place} {unfinished}",
        )
    if unfinished is None and checkpoint.is_batch_open():
        raise _not_now(
            "was stopped inside a batch, which must be finished with the parallelism that it began with",
            "run the job until it is ready, and stop it with Ctrl-C",
        )
    checkpoint.check(has_state=True)
    if unfinished is None and checkpoint.partitions(last) == parallelism:
        return False
    checkpoint.spark._streamingCheckpointManager.repartition(checkpoint.place, parallelism)
    # Whoever is killed before this line loses nothing: it is Spark's number that counts.
    checkpoint.keep({**stored, "parallelism": parallelism})
    return True


def _not_now(why: str, hint: str) -> JobError:
    return job_error("RUN-039", f"the job of this checkpoint {why}", hint)

"""The state in a checkpoint: cut into other parts, and damaged."""

from __future__ import annotations

import random
import shutil
from collections import defaultdict
from pathlib import Path

import pytest
from test_changed_scripts import (
    COPY,
    ONCE,
    ORDERS,
    TOTALS,
    counted,
    facts,
    orders,
    refusal,
)
from world import World, forget_last_commit, job_directory

from harness.waiting import wait_for
from tidemill import Session
from tidemill.errors import JobError
from tidemill.spark.checkpoints import Checkpoint, jobs_below, repartition

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def opened(world: World) -> Checkpoint:
    [found] = jobs_below(Checkpoint(world.spark, world.checkpoint.as_uri()))
    assert found.place == job_directory(world).as_uri()
    return found


def refused(checkpoint: Checkpoint, parallelism: int) -> str:
    with pytest.raises(JobError) as refused:
        repartition(checkpoint, parallelism)
    [found] = refused.value.diagnostics
    assert found.code == "RUN-039"
    return str(found.render())


def counting(world: World, source: str, totals: str) -> str:
    return (
        f"{ORDERS}{world.kafka(source)}; {TOTALS}{world.upsert(totals)};"
        "INSERT INTO totals SELECT customer, COUNT(*) FROM orders GROUP BY customer"
    )


# -- another parallelism ---------------------------------------------------------------------------


def test_state_is_cut_anew_and_nothing_else_changes(world: World) -> None:
    """Large enough that distinct values leave the group's own bytes for pages of their own."""
    source, seen = world.create(partitions=2), world.create(hint="seen", partitions=2)
    script = (
        f"CREATE TABLE visits (page INT, visitor STRING) {world.kafka(source)};"
        "CREATE TABLE seen (page INT, pv BIGINT, uv BIGINT, PRIMARY KEY (page) NOT ENFORCED)"
        f"{world.upsert(seen, **ONCE)};"
        "INSERT INTO seen SELECT page, COUNT(*), COUNT(DISTINCT visitor) FROM visits GROUP BY page"
    )
    drawn = random.Random(4)
    views: dict[int, list[str]] = defaultdict(list)
    for parallelism in (2, 4, 2):
        if parallelism != 2 or views:
            assert repartition(opened(world), parallelism)
        rows = [
            {"page": drawn.randrange(6), "visitor": f"visitor {drawn.randrange(3000)}"}
            for _ in range(5000)
        ]
        for row in rows:
            views[row["page"]].append(row["visitor"])  # type: ignore[index, arg-type]
        world.produce(source, *rows)
        world.run(script, keep=True, parallelism_default=str(parallelism))
        found = {row["page"]: (row["pv"], row["uv"]) for row in world.table(seen).values()}
        assert found == {page: (len(all_), len(set(all_))) for page, all_ in views.items()}
        assert facts(job_directory(world))["parallelism"] == parallelism
        parts = [p for p in (job_directory(world) / "state" / "0").iterdir() if p.name.isdigit()]
        assert len(parts) >= parallelism
    assert not [n for n in world.notices if "for a parallelism of" in n]
    # Exactly once: no total is there twice.
    written = [(row["page"], row["pv"]) for row in world.values(seen)]
    assert len(written) == len(set(written))
    assert not repartition(opened(world), 2)


def test_a_batch_that_was_begun_is_finished_first(world: World) -> None:
    source, totals = world.create(*orders(range(3))), world.create(hint="totals")
    script = counting(world, source, totals)
    world.run(script, keep=True, parallelism_default="2")
    forget_last_commit(world)
    said = refused(opened(world), 3)
    assert "was stopped inside a batch" in said
    assert "run the job until it is ready, and stop it with Ctrl-C" in said
    world.run(script, keep=True, parallelism_default="2")
    assert repartition(opened(world), 3)
    # As a kill would leave it.
    forget_last_commit(world)
    found = refusal(world, script)
    assert found.code == "RUN-036"
    assert f"tidemill state repartition {opened(world).place} 3" in str(found.hint)
    assert "was being brought to a parallelism of 3" in refused(opened(world), 4)
    assert repartition(opened(world), 3)
    world.produce(source, *orders(range(3, 6)))
    world.run(script, keep=True)
    assert counted(world, totals) == {"a": 2, "b": 2, "c": 2}


def test_a_job_without_state_is_not_cut(world: World) -> None:
    source, copied = world.create(*orders(range(3))), world.create(hint="copy")
    world.run(
        f"{ORDERS}{world.kafka(source)}; {COPY}{world.kafka(copied)};"
        "INSERT INTO copy SELECT * FROM orders",
        keep=True,
    )
    assert "has no state" in refused(opened(world), 3)


# -- damage ----------------------------------------------------------------------------------------

DAMAGED = {
    "what has changed last": "state/0/0/3.changelog",
    "a snapshot": "state/0/1/1.zip",
    "a snapshot's table": "state/0/*/SSTs/*.sst",
    "what Spark knows of an operator": "state/0/_metadata/v2/[0-9]*",
    "the log of commits": "commits/2",
    "the log of offsets": "offsets/2",
}


@pytest.mark.parametrize("what", ["missing", "cut off"])
def test_damage_is_named_before_anything_is_written(world: World, what: str) -> None:
    source, totals = world.create(), world.create(hint="totals")
    script = counting(world, source, totals)
    for batch in range(3):
        world.produce(source, *orders(range(30 * batch, 30 * (batch + 1))))
        world.run(script, keep=True)
    directory = job_directory(world)
    written = len(world.records(totals))
    copy = world.checkpoint.parent / "copy"
    shutil.copytree(directory, copy)
    world.produce(source, *orders(range(3)))
    for pattern in DAMAGED.values():
        if what == "missing" and pattern.startswith("commits"):
            continue  # such a batch is run again
        victims = sorted(directory.glob(pattern))
        for victim in victims:
            damage(victim, what)
        found = refusal(world, script)
        assert found.code == "RUN-038", victims
        told = [f"'{v}' is {'missing' if what == 'missing' else 'broken'}" for v in victims]
        told += [f"'{v.parent}' holds no snapshot" for v in victims if v.suffix == ".zip"]
        told += [f"'{v.parent}' is empty" for v in victims if v.parent.name == "v2"]
        assert any(words in found.message for words in told), found.message
        assert len(world.records(totals)) == written
        shutil.rmtree(directory)
        shutil.copytree(copy, directory)
    shutil.rmtree(directory / "state")
    assert f"'{directory / 'state'}' is missing" in refusal(world, script).message
    shutil.copytree(copy / "state", directory / "state")
    damage(directory / "tidemill.json", "cut off")
    assert f"'{directory / 'tidemill.json'}' is broken" in refusal(world, script).message
    shutil.copy(copy / "tidemill.json", directory)
    world.run(script, keep=True)
    assert counted(world, totals) == {"a": 31, "b": 31, "c": 31}
    shutil.rmtree(directory / "state")
    world.run(script, keep=True, reset_state=True)
    assert counted(world, totals) == {"a": 31, "b": 31, "c": 31}
    assert [n for n in world.notices if "is missing; the state is dropped" in n]


def damage(victim: Path, what: str) -> None:
    (victim.parent / f".{victim.name}.crc").unlink(missing_ok=True)
    content = victim.read_bytes()
    if what == "missing":
        victim.unlink()
    else:
        victim.write_bytes(content[: len(content) // 2])


def test_what_spark_finds_damaged_is_told_in_one_sentence(world: World) -> None:
    """Inside of a file only Spark looks, when a task needs it."""
    source, totals = world.create(*orders(range(30))), world.create(hint="totals")
    script = counting(world, source, totals)
    world.run(script, keep=True)
    for changes in job_directory(world).glob("state/0/*/1.changelog"):
        changes.unlink()
    for table in job_directory(world).glob("state/0/*/SSTs/*.sst"):
        content = bytearray(table.read_bytes())
        content[len(content) // 2] ^= 255
        table.write_bytes(content)
    world.produce(source, *orders(range(3)))
    found = refusal(world, script)
    assert found.code == "RUN-038"
    assert "the state in its checkpoint cannot be read" in found.message


# -- memory ----------------------------------------------------------------------------------------


def open_stores(world: World, run: str) -> int:
    """How many stores of a query's run Spark has in this JVM."""
    names = world.spark._jvm.java.lang.Class.forName(
        "org.apache.spark.sql.execution.streaming.state.StateStore$"
    )
    field = names.getDeclaredField("loadedProviders")
    field.setAccessible(True)
    return str(field.get(None).keySet()).count(run)


@pytest.mark.parametrize("is_stopped", [True, False], ids=["stopped", "at its end"])
def test_a_job_that_has_ended_gives_its_stores_back(world: World, is_stopped: bool) -> None:
    """They have memory outside of the heap, and a session may run many jobs."""
    source, totals = world.create({"customer": "ann"}, hint="orders"), world.create(hint="totals")
    with Session(world.spark, bounded=not is_stopped) as session:
        [job] = session.execute(counting(world, source, totals))
        wait_for(lambda: bool(world.table(totals)))
        if is_stopped:
            assert open_stores(world, job.query.runId) == 2
            job.stop()
        else:
            assert job.wait(60)
        assert open_stores(world, job.query.runId) == 0

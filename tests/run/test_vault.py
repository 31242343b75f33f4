"""Specs with passwords in them are in no plan of Spark's and in no checkpoint; jobs leave none behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from world import World

from tidemill import Session
from tidemill.errors import JobError
from tidemill.spark.java import java_class

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

SECRET = "hunter2-hunter2"


def vault(spark: Any) -> Any:
    return java_class(spark, "io.tidemill.Vault")


def plans(query: Any) -> str:
    """All that Spark would show of a query's plans."""
    wrapped = query._jsq.streamingQuery()
    execution = wrapped.lastExecution()
    return f"{wrapped.logicalPlan()}\n{execution}\n{execution.executedPlan().treeString()}"


def test_a_spec_is_found_by_its_key_until_its_job_is_over(spark: Any) -> None:
    kept = vault(spark)
    before = kept.size()
    one, other = kept.keep("one", '{"a": 1}'), kept.keep("other", '{"a": 1}')
    assert one != other and kept.keep("one", '{"a": 1}') == one
    assert kept.open(one) == '{"a": 1}' and kept.open('{"b": 2}') == '{"b": 2}'
    assert SECRET not in kept.keep("one", SECRET)
    kept.forget("one")
    assert kept.open(other) == '{"a": 1}'
    with pytest.raises(Exception, match="the job is over"):
        kept.open(one)
    kept.forget("other")
    kept.forget("nobody")
    assert kept.size() == before


def test_no_plan_has_the_properties_of_a_client(world: World) -> None:
    before = vault(world.spark).size()
    source, target = world.create(*({"id": i} for i in range(3))), world.create(hint="out")
    letters = world.create(hint="letters")
    secret = {"properties_ssl_key_password": SECRET}
    read = world.kafka(
        source, scan_bad__records="dead-letter", scan_dead__letter_topic=letters, **secret
    )
    session = Session(world.spark, checkpoint=world.checkpoint)
    [job] = session.execute(
        f"CREATE TABLE r (id BIGINT) {read}; CREATE TABLE w (id BIGINT) {world.kafka(target, **secret)};"
        "INSERT INTO w SELECT id FROM r;"
    )
    assert not isinstance(job, str)
    job.query.processAllAvailable()
    shown = plans(job.query)
    assert "tidemill-kafka" in shown and SECRET not in shown
    assert vault(world.spark).size() == before + 2
    job.stop()
    assert not job.is_active
    assert vault(world.spark).size() == before
    assert [v["id"] for v in world.values(target)] == [0, 1, 2]


def test_a_job_that_does_not_start_leaves_nothing_behind(world: World) -> None:
    before = vault(world.spark).size()
    source = world.create({"id": 1})
    with pytest.raises(JobError):
        world.run(
            f"CREATE TABLE r (id BIGINT) {world.kafka(source, properties_max_poll_records='x')};"
            "SELECT id FROM r;"
        )
    assert vault(world.spark).size() == before


def test_a_frame_has_none_either(world: World) -> None:
    before = vault(world.spark).size()
    source = world.create({"id": 1})
    secret = world.kafka(
        source, properties_ssl_key_password=SECRET, scan_bounded_mode="latest-offset"
    )
    with Session(world.spark) as session:
        session.execute(f"CREATE TABLE r (id BIGINT) {secret};")
        frame = session.table("r")
        assert SECRET not in frame._jdf.queryExecution().toString()
        query = frame.writeStream.format("memory").queryName("frame_of_vault")
        query.trigger(availableNow=True).start().awaitTermination()
        assert frame.sparkSession.sql("SELECT * FROM frame_of_vault").count() == 1
    assert vault(world.spark).size() == before


def test_the_checkpoint_of_an_operator_with_letters_has_none(world: World) -> None:
    source, target = world.create({"id": 1, "ts": "2024-01-01 00:00:00"}), world.create(hint="out")
    letters = world.create(hint="late")
    secret = {"properties_ssl_key_password": SECRET}
    world.run(
        f"""
        SET 'table.exec.late-rows' = 'dead-letter'; SET 'table.exec.late-rows.topic' = '{letters}';
        CREATE TABLE r (id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) {world.kafka(source, **secret)};
        CREATE TABLE w (n BIGINT, m BIGINT) {world.kafka(target, **secret)};
        INSERT INTO w SELECT id, COUNT(*) OVER (PARTITION BY id ORDER BY ts) FROM r;
        """,
        keep=True,
    )
    held = holders(world.checkpoint, SECRET)
    assert list(world.checkpoint.rglob("*")) and held == []


def holders(place: Path, text: str) -> list[Path]:
    return [p for p in place.rglob("*") if p.is_file() and text.encode() in p.read_bytes()]

"""How a Kafka table is read: bad records, headers in order, limits, topics and brokers that go away."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from world import World

from tidemill import Session
from tidemill.broker import start
from tidemill.broker.records import Record
from tidemill.errors import JobError
from tidemill.spark.runner import RunningJob

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

GOOD, TORN, WRONG = b'{"id": 1, "n": 10}', b'{"id": 2, "n"', b'{"id": 3, "n": "ten"}'
HEADERS = (("a", b"1"), ("b", None), ("a", b"2"))


def copy(world: World, source: str, target: str, **options: str) -> str:
    return f"""
    CREATE TABLE src (id INT, n INT) {world.kafka(source, **options)};
    CREATE TABLE dst (id INT, n INT) {world.kafka(target)};
    INSERT INTO dst SELECT id, n FROM src;
    """


def test_a_bad_record_is_left_out_and_counted(world: World) -> None:
    source, target = world.create(GOOD, TORN, WRONG, hint="skip"), world.create()
    world.run(copy(world, source, target, scan_bad__records="skip"))
    assert world.values(target) == [{"id": 1, "n": 10}]
    assert world.losses == {"src: bad record": 2}


def test_dead_letters_keep_the_record_and_say_where_it_came_from(world: World) -> None:
    source, target, letters = world.create(hint="in"), world.create(), world.create(hint="dead")
    world.produce(
        source,
        GOOD,
        Record(TORN, b"k\xff", headers=HEADERS, timestamp_ms=1234),
        Record(WRONG),
        GOOD,
    )
    script = copy(
        world,
        source,
        target,
        scan_bad__records="dead-letter",
        scan_dead__letter_topic=letters,
    )
    world.run(script, keep=True)
    assert world.values(target) == [{"id": 1, "n": 10}] * 2
    assert world.losses == {"src: bad record, in the dead-letter topic": 2}
    torn, wrong = world.records(letters)
    assert (torn.key, torn.value) == (b"k\xff", TORN)
    assert list(torn.headers)[:3] == list(HEADERS)
    assert list(torn.headers)[3:8] == [
        ("tidemill.topic", source.encode()),
        ("tidemill.partition", b"0"),
        ("tidemill.offset", b"1"),
        ("tidemill.timestamp", b"1234"),
        ("tidemill.table", b"src"),
    ]
    name, error = list(torn.headers)[8]
    assert (name, error.startswith(b"cannot be read as json: ")) == ("tidemill.error", True)
    assert (wrong.key, wrong.value) == (None, WRONG)
    assert b"field 'n'" in dict(wrong.headers)["tidemill.error"]
    # What is committed is not written again.
    world.produce(source, TORN)
    world.run(script, keep=True)
    assert [r.value for r in world.records(letters)] == [TORN, WRONG, TORN]


def test_dead_letters_of_an_aggregate_and_of_a_key(world: World) -> None:
    source, target, letters = world.create(hint="in"), world.create(), world.create(hint="dead")
    world.produce(source, Record(b'{"n": 1}', b'{"k": 1}'), Record(b'{"n": 1}', b"}"))
    world.produce(source, Record(b"]", b"}"), Record(b'{"n": 2}', b'{"k": 1}'))
    options = {
        "key_format": "json",
        "key_fields": "k",
        "value_fields__include": "EXCEPT_KEY",
        "scan_bad__records": "dead-letter",
        "scan_dead__letter_topic": letters,
    }
    world.run(f"""
    CREATE TABLE src (k INT, n INT) {world.kafka(source, **options)};
    CREATE TABLE dst (k INT, total INT, PRIMARY KEY (k) NOT ENFORCED) {world.upsert(target)};
    INSERT INTO dst SELECT k, SUM(n) FROM src WHERE n > 0 GROUP BY k;
    """)
    assert world.table(target) == {'{"k":1}': {"k": 1, "total": 3}}
    by_key, both = world.records(letters)
    assert (by_key.key, by_key.value) == (b"}", b'{"n": 1}')
    assert dict(both.headers)["tidemill.error"].count(b"cannot be read as json") == 2


@pytest.mark.parametrize("policy", ["fail", "skip"])
def test_ignored_errors_rule_fields_and_the_policy_documents(world: World, policy: str) -> None:
    source, target = world.create(GOOD, WRONG, TORN, hint="both"), world.create()
    script = copy(
        world, source, target, scan_bad__records=policy, json_ignore__parse__errors="true"
    )
    if policy == "fail":
        with pytest.raises(JobError, match="offset 2"):
            world.run(script)
    else:
        world.run(script)
        assert world.values(target) == [{"id": 1, "n": 10}, {"id": 3, "n": None}]
        assert world.losses == {"src: bad record": 1}


def test_a_topic_for_dead_letters_must_exist(world: World) -> None:
    source, target = world.create(GOOD, hint="in"), world.create()
    options = {"scan_bad__records": "dead-letter", "scan_dead__letter_topic": "nowhere"}
    with pytest.raises(JobError, match="topic 'nowhere' for dead letters of table 'src'"):
        world.run(copy(world, source, target, **options))


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("1700000000000", "TO_TIMESTAMP_LTZ(at, 3)"),
        ("1700000000", "TO_TIMESTAMP_LTZ(at, 0)"),
        ('"2020-01-01T00:00:00"', "timestamp-format.standard' = 'ISO-8601'"),
    ],
)
def test_a_time_in_another_form_has_a_hint(world: World, value: str, hint: str) -> None:
    source = world.create(f'{{"at": {value}}}', hint="time")
    with pytest.raises(JobError) as caught:
        world.run(f"CREATE TABLE src (`at` TIMESTAMP(3)) {world.kafka(source)}; SELECT * FROM src;")
    assert hint in (caught.value.diagnostics[0].hint or "")


def test_headers_in_order_both_ways(world: World) -> None:
    source, target = world.create(hint="in"), world.create()

    world.produce(source, Record(b'{"id": 1}', headers=HEADERS), Record(b'{"id": 2}'))
    columns = "id INT, h ARRAY<ROW<`key` STRING, `value` BYTES>> METADATA FROM 'header-list'"
    world.run(f"""
    CREATE TABLE src ({columns}) {world.kafka(source)};
    CREATE TABLE dst ({columns}) {world.kafka(target)};
    INSERT INTO dst SELECT id, h FROM src;
    """)
    assert [list(r.headers) for r in world.records(target)] == [list(HEADERS), []]


def test_a_table_may_limit_its_batches(world: World) -> None:
    source, target = world.create(*[GOOD] * 40, hint="small"), world.create()
    world.run(copy(world, source, target, scan_max__rows__per__batch="7"))
    assert world.batches == [7, 7, 7, 7, 7, 5]
    assert len(world.values(target)) == 40


def test_a_table_may_limit_its_rate(world: World) -> None:
    source, target = world.create(*[GOOD] * 80, hint="slow"), world.create()
    before = time.monotonic()
    world.run(copy(world, source, target, scan_rate__limit_rows__per__second="20"))
    # A second's rows are free at the start, the other 60 take three seconds.
    assert world.batches[0] == 20
    assert time.monotonic() - before > 3
    assert len(world.values(target)) == 80


@pytest.mark.parametrize("choice", ["fail", "warn"])
def test_records_that_are_deleted_before_they_are_read(world: World, choice: str) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    source, target = world.create({"id": 0}, hint="lossy"), world.create()
    script = copy(world, source, target, scan_on__data__loss=choice)
    world.run(script, keep=True)
    world.produce(source, *({"id": i} for i in range(1, 6)))
    admin = AdminClient({"bootstrap.servers": world.broker.bootstrap})
    place = TopicPartition(source, 0, 4)
    admin.delete_records([place])[place].result(30)
    if choice == "fail":
        with pytest.raises(JobError) as caught:
            world.run(script, keep=True)
        (told,) = caught.value.diagnostics
        assert told.code == "RUN-003"
        assert (
            f"offset 1 of partition {source}-0 is not there: the broker has 4 to 6" in told.message
        )
        assert "'scan.on-data-loss' = 'warn'" in (told.hint or "")
        assert len(world.values(target)) == 1
    else:
        world.run(script, keep=True)
        assert [row["id"] for row in world.values(target)] == [0, 4, 5]
        assert [line for line in world.notices if source in line] == [
            f"table 'src': the records of partition {source}-0 from offset 1 on are gone; reading goes on at 4"
        ]


def test_dead_letters_of_an_exactly_once_job_come_once(world: World) -> None:
    source, target, letters = world.create(hint="in"), world.create(), world.create(hint="dead")
    world.produce(source, GOOD, TORN, GOOD)
    options = {"scan_bad__records": "dead-letter", "scan_dead__letter_topic": letters}
    script = f"""
    CREATE TABLE src (id INT, n INT) {world.kafka(source, **options)};
    CREATE TABLE dst (id INT, n INT) {world.kafka(target, sink_delivery__guarantee="exactly-once")};
    INSERT INTO dst SELECT id, n FROM src;
    """
    world.run(script, keep=True)
    # As if the job had been killed after it had written, and before the batch was committed.
    commits = next(world.checkpoint.rglob("commits"))
    for done in commits.iterdir():
        done.unlink()
    world.run(script, keep=True)
    world.produce(source, WRONG)
    world.run(script, keep=True)
    assert [r.value for r in world.records(letters)] == [TORN, WRONG]
    assert len(world.values(target)) == 2


def test_a_topic_that_is_removed_is_told_and_the_job_goes_on(world: World) -> None:
    from confluent_kafka.admin import AdminClient

    stays, goes, target = world.create(GOOD, hint="stays"), world.create(GOOD), world.create()
    options = {"scan_topic__partition__discovery_interval": "1 s"}
    with Session(world.spark, checkpoint=world.checkpoint) as session:
        (job,) = running(session, copy(world, f"{stays};{goes}", target, **options))
        wait_for(lambda: len(world.values(target)) == 2, job)
        admin = AdminClient({"bootstrap.servers": world.broker.bootstrap})
        admin.delete_topics([goes])[goes].result(30)
        said: list[str] = []
        told = f"table 'src': topic '{goes}' was removed"
        wait_for(lambda: said.extend(job.notices()) or any(told in line for line in said), job)
        world.produce(stays, GOOD)
        wait_for(lambda: len(world.values(target)) == 3, job)
        assert job.is_active


def running(session: Session, script: str) -> list[RunningJob]:
    return [answer for answer in session.execute(script) if not isinstance(answer, str)]


def wait_for(condition: Callable[[], bool], job: RunningJob, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert job.is_active, job.failure()
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.2)


# The clients give up soon, so that it is the job that must be patient.
HASTY = {
    "properties_default_api_timeout_ms": "4000",
    "properties_request_timeout_ms": "2000",
    "properties_max_block_ms": "3000",
    "properties_delivery_timeout_ms": "4000",
}


def test_rows_wait_for_the_broker_of_an_exactly_once_sink(world: World, tmp_path: Path) -> None:
    """It goes away before a transaction begins, and the broker of the source stays."""
    own = start(tmp_path / "broker", port=0)
    away = World(own, world.spark, world.topic, world.checkpoint)
    source, target = world.create({"id": 1}), away.create()
    script = f"""
    CREATE TABLE src (id INT) {world.kafka(source)};
    CREATE TABLE dst (id INT)
    {away.kafka(target, **HASTY, sink_delivery__guarantee="exactly-once")};
    INSERT INTO dst SELECT id FROM src;
    """
    try:
        with Session(
            world.spark, checkpoint=world.checkpoint, restart_for=timedelta(minutes=5)
        ) as session:
            (job,) = running(session, script)
            wait_for(lambda: len(away.values(target)) == 1, job)
            own.stop()
            world.produce(source, {"id": 2})
            wait_for(lambda: job.recovery.is_waiting, job, seconds=40)
            own = start(tmp_path / "broker", port=own.port)
            wait_for(lambda: len(away.values(target)) == 2, job)
        assert away.values(target) == [{"id": 1}, {"id": 2}]
    finally:
        own.stop()


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_a_broker_that_goes_away_under_load_and_comes_back(
    world: World, tmp_path: Path, guarantee: str
) -> None:
    own = start(tmp_path / "broker", port=0)
    world = World(own, world.spark, world.topic, world.checkpoint)
    source, target = world.create(), world.create()
    options = {"sink_delivery__guarantee": guarantee}
    script = f"""
    CREATE TABLE src (id INT) {world.kafka(source, **HASTY)};
    CREATE TABLE dst (id INT) {world.kafka(target, **HASTY, **options)};
    INSERT INTO dst SELECT id FROM src;
    """
    said: list[str] = []
    try:
        with Session(
            world.spark, checkpoint=world.checkpoint, restart_for=timedelta(minutes=5)
        ) as session:
            world.produce(source, *({"id": i} for i in range(5_000)))
            (job,) = running(session, script)
            wait_for(lambda: len(world.values(target)) > 0, job)
            world.produce(source, *({"id": i} for i in range(5_000, 10_000)))
            own.stop()
            wait_for(lambda: said.extend(job.notices()) or job.recovery.is_waiting, job)
            own = start(tmp_path / "broker", port=own.port)
            world.produce(source, *({"id": i} for i in range(10_000, 15_000)))
            wait_for(lambda: len({row["id"] for row in world.values(target)}) == 15_000, job)
            said += job.notices()
        rows = [row["id"] for row in world.values(target)]
    finally:
        own.stop()
    assert set(rows) == set(range(15_000))
    if guarantee == "exactly-once":
        assert len(rows) == 15_000
    assert any("it will be started again from its checkpoint" in line for line in said)
    assert any(line.endswith("started again") for line in said)


def test_an_idle_job_outlives_one_outage_after_another_until_it_is_stopped(
    world: World, tmp_path: Path
) -> None:
    own = start(tmp_path / "broker", port=0)
    world = World(own, world.spark, world.topic, world.checkpoint)
    source = world.create()
    script = f"""
    CREATE TABLE src (id INT) {world.kafka(source, **HASTY)};
    CREATE TABLE dst (id INT) WITH ('connector' = 'blackhole');
    INSERT INTO dst SELECT id FROM src;
    """
    try:
        with Session(world.spark, restart_for=timedelta(minutes=5)) as session:
            (job,) = running(session, script)
            # The empty batch that fixes where it starts is done, and nothing comes after it.
            wait_for(lambda: any(r["batchId"] == 1 for r in job.reports()), job)
            own.stop()
            wait_for(lambda: job.recovery.is_waiting, job)
            own = start(tmp_path / "broker", port=own.port)
            wait_for(lambda: job.query.isActive and job.reports(), job)
            # The second comes when the patience of the first is long over.
            job.recovery.clock = lambda: time.monotonic() + 3600
            own.stop()
            wait_for(lambda: job.recovery.is_waiting, job)
            job.stop()
            assert job.wait(timeout=5)
            assert job.failure() is None
    finally:
        own.stop()

"""What a Kafka table's sink options do, on a real broker."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource
from world import World, forget_last_commit, job_directory

from harness.kafka import consume
from harness.waiting import wait_for
from tidemill import Session
from tidemill.broker import start, topics
from tidemill.errors import JobError
from tidemill.spark.java import java_class
from tidemill.spark.progress import Progress

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

ORDERS = "CREATE TABLE orders (id INT, customer STRING) "
COPY = "CREATE TABLE copy (id INT, customer STRING) "
TOTALS = "CREATE TABLE totals (customer STRING, n BIGINT, PRIMARY KEY (customer) NOT ENFORCED) "
ONCE = {"sink_delivery__guarantee": "exactly-once"}


def orders(numbers: range) -> list[dict[str, object]]:
    return [{"id": n, "customer": "abc"[n % 3]} for n in numbers]


# -- exactly once ------------------------------------------------------------------------------


def test_a_statement_set_writes_each_table_once_when_a_batch_runs_again(world: World) -> None:
    source = world.create(*orders(range(10)), partitions=2)
    copied, totals = world.create(hint="copy", partitions=2), world.create(hint="totals")
    script = (
        f"{ORDERS}{world.kafka(source)};"
        f"{COPY}{world.kafka(copied, **ONCE)};"
        f"{TOTALS}{world.upsert(totals, **ONCE)};"
        "EXECUTE STATEMENT SET BEGIN"
        " INSERT INTO copy SELECT * FROM orders;"
        " INSERT INTO copy SELECT id + 1000, customer FROM orders;"
        " INSERT INTO totals SELECT customer, COUNT(*) FROM orders GROUP BY customer; END;"
    )
    world.run(script, keep=True)
    forget_last_commit(world)
    world.produce(source, *orders(range(10, 20)))
    world.run(script, keep=True)
    ids = sorted(row["id"] for row in world.values(copied))
    assert ids == [*range(20), *range(1000, 1020)]
    counts = [(r["customer"], r["n"]) for r in world.values(totals)]
    assert max(Counter(counts).values()) == 1
    assert {k: v["n"] for k, v in world.table(totals).items()} == {
        '{"customer":"a"}': 7,
        '{"customer":"b"}': 7,
        '{"customer":"c"}': 6,
    }


def test_exactly_once_needs_a_checkpoint(world: World) -> None:
    source, copied = world.create(), world.create(hint="copy")
    script = (
        f"{ORDERS}{world.kafka(source)}; {COPY}{world.kafka(copied, **ONCE)};"
        "INSERT INTO copy SELECT * FROM orders"
    )
    with pytest.raises(JobError) as refused:
        world.run(script)
    assert refused.value.diagnostics[0].code == "RUN-032"
    assert "--checkpoint" in str(refused.value)


def test_the_job_and_its_prefix_live_in_the_checkpoint(world: World) -> None:
    source, copied = world.create(*orders(range(3))), world.create(hint="copy")
    script = (
        f"{ORDERS}{world.kafka(source)}; {COPY}{world.kafka(copied, **ONCE)};"
        "INSERT INTO copy SELECT * FROM orders"
    )
    world.run(script, keep=True)
    facts = json.loads((job_directory(world) / "tidemill.json").read_text())
    world.produce(source, *orders(range(3, 5)))
    world.run(script, keep=True)
    assert json.loads((job_directory(world) / "tidemill.json").read_text()) == facts
    assert sorted(row["id"] for row in world.values(copied)) == list(range(5))


def test_the_number_of_writers_may_change_between_batches_and_not_within_one(world: World) -> None:
    source, copied = world.create(*orders(range(9)), partitions=2), world.create(hint="copy")

    def script(writers: int) -> str:
        sink = world.kafka(copied, **ONCE, sink_parallelism=str(writers))
        return f"{ORDERS}{world.kafka(source)}; {COPY}{sink}; INSERT INTO copy SELECT * FROM orders"

    world.run(script(3), keep=True)
    world.produce(source, *orders(range(9, 12)))
    world.run(script(2), keep=True)
    forget_last_commit(world)
    with pytest.raises(JobError) as refused:
        world.run(script(4), keep=True)
    assert refused.value.diagnostics[0].code == "RUN-033"
    world.run(script(2), keep=True)
    assert sorted(row["id"] for row in world.values(copied)) == list(range(12))


def test_a_set_finishes_its_batch_with_the_parallelism_that_began_it(world: World) -> None:
    placed = [{"value": json.dumps(o), "partition": o["id"] % 3} for o in orders(range(30))]  # type: ignore[operator]
    source = world.create(*placed, partitions=3)
    odd, even = world.create(hint="odd"), world.create(hint="even")
    script = (
        f"{ORDERS}{world.kafka(source)};"
        f"CREATE TABLE odd (id INT) {world.kafka(odd, **ONCE)};"
        f"CREATE TABLE even (id INT) {world.kafka(even, **ONCE)};"
        "EXECUTE STATEMENT SET BEGIN"
        " INSERT INTO odd SELECT id FROM orders WHERE id % 2 = 1;"
        " INSERT INTO even SELECT id FROM orders WHERE id % 2 = 0; END;"
    )
    world.run(script, keep=True, parallelism_default="3")
    forget_last_commit(world)
    world.produce(source, *orders(range(30, 40)))
    world.run(script, keep=True, parallelism_default="2")
    assert sorted(row["id"] for row in world.values(odd)) == list(range(1, 40, 2))
    assert sorted(row["id"] for row in world.values(even)) == list(range(0, 40, 2))
    facts = json.loads((job_directory(world) / "tidemill.json").read_text())
    assert facts["parallelism"] == 3
    world.produce(source, *orders(range(40, 50)))
    world.run(script, keep=True, parallelism_default="2")
    facts = json.loads((job_directory(world) / "tidemill.json").read_text())
    assert facts["parallelism"] == 2
    assert sorted(row["id"] for row in world.values(odd)) == list(range(1, 50, 2))


def test_the_prefix_may_change_between_batches_and_not_within_one(world: World) -> None:
    source, copied = world.create(*orders(range(4))), world.create(hint="copy")

    def script(prefix: str) -> str:
        own = f"{copied}-{prefix}"
        sink = world.kafka(copied, **ONCE, sink_transactional__id__prefix=own)
        return f"{ORDERS}{world.kafka(source)}; {COPY}{sink}; INSERT INTO copy SELECT * FROM orders"

    world.run(script("a"), keep=True)
    world.produce(source, *orders(range(4, 8)))
    world.run(script("b"), keep=True)
    forget_last_commit(world)
    with pytest.raises(JobError) as refused:
        world.run(script("c"), keep=True)
    assert refused.value.diagnostics[0].code == "RUN-033"
    assert "'sink.transactional-id-prefix' has changed" in str(refused.value)
    world.run(script("b"), keep=True)
    assert sorted(row["id"] for row in world.values(copied)) == list(range(8))


def test_a_batch_that_runs_again_draws_the_same_random_values(world: World) -> None:
    """At least once a batch that runs again is written again, and can be compared."""
    source, drawn = world.create(partitions=2), world.create(hint="drawn")
    script = (
        f"{ORDERS}{world.kafka(source)};"
        "CREATE TABLE drawn (id INT, a DOUBLE, b DOUBLE, c DOUBLE, d INT, e STRING, f STRING)"
        f"{world.kafka(drawn, sink_parallelism='2')};"
        "INSERT INTO drawn SELECT id, RAND(), RAND(), RAND(7), RAND_INTEGER(1000000000), UUID(), UUID()"
        " FROM orders WHERE RAND() < 0.7"
    )
    for batch in (range(1000), range(1000, 2000)):
        halves = [{"value": json.dumps(o), "partition": i % 2} for i, o in enumerate(orders(batch))]
        world.produce(source, *halves)
        world.run(script, keep=True)
        forget_last_commit(world)
        world.run(script, keep=True)
    rows = [tuple(row.values()) for row in world.values(drawn)]
    assert set(Counter(rows).values()) == {2}
    assert 1300 < len(set(rows)) < 1500
    numbers = [value for row in set(rows) for value in row[1:4]]
    assert len(set(numbers)) == len(numbers)
    assert 0 <= min(numbers) < 0.01 and 0.99 < max(numbers) < 1
    texts = [value for row in set(rows) for value in row[5:]]
    assert len(set(texts)) == len(texts)
    assert {str(uuid.UUID(text)) == text and uuid.UUID(text).version for text in texts} == {4}


# -- writers and partitions --------------------------------------------------------------------


def test_the_order_of_a_key_is_kept_over_more_writers(world: World) -> None:
    source, copied = world.create(*orders(range(300))), world.create(hint="copy", partitions=3)
    sink = world.kafka(
        copied,
        key_format="json",
        key_fields="customer",
        sink_parallelism="3",
    )
    world.run(f"{ORDERS}{world.kafka(source)}; {COPY}{sink}; INSERT INTO copy SELECT * FROM orders")
    by_key: dict[str, list[int]] = {}
    for row in world.values(copied):
        by_key.setdefault(row["customer"], []).append(row["id"])
    assert by_key == {c: list(range(i, 300, 3)) for i, c in enumerate("abc")}


def test_fixed_gives_each_writer_a_partition(world: World) -> None:
    source, copied = world.create(*orders(range(200))), world.create(hint="copy", partitions=3)
    sink = world.kafka(copied, sink_partitioner="fixed", sink_parallelism="2")
    world.run(f"{ORDERS}{world.kafka(source)}; {COPY}{sink}; INSERT INTO copy SELECT * FROM orders")
    records = world.records(copied)
    assert len(records) == 200
    assert {r.partition for r in records} == {0, 1}


def test_fixed_counts_the_writers_of_each_table_alone(world: World) -> None:
    source = world.create(*orders(range(200)))
    names = [world.create(hint=hint, partitions=5) for hint in ("first", "second")]
    options = {"sink_partitioner": "fixed", "sink_parallelism": "2"}
    tables = "".join(
        f"CREATE TABLE t{i} (id INT, customer STRING) {world.kafka(name, **options)};"
        for i, name in enumerate(names)
    )
    world.run(
        f"{ORDERS}{world.kafka(source)}; {tables}"
        "EXECUTE STATEMENT SET BEGIN"
        " INSERT INTO t0 SELECT * FROM orders; INSERT INTO t1 SELECT * FROM orders; END;"
    )
    assert [{r.partition for r in world.records(name)} for name in names] == [{0, 1}, {0, 1}]


# Which target partitions belong to the partitions 0, 1, 2 of the source; behind an exchange, of which a set's queries
# read all that they share, there are as many writers as the exchange has readers.
FIXED = {
    "alone": ("INSERT INTO copy SELECT * FROM orders", [{0}, {1}, {2}]),
    "filtered": (
        "INSERT INTO copy SELECT id, UPPER(customer) FROM orders WHERE id >= 0",
        [{0}, {1}, {2}],
    ),
    "united": (
        "INSERT INTO copy SELECT * FROM others WHERE id < 0 UNION ALL SELECT * FROM orders",
        [{0}, {1}, {2}],
    ),
    "in a set": (
        "EXECUTE STATEMENT SET BEGIN"
        " INSERT INTO lines SELECT * FROM orders; INSERT INTO copy SELECT * FROM orders; END",
        [{0}, {1}, {0}],
    ),
}


@pytest.mark.parametrize("name", FIXED)
def test_fixed_sends_a_source_partition_to_one_partition_in_every_batch(
    world: World, name: str
) -> None:
    query, targets = FIXED[name]

    def placed(*numbers: int) -> list[dict[str, object]]:
        return [
            {"value": json.dumps({"id": n, "customer": "a"}), "partition": n % 3} for n in numbers
        ]

    source = world.create(*placed(*range(30)), hint="orders", partitions=3)
    others = world.create(*placed(*range(30)), hint="others", partitions=3)
    copied = world.create(hint="copy", partitions=4)
    script = (
        f"{ORDERS}{world.kafka(source)};"
        f"CREATE TABLE others (id INT, customer STRING) {world.kafka(others)};"
        "CREATE TABLE lines (id INT, customer STRING) WITH ('connector' = 'blackhole');"
        f"{COPY}{world.kafka(copied, sink_partitioner='fixed')}; {query}"
    )
    world.run(script, keep=True)
    for later in ((32, 35), (34, 37), (31, 38)):
        world.produce(source, *placed(*later))
        world.run(script, keep=True)
    found: list[set[int]] = [set(), set(), set()]
    for record in world.records(copied):
        found[json.loads(record.value or b"")["id"] % 3].add(record.partition)
    assert found == targets


def test_changes_without_a_key_stay_in_order(world: World) -> None:
    """As in Flink nothing is shuffled: a row's changes are all for the writer that its partition has."""
    changes = [
        {"op": "u", "before": {"id": i, "customer": "a"}, "after": {"id": i, "customer": "b"}}
        for i in range(40)
    ]
    source = world.create(*(json.dumps(c) for c in changes))
    copied = world.create(hint="copy", partitions=2)
    sink = world.kafka(
        copied, format="debezium-json", sink_parallelism="2", sink_partitioner="fixed"
    )
    world.run(
        "SET 'parallelism.default' = '2';"
        f"{ORDERS}{world.kafka(source, format='debezium-json')}; {COPY}{sink};"
        "INSERT INTO copy SELECT * FROM orders"
    )
    written = [json.loads(r.value or b"") for r in world.records(copied)]
    told = [(w["op"], (w["before"] or w["after"])["id"]) for w in written]
    assert told == [(op, i) for i in range(40) for op in ("d", "c")]
    assert {r.partition for r in world.records(copied)} == {0}


def test_the_number_of_writers_is_what_was_asked(world: World) -> None:
    source, copied = world.create(*orders(range(1))), world.create(hint="copy")
    sink = world.kafka(copied, sink_parallelism="3")
    world.run(f"{ORDERS}{world.kafka(source)}; {COPY}{sink}; INSERT INTO copy SELECT * FROM orders")
    progress = Progress()
    progress.add(world.reports)
    assert progress.writers == {"copy": 3}


# -- buffered changes --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("max_rows", "written"), [(None, 9), (1000, 3), (2, 9)], ids=["off", "on", "small"]
)
def test_of_the_changes_of_a_key_the_last_is_written(
    world: World, max_rows: int | None, written: int
) -> None:
    source, totals = world.create(*orders(range(9))), world.create(hint="totals")
    options = {}
    if max_rows:
        options = {
            "sink_buffer__flush_max__rows": str(max_rows),
            "sink_buffer__flush_interval": "1 h",
        }
    script = (
        f"{ORDERS}{world.kafka(source)};"
        f"CREATE TABLE latest (customer STRING, id INT, PRIMARY KEY (customer) NOT ENFORCED)"
        f"{world.upsert(totals, **options)};"
        "INSERT INTO latest SELECT customer, id FROM orders"
    )
    world.run(script)
    assert len(world.values(totals)) == written
    assert {k: v["id"] for k, v in world.table(totals).items()} == {
        '{"customer":"a"}': 6,
        '{"customer":"b"}': 7,
        '{"customer":"c"}': 8,
    }


@pytest.mark.parametrize(("interval", "at_least"), [("1 ms", 2), ("1 h", 1)])
def test_changes_wait_for_the_interval(world: World, interval: str, at_least: int) -> None:
    """One key, and a batch that takes much longer than a millisecond."""
    changes = [{"id": i, "customer": "a", "amount": 1} for i in range(20_000)]
    source, latest = world.create(*changes), world.create(hint="latest")
    options = {
        "sink_buffer__flush_max__rows": "1000",
        "sink_buffer__flush_interval": interval,
    }
    world.run(
        f"{ORDERS}{world.kafka(source)};"
        f"CREATE TABLE latest (customer STRING, id INT, PRIMARY KEY (customer) NOT ENFORCED)"
        f"{world.upsert(latest, **options)};"
        "INSERT INTO latest SELECT customer, id FROM orders"
    )
    written = [row["id"] for row in world.values(latest)]
    assert at_least <= len(written) <= (1 if at_least == 1 else 19_999)
    assert written == sorted(set(written)) and written[-1] == 19_999


def test_buffered_changes_are_written_once_when_a_batch_runs_again(world: World) -> None:
    source, latest = world.create(*orders(range(9))), world.create(hint="latest")
    options = {
        "sink_buffer__flush_max__rows": "1000",
        "sink_buffer__flush_interval": "1 h",
        **ONCE,
    }
    script = (
        f"{ORDERS}{world.kafka(source)};"
        f"CREATE TABLE latest (customer STRING, id INT, PRIMARY KEY (customer) NOT ENFORCED)"
        f"{world.upsert(latest, **options)};"
        "INSERT INTO latest SELECT customer, id FROM orders"
    )
    world.run(script, keep=True)
    forget_last_commit(world)
    world.produce(source, *orders(range(9, 12)))
    world.run(script, keep=True)
    assert [row["id"] for row in world.values(latest)] == [6, 7, 8, 9, 10, 11]


def test_without_a_guarantee_the_end_of_the_input_is_flushed(world: World) -> None:
    """The client would keep the rows for a minute."""
    source, copied = world.create(*orders(range(9))), world.create(hint="copy")
    sink = world.kafka(copied, sink_delivery__guarantee="none", properties_linger_ms="60000")
    world.run(f"{ORDERS}{world.kafka(source)}; {COPY}{sink}; INSERT INTO copy SELECT * FROM orders")
    assert sorted(row["id"] for row in world.values(copied)) == list(range(9))


def test_changes_that_are_too_large_to_hold_do_not_wait(world: World) -> None:
    """45 keys, each twice, of which 32 MB are less than all."""
    changes = [{"id": i % 45, "customer": str(i)} for i in range(90)]
    source, latest = world.create(*changes), world.create(hint="latest")
    options = {"sink_buffer__flush_max__rows": "1000", "sink_buffer__flush_interval": "1 h"}
    world.run(
        f"{ORDERS}{world.kafka(source)};"
        "CREATE TABLE latest (id INT, customer STRING, padding STRING, PRIMARY KEY (id) NOT ENFORCED)"
        f"{world.upsert(latest, **options)};"
        "INSERT INTO latest SELECT id, customer, REPEAT('x', 900000) FROM orders"
    )
    assert len(world.values(latest)) > 45
    assert sorted(int(v["customer"]) for v in world.table(latest).values()) == list(range(45, 90))


# -- topics that are not there -----------------------------------------------------------------


def test_a_missing_topic_is_created_as_the_table_says(world: World) -> None:
    source, name = world.create(*orders(range(3))), world.topic("made")
    options = {
        "sink_create__topic_partitions": "3",
        "sink_create__topic_cleanup__policy": "compact",
    }
    script = (
        f"{ORDERS}{world.kafka(source)}; {TOTALS}{world.upsert(name, **options)};"
        "INSERT INTO totals SELECT customer, COUNT(*) FROM orders GROUP BY customer"
    )
    world.run(script)
    assert len(world.table(name)) == 3
    assert topics.partitions(world.broker.bootstrap)[name] == 3
    assert setting_of(world, name, "cleanup.policy") == "compact"


# What a table may leave to the broker.
SHAPES = {
    "replicas": {"sink_create__topic_replication__factor": "1"},
    "policy": {"sink_create__topic_cleanup__policy": "compact"},
    "both": {
        "sink_create__topic_replication__factor": "1",
        "sink_create__topic_cleanup__policy": "compact",
    },
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_missing_topic_may_leave_some_of_its_shape_to_the_broker(
    world: World, shape: str
) -> None:
    source, name = world.create(*orders(range(3))), world.topic("made")
    script = (
        f"{ORDERS}{world.kafka(source)}; {TOTALS}{world.upsert(name, **SHAPES[shape])};"
        "INSERT INTO totals SELECT customer, COUNT(*) FROM orders GROUP BY customer"
    )
    world.run(script)
    assert len(world.table(name)) == 3
    asked = SHAPES[shape].get("sink_create__topic_cleanup__policy", "delete")
    assert setting_of(world, name, "cleanup.policy") == asked


def setting_of(world: World, topic: str, name: str) -> str:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": world.broker.bootstrap})
    described = admin.describe_configs([resource])[resource].result(30)
    return str(described[name].value)


def test_a_broker_that_creates_no_topics_is_told_with_the_command(
    world: World, tmp_path: Path
) -> None:
    strict = start(tmp_path / "strict", 0, settings={"auto.create.topics.enable": "false"})
    try:
        sink = world.kafka("nowhere", properties_bootstrap_servers=strict.bootstrap)
        with pytest.raises(JobError) as refused:
            world.run(f"{COPY}{sink}; INSERT INTO copy VALUES (1, 'a')")
        (found,) = refused.value.diagnostics
        assert found.code == "RUN-002"
        assert "the broker does not create topics by itself" in found.message
        command = f"tidemill topic create nowhere --bootstrap {strict.bootstrap}"
        assert command in (found.hint or "")
        assert not topics.exists(strict.bootstrap, "nowhere")
        topics.create(strict.bootstrap, "nowhere")
        world.run(f"{COPY}{sink}; INSERT INTO copy VALUES (1, 'a')")
        assert [r.value for r in consume(strict.bootstrap, "nowhere")] == [
            b'{"id":1,"customer":"a"}'
        ]
    finally:
        strict.stop()


def test_a_missing_topic_that_nobody_creates_is_named_with_the_command(world: World) -> None:
    source, name = world.create(*orders(range(3))), world.topic("nowhere")
    sink = world.kafka(name, properties_allow_auto_create_topics="false")
    with pytest.raises(JobError) as refused:
        world.run(
            f"{ORDERS}{world.kafka(source)}; {COPY}{sink}; INSERT INTO copy SELECT * FROM orders"
        )
    assert refused.value.diagnostics[0].code == "RUN-002"
    assert f"tidemill topic create {name} --bootstrap {world.broker.bootstrap}" in str(
        refused.value
    )


@pytest.mark.parametrize("options", [{}, SHAPES["replicas"]], ids=["broker", "table"])
def test_a_python_class_places_records_of_a_topic_that_was_not_there(
    world: World, tmp_path: Path, options: dict[str, str]
) -> None:
    (tmp_path / "last_of_all.py").write_text(
        "class Last:\n"
        "    def partition(self, row, key, value, topic, partitions):\n"
        "        return partitions[-1]\n"
    )
    source, name = world.create(*orders(range(3))), world.topic("made")
    sink = world.kafka(name, sink_partitioner="last_of_all:Last", **options)
    world.python_files.append(tmp_path)
    world.run(f"{ORDERS}{world.kafka(source)}; {COPY}{sink};INSERT INTO copy SELECT * FROM orders")
    last = topics.partitions(world.broker.bootstrap)[name] - 1
    assert [r.partition for r in world.records(name)] == [last] * 3


def test_a_python_class_places_records(world: World, tmp_path: Path) -> None:
    (tmp_path / "places_of_orders.py").write_text(
        "class Odd:\n"
        "    def partition(self, row, key, value, topic, partitions):\n"
        "        return partitions[row['id'] % 2]\n"
    )
    source, copied = world.create(*orders(range(20))), world.create(hint="copy", partitions=3)
    sink = world.kafka(copied, sink_partitioner="places_of_orders:Odd")
    world.python_files.append(tmp_path)
    world.run(f"{ORDERS}{world.kafka(source)}; {COPY}{sink};INSERT INTO copy SELECT * FROM orders")
    placed = {json.loads(r.value or b"")["id"]: r.partition for r in world.records(copied)}
    assert placed == {n: n % 2 for n in range(20)}


# -- memory ------------------------------------------------------------------------------------


def open_producers(world: World, job: str) -> int:
    """How many producers of a job wait for rows in this JVM."""
    loader = java_class(world.spark, "java.lang.Thread").currentThread().getContextClassLoader()
    found = 0
    for pool, field in (("Producers", "OPEN"), ("Transactions", "IDLE")):
        kept = loader.loadClass(f"io.tidemill.kafka.{pool}").getDeclaredField(field)
        kept.setAccessible(True)
        found += sum(job in key.toString() for key in kept.get(None))
    return found


@pytest.mark.parametrize("is_stopped", [True, False], ids=["stopped", "at its end"])
@pytest.mark.parametrize("options", [{}, ONCE], ids=["at-least-once", "exactly-once"])
def test_a_job_that_has_ended_gives_its_producers_back(
    world: World, options: dict[str, str], is_stopped: bool
) -> None:
    """Each may hold 64 MB of the heap, and a session may run many jobs."""
    source, copied = world.create(*orders(range(3))), world.create(hint="copy")
    script = (
        f"{ORDERS}{world.kafka(source)}; {COPY}{world.kafka(copied, **options)};"
        "INSERT INTO copy SELECT * FROM orders;"
    )
    with Session(world.spark, checkpoint=world.checkpoint, bounded=not is_stopped) as session:
        [job] = session.execute(script)
        wait_for(lambda: len(world.values(copied)) == 3)
        if is_stopped:
            wait_for(lambda: open_producers(world, job.id) > 0)
            job.stop()
        else:
            assert job.wait(60)
        wait_for(lambda: open_producers(world, job.id) == 0)

"""The tables of Oceanus, Blink and DLI on the wire: records in, bytes out."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from world import World

from harness.kafka import consume
from harness.manuals import BLINK_PARAMETERS, DLI_RECORDS, vendor
from harness.old_broker import running as old_broker
from test_examples import EXAMPLES
from tidemill import Session
from tidemill.broker import topics
from tidemill.broker.records import Record
from tidemill.errors import JobError, ScriptError, Source
from tidemill.spark.java import java_class
from tidemill.sql.ast import CreateTable
from tidemill.sql.dialects import BLINK
from tidemill.tables.modern import read_modern
from tidemill.tables.translation import translate

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def pairs(records: list[Record]) -> list[tuple[bytes | None, bytes | None]]:
    return [(r.key, r.value) for r in records]


def blink(world: World, name: str, **topics_: str) -> str:
    """An example of Blink's over topics of the test."""
    text = (EXAMPLES / "blink" / f"{name}.sql").read_text(encoding="utf-8")
    for old, new in topics_.items():
        text = text.replace(f"topic = '{old}'", f"topic = '{new}'")
    return text.replace("localhost:9092", world.broker.bootstrap)


def follow(
    world: World,
    script: str,
    given: dict[str, list[Record]],
    seen: Callable[[], bool],
    **settings: bool,
) -> None:
    """Run a script that reads what comes after its start, and write when it is ready."""
    with Session(world.spark, checkpoint=world.checkpoint, **settings) as session:  # type: ignore[arg-type]
        jobs = [job for job in session.execute(script) if not isinstance(job, str)]
        session.wait_ready(jobs)
        for topic, records in given.items():
            topics.write(world.broker.bootstrap, topic, records)
        end = time.monotonic() + 60
        while not seen() and time.monotonic() < end:
            assert all(job.is_active for job in jobs), [job.failure() for job in jobs]
            time.sleep(0.2)
    assert seen()


# --- Blink ---------------------------------------------------------------------------------------

IN = [
    Record("李雷".encode(), b"1"),
    Record(b"Ada", b"2"),
    Record(b"nobody's", None),
    Record(None, b"2"),
    Record(b"", b""),
]


def test_the_result_table_writes_utf8_bytes_tombstones_and_records_without_a_key(world: World) -> None:  # fmt: skip
    source, target = world.create(*IN), world.create(hint="out")
    world.run(blink(world, "result_table", names=source, names_by_id=target))
    assert pairs(world.records(target)) == pairs(IN)


def test_a_translation_writes_what_the_original_writes(world: World) -> None:
    source, out, translated = world.create(*IN), world.create(hint="a"), world.create(hint="b")
    script = blink(world, "result_table", names=source, names_by_id=out)
    world.run(script)
    other = script.replace(f"topic = '{out}'", f"topic = '{translated}'")
    today = translate(Source("blink.sql", other), BLINK).text
    assert "'connector' = 'upsert-kafka'" in today
    world.run(today)
    assert pairs(world.records(translated)) == pairs(world.records(out)) == pairs(IN)


def test_the_example_as_printed_runs_where_its_source_is_a_kafka_table(world: World) -> None:
    """`datahub_input` is any table with its two columns; all else is the manual's, placeholders filled."""
    target = world.create(hint="out")
    source = world.create({"id": "ключ", "nm": "значение"}, {"id": None, "nm": "x"}, {"id": "k"})
    script = vendor("blink: the example").replace("<yourTopicName>", target)
    script = script.replace("<yourServerAddress>", world.broker.bootstrap)
    options = world.kafka(source).removeprefix("WITH (").removesuffix(")")
    world.run(script.replace("type = 'datahub'", options))
    assert pairs(world.records(target)) == [
        ("ключ".encode(), "значение".encode()),
        (None, b"x"),
        (b"k", None),
    ]


def test_the_source_table_has_key_message_topic_partition_and_offset(world: World) -> None:
    topic = world.create(hint="in", partitions=2)
    records = [Record(b"v0", b"k0", partition=0), Record(None, None, partition=1)]
    topics.write(world.broker.bootstrap, topic, [*records, Record(b"v1", None, partition=1)])
    world.run(f"""
    create table src (messageKey VARBINARY, `message` VARBINARY, topic VARCHAR, `partition` INT, `offset` BIGINT)
    with (type = 'Kafka09', topic = '{topic}', bootstrap.servers = '{world.broker.bootstrap}',
      startupMode = 'EARLIEST');
    select cast(messageKey as VARCHAR), cast(`message` as VARCHAR), topic, `partition`, `offset` from src;
    """)
    assert sorted((list(row.values()) for _, row in world.rows), key=str) == sorted(
        [["k0", "v0", topic, 0, 0], [None, None, topic, 1, 0], [None, "v1", topic, 1, 1]], key=str
    )


def test_changes_of_a_null_key_are_records_without_one(world: World) -> None:
    """A group of NULL counts up, and a row that goes is a record with neither key nor value."""
    source = world.create({"k": "a"}, {"k": None}, {"k": None})
    target = world.create(hint="out")
    world.run(f"""
    create table src (k VARCHAR) {world.kafka(source, scan_max__rows__per__batch="1")};
    create table dst (messageKey VARBINARY, `message` VARBINARY, PRIMARY KEY (messageKey))
    with (type = 'kafka011', topic = '{target}', bootstrap.servers = '{world.broker.bootstrap}');
    insert into dst
    select cast(k as VARBINARY), cast(cast(n as VARCHAR) as VARBINARY)
    from (select k, count(*) as n from src group by k) where k is not null or n < 2;
    """)
    assert sorted(pairs(world.records(target)), key=str) == sorted(
        [(b"a", b"1"), (None, b"1"), (None, None)], key=str
    )


def test_flinks_table_goes_on_refusing_a_null_key(world: World) -> None:
    target = world.create(hint="out")
    script = f"""
    CREATE TABLE dst (k STRING, v STRING, PRIMARY KEY (k) NOT ENFORCED)
      {world.upsert(target, key_format="raw", value_fields__include="EXCEPT_KEY")};
    INSERT INTO dst SELECT CAST(NULL AS STRING), 'x';
    """
    with pytest.raises(JobError, match="is NOT NULL"):
        world.run(script)


def test_a_compacted_topic_that_refuses_a_record_without_a_key_is_told(world: World) -> None:
    target = world.topic("compacted")
    topics.create(world.broker.bootstrap, target, 1, {"cleanup.policy": "compact"})
    with pytest.raises(JobError) as caught:
        world.run(blink(world, "result_table", names=world.create(*IN), names_by_id=target))
    (found,) = caught.value.diagnostics
    assert found.code == "RUN-006"
    assert found.hint == "a compacted topic takes no record without a key", found.message


def client_names(world: World) -> set[str]:
    """Every parameter that Kafka's client knows."""
    return {
        name
        for client in ("consumer.Consumer", "producer.Producer")
        for name in java_class(
            world.spark, f"org.apache.kafka.clients.{client}Config"
        ).configNames()
    }


@pytest.mark.parametrize("spelt", [str, str.upper], ids=["as it is", "upper"])
def test_every_parameter_of_the_client_is_passed_on(
    world: World, spelt: Callable[[str], str]
) -> None:
    names = client_names(world)
    assert len(names) > 100
    options = ", ".join(f"{spelt(name)} = 'x'" for name in sorted(names))
    script = f"create table t (message VARBINARY) with (type = 'kafka010', topic = 't', {options});"
    (table,) = read_modern([Source("s.sql", script)], dialect=BLINK).script.statements
    assert isinstance(table, CreateTable)
    passed = {o.key: o.value for o in table.options if o.key.startswith("properties.")}
    assert passed == {f"properties.{name}": "x" for name in names}


def test_a_result_table_with_every_parameter_of_the_manual_is_written(world: World) -> None:
    target = world.create(hint="out")
    words = {
        "auto.offset.reset": "smallest",
        "client.id": "c",
        "exclude.internal.topics": "true",
        "offsets.storage": "zookeeper",
        "partition.assignment.strategy": "range",
    }
    given = ", ".join(f"{name} = '{words.get(name, '65536')}'" for name in BLINK_PARAMETERS)
    world.run(f"""
    create table dst (messageKey VARBINARY, `message` VARBINARY, PRIMARY KEY (messageKey))
    with (type = 'kafka08', topic = '{target}', bootstrap.servers = '{world.broker.bootstrap}', {given});
    insert into dst select cast('k' as VARBINARY), cast('v' as VARBINARY);
    """)
    assert pairs(world.records(target)) == [(b"k", b"v")]


def test_every_parameter_that_is_passed_on_is_one_of_the_clients(world: World) -> None:
    names = client_names(world)
    passed = set()
    for name in BLINK_PARAMETERS:
        options = f"type = 'kafka08', topic = 't', bootstrap.servers = 'b:1', {name} = '1'"
        script = f"create table t (message VARBINARY) with ({options});"
        text = translate(Source("s.sql", script), BLINK, comment_notes=False).text
        passed |= set(re.findall(r"'properties\.([^']+)'", text)) - {"bootstrap.servers"}
    assert passed and passed <= names
    # What is left out is not the client's.
    left_out = {n for n in BLINK_PARAMETERS if n not in passed}
    assert not left_out & names


# --- brokers that are too old --------------------------------------------------------------------

TOO_OLD = "is too old: the client of Kafka 3.9 reaches brokers from 0.11.0 on"
OLD_SOURCE = """
create table src (messageKey VARBINARY, `message` VARBINARY)
with (type = 'kafka09', topic = 'old', bootstrap.servers = '{address}', startupMode = 'EARLIEST');
select cast(`message` as VARCHAR) from src;
"""
OLD_SINK = """
create table dst (messageKey VARBINARY, `message` VARBINARY, PRIMARY KEY (messageKey))
with (type = 'kafka010', topic = 'old', bootstrap.servers = '{address}');
insert into dst select cast('a' as VARBINARY), cast('b' as VARBINARY);
"""


@pytest.mark.parametrize("script", [OLD_SOURCE, OLD_SINK], ids=["source", "sink"])
@pytest.mark.parametrize("release", ["0.9", "0.10.2"])
def test_a_broker_that_is_too_old_is_told(world: World, release: str, script: str) -> None:
    with old_broker(release, "old") as address:
        began = time.monotonic()
        with pytest.raises(JobError) as caught:
            world.run(script.format(address=address))
        assert time.monotonic() - began < 15
    (found,) = caught.value.diagnostics
    assert found.code == "RUN-019"
    assert f"the broker at {address} {TOO_OLD}" in found.message


@pytest.mark.parametrize("script", [OLD_SOURCE, OLD_SINK], ids=["source", "sink"])
def test_a_broker_of_0_11_is_reached(world: World, script: str) -> None:
    with old_broker("0.11.0", "old") as address:
        world.run(script.format(address=address))


def test_a_server_that_is_no_broker_is_not_called_too_old(world: World) -> None:
    """It hangs up at everything, as a web server does at what it does not know."""
    with old_broker("no Kafka", "old") as address, pytest.raises(JobError) as caught:
        world.run(OLD_SOURCE.format(address=address))
    assert caught.value.diagnostics[0].code == "RUN-001"


def test_the_sentence_is_that_of_the_documents() -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "dialects.md").read_text("utf-8")
    said = TOO_OLD.removeprefix("is too old: the ")
    assert said in " ".join(page.split())


# --- Oceanus and DLI -----------------------------------------------------------------------------


def test_the_example_of_oceanus_runs_unchanged_but_for_its_addresses(world: World) -> None:
    broker = world.broker.bootstrap
    script = vendor("oceanus: the example").replace("172.28.28.13:9092", broker)
    script = script.replace("'...'", f"'{broker}'")
    for name in ("Data-Input", "topic"):
        topics.ensure(broker, name)
    given = [
        Record('{"id": 1, "name": "李雷"}'.encode()),
        Record(b'{"id": 2}'),
        Record(b"no document"),
        Record(b'{"id": 1, "name": "Lei"}'),
    ]
    expected = [
        (b'{"id":1}', '{"id":1,"name":"李雷"}'.encode()),
        (b'{"id":2}', b'{"id":2,"name":null}'),
        (b'{"id":1}', b'{"id":1,"name":"Lei"}'),
    ]
    follow(
        world,
        script,
        {"Data-Input": given},
        lambda: pairs(consume(broker, "topic")) == expected,
    )


def dli(world: World, source: str, target: str) -> str:
    script = vendor("dli: the example").replace("GroupId", world.topic("group"))
    script = script.replace(
        "KafkaAddress1:KafkaPort,KafkAddress2:KafkaPort", world.broker.bootstrap
    )
    script = script.replace("'topic' = 'KafkaTopic'", f"'topic' = '{source}'", 1)
    return script.replace("'topic' = 'KafkaTopic'", f"'topic' = '{target}'", 1)


def test_the_orders_of_dli_come_out_as_three_records_with_numbers_as_numbers(world: World) -> None:
    source, target = world.create(hint="in"), world.create(hint="out")
    orders = [json.loads(line) for line in DLI_RECORDS]
    for order in orders:
        # The manual writes and shows texts; a DOUBLE is written as a number, by Flink too.
        order.update({name: float(order[name]) for name in ("pay_amount", "real_pay")})
    expected = [
        (
            json.dumps({"order_id": order["order_id"]}, separators=(",", ":")).encode(),
            json.dumps(order, separators=(",", ":")).encode(),
        )
        for order in orders
    ]
    follow(
        world,
        dli(world, source, target),
        {source: [Record(line.encode()) for line in DLI_RECORDS]},
        lambda: pairs(consume(world.broker.bootstrap, target)) == expected,
    )
    assert [type(json.loads(v)["pay_amount"]) for _, v in expected] == [float] * 3


def test_the_example_of_dli_as_printed_runs_where_a_loop_is_allowed(world: World) -> None:
    topic = world.create()
    script = dli(world, topic, topic)
    with pytest.raises(ScriptError) as caught:
        follow(world, script, {}, lambda: True)
    assert [d.code for d in caught.value.diagnostics] == ["PLAN-093"]
    follow(
        world,
        script,
        {topic: [Record(DLI_RECORDS[0].encode())]},
        # What it has written comes back, as often as it is let.
        lambda: len(consume(world.broker.bootstrap, topic)) > 3,
        allow_loop=True,
    )

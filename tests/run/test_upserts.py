"""An upsert-kafka table as a source: upserts and deletes out of its records, and changes that are read as inserts.

Every script runs twice, decoded by the kernel and by Python.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from typing import Any

import fastavro
import pytest
from world import World

from tidemill.broker.records import Record
from tidemill.changelog import KIND_COLUMN
from tidemill.errors import JobError, Source
from tidemill.plan import nodes
from tidemill.plan.environment import Environment, Job, compile_script
from tidemill.spark import source
from tidemill.spark.lower import Lowering
from tidemill.spark.operators import Tally
from tidemill.spark.reads import reads_of
from tidemill.spark.source import ORDER_COLUMN, ORIGIN_COLUMN
from tidemill.sql import parse_script

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

KEY = "PRIMARY KEY (id) NOT ENFORCED"
COLUMNS = f"id INT, name STRING, {KEY}"


@pytest.fixture(params=["kernel", "python"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "python":
        monkeypatch.setattr(source, "straight_way", lambda *_: None)
    return str(request.param)


def json_of(value: Any) -> bytes:
    return json.dumps(value).encode()


def upsert(id_: int | None, name: str | None = None, partition: int | None = None) -> Record:
    """A record whose value has the key's column too; without a name it is a delete."""
    key = None if id_ is None else json_of({"id": id_})
    value = None if name is None else json_of({"id": id_, "name": name})
    return Record(value, key, partition=partition)


def python_records(world: World) -> int:
    return max(int(report["sources"][0]["metrics"]["inPython"]) for report in world.reports)


def written(world: World, topic: str) -> list[tuple[Any, Any]]:
    return [
        (json.loads(r.key), None if r.value is None else json.loads(r.value))
        for r in world.records(topic)
    ]


def test_upserts_and_deletes_go_on_by_their_key(world: World, way: str) -> None:
    topic = world.create(upsert(1, "ann"), upsert(2, "bob"), upsert(1), upsert(3), upsert(2, "bea"))
    target = world.create()
    world.run(
        f"""CREATE TABLE src ({COLUMNS}) {world.upsert(topic)};
            CREATE TABLE dst (who STRING, id INT, {KEY}) {world.upsert(target)};
            INSERT INTO dst SELECT UPPER(name), id FROM src WHERE id < 3"""
    )
    assert written(world, target) == [
        ({"id": 1}, {"who": "ANN", "id": 1}),
        ({"id": 2}, {"who": "BOB", "id": 2}),
        ({"id": 1}, None),
        ({"id": 2}, {"who": "BEA", "id": 2}),
    ]
    assert not world.losses
    if way == "kernel":
        assert python_records(world) == 0


def avro_of(**values: Any) -> bytes:
    out = io.BytesIO()
    types = {int: "int", str: ["null", "string"], type(None): ["null", "string"]}
    fields = [{"name": name, "type": types[type(value)]} for name, value in values.items()]
    fastavro.schemaless_writer(out, {"type": "record", "name": "r", "fields": fields}, values)
    return out.getvalue()


# Format: how it writes a key and a value.
FORMATS: dict[str, tuple[Callable[[int], bytes], Callable[[str | None], bytes]]] = {
    "json": (lambda k: json_of({"id": k}), lambda name: json_of({"name": name})),
    "csv": (lambda k: str(k).encode(), lambda name: (name or "none").encode()),
    "avro": (lambda k: avro_of(id=k), lambda name: avro_of(name=name)),
}


@pytest.mark.parametrize("format_", FORMATS)
def test_keys_and_values_of_every_format(world: World, way: str, format_: str) -> None:
    """With a prefix for the key's column, which is not in the value."""
    key, value = FORMATS[format_]
    topic = world.create(
        Record(value("ann"), key(1)),
        Record(value(None), key(2)),
        Record(None, key(1)),
        Record(value("bob"), None),
    )
    options = {
        "key.format": format_,
        "value.format": format_,
        "value.fields-include": "EXCEPT_KEY",
        "key.fields-prefix": "k_",
        "scan.as-append": "true",
    }
    if format_ == "csv":
        options["value.csv.null-literal"] = "none"
    given = {name.replace("-", "__").replace(".", "_"): text for name, text in options.items()}
    world.run(
        f"""CREATE TABLE src (
              name STRING, row_kind STRING METADATA VIRTUAL, k_id INT, `offset` BIGINT METADATA VIRTUAL,
              PRIMARY KEY (k_id) NOT ENFORCED
            ) {world.upsert(topic, **given)};
            SELECT * FROM src"""
    )
    assert [(kind, *row.values()) for kind, row in world.rows] == [
        ("+I", "ann", "+U", 1, 0),
        ("+I", None, "+U", 2, 1),
        ("+I", None, "-D", 1, 2),
    ]
    assert world.losses == {"src: null value as key": 1}


def test_a_delete_has_the_metadata_of_its_record(world: World, way: str) -> None:
    topic = world.create(
        Record(json_of({"id": 1, "name": "ann"}), json_of({"id": 1}), timestamp_ms=1_000),
        Record(None, json_of({"id": 1}), timestamp_ms=2_000),
    )
    world.run(
        f"""CREATE TABLE src (
              id INT, name STRING, ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,
              kind CHAR(2) METADATA FROM 'row_kind' VIRTUAL, {KEY}
            ) {world.upsert(topic, scan_as__append="true")};
            SELECT kind, id, name, CAST(ts AS STRING) AS ts FROM src""",
        table_local__time__zone="UTC",
    )
    assert [list(row.values()) for _, row in world.rows] == [
        ["+U", 1, "ann", "1970-01-01 00:00:01.000"],
        ["-D", 1, None, "1970-01-01 00:00:02.000"],
    ]


def test_a_change_as_an_insert_needs_neither_its_kind_nor_its_key(world: World, way: str) -> None:
    topic = world.create(upsert(1, "ann"), upsert(1), upsert(1, "bob"))
    table = f"CREATE TABLE src (id INT, name STRING NOT NULL, {KEY})"
    world.run(f"{table} {world.upsert(topic, scan_as__append='true')}; SELECT name FROM src")
    assert world.rows == [("+I", {"name": "ann"}), ("+I", {"name": None}), ("+I", {"name": "bob"})]


def test_changes_of_a_database_are_read_as_inserts(world: World, way: str) -> None:
    ann, bob = {"id": 1, "name": "ann"}, {"id": 1, "name": "bob"}
    topic = world.create(
        {"op": "c", "before": None, "after": ann},
        {"op": "u", "before": ann, "after": bob},
        {"op": "d", "before": bob, "after": None},
    )
    audit, counted = world.create(), world.create()
    world.run(
        f"""CREATE TABLE src (id INT, name STRING, kind STRING METADATA FROM 'row_kind' VIRTUAL, {KEY})
              {world.kafka(topic, format="debezium-json", scan_as__append="true")};
            CREATE TABLE audit (what STRING, name STRING) {world.kafka(audit)};
            CREATE TABLE counted (what STRING, n BIGINT, PRIMARY KEY (what) NOT ENFORCED) {world.upsert(counted)};
            EXECUTE STATEMENT SET BEGIN
              INSERT INTO audit SELECT kind, name FROM src;
              INSERT INTO counted SELECT SUBSTRING(kind, 1, 1), COUNT(*) FROM src GROUP BY SUBSTRING(kind, 1, 1);
            END"""
    )
    assert [(r["what"], r["name"]) for r in world.values(audit)] == [
        ("+I", "ann"),
        ("-U", "ann"),
        ("+U", "bob"),
        ("-D", "bob"),
    ]
    assert {r["what"]: r["n"] for r in world.values(counted)} == {"+": 2, "-": 2}


def test_what_cannot_be_read_deletes_nothing(world: World, way: str) -> None:
    topic = world.create(
        upsert(1, "ann"),
        Record(b'{"id": 1, "name": "bo', json_of({"id": 1})),
        Record(None, b'{"id": "x'),
        Record(None, None),
        upsert(2),
    )
    target = world.create()
    script = f"""
        CREATE TABLE src ({COLUMNS}) {{}};
        CREATE TABLE dst ({COLUMNS}) {world.upsert(target)};
        INSERT INTO dst SELECT * FROM src"""
    lenient = {
        "value_json_ignore__parse__errors": "true",
        "key_json_ignore__parse__errors": "true",
    }
    world.run(script.format(world.upsert(topic, **lenient)))
    expected = [({"id": 1}, {"id": 1, "name": "ann"}), ({"id": 2}, None)]
    assert written(world, target) == expected
    assert world.losses == {
        "src: unreadable document": 1,
        "src: unreadable document as key": 1,
        "src: null value as key": 1,
    }
    with pytest.raises(JobError, match="a record's value cannot be read .* offset 1"):
        world.run(script.format(world.upsert(topic)))


# Keys and values that the kernel reads, that only Python can read, and that nobody can.
KEYS = [b'{"id": 1}', b'{"id": "3"}', b'[{"id": 4}, {"id": 5}]', b"[]", b"{", b"", None]
VALUES = [b'{"id": 1, "name": "ann"}', b'{"name": "bob"}', b'{"id": "7", "name": 8}', b"{}", b"[]"]
VALUES += [b'[{"id": 1}, {"id": 2}]', b'{"id": 1, "name": "b', b'{"id": []}', b"null", b"", None]


def test_both_ways_give_the_same_rows_and_losses(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(7)
    plain = [upsert(i, None if i % 3 else f"n{i}") for i in range(9_000)]
    odd = [Record(chance.choice(VALUES), chance.choice(KEYS)) for _ in range(2_000)]
    topic = world.create(*plain, *odd, *plain[:3_000], *odd[:5])
    lenient = ("value_json_ignore__parse__errors", "key_json_ignore__parse__errors")
    options = {**dict.fromkeys(lenient, "true"), "scan_as__append": "true"}
    script = f"""
        CREATE TABLE src (id INT, name STRING, kind STRING METADATA FROM 'row_kind' VIRTUAL, {KEY})
          {world.upsert(topic, **options)};
        CREATE TABLE dst (id INT, name STRING, kind STRING) {{}};
        INSERT INTO dst SELECT id, name, kind FROM src"""
    found = []
    for _ in "ab":
        target = world.create()
        world.losses.clear()
        world.run(script.format(world.kafka(target)))
        found.append((world.values(target), dict(world.losses)))
        monkeypatch.setattr(source, "straight_way", lambda *_: None)
    assert found[0] == found[1]
    rows, losses = found[0]
    assert len(rows) > 12_500 and len(losses) == 5
    assert {row["kind"] for row in rows} == {"+U", "-D"}


def test_a_delete_is_written_though_columns_are_not_null(world: World) -> None:
    """Avro writes no NULL where none may be, and a record without a value holds none."""
    topic = world.create(upsert(1, "ann"), upsert(1))
    target = world.create()
    avro = world.upsert(target, key_format="avro", value_format="avro")
    columns = f"id INT, name STRING NOT NULL, {KEY}"
    world.run(
        f"""CREATE TABLE src ({columns}) {world.upsert(topic)};
            CREATE TABLE dst ({columns}) {avro};
            INSERT INTO dst SELECT * FROM src"""
    )
    first, last = world.records(target)
    assert (first.key, first.value, last.key, last.value) == (
        b"\x02",
        b"\x02\x06ann",
        b"\x02",
        None,
    )


# --- where rows come from --------------------------------------------------------------------------


def lowered(world: World, script: str) -> list[Any]:
    """What each ChangelogNormalize of a script has beneath it, and then all else that is scanned, as DataFrames."""
    environment = Environment({})
    answers = compile_script(parse_script(Source("<test>", script), {}), environment)
    (job,) = (answer for answer in answers if isinstance(answer, Job))
    lowering = Lowering(
        world.spark,
        job.modes[0],
        1000,
        lambda table: lambda name, number: None,
        Tally(world.spark),
        reads_of(job.roots),
    )
    frames = []
    for root in job.roots:
        found = [n for n in nodes.walk(root) if isinstance(n, nodes.ChangelogNormalize)]
        frames += [lowering._in_order(n.input) for n in found] or [lowering.lower(root.input)]
    return frames


def collected(world: World, frame: Any) -> list[dict[str, Any]]:
    name = "rows_of_a_test"
    query = (
        frame.writeStream.format("memory")
        .queryName(name)
        .option("checkpointLocation", str(world.checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [row.asDict() for row in world.spark.table(name).collect()]


def test_rows_tell_where_they_come_from(world: World, way: str) -> None:
    topic = world.create(
        *(upsert(i, f"n{i}", partition=i % 2) for i in range(6)),
        upsert(3, partition=1),
        partitions=2,
    )
    script = f"""
        CREATE TABLE src (id INT, name STRING, twice AS id * 2, {KEY})
          {world.upsert(topic, scan_bounded_mode="latest-offset")};
        SELECT twice, name FROM src WHERE id > 1"""
    (frame,) = lowered(world, script)
    assert frame.columns[-3:] == [KIND_COLUMN, ORIGIN_COLUMN, ORDER_COLUMN]
    rows = [tuple(row.values())[1:] for row in collected(world, frame)]
    assert sorted(rows, key=lambda row: row[3:]) == [
        ("n2", 4, 2, 0, 1),
        ("n4", 8, 2, 0, 2),
        ("n3", 6, 2, 1, 1),
        ("n5", 10, 2, 1, 2),
        (None, 6, 3, 1, 3),
    ]


def test_partitions_of_several_topics_are_told_apart(world: World, way: str) -> None:
    one, other = (
        world.create(upsert(1, "ann", 0), upsert(2, "bob", 1), partitions=2) for _ in "ab"
    )
    script = f"""
        CREATE TABLE src ({COLUMNS}) {world.upsert(f"{one};{other}", scan_bounded_mode="latest-offset")};
        SELECT * FROM src"""
    (frame,) = lowered(world, script)
    rows = collected(world, frame)
    assert len({row[ORIGIN_COLUMN] for row in rows}) == len(rows) == 4
    assert {row[ORDER_COLUMN] for row in rows} == {0}


def test_only_who_puts_changes_in_order_is_told(world: World) -> None:
    """Of two queries over one table, one of which hands upserts on as they are."""
    topic, same, other = world.create(upsert(1, "ann"), upsert(1)), world.create(), world.create()
    script = f"""
        CREATE TABLE src ({COLUMNS}) {world.upsert(topic, scan_bounded_mode="latest-offset")};
        CREATE TABLE same ({COLUMNS}) {world.upsert(same)};
        CREATE TABLE other (name STRING) {world.kafka(other, format="debezium-json")};
        EXECUTE STATEMENT SET BEGIN
          INSERT INTO same SELECT * FROM src;
          INSERT INTO other SELECT name FROM src;
        END"""
    as_it_is, in_order = lowered(world, script)
    assert as_it_is.columns == ["c0", "c1", KIND_COLUMN]
    assert in_order.columns == ["c0", "c1", KIND_COLUMN, ORIGIN_COLUMN, ORDER_COLUMN]
    rows = [tuple(row.values()) for row in collected(world, in_order)]
    assert rows == [(1, "ann", 2, 0, 0), (1, None, 3, 0, 1)]


def test_changes_that_may_come_twice_tell_where_they_come_from(world: World, way: str) -> None:
    ann, bob = {"id": 1, "name": "ann"}, {"id": 1, "name": "bob"}
    topic = world.create(
        {"op": "c", "before": None, "after": ann},
        {"op": "u", "before": ann, "after": bob},
        {"op": "d", "before": bob, "after": None},
    )
    options = {"format": "debezium-json", "scan_bounded_mode": "latest-offset"}
    (frame,) = lowered(
        world,
        f"""SET 'table.exec.source.cdc-events-duplicate' = 'true';
            CREATE TABLE src ({COLUMNS}) {world.kafka(topic, **options)};
            SELECT * FROM src""",
    )
    rows = [tuple(row.values()) for row in collected(world, frame)]
    assert rows == [(1, "ann", 0, 0, 0), (1, "bob", 2, 0, 1), (1, "bob", 3, 0, 2)]

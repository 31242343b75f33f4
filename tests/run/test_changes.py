"""Changes of a database on their way through a job: kinds, metadata, losses, messages."""

from __future__ import annotations

from typing import Any

import pytest
from world import World

from tidemill import Session
from tidemill.errors import JobError

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

ANN, BOB = {"id": 1, "name": "ann"}, {"id": 1, "name": "bob"}


def debezium(op: str, before: Any = None, after: Any = None) -> dict[str, Any]:
    return {"before": before, "after": after, "op": op, "source": {"table": "people"}}


def test_cdc_rows_keep_their_kinds_and_metadata(world: World) -> None:
    source = world.create(
        debezium("c", after=ANN), debezium("u", ANN, BOB), {"value": None}, debezium("d", BOB)
    )
    world.run(
        f"""CREATE TABLE people (id INT, name STRING, origin STRING METADATA FROM 'value.source.table' VIRTUAL)
            {world.kafka(source, format="debezium-json")};
            SELECT name, origin FROM people"""
    )
    assert [(kind, row["name"]) for kind, row in world.rows] == [
        ("+I", "ann"),
        ("-U", "ann"),
        ("+U", "bob"),
        ("-D", "bob"),
    ]
    assert {row["origin"] for _, row in world.rows} == {"people"}
    assert world.losses == {"people: null value": 1}


def test_cdc_events_without_rows_are_counted(world: World) -> None:
    ddl = {"type": "CREATE", "data": None, "database": "d", "table": "t"}
    other = {"type": "INSERT", "data": [ANN], "database": "d", "table": "other"}
    source = world.create(ddl, other, {**other, "table": "t"})
    options = {"format": "canal-json", "canal-json.table.include": "t"}
    world.run(f"CREATE TABLE t (id INT) {world.kafka(source, **options)}; SELECT * FROM t")
    assert world.rows == [("+I", {"id": 1})]
    assert world.losses == {"t: DDL event": 1, "t: record of another table": 1}


def test_cdc_update_without_the_row_before_says_what_to_do(world: World) -> None:
    source = world.create(debezium("c", after=ANN), debezium("u", None, BOB))
    with pytest.raises(JobError) as raised:
        world.run(
            f"CREATE TABLE t (id INT) {world.kafka(source, format='debezium-json')}; SELECT * FROM t"
        )
    found = raised.value.diagnostics[0]
    assert found.code == "RUN-010"
    assert f"topic '{source}', partition 0, offset 1, field 'before'" in found.message
    assert "REPLICA IDENTITY FULL" in found.message
    assert "'debezium-json.ignore-parse-errors' = 'true'" in (found.hint or "")


def test_cdc_table_is_a_dataframe_with_kinds(world: World) -> None:
    source = world.create(debezium("u", ANN, BOB))
    with Session(world.spark, bounded=True) as session:
        session.execute(f"CREATE TABLE t (id INT) {world.kafka(source, format='debezium-json')}")
        frame = session.table("t")
        assert frame.columns == ["id", "_kind"]


def test_cdc_changes_go_to_several_tables_at_once(world: World) -> None:
    source = world.create(debezium("c", after=ANN), debezium("u", ANN, BOB))
    changes, latest = world.create(hint="changes"), world.create(hint="latest")
    columns = "id INT, name STRING"
    key = "PRIMARY KEY (id) NOT ENFORCED"
    world.run(
        f"""CREATE TABLE people ({columns}, {key}) {world.kafka(source, format="debezium-json")};
            CREATE TABLE changes ({columns}) {world.kafka(changes, format="maxwell-json")};
            CREATE TABLE latest ({columns}, {key}) {world.upsert(latest)};
            EXECUTE STATEMENT SET BEGIN
              INSERT INTO changes SELECT * FROM people;
              INSERT INTO latest SELECT * FROM people;
            END"""
    )
    assert world.values(changes) == [
        {"data": ANN, "type": "insert"},
        {"data": ANN, "type": "delete"},
        {"data": BOB, "type": "insert"},
    ]
    assert world.values(latest) == [ANN, BOB]

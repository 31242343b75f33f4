"""Aggregates over tables that change: a database's changes in, a topic of the latest results out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from world import World

from tidemill.errors import JobError

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

COLUMNS = "id INT, city STRING, age INT, paid DECIMAL(10, 2), PRIMARY KEY (id) NOT ENFORCED"


def person(id_: int, city: str | None, age: int | None, paid: str = "1.00") -> dict[str, Any]:
    return {"id": id_, "city": city, "age": age, "paid": paid}


def added(row: dict[str, Any]) -> dict[str, Any]:
    return {"before": None, "after": row, "op": "c"}


def changed(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    return {"before": old, "after": new, "op": "u"}


def removed(row: dict[str, Any]) -> dict[str, Any]:
    return {"before": row, "after": None, "op": "d"}


ANN = person(1, "Ulm", 30, "2.50")
BOB = person(2, "Ulm", 40)
CEM = person(3, "Kiel", 50)
DAN = person(4, "Ulm", 30, "7.00")
EVE = person(5, "Bonn", None)


def people(world: World, *changes: Any) -> str:
    topic = world.create(*changes, hint="people")
    return f"CREATE TABLE people ({COLUMNS}) {world.kafka(topic, format='debezium-json')};"


def results(world: World, topic: str) -> dict[str, Any]:
    """The latest result of each key."""
    return {json.dumps(json.loads(k or "null")): v for k, v in world.table(topic).items()}


def test_every_function_follows_the_changes_of_a_table(world: World) -> None:
    out = world.create(hint="out")
    older = {**BOB, "age": 41}
    world.run(
        people(
            world,
            *map(added, (ANN, BOB, CEM, DAN, EVE)),
            changed(BOB, older),
            removed(CEM),
            changed(DAN, {**DAN, "city": "Bonn"}),
        )
        + f"""CREATE TABLE cities (
                city STRING, n BIGINT, ages BIGINT, youngest INT, oldest INT, total INT, mean INT, spread INT,
                var DECIMAL(38, 6), f INT, l INT, list STRING, arr ARRAY<INT>, objects STRING, jsons STRING,
                median DOUBLE, PRIMARY KEY (city) NOT ENFORCED) {world.upsert(out)};
            INSERT INTO cities
            SELECT city, COUNT(*), COUNT(DISTINCT age), MIN(age), MAX(age), SUM(age), AVG(age), STDDEV_POP(age),
              VAR_POP(paid), FIRST_VALUE(age), LAST_VALUE(age), LISTAGG(CAST(age AS STRING), '|'), ARRAY_AGG(age),
              JSON_OBJECTAGG(KEY CAST(id AS STRING) VALUE age), JSON_ARRAYAGG(age), PERCENTILE(age, 0.5)
            FROM people GROUP BY city""",
    )
    found = results(world, out)
    assert found == {
        '{"city": "Ulm"}': {
            "city": "Ulm",
            "n": 2,
            "ages": 2,
            "youngest": 30,
            "oldest": 41,
            "total": 71,
            "mean": 35,
            # (900 + 1681 - 71 * 71 / 2) / 2 = 30, whose root is 5.47, all in whole numbers
            "spread": 5,
            "var": 0.5625,
            "f": 30,
            "l": 41,
            "list": "30|41",
            "arr": [30, 41],
            "objects": '{"1":30,"2":41}',
            "jsons": "[30,41]",
            "median": 35.5,
        },
        '{"city": "Bonn"}': {
            "city": "Bonn",
            "n": 2,
            "ages": 1,
            "youngest": 30,
            "oldest": 30,
            "total": 30,
            "mean": 30,
            "spread": 0,
            "var": 9,
            "f": 30,
            "l": 30,
            "list": "30",
            "arr": [None, 30],
            "objects": '{"4":30,"5":null}',
            "jsons": "[30]",
            "median": 30,
        },
    }


def test_group_that_has_become_empty_is_deleted(world: World) -> None:
    topic = world.create(added(ANN), added(CEM), hint="people")
    out = world.create(hint="out")
    script = f"""CREATE TABLE people ({COLUMNS}) {world.kafka(topic, format="debezium-json")};
        CREATE TABLE cities (city STRING, n BIGINT, oldest INT, PRIMARY KEY (city) NOT ENFORCED)
          {world.upsert(out)};
        INSERT INTO cities SELECT city, COUNT(*), MAX(age) FROM people GROUP BY city"""
    world.run(script, keep=True)
    assert set(results(world, out)) == {'{"city": "Ulm"}', '{"city": "Kiel"}'}
    world.produce(topic, removed(CEM), added(BOB))
    world.run(script, keep=True)
    assert results(world, out) == {'{"city": "Ulm"}': {"city": "Ulm", "n": 2, "oldest": 40}}
    assert [r.value for r in world.records(out) if json.loads(r.key) == {"city": "Kiel"}][
        -1
    ] is None
    world.produce(topic, added(person(9, "Kiel", 9)))
    world.run(script, keep=True)
    assert results(world, out)['{"city": "Kiel"}'] == {"city": "Kiel", "n": 1, "oldest": 9}


def test_aggregate_of_an_aggregate(world: World) -> None:
    """How many cities have how many people; a city that grows leaves one number for another."""
    world.run(
        people(world, *map(added, (ANN, BOB, CEM, DAN, EVE)), removed(EVE))
        + """SELECT n, COUNT(*) AS cities, LISTAGG(city) AS names
             FROM (SELECT city, COUNT(*) AS n FROM people GROUP BY city) GROUP BY n"""
    )
    table: dict[int, Any] = {}
    for kind, row in world.rows:
        if kind in ("+I", "+U"):
            table[row["n"]] = row
        elif table.get(row["n"]) == row:
            del table[row["n"]]
    assert table == {
        3: {"n": 3, "cities": 1, "names": "Ulm"},
        1: {"n": 1, "cities": 1, "names": "Kiel"},
    }


def test_distinct_rows_of_a_table_that_changes(world: World) -> None:
    out = world.create(hint="out")
    world.run(
        people(world, *map(added, (ANN, BOB, CEM, EVE)), changed(EVE, {**EVE, "city": "Ulm"}))
        + f"""CREATE TABLE cities (city STRING, PRIMARY KEY (city) NOT ENFORCED) {world.upsert(out)};
            INSERT INTO cities SELECT DISTINCT city FROM people"""
    )
    assert set(results(world, out)) == {'{"city": "Ulm"}', '{"city": "Kiel"}'}


def test_delete_of_an_unknown_row_is_counted(world: World) -> None:
    world.run(
        people(world, removed(ANN), added(CEM))
        + "SELECT city, COUNT(*) AS n FROM people GROUP BY city"
    )
    assert world.rows == [("+I", {"city": "Kiel", "n": 1})]
    assert world.oddities == {"people: delete of an unknown row": 1}


def test_key_that_is_twice_in_a_json_object_stops_the_job(world: World) -> None:
    with pytest.raises(JobError) as raised:
        world.run(
            people(world, added(ANN), added(BOB))
            + "SELECT JSON_OBJECTAGG(KEY city VALUE age) AS o FROM people"
        )
    assert raised.value.diagnostics[0].code == "RUN-027"
    assert "'Ulm'" in raised.value.diagnostics[0].message

"""State read back out of a checkpoint, as rows of SQL types."""

from __future__ import annotations

import json
from typing import Any

import pytest
from test_changed_scripts import ORDERS, orders
from test_state_files import opened
from world import World

from tidemill.errors import UsageError
from tidemill.spark.checkpoints import Checkpoint
from tidemill.spark.printing import rendered
from tidemill.spark.progress import Progress
from tidemill.spark.state import Operator, named, operators

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def rows(operator: Operator) -> list[dict[str, Any]]:
    frame, fields = operator.rows()
    found = [json.loads(r.text) for r in rendered(frame, fields, "json").collect()]
    return sorted(found, key=lambda row: json.dumps(list(row.values())))


def test_every_operator_of_a_chain_is_listed_and_read(world: World) -> None:
    source, best = world.create(hint="users"), world.create(hint="best")
    people = [("ann", 30), ("bob", 40), ("cid", 30), ("dan", 50), ("eve", 30), ("fay", 50)]
    world.produce(
        source,
        *(
            {"key": json.dumps({"k": k}), "value": json.dumps({"k": k, "name": name, "age": age})}
            for k, (name, age) in enumerate(people)
        ),
    )
    world.run(
        "CREATE TABLE users (k BIGINT, name STRING, age INT, PRIMARY KEY (k) NOT ENFORCED)"
        f"{world.upsert(source)};"
        "CREATE TABLE best (age INT, n BIGINT, PRIMARY KEY (age) NOT ENFORCED)"
        f"{world.upsert(best)};"
        "INSERT INTO best SELECT age, n FROM"
        " (SELECT age, n, ROW_NUMBER() OVER (ORDER BY n DESC) AS place FROM"
        "  (SELECT age, COUNT(*) AS n FROM users GROUP BY age)) WHERE place <= 2",
        keep=True,
    )
    found = operators(opened(world))
    assert [o.name.partition("(")[0] for o in found] == [
        "Rank",
        "GroupAggregate",
        "ChangelogNormalize",
    ]
    assert [[f"{f.name} {f.type}" for f in o.key] for o in found] == [
        [],
        ["age INT"],
        ["k BIGINT"],
    ]
    assert [o.count() for o in found] == [1, 3, 6]
    assert all(o.bytes > 0 for o in found)
    progress = Progress([o.name.partition("(")[0] for o in found])
    progress.add(world.reports)
    remembered = [(state.name, state.rows) for state in progress.state]
    assert remembered == [("ChangelogNormalize", 6), ("GroupAggregate", 3), ("Rank", 1)]
    assert all(state.bytes > 0 for state in progress.state)
    top, groups, users = found
    assert rows(groups) == [
        {"age": 30, "EXPR$0": 3},
        {"age": 40, "EXPR$0": 1},
        {"age": 50, "EXPR$0": 2},
    ]
    assert {"age": 50, "n": 2} in [{"age": r["age"], "n": r["n"]} for r in rows(top)]
    assert [(r["k"], r["age"]) for r in rows(users)] == [(k, a) for k, (_, a) in enumerate(people)]
    assert named(found, "1") == groups
    assert named(found, "groupagg") == groups
    with pytest.raises(UsageError, match="no operator is called 'Join'"):
        named(found, "Join")


def test_keys_and_results_are_of_the_types_of_sql(world: World) -> None:
    """Also where distinct values have left the group for pages."""
    source, totals = world.create(hint="in"), world.create(hint="out")
    day = {"price": 12.50, "at": "2026-01-02 03:04:05.678", "paid": True, "tags": ["a", "b"]}
    world.produce(source, *({**day, "visitor": f"v{i % 700}"} for i in range(1400)))
    types = "price DECIMAL(10, 2), `at` TIMESTAMP(3), paid BOOLEAN, tags ARRAY<STRING>"
    world.run(
        f"CREATE TABLE visits ({types}, visitor STRING) {world.kafka(source)};"
        f"CREATE TABLE totals ({types}, n BIGINT, uv BIGINT, top STRING, mean DECIMAL(38, 6))"
        f"{world.kafka(totals, format='debezium-json')};"
        "INSERT INTO totals SELECT price, `at`, paid, tags, COUNT(*), COUNT(DISTINCT visitor),"
        " MAX(visitor), AVG(price) FROM visits GROUP BY price, `at`, paid, tags",
        keep=True,
    )
    [found] = operators(opened(world))
    assert [str(f.type) for f in found.key] == [
        "DECIMAL(10, 2)",
        "TIMESTAMP(3)",
        "BOOLEAN",
        "ARRAY<STRING>",
    ]
    [row] = rows(found)
    assert {name: row[name] for name in day} == day
    assert list(row.values())[4:] == [1400, 700, "v99", 12.5]


def test_a_sink_that_puts_rows_in_order_is_read(world: World) -> None:
    source, names = world.create(hint="users"), world.create(hint="names")
    world.produce(
        source,
        *(
            {"key": json.dumps({"k": k}), "value": json.dumps({"k": k, "name": "ab"[k % 2]})}
            for k in range(4)
        ),
    )
    world.run(
        "CREATE TABLE users (k BIGINT, name STRING, PRIMARY KEY (k) NOT ENFORCED)"
        f"{world.upsert(source)};"
        "CREATE TABLE names (name STRING, k BIGINT, PRIMARY KEY (name) NOT ENFORCED)"
        f"{world.upsert(names)};"
        "INSERT INTO names SELECT name, k FROM users",
        keep=True,
    )
    sink = operators(opened(world))[0]
    assert sink.name.startswith("Sink(")
    assert [f.name for f in sink.key] == ["name"]
    assert rows(sink) == [
        {"name": "a", "k": 0},
        {"name": "a", "k": 2},
        {"name": "b", "k": 1},
        {"name": "b", "k": 3},
    ]


def test_first_rows_are_known_by_their_keys_and_last_ones_as_they_are(world: World) -> None:
    for order, expected in (
        ("", [{"customer": c} for c in "abc"]),
        (" DESC", [{"id": 6, "customer": "a"}]),
    ):
        source, kept = world.create(*orders(range(7))), world.create(hint="kept")
        world.run(
            f"SET 'pipeline.name' = 'kept{order.strip().lower()}';"
            f"{ORDERS.replace(')', ', seen AS PROCTIME())')}{world.kafka(source)};"
            "CREATE TABLE kept (id INT, customer STRING, PRIMARY KEY (customer) NOT ENFORCED)"
            f"{world.upsert(kept)};"
            "INSERT INTO kept SELECT id, customer FROM (SELECT id, customer, ROW_NUMBER() OVER"
            f" (PARTITION BY customer ORDER BY seen{order}) AS n FROM orders) WHERE n = 1",
            keep=True,
        )
        [place] = world.checkpoint.glob(f"kept{order.strip().lower()}/kept")
        [found] = operators(Checkpoint(world.spark, place.as_uri()))
        shown = [{k: v for k, v in row.items() if k != "seen"} for row in rows(found)]
        assert all(row in shown for row in expected), shown
        assert len(shown) == 3


def test_both_sides_of_a_join_are_read(world: World) -> None:
    source, names = world.create(*orders(range(4))), world.create(hint="names")
    world.produce(names, *({"id": i, "name": name} for i, name in ((1, "x"), (1, "x"), (7, "y"))))
    joined = world.create(hint="joined")
    world.run(
        f"{ORDERS}{world.kafka(source)};"
        f"CREATE TABLE names (id INT, name STRING) {world.kafka(names)};"
        f"CREATE TABLE joined (customer STRING, name STRING) {world.kafka(joined)};"
        "INSERT INTO joined SELECT customer, name FROM orders JOIN names ON orders.id = names.id",
        keep=True,
    )
    [found] = operators(opened(world))
    assert found.name.startswith("Join(")
    assert [f.name for f in found.key] == ["id"]
    kept = [
        (row["side"], *(v for v in list(row.values())[1:] if v is not None)) for row in rows(found)
    ]
    assert kept == [
        ("left", 0, "a"),
        ("left", 1, "b"),
        ("left", 2, "c"),
        ("left", 3, "a"),
        ("right", 1, "x"),
        ("right", 1, "x"),
        ("right", 7, "y"),
    ]


def test_what_waits_in_joins_over_time_is_read(world: World) -> None:
    def at(second: int) -> str:
        return f"2024-01-01 00:00:{second:02}"

    clicks = world.create(*({"k": k, "ts": at(t)} for k, t in ((1, 10), (2, 58), (2, 58))))
    prices = world.create(
        *(
            {"key": f'{{"k":{k}}}', "value": json.dumps({"k": k, "price": p, "ts": at(t)})}
            for k, p, t in ((1, 5, 3), (1, 7, 8), (2, 9, 57))
        )
    )
    tables = f"""
        CREATE TABLE clicks (k INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) {world.kafka(clicks)};
        CREATE TABLE prices (k INT, price INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts,
        PRIMARY KEY (k) NOT ENFORCED) {world.upsert(prices)};
    """
    world.run(
        f"""{tables} SELECT a.k, b.k FROM clicks AS a LEFT JOIN clicks AS b
        ON a.k = b.k AND b.ts BETWEEN a.ts + INTERVAL '1' SECOND AND a.ts + INTERVAL '5' SECOND""",
        keep=True,
    )
    [operator] = operators(opened(world))
    assert [(r["side"], r["k"]) for r in rows(operator)] == [("left", 2), ("left", 2)]
    world.checkpoint = world.checkpoint.parent / "other"
    world.run(
        f"""{tables} SELECT c.k, p.price FROM clicks AS c LEFT JOIN prices FOR SYSTEM_TIME AS OF c.ts AS p
        ON c.k = p.k""",
        keep=True,
    )
    [operator] = operators(opened(world))
    assert [(r["side"], r["k"] or r["k0"], r["price"]) for r in rows(operator)] == [
        ("left", 2, None),
        ("left", 2, None),
        ("right", 1, 7),
        ("right", 2, 9),
    ]


def test_what_windows_keep_is_told_to_be_kept_by_time(world: World) -> None:
    topic = world.create({"k": 1, "ts": "2024-01-01 00:00:01"})
    world.run(
        f"""CREATE TABLE t (k INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) {world.kafka(topic)};
        SELECT k, COUNT(*) AS c FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
        GROUP BY k, window_start, window_end""",
        keep=True,
    )
    [operator] = operators(opened(world))
    assert operator.count() is None
    assert [f.name for f in operator.key] == ["k"]
    with pytest.raises(UsageError, match="cannot be read back yet"):
        operator.rows()

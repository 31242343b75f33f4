"""Joins of tables that change, from topics to results: keys of all sorts, subqueries, chains of operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from world import World

from tidemill.errors import JobError

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

ROW_BY_ROW = "1"
"""Rows in a batch: each change meets what the ones before have left behind."""


def changes(*events: tuple[Any, Any]) -> list[dict[str, Any]]:
    """Debezium's form of changes: the row before, the row after."""
    ops = {(False, True): "c", (True, True): "u", (True, False): "d"}
    return [
        {"before": old, "after": new, "op": ops[old is not None, new is not None]}
        for old, new in events
    ]


def folded(rows: Iterable[tuple[str, Any]]) -> list[tuple[Any, ...]]:
    """The table that a changelog leaves; no change may take out what is not there."""
    table: Counter[tuple[Any, ...]] = Counter()
    for kind, row in rows:
        values = tuple(row.values())
        assert kind[0] == "+" or table[values] > 0, (kind, row)
        table[values] += 1 if kind[0] == "+" else -1
    return sorted(table.elements(), key=repr)


def order(id_: int, user: int | None, amount: int = 10) -> dict[str, Any]:
    return {"id": id_, "user": user, "amount": amount}


def user(id_: int, name: str) -> dict[str, Any]:
    return {"id": id_, "name": name}


@pytest.fixture
def tables(world: World) -> Callable[..., str]:
    """DDL of the CDC tables `orders` and `users`, read in batches of so many rows.

    In the end there are the orders (1, 2, 10), (3, NULL, 7), (4, 9, 10), (5, 1, 30) and the users anna, ben, cid."""

    def make(rows: str = "1000000") -> str:
        orders = changes(
            (None, order(1, 1)),
            (None, order(2, 2)),
            (None, order(3, None)),
            (order(1, 1), order(1, 2)),
            (None, order(4, 9)),
            (order(2, 2), None),
            (None, order(5, 1, 30)),
            (order(3, None), order(3, 1)),
            (order(3, 1), order(3, None, 7)),
        )
        users = changes(
            (None, user(2, "bob")),
            (None, user(1, "ann")),
            (user(1, "ann"), user(1, "anna")),
            (user(2, "bob"), None),
            (None, user(2, "ben")),
            (None, user(3, "cid")),
        )
        options = {"format": "debezium-json", "scan_max__rows__per__batch": rows}
        return f"""
            CREATE TABLE orders (id INT, `user` BIGINT, amount INT)
              {world.kafka(world.create(*orders, hint="orders"), **options)};
            CREATE TABLE users (id INT, name STRING, PRIMARY KEY (id) NOT ENFORCED)
              {world.kafka(world.create(*users, hint="users"), **options)};
        """

    return make


@pytest.mark.parametrize("rows", [ROW_BY_ROW, "1000000"])
def test_outer_join_of_tables_that_change(
    world: World, tables: Callable[..., str], rows: str
) -> None:
    """The keys are BIGINT and INT, and change in place; one is NULL."""
    world.run(
        tables(rows)
        + "SELECT o.id, o.`user`, u.id AS u, u.name FROM orders AS o FULL JOIN users AS u ON o.`user` = u.id"
    )
    expected = [(1, 2, 2, "ben"), (3, None, None, None), (4, 9, None, None), (5, 1, 1, "anna")]
    assert folded(world.rows) == sorted([*expected, (None, None, 3, "cid")], key=repr)


def test_upsert_sink_gets_updates_and_no_needless_deletes(
    world: World, tables: Callable[..., str]
) -> None:
    scores = changes(
        (None, {"id": 1, "score": 5}),
        (None, {"id": 3, "score": 1}),
        ({"id": 1, "score": 5}, {"id": 1, "score": 6}),
    )
    options = {"format": "debezium-json", "scan_max__rows__per__batch": ROW_BY_ROW}
    target = world.create()
    world.run(
        tables(ROW_BY_ROW)
        + f"""
        CREATE TABLE scores (id INT, score INT, PRIMARY KEY (id) NOT ENFORCED)
          {world.kafka(world.create(*scores), **options)};
        CREATE TABLE target (id INT, name STRING, score INT, PRIMARY KEY (id) NOT ENFORCED)
          {world.upsert(target)};
        INSERT INTO target SELECT u.id, u.name, s.score FROM users AS u LEFT JOIN scores AS s ON u.id = s.id"""
    )
    last = [tuple(row.values()) for row in world.table(target).values() if row is not None]
    assert sorted(last) == [(1, "anna", 6), (2, "ben", None), (3, "cid", 1)]
    assert world.values(target).count(None) == 1, "only bob went"


SUBQUERIES = {
    "`user` IN (SELECT id FROM users)": {1, 5},
    "`user` NOT IN (SELECT id FROM users)": {4},
    "id NOT IN (SELECT `user` FROM orders)": set(),
    "EXISTS (SELECT 1 FROM users AS u WHERE u.id = o.`user` AND CHAR_LENGTH(u.name) > o.id)": {1},
    "NOT EXISTS (SELECT 1 FROM users AS u WHERE u.id = o.`user`)": {3, 4},
    "NOT EXISTS (SELECT 1 FROM orders AS p WHERE p.amount > o.amount)": {5},
}


def test_subqueries(world: World, tables: Callable[..., str]) -> None:
    """All in one job, row by row: the tables are read once."""
    queries = [
        f"SELECT {n} AS n, id FROM orders AS o WHERE {where}" for n, where in enumerate(SUBQUERIES)
    ]
    world.run(tables(ROW_BY_ROW) + " UNION ALL ".join(queries))
    found: dict[int, set[int]] = {n: set() for n in range(len(SUBQUERIES))}
    for n, id_ in folded(world.rows):
        found[n].add(id_)
    assert found == dict(enumerate(SUBQUERIES.values()))


# --- subqueries that stand for one value ----------------------------------------------------------


def limit(id_: int, v: int) -> dict[str, Any]:
    return {"id": id_, "v": v}


def bids_and_limits(world: World, *events: tuple[Any, Any]) -> str:
    """The table `bids` of the rows (1, 10), (2, 20) and (3, 30), and the CDC table `limits`, read row by row."""
    bids = [{"id": n, "amount": 10 * n} for n in (1, 2, 3)]
    limits = world.create(*changes(*events), hint="limits")
    options = {"format": "debezium-json", "scan_max__rows__per__batch": ROW_BY_ROW}
    return f"""
        CREATE TABLE bids (id INT, amount INT) {world.kafka(world.create(*bids, hint="bids"))};
        CREATE TABLE limits (id INT, v INT) {world.kafka(limits, **options)};
    """


# What is asked of each bid: the rows in the end, and of one bid what it was on the way.
SCALARS: dict[str, tuple[str, dict[int, Any], int, list[Any]]] = {
    "in a condition": (
        "SELECT id, 1 AS x FROM bids WHERE amount > (SELECT MAX(v) FROM limits)",
        {2: 1, 3: 1},
        2,
        ["+ 1", "- 1", "+ 1", "- 1", "+ 1"],  # at last it is compared with another value, and equal
    ),
    "an aggregate": (
        "SELECT id, (SELECT MAX(v) FROM limits) AS x FROM bids",
        {1: 15, 2: 15, 3: 15},
        1,
        ["+ 5", "- 5", "+ 40", "- 40", "+ 7", "- 7", "+ 15"],
    ),
    "a row": (
        "SELECT id, (SELECT v FROM limits WHERE id = 1) AS x FROM bids",
        {1: 15, 2: 15, 3: 15},
        1,
        ["+ 5", "- 5", "+ 40", "- 40", "+ None", "- None", "+ 15"],
    ),
    "a row of its own": (
        "SELECT id, (SELECT v FROM limits AS l WHERE l.id = b.id) AS x FROM bids AS b",
        {1: 15, 2: 7, 3: None},
        1,
        ["+ 5", "- 5", "+ 40", "- 40", "+ None", "- None", "+ 15"],
    ),
    "a number of its own": (
        "SELECT id, CAST((SELECT COUNT(*) FROM limits AS l WHERE l.id = b.id) AS INT) AS x FROM bids AS b",
        {1: 1, 2: 1, 3: 0},
        1,
        ["+ 1", "- 1", "+ 0", "- 0", "+ 1"],
    ),
}


def test_scalar_subqueries_follow_the_table_inside(world: World) -> None:
    """Whose rows come, change and go."""
    events = [
        (None, limit(1, 5)),
        (limit(1, 5), limit(1, 40)),
        (None, limit(2, 7)),
        (limit(1, 40), None),
        (None, limit(1, 15)),
    ]
    queries = [
        f"SELECT '{name}' AS q, id, x FROM ({query})" for name, (query, *_) in SCALARS.items()
    ]
    script = bids_and_limits(world, *events) + " UNION ALL ".join(queries)
    world.run(script, parallelism_default="1")
    found: dict[str, dict[int, Any]] = {name: {} for name in SCALARS}
    for name, id_, x in folded(world.rows):
        found[name][id_] = x
    assert found == {name: rows for name, (_, rows, _, _) in SCALARS.items()}
    for name, (_, _, bid, seen) in SCALARS.items():
        log = [(k, r["x"]) for k, r in world.rows if (r["q"], r["id"]) == (name, bid)]
        assert [f"{kind[0]} {x}" for kind, x in log] == seen, name


@pytest.mark.parametrize("where", ["", "WHERE l.id = b.id"], ids=["of all", "of a bid"])
def test_several_rows_of_a_scalar_subquery_stop_the_job(world: World, where: str) -> None:
    events = [(None, limit(1, 5)), (limit(1, 5), limit(1, 6)), (None, limit(1, 7))]
    with pytest.raises(JobError) as raised:
        world.run(
            bids_and_limits(world, *events)
            + f"SELECT id, (SELECT v FROM limits AS l {where}) AS x FROM bids AS b"
        )
    [found] = raised.value.diagnostics
    assert found.code == "RUN-026"
    assert "a subquery that stands for one value has more than one row" in found.message
    assert {row["x"] for _, row in world.rows} == {5, 6} | ({None} if where else set())


def test_joins_of_one_table_with_itself_and_on_expressions(
    world: World, tables: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "texts.py").write_text(
        "def shout(text: str) -> str:\n    return text.upper()\n\n\n"
        "def longer(text: str, number: int) -> bool:\n    return len(text) > number\n"
    )
    world.python_files.append(tmp_path)
    world.run(
        "CREATE FUNCTION shout AS 'texts.shout' LANGUAGE PYTHON;\n"
        "CREATE FUNCTION longer AS 'texts.longer' LANGUAGE PYTHON;\n"
        + tables(ROW_BY_ROW)
        + """
        SELECT 'self' AS q, CAST(a.id AS STRING) AS a, CAST(b.id AS STRING) AS b
          FROM orders AS a JOIN orders AS b ON a.amount = b.amount AND a.id < b.id
        UNION ALL SELECT 'expression', a.name, b.name
          FROM users AS a LEFT JOIN users AS b ON a.id + 1 = b.id * 2
        UNION ALL SELECT 'python', a.name, b.name
          FROM users AS a LEFT JOIN users AS b ON a.id = b.id AND shout(a.name) < b.name AND shout(b.name) = 'BEN'
        UNION ALL SELECT 'both', a.name, CAST(b.id AS STRING)
          FROM users AS a JOIN orders AS b ON a.id = b.`user` AND longer(a.name, b.id)
        """
    )
    assert folded(world.rows) == sorted(
        [
            ("self", "1", "4"),
            ("expression", "anna", "anna"),
            ("expression", "ben", None),
            ("expression", "cid", "ben"),
            ("python", "anna", None),
            ("python", "ben", "ben"),
            ("python", "cid", None),
            ("both", "ben", "1"),
        ],
        key=repr,
    )


def test_chain_of_operators(world: World, tables: Callable[..., str]) -> None:
    """An aggregate, an inner join on its result, a left join, an anti join: retractions go through all of them."""
    clicks = world.create(*({"user": n % 3 + 1} for n in range(10)), hint="clicks")
    world.run(
        tables(ROW_BY_ROW)
        + f"""
        CREATE TABLE clicks (`user` INT) {world.kafka(clicks, scan_max__rows__per__batch="2")};
        SELECT u.name, c.n, o.id
        FROM (SELECT `user`, COUNT(*) AS n FROM clicks GROUP BY `user`) AS c
        JOIN users AS u ON c.`user` = u.id AND c.n > 2
        LEFT JOIN orders AS o ON o.`user` = u.id
        WHERE NOT EXISTS (SELECT 1 FROM orders AS p WHERE p.id = c.n + 1 AND p.amount > 20)"""
    )
    # Of 10 clicks, user 1 has 4 and the others 3; order 5 has an amount of 30.
    assert folded(world.rows) == [("ben", 3, 1), ("cid", 3, None)]
    assert any(kind in ("-U", "-D") for kind, _ in world.rows)


def test_set_operations_are_joins(world: World) -> None:
    left = world.create(*({"n": n} for n in (1, 1, 2, None, 3)))
    right = world.create(*({"n": n} for n in (3, None, 1, 5)))
    world.run(
        f"""CREATE TABLE a (n INT) {world.kafka(left)}; CREATE TABLE b (n BIGINT) {world.kafka(right)};
            SELECT n FROM a INTERSECT SELECT n FROM b"""
    )
    assert folded(world.rows) == [(1,), (3,), (None,)]

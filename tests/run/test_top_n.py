"""First rows, last rows and rows of another key on their way to tables, batch by batch."""

from __future__ import annotations

from typing import Any

import pytest
from world import World

from tidemill.errors import JobError

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

STEPS = {"scan.max-rows-per-batch": "2"}
"""Few rows a batch, so that results are seen to change."""


def sale(category: str, product: int, units: int = 1, at: int = 0) -> dict[str, Any]:
    return {
        "category": category,
        "product": product,
        "units": units,
        "at": f"2024-01-01 00:00:{at:02}",
    }


SALES = [
    sale("tea", 1),
    sale("tea", 2),
    sale("tea", 3, 9, at=3),
    sale("jam", 7, 4, at=9),
    sale("tea", 2, 5, at=2),
    sale("tea", 3, 1, at=1),
    sale("tea", 3, 1, at=4),
    sale("jam", 7, 4, at=8),
]


def sales(world: World, *records: dict[str, Any]) -> str:
    topic = world.create(*(records or SALES), hint="sales")
    return f"""
        CREATE TABLE sales (
          category STRING, product INT, units INT, `at` TIMESTAMP(3), seen AS PROCTIME(), WATERMARK FOR `at` AS `at`
        ) {world.kafka(topic, **STEPS)};"""


COUNTED = """
    SELECT category, product, c, ROW_NUMBER() OVER (PARTITION BY category ORDER BY c DESC) AS place
    FROM (SELECT category, product, COUNT(*) AS c FROM sales GROUP BY category, product)"""


def test_the_places_of_a_top_n_are_kept_up_to_date(world: World) -> None:
    best = world.create(hint="best")
    world.run(
        f"""{sales(world)}
            CREATE TABLE best (category STRING, place BIGINT, product INT, units INT,
              PRIMARY KEY (category, place) NOT ENFORCED) {world.upsert(best)};
            INSERT INTO best SELECT category, place, product, units FROM (
              SELECT *, ROW_NUMBER() OVER (PARTITION BY category ORDER BY units DESC) AS place
              FROM (SELECT category, product, SUM(units) AS units FROM sales GROUP BY category, product)
            ) WHERE place <= 2"""
    )
    found = sorted(
        (v["category"], v["place"], v["product"], v["units"]) for v in world.table(best).values()
    )
    assert found == [("jam", 1, 7, 8), ("tea", 1, 3, 11), ("tea", 2, 2, 6)]
    # A place that is taken over is no deletion.
    assert None not in world.values(best)


def test_a_row_that_leaves_a_top_n_is_deleted_by_its_own_key(world: World) -> None:
    best = world.create(hint="best")
    world.run(
        f"""{sales(world)}
            CREATE TABLE best (category STRING, product INT, c BIGINT, place BIGINT,
              PRIMARY KEY (category, product) NOT ENFORCED) {world.upsert(best)};
            INSERT INTO best SELECT category, product, c, place FROM ({COUNTED}) WHERE place <= 2"""
    )
    found = sorted(
        (v["category"], v["product"], v["c"], v["place"]) for v in world.table(best).values()
    )
    assert found == [("jam", 7, 2, 1), ("tea", 2, 2, 2), ("tea", 3, 3, 1)]
    assert None in world.values(best)


def test_one_row_a_key_by_time_and_by_arrival(world: World) -> None:
    latest, newest, first = (world.create(hint=h) for h in ("latest", "newest", "first"))
    columns = "category STRING, product INT, units INT"
    key = "PRIMARY KEY (category, product) NOT ENFORCED"

    def kept(order: str) -> str:
        return f"""SELECT category, product, units FROM sales
            QUALIFY ROW_NUMBER() OVER (PARTITION BY category, product ORDER BY {order}) = 1"""

    world.run(
        f"""{sales(world)}
            CREATE TABLE latest ({columns}, {key}) {world.upsert(latest)};
            CREATE TABLE newest ({columns}, {key}) {world.upsert(newest)};
            CREATE TABLE `first` ({columns}) {world.kafka(first)};
            EXECUTE STATEMENT SET BEGIN
              INSERT INTO latest {kept("`at` DESC")};
              INSERT INTO newest {kept("seen DESC")};
              INSERT INTO `first` {kept("seen ASC")};
            END"""
    )

    def units(rows: Any) -> list[tuple[int, int]]:
        return sorted((r["product"], r["units"]) for r in rows)

    assert units(world.table(latest).values()) == [(1, 1), (2, 5), (3, 1), (7, 4)]
    assert units(world.table(newest).values()) == [(1, 1), (2, 5), (3, 1), (7, 4)]
    assert units(world.values(first)) == [(1, 1), (2, 1), (3, 9), (7, 4)]
    # What comes again as it was is no change.
    assert len([v for v in world.values(newest) if v["product"] == 7]) == 1


def test_the_first_rows_of_an_order_and_of_none(world: World) -> None:
    few, top = world.create(hint="few"), world.create(hint="top")
    world.run(
        f"""{sales(world)}
            CREATE TABLE few (product INT, units INT) {world.kafka(few)};
            CREATE TABLE top (product INT, units INT) {world.kafka(top, format="debezium-json")};
            EXECUTE STATEMENT SET BEGIN
              INSERT INTO few SELECT product, units FROM sales LIMIT 2 OFFSET 1;
              INSERT INTO top SELECT product, units FROM sales ORDER BY units DESC, `at` LIMIT 2;
            END"""
    )
    assert world.values(few) == [{"product": 2, "units": 1}, {"product": 3, "units": 9}]
    live: list[Any] = []
    for change in world.values(top):
        if change["op"] == "c":
            live.append(change["after"])
        else:
            live.remove(change["before"])
    assert sorted(r["units"] for r in live) == [5, 9]


def test_deletes_bring_up_what_was_behind(world: World) -> None:
    def change(op: str, **rows: Any) -> dict[str, Any]:
        return {"before": None, "after": None, "op": op, **rows}

    one, two, three = ({"id": i, "v": v} for i, v in ((1, 5), (2, 7), (3, 6)))
    source = world.create(
        change("c", after=one),
        change("c", after=two),
        change("c", after=three),
        change("d", before=two),
        change("d", before={"id": 9, "v": 9}),
    )
    steps = {"format": "debezium-json", **STEPS}
    world.run(
        f"""CREATE TABLE t (id INT, v INT) {world.kafka(source, **steps)};
            SELECT id, place FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY v DESC) AS place FROM t) WHERE place <= 2"""
    )
    table: dict[int, int] = {}
    for kind, row in world.rows:
        if kind in ("-U", "-D"):
            assert table.pop(row["place"]) == row["id"]
        else:
            table[row["place"]] = row["id"]
    assert table == {1: 3, 2: 1}


def totals(world: World, topic: str, on_conflict: str = "") -> str:
    """The product that was sold last names the category's total: another key than the query's."""
    return f"""
        CREATE TABLE totals (product INT, category STRING, c BIGINT, PRIMARY KEY (product) NOT ENFORCED)
        {world.upsert(topic)};
        INSERT INTO totals SELECT MAX(product), category, COUNT(*) FROM sales GROUP BY category {on_conflict}"""


def test_rows_of_another_key_are_put_in_order(world: World) -> None:
    topic = world.create(hint="totals")
    world.run(
        sales(world, sale("tea", 1), sale("jam", 5), sale("jam", 7), sale("tea", 7), sale("jam", 9))
        + totals(world, topic)
    )
    found = sorted((v["product"], v["category"], v["c"]) for v in world.table(topic).values())
    assert found == [(7, "tea", 2), (9, "jam", 3)]


def test_of_conflicting_rows_the_first_one_stays(world: World) -> None:
    topic = world.create(hint="totals")
    world.run(
        sales(world, sale("tea", 7), sale("tea", 7), sale("jam", 7), sale("jam", 7))
        + totals(world, topic, "ON CONFLICT DO NOTHING")
    )
    assert [(v["category"], v["c"]) for v in world.table(topic).values()] == [("tea", 2)]


def test_conflicting_rows_end_the_job_if_it_says_so(world: World) -> None:
    topic = world.create(hint="totals")
    with pytest.raises(JobError) as raised:
        world.run(
            sales(world, sale("tea", 7), sale("jam", 7))
            + totals(world, topic, "ON CONFLICT DO ERROR")
        )
    [found] = raised.value.diagnostics
    assert found.code == "RUN-025"
    assert found.message == "table 'totals': 2 rows have the primary key (product = 7)"
    assert "ON CONFLICT DO NOTHING" in (found.hint or "")


def test_a_job_that_is_started_again_knows_its_rows(world: World) -> None:
    best = world.create(hint="best")
    topic = world.create(sale("tea", 1, 5), sale("tea", 2, 6), hint="sales")
    sql = f"""
        CREATE TABLE sales (category STRING, product INT, units INT) {world.kafka(topic)};
        CREATE TABLE best (place BIGINT, product INT, PRIMARY KEY (place) NOT ENFORCED) {world.upsert(best)};
        INSERT INTO best SELECT place, product FROM (
          SELECT *, ROW_NUMBER() OVER (ORDER BY units DESC) AS place FROM sales) WHERE place <= 2"""
    world.run(sql, keep=True)
    world.produce(topic, sale("tea", 3, 7), sale("tea", 4, 1))
    world.run(sql, keep=True)
    assert sorted((v["place"], v["product"]) for v in world.table(best).values()) == [
        (1, 3),
        (2, 2),
    ]

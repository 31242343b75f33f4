"""STATEMENT SET: one job, one read of each source, one epoch over all its sinks."""

from __future__ import annotations

import json

import pytest
from world import World

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

ORDERS = "CREATE TABLE orders (id INT, customer STRING, price DOUBLE) "
CHEAP = "CREATE TABLE cheap (id INT) "
DEAR = "CREATE TABLE dear (id INT, customer STRING) "
TOTALS = "CREATE TABLE totals (customer STRING, n BIGINT, PRIMARY KEY (customer) NOT ENFORCED) "


def orders(numbers: range) -> list[dict[str, object]]:
    return [{"id": n, "customer": "abc"[n % 3], "price": n / 2} for n in numbers]


def spread(numbers: range) -> list[dict[str, object]]:
    return [
        {"value": json.dumps(order), "partition": i % 3} for i, order in enumerate(orders(numbers))
    ]


def rows_read(world: World) -> list[int]:
    """How many rows the tasks took from each source: more than it has, if it is read more than once."""
    sources = zip(*(report["sources"] for report in world.reports), strict=True)
    return [sum(int(part["numInputRows"]) for part in parts) for parts in sources]


def test_a_source_is_read_once_for_all_queries(world: World) -> None:
    source = world.create(*spread(range(100)), partitions=3)
    cheap, dear, totals = (world.create(hint=h) for h in ("cheap", "dear", "totals"))
    world.run(
        f"{ORDERS}{world.kafka(source)};"
        f"{CHEAP}{world.kafka(cheap)}; {DEAR}{world.kafka(dear)}; {TOTALS}{world.upsert(totals)};"
        "CREATE VIEW named AS SELECT id, UPPER(customer) AS customer, price FROM orders;"
        "EXECUTE STATEMENT SET BEGIN"
        " INSERT INTO cheap SELECT id FROM orders WHERE price < 10;"
        " INSERT INTO dear SELECT id, customer FROM named WHERE price >= 10;"
        " INSERT INTO totals SELECT customer, COUNT(*) FROM named GROUP BY customer; END;"
    )
    assert rows_read(world) == [100]
    assert sorted(r["id"] for r in world.values(cheap)) == [*range(20)]
    assert sorted((r["id"], r["customer"]) for r in world.values(dear)) == [
        (n, "ABC"[n % 3]) for n in range(20, 100)
    ]
    assert {k: v["n"] for k, v in world.table(totals).items()} == {
        '{"customer":"A"}': 34,
        '{"customer":"B"}': 33,
        '{"customer":"C"}': 33,
    }


def test_the_order_of_a_partition_is_kept_for_every_query(world: World) -> None:
    source = world.create(*orders(range(3000)))
    cheap, dear = world.create(hint="cheap"), world.create(hint="dear")
    world.run(
        f"{ORDERS}{world.kafka(source)}; {CHEAP}{world.kafka(cheap)}; {DEAR}{world.kafka(dear)};"
        "EXECUTE STATEMENT SET BEGIN"
        " INSERT INTO cheap SELECT id FROM orders;"
        " INSERT INTO dear SELECT id, customer FROM orders WHERE id < 2500; END;"
    )
    assert [r["id"] for r in world.values(cheap)] == [*range(3000)]
    assert [r["id"] for r in world.values(dear)] == [*range(2500)]


def test_other_options_by_a_hint_are_another_source(world: World) -> None:
    source = world.create(*orders(range(10)))
    cheap = world.create(hint="cheap")
    world.run(
        f"{ORDERS}{world.kafka(source)}; {CHEAP}{world.kafka(cheap)};"
        "INSERT INTO cheap SELECT id FROM orders UNION ALL SELECT id FROM orders"
        " /*+ OPTIONS('scan.startup.mode'='specific-offsets',"
        " 'scan.startup.specific-offsets'='partition:0,offset:7') */"
    )
    assert rows_read(world) == [10, 3]
    assert sorted(r["id"] for r in world.values(cheap)) == sorted([*range(10), 7, 8, 9])


def test_a_bad_record_is_one_dead_letter_however_many_queries_meet_it(world: World) -> None:
    source = world.create(*orders(range(4)), "{broken")
    letters, cheap, dear = (world.create(hint=h) for h in ("letters", "cheap", "dear"))
    policy = {"scan_bad__records": "dead-letter", "scan_dead__letter_topic": letters}
    world.run(
        f"{ORDERS}{world.kafka(source, **policy)};"
        f"{CHEAP}{world.kafka(cheap)}; {DEAR}{world.kafka(dear)};"
        "EXECUTE STATEMENT SET BEGIN"
        " INSERT INTO cheap SELECT id FROM orders;"
        " INSERT INTO dear SELECT id, customer FROM orders; END;"
    )
    assert len(world.values(cheap)) == len(world.values(dear)) == 4
    assert [r.value for r in world.records(letters)] == [b"{broken"]
    assert world.losses == {"orders: bad record, in the dead-letter topic": 1}


def test_a_set_may_write_to_kafka_to_the_screen_and_nowhere(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    source, cheap = world.create(*orders(range(6))), world.create(hint="cheap")
    world.run(
        f"{ORDERS}{world.kafka(source)}; {CHEAP}{world.kafka(cheap)};"
        "CREATE TABLE shown (id INT, customer STRING) WITH ('connector' = 'print', 'print-identifier' = 'p');"
        "CREATE TABLE counted (n BIGINT) WITH ('connector' = 'print');"
        "CREATE TABLE gone (id INT) WITH ('connector' = 'blackhole');"
        "EXECUTE STATEMENT SET BEGIN"
        " INSERT INTO shown SELECT id, customer FROM orders WHERE id > 3;"
        " INSERT INTO cheap SELECT id FROM orders;"
        " INSERT INTO gone SELECT id FROM orders;"
        " INSERT INTO counted SELECT COUNT(*) FROM orders; END;"
    )
    assert rows_read(world) == [6]
    assert capsys.readouterr().out.splitlines() == ["p> +I[4, b]", "p> +I[5, c]", "+I[6]"]
    assert sorted(r["id"] for r in world.values(cheap)) == [*range(6)]
    written = json.loads(world.reports[-1]["sink"]["metrics"]["tables"])
    assert {table: figures["rows"] for table, figures in written.items()} == {
        "shown": 2,
        "cheap": 6,
        "gone": 6,
        "counted": 1,
    }


def test_every_sink_keeps_its_constraints(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    source = world.create(*orders(range(2)), {"id": 2}, {"id": 3, "customer": "dora"})
    world.run(
        f"CREATE TABLE orders (id INT, customer VARCHAR(2)) {world.kafka(source)};"
        "CREATE TABLE shown (id INT, customer VARCHAR(2) NOT NULL) WITH ('connector' = 'print');"
        "CREATE TABLE gone WITH ('connector' = 'blackhole') LIKE shown (EXCLUDING OPTIONS);"
        "SET 'table.exec.sink.not-null-enforcer' = 'DROP';"
        "SET 'table.exec.sink.type-length-enforcer' = 'TRIM_PAD';"
        "INSERT INTO shown SELECT id, customer FROM orders;"
        "INSERT INTO gone SELECT id, customer FROM orders;"
    )
    assert capsys.readouterr().out.splitlines() == ["+I[0, a]", "+I[1, b]", "+I[3, do]"]
    assert world.losses == {"shown: NULL in customer": 1, "gone: NULL in customer": 1}

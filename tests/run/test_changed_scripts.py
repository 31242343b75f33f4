"""A script that has changed over its checkpoint: it goes on, is refused by the node that differs, or starts anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from world import World, forget_last_commit, job_directory

from tidemill.errors import Diagnostic, JobError

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

ORDERS = "CREATE TABLE orders (id INT, customer STRING) "
COPY = "CREATE TABLE copy (id INT, customer STRING) "
TOTALS = "CREATE TABLE totals (customer STRING, n BIGINT, PRIMARY KEY (customer) NOT ENFORCED) "
ONCE = {"sink_delivery__guarantee": "exactly-once"}


def orders(numbers: range) -> list[dict[str, object]]:
    return [{"id": n, "customer": "abc"[n % 3]} for n in numbers]


def facts(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / "tidemill.json").read_text())
    return found


def change(directory: Path, **changed: Any) -> None:
    """Rewrite what a checkpoint says of its job; None takes a fact away."""
    now = {k: v for k, v in {**facts(directory), **changed}.items() if v is not None}
    place = directory / "tidemill.json"
    (directory / ".tidemill.json.crc").unlink(missing_ok=True)
    place.write_text(json.dumps(now))


def refusal(world: World, script: str, **settings: str) -> Diagnostic:
    with pytest.raises(JobError) as refused:
        world.run(script, keep=True, **settings)
    [found] = refused.value.diagnostics
    return found


def counted(world: World, topic: str) -> dict[str, int]:
    return {row["customer"]: row["n"] for row in world.table(topic).values() if row is not None}


def test_what_comes_after_the_state_may_change_and_options_of_formats(world: World) -> None:
    source, totals = world.create(*orders(range(6)), partitions=2), world.create(hint="totals")
    upsert = world.upsert(totals)
    world.run(
        f"{ORDERS}{world.kafka(source)}; {TOTALS}{upsert};"
        "INSERT INTO totals SELECT customer, COUNT(*) FROM orders GROUP BY customer",
        keep=True,
    )
    before = facts(job_directory(world))
    world.produce(source, "no JSON at all", *orders(range(6, 9)))
    world.run(
        f"{ORDERS}{world.kafka(source, json_ignore__parse__errors='true')}; {TOTALS}{upsert};"
        "INSERT INTO totals SELECT buyer, 100 + n FROM"
        " (SELECT customer AS buyer, COUNT(*) AS n FROM orders GROUP BY customer) AS x WHERE n > 2",
        keep=True,
    )
    assert counted(world, totals) == {"a": 103, "b": 103, "c": 103}
    assert facts(job_directory(world))["job"] == before["job"]


@pytest.mark.parametrize("options", [{}, ONCE], ids=["at-least-once", "exactly-once"])
def test_another_operator_is_refused_by_name_or_starts_anew(
    world: World, options: dict[str, str]
) -> None:
    source, totals = world.create(*orders(range(6)), partitions=2), world.create(hint="totals")
    tables = f"{ORDERS}{world.kafka(source)}; {TOTALS}{world.upsert(totals, **options)};"
    world.run(
        f"{tables} INSERT INTO totals SELECT customer, COUNT(*) FROM orders GROUP BY customer",
        keep=True,
    )
    world.produce(source, *orders(range(6, 9)))
    written = len(world.records(totals))
    directory = job_directory(world)
    before = facts(directory)
    changed = f"{tables} INSERT INTO totals SELECT customer, SUM(id) FROM orders GROUP BY customer"
    found = refusal(world, changed)
    assert found.code == "RUN-034"
    assert found.message == (
        "the checkpoint was made by another query:"
        " it has GroupAggregate(groupBy=[customer], select=[customer, COUNT(*) AS EXPR$0]),"
        " where the script has GroupAggregate(groupBy=[customer], select=[customer, SUM(id) AS EXPR$0])"
    )
    assert "--reset-state" in str(found.hint)
    assert len(world.records(totals)) == written
    assert facts(directory) == before

    world.run(changed, keep=True, reset_state=True)
    # From the beginning, as scan.startup.mode says, and under an id of its own: no batch is taken for an old one.
    assert counted(world, totals) == {"a": 9, "b": 12, "c": 15}
    assert facts(directory)["job"] != before["job"]
    [aside] = directory.parent.glob("*.old-*")
    assert facts(aside) == before
    assert [n for n in world.notices if f"kept in {aside.as_uri()}" in n], world.notices

    # One that fits goes on, also where a state could be reset.
    after = facts(directory)
    world.produce(source, *orders(range(9, 12)))
    world.run(changed, keep=True, reset_state=True)
    assert counted(world, totals) == {"a": 18, "b": 22, "c": 26}
    assert facts(directory) == after
    assert len(list(directory.parent.glob("*.old-*"))) == 1


def test_what_feeds_the_state_is_refused(world: World) -> None:
    source, totals = world.create(*orders(range(6))), world.create(hint="totals")
    tables = f"{ORDERS}{world.kafka(source)}; {TOTALS}{world.upsert(totals)};"
    query = "INSERT INTO totals SELECT customer, COUNT(*) FROM orders {} GROUP BY customer"
    world.run(tables + query.format(""), keep=True)
    found = refusal(world, tables + query.format("WHERE id > 3"))
    assert found.code == "RUN-034"
    assert "it knows nothing of Calc(where=[>(id, 3)]), which feeds GroupAggregate" in found.message
    other = world.create(hint="other")
    moved = f"{ORDERS}{world.kafka(other)}; {TOTALS}{world.upsert(totals)};"
    found = refusal(world, moved + query.format(""))
    assert f"topic=[{source}]" in found.message
    assert f"topic=[{other}]" in found.message
    assert found.span is not None
    assert found.span.text == "orders"


def test_a_job_without_state_goes_on_over_the_same_topics(world: World) -> None:
    source, copied = world.create(*orders(range(3))), world.create(hint="copy")
    sink = f"{COPY}{world.kafka(copied)};"
    world.run(
        f"{ORDERS}{world.kafka(source)}; {sink} INSERT INTO copy SELECT * FROM orders", keep=True
    )
    more = world.create(*orders(range(10, 12)), hint="more")
    world.produce(source, *orders(range(3, 6)))
    world.run(
        f"{ORDERS}{world.kafka(f'{source};{more}')}; {sink}"
        "INSERT INTO copy SELECT id * 100, UPPER(customer) FROM orders WHERE id <> 4",
        keep=True,
    )
    assert sorted(row["id"] for row in world.values(copied)) == [0, 1, 2, 300, 500, 1000, 1100]
    found = refusal(
        world,
        f"{ORDERS}{world.kafka(source)}; {sink}"
        "INSERT INTO copy SELECT * FROM orders UNION ALL SELECT id, 'again' FROM orders",
    )
    assert found.code == "RUN-034"
    state = (
        "CREATE TABLE copy (customer STRING, n BIGINT, PRIMARY KEY (customer) NOT ENFORCED)"
        f"{world.upsert(copied)}; INSERT INTO copy SELECT customer, COUNT(*) FROM orders GROUP BY customer"
    )
    assert (
        "it knows nothing of GroupAggregate"
        in refusal(world, f"{ORDERS}{world.kafka(f'{source};{more}')}; {state}").message
    )
    # The number of offsets is that of the scans, though a table is read once for all of them.
    assert "it has kafka(topic=[" in found.message


def test_a_table_that_is_read_twice_has_its_offsets_twice(world: World) -> None:
    source, copied = world.create(*orders(range(3))), world.create(hint="copy")
    tables = f"{ORDERS}{world.kafka(source)}; {COPY}{world.kafka(copied)};"
    twice = "INSERT INTO copy SELECT * FROM orders UNION ALL SELECT id + 100, 'again' FROM orders"
    world.run(tables + twice, keep=True)
    log = (job_directory(world) / "offsets" / "0").read_text().splitlines()
    assert len(log) == 2 + 2
    world.produce(source, *orders(range(3, 4)))
    world.run(tables + twice, keep=True)
    assert sorted(row["id"] for row in world.values(copied)) == [0, 1, 2, 3, 100, 101, 102, 103]
    found = refusal(world, tables + "INSERT INTO copy SELECT * FROM orders")
    assert f"it has kafka(topic=[{source}]), and the script no longer does" in found.message


def test_a_set_with_another_sink_says_that_it_starts_fresh(world: World) -> None:
    source, totals = world.create(*orders(range(3))), world.create(hint="totals")
    copied = world.create(hint="copy")
    tables = (
        f"{ORDERS}{world.kafka(source)}; {TOTALS}{world.upsert(totals)};"
        f"{COPY}{world.kafka(copied)};"
    )
    query = "INSERT INTO totals SELECT customer, COUNT(*) FROM orders GROUP BY customer;"
    world.run(tables + query, keep=True)
    assert not [n for n in world.notices if "starts fresh" in n]
    more = f"BEGIN STATEMENT SET; {query} INSERT INTO copy SELECT * FROM orders; END;"
    world.run(tables + more, keep=True)
    [said] = [n for n in world.notices if "starts fresh" in n]
    assert "totals+copy: starts fresh; the checkpoint 'totals' beside it" in said


def test_a_checkpoint_of_an_earlier_release_is_taken_as_it_is(world: World) -> None:
    source, totals = world.create(*orders(range(3))), world.create(hint="totals")
    script = (
        f"{ORDERS}{world.kafka(source)}; {TOTALS}{world.upsert(totals)};"
        "INSERT INTO totals SELECT customer, COUNT(*) FROM orders GROUP BY customer"
    )
    world.run(script, keep=True)
    directory = job_directory(world)
    complete = facts(directory)
    change(directory, fingerprint=None, parallelism=7)
    world.produce(source, *orders(range(3, 6)))
    world.run(script, keep=True)
    assert counted(world, totals) == {"a": 2, "b": 2, "c": 2}
    assert facts(directory) == complete
    change(directory, fingerprint={**complete["fingerprint"], "version": 99})
    assert refusal(world, script).code == "RUN-035"


def test_state_keeps_its_parallelism(world: World) -> None:
    source, totals = world.create(*orders(range(3))), world.create(hint="totals")
    script = (
        f"{ORDERS}{world.kafka(source)}; {TOTALS}{world.upsert(totals)};"
        "INSERT INTO totals SELECT customer, COUNT(*) FROM orders GROUP BY customer"
    )
    world.run(script, keep=True, parallelism_default="3")
    assert not [n for n in world.notices if "for a parallelism of" in n]
    world.produce(source, *orders(range(3, 6)))
    world.run(script, keep=True, parallelism_default="2")
    assert counted(world, totals) == {"a": 2, "b": 2, "c": 2}
    assert facts(job_directory(world))["parallelism"] == 3
    [said] = [n for n in world.notices if "for a parallelism of" in n]
    assert "the state in the checkpoint is for a parallelism of 3" in said
    assert "tidemill state repartition" in said


def test_an_open_batch_of_exactly_once_writers_needs_the_query_that_began_it(world: World) -> None:
    source, copied = world.create(*orders(range(4))), world.create(hint="copy")
    tables = f"{ORDERS}{world.kafka(source)}; {COPY}{world.kafka(copied, **ONCE)};"
    query = "INSERT INTO copy SELECT id, {} FROM orders"
    world.run(tables + query.format("customer"), keep=True)
    forget_last_commit(world)
    # What a row holds may be mended: it stays with its writer, who has written it or has not.
    world.produce(source, *orders(range(4, 8)))
    world.run(tables + query.format("UPPER(customer)"), keep=True)
    assert sorted(row["id"] for row in world.values(copied)) == list(range(8))
    assert {row["customer"] for row in world.values(copied) if row["id"] >= 4} == set("ABC")
    world.run(tables + query.format("customer"), keep=True)
    forget_last_commit(world)
    # The rows of another plan have other writers.
    moved = (
        f"{ORDERS}{world.kafka(source)}; {COPY}{world.kafka(copied, **ONCE, sink_parallelism='2')};"
    )
    world.run(moved + query.format("customer"), keep=True, reset_state=True)
    forget_last_commit(world)
    found = refusal(world, moved + query.format("LOWER(customer)"))
    assert found.code == "RUN-033"
    assert "and the query has changed" in found.message
    world.run(moved + query.format("customer"), keep=True)

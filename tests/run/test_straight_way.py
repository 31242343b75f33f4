"""A scan whose records the kernel decodes itself, up to the ones that only Python can judge."""

from __future__ import annotations

import json

import pytest
from world import World

from tidemill.broker.records import Record
from tidemill.errors import JobError
from tidemill.spark import source

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def script(world: World, topic: str, target: str) -> str:
    return f"""
    CREATE TABLE src (
      id INT, name STRING, inner_ ROW<a INT, b STRING>, `offset` BIGINT METADATA VIRTUAL
    ) {world.kafka(topic)};
    CREATE TABLE dst (id INT, name STRING, a INT, b STRING, `offset` BIGINT) {world.kafka(target)};
    INSERT INTO dst SELECT id, name, inner_.a, inner_.b, `offset` FROM src;
    """


def plain(i: int) -> bytes:
    return json.dumps({"id": i, "name": f"n{i}", "inner_": {"a": -i}}).encode()


def odd(i: int) -> bytes:
    """A number as a text, which only the exact way reads as Flink does."""
    return json.dumps({"id": str(i), "name": f"n{i}", "inner_": {"a": -i}}).encode()


def expected(i: int) -> dict[str, object]:
    return {"id": i, "name": f"n{i}", "a": -i, "b": None, "offset": i}


def python_records(world: World) -> int:
    return max(int(report["sources"][0]["metrics"]["inPython"]) for report in world.reports)


def test_plain_records_do_not_go_to_python(world: World) -> None:
    topic, target = world.create(*map(plain, range(500))), world.create()
    world.run(script(world, topic, target))
    assert world.values(target) == list(map(expected, range(500)))
    assert python_records(world) == 0


def test_odd_records_keep_their_place(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some apart from each other by more than Python reads at once, some one after the other, also the last."""
    count = 30_000
    odds = {0, 5, 9_000, 9_001, 29_000, count - 1}
    records = [odd(i) if i in odds else plain(i) for i in range(count)]
    topic, target, without = world.create(*records), world.create(), world.create()
    world.run(script(world, topic, target))
    assert world.values(target) == list(map(expected, range(count)))
    assert len(odds) < python_records(world) < count
    monkeypatch.setattr(source, "straight_way", lambda *_: None)
    world.run(script(world, topic, without))
    assert world.values(without) == world.values(target)


def test_a_bad_record_after_many_good_ones_is_named(world: World) -> None:
    records = [*map(plain, range(100)), b'{"id": 1, "name"', *map(plain, range(5))]
    topic, target = world.create(*records), world.create()
    with pytest.raises(JobError) as failure:
        world.run(script(world, topic, target))
    assert "partition 0, offset 100" in str(failure.value)


def test_records_without_a_value_are_counted(world: World) -> None:
    topic = world.create(plain(0), Record(None), plain(2))
    target = world.create()
    world.run(script(world, topic, target))
    assert world.values(target) == [expected(0), expected(2)]
    assert world.losses == {"src: null value": 1}


def test_fields_of_a_row_that_nobody_reads_are_not_looked_at(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [
        {"id": 1, "inner_": {"a": "no number", "b": "one", "c": {"d": 1.5, "e": [1]}}},
        {"id": "2", "inner_": {"b": "two", "c": None}},
        {"id": 3, "inner_": None},
        {"id": 4, "inner_": {"c": {"d": 2, "e": 3}, "a": 7}},
    ]
    topic, target, without = world.create(*records), world.create(), world.create()

    def copy(target: str) -> str:
        return f"""
        CREATE TABLE src (id INT, inner_ ROW<a INT, b STRING, c ROW<d DOUBLE, e INT>>) {world.kafka(topic)};
        CREATE TABLE dst (id INT, b STRING, d DOUBLE) {world.kafka(target)};
        INSERT INTO dst SELECT id, inner_.b, inner_.c.d FROM src WHERE inner_.c.d IS NULL OR inner_.c.d < 9;
        """

    world.run(copy(target))
    assert [tuple(row.values()) for row in world.values(target)] == [
        (1, "one", 1.5),
        (2, "two", None),
        (3, None, None),
        (4, None, 2.0),
    ]
    monkeypatch.setattr(source, "straight_way", lambda *_: None)
    world.run(copy(without))
    assert world.values(without) == world.values(target)

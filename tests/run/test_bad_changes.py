"""Streams of changes that are wrong: each line of the table in docs/changes.md, from topic to topic, with its counter.

A line is a case, or several, by its own words; all cases that want the same settings are one job."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from world import World

from tidemill.broker import Broker
from tidemill.broker.records import Record
from tidemill.errors import JobError

Row = tuple[Any, ...]


# --- what comes ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """A table and the records of its topic."""

    columns: str
    records: Sequence[Any]
    options: Mapping[str, str] = field(default_factory=dict)
    partitions: int = 1

    def ddl(self, world: World, name: str, dead_letters: str) -> str:
        topic = world.create(hint=name, partitions=self.partitions)
        records = [self._record(r) for r in self.records]
        world.produce(topic, *records)
        given = {
            key.replace("-", "__").replace(".", "_"): value.replace("DEAD LETTERS", dead_letters)
            for key, value in self.options.items()
        }
        is_upsert = any(isinstance(r, Upsert) for r in self.records)
        form = (
            world.upsert(topic, **given)
            if is_upsert
            else world.kafka(topic, **{"format": "debezium-json", **given})
        )
        return f"CREATE TABLE {name} ({self.columns}) {form};"

    def _record(self, record: Any) -> Any:
        """Rows are written by their columns' names."""
        names = re.findall(r"`?(\w+)`? (?:INT|BIGINT|STRING|DECIMAL)", self.columns)

        def document(row: Row | None) -> dict[str, Any] | None:
            return None if row is None else dict(zip(names, row, strict=True))

        match record:
            case Change(old, new):
                word = "u" if old and new else "c" if new else "d"
                return {"before": document(old), "after": document(new), "op": word}
            case Upsert(key, row, partition):
                packed = None if key is None else json.dumps({names[0]: key}).encode()
                value = None if row is None else json.dumps(document(row)).encode()
                return Record(value, packed, partition=partition)
        return record


@dataclass(frozen=True)
class Change:
    """Of a database: the row before and the row after."""

    old: Row | None
    new: Row | None


@dataclass(frozen=True)
class Upsert:
    """Of an upsert table; without a row it is a delete."""

    key: Any
    row: Row | None = None
    partition: int | None = None


def added(*row: Any) -> Change:
    return Change(None, row)


def removed(*row: Any) -> Change:
    return Change(row, None)


# --- what becomes of it --------------------------------------------------------------------------


@dataclass(frozen=True)
class Query:
    """Into a table of its own: an upsert table if it has a key, else a log of changes."""

    columns: str
    select: str
    expected: Sequence[Row]
    """The rows of the table in the end, or the changes in their order, each behind `+` or `-`."""

    @property
    def has_key(self) -> bool:
        return "PRIMARY KEY" in self.columns


@dataclass(frozen=True)
class Case:
    line: str
    """The first column of the table in docs/changes.md."""
    sources: Mapping[str, Source]
    queries: Mapping[str, Query]
    counted: Mapping[str, int]
    """All that is counted under the names of this case."""
    job: str = "plain"


SETTINGS: dict[str, dict[str, str]] = {
    "plain": {"table.exec.sink.not-null-enforcer": "DROP"},
    "duplicates": {"table.exec.source.cdc-events-duplicate": "true"},
    "row by row": {"tidemill.batch.max-rows": "1"},
}
"""The jobs; without more parallelism than they need, because each has many operators."""

UNKNOWN = "a delete of a row that is not there, or `-U` that matches none"
KNOWN = "an insert of a key that is there, where the key is known (ChangelogNormalize)"
KEY_CHANGE = "an update of a CDC table that changes its PRIMARY KEY"
WRONG_TYPE = "a value of another type than before"

ID = "PRIMARY KEY (id) NOT ENFORCED"
PLACE = "PRIMARY KEY (place) NOT ENFORCED"
MOST = 2**31 - 1
NINES = "9" * 38

# After its schema has changed, the second record holds a text for a number.
AFTER_CHANGE = [Upsert(1, (1, 10)), Upsert(2, (2, "twenty")), Upsert(3, (3, 30))]

CASES = {
    # An aggregate that keeps no rows takes away what it is told to, as in Flink; one without rows has none to take.
    "aggregate": Case(
        UNKNOWN,
        {
            "stock": Source(
                "item STRING, place STRING, n INT",
                [
                    removed("milk", "Kiel", 1),
                    added("tea", "Ulm", 5),
                    Change(("tea", "Ulm", 4), ("tea", "Ulm", 6)),
                    Change(("rice", "Bonn", 1), ("rice", "Bonn", 2)),
                ],
            )
        },
        {
            "stock_sums": Query(
                f"place STRING, rows_ BIGINT, total INT, {PLACE}",
                "SELECT place, COUNT(*), SUM(n) FROM stock GROUP BY place",
                [("Bonn", 1, 2), ("Ulm", 1, 7)],
            )
        },
        {"stock: delete of an unknown row": 2},
    ),
    "join, Top-N and sink": Case(
        UNKNOWN,
        {
            "goods": Source(
                "item STRING, place STRING, n INT",
                [
                    removed("milk", "Ulm", 1),
                    added("tea", "Ulm", 5),
                    Change(("tea", "Ulm", 4), ("tea", "Ulm", 6)),
                ],
            ),
            "places": Source("place STRING, land STRING", [added("Ulm", "BW")]),
        },
        {
            "goods_joined": Query(
                "item STRING, n INT, land STRING",
                "SELECT g.item, g.n, p.land FROM goods AS g JOIN places AS p ON g.place = p.place",
                [("+", "tea", 5, "BW"), ("+", "tea", 6, "BW")],
            ),
            "goods_ranked": Query(
                f"place STRING, item STRING, n INT, {PLACE}",
                "SELECT place, item, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY place ORDER BY n DESC) AS r"
                " FROM goods) WHERE r <= 1",
                [("Ulm", "tea", 6)],
            ),
            "goods_kept": Query(
                f"place STRING, item STRING, n INT, {PLACE}",
                "SELECT place, item, n FROM goods",
                [("Ulm", "tea", 6)],
            ),
        },
        {
            "Join of goods and places: delete of an unknown row": 2,
            "Rank of goods: delete of an unknown row": 2,
            "table 'goods_kept': delete of an unknown row": 2,
        },
    ),
    "upsert table": Case(
        UNKNOWN,
        {
            "prices": Source(
                f"id INT, cents INT, {ID}", [Upsert(7), Upsert(1, (1, 5)), Upsert(1), Upsert(1)]
            )
        },
        {"prices_log": Query("id INT, cents INT", "SELECT * FROM prices", [])},
        {"prices: delete of an unknown row": 2},
    ),
    "repeated insert": Case(
        KNOWN,
        {
            "people": Source(
                f"id INT, name STRING, {ID}",
                [added(1, "ann"), added(1, "ann"), added(2, "bob"), added(1, "anna")],
            )
        },
        {
            "people_counted": Query(
                "name STRING, n BIGINT, PRIMARY KEY (name) NOT ENFORCED",
                "SELECT name, COUNT(*) FROM people GROUP BY name",
                [("anna", 1), ("bob", 1)],
            )
        },
        {"people: insert of a known row": 2},
        "duplicates",
    ),
    "repeated insert without a key": Case(
        "an insert that comes twice without a key to know it by",
        {"clicks": Source("page STRING", [added("home"), added("home")])},
        {
            "clicks_counted": Query(
                "page STRING, n BIGINT, PRIMARY KEY (page) NOT ENFORCED",
                "SELECT page, COUNT(*) FROM clicks GROUP BY page",
                [("home", 2)],
            )
        },
        {},
    ),
    "changed key": Case(
        KEY_CHANGE,
        {
            "users": Source(
                f"id INT, name STRING, {ID}",
                [added(1, "ann"), added(2, "bob"), Change((1, "ann"), (7, "ann"))],
            )
        },
        {
            "users_log": Query(
                "id INT, name STRING",
                "SELECT * FROM users",
                [("+", 1, "ann"), ("+", 2, "bob"), ("-", 1, "ann"), ("+", 7, "ann")],
            ),
            "users_counted": Query(
                "is_late BOOLEAN, n BIGINT, PRIMARY KEY (is_late) NOT ENFORCED",
                "SELECT id > 5, COUNT(*) FROM users GROUP BY id > 5",
                [(False, 1), (True, 1)],
            ),
            # Nobody asks for the row before, as in Flink.
            "users_copied": Query(
                f"id INT, name STRING, {ID}",
                "SELECT * FROM users",
                [(1, "ann"), (2, "bob"), (7, "ann")],
            ),
        },
        {"users: update that changes the key": 1},
    ),
    "changed key of changes that may come twice": Case(
        KEY_CHANGE,
        {
            "members": Source(
                f"id INT, name STRING, {ID}",
                [added(1, "ann"), Change((1, "ann"), (7, "ann"))],
            )
        },
        {
            "members_counted": Query(
                "name STRING, n BIGINT, PRIMARY KEY (name) NOT ENFORCED",
                "SELECT name, COUNT(*) FROM members GROUP BY name",
                [("ann", 2)],
            ),
        },
        {"members: update that changes the key": 1},
        "duplicates",
    ),
    "several partitions": Case(
        "a key in several partitions of an upsert table",
        {
            "rates": Source(
                f"id INT, cents INT, {ID}",
                [
                    Upsert(1, (1, 10), partition=0),
                    Upsert(1, (1, 20), partition=1),
                    Upsert(2, (2, 5), partition=1),
                ],
                partitions=2,
            )
        },
        {
            "rates_log": Query(
                "id INT, cents INT", "SELECT * FROM rates WHERE id = 1", [("+", 1, 20)]
            )
        },
        {"rates: key in several partitions": 1},
    ),
    "no key": Case(
        "an upsert without a key",
        {
            "tags": Source(
                f"id INT, tag STRING, {ID}",
                [Upsert(1, (1, "a")), Upsert(None, (2, "b")), Upsert(None)],
            )
        },
        {"tags_copied": Query(f"id INT, tag STRING, {ID}", "SELECT * FROM tags", [(1, "a")])},
        {"tags: null value as key": 2},
    ),
    "NULL in a sink's key": Case(
        "NULL in a column of the sink's key",
        {"pets": Source("id INT, name STRING", [added(1, "rex"), added(None, "tom")])},
        {"pets_kept": Query(f"id INT, name STRING, {ID}", "SELECT * FROM pets", [(1, "rex")])},
        {"pets_kept: NULL in id": 1},
    ),
    "NULL in a joined column": Case(
        "NULL in a column that is joined by `=`",
        {
            "orders": Source(
                "id INT, customer INT",
                [added(1, 10), added(2, None), Change((2, None), (3, None)), removed(3, None)],
            ),
            "customers": Source("customer INT, name STRING", [added(10, "ann"), added(None, "?")]),
        },
        {
            "orders_joined": Query(
                "id INT, name STRING",
                "SELECT o.id, c.name FROM orders AS o JOIN customers AS c ON o.customer = c.customer",
                [("+", 1, "ann")],
            ),
            "orders_all": Query(
                f"id INT, name STRING, {ID}",
                "SELECT o.id, c.name FROM orders AS o FULL JOIN customers AS c ON o.customer = c.customer"
                " WHERE o.id IS NOT NULL",
                [(1, "ann")],
            ),
        },
        {"Join of orders and customers: NULL in a joined column": 2 * 3},
    ),
    "overflow": Case(
        "SUM beyond its type",
        {
            "payments": Source(
                "k STRING, n INT, amount DECIMAL(38, 0)",
                [added("a", MOST, NINES), added("a", 1, "1"), removed("a", MOST, NINES)],
            )
        },
        {
            "payments_summed": Query(
                "n INT, amount DECIMAL(38, 0)",
                "SELECT SUM(n), SUM(amount) FROM payments",
                [
                    ("+", MOST, int(NINES)),
                    ("-", MOST, int(NINES)),
                    ("+", -MOST - 1, None),
                    ("-", -MOST - 1, None),
                    ("+", 1, 1),
                ],
            )
        },
        {"payments: sum that does not fit its type": 2},
        "row by row",
    ),
    "number of rows": Case(
        "a Top-N that takes its number of rows from a column, and another number than the partition's first row had",
        {"scores": Source("g STRING, n INT, most BIGINT", [added("a", 1, 2), added("a", 2, 9)])},
        {
            "scores_ranked": Query(
                "n INT, PRIMARY KEY (n) NOT ENFORCED",
                "SELECT n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY n) AS r FROM scores)"
                " WHERE r <= most",
                [(1,), (2,)],
            )
        },
        {"Rank of scores: row with another number of rows to keep than its partition's first": 1},
    ),
    "wrong type, skipped": Case(
        WRONG_TYPE,
        {"skipping": Source(f"id INT, n INT, {ID}", AFTER_CHANGE, {"scan.bad-records": "skip"})},
        {"skipped": Query(f"id INT, n INT, {ID}", "SELECT * FROM skipping", [(1, 10), (3, 30)])},
        {"skipping: bad record": 1},
    ),
    "wrong type, kept aside": Case(
        WRONG_TYPE,
        {
            "sorting": Source(
                f"id INT, n INT, {ID}",
                AFTER_CHANGE,
                {"scan.bad-records": "dead-letter", "scan.dead-letter.topic": "DEAD LETTERS"},
            )
        },
        {"sorted": Query(f"id INT, n INT, {ID}", "SELECT * FROM sorting", [(1, 10), (3, 30)])},
        {"sorting: bad record, in the dead-letter topic": 1},
    ),
    "wrong type, NULL": Case(
        WRONG_TYPE,
        {
            "forgiving": Source(
                f"id INT, n INT, {ID}", AFTER_CHANGE, {"value.json.ignore-parse-errors": "true"}
            )
        },
        {
            "forgiven": Query(
                f"id INT, n INT, {ID}", "SELECT * FROM forgiving", [(1, 10), (2, None), (3, 30)]
            )
        },
        {"forgiving: value that cannot be read and is NULL": 1},
    ),
}

ELSEWHERE = {
    "several rows of a subquery that stands for one value": (
        "test_joins.py::test_several_rows_of_a_scalar_subquery_stop_the_job"
    ),
    "a name that is twice in a JSON_OBJECTAGG": (
        "test_aggregates.py::test_key_that_is_twice_in_a_json_object_stops_the_job"
    ),
    "state that is missing or damaged": "test_state_files.py::test_damage_is_named_before_anything_is_written",
}
"""Lines of the table that other tests are for."""


# --- the jobs ------------------------------------------------------------------------------------


@dataclass
class Ran:
    world: World
    topics: dict[str, str]
    dead_letters: str

    def found(self, name: str, query: Query) -> list[Row]:
        if query.has_key:
            rows = self.world.table(self.topics[name]).values()
            return sorted((tuple(row.values()) for row in rows), key=repr)
        return [
            ("+", *change["after"].values())
            if change["op"] == "c"
            else ("-", *change["before"].values())
            for change in self.world.values(self.topics[name])
        ]


@pytest.fixture(scope="module")
def ran(
    broker: Broker, spark: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Ran]]:
    """Runs a job when it is asked for first."""
    done: dict[str, Ran] = {}

    def once(job: str) -> Ran:
        if job not in done:
            place = tmp_path_factory.mktemp("bad")
            world = World(
                broker, spark, lambda hint="t": f"bad-{job.replace(' ', '-')}-{hint}", place
            )
            done[job] = run_all(world, job)
        return done[job]

    yield once


def run_all(world: World, job: str) -> Ran:
    cases = [case for case in CASES.values() if case.job == job]
    dead_letters = world.create(hint="dead-letters")
    tables, inserts, topics = [], [], {}
    for case in cases:
        tables += [source.ddl(world, name, dead_letters) for name, source in case.sources.items()]
        for name, query in case.queries.items():
            topics[name] = topic = world.create(hint=name)
            form = (
                world.upsert(topic) if query.has_key else world.kafka(topic, format="debezium-json")
            )
            tables.append(f"CREATE TABLE {name} ({query.columns}) {form};")
            inserts.append(f"INSERT INTO {name} {query.select};")
    statements = "\n".join([*tables, "EXECUTE STATEMENT SET BEGIN", *inserts, "END"])
    given = {
        key.replace("-", "__").replace(".", "_"): value
        for key, value in {**SETTINGS[job], "parallelism.default": "1"}.items()
    }
    world.run(statements, **given)
    return Ran(world, topics, dead_letters)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.spark
@pytest.mark.kafka
def test_what_comes_has_one_outcome_and_is_counted(name: str, ran: Callable[[str], Ran]) -> None:
    case = CASES[name]
    job = ran(case.job)
    for sink, query in case.queries.items():
        assert job.found(sink, query) == list(query.expected), sink
    words = {*case.sources, *case.queries}
    counted = {**job.world.losses, **job.world.oddities}
    assert {
        what: number
        for what, number in counted.items()
        if words & set(re.findall(r"\w+", what.rpartition(": ")[0]))
    } == case.counted


@pytest.mark.spark
@pytest.mark.kafka
def test_a_key_in_several_partitions_is_warned_of(ran: Callable[[str], Ran]) -> None:
    told = [notice for notice in ran("plain").world.notices if "several partitions" in notice]
    assert len(told) == 1 and "table 'rates' has a key in several partitions" in told[0]


@pytest.mark.spark
@pytest.mark.kafka
def test_what_was_kept_aside_is_the_record_as_it_was(ran: Callable[[str], Ran]) -> None:
    job = ran("plain")
    [letter] = job.world.records(job.dead_letters)
    assert (letter.key, letter.value) == (b'{"id": 2}', b'{"id": 2, "n": "twenty"}')


STOPS = {
    "wrong type": (
        f"id INT, n INT, {ID}",
        AFTER_CHANGE,
        "RUN-010",
        "a record's value cannot be read as json: .*offset 1, field 'n'",
    ),
    "NULL in a sink's key": (
        "id INT, n INT",
        [added(1, 10), added(None, 20)],
        "RUN-011",
        "Column 'id' is NOT NULL",
    ),
}


@pytest.mark.parametrize("name", STOPS)
@pytest.mark.spark
@pytest.mark.kafka
def test_a_job_that_is_told_nothing_else_stops(world: World, name: str) -> None:
    columns, records, code, words = STOPS[name]
    source = Source(columns, records).ddl(world, "src", "")
    target = world.create()
    with pytest.raises(JobError, match=words) as raised:
        world.run(
            f"{source} CREATE TABLE dst (id INT, n INT, {ID}) {world.upsert(target)};"
            "INSERT INTO dst SELECT * FROM src"
        )
    assert raised.value.diagnostics[0].code == code


# --- the page ------------------------------------------------------------------------------------


def lines_of_the_page() -> dict[str, set[str]]:
    """What comes, and under which names it is counted."""
    page = (Path(__file__).parents[2] / "docs" / "changes.md").read_text(encoding="utf-8")
    table = page.partition("| what comes |")[2].partition("\n\n")[0]
    rows = [row.strip("|").split(" | ") for row in table.splitlines()[2:]]
    return {row[0].strip(): set(re.findall(r"`([^`]+)`", row[2])) for row in rows}


def test_every_line_of_the_page_has_a_case() -> None:
    lines = lines_of_the_page()
    cases: dict[str, set[str]] = {}
    for case in CASES.values():
        names = {what.rpartition(": ")[2] for what in case.counted}
        cases.setdefault(case.line, set()).update(
            re.sub("^NULL in id$", "NULL in …", n) for n in names
        )
    assert {**cases, **dict.fromkeys(ELSEWHERE, set())} == lines
    for test in ELSEWHERE.values():
        file, _, function = test.partition("::")
        text = Path(__file__).with_name(file).read_text(encoding="utf-8")
        assert f"def {function}(" in text

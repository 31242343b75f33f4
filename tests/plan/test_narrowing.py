"""What a query asks of its scans: the fields of ROW columns, and what rows must fulfil."""

from __future__ import annotations

import pytest

from tidemill.errors import Source
from tidemill.plan import nodes
from tidemill.plan.environment import Environment, Job, compile_script
from tidemill.plan.expressions import conjunction, describe
from tidemill.plan.narrowing import Part, asked_of_scans, narrowed, together
from tidemill.sql import parse_script

EVENTS = """
CREATE TABLE events (
  kind INT, a ROW<x INT, y STRING, z ROW<u INT, v INT>>, b ROW<x INT, ts TIMESTAMP(3)>,
  ts AS CASE kind WHEN 0 THEN CAST(a.y AS TIMESTAMP(3)) ELSE b.ts END,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH (
  'connector' = 'kafka', 'properties.bootstrap.servers' = 'b:9092', 'topic' = 't', 'format' = 'json');
CREATE VIEW firsts AS SELECT a.x, a.y, a.z, ts FROM events WHERE kind = 0;
CREATE VIEW seconds AS SELECT b.x, b.ts AS own, ts FROM events WHERE kind = 1;
"""


def job_of(sql: str) -> Job:
    script = parse_script(Source("s.sql", EVENTS + sql))
    [job] = [found for found in compile_script(script, Environment()) if isinstance(found, Job)]
    return job


def asked(sql: str) -> list[tuple[dict[str, str], list[str]]]:
    """Of each scan, what is read of its columns, and what its rows must fulfil."""
    roots = job_of(sql).roots
    found = asked_of_scans(roots)
    scans = [n for root in roots for n in nodes.walk(root) if isinstance(n, nodes.Scan)]
    return [
        (
            dict(zip(scan.names, map(shown, found[id(scan)].parts), strict=True)),
            [describe(conjunction(c)) for c in found[id(scan)].conditions],
        )
        for scan in scans
    ]


def shown(part: Part) -> str:
    if part is None:
        return "all"
    return " ".join(sorted(n if p is None else f"{n}({shown(p)})" for n, p in part.items()))


FIELDS = {
    "fields that are selected": ("SELECT a.x, a.z.u FROM events", {"a": "x z(u)"}),
    "a row as a whole": ("SELECT a.x, a FROM events", {"a": "all"}),
    "an inner row as a whole": ("SELECT a.z, a.z.u FROM events", {"a": "z"}),
    "what a filter reads": (
        "SELECT a.x FROM events WHERE a.z.v > 1 AND b.x = 2",
        {"a": "x z(v)", "b": "x"},
    ),
    "whether a row is there at all": (
        "SELECT a.x FROM events WHERE a IS NOT NULL",
        {"a": "all"},
    ),
    "a row through a subquery": (
        "SELECT q.x FROM (SELECT a AS q, kind FROM events WHERE kind > 1)",
        {"a": "x", "kind": "all"},
    ),
    "keys of a group": ("SELECT a.x, COUNT(*) FROM events GROUP BY a.x", {"a": "x"}),
    "a row as a key": ("SELECT COUNT(*) FROM events GROUP BY b", {"b": "all"}),
    "a computed time": (
        "SELECT x, ts FROM seconds",
        {"kind": "all", "a": "y", "b": "ts x"},
    ),
}


@pytest.mark.parametrize(("sql", "parts"), FIELDS.values(), ids=FIELDS)
def test_fields_are_asked_for(sql: str, parts: dict[str, str]) -> None:
    [(found, _)] = asked(sql)
    assert found == parts


def test_rows_are_asked_for_by_every_scan() -> None:
    sql = "SELECT f.y, s.own FROM firsts AS f JOIN seconds AS s ON f.x = s.x WHERE s.x > 5"
    [(firsts, of_firsts), (seconds, of_seconds)] = asked(sql)
    assert firsts == {"kind": "all", "a": "x y"}
    assert seconds == {"kind": "all", "b": "ts x"}
    assert of_firsts == ["=(kind, 0)"]
    assert of_seconds == ["AND(=(kind, 1), >(FIELD(b, 'x'), 5))"]


def test_what_is_read_once_has_what_any_scan_asks_for() -> None:
    from tidemill.spark.reads import reads_of

    sql = "SELECT f.y, s.own FROM firsts AS f JOIN seconds AS s ON f.x = s.x"
    [read] = reads_of(job_of(sql).roots)
    assert read.is_shared
    assert {name: str(type_) for name, type_ in read.types.items()} == {
        "a": "ROW<`x` INT, `y` STRING>",
        "b": "ROW<`x` INT, `ts` TIMESTAMP(3)>",
    }
    assert read.kept is not None
    assert read.kept.count(" OR ") == 1
    [whole] = reads_of(job_of("SELECT f.y FROM firsts AS f JOIN events AS e ON f.x = e.b.x").roots)
    assert whole.kept is None


def test_a_condition_behind_one_that_is_not_sure_does_not_count() -> None:
    [(_, conditions)] = asked(
        "SELECT kind FROM events WHERE kind > 1 AND RAND() < 0.5 AND 1 / b.x = 1"
    )
    assert conditions == [">(kind, 1)"]


def test_a_condition_above_an_operator_does_not_count() -> None:
    [(_, conditions)] = asked(
        "SELECT * FROM (SELECT kind, COUNT(*) AS c FROM events GROUP BY kind) WHERE c > 1"
    )
    assert conditions == ["TRUE"]


def test_types_have_the_fields_that_are_read_in_their_order() -> None:
    table = next(
        n
        for root in job_of("SELECT a FROM events").roots
        for n in nodes.walk(root)
        if isinstance(n, nodes.Scan)
    )
    row = table.columns[0].type
    assert str(narrowed(row, {"z": {"v": None}, "x": None})) == "ROW<`x` INT, `z` ROW<`v` INT>>"
    assert narrowed(row, None) is row
    assert together({"x": None}, {"z": {"u": None}}) == {"x": None, "z": {"u": None}}
    assert together({"z": {"u": None}}, {"z": None}) == {"z": None}
    assert together(None, {"x": None}) is None

"""Which changes of a script go on from its checkpoint, and how the others are refused; and the laws of fingerprints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.datadriven import Case, check, load
from tidemill.errors import Source
from tidemill.plan import nodes
from tidemill.plan.environment import Environment, Job, compile_script
from tidemill.plan.fingerprint import (
    STATEFUL,
    STATELESS,
    Fingerprint,
    difference,
    fingerprint,
)
from tidemill.sql import parse_script

CASES = Path(__file__).parent / "fingerprints.txt"

_KAFKA = "'connector' = 'kafka', 'properties.bootstrap.servers' = 'b:9092'"
_UPSERT = (
    "'connector' = 'upsert-kafka', 'properties.bootstrap.servers' = 'b:9092',"
    " 'key.format' = 'json', 'value.format' = 'json'"
)
TABLES = f"""
CREATE TABLE t (k BIGINT, v INT, w INT, s STRING) WITH ({_KAFKA}, 'topic' = 't', 'format' = 'json');
CREATE TABLE t2 (k BIGINT, v INT, w INT, s STRING) WITH ({_KAFKA}, 'topic' = 't2', 'format' = 'json');
CREATE TABLE clicks (
  k BIGINT, page STRING, ts TIMESTAMP(3), seen AS PROCTIME(), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ({_KAFKA}, 'topic' = 'clicks', 'format' = 'json');
CREATE TABLE users (k BIGINT, name STRING, age INT, PRIMARY KEY (k) NOT ENFORCED) WITH ({_UPSERT}, 'topic' = 'users');
CREATE TABLE sold (k BIGINT, v INT, PRIMARY KEY (k) NOT ENFORCED) WITH (
  {_KAFKA}, 'topic' = 'sold', 'format' = 'debezium-json');
CREATE TABLE copy (k BIGINT, v BIGINT) WITH ({_KAFKA}, 'topic' = 'copy', 'format' = 'json');
CREATE TABLE copy2 (k BIGINT, v BIGINT) WITH ({_KAFKA}, 'topic' = 'copy2', 'format' = 'json');
CREATE TABLE sums (k BIGINT, v BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ({_UPSERT}, 'topic' = 'sums');
CREATE TABLE words (s STRING, v BIGINT, PRIMARY KEY (s) NOT ENFORCED) WITH ({_UPSERT}, 'topic' = 'words');
CREATE TABLE rows_ (k BIGINT, v BIGINT, s STRING) WITH ({_KAFKA}, 'topic' = 'rows', 'format' = 'debezium-json');
"""


def taken(sql: str) -> Fingerprint:
    environment = Environment()
    compile_script(parse_script(Source("tables.sql", TABLES)), environment)
    answers = compile_script(parse_script(Source("case.sql", sql)), environment)
    [job] = [a for a in answers if isinstance(a, Job)]
    return fingerprint(job.roots, job.modes)


def answer(case: Case) -> str:
    old, _, new = case.input.partition("\nthen\n")
    assert new, f"{case.place}: no line 'then'"
    # The old one comes out of a checkpoint.
    stored = Fingerprint.from_json(json.loads(json.dumps(taken(old).to_json())))
    found = difference(stored, taken(new))
    if found is None:
        return "goes on"
    place = ""
    if found.span is not None:
        line, column = found.span.source.position(found.span.start)
        place = f"{found.span.source.name}:{line}:{column}: "
    return f"{place}{found}"


def test_a_changed_script_goes_on_or_is_refused_by_its_node() -> None:
    check(CASES, answer)


def test_the_file_holds_cases_of_both_kinds() -> None:
    expected = [case.expected for case in load(CASES)]
    assert len(expected) >= 40
    assert expected.count("goes on") >= 15


def test_every_script_goes_on_from_itself() -> None:
    for case in load(CASES):
        for sql in case.input.split("\nthen\n"):
            assert difference(taken(sql), taken(sql)) is None, case.place


def test_every_refusal_is_one_the_other_way_round() -> None:
    """What may change may change back; topics may only be added."""
    for case in load(CASES):
        old, new = case.input.split("\nthen\n")
        back = difference(taken(new), taken(old))
        if case.arguments.get("back") == "refused":
            assert case.expected == "goes on"
            assert back is not None, case.place
        else:
            assert (case.expected == "goes on") == (back is None), case.place


def test_every_node_is_known_to_have_state_or_not() -> None:
    """A new node must be put into one of the two tables."""
    exported = (getattr(nodes, name) for name in nodes.__all__)
    kinds = [k for k in exported if isinstance(k, type) and issubclass(k, nodes.Node)]
    for kind in kinds:
        if kind not in (nodes.Node, nodes.Single):
            assert issubclass(kind, STATEFUL) != issubclass(kind, STATELESS), kind


def test_every_kind_of_node_with_state_is_in_a_case() -> None:
    shown = {
        part.facts["node"]
        for case in load(CASES)
        for sql in case.input.split("\nthen\n")
        for part in _all(taken(sql))
    }
    assert {kind.__name__ for kind in STATEFUL} - {"Match"} <= shown
    assert {"Sink", "Expand", "Correlate", "Union", "Filter", "Project", "Scan", "Values"} <= shown


def _all(found: Fingerprint) -> list[object]:
    waiting, seen = list(found.operators), []
    while waiting:
        part = waiting.pop()
        seen.append(part)
        waiting += part.inputs
    return seen


def test_a_fingerprint_of_a_later_release_is_not_guessed_at() -> None:
    stored = taken("INSERT INTO copy SELECT k, v FROM t").to_json()
    with pytest.raises(ValueError, match="2"):
        Fingerprint.from_json({**stored, "version": 2})


FLOWS = [
    # A projection or filter leaves a row with its writer.
    (
        "INSERT INTO copy SELECT k, v FROM t",
        "INSERT INTO copy SELECT k, 1 / v FROM t WHERE v > 3",
        True,
    ),
    (
        "INSERT INTO sums SELECT k, COUNT(*) FROM t GROUP BY k",
        "INSERT INTO sums SELECT k, 1 + COUNT(*) FROM t GROUP BY k",
        True,
    ),
    (
        "INSERT INTO copy SELECT k, v FROM t",
        "INSERT INTO copy SELECT k, v FROM t UNION ALL SELECT k, w FROM t",
        False,
    ),
    # Writers that share rows by key do so by what the row holds.
    (
        "INSERT INTO copy /*+ OPTIONS('sink.parallelism' = '2') */ SELECT k, v FROM t",
        "INSERT INTO copy /*+ OPTIONS('sink.parallelism' = '2') */ SELECT k + 1, v FROM t",
        False,
    ),
]


@pytest.mark.parametrize(("old", "new", "same"), FLOWS)
def test_a_batch_that_is_run_again_gives_its_writers_the_same_rows(
    old: str, new: str, same: bool
) -> None:
    assert (taken(old).flow == taken(new).flow) == same

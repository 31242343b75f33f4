"""When two results are equal."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.outcomes import Pair, difference, fold, summed
from bench.workloads import Totals


def change(op: str, row: dict[str, Any]) -> Pair:
    before, after = (row, None) if op == "d" else (None, row)
    return None, json.dumps({"before": before, "after": after, "op": op}).encode()


def test_rows_are_a_multiset_without_an_order() -> None:
    first = fold("rows", [(None, b'{"a":1,"b":"x"}'), (None, b'{"a":1,"b":"x"}'), (None, b"null")])
    other = fold(
        "rows", [(None, b"null"), (None, b'{"b": "x", "a": 1.0}'), (None, b'{"a":1,"b":"x"}')]
    )
    assert first == other
    assert not difference(first, other)
    assert difference(first, fold("rows", [(None, b'{"a":1,"b":"x"}'), (None, b"null")]))


def test_members_that_are_objects_arrays_or_null_can_be_compared() -> None:
    one = fold("rows", [(None, b'{"a":{"x":1,"y":[1,null,{"z":2}]},"b":null}')])
    assert one == fold("rows", [(None, b'{"b":null,"a":{"y":[1,null,{"z":2}],"x":1}}')])
    # An array is no object, and null is not the word.
    assert fold("rows", [(None, b'[["a",1]]')]) != fold("rows", [(None, b'{"a":1}')])
    assert fold("rows", [(None, b'{"a":null}')]) != fold("rows", [(None, b'{"a":"null"}')])


def test_what_is_no_json_is_compared_as_bytes() -> None:
    assert fold("rows", [(None, b"1,x"), (None, b"\xff")]) == Counter([b"1,x", b"\xff"])


def test_changes_leave_what_is_left() -> None:
    found = fold(
        "changes",
        [
            change("c", {"k": 1, "c": 1}),
            change("d", {"k": 1, "c": 1}),
            change("c", {"k": 1, "c": 2}),
        ],
    )
    assert found == fold("changes", [change("c", {"c": 2, "k": 1})])


def test_a_row_that_only_goes_counts_less_than_nothing() -> None:
    gone = fold("changes", [change("d", {"k": 1})])
    assert list(gone.values()) == [-1]
    assert difference(gone, Counter()).theirs == 1
    assert difference(Counter(), gone).ours == 1
    assert not difference(gone, fold("changes", [change("d", {"k": 1})]))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=30))
def test_updates_of_keys_leave_the_last_values(updates: list[tuple[int, int]]) -> None:
    records, last = [], {}
    for key, value in updates:
        if key in last:
            records.append(change("d", {"k": key, "v": last[key]}))
        records.append(change("c", {"k": key, "v": value}))
        last[key] = value
    assert fold("changes", records) == fold(
        "changes", [change("c", {"k": k, "v": v}) for k, v in last.items()]
    )


def test_of_a_key_the_last_record_counts() -> None:
    found = fold(
        "keyed",
        [(b'{"k":1}', b'{"k":1,"c":1}'), (b'{"k":2}', b'{"k":2,"c":1}'), (b'{"k":2}', None)]
        + [(b'{"k":1}', b'{"k":1,"c":2}'), (b'{"k":3}', None)],
    )
    assert found == fold("keyed", [(b'{"k":1}', b'{"c":2,"k":1}')])


def test_lines_of_files_are_a_multiset() -> None:
    assert fold("files", [(None, b"dt=1: a"), (None, b"dt=2: b")]) == Counter(
        [b"dt=2: b", b"dt=1: a"]
    )


def test_where_windows_follow_the_clock_only_sums_are_compared() -> None:
    totals = Totals("c", ("g",))
    ours = fold(
        "changes",
        [
            change("c", {"g": 1, "at": "10:00", "c": 3}),
            change("c", {"g": 1, "at": "10:01", "c": 4}),
        ],
    )
    theirs = fold("changes", [change("c", {"g": 1, "at": "11:00", "c": 7})])
    assert difference(ours, theirs)
    assert not difference(summed(ours, totals), summed(theirs, totals))
    more = fold("changes", [change("c", {"g": 1, "at": "11:00", "c": 8})])
    assert difference(summed(ours, totals), summed(more, totals))


@pytest.mark.parametrize("kind", ["rows", "changes", "keyed", "files"])
def test_nothing_is_an_empty_result(kind: str) -> None:
    assert not fold(kind, [])


def test_a_difference_is_told_with_samples() -> None:
    ours = fold("rows", [(None, b'{"a":1}'), (None, b'{"a":1}'), (None, b'{"a":2}')])
    theirs = fold("rows", [(None, b'{"a":1}'), (None, b'{"a":3}')])
    found = difference(ours, theirs)
    assert (found.ours, found.theirs) == (2, 1)
    assert str(found) == "2 rows only here, 1 only in Flink; here: a=1; here: a=2; Flink: a=3"
    assert str(difference(ours, ours)) == "equal"

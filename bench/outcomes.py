"""When two results are equal.

In: the records or lines that a run has left. Out: the result as a multiset of rows, and what two of them differ in.
Law: an append-only result is its rows, a changing one what is left of it: a row that came counts 1, one that went −1;
of an upsert topic the last record of each key. JSON is compared as what it means, not as it is spelt.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

from bench.workloads import Totals

Result = Counter[Hashable]
Pair = tuple[bytes | None, bytes | None]
"""Key and value of a record; those of a key come in their order."""
SHOWN = 3


def fold(kind: str, records: Iterable[Pair]) -> Result:
    """The result in a topic, of the kind that `Workload.kind` says."""
    found = FOLDS[kind](records)
    for row in [row for row, number in found.items() if number == 0]:
        del found[row]
    return found


def _rows(records: Iterable[Pair]) -> Result:
    return Counter(_row(value) for _, value in records)


def _changes(records: Iterable[Pair]) -> Result:
    """Debezium's envelopes, as both engines write them: c for what comes, d for what goes."""
    found: Result = Counter()
    for _, value in records:
        change = json.loads(value or b"null")
        if change["op"] == "d":
            found[_hashable(change["before"])] -= 1
        else:
            found[_hashable(change["after"])] += 1
    return found


def _keyed(records: Iterable[Pair]) -> Result:
    last: dict[Hashable, Hashable] = {}
    for key, value in records:
        if value is None:
            last.pop(_row(key), None)
        else:
            last[_row(key)] = _row(value)
    return Counter(last.items())


FOLDS: dict[str, Callable[[Iterable[Pair]], Result]] = {
    "rows": _rows,
    "changes": _changes,
    "keyed": _keyed,
    "files": lambda lines: Counter(value for _, value in lines),
}


def _row(data: bytes | None) -> Hashable:
    if data is None:
        return None
    try:
        return _hashable(json.loads(data))
    except ValueError:
        return data


def _hashable(value: object) -> Hashable:
    """Objects without the order of their members; 1 and 1.0 are equal already."""
    match value:
        case dict():
            return tuple(sorted((k, _hashable(v)) for k, v in value.items()))
        case list():
            return ("[", *map(_hashable, value))
    assert isinstance(value, Hashable)
    return value


def summed(result: Result, totals: Totals) -> Result:
    """What remains of a result whose rows depend on when they were made."""
    found: Result = Counter()
    for row, number in result.items():
        assert isinstance(row, tuple)
        members = dict(row)
        key = tuple((name, members[name]) for name in totals.by)
        found[key] += members[totals.column] * number
    return found


@dataclass(frozen=True)
class Difference:
    """What only one of two results has; rows count as often as they are there."""

    ours: int
    theirs: int
    samples: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.ours or self.theirs)

    def __str__(self) -> str:
        if not self:
            return "equal"
        told = f"{self.ours:,} rows only here, {self.theirs:,} only in Flink"
        return f"{told}; {'; '.join(self.samples)}" if self.samples else told


def difference(ours: Result, theirs: Result) -> Difference:
    # What goes counts −1, so that a row may be missing on either side with either sign.
    more = {row: ours[row] - theirs[row] for row in ours.keys() | theirs.keys()}
    ours_only = {row: n for row, n in more.items() if n > 0}
    theirs_only = {row: -n for row, n in more.items() if n < 0}
    samples = [f"here: {_shown(row)}" for row in sorted(ours_only, key=repr)[:SHOWN]]
    samples += [f"Flink: {_shown(row)}" for row in sorted(theirs_only, key=repr)[:SHOWN]]
    return Difference(sum(ours_only.values()), sum(theirs_only.values()), tuple(samples))


def _shown(row: Hashable) -> str:
    is_object = isinstance(row, tuple) and all(isinstance(m, tuple) and len(m) == 2 for m in row)
    text = ", ".join(f"{k}={v!r}" for k, v in row) if is_object else repr(row)  # type: ignore[attr-defined]
    return text if len(text) <= 200 else text[:199] + "…"

"""Top-N against a plain Python model of it, batch by batch."""

from __future__ import annotations

import functools
import json
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from streams import SYMBOLS, Run, Stream, new_counts, operators

pytestmark = pytest.mark.spark

Row = dict[str, Any]
Change = tuple[Any, ...]
START = Callable[[Any], Run]

COLUMNS = {"g": "INT", "id": "INT", "v": "INT", "s": "STRING"}
KIND = {"_kind": "TINYINT"}


def asc(column: str, nulls_last: bool = False) -> dict[str, Any]:
    return {"column": column, "descending": False, "nullsLast": nulls_last}


def desc(column: str, nulls_last: bool = True) -> dict[str, Any]:
    return {"column": column, "descending": True, "nullsLast": nulls_last}


def spec_of(**given: Any) -> dict[str, Any]:
    spec = {
        "name": "Rank of test",
        "partition": ["g"],
        "columns": list(COLUMNS),
        "order": [desc("v")],
        "start": 1,
        "end": 3,
        "endColumn": None,
        "number": False,
        "strategy": "RETRACT",
        "rowKey": None,
        "deletesByKey": False,
        "updateBefore": True,
    }
    spec |= given
    return {"byRank": spec["number"] or spec["start"] == spec["end"], **spec}


def rank(frame: Any, spec: dict[str, Any]) -> tuple[Any, Any]:
    from pyspark.sql import DataFrame

    session = frame.sparkSession
    counts = new_counts(session)
    return DataFrame(operators(session).rank(frame._jdf, json.dumps(spec), counts), session), counts


class Model:
    """All rows of all partitions in the order of their arrival; the Top-N is sorted anew in every batch."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.rows: dict[Any, list[Row]] = {}
        self.ends: dict[Any, int] = {}
        self.unknown = 0

    def _compare(self, a: Row, b: Row) -> int:
        for key in self.spec["order"]:
            x, y = a[key["column"]], b[key["column"]]
            if x is None or y is None:
                if x is None and y is None:
                    continue
                return (1 if x is None else -1) * (1 if key["nullsLast"] else -1)
            x, y = (v.encode() if isinstance(v, str) else v for v in (x, y))
            if x != y:
                return (-1 if x < y else 1) * (-1 if key["descending"] else 1)
        return 0

    def top(self, key: Any) -> list[Change]:
        spec = self.spec
        rows = sorted(self.rows.get(key, []), key=functools.cmp_to_key(self._compare))
        end = self.ends.get(key, 0) if spec["endColumn"] else spec["end"]
        first = spec["start"] - 1
        chosen = rows[first:end] if end > first else []
        bodies = [tuple(r[c] for c in spec["columns"]) for r in chosen]
        return [(*b, i) for i, b in enumerate(bodies, spec["start"])] if spec["number"] else bodies

    def _key(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[c] for c in self.spec["partition"])

    def _apply(self, row: Row, missing: list[Row]) -> None:
        rows = self.rows.setdefault(self._key(row), [])
        plain = {c: row[c] for c in self.spec["columns"]}
        if self.spec["endColumn"]:
            self.ends.setdefault(self._key(row), row[self.spec["endColumn"]] or 0)
        if SYMBOLS[row.get("_kind", 0)] in ("-U", "-D"):
            if plain in rows:
                rows.remove(plain)
            else:
                missing.append(plain)
            return
        if plain in missing:
            missing.remove(plain)
            return
        if self.spec["strategy"] == "UPDATE":
            same = [r for r in rows if all(r[c] == plain[c] for c in self.spec["rowKey"])]
            if same and self._compare(same[0], plain) == 0:
                rows[rows.index(same[0])] = plain
                return
            for old in same:
                rows.remove(old)
        rows.append(plain)

    def batch(self, rows: list[Row]) -> dict[Any, list[Change]]:
        """The changes of each partition, in their order."""
        keys = dict.fromkeys(self._key(r) for r in rows)
        before = {key: self.top(key) for key in keys}
        missing: list[Row] = []
        for row in rows:
            self._apply(row, missing)
        self.unknown += len(missing)
        changes = {key: self._changes(before[key], self.top(key)) for key in keys}
        return {key: found for key, found in changes.items() if found}

    def _changes(self, old: list[Change], now: list[Change]) -> list[Change]:
        spec = self.spec
        columns = spec["columns"]

        def identity(body: Change) -> Change:
            names = spec["rowKey"]
            return body if names is None else tuple(body[columns.index(c)] for c in names)

        if spec["byRank"]:
            stay = {identity(b) for b in now}
            told = spec["deletesByKey"] and not spec["updateBefore"]
            pairs: list[tuple[Change | None, Change | None]] = []
            deletes = []
            for i in range(max(len(old), len(now))):
                a = old[i] if i < len(old) else None
                b = now[i] if i < len(now) else None
                if a is not None and (b is None or (told and identity(a) not in stay)):
                    deletes.append(a)
                    a = None
                pairs.append((a, b))
        else:
            left = list(old)
            pairs = []
            for b in now:
                a = next((o for o in left if identity(o) == identity(b)), None)
                if a is not None:
                    left.remove(a)
                pairs.append((a, b))
            deletes = left
        changes: list[Change] = [("-D", *d) for d in deletes]
        for a, b in pairs:
            if b is None or a == b:
                continue
            if a is None:
                changes.append(("+I", *b))
            else:
                changes += [("-U", *a)] * spec["updateBefore"] + [("+U", *b)]
        return changes


def by_partition(changes: list[Change], width: int = 1) -> dict[Any, list[Change]]:
    keyed: dict[Any, list[Change]] = {}
    for change in changes:
        keyed.setdefault(change[1 : 1 + width], []).append(change)
    return keyed


def unordered(changes: dict[Any, list[Change]]) -> dict[Any, Counter[Change]]:
    return {key: Counter(found) for key, found in changes.items()}


# --- single steps --------------------------------------------------------------------------------


def row(id_: int, v: int | None, kind: str = "+I", g: int = 1, s: str = "") -> Row:
    return {"g": g, "id": id_, "v": v, "s": s, "_kind": SYMBOLS.index(kind)}


def shown(changes: list[Change], number: bool) -> str:
    return " ".join(f"{c[0]} {c[2]}:{c[3]}" + (f"#{c[5]}" if number else "") for c in changes)


@pytest.mark.parametrize(
    ("given", "batches", "expected"),
    [
        pytest.param(
            {"number": True, "end": 2, "strategy": "APPEND"},
            [[row(1, 5)], [row(2, 7)], [row(3, 6)], [row(4, 1)]],
            ["+I 1:5#1", "-U 1:5#1 +U 2:7#1 +I 1:5#2", "-U 1:5#2 +U 3:6#2", ""],
            id="with the number, by rank",
        ),
        pytest.param(
            {"number": True, "end": 2, "strategy": "APPEND", "updateBefore": False},
            [[row(1, 5), row(2, 7)], [row(3, 6)]],
            ["+I 2:7#1 +I 1:5#2", "+U 3:6#2"],
            id="no row before",
        ),
        pytest.param(
            {"end": 2, "strategy": "APPEND"},
            [[row(1, 5)], [row(2, 7)], [row(3, 6)], [row(4, 1)]],
            ["+I 1:5", "+I 2:7", "-D 1:5 +I 3:6", ""],
            id="without the number, rows leave and enter",
        ),
        pytest.param(
            {"end": 1, "strategy": "APPEND"},
            [[row(1, 5)], [row(2, 4)], [row(3, 6)]],
            ["+I 1:5", "", "-U 1:5 +U 3:6"],
            id="one row a partition is updated",
        ),
        pytest.param(
            {"end": 2, "strategy": "APPEND"},
            [[row(1, 5), row(2, 5)], [row(3, 5)], [row(4, 6)]],
            ["+I 1:5 +I 2:5", "", "-D 2:5 +I 4:6"],
            id="of equal rows the first come stay",
        ),
        pytest.param(
            {"start": 2, "end": 3, "number": True},
            [[row(1, 5)], [row(2, 6)], [row(3, 7), row(4, 8)], [row(4, 8, "-D")]],
            [
                "",
                "+I 1:5#2",
                "-U 1:5#2 +U 3:7#2 +I 2:6#3",
                "-U 3:7#2 +U 2:6#2 -U 2:6#3 +U 1:5#3",
            ],
            id="from the second on",
        ),
        pytest.param(
            {"start": 2, "end": 2},
            [[row(1, 5), row(2, 6)], [row(3, 7)], [row(3, 7, "-D"), row(1, 5, "-D")]],
            ["+I 1:5", "-U 1:5 +U 2:6", "-D 2:6"],
            id="only the second",
        ),
        pytest.param(
            {"end": 2, "rowKey": ["g", "id"]},
            [[row(1, 5), row(2, 6)], [row(1, 5, "-U"), row(1, 7, "+U")], [row(2, 6, "-D")]],
            ["+I 2:6 +I 1:5", "-U 1:5 +U 1:7", "-D 2:6"],
            id="a row takes the place of the one with its key",
        ),
        pytest.param(
            {"end": 2},
            [[row(1, 5), row(2, 6), row(3, 4)], [row(2, 6, "-D")], [row(1, 5, "-D")]],
            ["+I 2:6 +I 1:5", "-D 2:6 +I 3:4", "-D 1:5"],
            id="what was behind the end comes up",
        ),
        pytest.param(
            {"end": 2},
            [[row(1, 5), row(1, 5), row(2, 5)], [row(1, 5, "-D")], [row(1, 5, "-D")]],
            ["+I 1:5 +I 1:5", "-D 1:5 +I 2:5", "-D 1:5"],
            id="equal rows are taken out one by one",
        ),
        pytest.param(
            {"end": 2},
            [[row(9, 9, "-D"), row(9, 9)], [row(9, 9, "-D")], [row(1, 1)]],
            ["", "", "+I 1:1"],
            id="a removal waits for what the same batch puts in",
        ),
        pytest.param(
            {"end": 2, "number": True, "strategy": "UPDATE", "rowKey": ["g", "id"]},
            [[row(1, 5), row(2, 6), row(3, 1)], [row(3, 6, "+U")], [row(1, 9, "+U")]],
            ["+I 2:6#1 +I 1:5#2", "-U 1:5#2 +U 3:6#2", "-U 2:6#1 +U 1:9#1 -U 3:6#2 +U 2:6#2"],
            id="updates that move forward",
        ),
        pytest.param(
            {
                "end": 2,
                "number": True,
                "strategy": "UPDATE",
                "rowKey": ["g", "id"],
                "updateBefore": False,
                "deletesByKey": True,
            },
            [[row(1, 5), row(2, 6)], [row(3, 7)], [row(2, 8)]],
            ["+I 2:6#1 +I 1:5#2", "-D 1:5#2 +U 3:7#1 +I 2:6#2", "+U 2:8#1 +U 3:7#2"],
            id="who goes by the row key is told what leaves",
        ),
        pytest.param(
            {"end": 2, "order": [asc("v")]},
            [[row(1, 3), row(2, None)], [row(3, None)]],
            ["+I 2:None +I 1:3", "-D 1:3 +I 3:None"],
            id="nulls first",
        ),
        pytest.param(
            {"end": 2, "order": [asc("v", nulls_last=True)]},
            [[row(1, 3), row(2, None)], [row(3, 4)]],
            ["+I 1:3 +I 2:None", "-D 2:None +I 3:4"],
            id="nulls last",
        ),
        pytest.param(
            {"partition": [], "order": [], "strategy": "APPEND", "end": 2},
            [[row(1, 3)], [row(2, 9), row(3, 9)], [row(4, 9)]],
            ["+I 1:3", "+I 2:9", ""],
            id="a limit without an order keeps the first come",
        ),
        pytest.param(
            {"partition": [], "order": [], "end": 2},
            [[row(1, 3), row(2, 9), row(3, 9)], [row(1, 3, "-D")]],
            ["+I 1:3 +I 2:9", "-D 1:3 +I 3:9"],
            id="a limit of a changing table",
        ),
        pytest.param(
            {"end": None, "endColumn": "v", "order": [asc("id")], "strategy": "APPEND"},
            [[row(1, 2)], [row(2, 1), row(3, 2)], [row(0, 7)]],
            ["+I 1:2", "+I 2:1", "-D 2:1 +I 0:7"],
            id="the first row says how many there are",
        ),
    ],
)
def test_each_batch_gives_what_flink_gives(
    spark: Any,
    run: START,
    given: dict[str, Any],
    batches: list[list[Row]],
    expected: list[str],
) -> None:
    spec = spec_of(**given)
    stream = Stream(spark, COLUMNS | KIND, 1)
    frame, _ = rank(stream.frame, spec)
    job = run(frame)
    model = Model(spec)
    seen = []
    for batch in batches:
        stream.add(batch)
        changes = job.take()
        seen.append(shown(changes, spec["number"]))
        assert changes == [c for found in model.batch(batch).values() for c in found]
    assert seen == expected


# --- random streams ------------------------------------------------------------------------------


class Source:
    """Random changes that fit a strategy; what is taken out was put in, nearly always."""

    def __init__(self, strategy: str, pick: random.Random, wide: bool) -> None:
        self.strategy, self.pick, self.wide = strategy, pick, wide
        self.live: list[Row] = []
        self.next_id = 0

    def _new(self) -> Row:
        self.next_id += 1
        text = self.pick.choice([None, "", "a", "a\0", "a\0b", "b", "é", "\U0001f600"])
        return {
            "g": self.pick.randrange(3),
            "id": self.next_id if self.strategy == "UPDATE" else self.pick.randrange(6),
            "v": self.pick.choice([None, *range(-4, 5)]),
            "s": f"{text or ''}{'x' * self.pick.randrange(200)}" if self.wide else text,
        }

    def batch(self, size: int) -> list[Row]:
        rows = []
        for _ in range(size):
            chance = self.pick.random()
            if self.strategy == "APPEND" or not self.live or chance < 0.55:
                row = self._new()
                self.live.append(row)
                rows.append(row | {"_kind": 0})
            elif self.strategy == "UPDATE":
                old = self.pick.choice(self.live)
                higher = (-9 if old["v"] is None else old["v"]) + self.pick.randrange(3)
                new = old | {"v": higher, "s": self.pick.choice(["p", "q", None])}
                self.live[self.live.index(old)] = new
                if any(r["id"] == new["id"] for r in rows):
                    # An operator sends one row of a key and batch.
                    rows = [r for r in rows if r["id"] != new["id"]]
                rows.append(new | {"_kind": 2})
            elif chance < 0.97:
                old = self.live.pop(self.pick.randrange(len(self.live)))
                rows.append(old | {"_kind": self.pick.choice([1, 3])})
            else:
                rows.append(self._new() | {"_kind": 3, "id": 99})
        return rows


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("strategy", ["APPEND", "UPDATE", "RETRACT"])
@pytest.mark.parametrize("number", [True, False], ids=["number", "rows"])
def test_random_changes_give_the_top_n_in_every_batch(
    spark: Any, run: START, strategy: str, number: bool, seed: int
) -> None:
    pick = random.Random(f"{strategy} {number} {seed}")
    wide = seed == 2
    order = (
        [desc("v")]
        if strategy == "UPDATE"
        else pick.choice(
            [
                [desc("v")],
                [asc("v", nulls_last=True), desc("s", nulls_last=False)],
                [asc("s"), asc("v")],
                [desc("s"), asc("id")],
            ]
        )
    )
    start = pick.choice([1, 1, 2])
    spec = spec_of(
        strategy=strategy,
        number=number,
        order=order,
        start=start,
        end=start + pick.choice([0, 2, 60 if wide else 4]),
        rowKey=["g", "id"] if strategy == "UPDATE" else None,
        updateBefore=pick.random() < 0.7,
        deletesByKey=strategy == "UPDATE" and pick.random() < 0.5,
    )
    stream = Stream(spark, COLUMNS | KIND, 1)
    frame, counts = rank(stream.frame, spec)
    job = run(frame)
    model = Model(spec)
    source = Source(strategy, pick, wide)
    for number_ in range(9):
        rows = source.batch(pick.randrange(1, 160 if wide else 40))
        expected = model.batch(rows)
        stream.add(rows)
        if number_ == 4:
            again = job.take_twice()
        else:
            if number_ % 3 == 2:
                job.restart()
            again = job.take()
        assert unordered(by_partition(again)) == unordered(expected), (spec, number_)
        if spec["byRank"]:
            assert by_partition(again) == expected
    # A batch that was run twice has counted twice.
    assert dict(counts.values()).get("delete of an unknown row", 0) >= model.unknown


def test_changes_of_several_tasks_give_the_same_top_n(spark: Any, run: START) -> None:
    """What takes a row out may come from another task than what puts it in, and before it."""
    pick = random.Random(3)
    order = [asc("v"), desc("s"), asc("id")]
    spec = spec_of(order=order, number=True, end=4)
    stream = Stream(spark, COLUMNS | KIND, 4)
    frame, counts = rank(stream.frame, spec)
    job = run(frame)
    model = Model(spec)
    source = Source("RETRACT", pick, wide=False)
    for _ in range(6):
        rows = [r for r in source.batch(80) if r["id"] != 99]
        expected = model.batch(rows)
        pick.shuffle(rows)
        stream.add(rows)
        assert by_partition(job.take()) == expected
    assert dict(counts.values()) == {}


def test_a_large_top_n_lies_in_pages(spark: Any, run: START) -> None:
    spec = spec_of(end=2_000, number=True, order=[asc("v")])
    stream = Stream(spark, COLUMNS | KIND, 2)
    frame, _ = rank(stream.frame, spec)
    job = run(frame)
    numbers = list(range(3_000))
    random.Random(1).shuffle(numbers)
    stream.add([row(n, n, s="x" * 50) for n in numbers])
    assert [(c[0], c[2], c[5]) for c in job.take()] == [("+I", n, n + 1) for n in range(2_000)]
    job.restart()
    stream.add([row(n, n, "-D", s="x" * 50) for n in range(0, 3_000, 2)])
    table = {n + 1: n for n in range(2_000)}
    for kind, _, id_, _, _, at in job.take():
        if kind in ("-U", "-D"):
            assert table.pop(at) == id_
        else:
            table[at] = id_
    assert table == {i + 1: n for i, n in enumerate(range(1, 3_000, 2))}
    stream.add([row(n, n, "-D", s="x" * 50) for n in range(1, 3_000, 2)])
    assert len(job.take()) == 1_500
    stream.add([row(5, 5)])
    assert job.take() == [("+I", 1, 5, 5, "", 1)]


def test_what_a_column_says_after_the_first_row_is_counted(spark: Any, run: START) -> None:
    spec = spec_of(end=None, endColumn="v", order=[asc("id")])
    stream = Stream(spark, COLUMNS | KIND, 1)
    frame, counts = rank(stream.frame, spec)
    job = run(frame)
    stream.add([row(1, 1), row(2, 2), row(3, 1)])
    assert shown(job.take(), False) == "+I 1:1"
    assert dict(counts.values()) == {
        "row with another number of rows to keep than its partition's first": 1
    }


TYPES: dict[str, tuple[str, list[Any]]] = {
    "b": ("BOOLEAN", ["false", "true"]),
    "t": ("TINYINT", ["-128", "-1", "0", "127"]),
    "l": ("BIGINT", [str(-(2**63)), "-1", "0", "1", str(2**63 - 1)]),
    "f": ("FLOAT", ["-Infinity", "-1.5", "0", "1e-30", "Infinity"]),
    "d": ("DOUBLE", ["-Infinity", "-1e300", "-1e-300", "0", "2.5", "Infinity", "NaN"]),
    "n": ("DECIMAL(10,2)", ["-99999999.99", "-0.01", "0.00", "0.01"]),
    "w": ("DECIMAL(38,4)", ["-" + "9" * 34, "-256", "-255", "-1", "0", "1", "255", "9" * 34]),
    "s": (
        "STRING",
        ["", "\0", "\0\0", "\0a", "a", "a\0", "a\0b", "ab", "é", "\uffee", "\U0001f600"],
    ),
    "x": ("BINARY", ["", "\0", "\0a", "a", "a\0", "b"]),
    "day": ("DATE", ["0001-01-01", "1969-12-31", "1970-01-01", "2024-02-29"]),
    "at": (
        "TIMESTAMP",
        ["1969-12-31 23:59:59.999999", "1970-01-01 00:00:00", "2024-01-01 00:00:00"],
    ),
    "local": ("TIMESTAMP_NTZ", ["1900-01-01 00:00:00", "2024-01-01 00:00:00.000001"]),
    "clock": ("TIME(6)", ["00:00:00", "12:00:00.000001", "23:59:59.999999"]),
}


@pytest.mark.parametrize("descending", [False, True], ids=["ascending", "descending"])
@pytest.mark.parametrize("nulls_last", [False, True], ids=["nulls first", "nulls last"])
def test_every_type_has_its_order(
    spark: Any, run: START, descending: bool, nulls_last: bool
) -> None:
    """One partition for each type; its values and NULL come shuffled, and behind them a second column decides."""
    pick = random.Random(7)
    columns = {"g": "STRING", "place": "INT"} | {name: type_ for name, (type_, _) in TYPES.items()}
    empty = dict.fromkeys(columns)
    rows, expected = [], {}
    for name, (_, values) in TYPES.items():
        placed = [*values[::-1], None] if descending else [*values, None]
        if not nulls_last:
            placed = [None, *placed[:-1]]
        expected[name] = [i for i in range(len(placed)) for _ in range(2)]
        rows += [empty | {"g": name, "place": i, name: v} for i, v in enumerate(placed)] * 2
    pick.shuffle(rows)
    key = {"descending": descending, "nullsLast": nulls_last}
    stream = Stream(spark, columns)
    spec = spec_of(
        columns=list(columns),
        order=[{"column": name, **key} for name in TYPES],
        end=100,
        number=True,
        strategy="APPEND",
    )
    frame, _ = rank(stream.frame, spec)
    job = run(frame)
    stream.add(rows)
    found: dict[str, list[tuple[int, int]]] = {}
    for change in job.take():
        found.setdefault(change[1], []).append((change[-1], change[2]))
    assert {g: [p for _, p in sorted(places)] for g, places in found.items()} == expected


def test_an_order_that_does_not_exist_is_refused(spark: Any) -> None:
    stream = Stream(spark, {"g": "INT", "list": "ARRAY<INT>"})
    spec = spec_of(columns=["g", "list"], order=[asc("list")])
    with pytest.raises(
        Exception, match=r"Rank of test: no order for column list of type ARRAY<INT>"
    ):
        rank(stream.frame, spec)

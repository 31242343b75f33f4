"""The join operator against a plain Python model: after every batch, what it gave so far is the join of its inputs."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from streams import SYMBOLS, Run, Stream, new_counts, operators

pytestmark = pytest.mark.spark

KINDS = ("INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI")
LEFT, RIGHT = ("c0", "c1", "c2"), ("c3", "c4", "c5")
"""Each side has a number, the join key and a value."""
COLUMNS = {"side": "STRING", "n": "INT", "k": "INT", "v": "INT", "_kind": "TINYINT"}
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Sides:
    """How the rows of the two sides are told apart: None is a bag."""

    left: tuple[str, ...] | None = None
    right: tuple[str, ...] | None = None

    def update_key(self, kind: str) -> list[str] | None:
        if kind in ("SEMI", "ANTI"):
            return None if self.left is None else list(self.left)
        if self.left is None or self.right is None:
            return None
        if self.right == ("c4",) and kind in ("INNER", "LEFT"):
            return list(self.left)
        return [*self.left, *self.right]


def join(
    frame: Any,
    kind: str,
    sides: Sides = Sides(),  # noqa: B008
    condition: str | None = None,
    null_safe: bool = False,
    keyed: bool = True,
    update_before: bool = True,
    deletes: bool = True,
    ttl: tuple[int, int] | None = None,
) -> Any:
    """Rows of one stream, whose column `side` tells which side of the join they are on."""
    from pyspark.sql import DataFrame

    spec = {
        "name": "Join of test",
        "kind": kind,
        "left": {"columns": LEFT, "keys": ["c1"] if keyed else [], "unique": sides.left},
        "right": {"columns": RIGHT, "keys": ["c4"] if keyed else [], "unique": sides.right},
        "nullSafe": [null_safe] if keyed else [],
        "condition": condition,
        "updateKey": sides.update_key(kind),
        "updateBefore": update_before,
        "updates": True,
        "deletes": deletes,
        "ttl": ttl,
    }
    session = frame.sparkSession
    parts = [
        frame.where(f"side = '{side}'").selectExpr(
            f"n AS {names[0]}", f"k AS {names[1]}", f"v AS {names[2]}", "_kind"
        )
        for side, names in (("left", LEFT), ("right", RIGHT))
    ]
    counts = new_counts(session)
    jdf = operators(session).join(parts[0]._jdf, parts[1]._jdf, json.dumps(spec), counts)
    joined = DataFrame(jdf, session)
    joined.counts = counts
    return joined


# --- the model -----------------------------------------------------------------------------------


def expected(
    kind: str, left: Counter[Row], right: Counter[Row], holds: Callable[[Row, Row], bool]
) -> Counter[Row]:
    found: Counter[Row] = Counter()
    nothing = (None,) * 3
    for a, n in left.items():
        matches = {b: m for b, m in right.items() if holds(a, b)}
        if kind in ("SEMI", "ANTI"):
            if bool(matches) == (kind == "SEMI"):
                found[a] += n
            continue
        for b, m in matches.items():
            found[a + b] += n * m
        if not matches and kind in ("LEFT", "FULL"):
            found[a + nothing] += n
    if kind in ("RIGHT", "FULL"):
        for b, m in right.items():
            if not any(holds(a, b) for a in left):
                found[nothing + b] += m
    return found


def same_key(a: Row, b: Row) -> bool:
    return a[1] is not None and a[1] == b[1]


def and_less(a: Row, b: Row) -> bool:
    return same_key(a, b) and a[2] is not None and b[2] is not None and a[2] < b[2]


CONDITIONS: dict[str | None, Callable[[Row, Row], bool]] = {None: same_key, "c2 < c5": and_less}


@dataclass
class Folded:
    """A table that changes are applied to, one by one; none may be out of place."""

    key: list[int] | None
    """Rows are known by these columns where updates bring no row before."""
    rows: Counter[Row] = field(default_factory=Counter)
    by_key: dict[Row, Row] = field(default_factory=dict)

    def apply(self, change: Row) -> None:
        symbol, row = change[0], change[1:]
        if self.key is None:
            if symbol in ("-U", "-D"):
                assert self.rows[row] > 0, f"{change} takes out what is not there"
            self.rows[row] += 1 if symbol[0] == "+" else -1
            return
        key = tuple(row[i] for i in self.key)
        if symbol == "+I":
            assert key not in self.by_key, f"{change} is there"
        elif symbol == "+U":
            assert key in self.by_key, f"{change} updates nothing"
            assert self.by_key[key] != row, f"{change} changes nothing"
        if symbol == "-D":
            assert self.by_key.pop(key, None) is not None, f"{change} takes out nothing"
        else:
            assert symbol in ("+I", "+U"), change
            self.by_key[key] = row

    def table(self) -> Counter[Row]:
        return +self.rows if self.key is None else Counter(self.by_key.values())


class Source:
    """A table of one side that changes at random, and says how: as a bag by rows in and out, else by its key."""

    def __init__(
        self, rng: random.Random, side: str, unique: tuple[str, ...] | None, nulls: bool = True
    ) -> None:
        self.rng, self.side = rng, side
        self.join_keys = [None, 1, 2, 3] if nulls else [1, 2, 3]
        names = LEFT if side == "left" else RIGHT
        self.key = None if unique is None else [names.index(c) for c in unique]
        self.rows: list[Row] = []

    def random_row(self) -> Row:
        pick = self.rng.choice
        return (pick(range(4)), pick(self.join_keys), pick([None, 0, 1, 2, 3]))

    def change(self) -> list[dict[str, Any]]:
        draw = self.rng.random()
        if self.key is not None:
            return self._upsert(draw)
        if self.rows and draw < 0.4:
            old = self.rows.pop(self.rng.randrange(len(self.rows)))
            if draw < 0.2:
                return [self._said(old, 3)]
            new = self.random_row()
            self.rows.append(new)
            return [self._said(old, 1), self._said(new, 2)]
        self.rows.append(self.random_row())
        return [self._said(self.rows[-1], 0)]

    def _upsert(self, draw: float) -> list[dict[str, Any]]:
        assert self.key is not None
        row = self.random_row()
        known = [r for r in self.rows if all(r[i] == row[i] for i in self.key or ())]
        if row[1] is None and (known == [row] or (not known and draw < 0.3)):
            return []  # rows that are not kept go on as they came
        self.rows = [r for r in self.rows if r not in known]
        if draw < 0.3:
            # A delete brings its key; the rest is not to be trusted.
            return [self._said(tuple(x if i in self.key else 77 for i, x in enumerate(row)), 3)]
        self.rows.append(row)
        return [self._said(row, 2 if known else 0)]

    def _said(self, row: Row, kind: int) -> dict[str, Any]:
        texts = {c: None if x is None else str(x) for c, x in zip("nkv", row, strict=True)}
        return {"side": self.side, **texts, "_kind": str(kind)}


NUMBERED = Sides(("c0", "c1"), ("c3", "c4"))
BY_JOIN_KEY = Sides(("c0", "c1"), ("c4",))


@pytest.mark.parametrize(
    ("sides", "update_before", "seed"),
    [
        (Sides(), True, 1),
        (NUMBERED, True, 2),
        (NUMBERED, False, 3),
        (BY_JOIN_KEY, False, 4),
        (Sides(("c1",), None), True, 5),
    ],
    ids=["bags", "keys", "keys, no update before", "join key, no update before", "key and bag"],
)
def test_what_was_given_is_the_join_of_what_came(
    spark: Any,
    run: Callable[[Any], Run],
    sides: Sides,
    update_before: bool,
    seed: int,
) -> None:
    rng = random.Random(seed)
    # Where the last row of a key counts there is one map task, so that the model knows the order of rows.
    bags = sides == Sides()
    stream = Stream(spark, COLUMNS, partitions=3 if bags else 1)
    joins = [(kind, condition) for kind in KINDS for condition in CONDITIONS]
    whole = None
    for number, (kind, condition) in enumerate(joins):
        joined = join(stream.frame, kind, sides, condition, update_before=update_before)
        columns = list(joined.columns[:-1])
        missing = [f"CAST(NULL AS INT) AS x{i}" for i in range(6 - len(columns))]
        part = joined.selectExpr(f"{number} AS number", *columns, *missing, "_kind")
        whole = part if whole is None else whole.unionAll(part)
    assert whole is not None
    tables = []
    for kind, _ in joins:
        key = sides.update_key(kind)
        assert key is not None or update_before
        tables.append(Folded(None if update_before else [int(c[1:]) for c in key or ()]))
    job = run(whole)
    # Updates come without the row before only where nobody asks for it; then a row that is not kept is a row's key.
    nulls = bags or not update_before
    sources = [
        Source(rng, "left", sides.left, nulls),
        Source(rng, "right", sides.right, nulls),
    ]
    for batch in range(8):
        if batch == 4:
            job.restart()
        size = rng.choice([1, 3, 25])
        changes = [c for _ in range(size) for c in rng.choice(sources).change()]
        if bags:
            rng.shuffle(changes)
        stream.add(changes)
        for symbol, number, *row in job.take():
            width = 3 if joins[number][0] in ("SEMI", "ANTI") else 6
            tables[number].apply((symbol, *row[:width]))
        left, right = (Counter(s.rows) for s in sources)
        for (kind, condition), table in zip(joins, tables, strict=True):
            now = expected(kind, left, right, CONDITIONS[condition])
            assert table.table() == now, f"batch {batch}: {kind} join, condition {condition}"


# --- the changelog -------------------------------------------------------------------------------


def l(n: int, k: int | None, v: int, kind: int = 0) -> dict[str, Any]:  # noqa: E743
    return {"side": "left", "n": str(n), "k": k and str(k), "v": str(v), "_kind": str(kind)}


def r(n: int, k: int | None, v: int, kind: int = 0) -> dict[str, Any]:
    return {**l(n, k, v, kind), "side": "right"}


def test_update_of_a_key_is_an_update_of_the_joined_row(
    spark: Any, run: Callable[[Any], Run]
) -> None:
    stream = Stream(spark, COLUMNS, partitions=1)
    sides = Sides(("c1",), ("c4",))
    job = run(join(stream.frame, "LEFT", sides, update_before=False))
    stream.add([l(1, 7, 1)])
    assert job.take() == [("+I", 1, 7, 1, None, None, None)]
    stream.add([r(2, 7, 5)])
    assert job.take() == [("+U", 1, 7, 1, 2, 7, 5)]
    stream.add([l(1, 7, 2, 2), l(1, 7, 3, 2), r(2, 7, 6, 2)])
    assert job.take() == [("+U", 1, 7, 3, 2, 7, 6)]
    stream.add([l(1, 7, 9, 2), l(1, 7, 3, 2)])
    assert job.take() == []
    stream.add([r(0, 7, 0, 3)])
    assert job.take() == [("+U", 1, 7, 3, None, None, None)]
    stream.add([l(0, 7, 0, 3), l(0, 7, 0, 3), l(0, 8, 0, 3)])
    assert job.take() == [("-D", 1, 7, 3, None, None, None)]


def test_update_brings_the_row_before_where_it_is_wanted(
    spark: Any, run: Callable[[Any], Run]
) -> None:
    stream = Stream(spark, COLUMNS, partitions=1)
    job = run(join(stream.frame, "INNER", Sides(("c1",), ("c4",))))
    stream.add([l(1, 7, 1), r(2, 7, 5)])
    assert job.take() == [("+I", 1, 7, 1, 2, 7, 5)]
    stream.add([l(1, 7, 2, 2)])
    assert job.take() == [("-U", 1, 7, 1, 2, 7, 5), ("+U", 1, 7, 2, 2, 7, 5)]


def test_row_goes_as_an_update_before_where_no_deletes_are_known(
    spark: Any, run: Callable[[Any], Run]
) -> None:
    stream = Stream(spark, COLUMNS, partitions=1)
    job = run(join(stream.frame, "INNER", deletes=False))
    stream.add([l(1, 7, 1), r(2, 7, 5)])
    assert job.take() == [("+I", 1, 7, 1, 2, 7, 5)]
    stream.add([l(1, 7, 1, 1), l(1, 8, 1, 2)])
    assert job.take() == [("-U", 1, 7, 1, 2, 7, 5)]


def test_tables_of_one_row_are_updated(spark: Any, run: Callable[[Any], Run]) -> None:
    """A key without columns: two global aggregates side by side."""
    stream = Stream(spark, COLUMNS, partitions=1)
    sides = Sides((), ())
    job = run(join(stream.frame, "INNER", sides, keyed=False, update_before=False, deletes=False))
    stream.add([l(1, 1, 1), r(2, 2, 2)])
    assert job.take() == [("+I", 1, 1, 1, 2, 2, 2)]
    stream.add([l(3, 3, 3, 2), r(4, 4, 4, 2)])
    assert job.take() == [("+U", 3, 3, 3, 4, 4, 4)]


def test_appended_rows_are_only_added(spark: Any, run: Callable[[Any], Run]) -> None:
    stream = Stream(spark, COLUMNS)
    job = run(join(stream.frame, "SEMI"))
    stream.add([l(1, 1, 1), l(1, 1, 1), l(2, 2, 2)])
    assert job.take() == []
    stream.add([r(1, 1, 1), r(2, 1, 1)])
    assert job.take() == [("+I", 1, 1, 1)] * 2
    stream.add([l(3, 1, 3), r(1, 1, 1)])
    assert job.take() == [("+I", 3, 1, 3)]


def test_null_keys_match_where_they_are_not_distinct(spark: Any, run: Callable[[Any], Run]) -> None:
    stream = Stream(spark, COLUMNS)
    job = run(join(stream.frame, "INNER", null_safe=True))
    stream.add([l(1, None, 1), r(2, None, 2), l(3, 5, 3)])
    assert job.take() == [("+I", 1, None, 1, 2, None, 2)]


def test_row_whose_key_is_null_is_not_kept(
    spark: Any, run: Callable[[Any], Run], tmp_path: Path
) -> None:
    stream = Stream(spark, COLUMNS)
    job = run(join(stream.frame, "FULL"))
    stream.add([l(n, None, n) for n in range(100)] + [r(1, None, 1), l(7, 7, 7)])
    first = job.take()
    assert len(first) == 102
    stream.add([l(5, None, 5, 3)])
    assert job.take() == [("-D", 5, None, 5, None, None, None)]
    job.query.stop()
    state = spark.read.format("statestore").load(
        str(tmp_path / "checkpoint-0"), stateVarName="state"
    )
    assert state.count() == 1


def test_join_without_keys_meets_every_row(spark: Any, run: Callable[[Any], Run]) -> None:
    """NOT IN: a NULL on either side leaves nothing."""
    stream = Stream(spark, COLUMNS)
    unknown_or_equal = "isnull(c1 = c4) OR c1 = c4"
    job = run(join(stream.frame, "ANTI", condition=unknown_or_equal, keyed=False))
    stream.add([l(1, 1, 1), l(2, 2, 2), l(3, None, 3), r(1, 1, 1)])
    assert job.take() == [("+I", 2, 2, 2)]
    stream.add([r(2, None, 2)])
    assert job.take() == [("-D", 2, 2, 2)]
    stream.add([r(2, None, 2, 3), r(1, 1, 1, 3)])
    assert sorted(map(repr, job.take())) == [
        "('+I', 1, 1, 1)",
        "('+I', 2, 2, 2)",
        "('+I', 3, None, 3)",
    ]


def test_delete_of_an_unknown_row_is_counted(spark: Any, run: Callable[[Any], Run]) -> None:
    stream = Stream(spark, COLUMNS, partitions=1)
    joined = join(stream.frame, "INNER", Sides(None, ("c4",)))
    job = run(joined)
    stream.add([l(1, 1, 1, 3), l(1, 1, 2, 3), l(1, 1, 2), r(1, 1, 1, 3), r(1, 2, 1), r(1, 2, 1, 3)])
    assert job.take() == []
    assert dict(joined.counts.values()) == {"delete of an unknown row": 2}


@pytest.mark.parametrize(
    ("kinds", "unknown"), [("-D +U", 1), ("+U -D -D", 1), ("-D -D", 2), ("+U -D +U -D", 0)]
)
def test_deletes_of_unknown_rows_are_counted_wherever_they_stand_in_a_batch(
    spark: Any, run: Callable[[Any], Run], kinds: str, unknown: int
) -> None:
    """Where rows have a key. Without one there is no order: only what is left of a row's comings and goings counts."""
    stream = Stream(spark, COLUMNS, partitions=1)
    joined = join(stream.frame, "INNER", Sides(("c0",), None))
    job = run(joined)
    numbers = [SYMBOLS.index(kind) for kind in kinds.split()]
    stream.add([l(1, 1, 1, kind) for kind in numbers])
    job.take()
    counted = dict(joined.counts.values()).get("delete of an unknown row", 0)
    assert counted == unknown


@pytest.mark.parametrize(
    ("kind", "unique", "expected"),
    [
        ("INNER", None, []),
        ("INNER", ("c0",), []),
        ("LEFT", None, [("+I", 1, None, 2, None, None, None)]),
        ("LEFT", ("c0",), [("+I", 1, None, 1), ("+U", 1, None, 2)]),
    ],
)
def test_null_keys_are_counted(
    spark: Any,
    run: Callable[[Any], Run],
    kind: str,
    unique: tuple[str, ...] | None,
    expected: list[Row],
) -> None:
    """Each row that is put in, whether the join gives it or leaves it out."""
    stream = Stream(spark, COLUMNS, partitions=1)
    joined = join(stream.frame, kind, Sides(unique, None), update_before=unique is None)
    job = run(joined)
    change = [l(1, None, 1, 1)] if unique is None else []
    stream.add([l(1, None, 1), *change, l(1, None, 2, 2), r(3, None, 3), l(4, 4, 4), r(5, 5, 5, 3)])
    found = [row for row in job.take() if row[1] == 1]
    assert [row[: len(expected[0])] for row in found] == expected if expected else not found
    assert dict(joined.counts.values())["NULL in a joined column"] == 3


# --- size, replay --------------------------------------------------------------------------------


@pytest.mark.parametrize(("condition", "many"), [(None, 100_000), ("c2 < c5", 20_000)])
def test_key_with_many_rows(
    spark: Any, run: Callable[[Any], Run], tmp_path: Path, condition: str | None, many: int
) -> None:
    """Rows of one key lie in pages; a row of the other side meets each of them, also after a restart."""
    numbers = Stream(spark, {"first": "INT", "last": "INT", "right": "INT", "_kind": "TINYINT"})
    rows = numbers.frame.selectExpr("explode(sequence(first, last)) AS n", "right", "_kind")
    sided = rows.selectExpr(
        "IF(right = 1, 'right', 'left') AS side", "n", "1 AS k", "n % 10 AS v", "_kind"
    )
    job = run(join(sided, "LEFT", condition=condition))

    def take(first: int, last: int, right: int, kind: int = 0) -> dict[str, int]:
        given = {"first": first, "last": last, "right": right, "_kind": kind}
        numbers.add([{name: str(value) for name, value in given.items()}])
        return dict(Counter(change[0] for change in job.take()))

    fit = many if condition is None else many * 9 // 10
    assert take(1, many, 0) == {"+I": many}
    job.restart()
    assert take(9, 9, 1) == {"-D": fit, "+I": fit}
    assert take(many + 10, many + 10, 0) == {"+I": 1}
    assert take(2, many - 1, 0, 3) == {"-D": many - 2}
    # Three rows are left, the last value of none of which is 9.
    assert take(9, 9, 1, 3) == {"-D": 3, "+I": 3}
    assert take(1, 1, 0, 3) == {"-D": 1}
    job.query.stop()
    pages = spark.read.format("statestore").load(
        str(tmp_path / "checkpoint-0"), stateVarName="pages"
    )
    assert pages.count() <= 1


def test_replayed_batch_gives_the_same_rows_in_the_same_order(
    spark: Any, run: Callable[[Any], Run]
) -> None:
    rng = random.Random(5)
    stream = Stream(spark, COLUMNS, partitions=3)
    job = run(join(stream.frame, "FULL", condition="c2 < c5"))
    sources = [Source(rng, "left", None), Source(rng, "right", None)]
    stream.add([c for _ in range(60) for c in rng.choice(sources).change()])
    assert len(job.take()) > 10
    stream.add([c for _ in range(60) for c in rng.choice(sources).change()])
    assert len(job.take_twice()) > 10


def test_both_sides_go_through_one_shuffle(spark: Any, run: Callable[[Any], Run]) -> None:
    stream = Stream(spark, COLUMNS, partitions=1)
    job = run(join(stream.frame, "FULL", NUMBERED, "c2 < c5"))
    stream.add([l(1, 1, 1), r(1, 1, 1)])
    assert len(job.take()) == 2
    plan = str(job.query._jsq.explainInternal(False))
    assert plan.count("Exchange ") == 1, plan


def test_keys_of_different_types_are_refused(spark: Any) -> None:
    from pyspark.sql import DataFrame

    stream = Stream(spark, {**COLUMNS, "v": "BIGINT"})
    left = stream.frame.selectExpr("n AS c0", "k AS c1")
    right = stream.frame.selectExpr("n AS c2", "v AS c3")
    spec = {
        "name": "Join of test",
        "kind": "INNER",
        "left": {"columns": ["c0"], "keys": ["c1"], "unique": None},
        "right": {"columns": ["c2"], "keys": ["c3"], "unique": None},
        "nullSafe": [False],
    }
    counts = new_counts(spark)
    with pytest.raises(Exception, match="Join of test: keys of different types: INT and BIGINT"):
        DataFrame(operators(spark).join(left._jdf, right._jdf, json.dumps(spec), counts), spark)


def test_each_side_is_forgotten_after_its_own_time(spark: Any, run: Callable[[Any], Run]) -> None:
    stream = Stream(spark, COLUMNS, 1)
    job = run(join(stream.frame, "INNER", ttl=(8000, 3_600_000)))

    def add(side: str, n: int, v: int, kind: int = 0, k: int = 7) -> list[Row]:
        stream.add([{"side": side, "n": n, "k": k, "v": v, "_kind": kind}])
        return job.take()

    add("left", 0, 0, k=0)  # the first batch takes its time
    assert add("left", 1, 10) == []
    assert add("right", 2, 20) == [("+I", 1, 7, 10, 2, 7, 20)]
    time.sleep(8.5)
    assert add("right", 3, 30) == [], "the left row is forgotten, by itself"
    found = add("left", 4, 40)
    assert sorted(found) == [("+I", 4, 7, 40, 2, 7, 20), ("+I", 4, 7, 40, 3, 7, 30)]
    assert add("left", 1, 10, 3) == [], "what is forgotten is not taken out"
    assert dict(job.frame.counts.values()) == {"delete of an unknown row": 1}

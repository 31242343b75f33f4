"""One row becomes several: GROUPING SETS, UNNEST, table functions in Python, INTERSECT ALL and EXCEPT ALL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from world import Collected, World, finish

from tidemill import JobError, Session
from tidemill import types as t
from tidemill.plan import nodes
from tidemill.spark.expressions import to_sql
from tidemill.spark.generators import correlate, expand

pytestmark = pytest.mark.spark

WORDS = """
from __future__ import annotations
from collections.abc import Iterator
from tidemill import udtf

@udtf(result_types="ROW<word STRING, n INT>", input_types=["STRING"])
def pairs(text):
    for word in (text or "").split():
        yield word, len(word)

def letters(text: str) -> Iterator[str]:
    yield from text

def counted(n: int) -> Iterator[tuple[int, str]]:
    return ((i, "x" * i) for i in range(n))

@udtf(result_types=["INT"])
def maybe(x):
    if x is None or x > 1:
        return None
    return x if x == 1 else [x, x]

@udtf(result_types=["INT", "STRING"])
def named(x):
    return [{"f1": "b", "f0": x}, [x, "c"]]

@udtf(result_types=["STRING"], deterministic=False)
def once():
    yield "o"

@udtf(result_types=["ARRAY<INT>"])
def lists(x):
    yield [x, x]

class Shift:
    def open(self, context):
        self.by = 10

    def eval(self, x: int) -> Iterator[int]:
        yield x + self.by
        yield x - self.by

shift = udtf(Shift(), result_types=["BIGINT"])

@udtf(result_types=["INT"])
def failing(x):
    yield 1
    yield 1 // x

@udtf(result_types=["INT", "INT"])
def short(x):
    yield 1

@udtf(result_types=["INT"])
def wrong(x):
    yield "many"
"""


@pytest.fixture
def run(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "words.py").write_text(WORDS)
    monkeypatch.chdir(Path("/"))

    def running(script: str, *names: str) -> list[tuple[Any, ...]]:
        rows: list[tuple[str, Any]] = []
        made = "".join(f"CREATE FUNCTION {n} AS 'words.{n}' LANGUAGE PYTHON;\n" for n in names)
        with Session(spark, python_files=[tmp_path], output=Collected(rows)) as session:
            for job in session.execute(made + script):
                if not isinstance(job, str):
                    finish(job)
        assert all(kind == "+I" for kind, _ in rows)
        return [tuple(row.values()) for _, row in rows]

    return running


V = "(VALUES ('a', 'x', 1), ('a', 'y', 2), ('b', 'x', 4)) AS v(k, l, n)"
GROUPS: list[tuple[str, str, set[tuple[Any, ...]]]] = [
    (
        "ROLLUP (k, l)",
        "k, l, SUM(n), GROUPING(k), GROUPING_ID(k, l), GROUPING(l)",
        {
            ("a", "x", 1, 0, 0, 0),
            ("a", "y", 2, 0, 0, 0),
            ("b", "x", 4, 0, 0, 0),
            ("a", None, 3, 0, 1, 1),
            ("b", None, 4, 0, 1, 1),
            (None, None, 7, 1, 3, 1),
        },
    ),
    (
        "CUBE (k, l)",
        "k, l, COUNT(*)",
        {
            ("a", "x", 1),
            ("a", "y", 1),
            ("b", "x", 1),
            ("a", None, 2),
            ("b", None, 1),
            (None, "x", 2),
            (None, "y", 1),
            (None, None, 3),
        },
    ),
    # What is grouped by is also summed up: where a set leaves it out, the sum still reads it.
    (
        "GROUPING SETS ((k), (n), ())",
        "k, n, SUM(n), COUNT(k)",
        {
            ("a", None, 3, 2),
            ("b", None, 4, 1),
            (None, 1, 1, 1),
            (None, 2, 2, 1),
            (None, 4, 4, 1),
            (None, None, 7, 3),
        },
    ),
    # A set that stands there twice gives its rows twice; a key that the second time lacks is NULL.
    (
        "GROUPING SETS ((k), (l), (k))",
        "k, l, SUM(n), GROUP_ID(), GROUPING_ID(k, l)",
        {
            ("a", None, 3, 0, 1),
            ("b", None, 4, 0, 1),
            (None, "x", 5, 0, 2),
            (None, "y", 2, 0, 2),
            ("a", None, 3, 1, 1),
            ("b", None, 4, 1, 1),
        },
    ),
    (
        "k, GROUPING SETS ((l), (n))",
        "k, l, n, COUNT(*)",
        {
            ("a", "x", None, 1),
            ("a", "y", None, 1),
            ("b", "x", None, 1),
            ("a", None, 1, 1),
            ("a", None, 2, 1),
            ("b", None, 4, 1),
        },
    ),
]


@pytest.mark.parametrize(("sets", "items", "expected"), GROUPS, ids=[g for g, _, _ in GROUPS])
def test_grouping_sets(run: Any, sets: str, items: str, expected: set[tuple[Any, ...]]) -> None:
    found = run(f"SELECT {items} FROM {V} GROUP BY {sets}")
    assert len(found) == len(expected) and set(found) == expected


def test_a_null_among_the_keys_is_not_the_null_of_a_set(run: Any) -> None:
    found = run(
        "SELECT k, GROUPING(k), COUNT(*) FROM (VALUES ('a'), (CAST(NULL AS STRING))) AS v(k) GROUP BY ROLLUP (k)"
    )
    assert sorted(found, key=str) == sorted([("a", 0, 1), (None, 0, 1), (None, 1, 2)], key=str)


T = (
    "(VALUES (1, ARRAY['p', 'q'], MAP['m', 1], ARRAY[ROW(1, 'r'), ROW(2, 's')]),"
    " (2, CAST(ARRAY[CAST(NULL AS STRING)] AS ARRAY<STRING>), CAST(NULL AS MAP<STRING, INT>),"
    " CAST(NULL AS ARRAY<ROW<EXPR$0 INT, EXPR$1 CHAR(1)>>))) AS t(id, a, m, r)"
)
UNNESTED: list[tuple[str, str, list[tuple[Any, ...]]]] = [
    ("x", "CROSS JOIN UNNEST(a) AS u(x)", [(1, "p"), (1, "q"), (2, None)]),
    ("x, y", "CROSS JOIN UNNEST(m) AS u(x, y)", [(1, "m", 1)]),
    ("x, y", "CROSS JOIN UNNEST(r) AS u(x, y)", [(1, 1, "r"), (1, 2, "s")]),
    ("x", "LEFT JOIN UNNEST(m) AS u(x, y) ON TRUE", [(1, "m"), (2, None)]),
    (
        "x, y, o",
        "LEFT JOIN UNNEST(r) WITH ORDINALITY AS u(x, y, o) ON TRUE",
        [(1, 1, "r", 1), (1, 2, "s", 2), (2, None, None, None)],
    ),
    ("x, o", "CROSS JOIN UNNEST(a) WITH ORDINALITY AS u(x, o) WHERE o = 2", [(1, "q", 2)]),
    ("x, y, o", "CROSS JOIN UNNEST(m) WITH ORDINALITY AS u(x, y, o)", [(1, "m", 1, 1)]),
    ("x", "JOIN UNNEST(a) AS u(x) ON x <> 'p'", [(1, "q")]),
    ("x, o", "LEFT JOIN UNNEST(a) WITH ORDINALITY AS u(x, o) ON x <> 'p' AND o < 9", [(1, "q", 2), (2, None, None)]),
    ("x, y", "LEFT JOIN UNNEST(m) AS u(x, y) ON y > 0", [(1, "m", 1), (2, None, None)]),
    ("x, y", "LEFT JOIN UNNEST(r) AS u(x, y) ON x + CHAR_LENGTH(y) > 2", [(1, 2, "s"), (2, None, None)]),
    ("x", "CROSS JOIN LATERAL (SELECT UPPER(x) AS x FROM UNNEST(a) AS u(x) WHERE x > 'p')", [(1, "Q")]),
    ("x, z", "LEFT JOIN LATERAL (SELECT x, 7 FROM UNNEST(r) AS u(x, y) WHERE y = 's') AS l(x, z) ON TRUE",
     [(1, 2, 7), (2, None, None)]),
    ("x, y", "CROSS JOIN UNNEST(a) AS u(x) CROSS JOIN UNNEST(ARRAY[id, 9]) AS w(y)",
     [(1, "p", 1), (1, "p", 9), (1, "q", 1), (1, "q", 9), (2, None, 2), (2, None, 9)]),
]  # fmt: skip


@pytest.mark.parametrize(("items", "joined", "expected"), UNNESTED, ids=[u for _, u, _ in UNNESTED])
def test_unnest_in_order(
    run: Any, items: str, joined: str, expected: list[tuple[Any, ...]]
) -> None:
    found = run(f"SELECT id, {items} FROM {T} {joined}")
    assert sorted(found, key=lambda row: row[0]) == expected


def test_unnest_and_a_function_without_a_table(run: Any) -> None:
    assert run("SELECT x FROM UNNEST(ARRAY[3, 1]) AS u(x)") == [(3,), (1,)]
    found = run("SELECT word, n, o FROM LATERAL TABLE(pairs('to be')), LATERAL TABLE(once()) AS t(o)",
                "pairs", "once")  # fmt: skip
    assert found == [("to", 2, "o"), ("be", 2, "o")]


FUNCTIONS: list[tuple[str, str, list[tuple[Any, ...]]]] = [
    ("pairs", "SELECT a, word, n FROM t, LATERAL TABLE(pairs(b)) AS w", [(1, "x", 1), (1, "yy", 2)]),
    (
        "pairs",
        "SELECT a, w FROM t LEFT JOIN LATERAL TABLE(pairs(b)) AS f(w, n) ON TRUE",
        [(1, "x"), (1, "yy"), (2, None)],
    ),
    ("letters", "SELECT a, l FROM t, LATERAL TABLE(letters(COALESCE(b, '-'))) AS f(l) WHERE l <> ' '",
     [(1, "x"), (1, "y"), (1, "y"), (2, "-")]),
    ("counted", "SELECT a, f0, f1 FROM t, LATERAL TABLE(counted(a))",
     [(1, 0, ""), (2, 0, ""), (2, 1, "x")]),
    ("maybe", "SELECT a, f0 FROM t LEFT JOIN LATERAL TABLE(maybe(a - 1)) ON TRUE",
     [(1, 0), (1, 0), (2, 1)]),
    ("maybe", "SELECT a, f0 FROM t, LATERAL TABLE(maybe(a + 1))", []),
    ("counted", "SELECT a, i, s FROM t LEFT JOIN LATERAL TABLE(counted(a)) AS c(i, s) ON i > 0 OR s = 'z'",
     [(1, None, None), (2, 1, "x")]),
    ("named", "SELECT a, f0, f1 FROM t, LATERAL TABLE(named(a))",
     [(1, 1, "b"), (1, 1, "c"), (2, 2, "b"), (2, 2, "c")]),
    ("lists", "SELECT a, x FROM t, LATERAL TABLE(lists(a)) AS l(v), UNNEST(v) AS u(x)",
     [(1, 1), (1, 1), (2, 2), (2, 2)]),
    ("Shift", "SELECT a, s FROM t, LATERAL TABLE(shift(a)) AS f(s)",
     [(1, -9), (1, 11), (2, -8), (2, 12)]),
    ("shift", "SELECT SUM(s) FROM t, LATERAL TABLE(shift(a)) AS f(s)", [(6,)]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "query", "expected"), FUNCTIONS, ids=[q for _, q, _ in FUNCTIONS])
def test_table_functions(run: Any, name: str, query: str, expected: list[tuple[Any, ...]]) -> None:
    table = (
        "CREATE VIEW t AS SELECT * FROM (VALUES (1, 'x yy'), (2, CAST(NULL AS STRING))) AS v(a, b);"
    )
    assert sorted(run(table + query, name), key=str) == expected


MISTAKES = [
    ("failing", "RUN-040", "function 'failing' failed: ZeroDivisionError: "),
    ("short", "RUN-041", "function 'short' gave a row of 1 value, but has 2 columns"),
    ("wrong", "RUN-041", "function 'wrong' gave a row that is not ROW<`f0` INT>"),
]


@pytest.mark.parametrize(("name", "code", "message"), MISTAKES, ids=[n for n, _, _ in MISTAKES])
def test_what_goes_wrong_in_a_table_function(run: Any, name: str, code: str, message: str) -> None:
    with pytest.raises(JobError) as raised:
        run(f"SELECT * FROM (VALUES (0)) AS t(a), LATERAL TABLE({name}(a))", name)
    [found] = raised.value.diagnostics
    assert found.code == code and found.message.startswith(message)


def test_rows_are_counted_on_both_sides(run: Any) -> None:
    left, right = "(VALUES (1), (1), (1), (2), (3)) AS l(x)", "(VALUES (1), (1), (2), (2)) AS r(x)"
    both = f"SELECT x FROM {left} {{}} ALL SELECT x FROM {right}"
    assert sorted(run(both.format("INTERSECT"))) == [(1,), (1,), (2,)]
    assert sorted(run(both.format("EXCEPT"))) == [(1,), (3,)]


# --- changes ------------------------------------------------------------------------------------


def frame(spark: Any, types: str, *rows: tuple[Any, ...]) -> Any:
    """Rows with their kind and task."""
    return spark.createDataFrame(list(rows), f"{types}, _kind TINYINT, _task INT").coalesce(1)


def test_hidden_columns_go_along_with_every_row(spark: Any) -> None:
    values = nodes.Values((), (t.Field("a", t.STRING), t.Field("n", t.INT)))
    node = nodes.Expand(values, (frozenset({0, 1}), frozenset({0}), frozenset()))
    changes = frame(spark, "c0 STRING, c1 INT", ("x", 1, 1, 7), ("x", 2, 2, 7))
    found = expand(changes, node, ["_kind", "_task"])
    assert found.columns == ["c0", "c1", "c2", "_kind", "_task"]
    assert [tuple(r) for r in found.collect()] == [
        ("x", 1, 0, 1, 7),
        ("x", None, 1, 1, 7),
        (None, None, 3, 1, 7),
        ("x", 2, 0, 2, 7),
        ("x", None, 1, 2, 7),
        (None, None, 3, 2, 7),
    ]


def test_an_element_of_a_multiset_comes_as_often_as_it_is_in_it(spark: Any) -> None:
    row = t.RowType(fields=(t.Field("a b", t.STRING), t.Field("n", t.INT)))
    values = nodes.Values((), (t.Field("m", t.MultisetType(element=row)),))
    fields = (*row.fields, t.Field("o", t.INT))
    node = nodes.Correlate(
        values, "LEFT", "UNNEST", nodes.all_inputs(values), fields, ordinality=True
    )
    changes = frame(
        spark,
        "c0 MAP<STRUCT<`a b`: STRING, n: INT>, INT>",
        ({("x", 1): 2, ("y", None): 1}, 3, 0),
        (None, 0, 0),
        ({}, 1, 0),
    )
    found = [tuple(r)[1:] for r in correlate(changes, node, to_sql, ["_kind", "_task"]).collect()]
    # A multiset has no order; its rows have numbers all the same.
    assert sorted(row[:2] for row in found[:3]) == [("x", 1), ("x", 1), ("y", None)]
    assert [row[2:] for row in found[:3]] == [(1, 3, 0), (2, 3, 0), (3, 3, 0)]
    assert found[3:] == [(None, None, None, 0, 0), (None, None, None, 1, 0)]


def change(op: str, before: Any = None, after: Any = None) -> dict[str, Any]:
    return {"before": before, "after": after, "op": op}


ONE, TWO = {"id": 1, "tags": ["a", "b"]}, {"id": 1, "tags": ["b"]}
CHANGES = (change("c", after=ONE), change("u", ONE, TWO), change("d", TWO))
KINDS: list[tuple[str, str, list[tuple[Any, ...]]]] = [
    (
        "UNNEST",
        "SELECT id, tag FROM s CROSS JOIN UNNEST(tags) AS u(tag)",
        [
            ("+I", 1, "a"),
            ("+I", 1, "b"),
            ("-U", 1, "a"),
            ("-U", 1, "b"),
            ("+U", 1, "b"),
            ("-D", 1, "b"),
        ],
    ),
    (
        "a table function",
        "SELECT id, word FROM s, LATERAL TABLE(pairs(ARRAY_JOIN(tags, ' '))) WHERE word <> 'b'",
        [("+I", 1, "a"), ("-U", 1, "a")],
    ),
    (
        "LEFT",
        "SELECT id, word FROM s LEFT JOIN LATERAL TABLE(pairs(IF(CARDINALITY(tags) = 1, '', 'c'))) ON TRUE",
        [("+I", 1, "c"), ("-U", 1, "c"), ("+U", 1, None), ("-D", 1, None)],
    ),
    (
        "UNION ALL of changes, constants and rows that never change",
        "SELECT id, CARDINALITY(tags) FROM s WHERE CARDINALITY(tags) > 1 UNION ALL SELECT * FROM (VALUES (7, 8))"
        " UNION ALL SELECT 9, x FROM UNNEST(ARRAY[1]) AS u(x)",
        [("+I", 1, 2), ("+I", 7, 8), ("+I", 9, 1), ("-U", 1, 2)],
    ),
]


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("query", "expected"), [k[1:] for k in KINDS], ids=[k for k, _, _ in KINDS]
)
def test_kinds_go_along(world: World, tmp_path: Path, query: str, expected: list[Any]) -> None:
    (tmp_path / "words.py").write_text(WORDS)
    world.python_files.append(tmp_path)
    source = world.create(*CHANGES)
    world.run(
        f"""CREATE FUNCTION pairs AS 'words.pairs' LANGUAGE PYTHON;
            CREATE TABLE s (id INT, tags ARRAY<STRING>) {world.kafka(source, format="debezium-json")};
            {query}"""
    )
    found = [(kind, *row.values()) for kind, row in world.rows]
    if "UNION" in query:
        found.sort()
    assert found == expected

"""What the parser withstands: nesting, size, and text that nobody would write."""

from __future__ import annotations

import time

import pytest

from tidemill.errors import ScriptError, Source
from tidemill.sql import parse_expression, parse_script
from tidemill.sql.parser import MAX_DEPTH

DEEP = {
    "parentheses": lambda n: "SELECT " + "(" * n + "1" + ")" * n,
    "signs": lambda n: "SELECT " + "- " * n + "1",
    "negations": lambda n: "SELECT " + "NOT " * n + "a",
    "calls": lambda n: "SELECT " + "f(" * n + "1" + ")" * n,
    "cases": lambda n: "SELECT " + "CASE WHEN a THEN " * n + "1" + " END" * n,
    "casts": lambda n: "SELECT " + "CAST(" * n + "1" + " AS INT)" * n,
    "tables": lambda n: "SELECT * FROM " + "(SELECT * FROM " * n + "t" + ")" * n,
    "scalar queries": lambda n: "SELECT " + "(SELECT " * n + "1" + ")" * n,
    "joins": lambda n: "SELECT * FROM " + "(" * n + "a" + " CROSS JOIN b)" * n,
    "set operations": lambda n: "(" * n + "SELECT 1" + ") UNION SELECT 2" * n,
    "types": lambda n: "CREATE TABLE t (a " + "ARRAY<" * n + "INT" + ">" * n + ")",
    "rows": lambda n: "CREATE TABLE t (a " + "ROW<a " * n + "INT" + ">" * n + ")",
    "conditions": lambda n: "SELECT a IN (" * n + "1" + ")" * n,
    "elements": lambda n: "SELECT " + "a[" * n + "1" + "]" * n,
}


@pytest.mark.parametrize("build", DEEP.values(), ids=DEEP.keys())
def test_deep_nesting_is_a_diagnostic(build) -> None:
    parse_script(Source("s", build(20)))
    for depth in (MAX_DEPTH + 1, 5000):
        with pytest.raises(ScriptError) as error:
            parse_script(Source("s", build(depth) + "; SELEC"))
        first, *_, last = error.value.diagnostics
        assert first.code == "SQL-018"
        assert last.code == "SQL-012", "reading goes on behind it"


def test_deep_nesting_is_a_diagnostic_when_the_stack_is_nearly_used_up() -> None:
    def deep(levels: int) -> None:
        if levels:
            deep(levels - 1)
        else:
            with pytest.raises(ScriptError) as error:
                parse_expression(Source("s", "f(" * 90 + "1" + ")" * 90))
            assert [d.code for d in error.value.diagnostics] == ["SQL-018"]

    deep(600)


def test_long_chains_are_not_nesting() -> None:
    parse_script(Source("s", "SELECT " + " + ".join(["1"] * 5000)))
    parse_script(Source("s", "SELECT a FROM t WHERE x IN (" + ", ".join(["1"] * 20000) + ")"))
    parse_script(Source("s", " UNION ALL ".join(["SELECT 1"] * 3000)))


def big_script(lines: int) -> str:
    table = "CREATE TABLE orders_{n} (\n" + "".join(
        f"  column_{i} DECIMAL(10, 2) NOT NULL COMMENT 'number {i}',\n" for i in range(10)
    )
    table += "  ts TIMESTAMP(3),\n  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND\n) WITH (\n"
    table += "".join(f"  'properties.option-{i}' = 'value {i}', -- why\n" for i in range(6))
    table += "  'connector' = 'kafka'\n);\n"
    insert = (
        "INSERT INTO sink_{n}\nSELECT a.id, CASE WHEN x > 1 THEN 'a' ELSE b END AS c,\n"
        "  COUNT(DISTINCT user_id) FILTER (WHERE amount * 2 + 1 > 10) AS uv, SUM(amount) AS total\n"
        "FROM orders_{n} AS a JOIN users FOR SYSTEM_TIME AS OF a.ts AS u ON a.id = u.id\n"
        "WHERE a.kind IN ('x', 'y', 'z') AND u.name LIKE 'a%'\nGROUP BY a.id, b;\n"
    )
    parts = []
    while sum(part.count("\n") for part in parts) < lines:
        parts.append((table + insert).replace("{n}", str(len(parts))))
    return "".join(parts)


# Processor time, so that a busy machine does not fail it: about 0.04 s and 0.7 s were seen.
@pytest.mark.parametrize(("lines", "seconds"), [(500, 0.1), (10_000, 2.0)])
def test_speed(lines: int, seconds: float) -> None:
    source = Source("big.sql", big_script(lines))
    assert any(_seconds(source) < seconds for _ in range(3))


def _seconds(source: Source) -> float:
    start = time.process_time()
    parse_script(source)
    return time.process_time() - start


def test_pathological_text_takes_no_time() -> None:
    start = time.process_time()
    for text in (
        "'" * 20001,
        "`" * 20001,
        "/*" * 10000,
        "/*+" * 5000,
        "$" * 20000,
        "${" * 10000,
        "${a" * 7000,
        "a" * 100_000,
        "SET " * 10000,
        "SET a = " * 5000,
        "(" * 20000,
        "U&'" * 5000,
        "E'\\" * 5000,
        "“" * 20000,
        ";" * 20000,
        "X'" * 10001,
        '"' * 10001,
    ):
        try:
            parse_script(Source("s", text))
        except ScriptError as error:
            error.diagnostics[0].render()
    assert time.process_time() - start < 3


def test_a_script_on_one_line_is_no_slower() -> None:
    """Every mistake shows a part of the line only; secrets in it stay hidden wherever the line is cut."""
    table = "CREATE TABLE t (a BIGNT) WITH ('sasl.password' = 'hunter2', 'k' = 'v'); "
    start = time.process_time()
    with pytest.raises(ScriptError) as error:
        parse_script(Source("s", table * 2000))
    shown = str(error.value)
    assert time.process_time() - start < 5
    assert len(error.value.diagnostics) == 2000
    assert "hunter2" not in shown
    assert max(map(len, shown.splitlines())) < 500
    place, line, carets, _ = error.value.diagnostics[1000].render().split("\n")
    assert place.startswith(f"s:1:{len(table) * 1000 + table.index('BIGNT') + 1}:")
    assert line[carets.index("^") : carets.rindex("^") + 1] == "BIGNT"

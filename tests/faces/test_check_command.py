"""`tidemill check` and usage errors: no JVM anywhere."""

from __future__ import annotations

import json
import time

from command import Command

GOOD = "CREATE TABLE t (a INT) WITH ('connector' = 'datagen'); SELECT a FROM t;"


def test_a_good_script_is_ok(tidemill: Command) -> None:
    done = tidemill("check", tidemill.script(GOOD))
    assert done.wait() == 0
    assert done.stdout().endswith("job.sql: ok, 1 job\n")


def test_a_wrong_script_is_exit_code_1_with_all_its_mistakes(tidemill: Command) -> None:
    done = tidemill("check", tidemill.script(GOOD + "\nSELECT b FROM t;\nSELECT c FROM u;"))
    assert done.wait() == 1
    assert "job.sql:2:8: error PLAN-003: column 'b' not found in table 't'" in done.stderr()
    assert "job.sql:3:15: error PLAN-059: table 'u' does not exist" in done.stderr()


def test_diagnostics_as_json(tidemill: Command) -> None:
    done = tidemill("check", "--json", tidemill.script(GOOD + "\nSELECT b FROM t;"))
    assert done.wait() == 1
    (found,) = json.loads(done.stdout())
    assert (found["code"], found["line"], found["column"], found["end_column"]) == (
        "PLAN-003",
        2,
        8,
        9,
    )
    assert found["severity"] == "error"


def test_several_files_are_one_script(tidemill: Command) -> None:
    first = tidemill.script("CREATE TABLE t (a INT) WITH ('connector' = 'datagen');", "a.sql")
    second = tidemill.script("SELECT nope FROM t;", "b.sql")
    done = tidemill("check", first, second)
    assert done.wait() == 1
    assert "b.sql:1:8: error PLAN-003" in done.stderr()


def test_variables_fill_and_missing_ones_are_told(tidemill: Command) -> None:
    script = tidemill.script(
        "CREATE TABLE t (${COL} INT) WITH ('connector' = '${KIND}'); SELECT a FROM t;"
    )
    assert tidemill("check", script, "--var", "COL=a", "--var", "KIND=datagen").wait() == 0
    done = tidemill("check", script, "--var", "COL=a")
    assert done.wait() == 1
    assert "KIND" in done.stderr()
    assert "^" in done.stderr()


def test_strange_encodings(tidemill: Command) -> None:
    path = tidemill.place / "strange.sql"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("; ", ";\r\n").encode())
    assert tidemill("check", str(path)).wait() == 0
    path.write_bytes("-- 中文注释\r\nSELECT '中文', b FROM t;".encode())
    done = tidemill("check", str(path))
    assert "strange.sql:2:" in done.stderr()
    path.write_bytes("SELECT '中文' FROM t;".encode("gbk"))
    done = tidemill("check", str(path))
    assert done.wait() == 1
    assert "strange.sql:1:9" in done.stderr()
    assert "iconv" in done.stderr()


def test_wrong_usage_is_exit_code_2(tidemill: Command) -> None:
    assert tidemill("check").wait() == 2
    assert tidemill("nonsense").wait() == 2
    assert tidemill("check", "no-such-file.sql").wait() == 2
    assert tidemill("check", tidemill.script(GOOD), "--var", "novalue").wait() == 2
    assert (
        tidemill("run", tidemill.script(GOOD), "--set", "table.local-time-zone=Nowhere").wait() == 2
    )
    for started in tidemill.started:
        assert "Traceback" not in started.stderr()


def test_a_500_line_script_is_checked_in_half_a_second(tidemill: Command) -> None:
    lines = ["CREATE TABLE t (a INT, b STRING) WITH ('connector' = 'datagen');"]
    lines += [
        f"CREATE VIEW v{i} AS\nSELECT a + {i} AS a, UPPER(b) AS b\nFROM t\nWHERE a > {i}\n;"
        for i in range(100)
    ]
    script = tidemill.script("\n".join(lines))
    assert "\n".join(lines).count("\n") >= 500
    best = 10.0
    for _ in range(5):
        begin = time.perf_counter()
        assert tidemill("check", script).wait() == 0
        best = min(best, time.perf_counter() - begin)
    assert best < 0.5, f"{best:.2f} s"

"""`tidemill check` and usage errors: no JVM anywhere."""

from __future__ import annotations

import json
import resource
import zipfile

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


NOT_YET = """CREATE TABLE s (id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH (
  'connector' = 'kafka', 'topic' = 's', 'properties.bootstrap.servers' = 'b:9092',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'csv');
CREATE TABLE t (id BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO t SELECT id FROM s MATCH_RECOGNIZE (
  ORDER BY ts MEASURES A.id AS id PATTERN (A B) DEFINE B AS B.id > A.id);
"""


def test_what_plans_and_cannot_be_run_is_marked_at_its_place(tidemill: Command) -> None:
    script = tidemill.script(NOT_YET)
    done = tidemill("check", script)
    assert done.wait() == 1
    marked = "job.sql:5:13: {} PLAN-020: not yet runnable: MATCH_RECOGNIZE"
    assert marked.format("error") in done.stderr()
    assert done.stdout() == ""
    planned = tidemill("check", "--plan-only", script)
    assert planned.wait() == 0
    assert marked.format("warning") in planned.stderr()
    assert planned.stdout().endswith("job.sql: ok, 1 job\n")


def test_run_agrees_with_check_and_starts_nothing(tidemill: Command) -> None:
    done = tidemill("run", tidemill.script(NOT_YET))
    assert done.wait(20) == 1
    assert "error PLAN-020: not yet runnable: MATCH_RECOGNIZE" in done.stderr()
    assert "Spark" not in done.stderr()


def test_two_jobs_that_would_share_a_checkpoint_are_told_by_both(tidemill: Command) -> None:
    tables = (
        "CREATE TABLE s (id BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '1');\n"
        "CREATE TABLE t (id BIGINT) WITH ('connector' = 'print');\n"
    )
    twice = "INSERT INTO t SELECT id FROM s;\nINSERT INTO t SELECT id + 1 FROM s;\n"
    kept = f"SET 'execution.checkpointing.dir' = '{tidemill.place}';\n"
    for verb in ("check", "run"):
        done = tidemill(verb, tidemill.script(kept + tables + twice))
        assert done.wait(20) == 1
        assert "error PLAN-063" in done.stderr()
    # Without a directory of the script's own nobody knows yet whether anything is kept.
    assert tidemill("check", tidemill.script(tables + twice)).wait() == 0


def test_advice_stands_among_the_mistakes_in_the_scripts_order(tidemill: Command) -> None:
    script = tidemill.script(
        "CREATE TABLE s (id BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');\n"
        "SET 'table.exec.state.tlt' = '1 d';\n"
        "SELECT id, COUNT(*) FROM s GROUP BY id;\n"
    )
    done = tidemill("check", "--json", script)
    assert done.wait() == 0
    found = [(d["code"], d["severity"], d["line"]) for d in json.loads(done.stdout())]
    assert found == [
        ("ADV-007", "warning", 1),
        ("ADV-002", "warning", 1),
        ("OPT-080", "warning", 2),
        ("ADV-001", "warning", 3),
    ]


def test_explain_shows_the_plan_of_every_job_then_advice(tidemill: Command) -> None:
    script = tidemill.script(
        "CREATE TABLE s (id BIGINT) WITH ('connector' = 'datagen');\n"
        "CREATE TABLE t (id BIGINT, c BIGINT) WITH ('connector' = 'print');\n"
        "INSERT INTO t SELECT id, COUNT(*) FROM s GROUP BY id;\nSELECT id FROM s;\n"
    )
    done = tidemill("explain", script)
    assert done.wait() == 0
    first, second = done.stdout().strip().split("\n\n")
    assert first.startswith("== t ==\nSink(table=[default_catalog.default_database.t]")
    assert "changelogMode=[I,UB,UA]" in first
    assert second.startswith("== select ==\n")
    assert "warning ADV-001" in done.stderr()
    shown = json.loads(_output(tidemill, "explain", "--json", script))
    assert [job["name"] for job in shown["jobs"]] == ["t", "select"]
    sink = shown["jobs"][0]["plans"][0]
    assert sink["operator"].startswith("Sink(")
    assert sink["inputs"][0]["changelog_mode"] == ["I", "UB", "UA"]
    assert sink["inputs"][0]["upsert_keys"] == [["id"]]
    assert [d["code"] for d in shown["diagnostics"]] == ["ADV-001"]


def test_explain_tells_mistakes_and_ends_with_1(tidemill: Command) -> None:
    done = tidemill("explain", tidemill.script("SELECT 1 + 'a' FROM nowhere;"))
    assert done.wait() == 1
    assert "error PLAN-059" in done.stderr()
    assert tidemill("explain", tidemill.script(NOT_YET)).wait() == 0


def _output(tidemill: Command, *arguments: str) -> str:
    done = tidemill(*arguments)
    assert done.wait() == 0
    return done.stdout()


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
    assert "\n".join(lines).count("\n") >= 500
    whole, first = "\n".join(lines), lines[0]
    # Time on the processor, beyond what a script of one line takes: where Python compiles its modules anew at every
    # start, as here, that start alone may take as long.
    assert spent_on(tidemill, whole) - spent_on(tidemill, first) < 0.5


def spent_on(tidemill: Command, text: str) -> float:
    script = tidemill.script(text)
    spent = []
    for _ in range(2):
        before = processor_seconds()
        assert tidemill("check", script).wait() == 0
        spent.append(processor_seconds() - before)
    return min(spent)


def processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


SECURED = """CREATE TABLE s (id BIGINT) WITH (
  'connector' = 'kafka', 'topic' = 's', 'properties.bootstrap.servers' = 'b:9092',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'json',
  'properties.security.protocol' = 'SASL_PLAINTEXT', 'properties.sasl.mechanism' = 'GSSAPI', {});
SELECT id FROM s;"""


def test_a_job_configuration_a_package_and_credentials_are_looked_at(tidemill: Command) -> None:
    script = tidemill.script(SECURED.format("'properties.sasl.kerberos.service.name' = 'hadoop'"))
    config = tidemill.script(
        "security.kerberos.login.principal: hadoop/h@R\n"
        "security.kerberos.login.keytab: emr.keytab\n"
        "security.kerberos.login.contexts: KafkaClient\n"
        "fs.hdfs.hadoop.security.authentication: kerberos\n",
        "job.conf",
    )
    done = tidemill("check", script, "--job-config", config)
    assert done.wait() == 1
    assert "job.conf:2:33: error OPT-077: 'emr.keytab'" in done.stderr()
    assert "notice OPT-084: 'fs.hdfs.hadoop.security.authentication'" in done.stderr()
    package = str(tidemill.place / "p.jar")
    with zipfile.ZipFile(package, "w") as jar:
        jar.writestr("emr.keytab", "x")
    assert tidemill("check", script, "--job-config", config, "--package", package).wait() == 0
    wrong = tidemill.script("parallelism.default 2\n", "wrong.conf")
    done = tidemill("check", script, "--job-config", wrong)
    assert done.wait() == 2
    assert "wrong.conf:1:1: error CLI-030" in done.stderr()


def test_named_authentication_is_looked_up_where_there_is_a_file(tidemill: Command) -> None:
    script = tidemill.script(SECURED.format("'krb_auth_name' = 'mykrb'"))
    done = tidemill("check", script)
    assert done.wait() == 0
    assert "warning OPT-071: 'mykrb' of 'krb_auth_name' cannot be looked up" in done.stderr()
    file = tidemill.place / "c.toml"
    file.touch(mode=0o600)
    file.write_text('[my_krb]\ntype = "kerberos"\nprincipal = "a@R"\nkeytab = "k"\n')
    done = tidemill("check", script, "--credentials", str(file))
    assert done.wait() == 1
    assert "error OPT-071: there is no 'mykrb'" in done.stderr()
    assert "hint: did you mean 'my_krb'?" in done.stderr()
    named = tidemill.script(SECURED.format("'krb_auth_name' = 'my_krb'"))
    assert tidemill("check", named, "--credentials", str(file)).wait() == 0
    file.chmod(0o644)
    done = tidemill("check", named, "--credentials", str(file))
    assert done.wait() == 2
    assert "error CLI-033" in done.stderr()

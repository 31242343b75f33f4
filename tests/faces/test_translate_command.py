"""`tidemill translate`, and dialects on `check`: no JVM anywhere."""

from __future__ import annotations

from pathlib import Path

from command import Command

BLINK = """\
-- orders
create table t (
  id VARCHAR, -- the key
  PRIMARY KEY (id)
) with (type = 'kafka010', topic = '${TOPIC}', bootstrap.servers = 'b:1', password = 's3cret');
"""
FLINK = """\
-- orders
create table t (
  id STRING, -- the key
  PRIMARY KEY (id) NOT ENFORCED
) with ('connector' = 'upsert-kafka', 'topic' = '${TOPIC}', 'properties.bootstrap.servers' = 'b:1', \
'properties.password' = 's3cret', 'key.format' = 'json', 'value.format' = 'json');
"""


def test_the_script_goes_to_standard_output_and_what_to_look_at_to_standard_error(
    tidemill: Command,
) -> None:
    done = tidemill("translate", tidemill.script(BLINK), "--from", "blink", "--no-notes")
    assert done.wait() == 0
    assert done.stdout() == FLINK
    assert "job.sql:5:9: warning DIA-004: table 't' has other columns" in done.stderr()
    assert done.stderr().endswith("job.sql: 8 changes, 1 to look at\n")


def test_notes_are_comments_and_show_no_secrets(tidemill: Command) -> None:
    done = tidemill("translate", tidemill.script(BLINK))
    assert "-- note: VARCHAR without a length is STRING\n" in done.stdout()
    assert "s3cret" not in done.stderr()
    assert done.stdout().count("s3cret") == 1
    assert [line for line in done.stdout().splitlines() if not line.startswith("-- ")] == [
        line for line in FLINK.splitlines() if not line.startswith("-- ")
    ]


def test_output_goes_to_a_file_and_is_a_fixpoint(tidemill: Command) -> None:
    new = Path(tidemill.place) / "new.sql"
    first = tidemill("translate", tidemill.script(BLINK), "-o", str(new))
    assert first.wait() == 0 and first.stdout() == ""
    again = tidemill("translate", str(new), "--from", "blink")
    assert again.stdout() == new.read_text(encoding="utf-8")
    assert again.stderr().endswith("new.sql: nothing to change\n")


def test_a_script_with_mistakes_is_not_translated(tidemill: Command) -> None:
    done = tidemill("translate", tidemill.script("create table t (id VARCHAR) with (type = )"))
    assert done.wait() == 1
    assert done.stdout() == ""
    assert "error SQL-010" in done.stderr()


def test_check_finds_the_dialect_of_each_file(tidemill: Command) -> None:
    blink = tidemill.script(BLINK, "blink.sql")
    flink = tidemill.script("INSERT INTO t SELECT 'a';", "flink.sql")
    done = tidemill("check", blink, flink, "--var", "TOPIC=orders")
    assert done.wait() == 0
    assert f"notice DIA-001: {blink} is read in the dialect 'blink'" in done.stderr()
    assert done.stderr().count("DIA-001") == 1
    assert done.stdout().endswith("ok, 1 job\n")


def test_a_dialect_that_is_given_is_not_doubted(tidemill: Command) -> None:
    script = tidemill.script(BLINK)
    done = tidemill("check", script, "--var", "TOPIC=orders", "--dialect", "flink")
    assert done.wait() == 1
    assert "DIA-001" not in done.stderr()
    assert "or run it with --dialect blink" in done.stderr()
    done = tidemill("check", script, "--dialect", "klingon")
    assert done.wait() == 2
    assert "'flink', 'oceanus', 'blink', 'dli'" in done.stderr()

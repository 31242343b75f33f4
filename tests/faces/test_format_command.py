"""`tidemill format`: no JVM anywhere."""

from __future__ import annotations

import subprocess
from pathlib import Path

from command import COMMAND, Command

UGLY = "-- all of it\nselect a,b from ${T} -- rows\nwhere a>1"
NICE = "-- all of it\nSELECT a, b\nFROM ${T} -- rows\nWHERE a > 1;\n"


def test_the_formatted_script_goes_to_standard_output(tidemill: Command) -> None:
    script = tidemill.script(UGLY)
    done = tidemill("format", script)
    assert done.wait() == 0
    assert done.stdout() == NICE
    assert Path(script).read_text() == UGLY


def test_check_names_the_files_that_would_change(tidemill: Command) -> None:
    ugly, nice = tidemill.script(UGLY, "ugly.sql"), tidemill.script(NICE, "nice.sql")
    assert tidemill("format", "--check", nice).wait() == 0
    done = tidemill("format", "--check", ugly, nice)
    assert done.wait() == 1
    assert done.stdout() == f"{ugly} would change\n"
    assert Path(ugly).read_text() == UGLY


def test_write_changes_what_is_not_formatted_yet(tidemill: Command) -> None:
    ugly, nice = tidemill.script(UGLY, "ugly.sql"), tidemill.script(NICE, "nice.sql")
    done = tidemill("format", "--write", ugly, nice)
    assert done.wait() == 0
    assert (done.stdout(), done.stderr()) == ("", f"{ugly}: formatted\n")
    assert Path(ugly).read_text() == NICE
    assert tidemill("format", "-w", ugly).stderr() == ""


def test_diff_shows_what_would_change(tidemill: Command) -> None:
    done = tidemill("format", "--diff", tidemill.script(UGLY))
    assert done.wait() == 0
    assert "-select a,b from ${T} -- rows\n" in done.stdout()
    assert "+SELECT a, b\n" in done.stdout()


def test_a_script_with_mistakes_stays_as_it_is(tidemill: Command) -> None:
    wrong, ugly = (
        tidemill.script("select a form t;", "wrong.sql"),
        tidemill.script(UGLY, "ugly.sql"),
    )
    done = tidemill("format", "-w", wrong, ugly)
    assert done.wait() == 1
    assert "wrong.sql:1:10: error SQL-010" in done.stderr()
    assert "Traceback" not in done.stderr()
    assert Path(wrong).read_text() == "select a form t;"
    assert Path(ugly).read_text() == NICE


def test_the_dialect_is_found_out(tidemill: Command) -> None:
    script = tidemill.script(
        "create table t (a varchar) with (type='kafka010', bootstrap.servers='x');"
    )
    done = tidemill("format", script)
    assert done.wait() == 0
    assert "  type = 'kafka010',\n  bootstrap.servers = 'x'\n" in done.stdout()
    assert tidemill("format", "--dialect", "flink", script).wait() == 1


def test_standard_input_for_editors() -> None:
    done = subprocess.run([COMMAND, "format", "-"], input=UGLY.encode(), capture_output=True)
    assert (done.returncode, done.stdout.decode()) == (0, NICE)


def test_what_cannot_be_read_or_guessed(tidemill: Command) -> None:
    assert tidemill("format", "no-such-file.sql").wait() == 2
    script = tidemill.script("select 1 from t where a ${COND}")
    done = tidemill("format", script)
    assert done.wait() == 1
    assert "--var COND=VALUE" in done.stderr()
    assert tidemill("format", script, "--var", "COND=> 1").stdout().endswith("a ${COND};\n")

"""`tidemill state` from the command line."""

from __future__ import annotations

import json

import pytest
from command import Command

pytestmark = pytest.mark.spark

COUNT = """
CREATE TABLE gen (id BIGINT, v INT) WITH ('connector' = 'datagen', 'number-of-rows' = '50',
  'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '50',
  'fields.v.min' = '1', 'fields.v.max' = '3');
CREATE TABLE nothing (v INT, n BIGINT, PRIMARY KEY (v) NOT ENFORCED) WITH ('connector' = 'blackhole');
INSERT INTO nothing SELECT v, COUNT(*) FROM gen GROUP BY v;
"""


def test_state_is_cut_anew_from_the_command_line(tidemill: Command) -> None:
    script = tidemill.script(COUNT)
    arguments = ("run", script, "--checkpoint", "cp", "--set", "parallelism.default=2")
    assert tidemill(*arguments).wait() == 0
    listed, read, table, cut, again = tidemill.in_turn(
        ("state", "cp"),
        ("state", "cp", "0", "--json"),
        ("state", "cp", "Group", "--limit", "1"),
        ("state", "repartition", "cp", "3"),
        ("state", "repartition", "cp", "3"),
    )
    assert [done.code for done in (listed, read, table, cut, again)] == [0] * 5, listed.err
    lines = listed.out.splitlines()
    assert lines[0] == "0  GroupAggregate(groupBy=[v], select=[v, COUNT(*) AS EXPR$0])"
    assert lines[1] == "   key: v INT"
    assert lines[2].startswith("   3 keys, ")
    kept = [json.loads(line) for line in read.out.splitlines()]
    assert {row["v"] for row in kept} == {1, 2, 3}
    assert sum(row["EXPR$0"] for row in kept) == 50
    assert table.out.splitlines()[1].split() == ["|", "v", "|", "EXPR$0", "|"]
    assert len(table.out.splitlines()) == 4
    assert cut.out.endswith("for a parallelism of 3\n")
    assert again.out.endswith("for a parallelism of 3 already\n")
    resumed = tidemill(*arguments)
    assert resumed.wait() == 0, resumed.stderr()
    assert "the state in the checkpoint is for a parallelism of 3" in resumed.stderr()
    nowhere = tidemill("state", "repartition", "nowhere", "3")
    assert nowhere.wait() == 2
    assert "there is no checkpoint 'nowhere'" in nowhere.stderr()
    assert tidemill("state", "repartition", "cp", "0").wait() == 2


def test_a_changed_query_is_refused_until_its_state_may_be_reset(tidemill: Command) -> None:
    arguments = ("--checkpoint", "cp")
    assert tidemill("run", tidemill.script(COUNT), *arguments).wait() == 0
    changed = tidemill.script(COUNT.replace("COUNT(*)", "SUM(id)"))
    refused = tidemill("run", changed, *arguments)
    assert refused.wait() == 3
    assert "error RUN-034: the checkpoint was made by another query" in refused.stderr()
    assert "Traceback" not in refused.stderr()
    anew = tidemill("run", changed, *arguments, "--reset-state")
    assert anew.wait() == 0, anew.stderr()
    assert "the state is dropped and the job starts anew" in anew.stderr()
    assert "rows in 50 from gen" in anew.stderr()

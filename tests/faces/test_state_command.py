"""`tidemill state` as a process."""

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
    listed = tidemill("state", "cp")
    assert listed.wait() == 0, listed.stderr()
    lines = listed.stdout().splitlines()
    assert lines[0] == "0  GroupAggregate(groupBy=[v], select=[v, COUNT(*) AS EXPR$0])"
    assert lines[1] == "   key: v INT"
    assert lines[2].startswith("   3 keys, ")
    read = tidemill("state", "cp", "0", "--json")
    assert read.wait() == 0, read.stderr()
    kept = [json.loads(line) for line in read.stdout().splitlines()]
    assert {row["v"] for row in kept} == {1, 2, 3}
    assert sum(row["EXPR$0"] for row in kept) == 50
    table = tidemill("state", "cp", "Group", "--limit", "1")
    assert table.wait() == 0, table.stderr()
    assert table.stdout().splitlines()[1].split() == ["|", "v", "|", "EXPR$0", "|"]
    assert len(table.stdout().splitlines()) == 4
    for said in ("for a parallelism of 3\n", "for a parallelism of 3 already\n"):
        done = tidemill("state", "repartition", "cp", "3")
        assert done.wait() == 0, done.stderr()
        assert done.stdout().endswith(said)
    again = tidemill(*arguments)
    assert again.wait() == 0, again.stderr()
    assert "the state in the checkpoint is for a parallelism of 3" in again.stderr()
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

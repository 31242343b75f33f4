"""`tidemill state` as a process."""

from __future__ import annotations

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

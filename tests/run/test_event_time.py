"""Watermarks and windows over several runs and batches: what one parity case cannot show."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient, NewPartitions
from world import World, forget_last_commit, job_directory

from tidemill import Session
from tidemill.broker.records import Record
from tidemill.cli.status import status
from tidemill.errors import JobError
from tidemill.spark.checkpoints import Checkpoint, repartition

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

START = datetime(2024, 1, 1)
COLUMNS = "k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND"
COUNT = """SELECT k, window_start, window_end, COUNT(*) AS c FROM TABLE({})
    GROUP BY k, window_start, window_end;"""
TUMBLE = "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)"


def row(k: str, second: float, partition: int = 0) -> Record:
    ts = (START + timedelta(seconds=second)).isoformat(" ", "milliseconds")
    value = json.dumps({"k": k, "v": 1, "ts": ts})
    return Record(value.encode(), None, partition=partition)


def counts(world: World) -> list[tuple[str, int, int]]:
    """Key, seconds from START to the window's begin, count: as they came since the last look."""
    found = [
        (r["k"], int((datetime.fromisoformat(r["window_start"]) - START).total_seconds()), r["c"])
        for _, r in world.rows
    ]
    world.rows.clear()
    return found


def table(world: World, topic: str, columns: str = COLUMNS, **options: str) -> str:
    return f"CREATE TABLE t ({columns}) {world.kafka(topic, **options)};"


def late(world: World) -> int:
    return sum(n for what, n in world.oddities.items() if what.endswith(": late row"))


def grow(world: World, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": world.broker.bootstrap})
    for done in admin.create_partitions([NewPartitions(topic, partitions)]).values():
        done.result()


def test_a_restart_between_a_slow_and_a_fast_partition(world: World) -> None:
    topic = world.create(row("fast", 5), row("fast", 45), row("slow", 2, 1), partitions=2)
    script = table(world, topic) + COUNT.format(TUMBLE)
    world.run(script, keep=True)
    assert counts(world) == []
    # What the fast one had reached is known: a record of the slow one alone closes a window of both.
    world.produce(topic, row("slow", 14, 1))
    world.run(script, keep=True)
    assert sorted(counts(world)) == [("fast", 0, 1), ("slow", 0, 1)]
    # So is what has closed.
    world.produce(topic, row("fast", 6), row("slow", 7, 1), row("slow", 33, 1))
    world.run(script, keep=True)
    assert sorted(counts(world)) == [("slow", 10, 1)]
    assert late(world) == 2


def test_a_bounded_run_that_nobody_can_continue_closes_all(world: World) -> None:
    topic = world.create(row("a", 5), row("a", 45), row("b", 2, 1), partitions=3)
    script = table(world, topic) + COUNT.format(TUMBLE)
    world.run(script, keep=True)
    assert counts(world) == []
    world.run(script)
    assert sorted(counts(world)) == [("a", 0, 1), ("a", 40, 1), ("b", 0, 1)]


def test_a_batch_that_is_repeated_closes_the_same_windows(world: World) -> None:
    topic = world.create(row("a", 5), row("b", 6), row("a", 25))
    script = table(world, topic) + COUNT.format(TUMBLE)
    world.run(script, keep=True)
    first = counts(world)
    assert sorted(first) == [("a", 0, 1), ("b", 0, 1)]
    forget_last_commit(world)
    world.run(script, keep=True)
    assert counts(world) == first


def test_a_new_partition_holds_the_watermark_back_from_then_on(world: World) -> None:
    topic = world.create(row("a", 5), row("a", 25))
    script = table(world, topic) + COUNT.format(TUMBLE)
    world.run(script, keep=True)
    assert counts(world) == [("a", 0, 1)]
    grow(world, topic, 2)
    world.produce(topic, row("a", 65))
    world.run(script, keep=True)
    assert counts(world) == []
    world.produce(topic, row("b", 33, 1))
    world.run(script, keep=True)
    assert counts(world) == [("a", 20, 1)]


@pytest.mark.parametrize("windows", ["HOP", "CUMULATE"])
def test_windows_that_share_slices_go_on_after_a_restart(world: World, windows: str) -> None:
    topic = world.create(row("a", 3))
    function = f"{windows}(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '15' SECOND)"
    script = table(world, topic) + COUNT.format(function)
    found = []
    for second in (8, 12, 14, 22, 40):
        world.run(script, keep=True)
        world.produce(topic, row("a", second))
        found += counts(world)
    world.run(script, keep=True)
    found += counts(world)
    wanted = {
        "HOP": [(-10, 1), (-5, 2), (0, 4), (5, 3), (10, 3), (15, 1), (20, 1)],
        "CUMULATE": [(0, 1), (0, 2), (0, 4), (15, 1), (15, 1)],
    }
    assert [(start, c) for _, start, c in found] == wanted[windows]


def test_rows_for_steps_of_a_growing_window_that_have_closed_add_up(world: World) -> None:
    """They come when nothing waits: time has gone on by rows that the query leaves out."""
    topic = world.create(row("out", 13))
    function = "CUMULATE(TABLE wanted, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND)"
    view = "CREATE VIEW wanted AS SELECT * FROM t WHERE k <> 'out';"
    script = table(world, topic) + view + COUNT.format(function)
    world.run(script, keep=True)
    world.produce(topic, row("a", 1), row("a", 6), row("a", 7), row("a", 2))
    world.run(script, keep=True)
    world.produce(topic, row("out", 40))
    world.run(script, keep=True)
    assert counts(world) == [("a", 0, 4), ("a", 0, 4)]
    assert late(world) == 0


def test_a_replayed_day_leaves_few_windows_open(world: World) -> None:
    """One partition has ten times the records of the other: read as they come, it would be a day behind."""
    seconds = 86_400
    dense = [row("dense", i * seconds / 5000) for i in range(5000)]
    sparse = [row("sparse", i * seconds / 500, 1) for i in range(500)]
    topic = world.create(*dense, *sparse, partitions=2)
    minutes = "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)"
    world.run(table(world, topic) + COUNT.format(minutes), tidemill_batch_max__rows="250")
    open_windows = [r["stateOperators"][0]["numRowsTotal"] for r in world.reports]
    assert len(open_windows) > 5
    assert max(open_windows) < 200, open_windows
    assert late(world) == 0


def test_a_partition_with_unread_records_is_never_idle(world: World) -> None:
    """However long a batch takes: here every one of them takes longer than the timeout."""
    seconds = (5, 25, 45, 65)
    fast, slow = [row("a", s) for s in seconds], [row("b", s, 1) for s in seconds]
    topic = world.create(*fast, *slow, partitions=2)
    script = table(world, topic, scan_watermark_idle__timeout="1 ms") + COUNT.format(TUMBLE)
    world.run(script, keep=True, tidemill_batch_max__rows="1")
    assert len(world.batches) == 8
    assert sorted(counts(world)) == [(k, 10 * (s // 10), 1) for k in "ab" for s in seconds[:-1]]
    assert late(world) == 0


def read_after_batches(world: World, *partitions: tuple[str, str]) -> list[tuple[int, ...]]:
    """How many records of some partitions, each told by its topic, were read after each batch."""
    found = []
    for report in world.reports:
        ends = [json.loads(s["endOffset"]) for s in report["sources"]]
        topics = {name: places for end in ends for name, places in end.items() if name[0] != "#"}
        found.append(tuple(topics[topic][partition] for topic, partition in partitions))
    return found


@pytest.mark.parametrize("tables", [1, 2])
def test_partitions_and_tables_of_a_group_keep_step(world: World, tables: int) -> None:
    """A row a second on one partition, two on the other: read evenly, the one would be far ahead."""
    few = [row("few", second) for second in range(60)]
    many = [row("many", i / 2, 2 - tables) for i in range(120)]
    aligned = {
        "scan_watermark_alignment_group": f"g{tables}",
        "scan_watermark_alignment_max__drift": "5 s",
    }

    if tables == 1:
        topic = other = world.create(*few, *many, partitions=2)
        script = table(world, topic, **aligned) + COUNT.format(TUMBLE)
    else:
        topic, other = world.create(*few), world.create(*many)
        script = table(world, topic, **aligned)
        script += table(world, other, **aligned).replace("TABLE t", "TABLE u")
        script += "CREATE VIEW v AS SELECT k, ts FROM t UNION ALL SELECT k, ts FROM u;"
        script += COUNT.format(TUMBLE.replace("TABLE t", "TABLE v"))
    world.run(script, tidemill_batch_max__rows=str(20 // tables))
    read = read_after_batches(world, (topic, "0"), (other, str(2 - tables)))
    # A batch of ten rows may go beyond the drift.
    ahead = [one - more / 2 for one, more in read if more < len(many)]
    assert len(ahead) > 3 and max(ahead) <= 5 + 10 + 1, read
    assert read[-1] == (60, 120)


def state_entries(world: World, name: str) -> int:
    metrics = [r["stateOperators"][0]["customMetrics"] for r in world.reports]
    return sum(int(m[name]) for m in metrics)


def test_sliding_windows_write_a_row_once(world: World) -> None:
    """Sixty windows at a time cost no more state than one, but for what closes."""
    rng = random.Random(7)
    rows = [row(f"k{rng.randrange(20)}", i / 50) for i in range(2000)]
    topic = world.create(*rows)
    puts = {}
    for step, size in ((60, 60), (1, 60)):
        world.reports.clear()
        function = (
            f"HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '{step}' SECOND, INTERVAL '{size}' SECOND)"
        )
        endless = COLUMNS.replace("'2' SECOND", "'1' HOUR")
        # With a checkpoint no window closes at the end.
        world.run(
            table(world, topic, endless) + COUNT.format(function),
            keep=True,
            reset_state=True,
            tidemill_batch_max__rows="20",
        )
        puts[step] = state_entries(world, "rocksdbPutCount")
    assert 0 < puts[1] <= 3 * puts[60], puts


def test_closing_a_window_does_not_read_open_ones(world: World) -> None:
    """The same hundred keys close, beside no other key and beside three thousand whose windows stay open."""
    read = []
    for others in (0, 3000):
        closing = [row(f"k{i}", 5) for i in range(100)]
        staying = [row(f"o{i}", 15) for i in range(others)]
        topic = world.create(*closing, *staying)
        script = table(world, topic) + COUNT.format(TUMBLE)
        world.checkpoint = world.checkpoint.with_name(f"checkpoint-{others}")
        world.run(script, keep=True)
        world.reports.clear()
        world.produce(topic, row("last", 12))
        world.run(script, keep=True)
        assert len(counts(world)) == 100
        read.append(state_entries(world, "rocksdbTotalBytesReadThroughIterator"))
    # Of the open ones the first is looked at, to see that it is not due.
    assert 0 < read[1] < 1.1 * read[0], read


def test_a_table_that_several_queries_watch_is_read_once(world: World) -> None:
    """Each of its partitions has its own watermark all the same, over restarts too."""
    topic = world.create(row("fast", 5), row("fast", 45), row("slow", 2, 1), partitions=3)
    tens, fives = world.create(hint="tens"), world.create(hint="fives")
    sinks = "".join(
        f"CREATE TABLE {name} (k STRING, ws TIMESTAMP(3), c BIGINT) {world.kafka(out)};"
        for name, out in (("tens", tens), ("fives", fives))
    )
    query = """INSERT INTO {} SELECT k, window_start, COUNT(*)
        FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(rt), INTERVAL '{}' SECOND)) GROUP BY k, window_start, window_end;"""
    # The rowtime is computed, and one of the queries wants a column more.
    columns = (
        "k STRING, v INT, ts TIMESTAMP(3), rt AS ts, WATERMARK FOR rt AS rt - INTERVAL '2' SECOND"
    )
    wider = query.replace("COUNT(*)", "SUM(v)")
    script = (
        table(world, topic, columns)
        + sinks
        + f"EXECUTE STATEMENT SET BEGIN {query.format('tens', 10)} {wider.format('fives', 5)} END;"
    )

    def told() -> list[list[Any]]:
        return [
            sorted((v["k"], v["ws"][-2:], v["c"]) for v in world.values(out))
            for out in (tens, fives)
        ]

    world.run(script, keep=True)
    assert told() == [[], []], "a partition is empty"
    assert len(world.reports[-1]["sources"]) == 1
    world.produce(topic, row("slow", 9, 2), row("slow", 14, 1))
    world.run(script, keep=True)
    assert told() == [[], [("slow", "00", 1)]]
    world.produce(topic, row("slow", 33, 2))
    world.run(script, keep=True)
    assert told() == [
        [("fast", "00", 1), ("slow", "00", 2)],
        [("fast", "05", 1), ("slow", "00", 1), ("slow", "05", 1)],
    ]
    assert late(world) == 0
    assert sum(world.batches) == 6


def test_windows_by_the_clock_of_the_machine_close_without_rows(world: World) -> None:
    topic = world.create()
    out = world.create(hint="out")
    script = f"""
        CREATE TABLE t (k STRING, p AS PROCTIME()) {world.kafka(topic)};
        CREATE TABLE s (k STRING, c BIGINT) {world.kafka(out)};
        INSERT INTO s SELECT k, COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(p), INTERVAL '3' SECOND))
        GROUP BY k, window_start, window_end;"""
    with Session(world.spark, checkpoint=world.checkpoint) as session:
        [job] = [j for j in session.execute(script) if not isinstance(j, str)]
        session.wait_ready([job])
        world.produce(topic, '{"k": "a"}', '{"k": "a"}')
        deadline = time.monotonic() + 60
        while sum(v["c"] for v in world.values(out)) < 2 and time.monotonic() < deadline:
            time.sleep(0.2)
        assert sum(v["c"] for v in world.values(out)) == 2
        time.sleep(2)
        batches = {r["batchId"] for r in job.reports() if "addBatch" in r["durationMs"]}
        assert len(batches) <= 5, "nothing is due, and batches run all the same"


def test_state_that_waits_for_a_time_is_not_cut_anew(world: World) -> None:
    topic = world.create(row("a", 5))
    world.run(table(world, topic) + COUNT.format(TUMBLE), keep=True)
    with pytest.raises(JobError, match="state that waits for a time, in WindowAggregate"):
        repartition(Checkpoint(world.spark, job_directory(world).as_uri()), 3)


def test_status_names_the_partition_that_holds_back(world: World) -> None:
    topic = world.create(row("a", 5), row("a", 45), row("b", 12, 1), partitions=3)
    world.run(table(world, topic) + COUNT.format(TUMBLE), keep=True)
    shown = CliRunner().invoke(status, [str(job_directory(world))], catch_exceptions=False)
    assert (
        f"table t: watermark none yet, held back by partition 2 of topic '{topic}'" in shown.output
    )
    world.produce(topic, row("c", 20, 2))
    world.run(table(world, topic) + COUNT.format(TUMBLE), keep=True)
    shown = CliRunner().invoke(status, [str(job_directory(world))], catch_exceptions=False)
    lines = [" ".join(line.split()) for line in shown.output.splitlines()]
    # What the run before has read is still known.
    assert f"{topic} 0 2024-01-01 00:00:45 2024-01-01 00:00:43 0" in lines
    assert f"{topic} 1 2024-01-01 00:00:12 2024-01-01 00:00:10 0 holds back" in lines


def test_status_of_nothing(tmp_path: Path) -> None:
    shown = CliRunner().invoke(status, [str(tmp_path)])
    assert "there is no progress.json" in str(shown.exception)


# --- against a plain computation ---


def ends(second: float, size: int, step: int, cumulative: bool) -> list[tuple[int, int]]:
    """The windows that a time is in."""
    if cumulative:
        start = int(second // size) * size
        first = int((second - start) // step + 1) * step
        return [(start, start + length) for length in range(first, size + 1, step)]
    last = int(second // step) * step
    return [(s, s + size) for s in range(last, last - size, -step) if s <= second < s + size]


@pytest.mark.parametrize("seed", range(3))
def test_windows_are_what_a_plain_count_gives(world: World, seed: int) -> None:
    rng = random.Random(seed)
    rows = []
    for i in range(300):
        second = max(0.0, i / 4 + rng.uniform(-6, 6))
        rows.append((rng.choice("abcde"), round(second, 3), rng.randrange(2)))
    topic = world.create(*(row(k, s, p) for k, s, p in rows), partitions=2)
    columns = COLUMNS.replace("'2' SECOND", "'13' SECOND")
    shapes = [("TUMBLE", 10, 10), ("HOP", 12, 4), ("CUMULATE", 15, 5)]
    kind, size, step = shapes[seed]
    lengths = {
        "TUMBLE": f"INTERVAL '{size}' SECOND",
        "HOP": f"INTERVAL '{step}' SECOND, INTERVAL '{size}' SECOND",
        "CUMULATE": f"INTERVAL '{step}' SECOND, INTERVAL '{size}' SECOND",
    }
    function = f"{kind}(TABLE t, DESCRIPTOR(ts), {lengths[kind]})"
    given = table(world, topic, columns, scan_bounded_mode="latest-offset")
    world.run(given + COUNT.format(function), tidemill_batch_max__rows=str(rng.choice([7, 40])))
    wanted: Counter[Any] = Counter()
    for k, second, _ in rows:
        for start, end in ends(second, size, step, kind == "CUMULATE"):
            wanted[k, start, end] += 1
    found = Counter(
        {
            (r["k"], _seconds(r["window_start"]), _seconds(r["window_end"])): r["c"]
            for _, r in world.rows
        }
    )
    assert len(world.rows) == len(found), "a window is told twice"
    assert found == wanted
    assert late(world) == 0


def _seconds(text: str) -> int:
    return int((datetime.fromisoformat(text) - START).total_seconds())

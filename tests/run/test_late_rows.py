"""Rows that come too late, as dead letters: what each operator sends, once, and what it does not."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from world import World, forget_last_commit

from tidemill.broker.records import Record
from tidemill.errors import JobError

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

DAY = "2024-01-01 00:00:"


def row(k: str, second: int, partition: int = 0) -> Record:
    value = {"k": k, "v": 1, "ts": f"{DAY}{second:02d}"}
    return Record(json.dumps(value).encode(), None, partition=partition)


ROWS = [row("a", 5), row("a", 25), row("b", 45), row("a", 6)]
"""The watermark is 2 seconds behind: with a row in each batch, the last comes late to whatever has waited for it."""
COLUMNS = "k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND"
WINDOWS = "TABLE({}(TABLE {{t}}, DESCRIPTOR(ts), {}))"
TUMBLE = WINDOWS.format("TUMBLE", "INTERVAL '10' SECOND")
HOP = WINDOWS.format("HOP", "INTERVAL '5' SECOND, INTERVAL '10' SECOND")
CUMULATE = WINDOWS.format("CUMULATE", "INTERVAL '5' SECOND, INTERVAL '10' SECOND")
SESSION = WINDOWS.format("SESSION", "INTERVAL '3' SECOND").replace("{t}", "{t} PARTITION BY k")
BY_WINDOW = "SELECT k, CAST({} AS STRING) AS x FROM {} GROUP BY k, window_start, window_end"
NUMBERED = """SELECT k FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k
    ORDER BY {}) AS p FROM {}) WHERE p <= {}"""
WINDOW = f'"window_start":"{DAY}00","window_end":"{DAY}10"'
LATE = f'"ts":"{DAY}06"'

# The query, and what its operator sends, with the columns that it needs: the row, and its time, if not the row's own.
CASES: dict[str, tuple[str, ...]] = {
    "tumbling": (BY_WINDOW.format("COUNT(*)", TUMBLE), f'{{"k":"a",{LATE}}}'),
    "large_state": (
        BY_WINDOW.format("LISTAGG(k)", TUMBLE),
        f'{{"k":"a",{LATE}}}',
    ),
    "overlapping": (BY_WINDOW.format("SUM(v)", HOP), f'{{"k":"a","v":1,{LATE}}}'),
    "large_state_of_several": (
        BY_WINDOW.format("COUNT(DISTINCT v)", CUMULATE),
        f'{{"k":"a",{WINDOW},"v":1}}',
        "09.999",
    ),
    "session": (BY_WINDOW.format("COUNT(*)", SESSION), f'{{"k":"a",{LATE}}}'),
    "rows_of_sessions": (f"SELECT k FROM {SESSION}", f'{{"k":"a",{LATE}}}'),
    "group_windows": (
        "SELECT k FROM {t} GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND)",
        f'{{"k":"a",{LATE}}}',
    ),
    "window_top_n": (
        NUMBERED.format("v", TUMBLE, 2),
        f'{{"k":"a","v":1,{WINDOW}}}',
        "09.999",
    ),
    "last_of_windows": (
        NUMBERED.format("ts DESC", TUMBLE, 1),
        f'{{"k":"a",{LATE},{WINDOW}}}',
        "09.999",
    ),
    "over_all": (
        "SELECT k, CAST(COUNT(*) OVER (PARTITION BY k ORDER BY ts) AS STRING) AS x FROM {t}",
        f'{{"k":"a",{LATE}}}',
    ),
    "over_some_rows": (
        "SELECT k, CAST(SUM(v) OVER (PARTITION BY k ORDER BY ts ROWS 1 PRECEDING) AS STRING) AS x FROM {t}",
        f'{{"k":"a","v":1,{LATE}}}',
    ),
    "order_by": ("SELECT k, ts FROM {t} WHERE k = 'a' ORDER BY ts", f'{{"k":"a",{LATE}}}'),
    "first_row": (
        "SELECT k FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k, v ORDER BY ts) AS n FROM {t}) WHERE n = 1",
        f'{{"k":"a","v":1,{LATE}}}',
    ),
}
COLUMNS_OF = {" AS x": ", x STRING", "k, ts": ", ts TIMESTAMP(3)"}
OPERATORS = {
    "session": "WindowAggregate",
    "rows_of_sessions": "WindowTableFunction",
    "group_windows": "GroupWindowAggregate",
    "window_top_n": "WindowRank",
    "last_of_windows": "WindowDeduplicate",
    "over_all": "OverAggregate",
    "over_some_rows": "OverAggregate",
    "order_by": "TemporalSort",
    "first_row": "Deduplicate",
}


def create(world: World, name: str, topic: str, **options: str) -> str:
    return f"CREATE TABLE {name} ({COLUMNS}) {world.kafka(topic, **options)};"


def run(world: World, script: str, box: str, *, keep: bool = False) -> None:
    """With one row in each batch."""
    world.run(
        script,
        keep=keep,
        tidemill_batch_max__rows="1",
        table_exec_late__rows="dead-letter",
        table_exec_late__rows_topic=box,
    )


def letters(world: World, topic: str) -> list[tuple[str, dict[str, str]]]:
    """The values of records, and their headers without what they all begin with."""
    return [
        (
            (r.value or b"").decode(),
            {k.removeprefix("tidemill."): (v or b"").decode() for k, v in r.headers},
        )
        for r in world.records(topic)
    ]


def test_what_operators_send(world: World) -> None:
    """All in one job, each with a table of its own."""
    topic, box = world.create(*ROWS), world.create()
    tables, inserts = "", ""
    for name, (query, *_) in CASES.items():
        columns = "k STRING" + next((c for word, c in COLUMNS_OF.items() if word in query), "")
        tables += create(world, name, topic)
        tables += f"CREATE TABLE s_{name} ({columns}) WITH ('connector' = 'blackhole');"
        inserts += f"INSERT INTO s_{name} {query.format(t=name)};"
    run(world, f"{tables} BEGIN STATEMENT SET; {inserts} END;", box)
    found = {headers["operator"]: (value, headers) for value, headers in letters(world, box)}
    operators = {name: f"{OPERATORS.get(name, 'WindowAggregate')} of {name}" for name in CASES}
    assert found.keys() == set(operators.values())
    for name, (_, value, *end) in CASES.items():
        operator = operators[name]
        assert found[operator] == (
            value,
            {
                "operator": operator,
                "watermark": f"{DAY}43",
                "event-time": DAY + (end[0] if end else "06"),
                "row-kind": "+I",
                "topic": topic,
                "partition": "0",
                "offset": "3",
            },
        )
        assert world.oddities[f"{operator}: late row"] == 1
        assert world.oddities[f"{operator}: late row from partition 0 of topic '{topic}'"] == 1


def test_joins_send_the_rows_of_both_sides(world: World) -> None:
    left = world.create(row("a", 1), row("a", 30), row("a", 2), row("a", 31))
    right = world.create(row("b", 1), row("b", 30), row("b", 3), row("b", 31))
    box = world.create()
    tables = create(world, "l", left) + create(world, "r", right)
    interval = """SELECT l.k FROM l JOIN r ON l.v = r.v AND l.k < r.k
        AND r.ts BETWEEN l.ts AND l.ts + INTERVAL '1' SECOND"""
    windows = "(SELECT * FROM TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '10' SECOND)))"
    joined = f"""SELECT a.k FROM {windows.format("l")} a LEFT JOIN {windows.format("r")} b
        ON a.k = b.k AND a.window_start = b.window_start AND a.window_end = b.window_end"""
    run(world, tables + interval, box)
    run(world, tables + joined, box)
    wanted = Counter(
        {
            ("IntervalJoin of l and r", left, f"{DAY}02"): 1,
            ("IntervalJoin of l and r", right, f"{DAY}03"): 1,
            ("WindowJoin of l and r", left, f"{DAY}09.999"): 1,
            ("WindowJoin of l and r", right, f"{DAY}09.999"): 1,
        }
    )
    found = letters(world, box)
    assert Counter((h["operator"], h["topic"], h["event-time"]) for _, h in found) == wanted
    assert all(json.loads(value)["k"] == ("a" if h["topic"] == left else "b") for value, h in found)


def test_rows_that_are_no_records_have_no_address(world: World) -> None:
    """Those of an operator below, and those of a changelog, which tell their kind."""
    topic, box = world.create(*ROWS), world.create()
    inner = f"SELECT k, window_time AS ts FROM {TUMBLE} GROUP BY k, window_start, window_end, window_time"
    query = """SELECT k, COUNT(*) AS c FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(ts), INTERVAL '10' SECOND))
        GROUP BY k, window_start, window_end;"""
    run(world, f"{create(world, 't', topic)} CREATE VIEW w AS {inner.format(t='t')}; {query}", box)
    [(value, headers)] = letters(world, box)
    assert headers["operator"] == "WindowAggregate of t"
    assert value == f'{{"k":"a",{LATE}}}'


def test_a_repeated_batch_sends_its_letters_once(world: World) -> None:
    topic, box, out = world.create(*ROWS), world.create(), world.create()
    sink = f"CREATE TABLE s (k STRING, x STRING) {world.kafka(out, sink_delivery__guarantee='exactly-once')};"
    query = BY_WINDOW.format("COUNT(*)", TUMBLE).format(t="t")
    script = f"{create(world, 't', topic)} {sink} INSERT INTO s {query};"
    run(world, script, box, keep=True)
    assert len(letters(world, box)) == 1
    forget_last_commit(world)
    run(world, script, box, keep=True)
    assert len(letters(world, box)) == 1
    # They are dropped again from now on.
    world.produce(topic, row("a", 7))
    world.run(script, keep=True)
    assert len(letters(world, box)) == 1
    assert world.oddities["WindowAggregate of t: late row"] == 1


def test_a_topic_that_is_not_there(world: World) -> None:
    script = create(world, "t", world.create()) + BY_WINDOW.format("COUNT(*)", TUMBLE).format(t="t")
    with pytest.raises(JobError, match="topic 'nowhere' for late rows does not exist at"):
        run(world, script, "nowhere")

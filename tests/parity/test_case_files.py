"""Files of cases, sheets and answers: those in the tree are complete and fresh, mistakes are told by line."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from case import (
    FLINK,
    SHEETS,
    Answer,
    CaseError,
    Evaluated,
    Group,
    Record,
    Result,
    Row,
    SheetAnswer,
    case_paths,
    fill,
    format_record,
    json_items,
    json_members,
    parse_record,
    read_answer,
    read_case,
    read_sheet,
    read_sheet_answer,
    sheet_paths,
    split_statements,
    unfill,
    write_answer,
    write_sheet_answer,
)
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).parent.parent.parent
STALE = "its input has changed since it was recorded: make parity-record"


def load_recorder() -> ModuleType:
    place = ROOT / "tools" / "flink" / "record.py"
    spec = importlib.util.spec_from_file_location("parity_recorder", place)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["parity_recorder"] = module
    before = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = before
    return module


recorder = load_recorder()


def refuse(message: str) -> None:
    raise ValueError(message)


def ids(path: Path) -> str:
    return path.stem


# --- the tree -----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", case_paths(), ids=ids)
def test_a_case_has_the_answer_of_its_input(path: Path) -> None:
    case = read_case(path)
    answer = read_answer(case.answer_path)
    assert answer.input == case.input, STALE
    for look in case.looks:
        if look.what == "select":
            assert answer.result.select is not None
            assert answer.types is not None
        elif look.topic:
            assert look.topic in answer.result.topics
        elif look.group:
            assert look.group in answer.result.groups
        elif look.what == "registry":
            assert answer.result.registry is not None
        elif look.files:
            assert look.files in answer.result.files
        else:
            assert look.fragment and look.fragment in (answer.result.error or "")
    text = case.answer_path.read_text(encoding="utf-8")
    assert write_answer(answer) == text
    assert "parity-" not in text, "a topic's unique name was not turned back"


@pytest.mark.parametrize("path", sheet_paths(), ids=ids)
def test_a_sheet_has_the_answers_of_its_expressions(path: Path) -> None:
    sheet = read_sheet(path)
    answer = read_sheet_answer(sheet.answer_path)
    assert answer.input == sheet.input, STALE
    assert tuple(each.text for each in answer.expressions) == sheet.expressions
    assert tuple(each.text for each in answer.aggregates) == sheet.aggregates
    for each in answer.expressions:
        assert each.error or len(each.values) == len(sheet.rows)
    for each in answer.aggregates:
        assert each.error or len(each.values) == 1
        assert each.error or (each.groups is not None) == sheet.has_groups
    assert write_sheet_answer(answer) == sheet.answer_path.read_text(encoding="utf-8")


def test_every_answer_belongs_to_a_case_or_sheet() -> None:
    known = {path.with_suffix(".answer") for path in (*case_paths(), *sheet_paths())}
    found = set(SHEETS.parent.rglob("*.answer"))
    assert found == known
    assert len(case_paths()) >= 7


# --- reading a case -----------------------------------------------------------------------------

GOOD = """\
# A sentence.

== topic in partitions=2
{"id": 1}
@{"partition": 1, "key": "k", "timestamp": 5, "headers": {"h": "v"}} <null>

== topic out

== script quiet=1.5
CREATE TABLE t (a INT) WITH ('topic' = '${in}', 'b' = '${BOOTSTRAP}');
INSERT INTO t SELECT 1;

== step
== topic in
<hex 00ff>

== look
topic out by key timestamps
error RUN-010 some words of Flink
"""


def written(place: Path, text: str) -> Path:
    path = place / "x.case"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_case_is_read(tmp_path: Path) -> None:
    case = read_case(written(tmp_path, GOOD))
    assert case.comment == "A sentence."
    assert [(t.name, t.partitions) for t in case.topics] == [("in", 2), ("out", 1)]
    assert case.steps[0].records == (
        ("in", Record(b'{"id": 1}', partition=0)),
        ("in", Record(None, b"k", (("h", b"v"),), 1, 5)),
    )
    assert case.steps[1].records == (("in", Record(b"\x00\xff", partition=0)),)
    assert case.quiet_seconds == 1.5
    assert [s.split()[0] for s in case.statements] == ["CREATE", "INSERT"]
    topic, error = case.looks
    assert (topic.topic, topic.words) == ("out", {"by key", "timestamps"})
    assert (error.code, error.fragment) == ("RUN-010", "some words of Flink")


# What replaces what in GOOD, and what is then said.
BROKEN = {
    "no comment": ("# A sentence.", "", "x.case:1: the first line must be a comment"),
    "attributes": (
        '@{"partition": 1, "key"',
        '@["partition", "key"',
        "x.case:5: a record's attributes must be a JSON object",
    ),
    "attributes of no object": ('{"id": 1}', "@5 x", "x.case:4: a record's attributes must be a"),
    "no value": ('{"id": 1}', '@{"key": "a"}', "x.case:4: after a record's attributes there must"),
    "unknown attribute": ('"key"', '"kee"', "x.case:5: a record has no attribute 'kee'"),
    "partition": ('"partition": 1', '"partition": 2', "x.case:5: topic 'in' has no partition 2"),
    "timestamp": ('"timestamp": 5', '"timestamp": 0', "x.case:5: a record's timestamp must be"),
    "headers": ('{"h": "v"}', '{"h": 1}', "x.case:5: a header must be a text, null or"),
    "hex": ("<hex 00ff>", "<hex 0>", "x.case:15: '<hex 0>' is not of the form <hex 00ff>"),
    "section": ("== look", "== lock", "x.case:17: there is no section 'lock' in a case"),
    "topic in a step": ("== step\n== topic in", "== step\n== topic new", "x.case:14: topic 'new'"),
    "empty step": ("<hex 00ff>", "", "step 2 has no records"),
    "unknown topic": ("${in}", "${inn}", "x.case:10: the script names a topic 'inn' that no"),
    "no script": ("== script quiet=1.5", "== topic other", "the case has no section 'script'"),
    "quiet": ("quiet=1.5", "quite=1.5", "x.case:9: a script has no setting but quiet=SECONDS"),
    "look at topic": ("topic out by", "topic o by", "x.case:18: no section declares a topic 'o'"),
    "look words": ("by key", "by value", "x.case:18: after the topic only timestamps, partitions"),
    "look": ("error RUN-010", "error", "x.case:19: a look is 'select', 'topic NAME …', 'group"),
    "mark": ("== look", "== mark\nlater: x\n== look", "x.case:18: a mark is 'not yet: reason' or"),
    "differs alone": (
        "== look",
        "== mark\ndiffers: a reason\n== look",
        "x.case:17: a case that differs, and only that, has a section 'tidemill'",
    ),
    "twice": ("== look", "== script\nSELECT 1;\n== look", "x.case:17: the case has a second"),
}


@pytest.mark.parametrize(("old", "new", "message"), BROKEN.values(), ids=BROKEN)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(CaseError, match=re.escape(message)):
        read_case(written(tmp_path, GOOD.replace(old, new, 1)))


def test_our_own_result_of_a_case_that_differs(tmp_path: Path) -> None:
    ours = '== mark\ndiffers: a reason\n== tidemill topic out\n@{"key": "a"} <null>\n'
    case = read_case(written(tmp_path, GOOD + ours))
    assert case.mark and (case.mark.kind, case.mark.reason) == ("differs", "a reason")
    assert case.tidemill == Result(topics={"out": (Record(None, b"a"),)})


def test_the_input_is_what_a_recording_depends_on(tmp_path: Path) -> None:
    def input_of(old: str, new: str) -> str:
        assert old in GOOD
        return read_case(written(tmp_path, GOOD.replace(old, new))).input

    same = input_of("A", "A")
    assert input_of("A sentence.", "Another one.") == same
    assert input_of("RUN-010", "RUN-011") == same
    assert input_of("== look", "== mark\nnot yet: a reason\n== look") == same
    others = [
        input_of('{"id": 1}', '{"id": 2}'),
        input_of("SELECT 1", "SELECT 2"),
        input_of("partitions=2", "partitions=3"),
        input_of("timestamps", "partitions"),
    ]
    assert len({same, *others}) == 5


SET_UP = """\
# A sentence.

== topic in partitions=2 message.timestamp.type=LogAppendTime
{"id": 1}
@{"transaction": "aborted"} {"id": 2}

== topic new partitions=0

== group g
in partition:0,offset:2;partition:1,offset:0

== group h

== deleted
in partition:0,offset:1

== registry
in-value {"type": "int"}

== script
SELECT '${in}', '${g}', '${REGISTRY}';

== step
== topic in partitions=3
@{"partition": 2} {"id": 3}
== topic new partitions=1
{"id": 4}

== look
select
group g
topic in by key last
registry
"""


def test_what_is_there_before_the_script_and_comes_in_a_step(tmp_path: Path) -> None:
    case = read_case(written(tmp_path, SET_UP))
    assert case.topic("in").configs == (("message.timestamp.type", "LogAppendTime"),)
    assert case.topic("new").partitions == 0
    assert [record.transaction for _, record in case.steps[0].records] == [None, "aborted"]
    assert case.groups == (Group("g", (("in", 0, 2), ("in", 1, 0))), Group("h", ()))
    assert case.deleted == (("in", 0, 1),)
    assert case.registry == (("in-value", '{"type": "int"}'),)
    assert case.steps[1].partitions == (("in", 3), ("new", 1))
    assert [record.partition for _, record in case.steps[1].records] == [2, 0]
    assert [(look.what, look.group) for look in case.looks[:2]] == [
        ("select", None),
        ("group", "g"),
    ]
    assert case.looks[2].words == {"by key", "last"}
    assert case.looks[3].what == "registry"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("aborted", "gone", "x.case:5: a transaction is one of committed, aborted"),
        ("message.timestamp.type", "kind", "x.case:3: a topic has no setting 'kind'"),
        ("in partition:0,offset:2", "in 0:2", "x.case:10: a line is a topic and 'partition:0"),
        ("in partition:0,offset:1", "on partition:0,offset:1", "x.case:15: no section declares"),
        ("in partitions=3", "in partitions=2", "x.case:24: a step can only give topic 'in' more"),
        ("new partitions=1", "new", "x.case:27: topic 'new' has no partition 0"),
        ('{"type": "int"}', "int", "x.case:18: a line is a subject and a schema as JSON"),
        ("== registry", "== step", "x.case:18: records stand in a topic section after the step"),
        ("group h", "group g", "x.case:12: there is no section 'group g' in a case"),
        ("\ngroup g\ntopic", "\ngroup i\ntopic", "x.case:31: a look is 'select'"),
    ],
)
def test_a_mistake_in_the_set_up_is_told_with_its_line(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in SET_UP
    with pytest.raises(CaseError, match=re.escape(message)):
        read_case(written(tmp_path, SET_UP.replace(old, new, 1)))


def test_the_set_up_is_part_of_the_input(tmp_path: Path) -> None:
    changed = [
        SET_UP,
        SET_UP.replace("aborted", "committed"),
        SET_UP.replace("LogAppendTime", "CreateTime"),
        SET_UP.replace("partition:0,offset:2", "partition:0,offset:1"),
        SET_UP.replace("in partition:0,offset:1", "in partition:0,offset:2"),
        SET_UP.replace("== group h\n", ""),
        SET_UP.replace('"int"', '"long"'),
        SET_UP.replace("in partitions=3", "in partitions=4"),
        SET_UP.replace("\ngroup g\ntopic", "\ngroup h\ntopic"),
    ]
    assert len({read_case(written(tmp_path, text)).input for text in changed}) == len(changed)


NEXMARK = """\
# A sentence.

== topic nexmark partitions=2 events=60 density=500

== topic out

== files side
1,a

== files dir

== sink
'connector' = 'kafka',
'topic' = '${out}'

== script file=bench/nexmark/q0.sql

== look
topic out
files dir
"""


def test_events_are_generated_and_a_script_is_taken_from_a_file(tmp_path: Path) -> None:
    case = read_case(written(tmp_path, NEXMARK))
    records = [record for _, record in case.steps[0].records]
    assert [(record.value or b"")[:15] for record in records[:5]] == [
        b'{"event_type":0',
        *[b'{"event_type":1'] * 3,
        b'{"event_type":2',
    ]
    # Two milliseconds lie between them, and each has its partition.
    assert [record.partition for record in records] == [0, 1] * 30
    assert "WITH ('connector' = 'kafka', 'topic' = '${out}')" in case.script
    assert "blackhole" not in case.script
    assert case.files == (("side", ("1,a",)), ("dir", ()))
    assert [(look.what, look.name) for look in case.looks] == [("topic", "out"), ("files", "dir")]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (" density=500", "", "x.case:3: generated records are said by two numbers"),
        ("file=bench", "file=there", "there/nexmark/q0.sql:1: the file cannot be read"),
        ("q0.sql\n", "q0.sql\nSELECT 1;\n", "a script is in the case or in a file, not in both"),
        ("q0.sql", "q10.sql", "the script has not one WITH ('connector' = 'blackhole')"),
        ("nexmark partitions", "other partitions", "names a topic 'nexmark' that no section"),
        ("files dir\n", "files side\n", "a look is 'select'"),
    ],
)
def test_a_mistake_in_what_is_generated_or_taken_is_told(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in NEXMARK
    text = new.join(NEXMARK.rsplit(old, 1))
    with pytest.raises(CaseError, match=re.escape(message)):
        read_case(written(tmp_path, text))


def test_events_files_and_the_sink_are_part_of_the_input(tmp_path: Path) -> None:
    changed = [
        NEXMARK,
        NEXMARK.replace("events=60", "events=61"),
        NEXMARK.replace("density=500", "density=20"),
        NEXMARK.replace("1,a", "1,b"),
        NEXMARK.replace("'connector' = 'kafka'", "'connector' = 'upsert-kafka'"),
        NEXMARK.replace("q0.sql", "q1.sql"),
    ]
    assert len({read_case(written(tmp_path, text)).input for text in changed}) == len(changed)


# --- records and statements ---------------------------------------------------------------------

some_bytes = st.binary(max_size=8) | st.text(max_size=8).map(lambda t: t.encode("utf-8"))
unclear = st.sampled_from([b"<null>", b"<empty>", b"<hex 00>", b"@{} x", b"== look", b" ", b"a\nb"])
records = st.builds(
    Record,
    st.none() | some_bytes | unclear,
    st.none() | some_bytes,
    st.lists(st.tuples(st.text(max_size=3), st.none() | some_bytes), max_size=3).map(tuple),
    st.none() | st.integers(0, 9),
    st.none() | st.integers(1, 2**60),
    st.sampled_from([None, "committed", "aborted"]),
)


@given(records)
def test_a_record_survives_its_line(record: Record) -> None:
    line = format_record(record)
    assert "\n" not in line and line.strip()
    assert parse_record(line, refuse) == record  # type: ignore[arg-type]


def test_statements_end_at_semicolons_of_their_own() -> None:
    script = """
    -- a comment; with one
    SELECT ';', `a;b` /* ; */ FROM t; SET 'a' = 'it''s; so';
    EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END;
    SELECT CASE WHEN a THEN 1 END;
    -- nothing
    """
    first, second, third, fourth = split_statements(script)
    assert first.startswith("-- a comment") and first.endswith("FROM t")
    assert second == "SET 'a' = 'it''s; so'"
    assert third.endswith("INSERT INTO b SELECT 2; END")
    assert fourth == "SELECT CASE WHEN a THEN 1 END"


def test_names_are_filled_in_and_taken_out_again() -> None:
    values = {"in": "parity-1-in", "in_2": "parity-1-in_2", "BOOTSTRAP": "localhost:9"}
    text = "'${in}' '${in_2}' ${BOOTSTRAP}"
    assert fill(text, values) == "'parity-1-in' 'parity-1-in_2' localhost:9"
    assert unfill(fill(text, values), values) == text


# --- answers ------------------------------------------------------------------------------------


def test_an_answer_survives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "x.answer"
    result = Result(
        select=(Row("+I", '{"a":1.50}'), Row("-D", '{"a":1.50}')),
        topics={"out": (Record(None, b"k", partition=0), Record(b"x"))},
        error="a.B: first\n  second\nc.D: third",
        groups={"g": (("in", 0, 2), ("in", 1, 0), ("other", 0, 7)), "h": ()},
        registry=(("out-value", '{"type":"int"}'),),
    )
    types = (("a", "INT NOT NULL"), ("a b", "STRING"), ("EXPR$0", "ROW<`x` INT>"))
    answer = Answer(path, "2026-01-05", "ab", types, "Calc(…)\n+- Scan(…)", result)
    path.write_text(write_answer(answer), encoding="utf-8")
    assert read_answer(path) == answer


def test_a_sheets_answer_survives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "x.answer"
    answer = SheetAnswer(
        path,
        "2026-01-05",
        "ab",
        (
            Evaluated("UPPER(s)", "STRING", ('"A"', "null", "1.50")),
            Evaluated("NO(s)", error="a.B: x\nc.D: y"),
        ),
        (Evaluated("SUM(i)", "INT", ("3",), "INT", (('"a"', "1.10"), ("null", "[1,2]"))),),
    )
    path.write_text(write_sheet_answer(answer), encoding="utf-8")
    assert read_sheet_answer(path) == answer


@pytest.mark.parametrize("read", [read_answer, read_sheet_answer])
def test_an_answer_of_another_flink_is_refused(tmp_path: Path, read: object) -> None:
    path = tmp_path / "x.answer"
    path.write_text("flink 1.20.0\nrecorded 2026-01-05\ninput ab\n", encoding="utf-8")
    message = f"x.answer:1: recorded with Flink 1.20.0, but the oracle is {FLINK}: record it anew"
    with pytest.raises(CaseError, match=re.escape(message)):
        read(path)  # type: ignore[operator]


def test_a_broken_answer_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "x.answer"
    head = f"flink {FLINK}\nrecorded 2026-01-05\ninput ab\n"
    path.write_text(f"{head}== select\n+X {{}}\n", encoding="utf-8")
    with pytest.raises(CaseError, match="x.answer:5: a row is one of"):
        read_answer(path)
    path.write_text(f"{head}== expressions\nUPPER(s)\n  type STRING\n", encoding="utf-8")
    with pytest.raises(CaseError, match="x.answer:5: .* has neither type and values"):
        read_sheet_answer(path)
    with pytest.raises(CaseError, match="missing.answer:1: the file cannot be read"):
        read_answer(tmp_path / "missing.answer")


def test_json_is_taken_apart_without_touching_its_texts() -> None:
    assert json_items('[1.50,"a,]",null,[1,2],{"x":1}]') == [
        "1.50",
        '"a,]"',
        "null",
        "[1,2]",
        '{"x":1}',
    ]
    assert json_items("[]") == []
    assert json_members('{"a":1.50,"b":{"c":[]}}') == [("a", "1.50"), ("b", '{"c":[]}')]


# --- sheets -------------------------------------------------------------------------------------

SHEET = """\
# A sentence.
== settings
SET 'table.local-time-zone' = 'UTC';
== columns
s STRING,
g INT
== rows
{"s": "a"}
== expressions
UPPER(s)
REPLACE(s, \\
  'a', 'b')
== aggregates
COUNT(s)
"""


def test_a_sheet_is_read(tmp_path: Path) -> None:
    sheet = read_sheet(written(tmp_path, SHEET))
    assert sheet.settings == ("SET 'table.local-time-zone' = 'UTC'",)
    assert sheet.columns == "s STRING, g INT"
    assert sheet.has_groups
    assert sheet.expressions == ("UPPER(s)", "REPLACE(s, 'a', 'b')")
    assert sheet.aggregates == ("COUNT(s)",)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('{"s": "a"}', "[]", "x.case:8: a row must be a JSON object"),
        ("REPLACE(s, \\\n  'a', 'b')", "UPPER(s)", "x.case:11: 'UPPER(s)' stands here twice"),
        ("== rows", "== row", "x.case:7: there is no section 'row' in a sheet"),
        ("SET 'table", "RESET 'table", "x.case:3: a setting is SET 'key' = 'value';"),
    ],
)
def test_a_mistake_in_a_sheet_is_told_with_its_line(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in SHEET
    with pytest.raises(CaseError, match=re.escape(message)):
        read_sheet(written(tmp_path, SHEET.replace(old, new, 1)))


# --- what the recorder makes the same each time -------------------------------------------------


def test_what_changes_from_run_to_run_is_not_recorded() -> None:
    said = "Job 0123456789abcdef0123456789abcdef on parity-1-in, [B@1f2e3d4c, CreateTime = 17"
    assert recorder.stable(said, {"in": "parity-1-in"}) == (
        "Job <id> on ${in}, [B@<hash>, CreateTime = <time>"
    )


def test_a_chain_of_causes_is_a_line_each() -> None:
    chain = [
        ["java.util.concurrent.ExecutionException", "a.B: x"],
        ["a.B", "x\n\n more"],
        ["c.D", ""],
    ]
    assert recorder.chain_text(chain) == "a.B: x\n   more\nc.D"
    assert recorder.chain_text(chain, first_lines=True) == "a.B: x\nc.D"


def test_only_append_only_rows_are_sorted() -> None:
    appended = [["+I", '{"a":2}'], ["+I", '{"a":1}']]
    assert [row.text for row in recorder.changelog(appended, {})] == ['{"a":1}', '{"a":2}']
    updated = [["+I", '{"a":2}'], ["-D", '{"a":2}'], ["+I", '{"a":1}']]
    assert [[row.kind, row.text] for row in recorder.changelog(updated, {})] == updated
    assert recorder.is_append_only("Sink(changelogMode=[NONE])\n+- Scan(changelogMode=[I])")
    assert not recorder.is_append_only(
        "Aggregate(changelogMode=[I,UA])\n+- Scan(changelogMode=[I])"
    )


def test_a_changelog_is_folded_by_its_first_columns() -> None:
    rows = [
        ["+I", '{"g":"a","c":1}'],
        ["+I", '{"g":null,"c":1}'],
        ["-U", '{"g":"a","c":1}'],
        ["+U", '{"g":"a","c":2}'],
        ["-D", '{"g":null,"c":1}'],
    ]
    assert recorder.fold(rows, 1) == {('"a"',): ["2"]}


def test_cases_are_chosen_by_name_prefix_or_glob() -> None:
    assert recorder.is_chosen("json/a_b", ["json/a_b"])
    assert recorder.is_chosen("json/a_b", ["json"])
    assert recorder.is_chosen("json/a_b", ["*/a_*"])
    assert not recorder.is_chosen("json/a_b", ["a_b"])


def test_an_answer_that_says_the_same_keeps_its_date(tmp_path: Path) -> None:
    path = tmp_path / "x.answer"
    assert recorder.save(path, "flink 2\nrecorded 1\nx\n") == "recorded"
    assert recorder.save(path, "flink 2\nrecorded 2\nx\n") == "same"
    assert path.read_text() == "flink 2\nrecorded 1\nx\n"
    assert recorder.save(path, "flink 2\nrecorded 2\ny\n") == "changed"
    assert path.read_text() == "flink 2\nrecorded 2\ny\n"

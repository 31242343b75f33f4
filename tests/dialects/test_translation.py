"""Scripts of other dialects and ages as today's Flink SQL."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.datadriven import Case, check, load
from tidemill import Session
from tidemill.errors import ScriptError, Source, UsageError
from tidemill.sql import ast, parse_script
from tidemill.sql.detection import detect
from tidemill.sql.dialects import BLINK, DIALECTS, DLI, FLINK, FLINK_1_10, Dialect
from tidemill.tables import blink, legacy
from tidemill.tables.modern import modernise, read_modern
from tidemill.tables.translation import translate

sys.path.insert(0, str(Path(__file__).parent.parent / "sql"))

from corpus import scripts  # noqa: E402

HERE = Path(__file__).parent
DATA = sorted((HERE / "data").glob("*.txt"))
EXAMPLES = sorted((HERE.parent.parent / "examples").rglob("*.sql"))
VARIABLES = {"SERVERS": "b:1", "TOPIC": "t", "BOOTSTRAP": "b:1"}
BY_NAME = {**DIALECTS, FLINK_1_10.name: FLINK_1_10}


def evaluate(case: Case) -> str:
    match case.command:
        case "translate":
            source = Source("script.sql", case.input)
            done = translate(source, BY_NAME[case.arguments["from"]])
            told = [n.render() for n in done.notes if n.severity == "warning"]
            return "\n".join([done.text, *told])
        case "read":
            modern = read_modern([Source("script.sql", case.input)])
            return "\n".join(n.render() for n in modern.to_tell) or "nothing to tell"
        case "detect":
            return "\n".join(detect(line).name for line in case.input.split("\n"))
    raise ValueError(case.command)


@pytest.mark.parametrize("path", DATA, ids=lambda p: p.stem)
def test_cases(path: Path) -> None:
    check(path, evaluate)


def check_law(text: str, dialect: Dialect) -> None:
    """A translation is the modern tree as text, and translating it again changes nothing."""
    source = Source("script.sql", text)
    today, _ = modernise(parse_script(source, VARIABLES, dialect), dialect)
    done = translate(source, dialect)
    translated = parse_script(Source("translated.sql", done.text), VARIABLES, FLINK)
    assert translated == today, done.text
    again = translate(Source("translated.sql", done.text), dialect)
    assert again.text == done.text
    assert all(note.code == "DIA-004" for note in again.notes)


def own_scripts() -> list[tuple[str, Dialect]]:
    found = [
        (case.input, BY_NAME[case.arguments["from"]])
        for path in DATA
        for case in load(path)
        if case.command == "translate"
    ]
    examples = [path.read_text(encoding="utf-8") for path in EXAMPLES]
    return found + [(text, detect(text)) for text in examples]


@pytest.mark.parametrize(("text", "dialect"), own_scripts())
def test_a_translation_parses_as_flink_to_the_modern_tree_and_is_a_fixpoint(
    text: str, dialect: Dialect
) -> None:
    check_law(text, dialect)


@pytest.mark.parametrize("dialect", [FLINK, BLINK, DLI], ids=lambda d: d.name)
def test_the_whole_corpus_translates(dialect: Dialect) -> None:
    translated = 0
    for text in scripts():
        try:
            parse_script(Source("script.sql", text), {}, dialect)
        except ScriptError:
            continue
        check_law(text, dialect)
        translated += 1
    assert translated > 100


def test_a_script_of_flink_stays_to_the_letter() -> None:
    kept = 0
    for text in scripts():
        try:
            done = translate(Source("script.sql", text), FLINK)
        except ScriptError:
            continue
        if not done.notes:
            assert done.text == text
            kept += 1
    assert kept > 100


# --- generated tables --------------------------------------------------------------------------

SPACE = st.sampled_from([" ", "\n  ", " /* c */ ", "\n-- it's\n", "\t"])
VALUE = st.sampled_from(
    ["a", "b:1", "1000", "GROUP_OFFSETS", "TIMESTAMP", "it''s", "false", "custom"]
)


@st.composite
def with_clause(draw: st.DrawFn, first: str, keys: list[str], quote: str) -> str:
    chosen = draw(st.lists(st.sampled_from(keys), unique_by=str.lower, max_size=8))
    options = [f"{quote}{key}{quote}{draw(SPACE)}= '{draw(VALUE)}'{draw(SPACE)}" for key in chosen]
    options.insert(draw(st.integers(0, len(options))), first)
    return "WITH (" + ",".join(draw(SPACE) + option for option in options) + draw(SPACE) + ")"


BLINK_KEYS = [rule.old for rule in blink.OPTIONS if "*" not in rule.old] + [
    "startTime",
    "timezone",
    "extraConfig",
    "sasl.mechanism",
]
COLUMNS = [
    "messageKey VARBINARY, `message` VARBINARY",
    "messageKey VARBINARY, message VARBINARY, topic VARCHAR, `partition` INT, `Offset` BIGINT",
    "message VARBINARY",
    "k VARBINARY, v VARBINARY, PRIMARY KEY (k)",
    "id VARCHAR PRIMARY KEY, name VARCHAR(20), PRIMARY KEY (id)",
    "ts TIMESTAMP, a ARRAY<VARCHAR>, WATERMARK w FOR ts AS withOffset(ts, 1500)",
]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(COLUMNS), with_clause("type = 'Kafka010'", BLINK_KEYS, "`"))
def test_any_table_of_blink(columns: str, options: str) -> None:
    check_law(f"CREATE TABLE t ({columns}) {options};", BLINK)


LEGACY_KEYS = [rule.old.replace("#", "0").replace("*", "x.y") for rule in legacy.OPTIONS[1:]] + [
    "connector.properties.0.key",
    "connector.properties.0.value",
    "connector.properties.1.key",
    "connector.specific-offsets.0.partition",
    "connector.specific-offsets.0.offset",
    "connector.specific-offsets.1.partition",
    "schema.0.proctime",
]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["kafka", "upsert-kafka", "jdbc"]).flatmap(
        lambda name: with_clause(f"'connector.type' = '{name}'", LEGACY_KEYS, "'")
    )
)
def test_any_table_of_an_old_flink(options: str) -> None:
    check_law(f"CREATE TABLE t (id BIGINT, ts TIMESTAMP(3)) {options};", FLINK_1_10)


def test_a_session_reads_dialects_too() -> None:
    session = Session(dialect="blink")
    session.execute(
        "create table t (message VARBINARY) with (type='kafka', topic='t', bootstrap.servers='b:1')"
    )
    assert "t" in session.environment.objects
    with pytest.raises(UsageError, match="did you mean 'blink'?"):
        Session(dialect="blnk")


def test_spans_of_what_is_rewritten_are_those_of_the_old_text() -> None:
    text = "CREATE TABLE t (message VARBINARY) WITH (type='kafka010', `group.id`='g', x.y='z')"
    modern = read_modern([Source("s", text)])
    (table,) = modern.script.statements
    assert isinstance(table, ast.CreateTable)
    places = {option.key: option.span.text for option in table.options}
    assert places == {
        "connector": "type",
        "properties.group.id": "`group.id`",
        "properties.x.y": "x.y",
        "properties.auto.offset.reset": "`group.id`",
        "format": "VARBINARY",
    }

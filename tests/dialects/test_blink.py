"""Blink's Kafka tables, sentence by sentence of their manual; what comes of them on the wire is in tests/run."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.manuals import BLINK_PARAMETERS, vendor
from tidemill import Session
from tidemill.errors import Diagnostic, ScriptError, Source
from tidemill.plan.environment import Environment, Job, compile_script
from tidemill.sql.dialects import BLINK
from tidemill.tables.kafka import KafkaTable, StartupMode, TopicTable, ValueFields
from tidemill.tables.modern import read_modern
from tidemill.tables.translation import translate
from tidemill.tables.upsert_kafka import NullKeys, UpsertKafkaTable

SOURCE = """
create table src (messageKey VARBINARY, `message` VARBINARY, topic VARCHAR, `partition` INT, `offset` BIGINT)
with (type = 'kafka011', topic = 'in', bootstrap.servers = 'b:9092', startupMode = 'EARLIEST');
"""
SINK = """
create table dst (messageKey VARBINARY, `message` VARBINARY, PRIMARY KEY (messageKey))
with (type = 'kafka010', topic = 'out', bootstrap.servers = 'b:9092');
"""
COPY = "insert into dst select messageKey, `message` from src;"
TYPES = ["kafka08", "kafka09", "kafka010", "kafka011"]


def compiled(*texts: str) -> tuple[Environment, list[Job], list[Diagnostic]]:
    environment = Environment()
    modern = read_modern([Source(f"{i}.sql", text) for i, text in enumerate(texts, 1)])
    answers = compile_script(modern.script, environment)
    return environment, [a for a in answers if isinstance(a, Job)], modern.to_tell


def connector(environment: Environment, name: str) -> TopicTable:
    found = environment.objects[name].connector  # type: ignore[union-attr]
    assert isinstance(found, TopicTable)
    return found


def refused(*texts: str) -> list[Diagnostic]:
    with pytest.raises(ScriptError) as caught:
        compiled(*texts)
    return [d for d in caught.value.diagnostics if d.severity == "error"]


# --- type ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("spelt", [str.lower, str.upper, str.capitalize])
@pytest.mark.parametrize("type_", TYPES)
def test_type_chooses_the_dialect_and_no_protocol(type_: str, spelt: object) -> None:
    assert callable(spelt)
    written = SINK.replace("kafka010", spelt(type_))
    environment, _, told = compiled(written)
    assert [n.code for n in told] == ["DIA-001"]
    table = connector(environment, "dst")
    assert table == connector(compiled(SINK)[0], "dst")
    assert dict(table.properties) == {"bootstrap.servers": "b:9092"}


def test_the_result_table_of_the_manual_is_upsert_kafka_with_raw_key_and_value() -> None:
    printed = vendor("blink: a result table").replace("<yourTopicName>", "t")
    environment, _, _ = compiled(printed.replace("<yourServerAddress>", "b:9092"))
    table = connector(environment, "sink_kafka")
    assert isinstance(table, UpsertKafkaTable)
    assert (table.key_format and table.key_format.name, table.value_format.name) == ("raw", "raw")
    assert table.key_columns == (("messageKey", "messageKey"),)
    assert table.value_columns == (("message", "message"),)
    assert table.value_include is ValueFields.EXCEPT_KEY
    assert table.null_keys is NullKeys.WRITE


def test_a_source_table_is_kafka_with_the_five_columns() -> None:
    environment, _, _ = compiled(SOURCE)
    table = connector(environment, "src")
    assert isinstance(table, KafkaTable)
    assert table.startup.mode is StartupMode.EARLIEST
    assert table.key_columns == (("messageKey", "messageKey"),)
    assert table.value_columns == (("message", "message"),)
    schema = environment.objects["src"].schema  # type: ignore[union-attr]
    assert [c.name for c in schema.columns] == [
        "messageKey", "message", "topic", "partition", "offset"
    ]  # fmt: skip
    assert [c.key for c in schema.metadata] == ["topic", "partition", "offset"]


# --- PRIMARY KEY ---------------------------------------------------------------------------------

WITHOUT_KEY = SINK.replace(", PRIMARY KEY (messageKey)", "")


def test_a_table_that_is_written_needs_a_primary_key_and_one_that_is_read_does_not() -> None:
    assert len(compiled(SOURCE + SINK + COPY)[1]) == 1
    (found,) = refused(SOURCE + WITHOUT_KEY + COPY)
    assert found.code == "OPT-038"
    assert "table 'dst' is written and has no PRIMARY KEY" in found.message
    assert "must declare PRIMARY KEY (messageKey)" in found.message
    assert found.span and found.span.text == "dst"
    assert found.hint and "NOT ENFORCED need not be written" in found.hint
    # It is the use that is wrong, not the table.
    assert len(compiled(SOURCE + WITHOUT_KEY + "select `message` from dst;")[1]) == 1


def test_the_key_is_asked_for_wherever_the_insert_stands() -> None:
    assert refused(SOURCE + WITHOUT_KEY, COPY)[0].code == "OPT-038"
    (found,) = refused(
        SOURCE + WITHOUT_KEY + f"begin statement set; {COPY} end;",
    )
    assert found.code == "OPT-038"
    session = Session(dialect="blink")
    session.execute(SOURCE + WITHOUT_KEY)
    with pytest.raises(ScriptError, match="has no PRIMARY KEY"):
        session.execute(COPY)


def test_a_table_without_the_column_is_told_to_have_one() -> None:
    other = WITHOUT_KEY.replace("messageKey VARBINARY, ", "")
    (found,) = refused(SOURCE + other + "insert into dst select `message` from src;")
    assert found.hint and "add the column messageKey VARBINARY and PRIMARY KEY" in found.hint


@pytest.mark.parametrize("key", ["message", "`message`, messageKey", "messageKey, `message`"])
def test_another_key_than_the_messages_is_refused_also_where_the_table_is_read(key: str) -> None:
    (found,) = refused(SINK.replace("PRIMARY KEY (messageKey)", f"PRIMARY KEY ({key})"))
    assert found.code == "OPT-038"
    assert f"table 'dst' has the PRIMARY KEY ({key.replace('`', '')})" in found.message
    assert "must be PRIMARY KEY (messageKey)" in found.message
    assert found.span and found.span.text == f"PRIMARY KEY ({key})"
    assert found.hint and "this column is the record's key" in found.hint


def test_a_key_beside_its_column_is_looked_at_too() -> None:
    aside = SINK.replace(", PRIMARY KEY (messageKey)", "")
    assert compiled(aside.replace("messageKey VARBINARY", "messageKey VARBINARY PRIMARY KEY"))
    other = aside.replace("`message` VARBINARY", "`message` VARBINARY PRIMARY KEY")
    (found,) = refused(other)
    assert found.code == "OPT-038"
    assert found.span and found.span.text == "`message` VARBINARY PRIMARY KEY"


@pytest.mark.parametrize("columns", ["MESSAGEKEY, `message`", "messagekey, body", "k, v"])
def test_the_key_counts_whatever_its_case_and_by_the_primary_key_where_columns_have_other_names(
    columns: str,
) -> None:
    key, value = columns.split(", ")
    declared = f"{key} VARBINARY, {value} VARBINARY, PRIMARY KEY ({key})"
    written = SINK.replace(SINK[SINK.index("(") + 1 : SINK.index(")\nwith")], declared)
    table = connector(compiled(written)[0], "dst")
    assert table.key_columns == ((key, key),)
    assert table.value_columns == ((value.strip("`"),) * 2,)


LIKE = "create table copied like dst; insert into copied select messageKey, `message` from src;"
AS_SELECT = """create table made with (type = 'kafka010', topic = 'out', bootstrap.servers = 'b:9092')
as select messageKey, `message` from src;"""


@pytest.mark.parametrize(
    "script",
    [
        SOURCE + WITHOUT_KEY + COPY,
        SOURCE + WITHOUT_KEY + f"begin statement set; {COPY} end;",
        SOURCE + WITHOUT_KEY + LIKE,
        SOURCE + AS_SELECT,
        SINK.replace("KEY (messageKey)", "KEY (`message`)"),
        SINK.replace("KEY (messageKey)", "KEY (messageKey, `message`)"),
    ],
    ids=["insert", "set", "like", "as select", "message", "both"],
)
def test_translate_refuses_what_run_refuses(script: str) -> None:
    with pytest.raises(ScriptError) as caught:
        translate(Source("1.sql", script), BLINK)
    (found,), (at_run,) = caught.value.diagnostics, refused(script)
    assert (found.code, found.message, found.span) == (at_run.code, at_run.message, at_run.span)


def test_a_translation_warns_of_a_table_without_a_key_that_another_script_may_write() -> None:
    done = translate(Source("1.sql", SOURCE + WITHOUT_KEY + "select * from src;"), BLINK)
    (warning,) = [n for n in done.notes if n.severity == "warning"]
    assert warning.code == "DIA-004"
    assert "table 'dst' has no PRIMARY KEY and is only for reading" in warning.message
    assert warning.span and warning.span.text == "dst"
    assert warning.hint and "add PRIMARY KEY (messageKey)" in warning.hint
    # Who reads it is told in the notes, and where the script is run.
    assert (
        done.text.count("'connector' = 'kafka' today: without a PRIMARY KEY it is only read") == 2
    )
    assert not [n for n in compiled(SOURCE + WITHOUT_KEY)[2] if n.severity == "warning"]


def test_a_kafka_table_of_flinks_is_written_without_a_key() -> None:
    flink = """CREATE TABLE t (message BYTES) WITH ('connector' = 'kafka', 'topic' = 't', 'format' = 'raw',
    'properties.bootstrap.servers' = 'b:9092');"""
    assert len(compiled(SOURCE, flink + "INSERT INTO t SELECT `message` FROM src;")[1]) == 1


def test_a_table_that_is_like_one_of_blinks_needs_the_key_too() -> None:
    like = "CREATE TABLE copied LIKE dst; INSERT INTO copied SELECT messageKey, `message` FROM src;"
    assert refused(SOURCE + WITHOUT_KEY, like)[0].code == "OPT-038"
    elsewhere = like.replace("LIKE", "WITH ('connector' = 'print') LIKE").replace(
        " LIKE dst", " LIKE dst (EXCLUDING OPTIONS)"
    )
    assert len(compiled(SOURCE + WITHOUT_KEY, elsewhere)[1]) == 1


def test_a_table_with_a_connector_of_its_own_is_flinks() -> None:
    own = """CREATE TABLE copied WITH ('connector' = 'kafka', 'topic' = 'u') LIKE dst;
    INSERT INTO copied SELECT messageKey, `message` FROM src;"""
    assert len(compiled(SOURCE + WITHOUT_KEY, own)[1]) == 1


# --- parameters ----------------------------------------------------------------------------------

# Of the manual's list, what Kafka's client knows; all others were 0.8's.
PASSED_ON = {
    "auto.commit.interval.ms": "1000",
    "auto.offset.reset": "earliest",
    "client.id": "c",
    "exclude.internal.topics": "true",
    "fetch.min.bytes": "1",
    "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor",
}
# Of 0.8's, those that have another name today.
RENAMED = {
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
}


def with_parameter(
    name: str, value: str, table: str = "src"
) -> tuple[dict[str, str], list[Diagnostic]]:
    given = f"{name} = '{value}'"
    written = {
        "src": SOURCE.replace("startupMode = 'EARLIEST'", f"group.id = 'g', {given}"),
        "dst": SINK.replace("'b:9092'", f"'b:9092', {given}"),
    }
    environment, _, told = compiled(written[table])
    return dict(connector(environment, table).properties), told


@pytest.mark.parametrize("table", ["src", "dst"])
@pytest.mark.parametrize("name", BLINK_PARAMETERS)
def test_every_parameter_of_the_manual_is_passed_on_or_its_successor_is_told(
    name: str, table: str
) -> None:
    properties, told = with_parameter(name, PASSED_ON.get(name, "1000"), table)
    notices = [n for n in told if n.code != "DIA-001"]
    if name in PASSED_ON:
        assert properties[name] == PASSED_ON[name]
        assert not notices
        return
    assert name not in properties
    (notice,) = notices
    assert (notice.code, notice.severity) == ("DIA-005", "notice")
    assert notice.span and notice.span.text == name
    if name in RENAMED:
        assert properties[RENAMED[name]] == "1000"
        assert notice.message == f"'{name}' is 'properties.{RENAMED[name]}' today"
    else:
        assert notice.message.startswith(f"'{name}' is left out: ")


@pytest.mark.parametrize(("old", "today"), [("smallest", "earliest"), ("LARGEST", "latest")])
def test_the_old_words_of_auto_offset_reset(old: str, today: str) -> None:
    properties, told = with_parameter("auto.offset.reset", old)
    assert properties["auto.offset.reset"] == today
    (notice,) = [n for n in told if n.code == "DIA-005"]
    assert f"'{old}' is 'properties.auto.offset.reset' = '{today}' today" in notice.message


@pytest.mark.parametrize(
    ("word", "assignor"), [("range", "RangeAssignor"), ("roundrobin", "RoundRobinAssignor")]
)
def test_the_old_words_of_the_assignment_strategy(word: str, assignor: str) -> None:
    properties, told = with_parameter("partition.assignment.strategy", word)
    strategy = properties["partition.assignment.strategy"]
    assert strategy == f"org.apache.kafka.clients.consumer.{assignor}"
    assert [n.code for n in told] == ["DIA-001", "DIA-005"]


@pytest.mark.parametrize("name", ["max.poll.records", "ssl.truststore.type", "Sasl.Mechanism"])
def test_any_other_parameter_is_the_clients_which_knows_lower_case(name: str) -> None:
    properties, told = with_parameter(name, "1")
    assert properties[name.lower()] == "1"
    assert [n.code for n in told] == ["DIA-001"]


def test_notices_are_told_by_check_and_translated(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from tidemill.cli import cli

    script = tmp_path / "old.sql"
    old = SINK.replace("kafka010", "kafka08").replace(
        "with (", "with (zookeeper.connect = 'zk:2181', "
    )
    script.write_text(SOURCE + old + COPY, encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        cli(["check", str(script)])
    assert not ended.value.code
    said = capsys.readouterr().err
    assert (
        "notice DIA-005: 'zookeeper.connect' is left out: bootstrap.servers took its place" in said
    )
    with pytest.raises(SystemExit):
        cli(["translate", str(script)])
    assert "-- note: 'zookeeper.connect' is left out" in capsys.readouterr().out


# --- what is refused -----------------------------------------------------------------------------

ZOOKEEPER = SINK.replace("kafka010", "kafka08").replace(
    "bootstrap.servers = 'b:9092'", "zookeeper.connect = 'zk:2181'"
)


def test_zookeeper_alone_is_refused_with_what_to_write_instead() -> None:
    (found,) = refused(ZOOKEEPER)
    assert found.code == "OPT-010"
    assert "'zookeeper.connect' alone names no broker" in found.message
    assert found.span and found.span.text == "zookeeper.connect"
    assert found.hint and "write bootstrap.servers = 'host:9092'" in found.hint
    # Brokers may also be named in a text of several properties.
    extra = ZOOKEEPER.replace("with (", "with (extraConfig = 'bootstrap.servers=b:1', ")
    assert dict(connector(compiled(extra)[0], "dst").properties) == {"bootstrap.servers": "b:1"}


def test_a_translation_leaves_zookeeper_alone_as_it_is_and_is_refused_likewise() -> None:
    done = translate(Source("s.sql", ZOOKEEPER), BLINK)
    assert "'zookeeper.connect' = 'zk:2181'" in done.text
    (warning,) = [n for n in done.notes if n.severity == "warning"]
    assert "stays as it is" in warning.message
    assert refused(done.text)[0].message == refused(ZOOKEEPER)[0].message


def test_datahub_is_refused_by_name() -> None:
    found = refused(vendor("blink: the example"))
    assert found[0].code == "OPT-010"
    assert "'type' = 'datahub' is Blink's way to name a connector" in found[0].message
    assert found[0].hint and "DataHub speaks the Kafka protocol" in found[0].hint


# --- sink.null-keys ------------------------------------------------------------------------------


def test_null_keys_need_the_raw_format() -> None:
    table = """CREATE TABLE t (id STRING, v STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'upsert-kafka',
    'topic' = 't', 'properties.bootstrap.servers' = 'b:1', 'key.format' = 'json', 'value.format' = 'json',
    'sink.null-keys' = 'write');"""
    (found,) = refused(table)
    assert found.code == "OPT-015"
    raw = table.replace("'key.format' = 'json'", "'key.format' = 'raw'")
    raw = raw.replace("'sink.null-keys'", "'value.fields-include' = 'EXCEPT_KEY', 'sink.null-keys'")
    assert connector(compiled(raw)[0], "t").null_keys is NullKeys.WRITE  # type: ignore[attr-defined]

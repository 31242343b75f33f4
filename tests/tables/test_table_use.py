"""What happens to a declared table: reading it, writing it, pointing it elsewhere, giving it an end."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta

import pytest
from declared_tables import declare
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.manuals import MANUALS, manual
from tidemill.errors import ScriptError, Source, Span
from tidemill.sql import ast
from tidemill.tables import (
    CONNECTORS,
    FORMATS,
    build_table,
    check_insert,
    check_read,
    definition_of,
    metadata_keys,
    why_not_runnable,
    with_bootstrap,
    with_options,
)
from tidemill.tables.builtin import DatagenTable
from tidemill.tables.catalog import Connector, Schema, Table
from tidemill.tables.kafka import KafkaTable, StartupMode, TopicTable
from tidemill.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    INT,
    STRING,
    ArrayType,
    DateType,
    DecimalType,
    MapType,
    TimestampLtzType,
    TimestampType,
    can_cast,
)


def table(columns: str, options: str, conf: dict[str, str] | None = None) -> Table:
    name, statement, schema = declare("t.sql", f"CREATE TABLE t ({columns}) WITH ({options})")
    connector, _ = build_table(name, statement, schema, conf or {})
    return Table(name, schema, connector)


def kafka(more: str = "", columns: str = "id BIGINT", topic: str = "'topic' = 'a'") -> Table:
    base = (
        f"'connector' = 'kafka', {topic}, 'properties.bootstrap.servers' = 'b:1', 'format' = 'json'"
    )
    return table(columns, f"{base}{more and ', '}{more}")


def kafka_spec(more: str = "") -> KafkaTable:
    connector = kafka(more).connector
    assert isinstance(connector, KafkaTable)
    return connector


def test_group_offsets_without_a_group_reads_from_the_earliest_offset_and_says_so() -> None:
    declared = kafka()
    (notice,) = check_read(declared, None)
    assert (notice.code, notice.severity) == ("OPT-028", "notice")
    assert kafka_spec().startup.mode is StartupMode.GROUP_OFFSETS
    assert kafka_spec().effective_startup.mode is StartupMode.EARLIEST


@pytest.mark.parametrize(
    ("more", "mode"),
    [
        ("'properties.group.id' = 'g'", StartupMode.GROUP_OFFSETS),
        ("'scan.startup.mode' = 'latest-offset'", StartupMode.LATEST),
    ],
)
def test_otherwise_a_table_starts_where_it_says(more: str, mode: StartupMode) -> None:
    assert check_read(kafka(more), None) == []
    assert kafka_spec(more).effective_startup.mode is mode


def test_an_upsert_table_needs_no_group() -> None:
    upsert = table(
        "id BIGINT, PRIMARY KEY (id) NOT ENFORCED",
        "'connector' = 'upsert-kafka', 'topic' = 'a', 'properties.bootstrap.servers' = 'b:1',"
        " 'key.format' = 'json', 'value.format' = 'json'",
    )
    assert check_read(upsert, None) == []


def test_sinks_are_not_read_and_sources_are_not_written() -> None:
    with pytest.raises(ScriptError, match="'print' can only be used as a sink"):
        check_read(table("id BIGINT", "'connector' = 'print'"), None)
    with pytest.raises(ScriptError, match="'blackhole' can only be used as a sink"):
        check_read(table("id BIGINT", "'connector' = 'blackhole'"), None)
    with pytest.raises(ScriptError, match="'datagen' can only be used as a source"):
        check_insert(table("id BIGINT", "'connector' = 'datagen'"), None)
    check_insert(table("id BIGINT", "'connector' = 'print'"), None)


def test_a_read_only_metadata_key_must_be_virtual_to_insert() -> None:
    check_insert(kafka(columns="id BIGINT, `partition` INT METADATA VIRTUAL"), None)
    declared = kafka(columns="id BIGINT, `partition` INT METADATA, `offset` BIGINT METADATA")
    with pytest.raises(ScriptError) as raised:
        check_insert(declared, None)
    assert [d.code for d in raised.value.diagnostics] == ["OPT-052", "OPT-052"]
    assert "declare the column VIRTUAL" in str(raised.value)


def test_the_topic_is_written_only_where_there_is_a_choice() -> None:
    columns = "id BIGINT, topic STRING METADATA"
    check_insert(kafka(columns=columns, topic="'topic' = 'a;b'"), None)
    check_insert(kafka(columns=columns, topic="'topic-pattern' = 'a.*'"), None)
    with pytest.raises(ScriptError, match="Invalid metadata key 'topic'"):
        check_insert(kafka(columns=columns), None)


def test_a_table_of_several_topics_is_written_by_rows_that_name_theirs() -> None:
    for topic in ("'topic' = 'a;b'", "'topic-pattern' = 'a.*'"):
        for columns in ("id BIGINT", "id BIGINT, topic STRING METADATA VIRTUAL"):
            declared = kafka(columns=columns, topic=topic)
            assert check_read(declared, None) is not None
            with pytest.raises(ScriptError, match="no column that says to which") as raised:
                check_insert(declared, None)
            assert [d.code for d in raised.value.diagnostics] == ["OPT-056"]


def test_a_written_metadata_column_must_be_castable_to_its_key() -> None:
    with pytest.raises(ScriptError, match="castable to metadata type 'MAP<STRING, BYTES>"):
        check_insert(kafka(columns="id BIGINT, h STRING METADATA FROM 'headers'"), None)
    check_insert(kafka(columns="id BIGINT, ts TIMESTAMP(3) METADATA FROM 'timestamp'"), None)


def test_metadata_keys_have_flinks_types() -> None:
    keys = metadata_keys(kafka(topic="'topic' = 'a;b'").connector)
    shown = {k: (str(m.read_type), m.write_type and str(m.write_type)) for k, m in keys.items()}
    assert shown == {
        "topic": ("STRING NOT NULL", "STRING NOT NULL"),
        "partition": ("INT NOT NULL", None),
        "headers": ("MAP<STRING, BYTES> NOT NULL", "MAP<STRING, BYTES>"),
        "header-list": (
            "ARRAY<ROW<`key` STRING NOT NULL, `value` BYTES> NOT NULL> NOT NULL",
            "ARRAY<ROW<`key` STRING, `value` BYTES>>",
        ),
        "leader-epoch": ("INT", None),
        "offset": ("BIGINT NOT NULL", None),
        "timestamp": ("TIMESTAMP_LTZ(3) NOT NULL", "TIMESTAMP_LTZ(3)"),
        "timestamp-type": ("STRING NOT NULL", None),
        "row_kind": ("STRING NOT NULL", None),  # not in Flink
    }
    assert metadata_keys(table("id BIGINT", "'connector' = 'print'").connector) == {}


REGISTRY = "'avro-confluent.url' = 'http://r'"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("'format' = 'debezium-json', 'debezium-json.schema-include' = 'true'", "schema-include"),
        (f"'format' = 'avro-confluent', {REGISTRY}", "avro-confluent.subject is required"),
    ],
)
def test_what_a_format_can_only_read_is_not_written(options: str, said: str) -> None:
    common = "'connector' = 'kafka', 'topic' = 'a;b', 'properties.bootstrap.servers' = 'b:1', "
    declared = table("id BIGINT, topic STRING METADATA", common + options)
    assert check_read(declared, None) is not None
    with pytest.raises(ScriptError, match=said) as raised:
        check_insert(declared, None)
    assert [d.code for d in raised.value.diagnostics] == ["OPT-055"]
    one_topic = common.replace("a;b", "a")
    named = f"{common}'format' = 'avro-confluent', {REGISTRY}, 'avro-confluent.subject' = 's'"
    check_insert(table("id BIGINT, topic STRING METADATA", named), None)
    check_insert(table("id BIGINT", f"{one_topic}'format' = 'avro-confluent', {REGISTRY}"), None)


@pytest.mark.parametrize(
    ("options", "source", "sink"),
    [
        ("'connector' = 'kafka', 'format' = 'json'", "[I]", "[I]"),
        ("'connector' = 'kafka', 'format' = 'csv'", "[I]", "[I]"),
        ("'connector' = 'kafka', 'format' = 'debezium-json'", "[I,UB,UA,D]", "[I,UB,UA,D]"),
        ("'connector' = 'kafka', 'format' = 'maxwell-json'", "[I,UB,UA,D]", "[I,UB,UA,D]"),
        (
            "'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json'",
            "[UA,D]",
            "[I,UA,D]",
        ),
        (
            "'connector' = 'kafka', 'format' = 'canal-json', 'scan.as-append' = 'true'",
            "[I]",
            "[I,UB,UA,D]",
        ),
        (
            "'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json',"
            " 'scan.as-append' = 'TRUE'",
            "[I]",
            "[I,UA,D]",
        ),
        ("'connector' = 'datagen'", "[I]", None),
        ("'connector' = 'print'", None, "[I,UB,UA,D]"),
        ("'connector' = 'blackhole'", None, "[I,UA,D]"),
    ],
)
def test_changes_that_tables_give_and_take(
    options: str, source: str | None, sink: str | None
) -> None:
    columns = "id BIGINT"
    if "kafka" in options:
        options += ", 'topic' = 'a', 'properties.bootstrap.servers' = 'b:1'"
    if "upsert" in options:
        columns += ", PRIMARY KEY (id) NOT ENFORCED"
    connector = table(columns, options).connector
    definition = definition_of(connector)
    assert (str(connector.source_mode) if definition.source else None) == source
    assert (str(connector.sink_mode) if definition.sink else None) == sink


@pytest.mark.parametrize(
    "options",
    [
        "'connector' = 'kafka', 'format' = 'json'",
        "'connector' = 'kafka', 'format' = 'raw'",
        "'connector' = 'kafka', 'format' = 'json', 'key.format' = 'csv', 'key.fields' = 'id'",
        "'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json'",
    ],
)
def test_tables_of_every_format_can_be_run(options: str) -> None:
    key = ", PRIMARY KEY (id) NOT ENFORCED" if "upsert" in options else ""
    common = "'topic' = 'a', 'properties.bootstrap.servers' = 'b:1', "
    assert why_not_runnable(table(f"id BIGINT{key}", common + options)) is None


def test_the_kind_of_a_row_is_not_written() -> None:
    options = (
        "'connector' = 'kafka', 'topic' = 'a', 'properties.bootstrap.servers' = 'b:1',"
        " 'format' = 'debezium-json', 'scan.as-append' = 'true'"
    )
    check_insert(table("id BIGINT, row_kind STRING METADATA VIRTUAL", options), None)
    with pytest.raises(ScriptError, match="'row_kind' .* cannot be written") as raised:
        check_insert(table("id BIGINT, row_kind STRING METADATA", options), None)
    assert [d.code for d in raised.value.diagnostics] == ["OPT-052"]


def test_casts_are_those_of_flink() -> None:
    stamp, wall = TimestampLtzType(precision=3), TimestampType(precision=3)
    for source, target in [
        (INT, STRING),
        (STRING, INT),
        (BYTES, STRING),
        (INT, BIGINT),
        (stamp, wall),
        (stamp, DateType()),
        (BIGINT, DecimalType()),
        (INT, BOOLEAN),
        (MapType(key=STRING, value=BYTES), MapType(key=STRING, value=STRING)),
        (MapType(key=STRING, value=BYTES), STRING),
        (ArrayType(element=INT), ArrayType(element=STRING)),
    ]:
        assert can_cast(source, target), (source, target)
    for source, target in [
        (INT, BYTES),
        (BIGINT, stamp),
        (stamp, BIGINT),
        (BIGINT, DateType()),
        (BOOLEAN, stamp),
        (STRING, ArrayType(element=STRING)),
        (MapType(key=STRING, value=BYTES), ArrayType(element=BYTES)),
        (ArrayType(element=INT), ArrayType(element=BYTES)),
    ]:
        assert not can_cast(source, target), (source, target)


def test_another_broker_replaces_address_and_security_only() -> None:
    moved = with_bootstrap(
        kafka_spec(
            "'properties.security.protocol' = 'SASL_SSL', 'properties.sasl.jaas.config' = 'x',"
            " 'properties.ssl.truststore.location' = '/x', 'properties.group.id' = 'g'"
        ),
        "127.0.0.1:9",
    )
    assert isinstance(moved, KafkaTable)
    assert dict(moved.properties) == {"bootstrap.servers": "127.0.0.1:9", "group.id": "g"}
    secured = with_bootstrap(moved, "127.0.0.1:9", {"security.protocol": "SSL"})
    assert isinstance(secured, KafkaTable)
    assert dict(secured.properties) == {**moved.properties, "security.protocol": "SSL"}
    printed = table("id BIGINT", "'connector' = 'print'").connector
    assert with_bootstrap(printed, "127.0.0.1:9") is printed


def test_a_hint_overrides_options_of_one_use() -> None:
    _, statement, schema = declare(
        "t.sql",
        "CREATE TABLE t (id BIGINT) WITH ('connector' = 'kafka', 'topic' = 'a',"
        " 'properties.bootstrap.servers' = 'b:1', 'format' = 'json')",
    )
    span = Span(Source("q.sql", "/*+ OPTIONS(…) */"), 0, 17)
    hint = ast.Hint(span, "OPTIONS", (("scan.startup.mode", "earliest-offset"), ("topic", "b")))
    connector, warnings = build_table("t", with_options(statement, hint), schema, {})
    assert isinstance(connector, KafkaTable)
    assert (connector.topics, connector.startup.mode) == (("b",), StartupMode.EARLIEST)
    assert not warnings
    bad = ast.Hint(span, "OPTIONS", (("scan.startup.mode", "first"),))
    with pytest.raises(ScriptError, match=r"q\.sql:1:1: error OPT-005"):
        build_table("t", with_options(statement, bad), schema, {})


def test_row_types_of_key_and_value() -> None:
    declared = kafka(
        "'key.format' = 'json', 'key.fields' = 'k_b;k_a', 'key.fields-prefix' = 'k_',"
        " 'value.fields-include' = 'EXCEPT_KEY'",
        columns="k_a INT, k_b STRING, b BIGINT, ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp'",
    )
    assert isinstance(declared.connector, KafkaTable)
    key = declared.connector.key_fields(declared.schema)
    value = declared.connector.value_fields(declared.schema)
    assert [(f.name, str(f.type)) for f in key] == [("b", "STRING"), ("a", "INT")]
    assert [(f.name, str(f.type)) for f in value] == [("b", "BIGINT")]


def test_the_sessions_idle_timeout_holds_unless_the_table_has_its_own() -> None:
    conf = {"table.exec.source.idle-timeout": "5 s"}
    options = "'connector' = 'datagen'"
    session = table("id BIGINT", options, conf).connector
    own = table("id BIGINT", f"{options}, 'scan.watermark.idle-timeout' = '1 s'", conf).connector
    assert isinstance(session, DatagenTable) and isinstance(own, DatagenTable)
    assert session.watermark.idle_timeout == timedelta(seconds=5)
    assert own.watermark.idle_timeout == timedelta(seconds=1)


def test_datagen_ends_with_its_rows_or_its_shortest_sequence() -> None:
    def total(more: str) -> int | None:
        connector = table("a BIGINT, b INT", f"'connector' = 'datagen'{more}").connector
        assert isinstance(connector, DatagenTable)
        return connector.total_rows

    sequence = ", 'fields.a.kind' = 'sequence', 'fields.a.start' = '1', 'fields.a.end' = '7'"
    assert total("") is None
    assert total(", 'number-of-rows' = '9'") == 9
    assert total(sequence) == 7
    assert total(sequence + ", 'number-of-rows' = '3'") == 3


def test_specs_are_values_and_keep_secrets_out_of_their_text() -> None:
    options = "'properties.sasl.jaas.config' = 'password=hunter2', 'properties.group.id' = 'g'"
    one, two = kafka_spec(options), kafka_spec(options)
    assert one == two and hash(one) == hash(two)
    assert "hunter2" not in repr(one)


@pytest.mark.parametrize("title", [t for t, text in MANUALS.items() if "CREATE TABLE" in text])
def test_tables_of_the_manuals_are_accepted(title: str) -> None:
    name, statement, schema = declare("manual.sql", manual(title))
    connector, warnings = build_table(name, statement, schema, {})
    assert isinstance(connector, TopicTable)
    # The manual prints \\" in a JAAS line, which the client would refuse.
    assert [w.code for w in warnings] == (["OPT-029"] if "SASL" in title else [])


PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SHADED = f"org.apache.flink.kafka.shaded.{PLAIN}"
ALICE = f'{PLAIN} required username="alice" password="a b";'

# A JAAS line, and what the client is given.
JAAS = {
    "as the client reads it": (ALICE, ALICE),
    "as the manuals print it": (ALICE.replace('"', r"\""), ALICE),
    "with one slip": (ALICE.replace('"alice"', r"\"alice\""), ALICE),
    "of a shaded client": (ALICE.replace(PLAIN, SHADED), ALICE),
    "of a shaded client, as the manuals print it": (
        ALICE.replace(PLAIN, SHADED).replace('"', r"\""),
        ALICE,
    ),
    "with quotes inside of a password": (rf'{PLAIN} required password="a\"b\\";',) * 2,
    "of the client of another vendor": (ALICE.replace(PLAIN, f"com.ververica.x_1.{PLAIN}"), ALICE),
    "without its end": (ALICE.rstrip(";"), ALICE),
    "with all slips at once": (
        ALICE.replace(PLAIN, SHADED).replace('"', r"\"").rstrip(";") + " ",
        ALICE,
    ),
    "of Oceanus, whose users have their instance in front": (
        f'{PLAIN} required username="ckafka-xxxxxxxx#YourUserName" password="YourPassword";',
    )
    * 2,
    "with a class in a password": (f'{PLAIN} required password="x.{PLAIN}";',) * 2,
    "of Kerberos": (
        'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/a/b.keytab"'
        ' principal="alice@EXAMPLE.COM";',
    )
    * 2,
}


@pytest.mark.parametrize("name", JAAS)
def test_a_jaas_line_reaches_the_client_as_it_reads_one(name: str) -> None:
    written, given = JAAS[name]
    spec = kafka_spec(f"'properties.sasl.jaas.config' = '{written}'")
    assert spec.properties["sasl.jaas.config"] == given


def test_classes_of_a_shaded_client_lose_their_prefix() -> None:
    handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
    key = "sasl.login.callback.handler.class"
    spec = kafka_spec(f"'properties.{key}' = 'org.apache.flink.kafka.shaded.{handler}'")
    assert spec.properties[key] == handler
    spec = kafka_spec(f"'properties.{key}' = 'com.example.Handler'")
    assert spec.properties[key] == "com.example.Handler"


def test_an_empty_property_is_passed_on() -> None:
    """Without it there is no way to tell the client not to compare host names."""
    spec = kafka_spec("'properties.ssl.endpoint.identification.algorithm' = ''")
    assert spec.properties["ssl.endpoint.identification.algorithm"] == ""


# --- whatever is written, the answer is a spec or diagnostics ------------------------------------

KEYS = sorted(
    {o.key.replace("#", "id").replace("*", "x") for d in CONNECTORS.values() for o in d.options}
    | {f"{d.name}.{o.key}".replace("*", "x") for d in FORMATS.values() for o in d.options}
    | {"json.ignore-parse-errors", "value.json.timestamp-format.standard", "type", "nonsense", ""}
)
VALUES = st.one_of(
    st.sampled_from(
        [*FORMATS, "",  "id", "id;name", "0", "1", "-1", "true", "5 min", "timestamp", "ALL",
         "EXCEPT_KEY", "specific-offsets", "partition:0,offset:1", "sequence", "exactly-once", "'", "("]
    ),
    st.text(max_size=12),
)  # fmt: skip
_, _SOME, SCHEMA = declare("s.sql", "CREATE TABLE t (id BIGINT, name STRING, m MAP<INT, INT>)")


@settings(max_examples=300, deadline=None)
@given(
    connector=st.sampled_from([*CONNECTORS, "jdbc", "nope"]),
    pairs=st.lists(st.tuples(st.sampled_from(KEYS), VALUES), max_size=10),
    key=st.sampled_from([(), ("id",), ("name", "id")]),
)
def test_any_options_give_a_spec_or_diagnostics(
    connector: str, pairs: list[tuple[str, str]], key: tuple[str, ...]
) -> None:
    span = _SOME.span
    options = tuple(ast.Option(span, k, v, span) for k, v in [("connector", connector), *pairs])
    statement = ast.CreateTable(span, _SOME.name, _SOME.columns, None, None, options)
    try:
        built, _ = build_table("t", statement, Schema(SCHEMA.columns, key), {})
    except ScriptError as error:
        assert any(d.severity == "error" for d in error.diagnostics)
        assert str(error)
    else:
        assert isinstance(built, Connector)


def test_neither_arrow_nor_spark_is_imported() -> None:
    code = (
        "import sys, tidemill.tables, tidemill.tables.settings;"
        "print([m for m in sys.modules if m.split('.')[0] in ('pyarrow', 'pyspark', 'confluent_kafka')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

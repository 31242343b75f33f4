"""`${env:NAME}` and `${file:path}` in the values of options: what they come to, when, and what is said where they lead
nowhere."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.errors import JobError, ScriptError, Source, TidemillError
from tidemill.plan.environment import Environment, Text, compile_script
from tidemill.session import require_references
from tidemill.sql import parse_script
from tidemill.tables import with_bootstrap
from tidemill.tables.catalog import Table
from tidemill.tables.jdbc import JdbcTable
from tidemill.tables.kafka import KafkaTable, StartupMode, repair_property, resolved_properties
from tidemill.tables.references import (
    Unresolved,
    has_reference,
    kept_apart,
    resolved,
    resolved_options,
)

JAAS = "sasl.jaas.config"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER_NAME", "alice")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.setenv("AGAIN", "${env:USER_NAME} ${file:/etc/passwd}")
    monkeypatch.delenv("NOT_SET", raising=False)


def compiled(text: str, path: Path | str = "t.sql") -> tuple[Environment, list[Any]]:
    environment = Environment()
    answers = compile_script(parse_script(Source(str(path), text)), environment)
    return environment, answers


def kafka(*options: str, path: Path | str = "t.sql") -> Table:
    base = "'connector' = 'kafka', 'format' = 'json', 'properties.bootstrap.servers' = 'b:1'"
    topic = "" if any(o.startswith("'topic'") for o in options) else "'topic' = 'a'"
    given = ", ".join(filter(None, [base, topic, *options]))
    environment, _ = compiled(f"CREATE TABLE t (id BIGINT) WITH ({given})", path)
    table = environment.objects["t"]
    assert isinstance(table, Table)
    return table


def properties(table: Table) -> dict[str, str]:
    assert isinstance(table.connector, KafkaTable)
    told = resolved_properties(table.connector.properties)
    return {name: repair_property(name, value)[0] for name, value in told.items()}


# --- one value -----------------------------------------------------------------------------------


def test_a_variable_stands_anywhere_in_a_value() -> None:
    assert resolved("${env:USER_NAME}") == "alice"
    assert resolved("<${env:USER_NAME}-${ENV: USER_NAME }${env:EMPTY}>") == "<alice-alice>"
    assert resolved("${NAME} ${vault:x} $env:USER_NAME") == "${NAME} ${vault:x} $env:USER_NAME"


@pytest.mark.parametrize(
    ("content", "value"),
    [
        ("pw", "pw"),
        ("pw\n", "pw"),
        ("pw\r\n", "pw"),
        ("pw\n\n", "pw\n"),
        (" p w ", " p w "),
        ("", ""),
    ],
)
def test_one_newline_at_the_end_of_a_file_is_dropped(
    tmp_path: Path, content: str, value: str
) -> None:
    (tmp_path / "pw").write_bytes(content.encode())
    assert resolved(f"${{file:{tmp_path}/pw}}") == value


def test_what_a_reference_comes_to_is_not_resolved_again(tmp_path: Path) -> None:
    assert resolved("${env:AGAIN}") == "${env:USER_NAME} ${file:/etc/passwd}"
    (tmp_path / "f").write_text("${env:USER_NAME}")
    assert resolved(f"${{file:{tmp_path}/f}}") == "${env:USER_NAME}"
    # Nor later, when a job starts: the topic was resolved when the table was declared.
    assert resolved_options({"null-literal": "${env:USER_NAME}", "url": "${env:USER_NAME}"}) == {
        "null-literal": "${env:USER_NAME}",
        "url": "alice",
    }


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("${env:NOT_SET}", "the environment variable 'NOT_SET' is not set"),
        ("${file:{}/none}", "the file '{}/none' does not exist"),
        ("${file:{}}", "the file '{}' is not a plain file"),
        ("${file:}", "the file '' does not exist"),
        ("${file:{}/bytes}", "the file '{}/bytes' is not text in UTF-8"),
        ("${file:{}/large}", "the file '{}/large' is larger than 1 MiB"),
    ],
)
def test_what_leads_nowhere_says_why(tmp_path: Path, reference: str, said: str) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    (tmp_path / "large").write_bytes(b"x" * (1 << 20) + b"y")
    with pytest.raises(Unresolved) as raised:
        resolved(reference.replace("{}", str(tmp_path), 1))
    assert raised.value.reason == said.replace("{}", str(tmp_path))


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="a file that not even root reads")
def test_a_file_that_cannot_be_read() -> None:
    with pytest.raises(Unresolved, match="cannot be read: Input/output error"):
        resolved("${file:/proc/self/mem}")


# --- JAAS lines ----------------------------------------------------------------------------------


def read_as_jaas(line: str) -> list[str]:
    """The tokens of a line, as the client's reader has them: words, signs and texts with C's escapes."""
    tokens, at = [], 0
    while at < len(line):
        char = line[at]
        if char in "\"'":
            text, at = "", at + 1
            while line[at] != char:
                assert line[at] not in "\r\n", "a text ends with its line"
                if line[at] == "\\":
                    at += 1
                    text += {"n": "\n", "r": "\r"}.get(line[at], line[at])
                else:
                    text += line[at]
                at += 1
            tokens.append(text)
        elif not char.isspace():
            tokens.append(char)
        at += 1
    return tokens


NASTY = 'p"a\\s\'s;=\n\\"'


@pytest.mark.parametrize("form", ['"{}"', "'{}'", "{}", "  {}"])
def test_a_secret_in_a_jaas_line_is_escaped(tmp_path: Path, form: str) -> None:
    (tmp_path / "pw").write_text(NASTY)
    line = f'required username="u" password={form.format(f"${{file:{tmp_path}/pw}}")};'
    tokens = read_as_jaas(resolved(line, JAAS))
    assert tokens[-2:] == [NASTY, ";"]


@given(st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), min_size=1))
def test_any_secret_in_a_jaas_line_reads_back(value: str) -> None:
    # A carriage return is what an environment variable can hold, too.
    os.environ["ANY_SECRET"] = value
    try:
        line = resolved('required password="<${env:ANY_SECRET}>";', JAAS)
    finally:
        del os.environ["ANY_SECRET"]
    assert f"<{value}>" in read_as_jaas(line)


def test_a_whole_jaas_line_in_a_file_is_taken_as_it_is(tmp_path: Path) -> None:
    line = f'{PLAIN} required username="u" password="a\\"b";'
    (tmp_path / "jaas").write_text(line + "\n")
    assert resolved(f"${{file:{tmp_path}/jaas}}", JAAS) == line
    shaded = line.replace(PLAIN, f"org.apache.flink.kafka.shaded.{PLAIN}")
    (tmp_path / "jaas").write_text(shaded)
    table = kafka(f"'properties.{JAAS}' = '${{file:{tmp_path}/jaas}}'")
    assert properties(table)[JAAS] == line


# --- tables --------------------------------------------------------------------------------------


def test_properties_stay_as_written_until_a_job_starts(tmp_path: Path) -> None:
    line = f'{PLAIN} required username="${{env:USER_NAME}}" password="${{env:NOT_SET}}";'
    table = kafka(
        f"'properties.{JAAS}' = '{line}'", "'properties.ssl.key.password' = '${file:/no}'"
    )
    assert isinstance(table.connector, KafkaTable)
    assert table.connector.properties[JAAS] == line
    assert table.connector.properties["ssl.key.password"] == "${file:/no}"
    with pytest.raises(JobError, match="OPT-017: the environment variable 'NOT_SET' is not set"):
        properties(table)


def test_what_planning_needs_is_resolved_when_the_table_is_declared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ENVIRONMENT", "test")
    monkeypatch.setenv("MODE", "earliest-offset")
    monkeypatch.setenv("MOST", "5")
    table = kafka(
        "'topic' = 'orders-${env:ENVIRONMENT}'",
        "'scan.startup.mode' = '${env:MODE}'",
        "'scan.max-rows-per-batch' = '${env:MOST}'",
    )
    assert isinstance(table.connector, KafkaTable)
    assert table.connector.topics == ("orders-test",)
    assert table.connector.startup.mode is StartupMode.EARLIEST
    assert table.connector.reading.max_rows_per_batch == 5


def test_every_option_that_leads_nowhere_is_told_at_its_place() -> None:
    with pytest.raises(ScriptError) as raised:
        kafka("'topic' = 'a-${env:NOT_SET}'", "'scan.startup.mode' = '${file:/no/such}'")
    shown = str(raised.value)
    assert "t.sql:1:" in shown and "'a-${env:NOT_SET}'" in shown
    assert "OPT-017: option 'topic': the environment variable 'NOT_SET' is not set" in shown
    assert "OPT-017: option 'scan.startup.mode': the file '/no/such' does not exist" in shown
    assert "export NOT_SET=…" in shown


def test_answers_have_what_was_written() -> None:
    text = """
    CREATE TABLE t (id BIGINT) WITH ('connector' = 'kafka', 'topic' = '${env:USER_NAME}', 'format' = 'json',
      'properties.bootstrap.servers' = '${env:BROKERS_OF_NOBODY}', 'properties.ssl.key.password' = '${file:/no}',
      'properties.sasl.jaas.config' = 'x required password="hunter2" t="${env:USER_NAME}";');
    SHOW CREATE TABLE t;
    EXPLAIN SELECT * FROM t;
    """
    _, [created, explained] = compiled(text)
    assert isinstance(created, Text) and isinstance(explained, Text)
    for written in ("${env:USER_NAME}", "${env:BROKERS_OF_NOBODY}", "${file:/no}"):
        assert f"= '{written}'" in created.text
    assert "hunter2" not in created.text and "alice" not in created.text + explained.text


def test_a_relative_path_counts_from_its_script(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir("/")
    (tmp_path / "pw").write_text("beside")
    script = tmp_path / "job.sql"
    script.write_text("")
    table = kafka("'properties.ssl.key.password' = '${file:pw}'", path=script)
    assert properties(table)["ssl.key.password"] == "beside"
    # A text that is in no file counts from the current directory.
    monkeypatch.chdir(tmp_path)
    assert properties(kafka("'properties.ssl.key.password' = '${file:pw}'"))[
        "ssl.key.password"
    ] == ("beside")


def test_a_job_is_refused_before_anything_starts() -> None:
    table = kafka(
        "'properties.ssl.key.password' = '${env:NOT_SET}'",
        "'properties.ssl.truststore.password' = '${file:/no}'",
        "'properties.sasl.username' = '${env:USER_NAME}'",
    )
    with pytest.raises(JobError) as raised:
        require_references([table])
    assert [d.code for d in raised.value.diagnostics] == ["OPT-017"] * 2
    assert all(d.span is not None for d in raised.value.diagnostics)
    assert raised.value.exit_code == 3


def test_properties_that_are_taken_away_do_not_count() -> None:
    table = kafka(
        "'properties.ssl.key.password' = '${env:NOT_SET}'",
        "'properties.bootstrap.servers' = '${env:NOT_SET}'",
    )
    require_references([replace(table, connector=with_bootstrap(table.connector, "local:1"))])


def test_a_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASSWORD", "hunter2")
    environment, _ = compiled(
        "CREATE TABLE t (id BIGINT) WITH ('connector' = 'jdbc', 'table-name' = 'u', 'url' = '${env:DB_URL}',"
        " 'username' = '${env:USER_NAME}', 'password' = '${env:DB_PASSWORD}')"
    )
    connector = environment.objects["t"].connector  # type: ignore[union-attr]
    assert isinstance(connector, JdbcTable)
    assert "hunter2" not in repr(connector)
    with pytest.raises(JobError, match="'DB_URL' is not set"):
        _ = connector.resolved
    monkeypatch.setenv("DB_URL", "jdbc:x:y")
    found = connector.resolved
    assert (found.url, found.username, found.password) == ("jdbc:x:y", "alice", "hunter2")


def test_a_registry_and_a_map_in_one_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGISTRY", "http://r:8081")
    monkeypatch.setenv("WHO", "me:p,w")
    environment, _ = compiled(
        "CREATE TABLE t (id BIGINT) WITH ('connector' = 'kafka', 'topic' = 'a', 'properties.bootstrap.servers' = 'b:1',"
        " 'format' = 'avro-confluent', 'avro-confluent.url' = '${env:REGISTRY}',"
        " 'avro-confluent.properties' = 'basic.auth.user.info:${env:WHO},a:b')"
    )
    connector = environment.objects["t"].connector  # type: ignore[union-attr]
    assert isinstance(connector, KafkaTable)
    options = resolved_options(connector.value_format.options)
    assert options["url"] == "http://r:8081"
    assert {"basic.auth.user.info": "me:p,w", "a": "b"} in options.values()
    assert "${env:WHO}" in str(connector.value_format.options)


def test_hints_and_altered_tables_and_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPIC", "late")
    monkeypatch.setenv("ZONE", "Asia/Tokyo")
    text = """
    CREATE TABLE t (id BIGINT) WITH ('connector' = 'kafka', 'topic' = 'a', 'format' = 'json',
      'properties.bootstrap.servers' = 'b:1');
    ALTER TABLE t SET ('topic' = '${env:TOPIC}');
    SET 'table.local-time-zone' = '${env:ZONE}';
    SET;
    SELECT * FROM t /*+ OPTIONS('properties.ssl.key.password' = '${env:NOT_SET}') */;
    """
    environment, [settings, job] = compiled(text)
    assert environment.settings["table.local-time-zone"] == "Asia/Tokyo"
    assert settings.text == "'table.local-time-zone' = '${env:ZONE}'"
    [source] = job.sources
    assert source.connector.topics == ("late",)
    with pytest.raises(JobError, match="'NOT_SET' is not set"):
        require_references([source])
    with pytest.raises(TidemillError, match="setting 'pipeline.name': the environment variable"):
        compiled("SET 'pipeline.name' = '${env:NOT_SET}';")


@given(st.text(alphabet="ab:,'{}$e0\ue000"))
def test_references_kept_apart_come_back(text: str) -> None:
    whole = f"{text}${{env:A:b}}{text}"
    apart, restored = kept_apart(whole)
    assert not has_reference(apart) and restored(apart) == whole


# --- login modules -------------------------------------------------------------------------------


@pytest.mark.parametrize("module", ["JndiLoginModule", "LdapLoginModule"])
def test_login_modules_that_load_code_are_refused(tmp_path: Path, module: str) -> None:
    line = f'com.sun.security.auth.module.{module} required user.provider.url="ldap://evil";'
    with pytest.raises(ScriptError, match=f"OPT-019: the login module .*{module} is refused"):
        kafka(f"'properties.{JAAS}' = '{line}'")
    (tmp_path / "jaas").write_text(line)
    hidden = kafka(f"'properties.{JAAS}' = '${{file:{tmp_path}/jaas}}'")
    with pytest.raises(JobError, match="OPT-019"):
        properties(hidden)

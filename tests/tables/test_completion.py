"""What an editor may propose inside WITH."""

from __future__ import annotations

import pytest
from declared_tables import declare

from tidemill.errors import ScriptError
from tidemill.sql import ast
from tidemill.tables import CONNECTORS, FORMATS, build_table
from tidemill.tables.completion import complete_key, complete_value


def keys(prefix: str, **given: str) -> list[str]:
    return [
        c.text for c in complete_key(prefix, {k.replace("_", "."): v for k, v in given.items()})
    ]


def values(key: str, prefix: str = "", **given: str) -> list[str]:
    return [c.text for c in complete_value(key, prefix, given)]


def test_keys_of_the_connector_that_go_on_from_here() -> None:
    assert keys("conn") == ["connector"]
    assert keys("scan.start", connector="kafka") == [
        "scan.startup.mode",
        "scan.startup.specific-offsets",
        "scan.startup.timestamp-millis",
    ]
    assert keys("scan.start", connector="upsert-kafka") == []
    assert keys("sink.sem", connector="kafka") == []  # deprecated
    assert keys("topi", connector="kafka", topic="a") == ["topic-pattern"]
    assert keys("fields", connector="datagen") == ["fields."]


def test_keys_of_the_formats_that_are_chosen_carry_their_prefix() -> None:
    assert keys("csv.q", connector="kafka", format="csv") == ["csv.quote-character"]
    assert keys("value.csv.q", connector="kafka", value_format="csv") == [
        "value.csv.quote-character"
    ]
    assert keys("key.raw.", connector="upsert-kafka", key_format="raw") == [
        "key.raw.charset",
        "key.raw.endianness",
        "key.raw.line-delimiter",
    ]
    assert keys("csv.", connector="kafka", format="json") == []


def test_values_where_there_is_a_choice() -> None:
    assert values("connector", "u") == ["upsert-kafka"]
    assert values("format", "", connector="kafka") == list(FORMATS)
    assert "debezium-json" not in values("key.format", "", connector="kafka")
    assert "debezium-json" not in values("value.format", "", connector="upsert-kafka")
    assert values("scan.bounded.mode", "U", connector="kafka") == ["unbounded"]
    assert values("json.ignore-parse-errors", "", connector="kafka", format="json") == [
        "true",
        "false",
    ]
    assert values("topic", "", connector="kafka") == []
    assert values("nonsense", "", connector="kafka") == []


@pytest.mark.parametrize("connector", CONNECTORS)
@pytest.mark.parametrize("format_", FORMATS)
def test_nothing_is_proposed_that_is_not_supported(connector: str, format_: str) -> None:
    _, statement, schema = declare("t.sql", "CREATE TABLE t (id BIGINT, name STRING)")
    given = {"connector": connector}
    named_by = "value.format" if connector == "upsert-kafka" else "format"
    if named_by in {o.key for o in CONNECTORS[connector].options}:
        given[named_by] = format_
    proposed = [c.text for c in complete_key("", given) if not c.text.endswith(".")]
    assert all(c.doc for c in complete_key("", given))
    pairs = {**dict.fromkeys(proposed, "x"), **given}
    options = tuple(ast.Option(statement.span, k, v, statement.span) for k, v in pairs.items())
    tried = ast.CreateTable(statement.span, statement.name, statement.columns, None, None, options)
    try:
        build_table("t", tried, schema, {})
    except ScriptError as error:
        assert "OPT-003" not in {d.code for d in error.diagnostics}

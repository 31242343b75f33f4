"""Laws of statements that are made from others: what SHOW CREATE prints, LIKE and ALTER give the same table again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.errors import Source
from tidemill.plan.environment import Environment, Text, compile_script
from tidemill.sql import parse_script

TABLES = {
    "log": """(a INT COMMENT 'x', `b c` STRING NOT NULL, twice AS a * 2) COMMENT 'it''s' WITH (
        'connector' = 'kafka', 'topic' = 'log', 'properties.bootstrap.servers' = 'b:9092', 'format' = 'json')""",
    "keyed": """(k BIGINT PRIMARY KEY NOT ENFORCED, v ROW<a INT, b ARRAY<STRING NOT NULL>>, seen AS PROCTIME(),
        t TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', p INT METADATA FROM 'partition' VIRTUAL,
        WATERMARK FOR t AS t - INTERVAL '2' SECOND) WITH (
        'connector' = 'upsert-kafka', 'topic' = 'k', 'properties.bootstrap.servers' = 'b:9092',
        'key.format' = 'json', 'value.format' = 'json')""",
    "made": """(f0 INT, f1 DECIMAL(5, 2), ts TIMESTAMP(3), x AS CASE WHEN f0 > 1 THEN 'a' ELSE CAST(f0 AS STRING) END,
        WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen', 'rows-per-second' = '5')""",
}


def answers(script: str) -> list[str]:
    found = compile_script(parse_script(Source("s.sql", script)), Environment())
    return [a.text for a in found if isinstance(a, Text)]


@pytest.mark.parametrize("name", TABLES)
def test_what_show_create_prints_makes_the_same_table(name: str) -> None:
    create = f"CREATE TABLE {name} {TABLES[name]};"
    described, text = answers(f"{create} DESCRIBE {name}; SHOW CREATE TABLE {name};")
    assert answers(f"{text}; DESCRIBE {name}; SHOW CREATE TABLE {name};") == [described, text]


@pytest.mark.parametrize("name", TABLES)
def test_like_makes_the_same_table(name: str) -> None:
    create = f"CREATE TABLE {name} {TABLES[name]};"
    shown = answers(
        f"{create} CREATE TABLE other LIKE {name} (INCLUDING ALL); DESCRIBE {name}; DESCRIBE other;"
    )
    assert shown[0] == shown[1]


@given(
    st.sampled_from(sorted(TABLES)),
    st.lists(st.sampled_from(["n1", "n2", "n3", "n4"]), unique=True, min_size=1),
    st.sampled_from(["", " FIRST", " AFTER n1"]),
)
def test_columns_that_are_added_and_dropped_leave_no_trace(
    table: str, names: list[str], place: str
) -> None:
    columns = ", ".join(
        f"{n} STRING{place if n != 'n1' and 'n1' in names else ''}" for n in sorted(names)
    )
    shown = answers(
        f"CREATE TABLE {table} {TABLES[table]}; SHOW CREATE TABLE {table};"
        f"ALTER TABLE {table} ADD ({columns}); SHOW CREATE TABLE {table};"
        f"ALTER TABLE {table} DROP ({', '.join(names)}); SHOW CREATE TABLE {table};"
    )
    assert shown[0] == shown[2] != shown[1]

"""What the kernel is told of a table that is read; no Spark runs."""

from __future__ import annotations

import pytest

from tidemill.errors import Source
from tidemill.plan import nodes
from tidemill.plan.environment import Environment, Job, compile_script
from tidemill.spark.access import Access
from tidemill.spark.source import Scanning, decoding_of, kafka_spec
from tidemill.sql import parse_script


def scan(options: str, columns: str = "id INT", query: str = "SELECT * FROM t") -> nodes.Scan:
    text = (
        f"CREATE TABLE t ({columns}) WITH ('connector' = 'kafka', 'topic' = 'a', 'format' = 'json',"
        f" 'properties.bootstrap.servers' = 'b:1'{options and ', '}{options}); {query}"
    )
    (job,) = compile_script(parse_script(Source("<test>", text), {}), Environment())
    assert isinstance(job, Job)
    return next(n for n in nodes.walk(job.roots[0]) if isinstance(n, nodes.Scan))


def test_a_table_without_a_group_begins_at_the_earliest_offset_under_a_name_of_its_own() -> None:
    spec = kafka_spec(scan("").table, ["value"], None, Access())
    assert spec["startup"]["mode"] == "earliest-offset"
    assert spec["defaultGroup"] == "KafkaSource-default_catalog.default_database.t"
    assert "group.id" not in spec["properties"]


def test_properties_travel_as_they_are() -> None:
    given = {"sasl.mechanism": "PLAIN", "Odd.Case": "Kept As It Is", "max.poll.records": "7"}
    options = ", ".join(f"'properties.{k}' = '{v}'" for k, v in given.items())
    spec = kafka_spec(scan(options).table, ["value"], None, Access())
    assert spec["properties"] == {"bootstrap.servers": "b:1", **given}


COLUMNS = (
    "id INT, name STRING, `partition` INT METADATA VIRTUAL, `timestamp` TIMESTAMP_LTZ(3) METADATA,"
    " headers MAP<STRING, BYTES> METADATA"
)


@pytest.mark.parametrize(
    ("query", "fetched", "decoded"),
    [
        ("SELECT id FROM t", ("value", "partition", "offset"), ("id",)),
        ("SELECT name FROM t WHERE id > 1", ("value", "partition", "offset"), ("id", "name")),
        ("SELECT `timestamp` FROM t", ("value", "partition", "offset", "timestamp"), ()),
    ],
)
def test_only_what_is_used_is_fetched_and_decoded(
    query: str, fetched: tuple[str, ...], decoded: tuple[str, ...]
) -> None:
    decoding = decoding_of(scan("", COLUMNS, query), Scanning())
    assert decoding.columns == fetched
    assert sorted(decoding.decode.value.wanted) == sorted(decoded)

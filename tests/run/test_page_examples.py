"""The examples of the pages about connectors and formats run as they stand there, on topics and servers of the test."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from world import World

from harness import registry as harness
from test_docs import TABLES, Fence, ids
from tidemill.broker import topics
from tidemill.broker.records import Record

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

PAYMENT = {
    "type": "record",
    "name": "Payment",
    "fields": [
        {"name": "id", "type": "long"},
        {
            "name": "amount",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
        },
    ],
}
CUSTOMER = {
    "type": "record",
    "name": "Customer",
    "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}],
}
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {"name": "before", "type": ["null", CUSTOMER]},
        {"name": "after", "type": ["null", "Customer"]},
        {"name": "op", "type": "string"},
    ],
}
REGISTERED = [PAYMENT, ENVELOPE]


def written(schema: dict[str, Any], value: Any) -> bytes:
    """With the number of its schema before it, which `REGISTERED` tells."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return b"\x00" + (REGISTERED.index(schema) + 1).to_bytes(4, "big") + out.getvalue()


def inserted(**row: Any) -> tuple[str, dict[str, Any]]:
    return "+I", row


MIA = {"id": 1, "name": "mia"}

# Page, and which of its examples: what its first topic holds, then what comes out: the rows of its SELECT, or what is
# in its other topics. Where that depends on chance: a function that says whether it is right.
EXAMPLES: dict[tuple[str, int], tuple[list[Any], Any]] = {
    ("blackhole.md", 0): ([], []),
    ("datagen.md", 0): ([], lambda rows: sum_of(rows, "orders") == 5000),
    ("print.md", 0): ([], []),
    ("kafka.md", 0): (
        [{"order_id": 1, "amount": 1000.5}, {"order_id": 2, "amount": 7}, b"{"],
        {"large_orders": [{"order_id": 1, "cents": 100050}]},
    ),
    ("kafka.md", 1): (
        [{"sensor": "a", "celsius": 20.5}, {"sensor": "a", "celsius": "hot"}],
        [inserted(sensor="a", highest=20.5)],
    ),
    ("kafka.md", 2): (
        [{"id": 1, "amount": 1.5, "paid": True}, {"id": 2, "paid": False}],
        {"paid": [{"id": 1, "amount": 1.5}]},
    ),
    ("kafka.md", 3): (
        [{"sensor": "a", "celsius": 30}, {"sensor": "b", "celsius": 5}],
        {"warm": [{"sensor": "a", "celsius": 30.0}], "cold": [{"sensor": "b", "celsius": 5.0}]},
    ),
    ("upsert-kafka.md", 0): (
        [{"user_id": 1, "user_region": "x"}, {"user_id": 1, "user_region": "x"}],
        {"pageviews_per_region": [{"user_region": "x", "pv": 2, "uv": 1}]},
    ),
    ("upsert-kafka.md", 1): (
        [
            Record(b'{"id": 1, "name": "mia"}', b'{"id": 1}', timestamp_ms=1000),
            Record(None, b'{"id": 1}', timestamp_ms=2000),
        ],
        {
            "customers_audit": [
                {**MIA, "what": "written", "changed_at": "1970-01-01 00:00:01Z"},
                {"id": 1, "name": None, "what": "deleted", "changed_at": "1970-01-01 00:00:02Z"},
            ]
        },
    ),
    ("filesystem.md", 0): (
        [{"id": 1, "product": 7}, {"id": 2, "product": 8}],
        lambda rows: sorted(r["name"] or "" for _, r in rows) == ["", "pen"],
    ),
    ("filesystem.md", 1): ([{"id": 1, "page": "/", "at_time": "2024-01-01 10:00:00"}], []),
    ("jdbc.md", 0): (
        [{"id": 1, "customer": 7}, {"id": 2, "customer": 8}],
        lambda rows: sorted(r["name"] or "" for _, r in rows) == ["", "pen"],
    ),
    ("avro.md", 0): ([bytes.fromhex("02" + "020296" + "00")], [inserted(id=1, amount=-1.06)]),
    ("avro-confluent.md", 0): (
        [written(PAYMENT, {"id": 1, "amount": Decimal("1.50")})],
        [inserted(id=1, amount=1.5)],
    ),
    ("canal-json.md", 0): (
        [
            {"type": "INSERT", "table": "customers", "data": [MIA]},
            {"type": "INSERT", "table": "orders", "data": [MIA]},
        ],
        [inserted(**MIA, origin="customers")],
    ),
    ("csv.md", 0): (
        [b"1\t/cart\ta;b", b"2\tn/a\t"],
        [inserted(visitor=1, page="/cart"), inserted(visitor=2, page=None)],
    ),
    ("debezium-avro-confluent.md", 0): (
        [
            written(ENVELOPE, {"before": None, "after": MIA, "op": "c"}),
            written(ENVELOPE, {"before": MIA, "after": None, "op": "d"}),
        ],
        [inserted(**MIA), ("-D", MIA)],
    ),
    ("debezium-json.md", 0): (
        [{"op": "c", "after": MIA, "source": {"ts_ms": 1000}}],
        [inserted(**MIA, changed_at="1970-01-01 00:00:01Z")],
    ),
    ("json.md", 0): (
        [{"sensor": "a", "temperature": "21.5", "place": {"lat": 1.5}, "tags": {"room": "3"}}],
        [inserted(sensor="a", lat=1.5, **{"EXPR$2": "3"})],
    ),
    ("maxwell-json.md", 0): (
        [{"type": "insert", "table": "customers", "data": MIA}],
        [inserted(**MIA, origin="customers")],
    ),
    ("ogg-json.md", 0): (
        [{"op_type": "I", "op_ts": "2024-02-29 12:34:56.123000", "after": MIA}],
        [inserted(**MIA, changed_at="2024-02-29 12:34:56.123Z")],
    ),
    ("raw.md", 0): ([b"one line"], [inserted(line="one line")]),
}  # fmt: skip


def sum_of(rows: list[tuple[str, Any]], column: str) -> int:
    return sum(row[column] * (1 if kind in ("+I", "+U") else -1) for kind, row in rows)


def place_on_page(fence: Fence) -> tuple[str, int]:
    return fence.path.name, [f for f in TABLES if f.path == fence.path].index(fence)


def test_every_example_is_listed() -> None:
    assert [place_on_page(fence) for fence in TABLES if place_on_page(fence) not in EXAMPLES] == []
    assert len(EXAMPLES) == len(TABLES)


@pytest.mark.parametrize("fence", TABLES, ids=ids)
def test_the_example_of_a_page_runs(
    fence: Fence, world: World, topic_name: Callable[..., str], tmp_path: Path
) -> None:
    records, expected = EXAMPLES[place_on_page(fence)]
    text = fence.text.replace("localhost:9092", world.broker.bootstrap)
    text = text.replace("'/data/", f"'{tmp_path}/")
    (tmp_path / "products").mkdir()
    (tmp_path / "products" / "a.csv").write_text("7,pen\n")
    if "jdbc:" in text:
        url = f"jdbc:derby:{tmp_path / 'shop'}"
        customers = world.spark.createDataFrame([(7, "pen")], "id INT, name STRING")
        known = {"user": "reader", "password": "secret"}
        customers.write.jdbc(f"{url};create=true", "customers", properties=known)
        text = text.replace("jdbc:postgresql://localhost:5432/shop", url)
    text = text.replace("'1000000'", "'1000'")  # a million names are for those who have time
    named = re.findall(r"topic' = '([^']*)'", text)
    own = {name: topic_name(name) for names in named for name in names.split(";")}
    for name, given in own.items():
        topics.create(world.broker.bootstrap, given, 1, {})
        text = re.sub(rf"(?<=[';]){re.escape(name)}(?=[';])", given, text)
    if own:
        world.produce(
            next(iter(own.values())),
            *(json.dumps(r) if isinstance(r, dict) else r for r in records),
        )
    with harness.running() as registry:
        for schema in REGISTERED:
            registry.register(schema["name"], json.dumps(schema))
        world.run(text.replace("http://localhost:8081", registry.url), keep=True)
    if callable(expected):
        assert expected(world.rows)
    elif isinstance(expected, dict):
        assert {name: world.values(own[name]) for name in expected} == expected
    else:
        assert world.rows == expected

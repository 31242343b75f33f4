"""Records to rows and dead letters, as a Python worker does it; no Spark runs."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.changelog import KIND_COLUMN
from tidemill.spark.faults import RecordFault
from tidemill.spark.source import BAD_COLUMN, DEAD_LETTER, SKIPPED, Decode, Side
from tidemill.tables.kafka import BadRecords
from tidemill.types import INT, Field

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def records(*values: bytes | None) -> pa.RecordBatch:
    number = len(values)
    return pa.RecordBatch.from_arrays(
        [
            pa.array([None] * number, pa.binary()),
            pa.array(values, pa.binary()),
            pa.array([0] * number, pa.int32()),
            pa.array(range(number), pa.int64()),
            pa.array([1_000_000] * number, pa.timestamp("us", tz="UTC")),
            pa.array([[]] * number, HEADERS),
        ],
        names=["key", "value", "partition", "offset", "timestamp", "header_list"],
    )


def decode(
    batch: pa.RecordBatch, policy: BadRecords | None, format_: str = "json", lenient: bool = False
) -> tuple[list[dict[str, object]], Counter[str]]:
    losses: Counter[str] = Counter()

    def count(name: str, number: int) -> None:
        losses[name] += number

    options: dict[str, object] = {"ignore-parse-errors": lenient}
    side = Side(format_, options, (Field("id", INT),), ("id",), f"{format_}.")
    has_kinds = format_ != "json"
    worker = Decode("t", "topic", side, None, (), (0,), has_kinds, policy, count)
    rows = [row for found in worker._decode(iter([batch])) for row in found.to_pylist()]
    return rows, losses


def test_dead_letters_of_a_format_of_changes_have_no_kind() -> None:
    change = b'{"before": null, "after": {"id": 1}, "op": "c"}'
    letter, row = decode(records(b"{", change), BadRecords.DEAD_LETTER, "debezium-json")[0]
    assert (row["c0"], row[KIND_COLUMN], row[BAD_COLUMN]) == (1, 0, None)
    assert (letter["c0"], letter[KIND_COLUMN]) == (None, None)
    bad = letter[BAD_COLUMN]
    assert isinstance(bad, dict)
    assert bad["value"] == b"{"
    told = {header["key"]: header["value"] for header in bad["headers"]}
    assert told.pop("tidemill.error").startswith(b"cannot be read as debezium-json: ")
    assert told == {
        "tidemill.topic": b"topic",
        "tidemill.partition": b"0",
        "tidemill.offset": b"0",
        "tidemill.timestamp": b"1000",
        "tidemill.table": b"t",
    }


@pytest.mark.parametrize("lenient", [False, True])
def test_the_first_bad_record_of_a_batch_is_named(lenient: bool) -> None:
    with pytest.raises(RecordFault, match="offset 1: "):
        decode(records(b'{"id": 1}', b"{", b"}"), BadRecords.FAIL, lenient=lenient)


def test_a_record_that_its_key_leaves_out_is_counted_as_such() -> None:
    losses: Counter[str] = Counter()
    options: dict[str, object] = {"ignore-parse-errors": True}
    value = Side("json", options, (Field("id", INT),), ("id",), "value.json.")
    key = Side("json", options, (Field("k", INT),), ("k",), "key.json.")

    def count(name: str, number: int) -> None:
        losses[name] += number

    worker = Decode("t", "topic", value, key, (), (0, 1), False, None, count)
    batch = records(b'{"id": 1}', b'{"id": 2}', b'{"id": 3}', None)
    keys = pa.array([b'{"k": 1}', None, b"{", b'{"k": 4}'], pa.binary())
    batch = batch.set_column(0, "key", keys)
    (rows,) = worker._decode(iter([batch]))
    assert rows.to_pylist() == [{"c0": 1, "c1": 1}]
    assert losses == {"null value as key": 1, "unreadable document as key": 1, "null value": 1}


DOCUMENTS = st.sampled_from(
    [b'{"id": 1}', b'{"id": "x"}', b"{}", b"", b"{", b"7", b"null", b'[{"id": 2}]', b"[]", None]
)


@given(st.lists(DOCUMENTS, max_size=20), st.booleans())
def test_every_way_with_bad_records_gives_the_same_rows(
    documents: list[bytes | None], lenient: bool
) -> None:
    batch = records(*documents)
    skipped, losses = decode(batch, BadRecords.SKIP, lenient=lenient)
    found, others = decode(batch, BadRecords.DEAD_LETTER, lenient=lenient)
    letters = [row for row in found if row[BAD_COLUMN] is not None]
    assert [row["c0"] for row in found if row[BAD_COLUMN] is None] == [row["c0"] for row in skipped]
    assert len(letters) == losses[SKIPPED] == others[DEAD_LETTER]
    assert losses["null value"] == documents.count(None) + documents.count(b"")
    if lenient:
        # Fields are forgiven and documents are not, so that what is left is what Flink leaves.
        assert decode(batch, None, lenient=True)[0] == skipped
        assert losses["unreadable document"] == 0

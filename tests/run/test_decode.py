"""Records to rows and dead letters, as a Python worker does it; no Spark runs."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.changelog import KIND_COLUMN
from tidemill.spark.faults import RecordFault
from tidemill.spark.source import (
    BAD_COLUMN,
    CHANGED_KEY,
    DEAD_LETTER,
    NULLED,
    ORDER_COLUMN,
    ORIGIN_COLUMN,
    SKIPPED,
    Decode,
    Side,
)
from tidemill.tables.kafka import BadRecords
from tidemill.types import INT, STRING, Field

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


def decode_with_key(
    *pairs: tuple[bytes | None, bytes | None],
    policy: BadRecords | None = None,
    lenient: bool = True,
) -> tuple[list[dict[str, object]], Counter[str]]:
    """Rows and losses of records, given as key and value."""
    losses: Counter[str] = Counter()

    def count(name: str, number: int) -> None:
        losses[name] += number

    options: dict[str, object] = {"ignore-parse-errors": lenient}
    value = Side("json", options, (Field("id", INT),), ("id",), "value.json.")
    key = Side("json", options, (Field("k", INT),), ("k",), "key.json.")
    worker = Decode("t", "topic", value, key, (), (0, 1), False, policy, count)
    batch = records(*(value for _, value in pairs))
    batch = batch.set_column(0, "key", pa.array([key for key, _ in pairs], pa.binary()))
    return [row for found in worker._decode(iter([batch])) for row in found.to_pylist()], losses


def test_a_record_that_its_key_leaves_out_is_counted_as_such() -> None:
    rows, losses = decode_with_key(
        (b'{"k": 1}', b'{"id": 1}'),
        (None, b'{"id": 2}'),
        (b"{", b'{"id": 3}'),
        (b'{"k": 4}', None),
        (b"[]", b'{"id": 5}'),
    )
    assert rows == [{"c0": 1, "c1": 1}]
    assert losses == {
        "null value as key": 1,
        "unreadable document as key": 1,
        "null value": 1,
        "no row as key": 1,
    }


# A key and a value that both leave a record out; the record is counted under the name that comes last.
LOST_TWICE = {
    "null, null": (None, None, "null value as key"),
    "null, unreadable": (None, b"{", "null value as key"),
    "unreadable, null": (b"{", None, "unreadable document as key"),
    "several unreadable elements": (b"[7, 8]", None, "unreadable document as key"),
    "an empty array, null": (b"[]", None, "no row as key"),
}


@pytest.mark.parametrize("name", LOST_TWICE)
def test_a_record_without_key_and_value_is_counted_once(name: str) -> None:
    key, value, counted = LOST_TWICE[name]
    good = (b'{"k": 1}', b'{"id": 1}')
    rows, losses = decode_with_key(good, (key, value), good)
    assert rows == [{"c0": 1, "c1": 1}] * 2
    assert losses == {counted: 1}


@pytest.mark.parametrize("policy", [BadRecords.SKIP, BadRecords.DEAD_LETTER])
@pytest.mark.parametrize("pair", [(b"{", None), (None, b"{"), (b"[]", b"{"), (b"{", b"{")])
def test_a_bad_record_is_counted_as_nothing_else(
    pair: tuple[bytes | None, bytes | None], policy: BadRecords
) -> None:
    rows, losses = decode_with_key(pair, (None, b"{}"), policy=policy, lenient=False)
    bad = SKIPPED if policy is BadRecords.SKIP else DEAD_LETTER
    assert losses == {bad: 1, "null value as key": 1}
    assert len(rows) == (policy is BadRecords.DEAD_LETTER)


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


@given(st.lists(st.tuples(DOCUMENTS, DOCUMENTS), max_size=20), st.booleans())
def test_every_record_gives_a_row_or_is_counted_once(
    pairs: list[tuple[bytes | None, bytes | None]], lenient: bool
) -> None:
    # An empty array as value is a record of no rows, which is no loss.
    pairs = [(key, value) for key, value in pairs if value != b"[]"]
    rows, losses = decode_with_key(*pairs, policy=BadRecords.SKIP, lenient=lenient)
    assert len(rows) + losses.total() == len(pairs)


# --- upserts and deletes -------------------------------------------------------------------------


# ---- what is met, and gives a row all the same ----------------------------------------------------------


def met(
    format_: str, *values: str, lenient: bool = False
) -> tuple[list[dict[str, object]], dict[str, int]]:
    """The rows (c0: id, c1: v) of a table whose primary key is `id`, and what was met."""
    found: Counter[str] = Counter()
    options: dict[str, object] = {"ignore-parse-errors": lenient}
    fields = (Field("id", INT), Field("v", INT))
    side = Side(format_, options, fields, ("v", "id"), f"{format_}.")
    has_kinds = format_ not in ("json", "csv")
    worker = Decode(
        "t",
        "topic",
        side,
        None,
        (),
        (1, 0),
        has_kinds,
        None,
        lambda name, number: None,
        keys=(1,) if has_kinds else (),
        met=lambda name, number: found.update({name: number}),
    )
    batch = records(*(value.encode() for value in values))
    return [row for part in worker._decode(iter([batch])) for row in part.to_pylist()], dict(found)


UPDATES = {
    "debezium-json": '{"before": {"id": OLD, "v": 1}, "after": {"id": NEW, "v": 2}, "op": "u"}',
    "ogg-json": '{"before": {"id": OLD, "v": 1}, "after": {"id": NEW, "v": 2}, "op_type": "U"}',
    "maxwell-json": '{"old": {"id": OLD, "v": 1}, "data": {"id": NEW, "v": 2}, "type": "update"}',
    "canal-json": '{"old": [{"id": OLD}], "data": [{"id": NEW, "v": 2}], "type": "UPDATE"}',
}


@pytest.mark.parametrize("format_", UPDATES)
def test_an_update_that_changes_the_key_is_counted(format_: str) -> None:
    pairs = [("1", "1"), ("1", "7"), ("null", "null"), ("null", "1"), ("2", "2")]
    changes = [UPDATES[format_].replace("OLD", a).replace("NEW", b) for a, b in pairs]
    rows, found = met(format_, *changes)
    assert len(rows) == 10
    assert found == {CHANGED_KEY: 2}


@pytest.mark.parametrize(
    ("format_", "document"),
    [("json", '{"id": 1, "v": "x"}'), ("csv", "1,x"), ("maxwell-json", None)],
)
def test_a_value_that_cannot_be_read_and_is_null_is_counted(
    format_: str, document: str | None
) -> None:
    document = document or '{"data": {"id": 1, "v": "x"}, "type": "insert"}'
    rows, found = met(format_, document, lenient=True)
    assert [(row["c0"], row["c1"]) for row in rows] == [(1, None)]
    assert found == {NULLED: 1}


def upserts(
    *pairs: tuple[bytes | None, bytes | None],
    policy: BadRecords | None = None,
    lenient: bool = False,
    key: Side | None = None,
    value: Side | None = None,
    shared: bool = False,
) -> tuple[list[dict[str, object]], Counter[str]]:
    """Rows (k, v) of an upsert table and losses; `shared`: the key's column is in the value too."""
    losses: Counter[str] = Counter()

    def count(name: str, number: int) -> None:
        losses[name] += number

    options: dict[str, object] = {"ignore-parse-errors": lenient}
    fields = (Field("k", INT), Field("v", INT)) if shared else (Field("v", INT),)
    key = key or Side("json", options, (Field("k", INT),), ("k",), "key.json.")
    names = tuple(f.name for f in fields)
    value = value or Side("json", options, fields, names, "value.json.", deletes=True)
    worker = Decode(
        "t",
        "topic",
        value,
        key,
        (),
        (1, 2) if shared else (0, 1),
        True,
        policy,
        count,
        ((0, 1),) if shared else (),
        ("partition", "offset"),
    )
    batch = records(*(value for _, value in pairs))
    batch = batch.set_column(0, "key", pa.array([key for key, _ in pairs], pa.binary()))
    return [row for found in worker._decode(iter([batch])) for row in found.to_pylist()], losses


def changed(k: int | None, v: int | None, kind: int, order: int) -> dict[str, object]:
    return {"c0": k, "c1": v, KIND_COLUMN: kind, ORIGIN_COLUMN: 0, ORDER_COLUMN: order}


def test_a_null_value_deletes_its_key_in_its_place() -> None:
    rows, losses = upserts(
        (b'{"k": 1}', b'{"v": 10}'),
        (b'{"k": 1}', None),
        (b'{"k": 2}', b'{"v": 20}'),
        (b'{"k": 1}', b'{"v": 11}'),
        (b'{"k": 3}', None),
    )
    assert rows == [
        changed(1, 10, 2, 0),
        changed(1, None, 3, 1),
        changed(2, 20, 2, 2),
        changed(1, 11, 2, 3),
        changed(3, None, 3, 4),
    ]
    assert not losses


def test_a_column_of_key_and_value_is_the_values_and_of_a_delete_the_keys() -> None:
    rows, losses = upserts(
        (b'{"k": 1}', b'{"k": 7, "v": 10}'),
        (b'{"k": 1}', b'{"v": 11}'),
        (b'{"k": 2}', None),
        shared=True,
    )
    assert rows == [changed(7, 10, 2, 0), changed(None, 11, 2, 1), changed(2, None, 3, 2)]
    assert not losses


def test_no_record_but_one_without_a_value_is_a_delete() -> None:
    """Also not one that breaks in the middle, of which Flink makes a delete, and not an empty one."""
    rows, losses = upserts(
        (b'{"k": 1}', b'{"v": 10'),
        (b'{"k": 2}', b""),
        (b'{"k": 3}', b"null"),
        (b'{"k": 4}', b'{"v": "x"}'),
        (b'{"k": 5}', None),
        lenient=True,
    )
    assert rows == [changed(4, None, 2, 3), changed(5, None, 3, 4)]
    assert losses == {"unreadable document": 2, "null value": 1}


def test_a_record_without_a_key_changes_nothing() -> None:
    rows, losses = upserts((None, b'{"v": 1}'), (None, None), (b"{", None), lenient=True)
    assert not rows
    assert losses == {"null value as key": 2, "unreadable document as key": 1}


def test_a_bad_key_of_a_delete_is_named_as_such() -> None:
    with pytest.raises(RecordFault, match=r"record's key .* offset 1, field 'k'"):
        upserts((b'{"k": 1}', None), (b'{"k": "x"}', None))
    (letter, row), losses = upserts(
        (b'{"k": 1}', None), (b'{"k": "x"}', None), policy=BadRecords.DEAD_LETTER
    )
    assert row == changed(1, None, 3, 0) | {BAD_COLUMN: None}
    assert {k: v for k, v in letter.items() if v is not None}.keys() == {BAD_COLUMN}
    assert losses == {DEAD_LETTER: 1}


def test_bad_values_between_deletes_are_found_where_they_are() -> None:
    with pytest.raises(RecordFault, match=r"record's value .* offset 2, field 'v'"):
        upserts((b'{"k": 1}', None), (b'{"k": 1}', b'{"v": 1}'), (b'{"k": 1}', b'{"v": []}'))


def test_a_format_that_reads_null_does_not_see_deletes() -> None:
    value = Side("raw", {}, (Field("v", STRING),), ("v",), "value.raw.", deletes=True)
    key = Side("raw", {}, (Field("k", STRING),), ("k",), "key.raw.")
    rows, losses = upserts((b"a", b"x"), (b"b", None), (None, b""), value=value, key=key)
    assert [(row["c0"], row["c1"], row[KIND_COLUMN]) for row in rows] == [
        ("a", "x", 2),
        ("b", None, 3),
        (None, "", 2),
    ]
    assert not losses


def test_several_keys_of_one_record_are_all_deleted() -> None:
    rows, _ = upserts((b'[{"k": 1}, {"k": 2}]', None), (b'{"k": 3}', b'[{"v": 1}, {"v": 2}]'))
    assert rows == [
        changed(1, None, 3, 0),
        changed(2, None, 3, 0),
        changed(3, 1, 2, 1),
        changed(3, 2, 2, 1),
    ]


@given(st.lists(st.tuples(DOCUMENTS, DOCUMENTS), max_size=20), st.booleans(), st.booleans())
def test_every_upsert_gives_a_row_or_is_counted_once(
    pairs: list[tuple[bytes | None, bytes | None]], lenient: bool, shared: bool
) -> None:
    pairs = [(key, value) for key, value in pairs if value != b"[]"]
    rows, losses = upserts(*pairs, policy=BadRecords.SKIP, lenient=lenient, shared=shared)
    assert len(rows) + losses.total() == len(pairs)
    deleted = [row[ORDER_COLUMN] for row in rows if row[KIND_COLUMN] == 3]
    assert all(pairs[int(str(at))][1] is None for at in deleted)
    assert [row[ORDER_COLUMN] for row in rows] == sorted(row[ORDER_COLUMN] for row in rows)

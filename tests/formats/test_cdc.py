"""Formats that tell changes: what a record gives, that the fast way gives the same, and what is written."""

from __future__ import annotations

import json as stdlib_json
import pickle
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from json_cases import DATA, show, type_of

from tidemill import types as t
from tidemill.changelog import RowKind
from tidemill.errors import JobError
from tidemill.formats import Decoded, format_module
from tidemill.formats.arrow_text import Unsure
from tidemill.tables import FORMATS

TABLE = (t.Field("id", t.INT), t.Field("name", t.STRING), t.Field("w", t.DOUBLE))
NAMES = ("debezium-json", "canal-json", "maxwell-json", "ogg-json")


def decode(name, documents, options=None, metadata=(), fields=TABLE, wanted=None) -> Decoded:
    values = pa.array([d.encode() if isinstance(d, str) else d for d in documents], pa.binary())
    decoder = format_module(name).decoder(fields, options or {}, wanted, metadata)
    return decoder.decode(values)


def told(name: str, metadata) -> list[t.Field]:
    return [t.Field(key, FORMATS[name].metadata[key].read_type) for key in metadata]


def rows(decoded: Decoded, fields) -> list[str]:
    shown = [show(c, f.type) for c, f in zip(decoded.columns, fields, strict=True)]
    kinds = [RowKind(k).symbol for k in decoded.kinds.to_pylist()]
    return [f"{k} ({', '.join(v)})" for k, v in zip(kinds, zip(*shown, strict=True), strict=True)]


# ---- one record ------------------------------------------------------------------------------------------


def blocks() -> Iterator[tuple[str, dict[str, object], list[str], list[tuple[int, str, str]]]]:
    """(format, options, metadata, [(line number, record, what comes out)]) of the case file."""
    head, found = None, []
    text = (DATA / "cdc_decode.txt").read_text(encoding="utf-8")
    for number, line in enumerate([*text.splitlines(), "end"], 1):
        if line.startswith(">"):
            found.append([number, line[2:], ""])
        elif line.startswith("<"):
            found[-1][2] = line[2:]
        elif line and not line.startswith("#"):
            if head:
                name, _, rest = head.partition(" ")
                options, _, metadata = rest.partition("}")
                yield (
                    name,
                    stdlib_json.loads(options + "}" if options else "{}"),
                    metadata.split(),
                    found,
                )
            head, found = line, []


BLOCKS = [(n, o, m, [tuple(c) for c in cases]) for n, o, m, cases in blocks()]


def outcome(decoded: Decoded, fields) -> str:
    if decoded.bad:
        [bad] = decoded.bad
        return f"bad{f' at {bad.field}' if bad.field else ''}: {bad.reason}"
    if decoded.dropped:
        [(why, number)] = decoded.dropped.items()
        assert number == 1
        return f"skipped: {why}"
    return " ".join(rows(decoded, fields))


@pytest.mark.parametrize(
    ("name", "options", "metadata", "record", "expected"),
    [
        pytest.param(n, o, m, record, expected, id=f"{line}: {n}")
        for n, o, m, found in BLOCKS
        for line, record, expected in found
    ],
)
def test_record(name, options, metadata, record, expected):
    fields = [*TABLE, *told(name, metadata)]
    found = outcome(decode(name, [record], options, metadata), fields)
    if expected.startswith("bad"):
        place, reason = expected.split(": ", 1)
        assert found.startswith(place + ": ")
        assert reason in found
    else:
        assert found == expected


@pytest.mark.parametrize(("name", "options", "metadata", "found"), BLOCKS)
def test_records_of_a_batch_do_not_change_each_other(name, options, metadata, found):
    fields = [*TABLE, *told(name, metadata)]
    documents = [record for _, record, _ in found]
    together = decode(name, [*documents, None, ""], options, metadata)
    alone = [decode(name, [d], options, metadata) for d in documents]
    assert rows(together, fields) == [row for one in alone for row in rows(one, fields)]
    assert together.records.to_pylist() == [i for i, one in enumerate(alone) for _ in one.kinds]
    assert [b.index for b in together.bad] == [i for i, one in enumerate(alone) if one.bad]
    assert together.dropped["null value"] == 2
    dropped = sum(sum(one.dropped.values()) for one in alone)
    assert sum(together.dropped.values()) == dropped + 2


def test_columns_are_chosen_and_ordered_and_metadata_follows():
    record = (
        '{"op": "c", "after": {"id": 1, "name": "a", "w": 2}, "source": {"db": "d", "table": "t"}}'
    )
    metadata = ("source.table", "source.database")
    decoded = decode("debezium-json", [record], {}, metadata, wanted=["w", "id"])
    assert [c.to_pylist() for c in decoded.columns] == [[2.0], [1], ["t"], ["d"]]


def test_without_columns_rows_are_still_counted():
    decoded = decode("maxwell-json", ['{"type": "update", "data": {}, "old": {}}'], wanted=[])
    assert decoded.columns == []
    assert (decoded.kinds.to_pylist(), decoded.records.to_pylist()) == ([1, 2], [0, 0])


def test_nothing_gives_no_rows_but_kinds():
    decoded = decode("ogg-json", [])
    assert decoded.kinds.type == pa.int8()
    assert [len(c) for c in (*decoded.columns, decoded.kinds)] == [0, 0, 0, 0]


@pytest.mark.parametrize("name", NAMES)
def test_decoder_and_encoder_survive_pickling(name):
    module = format_module(name)
    encoder = pickle.loads(pickle.dumps(module.encoder(TABLE[:1], {})))
    key = "source.table" if name == "debezium-json" else "table"
    decoder = pickle.loads(pickle.dumps(module.decoder(TABLE[:1], {}, None, (key,))))
    decoded = decoder.decode(encoder.encode([pa.array([7], pa.int32())]))
    assert [c.to_pylist() for c in decoded.columns] == [[7], [None]]


# ---- laws ------------------------------------------------------------------------------------------------

VALUES = {
    "id": st.none() | st.integers(-5, 5) | st.sampled_from(["7", "x", 1.5, True]),
    "name": st.none() | st.text(max_size=3) | st.sampled_from([1, 0, 1.5, False, {"a": 1.0}]),
    "w": st.none() | st.floats(-9, 9) | st.integers(-9, 9) | st.sampled_from(["1.5", "?"]),
}
ROWS = st.fixed_dictionaries({}, optional=VALUES)
PLAIN = st.fixed_dictionaries(
    {}, optional={"id": st.integers(), "name": st.text(max_size=3), "w": st.floats(-9, 9)}
)


def envelopes(name: str, row) -> st.SearchStrategy[dict]:
    maybe = row | st.none()
    if name in ("debezium-json", "ogg-json"):
        words = "crudx" if name == "debezium-json" else "IUDT"
        word = "op" if name == "debezium-json" else "op_type"
        parts = {word: st.sampled_from(words), "before": maybe, "after": maybe}
        source = st.fixed_dictionaries(
            {"table": st.sampled_from(["t", 1, None]), "ts_ms": st.integers(0, 9)}
        )
        more = {
            "source": source | st.none(),
            "ts_ms": st.integers(0, 9),
            "table": st.text(max_size=2),
        }
    else:
        words = ["insert", "update", "delete", "create", "alter"]
        if name == "canal-json":
            words = [w.upper() for w in words]
            maybe = st.none() | st.lists(row, max_size=3)
        parts = {"type": st.sampled_from(words), "data": maybe, "old": maybe}
        more = {"table": st.sampled_from(["t", 5]), "ts": st.integers(0, 9) | st.just("3")}
    return st.fixed_dictionaries(parts, optional=more)


METADATA = {
    "debezium-json": ("ingestion-timestamp", "source.table", "source.timestamp"),
    "canal-json": ("table", "ingestion-timestamp"),
    "maxwell-json": ("table", "ingestion-timestamp"),
    "ogg-json": ("table",),
}


def _refuse(values, chunk):
    raise Unsure


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_fast_way_is_the_exact_way(name, data):
    """Each record alone, read value by value from the text, gives what the whole batch gives."""
    row = data.draw(st.sampled_from([ROWS, PLAIN]))
    found = data.draw(st.lists(envelopes(name, row), max_size=5))
    options = {"ignore-parse-errors": data.draw(st.booleans())}
    documents = [stdlib_json.dumps(d) for d in found]
    fields = [*TABLE, *told(name, METADATA[name])]
    module = format_module(name)
    fast = module.decoder(TABLE, options, None, METADATA[name])
    together = fast.decode(pa.array([d.encode() for d in documents], pa.binary()))
    exact = module.decoder(TABLE, options, None, METADATA[name])
    exact._reader = None
    exact._columns = [replace(c, fast=_refuse, typed=None) for c in exact._columns]
    alone = [exact.decode(pa.array([d.encode()], pa.binary())) for d in documents]
    assert rows(together, fields) == [r for one in alone for r in rows(one, fields)]
    assert [(b.field, b.reason) for b in together.bad] == [
        (b.field, b.reason) for one in alone for b in one.bad
    ]


def test_a_batch_that_the_fast_way_gives_up_is_read_from_its_beginning():
    """An update without its row before, after which every place of a row was off by those of the first try."""
    found = [
        {"op_type": "U", "before": None, "after": {}},
        {"op_type": "I", "before": {}, "after": {}},
        {"op_type": "U", "before": {"id": 0}, "after": {"id": 2**31}},
    ]
    decoder = format_module("ogg-json").decoder(TABLE, {}, None, ())
    batch = pa.array([stdlib_json.dumps(d).encode() for d in found], pa.binary())
    assert [(b.index, b.field) for b in decoder.decode(batch).bad] == [(0, "before"), (2, "id")]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None)
@given(
    rows_=st.lists(
        st.tuples(
            st.none() | st.integers(-(2**31), 2**31 - 1),
            st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
            st.none() | st.floats(allow_nan=False),
            st.sampled_from(RowKind),
        ),
        max_size=6,
    ),
    ignores_nulls=st.booleans(),
)
def test_what_is_written_can_be_read(name, rows_, ignores_nulls):
    columns = [
        pa.array([r[i] for r in rows_], type_)
        for i, type_ in enumerate((pa.int32(), pa.string(), pa.float64()))
    ]
    kinds = pa.array([int(r[3]) for r in rows_], pa.int8())
    options = {"encode.ignore-null-fields": ignores_nulls}
    encoded = format_module(name).encoder(TABLE, options).encode(columns, kinds)
    decoded = decode(name, encoded.to_pylist())
    assert not decoded.bad
    assert [c.to_pylist() for c in decoded.columns] == [c.to_pylist() for c in columns]
    written = {0: 0, 1: 3, 2: 0, 3: 3}
    assert decoded.kinds.to_pylist() == [written[k] for k in kinds.to_pylist()]


# ---- what is written -------------------------------------------------------------------------------------

WRITTEN = {
    "debezium-json": [
        '{"before":null,"after":<row>,"op":"c"}',
        '{"before":<row>,"after":null,"op":"d"}',
    ],
    "canal-json": ['{"data":[<row>],"type":"INSERT"}', '{"data":[<row>],"type":"DELETE"}'],
    "maxwell-json": ['{"data":<row>,"type":"insert"}', '{"data":<row>,"type":"delete"}'],
    "ogg-json": [
        '{"before":null,"after":<row>,"op_type":"I"}',
        '{"before":<row>,"after":null,"op_type":"D"}',
    ],
}


@pytest.mark.parametrize("name", NAMES)
def test_changes_are_inserts_and_deletes(name):
    columns = [
        pa.array([1] * 4, pa.int32()),
        pa.array(["a"] * 4),
        pa.array([None] * 4, pa.float64()),
    ]
    encoder = format_module(name).encoder(TABLE, {})
    there, gone = (
        text.replace("<row>", '{"id":1,"name":"a","w":null}').encode() for text in WRITTEN[name]
    )
    kinds = pa.array([0, 1, 2, 3], pa.int8())
    assert encoder.encode(columns, kinds).to_pylist() == [there, gone, there, gone]
    assert encoder.encode(columns).to_pylist() == [there] * 4


def test_null_key_of_a_map_is_an_error_with_the_way_out():
    fields = (t.Field("m", type_of("MAP<STRING, INT>")),)
    entries = pa.array(
        [[{"key": None, "value": 1}]],
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.int32())])),
    )
    with pytest.raises(JobError, match="null keys") as raised:
        format_module("debezium-json").encoder(fields, {}).encode(
            [entries], pa.array([0], pa.int8())
        )
    assert "map-null-key.mode" in raised.value.diagnostics[0].hint
    dropping = format_module("canal-json").encoder(fields, {"map-null-key.mode": "DROP"})
    assert dropping.encode([entries]).to_pylist() == [b'{"data":[{"m":{}}],"type":"INSERT"}']

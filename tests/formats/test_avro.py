from __future__ import annotations

import io
import math
import pickle
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest
from avro_types import batches
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from json_cases import cases, show, type_of

from harness.arrow import same
from tidemill import types as t
from tidemill.errors import JobError
from tidemill.formats import BadRecord, avro, avro_exact
from tidemill.formats import avro_schema as schemas
from tidemill.formats.arrow import arrow_type

AB = (t.Field("a", t.INT), t.Field("b", t.STRING))
PROPERTY = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])


def columns_of(fields, rows) -> list[pa.Array]:
    values = zip(*rows, strict=True) if rows else [[] for _ in fields]
    return [pa.array(list(v), arrow_type(f.type)) for f, v in zip(fields, values, strict=True)]


def decode(fields, records, options=None, wanted=None):
    return avro.decoder(fields, options or {}, wanted).decode(pa.array(records, pa.binary()))


def encode(fields, rows, options=None) -> list[bytes]:
    return avro.encoder(fields, options or {}).encode(columns_of(fields, rows)).to_pylist()


# ---- one value of one type, both ways --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "line"),
    [pytest.param(o, line, id=f"{n}: {line}") for n, o, line in cases("avro.txt")],
)
def test_value(options, line):
    type_text, wire, expected = (part.strip() for part in line.split(" | "))
    fields = (t.Field("f", type_of(type_text)),)
    one_way = wire.startswith("<")
    record = wire.lstrip("<").strip()
    record = record.encode() if options.get("encoding") == "json" else bytes.fromhex(record)
    decoded = decode(fields, [record], options)
    if expected.startswith("error"):
        [bad] = decoded.bad
        head, reason = expected.split(": ", 1)
        assert reason in bad.reason
        assert bad.field == (head.removeprefix("error at ") if " at " in head else None)
        return
    assert not decoded.bad
    assert show(decoded.columns[0], fields[0].type) == [expected]
    if not one_way:
        assert avro.encoder(fields, options).encode(decoded.columns).to_pylist() == [record]


# ---- the fast way, the exact way, and fastavro -----------------------------------------------------------


def read_exactly(fields, records) -> tuple[list[pa.Array], list[BadRecord]]:
    schema = avro.table_schema(fields, {})
    read = avro_exact.reader(schemas.resolve(schema, schema))
    converters = [avro_exact.converter(f.type) for f in fields]
    rows, bad = [], []
    for i, record in enumerate(records):
        try:
            row = avro_exact.read_record(read, record)
            values = []
            for f, convert, value in zip(fields, converters, row, strict=True):
                try:
                    values.append(None if value is None else convert(value))
                except avro_exact.Malformed as malformed:
                    raise malformed.inside(f.name) from None
            rows.append(values)
        except avro_exact.Malformed as malformed:
            bad.append(BadRecord(i, malformed.path or None, malformed.reason))
    return columns_of(fields, rows), bad


@PROPERTY
@given(batches())
def test_what_is_written_is_read_again(batch):
    fields, rows = batch
    columns = columns_of(fields, rows)
    records = avro.encoder(fields, {}).encode(columns)
    decoded = avro.decoder(fields, {}).decode(records)
    assert not decoded.bad
    for found, given_ in zip(decoded.columns, columns, strict=True):
        found.validate(full=True)
        assert same(found, given_)


@PROPERTY
@given(batches())
def test_fast_way_equals_exact_way(batch):
    fields, rows = batch
    records = encode(fields, rows)
    exact, bad = read_exactly(fields, records)
    assert not bad
    for found, expected in zip(decode(fields, records).columns, exact, strict=True):
        assert same(found, expected)


@PROPERTY
@given(batches(), st.data())
def test_broken_records_are_read_alike_too(batch, data):
    fields, rows = batch
    records = encode(fields, rows)
    broken = []
    for record in records:
        change = data.draw(st.sampled_from(["keep", "cut", "add", "flip", "other"]))
        at = data.draw(st.integers(0, max(len(record) - 1, 0)))
        match change:
            case "cut":
                record = record[:at]
            case "add":
                record += data.draw(st.binary(min_size=1, max_size=12))
            case "flip" if record:
                record = (
                    record[:at] + data.draw(st.binary(min_size=1, max_size=3)) + record[at + 1 :]
                )
            case "other":
                record = data.draw(st.binary(max_size=24))
        broken.append(record)
    exact, bad = read_exactly(fields, broken)
    decoded = decode(fields, broken)
    assert decoded.bad == bad
    for found, expected in zip(decoded.columns, exact, strict=True):
        found.validate(full=True)
        assert same(found, expected)
    good = [i for i in range(len(broken)) if i not in {b.index for b in bad}]
    found = range(len(broken)) if decoded.records is None else decoded.records.to_pylist()
    assert list(found) == good


@PROPERTY
@given(batches())
def test_fastavro_reads_what_is_written(batch):
    fields, rows = batch
    schema = schemas.schema_of(fields, legacy=True)
    plain = fastavro.parse_schema(_without_logical_types(schema))
    read = avro_exact.reader(
        schemas.resolve(avro.table_schema(fields, {}), avro.table_schema(fields, {}))
    )
    for record in encode(fields, rows):
        stream = io.BytesIO(record)
        found = fastavro.schemaless_reader(stream, plain, None)
        assert not stream.read()
        assert repr(_listed(found)) == repr(_listed(avro_exact.read_record(read, record), fields))
        again = io.BytesIO()
        fastavro.schemaless_writer(again, plain, found)
        assert again.getvalue() == record or not _is_canonical(found)


def _without_logical_types(schema):
    match schema:
        case dict():
            kept = {
                k: v for k, v in schema.items() if k not in ("logicalType", "precision", "scale")
            }
            return {k: _without_logical_types(v) for k, v in kept.items()}
        case list():
            return [_without_logical_types(s) for s in schema]
    return schema


def _listed(found, fields=None):
    """Records as lists, whoever read them."""
    if fields is not None:
        return [_typed(x, f.type) for x, f in zip(found, fields, strict=True)]
    return [_plain(x) for x in found.values()]


def _plain(found):
    match found:
        case dict():
            return {"values": [_plain(x) for x in found.values()], "keys": sorted(map(str, found))}
        case list():
            return [_plain(x) for x in found]
    return found


def _typed(found, type_):
    if found is None:
        return None
    match type_:
        case t.RowType(fields=fields):
            values = [_typed(x, f.type) for x, f in zip(found, fields, strict=True)]
            return {"values": values, "keys": sorted(f.name for f in fields)}
        case t.ArrayType():
            return [_typed(x, type_.element) for x in found]
        case t.MapType():
            values = [_typed(x, type_.value) for x in found.values()]
            return {"values": values, "keys": sorted(map(str, found))}
        case t.MultisetType():
            return {"values": list(found.values()), "keys": sorted(map(str, found))}
    return found


def _is_canonical(found) -> bool:
    """Whether a writer has no choice: of a NaN there are many."""
    match found:
        case dict():
            return all(map(_is_canonical, found.values()))
        case list():
            return all(map(_is_canonical, found))
        case float():
            return not math.isnan(found)
    return True


@PROPERTY
@given(batches(), st.data())
def test_pruning_changes_nothing_else(batch, data):
    fields, rows = batch
    records = encode(fields, rows)
    names = [f.name for f in fields]
    wanted = data.draw(st.permutations(names)).copy()[: data.draw(st.integers(0, len(names)))]
    everything = dict(zip(names, decode(fields, records).columns, strict=True))
    some = decode(fields, records, wanted=wanted)
    assert not some.bad
    assert len(some.columns) == len(wanted)
    for name, found in zip(wanted, some.columns, strict=True):
        assert same(found, everything[name])


@PROPERTY
@given(batches())
def test_json_is_read_again(batch):
    fields, rows = batch
    documents = encode(fields, rows, {"encoding": "json"})
    decoded = decode(fields, documents, {"encoding": "json"})
    assert not decoded.bad
    for found, given_ in zip(decoded.columns, columns_of(fields, rows), strict=True):
        assert same(found, given_)


# ---- batches ---------------------------------------------------------------------------------------------


def test_many_chunks_with_bad_and_null_records():
    good = encode(AB, [(i, f"text {i}") for i in range(20_000)])
    records: list[bytes | None] = list(good)
    records[5], records[9_000], records[19_999] = None, b"\x02", b"\x04\x00"
    decoded = decode(AB, records)
    kept = [i for i in range(20_000) if i not in (5, 9_000, 19_999)]
    assert decoded.records.to_pylist() == kept
    assert decoded.columns[0].to_pylist() == kept
    assert decoded.columns[1].to_pylist() == [f"text {i}" for i in kept]
    assert decoded.dropped == {avro.NULL_VALUE: 1}
    assert decoded.bad == [
        BadRecord(9_000, "a", "the record ends before its last field"),
        BadRecord(19_999, "a", "Index 2 out of bounds for a union of 2"),
    ]


def test_slices_are_read_and_written_as_they_are():
    records = pa.array(encode(AB, [(i, str(i)) for i in range(10)]), pa.binary()).slice(3, 4)
    decoded = avro.decoder(AB, {}).decode(records)
    assert decoded.columns[0].to_pylist() == [3, 4, 5, 6]
    whole = columns_of(AB, [(i, str(i)) for i in range(10)])
    sliced = avro.encoder(AB, {}).encode([c.slice(3, 4) for c in whole])
    assert sliced.to_pylist() == records.to_pylist()


def test_no_records():
    decoded = decode(AB, [])
    assert [c.to_pylist() for c in decoded.columns] == [[], []]
    assert encode(AB, []) == []


def test_numbers_of_all_sizes_are_read_fast(monkeypatch):
    """A column of hashes must not be read record by record."""
    fields = (t.Field("f", t.BIGINT), t.Field("g", t.ArrayType(element=t.STRING)))
    rows = [(sign * 2**n, ["x"] * (n % 3)) for n in range(63) for sign in (1, -1)]
    records = encode(fields, rows)
    monkeypatch.setattr(avro_exact, "read_record", None)
    assert decode(fields, records).columns[0].to_pylist() == [value for value, _ in rows]


def test_decoder_and_encoder_survive_pickling():
    decoder = pickle.loads(pickle.dumps(avro.decoder(AB, {}, ["b"])))
    encoder = pickle.loads(pickle.dumps(avro.encoder(AB, {})))
    records = encoder.encode(columns_of(AB, [(1, "x")]))
    assert decoder.decode(records).columns[0].to_pylist() == ["x"]


def test_a_null_where_none_may_be_stops_the_job():
    fields = (t.Field("r", t.RowType(fields=(t.Field("x", t.INT.not_null),))),)
    column = pa.array([{"x": None}], pa.struct([pa.field("x", pa.int32())]))
    with pytest.raises(JobError, match="field 'r.x' is NOT NULL") as raised:
        avro.encoder(fields, {}).encode([column])
    assert raised.value.diagnostics[0].code == "FMT-005"


def test_a_null_key_stops_the_job():
    entries = pa.array(
        [[(None, 1)]], pa.list_(pa.struct([("key", pa.string()), ("value", pa.int32())]))
    )
    fields = (t.Field("m", t.MapType(key=t.STRING, value=t.INT)),)
    with pytest.raises(JobError, match="NULL key") as raised:
        avro.encoder(fields, {}).encode([entries])
    assert raised.value.diagnostics[0].code == "FMT-004"


# ---- schemas ---------------------------------------------------------------------------------------------


def test_schema_of_a_table_is_flinks():
    row = t.RowType(fields=(t.Field("x", t.INT.not_null), t.Field("y", t.STRING)))
    fields = (
        t.Field("id", t.BIGINT.not_null),
        t.Field("price", t.DecimalType(precision=10, scale=2)),
        t.Field("at", t.TimestampType(precision=3)),
        t.Field("place", row),
        t.Field("tags", t.ArrayType(element=t.STRING.not_null)),
    )
    text = schemas.text_of(schemas.schema_of(fields, legacy=True))
    assert text == (Path(__file__).parent / "data" / "avro_schema.json").read_text().strip()


@PROPERTY
@given(batches())
def test_a_tables_schema_says_the_tables_types(batch):
    fields, _ = batch
    types = schemas.type_of(avro.table_schema(fields, {}))
    rebuilt = avro.table_schema(types.fields, {})
    assert schemas.type_of(rebuilt) == types


def test_a_broken_schema_is_told():
    for text in ('{"type":', '{"type":"record"}', '"point"', "7"):
        with pytest.raises(schemas.BadSchema):
            schemas.parse(text)

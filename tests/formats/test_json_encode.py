from __future__ import annotations

import pickle
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from json_cases import cases, column_of, type_of, value_of

from tidemill import types as t
from tidemill.errors import JobError, ScriptError
from tidemill.formats import json
from tidemill.formats.arrow import arrow_type


def encode(fields, columns, options=None) -> list[str]:
    encoded = json.encoder(fields, options or {}).encode(columns)
    assert encoded.type == pa.binary()
    return [value.decode() for value in encoded.to_pylist()]


@pytest.mark.parametrize(
    ("options", "line"),
    [pytest.param(o, line, id=f"{n}: {line}") for n, o, line in cases("json_encode.txt")],
)
def test_value(options, line):
    type_text, rest = line.split(" | ", 1)
    value_text, expected = rest.rsplit(" | ", 1)
    type_ = type_of(type_text)
    value = value_of(value_text)
    column = column_of([None, value, None, value, None], type_)
    fields = [t.Field("f", type_)]
    whole = f'{{"f":{expected}}}'
    nothing = "{}" if options.get("encode.ignore-null-fields") else '{"f":null}'
    assert encode(fields, [column], options) == [nothing, whole, nothing, whole, nothing]
    assert encode(fields, [column.slice(3)], options) == [whole, nothing]
    assert encode(fields, [column.slice(1, 1)], options) == [whole]


def test_fields_come_in_the_order_of_the_schema():
    fields = [t.Field("b", t.INT), t.Field('a"q', t.STRING), t.Field("é", t.BOOLEAN)]
    columns = [pa.array([1, None], pa.int32()), pa.array(["x", "y"]), pa.array([None, False])]
    assert encode(fields, columns) == [
        '{"b":1,"a\\"q":"x","é":null}',
        '{"b":null,"a\\"q":"y","é":false}',
    ]


def test_null_fields_are_left_out_only_where_they_are_fields():
    fields = [
        t.Field("ops", t.STRING),
        t.Field("ids", type_of("ARRAY<INT>")),
        t.Field("metrics", type_of("MAP<STRING, DOUBLE>")),
    ]
    columns = [
        pa.array([None, "a"], pa.string()),
        column_of([None, [1, 2, None]], fields[1].type),
        column_of([[("k1", 10.01), ("k2", None)], None], fields[2].type),
    ]
    assert encode(fields, columns, {"encode.ignore-null-fields": True}) == [
        '{"metrics":{"k1":10.01,"k2":null}}',
        '{"ops":"a","ids":[1,2,null]}',
    ]


def map_with_null_keys() -> pa.Array:
    entry = pa.struct([("key", pa.string()), ("value", pa.int32())])
    maps = [[("a", 1), (None, 2)], None, [(None, 3)], [("b", 4)]]
    return pa.array(maps, pa.list_(entry))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"map-null-key.mode": "LITERAL", "map-null-key.literal": "nullKey"},
            ['{"a":1,"nullKey":2}', "null", '{"nullKey":3}', '{"b":4}'],
        ),
        ({"map-null-key.mode": "literal"}, ['{"a":1,"null":2}', "null", '{"null":3}', '{"b":4}']),
        ({"map-null-key.mode": "DROP"}, ['{"a":1}', "null", "{}", '{"b":4}']),
    ],
)
def test_null_keys_of_maps(options, expected):
    fields = [t.Field("m", type_of("MAP<STRING, INT>"))]
    wrapped = [f'{{"m":{text}}}' for text in expected]
    assert encode(fields, [map_with_null_keys()], options) == wrapped
    assert encode(fields, [map_with_null_keys().slice(2)], options) == wrapped[2:]


def test_null_key_is_an_error_that_names_the_option():
    fields = [t.Field("m", type_of("MAP<STRING, INT>"))]
    with pytest.raises(JobError, match="null keys") as raised:
        encode(fields, [map_with_null_keys()])
    [diagnostic] = raised.value.diagnostics
    assert diagnostic.code == "FMT-003"
    assert "map-null-key.mode" in (diagnostic.hint or "")
    # A map without such keys is not in the way.
    assert encode(fields, [map_with_null_keys().slice(3)]) == ['{"m":{"b":4}}']


def test_map_keys_must_be_strings():
    with pytest.raises(ScriptError, match="non-string as key type of map"):
        json.encoder([t.Field("m", type_of("MAP<INT, INT>"))], {})


def test_local_timestamps_are_written_in_utc_whatever_zone_the_column_names():
    fields = [t.Field("ts", t.TimestampLtzType(precision=3))]
    column = pa.array([0], pa.timestamp("us", tz="Asia/Shanghai"))
    assert encode(fields, [column]) == ['{"ts":"1970-01-01 00:00:00Z"}']


def test_no_rows():
    fields = [t.Field("a", t.INT), t.Field("b", t.DOUBLE), t.Field("c", type_of("ARRAY<STRING>"))]
    assert encode(fields, [column_of([], f.type) for f in fields]) == []


def test_encoder_survives_pickling():
    again = pickle.loads(pickle.dumps(json.encoder([t.Field("a", t.INT)], {})))
    assert again.encode([pa.array([1], pa.int32())]).to_pylist() == [b'{"a":1}']


# ---- there and back --------------------------------------------------------------------------------------

_MICROS = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)


def values_of(type_: t.SqlType) -> st.SearchStrategy[object]:
    match type_:
        case t.BooleanType():
            some = st.booleans()
        case t.TinyIntType():
            some = st.integers(-128, 127)
        case t.SmallIntType():
            some = st.integers(-(2**15), 2**15 - 1)
        case t.IntType():
            some = st.integers(-(2**31), 2**31 - 1)
        case t.BigIntType():
            some = st.integers(-(2**63), 2**63 - 1)
        case t.FloatType():
            some = st.floats(width=32)
        case t.DoubleType():
            some = st.floats()
        case t.VarCharType():
            some = st.text(max_size=8)
        case t.VarBinaryType():
            some = st.binary(max_size=8)
        case t.DecimalType():
            top = 10**type_.precision - 1
            some = st.integers(-top, top).map(lambda v: Decimal((v < 0, digits(v), -type_.scale)))
        case t.DateType():
            some = st.integers(-800_000, 3_000_000)
        case t.TimeType():
            # A fraction of a second would be written but not read, as with Flink.
            some = st.integers(0, 86_399).map(lambda v: v * 1_000_000_000)
        case t.TimestampType() | t.TimestampLtzType():
            seconds = st.integers(-(10**12), 10**12).map(lambda v: v * 1_000_000)
            unit = 1000 if type_.precision <= 3 else 1
            some = st.one_of(_MICROS.map(lambda v: v // unit * unit), seconds)
        case t.ArrayType():
            some = st.lists(values_of(type_.element), max_size=3)
        case t.MapType():
            some = st.dictionaries(st.text(max_size=4), values_of(type_.value), max_size=3).map(
                lambda d: list(d.items())
            )
        case t.RowType():
            some = st.fixed_dictionaries({f.name: values_of(f.type) for f in type_.fields})
        case _:
            raise TypeError(type_)
    return st.one_of(some, some, some, st.none())


def digits(value: int) -> tuple[int, ...]:
    return tuple(map(int, str(abs(value))))


_LEAVES = st.one_of(
    st.sampled_from(
        ["BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "BYTES"]
        + ["DATE", "TIME(3)", "TIMESTAMP(6)", "TIMESTAMP_LTZ(6)"]
    ).map(type_of),
    st.integers(1, 38).flatmap(
        lambda p: st.integers(0, p).map(lambda s: t.DecimalType(precision=p, scale=s))
    ),
)
_TYPES = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        inner.map(lambda e: t.ArrayType(element=e)),
        inner.map(lambda v: t.MapType(key=t.STRING, value=v)),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda ts: t.RowType(
                fields=tuple(t.Field(f"f{i}", type_) for i, type_ in enumerate(ts))
            )
        ),
    ),
    max_leaves=4,
)


@st.composite
def _tables(draw):
    types = draw(st.lists(_TYPES, min_size=1, max_size=3))
    count = draw(st.integers(1, 5))
    rows = st.lists(st.tuples(*map(values_of, types)), min_size=count, max_size=count)
    columns = [
        pa.array(values, arrow_type(type_))
        for values, type_ in zip(zip(*draw(rows), strict=True), types, strict=True)
    ]
    return [t.Field(f"c{i}", type_) for i, type_ in enumerate(types)], columns


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    _tables(),
    st.sampled_from(["SQL", "ISO-8601"]),
    st.booleans(),
    st.booleans(),
)
def test_what_is_written_is_read_back(table, standard, plain, ignore_nulls):
    fields, columns = table
    options = {
        "timestamp-format.standard": standard,
        "encode.decimal-as-plain-number": plain,
        "encode.ignore-null-fields": ignore_nulls,
    }
    written = json.encoder(fields, options).encode(columns)
    read = json.decoder(fields, options).decode(written)
    assert not read.bad
    assert not read.dropped
    assert read.records is None
    for before, after in zip(columns, read.columns, strict=True):
        # The text compares NaN with NaN.
        assert after.equals(before) or str(after) == str(before)

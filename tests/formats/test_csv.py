from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from json_cases import cases, check_rows, column_of, rows, show, type_of, value_of

from harness.arrow import same
from tidemill import types as t
from tidemill.errors import ScriptError
from tidemill.formats import BadRecord, Decoded, csv, csv_exact
from tidemill.formats.arrow import arrow_type
from tidemill.formats.json_exact import Mismatch

ABC = (t.Field("a", t.INT), t.Field("b", t.STRING), t.Field("c", t.STRING))


def unescaped(text: str) -> str:
    return text.replace("␊", "\n").replace("␍", "\r").replace("␉", "\t")


def decode(fields, lines, options=None, wanted=None) -> Decoded:
    values = pa.array([d.encode() if isinstance(d, str) else d for d in lines], pa.binary())
    return csv.decoder(fields, options or {}, wanted).decode(values)


# ---- one value into one type -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "line"),
    [pytest.param(o, line, id=f"{n}: {line}") for n, o, line in cases("csv_decode.txt")],
)
def test_value(options, line):
    type_text, rest = line.split(" | ", 1)
    value, expected = rest.rsplit(" | ", 1)
    type_ = type_of(type_text)
    fields = [t.Field("f", type_), t.Field("g", t.STRING)]
    record = unescaped(value) + ",end"
    check_value(type_, decode(fields, [record], options), 0, expected)
    # The same between other records: what one needs changes nothing for its neighbours.
    around = [None, "1,x,y,z", record, '"q', "1,x,y,z"]
    check_value(type_, decode(fields, around, {**options}), 2, expected, but=(1, 3, 4))


def check_value(type_: t.SqlType, decoded: Decoded, record: int, expected: str, but=()) -> None:
    bad = [b for b in decoded.bad if b.index not in but]
    if expected.startswith("error"):
        head, reason = expected.split(": ", 1)
        [found] = bad
        assert reason in found.reason
        assert found.index == record
        assert found.field is not None
        assert head == "error" or found.field == head.removeprefix("error at ")
    else:
        assert not bad
        records = [0] if decoded.records is None else decoded.records.to_pylist()
        row = records.index(record)
        assert show(decoded.columns[0], type_)[row] == expected
        assert decoded.columns[1][row].as_py() == "end"
        assert decoded.columns[0].type == arrow_type(type_)


@pytest.mark.parametrize(
    ("options", "line"),
    [pytest.param(o, line, id=f"{n}: {line}") for n, o, line in cases("csv_lines.txt")],
)
def test_record(options, line):
    record, expected = line.split(" =>")
    expected = expected.strip()
    delimiter = options.get("field-delimiter", ",")
    other = delimiter.join(["7", "next", "one"])
    decoded = decode(ABC, [unescaped(record), other], options)
    *found, following = rows(decoded, ABC)
    assert following == '(7, "next", "one")'
    check_rows(found, decoded, expected)


# ---- bytes that no text file holds -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (b"\xef\xbb\xbf1,x,y", '(1, "x", "y")'),
        ("1,é,y".encode("utf-16"), '(1, "é", "y")'),
        ("1,é,y".encode("utf-16-le"), '(1, "é", "y")'),
        ("1,é,y".encode("utf-32"), '(1, "é", "y")'),
        (b"1,x,y\n\xff", None),
        (b"1,x,y\n2\xff", '(1, "x", "y")'),
        (b"1,x\0,y", '(1, "x\\u0000", "y")'),
        (b"1,\xc3,y", None),
        (b"1,x,y\xff", None),
        (b'1,"\xed\xa0\x80",y', None),
    ],
)
def test_encodings(record, expected):
    decoded = decode(ABC, ["0,a,b", record])
    if expected is None:
        [bad] = decoded.bad
        assert (bad.index, bad.field) == (1, None)
        assert "not text: invalid utf-8" in bad.reason
    else:
        assert rows(decoded, ABC)[1:] == [expected]


def test_null_values_give_no_row():
    decoded = decode(ABC, ["1,x,y", None, "2,x,y", None])
    assert decoded.columns[0].to_pylist() == [1, 2]
    assert decoded.records.to_pylist() == [0, 2]
    assert decoded.records.type == pa.int32()
    assert decoded.dropped == {"null value": 2}


def test_bad_records_come_in_order_with_their_first_bad_field():
    fields = [t.Field("a", t.INT), t.Field("b", t.INT)]
    decoded = decode(fields, ["x,y", "1,2", "1", "1,z"], wanted=["b", "a"])
    assert [(b.index, b.field) for b in decoded.bad] == [(0, "a"), (2, None), (3, "b")]
    assert [c.to_pylist() for c in decoded.columns] == [[2], [1]]
    assert decoded.records.to_pylist() == [1]


def test_an_unwanted_value_is_not_looked_at():
    decoded = decode(ABC, ["x,b,c", "y,d,e"], wanted=["c", "b"])
    assert [c.to_pylist() for c in decoded.columns] == [["c", "e"], ["b", "d"]]
    assert decoded.records is None


def test_no_columns_and_no_records():
    assert decode(ABC, ["1,2,3"], wanted=[]).columns == []
    decoded = decode(ABC, [])
    assert [len(c) for c in decoded.columns] == [0, 0, 0]
    assert decoded.records is None


def test_many_records_keep_their_places():
    lines = [f"{i},b,c" for i in range(70_000)]
    assert decode(ABC, lines).columns[0].to_pylist() == list(range(70_000))
    lines[40_000], lines[69_999] = "oops,b,c", '1,"b,c'
    decoded = decode(ABC, lines)
    assert [(b.index, b.field) for b in decoded.bad] == [(40_000, "a"), (69_999, None)]
    assert decoded.records.to_pylist() == [i for i in range(69_999) if i != 40_000]


def test_a_slice_is_read_like_a_copy():
    values = pa.array([b"0,x,y", b"1,x,y", b"2,x", b'3,"a b",y'], pa.binary())
    decoded = csv.decoder(ABC, {"ignore-parse-errors": True}).decode(values.slice(1))
    assert decoded.columns[0].to_pylist() == [1, 2, 3]


def test_decoders_and_encoders_travel():
    decoder = pickle.loads(pickle.dumps(csv.decoder(ABC, {"field-delimiter": "|"}, ["b"])))
    assert decoder.decode(pa.array([b"1|x|y"], pa.binary())).columns[0].to_pylist() == ["x"]
    encoder = pickle.loads(pickle.dumps(csv.encoder(ABC[:1], {"null-literal": "-"})))
    assert encoder.encode([pa.array([1, None], pa.int32())]).to_pylist() == [b"1", b"-"]


@pytest.mark.parametrize("type_", ["MAP<STRING, INT>", "ARRAY<ARRAY<INT>>"])
def test_types_that_csv_cannot_carry(type_):
    for make in (csv.decoder, csv.encoder):
        with pytest.raises(ScriptError, match="csv format has no representation"):
            make([t.Field("f", type_of(type_))], {})


# ---- encode ----------------------------------------------------------------------------------------------


def encode(fields, columns, options=None) -> list[str]:
    encoded = csv.encoder(fields, options or {}).encode(columns)
    assert encoded.type == pa.binary()
    return [value.decode() for value in encoded.to_pylist()]


@pytest.mark.parametrize(
    ("options", "line"),
    [pytest.param(o, line, id=f"{n}: {line}") for n, o, line in cases("csv_encode.txt")],
)
def test_written_value(options, line):
    type_text, rest = line.split(" | ", 1)
    value_text, expected = rest.rsplit(" | ", 1)
    expected = unescaped(expected)
    type_ = type_of(type_text)
    value = value_of(value_text)
    column = column_of([None, value, None, value, None], type_)
    fields = [t.Field("f", type_)]
    nothing = str(options.get("null-literal", ""))
    assert encode(fields, [column], options) == [nothing, expected, nothing, expected, nothing]
    assert encode(fields, [column.slice(3)], options) == [expected, nothing]
    both = options.get("field-delimiter", ",").join([expected, expected])
    assert encode(fields * 2, [column.slice(1, 1)] * 2, options) == [both]


# ---- the fast way and the exact way ----------------------------------------------------------------------

TYPES = [
    "STRING",
    "BOOLEAN",
    "TINYINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(5, 2)",
    "DATE",
    "TIME(3)",
    "TIMESTAMP(3)",
    "TIMESTAMP_LTZ(6)",
    "BYTES",
    "ARRAY<INT>",
    "ARRAY<STRING>",
    "ROW<x INT, y STRING>",
]
_PIECES = st.sampled_from(
    [
        *",;|\"'#\\ \t\n\r\0x-+.:Ze",
        *("1", "12", "1.5", "0x1f", "1e3", "true", "null", "a", "é", "😀", "\ufeff", ""),
        *("2020-01-02", "12:13:14", "2020-01-02 03:04:05.6789", "2020-1-2", "awML", "NaN", "inf"),
    ]
)
_TEXTS = st.lists(_PIECES, max_size=4).map("".join)
_PLAIN = st.sampled_from(
    ["1", "12", " 7", "1.25", "true", "null", "", "a b", '"a b"', '"a,""b"', "1;2", "2020-01-02"]
    + ["12:13:14.123456", '"2020-01-02 03:04:05.678"', '"2020-01-02 03:04:05.6789Z"', "awML"]
)
_OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "ignore-parse-errors": st.booleans(),
        "null-literal": st.sampled_from(["null", "", "a"]),
        "escape-character": st.sampled_from(["\\", "'"]),
        "quote-character": st.sampled_from(['"', "'", "é"]),
        "field-delimiter": st.sampled_from([",", "|", "\t", " ", "é"]),
        "array-element-delimiter": st.sampled_from([";", "|", " "]),
        "allow-comments": st.booleans(),
        "trim-spaces": st.booleans(),
        "disable-quote-character": st.booleans(),
        "empty-string-as-null": st.booleans(),
        "ignore-trailing-unmappable": st.booleans(),
        "allow-trailing-comma": st.booleans(),
        "fail-on-missing-columns": st.booleans(),
    },
)


@st.composite
def _batches(draw):
    types = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=4))
    fields = [t.Field(f"f{i}", type_of(text)) for i, text in enumerate(types)]
    options = draw(st.one_of(st.just({}), _OPTIONS))
    delimiter = options.get("field-delimiter", ",")
    value = draw(st.sampled_from([_PLAIN, _PLAIN, _TEXTS]))
    counts = draw(st.sampled_from([st.just(len(fields)), st.integers(0, len(fields) + 2)]))
    line = counts.flatmap(lambda n: st.lists(value, min_size=n, max_size=n)).map(delimiter.join)
    noise = st.one_of(line.map(str.encode), line.map(str.encode), st.none(), st.binary(max_size=6))
    lines = draw(st.lists(draw(st.sampled_from([line.map(str.encode), noise])), max_size=6))
    return fields, lines, options


def decode_exactly(fields, lines, options, wanted):
    """By `csv_exact` alone."""
    merged = {**csv.DEFAULTS, **options}
    dialect, ignore = csv._dialect(merged), bool(merged["ignore-parse-errors"])
    converters = [csv_exact.converter(f.type, dialect, ignore) for f in fields]
    columns = {f.name: [] for f in fields}
    records, bad = [], []
    for record, line in enumerate(lines):
        if line is None:
            continue
        try:
            texts = csv_exact.fields(line, dialect, len(fields))
            short = len(texts) < len(fields)
            if short and (not ignore or merged["fail-on-missing-columns"]):
                raise csv_exact.Unreadable("short")
        except csv_exact.Unreadable:
            if not ignore:
                bad.append((record, None))
            continue
        row, wrong = {}, None
        texts += [None] * (len(fields) - len(texts))
        for f, text, convert in zip(fields, texts, converters, strict=True):
            row[f.name] = None
            scalar = not isinstance(f.type, (t.ArrayType, t.RowType))
            if f.name not in wanted or text is None or (scalar and dialect.is_null(text)):
                continue
            try:
                row[f.name] = convert(text)
            except Mismatch as mismatch:
                if not ignore:
                    wrong = wrong or mismatch.inside(f.name).path
        if wrong:
            bad.append((record, wrong))
        else:
            records.append(record)
            for name, value_ in row.items():
                columns[name].append(value_)
    at = {f.name: f.type for f in fields}
    return [pa.array(columns[n], arrow_type(at[n])) for n in wanted], records, bad


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(_batches(), st.data())
def test_fast_way_equals_exact_way(batch, data):
    fields, lines, options = batch
    names = [f.name for f in fields]
    wanted = data.draw(st.permutations(names).map(lambda p: p[: len(p) - len(p) // 3]))
    decoded = decode(fields, lines, options, wanted)
    arrays, records, bad = decode_exactly(fields, lines, options, wanted)
    assert [(b.index, b.field) for b in decoded.bad] == bad
    found = range(len(lines)) if decoded.records is None else decoded.records.to_pylist()
    assert list(found) == records
    for got, expected in zip(decoded.columns, arrays, strict=True):
        got.validate(full=True)
        assert same(got, expected), (got, expected)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.none() | st.integers(-(2**31), 2**31 - 1),
            st.text(st.characters(codec="utf-8"), max_size=30),
            st.lists(st.text(st.characters(codec="utf-8", exclude_characters="|"), max_size=5)),
        ),
        min_size=1,
    ),
    st.fixed_dictionaries(
        {},
        optional={
            "field-delimiter": st.sampled_from([";", "\t", "é", "，"]),
            "quote-character": st.sampled_from(["'", "é"]),
            "escape-character": st.sampled_from(["\\", "^"]),
        },
    ).filter(lambda o: len(set(o.values())) == len(o)),
)
def test_what_is_written_can_be_read(values, options):
    options = {**options, "null-literal": "~", "array-element-delimiter": "|"}
    fields = [
        t.Field("i", t.INT),
        t.Field("s", t.STRING),
        t.Field("a", t.ArrayType(element=t.STRING)),
    ]
    columns = [
        pa.array(list(column), arrow_type(f.type))
        for column, f in zip(zip(*values, strict=True), fields, strict=True)
    ]
    lines = csv.encoder(fields, options).encode(columns)
    decoded = csv.decoder(fields, options).decode(lines)
    assert not decoded.bad
    for (i, s, a), got in zip(
        values, zip(*(c.to_pylist() for c in decoded.columns), strict=True), strict=True
    ):
        whole = "|".join(a)
        blank = not whole.strip("".join(map(chr, range(33)))) and len(a) < 2
        parts = [] if blank else [None if part == "~" else part for part in a]
        assert got == (i, None if s == "~" else s, parts)


def test_errors_name_the_record():
    assert decode(ABC, ["1,2,3", "x,2,3"]).bad == [
        BadRecord(1, "a", "expected an integer from -2147483648 to 2147483647 but found 'x'")
    ]

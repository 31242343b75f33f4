from __future__ import annotations

import json as stdlib_json
import pickle
import struct
from decimal import ROUND_HALF_UP, Decimal, localcontext

import orjson
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from json_cases import cases, check_rows, rows, show, type_of

from harness.arrow import same
from tidemill import types as t
from tidemill.errors import ScriptError
from tidemill.formats import BadRecord, Decoded, json, json_exact
from tidemill.formats.arrow import arrow_type

AB = (t.Field("a", t.INT), t.Field("b", t.STRING))


def decode(fields, documents, options=None, wanted=None) -> Decoded:
    values = pa.array([d.encode() if isinstance(d, str) else d for d in documents], pa.binary())
    return json.decoder(fields, options or {}, wanted).decode(values)


# ---- one value into one type -----------------------------------------------------------------------------


def check_value(type_: t.SqlType, decoded: Decoded, row: int, expected: str) -> None:
    if expected.startswith("error"):
        head, reason = expected.split(": ", 1)
        [bad] = decoded.bad
        assert reason in bad.reason
        assert bad.index == row
        assert bad.field is not None
        assert head == "error" or bad.field == head.removeprefix("error at ")
    else:
        assert not decoded.bad
        assert show(decoded.columns[0], type_)[row] == expected


@pytest.mark.parametrize(
    ("options", "line"),
    [pytest.param(o, line, id=f"{n}: {line}") for n, o, line in cases("json_decode.txt")],
)
def test_value(options, line):
    type_text, rest = line.split(" | ", 1)
    value, expected = rest.rsplit(" | ", 1)
    type_ = type_of(type_text)
    fields = [t.Field("f", type_)]
    document = f'{{"f":{value}}}'
    check_value(type_, decode(fields, [document], options), 0, expected)
    # The same between other rows: what one record needs changes nothing for its neighbours.
    around = ['{"f":null}', document, '{"f":null}']
    decoded = decode(fields, around, options)
    check_value(type_, decoded, 1, expected)
    if not decoded.bad:
        assert show(decoded.columns[0], type_)[::2] == ["NULL", "NULL"]
        assert decoded.records is None
        assert decoded.columns[0].type == arrow_type(type_)
    else:
        assert decoded.records.to_pylist() == [0, 2]


@pytest.mark.parametrize(
    ("options", "line"),
    [pytest.param(o, line, id=f"{n}: {line}") for n, o, line in cases("json_documents.txt")],
)
def test_document(options, line):
    document, expected = line.split(" =>")
    expected = expected.strip()
    decoded = decode(AB, [document, '{"a":7,"b":"next"}'], options)
    *found, following = rows(decoded, AB)
    assert following == '(7, "next")'
    check_rows(found, decoded, expected)


# ---- bytes that no text file holds -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (b'{"b":"tab\there\x01"}', '(NULL, "tab\\there\\u0001")'),
        (b'{"a":1,"b":"line\nbreak"}', '(1, "line\\nbreak")'),
        (b'\xef\xbb\xbf{"a":1}', "(1, NULL)"),
        ('{"a":1,"b":"é"}'.encode("utf-16-le"), '(1, "é")'),
        ('{"a":1,"b":"é"}'.encode("utf-16"), '(1, "é")'),
        (b'{"a":1}\xff\xfe', "(1, NULL)"),
        (b'{"a":1,"b":"\x7f"}', '(1, "\x7f")'),
        (b'{"b":"\\u0000"}', '(NULL, "\\u0000")'),
    ],
)
def test_readable_bytes(document, expected):
    decoded = decode(AB, [document])
    assert rows(decoded, AB) == [expected]
    assert not decoded.bad


@pytest.mark.parametrize(
    "document", [b'{"b":"\xff"}', b'{"b":"\xc3"}', b'\xff{"a":1}', b'{"a":1,"b":"\xed\xa0\x80"}']
)
def test_invalid_utf8_makes_a_record_bad(document):
    decoded = decode(AB, [document])
    [bad] = decoded.bad
    assert bad.field is None
    assert "invalid utf-8" in bad.reason
    assert decode(AB, [document], {"ignore-parse-errors": True}).dropped == {
        "unreadable document": 1
    }


def test_null_and_empty_values_give_no_row():
    decoded = decode(AB, ['{"a":1}', None, b"", '{"a":2}'])
    assert rows(decoded, AB) == ["(1, NULL)", "(2, NULL)"]
    assert decoded.records.to_pylist() == [0, 3]
    assert decoded.dropped == {"null value": 2}
    assert not decoded.bad


def test_blank_value_is_a_bad_record():
    [bad] = decode(AB, [b"  "]).bad
    assert bad.reason == "not JSON: the document ends too early"


def test_array_documents_tell_the_record_of_each_row():
    decoded = decode(AB, ['{"a":0}', '[{"a":1},{"a":2}]', "[]", "oops", '[{"a":3,"b":1.0}]'])
    assert rows(decoded, AB) == ["(0, NULL)", "(1, NULL)", "(2, NULL)", '(3, "1.0")']
    assert decoded.records.to_pylist() == [0, 1, 1, 4]
    assert decoded.records.type == pa.int32()
    assert [b.index for b in decoded.bad] == [3]


def test_bad_records_come_in_order_with_their_first_bad_field():
    fields = (*AB, t.Field("c", t.DateType()))
    decoded = decode(
        fields,
        ['{"c":"no","a":"x"}', '{"a":1}', "[1", '{"c":"no"}'],
        wanted=["c", "b", "a"],
    )
    assert [(b.index, b.field) for b in decoded.bad] == [(0, "a"), (2, None), (3, "c")]
    assert isinstance(decoded.bad[0], BadRecord)
    assert [c.to_pylist() for c in decoded.columns] == [[None], [None], [1]]


def test_many_chunks():
    n = 3 * json._CHUNK + 17
    documents = [f'{{"a":{i},"b":"{i}"}}' for i in range(n)]
    documents[json._CHUNK + 5] = "{"
    documents[2 * json._CHUNK] = "[]"
    documents[n - 1] = '{"a":1.5,"b":1.50}'
    decoded = decode(AB, documents)
    gone = {json._CHUNK + 5, 2 * json._CHUNK}
    assert decoded.records.to_pylist() == [i for i in range(n) if i not in gone]
    assert decoded.columns[0].to_pylist()[:-1] == [i for i in range(n - 1) if i not in gone]
    assert decoded.columns[1].to_pylist()[-1] == "1.50"
    assert [b.index for b in decoded.bad] == [json._CHUNK + 5]


def test_no_records():
    decoded = decode(AB, [])
    assert [c.type for c in decoded.columns] == [pa.int32(), pa.string()]
    assert [len(c) for c in decoded.columns] == [0, 0]


def test_slices_are_read_as_they_are():
    values = pa.array([b"{", b'{"a":1}', b'{"a":2}', b"{"], pa.binary()).slice(1, 2)
    decoded = json.decoder(AB, {}).decode(values)
    assert rows(decoded, AB) == ["(1, NULL)", "(2, NULL)"]


def test_deep_nesting_is_a_bad_record_not_a_crash():
    document = '{"b":' + "[" * 100_000 + "]" * 100_000 + "}"
    [bad] = decode(AB, [document]).bad
    assert bad.reason == "not JSON: nested too deeply"
    # Between what Python and what orjson can read.
    for depth in range(200, 1030, 30):
        text = "[" * depth + "1.0" + "]" * depth
        decoded = decode(AB, [f'{{"b":{text}}}'])
        if decoded.bad:
            assert depth > 300
            assert "nested too deeply" in decoded.bad[0].reason
        else:
            assert decoded.columns[1].to_pylist() == [text]


# ---- pruning ---------------------------------------------------------------------------------------------


def test_wanted_chooses_and_orders():
    decoded = decode(AB, ['{"a":1,"b":"x"}'], wanted=["b", "a"])
    assert [c.to_pylist() for c in decoded.columns] == [["x"], [1]]


def test_unwanted_malformed_value_is_not_looked_at():
    decoded = decode(AB, ['{"a":"not a number","b":"x"}'], wanted=["b"])
    assert rows(decoded, AB[1:]) == ['("x")']


def test_without_columns_documents_are_still_read():
    decoded = decode(AB, ['{"a":1}', "{", None], wanted=[])
    assert decoded.columns == []
    assert decoded.records.to_pylist() == [0]
    assert [b.index for b in decoded.bad] == [1]


@pytest.mark.parametrize("wanted", [["a"], ["b"], ["a", "b"], []])
def test_missing_fields_are_found_whatever_is_wanted(wanted):
    options = {"fail-on-missing-field": True}
    decoded = decode(AB, ['{"a":1}', '{"a":1,"b":"x"}', "{}"], options, wanted)
    assert [(b.index, b.field) for b in decoded.bad] == [(0, "b"), (2, "a")]


def test_missing_nested_fields_are_found_in_unwanted_columns():
    fields = (t.Field("k", t.INT), t.Field("r", type_of("ARRAY<ROW<m MAP<STRING, ROW<x INT>>>>")))
    documents = ['{"k":1,"r":[{"m":{"y":{"x":1}}}]}', '{"k":2,"r":[{"m":{"y":{}}}]}']
    for wanted in (["k"], ["r"], ["k", "r"]):
        decoded = decode(fields, documents, {"fail-on-missing-field": True}, wanted)
        assert [(b.index, b.field) for b in decoded.bad] == [(1, "r[0].m['y'].x")]


def test_null_row_field_is_not_missing():
    fields = (t.Field("r", type_of("ROW<x INT>")),)
    assert not decode(fields, ['{"r":null}'], {"fail-on-missing-field": True}).bad


# ---- the rest --------------------------------------------------------------------------------------------


def test_flinks_own_example_with_ignored_errors():
    fields = (
        t.Field("svt", type_of("TIMESTAMP(3)")),
        t.Field("ids", type_of("ARRAY<INT>")),
        t.Field("metrics", type_of("MAP<STRING, DOUBLE>")),
    )
    document = '{"svt":"2020-02-24T12:58:09.209+0800","metrics":{"k1":10.01,"k2":"invalid"}}'
    decoded = decode(fields, [document], {"ignore-parse-errors": True})
    assert rows(decoded, fields) == ['(NULL, NULL, {"k1": 10.01, "k2": NULL})']


def test_map_keys_must_be_strings():
    for text in ("MAP<INT, INT>", "MULTISET<INT>", "ROW<a ARRAY<MAP<INT, INT>>>"):
        with pytest.raises(ScriptError, match="non-string as key type of map"):
            json.decoder([t.Field("f", type_of(text))], {})


def test_unsupported_type_is_refused_by_name():
    for type_ in (t.YearMonthIntervalType(), t.ArrayType(element=t.YearMonthIntervalType())):
        for make in (json.decoder, json.encoder):
            with pytest.raises(ScriptError, match="INTERVAL YEAR TO MONTH") as raised:
                make([t.Field("f", type_)], {})
            assert raised.value.diagnostics[0].code == "FMT-002"


def test_decoder_survives_pickling():
    again = pickle.loads(pickle.dumps(json.decoder(AB, {"ignore-parse-errors": True}, ["b"])))
    decoded = again.decode(pa.array([b'{"a":1,"b":"x"}', b"{"]))
    assert decoded.columns[0].to_pylist() == ["x"]
    assert decoded.dropped == {"unreadable document": 1}


@pytest.mark.parametrize(
    ("enabled", "with_decimal", "texts"),
    [
        (True, False, ["1.10", "1E3", '{"x":1.1}']),
        (False, False, ["1.1", "1000.0", '{"x":1.1}']),
        (False, True, ["1.1", "1E+3", '{"x":1.1}']),
    ],
)
def test_older_parser_loses_the_form_of_numbers(enabled, with_decimal, texts):
    """Flink's tree parser, which 'json.decode.json-parser.enabled' = 'false' chooses: a number in it is a double, or a
    BigDecimal if the table has a DECIMAL, which is read exactly either way."""
    money = t.Field("c", t.DecimalType(precision=20, scale=2))
    fields = (*AB, money) if with_decimal else AB
    written = ["1.10", "1E3", '{"x": 1.10}']
    documents = [f'{{"a":7,"b":{b},"c":12345678901234567.89}}' for b in written]
    decoded = decode(fields, documents, {"decode.json-parser.enabled": enabled})
    assert decoded.columns[1].to_pylist() == texts
    if with_decimal:
        assert decoded.columns[2].to_pylist() == [Decimal("12345678901234567.89")] * 3


@pytest.mark.parametrize(
    ("enabled", "with_decimal", "expected"),
    [(True, False, 1.0000001192092896), (False, False, 1.0), (False, True, 1.0000001192092896)],
)
def test_older_parser_rounds_a_float_twice_unless_numbers_are_decimals(
    enabled, with_decimal, expected
):
    fields = [t.Field("f", t.FloatType())]
    fields += [t.Field("c", t.DecimalType(precision=4, scale=2))] if with_decimal else []
    document = '{"f":1.00000005960464477539062500001}'
    decoded = decode(fields, [document], {"decode.json-parser.enabled": enabled})
    assert decoded.columns[0].to_pylist() == [expected]


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 0x7F7FFFFE), st.sampled_from(["", "0001"]), st.sampled_from(["", "-"]))
def test_floats_are_rounded_once(bits, more, sign):
    """Numbers halfway between two floats, and a little beside."""
    low, high = struct.unpack("<2f", struct.pack("<2I", bits, bits + 1))
    half = f"{Decimal((low + high) / 2):f}"
    text = sign + (half if "." in half else f"{half}.0") + more
    fields = [t.Field("f", t.FloatType())]
    alone = [decode(fields, [document]) for document in (f'{{"f":{text}}}', f'{{"f":"{text}"}}')]
    [once] = pa.array([text]).cast(pa.float32()).to_pylist()
    assert [decoded.columns[0].to_pylist() for decoded in alone] == [[once], [once]]


def test_common_documents_are_not_parsed_exactly(monkeypatch):
    """Missing fields, nulls, numbers in DECIMAL and strings with integers stay with orjson."""

    def refuse(document):
        raise AssertionError(document)

    monkeypatch.setattr(json_exact, "parse", refuse)
    fields = (
        *AB,
        t.Field("c", t.DecimalType(precision=10, scale=2)),
        t.Field("d", t.DOUBLE),
        t.Field("t", t.TimestampType(precision=3)),
    )
    decoded = decode(
        fields,
        [
            '{"a":1,"b":"x","c":12.34,"d":1,"t":"2020-01-02 03:04:05.123"}',
            '{"a":null,"c":99999999999}',
            '{"a":112.013,"b":42,"c":7,"d":"60.00","t":"2020-01-02 03:04:05.123456789"}',
        ],
    )
    assert rows(decoded, fields) == [
        '(1, "x", 12.34, 1.0, 2020-01-02 03:04:05.123)',
        "(NULL, NULL, NULL, NULL, NULL)",
        '(112, "42", 7.00, 60.0, 2020-01-02 03:04:05.123)',
    ]


# ---- properties ------------------------------------------------------------------------------------------

SCALARS = [
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "BYTES", "DATE",
    "TIME(3)", "TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", "DECIMAL(10, 2)", "DECIMAL(38, 18)", "DECIMAL(5, 5)",
]  # fmt: skip
TYPES = st.sampled_from(
    [
        *SCALARS,
        "ARRAY<INT>",
        "ARRAY<STRING>",
        "ARRAY<DECIMAL(10, 2)>",
        "MAP<STRING, DOUBLE>",
        "MAP<STRING, STRING>",
        "ROW<x INT, y STRING>",
        "ARRAY<ROW<x BIGINT, y TIMESTAMP(3)>>",
        "ROW<x ROW<y DECIMAL(4, 2)>, z MAP<STRING, ARRAY<INT>>>",
    ]
).map(type_of)

_NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.integers(-300, 300).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.decimals(-(10**9), 10**9, places=3).map(str),
    st.from_regex(r"-?(0|[1-9][0-9]{0,18})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
    st.sampled_from(["-0", "0", "1.10", "1E5", "1e400", "-0.0", "0.005", "99999999.995", "1e-400"]),
)
_STRINGS = st.one_of(
    st.text(max_size=6),
    _NUMBERS,
    st.sampled_from(
        [
            "true", "2020-01-02", "03:04:05.678", "2020-01-02 03:04:05.678", "2020-01-02 03:04:05Z",
            "2020-01-02T03:04:05", "2020-02-30 00:00:00", "2020-01-01 24:00:00", "2020-01-01 00:00",
            "2020-01-01 00:00:00.1234567", "NaN", "nan", "inf", "YQ==", "YQ", "\ud800", "", " 12 ",
        ]
    ),
).map(stdlib_json.dumps)  # fmt: skip
_LEAVES = st.one_of(_NUMBERS, _STRINGS, st.sampled_from(["null", "true", "false", "{}", "[]"]))


def _json_for(type_: t.SqlType) -> st.SearchStrategy[str]:
    """JSON text that often suits a type, and often does not."""
    match type_:
        case t.ArrayType():
            suits = st.lists(_json_for(type_.element), max_size=3).map(lambda v: f"[{','.join(v)}]")
        case t.MapType():
            suits = _objects({k: _json_for(type_.value) for k in ("k", "é", "")})
        case t.RowType():
            suits = _objects({f.name: _json_for(f.type) for f in type_.fields})
        case _:
            return _LEAVES
    return st.one_of(suits, suits, suits, _LEAVES)


def _objects(members: dict[str, st.SearchStrategy[str]]) -> st.SearchStrategy[str]:
    pairs = [v.map(lambda v, k=k: f"{stdlib_json.dumps(k)}:{v}") for k, v in members.items()]
    extra = st.sampled_from(['"other":{"deep":[1.5,"x"]}', '"n":12345678901234567890.5'])
    any_pair = st.one_of(*pairs, extra)
    some = st.lists(any_pair, max_size=len(pairs) + 2)
    usual = st.tuples(*pairs).map(list)
    return st.one_of(usual, some).map(lambda p: "{" + ",".join(p) + "}")


@st.composite
def _batches(draw):
    fields = tuple(t.Field(name, draw(TYPES)) for name in draw(st.sampled_from(["a", "ab", "abc"])))
    document = _objects({f.name: _json_for(f.type) for f in fields})
    record = st.one_of(
        document,
        document,
        document,
        st.lists(document, max_size=2).map(lambda d: f"[{','.join(d)}]"),
        st.tuples(document, st.sampled_from(["}", " {}", "x", "\x00"])).map("".join),
        st.tuples(document, st.integers(0, 40)).map(lambda d: d[0][: d[1]]),
        st.sampled_from(["", "null", "1"]),
    )
    documents = draw(st.lists(record, min_size=1, max_size=6))
    options = draw(
        st.sampled_from(
            [
                {},
                {"ignore-parse-errors": True},
                {"fail-on-missing-field": True},
                {"timestamp-format.standard": "ISO-8601"},
            ]
        )
    )
    return fields, [d.encode("utf-8", "surrogatepass") for d in documents], options


def decode_exactly(fields, documents, options, wanted):
    """What `decode` must give, by parsing every document exactly and converting value by value."""
    merged = {**json.DEFAULTS, **options}
    ignore, strict = merged["ignore-parse-errors"], merged["fail-on-missing-field"]
    converters = {
        f.name: json_exact.converter(f.type, merged["timestamp-format.standard"], ignore, strict)
        for f in fields
    }
    find_missing = json_exact.find_missing(t.RowType(fields=fields))
    columns, records, bad = [[] for _ in wanted], [], []
    for index, document in enumerate(documents):
        if not document:
            continue
        try:
            value = json_exact.parse(document)
        except json_exact.Unreadable:
            bad += [] if ignore else [(index, None)]
            continue
        found = value if isinstance(value, list) else [value]
        if not ignore and not all(isinstance(row, dict) for row in found):
            bad.append((index, None))
            continue
        new, failed = [], None
        for row in found:
            if not isinstance(row, dict):
                continue
            absent = find_missing(row) if strict else None
            if absent:
                failed = failed or absent.path
            converted = {}
            for name in sorted(wanted):
                try:
                    raw = row.get(name)
                    converted[name] = None if raw is None else converters[name](raw)
                except json_exact.Mismatch as mismatch:
                    converted[name] = None
                    if not ignore:
                        failed = failed or mismatch.inside(name).path
            new.append(converted)
        if failed:
            bad.append((index, failed))
            continue
        for converted in new:
            records.append(index)
            for column, name in zip(columns, wanted, strict=True):
                column.append(converted[name])
    types = {f.name: arrow_type(f.type) for f in fields}
    arrays = [pa.array(c, types[n]) for c, n in zip(columns, wanted, strict=True)]
    return arrays, records, bad


def records_of(decoded: Decoded, documents) -> list[int]:
    return list(range(len(documents))) if decoded.records is None else decoded.records.to_pylist()


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(_batches(), st.data())
def test_fast_way_equals_exact_way(batch, data):
    fields, documents, options = batch
    names = [f.name for f in fields]
    wanted = data.draw(st.permutations(names).map(lambda p: p[: len(p) - len(p) // 3]))
    decoded = decode(fields, documents, options, wanted)
    arrays, records, bad = decode_exactly(fields, documents, options, wanted)
    assert {b.index for b in decoded.bad} == {i for i, _ in bad}
    assert [b.field is None for b in decoded.bad] == [f is None for _, f in bad]
    assert records_of(decoded, documents) == records
    for got, expected in zip(decoded.columns, arrays, strict=True):
        got.validate(full=True)
        assert same(got, expected), (got, expected)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(_batches())
def test_a_document_alone_is_read_as_among_others(batch):
    """Alone it may take the typed way, which a batch takes only if all its documents can."""
    fields, documents, options = batch
    names = [f.name for f in fields]
    for document in documents:
        decoded = decode(fields, [document], options, names)
        arrays, records, bad = decode_exactly(fields, [document], options, names)
        assert [b.index for b in decoded.bad] == [i for i, _ in bad]
        assert records_of(decoded, [document]) == records
        for got, expected in zip(decoded.columns, arrays, strict=True):
            assert same(got, expected), (got, expected)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(_batches(), st.data())
def test_pruning_changes_nothing_else(batch, data):
    fields, documents, options = batch
    wanted = data.draw(st.lists(st.sampled_from([f.name for f in fields]), unique=True))
    full = decode(fields, documents, options)
    some = decode(fields, documents, options, wanted)
    # A record that is bad only because of an unwanted value is the one thing that may differ.
    unseen = {b.index for b in full.bad} - {b.index for b in some.bad}
    assert {b.index for b in some.bad} <= {b.index for b in full.bad}
    for bad in full.bad:
        if bad.index in unseen:
            assert bad.field.split(".")[0].split("[")[0] not in wanted
            assert "could not find" not in bad.reason
    kept = [r not in unseen for r in records_of(some, documents)]
    at = {f.name: i for i, f in enumerate(fields)}
    for name, column in zip(wanted, some.columns, strict=True):
        assert same(column.filter(pa.array(kept, pa.bool_())), full.columns[at[name]])
    assert some.dropped == full.dropped


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.from_regex(r"-?(0|[1-9][0-9]{0,12})(\.[0-9]{1,16})?", fullmatch=True),
        min_size=1,
        max_size=5,
    ),
    st.integers(1, 38).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, p))),
)
def test_decimals_are_exact(texts, size):
    precision, scale = size
    type_ = t.DecimalType(precision=precision, scale=scale)
    decoded = decode([t.Field("f", type_)], [f'{{"f":{text}}}' for text in texts])

    def expected(text):
        with_scale = round_half_up(Decimal(text), scale)
        return with_scale if abs(with_scale) < Decimal(10) ** (precision - scale) else None

    assert decoded.columns[0].to_pylist() == [expected(text) for text in texts]


def round_half_up(value: Decimal, scale: int) -> Decimal:
    # Python's own 28 digits are not enough.
    with localcontext(prec=100):
        return value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)


def test_typed_way_is_taken_and_comes_back_after_other_documents(monkeypatch):
    monkeypatch.setattr(json, "_CHUNK", 1)
    plain, other = '{"a":1,"b":"x","z":[{}]}', '{"a":"1","b":"x"}'
    taken = []
    read = json.TypedReader.read

    def watch(self, values, documents):
        found = read(self, values, documents)
        taken.append(found is not None)
        return found

    monkeypatch.setattr(json.TypedReader, "read", watch)
    decoded = decode(AB, [plain, other, plain, plain, other, other, other, plain, plain, plain], {})
    assert decoded.columns[0].to_pylist() == [1] * 10
    assert taken == [True, False, False, True, False, False, False, False, False, True]


def test_orjson_still_refuses_what_the_exact_parser_is_for():
    """The law of json.py rests on these: orjson gives up, and never guesses."""
    for document in ('{"a":1}x', '{"a":"\x01"}', '{"a":"\\ud800"}', '{"a":NaN}', "", '{"a":1e999}'):
        with pytest.raises(orjson.JSONDecodeError):
            orjson.loads(document)
    with pytest.raises(orjson.JSONDecodeError):
        orjson.loads(b'{"a":"\xff"}')
    with pytest.raises(orjson.JSONDecodeError):
        orjson.loads(None)

"""What a sink's columns take, batch by batch; no Spark runs. The model judges value by value."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.changelog import KIND_COLUMN
from tidemill.formats.arrow import arrow_type
from tidemill.plan.nodes import Enforcement
from tidemill.spark.constraints import Constraints
from tidemill.spark.faults import RecordFault
from tidemill.types import (
    BYTES,
    INT,
    STRING,
    ArrayType,
    BinaryType,
    CharType,
    Field,
    MapType,
    RowType,
    SqlType,
    VarBinaryType,
    VarCharType,
)

CHAR3, VARCHAR3 = CharType(length=3), VarCharType(length=3)
BINARY3, VARBINARY3 = BinaryType(length=3), VarBinaryType(length=3)
TRIM_PAD, ERROR = Enforcement("TRIM_PAD"), Enforcement("ERROR")


def enforce(
    type_: SqlType, values: list[Any], how: Enforcement, *, drops: bool = False
) -> tuple[list[Any], Counter[str]]:
    """The values of a column `v` that come through, each as Arrow gives it, and what was dropped."""
    lost: Counter[str] = Counter()

    def count(name: str, number: int) -> None:
        lost[name] += number

    held = Constraints("t", (("c0", Field("v", type_)),), how, count if drops else None)
    # A column's own type forbids nothing here: what it forbids is for the constraints to find.
    array = pa.array(values, arrow_type(_lax(type_)))
    # A slice, because what Spark gives may be one.
    padded = pa.concat_arrays([array.slice(0, 1), array]).slice(min(1, len(array)))
    batch = pa.RecordBatch.from_arrays([padded], names=["c0"])
    found = held.enforce(batch)
    found.validate(full=True)
    assert found.schema == batch.schema
    return found.column("c0").to_pylist(), lost


def _lax(type_: SqlType) -> SqlType:
    match type_:
        case RowType(fields=fields):
            return RowType(fields=tuple(Field(f.name, _lax(f.type)) for f in fields))
        case ArrayType(element=element):
            return ArrayType(element=_lax(element))
        case MapType(key=key, value=value):
            return MapType(key=key, value=_lax(value))
    return type_.as_nullable


@pytest.mark.parametrize(
    ("type_", "given", "made"),
    [
        (CHAR3, ["ab", "abc", "abcd", "", None], ["ab ", "abc", "abc", "   ", None]),
        (VARCHAR3, ["ab", "abc", "abcd", "", None], ["ab", "abc", "abc", "", None]),
        # Characters count, neither bytes nor halves of them.
        (CHAR3, ["é", "杭州市区", "😀😀😀😀"], ["é  ", "杭州市", "😀😀😀"]),
        (BINARY3, [b"a", b"abc", b"abcd", b"", None], [b"a\0\0", b"abc", b"abc", b"\0\0\0", None]),
        (VARBINARY3, [b"a", b"abc", b"abcd", b"", None], [b"a", b"abc", b"abc", b"", None]),
        (STRING, ["abcd"], ["abcd"]),
        (BYTES, [b"abcd"], [b"abcd"]),
        (INT, [12345, None], [12345, None]),
        (CHAR3, [], []),
        (CHAR3, [None], [None]),
    ],
    ids=str,
)
def test_values_are_cut_and_padded(type_: SqlType, given: list[Any], made: list[Any]) -> None:
    assert enforce(type_, given, TRIM_PAD)[0] == made
    assert enforce(type_, given, Enforcement())[0] == given


@pytest.mark.parametrize(
    ("type_", "value", "said"),
    [
        (CHAR3, "ab", "Column 'v' is CHAR(3), however, a string of length 2"),
        (CHAR3, "abcd", "Column 'v' is CHAR(3), however, a string of length 4"),
        (VARCHAR3, "😀😀😀😀", "Column 'v' is VARCHAR(3), however, a string of length 4"),
        (BINARY3, b"", "Column 'v' is BINARY(3), however, a string of length 0"),
        (VARBINARY3, b"abcd", "Column 'v' is VARBINARY(3), however, a string of length 4"),
    ],
)
def test_a_wrong_length_stops_the_job(type_: SqlType, value: object, said: str) -> None:
    fine = b"abc" if isinstance(value, bytes) else "abc"
    assert enforce(type_, [fine, None], ERROR)[0] == [fine, None]
    with pytest.raises(RecordFault) as failed:
        enforce(type_, [fine, None, value], ERROR)
    assert said in str(failed.value)
    assert "RUN-013" in str(failed.value)


ROW = RowType(fields=(Field("a", VARCHAR3), Field("b", INT.not_null)))
DEEP = RowType(fields=(Field("r", ROW),))
ROWS, COLLECTIONS = "ROWS", "ROWS_AND_COLLECTIONS"


def test_rows_are_looked_into_if_asked_for() -> None:
    values = [{"r": {"a": "abcd", "b": 1}}, {"r": None}, None]
    assert enforce(DEEP, values, TRIM_PAD)[0] == values
    cut = [{"r": {"a": "abc", "b": 1}}, {"r": None}, None]
    assert enforce(DEEP, values, Enforcement("TRIM_PAD", ROWS))[0] == cut


@pytest.mark.parametrize(
    ("type_", "value", "depth", "name"),
    [
        (DEEP, {"r": {"a": None, "b": None}}, ROWS, "v.r.b"),
        (ArrayType(element=INT.not_null), [1, None], COLLECTIONS, "v[1]"),
        (ArrayType(element=ROW), [{"a": "", "b": 1}, {"a": "", "b": None}], COLLECTIONS, "v[1].b"),
        (
            ArrayType(element=ArrayType(element=INT.not_null)),
            [[1], [1, 2, None]],
            COLLECTIONS,
            "v[1][2]",
        ),
        (MapType(key=STRING, value=INT.not_null), [("k", None)], COLLECTIONS, "v[value]"),
        (MapType(key=STRING, value=ROW), [("k", {"a": "", "b": None})], COLLECTIONS, "v[value].b"),
    ],
    ids=str,
)
def test_a_null_inside_of_a_value_is_named_or_costs_its_row(
    type_: SqlType, value: Any, depth: str, name: str
) -> None:
    how = Enforcement(nested=depth)
    assert len(enforce(type_, [value, None], Enforcement())[0]) == 2
    with pytest.raises(RecordFault) as failed:
        enforce(type_, [None, value], how)
    assert f"Column '{name}' is NOT NULL" in str(failed.value)
    kept, lost = enforce(type_, [None, value, None], how, drops=True)
    assert (kept, lost) == ([None, None], {"NULL in v": 1})


@pytest.mark.parametrize(
    ("type_", "value", "name"),
    [
        (ArrayType(element=VARCHAR3), ["a", "abcd"], "v[1]"),
        (MapType(key=VARCHAR3, value=INT), [("abcd", 1)], "v[key]"),
        (RowType(fields=(Field("l", ArrayType(element=VARCHAR3)),)), {"l": ["abcd"]}, "v.l[0]"),
    ],
    ids=str,
)
def test_a_wrong_length_inside_of_a_collection_is_named(
    type_: SqlType, value: Any, name: str
) -> None:
    assert len(enforce(type_, [value], Enforcement("ERROR", ROWS))[0]) == 1
    with pytest.raises(RecordFault) as failed:
        enforce(type_, [None, value], Enforcement("ERROR", COLLECTIONS))
    assert f"Column '{name}' is VARCHAR(3)" in str(failed.value)


def test_nothing_is_cut_inside_of_collections() -> None:
    with pytest.raises(ValueError, match="inside of a collection"):
        Enforcement("TRIM_PAD", COLLECTIONS)


def test_a_null_in_a_column_comes_first() -> None:
    held = Constraints("t", (("c0", Field("a", VARCHAR3)), ("c1", Field("b", INT.not_null))), ERROR)
    batch = pa.RecordBatch.from_pydict({"c0": ["abcd"], "c1": pa.array([None], pa.int32())})
    with pytest.raises(RecordFault, match="RUN-011"):
        held.enforce(batch)


# --- against the model ---------------------------------------------------------------------------


class Refused(Exception):
    pass


def inside(type_: SqlType, value: Any, how: Enforcement) -> list[tuple[SqlType, Any]]:
    """What is judged inside of a value."""
    match type_:
        case RowType(fields=fields) if how.nested != "IGNORE":
            return [(f.type, value[f.name]) for f in fields]
        case ArrayType(element=element) if how.nested == COLLECTIONS:
            return [(element, v) for v in value]
        case MapType(key=key, value=inner) if how.nested == COLLECTIONS:
            return [pair for k, v in value for pair in ((key, k), (inner, v))]
    return []


def has_hole(type_: SqlType, value: Any, how: Enforcement) -> bool:
    if value is None:
        return not type_.nullable
    return any(has_hole(inner, v, how) for inner, v in inside(type_, value, how))


def fitted(type_: SqlType, value: Any, how: Enforcement) -> Any:
    """One value as Flink's enforcer leaves it."""
    if value is None:
        return None
    if isinstance(type_, CharType | VarCharType | BinaryType | VarBinaryType):
        n, pads = type_.length, isinstance(type_, CharType | BinaryType)
        if how.lengths == "ERROR" and (len(value) > n or (pads and len(value) < n)):
            raise Refused
        if how.lengths != "TRIM_PAD":
            return value
        filler = " " if isinstance(value, str) else b"\0"
        return (value[:n] + filler * (n - len(value))) if pads else value[:n]
    made = [fitted(inner, v, how) for inner, v in inside(type_, value, how)]
    if isinstance(type_, RowType) and made:
        return {f.name: v for f, v in zip(type_.fields, made, strict=True)}
    return value


def texts(length: int) -> st.SearchStrategy[str]:
    return st.text("aé😀", max_size=length + 2)


LEAVES: st.SearchStrategy[tuple[SqlType, st.SearchStrategy[Any]]] = st.sampled_from(
    [
        (CharType(length=2), texts(2)),
        (VarCharType(length=2), texts(2)),
        (BinaryType(length=2), st.binary(max_size=4)),
        (VarBinaryType(length=2), st.binary(max_size=4)),
        (INT, st.integers(0, 3)),
    ]
)


def nullable(pair: tuple[SqlType, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    type_, values = pair
    return st.booleans().map(lambda may: (type_.with_nullable(may), st.none() | values))


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    parts = inner.flatmap(nullable)
    return st.one_of(
        parts.map(lambda p: (ArrayType(element=p[0]), st.lists(p[1], max_size=3))),
        parts.map(
            lambda p: (
                MapType(key=VarCharType(nullable=False, length=2), value=p[0]),
                st.dictionaries(texts(2), p[1], max_size=2).map(lambda d: list(d.items())),
            )
        ),
        st.tuples(parts, parts).map(
            lambda ps: (
                RowType(fields=(Field("x", ps[0][0]), Field("y", ps[1][0]))),
                st.fixed_dictionaries({"x": ps[0][1], "y": ps[1][1]}),
            )
        ),
    )


TYPES = st.recursive(LEAVES, containers, max_leaves=4).flatmap(nullable)
WAYS = st.sampled_from(
    [
        Enforcement(lengths, nested)
        for lengths in ("IGNORE", "TRIM_PAD", "ERROR")
        for nested in ("IGNORE", ROWS, COLLECTIONS)
        if (lengths, nested) != ("TRIM_PAD", COLLECTIONS)
    ]
)


@settings(max_examples=150)
@given(st.data(), WAYS, st.booleans())
def test_columns_are_judged_as_their_values_would_be(
    data: st.DataObject, how: Enforcement, drops: bool
) -> None:
    type_, values = data.draw(TYPES)
    column = data.draw(st.lists(values, max_size=5))
    whole = [value for value in column if not has_hole(type_, value, how)]
    try:
        expected = [fitted(type_, value, how) for value in whole]
        stops = len(whole) < len(column) and not drops
    except Refused:
        stops = True
    if stops:
        with pytest.raises(RecordFault):
            enforce(type_, column, how, drops=drops)
        return
    found, lost = enforce(type_, column, how, drops=drops)
    assert found == expected
    assert sum(lost.values()) == len(column) - len(whole)


def changes(*rows: tuple[int | None, str | None, int]) -> pa.RecordBatch:
    ids, names, kinds = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(ids, pa.int32()), pa.array(names, pa.string()), pa.array(kinds, pa.int8())],
        names=["c0", "c1", KIND_COLUMN],
    )


def test_of_a_row_that_goes_only_the_key_is_looked_at() -> None:
    columns = (("c0", Field("id", INT.not_null)), ("c1", Field("name", STRING.not_null)))
    lost: Counter[str] = Counter()

    def count(name: str, number: int) -> None:
        lost[name] += number

    by_key = Constraints("t", columns, Enforcement(), count, frozenset({"id"}))
    gone = changes((1, None, 3), (2, "b", 2), (3, None, 1))
    assert by_key.enforce(gone) is gone
    assert not lost
    rows = by_key.enforce(changes((1, None, 3), (None, None, 3), (2, None, 2), (3, "c", 0)))
    assert rows.column("c0").to_pylist() == [1, 3]
    assert lost == {"NULL in id": 1, "NULL in name": 1}
    every = Constraints("t", columns, Enforcement(), count)
    assert every.enforce(gone).num_rows == 1

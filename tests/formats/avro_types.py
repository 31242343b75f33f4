"""Types that Avro can carry, and values of them, for the properties of the Avro formats."""

from __future__ import annotations

from hypothesis import strategies as st

from tidemill import types as t
from tidemill.formats.avro_exact import scaled

MILLIS = st.one_of(
    st.integers(-62_135_596_800_000, 253_402_300_799_999), st.sampled_from([0, -1, 1, 2**40])
)
TEXTS = st.one_of(st.text(max_size=6), st.sampled_from(["", "é", "\U0001f40d", "x" * 200]))


def whole(bits: int) -> st.SearchStrategy[int]:
    """Numbers of all sizes, because their sizes on the wire differ."""
    powers = st.integers(0, bits - 1).flatmap(
        lambda n: st.sampled_from([-(2**n), -(2**n) + 1, 2**n - 1, 2 ** max(n - 1, 0)])
    )
    return st.one_of(st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1), powers)


def values_of(type_: t.SqlType) -> st.SearchStrategy[object]:
    some = _some(type_)
    return st.one_of(some, some, some, st.none()) if type_.nullable else some


def _some(type_: t.SqlType) -> st.SearchStrategy[object]:
    match type_:
        case t.BooleanType():
            return st.booleans()
        case t.TinyIntType():
            return whole(8)
        case t.SmallIntType():
            return whole(16)
        case t.IntType():
            return whole(32)
        case t.BigIntType():
            return whole(64)
        case t.FloatType():
            return st.floats(width=32)
        case t.DoubleType():
            return st.floats()
        case t.VarCharType():
            return TEXTS
        case t.VarBinaryType():
            return st.binary(max_size=6)
        case t.DecimalType():
            top = 10**type_.precision - 1
            numbers = st.one_of(
                st.integers(-top, top),
                st.sampled_from(
                    [0, -1, 1, min(127, top), -min(128, top), -min(129, top), top, -top]
                ),
            )
            return numbers.map(lambda v: scaled(v, type_.scale))
        case t.DateType():
            return st.integers(-800_000, 3_000_000)
        case t.TimeType():
            return st.integers(0, 86_399_999).map(lambda v: v * 1_000_000)
        case t.TimestampType() | t.TimestampLtzType():
            return MILLIS.map(lambda v: v * 1000)
        case t.ArrayType():
            return st.lists(values_of(type_.element), max_size=4)
        case t.MapType():
            return st.dictionaries(TEXTS, values_of(type_.value), max_size=3).map(
                lambda v: list(v.items())
            )
        case t.MultisetType():
            return st.dictionaries(TEXTS, st.integers(0, 9), max_size=3).map(
                lambda v: list(v.items())
            )
        case t.RowType():
            return st.fixed_dictionaries({f.name: values_of(f.type) for f in type_.fields})
    raise TypeError(type_)


_LEAVES = st.one_of(
    st.sampled_from(
        [
            t.BOOLEAN,
            t.TinyIntType(),
            t.SmallIntType(),
            t.INT,
            t.BIGINT,
            t.FloatType(),
            t.DOUBLE,
            t.STRING,
            t.BYTES,
            t.DateType(),
            t.TimeType(precision=3),
            t.TimestampType(precision=3),
            t.MultisetType(element=t.STRING),
        ]
    ),
    st.integers(1, 38).flatmap(
        lambda p: st.integers(0, p).map(lambda s: t.DecimalType(precision=p, scale=s))
    ),
)


def _maybe_required(types: st.SearchStrategy[t.SqlType]) -> st.SearchStrategy[t.SqlType]:
    return st.builds(lambda type_, nullable: type_.with_nullable(nullable), types, st.booleans())


TYPES = st.recursive(
    _maybe_required(_LEAVES),
    lambda inner: _maybe_required(
        st.one_of(
            inner.map(lambda e: t.ArrayType(element=e)),
            inner.map(lambda v: t.MapType(key=t.STRING.not_null, value=v)),
            st.lists(inner, min_size=1, max_size=3).map(
                lambda types: t.RowType(
                    fields=tuple(t.Field(f"g{i}", type_) for i, type_ in enumerate(types))
                )
            ),
        )
    ),
    max_leaves=4,
)


@st.composite
def batches(draw, most_fields: int = 4):
    """Fields, and rows of them."""
    types = draw(st.lists(TYPES, min_size=1, max_size=most_fields))
    fields = tuple(t.Field(f"f{i}", type_) for i, type_ in enumerate(types))
    rows = draw(st.lists(st.tuples(*(values_of(f.type) for f in fields)), max_size=6))
    return fields, rows

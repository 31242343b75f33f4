"""What a sink enforces before rows become records, as a Python worker does it; no Spark runs."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidemill.spark.faults import RecordFault
from tidemill.spark.sink import Encode, Encoding
from tidemill.types import BinaryType, CharType, Field, SqlType, VarBinaryType, VarCharType


def enforce(declared: SqlType, *values: str | bytes | None) -> int:
    """How many rows pass, where a length that does not fit stops the job."""
    field = Field("c", declared)
    side = Encoding("json", {}, (field,), ("c0",))
    of_text = isinstance(declared, (CharType, VarCharType))
    batch = pa.RecordBatch.from_arrays(
        [pa.array(values, pa.string() if of_text else pa.binary())], names=["c0"]
    )
    encode = Encode("dst", side, None, (), (), False, False, None, (("c0", field),))
    return encode.enforce(batch).num_rows


@pytest.mark.parametrize(
    ("declared", "fits", "wrong", "said"),
    [
        (
            VarCharType(length=3),
            ["abc", "", "äöü", "😀😀😀", None],
            "abcd",
            "VARCHAR(3), however, a string",
        ),
        (CharType(length=2), ["ab", "äö", None], "a", "CHAR(2), however, a string of length 1"),
        (VarBinaryType(length=2), [b"ab", b"", None], b"abc", "VARBINARY(2), however, a binary"),
        (BinaryType(length=2), [b"ab", None], b"abc", "BINARY(2), however, a binary of length 3"),
    ],
)
def test_a_length_that_does_not_fit_stops_the_job(
    declared: SqlType, fits: list[str | bytes | None], wrong: str | bytes, said: str
) -> None:
    assert enforce(declared, *fits) == len(fits)
    with pytest.raises(RecordFault, match="RUN-013") as caught:
        enforce(declared, *fits, wrong)
    assert said in str(caught.value)

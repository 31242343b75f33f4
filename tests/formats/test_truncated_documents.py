"""A document that is cut off is no document: it gives no row, least of all a delete. The kernel's tests cut it too."""

from __future__ import annotations

import pyarrow as pa
import pytest

from harness.cut import FIELDS, WHOLE, cuts
from tidemill.changelog import RowKind
from tidemill.formats import UNREADABLE, Decoded, format_module


def decode(name: str, values: list[bytes], options: dict[str, object]) -> Decoded:
    return format_module(name).decoder(FIELDS, options).decode(pa.array(values, pa.binary()))


def kinds(decoded: Decoded) -> list[RowKind]:
    if decoded.kinds is None:
        return [RowKind.INSERT] * len(decoded.columns[0])
    return [RowKind(kind) for kind in decoded.kinds.to_pylist()]


@pytest.mark.parametrize("lenient", [False, True], ids=["strict", "lenient"])
@pytest.mark.parametrize("case", WHOLE)
def test_a_document_that_is_cut_off_gives_no_row(case: str, lenient: bool) -> None:
    name, document, options = WHOLE[case]
    options = {**options, "ignore-parse-errors": lenient}
    [*_, expected] = RowKind if name != "json" else [RowKind.INSERT]
    whole = kinds(decode(name, [document.encode()], options))
    assert whole == [expected] * (2 if name == "canal-json" else 1)
    for cut in cuts(document):
        alone = decode(name, [cut], options)
        assert kinds(alone) == [], cut
        assert len(alone.bad) + sum(alone.dropped.values()) == 1, cut
        if lenient:
            assert not alone.bad, cut
        elif cut:
            assert not alone.dropped, cut


@pytest.mark.parametrize("lenient", [False, True], ids=["strict", "lenient"])
@pytest.mark.parametrize("case", WHOLE)
def test_neighbours_do_not_complete_a_document_that_is_cut_off(case: str, lenient: bool) -> None:
    """Documents are read many at a time; the one that follows has the braces that a cut one lacks."""
    name, document, options = WHOLE[case]
    options = {**options, "ignore-parse-errors": lenient}
    values = [part for cut in cuts(document)[1:] for part in (cut, document.encode())]
    decoded = decode(name, values, options)
    records = range(len(kinds(decoded))) if decoded.records is None else decoded.records.to_pylist()
    assert set(records) == set(range(1, len(values), 2))
    if lenient:
        assert decoded.dropped == {UNREADABLE: len(values) // 2}
    else:
        assert [bad.index for bad in decoded.bad] == list(range(0, len(values), 2))

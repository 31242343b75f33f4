"""The kernel gives no row of a document that is cut off at any byte, least of all a delete."""

from __future__ import annotations

from typing import Any

import pytest
from test_kernel_decode import Kernel

from harness.cut import FIELDS, WHOLE, cuts
from tidemill.spark.source import Side

pytestmark = pytest.mark.spark

NOT_STRAIGHT = ("canal-json", "maxwell-json")
"""They are for Python, which the tests of the formats cut."""


@pytest.mark.parametrize("case", [c for c, whole in WHOLE.items() if whole[0] not in NOT_STRAIGHT])
def test_a_document_that_is_cut_off_gives_no_row(spark: Any, reader: Any, case: str) -> None:
    name, document, options = WHOLE[case]
    every = tuple(f.name for f in FIELDS)
    for wanted in (every, every[:1], ()):
        side = Side(name, options, FIELDS, wanted, "")
        kernel = Kernel(spark, reader, side, name.endswith("-json"))
        assert kernel.read(document.encode())
        found = zip(cuts(document), kernel.read_all(cuts(document)), strict=True)
        assert [cut for cut, rows in found if rows] == []

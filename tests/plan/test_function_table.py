"""The function table and its Spark side belong together."""

from __future__ import annotations

from pathlib import Path

from tidemill.plan.functions import AGGREGATES, FUNCTIONS, NOT_YET, OVER_ONLY
from tidemill.spark.functions import FORMS as SPARK_FORMS

# Special forms that the binder makes itself; they have no signature.
FORMS = {
    "CAST", "TRY_CAST", "CASE", "FIELD", "ROW", "ARRAY", "MAP", "ARRAY ELEMENT", "MAP ELEMENT", "NEGATE",
    "ADD INTERVAL", "SUBTRACT INTERVAL", "+", "-", "*", "/", "%",
}  # fmt: skip


def test_every_function_has_a_spark_form_and_no_other_has() -> None:
    assert set(FUNCTIONS) | FORMS == set(SPARK_FORMS)


def test_what_exists_is_not_called_missing() -> None:
    assert not NOT_YET & (set(FUNCTIONS) | set(AGGREGATES))


def test_every_function_of_flink_is_known() -> None:
    listed = Path(__file__).with_name("flink_functions.txt").read_text("utf-8").splitlines()
    known = {*FUNCTIONS, *AGGREGATES, *OVER_ONLY, *NOT_YET}
    assert [name for name in listed if name not in known and not name.startswith("#")] == []

"""Functions of `functions.sql`: one with type hints, one marked with SQL's types."""

from __future__ import annotations

from tidemill import udf


def band(amount: float) -> str:
    """The price band of an order."""
    return "small" if amount < 25 else "medium" if amount < 75 else "large"


@udf(result_type="DECIMAL(8, 2)", input_types=["DECIMAL(8, 2)", "INT"])
def net(amount, percent):
    """An amount without its tax; NULL is None."""
    return None if amount is None else amount * 100 / (100 + percent)

"""The table function of `several_rows.sql`: it yields a tuple for each row that it makes of one."""

from __future__ import annotations

from tidemill import udtf


@udtf(result_types="ROW<`month` INT, due INT>", input_types=["INT", "INT"])
def instalments(amount, months):
    """Equal parts of an amount; the first one has what is left over."""
    part, rest = divmod(amount, months)
    for month in range(months):
        yield month + 1, part + rest * (month == 0)

"""Fails while it is imported."""

TABLE = {}
TABLE["missing"]


def f(x: int) -> int:
    return x

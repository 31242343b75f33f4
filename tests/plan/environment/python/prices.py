"""Functions of a user's, in all the ways that they can be written."""

from __future__ import annotations

import random
from decimal import Decimal

from rates import RATE

from tidemill import udf, udtf


def plus(a: int, b: int) -> int:
    return a + b


@udf(result_type="STRING", input_types=["DECIMAL(10, 2)", "STRING"])
def label(amount, item):
    return f"{item}: {amount}"


@udf
def half(x: float | None) -> float | None:
    return None if x is None else x / 2 * RATE


def joined(separator: str, *parts: str) -> str:
    return separator.join(parts)


def padded(text: str, width: int = 10) -> str:
    return text.rjust(width)


def words(text: str) -> list[str]:
    return text.split()


class Counts:
    def eval(self, items: list[str]) -> dict[str, int]:
        return {i: items.count(i) for i in items}


@udtf(result_types="ROW<word STRING, n INT>", input_types=["STRING"])
def pairs(text):
    for word in text.split():
        yield word, len(word)


@udf(result_type="INT", deterministic=False)
def dice():
    return random.randrange(6)


@udf(result_type="STRING")
def shown(x):
    return repr(x)


def untyped(x):
    return x


def strange(x: complex) -> Decimal:
    return Decimal(abs(x))


@udf(result_type="BIGINTT")
def misspelt(x):
    return x


def by_name(*, x: int) -> int:
    return x

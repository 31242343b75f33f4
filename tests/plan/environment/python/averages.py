"""Aggregate functions and generators of a user's, in all the ways that they can be written."""

from __future__ import annotations

from collections.abc import Iterator

from tidemill import udaf, udtf


class Weighted:
    """As PyFlink's AggregateFunction; type hints say the types."""

    def create_accumulator(self) -> list[float]:
        return [0.0, 0.0]

    def accumulate(self, accumulator: list[float], value: float, weight: int = 1) -> None:
        accumulator[0] += value * weight
        accumulator[1] += weight

    def get_value(self, accumulator: list[float]) -> float | None:
        return accumulator[0] / accumulator[1] if accumulator[1] else None


class Longest:
    def create_accumulator(self):
        return []

    def accumulate(self, accumulator, text):
        accumulator.append(text)

    def get_value(self, accumulator):
        return max(accumulator, key=len, default=None)

    def get_result_type(self):
        return "STRING"


longest = udaf(Longest(), input_types=["STRING"], result_type="VARCHAR(20)", deterministic=False)


@udaf(result_type="BIGINT", func_type="arrow")
def spread(x, y):
    return 0


@udaf(result_type="BIGINT")
def no_class(x):
    return x


class Untyped(Longest):
    get_result_type = None


def numbered(text: str) -> Iterator[tuple[int, str]]:
    yield from enumerate(text.split())


@udtf
def split(text: str) -> Iterator[str]:
    yield from text.split()


def nothing_said(text: str):
    yield from text.split()


def endless(text: str) -> Iterator[tuple[str, ...]]:
    yield tuple(text.split())

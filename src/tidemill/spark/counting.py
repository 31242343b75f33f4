"""What Python workers count and the driver shows: numbers by table and name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyspark.accumulators import AccumulatorParam
from pyspark.sql import SparkSession

Count = Callable[[str, int], None]
"""Adds to what a name has."""


class _Sums(AccumulatorParam[dict[str, int]]):  # type: ignore[misc]
    """Numbers by name, added up over tasks."""

    def zero(self, value: dict[str, int]) -> dict[str, int]:
        return {}

    def addInPlace(self, left: dict[str, int], right: dict[str, int]) -> dict[str, int]:  # noqa: N802
        for name, number in right.items():
            left[name] = left.get(name, 0) + number
        return left


@dataclass(frozen=True)
class _Counter:
    """Travels with the function that uses it."""

    table: str
    accumulator: Any = field(hash=False, compare=False)

    def __call__(self, name: str, number: int) -> None:
        self.accumulator.add({f"{self.table}: {name}": number})


class Numbers:
    """A job's numbers of one sort."""

    def __init__(self, spark: SparkSession) -> None:
        self._accumulator = spark.sparkContext.accumulator({}, _Sums())

    def of(self, table: str) -> Count:
        return _Counter(table, self._accumulator)

    def values(self) -> dict[str, int]:
        return dict(self._accumulator.value)

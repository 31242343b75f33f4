"""Kernel operators by hand: a source that is fed row by row, and a query whose changes are taken batch by batch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tidemill.spark.java import java_class

SYMBOLS = ("+I", "-U", "+U", "-D")


class Stream:
    """A source fed by hand: rows are dicts of texts, cast to the declared types; `partitions` map tasks."""

    def __init__(self, spark: Any, columns: dict[str, str], partitions: int = 2) -> None:
        from pyspark.sql import DataFrame

        self._spark = spark
        streaming = "org.apache.spark.sql.execution.streaming.runtime"
        memory = java_class(spark, f"{streaming}.MemoryStream")
        text = java_class(spark, "org.apache.spark.sql.Encoders").STRING()
        self._memory = memory.apply(spark._jsparkSession, partitions, text)
        texts = ", ".join(f"{name} STRING" for name in columns)
        casts = [
            f"from_json(r.{name}, '{type_}') AS {name}"
            if type_.startswith(("ARRAY", "STRUCT"))
            else f"cast(r.{name} AS {type_}) AS {name}"
            for name, type_ in columns.items()
        ]
        lines = DataFrame(self._memory.toDF(), spark)
        self.frame = lines.selectExpr(f"from_json(value, '{texts}') AS r").selectExpr(*casts)

    def add(self, rows: Iterable[dict[str, Any]]) -> None:
        text = "\n".join(json.dumps(row) for row in rows)
        reader = java_class(self._spark, "java.io.StringReader")(text)
        lines = java_class(self._spark, "java.io.BufferedReader")(reader).lines().toList()
        converters = java_class(self._spark, "scala.jdk.javaapi.CollectionConverters")
        self._memory.addData(converters.asScala(lines))


def operators(session: Any) -> Any:
    return java_class(session, "io.tidemill.state.Operators")


def new_counts(session: Any) -> Any:
    return java_class(session, "io.tidemill.state.Counts").of(session._jsparkSession)


class Run:
    """A running query whose changes are taken batch by batch; `restart` goes on from the checkpoint."""

    def __init__(self, frame: Any, checkpoint: Path) -> None:
        self.frame = frame
        self._checkpoint = checkpoint
        self._rows: list[tuple[int, Any]] = []
        self.fail_once: Callable[[int], bool] | None = None
        self.query: Any = None
        self.restart()

    def _collect(self, batch: Any, number: int) -> None:
        rows = batch.collect()
        self._rows.extend((number, row) for row in rows)
        if self.fail_once is not None and self.fail_once(number):
            self.fail_once = None
            raise RuntimeError("stopped on purpose")

    def restart(self) -> None:
        if self.query is not None:
            self.query.stop()
        writer = self.frame.writeStream.foreachBatch(self._collect)
        self.query = writer.option("checkpointLocation", str(self._checkpoint)).start()

    def take(self) -> list[tuple[Any, ...]]:
        """The changes since the last call, each as its symbol and then the values."""
        self.query.processAllAvailable()
        return self.taken()

    def take_twice(self) -> list[tuple[Any, ...]]:
        """The changes of a batch that is broken off at its end and run again: the same rows in the same order."""
        self.fail_once = lambda number: True
        with pytest.raises(Exception, match="stopped on purpose"):
            self.take()
        first = self.taken()
        self.restart()
        again = self.take()
        assert first == again, "a replayed batch gives the same rows in the same order"
        return again

    def taken(self) -> list[tuple[Any, ...]]:
        rows, self._rows = self._rows, []
        return [(SYMBOLS[row[-1]], *tuple(row)[:-1]) for _, row in rows]

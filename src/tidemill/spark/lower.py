"""Plans as DataFrames. In: a plan with its modes. Out: a streaming DataFrame whose columns are c0, c1, … and, where the
stream is not insert-only, `_kind`. Law: a node that does not read the kind passes it on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tidemill.changelog import KIND_COLUMN, RowKind
from tidemill.plan import nodes
from tidemill.plan.modes import Modes
from tidemill.spark.datagen import AT_ONCE, datagen_spec, read_datagen
from tidemill.spark.expressions import column_name, to_sql
from tidemill.spark.operators import group_aggregate
from tidemill.spark.source import Count, Scanning, read_kafka
from tidemill.spark.types import spark_ddl
from tidemill.tables.builtin import DatagenTable


@dataclass(frozen=True)
class Lowering:
    spark: SparkSession
    modes: Modes
    max_rows_per_batch: int | None
    counter: Callable[[str], Count]
    """A place to count losses, per table."""
    exactly_once: str | None = None
    """The job's id, if it writes exactly once."""
    scans: Iterator[int] = field(default_factory=count)
    """Numbers the scans of the job; it is the same for all its roots."""

    def lower(self, node: nodes.Node) -> DataFrame:
        match node:
            case nodes.Scan():
                return self._scan(node)
            case nodes.Values():
                return self._values(node)
            case nodes.Project():
                expressions = [
                    f.expr(to_sql(e)).alias(column_name(i)) for i, e in enumerate(node.expressions)
                ]
                below = self.lower(node.input)
                kind = [KIND_COLUMN] if KIND_COLUMN in below.columns else []
                return below.select(*expressions, *kind)
            case nodes.Filter():
                return self.lower(node.input).where(to_sql(node.condition))
            case nodes.DropUpdateBefore():
                kept = f"{KIND_COLUMN} <> {int(RowKind.UPDATE_BEFORE)}"
                return self.lower(node.input).where(kept)
            case nodes.Aggregate():
                before = RowKind.UPDATE_BEFORE in self.modes.of(node)
                return group_aggregate(self.lower(node.input), node, before)
            case nodes.Union():
                return self._union(node)
        raise TypeError(type(node))

    def _scan(self, node: nodes.Scan) -> DataFrame:
        if isinstance(node.table.connector, DatagenTable):
            return read_datagen(self.spark, node)
        number = next(self.scans)
        writer = (self.exactly_once, number) if self.exactly_once is not None else None
        counted = self.counter(node.table.name)
        return read_kafka(self.spark, node, Scanning(counted, self.max_rows_per_batch, writer))

    def _values(self, node: nodes.Values) -> DataFrame:
        """Constants, as a source that ends: row i of the generator picks row i of the list."""
        spec = datagen_spec("VALUES", AT_ONCE, len(node.rows), 1)
        ids = self.spark.readStream.format("tidemill-datagen").option("spec", spec).load()
        columns = []
        for i, column in enumerate(node.fields):
            ddl = spark_ddl(column.type)
            values = ", ".join(f"CAST({to_sql(row[i])} AS {ddl})" for row in node.rows)
            picked = f"get(array({values}), CAST(id AS INT))" if values else f"CAST(NULL AS {ddl})"
            columns.append(f.expr(picked).alias(column_name(i)))
        return ids.select(*columns) if columns else ids

    def _union(self, node: nodes.Union) -> DataFrame:
        parts = [self.lower(p) for p in node.parts]
        if any(KIND_COLUMN in p.columns for p in parts):
            parts = [with_kind(p) for p in parts]
        whole = parts[0]
        for part in parts[1:]:
            whole = whole.unionAll(part)
        return whole


def with_kind(frame: DataFrame) -> DataFrame:
    """The same rows with their kind as a column; a stream without one is insert-only."""
    if KIND_COLUMN in frame.columns:
        return frame
    return frame.withColumn(KIND_COLUMN, f.expr(f"CAST({int(RowKind.INSERT)} AS TINYINT)"))

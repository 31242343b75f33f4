"""Tables that end: files and tables of databases.

In: a scan of one. Out: a DataFrame that is no stream, with columns c0… in the order of the plan. A join in processing
time looks rows up in it, and every batch meets it as it is then. Where it is read like any other table, it is a stream
of one batch. Law: a line that cannot be read stops the job with its file and number; nothing is dropped uncounted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as s

from tidemill.errors import job_error
from tidemill.formats import format_module
from tidemill.plan import nodes
from tidemill.spark.arrow import map_in_arrow
from tidemill.spark.counting import Count
from tidemill.spark.datagen import AT_ONCE, datagen_spec
from tidemill.spark.expressions import column_name
from tidemill.spark.faults import RecordFault, reported
from tidemill.spark.progress import ROWS_OF
from tidemill.spark.types import spark_ddl, spark_type
from tidemill.tables.catalog import Metadata
from tidemill.tables.filesystem import FilesystemTable
from tidemill.tables.jdbc import JdbcTable
from tidemill.tables.options import MASK
from tidemill.tables.references import resolved_options
from tidemill.types import Field

if TYPE_CHECKING:
    import pyarrow as pa

_FILE_COLUMNS = {
    "file.path": "path",
    "file.name": "element_at(split(path, '/'), -1)",
    "file.size": "size",
    "file.modification-time": "modified",
}


def read_bounded(spark: SparkSession, scan: nodes.Scan, count: Count) -> DataFrame:
    """The table as it is when somebody looks."""
    connector = scan.table.connector
    if isinstance(connector, JdbcTable):
        return _read_jdbc(spark, scan, connector.resolved)
    assert isinstance(connector, FilesystemTable)
    return _read_files(spark, scan, connector, count)


def as_stream(frame: DataFrame, table: str, channel: str | None) -> DataFrame:
    """The rows of a table as a stream of one batch: each beside the only row of a source that ends. `channel`: under
    which it tells that it is over."""
    spark = frame.sparkSession
    spec = datagen_spec(table, AT_ONCE, 1, 1, channel)
    once = spark.readStream.format("tidemill-datagen").option("spec", spec).load()
    # Tasks of the table read that source too, so that they tell the time.
    whole = once.crossJoin(frame.hint("shuffle_replicate_nl"))
    # Spark counts that source's row. A table may be read twice in a query, where each name stands for one count.
    counted = whole.observe(f"{ROWS_OF}{table}/{uuid4()}", f.count(f.lit(1)).alias("rows"))
    return counted.select(*frame.columns)


# --- files ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DecodeLines:
    """Lines to rows, in a Python worker: (value, line, path, …) → (the wanted fields, then what is kept)."""

    table: str
    format: str
    options: Mapping[str, object] = field(hash=False)
    fields: tuple[Field, ...]
    wanted: tuple[str, ...]
    kept: tuple[str, ...]
    count: Count = field(hash=False, compare=False)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        with reported(self.table):
            decoder = format_module(self.format).decoder(self.fields, self.options, self.wanted)
        for batch in batches:
            with reported(self.table):
                decoded = decoder.decode(batch.column("value"))
            for name, number in decoded.dropped.items():
                if number:
                    self.count(name, number)
            if decoded.bad:
                raise self._fault(decoded.bad[0], batch)
            kept = [batch.column(name) for name in self.kept]
            if decoded.records is not None:
                kept = [column.take(decoded.records) for column in kept]
            yield pa.RecordBatch.from_arrays(
                [*decoded.columns, *kept], names=[*self.wanted, *self.kept]
            )

    def _fault(self, bad: Any, batch: pa.RecordBatch) -> RecordFault:
        path, line = (batch.column(name)[bad.index].as_py() for name in ("path", "line"))
        where = f", field '{bad.field}'" if bad.field else ""
        return RecordFault(
            "RUN-010",
            f"a line cannot be read as {self.format}: table '{self.table}', file '{path}', line {line}{where}:"
            f" {bad.reason}",
            f"'{self.format}.ignore-parse-errors' = 'true' leaves such lines out",
        )


def _read_files(
    spark: SparkSession, scan: nodes.Scan, connector: FilesystemTable, count: Count
) -> DataFrame:
    table = scan.table
    spec = {"table": table.name, "path": located(connector.path), "pattern": connector.pattern}
    lines = spark.read.format("tidemill-files").option("spec", json.dumps(spec)).load()
    columns = {name: table.schema.column(name) for name in scan.names}
    stored = {f.name: f for f in connector.fields}
    wanted = tuple(name for name in scan.names if name in stored)
    kept = ("path", "size", "modified")
    decode = DecodeLines(
        table.name,
        connector.format.name,
        resolved_options(connector.format.options),
        connector.fields,
        wanted,
        kept,
        count,
    )
    output = s.StructType(
        [
            *(s.StructField(n, spark_type(stored[n].type)) for n in wanted),
            *(lines.schema[n] for n in kept),
        ]
    )
    names = [f"_{i}" for i in range(len(wanted))]
    rows = map_in_arrow(lines, decode, output).toDF(*names, *kept)
    made = dict(zip(wanted, names, strict=True))
    for name, column in columns.items():
        assert column is not None
        if isinstance(column, Metadata):
            made[name] = f"CAST({_FILE_COLUMNS[column.key]} AS {spark_ddl(column.type)})"
        elif name in connector.partition_keys:
            made[name] = f"CAST({_partition(name, connector)} AS {spark_ddl(column.type)})"
    return rows.selectExpr(*(f"{made[n]} AS {column_name(i)}" for i, n in enumerate(scan.names)))


def _partition(name: str, connector: FilesystemTable) -> str:
    """What a file's path says of a partition column: …/day=2024-01-01/…"""
    key = name.replace("\\", "\\\\").replace("'", "\\'")
    default = connector.default_partition.replace("\\", "\\\\").replace("'", "\\'")
    found = f"regexp_extract(path, concat('/\\\\Q', '{key}', '\\\\E=([^/]*)/'), 1)"
    return f"nullif(url_decode(replace({found}, '+', '%2B')), '{default}')"


def located(path: str) -> str:
    """A path as all tasks understand it; one without a scheme is on this machine, as Python sees it."""
    return path if "://" in path or path.startswith("file:") else Path(path).absolute().as_uri()


# --- databases -----------------------------------------------------------------------------------


def _read_jdbc(spark: SparkSession, scan: nodes.Scan, connector: JdbcTable) -> DataFrame:
    options: dict[str, object] = {
        "url": connector.url,
        "dbtable": connector.table_name,
        "driver": connector.driver,
        "user": connector.username,
        "password": connector.password,
        "fetchsize": connector.fetch_size,
        "partitionColumn": connector.partition_column,
        "numPartitions": connector.partitions,
        "lowerBound": connector.lower_bound,
        "upperBound": connector.upper_bound,
    }
    reader = spark.read.format("jdbc")
    for key, value in options.items():
        if value is not None:
            reader = reader.option(key, str(value))
    try:
        rows = reader.load()
    except Exception as error:
        raise job_error(
            "RUN-016",
            f"table '{scan.table.name}' cannot be read from its database: {_without_secrets(error, connector)}",
            "the driver's jar must be known to Spark: --conf spark.jars=driver.jar",
            scan.table.span,
        ) from None
    # Databases fold the case of names; the table's own declaration says how they are spelt here.
    known = {name.lower(): name for name in rows.columns}
    types = {c.name: c.type for c in scan.columns}
    for name in scan.names:
        if name.lower() not in known:
            raise job_error(
                "RUN-016",
                f"table '{connector.table_name}' of the database has no column '{name}', which table"
                f" '{scan.table.name}' declares",
                f"its columns are {', '.join(rows.columns)}",
                scan.table.span,
            )
    picked = [
        f.col(f"`{known[n.lower()]}`").cast(spark_ddl(types[n])).alias(column_name(i))
        for i, n in enumerate(scan.names)
    ]
    return rows.select(*picked)


def _without_secrets(error: Exception, connector: JdbcTable) -> str:
    """What a driver says, in a line. It may quote the address, which may hold a password too."""
    said = str(getattr(error, "java_exception", None) or error).strip().partition("\n")[0]
    for secret in filter(None, (connector.url, connector.password)):
        said = said.replace(secret, MASK)
    return said

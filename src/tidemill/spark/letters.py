"""Dead letters: where records and rows go that a job cannot use, and what the kernel is told of it.

In: a job's settings and its tables. Out: the kernel's spec of a sink for letters. Law: a job that writes exactly once
does so with its letters, too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tidemill.changelog import ORDER_COLUMN, ORIGIN_COLUMN
from tidemill.plan import nodes
from tidemill.plan.environment import Job
from tidemill.spark.access import Access
from tidemill.spark.expressions import column_name
from tidemill.tables.kafka import TopicTable

_PLACE_COLUMN = "_place"
"""The hidden column that tells an operator the offset of a row's record; less than 0 where there is none."""


def letter_box(
    name: str, topic: str, properties: Mapping[str, str], job: str | None, writer: str
) -> str:
    """The kernel's spec of a sink for dead letters of `name`. `job`: its id, if it writes exactly once, in which
    `writer` is a name that no other has."""
    target: dict[str, Any] = {
        "table": name,
        "topic": topic,
        "properties": dict(properties),
        "guarantee": "at-least-once",
    }
    if job is None:
        return json.dumps({"sinks": [target]})
    target["guarantee"] = "exactly-once"
    target["transactionalIdPrefix"] = f"tidemill-{job}-{writer}"
    return json.dumps({"job": job, "sinks": [target]})


@dataclass(frozen=True)
class LateRows:
    """The topic for the rows of a job that come too late."""

    topic: str
    properties: Mapping[str, str] = field(repr=False)
    """Of a client of its brokers."""
    writer: str | None
    """The job's id, if it writes exactly once."""

    def spec(
        self, operator: str, channel: str, columns: Sequence[Mapping[str, str]]
    ) -> dict[str, Any]:
        """What an operator is told. `columns`: those that a letter shows, of each of its inputs, with their names."""
        writer = f"late-rows-{channel}"
        box = letter_box(operator, self.topic, self.properties, self.writer, writer)
        return {"sink": box, "operator": operator, "columns": columns}


def shown(node: nodes.Node) -> list[dict[str, str]]:
    """The columns of the inputs of an operator, and what they are called."""
    columns, shift = [], 0
    for child in node.inputs:
        names = nodes.unique_names(column.name for column in child.columns)
        columns.append({column_name(shift + i): name for i, name in enumerate(names)})
        shift += len(child.columns)
    return columns


def late_rows(job: Job, job_id: str, access: Access) -> LateRows | None:
    if job.late_rows is None:
        return None
    topic, table = job.late_rows
    assert isinstance(table.connector, TopicTable)
    properties = access.properties(table.connector)
    return LateRows(topic, properties, job_id if job.exactly_once else None)


def with_place(frame: DataFrame) -> DataFrame:
    """The rows with the places of their records, for an operator whose late rows are letters."""
    known = f"coalesce({ORDER_COLUMN}, -1L)" if ORDER_COLUMN in frame.columns else "-1L"
    placed = frame.withColumn(_PLACE_COLUMN, f.expr(known))
    return placed.drop(ORIGIN_COLUMN, ORDER_COLUMN)

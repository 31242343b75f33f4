"""Event time in lowered plans: who tells it, and who is told.

In: the roots of a job. Out: the nodes that time passes through, from the scans up to the last operator that looks at a
clock. A scan among them has its tasks tell how far its partitions have come, a watermark is looked at where it is
declared, and every operator in between passes on what it is told. Nothing else of a job pays for time.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame

from tidemill import types as t
from tidemill.plan import nodes
from tidemill.spark.java import java_class
from tidemill.tables.kafka import TopicTable

_TIMELY = (
    nodes.WindowAggregate,
    nodes.GroupWindowAggregate,
    nodes.IntervalJoin,
    nodes.TemporalJoin,
    nodes.WindowDeduplicate,
    nodes.WindowJoin,
    nodes.WindowRank,
)


def looks_at_a_clock(node: nodes.Node) -> bool:
    """Whether an operator waits for a time to come."""
    match node:
        case nodes.WindowTableFunction():
            return node.window.kind == "SESSION"
        case nodes.Over() if node.is_on_time:
            return _is_rowtime(node.order[0].expression.type)
        case nodes.Sort() if node.name == "TemporalSort":
            return _is_rowtime(node.order[0].expression.type)
        case nodes.Deduplicate() if waits_for_first(node):
            return True
    return isinstance(node, _TIMELY)


def waits_for_first(node: nodes.Deduplicate) -> bool:
    """Whether a first row is the first by a rowtime: an earlier one may come until the watermark has reached it."""
    plain = type(node) is nodes.Deduplicate and not node.last
    return plain and _is_rowtime(node.input.columns[node.time].type)


def _is_rowtime(type_: t.SqlType) -> bool:
    return t.time_attribute(type_) is t.TimeAttribute.ROWTIME


def timed(roots: Iterable[nodes.Node]) -> frozenset[int]:
    """The identities of the nodes that time passes through."""
    found: set[int] = set()
    for root in roots:
        for node in nodes.walk(root):
            if looks_at_a_clock(node):
                found |= {id(below) for below in nodes.walk(node)}
    return frozenset(found)


def alarm_of(roots: Iterable[nodes.Node]) -> str | None:
    """A name for the alarm of a job in which an operator waits for a time of the machine's own clock."""
    waits = any(_is_by_proctime(node) for root in roots for node in nodes.walk(root))
    return str(uuid4()) if waits else None


def _is_by_proctime(node: nodes.Node) -> bool:
    if not looks_at_a_clock(node):
        return False
    if isinstance(node, nodes.GroupWindowAggregate | nodes.WindowTableFunction):
        return not node.window.rowtime
    if isinstance(node, nodes.IntervalJoin):
        return not node.is_rowtime and not node.is_empty
    if isinstance(node, nodes.TemporalJoin):
        return False
    windows = node.inputs[0].windows
    return windows is not None and not windows.window.rowtime


def source_clock(connector: TopicTable, channel: str, alarm: str | None) -> dict[str, Any]:
    """What a scan is told whose partitions tell their time."""
    given = connector.watermark
    return {
        "channel": channel,
        "idleTimeoutMs": _milliseconds(given.idle_timeout),
        "job": alarm,
        "group": given.alignment_group,
        "driftMs": _milliseconds(given.alignment_max_drift),
    }


def _milliseconds(duration: timedelta | None) -> int:
    return (duration or timedelta(0)) // timedelta(milliseconds=1)


def observe(frame: DataFrame, column: str, watermark: str) -> DataFrame:
    """The same rows, which pass by the table's watermark."""
    spark = frame.sparkSession
    operators = java_class(spark, "io.tidemill.state.Operators")
    return DataFrame(operators.observe(frame._jdf, column, watermark), spark)


def zone_of(type_: t.SqlType, frame: DataFrame) -> str | None:
    """Where the wall clock hangs by which windows are cut; None where the values are its time themselves."""
    if isinstance(type_, t.TimestampLtzType):
        return str(frame.sparkSession.conf.get("spark.sql.session.timeZone"))
    return None

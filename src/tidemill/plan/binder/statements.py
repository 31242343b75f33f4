"""Statements that hold a query: what is looked at, what is written, what is kept for later."""

from __future__ import annotations

from tidemill import types as t
from tidemill.errors import Span, did_you_mean, script_error
from tidemill.plan import nodes
from tidemill.plan.binder.queries import Queries
from tidemill.plan.binder.relations import (
    Catalog,
    hinted,
    named,
)
from tidemill.plan.expressions import (
    Expr,
    Literal,
)
from tidemill.plan.nodes import Node
from tidemill.plan.rules import RANKS, arrange
from tidemill.plan.scope import cast
from tidemill.sql import ast
from tidemill.tables import check_insert
from tidemill.tables.catalog import Column, Table, View
from tidemill.tables.upsert_kafka import UpsertKafkaTable


def bind_query(query: ast.Query, catalog: Catalog) -> Node:
    """A query whose result is looked at."""
    return _finished(bind_view(query, catalog), query.span)


def bind_view(query: ast.Query, catalog: Catalog) -> Node:
    """A query as it was written, to learn its columns, which have names of their own. What can be run of it shows once
    it is used."""
    node = Queries(catalog).query(query, top=True)
    return named(node, nodes.unique_names(c.name for c in node.columns))


def bind_insert(statement: ast.Insert, catalog: Catalog) -> nodes.Sink:
    target = catalog.find(statement.target)
    if isinstance(target, View):
        raise script_error(
            "PLAN-050", f"'{target.name}' is a view and cannot be written", statement.target.span
        )
    if statement.overwrite:
        raise script_error(
            "PLAN-051",
            "INSERT OVERWRITE does not exist for a Kafka topic",
            statement.span,
            "use INSERT INTO",
        )
    if statement.partition:
        raise script_error(
            "PLAN-051",
            "INSERT INTO … PARTITION does not exist for a Kafka topic",
            statement.partition[0][0].span,
            "select the partition's value as a column",
        )
    for hint in statement.hints:
        target = hinted(target, hint, catalog)
    check_insert(target, statement.target.span)
    query = Queries(catalog).query(statement.query, top=True)
    fitted = _fit(statement, query, target)
    sink = nodes.Sink(
        _finished(fitted, statement.query.span),
        target,
        statement.target.span,
        on_conflict=statement.on_conflict,
        enforcement=_enforcement(catalog, statement.target.span),
    )
    if statement.on_conflict and not isinstance(target.connector, UpsertKafkaTable):
        raise script_error(
            "PLAN-052",
            f"ON CONFLICT needs an upsert table, and '{target.name}' is none",
            statement.target.span,
            "leave ON CONFLICT out",
        )
    return sink


def _enforcement(catalog: Catalog, span: Span) -> nodes.Enforcement:
    lengths, nested = (
        (catalog.setting(f"table.exec.sink.{what}-enforcer") or "IGNORE").upper()
        for what in ("type-length", "nested-constraint")
    )
    if (lengths, nested) == ("TRIM_PAD", "ROWS_AND_COLLECTIONS"):
        raise script_error(
            "PLAN-048",
            "Trimming and/or padding is not supported if constraint checking is enabled on types nested in"
            " collections.",
            span,
            "SET 'table.exec.sink.nested-constraint-enforcer' = 'ROWS', or"
            " 'table.exec.sink.type-length-enforcer' = 'ERROR'",
        )
    return nodes.Enforcement(lengths, nested)


def _finished(node: Node, span: Span) -> Node:
    arranged = arrange(node)
    _check_order(arranged, span)
    return arranged


def _check_order(root: Node, span: Span) -> None:
    """What can be sorted without end: by time, or no more than the first rows."""
    for node in nodes.walk(root):
        place = getattr(node, "span", None) or span
        if isinstance(node, nodes.Rank) and node.function != "ROW_NUMBER":
            raise script_error(
                "PLAN-070",
                f"{node.function}() on a streaming table is not supported, as in Flink",
                place,
                "use ROW_NUMBER()",
            )
        if isinstance(node, nodes.WindowRank) and _is_proctime(node):
            raise script_error(
                "PLAN-070",
                "deduplication of a window by processing time is not supported, as in Flink",
                place,
                "order by a rowtime attribute",
            )
        if isinstance(node, nodes.Sort) and node.name == "Sort":
            raise script_error(
                "PLAN-072",
                "Sort on a non-time-attribute field is not supported: the rows never end",
                place,
                "order by a time attribute first, ascending, or add LIMIT",
            )
        if isinstance(node, nodes.Sort) and node.limit is None and node.name != "TemporalSort":
            raise script_error(
                "PLAN-072", "OFFSET needs a LIMIT: the rows never end", place, "add LIMIT"
            )
        if isinstance(node, nodes.Over):
            _check_over(node, place)
        if isinstance(node, nodes.IntervalJoin):
            left = node.left.columns[node.left_time].type
            right = node.right.columns[node.right_time].type
            if not isinstance(left, type(right)):
                raise script_error(
                    "PLAN-079",
                    f"an interval join needs times of one type, but these are {left} and {right}",
                    place,
                    "declare both as TIMESTAMP(3), or both as TIMESTAMP_LTZ(3)",
                )


def _is_proctime(rank: nodes.Rank) -> bool:
    first = rank.order[0].expression.type
    return rank.keeps_one and t.time_attribute(first) is t.TimeAttribute.PROCTIME


def _check_over(node: nodes.Over, place: Span) -> None:
    if node.calls[0].function in RANKS and not node.is_on_time:
        hint = "write WHERE number <= 10 in the query around it: a Top-N can be ordered by anything"
    else:
        hint = "write ORDER BY and a time attribute, ascending"
    if len(node.order) != 1:
        raise script_error(
            "PLAN-070", "an OVER window can only be ordered by a single time column", place, hint
        )
    if node.order[0].descending:
        raise script_error(
            "PLAN-070", "an OVER window can only be ordered in ASCENDING mode", place, hint
        )


def _fit(statement: ast.Insert, query: Node, table: Table) -> Node:
    """Bring the query's columns to the table's, by position, with the casts that need not be written."""
    writable = table.schema.writable
    targets: list[Column] = list(writable)
    if statement.columns:
        targets = []
        for part in statement.columns:
            found = next((c for c in writable if c.name == part.name), None)
            if found is None:
                names = [c.name for c in writable]
                raise script_error(
                    "PLAN-003",
                    f"column '{part.name}' not found in table '{table.name}'",
                    part.span,
                    did_you_mean(part.name, names, f"its columns are {', '.join(names)}"),
                )
            targets.append(found)
    mismatch = len(query.columns) != len(targets)
    wrong = [
        (c, f)
        for c, f in zip(targets, query.columns, strict=False)
        if not t.can_assign(f.type, c.type)
    ]
    if mismatch or wrong:
        schema = ", ".join(f"{c.name}: {c.type.as_nullable}" for c in targets)
        given = ", ".join(f"{f.name}: {f.type.as_nullable}" for f in query.columns)
        cause = (
            "different number of columns"
            if mismatch
            else f"incompatible types for sink column '{wrong[0][0].name}'"
        )
        hint = (
            f"the query has {len(query.columns)}, the table takes {len(targets)}"
            if mismatch
            else f"write CAST(… AS {wrong[0][0].type.as_nullable})"
        )
        raise script_error(
            "PLAN-053",
            f"Column types of query result and sink for '{table.identifier}' do not match. Cause: {cause}."
            f" Query schema: [{given}]. Sink schema: [{schema}]",
            statement.query.span,
            hint,
        )
    at = {c.name: i for i, c in enumerate(targets)}
    span = statement.query.span
    expressions: list[Expr] = []
    for column in writable:
        if column.name in at:
            given_column = nodes.input_of(query, at[column.name])
            expressions.append(cast(given_column, column.type, span))
        elif column.type.nullable:
            expressions.append(Literal(column.type.as_nullable, None))
        else:
            raise script_error(
                "PLAN-054",
                f"column '{column.name}' of '{table.name}' is NOT NULL and needs a value",
                span,
            )
    written = tuple(c.name for c in writable)
    return nodes.project(query, expressions, written)

"""What a job reads of Kafka.

In: the roots of its plan. Out: each table that it scans, with the columns, and of those the fields, that any of its
queries wants. Law: a table is read once, however many queries scan it, unless its rows meet their watermark only
further up; rows that none of them wants do not go on to them.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tidemill.plan import nodes
from tidemill.plan.expressions import Expr, Input, conjunction, moved, rewrite
from tidemill.plan.narrowing import NOTHING, Asked, Part, asked_of_scans, narrowed, together
from tidemill.spark.expressions import to_sql
from tidemill.spark.java import java_class
from tidemill.tables.catalog import Physical, Table
from tidemill.tables.kafka import TopicTable
from tidemill.types import SqlType


@dataclass(frozen=True)
class Watermark:
    """That of a table, over the columns of one scan of it."""

    names: tuple[str, ...]
    time: Expr
    expression: Expr

    def sql(self, names: Sequence[str]) -> tuple[str, str]:
        """The rowtime and the watermark after a row, over other columns, which have those of the scan among them."""
        places = {i: names.index(name) for i, name in enumerate(self.names)}
        return to_sql(moved(self.time, places)), to_sql(moved(self.expression, places))


@dataclass
class Read:
    """A Kafka table that a job reads, once, however many of its queries scan it."""

    table: Table
    names: tuple[str, ...]
    """The columns that any of them wants."""
    every_partition: bool
    """Whether a partition without new records has a task too, so that all tasks keep their numbers."""
    tells_origin: bool
    """Whether the changes of any of them have to be put in Kafka's order, or rows have to tell their records."""
    timed: bool
    """Whether any of them asks how far time has come."""
    watermark: Watermark | None
    scans: int = 1
    frame: DataFrame | None = None
    """Where it has been lowered already."""
    alone: int | None = None
    """The identity of its only scan, which shares it with nobody."""
    parts: dict[str, Part] = field(default_factory=dict)
    """What of its columns any of them wants."""
    wanted: list[tuple[tuple[str, ...], list[Expr]]] = field(default_factory=list)
    """For each way that its rows go, what they must fulfil, over columns with these names."""

    @property
    def is_shared(self) -> bool:
        return self.scans > 1

    @property
    def types(self) -> Mapping[str, SqlType]:
        """Of the ROW columns of which only some fields are wanted, the types with just these."""
        found: dict[str, SqlType] = {}
        for column in self.table.schema.columns:
            part = self.parts.get(column.name)
            if part and isinstance(column, Physical):
                found[column.name] = narrowed(column.type, part)
        return found

    @property
    def kept(self) -> str | None:
        """Spark's SQL for the rows that anybody wants; None: all."""
        if not all(conditions for _, conditions in self.wanted):
            return None
        ways = (
            to_sql(moved(conjunction(c), {i: self.names.index(n) for i, n in enumerate(names)}))
            for names, c in self.wanted
        )
        return " OR ".join(f"({way})" for way in dict.fromkeys(ways))

    def ask(self, names: tuple[str, ...], asked: Asked) -> None:
        for name, part in zip(names, asked.parts, strict=True):
            self.parts[name] = together(self.parts.get(name, NOTHING), part)
        self.wanted += [(names, conditions) for conditions in asked.conditions]


def reads_of(
    roots: Sequence[nodes.Node],
    every_partition: bool = False,
    timed: Container[int] = (),
    tells_origin: bool = False,
) -> list[Read]:
    """`timed`: identities of the nodes that time passes through; `tells_origin`: whether the rows of those tell their
    records, and in which task they were read."""
    reads: list[Read] = []
    found = [n for root in roots for n in nodes.walk(root)]
    ordered = {
        id(below)
        for node in found
        if isinstance(node, nodes.ChangelogNormalize)
        for below in nodes.walk(node)
    }
    watermarks = _watermarks(found)
    asked = asked_of_scans(roots)
    met: set[int] = set()
    for node in found:
        if not isinstance(node, nodes.Scan) or not isinstance(node.table.connector, TopicTable):
            continue
        is_timed, is_ordered = id(node) in timed, id(node) in ordered
        watermark = watermarks.get(id(node))
        is_alone = is_timed and (tells_origin or (id(node) in watermarks and watermark is None))
        read = None
        if not is_alone:
            read = next((r for r in reads if r.table == node.table and r.alone is None), None)
        if read is None:
            origin = is_ordered or (is_timed and tells_origin)
            read = Read(node.table, node.names, every_partition, origin, is_timed, watermark)
            read.alone = id(node) if is_alone else None
            reads.append(read)
        else:
            read.names = tuple(dict.fromkeys(read.names + node.names))
            read.scans += 1
            read.tells_origin = read.tells_origin or is_ordered
            read.timed = read.timed or is_timed
            read.watermark = read.watermark or watermark
        if id(node) not in met:
            met.add(id(node))
            read.ask(node.names, asked[id(node)])
    return reads


def read_of(reads: Sequence[Read], scan: nodes.Scan) -> tuple[int, Read]:
    """What a scan has its rows from, and its number."""
    numbered = [(i, r) for i, r in enumerate(reads) if r.table == scan.table]
    own = (found for found in numbered if found[1].alone == id(scan))
    return next(own, None) or next(found for found in numbered if found[1].alone is None)


def _watermarks(found: Sequence[nodes.Node]) -> dict[int, Watermark | None]:
    """By the identities of scans, the watermarks that their rows meet; None where they do so only further up."""
    watermarks: dict[int, Watermark | None] = {}
    for node in found:
        if isinstance(node, nodes.WatermarkAssigner):
            scan = scan_below(node)
            if scan is None:
                watermarks |= {id(below): None for below in nodes.walk(node)}
                continue
            time: Expr = nodes.all_inputs(node.input)[node.column]
            expression, below = node.expression, node.input
            while isinstance(below, nodes.Project):
                time, expression = (_over(below, e) for e in (time, expression))
                below = below.input
            watermarks[id(scan)] = Watermark(scan.names, time, expression)
    return watermarks


def scan_below(node: nodes.WatermarkAssigner) -> nodes.Scan | None:
    """The scan whose very rows a watermark is assigned to, with computed columns or without."""
    below = node.input
    while isinstance(below, nodes.Project):
        below = below.input
    return below if isinstance(below, nodes.Scan) else None


def _over(project: nodes.Project, expression: Expr) -> Expr:
    """An expression over what a projection gives, as one over what it gets."""

    def change(part: Expr) -> Expr | None:
        return project.expressions[part.index] if isinstance(part, Input) else None

    return rewrite(expression, change)


def shared(rows: DataFrame, read: Read) -> DataFrame:
    """The same rows behind an exchange, which Spark runs once for all who read it. Every task's rows go to one reader,
    in their order."""
    spark = rows.sparkSession
    readers = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    kept = read.kept
    if read.timed:
        time, watermark = read.watermark.sql(read.names) if read.watermark else (None, None)
        operators = java_class(spark, "io.tidemill.state.Operators")
        return DataFrame(operators.share(rows._jdf, time, watermark, kept, readers), spark)
    if kept is not None:
        rows = rows.where(kept)
    # The optimizer must not move a query's filters or its choice of columns below the exchange, or each query would
    # have an exchange of its own. Filters do not pass one that depends on the partition, though it is always true;
    # columns stay that the exchange itself mentions, though it never looks.
    mentioned = " OR ".join(f"isnull({name})" for name in rows.columns)
    task = "spark_partition_id()"
    reader = f"IF({task} >= 0, pmod({task}, {readers}), CAST({mentioned} AS INT))"
    return rows.repartitionById(readers, f.expr(reader)).where(f"{task} >= 0")

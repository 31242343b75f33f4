"""Advice: what is right in a script, and may be regretted all the same.

In: a script's tree and the jobs that were made of it. Out: warnings in the order of the script, each with a code that
has a page in docs/errors.md. Law: advice stops nothing, points at what the user wrote, and is silent where the user
has decided already: a TTL for state, a variable for a secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

from tidemill import types as t
from tidemill.changelog import RowKind
from tidemill.errors import Diagnostic, Span, in_script_order
from tidemill.plan import nodes
from tidemill.plan.environment import Job
from tidemill.plan.expressions import Call, walk
from tidemill.plan.functions import non_deterministic
from tidemill.plan.loops import shared_topics, topic_tables
from tidemill.plan.modes import Modes
from tidemill.sql import ast
from tidemill.tables.catalog import Table
from tidemill.tables.kafka import TopicTable
from tidemill.tables.options import holds_secret, is_secret

CODES: Mapping[str, str] = {
    "ADV-001": "state that grows without bound",
    "ADV-002": "a watermark that nothing uses",
    "ADV-003": "a non-deterministic function under retraction",
    "ADV-004": "a query's key is not the key of its sink",
    "ADV-005": "a topic is read and written by one script",
    "ADV-006": "a secret in clear text",
    "ADV-007": "a rowtime column finer than milliseconds",
}
"""Every code of advice, with its title in the error index."""


def advise(script: ast.Script, jobs: Iterable[Job]) -> list[Diagnostic]:
    """All that is worth a word, each thing once."""
    known = list(jobs)
    plans = [
        _Plan(job, root, modes)
        for job in known
        for root, modes in zip(job.roots, job.modes, strict=True)
    ]
    found = [
        *_secrets(script),
        *_fine_rowtimes(script),
        *_unused_watermarks(script, plans),
        *_loops(known),
        *(d for plan in plans for rule in _PLAN_RULES for d in rule(plan)),
    ]
    sources = [statement.span.source for statement in script.statements]
    return in_script_order(dict.fromkeys(found), list(dict.fromkeys(sources)))


@dataclass(frozen=True)
class _Plan:
    """One sink (or SELECT) of a job."""

    job: Job
    root: nodes.Root
    modes: Modes

    @property
    def span(self) -> Span:
        own = self.root.span if isinstance(self.root, nodes.Sink) else None
        return own or self.job.span

    @property
    def nodes(self) -> Iterator[nodes.Node]:
        return nodes.walk(self.root)


def _warning(code: str, message: str, span: Span | None, hint: str) -> Diagnostic:
    return Diagnostic(code, message, span, hint, severity="warning")


# --- state ---------------------------------------------------------------------------------------

_TTL = "table.exec.state.ttl"


def _names(node: nodes.Node, columns: Iterable[int]) -> str:
    return ", ".join(node.columns[c].name for c in columns)


def _of_group(node: nodes.Aggregate) -> str | None:
    if node.keys:
        return f"keeps every ({_names(node.input, node.keys)}) that it has seen"
    if any(call.distinct for call in node.calls):
        return "keeps every distinct value that it has seen"
    return None


def _of_rank(node: nodes.Rank) -> str | None:
    if node.partition:
        return f"keeps rows for every ({_names(node.input, node.partition)}) that it has seen"
    return None if node.input.kinds.insert_only else "keeps every row of its input"


def _of_over(node: nodes.Over) -> str | None:
    if not node.is_on_time:
        return "keeps every row of its input"
    ends = node.frame.preceding is not None and not node.frame.rows
    if ends or not node.partition:
        return None
    return (
        f"keeps a running value for every ({_names(node.input, node.partition)}) that it has seen"
    )


def _of_sort(node: nodes.Sort) -> str | None:
    cut = node.limit is not None and node.input.kinds.insert_only
    return None if cut or node.is_on_time else "keeps every row of its input"


def _nothing(node: nodes.Node) -> None:
    return None


_GROWTH: tuple[tuple[type[nodes.Node], Callable[..., str | None]], ...] = (
    (nodes.WindowAggregate, _nothing),
    (nodes.Aggregate, _of_group),
    (nodes.WindowJoin, _nothing),
    (nodes.IntervalJoin, _nothing),
    (nodes.LookupJoin, _nothing),
    (
        nodes.TemporalJoin,
        lambda n: (
            f"keeps the versions of every ({_names(n.right, sorted(n.right_keys))}) of its right side"
        ),
    ),
    (nodes.Join, lambda n: "keeps every row of both sides"),
    (
        nodes.ChangelogNormalize,
        lambda n: f"keeps the last row of every ({_names(n, n.keys)}) that it has seen",
    ),
    (nodes.WindowDeduplicate, _nothing),
    (
        nodes.Deduplicate,
        lambda n: f"keeps every ({_names(n.input, n.keys)}) that it has seen",
    ),
    (nodes.WindowRank, _nothing),
    (nodes.Rank, _of_rank),
    (nodes.Over, _of_over),
    (nodes.Sort, _of_sort),
)
"""What a kind of operator keeps for ever, the most special kind first; None: nothing that grows."""


def _growth(node: nodes.Node) -> str | None:
    return next((why(node) for kind, why in _GROWTH if isinstance(node, kind)), None)


def _growing_state(plan: _Plan) -> Iterator[Diagnostic]:
    ttl = plan.job.settings.get(_TTL)
    if isinstance(ttl, timedelta) and ttl > timedelta(0):
        return
    for node in plan.nodes:
        why = _growth(node)
        if why and not _is_bounded(node) and not _is_over_one_row(node):
            yield _warning(
                "ADV-001",
                f"the state of {node.describe()} grows without bound: it {why}",
                plan.span,
                f"SET '{_TTL}' = '1 d' forgets what has been idle that long; over a window, state ends with it",
            )


def _is_bounded(node: nodes.Node) -> bool:
    scans = (n for n in nodes.walk(node) if isinstance(n, nodes.Scan))
    return all(scan.table.connector.is_bounded for scan in scans)


def _is_over_one_row(node: nodes.Node) -> bool:
    """A key without columns: whatever changes is the same row."""
    return all(frozenset() in child.upsert_keys for child in node.inputs)


# --- time ----------------------------------------------------------------------------------------


_WATERMARK_FUNCTIONS = ("CURRENT_WATERMARK", "SOURCE_WATERMARK")


def _clock(node: nodes.Node) -> t.SqlType | None:
    """The type of the column by which a node works in time; None for nodes that do not."""
    match node:
        case nodes.WindowTableFunction(input=below, time=time):
            return below.columns[time].type
        case nodes.GroupWindowAggregate(input=below, time=time):
            return below.columns[time].type
        case nodes.Deduplicate(input=below, time=time):
            return below.columns[time].type
        case (
            nodes.IntervalJoin(left=left, left_time=time) | nodes.TemporalJoin(left=left, time=time)
        ):
            return left.columns[time].type
        case nodes.Over(order=order) | nodes.Match(order=order):
            return order[0].expression.type if order else None
        case nodes.Sort(order=order) if node.is_on_time:
            return order[0].expression.type
    return None


def _uses_rowtime(node: nodes.Node) -> bool:
    """Whether a node waits for the watermarks of what is below it."""
    clock = _clock(node)
    if clock is not None and t.time_attribute(clock) is t.TimeAttribute.ROWTIME:
        return True
    return any(
        isinstance(part, Call) and part.function in _WATERMARK_FUNCTIONS
        for expr in nodes.expressions(node)
        for part in walk(expr)
    )


def _unused_watermarks(script: ast.Script, plans: Iterable[_Plan]) -> Iterator[Diagnostic]:
    read: dict[str, Table] = {}
    used: set[str] = set()
    for plan in plans:
        for node in plan.nodes:
            if isinstance(node, nodes.Scan) and node.table.schema.watermark:
                read[node.table.identifier] = node.table
            if _uses_rowtime(node):
                below = (n for n in nodes.walk(node) if isinstance(n, nodes.Scan))
                used |= {scan.table.identifier for scan in below}
    clauses = {
        statement.name.span: statement.watermark.span
        for statement in script.statements
        if isinstance(statement, ast.CreateTable) and statement.watermark
    }
    for identifier, table in read.items():
        if identifier not in used:
            assert table.schema.watermark is not None
            yield _warning(
                "ADV-002",
                f"nothing uses the watermark of table '{table.name}': no query works on the time of"
                f" '{table.schema.watermark.column}'",
                clauses.get(table.span, table.span) if table.span else None,
                "leave the WATERMARK out, or put the rows into windows: TUMBLE(TABLE …, DESCRIPTOR(…), …)",
            )


def _fine_rowtimes(script: ast.Script) -> Iterator[Diagnostic]:
    for statement in script.statements:
        if not isinstance(statement, ast.CreateTable) or statement.watermark is None:
            continue
        rowtime = statement.watermark.column.parts[0].name
        for column in statement.columns:
            if column.name.name != rowtime or not isinstance(
                column, (ast.PhysicalColumn, ast.MetadataColumn)
            ):
                continue
            if isinstance(column.type, t.TIMESTAMP_TYPES) and column.type.precision > 3:
                yield _warning(
                    "ADV-007",
                    f"rowtime column '{rowtime}' is {column.type.as_nullable}, which Flink refuses; it is taken as"
                    f" {column.type.root}(3)",
                    column.type_span,
                    f"write {column.type.root}(3)",
                )


# --- retraction ----------------------------------------------------------------------------------


def _unstable_functions(plan: _Plan) -> Iterator[Diagnostic]:
    for node in plan.nodes:
        retracted = any(RowKind.UPDATE_BEFORE in plan.modes.of(child) for child in node.inputs)
        if not retracted:
            continue
        calls = (call for expr in nodes.expressions(node) for call in non_deterministic(expr))
        for name in sorted({call.function for call in calls}):
            yield _warning(
                "ADV-003",
                f"{name} is not deterministic and its input is updated: the row that is taken back will not equal the"
                " one that was given",
                plan.span,
                "compute it before the rows are grouped or joined, or leave it out",
            )


def _other_keys(plan: _Plan) -> Iterator[Diagnostic]:
    sink = plan.root
    if not isinstance(sink, nodes.Sink) or not sink.materialize:
        return
    keys = sink.input.upsert_keys
    own = min(keys, key=lambda k: (len(k), sorted(k)), default=frozenset[int]())
    shown = (
        f"the query's own key is ({_names(sink.input, sorted(own))})"
        if own
        else "the query has no key"
    )
    yield _warning(
        "ADV-004",
        f"{shown}, but '{sink.table.name}' is written by ({', '.join(sink.table.schema.primary_key)}): rows of"
        " different keys overwrite each other, and all of them are kept to put them in order",
        plan.span,
        "make the PRIMARY KEY of the table the key of the query, or group by it",
    )


# --- topics and secrets --------------------------------------------------------------------------


def _loops(jobs: list[Job]) -> Iterator[Diagnostic]:
    sources = [(job, c) for job in jobs for c in topic_tables(job.sources)]
    for job in jobs:
        for root in job.roots:
            sink = root.table if isinstance(root, nodes.Sink) else None
            if sink is None or not isinstance(sink.connector, TopicTable):
                continue
            for reader, (source, read) in sources:
                topics = shared_topics(read, sink.connector)
                if not topics:
                    continue
                own = reader is job
                yield _warning(
                    "ADV-005",
                    f"topic '{topics[0]}' is written here and read through '{source.name}' by "
                    + ("the same job, which feeds itself" if own else "another job of this script"),
                    root.span if isinstance(root, nodes.Sink) and root.span else job.span,
                    "write to another topic"
                    if own
                    else "start it at 'earliest-offset', or put the query between them into a VIEW",
                )


def _secrets(script: ast.Script) -> Iterator[Diagnostic]:
    for statement in script.statements:
        for option in _options(statement):
            if option.value and "${" not in option.value_span.text and _is_secret(option):
                yield _warning(
                    "ADV-006",
                    f"the secret of '{option.key}' stands in the script in clear text",
                    option.span,
                    "write '${env:NAME}' or '${file:path}', or '${NAME}' and give it with --var NAME=…",
                )


# Keys that speak of a secret and only say where or how it is found.
_NO_SECRET = re.compile(r"(url|uri|location|path|file|class|type|mechanism)$")


def _is_secret(option: ast.Option) -> bool:
    named = is_secret(option.key) and not _NO_SECRET.search(option.key)
    return named or holds_secret("", option.value)


def _options(statement: ast.Statement) -> tuple[ast.Option, ...]:
    match statement:
        case ast.CreateTable(options=options) | ast.CreateCatalog(options=options):
            return options
        case ast.Alter(change=ast.SetOptions(options=options)):
            return options
        case ast.SetOption(option=ast.Option() as option):
            return (option,)
    return ()


_PLAN_RULES = (_growing_state, _unstable_functions, _other_keys)

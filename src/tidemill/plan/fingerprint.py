"""What of a plan a checkpoint depends on. In: the roots of a job and their modes. Out: a `Fingerprint`, which travels
as JSON, and the first difference of two.

Law: a checkpoint goes on where each of its offsets still belongs to the same topics, and each of its states to the same
operator, fed by the same rows. What comes after the last operator with state may change, and so may what changes no row
that it is fed with: the names of columns and tables, options of formats, watermarks. All else is told by its node.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidemill import types as t
from tidemill.errors import Span
from tidemill.functions import PythonFunction
from tidemill.plan import nodes
from tidemill.plan.expressions import (
    AggregateCall,
    Call,
    Expr,
    Input,
    Literal,
    SortKey,
    UserCall,
)
from tidemill.plan.modes import Modes
from tidemill.tables.catalog import Metadata
from tidemill.tables.kafka import TopicTable

VERSION = 1
"""Of the form below; a release that changes it still reads the older ones."""

# Nodes that remember rows. Of the others, a sink does where it puts changes in order, a window where it is a session.
STATEFUL: tuple[type[nodes.Node], ...] = (
    nodes.Aggregate,
    nodes.ChangelogNormalize,
    nodes.Deduplicate,
    nodes.GroupWindowAggregate,
    nodes.Join,
    nodes.Match,
    nodes.Over,
    nodes.Rank,
    nodes.Sort,
)
STATELESS: tuple[type[nodes.Node], ...] = (
    nodes.Collect,
    nodes.Correlate,
    nodes.DropUpdateBefore,
    nodes.Expand,
    nodes.Filter,
    nodes.Project,
    nodes.Scan,
    nodes.Sink,
    nodes.Union,
    nodes.Values,
    nodes.WatermarkAssigner,
    nodes.WindowTableFunction,
)


def has_state(node: nodes.Node) -> bool:
    if isinstance(node, nodes.Sink):
        return node.materialize
    if isinstance(node, nodes.WindowTableFunction):
        return node.window.kind == "SESSION"
    if isinstance(node, nodes.IntervalJoin):
        return not node.is_empty
    if isinstance(node, nodes.LookupJoin):
        return False
    return isinstance(node, STATEFUL)


@dataclass(frozen=True)
class Part:
    """A node with all below it, as a checkpoint remembers it."""

    shown: str
    """As EXPLAIN has it, for people; names may change."""
    facts: Mapping[str, str] = field(hash=False)
    """What must not change."""
    inputs: tuple[Part, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)
    """Its place in the script, or None if it has none of its own."""

    @property
    def name(self) -> str:
        return self.shown.partition("(")[0]

    def is_like(self, other: Part) -> bool:
        """Whether it is the same in all that matters, with all below it."""
        return (
            self.facts == other.facts
            and len(self.inputs) == len(other.inputs)
            and all(map(Part.is_like, self.inputs, other.inputs))
        )

    def to_json(self) -> dict[str, Any]:
        below = [part.to_json() for part in self.inputs]
        return {"shown": self.shown, "facts": dict(self.facts), "inputs": below}

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> Part:
        below = tuple(Part.from_json(part) for part in stored["inputs"])
        return Part(stored["shown"], stored["facts"], below)


@dataclass(frozen=True)
class Feed:
    """Where a scan's offsets belong. Spark keeps them by the scan's place in the plan, each scan for itself."""

    connector: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    span: Span | None = field(default=None, compare=False, repr=False)

    def covers(self, old: Feed) -> bool:
        """Whether all that was read is still read. A topic that has come is read like a new partition."""
        same = self.connector == old.connector and self.pattern == old.pattern
        return same and set(old.topics) <= set(self.topics)

    @property
    def part(self) -> Part:
        where = f"topic-pattern=[{self.pattern}]" if self.pattern else ""
        where = f"topic=[{', '.join(self.topics)}]" if self.topics else where
        return Part(f"{self.connector}({where})", {}, span=self.span)


@dataclass(frozen=True)
class Fingerprint:
    feeds: tuple[Feed, ...]
    """Of every scan, in the order in which Spark numbers them."""
    operators: tuple[Part, ...]
    """Those with state after which no other comes, in the order in which Spark numbers them."""
    flow: str
    """A digest of how rows find their writers: while it is the same, a writer gets the same rows in a batch that is run
    again."""

    @property
    def is_stateless(self) -> bool:
        return not self.operators

    def to_json(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "feeds": [
                {"connector": f.connector, "topics": f.topics, "pattern": f.pattern}
                for f in self.feeds
            ],
            "operators": [part.to_json() for part in self.operators],
            "flow": self.flow,
        }

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> Fingerprint:
        if stored["version"] > VERSION:
            raise ValueError(stored["version"])
        return Fingerprint(
            tuple(Feed(f["connector"], tuple(f["topics"]), f["pattern"]) for f in stored["feeds"]),
            tuple(Part.from_json(part) for part in stored["operators"]),
            stored["flow"],
        )


# --- taking it -----------------------------------------------------------------------------------


def fingerprint(roots: Sequence[nodes.Root], modes: Sequence[Modes]) -> Fingerprint:
    """`modes`: of each root."""
    return Fingerprint(
        tuple(_feed(n) for root in roots for n in nodes.walk(root) if _is_source(n)),
        tuple(
            part for root, own in zip(roots, modes, strict=True) for part in _operators(root, own)
        ),
        _flow(roots, modes),
    )


def _is_source(node: nodes.Node) -> bool:
    return isinstance(node, nodes.Scan | nodes.Values)


def _feed(node: nodes.Node) -> Feed:
    if not isinstance(node, nodes.Scan):
        return Feed("values")
    connector = node.table.connector
    if not isinstance(connector, TopicTable):
        return Feed(type(connector).__name__.removesuffix("Table").lower(), span=node.table.span)
    topics = tuple(sorted(connector.topics))
    return Feed("kafka", topics, connector.topic_pattern, node.table.span)


def _operators(node: nodes.Node, modes: Modes) -> Iterator[Part]:
    if has_state(node):
        yield _part(node, modes)
        return
    for child in node.inputs:
        yield from _operators(child, modes)


def _part(node: nodes.Node, modes: Modes) -> Part:
    while _changes_no_row(node):
        [node] = node.inputs
    below = tuple(_part(child, modes) for child in node.inputs)
    facts = _facts(node)
    if has_state(node):
        # What an operator must remember depends on the changes that come to it.
        facts["arriving"] = " ".join(str(modes.of(child)) for child in node.inputs)
    return Part(node.describe(), facts, below, _span(node))


def _changes_no_row(node: nodes.Node) -> bool:
    """Whether it only gives names, or says how time goes on."""
    if isinstance(node, nodes.Project):
        whole = len(node.expressions) == len(node.input.columns)
        return whole and all(
            isinstance(e, Input) and e.index == i for i, e in enumerate(node.expressions)
        )
    return isinstance(node, nodes.WatermarkAssigner)


def _span(node: nodes.Node) -> Span | None:
    if isinstance(node, nodes.Scan):
        return node.table.span
    found = getattr(node, "span", None)
    return found if isinstance(found, Span) else None


# Fields that only name columns, that say how long state is kept, or that stand for something else which is told.
_UNTOLD = frozenset(
    ["input", "left", "right", "parts", "names", "span", "table", "enforcement", "ttls"]
)


def _facts(node: nodes.Node) -> dict[str, str]:
    """A field that a node gets in a later release is among them, too, unless it is as it was before there was one."""
    facts = {"node": type(node).__name__, "types": _types(node)}
    if isinstance(node, nodes.Scan):
        facts |= _scan_facts(node)
    elif isinstance(node, nodes.Sink):
        facts["key"] = _text(sorted(node.key))
    # Who remembers rows by their key, and how updates find them, follows from the keys below.
    facts["upsertKeys"] = _text(sorted(sorted(key) for key in node.upsert_keys))
    for each in dataclasses.fields(node):
        value = getattr(node, each.name)
        if each.name not in _UNTOLD and value != each.default:
            # Whether a rank has its number as a column, not the column's name.
            told = value is not None if each.name == "number" else value
            facts[each.name] = _text(told)
    return facts


def _scan_facts(node: nodes.Scan) -> dict[str, str]:
    connector = node.table.connector
    facts = {"changes": ",".join(node.kinds.names)}
    if not isinstance(connector, TopicTable):
        return facts | {"connector": type(connector).__name__, "fields": ", ".join(node.names)}
    formats = [f.name for f in (connector.key_format, connector.value_format) if f is not None]
    where = {column: f"value.{name}" for column, name in connector.value_columns}
    where |= {column: f"key.{name}" for column, name in connector.key_columns}
    known = {c.name: c for c in node.table.schema.columns}
    where |= {n: f"metadata.{c.key}" for n, c in known.items() if isinstance(c, Metadata)}
    feed = _feed(node)
    return facts | {
        "topic": ", ".join(feed.topics) or f"pattern {feed.pattern}",
        "format": ", ".join(formats),
        "fields": ", ".join(where[n] for n in node.names),
    }


def _types(node: nodes.Node) -> str:
    columns = node.input.columns if isinstance(node, nodes.Sink) else node.columns
    return ", ".join(str(t.materialized(c.type)) for c in columns)


def _text(value: object) -> str:
    """A value in a form that is equal where it means the same: columns by their place, constants with their types."""
    match value:
        case Input():
            return f"${value.index}"
        case Literal():
            return f"{value.value!r}:{value.type}"
        case UserCall():
            return f"{value.implementation.implementation}({_texts(value.arguments)}):{value.type}"
        case Call(function="CAST" | "TRY_CAST"):
            return f"{value.function}({_texts(value.arguments)} AS {value.type})"
        case Call():
            return f"{value.function}({_texts(value.arguments)})"
        case AggregateCall():
            distinct = "DISTINCT " if value.distinct else ""
            made = value.implementation
            function = value.function if made is None else made.implementation
            text = f"{function}({distinct}{_texts(value.arguments)}):{value.type}"
            text += f" FILTER {_text(value.filter)}" if value.filter is not None else ""
            return text + (f" ORDER BY {_texts(value.order_by)}" if value.order_by else "")
        case SortKey():
            way = "DESC" if value.descending else "ASC"
            nulls = "LAST" if value.nulls_last else "FIRST"
            return f"{_text(value.expression)} {way} NULLS {nulls}"
        case Expr():
            raise TypeError(type(value))
        case t.Field():
            return str(t.materialized(value.type))
        case PythonFunction():
            return value.implementation
        case str() | int() | bool() | None:
            return str(value)
        case tuple() | list():
            return f"({_texts(value)})"
        case frozenset():
            return f"({_texts(sorted(value))})"
    if dataclasses.is_dataclass(value):
        told = (f"{f.name}={_text(getattr(value, f.name))}" for f in dataclasses.fields(value))
        return f"{type(value).__name__}({', '.join(told)})"
    raise TypeError(type(value))


def _texts(values: Iterable[object]) -> str:
    return ", ".join(_text(v) for v in values)


_PASSING = (
    nodes.Correlate,
    nodes.DropUpdateBefore,
    nodes.Expand,
    nodes.Filter,
    nodes.Project,
    nodes.WatermarkAssigner,
)


def _flow(roots: Sequence[nodes.Root], modes: Sequence[Modes]) -> str:
    """Rows stay in the task that has read or made them, unless a sink sends them to writers by what they hold."""
    shapes = [_shape(root, own) for root, own in zip(roots, modes, strict=True)]
    return hashlib.sha256(json.dumps(shapes).encode()).hexdigest()[:16]


def _shape(node: nodes.Node, modes: Modes) -> object:
    below: list[object] = [_shape(child, modes) for child in node.inputs]
    if isinstance(node, nodes.Sink):
        connector = node.table.connector
        if isinstance(connector, TopicTable) and connector.sink_parallelism is not None:
            return _part(node, modes).to_json()
    if isinstance(node, _PASSING):
        return below[0]
    return [type(node).__name__, *below]


# --- comparing two -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """Two nodes at the same place of which the checkpoint knows one and the script has the other."""

    old: Part | None
    new: Part | None
    operator: str | None = None
    """The operator with state that they feed; None if they are one themselves, or nothing has state."""

    @property
    def span(self) -> Span | None:
        return self.new.span if self.new is not None else None

    def __str__(self) -> str:
        feeding = f", which feeds {self.operator}" if self.operator else ""
        if self.old is None or self.new is None:
            if self.new is not None:
                return f"it knows nothing of {self.new.shown}{feeding}"
            assert self.old is not None
            return f"it has {self.old.shown}{feeding}, and the script no longer does"
        old, new = _side_by_side(self.old, self.new)
        return f"it has {old}{feeding}, where the script has {new}"


def _side_by_side(old: Part, new: Part) -> tuple[str, str]:
    """Both as they are shown, and what nobody could see there."""
    is_seen, is_scan = old.shown != new.shown, "topic" in new.facts
    hidden = [
        name
        for name, fact in new.facts.items()
        if old.facts.get(name) != fact and (not is_seen or is_scan and name in _UNSEEN)
    ]
    return _with(old, hidden), _with(new, hidden)


# Facts of a scan that its shown form does not hold.
_UNSEEN = frozenset(["topic", "format", "types"])


def _with(part: Part, facts: Iterable[str]) -> str:
    told = [f"{name}=[{part.facts.get(name, '')}]" for name in facts]
    if not told:
        return part.shown
    head = part.shown.removesuffix(")")
    return f"{head}{'' if head.endswith('(') else ', '}{', '.join(told)})"


def difference(old: Fingerprint, new: Fingerprint) -> Difference | None:
    """The first thing that keeps a job from going on from a checkpoint; None: it goes on."""
    for at in range(max(len(old.operators), len(new.operators))):
        before = old.operators[at] if at < len(old.operators) else None
        now = new.operators[at] if at < len(new.operators) else None
        if before is None or now is None:
            return Difference(before, now)
        found = _first(before, now)
        if found is not None:
            return found
    for at in range(max(len(old.feeds), len(new.feeds))):
        was = old.feeds[at] if at < len(old.feeds) else None
        is_ = new.feeds[at] if at < len(new.feeds) else None
        if was is None or is_ is None or not is_.covers(was):
            return Difference(was.part if was else None, is_.part if is_ else None)
    return None


def _first(old: Part, new: Part) -> Difference | None:
    """What a reader would call the change: the first node that reads differently, or else the last one that is so."""
    if old.is_like(new):
        return None
    found = list(_differing(old, new, None))
    for pair in found:
        if pair.old is None or pair.new is None or pair.old.shown != pair.new.shown:
            return pair
    return found[-1]


def _differing(old: Part, new: Part, operator: str | None) -> Iterator[Difference]:
    """Pairs from the top, of which each has a difference in it or below it."""
    if old.is_like(new):
        return
    if old.facts["node"] != new.facts["node"] or len(old.inputs) != len(new.inputs):
        come, gone = _before(new, old), _before(old, new)
        if come is not None:
            yield Difference(None, come, operator)
        elif gone is not None:
            yield Difference(gone, None, operator)
        else:
            yield Difference(old, new, operator)
        return
    yield Difference(old, new, operator)
    kind = old.facts["node"]
    feeds = new.name if kind in _STATEFUL_NAMES else operator
    for before, now in zip(old.inputs, new.inputs, strict=True):
        yield from _differing(before, now, feeds)


def _before(part: Part, other: Part) -> Part | None:
    """Of the nodes that stand before one of the other's kind, the one that says most: a projection says least."""
    passed = []
    while part.facts["node"] != other.facts["node"]:
        passed.append(part)
        if len(part.inputs) != 1:
            return None
        [part] = part.inputs
    telling = [each for each in passed if each.facts["node"] != "Project"]
    return (telling or passed)[0]


_STATEFUL_NAMES = frozenset(
    name
    for name in nodes.__all__
    if isinstance(kind := getattr(nodes, name), type) and issubclass(kind, STATEFUL)
) | {"Sink"}

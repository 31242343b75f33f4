"""Parity cases, their recorded answers, and sheets of expressions, as text. Standard library only.

In: `cases/<area>/<behaviour>.case` or `sheets/<area>.sheet`, and the `.answer` beside it. Out: frozen
values, and the text of an answer. Law: a file that says anything unclear is refused with file and line,
an answer of another Flink than FLINK too, and `read_answer(write_answer(a))` is `a`.

    # One sentence: what the case shows.
    == topic in partitions=2 message.timestamp.type=LogAppendTime
    {"id": 1}
    @{"partition": 1, "key": "k", "timestamp": 1700000000000, "headers": {"h": "v"}} {"id": 2}
    @{"key": "k"} <null>
    @{"transaction": "aborted"} {"id": 3}
    == deleted
    in partition:0,offset:1
    == group g
    in partition:0,offset:2;partition:1,offset:1
    == registry
    in-value {"type": "record", "name": "r", "fields": []}
    == topic out
    == script quiet=5
    CREATE TABLE … 'topic' = '${in}', 'properties.bootstrap.servers' = '${BOOTSTRAP}' …;
    INSERT INTO … SELECT …;
    == step
    == topic in partitions=3
    {"id": 3}
    == look
    topic out timestamps partitions by key
    == mark
    differs: a reason
    == tidemill topic out
    @{"partition": 0} {"id":1}

A record is a line: its value's exact text, or `<null>`, `<empty>`, `<hex 00ff>`; before it, after `@`,
what else there is to say. A key or a header is a text, null, or {"hex": "00ff"}. Records beside each other
with the same `transaction` (committed or aborted) are one. Records of the first part are there before the
script starts; those after a `== step` come when all before them has been read and the jobs are quiet (for
`quiet` seconds, 3 unless the script says so).

A topic's settings with a dot are Kafka's. `partitions=0` says that nobody has created the topic; a step
may give a topic more partitions, or its first. `== deleted` names the first offsets that are kept, as by
retention, and `== group NAME` what a consumer group has committed, maybe nothing; `${NAME}` is the
group's real name. `== registry` asks for a schema registry of the case's own, at `${REGISTRY}`, that has these
subjects and schemas, numbered from 1 on.

A topic's `events=600 density=20` is so many events of bench/nexmark, so many to a second, in its partitions in turn.
`== script file=bench/nexmark/q0.sql` takes the script from a file of the tree, and `== sink` has the options of
the table that stands in the place of its blackhole. `== files NAME` is a directory, empty or with a file of
these lines; `${NAME}` is its path.

What to look at: `select` (the changelog of the last SELECT), `topic NAME` (the wire), `group NAME` (the
offsets that it has committed in the end), `registry` (the subjects and schemas in the end), `files NAME` (the
lines of all files in a directory, each behind its subdirectory), `error CODE fragment` (our diagnostic's code, and
words that Flink's error must hold). A topic's `timestamps` are
compared if asked for, and `partitions` also of records without a key, whose partition Kafka picks at
random where a topic has several. `by key` says that only the order within a key is promised, `last` that of
the records of a key only the last one is, which alone is written down.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NoReturn

FLINK = "2.2.1"
HERE = Path(__file__).resolve().parent
CASES = HERE / "cases"
SHEETS = HERE / "sheets"
ROOT = HERE.parent.parent

# The table of a sheet's rows.
SAMPLES = """CREATE TABLE samples ({columns}) WITH (
  'connector' = 'kafka', 'topic' = '${{samples}}', 'properties.bootstrap.servers' = '${{BOOTSTRAP}}',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', 'format' = 'json')"""

QUIET_SECONDS = 3.0
KINDS = ("+I", "-U", "+U", "-D")
ATTRIBUTES = ("partition", "key", "timestamp", "headers", "transaction")
TRANSACTIONS = ("committed", "aborted")
LOOK_WORDS = ("timestamps", "partitions", "by key", "last")
MARKS = ("not yet", "differs")

Headers = tuple[tuple[str, bytes | None], ...]
Offsets = tuple[tuple[str, int, int], ...]
"""Topic, partition and offset of each."""
Schemas = tuple[tuple[str, str], ...]
"""Subject and JSON of each."""


class CaseError(Exception):
    """A file of cases or answers that cannot be used; says where and why."""

    def __init__(self, path: Path, line: int, message: str) -> None:
        resolved = path.resolve()
        shown = resolved.relative_to(ROOT) if resolved.is_relative_to(ROOT) else path
        super().__init__(f"{shown}:{line}: {message}")


# --- values -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a topic. A partition of None is one that nobody promised."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None
    transaction: str | None = None
    """Of a record to write: how the transaction ends that it is part of."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a changelog; the text is Flink's JSON."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    partitions: int
    """0: it is not there when the script starts."""
    configs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """Topic and record, in the order of writing, and before that the topics that get more partitions."""

    records: tuple[tuple[str, Record], ...]
    partitions: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group, and what it has committed before the script starts."""

    name: str
    offsets: Offsets


@dataclass(frozen=True, slots=True)
class Look:
    """One thing to compare: of `what` select, topic, group, registry, files or error."""

    what: str
    topic: str | None = None
    words: frozenset[str] = frozenset()
    code: str | None = None
    fragment: str | None = None
    group: str | None = None
    files: str | None = None

    @property
    def name(self) -> str | None:
        return self.topic or self.group or self.files


@dataclass(frozen=True, slots=True)
class Mark:
    """Why we are not equal: `not yet` or `differs`."""

    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class Result:
    """What came out, as far as it was looked at."""

    select: tuple[Row, ...] | None = None
    topics: Mapping[str, tuple[Record, ...]] = field(default_factory=dict)
    error: str | None = None
    groups: Mapping[str, Offsets] = field(default_factory=dict)
    registry: Schemas | None = None
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Case:
    path: Path
    comment: str
    topics: tuple[Topic, ...]
    steps: tuple[Step, ...]
    script: str
    quiet_seconds: float
    looks: tuple[Look, ...]
    mark: Mark | None = None
    tidemill: Result | None = None
    groups: tuple[Group, ...] = ()
    deleted: Offsets = ()
    registry: Schemas | None = None
    """What a registry holds when the script starts; None if there is no registry."""
    files: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Name and lines of each directory."""

    @property
    def name(self) -> str:
        return name_of(self.path, CASES)

    @property
    def answer_path(self) -> Path:
        return self.path.with_suffix(".answer")

    @property
    def input(self) -> str:
        """Sum of all that a recording depends on. Our own error code and marks are not part of it."""
        looks = [[look.what, look.name, sorted(look.words)] for look in self.looks]
        topics = [[topic.name, topic.partitions, *topic.configs] for topic in self.topics]
        steps = [
            [*step.partitions, *([topic, format_record(record)] for topic, record in step.records)]
            for step in self.steps
        ]
        parts = [topics, steps, self.script, self.quiet_seconds, looks]
        # Nothing is added for a case that has none of these, so that its sum stays.
        parts += [[group.name, *group.offsets] for group in self.groups]
        parts += [["registry", *self.registry]] if self.registry is not None else []
        parts += [["files", name, *lines] for name, lines in self.files]
        return checksum([*parts, self.deleted] if self.deleted else parts)

    @property
    def can_restart(self) -> bool:
        """A job that looks for no new partitions finds them all the same when it starts again, in Flink too."""
        return "'scan.topic-partition-discovery.interval' = '0" not in self.script

    @property
    def statements(self) -> tuple[str, ...]:
        return split_statements(self.script)

    def topic(self, name: str) -> Topic:
        return next(topic for topic in self.topics if topic.name == name)


@dataclass(frozen=True, slots=True)
class Answer:
    path: Path
    recorded: str
    input: str
    types: tuple[tuple[str, str], ...] | None
    changelog_mode: str | None
    result: Result


@dataclass(frozen=True, slots=True)
class Sheet:
    """Expressions over a few sample rows, which Flink reads from a topic as the table `samples`."""

    path: Path
    comment: str
    settings: tuple[str, ...]
    columns: str
    rows: tuple[str, ...]
    expressions: tuple[str, ...]
    aggregates: tuple[str, ...]
    marks: Mapping[str, Mark] = field(default_factory=dict)
    """Of those where we are not equal, the reason."""

    @property
    def name(self) -> str:
        return f"sheets/{name_of(self.path, SHEETS)}"

    @property
    def answer_path(self) -> Path:
        return self.path.with_suffix(".answer")

    @property
    def input(self) -> str:
        parts = [self.settings, self.columns, self.rows, self.expressions, self.aggregates]
        return checksum(parts)

    @property
    def has_groups(self) -> bool:
        return re.search(r"(?:^|,)\s*g\s", self.columns) is not None


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What an expression or aggregate gave: type and JSON values, or an error.

    An expression has a value a row. An aggregate has one value and, where the samples have a column g,
    the type and the values by g as pairs of JSON texts.
    """

    text: str
    type: str | None = None
    values: tuple[str, ...] = ()
    group_type: str | None = None
    groups: tuple[tuple[str, str], ...] | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class SheetAnswer:
    path: Path
    recorded: str
    input: str
    expressions: tuple[Evaluated, ...]
    aggregates: tuple[Evaluated, ...]


def checksum(parts: object) -> str:
    text = json.dumps(parts, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:32]


def name_of(path: Path, root: Path) -> str:
    """`area/behaviour`, by which a case is chosen; outside of the tree the file's own name."""
    resolved = path.resolve()
    below = resolved.relative_to(root) if resolved.is_relative_to(root) else Path(path.name)
    return below.with_suffix("").as_posix()


# --- sections -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Section:
    path: Path
    line: int
    words: tuple[str, ...]
    body: tuple[str, ...]

    def fail(self, message: str, line: int | None = None) -> NoReturn:
        raise CaseError(self.path, self.line if line is None else line, message)

    def lines(self) -> Iterator[tuple[int, str]]:
        """Line number and text of what is not blank."""
        for number, text in enumerate(self.body, self.line + 1):
            if text.strip():
                yield number, text

    @property
    def text(self) -> str:
        return "\n".join(self.body).strip("\n")


def _read(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").split("\n")
    except OSError as problem:
        raise CaseError(path, 1, f"the file cannot be read: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise CaseError(path, 1, "the file is not UTF-8") from None


def _sections(path: Path, lines: list[str], begin: int) -> list[_Section]:
    """The sections from the line with index `begin` on; before the first there may be nothing."""
    starts = [i for i in range(begin, len(lines)) if re.match(r"==(\s|$)", lines[i])]
    for i in range(begin, starts[0] if starts else len(lines)):
        if lines[i].strip():
            raise CaseError(path, i + 1, f"'{lines[i]}' stands before the first section")
    return [
        _Section(path, start + 1, tuple(lines[start][2:].split()), tuple(lines[start + 1 : end]))
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)
    ]


def _comment(path: Path, lines: list[str]) -> tuple[str, int]:
    """The comment at the top, and the index of the line after it."""
    end = 0
    while end < len(lines) and (lines[end].startswith("#") or not lines[end].strip()):
        end += 1
    said = [line[1:].strip() for line in lines[:end] if line.startswith("#")]
    if not said or not said[0]:
        raise CaseError(path, 1, "the first line must be a comment that says what this shows")
    return "\n".join(said), end


# --- records ------------------------------------------------------------------------------------

_HEX = re.compile(r"<hex ((?:[0-9a-fA-F]{2})*)>")
_DECODER = json.JSONDecoder()


def parse_record(line: str, fail: Callable[[str], NoReturn]) -> Record:
    attributes: dict[str, object] = {}
    if line.startswith("@"):
        try:
            attributes, end = _DECODER.raw_decode(line, 1)
        except ValueError as problem:
            fail(f"a record's attributes must be a JSON object: {problem}")
        if not isinstance(attributes, dict):
            fail("a record's attributes must be a JSON object")
        if line[end : end + 1] != " " or not line[end + 1 :]:
            fail("after a record's attributes there must be a space and its value")
        line = line[end + 1 :]
    for name in attributes:
        if name not in ATTRIBUTES:
            fail(f"a record has no attribute '{name}', only {', '.join(ATTRIBUTES)}")
    # Zero is a timestamp of Kafka's, but the client library takes it for "now".
    return Record(
        value=_parse_value(line, fail),
        key=_parse_bytes(attributes.get("key"), "key", fail),
        headers=_parse_headers(attributes.get("headers"), fail),
        partition=_parse_integer(attributes.get("partition"), "partition", 0, fail),
        timestamp_ms=_parse_integer(attributes.get("timestamp"), "timestamp", 1, fail),
        transaction=_parse_transaction(attributes.get("transaction"), fail),
    )


def _parse_transaction(value: object, fail: Callable[[str], NoReturn]) -> str | None:
    if value is not None and value not in TRANSACTIONS:
        fail(f"a transaction is one of {', '.join(TRANSACTIONS)}")
    return None if value is None else str(value)


def _parse_value(text: str, fail: Callable[[str], NoReturn]) -> bytes | None:
    if text == "<null>":
        return None
    if text == "<empty>":
        return b""
    if text.startswith("<hex"):
        found = _HEX.fullmatch(text)
        if not found:
            fail(f"'{text}' is not of the form <hex 00ff>")
        return bytes.fromhex(found[1])
    return text.encode("utf-8")


def _parse_bytes(value: object, what: str, fail: Callable[[str], NoReturn]) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        try:
            return value.encode("utf-8")
        except UnicodeEncodeError:
            fail(f"a {what} has half of a surrogate pair")
    digits = value.get("hex") if isinstance(value, dict) and len(value) == 1 else None
    if not isinstance(digits, str) or not _HEX.fullmatch(f"<hex {digits}>"):
        fail(f'a {what} must be a text, null or {{"hex": "00ff"}}')
    return bytes.fromhex(digits)


def _parse_headers(value: object, fail: Callable[[str], NoReturn]) -> Headers:
    if value is None:
        return ()
    pairs = list(value.items()) if isinstance(value, dict) else value
    if not isinstance(pairs, list) or not all(
        isinstance(p, (list, tuple)) and len(p) == 2 and isinstance(p[0], str) for p in pairs
    ):
        fail("headers must be a JSON object or a list of pairs")
    return tuple((name, _parse_bytes(data, "header", fail)) for name, data in pairs)


def _parse_integer(
    value: object, what: str, least: int, fail: Callable[[str], NoReturn]
) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        fail(f"a record's {what} must be a whole number from {least} on")
    return value


def format_record(record: Record) -> str:
    attributes: dict[str, object] = {}
    if record.partition is not None:
        attributes["partition"] = record.partition
    if record.key is not None:
        attributes["key"] = _format_bytes(record.key)
    if record.timestamp_ms is not None:
        attributes["timestamp"] = record.timestamp_ms
    if record.headers:
        pairs = [(name, _format_bytes(data)) for name, data in record.headers]
        distinct = len(dict(pairs)) == len(pairs)
        attributes["headers"] = dict(pairs) if distinct else [list(pair) for pair in pairs]
    if record.transaction is not None:
        attributes["transaction"] = record.transaction
    before = f"@{json.dumps(attributes, ensure_ascii=False)} " if attributes else ""
    return before + _format_value(record.value)


def _format_bytes(data: bytes | None) -> object:
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"hex": data.hex()}


def _format_value(data: bytes | None) -> str:
    if data is None:
        return "<null>"
    if not data:
        return "<empty>"
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return f"<hex {data.hex()}>"
    # What would be read as something else, or not as one line, is shown as its bytes.
    unclear = re.match(r"@|==(\s|$)|<null>$|<empty>$|<hex", text) or not text.strip()
    return f"<hex {data.hex()}>" if unclear or re.search(r"[\x00-\x1f\x7f-\x9f]", text) else text


# --- cases --------------------------------------------------------------------------------------


def read_case(path: Path) -> Case:
    lines = _read(path)
    comment, begin = _comment(path, lines)
    topics: dict[str, Topic] = {}
    groups: dict[str, Group] = {}
    files: dict[str, tuple[str, ...]] = {}
    steps = [_Step()]
    once: dict[str, _Section] = {}
    ours: list[_Section] = []
    for section in _sections(path, lines, begin):
        match section.words:
            case ("topic", name, *settings):
                _read_topic(section, name, settings, topics, steps)
            case ("group", name) if name not in groups and name not in topics:
                groups[name] = Group(name, _read_offsets(section, topics))
            case ("files", name) if name not in files:
                files[name] = tuple(line for _, line in section.lines())
            case ("step",):
                if any(True for _ in section.lines()):
                    section.fail(
                        "records stand in a topic section after the step", section.line + 1
                    )
                steps.append(_Step())
            case ("script", *_) | ("look" | "mark" | "deleted" | "registry" | "sink",):
                kind = section.words[0]
                if kind in once:
                    section.fail(f"the case has a second section '{kind}'")
                once[kind] = section
            case ("tidemill", *_):
                ours.append(section)
            case _:
                section.fail(f"there is no section '{' '.join(section.words)}' in a case")
    for kind in ("script", "look"):
        if kind not in once:
            raise CaseError(path, len(lines), f"the case has no section '{kind}'")
    registry = _read_schemas(once["registry"]) if "registry" in once else None
    servers = ["BOOTSTRAP", *(["REGISTRY"] if registry is not None else [])]
    names = [*servers, *topics, *groups, *files]
    script, quiet = _read_script(once["script"], once.get("sink"), names)
    looks = _read_looks(once["look"], topics, groups, registry, files)
    deleted = _read_offsets(once["deleted"], topics) if "deleted" in once else ()
    mark = _read_mark(once["mark"]) if "mark" in once else None
    expected = _read_ours(ours, looks) if ours else None
    if (expected is not None) != (mark is not None and mark.kind == "differs"):
        line = ours[0].line if ours else once["mark"].line
        raise CaseError(path, line, "a case that differs, and only that, has a section 'tidemill'")
    for number, step in enumerate(steps):
        if number and not step.records:
            raise CaseError(path, len(lines), f"step {number + 1} has no records")
    return Case(
        path,
        comment,
        tuple(topics.values()),
        tuple(Step(tuple(step.records), tuple(step.partitions.items())) for step in steps),
        script,
        quiet,
        looks,
        mark,
        expected,
        tuple(groups.values()),
        deleted,
        registry,
        tuple(files.items()),
    )


@dataclass
class _Step:
    records: list[tuple[str, Record]] = field(default_factory=list)
    partitions: dict[str, int] = field(default_factory=dict)


def _read_topic(
    section: _Section,
    name: str,
    settings: list[str],
    topics: dict[str, Topic],
    steps: list[_Step],
) -> None:
    known = dict(word.partition("=")[::2] for word in settings)
    count = known.pop("partitions", None)
    generated = _generated(section, known.pop("events", None), known.pop("density", None))
    for setting in known:
        if "." not in setting:
            section.fail(f"a topic has no setting '{setting}'")
    if not re.fullmatch(r"[a-z_][a-z0-9_]*", name):
        section.fail(f"'{name}' is not a topic's name: small letters, digits and _ only")
    if count is not None and not re.fullmatch(r"0|[1-9]\d{0,2}", count):
        section.fail("partitions must be a number from 0 to 999")
    before = max((s.partitions.get(name, 0) for s in steps), default=0)
    if name not in topics:
        if len(steps) > 1:
            section.fail(f"topic '{name}' must be declared before the first step")
        topics[name] = Topic(name, int(count or "1"), tuple(known.items()))
    elif known or (count is not None and len(steps) == 1):
        section.fail(f"the settings of topic '{name}' were said before")
    elif count is not None:
        if int(count) <= max(before, topics[name].partitions):
            section.fail(f"a step can only give topic '{name}' more partitions")
        steps[-1].partitions[name] = int(count)
    partitions = max(before, topics[name].partitions, steps[-1].partitions.get(name, 0))
    for number, line in section.lines():
        record = parse_record(line, partial(section.fail, line=number))
        partition = record.partition or 0
        if partition >= partitions:
            section.fail(f"topic '{name}' has no partition {partition}", number)
        steps[-1].records.append((name, replace(record, partition=partition)))
    for turn, value in generated:
        steps[-1].records.append((name, Record(value, partition=turn % partitions)))


def _generated(
    section: _Section, rows: str | None, density: str | None
) -> Iterable[tuple[int, bytes]]:
    """Events of Nexmark, each with its partition's turn."""
    if rows is None and density is None:
        return ()
    if not (re.fullmatch(r"\d+", rows or "") and re.fullmatch(r"\d+(\.\d+)?", density or "")):
        section.fail("generated records are said by two numbers, events=600 density=20")
    if str(ROOT) not in sys.path:
        sys.path.append(str(ROOT))
    from bench.nexmark.generator import events

    return events(int(rows or 0), float(density or 0))


def _read_offsets(section: _Section, topics: Mapping[str, Topic] | None = None) -> Offsets:
    """Lines `topic partition:0,offset:42;partition:1,offset:300`, as Flink writes offsets."""
    offsets = []
    for number, line in section.lines():
        name, _, pairs = line.strip().partition(" ")
        if topics is not None and name not in topics:
            section.fail(f"no section declares a topic '{name}'", number)
        for pair in pairs.split(";"):
            found = re.fullmatch(r"partition:(\d+),offset:(\d+)", pair)
            if not found:
                section.fail("a line is a topic and 'partition:0,offset:42;partition:1,…'", number)
            offsets.append((name, int(found[1]), int(found[2])))
    return tuple(offsets)


def _read_schemas(section: _Section) -> Schemas:
    """Lines `subject {"type": …}`."""
    schemas = []
    for number, line in section.lines():
        subject, _, schema = line.strip().partition(" ")
        try:
            json.loads(schema)
        except ValueError:
            section.fail("a line is a subject and a schema as JSON", number)
        schemas.append((subject, schema))
    return tuple(schemas)


def format_offsets(offsets: Offsets) -> list[str]:
    """A line for each topic."""
    return [
        f"{topic} " + ";".join(f"partition:{p},offset:{o}" for _, p, o in group)
        for topic, group in itertools.groupby(sorted(offsets), key=lambda each: each[0])
    ]


BLACKHOLE = "WITH ('connector' = 'blackhole')"


def _read_script(
    section: _Section, sink: _Section | None, names: Iterable[str]
) -> tuple[str, float]:
    known = dict(word.partition("=")[::2] for word in section.words[1:])
    quiet = known.pop("quiet", str(QUIET_SECONDS))
    file = known.pop("file", None)
    if known or not re.fullmatch(r"\d+(\.\d+)?", quiet):
        section.fail("a script has no setting but quiet=SECONDS and file=PATH")
    if file is not None:
        if section.text:
            section.fail("a script is in the case or in a file, not in both", section.line + 1)
        lines = _read(ROOT / file)
        # What its header says to those who measure is not part of a script.
        begin = next((i for i, line in enumerate(lines) if not line.startswith("--")), 0)
        section = _Section(ROOT / file, begin, (), tuple(lines[begin:]))
    if sink is not None:
        if sum(line.count(BLACKHOLE) for line in section.body) != 1:
            sink.fail(f"the script has not one {BLACKHOLE}")
        options = " ".join(line for _, line in sink.lines())
        body = (line.replace(BLACKHOLE, f"WITH ({options})") for line in section.body)
        section = replace(section, body=tuple(body))
    for number, line in section.lines():
        for name in re.findall(r"\$\{([^}]*)\}?", line):
            if name not in names:
                section.fail(f"the script names a topic '{name}' that no section declares", number)
    text = "\n".join(line.rstrip() for line in section.body).strip("\n")
    if not split_statements(text):
        section.fail("the script has no statement")
    return text, float(quiet)


def _read_looks(
    section: _Section,
    topics: Mapping[str, Topic],
    groups: Mapping[str, Group],
    registry: Schemas | None,
    files: Mapping[str, tuple[str, ...]],
) -> tuple[Look, ...]:
    looks = []
    for number, line in section.lines():
        match line.split():
            case ["select"]:
                looks.append(Look("select"))
            case ["topic", name, *rest]:
                if name not in topics:
                    section.fail(f"no section declares a topic '{name}'", number)
                said = " ".join(rest)
                words = frozenset(w for w in LOOK_WORDS if re.search(rf"\b{w}\b", said))
                if sorted(" ".join(words).split()) != sorted(rest):
                    section.fail(f"after the topic only {', '.join(LOOK_WORDS)} may stand", number)
                looks.append(Look("topic", name, words))
            case ["group", name] if name in groups:
                looks.append(Look("group", group=name))
            case ["registry"] if registry is not None:
                looks.append(Look("registry"))
            case ["files", name] if files.get(name) == ():
                looks.append(Look("files", files=name))
            case ["error", code, _, *_] if re.fullmatch(r"[A-Z]+-\d{3}", code):
                looks.append(Look("error", code=code, fragment=line.split(None, 2)[2].strip()))
            case _:
                known = "'select', 'topic NAME …', 'group NAME', 'registry', 'files NAME'"
                section.fail(f"a look is {known} or 'error CODE fragment'", number)
    if not looks:
        section.fail("there is nothing to look at")
    seen = [(look.what, look.name) for look in looks]
    if len(set(seen)) < len(seen):
        section.fail("the same thing is looked at twice")
    return tuple(looks)


def _read_mark(section: _Section) -> Mark:
    kind, colon, reason = section.text.partition(":")
    if kind not in MARKS or not colon or not reason.strip():
        section.fail("a mark is 'not yet: reason' or 'differs: reason'", section.line + 1)
    return Mark(kind, " ".join(reason.split()))


def _read_ours(sections: list[_Section], looks: tuple[Look, ...]) -> Result:
    select: tuple[Row, ...] | None = None
    error: str | None = None
    topics: dict[str, tuple[Record, ...]] = {}
    groups: dict[str, Offsets] = {}
    registry: Schemas | None = None
    named = [(look.what, look.name) for look in looks]
    known = [(what, name) if name else (what,) for what, name in named]
    for section in sections:
        about = section.words[1:] or (known[0] if len(known) == 1 else ())
        # A job of ours may fail where Flink's gives rows, and the other way round.
        if about not in [*known, ("error",), ("select",)]:
            section.fail(
                f"a section is one of: {', '.join('tidemill ' + ' '.join(k) for k in known)}"
            )
        match about:
            case ("select",):
                select = _read_rows(section)
            case ("topic", name):
                topics[name] = _read_records(section)
            case ("group", name):
                groups[name] = _read_offsets(section)
            case ("registry",):
                registry = _read_schemas(section)
            case _:
                error = section.text
    return Result(select, topics, error, groups, registry)


def _read_rows(section: _Section) -> tuple[Row, ...]:
    rows = []
    for number, line in section.lines():
        kind, _, text = line.partition(" ")
        if kind not in KINDS or not text.startswith("{"):
            section.fail(f"a row is one of {' '.join(KINDS)}, a space and a JSON object", number)
        rows.append(Row(kind, text))
    return tuple(rows)


def _read_records(section: _Section) -> tuple[Record, ...]:
    return tuple(
        parse_record(line, partial(section.fail, line=number)) for number, line in section.lines()
    )


def split_statements(script: str) -> tuple[str, ...]:
    """The statements of a script without their semicolons; a STATEMENT SET is one."""
    statements, begin, in_set = [], 0, False
    for token in _TOKEN.finditer(script):
        if token.lastgroup == "end":
            in_set = False
        elif token.lastgroup == "set":
            in_set = True
        elif token.lastgroup == "semicolon" and not in_set:
            statements.append(script[begin : token.start()])
            begin = token.end()
    statements.append(script[begin:])
    return tuple(s.strip() for s in statements if _TOKEN_SPACE.sub("", s).strip())


_TOKEN_SPACE = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_TOKEN = re.compile(
    r"""
      (?P<skip> '(?:[^']|'')*' | `(?:[^`]|``)*` | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/ )
    | (?P<set> \bSTATEMENT\s+SET\b )
    | (?P<end> ;\s*END\b )
    | (?P<semicolon> ; )
    """,
    re.DOTALL | re.IGNORECASE | re.VERBOSE,
)


def is_append_only(plan: str) -> bool:
    """Whether nothing in a plan with changelog modes gives anything but inserts."""
    return set(re.findall(r"changelogMode=\[([^]]*)\]", plan)) <= {"I", "NONE"}


def fill(text: str, values: Mapping[str, str]) -> str:
    """Put values in the place of `${name}`; every name must have one."""
    return re.sub(r"\$\{(\w+)\}", lambda found: values[found[1]], text)


def unfill(text: str, values: Mapping[str, str]) -> str:
    """Put `${name}` back in the place of values."""
    for name, value in sorted(values.items(), key=lambda pair: -len(pair[1])):
        text = text.replace(value, f"${{{name}}}")
    return text


# --- answers ------------------------------------------------------------------------------------


def _read_head(path: Path, lines: list[str]) -> dict[str, str]:
    head: dict[str, str] = {}
    for number, word in enumerate(("flink", "recorded", "input")):
        line = lines[number] if number < len(lines) else ""
        name, _, value = line.partition(" ")
        if name != word or not value:
            raise CaseError(path, number + 1, f"an answer's line {number + 1} is '{word} …'")
        head[name] = value
    if head["flink"] != FLINK:
        message = f"recorded with Flink {head['flink']}, but the oracle is {FLINK}: record it anew"
        raise CaseError(path, 1, message)
    return head


def _head(recorded: str, input: str) -> list[str]:
    return [f"flink {FLINK}", f"recorded {recorded}", f"input {input}"]


def read_answer(path: Path) -> Answer:
    lines = _read(path)
    head = _read_head(path, lines)
    types: tuple[tuple[str, str], ...] | None = None
    mode: str | None = None
    select: tuple[Row, ...] | None = None
    error: str | None = None
    topics: dict[str, tuple[Record, ...]] = {}
    groups: dict[str, Offsets] = {}
    registry: Schemas | None = None
    files: dict[str, tuple[str, ...]] = {}
    for section in _sections(path, lines, len(head)):
        match section.words:
            case ("types",):
                types = tuple(_read_type(section, *numbered) for numbered in section.lines())
            case ("changelog", "mode"):
                mode = section.text
            case ("select",):
                select = _read_rows(section)
            case ("topic", name):
                topics[name] = _read_records(section)
            case ("group", name):
                groups[name] = _read_offsets(section)
            case ("registry",):
                registry = _read_schemas(section)
            case ("files", name):
                files[name] = tuple(line for _, line in section.lines())
            case ("error",):
                error = section.text
            case _:
                section.fail(f"there is no section '{' '.join(section.words)}' in an answer")
    result = Result(select, topics, error, groups, registry, files)
    return Answer(path, head["recorded"], head["input"], types, mode, result)


def _read_type(section: _Section, number: int, line: str) -> tuple[str, str]:
    # A name with a space or a quote in it is written as JSON.
    if line.startswith('"'):
        try:
            name, end = _DECODER.raw_decode(line)
        except ValueError:
            section.fail("a column's name in quotes must be JSON", number)
        return name, line[end + 1 :]
    name, space, type_ = line.partition(" ")
    if not space:
        section.fail("a column is a name and a type", number)
    return name, type_


def write_answer(answer: Answer) -> str:
    """The text of the answer's file."""
    result = answer.result
    lines = _head(answer.recorded, answer.input)
    if answer.types is not None:
        lines.append("== types")
        for name, type_ in answer.types:
            plain = re.fullmatch(r"[^\s\"=][^\s\"]*", name)
            shown = name if plain else json.dumps(name, ensure_ascii=False)
            lines.append(f"{shown} {type_}")
    if answer.changelog_mode is not None:
        lines += ["== changelog mode", answer.changelog_mode]
    if result.select is not None:
        lines += ["== select", *(f"{row.kind} {row.text}" for row in result.select)]
    for topic, records in result.topics.items():
        lines += [f"== topic {topic}", *map(format_record, records)]
    for group, offsets in result.groups.items():
        lines += [f"== group {group}", *format_offsets(offsets)]
    if result.registry is not None:
        lines += ["== registry", *(f"{subject} {schema}" for subject, schema in result.registry)]
    for name, found in result.files.items():
        lines += [f"== files {name}", *found]
    if result.error is not None:
        lines += ["== error", result.error]
    return "\n".join(lines) + "\n"


# --- sheets -------------------------------------------------------------------------------------


def read_sheet(path: Path) -> Sheet:
    lines = _read(path)
    comment, begin = _comment(path, lines)
    found: dict[str, _Section] = {}
    for section in _sections(path, lines, begin):
        name = " ".join(section.words)
        if name not in ("settings", "columns", "rows", "expressions", "aggregates", *MARKS):
            section.fail(f"there is no section '{name}' in a sheet")
        if name in found:
            section.fail(f"the sheet has a second section '{name}'")
        found[name] = section
    for name in ("columns", "rows"):
        if name not in found or not found[name].text:
            raise CaseError(path, len(lines), f"the sheet has no section '{name}'")
    for number, line in found["rows"].lines():
        try:
            if not isinstance(json.loads(line), dict):
                raise ValueError
        except ValueError:
            found["rows"].fail("a row must be a JSON object", number)
    for number, line in found["settings"].lines() if "settings" in found else ():
        if not re.match(r"SET\s.*;\s*$", line):
            found["settings"].fail("a setting is SET 'key' = 'value';", number)
    settings = [line.strip() for _, line in _body(found.get("settings"))]
    expressions = _joined(found.get("expressions"))
    aggregates = _joined(found.get("aggregates"))
    if not expressions and not aggregates:
        raise CaseError(path, len(lines), "the sheet has neither expressions nor aggregates")
    marks = dict(_read_sheet_marks(found, {*expressions, *aggregates}))
    return Sheet(
        path,
        comment,
        tuple(setting.removesuffix(";") for setting in settings),
        " ".join(found["columns"].text.split()),
        tuple(line for _, line in found["rows"].lines()),
        expressions,
        aggregates,
        marks,
    )


def _read_sheet_marks(found: Mapping[str, _Section], known: set[str]) -> Iterator[tuple[str, Mark]]:
    """Lines `expression  -- reason` of the sections `differs` and `not yet`."""
    for kind in MARKS:
        for number, line in _body(found.get(kind)):
            text, dashes, reason = (part.strip() for part in line.rpartition(" -- "))
            if not dashes or not reason:
                found[kind].fail("a mark is 'expression -- reason'", number)
            if text not in known:
                found[kind].fail(f"the sheet has no expression '{text}'", number)
            yield text, Mark(kind, reason)


def _body(section: _Section | None) -> Iterable[tuple[int, str]]:
    return section.lines() if section else ()


def _joined(section: _Section | None) -> tuple[str, ...]:
    """One expression a line; a backslash at the end continues it."""
    expressions: list[str] = []
    open_line = False
    for number, line in _body(section):
        text = line.strip()
        more = text.endswith("\\")
        part = text.removesuffix("\\").strip()
        if open_line:
            expressions[-1] += f" {part}"
        else:
            expressions.append(part)
        open_line = more
        if section and expressions.count(expressions[-1]) > 1 and not more:
            section.fail(f"'{expressions[-1]}' stands here twice", number)
    return tuple(expressions)


# The lines below an expression in an answer, in their order.
_INDENT = "  "


def write_sheet_answer(answer: SheetAnswer) -> str:
    lines = _head(answer.recorded, answer.input)
    for title, evaluated in (
        ("expressions", answer.expressions),
        ("aggregates", answer.aggregates),
    ):
        if evaluated:
            lines.append(f"== {title}")
        for each in evaluated:
            lines.append(each.text)
            lines += [_INDENT + line for line in _evaluated_lines(each)]
    return "\n".join(lines) + "\n"


def _evaluated_lines(each: Evaluated) -> Iterator[str]:
    if each.error is not None:
        yield from (f"error {line}" for line in each.error.split("\n"))
        return
    yield f"type {each.type}"
    yield f"values [{','.join(each.values)}]"
    if each.groups is not None:
        yield f"type by g {each.group_type}"
        yield f"values by g [{','.join(f'[{g},{value}]' for g, value in each.groups)}]"


def read_sheet_answer(path: Path) -> SheetAnswer:
    lines = _read(path)
    head = _read_head(path, lines)
    parts: dict[str, tuple[Evaluated, ...]] = {}
    for section in _sections(path, lines, len(head)):
        if section.words not in (("expressions",), ("aggregates",)):
            section.fail(f"there is no section '{' '.join(section.words)}' in a sheet's answer")
        parts[section.words[0]] = tuple(_read_evaluated(section))
    return SheetAnswer(
        path,
        head["recorded"],
        head["input"],
        parts.get("expressions", ()),
        parts.get("aggregates", ()),
    )


def _read_evaluated(section: _Section) -> Iterator[Evaluated]:
    text, at = "", section.line
    facts: dict[str, str] = {}
    for number, line in section.lines():
        if not line.startswith(_INDENT):
            if text:
                yield _evaluated(section, at, text, facts)
            text, facts, at = line, {}, number
            continue
        found = re.match(r"(error|type by g|values by g|type|values) ?(.*)", line.strip())
        if not found or not text:
            section.fail("below an expression stand its type and values, or its error", number)
        before = f"{facts['error']}\n" if found[1] == "error" and "error" in facts else ""
        facts[found[1]] = before + found[2]
    if text:
        yield _evaluated(section, at, text, facts)


def _evaluated(section: _Section, line: int, text: str, facts: dict[str, str]) -> Evaluated:
    if "error" in facts:
        return Evaluated(text, error=facts["error"])
    if "type" not in facts or "values" not in facts:
        section.fail(f"'{text}' has neither type and values nor an error", line)
    groups = None
    if "values by g" in facts:
        pairs = [json_items(pair) for pair in json_items(facts["values by g"])]
        groups = tuple((pair[0], pair[1]) for pair in pairs)
    values = tuple(json_items(facts["values"]))
    return Evaluated(text, facts["type"], values, facts.get("type by g"), groups)


def json_items(text: str) -> list[str]:
    """The texts of the items of a JSON array that was written without spaces, digits unchanged."""
    items, position = [], 1
    while text[position : position + 1] not in ("]", ""):
        _, end = _DECODER.raw_decode(text, position)
        items.append(text[position:end])
        position = end + (text[end] == ",")
    return items


def json_members(text: str) -> list[tuple[str, str]]:
    """Names and the texts of values of a JSON object that was written without spaces."""
    members, position = [], 1
    while text[position : position + 1] not in ("}", ""):
        name, colon = _DECODER.raw_decode(text, position)
        _, end = _DECODER.raw_decode(text, colon + 1)
        members.append((name, text[colon + 1 : end]))
        position = end + (text[end] == ",")
    return members


# --- the tree -----------------------------------------------------------------------------------


def case_paths() -> list[Path]:
    return sorted(CASES.rglob("*.case"))


def sheet_paths() -> list[Path]:
    return sorted(SHEETS.rglob("*.sheet"))

"""Statements and Flink's recorded plans for them, as text; plans as trees. Standard library only.

In: `plans/tables.sql`, the tables that every statement may use, and `plans/<area>.plans`. Out: frozen values, the
text of such a file, and plans that can be compared. Law: a file that says anything unclear is refused with file and
line, and `write_plans(read_plans(path))` is the file's text.

    # One sentence: what the area is about.

    == a_name_of_its_own
    # Why this is here, if the name does not say it.
    error PLAN-030
    not yet: a reason
    CREATE VIEW v AS SELECT …;
    SELECT … FROM v
    ---- 1f3a5c7e9b2d4f60
    > k STRING
    > c BIGINT NOT NULL
    GroupAggregate(groupBy=[k], select=[k, COUNT(*) AS c], changelogMode=[I,UA])
    +- …

The last statement is the one that is planned. `error` gives the code of our diagnostic for what Flink refuses;
`not yet` and `differs` say why we do not answer as Flink does. Below the rule stands what Flink said to the input
with that sum: the columns of a query after `>` and the plan, or after `!` the exceptions.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from case import FLINK, HERE, MARKS, CaseError, Mark, checksum, split_statements

PLANS = HERE / "plans"
TABLES = PLANS / "tables.sql"
CASE_MARKS = PLANS / "cases.marks"
RULE = "----"
_HEADING = re.compile(r"== (\w+)")
_CODE = re.compile(r"error ([A-Z]+-\d+)")
_MARK = re.compile(rf"({'|'.join(MARKS)}): (.+)")


# --- files --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plan:
    """What Flink said: columns and plan, or exceptions."""

    input: str
    columns: tuple[str, ...] = ()
    """`name TYPE` each; of a query only."""
    text: str = ""
    error: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        yield f"{RULE} {self.input}"
        yield from (f"> {column}" for column in self.columns)
        yield from (f"! {line}" for line in self.error)
        if self.text:
            yield self.text


@dataclass(frozen=True, slots=True)
class Entry:
    """A statement to plan, with those that it needs before it."""

    path: Path
    line: int
    name: str
    comment: tuple[str, ...]
    code: str | None
    mark: Mark | None
    sql: str
    plan: Plan | None

    @property
    def place(self) -> str:
        return f"{self.path.name}:{self.line}"

    @property
    def full_name(self) -> str:
        return f"{self.path.stem}/{self.name}"

    @property
    def statements(self) -> tuple[str, ...]:
        """All that Flink gets to see, the shared tables first."""
        return (*shared_statements(), *split_statements(self.sql))

    @property
    def input(self) -> str:
        return checksum([FLINK, self.statements])[:16]

    @property
    def is_fresh(self) -> bool:
        return self.plan is not None and self.plan.input == self.input

    def lines(self) -> Iterator[str]:
        yield f"== {self.name}"
        yield from self.comment
        if self.code:
            yield f"error {self.code}"
        if self.mark:
            yield f"{self.mark.kind}: {self.mark.reason}"
        yield self.sql
        if self.plan:
            yield from self.plan.lines()


@dataclass(frozen=True, slots=True)
class PlanFile:
    path: Path
    head: tuple[str, ...]
    entries: tuple[Entry, ...]


def plan_paths() -> list[Path]:
    return sorted(PLANS.glob("*.plans"))


@cache
def shared_statements() -> tuple[str, ...]:
    return split_statements(TABLES.read_text(encoding="utf-8"))


def read_plans(path: Path) -> PlanFile:
    lines = path.read_text(encoding="utf-8").split("\n")
    starts = [i for i, line in enumerate(lines) if line.startswith("==")]
    head = tuple(lines[: starts[0] if starts else len(lines)])
    if not head or not head[0].startswith("# "):
        raise CaseError(path, 1, "the first line must be a comment that says what this shows")
    for number, line in enumerate(head, 1):
        if line and not line.startswith("#"):
            raise CaseError(path, number, f"'{line}' stands before the first entry")
    entries = tuple(
        _read_entry(path, start, lines[start:end])
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)
    )
    seen: set[str] = set()
    for entry in entries:
        if entry.name in seen:
            raise CaseError(path, entry.line, f"'{entry.name}' stands here twice")
        seen.add(entry.name)
    return PlanFile(path, tuple(_trimmed(head)), entries)


def write_plans(file: PlanFile) -> str:
    blocks = ["\n".join(file.head), *("\n".join(entry.lines()) for entry in file.entries)]
    return "\n\n".join(blocks) + "\n"


def read_case_marks() -> dict[str, Mark]:
    """Parity cases whose plan is not Flink's, by name: a line `area/name not yet: a reason` each."""
    marks: dict[str, Mark] = {}
    for number, line in enumerate(CASE_MARKS.read_text(encoding="utf-8").split("\n"), 1):
        if not line or line.startswith("#"):
            continue
        name, _, rest = line.partition(" ")
        found = _MARK.fullmatch(rest)
        if not found or name in marks:
            raise CaseError(CASE_MARKS, number, "a line is the name of a case and one mark")
        marks[name] = Mark(found[1], found[2])
    return marks


def write_case_marks(marks: Mapping[str, Mark]) -> str:
    head = "# Parity cases (tests/parity/cases) whose plan is not Flink's."
    lines = [f"{name} {mark.kind}: {mark.reason}" for name, mark in sorted(marks.items())]
    return "\n".join([head, *lines]) + "\n"


def _trimmed(lines: tuple[str, ...] | list[str]) -> list[str]:
    return "\n".join(lines).strip("\n").split("\n")


def _read_entry(path: Path, start: int, lines: list[str]) -> Entry:
    def fail(message: str, at: int = 0) -> CaseError:
        return CaseError(path, start + at + 1, message)

    heading = _HEADING.fullmatch(lines[0])
    if not heading:
        raise fail("an entry begins with == and its name")
    at, comment, code, mark = 1, [], None, None
    while at < len(lines):
        if lines[at].startswith("#"):
            comment.append(lines[at])
        elif found := _CODE.fullmatch(lines[at]):
            code = found[1]
        elif found := _MARK.fullmatch(lines[at]):
            mark = Mark(found[1], found[2])
        else:
            break
        at += 1
    rules = [i for i, line in enumerate(lines) if line.startswith(RULE)]
    if len(rules) > 1:
        raise fail("an entry has one answer", rules[1])
    end = rules[0] if rules else len(lines)
    sql = "\n".join(lines[at:end]).strip("\n")
    if not sql.strip():
        raise fail("an entry has a statement", at)
    plan = _read_plan(lines[end:]) if rules else None
    return Entry(path, start + 1, heading[1], tuple(comment), code, mark, sql, plan)


def _read_plan(lines: list[str]) -> Plan:
    columns = tuple(line[2:] for line in lines if line.startswith("> "))
    error = tuple(line[2:] for line in lines if line.startswith("! "))
    text = "\n".join(_trimmed(lines[1 + len(columns) + len(error) :]))
    return Plan(lines[0][len(RULE) :].strip(), columns, text, error)


# --- trees --------------------------------------------------------------------------------------

# Operators that say nothing about keys, modes or state: where the rows go, and what is computed of one row.
TRANSPARENT = {
    *("Calc", "Exchange", "WatermarkAssigner", "MiniBatchAssigner", "Collect"),
    # The half of a two-phase aggregate that keeps no result; the other half is the aggregate.
    *("LocalGroupAggregate", "LocalWindowAggregate"),
}
NAMES = {"GlobalWindowAggregate": "WindowAggregate", "GlobalGroupAggregate": "GroupAggregate"}
# What is compared of an operator besides its mode.
FACTS: Mapping[str, tuple[str, ...]] = {
    "TableSourceScan": ("table",),
    "Sink": ("table", "upsertMaterialize"),
    "Join": ("joinType", "leftInputSpec", "rightInputSpec"),
    "IntervalJoin": ("joinType",),
    "TemporalJoin": ("joinType",),
    "WindowJoin": ("joinType",),
    "Rank": ("strategy", "rankType", "rankRange"),
}
_LINE = re.compile(
    r"(?P<indent>(?:[: ] {2})*(?:[:+]- )?)(?P<name>\w+)(?:\((?P<rest>.*)\))?", re.DOTALL
)


@dataclass(frozen=True)
class Tree:
    """An operator, the mode in which it emits, and what feeds it."""

    name: str
    mode: str
    facts: tuple[tuple[str, str], ...] = ()
    inputs: tuple[Tree, ...] = field(default=())

    def lines(self, depth: int = 0) -> Iterator[str]:
        shown = "".join(f" {key}={value}" for key, value in self.facts)
        yield f"{'   ' * depth}{self.name}{shown} {self.mode}"
        for each in self.inputs:
            yield from each.lines(depth + 1)


def parse_plan(text: str) -> tuple[Tree, ...]:
    """The trees of a plan's text: one for each sink."""
    roots: list[Tree] = []
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        rows = [_parse_line(line) for line in block.split("\n")]
        roots += _build(rows, 0, len(rows), 0)
    return tuple(roots)


@dataclass(frozen=True)
class _Row:
    depth: int
    name: str
    mode: str
    facts: tuple[tuple[str, str], ...]


def _parse_line(line: str) -> _Row:
    found = _LINE.match(line)
    if not found:
        raise ValueError(f"not a line of a plan: {line}")
    name, rest = found["name"], found["rest"] or ""
    name = NAMES.get(name, name)
    # A sink emits nothing.
    modes = re.findall(r"changelogMode=(\[(?!NONE)[A-Z,]*\])", rest)
    facts = []
    for key in FACTS.get(name, ()):
        value = _attribute(rest, key)
        if value is not None:
            facts.append((key, _table(value) if key == "table" else value))
    return _Row(len(found["indent"]) // 3, name, modes[-1] if modes else "", tuple(facts))


def _table(path: str) -> str:
    """The name in `[catalog, database, name, …]` of a scan or `catalog.database.name` of a sink."""
    parts = path.strip("[]").split(", ")
    return parts[min(2, len(parts) - 1)].rpartition(".")[2]


def _attribute(text: str, key: str) -> str | None:
    """What stands in the brackets of `key=[…]`."""
    found = re.search(rf"(?:^|, ){key}=\[", text)
    if not found:
        return None
    depth = 1
    for at in range(found.end(), len(text)):
        depth += {"[": 1, "]": -1}.get(text[at], 0)
        if depth == 0:
            return text[found.end() : at]
    return None


def _build(rows: list[_Row], begin: int, end: int, depth: int) -> list[Tree]:
    """The trees whose roots stand `depth` deep; transparent operators give way to their inputs."""
    starts = [i for i in range(begin, end) if rows[i].depth == depth]
    made: list[Tree] = []
    for start, stop in zip(starts, [*starts, end][1:], strict=True):
        row = rows[start]
        below = _build(rows, start + 1, stop, depth + 1)
        if row.name in TRANSPARENT:
            made += below
        elif row.name == "Union":
            made.append(_union(row, below))
        elif row.name == "WindowAggregate":
            made.append(Tree(row.name, row.mode, row.facts, tuple(map(_without_window, below))))
        else:
            made.append(Tree(row.name, row.mode, row.facts, tuple(below)))
    return made


def _without_window(tree: Tree) -> Tree:
    """Flink draws a window into the aggregate above it where nothing stands between; we always write both."""
    if tree.name == "WindowTableFunction":
        return tree.inputs[0]
    if tree.name == "Expand":
        return dataclasses.replace(tree, inputs=tuple(map(_without_window, tree.inputs)))
    return tree


def _union(row: _Row, parts: list[Tree]) -> Tree:
    """Which UNION ALL stood inside which says nothing, and Flink writes VALUES with expressions as a union of rows."""
    flat = [each for part in parts for each in (part.inputs if part.name == "Union" else (part,))]
    if all(each.name == "Values" for each in flat):
        return flat[0]
    return Tree(row.name, row.mode, row.facts, tuple(flat))

"""What a case says: the header of a script, as a value, and the script in which its result can be compared.

In: a `.sql` of bench/cases or bench/nexmark; its form is in README.md. Out: a `Workload`. Law: a header line that is
not known is refused, and so is a case whose result cannot be compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.program import ScaleError

HERE = Path(__file__).resolve().parent
PLACES = {"": HERE / "cases", "nexmark/": HERE / "nexmark"}
"""What a case's name begins with, by the directory that it is in."""
ROWS = {"": 2_000_000, "nexmark/": 1_000_000}
COMPARED = 100_000
WANTED = {"nexmark/": 0.7}
"""What holds for a case that does not say it."""

_NUMBERS = ("rows", "compared", "quick")
_WORDS = ("wanted", "totals", "after", *_NUMBERS)
_FLAGS = ("state", "checkpoints")
_BLACKHOLE = re.compile(r"WITH\s*\(\s*'connector'\s*=\s*'blackhole'\s*\)")
_BOUND = re.compile(r",\s*'scan\.bounded\.mode'\s*=\s*'[^']*'")
_CHANGES = """WITH (
  'connector' = 'kafka',
  'topic' = '${out}',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'format' = 'debezium-json'
)"""
_UPSERTS = """WITH (
  'connector' = 'upsert-kafka',
  'topic' = '${out}',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'key.format' = 'json',
  'value.format' = 'json'
)"""


class CaseError(ScaleError):
    """A case that cannot be used; says which and why."""


@dataclass(frozen=True)
class Totals:
    """Sums of a column by others, where nothing else of a result is promised."""

    column: str
    by: tuple[str, ...]


@dataclass(frozen=True)
class Workload:
    name: str
    what: str
    script: str
    rows: int
    compared: int = COMPARED
    quick: int | None = None
    wanted: float | None = None
    has_state: bool = False
    has_checkpoints: bool = False
    totals: Totals | None = None

    @property
    def names(self) -> frozenset[str]:
        """What the script leaves open."""
        return frozenset(re.findall(r"\$\{(\w+)\}", self.script))

    @property
    def comparable(self) -> str:
        """The script with a place for its result that can be read."""
        topic = _UPSERTS if self.kind == "keyed" else _CHANGES
        script = _BLACKHOLE.sub(topic, self.script)
        # At the end of its input Flink drops windows of the machine's clock that have not closed yet.
        return _BOUND.sub("", script) if self.totals else script

    @property
    def kind(self) -> str:
        """How the records of `comparable` make a result: changes, keyed, rows or files."""
        if "files" in self.names:
            return "files"
        sink = next(s for s in self.script.split(";") if "${out}" in s or _BLACKHOLE.search(s))
        if _BLACKHOLE.search(sink):
            return "keyed" if "PRIMARY KEY" in sink else "changes"
        return "keyed" if "'upsert-kafka'" in sink else "rows"


def read(path: Path, prefix: str = "") -> Workload:
    name = prefix + path.stem
    text = path.read_text(encoding="utf-8")

    def refuse(why: str) -> CaseError:
        return CaseError(f"{name}: {why}")

    sentence: list[str] = []
    said: dict[str, str] = {}
    flags: set[str] = set()
    for line in text.splitlines():
        if not line.startswith("--"):
            break
        words = line.removeprefix("--").strip()
        found = re.fullmatch(r"([a-z]+):\s*(.+)", words)
        if words in _FLAGS:
            flags.add(words)
        elif found and found[1] in _WORDS:
            if found[1] in said:
                raise refuse(f"'{found[1]}' is said twice")
            said[found[1]] = found[2]
        elif found:
            raise refuse(f"'{found[1]}' is not known; {', '.join((*_WORDS, *_FLAGS))} are")
        elif said or flags:
            raise refuse(f"the sentence ends where the header begins, before '{words}'")
        else:
            sentence.append(words)
    if not sentence:
        raise refuse("the first line must be a comment that says what is done")
    numbers: dict[str, int] = {}
    for word in _NUMBERS:
        if word in said:
            if not re.fullmatch(r"[1-9]\d*", said[word]):
                raise refuse(f"'{word}' is a number of records, not '{said[word]}'")
            numbers[word] = int(said[word])
    wanted = said.get("wanted")
    if wanted is not None and not re.fullmatch(r"\d+(\.\d+)?", wanted):
        raise refuse(f"'wanted' is a ratio, not '{wanted}'")
    totals = None
    if "totals" in said:
        sums = re.fullmatch(r"(\w+) by (\w+(?:, \w+)*)", said["totals"])
        if not sums:
            raise refuse("'totals' says which column is summed up, and by which: c by user_id")
        totals = Totals(sums[1], tuple(sums[2].split(", ")))
    script = text
    if "after" in said:
        script = (path.parent / said["after"]).read_text(encoding="utf-8") + "\n" + text
    targets = len(_BLACKHOLE.findall(script))
    targets += sum("${out}" in s or "${files}" in s for s in script.split(";"))
    if targets != 1:
        raise refuse(
            "one table is written to: a plain blackhole, or one over ${out} or ${files}; there are"
            f" {targets}"
        )
    return Workload(
        name,
        " ".join(sentence),
        script,
        rows=numbers.get("rows", ROWS[prefix]),
        compared=numbers.get("compared", COMPARED),
        quick=numbers.get("quick"),
        wanted=WANTED.get(prefix) if wanted is None else float(wanted),
        has_state="state" in flags,
        has_checkpoints=bool(flags & {"state", "checkpoints"}),
        totals=totals,
    )


def paths() -> list[tuple[str, Path]]:
    """Prefix and file of every case. What others are written `after` is none itself."""
    found = []
    for prefix, place in PLACES.items():
        files = sorted(place.glob("*.sql"), key=_natural)
        shared = {w for f in files for w in re.findall(r"(?m)^-- after:\s*(\S+)", f.read_text())}
        found += [(prefix, f) for f in files if f.name not in shared]
    return found


def _natural(path: Path) -> list[tuple[int, str]]:
    """q10 stands after q9."""
    return [(int(t), "") if t.isdigit() else (-1, t) for t in re.split(r"(\d+)", path.stem) if t]


def every() -> list[Workload]:
    return [read(path, prefix) for prefix, path in paths()]


def chosen(only: Iterable[str] = (), quick: bool = False) -> list[Workload]:
    """Those with the names, or with names that begin so (`nexmark/`); else all, or the quick ones."""
    found = every()
    asked = list(only)
    for name in asked:
        if not any(_is_meant(w.name, name) for w in found):
            raise CaseError(
                f"no case is called '{name}'; there are: {' '.join(w.name for w in found)}"
            )
    if asked:
        return [w for w in found if any(_is_meant(w.name, name) for name in asked)]
    return [w for w in found if w.quick or not quick]


def _is_meant(name: str, asked: str) -> bool:
    return name == asked or (asked.endswith("/") and name.startswith(asked))

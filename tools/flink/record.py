"""Ask Flink and write down its answers.

    python tools/flink/record.py [--all] [NAME…]

In: the cases and sheets of tests/parity, an embedded broker, the oracle in Flink's own environment. Out:
the `.answer` beside each, a line printed for each. Without arguments those are recorded that have no
answer or whose input has changed; a NAME (`area/behaviour`, a prefix of it, or a glob) records anew, --all
everything. Law: what an answer holds does not depend on when or where it was recorded, and an answer that
says the same as the one in the tree leaves the file alone.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import fnmatch
import itertools
import json
import re
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT / part) for part in ("src", "tests/parity", "tests")] + [str(HERE)]

import install  # noqa: E402
import wire  # noqa: E402
from case import (  # noqa: E402
    SAMPLES,
    Answer,
    Case,
    CaseError,
    Evaluated,
    Look,
    Record,
    Result,
    Row,
    Sheet,
    SheetAnswer,
    case_paths,
    fill,
    format_record,
    is_append_only,
    json_members,
    read_answer,
    read_case,
    read_sheet,
    read_sheet_answer,
    sheet_paths,
    unfill,
    write_answer,
    write_sheet_answer,
)

from tidemill.broker import find_java, start, topics  # noqa: E402
from tidemill.broker.jars import fetch  # noqa: E402
from tidemill.broker.records import Record as WireRecord  # noqa: E402
from tidemill.errors import TidemillError  # noqa: E402

EXPRESSIONS_PER_JOB = 25
# A job over bounded tables ends by itself; being quiet only means that the machine is busy with something else.
BOUNDED_QUIET = 60.0
Chain = list[list[str]]

# What differs from one recording to the next, and what stands for it.
VOLATILE = (
    (re.compile(r"\b[0-9a-f]{32}\b"), "<id>"),
    (re.compile(r"(?<=[\w;])@[0-9a-f]{5,8}\b"), "@<hash>"),
    (re.compile(r"\bCreateTime = \d+"), "CreateTime = <time>"),
)
# Exceptions that only carry another one.
WRAPPERS = ("java.util.concurrent.ExecutionException", "java.util.concurrent.CompletionException")


class Unrecorded(Exception):
    """A case or sheet that gave no answer; says why."""


class Oracle:
    """Flink, in a process of its own."""

    def __init__(self, home: Path, lock: Path = install.LOCK) -> None:
        self.log = home / "oracle.log"
        command = [
            install.flink_python(home),
            HERE / "oracle.py",
            find_java(),
            *fetch(lock),
        ]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, encoding="utf-8"
            )

    def ask(self, do: str, **members: Any) -> dict[str, Any]:
        assert self.process.stdin and self.process.stdout
        try:
            self.process.stdin.write(json.dumps({"do": do, **members}) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the oracle has died, see {self.log}")
        answer: dict[str, Any] = json.loads(line)
        if "fault" in answer:
            raise Unrecorded(f"the oracle failed: {answer['fault']}")
        return answer

    def close(self) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class Recorder:
    def __init__(self, bootstrap: str, oracle: Oracle) -> None:
        self.bootstrap = bootstrap
        self.oracle = oracle

    # --- cases ----------------------------------------------------------------------------------

    def record_case(self, case: Case) -> Answer:
        # Names that nobody else has; the values for a script's `${…}`.
        run = secrets.token_hex(4)
        names = wire.names_of(case, run)
        with wire.world(self.bootstrap, case, names, run) as world:
            values = world.values
            try:
                types, plans, rows, error = self._run(case, values)
            finally:
                self.oracle.ask("stop")
            files = world.files(case)
        looks = {look.what: look for look in case.looks}
        if error and "error" not in looks:
            raise Unrecorded("Flink failed: " + unfill(chain_text(error), values))
        if not error and "error" in looks:
            raise Unrecorded("Flink did not fail")
        mode = "\n\n".join(plans)
        text = stable(chain_text(error), values) if error else None
        if text is not None and (looks["error"].fragment or "") not in text:
            fragment = looks["error"].fragment
            raise Unrecorded(f"Flink's error does not hold '{fragment}' but says:\n{text}")
        result = Result(
            select=changelog(rows, values) if "select" in looks else None,
            topics={
                look.topic: self._wire(case, look, values[look.topic], is_append_only(mode))
                for look in case.looks
                if look.topic
            },
            error=text,
            groups={
                look.group: wire.committed(self.bootstrap, names[look.group], names)
                for look in case.looks
                if look.group
            },
            registry=world.schemas() if "registry" in looks else None,
            files=files,
        )
        return Answer(
            case.answer_path,
            today(),
            case.input,
            tuple((name, type_) for name, type_ in types) if types is not None else None,
            stable(mode, values) if mode else None,
            result,
        )

    def _run(
        self, case: Case, values: Mapping[str, str]
    ) -> tuple[list[list[str]] | None, list[str], list[list[str]], Chain | None]:
        wire.prepare(self.bootstrap, case, values)
        statements = [fill(statement, values) for statement in case.statements]
        started = self.oracle.ask("start", statements=statements)
        types, plans, rows = started["types"], started["plans"], []
        error = started.get("error")
        ended = False
        for number in range(len(case.steps)):
            if error:
                break
            if number:
                if ended:
                    raise Unrecorded(f"the jobs ended before step {number + 1}")
                wire.write_step(self.bootstrap, case, number, values)
            settled = self.oracle.ask("settle", quiet=patience_of(case))
            rows += settled["rows"]
            error, ended = settled.get("error"), settled["ended"]
        return types, plans, rows, error

    def _wire(self, case: Case, look: Look, name: str, append_only: bool) -> tuple[Record, ...]:
        """What a topic holds, in an order and with the facts that are the same each time."""
        records = wire.read(self.bootstrap, case, look, name)
        if "last" in look.words and all(r.key is not None for r in records):
            records = list({r.key: r for r in records}.values())
        if append_only and any(topic.partitions > 1 for topic in case.topics):
            return tuple(sorted(records, key=format_record))
        if "by key" in look.words:
            return tuple(sorted(records, key=lambda r: (r.key is not None, r.key or b"")))
        return tuple(sorted(records, key=lambda r: r.partition or 0))

    # --- sheets ---------------------------------------------------------------------------------

    def record_sheet(self, sheet: Sheet) -> SheetAnswer:
        values = {
            "samples": f"parity-{secrets.token_hex(4)}-samples",
            "BOOTSTRAP": self.bootstrap,
        }
        topics.create(self.bootstrap, values["samples"], 1)
        records = [WireRecord(row.encode("utf-8"), partition=0) for row in sheet.rows]
        topics.write(self.bootstrap, values["samples"], records)
        before = [fill(s, values) for s in (*sheet.settings, SAMPLES.format(columns=sheet.columns))]
        expressions = self._in_groups(
            sheet.expressions, lambda chosen: self._evaluate(before, sheet, chosen, values)
        )
        aggregates = self._in_groups(
            sheet.aggregates, lambda chosen: self._aggregate(before, sheet, chosen, values)
        )
        return SheetAnswer(
            sheet.answer_path, today(), sheet.input, tuple(expressions), tuple(aggregates)
        )

    def _in_groups(self, texts: tuple[str, ...], run: Any) -> Iterator[Evaluated]:
        """Many in a job; where the job fails each in its own, so that one failure hits one."""
        for begin in range(0, len(texts), EXPRESSIONS_PER_JOB):
            group = texts[begin : begin + EXPRESSIONS_PER_JOB]
            found = run(group)
            if isinstance(found, str) and len(group) > 1:
                for text in group:
                    alone = run((text,))
                    yield Evaluated(text, error=alone) if isinstance(alone, str) else alone[0]
            elif isinstance(found, str):
                yield Evaluated(group[0], error=found)
            else:
                yield from found

    def _query(
        self, before: list[str], query: str, values: Mapping[str, str]
    ) -> tuple[list[list[str]], list[list[str]]] | str:
        """Types and changelog of a bounded query, or its error."""
        try:
            started = self.oracle.ask("start", statements=[*before, query])
            settled = {} if "error" in started else self.oracle.ask("settle", quiet=BOUNDED_QUIET)
        finally:
            self.oracle.ask("stop")
        error = started.get("error") or settled.get("error")
        if error:
            return stable(chain_text(error, first_lines=True), values)
        return started["types"], settled["rows"]

    def _evaluate(
        self, before: list[str], sheet: Sheet, chosen: tuple[str, ...], values: Mapping[str, str]
    ) -> list[Evaluated] | str:
        found = self._query(before, f"SELECT {aliased(chosen)} FROM samples", values)
        if isinstance(found, str):
            return found
        types, rows = found
        if len(rows) != len(sheet.rows):
            raise Unrecorded(f"{len(sheet.rows)} samples gave {len(rows)} rows")
        texts = [[text for _, text in json_members(row)] for _, row in rows]
        return [
            Evaluated(text, types[i][1], tuple(row[i] for row in texts))
            for i, text in enumerate(chosen)
        ]

    def _aggregate(
        self, before: list[str], sheet: Sheet, chosen: tuple[str, ...], values: Mapping[str, str]
    ) -> list[Evaluated] | str:
        whole = self._query(before, f"SELECT {aliased(chosen)} FROM samples", values)
        if isinstance(whole, str):
            return whole
        types, rows = whole
        [(_, finals)] = fold(rows, 0).items()
        made = [Evaluated(t, types[i][1], (finals[i],)) for i, t in enumerate(chosen)]
        if not sheet.has_groups:
            return made
        grouped = self._query(
            before, f"SELECT g, {aliased(chosen)} FROM samples GROUP BY g", values
        )
        if isinstance(grouped, str):
            return grouped
        types, rows = grouped
        groups = sorted(fold(rows, 1).items())
        return [
            dataclasses.replace(
                each,
                group_type=types[i + 1][1],
                groups=tuple((key[0], finals[i]) for key, finals in groups),
            )
            for i, each in enumerate(made)
        ]


def patience_of(case: Case) -> float:
    """How long nothing may move before a case counts as settled."""
    ends = len(case.steps) == 1 and "scan.bounded.mode" in case.script
    return max(case.quiet_seconds, BOUNDED_QUIET) if ends else case.quiet_seconds


def aliased(expressions: tuple[str, ...]) -> str:
    return ", ".join(f"{text} AS r{i}" for i, text in enumerate(expressions))


def fold(rows: list[list[str]], keys: int) -> dict[tuple[str, ...], list[str]]:
    """The table that a changelog leaves: the first columns' texts → the others'."""
    table: dict[tuple[str, ...], list[str]] = {}
    for kind, row in rows:
        texts = [text for _, text in json_members(row)]
        if kind in ("+I", "+U"):
            table[tuple(texts[:keys])] = texts[keys:]
        elif kind == "-D":
            table.pop(tuple(texts[:keys]), None)
    return table


def changelog(rows: list[list[str]], values: Mapping[str, str]) -> tuple[Row, ...]:
    made = [Row(kind, unfill(text, values)) for kind, text in rows]
    if all(row.kind == "+I" for row in made):
        made.sort(key=lambda row: row.text)
    return tuple(made)


def chain_text(chain: Chain, first_lines: bool = False) -> str:
    """A link a line, `class: message`; further lines of a message are indented."""
    lines = []
    for name, message in chain:
        if name in WRAPPERS and len(chain) > 1:
            continue
        parts = [line.rstrip() for line in message.strip().split("\n") if line.strip()]
        head = f"{name}: {parts[0]}" if parts else name
        lines.append("\n".join([head, *(f"  {part}" for part in parts[1:] if not first_lines)]))
    return "\n".join(lines)


def stable(text: str, values: Mapping[str, str]) -> str:
    text = unfill(text, values)
    for pattern, replacement in VOLATILE:
        text = pattern.sub(replacement, text)
    return text


def today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


# --- the command --------------------------------------------------------------------------------


def is_fresh(item: Case | Sheet) -> bool:
    try:
        read = read_answer if isinstance(item, Case) else read_sheet_answer
        return read(item.answer_path).input == item.input
    except CaseError:
        return False


def is_chosen(name: str, patterns: list[str]) -> bool:
    return any(name.startswith(p) or fnmatch.fnmatchcase(name, p) for p in patterns)


def save(path: Path, text: str) -> str:
    """Write an answer unless the tree has it; what became of it."""
    undated = re.compile(r"^recorded .*$", re.MULTILINE)
    old = path.read_text(encoding="utf-8") if path.exists() else None
    if old is not None and undated.sub("", old, 1) == undated.sub("", text, 1):
        return "same"
    path.write_text(text, encoding="utf-8")
    return "recorded" if old is None else "changed"


def record(recorder: Recorder, item: Case | Sheet) -> str:
    if isinstance(item, Case):
        return save(item.answer_path, write_answer(recorder.record_case(item)))
    answer = recorder.record_sheet(item)
    refused = sum(each.error is not None for each in (*answer.expressions, *answer.aggregates))
    said = save(item.answer_path, write_sheet_answer(answer))
    return f"{said} ({refused} refused by Flink)" if refused else said


def lock_of(item: Case | Sheet) -> Path:
    """The jars that Flink needs for it."""
    has_registry = isinstance(item, Case) and item.registry is not None
    return install.REGISTRY_LOCK if has_registry else install.LOCK


def record_all(items: list[Case | Sheet]) -> int:
    home = install.installed_home()
    failed = 0
    with tempfile.TemporaryDirectory() as place:
        broker = start(Path(place), port=0)
        try:
            for lock, chosen in itertools.groupby(sorted(items, key=lock_of), key=lock_of):
                oracle = Oracle(home, lock)
                try:
                    failed += record_each(Recorder(broker.bootstrap, oracle), chosen)
                finally:
                    oracle.close()
        finally:
            broker.stop()
    return failed


def record_each(recorder: Recorder, items: Iterable[Case | Sheet]) -> int:
    failed = 0
    for item in items:
        begun = time.monotonic()
        try:
            said = record(recorder, item)
        except (Unrecorded, TidemillError) as problem:
            failed += 1
            said = f"FAILED {problem}"
        seconds = time.monotonic() - begun
        print(f"{item.name}: {said} [{seconds:.1f} s]", flush=True)
    return failed


def asked_for(description: str | None) -> argparse.Namespace:
    """What a recorder is told: --all, or names and patterns."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("names", nargs="*")
    return parser.parse_args()


def main() -> int:
    asked = asked_for(__doc__)
    try:
        every: list[Case | Sheet] = [*map(read_case, case_paths()), *map(read_sheet, sheet_paths())]
    except CaseError as problem:
        print(problem, file=sys.stderr)
        return 2
    if asked.names:
        items = [item for item in every if is_chosen(item.name, asked.names)]
        if not items:
            print(f"no case or sheet is called {' or '.join(asked.names)}", file=sys.stderr)
            return 2
    else:
        items = [item for item in every if asked.all or not is_fresh(item)]
    if not items:
        print(f"all {len(every)} answers are fresh")
        return 0
    failed = record_all(items)
    print(f"{len(items) - failed} of {len(items)} answered, {len(every) - len(items)} left alone")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

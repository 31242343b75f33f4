"""Cases kept as text: a command, its input, `----`, what must come out. REWRITE=1 writes what does come out.

    # comments stand before a case and stay with it
    parse dialect=flink
    SELECT 1
    ----
    QueryStatement …

A case ends at the first empty line after `----`; an output that itself holds empty lines stands between two pairs
of `----`. The input may hold empty lines.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

RULE = "----"


@dataclass(frozen=True)
class Case:
    path: Path
    line: int
    comments: tuple[str, ...]
    command: str
    arguments: dict[str, str] = field(hash=False)
    input: str
    expected: str

    @property
    def place(self) -> str:
        return f"{self.path.name}:{self.line}"


def load(path: Path) -> list[Case]:
    lines = path.read_text(encoding="utf-8").split("\n")
    cases: list[Case] = []
    comments: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        if not line.strip() or line.startswith("#"):
            comments.append(line)
            at += 1
            continue
        start = at
        command, *words = line.split()
        arguments = dict(word.partition("=")[::2] for word in words)
        end = _find(lines, RULE, at + 1, path, start)
        body, at = lines[at + 1 : end], end + 1
        if at < len(lines) and lines[at] == RULE:
            closing = _find(lines, RULE, at + 1, path, start)
            while lines[closing + 1 : closing + 2] != [RULE]:
                closing = _find(lines, RULE, closing + 1, path, start)
            expected, at = lines[at + 1 : closing], closing + 2
        else:
            end = next((i for i in range(at, len(lines)) if not lines[i].strip()), len(lines))
            expected, at = lines[at:end], end
        cases.append(
            Case(
                path,
                start + 1,
                tuple(comments),
                command,
                arguments,
                "\n".join(body),
                "\n".join(expected),
            )
        )
        comments = []
    if not cases:
        raise ValueError(f"{path}: no case found")
    return cases


def _find(lines: list[str], rule: str, start: int, path: Path, case: int) -> int:
    for i in range(start, len(lines)):
        if lines[i] == rule:
            return i
    raise ValueError(f"{path}:{case + 1}: the case has no line {rule}")


def check(path: Path, evaluate: Callable[[Case], str]) -> None:
    """Runs every case of a file; all that differ are shown together."""
    cases = load(path)
    results = [evaluate(case).rstrip("\n") for case in cases]
    if os.environ.get("REWRITE"):
        path.write_text("\n".join(map(_write, cases, results)) + "\n", encoding="utf-8")
        return
    failures = [
        "\n".join(
            difflib.unified_diff(
                case.expected.split("\n"), result.split("\n"), case.place, "result", lineterm=""
            )
        )
        for case, result in zip(cases, results, strict=True)
        if result != case.expected
    ]
    if failures:
        shown = "\n\n".join(failures[:20])
        raise AssertionError(
            f"{len(failures)} of {len(cases)} cases differ (REWRITE=1 accepts)\n{shown}"
        )


def _write(case: Case, result: str) -> str:
    head = " ".join([case.command, *(f"{k}={v}" if v else k for k, v in case.arguments.items())])
    blank = result and any(not line.strip() for line in result.split("\n"))
    output = f"{RULE}\n{result}\n{RULE}\n{RULE}" if blank else result
    comments = "".join(comment + "\n" for comment in case.comments if comment.strip())
    return f"{comments}{head}\n{case.input}\n{RULE}\n{output}\n"

"""Every script in data/ that parses: seeds for the tests of spans, speed and mutation."""

from __future__ import annotations

from pathlib import Path

from harness.datadriven import load

DATA = sorted((Path(__file__).parent / "data").glob("*.txt"))


def scripts() -> list[str]:
    return [
        _fill(case.input, case.arguments)
        for path in DATA
        for case in load(path)
        if case.command in ("script", "accept") and "error SQL-" not in case.expected
    ]


def expressions() -> list[str]:
    return [
        line
        for path in DATA
        for case in load(path)
        if case.command == "expressions"
        for line in case.input.split("\n")
    ]


def _fill(text: str, variables: dict[str, str]) -> str:
    for name, value in variables.items():
        text = text.replace("${" + name + "}", value)
    return text

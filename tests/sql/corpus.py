"""Every script in data/ that parses: seeds for the tests of spans, speed and mutation."""

from __future__ import annotations

from pathlib import Path

from harness.datadriven import Case, load
from tidemill.sql.dialects import DIALECTS, FLINK, Dialect

DATA = sorted((Path(__file__).parent / "data").glob("*.txt"))


def cases(*commands: str) -> list[Case]:
    """The cases that are read without a mistake."""
    return [
        case
        for path in DATA
        for case in load(path)
        if case.command in commands and "error SQL-" not in case.expected
    ]


def texts(case: Case) -> list[tuple[str, Dialect]]:
    """The scripts of a case; each line of `statements` is one."""
    dialect = DIALECTS[case.arguments.get("dialect", FLINK.name)]
    if case.command == "statements":
        return [(line, dialect) for line in case.input.split("\n")]
    return [(_fill(case.input, case.arguments), dialect)]


def scripts_by_dialect() -> list[tuple[str, Dialect]]:
    return [found for case in cases("script", "accept", "statements") for found in texts(case)]


def scripts() -> list[str]:
    return [text for text, dialect in scripts_by_dialect() if dialect == FLINK]


def expressions() -> list[str]:
    return [line for case in cases("expressions") for line in case.input.split("\n")]


def _fill(text: str, variables: dict[str, str]) -> str:
    for name, value in variables.items():
        text = text.replace("${" + name + "}", value)
    return text

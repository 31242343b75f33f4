"""From scripts of any dialect and age to the tree that the rest of the system knows.

In: the text of script files, or their tree and dialect. Out: a tree in which every table is written as today's Flink
writes it, and a note for every change. Law: spans stay those of the text that the user wrote, also in what was
rewritten; what cannot be expressed stays as it is and is refused by name when its table is declared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tidemill.errors import Diagnostic, ScriptError, Source, Span
from tidemill.sql import ast, parse_script
from tidemill.sql.detection import detect
from tidemill.sql.dialects import BLINK, FLINK, Dialect
from tidemill.tables import blink, legacy
from tidemill.tables.renewal import Renewal


@dataclass(frozen=True)
class Modern:
    """A script as today's Flink would write it."""

    script: ast.Script
    notes: tuple[Diagnostic, ...] = ()
    """Every change, in the order of the script; `warning`s are those that do not keep the meaning for sure."""
    dialects: tuple[Dialect, ...] = ()
    """Of each text that was read."""

    @property
    def to_tell(self) -> list[Diagnostic]:
        """What is said when a script is run or checked: not that an option has another name today."""
        told = ("DIA-001", "DIA-005")
        return [n for n in self.notes if n.severity == "warning" or n.code in told]


def read_modern(
    sources: Iterable[Source],
    variables: Mapping[str, str] | None = None,
    dialect: Dialect | None = None,
) -> Modern:
    """Parse texts as one script, each in the dialect that is given or that it is found to be written in."""
    parts: list[ast.Script] = []
    notes: list[Diagnostic] = []
    dialects: list[Dialect] = []
    problems: list[Diagnostic] = []
    for source in sources:
        chosen = dialect or detect(source.text)
        dialects.append(chosen)
        if dialect is None and chosen is not FLINK:
            notes.append(_detected(source, chosen))
        try:
            script, changes = modernise(parse_script(source, variables, chosen), chosen)
        except ScriptError as error:
            problems += error.diagnostics
        else:
            parts.append(script)
            notes += changes
    if problems:
        raise ScriptError(problems + [n for n in notes if n.code == "DIA-001"])
    statements = tuple(statement for part in parts for statement in part.statements)
    return Modern(replace(parts[0], statements=statements), tuple(notes), tuple(dialects))


def _detected(source: Source, dialect: Dialect) -> Diagnostic:
    return Diagnostic(
        "DIA-001",
        f"{source.name} is read in the dialect '{dialect.name}'; --dialect chooses another",
        Span(source, 0, 0),
        severity="notice",
    )


def modernise(script: ast.Script, dialect: Dialect = FLINK) -> tuple[ast.Script, list[Diagnostic]]:
    """The script as today's Flink would write it, and a note for every change."""
    notes: list[Diagnostic] = []
    statements = []
    for statement in script.statements:
        renewed, changes = modernise_statement(statement, dialect)
        statements.append(renewed)
        notes += changes
    return replace(script, statements=tuple(statements)), notes


def modernise_statement(
    statement: ast.Statement, dialect: Dialect = FLINK
) -> tuple[ast.Statement, list[Diagnostic]]:
    """One statement as today's Flink would write it; its notes in the order of the text, each said once."""
    notes = _spelling(statement, dialect)
    if isinstance(statement, ast.CreateTable):
        if dialect is BLINK:
            statement, changes = blink.renew_table(statement)
            notes += changes
            if statement.watermark is not None:
                watermark, changes = blink.renew_watermark(statement.watermark)
                statement = replace(statement, watermark=watermark)
                notes += changes
        statement, changes = legacy.renew_table(statement)
        notes += changes
    first: dict[str, Diagnostic] = {}
    for note in notes:
        first.setdefault(note.message, note)
    return statement, sorted(first.values(), key=lambda n: n.span.start if n.span else 0)


# --- what the parser has already read as today's -----------------------------------------------


def _spelling(statement: ast.Statement, dialect: Dialect) -> list[Diagnostic]:
    """Notes on what means the same in the tree and is spelt otherwise in the text."""
    if not (dialect.bare_options or dialect.double_quoted_options):
        return []
    renewal = Renewal()
    for node in ast.walk(statement):
        match node:
            case ast.Option(span=span, value_span=value_span) if (
                span.text[:1] != "'" or value_span.text[-1:] != "'"
            ) and isinstance(statement, ast.CreateTable):
                renewal.note("DIA-002", "options are written in single quotes", span)
            case ast.PhysicalColumn(type_span=span) | ast.Cast(type_span=span) if (
                dialect.unsized_is_unbounded
            ):
                for word in _UNSIZED.findall(span.text):
                    meant = _UNBOUNDED[word.upper()]
                    renewal.note("DIA-002", f"{word.upper()} without a length is {meant}", span)
            case ast.PrimaryKey(span=span) if dialect.key_is_not_enforced:
                if "ENFORCED" not in span.text.upper():
                    renewal.note("DIA-002", "a PRIMARY KEY is NOT ENFORCED", span)
    return renewal.notes


_UNSIZED = re.compile(r"\b(VARCHAR|VARBINARY)\b(?!\s*\()", re.IGNORECASE)
_UNBOUNDED = {"VARCHAR": "STRING", "VARBINARY": "BYTES"}

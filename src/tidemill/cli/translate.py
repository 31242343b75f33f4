"""`tidemill translate`: a script of another dialect or age as today's Flink SQL."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tidemill.cli.options import pairs
from tidemill.sql import read_script
from tidemill.sql.detection import detect
from tidemill.sql.dialects import BLINK, DLI, FLINK_1_10, OCEANUS
from tidemill.tables.translation import translate as translated

_FROM = {dialect.name: dialect for dialect in (BLINK, DLI, OCEANUS, FLINK_1_10)}


@click.command()
@click.argument("script", type=click.Path(path_type=Path))
@click.option(
    "--from",
    "origin",
    type=click.Choice(list(_FROM)),
    help="Whose SQL the script is written in; default: found out from it.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write here instead of standard output."
)
@click.option(
    "--notes/--no-notes",
    default=True,
    help="Whether comments say what was changed.",
    show_default=True,
)
@click.option(
    "--var",
    "variables",
    multiple=True,
    metavar="NAME=VALUE",
    help="Value of a ${NAME} outside of quotes.",
)
def translate(
    script: Path,
    origin: str | None,
    output: Path | None,
    notes: bool,
    variables: tuple[str, ...],
) -> None:
    """Write SCRIPT in today's Flink SQL, with a note for every change.

    What need not change stays to the letter, comments and ${NAME} too. Knows the tables of Blink, DLI and Oceanus, and
    those of Flink before 1.11 ('connector.type').
    """
    source = read_script(script)
    dialect = _FROM[origin] if origin else detect(source.text)
    done = translated(source, dialect, pairs(variables, "--var"), notes)
    if output:
        output.write_text(done.text, encoding="utf-8")
    else:
        print(done.text, end="")
    warnings = [note for note in done.notes if note.severity == "warning"]
    for warning in warnings:
        print(warning.render(), file=sys.stderr)
    changes = len(done.notes) - len(warnings)
    print(
        f"{script}: {changes} change{'s' * (changes != 1)}, {len(warnings)} to look at"
        if done.notes
        else f"{script}: nothing to change",
        file=sys.stderr,
    )

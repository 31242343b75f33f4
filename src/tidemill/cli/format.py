"""`tidemill format`: scripts in canonical layout, comments kept."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path

import click

from tidemill.cli.options import dialect_option, pairs
from tidemill.errors import ScriptError, Source
from tidemill.sql import decode_script, read_script
from tidemill.sql.detection import detect
from tidemill.sql.dialects import Dialect
from tidemill.sql.formatting import format_script

_STDIN = Path("-")


@click.command()
@click.argument("scripts", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-w", "--write", is_flag=True, help="Write the files instead of standard output.")
@click.option(
    "--check", is_flag=True, help="Name the files that would change; exit 1 if any would."
)
@click.option("--diff", is_flag=True, help="Show what would change.")
@dialect_option
@click.option(
    "--var",
    "variables",
    multiple=True,
    metavar="NAME=VALUE",
    help="What ${NAME} stands for, where that cannot be guessed; it stays in the script.",
)
def format(
    scripts: tuple[Path, ...],
    write: bool,
    check: bool,
    diff: bool,
    dialect: Dialect | None,
    variables: tuple[str, ...],
) -> None:
    """Lay out SCRIPTS: keywords in upper case, clauses on lines of their own.

    Nothing else changes: names, literals, comments and ${NAME} stay as they are written. A script with mistakes stays
    as it is. `-` is standard input.
    """
    values = pairs(variables, "--var")
    code = 0
    for path in scripts:
        source = _read(path)
        try:
            formatted = format_script(source, values, dialect or detect(source.text))
        except ScriptError as error:
            print(error, file=sys.stderr)
            code = 1
            continue
        changed = formatted != source.text
        if check and changed:
            print(f"{path} would change")
            code = 1
        if diff:
            _show_difference(source, formatted)
        if write and changed and path != _STDIN:
            path.write_bytes(formatted.encode())
            print(f"{path}: formatted", file=sys.stderr)
        elif not (check or diff) and (not write or path == _STDIN):
            sys.stdout.write(formatted)
    raise SystemExit(code)


def _read(path: Path) -> Source:
    if path == _STDIN:
        return decode_script("<stdin>", sys.stdin.buffer.read())
    return read_script(path)


def _show_difference(source: Source, formatted: str) -> None:
    before, after = (text.splitlines(keepends=True) for text in (source.text, formatted))
    for line in difflib.unified_diff(before, after, source.name, f"{source.name} formatted"):
        sys.stdout.write(line if line.endswith("\n") else f"{line}\n")

"""What the commands that take scripts share: arguments of the form KEY=VALUE, the dialect, places of Python files."""

from __future__ import annotations

from collections.abc import Iterable

import click

from tidemill.errors import usage_error
from tidemill.sql.dialects import DIALECTS, Dialect


def _dialect(_: click.Context, __: click.Parameter, name: str | None) -> Dialect | None:
    return DIALECTS[name] if name else None


dialect_option = click.option(
    "--dialect",
    type=click.Choice(list(DIALECTS)),
    callback=_dialect,
    help="Whose SQL the scripts are written in; default: found out from each.",
)

pyfiles_option = click.option(
    "--pyfiles",
    "python_files",
    multiple=True,
    metavar="PATH",
    help="Look for Python functions here: a directory, a .py file or a .zip.",
)


def pairs(given: Iterable[str], option: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in given:
        key, sign, value = item.partition("=")
        if not sign or not key:
            raise usage_error("CLI-002", f"{option} '{item}' is not of the form KEY=VALUE")
        found[key] = value
    return found

"""Options that the commands share that run or check scripts."""

from __future__ import annotations

from collections.abc import Iterable

import click

from tidemill.errors import usage_error

pyfiles = click.option(
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

"""What the commands that take scripts share: arguments of the form KEY=VALUE, the dialect, places of Python files, and
what tables log in with."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

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
    help="Python functions may be loaded from here: a directory, a .py file or a .zip.",
)

allow_loop_option = click.option(
    "--allow-loop", is_flag=True, help="A job may read what it writes."
)


job_config_option = click.option(
    "--job-config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Settings, in lines `key: value`; --set beats them, and they beat the script's SET.",
)

package_option = click.option(
    "--package",
    "packages",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE.jar",
    help="Look in this jar for files that settings name, such as a keytab.",
)

credentials_option = click.option(
    "--credentials",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The file of named authentications (`tidemill auth`); default: the user's own.",
)


def pairs(given: Iterable[str], option: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in given:
        key, sign, value = item.partition("=")
        if not sign or not key:
            raise usage_error("CLI-002", f"{option} '{item}' is not of the form KEY=VALUE")
        found[key] = value
    return found

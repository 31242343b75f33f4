"""`tidemill check`: parse, resolve and validate, without a JVM. Also the reading that `explain` shares with it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from tidemill.cli.options import (
    allow_loop_option,
    credentials_option,
    dialect_option,
    job_config_option,
    package_option,
    pairs,
    pyfiles_option,
)
from tidemill.errors import Diagnostic, Source, TidemillError, in_script_order
from tidemill.plan.advice import advise
from tidemill.plan.environment import Environment, Job, Text, check_places, compile_script
from tidemill.plan.loops import loops
from tidemill.sql import read_script
from tidemill.sql.dialects import Dialect
from tidemill.tables.job_config import read_job_config
from tidemill.tables.logins import Logins
from tidemill.tables.modern import read_modern


@dataclass(frozen=True)
class Reading:
    """What the command line says about the scripts to read."""

    scripts: tuple[Path, ...]
    variables: tuple[str, ...]
    settings: tuple[str, ...]
    dialect: Dialect | None
    python_files: tuple[str, ...] = ()
    job_config: Path | None = None
    packages: tuple[Path, ...] = ()
    credentials: Path | None = None
    plan_only: bool = False
    """Whether what plans and cannot be run is good enough."""
    allow_loop: bool = False
    """Whether a job may read what it writes."""


@dataclass(frozen=True)
class Checked:
    """What is known of scripts without running them."""

    answers: tuple[Job | Text, ...]
    diagnostics: list[Diagnostic]
    """In the order of the scripts: errors, warnings, advice and notices."""
    exit_code: int

    @property
    def jobs(self) -> list[Job]:
        return [answer for answer in self.answers if isinstance(answer, Job)]


def read_scripts(reading: Reading) -> Checked:
    """Read and plan; all that is wrong with the scripts, or worth a word, is in the diagnostics."""
    found: list[Diagnostic] = []
    sources: list[Source] = []
    answers: list[Job | Text] = []
    code = 0
    try:
        environment = Environment(
            overrides=pairs(reading.settings, "--set"),
            config=() if reading.job_config is None else read_job_config(reading.job_config),
            logins=Logins.given(
                reading.credentials, reading.job_config, reading.packages, checking=True
            ),
            python_files=reading.python_files,
        )
        try:
            variables = pairs(reading.variables, "--var")
            sources += [read_script(script) for script in reading.scripts]
            modern = read_modern(sources, variables, reading.dialect)
            environment.warnings += modern.to_tell
            answers = compile_script(modern.script, environment)
            jobs = [answer for answer in answers if isinstance(answer, Job)]
            fed = [] if reading.allow_loop else loops(jobs)
            places = {d.span for d in fed}
            found += [
                d
                for d in advise(modern.script, jobs)
                if d.code != "ADV-005" or d.span not in places
            ]
            missing = [*fed, *(d for job in jobs for d in job.not_runnable)]
            if missing and not reading.plan_only:
                code = 1
            found += [replace(d, severity="warning") for d in missing] if not code else missing
            shared = check_places(jobs, reading.scripts[0].stem)
            code = 1 if shared else code
            found += shared
        finally:
            found += environment.warnings
    except TidemillError as error:
        found += error.diagnostics
        code = error.exit_code
    return Checked(tuple(answers), in_script_order(dict.fromkeys(found), sources), code)


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The arguments of a command that reads scripts; `Reading` takes their values."""
    options = (
        click.argument("scripts", nargs=-1, required=True, type=click.Path(path_type=Path)),
        click.option(
            "--var", "variables", multiple=True, metavar="NAME=VALUE", help="Fill ${NAME}."
        ),
        click.option(
            "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Beats the script's SET."
        ),
        job_config_option,
        package_option,
        credentials_option,
        dialect_option,
        pyfiles_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command()
@reading_options
@allow_loop_option
@click.option("--plan-only", is_flag=True, help="What plans is good, though it cannot be run yet.")
@click.option("--json", "as_json", is_flag=True, help="Print the diagnostics as JSON.")
def check(as_json: bool, **given: Any) -> None:
    """Check SCRIPTS (several files are one script) and say what is wrong with them.

    Mistakes, what cannot be run yet, and advice come in the order of the script.
    """
    reading = Reading(**given)
    checked = read_scripts(reading)
    if as_json:
        print(json.dumps([d.to_json() for d in checked.diagnostics], ensure_ascii=False, indent=2))
    else:
        tell(checked.diagnostics)
        if checked.exit_code == 0:
            names, jobs = ", ".join(str(s) for s in reading.scripts), len(checked.jobs)
            print(f"{names}: ok, {jobs} job{'s' * (jobs != 1)}")
    raise SystemExit(checked.exit_code)


def tell(diagnostics: list[Diagnostic]) -> None:
    for diagnostic in diagnostics:
        print(diagnostic.render(), file=sys.stderr)

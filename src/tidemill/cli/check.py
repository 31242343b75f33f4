"""`tidemill check`: parse, resolve and validate, without a JVM."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from tidemill.cli.options import pairs, pyfiles
from tidemill.errors import Diagnostic, TidemillError
from tidemill.plan.environment import Environment, Job, compile_script
from tidemill.sql import parse_script, read_script


@click.command()
@click.argument("scripts", nargs=-1, required=True, type=click.Path(path_type=Path))
@pyfiles
@click.option("--var", "variables", multiple=True, metavar="NAME=VALUE", help="Fill ${NAME}.")
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Beats the script's SET."
)
@click.option("--json", "as_json", is_flag=True, help="Print the diagnostics as JSON.")
def check(
    scripts: tuple[Path, ...],
    python_files: tuple[str, ...],
    variables: tuple[str, ...],
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    """Check SCRIPTS (several files are one script) and say what is wrong with them."""
    found: list[Diagnostic] = []
    jobs = 0
    code = 0
    try:
        environment = Environment(overrides=pairs(settings, "--set"), python_files=python_files)
        try:
            script = parse_script([read_script(s) for s in scripts], pairs(variables, "--var"))
            answers = compile_script(script, environment)
            jobs = sum(isinstance(answer, Job) for answer in answers)
        finally:
            found += environment.warnings
    except TidemillError as error:
        found = error.diagnostics + found
        code = error.exit_code
    if as_json:
        print(json.dumps([d.to_json() for d in found], ensure_ascii=False, indent=2))
    else:
        for diagnostic in found:
            print(diagnostic.render(), file=sys.stderr)
        if code == 0:
            names = ", ".join(str(s) for s in scripts)
            print(f"{names}: ok, {jobs} job{'s' * (jobs != 1)}")
    raise SystemExit(code)

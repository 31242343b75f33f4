"""`tidemill explain`: the plan of every job, in the shape of Flink's EXPLAIN CHANGELOG_MODE, then advice."""

from __future__ import annotations

import json
from typing import Any

import click

from tidemill.cli.check import Reading, read_scripts, reading_options, tell
from tidemill.plan.environment import Job
from tidemill.plan.explain import explain as explain_plan
from tidemill.plan.explain import tree


@click.command()
@reading_options
@click.option("--json", "as_json", is_flag=True, help="Print plans and diagnostics as JSON.")
def explain(as_json: bool, **given: Any) -> None:
    """Show how the jobs of SCRIPTS (several files are one script) are planned; nothing is run.

    Every operator says which changes it emits; advice and what cannot be run yet follow.
    """
    checked = read_scripts(Reading(**given, plan_only=True))
    if as_json:
        shown = {
            "jobs": [
                {
                    "name": job.target,
                    "runnable": not job.not_runnable,
                    "plans": [tree(r, m) for r, m in zip(job.roots, job.modes, strict=True)],
                }
                for job in checked.jobs
            ],
            "diagnostics": [d.to_json() for d in checked.diagnostics],
        }
        print(json.dumps(shown, ensure_ascii=False, indent=2))
    else:
        for job in checked.jobs:
            print(_text(job))
        tell(checked.diagnostics)
    raise SystemExit(checked.exit_code)


def _text(job: Job) -> str:
    plans = (
        explain_plan(root, modes, keys=True)
        for root, modes in zip(job.roots, job.modes, strict=True)
    )
    return f"== {job.target} ==\n" + "\n\n".join(plans) + "\n"

"""`tidemill state`: look into checkpoints, and change how they are cut."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidemill.cli.options import pairs
from tidemill.errors import usage_error

if TYPE_CHECKING:
    from tidemill.spark.checkpoints import Checkpoint


@click.group()
def state() -> None:
    """Look into checkpoints, and change their parallelism."""


def _spark_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option(
            "--conf", "confs", multiple=True, metavar="KEY=VALUE", help="A setting of Spark's."
        ),
        click.option(
            "--master", metavar="URL", help="Spark master; default: this machine, all cores."
        ),
    ):
        command = option(command)
    return command


@state.command()
@click.argument("checkpoint")
@click.argument("parallelism", type=click.IntRange(1))
@_spark_options
def repartition(
    checkpoint: str, parallelism: int, master: str | None, confs: tuple[str, ...]
) -> None:
    """Cut the state in CHECKPOINT into PARALLELISM parts, for as many tasks.

    CHECKPOINT is a job's directory, or one that holds a single job's. The job must have ended, or have been stopped
    with Ctrl-C, and must not run meanwhile. From then on it runs with the new parallelism.
    """
    from tidemill.spark.checkpoints import repartition as cut

    found = _open(checkpoint, master, confs)
    try:
        changed = cut(found, parallelism)
    finally:
        found.spark.stop()
    click.echo(
        f"{found.place}: the state is cut for a parallelism of {parallelism}"
        + ("" if changed else " already")
    )


def _open(checkpoint: str, master: str | None, confs: tuple[str, ...]) -> Checkpoint:
    from tidemill.spark.checkpoints import Checkpoint, jobs_below
    from tidemill.spark.engine import create_spark

    place = checkpoint
    if "://" not in place and not place.startswith("file:"):
        if not Path(place).is_dir():
            raise usage_error("CLI-020", f"there is no checkpoint '{checkpoint}'")
        place = Path(place).resolve().as_uri()
    spark = create_spark(master, pairs(confs, "--conf"))
    jobs = jobs_below(Checkpoint(spark, place.rstrip("/")))
    if len(jobs) == 1:
        return jobs[0]
    spark.stop()
    if not jobs:
        raise usage_error("CLI-020", f"'{checkpoint}' holds no checkpoint")
    named = ", ".join(job.place.removeprefix(f"{place.rstrip('/')}/") for job in jobs)
    raise usage_error(
        "CLI-020",
        f"'{checkpoint}' holds the checkpoints of {len(jobs)} jobs",
        f"name one of them: {named}",
    )

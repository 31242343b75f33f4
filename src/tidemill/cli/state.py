"""`tidemill state`: look into checkpoints, and change how they are cut."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidemill.cli.options import pairs
from tidemill.errors import usage_error

if TYPE_CHECKING:
    from tidemill.spark.checkpoints import Checkpoint
    from tidemill.spark.state import Operator


class _State(click.Group):
    """`tidemill state DIR` is `tidemill state show DIR`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = ["show", *args]
        return super().resolve_command(ctx, args)


@click.group(cls=_State)
def state() -> None:
    """Look into checkpoints, and change their parallelism.

    `tidemill state CHECKPOINT …` is short for `tidemill state show CHECKPOINT …`.
    """


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
@click.argument("operator", required=False)
@click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, help="Rows to show."
)
@click.option("--json", "as_json", is_flag=True, help="One object a line.")
@_spark_options
def show(
    checkpoint: str,
    operator: str | None,
    limit: int,
    as_json: bool,
    master: str | None,
    confs: tuple[str, ...],
) -> None:
    """List the operators with state in CHECKPOINT, or read back what OPERATOR keeps.

    CHECKPOINT is a job's directory, or one that holds a single job's; OPERATOR a number, or the beginning of a name.
    What is read is the state after the last batch that is done; a job may run meanwhile.
    """
    from tidemill.spark.state import named, operators

    found = _open(checkpoint, master, confs)
    try:
        known = operators(found)
        if operator is not None:
            _show_rows(named(known, operator), limit, as_json)
        elif as_json:
            for each in known:
                click.echo(json.dumps(_facts(each)))
        elif known:
            for each in known:
                _show_operator(each)
        else:
            click.echo(f"{found.place} holds no state", err=True)
    finally:
        found.spark.stop()


def _facts(operator: Operator) -> dict[str, Any]:
    return {
        "number": operator.number,
        "operator": operator.name,
        "key": {f.name: str(f.type) for f in operator.key},
        "keys": operator.count(),
        "bytes": operator.bytes,
    }


def _show_operator(operator: Operator) -> None:
    click.echo(f"{operator.number}  {operator.name}")
    if operator.key:
        click.echo(f"   key: {', '.join(f'{f.name} {f.type}' for f in operator.key)}")
    keys = operator.count()
    kept = "kept by time" if keys is None else f"{keys:,} keys"
    click.echo(f"   {kept}, {operator.bytes:,} bytes on the disk")


def _show_rows(operator: Operator, limit: int, as_json: bool) -> None:
    from tidemill.changelog import RowKind
    from tidemill.output import TableOutput
    from tidemill.spark.printing import rendered

    rows, fields = operator.rows()
    style = "json" if as_json else TableOutput.style
    texts = [row.text for row in rendered(rows.limit(limit), fields, style).collect()]
    if as_json:
        for text in texts:
            click.echo(text)
    else:
        table = TableOutput(kinds=False)
        table.take(tuple(fields), [(RowKind.INSERT, text) for text in texts])


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

"""`tidemill broker`: start, stop and look at the embedded Kafka."""

from __future__ import annotations

from pathlib import Path

import click

from tidemill.broker import server

_DATA = click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory of its topics, log and state.  [default: the user's data directory]",
)


@click.group()
def broker() -> None:
    """A real Kafka on this machine: one node, loopback only, nothing to install."""


@broker.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Port to listen on, 0 for any free one.  [default: 9092, or a free one if it is taken]",
)
@_DATA
@click.option("--detach", is_flag=True, help="Return when it is up, and leave it running.")
def start(port: int | None, data: Path | None, detach: bool) -> None:
    """Start the broker; its topics are kept from one start to the next.

    Without --detach it runs until Ctrl-C, or until `tidemill broker stop`.
    """
    running = None
    try:
        running = server.start(data, port, detach, note=lambda text: click.echo(text, err=True))
        is_other = port is None and running.port != server.DEFAULT_PORT
        click.echo(f"broker running at {running.bootstrap}{_TAKEN if is_other else ''}")
        click.echo(f"  data  {running.data}")
        click.echo(f"  log   {running.log}")
        click.echo(f"  stop  {_stop_command(running)}" if detach else "  stop  Ctrl-C")
        if detach:
            return
        running.wait()
    except KeyboardInterrupt:
        if running is None:
            click.echo("broker not started")
            return
        running.stop()
    click.echo("broker stopped")


_TAKEN = f"  (port {server.DEFAULT_PORT} is taken)"


def _stop_command(running: server.Broker) -> str:
    own = "" if running.data == server.status().data else f" --data {running.data}"
    return f"tidemill broker stop{own}"


@broker.command()
@_DATA
def stop(data: Path | None) -> None:
    """Stop the broker cleanly; its topics are kept."""
    found = server.status(data)
    if found.broker is None:
        click.echo(f"no broker is running on {found.data}")
        return
    found.broker.stop()
    click.echo(f"broker at {found.broker.bootstrap} stopped; its topics are kept in {found.data}")


@broker.command()
@_DATA
@click.pass_context
def status(context: click.Context, data: Path | None) -> None:
    """Say whether the broker runs, and where; exit code 3 if it does not."""
    found = server.status(data)
    if found.broker is None:
        kept = "its topics are kept" if found.exists else "nothing is kept there"
        click.echo(f"no broker is running on {found.data}; {kept}")
        context.exit(3)
    click.echo(f"broker running at {found.broker.bootstrap}")
    click.echo(f"  since {found.broker.started.astimezone():%Y-%m-%d %H:%M:%S}")
    click.echo(f"  pid   {found.broker.pid}")
    click.echo(f"  data  {found.broker.data}")
    click.echo(f"  log   {found.broker.log}")
    click.echo(f"  stop  {_stop_command(found.broker)}")

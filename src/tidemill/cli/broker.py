"""`tidemill broker`: start, stop and look at the embedded Kafka."""

from __future__ import annotations

from pathlib import Path

import click

from tidemill.broker import security, server

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
@click.option(
    "--tls",
    is_flag=True,
    help="Speak TLS, with an authority of its own; without --sasl, clients need a certificate.",
)
@click.option(
    "--sasl",
    "mechanisms",
    multiple=True,
    type=click.Choice(list(security.MECHANISMS), case_sensitive=False),
    metavar="MECHANISM",
    help=f"Ask for a login: {', '.join(security.MECHANISMS)}. Several are possible.",
)
@click.option(
    "--user",
    "users",
    multiple=True,
    metavar="NAME",
    help=f"A user to make, with a password at random; several are possible.  [default: {security.DEFAULT_USER}]",
)
@click.option("--kdc", metavar="HOST:PORT", help="The Kerberos server of GSSAPI.")
@click.option(
    "--keytab",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The broker's own key of GSSAPI, of a principal such as kafka/localhost@REALM.",
)
@click.option(
    "--principal",
    metavar="NAME",
    help="Which one, if the keytab holds several.  [default: the first]",
)
def start(
    port: int | None,
    data: Path | None,
    detach: bool,
    tls: bool,
    mechanisms: tuple[str, ...],
    users: tuple[str, ...],
    kdc: str | None,
    keytab: Path | None,
    principal: str | None,
) -> None:
    """Start the broker; its topics are kept from one start to the next.

    Without --detach it runs until Ctrl-C, or until `tidemill broker stop`.

    With --tls, --sasl or both it is secured: keys, certificates and users are made in its data
    directory, and the options of tables are printed. A secured directory stays secured: it is started again
    without these options.
    """
    asked = None
    if tls or mechanisms or users or kdc or keytab or principal:
        asked = security.Security(
            tls=tls,
            mechanisms=tuple(dict.fromkeys(mechanisms)),
            users=dict.fromkeys(users),
            kdc=kdc,
            keytab=keytab,
            principal=principal,
        )
    running = None
    try:
        running = server.start(
            data, port, detach, note=lambda text: click.echo(text, err=True), security=asked
        )
        is_other = port is None and running.port != server.DEFAULT_PORT
        click.echo(f"broker running at {running.bootstrap}{_TAKEN if is_other else ''}")
        _tell_place(running)
        click.echo(f"  stop  {_stop_command(running)}" if detach else "  stop  Ctrl-C")
        secured = running.secured
        for line in security.describe(secured, running.port) if secured else ():
            click.echo(line)
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


def _tell_place(running: server.Broker) -> None:
    click.echo(f"  data  {running.data}")
    click.echo(f"  log   {running.log}")
    secured = running.secured
    if secured is not None:
        click.echo(f"  asks  {secured.words}")
        click.echo(f"  with  {secured.options_file}, the options of tables")


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
    _tell_place(found.broker)
    click.echo(f"  stop  {_stop_command(found.broker)}")

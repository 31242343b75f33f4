"""`tidemill topic`: create, list, write and read topics of the embedded or of any other Kafka."""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import wraps
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from tidemill.broker import find_running
from tidemill.broker.clients import read_properties, unused
from tidemill.broker.records import format_line, parse_line
from tidemill.errors import job_error

if TYPE_CHECKING:
    from tidemill.broker.records import Record


def _reaching(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say which broker, and who we are there; the command gets them as `at`."""

    @click.option(
        "--bootstrap",
        metavar="HOST:PORT",
        help="A broker's address.  [default: the running embedded broker]",
    )
    @click.option(
        "--properties",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Client properties for a secured broker, as Kafka's own tools take them by --command-config."
        "  [default: those of the embedded broker]",
    )
    @wraps(command)
    def reaching(bootstrap: str | None, properties: Path | None, **given: object) -> None:
        command(at=_at(bootstrap, properties), **given)

    return reaching


@dataclass(frozen=True, slots=True)
class At:
    """A broker and how to get in."""

    bootstrap: str
    client: Mapping[str, str]


def _at(bootstrap: str | None, properties: Path | None) -> At:
    client = read_properties(properties) if properties else {}
    ignored = unused(client)
    if ignored:
        click.echo(f"without effect on topic commands: {', '.join(ignored)}", err=True)
    address = bootstrap or client.get("bootstrap.servers")
    if address:
        return At(address, client)
    running = find_running()
    if running is None:
        message = "no embedded broker is running, and no --bootstrap HOST:PORT is given"
        hint = "start one with: tidemill broker start --detach"
        raise job_error("KAFKA-007", message, hint)
    if properties:
        return At(running.bootstrap, client)
    return At(running.admin["bootstrap.servers"], running.admin)


@click.group()
def topic() -> None:
    """Create, list, write and read Kafka topics."""


@topic.command()
@click.argument("name")
@click.option("--partitions", type=click.IntRange(1), default=1, show_default=True)
@click.option("--config", "configs", multiple=True, metavar="K=V", help="cleanup.policy=compact")
@_reaching
def create(name: str, partitions: int, configs: tuple[str, ...], at: At) -> None:
    """Create the topic NAME."""
    from tidemill.broker import topics

    settings = {}
    for config in configs:
        key, equals, value = config.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"'{config}' is not of the form K=V", param_hint="--config")
        settings[key] = value
    topics.create(at.bootstrap, name, partitions, settings, at.client)
    plural = "" if partitions == 1 else "s"
    click.echo(f"topic '{name}' created with {partitions} partition{plural}")


@topic.command("list")
@click.option("--all", "internal", is_flag=True, help="Kafka's internal topics too.")
@_reaching
def list_(internal: bool, at: At) -> None:
    """List the topics with their partitions and records."""
    from tidemill.broker import topics

    found = topics.list_topics(at.bootstrap, internal, at.client)
    if not found:
        click.echo(f"no topics at {at.bootstrap}", err=True)
        return
    width = max(len("topic"), *(len(t.name) for t in found))
    click.echo(f"{'topic':<{width}}  partitions     records")
    for t in found:
        click.echo(f"{t.name:<{width}}  {t.partitions:>10}  {t.records:>10}")


@topic.command()
@click.argument("name")
@click.argument("file", type=click.File("rb"), default="-")
@click.option("--plain", is_flag=True, help="Every line is a value, whatever it looks like.")
@_reaching
def write(name: str, file: IO[bytes], plain: bool, at: At) -> None:
    """Write the lines of FILE (default: standard input) to the topic NAME, one record each.

    A line that is a JSON object with a `value` and no members but `key`, `value`, `headers`,
    `partition` and `timestamp` is a record:

    \b
      {"key": "u1", "value": {"page": "/"}, "headers": {"trace": "7"}, "timestamp": 1700000000000}
      {"key": "u1", "value": null}

    Every other line is itself the value of a record without key: text, a number, any other JSON.
    With --plain all lines are.

    \b
    In key, value and headers
      "text"             is written as its UTF-8 bytes
      null               as null; a null value is a tombstone
      {"base64": "…"}    as the bytes that it encodes
      other JSON         as JSON, without the spaces between its tokens

    Headers that repeat a name are a list of pairs, [["h", "1"], ["h", "2"]]. The members `topic`
    and `offset`, which `topic read --address` prints, are accepted and ignored. Empty lines are
    skipped unless --plain.
    """
    from tidemill.broker import topics

    is_new = not topics.exists(at.bootstrap, name, at.client)
    if file.isatty():
        click.echo("one record a line; end with Ctrl-D", err=True)
    written = _Counted(_records(file, plain))
    try:
        topics.write(at.bootstrap, name, written, at.client)
    except KeyboardInterrupt:
        click.echo(err=True)
    plural = "" if written.count == 1 else "s"
    created = " (created by the broker)" if is_new and written.count else ""
    click.echo(f"{written.count} record{plural} written to topic '{name}'{created}", err=True)


class _Counted:
    """Records, counted as they go, so that Ctrl-C can still say how many went."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.records = records
        self.count = 0

    def __iter__(self) -> Iterator[Record]:
        for record in self.records:
            self.count += 1
            yield record


def _records(file: IO[bytes], plain: bool) -> Iterator[Record]:
    for number, raw in enumerate(file, start=1):
        line = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        if plain or line.strip():
            yield parse_line(line, number, plain)


@topic.command()
@click.argument("name")
@click.option(
    "--from-beginning",
    is_flag=True,
    help="Begin with the oldest record, as is the default unless --follow.",
)
@click.option("--follow", is_flag=True, help="Wait for new records until Ctrl-C.")
@click.option(
    "--bounded", is_flag=True, help="End at what is the end now, as is the default unless --follow."
)
@click.option("--max", "limit", type=click.IntRange(1), metavar="N", help="End after N records.")
@click.option("--address", is_flag=True, help="Print `topic` and `offset` too.")
@click.option("--plain", is_flag=True, help="Print the bytes of the values and nothing else.")
@_reaching
def read(
    name: str,
    from_beginning: bool,
    follow: bool,
    bounded: bool,
    limit: int | None,
    address: bool,
    plain: bool,
    at: At,
) -> None:
    """Print the records of the topic NAME, one JSON object a line, as `topic write` takes them.

    Without options it prints what the topic holds now and ends. With --follow it prints what
    comes from now on; --follow --from-beginning prints both.

    Keys and values that hold a JSON object or array are printed as such, other UTF-8 text as a
    string, other bytes as {"base64": "…"}. Records of open or aborted transactions are left out.
    """
    from tidemill.broker import topics

    if follow and bounded:
        raise click.UsageError("--follow never ends and --bounded does: give one of them")
    oldest = from_beginning or not follow
    records = topics.read(at.bootstrap, name, oldest, follow, client=at.client)
    # Bytes, because UTF-8 is the form's encoding whatever the terminal's is.
    out = sys.stdout.buffer
    try:
        for record in islice(records, limit):
            text = (record.value or b"") if plain else format_line(record, address).encode("utf-8")
            out.write(text + b"\n")
            if follow:
                out.flush()
        out.flush()
    except KeyboardInterrupt:
        out.flush()
    except BrokenPipeError:
        # The reader of our output has seen enough; nothing may be flushed into the pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        records.close()

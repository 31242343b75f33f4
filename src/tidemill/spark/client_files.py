"""Files that a Kafka client's properties name: key stores, trust stores, keytabs.

In: the properties of a table's client, with paths of this machine. Out: the same, with the files themselves in place
of their paths where tasks run on other machines (`io.tidemill.kafka.Shipped` puts them down there). Law: a file that
cannot be read is told before anything starts. A file that is shipped goes the way that passwords go, inside of the
specs that Spark's own connections carry, and never by Spark's file server: that gives it to whoever asks, and leaves
it on the workers for all to read.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tidemill.errors import job_error
from tidemill.tables.catalog import Table
from tidemill.tables.kerberos import CONF_PROPERTY

LOCATIONS = ("ssl.truststore.location", "ssl.keystore.location", CONF_PROPERTY)
_JAAS = "sasl.jaas.config"
# In a JAAS line; a path with a blank in it is quoted.
_KEYTAB = re.compile(
    r"""(?P<before>\bkeyTab\s*=\s*)(?:"(?P<quoted>(?:\\.|[^"\\])*)"|(?P<bare>[^\s;"]+))"""
)
_MOST_BYTES = 4 << 20


def check_files(table: Table, properties: Mapping[str, str]) -> None:
    """Every file that the client of a table needs is there, and may be read."""
    for option, path in _named(properties):
        why = _why_unreadable(path)
        if why is not None:
            raise job_error(
                "RUN-050",
                f"table '{table.name}': the {_described(option)} {why}: {path}",
                "correct the path, which is one of the machine where the command runs; the job's workers get the file"
                " from there",
                table.span,
            )


def _described(option: str) -> str:
    match option:
        case "sasl.jaas.config":
            return f"keytab of 'properties.{option}'"
        case "tidemill.kerberos.conf":
            return "krb5.conf"
    return f"file of 'properties.{option}'"


def _why_unreadable(path: str) -> str | None:
    place = Path(path)
    if not place.exists():
        return "does not exist"
    if not place.is_file():
        return "is not a file"
    if not os.access(place, os.R_OK):
        return "may not be read"
    if place.stat().st_size > _MOST_BYTES:
        return f"has more than {_MOST_BYTES >> 20} MiB"
    return None


def _named(properties: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The options that name files, and their paths."""
    for option in LOCATIONS:
        path = properties.get(option)
        if path:
            yield option, path
    for found in _KEYTAB.finditer(properties.get(_JAAS, "")):
        yield _JAAS, _keytab_path(found)


def _keytab_path(found: re.Match[str]) -> str:
    quoted = found["quoted"]
    path: str = found["bare"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
    return path.removeprefix("FILE:").removeprefix("file:")


def shipped(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties with the files that they name inside of them."""
    carried = dict(properties)
    for option in LOCATIONS:
        if carried.get(option):
            carried[option] = packed(carried[option])
    if _JAAS in carried:
        carried[_JAAS] = _KEYTAB.sub(
            lambda found: f'{found["before"]}"{packed(_keytab_path(found))}"', carried[_JAAS]
        )
    return carried


def packed(path: str) -> str:
    """A file as a text that the kernel puts down where it is needed; its name stays in the name of its copy."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", Path(path).name)
    try:
        content = Path(path).read_bytes()
    except OSError as problem:
        # It was there when the job was started: this is a later start of the same.
        message = f"a file of a table's client cannot be read any more: {problem.strerror or problem}: {path}"
        raise job_error("RUN-050", message, "bring it back, and start the job again") from None
    return f"tidemill-file:{name}:{base64.b64encode(content).decode()}:"

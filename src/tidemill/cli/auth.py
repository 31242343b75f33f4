"""`tidemill auth`: named authentications, which tables call `ssl_auth_name` and `krb_auth_name`.

Law: a password never stands on a command line, where everybody on the machine could read it, and is never shown.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from tidemill.cli.options import credentials_option
from tidemill.errors import usage_error
from tidemill.tables.credentials import KINDS, Credentials, Entry, Item, default_credentials


@click.group()
def auth() -> None:
    """Keep what tables log in with under names: trust stores, key stores, Kerberos keytabs.

    A table says 'ssl_auth_name' = 'NAME' or 'krb_auth_name' = 'NAME'. The names stand in a file that only its owner may
    read: $TIDEMILL_HOME/credentials.toml, else tidemill/credentials.toml in the user's configuration directory.
    """


def _credentials(path: Path | None) -> Credentials:
    return Credentials(default_credentials() if path is None else path)


# --- add -----------------------------------------------------------------------------------------


def _flag(key: str) -> str:
    return "--" + key.replace("_", "-")


def _item_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """An option for each value of an entry; for a password, two that say where it is."""
    options = []
    for kind, items in KINDS.items():
        for item in items:
            doc = f"{kind}: {item.doc[:1].lower()}{item.doc[1:]}"
            if not item.is_secret:
                kind_of_value = click.Path() if item.is_file else click.STRING
                metavar = "PATH" if item.is_file else "NAME"
                options.append(
                    click.option(
                        _flag(item.key), item.key, type=kind_of_value, metavar=metavar, help=doc
                    )
                )
                continue
            flag, name = _flag(item.key), item.key
            options += [
                click.option(
                    f"{flag}-env",
                    f"{name}_env",
                    metavar="NAME",
                    help=f"{doc.removesuffix('.')}, in this variable when the job runs.",
                ),
                click.option(
                    f"{flag}-file",
                    f"{name}_file",
                    type=click.Path(),
                    metavar="PATH",
                    help=f"{doc.removesuffix('.')}, in this file when the job runs.",
                ),
            ]
    for option in reversed(options):
        command = option(command)
    return command


@auth.command()
@click.argument("name")
@click.option("--type", "kind", type=click.Choice(list(KINDS)), required=True)
@_item_options
@click.option("--replace", is_flag=True, help="Put it in the place of one of the same name.")
@credentials_option
def add(name: str, kind: str, replace: bool, credentials: Path | None, **given: str | None) -> None:
    """Add the entry NAME.

    Passwords are asked for, without showing them, or read from standard input if that is no terminal: a line for each
    that no -env or -file option gives, in the order below; an empty line is none. The -env and -file options keep the
    password itself out of the entry.
    """
    _refuse_strangers(kind, given)
    values: dict[str, str] = {}
    passwords = _passwords()
    for item in KINDS[kind]:
        if item.is_secret:
            # A password of a store that is not there is nobody's.
            store = "trust_store" if item.key.startswith("trust_store") else "key_store"
            if store in values:
                found = _password(item, given, passwords)
                values |= {item.key: found} if found else {}
            else:
                _refuse_password(item, store, given)
            continue
        value = given[item.key]
        if not value and item.required:
            raise usage_error("CLI-035", f"'{kind}' needs {_flag(item.key)}", item.doc)
        if value:
            values[item.key] = _file(_flag(item.key), value) if item.is_file else value
    file = _credentials(credentials)
    file.add(Entry(name, kind, values), replace)
    print(f"added '{name}' ({kind}) to {file.path}")


def _refuse_strangers(kind: str, given: dict[str, str | None]) -> None:
    for other, items in KINDS.items():
        for item in items:
            for key in (item.key, f"{item.key}_env", f"{item.key}_file"):
                if other != kind and given.get(key) is not None:
                    known = ", ".join(_flag(i.key) for i in KINDS[kind] if not i.is_secret)
                    message = f"{_flag(key)} is of '{other}' and not of '{kind}'"
                    raise usage_error("CLI-035", message, f"'{kind}' has {known}")


def _refuse_password(item: Item, store: str, given: dict[str, str | None]) -> None:
    for key in (f"{item.key}_env", f"{item.key}_file"):
        if given[key] is not None:
            raise usage_error("CLI-035", f"{_flag(key)} needs {_flag(store)}")


def _file(flag: str, value: str) -> str:
    path = Path(value).expanduser().absolute()
    if not path.is_file():
        raise usage_error("CLI-035", f"{flag} {value}: there is no such file")
    return str(path)


def _password(item: Item, given: dict[str, str | None], passwords: Iterator[str]) -> str:
    variable, path = given[f"{item.key}_env"], given[f"{item.key}_file"]
    if variable is not None and path is not None:
        flag = _flag(item.key)
        raise usage_error("CLI-035", f"{flag}-env and {flag}-file are given; one of them is enough")
    if variable is not None:
        return f"${{env:{variable}}}"
    if path is not None:
        return f"${{file:{_file(f'{_flag(item.key)}-file', path)}}}"
    if sys.stdin.isatty():
        asked = item.key.replace("_", " ").capitalize() + " (empty: none)"
        return str(click.prompt(asked, default="", hide_input=True, show_default=False, err=True))
    return next(passwords, "")


def _passwords() -> Iterator[str]:
    """The lines of standard input, read when they are asked for."""
    for line in sys.stdin:
        yield line.rstrip("\r\n")


# --- list, remove --------------------------------------------------------------------------------


@auth.command("list")
@click.option("--json", "as_json", is_flag=True, help="One object a line.")
@credentials_option
def list_(as_json: bool, credentials: Path | None) -> None:
    """List the entries: names, types, paths; never a password."""
    file = _credentials(credentials)
    entries = sorted(file.entries.values(), key=lambda entry: entry.name)
    for entry in entries:
        if as_json:
            line = {"name": entry.name, "type": entry.type, **dict(entry.described)}
            print(json.dumps(line, ensure_ascii=False))
            continue
        print(f"{entry.name}  {entry.type}")
        for key, value in entry.described:
            print(f"  {key.replace('_', ' ')}: {value}")
    if not entries:
        print(f"{file.path} has no entries; tidemill auth add NAME --type …", file=sys.stderr)


@auth.command()
@click.argument("name")
@credentials_option
def remove(name: str, credentials: Path | None) -> None:
    """Remove the entry NAME; the files that it names stay."""
    file = _credentials(credentials)
    file.remove(name)
    print(f"removed '{name}' from {file.path}")

"""References in the values of options: `${env:NAME}` is an environment variable, `${file:path}` what a file holds.

In: the text of a value. Out: the same text with the references in it resolved. What planning needs is resolved when a
table is declared; what only a client needs (`properties.*`, addresses, user names, secrets) stays as it was written
until a job starts, so that a script can be checked where its secrets are not.
Law: what a reference comes to is never looked at again for references, and what comes of a late one never stands in a
plan, an answer or an error. A relative path is looked for beside the script in which it stands.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from tidemill.errors import SECRET_WORDS, Diagnostic, ScriptError, Span, job_error
from tidemill.sql import ast

_REFERENCE = re.compile(r"\$\{(?P<kind>env|file):(?P<name>[^{}\n]*)\}", re.IGNORECASE)
_LARGEST_FILE = 1 << 20

# Keys whose values only a client looks at.
_FOR_CLIENTS = re.compile(
    rf"(^|\.)properties(\.|$)|(^|[.-])(url|username|location)$|{SECRET_WORDS}", re.IGNORECASE
)
JAAS = "sasl.jaas.config"


class Unresolved(Exception):
    """A reference leads nowhere: why, and what to do about it."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


def has_reference(text: str) -> bool:
    return "${" in text and _REFERENCE.search(text) is not None


def is_reference(text: str) -> bool:
    """Whether a value is a reference and nothing else."""
    return _REFERENCE.fullmatch(text) is not None


def is_late(key: str, value: str) -> bool:
    """Whether an option's value has references that stay until a job starts."""
    return has_reference(value) and _FOR_CLIENTS.search(key) is not None


# --- one value -----------------------------------------------------------------------------------


def resolved(text: str, key: str = "") -> str:
    """The text with its references resolved, in one pass; `key` tells whether it is a JAAS line, which has quotes."""
    if not has_reference(text):
        return text
    if not key.endswith(JAAS):
        return _REFERENCE.sub(_value, text)
    made, quote = [], ""
    position = 0
    for found in _REFERENCE.finditer(text):
        literal = text[position : found.start()]
        quote = _quote_after(literal, quote)
        made += [literal, _as_jaas(_value(found), quote, literal)]
        position = found.end()
    return "".join([*made, text[position:]])


def _value(found: re.Match[str]) -> str:
    name = found["name"].strip()
    if found["kind"].lower() == "env":
        value = os.environ.get(name)
        if value is None:
            raise Unresolved(
                f"the environment variable '{name}' is not set",
                f"set it for the process that starts the job: export {name or 'NAME'}=…",
            )
        return value
    return _content(name)


def _content(name: str) -> str:
    """What a file holds, less the newline that editors and `echo` put at its end."""
    path = Path(name)
    if not name or not path.is_file():
        what = "is not a plain file" if name and path.exists() else "does not exist"
        raise Unresolved(
            f"the file '{name}' {what}",
            "a relative path is looked for beside the script in which it stands",
        )
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_FILE + 1)
        text = content.decode()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise Unresolved(
            f"the file '{name}' cannot be read: {reason}",
            "the user who starts the job must read it",
        ) from None
    except UnicodeDecodeError:
        raise Unresolved(
            f"the file '{name}' is not text in UTF-8", "write the value in it, and no more"
        ) from None
    if len(content) > _LARGEST_FILE:
        raise Unresolved(
            f"the file '{name}' is larger than 1 MiB", "write the value in it, and no more"
        )
    return re.sub(r"\r?\n\Z", "", text)


def _quote_after(literal: str, quote: str) -> str:
    """The quote in which a JAAS line is after a literal part of it, as the client reads it; empty outside of quotes."""
    position = 0
    while position < len(literal):
        char = literal[position]
        if quote and char == "\\":
            position += 1
        elif quote and char == quote:
            quote = ""
        elif not quote and char in "\"'":
            quote = char
        position += 1
    return quote


_ESCAPES = {"\\": "\\\\", '"': '\\"', "'": "\\'", "\n": "\\n", "\r": "\\r"}


def _as_jaas(value: str, quote: str, before: str) -> str:
    """A value as the client's reader of JAAS lines gives it back. Where no quotes are it gets some, unless it is not an
    option's value but the line itself."""
    escaped = "".join(_ESCAPES.get(char, char) for char in value)
    if quote:
        return escaped
    return f'"{escaped}"' if before.rstrip().endswith("=") else value


def resolved_all(value: object) -> object:
    """The values of an option that is a text or a map of texts, resolved; others as they are."""
    if isinstance(value, str):
        return _told(value)
    if isinstance(value, Mapping):
        return {key: resolved_all(inner) for key, inner in value.items()}
    return value


def resolved_options(options: Mapping[str, object]) -> dict[str, object]:
    """The options of a format, those that stayed as they were written resolved."""
    return {
        key: resolved_all(value) if _FOR_CLIENTS.search(key) else value
        for key, value in options.items()
    }


def client_value(key: str, text: str) -> str:
    """A property as a client is to be told it. What was right when the job was looked at may be gone by now."""
    return _told(text, key)


def _told(text: str, key: str = "") -> str:
    try:
        return resolved(text, key)
    except Unresolved as problem:
        raise job_error("OPT-017", problem.reason, problem.hint) from None


def kept_apart(text: str) -> tuple[str, Callable[[str], str]]:
    """The text with words of letters in place of its references, which have colons; and the way back."""
    found = [match[0] for match in _REFERENCE.finditer(text)]
    numbers = iter(range(len(found)))
    apart = _REFERENCE.sub(lambda _: f"\ue000{next(numbers)}\ue001", text)
    return apart, lambda part: re.sub(
        "\ue000([0-9]+)\ue001", lambda place: found[int(place[1])], part
    )


# --- the options of a table ----------------------------------------------------------------------


def settled(options: Iterable[ast.Option]) -> tuple[ast.Option, ...]:
    """The options as a table is built from them: resolved where planning needs that; in others, relative paths are made
    absolute. What is wrong is raised at its place, all of it at once."""
    made, problems = [], []
    for option in options:
        value = anchored(option.value, option.span)
        if has_reference(value) and not is_late(option.key, value):
            try:
                value = resolved(value)
            except Unresolved as problem:
                problems.append(_diagnostic(option, problem))
        made.append(option if value == option.value else replace(option, value=value))
    if problems:
        raise ScriptError(problems)
    return tuple(made)


def anchored(text: str, span: Span) -> str:
    """The text with the relative paths of its references made absolute: they count from the script of the span."""
    if not has_reference(text):
        return text
    script = Path(span.source.name)
    directory = script.resolve().parent if script.is_file() else Path.cwd()

    def anchor(found: re.Match[str]) -> str:
        name = found["name"].strip()
        if found["kind"].lower() == "env" or not name:
            return found[0]
        return f"${{file:{directory / name}}}"

    return _REFERENCE.sub(anchor, text)


def unresolved(options: Iterable[ast.Option]) -> Iterator[Diagnostic]:
    """Of the references that stay until a job starts, those that lead nowhere."""
    for option in options:
        if is_late(option.key, option.value):
            try:
                resolved(anchored(option.value, option.span), option.key)
            except Unresolved as problem:
                yield _diagnostic(option, problem)


def _diagnostic(option: ast.Option, problem: Unresolved) -> Diagnostic:
    message = f"option '{option.key}': {problem.reason}"
    return Diagnostic("OPT-017", message, option.value_span, problem.hint)

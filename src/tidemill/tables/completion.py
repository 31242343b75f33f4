"""What can be written next in a WITH clause: for editors.

In: the options that stand there already, and the beginning of a key or value. Out: the keys or values that go on
from there, with a line of documentation. Law: nothing is proposed here that `build` would call unsupported; both
read the same tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tidemill.tables.build import CONNECTORS
from tidemill.tables.connector import CONNECTOR, FRAMEWORK_OPTIONS
from tidemill.tables.formats import find_format, format_names
from tidemill.tables.kafka import FORMAT, KEY_FORMAT, VALUE_FORMAT
from tidemill.tables.options import BOOLEAN, Option

_FORMAT_OPTIONS = (FORMAT.key, VALUE_FORMAT.key, KEY_FORMAT.key)


@dataclass(frozen=True)
class Completion:
    text: str
    doc: str


def complete_key(prefix: str, given: Mapping[str, str]) -> list[Completion]:
    """Keys that begin with `prefix` and are not given yet, in alphabetical order."""
    found = {key: option.doc for key, option in _options(given) if not option.deprecated}
    return [
        Completion(key, found[key])
        for key in sorted(found)
        if key.startswith(prefix) and key not in given
    ]


def complete_value(key: str, prefix: str, given: Mapping[str, str]) -> list[Completion]:
    """Values of `key` that begin with `prefix`, where the key takes only certain words."""
    return [c for c in _values(key, given) if c.text.lower().startswith(prefix.lower())]


def _options(given: Mapping[str, str]) -> Iterator[tuple[str, Option[Any]]]:
    definition = CONNECTORS.get(given.get(CONNECTOR.key, ""))
    for option in (*FRAMEWORK_OPTIONS, *(definition.options if definition else ())):
        # What a template stands for is the user's to say; what comes before it is known.
        yield option.key.partition("*")[0].partition("#")[0], option
    for named_by in _FORMAT_OPTIONS:
        format_ = find_format(given.get(named_by, ""))
        for option in format_.options if definition and format_ else ():
            prefix = f"{named_by.removesuffix('format')}{given[named_by]}."
            yield prefix + option.key.partition("*")[0], option


def _values(key: str, given: Mapping[str, str]) -> Iterator[Completion]:
    if key == CONNECTOR.key:
        yield from (Completion(name, d.doc) for name, d in CONNECTORS.items())
        return
    if key in _FORMAT_OPTIONS:
        inserts = key == KEY_FORMAT.key or given.get(CONNECTOR.key) == "upsert-kafka"
        yield from (
            Completion(name, d.doc)
            for name in format_names()
            if (d := find_format(name)) and (d.changelog.insert_only or not inserts)
        )
        return
    option = dict(_options(given)).get(key)
    if option is None:
        return
    words = ("true", "false") if option.type is BOOLEAN else option.type.choices
    yield from (Completion(word, option.doc) for word in words)

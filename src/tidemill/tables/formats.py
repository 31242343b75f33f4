"""Formats as tables see them: names, options, and which columns they can carry.

In: the option that names a format and the options under its prefix. Out: a FormatSpec with typed values and
defaults, ready for `tidemill.formats`. Law: this module knows no bytes; encoding and decoding live there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidemill.changelog import ALL_CHANGES, INSERT_ONLY, ChangelogMode
from tidemill.errors import did_you_mean
from tidemill.tables.options import BOOLEAN, STRING, Option, OptionReader, one_of
from tidemill.tables.vendors import CHANGELOG_FORMATS, KNOWN_FORMATS, PLANNED_FORMATS
from tidemill.types import (
    STRING_TYPES,
    ArrayType,
    Field,
    MapType,
    MultisetType,
    RowType,
    SqlType,
)


@dataclass(frozen=True)
class FormatSpec:
    """A format chosen by a table, with every option it has."""

    name: str
    options: Mapping[str, object] = field(hash=False)
    """By short key (`ignore-parse-errors`); plain Python values, defaults filled in."""
    prefix: str
    """What the script writes before a short key: `json.`, `value.json.` or `key.json.`."""

    @property
    def definition(self) -> FormatDefinition:
        return FORMATS[self.name]


@dataclass(frozen=True)
class FormatDefinition:
    name: str
    doc: str
    options: tuple[Option[Any], ...]
    check_options: Callable[[OptionReader, str], None]
    """Rules between options; gets the prefix."""
    unsupported: Callable[[SqlType], str | None]
    """Why a column of this type cannot travel in this format; None when it can."""
    changelog: ChangelogMode = INSERT_ONLY

    def build(self, reader: OptionReader, prefix: str) -> FormatSpec:
        reader.accept(self.options, prefix)
        self.check_options(reader, prefix)
        return FormatSpec(self.name, {o.key: reader.get(o, prefix) for o in self.options}, prefix)


# --- json --------------------------------------------------------------------------------------

FAIL_ON_MISSING_FIELD = Option(
    "fail-on-missing-field",
    BOOLEAN,
    "Whether a missing field fails the job; else it is NULL.",
    False,
)
IGNORE_PARSE_ERRORS = Option(
    "ignore-parse-errors",
    BOOLEAN,
    "Whether a bad field becomes NULL and an unreadable record is skipped; else the job fails.",
    False,
)
JSON_OPTIONS: tuple[Option[Any], ...] = (
    FAIL_ON_MISSING_FIELD,
    IGNORE_PARSE_ERRORS,
    Option(
        "timestamp-format.standard",
        one_of("SQL", "ISO-8601", exactly=True),
        "How TIMESTAMP and TIMESTAMP_LTZ are written: `2020-12-30 12:13:14.123` or"
        " `2020-12-30T12:13:14.123`.",
        "SQL",
    ),
    Option(
        "map-null-key.mode",
        one_of("FAIL", "DROP", "LITERAL"),
        "What to do with a NULL key of a MAP when writing.",
        "FAIL",
    ),
    Option("map-null-key.literal", STRING, "The key that LITERAL writes for NULL.", "null"),
    Option(
        "encode.decimal-as-plain-number",
        BOOLEAN,
        "Whether DECIMAL is written plainly (`0.000000027`) instead of `2.7E-8`.",
        False,
    ),
    Option(
        "encode.ignore-null-fields",
        BOOLEAN,
        "Whether NULL fields are left out when writing.",
        False,
    ),
    Option(
        "decode.json-parser.enabled",
        BOOLEAN,
        "Whether a number that is read into a STRING or a DECIMAL keeps the digits that are written;"
        " Flink's older parser (`false`) takes it through a double.",
        True,
    ),
)


def _check_json(reader: OptionReader, prefix: str) -> None:
    if reader.get(FAIL_ON_MISSING_FIELD, prefix) and reader.get(IGNORE_PARSE_ERRORS, prefix):
        reader.error(
            "OPT-015",
            f"{prefix}{FAIL_ON_MISSING_FIELD.key} and {prefix}{IGNORE_PARSE_ERRORS.key}"
            " shouldn't both be true.",
            reader.value_span(prefix + IGNORE_PARSE_ERRORS.key),
            "set one of them to 'false'",
        )


def _json_unsupported(type_: SqlType) -> str | None:
    match type_:
        case MapType(key=key) | MultisetType(element=key) if not isinstance(key, STRING_TYPES):
            return (
                f"JSON format doesn't support non-string as key type of map. The type is: {type_}"
            )
        case MapType(value=inner) | ArrayType(element=inner):
            return _json_unsupported(inner)
        case RowType(fields=fields):
            return next((why for f in fields if (why := _json_unsupported(f.type))), None)
    return None


FORMATS: Mapping[str, FormatDefinition] = {
    definition.name: definition
    for definition in (
        FormatDefinition(
            "json",
            "One JSON object per record (an array gives one row per element).",
            JSON_OPTIONS,
            _check_json,
            _json_unsupported,
        ),
    )
}
"""The formats that exist."""


# --- choosing one ------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChosenFormat:
    """What a table's options say about one side of a record."""

    name: str
    changelog: ChangelogMode
    option: Option[str]
    spec: FormatSpec | None
    """None when the format was refused; the mistake is in the reader."""

    @property
    def insert_only(self) -> bool:
        return self.changelog.insert_only


def choose_format(reader: OptionReader, option: Option[str]) -> ChosenFormat | None:
    """Read the format that an option (`format`, `value.format`, `key.format`) names, if it is given."""
    name = reader.get(option)
    if name is None:
        return None
    prefix = f"{option.key.removesuffix('format')}{name}."
    definition = FORMATS.get(name)
    if definition:
        spec = definition.build(reader, prefix)
        return ChosenFormat(name, definition.changelog, option, spec)
    reader.skip(prefix)
    changelog = ALL_CHANGES if name in CHANGELOG_FORMATS else INSERT_ONLY
    return ChosenFormat(name, changelog, option, None)


def refuse_format(reader: OptionReader, chosen: ChosenFormat) -> None:
    """Note that a chosen format does not exist here."""
    span = reader.value_span(chosen.option)
    if chosen.name in KNOWN_FORMATS:
        yet = " yet" if chosen.name in PLANNED_FORMATS else ""
        hint = KNOWN_FORMATS[chosen.name]
        reader.error("OPT-012", f"format '{chosen.name}' is not supported{yet}", span, hint)
        return
    available = [*FORMATS, *KNOWN_FORMATS]
    reader.error(
        "OPT-011",
        f"Could not find any factory for identifier '{chosen.name}': there is no such format",
        span,
        did_you_mean(chosen.name, available, f"available formats are {', '.join(FORMATS)}"),
    )


def check_types(reader: OptionReader, chosen: ChosenFormat, fields: Iterable[Field]) -> None:
    """Note every field that the format cannot carry."""
    definition = FORMATS.get(chosen.name)
    if definition is None:
        return
    for f in fields:
        why = definition.unsupported(f.type)
        if why:
            reader.error("OPT-014", f"column '{f.name}': {why}", reader.value_span(chosen.option))

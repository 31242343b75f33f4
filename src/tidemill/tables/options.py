"""Options of tables: declared once, read once.

In: the `'key' = 'value'` pairs of a WITH clause, each with its span, and the option table of a connector or
format. Out: typed values, or every mistake of the clause at once, each pointing at its own pair.
Law: a pair that nobody declared is a mistake; nothing is ignored silently. Validation, documentation and
completion read the same tables. Keys, value syntax and the well-known sentences are Flink's.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Generic, NoReturn, TypeVar, cast

from tidemill.errors import (
    SECRET_WORDS,
    Diagnostic,
    ScriptError,
    Span,
    did_you_mean,
    holds_secret_text,
    in_script_order,
    nearest,
)
from tidemill.sql import ast
from tidemill.tables.references import is_late, is_reference, kept_apart

T = TypeVar("T")
E = TypeVar("E", bound=enum.Enum)

CODES: Mapping[str, str] = {
    "OPT-001": "the table names no connector",
    "OPT-002": "unknown connector",
    "OPT-003": "unsupported option",
    "OPT-004": "a required option is missing",
    "OPT-005": "a value that the option does not take",
    "OPT-006": "an option is given twice",
    "OPT-007": "a deprecated option",
    "OPT-008": "an option is accepted but has no effect yet",
    "OPT-009": "a connector that is known but not supported",
    "OPT-010": "options of another dialect or of an old Flink",
    "OPT-011": "unknown format",
    "OPT-012": "a format that is known but not supported",
    "OPT-013": "the table names no format",
    "OPT-014": "the format cannot carry a column's type",
    "OPT-015": "two options contradict each other",
    "OPT-016": "an option has no effect beside another",
    "OPT-017": "a reference in the value of an option leads nowhere",
    "OPT-018": "a format of another package that cannot be used",
    "OPT-019": "a login module that would run code from an address",
    "OPT-020": "both topic and topic-pattern are set",
    "OPT-021": "neither topic nor topic-pattern is set",
    "OPT-022": "a mode lacks the option that it needs",
    "OPT-023": "specific offsets need a single topic",
    "OPT-024": "malformed specific offsets",
    "OPT-025": "a consumer group is needed",
    "OPT-026": "a value that auto.offset.reset does not take",
    "OPT-027": "a Kafka client property that Tidemill sets itself",
    "OPT-028": "group-offsets without a group reads from the earliest offset",
    "OPT-029": "a slip in a JAAS line is put right",
    "OPT-030": "key.fields without key.format",
    "OPT-031": "key.format without key.fields",
    "OPT-032": "a key field is not a physical column",
    "OPT-033": "a key field lacks the key prefix",
    "OPT-034": "a key prefix needs EXCEPT_KEY",
    "OPT-035": "a format of changes stands where only inserts can be",
    "OPT-036": "PRIMARY KEY on a table that cannot keep it",
    "OPT-037": "upsert-kafka needs a PRIMARY KEY",
    "OPT-038": "a table of Blink's has another PRIMARY KEY than messageKey, or is written and has none",
    "OPT-040": "round-robin needs records without a key",
    "OPT-041": "unknown sink partitioner",
    "OPT-044": "sink buffering needs both of its options",
    "OPT-045": "changes for a fixed number of writers need a PRIMARY KEY",
    "OPT-046": "a topic to create needs a table with one topic",
    "OPT-050": "unknown metadata key",
    "OPT-051": "a metadata column's type cannot be cast",
    "OPT-052": "a metadata key cannot be written",
    "OPT-053": "headers are written twice",
    "OPT-054": "the connector works in the other direction only",
    "OPT-055": "the format's options let the table only be read",
    "OPT-056": "rows cannot choose among the table's topics",
    "OPT-057": "a row's kind is told only where changes are read as inserts",
    "OPT-060": "datagen: no such field",
    "OPT-061": "datagen: the type cannot be generated",
    "OPT-062": "datagen: a sequence lacks a bound",
    "OPT-063": "datagen: impossible bounds",
    "OPT-064": "datagen: impossible length",
    "OPT-070": "a named authentication beside a protocol or mechanism that it is not for",
    "OPT-071": "no such named authentication",
    "OPT-072": "a named authentication of the other type",
    "OPT-073": "a property is given by the table and by its named authentication",
    "OPT-074": "Kerberos: something that a login needs is not set",
    "OPT-075": "Kerberos: the service's name is not the first part of the principal",
    "OPT-076": "Kerberos: a login context that is not used",
    "OPT-077": "a file that a configuration key names is nowhere",
    "OPT-078": "Kerberos: a job needs two different krb5.conf",
    "OPT-079": "Kerberos: nothing says as whom a table logs in",
    "OPT-080": "unknown configuration key",
    "OPT-081": "a value that the configuration key does not take",
    "OPT-082": "a configuration that is not supported",
    "OPT-083": "a configuration key is not honoured yet",
    "OPT-084": "a configuration key is accepted and ignored",
}
"""Every code that options and settings can give, with its title in the error index."""


# --- values ------------------------------------------------------------------------------------


class BadValue(ValueError):
    """A text is not a value of its type: what was expected, and perhaps what was meant."""

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


@dataclass(frozen=True)
class OptionType(Generic[T]):
    """How a value is written and read. `name` is what documentation prints."""

    name: str
    parse: Callable[[str], T]
    choices: tuple[str, ...] = ()


def _integer(bits: int) -> Callable[[str], int]:
    limit = 1 << (bits - 1)

    def parse(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]+", text):
            raise BadValue(f"Expected a whole number, but got '{text}'.")
        value = int(text)
        if not -limit <= value < limit:
            raise BadValue(f"Expected a number between {-limit} and {limit - 1}, but got '{text}'.")
        return value

    return parse


def _decimal(text: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise BadValue(f"Expected a number, but got '{text}'.") from None
    if not value.is_finite():
        raise BadValue(f"Expected a finite number, but got '{text}'.")
    return value


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise BadValue(
            f"Unrecognized option for boolean: {text}."
            " Expected either true or false(case insensitive)."
        )
    return text.lower() == "true"


_MICROSECONDS = {
    unit: factor
    for units, factor in (
        ("d day days", 86_400_000_000),
        ("h hour hours", 3_600_000_000),
        ("m min minute minutes", 60_000_000),
        ("s sec secs second seconds", 1_000_000),
        ("ms milli millis millisecond milliseconds", 1_000),
        ("µs micro micros microsecond microseconds", 1),
    )
    for unit in units.split()
}
_NANOSECOND_UNITS = ("ns", "nano", "nanos", "nanosecond", "nanoseconds")
_ISO_DURATION = re.compile(
    r"P(?:([0-9]+)D)?(?:T(?=[0-9])(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:\.[0-9]{1,9})?)S)?)?",
    re.IGNORECASE,
)


def parse_duration(text: str) -> timedelta:
    """Flink's durations: `5 min`, `100ms`, `1 d`, a bare number of milliseconds, or ISO-8601 `PT10S`.

    Anything below a microsecond is cut off.
    """
    trimmed = text.strip()
    try:
        number = re.match(r"[0-9]+", trimmed)
        if number:
            unit = trimmed[number.end() :].strip().lower() or "ms"
            if unit in _NANOSECOND_UNITS:
                return timedelta(microseconds=int(number.group()) // 1000)
            if unit in _MICROSECONDS:
                return timedelta(microseconds=int(number.group()) * _MICROSECONDS[unit])
            raise BadValue(
                f"Time interval unit label '{unit}' does not match any of the recognized units.",
                did_you_mean(unit, list(_MICROSECONDS), "units are d, h, min, s, ms, µs and ns"),
            )
        iso = _ISO_DURATION.fullmatch(trimmed)
        if iso and any(iso.groups()):
            days, hours, minutes, seconds = (float(part or 0) for part in iso.groups())
            return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    except OverflowError:
        raise BadValue(f"The duration '{text}' is too long.") from None
    raise BadValue(
        f"Expected a duration, but got '{text}'.", "write for example '5 min' or '100 ms'"
    )


def format_duration(duration: timedelta) -> str:
    """A duration in the largest unit that says it exactly: `5 min`, `100 ms`."""
    microseconds = duration // timedelta(microseconds=1)
    for unit in ("d", "h", "min", "s", "ms"):
        if microseconds % _MICROSECONDS[unit] == 0 and (microseconds or unit == "ms"):
            return f"{microseconds // _MICROSECONDS[unit]} {unit}"
    return f"{microseconds} µs"


def split_list(text: str, delimiter: str = ";") -> tuple[str, ...]:
    """Flink's lists: items are trimmed; one in single or double quotes is kept as it is, a doubled quote in
    it stands for one. `a; 'b;c'` is [a, b;c]."""
    items: list[str] = []
    position, after_delimiter = 0, False
    while position < len(text):
        char = text[position]
        if char.isspace():
            position += 1
        elif char == delimiter:
            if after_delimiter:
                items.append("")
            position, after_delimiter = position + 1, True
        elif char in "'\"":
            match = re.compile(f"{char}((?:[^{char}]|{char}{char})*){char}").match(text, position)
            if not match:
                raise BadValue("Could not split string. Quoting was not closed properly.")
            items.append(match.group(1).replace(char * 2, char))
            position, after_delimiter = match.end(), False
            rest = text[position:].lstrip()
            if rest and not rest.startswith(delimiter):
                raise BadValue(f"Could not split string. Illegal quoting at position: {position}")
        else:
            end = text.find(delimiter, position)
            end = len(text) if end < 0 else end
            items.append(text[position:end].strip())
            position, after_delimiter = end, False
    return tuple(items)


def split_map(text: str) -> dict[str, str]:
    """Flink's maps: `a:b, c:'d:e'`, in braces or without."""
    bare, restored = kept_apart(text.strip())
    if bare.startswith("{") and bare.endswith("}"):
        bare = bare[1:-1]
    pairs = [split_list(item, ":") for item in split_list(bare, ",")]
    if any(len(pair) != 2 for pair in pairs):
        raise BadValue(
            "Map item is not a key-value pair (missing ':'?)", "write for example 'k1:v1,k2:v2'"
        )
    return {restored(key): restored(value) for key, value in pairs}


def _non_empty(text: str) -> str:
    if not text.strip():
        raise BadValue("The value is empty.")
    return text


STRING = OptionType("String", str)
TEXT = OptionType("String", _non_empty)
"""A string that says something."""
INTEGER = OptionType("Integer", _integer(32))
LONG = OptionType("Long", _integer(64))
NUMBER = OptionType("Double", _decimal)
BOOLEAN = OptionType("Boolean", _boolean)
DURATION = OptionType("Duration", parse_duration)
STRINGS: OptionType[tuple[str, ...]] = OptionType("List<String>", split_list)
MAP = OptionType("Map", split_map)


def one_of(*choices: str, exactly: bool = False) -> OptionType[str]:
    """One of the given words; case does not matter unless `exactly`. Gives the word as declared here."""
    known = {choice if exactly else choice.lower(): choice for choice in choices}

    def parse(text: str) -> str:
        found = known.get(text if exactly else text.lower())
        if found is None:
            raise BadValue(
                f"Expected one of {', '.join(choices)}, but got '{text}'.",
                did_you_mean(text.replace("_", "-"), choices),
            )
        return found

    return OptionType("Enum", parse, choices)


def enum_of(members: type[E]) -> OptionType[E]:
    """A member of an enumeration whose values are the words that users write."""
    words = one_of(*(str(member.value) for member in members))
    return OptionType("Enum", lambda text: members(words.parse(text)), words.choices)


def at_least(minimum: int, type_: OptionType[int], subject: str = "number") -> OptionType[int]:
    def parse(text: str) -> int:
        value = type_.parse(text)
        if value < minimum:
            raise BadValue(f"Invalid configured {subject} {value}; it must be at least {minimum}.")
        return value

    return OptionType(type_.name, parse)


PARALLELISM = at_least(1, INTEGER, "parallelism")


# --- declarations ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Option(Generic[T]):
    """One row of an option table. `properties.*` stands for a family, `fields.#.kind` for one key per column."""

    key: str
    type: OptionType[T]
    doc: str
    default: T | None = None
    required: bool = False
    since: str | None = None
    """Version of Flink's connector that brought the option."""
    deprecated: str | None = None
    """What to write instead."""
    pending: str | None = None
    """What the option waits for: it is read and checked, but has no effect yet."""
    aliases: tuple[str, ...] = ()
    """Older names of the same option."""

    @property
    def is_template(self) -> bool:
        return "*" in self.key or "#" in self.key

    @property
    def is_secret(self) -> bool:
        return is_secret(self.key)


_SECRET = re.compile(SECRET_WORDS, re.IGNORECASE)
_SECRET_VALUE = re.compile(r"password\s*=", re.IGNORECASE)
MASK = "******"


def is_secret(key: str) -> bool:
    """Whether the value under this key must never be shown."""
    return bool(_SECRET.search(key))


def holds_secret(key: str, value: str) -> bool:
    """Whether the key or the value itself says that this is a secret."""
    # A map in one value has keys of its own.
    in_map = key.endswith("properties") and is_secret(value)
    inside = bool(_SECRET_VALUE.search(value)) or holds_secret_text(value)
    return is_secret(key) or in_map or inside


def shown(key: str, value: str) -> str:
    """The value as it may be printed; one that only says where the secret is, is none."""
    return MASK if holds_secret(key, value) and not is_reference(value) else value


def redacted(options: Mapping[str, str]) -> dict[str, str]:
    """The options as they may be printed: whoever shows options shows these."""
    return {key: shown(key, value) for key, value in options.items()}


# --- reading -----------------------------------------------------------------------------------


class OptionReader:
    """Consumes the options of one table. Collects mistakes; `finish` raises them all, in script order."""

    def __init__(
        self, subject: str, given: Iterable[ast.Option], place: Span, advice: Mapping[str, str]
    ) -> None:
        self.subject = subject
        self.place = place
        """Where a mistake is shown that no given option is to blame for."""
        self.errors: list[Diagnostic] = []
        self.warnings: list[Diagnostic] = []
        self._advice = advice
        self._given: dict[str, ast.Option] = {}
        self._values: dict[str, object] = {}
        self._accepted: dict[str, Option[Any]] = {}
        self._skipped: list[str] = []
        for option in given:
            if option.key in self._given:
                self.warn(
                    "OPT-006",
                    f"option '{option.key}' is given twice; the last one counts, as in Flink",
                    option.span,
                )
            self._given[option.key] = option

    # what was written

    def has(self, option: Option[Any] | str) -> bool:
        return (option if isinstance(option, str) else option.key) in self._given

    def text(self, key: str) -> str | None:
        option = self._given.get(key)
        return option.value if option else None

    def key_span(self, option: Option[Any] | str) -> Span:
        found = self._given.get(option if isinstance(option, str) else option.key)
        return found.span if found else self.place

    def value_span(self, option: Option[Any] | str) -> Span:
        found = self._given.get(option if isinstance(option, str) else option.key)
        return found.value_span if found else self.place

    def family(self, prefix: str) -> dict[str, str]:
        """All pairs under a prefix, without it and otherwise verbatim."""
        return {k[len(prefix) :]: o.value for k, o in self._given.items() if k.startswith(prefix)}

    # what it means

    def accept(
        self, options: Iterable[Option[Any]], prefix: str = "", place: Span | None = None
    ) -> None:
        """Declare options (under a prefix), read the given ones and note what is wrong with them.

        `place` is who asks for them: where a missing one is shown.
        """
        missing = []
        for option in options:
            key = prefix + option.key
            self._accepted[key] = option
            if option.is_template:
                continue
            given = self._given.get(key) or self._under_older_name(option, prefix)
            if given is None:
                if option.required:
                    missing.append(key)
                continue
            if option.deprecated:
                self.warn("OPT-007", f"option '{key}' is deprecated", given.span, option.deprecated)
            if option.pending:
                self.warn(
                    "OPT-008",
                    f"option '{key}' is accepted but has no effect yet",
                    given.span,
                    option.pending,
                )
            if is_late(given.key, given.value) and option.type.name == "String":
                # What it comes to is known when a job starts.
                self._values[key] = given.value
                continue
            try:
                self._values[key] = option.type.parse(given.value)
            except BadValue as bad:
                self.error(
                    "OPT-005",
                    f"Invalid value for option '{key}'. {bad.reason}",
                    given.value_span,
                    bad.hint,
                )
        if missing:
            self.error(
                "OPT-004",
                "One or more required options are missing. Missing required options are: "
                + ", ".join(sorted(missing)),
                place or self.place,
                "add " + ", ".join(f"'{key}' = '…'" for key in sorted(missing)),
            )

    def _under_older_name(self, option: Option[Any], prefix: str) -> ast.Option | None:
        for name in option.aliases:
            given = self._given.get(prefix + name)
            if given is not None:
                self._accepted[given.key] = option
                use = f"use '{prefix}{option.key}'"
                self.warn("OPT-007", f"option '{given.key}' is deprecated", given.span, use)
                return given
        return None

    def accepts(self, key: str) -> bool:
        return key in self._accepted

    def skip(self, prefix: str) -> None:
        """Leave a family unread: whoever owns it has been refused already."""
        self._skipped.append(prefix)

    def get(self, option: Option[T], prefix: str = "") -> T | None:
        """The value, or the default when there is none that can be used."""
        return cast("T | None", self._values.get(prefix + option.key, option.default))

    def value(self, option: Option[T], prefix: str = "") -> T:
        """As `get`, for options that have a default."""
        found = self.get(option, prefix)
        assert found is not None, option.key
        return found

    # what is wrong

    def error(self, code: str, message: str, span: Span | None, hint: str | None = None) -> None:
        assert code in CODES
        self.errors.append(Diagnostic(code, message, span, hint))

    def warn(self, code: str, message: str, span: Span | None, hint: str | None = None) -> None:
        assert code in CODES
        self.warnings.append(Diagnostic(code, message, span, hint, severity="warning"))

    def notice(self, code: str, message: str, span: Span | None) -> None:
        assert code in CODES
        self.warnings.append(Diagnostic(code, message, span, severity="notice"))

    def refuse(self, key: str, hint: str | None) -> None:
        """Note that a given option is none of this connector's."""
        self.error(
            "OPT-003",
            f"Unsupported options found for '{self.subject}'. Unsupported option: '{key}'",
            self.key_span(key),
            hint,
        )

    def finish(self) -> None:
        """Report what nobody declared, then raise if anything was wrong."""
        families = tuple(key[:-1] for key in self._accepted if key.endswith("*"))
        for key in self._given:
            if key in self._accepted and not self._accepted[key].is_template:
                continue
            if not key.startswith(families + tuple(self._skipped)):
                self.refuse(key, self._unknown_hint(key))
        if self.errors:
            raise_all(self.errors, self.warnings)

    def _unknown_hint(self, key: str) -> str:
        if key in self._advice:
            return self._advice[key]
        for pattern, advice in self._advice.items():
            if pattern.endswith("*") and key.startswith(pattern[:-1]):
                return advice
        known = [k for k, o in self._accepted.items() if not o.is_template]
        bare = re.sub(r"^(key|value)\.", "", key)
        for candidate in known:
            if (
                candidate != key
                and bare == re.sub(r"^(key|value)\.", "", candidate)
                and "." in bare
            ):
                return f"a format's options carry the prefix of the option that names it: '{candidate}'"
        if "properties.*" in self._accepted and _is_client_property(key):
            return f"properties of the Kafka client carry a prefix: 'properties.{key}'"
        found = nearest(key, known)
        if found:
            return f"did you mean '{found}'?"
        return "supported options are " + ", ".join(
            f"{k} (deprecated)" if self._accepted[k].deprecated else k
            for k in _relatives(key, self._accepted)
        )


def _relatives(key: str, known: Iterable[str]) -> list[str]:
    """The known keys that share the longest family with a key: of `csv.x` those of `csv.`, else all."""
    family = key
    while "." in family:
        family = family.rpartition(".")[0]
        found = sorted(k for k in known if k.startswith(family + "."))
        if found:
            return found
    return sorted(known)


_CLIENT_PROPERTY = re.compile(
    r"(bootstrap\.servers|group\.id|client\.id|auto\.offset\.reset|isolation\.level|acks|linger\.ms"
    r"|batch\.size|compression\.type|enable\.[a-z.]+|max\.poll\.[a-z.]+|fetch\.[a-z.]+|session\.timeout\.ms"
    r"|heartbeat\.interval\.ms|request\.timeout\.ms|security\.protocol|(sasl|ssl)\..+"
    r"|transaction\.timeout\.ms|allow\.auto\.create\.topics)"
)


def _is_client_property(key: str) -> bool:
    return bool(_CLIENT_PROPERTY.fullmatch(key))


def raise_all(errors: Iterable[Diagnostic], warnings: Iterable[Diagnostic] = ()) -> NoReturn:
    """Raise mistakes in the order in which a reader of the script meets them; warnings travel along."""
    raise ScriptError(in_script_order([*errors, *warnings]))

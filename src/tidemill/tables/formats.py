"""Formats as tables see them: names, options, changes, metadata, and which columns they can carry.

In: the option that names a format and the options under its prefix. Out: a FormatSpec with typed values and
defaults, ready for `tidemill.formats`. Law: this module knows no bytes; encoding and decoding live there. A format
that has a row here is checked and typed in full, also while nothing can run it yet.
"""

from __future__ import annotations

import codecs
import re
import urllib.parse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tidemill import plugins
from tidemill.changelog import ALL_CHANGES, INSERT_ONLY, ChangelogMode
from tidemill.errors import Span, did_you_mean
from tidemill.formats import avro_schema
from tidemill.plugins import PluginProblem
from tidemill.tables.metadata import MetadataKey, MetadataKeys
from tidemill.tables.options import (
    BOOLEAN,
    MAP,
    STRING,
    TEXT,
    BadValue,
    Option,
    OptionReader,
    OptionType,
    one_of,
)
from tidemill.tables.vendors import KNOWN_FORMATS
from tidemill.types import (
    APPROXIMATE_TYPES,
    BINARY_TYPES,
    INT,
    INTEGER_TYPES,
    STRING_TYPES,
    ArrayType,
    BooleanType,
    DateType,
    DecimalType,
    Field,
    MapType,
    MultisetType,
    RowType,
    SqlType,
    TimestampLtzType,
    TimestampType,
    TimeType,
)
from tidemill.types import STRING as STRING_COLUMN


@dataclass(frozen=True)
class FormatSpec:
    """A format chosen by a table, with every option it has."""

    name: str
    options: Mapping[str, object] = field(hash=False, repr=False)
    """By short key (`ignore-parse-errors`); plain Python values, defaults filled in."""
    prefix: str
    """What the script writes before a short key: `json.`, `value.json.` or `key.json.`."""

    @property
    def definition(self) -> FormatDefinition:
        found = find_format(self.name)
        assert found is not None
        return found


VALUE_PREFIX = "value."
"""What a table writes before a key of its value format's metadata."""

Unsupported = Callable[[SqlType, Mapping[str, object]], str | None]
"""Why a column of this type cannot travel under these options; None when it can."""


def _no_rules(reader: OptionReader, prefix: str) -> None:
    """Options that go together whatever they say."""


def _all_supported(type_: SqlType, options: Mapping[str, object]) -> str | None:
    return None


@dataclass(frozen=True)
class FormatDefinition:
    name: str
    doc: str
    options: tuple[Option[Any], ...] = ()
    unsupported: Unsupported = _all_supported
    check_options: Callable[[OptionReader, str], None] = _no_rules
    """Rules between options; gets the prefix."""
    changelog: ChangelogMode = INSERT_ONLY
    """The kinds of rows that it reads, and that it can write."""
    metadata: MetadataKeys = field(default_factory=dict)
    """What records tell about themselves, without the `value.` that a table writes before it."""
    why_not_written: Callable[[FormatSpec, bool], str | None] = lambda spec, one_topic: None
    """Why a table cannot be a sink, given its options and whether it has one topic; None when it can."""
    check_fields: Callable[[FormatSpec, Sequence[Field]], avro_schema.BadSchema | None] = (
        lambda spec, fields: None
    )
    """What is wrong between its option `schema` and the table's columns."""
    illegal_name: Callable[[str], str | None] = lambda name: None
    """Why no column can have this name; None when one can."""
    one_column: bool = False
    """Whether a record is a single value."""
    runnable: bool = True
    """Whether jobs can read and write it; else it is only checked."""

    @property
    def value_metadata(self) -> MetadataKeys:
        return {VALUE_PREFIX + key: what for key, what in self.metadata.items()}

    def build(self, reader: OptionReader, prefix: str, place: Span) -> FormatSpec:
        """`place` is where the table names the format."""
        reader.accept(self.options, prefix, place)
        self.check_options(reader, prefix)
        values = {o.key: reader.get(o, prefix) for o in self.options if not o.is_template}
        # A family may also be given as one value, which then counts alone.
        families = {
            o.key: values.pop(o.key[:-2], None) or reader.family(prefix + o.key[:-1])
            for o in self.options
            if o.is_template
        }
        return FormatSpec(self.name, {**values, **families}, prefix)


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
_JSON_TEXT: tuple[Option[Any], ...] = (
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
)
"""What every format that is written in JSON takes."""
JSON_OPTIONS: tuple[Option[Any], ...] = (
    FAIL_ON_MISSING_FIELD,
    *_JSON_TEXT,
    Option(
        "decode.json-parser.enabled",
        BOOLEAN,
        "Whether a number that is read into a STRING keeps the digits that are written; Flink's older parser"
        " (`false`) takes it through a double, or a BigDecimal where the table has a DECIMAL.",
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


def _json_unsupported(type_: SqlType, options: Mapping[str, object]) -> str | None:
    match type_:
        case MapType(key=key) | MultisetType(element=key) if not isinstance(key, STRING_TYPES):
            return (
                f"JSON format doesn't support non-string as key type of map. The type is: {type_}"
            )
        case MapType(value=inner) | ArrayType(element=inner):
            return _json_unsupported(inner, options)
        case RowType(fields=fields):
            return next((why for f in fields if (why := _json_unsupported(f.type, options))), None)
    return None


# --- csv ---------------------------------------------------------------------------------------


def _character(text: str) -> str:
    # Java counts halves of characters.
    if len(text.encode("utf-16-le")) != 2:
        raise BadValue(f"It must be a string with single character, but was: {text}.")
    return text


def _unescaped(text: str) -> str:
    """The escapes of Java's strings, which SQL's do not know."""

    def meant(found: re.Match[str]) -> str:
        code, octal, char = found.groups()
        if char is not None:
            return _JAVA_ESCAPES.get(char, char)
        return chr(int(code, 16) if code else int(octal, 8))

    return _JAVA_ESCAPE.sub(meant, text)


_JAVA_ESCAPE = re.compile(r"\\(?:u+([0-9a-fA-F]{4})|([0-3]?[0-7]{1,2})|(.))", re.DOTALL)
_JAVA_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "b": "\b", "f": "\f"}
CHARACTER = OptionType("Character", _character)
ESCAPED_CHARACTER = OptionType("Character", lambda text: _character(_unescaped(text)))
DISABLE_QUOTE = Option(
    "disable-quote-character", BOOLEAN, "Whether values are never quoted.", False
)
QUOTE = Option("quote-character", CHARACTER, "The character around values that need it.", '"')
CSV_OPTIONS: tuple[Option[Any], ...] = (
    Option(
        "field-delimiter", ESCAPED_CHARACTER, "What stands between fields; `\\t` is a tab.", ","
    ),
    DISABLE_QUOTE,
    QUOTE,
    Option(
        "allow-comments",
        BOOLEAN,
        "Whether records that begin with `#` are skipped; goes with `ignore-parse-errors`.",
        False,
    ),
    IGNORE_PARSE_ERRORS,
    Option(
        "array-element-delimiter",
        CHARACTER,
        "What stands between the elements of an ARRAY and the fields of a ROW.",
        ";",
    ),
    Option("escape-character", CHARACTER, "What takes the next character's meaning away."),
    Option("null-literal", STRING, "The text that means NULL; without it no text does."),
    Option(
        "write-bigdecimal-in-scientific-notation",
        BOOLEAN,
        "Whether DECIMAL is written as `1E+5`; without the option it is written plainly, as Flink does.",
    ),
    Option(
        "trim-spaces",
        BOOLEAN,
        "Whether blanks around values are taken off.",
        False,
        since="Flink 2.3",
    ),
    Option(
        "ignore-trailing-unmappable",
        BOOLEAN,
        "Whether fields after the last column are ignored.",
        False,
        since="Flink 2.3",
    ),
    Option(
        "allow-trailing-comma",
        BOOLEAN,
        "Whether a record may end in a delimiter.",
        True,
        since="Flink 2.3",
    ),
    Option(
        "fail-on-missing-columns",
        BOOLEAN,
        "Whether a record with too few fields fails the job.",
        False,
        since="Flink 2.3",
    ),
    Option(
        "empty-string-as-null",
        BOOLEAN,
        "Whether an empty text is NULL.",
        False,
        since="Flink 2.3",
    ),
)


def _check_csv(reader: OptionReader, prefix: str) -> None:
    if reader.get(DISABLE_QUOTE, prefix) and reader.has(prefix + QUOTE.key):
        reader.error(
            "OPT-015",
            f"Format cannot define a quote character and disabled quote character at the same time:"
            f" '{prefix}{DISABLE_QUOTE.key}' is 'true'.",
            reader.key_span(prefix + QUOTE.key),
            "leave one of them out",
        )


def _csv_unsupported(type_: SqlType, options: Mapping[str, object]) -> str | None:
    match type_:
        case ArrayType(element=inner) if not _is_simple(inner):
            return "Only simple types are supported in the second level nesting of fields."
        case RowType(fields=fields) if not all(_is_simple(f.type) for f in fields):
            return "Only simple types are supported in the second level nesting of fields."
        case ArrayType() | RowType():
            return None
    return None if _is_simple(type_) else f"Unsupported type: {type_}"


def _is_simple(type_: SqlType) -> bool:
    return not isinstance(type_, (ArrayType, RowType, MapType, MultisetType))


# --- avro --------------------------------------------------------------------------------------

LEGACY_TIMESTAMPS = Option(
    "timestamp_mapping.legacy",
    BOOLEAN,
    "Whether TIMESTAMP is Avro's `timestamp-millis`, as in Flink before 1.19. `false` makes it a local one and"
    " lets TIMESTAMP_LTZ travel.",
    True,
)
AVRO_OPTIONS: tuple[Option[Any], ...] = (
    Option("encoding", one_of("binary", "json"), "How records are written.", "binary"),
    LEGACY_TIMESTAMPS,
)


def _avro_unsupported(type_: SqlType, options: Mapping[str, object]) -> str | None:
    legacy = options.get(LEGACY_TIMESTAMPS.key, True)
    match type_:
        case MapType(key=key) | MultisetType(element=key) if not isinstance(key, STRING_TYPES):
            return (
                f"AVRO format doesn't support non-string as key type of map. The key type is: {key}"
            )
        case MapType(value=inner) | ArrayType(element=inner):
            return _avro_unsupported(inner, options)
        case RowType(fields=fields):
            reasons = (
                _illegal_avro_name(f.name) or _avro_unsupported(f.type, options) for f in fields
            )
            return next(filter(None, reasons), None)
        case TimestampLtzType() if legacy:
            return f"Unsupported to derive Schema for type: {type_}"
        case TimestampType(precision=precision) if legacy and precision > 3:
            return _too_precise("TIMESTAMP", precision, 3)
        case TimestampType(precision=precision) | TimestampLtzType(precision=precision):
            return _too_precise(type_.root, precision, 6) if precision > 6 else None
        case TimeType(precision=precision):
            return _too_precise("TIME", precision, 3) if precision > 3 else None
    return (
        None
        if isinstance(type_, _AVRO_TYPES)
        else f"Unsupported to derive Schema for type: {type_}"
    )


def _illegal_avro_name(name: str) -> str | None:
    if _AVRO_NAME.fullmatch(name):
        return None
    what = "character in" if _AVRO_NAME.match(name) else "initial character"
    return f"Illegal {what}: {name}; a name in Avro is of letters, digits and '_', no digit first."


_AVRO_NAME = re.compile(r"[^\W\d]\w*")


def _too_precise(root: str, precision: int, most: int) -> str:
    return (
        f"Avro does not support {root} type with precision: {precision},"
        f" it only supports precision of at most {most}."
    )


_AVRO_TYPES = (
    BooleanType,
    *INTEGER_TYPES,
    *APPROXIMATE_TYPES,
    DecimalType,
    *STRING_TYPES,
    *BINARY_TYPES,
    DateType,
    MultisetType,
)

SUBJECT = "subject"


def _addresses(text: str) -> str:
    for one in text.split(","):
        parts = urllib.parse.urlsplit(one.strip())
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadValue(
                "It is no address of a schema registry.",
                "such as 'http://localhost:8081', or several with commas between them",
            )
    return text


SCHEMA = "schema"

REGISTRY_OPTIONS: tuple[Option[Any], ...] = (
    Option(
        "url",
        OptionType("String", _addresses),
        "Address of the schema registry; several with commas between them.",
        required=True,
        aliases=("schema-registry.url",),
    ),
    Option(
        SUBJECT,
        TEXT,
        "Subject under which a sink registers its schema; by default `<topic>-value` or `<topic>-key`, if there is"
        " one topic.",
        aliases=("schema-registry.subject",),
    ),
    Option(SCHEMA, TEXT, "A schema to use, which must say the same as the table's columns."),
    Option("ssl.keystore.location", STRING, "The client's key store."),
    Option("ssl.keystore.password", STRING, "Password of the key store."),
    Option("ssl.truststore.location", STRING, "Certificates to trust."),
    Option("ssl.truststore.password", STRING, "Password of the trust store."),
    Option(
        "basic-auth.credentials-source",
        one_of("USER_INFO", "URL"),
        "Where name and password come from: `basic-auth.user-info`, or the address.",
    ),
    Option("basic-auth.user-info", STRING, "Name and password."),
    Option(
        "bearer-auth.credentials-source",
        one_of("STATIC_TOKEN"),
        "Where the token comes from: `bearer-auth.token`.",
    ),
    Option("bearer-auth.token", STRING, "The token."),
    Option(
        "properties",
        MAP,
        "Properties of the registry's client as one value, `k1:v1,k2:v2`; then the keys below `properties.` do not"
        " count.",
    ),
    Option("properties.*", STRING, "Any property of the registry's client."),
)


def _given_schema(spec: FormatSpec, fields: Sequence[Field]) -> avro_schema.BadSchema | None:
    text = spec.options[SCHEMA]
    if text is None:
        return None
    try:
        avro_schema.given(spec.name, str(text), fields)
    except avro_schema.BadSchema as bad:
        return bad
    return None


def with_subject(spec: FormatSpec, topics: Sequence[str], side: str) -> FormatSpec:
    """A registry format that is not told its subject takes that of a table's only topic; `side` is key or value."""
    if SUBJECT not in spec.options or spec.options[SUBJECT] is not None or len(topics) != 1:
        return spec
    return replace(spec, options={**spec.options, SUBJECT: f"{topics[0]}-{side}"})


def _needs_subject(spec: FormatSpec, one_topic: bool) -> str | None:
    if one_topic or spec.options[SUBJECT] is not None:
        return None
    return f"Option {spec.prefix}subject is required for serialization"


# --- raw ---------------------------------------------------------------------------------------


def _charset(text: str) -> str:
    try:
        # Codecs that make no bytes of a text are not found by this.
        "a".encode(text)
        known = codecs.lookup(text).name.replace("_", "-") not in _NOT_OF_JAVA
    except (LookupError, ValueError):
        known = False
    if not known:
        raise BadValue(f"Unsupported charset name: {text}.")
    return text


# Encodings of Python's that Java does not have.
_NOT_OF_JAVA = frozenset(
    ("idna", "punycode", "unicode-escape", "raw-unicode-escape", "utf-7", "utf-8-sig")
)
RAW_OPTIONS: tuple[Option[Any], ...] = (
    Option("charset", OptionType("String", _charset), "Encoding of texts.", "UTF-8"),
    Option(
        "endianness",
        one_of("big-endian", "little-endian"),
        "Order of a number's bytes.",
        "big-endian",
    ),
    Option(
        "line-delimiter",
        OptionType("String", lambda text: _unescaped(TEXT.parse(text))),
        "Splits a record into rows (`\\n` is a line feed) and ends each row that is written; without it a record is"
        " one row.",
        since="Flink 2.4",
    ),
)
_RAW_TYPES = (BooleanType, *INTEGER_TYPES, *APPROXIMATE_TYPES, *STRING_TYPES, *BINARY_TYPES)


def _raw_unsupported(type_: SqlType, options: Mapping[str, object]) -> str | None:
    if isinstance(type_, _RAW_TYPES):
        return None
    return f"The 'raw' format doesn't supports '{type_}' as column type."


# --- changes -----------------------------------------------------------------------------------


def _keys(**types: tuple[SqlType, str]) -> MetadataKeys:
    """Metadata that can be read; in names `__` stands for `.` and `_` for `-`."""
    return {
        name.replace("__", ".").replace("_", "-"): MetadataKey(type_, None, doc)
        for name, (type_, doc) in types.items()
    }


_MILLIS, _MICROS = TimestampLtzType(precision=3), TimestampLtzType(precision=6)
_NAMES = ArrayType(element=STRING_COLUMN)
_DEBEZIUM_METADATA = _keys(
    schema=(STRING_COLUMN, "The record's schema as JSON, if it carries one."),
    ingestion_timestamp=(_MILLIS, "When the connector took the change up."),
    source__timestamp=(_MILLIS, "When the database made the change."),
    source__database=(STRING_COLUMN, "The database."),
    source__schema=(STRING_COLUMN, "The schema in the database."),
    source__table=(STRING_COLUMN, "The table in the database."),
    source__properties=(
        MapType(key=STRING_COLUMN, value=STRING_COLUMN),
        "Everything that the record tells about its source.",
    ),
)
_CANAL_METADATA = _keys(
    database=(STRING_COLUMN, "The database."),
    table=(STRING_COLUMN, "The table in the database."),
    sql_type=(MapType(key=STRING_COLUMN, value=INT), "JDBC's number of each column's type."),
    pk_names=(_NAMES, "The columns of the primary key."),
    ingestion_timestamp=(_MILLIS, "When the connector took the change up."),
    event_timestamp=(_MILLIS, "When the database made the change."),
)
_MAXWELL_METADATA = _keys(
    database=(STRING_COLUMN, "The database."),
    table=(STRING_COLUMN, "The table in the database."),
    primary_key_columns=(_NAMES, "The columns of the primary key."),
    ingestion_timestamp=(_MILLIS, "When the connector took the change up, in whole seconds."),
)
_OGG_METADATA = _keys(
    table=(STRING_COLUMN, "The table in the database."),
    primary_keys=(_NAMES, "The columns of the primary key."),
    ingestion_timestamp=(_MICROS, "When the connector took the change up."),
    event_timestamp=(_MICROS, "When the database made the change."),
)


SCHEMA_INCLUDE = Option(
    "schema-include",
    BOOLEAN,
    "Whether records carry their schema beside the payload; such tables can only be read.",
    False,
)


def _has_no_schema(spec: FormatSpec, one_topic: bool) -> str | None:
    if not spec.options[SCHEMA_INCLUDE.key]:
        return None
    return f"Debezium JSON serialization doesn't support '{spec.prefix}{SCHEMA_INCLUDE.key}' option been set to true."


def _parse_pattern(text: str) -> str:
    """Java's regular expression as Python writes it: the names are matched by Python."""
    if "&&" in text:
        raise BadValue(f"'&&' in the pattern '{text}' cannot be used here.", _WITHOUT_PATTERN)
    quoted = _QUOTED.sub(lambda found: re.escape(found[1]), text)
    pattern = _NAMED_GROUP.sub("(?P<", quoted).replace(r"\z", r"\Z")
    try:
        re.compile(pattern)
    except re.error as error:
        why = f"Not a regular expression that can be used here: {error}."
        raise BadValue(why, _WITHOUT_PATTERN) from None
    return pattern


_WITHOUT_PATTERN = "name them one by one, a|b|c, or filter by the metadata column 'value.table'"
_QUOTED = re.compile(r"\\Q(.*?)(?:\\E|$)", re.DOTALL)
_NAMED_GROUP = re.compile(r"\(\?<(?![=!])")


def _pattern(what: str) -> Option[str]:
    return Option(
        f"{what}.include",
        OptionType("String", _parse_pattern),
        f"Java's regular expression for the names of the {what}s to read, matched in full.",
    )


FORMATS: Mapping[str, FormatDefinition] = {
    definition.name: definition
    for definition in (
        FormatDefinition(
            "json",
            "One JSON object per record (an array gives one row per element).",
            JSON_OPTIONS,
            _json_unsupported,
            _check_json,
        ),
        FormatDefinition(
            "csv",
            "One line of delimited fields per record, in the columns' order.",
            CSV_OPTIONS,
            _csv_unsupported,
            _check_csv,
        ),
        FormatDefinition(
            "avro",
            "One Avro record without a header; its schema is made from the columns.",
            AVRO_OPTIONS,
            _avro_unsupported,
            illegal_name=_illegal_avro_name,
        ),
        FormatDefinition(
            "avro-confluent",
            "Avro with the number of its schema in a Confluent schema registry.",
            REGISTRY_OPTIONS,
            _avro_unsupported,
            illegal_name=_illegal_avro_name,
            why_not_written=_needs_subject,
            check_fields=_given_schema,
        ),
        FormatDefinition(
            "raw",
            "The bytes of a single value.",
            RAW_OPTIONS,
            _raw_unsupported,
            one_column=True,
        ),
        FormatDefinition(
            "debezium-json",
            "Changes of a database as Debezium writes them in JSON.",
            (
                SCHEMA_INCLUDE,
                *_JSON_TEXT,
            ),
            _json_unsupported,
            changelog=ALL_CHANGES,
            metadata=_DEBEZIUM_METADATA,
            why_not_written=_has_no_schema,
        ),
        FormatDefinition(
            "debezium-avro-confluent",
            "Changes of a database as Debezium writes them in Avro with a schema registry.",
            REGISTRY_OPTIONS,
            _avro_unsupported,
            illegal_name=_illegal_avro_name,
            why_not_written=_needs_subject,
            check_fields=lambda spec, fields: _given_schema(
                spec, avro_schema.debezium_fields(fields)
            ),
            changelog=ALL_CHANGES,
        ),
        FormatDefinition(
            "canal-json",
            "Changes of a database as Canal writes them in JSON.",
            (_pattern("database"), _pattern("table"), *_JSON_TEXT),
            _json_unsupported,
            changelog=ALL_CHANGES,
            metadata=_CANAL_METADATA,
        ),
        FormatDefinition(
            "maxwell-json",
            "Changes of a database as Maxwell writes them in JSON.",
            _JSON_TEXT,
            _json_unsupported,
            changelog=ALL_CHANGES,
            metadata=_MAXWELL_METADATA,
        ),
        FormatDefinition(
            "ogg-json",
            "Changes of a database as Oracle GoldenGate writes them in JSON.",
            _JSON_TEXT,
            _json_unsupported,
            changelog=ALL_CHANGES,
            metadata=_OGG_METADATA,
        ),
    )
}
"""Our own formats that are checked; `runnable` says which of them jobs can use."""


# --- formats of other packages -----------------------------------------------------------------


def find_format(name: str) -> FormatDefinition | None:
    """The format of that name, our own or a plug-in that can be used."""
    found = FORMATS.get(name)
    try:
        return found or _plugin(name)
    except PluginProblem:
        return None


def format_names() -> list[str]:
    return [*FORMATS, *(name for name in plugins.names(plugins.FORMATS) if name not in FORMATS)]


def _plugin(name: str) -> FormatDefinition | None:
    found = plugins.load(plugins.FORMATS, name)
    if found is None:
        return None
    hint = "docs/formats/plugins.md tells what a format has"
    definition = getattr(found, "definition", None)
    if not isinstance(definition, FormatDefinition):
        raise PluginProblem(f"'{name}' has no 'definition' that is a FormatDefinition", hint)
    if definition.name != name:
        raise PluginProblem(
            f"'{name}' is registered under this name but calls itself '{definition.name}'", hint
        )
    for part in ("decoder", "encoder"):
        if not callable(getattr(found, part, None)):
            raise PluginProblem(f"'{name}' has no '{part}' that can be called", hint)
    return definition


# --- choosing one ------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChosenFormat:
    """What a table's options say about one side of a record."""

    name: str
    changelog: ChangelogMode
    option: Option[str]
    spec: FormatSpec | None
    """None when there is no such format; the mistake is in the reader."""

    @property
    def insert_only(self) -> bool:
        return self.changelog.insert_only


def choose_format(reader: OptionReader, option: Option[str]) -> ChosenFormat | None:
    """Read the format that an option (`format`, `value.format`, `key.format`) names, if it is given."""
    name = reader.get(option)
    if name is None:
        return None
    prefix = f"{option.key.removesuffix('format')}{name}."
    definition = find_format(name)
    if definition:
        spec = definition.build(reader, prefix, reader.value_span(option))
        return ChosenFormat(name, definition.changelog, option, spec)
    reader.skip(prefix)
    return ChosenFormat(name, INSERT_ONLY, option, None)


def value_metadata(reader: OptionReader) -> MetadataKeys:
    """The keys that the value's format adds to those of the connector."""
    name = reader.text("format") or reader.text("value.format")
    definition = find_format(name or "")
    return definition.value_metadata if definition else {}


def refuse_format(reader: OptionReader, chosen: ChosenFormat) -> None:
    """Note that a chosen format does not exist here."""
    span = reader.value_span(chosen.option)
    try:
        _plugin(chosen.name)
    except PluginProblem as problem:
        reader.error("OPT-018", f"format {problem.message}", span, problem.hint)
        return
    if chosen.name in KNOWN_FORMATS:
        hint = KNOWN_FORMATS[chosen.name]
        reader.error("OPT-012", f"format '{chosen.name}' is not supported", span, hint)
        return
    names = format_names()
    reader.error(
        "OPT-011",
        f"Could not find any factory for identifier '{chosen.name}': there is no such format",
        span,
        did_you_mean(
            chosen.name, [*names, *KNOWN_FORMATS], f"available formats are {', '.join(names)}"
        ),
    )


def check_types(reader: OptionReader, chosen: ChosenFormat, fields: Iterable[Field]) -> None:
    """Note every field that the format cannot carry."""
    if chosen.spec is None:
        return
    definition, span = chosen.spec.definition, reader.value_span(chosen.option)
    given = list(fields)
    if definition.one_column and len(given) != 1:
        shown = ", ".join(f.name for f in given) or "none"
        reader.error(
            "OPT-014",
            f"The '{definition.name}' format only supports single physical column. However the defined schema"
            f" contains {len(given)}: {shown}",
            span,
            "declare one column, or use 'json'",
        )
        return
    for f in given:
        why = definition.illegal_name(f.name)
        why = why or definition.unsupported(f.type, chosen.spec.options)
        if why:
            reader.error("OPT-014", f"column '{f.name}': {why}", span)
    bad = definition.check_fields(chosen.spec, given)
    if bad is not None:
        place = reader.value_span(chosen.spec.prefix + SCHEMA)
        reader.error("OPT-014", str(bad), place, bad.hint)

"""The `kafka` connector: append-only tables over topics. Also what it shares with `upsert-kafka`.

In: a declaration and its options. Out: a KafkaTable whose every field is typed and whose rules hold.
Law: options, defaults, rules and their sentences are those of Flink's connector (see the rule numbers V1–V33 in
the comments); `properties.*` travel verbatim.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import Any, ClassVar

from tidemill.changelog import INSERT_ONLY, ChangelogMode
from tidemill.errors import job_error
from tidemill.tables.catalog import Connector, Schema
from tidemill.tables.connector import (
    ConnectorDefinition,
    Declaration,
    WatermarkOptions,
    read_watermark_options,
)
from tidemill.tables.credentials import NAME_OPTIONS, NamedAuthentication, read_named
from tidemill.tables.formats import (
    ChosenFormat,
    FormatSpec,
    check_types,
    choose_format,
    refuse_format,
    with_subject,
)
from tidemill.tables.metadata import MetadataKey, MetadataKeys
from tidemill.tables.options import (
    BOOLEAN,
    DURATION,
    INTEGER,
    LONG,
    PARALLELISM,
    STRING,
    STRINGS,
    TEXT,
    BadValue,
    Option,
    OptionReader,
    OptionType,
    at_least,
    enum_of,
    one_of,
    split_list,
)
from tidemill.tables.references import JAAS, client_value, has_reference
from tidemill.tables.vendors import OLD_OPTIONS
from tidemill.types import (
    BIGINT,
    BYTES,
    INT,
    ArrayType,
    Field,
    MapType,
    RowType,
    TimestampLtzType,
)
from tidemill.types import STRING as STRING_COLUMN

# --- values ------------------------------------------------------------------------------------


class StartupMode(Enum):
    EARLIEST = "earliest-offset"
    LATEST = "latest-offset"
    GROUP_OFFSETS = "group-offsets"
    TIMESTAMP = "timestamp"
    SPECIFIC_OFFSETS = "specific-offsets"


class BoundedMode(Enum):
    UNBOUNDED = "unbounded"
    LATEST = "latest-offset"
    GROUP_OFFSETS = "group-offsets"
    TIMESTAMP = "timestamp"
    SPECIFIC_OFFSETS = "specific-offsets"


class ValueFields(Enum):
    ALL = "ALL"
    EXCEPT_KEY = "EXCEPT_KEY"


class DeliveryGuarantee(Enum):
    NONE = "none"
    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


class BadRecords(Enum):
    """What becomes of a record that its format cannot read."""

    FAIL = "fail"
    SKIP = "skip"
    DEAD_LETTER = "dead-letter"


class DataLoss(Enum):
    """What becomes of a job whose records are gone before it has read them."""

    FAIL = "fail"
    WARN = "warn"


class TransactionNaming(Enum):
    INCREMENTING = "INCREMENTING"
    POOLING = "POOLING"


@dataclass(frozen=True)
class Startup:
    """Where reading begins."""

    mode: StartupMode
    timestamp_millis: int | None = None
    """With TIMESTAMP."""
    offsets: Mapping[int, int] = field(default_factory=dict, hash=False)
    """With SPECIFIC_OFFSETS: partition → first offset to read."""


@dataclass(frozen=True)
class Bounded:
    """Where reading ends."""

    mode: BoundedMode = BoundedMode.UNBOUNDED
    timestamp_millis: int | None = None
    offsets: Mapping[int, int] = field(default_factory=dict, hash=False)
    """With SPECIFIC_OFFSETS: partition → offset to stop before. Others end at what the group has committed; without
    that nothing is read from them (V32)."""

    @property
    def is_bounded(self) -> bool:
        return self.mode is not BoundedMode.UNBOUNDED


@dataclass(frozen=True)
class Reading:
    """How a table is read, where Flink leaves no choice."""

    bad_records: BadRecords | None = None
    """None: nobody has said, so that a bad record fails the job and `ignore-parse-errors` rules alone, as in Flink."""
    dead_letter_topic: str | None = None
    data_loss: DataLoss = DataLoss.FAIL
    max_rows_per_batch: int | None = None
    rows_per_second: int | None = None
    as_append: bool = False
    """Whether every change is a row of its own, which nothing takes back."""

    def __post_init__(self) -> None:
        if (self.bad_records is BadRecords.DEAD_LETTER) != (self.dead_letter_topic is not None):
            raise ValueError("dead letters and their topic go together")


@dataclass(frozen=True)
class NewTopic:
    """How to make the topic of a table that is written, if it is not there; None: as the broker likes."""

    partitions: int | None = None
    replication_factor: int | None = None
    cleanup_policy: str | None = None


Projection = tuple[tuple[str, str], ...]
"""Pairs (column of the table, field in the format)."""


@dataclass(frozen=True)
class TopicTable(Connector):
    """A table over Kafka topics: what `kafka` and `upsert-kafka` have in common."""

    connector: ClassVar[str]

    topics: tuple[str, ...]
    topic_pattern: str | None
    """Java's regular expression, to be matched in full; set when `topics` is empty."""
    properties: Mapping[str, str] = field(hash=False, repr=False)
    """The Kafka client's properties, without `properties.`."""
    startup: Startup
    bounded: Bounded
    discovery_interval: timedelta | None
    """How often new partitions and topics are looked for; None: never (always so when bounded)."""
    scan_parallelism: int | None
    watermark: WatermarkOptions
    key_format: FormatSpec | None
    value_format: FormatSpec
    key_prefix: str
    value_include: ValueFields
    key_columns: Projection
    value_columns: Projection
    sink_parallelism: int | None
    delivery_guarantee: DeliveryGuarantee
    transactional_id_prefix: str | None
    transaction_naming: TransactionNaming
    reading: Reading = Reading()
    new_topic: NewTopic | None = None
    named: NamedAuthentication | None = None
    """Names of entries of the user's credentials, which give properties of the client too."""

    @property
    def changes(self) -> ChangelogMode:
        """The kinds that the records tell."""
        return self.value_format.definition.changelog

    @property
    def source_mode(self) -> ChangelogMode:
        return INSERT_ONLY if self.reading.as_append else self.changes

    @property
    def has_unique_rows(self) -> bool:
        return not self.reading.as_append

    @property
    def is_bounded(self) -> bool:
        return self.bounded.is_bounded

    @property
    def bootstrap_servers(self) -> str:
        return self.properties["bootstrap.servers"]

    @property
    def group_id(self) -> str | None:
        return self.properties.get("group.id")

    @property
    def has_one_topic(self) -> bool:
        return len(self.topics) == 1

    @property
    def effective_startup(self) -> Startup:
        """Where reading really begins: committed offsets need a group, without one it is the earliest offset."""
        if self.startup.mode is StartupMode.GROUP_OFFSETS and self.group_id is None:
            return Startup(StartupMode.EARLIEST)
        return self.startup

    @property
    def metadata_keys(self) -> MetadataKeys:
        """The connector's and the value format's. Flink offers `topic` for writing only where there is a choice."""
        keys = {**KAFKA_METADATA, **self.value_format.definition.value_metadata}
        if self.has_one_topic:
            topic = KAFKA_METADATA["topic"]
            keys["topic"] = MetadataKey(topic.read_type, None, topic.doc)
        return keys

    def key_fields(self, schema: Schema) -> tuple[Field, ...]:
        """The row type of the record's key, in key order."""
        return _fields(schema, self.key_columns)

    def value_fields(self, schema: Schema) -> tuple[Field, ...]:
        """The row type of the record's value, in schema order."""
        return _fields(schema, self.value_columns)


def _fields(schema: Schema, projection: Projection) -> tuple[Field, ...]:
    types = {c.name: c.type for c in schema.physical}
    return tuple(Field(name, types[column]) for column, name in projection)


@dataclass(frozen=True)
class KafkaTable(TopicTable):
    connector = "kafka"

    partitioner: str = "default"
    """default, fixed or round-robin."""

    @property
    def sink_mode(self) -> ChangelogMode:
        return self.value_format.definition.changelog


ROW_KIND = "row_kind"
_HEADERS = MapType(key=STRING_COLUMN, value=BYTES)
HEADER_LIST = ArrayType(
    element=RowType(
        nullable=False, fields=(Field("key", STRING_COLUMN.not_null), Field("value", BYTES))
    )
).not_null
_TIMESTAMP = TimestampLtzType(precision=3)
KAFKA_METADATA: MetadataKeys = {
    "topic": MetadataKey(
        STRING_COLUMN.not_null,
        STRING_COLUMN.not_null,
        "Topic of the record. Can be written when the table has a topic list or pattern.",
    ),
    "partition": MetadataKey(INT.not_null, None, "Partition of the record."),
    "headers": MetadataKey(
        _HEADERS.not_null, _HEADERS, "Headers as a map; of equal keys the last one counts."
    ),
    "header-list": MetadataKey(
        HEADER_LIST,
        ArrayType(element=RowType(fields=(Field("key", STRING_COLUMN), Field("value", BYTES)))),
        "Headers in order, equal keys included.",
    ),
    "leader-epoch": MetadataKey(INT, None, "Leader epoch of the record, if known."),
    "offset": MetadataKey(BIGINT.not_null, None, "Offset of the record in its partition."),
    "timestamp": MetadataKey(_TIMESTAMP.not_null, _TIMESTAMP, "Timestamp of the record."),
    "timestamp-type": MetadataKey(
        STRING_COLUMN.not_null, None, "NoTimestampType, CreateTime or LogAppendTime."
    ),
    ROW_KIND: MetadataKey(
        STRING_COLUMN.not_null,
        None,
        "What the record did to its row: `+I`, `-U`, `+U` or `-D`. Needs `scan.as-append`. Not in Flink.",
    ),
}


# --- option table ------------------------------------------------------------------------------


def _parse_topics(text: str) -> tuple[str, ...]:
    topics = split_list(text)
    if not topics:
        raise BadValue("The list of topics is empty.")
    return tuple(map(_parse_topic, topics))


def _parse_topic(topic: str) -> str:
    if not re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", topic) or topic in (".", ".."):
        raise BadValue(
            f"'{topic}' is not a name that Kafka accepts for a topic.",
            "a topic's name has 1 to 249 letters, digits, dots, underscores and hyphens",
        )
    return topic


# What Python and Java both call malformed, by Python's words for it.
_MALFORMED = ("unterminated", "unbalanced", "nothing to repeat", "missing ), ")


def _parse_pattern(text: str) -> str:
    """Java compiles the pattern; this catches what no regular expression may hold."""
    if not text:
        raise BadValue("The pattern is empty.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(text)
    except re.error as error:
        # \Q…\E quotes in Java only.
        if r"\Q" not in text and str(error).startswith(_MALFORMED):
            raise BadValue(f"Not a regular expression: {error}.") from None
    return text


def _parse_prefix(text: str) -> str:
    if not 0 < len(text.encode()) <= 64000:
        raise BadValue("Expected 1 to 64000 bytes.")
    return text


def _parse_offsets(text: str) -> dict[int, int]:
    pairs = text.rstrip(";").split(";")
    matches = [re.fullmatch(r"partition:([0-9]+),offset:([0-9]+)", pair) for pair in pairs]
    if not all(matches):
        raise BadValue(text)
    return {int(m.group(1)): int(m.group(2)) for m in matches if m}


TOPIC = Option(
    "topic",
    OptionType("List<String>", _parse_topics),
    "Topics to read from or write to, separated by `;`. Exactly one of `topic` and `topic-pattern` is set.",
)
TOPIC_PATTERN = Option(
    "topic-pattern",
    OptionType("String", _parse_pattern),
    "Regular expression for the topics to read; for a sink, what the `topic` column may hold.",
    since="sink: 3.3",
)
BOOTSTRAP_SERVERS = Option(
    "properties.bootstrap.servers", TEXT, "Kafka brokers, separated by commas.", required=True
)
GROUP_ID = Option(
    "properties.group.id",
    TEXT,
    "Consumer group. Without one nothing is committed, and `group-offsets` begins at the earliest offset.",
)
PROPERTIES = Option(
    "properties.*",
    STRING,
    "Any property of the Kafka client, passed on verbatim, but for slips in `properties.sasl.jaas.config` and names of"
    " classes in a vendor's jar; with `${env:NAME}` and `${file:path}` resolved when a job starts.",
)
FORMAT = Option("format", TEXT, "Format of the record's value; the same as `value.format`.")
VALUE_FORMAT = Option("value.format", TEXT, "Format of the record's value.")
KEY_FORMAT = Option("key.format", TEXT, "Format of the record's key; needs `key.fields`.")
KEY_FIELDS = Option(
    "key.fields",
    STRINGS,
    "Physical columns that make up the key, separated by `;`, in key order.",
    (),
)
KEY_FIELDS_PREFIX = Option(
    "key.fields-prefix",
    STRING,
    "Prefix of the key's columns in the table, taken off in the record; needs EXCEPT_KEY.",
    "",
)
VALUE_FIELDS_INCLUDE = Option(
    "value.fields-include",
    enum_of(ValueFields),
    "Whether the key's columns are in the value too.",
    ValueFields.ALL,
)
STARTUP_MODE = Option(
    "scan.startup.mode", enum_of(StartupMode), "Where reading begins.", StartupMode.GROUP_OFFSETS
)
STARTUP_OFFSETS = Option(
    "scan.startup.specific-offsets",
    STRING,
    "First offset per partition: `partition:0,offset:42;partition:1,offset:300`.",
)
STARTUP_TIMESTAMP = Option(
    "scan.startup.timestamp-millis", LONG, "First timestamp, in milliseconds since 1970."
)
BOUNDED_MODE = Option(
    "scan.bounded.mode",
    enum_of(BoundedMode),
    "Where reading ends.",
    BoundedMode.UNBOUNDED,
    since="3.1",
)
BOUNDED_OFFSETS = Option(
    "scan.bounded.specific-offsets",
    STRING,
    "Offset per partition to stop before. A partition that is not named ends at what the group has committed, and is"
    " not read without that.",
    since="3.1",
)
BOUNDED_TIMESTAMP = Option(
    "scan.bounded.timestamp-millis",
    LONG,
    "Stop at the first record of this time or later, in milliseconds since 1970.",
    since="3.1",
)
DISCOVERY_INTERVAL = Option(
    "scan.topic-partition-discovery.interval",
    DURATION,
    "How often new partitions and topics are looked for; 0 means never.",
    timedelta(minutes=5),
)
SCAN_PARALLELISM = Option(
    "scan.parallelism",
    PARALLELISM,
    "Parallelism of the source.",
    since="4.0",
    pending="one task reads each Kafka partition",
)
BAD_RECORDS = Option(
    "scan.bad-records",
    enum_of(BadRecords),
    "What to do with a record whose key or value cannot be read: stop the job, leave the record out, or write it to"
    " `scan.dead-letter.topic`. Not in Flink.",
    BadRecords.FAIL,
)
DEAD_LETTER_TOPIC = Option(
    "scan.dead-letter.topic",
    OptionType("String", _parse_topic),
    "Where `dead-letter` writes bad records, on the same brokers. Not in Flink.",
)
ON_DATA_LOSS = Option(
    "scan.on-data-loss",
    enum_of(DataLoss),
    "What to do when records are gone before they were read: stop the job, or go on with a warning. Not in Flink.",
    DataLoss.FAIL,
)
MAX_ROWS_PER_BATCH = Option(
    "scan.max-rows-per-batch",
    at_least(1, LONG),
    "Most records of this table in one batch; default: `tidemill.batch.max-rows`. Not in Flink.",
)
ROWS_PER_SECOND = Option(
    "scan.rate-limit.rows-per-second",
    at_least(1, LONG),
    "Most records that are read in a second, on average. Not in Flink.",
)
AS_APPEND = Option(
    "scan.as-append",
    BOOLEAN,
    "Whether every change is read as an insert: a log of changes. The metadata `row_kind` tells what it was. Not in"
    " Flink.",
    False,
)
SINK_PARTITIONER = Option(
    "sink.partitioner",
    STRING,
    "`default` (by the key's hash, as Kafka's own client), `fixed` (writer p writes to partition p mod n),"
    " `round-robin` (as default; only without a key) or a Python class `module:Class`.",
    "default",
)
SINK_PARALLELISM = Option(
    "sink.parallelism",
    PARALLELISM,
    "Number of writers; without it each task of the operator before the sink has one.",
)
DELIVERY_GUARANTEE = Option(
    "sink.delivery-guarantee",
    enum_of(DeliveryGuarantee),
    "What the sink guarantees when a job is restarted.",
    DeliveryGuarantee.AT_LEAST_ONCE,
)
SINK_SEMANTIC = Option(
    "sink.semantic",
    STRING,
    "The old name of `sink.delivery-guarantee`; counts when both are set.",
    deprecated="use 'sink.delivery-guarantee'",
)
TRANSACTIONAL_ID_PREFIX = Option(
    "sink.transactional-id-prefix",
    OptionType("String", _parse_prefix),
    "Prefix of the transactional ids of an exactly-once sink; without it `tidemill-<job>-<table>`.",
)
TRANSACTION_NAMING = Option(
    "sink.transaction-naming-strategy",
    enum_of(TransactionNaming),
    "How Flink numbers its transactional ids. Here each writer keeps one id.",
    TransactionNaming.INCREMENTING,
    since="4.0",
)

CREATE_TOPIC_PARTITIONS = Option(
    "sink.create-topic.partitions",
    at_least(1, INTEGER),
    "Partitions of the topic, if it is not there and has to be created. Not in Flink.",
)
CREATE_TOPIC_REPLICATION = Option(
    "sink.create-topic.replication-factor",
    at_least(1, INTEGER),
    "Replicas of the topic, if it is not there and has to be created. Not in Flink.",
)
CREATE_TOPIC_CLEANUP = Option(
    "sink.create-topic.cleanup-policy",
    one_of("delete", "compact", "compact,delete"),
    "Cleanup policy of the topic, if it is not there and has to be created. Not in Flink.",
)

SHARED_OPTIONS: tuple[Option[Any], ...] = (
    TOPIC,
    TOPIC_PATTERN,
    BOOTSTRAP_SERVERS,
    GROUP_ID,
    PROPERTIES,
    *NAME_OPTIONS,
    KEY_FIELDS_PREFIX,
    VALUE_FIELDS_INCLUDE,
    BOUNDED_MODE,
    BOUNDED_OFFSETS,
    BOUNDED_TIMESTAMP,
    DISCOVERY_INTERVAL,
    SCAN_PARALLELISM,
    BAD_RECORDS,
    DEAD_LETTER_TOPIC,
    ON_DATA_LOSS,
    MAX_ROWS_PER_BATCH,
    ROWS_PER_SECOND,
    AS_APPEND,
    SINK_PARALLELISM,
    DELIVERY_GUARANTEE,
    TRANSACTIONAL_ID_PREFIX,
    TRANSACTION_NAMING,
    CREATE_TOPIC_PARTITIONS,
    CREATE_TOPIC_REPLICATION,
    CREATE_TOPIC_CLEANUP,
)
KAFKA_OPTIONS: tuple[Option[Any], ...] = (
    *SHARED_OPTIONS,
    FORMAT,
    VALUE_FORMAT,
    KEY_FORMAT,
    KEY_FIELDS,
    STARTUP_MODE,
    STARTUP_OFFSETS,
    STARTUP_TIMESTAMP,
    SINK_PARTITIONER,
    SINK_SEMANTIC,
)
SHARED_ADVICE: Mapping[str, str] = {
    **OLD_OPTIONS,
    "topics": "write 'topic' = 'a;b'",
    "zookeeper.connect": "Kafka is reached through 'properties.bootstrap.servers'",
    "properties": "give each property of its own: 'properties.group.id' = '…'",
    "kafka.*": "Spark's options are not Flink's: properties of the Kafka client carry 'properties.'",
    "subscribe": "Spark's options are not Flink's: use 'topic'",
    "subscribePattern": "Spark's options are not Flink's: use 'topic-pattern'",
    "startingOffsets": "Spark's options are not Flink's: use 'scan.startup.mode'",
    "endingOffsets": "Spark's options are not Flink's: use 'scan.bounded.mode'",
}


# --- shared reading ----------------------------------------------------------------------------

# Set by the source and sink themselves, whatever a script says.
_OWNED_PROPERTIES = (
    "key.deserializer",
    "value.deserializer",
    "key.serializer",
    "value.serializer",
    "enable.auto.commit",
    "transactional.id",
)
# What a transaction needs, and how a script may say so without being contradicted.
_TRANSACTIONAL: Mapping[str, tuple[str, ...]] = {
    "acks": ("all", "-1"),
    "enable.idempotence": ("true",),
}


def read_shared(
    declaration: Declaration,
    reader: OptionReader,
    startup: Startup,
    key: ChosenFormat | None,
    value: ChosenFormat | None,
    key_fields: tuple[str, ...],
    guarantee: DeliveryGuarantee,
) -> dict[str, Any]:
    """Check what both connectors share and give it as fields of a TopicTable. Ends in `reader.finish()`."""
    _check_topics(reader)
    bounded = _read_bounded(reader)
    _check_properties(reader, bounded, guarantee)
    properties = _client_properties(reader)
    named = read_named(reader)
    reading = _read_reading(reader)
    watermark = read_watermark_options(declaration, reader)
    key_columns, value_columns = _project(declaration, reader, key is not None, key_fields)
    for chosen, columns in ((key, key_columns), (value, value_columns)):
        if chosen:
            known = [pair for pair in columns if pair[0] in _physical(declaration)]
            check_types(reader, chosen, _fields(declaration.schema, tuple(known)))
    _check_written_headers(declaration, reader)
    _check_kinds(declaration, reader)
    reader.finish()
    assert value is not None and value.spec is not None
    topics = reader.get(TOPIC) or ()
    return {
        "topics": topics,
        "topic_pattern": reader.get(TOPIC_PATTERN),
        "properties": properties,
        "startup": startup,
        "bounded": bounded,
        "discovery_interval": None
        if bounded.is_bounded
        else reader.get(DISCOVERY_INTERVAL) or None,
        "scan_parallelism": reader.get(SCAN_PARALLELISM),
        "watermark": watermark,
        "key_format": with_subject(key.spec, topics, "key") if key and key.spec else None,
        "value_format": with_subject(value.spec, topics, "value"),
        "key_prefix": reader.value(KEY_FIELDS_PREFIX),
        "value_include": reader.value(VALUE_FIELDS_INCLUDE),
        "key_columns": key_columns,
        "value_columns": value_columns,
        "sink_parallelism": reader.get(SINK_PARALLELISM),
        "delivery_guarantee": guarantee,
        "transactional_id_prefix": reader.get(TRANSACTIONAL_ID_PREFIX),
        "transaction_naming": reader.value(TRANSACTION_NAMING),
        "reading": reading,
        "new_topic": _read_new_topic(reader),
        "named": named,
    }


def _physical(declaration: Declaration) -> list[str]:
    return [c.name for c in declaration.schema.physical]


def _check_topics(reader: OptionReader) -> None:
    given = (reader.has(TOPIC), reader.has(TOPIC_PATTERN))
    if all(given):  # V1
        reader.error(
            "OPT-020",
            "Option 'topic' and 'topic-pattern' shouldn't be set together.",
            reader.key_span(TOPIC_PATTERN),
            "leave one of them out",
        )
    elif not any(given):  # V2
        reader.error(
            "OPT-021",
            "Either 'topic' or 'topic-pattern' must be set.",
            reader.place,
            "add 'topic' = '…'",
        )


def read_position(
    reader: OptionReader,
    kind: str,
    mode: Option[Any],
    timestamp: Option[int],
    offsets: Option[str],
) -> dict[int, int]:
    """Check a start or end position against its companion options; give its specific offsets."""
    chosen = reader.value(mode).value
    for name, companion in (("timestamp", timestamp), ("specific-offsets", offsets)):
        if chosen == name and not reader.has(companion):  # V3, V4, V7
            reader.error(
                "OPT-022",
                f"'{companion.key}' is required in '{name}' {kind} mode but missing.",
                reader.value_span(mode),
                f"add '{companion.key}' = '…'",
            )
        elif chosen != name and reader.has(companion):
            reader.warn(
                "OPT-016",
                f"option '{companion.key}' has no effect: '{mode.key}' is '{chosen}'",
                reader.key_span(companion),
                f"set '{mode.key}' to '{name}'",
            )
    if chosen != "specific-offsets":
        return {}
    topics = reader.get(TOPIC)
    if topics is None or len(topics) != 1:  # V5
        reader.error(
            "OPT-023",
            "Currently Kafka source only supports specific offset for single topic.",
            reader.value_span(mode),
            "use one topic, or another mode",
        )
    if not reader.has(offsets):
        return {}
    text = reader.get(offsets) or ""
    try:
        return _parse_offsets(text)
    except BadValue:  # V6
        reader.error(
            "OPT-024",
            f"Invalid properties '{offsets.key}' should follow the format"
            f" 'partition:0,offset:42;partition:1,offset:300', but is '{text}'.",
            reader.value_span(offsets),
        )
        return {}


def _read_bounded(reader: OptionReader) -> Bounded:
    offsets = read_position(reader, "bounded", BOUNDED_MODE, BOUNDED_TIMESTAMP, BOUNDED_OFFSETS)
    mode = reader.value(BOUNDED_MODE)
    timestamp = reader.get(BOUNDED_TIMESTAMP) if mode is BoundedMode.TIMESTAMP else None
    return Bounded(mode, timestamp, offsets)


def _read_reading(reader: OptionReader) -> Reading:
    bad_records = reader.value(BAD_RECORDS) if reader.has(BAD_RECORDS) else None
    topic = reader.get(DEAD_LETTER_TOPIC)
    if bad_records is BadRecords.DEAD_LETTER:
        if not reader.has(DEAD_LETTER_TOPIC):
            reader.error(
                "OPT-022",
                f"'{DEAD_LETTER_TOPIC.key}' is required where '{BAD_RECORDS.key}' is 'dead-letter'.",
                reader.value_span(BAD_RECORDS),
                f"add '{DEAD_LETTER_TOPIC.key}' = '…'",
            )
        elif topic is not None and _is_read(reader, topic):
            reader.error(
                "OPT-015",
                f"'{DEAD_LETTER_TOPIC.key}' is a topic that the table reads: a bad record would come back for ever.",
                reader.value_span(DEAD_LETTER_TOPIC),
                "give dead letters a topic of their own",
            )
    elif reader.has(DEAD_LETTER_TOPIC):
        reader.warn(
            "OPT-016",
            f"option '{DEAD_LETTER_TOPIC.key}' has no effect: '{BAD_RECORDS.key}' is not 'dead-letter'",
            reader.key_span(DEAD_LETTER_TOPIC),
            f"set '{BAD_RECORDS.key}' to 'dead-letter'",
        )
        topic = None
    if bad_records is BadRecords.DEAD_LETTER and topic is None:
        bad_records = None  # told above
    return Reading(
        bad_records,
        topic,
        reader.value(ON_DATA_LOSS),
        reader.get(MAX_ROWS_PER_BATCH),
        reader.get(ROWS_PER_SECOND),
        reader.value(AS_APPEND),
    )


def _is_read(reader: OptionReader, topic: str) -> bool:
    """Whether the table reads the topic, as far as a pattern of Java's can be judged here."""
    pattern = reader.get(TOPIC_PATTERN)
    if pattern is None:
        return topic in (reader.get(TOPIC) or ())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return re.fullmatch(pattern, topic) is not None
    except re.error:
        return False


# A quoted text, in which \" is the client's own escape, or else a \" that the client refuses.
_QUOTES = re.compile(r'"(?:\\.|[^"\\])*"|(?P<slip>\\")')
# The beginning of a line that is one: a module and its flag.
_ENTRY = re.compile(r"\s*[\w.$]+\s+(?:required|requisite|sufficient|optional)\b", re.IGNORECASE)
# A class of the client's, under the name that it has in a jar which holds the client under a name of its own.
_SHADED = re.compile(r"\s*(?P<prefix>(?:[A-Za-z_$][\w$]*\.)+)org\.apache\.kafka\.[\w.$]+\b")


def _client_properties(reader: OptionReader) -> Mapping[str, str]:
    """The Kafka client's properties, verbatim but for repairs without which it refuses them."""
    properties = dict(reader.family("properties."))
    for name, given in properties.items():
        properties[name], repairs = repair_property(name, given)
        if repairs:
            key = f"properties.{name}"
            reader.notice("OPT-029", f"in '{key}' {_listed(repairs)}", reader.key_span(key))
    refused = _refused_login(properties)
    if refused:
        reader.error("OPT-019", refused, reader.value_span(f"properties.{JAAS}"), _LOGIN_HINT)
    return properties


def repair_property(name: str, given: str) -> tuple[str, list[str]]:
    """A property of the client without the slips of a JAAS line and without the names that the client's classes have in
    a vendor's jar; and what was repaired."""
    repairs = []
    line = given
    if name == JAAS:
        line = _QUOTES.sub(lambda found: '"' if found["slip"] else found[0], given)
        if line != given:
            repairs.append('\\" is read as "')
    shaded = _SHADED.match(line) if name == JAAS or name.endswith(".class") else None
    if shaded:
        line = line[: shaded.start("prefix")] + line[shaded.end("prefix") :]
        what = "login module" if name == JAAS else "class"
        repairs.append(f"the {what} loses its prefix '{shaded['prefix']}'")
    # What ends with a reference has perhaps its end where that points to.
    if name == JAAS and _ENTRY.match(line) and not line.rstrip().endswith((";", "}")):
        line = f"{line.rstrip()};"
        repairs.append("a ; is put at its end")
    return line, repairs


# Login modules that fetch classes from an address, or ask an address who somebody is: with them a script runs code.
_REFUSED_MODULES = (
    "com.sun.security.auth.module.JndiLoginModule",
    "com.sun.security.auth.module.LdapLoginModule",
)
_LOGIN_HINT = "name the login module of the mechanism, such as org.apache.kafka.common.security.plain.PlainLoginModule"


def _refused_login(properties: Mapping[str, str]) -> str | None:
    """What is said of properties that name such a module."""
    line = properties.get(JAAS, "")
    found = next((module for module in _REFUSED_MODULES if module in line), None)
    return found and f"the login module {found} is refused: it loads what an address gives it"


def resolved_properties(given: Mapping[str, str]) -> dict[str, str]:
    """A table's properties with their references resolved, as its client is to be told them."""
    properties = {key: client_value(key, text) for key, text in given.items()}
    refused = _refused_login(properties)
    if refused:
        raise job_error("OPT-019", refused, _LOGIN_HINT)
    return properties


def _listed(repairs: list[str]) -> str:
    *first, last = repairs
    return f"{', '.join(first)} and {last}" if first else last


def _check_properties(reader: OptionReader, bounded: Bounded, guarantee: DeliveryGuarantee) -> None:
    has_group = reader.has(GROUP_ID)
    if bounded.mode is BoundedMode.GROUP_OFFSETS and not has_group:  # V26, for the end
        reader.error(
            "OPT-025",
            "Property group.id is required when using committed offset for offsets initializer",
            reader.value_span(BOUNDED_MODE),
            "add 'properties.group.id' = '…'",
        )
    for name in ("enable.auto.commit", "commit.offsets.on.checkpoint"):
        key = f"properties.{name}"
        if (reader.text(key) or "").lower() == "true" and not has_group:  # V28
            reader.error(
                "OPT-025",
                "Property group.id is required when offset commit is enabled",
                reader.key_span(key),
                "add 'properties.group.id' = '…'",
            )
    for name in _OWNED_PROPERTIES:
        key = f"properties.{name}"
        if reader.has(key):
            reader.warn(
                "OPT-027",
                f"option '{key}' has no effect: Tidemill sets this property itself",
                reader.key_span(key),
            )
    if guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
        return
    for name, needed in _TRANSACTIONAL.items():
        key = f"properties.{name}"
        given = reader.text(key) or ""
        if reader.has(key) and not has_reference(given) and given.lower() not in needed:
            reader.warn(
                "OPT-027",
                f"option '{key}' has no effect: writing exactly once needs '{needed[0]}'",
                reader.key_span(key),
            )


def _read_new_topic(reader: OptionReader) -> NewTopic | None:
    given = NewTopic(
        reader.get(CREATE_TOPIC_PARTITIONS),
        reader.get(CREATE_TOPIC_REPLICATION),
        reader.get(CREATE_TOPIC_CLEANUP),
    )
    if given == NewTopic():
        return None
    topics = reader.get(TOPIC)
    if topics is None or len(topics) != 1:
        options = (CREATE_TOPIC_PARTITIONS, CREATE_TOPIC_REPLICATION, CREATE_TOPIC_CLEANUP)
        reader.error(
            "OPT-046",
            "a topic can be created for a table that has one 'topic' only",
            reader.key_span(next(option.key for option in options if reader.has(option.key))),
            "leave 'sink.create-topic.*' out, or name one topic",
        )
    return given


def _project(
    declaration: Declaration, reader: OptionReader, has_key: bool, key_fields: tuple[str, ...]
) -> tuple[Projection, Projection]:
    """Which columns travel in the key and which in the value, and under which names."""
    physical = _physical(declaration)
    prefix = reader.value(KEY_FIELDS_PREFIX)
    include = reader.value(VALUE_FIELDS_INCLUDE)
    if not has_key:
        key_fields = ()
    by_key = reader.has(KEY_FIELDS)
    for name in key_fields:
        if name not in physical:  # V15
            reader.error(
                "OPT-032",
                f"Could not find the field '{name}' in the table schema for usage in the key format."
                " A key field must be a regular, physical column.",
                reader.value_span(KEY_FIELDS) if by_key else declaration.primary_key_span,
                f"the following columns can be selected: {', '.join(physical)}",
            )
        elif not name.startswith(prefix):  # V16
            reader.error(
                "OPT-033",
                f"All fields in 'key.fields' must be prefixed with '{prefix}' when option"
                f" 'key.fields-prefix' is set but field '{name}' is not prefixed.",
                reader.value_span(KEY_FIELDS if by_key else KEY_FIELDS_PREFIX),
                f"call the column '{prefix}{name}'",
            )
    if prefix and include is ValueFields.ALL:  # V17
        reader.error(
            "OPT-034",
            "A key prefix is not allowed when option 'value.fields-include' is set to 'ALL'."
            " Set it to 'EXCEPT_KEY' instead to avoid field overlaps.",
            reader.key_span(KEY_FIELDS_PREFIX),
            "add 'value.fields-include' = 'EXCEPT_KEY'",
        )
    in_value = [c for c in physical if include is ValueFields.ALL or c not in key_fields]
    return (
        tuple((name, name.removeprefix(prefix)) for name in key_fields),
        tuple((name, name) for name in in_value),
    )


def _check_written_headers(declaration: Declaration, reader: OptionReader) -> None:
    written = {c.key: c.name for c in declaration.schema.metadata if not c.virtual}
    if {"headers", "header-list"} <= written.keys():  # V23
        reader.error(
            "OPT-053",
            "The writable metadata columns 'headers' and 'header-list' are ambiguous: use one of them.",
            declaration.column_span(written["header-list"]),
            "declare one of them VIRTUAL",
        )


def _check_kinds(declaration: Declaration, reader: OptionReader) -> None:
    """Rows that change have no kind to show: it is what the engine goes by, and a row has several in its time."""
    for column in declaration.schema.metadata:
        if column.key == ROW_KIND and not reader.value(AS_APPEND):
            reader.error(
                "OPT-057",
                f"metadata key '{ROW_KIND}' in column '{column.name}' of table '{declaration.name}' needs"
                f" '{AS_APPEND.key}' = 'true': only a change that is read as an insert has its kind in a column",
                declaration.column_span(column.name),
                f"add '{AS_APPEND.key}' = 'true', and every change is a row; or leave the column out",
            )


# --- kafka -------------------------------------------------------------------------------------


def _build_kafka(declaration: Declaration, reader: OptionReader) -> KafkaTable:
    offsets = read_position(reader, "startup", STARTUP_MODE, STARTUP_TIMESTAMP, STARTUP_OFFSETS)
    mode = reader.value(STARTUP_MODE)
    timestamp = reader.get(STARTUP_TIMESTAMP) if mode is StartupMode.TIMESTAMP else None
    _check_reset(reader, mode)
    value = _choose_value(declaration, reader)
    if value and value.insert_only and reader.value(AS_APPEND):
        reader.warn(
            "OPT-016",
            f"option '{AS_APPEND.key}' has no effect: format '{value.name}' tells only inserts",
            reader.key_span(AS_APPEND),
            "leave it out, or name the format of the changes, such as 'debezium-json'",
        )
    key = choose_format(reader, KEY_FORMAT)
    key_fields = reader.value(KEY_FIELDS)
    if reader.has(KEY_FIELDS) and not reader.has(KEY_FORMAT):  # V13
        reader.error(
            "OPT-030",
            "The option 'key.fields' can only be declared if a key format is defined using 'key.format'.",
            reader.key_span(KEY_FIELDS),
            "add 'key.format' = 'json'",
        )
    if key and not key_fields:  # V14
        reader.error(
            "OPT-031",
            "A key format 'key.format' requires the declaration of one or more of key fields using"
            " 'key.fields'.",
            reader.key_span(KEY_FORMAT),
            "add 'key.fields' = '…'",
        )
    if key and not key.insert_only:  # V18
        reader.error(
            "OPT-035",
            f"A key format should only deal with INSERT-only records. But {key.name} has a changelog"
            f" mode of {key.changelog}.",
            reader.value_span(KEY_FORMAT),
        )
    elif key and key.spec is None:
        refuse_format(reader, key)
    partitioner = _read_partitioner(reader)
    shared = read_shared(
        declaration,
        reader,
        Startup(mode, timestamp, offsets),
        key,
        value,
        key_fields,
        _read_guarantee(reader),
    )
    return KafkaTable(**shared, partitioner=partitioner)


def _check_reset(reader: OptionReader, mode: StartupMode) -> None:
    key = "properties.auto.offset.reset"
    reset = reader.text(key)
    if reset is None or has_reference(reset):
        return
    if mode is not StartupMode.GROUP_OFFSETS:
        reader.warn(
            "OPT-016",
            f"option '{key}' has no effect: '{STARTUP_MODE.key}' is '{mode.value}'",
            reader.key_span(key),
            f"set '{STARTUP_MODE.key}' to '{StartupMode.GROUP_OFFSETS.value}'",
        )
    elif reset.lower() not in ("latest", "earliest", "none"):  # V27
        reader.error(
            "OPT-026",
            f"{key} can not be set to {reset}. Valid values: [latest,earliest,none]",
            reader.value_span(key),
        )
    elif not reader.has(GROUP_ID) and reset.lower() != "earliest":
        reader.warn(
            "OPT-016",
            f"option '{key}' has no effect: without '{GROUP_ID.key}' reading begins at the earliest offset",
            reader.key_span(key),
            f"add '{GROUP_ID.key}' = '…', or set '{STARTUP_MODE.key}'",
        )


def _choose_value(declaration: Declaration, reader: OptionReader) -> ChosenFormat | None:
    if reader.has(FORMAT) and reader.has(VALUE_FORMAT):
        reader.warn(
            "OPT-016",
            "option 'value.format' has no effect: 'format' is set too",
            reader.key_span(VALUE_FORMAT),
        )
    value = choose_format(reader, FORMAT if reader.has(FORMAT) else VALUE_FORMAT)
    if value is None:
        if not reader.has(FORMAT) and not reader.has(VALUE_FORMAT):  # V31
            reader.error(
                "OPT-013",
                "Could not find required format: set either 'format' or 'value.format'.",
                reader.place,
                "add 'format' = 'json'",
            )
        return None
    if value.spec is None:
        refuse_format(reader, value)
    elif declaration.schema.primary_key and value.insert_only:  # V19
        identifier = f"default_catalog.default_database.{declaration.name}"
        reader.error(
            "OPT-036",
            f"The Kafka table '{identifier}' with '{value.name}' format doesn't support defining PRIMARY"
            " KEY constraint on the table, because it can't guarantee the semantic of primary key.",
            declaration.primary_key_span,
            "use 'connector' = 'upsert-kafka', or leave the PRIMARY KEY out",
        )
    return value


def _read_partitioner(reader: OptionReader) -> str:
    name = reader.value(SINK_PARTITIONER)
    span = reader.value_span(SINK_PARTITIONER)
    if name == "round-robin" and reader.has(KEY_FIELDS):  # V8
        reader.error(
            "OPT-040",
            "Currently 'round-robin' partitioner only works when option 'key.fields' is not specified.",
            span,
            "use 'default'",
        )
    elif not name:  # V9
        reader.error("OPT-041", "Option 'sink.partitioner' should be a non-empty string.", span)
    elif name not in ("default", "fixed", "round-robin") and not is_partitioner_class(
        name
    ):  # V10, V11
        reader.error(
            "OPT-041",
            f"Could not find and instantiate partitioner class '{name}'",
            span,
            "a class of Java's cannot be run here; write it in Python and name it 'module:Class', with a method"
            " partition(row, key, value, topic, partitions)",
        )
    return name


def is_partitioner_class(name: str) -> bool:
    """Whether a partitioner is a Python class, `module:Class`."""
    module, colon, made = name.partition(":")
    return bool(colon) and all(p.isidentifier() for p in [*module.split("."), made])


def _read_guarantee(reader: OptionReader) -> DeliveryGuarantee:
    old = reader.get(SINK_SEMANTIC)
    if old is None:
        return reader.value(DELIVERY_GUARANTEE)
    try:
        return DeliveryGuarantee[old.upper().replace("-", "_")]
    except KeyError:
        reader.error(
            "OPT-005",
            f"Invalid value for option 'sink.semantic'. Expected one of at-least-once, exactly-once,"
            f" none, but got '{old}'.",
            reader.value_span(SINK_SEMANTIC),
        )
        return DeliveryGuarantee.AT_LEAST_ONCE


KAFKA = ConnectorDefinition(
    "kafka",
    "Reads and writes Kafka topics; a record is an insert, or a change if its format tells changes.",
    KAFKA_OPTIONS,
    _build_kafka,
    KafkaTable,
    source=True,
    sink=True,
    metadata=KAFKA_METADATA,
    advice={
        **SHARED_ADVICE,
        "sink.buffer-flush.*": "buffering is an option of 'upsert-kafka'",
        "primary-key": "declare PRIMARY KEY (…) NOT ENFORCED and use 'upsert-kafka'",
    },
)

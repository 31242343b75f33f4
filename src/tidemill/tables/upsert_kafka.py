"""The `upsert-kafka` connector: a topic as a table of keys, where a null value deletes.

In: a declaration with a PRIMARY KEY. Out: an UpsertKafkaTable. Law: the record's key is the primary key; reading
always begins at the earliest offset, because only the whole topic says what the table holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum
from typing import Any

from tidemill.changelog import UPSERT, ChangelogMode, RowKind
from tidemill.tables.connector import ConnectorDefinition, Declaration
from tidemill.tables.formats import ChosenFormat, choose_format, refuse_format
from tidemill.tables.kafka import (
    DELIVERY_GUARANTEE,
    KAFKA_METADATA,
    KEY_FORMAT,
    SHARED_ADVICE,
    SHARED_OPTIONS,
    VALUE_FORMAT,
    Startup,
    StartupMode,
    TopicTable,
    read_shared,
)
from tidemill.tables.options import DURATION, INTEGER, Option, OptionReader, at_least, enum_of


@dataclass(frozen=True)
class BufferFlush:
    """Within an epoch only the last change of a key is written, at these marks at the latest."""

    max_rows: int
    interval: timedelta


class NullKeys(Enum):
    """What becomes of a row whose key is NULL."""

    FAIL = "fail"
    WRITE = "write"


UPSERTS_AND_DELETES = ChangelogMode({RowKind.UPDATE_AFTER, RowKind.DELETE})


@dataclass(frozen=True)
class UpsertKafkaTable(TopicTable):
    connector = "upsert-kafka"

    buffer_flush: BufferFlush | None = None
    null_keys: NullKeys | None = None
    """None: nobody has said, and so it is as in Flink."""

    @property
    def changes(self) -> ChangelogMode:
        """Flink's: whether a record is its key's first, the connector cannot know, so it calls none an insert."""
        return UPSERTS_AND_DELETES

    @property
    def sink_mode(self) -> ChangelogMode:
        return UPSERT


REQUIRED_KEY_FORMAT = replace(
    KEY_FORMAT, doc="Format of the record's key, which is the PRIMARY KEY.", required=True
)
REQUIRED_VALUE_FORMAT = replace(VALUE_FORMAT, required=True)
BUFFER_MAX_ROWS = Option(
    "sink.buffer-flush.max-rows",
    at_least(0, INTEGER),
    "Distinct keys to hold before writing; 0 turns buffering off.",
    0,
)
BUFFER_INTERVAL = Option(
    "sink.buffer-flush.interval",
    DURATION,
    "Longest time to hold changes before writing; 0 turns buffering off.",
    timedelta(0),
)
NULL_KEYS = Option(
    "sink.null-keys",
    enum_of(NullKeys),
    "What to do with a row whose PRIMARY KEY is NULL: what `table.exec.sink.not-null-enforcer` says, or write a record"
    " without a key, which takes the key format `raw`. Not in Flink.",
    NullKeys.FAIL,
)
UPSERT_KAFKA_OPTIONS: tuple[Option[Any], ...] = (
    *SHARED_OPTIONS,
    REQUIRED_KEY_FORMAT,
    REQUIRED_VALUE_FORMAT,
    BUFFER_MAX_ROWS,
    BUFFER_INTERVAL,
    NULL_KEYS,
)


def _build_upsert_kafka(declaration: Declaration, reader: OptionReader) -> UpsertKafkaTable:
    key = _choose(reader, REQUIRED_KEY_FORMAT, "key")
    value = _choose(reader, REQUIRED_VALUE_FORMAT, "value")
    if not declaration.schema.primary_key:  # V20
        reader.error(
            "OPT-037",
            "'upsert-kafka' tables require to define a PRIMARY KEY constraint. The PRIMARY KEY specifies"
            " which columns should be read from or write to the Kafka message key.",
            declaration.statement.name.span,
            "add PRIMARY KEY (…) NOT ENFORCED to the columns, or use 'kafka'",
        )
    buffer = _read_buffer(reader)
    null_keys = reader.value(NULL_KEYS) if reader.has(NULL_KEYS) else None
    if null_keys is NullKeys.WRITE and key and key.name != "raw":
        reader.error(
            "OPT-015",
            f"'{NULL_KEYS.key}' = 'write' needs the key format 'raw': of a NULL '{key.name}' makes a key of its own.",
            reader.value_span(NULL_KEYS),
            "leave it out, or use 'key.format' = 'raw'",
        )
    shared = read_shared(
        declaration,
        reader,
        Startup(StartupMode.EARLIEST),
        key,
        value,
        declaration.schema.primary_key,
        reader.value(DELIVERY_GUARANTEE),
    )
    return UpsertKafkaTable(**shared, buffer_flush=buffer, null_keys=null_keys)


def _choose(reader: OptionReader, option: Option[str], side: str) -> ChosenFormat | None:
    chosen = choose_format(reader, option)
    if chosen and not chosen.insert_only:  # V21
        reader.error(
            "OPT-035",
            f"'upsert-kafka' connector doesn't support '{chosen.name}' as {side} format, because"
            f" '{chosen.name}' is not in insert-only mode.",
            reader.value_span(option),
            "use 'kafka' to read changes in that format",
        )
    elif chosen and chosen.spec is None:
        refuse_format(reader, chosen)
    return chosen


def _read_buffer(reader: OptionReader) -> BufferFlush | None:
    rows, interval = reader.value(BUFFER_MAX_ROWS), reader.value(BUFFER_INTERVAL)
    if (rows > 0) != (interval > timedelta(0)):  # V22
        reader.error(
            "OPT-044",
            f"'{BUFFER_MAX_ROWS.key}' and '{BUFFER_INTERVAL.key}' must be set to be greater than zero"
            " together to enable sink buffer flushing.",
            reader.key_span(BUFFER_MAX_ROWS if rows > 0 else BUFFER_INTERVAL),
        )
    return BufferFlush(rows, interval) if rows > 0 else None


UPSERT_KAFKA = ConnectorDefinition(
    "upsert-kafka",
    "Reads and writes a Kafka topic as a table of keys: the last value counts, null deletes.",
    UPSERT_KAFKA_OPTIONS,
    _build_upsert_kafka,
    UpsertKafkaTable,
    source=True,
    sink=True,
    metadata=KAFKA_METADATA,
    advice={
        **SHARED_ADVICE,
        "format": "name both formats: 'key.format' and 'value.format'",
        "json.*": "name both formats and prefix their options: 'key.json.…' and 'value.json.…'",
        "key.fields": "the key of an 'upsert-kafka' table is its PRIMARY KEY",
        "scan.startup.*": "an 'upsert-kafka' table is always read from the earliest offset",
        "sink.partitioner": "an 'upsert-kafka' table is always partitioned by its key",
        "sink.semantic": "use 'sink.delivery-guarantee'",
    },
)

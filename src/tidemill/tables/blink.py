"""Blink's Kafka tables as today's.

In: a CREATE TABLE with `type = 'kafka010'`. Out: the same table for Flink's connectors.

A Blink table over Kafka holds bytes: `messageKey` and `message` of type VARBINARY, and for a source the topic, the
partition and the offset of the record behind them. Its PRIMARY KEY is the record's key, and rows are written by it:
today that is an `upsert-kafka` table. Without a PRIMARY KEY it is a `kafka` table. Names of options count whatever
their case, and every name that is not Blink's own is one of the Kafka client's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

from tidemill.errors import Diagnostic, Span
from tidemill.sql import ast
from tidemill.tables.renewal import Renewal, Rule
from tidemill.types import BYTES

KAFKA_TYPES = ("kafka", "kafka08", "kafka09", "kafka010", "kafka011")
"""What `type` may be, in lower case."""

_KAFKA_08 = "Kafka 0.8's consumer had it, today's client does not"
_ZOOKEEPER = "the client talks to brokers only"
_COMMITS = "offsets are committed by the engine"


def _milliseconds(value: str) -> str | None:
    return f"{value} ms" if value.isdigit() else None


OPTIONS: tuple[Rule, ...] = (
    Rule("topic", "topic", convert=lambda topics: ";".join(t.strip() for t in topics.split(","))),
    Rule("topicPattern", "topic-pattern"),
    Rule("bootstrap.servers", "properties.bootstrap.servers"),
    Rule("group.id", "properties.group.id"),
    Rule(
        "startupMode",
        "scan.startup.mode",
        values={
            "EARLIEST": "earliest-offset",
            "LATEST": "latest-offset",
            "GROUP_OFFSETS": "group-offsets",
            "TIMESTAMP": "timestamp",
        },
    ),
    Rule("startTimeMs", "scan.startup.timestamp-millis"),
    Rule(
        "partitionDiscoveryIntervalMS",
        "scan.topic-partition-discovery.interval",
        convert=_milliseconds,
    ),
    Rule(
        "auto.offset.reset",
        "properties.auto.offset.reset",
        values={"smallest": "earliest", "largest": "latest"},
    ),
    Rule("fetch.message.max.bytes", "properties.max.partition.fetch.bytes"),
    Rule("fetch.wait.max.ms", "properties.fetch.max.wait.ms"),
    Rule("socket.receive.buffer.bytes", "properties.receive.buffer.bytes"),
    Rule("zookeeper.connect", doc=f"{_ZOOKEEPER}; give bootstrap.servers", warns=True),
    Rule("zookeeper.session.timeout.ms", doc=_ZOOKEEPER),
    Rule("zookeeper.connection.timeout.ms", doc=_ZOOKEEPER),
    Rule("zookeeper.sync.time.ms", doc=_ZOOKEEPER),
    Rule("auto.commit.enable", doc=_COMMITS),
    Rule("enable.auto.commit", doc=_COMMITS),
    Rule("auto.commit.interval.ms", doc=_COMMITS),
    Rule("offsets.storage", doc=_COMMITS),
    Rule("offsets.channel.backoff.ms", doc=_COMMITS),
    Rule("offsets.channel.socket.timeout.ms", doc=_COMMITS),
    Rule("offsets.commit.max.retries", doc=_COMMITS),
    Rule("dual.commit.enabled", doc=_COMMITS),
    Rule("consumer.id", doc=_KAFKA_08),
    Rule("socket.timeout.ms", doc=_KAFKA_08),
    Rule("num.consumer.fetchers", doc=_KAFKA_08),
    Rule("queued.max.message.chunks", doc=_KAFKA_08),
    Rule("rebalance.max.retries", doc=_KAFKA_08),
    Rule("rebalance.backoff.ms", doc=_KAFKA_08),
    Rule("refresh.leader.backoff.ms", doc=_KAFKA_08),
    Rule("consumer.timeout.ms", doc=_KAFKA_08),
    Rule("partition.assignment.strategy", doc="the engine assigns partitions to tasks"),
    Rule(
        "flink.partition-discovery.interval-millis",
        "scan.topic-partition-discovery.interval",
        convert=_milliseconds,
    ),
    Rule("*", "properties.*"),
)
"""What each option is today; `type`, `startTime`, `timezone` and `extraConfig` are taken apart in code below."""

_HEADERS = ("topic", "partition", "offset")


def renew_table(table: ast.CreateTable) -> tuple[ast.CreateTable, list[Diagnostic]]:
    """Today's form of a Blink table; of one that is not over Kafka, the table itself."""
    given = {option.key.lower(): option for option in table.options}
    kind = given.get("type")
    if kind is None or "connector" in given:
        return table, []
    if kind.value.lower() not in KAFKA_TYPES:
        return table, []
    renewal = Renewal()
    primary_key = table.primary_key is not None or any(
        isinstance(column, ast.PhysicalColumn) and column.primary_key for column in table.columns
    )
    for option in table.options:
        _renew_option(option, given, primary_key, renewal)
    if not primary_key:
        _begin_as_blink(given, renewal)
    columns = _add_formats(table, primary_key, kind, renewal)
    return replace(table, columns=columns, options=tuple(renewal.options)), renewal.notes


# --- options -----------------------------------------------------------------------------------


_CONNECTORS = (
    Rule("type", "connector", values=dict.fromkeys(KAFKA_TYPES, "kafka")),
    Rule(
        "type",
        "connector",
        "the PRIMARY KEY is the record's key, rows are written by it",
        dict.fromkeys(KAFKA_TYPES, "upsert-kafka"),
    ),
)
"""Without and with a PRIMARY KEY."""


def _renew_option(
    option: ast.Option, given: Mapping[str, ast.Option], primary_key: bool, renewal: Renewal
) -> None:
    match option.key.lower():
        case "type":
            renewal.apply(option, [_CONNECTORS[primary_key]])
        case "starttime" | "starttimems" | "timezone":
            _renew_start(option, given, renewal)
        case "extraconfig":
            _unpack(option, renewal)
        case "converterclass":  # a class of the user's: refused by name
            renewal.options.append(option)
        case _:
            renewal.apply(option, OPTIONS)


def _renew_start(option: ast.Option, given: Mapping[str, ast.Option], renewal: Renewal) -> None:
    """startTimeMs counts before startTime, and both only in TIMESTAMP mode."""
    key = option.key.lower()
    mode = given.get("startupmode")
    if mode is None or mode.value.lower() != "timestamp":
        renewal.leave_out(option, "it counts with startupMode = 'TIMESTAMP' only")
    elif key == "starttimems":
        renewal.apply(option, OPTIONS)
    elif "starttimems" in given:
        renewal.leave_out(option, "startTimeMs counts before it")
    elif key == "starttime":
        zone = given.get("timezone")
        millis = _epoch_millis(option.value, zone.value if zone else "UTC")
        if millis is None:
            renewal.options.append(option)
        else:
            doc = "" if zone else "taken as UTC, as the table has no timezone"
            renewal.rename(
                option, "scan.startup.timestamp-millis", str(millis), doc, warns=zone is None
            )
    elif "starttime" in given and _epoch_millis(given["starttime"].value, option.value) is None:
        renewal.options.append(option)
    else:
        renewal.leave_out(option, "the start is given in milliseconds since 1970")


def _epoch_millis(text: str, zone: str) -> int | None:
    try:
        local = datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=ZoneInfo(zone))
    except (ValueError, KeyError, OSError):
        return None
    return int(local.timestamp()) * 1000


def _unpack(option: ast.Option, renewal: Renewal) -> None:
    """extraConfig = 'a=1;b=2': properties of the client in one text."""
    pieces = [piece for piece in option.value.split(";") if piece.strip()]
    pairs = [piece.partition("=") for piece in pieces]
    if not all(sign and key.strip() for key, sign, _ in pairs):
        renewal.options.append(option)
        return
    for key, _, value in pairs:
        inner = ast.Option(option.span, key.strip(), value.strip(), option.value_span)
        renewal.apply(inner, OPTIONS)


def _begin_as_blink(given: Mapping[str, ast.Option], renewal: Renewal) -> None:
    """A group that is new begins at the end of the topic in Blink; in Flink the job fails unless told."""
    mode, group = given.get("startupmode"), given.get("group.id")
    by_group = mode is None or mode.value.lower() == "group_offsets"
    if group is not None and by_group and not renewal.has("properties.auto.offset.reset"):
        renewal.add(
            "properties.auto.offset.reset",
            "latest",
            group.span,
            "in Blink a group without committed offsets begins at the latest record",
        )


# --- columns -----------------------------------------------------------------------------------


def _add_formats(
    table: ast.CreateTable, primary_key: bool, kind: ast.Option, renewal: Renewal
) -> tuple[ast.ColumnDefinition, ...]:
    """The formats that Blink's columns stand for, and the columns with the record's headers marked as such."""
    names = _key_columns(table)
    physical = [c for c in table.columns if isinstance(c, ast.PhysicalColumn)]
    keys = [c for c in physical if c.name.name in names]
    values = [c for c in physical if c not in keys and not _is_header(c)]
    if not _are_bytes(keys, values):
        renewal.note(
            "DIA-004",
            f"table '{table.name}' has other columns than messageKey and message of type VARBINARY:"
            " they are taken as the fields of json",
            kind.span,
            warns=True,
        )
        for option in ("key.format", "value.format") if primary_key else ("format",):
            renewal.add(option, "json", kind.value_span, "no other is said")
        return table.columns
    bytes_ = "VARBINARY is the record's bytes"
    if keys:
        renewal.add("key.format", "raw", keys[0].type_span, bytes_)
        if not primary_key:
            renewal.add("key.fields", names[0], keys[0].name.span, "the record's key")
        renewal.add("value.format", "raw", values[0].type_span, bytes_)
        value = values[0].name
        renewal.add(
            "value.fields-include", "EXCEPT_KEY", value.span, f"the value is '{value.name}' alone"
        )
    else:
        renewal.add("format", "raw", values[0].type_span, bytes_)
    return tuple(_as_header(c, renewal) for c in table.columns)


def _are_bytes(keys: list[ast.PhysicalColumn], values: list[ast.PhysicalColumn]) -> bool:
    return (
        len(keys) <= 1
        and len(values) == 1
        and all(c.type.as_nullable == BYTES for c in (*keys, *values))
    )


def _key_columns(table: ast.CreateTable) -> tuple[str, ...]:
    if table.primary_key is not None:
        return tuple(column.name for column in table.primary_key.columns)
    physical = [c for c in table.columns if isinstance(c, ast.PhysicalColumn)]
    marked = tuple(c.name.name for c in physical if c.primary_key)
    return marked or tuple(c.name.name for c in physical if c.name.name.lower() == "messagekey")


def _is_header(column: ast.ColumnDefinition) -> bool:
    return column.name.name.lower() in _HEADERS


def _as_header(column: ast.ColumnDefinition, renewal: Renewal) -> ast.ColumnDefinition:
    if not isinstance(column, ast.PhysicalColumn) or not _is_header(column):
        return column
    name = column.name.name
    key = None if name in _HEADERS else name.lower()
    renewal.note(
        "DIA-002",
        f"column '{name}' comes from the record, not from its value: METADATA VIRTUAL",
        column.name.span,
    )
    return ast.MetadataColumn(
        column.span, column.name, column.comment, column.type, column.type_span, key, True
    )


# --- watermarks --------------------------------------------------------------------------------

_MILLIS = re.compile(r"[0-9]{1,15}")


def renew_watermark(
    watermark: ast.WatermarkDefinition,
) -> tuple[ast.WatermarkDefinition, list[Diagnostic]]:
    """`WATERMARK w FOR ts AS withOffset(ts, 2000)` as `WATERMARK FOR ts AS ts - INTERVAL '2' SECOND`."""
    renewal = Renewal()
    if watermark.name is not None:
        renewal.note(
            "DIA-003",
            f"the watermark's name '{watermark.name.name}' is left out: nothing refers to it",
            watermark.name.span,
        )
        watermark = replace(watermark, name=None)
    match watermark.expression:
        case ast.FunctionCall(
            name=name, arguments=(column, ast.NumberLiteral(text=text)), span=span
        ) if str(name).lower() == "withoffset" and _MILLIS.fullmatch(text):
            expression = _minus(column, int(text), span)
            renewal.note(
                "DIA-002",
                f"{str(name)}({column.span.text}, {text}) is {column.span.text}"
                f"{'' if expression is column else f' - INTERVAL {_seconds(int(text))} SECOND'} today",
                span,
            )
            watermark = replace(watermark, expression=expression)
    return watermark, renewal.notes


def _minus(column: ast.Expression, millis: int, span: Span) -> ast.Expression:
    if millis == 0:
        return column
    delay = ast.IntervalLiteral(span, _seconds(millis).strip("'"), False, "SECOND")
    return ast.Binary(span, "-", column, delay)


def _seconds(millis: int) -> str:
    """Seconds as an INTERVAL writes them: '2', '0.5'."""
    whole, rest = divmod(millis, 1000)
    return f"'{whole}{f'.{rest:03}'.rstrip('0') if rest else ''}'"

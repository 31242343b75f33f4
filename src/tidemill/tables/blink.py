"""Blink's Kafka tables as today's.

In: a CREATE TABLE with `type = 'kafka010'`. Out: the same table for Flink's connectors.

A Blink table over Kafka holds bytes: `messageKey` and `message` of type VARBINARY, and for a source the topic, the
partition and the offset of the record behind them. Its PRIMARY KEY is `messageKey`, the record's key, and rows are
written by it: today that is an `upsert-kafka` table. Without a PRIMARY KEY it is a `kafka` table, which is only read.
Where no column is called `messageKey`, the PRIMARY KEY says which one is the record's key. Which Kafka `type` names
says nothing of the protocol: one client speaks to every broker that it reaches. Names of options count whatever their
case, and every name that is not Blink's own is one of the Kafka client's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

from tidemill.errors import Diagnostic, ScriptError, Span
from tidemill.sql import ast
from tidemill.sql.dialects import BLINK
from tidemill.tables.renewal import Renewal, Rule
from tidemill.types import BYTES

KAFKA_TYPES = ("kafka", "kafka08", "kafka09", "kafka010", "kafka011")
"""What `type` may be, in lower case."""

_BROKERS = "bootstrap.servers took its place in 0.9, clients talk to brokers only"
_COMMITS = "the brokers keep offsets since 0.9, and the engine commits them after every batch"
_SHARING = "the brokers share partitions out since 0.9; here every partition has a task of its own"
_REQUESTS = "request.timeout.ms took its place in 0.9"
_RETRIES = "retry.backoff.ms took its place in 0.9"
_ASSIGNORS = "org.apache.kafka.clients.consumer."


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
        when=frozenset({"smallest", "largest"}),
        old_client=True,
    ),
    Rule("fetch.message.max.bytes", "properties.max.partition.fetch.bytes", old_client=True),
    Rule("fetch.wait.max.ms", "properties.fetch.max.wait.ms", old_client=True),
    Rule("socket.receive.buffer.bytes", "properties.receive.buffer.bytes", old_client=True),
    Rule(
        "partition.assignment.strategy",
        "properties.partition.assignment.strategy",
        "it was a word, it is a class",
        values={
            "range": f"{_ASSIGNORS}RangeAssignor",
            "roundrobin": f"{_ASSIGNORS}RoundRobinAssignor",
        },
        when=frozenset({"range", "roundrobin"}),
        old_client=True,
    ),
    Rule("zookeeper.connect", doc=_BROKERS, old_client=True),
    Rule("zookeeper.session.timeout.ms", doc=_BROKERS, old_client=True),
    Rule("zookeeper.connection.timeout.ms", doc=_BROKERS, old_client=True),
    Rule("zookeeper.sync.time.ms", doc=_BROKERS, old_client=True),
    Rule(
        "auto.commit.enable",
        doc="enable.auto.commit took its place in 0.9; the engine commits offsets after every batch",
        old_client=True,
    ),
    Rule("offsets.storage", doc=_COMMITS, old_client=True),
    Rule("offsets.channel.backoff.ms", doc=_RETRIES, old_client=True),
    Rule("offsets.channel.socket.timeout.ms", doc=_REQUESTS, old_client=True),
    Rule(
        "offsets.commit.max.retries",
        doc="default.api.timeout.ms took its place: until then a commit is tried again",
        old_client=True,
    ),
    Rule("dual.commit.enabled", doc=_COMMITS, old_client=True),
    Rule(
        "consumer.id",
        doc="client.id took its place in 0.9: the brokers number consumers themselves",
        old_client=True,
    ),
    Rule("socket.timeout.ms", doc=_REQUESTS, old_client=True),
    Rule(
        "num.consumer.fetchers",
        doc="a consumer asks every broker at once since 0.9; here every partition has a task of its own",
        old_client=True,
    ),
    Rule(
        "queued.max.message.chunks",
        doc="fetch.max.bytes and max.poll.records took its place in 0.9",
        old_client=True,
    ),
    Rule("rebalance.max.retries", doc=_SHARING, old_client=True),
    Rule("rebalance.backoff.ms", doc=_SHARING, old_client=True),
    Rule("refresh.leader.backoff.ms", doc=_RETRIES, old_client=True),
    Rule(
        "consumer.timeout.ms",
        doc="since 0.9 who reads says how long to wait, and that is the engine",
        old_client=True,
    ),
    Rule(
        "flink.partition-discovery.interval-millis",
        "scan.topic-partition-discovery.interval",
        convert=_milliseconds,
    ),
    Rule("*", "properties.*", folds=True),
)
"""What each option is today; `type`, `startTime`, `timezone` and `extraConfig` are taken apart in code below."""

_HEADERS = ("topic", "partition", "offset")
_KEY = "messagekey"


def renew_table(table: ast.CreateTable) -> tuple[ast.CreateTable, list[Diagnostic]]:
    """Today's form of a Blink table; of one that is not over Kafka or names no broker, the table itself."""
    if not is_kafka(table) or names_only_zookeeper(table.options):
        return table, []
    given = {option.key.lower(): option for option in table.options}
    kind = given["type"]
    renewal = Renewal()
    primary_key = has_primary_key(table)
    for option in table.options:
        _renew_option(option, given, primary_key, renewal)
    if not primary_key:
        _begin_as_blink(renewal)
    columns = _add_formats(table, primary_key, kind, renewal)
    today = replace(table, columns=columns, options=tuple(renewal.options), vendor=BLINK.name)
    return today, renewal.notes


def is_kafka(table: ast.CreateTable) -> bool:
    """Whether this is a Kafka table as Blink writes it."""
    given = {option.key.lower(): option.value for option in table.options}
    return "connector" not in given and given.get("type", "").lower() in KAFKA_TYPES


def has_primary_key(table: ast.CreateTable) -> bool:
    return table.primary_key is not None or any(
        isinstance(column, ast.PhysicalColumn) and column.primary_key for column in table.columns
    )


def names_only_zookeeper(options: Iterable[ast.Option]) -> ast.Option | None:
    """The `zookeeper.connect` of a table that does not say where the brokers are."""
    given = {option.key.lower(): option for option in options}
    extra = given.get("extraconfig")
    if "bootstrap.servers" in given or (extra and "bootstrap.servers" in extra.value.lower()):
        return None
    return given.get("zookeeper.connect")


def without_key(name: str, columns: Iterable[str], span: Span | None) -> Diagnostic:
    """What is said where a table is written that has no PRIMARY KEY."""
    declared = [column for column in columns if column.lower() == _KEY]
    more = "" if declared else "the column messageKey VARBINARY and "
    return Diagnostic(
        "OPT-038",
        f"table '{name}' is written and has no PRIMARY KEY: a result table of Blink's must declare"
        " PRIMARY KEY (messageKey)",
        span,
        f"add {more}PRIMARY KEY ({declared[0] if declared else 'messageKey'}) to its columns; NOT ENFORCED need not"
        " be written. A table that is only read needs no key",
    )


def other_key(table: ast.CreateTable) -> Diagnostic | None:
    """What is said of a PRIMARY KEY that is not the record's key: by it key and value would change places."""
    declared = [c.name.name for c in table.columns if c.name.name.lower() == _KEY]
    keys = _key_columns(table)
    if not declared or not has_primary_key(table) or [key.lower() for key in keys] == [_KEY]:
        return None
    marked = [c.span for c in table.columns if isinstance(c, ast.PhysicalColumn) and c.primary_key]
    span = table.primary_key.span if table.primary_key else marked[0]
    return Diagnostic(
        "OPT-038",
        f"table '{table.name}' has the PRIMARY KEY ({', '.join(keys)}): that of a table of Blink's must be"
        f" PRIMARY KEY ({declared[0]})",
        span,
        f"write PRIMARY KEY ({declared[0]}): this column is the record's key, the other one its value",
    )


def check_keys(script: ast.Script) -> None:
    """Refuse tables with another key, and what is written without one, as far as tables and INSERTs stand in one text:
    for translation, which binds nothing. When a script is run, `build_table` and `check_insert` say the same."""
    problems: list[Diagnostic] = []
    keyless: dict[str, list[str]] = {}
    for statement in script.statements:
        targets = [n.target for n in ast.walk(statement) if isinstance(n, ast.Insert)]
        if isinstance(statement, ast.CreateTable):
            if is_kafka(statement) and (problem := other_key(statement)):
                problems.append(problem)
            columns = _columns_without_key(statement, keyless)
            if columns is None:
                keyless.pop(str(statement.name), None)
            else:
                keyless[str(statement.name)] = columns
            if statement.query is not None:
                targets.append(statement.name)
        problems += [
            without_key(str(target), keyless[str(target)], target.span)
            for target in targets
            if str(target) in keyless
        ]
    if problems:
        raise ScriptError(problems)


def _columns_without_key(
    table: ast.CreateTable, keyless: Mapping[str, list[str]]
) -> list[str] | None:
    """The columns of a Kafka table that has no key, or is LIKE one that has none; None: it is no such table."""
    own = [column.name.name for column in table.columns]
    if has_primary_key(table):
        return None
    if is_kafka(table):
        return own
    if table.like is None or table.names_connector:
        return None
    base = keyless.get(str(table.like.table))
    return None if base is None else [*base, *own]


def only_declared(table: ast.CreateTable, script: ast.Script) -> list[Diagnostic]:
    """What is said in a translation of a table without a key that its script does not read: a result table, perhaps,
    which another script writes. There nobody will know that it was one of Blink's."""
    nodes = (node for statement in script.statements for node in ast.walk(statement))
    read = {str(node.name) for node in nodes if isinstance(node, ast.TableReference)}
    if table.vendor != BLINK.name or has_primary_key(table) or str(table.name) in read:
        return []
    return [
        Diagnostic(
            "DIA-004",
            f"table '{table.name}' has no PRIMARY KEY and is only for reading, but this script does not read it",
            table.name.span,
            "if another script writes it, add PRIMARY KEY (messageKey) first",
            "warning",
        )
    ]


# --- options -----------------------------------------------------------------------------------


_CONNECTORS = (
    Rule(
        "type",
        "connector",
        "without a PRIMARY KEY it is only read",
        dict.fromkeys(KAFKA_TYPES, "kafka"),
    ),
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


def _begin_as_blink(renewal: Renewal) -> None:
    """A group that is new begins at the end of the topic in Blink; in Flink the job fails unless told."""
    mode, group = renewal.find("scan.startup.mode"), renewal.find("properties.group.id")
    by_group = mode is None or mode.value == "group-offsets"
    if group is not None and by_group and not renewal.find("properties.auto.offset.reset"):
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
        if primary_key:
            name = keys[0].name
            renewal.add(
                "sink.null-keys",
                "write",
                name.span,
                f"Blink writes a row whose '{name.name}' is NULL as a record without a key, Flink cannot",
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
    return marked or tuple(c.name.name for c in physical if c.name.name.lower() == _KEY)


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

"""Tables of Flink before 1.11 as today's. In: a CREATE TABLE with `'connector.type' = 'kafka'` or `'filesystem'`. Out:
the same table for Flink's connectors of today. DLI's early `upsert-kafka` tables are written in the same options.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from tidemill.errors import Diagnostic, Span
from tidemill.sql import ast
from tidemill.tables.renewal import Renewal, Rule
from tidemill.types import TimestampType

_ONE_CONNECTOR = "one connector speaks to every broker version"
_COLUMNS = "a format's fields are the table's columns"
_VERSION = "there is one version of the options"


def _discovery(millis: str) -> str | None:
    if not re.fullmatch("-?[0-9]+", millis):
        return None
    return "0" if millis.startswith("-") else f"{millis} ms"


CONNECTORS = frozenset({"kafka", "upsert-kafka", "filesystem"})

OPTIONS: tuple[Rule, ...] = (
    Rule("connector.type", "connector", when=CONNECTORS),
    Rule("connector.version", doc=_ONE_CONNECTOR),
    Rule("connector.property-version", doc=_VERSION),
    Rule("connector.topic", "topic"),
    Rule("connector.path", "path"),
    Rule("connector.startup-mode", "scan.startup.mode"),
    Rule("connector.specific-offsets", "scan.startup.specific-offsets"),
    Rule("connector.startup-timestamp-millis", "scan.startup.timestamp-millis"),
    Rule("connector.sink-partitioner-class", "sink.partitioner"),
    Rule(
        "connector.sink-partitioner",
        doc="'connector.sink-partitioner-class' says which",
        when=frozenset({"custom"}),
    ),
    Rule("connector.sink-partitioner", "sink.partitioner"),
    Rule(
        "connector.sink.ignore-retraction",
        doc="deletes are written as records without a value",
        when=frozenset({"false"}),
    ),
    Rule("connector.properties.zookeeper.connect", doc="the client talks to brokers only"),
    Rule(
        "connector.properties.flink.partition-discovery.interval-millis",
        "scan.topic-partition-discovery.interval",
        convert=_discovery,
    ),
    Rule("connector.properties.*", "properties.*"),
    Rule("update-mode", doc="a kafka table takes inserts only", when=frozenset({"append"})),
    Rule("format.type", "format"),
    Rule("format.property-version", doc=_VERSION),
    Rule("format.derive-schema", doc=_COLUMNS),
    Rule("format.schema", doc=_COLUMNS, warns=True),
    Rule("format.json-schema", doc=_COLUMNS, warns=True),
    Rule("format.avro-schema", doc=_COLUMNS, warns=True),
    Rule("format.record-class", doc=_COLUMNS, warns=True),
    Rule("format.line-delimiter", doc="a record of Kafka is one line", warns=True),
    *(
        Rule(f"format.{name}", f"{{format}}.{name}")
        for name in (
            "fail-on-missing-field",
            "ignore-parse-errors",
            "field-delimiter",
            "disable-quote-character",
            "quote-character",
            "allow-comments",
            "array-element-delimiter",
            "escape-character",
            "null-literal",
        )
    ),
    *(Rule(f"schema.#.{name}", doc=_COLUMNS) for name in ("name", "type", "data-type", "from")),
)
"""What each option is today. `connector.properties.#.key` and `.value`, and `connector.specific-offsets.#.partition`
and `.offset`, are put together first."""

_UPSERT_OPTIONS: tuple[Rule, ...] = (
    Rule("update-mode", doc="an upsert-kafka table takes inserts, updates and deletes"),
    Rule("connector.sink-partitioner", doc="records go to partitions by their key"),
    Rule("format.type", "value.format"),
    *OPTIONS,
)

_FILE_OPTIONS: tuple[Rule, ...] = (
    Rule("update-mode", doc="files take inserts only", when=frozenset({"append"})),
    Rule("format.line-delimiter", doc="a row is a line", when=frozenset({"\n"})),
    Rule("format.fields.#.*", doc=_COLUMNS),
    *(rule for rule in OPTIONS if rule.old != "format.line-delimiter"),
)


def renew_table(table: ast.CreateTable) -> tuple[ast.CreateTable, list[Diagnostic]]:
    """Today's form of a table with the old options; of any other, the table itself."""
    given = {option.key: option for option in table.options}
    if given.get("connector") is not None:
        return _without_version(table)
    connector = given.get("connector.type")
    if connector is None or connector.value not in CONNECTORS:
        return table, []
    upsert = connector.value == "upsert-kafka"
    others = {"upsert-kafka": _UPSERT_OPTIONS, "filesystem": _FILE_OPTIONS}
    format_option = given.get("format.type")
    format_name = format_option.value if format_option else "json"
    renewal = Renewal()
    for option in _unfold(table.options):
        rules = others.get(connector.value, OPTIONS)
        renewal.apply(option, rules, f"value.{format_name}" if upsert else format_name)
    if upsert and format_option:
        renewal.add("key.format", format_name, format_option.span, "the key is written in it too")
    if connector.value == "kafka":
        _begin_as_before(given, renewal)
    if format_name == "json":
        _warn_of_times(table, renewal)
    return replace(table, options=tuple(renewal.options)), renewal.notes


def _without_version(table: ast.CreateTable) -> tuple[ast.CreateTable, list[Diagnostic]]:
    """Flink 1.11 had connectors for old brokers, with today's options."""
    renewal = Renewal()
    names = frozenset({"kafka-0.10", "kafka-0.11"})
    rule = Rule("connector", "connector", _ONE_CONNECTOR, dict.fromkeys(names, "kafka"), when=names)
    for option in table.options:
        renewal.apply(option, [rule])
    return (
        replace(table, options=tuple(renewal.options)) if renewal.notes else table
    ), renewal.notes


# --- options with a number ---------------------------------------------------------------------

_PROPERTY = re.compile(r"connector\.properties\.([0-9]+)\.(key|value)")
_OFFSET = re.compile(r"connector\.specific-offsets\.([0-9]+)\.(partition|offset)")


def _unfold(options: Iterable[ast.Option]) -> list[ast.Option]:
    """`'connector.properties.0.key' = 'group.id'` with its value as one option; likewise offsets, all in one text.

    A half without its other half stays, to be refused by name.
    """
    options = list(options)
    properties = _numbered(options, _PROPERTY)
    offsets = _numbered(options, _OFFSET)
    whole_offsets = [o for o in offsets.values() if len(o) == 2]
    found: list[ast.Option] = []
    for option in options:
        number = _PROPERTY.fullmatch(option.key)
        pair = properties.get(number[1], {}) if number else {}
        if len(pair) == 2:
            if option is pair["key"]:
                found.append(
                    ast.Option(
                        option.span,
                        f"connector.properties.{option.value}",
                        pair["value"].value,
                        pair["value"].value_span,
                    )
                )
            continue
        number = _OFFSET.fullmatch(option.key)
        if number and len(offsets[number[1]]) == 2:
            if option is whole_offsets[0]["partition"]:
                text = ";".join(
                    f"partition:{o['partition'].value},offset:{o['offset'].value}"
                    for o in whole_offsets
                )
                found.append(
                    ast.Option(option.span, "connector.specific-offsets", text, option.value_span)
                )
            continue
        found.append(option)
    return found


def _numbered(
    options: Iterable[ast.Option], pattern: re.Pattern[str]
) -> dict[str, dict[str, ast.Option]]:
    """By number, then by the last word."""
    found: dict[str, dict[str, ast.Option]] = {}
    for option in options:
        match = pattern.fullmatch(option.key)
        if match:
            found.setdefault(match[1], {})[match[2]] = option
    return found


# --- what options do not say -------------------------------------------------------------------


def _begin_as_before(given: dict[str, ast.Option], renewal: Renewal) -> None:
    """A new group began at the latest record, the Kafka client's default; today's source fails unless told."""
    mode = given.get("connector.startup-mode")
    group = renewal.find("properties.group.id")
    if (
        group is not None
        and (mode is None or mode.value == "group-offsets")
        and not renewal.find("properties.auto.offset.reset")
    ):
        renewal.add(
            "properties.auto.offset.reset",
            "latest",
            group.span,
            "a group without committed offsets began at the latest record",
        )


def _warn_of_times(table: ast.CreateTable, renewal: Renewal) -> None:
    span: Span | None = next(
        (
            column.type_span
            for column in table.columns
            if isinstance(column, ast.PhysicalColumn) and isinstance(column.type, TimestampType)
        ),
        None,
    )
    if span is not None:
        renewal.notes.append(
            Diagnostic(
                "DIA-004",
                "json of Flink before 1.11 holds a TIMESTAMP as 2020-01-01T12:00:00Z, today's as 2020-01-01 12:00:00",
                span,
                "for records with T and Z declare TIMESTAMP_LTZ(3) and add"
                " 'json.timestamp-format.standard' = 'ISO-8601'",
                "warning",
            )
        )

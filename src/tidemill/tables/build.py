"""From CREATE TABLE to a connector's spec.

In: a statement and its typed schema. Out: the spec and warnings, or a ScriptError that holds every mistake.
Law: rules about a table's options are checked when it is declared; rules about its use, when it is used
(`check_read`, `check_insert`): a table may be declared that is only good for one direction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tidemill.changelog import ChangelogMode
from tidemill.errors import Diagnostic, Span, did_you_mean, in_script_order, script_error
from tidemill.sql import ast
from tidemill.sql.dialects import BLINK
from tidemill.tables.blink import other_key, without_key
from tidemill.tables.builtin import DEFINITIONS as BUILTIN
from tidemill.tables.builtin import PrintTable
from tidemill.tables.catalog import Connector, Schema, Table, Unusable
from tidemill.tables.connector import (
    CONNECTOR,
    FRAMEWORK_OPTIONS,
    ConnectorDefinition,
    Declaration,
)
from tidemill.tables.filesystem import FILESYSTEM, FilesystemTable
from tidemill.tables.formats import value_metadata
from tidemill.tables.jdbc import JDBC
from tidemill.tables.kafka import KAFKA, StartupMode, TopicTable
from tidemill.tables.metadata import MetadataKeys, check_readable, check_writable
from tidemill.tables.options import OptionReader, raise_all
from tidemill.tables.references import settled
from tidemill.tables.upsert_kafka import UPSERT_KAFKA
from tidemill.tables.vendors import KNOWN_CONNECTORS, refuse_old_form

CONNECTORS: Mapping[str, ConnectorDefinition] = {
    KAFKA.name: KAFKA,
    UPSERT_KAFKA.name: UPSERT_KAFKA,
    FILESYSTEM.name: FILESYSTEM,
    JDBC.name: JDBC,
    **BUILTIN,
}
"""The connectors that exist."""


def build_table(
    name: str, statement: ast.CreateTable, schema: Schema, settings: Mapping[str, str]
) -> tuple[Connector, list[Diagnostic]]:
    """Read the statement's WITH clause: the connector's spec, and warnings."""
    statement = replace(statement, options=settled(statement.options))
    declaration = Declaration(name, schema, statement, settings)
    definition, place = _find_definition(declaration)
    reader = OptionReader(definition.name, statement.options, place, definition.advice)
    reader.accept((*FRAMEWORK_OPTIONS, *definition.options))
    if statement.vendor == BLINK.name and (problem := other_key(statement)):
        reader.errors.append(problem)
    keys = {**definition.metadata, **value_metadata(reader)}
    for column in schema.metadata:
        # A column that a sink never sees may have any key, as in Flink.
        if definition.source or not column.virtual:
            problem = check_readable(name, column, keys, declaration.column_span(column.name))
            if problem:
                reader.errors.append(problem)
    connector = definition.build(declaration, reader)
    return connector, in_script_order(reader.warnings)


def _find_definition(declaration: Declaration) -> tuple[ConnectorDefinition, Span]:
    statement = declaration.statement
    old_form = refuse_old_form(statement.options)
    if old_form:
        raise_all([old_form])
    option = next((o for o in reversed(statement.options) if o.key == CONNECTOR.key), None)
    available = f"connectors are {', '.join(CONNECTORS)}"
    if option is None:
        misspelt = next((o for o in statement.options if o.key.lower() == "connector"), None)
        raise script_error(
            "OPT-001",
            "Table options do not contain an option key 'connector' for discovering a connector.",
            misspelt.span if misspelt else statement.name.span,
            f"write the key in lower case: 'connector' = '{misspelt.value}'"
            if misspelt
            else f"add WITH ('connector' = '…', …); {available}",
        )
    if option.value in CONNECTORS:
        return CONNECTORS[option.value], option.value_span
    if option.value in KNOWN_CONNECTORS:
        raise script_error(
            "OPT-009",
            f"connector '{option.value}' is not supported",
            option.value_span,
            KNOWN_CONNECTORS[option.value],
        )
    raise script_error(
        "OPT-002",
        f"Could not find any factory for identifier '{option.value}': there is no such connector",
        option.value_span,
        did_you_mean(option.value, [*CONNECTORS, *KNOWN_CONNECTORS], available),
    )


def with_options(statement: ast.CreateTable, hint: ast.Hint) -> ast.CreateTable:
    """The statement as `/*+ OPTIONS('k' = 'v') */` changes it; build the table of one query from it.

    Overriding options carry the hint's span, so that mistakes in them are shown there.
    """
    changes = {
        key: ast.Option(hint.span, key, value, hint.span)
        for key, value in hint.arguments
        if key is not None
    }
    return replace(statement, options=_merged(statement.options, changes))


def _merged(
    options: Iterable[ast.Option], changes: Mapping[str, ast.Option]
) -> tuple[ast.Option, ...]:
    return (*(o for o in options if o.key not in changes), *changes.values())


# --- using a table -----------------------------------------------------------------------------


def definition_of(connector: Connector) -> ConnectorDefinition:
    return next(d for d in CONNECTORS.values() if d.spec is type(connector))


def metadata_keys(connector: Connector) -> MetadataKeys:
    """The metadata keys that this table offers, with the types for reading and for writing."""
    if isinstance(connector, TopicTable):
        return connector.metadata_keys
    return definition_of(connector).metadata


def check_read(table: Table, span: Span | None) -> list[Diagnostic]:
    """Whether a query may read the table; `span` is where it does. Gives warnings."""
    if isinstance(table.connector, Unusable):
        return []
    definition = definition_of(table.connector)
    if not definition.source:
        raise script_error(
            "OPT-054",
            f"Connector '{definition.name}' can only be used as a sink. It cannot be used as a source.",
            span,
            "read from a 'kafka' or 'datagen' table",
        )
    connector = table.connector
    if (
        isinstance(connector, TopicTable)
        and connector.startup.mode is StartupMode.GROUP_OFFSETS
        and connector.group_id is None
    ):
        return [
            Diagnostic(
                "OPT-028",
                f"table '{table.name}' has no 'properties.group.id': its group is"
                f" KafkaSource-{table.identifier}, and a fresh start reads from the earliest offset",
                span,
                severity="notice",
            )
        ]
    return []


def check_insert(table: Table, span: Span | None) -> None:
    """Whether INSERT INTO may write the table; `span` is where it does."""
    if isinstance(table.connector, Unusable):
        return
    definition = definition_of(table.connector)
    if not definition.sink:
        raise script_error(
            "OPT-054",
            f"Connector '{definition.name}' can only be used as a source. It cannot be used as a sink.",
            span,
            "write to a 'kafka', 'upsert-kafka', 'filesystem', 'print' or 'blackhole' table",
        )
    statement = table.statement
    is_blinks = statement is not None and statement.vendor == BLINK.name
    if is_blinks and isinstance(table.connector, TopicTable) and not table.schema.primary_key:
        raise_all([without_key(table.name, [c.name for c in table.schema.columns], span)])
    partitions = statement is not None and not isinstance(table.connector, FilesystemTable)
    for is_given, what, interface in (
        (
            partitions and statement and statement.partitioned_by,
            "a partitioned table",
            "SupportsPartitioning",
        ),
        (statement and statement.distribution, "distributed into buckets", "SupportsBucketing"),
    ):
        if is_given:
            raise script_error(
                "PLAN-047",
                f"Table '{table.identifier}' is {what}, but the underlying DynamicTableSink doesn't implement the"
                f" {interface} interface.",
                span,
                "leave the clause out: Kafka chooses a record's partition by its key, or by 'sink.partitioner'",
            )
    keys = metadata_keys(table.connector)
    problems = [check_writable(table.name, c, keys, span) for c in table.schema.metadata]
    errors = [problem for problem in problems if problem]
    if isinstance(table.connector, TopicTable):
        for spec in (table.connector.value_format, table.connector.key_format):
            why = spec and spec.definition.why_not_written(spec, table.connector.has_one_topic)
            if why:
                errors.append(
                    Diagnostic("OPT-055", f"table '{table.name}' cannot be written: {why}", span)
                )
        if not table.connector.has_one_topic:
            errors += _no_choice(table, span)
    if errors:
        raise_all(errors)


def _no_choice(table: Table, span: Span | None) -> list[Diagnostic]:
    """A table of several topics is written by rows that say theirs."""
    if any(c.key == "topic" and not c.virtual for c in table.schema.metadata):
        return []
    return [
        Diagnostic(
            "OPT-056",
            f"table '{table.name}' has several topics and no column that says to which a row goes",
            span,
            "declare `topic` STRING METADATA, or name one topic",
        )
    ]


def check_writers(
    table: Table, changes: ChangelogMode, parallelism: int, span: Span | None
) -> None:
    """Changes may come to another number of writers only by key (V30); `parallelism` is that of the input."""
    if not isinstance(table.connector, (TopicTable, PrintTable)):
        return
    writers = table.connector.sink_parallelism
    if writers in (None, parallelism) or changes.insert_only or table.schema.primary_key:
        return
    raise script_error(
        "OPT-045",
        f"The sink for table '{table.identifier}' has a configured parallelism of {writers}, while the input"
        f" parallelism is {parallelism}. Since the changelog mode is not insert-only, a primary key is required but"
        " could not be found.",
        span,
        "declare a PRIMARY KEY, or leave 'sink.parallelism' out",
    )


def why_not_runnable(table: Table) -> str | None:
    """What keeps a job from reading or writing a table that may be declared and planned: its name, or None."""
    connector = table.connector
    if not isinstance(connector, TopicTable):
        return None
    for spec in (connector.value_format, connector.key_format):
        if spec is not None and not spec.definition.runnable:
            return f"format '{spec.name}'"
    return None


# --- what the command line changes -------------------------------------------------------------


def with_bootstrap(
    connector: Connector, address: str, client: Mapping[str, str] | None = None
) -> Connector:
    """The same table on another broker: `--local` points every Kafka table at its own, with the properties that let a
    client in there, if it is secured."""
    open_to_all = unprotected(connector)
    if not isinstance(open_to_all, TopicTable):
        return connector
    moved = {**open_to_all.properties, **(client or {}), "bootstrap.servers": address}
    return replace(open_to_all, properties=moved)


def unprotected(connector: Connector) -> Connector:
    """The same table without what its brokers ask for before they let somebody in."""
    if not isinstance(connector, TopicTable):
        return connector
    kept = {
        key: value
        for key, value in connector.properties.items()
        if not key.startswith(("security.", "sasl.", "ssl."))
    }
    return replace(connector, properties=kept, named=None)

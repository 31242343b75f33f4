"""What every connector is: a name, an option table, metadata keys, and a function that builds its spec.

In: a declared table. Out (from a definition's `build`): the connector's spec, all rules checked.
Law: a build function notes every mistake in its reader and calls `reader.finish()` before it makes the spec.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from tidemill.errors import Span
from tidemill.sql import ast
from tidemill.tables.catalog import Connector, Schema
from tidemill.tables.metadata import MetadataKeys
from tidemill.tables.options import (
    DURATION,
    INTEGER,
    STRING,
    TEXT,
    BadValue,
    Option,
    OptionReader,
    one_of,
    parse_duration,
)


@dataclass(frozen=True)
class Declaration:
    """A CREATE TABLE as its connector sees it."""

    name: str
    schema: Schema
    statement: ast.CreateTable
    settings: Mapping[str, str]

    def column_span(self, name: str) -> Span:
        """A column's name in the statement."""
        return next(
            (c.name.span for c in self.statement.columns if c.name.name == name),
            self.statement.name.span,
        )

    @property
    def primary_key_span(self) -> Span:
        if self.statement.primary_key:
            return self.statement.primary_key.span
        return self.column_span(next(iter(self.schema.primary_key), ""))


@dataclass(frozen=True)
class ConnectorDefinition:
    name: str
    doc: str
    options: tuple[Option[Any], ...]
    build: Callable[[Declaration, OptionReader], Connector]
    spec: type[Connector]
    source: bool
    """Whether its tables can be read."""
    sink: bool
    """Whether its tables can be written."""
    metadata: MetadataKeys = field(default_factory=dict)
    advice: Mapping[str, str] = field(default_factory=dict)
    """What to tell somebody who writes a well-known option that this connector does not have; `a.*` is a family."""


CONNECTOR = Option("connector", TEXT, "The connector of the table.", required=True)

EMIT_STRATEGY = Option(
    "scan.watermark.emit.strategy",
    one_of("on-periodic", "on-event"),
    "When the source sends watermarks.",
    "on-periodic",
    pending="watermarks move once in every batch",
)
ALIGNMENT_GROUP = Option(
    "scan.watermark.alignment.group",
    STRING,
    "Tables of one group are read at about the same event time.",
)
ALIGNMENT_MAX_DRIFT = Option(
    "scan.watermark.alignment.max-drift",
    DURATION,
    "How far a partition may run ahead of its alignment group.",
)
ALIGNMENT_UPDATE_INTERVAL = Option(
    "scan.watermark.alignment.update-interval",
    DURATION,
    "How often alignment is looked at.",
    timedelta(seconds=1),
    pending="alignment is looked at before every batch",
)
IDLE_TIMEOUT = Option(
    "scan.watermark.idle-timeout",
    DURATION,
    "After this time without records a partition no longer holds the watermark back.",
)
FRAMEWORK_OPTIONS: tuple[Option[Any], ...] = (
    CONNECTOR,
    Option("property-version", INTEGER, "Version of the option design.", 1),
    EMIT_STRATEGY,
    ALIGNMENT_GROUP,
    ALIGNMENT_MAX_DRIFT,
    ALIGNMENT_UPDATE_INTERVAL,
    IDLE_TIMEOUT,
)
"""Options that every table takes."""


@dataclass(frozen=True)
class WatermarkOptions:
    emit_strategy: str = "on-periodic"
    alignment_group: str | None = None
    alignment_max_drift: timedelta | None = None
    alignment_update_interval: timedelta = timedelta(seconds=1)
    idle_timeout: timedelta | None = None
    """The table's own, else that of `table.exec.source.idle-timeout`; None means never idle."""


def read_watermark_options(declaration: Declaration, reader: OptionReader) -> WatermarkOptions:
    if any(reader.has(o) for o in (ALIGNMENT_GROUP, ALIGNMENT_MAX_DRIFT)) and not all(
        reader.has(o) for o in (ALIGNMENT_GROUP, ALIGNMENT_MAX_DRIFT)
    ):
        given = ALIGNMENT_GROUP if reader.has(ALIGNMENT_GROUP) else ALIGNMENT_MAX_DRIFT
        reader.error(
            "OPT-022",
            f"'{ALIGNMENT_GROUP.key}' and '{ALIGNMENT_MAX_DRIFT.key}' must be set when configuring"
            " watermark alignment",
            reader.key_span(given),
        )
    idle = reader.get(IDLE_TIMEOUT)
    if idle is None:
        # A malformed SET has been reported where it stands.
        with suppress(BadValue):
            idle = parse_duration(declaration.settings.get("table.exec.source.idle-timeout", ""))
    return WatermarkOptions(
        reader.value(EMIT_STRATEGY),
        reader.get(ALIGNMENT_GROUP),
        reader.get(ALIGNMENT_MAX_DRIFT),
        reader.value(ALIGNMENT_UPDATE_INTERVAL),
        idle or None,
    )

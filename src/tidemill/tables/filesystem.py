"""Flink's `filesystem` connector: a directory of files, of which each line is a row.

In: a declaration. Out: a FilesystemTable. It is read once, up to its end, or looked up again and again by a join in
processing time; as a sink every batch adds files to it, and a batch that is repeated replaces its own.
Law: what of Flink's options has no meaning here is accepted with a warning, what would change the result is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, ClassVar

from tidemill import types as t
from tidemill.tables.catalog import Connector
from tidemill.tables.connector import ConnectorDefinition, Declaration
from tidemill.tables.formats import FormatSpec, check_types, choose_format, refuse_format
from tidemill.tables.kafka import FORMAT
from tidemill.tables.metadata import MetadataKey
from tidemill.tables.options import (
    BOOLEAN,
    DURATION,
    PARALLELISM,
    TEXT,
    BadValue,
    Option,
    OptionReader,
    OptionType,
    one_of,
)
from tidemill.types import Field

FILE_FORMATS = ("csv", "json")
"""Formats whose rows are lines."""


@dataclass(frozen=True)
class FilesystemTable(Connector):
    connector: ClassVar[str] = "filesystem"

    path: str
    format: FormatSpec
    fields: tuple[Field, ...]
    """What a line holds: the physical columns without those of the partition."""
    partition_keys: tuple[str, ...] = ()
    default_partition: str = "__DEFAULT_PARTITION__"
    """The directory of rows whose partition is NULL or empty."""
    pattern: str | None = None
    """A regular expression that the whole path of a file matches."""
    success_file: str | None = None
    """What is put into a partition when rows have been written to it."""
    shuffles: bool = False
    """Whether rows of a partition go to one task."""
    sink_parallelism: int | None = None

    @property
    def is_bounded(self) -> bool:
        return True

    @property
    def is_looked_up(self) -> bool:
        return True


_SIZES = {"": 0, "b": 0, "k": 1, "kb": 1, "m": 2, "mb": 2, "g": 3, "gb": 3, "t": 4, "tb": 4}


def _size(text: str) -> int:
    found = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    if found is None or found[2] not in _SIZES:
        raise BadValue(f"Expected a size of memory such as '128MB', but got '{text}'.")
    return int(found[1]) << 10 * _SIZES[found[2]]


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as problem:
        raise BadValue(f"Expected a regular expression, but got '{text}': {problem}.") from None
    return text


SIZE = OptionType("MemorySize", _size)
_FILE_A_BATCH = "every task of a batch that has rows for a partition writes one file of them"
_AT_ONCE = "a partition is committed with each batch that wrote to it"

PATH = Option("path", TEXT, "The directory of the files, or one file to read.", required=True)
FILE_FORMAT = replace(FORMAT, doc="Format of the files: `csv` or `json`.", required=True)
DEFAULT_NAME = Option(
    "partition.default-name",
    TEXT,
    "Directory of rows whose partition column is NULL or an empty string.",
    "__DEFAULT_PARTITION__",
)
REPORT_STATISTICS = Option(
    "source.report-statistics", one_of("NONE", "ALL"), "Statistics are not used.", "ALL"
)
PATH_PATTERN = Option(
    "source.path.regex-pattern",
    OptionType("String", _pattern),
    "A regular expression; files are read whose whole path matches it.",
)
ROLLING: tuple[Option[Any], ...] = (
    Option(
        "sink.rolling-policy.file-size", SIZE, "Size of a file.", 128 << 20, pending=_FILE_A_BATCH
    ),
    *(
        Option(f"sink.rolling-policy.{name}", DURATION, doc, default, pending=_FILE_A_BATCH)
        for name, doc, default in (
            ("rollover-interval", "How long a file is written to.", timedelta(minutes=30)),
            (
                "inactivity-interval",
                "How long a file waits for the next row.",
                timedelta(minutes=30),
            ),
            ("check-interval", "How often that is looked at.", timedelta(minutes=1)),
        )
    ),
)
SHUFFLE = Option(
    "sink.shuffle-by-partition.enable",
    BOOLEAN,
    "Whether rows of a partition go to one task.",
    False,
)
COMMIT_TRIGGER = Option(
    "sink.partition-commit.trigger",
    one_of("process-time", "partition-time"),
    "`process-time`; `partition-time` is refused.",
    "process-time",
)
COMMIT_DELAY = Option(
    "sink.partition-commit.delay",
    DURATION,
    "How long a partition waits before it is committed.",
    timedelta(0),
    pending=_AT_ONCE,
)
COMMIT_POLICY = Option(
    "sink.partition-commit.policy.kind",
    TEXT,
    "`success-file`: an empty file tells that a partition has rows. `metastore` and `custom` are refused.",
)
SUCCESS_FILE = Option(
    "sink.partition-commit.success-file.name", TEXT, "Name of that file.", "_SUCCESS"
)
SINK_PARALLELISM = Option("sink.parallelism", PARALLELISM, "Number of tasks that write.")
FILESYSTEM_OPTIONS: tuple[Option[Any], ...] = (
    PATH,
    FILE_FORMAT,
    DEFAULT_NAME,
    PATH_PATTERN,
    REPORT_STATISTICS,
    *ROLLING,
    SHUFFLE,
    COMMIT_TRIGGER,
    COMMIT_DELAY,
    COMMIT_POLICY,
    SUCCESS_FILE,
    SINK_PARALLELISM,
)


def _build_filesystem(declaration: Declaration, reader: OptionReader) -> FilesystemTable:
    partitions = tuple(n.name for n in declaration.statement.partitioned_by)
    fields = tuple(
        Field(c.name, c.type) for c in declaration.schema.physical if c.name not in partitions
    )
    chosen = choose_format(reader, FILE_FORMAT)
    if chosen and chosen.name not in FILE_FORMATS:
        reader.error(
            "OPT-012",
            f"format '{chosen.name}' is not supported for files",
            reader.value_span(FILE_FORMAT),
            f"the formats of a 'filesystem' table are {' and '.join(FILE_FORMATS)}",
        )
    elif chosen and chosen.spec is None:
        refuse_format(reader, chosen)
    elif chosen:
        check_types(reader, chosen, fields)
    if not fields:
        reader.error(
            "OPT-014",
            "a file needs a column that is no partition",
            declaration.statement.name.span,
        )
    if reader.value(COMMIT_TRIGGER) == "partition-time":
        reader.error(
            "OPT-005",
            f"'{COMMIT_TRIGGER.key}' = 'partition-time' is not supported",
            reader.value_span(COMMIT_TRIGGER),
            _AT_ONCE,
        )
    policies = {p.strip() for p in (reader.get(COMMIT_POLICY) or "").split(",")} - {""}
    for policy in sorted(policies - {"success-file"}):
        reader.error(
            "OPT-005",
            f"'{COMMIT_POLICY.key}' = '{policy}' is not supported",
            reader.value_span(COMMIT_POLICY),
            "use 'success-file', or leave the option out",
        )
    reader.finish()
    assert chosen is not None and chosen.spec is not None
    return FilesystemTable(
        reader.value(PATH),
        chosen.spec,
        fields,
        partitions,
        reader.value(DEFAULT_NAME),
        reader.get(PATH_PATTERN),
        reader.value(SUCCESS_FILE) if policies else None,
        reader.value(SHUFFLE),
        reader.get(SINK_PARALLELISM),
    )


FILE_METADATA: Mapping[str, MetadataKey] = {
    "file.path": MetadataKey(t.STRING.not_null, None, "Full path of the file."),
    "file.name": MetadataKey(t.STRING.not_null, None, "Name of the file."),
    "file.size": MetadataKey(t.BIGINT.not_null, None, "Bytes of the file."),
    "file.modification-time": MetadataKey(
        t.TimestampLtzType(False, 3), None, "When the file was last written."
    ),
}

FILESYSTEM = ConnectorDefinition(
    "filesystem",
    "Reads files of csv or json once, up to their end, or looks rows up in them; writes files, also by partition.",
    FILESYSTEM_OPTIONS,
    _build_filesystem,
    FilesystemTable,
    source=True,
    sink=True,
    metadata=FILE_METADATA,
    advice={
        "source.monitor-interval": "the table is read once, up to its end; to watch for rows, use 'kafka'",
        "sink.partition-commit.policy.*": f"{_AT_ONCE}, by 'success-file'",
        "sink.partition-commit.watermark-time-zone": _AT_ONCE,
        "partition.time-extractor.*": _AT_ONCE,
        "auto-compaction": "files are not put together",
        "compaction.*": "files are not put together",
        "format.*": "prefix a format's options by its name: 'csv.…' or 'json.…'",
        "source.path": "use 'path'",
    },
)

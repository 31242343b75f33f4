"""Flink's `jdbc` connector, for reading: a table of a database, read once through Spark, or looked up by a join in
processing time.

In: a declaration. Out: a JdbcTable. Law: the password is in the spec and nowhere else: not in plans, logs or errors.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, ClassVar

from tidemill.tables.catalog import Connector
from tidemill.tables.connector import ConnectorDefinition, Declaration
from tidemill.tables.options import (
    BOOLEAN,
    DURATION,
    INTEGER,
    LONG,
    TEXT,
    BadValue,
    Option,
    OptionReader,
    OptionType,
    at_least,
    one_of,
)
from tidemill.tables.references import resolved_all


@dataclass(frozen=True)
class JdbcTable(Connector):
    connector: ClassVar[str] = "jdbc"

    url: str = field(repr=False)
    table_name: str
    driver: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    fetch_size: int = 0
    partition_column: str | None = None
    partitions: int | None = None
    lower_bound: int | None = None
    upper_bound: int | None = None

    @property
    def is_bounded(self) -> bool:
        return True

    @property
    def is_looked_up(self) -> bool:
        return True

    @property
    def resolved(self) -> JdbcTable:
        """With the references in its address, user and password resolved, as the driver is to be told them."""
        told = {key: resolved_all(getattr(self, key)) for key in ("url", "username", "password")}
        return replace(self, **told)  # type: ignore[arg-type]


def _url(text: str) -> str:
    if not text.startswith("jdbc:"):
        # The value itself may hold a password.
        raise BadValue("Expected an address that begins with 'jdbc:'.")
    return text


_EVERY_BATCH = "every batch looks at the table as it is"

URL = Option("url", OptionType("String", _url), "Address of the database.", required=True)
TABLE_NAME = Option(
    "table-name", TEXT, "Name of the table, or a query in parentheses with a name.", required=True
)
DRIVER = Option(
    "driver", TEXT, "Class of the driver; unless it is given, the address tells which one."
)
USERNAME = Option("username", TEXT, "User of the database; needs `password`.")
PASSWORD = Option("password", TEXT, "Password of the user; never shown.")
MAX_RETRY_TIMEOUT = Option(
    "connection.max-retry-timeout",
    DURATION,
    "How long to wait for a connection.",
    timedelta(seconds=60),
    pending="a connection that fails ends the job",
)
FETCH_SIZE = Option(
    "scan.fetch-size", at_least(0, INTEGER), "Rows to fetch at once; 0 leaves it to the driver.", 0
)
AUTO_COMMIT = Option(
    "scan.auto-commit",
    BOOLEAN,
    "Whether the driver commits by itself.",
    True,
    pending="Spark switches it off, so that drivers fetch row by row",
)
PARTITION_COLUMN = Option(
    "scan.partition.column", TEXT, "Number, date or timestamp by which the table is read in parts."
)
PARTITION_NUM = Option("scan.partition.num", at_least(1, INTEGER), "Number of parts.")
LOWER_BOUND = Option("scan.partition.lower-bound", LONG, "Least value of the first part.")
UPPER_BOUND = Option("scan.partition.upper-bound", LONG, "Greatest value of the last part.")
LOOKUP: tuple[Option[Any], ...] = (
    Option(
        "lookup.cache",
        one_of("NONE", "PARTIAL"),
        "Whether rows are kept that were looked up.",
        "NONE",
        pending=_EVERY_BATCH,
    ),
    Option(
        "lookup.partial-cache.max-rows",
        LONG,
        "Rows to keep.",
        pending=_EVERY_BATCH,
        aliases=("lookup.cache.max-rows",),
    ),
    Option(
        "lookup.partial-cache.expire-after-write",
        DURATION,
        "How long to keep a row after it was read.",
        pending=_EVERY_BATCH,
        aliases=("lookup.cache.ttl",),
    ),
    Option(
        "lookup.partial-cache.expire-after-access",
        DURATION,
        "How long to keep a row after it was used.",
        pending=_EVERY_BATCH,
    ),
    Option(
        "lookup.partial-cache.cache-missing-key",
        BOOLEAN,
        "Whether to keep that a row is not there.",
        True,
        pending=_EVERY_BATCH,
        aliases=("lookup.cache.caching-missing-key",),
    ),
    Option(
        "lookup.max-retries",
        at_least(0, INTEGER),
        "How often to try again.",
        3,
        pending="a query that fails ends the job",
    ),
)
JDBC_OPTIONS: tuple[Option[Any], ...] = (
    URL,
    TABLE_NAME,
    DRIVER,
    USERNAME,
    PASSWORD,
    MAX_RETRY_TIMEOUT,
    FETCH_SIZE,
    AUTO_COMMIT,
    PARTITION_COLUMN,
    PARTITION_NUM,
    LOWER_BOUND,
    UPPER_BOUND,
    *LOOKUP,
)


def _together(reader: OptionReader, options: tuple[Option[Any], ...]) -> None:
    missing = [o.key for o in options if not reader.has(o)]
    given = [o for o in options if reader.has(o)]
    if given and missing:
        reader.error(
            "OPT-022",
            f"'{given[0].key}' needs " + ", ".join(f"'{key}'" for key in missing),
            reader.key_span(given[0]),
            "give all of them, or none",
        )


def _build_jdbc(declaration: Declaration, reader: OptionReader) -> JdbcTable:
    _together(reader, (USERNAME, PASSWORD))
    _together(reader, (PARTITION_COLUMN, PARTITION_NUM, LOWER_BOUND, UPPER_BOUND))
    lower, upper = reader.get(LOWER_BOUND), reader.get(UPPER_BOUND)
    if lower is not None and upper is not None and lower > upper:
        reader.error(
            "OPT-005",
            f"'{LOWER_BOUND.key}' = '{lower}' is greater than '{UPPER_BOUND.key}' = '{upper}'",
            reader.value_span(LOWER_BOUND),
        )
    reader.finish()
    return JdbcTable(
        reader.value(URL),
        reader.value(TABLE_NAME),
        reader.get(DRIVER),
        reader.get(USERNAME),
        reader.get(PASSWORD),
        reader.value(FETCH_SIZE),
        reader.get(PARTITION_COLUMN),
        reader.get(PARTITION_NUM),
        lower,
        upper,
    )


JDBC = ConnectorDefinition(
    "jdbc",
    "Reads a table of a database once, up to its end, or looks rows up in it.",
    JDBC_OPTIONS,
    _build_jdbc,
    JdbcTable,
    source=True,
    sink=False,
    advice={
        "sink.*": "a 'jdbc' table can be read only: write to 'upsert-kafka' and sink it with Kafka Connect",
        "query": "write 'table-name' = '(SELECT …) AS t'",
    },
)

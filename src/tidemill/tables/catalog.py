"""What a resolved table and a view are. `namespaces` says where they are kept.

In: CREATE statements that the binder has typed. Out: `Table` values whose connector is a typed, checked spec.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidemill.changelog import ALL_CHANGES, INSERT_ONLY, ChangelogMode
from tidemill.errors import Span
from tidemill.sql import ast
from tidemill.types import SqlType

DEFAULT_CATALOG = "default_catalog"
DEFAULT_DATABASE = "default_database"


@dataclass(frozen=True)
class Column:
    name: str
    type: SqlType
    comment: str | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class Physical(Column):
    """Travels in the record's key or value."""


@dataclass(frozen=True)
class Metadata(Column):
    """Comes from the connector (`offset`) or from the format (`value.source.table`)."""

    key: str
    virtual: bool


@dataclass(frozen=True)
class Computed(Column):
    """An expression over the other columns; never stored, never written."""

    expression: ast.Expression


@dataclass(frozen=True)
class Watermark:
    column: str
    expression: ast.Expression


@dataclass(frozen=True)
class Schema:
    """The columns of a table as declared, before its connector is known."""

    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()
    watermark: Watermark | None = None

    @property
    def physical(self) -> tuple[Physical, ...]:
        return tuple(c for c in self.columns if isinstance(c, Physical))

    @property
    def metadata(self) -> tuple[Metadata, ...]:
        return tuple(c for c in self.columns if isinstance(c, Metadata))

    @property
    def writable(self) -> tuple[Column, ...]:
        """What INSERT INTO must supply: all but computed and VIRTUAL columns, in order."""
        return tuple(
            c
            for c in self.columns
            if not isinstance(c, Computed) and not (isinstance(c, Metadata) and c.virtual)
        )

    def column(self, name: str) -> Column | None:
        return next((c for c in self.columns if c.name == name), None)


@dataclass(frozen=True)
class Connector:
    """Base of the typed, checked table specs: one subclass per connector, in its own module."""

    @property
    def is_bounded(self) -> bool:
        """Whether reading the table comes to an end by itself."""
        return False

    @property
    def is_looked_up(self) -> bool:
        """Whether a join in processing time may look for rows in it."""
        return False

    @property
    def source_mode(self) -> ChangelogMode:
        """The kinds of rows that a scan of the table emits."""
        return INSERT_ONLY

    @property
    def has_unique_rows(self) -> bool:
        """Whether a scan's rows of one PRIMARY KEY are one row and its changes."""
        return True

    @property
    def sink_mode(self) -> ChangelogMode:
        """The kinds of rows that the table takes as a sink."""
        return INSERT_ONLY


@dataclass(frozen=True)
class Unusable(Connector):
    """Stands for options that were wrong, so that queries over the table's columns can be checked all the same."""

    @property
    def sink_mode(self) -> ChangelogMode:
        return ALL_CHANGES


@dataclass(frozen=True)
class ObjectPath:
    """The whole name of a table, view or function."""

    catalog: str
    database: str
    name: str

    def __str__(self) -> str:
        return f"{self.catalog}.{self.database}.{self.name}"

    @property
    def quoted(self) -> str:
        return ".".join(
            "`" + part.replace("`", "``") + "`" for part in (self.catalog, self.database, self.name)
        )

    @property
    def label(self) -> str:
        """The name alone where catalog and database are those that a script starts in."""
        is_default = (self.catalog, self.database) == (DEFAULT_CATALOG, DEFAULT_DATABASE)
        return self.name if is_default else str(self)


@dataclass(frozen=True)
class _Named:
    @property
    def path(self) -> ObjectPath:
        return ObjectPath(self.catalog, self.database, self.name)  # type: ignore[attr-defined]

    @property
    def identifier(self) -> str:
        return str(self.path)


@dataclass(frozen=True)
class Table(_Named):
    name: str
    schema: Schema
    connector: Connector
    span: Span | None = field(default=None, compare=False, repr=False)
    """The table's name in its CREATE statement."""
    catalog: str = DEFAULT_CATALOG
    database: str = DEFAULT_DATABASE
    statement: ast.CreateTable | None = field(default=None, compare=False, repr=False)
    """What it was made from, LIKE and ALTER worked in: LIKE, ALTER and SHOW CREATE start from here."""


@dataclass(frozen=True)
class View(_Named):
    """A query by name."""

    name: str
    columns: tuple[str, ...]
    query: ast.Query
    span: Span | None = field(default=None, compare=False, repr=False)
    catalog: str = DEFAULT_CATALOG
    database: str = DEFAULT_DATABASE
    statement: ast.CreateView | None = field(default=None, compare=False, repr=False)
    made_in: tuple[str, str] = (DEFAULT_CATALOG, DEFAULT_DATABASE)
    """The catalog and database that short names in the query count from."""

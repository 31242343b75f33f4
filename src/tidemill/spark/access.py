"""How the clients of a job get in: the properties of a table's client, as the kernel is given them.

In: a table, whose properties are those that the script says. Out: what the client is to be told. Law: a table's
properties reach the JVM by `Access.properties` and in no other way; plans, fingerprints and answers hold what was
written.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from tidemill.errors import SECRET_WORDS, TidemillError
from tidemill.spark.client_files import shipped
from tidemill.spark.java import java_class
from tidemill.tables.catalog import Table
from tidemill.tables.jdbc import JdbcTable
from tidemill.tables.kafka import TopicTable, repair_property, resolved_properties
from tidemill.tables.logins import Logins
from tidemill.tables.options import MASK, holds_secret
from tidemill.tables.references import client_value, resolved_options

# The secret inside a JAAS line.
_QUOTED = re.compile(rf"""(?:{SECRET_WORDS})\w*\s*=\s*"((?:[^"\\]|\\.)+)\"""", re.IGNORECASE)
_SHORTEST = 3


@dataclass(frozen=True)
class Access:
    """What a job's clients need beside the properties of their tables."""

    settings: Mapping[str, object] = field(default_factory=dict, hash=False, repr=False)
    """The job's."""
    logins: Logins = field(default_factory=Logins, compare=False, repr=False)
    """Named authentications, and the files that settings name."""
    ships: bool = False
    """Whether tasks run where this machine's files are not."""
    owner: str = field(default_factory=lambda: uuid.uuid4().hex)
    """By which the kernel knows what it keeps for the job."""

    def properties(self, connector: TopicTable) -> dict[str, str]:
        """What the client of a table is told, wherever it is."""
        told = self.local_properties(connector)
        return shipped(told) if self.ships else told

    def local_properties(self, connector: TopicTable) -> dict[str, str]:
        """The same with paths of this machine."""
        told = self.logins.with_named(resolved_properties(connector.properties), connector)
        # What stands behind a reference may have the slips that a script's own text has.
        told = {name: repair_property(name, value)[0] for name, value in told.items()}
        return self.logins.with_kerberos(told, self.settings)

    def servers(self, connector: TopicTable) -> str:
        """The addresses of a table's brokers."""
        return client_value("bootstrap.servers", connector.bootstrap_servers)

    def scrubbed(self, text: str, tables: Iterable[Table]) -> str:
        """What somebody else's code says, who may quote what it was told, without the secrets of the tables."""
        for secret in sorted(self._secrets(tables), key=len, reverse=True):
            text = text.replace(secret, MASK)
        return text

    def _secrets(self, tables: Iterable[Table]) -> set[str]:
        told: list[tuple[str, object]] = []
        for table in tables:
            # A file with a secret may be gone by now; then nobody was told it since.
            with suppress(TidemillError):
                match table.connector:
                    case TopicTable() as connector:
                        told += self.properties(connector).items()
                        for spec in (connector.key_format, connector.value_format):
                            told += resolved_options(spec.options).items() if spec else ()
                    case JdbcTable() as database:
                        resolved = database.resolved
                        told += [("password", resolved.password), ("password", resolved.url)]
        found = set()
        for key, value in told:
            pairs = value.items() if isinstance(value, Mapping) else [(key, value)]
            for name, text in pairs:
                if isinstance(text, str) and holds_secret(name, text):
                    found |= {text, *(m[1] for m in _QUOTED.finditer(text))}
        return {text for text in found if len(text) >= _SHORTEST}

    # Spark shows the options of a data source in plans, in its event log and on its pages, and a spec has properties.

    def hidden(self, spark: SparkSession, spec: Mapping[str, Any]) -> str:
        """A key for a spec, which the kernel finds by it."""
        return str(java_class(spark, "io.tidemill.Vault").keep(self.owner, json.dumps(spec)))

    def forget(self, spark: SparkSession) -> None:
        """The job is over, and nobody will ask for its specs again."""
        java_class(spark, "io.tidemill.Vault").forget(self.owner)

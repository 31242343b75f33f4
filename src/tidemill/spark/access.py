"""How the clients of a job get in: the properties of a table's client, as the kernel is given them.

In: a table, whose properties are those that the script says. Out: what the client is to be told. Law: a table's
properties reach the JVM by `Access.properties` and in no other way; plans, fingerprints and answers hold what was
written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidemill.tables.kafka import TopicTable


@dataclass(frozen=True)
class Access:
    """What a job's clients need beside the properties of their tables."""

    settings: Mapping[str, object] = field(default_factory=dict, hash=False, repr=False)
    """The job's."""

    def properties(self, connector: TopicTable) -> dict[str, str]:
        """What the client of a table is told."""
        return dict(connector.properties)

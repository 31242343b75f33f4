"""Row kinds and changelog modes, with Flink's names and numbers."""

from __future__ import annotations

from enum import IntEnum

KIND_COLUMN = "_kind"
"""The hidden column that carries a row's kind from scan to sink, as a TINYINT."""
ORIGIN_COLUMN = "_origin"
"""The hidden column that tells the partition that a row came from, by a number that stays the same: an INT."""
ORDER_COLUMN = "_order"
"""The hidden column that tells a row's place in its partition, the offset of its record: a BIGINT. Rows of one record
have the same, and leave their scan one after the other."""


class RowKind(IntEnum):
    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    @property
    def symbol(self) -> str:
        return _SYMBOLS[self]


TAKES_BACK = (RowKind.UPDATE_BEFORE, RowKind.DELETE)
"""The kinds of a row that goes."""

_SYMBOLS = ("+I", "-U", "+U", "-D")
_NAMES = ("I", "UB", "UA", "D")


class ChangelogMode(frozenset[RowKind]):
    """The kinds that may travel along an edge of a plan."""

    def __str__(self) -> str:
        return "[" + ",".join(self.names) + "]"

    @property
    def names(self) -> list[str]:
        """As Flink's plans print the kinds."""
        return [_NAMES[kind] for kind in sorted(self)]

    @property
    def insert_only(self) -> bool:
        return self <= {RowKind.INSERT}


INSERT_ONLY = ChangelogMode({RowKind.INSERT})
UPSERT = ChangelogMode({RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE})
ALL_CHANGES = ChangelogMode(RowKind)

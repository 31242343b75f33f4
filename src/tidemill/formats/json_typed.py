"""JSON documents that are just what their table says, by msgspec: the wanted fields alone, their types checked in
reading. That is twice as fast as documents turned into dicts (docs/performance.md).

In: some documents; out: one list of values per field, or None when one of the documents is anything else, and then
nothing is said about which and why. Law: where it answers, it answers as the exact way would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, Union

import msgspec
import pyarrow as pa

from tidemill import types as t

Values = list[Any]

# What a field of a type may hold. FLOAT is not here: a number of many digits must be rounded once, not twice. Types
# with parts and the numbers of DECIMAL come as they are, and their columns look for themselves.
_KINDS: dict[type[t.SqlType], type] = {
    t.BooleanType: bool,
    t.TinyIntType: int,
    t.SmallIntType: int,
    t.IntType: int,
    t.BigIntType: int,
    t.DoubleType: float,
    t.CharType: str,
    t.VarCharType: str,
    t.DateType: str,
    t.TimeType: str,
    t.TimestampType: str,
    t.TimestampLtzType: str,
    t.BinaryType: str,
    t.VarBinaryType: str,
}

_OTHERWISE = (msgspec.MsgspecError, ValueError, TypeError, RecursionError)

# After a batch of documents of another kind, so many are not tried at first; then twice as many, up to the most.
_FIRST_REST, _MOST_REST = 1, 64


def struct_of(fields: Sequence[t.Field], *, tells_absent: bool = False) -> Any:
    """A struct for objects with the fields, as its attributes f0, f1, …: an absent one is None, or UNSET if that is to
    be told from null."""
    absent = msgspec.UNSET if tells_absent else None
    more = msgspec.UnsetType if tells_absent else None
    names = [f"f{i}" for i in range(len(fields))]
    kinds = [_KINDS.get(type(f.type)) for f in fields]
    return msgspec.defstruct(
        "Row",
        [
            (name, Union[kind, None, more] if kind else Any, absent)  # noqa: UP007
            for name, kind in zip(names, kinds, strict=True)
        ],
        rename=dict(zip(names, (f.name for f in fields), strict=True)),
        gc=False,
        eq=False,
    )


def columns_of(fields: Sequence[t.Field]) -> list[Callable[[Any], Any]]:
    """What takes each field out of such a struct."""
    return [attrgetter(f"f{i}") for i in range(len(fields))]


class StructReader:
    """Documents as structs; after a batch that is not of that kind it is not tried for a while."""

    def __init__(self, struct: Any) -> None:
        self._read: Callable[[bytes], Any] = msgspec.json.Decoder(struct).decode
        self._rest = self._skipped = 0

    def read(self, values: Any, documents: Iterable[bytes | None]) -> list[Any] | None:
        if self._skipped < self._rest:
            self._skipped += 1
            return None
        try:
            # msgspec does not look into texts that nobody wants; a document must be UTF-8 all the same.
            values.cast(pa.string())
            found = list(map(self._read, documents))  # type: ignore[arg-type]
        except _OTHERWISE:
            self._rest = min(max(2 * self._rest, _FIRST_REST), _MOST_REST)
            self._skipped = 0
            return None
        self._rest = 0
        return found


class TypedReader:
    def __init__(self, fields: Sequence[t.Field]) -> None:
        self._reader = StructReader(struct_of(fields))
        self._columns = columns_of(fields)

    def read(self, values: Any, documents: Sequence[bytes | None]) -> list[Values] | None:
        rows = self._reader.read(values, documents)
        if rows is None:
            return None
        return [list(map(column, rows)) for column in self._columns]

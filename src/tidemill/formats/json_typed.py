"""JSON documents that are just what their table says, by msgspec: the wanted fields alone, their types checked in
reading. That is twice as fast as documents turned into dicts (docs/performance.md).

In: some documents; out: one list of values per field, or None when one of the documents is anything else, and then
nothing is said about which and why. Law: where it answers, it answers as the exact way would.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


class TypedReader:
    def __init__(self, fields: Sequence[t.Field]) -> None:
        kinds = [_KINDS.get(type(f.type)) for f in fields]
        names = [f"f{i}" for i in range(len(fields))]
        struct = msgspec.defstruct(
            "Document",
            [
                (name, Union[kind, None] if kind else Any, None)  # noqa: UP007
                for name, kind in zip(names, kinds, strict=True)
            ],
            rename=dict(zip(names, (f.name for f in fields), strict=True)),
            gc=False,
        )
        self._read: Callable[[bytes], Any] = msgspec.json.Decoder(struct).decode
        self._columns = [attrgetter(name) for name in names]
        self._rest = self._skipped = 0

    def read(self, values: Any, documents: Sequence[bytes | None]) -> list[Values] | None:
        if self._skipped < self._rest:
            self._skipped += 1
            return None
        try:
            # msgspec does not look into texts that nobody wants; a document must be UTF-8 all the same.
            values.cast(pa.string())
            rows = list(map(self._read, documents))  # type: ignore[arg-type]
        except _OTHERWISE:
            self._rest = min(max(2 * self._rest, _FIRST_REST), _MOST_REST)
            self._skipped = 0
            return None
        self._rest = 0
        return [list(map(column, rows)) for column in self._columns]

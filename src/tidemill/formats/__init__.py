"""Formats: bytes ⇄ Arrow columns. Knows neither Kafka nor Spark.

A format is a module, or a plug-in of another package, with `decoder(...)` and `encoder(...)`; its option table is in
`tidemill.tables.formats`.
Law: a decoder never raises for what a record holds; it returns a BadRecord with the record's index and lets
its caller, who knows topic, partition and offset, decide what happens.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from tidemill.types import Field


@dataclass(frozen=True, slots=True)
class BadRecord:
    index: int
    """Position in the decoded array."""
    field: str | None
    """Path of the offending field (`a.b`), or None when the document itself is unreadable."""
    reason: str

    def __post_init__(self) -> None:
        # Both may quote the record, and half a character cannot be shown.
        for name in ("field", "reason"):
            text = getattr(self, name)
            if text is not None and not text.isascii():
                object.__setattr__(self, name, text.encode("utf-8", "replace").decode())


@dataclass(slots=True)
class Decoded:
    """The rows of one batch of records."""

    columns: list[pa.Array]
    """One array per requested field, all of the same length."""
    records: pa.Array | None = None
    """int32: for each row the record it came from; None means row i came from record i."""
    kinds: pa.Array | None = None
    """int8 row kinds; None means every row is an insert."""
    bad: list[BadRecord] = field(default_factory=list)
    """In record order. A bad record gives no row."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Counted, named losses that the format's own options ask for (`json.ignore-parse-errors`)."""
    nulled: int = 0
    """Values that are NULL because they cannot be read, where the format's options ask for that."""


class Decoder(Protocol):
    def decode(self, values: pa.Array) -> Decoded:
        """Decode a `binary` array; null entries are null Kafka values."""
        ...


class Encoder(Protocol):
    def encode(self, columns: Sequence[pa.Array]) -> pa.Array:
        """Encode rows, given as one array per field, to a `binary` array."""
        ...


class ChangeEncoder(Encoder, Protocol):
    """The encoder of a format that can tell what happened to a row."""

    def encode(self, columns: Sequence[pa.Array], kinds: pa.Array | None = None) -> pa.Array:
        """`kinds` is an int8 array of row kinds; without it all rows are inserts."""
        ...


# What a record that gives no row was, as losses call it.
NULL_VALUE = "null value"
UNREADABLE = "unreadable document"


class Remade:
    """A decoder or encoder that travels as what it was made of, and is made again on the other side."""

    _made_of: tuple[object, ...]

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self._made_of


class Format(Protocol):
    """What a format offers."""

    def decoder(
        self,
        fields: Sequence[Field],
        options: Mapping[str, object],
        wanted: Sequence[str] | None = None,
    ) -> Decoder:
        """`fields` is the full row type of the key or value; `wanted` names the fields to return, in that order.

        A format with metadata of its own takes one more argument, the keys of those that are wanted: their columns
        come after those of the fields.
        """
        ...

    def encoder(self, fields: Sequence[Field], options: Mapping[str, object]) -> Encoder: ...


def format_module(name: str) -> Any:
    """The module, or the plug-in, of a format by the name that tables know it by."""
    module = f"tidemill.formats.{name.replace('-', '_')}"
    found = importlib.import_module(module) if importlib.util.find_spec(module) else None
    # Not every module here is a format.
    if hasattr(found, "decoder"):
        return found
    from tidemill.formats.plugin import PluginFormat

    return PluginFormat.load(name)

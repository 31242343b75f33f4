"""Constraints of a sink: what its columns take.

In: batches of rows on their way to a table. Out: the batches, with every constraint kept. Law: Flink's constraint
enforcer. A NULL where none may be stops the job or costs its row; a value of another length than its type says passes,
is cut and padded, or stops the job. Columns are judged as a whole: a single value is looked at only to name it in a
message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidemill.changelog import KIND_COLUMN, TAKES_BACK
from tidemill.plan.nodes import Enforcement
from tidemill.spark.counting import Count
from tidemill.spark.faults import RecordFault
from tidemill.types import (
    MAX_LENGTH,
    ArrayType,
    BinaryType,
    CharType,
    Field,
    MapType,
    RowType,
    SqlType,
    VarBinaryType,
    VarCharType,
)

if TYPE_CHECKING:
    import pyarrow as pa

Name = Callable[[int], str]
"""What a message calls the value at a place of an array."""

_LENGTHED = (CharType, VarCharType, BinaryType, VarBinaryType)
_PADDED = (CharType, BinaryType)


@dataclass(frozen=True)
class Constraints:
    """What the physical columns of a table take."""

    table: str
    columns: tuple[tuple[str, Field], ...]
    """Columns of the batch, with their names and types in the script."""
    enforcement: Enforcement = Enforcement()
    dropped: Count | None = field(default=None, hash=False, compare=False)
    """Counts the rows that are left out for a NULL where none may be; None stops the job at the first."""
    key: frozenset[str] | None = None
    """Of a table that is written by its key, the key: of a row that goes, no other column is written."""

    @property
    def is_trivial(self) -> bool:
        """Whether every row keeps them."""
        return self.enforcement == Enforcement() and all(
            declared.type.nullable for _, declared in self.columns
        )

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return map(self.enforce, batches)

    def enforce(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow.compute as pc

        for column, declared in self.columns:
            if not declared.type.nullable and batch.column(column).null_count:
                holes = batch.column(column).is_null()
                if self.key is not None and declared.name not in self.key:
                    holes = pc.and_not(holes, takes_back(batch))
                if pc.any(holes).as_py():
                    batch = self._without(batch, declared.name, holes)
        for column, declared in self.columns:
            named = _always(declared.name)
            holes = self._holes(batch.column(column), declared.type, named)
            if holes is not None and pc.any(holes).as_py():
                batch = self._without(batch, declared.name, holes)
            values = batch.column(column)
            fitted = self._fitted(values, declared.type, named)
            if fitted is not values:
                batch = batch.set_column(batch.schema.get_field_index(column), column, fitted)
        return batch

    # --- NOT NULL ----------------------------------------------------------------------------

    def _without(self, batch: pa.RecordBatch, name: str, holes: Any) -> pa.RecordBatch:
        import pyarrow.compute as pc

        if self.dropped is None:
            raise self.refusal(name)
        self.dropped(f"NULL in {name}", pc.sum(holes).as_py())
        return batch.filter(pc.invert(holes))

    def refusal(self, name: str) -> RecordFault:
        """What is said of a NULL where none may be."""
        return RecordFault(
            "RUN-011",
            f"Column '{name}' is NOT NULL, however, a null value is being written into it"
            f" (table '{self.table}')",
            f"filter such rows out: WHERE {name} IS NOT NULL, or SET"
            " 'table.exec.sink.not-null-enforcer' = 'DROP'",
        )

    def _holes(self, values: Any, type_: SqlType, name: Name) -> Any | None:
        """Which values have a NULL inside of them where none may be; None: there can be none."""
        import pyarrow.compute as pc

        mask = None
        for part in self._parts(values, type_, name):
            holes = self._holes(part.values, part.type, part.name)
            if not part.type.nullable and part.values.null_count:
                # Of a row that is NULL itself there is nothing to miss.
                missing = pc.and_(part.values.is_null(), part.is_there)
                if self.dropped is None and pc.any(missing).as_py():
                    raise self.refusal(part.name(pc.index(missing, True).as_py()))
                holes = missing if holes is None else pc.or_(holes, missing)
            if holes is not None:
                found = part.rows(holes)
                mask = found if mask is None else pc.or_(mask, found)
        return mask

    # --- lengths -----------------------------------------------------------------------------

    def _fitted(self, values: Any, type_: SqlType, name: Name) -> Any:
        """The values in the lengths of their type; the same object if nothing had to be done."""
        import pyarrow as pa

        if self.enforcement.lengths == "IGNORE":
            return values
        if isinstance(type_, _LENGTHED):
            return values if type_.length == MAX_LENGTH else self._in_length(values, type_, name)
        parts = list(self._parts(values, type_, name))
        fitted = [self._fitted(part.values, part.type, part.name) for part in parts]
        if all(new is part.values for new, part in zip(fitted, parts, strict=True)):
            return values
        # Only rows come here: nothing is cut inside of a collection.
        return pa.StructArray.from_arrays(fitted, fields=list(values.type), mask=values.is_null())

    def _in_length(self, values: Any, type_: SqlType, name: Name) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        assert isinstance(type_, _LENGTHED)
        is_text = isinstance(type_, CharType | VarCharType)
        lengths = pc.utf8_length(values) if is_text else pc.binary_length(values)
        wrong = pc.greater(lengths, type_.length)
        if isinstance(type_, _PADDED):
            wrong = pc.or_(wrong, pc.less(lengths, type_.length))
        if not pc.any(wrong).as_py():
            return values
        if self.enforcement.lengths == "ERROR":
            at = pc.index(wrong, True).as_py()
            raise RecordFault(
                "RUN-013",
                f"Column '{name(at)}' is {type_.full}, however, a string of length {lengths[at]} is being written"
                f" into it (table '{self.table}')",
                "SET 'table.exec.sink.type-length-enforcer' = 'TRIM_PAD' cuts and pads such values, 'IGNORE' writes"
                " them as they are",
            )
        if is_text:
            cut = pc.utf8_slice_codeunits(values, 0, type_.length)
            return pc.utf8_rpad(cut, type_.length, " ") if isinstance(type_, CharType) else cut
        if isinstance(type_, BinaryType):
            zeros = pa.scalar(bytes(type_.length), values.type)
            values = pc.binary_join_element_wise(values, zeros, pa.scalar(b"", values.type))
        return pc.binary_slice(values, 0, type_.length)

    # --- what is inside of values ------------------------------------------------------------

    def _parts(self, values: Any, type_: SqlType, name: Name) -> Iterator[_Part]:
        """The fields of rows, the elements of arrays, the keys and values of maps, as far as they are judged."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self.enforcement.nested == "IGNORE":
            return
        if isinstance(type_, RowType):
            is_there = values.is_valid()
            for inner, part in zip(type_.fields, values.flatten(), strict=True):
                yield _Part(part, inner.type, _inside(name, f".{inner.name}"), is_there)
        if self.enforcement.nested == "ROWS" or not isinstance(type_, ArrayType | MapType):
            return
        if pa.types.is_map(values.type):
            # Arrow's functions for lists take no maps.
            entry = pa.struct([values.type.key_field, values.type.item_field])
            values = values.cast(pa.list_(entry))
        rows, flat = pc.list_parent_indices(values), values.flatten()
        is_there = pa.repeat(True, len(flat))
        if isinstance(type_, ArrayType):
            yield _Part(flat, type_.element, _element(name, rows), is_there, rows, len(values))
            return
        for side, part, inner_type in zip(
            ("key", "value"), flat.flatten(), (type_.key, type_.value), strict=True
        ):
            yield _Part(part, inner_type, _entry(name, rows, side), is_there, rows, len(values))


@dataclass(frozen=True)
class _Part:
    """Values inside of other values."""

    values: Any
    type: SqlType
    name: Name
    is_there: Any
    """Where what they are inside of is not NULL."""
    parents: Any | None = None
    """Which of the outer values each is in; None: the one at the same place."""
    number: int = 0
    """How many outer values there are."""

    def rows(self, mask: Any) -> Any:
        """The outer values that a mask of these is about."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self.parents is None:
            return mask
        places = pa.array(range(self.number), self.parents.type)
        return pc.is_in(places, value_set=self.parents.filter(mask))


def takes_back(batch: pa.RecordBatch) -> Any:
    """Which rows of a batch go."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if KIND_COLUMN not in batch.schema.names:
        return pa.repeat(False, batch.num_rows)
    kinds = pa.array([int(kind) for kind in TAKES_BACK], pa.int8())
    return pc.is_in(batch.column(KIND_COLUMN), kinds)


def _always(name: str) -> Name:
    return lambda at: name


def _inside(outer: Name, more: str) -> Name:
    return lambda at: outer(at) + more


def _element(outer: Name, rows: Any) -> Name:
    def name(at: int) -> str:
        import pyarrow.compute as pc

        return f"{outer(rows[at].as_py())}[{at - pc.index(rows, rows[at]).as_py()}]"

    return name


def _entry(outer: Name, rows: Any, side: str) -> Name:
    return lambda at: f"{outer(rows[at].as_py())}[{side}]"

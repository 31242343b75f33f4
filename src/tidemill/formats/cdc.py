"""Changes of a database in JSON: what Debezium, Canal, Maxwell and GoldenGate have in common.

In: documents that hold rows in an envelope, which tells what happened to them; out: the rows with their kinds and what
the envelope tells beside them. A format is an `Envelope`: where the rows are, by which word, and what is metadata. The
rows are read as the `json` format reads them.
Law: the rows of a record come together or not at all; an update gives the row before and then the row after; what
`old` does not name is as it was in that same row, and what it says is null was null.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress
from operator import attrgetter
from typing import Any, Protocol, Union

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tidemill import types as t
from tidemill.changelog import RowKind
from tidemill.formats import NULL_VALUE, Decoded, Remade, json_exact
from tidemill.formats.arrow_text import Unsure
from tidemill.formats.json import (
    DEFAULTS,
    NO_ROWS,
    Chunk,
    Column,
    Fast,
    JsonDecoder,
    JsonEncoder,
    Settings,
    Values,
    column_of,
    count,
)
from tidemill.formats.json_exact import Mismatch
from tidemill.formats.json_typed import StructReader, columns_of, struct_of

Row = dict[str, Any]
Change = tuple[int, Row]

INSERT, BEFORE, AFTER, DELETE = (int(kind) for kind in RowKind)

DDL = "DDL event"
NOT_INCLUDED = "record of another table"


class Skipped(Exception):
    """A record that holds no rows for this table; says why."""


# ---- metadata --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Told:
    """Something that an envelope tells about its rows."""

    place: tuple[str, ...]
    """Its path in the envelope."""
    type: t.SqlType
    """The type as which it is read; `epoch` and `texts` make a time of it."""
    epoch: int | None = None
    """Microseconds in one unit of a number that is a time since 1970."""
    texts: Callable[[str], int | None] | None = None
    """Reads the text of a time as microseconds since 1970."""
    above: bool = False
    """Whether it stands beside the payload, not in it."""

    def column(self, payload: tuple[str, ...], settings: Settings) -> Column:
        place = self.place if self.above else (*payload, *self.place)
        read = column_of(t.Field(".".join(place), self.type), settings)
        if self.epoch is not None:
            fast, convert = _epoch(self.epoch, read.convert)
        elif self.texts is not None:
            fast, convert = _never, _from_text(self.texts)
        else:
            return Column(read.name, read.arrow, read.fast, None, read.convert, place)
        return Column(read.name, pa.timestamp("us", tz="UTC"), fast, None, convert, place)


_MOST_MICROS = 2**63 - 1


def _epoch(unit: int, integer: json_exact.Convert) -> tuple[Fast, json_exact.Convert]:
    most = _MOST_MICROS // unit

    def fast(values: Values, _: Chunk) -> Any:
        if not {int, type(None)}.issuperset(map(type, values)):
            raise Unsure
        numbers = pa.array(values, pa.int64())
        if (pc.max(pc.abs_checked(numbers)).as_py() or 0) > most:
            raise Unsure
        return pc.cast(pc.multiply(numbers, unit), pa.timestamp("us", tz="UTC"))

    def convert(value: object) -> object:
        number = integer(value)
        assert isinstance(number, int)
        if abs(number) > most:
            raise Mismatch(f"expected a time since 1970 but found {json_exact.shown(value)}")
        return number * unit

    return fast, convert


def _never(values: Values, _: Chunk) -> Any:
    raise Unsure


def _from_text(parse: Callable[[str], int | None]) -> json_exact.Convert:
    def convert(value: object) -> object:
        if isinstance(value, str):
            try:
                return parse(value)
            except ValueError:
                pass
        shown = json_exact.shown(value)
        raise Mismatch(f"expected 'yyyy-MM-dd HH:mm:ss[.f]' but found {shown}")

    return convert


# ---- envelopes -------------------------------------------------------------------------------------------


class Envelope(Protocol):
    """What is around the rows of a document."""

    @property
    def metadata(self) -> Mapping[str, Told]:
        """By key, without the `value.` that a table writes before it."""
        ...

    def payload(self, options: Mapping[str, object]) -> tuple[str, ...]:
        """The path from the document to the envelope."""
        ...

    def opener(self, options: Mapping[str, object]) -> Callable[[Row], list[Change]]:
        """Takes the changes out of an envelope; raises Mismatch or Skipped."""
        ...

    def reader(self, fields: Sequence[t.Field], told: Sequence[Told]) -> Reader | None:
        """The same for envelopes that are just what the table says; None where that cannot be."""
        ...

    def written(self, with_nulls: bool) -> tuple[Around, Around]:
        """What is written before and after a row that is there, and one that is gone."""
        ...


Around = tuple[str, str]


def _object(payload: Row, name: str) -> Row:
    found = payload[name]
    if type(found) is not dict:
        raise Mismatch(f"expected an object but found {json_exact.shown(found)}", name)
    return found


def _word(payload: Row, name: str) -> str:
    word = payload.get(name)
    if word is None:
        hint = ""
        if "payload" in payload:
            hint = ", but there is a \"payload\": 'schema-include' = 'true' reads the rows in it"
        raise Mismatch(f'there is no "{name}", which tells what happened to the row{hint}', name)
    return word if isinstance(word, str) else json_exact.shown(word)


@dataclass(frozen=True)
class BeforeAfter:
    """The whole row before, the whole row after, and a word."""

    name: str
    word: str
    inserts: tuple[str, ...]
    update: str
    delete: str
    metadata: Mapping[str, Told] = field(hash=False)
    payload_option: str | None = None
    """The option by which the envelope is in a field `payload`."""

    def payload(self, options: Mapping[str, object]) -> tuple[str, ...]:
        inside = self.payload_option is not None and options.get(self.payload_option)
        return ("payload",) if inside else ()

    def opener(self, options: Mapping[str, object]) -> Callable[[Row], list[Change]]:
        sides: dict[str, tuple[tuple[int, str], ...]] = {
            **{word: ((INSERT, "after"),) for word in self.inserts},
            self.update: ((BEFORE, "before"), (AFTER, "after")),
            self.delete: ((DELETE, "before"),),
        }

        def opened(payload: Row) -> list[Change]:
            word = _word(payload, self.word)
            if word not in sides:
                raise Mismatch(f'unknown "{self.word}" value "{word}"', self.word)
            return [(kind, self._side(payload, side, word)) for kind, side in sides[word]]

        return opened

    def _side(self, payload: Row, side: str, word: str) -> Row:
        if payload.get(side) is not None:
            return _object(payload, side)
        reason = f'"{side}" is null in a record with "{self.word}" = "{word}"'
        if side == "before":
            reason += (
                f": what {self.name} cannot see, it cannot write; for Postgres,"
                " ALTER TABLE … REPLICA IDENTITY FULL makes it visible"
            )
        raise Mismatch(reason, side)

    def reader(self, fields: Sequence[t.Field], told: Sequence[Told]) -> Reader | None:
        if any(x.above for x in told):
            return None
        row = struct_of(fields)
        sides = (self.word, ("before", row), ("after", row))
        kinds: Kinds = {
            **{word: (None, INSERT) for word in self.inserts},
            self.update: (BEFORE, AFTER),
            self.delete: (DELETE, None),
        }
        return Reader.of(sides, kinds, columns_of(fields), told)

    def written(self, with_nulls: bool) -> tuple[Around, Around]:
        before, after = ('"before":null,', ',"after":null') if with_nulls else ("", "")
        return (
            (f'{{{before}"after":', f',"{self.word}":"{self.inserts[0]}"}}'),
            ('{"before":', f'{after},"{self.word}":"{self.delete}"}}'),
        )


@dataclass(frozen=True)
class DataOld:
    """The row as it is now, of an update what was different before, and a word."""

    insert: str
    update: str
    delete: str
    metadata: Mapping[str, Told] = field(hash=False)
    several: bool = False
    """Whether a record has a list of rows."""
    skipped: tuple[str, ...] = ()
    """Words of records without rows."""
    filters: tuple[tuple[str, str], ...] = ()
    """Options with a pattern for the value of a field."""

    def payload(self, options: Mapping[str, object]) -> tuple[str, ...]:
        return ()

    def opener(self, options: Mapping[str, object]) -> Callable[[Row], list[Change]]:
        patterns = [
            (name, re.compile(str(pattern), re.ASCII))
            for option, name in self.filters
            if (pattern := options.get(option)) is not None
        ]
        kinds = {self.insert: INSERT, self.update: AFTER, self.delete: DELETE}

        def opened(payload: Row) -> list[Change]:
            for name, pattern in patterns:
                if name not in payload:
                    raise Mismatch(f'there is no "{name}" to look for', name)
                if not pattern.fullmatch(json_exact.text_of(payload[name])):
                    raise Skipped(NOT_INCLUDED)
            word = _word(payload, "type")
            if word in self.skipped:
                raise Skipped(DDL)
            if word not in kinds:
                raise Mismatch(f'unknown "type" value "{word}"', "type")
            rows = self._rows(payload, "data")
            if word != self.update:
                return [(kinds[word], row) for row in rows]
            changes: list[Change] = []
            old = self._rows(payload, "old")
            if len(old) < len(rows):
                raise Mismatch(f"there are {len(old)} for {len(rows)} rows of data", "old")
            for row, changed in zip(rows, old, strict=False):
                changes += [(BEFORE, {**row, **changed}), (AFTER, row)]
            return changes

        return opened

    def _rows(self, payload: Row, name: str) -> list[Row]:
        if payload.get(name) is None:
            raise Mismatch(f'"{name}" is null', name)
        if not self.several:
            return [_object(payload, name)]
        found = payload[name]
        if type(found) is not list:
            raise Mismatch(f"expected an array but found {json_exact.shown(found)}", name)
        for place, row in enumerate(found):
            if type(row) is not dict:
                what = json_exact.shown(row)
                raise Mismatch(f"expected an object but found {what}", f"{name}[{place}]")
        return found

    def reader(self, fields: Sequence[t.Field], told: Sequence[Told]) -> Reader | None:
        if self.several or self.filters:
            return None  # Canal writes every value as a text, which no struct of the table's types takes
        old = struct_of(fields, tells_absent=True)
        sides = ("type", ("old", old), ("data", struct_of(fields)))
        kinds = {
            self.insert: (None, INSERT),
            self.update: (BEFORE, AFTER),
            self.delete: (None, DELETE),
        }
        return Reader.of(sides, kinds, columns_of(fields), told)

    def written(self, with_nulls: bool) -> tuple[Around, Around]:
        opening, closing = ('{"data":[', "]") if self.several else ('{"data":', "")
        return (
            (opening, f'{closing},"type":"{self.insert}"}}'),
            (opening, f'{closing},"type":"{self.delete}"}}'),
        )


# ---- envelopes of the table's types ----------------------------------------------------------------------


Sides = tuple[str, tuple[str, Any], tuple[str, Any]]
"""The field with the word; then name and struct of the side that comes first in an update, and of the other."""

Kinds = Mapping[str, tuple[int | None, int | None]]
"""For each word the kinds of both sides; None is a side that is not looked at."""


def _envelope_struct(sides: Sides, told: Sequence[Told]) -> Any:
    """A struct for the envelope, with an attribute t0, t1, … for each thing it tells; None if one of them is nothing
    that a struct can check."""
    kinds: dict[type[t.SqlType], type] = {t.BigIntType: int, t.VarCharType: str}
    word, *rows = sides
    members: list[Any] = [("word", str)]
    names = {"word": word}
    for attribute, (name, row) in zip(("first", "second"), rows, strict=True):
        members.append((attribute, Union[row, None], None))  # noqa: UP007
        names[attribute] = name
    inner: dict[str, list[tuple[str, str, Any]]] = {}
    for i, what in enumerate(told):
        kind: Any = kinds.get(type(what.type))
        if kind is None or len(what.place) > 2:
            return None
        typed = Union[kind, None]  # noqa: UP007
        if len(what.place) == 1:
            members.append((f"t{i}", typed, None))
            names[f"t{i}"] = what.place[0]
        else:
            inner.setdefault(what.place[0], []).append((f"t{i}", what.place[1], typed))
    for outer, parts in inner.items():
        struct = msgspec.defstruct(
            "Told",
            [(attribute, typed, None) for attribute, _, typed in parts],
            rename={attribute: name for attribute, name, _ in parts},
            gc=False,
            eq=False,
        )
        members.append((f"in_{outer}", Union[struct, None], None))  # noqa: UP007
        names[f"in_{outer}"] = outer
    return msgspec.defstruct("Envelope", members, rename=names, gc=False, eq=False)


def _paired(firsts: Sequence[Any], seconds: Sequence[Any]) -> list[Any]:
    """One of these, one of those."""
    both: list[Any] = [None] * (2 * len(firsts))
    both[::2] = firsts
    both[1::2] = seconds
    return both


class Reader:
    """Chunks whose envelopes are all just what the table says. Rows move as whole lists, for speed."""

    def __init__(
        self,
        struct: Any,
        kinds: Kinds,
        columns: Sequence[Callable[[Any], Any]],
        told: Sequence[Told],
    ) -> None:
        self._kinds, self._columns = kinds, columns
        # For each word, which sides there are, and the place of each among the rows of its record.
        self._used = {word: tuple(k is not None for k in pair) for word, pair in kinds.items()}
        self._places = {word: (0, int(None not in pair)) for word, pair in kinds.items()}
        self._told = [_getter(i, what) for i, what in enumerate(told)]
        self._plain = StructReader(struct)
        wrapped = msgspec.defstruct("Document", [("payload", struct)], gc=False, eq=False)
        self._wrapped = StructReader(wrapped)

    @classmethod
    def of(
        cls,
        sides: Sides,
        kinds: Kinds,
        columns: Sequence[Callable[[Any], Any]],
        told: Sequence[Told],
    ) -> Reader | None:
        struct = _envelope_struct(sides, told)
        return None if struct is None else cls(struct, kinds, columns, told)

    def read(self, chunk: Chunk, in_payload: bool) -> int | None:
        """Fill the chunk and say how many records have no document; None if it is not of that kind."""
        documents, present = chunk.documents, None
        if not all(documents):
            present = [i for i, document in enumerate(documents) if document]
            documents = [documents[i] for i in present]
        found = (self._wrapped if in_payload else self._plain).read(chunk.values, documents)
        if found is None:
            return None
        if in_payload:
            found = [document.payload for document in found]
        words = [envelope.word for envelope in found]
        if not self._kinds.keys() >= set(words):
            return None
        rows, origins, kinds, places = self._split(found, words)
        if None in rows:
            return None  # with the chunk as it was: the exact way fills it from its beginning
        chunk.records = origins if present is None else [present[i] for i in origins]
        chunk.kinds, chunk.places = kinds, places
        chunk.columns = [_completed(list(map(c, rows))) for c in self._columns]
        for told in self._told:
            values = list(map(told, found))
            chunk.columns.append([values[i] for i in origins])
        return len(chunk.documents) - len(found)

    def _split(
        self, found: Sequence[Any], words: Sequence[str]
    ) -> tuple[list[Any], list[int], list[int], list[int | None]]:
        """Rows; of each its envelope, its kind, and its place among the rows of that envelope."""
        firsts = [envelope.first for envelope in found]
        seconds = [envelope.second for envelope in found]
        origins = range(len(found))
        if len(set(words)) == 1:
            pair = self._kinds[words[0]]
            kinds = [kind for kind in pair if kind is not None] * len(found)
            if None not in pair:
                places: list[int | None] = [0, 1] * len(found)
                return _paired(firsts, seconds), _paired(origins, origins), kinds, places
            rows = firsts if pair[1] is None else seconds
            return rows, list(origins), kinds, [0] * len(found)
        used = list(chain.from_iterable(map(self._used.__getitem__, words)))
        both: Any = chain.from_iterable(map(self._kinds.__getitem__, words))
        within = chain.from_iterable(map(self._places.__getitem__, words))
        return (
            list(compress(_paired(firsts, seconds), used)),
            list(compress(_paired(origins, origins), used)),
            list(compress(both, used)),
            list(compress(within, used)),
        )


def _completed(values: Values) -> Values:
    """What a row before an update leaves out is in the row after it, which comes next."""
    if msgspec.UNSET in values:
        for i, value in enumerate(values):
            if value is msgspec.UNSET:
                values[i] = values[i + 1]
    return values


def _getter(index: int, told: Told) -> Callable[[Any], Any]:
    attribute = f"t{index}"
    if len(told.place) == 1:
        return attrgetter(attribute)
    outer = attrgetter(f"in_{told.place[0]}")

    def inner(envelope: Any) -> Any:
        found = outer(envelope)
        return None if found is None else getattr(found, attribute)

    return inner


# ---- decode ----------------------------------------------------------------------------------------------


class ChangeDecoder(JsonDecoder):
    """Columns: the wanted fields, then the wanted metadata."""

    has_kinds = True

    def __init__(
        self,
        envelope: Envelope,
        fields: tuple[t.Field, ...],
        options: dict[str, object],
        wanted: tuple[str, ...] | None,
        metadata: tuple[str, ...],
    ) -> None:
        # Flink reads envelopes through a tree.
        by_tree = {"decode.json-parser.enabled": False, "fail-on-missing-field": False}
        super().__init__(fields, {**options, **by_tree}, wanted)
        self._made_of = (envelope, fields, options, wanted, metadata)
        told = [envelope.metadata[key] for key in metadata]
        self._payload = envelope.payload(options)
        self._open = envelope.opener(options)
        self._reader = envelope.reader(self._fields, told)
        width = len(self._columns)
        self._columns += [what.column(self._payload, self._settings) for what in told]
        self._order += range(width, len(self._columns))

    def _read_typed(self, chunk: Chunk, result: Decoded) -> bool:
        absent = self._reader.read(chunk, bool(self._payload)) if self._reader else None
        if absent:
            count(result, NULL_VALUE, absent)
        return absent is not None

    def _find_rows(self, chunk: Chunk, found: list[Any], result: Decoded) -> None:
        chunk.records, chunk.kinds = [], []
        for record, document in enumerate(found):
            if document is NO_ROWS:
                continue
            try:
                changes = self._changes_in(document)
            except Skipped as skipped:
                count(result, str(skipped))
                continue
            except Mismatch as mismatch:
                self._unreadable(chunk, result, record, mismatch.reason, mismatch.path or None)
                continue
            for place, (kind, row) in enumerate(changes):
                chunk.rows.append(row)
                chunk.kinds.append(kind)
                chunk.records.append(record)
                chunk.places.append(place)
                chunk.heads.append(document)

    def _changes_in(self, document: Any) -> list[Change]:
        for step in ((), *((name,) for name in self._payload)):
            for name in step:
                if name not in document or document[name] is None:
                    raise Mismatch(f"there is no \"{name}\"; 'schema-include' asks for it", name)
                document = document[name]
            if type(document) is not dict:
                what = json_exact.shown(document)
                raise Mismatch(f"expected an object but found {what}", ".".join(step))
        return self._open(document)

    def _values(self, column: Column, chunk: Chunk) -> Values:
        if not column.place:
            return super()._values(column, chunk)
        return [_at(head, column.place) for head in chunk.heads]

    def _exact_value(self, column: Column, row: int, chunk: Chunk) -> object:
        document = chunk.exact_document(chunk.record(row))
        if column.place:
            return _at(document, column.place)
        place = chunk.places[row]
        assert place is not None
        return self._changes_in(document)[place][1][column.name]


def _at(document: Any, place: tuple[str, ...]) -> Any:
    for name in place:
        if type(document) is not dict:
            return None
        document = document.get(name)
    return document


# ---- encode ----------------------------------------------------------------------------------------------

_GONE = pa.array([BEFORE, DELETE], pa.int8())


class ChangeEncoder(Remade):
    """Every change on its own: an insert, or a delete."""

    def __init__(
        self, envelope: Envelope, fields: tuple[t.Field, ...], options: dict[str, object]
    ) -> None:
        self._made_of = (envelope, fields, options)
        self._rows = JsonEncoder(fields, options)
        ignores_nulls = {**DEFAULTS, **options}["encode.ignore-null-fields"]
        self._around = envelope.written(with_nulls=not ignores_nulls)

    def encode(self, columns: Sequence[Any], kinds: Any = None) -> Any:
        rows = self._rows.encode(columns)
        there, gone = (
            [pa.scalar(part.encode(), pa.binary()) for part in around] for around in self._around
        )
        if kinds is None:
            opening, closing = there
        else:
            is_gone = pc.is_in(kinds, _GONE)
            opening, closing = (pc.if_else(is_gone, a, b) for a, b in zip(gone, there, strict=True))
        nothing = pa.scalar(b"", pa.binary())
        return pc.binary_join_element_wise(opening, rows, closing, nothing)


# ---- a format --------------------------------------------------------------------------------------------


def decoder(
    envelope: Envelope,
    fields: Sequence[t.Field],
    options: Mapping[str, object],
    wanted: Sequence[str] | None = None,
    metadata: Sequence[str] = (),
) -> ChangeDecoder:
    names = None if wanted is None else tuple(wanted)
    return ChangeDecoder(envelope, tuple(fields), dict(options), names, tuple(metadata))


def encoder(
    envelope: Envelope, fields: Sequence[t.Field], options: Mapping[str, object]
) -> ChangeEncoder:
    return ChangeEncoder(envelope, tuple(fields), dict(options))

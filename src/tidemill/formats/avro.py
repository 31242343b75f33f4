"""The `avro` format: records without header or schema ⇄ Arrow columns, as Flink's.

In: a `binary` array of records; out: one array per wanted field. The schema is made from the table's columns
(`avro_schema`), so that reader and writer must have the same ones. Records are read and written by column (`avro_read`,
`avro_write`), and with 'avro.encoding' = 'json' one by one (`avro_json`).
Law: bytes that are left over mean that the record is of another schema, and that it is bad.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tidemill import types as t
from tidemill.formats import (
    NULL_VALUE,
    BadRecord,
    Decoded,
    Remade,
    avro_exact,
    avro_json,
    json_exact,
)
from tidemill.formats import avro_schema as schemas
from tidemill.formats.arrow import arrow_type
from tidemill.formats.avro_read import CHUNK, RecordReader
from tidemill.formats.avro_write import RecordWriter

DEFAULTS: Mapping[str, object] = {"encoding": "binary", "timestamp_mapping.legacy": True}


def decoder(
    fields: Sequence[t.Field],
    options: Mapping[str, object],
    wanted: Sequence[str] | None = None,
) -> AvroDecoder:
    return AvroDecoder(tuple(fields), dict(options), None if wanted is None else tuple(wanted))


def encoder(fields: Sequence[t.Field], options: Mapping[str, object]) -> AvroEncoder:
    return AvroEncoder(tuple(fields), dict(options))


def table_schema(fields: Sequence[t.Field], options: Mapping[str, object]) -> schemas.Schema:
    legacy = bool({**DEFAULTS, **options}["timestamp_mapping.legacy"])
    return schemas.parse(schemas.text_of(schemas.schema_of(fields, legacy)))


class AvroDecoder(Remade):
    def __init__(
        self,
        fields: tuple[t.Field, ...],
        options: dict[str, object],
        wanted: tuple[str, ...] | None,
    ) -> None:
        self._made_of = (fields, options, wanted)
        self._rows = Rows(fields, wanted)
        self._schema = table_schema(fields, options)
        reading = schemas.resolve(self._schema, self._schema)
        self._reader = RecordReader(reading, fields, self._rows.names)
        self._read = self._read_documents if _is_json(options) else self._reader.read

    def decode(self, values: Any) -> Decoded:
        return self._rows.decode(values, self._read)

    def _read_documents(self, records: Any) -> tuple[list[Any], dict[int, avro_exact.Malformed]]:
        return self._reader.read_each(records.to_pylist(), self._parse)

    def _parse(self, record: bytes) -> Any:
        try:
            return avro_json.read(json_exact.parse(record), self._schema)
        except json_exact.Unreadable as unreadable:
            raise avro_exact.Malformed(str(unreadable)) from None
        except avro_json.Misfit as misfit:
            raise avro_exact.Malformed(misfit.reason, misfit.path) from None


def _is_json(options: Mapping[str, object]) -> bool:
    return {**DEFAULTS, **options}["encoding"] == "json"


Read = Callable[[Any], tuple[list[Any], dict[int, avro_exact.Malformed]]]


class Rows:
    """Which columns a decoder gives, and how chunks of records become the rows of a batch."""

    def __init__(self, fields: Sequence[t.Field], wanted: Sequence[str] | None) -> None:
        self.names = [f.name for f in fields] if wanted is None else list(wanted)
        in_table = [f for f in fields if f.name in self.names]
        self._arrows = [arrow_type(f.type) for f in in_table]
        places = {f.name: i for i, f in enumerate(in_table)}
        self._order = [places[name] for name in self.names]

    def decode(self, values: Any, read: Read) -> Decoded:
        """`read` takes records that are not null, and gives columns in the table's order."""
        result = Decoded([])
        parts: list[list[Any]] = [[pa.array([], arrow) for arrow in self._arrows]]
        # For each chunk where it starts, how long it is, and which of its records gave rows; None: all did.
        kept: list[tuple[int, int, Any]] = []
        for start in range(0, len(values), CHUNK):
            chunk = values.slice(start, CHUNK)
            length, numbers = len(chunk), None
            if chunk.null_count:
                count = result.dropped.get(NULL_VALUE, 0)
                result.dropped[NULL_VALUE] = count + chunk.null_count
                numbers = _numbers(start, length).filter(chunk.is_valid())
                chunk = chunk.drop_null()
            columns, bad = read(chunk)
            if bad:
                numbers = _numbers(start, length) if numbers is None else numbers
                for row in sorted(bad):
                    malformed = bad[row]
                    index = numbers[row].as_py()
                    result.bad.append(BadRecord(index, malformed.path or None, malformed.reason))
                good = pa.array([row not in bad for row in range(len(chunk))], pa.bool_())
                columns, numbers = [c.filter(good) for c in columns], numbers.filter(good)
            parts.append(columns)
            kept.append((start, length, numbers))
        columns = [pa.concat_arrays(column) for column in zip(*parts, strict=True)]
        result.columns = [columns[i] for i in self._order]
        if result.bad or result.dropped:
            result.records = pa.concat_arrays(
                [_numbers(start, length) if rows is None else rows for start, length, rows in kept]
            )
        return result


def _numbers(start: int, length: int) -> Any:
    return pa.array(range(start, start + length), pa.int32())


class AvroEncoder(Remade):
    def __init__(self, fields: tuple[t.Field, ...], options: dict[str, object]) -> None:
        self._made_of = (fields, options)
        self._schema = table_schema(fields, options)
        self._write = RecordWriter(self._schema, fields).write
        self._read = avro_exact.reader(schemas.resolve(self._schema, self._schema))
        self._json = _is_json(options)

    def encode(self, columns: Sequence[Any]) -> Any:
        records = self._write(columns)
        if not self._json:
            return records
        rows = (avro_exact.read_record(self._read, record) for record in records.to_pylist())
        return pa.array([avro_json.write(row, self._schema).encode() for row in rows], pa.binary())

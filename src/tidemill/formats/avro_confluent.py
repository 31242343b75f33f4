"""The `avro-confluent` format: Avro behind the number of its schema in a Confluent schema registry.

In: a `binary` array of records: a zero byte, four bytes of a schema's number, the record as its writer's schema says.
Out: one array per wanted field, by Avro's rules between that schema and the table's. Writing registers the table's
schema under the subject, once.
Law: a record of a schema that does not exist or does not fit is bad; a registry that does not answer stops the job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemill import types as t
from tidemill.errors import job_error
from tidemill.formats import Decoded, Remade, avro
from tidemill.formats import avro_schema as schemas
from tidemill.formats.avro_exact import Malformed
from tidemill.formats.avro_read import RecordReader
from tidemill.formats.avro_write import RecordWriter
from tidemill.formats.registry import NotFound, registry_of

NAME = "avro-confluent"
_MAGIC = b"\x00"
_HEADER_SIZE = 5


def decoder(
    fields: Sequence[t.Field],
    options: Mapping[str, object],
    wanted: Sequence[str] | None = None,
) -> ConfluentDecoder:
    return ConfluentDecoder(tuple(fields), dict(options), None if wanted is None else tuple(wanted))


def encoder(fields: Sequence[t.Field], options: Mapping[str, object]) -> ConfluentEncoder:
    return ConfluentEncoder(tuple(fields), dict(options))


@dataclass(frozen=True)
class TableSchema:
    """What a table's records are by: the schema of its columns, or the one that the option `schema` gives instead."""

    record: schemas.Schema
    text: str
    before: bytes = b""
    """What stands before a record: the schema may be a union of null and the record."""


def table_schema(
    format_: str, fields: Sequence[t.Field], options: Mapping[str, object], nullable: bool = False
) -> TableSchema:
    """`nullable`: whether the schema that is made of the columns lets the record be null."""
    given = options.get("schema")
    if given is None:
        # There is no other mapping of timestamps here than Flink's legacy one.
        made = schemas.schema_of(fields, legacy=True)
        text = schemas.text_of(["null", made] if nullable else made)
        schema = schemas.parse(text)
    else:
        text = str(given)
        try:
            schema = schemas.given(format_, text, fields)
        except schemas.BadSchema as bad:
            raise job_error("FMT-010", str(bad), bad.hint) from None
    if isinstance(schema, schemas.Union):
        place = next(i for i, b in enumerate(schema.branches) if b.kind == "record")
        return TableSchema(schema.branches[place], text, bytes([2 * place]))
    return TableSchema(schema, text)


class NumberedReaders:
    """Reads records of any registered schema into the wanted fields of one."""

    def __init__(
        self,
        schema: schemas.Schema,
        fields: Sequence[t.Field],
        wanted: Sequence[str],
        options: Mapping[str, object],
    ) -> None:
        self._schema, self._fields, self._wanted = schema, fields, wanted
        self._options = options
        self._readers: dict[bytes, RecordReader | Malformed] = {}

    def read(self, records: Any) -> tuple[list[Any], dict[int, Malformed]]:
        if not len(records):
            return self._nothing(), {}
        headers = pc.binary_slice(records, 0, _HEADER_SIZE)
        found = [h.as_py() for h in pc.unique(headers)]
        if len(found) == 1:
            return self._read_alike(found[0], records)
        parts: list[list[Any]] = []
        places: list[Any] = []
        bad: dict[int, Malformed] = {}
        for header in found:
            rows = pc.indices_nonzero(pc.equal(headers, pa.scalar(header, pa.binary())))
            columns, wrong = self._read_alike(header, records.take(rows))
            parts.append(columns)
            places.append(rows)
            bad.update({rows[i].as_py(): malformed for i, malformed in wrong.items()})
        order = pc.sort_indices(pa.concat_arrays(places))
        joined = (pa.concat_arrays(column) for column in zip(*parts, strict=True))
        return [column.take(order) for column in joined], bad

    def _read_alike(self, header: bytes, records: Any) -> tuple[list[Any], dict[int, Malformed]]:
        """Records that all begin with the same bytes."""
        if header not in self._readers:
            self._readers[header] = self._reader(header)
        reader = self._readers[header]
        if isinstance(reader, RecordReader):
            return reader.read(records)
        nulls = [pa.nulls(len(records), column.type) for column in self._nothing()]
        return nulls, dict.fromkeys(range(len(records)), reader)

    def _reader(self, header: bytes) -> RecordReader | Malformed:
        if header[:1] != _MAGIC:
            return Malformed("Unknown data format. Magic number does not match")
        if len(header) < _HEADER_SIZE:
            return Malformed("the record ends before the number of its schema")
        number = int.from_bytes(header[1:], "big", signed=True)
        try:
            writer = schemas.parse(registry_of(self._options).schema(number))
        except NotFound as error:
            return Malformed(str(error))
        except schemas.BadSchema as bad:
            return Malformed(f"schema {number} of the registry cannot be read: {bad}")
        reading = schemas.resolve(writer, self._schema)
        if isinstance(reading, schemas.Refused):
            return Malformed(f"schema {number} does not fit the table: {reading.reason}")
        return RecordReader(reading, self._fields, self._wanted, _HEADER_SIZE)

    def _nothing(self) -> list[Any]:
        empty = schemas.resolve(self._schema, self._schema)
        return RecordReader(empty, self._fields, self._wanted).read(pa.array([], pa.binary()))[0]


class NumberedWriter:
    """Writes rows as records of one registered schema."""

    def __init__(
        self,
        schema: TableSchema,
        fields: Sequence[t.Field],
        options: Mapping[str, object],
    ) -> None:
        number = registry_of(options).register(str(options["subject"]), schema.text)
        header = _MAGIC + number.to_bytes(4, "big") + schema.before
        self._header = pa.scalar(header, pa.binary())
        self._write = RecordWriter(schema.record, fields).write

    def write(self, columns: Sequence[Any]) -> Any:
        return pc.binary_join_element_wise(self._header, self._write(columns), b"")


class ConfluentDecoder(Remade):
    def __init__(
        self,
        fields: tuple[t.Field, ...],
        options: dict[str, object],
        wanted: tuple[str, ...] | None,
    ) -> None:
        self._made_of = (fields, options, wanted)
        self._rows = avro.Rows(fields, wanted)
        schema = table_schema(NAME, fields, options)
        self._readers = NumberedReaders(schema.record, fields, self._rows.names, options)

    def decode(self, values: Any) -> Decoded:
        return self._rows.decode(values, self._readers.read)


class ConfluentEncoder(Remade):
    """The schema is registered when it is made."""

    def __init__(self, fields: tuple[t.Field, ...], options: dict[str, object]) -> None:
        self._made_of = (fields, options)
        self._writer = NumberedWriter(table_schema(NAME, fields, options), fields, options)

    def encode(self, columns: Sequence[Any]) -> Any:
        return self._writer.write(columns)

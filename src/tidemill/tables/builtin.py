"""Flink's connectors that need no system: `print`, `blackhole` and `datagen`.

In: a declaration. Out: PrintTable, BlackholeTable or DatagenTable; the last says for every physical column how
its values are made. Law: what datagen is asked for fits the column's type; Flink's defaults fill the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any, ClassVar

from tidemill.changelog import ALL_CHANGES, UPSERT, ChangelogMode
from tidemill.errors import did_you_mean, nearest
from tidemill.tables.catalog import Connector
from tidemill.tables.connector import (
    ConnectorDefinition,
    Declaration,
    WatermarkOptions,
    read_watermark_options,
)
from tidemill.tables.options import (
    BOOLEAN,
    DURATION,
    INTEGER,
    LONG,
    NUMBER,
    PARALLELISM,
    STRING,
    BadValue,
    Option,
    OptionReader,
    OptionType,
    at_least,
    one_of,
)
from tidemill.types import (
    APPROXIMATE_TYPES,
    BINARY_TYPES,
    INTEGER_TYPES,
    MAX_LENGTH,
    STRING_TYPES,
    TIMESTAMP_TYPES,
    ArrayType,
    BigIntType,
    BinaryType,
    BooleanType,
    CharType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    MapType,
    MultisetType,
    RowType,
    SmallIntType,
    SqlType,
    TimeType,
    TinyIntType,
    VarBinaryType,
    VarCharType,
    YearMonthIntervalType,
)

# --- print and blackhole -----------------------------------------------------------------------


@dataclass(frozen=True)
class PrintTable(Connector):
    connector: ClassVar[str] = "print"

    identifier: str | None = None
    standard_error: bool = False
    sink_parallelism: int | None = None

    @property
    def sink_mode(self) -> ChangelogMode:
        return ALL_CHANGES


@dataclass(frozen=True)
class BlackholeTable(Connector):
    connector: ClassVar[str] = "blackhole"

    @property
    def sink_mode(self) -> ChangelogMode:
        """As in Flink: everything but update-before, so that nobody makes rows for nothing."""
        return UPSERT


PRINT_IDENTIFIER = Option("print-identifier", STRING, "Text before every row.")
STANDARD_ERROR = Option("standard-error", BOOLEAN, "Whether to print to standard error.", False)
SINK_PARALLELISM = Option("sink.parallelism", PARALLELISM, "Parallelism of the sink.")


def _build_print(declaration: Declaration, reader: OptionReader) -> PrintTable:
    reader.finish()
    return PrintTable(
        reader.get(PRINT_IDENTIFIER), reader.value(STANDARD_ERROR), reader.get(SINK_PARALLELISM)
    )


def _build_blackhole(declaration: Declaration, reader: OptionReader) -> BlackholeTable:
    reader.finish()
    return BlackholeTable()


PRINT = ConnectorDefinition(
    "print",
    "Prints every row with its kind: `+I[1, a]`.",
    (PRINT_IDENTIFIER, STANDARD_ERROR, SINK_PARALLELISM),
    _build_print,
    PrintTable,
    source=False,
    sink=True,
)
BLACKHOLE = ConnectorDefinition(
    "blackhole",
    "Swallows every row.",
    (),
    _build_blackhole,
    BlackholeTable,
    source=False,
    sink=True,
)


# --- datagen -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Random:
    """Values drawn anew for every row. Which fields count depends on the type."""

    name: str
    type: SqlType
    min: Decimal | None = None
    """Inclusive; for numbers and intervals (months, milliseconds)."""
    max: Decimal | None = None
    """Inclusive for whole numbers, exclusive for others."""
    length: int | None = None
    """Characters, bytes or elements."""
    variable_length: bool = False
    """Whether `length` is only the most."""
    max_past: timedelta | None = None
    """Timestamps lie between now minus this and now."""
    null_rate: float = 0.0
    children: tuple[Random, ...] = ()
    """Elements of an array or multiset, key and value of a map, fields of a row."""


@dataclass(frozen=True)
class Sequence:
    """Consecutive values, each given once; the source ends with its shortest sequence."""

    name: str
    type: SqlType
    start: int
    end: int
    """Inclusive."""


@dataclass(frozen=True)
class DatagenTable(Connector):
    connector: ClassVar[str] = "datagen"

    fields: tuple[Random | Sequence, ...]
    """One per physical column, in order."""
    rows_per_second: int
    number_of_rows: int | None
    scan_parallelism: int | None
    watermark: WatermarkOptions

    @property
    def is_bounded(self) -> bool:
        return self.total_rows is not None

    @property
    def total_rows(self) -> int | None:
        """Rows until the source ends by itself; None when it does not."""
        limits = [f.end - f.start + 1 for f in self.fields if isinstance(f, Sequence)]
        if self.number_of_rows is not None:
            limits.append(self.number_of_rows)
        return min(limits, default=None)


def _rate(text: str) -> Decimal:
    value = NUMBER.parse(text)
    if not 0 <= value <= 1:
        raise BadValue(f"Expected a number between 0 and 1, but got '{text}'.")
    return value


ROWS_PER_SECOND = Option(
    "rows-per-second", at_least(1, LONG), "Rows to make per second, at the most.", 10000
)
NUMBER_OF_ROWS = Option(
    "number-of-rows", at_least(0, LONG), "Rows to make in all; without it there is no end."
)
SCAN_PARALLELISM = Option("scan.parallelism", PARALLELISM, "Parallelism of the source.")
KIND = Option(
    "fields.#.kind", one_of("random", "sequence", exactly=True), "How values are made.", "random"
)
MIN = Option("fields.#.min", NUMBER, "Least value of `random`.")
MAX = Option("fields.#.max", NUMBER, "Greatest value of `random`.")
MAX_PAST = Option("fields.#.max-past", DURATION, "How old a timestamp may be.", timedelta(0))
LENGTH = Option(
    "fields.#.length",
    at_least(0, INTEGER, "length"),
    "Length of a string or of bytes (100 unless the type says), size of a collection (3).",
)
VAR_LEN = Option("fields.#.var-len", BOOLEAN, "Whether `length` is only the most.", False)
START = Option("fields.#.start", LONG, "First value of `sequence`.")
END = Option("fields.#.end", LONG, "Last value of `sequence`.")
NULL_RATE = Option("fields.#.null-rate", OptionType("Float", _rate), "Share of NULLs.", Decimal(0))

DATAGEN_OPTIONS: tuple[Option[Any], ...] = (
    ROWS_PER_SECOND,
    NUMBER_OF_ROWS,
    SCAN_PARALLELISM,
    KIND,
    MIN,
    MAX,
    MAX_PAST,
    LENGTH,
    VAR_LEN,
    START,
    END,
    NULL_RATE,
)

_DEFAULT_LENGTH = 100
_DEFAULT_SIZE = 3
_INTEGER_BITS = {TinyIntType: 8, SmallIntType: 16, IntType: 32, BigIntType: 64}
_COLLECTIONS = (ArrayType, MultisetType, MapType)
# Types of `random` and the options that each takes; those of Flink's generator.
_RANDOM: tuple[tuple[tuple[type[SqlType], ...], tuple[Option[Any], ...]], ...] = (
    ((BooleanType, CharType, RowType), (NULL_RATE,)),
    ((VarCharType,), (LENGTH, VAR_LEN, NULL_RATE)),
    ((BinaryType, DateType, TimeType), ()),
    ((VarBinaryType,), (LENGTH, VAR_LEN)),
    (
        (
            *INTEGER_TYPES,
            *APPROXIMATE_TYPES,
            DecimalType,
            YearMonthIntervalType,
            DayTimeIntervalType,
        ),
        (MIN, MAX, NULL_RATE),
    ),
    (TIMESTAMP_TYPES, (MAX_PAST, NULL_RATE)),
    (_COLLECTIONS, (LENGTH, NULL_RATE)),
)
_SEQUENCE = (*STRING_TYPES, *BINARY_TYPES, *INTEGER_TYPES, *APPROXIMATE_TYPES, DecimalType)


def _own(option: Option[Any], name: str) -> Option[Any]:
    """The option of one field: `fields.#.min` becomes `fields.price.min`."""
    return replace(option, key=option.key.replace("#", name))


def _bounds(type_: SqlType) -> tuple[Decimal, Decimal] | None:
    """The least and the greatest value that `random` gives unless told otherwise: Flink's."""
    bits = _INTEGER_BITS.get(type(type_))
    if bits or isinstance(type_, DayTimeIntervalType):
        limit = Decimal(1 << ((bits or 64) - 1))
        return -limit, limit - 1
    match type_:
        case FloatType():
            return Decimal("1.4E-45"), Decimal("3.4028235E38")
        case DoubleType():
            return Decimal("4.9E-324"), Decimal("1.7976931348623157E308")
        case DecimalType(precision=precision, scale=scale):
            # Built from digits: arithmetic would round to 28 of them.
            return Decimal(0), Decimal((0, (9,) * precision, -scale))
        case YearMonthIntervalType():
            return Decimal(0), Decimal(120000)
    return None


def _limits(type_: SqlType) -> tuple[Decimal, Decimal] | None:
    """The least and the greatest value that the type holds."""
    bounds = _bounds(type_)
    if bounds is None or type(type_) in _INTEGER_BITS:
        return bounds
    return bounds[1].copy_negate(), bounds[1]


def _read_field(reader: OptionReader, name: str, type_: SqlType) -> Random | Sequence | None:
    kind = _own(KIND, name)
    reader.accept([kind])
    if reader.get(kind) == "sequence":
        return _read_sequence(reader, name, type_)
    return _read_random(reader, name, type_)


def _read_sequence(reader: OptionReader, name: str, type_: SqlType) -> Sequence | None:
    start, end = _own(START, name), _own(END, name)
    reader.accept([start, end])
    kind_span = reader.value_span(_own(KIND, name))
    if not isinstance(type_, _SEQUENCE):
        reader.error(
            "OPT-061",
            f"Unsupported type: {type_} of field '{name}' cannot be generated as a sequence",
            kind_span,
            f"leave '{_own(KIND, name).key}' out: 'random' is the default",
        )
        return None
    for option in (start, end):
        if not reader.has(option):
            reader.error(
                "OPT-062",
                f"Could not find required property '{option.key}' for sequence generator.",
                kind_span,
                f"add '{option.key}' = '…'",
            )
    first, last = reader.get(start), reader.get(end)
    if first is None or last is None:
        return None
    _check_bounds(reader, type_, start, end, Decimal(first), Decimal(last))
    return Sequence(name, type_, first, last)


def _read_random(reader: OptionReader, name: str, type_: SqlType) -> Random | None:
    """`name` is a path: `tags.element`, `address.city`."""
    accepted = next((options for types, options in _RANDOM if isinstance(type_, types)), None)
    if accepted is None:
        reader.error(
            "OPT-061",
            f"Unsupported type: {type_} of field '{name}' cannot be generated",
            reader.place,
        )
        return None
    own = {option.key: _own(option, name) for option in accepted}
    reader.accept(own.values())

    def read(option: Option[Any]) -> Any:
        return reader.get(own[option.key]) if option.key in own else option.default

    bounds = _bounds(type_)
    low, high = read(MIN), read(MAX)
    if bounds:
        low, high = bounds[0] if low is None else low, bounds[1] if high is None else high
        _check_bounds(reader, type_, _own(MIN, name), _own(MAX, name), low, high)
    return Random(
        name,
        type_,
        low,
        high,
        _length(reader, _own(LENGTH, name), type_, read(LENGTH)),
        read(VAR_LEN),
        read(MAX_PAST) if isinstance(type_, TIMESTAMP_TYPES) else None,
        float(read(NULL_RATE)),
        tuple(child for n, t in _children(name, type_) if (child := _read_random(reader, n, t))),
    )


def _children(name: str, type_: SqlType) -> Iterator[tuple[str, SqlType]]:
    match type_:
        case ArrayType(element=element) | MultisetType(element=element):
            yield f"{name}.element", element
        case MapType(key=key, value=value):
            yield f"{name}.key", key
            yield f"{name}.value", value
        case RowType(fields=fields):
            yield from ((f"{name}.{f.name}", f.type) for f in fields)


def _length(
    reader: OptionReader, option: Option[int], type_: SqlType, given: int | None
) -> int | None:
    if isinstance(type_, (CharType, BinaryType)):
        return type_.length
    if isinstance(type_, _COLLECTIONS):
        return _DEFAULT_SIZE if given is None else given
    if not isinstance(type_, (VarCharType, VarBinaryType)):
        return None
    if given is None:
        return _DEFAULT_LENGTH if type_.length == MAX_LENGTH else type_.length
    if given > type_.length:
        reader.error(
            "OPT-064",
            f"Custom length '{given}' for variable-length type (VARCHAR/STRING/VARBINARY/BYTES) field"
            f" should be shorter than '{type_.length}' defined in the schema.",
            reader.value_span(option),
        )
    return given


def _check_bounds(
    reader: OptionReader,
    type_: SqlType,
    low_option: Option[Any],
    high_option: Option[Any],
    low: Decimal,
    high: Decimal,
) -> None:
    limits = _limits(type_)
    for option, value in ((low_option, low), (high_option, high)):
        if not reader.has(option):
            continue
        if limits and not limits[0] <= value <= limits[1]:
            reader.error("OPT-063", f"{type_} does not hold {value}", reader.value_span(option))
        elif isinstance(type_, (*INTEGER_TYPES, YearMonthIntervalType, DayTimeIntervalType)) and (
            value != value.to_integral_value()
        ):
            reader.error(
                "OPT-063",
                f"{type_} holds whole numbers only, not {value}",
                reader.value_span(option),
            )
    if low > high:
        reader.error(
            "OPT-063",
            f"'{low_option.key}' is greater than '{high_option.key}': {low} > {high}",
            reader.value_span(low_option if reader.has(low_option) else high_option),
        )


def _build_datagen(declaration: Declaration, reader: OptionReader) -> DatagenTable:
    fields = [_read_field(reader, c.name, c.type) for c in declaration.schema.physical]
    _check_unknown_fields(declaration, reader)
    watermark = read_watermark_options(declaration, reader)
    reader.finish()
    return DatagenTable(
        tuple(f for f in fields if f),
        reader.value(ROWS_PER_SECOND),
        reader.get(NUMBER_OF_ROWS),
        reader.get(SCAN_PARALLELISM),
        watermark,
    )


def _check_unknown_fields(declaration: Declaration, reader: OptionReader) -> None:
    physical = {c.name: c.type for c in declaration.schema.physical}
    for rest in reader.family("fields."):
        key = f"fields.{rest}"
        if reader.accepts(key):
            continue
        reader.skip(key)
        field, _, word = rest.rpartition(".")
        owner = field.partition(".")[0]
        if owner in physical:
            words = [o.key.rpartition(".")[2] for o in DATAGEN_OPTIONS if "#" in o.key]
            accepted = [w for w in words if reader.accepts(f"fields.{field}.{w}")]
            meant = nearest(word, accepted)
            reader.refuse(
                key,
                f"did you mean 'fields.{field}.{meant}'?"
                if meant
                else f"'{field}' in {physical[owner]} takes {', '.join(accepted) or 'no options'}",
            )
            continue
        reader.error(
            "OPT-060",
            f"there is no physical column '{field or rest}' to generate",
            reader.key_span(key),
            f"'{field}' is a computed or metadata column; only physical columns are generated"
            if declaration.schema.column(field)
            else did_you_mean(field, list(physical), f"the columns are {', '.join(physical)}"),
        )


DATAGEN = ConnectorDefinition(
    "datagen",
    "Makes rows: random values or sequences, at a chosen rate.",
    DATAGEN_OPTIONS,
    _build_datagen,
    DatagenTable,
    source=True,
    sink=False,
)

DEFINITIONS: Mapping[str, ConnectorDefinition] = {d.name: d for d in (PRINT, BLACKHOLE, DATAGEN)}

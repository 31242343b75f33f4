"""Flink's SQL types as values, printed as Flink prints them.

Law: a type is immutable, knows whether it is nullable, and cannot be built with a precision that Flink refuses.
Arrow's and Spark's counterparts live in `formats.arrow` and `spark.types`; this module imports neither.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import ClassVar, Self

MAX_LENGTH = 2147483647


@dataclass(frozen=True)
class SqlType:
    """Base of all types. `root` is the family's name as Flink spells it."""

    root: ClassVar[str] = ""
    nullable: bool = True

    def _describe(self) -> str:
        return self.root

    def __str__(self) -> str:
        return self._describe() + ("" if self.nullable else " NOT NULL")

    def with_nullable(self, nullable: bool) -> Self:
        return replace(self, nullable=nullable)

    @property
    def not_null(self) -> Self:
        return self.with_nullable(False)

    @property
    def as_nullable(self) -> Self:
        return self.with_nullable(True)

    def same(self, other: SqlType) -> bool:
        """Equal but for nullability at the top; a time attribute has the type of its values."""
        return self.as_nullable == other.as_nullable


class NullType(SqlType):
    """The type of a bare NULL."""

    root = "NULL"


class BooleanType(SqlType):
    root = "BOOLEAN"


class TinyIntType(SqlType):
    root = "TINYINT"


class SmallIntType(SqlType):
    root = "SMALLINT"


class IntType(SqlType):
    root = "INT"


class BigIntType(SqlType):
    root = "BIGINT"


class FloatType(SqlType):
    root = "FLOAT"


class DoubleType(SqlType):
    root = "DOUBLE"


class DateType(SqlType):
    root = "DATE"


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


@dataclass(frozen=True)
class DecimalType(SqlType):
    root = "DECIMAL"
    precision: int = 10
    scale: int = 0

    def __post_init__(self) -> None:
        _check(1 <= self.precision <= 38, "DECIMAL precision must be between 1 and 38")
        _check(
            0 <= self.scale <= self.precision, "DECIMAL scale must be between 0 and the precision"
        )

    def _describe(self) -> str:
        return f"DECIMAL({self.precision}, {self.scale})"


@dataclass(frozen=True)
class _Lengthed(SqlType):
    least: ClassVar[int] = 1
    length: int = 1

    def __post_init__(self) -> None:
        _check(
            self.least <= self.length <= MAX_LENGTH,
            f"{self.root} length must be between 1 and {MAX_LENGTH}",
        )

    @property
    def full(self) -> str:
        """The type with its length, also where it has a shorter name."""
        return f"{self.root}({self.length})"

    def _describe(self) -> str:
        return self.full


class CharType(_Lengthed):
    """The type of '' has no length, which only a constant's can be: see `declared_char`."""

    root = "CHAR"
    least = 0


def declared_char(length: int = 1) -> CharType:
    _check(length > 0, f"CHAR length must be between 1 and {MAX_LENGTH}")
    return CharType(length=length)


class VarCharType(_Lengthed):
    root = "VARCHAR"

    def _describe(self) -> str:
        return "STRING" if self.length == MAX_LENGTH else super()._describe()


class BinaryType(_Lengthed):
    root = "BINARY"


class VarBinaryType(_Lengthed):
    root = "VARBINARY"

    def _describe(self) -> str:
        return "BYTES" if self.length == MAX_LENGTH else super()._describe()


@dataclass(frozen=True)
class _Fractional(SqlType):
    precision: int = 6

    def __post_init__(self) -> None:
        _check(0 <= self.precision <= 9, f"{self.root} precision must be between 0 and 9")

    def _describe(self) -> str:
        return f"{self.root}({self.precision})"


@dataclass(frozen=True)
class TimeType(_Fractional):
    root = "TIME"
    precision: int = 0


class TimeAttribute(Enum):
    """What makes a timestamp a clock of its stream."""

    ROWTIME = "ROWTIME"
    PROCTIME = "PROCTIME"


@dataclass(frozen=True)
class _Timestamp(_Fractional):
    attribute: TimeAttribute | None = field(default=None, compare=False)
    """Set while a column is a time attribute. The values are the same with and without, so types are equal, too."""

    def __str__(self) -> str:
        return super().__str__() + (f" *{self.attribute.value}*" if self.attribute else "")


class TimestampType(_Timestamp):
    """A wall-clock time without a zone."""

    root = "TIMESTAMP"


class TimestampLtzType(_Timestamp):
    """A point in time, shown in the session's zone."""

    root = "TIMESTAMP_LTZ"


@dataclass(frozen=True)
class YearMonthIntervalType(SqlType):
    root = "INTERVAL YEAR TO MONTH"


@dataclass(frozen=True)
class DayTimeIntervalType(SqlType):
    root = "INTERVAL DAY TO SECOND"


@dataclass(frozen=True)
class ArrayType(SqlType):
    root = "ARRAY"
    element: SqlType = NullType()

    def _describe(self) -> str:
        return f"ARRAY<{self.element}>"


@dataclass(frozen=True)
class MultisetType(SqlType):
    root = "MULTISET"
    element: SqlType = NullType()

    def _describe(self) -> str:
        return f"MULTISET<{self.element}>"


@dataclass(frozen=True)
class MapType(SqlType):
    root = "MAP"
    key: SqlType = NullType()
    value: SqlType = NullType()

    def _describe(self) -> str:
        return f"MAP<{self.key}, {self.value}>"


@dataclass(frozen=True)
class Field:
    name: str
    type: SqlType
    comment: str | None = None


@dataclass(frozen=True)
class RowType(SqlType):
    root = "ROW"
    fields: tuple[Field, ...] = ()

    def _describe(self) -> str:
        return "ROW<" + ", ".join(f"`{f.name}` {f.type}" for f in self.fields) + ">"


STRING = VarCharType(length=MAX_LENGTH)
BYTES = VarBinaryType(length=MAX_LENGTH)
BOOLEAN = BooleanType()
INT = IntType()
BIGINT = BigIntType()
DOUBLE = DoubleType()

INTEGER_TYPES = (TinyIntType, SmallIntType, IntType, BigIntType)
APPROXIMATE_TYPES = (FloatType, DoubleType)
NUMERIC_TYPES = (*INTEGER_TYPES, DecimalType, *APPROXIMATE_TYPES)
STRING_TYPES = (CharType, VarCharType)
BINARY_TYPES = (BinaryType, VarBinaryType)
TIMESTAMP_TYPES = (TimestampType, TimestampLtzType)
INTERVAL_TYPES = (YearMonthIntervalType, DayTimeIntervalType)

# Decimal digits that an integer type needs when it meets a DECIMAL.
_INTEGER_DIGITS = {TinyIntType: 3, SmallIntType: 5, IntType: 10, BigIntType: 19}


def as_decimal(type_: SqlType) -> DecimalType | None:
    """The DECIMAL that holds every value of an exact numeric type."""
    if isinstance(type_, DecimalType):
        return type_
    digits = _INTEGER_DIGITS.get(type(type_))
    return DecimalType(type_.nullable, digits, 0) if digits else None


def time_attribute(type_: SqlType) -> TimeAttribute | None:
    return type_.attribute if isinstance(type_, _Timestamp) else None


def materialized(type_: SqlType) -> SqlType:
    """The type of the values of a time attribute once they are computed with."""
    return replace(type_, attribute=None) if isinstance(type_, _Timestamp) else type_


def common_type(left: SqlType, right: SqlType) -> SqlType | None:
    """The type that both sides can be cast to without being asked (Flink's least restrictive type)."""
    left, right = materialized(left), materialized(right)
    nullable = left.nullable or right.nullable
    if isinstance(left, NullType):
        return right.as_nullable
    if isinstance(right, NullType):
        return left.as_nullable
    if left.same(right):
        return left.with_nullable(nullable)
    if isinstance(left, NUMERIC_TYPES) and isinstance(right, NUMERIC_TYPES):
        return _common_numeric(left, right).with_nullable(nullable)
    if isinstance(left, STRING_TYPES) and isinstance(right, STRING_TYPES):
        # Flink: texts of different fixed lengths meet in a varying one, so that none is padded.
        return VarCharType(nullable, max(left.length, right.length))
    if isinstance(left, BINARY_TYPES) and isinstance(right, BINARY_TYPES):
        return VarBinaryType(nullable, max(left.length, right.length))
    if isinstance(left, TIMESTAMP_TYPES) and isinstance(right, TIMESTAMP_TYPES):
        zoned = isinstance(left, TimestampLtzType) or isinstance(right, TimestampLtzType)
        return (TimestampLtzType if zoned else TimestampType)(
            nullable, max(left.precision, right.precision)
        )
    if isinstance(left, TimeType) and isinstance(right, TimeType):
        return TimeType(nullable, max(left.precision, right.precision))
    return _common_nested(left, right, nullable)


def _common_nested(left: SqlType, right: SqlType, nullable: bool) -> SqlType | None:
    if isinstance(left, ArrayType) and isinstance(right, ArrayType):
        element = common_type(left.element, right.element)
        return ArrayType(nullable, element) if element else None
    if isinstance(left, MapType) and isinstance(right, MapType):
        key, value = common_type(left.key, right.key), common_type(left.value, right.value)
        return MapType(nullable, key, value) if key and value else None
    if (
        isinstance(left, RowType)
        and isinstance(right, RowType)
        and len(left.fields) == len(right.fields)
    ):
        fields = []
        for a, b in zip(left.fields, right.fields, strict=True):
            merged = common_type(a.type, b.type)
            if merged is None:
                return None
            fields.append(Field(a.name, merged))
        return RowType(nullable, tuple(fields))
    return None


def _common_numeric(left: SqlType, right: SqlType) -> SqlType:
    if isinstance(left, APPROXIMATE_TYPES) or isinstance(right, APPROXIMATE_TYPES):
        if isinstance(left, DecimalType) or isinstance(right, DecimalType):
            return DoubleType()
        # Flink: of FLOAT and DOUBLE the first decides.
        return left if isinstance(left, APPROXIMATE_TYPES) else right
    if isinstance(left, INTEGER_TYPES) and isinstance(right, INTEGER_TYPES):
        rank = max(INTEGER_TYPES.index(type(left)), INTEGER_TYPES.index(type(right)))
        return INTEGER_TYPES[rank]()
    a, b = as_decimal(left), as_decimal(right)
    assert a is not None and b is not None
    scale = max(a.scale, b.scale)
    whole = max(a.precision - a.scale, b.precision - b.scale)
    return DecimalType(precision=min(38, whole + scale), scale=min(scale, max(0, 38 - whole)))


# --- implicit casts --------------------------------------------------------------------------------


def can_assign(source: SqlType, target: SqlType) -> bool:
    """Whether a value of `source` may be written to `target` without a CAST in the script (Flink's implicit casts).

    Nullability is not looked at: a NULL that meets NOT NULL is found when it is written.
    """
    if isinstance(source, NullType) or source.same(target):
        return True
    if isinstance(source, NUMERIC_TYPES) and isinstance(target, NUMERIC_TYPES):
        return _numeric_rank(source) <= _numeric_rank(target)
    for family in (STRING_TYPES, BINARY_TYPES, (TimeType,)):
        if isinstance(source, family):
            return isinstance(target, family)
    if isinstance(source, (DateType, *TIMESTAMP_TYPES)):
        return isinstance(target, TIMESTAMP_TYPES)
    if isinstance(source, ArrayType) and isinstance(target, ArrayType):
        return can_assign(source.element, target.element)
    if isinstance(source, MultisetType) and isinstance(target, MultisetType):
        return can_assign(source.element, target.element)
    if isinstance(source, MapType) and isinstance(target, MapType):
        return can_assign(source.key, target.key) and can_assign(source.value, target.value)
    if isinstance(source, RowType) and isinstance(target, RowType):
        return len(source.fields) == len(target.fields) and all(
            can_assign(a.type, b.type) for a, b in zip(source.fields, target.fields, strict=True)
        )
    return False


def _numeric_rank(type_: SqlType) -> int:
    return NUMERIC_TYPES.index(type(type_))


# Flink's explicit casts between types without parts: targets, and what can be cast to them.
_CASTS: tuple[tuple[tuple[type[SqlType], ...], tuple[type[SqlType], ...]], ...] = (
    (STRING_TYPES, (SqlType,)),
    (BINARY_TYPES, (*STRING_TYPES, *BINARY_TYPES)),
    (NUMERIC_TYPES, (*NUMERIC_TYPES, *STRING_TYPES, BooleanType)),
    ((BooleanType,), (BooleanType, *STRING_TYPES, *NUMERIC_TYPES)),
    ((DateType,), (DateType, *TIMESTAMP_TYPES, *STRING_TYPES)),
    ((TimeType,), (TimeType, *TIMESTAMP_TYPES, *STRING_TYPES)),
    (TIMESTAMP_TYPES, (DateType, TimeType, *TIMESTAMP_TYPES, *STRING_TYPES)),
)


def can_cast(source: SqlType, target: SqlType) -> bool:
    """Whether CAST(source AS target) exists."""
    if isinstance(source, NullType) or source.same(target):
        return True
    match source, target:
        case ArrayType(element=a), ArrayType(element=b):
            return can_cast(a, b)
        case MultisetType(element=a), MultisetType(element=b):
            return can_cast(a, b)
        case MapType(key=k, value=v), MapType(key=l, value=w):
            return can_cast(k, l) and can_cast(v, w)
        case RowType(fields=left), RowType(fields=right):
            return len(left) == len(right) and all(
                can_cast(a.type, b.type) for a, b in zip(left, right, strict=True)
            )
    return any(isinstance(target, to) and isinstance(source, of) for to, of in _CASTS)


def without_time_precision(type_: SqlType) -> SqlType:
    """What CAST and a query make of a type: Flink's planner knows TIME(0) only."""
    match type_:
        case TimeType():
            return replace(type_, precision=0)
        case ArrayType() | MultisetType():
            return replace(type_, element=without_time_precision(type_.element))
        case MapType():
            key, value = without_time_precision(type_.key), without_time_precision(type_.value)
            return replace(type_, key=key, value=value)
        case RowType():
            fields = (replace(f, type=without_time_precision(f.type)) for f in type_.fields)
            return replace(type_, fields=tuple(fields))
    return type_


# --- decimal arithmetic ----------------------------------------------------------------------------


def _fit_decimal(precision: int, scale: int) -> DecimalType:
    """Flink gives up digits behind the point, down to six, before digits in front of it."""
    if precision <= 38:
        return DecimalType(precision=precision, scale=scale)
    whole = precision - scale
    return DecimalType(precision=38, scale=max(38 - whole, min(scale, 6)))


def rounded_decimal(type_: DecimalType, digits: int) -> DecimalType:
    """The type of ROUND(x, digits): rounding up may need one more digit in front of the point."""
    if digits >= type_.scale:
        return type_
    scale = max(0, digits)
    return DecimalType(precision=min(38, 1 + type_.precision - type_.scale + scale), scale=scale)


def decimal_result(operator: str, a: DecimalType, b: DecimalType) -> DecimalType:
    """The type of `a operator b` for + - * / %."""
    match operator:
        case "+" | "-":
            scale = max(a.scale, b.scale)
            return _fit_decimal(
                max(a.precision - a.scale, b.precision - b.scale) + scale + 1, scale
            )
        case "*":
            return _fit_decimal(a.precision + b.precision + 1, a.scale + b.scale)
        case "/":
            scale = max(6, a.scale + b.precision + 1)
            return _fit_decimal(a.precision - a.scale + b.scale + scale, scale)
        case "%":
            scale = max(a.scale, b.scale)
            return _fit_decimal(min(a.precision - a.scale, b.precision - b.scale) + scale, scale)
    raise ValueError(operator)

"""CAST and TRY_CAST as Spark SQL: Spark's own cast where it does as Flink does, and for nested types that of each part.
Text that becomes a value is read by the kernel; CAST fails where TRY_CAST gives NULL."""

from __future__ import annotations

from itertools import count

from tidemill import types as t
from tidemill.plan.expressions import Call
from tidemill.spark.functions.form import Form, quote
from tidemill.spark.types import spark_ddl

_BITS = {t.TinyIntType: 8, t.SmallIntType: 16, t.IntType: 32, t.BigIntType: 64}
# The smallest scale at which Java writes a small number with an exponent.
_EXPONENT_SCALE = 7


class _Cast:
    """One CAST; knows whether it may fail, and names the variables of lambdas."""

    def __init__(self, safe: bool) -> None:
        self._safe = safe
        self._numbers = count()

    def convert(self, text: str, source: t.SqlType, target: t.SqlType) -> str:
        if source.same(target):
            return text
        if isinstance(source, t.NullType):
            return f"CAST({text} AS {spark_ddl(target)})"
        match source, target:
            case _, t.CharType() | t.VarCharType():
                return _fit_text(self._as_text(text, source), target)
            case _, t.BinaryType() | t.VarBinaryType():
                return _fit_bytes(f"CAST({text} AS BINARY)", target)
            case t.CharType() | t.VarCharType(), _:
                return self._from_text(text, target)
            case t.ArrayType(), t.ArrayType():
                return self._each(text, source.element, target.element)
            case t.MultisetType(), t.MultisetType():
                keys = self._each(f"map_keys({text})", source.element, target.element)
                return f"map_from_arrays({keys}, map_values({text}))"
            case t.MapType(), t.MapType():
                keys = self._each(f"map_keys({text})", source.key, target.key)
                values = self._each(f"map_values({text})", source.value, target.value)
                return f"map_from_arrays({keys}, {values})"
            case t.RowType(), t.RowType():
                return self._fields(text, source, target)
            case t.TimestampType() | t.TimestampLtzType(), _:
                return _from_timestamp(text, source, target)
            case t.TimeType(), t.TimestampType() | t.TimestampLtzType():
                text = f"make_timestamp_ntz(DATE '1970-01-01', {text})"
        return f"CAST({text} AS {spark_ddl(target)})"

    def _each(self, text: str, source: t.SqlType, target: t.SqlType) -> str:
        if source.same(target):
            return text
        name = self._variable()
        return f"transform({text}, {name} -> {self.convert(name, source, target)})"

    def _fields(self, text: str, source: t.RowType, target: t.RowType) -> str:
        parts = []
        for old, new in zip(source.fields, target.fields, strict=True):
            part = self.convert(f"{text}.`{old.name.replace('`', '``')}`", old.type, new.type)
            parts += [quote(new.name), part]
        return f"if({text} IS NULL, NULL, named_struct({', '.join(parts)}))"

    def _variable(self) -> str:
        return f"v{next(self._numbers)}"

    def _as_text(self, text: str, source: t.SqlType) -> str:
        match source:
            case t.CharType() | t.VarCharType():
                return text
            case t.BooleanType():
                return f"upper(CAST({text} AS STRING))"
            case t.BinaryType() | t.VarBinaryType():
                return f"make_valid_utf8(CAST({text} AS STRING))"
            case t.DecimalType() if source.scale >= _EXPONENT_SCALE:
                return f"tidemill_plain({text})"
            case t.TimestampType() | t.TimestampLtzType():
                wall = f"CAST({text} AS TIMESTAMP_NTZ)"
                return f"tidemill_timestamp_text({wall}, {min(6, source.precision)})"
            case t.DayTimeIntervalType():
                return f"tidemill_day_time_text({text})"
            case t.YearMonthIntervalType():
                return f"tidemill_year_month_text({text})"
            case t.ArrayType():
                return f"concat('[', {self._listed(text, source.element)}, ']')"
            case t.MapType() | t.MultisetType():
                return self._map_as_text(text, source)
            case t.RowType():
                parts = [
                    self._part_as_text(f"{text}.`{f.name.replace('`', '``')}`", f.type)
                    for f in source.fields
                ]
                inner = ", ', ', ".join(parts)
                return f"if({text} IS NULL, NULL, concat('(', {inner}, ')'))"
        return f"CAST({text} AS STRING)"

    def _part_as_text(self, text: str, source: t.SqlType) -> str:
        return f"coalesce({self._as_text(text, source)}, 'NULL')"

    def _listed(self, text: str, element: t.SqlType) -> str:
        name = self._variable()
        return f"array_join(transform({text}, {name} -> {self._part_as_text(name, element)}), ', ')"

    def _map_as_text(self, text: str, source: t.MapType | t.MultisetType) -> str:
        key, value = (
            (source.key, source.value)
            if isinstance(source, t.MapType)
            else (source.element, t.INT.not_null)
        )
        name = self._variable()
        pair = (
            f"concat({self._part_as_text(f'{name}.key', key)}, '=',"
            f" {self._part_as_text(f'{name}.value', value)})"
        )
        entries = f"transform(map_entries({text}), {name} -> {pair})"
        return f"concat('{{', array_join({entries}, ', '), '}}')"

    def _from_text(self, text: str, target: t.SqlType) -> str:
        type_ = "NULL" if self._safe else quote(str(target.as_nullable))
        match target:
            case t.TinyIntType() | t.SmallIntType() | t.IntType() | t.BigIntType():
                read = f"text_to_integer({text}, {_BITS[type(target)]}, {type_})"
            case t.DecimalType():
                read = f"text_to_decimal({text}, {target.precision}, {target.scale}, {type_})"
            case t.FloatType():
                read = f"text_to_float({text}, {type_})"
            case t.DoubleType():
                read = f"text_to_double({text}, {type_})"
            case t.BooleanType():
                read = f"text_to_boolean({text}, {type_})"
            case t.DateType():
                read = f"text_to_date({text}, {type_})"
            case t.TimeType():
                read = f"text_to_time({text}, {target.precision}, {type_})"
            case t.TimestampType() | t.TimestampLtzType():
                read = f"text_to_timestamp({text}, {target.precision}, {type_})"
            case _:
                raise TypeError(type(target))
        return f"CAST(tidemill_{read} AS {spark_ddl(target)})"


def _from_timestamp(text: str, source: t.SqlType, target: t.SqlType) -> str:
    assert isinstance(source, (t.TimestampType, t.TimestampLtzType))
    if isinstance(target, t.TimeType):
        # Spark makes a TIME only of a wall-clock time.
        return f"CAST(CAST({text} AS TIMESTAMP_NTZ) AS {spark_ddl(target)})"
    if isinstance(target, t.TIMESTAMP_TYPES) and target.precision < min(source.precision, 6):
        if isinstance(source, t.TimestampLtzType):
            # Through the wall-clock time, which an hour in autumn has twice, the time could become another one.
            unit = 10 ** (6 - target.precision)
            text = f"timestamp_micros(unix_micros({text}) - pmod(unix_micros({text}), {unit}))"
        else:
            text = f"tidemill_truncate_timestamp({text}, {target.precision})"
    return f"CAST({text} AS {spark_ddl(target)})"


def _fit_text(text: str, target: t.CharType | t.VarCharType) -> str:
    if target.length == t.MAX_LENGTH:
        return text
    if isinstance(target, t.CharType):
        return f"rpad({text}, {target.length}, ' ')"
    return f"left({text}, {target.length})"


def _fit_bytes(text: str, target: t.BinaryType | t.VarBinaryType) -> str:
    if target.length == t.MAX_LENGTH:
        return text
    if isinstance(target, t.BinaryType):
        return f"rpad({text}, {target.length}, X'00')"
    return f"substring({text}, 1, {target.length})"


def _cast(call: Call, arguments: list[str]) -> str:
    [source], [text] = call.arguments, arguments
    return _Cast(call.function == "TRY_CAST").convert(text, source.type, call.type)


FORMS: dict[str, Form] = {"CAST": _cast, "TRY_CAST": _cast}

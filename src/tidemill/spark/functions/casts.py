"""CAST and TRY_CAST as Spark SQL."""

from __future__ import annotations

from tidemill import types as t
from tidemill.plan.expressions import Call
from tidemill.spark.functions.form import Form
from tidemill.spark.types import spark_ddl


def _cast(call: Call, arguments: list[str]) -> str:
    [text] = arguments
    source, target = call.arguments[0].type, call.type
    ddl = spark_ddl(target)
    if isinstance(target, t.STRING_TYPES):
        return _fit_length(_as_text(source, text), target)
    if isinstance(source, t.STRING_TYPES):
        if isinstance(target, t.BINARY_TYPES):
            return f"CAST({text} AS BINARY)"
        attempt = f"try_cast(trim({text}) AS {ddl})"
        if call.function == "TRY_CAST":
            return attempt
        complaint = f"concat('cannot cast \\'', {text}, '\\' to {target.as_nullable}')"
        return (
            f"if({text} IS NOT NULL AND {attempt} IS NULL,"
            f" CAST(raise_error({complaint}) AS {ddl}), {attempt})"
        )
    if isinstance(source, t.TimestampType) and isinstance(target, t.NUMERIC_TYPES):
        # Seconds since 1970, as for a zoned time, for which Spark has a cast.
        text = f"timestampdiff(SECOND, TIMESTAMP_NTZ '1970-01-01 00:00:00', {text})"
    if (
        isinstance(source, t.TIMESTAMP_TYPES)
        and isinstance(target, t.TIMESTAMP_TYPES)
        and target.precision < min(source.precision, 6)
    ):
        parse = "to_timestamp_ntz" if isinstance(source, t.TimestampType) else "to_timestamp"
        text = f"{parse}({_stamp(text, target.precision)})"
    return f"CAST({text} AS {ddl})"


def _stamp(text: str, digits: int) -> str:
    fraction = "." + "S" * digits if digits else ""
    return f"date_format({text}, 'yyyy-MM-dd HH:mm:ss{fraction}')"


def _as_text(source: t.SqlType, text: str) -> str:
    if isinstance(source, t.STRING_TYPES):
        return text
    if isinstance(source, t.BooleanType):
        return f"upper(CAST({text} AS STRING))"
    if isinstance(source, t.TIMESTAMP_TYPES):
        return _stamp(text, min(6, source.precision))
    return f"CAST({text} AS STRING)"


def _fit_length(text: str, target: t.SqlType) -> str:
    assert isinstance(target, (t.CharType, t.VarCharType))
    if target.length == t.MAX_LENGTH:
        return text
    cut = f"left({text}, {target.length})"
    return f"rpad({cut}, {target.length}, ' ')" if isinstance(target, t.CharType) else cut


FORMS: dict[str, Form] = {"CAST": _cast, "TRY_CAST": _cast}

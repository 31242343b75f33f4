"""Types and values as the case files write them."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

from tidemill import types as t
from tidemill.formats import Decoded
from tidemill.formats.arrow import arrow_type

DATA = Path(__file__).parent / "data"
_WORDS = {
    "BOOLEAN": t.BooleanType,
    "TINYINT": t.TinyIntType,
    "SMALLINT": t.SmallIntType,
    "INT": t.IntType,
    "BIGINT": t.BigIntType,
    "FLOAT": t.FloatType,
    "DOUBLE": t.DoubleType,
    "DATE": t.DateType,
    "TIME": t.TimeType,
    "TIMESTAMP": t.TimestampType,
    "TIMESTAMP_LTZ": t.TimestampLtzType,
    "DECIMAL": t.DecimalType,
    "CHAR": t.CharType,
    "VARCHAR": t.VarCharType,
    "BINARY": t.BinaryType,
    "VARBINARY": t.VarBinaryType,
}


def type_of(text: str) -> t.SqlType:
    tokens = re.findall(r"\w+|[<>(),]", text)

    def take(expected: str | None = None) -> str:
        token = tokens.pop(0)
        assert expected in (None, token), text
        return token

    def read() -> t.SqlType:
        found = read_bare()
        if tokens[:2] == ["NOT", "NULL"]:
            del tokens[:2]
            return found.not_null
        return found

    def read_bare() -> t.SqlType:
        word = take()
        if word == "STRING":
            return t.STRING
        if word == "BYTES":
            return t.BYTES
        if word in ("ARRAY", "MULTISET"):
            take("<")
            element = read()
            take(">")
            return (t.ArrayType if word == "ARRAY" else t.MultisetType)(element=element)
        if word == "MAP":
            take("<")
            key = read()
            take(",")
            value = read()
            take(">")
            return t.MapType(key=key, value=value)
        if word == "ROW":
            fields = []
            while take() != ">":
                name = take()
                fields.append(t.Field(name, read()))
            return t.RowType(fields=tuple(fields))
        numbers = []
        if tokens[:1] == ["("]:
            while take() != ")":
                numbers.append(int(take()))
        return _WORDS[word](True, *numbers)

    result = read()
    assert not tokens, text
    return result


def show(array: pa.Array, type_: t.SqlType) -> list[str]:
    """Every value of an array as the case files write it."""
    return [_show(scalar, type_) for scalar in array]


def _show(value: pa.Scalar, type_: t.SqlType) -> str:
    if not value.is_valid:
        return "NULL"
    match type_:
        case t.BooleanType():
            return "true" if value.as_py() else "false"
        case t.CharType() | t.VarCharType():
            return json.dumps(value.as_py(), ensure_ascii=False)
        case t.BinaryType() | t.VarBinaryType():
            return f"x'{value.as_py().hex()}'"
        case t.TimeType():
            # Cases are written in milliseconds, which is all there can be.
            return value.cast(pa.string()).as_py().removesuffix("000000").removesuffix(".000")
        case t.TimestampType() | t.TimestampLtzType():
            zone = "Z" if isinstance(type_, t.TimestampLtzType) else ""
            text = value.cast(pa.string()).as_py().removesuffix("Z")
            return text.rstrip("0").rstrip(".") + zone
        case t.DecimalType():
            return f"{value.as_py():f}"
        case t.DateType():
            return value.cast(pa.string()).as_py()
        case t.ArrayType():
            return "[" + ", ".join(_show(v, type_.element) for v in value) + "]"
        case t.MapType() | t.MultisetType():
            content = type_.value if isinstance(type_, t.MapType) else t.INT
            items = value.values
            pairs = [
                f"{_show(items.field(0)[i], t.STRING)}: {_show(items.field(1)[i], content)}"
                for i in range(len(items))
            ]
            return "{" + ", ".join(pairs) + "}"
        case t.RowType():
            return "(" + ", ".join(_show(value[f.name], f.type) for f in type_.fields) + ")"
    return str(value.as_py())


def rows(decoded: Decoded, fields: Sequence[t.Field]) -> list[str]:
    """Every row of a batch as the case files write it."""
    shown = [show(c, f.type) for c, f in zip(decoded.columns, fields, strict=True)]
    return ["(" + ", ".join(values) + ")" for values in zip(*shown, strict=True)]


def check_rows(found: list[str], decoded: Decoded, expected: str) -> None:
    """Of one record: the rows it gives, and why it was dropped; or `bad`, maybe `at` a field, and the reason."""
    found_rows, _, dropped = expected.partition("dropped: ")
    if expected.startswith("bad"):
        head, reason = expected.split(": ", 1)
        [bad] = decoded.bad
        assert reason in bad.reason
        assert bad.field == (head.removeprefix("bad at ") if head != "bad" else None)
        assert not found
    else:
        assert not decoded.bad
        assert " ".join(found) == found_rows.strip()
    assert decoded.dropped == ({dropped: 1} if dropped else {})


def value_of(text: str) -> object:
    """A value that is to be written, in Python's notation; `float('nan')` is one, too."""
    try:
        return ast.literal_eval(text)
    except ValueError:
        return eval(text, {"float": float})


def cases(name: str) -> Iterator[tuple[int, dict[str, object], str]]:
    """(line number, options in force, line) of a case file."""
    options: dict[str, object] = {}
    for number, line in enumerate((DATA / name).read_text(encoding="utf-8").split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        found = re.fullmatch(r"\[((?:[\w.-]+=[^\s,\]]*,? ?)*)\]", line)
        if found:
            pairs = (pair.split("=") for pair in found[1].split(", ") if pair)
            options = {k: {"true": True, "false": False}.get(v, v) for k, v in pairs}
        else:
            yield number, options, line


def column_of(values, type_: t.SqlType) -> pa.Array:
    def converted(value, inner):
        match inner:
            case t.DecimalType() if value is not None:
                return Decimal(value)
            case t.ArrayType() if value is not None:
                return [converted(v, inner.element) for v in value]
        return value

    return pa.array([converted(v, type_) for v in values], arrow_type(type_))

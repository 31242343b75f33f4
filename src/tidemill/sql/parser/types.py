"""Types: `DECIMAL(10, 2) NOT NULL`, `ROW<a INT, b ARRAY<STRING>>`, and what other systems call them."""

from __future__ import annotations

from collections.abc import Callable

from tidemill import types
from tidemill.errors import Span, nearest
from tidemill.sql.lexer import Token
from tidemill.sql.parser.cursor import STRUCTURE, Abandoned, Cursor
from tidemill.types import SqlType

# Types without parameters.
_PLAIN_TYPES: dict[str, SqlType] = {
    "STRING": types.STRING,
    "BYTES": types.BYTES,
    "BOOLEAN": types.BOOLEAN,
    "TINYINT": types.TinyIntType(),
    "SMALLINT": types.SmallIntType(),
    "INT": types.INT,
    "INTEGER": types.INT,
    "BIGINT": types.BIGINT,
    "FLOAT": types.FloatType(),
    "DOUBLE": types.DOUBLE,
    "DATE": types.DateType(),
}
# Types with a length or precision in parentheses; without it Flink's default counts, the constructor's own.
_SIZED_TYPES: dict[str, Callable[..., SqlType]] = {
    "CHAR": types.declared_char,
    "CHARACTER": types.declared_char,
    "VARCHAR": lambda *size: types.VarCharType(True, *size),
    "BINARY": lambda *size: types.BinaryType(True, *size),
    "VARBINARY": lambda *size: types.VarBinaryType(True, *size),
    "TIME": lambda *size: types.TimeType(True, *size),
    "TIMESTAMP": lambda *size: types.TimestampType(True, *size),
    "TIMESTAMP_LTZ": lambda *size: types.TimestampLtzType(True, *size),
    "DECIMAL": lambda *size: types.DecimalType(True, *size),
    "DEC": lambda *size: types.DecimalType(True, *size),
    "NUMERIC": lambda *size: types.DecimalType(True, *size),
}
_UNBOUNDED: dict[str, SqlType] = {"VARCHAR": types.STRING, "VARBINARY": types.BYTES}
_VARYING = {"CHAR": "VARCHAR", "CHARACTER": "VARCHAR", "BINARY": "VARBINARY"}
_NESTED_TYPES = ("ARRAY", "MULTISET", "MAP", "ROW")
# Types of Flink that we refuse, and those of other systems: what to write instead.
_REFUSED_TYPES = {
    "RAW": "read the value as BYTES",
    "STRUCTURED": "write ROW<…>",
    "VARIANT": "read the value as STRING",
    "BITMAP": "read the value as BYTES",
    "REAL": "write FLOAT",
    "ANY": "write a type of its own",
    "INTERVAL": "store the length as BIGINT",
}
_FOREIGN_TYPES = {
    "TEXT": "STRING",
    "VARCHAR2": "STRING",
    "NVARCHAR": "STRING",
    "NCHAR": "CHAR",
    "CLOB": "STRING",
    "JSON": "STRING",
    "UUID": "STRING",
    "BLOB": "BYTES",
    "BYTEA": "BYTES",
    "BOOL": "BOOLEAN",
    "BIT": "BOOLEAN",
    "BYTE": "TINYINT",
    "SHORT": "SMALLINT",
    "INT2": "SMALLINT",
    "INT4": "INT",
    "INT32": "INT",
    "LONG": "BIGINT",
    "INT8": "BIGINT",
    "INT64": "BIGINT",
    "NUMBER": "DECIMAL(p, s)",
    "FLOAT32": "FLOAT",
    "FLOAT64": "DOUBLE",
    "DATETIME": "TIMESTAMP(3)",
    "TIMESTAMPTZ": "TIMESTAMP_LTZ(3)",
    "STRUCT": "ROW<name type, …>",
    "LIST": "ARRAY<type>",
}
TYPE_NAMES = (*_PLAIN_TYPES, *_SIZED_TYPES, *_NESTED_TYPES)

_UNIT_PLURALS = {
    unit + "S": unit
    for unit in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
}
_INTERVAL_UNITS: dict[str, tuple[str, ...]] = {
    "YEAR": ("MONTH",),
    "QUARTER": (),
    "MONTH": (),
    "WEEK": (),
    "DAY": ("HOUR", "MINUTE", "SECOND"),
    "HOUR": ("MINUTE", "SECOND"),
    "MINUTE": ("SECOND",),
    "SECOND": (),
}


class TypeParser(Cursor):
    def _parse_type(self, in_cast: bool = False) -> tuple[SqlType, Span]:
        """A type with its nullability; `INT NOT NULL ARRAY` is an array of INT NOT NULL."""
        self._enter()
        start = self.token.start
        interval = in_cast and self._accept("INTERVAL")
        type_ = self._parse_interval_type() if interval else self._parse_type_name()
        while True:
            if self._accept("NOT", "NULL"):
                type_ = type_.not_null
            elif self._is("NULL") and self._peek().key != "ON":  # RETURNING INT NULL ON EMPTY
                self._advance()
            elif self._accept("ARRAY"):
                type_ = types.ArrayType(True, type_)
            elif self._accept("MULTISET"):
                type_ = types.MultisetType(True, type_)
            else:
                break
        self._leave()
        return type_, self._span(start)

    def _parse_interval_type(self) -> SqlType:
        unit, _, _, _ = self._parse_interval_unit()
        if unit in ("YEAR", "QUARTER", "MONTH"):
            return types.YearMonthIntervalType()
        return types.DayTimeIntervalType()

    def _parse_type_name(self) -> SqlType:
        token = self.token
        key = token.key
        if token.kind != "word":
            raise self._fail_expected("a type")
        if key == "ROW":
            return self._parse_row_type()
        if key in _NESTED_TYPES and self._peek().key == "<":
            self._advance()
            self._advance()
            element, _ = self._parse_type()
            if key == "MAP":
                self._expect(",", hint="write MAP<key type, value type>")
                value, _ = self._parse_type()
                self._expect(">")
                return types.MapType(True, element, value)
            self._expect(">")
            build = types.ArrayType if key == "ARRAY" else types.MultisetType
            return build(True, element)
        if key in _PLAIN_TYPES:
            self._advance()
            if key == "DOUBLE":
                self._accept("PRECISION")
            if self._is("("):
                raise self._fail_expected("the end of the type", f"{key} takes no length")
            return _PLAIN_TYPES[key]
        if key in _SIZED_TYPES:
            return self._parse_sized_type()
        raise self._fail_type()

    def _parse_sized_type(self) -> SqlType:
        token = self._advance()
        key = token.key
        if key in _VARYING and self._accept("VARYING"):
            key = _VARYING[key]
        sizes: list[int] = []
        if self._accept("("):
            sizes.append(self._parse_size())
            if key in ("DECIMAL", "DEC", "NUMERIC") and self._accept(","):
                sizes.append(self._parse_size())
            self._expect(")")
        if key in ("TIME", "TIMESTAMP"):
            key = self._parse_time_zone(token, key)
        if not sizes and self.dialect.unsized_is_unbounded and key in _UNBOUNDED:
            return _UNBOUNDED[key]
        try:
            return _SIZED_TYPES[key](*sizes)
        except ValueError as error:
            raise self._fail("SQL-016", str(error), self._span(token.start)) from None

    def _parse_time_zone(self, token: Token, key: str) -> str:
        if self._accept("WITHOUT"):
            self._expect("TIME", "ZONE")
            return key
        if key == "TIMESTAMP" and self._accept("WITH", "LOCAL", "TIME", "ZONE"):
            return "TIMESTAMP_LTZ"
        if self._is("WITH", "TIME", "ZONE") or self._is("WITH", "LOCAL", "TIME", "ZONE"):
            local = self._accept("WITH", "LOCAL")
            if not local:
                self._advance()
            self._expect("TIME", "ZONE")
            raise self._fail(
                "SQL-016",
                f"type {key} WITH {'LOCAL ' if local else ''}TIME ZONE is not supported",
                self._span(token.start),
                "write TIMESTAMP_LTZ(3) for a point in time"
                if key == "TIMESTAMP"
                else "write TIME",
            )
        return key

    def _parse_row_type(self) -> SqlType:
        self._advance()
        if self._accept("<>"):
            return types.RowType(True, ())
        opening = self.token.key
        if opening not in ("<", "("):
            raise self._fail_expected("'<'", "write ROW<name type, …>")
        self._advance()
        closing = ">" if opening == "<" else ")"
        fields: list[types.Field] = []
        if not self._is(closing):
            fields.append(self._parse_field())
            while self._accept(","):
                fields.append(self._parse_field())
        self._expect(closing)
        return types.RowType(True, tuple(fields))

    def _parse_field(self) -> types.Field:
        name = self._parse_identifier("a field's name")
        type_, _ = self._parse_type()
        comment = self._advance().value if self.token.kind == "text" else None
        return types.Field(name.name, type_, comment)

    def _parse_size(self) -> int:
        if self.token.kind != "number" or not self.token.value.isdigit():
            raise self._fail_expected("a whole number")
        token = self._advance()
        if len(token.value) > 10:
            raise self._fail("SQL-016", "number is too large", self._token_span(token))
        return int(token.value)

    def _fail_type(self) -> Abandoned:
        token = self.token
        span = self._token_span(token)
        if token.key in _REFUSED_TYPES:
            return self._fail(
                "SQL-016", f"type {token.key} is not supported", span, _REFUSED_TYPES[token.key]
            )
        if token.key in STRUCTURE:
            return self._fail_expected("a type")
        if token.key in _NESTED_TYPES:
            self._advance()
            return self._fail_expected("'<'", f"write {token.key}<type>")
        foreign = _FOREIGN_TYPES.get(token.key)
        meant = nearest(token.key, TYPE_NAMES)
        if foreign:
            hint = f"Flink writes {foreign}"
        elif meant:
            hint = f"did you mean '{meant}'?"
        else:
            hint = f"types are {', '.join(TYPE_NAMES)}"
        return self._fail("SQL-015", f"unknown type '{token.value}'", span, hint)

    # --- units of an interval ---

    def _parse_interval_unit(self) -> tuple[str, str | None, int | None, int | None]:
        unit = self._expect_interval_unit(tuple(_INTERVAL_UNITS))
        to_unit = precision = fraction = None
        if self._accept("("):
            precision = self._parse_size()
            if unit == "SECOND" and self._accept(","):
                fraction = self._parse_size()
            self._expect(")")
        if self._is("TO") and _INTERVAL_UNITS[unit]:
            self._advance()
            to_unit = self._expect_interval_unit(_INTERVAL_UNITS[unit])
            if to_unit == "SECOND" and self._accept("("):
                fraction = self._parse_size()
                self._expect(")")
        return unit, to_unit, precision, fraction

    def _expect_interval_unit(self, allowed: tuple[str, ...]) -> str:
        unit = _UNIT_PLURALS.get(self.token.key, self.token.key)
        if unit not in allowed:
            meant = nearest(self.token.key, allowed) if self.token.kind == "word" else None
            raise self._fail_expected(
                f"a unit of time ({', '.join(allowed)})",
                f"did you mean '{meant}'?" if meant else None,
            )
        self._advance()
        return unit

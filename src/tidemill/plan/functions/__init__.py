"""Every built-in function: its signature and the type of its result. One table; the binder reads it to check calls,
`spark.expressions` has the Spark form of each row (a test holds the two together), the docs print it.

A signature is text: parameters, then the result.
    string, integer, number, boolean, bytes, date, time, timestamp, temporal, any, array, map, row
                        a family: the argument is taken as it is
    STRING, DOUBLE …    a type: the argument is cast to it if Flink would do so by itself
    common              all such arguments are cast to their common type; x:common if they are of family x, too
    element             the argument is cast to the type of the first one's elements
    a|b                 one of several families
    [x]                 optional; x… repeated, once at least
Results are a type, `$1` (the type of the first argument), `common` or the name of a rule; NULL when an argument is
NULL, unless marked `!` (never NULL), `?` (may always be NULL), `&` (NULL only when all arguments may be), `^` (when
the first may be) or `~` (as the rule says).
`=>` instead of `->`: a bare NULL is refused as an argument, as Flink does where the function is Calcite's own.
Lines of the same name are overloads; the first that takes the arguments is meant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tidemill import types as t
from tidemill.plan.expressions import Call, Expr, UserCall, walk
from tidemill.plan.functions import collections, json, logic, numbers, text, times

# In the order of the documentation.
_MODULES = {
    "Text": text,
    "Numbers": numbers,
    "Comparison, logic and choice": logic,
    "Dates and times": times,
    "Collections": collections,
    "JSON": json,
}

FAMILIES: dict[str, tuple[type[t.SqlType], ...]] = {
    "string": t.STRING_TYPES,
    "integer": t.INTEGER_TYPES,
    "number": t.NUMERIC_TYPES,
    "boolean": (t.BooleanType,),
    "bytes": t.BINARY_TYPES,
    "date": (t.DateType,),
    "time": (t.TimeType,),
    "timestamp": t.TIMESTAMP_TYPES,
    "temporal": (t.DateType, t.TimeType, *t.TIMESTAMP_TYPES),
    "unzoned": (t.TimestampType,),
    "zoned": (t.TimestampLtzType,),
    # A word such as DAY, which the parser hands on as a text.
    "unit": t.STRING_TYPES,
    "months": (t.YearMonthIntervalType,),
    "millis": (t.DayTimeIntervalType,),
    "array": (t.ArrayType,),
    "map": (t.MapType,),
    "collection": (t.ArrayType, t.MapType, t.MultisetType),
    "row": (t.RowType,),
    "any": (t.SqlType,),
}
# What < and GREATEST can compare.
FAMILIES["scalar"] = tuple(
    x for kind in ("boolean", "number", "string", "temporal") for x in FAMILIES[kind]
)
FAMILIES["ordered"] = (
    *FAMILIES["scalar"],
    *t.BINARY_TYPES,
    *t.INTERVAL_TYPES,
    t.RowType,
)

TYPES: dict[str, t.SqlType] = {
    "STRING": t.STRING,
    **{f"CHAR({n})": t.CharType(length=n) for n in (32, 36, 40, 56, 64, 96, 128)},
    "VARCHAR(128)": t.VarCharType(length=128),
    "BYTES": t.BYTES,
    "ARRAY<STRING>": t.ArrayType(element=t.STRING),
    "MAP<STRING, STRING>": t.MapType(key=t.STRING, value=t.STRING),
    "INT": t.INT,
    "BIGINT": t.BIGINT,
    "DOUBLE": t.DOUBLE,
    "BOOLEAN": t.BOOLEAN,
    "DATE": t.DateType(),
    "TIME(0)": t.TimeType(precision=0),
    "TIMESTAMP(3)": t.TimestampType(precision=3),
    "TIMESTAMP_LTZ(3)": t.TimestampLtzType(precision=3),
    "PROCTIME": t.TimestampLtzType(precision=3, attribute=t.TimeAttribute.PROCTIME),
}

AGGREGATES = (
    "COUNT",
    "SUM",
    "AVG",
    "MIN",
    "MAX",
    "STDDEV",
    "STDDEV_POP",
    "STDDEV_SAMP",
    "VARIANCE",
    "VAR_POP",
    "VAR_SAMP",
    "FIRST_VALUE",
    "LAST_VALUE",
    "LISTAGG",
    "ARRAY_AGG",
    "COLLECT",
    "JSON_ARRAYAGG",
    "JSON_OBJECTAGG",
    "PERCENTILE",
    "APPROX_COUNT_DISTINCT",
)
"""Aggregates that run; SINGLE_VALUE, which has no name in SQL, does too."""
OVER_ONLY = ("ROW_NUMBER", "LAG")
"""Those that run in OVER only."""
GATHER = "ARRAY_AGG"
"""The one that keeps the rows of a group, of which aggregate functions of the user's are computed."""
SET_MARKS = ("GROUPING", "GROUPING_ID", "GROUP_ID")
"""What can be asked about the grouping set of a row."""

NON_DETERMINISTIC = frozenset(
    [
        "RAND",
        "RAND_INTEGER",
        "UUID",
        "NOW",
        "CURRENT_TIMESTAMP",
        "CURRENT_ROW_TIMESTAMP",
        "LOCALTIMESTAMP",
        "CURRENT_DATE",
        "CURRENT_TIME",
        "LOCALTIME",
        "PROCTIME",
        "UNIX_TIMESTAMP",
        "CURRENT_WATERMARK",
    ]
)
"""Functions that may answer otherwise when they are asked again; UNIX_TIMESTAMP only without arguments."""

# Flink's other built-ins: known, so that the refusal can say so.
NOT_YET = frozenset(
    [
        "ML_PREDICT",
        "OBJECT_OF",
        "OBJECT_UPDATE",
        "CUME_DIST",
        "CUMULATE",
        "CURRENT_DATABASE",
        "CURRENT_WATERMARK",
        "DENSE_RANK",
        "HOP",
        "HOP_END",
        "HOP_PROCTIME",
        "HOP_ROWTIME",
        "HOP_START",
        "LEAD",
        "NTILE",
        "PERCENT_RANK",
        "RANK",
        "SESSION",
        "SESSION_END",
        "SESSION_PROCTIME",
        "SESSION_ROWTIME",
        "SESSION_START",
        "SOURCE_WATERMARK",
        "TO_NUMBER",
        "TRY_PARSE_JSON",
        "PARSE_JSON",
        "TUMBLE",
        "TUMBLE_END",
        "TUMBLE_PROCTIME",
        "TUMBLE_ROWTIME",
        "TUMBLE_START",
    ]
)


# Rules for results that are not one type: from the arguments to the type, whose nullability is not looked at.
Rule = Callable[[Sequence[Expr]], t.SqlType]


RULES: dict[str, Rule] = {
    "$1": lambda arguments: arguments[0].type,
    **text.RULES,
    **collections.RULES,
    **numbers.RULES,
    **times.RULES,
}

# What Flink refuses though the families fit: from the arguments to the reason, or None.
REFUSALS: dict[str, Callable[[Sequence[Expr]], str | None]] = {
    **text.REFUSALS,
    **logic.REFUSALS,
    **collections.REFUSALS,
    **json.REFUSALS,
}


@dataclass(frozen=True)
class Parameter:
    kind: str
    optional: bool = False
    repeated: bool = False

    @property
    def families(self) -> tuple[type[t.SqlType], ...]:
        """The types that are taken as they are; none if the argument is cast."""
        kinds = self.kind.removesuffix(":common").split("|")
        return tuple(x for kind in kinds for x in FAMILIES.get(kind, ()))

    @property
    def is_shared(self) -> bool:
        """Whether the argument is cast to the type that it has in common with others."""
        return self.kind == "common" or self.kind.endswith(":common")

    def takes(self, type_: t.SqlType) -> bool:
        if self.kind in TYPES:
            return t.can_assign(type_, TYPES[self.kind])
        if self.kind in ("common", "element"):
            return True
        # A bare NULL has no element type.
        null = () if set(self.families) & {t.ArrayType, t.MapType} else (t.NullType,)
        return isinstance(type_, (*self.families, *null))


@dataclass(frozen=True)
class Function:
    name: str
    parameters: tuple[Parameter, ...]
    result: str
    nulls: str
    """'' NULL in, NULL out; '!' never; '?' always; '&' only when all arguments may be;
    '^' when the first may be; '~' as the rule says."""
    bare_null: bool = True
    """Whether an argument may be the word NULL."""

    @property
    def signature(self) -> str:
        parts = []
        for p in self.parameters:
            text = p.kind + ("..." if p.repeated else "")
            parts.append(f"[{text}]" if p.optional else text)
        if self.name.startswith("EXTRACT "):
            return f"EXTRACT({self.name.removeprefix('EXTRACT ')} FROM {parts[0]})"
        if self.name in ("FLOOR TO", "CEIL TO"):
            return f"{self.name.removesuffix(' TO')}({parts[0]} TO {parts[1]})"
        return f"{self.name}({', '.join(parts)})"

    @property
    def least(self) -> int:
        return sum(not p.optional for p in self.parameters)

    @property
    def most(self) -> int | None:
        return None if any(p.repeated for p in self.parameters) else len(self.parameters)

    def parameter(self, index: int) -> Parameter:
        return self.parameters[min(index, len(self.parameters) - 1)]

    def accepts(self, count: int) -> bool:
        return self.least <= count and (self.most is None or count <= self.most)

    def takes(self, arguments: Sequence[Expr]) -> bool:
        return self.accepts(len(arguments)) and all(
            self.parameter(i).takes(a.type) for i, a in enumerate(arguments)
        )

    def result_type(self, arguments: Sequence[Expr], common: t.SqlType | None) -> t.SqlType:
        if self.result == "common":
            assert common is not None
            type_ = common
        elif self.result in RULES:
            type_ = t.materialized(RULES[self.result](arguments))
        else:
            type_ = TYPES[self.result]
        nullable = {
            "": any(a.type.nullable for a in arguments),
            "!": False,
            "?": True,
            "&": all(a.type.nullable for a in arguments),
            "^": bool(arguments) and arguments[0].type.nullable,
            "~": type_.nullable,
        }[self.nulls]
        return type_.with_nullable(nullable)


def _read(line: str) -> Function:
    left, arrow, right = re.split("([-=]>)", line)
    matched = re.match(r"(.*?)(?:\s{2,}(.*))?$", left.strip())
    assert matched
    parameters = []
    for word in (matched[2] or "").split():
        optional = word.startswith("[")
        kind = word.strip("[]")
        parameters.append(Parameter(kind.removesuffix("..."), optional, kind.endswith("...")))
    result = right.strip()
    nulls = result[-1] if result[-1] in "!?&^~" else ""
    return Function(matched[1], tuple(parameters), result.removesuffix(nulls), nulls, arrow == "->")


AREAS: dict[str, tuple[Function, ...]] = {
    area: tuple(_read(line) for line in module.SIGNATURES.splitlines() if line)
    for area, module in _MODULES.items()
}
FUNCTIONS: dict[str, tuple[Function, ...]] = {}
for _area in AREAS.values():
    for _function in _area:
        FUNCTIONS[_function.name] = (*FUNCTIONS.get(_function.name, ()), _function)


def non_deterministic(expr: Expr) -> Iterator[Call]:
    """The calls in an expression that may answer otherwise when they are asked again."""
    for part in walk(expr):
        if isinstance(part, UserCall):
            if not part.implementation.deterministic:
                yield part
            continue
        if not isinstance(part, Call) or part.function not in NON_DETERMINISTIC:
            continue
        if part.function != "UNIX_TIMESTAMP" or not part.arguments:
            yield part


def is_deterministic(expr: Expr) -> bool:
    return next(non_deterministic(expr), None) is None

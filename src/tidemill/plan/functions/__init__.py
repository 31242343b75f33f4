"""Every built-in function: its signature and the type of its result. One table; the binder reads it to check calls,
`spark.expressions` has the Spark form of each row (a test holds the two together), the docs print it.

A signature is text: parameters, then the result.
    string, integer, number, boolean, bytes, date, time, timestamp, temporal, any, array, map, row
                        a family: the argument is taken as it is
    STRING, DOUBLE …    a type: the argument is cast to it if Flink would do so by itself
    common              all such arguments are cast to their common type
    a|b                 one of several families
    [x]                 optional; x… repeated, once at least
Results are a type, `$1` (the type of the first argument), `common` or the name of a rule; NULL when an argument is NULL,
unless marked `!` (never NULL), `?` (may always be NULL) or `&` (NULL only when all arguments may be).
`=>` instead of `->`: a bare NULL is refused as an argument, as Flink does where the function is Calcite's own.
Lines of the same name are overloads; the first that takes the arguments is meant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidemill import types as t
from tidemill.plan.expressions import Expr
from tidemill.plan.functions import collections, logic, numbers, text, times

# In the order of the documentation.
_MODULES = {
    "Text": text,
    "Numbers": numbers,
    "Comparison, logic and choice": logic,
    "Dates and times": times,
    "Collections": collections,
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
    "array": (t.ArrayType,),
    "map": (t.MapType,),
    "collection": (t.ArrayType, t.MapType, t.MultisetType),
    "row": (t.RowType,),
    "any": (t.SqlType,),
}

TYPES: dict[str, t.SqlType] = {
    "STRING": t.STRING,
    "INT": t.INT,
    "BIGINT": t.BIGINT,
    "DOUBLE": t.DOUBLE,
    "BOOLEAN": t.BOOLEAN,
    "DATE": t.DateType(),
    "TIME(0)": t.TimeType(precision=0),
    "TIMESTAMP(3)": t.TimestampType(precision=3),
    "TIMESTAMP_LTZ(3)": t.TimestampLtzType(precision=3),
}

AGGREGATES = ("COUNT", "SUM", "MIN", "MAX", "AVG")

# Flink's other built-ins: known, so that the refusal can say so.
NOT_YET = frozenset(
    [
        "APPROX_COUNT_DISTINCT",
        "ARRAY_AGG",
        "ARRAY_APPEND",
        "ARRAY_CONCAT",
        "ARRAY_DISTINCT",
        "ARRAY_EXCEPT",
        "ARRAY_INTERSECT",
        "ARRAY_JOIN",
        "ARRAY_MAX",
        "ARRAY_MIN",
        "ARRAY_POSITION",
        "ARRAY_PREPEND",
        "ARRAY_REMOVE",
        "ARRAY_REVERSE",
        "ARRAY_SLICE",
        "ARRAY_SORT",
        "ARRAY_UNION",
        "COLLECT",
        "CONVERT_TZ",
        "CUME_DIST",
        "CUMULATE",
        "CURRENT_DATABASE",
        "CURRENT_WATERMARK",
        "DECODE",
        "DENSE_RANK",
        "ELEMENT",
        "ELT",
        "ENCODE",
        "FIRST_VALUE",
        "GROUPING",
        "GROUPING_ID",
        "GROUP_ID",
        "HOP",
        "HOP_END",
        "HOP_PROCTIME",
        "HOP_ROWTIME",
        "HOP_START",
        "IS_ALPHA",
        "IS_DECIMAL",
        "IS_DIGIT",
        "JSON",
        "JSON_ARRAY",
        "JSON_ARRAYAGG",
        "JSON_EXISTS",
        "JSON_OBJECT",
        "JSON_OBJECTAGG",
        "JSON_QUERY",
        "JSON_QUOTE",
        "JSON_STRING",
        "JSON_UNQUOTE",
        "JSON_VALUE",
        "LAG",
        "LAST_VALUE",
        "LEAD",
        "LISTAGG",
        "MAP_ENTRIES",
        "MAP_FROM_ARRAYS",
        "MAP_UNION",
        "NTILE",
        "OVERLAPS",
        "PARSE_URL",
        "PERCENTILE",
        "PERCENT_RANK",
        "PRINTF",
        "RANK",
        "REGEXP_COUNT",
        "REGEXP_EXTRACT_ALL",
        "REGEXP_INSTR",
        "REGEXP_SUBSTR",
        "ROW_NUMBER",
        "SESSION",
        "SESSION_END",
        "SESSION_PROCTIME",
        "SESSION_ROWTIME",
        "SESSION_START",
        "SHA2",
        "SHA224",
        "SHA384",
        "SOURCE_WATERMARK",
        "SPLIT",
        "STDDEV_POP",
        "STDDEV_SAMP",
        "STR_TO_MAP",
        "TIMESTAMPADD",
        "TIMESTAMPDIFF",
        "TO_NUMBER",
        "TRANSLATE",
        "TRY_PARSE_JSON",
        "PARSE_JSON",
        "TUMBLE",
        "TUMBLE_END",
        "TUMBLE_PROCTIME",
        "TUMBLE_ROWTIME",
        "TUMBLE_START",
        "TYPEOF",
        "UNHEX",
        "URL_DECODE",
        "URL_ENCODE",
        "UUID",
        "VARIANCE",
        "VAR_POP",
        "VAR_SAMP",
    ]
)


# Rules for results that are not one type: from the arguments to the type, whose nullability is not looked at.
Rule = Callable[[Sequence[Expr]], t.SqlType]


def _keys(arguments: Sequence[Expr]) -> t.SqlType:
    map_ = arguments[0].type
    assert isinstance(map_, t.MapType)
    return t.ArrayType(element=map_.key)


def _values(arguments: Sequence[Expr]) -> t.SqlType:
    map_ = arguments[0].type
    assert isinstance(map_, t.MapType)
    return t.ArrayType(element=map_.value)


RULES: dict[str, Rule] = {
    "$1": lambda arguments: arguments[0].type,
    "keys": _keys,
    "values": _values,
    **numbers.RULES,
    **times.RULES,
}


@dataclass(frozen=True)
class Parameter:
    kind: str
    optional: bool = False
    repeated: bool = False

    @property
    def families(self) -> tuple[type[t.SqlType], ...]:
        """The types that are taken as they are; none if the argument is cast."""
        return tuple(x for kind in self.kind.split("|") for x in FAMILIES.get(kind, ()))

    def takes(self, type_: t.SqlType) -> bool:
        if self.kind in TYPES:
            return t.can_assign(type_, TYPES[self.kind])
        return self.kind == "common" or isinstance(type_, (*self.families, t.NullType))


@dataclass(frozen=True)
class Function:
    name: str
    parameters: tuple[Parameter, ...]
    result: str
    nulls: str
    """'' NULL in, NULL out; '!' never; '?' always; '&' only when all arguments may be."""
    bare_null: bool = True
    """Whether an argument may be the word NULL."""

    @property
    def signature(self) -> str:
        parts = []
        for p in self.parameters:
            text = p.kind + ("..." if p.repeated else "")
            parts.append(f"[{text}]" if p.optional else text)
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
            type_ = RULES[self.result](arguments)
        else:
            type_ = TYPES[self.result]
        nullable = {
            "": any(a.type.nullable for a in arguments),
            "!": False,
            "?": True,
            "&": all(a.type.nullable for a in arguments),
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
    nulls = result[-1] if result[-1] in "!?&" else ""
    return Function(
        matched[1], tuple(parameters), result.removesuffix(nulls), nulls, arrow == "->"
    )


AREAS: dict[str, tuple[Function, ...]] = {
    area: tuple(_read(line) for line in module.SIGNATURES.splitlines() if line)
    for area, module in _MODULES.items()
}
FUNCTIONS: dict[str, tuple[Function, ...]] = {}
for _area in AREAS.values():
    for _function in _area:
        FUNCTIONS[_function.name] = (*FUNCTIONS.get(_function.name, ()), _function)


def aggregate_type(function: str, argument: t.SqlType | None, grouped: bool) -> t.SqlType | None:
    """The result type of an aggregate, or None when it does not take such an argument."""
    if function == "COUNT":
        return t.BIGINT.not_null
    assert argument is not None
    nullable = argument.nullable or not grouped
    if function in ("MIN", "MAX"):
        comparable = not isinstance(
            argument, (t.ArrayType, t.MapType, t.MultisetType, t.RowType, t.NullType)
        )
        return argument.with_nullable(nullable) if comparable else None
    if not isinstance(argument, t.NUMERIC_TYPES):
        return None
    if isinstance(argument, t.DecimalType):
        scale = argument.scale if function == "SUM" else max(6, argument.scale)
        return t.DecimalType(nullable, 38, scale)
    return argument.with_nullable(nullable)

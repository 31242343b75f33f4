"""Every built-in function: its signature and the type of its result. One table; the binder reads it to check calls,
`spark.expressions` has the Spark form of each row (a test holds the two together), the docs print it.

A signature is text: parameters, then the result.
    string, integer, number, boolean, bytes, date, time, timestamp, temporal, any, array, map, row
                        a family: the argument is taken as it is
    STRING, DOUBLE …    a type: the argument is cast to it if Flink would do so by itself
    common              all such arguments are cast to their common type
    [x]                 optional; x… repeated, once at least
Results are a type, `$1` (the type of the first argument) or `common`; NULL when an argument is NULL, unless marked
`!` (never NULL), `?` (may always be NULL) or `&` (NULL only when all arguments may be).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tidemill import types as t

SIGNATURES = """
# text
UPPER                 string                                  -> STRING
LOWER                 string                                  -> STRING
INITCAP               string                                  -> STRING
CHAR_LENGTH           string                                  -> INT
CHARACTER_LENGTH      string                                  -> INT
OCTET_LENGTH          string                                  -> INT
ASCII                 string                                  -> INT
CHR                   integer                                 -> STRING
CONCAT                STRING...                               -> STRING
CONCAT_WS             STRING STRING...                        -> STRING
SUBSTRING             string INT [INT]                        -> STRING
SUBSTR                string INT [INT]                        -> STRING
LEFT                  string INT                              -> STRING
RIGHT                 string INT                              -> STRING
TRIM                  string string                           -> STRING
TRIM LEADING          string string                           -> STRING
TRIM TRAILING         string string                           -> STRING
LTRIM                 string [string]                         -> STRING
RTRIM                 string [string]                         -> STRING
BTRIM                 string [string]                         -> STRING
LPAD                  string INT string                       -> STRING
RPAD                  string INT string                       -> STRING
REPEAT                string INT                              -> STRING
REVERSE               string                                  -> STRING
REPLACE               string string string                    -> STRING
OVERLAY               string string INT [INT]                 -> STRING
POSITION              string string                           -> INT
LOCATE                string string [INT]                     -> INT
INSTR                 string string                           -> INT
REGEXP_REPLACE        string string string                    -> STRING
REGEXP_EXTRACT        string string [INT]                     -> STRING?
REGEXP                string string                           -> BOOLEAN
SPLIT_INDEX           string string INT                       -> STRING?
STARTSWITH            string string                           -> BOOLEAN
ENDSWITH              string string                           -> BOOLEAN
TO_BASE64             string                                  -> STRING
FROM_BASE64           string                                  -> STRING
MD5                   string                                  -> STRING
SHA1                  string                                  -> STRING
SHA256                string                                  -> STRING
SHA512                string                                  -> STRING
LIKE                  string string [string]                  -> BOOLEAN
||                    STRING STRING                           -> STRING

# numbers
ABS                   number                                  -> $1
SIGN                  number                                  -> $1
CEIL                  number                                  -> $1
CEILING               number                                  -> $1
FLOOR                 number                                  -> $1
ROUND                 number [INT]                            -> $1
POWER                 DOUBLE DOUBLE                           -> DOUBLE
SQRT                  DOUBLE                                  -> DOUBLE
EXP                   DOUBLE                                  -> DOUBLE
LN                    DOUBLE                                  -> DOUBLE
LOG10                 DOUBLE                                  -> DOUBLE
LOG2                  DOUBLE                                  -> DOUBLE
SIN                   DOUBLE                                  -> DOUBLE
COS                   DOUBLE                                  -> DOUBLE
TAN                   DOUBLE                                  -> DOUBLE
ASIN                  DOUBLE                                  -> DOUBLE
ACOS                  DOUBLE                                  -> DOUBLE
ATAN                  DOUBLE                                  -> DOUBLE
ATAN2                 DOUBLE DOUBLE                           -> DOUBLE
DEGREES               DOUBLE                                  -> DOUBLE
RADIANS               DOUBLE                                  -> DOUBLE
PI                                                            -> DOUBLE!
E                                                             -> DOUBLE!
BIN                   BIGINT                                  -> STRING
HEX                   any                                     -> STRING

# comparison, logic and choice
=                     common common                           -> BOOLEAN
<>                    common common                           -> BOOLEAN
<                     common common                           -> BOOLEAN
<=                    common common                           -> BOOLEAN
>                     common common                           -> BOOLEAN
>=                    common common                           -> BOOLEAN
IS DISTINCT FROM      common common                           -> BOOLEAN!
IS NOT DISTINCT FROM  common common                           -> BOOLEAN!
IS NULL               any                                     -> BOOLEAN!
IS NOT NULL           any                                     -> BOOLEAN!
IS TRUE               boolean                                 -> BOOLEAN!
IS FALSE              boolean                                 -> BOOLEAN!
AND                   boolean boolean                         -> BOOLEAN
OR                    boolean boolean                         -> BOOLEAN
NOT                   boolean                                 -> BOOLEAN
IN                    common common...                        -> BOOLEAN
COALESCE              common...                               -> common&
IFNULL                common common                           -> common&
NULLIF                common common                           -> $1?
IF                    boolean common common                   -> common
GREATEST              common...                               -> common
LEAST                 common...                               -> common

# dates and times
CURRENT_TIMESTAMP                                             -> TIMESTAMP_LTZ(3)!
CURRENT_ROW_TIMESTAMP                                         -> TIMESTAMP_LTZ(3)!
NOW                                                           -> TIMESTAMP_LTZ(3)!
PROCTIME                                                      -> TIMESTAMP_LTZ(3)!
LOCALTIMESTAMP                                                -> TIMESTAMP(3)!
CURRENT_DATE                                                  -> DATE!
LOCALTIME                                                     -> TIME(0)!
CURRENT_TIME                                                  -> TIME(0)!
TO_TIMESTAMP          string [string]                         -> TIMESTAMP(3)?
TO_TIMESTAMP_LTZ      number [INT]                            -> TIMESTAMP_LTZ(3)?
TO_DATE               string [string]                         -> DATE?
DATE_FORMAT           temporal string                         -> STRING
FROM_UNIXTIME         BIGINT [string]                         -> STRING
UNIX_TIMESTAMP        [string] [string]                       -> BIGINT
YEAR                  temporal                                -> BIGINT
QUARTER               temporal                                -> BIGINT
MONTH                 temporal                                -> BIGINT
WEEK                  temporal                                -> BIGINT
DAYOFYEAR             temporal                                -> BIGINT
DAYOFMONTH            temporal                                -> BIGINT
DAYOFWEEK             temporal                                -> BIGINT
HOUR                  temporal                                -> BIGINT
MINUTE                temporal                                -> BIGINT
SECOND                temporal                                -> BIGINT

# collections
CARDINALITY           collection                              -> INT
MAP_KEYS              map                                     -> keys
MAP_VALUES            map                                     -> values
ARRAY_CONTAINS        array any                               -> BOOLEAN
"""

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
        "ACOSH",
        "ASINH",
        "ATANH",
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
        "BITAND",
        "BITNOT",
        "BITOR",
        "BITXOR",
        "COLLECT",
        "CONVERT_TZ",
        "COSH",
        "COT",
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
        "LOG",
        "MAP_ENTRIES",
        "MAP_FROM_ARRAYS",
        "MAP_UNION",
        "NTILE",
        "OVERLAPS",
        "PARSE_URL",
        "PERCENTILE",
        "PERCENT_RANK",
        "PRINTF",
        "RAND",
        "RAND_INTEGER",
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
        "SINH",
        "SOURCE_WATERMARK",
        "SPLIT",
        "STDDEV_POP",
        "STDDEV_SAMP",
        "STR_TO_MAP",
        "SUM0",
        "TANH",
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


@dataclass(frozen=True)
class Parameter:
    kind: str
    optional: bool = False
    repeated: bool = False


@dataclass(frozen=True)
class Function:
    name: str
    parameters: tuple[Parameter, ...]
    result: str
    nulls: str
    """'' NULL in, NULL out; '!' never; '?' always; '&' only when all arguments may be."""

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

    def result_type(self, arguments: Sequence[t.SqlType], common: t.SqlType | None) -> t.SqlType:
        match self.result:
            case "$1":
                type_ = arguments[0]
            case "common":
                assert common is not None
                type_ = common
            case "keys":
                assert isinstance(arguments[0], t.MapType)
                type_ = t.ArrayType(element=arguments[0].key)
            case "values":
                assert isinstance(arguments[0], t.MapType)
                type_ = t.ArrayType(element=arguments[0].value)
            case named:
                type_ = TYPES[named]
        nullable = {
            "": any(a.nullable for a in arguments),
            "!": False,
            "?": True,
            "&": all(a.nullable for a in arguments),
        }[self.nulls]
        return type_.with_nullable(nullable)


def _read(line: str) -> Function:
    left, right = line.split("->")
    matched = re.match(r"(.*?)(?:\s{2,}(.*))?$", left.strip())
    assert matched
    parameters = []
    for word in (matched[2] or "").split():
        optional = word.startswith("[")
        kind = word.strip("[]")
        parameters.append(Parameter(kind.removesuffix("..."), optional, kind.endswith("...")))
    result = right.strip()
    nulls = result[-1] if result[-1] in "!?&" else ""
    return Function(matched[1], tuple(parameters), result.removesuffix(nulls), nulls)


FUNCTIONS: dict[str, Function] = {
    f.name: f
    for f in (
        _read(line) for line in SIGNATURES.splitlines() if line.strip() and not line.startswith("#")
    )
}


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

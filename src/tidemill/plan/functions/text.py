"""Functions on text, also regular expressions and digests. How to read a signature: `tidemill.plan.functions`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidemill import types as t
from tidemill.plan.expressions import Expr, Literal

SIGNATURES = """
UPPER                 string                                  => $1
LOWER                 string                                  => $1
INITCAP               string                                  => $1
CHAR_LENGTH           string                                  => INT
CHARACTER_LENGTH      string                                  => INT
ASCII                 string                                  => INT
CHR                   integer                                 => STRING?
CONCAT                string...                               => STRING
CONCAT_WS             string string...                        => STRING
||                    string string                           => CHAR(n + m)
SUBSTRING             string INT [INT]                        => VARCHAR(n)?
SUBSTR                string INT [INT]                        => VARCHAR(n)?
LEFT                  string INT                              => VARCHAR(n)?
RIGHT                 string INT                              => VARCHAR(n)?
TRIM                  string string                           => VARCHAR(n)
TRIM LEADING          string string                           => VARCHAR(n)
TRIM TRAILING         string string                           => VARCHAR(n)
LTRIM                 string [string]                         => VARCHAR(n)
RTRIM                 string [string]                         => VARCHAR(n)
BTRIM                 string [string]                         -> STRING
LPAD                  string INT string                       => STRING
RPAD                  string INT string                       => STRING
REPEAT                string INT                              => STRING
REVERSE               string                                  => STRING?
REPLACE               string string string                    => STRING
TRANSLATE             string string string                    => STRING
OVERLAY               string string INT [INT]                 => VARCHAR(n + m)
POSITION              string string                           => INT
LOCATE                string string [INT]                     => INT
INSTR                 string string [INT] [INT]               => INT
STARTSWITH            string string                           -> BOOLEAN
STARTSWITH            bytes bytes                             -> BOOLEAN
ENDSWITH              string string                           -> BOOLEAN
ENDSWITH              bytes bytes                             -> BOOLEAN
LIKE                  string string [string]                  => BOOLEAN
SIMILAR TO            string string [string]                  => BOOLEAN
REGEXP                string string                           => BOOLEAN
REGEXP_REPLACE        string string string                    => STRING
REGEXP_EXTRACT        string string [INT]                     => STRING?
REGEXP_EXTRACT_ALL    string string [INT]                     -> ARRAY<STRING>?
REGEXP_COUNT          string string                           -> INT?
REGEXP_INSTR          string string                           -> INT?
REGEXP_SUBSTR         string string                           -> STRING?
SPLIT_INDEX           string string INT                       => STRING?
SPLIT_INDEX           string INT INT                          => STRING?
SPLIT                 string string                           -> ARRAY<STRING>
STR_TO_MAP            string [string] [string]                => MAP<STRING, STRING>?
ELT                   integer string:common...                => common?
ELT                   integer bytes:common...                 => common?
PRINTF                string [any...]                         -> STRING?
PARSE_URL             string string [string]                  => STRING?
URL_ENCODE            string                                  -> STRING?
URL_DECODE            string                                  -> STRING?
TO_BASE64             string|bytes                            => STRING
FROM_BASE64           string|bytes                            => STRING
UNHEX                 string                                  -> BYTES?
ENCODE                string string                           => BYTES
DECODE                bytes string                            => STRING
MD5                   string                                  => CHAR(32)
SHA1                  string                                  => CHAR(40)
SHA224                string                                  => CHAR(56)
SHA256                string                                  => CHAR(64)
SHA384                string                                  => CHAR(96)
SHA512                string                                  => CHAR(128)
SHA2                  string INT                              => VARCHAR(128)
UUID                                                          -> CHAR(36)!
"""


def _length(expr: Expr) -> int:
    assert isinstance(expr.type, (t.CharType, t.VarCharType))
    return expr.type.length


def _varying(arguments: Sequence[Expr]) -> t.SqlType:
    """As long as the first argument at most."""
    return t.VarCharType(length=max(1, _length(arguments[0])))


def _joined(arguments: Sequence[Expr]) -> t.SqlType:
    total = min(t.MAX_LENGTH, sum(map(_length, arguments)))
    fixed = all(isinstance(a.type, t.CharType) for a in arguments)
    return t.CharType(length=total) if fixed else t.VarCharType(length=max(1, total))


def _overlaid(arguments: Sequence[Expr]) -> t.SqlType:
    total = min(t.MAX_LENGTH, sum(map(_length, arguments[:2])))
    return t.VarCharType(length=max(1, total))


RULES: dict[str, Callable[[Sequence[Expr]], t.SqlType]] = {
    "VARCHAR(n)": _varying,
    "CHAR(n + m)": _joined,
    "VARCHAR(n + m)": _overlaid,
}


def _sha2(arguments: Sequence[Expr]) -> str | None:
    bits = arguments[1].value if isinstance(arguments[1], Literal) else None
    known = bits is None or bits in (224, 256, 384, 512)
    return None if known else f"there is no SHA-2 digest of {bits!s} bits"


def _elt(arguments: Sequence[Expr]) -> str | None:
    place = arguments[0].value if isinstance(arguments[0], Literal) else None
    return f"ELT has no argument {place}" if isinstance(place, int) and place < 0 else None


REFUSALS: dict[str, Callable[[Sequence[Expr]], str | None]] = {"SHA2": _sha2, "ELT": _elt}

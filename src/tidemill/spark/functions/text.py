"""Text functions as Spark SQL. How to read the tables: `tidemill.spark.functions`.

Where Spark's own function does the same, if only for the constants of a call, it is taken; the rest is in the kernel.
"""

from __future__ import annotations

import re

from tidemill import types as t
from tidemill.plan.expressions import Call, Expr, Literal
from tidemill.spark.functions.form import Form, Write, fill, quote

_INT_MAX = 2147483647


def _is_at_least(expr: Expr, least: int) -> bool:
    """Whether this is a constant number that is not too small."""
    return isinstance(expr, Literal) and isinstance(expr.value, int) and expr.value >= least


def _is_text(expr: Expr) -> bool:
    """Whether this is a constant text with something in it."""
    return isinstance(expr, Literal) and isinstance(expr.value, str) and bool(expr.value)


def _same_length(template: str) -> Write:
    """Flink works out a function of a constant before the job runs, and cuts the result to the constant's length."""

    def write(call: Call, parts: list[str]) -> str:
        made = fill(template, parts)
        if isinstance(call.arguments[0], Literal) and isinstance(call.type, t.CharType):
            return f"left({made}, {call.type.length})"
        return made

    return write


def _substring(call: Call, parts: list[str]) -> str:
    start, *length = call.arguments[1:]
    if _is_at_least(start, 0) and all(_is_at_least(x, 0) for x in length):
        return f"substring({', '.join(parts)})"
    return f"tidemill_substring({', '.join(parts if length else [*parts, str(_INT_MAX)])})"


def _overlay(_: Call, parts: list[str]) -> str:
    length = parts[3] if len(parts) > 3 else f"length({parts[1]})"
    return f"tidemill_overlay({', '.join([*parts[:3], length])})"


def _replace(call: Call, parts: list[str]) -> str:
    name = "replace" if _is_text(call.arguments[1]) else "tidemill_replace"
    return f"{name}({', '.join(parts)})"


def _instr(_: Call, parts: list[str]) -> str:
    if len(parts) == 2:
        return f"instr({', '.join(parts)})"
    return f"tidemill_instr({', '.join([*parts, '1'][:4])})"


def _like(call: Call, parts: list[str]) -> str:
    text, pattern, *escape = parts
    given = call.arguments[1]
    marker = call.arguments[2] if escape else None
    constant = _is_text(given) and (marker is None or isinstance(marker, Literal))
    if constant and isinstance(given, Literal) and "_" in str(given.value):
        sign = str(marker.value) if isinstance(marker, Literal) else ""
        regex = _like_regex(str(given.value), sign)
        if regex is not None:
            return f"({text} RLIKE {quote(regex)})"
    if escape:
        return f"({text} LIKE {pattern} ESCAPE {escape[0]})"
    # A backslash is a sign like others to Flink.
    if isinstance(given, Literal) and isinstance(given.value, str):
        return f"({text} LIKE {quote(given.value.replace(chr(92), chr(92) * 2))})"
    return rf"({text} LIKE replace({pattern}, '\\', '\\\\'))"


def _like_regex(pattern: str, escape: str) -> str | None:
    """Flink's `_` does not take a line feed, Spark's does. None for an escape that Spark is to complain of."""
    made, signs = [], iter(pattern)
    for sign in signs:
        if sign == escape:
            sign = next(signs, "")
            if sign not in ("%", "_", escape) or not sign:
                return None
            made.append(re.escape(sign))
        else:
            made.append({"%": "(?s:.*)", "_": "."}.get(sign) or re.escape(sign))
    return rf"\A{''.join(made)}\z"


def _split_index(call: Call, parts: list[str]) -> str:
    coded = isinstance(call.arguments[1].type, t.IntType)
    return f"tidemill_split_index{'_by_code' if coded else ''}({', '.join(parts)})"


def _elt(_: Call, parts: list[str]) -> str:
    place, *choices = parts
    whens = " ".join(f"WHEN {i} THEN {choice}" for i, choice in enumerate(choices, 1))
    return f"(CASE {place} {whens} END)"


def _printf(call: Call, parts: list[str]) -> str:
    """Dates and times are numbers to Flink here."""
    shown = []
    for argument, part in zip(call.arguments, parts, strict=True):
        if isinstance(argument.type, t.DateType):
            part = f"unix_date({part})"
        elif isinstance(argument.type, t.TimeType):
            part = f"CAST(time_diff('MILLISECOND', TIME '00:00:00', {part}) AS INT)"
        shown.append(part)
    values = ", ".join(f"'v{i}', {part}" for i, part in enumerate(shown[1:]))
    return f"tidemill_printf({shown[0]}, named_struct({values or quote('v') + ', 0'}))"


def _parse_url(_: Call, parts: list[str]) -> str:
    return f"tidemill_url_{'part' if len(parts) == 2 else 'query'}({', '.join(parts)})"


def _from_base64(call: Call, parts: list[str]) -> str:
    return f"CAST(tidemill_from_base64(CAST({parts[0]} AS STRING)) AS STRING)"


def _encode(call: Call, parts: list[str]) -> str:
    charset = call.arguments[1]
    if isinstance(charset, Literal) and str(charset.value).upper() == "UTF-8":
        return f"CAST({parts[0]} AS BINARY)"
    return f"tidemill_encode({', '.join(parts)})"


def _sha2(call: Call, parts: list[str]) -> str:
    bits = call.arguments[1]
    if isinstance(bits, Literal) and bits.value in (224, 256, 384, 512):
        return f"sha2({', '.join(parts)})"
    return f"tidemill_sha2({', '.join(parts)})"


FORMS: dict[str, Form] = {
    "UPPER": _same_length("upper({0})"),
    "LOWER": _same_length("lower({0})"),
    "INITCAP": _same_length("tidemill_initcap({0})"),
    "CHAR_LENGTH": "tidemill_char_length({0})",
    "CHARACTER_LENGTH": "tidemill_char_length({0})",
    "ASCII": "tidemill_ascii({0})",
    "CHR": "chr({0})",
    "CONCAT": "concat({*})",
    "CONCAT_WS": "concat_ws({*})",
    "||": "concat({0}, {1})",
    "SUBSTRING": _substring,
    "SUBSTR": _substring,
    "LEFT": "left({0}, {1})",
    "RIGHT": "right({0}, {1})",
    "TRIM": "trim(BOTH {1} FROM {0})",
    "TRIM LEADING": "trim(LEADING {1} FROM {0})",
    "TRIM TRAILING": "trim(TRAILING {1} FROM {0})",
    "LTRIM": "trim(LEADING {1?$ }FROM {0})",
    "RTRIM": "trim(TRAILING {1?$ }FROM {0})",
    "BTRIM": "trim(BOTH {1?$ }FROM {0})",
    "LPAD": "tidemill_lpad({0}, {1}, {2})",
    "RPAD": "tidemill_rpad({0}, {1}, {2})",
    "REPEAT": "repeat({0}, {1})",
    "REVERSE": "reverse({0})",
    "REPLACE": _replace,
    "TRANSLATE": "tidemill_translate({0}, {1}, {2})",
    "OVERLAY": _overlay,
    "POSITION": "locate({0}, {1})",
    "LOCATE": lambda _, parts: f"{'tidemill_' * (len(parts) > 2)}locate({', '.join(parts)})",
    "INSTR": _instr,
    "STARTSWITH": "startswith({0}, {1})",
    "ENDSWITH": "endswith({0}, {1})",
    "LIKE": _like,
    "SIMILAR TO": lambda _, parts: f"tidemill_similar({', '.join([*parts, quote('')][:3])})",
    "REGEXP": "tidemill_regexp({0}, {1})",
    "REGEXP_REPLACE": "tidemill_regexp_replace({0}, {1}, {2})",
    "REGEXP_EXTRACT": lambda _, parts: f"tidemill_regexp_extract({', '.join([*parts, '0'][:3])})",
    "REGEXP_EXTRACT_ALL": (
        lambda _, parts: f"tidemill_regexp_extract_all({', '.join([*parts, '1'][:3])})"
    ),
    "REGEXP_COUNT": "tidemill_regexp_count({0}, {1})",
    "REGEXP_INSTR": "tidemill_regexp_instr({0}, {1})",
    "REGEXP_SUBSTR": "tidemill_regexp_substr({0}, {1})",
    "SPLIT_INDEX": _split_index,
    "SPLIT": "tidemill_split({0}, {1})",
    "STR_TO_MAP": (
        lambda _, parts: (
            f"tidemill_str_to_map({', '.join([*parts, *(quote(x) for x in ',='[len(parts) - 1 :])])})"
        )
    ),
    "ELT": _elt,
    "PRINTF": _printf,
    "PARSE_URL": _parse_url,
    "URL_ENCODE": "url_encode({0})",
    "URL_DECODE": "try_url_decode({0})",
    "TO_BASE64": r"replace(base64(CAST({0} AS BINARY)), '\r\n', '')",
    "FROM_BASE64": _from_base64,
    "UNHEX": "tidemill_unhex({0})",
    "ENCODE": _encode,
    "DECODE": "tidemill_decode({0}, {1})",
    "MD5": "md5({0})",
    "SHA1": "sha1({0})",
    "SHA224": "sha2({0}, 224)",
    "SHA256": "sha2({0}, 256)",
    "SHA384": "sha2({0}, 384)",
    "SHA512": "sha2({0}, 512)",
    "SHA2": _sha2,
    "UUID": "tidemill_uuid({0})",
}

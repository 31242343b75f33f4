"""Text functions as Spark SQL. How to read the tables: `tidemill.spark.functions`."""

from __future__ import annotations

from tidemill.plan.expressions import Call
from tidemill.spark.functions.form import Form


def _regexp_extract(_: Call, parts: list[str]) -> str:
    group = parts[2] if len(parts) > 2 else "0"
    # Spark gives '' for no match, Flink NULL.
    return (
        f"if(regexp({parts[0]}, {parts[1]}), regexp_extract({parts[0]}, {parts[1]}, {group}), NULL)"
    )


FORMS: dict[str, Form] = {
    "UPPER": "upper({0})",
    "LOWER": "lower({0})",
    "INITCAP": "initcap({0})",
    "CHAR_LENGTH": "char_length({0})",
    "CHARACTER_LENGTH": "char_length({0})",
    "OCTET_LENGTH": "octet_length({0})",
    "ASCII": "ascii({0})",
    "CHR": "chr({0})",
    "CONCAT": "concat({*})",
    "CONCAT_WS": "concat_ws({*})",
    "SUBSTRING": "substring({0}, {1}{2?, $})",
    "SUBSTR": "substring({0}, {1}{2?, $})",
    "LEFT": "left({0}, {1})",
    "RIGHT": "right({0}, {1})",
    "TRIM": "trim(BOTH {1} FROM {0})",
    "TRIM LEADING": "trim(LEADING {1} FROM {0})",
    "TRIM TRAILING": "trim(TRAILING {1} FROM {0})",
    "LTRIM": "trim(LEADING {1?$ }FROM {0})",
    "RTRIM": "trim(TRAILING {1?$ }FROM {0})",
    "BTRIM": "trim(BOTH {1?$ }FROM {0})",
    "LPAD": "lpad({0}, {1}, {2})",
    "RPAD": "rpad({0}, {1}, {2})",
    "REPEAT": "repeat({0}, {1})",
    "REVERSE": "reverse({0})",
    "REPLACE": "replace({0}, {1}, {2})",
    "OVERLAY": "overlay({0} PLACING {1} FROM {2}{3? FOR $})",
    "POSITION": "locate({0}, {1})",
    "LOCATE": "locate({0}, {1}{2?, $})",
    "INSTR": "instr({0}, {1})",
    "REGEXP_REPLACE": "regexp_replace({0}, {1}, {2})",
    "REGEXP": "regexp({0}, {1})",
    "SPLIT_INDEX": r"get(split({0}, concat('\\Q', {1}, '\\E')), {2})",
    "STARTSWITH": "startswith({0}, {1})",
    "ENDSWITH": "endswith({0}, {1})",
    "TO_BASE64": "base64(CAST({0} AS BINARY))",
    "FROM_BASE64": "CAST(unbase64({0}) AS STRING)",
    "MD5": "md5({0})",
    "SHA1": "sha1({0})",
    "SHA256": "sha2({0}, 256)",
    "SHA512": "sha2({0}, 512)",
    "LIKE": "({0} LIKE {1}{2? ESCAPE $})",
    "||": "concat({0}, {1})",
    "REGEXP_EXTRACT": _regexp_extract,
}

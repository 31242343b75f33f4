"""Functions on JSON. How to read a signature: `tidemill.plan.functions`. The clauses of a call (RETURNING, ON EMPTY,
ON ERROR, WRAPPER, ON NULL) are read in `plan.scope`, which hands them on as constants."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tidemill import types as t
from tidemill.plan.expressions import Expr

SIGNATURES = """
IS JSON               string                                  => BOOLEAN!
IS JSON VALUE         string                                  => BOOLEAN!
IS JSON OBJECT        string                                  => BOOLEAN!
IS JSON ARRAY         string                                  => BOOLEAN!
IS JSON SCALAR        string                                  => BOOLEAN!
JSON_EXISTS           string string                           => BOOLEAN?
JSON_VALUE            string string                           => STRING?
JSON_QUERY            string string                           => STRING?
JSON_STRING           any                                     -> STRING
JSON_OBJECT           [any...]                                => STRING!
JSON_ARRAY            [any...]                                => STRING!
JSON                  string                                  -> STRING
JSON_QUOTE            string                                  -> STRING
JSON_UNQUOTE          string                                  -> STRING
"""

_STEP = r"""\.\.? (?: [^.\[\]()*?@'"\s]+ | \* )
    | (?:\.\.)? \[ \s* (?: '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | \*
                         | -?\d* \s*:\s* -?\d* | -?\d+ (?:\s*,\s* -?\d+)* ) \s* \]"""
_PATH = re.compile(rf"\$ (?: {_STEP} )*", re.VERBOSE | re.DOTALL)
_MODE = re.compile(r"\s*(strict|lax)\s+", re.IGNORECASE)


def is_path(text: str) -> bool:
    """Whether the kernel can follow this path: members, indexes, several of them, slices, all, at every depth."""
    path = _MODE.sub("", text, count=1).strip() if _MODE.match(text) else text.strip()
    return _PATH.fullmatch(path if path.startswith("$") else f"$.{path}") is not None


def _is_jsonable(type_: t.SqlType) -> bool:
    match type_:
        case t.ArrayType(element=element):
            return _is_jsonable(element)
        case t.MapType(key=key, value=value):
            return isinstance(key, t.STRING_TYPES) and _is_jsonable(value)
        case t.RowType(fields=fields):
            return all(_is_jsonable(f.type) for f in fields)
    simple = (t.BooleanType, t.NullType, *t.BINARY_TYPES, *t.TIMESTAMP_TYPES)
    return isinstance(type_, (*t.NUMERIC_TYPES, *t.STRING_TYPES, *simple))


def _unwritable(arguments: Sequence[Expr]) -> str | None:
    found = next((a.type for a in arguments if not _is_jsonable(a.type)), None)
    return None if found is None else f"{found.as_nullable} cannot be written as JSON"


REFUSALS: dict[str, Callable[[Sequence[Expr]], str | None]] = dict.fromkeys(
    ("JSON_STRING", "JSON_OBJECT", "JSON_ARRAY"), _unwritable
)

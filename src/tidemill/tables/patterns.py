"""Java's regular expressions where Python matches them.

In: a pattern as a script writes it. Out: the same in Python's words. Law: what Python would read in another way, or not
at all, is refused.
"""

from __future__ import annotations

import re
from functools import lru_cache

from tidemill.tables.options import BadValue


@lru_cache(maxsize=256)
def python_pattern(text: str) -> str:
    if "&&" in text:
        raise BadValue(f"'&&' in the pattern '{text}' cannot be used here.")
    quoted = _QUOTED.sub(lambda found: re.escape(found[1]), text)
    pattern = _NAMED_GROUP.sub("(?P<", quoted).replace(r"\z", r"\Z")
    try:
        re.compile(pattern)
    except re.error as error:
        raise BadValue(f"Not a regular expression that can be used here: {error}.") from None
    return pattern


_QUOTED = re.compile(r"\\Q(.*?)(?:\\E|$)", re.DOTALL)
_NAMED_GROUP = re.compile(r"\(\?<(?![=!])")

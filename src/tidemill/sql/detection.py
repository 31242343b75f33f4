"""Which dialect a script is written in, told by its tokens. In: text. Out: a Dialect; Flink's when nothing tells.

Law: a script need not parse, nor be right, for its dialect to be found: what is looked at are the options of WITH
clauses and words that only one vendor has. Oceanus writes what Flink writes, so it is never found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tidemill.errors import Source
from tidemill.sql.dialects import BLINK, DLI, FLINK, Dialect
from tidemill.sql.lexer import Token, tokenize

# A text without any of these is Flink's; most scripts are told by this alone, without their tokens.
_PERHAPS = re.compile(
    r"""" | \btype\b | withoffset | _auth_name | \bwith\s*\(\s*[^'\s] | watermark\s+[\w`]+\s+for\b""",
    re.IGNORECASE | re.VERBOSE,
)
_NAMED_AUTHENTICATION = ("ssl_auth_name", "krb_auth_name")


def detect(text: str) -> Dialect:
    """The dialect of a script; the first thing that tells decides."""
    if not _PERHAPS.search(text):
        return FLINK
    tokens, _ = tokenize(Source("", text))
    for at, token in enumerate(tokens):
        following = [t.key for t in tokens[at + 1 : at + 3]]
        if token.key == "WITHOFFSET" and following[:1] == ["("]:
            return BLINK
        if token.key == "WATERMARK" and following[:1] != ["FOR"] and following[1:] == ["FOR"]:
            return BLINK
        if token.key == "WITH" and following[:1] == ["("]:
            for option in _options(tokens, at + 2):
                told = _told_by(option, text)
                if told is not None:
                    return told
    return FLINK


def _options(tokens: list[Token], start: int) -> Iterator[list[Token]]:
    """The tokens of each `key = value` up to the closing parenthesis."""
    option: list[Token] = []
    for token in tokens[start:]:
        if token.kind == "end" or token.key in (")", ";"):
            break
        if token.key == ",":
            yield option
            option = []
        else:
            option.append(token)
    yield option


def _told_by(option: list[Token], text: str) -> Dialect | None:
    equals = next((i for i, token in enumerate(option) if token.key == "="), 0)
    if not equals:
        return None
    key = option[0]
    if key.kind in ("word", "name"):
        return BLINK
    if any(text[token.start] == '"' for token in option):
        return DLI
    if key.value.lower() == "type":
        return BLINK
    return DLI if key.value.lower() in _NAMED_AUTHENTICATION else None

"""A Kafka record as one line of JSON, and back.

    {"key": "u1", "value": {"n": 1}, "headers": {"h": "x"}, "partition": 0, "timestamp": 1700000000000}

In a key, value or header, a JSON string stands for its UTF-8 bytes, null for none, {"base64": "…"}
for any bytes, and everything else for its own text without the spaces between its tokens.
Law: `parse_line(format_line(r))` has the bytes of `r`. A value that is JSON is therefore shown as
JSON only if its text survives unchanged (numbers keep their digits), else as a string.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from dataclasses import dataclass
from typing import NoReturn

from tidemill.errors import usage_error

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Record:
    """Topic and offset are known only of a record that was read."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None
    topic: str | None = None
    offset: int | None = None


# The members of an envelope. Topic and offset, which `topic read --address` adds, are not written.
MEMBERS = ("key", "value", "headers", "partition", "timestamp", "topic", "offset")


def parse_line(line: bytes, number: int, plain: bool = False) -> Record:
    """The record that a line stands for.

    An object with a `value` and no member beyond MEMBERS is an envelope; any other line is itself
    the value, byte for byte, as every line is if `plain`.
    """
    members = None if plain else _members(line)
    if members is None or "value" not in members or not set(members) <= set(MEMBERS):
        return Record(line)
    return Record(
        value=_bytes(members["value"], "value", number),
        key=_bytes(members.get("key", "null"), "key", number),
        headers=_headers(members.get("headers", "null"), number),
        partition=_integer(members.get("partition", "null"), "partition", number),
        timestamp_ms=_integer(members.get("timestamp", "null"), "timestamp", number),
    )


def format_line(record: Record, address: bool = False) -> str:
    members = {
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": _headers_text(record.headers),
        "partition": json.dumps(record.partition),
        "timestamp": json.dumps(record.timestamp_ms),
    }
    if address:
        members |= {"topic": json.dumps(record.topic), "offset": json.dumps(record.offset)}
    return "{" + ",".join(f'"{name}":{text}' for name, text in members.items()) + "}"


# --- reading ------------------------------------------------------------------------------------

_SPACE = re.compile(r"[ \t\n\r]*")


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _members(line: bytes) -> dict[str, str] | None:
    """Member name → the text of its value, of a line that is a JSON object; else None."""
    try:
        text = line.decode("utf-8").strip(" \t\r\n")
        if not text.startswith("{") or not isinstance(_DECODER.decode(text), dict):
            return None
    except (ValueError, RecursionError):
        return None
    members = {}
    position = _skip(text, 1)
    # The text is known to be well-formed, so only its tokens need to be told apart.
    while text[position] != "}":
        name, position = _DECODER.raw_decode(text, position)
        start = _skip(text, _skip(text, position) + 1)
        position = _DECODER.raw_decode(text, start)[1]
        members[name] = text[start:position]
        position = _skip(text, position)
        if text[position] == ",":
            position = _skip(text, position + 1)
    return members


def _skip(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    assert found is not None
    return found.end()


def _bytes(text: str, what: str, number: int) -> bytes | None:
    value = json.loads(text)
    try:
        if value is None:
            return None
        if isinstance(value, str):
            return value.encode("utf-8")
        if _is_base64(value):
            return base64.b64decode(value["base64"], validate=True)
        return _compact(text).encode("utf-8")
    except UnicodeEncodeError:
        raise _malformed(number, f"its {what} has half of a surrogate pair") from None
    except binascii.Error:
        raise _malformed(number, f"its {what} is not base64") from None


def _is_base64(value: object) -> bool:
    return isinstance(value, dict) and set(value) == {"base64"} and isinstance(value["base64"], str)


def _compact(text: str) -> str:
    """A JSON text without the spaces between its tokens."""
    return re.sub(r'("(?:\\.|[^"\\])*")|[ \t\n\r]+', r"\1", text)


def _headers(text: str, number: int) -> Headers:
    value = json.loads(text)
    if value is None:
        return ()
    if isinstance(value, list) and all(
        isinstance(p, list) and len(p) == 2 and isinstance(p[0], str) for p in value
    ):
        pairs = [(name, json.dumps(content, ensure_ascii=False)) for name, content in value]
    elif isinstance(value, dict):
        pairs = list((_members(text.encode("utf-8")) or {}).items())
    else:
        raise _malformed(number, "its headers are neither an object nor a list of pairs")
    for name, _ in pairs:
        _bytes(json.dumps(name), "header", number)
    return tuple((name, _bytes(content, f"header '{name}'", number)) for name, content in pairs)


# The largest that the protocol carries, and what a number counts. Zero is a timestamp of Kafka's,
# but the client library takes it for "now".
_NUMBERS = {
    "partition": (0, 2**31 - 1, "a partition number"),
    "timestamp": (1, 2**63 - 1, "a number of milliseconds since 1970, above 0"),
}


def _integer(text: str, what: str, number: int) -> int | None:
    value = json.loads(text)
    if value is None:
        return None
    least, most, meaning = _NUMBERS[what]
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise _malformed(number, f"its {what} is not {meaning}: {text}")
    return value


def _malformed(number: int, what: str) -> Exception:
    hint = "a line that is not a record but a value of its own needs --plain"
    return usage_error("KAFKA-005", f"line {number} is not a record: {what}", hint)


# --- writing ------------------------------------------------------------------------------------


def _text(data: bytes | None) -> str:
    if data is None:
        return "null"
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return f'{{"base64":"{base64.b64encode(data).decode("ascii")}"}}'
    if text[:1] in ("{", "[") and _survives(text):
        return text
    return json.dumps(text, ensure_ascii=False)


def _survives(text: str) -> bool:
    """Whether a text is JSON that, put into a line and taken out again, is the same text."""
    if _compact(text) != text:
        return False
    try:
        return not _is_base64(_DECODER.decode(text))
    except (ValueError, RecursionError):
        return False


def _headers_text(headers: Headers) -> str:
    names = [name for name, _ in headers]
    pairs = [(json.dumps(name, ensure_ascii=False), _header_text(data)) for name, data in headers]
    if len(set(names)) == len(names):
        return "{" + ",".join(f"{name}:{text}" for name, text in pairs) + "}"
    return "[" + ",".join(f"[{name},{text}]" for name, text in pairs) + "]"


def _header_text(data: bytes | None) -> str:
    """Headers are short texts; JSON inside them is shown as the text it is."""
    text = _text(data)
    if text[:1] in ("{", "[") and data is not None and text.encode("utf-8") == data:
        return json.dumps(text, ensure_ascii=False)
    return text

"""The `ogg-json` format: what Oracle GoldenGate writes: `before`, `after` and `op_type`."""

from __future__ import annotations

import re
from functools import partial

from tidemill import types as t
from tidemill.formats import cdc, java_text
from tidemill.formats.cdc import Told

_TIME = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})(?: ([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(\.[0-9]{0,9})?)?"
)
_SIX_DIGITS = re.compile(r"[0-9-]{10}T[0-9:]{8}\.[0-9]{6}")


def _time(text: str) -> int:
    """A time as microseconds since 1970; parts may have one digit, and the time of day may be missing."""
    found = _TIME.fullmatch(text)
    if not found:
        raise ValueError(text)
    year, *parts = (part or "0" for part in found.groups()[:6])
    month, day, hour, minute, second = (part.zfill(2) for part in parts)
    padded = f"{year}-{month}-{day} {hour}:{minute}:{second}{found[7] or ''}"
    return java_text.parse_timestamp(padded, java_text.SQL_TIMESTAMP)


def _changed_at(text: str) -> int:
    # Flink keeps three digits of the second here.
    return _time(text) // 1000 * 1000


def _taken_up_at(text: str) -> int | None:
    """As GoldenGate writes it, three digits of the second are kept; in another form all, and what is no time is
    NULL."""
    try:
        if _SIX_DIGITS.fullmatch(text):
            return java_text.parse_timestamp(text, java_text.ISO_TIMESTAMP) // 1000 * 1000
        return _time(text.strip())
    except ValueError:
        return None


ENVELOPE = cdc.BeforeAfter(
    "GoldenGate",
    word="op_type",
    inserts=("I",),
    update="U",
    delete="D",
    metadata={
        "table": Told(("table",), t.STRING),
        "primary-keys": Told(("primary_keys",), t.ArrayType(element=t.STRING)),
        "ingestion-timestamp": Told(("current_ts",), t.STRING, texts=_taken_up_at),
        "event-timestamp": Told(("op_ts",), t.STRING, texts=_changed_at),
    },
)

decoder = partial(cdc.decoder, ENVELOPE)
encoder = partial(cdc.encoder, ENVELOPE)

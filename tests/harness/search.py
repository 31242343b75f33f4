"""Where a secret is, whatever a text has made of it."""

from __future__ import annotations

import base64
import html
import json
import urllib.parse
from collections.abc import Mapping


def holders(places: Mapping[str, bytes], secret: str | bytes) -> list[str]:
    """The names of the places that hold it."""
    looked_for = forms(secret)
    return [where for where, held in places.items() if any(form in held for form in looked_for)]


def forms(secret: str | bytes) -> set[bytes]:
    """As it is, as JSON, in an address, on a page, and in base 64, also amid of something longer."""
    raw = secret.encode() if isinstance(secret, str) else secret
    found = {raw} | in_base64(raw)
    if isinstance(secret, str):
        written = (json.dumps(secret)[1:-1], urllib.parse.quote(secret, safe=""))
        on_pages = (html.escape(secret), html.escape(secret, quote=False))
        found |= {form.encode() for form in (*written, *on_pages)}
    return found


def in_base64(raw: bytes) -> set[bytes]:
    """Three bytes are four letters, so that what is before it, and after it, moves its bits: the letters that are of
    nothing else, for each of the three places at which it can begin, in both alphabets."""
    found = set()
    for before in range(3):
        letters = base64.b64encode(bytes(before) + raw)
        # Six bits a letter.
        own = letters[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6]
        found |= {own, own.translate(bytes.maketrans(b"+/", b"-_"))}
    return found

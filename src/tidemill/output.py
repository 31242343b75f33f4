"""Where the rows of a top-level SELECT go: a table for people, JSON lines for programs.

In: the rows of one batch, as text that the workers have made in the output's own `style`. Out: lines on a stream.
"""

from __future__ import annotations

import json
import sys
from typing import ClassVar, Protocol, TextIO

from tidemill.changelog import RowKind
from tidemill.errors import display_width
from tidemill.types import NUMERIC_TYPES, Field

Rows = list[tuple[RowKind, str]]


class Output(Protocol):
    style: ClassVar[str]
    """What the text of a row is: `json` an object, `cells` a JSON array of texts."""

    def take(self, fields: tuple[Field, ...], rows: Rows) -> None: ...


class JsonLines:
    """One `{"op":"+I","row":{…}}` per row, values as the json format writes them."""

    style: ClassVar[str] = "json"

    def take(self, fields: tuple[Field, ...], rows: Rows) -> None:
        for kind, text in rows:
            sys.stdout.write(f'{{"op":"{kind.symbol}","row":{text}}}\n')
        sys.stdout.flush()


class TableOutput:
    """The changelog as a table; widths are settled by the first rows. Without `kinds` it is a table of rows."""

    style: ClassVar[str] = "cells"
    _WIDEST = 40

    def __init__(self, stream: TextIO | None = None, kinds: bool = True) -> None:
        self._stream = stream
        self._first = 0 if kinds else 1
        self._widths: dict[tuple[Field, ...], list[int]] = {}

    def take(self, fields: tuple[Field, ...], rows: Rows) -> None:
        stream = self._stream or sys.stdout
        cells = [[kind.symbol, *json.loads(text)][self._first :] for kind, text in rows]
        if not cells:
            return
        if fields not in self._widths:
            head = ["op", *(f.name for f in fields)][self._first :]
            numeric = (isinstance(f.type, NUMERIC_TYPES) for f in fields)
            least = [2, *(12 if is_number else 8 for is_number in numeric)][self._first :]
            widths = [
                max(least[i], min(self._WIDEST, max(display_width(r[i]) for r in [head, *cells])))
                for i in range(len(head))
            ]
            self._widths[fields] = widths
            rule = "+" + "+".join("-" * (w + 2) for w in widths) + "+"
            stream.write("\n".join((rule, self._line(head, widths), rule)) + "\n")
        for row in cells:
            stream.write(self._line(row, self._widths[fields]) + "\n")
        stream.flush()

    @staticmethod
    def _line(cells: list[str], widths: list[int]) -> str:
        shown = []
        for cell, width in zip(cells, widths, strict=True):
            text = cell.replace("\n", "⏎")
            if display_width(text) > width:
                while display_width(text) > width - 1:
                    text = text[:-1]
                text += "…"
            shown.append(text + " " * (width - display_width(text)))
        return "| " + " | ".join(shown) + " |"

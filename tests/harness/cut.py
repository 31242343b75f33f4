"""Documents to be cut off at every byte: a delete of every format that tells changes in JSON, and a row of plain json.

Law: none of what `cuts` gives is a document.
"""

from __future__ import annotations

from tidemill import types as t

FIELDS = (t.Field("id", t.INT), t.Field("name", t.STRING), t.Field("w", t.DOUBLE))
ROW = '{"id": 1, "name": "é\\n}", "w": 1.5}'

# Format, a document and options. What tells the delete stands first, so that what is cut off is only the row's end.
WHOLE: dict[str, tuple[str, str, dict[str, object]]] = {
    "json": ("json", ROW, {}),
    "debezium-json": ("debezium-json", f'{{"op": "d", "after": null, "before": {ROW}}}', {}),
    "debezium-json with its row first": (
        "debezium-json", f'{{"before": {ROW}, "after": null, "source": {{"db": "x"}}, "op": "d"}}', {},
    ),
    "debezium-json in a payload": (
        "debezium-json",
        f'{{"payload": {{"op": "d", "after": null, "before": {ROW}}}, "schema": {{"fields": []}}}}',
        {"schema-include": True},
    ),
    "canal-json": ("canal-json", f'{{"type": "DELETE", "old": null, "data": [{ROW}, {ROW}]}}', {}),
    "maxwell-json": ("maxwell-json", f'{{"type": "delete", "data": {ROW}}}', {}),
    "ogg-json": ("ogg-json", f'{{"op_type": "D", "after": null, "before": {ROW}}}', {}),
}  # fmt: skip


def cuts(document: str) -> list[bytes]:
    whole = document.encode()
    return [whole[:end] for end in range(len(whole))]

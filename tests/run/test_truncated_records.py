"""Documents that are cut off at every byte, from Kafka on: none gives a row, least of all a delete."""

from __future__ import annotations

import pytest
from world import World

from harness.cut import WHOLE, cuts
from tidemill.formats import UNREADABLE
from tidemill.spark.source import SKIPPED

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@pytest.mark.parametrize(
    ("option", "loss"),
    [("scan.bad-records' = 'skip", SKIPPED), ("{}.ignore-parse-errors' = 'true", UNREADABLE)],
    ids=["strict", "lenient"],
)
def test_a_document_that_is_cut_off_gives_no_row(world: World, option: str, loss: str) -> None:
    """One whole document ends each topic, so that it is seen that all of it has been read."""
    tables, parts, count = "", [], 0
    for number, (name, document, options) in enumerate(WHOLE.values()):
        cut = cuts(document)[1:]
        count += len(cut)
        topic = world.create(*cut, document.encode())
        given = [f"{name}.{key}' = '{value}" for key, value in options.items()]
        more = "".join(f", '{each}'" for each in (option.format(name), *given))
        with_clause = world.kafka(topic, format=name).removesuffix(")") + more.lower() + ")"
        tables += f"CREATE TABLE t{number} (id INT, name STRING, w DOUBLE) {with_clause};"
        parts.append(f"SELECT {number} AS t, id, name, w FROM t{number}")
    world.run(f"{tables} {' UNION ALL '.join(parts)};")
    row = {"id": 1, "name": "é\n}", "w": 1.5}
    expected = [
        ("+I" if name == "json" else "-D", {"t": number, **row})
        for number, (name, _, _) in enumerate(WHOLE.values())
        for _ in range(2 if name == "canal-json" else 1)
    ]
    assert sorted(world.rows, key=lambda found: found[1]["t"]) == expected
    assert sum(n for said, n in world.losses.items() if loss in said) == count

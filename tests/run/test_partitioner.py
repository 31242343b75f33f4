"""Partitioners of the user's, without Spark: loading the class, and the partition of each record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tidemill.functions import FunctionProblem, load_class
from tidemill.spark.constraints import Constraints
from tidemill.spark.faults import RecordFault
from tidemill.spark.partitioner import Partition, Partitioner
from tidemill.spark.sink import Encode, Encoding
from tidemill.types import INT, STRING, Field

MODULE = """\
class ByRegion:
    def partition(self, row, key, value, topic, partitions):
        assert isinstance(value, bytes)
        return partitions[len(row["region"]) % len(partitions)]

class Broken:
    def partition(self, row, key, value, topic, partitions):
        return row["id"] / 0

class Wrong:
    def partition(self, row, key, value, topic, partitions):
        return len(partitions)

not_a_class = 1
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "places_of_rows.py").write_text(MODULE)
    return tmp_path


def partition(directory: Path, name: str, **partitions: int) -> list[int]:
    """The partitions of three rows; the second one has a NULL where none may be, and is left out."""
    made, _ = load_class(f"places_of_rows:{name}", [directory])
    dropped: list[tuple[str, int]] = []
    fields = (Field("id", INT), Field("region", STRING))
    encode = Encode(
        "t",
        Encoding("json", {}, fields, ("c0", "c1")),
        key=None,
        kept=(),
        constraints=Constraints(
            "t",
            (("c0", Field("id", INT.not_null)),),
            dropped=lambda what, number: dropped.append((what, number)),
        ),
        deletes=False,
        changes=False,
    )
    partitioner = Partitioner(f"places_of_rows:{name}", made.partition, "out", partitions, "b:1")
    run = Partition(encode, partitioner, (("c0", "id"), ("c1", "region")))
    rows: dict[str, list[Any]] = {"c0": [1, None, 3], "c1": ["a", "bb", "ccc"]}
    batch = pa.RecordBatch.from_pydict(
        rows, schema=pa.schema([("c0", pa.int32()), ("c1", pa.string())])
    )
    (records,) = run(iter([batch]))
    assert dropped == [("NULL in id", 1)]
    assert [bytes(v) for v in records.column("value").to_pylist()] == [
        b'{"id":1,"region":"a"}',
        b'{"id":3,"region":"ccc"}',
    ]
    found: list[int] = records.column("partition").to_pylist()
    return found


def test_each_record_has_the_partition_that_the_class_gives(directory: Path) -> None:
    assert partition(directory, "ByRegion", out=3) == [1, 0]


@pytest.mark.parametrize(
    ("name", "partitions", "said"),
    [
        ("Broken", {"out": 3}, "ZeroDivisionError"),
        ("Wrong", {"out": 3}, "3 is not a partition of topic 'out', which has 3"),
        ("ByRegion", {"other": 3}, "topic 'out' was not there when the job started"),
    ],
)
def test_what_the_class_gets_wrong_is_told(
    directory: Path, name: str, partitions: dict[str, int], said: str
) -> None:
    with pytest.raises(RecordFault) as failed:
        partition(directory, name, **partitions)
    assert said in str(failed.value)
    assert f"places_of_rows:{name}" in str(failed.value)


def test_a_topic_that_came_later_is_told_with_the_way_on(directory: Path) -> None:
    with pytest.raises(RecordFault) as failed:
        partition(directory, "ByRegion", other=3)
    command = "tidemill topic create out --bootstrap b:1"
    assert f"create it if it is not there yet: {command}; then start the job again" in str(
        failed.value
    )


@pytest.mark.parametrize("name", ["not_a_class", "nowhere"])
def test_what_is_no_class_is_refused(directory: Path, name: str) -> None:
    with pytest.raises(FunctionProblem) as refused:
        load_class(f"places_of_rows:{name}", [directory])
    assert f"no class '{name}'" in refused.value.message

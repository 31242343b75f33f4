"""Partitioners of the user's: a Python class says to which partition a record goes.

    class ByRegion:
        def partition(self, row, key, value, topic, partitions):
            return partitions[len(row["region"]) % len(partitions)]

In: `'sink.partitioner' = 'module:Class'`. Out: the column `partition` beside a sink's records. Law: what goes wrong
inside the class, and a partition that the topic does not have, stop the job as a diagnostic that names the class.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

from tidemill import functions
from tidemill.errors import job_error
from tidemill.functions import FunctionProblem
from tidemill.spark.access import Access
from tidemill.spark.faults import RecordFault
from tidemill.tables.catalog import Table
from tidemill.tables.kafka import KafkaTable, is_partitioner_class

if TYPE_CHECKING:
    import pyarrow as pa

_CALL = "partition(row, key, value, topic, partitions) gives one of the numbers in partitions"
_NO_TOPIC = "give every row a non-null 'topic' metadata column"


@dataclass(frozen=True)
class Partitioner:
    """An object of the user's class, and what it is told beside a row."""

    name: str
    choose: Callable[..., Any] = field(hash=False)
    topic: str | None
    """Where a row goes that names no topic."""
    partitions: Mapping[str, int] = field(hash=False)
    """How many partitions each topic had when the job started."""
    servers: str


def load_partitioner(
    table: Table, directories: Sequence[Path], partitions: Mapping[str, int], access: Access
) -> Partitioner | None:
    """The table's own partitioner, ready to be sent to the workers; None if it has one of ours."""
    connector = table.connector
    if not isinstance(connector, KafkaTable) or not is_partitioner_class(connector.partitioner):
        return None
    name = connector.partitioner
    try:
        choose, modules = functions.load_partition_method(name, directories)
    except FunctionProblem as problem:
        raise job_error("RUN-043", problem.message, problem.hint, table.span) from None
    for module in modules:
        cloudpickle.register_pickle_by_value(sys.modules[module])
    topic = connector.topics[0] if connector.has_one_topic else None
    return Partitioner(name, choose, topic, partitions, access.servers(connector))


@dataclass(frozen=True)
class Partition:
    """Runs in the workers around the encoder: its records, and the partition of each."""

    encode: Any
    """Enforces and encodes: one batch out for each batch in."""
    partitioner: Partitioner
    columns: tuple[tuple[str, str], ...]
    """Columns of the batch, with their names in the script."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        enforced: list[pa.RecordBatch] = []

        def remembered() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                enforced.append(self.encode.enforce(batch))
                yield enforced[-1]

        for records in self.encode(remembered()):
            chosen = pa.array(self._choose(enforced.pop(0), records), pa.int32())
            names = [*records.schema.names, "partition"]
            yield pa.RecordBatch.from_arrays([*records.columns, chosen], names=names)

    def _choose(self, rows: pa.RecordBatch, records: pa.RecordBatch) -> list[int]:
        def column(name: str) -> list[Any]:
            present = name in records.schema.names
            return records.column(name).to_pylist() if present else [None] * len(rows)

        titles = [title for _, title in self.columns]
        values = (rows.column(name).to_pylist() for name, _ in self.columns)
        known = {t: list(range(count)) for t, count in self.partitioner.partitions.items()}
        found = []
        for row, key, value, named in zip(
            zip(*values, strict=True), column("key"), column("value"), column("topic"), strict=True
        ):
            topic = named or self.partitioner.topic
            partitions = known.get(topic) if topic else None
            if topic is None:
                raise self._fault("a row has no topic, and the table no single one", _NO_TOPIC)
            if partitions is None:
                # Workers have no client; what the driver has asked for at the start is all they know.
                raise self._fault(
                    f"topic '{topic}' was not there when the job started",
                    f"create it if it is not there yet: tidemill topic create {topic} --bootstrap"
                    f" {self.partitioner.servers}; then start the job again",
                )
            found.append(
                self._one(dict(zip(titles, row, strict=True)), key, value, topic, partitions)
            )
        return found

    def _one(
        self,
        row: dict[str, Any],
        key: bytes | None,
        value: bytes | None,
        topic: str,
        partitions: list[int],
    ) -> int:
        try:
            chosen = self.partitioner.choose(row, key, value, topic, partitions)
        except Exception as error:
            raise self._fault(f"{type(error).__name__}: {error}") from error
        if isinstance(chosen, bool) or not isinstance(chosen, int) or chosen not in partitions:
            raise self._fault(
                f"{chosen!r} is not a partition of topic '{topic}', which has {len(partitions)}"
            )
        return chosen

    def _fault(self, reason: str, hint: str = _CALL) -> RecordFault:
        return RecordFault("RUN-043", f"partitioner '{self.partitioner.name}': {reason}", hint)

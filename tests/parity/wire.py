"""A case's records into its topics and out of them: the recorder and the replay see the same wire."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

from case import Case, Look, Record

from tidemill.broker import topics
from tidemill.broker.records import Record as WireRecord


def write(bootstrap: str, records: Iterable[tuple[str, Record]], names: Mapping[str, str]) -> None:
    """Write records, each with its topic of the case, in their order; `names` has the real names."""
    for topic, group in itertools.groupby(records, key=lambda pair: pair[0]):
        made = [
            WireRecord(r.value, r.key, r.headers, r.partition, r.timestamp_ms) for _, r in group
        ]
        topics.write(bootstrap, names[topic], made)


def read(bootstrap: str, case: Case, look: Look, name: str) -> list[Record]:
    """What a topic holds, with just the facts that are looked at."""
    assert look.topic
    several = case.topic(look.topic).partitions > 1
    records = []
    for r in topics.read(bootstrap, name):
        # Kafka picks the partition of a record without a key.
        picked = several and r.key is None and "partitions" not in look.words
        stamp = r.timestamp_ms if "timestamps" in look.words else None
        records.append(Record(r.value, r.key, r.headers, None if picked else r.partition, stamp))
    return records

"""Before a job starts: its brokers are reached and its topics found. In: a job. Out: what was found out of the topics
that it writes to. Law: a slip that the broker can tell is told before anything runs, and a topic is made only where the
table's options say so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from tidemill.errors import JobError, Span, job_error
from tidemill.plan.environment import Job
from tidemill.spark.access import Access
from tidemill.spark.faults import diagnose
from tidemill.spark.java import java_class
from tidemill.spark.source import topics_spec
from tidemill.tables.catalog import Table
from tidemill.tables.kafka import KafkaTable, TopicTable, is_partitioner_class
from tidemill.tables.upsert_kafka import UpsertKafkaTable

CONNECT_TIMEOUT_MS = 8_000


@dataclass(frozen=True)
class Targets:
    """What was found out of the topics that a job writes to."""

    notices: list[str]
    partitions: Mapping[str, Mapping[str, int]]
    """By table and topic; a topic that is not there yet is not named."""


def check_tables(spark: SparkSession, job: Job, access: Access) -> Targets:
    """Reach the brokers and find the topics, so that a slip is told before anything runs."""
    admin = java_class(spark, "io.tidemill.kafka.Admin")
    seen: set[tuple[str, tuple[str, ...], str | None]] = set()
    told: list[str] = []
    # Sources first: a topic that is written as well must exist all the same.
    for table in kafka_sources(job):
        connector = table.connector
        assert isinstance(connector, TopicTable)
        key = (connector.bootstrap_servers, connector.topics, connector.topic_pattern)
        if key in seen:
            continue
        seen.add(key)
        found = _ask(admin.describeTopics, topics_spec(connector, access), table)
        missing = found["missing"]
        if not missing and not found["topics"] and connector.discovery_interval:
            told.append(
                f"no topic matches '{connector.topic_pattern}' of table '{table.name}' yet; it is waited for"
            )
        elif missing or not found["topics"]:
            what = (
                f"topic '{missing[0]}'"
                if missing
                else f"a topic that matches '{connector.topic_pattern}'"
            )
            raise job_error(
                "RUN-002",
                f"{what} of table '{table.name}' does not exist at {connector.bootstrap_servers}",
                f"create it: tidemill topic create {missing[0] if missing else 'NAME'}"
                f" --bootstrap {connector.bootstrap_servers}",
                table.span,
            )
    _check_dead_letters(admin, kafka_sources(job), access)
    _check_late_rows(admin, job, access)
    partitions: dict[str, Mapping[str, int]] = {}
    targets = {t.identifier: t for t in job.sinks if isinstance(t.connector, TopicTable)}
    for table in targets.values():
        said, partitions[table.name] = _check_target(admin, table, access)
        told += said
    return Targets(told, partitions)


def _ask(question: Callable[..., str], spec: Mapping[str, Any], table: Table) -> dict[str, Any]:
    try:
        return dict(json.loads(question(json.dumps(spec), CONNECT_TIMEOUT_MS)))
    except Exception as error:
        known = diagnose(str(error), table.name, table.span)
        if known is None:
            raise
        raise known from None


def _check_dead_letters(admin: Any, tables: Sequence[Table], access: Access) -> None:
    """A topic for dead letters must be there before the first one comes, perhaps in the middle of a night."""
    for table in tables:
        connector = table.connector
        assert isinstance(connector, TopicTable)
        topic = connector.reading.dead_letter_topic
        if topic is not None:
            what = f"dead letters of table '{table.name}'"
            _expect(admin, table, topic, what, table.span, access)


def _check_late_rows(admin: Any, job: Job, access: Access) -> None:
    if job.late_rows is not None:
        topic, table = job.late_rows
        _expect(admin, table, topic, "late rows", job.span, access)


def _expect(
    admin: Any, table: Table, topic: str, what: str, span: Span | None, access: Access
) -> None:
    """The topic is there, at the brokers of the table."""
    connector = table.connector
    assert isinstance(connector, TopicTable)
    spec = {"properties": access.properties(connector), "topics": [topic]}
    found = _ask(admin.describeTopics, spec, table)
    if found["missing"]:
        raise job_error(
            "RUN-002",
            f"topic '{topic}' for {what} does not exist at {connector.bootstrap_servers}",
            f"create it: tidemill topic create {topic} --bootstrap {connector.bootstrap_servers}",
            span,
        )


def _check_target(admin: Any, table: Table, access: Access) -> tuple[list[str], Mapping[str, int]]:
    """Make the missing topic of a sink if its options say how; else leave that to the broker, if it does it."""
    connector = table.connector
    assert isinstance(connector, TopicTable)
    found = _ask(admin.describeTargets, topics_spec(connector, access), table)
    told = []
    if isinstance(connector, UpsertKafkaTable):
        told += [
            f"topic '{topic}' of upsert table '{table.name}' is not compacted: set its cleanup.policy to compact,"
            " or old changes pile up and expire"
            for topic in found["topics"]
            if topic not in found["compacted"]
        ]
    properties = access.properties(connector)
    for topic in found["missing"]:
        shape = connector.new_topic
        if shape is not None:
            policy = shape.cleanup_policy
            wanted = {
                "partitions": shape.partitions,
                "replicas": shape.replication_factor,
                "configs": {"cleanup.policy": policy} if policy else {},
            }
            spec = {"properties": properties, "topics": {topic: wanted}}
            _ask(lambda text, _: str(admin.createTopics(text)), spec, table)
            told.append(f"topic '{topic}' of table '{table.name}' created")
            if shape.partitions is not None:
                found["topics"][topic] = shape.partitions
            continue
        refused = properties.get("allow.auto.create.topics", "").lower() == "false"
        if refused or found["createsTopics"] is False:
            raise _missing(
                table, topic, "" if refused else ", and the broker does not create topics by itself"
            )
        told.append(
            f"topic '{topic}' of table '{table.name}' does not exist: the broker is left to create it"
        )
    if isinstance(connector, KafkaTable) and is_partitioner_class(connector.partitioner):
        # Its class is told the partitions of a row's topic, also of one that is only being created.
        unknown = [t for t in found["missing"] if t not in found["topics"]]
        asked = {"properties": properties, "topics": unknown}
        found["topics"] |= _ask(admin.askForTopics, asked, table) if unknown else {}
        for topic in unknown:
            if topic not in found["topics"]:
                raise _missing(table, topic, ", and the broker has not created it")
    return told, found["topics"]


def _missing(table: Table, topic: str, why: str) -> JobError:
    connector = table.connector
    assert isinstance(connector, TopicTable)
    compact = " --config cleanup.policy=compact" if isinstance(connector, UpsertKafkaTable) else ""
    return job_error(
        "RUN-002",
        f"topic '{topic}' of table '{table.name}' does not exist at {connector.bootstrap_servers}{why}",
        f"create it: tidemill topic create {topic}{compact} --bootstrap {connector.bootstrap_servers},"
        " or let the job do it: 'sink.create-topic.partitions' = '…'",
        table.span,
    )


def kafka_sources(job: Job) -> list[Table]:
    return [t for t in job.sources if isinstance(t.connector, TopicTable)]

"""Before a job starts: its brokers are reached, its topics found, and its rights asked for. In: a job. Out: what was
found out of the topics that it writes to. Law: a slip that the broker can tell is told before anything runs, and a
topic is made only where the table's options say so. Nothing else is changed at the broker: a right is asked for, not
tried.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import SparkSession

from tidemill.errors import JobError, Span, job_error
from tidemill.plan.environment import Job
from tidemill.spark.access import Access
from tidemill.spark.client_files import check_files
from tidemill.spark.faults import diagnose
from tidemill.spark.java import java_class
from tidemill.spark.sink import transactional_id_prefix
from tidemill.spark.source import topics_spec
from tidemill.tables.catalog import Table
from tidemill.tables.kafka import (
    BoundedMode,
    DeliveryGuarantee,
    KafkaTable,
    StartupMode,
    TopicTable,
    is_partitioner_class,
)
from tidemill.tables.upsert_kafka import NullKeys, UpsertKafkaTable

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
    for table in job.tables:
        if isinstance(table.connector, TopicTable):
            check_files(table, access.local_properties(table.connector))
    seen: set[object] = set()
    told: list[str] = []
    # Sources first: a topic that is written as well must exist all the same.
    for table in kafka_sources(job):
        connector = table.connector
        assert isinstance(connector, TopicTable)
        servers = access.servers(connector)
        # The user and the group are among the properties.
        key = (
            connector.topics,
            connector.topic_pattern,
            tuple(sorted(connector.properties.items())),
            connector.named,
        )
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
                f"{what} of table '{table.name}' does not exist at {servers}",
                f"create it: tidemill topic create {missing[0] if missing else 'NAME'}"
                f" --bootstrap {servers}",
                table.span,
            )
        _require(table, "READ", found)
        if _has_rights(connector, found):
            _check_group(admin, table, access)
    _check_dead_letters(admin, job, access)
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
        told = known.diagnostics[0]
        if f"'{table.name}'" not in told.message:
            told = replace(told, message=f"table '{table.name}': {told.message}")
        raise JobError([told]) from None


def _check_dead_letters(admin: Any, job: Job, access: Access) -> None:
    """A topic for dead letters must be there before the first one comes, perhaps in the middle of a night."""
    for table in kafka_sources(job):
        connector = table.connector
        assert isinstance(connector, TopicTable)
        topic = connector.reading.dead_letter_topic
        if topic is not None:
            what = f"dead letters of table '{table.name}'"
            _expect(admin, job, table, topic, what, table.span, access)


def _check_late_rows(admin: Any, job: Job, access: Access) -> None:
    if job.late_rows is not None:
        topic, table = job.late_rows
        _expect(admin, job, table, topic, "late rows", job.span, access)


def _expect(
    admin: Any, job: Job, table: Table, topic: str, what: str, span: Span | None, access: Access
) -> None:
    """The topic is there, at the brokers of the table, and the job may write letters to it."""
    connector = table.connector
    assert isinstance(connector, TopicTable)
    spec = {"properties": access.properties(connector), "topics": [topic]}
    found = _ask(admin.describeTopics, spec, table)
    servers = access.servers(connector)
    if found["missing"]:
        raise job_error(
            "RUN-002",
            f"topic '{topic}' for {what} does not exist at {servers}",
            f"create it: tidemill topic create {topic} --bootstrap {servers}",
            span,
        )
    _require_writing(table, bool(job.exactly_once), found)


def _check_target(admin: Any, table: Table, access: Access) -> tuple[list[str], Mapping[str, int]]:
    """Make the missing topic of a sink if its options say how; else leave that to the broker, if it does it."""
    connector = table.connector
    assert isinstance(connector, TopicTable)
    found = _ask(admin.describeTargets, topics_spec(connector, access), table)
    _require_writing(table, connector.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE, found)
    told = []
    # A compacted topic takes no record without a key.
    if isinstance(connector, UpsertKafkaTable) and connector.null_keys is not NullKeys.WRITE:
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
            why = "" if refused else ", and the broker does not create topics by itself"
            raise _missing(table, topic, why, access)
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
                raise _missing(table, topic, ", and the broker has not created it", access)
    return told, found["topics"]


def _missing(table: Table, topic: str, why: str, access: Access) -> JobError:
    connector = table.connector
    assert isinstance(connector, TopicTable)
    servers = access.servers(connector)
    compact = " --config cleanup.policy=compact" if isinstance(connector, UpsertKafkaTable) else ""
    return job_error(
        "RUN-002",
        f"topic '{topic}' of table '{table.name}' does not exist at {servers}{why}",
        f"create it: tidemill topic create {topic}{compact} --bootstrap {servers},"
        " or let the job do it: 'sink.create-topic.partitions' = '…'",
        table.span,
    )


def kafka_sources(job: Job) -> list[Table]:
    return [t for t in job.sources if isinstance(t.connector, TopicTable)]


# --- rights --------------------------------------------------------------------------------------


def _require(table: Table, operation: str, found: Mapping[str, Any]) -> None:
    """The table's user may do it with all topics that were found, as far as the broker tells."""
    for topic, operations in found.get("operations", {}).items():
        if operation not in operations:
            granted = _grant(operation, f"--topic '{topic}'")
            raise _refused(
                table,
                f"does not let the table's user {operation} topic '{topic}'",
                f"its user needs {operation}: {granted}",
            )


def _require_writing(table: Table, exactly_once: bool, found: Mapping[str, Any]) -> None:
    _require(table, "WRITE", found)
    if exactly_once:
        # The marker of a transaction is an offset of the topic, and who may not read a topic may commit none.
        _require(table, "READ", found)


def _has_rights(connector: TopicTable, found: Mapping[str, Any]) -> bool:
    """Whether the broker may look at rights at all: one without is not asked for more of them."""
    protocol = connector.properties.get("security.protocol", "PLAINTEXT").upper()
    limited = any("ALTER" not in may for may in found.get("operations", {}).values())
    return protocol != "PLAINTEXT" or limited


# Where reading begins or ends by what a group has committed, for some partitions at least.
_READ_OFFSETS = {
    StartupMode.GROUP_OFFSETS,
    StartupMode.SPECIFIC_OFFSETS,
    BoundedMode.GROUP_OFFSETS,
    BoundedMode.SPECIFIC_OFFSETS,
}


def _check_group(admin: Any, table: Table, access: Access) -> None:
    """Offsets of a group are read by some modes, and committed unless the table says otherwise."""
    connector = table.connector
    assert isinstance(connector, TopicTable)
    group = access.properties(connector).get("group.id")
    commits = connector.properties.get("commit.offsets.on.checkpoint", "").lower() != "false"
    reads = {connector.startup.mode, connector.bounded.mode} & _READ_OFFSETS
    if group is None or not (commits or reads):
        return
    rights = _rights(admin, table, [group], [], access)
    refused = group in rights["refusedGroups"]
    if refused or (commits and "READ" not in rights["groups"].get(group, ["READ"])):
        granted = _grant("READ", f"--group '{group}'")
        instead = "" if reads else ", or leave 'properties.group.id' out"
        raise _refused(
            table,
            f"refuses group '{group}' to the table's user",
            f"its user needs READ: {granted}{instead}",
        )


def check_writers(spark: SparkSession, job: Job, job_id: str, access: Access) -> None:
    """Those who write exactly once may use their transactional ids, and the groups that keep their markers."""
    admin = java_class(spark, "io.tidemill.kafka.Admin")
    prefixes = [(t, transactional_id_prefix(t, job_id)) for t in job.exactly_once]
    if prefixes:
        # Their ids have the job's in them, so that rights to them can only be given to a prefix.
        prefixes += [
            (t, f"tidemill-{job_id}-{t.name}-dead-letters-0")
            for t in kafka_sources(job)
            if isinstance(t.connector, TopicTable)
            and t.connector.reading.dead_letter_topic is not None
        ]
        if job.late_rows is not None:
            prefixes.append((job.late_rows[1], f"tidemill-{job_id}-late-rows"))
    for table, prefix in prefixes:
        connector = table.connector
        assert isinstance(connector, TopicTable)
        if not _has_rights(connector, {}):
            continue
        first = f"{prefix}-0"
        group = f"{first}@{job_id}"
        rights = _rights(admin, table, [group], [first], access)
        start = prefix if connector.transactional_id_prefix == prefix else "tidemill-"
        if first in rights["refusedIds"]:
            where = f"--resource-pattern-type prefixed --transactional-id '{start}'"
            raise _refused(
                table,
                f"refuses the transactional id '{first}' to the table's user",
                f"its user needs WRITE and DESCRIBE: {_grant('WRITE', where)}",
            )
        if group in rights["refusedGroups"] or "READ" not in rights["groups"].get(group, ["READ"]):
            where = f"--resource-pattern-type prefixed --group '{start}'"
            raise _refused(
                table,
                f"refuses group '{group}' to the table's user: it holds what is written exactly once so far",
                f"its user needs READ: {_grant('READ', where)}",
            )


def _rights(
    admin: Any, table: Table, groups: Sequence[str], ids: Sequence[str], access: Access
) -> dict[str, Any]:
    connector = table.connector
    assert isinstance(connector, TopicTable)
    properties = access.properties(connector)
    spec = {"properties": properties, "groups": list(groups), "transactionalIds": list(ids)}
    return _ask(admin.describeRights, spec, table)


def _grant(operation: str, what: str) -> str:
    return f"kafka-acls --add --allow-principal User:NAME --operation {operation} {what}"


def _refused(table: Table, what: str, hint: str) -> JobError:
    connector = table.connector
    assert isinstance(connector, TopicTable)
    servers = Access().servers(connector)
    return job_error(
        "RUN-007",
        f"table '{table.name}': the broker at {servers} {what}",
        hint,
        table.span,
    )

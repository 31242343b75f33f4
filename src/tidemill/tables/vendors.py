"""Names that other engines and vendors know and Tidemill does not run: each with the nearest way out.

In: a connector or format name, or the option that names a connector in the style of Blink or of Flink before 1.11.
Out: a hint that a person can act on. Law: what is well known is refused by its name, never called unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidemill.errors import Diagnostic
from tidemill.sql import ast
from tidemill.tables.blink import KAFKA_TYPES, names_only_zookeeper

_CDC = (
    "let Debezium or Canal write the changes into Kafka and read that topic"
    " (formats debezium-json and canal-json)"
)
_LAKE = "write to 'kafka' or 'upsert-kafka' and load the table from there"
_LOOKUP = "stream the table into a topic and join with it as an 'upsert-kafka' table"
_QUEUE = "bridge the queue into Kafka, for example with Kafka Connect, and use 'kafka'"

KNOWN_CONNECTORS: Mapping[str, str] = {
    # Flink and its connector projects
    "hive": _LAKE,
    "hbase-1.4": _LOOKUP,
    "hbase-2.2": _LOOKUP,
    "hbase": _LOOKUP,
    "elasticsearch-6": "write to 'upsert-kafka' and index it with Kafka Connect",
    "elasticsearch-7": "write to 'upsert-kafka' and index it with Kafka Connect",
    "elasticsearch-8": "write to 'upsert-kafka' and index it with Kafka Connect",
    "opensearch": "write to 'upsert-kafka' and index it with Kafka Connect",
    "opensearch-2": "write to 'upsert-kafka' and index it with Kafka Connect",
    "mongodb": f"write to 'upsert-kafka' and sink it with Kafka Connect; to read, {_CDC}",
    "kinesis": _QUEUE,
    "kinesis-legacy": _QUEUE,
    "firehose": _QUEUE,
    "sqs": _QUEUE,
    "dynamodb": "write to 'upsert-kafka' and sink it with Kafka Connect",
    "pulsar": "use Pulsar's Kafka protocol handler (KoP) with 'kafka', or bridge the topic",
    "rabbitmq": _QUEUE,
    "google-pubsub": _QUEUE,
    "cassandra": _LOOKUP,
    "prometheus": "write to 'kafka' and scrape from there",
    "dynamic-kafka": "use 'kafka' with one cluster's 'properties.bootstrap.servers'",
    "upsert-kafka-legacy": "use 'upsert-kafka'",
    "python-input-format": "use 'datagen' or 'kafka'",
    # change data capture
    "mysql-cdc": _CDC,
    "postgres-cdc": _CDC,
    "oracle-cdc": _CDC,
    "sqlserver-cdc": _CDC,
    "mongodb-cdc": _CDC,
    "oceanbase-cdc": _CDC,
    "tidb-cdc": _CDC,
    "db2-cdc": _CDC,
    "vitess-cdc": _CDC,
    # lake formats and warehouses
    "hudi": _LAKE,
    "iceberg": _LAKE,
    "paimon": _LAKE,
    "table-store": _LAKE,
    "delta": _LAKE,
    "doris": _LAKE,
    "starrocks": _LAKE,
    "clickhouse": _LAKE,
    "fluss": _LAKE,
    "greenplum": _LAKE,
    "dws": _LAKE,
    "gaussdb": _LAKE,
    "hologres": _LAKE,
    "adb2.0": _LAKE,
    "adb3.0": _LAKE,
    "adbpg": _LAKE,
    "odps": _LAKE,
    "continuous-odps": _LAKE,
    "maxcompute": _LAKE,
    "obs": _LAKE,
    "oss": _LAKE,
    "phoenix5": _LOOKUP,
    "lindorm": _LOOKUP,
    "cloudhbase": _LOOKUP,
    "ots": _LOOKUP,
    "rds": _LOOKUP,
    "mysql": _LOOKUP,
    "redis": "write to 'upsert-kafka' and sink it with Kafka Connect",
    "tair": "write to 'upsert-kafka' and sink it with Kafka Connect",
    # vendors' queues and logs
    "datahub": "DataHub speaks the Kafka protocol: use 'kafka' with its Kafka endpoint",
    "sls": "Log Service speaks the Kafka protocol: use 'kafka' with its Kafka endpoint",
    "tt": "copy the TimeTunnel stream into a Kafka topic and use 'kafka'",
    "metaq": _QUEUE,
    "mq": _QUEUE,
    "rocketmq": _QUEUE,
    "ons": _QUEUE,
    "tdmq": "use TDMQ for CKafka with 'kafka'",
    "ckafka": "CKafka is Kafka: use 'kafka'",
    "dis": "use DMS for Kafka with 'kafka'",
    "dms": "DMS for Kafka is Kafka: use 'kafka'",
    "smn": "write to 'kafka' and notify from there",
    "eventhub": "Event Hubs speaks the Kafka protocol: use 'kafka' with its Kafka endpoint",
    "eventhubs": "Event Hubs speaks the Kafka protocol: use 'kafka' with its Kafka endpoint",
    "faker": "use 'datagen'",
    "kafka-0.10": "use 'kafka': one connector speaks to every broker version",
    "kafka-0.11": "use 'kafka': one connector speaks to every broker version",
    "kafka08": "use 'kafka': one connector speaks to every broker version",
    "kafka09": "use 'kafka': one connector speaks to every broker version",
    "kafka010": "use 'kafka': one connector speaks to every broker version",
    "kafka011": "use 'kafka': one connector speaks to every broker version",
    "values": "Flink's own test connector; use 'datagen', or 'kafka' with 'tidemill topic write'",
    "socket": "use 'kafka' with 'tidemill topic write', or 'datagen'",
    "random": "use 'datagen'",
}

_ONLY_JSON = "the format that works today is 'json'"

KNOWN_FORMATS: Mapping[str, str] = {
    "avro-glue": _ONLY_JSON,
    "changelog-json": "an old format of flink-cdc; write the topic with 'upsert-kafka' and 'json'",
    "protobuf": _ONLY_JSON,
    "protobuf-confluent": _ONLY_JSON,
    "json-confluent": _ONLY_JSON,
    "json-registry": _ONLY_JSON,
    "avro-registry": _ONLY_JSON,
    "parquet": f"a format of files, not of Kafka records; {_ONLY_JSON}",
    "orc": f"a format of files, not of Kafka records; {_ONLY_JSON}",
    "text": _ONLY_JSON,
    "single-field": _ONLY_JSON,
    "msgpack": _ONLY_JSON,
    "thrift": _ONLY_JSON,
    "xml": _ONLY_JSON,
}


# --- options of another age --------------------------------------------------------------------

OLD_OPTIONS: Mapping[str, str] = {
    "update-mode": "for updates declare PRIMARY KEY (…) NOT ENFORCED and use 'connector' = 'upsert-kafka'",
    "connector.sink.ignore-retraction": "deletes are always written; filter them in the query",
    "startTime": "write it as '2020-01-31 12:00:00', with a timezone that exists",
    "timezone": "write a name like 'Asia/Shanghai'",
    "partitionDiscoveryIntervalMS": "write milliseconds: '60000'",
    "extraConfig": "write it as 'key=value;key=value'",
    "converterClass": "a class cannot be loaded; write the record's bytes in the query",
}
"""Options of old tables that have no counterpart, or a value that cannot be read: what to do instead."""


def refuse_old_form(options: Sequence[ast.Option]) -> Diagnostic | None:
    """The diagnostic for a WITH in Blink's or in Flink 1.10's style that could not be written as today's."""
    given = {option.key.lower(): option for option in options}
    if "connector" in given:
        return None
    blink = given.get("type")
    if blink is not None:
        zookeeper = names_only_zookeeper(options) if blink.value.lower() in KAFKA_TYPES else None
        if zookeeper is not None:
            return Diagnostic(
                "OPT-010",
                f"'{zookeeper.key}' alone names no broker: Kafka's clients have not asked ZooKeeper since 0.9",
                zookeeper.span,
                "write bootstrap.servers = 'host:9092', with the brokers' addresses, in its place",
            )
        return _refused(blink, "is Blink's way to name a connector", "blink")
    old = given.get("connector.type")
    if old is not None:
        return _refused(old, "is the form of Flink before 1.11", "flink-1.10")
    return None


def _refused(option: ast.Option, what: str, dialect: str) -> Diagnostic:
    name = option.value.lower()
    message = f"'{option.key}' = '{option.value}' {what}"
    if name.startswith(("kafka", "upsert-kafka")):
        hint = f"tidemill translate --from {dialect} writes the table as today's"
        return Diagnostic("OPT-010", message, option.span, hint)
    today = name if name in ("filesystem", "jdbc") else "kafka"
    hint = KNOWN_CONNECTORS.get(name, f"use 'connector' = '{today}'")
    return Diagnostic("OPT-010", f"{message}; this one is not supported", option.span, hint)

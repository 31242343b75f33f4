"""What people and sessions do with topics: create, list, measure, write, read.

In: the address of any Kafka, ours or another, and the properties of a client in the form of Kafka's
own tools, if it is secured (`clients`). Out: topics, offsets, records. Law: a broker that is out of
reach is a sentence with its address, within 15 seconds and at once if it refuses, the connection or
the credentials; the client library never writes to the terminal.
"""

from __future__ import annotations

import logging
import re
import socket
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from tidemill.broker import clients
from tidemill.broker.records import Record
from tidemill.errors import did_you_mean, job_error, usage_error

_CONNECT_SECONDS = 4.0
_ANSWER_SECONDS = 9.0
_PROBE_SECONDS = 1.0

_LOGGER = logging.getLogger("tidemill.kafka")
_LOGGER.addHandler(logging.NullHandler())
_LOGGER.propagate = False


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    partitions: int
    # What the offsets span; compaction and transactions make the records fewer.
    records: int


Client = Mapping[str, str] | None
"""Properties of a client in the form of Kafka's own tools; None where everyone may come in."""


class _Heard:
    """What the library says beside its answers: it tries for ever and never answers that it is refused."""

    def __init__(self) -> None:
        self.refusal: str | None = None

    def __call__(self, error: Any) -> None:
        text = _reason_of(error)
        is_refusal = error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL)
        # What the other side says of our certificate comes when the library has taken the connection for made.
        if is_refusal or "alert" in text:
            self.refusal = self.refusal or text


def _reason_of(error: Any) -> str:
    """The library's words without its own addresses and times: `sasl_ssl://host:1/bootstrap: … (after 3ms in …)`."""
    text = re.sub(r"^(?:\[[^\]]*\]: )?(?:\w+://)?\S+:\d+/\w+: ", "", error.str())
    return re.sub(
        r" \(after \d+ms in state \w+[^)]*\)|, \d+ identical error\(s\) suppressed", "", text
    )


def _settings(bootstrap: str, client: Client, heard: _Heard) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "client.id": "tidemill",
        "socket.connection.setup.timeout.ms": 5000,
        # Half of it passes before the library connects at all.
        "reconnect.backoff.ms": 20,
        **clients.settings(client or {}),
        "logger": _LOGGER,
        # Without a callback the library prints its errors.
        "error_cb": heard,
    }


# --- reaching a broker --------------------------------------------------------------------------


def reach(bootstrap: str) -> None:
    """Return if one of the addresses accepts connections, else say which do not and why."""
    reasons = []
    deadline = time.monotonic() + _CONNECT_SECONDS
    for host, port in _addresses(bootstrap):
        try:
            patience = max(0.5, deadline - time.monotonic())
            socket.create_connection((host, port), timeout=patience).close()
            return
        except OSError as problem:
            reasons.append(_reason(problem))
    raise _unreachable(bootstrap, ", ".join(dict.fromkeys(reasons)))


def _addresses(bootstrap: str) -> list[tuple[str, int]]:
    found = []
    for address in bootstrap.split(","):
        host, _, port = address.strip().rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            message = f"'{address.strip()}' is not an address of the form HOST:PORT"
            raise usage_error("KAFKA-008", message, "for example --bootstrap localhost:9092")
        found.append((host.strip("[]"), int(port)))
    return found


def _reason(problem: OSError) -> str:
    if isinstance(problem, TimeoutError):
        return "no answer"
    if isinstance(problem, ConnectionRefusedError):
        return "connection refused"
    return (problem.strerror or str(problem)).lower()


def _unreachable(bootstrap: str, reason: str) -> Exception:
    message = f"no Kafka broker is reachable at {bootstrap}: {reason}"
    hint = "check the address; `tidemill broker start` runs a broker on this machine"
    return job_error("KAFKA-001", message, hint)


def _refused_entry(bootstrap: str, reason: str) -> Exception:
    message = f"the Kafka broker at {bootstrap} does not let this client in: {reason}"
    return job_error("KAFKA-009", message, _ENTRY_HINT)


_ENTRY_HINT = (
    "check security.protocol, the user and the certificates; --properties FILE names a file of client properties,"
    " as Kafka's own tools take it"
)


def _ask_for_language(bootstrap: str, protocol: str) -> None:
    """Say so if a broker that does not answer speaks TLS or wants a login, and the client does not."""
    # Of many addresses, as many as there is time for.
    for host, port in _addresses(bootstrap)[:2]:
        if not protocol.endswith("SSL") and clients.speaks_tls(host, port, _PROBE_SECONDS):
            reason = f"it speaks TLS, and security.protocol is {protocol}"
            raise _refused_entry(bootstrap, reason)
        if protocol == "PLAINTEXT" and clients.speaks_kafka(host, port, _PROBE_SECONDS):
            reason = "it wants a login (SASL), and security.protocol is PLAINTEXT"
            raise _refused_entry(bootstrap, reason)


def _metadata(client: Any, bootstrap: str, heard: _Heard, protocol: str) -> Any:
    """Cluster metadata, asked in short turns: the library does not notice Ctrl-C."""
    start = time.monotonic()
    asked = False
    while True:
        try:
            return client.list_topics(timeout=1.0)
        except KafkaException as problem:
            client.poll(0)
            passed = time.monotonic() - start
            if heard.refusal is not None:
                raise _refused_entry(bootstrap, heard.refusal) from problem
            # A listener with TLS or SASL hangs up on who does not speak it, and so does a broker that is just stopping.
            if passed > _CONNECT_SECONDS and not asked:
                asked = True
                _ask_for_language(bootstrap, protocol)
            if passed > _ANSWER_SECONDS:
                reason = f"it does not answer as Kafka does ({problem.args[0].name()})"
                raise _unreachable(bootstrap, reason) from problem


@dataclass(frozen=True, slots=True)
class _Admin:
    """The library's client for all but records."""

    bootstrap: str
    client: Any
    heard: _Heard
    protocol: str

    def topics(self) -> Any:
        return _metadata(self.client, self.bootstrap, self.heard, self.protocol).topics


def _admin(bootstrap: str, client: Client) -> _Admin:
    heard = _Heard()
    settings = _settings(bootstrap, client, heard)
    reach(bootstrap)
    return _Admin(bootstrap, _made(AdminClient, settings), heard, settings["security.protocol"])


def _made(kind: Any, settings: dict[str, Any]) -> Any:
    try:
        return kind(settings)
    except KafkaException as problem:
        # Keys and certificates are looked at when a client is made.
        message = f"the client cannot be made: {_reason_of(problem.args[0])}"
        raise usage_error("KAFKA-010", message, _ENTRY_HINT) from None


# --- topics -------------------------------------------------------------------------------------


def create(
    bootstrap: str,
    name: str,
    partitions: int = 1,
    configs: Mapping[str, str] | None = None,
    client: Client = None,
) -> None:
    """Create a topic; one that exists is an error. Replication is the broker's default."""
    admin = _admin(bootstrap, client)
    admin.topics()
    wanted = NewTopic(name, num_partitions=partitions, config=dict(configs or {}))
    try:
        admin.client.create_topics([wanted], request_timeout=_ANSWER_SECONDS)[name].result()
    except KafkaException as problem:
        error = problem.args[0]
        if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
            message = f"topic '{name}' already exists at {bootstrap}"
            raise job_error("KAFKA-003", message) from None
        message = f"topic '{name}' could not be created: {error.str()}"
        raise job_error("KAFKA-004", message) from None
    deadline = time.monotonic() + _ANSWER_SECONDS
    # The controller has it before the broker serves it.
    while name not in admin.topics() and time.monotonic() < deadline:
        time.sleep(0.02)


def ensure(
    bootstrap: str,
    name: str,
    partitions: int = 1,
    configs: Mapping[str, str] | None = None,
    client: Client = None,
) -> bool:
    """Create a topic unless it exists; whether it was created."""
    if exists(bootstrap, name, client):
        return False
    create(bootstrap, name, partitions, configs, client)
    return True


def exists(bootstrap: str, name: str, client: Client = None) -> bool:
    return name in _admin(bootstrap, client).topics()


def partitions(bootstrap: str, client: Client = None) -> dict[str, int]:
    """Every topic and its number of partitions, Kafka's internal ones included."""
    topics = _admin(bootstrap, client).topics()
    return {name: len(topics[name].partitions) for name in sorted(topics)}


def list_topics(bootstrap: str, internal: bool = False, client: Client = None) -> list[Topic]:
    """The topics by name; Kafka's internal ones begin with two underscores."""
    admin = _admin(bootstrap, client)
    known = {
        name: sorted(found.partitions)
        for name, found in sorted(admin.topics().items())
        if internal or not name.startswith("__")
    }
    first = _offsets(admin, known, OffsetSpec.earliest())
    last = _offsets(admin, known, OffsetSpec.latest())
    spans = {p: last[p] - first[p] for p in last}
    return [
        Topic(name, len(numbers), sum(spans[name, n] for n in numbers))
        for name, numbers in known.items()
    ]


def end_offsets(bootstrap: str, name: str, client: Client = None) -> dict[int, int]:
    """Partition → the offset that the next record will get."""
    return _offsets_of(bootstrap, name, OffsetSpec.latest(), client)


def start_offsets(bootstrap: str, name: str, client: Client = None) -> dict[int, int]:
    """Partition → the offset of the oldest record that is kept."""
    return _offsets_of(bootstrap, name, OffsetSpec.earliest(), client)


def _offsets_of(bootstrap: str, name: str, spec: Any, client: Client) -> dict[int, int]:
    admin = _admin(bootstrap, client)
    known = {name: _existing_partitions(admin.topics(), bootstrap, name)}
    return {number: offset for (_, number), offset in _offsets(admin, known, spec).items()}


def _offsets(admin: _Admin, known: Mapping[str, Iterable[int]], spec: Any) -> dict[Any, int]:
    asked = {TopicPartition(name, n): spec for name, numbers in known.items() for n in numbers}
    if not asked:
        return {}
    try:
        answers = admin.client.list_offsets(asked, request_timeout=_ANSWER_SECONDS)
        return {(p.topic, p.partition): answers[p].result().offset for p in answers}
    except KafkaException as problem:
        message = f"the offsets could not be read: {problem.args[0].str()}"
        raise job_error("KAFKA-006", message) from None


def _existing_partitions(topics: Any, bootstrap: str, name: str) -> list[int]:
    if name not in topics:
        message = f"topic '{name}' does not exist at {bootstrap}"
        hint = did_you_mean(name, list(topics), f"create it with: tidemill topic create {name}")
        raise job_error("KAFKA-002", message, hint)
    return sorted(topics[name].partitions)


# --- records ------------------------------------------------------------------------------------


class _Delivery:
    """Counts what the broker has taken and keeps the refusal that says most."""

    def __init__(self) -> None:
        self.written = 0
        self.refused: tuple[int, Any] | None = None

    def report(self, number: int, error: Any, message: Any) -> None:
        if error is None:
            self.written += 1
        # A batch is refused as a whole; most of its records only suffer for another one.
        elif self.refused is None or self.refused[1].code() == _BYSTANDER:
            self.refused = (number, error)


_BYSTANDER = KafkaError._INVALID_DIFFERENT_RECORD


def write(bootstrap: str, name: str, records: Iterable[Record], client: Client = None) -> int:
    """Write the records in order and return how many when the broker has them all.

    A topic that does not exist is created if the broker does that by itself, as Kafka does unless
    told otherwise.
    """
    heard = _Heard()
    told = _settings(bootstrap, client, heard)
    reach(bootstrap)
    producer = _made(
        Producer,
        {
            **told,
            "enable.idempotence": True,
            "linger.ms": 5,
            "message.timeout.ms": 15_000,
            "topic.metadata.propagation.max.ms": 5_000,
            # Keys go where the Java client and with it Flink would put them.
            "partitioner": "murmur2_random",
        },
    )
    _metadata(producer, bootstrap, heard, told["security.protocol"])
    delivery = _Delivery()
    try:
        for number, record in enumerate(records, start=1):
            while True:
                try:
                    producer.produce(
                        name,
                        value=record.value,
                        key=record.key,
                        headers=list(record.headers),
                        on_delivery=partial(delivery.report, number),
                        **({} if record.partition is None else {"partition": record.partition}),
                        **(
                            {}
                            if record.timestamp_ms is None
                            else {"timestamp": record.timestamp_ms}
                        ),
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
                except KafkaException as problem:
                    delivery.report(number, problem.args[0], None)
                    break
            producer.poll(0)
            if delivery.refused:
                break
    finally:
        # Also on Ctrl-C: what was read from the input is in the topic.
        while producer.flush(0.2):
            pass
    if delivery.refused:
        raise _refused(name, delivery)
    return delivery.written


def _refused(name: str, delivery: _Delivery) -> Exception:
    assert delivery.refused is not None
    number, error = delivery.refused
    code = error.code()
    if code in (KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART):
        message = f"topic '{name}' does not exist and the broker does not create it by itself"
        return job_error("KAFKA-002", message, f"create it with: tidemill topic create {name}")
    reason = {
        KafkaError._UNKNOWN_PARTITION: "the topic has fewer partitions than the record's number",
        KafkaError.INVALID_RECORD: "the broker refuses it, as a compacted topic does without a key",
    }.get(code, error.str())
    message = f"record {number} was not written to topic '{name}': {reason}"
    return job_error("KAFKA-006", message, f"records written before it: {delivery.written}")


def read(
    bootstrap: str,
    name: str,
    from_beginning: bool = True,
    follow: bool = False,
    until: Callable[[], bool] = lambda: False,
    client: Client = None,
) -> Generator[Record, None, None]:
    """The records of a topic, in order within a partition, committed ones only.

    Ends at what is the end of the topic now, unless it follows; then it waits for more, and only
    `until`, asked several times a second, can end it.
    """
    errors = _Heard()
    told = _settings(bootstrap, client, errors)
    reach(bootstrap)
    consumer = _made(
        Consumer,
        {
            **told,
            # Required by the library; nothing joins or commits to a group.
            "group.id": "tidemill-topic-read",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 100,
        },
    )
    try:
        topics = _metadata(consumer, bootstrap, errors, told["security.protocol"]).topics
        numbers = _existing_partitions(topics, bootstrap, name)
        begin, ends = {}, {}
        for number in numbers:
            try:
                begin[number], ends[number] = consumer.get_watermark_offsets(
                    TopicPartition(name, number), timeout=_ANSWER_SECONDS
                )
            except KafkaException as problem:
                message = f"topic '{name}' could not be read: {problem.args[0].str()}"
                raise job_error("KAFKA-006", message) from None
        start = begin if from_beginning else ends
        open_ends = {n: end for n, end in ends.items() if follow or start[n] < end}
        consumer.assign([TopicPartition(name, n, start[n]) for n in open_ends])
        heard = time.monotonic()
        while open_ends and not until():
            message = consumer.poll(0.2)
            if message is None:
                # The library waits for a lost broker in silence and for ever.
                if time.monotonic() - heard > _CONNECT_SECONDS:
                    reach(bootstrap)
                    heard = time.monotonic()
                continue
            heard = time.monotonic()
            number, offset = message.partition(), message.offset()
            error = message.error()
            if error is None and (follow or offset < ends[number]):
                yield _record(message)
            elif error is not None and error.code() != KafkaError._PARTITION_EOF:
                text = f"topic '{name}' could not be read: {error.str()}"
                raise job_error("KAFKA-006", text)
            # Offsets have gaps, so the end is reached by passing it or by the broker's word.
            if not follow and (error is not None or offset >= ends[number] - 1):
                open_ends.pop(number, None)
    finally:
        consumer.close()


def _record(message: Any) -> Record:
    kind, timestamp = message.timestamp()
    return Record(
        value=message.value(),
        key=message.key(),
        headers=tuple(message.headers() or ()),
        partition=message.partition(),
        timestamp_ms=None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp,
        topic=message.topic(),
        offset=message.offset(),
    )

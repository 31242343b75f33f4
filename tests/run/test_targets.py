"""What is said of topics before a job starts: a stand-in answers for the kernel's admin client, no Spark runs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tidemill.errors import JobError, Source
from tidemill.plan.environment import Environment, Job, compile_script
from tidemill.spark.access import Access
from tidemill.spark.preflight import Targets, check_tables
from tidemill.sql import parse_script


@dataclass
class Broker:
    """Answers as `io.tidemill.kafka.Admin` does."""

    topics: dict[str, int]
    compacted: list[str] = field(default_factory=list)
    creates: bool | None = True
    created: list[Any] = field(default_factory=list)

    def _found(self, spec: str) -> dict[str, Any]:
        wanted = json.loads(spec)["topics"]
        return {
            "topics": {name: self.topics[name] for name in wanted if name in self.topics},
            "missing": [name for name in wanted if name not in self.topics],
        }

    def describeTopics(self, spec: str, timeout: int) -> str:  # noqa: N802
        return json.dumps(self._found(spec))

    def describeTargets(self, spec: str, timeout: int) -> str:  # noqa: N802
        told = {"compacted": self.compacted, "createsTopics": self.creates}
        return json.dumps(self._found(spec) | told)

    def createTopics(self, spec: str) -> str:  # noqa: N802
        self.created.append(json.loads(spec)["topics"])
        return json.dumps({"created": list(self.created[-1]), "existing": []})

    def askForTopics(self, spec: str, timeout: int) -> str:  # noqa: N802
        """A topic that is there by now, or that the broker makes because it is asked for."""
        there = {name for made in self.created for name in made}
        asked = [n for n in json.loads(spec)["topics"] if self.creates or n in there]
        return json.dumps({name: 7 for name in asked})


PLAIN = "CREATE TABLE t (id INT) WITH ('connector' = 'kafka', 'format' = 'json', {});"
UPSERT = (
    "CREATE TABLE t (id INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'upsert-kafka',"
    " 'key.format' = 'json', 'value.format' = 'json', {});"
)


def targets(
    broker: Broker, table: str = PLAIN, more: str = "", python_files: tuple[str, ...] = ()
) -> Targets:
    options = f"'topic' = 'out', 'properties.bootstrap.servers' = 'b:1'{more and ', '}{more}"
    text = (
        "CREATE TABLE s (id INT) WITH ('connector' = 'datagen');"
        f"{table.format(options)} INSERT INTO t SELECT id FROM s"
    )
    environment = Environment(python_files=python_files)
    (job,) = compile_script(parse_script(Source("t.sql", text), {}), environment)
    assert isinstance(job, Job)
    spark: Any = SimpleNamespace(_jvm=SimpleNamespace(**{"io.tidemill.kafka.Admin": broker}))
    return check_tables(spark, job, Access())


def test_a_topic_that_is_there_is_not_worth_a_word() -> None:
    found = targets(Broker({"out": 3}))
    assert (found.notices, found.partitions) == ([], {"t": {"out": 3}})


@pytest.mark.parametrize("creates", [True, None])
def test_a_missing_topic_is_left_to_the_broker_with_a_warning(creates: bool | None) -> None:
    # None: the broker does not let us know.
    broker = Broker({}, creates=creates)
    (told,) = targets(broker).notices
    assert told == "topic 'out' of table 't' does not exist: the broker is left to create it"
    assert broker.created == []


@pytest.mark.parametrize(
    ("creates", "more", "said"),
    [
        (False, "", "and the broker does not create topics by itself"),
        (True, "'properties.allow.auto.create.topics' = 'false'", "does not exist at b:1"),
    ],
)
def test_a_topic_that_nobody_creates_is_named_with_the_exact_command(
    creates: bool, more: str, said: str
) -> None:
    for table, config in ((PLAIN, ""), (UPSERT, " --config cleanup.policy=compact")):
        with pytest.raises(JobError) as refused:
            targets(Broker({}, creates=creates), table, more)
        (found,) = refused.value.diagnostics
        assert (found.code, said in found.message) == ("RUN-002", True)
        assert f"tidemill topic create out{config} --bootstrap b:1" in (found.hint or "")


def test_a_missing_topic_is_created_as_the_table_says() -> None:
    broker = Broker({}, creates=False)
    more = (
        "'sink.create-topic.partitions' = '4', 'sink.create-topic.replication-factor' = '2',"
        " 'sink.create-topic.cleanup-policy' = 'compact'"
    )
    found = targets(broker, more=more)
    assert found.notices == ["topic 'out' of table 't' created"]
    assert found.partitions == {"t": {"out": 4}}
    wanted = {"partitions": 4, "replicas": 2, "configs": {"cleanup.policy": "compact"}}
    assert broker.created == [{"out": wanted}]


def test_a_topic_that_is_there_is_not_created_again() -> None:
    broker = Broker({"out": 1})
    assert targets(broker, more="'sink.create-topic.partitions' = '4'").partitions["t"] == {
        "out": 1
    }
    assert broker.created == []


def test_an_upsert_table_on_a_topic_that_is_not_compacted_is_told() -> None:
    (told,) = targets(Broker({"out": 1}), UPSERT).notices
    assert told.startswith("topic 'out' of upsert table 't' is not compacted")
    assert targets(Broker({"out": 1}, compacted=["out"]), UPSERT).notices == []
    assert targets(Broker({"out": 1})).notices == []


def placed(broker: Broker, directory: Path, more: str = "") -> Targets:
    """With a partitioner of the user's, which must be told the partitions of its topic."""
    (directory / "any_place.py").write_text(
        "class Any:\n    def partition(self, row, key, value, topic, partitions): ...\n"
    )
    options = f"'sink.partitioner' = 'any_place:Any'{more and ', '}{more}"
    return targets(broker, more=options, python_files=(str(directory),))


@pytest.mark.parametrize("more", ["", "'sink.create-topic.replication-factor' = '1'"])
def test_a_partitioner_is_told_the_partitions_of_a_topic_that_was_not_there(
    tmp_path: Path, more: str
) -> None:
    found = placed(Broker({}), tmp_path, more)
    assert found.partitions == {"t": {"out": 7}}
    assert len(found.notices) == 1


def test_a_partitioner_without_partitions_is_refused_with_the_command(tmp_path: Path) -> None:
    # The broker does not say whether it makes topics, and does not.
    with pytest.raises(JobError) as refused:
        placed(Broker({}, creates=None), tmp_path)
    (found,) = refused.value.diagnostics
    assert found.code == "RUN-002"
    assert "tidemill topic create out --bootstrap b:1" in (found.hint or "")

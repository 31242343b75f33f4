"""A session of their own for all kernel tests, and short ways to make and read topics."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kernel_jobs import CLASSPATH, Job, Topic
from streams import Run

from tidemill.broker import Broker
from tidemill.broker.jars import find_javac
from tidemill.spark.java import java_class

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="session")
def spark(spark: Any) -> Any:
    """A session with Spark's own settings, but for what operators need, in the one JVM of the run."""
    own = spark.newSession()
    for key, value in SETTINGS.items():
        own.conf.set(key, value)
    return own


SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "io.tidemill.checkpoint.LocalCheckpointFileManager"
    ),
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


@pytest.fixture(scope="session")
def java_tests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the kernel's own tests and of what tests here have in Java, compiled."""
    subprocess.run([sys.executable, ROOT / "tools" / "kernel.py", "build"], check=True)
    classes = tmp_path_factory.mktemp("classes")
    command = [find_javac(), "--release", "17", "-proc:none", "-cp", CLASSPATH, "-d", classes]
    sources = (ROOT / "kernel/src/test/java").rglob("*.java")
    built = subprocess.run([*command, *sources], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return classes


@pytest.fixture(scope="session")
def reader(spark: Any, java_tests: Path) -> Any:
    """Of documents; one for all: py4j knows classes by their names, and so of each only that of one loader."""
    url = java_class(spark, "java.net.URL")
    places = spark._sc._gateway.new_array(url, 1)
    places[0] = url(f"{java_tests.as_uri()}/")
    loader = java_class(spark, "java.lang.Thread").currentThread().getContextClassLoader()
    tests = java_class(spark, "java.net.URLClassLoader")(places, loader)
    return tests.loadClass("io.tidemill.decode.Documents").newInstance()


@pytest.fixture
def make_topic(broker: Broker, topic_name: Callable[..., str]) -> Callable[..., Topic]:
    def make(partitions: int = 1, hint: str = "t", **configs: str) -> Topic:
        named = {key.replace("_", "."): value for key, value in configs.items()}
        return Topic(topic_name(hint), broker.bootstrap, partitions, named).create()

    return make


@pytest.fixture
def jobs(spark: Any) -> Iterator[Callable[..., Job]]:
    """Start a query that collects its rows on the driver; every one is stopped in the end."""
    started: list[Any] = []

    def start(frame: Any, checkpoint: Path, available_now: bool = True) -> Job:
        rows: list[Any] = []
        writer = frame.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
        writer = writer.option("checkpointLocation", str(checkpoint))
        if available_now:
            writer = writer.trigger(availableNow=True)
        job = Job(writer.start(), rows)
        started.append(job.query)
        return job

    yield start
    for query in started:
        query.stop()


# --- operators by hand ---------------------------------------------------------------------------


@pytest.fixture
def time_type(spark: Any) -> Iterator[None]:
    """Spark keeps TIME behind a switch, of the session that is active; Tidemill turns it on."""
    sessions = java_class(spark, "org.apache.spark.sql.classic.SparkSession")
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    spark.conf.set("spark.sql.timeType.enabled", "true")
    yield
    spark.conf.unset("spark.sql.timeType.enabled")
    if before.isDefined():
        sessions.setActiveSession(before.get())
    else:
        sessions.clearActiveSession()


@pytest.fixture
def run(tmp_path: Path, time_type: None) -> Iterator[Callable[[Any], Run]]:
    runs: list[Run] = []

    def start(frame: Any) -> Run:
        runs.append(Run(frame, tmp_path / f"checkpoint-{len(runs)}"))
        return runs[-1]

    yield start
    for started in runs:
        started.query.stop()

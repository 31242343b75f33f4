"""Where jobs run: a standalone cluster, a session that the user brings, and what is refused with one sentence.

Every driver here is a process of its own, because the test process holds the Spark of the other tests.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import orjson
import pyarrow
import pyspark
import pytest
from world import World

import tidemill
from harness.java import SHORT_LIVED
from tidemill.broker import Broker
from tidemill.errors import UsageError
from tidemill.spark import check_version

SPARK_HOME = Path(pyspark.__file__).parent
TIDEMILL = Path(sys.executable).with_name("tidemill")
PATIENCE_SECONDS = 300

DATAGEN = """
CREATE TABLE numbers (n BIGINT) WITH (
  'connector' = 'datagen', 'number-of-rows' = '6', 'fields.n.kind' = 'sequence',
  'fields.n.start' = '1', 'fields.n.end' = '6');
"""


def environment(**more: str) -> dict[str, str]:
    """What a fresh shell has: nothing that points a worker at this repository."""
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "JAVA_HOME", "LANG", "TZ")}
    return {**kept, "SPARK_LOCAL_IP": "127.0.0.1", **more}


def run(
    *command: str | Path, cwd: Path, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(c) for c in command],
        cwd=cwd,
        env=environment() | (env or {}),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


# --- a standalone cluster ------------------------------------------------------------------------


@dataclass
class Cluster:
    """A master and two workers; the workers' Python has pyarrow, msgspec and orjson, neither us nor our other needs."""

    master: str
    python: Path
    workers: tuple[Path, Path]

    def fetched(self, name: str) -> list[int]:
        """Per worker: how many of its executors have got a file from the driver."""
        return [len(list(worker.glob(f"app-*/*/{name}"))) for worker in self.workers]

    def complaints(self) -> list[str]:
        """Lines about errors in the logs of all executors but for those about an orderly end: the backend calls it one,
        RocksDB may find its directory gone, and the driver may leave while it is asked something."""
        logs = [log for worker in self.workers for log in worker.glob("app-*/*/stderr")]
        assert logs
        lines = [line for log in logs for line in log.read_text(errors="replace").splitlines()]
        orderly = r"CoarseGrainedExecutorBackend|.*\[NativeRocksDB|.* requests outstanding when connection"
        wrong = re.compile(rf" ERROR (?!{orderly})|ClassNotFound|NoClassDefFound")
        return [line for line in lines if wrong.search(line)]


class _Daemon:
    """One of Spark's servers in a process group of its own, so that its executors end with it."""

    def __init__(self, log: Path, *command: str) -> None:
        self._log = log
        with log.open("w") as out:
            self._process = subprocess.Popen(
                [SPARK_HOME / "bin" / "spark-class", *command],
                env=environment(
                    SPARK_HOME=str(SPARK_HOME),
                    SPARK_DAEMON_MEMORY="256m",
                    SPARK_DAEMON_JAVA_OPTS=SHORT_LIVED,
                ),
                cwd=log.parent,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_for(self, pattern: str, times: int = 1) -> str:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            found = re.findall(pattern, self._log.read_text(errors="replace"))
            if len(found) >= times:
                return str(found[-1])
            assert self._process.poll() is None, self._log.read_text(errors="replace")
            time.sleep(0.1)
        raise AssertionError(f"no {pattern!r} in:\n{self._log.read_text(errors='replace')}")

    def stop(self) -> None:
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def bare_python(directory: Path) -> Path:
    """An interpreter that has pyarrow, msgspec and orjson, and no other package."""
    venv.create(directory, symlinks=True, with_pip=False)
    (site,) = directory.glob("lib/python*/site-packages")
    for module in (pyarrow, msgspec, orjson):
        package = Path(module.__file__).parent
        (site / package.name).symlink_to(package)
    python = directory / "bin" / "python"
    for name in ("tidemill", "pyspark", "click", "confluent_kafka"):
        assert run(python, "-c", f"import {name}", cwd=directory).returncode != 0
    return python


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    python = bare_python(tmp_path / "python")
    servers = []
    try:
        deploy = "org.apache.spark.deploy"
        arguments = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        log = tmp_path / "master.log"
        master = _Daemon(log, f"{deploy}.master.Master", *arguments)
        servers.append(master)
        url = master.wait_for(r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
        homes = (tmp_path / "worker-1", tmp_path / "worker-2")
        for home in homes:
            limits = ["--cores", "1", "--memory", "640m", "--work-dir", str(home)]
            command = [f"{deploy}.worker.Worker", *arguments, *limits, url]
            servers.append(_Daemon(home.with_suffix(".log"), *command))
        master.wait_for(r"Registering worker", times=2)
        yield Cluster(url, python, homes)
    finally:
        for server in reversed(servers):
            server.stop()


def view(user: int, region: str) -> dict[str, object]:
    return {
        "user_id": user,
        "page_id": 7,
        "view_time": "2020-01-01 00:00:00.5",
        "user_region": region,
    }


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.kafka
def test_page_views_on_a_cluster_whose_workers_do_not_have_us(
    broker: Broker, topic_name: Callable[..., str], cluster: Cluster, tmp_path: Path
) -> None:
    """Started by `tidemill run`, then resumed by a program under spark-submit."""
    world = World(broker, None, topic_name, tmp_path / "checkpoint")
    source, target = world.create(hint="views", partitions=4), world.create(hint="totals")
    regions = ["杭州", "Oslo", "Lima"]
    world.produce(source, *(view(i % 100, regions[i % 3]) for i in range(3_000)))
    script = tmp_path / "pageviews.sql"
    script.write_text(f"""
    CREATE TABLE pageviews (user_id BIGINT, page_id BIGINT, view_time TIMESTAMP(3), user_region STRING,
      WATERMARK FOR view_time AS view_time - INTERVAL '2' SECOND) {world.kafka(source)};
    CREATE TABLE pageviews_per_region (user_region STRING, pv BIGINT, uv BIGINT,
      PRIMARY KEY (user_region) NOT ENFORCED) {world.upsert(target)};
    INSERT INTO pageviews_per_region
    SELECT user_region, COUNT(*), COUNT(DISTINCT user_id) FROM pageviews GROUP BY user_region;
    """)
    settings = {
        "spark.pyspark.python": str(cluster.python),
        "spark.executor.memory": "512m",
        "spark.driver.memory": "512m",
        "spark.executor.extraJavaOptions": SHORT_LIVED,
        "spark.driver.extraJavaOptions": SHORT_LIVED,
        # Often enough that the threads of the state store look for our checkpoint files as well.
        "spark.sql.streaming.stateStore.maintenanceInterval": "200ms",
    }
    confs = [part for k, v in settings.items() for part in ("--conf", f"{k}={v}")]

    command = [TIDEMILL, "run", script, "--bounded", "--checkpoint", world.checkpoint]
    done = run(*command, "--master", cluster.master, *confs, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert "ready" in lines
    assert lines[-1].startswith(
        "done: pageviews/pageviews_per_region: rows in 3,000 from pageviews"
    )
    assert counts(world, target) == {r: (1_000, 100) for r in regions}
    for shipped in ("tidemill.zip", "tidemill-kernel.jar", "kafka-clients-*.jar"):
        assert cluster.fetched(shipped) == [1, 1], shipped

    world.produce(source, view(1_000, "Oslo"), view(5, "Oslo"), view(5, "Kyiv"))
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\n"
        "from tidemill import Session\n"
        "with Session(checkpoint=sys.argv[1], bounded=True) as session:\n"
        "    (job,) = session.run_script(sys.argv[2])\n"
        "    job.wait()\n"
        "    print(job.failure(), session.spark.sparkContext.master)\n"
    )
    submit = [SPARK_HOME / "bin" / "spark-submit", "--master", cluster.master, *confs]
    submit += ["--conf", f"spark.pyspark.driver.python={sys.executable}"]
    submit += ["--conf", "spark.driver.host=127.0.0.1", "--jars", tidemill.jars()]
    done = run(*submit, program, world.checkpoint, script, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == f"None {cluster.master}"
    assert counts(world, target) == {
        "杭州": (1_000, 100),
        "Lima": (1_000, 100),
        "Oslo": (1_002, 101),
        "Kyiv": (1, 1),
    }
    assert len(world.records(target)) == 3 + 2
    assert cluster.complaints() == []


def counts(world: World, topic: str) -> dict[str, tuple[int, int]]:
    rows = world.table(topic).values()
    return {row["user_region"]: (row["pv"], row["uv"]) for row in rows}


# --- tasks that are tried again ------------------------------------------------------------------

# On a cluster a task has four attempts; local[2] gives it one, local[2,4] as many as a cluster.
ONCE = """
CREATE TABLE numbers (n BIGINT) WITH (
  'connector' = 'datagen', 'rows-per-second' = '{rate}', {end}
  'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '1000000');
CREATE TABLE copied (n BIGINT, padding STRING) WITH (
  'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
  'format' = 'json', 'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{topic}');
"""
SMALL = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": SHORT_LIVED,
    "spark.ui.retainedStages": "10000",
}
# How often tasks have failed in a session.
FAILED = """
def failed(session):
    stages = map(session.spark.sparkContext.statusTracker().getStageInfo, range(10000))
    return sum(s.numFailedTasks for s in stages if s)
"""


@pytest.mark.spark
@pytest.mark.kafka
def test_a_task_that_is_tried_again_writes_its_rows_once(
    broker: Broker, topic_name: Callable[..., str], tmp_path: Path
) -> None:
    """It fails when 45 MB are with it: its transaction has begun, because that is more than it holds."""
    world = World(broker, None, topic_name, tmp_path / "checkpoint")
    topic = world.create()
    (tmp_path / "flaky.py").write_text(
        "def passed(n: int) -> int:\n"
        "    from pyspark import TaskContext\n"
        "    if n == 450 and TaskContext.get().attemptNumber() == 0:\n"
        "        raise ValueError('broken on purpose')\n"
        "    return n\n"
    )
    tables = ONCE.format(
        topic=topic, bootstrap=broker.bootstrap, rate=100_000, end="'number-of-rows' = '500',"
    )
    script = f"""
CREATE FUNCTION passed AS 'flaky.passed' LANGUAGE PYTHON;
{tables}
INSERT INTO copied SELECT passed(n), REPEAT('x', 100000) FROM numbers"""
    # A function is called with a few rows at a time, so that the others are on their way when it fails.
    few = {"spark.sql.execution.arrow.maxRecordsPerBatch": "10"}
    program = f"""
from tidemill import Session
{FAILED}
session = Session(
    master="local[2,4]", checkpoint={str(world.checkpoint)!r}, conf={SMALL | few!r}, python_files=[{str(tmp_path)!r}])
with session:
    (job,) = [j for j in session.execute({script!r}) if not isinstance(j, str)]
    job.wait()
    print(job.failure(), failed(session))
"""
    done = run(sys.executable, "-c", program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["None 1"]
    assert sorted(row["n"] for row in world.values(topic)) == list(range(500))


@pytest.mark.spark
@pytest.mark.kafka
def test_a_fenced_task_is_not_tried_again(
    broker: Broker, topic_name: Callable[..., str], tmp_path: Path
) -> None:
    """A second attempt would take the ids back: the older job is told, and the younger goes on."""
    world = World(broker, None, topic_name, tmp_path / "checkpoint")
    tables = ONCE.format(topic=world.create(), bootstrap=broker.bootstrap, rate=200, end="")
    script = f"{tables} INSERT INTO copied SELECT n, '' FROM numbers"
    program = f"""
import time
from pathlib import Path
from tidemill import Session
{FAILED}
def batches(job):
    return max((r["batchId"] for r in job.reports() if r["numInputRows"]), default=-1)

def wait(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)

def start(spark, name):
    checkpoint = Path({str(world.checkpoint)!r}, name)
    session = Session(spark, master=None if spark else "local[2,4]", checkpoint=checkpoint, conf={SMALL!r})
    (job,) = session.execute({script!r})
    wait(lambda: batches(job) > 0)
    return session, job

session, older = start(None, "older")
_, younger = start(session.spark, "younger")
wait(lambda: not older.is_active)
print(older.failure().diagnostics[0].code)
seen = batches(younger)
wait(lambda: batches(younger) > seen + 3 or not younger.is_active)
print(younger.is_active, younger.failure(), failed(session))
younger.stop()
session.close()
"""
    done = run(sys.executable, "-c", program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["RUN-009", "True None 1"]


# --- a session that the user brings --------------------------------------------------------------


@pytest.mark.spark
def test_a_session_that_the_user_started_with_our_jars(tmp_path: Path) -> None:
    program = f"""
import tidemill
from pyspark.sql import SparkSession
from tidemill import Session

spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.jars", tidemill.jars())
    .config("spark.ui.enabled", "false")
    .config("spark.driver.memory", "512m")
    .config("spark.driver.extraJavaOptions", {SHORT_LIVED!r})
    .config("spark.sql.ansi.enabled", "true")
    .getOrCreate()
)
taken = []
class Taken:
    style = "json"
    def take(self, fields, rows):
        taken.extend(t for _, t in rows)
session = Session(spark, bounded=True, output=Taken())
(job,) = session.execute({DATAGEN!r} + "SELECT COUNT(*) AS c, SUM(n) AS s FROM numbers")
job.wait()
print(job.failure(), taken)
session.close()
# Still the user's: alive, with the user's own settings.
print(spark.range(3).count(), spark.conf.get("spark.sql.ansi.enabled"))
"""
    done = run(sys.executable, "-c", program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["""None ['{"c":6,"s":21}']""", "3 true"]


@pytest.mark.spark
def test_a_session_without_our_jars_or_with_those_of_another_release_is_refused(
    tmp_path: Path,
) -> None:
    old = tmp_path / "old"
    old.mkdir()
    (old / "tidemill-kernel.properties").write_text("version=0.0.1\nspark=4.2.0\n")
    program = f"""
from pyspark.sql import SparkSession
from tidemill import Session, UsageError

def attempt(*classpath):
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.memory", "512m").getOrCreate()
    if classpath:
        jvm = spark._jvm
        parent = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        urls = spark.sparkContext._gateway.new_array(jvm.java.net.URL, 1)
        urls[0] = jvm.java.io.File(classpath[0]).toURI().toURL()
        jvm.java.lang.Thread.currentThread().setContextClassLoader(jvm.java.net.URLClassLoader(urls, parent))
    try:
        Session(spark).spark
    except UsageError as error:
        print(error)

attempt()
attempt({str(old)!r})
"""
    done = run(sys.executable, "-c", program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = done.stdout
    assert "error SETUP-012: this Spark was started without Tidemill's jars" in said
    found = f"Tidemill {tidemill.__version__} on Spark {pyspark.__version__}"
    assert (
        f"error SETUP-015: the kernel jar is of Tidemill 0.0.1 for Spark 4.2.0, but this is {found}"
        in said
    )


# --- refused before anything starts --------------------------------------------------------------


@pytest.mark.parametrize("version", ["3.5.1", "4.2.0", "4.30.0", "5.0.0"])
def test_another_spark_is_refused_in_one_sentence(version: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_version(version)
    (told,) = caught.value.diagnostics
    assert told.code == "SETUP-014"
    assert told.message.startswith(f"Spark {version} is not supported")


def test_a_patch_release_of_our_spark_is_taken() -> None:
    check_version("4.3.7")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "numbers.sql"
    path.write_text(DATAGEN + "SELECT n FROM numbers;")
    return path


def test_an_old_pyspark_is_refused_whatever_it_lacks(script: Path, tmp_path: Path) -> None:
    package = tmp_path / "old" / "pyspark"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('__version__ = "3.5.1"\n')
    done = run(TIDEMILL, "run", script, cwd=tmp_path, env={"PYTHONPATH": str(package.parent)})
    assert done.returncode == 2
    assert "error SETUP-014: Spark 3.5.1 is not supported" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("master", "code", "sentence"),
    [
        ("spark://127.0.0.1:1", 3, "SETUP-017: no Spark master answers at 127.0.0.1:1"),
        ("spark://nowhere", 3, "SETUP-017: no Spark master answers at nowhere"),
        ("sc://127.0.0.1:15002", 2, "SETUP-016: 'sc://127.0.0.1:15002' is not a Spark master"),
        ("locale[2]", 2, "SETUP-016: 'locale[2]' is not a Spark master"),
    ],
)
def test_a_master_that_is_none_is_refused_at_once(
    script: Path, tmp_path: Path, master: str, code: int, sentence: str
) -> None:
    started = time.monotonic()
    done = run(TIDEMILL, "run", script, "--master", master, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert time.monotonic() - started < 15


@pytest.mark.spark
def test_a_spark_that_does_not_come_up_is_told_with_the_reason(
    script: Path, tmp_path: Path
) -> None:
    no_java = {"JAVA_HOME": str(tmp_path / "nowhere")}
    done = run(TIDEMILL, "run", script, cwd=tmp_path, env=no_java)
    assert done.returncode == 3
    assert re.search(
        r"SETUP-018: Spark did not start: .*/nowhere/bin/java: No such file", done.stderr
    )
    assert " hint: it needs Java 17 or newer" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.spark
def test_a_setting_that_spark_refuses_is_told_in_one_sentence(script: Path, tmp_path: Path) -> None:
    wrong = "spark.sql.shuffle.partitions=many"
    done = run(TIDEMILL, "run", script, "--conf", wrong, cwd=tmp_path)
    assert done.returncode == 2
    assert "SETUP-019: Spark refuses a setting: " in done.stderr
    assert (
        "The value 'many' in the config \"spark.sql.shuffle.partitions\" is invalid" in done.stderr
    )
    assert "Traceback" not in done.stderr

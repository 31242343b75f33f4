"""The SparkSession that jobs run in: our jars, our settings, one log file.

In: a master and the user's own settings, or a session that the user brings. Out: a session of our own whose JVM holds
the kernel and whose workers find this package. Law: the user's session is used as it is, if it can be: its context is
shared, its SQL settings are not touched. What cannot work is refused in one sentence.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidemill import __version__
from tidemill.errors import job_error, usage_error
from tidemill.spark import check_version
from tidemill.spark.java import java_class
from tidemill.spark.restarts import silence
from tidemill.tables.options import is_secret
from tidemill.tables.references import Unresolved, has_reference, resolved

_PACKAGE = Path(__file__).parent.parent
_MASTERS = re.compile(r"local(\[.+\])?|local-cluster\[.+\]|spark://.+|yarn|k8s://.+")
_CONNECT_SECONDS = 10.0

_REDACTION = "spark.redaction.regex"

# What the context is started with; the user's --conf beats each.
STATIC_SETTINGS = {
    "spark.app.name": "tidemill",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.sql.streaming.ui.enabled": "false",
    "spark.sql.ui.retainedExecutions": "20",
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.python.worker.reuse": "true",
    # Sorts and tables of joins take memory by such pages, each task at least one. By itself Spark makes them of 64 MB.
    "spark.buffer.pageSize": "4m",
    # Whose values Spark hides on its pages and in its logs, by their keys; Spark's own words and ours.
    _REDACTION: (
        "(?i)secret|passw(or)?d|passphrase|token|(access|account|api|private)[-._]?key|jaas|credential|user[-._]?info"
    ),
}

# What our own session is given. Reasons: docs/architecture.md, "Settings".
SESSION_SETTINGS = {
    # Flink wraps integers and turns decimal overflow into NULL; casts that must fail are written out.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.timeType.enabled": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    "spark.sql.execution.arrow.maxBytesPerBatch": "1m",
    "spark.sql.streaming.checkpointFileManagerClass": "io.tidemill.checkpoint.LocalCheckpointFileManager",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Progress shows the rows of the state; the kernel spares Spark most of the looking (its RowCount).
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "true",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "50",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "10",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.adaptive.streaming.stateless.enabled": "false",
}


def kernel_jars() -> list[Path]:
    jars = sorted((_PACKAGE / "jars").glob("*.jar"))
    if not any(j.name.startswith("tidemill-kernel") for j in jars):
        raise usage_error(
            "SETUP-013",
            "the kernel jar is missing from the package",
            "run 'make kernel' in the project's root",
        )
    return jars


def log_file() -> Path:
    """One log per process; its place is said when something fails."""
    return Path(
        os.environ.setdefault(
            "TIDEMILL_LOG", str(Path(tempfile.mkdtemp(prefix="tidemill-")) / "spark.log")
        )
    )


def is_running() -> bool:
    """Whether this process has a Spark already."""
    return SparkContext._active_spark_context is not None


# --- starting ------------------------------------------------------------------------------------


def create_spark(master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Start Spark; inside spark-submit, use the JVM, the master and the jars that it was given."""
    conf, hidden = _secret_settings(conf or {})
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    master = master or conf.get("spark.master")
    if not submitted:
        master = master or os.environ.get("MASTER") or f"local[{os.cpu_count() or 1}]"
    if master is not None:
        _check_master(master)
        conf["spark.master"] = master
    settings = conf if submitted else launch_settings(master or "", conf)
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    launch = _QuietLaunch()
    try:
        with launch:
            if hidden and not submitted:
                # What the JVM is started with stands on its command line, for all to see; the rest it is told then.
                public = [(k, v) for k, v in settings.items() if k not in hidden]
                SparkContext._ensure_initialized(conf=SparkConf().setAll(public))
            spark = builder.getOrCreate()
    except (Py4JError, PySparkException) as error:
        # A JVM that did not even come up has said why on stderr.
        raise job_error(
            "SETUP-018",
            f"Spark did not start: {launch.first_words() or _first_line(error)}",
            f"it needs Java 17 or newer, in JAVA_HOME or on the PATH; its log is {log_file()}",
        ) from error
    return attach(spark, conf)


def _secret_settings(given: Mapping[str, str]) -> tuple[dict[str, str], set[str]]:
    """Spark's settings with their references resolved, and the keys of those that nobody is to see."""
    hidden = {key for key, value in given.items() if is_secret(key) or has_reference(value)}
    try:
        conf = {key: resolved(value) for key, value in given.items()}
    except Unresolved as problem:
        raise usage_error(
            "SETUP-019", f"a setting of Spark's: {problem.reason}", problem.hint
        ) from None
    if hidden:
        # On its pages Spark hides settings by their keys.
        words = conf.get(_REDACTION, STATIC_SETTINGS[_REDACTION])
        # Hadoop's are shown under their own keys as well.
        keys = (re.escape(key.removeprefix("spark.hadoop.")) for key in sorted(hidden))
        conf[_REDACTION] = "|".join([words, *keys])
    return conf, hidden


def launch_settings(master: str, given: Mapping[str, str]) -> dict[str, str]:
    """What a JVM of our own is started with: our settings, the user's over them, and jars and options of both."""
    conf = dict(given)
    settings = dict(STATIC_SETTINGS)
    if _is_on_loopback(master):
        settings["spark.driver.bindAddress"] = settings["spark.driver.host"] = "127.0.0.1"
        # Its web pages, once they are switched on, ask this variable and no setting; they would listen everywhere.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    jars = [conf.pop("spark.jars", ""), *(j.as_uri() for j in kernel_jars())]
    settings["spark.jars"] = ",".join(filter(None, jars))
    log_config = Path(__file__).with_name("log4j2.properties").as_uri()
    # Quoted: the path may hold spaces.
    options = f'-Dlog4j2.configurationFile={log_config} "-Dtidemill.log={log_file()}" {_ARROW}'
    if is_local(master) and not _is_collector_chosen(conf):
        options += " -XX:+UseParallelGC -XX:GCTimeRatio=9 -XX:NewRatio=8"
    for key, ours in (
        ("spark.driver.extraJavaOptions", options),
        ("spark.executor.extraJavaOptions", _ARROW),
    ):
        settings[key] = f"{ours} {conf.pop(key, '')}".strip()
    # The JVM asks Python for data sources before it asks the kernel: it must ask this Python.
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    return settings | conf


def _is_collector_chosen(conf: Mapping[str, str]) -> bool:
    """Whether the user has a garbage collector in mind: a JVM that is told two does not start.

    Ours is the parallel one where tasks run in the driver's JVM: throughput counts there and pauses do not, since a
    batch ends when all of it is done; G1 marks beside the tasks. Left to itself it takes memory until collecting costs
    less than 1 % of the time; with a tenth, and a ninth of the heap for young objects in place of a third, it takes
    half of that and is as fast (docs/performance.md).
    """
    given = [conf.get("spark.driver.extraJavaOptions", "")]
    given += [os.environ.get(name, "") for name in _JVM_VARIABLES]
    return any(re.search(r"-XX:\+Use\w+GC\b", options) for options in given)


_JVM_VARIABLES = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")

# Arrow checks the bounds of every access, and for null before every get; who reads and writes here has done both.
_ARROW = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"


def _check_master(master: str) -> None:
    """Left to itself, Spark looks for a standalone master for a minute, then fails without naming it."""
    if not _MASTERS.fullmatch(master):
        raise usage_error(
            "SETUP-016",
            f"'{master}' is not a Spark master that Tidemill can use",
            "masters are local[N], spark://HOST:PORT, yarn and k8s://HOST:PORT; a Spark Connect server is none,"
            " because the kernel has to live in the driver's JVM",
        )
    if not master.startswith("spark://"):
        return
    servers = master.removeprefix("spark://")
    if silence(servers, _CONNECT_SECONDS):
        raise job_error(
            "SETUP-017",
            f"no Spark master answers at {' or '.join(servers.split(','))}",
            "give --master the URL that the master's web page shows, spark://HOST:7077",
        )


def is_local(master: str) -> bool:
    """Whether tasks run in the driver's own process."""
    return re.fullmatch(r"local(\[.+\])?", master) is not None


def _is_on_loopback(master: str) -> bool:
    return master.startswith(("local", "spark://127.", "spark://localhost:"))


def _first_line(error: Exception) -> str:
    text = str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
    return text.strip().partition("\n")[0] or type(error).__name__


# --- a session in a context ----------------------------------------------------------------------


def attach(spark: SparkSession, conf: Mapping[str, str] | None = None) -> SparkSession:
    """A session of our own in a given session's context."""
    if not isinstance(spark, SparkSession):
        raise usage_error(
            "SETUP-016",
            "a Spark Connect session cannot run Tidemill: the kernel has to live in the driver's JVM",
            "start a classic one: SparkSession.builder.config('spark.api.mode', 'classic')",
        )
    check_version(spark.version)
    _check_kernel(spark)
    context = spark.sparkContext
    on_this_machine = is_local(context.master)
    python = _worker_python(on_this_machine, context.getConf().get("spark.pyspark.python"))
    if python is not None:
        context.pythonExec = python
    if not on_this_machine:
        context.addPyFile(str(_package_zip()))
    given = {k: v for k, v in (conf or {}).items() if k.startswith("spark.sql.")}
    own = spark.newSession()
    try:
        for key, value in (SESSION_SETTINGS | given).items():
            # A setting of the whole context has been told at its start, if the context is ours.
            if own.conf.isModifiable(key) or context.getConf().get(key) != value:
                own.conf.set(key, value)
    except PySparkException as error:
        raise usage_error("SETUP-019", f"Spark refuses a setting: {_first_line(error)}") from error
    java_class(spark, "io.tidemill.functions.Functions").register(own._jsparkSession)
    return own


def _check_kernel(spark: SparkSession) -> None:
    """The jar in the JVM is there, is ours, and was compiled for the Spark that runs it."""
    loader = java_class(spark, "java.lang.Thread").currentThread().getContextClassLoader()
    stream = loader.getResourceAsStream("tidemill-kernel.properties")
    if stream is None:
        raise usage_error(
            "SETUP-012",
            "this Spark was started without Tidemill's jars",
            "tidemill.jars() names them: SparkSession.builder.config('spark.jars', …) or spark-submit --jars …;"
            " a Session() outside spark-submit starts its own Spark with them",
        )
    facts = java_class(spark, "java.util.Properties")()
    facts.load(stream)
    stream.close()
    version, built_for = facts.getProperty("version"), facts.getProperty("spark")
    if version != __version__ or _minor(built_for) != _minor(spark.version):
        raise usage_error(
            "SETUP-015",
            f"the kernel jar is of Tidemill {version} for Spark {built_for}, but this is Tidemill {__version__} on"
            f" Spark {spark.version}",
            "use the jar of the installed package, which tidemill.jars() names",
        )


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _worker_python(is_local: bool, configured: str | None) -> str | None:
    """The interpreter of Python workers; None: what Spark takes, PYSPARK_PYTHON or else python3.

    On this machine it is the one that has this package. On a cluster the driver's path says nothing.
    """
    if configured or "PYSPARK_PYTHON" in os.environ:
        return configured
    return sys.executable if is_local else None


@cache
def _package_zip() -> Path:
    """This package for workers that do not have it. Made once: a context takes a name from one path only."""
    directory = tempfile.mkdtemp(prefix="tidemill-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    target = Path(directory) / "tidemill.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(_PACKAGE.rglob("*.py")):
            archive.write(path, Path("tidemill") / path.relative_to(_PACKAGE))
    return target


class _QuietLaunch:
    """JVM notices at start-up ("Using incubator modules") are not for the user's terminal."""

    def __enter__(self) -> None:
        sys.stderr.flush()
        self._kept = os.dup(2)
        target = os.open(log_file(), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._start = os.fstat(target).st_size
        os.dup2(target, 2)
        os.close(target)

    def __exit__(self, *exc: object) -> None:
        os.dup2(self._kept, 2)
        os.close(self._kept)

    def first_words(self) -> str | None:
        """The first line that the launch wrote, unless it is only a warning."""
        said = log_file().read_bytes()[self._start :].decode(errors="replace")
        lines = [line for line in said.splitlines() if line and "WARN" not in line]
        return lines[0] if lines else None

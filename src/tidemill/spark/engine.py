"""The SparkSession that jobs run in: our jars, our settings, one log file.

In: a master and the user's own settings. Out: a session whose JVM holds the kernel. A session that the user brings
is used as it is, if it can be: its context is shared, its SQL settings are not touched.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from tidemill.errors import usage_error

SPARK_VERSION = "4.3"
_JARS = Path(__file__).parent.parent / "jars"

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
}

# What our own session is given. Reasons: docs/architecture.md, "Settings".
SESSION_SETTINGS = {
    # Flink wraps integers and turns decimal overflow into NULL; casts that must fail are written out.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.timeType.enabled": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "32768",
    "spark.sql.streaming.checkpointFileManagerClass": "io.tidemill.checkpoint.LocalCheckpointFileManager",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "50",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "10",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.adaptive.streaming.stateless.enabled": "false",
}


def kernel_jars() -> list[Path]:
    jars = sorted(_JARS.glob("*.jar"))
    if not any(j.name.startswith("tidemill-kernel") for j in jars):
        raise usage_error(
            "SETUP-010",
            "the kernel jar is missing from the package",
            "run 'make kernel' in the project's root",
        )
    return jars


def check_version(version: str) -> None:
    if not version.startswith(SPARK_VERSION + "."):
        raise usage_error(
            "SETUP-011",
            f"Spark {version} is not supported: this release of Tidemill runs on Spark {SPARK_VERSION}",
            f"pip install 'pyspark=={SPARK_VERSION}.*'",
        )


def log_file() -> Path:
    """One log per process; its place is said when something fails."""
    return Path(
        os.environ.setdefault(
            "TIDEMILL_LOG", str(Path(tempfile.mkdtemp(prefix="tidemill-")) / "spark.log")
        )
    )


def create_spark(master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    check_version(pyspark.__version__)
    conf = dict(conf or {})
    jars = kernel_jars()
    master = (
        master
        or conf.get("spark.master")
        or os.environ.get("MASTER")
        or f"local[{os.cpu_count() or 1}]"
    )
    settings = dict(STATIC_SETTINGS)
    if master.startswith("local"):
        settings["spark.driver.bindAddress"] = settings["spark.driver.host"] = "127.0.0.1"
    # Python workers must be the interpreter that has this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    own_jars = ",".join(j.as_uri() for j in jars)
    given_jars = conf.pop("spark.jars", "")
    settings["spark.jars"] = f"{given_jars},{own_jars}" if given_jars else own_jars
    log_config = Path(__file__).with_name("log4j2.properties")
    java_options = f"-Dlog4j2.configurationFile={log_config} -Dtidemill.log={log_file()}"
    extra = conf.pop("spark.driver.extraJavaOptions", "")
    settings["spark.driver.extraJavaOptions"] = f"{java_options} {extra}".strip()
    settings.update(conf)
    builder = SparkSession.builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    with _quiet_launch():
        spark = builder.getOrCreate()
    if not master.startswith("local"):
        spark.sparkContext.addPyFile(str(_package_zip()))
    return attach(spark, conf)


def attach(spark: SparkSession, conf: Mapping[str, str] | None = None) -> SparkSession:
    """A session of our own in a given session's context."""
    check_version(spark.version)
    own = spark.newSession()
    for key, value in SESSION_SETTINGS.items():
        own.conf.set(key, (conf or {}).get(key, value))
    for key, value in (conf or {}).items():
        if key.startswith("spark.sql."):
            own.conf.set(key, value)
    try:
        loader = own._jvm.java.lang.Thread.currentThread().getContextClassLoader()
        loader.loadClass("io.tidemill.kafka.KafkaProvider")
    except Exception:
        raise usage_error(
            "SETUP-012",
            "the given SparkSession was started without Tidemill's jars",
            "start it with .config('spark.jars', tidemill.jars()), or let Session() start its own",
        ) from None
    return own


class _quiet_launch:
    """JVM notices at start-up ("Using incubator modules") are not for the user's terminal."""

    def __enter__(self) -> None:
        sys.stderr.flush()
        self._kept = os.dup(2)
        target = os.open(log_file(), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(target, 2)
        os.close(target)

    def __exit__(self, *exc: object) -> None:
        os.dup2(self._kept, 2)
        os.close(self._kept)


def _package_zip() -> Path:
    """This package as a zip for executors that do not have it installed."""
    import zipfile

    root = Path(__file__).parent.parent
    target = Path(tempfile.mkdtemp(prefix="tidemill-")) / "tidemill.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(root.rglob("*.py")):
            archive.write(path, Path("tidemill") / path.relative_to(root))
    return target

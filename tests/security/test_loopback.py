"""No server of ours can be reached from another machine, unless its user says so."""

from __future__ import annotations

import subprocess
import sys

import pytest

from harness.processes import family
from harness.sockets import is_loopback, listening

_SPARK = """
import sys
from tidemill.spark.engine import create_spark
spark = create_spark("local[1]", {"spark.ui.enabled": "true", "spark.ui.port": "0"})
# A Python worker and its daemon are part of it.
spark.sparkContext.parallelize([1], 1).map(lambda x: x).collect()
print("ready", flush=True)
sys.stdin.readline()
spark.stop()
"""


@pytest.mark.spark
def test_spark_and_its_pages_listen_on_loopback_only() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _SPARK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        found = [(line, listening(pid)) for pid, line in family(process.pid).items()]
        process.stdin.write("\n")
        process.stdin.close()
        process.wait(60)
    by_jvm, by_daemon = (
        [socket for line, sockets in found if part in line for socket in sockets]
        for part in ("org.apache.spark.deploy.SparkSubmit", "-m pyspark.daemon")
    )
    # Its driver, its blocks, its pages.
    assert len(by_jvm) >= 3
    assert len(by_daemon) >= 1
    assert all(is_loopback(address) for _, sockets in found for address, _ in sockets), found

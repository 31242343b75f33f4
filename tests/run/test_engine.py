"""What Spark's JVM is started with."""

from __future__ import annotations

import pytest

from tidemill.spark import engine
from tidemill.spark.engine import launch_settings

OPTIONS = "spark.driver.extraJavaOptions"
PARALLEL = "-XX:+UseParallelGC"


VARIABLES = ["JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS"]


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a kernel, which need not be built yet, and without what this run of tests tells its JVMs."""
    monkeypatch.setattr(engine, "kernel_jars", list)
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


@pytest.mark.parametrize("master", ["local", "local[2]"])
def test_where_tasks_run_in_the_driver_its_collector_is_the_parallel_one(master: str) -> None:
    assert PARALLEL in launch_settings(master, {})[OPTIONS].split()


def test_the_driver_of_a_cluster_keeps_javas_collector() -> None:
    assert "GC" not in launch_settings("spark://127.0.0.1:7077", {})[OPTIONS]


def test_the_users_options_come_last_and_their_collector_is_the_only_one() -> None:
    given = "-Xss4m -XX:+UseG1GC"
    options = launch_settings("local[2]", {OPTIONS: given})[OPTIONS]
    assert options.endswith(given) and PARALLEL not in options


@pytest.mark.parametrize("variable", VARIABLES)
def test_a_collector_of_the_environment_is_the_only_one(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "-Xss4m -XX:+UseZGC")
    assert PARALLEL not in launch_settings("local[2]", {})[OPTIONS]

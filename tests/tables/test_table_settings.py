"""SET: every key of Flink is known; values are checked; a slip of the pen is noticed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tidemill.tables.settings import SETTINGS, Status, resolve

FLINK_KEYS = (
    (Path(__file__).parent / "data" / "flink_configuration_keys.txt")
    .read_text(encoding="utf-8")
    .split()
)


def test_every_key_that_flink_documents_is_known() -> None:
    assert len(FLINK_KEYS) > 900
    unknown = [key for key in FLINK_KEYS if resolve(key, "1").status is Status.UNKNOWN]
    assert unknown == []


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("pipeline.name", "pv uv", "pv uv"),
        ("execution.checkpointing.interval", "10 s", timedelta(seconds=10)),
        ("execution.checkpointing.dir", "/tmp/c", "/tmp/c"),
        ("parallelism.default", "4", 4),
        ("table.local-time-zone", "Asia/Shanghai", "Asia/Shanghai"),
        ("table.local-time-zone", "UTC", "UTC"),
        ("table.local-time-zone", "GMT-08:00", "GMT-08:00"),
        ("table.local-time-zone", "default", "default"),
        ("table.dml-sync", "TRUE", True),
        ("execution.runtime-mode", "streaming", "STREAMING"),
        ("table.sql-dialect", "default", "default"),
    ],
)
def test_honoured_keys_are_typed(key: str, text: str, value: object) -> None:
    resolved = resolve(key, text)
    assert (resolved.key, resolved.value, resolved.status) == (key, value, Status.HONOURED)
    assert resolved.diagnostic is None


def test_an_older_name_is_the_same_key() -> None:
    assert resolve("state.checkpoints.dir", "/c").key == "execution.checkpointing.dir"
    assert resolve("table.exec.resource.default-parallelism", "3").key == "parallelism.default"


@pytest.mark.parametrize(
    "key",
    [
        "state.backend",
        "state.backend.type",
        "taskmanager.memory.process.size",
        "table.exec.mini-batch.enabled",
        "table.optimizer.agg-phase-strategy",
        "restart-strategy.exponential-delay.jitter-factor",
        "sql-client.execution.result-mode",
        "execution.checkpointing.mode",
        "pipeline.object-reuse",
        "classloader.resolve-order",
    ],
)
def test_keys_of_flinks_engine_are_meaningless_and_silent(key: str) -> None:
    resolved = resolve(key, "anything")
    assert (resolved.status, resolved.value) == (Status.MEANINGLESS, "anything")
    assert resolved.diagnostic is None


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("table.exec.legacy-cast-behaviour", "ENABLED"),
        ("table.exec.sink.rowtime-inserter", "DISABLED"),
    ],
)
def test_keys_still_to_come_warn(key: str, text: str) -> None:
    resolved = resolve(key, text)
    assert resolved.status is Status.LATER
    assert resolved.diagnostic is not None
    assert resolved.diagnostic.severity == "warning"
    assert "not honoured yet" in resolved.diagnostic.message


def test_a_key_to_come_that_says_what_holds_anyway_is_silent() -> None:
    assert resolve("table.exec.legacy-cast-behaviour", "DISABLED").diagnostic is None


@pytest.mark.parametrize(
    ("key", "text", "code", "said"),
    [
        ("execution.checkpointing.interval", "often", "OPT-081", "Expected a duration"),
        ("parallelism.default", "0", "OPT-081", "Invalid configured parallelism 0"),
        ("table.dml-sync", "yes", "OPT-081", "Unrecognized option for boolean: yes"),
        (
            "table.local-time-zone",
            "Asia/Shangai",
            "OPT-081",
            "configured Zone ID is 'Asia/Shangai'",
        ),
        ("table.local-time-zone", "../../etc", "OPT-081", "configured Zone ID"),
        ("table.local-time-zone", "UTC+8", "OPT-081", "configured Zone ID is 'UTC+8'"),
        ("execution.runtime-mode", "batch", "OPT-082", "is not supported"),
        ("execution.runtime-mode", "fast", "OPT-081", "Expected one of"),
        ("table.sql-dialect", "hive", "OPT-082", "is not supported"),
        ("execution.state-recovery.path", "/s", "OPT-082", "is not supported"),
        ("execution.savepoint.path", "/s", "OPT-082", "is not supported"),
        ("spark.sql.shuffle.partitions", "4", "OPT-082", "is not supported"),
        ("table.exec.sink.not-null-enforcer", "maybe", "OPT-081", "Expected one of ERROR, DROP"),
    ],
)
def test_bad_values_are_errors(key: str, text: str, code: str, said: str) -> None:
    resolved = resolve(key, text)
    assert resolved.value is None
    assert resolved.diagnostic is not None
    assert (resolved.diagnostic.severity, resolved.diagnostic.code) == ("error", code)
    assert said in resolved.diagnostic.message


def test_hints_name_the_way_out() -> None:
    assert "--bounded" in str(resolve("execution.runtime-mode", "batch").diagnostic)
    assert "--conf" in str(resolve("spark.executor.memory", "1g").diagnostic)
    assert "'Asia/Shanghai'" in str(resolve("table.local-time-zone", "Asia/Shangai").diagnostic)


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("execution.checkpointing.intervall", "execution.checkpointing.interval"),
        ("pipeline.nam", "pipeline.name"),
        ("table.exec.state.tll", "table.exec.state.ttl"),
        ("table.local-timezone", "table.local-time-zone"),
        ("paralelism.default", "parallelism.default"),
    ],
)
def test_a_misspelt_key_is_a_warning_with_what_was_meant(key: str, meant: str) -> None:
    resolved = resolve(key, "1")
    assert resolved.status is Status.UNKNOWN
    assert resolved.diagnostic is not None
    assert resolved.diagnostic.severity == "warning"
    assert resolved.diagnostic.hint == f"did you mean '{meant}'?"


def test_every_key_has_words() -> None:
    assert all(setting.doc for setting in SETTINGS.values())

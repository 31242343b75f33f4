"""Tidemill runs Flink-SQL scripts over Kafka on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidemill.errors import Diagnostic, JobError, ScriptError, TidemillError, UsageError

if TYPE_CHECKING:
    from tidemill.functions import udaf, udf, udtf
    from tidemill.session import Session

__version__ = "0.1.0"

__all__ = [
    "Diagnostic",
    "JobError",
    "ScriptError",
    "Session",
    "TidemillError",
    "UsageError",
    "__version__",
    "jars",
    "udaf",
    "udf",
    "udtf",
]


def jars() -> str:
    """Our jars for the `spark.jars` of a SparkSession that the caller starts."""
    from tidemill.spark.engine import kernel_jars

    return ",".join(j.as_uri() for j in kernel_jars())


def __getattr__(name: str) -> Any:
    # Imported on demand: errors and versions must be cheap to reach.
    if name == "Session":
        from tidemill.session import Session

        return Session
    if name in ("udaf", "udf", "udtf"):
        from tidemill import functions

        return getattr(functions, name)
    raise AttributeError(f"module 'tidemill' has no attribute {name!r}")

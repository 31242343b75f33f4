"""Classes of the driver's JVM. In: a class's full name. Out: the class, as py4j gives it.

Law: a class is asked for by its whole name at once. For each part of a dotted path py4j first looks for a class of that
name, under every prefix that PySpark imports, in each of Spark's 280 jars: milliseconds on every way into the kernel.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def java_class(spark: SparkSession, name: str) -> Any:
    return getattr(spark._jvm, name)

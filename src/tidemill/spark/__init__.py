"""Plans on Spark: the only importer of pyspark.

The version is checked here, before any module that needs something which another Spark does not have.
"""

from __future__ import annotations

import pyspark

from tidemill.errors import usage_error

SPARK_VERSION = "4.3"


def check_version(version: str) -> None:
    if not version.startswith(SPARK_VERSION + "."):
        raise usage_error(
            "SETUP-014",
            f"Spark {version} is not supported: this release of Tidemill runs on Spark {SPARK_VERSION}",
            f"pip install 'pyspark=={SPARK_VERSION}.*', and run the cluster on Spark {SPARK_VERSION} as well",
        )


check_version(pyspark.__version__)

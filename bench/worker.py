"""Tidemill itself, asked by lines of JSON, as tools/flink/oracle.py is for Flink: `python -m bench.worker CONF`.

In, a request a line; out, an answer a line:

    {"do": "start", "script": text, "variables": {…}, "settings": {…}, "checkpoint": directory}   → {}
    {"do": "finish", "patience": 600}                                → {"seconds": since the start, "reports": […]}
    {"do": "reports"}                                                → {"reports": […]}
    {"do": "stop"}                                                   → {"reports": […]}

CONF is a JSON object of Spark's settings. An answer with `"error": text` says that the script was refused or has
failed.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from tidemill import Session

REPORTS = {"spark.sql.streaming.numRecentProgressUpdates": "100000"}


class Worker:
    def __init__(self, conf: dict[str, str]) -> None:
        self.main = Session(conf=conf)
        self.conf = conf
        self.session: Session | None = None
        self.jobs: list[Any] = []
        self.begun = 0.0

    def start(
        self, script: str, variables: dict[str, str], settings: dict[str, str], checkpoint: str
    ) -> dict[str, Any]:
        self.stop()
        self.session = Session(
            self.main.spark,
            variables=variables,
            settings=settings,
            checkpoint=checkpoint,
            conf=REPORTS | self.conf,
        )
        self.begun = time.monotonic()
        self.jobs = [job for job in self.session.execute(script) if not isinstance(job, str)]
        return {}

    def finish(self, patience: float) -> dict[str, Any]:
        for job in self.jobs:
            if not job.wait(patience):
                return {"error": f"the job did not end within {patience:g} seconds"}
        seconds = time.monotonic() - self.begun
        for job in self.jobs:
            failure = job.failure()
            if failure is not None:
                raise failure
        return {"seconds": seconds, **self.reports()}

    def reports(self) -> dict[str, Any]:
        return {"reports": [json.loads(r.json) for j in self.jobs for r in j.query.recentProgress]}

    def stop(self) -> dict[str, Any]:
        told = self.reports()
        if self.session is not None:
            self.session.close()
        self.session, self.jobs = None, []
        return told


def main() -> None:
    # The answers' channel is ours alone: what a print sink or a library writes goes to stderr.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    worker = Worker(json.loads(sys.argv[1]))
    requests: dict[str, Callable[..., dict[str, Any]]] = {
        "start": worker.start,
        "finish": worker.finish,
        "reports": worker.reports,
        "stop": worker.stop,
    }
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = requests[request.pop("do")](**request)
        except Exception as problem:
            answer = {"error": str(problem)}
        out.write(json.dumps(answer) + "\n")
        out.flush()
    worker.stop()
    worker.main.close()


if __name__ == "__main__":
    main()

"""One bounded script on Flink and on Tidemill, taking turns over the same topic: `python bench/one.py CASE [--rows N]`.

In: bench/cases/CASE.sql, whose `${orders}` or the like is a topic of bench/inputs.py that is filled once and whose
`${out}` is a new topic for each run. Out: rows per second of each run, the medians, and their ratio; exit code 1 if it
is less than the case's `-- wanted:`. A case with `-- state` is run by Flink as one would run it, on RocksDB with
checkpoints, with and without mini-batches: the faster counts. A run's time is from the start of the job to its end, on
warm processes: the first turns of each (`--warm`) are not counted, because all are still being compiled in them.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tools" / "flink"), str(HERE.parent / "tests" / "parity")]
os.environ.setdefault("TIDEMILL_FLINK_HEAP", "2g")

import install  # noqa: E402
from case import fill, split_statements  # noqa: E402
from record import Oracle  # noqa: E402

from inputs import INPUTS, PARTITIONS  # noqa: E402
from tidemill import Session  # noqa: E402
from tidemill.broker import start, topics  # noqa: E402
from tidemill.errors import TidemillError  # noqa: E402

STATE = {"state.backend.type": "rocksdb", "execution.checkpointing.interval": "10 s"}
MINI_BATCH = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
}


def on_flink(
    oracle: Oracle, script: str, values: Mapping[str, str], settings: Mapping[str, str]
) -> float:
    statements = [fill(s, values) for s in split_statements(script)]
    begin = time.monotonic()
    answers = [
        oracle.ask(
            "start", statements=statements, settings={"parallelism.default": "2", **settings}
        )
    ]
    answers.append(oracle.ask("settle", quiet=30, patience=600))
    seconds = time.monotonic() - begin
    oracle.ask("stop")
    failed = [a["error"] for a in answers if "error" in a]
    if failed or not answers[-1]["ended"]:
        raise SystemExit(f"Flink did not finish: {failed}")
    return seconds


def on_tidemill(session: Session, script: str, values: Mapping[str, str]) -> float:
    with Session(session.spark, variables=values) as fresh:
        begin = time.monotonic()
        jobs: list[Any] = [j for j in fresh.execute(script) if not isinstance(j, str)]
        for job in jobs:
            job.wait()
        seconds = time.monotonic() - begin
        for job in jobs:
            failure = job.failure()
            if failure is not None:
                raise failure
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm", type=int, default=3)
    chosen = parser.parse_args()
    path = HERE / "cases" / f"{chosen.case}.sql"
    if not path.exists():
        known = ", ".join(sorted(p.stem for p in path.parent.glob("*.sql")))
        raise SystemExit(f"no case '{chosen.case}' in bench/cases; there are: {known}")
    script = path.read_text("utf-8")
    wanted = re.search(r"(?m)^-- wanted: ([\d.]+)$", script)
    stateful = re.search(r"(?m)^-- state$", script) is not None
    with tempfile.TemporaryDirectory() as place:
        broker = start(Path(place), port=0)
        oracle = Oracle(install.flink_home())
        try:
            values = {"BOOTSTRAP": broker.bootstrap}
            for name in set(re.findall(r"\$\{(\w+)\}", script)) & INPUTS.keys():
                print(f"filling {name} with {chosen.rows:,} rows …", flush=True)
                INPUTS[name](broker.bootstrap, name, chosen.rows)
                values[name] = name
            with Session() as session:
                kept = STATE | {"execution.checkpointing.dir": Path(place, "flink").as_uri()}
                engines: dict[str, Callable[[Mapping[str, str]], float]] = {
                    "tidemill": lambda v: on_tidemill(session, script, v),
                    "flink": lambda v: on_flink(oracle, script, v, kept if stateful else {}),
                }
                if stateful:
                    engines["mini-batch"] = lambda v: on_flink(oracle, script, v, kept | MINI_BATCH)
                rates: dict[str, list[float]] = {name: [] for name in engines}
                for turn in range(chosen.warm + chosen.rounds):
                    for name, run in engines.items():
                        out = f"out-{name}-{turn}"
                        if "${out}" in script:
                            topics.create(broker.bootstrap, out, PARTITIONS, {})
                        rate = chosen.rows / run({**values, "out": out})
                        print(f"turn {turn} {name:10} {rate:12,.0f} rows/s", flush=True)
                        if turn >= chosen.warm:
                            rates[name].append(rate)
        finally:
            oracle.close()
            broker.stop()
    medians = {name: statistics.median(found) for name, found in rates.items()}
    print(f"\n{chosen.case}: {chosen.rows:,} rows, medians of {chosen.rounds}")
    for name, median in medians.items():
        print(f"{name:10} {median:12,.0f} rows/s")
    ratio = medians.pop("tidemill") / max(medians.values())
    print(f"ratio      {ratio:12.2f}")
    if wanted:
        print(f"wanted     {float(wanted[1]):12.2f}")
        if ratio < float(wanted[1]):
            raise SystemExit(f"missed: {chosen.case} is {ratio:.2f} × Flink, wanted {wanted[1]}")


if __name__ == "__main__":
    try:
        main()
    except TidemillError as error:
        raise SystemExit(str(error)) from None

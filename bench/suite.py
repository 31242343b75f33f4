"""Tidemill beside Flink: `python -m bench.suite [--only NAME…] [--quick]`.

In: the cases of bench/cases and bench/nexmark. For each, both engines start afresh, and first run the case into a
topic with a few rows, whose results are compared. Then they take turns over the same topic: the first turns
(`--warm`) do not count, because all is still being compiled in them; then come `--rounds`. Flink has parallelism 2
and, for a case with state, RocksDB and checkpoints every 10 s, once without and once with mini-batches. Out: a line
for each case, and its object in results/bench.json (or quick.json), in the place of the one that was there. Exit code
1 names what was missed.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import figures, inputs, outcomes, program, workloads, world
from bench.engines import (
    CHECKPOINTS,
    MINI_BATCH,
    Engine,
    EngineError,
    Flink,
    Tidemill,
    Turn,
    machine,
)
from bench.outcomes import Result
from bench.workloads import Workload
from bench.world import World
from tidemill.errors import TidemillError

CALM_SECONDS = 12.0
"""A result that does not end is complete when nothing has come for so long: longer than any window of the clock."""


@dataclass(frozen=True)
class Setting:
    """One of those who take turns."""

    name: str
    engine: Engine
    settings: Mapping[str, str]


def settings_of(workload: Workload, ours: Engine, flink: Engine) -> list[Setting]:
    kept = CHECKPOINTS if workload.has_checkpoints else {}
    found = [Setting("tidemill", ours, {}), Setting("plain", flink, kept)]
    if workload.has_state:
        found.append(Setting("mini-batch", flink, {**kept, **MINI_BATCH}))
    return found


class Measuring:
    """One workload."""

    def __init__(self, here: World, workload: Workload) -> None:
        self.world = here
        self.workload = workload

    def values(self, rows: int) -> dict[str, str]:
        """What the script's `${…}` stand for, except where it writes to."""
        names = sorted(self.workload.names & {*inputs.INPUTS, *inputs.FILES})
        values = {name: self.world.value(name, rows) for name in names}
        return values | {"BOOTSTRAP": self.world.bootstrap, "REGISTRY": self.world.registry}

    def run(self, setting: Setting, values: Mapping[str, str]) -> Turn:
        """A run that ends; what it has written is thrown away."""
        place = self.world.directory()
        out = self.world.fresh() if "out" in self.workload.names else None
        filled = {**values, "out": out or "", "files": str(place / "files")}
        try:
            return setting.engine.run(
                self.workload.script, filled, place / "checkpoint", setting.settings
            )
        finally:
            if out:
                self.world.drop(out)
            shutil.rmtree(place, ignore_errors=True)

    # --- equality ---------------------------------------------------------------------------

    def result(self, setting: Setting, values: Mapping[str, str]) -> tuple[Result, int]:
        """What a run leaves, and of how many records or lines that is made."""
        place, out = self.world.directory(), self.world.fresh()
        filled = {**values, "out": out, "files": str(place / "files")}
        run = (self.workload.comparable, filled, place / "checkpoint", setting.settings)
        try:
            if self.workload.totals:
                setting.engine.start(*run)
                try:
                    self._wait(out)
                finally:
                    setting.engine.ask("stop")
            else:
                setting.engine.run(*run)
            if self.workload.kind == "files":
                records = list(world.lines(place / "files"))
            else:
                records = list(self.world.records(out))
            found = outcomes.fold(self.workload.kind, records)
            if self.workload.totals:
                found = outcomes.summed(found, self.workload.totals)
            return found, len(records)
        finally:
            self.world.drop(out)
            shutil.rmtree(place, ignore_errors=True)

    def _wait(self, out: str) -> None:
        number, since, begun = 0, time.monotonic(), time.monotonic()
        while not number or time.monotonic() - since < CALM_SECONDS:
            if time.monotonic() - begun > 300:
                raise EngineError("nothing came out within five minutes, or it did not end")
            time.sleep(1)
            found = sum(1 for _ in self.world.records(out))
            if found != number:
                number, since = found, time.monotonic()

    def compare(self, settings: Sequence[Setting], rows: int) -> dict[str, Any]:
        values = self.values(rows)
        ours, theirs = (self.result(setting, values) for setting in settings[:2])
        difference = outcomes.difference(ours[0], theirs[0])
        # Two results with nothing in them say nothing.
        is_empty = not ours[0] and not theirs[0]
        return {
            "equal": not difference and not is_empty,
            "difference": "both results are empty" if is_empty else str(difference),
            "compared_rows": rows,
            "ours_output": ours[1],
            "flink_output": theirs[1],
        }

    # --- rates ------------------------------------------------------------------------------

    def measure(
        self, engines: Engines, rows: int, compared: int, warm: int, rounds: int
    ) -> dict[str, Any]:
        settings = settings_of(self.workload, *engines)
        equality = self.compare(settings, compared)
        if not rounds:
            return {**UNRATED, "ratio": None, **equality}
        values = self.values(rows)
        turns: dict[str, list[Turn]] = {s.name: [] for s in settings}
        for turn in range(warm + rounds):
            for setting in settings:
                took = self.run(setting, values)
                counts = "" if turn >= warm else ", to warm up"
                print(
                    f"  {setting.name:10} {rows / took.seconds:12,.0f} rows/s{counts}",
                    file=sys.stderr,
                    flush=True,
                )
                if turn >= warm:
                    turns[setting.name].append(took)
        return rated(rows, turns, equality)


Engines = tuple[Engine, Engine]
"""Tidemill and Flink."""


@contextmanager
def started(here: World, with_registry: bool = False) -> Iterator[Engines]:
    place = here.directory()
    try:
        with Tidemill(place) as ours, Flink(place, with_registry) as flink:
            yield ours, flink
    finally:
        shutil.rmtree(place, ignore_errors=True)


def rated(
    rows: int, turns: Mapping[str, Sequence[Turn]], equality: Mapping[str, Any]
) -> dict[str, Any]:
    """The figures of a workload, out of the turns of Tidemill and of Flink's settings."""
    rates = {name: [rows / t.seconds for t in found] for name, found in turns.items()}
    rivals = {name: found for name, found in rates.items() if name != "tidemill"}
    ratio, low, high, best = figures.rating(rates["tidemill"], rivals)

    def medians(name: str, prefix: str) -> dict[str, float]:
        found = turns[name]
        return {
            f"{prefix}_rows_per_s": round(statistics.median(rates[name])),
            f"{prefix}_cpu_seconds": round(statistics.median(t.cpu_seconds for t in found), 2),
            f"{prefix}_peak_mb": round(max(t.peak_mb for t in found)),
        }

    return {
        "ratio": round(ratio, 3) if equality["equal"] else 0.0,
        **medians("tidemill", "ours"),
        **medians(best, "flink"),
        **equality,
        "measured_ratio": round(ratio, 3),
        "ratio_low": round(low, 3),
        "ratio_high": round(high, 3),
        "flink_setting": best,
        "rates": {name: [round(rate) for rate in found] for name, found in rates.items()},
    }


UNRATED = {"ratio": 0.0, "ours_rows_per_s": None, "flink_rows_per_s": None, "equal": False}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rows", type=int, help="for every case, in place of what it says")
    parser.add_argument("--compared", type=int, help="likewise, where results are compared")
    parser.add_argument("--rounds", type=int, default=3, help="0: results are only compared")
    parser.add_argument("--warm", type=int, help="default: 2, and 1 with --quick")
    parser.add_argument("--results", type=Path, metavar="FILE")
    asked = parser.parse_args()
    warm = asked.warm if asked.warm is not None else 1 if asked.quick else 2
    path = asked.results or figures.RESULTS / ("quick.json" if asked.quick else "bench.json")
    chosen = workloads.chosen(asked.only, asked.quick)
    # A whole run leaves nothing that is no longer part of it.
    order = [w.name for w in (workloads.every() if asked.only else chosen)]
    on = machine()
    found = []
    with world.running() as here, ExitStack() as shared:
        # Nothing is timed where nothing is counted; then the engines need not be fresh.
        engines = None if asked.rounds else shared.enter_context(started(here))
        for workload in chosen:
            rows = asked.rows or (workload.quick if asked.quick else None) or workload.rows
            compared = asked.compared or min(workload.compared, rows)
            print(f"{workload.name}: {workload.what}", file=sys.stderr, flush=True)
            begun = time.monotonic()
            try:
                asks = "REGISTRY" in workload.names
                shares = engines is not None and not asks
                with nullcontext(engines) if shares else started(here, asks) as pair:
                    measuring = Measuring(here, workload)
                    result = measuring.measure(pair, rows, compared, warm, asked.rounds)
            except (EngineError, TidemillError) as problem:
                result = {**UNRATED, "error": str(problem)}
            result = {
                "workload": workload.name,
                "what": workload.what,
                "rows": rows,
                "wanted": workload.wanted,
                **result,
                "rounds": asked.rounds,
                "warm": warm,
                "took_seconds": round(time.monotonic() - begun),
                "measured": figures.now(),
                "machine": on,
            }
            print(figures.line_of(result), flush=True)
            if asked.rounds:
                figures.store(path, [result], order)
            found.append(result)
    if asked.rounds:
        print(f"written to {path}", file=sys.stderr)
    figures.require(figures.missed(found))


if __name__ == "__main__":
    program.run(main)

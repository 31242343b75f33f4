"""Flink and Tidemill, each in a process of its own that lives as long as a workload does.

In: a script and the values of its `${…}`. Out: how long a run took, what CPU it used and how much memory the process
and all below it had. Law: both are asked in the same way and measured from the same moment, the start of the script,
to the same one, the end of its jobs; the broker and who measures are not counted.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools" / "flink"), str(ROOT / "tests" / "parity")]

import install  # noqa: E402
from case import FLINK, fill, split_statements  # noqa: E402

from bench import figures  # noqa: E402
from bench.program import ScaleError  # noqa: E402
from tidemill.broker import fetch, find_java  # noqa: E402

PARALLELISM = 2
HEAP = "2g"
PATIENCE = 900.0
"""Seconds that a run may take."""

# As one runs it: the slots that the job needs, and for RocksDB what a process with this heap has by Flink's own shares.
CLUSTER = {"taskmanager.memory.managed.size": "1g"}
CHECKPOINTS = {
    "state.backend.type": "rocksdb",
    "execution.checkpointing.incremental": "true",
    "execution.checkpointing.interval": "10 s",
}
MINI_BATCH = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
}


def machine() -> dict[str, Any]:
    """Where and with what both are measured."""
    found = figures.machine()
    found["versions"]["flink"] = FLINK
    return found


class EngineError(ScaleError):
    """A run that was refused, failed, or did not end."""


@dataclass(frozen=True)
class Turn:
    """A run from the start of its script to the end of its jobs."""

    seconds: float
    cpu_seconds: float
    peak_mb: float
    reports: list[dict[str, Any]] = field(default_factory=list, repr=False)


# --- measuring a tree of processes ---------------------------------------------------------------

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / (1 << 20)


@dataclass(frozen=True)
class Usage:
    cpu_seconds: float
    mb: float


def usage(root: int) -> Usage:
    """CPU that a process and all below it have used, those included that have ended; and what they have in memory.

    Pages that Python's processes share are divided among them. For that Linux walks over all pages of a process; of a
    JVM, which shares nearly none, all that is resident counts. What a JVM starts, but for Python, are commands of a
    moment, which seem to be as large as itself until they run.
    """
    parents: dict[int, int] = {}
    cpu: dict[int, float] = {}
    memory: dict[int, float] = {}
    names: dict[int, str] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                # The name, in parentheses, may hold anything.
                head, _, tail = file.read().rpartition(")")
        except OSError:
            continue  # it has just ended
        pid, words = int(entry), tail.split()
        names[pid] = head.partition("(")[2]
        parents[pid] = int(words[1])
        # utime, stime and those of children that were waited for; resident pages.
        cpu[pid] = sum(map(int, words[11:15])) / _TICKS
        memory[pid] = int(words[21]) * _PAGE_MB
    tree, fresh = {root}, {root}
    while fresh:
        fresh = {pid for pid, parent in parents.items() if parent in fresh}
        tree |= fresh
    tree &= cpu.keys()
    mb = 0.0
    for pid in tree:
        if names[pid].startswith("python"):
            mb += _proportional(pid, memory[pid])
        elif pid == root or names.get(parents[pid], "").startswith("python"):
            mb += memory[pid]
    return Usage(sum(cpu[pid] for pid in tree), mb)


def _proportional(pid: int, resident: float) -> float:
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as file:
            found = next((line for line in file if line.startswith("Pss:")), None)
    except OSError:
        return 0.0  # it has just ended
    return resident if found is None else int(found.split()[1]) / 1024


class Meter:
    """Looks at a tree of processes several times a second, as long as the block lasts."""

    def __init__(self, root: int, every_seconds: float = 0.2) -> None:
        self.cpu_seconds = 0.0
        self.peak_mb = 0.0
        self._root = root
        self._every = every_seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Meter:
        self._begin = usage(self._root)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()
        last = usage(self._root)
        self.peak_mb = max(self.peak_mb, last.mb)
        self.cpu_seconds = last.cpu_seconds - self._begin.cpu_seconds

    def _look(self) -> None:
        while not self._over.wait(self._every):
            self.peak_mb = max(self.peak_mb, usage(self._root).mb)


# --- engines -------------------------------------------------------------------------------------


# Loaded here: between fork and exec another thread may hold the loader's lock for ever.
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def _end_with_parent() -> None:
    """Who waits in the middle of a run for a broker that is gone would not see that nobody asks any more."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class Engine:
    """A process that is asked by lines of JSON, and ends with the one that asks."""

    name = ""

    def __init__(self, command: list[str], log: Path, env: Mapping[str, str]) -> None:
        self.log = log
        with log.open("w", encoding="utf-8") as out:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=out,
                encoding="utf-8",
                cwd=ROOT,
                env={**os.environ, **env},
                preexec_fn=_end_with_parent,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, do: str, **members: Any) -> dict[str, Any]:
        assert self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write(json.dumps({"do": do, **members}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass
        line = self._process.stdout.readline()
        if not line:
            told = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise EngineError(f"{self.name} has died: {' '.join(told[-3:])}")
        answer: dict[str, Any] = json.loads(line)
        problem = answer.get("fault") or answer.get("error")
        if problem:
            raise EngineError(f"{self.name}: {_told(problem)}")
        return answer

    def start(
        self,
        script: str,
        values: Mapping[str, str],
        checkpoint: Path,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        raise NotImplementedError

    def run(
        self,
        script: str,
        values: Mapping[str, str],
        checkpoint: Path,
        settings: Mapping[str, str] | None = None,
    ) -> Turn:
        with Meter(self.pid) as meter:
            self.start(script, values, checkpoint, settings)
            answer = self.ask("finish", patience=PATIENCE)
        self.ask("stop")
        return Turn(answer["seconds"], meter.cpu_seconds, meter.peak_mb, answer.get("reports", []))

    def close(self) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _told(problem: Any) -> str:
    """Flink's chain of causes, or a text; what matters is the last cause."""
    if isinstance(problem, list):
        said = [f"{name.rpartition('.')[2]}: {message}" for name, message in problem if message]
        return said[-1] if said else str(problem)
    return str(problem)


class Tidemill(Engine):
    name = "tidemill"

    def __init__(self, place: Path, conf: Mapping[str, str] | None = None) -> None:
        settings = {
            "spark.master": f"local[{PARALLELISM}]",
            "spark.driver.memory": HEAP,
            **(conf or {}),
        }
        paths = [str(ROOT), str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
        super().__init__(
            [sys.executable, "-m", "bench.worker", json.dumps(settings)],
            place / "tidemill.log",
            {"PYTHONPATH": os.pathsep.join(paths), "TIDEMILL_LOG": str(place / "spark.log")},
        )

    def start(
        self,
        script: str,
        values: Mapping[str, str],
        checkpoint: Path,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.ask(
            "start",
            script=script,
            variables=dict(values),
            settings=dict(settings or {}),
            checkpoint=str(checkpoint),
        )


class Flink(Engine):
    name = "flink"

    def __init__(self, place: Path, with_registry: bool = False) -> None:
        """`with_registry`: it knows the formats of a schema registry, with an Avro of their own."""
        python = install.flink_python(install.installed_home())
        oracle = ROOT / "tools" / "flink" / "oracle.py"
        lock = install.REGISTRY_LOCK if with_registry else install.LOCK
        command = [python, oracle, find_java(), *fetch(lock)]
        cluster = {**CLUSTER, "io.tmp.dirs": str(place)}
        super().__init__(
            [str(part) for part in command],
            place / "flink.log",
            {
                "TIDEMILL_FLINK_HEAP": HEAP,
                "TIDEMILL_FLINK_SLOTS": str(PARALLELISM),
                "TIDEMILL_FLINK_CLUSTER": json.dumps(cluster),
            },
        )

    def start(
        self,
        script: str,
        values: Mapping[str, str],
        checkpoint: Path,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        given = {
            "parallelism.default": str(PARALLELISM),
            "execution.checkpointing.dir": checkpoint.as_uri(),
            **(settings or {}),
        }
        statements = [fill(s, values) for s in split_statements(script)]
        self.ask("start", statements=statements, settings=given, explained=False)

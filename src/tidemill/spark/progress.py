"""What a running job has done, out of Spark's progress reports.

In: the reports of one query, some perhaps seen twice. Out: totals and the latest rates, in the words of the script.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

ROWS_OF = "rows of "
"""How the name of a count begins in a report: then come the table, a slash, and what tells one scan from another."""


@dataclass(frozen=True)
class OperatorState:
    """What an operator remembers: in its store's tables on the local disk, and in memory before they are written."""

    name: str
    rows: int
    bytes: int

    @classmethod
    def of(cls, name: str, report: Mapping[str, Any]) -> OperatorState:
        on_disk = int(report.get("customMetrics", {}).get("rocksdbSstFileSize", 0))
        in_memory = int(report.get("memoryUsedBytes", 0))
        return cls(name, int(report.get("numRowsTotal", 0)), on_disk + in_memory)

    def __str__(self) -> str:
        return f"{self.name} {self.rows:,} rows, {_size(self.bytes)}"


@dataclass(frozen=True)
class PartitionTime:
    """How far event time has come in one partition of a table; milliseconds."""

    topic: str
    partition: int
    time: int | None
    """The greatest rowtime that was read; None if none was."""
    watermark: int | None
    lag: int
    """Records that wait behind those that were read."""
    idle: bool

    @property
    def name(self) -> str:
        return f"partition {self.partition} of topic '{self.topic}'"


@dataclass(frozen=True)
class TableTime:
    """Event time in a table that somebody waits for."""

    table: str
    partitions: tuple[PartitionTime, ...]

    @property
    def slowest(self) -> PartitionTime | None:
        """The partition that holds the watermark back; None if nobody waits for any."""
        active = [p for p in self.partitions if not p.idle]
        return min(
            active, key=lambda p: _LEAST if p.watermark is None else p.watermark, default=None
        )

    @property
    def watermark(self) -> int | None:
        """The least of the partitions that are not idle, or, if all are, the greatest."""
        if self.slowest is not None:
            return self.slowest.watermark
        return max((p.watermark for p in self.partitions if p.watermark is not None), default=None)

    def __str__(self) -> str:
        slowest = self.slowest
        behind = "" if slowest is None or len(self.partitions) == 1 else f" by {slowest.name}"
        return f"{self.table} watermark {shown_time(self.watermark)}{behind}"


_LEAST = -(1 << 63)


def shown_time(millis: int | None) -> str:
    if millis is None:
        return "none yet"
    try:
        moment = datetime(1970, 1, 1) + timedelta(milliseconds=millis)
    except OverflowError:
        return f"{millis} ms"
    return moment.isoformat(" ", "milliseconds" if millis % 1000 else "seconds")


def times_of(source: Mapping[str, Any]) -> TableTime | None:
    """What a source reports of event time; None where nobody waits for it."""
    metrics = source.get("metrics") or {}
    if "times" not in metrics:
        return None
    lags = json.loads(metrics.get("partitions", "{}"))
    partitions = [
        PartitionTime(
            topic,
            int(number),
            told.get("time"),
            told.get("watermark"),
            int(lags.get(topic, {}).get(number, 0)),
            bool(told.get("idle")),
        )
        for topic, numbers in sorted(json.loads(metrics["times"]).items())
        for number, told in sorted(numbers.items(), key=lambda item: int(item[0]))
    ]
    return TableTime(table_of(source), tuple(partitions))


def _size(number: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:,.1f} GB"


@dataclass
class Progress:
    """Adds up reports; each batch counts once."""

    operators: Sequence[str] = ()
    """The names of those with state, from the sinks down, which is how Spark reports them."""

    batches: int = 0
    rows_in: dict[str, int] = field(default_factory=dict)
    rows_out: int = 0
    writers: dict[str, int] = field(default_factory=dict)
    """How many write to each Kafka table: as `sink.parallelism` says, or as many as had rows at once."""
    rate_in: float = 0.0
    rate_out: float = 0.0
    lag: int | None = None
    batch_ms: int = 0
    state: list[OperatorState] = field(default_factory=list)
    """What is remembered, from the sources up."""
    times: list[TableTime] = field(default_factory=list)
    """Event time in the tables that somebody waits for."""
    _last: int = -1
    _run: object = None
    _before_run: dict[str, int] = field(default_factory=dict)
    """What earlier runs of the query have read; the kernel counts each run from nought."""

    def add(self, reports: Iterable[Mapping[str, Any]]) -> None:
        for report in reports:
            if int(report["batchId"]) > self._last:
                self._add(report)

    def _add(self, report: Mapping[str, Any]) -> None:
        duration = int(report.get("durationMs", {}).get("triggerExecution", 0))
        if "addBatch" not in report.get("durationMs", {}):
            return  # a report of waiting, not of a batch
        self._last = int(report["batchId"])
        self.batches += 1
        self.batch_ms = duration
        if report.get("runId") != self._run:
            self._run, self._before_run = report.get("runId"), dict(self.rows_in)
        lag = None
        before = self.total_in
        totals: dict[str, int] = {}
        bounded = _bounded_rows(report)
        for name, number in bounded.items():
            self.rows_in[name] = self.rows_in.get(name, 0) + number
        for source in report.get("sources", []):
            name, metrics = table_of(source), source.get("metrics") or {}
            if name in bounded:
                continue
            # Spark counts the kernel's blocks; the kernel counts its records, from the start of the query.
            total = metrics.get("records")
            if total is None:
                number = int(source.get("numInputRows") or 0)
                self.rows_in[name] = self.rows_in.get(name, 0) + number
            else:
                totals.setdefault(name, self._before_run.get(name, 0))
                totals[name] += int(total)
            found = metrics.get("lag")
            if found is not None:
                lag = (lag or 0) + int(found)
        self.rows_in.update(totals)
        self.times = [t for s in report.get("sources", []) if (t := times_of(s)) is not None]
        rows = self.total_in - before
        sink = report.get("sink", {})
        written = max(0, int(sink.get("numOutputRows") or 0))
        tables = json.loads((sink.get("metrics") or {}).get("tables", "{}"))
        self.writers = {name: t["writers"] for name, t in tables.items() if t.get("writers")}
        self.rows_out += written
        seconds = max(duration, 1) / 1000
        self.rate_in, self.rate_out, self.lag = rows / seconds, written / seconds, lag
        operators = report.get("stateOperators", [])
        if len(operators) == len(self.operators):
            found = zip(self.operators, operators, strict=True)
            self.state = [OperatorState.of(name, report) for name, report in found][::-1]

    @property
    def total_in(self) -> int:
        return sum(self.rows_in.values())

    def line(self, with_times: bool = True) -> str:
        """One line for a terminal or a log."""
        parts = [f"{name} {count:,} in" for name, count in sorted(self.rows_in.items())]
        parts.append(f"{self.rows_out:,} out{self._by_writers()}")
        parts.append(f"{self.rate_in:,.0f} rows/s in, {self.rate_out:,.0f} out")
        if self.lag is not None:
            parts.append(f"lag {self.lag:,}")
        parts.append(f"batch {self.batch_ms:,} ms")
        if with_times:
            parts += map(str, self.times)
        if self.state:
            parts.append(f"state {'; '.join(map(str, self.state))}")
        return " | ".join(parts)

    def _by_writers(self) -> str:
        if not self.writers:
            return ""
        (table, number), *others = sorted(self.writers.items())
        text = f" by {number} writer{'s' * (number != 1)}"
        if others:
            text += "".join([f" of {table}", *(f", {n} of {other}" for other, n in others)])
        return text


def _bounded_rows(report: Mapping[str, Any]) -> dict[str, int]:
    """Rows of the tables that end, by name; each scan of one counts."""
    found: dict[str, int] = {}
    for name, values in (report.get("observedMetrics") or {}).items():
        if name.startswith(ROWS_OF):
            table = name.removeprefix(ROWS_OF).rpartition("/")[0]
            found[table] = found.get(table, 0) + int(values["rows"])
    return found


def table_of(source: Mapping[str, Any]) -> str:
    """The kernel's sources describe themselves as `tidemill-kafka[table]`."""
    text = str(source.get("description", ""))
    inner = text.partition("[")[2].rstrip("]") or text
    return inner.partition(":")[0]


def as_reports(raw: Iterable[Any]) -> list[Mapping[str, Any]]:
    """PySpark gives progress objects; their JSON is the stable form."""
    return [r if isinstance(r, Mapping) else json.loads(r.json) for r in raw]


LATE = "late row"
"""What the kernel calls a row that came after its time."""
_MUCH_LATE = 0.001


def late_warnings(met: Mapping[str, int], rows: int, told: set[str]) -> list[str]:
    """For each operator to which more than a thousandth of all rows came late: a warning, once. `told` is kept."""
    warnings = []
    for what, number in met.items():
        name, _, fact = what.rpartition(": ")
        # Operators tell of rows before the batch that has read them is reported.
        if fact == LATE and name not in told and rows and number > _MUCH_LATE * rows:
            told.add(name)
            warnings.append(
                f"warning: {name}: {number:,} of {rows:,} rows came late{_most_from(name, met)}; a greater delay in"
                " WATERMARK FOR waits longer for them"
            )
    return warnings


def _most_from(name: str, met: Mapping[str, int]) -> str:
    """The partition that most late rows of an operator come from."""
    start = f"{name}: {LATE} "
    origins = {what.removeprefix(start): n for what, n in met.items() if what.startswith(start)}
    return f", most of them {max(origins, key=origins.__getitem__)}" if origins else ""

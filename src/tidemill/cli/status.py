"""`tidemill status`: how far a job has come, out of the progress that it leaves in its checkpoint. Needs no Spark."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from tidemill.errors import usage_error
from tidemill.spark.progress import PartitionTime, Progress, TableTime, shown_time

_NAME = "progress.json"


@click.command()
@click.argument("checkpoint")
@click.option("--json", "as_json", is_flag=True, help="The job's own file, one line for each job.")
def status(checkpoint: str, as_json: bool) -> None:
    """Show how far the jobs of CHECKPOINT have come, and which partition holds each watermark back.

    CHECKPOINT is a job's directory, or one that holds jobs' directories. What is shown is what a job wrote after its
    last batch; it may run meanwhile, or have ended.
    """
    for path in _files(checkpoint):
        text = path.read_text(encoding="utf-8")
        try:
            told = json.loads(text)
        except ValueError:
            raise usage_error("CLI-024", f"'{path}' is broken") from None
        if as_json:
            click.echo(text.strip())
        else:
            click.echo("\n".join(_lines(told)))


def _files(checkpoint: str) -> list[Path]:
    place = Path(checkpoint.removeprefix("file://"))
    if "://" in str(place):
        raise usage_error(
            "CLI-025",
            f"'{checkpoint}' is not on this machine",
            f"copy its file {_NAME} into a directory here, and name that",
        )
    # A job's directory is below that of its script.
    below = [*place.glob(f"*/{_NAME}"), *place.glob(f"*/*/{_NAME}")]
    found = [f for f in (place / _NAME, *sorted(below)) if f.is_file()]
    if not found:
        hint = "a job writes it when its first batch is done"
        raise usage_error("CLI-023", f"there is no {_NAME} in '{checkpoint}'", hint)
    return found


def _lines(told: dict[str, Any]) -> list[str]:
    report = told["report"]
    progress = Progress(told["operators"])
    progress.add([report])
    age = datetime.now(UTC) - datetime.fromisoformat(report["timestamp"].replace("Z", "+00:00"))
    seconds = max(0, int(age.total_seconds()))
    lines = [f"{told['job']}: batch {report['batchId']}, begun {_ago(seconds)}"]
    lines.append(f"  {progress.line(with_times=False)}")
    lines += [f"  met: {what}: {number:,}" for what, number in told.get("met", {}).items()]
    for table in progress.times:
        lines += [f"  {line}" for line in _table(table)]
    return lines


def _ago(seconds: int) -> str:
    for unit, length in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit} ago"
    return f"{seconds} s ago"


def _table(table: TableTime) -> list[str]:
    slowest = table.slowest
    held = "" if slowest is None else f", held back by {slowest.name}"
    lines = [f"table {table.table}: watermark {shown_time(table.watermark)}{held}"]
    rows: list[tuple[str, ...]] = [("topic", "partition", "event time", "watermark", "lag", "")]
    rows += [_row(p, p is slowest) for p in table.partitions]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        lines.append(("  " + "  ".join(cells)).rstrip())
    return lines


def _row(p: PartitionTime, slowest: bool) -> tuple[str, ...]:
    times = (shown_time(p.time), shown_time(p.watermark))
    word = "idle" if p.idle else "holds back" if slowest else ""
    return (p.topic, str(p.partition), *times, f"{p.lag:,}", word)

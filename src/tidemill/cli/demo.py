"""`tidemill demo`: the whole walk of a row, live. An embedded broker, a generator of page views, the pv/uv script of
the upsert-kafka manual, and a table of its result, which is read from the target topic and not from the job."""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import click
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from tidemill import broker
from tidemill.broker import topics
from tidemill.broker.records import Record
from tidemill.cli.interrupts import interrupts
from tidemill.errors import JobError
from tidemill.session import Session
from tidemill.spark.runner import RunningJob
from tidemill.tables import with_bootstrap

_SOURCE, _TARGET = "page_views", "pageviews_per_region"
_REGIONS = ("Berlin", "Hangzhou", "Lagos", "Lima", "Oslo", "Shenzhen")
_VIEWS_PER_SECOND = 500
_USERS = 2_000
_REFRESH_SECONDS = 0.5
_PATIENCE_SECONDS = 60


@click.command()
@click.option(
    "--seconds", type=click.IntRange(1), default=30, show_default=True, help="How long to run."
)
def demo(seconds: int) -> None:
    """Watch a Flink-SQL script count page views and visitors per region, on Spark and a real Kafka."""
    console = Console(stderr=True, highlight=False)

    def say(text: str) -> None:
        console.print(text, soft_wrap=True)

    script = Path(__file__).with_name("demo.sql")
    running = broker.find_running()
    own = None
    if running is None:
        say("[dim]starting the embedded Kafka …[/dim]")
        running = own = broker.start(note=lambda text: say(f"[dim]{text}[/dim]"))
    try:
        _run(running, script, seconds)
    finally:
        if own is not None:
            own.stop()
    # Whoever came here by `make demo` has the command in .venv only.
    command = "tidemill" if shutil.which("tidemill") else os.path.relpath(sys.argv[0])
    hints = [
        (f"{command} topic read {_TARGET} --from-beginning", "the result: one record per change"),
        (f"{command} topic read {_SOURCE} --from-beginning | head", "what went in"),
        (f"{command} run --local my.sql", "a script of yours, on this Kafka"),
        (f"{command} check my.sql", "is it right? answers at once"),
    ]
    if own is not None:
        hints.insert(
            0, (f"{command} broker start --detach", "the Kafka of this demo, with its topics")
        )
    width = max(len(text) for text, _ in hints)
    shown = "\n".join(f"  {text:{width}}   # {about}" for text, about in hints)
    script_text = escape(script.read_text(encoding="utf-8").rstrip())
    say(f"\nThe script was:\n[dim]{script_text}[/dim]\n\nWhat to try next:\n{shown}")


def _run(running: broker.Broker, script: Path, seconds: int) -> None:
    console = Console()
    admin, client = running.admin, running.client
    for topic in (_SOURCE, _TARGET):
        topics.ensure(admin["bootstrap.servers"], topic, 2, client=admin)
    Console(stderr=True).print("[dim]starting Spark …[/dim]")
    stop = threading.Event()
    board: dict[str, tuple[int, int]] = {}
    with Session(variables={"BOOTSTRAP": running.bootstrap}) as session:
        address = client["bootstrap.servers"]
        session.adapt_tables(lambda connector: with_bootstrap(connector, address, client))
        job = session.run_script(script)[0]
        assert isinstance(job, RunningJob)
        session.wait_ready([job])
        threads = [
            threading.Thread(target=_generate, args=(admin, stop), daemon=True),
            threading.Thread(target=_follow, args=(admin, stop, board), daemon=True),
        ]
        for thread in threads:
            thread.start()
        try:
            with interrupts() as stopped:
                _show(console, board, lambda: job.is_active and not stopped(), seconds)
        finally:
            stop.set()
            for thread in threads:
                thread.join(timeout=10)
        failure: JobError | None = job.failure()
        if failure is not None:
            raise failure


def _show(
    console: Console,
    board: dict[str, tuple[int, int]],
    goes_on: Callable[[], bool],
    seconds: int,
) -> None:
    # The first batch compiles and starts Python workers; the time counts from the first result.
    patience = time.monotonic() + _PATIENCE_SECONDS
    while not board and goes_on() and time.monotonic() < patience:
        time.sleep(0.1)
    end = time.monotonic() + seconds
    if not console.is_terminal:
        while time.monotonic() < end and goes_on():
            time.sleep(_REFRESH_SECONDS)
        console.print(_board(board, 0))
        return
    with Live(console=console, refresh_per_second=4, transient=False) as live:
        while time.monotonic() < end and goes_on():
            live.update(_board(board, end - time.monotonic()))
            time.sleep(_REFRESH_SECONDS)
        live.update(_board(board, 0))


def _board(board: dict[str, tuple[int, int]], left: float) -> Table:
    caption = f"{left:.0f} s left" if left > 0 else None
    table = Table("user_region", title=f"topic {_TARGET}", caption=caption, title_justify="left")
    table.add_column("pv", justify="right", min_width=8)
    table.add_column("uv", justify="right", min_width=8)
    for region, (views, visitors) in sorted(board.items()):
        table.add_row(region, f"{views:,}", f"{visitors:,}")
    return table


def _generate(admin: dict[str, str], stop: threading.Event) -> None:
    topics.write(admin["bootstrap.servers"], _SOURCE, _views(stop), admin)


def _views(stop: threading.Event) -> Iterator[Record]:
    """Views at a steady rate; a few users and regions are more popular than the rest."""
    dice = random.Random()
    begin = time.monotonic()
    made = 0
    while not stop.is_set():
        due = int((time.monotonic() - begin) * _VIEWS_PER_SECOND)
        while made < due:
            user = min(dice.randrange(_USERS), dice.randrange(_USERS))
            view = {
                "user_id": user,
                "page_id": dice.randrange(100),
                "view_time": datetime.now().isoformat(sep=" ", timespec="milliseconds"),
                "user_region": _REGIONS[user % len(_REGIONS)],
            }
            yield Record(json.dumps(view).encode())
            made += 1
        stop.wait(0.02)


def _follow(
    admin: dict[str, str], stop: threading.Event, board: dict[str, tuple[int, int]]
) -> None:
    for record in topics.read(
        admin["bootstrap.servers"],
        _TARGET,
        from_beginning=False,
        follow=True,
        until=stop.is_set,
        client=admin,
    ):
        if record.key is None:
            continue
        region = json.loads(record.key)["user_region"]
        if record.value is None:
            board.pop(region, None)
        else:
            row = json.loads(record.value)
            board[region] = (row["pv"], row["uv"])

"""One pool of replays for the process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from case import read_sheet, read_sheet_answer
from replay import Replays, run

from tidemill.broker import Broker, topics
from tidemill.broker.records import Record


@pytest.fixture(scope="session")
def replays(
    request: pytest.FixtureRequest,
    broker: Broker,
    spark: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Replays]:
    chosen = [
        item.callspec.params
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.get_closest_marker("replay")
        and not item.get_closest_marker("skip")
    ]
    place = tmp_path_factory.mktemp("parity")
    groups: dict[Path, dict[Any, Callable[[], Any]]] = {}
    for number, params in enumerate(chosen):
        name: Any
        work: Callable[[], Any]
        if "way" in params:
            case, way = params["case"], params["way"]
            name, path = (case.path, way), case.path
            label = f"{number}-{path.stem[:60]}"
            work = partial(run, case, way, broker.bootstrap, spark, place / str(number), label)
        else:
            name = path = params["path"]
            work = partial(differences_of, path, broker.bootstrap, spark)
        groups.setdefault(path.parent, {})[name] = work
    with pytest.MonkeyPatch.context() as patch:
        # Flink's recordings were made in UTC.
        patch.setenv("TZ", "UTC")
        running = Replays(groups.values())
        yield running
        running.close()


def differences_of(path: Path, bootstrap: str, spark: Any) -> dict[str, str]:
    from replay_sheets import differences

    sheet, answer = read_sheet(path), read_sheet_answer(path.with_suffix(".answer"))
    topic = f"parity-sheet-{path.stem}"
    if sheet.aggregates:
        topics.create(bootstrap, topic, 1)
        topics.write(bootstrap, topic, [Record(row.encode()) for row in sheet.rows])
    return differences(spark, sheet, answer, bootstrap=bootstrap, topic=topic)

"""One pool of replays for the run."""

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
    work: dict[Any, Callable[[], Any]] = {}
    for number, params in enumerate(chosen):
        if "way" in params:
            case, way = params["case"], params["way"]
            label = f"{number}-{case.path.stem[:60]}"
            at = place / str(number)
            work[case.path, way] = partial(run, case, way, broker.bootstrap, spark, at, label)
        else:
            work[params["path"]] = partial(differences_of, params["path"], broker.bootstrap, spark)
    with pytest.MonkeyPatch.context() as patch:
        # Flink's recordings were made in UTC.
        patch.setenv("TZ", "UTC")
        running = Replays(work)
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

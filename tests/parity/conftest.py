"""One pool of replays for the run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from replay import Replays

from tidemill.broker import Broker


@pytest.fixture(scope="session")
def replays(
    request: pytest.FixtureRequest,
    broker: Broker,
    spark: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Replays]:
    with pytest.MonkeyPatch.context() as patch:
        # Flink's recordings were made in UTC.
        patch.setenv("TZ", "UTC")
        wanted = [
            (item.callspec.params["case"], item.callspec.params["way"])
            for item in request.session.items
            if "way" in getattr(getattr(item, "callspec", None), "params", ())
        ]
        running = Replays(wanted, broker.bootstrap, spark, tmp_path_factory.mktemp("parity"))
        yield running
        running.close()

"""What Flink recorded, on Tidemill: every case straight, a sixth of them (another each day) in the other ways too;
PARITY=full takes all. A case that is marked `not yet` must fail: once it is equal, its mark has to go. A case that
needs an operator which is not there is skipped, and runs as soon as there is one."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import replay
from case import Case, case_paths, read_answer, read_case, read_sheet, sheet_paths

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

CASES = [read_case(path) for path in case_paths()]
TODAY = int(os.environ["TODAY"])


def chosen() -> Iterator[Any]:
    for case in CASES:
        in_turn = zlib.crc32(case.name.encode()) % 6 == TODAY % 6
        lacking = replay.missing(case)
        marks = [pytest.mark.skip(reason=lacking)] if lacking else []
        for way in replay.Way:
            if way is replay.Way.RESTARTED and not case.can_restart:
                continue
            if way is replay.Way.STRAIGHT or in_turn or os.environ.get("PARITY") == "full":
                yield pytest.param(case, way, id=f"{case.name}, {way.value}", marks=marks)


@pytest.mark.replay
@pytest.mark.parametrize(("case", "way"), list(chosen()))
def test_case(case: Case, way: replay.Way, replays: replay.Replays) -> None:
    ours, answer = replays.of((case.path, way)), read_answer(case.answer_path)
    if case.mark is None or case.mark.kind == "differs":
        replay.compare(case, answer, ours)
        return
    with pytest.raises(replay.Difference):
        replay.compare(case, answer, ours)
        pytest.fail(f"{case.name} is equal now: take its mark '{case.mark.kind}' away")


@pytest.mark.replay
@pytest.mark.parametrize("path", sheet_paths(), ids=lambda p: p.stem)
def test_sheet(path: Path, replays: replay.Replays) -> None:
    sheet, found = read_sheet(path), replays.of(path)
    unmarked = {text: what for text, what in found.items() if text not in sheet.marks}
    equal = sorted(sheet.marks.keys() - found.keys())
    assert not unmarked, "\n".join(f"{text}: {what}" for text, what in unmarked.items())
    assert not equal, f"equal now, so the marks have to go: {equal}"

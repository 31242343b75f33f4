"""The laws of bench/nexmark: its events have the shape that they should have, and no tie is left open."""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT))

from bench.nexmark.generator import events  # noqa: E402

ROWS = 50_000


@pytest.fixture(scope="module")
def documents() -> list[tuple[int, Any]]:
    return [(turn, json.loads(document)) for turn, document in events(ROWS)]


def bids(documents: list[tuple[int, Any]]) -> list[tuple[int, Any]]:
    return [(turn, event["bid"]) for turn, event in documents if event["event_type"] == 2]


def test_events_are_the_same_each_time() -> None:
    assert list(events(500)) == list(events(500))
    assert list(events(500)) == list(events(600))[:500]
    assert list(events(500)) != list(events(500, seed=1))


def test_kinds_come_in_their_proportions(documents: list[tuple[int, Any]]) -> None:
    assert Counter(event["event_type"] for _, event in documents) == {0: 1000, 1: 3000, 2: 46_000}
    names = ("person", "auction", "bid")
    for _, event in documents[:200]:
        assert [event[name] is not None for name in names] == [
            i == event["event_type"] for i in range(3)
        ]


def test_documents_are_335_bytes_on_average() -> None:
    assert sum(len(document) for _, document in events(ROWS)) / ROWS == pytest.approx(335, rel=0.02)


def test_half_of_the_bids_are_on_the_hot_auction(documents: list[tuple[int, Any]]) -> None:
    made = 0
    hot = Counter[bool]()
    bidders = Counter[bool]()
    for number, (_, event) in enumerate(documents):
        if event["event_type"] == 1:
            made += 1
            assert event["auction"]["id"] == 999 + made
        elif event["event_type"] == 2:
            auction, bidder = event["bid"]["auction"] - 1000, event["bid"]["bidder"] - 1000
            persons = number // 50 + 1
            assert made - 100 <= auction < made + 10
            assert persons - 1000 <= bidder < persons + 10
            hot[auction == (made - 1) // 100 * 100] += 1
            bidders[bidder == (persons - 1) // 100 * 100 + 1] += 1
    assert hot[True] / hot.total() == pytest.approx(0.5, abs=0.02)
    assert bidders[True] / bidders.total() == pytest.approx(0.75, abs=0.02)


def test_prices_are_even_over_their_logarithm(documents: list[tuple[int, Any]]) -> None:
    digits = Counter(len(str(bid["price"])) for _, bid in bids(documents))
    for size in range(3, 9):
        assert digits[size] / digits.total() == pytest.approx(1 / 6, abs=0.02)


def test_channels_tell_their_numbers(documents: list[tuple[int, Any]]) -> None:
    named = [bid for _, bid in bids(documents) if not bid["channel"].startswith("channel-")]
    others = [bid for _, bid in bids(documents) if bid["channel"].startswith("channel-")]
    assert len(named) / len(others) == pytest.approx(1, abs=0.05)
    assert {bid["channel"] for bid in named} == {"Google", "Facebook", "Baidu", "Apple"}
    told = sum("&channel_id=" in bid["url"] for bid in others)
    assert told / len(others) == pytest.approx(0.9, abs=0.02)
    assert not any("channel_id" in bid["url"] for bid in named)


def test_no_tie_is_left_open(documents: list[tuple[int, Any]]) -> None:
    prices = Counter((bid["auction"], bid["price"]) for _, bid in bids(documents))
    assert prices.most_common(1)[0][1] == 1
    turns = defaultdict[str, set[int]](set)
    for turn, bid in bids(documents):
        turns[bid["dateTime"]].add(turn % 2)
    assert all(len(partitions) == 1 for partitions in turns.values())
    assert {turn % 2 for turn, _ in documents} == {0, 1}


def test_time_passes_by_the_density(documents: list[tuple[int, Any]]) -> None:
    assert documents[-1][1]["bid"]["dateTime"] == "2024-01-01 00:00:00.499"
    slow = [json.loads(document) for _, document in events(5, 0.5)]
    assert slow[4]["bid"]["dateTime"] == "2024-01-01 00:00:08.000"

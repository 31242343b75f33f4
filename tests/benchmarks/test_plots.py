"""Pictures are well-formed, stay inside their frame, and are readable on any page."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import plots
from bench.plots import Bar, Panel

SVG = "{http://www.w3.org/2000/svg}"


def parsed(text: str) -> ET.Element:
    root = ET.fromstring(text)
    assert root.tag == f"{SVG}svg"
    assert "prefers-color-scheme: dark" in text
    assert text == text.strip() + "\n"
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    for element in root.iter():
        for name, most in (("x", width), ("x1", width), ("x2", width), ("cx", width)):
            assert -0.1 <= float(element.get(name, 0)) <= most
        if element.get("text-anchor") == "end":
            assert float(element.get("x", 0)) >= 7 * len(element.text or "")
        for name in ("y", "y1", "y2", "cy"):
            assert -0.1 <= float(element.get(name, 0)) <= height
        for pair in (element.get("points") or "").split():
            x, y = map(float, pair.split(","))
            assert -0.1 <= x <= width and -0.1 <= y <= height
    return root


def words(root: ET.Element) -> list[str]:
    return [text.text or "" for text in root.iter(f"{SVG}text")]


def test_a_bar_tells_its_ratio_and_whether_it_is_enough() -> None:
    root = parsed(
        plots.bars(
            "Ratios <&>",
            [
                Bar("a<b", 2.0, 1.9, 2.2, 1.5),
                Bar("low", 1.0, wanted=1.5),
                Bar("a_name_of_many_letters_in_all", 3.0),
            ],
        )
    )
    kinds = [r.get("class") for r in root.iter(f"{SVG}rect")][2:]
    assert kinds == ["good", "low", "good"]
    assert {"Ratios <&>", "a<b", "2.00", "1.00", "3.00"} <= set(words(root))
    assert len([line for line in root.iter(f"{SVG}line") if line.get("class") == "wanted"]) == 3


def test_a_ratio_beyond_the_scale_is_cut_and_told() -> None:
    root = parsed(plots.bars("Ratios", [Bar("huge", 50.0, 40.0, 60.0, 1.5), Bar("none", 0.0)]))
    assert "50.00" in words(root)


def test_labels_that_would_run_into_each_other_are_left_out() -> None:
    root = parsed(
        plots.panels("Growth", [Panel("batch", "rows", "MB", [(1e4, 1), (1e6, 2), (2e6, 2)])])
    )
    assert {"10k", "2M"} <= set(words(root))
    assert "1M" not in words(root)


@given(st.lists(st.floats(0, 30), max_size=40))
def test_bars_of_any_values_fit(values: list[float]) -> None:
    parsed(
        plots.bars("Ratios", [Bar(f"b{i}", v, v * 0.9, v * 1.1, 1.0) for i, v in enumerate(values)])
    )


def test_what_was_not_measured_says_so() -> None:
    for text in (plots.bars("t", []), plots.lines("t", "x", "y", {"": []}), plots.panels("t", [])):
        assert "not measured yet" in words(parsed(text))


points = st.lists(st.tuples(st.floats(0, 1e5), st.floats(1, 1e7)), min_size=1, max_size=30)


@given(points, st.booleans(), st.booleans())
def test_lines_of_any_values_fit(
    found: list[tuple[float, float]], log: bool, stepped: bool
) -> None:
    parsed(plots.lines("Batches", "s", "rows", {"": sorted(found)}, log, stepped))


@given(st.lists(points, min_size=1, max_size=7))
def test_panels_of_any_values_fit(found: list[list[tuple[float, float]]]) -> None:
    parsed(plots.panels("Growth", [Panel("a", "x", "y", sorted(each)) for each in found]))


@pytest.mark.parametrize("log", [True, False])
@given(low=st.floats(0.001, 1e6), more=st.floats(1.01, 1e5))
def test_ticks_go_round_the_values(log: bool, low: float, more: float) -> None:
    ticks = plots._ticks(low, low * more, log)
    assert ticks[0] <= low * 1.001 and ticks[-1] >= low * more * 0.999
    assert all(a < b for a, b in pairwise(ticks))
    assert len(ticks) <= 16


def test_the_same_numbers_give_the_same_text() -> None:
    bars = [Bar("a", 2.0, 1.9, 2.2, 1.5)]
    assert plots.bars("t", bars) == plots.bars("t", bars)

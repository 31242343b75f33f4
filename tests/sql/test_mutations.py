"""Mutated scripts become plans or diagnostics. FUZZ=10000, or `make fuzz`, tries that many."""

from __future__ import annotations

import os
import random

import pytest
from mutations import GENTLE, ROUGH, SECONDS, Bend, mutated, outcome, seeds

from tidemill.errors import Source
from tidemill.sql.lexer import tokenize

COUNT = int(os.environ.get("FUZZ", "400"))


def test_mutated_scripts_become_plans_or_diagnostics() -> None:
    parsed = planned = 0
    for number in range(COUNT):
        mutation = mutated(number)
        try:
            result = outcome(mutation)
        except Exception as error:
            raise AssertionError(
                f"mutation {number} of {mutation.dialect.name}:\n{mutation.text}"
            ) from error
        assert result.seconds < SECONDS, f"mutation {number} took {result.seconds:.1f} s"
        parsed += result.parsed
        planned += result.planned
    print(f"{COUNT} mutated scripts: {parsed} parse, {planned} have a plan")
    assert parsed >= COUNT / 3
    assert planned >= COUNT / 50
    assert parsed < COUNT * 0.9, "too gentle to find anything"


@pytest.mark.parametrize("bend", dict.fromkeys((*GENTLE, *ROUGH)), ids=lambda bend: bend.__name__)
def test_every_bend_bends(bend: Bend) -> None:
    chance = random.Random(1)
    text = next(t for t, _ in seeds() if "WITH (" in t and "DECIMAL(" in t)
    tokens = tokenize(Source("s", text))[0][:-1]
    assert any(bend(text, tokens, chance) != text for _ in range(5))


def test_a_number_stands_for_one_text() -> None:
    assert [mutated(n) for n in range(20)] == [mutated(n) for n in range(20)]
    assert len({mutated(n).text for n in range(100)}) > 80

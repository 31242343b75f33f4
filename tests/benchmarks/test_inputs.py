"""What the inputs promise, so that no tie decides a result."""

from __future__ import annotations

import json
import random
from fractions import Fraction

from bench import inputs


def documents(rows: int) -> list[dict[str, object]]:
    dice = random.Random(1)
    return [json.loads(inputs.order(dice.randrange(50), i)[2] or b"") for i in range(rows)]


def test_an_amount_is_there_once() -> None:
    amounts = [row["amount"] for row in documents(50_000)]
    assert len(set(amounts)) == len(amounts)


def test_a_sum_of_amounts_does_not_depend_on_its_order() -> None:
    amounts = [float(str(row["amount"])) for row in documents(20_000)]
    dealt = random.Random(2).sample(amounts, len(amounts))
    assert sum(amounts) == sum(dealt) == float(sum(map(Fraction, amounts)))


def test_all_rows_of_a_key_are_in_one_partition() -> None:
    for user in (0, 7, 199_999):
        assert {inputs.order(user, i)[0] % inputs.PARTITIONS for i in range(20)} == {user % 2}


def test_numbers_are_spread_before_any_comes_again() -> None:
    for numbers in (inputs.AMOUNTS >> 8, 5000, 1):
        assert sorted(inputs._spread(i, numbers) for i in range(numbers)) == list(range(numbers))


def test_few_rows_have_few_keys() -> None:
    assert inputs._keys(200_000, 2_000_000) == 200_000
    assert inputs._keys(200_000, 100_000) == 5_000
    assert inputs._keys(100, 100_000) == 100
    assert inputs._keys(200_000, 3) == 1


def test_documents_have_the_size_that_is_told() -> None:
    sizes = [len(inputs.order(i, i)[2] or b"") for i in range(0, 200_000, 997)]
    assert 110 <= sum(sizes) / len(sizes) <= 135

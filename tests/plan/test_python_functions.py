"""How a user's function is found and typed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill import udf
from tidemill.functions import (
    FunctionProblem,
    describe_function,
    load_function,
    type_of,
    type_of_hint,
)

HINTS: list[tuple[Any, str]] = [
    (int, "BIGINT"),
    (float, "DOUBLE"),
    (str, "STRING"),
    (bool, "BOOLEAN"),
    (bytes, "BYTES"),
    (Decimal, "DECIMAL(38, 18)"),
    (date, "DATE"),
    (time, "TIME(0)"),
    (datetime, "TIMESTAMP(6)"),
    (int | None, "BIGINT"),
    (Optional[str], "STRING"),  # noqa: UP045
    (list[int], "ARRAY<BIGINT>"),
    (dict[str, list[float]], "MAP<STRING, ARRAY<DOUBLE>>"),
]


@pytest.mark.parametrize(("hint", "name"), HINTS, ids=[name for _, name in HINTS])
def test_hints_have_sql_types(hint: Any, name: str) -> None:
    assert str(type_of_hint(hint)) == name
    # As text it is the same type.
    assert type_of(name) == type_of_hint(hint)


@pytest.mark.parametrize("hint", [complex, list, int | str, Callable])
def test_other_hints_are_refused(hint: Any) -> None:
    with pytest.raises(FunctionProblem, match="has no SQL type"):
        type_of_hint(hint)


def test_a_marked_function_can_still_be_called() -> None:
    @udf(result_type="INT", input_types=["INT"])
    def f(x):  # type: ignore[no-untyped-def]
        return x + 1

    assert f(1) == 2
    assert udf(lambda x: x * 2, result_type="INT")(4) == 8


def test_what_input_types_say_counts_and_must_fit() -> None:
    def f(a, b=1):  # type: ignore[no-untyped-def]
        return a + b

    found = describe_function("f", "m.f", udf(f, ["INT"], "INT"))
    assert found.signature == "f(INT)" and found.accepts(1) and not found.accepts(2)
    with pytest.raises(FunctionProblem, match="takes 2 arguments, but its input_types are 3"):
        describe_function("f", "m.f", udf(f, ["INT", "INT", "INT"], "INT"))


def test_pandas_is_not_a_kind_of_function() -> None:
    with pytest.raises(ValueError, match="'general' or 'arrow'"):
        udf(lambda x: x, result_type="INT", func_type="pandas")


def test_not_null_of_a_result_is_kept() -> None:
    found = describe_function("f", "m.f", udf(lambda: 1, result_type="ARRAY<INT NOT NULL>"))
    assert str(found.result) == "ARRAY<INT NOT NULL>"


def test_the_path_is_left_as_it_was_and_own_modules_are_known(tmp_path: Path) -> None:
    (tmp_path / "helper_of_mine.py").write_text("X = 1\n")
    (tmp_path / "mine.py").write_text(
        "import json\nimport helper_of_mine\ndef f(x: int) -> int:\n    return x\n"
    )
    before = list(sys.path)
    found = load_function("f", "mine.f", [tmp_path])
    assert sys.path == before
    assert {"mine", "helper_of_mine"} <= set(found.modules)
    assert not {"json", "tidemill", "pytest"} & set(found.modules)


def test_a_module_of_another_directory_does_not_stand_in(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "same.py").write_text(f"def f() -> str:\n    return '{name}'\n")
    first = load_function("f", "same.f", [tmp_path / "one"])
    second = load_function("f", "same.f", [tmp_path / "two"])
    assert (first.call(), second.call()) == ("one", "two")


def test_a_package_and_an_archive(tmp_path: Path) -> None:
    import zipfile

    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").write_text("")
    (tmp_path / "shop" / "tax.py").write_text("def f(x: int) -> int:\n    return x + 1\n")
    assert load_function("f", "shop.tax.f", [tmp_path]).call(1) == 2
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("packed.py", "def f(x: int) -> int:\n    return x + 2\n")
    assert load_function("f", "packed.f", [tmp_path / "a.zip"]).call(1) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f(x: int) -> int\n", "SyntaxError: expected ':' (line 1 of bad.py)"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3 (line 2 of bad.py)"),
        ("def f(x: 'Missing') -> int:\n    return x\n", "its type hints cannot be read"),
        ("class f:\n    def __init__(self):\n        1 / 0\n", "cannot be made: ZeroDivisionError"),
        ("f = print\n", "is not known"),
    ],
)
def test_what_is_wrong_with_a_module_is_a_sentence(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "bad.py").write_text(text)
    with pytest.raises(FunctionProblem) as problem:
        load_function("f", "bad.f", [tmp_path])
    assert message in problem.value.message


@given(st.text(max_size=20))
def test_any_text_is_a_function_or_a_problem(text: str) -> None:
    with pytest.raises(FunctionProblem):
        load_function("f", f"surely_not_there.{text}", [])

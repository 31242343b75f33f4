"""`format_script`: layouts kept in data/format, and its laws: same tree, same comments, same text when done twice."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path

import generated
import pytest
from corpus import scripts
from hypothesis import given
from hypothesis import strategies as st

from harness.datadriven import Case, check
from tidemill.errors import ScriptError, Source
from tidemill.sql import ast, parse_script, printer
from tidemill.sql.dialects import DIALECTS, FLINK, Dialect
from tidemill.sql.formatting import format_script
from tidemill.sql.lexer import tokenize

DATA = sorted((Path(__file__).parent / "data" / "format").glob("*.txt"))
SCRIPTS = scripts()
COMMENTS = (
    "-- c{}\n",
    "/* c{} */",
    "\n-- c{}\n",
    "\n/* c{} */\n",
    "// c{}\n",
    "\n\n-- c{}\n\n",
    "/* two\n   lines {} */",
)


def formatted(text: str, dialect: Dialect = FLINK) -> str:
    return format_script(Source("script", text), None, dialect)


def evaluate(case: Case) -> str:
    try:
        return formatted(case.input, DIALECTS[case.arguments.get("dialect", "flink")])
    except ScriptError as error:
        return str(error)


@pytest.mark.parametrize("path", DATA, ids=lambda path: path.stem)
def test_cases(path: Path) -> None:
    check(path, evaluate)


@pytest.mark.parametrize("path", DATA, ids=lambda path: path.stem)
def test_formatting_twice_is_formatting_once(path: Path) -> None:
    def again(case: Case) -> str:
        dialect = DIALECTS[case.arguments.get("dialect", "flink")]
        return case.expected if "error SQL" in case.expected else formatted(case.expected, dialect)

    check(path, again)


def keeps_all_laws(text: str) -> None:
    once = formatted(text)
    assert parse_script(Source("formatted", once)) == parse_script(Source("script", text)), once
    assert comments(once) == comments(text), once
    assert formatted(once) == once
    assert all(line == line.rstrip() for line in once.split("\n") if "'" not in line), once


def comments(text: str) -> Counter[str]:
    return Counter(re.findall(r"c\d+", text))


@pytest.mark.parametrize("part", range(4))
def test_scripts_at_hand(part: int) -> None:
    for text in SCRIPTS[part::4]:
        keeps_all_laws(text)


@given(generated.statements())
@generated.FAST
def test_generated_statements_are_formatted_as_they_are_printed(statement: ast.Statement) -> None:
    text = printer.print_statement(statement)
    assert formatted(" ".join(text.split()) if "'" not in text else text) == text + ";\n"


@given(st.sampled_from(SCRIPTS), st.randoms(use_true_random=False))
@generated.FAST
def test_comments_anywhere_stay(text: str, chance: random.Random) -> None:
    keeps_all_laws(with_comments(text, chance))


def with_comments(text: str, chance: random.Random) -> str:
    """Comments between some of the tokens, and some of the spaces changed."""
    tokens, _ = tokenize(Source("script", text))
    parts: list[str] = []
    end = 0
    raw = False  # behind SET and RESET the text counts to the letter
    for number, token in enumerate(tokens):
        gap = text[end : token.start]
        # Two texts in a row are one text, if there is a line between them.
        in_a_row = number > 0 and token.kind == tokens[number - 1].kind == "text"
        apart = gap and not in_a_row and ("\n" in gap or not raw)
        if apart and chance.random() < 0.2:
            gap = f" {chance.choice(COMMENTS).format(number)} "
        parts += [gap, text[token.start : token.end]]
        raw = token.key in ("SET", "RESET") or (raw and token.key != ";")
        end = token.end
    return "".join(parts)


def test_line_ends_of_windows_stay() -> None:
    text = "-- c1\r\nselect 1,\r\n  'a\r\nb' -- c2\r\nfrom t;\r\n"
    assert formatted(text) == "-- c1\r\nSELECT 1, 'a\r\nb' -- c2\r\nFROM t;\r\n"


def test_a_variable_that_cannot_be_guessed_is_asked_for() -> None:
    text = "select ${WHAT} from t where a ${CONDITION}"
    with pytest.raises(ScriptError, match="give it with --var CONDITION=VALUE"):
        formatted(text)
    given = {"CONDITION": "> 1", "UNUSED": "x"}
    assert (
        format_script(Source("s", text), given) == "SELECT ${WHAT} FROM t WHERE a ${CONDITION};\n"
    )

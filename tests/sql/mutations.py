"""Scripts bent at random. In: the corpus and the examples. Out: texts that somebody might have typed, or nobody.

Law: a text becomes a plan or diagnostics, never another exception, and never takes more than SECONDS.
Every text has a number: `mutated(n)` is the same on every machine, so that a failure can be looked at alone:

    python tests/sql/mutations.py 1234
"""

from __future__ import annotations

import copy
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))

from corpus import scripts_by_dialect

from harness.datadriven import load
from tidemill.errors import ScriptError, Source
from tidemill.plan.environment import Environment, compile_script
from tidemill.sql import parse_script
from tidemill.sql.dialects import FLINK, Dialect
from tidemill.sql.lexer import RESERVED, Token, tokenize

SECONDS = 2.0
VARIABLES = {"BOOTSTRAP": "localhost:9092", "N": "5", "Q": "it's"}
TESTS = Path(__file__).parent.parent

# Tables of the names that the corpus uses, so that many a script gets as far as a plan.
_COLUMNS = """
  id BIGINT, a INT, b INT, c INT, x INT, y INT, v INT, d DECIMAL(10, 2), k STRING, l STRING, s STRING,
  ts TIMESTAMP(3), tags ARRAY<STRING>, m MAP<STRING, INT>, r ROW<a INT, b STRING>, p AS PROCTIME(),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
"""
_TABLES = "".join(
    f"CREATE TABLE {name} ({_COLUMNS}) WITH ('connector' = 'kafka', 'topic' = '{name}', 'format' = 'json', "
    "'properties.bootstrap.servers' = 'b:9092', 'scan.startup.mode' = 'earliest-offset');\n"
    for name in ("t", "u", "v", "a", "b", "c", "o", "w")
)


@cache
def _tables() -> Environment:
    environment = Environment()
    compile_script(parse_script(Source("tables.sql", _TABLES)), environment)
    return environment


# --- what is bent ------------------------------------------------------------------------------


@cache
def seeds() -> tuple[tuple[str, Dialect], ...]:
    plans = [
        (case.input, FLINK)
        for path in sorted((TESTS / "plan" / "data").glob("*.txt"))
        for case in load(path)
    ]
    examples = [
        (path.read_text(encoding="utf-8"), FLINK)
        for path in sorted((TESTS.parent / "examples").rglob("*.sql"))
    ]
    found = [*scripts_by_dialect(), *plans, *examples]
    return tuple((text, dialect) for text, dialect in found if text.strip() and len(text) < 4000)


@cache
def _vocabulary() -> dict[str, tuple[str, ...]]:
    """The tokens of all seeds as they are written, by their sort."""
    found: dict[str, dict[str, None]] = {}
    for text, dialect in seeds():
        for token in tokenize(Source("s", text), None, dialect)[0][:-1]:
            found.setdefault(_sort(token), {})[text[token.start : token.end]] = None
    return {sort: tuple(sorted(words)) for sort, words in sorted(found.items())}


def _sort(token: Token) -> str:
    """Tokens of one sort may often stand for each other."""
    if token.kind == "word":
        return "keyword" if token.key in RESERVED else "name"
    if token.key in ("=", "<>", "<", ">", "<=", ">=", "!="):
        return "comparison"
    if token.key in ("+", "-", "*", "/", "%", "||"):
        return "arithmetic"
    return token.kind


# --- how it is bent ----------------------------------------------------------------------------

Bend = Callable[[str, list[Token], random.Random], str]


def _pick(tokens: list[Token], chance: random.Random) -> Token:
    return chance.choice(tokens)


def _put(text: str, token: Token, new: str) -> str:
    return text[: token.start] + new + text[token.end :]


def same_sort(text: str, tokens: list[Token], chance: random.Random) -> str:
    exchangeable = [t for t in tokens if _sort(t) not in ("keyword", "sign")]
    if not exchangeable:
        return text
    token = _pick(exchangeable, chance)
    return _put(text, token, chance.choice(_vocabulary()[_sort(token)]))


def column_of_ours(text: str, tokens: list[Token], chance: random.Random) -> str:
    names = [t for t in tokens if _sort(t) == "name"]
    return _put(text, _pick(names, chance), chance.choice("abckxst")) if names else text


def other_case(text: str, tokens: list[Token], chance: random.Random) -> str:
    token = _pick(tokens, chance)
    return _put(text, token, text[token.start : token.end].swapcase())


def number(text: str, tokens: list[Token], chance: random.Random) -> str:
    numbers = [t for t in tokens if t.kind == "number"]
    new = chance.choice(
        ("0", "1", "2147483648", "9" * 40, "1e400", ".5", "1.", str(chance.randrange(10**6)))
    )
    return _put(text, _pick(numbers, chance), new) if numbers else text


def space(text: str, tokens: list[Token], chance: random.Random) -> str:
    at = _pick(tokens, chance).start
    return text[:at] + chance.choice(("\n", "\t", " /* why */ ", " -- why\n", "\u200b")) + text[at:]


def spliced(text: str, tokens: list[Token], chance: random.Random) -> str:
    other, _ = chance.choice(seeds())
    return f"{text}\n;\n{other}" if chance.random() < 0.5 else f"{other}\n;\n{text}"


def nested(text: str, tokens: list[Token], chance: random.Random) -> str:
    operands = [t for t in tokens if t.kind in ("number", "text")]
    if not operands:
        return text
    token = _pick(operands, chance)
    depth = chance.choice((1, 3, 10, 40, 120, 3000))
    opening, closing = chance.choice((("(", ")"), ("f(", ")"), ("ARRAY[", "]"), ("(SELECT ", ")")))
    return _put(text, token, opening * depth + text[token.start : token.end] + closing * depth)


def deleted(text: str, tokens: list[Token], chance: random.Random) -> str:
    return _put(text, _pick(tokens, chance), " ")


def doubled(text: str, tokens: list[Token], chance: random.Random) -> str:
    token = _pick(tokens, chance)
    shown = text[token.start : token.end]
    return _put(text, token, f"{shown} {shown}")


def swapped(text: str, tokens: list[Token], chance: random.Random) -> str:
    first, second = sorted(chance.sample(tokens, 2), key=lambda t: t.start)
    if first.end > second.start:
        return text
    left, right = text[first.start : first.end], text[second.start : second.end]
    return f"{text[: first.start]} {right} {text[first.end : second.start]} {left} {text[second.end :]}"


def replaced(text: str, tokens: list[Token], chance: random.Random) -> str:
    words = _vocabulary()[chance.choice(tuple(_vocabulary()))]
    return _put(text, _pick(tokens, chance), f" {chance.choice(words)} ")


def crossed(text: str, tokens: list[Token], chance: random.Random) -> str:
    """The head of one script and the tail of another."""
    other, _ = chance.choice(seeds())
    return text[: _pick(tokens, chance).end] + " " + other[chance.randrange(len(other)) :]


def truncated(text: str, tokens: list[Token], chance: random.Random) -> str:
    return text[: chance.randrange(len(text))]


_NOISE = "'`\"(),;.*[]{}<>=+-/\\|$:?!&^~@#%_ \n\r\t0aZ订，“\u200b\ufeff\x00\U0001f600\ud800"


def noise(text: str, tokens: list[Token], chance: random.Random) -> str:
    at = chance.randrange(len(text) + 1)
    return text[:at] + chance.choice(_NOISE) + text[at + chance.randrange(3) :]


def quoted(text: str, tokens: list[Token], chance: random.Random) -> str:
    token = _pick(tokens, chance)
    quote = chance.choice("'`\"")
    return _put(text, token, f"{quote}{text[token.start : token.end].strip(chr(39))}{quote}")


# Half of the bends keep the grammar in most places; the others break it. Deep nesting does either.
GENTLE: tuple[Bend, ...] = (
    same_sort,
    same_sort,
    column_of_ours,
    other_case,
    number,
    space,
    spliced,
)
ROUGH: tuple[Bend, ...] = (
    *(deleted, doubled, swapped, replaced, crossed, truncated, noise, quoted, nested),
)


@dataclass(frozen=True)
class Mutation:
    number: int
    text: str
    dialect: Dialect


def mutated(serial: int) -> Mutation:
    chance = random.Random(serial)
    text, dialect = chance.choice(seeds())
    bends = GENTLE if chance.random() < 0.6 else ROUGH
    for _ in range(chance.randint(1, 4)):
        tokens, _ = tokenize(Source("s", text), VARIABLES, dialect)
        if len(tokens) < 4:
            break
        text = chance.choice(bends)(text, tokens[:-1], chance)
    return Mutation(serial, text, dialect)


# --- the law -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    parsed: bool
    planned: bool
    seconds: float


def outcome(mutation: Mutation) -> Outcome:
    """What becomes of a text; raises when the law is broken."""
    start = time.process_time()
    parsed = planned = False
    with _no_hang():
        try:
            script = parse_script(Source("fuzz.sql", mutation.text), VARIABLES, mutation.dialect)
            parsed = True
            compile_script(script, copy.deepcopy(_tables()))
            planned = True
        except ScriptError as error:
            assert error.diagnostics
            for problem in error.diagnostics:
                assert parsed or problem.code.startswith("SQL-"), problem
                assert problem.span is not None, problem
                assert 0 <= problem.span.start <= problem.span.end <= len(problem.span.source.text)
                problem.render()
    return Outcome(parsed, planned, time.process_time() - start)


@contextmanager
def _no_hang() -> Iterator[None]:
    def give_up(*_: object) -> None:
        raise TimeoutError("the script was not done after half a minute")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(30)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def main() -> None:
    for argument in sys.argv[1:]:
        mutation = mutated(int(argument))
        print(f"-- {argument}, {mutation.dialect.name}\n{mutation.text}")
        print(outcome(mutation))


if __name__ == "__main__":
    main()

"""Statements, expressions and types against their trees or messages, kept in data/*.txt."""

from __future__ import annotations

from pathlib import Path

import pytest
from corpus import cases, expressions, texts
from syntax_dump import dump, inline, walk

from harness.datadriven import Case, check
from tidemill.errors import ScriptError, Source
from tidemill.sql import ast, parse_expression, parse_script
from tidemill.sql.dialects import DIALECTS, Dialect

DATA = sorted((Path(__file__).parent / "data").glob("*.txt"))


def evaluate(case: Case) -> str:
    variables = {k: v for k, v in case.arguments.items() if v}
    dialect = DIALECTS[variables.pop("dialect", "flink")]
    source = Source("script.sql", case.input)
    try:
        match case.command:
            case "script":
                return dump(parse_script(source, variables, dialect))
            case "statements":
                lines = case.input.split("\n")
                return "\n".join(statement_of(line, dialect) for line in lines)
            case "expressions":
                lines = case.input.split("\n")
                return "\n".join(
                    inline(parse_expression(Source("x", line), variables, dialect))
                    for line in lines
                )
            case "types":
                return "\n".join(map(type_of, case.input.split("\n")))
            case "accept":
                statements = parse_script(source, variables, dialect).statements
                return ", ".join(type(s).__name__ for s in statements)
            case "errors":
                return "\n".join(message_of(line, dialect) for line in case.input.split("\n"))
    except ScriptError as error:
        return str(error)
    raise ValueError(f"{case.place}: unknown command {case.command}")


def statement_of(text: str, dialect: Dialect) -> str:
    (statement,) = parse_script(Source("s", text), None, dialect).statements
    return inline(statement)


def type_of(text: str) -> str:
    try:
        (table,) = parse_script(Source("t", f"CREATE TABLE t (c {text})")).statements
    except ScriptError as error:
        return f"{text}: {error.diagnostics[0].message} ({error.diagnostics[0].hint})"
    assert isinstance(table, ast.CreateTable)
    (column,) = table.columns
    assert isinstance(column, ast.PhysicalColumn)
    assert column.type_span.text == text
    return f"{text}: {column.type}"


def message_of(text: str, dialect: Dialect) -> str:
    """One line for a statement that must fail: what is marked, code, message and hint."""
    try:
        parse_script(Source("t", text), None, dialect)
    except ScriptError as error:
        shown = []
        for d in error.diagnostics:
            assert d.span is not None
            shown.append(f"[{d.span.start}:{d.span.text}] {d.code} {d.message} ({d.hint})")
        return " | ".join(shown)
    raise AssertionError(f"accepted: {text}")


@pytest.mark.parametrize("path", DATA, ids=lambda path: path.stem)
def test_cases(path: Path) -> None:
    check(path, evaluate)


def statements_of(case: Case) -> list[ast.Statement]:
    scripts = (parse_script(Source("s", text), None, dialect) for text, dialect in texts(case))
    return [statement for script in scripts for statement in script.statements]


def test_the_corpus_covers_the_language() -> None:
    """Statements besides those of the manuals, and every node of the tree among them."""
    ours = [c for c in cases("script", "accept", "statements") if c.path.stem != "manuals"]
    trees: list[ast.Node] = [statement for case in ours for statement in statements_of(case)]
    assert len(trees) >= 400
    trees += [parse_expression(Source("e", text)) for text in expressions()]
    seen = {type(node) for tree in trees for node in walk(tree)}
    nodes = {n for n in vars(ast).values() if isinstance(n, type) and issubclass(n, ast.Node)}
    abstract = {base for node in nodes for base in node.__bases__} | {ast.Script}
    assert nodes - abstract <= seen, [n.__name__ for n in nodes - abstract - seen]

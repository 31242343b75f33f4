"""What is printed parses to the tree that was printed: for all scripts at hand, and for statements out of thin air."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import generated
import pytest
from corpus import expressions, scripts
from hypothesis import given
from syntax_dump import walk

from harness.datadriven import Case, check
from tidemill.errors import Source
from tidemill.sql import ast, parse_expression, parse_script, printer

ROOT = Path(__file__).parent.parent.parent
DATA = sorted((Path(__file__).parent / "data" / "printer").glob("*.txt"))


def parsed(text: str) -> ast.Statement:
    (statement,) = parse_script(Source("printed", text)).statements
    return statement


def evaluate(case: Case) -> str:
    match case.command:
        case "print":
            return printer.print_script(parse_script(Source("script", case.input)))
        case "expressions":
            trees = (parse_expression(Source("x", line)) for line in case.input.split("\n"))
            return "\n".join(map(printer.print_expression, trees))
        case "show-create":
            return "\n".join(
                map(show_create, parse_script(Source("script", case.input)).statements)
            )
    raise ValueError(f"{case.place}: unknown command {case.command}")


def show_create(statement: ast.Statement) -> str:
    place = ("default_catalog", "default_database")
    if isinstance(statement, ast.CreateTable):
        options = [(o.key, "****" if "password" in o.key else o.value) for o in statement.options]
        return printer.create_table_text(statement, (*place, str(statement.name)), options)
    assert isinstance(statement, ast.CreateView)
    columns = [column.name for column in statement.columns]
    return printer.create_view_text(statement, (*place, str(statement.name)), columns)


@pytest.mark.parametrize("path", DATA, ids=lambda path: path.stem)
def test_cases(path: Path) -> None:
    check(path, evaluate)


def test_scripts_at_hand_come_back() -> None:
    seen = 0
    for text in [*scripts(), *documented(), *recorded()]:
        script = parse_script(Source("script", text))
        assert parse_script(Source("printed", printer.print_script(script))) == script, text
        seen += len(script.statements)
    assert seen > 500


def documented() -> list[str]:
    """The blocks of SQL in the documentation that are whole scripts of today's Flink."""
    pages = sorted((ROOT / "docs").rglob("*.md"))
    blocks = (b for p in pages for b in re.findall(r"```sql\n(.*?)```", p.read_text(), re.DOTALL))
    return [block for block in blocks if is_script(block)]


def recorded() -> list[str]:
    """The scripts that Flink has answered."""
    cases = sorted((ROOT / "tests/parity/cases").rglob("*.case"))
    sections = (
        s for case in cases for s in re.split(r"^== ", case.read_text(), flags=re.MULTILINE)
    )
    found = (s.partition("\n")[2] for s in sections if s.startswith("script"))
    filled = (re.sub(r"\$\{(\w+)\}", r"\1", text) for text in found)
    return [text for text in filled if is_script(text)]


def is_script(text: str) -> bool:
    try:
        parse_script(Source("block", text))
    except Exception:
        return False
    return True


def test_expressions_at_hand_come_back() -> None:
    for text in expressions():
        tree = parse_expression(Source("expression", text))
        assert parse_expression(Source("printed", printer.print_expression(tree))) == tree, text


@given(generated.statements())
@generated.FAST
def test_generated_statements_come_back(statement: ast.Statement) -> None:
    text = printer.print_statement(statement)
    assert parsed(text) == statement, text


@given(generated.expressions())
@generated.FAST
def test_generated_expressions_come_back(expression: ast.Expression) -> None:
    text = printer.print_expression(expression)
    assert parse_expression(Source("printed", text)) == expression, text


def test_every_class_of_the_tree_is_generated_and_comes_back() -> None:
    seen: set[type[ast.Node]] = set()
    for seed in range(4 * generated.EXAMPLES):
        statement = generated.random_statement(seed)
        seen.update(map(type, walk(statement)))
        text = printer.print_statement(statement)
        assert parsed(text) == statement, f"seed {seed}: {text}"
    nodes = [c for _, c in inspect.getmembers(ast, inspect.isclass) if issubclass(c, ast.Node)]
    concrete = {c for c in nodes if not c.__subclasses__()} - {ast.Script}
    assert concrete - seen == set()


def test_long_chains_are_printed() -> None:
    """The parser reads them in a loop, so that they are deeper than Python's stack."""
    sums = "SELECT " + " + ".join(["a"] * 2000)
    unions = " UNION ALL ".join(["SELECT 1"] * 1500)
    joins = "SELECT * FROM t" + " CROSS JOIN t" * 1500
    for text in (sums, unions, joins):
        (statement,) = parse_script(Source("long", text)).statements
        assert " ".join(printer.print_statement(statement).split()) == text

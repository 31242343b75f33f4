"""What is printed parses to the tree that was printed: for all scripts at hand, and for statements out of thin air."""

from __future__ import annotations

import generated
from hypothesis import given

from tidemill.errors import Source
from tidemill.sql import ast, parse_expression, parse_script, printer


def parsed(text: str) -> ast.Statement:
    (statement,) = parse_script(Source("printed", text)).statements
    return statement


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

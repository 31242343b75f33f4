"""Every node knows its place: inside its parent's, and the text there means the node itself."""

from __future__ import annotations

import pytest
from corpus import expressions, scripts
from syntax_dump import children, walk

from tidemill.errors import Source
from tidemill.sql import ast, parse_expression, parse_script

# Their texts are no expressions by themselves.
PARTS = (ast.Star, ast.NamedArgument, ast.TableArgument, ast.DescriptorArgument)


def trees() -> list[ast.Node]:
    found: list[ast.Node] = [parse_script(Source("s", text)) for text in scripts()]
    return found + [parse_expression(Source("e", text)) for text in expressions()]


TREES = trees()


def test_spans_lie_inside_their_parents() -> None:
    seen = 0
    for tree in TREES:
        for node in walk(tree):
            for child in children(node):
                if isinstance(node, ast.Hint | ast.SetOption):
                    continue
                assert node.span.start <= child.span.start <= child.span.end <= node.span.end, (
                    node,
                    child,
                )
                seen += 1
    assert seen > 1000


def test_the_text_of_an_expression_means_the_expression() -> None:
    seen = 0
    for tree in TREES:
        for node in walk(tree):
            if not isinstance(node, ast.Expression) or isinstance(node, PARTS):
                continue
            if _is_clause_word(node):
                continue
            assert parse_expression(Source("e", node.span.text)) == node, node.span.text
            seen += 1
    assert seen > 500


def _is_clause_word(node: ast.Expression) -> bool:
    """A unit of time is kept as a text but written as a word; `INTERVAL a HOUR` has a unit for its second factor;
    a row of VALUES may have one item."""
    if isinstance(node, ast.RowConstructor):
        return len(node.items) == 1
    if isinstance(node, ast.FunctionCall):  # in FROM only, and with a table for an argument
        return str(node.name) == "UNNEST" or any(isinstance(a, PARTS) for a in node.arguments)
    if isinstance(
        node, ast.TemporalLiteral
    ):  # the cast of TIMESTAMP WITH LOCAL TIME ZONE '…' has no words
        return "ZONE" in node.span.text
    if isinstance(node, ast.StringLiteral):
        return "'" not in node.span.text
    return isinstance(node, ast.IntervalLiteral) and not node.span.text.upper().startswith(
        "INTERVAL"
    )


def test_the_text_of_a_statement_means_the_statement() -> None:
    for tree in TREES:
        if isinstance(tree, ast.Script):
            for statement in tree.statements:
                again = parse_script(Source("s", statement.span.text)).statements
                assert again == (statement,)


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("CREATE TABLE t (a INT NOT NULL, b AS a)", ["a INT NOT NULL", "b AS a"]),
        ("CREATE TABLE t (a MAP<INT, INT> METADATA VIRTUAL)", ["a MAP<INT, INT> METADATA VIRTUAL"]),
    ],
)
def test_columns_span_their_definition(text: str, marked: list[str]) -> None:
    (table,) = parse_script(Source("s", text)).statements
    assert isinstance(table, ast.CreateTable)
    assert [column.span.text for column in table.columns] == marked


def test_options_point_at_key_and_value() -> None:
    (table,) = parse_script(Source("s", "CREATE TABLE t (a INT) WITH ('k' = 'v')")).statements
    assert isinstance(table, ast.CreateTable)
    (option,) = table.options
    assert (option.span.text, option.value_span.text) == ("'k'", "'v'")
    (setting,) = parse_script(Source("s", "SET a.b = c d ;")).statements
    assert isinstance(setting, ast.SetOption) and setting.option is not None
    assert (setting.option.span.text, setting.option.value_span.text) == ("a.b", "c d")


def test_trees_are_equal_wherever_they_stand() -> None:
    first = parse_script(Source("a", "SELECT a + 1 FROM t"))
    assert first == parse_script(Source("b", "select\n a+1 -- sum\nfrom t;")), (
        "keywords have no case"
    )
    assert first != parse_script(Source("b", "SELECT A + 1 FROM t")), "names have"

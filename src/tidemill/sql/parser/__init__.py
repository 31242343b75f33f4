"""Tokens → syntax tree. In: the text of a script. Out: one typed node per statement, or every mistake in it.

Recursive descent, read from top to bottom like the grammar: statements, tables, queries, expressions, types.
Home-made because no library reads Flink's dialect with spans on every node (sqlglot has no Flink dialect and keeps
what it does not know as plain text). The grammar and the precedences are those of Flink's own parser.

Law: what Flink refuses is refused, what Flink accepts is parsed, or refused by name with a way out. A mistake ends
its statement only: reading goes on behind the next `;`, so that one run reports them all.

    SQL-001  text, quoted name, comment or hint that is not closed      (lexer)
    SQL-002  character that is not SQL                                  (lexer)
    SQL-003  double quotes                                              (lexer)
    SQL-004  malformed binary or unicode literal                        (lexer)
    SQL-005  file that is not UTF-8                                     (lexer)
    SQL-006  variable that is undefined, reserved or misspelt           (lexer)
    SQL-009  file that cannot be read                                   (lexer)
    SQL-010  something else was expected
    SQL-011  `;` is missing between two statements
    SQL-012  unknown statement
    SQL-013  statement of Flink that is not supported
    SQL-014  reserved word as a name
    SQL-015  unknown type
    SQL-016  type that is not supported, or with a length or precision that is not
    SQL-017  clause or expression of Flink that is not supported
    SQL-018  nested too deeply
    SQL-019  clause that may stand only once, or not here
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidemill.errors import Diagnostic, ScriptError, Source, Span
from tidemill.sql import ast
from tidemill.sql.dialects import FLINK, Dialect
from tidemill.sql.parser.cursor import MAX_DEPTH
from tidemill.sql.parser.statements import StatementParser

__all__ = ["MAX_DEPTH", "parse_expression", "parse_script"]


def parse_script(
    sources: Source | Iterable[Source],
    variables: Mapping[str, str] | None = None,
    dialect: Dialect = FLINK,
) -> ast.Script:
    """The statements of one script, given as one or several texts. Raises one ScriptError with all mistakes."""
    texts = [sources] if isinstance(sources, Source) else list(sources)
    if not texts:
        raise ValueError("a script needs at least one source")
    statements: list[ast.Statement] = []
    problems: list[Diagnostic] = []
    for source in texts:
        parser = StatementParser(source, variables, dialect)
        statements += parser.parse_statements()
        problems += parser.all_problems()
    if problems:
        raise ScriptError(problems)
    return ast.Script(Span(texts[0], 0, len(texts[0].text)), tuple(statements))


def parse_expression(
    source: Source, variables: Mapping[str, str] | None = None, dialect: Dialect = FLINK
) -> ast.Expression:
    """One expression, as it may stand in a select list or a computed column."""
    parser = StatementParser(source, variables, dialect)
    expression = parser.parse_single_expression()
    if problems := parser.all_problems():
        raise ScriptError(problems)
    assert expression is not None
    return expression

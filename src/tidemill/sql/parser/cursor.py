"""Reading tokens and reporting mistakes: what every part of the grammar stands on.

In: the text of a script. Out: nothing yet; a cursor that moves over the tokens, names and lists of names, and the
mistakes found so far. Law: a mistake is reported once, at the token where the reader noticed it.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from tidemill.errors import Diagnostic, Source, Span, nearest
from tidemill.sql import ast
from tidemill.sql.dialects import Dialect
from tidemill.sql.lexer import RESERVED, Token, tokenize

T = TypeVar("T")

MAX_DEPTH = 100
"""How deeply parentheses, calls, subqueries and types may nest."""


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


QUERY_STARTS = frozenset({"SELECT", "WITH", "VALUES"})
_CLAUSES = (
    "FROM",
    "WHERE",
    "GROUP",
    "HAVING",
    "WINDOW",
    "QUALIFY",
    "ORDER",
    "LIMIT",
    "UNION",
    "INTERSECT",
    "EXCEPT",
    "INNER",
    "CROSS",
    "OUTER",
)
# Reserved words that hold a statement together: where one of them stands in a name's place, the name was forgotten,
# not left unquoted.
STRUCTURE = word_set(
    """
    AND AS BETWEEN BY COMMENT CONSTRAINT CREATE DROP ELSE END FETCH FULL IN INSERT INTO IS JOIN
    LEFT LIKE NOT NULL OFFSET ON OR PRIMARY RIGHT SELECT SET TABLE THEN USING VALUES WATERMARK
    WHEN WITH
    """
) | frozenset(_CLAUSES)
_COLUMN_WORDS = ("METADATA", "VIRTUAL", "COMMENT", "PRIMARY", "CONSTRAINT", "NOT", "ENFORCED")

_COLUMN_SLIPS = {
    "DEFAULT": "a column has no default value: give it in the INSERT",
    "FROM": "write METADATA FROM 'key' VIRTUAL, in this order",
    "NOT": "write NOT NULL directly behind the type",
}

# What people type who come from another language, and what to write instead.
_SLIPS = {
    "==": "equality is written =",
    "&&": "write AND",
    "|": "write OR, or || to join texts",
    "!": "write NOT",
    "::": "write CAST(value AS type)",
    "?": "there are no parameters in a script; use a variable: ${NAME}",
    "RLIKE": "write REGEXP(value, 'pattern')",
    "ILIKE": "write LOWER(value) LIKE 'pattern'",
    "->": "lambda expressions do not exist in Flink SQL",
    "...": "... is a placeholder: put the real text in its place",
    "TOP": "write LIMIT n at the end of the query",
}


class Abandoned(Exception):
    """The statement cannot be read on; what is wrong has been reported."""


class Cursor:
    def __init__(
        self, source: Source, variables: Mapping[str, str] | None, dialect: Dialect
    ) -> None:
        self.source = source
        self.dialect = dialect
        self.tokens, self.lexical = tokenize(source, variables, dialect)
        self.problems: list[Diagnostic] = []
        self.at = 0
        self.token = self.tokens[0]
        self._start_statement()

    def _start_statement(self) -> None:
        """Forget where a statement that was given up had got to."""
        self.depth = 0
        self.query_refused_in: str | None = None
        self.in_match = False
        """Inside MATCH_RECOGNIZE, where RUNNING and FINAL go before a call."""

    # --- reading tokens ---

    def _advance(self) -> Token:
        token = self.token
        if token.kind != "end":
            self.at += 1
            self.token = self.tokens[self.at]
        return token

    def _peek(self, distance: int = 1) -> Token:
        return self.tokens[min(self.at + distance, len(self.tokens) - 1)]

    def _is(self, *keys: str) -> bool:
        """Whether these words and signs come next, in a row."""
        if self.token.key != keys[0]:
            return False
        return all(self._peek(i).key == key for i, key in enumerate(keys[1:], 1))

    def _accept(self, *keys: str) -> bool:
        if self.token.key != keys[0] or (len(keys) > 1 and not self._is(*keys)):
            return False
        for _ in keys:
            self._advance()
        return True

    def _expect(self, *keys: str, hint: str | None = None) -> None:
        for key in keys:
            if self.token.key != key:
                raise self._fail_expected(f"'{key}'" if not key.isalpha() else key, hint)
            self._advance()

    def _span(self, start: int) -> Span:
        """From an offset to the end of the last token read."""
        return Span(self.source, start, max(start, self.tokens[self.at - 1].end))

    def _token_span(self, token: Token) -> Span:
        return Span(self.source, token.start, token.end)

    # --- mistakes ---

    def all_problems(self) -> list[Diagnostic]:
        found = [*self.lexical, *self.problems]
        return sorted(found, key=lambda d: d.span.start if d.span else 0)

    def _report(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        self.problems.append(Diagnostic(code, message, span, hint))

    def _fail(self, code: str, message: str, span: Span, hint: str | None = None) -> Abandoned:
        self._report(code, message, span, hint)
        return Abandoned()

    def _fail_expected(self, what: str, hint: str | None = None) -> Abandoned:
        self._report_expected(what, hint)
        return Abandoned()

    def _report_expected(self, what: str, hint: str | None = None) -> None:
        token = self.token
        span = self._token_span(token)
        if token.kind == "end" and self.at:
            last = self.tokens[self.at - 1].end
            span = Span(self.source, last, last)
        if misspelt := self._misspelt_clause():
            word, meant = misspelt
            self._report(
                "SQL-010",
                f"expected {what}, found {describe(token)}",
                self._token_span(word),
                f"did you mean '{meant}' instead of '{word.value}'?",
            )
            return
        before = self.tokens[self.at - 1].key if self.at else ""
        if token.key == "...":
            hint = None
        hint = hint or _SLIPS.get(token.key) or (_SLIPS["TOP"] if before == "TOP" else None)
        self._report("SQL-010", f"expected {what}, found {describe(token)}", span, hint)

    def _misspelt_clause(self) -> tuple[Token, str] | None:
        """A word just before, read as an alias, that was meant as a keyword: `SELECT a FORM t`."""
        for token in (self.tokens[self.at - 1] if self.at else None, self.token):
            if token is None or token.kind != "word" or token.key in RESERVED or len(token.key) < 3:
                continue
            likeness = 0.8 if len(token.key) == 3 else 0.7
            if found := difflib.get_close_matches(token.key, _CLAUSES, n=1, cutoff=likeness):
                return token, found[0]
        return None

    def _fail_unsupported(self, what: str, span: Span, hint: str | None = None) -> Abandoned:
        return self._fail("SQL-017", f"{what} is not supported", span, hint)

    def _enter(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self._fail_too_deep()

    def _leave(self) -> None:
        self.depth -= 1

    def _fail_too_deep(self) -> Abandoned:
        return self._fail(
            "SQL-018",
            f"statement is nested more than {MAX_DEPTH} levels deep",
            self._token_span(self.token),
            "move inner parts into views or a WITH clause",
        )

    def _guard(self, parse: Callable[[], T]) -> T:
        try:
            return parse()
        except RecursionError:
            # A caller may already stand deep in the stack, so that ours ends before MAX_DEPTH.
            raise self._fail_too_deep() from None

    # --- names ---

    def _parse_identifier(self, what: str) -> ast.Identifier:
        token = self.token
        if token.kind == "name" or (token.kind == "word" and token.key not in RESERVED):
            self._advance()
            return ast.Identifier(self._token_span(token), token.value)
        raise self._fail_identifier(what)

    def _fail_identifier(self, what: str) -> Abandoned:
        token, following = self.token, self._peek()
        clause = token.key in STRUCTURE
        if token.key in ("ORDER", "GROUP"):  # favourite names of tables
            clause = following.key == "BY"
        if token.kind == "word" and not clause:
            return self._fail_reserved(token)
        hint = None
        if token.kind == "number" and following.kind == "word" and following.start == token.end:
            name = self.source.text[token.start : following.end]
            hint = f"a name that starts with a digit needs back quotes: `{name}`"
        elif token.kind == "text":
            hint = "a name is written bare or in back quotes, not in single quotes"
        elif self.at and self.tokens[self.at - 1].key == ",":
            hint = "remove the comma, or write what should follow it"
        return self._fail_expected(what, hint)

    def _fail_reserved(self, token: Token) -> Abandoned:
        return self._fail(
            "SQL-014",
            f"'{token.value}' is a reserved word",
            self._token_span(token),
            f"as a name it needs back quotes: `{token.value}`",
        )

    def _parse_qualified_name(self, what: str) -> ast.QualifiedName:
        parts = [self._parse_identifier(what)]
        while self._accept("."):
            parts.append(self._parse_identifier("a name after '.'"))
        return ast.QualifiedName(self._span(parts[0].span.start), tuple(parts))

    def _parse_identifier_list(
        self, what: str, hint: str | None = None
    ) -> tuple[ast.Identifier, ...]:
        self._expect("(", hint=hint)
        names = self._parse_list(lambda: self._parse_identifier(what))
        self._expect(")")
        return names

    def _parse_list(self, parse: Callable[[], T]) -> tuple[T, ...]:
        """One item, or several with commas between them."""
        items = [parse()]
        while self._accept(","):
            items.append(parse())
        return tuple(items)

    def _parse_bracketed(self, parse: Callable[[], T]) -> tuple[T, ...]:
        """One item, or several in parentheses."""
        if not self._accept("("):
            return (parse(),)
        items = self._parse_list(parse)
        self._expect(")")
        return items

    def _parse_choice(
        self, choices: Iterable[str], what: str | None = None, hint: str | None = None
    ) -> str:
        """One of several words, with did-you-mean; a choice may have more than one word."""
        listed = tuple(choices)
        for choice in listed:
            if self._accept(*choice.split()):
                return choice
        meant = None
        if self.token.kind == "word":
            meant = nearest(self.token.key, listed) or nearest(
                f"{self.token.key} {self._peek().key}", listed
            )
        raise self._fail_expected(
            what or one_of(listed), f"did you mean '{meant}'?" if meant else hint
        )

    def _is_identifier(self, token: Token) -> bool:
        return token.kind == "name" or (token.kind == "word" and token.key not in RESERVED)

    # --- texts and lists ---

    def _expect_text(self, what: str, hint: str | None = None) -> Token:
        if self.token.kind != "text":
            raise self._fail_expected(f"{what} in single quotes", hint)
        return self._advance()

    def _parse_separator(self, starts_next: Callable[[], bool]) -> bool:
        """Whether the list goes on. A comma too many or too few is reported and passed over."""
        if self._is(","):
            comma = self._advance()
            if self._is(")"):
                self._report(
                    "SQL-010",
                    "expected another entry after ',', found ')'",
                    self._token_span(comma),
                    "remove the last comma",
                )
                return False
            return True
        if self._is(")"):
            return False
        if starts_next():
            last = self.tokens[self.at - 1].end
            self._report(
                "SQL-010",
                f"expected ',' before {describe(self.token)}",
                Span(self.source, last, last),
                "separate the entries of a list with commas",
            )
            return True
        return False

    def _expect_closing(self, opening: Token, also: str) -> None:
        if self._is(")"):
            self._advance()
            return
        token = self.token
        if token.kind == "end" or token.key == ";":
            raise self._fail(
                "SQL-010",
                f"expected ')', found {describe(token)}",
                self._token_span(opening),
                "this parenthesis is not closed",
            )
        hint = _COLUMN_SLIPS.get(token.key)
        if hint is None and token.key in STRUCTURE:
            hint = "close the list with ) first"
        elif hint is None and token.kind == "word" and (meant := nearest(token.key, _COLUMN_WORDS)):
            hint = f"did you mean '{meant}'?"
        raise self._fail_expected(f"{also} or ')'", hint)


def one_of(choices: Sequence[str]) -> str:
    """A, B or C"""
    *first, last = choices
    return f"{', '.join(first)} or {last}" if first else last


def describe(token: Token) -> str:
    """A token as a message names it; the inside of a text may be a secret and is left out."""
    match token.kind:
        case "end":
            return "the end of the script"
        case "text" | "binary":
            return "a text"
        case "number":
            return f"number {token.value}"
        case "name":
            return f"name `{token.value}`"
    return f"'{token.value}'"

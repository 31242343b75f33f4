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

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import NoReturn, TypeVar

from tidemill import types
from tidemill.errors import Diagnostic, ScriptError, Source, Span, nearest
from tidemill.sql import ast
from tidemill.sql.dialects import BLINK, FLINK, Dialect
from tidemill.sql.lexer import RESERVED, Token, tokenize
from tidemill.types import SqlType

T = TypeVar("T")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


MAX_DEPTH = 100
"""How deeply parentheses, calls, subqueries and types may nest."""

# --- tables of the language --------------------------------------------------------------------

_NOT_IN_A_SCRIPT = "it does not change what a job does: remove it from the script"
_NO_CATALOGS = "all tables of a script live in one catalog: remove the statement and the prefixes"
_APPEND_ONLY_DML = "only INSERT INTO changes a table; a changelog source brings updates and deletes"

# Statements that Flink has and we do not, by their first words; the hint says what to do instead.
_UNSUPPORTED = {
    "CREATE CATALOG": _NO_CATALOGS,
    "CREATE DATABASE": _NO_CATALOGS,
    "CREATE FUNCTION": "use the built-in functions",
    "CREATE TEMPORARY FUNCTION": "use the built-in functions",
    "CREATE TEMPORARY SYSTEM": "use the built-in functions",
    "CREATE MATERIALIZED TABLE": "write CREATE TABLE and INSERT INTO … SELECT …",
    "CREATE MODEL": "remove the statement",
    "CREATE OR REPLACE": "write CREATE TABLE and INSERT INTO … SELECT …",
    "REPLACE TABLE": "write CREATE TABLE and INSERT INTO … SELECT …",
    "ALTER": "write the final form in the CREATE statement",
    "DROP CATALOG": _NO_CATALOGS,
    "DROP DATABASE": _NO_CATALOGS,
    "DROP FUNCTION": "remove the statement",
    "DROP TEMPORARY FUNCTION": "remove the statement",
    "DROP TEMPORARY SYSTEM": "remove the statement",
    "DROP MATERIALIZED TABLE": "remove the statement",
    "DROP MODEL": "remove the statement",
    "SHOW": _NOT_IN_A_SCRIPT,
    "DESCRIBE": _NOT_IN_A_SCRIPT,
    "DESC": _NOT_IN_A_SCRIPT,
    "USE": _NO_CATALOGS,
    "ADD JAR": "connectors and formats are built in: remove the statement",
    "REMOVE JAR": "connectors and formats are built in: remove the statement",
    "LOAD MODULE": "the built-in functions are always there: remove the statement",
    "UNLOAD MODULE": "the built-in functions are always there: remove the statement",
    "EXECUTE PLAN": "a compiled plan belongs to Flink: put its INSERT statement into the script",
    "COMPILE PLAN": "a plan is made from the script at every start: keep its INSERT statement only",
    "COMPILE AND": "a plan is made from the script at every start: keep its INSERT statement only",
    "ANALYZE": _NOT_IN_A_SCRIPT,
    "CALL": "procedures belong to a catalog: remove the statement",
    "DELETE": _APPEND_ONLY_DML,
    "UPDATE": _APPEND_ONLY_DML,
    "MERGE": _APPEND_ONLY_DML,
    "UPSERT": "write INSERT INTO; an upsert-kafka table takes updates by its primary key",
    "TRUNCATE": _APPEND_ONLY_DML,
    "STOP JOB": "stop the running command instead",
    "QUIT": "it is a command of Flink's SQL client: remove it from the script",
    "EXIT": "it is a command of Flink's SQL client: remove it from the script",
    "HELP": "it is a command of Flink's SQL client: remove it from the script",
    "CLEAR": "it is a command of Flink's SQL client: remove it from the script",
    "SOURCE": "give several script files on the command line; they are one script",
}

# Words behind these that belong to the statement's name.
_OBJECTS = _words(
    """
    TABLE TABLES VIEW VIEWS DATABASE DATABASES CATALOG CATALOGS FUNCTION FUNCTIONS MODULE MODULES MATERIALIZED
    MODEL MODELS JAR JARS JOB JOBS COLUMNS PARTITIONS PROCEDURES CREATE CURRENT FULL USER EXECUTE PLAN INTO FROM
    """
)

_STATEMENTS = (
    "CREATE TABLE",
    "CREATE VIEW",
    "INSERT INTO",
    "SELECT",
    "WITH",
    "VALUES",
    "EXECUTE STATEMENT SET",
    "BEGIN STATEMENT SET",
    "EXPLAIN",
    "SET",
    "RESET",
    "DROP",
)
_STATEMENT_WORDS = tuple(dict.fromkeys(s.split()[0] for s in (*_STATEMENTS, *_UNSUPPORTED)))
# A word of these after a complete statement means that a `;` was forgotten.
_STATEMENT_STARTS = frozenset(s.split()[0] for s in _STATEMENTS) | {"ALTER", "SHOW", "USE"}

_QUERY_STARTS = frozenset({"SELECT", "WITH", "VALUES"})
_QUERY_CONTINUES = frozenset(
    {"UNION", "INTERSECT", "EXCEPT", "MINUS", "ORDER", "LIMIT", "OFFSET", "FETCH"}
)
_JOIN_STARTS = frozenset({"JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL"})
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
_STRUCTURE = _words(
    """
    AND AS BETWEEN BY COMMENT CONSTRAINT CREATE DROP ELSE END FETCH FULL IN INSERT INTO IS JOIN
    LEFT LIKE NOT NULL OFFSET ON OR PRIMARY RIGHT SELECT SET TABLE THEN USING VALUES WATERMARK
    WHEN WITH
    """
) | frozenset(_CLAUSES)

_EXPLAIN_DETAILS = ("ESTIMATED_COST", "CHANGELOG_MODE", "JSON_EXECUTION_PLAN", "PLAN_ADVICE")

# Reserved words that are also functions.
_FUNCTION_WORDS = _words(
    """
    ABS AVG CARDINALITY CHAR CHAR_LENGTH CHARACTER_LENGTH COALESCE COLLECT CORR COUNT COVAR_POP
    COVAR_SAMP CUME_DIST CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP DATE DENSE_RANK ELEMENT EVERY
    EXP FIRST_VALUE FUSION GROUPING HOUR INTERSECTION LAG LAST_VALUE LEAD LEFT LN LOCALTIME
    LOCALTIMESTAMP LOWER MAX MIN MINUTE MOD MONTH NTH_VALUE NTILE NULLIF OCTET_LENGTH
    PERCENTILE_CONT PERCENTILE_DISC PERCENT_RANK POWER RANK REGR_COUNT REGR_SXX REGR_SYY RIGHT
    ROW_NUMBER SECOND SOME SQRT STDDEV_POP STDDEV_SAMP SUM TIME TIMESTAMP TRANSLATE TRUNCATE UPPER
    USER VAR_POP VAR_SAMP YEAR
    """
)
# Functions that are called without parentheses.
_NILADIC = _words(
    """
    CURRENT_CATALOG CURRENT_DATE CURRENT_DEFAULT_TRANSFORM_GROUP CURRENT_PATH CURRENT_ROLE
    CURRENT_SCHEMA CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER LOCALTIME LOCALTIMESTAMP
    SESSION_USER SYSTEM_USER USER
    """
)

# How tightly an operator binds: those of Calcite, so that every expression groups as in Flink.
_AND, _IS, _NOT, _COMPARE, _PREDICATE, _SIGN, _ACCESS = 24, 28, 26, 30, 32, 80, 100
_POWER = {
    "OR": 22,
    "AND": _AND,
    "IS": _IS,
    "=": _COMPARE,
    "<>": _COMPARE,
    "!=": _COMPARE,
    "<": _COMPARE,
    "<=": _COMPARE,
    ">": _COMPARE,
    ">=": _COMPARE,
    "OVERLAPS": _COMPARE,
    "NOT": _PREDICATE,
    "IN": _PREDICATE,
    "BETWEEN": _PREDICATE,
    "LIKE": _PREDICATE,
    "SIMILAR": _PREDICATE,
    "+": 40,
    "-": 40,
    "*": 60,
    "/": 60,
    "%": 60,
    "||": 60,
    "[": _ACCESS,
    ".": _ACCESS,
}
_NEGATABLE = frozenset({"IN", "BETWEEN", "LIKE", "SIMILAR"})

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

_UNIT_PLURALS = {
    unit + "S": unit
    for unit in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
}
_INTERVAL_UNITS: dict[str, tuple[str, ...]] = {
    "YEAR": ("MONTH",),
    "QUARTER": (),
    "MONTH": (),
    "WEEK": (),
    "DAY": ("HOUR", "MINUTE", "SECOND"),
    "HOUR": ("MINUTE", "SECOND"),
    "MINUTE": ("SECOND",),
    "SECOND": (),
}
_UNIT_ALIASES = {"DAYOFWEEK": "DOW", "DAYOFYEAR": "DOY"}
_TIME_UNITS = (
    *("NANOSECOND", "MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "DOW", "DOY"),
    *(
        "ISODOW",
        "ISOYEAR",
        "WEEK",
        "MONTH",
        "QUARTER",
        "YEAR",
        "EPOCH",
        "DECADE",
        "CENTURY",
        "MILLENNIUM",
    ),
)
_TSI = "SQL_TSI_"

# Types without parameters.
_PLAIN_TYPES: dict[str, SqlType] = {
    "STRING": types.STRING,
    "BYTES": types.BYTES,
    "BOOLEAN": types.BOOLEAN,
    "TINYINT": types.TinyIntType(),
    "SMALLINT": types.SmallIntType(),
    "INT": types.INT,
    "INTEGER": types.INT,
    "BIGINT": types.BIGINT,
    "FLOAT": types.FloatType(),
    "DOUBLE": types.DOUBLE,
    "DATE": types.DateType(),
}
# Types with a length or precision in parentheses; without it Flink's default counts, the constructor's own.
_SIZED_TYPES: dict[str, Callable[..., SqlType]] = {
    "CHAR": types.declared_char,
    "CHARACTER": types.declared_char,
    "VARCHAR": lambda *size: types.VarCharType(True, *size),
    "BINARY": lambda *size: types.BinaryType(True, *size),
    "VARBINARY": lambda *size: types.VarBinaryType(True, *size),
    "TIME": lambda *size: types.TimeType(True, *size),
    "TIMESTAMP": lambda *size: types.TimestampType(True, *size),
    "TIMESTAMP_LTZ": lambda *size: types.TimestampLtzType(True, *size),
    "DECIMAL": lambda *size: types.DecimalType(True, *size),
    "DEC": lambda *size: types.DecimalType(True, *size),
    "NUMERIC": lambda *size: types.DecimalType(True, *size),
}
_UNBOUNDED: dict[str, SqlType] = {"VARCHAR": types.STRING, "VARBINARY": types.BYTES}
_VARYING = {"CHAR": "VARCHAR", "CHARACTER": "VARCHAR", "BINARY": "VARBINARY"}
_NESTED_TYPES = ("ARRAY", "MULTISET", "MAP", "ROW")
# Types of Flink that we refuse, and those of other systems: what to write instead.
_REFUSED_TYPES = {
    "RAW": "read the value as BYTES",
    "STRUCTURED": "write ROW<…>",
    "VARIANT": "read the value as STRING",
    "BITMAP": "read the value as BYTES",
    "REAL": "write FLOAT",
    "ANY": "write a type of its own",
    "INTERVAL": "store the length as BIGINT",
}
_FOREIGN_TYPES = {
    "TEXT": "STRING",
    "VARCHAR2": "STRING",
    "NVARCHAR": "STRING",
    "NCHAR": "CHAR",
    "CLOB": "STRING",
    "JSON": "STRING",
    "UUID": "STRING",
    "BLOB": "BYTES",
    "BYTEA": "BYTES",
    "BOOL": "BOOLEAN",
    "BIT": "BOOLEAN",
    "BYTE": "TINYINT",
    "SHORT": "SMALLINT",
    "INT2": "SMALLINT",
    "INT4": "INT",
    "INT32": "INT",
    "LONG": "BIGINT",
    "INT8": "BIGINT",
    "INT64": "BIGINT",
    "NUMBER": "DECIMAL(p, s)",
    "FLOAT32": "FLOAT",
    "FLOAT64": "DOUBLE",
    "DATETIME": "TIMESTAMP(3)",
    "TIMESTAMPTZ": "TIMESTAMP_LTZ(3)",
    "STRUCT": "ROW<name type, …>",
    "LIST": "ARRAY<type>",
}
_TYPE_NAMES = (*_PLAIN_TYPES, *_SIZED_TYPES, *_NESTED_TYPES)
_COLUMN_WORDS = ("METADATA", "VIRTUAL", "COMMENT", "PRIMARY", "CONSTRAINT", "NOT", "ENFORCED")

_OPTION_ENDS = frozenset({"=", ",", ")", "(", ";", "..."})
_ENFORCED_HINT = "write PRIMARY KEY (column, …) NOT ENFORCED"


# --- entry points ------------------------------------------------------------------------------


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
        parser = _Parser(source, variables, dialect)
        statements += parser.parse_statements()
        problems += parser.all_problems()
    if problems:
        raise ScriptError(problems)
    return ast.Script(Span(texts[0], 0, len(texts[0].text)), tuple(statements))


def parse_expression(
    source: Source, variables: Mapping[str, str] | None = None, dialect: Dialect = FLINK
) -> ast.Expression:
    """One expression, as it may stand in a select list or a computed column."""
    parser = _Parser(source, variables, dialect)
    expression = parser.parse_single_expression()
    if problems := parser.all_problems():
        raise ScriptError(problems)
    assert expression is not None
    return expression


class _Abandoned(Exception):
    """The statement cannot be read on; what is wrong has been reported."""


class _Parser:
    def __init__(
        self, source: Source, variables: Mapping[str, str] | None, dialect: Dialect
    ) -> None:
        self.source = source
        self.dialect = dialect
        self.tokens, self.lexical = tokenize(source, variables, dialect)
        self.problems: list[Diagnostic] = []
        self.at = 0
        self.token = self.tokens[0]
        self.depth = 0
        self.query_refused_in: str | None = None

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

    def _fail(self, code: str, message: str, span: Span, hint: str | None = None) -> _Abandoned:
        self._report(code, message, span, hint)
        return _Abandoned()

    def _fail_expected(self, what: str, hint: str | None = None) -> _Abandoned:
        self._report_expected(what, hint)
        return _Abandoned()

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
                f"expected {what}, found {_describe(token)}",
                self._token_span(word),
                f"did you mean '{meant}' instead of '{word.value}'?",
            )
            return
        before = self.tokens[self.at - 1].key if self.at else ""
        if token.key == "...":
            hint = None
        hint = hint or _SLIPS.get(token.key) or (_SLIPS["TOP"] if before == "TOP" else None)
        self._report("SQL-010", f"expected {what}, found {_describe(token)}", span, hint)

    def _misspelt_clause(self) -> tuple[Token, str] | None:
        """A word just before, read as an alias, that was meant as a keyword: `SELECT a FORM t`."""
        for token in (self.tokens[self.at - 1] if self.at else None, self.token):
            if token is None or token.kind != "word" or token.key in RESERVED or len(token.key) < 4:
                continue
            if found := difflib.get_close_matches(token.key, _CLAUSES, n=1, cutoff=0.7):
                return token, found[0]
        return None

    def _fail_unsupported(self, what: str, span: Span, hint: str | None = None) -> _Abandoned:
        return self._fail("SQL-017", f"{what} is not supported", span, hint)

    def _enter(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self._fail_too_deep()

    def _leave(self) -> None:
        self.depth -= 1

    def _fail_too_deep(self) -> _Abandoned:
        return self._fail(
            "SQL-018",
            f"statement is nested more than {MAX_DEPTH} levels deep",
            self._token_span(self.token),
            "move inner parts into views or a WITH clause",
        )

    # --- statements ----------------------------------------------------------------------------

    def parse_statements(self) -> list[ast.Statement]:
        statements = []
        while self.token.kind != "end":
            if self._accept(";"):
                continue
            first, reported = self.at, len(self.problems)
            self.depth, self.query_refused_in = 0, None
            try:
                statement = self._guard(self._parse_statement)
                statements.append(statement)
                self._parse_statement_end()
            except _Abandoned:
                self._skip_statement()
            self._drop_aftermath(first, reported)
        return statements

    def parse_single_expression(self) -> ast.Expression | None:
        try:
            expression = self._guard(self._parse_expression)
            if self.token.kind != "end":
                raise self._fail_expected("the end of the expression")
            return expression
        except _Abandoned:
            self._drop_aftermath(0, 0)
            return None

    def _guard(self, parse: Callable[[], T]) -> T:
        try:
            return parse()
        except RecursionError:
            # A caller may already stand deep in the stack, so that ours ends before MAX_DEPTH.
            raise self._fail_too_deep() from None

    def _skip_statement(self) -> None:
        while self.token.kind != "end" and not self._accept(";"):
            self._advance()

    def _drop_aftermath(self, first: int, reported: int) -> None:
        """A statement with broken characters is reported for these only; what follows from them would mislead."""
        start, end = self.tokens[first].start, self.token.start
        if any(d.span and start <= d.span.start <= end for d in self.lexical):
            del self.problems[reported:]

    def _parse_statement_end(self) -> None:
        token = self.token
        if token.kind == "end" or self._accept(";"):
            return
        if token.key in _STATEMENT_STARTS:
            last = self.tokens[self.at - 1].end
            self._report(
                "SQL-011",
                f"expected ';' before '{token.value}'",
                Span(self.source, last, last),
                "every statement ends with a semicolon",
            )
            return
        raise self._fail_expected("';'")

    def _parse_statement(self) -> ast.Statement:
        token = self.token
        if token.kind == "word":
            self._refuse_unsupported()
        match token.key:
            case "CREATE":
                return self._parse_create()
            case "DROP":
                return self._parse_drop()
            case "INSERT":
                return self._parse_insert()
            case "SELECT" | "WITH" | "VALUES" | "(" | "TABLE":
                query = self._parse_query()
                return ast.QueryStatement(query.span, query)
            case "EXECUTE":
                return self._parse_execute()
            case "BEGIN":
                self._advance()
                self._expect("STATEMENT", "SET")
                return self._parse_statement_set(token)
            case "EXPLAIN":
                return self._parse_explain()
            case "SET" | "RESET":
                return self._parse_set_or_reset()
        raise self._fail_statement()

    def _refuse_unsupported(self) -> None:
        words: list[str] = []
        for distance in range(3):
            words.append(self._peek(distance).key)
            hint = _UNSUPPORTED.get(" ".join(words))
            if hint is None:
                continue
            while self._peek(len(words)).key in _OBJECTS:
                words.append(self._peek(len(words)).key)
            span = Span(self.source, self.token.start, self._peek(len(words) - 1).end)
            raise self._fail("SQL-013", f"statement {' '.join(words)} is not supported", span, hint)

    def _fail_statement(self) -> _Abandoned:
        token = self.token
        listed = "a statement starts with " + ", ".join(_STATEMENTS)
        if token.kind != "word":
            return self._fail_expected("a statement", listed)
        if token.key == "END":
            return self._fail(
                "SQL-019",
                "END stands outside a statement set",
                self._token_span(token),
                "a statement set starts with EXECUTE STATEMENT SET BEGIN or BEGIN STATEMENT SET;",
            )
        meant = nearest(token.key, _STATEMENT_WORDS)
        return self._fail(
            "SQL-012",
            f"unknown statement '{token.value}'",
            self._token_span(token),
            f"did you mean '{meant}'?" if meant else listed,
        )

    def _parse_set_or_reset(self) -> ast.Statement:
        """SET | SET 'key' = 'value' | RESET | RESET 'key'; the lexer reads unquoted keys and values as text."""
        start = self._advance()
        if start.key == "RESET":
            key = self._advance().value if self.token.kind == "text" else None
            return ast.ResetOption(self._span(start.start), key)
        if self.token.kind == "end" or self._is(";"):
            return ast.SetOption(self._span(start.start), None)
        form = "write SET 'key' = 'value';"
        key_token = self._expect_text("an option's name", form)
        self._expect("=", hint=form)
        value = self._expect_text("an option's value", form)
        option = ast.Option(
            self._token_span(key_token), key_token.value, value.value, self._token_span(value)
        )
        return ast.SetOption(self._span(start.start), option)

    def _parse_execute(self) -> ast.Statement:
        start = self._advance()
        if self._accept("STATEMENT", "SET"):
            self._expect("BEGIN")
            return self._parse_statement_set(start)
        if self._is("INSERT"):
            return self._parse_insert()
        if self.token.key in _QUERY_STARTS:
            query = self._parse_query()
            return ast.QueryStatement(query.span, query)
        raise self._fail_expected("STATEMENT SET, INSERT or a query after EXECUTE")

    def _parse_statement_set(self, start: Token) -> ast.StatementSet:
        """The INSERTs up to END; a wrong one does not hide the mistakes in the others."""
        inserts: list[ast.Insert] = []
        reported = len(self.problems)
        while not self._accept("END"):
            if self._accept(";"):
                continue
            if self.token.kind == "end":
                raise self._fail(
                    "SQL-019",
                    "statement set is not closed",
                    self._token_span(start),
                    "it ends with END;",
                )
            self.depth = 0
            try:
                if not self._is("INSERT"):
                    raise self._fail_expected(
                        "INSERT or END", "a statement set holds INSERT statements only"
                    )
                inserts.append(self._guard(self._parse_insert))
                if not self._is("END"):
                    self._parse_statement_end()
                else:
                    self._report_expected("';'", "each INSERT of a statement set ends with ;")
            except _Abandoned:
                self._skip_statement()
        if not inserts and len(self.problems) == reported:
            raise self._fail(
                "SQL-019",
                "statement set is empty",
                self._span(start.start),
                "put INSERT statements between BEGIN and END",
            )
        return ast.StatementSet(self._span(start.start), tuple(inserts))

    def _parse_explain(self) -> ast.Explain:
        start = self._advance()
        details: list[str] = []
        if not self._accept("PLAN", "FOR"):
            while self.token.key in _EXPLAIN_DETAILS:
                token = self._advance()
                if token.key in details:
                    raise self._fail(
                        "SQL-019", f"{token.key} is given twice", self._token_span(token)
                    )
                details.append(token.key)
                if not self._accept(","):
                    break
        match self.token.key:
            case "SELECT" | "WITH" | "VALUES" | "(" | "TABLE":
                query = self._parse_query()
                statement: ast.Statement = ast.QueryStatement(query.span, query)
            case "INSERT":
                statement = self._parse_insert()
            case "EXECUTE":
                statement = self._parse_execute()
            case "STATEMENT":
                set_start = self._advance()
                self._expect("SET", "BEGIN")
                statement = self._parse_statement_set(set_start)
            case _:
                raise self._fail_expected(
                    "a query, INSERT or STATEMENT SET after EXPLAIN",
                    f"details may be {', '.join(_EXPLAIN_DETAILS)}",
                )
        return ast.Explain(self._span(start.start), statement, tuple(details))

    def _parse_drop(self) -> ast.DropObject:
        start = self._advance()
        temporary = self._accept("TEMPORARY")
        if self.token.key not in ("TABLE", "VIEW"):
            raise self._fail_expected("TABLE or VIEW after DROP")
        kind = self._advance().key
        if_exists = self._accept("IF", "EXISTS")
        name = self._parse_qualified_name(f"a {kind.lower()}'s name")
        return ast.DropObject(self._span(start.start), kind, name, if_exists, temporary)

    def _parse_insert(self) -> ast.Insert:
        start = self._advance()
        overwrite = self._accept("OVERWRITE")
        if not overwrite:
            self._expect("INTO", hint="write INSERT INTO table SELECT …")
        if self._is("TABLE"):
            raise self._fail_expected(
                "a table's name", "write INSERT INTO name, without the word TABLE"
            )
        target = self._parse_qualified_name("a table's name")
        hints = self._parse_hints()
        if self._is("PARTITION"):
            raise self._fail_unsupported(
                "INSERT INTO … PARTITION",
                self._token_span(self.token),
                "select the partition's value as a column",
            )
        columns: tuple[ast.Identifier, ...] = ()
        if self._is("(") and self._peek().key not in (*_QUERY_STARTS, "(", "TABLE"):
            columns = self._parse_identifier_list("a column's name")
        query = self._parse_query()
        if self._is("ON", "CONFLICT"):
            raise self._fail_unsupported("INSERT INTO … ON CONFLICT", self._token_span(self.token))
        return ast.Insert(self._span(start.start), target, columns, query, overwrite, hints)

    # --- CREATE --------------------------------------------------------------------------------

    def _parse_create(self) -> ast.Statement:
        start = self._advance()
        temporary = self._accept("TEMPORARY")
        if self._accept("TABLE"):
            return self._parse_create_table(start, temporary)
        if self._accept("VIEW"):
            return self._parse_create_view(start, temporary)
        word = self.token.value if self.token.kind == "word" else ""
        meant = nearest(word, ("TABLE", "VIEW")) if word else None
        raise self._fail_expected(
            "TABLE or VIEW after CREATE", f"did you mean '{meant}'?" if meant else None
        )

    def _parse_create_view(self, start: Token, temporary: bool) -> ast.CreateView:
        if_not_exists = self._accept("IF", "NOT", "EXISTS")
        name = self._parse_qualified_name("a view's name")
        columns: tuple[ast.Identifier, ...] = ()
        if self._is("("):
            columns = self._parse_identifier_list("a column's name")
        comment = self._parse_comment()
        self._expect("AS")
        query = self._parse_query()
        return ast.CreateView(
            self._span(start.start), name, columns, query, comment, temporary, if_not_exists
        )

    def _parse_create_table(self, start: Token, temporary: bool) -> ast.CreateTable:
        if_not_exists = self._accept("IF", "NOT", "EXISTS")
        name = self._parse_qualified_name("a table's name")
        columns: list[ast.ColumnDefinition] = []
        watermark: ast.WatermarkDefinition | None = None
        primary_key: ast.PrimaryKey | None = None
        if self._is("("):
            opening = self._advance()
            while True:
                element = self._parse_table_element()
                if isinstance(element, ast.ColumnDefinition):
                    columns.append(element)
                elif isinstance(element, ast.WatermarkDefinition):
                    self._refuse_second(watermark, element, "watermark")
                    watermark = element
                else:
                    self._refuse_second(primary_key, element, "primary key")
                    primary_key = element
                if not self._parse_separator(self._starts_column):
                    break
            self._expect_closing(opening, "','")
        comment = self._parse_comment()
        if self._is("DISTRIBUTED"):
            raise self._fail_unsupported(
                "DISTRIBUTED",
                self._token_span(self.token),
                "Kafka's partitions are set at the topic",
            )
        partitioned_by: tuple[ast.Identifier, ...] = ()
        if self._accept("PARTITIONED", "BY"):
            partitioned_by = self._parse_identifier_list("a column's name")
        options = self._parse_options() if self._accept("WITH") else ()
        if self._is("LIKE"):
            raise self._fail_unsupported(
                "CREATE TABLE … LIKE",
                self._token_span(self.token),
                "write the columns and options of the table in full",
            )
        if self._is("AS"):
            raise self._fail_unsupported(
                "CREATE TABLE … AS SELECT",
                self._token_span(self.token),
                "write CREATE TABLE with its columns, then INSERT INTO … SELECT …",
            )
        return ast.CreateTable(
            self._span(start.start),
            name,
            tuple(columns),
            watermark,
            primary_key,
            options,
            comment,
            partitioned_by,
            temporary,
            if_not_exists,
        )

    def _refuse_second(self, first: ast.Node | None, second: ast.Node, what: str) -> None:
        if first is not None:
            self._report("SQL-019", f"table has a second {what}", second.span, "keep one of them")

    def _parse_table_element(
        self,
    ) -> ast.ColumnDefinition | ast.WatermarkDefinition | ast.PrimaryKey:
        start = self.token
        if self._is("WATERMARK"):
            self._advance()
            name = self._parse_watermark_name()
            self._expect("FOR", hint="write WATERMARK FOR column AS expression")
            column = self._parse_qualified_name("a column's name")
            self._expect("AS", hint="write WATERMARK FOR column AS expression")
            expression = self._parse_row_expression("a watermark")
            return ast.WatermarkDefinition(self._span(start.start), column, expression, name)
        if start.key in ("CONSTRAINT", "PRIMARY", "UNIQUE"):
            name = self._parse_identifier("a name") if self._accept("CONSTRAINT") else None
            self._refuse_unique()
            self._expect("PRIMARY", "KEY")
            columns = self._parse_identifier_list("a column's name", _ENFORCED_HINT)
            enforced = self._parse_enforced()
            return ast.PrimaryKey(self._span(start.start), name, columns, enforced)
        return self._parse_column()

    def _parse_watermark_name(self) -> ast.Identifier | None:
        if not self._is_identifier(self.token) or self._peek().key != "FOR":
            return None
        name = self._parse_identifier("a watermark's name")
        if not self.dialect.named_watermarks:
            self._report(
                "SQL-010",
                "a watermark has no name",
                name.span,
                f"write WATERMARK FOR column AS expression, or run it with --dialect {BLINK.name}",
            )
        return name

    def _parse_column(self) -> ast.ColumnDefinition:
        name = self._parse_identifier("a column's name")
        start = name.span.start
        if self._is("."):
            raise self._fail_expected(
                "a type", "a column's name has one part; quote it if it holds a dot"
            )
        if self._accept("AS"):
            expression = self._parse_row_expression("a computed column")
            comment = self._parse_comment()
            return ast.ComputedColumn(self._span(start), name, comment, expression)
        type_, type_span = self._parse_type()
        if self._accept("METADATA"):
            key = self._expect_text("the metadata's key").value if self._accept("FROM") else None
            virtual = self._accept("VIRTUAL")
            comment = self._parse_comment()
            return ast.MetadataColumn(
                self._span(start), name, comment, type_, type_span, key, virtual
            )
        primary_key, enforced = False, None
        if self._accept("CONSTRAINT"):
            self._parse_identifier("a name")
            self._refuse_unique()
            self._expect("PRIMARY", "KEY")
            primary_key, enforced = True, self._parse_enforced()
        elif self._accept("PRIMARY"):
            self._expect("KEY")
            primary_key, enforced = True, self._parse_enforced()
        self._refuse_unique()
        comment = self._parse_comment()
        return ast.PhysicalColumn(
            self._span(start), name, comment, type_, type_span, primary_key, enforced
        )

    def _parse_row_expression(self, owner: str) -> ast.Expression:
        """An expression over the columns of one row, where a query has no place."""
        self.query_refused_in = owner
        expression = self._parse_expression()
        self.query_refused_in = None
        return expression

    def _refuse_unique(self) -> None:
        if self._is("UNIQUE"):
            raise self._fail_unsupported(
                "UNIQUE",
                self._token_span(self.token),
                "Flink knows PRIMARY KEY … NOT ENFORCED only",
            )

    def _parse_enforced(self) -> bool | None:
        if self._accept("NOT", "ENFORCED"):
            return False
        if self._accept("ENFORCED"):
            return True
        return False if self.dialect.key_is_not_enforced else None

    def _parse_comment(self) -> str | None:
        return self._expect_text("a comment's text").value if self._accept("COMMENT") else None

    def _starts_column(self) -> bool:
        """Whether the next tokens look like a further element of a column list, its comma forgotten."""
        token, following = self.token, self._peek()
        if token.key in ("WATERMARK", "CONSTRAINT", "PRIMARY"):
            return following.kind == "word"
        if token.kind not in ("word", "name"):
            return False
        return following.key == "AS" or following.key in _TYPE_NAMES

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
                f"expected ',' before {_describe(self.token)}",
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
                f"expected ')', found {_describe(token)}",
                self._token_span(opening),
                "this parenthesis is not closed",
            )
        hint = None
        if token.key in _STRUCTURE:
            hint = "close the list with ) first"
        elif token.kind == "word" and (meant := nearest(token.key, _COLUMN_WORDS)):
            hint = f"did you mean '{meant}'?"
        raise self._fail_expected(f"{also} or ')'", hint)

    def _parse_options(self) -> tuple[ast.Option, ...]:
        if not self._is("("):
            raise self._fail_expected("'('", "write WITH ('key' = 'value', …)")
        opening = self._advance()
        options: list[ast.Option] = []
        while not self._is(")"):
            options.append(self._parse_option())
            if not self._parse_separator(lambda: self.token.kind in ("text", "word", "name")):
                break
        self._expect_closing(opening, "','")
        return tuple(options)

    def _parse_option(self) -> ast.Option:
        key, key_span = self._parse_option_text("name")
        self._expect("=", hint="write 'key' = 'value'")
        value, value_span = self._parse_option_text("value")
        return ast.Option(key_span, key, value, value_span)

    def _parse_option_text(self, what: str) -> tuple[str, Span]:
        """A text; one without its quotes is reported and read up to the sign that ends it."""
        if self.token.kind == "text":
            token = self._advance()
            return token.value, self._token_span(token)
        start = self.at
        while self.token.kind not in ("text", "end") and self.token.key not in _OPTION_ENDS:
            self._advance()
        if self.at == start:
            raise self._fail_expected(f"an option's {what} in single quotes")
        span = self._span(self.tokens[start].start)
        pieces = self.tokens[start : self.at]
        bare_key = what == "name" and all(a.end == b.start for a, b in pairwise(pieces))
        if bare_key:
            key = "".join(piece.value for piece in pieces)
            if self.dialect.bare_options:
                return key, span
            hint = f"write '{key}', or run it with --dialect {BLINK.name}"
        elif "\n" in span.text:
            hint = "write it in single quotes"
        else:
            hint = f"write '{span.text}'"
        self._report("SQL-010", f"option's {what} must be in single quotes", span, hint)
        return span.text, span

    def _expect_text(self, what: str, hint: str | None = None) -> Token:
        if self.token.kind != "text":
            raise self._fail_expected(f"{what} in single quotes", hint)
        return self._advance()

    # --- names ---------------------------------------------------------------------------------

    def _parse_identifier(self, what: str) -> ast.Identifier:
        token = self.token
        if token.kind == "name" or (token.kind == "word" and token.key not in RESERVED):
            self._advance()
            return ast.Identifier(self._token_span(token), token.value)
        raise self._fail_identifier(what)

    def _fail_identifier(self, what: str) -> _Abandoned:
        token, following = self.token, self._peek()
        if token.kind == "word" and token.key not in _STRUCTURE:
            return self._fail(
                "SQL-014",
                f"'{token.value}' is a reserved word",
                self._token_span(token),
                f"as a name it needs back quotes: `{token.value}`",
            )
        hint = None
        if token.kind == "number" and following.kind == "word" and following.start == token.end:
            name = self.source.text[token.start : following.end]
            hint = f"a name that starts with a digit needs back quotes: `{name}`"
        elif token.kind == "text":
            hint = "a name is written bare or in back quotes, not in single quotes"
        elif self.at and self.tokens[self.at - 1].key == ",":
            hint = "remove the comma, or write what should follow it"
        return self._fail_expected(what, hint)

    def _parse_qualified_name(self, what: str) -> ast.QualifiedName:
        parts = [self._parse_identifier(what)]
        while self._accept("."):
            parts.append(self._parse_identifier("a name after '.'"))
        return ast.QualifiedName(self._span(parts[0].span.start), tuple(parts))

    def _parse_identifier_list(
        self, what: str, hint: str | None = None
    ) -> tuple[ast.Identifier, ...]:
        self._expect("(", hint=hint)
        names = [self._parse_identifier(what)]
        while self._accept(","):
            names.append(self._parse_identifier(what))
        self._expect(")")
        return tuple(names)

    def _is_identifier(self, token: Token) -> bool:
        return token.kind == "name" or (token.kind == "word" and token.key not in RESERVED)

    # --- queries -------------------------------------------------------------------------------

    def _parse_query(self) -> ast.Query:
        self._enter()
        if self.query_refused_in:
            span = self._token_span(self.token)
            raise self._fail("SQL-019", f"{self.query_refused_in} cannot hold a query", span)
        start = self.token.start
        common_tables: list[ast.CommonTable] = []
        if self._accept("WITH"):
            if self._is("RECURSIVE"):
                raise self._fail_unsupported("WITH RECURSIVE", self._token_span(self.token))
            common_tables.append(self._parse_common_table())
            while self._accept(","):
                common_tables.append(self._parse_common_table())
        query = self._parse_query_tail(start, tuple(common_tables), self._parse_body(None))
        self._leave()
        return query

    def _parse_common_table(self) -> ast.CommonTable:
        name = self._parse_identifier("a name for the query")
        columns: tuple[ast.Identifier, ...] = ()
        if self._is("("):
            columns = self._parse_identifier_list("a column's name")
        self._expect("AS", "(")
        query = self._parse_query()
        self._expect(")")
        return ast.CommonTable(self._span(name.span.start), name, columns, query)

    def _parse_query_tail(
        self, start: int, common_tables: tuple[ast.CommonTable, ...], body: ast.QueryBody
    ) -> ast.Query:
        """[ORDER BY …] [LIMIT n [OFFSET m] | OFFSET m [FETCH …] | FETCH …] behind a body."""
        order_by = self._parse_order_by()
        limit = offset = None
        if self._accept("LIMIT"):
            if not self._accept("ALL"):
                limit = self._parse_row_count()
            if self._is(","):
                raise self._fail_expected("OFFSET", "write LIMIT count OFFSET start")
        if self._accept("OFFSET"):
            offset = self._parse_row_count()
            if not self._accept("ROWS"):
                self._accept("ROW")
            if self._is("LIMIT"):
                raise self._fail_expected("the end of the query", "write LIMIT before OFFSET")
        if limit is None and self._accept("FETCH"):
            if not self._accept("FIRST"):
                self._expect("NEXT")
            limit = self._parse_row_count()
            if not self._accept("ROWS"):
                self._expect("ROW")
            self._expect("ONLY")
        return ast.Query(self._span(start), body, common_tables, order_by, limit, offset)

    def _parse_row_count(self) -> ast.Expression:
        if self.token.kind != "number":
            raise self._fail_expected("a number of rows")
        token = self._advance()
        return ast.NumberLiteral(self._token_span(token), token.value)

    def _parse_body(self, left: ast.QueryBody | None) -> ast.QueryBody:
        left = self._parse_intersections(left)
        while self.token.key in ("UNION", "EXCEPT"):
            operator = self._advance().key
            all_ = self._parse_all()
            right = self._parse_intersections(None)
            left = ast.SetOperation(self._span(left.span.start), operator, all_, left, right)
        if self._is("MINUS"):
            raise self._fail_expected("the end of the query", "write EXCEPT")
        return left

    def _parse_intersections(self, left: ast.QueryBody | None) -> ast.QueryBody:
        left = left or self._parse_query_term()
        while self._accept("INTERSECT"):
            all_ = self._parse_all()
            right = self._parse_query_term()
            left = ast.SetOperation(self._span(left.span.start), "INTERSECT", all_, left, right)
        return left

    def _parse_all(self) -> bool:
        return self._accept("ALL") or (self._accept("DISTINCT") and False)

    def _parse_query_term(self) -> ast.QueryBody:
        start = self.token.start
        if self._is("SELECT"):
            return self._parse_select()
        if self._accept("VALUES"):
            rows = [self._parse_values_row()]
            while self._accept(","):
                rows.append(self._parse_values_row())
            return ast.Values(self._span(start), tuple(rows))
        if self._accept("("):
            query = self._parse_query()
            self._expect(")")
            return ast.NestedQuery(self._span(start), query)
        if self._accept("TABLE"):  # TABLE t is SELECT * FROM t
            name = self._parse_qualified_name("a table's name")
            star = ast.SelectItem(name.span, ast.Star(name.span))
            return ast.Select(self._span(start), (star,), ast.TableReference(name.span, name))
        raise self._fail_expected("a query (SELECT, VALUES or WITH)")

    def _parse_values_row(self) -> ast.RowConstructor:
        value = self._parse_expression()
        if isinstance(value, ast.RowConstructor):
            return value
        return ast.RowConstructor(value.span, (value,))

    def _parse_select(self) -> ast.Select:
        start = self._advance().start
        hints = self._parse_hints()
        if self._is("STREAM"):
            raise self._fail_unsupported(
                "SELECT STREAM",
                self._token_span(self.token),
                "every query is a stream: write SELECT",
            )
        distinct = self._accept("DISTINCT")
        if not distinct:
            self._accept("ALL")
        items = [self._parse_select_item()]
        while self._is(","):
            comma = self._advance()
            if self._is("FROM") or self._is(";") or self._is(")"):
                self._report(
                    "SQL-010",
                    f"expected an expression after ',', found {_describe(self.token)}",
                    self._token_span(comma),
                    "remove the last comma",
                )
                break
            items.append(self._parse_select_item())
        if self.token.kind in ("name", "number", "text") or self._is_identifier(self.token):
            hint = "a comma may be missing" if items[-1].alias is not None else None
            raise self._fail_expected("',' or FROM", hint)
        source = where = having = qualify = None
        group_by: tuple[ast.Expression | ast.GroupingSet, ...] | None = None
        windows: list[tuple[ast.Identifier, ast.WindowSpecification]] = []
        if self._accept("FROM"):
            source = self._parse_from()
            if self._accept("WHERE"):
                where = self._parse_expression()
            if self._accept("GROUP"):
                self._expect("BY")
                group_by = self._parse_group_by()
            if self._accept("HAVING"):
                having = self._parse_expression()
            if self._accept("WINDOW"):
                windows.append(self._parse_named_window())
                while self._accept(","):
                    windows.append(self._parse_named_window())
            if self._accept("QUALIFY"):
                qualify = self._parse_expression()
        elif self.token.key in ("WHERE", "GROUP", "HAVING"):
            raise self._fail_expected("FROM", f"{self.token.key} needs a FROM clause before it")
        return ast.Select(
            self._span(start),
            tuple(items),
            source,
            where,
            group_by,
            having,
            qualify,
            tuple(windows),
            distinct,
            hints,
        )

    def _parse_select_item(self) -> ast.SelectItem:
        start = self.token.start
        if self._is("*"):
            star = ast.Star(self._token_span(self._advance()))
            return ast.SelectItem(star.span, star)
        if qualified := self._parse_qualified_star():
            return ast.SelectItem(qualified.span, qualified)
        expression = self._parse_expression()
        alias = self._parse_alias()
        if alias is None and self.token.kind == "text":
            raise self._fail_expected(
                "',' or FROM", "a column's alias is a bare name or stands in back quotes"
            )
        return ast.SelectItem(self._span(start), expression, alias)

    def _parse_qualified_star(self) -> ast.Star | None:
        distance = 0
        while self._is_identifier(self._peek(distance)) and self._peek(distance + 1).key == ".":
            distance += 2
        if distance == 0 or self._peek(distance).key != "*":
            return None
        start = self.token.start
        parts = [self._parse_identifier("a name")]
        while self._accept(".") and not self._is("*"):
            parts.append(self._parse_identifier("a name"))
        last = parts[-1].span.end
        self._advance()
        qualifier = ast.QualifiedName(Span(self.source, start, last), tuple(parts))
        return ast.Star(self._span(start), qualifier)

    def _parse_alias(self) -> ast.Identifier | None:
        if self._accept("AS"):
            return self._parse_identifier("an alias")
        if self._is_identifier(self.token) and self.token.key not in ("RLIKE", "ILIKE"):
            return self._parse_identifier("an alias")
        return None

    def _parse_group_by(self) -> tuple[ast.Expression | ast.GroupingSet, ...]:
        if self._is("DISTINCT"):
            raise self._fail_unsupported("GROUP BY DISTINCT", self._token_span(self.token))
        self._accept("ALL")
        elements: list[ast.Expression | ast.GroupingSet] = []
        while True:
            elements += self._parse_grouping_element()
            if not self._accept(","):
                return tuple(elements)

    def _parse_grouping_element(self) -> Iterable[ast.Expression | ast.GroupingSet]:
        start = self.token
        if self._accept("GROUPING", "SETS") or start.key in ("CUBE", "ROLLUP"):
            kind = "GROUPING SETS" if start.key == "GROUPING" else self._advance().key
            self._expect("(")
            sets = [self._parse_grouping_set()]
            while self._accept(","):
                sets.append(self._parse_grouping_set())
            self._expect(")")
            return (ast.GroupingSet(self._span(start.start), kind, tuple(sets)),)
        if self._accept("(", ")"):  # the group of all rows
            return (ast.GroupingSet(self._span(start.start), "GROUPING SETS", ((),)),)
        expression = self._parse_expression()
        if isinstance(expression, ast.RowConstructor) and start.key == "(":
            return expression.items  # GROUP BY (a, b) is GROUP BY a, b
        return (expression,)

    def _parse_grouping_set(self) -> tuple[ast.Expression, ...]:
        start = self.token
        if start.key in ("CUBE", "ROLLUP") or self._is("GROUPING", "SETS"):
            raise self._fail_unsupported(
                f"{start.key} inside another grouping",
                self._token_span(start),
                "write the sets in full",
            )
        if self._accept("(", ")"):
            return ()
        expression = self._parse_expression()
        if isinstance(expression, ast.RowConstructor) and start.key == "(":
            return expression.items
        return (expression,)

    def _parse_order_by(self) -> tuple[ast.OrderItem, ...]:
        if not self._accept("ORDER"):
            return ()
        self._expect("BY")
        items = [self._parse_order_item()]
        while self._accept(","):
            items.append(self._parse_order_item())
        return tuple(items)

    def _parse_order_item(self) -> ast.OrderItem:
        expression = self._parse_expression()
        descending = self._accept("DESC")
        if not descending:
            self._accept("ASC")
        nulls_first = None
        if self._accept("NULLS"):
            nulls_first = self._accept("FIRST")
            if not nulls_first:
                self._expect("LAST")
        return ast.OrderItem(self._span(expression.span.start), expression, descending, nulls_first)

    def _parse_named_window(self) -> tuple[ast.Identifier, ast.WindowSpecification]:
        name = self._parse_identifier("a window's name")
        self._expect("AS")
        return name, self._parse_window_specification()

    def _parse_window_specification(self) -> ast.WindowSpecification:
        start = self.token.start
        self._expect("(")
        base = (
            self._parse_identifier("a window's name") if self._is_identifier(self.token) else None
        )
        partition_by: tuple[ast.Expression, ...] = ()
        if self._accept("PARTITION"):
            self._expect("BY")
            partition_by = self._parse_expression_list()
        order_by = self._parse_order_by()
        frame = None
        if self.token.key in ("ROWS", "RANGE"):
            unit = self._advance()
            if self._accept("BETWEEN"):
                low = self._parse_frame_bound()
                self._expect("AND")
                frame = ast.WindowFrame(
                    self._span(unit.start), unit.key, low, self._parse_frame_bound()
                )
                frame = replace(frame, span=self._span(unit.start))
            else:
                low = self._parse_frame_bound()
                frame = ast.WindowFrame(self._span(unit.start), unit.key, low, None)
        self._expect(")")
        return ast.WindowSpecification(self._span(start), base, partition_by, order_by, frame)

    def _parse_frame_bound(self) -> ast.FrameBound:
        start = self.token.start
        for words in (("CURRENT", "ROW"), ("UNBOUNDED", "PRECEDING"), ("UNBOUNDED", "FOLLOWING")):
            if self._accept(*words):
                return ast.FrameBound(self._span(start), " ".join(words))
        value = self._parse_expression()
        if self.token.key not in ("PRECEDING", "FOLLOWING"):
            raise self._fail_expected("PRECEDING or FOLLOWING")
        return ast.FrameBound(self._span(start), self._advance().key, value)

    # --- relations -----------------------------------------------------------------------------

    def _parse_from(self) -> ast.Relation:
        return self._parse_joins(self._parse_table())

    def _parse_joins(self, left: ast.Relation) -> ast.Relation:
        while True:
            start = left.span.start
            if self._accept(","):
                right = self._parse_table()
                left = ast.Join(self._span(start), "CROSS", left, right)
                continue
            if self.token.key not in _JOIN_STARTS:
                return left
            natural = self._accept("NATURAL")
            kind = self._parse_join_kind()
            right = self._parse_table()
            condition: ast.Expression | None = None
            using: tuple[ast.Identifier, ...] = ()
            word = self.token
            if self._accept("ON"):
                condition = self._parse_expression()
            elif self._accept("USING"):
                using = self._parse_identifier_list("a column's name")
            left = ast.Join(self._span(start), kind, left, right, condition, using, natural)
            self._check_join_condition(left, word)

    def _check_join_condition(self, join: ast.Join, word: Token) -> None:
        conditions = (join.condition is not None) + bool(join.using) + join.natural
        if join.kind == "CROSS" and conditions:
            raise self._fail(
                "SQL-010",
                "cannot specify condition (NATURAL keyword, or ON or USING clause) following CROSS JOIN",
                self._token_span(word),
                "write JOIN … ON …",
            )
        if join.kind != "CROSS" and not conditions:
            raise self._fail_expected("ON or USING", "only CROSS JOIN goes without a condition")
        if conditions > 1:
            raise self._fail(
                "SQL-010",
                "cannot specify NATURAL keyword with ON or USING clause",
                self._token_span(word),
            )

    def _parse_join_kind(self) -> str:
        token = self.token
        if self._accept("JOIN"):
            return "INNER"
        following = self._peek().key
        if token.key in ("LEFT", "RIGHT") and following in ("SEMI", "ANTI"):
            raise self._fail_unsupported(
                f"{token.key} {following} JOIN",
                Span(self.source, token.start, self._peek().end),
                "write WHERE [NOT] EXISTS (SELECT …) or [NOT] IN (SELECT …), as Flink does",
            )
        if following == "APPLY":
            raise self._fail_unsupported(
                f"{token.key} APPLY", self._token_span(token), "write JOIN LATERAL TABLE(…)"
            )
        kind = self._advance().key
        if kind in ("LEFT", "RIGHT", "FULL"):
            self._accept("OUTER")
        self._expect("JOIN")
        return kind

    def _parse_table(self) -> ast.Relation:
        """One operand of FROM: a table, a table function, or something in parentheses, with its alias."""
        start = self.token
        lateral = self._accept("LATERAL")
        if self._is("("):
            inner = self._parse_table_parentheses()
            if isinstance(inner, ast.Query):
                relation: ast.Relation = ast.Subquery(
                    self._span(start.start), inner, lateral=lateral
                )
            elif lateral:
                raise self._fail_expected("a query in parentheses after LATERAL")
            else:
                relation = inner
                aliased = isinstance(relation, ast.Join) or getattr(relation, "alias", None)
                if aliased and (self._is("AS") or self._is_identifier(self.token)):
                    raise self._fail_expected(
                        "the next clause", "the tables in parentheses have their names already"
                    )
        elif self._accept("UNNEST"):
            name = self._function_name(self.tokens[self.at - 1])
            self._expect("(")
            arguments = self._parse_expression_list()
            self._expect(")")
            call = ast.FunctionCall(self._span(name.span.start), name, arguments)
            ordinality = self._accept("WITH", "ORDINALITY")
            relation = ast.TableFunction(
                self._span(start.start), call, lateral=lateral, with_ordinality=ordinality
            )
        elif self._accept("TABLE"):
            self._expect("(", hint="in FROM a table is named alone, without the word TABLE")
            name = self._parse_function_name()
            call = self._parse_call(name, in_table=True)
            self._expect(")")
            relation = ast.TableFunction(self._span(start.start), call, lateral=lateral)
        elif lateral:
            raise self._fail_expected("TABLE(…), UNNEST(…) or a query in parentheses after LATERAL")
        elif self.token.key in _QUERY_STARTS:
            raise self._fail_expected("a table", "a query in FROM stands in parentheses")
        else:
            relation = self._parse_named_table()
        self._refuse_table_clause()
        relation = self._parse_table_alias(relation)
        self._refuse_table_clause()
        if self._is("FOR", "SYSTEM_TIME"):
            raise self._fail_expected(
                "the next clause", "write table FOR SYSTEM_TIME AS OF time AS alias, in this order"
            )
        return relation

    def _parse_named_table(self) -> ast.Relation:
        name = self._parse_qualified_name("a table")
        start = name.span.start
        if self._is("("):
            call = self._parse_call(name, in_table=True)
            return ast.TableFunction(self._span(start), call)
        hints = self._parse_hints()
        as_of = None
        if self._accept("FOR"):
            self._expect("SYSTEM_TIME", "AS", "OF")
            as_of = self._parse_expression()
        return ast.TableReference(self._span(start), name, hints=hints, as_of=as_of)

    def _refuse_table_clause(self) -> None:
        key = self.token.key
        if key in ("MATCH_RECOGNIZE", "TABLESAMPLE", "PIVOT") or self._is("UNPIVOT", "("):
            raise self._fail_unsupported(key, self._token_span(self.token))

    def _parse_table_alias(self, relation: ast.Relation) -> ast.Relation:
        alias = self._parse_alias()
        if alias is None:
            return relation
        columns: tuple[ast.Identifier, ...] = ()
        if self._is("("):
            columns = self._parse_identifier_list("a column's name")
        assert isinstance(relation, (ast.TableReference, ast.Subquery, ast.TableFunction))
        return replace(
            relation, span=self._span(relation.span.start), alias=alias, column_aliases=columns
        )

    def _parse_table_parentheses(self) -> ast.Relation | ast.Query:
        """From `(` to its `)`: a query, or tables joined. Decided without going back: a query that stands in
        parentheses of its own may turn out to be the first table of a join, or a part of a larger query."""
        self._enter()
        self._expect("(")
        start = self.token.start
        inner: ast.Relation | ast.Query
        if self.token.key in _QUERY_STARTS or self._is("TABLE") and self._peek().key != "(":
            inner = self._parse_query()
        elif self._is("("):
            inner = self._parse_table_parentheses()
            if isinstance(inner, ast.Query):
                span = self._span(start)
                if self.token.key in _QUERY_CONTINUES:
                    body = self._parse_body(ast.NestedQuery(span, inner))
                    inner = self._parse_query_tail(start, (), body)
                elif not self._is(")"):
                    inner = self._parse_joins(self._parse_table_alias(ast.Subquery(span, inner)))
            else:
                inner = self._parse_joins(inner)
        else:
            inner = self._parse_from()
        self._expect(")")
        self._leave()
        return inner

    def _parse_hints(self) -> tuple[ast.Hint, ...]:
        """/*+ NAME('key' = 'value', …), … */ behind SELECT or a table's name."""
        if not self._accept("/*+"):
            return ()
        hints = [self._parse_hint()]
        while self._accept(","):
            hints.append(self._parse_hint())
        self._expect("*/")
        return tuple(hints)

    def _parse_hint(self) -> ast.Hint:
        name = self._parse_identifier("a hint's name")
        arguments: list[tuple[str | None, str]] = []
        if self._accept("(") and not self._accept(")"):
            arguments.append(self._parse_hint_argument())
            while self._accept(","):
                arguments.append(self._parse_hint_argument())
            self._expect(")")
        return ast.Hint(self._span(name.span.start), name.name.upper(), tuple(arguments))

    def _parse_hint_argument(self) -> tuple[str | None, str]:
        first = self._parse_hint_word()
        return (first, self._parse_hint_word()) if self._accept("=") else (None, first)

    def _parse_hint_word(self) -> str:
        if self.token.kind not in ("text", "number") and not self._is_identifier(self.token):
            raise self._fail_expected("a text, number or name in the hint")
        return self._advance().value

    # --- expressions ---------------------------------------------------------------------------

    def _parse_expression_list(self) -> tuple[ast.Expression, ...]:
        items = [self._parse_expression()]
        while self._accept(","):
            items.append(self._parse_expression())
        return tuple(items)

    def _parse_expression(self, floor: int = 0) -> ast.Expression:
        """An operand and all operators behind it that bind at least as tightly as `floor`."""
        self._enter()
        expression = self._parse_operators(self._parse_operand(), floor)
        self._leave()
        return expression

    def _parse_operators(self, left: ast.Expression, floor: int) -> ast.Expression:
        while True:
            key = self.token.key
            power = _POWER.get(key)
            if power is None or power < floor:
                return left
            start = left.span.start
            negated = key == "NOT"
            if negated:
                if self._peek().key not in _NEGATABLE:
                    return left
                self._advance()
                key = self.token.key
            match key:
                case "[":
                    self._advance()
                    index = self._parse_expression()
                    self._expect("]")
                    left = ast.ElementAccess(self._span(start), left, index)
                case ".":
                    self._advance()
                    if self._is("*"):
                        raise self._fail_expected(
                            "a field's name", "t.* may stand only in a select list"
                        )
                    name = self._parse_identifier("a field's name")
                    left = ast.FieldAccess(self._span(start), left, name)
                case "IS":
                    left = self._parse_is(left)
                case "IN":
                    self._advance()
                    left = self._parse_in(left, negated)
                case "BETWEEN":
                    self._advance()
                    symmetric = self._accept("SYMMETRIC")
                    if not symmetric:
                        self._accept("ASYMMETRIC")
                    low = self._parse_expression(_AND + 1)
                    self._expect("AND", hint="write value BETWEEN low AND high")
                    high = self._parse_expression(_PREDICATE + 1)
                    left = ast.Between(self._span(start), left, low, high, negated, symmetric)
                case "LIKE" | "SIMILAR":
                    self._advance()
                    if key == "SIMILAR":
                        self._expect("TO")
                    pattern = self._parse_expression(_PREDICATE + 1)
                    escape = None
                    if self._accept("ESCAPE"):
                        escape = self._parse_expression(_PREDICATE + 1)
                    left = ast.Like(
                        self._span(start), left, pattern, negated, escape, key == "SIMILAR"
                    )
                case "OVERLAPS":
                    function = self._function_name(self._advance())
                    right = self._parse_expression(power + 1)
                    left = ast.FunctionCall(
                        self._span(start), function, (left, right), form="OVERLAPS"
                    )
                case _:
                    token = self._advance()
                    if power == _COMPARE and self.token.key in ("ANY", "SOME", "ALL"):
                        left = self._parse_quantified(left, token)
                        continue
                    right = self._parse_expression(power + 1)
                    operator = "<>" if key == "!=" else key
                    left = ast.Binary(self._span(start), operator, left, right)

    def _parse_is(self, left: ast.Expression) -> ast.Expression:
        start = left.span.start
        self._expect("IS")
        negated = self._accept("NOT")
        for test in ("NULL", "TRUE", "FALSE", "UNKNOWN"):
            if self._accept(test):
                return ast.IsTest(self._span(start), left, test, negated)
        if self._accept("DISTINCT", "FROM"):
            other = self._parse_expression(_COMPARE + 1)
            return ast.IsTest(self._span(start), left, "DISTINCT FROM", negated, other)
        if self._accept("JSON"):
            for kind in ("VALUE", "OBJECT", "ARRAY", "SCALAR"):
                if self._accept(kind):
                    return ast.IsTest(self._span(start), left, f"JSON {kind}", negated)
            return ast.IsTest(self._span(start), left, "JSON", negated)
        if self._is("A", "SET") or self._is("EMPTY"):
            raise self._fail_unsupported(f"IS {self.token.key}", self._token_span(self.token))
        raise self._fail_expected("NULL, TRUE, FALSE, UNKNOWN, DISTINCT FROM or JSON after IS")

    def _parse_in(self, left: ast.Expression, negated: bool) -> ast.Expression:
        start = left.span.start
        self._expect("(", hint="write value IN (…)")
        content = self._parse_parentheses_content()
        self._expect(")")
        if isinstance(content, ast.Query):
            return ast.InQuery(self._span(start), left, content, negated)
        return ast.InList(self._span(start), left, tuple(content), negated)

    def _parse_quantified(self, left: ast.Expression, operator: Token) -> ast.Expression:
        """`= ANY (query)` is IN, `<> ALL (query)` is NOT IN; the others have no such form."""
        quantifier = self._advance().key
        negated = operator.key != "="
        span = self._span(operator.start)
        if (operator.key in ("<>", "!=")) != (quantifier == "ALL") or operator.key not in (
            "=",
            "<>",
            "!=",
        ):
            raise self._fail_unsupported(
                f"{operator.key} {quantifier}", span, "compare with MIN or MAX of the query instead"
            )
        return self._parse_in(left, negated)

    def _parse_operand(self) -> ast.Expression:
        """What an operator works on: a literal, a name, a call, something in parentheses, or a signed one."""
        token = self.token
        match token.kind:
            case "number":
                self._advance()
                return ast.NumberLiteral(self._token_span(token), token.value)
            case "text":
                return self._parse_string()
            case "binary":
                self._advance()
                return ast.BinaryLiteral(self._token_span(token), bytes.fromhex(token.value))
            case "name":
                return self._parse_reference()
            case "sign":
                if token.key in ("-", "+"):
                    self._advance()
                    operand = self._parse_expression(_SIGN)
                    return ast.Unary(self._span(token.start), token.key, operand)
                if token.key == "(":
                    inner = self._parse_parentheses()
                    if isinstance(inner, ast.Query):
                        return ast.ScalarQuery(self._span(token.start), inner)
                    return inner
                raise self._fail_operand()
            case "end":
                raise self._fail_operand()
        parse = _OPERAND_WORDS.get(token.key)
        if parse is not None:
            if (result := parse(self)) is not None:
                return result
        elif self._peek().key == "(" and (special := _SPECIAL_CALLS.get(token.key)):
            name = self._function_name(self._advance())
            self._expect("(")
            call = special(self, name)
            if self._is("FILTER") or self._is("OVER"):
                return self._parse_call_suffix(call)
            return call
        return self._parse_reference()

    def _fail_operand(self) -> _Abandoned:
        hint = None
        if self.at and self.tokens[self.at - 1].key == ",":
            hint = "remove the comma, or write what should follow it"
        if self._is("*"):
            hint = "* may stand only in a select list or in COUNT(*)"
        return self._fail_expected("an expression", hint)

    def _parse_string(self) -> ast.StringLiteral:
        """A text; as in Flink it may go on in a second pair of quotes on a further line."""
        first = self._advance()
        value = first.value
        while self.token.kind == "text":
            between = self.source.text[self.tokens[self.at - 1].end : self.token.start]
            if "\n" not in between:
                break
            value += self._advance().value
        return ast.StringLiteral(self._span(first.start), value)

    def _parse_parentheses(self) -> ast.Expression | ast.Query:
        """From `(` to its `)`; the parentheses belong to the expression's span."""
        self._enter()
        start = self.token.start
        self._expect("(")
        content = self._parse_parentheses_content()
        self._expect(")")
        self._leave()
        if isinstance(content, ast.Query):
            return content
        if len(content) == 1:
            return replace(content[0], span=self._span(start))
        return ast.RowConstructor(self._span(start), tuple(content))

    def _parse_parentheses_content(self) -> ast.Query | list[ast.Expression]:
        """A query or a list, decided without going back: `((SELECT 1) UNION …)`, `((SELECT 1) + 2, 3)`."""
        if self.token.key in _QUERY_STARTS:
            return self._parse_query()
        if self._is("("):
            start = self.token.start
            inner = self._parse_parentheses()
            if isinstance(inner, ast.Query):
                if self.token.key in _QUERY_CONTINUES:
                    body = self._parse_body(ast.NestedQuery(self._span(start), inner))
                    return self._parse_query_tail(start, (), body)
                if self._is(")"):
                    return inner
                inner = ast.ScalarQuery(self._span(start), inner)
            items = [self._parse_operators(inner, 0)]
        else:
            items = [self._parse_expression()]
        while self._accept(","):
            items.append(self._parse_expression())
        return items

    def _parse_reference(self) -> ast.Expression:
        """A column, a field of it, or a call."""
        token = self.token
        if token.kind == "word" and token.key in RESERVED:
            called = self._peek().key == "("
            if called and token.key in _FUNCTION_WORDS:
                return self._parse_call(self._function_name(self._advance()))
            if token.key in _NILADIC:
                name = self._function_name(self._advance())
                return ast.FunctionCall(name.span, name, ())
            if token.key in _STRUCTURE:
                raise self._fail_operand()
            raise self._fail_identifier("an expression")
        parts = [self._parse_identifier("an expression")]
        while self._is(".") and self._peek().kind in ("word", "name"):
            self._advance()
            parts.append(self._parse_identifier("a name after '.'"))
        name = ast.QualifiedName(self._span(token.start), tuple(parts))
        if self._is("("):
            return self._parse_call(name)
        return ast.ColumnReference(name.span, name)

    # --- literals and operators that start with a word ---

    def _parse_not(self) -> ast.Expression:
        start = self._advance().start
        operand = self._parse_expression(_NOT)
        return ast.Unary(self._span(start), "NOT", operand)

    def _parse_exists(self) -> ast.Expression:
        start = self._advance().start
        self._expect("(")
        query = self._parse_query()
        self._expect(")")
        return ast.Exists(self._span(start), query)

    def _parse_constant(self) -> ast.Expression:
        token = self._advance()
        span = self._token_span(token)
        if token.key in ("TRUE", "FALSE"):
            return ast.BooleanLiteral(span, token.key == "TRUE")
        return ast.NullLiteral(span)

    def _parse_temporal(self) -> ast.Expression | None:
        """DATE '…'; None when the word is the function of that name."""
        if self._peek().kind != "text":
            return None
        token = self._advance()
        text = self._advance().value
        return ast.TemporalLiteral(self._span(token.start), ast.TemporalKind(token.key), text)

    def _parse_interval(self) -> ast.Expression:
        """INTERVAL [+|-] '…' unit. A number or an expression in place of the text means that many units."""
        start = self._advance().start
        negative = self._accept("-")
        if not negative:
            self._accept("+")
        if self.token.kind in ("text", "number"):
            text = self._advance().value
            unit, to_unit, precision, fraction = self._parse_interval_unit()
            return ast.IntervalLiteral(
                self._span(start), text, negative, unit, to_unit, precision, fraction
            )
        if not self._is("(") and not self._is_identifier(self.token):
            raise self._fail_expected(
                "an interval's text", "write, for example, INTERVAL '5' SECOND"
            )
        count = self._parse_operand()
        unit_start = self.token.start
        unit, to_unit, precision, fraction = self._parse_interval_unit()
        one = ast.IntervalLiteral(
            self._span(unit_start), "1", negative, unit, to_unit, precision, fraction
        )
        return ast.Binary(self._span(start), "*", count, one)

    def _parse_interval_unit(self) -> tuple[str, str | None, int | None, int | None]:
        unit = self._expect_interval_unit(tuple(_INTERVAL_UNITS))
        to_unit = precision = fraction = None
        if self._accept("("):
            precision = self._parse_size()
            if unit == "SECOND" and self._accept(","):
                fraction = self._parse_size()
            self._expect(")")
        if self._is("TO") and _INTERVAL_UNITS[unit]:
            self._advance()
            to_unit = self._expect_interval_unit(_INTERVAL_UNITS[unit])
            if to_unit == "SECOND" and self._accept("("):
                fraction = self._parse_size()
                self._expect(")")
        return unit, to_unit, precision, fraction

    def _expect_interval_unit(self, allowed: tuple[str, ...]) -> str:
        unit = _UNIT_PLURALS.get(self.token.key, self.token.key)
        if unit not in allowed:
            meant = nearest(self.token.key, allowed) if self.token.kind == "word" else None
            raise self._fail_expected(
                f"a unit of time ({', '.join(allowed)})",
                f"did you mean '{meant}'?" if meant else None,
            )
        self._advance()
        return unit

    def _parse_case(self) -> ast.Expression:
        start = self._advance().start
        operand = None if self._is("WHEN") else self._parse_expression()
        branches: list[tuple[ast.Expression, ast.Expression]] = []
        while self._accept("WHEN"):
            conditions = [self._parse_expression()]
            while operand is not None and self._accept(","):
                conditions.append(self._parse_expression())
            self._expect("THEN")
            result = self._parse_expression()
            branches += [(condition, result) for condition in conditions]
        if not branches:
            raise self._fail_expected("WHEN")
        otherwise = self._parse_expression() if self._accept("ELSE") else None
        self._expect("END", hint="CASE ends with END")
        return ast.Case(self._span(start), operand, tuple(branches), otherwise)

    def _parse_row(self) -> ast.Expression | None:
        start = self._advance().start
        self._expect("(", hint="write ROW(value, …)")
        items = () if self._is(")") else self._parse_expression_list()
        self._expect(")")
        return ast.RowConstructor(self._span(start), items)

    def _parse_collection(self) -> ast.Expression | None:
        """ARRAY[…] and MAP[…]; None when MAP is a plain name."""
        token = self.token
        if self._peek().key != "[":
            if token.key == "MAP":
                return None
            self._advance()
            raise self._fail_expected("'['", "write ARRAY[value, …]")
        self._advance()
        self._advance()
        items = () if self._is("]") else self._parse_expression_list()
        self._expect("]")
        span = self._span(token.start)
        if token.key == "ARRAY":
            return ast.ArrayConstructor(span, items)
        if len(items) % 2:
            raise self._fail(
                "SQL-010", "MAP needs a value for every key", span, "write MAP[key, value, …]"
            )
        return ast.MapConstructor(span, items)

    def _refuse_operand(self) -> NoReturn:
        raise self._fail_unsupported(self.token.key, self._token_span(self.token))

    # --- calls ---------------------------------------------------------------------------------

    def _function_name(self, token: Token) -> ast.QualifiedName:
        span = self._token_span(token)
        return ast.QualifiedName(span, (ast.Identifier(span, token.value),))

    def _parse_function_name(self) -> ast.QualifiedName:
        if self.token.kind == "word" and self.token.key in _FUNCTION_WORDS:
            return self._function_name(self._advance())
        return self._parse_qualified_name("a function's name")

    def _parse_call(self, name: ast.QualifiedName, in_table: bool = False) -> ast.FunctionCall:
        start = name.span.start
        self._expect("(")
        if self._accept("*"):
            self._expect(")")
            call = ast.FunctionCall(self._span(start), name, (), star=True)
            return self._parse_call_suffix(call)
        distinct = self._accept("DISTINCT")
        if not distinct:
            self._accept("ALL")
        arguments: list[ast.Expression] = []
        order_by: tuple[ast.OrderItem, ...] = ()
        nulls: str | None = None
        if distinct or not self._is(")"):
            arguments.append(self._parse_argument(in_table))
            while self._accept(","):
                arguments.append(self._parse_argument(in_table))
            nulls = self._parse_null_treatment()
            order_by = self._parse_order_by()
        self._expect(")", hint=self._call_hint())
        call = ast.FunctionCall(
            self._span(start), name, tuple(arguments), distinct, order_by=order_by, nulls=nulls
        )
        return self._parse_call_suffix(call)

    def _call_hint(self) -> str | None:
        started = (
            self.token.kind in ("word", "name", "text", "number")
            and self.token.key not in _STRUCTURE
        )
        return "separate the arguments with commas" if started else None

    def _parse_argument(self, in_table: bool) -> ast.Expression:
        start = self.token.start
        if self._is_identifier(self.token) and self._peek().key == "=>":
            name = self._parse_identifier("an argument's name")
            self._advance()
            value = self._parse_argument(in_table)
            return ast.NamedArgument(self._span(start), name, value)
        if self._is("DEFAULT"):
            raise self._fail_unsupported("DEFAULT as an argument", self._token_span(self.token))
        if self._is("TABLE") and self._peek().key != "(":
            self._advance()
            table = self._parse_qualified_name("a table's name")
            relation: ast.Relation = ast.TableReference(table.span, table)
            return self._parse_table_argument(start, relation)
        if self._is("MODEL") and self._is_identifier(self._peek()):
            raise self._fail_unsupported("MODEL as an argument", self._token_span(self.token))
        if self._is("DESCRIPTOR", "("):
            self._advance()
            columns = (
                () if self._accept("(", ")") else self._parse_identifier_list("a column's name")
            )
            return ast.DescriptorArgument(self._span(start), columns)
        if self.token.key in _QUERY_STARTS:
            query = self._parse_query()
            return self._parse_table_argument(start, ast.Subquery(query.span, query))
        value = self._parse_expression()
        if in_table and isinstance(value, ast.ScalarQuery):
            return self._parse_table_argument(start, ast.Subquery(value.span, value.query))
        return value

    def _parse_table_argument(self, start: int, relation: ast.Relation) -> ast.TableArgument:
        partition_by: tuple[ast.Expression, ...] = ()
        order_by: tuple[ast.OrderItem, ...] = ()
        if self._accept("PARTITION"):
            self._expect("BY")
            partition_by = self._parse_bracketed(self._parse_expression)
        if self._accept("ORDER"):
            self._expect("BY")
            order_by = self._parse_bracketed(self._parse_order_item)
        return ast.TableArgument(self._span(start), relation, partition_by, order_by)

    def _parse_bracketed(self, parse: Callable[[], T]) -> tuple[T, ...]:
        """One item, or several in parentheses."""
        if not self._accept("("):
            return (parse(),)
        items = [parse()]
        while self._accept(","):
            items.append(parse())
        self._expect(")")
        return tuple(items)

    def _parse_null_treatment(self) -> str | None:
        for word in ("IGNORE", "RESPECT"):
            if self._accept(word, "NULLS"):
                return f"{word} NULLS"
        return None

    def _parse_call_suffix(self, call: ast.FunctionCall) -> ast.FunctionCall:
        """[IGNORE NULLS] [WITHIN GROUP (…)] [FILTER (WHERE …)] [OVER …] behind a call."""
        nulls = self._parse_null_treatment() or call.nulls
        order_by = call.order_by
        if self._is("WITHIN", "DISTINCT"):
            raise self._fail_unsupported("WITHIN DISTINCT", self._token_span(self.token))
        if self._accept("WITHIN"):
            self._expect("GROUP", "(")
            if not self._is("ORDER"):
                raise self._fail_expected("ORDER BY")
            order_by = self._parse_order_by()
            self._expect(")")
        condition = None
        if self._accept("FILTER"):
            self._expect("(", "WHERE", hint="write FILTER (WHERE condition)")
            condition = self._parse_expression()
            self._expect(")")
        over: ast.WindowSpecification | ast.Identifier | None = None
        if self._accept("OVER"):
            over = (
                self._parse_window_specification()
                if self._is("(")
                else self._parse_identifier("a window's name or '('")
            )
        span = self._span(call.span.start)
        if span == call.span:
            return call
        return replace(call, span=span, nulls=nulls, order_by=order_by, filter=condition, over=over)

    # --- calls with a syntax of their own: the name and `(` are read, `)` is not ---

    def _end_call(
        self,
        name: ast.QualifiedName,
        arguments: Iterable[ast.Expression],
        form: str | None = None,
        returning: SqlType | None = None,
    ) -> ast.FunctionCall:
        self._expect(")", hint=self._call_hint())
        return ast.FunctionCall(
            self._span(name.span.start), name, tuple(arguments), form=form, returning=returning
        )

    def _parse_cast(self) -> ast.Expression | None:
        """CAST(x AS type), TRY_CAST(x AS type)"""
        if self._peek().key != "(":
            return None
        token = self._advance()
        self._advance()
        operand = self._parse_expression()
        self._expect("AS", hint=f"write {token.key}(value AS type)")
        type_, type_span = self._parse_type(in_cast=True)
        self._expect(")")
        return ast.Cast(self._span(token.start), operand, type_, type_span, token.key == "TRY_CAST")

    def _parse_time_unit(self) -> ast.StringLiteral:
        token = self.token
        word = _UNIT_ALIASES.get(token.key, token.key).removeprefix(_TSI)
        if token.kind != "word" or word not in _TIME_UNITS:
            meant = nearest(word, _TIME_UNITS) if token.kind == "word" else None
            raise self._fail_expected(
                "a unit of time",
                f"did you mean '{meant}'?" if meant else f"units are {', '.join(_TIME_UNITS)}",
            )
        self._advance()
        return ast.StringLiteral(self._token_span(token), word)

    def _parse_extract(self, name: ast.QualifiedName) -> ast.FunctionCall:
        unit = self._parse_time_unit()
        self._expect("FROM", hint="write EXTRACT(unit FROM time)")
        return self._end_call(name, (unit, self._parse_expression()), "EXTRACT")

    def _parse_position(self, name: ast.QualifiedName) -> ast.FunctionCall:
        arguments = [self._parse_expression(_PREDICATE + 1)]
        self._expect("IN", hint="write POSITION(part IN text)")
        arguments.append(self._parse_expression())
        if self._accept("FROM"):
            arguments.append(self._parse_expression())
        return self._end_call(name, arguments, "POSITION")

    def _parse_trim(self, name: ast.QualifiedName) -> ast.FunctionCall:
        """TRIM(x) has no form; TRIM([side] [chars] FROM x) is TRIM(x[, chars]) with its side in the form."""
        side = next((s for s in ("BOTH", "LEADING", "TRAILING") if self._accept(s)), None)
        first = None if self._is("FROM") else self._parse_expression()
        if self._accept("FROM"):
            if side is None and first is None:
                raise self._fail_expected("BOTH, LEADING, TRAILING or the characters to trim")
            text = self._parse_expression()
            arguments = (text,) if first is None else (text, first)
            return self._end_call(name, arguments, f"TRIM {side or 'BOTH'}")
        assert first is not None
        return self._end_call(name, (first,), f"TRIM {side}" if side else None)

    def _parse_substring(self, name: ast.QualifiedName) -> ast.FunctionCall:
        arguments = [self._parse_expression()]
        if not self._accept("FROM"):
            self._expect(",")
        arguments.append(self._parse_expression())
        if self._accept("FOR") or self._accept(","):
            arguments.append(self._parse_expression())
        return self._end_call(name, arguments)

    def _parse_overlay(self, name: ast.QualifiedName) -> ast.FunctionCall:
        form = "write OVERLAY(text PLACING part FROM start [FOR length])"
        arguments = [self._parse_expression()]
        self._expect("PLACING", hint=form)
        arguments.append(self._parse_expression())
        self._expect("FROM", hint=form)
        arguments.append(self._parse_expression())
        if self._accept("FOR"):
            arguments.append(self._parse_expression())
        return self._end_call(name, arguments, "OVERLAY")

    def _parse_rounding(self, name: ast.QualifiedName) -> ast.FunctionCall:
        """CEIL(x), FLOOR(x), and with a unit of time: FLOOR(time TO HOUR) is FLOOR(time, 'HOUR')."""
        value = self._parse_expression()
        if self._accept("TO"):
            return self._end_call(name, (value, self._parse_time_unit()), f"{str(name).upper()} TO")
        return self._end_call(name, (value,))

    def _parse_timestamp_arithmetic(self, name: ast.QualifiedName) -> ast.FunctionCall:
        arguments: list[ast.Expression] = [self._parse_time_unit()]
        for _ in range(2):
            self._expect(",")
            arguments.append(self._parse_expression())
        return self._end_call(name, arguments, str(name).upper())

    def _parse_json_read(self, name: ast.QualifiedName) -> ast.FunctionCall:
        """JSON_EXISTS, JSON_VALUE, JSON_QUERY: value and path, then clauses. The clauses are listed in the form,
        the type after RETURNING is the call's, and DEFAULT x ON EMPTY adds the argument `ON EMPTY => x`."""
        arguments = [self._parse_expression()]
        self._expect(",")
        arguments.append(self._parse_expression())
        function = str(name).upper()
        clauses: list[str] = []
        returning = None
        if self._is("PASSING"):
            raise self._fail_unsupported("PASSING", self._token_span(self.token))
        if function != "JSON_EXISTS" and self._accept("RETURNING"):
            returning, _ = self._parse_type()
        if function == "JSON_QUERY" and self.token.key in ("WITH", "WITHOUT"):
            clauses.append(self._parse_json_wrapper())
        behaviours = _JSON_BEHAVIOURS[function]
        while self.token.key in {words.split()[0] for words in behaviours}:
            start = self.token
            words = next((w for w in behaviours if self._accept(*w.split())), None)
            if words is None:
                raise self._fail_expected(" or ".join(behaviours))
            default = self._parse_expression() if words == "DEFAULT" else None
            self._expect("ON")
            if self.token.key not in ("EMPTY", "ERROR") or (
                function == "JSON_EXISTS" and self._is("EMPTY")
            ):
                raise self._fail_expected(
                    "ERROR" if function == "JSON_EXISTS" else "EMPTY or ERROR"
                )
            event = self._advance().key
            clauses.append(f"{words} ON {event}")
            if default is not None:
                span = self._span(start.start)
                arguments.append(
                    ast.NamedArgument(span, ast.Identifier(span, f"ON {event}"), default)
                )
        form = "JSON " + ", ".join(clauses) if clauses else None
        return self._end_call(name, arguments, form, returning)

    def _parse_json_wrapper(self) -> str:
        kind = self._advance().key
        condition = ""
        if kind == "WITH":
            condition = "CONDITIONAL " if self._accept("CONDITIONAL") else "UNCONDITIONAL "
            if condition == "UNCONDITIONAL ":
                self._accept("UNCONDITIONAL")
        self._accept("ARRAY")
        self._expect("WRAPPER")
        return f"{kind} {condition}WRAPPER"

    def _parse_json_build(self, name: ast.QualifiedName) -> ast.FunctionCall:
        """JSON_OBJECT([KEY] k VALUE v, …) and its kin: keys and values in turn; the form says what NULL becomes."""
        function = str(name).upper()
        by_key = function.startswith("JSON_OBJECT")
        arguments: list[ast.Expression] = []
        order_by: tuple[ast.OrderItem, ...] = ()
        if not self._is(")") and not self._at_json_null_clause():
            while True:
                if by_key and self._is("KEY") and self._peek().key not in ("VALUE", ":", ".", "("):
                    self._advance()
                arguments.append(self._parse_expression())
                if by_key:
                    if not self._accept(":"):
                        self._expect("VALUE", hint=f"write {function}(KEY 'name' VALUE value, …)")
                    arguments.append(self._parse_expression())
                if function.endswith("AGG") or not self._accept(","):
                    break
            if function == "JSON_ARRAYAGG":
                order_by = self._parse_order_by()
        form = None
        if self._at_json_null_clause():
            form = f"JSON {self._advance().key} ON NULL"
            self._expect("ON", "NULL")
        call = self._end_call(name, arguments, form)
        return replace(call, order_by=order_by) if order_by else call

    def _at_json_null_clause(self) -> bool:
        return self._is("NULL", "ON", "NULL") or self._is("ABSENT", "ON", "NULL")

    # --- types ---------------------------------------------------------------------------------

    def _parse_type(self, in_cast: bool = False) -> tuple[SqlType, Span]:
        """A type with its nullability; `INT NOT NULL ARRAY` is an array of INT NOT NULL."""
        self._enter()
        start = self.token.start
        interval = in_cast and self._accept("INTERVAL")
        type_ = self._parse_interval_type() if interval else self._parse_type_name()
        while True:
            if self._accept("NOT", "NULL"):
                type_ = type_.not_null
            elif self._is("NULL") and self._peek().key != "ON":  # RETURNING INT NULL ON EMPTY
                self._advance()
            elif self._accept("ARRAY"):
                type_ = types.ArrayType(True, type_)
            elif self._accept("MULTISET"):
                type_ = types.MultisetType(True, type_)
            else:
                break
        self._leave()
        return type_, self._span(start)

    def _parse_interval_type(self) -> SqlType:
        unit, _, _, _ = self._parse_interval_unit()
        if unit in ("YEAR", "QUARTER", "MONTH"):
            return types.YearMonthIntervalType()
        return types.DayTimeIntervalType()

    def _parse_type_name(self) -> SqlType:
        token = self.token
        key = token.key
        if token.kind != "word":
            raise self._fail_expected("a type")
        if key == "ROW":
            return self._parse_row_type()
        if key in _NESTED_TYPES and self._peek().key == "<":
            self._advance()
            self._advance()
            element, _ = self._parse_type()
            if key == "MAP":
                self._expect(",", hint="write MAP<key type, value type>")
                value, _ = self._parse_type()
                self._expect(">")
                return types.MapType(True, element, value)
            self._expect(">")
            build = types.ArrayType if key == "ARRAY" else types.MultisetType
            return build(True, element)
        if key in _PLAIN_TYPES:
            self._advance()
            if key == "DOUBLE":
                self._accept("PRECISION")
            if self._is("("):
                raise self._fail_expected("the end of the type", f"{key} takes no length")
            return _PLAIN_TYPES[key]
        if key in _SIZED_TYPES:
            return self._parse_sized_type()
        raise self._fail_type()

    def _parse_sized_type(self) -> SqlType:
        token = self._advance()
        key = token.key
        if key in _VARYING and self._accept("VARYING"):
            key = _VARYING[key]
        sizes: list[int] = []
        if self._accept("("):
            sizes.append(self._parse_size())
            if key in ("DECIMAL", "DEC", "NUMERIC") and self._accept(","):
                sizes.append(self._parse_size())
            self._expect(")")
        if key in ("TIME", "TIMESTAMP"):
            key = self._parse_time_zone(token, key)
        if not sizes and self.dialect.unsized_is_unbounded and key in _UNBOUNDED:
            return _UNBOUNDED[key]
        try:
            return _SIZED_TYPES[key](*sizes)
        except ValueError as error:
            raise self._fail("SQL-016", str(error), self._span(token.start)) from None

    def _parse_time_zone(self, token: Token, key: str) -> str:
        if self._accept("WITHOUT"):
            self._expect("TIME", "ZONE")
            return key
        if key == "TIMESTAMP" and self._accept("WITH", "LOCAL", "TIME", "ZONE"):
            return "TIMESTAMP_LTZ"
        if self._is("WITH", "TIME", "ZONE") or self._is("WITH", "LOCAL", "TIME", "ZONE"):
            local = self._accept("WITH", "LOCAL")
            if not local:
                self._advance()
            self._expect("TIME", "ZONE")
            raise self._fail(
                "SQL-016",
                f"type {key} WITH {'LOCAL ' if local else ''}TIME ZONE is not supported",
                self._span(token.start),
                "write TIMESTAMP_LTZ(3) for a point in time"
                if key == "TIMESTAMP"
                else "write TIME",
            )
        return key

    def _parse_row_type(self) -> SqlType:
        self._advance()
        if self._accept("<>"):
            return types.RowType(True, ())
        opening = self.token.key
        if opening not in ("<", "("):
            raise self._fail_expected("'<'", "write ROW<name type, …>")
        self._advance()
        closing = ">" if opening == "<" else ")"
        fields: list[types.Field] = []
        if not self._is(closing):
            fields.append(self._parse_field())
            while self._accept(","):
                fields.append(self._parse_field())
        self._expect(closing)
        return types.RowType(True, tuple(fields))

    def _parse_field(self) -> types.Field:
        name = self._parse_identifier("a field's name")
        type_, _ = self._parse_type()
        comment = self._advance().value if self.token.kind == "text" else None
        return types.Field(name.name, type_, comment)

    def _parse_size(self) -> int:
        if self.token.kind != "number" or not self.token.value.isdigit():
            raise self._fail_expected("a whole number")
        token = self._advance()
        if len(token.value) > 10:
            raise self._fail("SQL-016", "number is too large", self._token_span(token))
        return int(token.value)

    def _fail_type(self) -> _Abandoned:
        token = self.token
        span = self._token_span(token)
        if token.key in _REFUSED_TYPES:
            return self._fail(
                "SQL-016", f"type {token.key} is not supported", span, _REFUSED_TYPES[token.key]
            )
        if token.key in _STRUCTURE:
            return self._fail_expected("a type")
        if token.key in _NESTED_TYPES:
            self._advance()
            return self._fail_expected("'<'", f"write {token.key}<type>")
        foreign = _FOREIGN_TYPES.get(token.key)
        meant = nearest(token.key, _TYPE_NAMES)
        if foreign:
            hint = f"Flink writes {foreign}"
        elif meant:
            hint = f"did you mean '{meant}'?"
        else:
            hint = f"types are {', '.join(_TYPE_NAMES)}"
        return self._fail("SQL-015", f"unknown type '{token.value}'", span, hint)


# --- what a word starts ------------------------------------------------------------------------

_JSON_BEHAVIOURS = {
    "JSON_EXISTS": ("TRUE", "FALSE", "UNKNOWN", "ERROR"),
    "JSON_VALUE": ("NULL", "ERROR", "DEFAULT"),
    "JSON_QUERY": ("NULL", "ERROR", "EMPTY ARRAY", "EMPTY OBJECT"),
}

# Operands that start with a word of their own. None as a result: the word is a plain name after all.
_OPERAND_WORDS: dict[str, Callable[[_Parser], ast.Expression | None]] = {
    "NOT": _Parser._parse_not,
    "EXISTS": _Parser._parse_exists,
    "TRUE": _Parser._parse_constant,
    "FALSE": _Parser._parse_constant,
    "NULL": _Parser._parse_constant,
    "UNKNOWN": _Parser._parse_constant,
    "DATE": _Parser._parse_temporal,
    "TIME": _Parser._parse_temporal,
    "TIMESTAMP": _Parser._parse_temporal,
    "INTERVAL": _Parser._parse_interval,
    "CASE": _Parser._parse_case,
    "CAST": _Parser._parse_cast,
    "TRY_CAST": _Parser._parse_cast,
    "ROW": _Parser._parse_row,
    "ARRAY": _Parser._parse_collection,
    "MAP": _Parser._parse_collection,
    "MULTISET": _Parser._refuse_operand,
    "PERIOD": _Parser._refuse_operand,
    "CURSOR": _Parser._refuse_operand,
    "CLASSIFIER": _Parser._refuse_operand,
    "MATCH_NUMBER": _Parser._refuse_operand,
}

_SPECIAL_CALLS: dict[str, Callable[[_Parser, ast.QualifiedName], ast.FunctionCall]] = {
    "EXTRACT": _Parser._parse_extract,
    "POSITION": _Parser._parse_position,
    "TRIM": _Parser._parse_trim,
    "SUBSTRING": _Parser._parse_substring,
    "OVERLAY": _Parser._parse_overlay,
    "CEIL": _Parser._parse_rounding,
    "CEILING": _Parser._parse_rounding,
    "FLOOR": _Parser._parse_rounding,
    "TIMESTAMPADD": _Parser._parse_timestamp_arithmetic,
    "TIMESTAMPDIFF": _Parser._parse_timestamp_arithmetic,
    "JSON_EXISTS": _Parser._parse_json_read,
    "JSON_VALUE": _Parser._parse_json_read,
    "JSON_QUERY": _Parser._parse_json_read,
    "JSON_OBJECT": _Parser._parse_json_build,
    "JSON_OBJECTAGG": _Parser._parse_json_build,
    "JSON_ARRAY": _Parser._parse_json_build,
    "JSON_ARRAYAGG": _Parser._parse_json_build,
}


def _describe(token: Token) -> str:
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

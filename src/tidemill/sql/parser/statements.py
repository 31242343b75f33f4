"""Statements, each by its first words, and the script that they make up."""

from __future__ import annotations

from tidemill.errors import Span, nearest
from tidemill.sql import ast
from tidemill.sql.lexer import Token
from tidemill.sql.parser.cursor import QUERY_STARTS, Abandoned, word_set
from tidemill.sql.parser.tables import TableParser

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
_OBJECTS = word_set(
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

_EXPLAIN_DETAILS = ("ESTIMATED_COST", "CHANGELOG_MODE", "JSON_EXECUTION_PLAN", "PLAN_ADVICE")


class StatementParser(TableParser):
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
            except Abandoned:
                self._skip_statement()
            self._drop_aftermath(first, reported)
        return statements

    def parse_single_expression(self) -> ast.Expression | None:
        try:
            expression = self._guard(self._parse_expression)
            if self.token.kind != "end":
                raise self._fail_expected("the end of the expression")
            return expression
        except Abandoned:
            self._drop_aftermath(0, 0)
            return None

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

    def _fail_statement(self) -> Abandoned:
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
        if self.token.key in QUERY_STARTS:
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
            except Abandoned:
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
        if self._is("(") and self._peek().key not in (*QUERY_STARTS, "(", "TABLE"):
            columns = self._parse_identifier_list("a column's name")
        query = self._parse_query()
        if self._is("ON", "CONFLICT"):
            raise self._fail_unsupported("INSERT INTO … ON CONFLICT", self._token_span(self.token))
        return ast.Insert(self._span(start.start), target, columns, query, overwrite, hints)

    # --- CREATE ---

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

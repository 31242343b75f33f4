"""Statements, each by its first words, and the script that they make up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidemill.errors import Span, nearest
from tidemill.sql import ast
from tidemill.sql.lexer import Token
from tidemill.sql.parser.cursor import QUERY_STARTS, Abandoned, one_of, word_set
from tidemill.sql.parser.tables import Schema, TableParser

_NOT_IN_A_SCRIPT = "it does not change what a job does: remove it from the script"
_APPEND_ONLY_DML = "only INSERT INTO changes a table; a changelog source brings updates and deletes"
_NO_MATERIALIZED = "write CREATE TABLE and INSERT INTO … SELECT …"
_NO_MODULES = "the built-in functions are always there: remove the statement"
_NO_MODELS = "models belong to Flink: remove the statement"
_NO_PLANS = "a plan is made from the script at every start: keep its INSERT statement only"
_CLIENT = "it is a command of Flink's SQL client: remove it from the script"

# Statements that Flink has and we do not, by their first words; the hint says what to do instead.
_UNSUPPORTED = {
    "CREATE MATERIALIZED TABLE": _NO_MATERIALIZED,
    "CREATE OR REPLACE": "DROP it first, then write CREATE without OR REPLACE",
    "CREATE OR ALTER": _NO_MATERIALIZED,
    "CREATE MODEL": _NO_MODELS,
    "CREATE TEMPORARY MODEL": _NO_MODELS,
    "CREATE CONNECTION": "write the options of the connection at each table",
    "CREATE TEMPORARY CONNECTION": "write the options of the connection at each table",
    "CREATE TEMPORARY SYSTEM CONNECTION": "write the options of the connection at each table",
    "REPLACE TABLE": "DROP the table first, then write CREATE TABLE",
    "ALTER FUNCTION": "write the final form in the CREATE statement",
    "ALTER TEMPORARY": "write the final form in the CREATE statement",
    "ALTER MATERIALIZED TABLE": _NO_MATERIALIZED,
    "ALTER MODEL": _NO_MODELS,
    "ALTER CONNECTION": "write the options of the connection at each table",
    "DROP MATERIALIZED TABLE": "remove the statement",
    "DROP MODEL": "remove the statement",
    "DROP TEMPORARY MODEL": "remove the statement",
    "DROP CONNECTION": "remove the statement",
    "DROP TEMPORARY CONNECTION": "remove the statement",
    "DROP TEMPORARY SYSTEM CONNECTION": "remove the statement",
    "SHOW MATERIALIZED TABLES": _NOT_IN_A_SCRIPT,
    "SHOW CONNECTIONS": _NOT_IN_A_SCRIPT,
    "SHOW CREATE MATERIALIZED TABLE": _NOT_IN_A_SCRIPT,
    "SHOW CREATE MODEL": _NOT_IN_A_SCRIPT,
    "SHOW CREATE CONNECTION": _NOT_IN_A_SCRIPT,
    "LOAD MODULE": _NO_MODULES,
    "UNLOAD MODULE": _NO_MODULES,
    "USE MODULES": _NO_MODULES,
    "EXECUTE PLAN": "a compiled plan belongs to Flink: put its INSERT statement into the script",
    "COMPILE PLAN": _NO_PLANS,
    "COMPILE AND": _NO_PLANS,
    "ANALYZE": _NOT_IN_A_SCRIPT,
    "CALL": "procedures belong to a catalog: remove the statement",
    "DELETE": _APPEND_ONLY_DML,
    "UPDATE": _APPEND_ONLY_DML,
    "MERGE": _APPEND_ONLY_DML,
    "UPSERT": "write INSERT INTO; an upsert-kafka table takes updates by its primary key",
    "TRUNCATE": _APPEND_ONLY_DML,
    "STOP JOB": "stop the running command instead",
    "QUIT": _CLIENT,
    "EXIT": _CLIENT,
    "HELP": _CLIENT,
    "CLEAR": _CLIENT,
    "SOURCE": "give several script files on the command line; they are one script",
}
_LONGEST_NAME = max(len(name.split()) for name in _UNSUPPORTED)

# Words behind these that belong to the statement's name.
_OBJECTS = word_set(
    "TABLE TABLES MATERIALIZED MODULE JOB REPLACE ALTER VIEW FUNCTION SYSTEM EXECUTE PLAN INTO"
)

_STATEMENTS = (
    "CREATE",
    "ALTER",
    "DROP",
    "INSERT INTO",
    "SELECT",
    "WITH",
    "VALUES",
    "EXECUTE STATEMENT SET",
    "BEGIN STATEMENT SET",
    "EXPLAIN",
    "DESCRIBE",
    "SHOW",
    "USE",
    "SET",
    "RESET",
    "ADD JAR",
    "REMOVE JAR",
)
_STATEMENT_WORDS = tuple(dict.fromkeys(s.split()[0] for s in (*_STATEMENTS, "DESC", *_UNSUPPORTED)))
# A word of these after a complete statement means that a `;` was forgotten. Others may be an alias.
_STATEMENT_STARTS = frozenset(s.split()[0] for s in _STATEMENTS) - {"ADD", "REMOVE"}

_CREATED = ("TABLE", "VIEW", "FUNCTION", "CATALOG", "DATABASE")
_LANGUAGES = ("JAVA", "SCALA", "PYTHON", "SQL")
_RESOURCES = ("JAR", "ARTIFACT")
_CONFLICT_ACTIONS = ("ERROR", "NOTHING", "DEDUPLICATE")
_TABLE_CLAUSES = ("COMMENT", "DISTRIBUTED", "PARTITIONED", "WITH")


@dataclass(frozen=True)
class _Shown:
    """What may stand behind the words of a SHOW statement."""

    name: str = ""
    """`after` the words, behind `FROM`, behind FROM but `optional`; empty: none."""
    like: tuple[str, ...] = ()


_LIKE = ("LIKE", "ILIKE")
# The words of a SHOW statement, those with the same beginning in order of their length.
_SHOWN = {
    "TABLES": _Shown("optional", ("LIKE",)),
    "VIEWS": _Shown("optional", ("LIKE",)),
    "CATALOGS": _Shown("", _LIKE),
    "DATABASES": _Shown("optional", _LIKE),
    "FUNCTIONS": _Shown("optional", _LIKE),
    "USER FUNCTIONS": _Shown("optional", _LIKE),
    "PROCEDURES": _Shown("optional", _LIKE),
    "MODELS": _Shown("optional", _LIKE),
    "COLUMNS": _Shown("FROM", ("LIKE",)),
    "PARTITIONS": _Shown("after"),
    "CREATE TABLE": _Shown("after"),
    "CREATE VIEW": _Shown("after"),
    "CREATE CATALOG": _Shown("after"),
    "CURRENT CATALOG": _Shown(),
    "CURRENT DATABASE": _Shown(),
    "MODULES": _Shown(),
    "FULL MODULES": _Shown(),
    "JARS": _Shown(),
    "JOBS": _Shown(),
}

_EXPLAIN_DETAILS = ("ESTIMATED_COST", "CHANGELOG_MODE", "JSON_EXECUTION_PLAN", "PLAN_ADVICE")


class StatementParser(TableParser):
    def parse_statements(self) -> list[ast.Statement]:
        statements = []
        while self.token.kind != "end":
            if self._accept(";"):
                continue
            first, reported = self.at, len(self.problems)
            self._start_statement()
            try:
                statement = self._guard(self._parse_statement)
                statements.append(statement)
                self._parse_statement_end()
            except Abandoned:
                self._skip_statement()
            self._drop_aftermath(first, reported)
        return statements

    def parse_single_expression(self) -> ast.Expression | None:
        self.in_match = True
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
        if self.token.kind == "word":
            self._refuse_unsupported()
        parse = _STATEMENT_PARSERS.get(self.token.key)
        if parse is None:
            raise self._fail_statement()
        return parse(self)

    def _parse_query_statement(self) -> ast.QueryStatement:
        query = self._parse_query()
        return ast.QueryStatement(query.span, query)

    def _refuse_unsupported(self) -> None:
        names: list[str] = []
        for distance in range(_LONGEST_NAME):
            names.append(self._peek(distance).key)
            hint = _UNSUPPORTED.get(" ".join(names))
            if hint is None:
                continue
            while self._peek(len(names)).key in _OBJECTS:
                names.append(self._peek(len(names)).key)
            span = Span(self.source, self.token.start, self._peek(len(names) - 1).end)
            raise self._fail("SQL-013", f"statement {' '.join(names)} is not supported", span, hint)

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
        if self._is("FLINK", "SQL", ">"):
            return self._fail_expected("a statement", "remove the prompt: Flink SQL>")
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
            return self._parse_query_statement()
        raise self._fail_expected("STATEMENT SET, INSERT or a query after EXECUTE")

    def _parse_begin(self) -> ast.StatementSet:
        start = self._advance()
        self._expect("STATEMENT", "SET")
        return self._parse_statement_set(start)

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
            self._start_statement()
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
        if not self._accept("PLAN", "FOR") and self.token.key in _EXPLAIN_DETAILS:
            for token in self._parse_list(self._parse_explain_detail):
                if token.key in details:
                    raise self._fail(
                        "SQL-019", f"{token.key} is given twice", self._token_span(token)
                    )
                details.append(token.key)
        statement: ast.Statement
        match self.token.key:
            case "SELECT" | "WITH" | "VALUES" | "(" | "TABLE":
                statement = self._parse_query_statement()
            case "INSERT":
                statement = self._parse_insert()
            case "EXECUTE":
                statement = self._parse_execute()
            case "STATEMENT":
                set_start = self._advance()
                self._expect("SET", "BEGIN")
                statement = self._parse_statement_set(set_start)
            case "CREATE":
                statement = self._parse_create()
                if not isinstance(statement, ast.CreateTable) or statement.query is None:
                    raise self._fail(
                        "SQL-019",
                        "EXPLAIN takes CREATE TABLE … AS SELECT only",
                        statement.span,
                        "explain a query or an INSERT",
                    )
            case _:
                meant = nearest(self.token.key, _EXPLAIN_DETAILS) if self.token.key else None
                hint = f"details may be {', '.join(_EXPLAIN_DETAILS)}"
                if meant:
                    hint = f"did you mean '{meant}'?"
                if details:
                    hint = "separate the details with commas"
                raise self._fail_expected("a query, INSERT or STATEMENT SET after EXPLAIN", hint)
        return ast.Explain(self._span(start.start), statement, tuple(details))

    def _parse_explain_detail(self) -> Token:
        token = self.token
        self._parse_choice(_EXPLAIN_DETAILS)
        return token

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
        partition: tuple[tuple[ast.Identifier, ast.Expression | None], ...] = ()
        if self._accept("PARTITION"):
            self._expect("(", hint="write PARTITION (column = value, …)")
            partition = self._parse_list(self._parse_partition_value)
            self._expect(")")
        columns: tuple[ast.Identifier, ...] = ()
        if self._is("(") and self._peek().key not in (*QUERY_STARTS, "(", "TABLE"):
            columns = self._parse_identifier_list("a column's name")
        query = self._parse_query()
        on_conflict = None
        if self._accept("ON"):
            self._expect("CONFLICT", "DO", hint="write ON CONFLICT DO NOTHING")
            on_conflict = self._parse_choice(_CONFLICT_ACTIONS)
        return ast.Insert(
            self._span(start.start),
            target,
            columns,
            query,
            overwrite,
            hints,
            partition,
            on_conflict,
        )

    def _parse_partition_value(self) -> tuple[ast.Identifier, ast.Expression | None]:
        column = self._parse_identifier("a column's name")
        return column, self._parse_expression() if self._accept("=") else None

    # --- CREATE ---

    def _parse_create(self) -> ast.Statement:
        start = self._advance()
        temporary = self._accept("TEMPORARY")
        system = self._accept("SYSTEM")
        if system and not temporary:
            raise self._fail(
                "SQL-019",
                "a system function is temporary",
                self._span(start.start),
                "write CREATE TEMPORARY SYSTEM FUNCTION",
            )
        kind = self._parse_object_kind("CREATE", temporary, system)
        if_not_exists = self._accept("IF", "NOT", "EXISTS")
        if self._is("IF", "EXISTS"):
            raise self._fail_expected(f"a {kind.lower()}'s name", "write IF NOT EXISTS")
        match kind:
            case "TABLE":
                return self._parse_create_table(start, temporary, if_not_exists)
            case "VIEW":
                return self._parse_create_view(start, temporary, if_not_exists)
            case "FUNCTION":
                return self._parse_create_function(start, temporary, system, if_not_exists)
        name = self._parse_qualified_name(f"a {kind.lower()}'s name")
        comment = self._parse_comment()
        options = self._parse_options() if self._accept("WITH") else ()
        if self._is("COMMENT"):
            raise self._fail_clause_order("COMMENT comes before WITH")
        span = self._span(start.start)
        if kind == "DATABASE":
            return ast.CreateDatabase(span, name, options, comment, if_not_exists)
        return ast.CreateCatalog(span, self._simple(name), options, comment, if_not_exists)

    def _parse_object_kind(self, verb: str, temporary: bool, system: bool) -> str:
        """What is created, altered or dropped; what cannot be temporary is not."""
        kinds = ("FUNCTION",) if system else _CREATED[:3] if temporary else _CREATED
        word = "system" if system else "temporary"
        hint = None
        if self.token.key in _CREATED and self.token.key not in kinds:
            hint = f"there is no {word} {self.token.key.lower()}"
        return self._parse_choice(kinds, f"{one_of(kinds)} after {verb}", hint)

    def _simple(self, name: ast.QualifiedName) -> ast.Identifier:
        if len(name.parts) > 1:
            raise self._fail("SQL-010", f"'{name}' must be a name of one part", name.span)
        return name.parts[0]

    def _parse_create_view(
        self, start: Token, temporary: bool, if_not_exists: bool
    ) -> ast.CreateView:
        name = self._parse_qualified_name("a view's name")
        columns: tuple[ast.Identifier, ...] = ()
        if self._is("("):
            columns = self._parse_identifier_list("a column's name")
        comment = self._parse_comment()
        self._expect("AS", hint="write CREATE VIEW name AS SELECT …")
        query = self._parse_query()
        return ast.CreateView(
            self._span(start.start), name, columns, query, comment, temporary, if_not_exists
        )

    def _parse_create_table(
        self, start: Token, temporary: bool, if_not_exists: bool
    ) -> ast.CreateTable:
        name = self._parse_qualified_name("a table's name")
        schema = self._parse_schema()
        comment = self._parse_comment()
        distribution = self._parse_distribution() if self._accept("DISTRIBUTED") else None
        partitioned_by: tuple[ast.Identifier, ...] = ()
        if self._accept("PARTITIONED"):
            self._expect("BY")
            partitioned_by = self._parse_identifier_list("a column's name")
        if self._is("USING"):
            raise self._fail_unsupported(
                "USING CONNECTION",
                self._token_span(self.token),
                "write the options of the connection at the table",
            )
        options = self._parse_options() if self._accept("WITH") else ()
        like = query = None
        if self._accept("LIKE"):
            like = self._parse_like()
        elif self._accept("AS"):
            query = self._parse_query()
        self._check_named_columns(schema, query is not None)
        if self.token.key in ("SELECT", "VALUES"):
            raise self._fail_expected("';'", "write AS before the query")
        if self._is("PARTITION"):
            raise self._fail_expected("';'", "write PARTITIONED BY (column, …)")
        if self.token.key in _TABLE_CLAUSES:
            raise self._fail_clause_order(
                "clauses come in this order: columns, COMMENT, DISTRIBUTED, PARTITIONED BY, WITH, LIKE or AS"
            )
        return ast.CreateTable(
            self._span(start.start),
            name,
            tuple(schema.columns),
            schema.watermark,
            schema.primary_key,
            options,
            comment,
            partitioned_by,
            temporary,
            if_not_exists,
            distribution,
            like,
            query,
        )

    def _fail_clause_order(self, hint: str) -> Abandoned:
        return self._fail(
            "SQL-019",
            f"{self.token.key} stands too late, or twice",
            self._token_span(self.token),
            hint,
        )

    def _parse_create_function(
        self, start: Token, temporary: bool, system: bool, if_not_exists: bool
    ) -> ast.CreateFunction:
        name = self._parse_qualified_name("a function's name")
        if system:
            self._simple(name)
        self._expect("AS", hint="write CREATE FUNCTION name AS 'module.function' LANGUAGE PYTHON")
        implementation = self._expect_text("the function's class or, in Python, module.function")
        language = None
        if self._accept("LANGUAGE"):
            word = self.token
            language = self._parse_choice(_LANGUAGES)
            if language == "SQL":
                raise self._fail_unsupported(
                    "LANGUAGE SQL", self._token_span(word), "write a view, or LANGUAGE PYTHON"
                )
        resources: tuple[tuple[str, str], ...] = ()
        if self._is("USING"):
            using = self._advance()
            if language == "PYTHON":
                raise self._fail(
                    "SQL-019",
                    "a Python function has no jar",
                    self._token_span(using),
                    "remove USING",
                )
            resources = self._parse_list(self._parse_resource)
        if self._is("WITH"):
            raise self._fail_unsupported("WITH at a function", self._token_span(self.token))
        return ast.CreateFunction(
            self._span(start.start),
            name,
            implementation.value,
            self._token_span(implementation),
            language,
            temporary,
            system,
            if_not_exists,
            resources,
        )

    def _parse_resource(self) -> tuple[str, str]:
        return self._parse_choice(_RESOURCES), self._expect_text("a path").value

    # --- DROP, ALTER ---

    def _parse_drop(self) -> ast.DropObject:
        start = self._advance()
        temporary = self._accept("TEMPORARY")
        system = self._accept("SYSTEM")
        kind = self._parse_object_kind("DROP", temporary, system)
        if_exists = self._accept("IF", "EXISTS")
        if self._is("IF", "NOT"):
            raise self._fail_expected(f"a {kind.lower()}'s name", "write IF EXISTS")
        name = self._parse_qualified_name(f"a {kind.lower()}'s name")
        cascade = None
        if kind == "DATABASE" and self.token.key in ("CASCADE", "RESTRICT"):
            cascade = self._advance().key == "CASCADE"
        return ast.DropObject(
            self._span(start.start), kind, name, if_exists, temporary, system, cascade
        )

    def _parse_alter(self) -> ast.Alter:
        start = self._advance()
        kind = self._parse_choice(_ALTERED)
        if_exists = kind == "TABLE" and self._accept("IF", "EXISTS")
        name = self._parse_qualified_name(f"a {kind.lower()}'s name")
        changes = _ALTERED[kind]
        word = self.token
        change = _CHANGE_PARSERS[self._parse_choice(changes)](self, word)
        return ast.Alter(self._span(start.start), kind, name, change, if_exists)

    def _parse_rename(self, word: Token) -> ast.TableChange:
        """RENAME TO name, or RENAME column TO name."""
        if self._accept("TO"):
            name = self._parse_qualified_name("a new name")
            return ast.RenameTo(self._span(word.start), name)
        self._refuse_change("COLUMN")
        column = self._parse_qualified_name("TO or a column's name")
        self._expect("TO", hint="write RENAME column TO name")
        self._refuse_nested_field()
        to = self._parse_identifier("the column's new name")
        return ast.RenameColumn(self._span(word.start), column, to)

    def _parse_set_options(self, word: Token) -> ast.TableChange:
        options = self._parse_options("SET")
        return ast.SetOptions(self._span(word.start), options)

    def _parse_reset_options(self, word: Token) -> ast.TableChange:
        keys = self._parse_option_keys()
        return ast.ResetOptions(
            self._span(word.start),
            tuple(key.value for key in keys),
            tuple(self._token_span(key) for key in keys),
        )

    def _parse_add_or_modify(self, word: Token) -> ast.TableChange:
        """One element, or several in parentheses; each column may say where it goes."""
        self._refuse_change("PARTITION", "IF", "COLUMN")
        build = ast.AddElements if word.key == "ADD" else ast.ModifyElements
        if self._accept("DISTRIBUTION"):
            distribution = self._parse_distribution()
            return build(self._span(word.start), distribution=distribution)
        schema = Schema()
        placed: list[ast.PlacedColumn] = []
        opening = self._advance() if self._is("(") else None
        while True:
            element = self._parse_placed_element()
            if isinstance(element, ast.PlacedColumn):
                placed.append(element)
                schema.columns.append(element.definition)
            else:
                self._add_element(schema, element)
            if opening is None or not self._parse_separator(self._starts_column):
                break
        if opening is not None:
            self._expect_closing(opening, "','")
        self._check_named_columns(schema, has_query=False)
        return build(self._span(word.start), tuple(placed), schema.watermark, schema.primary_key)

    def _parse_placed_element(
        self,
    ) -> ast.PlacedColumn | ast.WatermarkDefinition | ast.PrimaryKey:
        self._refuse_nested_field()
        element = self._parse_table_element()
        if not isinstance(element, ast.ColumnDefinition):
            return element
        first = self._accept("FIRST")
        after = None
        if not first and self._accept("AFTER"):
            after = self._parse_qualified_name("a column's name")
        return ast.PlacedColumn(self._span(element.span.start), element, first, after)

    def _refuse_nested_field(self) -> None:
        if self._is_identifier(self.token) and self._peek().key == ".":
            raise self._fail_unsupported(
                "ALTER TABLE of a nested field",
                self._token_span(self.token),
                "write the whole column anew: MODIFY column ROW<…>",
            )

    def _parse_drop_element(self, word: Token) -> ast.TableChange:
        self._refuse_change("PARTITION", "IF", "COLUMN")
        if self._accept("PRIMARY"):
            self._expect("KEY")
            return ast.DropElement(self._span(word.start), "PRIMARY KEY")
        if self._accept("CONSTRAINT"):
            name = self._parse_identifier("the constraint's name")
            return ast.DropElement(self._span(word.start), "CONSTRAINT", name)
        for what in ("WATERMARK", "DISTRIBUTION"):
            if self._accept(what):
                return ast.DropElement(self._span(word.start), what)
        columns = self._parse_bracketed(lambda: self._parse_qualified_name("a column's name"))
        return ast.DropColumns(self._span(word.start), columns)

    def _refuse_change(self, *keys: str) -> None:
        key = self.token.key
        if key not in keys:
            return
        if key == "COLUMN":
            raise self._fail_expected("a column's name", "leave out the word COLUMN")
        if key == "PARTITION" or self._peek().key in ("NOT", "EXISTS"):
            raise self._fail_unsupported(
                "PARTITION in ALTER TABLE",
                self._token_span(self.token),
                "partitions come and go with the data",
            )

    def _parse_redefinition(self, word: Token) -> ast.TableChange:
        query = self._parse_query()
        return ast.RedefineView(self._span(word.start), query)

    def _parse_new_comment(self, word: Token) -> ast.TableChange:
        text = self._expect_text("a comment's text").value
        return ast.Comment(self._span(word.start), text)

    # --- USE, SHOW, DESCRIBE, jars ---

    def _parse_use(self) -> ast.Use:
        start = self._advance()
        if self._is("DATABASE") and self._is_identifier(self._peek()):
            raise self._fail_expected("a database's name", "leave out the word DATABASE")
        catalog = self._is_identifier(self._peek()) and self._accept("CATALOG")
        name = self._parse_qualified_name(f"a {'catalog' if catalog else 'database'}'s name")
        if catalog:
            self._simple(name)
        return ast.Use(self._span(start.start), name, catalog)

    def _parse_show(self) -> ast.Show:
        start = self._advance()
        what = self._parse_choice(
            _SHOWN, "something to show", f"one can show {one_of(tuple(_SHOWN))}"
        )
        shown = _SHOWN[what]
        name = preposition = None
        if shown.name == "after":
            name = self._parse_qualified_name("a name")
        elif shown.name and self.token.key in ("FROM", "IN"):
            preposition = self._advance().key
            name = self._parse_qualified_name("a name")
        elif shown.name == "FROM":
            raise self._fail_expected("FROM or IN", f"write SHOW {what} FROM table")
        if self._is("PARTITION"):
            raise self._fail_unsupported(f"SHOW {what} … PARTITION", self._token_span(self.token))
        negated = bool(shown.like) and self._accept("NOT")
        operator = like = None
        if self.token.key in shown.like:
            operator = self._advance().key
            like = self._expect_text("a pattern").value
        elif negated or (shown.like and self._is("ILIKE")):
            raise self._fail_expected(one_of(shown.like))
        return ast.Show(self._span(start.start), what, name, preposition, like, operator, negated)

    def _parse_describe(self) -> ast.Describe:
        start = self._advance()
        kind = "TABLE"
        following = self._peek()
        if self.token.key in _NOT_DESCRIBED and (
            following.kind == "text"
            or self._is_identifier(following)
            or following.key == "EXTENDED"
        ):
            raise self._fail(
                "SQL-013",
                f"statement DESCRIBE {self.token.key} is not supported",
                Span(self.source, start.start, self.token.end),
                _NOT_IN_A_SCRIPT,
            )
        if self.token.key in ("CATALOG", "DATABASE", "FUNCTION") and (
            self._is_identifier(following) or following.key == "EXTENDED"
        ):
            kind = self._advance().key
        elif self.token.key in ("TABLE", "VIEW") and self._is_identifier(following):
            raise self._fail_expected("a name", f"leave out the word {self.token.key}")
        extended = self._accept("EXTENDED")
        name = self._parse_qualified_name("a name")
        if kind == "CATALOG":
            self._simple(name)
        return ast.Describe(self._span(start.start), name, extended, kind)

    def _parse_jar(self) -> ast.AddJar:
        start = self._advance()
        self._expect("JAR")
        path = self._expect_text("the jar's path").value
        return ast.AddJar(self._span(start.start), path, start.key == "REMOVE")


# --- what a word starts ------------------------------------------------------------------------

_STATEMENT_PARSERS: dict[str, Callable[[StatementParser], ast.Statement]] = {
    **dict.fromkeys(
        ("SELECT", "WITH", "VALUES", "(", "TABLE"), StatementParser._parse_query_statement
    ),
    "CREATE": StatementParser._parse_create,
    "ALTER": StatementParser._parse_alter,
    "DROP": StatementParser._parse_drop,
    "INSERT": StatementParser._parse_insert,
    "EXECUTE": StatementParser._parse_execute,
    "BEGIN": StatementParser._parse_begin,
    "EXPLAIN": StatementParser._parse_explain,
    "SET": StatementParser._parse_set_or_reset,
    "RESET": StatementParser._parse_set_or_reset,
    "USE": StatementParser._parse_use,
    "SHOW": StatementParser._parse_show,
    "DESCRIBE": StatementParser._parse_describe,
    "DESC": StatementParser._parse_describe,
    "ADD": StatementParser._parse_jar,
    "REMOVE": StatementParser._parse_jar,
}

# The first words of what ALTER may do, by what is altered.
_ALTERED = {
    "TABLE": ("RENAME", "SET", "RESET", "ADD", "MODIFY", "DROP"),
    "VIEW": ("RENAME", "AS"),
    "DATABASE": ("SET",),
    "CATALOG": ("SET", "RESET", "COMMENT"),
}
_CHANGE_PARSERS: dict[str, Callable[[StatementParser, Token], ast.TableChange]] = {
    "RENAME": StatementParser._parse_rename,
    "SET": StatementParser._parse_set_options,
    "RESET": StatementParser._parse_reset_options,
    "ADD": StatementParser._parse_add_or_modify,
    "MODIFY": StatementParser._parse_add_or_modify,
    "DROP": StatementParser._parse_drop_element,
    "AS": StatementParser._parse_redefinition,
    "COMMENT": StatementParser._parse_new_comment,
}
_NOT_DESCRIBED = frozenset({"JOB", "MODEL", "CONNECTION"})

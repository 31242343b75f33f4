"""Queries: WITH, SELECT and its clauses, set operations, the tables of FROM and their joins."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tidemill.errors import Span
from tidemill.sql import ast
from tidemill.sql.lexer import Token
from tidemill.sql.parser.cursor import QUERY_STARTS, describe
from tidemill.sql.parser.expressions import QUERY_CONTINUES, ExpressionParser

_JOIN_STARTS = frozenset({"JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL"})


class QueryParser(ExpressionParser):
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

    def _parse_query_behind(self, first: ast.Query, start: int) -> ast.Query:
        body = self._parse_body(ast.NestedQuery(self._span(start), first))
        return self._parse_query_tail(start, (), body)

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
                    f"expected an expression after ',', found {describe(self.token)}",
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

    def _parse_named_window(self) -> tuple[ast.Identifier, ast.WindowSpecification]:
        name = self._parse_identifier("a window's name")
        self._expect("AS")
        return name, self._parse_window_specification()

    # --- tables and joins ---

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
        elif self.token.key in QUERY_STARTS:
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
        if self.token.key in QUERY_STARTS or self._is("TABLE") and self._peek().key != "(":
            inner = self._parse_query()
        elif self._is("("):
            inner = self._parse_table_parentheses()
            if isinstance(inner, ast.Query):
                span = self._span(start)
                if self.token.key in QUERY_CONTINUES:
                    inner = self._parse_query_behind(inner, start)
                elif not self._is(")"):
                    inner = self._parse_joins(self._parse_table_alias(ast.Subquery(span, inner)))
            else:
                inner = self._parse_joins(inner)
        else:
            inner = self._parse_from()
        self._expect(")")
        self._leave()
        return inner

    # --- hints ---

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

"""Queries: WITH, SELECT and its clauses, set operations, the tables of FROM and their joins."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain, combinations

from tidemill.errors import Span
from tidemill.sql import ast
from tidemill.sql.lexer import Token
from tidemill.sql.parser.cursor import QUERY_STARTS, describe
from tidemill.sql.parser.expressions import QUERY_CONTINUES, ExpressionParser

_BEFORE_THE_ALIAS = {
    "FOR SYSTEM_TIME": "write table FOR SYSTEM_TIME AS OF time AS alias, in this order",
    "MATCH_RECOGNIZE": "write table MATCH_RECOGNIZE (…) AS alias, in this order",
    "/*+": "a hint stands directly behind the table's name",
}
_MATCH_ORDER = (
    "clauses come in this order: PARTITION BY, ORDER BY, MEASURES, ONE ROW PER MATCH, AFTER MATCH SKIP, PATTERN, "
    "WITHIN, SUBSET, DEFINE"
)
_SELECT_CLAUSES = ("FROM", "WHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY")
_TAIL_CLAUSES = ("ORDER", "LIMIT", "OFFSET", "FETCH")
_CLAUSE_NAMES = {"GROUP": "GROUP BY", "ORDER": "ORDER BY"}
_JOIN_STARTS = frozenset({"JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL"})


# Each further column doubles the sets that are written out.
_MAX_CUBE = 8


def _written_out(grouping: ast.GroupingSet) -> list[tuple[ast.Expression, ...]]:
    """The sets that CUBE or ROLLUP stands for, the largest first."""
    parts = grouping.sets
    if grouping.kind == "GROUPING SETS":
        return list(parts)
    if grouping.kind == "ROLLUP":
        chosen: Iterable[Iterable[tuple[ast.Expression, ...]]] = (
            parts[:count] for count in range(len(parts), -1, -1)
        )
    else:
        sizes = range(len(parts), -1, -1)
        chosen = chain.from_iterable(combinations(parts, size) for size in sizes)
    return [tuple(chain.from_iterable(some)) for some in chosen]


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
            common_tables += self._parse_list(self._parse_common_table)
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
        self._refuse_late_clause(_SELECT_CLAUSES, _TAIL_CLAUSES)
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
            rows = self._parse_list(self._parse_values_row)
            return ast.Values(self._span(start), rows)
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
        windows: tuple[tuple[ast.Identifier, ast.WindowSpecification], ...] = ()
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
                windows = self._parse_list(self._parse_named_window)
            if self._accept("QUALIFY"):
                qualify = self._parse_expression()
            self._refuse_late_clause(_SELECT_CLAUSES)
        elif self.token.key in _SELECT_CLAUSES:
            raise self._fail_expected("FROM", f"{self.token.key} needs a FROM clause before it")
        return ast.Select(
            self._span(start),
            tuple(items),
            source,
            where,
            group_by,
            having,
            qualify,
            windows,
            distinct,
            hints,
        )

    def _refuse_late_clause(self, *clauses: tuple[str, ...]) -> None:
        key = self.token.key
        if any(key in some for some in clauses):
            order = ", ".join(_CLAUSE_NAMES.get(c, c) for c in (*_SELECT_CLAUSES, *_TAIL_CLAUSES))
            raise self._fail(
                "SQL-019",
                f"{_CLAUSE_NAMES.get(key, key)} stands too late, or twice",
                self._token_span(self.token),
                f"clauses come in this order: {order}",
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
        if grouping := self._parse_grouping_sets():
            return (grouping,)
        if self._accept("(", ")"):  # the group of all rows
            return (ast.GroupingSet(self._span(start.start), "GROUPING SETS", ((),)),)
        return self._parse_grouping_set()  # GROUP BY (a, b) is GROUP BY a, b

    def _parse_grouping_sets(self) -> ast.GroupingSet | None:
        """GROUPING SETS (…), CUBE (…), ROLLUP (…); the first may hold the others, which are then written out."""
        start = self.token
        if not self._is("GROUPING", "SETS") and start.key not in ("CUBE", "ROLLUP"):
            return None
        self._enter()
        kind = "GROUPING SETS" if self._accept("GROUPING", "SETS") else self._advance().key
        sets: list[tuple[ast.Expression, ...]] = []
        self._expect("(")
        while True:
            inner = self.token
            nested = self._parse_grouping_sets()
            if nested is None:
                sets.append(self._parse_grouping_set())
            elif nested.kind == "CUBE" and len(nested.sets) > _MAX_CUBE:
                raise self._fail_unsupported(
                    f"CUBE of more than {_MAX_CUBE} columns inside {kind}", nested.span
                )
            elif kind == "GROUPING SETS":
                sets += _written_out(nested)
            else:
                raise self._fail_unsupported(
                    f"{inner.key} inside {kind}", nested.span, "write the sets in full"
                )
            if not self._accept(","):
                break
        self._expect(")")
        self._leave()
        return ast.GroupingSet(self._span(start.start), kind, tuple(sets))

    def _parse_grouping_set(self) -> tuple[ast.Expression, ...]:
        start = self.token
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
            if not self._is("ON", "CONFLICT", "DO") and self._accept("ON"):
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
        if self._is("MATCH_RECOGNIZE"):
            relation = self._parse_match_recognize(relation)
        self._refuse_table_clause()
        relation = self._parse_table_alias(relation)
        self._refuse_table_clause()
        self._refuse_late_table_clause()
        return relation

    def _refuse_late_table_clause(self) -> None:
        for words, hint in _BEFORE_THE_ALIAS.items():
            if self._is(*words.split()):
                raise self._fail_expected("the next clause", hint)

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
        if key in ("TABLESAMPLE", "PIVOT") or self._is("UNPIVOT", "("):
            raise self._fail_unsupported(key, self._token_span(self.token))

    def _parse_table_alias(self, relation: ast.Relation) -> ast.Relation:
        alias = self._parse_alias()
        if alias is None:
            return relation
        columns: tuple[ast.Identifier, ...] = ()
        if self._is("("):
            columns = self._parse_identifier_list("a column's name")
        assert isinstance(
            relation, ast.TableReference | ast.Subquery | ast.TableFunction | ast.MatchRecognize
        )
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

    # --- MATCH_RECOGNIZE ---

    def _parse_match_recognize(self, table: ast.Relation) -> ast.MatchRecognize:
        self._expect("MATCH_RECOGNIZE", "(")
        outside, self.in_match = self.in_match, True
        partition_by: tuple[ast.Expression, ...] = ()
        if self._accept("PARTITION"):
            self._expect("BY")
            partition_by = self._parse_expression_list()
        order_by = self._parse_order_by()
        measures = self._parse_list(self._parse_measure) if self._accept("MEASURES") else ()
        rows_per_match = self._parse_rows_per_match()
        after_match = self._parse_after_match()
        self._expect("PATTERN", "(", hint=_MATCH_ORDER)
        starts = self._accept("^")
        pattern = self._parse_pattern()
        ends = self._accept("$")
        self._expect(")")
        within = self._parse_within() if self._accept("WITHIN") else None
        subsets = self._parse_list(self._parse_subset) if self._accept("SUBSET") else ()
        self._expect("DEFINE", hint=_MATCH_ORDER)
        definitions = self._parse_list(self._parse_definition)
        if self.token.key in ("WITHIN", "SUBSET", "AFTER", "MEASURES", "PATTERN"):
            raise self._fail_expected("','", _MATCH_ORDER)
        self._expect(")")
        self.in_match = outside
        return ast.MatchRecognize(
            self._span(table.span.start),
            table,
            pattern,
            definitions,
            partition_by,
            order_by,
            measures,
            rows_per_match,
            after_match,
            within,
            subsets,
            starts,
            ends,
        )

    def _parse_measure(self) -> ast.Measure:
        start = self.token
        expression = self._parse_expression()
        semantics = None
        if isinstance(expression, ast.FunctionCall) and expression.form in ("FINAL", "RUNNING"):
            semantics, span = expression.form, expression.span
            if start.key == semantics:
                span = Span(self.source, expression.name.span.start, span.end)
            expression = replace(expression, span=span, form=None)
        self._expect("AS", hint="every measure has a name: write expression AS name")
        alias = self._parse_identifier("a measure's name")
        return ast.Measure(self._span(start.start), expression, alias, semantics)

    def _parse_rows_per_match(self) -> str | None:
        if self._accept("ONE"):
            self._expect("ROW", "PER", "MATCH")
            return "ONE"
        if self._accept("ALL"):
            self._expect("ROWS", "PER", "MATCH")
            if self.token.key in ("SHOW", "OMIT", "WITH"):
                raise self._fail_unsupported(
                    f"ALL ROWS PER MATCH {self.token.key}", self._token_span(self.token)
                )
            return "ALL"
        return None

    def _parse_after_match(self) -> str | None:
        if not self._accept("AFTER"):
            return None
        self._expect("MATCH", "SKIP")
        if self._accept("PAST"):
            self._expect("LAST", "ROW")
            return "PAST LAST ROW"
        self._expect(
            "TO", hint="write PAST LAST ROW, TO NEXT ROW, TO FIRST variable or TO LAST variable"
        )
        if self._accept("NEXT"):
            self._expect("ROW")
            return "TO NEXT ROW"
        named = self._is_identifier(self._peek())
        which = self._advance().key if named and self.token.key in ("FIRST", "LAST") else "LAST"
        return f"TO {which} {self._parse_identifier('a pattern variable').name}"

    def _parse_within(self) -> ast.IntervalLiteral:
        if not self._is("INTERVAL"):
            raise self._fail_expected(
                "an interval after WITHIN", "write, for example, INTERVAL '1' HOUR"
            )
        interval = self._parse_interval()
        if not isinstance(interval, ast.IntervalLiteral):
            raise self._fail("SQL-010", "WITHIN takes a fixed interval", interval.span)
        return interval

    def _parse_subset(self) -> tuple[ast.Identifier, tuple[ast.Identifier, ...]]:
        name = self._parse_identifier("a name for the variables")
        self._expect("=", hint="write SUBSET name = (variable, …)")
        return name, self._parse_identifier_list("a pattern variable")

    def _parse_definition(self) -> tuple[ast.Identifier, ast.Expression]:
        name = self._parse_identifier("a pattern variable")
        self._expect("AS", hint="write DEFINE variable AS condition")
        return name, self._parse_expression()

    def _parse_pattern(self) -> ast.Pattern:
        """Parts with `|` between them, each a sequence."""
        self._enter()
        start = self.token.start
        parts = [self._parse_pattern_sequence()]
        while self._accept("|"):
            parts.append(self._parse_pattern_sequence())
        self._leave()
        return (
            parts[0] if len(parts) == 1 else ast.PatternAlternation(self._span(start), tuple(parts))
        )

    def _parse_pattern_sequence(self) -> ast.Pattern:
        start = self.token.start
        parts = [self._parse_pattern_factor()]
        while self.token.key in ("(", "{", "PERMUTE") or (
            self._is_identifier(self.token) and not self._is("$")
        ):
            parts.append(self._parse_pattern_factor())
        return parts[0] if len(parts) == 1 else ast.PatternSequence(self._span(start), tuple(parts))

    def _parse_pattern_factor(self) -> ast.Pattern:
        start = self.token.start
        operand = self._parse_pattern_primary()
        least, most = 0, None
        if self._accept("*"):
            pass
        elif self._accept("+"):
            least = 1
        elif self._accept("?"):
            most = 1
        elif self._is("{") and self._peek().key != "-":
            least, most = self._parse_pattern_count()
        else:
            return operand
        reluctant = self._accept("?")
        return ast.PatternRepetition(self._span(start), operand, least, most, reluctant)

    def _parse_pattern_count(self) -> tuple[int, int | None]:
        """{2}, {2,}, {,5}, {2,5}"""
        start = self._advance().start
        least = 0 if self._is(",") else self._parse_size()
        most: int | None = least
        if self._accept(","):
            most = None if self._is("}") else self._parse_size()
        self._expect("}", hint="write, for example, A{2}, A{2,} or A{2,5}")
        if most is not None and (most < least or most == 0):
            raise self._fail("SQL-010", "this repetition matches nothing", self._span(start))
        return least, most

    def _parse_pattern_primary(self) -> ast.Pattern:
        start = self.token.start
        if self._accept("(", ")"):
            return ast.PatternSequence(self._span(start), ())
        if self._accept("("):
            inner = self._parse_pattern()
            self._expect(")")
            return replace(inner, span=self._span(start))
        if self._accept("{"):
            self._expect("-", hint="write {- pattern -} to leave rows out")
            inner = self._parse_pattern()
            self._expect("-", "}")
            return ast.PatternExclusion(self._span(start), inner)
        if self._accept("PERMUTE"):
            self._expect("(")
            parts = self._parse_list(self._parse_pattern)
            self._expect(")")
            return ast.PatternPermutation(self._span(start), parts)
        name = self._parse_identifier("a pattern variable")
        return ast.PatternVariable(name.span, name)

    # --- hints ---

    def _parse_hints(self) -> tuple[ast.Hint, ...]:
        """/*+ NAME('key' = 'value', …), … */ behind SELECT or a table's name."""
        if not self._accept("/*+"):
            return ()
        hints = self._parse_list(self._parse_hint)
        self._expect("*/")
        return hints

    def _parse_hint(self) -> ast.Hint:
        name = self._parse_identifier("a hint's name")
        arguments: tuple[tuple[str | None, str], ...] = ()
        if self._accept("(") and not self._accept(")"):
            arguments = self._parse_list(self._parse_hint_argument)
            self._expect(")")
        return ast.Hint(self._span(name.span.start), name.name.upper(), arguments)

    def _parse_hint_argument(self) -> tuple[str | None, str]:
        first = self._parse_hint_word()
        return (first, self._parse_hint_word()) if self._accept("=") else (None, first)

    def _parse_hint_word(self) -> str:
        if self.token.kind not in ("text", "number") and not self._is_identifier(self.token):
            raise self._fail_expected("a text, number or name in the hint")
        return self._advance().value

"""Expressions: operators by how tightly they bind, literals, calls and the calls with a syntax of their own.

Queries stand inside expressions and expressions inside queries; what this module needs of a query is named below and
read by the class that knows queries.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NoReturn, TypeVar

from tidemill import types
from tidemill.errors import nearest
from tidemill.sql import ast, grammar
from tidemill.sql.lexer import RESERVED, Token
from tidemill.sql.parser.cursor import QUERY_STARTS, STRUCTURE, Abandoned
from tidemill.sql.parser.types import TypeParser
from tidemill.types import SqlType

T = TypeVar("T")

_NEGATABLE = frozenset({"IN", "BETWEEN", "LIKE", "SIMILAR"})

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
QUERY_CONTINUES = frozenset(
    {"UNION", "INTERSECT", "EXCEPT", "MINUS", "ORDER", "LIMIT", "OFFSET", "FETCH"}
)
_JSON_BEHAVIOURS = {
    "JSON_EXISTS": ("TRUE", "FALSE", "UNKNOWN", "ERROR"),
    "JSON_VALUE": ("NULL", "ERROR", "DEFAULT"),
    "JSON_QUERY": ("NULL", "ERROR", "EMPTY ARRAY", "EMPTY OBJECT"),
}


class ExpressionParser(TypeParser, ABC):
    @abstractmethod
    def _parse_query(self) -> ast.Query: ...

    @abstractmethod
    def _parse_query_behind(self, first: ast.Query, start: int) -> ast.Query:
        """The larger query that starts with one in parentheses, which is read already."""

    def _parse_expression_list(self) -> tuple[ast.Expression, ...]:
        return self._parse_list(self._parse_expression)

    def _parse_expression(self, floor: int = 0) -> ast.Expression:
        """An operand and all operators behind it that bind at least as tightly as `floor`."""
        self._enter()
        expression = self._parse_operators(self._parse_operand(), floor)
        self._leave()
        return expression

    def _parse_operators(self, left: ast.Expression, floor: int) -> ast.Expression:
        while True:
            key = self.token.key
            power = grammar.POWER.get(key)
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
                    low = self._parse_expression(grammar.AND + 1)
                    self._expect("AND", hint="write value BETWEEN low AND high")
                    high = self._parse_expression(grammar.PREDICATE + 1)
                    left = ast.Between(self._span(start), left, low, high, negated, symmetric)
                case "LIKE" | "SIMILAR":
                    self._advance()
                    if key == "SIMILAR":
                        self._expect("TO")
                    pattern = self._parse_expression(grammar.PREDICATE + 1)
                    escape = None
                    if self._accept("ESCAPE"):
                        escape = self._parse_expression(grammar.PREDICATE + 1)
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
                    if power == grammar.COMPARE and self.token.key in ("ANY", "SOME", "ALL"):
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
            other = self._parse_expression(grammar.COMPARE + 1)
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
                    operand = self._parse_expression(grammar.SIGN)
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

    def _fail_operand(self) -> Abandoned:
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
        if self.token.key in QUERY_STARTS:
            return self._parse_query()
        if self._is("("):
            start = self.token.start
            inner = self._parse_parentheses()
            if isinstance(inner, ast.Query):
                if self.token.key in QUERY_CONTINUES:
                    return self._parse_query_behind(inner, start)
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
            if called and token.key in grammar.FUNCTION_WORDS:
                return self._parse_call(self._function_name(self._advance()))
            if token.key in grammar.NILADIC:
                name = self._function_name(self._advance())
                return ast.FunctionCall(name.span, name, ())
            if token.key in STRUCTURE:
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
        operand = self._parse_expression(grammar.NOT)
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
        if self._is("TIMESTAMP", "WITH", "LOCAL", "TIME", "ZONE"):
            return self._parse_local_timestamp()
        if self._peek().kind != "text":
            return None
        token = self._advance()
        text = self._advance().value
        return ast.TemporalLiteral(self._span(token.start), ast.TemporalKind(token.key), text)

    def _parse_local_timestamp(self) -> ast.Expression:
        """TIMESTAMP WITH LOCAL TIME ZONE '…': the timestamp, cast; its precision follows from its digits."""
        start = self.token.start
        self._expect("TIMESTAMP", "WITH", "LOCAL", "TIME", "ZONE")
        text = self._expect_text("a timestamp").value
        span = self._span(start)
        literal = ast.TemporalLiteral(span, ast.TemporalKind.TIMESTAMP, text)
        digits = len(text.rpartition(".")[2]) if "." in text else 0
        return ast.Cast(span, literal, types.TimestampLtzType(True, min(digits, 9)), span)

    def _refuse_local_timestamp(self) -> ast.Expression | None:
        if self._peek().kind != "text":
            return None
        raise self._fail_expected("an expression", "write TIMESTAMP WITH LOCAL TIME ZONE '…'")

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

    def _parse_match_call(self) -> ast.Expression | None:
        """RUNNING f(x), FINAL f(x) in MATCH_RECOGNIZE; the word is the call's form. None for a plain name."""
        if not self.in_match or self._peek(2).key != "(" or self._peek().kind != "word":
            return None
        word = self._advance()
        call = self._parse_operand()
        if not isinstance(call, ast.FunctionCall) or call.form is not None:
            raise self._fail("SQL-010", f"{word.key} goes with a plain call", call.span)
        return replace(call, span=self._span(word.start), form=word.key)

    def _refuse_operand(self) -> NoReturn:
        raise self._fail_unsupported(self.token.key, self._token_span(self.token))

    # --- calls ---

    def _function_name(self, token: Token) -> ast.QualifiedName:
        span = self._token_span(token)
        return ast.QualifiedName(span, (ast.Identifier(span, token.value),))

    def _parse_function_name(self) -> ast.QualifiedName:
        if self.token.kind == "word" and self.token.key in grammar.FUNCTION_WORDS:
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
            and self.token.key not in STRUCTURE
        )
        return "separate the arguments with commas" if started else None

    def _parse_argument(self, in_table: bool) -> ast.Expression:
        start = self.token.start
        if self._is_identifier(self.token) and self._peek().key == "=>":
            name = self._parse_identifier("an argument's name")
            self._advance()
            value = self._parse_argument(in_table)
            return ast.NamedArgument(self._span(start), name, value)
        if self.token.kind == "word" and self._peek().key == "=>":
            raise self._fail_reserved(self.token)
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
        if self.token.key in QUERY_STARTS:
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

    # --- the order and the windows of calls ---

    def _parse_order_by(self) -> tuple[ast.OrderItem, ...]:
        if not self._accept("ORDER"):
            return ()
        self._expect("BY")
        return self._parse_list(self._parse_order_item)

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
        arguments = [self._parse_expression(grammar.PREDICATE + 1)]
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


# --- what a word starts ---

# Operands that start with a word of their own. None as a result: the word is a plain name after all.
_OPERAND_WORDS: dict[str, Callable[[ExpressionParser], ast.Expression | None]] = {
    "NOT": ExpressionParser._parse_not,
    "EXISTS": ExpressionParser._parse_exists,
    "TRUE": ExpressionParser._parse_constant,
    "FALSE": ExpressionParser._parse_constant,
    "NULL": ExpressionParser._parse_constant,
    "UNKNOWN": ExpressionParser._parse_constant,
    "DATE": ExpressionParser._parse_temporal,
    "TIME": ExpressionParser._parse_temporal,
    "TIMESTAMP": ExpressionParser._parse_temporal,
    "TIMESTAMP_LTZ": ExpressionParser._refuse_local_timestamp,
    "INTERVAL": ExpressionParser._parse_interval,
    "CASE": ExpressionParser._parse_case,
    "CAST": ExpressionParser._parse_cast,
    "TRY_CAST": ExpressionParser._parse_cast,
    "ROW": ExpressionParser._parse_row,
    "ARRAY": ExpressionParser._parse_collection,
    "MAP": ExpressionParser._parse_collection,
    "MULTISET": ExpressionParser._refuse_operand,
    "PERIOD": ExpressionParser._refuse_operand,
    "CURSOR": ExpressionParser._refuse_operand,
    "RUNNING": ExpressionParser._parse_match_call,
    "FINAL": ExpressionParser._parse_match_call,
}

_SPECIAL_CALLS: dict[str, Callable[[ExpressionParser, ast.QualifiedName], ast.FunctionCall]] = {
    "EXTRACT": ExpressionParser._parse_extract,
    "POSITION": ExpressionParser._parse_position,
    "TRIM": ExpressionParser._parse_trim,
    "SUBSTRING": ExpressionParser._parse_substring,
    "OVERLAY": ExpressionParser._parse_overlay,
    "CEIL": ExpressionParser._parse_rounding,
    "CEILING": ExpressionParser._parse_rounding,
    "FLOOR": ExpressionParser._parse_rounding,
    "TIMESTAMPADD": ExpressionParser._parse_timestamp_arithmetic,
    "TIMESTAMPDIFF": ExpressionParser._parse_timestamp_arithmetic,
    "JSON_EXISTS": ExpressionParser._parse_json_read,
    "JSON_VALUE": ExpressionParser._parse_json_read,
    "JSON_QUERY": ExpressionParser._parse_json_read,
    "JSON_OBJECT": ExpressionParser._parse_json_build,
    "JSON_OBJECTAGG": ExpressionParser._parse_json_build,
    "JSON_ARRAY": ExpressionParser._parse_json_build,
    "JSON_ARRAYAGG": ExpressionParser._parse_json_build,
}

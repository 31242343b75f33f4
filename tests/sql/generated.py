"""Statements out of thin air: hypothesis builds trees of every node class, as the parser could have read them.

A tree that no text has is not built: a query in two pairs of parentheses, a CROSS JOIN with a condition, and so on.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st

from tidemill import types
from tidemill.errors import Source, Span
from tidemill.sql import ast

T = TypeVar("T")

SPAN = Span(Source("generated", ""), 0, 0)
EXAMPLES = int(os.environ.get("FUZZ", "0")) or 100
FAST = settings(max_examples=EXAMPLES, deadline=None, derandomize="FUZZ" not in os.environ)

_NAMES = """
a b c t u x1 _y A Tab 中文 x$1 select table timestamp value map key first last if catalog descriptor final unbounded
model distribution try_cast desc asc nulls absent rows json metadata virtual enforced partition n e x
ignore respect ordinality system temporary overwrite rlike ilike permute skip next after conflict do jar view views
tables function language count current_date left day second interval array row case end date time cast from
exists filter over within match_recognize statement partitioned distributed database including like_regex begin
"""
NAMES = (*_NAMES.split(), "my col", "a`b", "1st", "a.b", "$")
TEXTS = (
    "",
    "x",
    "it's",
    "two\nlines",
    "中文",
    "a\u200bb",
    "back\\slash",
    "\\\u200b",
    "--no",
    "/* no */",
    "a\r\nb",
    "\r",
    ";",
)
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
OPERATORS = ("+", "-", "*", "/", "%", "||", "AND", "OR", *COMPARISONS)
UNITS = (
    "SECOND",
    "MINUTE",
    "HOUR",
    "DAY",
    "WEEK",
    "MONTH",
    "QUARTER",
    "YEAR",
    "MILLISECOND",
    "EPOCH",
)

_numbers = {n: st.integers(0, n) for n in range(200)}


def statements() -> st.SearchStrategy[ast.Statement]:
    return _build(lambda trees: trees.statement())


def queries() -> st.SearchStrategy[ast.Query]:
    return _build(lambda trees: trees.query(2))


def expressions() -> st.SearchStrategy[ast.Expression]:
    return _build(lambda trees: trees.expression(3))


def _build(make: Callable[[Trees], T]) -> st.SearchStrategy[T]:
    @st.composite
    def built(draw: Any) -> T:
        return make(Trees(lambda most: draw(_numbers[most])))

    return built()


def random_statement(seed: int) -> ast.Statement:
    """A statement out of a plain random generator: much faster, spread more evenly, but it does not shrink."""
    source = random.Random(seed)
    return Trees(lambda most: source.randint(0, most)).statement()


class Trees:
    """Draws trees. `depth` is how many levels of expressions, queries and relations may still come."""

    def __init__(self, choose: Callable[[int], int]) -> None:
        self.choose = choose
        """A number from 0 to the one given."""
        self.queries_allowed = True

    # --- choices ---

    def flag(self) -> bool:
        return self.choose(1) == 1

    def pick(self, options: Any) -> Any:
        return options[self.choose(len(options) - 1)]

    def maybe(self, make: Callable[[], T]) -> T | None:
        return make() if self.flag() else None

    def some(self, make: Callable[[], T], least: int = 1, most: int = 2) -> tuple[T, ...]:
        return tuple(make() for _ in range(least + self.choose(most - least)))

    def number(self, most: int = 9) -> int:
        return self.choose(most)

    def one_of(self, *makers: Callable[[], T]) -> T:
        maker: Callable[[], T] = self.pick(makers)
        return maker()

    def text(self) -> str:
        return str(self.pick(TEXTS))

    # --- names and types ---

    def identifier(self) -> ast.Identifier:
        return ast.Identifier(SPAN, self.pick(NAMES))

    def identifiers(self) -> tuple[ast.Identifier, ...]:
        return self.some(self.identifier)

    def name(self) -> ast.QualifiedName:
        return ast.QualifiedName(SPAN, self.some(self.identifier, 1, 3))

    def simple_name(self) -> ast.QualifiedName:
        return ast.QualifiedName(SPAN, (self.identifier(),))

    def type(self, depth: int = 2) -> types.SqlType:
        makers: list[Callable[[], types.SqlType]] = [
            lambda: self.pick((types.STRING, types.BYTES, types.BOOLEAN, types.INT, types.BIGINT, types.DOUBLE)),
            lambda: self.pick((types.TinyIntType(), types.SmallIntType(), types.FloatType(), types.DateType())),
            lambda: types.DecimalType(precision=9 + self.number(), scale=self.number()),
            lambda: self.pick((types.CharType, types.VarCharType))(length=1 + self.number()),
            lambda: self.pick((types.BinaryType, types.VarBinaryType))(length=1 + self.number()),
            lambda: self.pick((types.TimeType, types.TimestampType, types.TimestampLtzType))(precision=self.number()),
        ]  # fmt: skip
        if depth:
            makers += [
                lambda: types.ArrayType(element=self.type(depth - 1)),
                lambda: types.MultisetType(element=self.type(depth - 1)),
                lambda: types.MapType(key=self.type(depth - 1), value=self.type(depth - 1)),
                lambda: types.RowType(fields=self.some(lambda: self.field(depth - 1), 0, 2)),
            ]
        return self.one_of(*makers).with_nullable(self.flag())

    def field(self, depth: int) -> types.Field:
        return types.Field(self.pick(NAMES), self.type(depth), self.maybe(self.text))

    # --- expressions ---

    def leaf(self) -> ast.Expression:
        return self.one_of(
            lambda: ast.NumberLiteral(SPAN, self.pick(("1", "1.50", "1e3", ".5", "2."))),
            lambda: ast.StringLiteral(SPAN, self.text()),
            lambda: ast.BinaryLiteral(SPAN, self.pick((b"", b"\x0a\x1f"))),
            lambda: ast.BooleanLiteral(SPAN, self.flag()),
            lambda: ast.NullLiteral(SPAN),
            lambda: ast.TemporalLiteral(SPAN, self.pick(tuple(ast.TemporalKind)), self.text()),
            self.interval,
            lambda: ast.ColumnReference(SPAN, self.name()),
        )

    def interval(self) -> ast.IntervalLiteral:
        unit, to_unit = self.pick(
            (("DAY", None), ("SECOND", None), ("DAY", "SECOND"), ("YEAR", "MONTH"))
        )
        precision = self.maybe(self.number)
        last = to_unit or unit
        fraction = (
            self.number()
            if last == "SECOND" and (to_unit or precision is not None) and self.flag()
            else None
        )
        return ast.IntervalLiteral(
            SPAN, self.text(), self.flag(), unit, to_unit, precision, fraction
        )

    def expression(self, depth: int = 2) -> ast.Expression:
        if depth <= 0:
            return self.leaf()
        below = depth - 1

        def e() -> ast.Expression:
            return self.expression(below)

        makers: list[Callable[[], ast.Expression]] = [
            self.leaf,
            lambda: ast.Unary(SPAN, self.pick(("-", "+", "NOT")), e()),
            lambda: ast.Binary(SPAN, self.pick(OPERATORS), e(), e()),
            lambda: ast.Binary(SPAN, self.pick(OPERATORS), e(), e()),
            lambda: self.is_test(below),
            lambda: ast.Between(SPAN, e(), e(), e(), self.flag(), self.flag()),
            lambda: ast.InList(SPAN, e(), self.some(lambda: self.listed(below)), self.flag()),
            lambda: ast.Like(SPAN, e(), e(), self.flag(), self.maybe(e), self.flag()),
            lambda: ast.Case(SPAN, self.maybe(e), self.some(lambda: (e(), e())), self.maybe(e)),
            lambda: ast.Cast(SPAN, e(), self.cast_type(), SPAN, self.flag()),
            lambda: self.call(below),
            lambda: self.special_call(below),
            lambda: self.json_call(below),
            lambda: ast.ArrayConstructor(SPAN, self.some(e, 0, 2)),
            lambda: ast.MapConstructor(SPAN, sum(self.some(lambda: (e(), e()), 0, 2), ())),
            lambda: ast.RowConstructor(SPAN, self.some(e, 0, 3)),
            lambda: ast.ElementAccess(SPAN, e(), e()),
            lambda: ast.FieldAccess(SPAN, e(), self.identifier()),
        ]
        if self.queries_allowed:
            makers += [
                lambda: ast.InQuery(SPAN, e(), self.query(below), self.flag()),
                lambda: ast.Exists(SPAN, self.query(below)),
                lambda: ast.ScalarQuery(SPAN, self.query(below)),
            ]
        return self.one_of(*makers)

    def listed(self, depth: int) -> ast.Expression:
        """An entry of IN (…): a query alone would be IN (query)."""
        item = self.expression(depth)
        return ast.NullLiteral(SPAN) if isinstance(item, ast.ScalarQuery) else item

    def cast_type(self) -> types.SqlType:
        return self.one_of(
            self.type,
            lambda: self.pick((types.YearMonthIntervalType(), types.DayTimeIntervalType())),
        )

    def is_test(self, depth: int) -> ast.IsTest:
        test = self.pick(
            ("NULL", "TRUE", "FALSE", "UNKNOWN", "DISTINCT FROM", "JSON", "JSON ARRAY")
        )
        other = self.expression(depth) if test == "DISTINCT FROM" else None
        return ast.IsTest(SPAN, self.expression(depth), test, self.flag(), other)

    def call(self, depth: int) -> ast.FunctionCall:
        name = self.one_of(
            self.name,
            lambda: ast.QualifiedName(SPAN, (ast.Identifier(SPAN, self.pick(FUNCTIONS)),)),
        )
        if self.number(5) == 0:
            return ast.FunctionCall(
                SPAN, name, (), star=True, filter=self.maybe(lambda: self.expression(depth))
            )
        arguments = self.some(lambda: self.argument(depth), 0, 2)
        return ast.FunctionCall(
            SPAN,
            name,
            arguments,
            distinct=bool(arguments) and self.flag(),
            filter=self.maybe(lambda: self.expression(depth)),
            order_by=self.order_by(depth) if self.flag() else (),
            nulls=self.pick((None, "IGNORE NULLS", "RESPECT NULLS")),
            over=self.one_of(lambda: None, self.identifier, lambda: self.window(depth)),
        )

    def argument(self, depth: int) -> ast.Expression:
        return self.one_of(
            lambda: self.expression(depth),
            lambda: ast.NamedArgument(SPAN, self.identifier(), self.expression(depth)),
        )

    def special_call(self, depth: int) -> ast.FunctionCall:
        def e() -> ast.Expression:
            return self.expression(depth)

        unit = ast.StringLiteral(SPAN, self.pick(UNITS))
        name, form, arguments = self.pick(
            (
                ("EXTRACT", "EXTRACT", lambda: (unit, e())),
                ("POSITION", "POSITION", lambda: self.some(e, 2, 3)),
                (
                    "TRIM",
                    "TRIM " + self.pick(("BOTH", "LEADING", "TRAILING")),
                    lambda: self.some(e),
                ),
                ("trim", None, lambda: (e(),)),
                ("OVERLAY", "OVERLAY", lambda: self.some(e, 3, 4)),
                ("Substring", None, lambda: self.some(e, 2, 3)),
                ("CEILING", "CEILING TO", lambda: (e(), unit)),
                ("FLOOR", "FLOOR TO", lambda: (e(), unit)),
                ("ceil", None, lambda: (e(),)),
                ("TIMESTAMPADD", "TIMESTAMPADD", lambda: (unit, e(), e())),
                ("OVERLAPS", "OVERLAPS", lambda: (e(), e())),
                ("UPPER", None, lambda: (e(),)),
                ("CURRENT_DATE", None, lambda: ()),
                ("CURRENT_USER", None, lambda: ()),
            )
        )
        return ast.FunctionCall(
            SPAN, ast.QualifiedName(SPAN, (ast.Identifier(SPAN, name),)), arguments(), form=form
        )

    def json_call(self, depth: int) -> ast.FunctionCall:
        def e() -> ast.Expression:
            return self.expression(depth)

        def call(
            name: str, arguments: tuple[ast.Expression, ...], form: str | None, **more: Any
        ) -> ast.FunctionCall:
            name_ = ast.QualifiedName(SPAN, (ast.Identifier(SPAN, name),))
            return ast.FunctionCall(SPAN, name_, arguments, form=form, **more)

        nulls = self.pick((None, "JSON NULL ON NULL", "JSON ABSENT ON NULL"))
        default = ast.NamedArgument(SPAN, ast.Identifier(SPAN, "ON EMPTY"), e())
        return self.one_of(
            lambda: call("JSON_EXISTS", (e(), e()), self.pick((None, "JSON TRUE ON ERROR"))),
            lambda: call(
                "JSON_VALUE",
                (e(), e()),
                self.pick((None, "JSON NULL ON EMPTY, ERROR ON ERROR")),
                returning=self.maybe(self.type),
            ),
            lambda: call(
                "JSON_VALUE", (e(), e(), default), "JSON DEFAULT ON EMPTY, ERROR ON ERROR"
            ),
            lambda: call(
                "JSON_QUERY", (e(), e()), "JSON WITH CONDITIONAL WRAPPER, EMPTY ARRAY ON EMPTY"
            ),
            lambda: call("JSON_OBJECT", sum(self.some(lambda: (e(), e()), 0, 2), ()), nulls),
            lambda: call("JSON_OBJECTAGG", (e(), e()), nulls, over=self.maybe(self.identifier)),
            lambda: call("JSON_ARRAY", self.some(e, 0, 2), nulls),
            lambda: call("JSON_ARRAYAGG", (e(),), nulls, order_by=self.order_by(depth)),
        )

    def order_by(self, depth: int) -> tuple[ast.OrderItem, ...]:
        return self.some(
            lambda: ast.OrderItem(
                SPAN, self.expression(depth), self.flag(), self.pick((None, True, False))
            )
        )

    def window(self, depth: int) -> ast.WindowSpecification:
        return ast.WindowSpecification(
            SPAN,
            self.maybe(self.identifier),
            self.some(lambda: self.expression(depth), 0, 2),
            self.order_by(depth) if self.flag() else (),
            self.maybe(
                lambda: ast.WindowFrame(
                    SPAN,
                    self.pick(("ROWS", "RANGE")),
                    self.bound(depth),
                    self.maybe(lambda: self.bound(depth)),
                )
            ),
        )

    def bound(self, depth: int) -> ast.FrameBound:
        return self.one_of(
            lambda: ast.FrameBound(
                SPAN, self.pick(("UNBOUNDED PRECEDING", "CURRENT ROW", "UNBOUNDED FOLLOWING"))
            ),
            lambda: ast.FrameBound(
                SPAN, self.pick(("PRECEDING", "FOLLOWING")), self.expression(depth)
            ),
        )

    # --- queries ---

    def query(self, depth: int) -> ast.Query:
        tables = self.some(lambda: self.common_table(depth - 1), 0, 1) if depth > 0 else ()
        order_by = self.order_by(0) if self.number(3) == 0 else ()
        limit, offset = (
            self.maybe(lambda: ast.NumberLiteral(SPAN, "5")) if self.number(3) == 0 else None
            for _ in "ab"
        )
        body = self.body(depth)
        if isinstance(body, ast.NestedQuery) and not (tables or order_by or limit or offset):
            # In parentheses of its own already.
            return body.query
        return ast.Query(SPAN, body, tables, order_by, limit, offset)

    def common_table(self, depth: int) -> ast.CommonTable:
        return ast.CommonTable(
            SPAN, self.identifier(), self.some(self.identifier, 0, 2), self.query(depth)
        )

    def body(self, depth: int) -> ast.QueryBody:
        if depth <= 0 or self.number(2):
            return self.term(depth)
        return self.one_of(
            lambda: ast.SetOperation(
                SPAN,
                self.pick(("UNION", "EXCEPT")),
                self.flag(),
                self.body(depth - 1),
                self.intersection(depth - 1),
            ),
            lambda: self.intersection(depth),
        )

    def intersection(self, depth: int) -> ast.QueryBody:
        if depth <= 0 or self.flag():
            return self.term(depth)
        left = self.intersection(depth - 1)
        return ast.SetOperation(SPAN, "INTERSECT", self.flag(), left, self.term(depth - 1))

    def term(self, depth: int) -> ast.QueryBody:
        if depth <= 0:
            return self.one_of(lambda: self.select(0), lambda: self.values(0))
        return self.one_of(
            lambda: self.select(depth),
            lambda: self.select(depth),
            lambda: self.values(depth - 1),
            lambda: ast.NestedQuery(SPAN, self.query(depth - 1)),
        )

    def values(self, depth: int) -> ast.Values:
        rows = self.some(
            lambda: ast.RowConstructor(SPAN, self.some(lambda: self.expression(depth), 0, 2))
        )
        return ast.Values(SPAN, rows)

    def select(self, depth: int) -> ast.Select:
        below = depth - 1

        def e() -> ast.Expression:
            return self.expression(below)

        items = self.some(lambda: self.select_item(below))
        if self.number(4) == 0:
            return ast.Select(SPAN, items, distinct=self.flag())
        return ast.Select(
            SPAN,
            items,
            self.relation(below),
            self.maybe(e),
            self.maybe(lambda: self.some(lambda: self.one_of(e, lambda: self.grouping_set(below)))),
            self.maybe(e),
            self.maybe(e),
            self.some(lambda: (self.identifier(), self.window(below)), 0, 1),
            self.flag(),
            self.hints(),
        )

    def select_item(self, depth: int) -> ast.SelectItem:
        return self.one_of(
            lambda: ast.SelectItem(SPAN, ast.Star(SPAN, self.maybe(self.name))),
            lambda: ast.SelectItem(SPAN, self.expression(depth), self.maybe(self.identifier)),
        )

    def grouping_set(self, depth: int) -> ast.GroupingSet:
        sets = self.some(lambda: self.some(lambda: self.expression(depth), 0, 2))
        return ast.GroupingSet(SPAN, self.pick(("GROUPING SETS", "CUBE", "ROLLUP")), sets)

    def hints(self) -> tuple[ast.Hint, ...]:
        def argument() -> tuple[str | None, str]:
            return self.maybe(self.text), self.one_of(self.text, lambda: self.pick(NAMES))

        def hint() -> ast.Hint:
            return ast.Hint(
                SPAN, self.pick(("OPTIONS", "STATE_TTL", "X")), self.some(argument, 0, 2)
            )

        return self.some(hint) if self.number(3) == 0 else ()

    def relation(self, depth: int) -> ast.Relation:
        if depth <= 0:
            return self.table()
        return self.one_of(
            self.table,
            lambda: self.join(depth - 1),
            lambda: ast.Subquery(SPAN, self.query(depth - 1), *self.alias(), lateral=self.flag()),
            lambda: self.table_function(depth - 1),
            lambda: self.match_recognize(depth - 1),
        )

    def alias(self) -> tuple[ast.Identifier | None, tuple[ast.Identifier, ...]]:
        alias = self.maybe(self.identifier)
        return alias, self.some(self.identifier, 0, 2) if alias else ()

    def table(self) -> ast.TableReference:
        alias, columns = self.alias()
        as_of = self.expression(0) if self.number(3) == 0 else None
        return ast.TableReference(SPAN, self.name(), alias, columns, self.hints(), as_of)

    def join(self, depth: int) -> ast.Join:
        left, right = self.relation(depth), self.relation(depth)
        kind = self.pick(("INNER", "LEFT", "RIGHT", "FULL"))
        return self.one_of(
            lambda: ast.Join(SPAN, "CROSS", left, right),
            lambda: ast.Join(SPAN, kind, left, right, self.expression(depth)),
            lambda: ast.Join(SPAN, kind, left, right, using=self.identifiers()),
            lambda: ast.Join(SPAN, kind, left, right, natural=True),
        )

    def table_function(self, depth: int) -> ast.TableFunction:
        alias, columns = self.alias()
        if self.flag():
            name = ast.QualifiedName(SPAN, (ast.Identifier(SPAN, "UNNEST"),))
            call = ast.FunctionCall(SPAN, name, self.some(lambda: self.expression(depth)))
            return ast.TableFunction(SPAN, call, alias, columns, self.flag(), self.flag())
        name = self.one_of(
            self.name, lambda: ast.QualifiedName(SPAN, (ast.Identifier(SPAN, "TUMBLE"),))
        )
        call = ast.FunctionCall(SPAN, name, self.some(lambda: self.table_argument(depth), 0, 3))
        return ast.TableFunction(SPAN, call, alias, columns, self.flag())

    def table_argument(self, depth: int) -> ast.Expression:
        def argument() -> ast.Expression:
            return self.one_of(
                lambda: self.listed(depth),
                lambda: ast.DescriptorArgument(SPAN, self.some(self.identifier, 0, 2)),
                lambda: ast.TableArgument(
                    SPAN,
                    self.one_of(
                        lambda: ast.TableReference(SPAN, self.name()),
                        lambda: ast.Subquery(SPAN, self.query(depth)),
                    ),
                    self.some(lambda: self.expression(depth), 0, 2),
                    self.order_by(depth) if self.flag() else (),
                ),
            )

        return ast.NamedArgument(SPAN, self.identifier(), argument()) if self.flag() else argument()

    def match_recognize(self, depth: int) -> ast.MatchRecognize:
        def e() -> ast.Expression:
            return self.expression(depth)

        alias, columns = self.alias()
        return ast.MatchRecognize(
            SPAN,
            self.one_of(
                lambda: ast.TableReference(SPAN, self.name(), hints=self.hints()),
                lambda: ast.Subquery(SPAN, self.query(depth)),
            ),
            self.pattern(3),
            self.some(lambda: (self.identifier(), e())),
            self.some(e, 0, 2),
            self.order_by(depth) if self.flag() else (),
            self.some(lambda: self.measure(depth), 0, 2),
            self.pick((None, "ONE", "ALL")),
            self.one_of(
                lambda: self.pick((None, "PAST LAST ROW", "TO NEXT ROW")),
                lambda: f"TO {self.pick(('FIRST', 'LAST'))} {self.pick(NAMES)}",
            ),
            self.maybe(self.interval),
            self.some(lambda: (self.identifier(), self.identifiers()), 0, 2),
            self.flag(),
            self.flag(),
            alias,
            columns,
        )

    def measure(self, depth: int) -> ast.Measure:
        name = ast.QualifiedName(SPAN, (ast.Identifier(SPAN, self.pick(("LAST", "first", "AVG"))),))
        call = ast.FunctionCall(SPAN, name, self.some(lambda: self.expression(depth)))
        semantics = self.pick((None, "FINAL", "RUNNING"))
        other = ast.Binary(
            SPAN, "+", ast.FunctionCall(SPAN, name, call.arguments, form="FINAL"), call
        )
        expression: ast.Expression = call if semantics or self.flag() else other
        return ast.Measure(SPAN, expression, self.identifier(), semantics)

    def pattern(self, depth: int) -> ast.Pattern:
        def variable() -> ast.Pattern:
            return ast.PatternVariable(SPAN, self.identifier())

        def p() -> ast.Pattern:
            return self.pattern(depth - 1)

        def repetition() -> ast.Pattern:
            least, most = self.pick(
                ((0, None), (1, None), (0, 1), (2, 2), (2, 5), (2, None), (0, 5))
            )
            return ast.PatternRepetition(SPAN, p(), least, most, self.flag())

        if depth <= 0:
            return variable()
        return self.one_of(
            variable,
            repetition,
            lambda: ast.PatternSequence(SPAN, self.pick(((), self.some(p, 2, 3)))),
            lambda: ast.PatternAlternation(SPAN, self.some(p, 2, 3)),
            lambda: ast.PatternPermutation(SPAN, self.some(p)),
            lambda: ast.PatternExclusion(SPAN, p()),
        )

    # --- tables ---

    def row_expression(self) -> ast.Expression:
        self.queries_allowed = False
        expression = self.expression(2)
        self.queries_allowed = True
        return expression

    def column(self) -> ast.ColumnDefinition:
        name, comment = self.identifier(), self.maybe(self.text)
        is_key = self.number(3) == 0
        return self.one_of(
            lambda: ast.PhysicalColumn(
                SPAN,
                name,
                comment,
                self.type(),
                SPAN,
                is_key,
                self.pick((None, False, True)) if is_key else None,
            ),
            lambda: ast.MetadataColumn(
                SPAN, name, comment, self.type(), SPAN, self.maybe(self.text), self.flag()
            ),
            lambda: ast.ComputedColumn(SPAN, name, comment, self.row_expression()),
        )

    def watermark(self) -> ast.WatermarkDefinition:
        return ast.WatermarkDefinition(SPAN, self.name(), self.row_expression())

    def primary_key(self) -> ast.PrimaryKey:
        return ast.PrimaryKey(
            SPAN, self.maybe(self.identifier), self.identifiers(), self.pick((None, False, True))
        )

    def options(self) -> tuple[ast.Option, ...]:
        return self.some(lambda: ast.Option(SPAN, self.text(), self.text(), SPAN), 0, 3)

    def distribution(self) -> ast.Distribution:
        return self.one_of(
            lambda: ast.Distribution(SPAN, None, (), 1 + self.number()),
            lambda: ast.Distribution(
                SPAN,
                self.pick((None, "HASH", "RANGE")),
                self.identifiers(),
                self.maybe(lambda: 1 + self.number()),
            ),
        )

    def like(self) -> ast.TableLike:
        features = self.pick(
            ((), ("ALL",), ("OPTIONS", "WATERMARKS"), ("GENERATED", "METADATA", "PARTITIONS"))
        )
        behaviours = ("INCLUDING", "EXCLUDING")
        return ast.TableLike(
            SPAN,
            self.name(),
            tuple(ast.LikeOption(SPAN, self.pick(behaviours), feature) for feature in features),
        )

    def create_table(self, with_query: bool = False) -> ast.CreateTable:
        query = self.query(1) if with_query else None
        like = None if query else self.maybe(self.like)
        if query is not None and self.flag():
            columns: tuple[ast.ColumnDefinition, ...] = self.some(
                lambda: ast.NamedColumn(SPAN, self.identifier(), None)
            )
            watermark, key = None, None
        else:
            columns = self.some(self.column, 0, 3)
            watermark, key = self.maybe(self.watermark), self.maybe(self.primary_key)
        return ast.CreateTable(
            SPAN,
            self.name(),
            columns,
            watermark,
            key,
            self.options(),
            self.maybe(self.text),
            self.some(self.identifier, 0, 2),
            self.flag(),
            self.flag(),
            self.maybe(self.distribution),
            like,
            query,
        )

    # --- statements ---

    def statement(self) -> ast.Statement:
        return self.one_of(
            self.create_table,
            lambda: self.create_table(with_query=True),
            self.create_view,
            self.create_function,
            lambda: ast.CreateCatalog(SPAN, self.identifier(), self.options(), self.maybe(self.text), self.flag()),
            lambda: ast.CreateDatabase(SPAN, self.name(), self.options(), self.maybe(self.text), self.flag()),
            self.drop,
            self.alter,
            self.alter,
            lambda: self.pick((ast.Use(SPAN, self.name()), ast.Use(SPAN, self.simple_name(), True))),
            self.show,
            self.describe,
            lambda: ast.AddJar(SPAN, self.text(), self.flag()),
            self.insert,
            self.statement_set,
            lambda: ast.QueryStatement(SPAN, self.query(3)),
            lambda: ast.QueryStatement(SPAN, self.query(2)),
            lambda: ast.SetOption(SPAN, self.maybe(lambda: ast.Option(SPAN, self.text(), self.text(), SPAN))),
            lambda: ast.ResetOption(SPAN, self.maybe(self.text)),
            self.explain,
        )  # fmt: skip

    def create_view(self) -> ast.CreateView:
        columns = self.some(self.identifier, 0, 2)
        comment = self.maybe(self.text)
        return ast.CreateView(
            SPAN, self.name(), columns, self.query(2), comment, self.flag(), self.flag()
        )

    def create_function(self) -> ast.CreateFunction:
        language = self.pick((None, "JAVA", "SCALA", "PYTHON"))
        system = self.flag()
        name = self.simple_name() if system else self.name()
        resources = (
            ()
            if language == "PYTHON"
            else self.some(lambda: (self.pick(("JAR", "ARTIFACT")), self.text()), 0, 2)
        )
        return ast.CreateFunction(
            SPAN,
            name,
            self.text(),
            SPAN,
            language,
            system or self.flag(),
            system,
            self.flag(),
            resources,
        )

    def drop(self) -> ast.DropObject:
        kind = self.pick(("TABLE", "VIEW", "FUNCTION", "CATALOG", "DATABASE"))
        temporary = kind in ("TABLE", "VIEW", "FUNCTION") and self.flag()
        system = temporary and kind == "FUNCTION" and self.flag()
        cascade = self.pick((None, True, False)) if kind == "DATABASE" else None
        return ast.DropObject(SPAN, kind, self.name(), self.flag(), temporary, system, cascade)

    def alter(self) -> ast.Alter:
        kind, change = self.pick(
            (
                ("TABLE", lambda: ast.RenameTo(SPAN, self.name())),
                ("TABLE", lambda: ast.SetOptions(SPAN, self.options())),
                ("TABLE", self.reset_options),
                ("TABLE", lambda: ast.RenameColumn(SPAN, self.name(), self.identifier())),
                ("TABLE", lambda: self.elements(ast.AddElements)),
                ("TABLE", lambda: self.elements(ast.ModifyElements)),
                ("TABLE", lambda: ast.DropColumns(SPAN, self.some(self.name))),
                (
                    "TABLE",
                    lambda: ast.DropElement(
                        SPAN, self.pick(("PRIMARY KEY", "WATERMARK", "DISTRIBUTION"))
                    ),
                ),
                ("TABLE", lambda: ast.DropElement(SPAN, "CONSTRAINT", self.identifier())),
                ("VIEW", lambda: ast.RedefineView(SPAN, self.query(1))),
                ("VIEW", lambda: ast.RenameTo(SPAN, self.name())),
                ("DATABASE", lambda: ast.SetOptions(SPAN, self.options())),
                ("CATALOG", lambda: ast.Comment(SPAN, self.text())),
                ("CATALOG", self.reset_options),
            )
        )
        return ast.Alter(SPAN, kind, self.name(), change(), kind == "TABLE" and self.flag())

    def reset_options(self) -> ast.ResetOptions:
        keys = self.some(self.text, 0, 2)
        return ast.ResetOptions(SPAN, keys, tuple(SPAN for _ in keys))

    def elements(self, build: Any) -> ast.TableChange:
        if self.number(3) == 0:
            return build(SPAN, distribution=self.distribution())
        columns = self.some(self.placed_column, 0, 2)
        watermark = self.maybe(self.watermark) if columns else self.watermark()
        return build(SPAN, columns, watermark, self.maybe(self.primary_key))

    def placed_column(self) -> ast.PlacedColumn:
        first = self.flag()
        return ast.PlacedColumn(
            SPAN, self.column(), first, None if first else self.maybe(self.name)
        )

    def show(self) -> ast.Show:
        listed = self.pick(
            ("TABLES", "VIEWS", "DATABASES", "FUNCTIONS", "USER FUNCTIONS", "COLUMNS")
        )
        preposition = self.pick(("FROM", "IN") if listed == "COLUMNS" else (None, "FROM", "IN"))
        name = self.name() if preposition else None
        like = self.maybe(self.text)
        found = ast.Show(
            SPAN,
            listed,
            name,
            preposition,
            like,
            None if like is None else "LIKE",
            like is not None and self.flag(),
        )
        return self.pick(
            (
                found,
                found,
                ast.Show(
                    SPAN,
                    self.pick(
                        ("CURRENT CATALOG", "CURRENT DATABASE", "JARS", "JOBS", "FULL MODULES")
                    ),
                ),
                ast.Show(
                    SPAN,
                    self.pick(("CREATE TABLE", "CREATE VIEW", "CREATE CATALOG", "PARTITIONS")),
                    self.name(),
                ),
            )
        )

    def describe(self) -> ast.Describe:
        kind = self.pick(("TABLE", "TABLE", "CATALOG", "DATABASE", "FUNCTION"))
        return ast.Describe(
            SPAN, self.simple_name() if kind == "CATALOG" else self.name(), self.flag(), kind
        )

    def insert(self) -> ast.Insert:
        return ast.Insert(
            SPAN,
            self.name(),
            self.some(self.identifier, 0, 2),
            self.query(2),
            self.flag(),
            self.hints(),
            self.some(lambda: (self.identifier(), self.maybe(lambda: self.expression(1))), 0, 2),
            self.pick((None, "ERROR", "NOTHING", "DEDUPLICATE")),
        )

    def statement_set(self) -> ast.StatementSet:
        return ast.StatementSet(SPAN, self.some(self.insert))

    def explain(self) -> ast.Explain:
        statement = self.one_of(
            lambda: ast.QueryStatement(SPAN, self.query(1)),
            self.insert,
            self.statement_set,
            lambda: self.create_table(with_query=True),
        )
        return ast.Explain(
            SPAN, statement, self.pick(((), ("CHANGELOG_MODE",), ("ESTIMATED_COST", "PLAN_ADVICE")))
        )


FUNCTIONS = (
    "COUNT",
    "sum",
    "LEFT",
    "MOD",
    "LISTAGG",
    "extract",
    "json_value",
    "substring",
    "current_time",
    "FIRST_VALUE",
)

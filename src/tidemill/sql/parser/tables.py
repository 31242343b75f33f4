"""What a table is made of: columns, watermark, primary key, options."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from tidemill.errors import Span
from tidemill.sql import ast
from tidemill.sql.dialects import BLINK
from tidemill.sql.lexer import Token
from tidemill.sql.parser.queries import QueryParser
from tidemill.sql.parser.types import TYPE_NAMES

_OPTION_ENDS = frozenset({"=", ",", ")", "(", ";", "..."})
_ENFORCED_HINT = "write PRIMARY KEY (column, …) NOT ENFORCED"


# What LIKE takes over, and how. A feature that has no entries of its own cannot be overwritten.
_LIKE_BEHAVIOURS = ("INCLUDING", "EXCLUDING", "OVERWRITING")
_LIKE_FEATURES = (
    *("ALL", "CONSTRAINTS", "DISTRIBUTION", "GENERATED", "METADATA", "OPTIONS", "PARTITIONS"),
    "WATERMARKS",
)
_NEVER_OVERWRITTEN = frozenset({"ALL", "CONSTRAINTS", "DISTRIBUTION", "PARTITIONS"})

TableElement = ast.ColumnDefinition | ast.WatermarkDefinition | ast.PrimaryKey


@dataclass
class Schema:
    """The elements of a column list, as they are read."""

    columns: list[ast.ColumnDefinition] = field(default_factory=list)
    watermark: ast.WatermarkDefinition | None = None
    primary_key: ast.PrimaryKey | None = None


class TableParser(QueryParser):
    def _parse_schema(self) -> Schema:
        """( column | watermark | primary key, … ), or nothing at all."""
        schema = Schema()
        if not self._is("("):
            return schema
        opening = self._advance()
        while True:
            self._add_element(schema, self._parse_table_element())
            if not self._parse_separator(self._starts_column):
                break
        self._expect_closing(opening, "','")
        return schema

    def _add_element(self, schema: Schema, element: TableElement) -> None:
        if isinstance(element, ast.ColumnDefinition):
            schema.columns.append(element)
        elif isinstance(element, ast.WatermarkDefinition):
            self._refuse_second(schema.watermark, element, "watermark")
            schema.watermark = element
        else:
            self._refuse_second(schema.primary_key, element, "primary key")
            schema.primary_key = element

    def _refuse_second(self, first: ast.Node | None, second: ast.Node, what: str) -> None:
        if first is not None:
            self._report("SQL-019", f"table has a second {what}", second.span, "keep one of them")

    def _check_named_columns(self, schema: Schema, has_query: bool) -> None:
        """Names without types stand alone, and only where a query gives the types."""
        named = [c for c in schema.columns if isinstance(c, ast.NamedColumn)]
        if not named:
            return
        others = len(named) < len(schema.columns) or schema.watermark or schema.primary_key
        if not has_query:
            hint = "write its type behind the name; only CREATE TABLE … AS SELECT takes names alone"
        elif others:
            hint = "list either names alone, or columns with their types"
        else:
            return
        for column in named:
            self._report("SQL-010", f"column '{column.name.name}' has no type", column.span, hint)

    def _parse_table_element(self) -> TableElement:
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
        if self._is(",") or self._is(")"):
            return ast.NamedColumn(name.span, name, None)
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
        return following.key == "AS" or following.key in TYPE_NAMES

    # --- clauses behind the columns ---

    def _parse_distribution(self) -> ast.Distribution:
        """BY [HASH | RANGE] (a, b) [INTO n BUCKETS] | INTO n BUCKETS, its first word being read."""
        start = self.tokens[self.at - 1].start
        kind = None
        columns: tuple[ast.Identifier, ...] = ()
        if self._accept("BY"):
            kind = next((k for k in ("HASH", "RANGE") if self._accept(k)), None)
            columns = self._parse_identifier_list("a column's name")
        elif not self._is("INTO"):
            raise self._fail_expected(
                "BY or INTO", "write DISTRIBUTED BY (column, …) INTO 4 BUCKETS"
            )
        buckets = None
        if self._accept("INTO"):
            buckets = self._parse_size()
            self._expect("BUCKETS")
            if buckets == 0:
                raise self._fail("SQL-010", "a table has one bucket at least", self._span(start))
        return ast.Distribution(self._span(start), kind, columns, buckets)

    def _parse_like(self) -> ast.TableLike:
        """other [( INCLUDING | EXCLUDING | OVERWRITING feature … )]"""
        table = self._parse_qualified_name("a table's name")
        options: list[ast.LikeOption] = []
        if self._accept("("):
            while True:
                option = self._parse_like_option()
                if any(option.feature == other.feature for other in options):
                    self._report(
                        "SQL-019",
                        f"{option.feature} is given twice",
                        option.span,
                        "keep one of them",
                    )
                options.append(option)
                if self._accept(")"):
                    break
                if self._is(","):
                    raise self._fail_expected(
                        "')' or another option", "the options of LIKE have no commas between them"
                    )
        return ast.TableLike(self._span(table.span.start), table, tuple(options))

    def _parse_like_option(self) -> ast.LikeOption:
        start = self.token.start
        behaviour = self._parse_choice(_LIKE_BEHAVIOURS)
        feature = self._parse_choice(_LIKE_FEATURES)
        span = self._span(start)
        if behaviour == "OVERWRITING" and feature in _NEVER_OVERWRITTEN:
            self._report(
                "SQL-019",
                f"{feature} cannot be overwritten",
                span,
                f"write INCLUDING {feature} or EXCLUDING {feature}",
            )
        return ast.LikeOption(span, behaviour, feature)

    # --- options ---

    def _parse_options(self, word: str = "WITH") -> tuple[ast.Option, ...]:
        if not self._is("("):
            raise self._fail_expected("'('", f"write {word} ('key' = 'value', …)")
        opening = self._advance()
        options: list[ast.Option] = []
        while not self._is(")"):
            options.append(self._parse_option())
            if not self._parse_separator(lambda: self.token.kind in ("text", "word", "name")):
                break
        self._expect_closing(opening, "','")
        return tuple(options)

    def _parse_option_keys(self) -> tuple[Token, ...]:
        self._expect("(", hint="write RESET ('key', …)")
        keys: list[Token] = []
        while not self._is(")"):
            keys.append(self._expect_text("an option's name"))
            if not self._parse_separator(lambda: self.token.kind == "text"):
                break
        self._expect(")")
        return tuple(keys)

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
        bare = all(a.end == b.start for a, b in pairwise(pieces))
        written = "".join(piece.value for piece in pieces)
        if bare and self.dialect.bare_options:
            return written, span
        if bare and what == "name":
            hint = f"write '{written}', or run it with --dialect {BLINK.name}"
        elif "\n" in span.text:
            hint = "write it in single quotes"
        else:
            hint = f"write '{span.text}'"
        self._report("SQL-010", f"option's {what} must be in single quotes", span, hint)
        return span.text, span

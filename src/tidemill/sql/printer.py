"""Syntax tree → canonical Flink SQL. In: any node. Out: text that parses to an equal tree.

Keywords are in upper case, names in back quotes only where they need them, parentheses only where the operators'
precedences ask for them. Names and functions keep the case in which they were typed. Every node has one text on one
line; `layout` breaks the lines of statements and queries.

`create_table_text` and `create_view_text` write what Flink's SHOW CREATE shows: every name quoted and whole, types in
full.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from tidemill import types
from tidemill.errors import Source
from tidemill.sql import ast, grammar
from tidemill.sql.layout import lay_out, pieces_of
from tidemill.sql.lexer import RESERVED, is_plain_name, tokenize

# Words that are not reserved, but that the grammar takes for something else where a name may stand as well.
_AMBIGUOUS = frozenset(
    {
        "$",
        "CATALOG",
        "DESCRIPTOR",
        "DISTRIBUTION",
        "FINAL",
        "IF",
        "MAP",
        "MODEL",
        "TRY_CAST",
        "UNBOUNDED",
    }
)

# Characters that cannot be seen, or that would not survive in a file: a text with one of them is written U&'…'.
_HIDDEN = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u180e\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff]|\r(?!\n)"
)

_INTERVAL_END = re.compile(r"' (?:YEAR|DAY|HOUR|MINUTE)(?:\(\d+\))?\Z")

_CLOSED = grammar.ACCESS + 1
"""Binds tighter than every operator: literals, calls and what stands in parentheses of its own."""


# --- entry points ------------------------------------------------------------------------------


def print_script(script: ast.Script) -> str:
    """All statements, each with its semicolon, an empty line between two of them."""
    return "\n".join(print_statement(statement) + ";\n" for statement in script.statements)


def print_statement(statement: ast.Statement) -> str:
    """One statement in lines, without its semicolon, for which the last line has room."""
    return _in_lines(_PLAIN.text(statement) + ";").removesuffix(";")


def print_query(query: ast.Query) -> str:
    return _in_lines(_PLAIN.text(query))


def print_expression(expression: ast.Expression) -> str:
    """An expression on one line."""
    return _PLAIN.text(expression)


def print_full_expression(expression: ast.Expression) -> str:
    """An expression as SHOW CREATE and DESCRIBE show it."""
    return _FULL.text(expression)


def print_type(type_: types.SqlType) -> str:
    return _PLAIN.typed(type_)


def print_name(name: ast.Identifier | ast.QualifiedName) -> str:
    return _PLAIN.text(name)


def _in_lines(text: str) -> str:
    source = Source("", text)
    tokens, _ = tokenize(source)
    return lay_out(pieces_of(source, tokens))


# --- SHOW CREATE -------------------------------------------------------------------------------


def create_table_text(
    table: ast.CreateTable,
    identifier: Sequence[str],
    options: Iterable[tuple[str, str]],
) -> str:
    """What SHOW CREATE TABLE shows. The options are those that may be seen: the caller masks secrets."""
    elements = [_FULL.text(column) for column in table.columns]
    if table.watermark is not None:
        elements.append(_FULL.text(table.watermark))
    if (key := _primary_key(table)) is not None:
        elements.append(_FULL.text(key))
    lines = [
        _create_head("TABLE", table.temporary, identifier) + " (",
        ",\n".join("  " + element for element in elements),
        ")",
    ]
    if table.comment:
        lines.append(f"COMMENT {_quoted(table.comment)}")
    if table.distribution is not None:
        lines.append("DISTRIBUTED" + _FULL.distribution(table.distribution))
    if table.partitioned_by:
        lines.append("PARTITIONED BY " + _FULL.names(table.partitioned_by))
    if shown := sorted(options):
        entries = ",\n".join(f"  {_quoted(key)} = {_quoted(value)}" for key, value in shown)
        lines.append(f"WITH (\n{entries}\n)")
    return "\n".join(lines) + "\n"


def create_view_text(
    view: ast.CreateView, identifier: Sequence[str], columns: Iterable[str]
) -> str:
    """What SHOW CREATE VIEW shows; the columns are those of the query, or those that the view renames them to."""
    names = ",\n".join(f"  {_back_quoted(name)}" for name in columns)
    lines = [_create_head("VIEW", view.temporary, identifier) + " (", names, ")"]
    if view.comment:
        lines.append(f"COMMENT {_quoted(view.comment)}")
    lines.append("AS " + _in_lines(_FULL.text(view.query)))
    return "\n".join(lines) + "\n"


def _create_head(kind: str, temporary: bool, identifier: Sequence[str]) -> str:
    name = ".".join(map(_back_quoted, identifier))
    return f"CREATE {'TEMPORARY ' if temporary else ''}{kind} {name}"


def _primary_key(table: ast.CreateTable) -> ast.PrimaryKey | None:
    """The table's key under Flink's name for it, also where it is declared at its column."""
    key = table.primary_key
    if key is None:
        marked = [c for c in table.columns if isinstance(c, ast.PhysicalColumn) and c.primary_key]
        if not marked:
            return None
        key = ast.PrimaryKey(marked[0].span, None, (marked[0].name,), False)
    name = key.name or ast.Identifier(key.span, "PK_" + "_".join(c.name for c in key.columns))
    return ast.PrimaryKey(key.span, name, key.columns, False)


# --- names, texts and types --------------------------------------------------------------------


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _back_quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _literal(text: str) -> str:
    """A text as a literal; with escapes where it holds characters that nobody would see."""
    if not _HIDDEN.search(text):
        return _quoted(text)
    escaped = _HIDDEN.sub(lambda found: f"\\{ord(found[0]):04X}", text.replace("\\", "\\\\"))
    return "U&" + _quoted(escaped)


def _is_bare(name: str) -> bool:
    """Whether a name stands for itself without back quotes."""
    return is_plain_name(name) and name.upper() not in RESERVED and name.upper() not in _AMBIGUOUS


def _words(*parts: str | None) -> str:
    """The parts that are there, with spaces between them."""
    return " ".join(part for part in parts if part)


class _Printer:
    """Texts on one line. `full` is the form of SHOW CREATE: all names quoted, types by their long names."""

    def __init__(self, full: bool) -> None:
        self.full = full

    def text(self, node: ast.Node) -> str:
        return _TEXTS[type(node)](self, node)

    def commas(self, nodes: Iterable[ast.Node]) -> str:
        return ", ".join(self.text(node) for node in nodes)

    def clause(self, word: str, node: ast.Node | None) -> str | None:
        """A node behind its word, if it is there."""
        return None if node is None else _words(word, self.text(node))

    def listed(self, word: str, nodes: Sequence[ast.Node]) -> str | None:
        return f"{word} {self.commas(nodes)}" if nodes else None

    def named(self, word: str, names: Sequence[ast.Identifier]) -> str | None:
        return _words(word, self.names(names)) if names else None

    def names(self, names: Iterable[ast.Identifier]) -> str:
        return f"({self.commas(names)})"

    def name(self, text: str) -> str:
        return text if not self.full and _is_bare(text) else _back_quoted(text)

    def identifier(self, node: ast.Identifier) -> str:
        return self.name(node.name)

    def qualified_name(self, node: ast.QualifiedName) -> str:
        return ".".join(self.text(part) for part in node.parts)

    def typed(self, type_: types.SqlType) -> str:
        return self.type_name(type_) + ("" if type_.nullable else " NOT NULL")

    def type_name(self, type_: types.SqlType) -> str:
        match type_:
            case types.VarCharType() | types.VarBinaryType() if self.full:
                return type_.full
            case types.TimestampLtzType() if self.full:
                return f"TIMESTAMP({type_.precision}) WITH LOCAL TIME ZONE"
            case types.ArrayType() | types.MultisetType():
                return f"{type_.root}<{self.typed(type_.element)}>"
            case types.MapType():
                return f"MAP<{self.typed(type_.key)}, {self.typed(type_.value)}>"
            case types.RowType():
                return f"ROW<{', '.join(map(self.field, type_.fields))}>"
        return str(type_.as_nullable)

    def field(self, field: types.Field) -> str:
        comment = None if field.comment is None else _literal(field.comment)
        return _words(self.name(field.name), self.typed(field.type), comment)

    # --- expressions ---

    def operand(self, node: ast.Expression, floor: int) -> str:
        """An expression where only operators that bind at least as tightly as `floor` need no parentheses."""
        text = self.text(node)
        return f"({text})" if _power(node) < floor else text

    def number(self, node: ast.NumberLiteral) -> str:
        return node.text

    def string(self, node: ast.StringLiteral) -> str:
        return _literal(node.value)

    def binary_literal(self, node: ast.BinaryLiteral) -> str:
        return f"X'{node.value.hex().upper()}'"

    def boolean(self, node: ast.BooleanLiteral) -> str:
        return "TRUE" if node.value else "FALSE"

    def null(self, node: ast.NullLiteral) -> str:
        return "NULL"

    def temporal(self, node: ast.TemporalLiteral) -> str:
        return f"{node.kind.value} {_literal(node.text)}"

    def interval(self, node: ast.IntervalLiteral) -> str:
        sign = "-" if node.negative else ""
        return f"INTERVAL {sign}{_literal(node.text)} {_interval_unit(node)}"

    def column(self, node: ast.ColumnReference) -> str:
        return self.text(node.name)

    def star(self, node: ast.Star) -> str:
        return "*" if node.qualifier is None else f"{self.text(node.qualifier)}.*"

    def unary(self, node: ast.Unary) -> str:
        if node.operator == "NOT":
            return f"NOT {self.operand(node.operand, grammar.NOT)}"
        text = self.operand(node.operand, grammar.SIGN)
        # Two minus signs side by side would start a comment.
        return f"{node.operator} {text}" if text[0] in "+-" else f"{node.operator}{text}"

    def binary(self, node: ast.Binary) -> str:
        """Chains lean to the left and may be thousands of operands long, so they are walked, not descended."""
        parts: list[str] = []
        while True:
            power = grammar.POWER[node.operator]
            parts += [self.operand(node.right, power + 1), node.operator]
            left = node.left
            if not isinstance(left, ast.Binary) or _power(left) < power:
                parts.append(self.operand(left, power))
                return " ".join(reversed(parts))
            node = left

    def is_test(self, node: ast.IsTest) -> str:
        text = (
            self.operand(node.operand, grammar.IS)
            + (" IS NOT " if node.negated else " IS ")
            + node.test
        )
        return (
            text
            if node.other is None
            else f"{text} {self.operand(node.other, grammar.COMPARE + 1)}"
        )

    def between(self, node: ast.Between) -> str:
        low, high = (self.operand(n, grammar.PREDICATE + 1) for n in (node.low, node.high))
        word = "BETWEEN SYMMETRIC" if node.symmetric else "BETWEEN"
        return f"{self._predicate(node, word)} {low} AND {high}"

    def in_list(self, node: ast.InList) -> str:
        return f"{self._predicate(node, 'IN')} ({', '.join(map(self._tuple, node.items))})"

    def in_query(self, node: ast.InQuery) -> str:
        return f"{self._predicate(node, 'IN')} ({self.text(node.query)})"

    def _predicate(self, node: ast.Between | ast.InList | ast.InQuery | ast.Like, word: str) -> str:
        operand = (
            self._tuple(node.operand)
            if isinstance(node.operand, ast.RowConstructor)
            else self.operand(node.operand, grammar.PREDICATE)
        )
        return _words(operand, "NOT" if node.negated else None, word)

    def _tuple(self, node: ast.Expression) -> str:
        """(a, b) in place of ROW(a, b), where only a tuple can be meant."""
        if isinstance(node, ast.RowConstructor) and len(node.items) > 1:
            return f"({self.commas(node.items)})"
        return self.text(node)

    def like(self, node: ast.Like) -> str:
        floor = grammar.PREDICATE + 1
        word = "SIMILAR TO" if node.similar else "LIKE"
        text = f"{self._predicate(node, word)} {self.operand(node.pattern, floor)}"
        return text if node.escape is None else f"{text} ESCAPE {self.operand(node.escape, floor)}"

    def exists(self, node: ast.Exists) -> str:
        return f"EXISTS ({self.text(node.query)})"

    def scalar_query(self, node: ast.ScalarQuery) -> str:
        return f"({self.text(node.query)})"

    def case(self, node: ast.Case) -> str:
        branches = (f"WHEN {self.text(c)} THEN {self.text(r)}" for c, r in node.branches)
        return _words(
            "CASE",
            self.clause("", node.operand),
            *branches,
            self.clause("ELSE", node.otherwise),
            "END",
        )

    def cast(self, node: ast.Cast) -> str:
        word = "TRY_CAST" if node.safe else "CAST"
        return f"{word}({self.text(node.operand)} AS {self.typed(node.type)})"

    def named_argument(self, node: ast.NamedArgument) -> str:
        return f"{self.text(node.name)} => {self.text(node.value)}"

    def array(self, node: ast.ArrayConstructor) -> str:
        return f"ARRAY[{self.commas(node.items)}]"

    def map(self, node: ast.MapConstructor) -> str:
        return f"MAP[{self.commas(node.items)}]"

    def row(self, node: ast.RowConstructor) -> str:
        return f"ROW({self.commas(node.items)})"

    def element(self, node: ast.ElementAccess) -> str:
        return f"{self._accessed(node.operand)}[{self.text(node.index)}]"

    def field_access(self, node: ast.FieldAccess) -> str:
        operand = self._accessed(node.operand)
        if isinstance(node.operand, ast.ColumnReference):  # a.b would be one name
            operand = f"({operand})"
        return f"{operand}.{self.text(node.field)}"

    def _accessed(self, node: ast.Expression) -> str:
        text = self.text(node)
        plain = isinstance(
            node,
            (
                ast.ColumnReference,
                ast.ElementAccess,
                ast.FieldAccess,
                ast.ArrayConstructor,
                ast.MapConstructor,
            ),
        )
        called = (
            isinstance(node, ast.FunctionCall)
            and node.form is None
            and node.over is None
            and text.endswith(")")
        )
        return text if plain or called else f"({text})"

    def frame(self, node: ast.WindowFrame) -> str:
        if node.end is None:
            return f"{node.unit} {self.text(node.start)}"
        return f"{node.unit} BETWEEN {self.text(node.start)} AND {self.text(node.end)}"

    def frame_bound(self, node: ast.FrameBound) -> str:
        value = None if node.value is None else self.operand(node.value, grammar.AND + 1)
        return _words(value, node.kind)

    def window(self, node: ast.WindowSpecification) -> str:
        inside = _words(
            self.clause("", node.base),
            self.listed("PARTITION BY", node.partition_by),
            self.order_by(node.order_by),
            self.clause("", node.frame),
        )
        return f"({inside})"

    def order_by(self, items: tuple[ast.OrderItem, ...]) -> str | None:
        return f"ORDER BY {self.commas(items)}" if items else None

    def order_item(self, node: ast.OrderItem) -> str:
        nulls = {None: None, True: "NULLS FIRST", False: "NULLS LAST"}[node.nulls_first]
        return _words(self.text(node.expression), "DESC" if node.descending else None, nulls)

    def table_argument(self, node: ast.TableArgument) -> str:
        relation = self.text(node.relation)
        if isinstance(node.relation, ast.TableReference):
            relation = f"TABLE {relation}"
        partition_by = self._bracketed("PARTITION BY", node.partition_by)
        return _words(relation, partition_by, self._bracketed("ORDER BY", node.order_by))

    def _bracketed(self, word: str, items: Sequence[ast.Node]) -> str | None:
        """One item, or several in parentheses."""
        text = self.commas(items)
        plain = len(items) == 1 and not text.startswith("(")
        return (f"{word} {text}" if plain else f"{word} ({text})") if items else None

    def descriptor(self, node: ast.DescriptorArgument) -> str:
        return f"DESCRIPTOR{self.names(node.columns)}"

    # --- calls ---

    def call(self, node: ast.FunctionCall) -> str:
        if node.form in ("FINAL", "RUNNING"):
            return f"{node.form} {self.call(replace(node, form=None))}"
        word = str(node.name).upper() if len(node.name.parts) == 1 else ""
        special = _FORMS.get((node.form or word).split()[0]) if (node.form or word) else None
        text = special(self, node) if special is not None else None
        if text is None:
            text = self._plain_call(node, word)
        return _words(text, *self._call_suffix(node, word))

    def _call_suffix(self, node: ast.FunctionCall, word: str) -> Iterable[str | None]:
        if node.order_by and word != "JSON_ARRAYAGG":
            yield f"WITHIN GROUP ({self.order_by(node.order_by)})"
        if node.filter is not None:
            yield f"FILTER (WHERE {self.text(node.filter)})"
        yield self.clause("OVER", node.over)

    def _plain_call(self, node: ast.FunctionCall, word: str) -> str:
        # Flink quotes a function's name only where it must, in SHOW CREATE too.
        name = _PLAIN.text(node.name)
        if word in grammar.FUNCTION_WORDS or word == "UNNEST":
            name = node.name.parts[0].name
        elif word in _FORMS:
            name = _back_quoted(node.name.parts[0].name)
        if node.star:
            return f"{name}(*)"
        suffixed = node.filter or node.over or node.order_by or node.nulls
        if word in grammar.NILADIC and not node.arguments and not suffixed:
            return node.name.parts[0].name
        distinct = "DISTINCT " if node.distinct else ""
        call = f"{name}({distinct}{self.commas(node.arguments)})"
        return _words(call, node.nulls)

    def _form(self, node: ast.FunctionCall, inside: str) -> str:
        """A call with a syntax of its own: the name needs no back quotes."""
        return f"{node.name.parts[0].name}({inside})"

    def extract(self, node: ast.FunctionCall) -> str | None:
        if node.form is None:
            return None
        unit, value = node.arguments
        return self._form(node, f"{_unit(unit)} FROM {self.text(value)}")

    def position(self, node: ast.FunctionCall) -> str | None:
        if node.form is None:
            return None
        part, text, *start = node.arguments
        first = self.operand(part, grammar.PREDICATE + 1)
        inside = f"{first} IN {self.text(text)}"
        return self._form(node, _words(inside, start and f"FROM {self.text(start[0])}" or None))

    def trim(self, node: ast.FunctionCall) -> str | None:
        if node.form is None:
            return self._plain_form(node, len(node.arguments) == 1)
        text, *characters = node.arguments
        side = node.form.removeprefix("TRIM ")
        return self._form(node, _words(side, self.commas(characters), f"FROM {self.text(text)}"))

    def substring(self, node: ast.FunctionCall) -> str | None:
        return self._plain_form(node, len(node.arguments) in (2, 3))

    def overlay(self, node: ast.FunctionCall) -> str | None:
        if node.form is None:
            return None
        text, part, start, *length = map(self.text, node.arguments)
        inside = f"{text} PLACING {part} FROM {start}"
        return self._form(node, _words(inside, f"FOR {length[0]}" if length else None))

    def rounding(self, node: ast.FunctionCall) -> str | None:
        if node.form is None:
            return self._plain_form(node, len(node.arguments) == 1)
        value, unit = node.arguments
        text = self.text(value)
        if _INTERVAL_END.search(text):  # INTERVAL '1' DAY TO HOUR would be one interval
            text = f"({text})"
        return self._form(node, f"{text} TO {_unit(unit)}")

    def timestamp_arithmetic(self, node: ast.FunctionCall) -> str | None:
        if node.form is None:
            return None
        unit, *operands = node.arguments
        return self._form(node, f"{_unit(unit)}, {self.commas(operands)}")

    def overlaps(self, node: ast.FunctionCall) -> str:
        left, right = node.arguments
        power = grammar.COMPARE
        return f"{self.operand(left, power)} {node.name.parts[0].name} {self.operand(right, power + 1)}"

    def _plain_form(self, node: ast.FunctionCall, fits: bool) -> str | None:
        """A call that its own syntax reads as any other; otherwise its name has to be quoted."""
        named = any(isinstance(argument, ast.NamedArgument) for argument in node.arguments)
        if not fits or named or node.distinct or node.star or node.nulls or node.order_by:
            return None
        return self._form(node, self.commas(node.arguments))

    def json(self, node: ast.FunctionCall) -> str | None:
        """JSON_VALUE and its kin: the clauses stand in the form, defaults among the arguments."""
        word = str(node.name).upper()
        misplaced = node.order_by and word != "JSON_ARRAYAGG"
        if node.distinct or node.star or node.nulls or misplaced:
            return None
        clauses = (node.form or "").removeprefix("JSON ")
        if word in _JSON_READS:
            return self._json_read(node, clauses.split(", ") if clauses else [])
        keyed = word.startswith("JSON_OBJECT")
        if (keyed and len(node.arguments) % 2) or len(node.arguments) not in _JSON_ARGUMENTS.get(
            word, (len(node.arguments),)
        ):
            return None
        arguments = self.commas(node.arguments)
        if keyed:
            pairs = zip(node.arguments[::2], node.arguments[1::2], strict=True)
            arguments = ", ".join(self._json_pair(key, value) for key, value in pairs)
        return self._form(node, _words(arguments, self.order_by(node.order_by), clauses))

    def _json_pair(self, key: ast.Expression, value: ast.Expression) -> str:
        # `x IS JSON VALUE` would be a test of its own.
        text = f"{self.operand(key, grammar.IS + 1)} VALUE {self.text(value)}"
        return text if text.startswith("(") else f"KEY {text}"  # KEY (…) would be a call

    def _json_read(self, node: ast.FunctionCall, clauses: list[str]) -> str | None:
        plain = [a for a in node.arguments if not isinstance(a, ast.NamedArgument)]
        defaults = {
            a.name.name: a.value for a in node.arguments if isinstance(a, ast.NamedArgument)
        }
        if len(plain) != 2:
            return None
        shown = [
            f"DEFAULT {self.text(defaults[clause.removeprefix('DEFAULT ')])} {clause[8:]}"
            if clause.startswith("DEFAULT")
            else clause
            for clause in clauses
        ]
        returning = None if node.returning is None else f"RETURNING {self.typed(node.returning)}"
        return self._form(node, _words(self.commas(plain), returning, *shown))

    # --- relations ---

    def hints(self, hints: tuple[ast.Hint, ...]) -> str | None:
        return f"/*+ {self.commas(hints)} */" if hints else None

    def hint(self, node: ast.Hint) -> str:
        arguments = ", ".join(
            value
            if key is None and _is_bare(value)
            else _literal(value)
            if key is None
            else f"{_literal(key)} = {_literal(value)}"
            for key, value in node.arguments
        )
        name = self.name(node.name)
        return f"{name}({arguments})" if arguments else name

    def _aliased(
        self,
        text: str,
        node: ast.TableReference | ast.Subquery | ast.TableFunction | ast.MatchRecognize,
    ) -> str:
        alias = self.clause("AS", node.alias)
        return _words(text, alias, self.named("", node.column_aliases))

    def table_reference(self, node: ast.TableReference) -> str:
        as_of = self.clause("FOR SYSTEM_TIME AS OF", node.as_of)
        return self._aliased(_words(self.text(node.name), self.hints(node.hints), as_of), node)

    def subquery(self, node: ast.Subquery) -> str:
        text = f"({self.text(node.query)})"
        return self._aliased(f"LATERAL {text}" if node.lateral else text, node)

    def table_function(self, node: ast.TableFunction) -> str:
        call = self.text(node.call)
        if call.upper() in grammar.NILADIC:
            call = f"{_back_quoted(call)}()"  # No table stands without parentheses.
        if str(node.call.name).upper() != "UNNEST":
            call = f"TABLE({call})"
        ordinality = "WITH ORDINALITY" if node.with_ordinality else None
        text = _words("LATERAL" if node.lateral else None, call, ordinality)
        return self._aliased(text, node)

    def join(self, node: ast.Join) -> str:
        """Chains lean to the left, like those of operators."""
        parts: list[str] = []
        relation: ast.Relation = node
        while isinstance(relation, ast.Join):
            right = self.text(relation.right)
            if isinstance(relation.right, ast.Join):
                right = f"({right})"
            parts.append(
                _words(
                    "NATURAL" if relation.natural else None,
                    "JOIN" if relation.kind == "INNER" else f"{relation.kind} JOIN",
                    right,
                    self.clause("ON", relation.condition),
                    self.named("USING", relation.using),
                )
            )
            relation = relation.left
        return " ".join([self.text(relation), *reversed(parts)])

    def match_recognize(self, node: ast.MatchRecognize) -> str:
        source = self.text(node.input)
        if isinstance(node.input, ast.Join):
            source = f"({source})"
        pattern = _words(
            "^" if node.starts else None, self.text(node.pattern), "$" if node.ends else None
        )
        subsets = ", ".join(f"{self.text(n)} = {self.names(of)}" for n, of in node.subsets)
        definitions = ", ".join(f"{self.text(n)} AS {self.text(e)}" for n, e in node.definitions)
        rows = {None: None, "ONE": "ONE ROW PER MATCH", "ALL": "ALL ROWS PER MATCH"}
        inside = _words(
            self.listed("PARTITION BY", node.partition_by),
            self.order_by(node.order_by),
            self.listed("MEASURES", node.measures),
            rows[node.rows_per_match],
            node.after_match and f"AFTER MATCH SKIP {self._skip_target(node.after_match)}",
            f"PATTERN ({pattern})",
            self.clause("WITHIN", node.within),
            subsets and f"SUBSET {subsets}",
            f"DEFINE {definitions}",
        )
        return self._aliased(f"{source} MATCH_RECOGNIZE ({inside})", node)

    def _skip_target(self, target: str) -> str:
        """`TO LAST a`: the variable is a name like any other."""
        for words in ("TO FIRST ", "TO LAST "):
            if target.startswith(words):
                return words + self.name(target.removeprefix(words))
        return target

    def measure(self, node: ast.Measure) -> str:
        return f"{_words(node.semantics, self.text(node.expression))} AS {self.text(node.alias)}"

    def pattern_variable(self, node: ast.PatternVariable) -> str:
        return self.text(node.name)

    def pattern_sequence(self, node: ast.PatternSequence) -> str:
        parts = (self._pattern_part(part, ast.PatternSequence) for part in node.parts)
        return " ".join(parts) or "()"

    def pattern_alternation(self, node: ast.PatternAlternation) -> str:
        return " | ".join(self._pattern_part(part, ast.PatternAlternation) for part in node.parts)

    def pattern_permutation(self, node: ast.PatternPermutation) -> str:
        return f"PERMUTE({self.commas(node.parts)})"

    def pattern_exclusion(self, node: ast.PatternExclusion) -> str:
        return f"{{- {self.text(node.operand)} -}}"

    def pattern_repetition(self, node: ast.PatternRepetition) -> str:
        bounds = (node.least, node.most)
        most = "" if node.most is None else str(node.most)
        exact = f"{{{node.least}}}" if node.least == node.most else f"{{{node.least},{most}}}"
        sign = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get(bounds, exact)
        operand = self._pattern_part(node.operand, ast.PatternRepetition)
        return f"{operand}{sign}{'?' if node.reluctant else ''}"

    def _pattern_part(self, node: ast.Pattern, parent: type[ast.Pattern]) -> str:
        text = self.text(node)
        level = _PATTERN_LEVELS.get(type(node), len(_PATTERN_LEVELS))
        if level > _PATTERN_LEVELS[parent] or text == "()":
            return text
        return f"({text})"

    # --- queries ---

    def query(self, node: ast.Query) -> str:
        return _words(
            self.listed("WITH", node.common_tables),
            self.text(node.body),
            self.order_by(node.order_by),
            self.clause("LIMIT", node.limit),
            self.clause("OFFSET", node.offset),
        )

    def common_table(self, node: ast.CommonTable) -> str:
        columns = self.named("", node.columns)
        return _words(self.text(node.name), columns, f"AS ({self.text(node.query)})")

    def select(self, node: ast.Select) -> str:
        group_by = None
        if node.group_by is not None:
            group_by = f"GROUP BY {self.commas(node.group_by)}"
        windows = ", ".join(f"{self.text(name)} AS {self.text(w)}" for name, w in node.windows)
        return _words(
            "SELECT",
            self.hints(node.hints),
            "DISTINCT" if node.distinct else None,
            self.commas(node.items),
            self.clause("FROM", node.source),
            self.clause("WHERE", node.where),
            group_by,
            self.clause("HAVING", node.having),
            windows and f"WINDOW {windows}",
            self.clause("QUALIFY", node.qualify),
        )

    def select_item(self, node: ast.SelectItem) -> str:
        return _words(self.text(node.expression), self.clause("AS", node.alias))

    def grouping_set(self, node: ast.GroupingSet) -> str:
        sets = ", ".join(
            self.text(s[0]) if len(s) == 1 else f"({self.commas(s)})" for s in node.sets
        )
        return f"{node.kind} ({sets})"

    def set_operation(self, node: ast.SetOperation) -> str:
        parts: list[str] = []
        body: ast.QueryBody = node
        level = 0
        while isinstance(body, ast.SetOperation) and _SET_LEVELS[body.operator] >= level:
            level = _SET_LEVELS[body.operator]
            word = f"{body.operator} ALL" if body.all else body.operator
            parts += [self._set_operand(body.right, level + 1), word]
            body = body.left
        parts.append(self._set_operand(body, level))
        return " ".join(reversed(parts))

    def _set_operand(self, node: ast.QueryBody, level: int) -> str:
        text = self.text(node)
        loose = isinstance(node, ast.SetOperation) and _SET_LEVELS[node.operator] < level
        return f"({text})" if loose else text

    def values(self, node: ast.Values) -> str:
        return "VALUES " + ", ".join(map(self._values_row, node.rows))

    def _values_row(self, row: ast.RowConstructor) -> str:
        nested = len(row.items) == 1 and isinstance(row.items[0], ast.RowConstructor)
        return self.text(row) if nested or not row.items else f"({self.commas(row.items)})"

    def nested_query(self, node: ast.NestedQuery) -> str:
        return f"({self.text(node.query)})"

    # --- tables ---

    def _column(self, node: ast.ColumnDefinition, *parts: str | None) -> str:
        comment = None if node.comment is None else f"COMMENT {_literal(node.comment)}"
        return _words(self.text(node.name), *parts, comment)

    def physical_column(self, node: ast.PhysicalColumn) -> str:
        if self.full or not node.primary_key:
            return self._column(node, self.typed(node.type))
        return self._column(node, self.typed(node.type), "PRIMARY KEY", _enforced(node.enforced))

    def metadata_column(self, node: ast.MetadataColumn) -> str:
        key = None if node.key is None else f"FROM {_literal(node.key)}"
        virtual = "VIRTUAL" if node.virtual else None
        return self._column(node, self.typed(node.type), "METADATA", key, virtual)

    def computed_column(self, node: ast.ComputedColumn) -> str:
        return self._column(node, f"AS {self.text(node.expression)}")

    def named_column(self, node: ast.NamedColumn) -> str:
        return self._column(node)

    def watermark(self, node: ast.WatermarkDefinition) -> str:
        expression = self.text(node.expression)
        name = node.name and not self.full and self.text(node.name) or None
        return _words("WATERMARK", name, "FOR", self.text(node.column), "AS", expression)

    def primary_key(self, node: ast.PrimaryKey) -> str:
        name = self.clause("CONSTRAINT", node.name)
        return _words(name, "PRIMARY KEY", self.names(node.columns), _enforced(node.enforced))

    def option(self, node: ast.Option) -> str:
        return f"{_literal(node.key)} = {_literal(node.value)}"

    def options(self, options: tuple[ast.Option, ...]) -> str | None:
        return f"WITH ({self.commas(options)})" if options else None

    def distribution(self, node: ast.Distribution) -> str:
        """What stands behind DISTRIBUTED or DISTRIBUTION."""
        by = f" BY {node.kind or ''}{self.names(node.columns)}" if node.columns else ""
        into = "" if node.buckets is None else f" INTO {node.buckets} BUCKETS"
        return by + into

    def table_like(self, node: ast.TableLike) -> str:
        options = " ".join(map(self.text, node.options))
        return _words("LIKE", self.text(node.table), options and f"({options})")

    def like_option(self, node: ast.LikeOption) -> str:
        return f"{node.behaviour} {node.feature}"

    # --- statements ---

    def comment(self, text: str | None) -> str | None:
        return None if text is None else f"COMMENT {_literal(text)}"

    def create_table(self, node: ast.CreateTable) -> str:
        elements: list[ast.Node] = [*node.columns]
        elements += [e for e in (node.watermark, node.primary_key) if e is not None]
        return _words(
            _create("TABLE", node.temporary, node.if_not_exists),
            self.text(node.name),
            f"({self.commas(elements)})" if elements else None,
            self.comment(node.comment),
            None
            if node.distribution is None
            else "DISTRIBUTED" + self.distribution(node.distribution),
            self.named("PARTITIONED BY", node.partitioned_by),
            self.options(node.options),
            self.clause("", node.like),
            self.clause("AS", node.query),
        )

    def create_view(self, node: ast.CreateView) -> str:
        return _words(
            _create("VIEW", node.temporary, node.if_not_exists),
            self.text(node.name),
            self.named("", node.columns),
            self.comment(node.comment),
            f"AS {self.text(node.query)}",
        )

    def create_function(self, node: ast.CreateFunction) -> str:
        kind = "SYSTEM FUNCTION" if node.system else "FUNCTION"
        resources = ", ".join(f"{kind} {_literal(path)}" for kind, path in node.resources)
        return _words(
            _create(kind, node.temporary, node.if_not_exists),
            self.text(node.name),
            f"AS {_literal(node.implementation)}",
            node.language and f"LANGUAGE {node.language}",
            resources and f"USING {resources}",
        )

    def create_catalog(self, node: ast.CreateCatalog) -> str:
        return self._create_space("CATALOG", node)

    def create_database(self, node: ast.CreateDatabase) -> str:
        return self._create_space("DATABASE", node)

    def _create_space(self, kind: str, node: ast.CreateCatalog | ast.CreateDatabase) -> str:
        return _words(
            _create(kind, False, node.if_not_exists),
            self.text(node.name),
            self.comment(node.comment),
            self.options(node.options),
        )

    def drop(self, node: ast.DropObject) -> str:
        return _words(
            "DROP",
            "TEMPORARY" if node.temporary else None,
            "SYSTEM" if node.system else None,
            node.kind,
            "IF EXISTS" if node.if_exists else None,
            self.text(node.name),
            {None: None, True: "CASCADE", False: "RESTRICT"}[node.cascade],
        )

    def alter(self, node: ast.Alter) -> str:
        exists = "IF EXISTS" if node.if_exists else None
        return _words("ALTER", node.kind, exists, self.text(node.name), self.text(node.change))

    def rename_to(self, node: ast.RenameTo) -> str:
        return f"RENAME TO {self.text(node.name)}"

    def set_options(self, node: ast.SetOptions) -> str:
        return f"SET ({self.commas(node.options)})"

    def reset_options(self, node: ast.ResetOptions) -> str:
        return f"RESET ({', '.join(map(_literal, node.keys))})"

    def rename_column(self, node: ast.RenameColumn) -> str:
        return f"RENAME {self.text(node.column)} TO {self.text(node.to)}"

    def placed_column(self, node: ast.PlacedColumn) -> str:
        after = self.clause("AFTER", node.after)
        return _words(self.text(node.definition), "FIRST" if node.first else None, after)

    def add(self, node: ast.AddElements) -> str:
        return f"ADD {self._elements(node)}"

    def modify(self, node: ast.ModifyElements) -> str:
        return f"MODIFY {self._elements(node)}"

    def _elements(self, node: ast.AddElements | ast.ModifyElements) -> str:
        if node.distribution is not None:
            return "DISTRIBUTION" + self.distribution(node.distribution)
        elements = [self.text(column) for column in node.columns]
        elements += [self.text(e) for e in (node.watermark, node.primary_key) if e is not None]
        return elements[0] if len(elements) == 1 else f"({', '.join(elements)})"

    def drop_columns(self, node: ast.DropColumns) -> str:
        columns = self.commas(node.columns)
        return f"DROP {columns}" if len(node.columns) == 1 else f"DROP ({columns})"

    def drop_element(self, node: ast.DropElement) -> str:
        return _words("DROP", node.what, self.clause("", node.constraint))

    def redefine_view(self, node: ast.RedefineView) -> str:
        return f"AS {self.text(node.query)}"

    def comment_change(self, node: ast.Comment) -> str:
        return f"COMMENT {_literal(node.text)}"

    def use(self, node: ast.Use) -> str:
        return _words("USE", "CATALOG" if node.catalog else None, self.text(node.name))

    def show(self, node: ast.Show) -> str:
        like = None
        if node.like is not None:
            word = node.operator or "LIKE"
            like = _words("NOT" if node.negated else None, word, _literal(node.like))
        return _words("SHOW", node.what, node.preposition, self.clause("", node.name), like)

    def describe(self, node: ast.Describe) -> str:
        kind = None if node.kind == "TABLE" else node.kind
        extended = "EXTENDED" if node.extended else None
        return _words("DESCRIBE", kind, extended, self.text(node.name))

    def add_jar(self, node: ast.AddJar) -> str:
        return f"{'REMOVE' if node.remove else 'ADD'} JAR {_literal(node.path)}"

    def insert(self, node: ast.Insert) -> str:
        partition = ", ".join(
            self.text(name) if value is None else f"{self.text(name)} = {self.text(value)}"
            for name, value in node.partition
        )
        return _words(
            "INSERT OVERWRITE" if node.overwrite else "INSERT INTO",
            self.text(node.target),
            self.hints(node.hints),
            partition and f"PARTITION ({partition})",
            self.named("", node.columns),
            self.text(node.query),
            node.on_conflict and f"ON CONFLICT DO {node.on_conflict}",
        )

    def statement_set(self, node: ast.StatementSet) -> str:
        inserts = " ".join(f"{self.text(insert)};" for insert in node.inserts)
        return f"EXECUTE STATEMENT SET BEGIN {inserts} END"

    def query_statement(self, node: ast.QueryStatement) -> str:
        return self.text(node.query)

    def set_option(self, node: ast.SetOption) -> str:
        if node.option is None:
            return "SET"
        # The text behind SET is read as it stands: no escapes.
        return f"SET {_quoted(node.option.key)} = {_quoted(node.option.value)}"

    def reset_option(self, node: ast.ResetOption) -> str:
        return "RESET" if node.key is None else f"RESET {_quoted(node.key)}"

    def explain(self, node: ast.Explain) -> str:
        details = ", ".join(node.details)
        statement = self.text(node.statement).removeprefix("EXECUTE ")
        return _words("EXPLAIN", details, statement)


def _power(node: ast.Expression) -> int:
    match node:
        case ast.Binary():
            return grammar.POWER[node.operator]
        case ast.Unary():
            return grammar.NOT if node.operator == "NOT" else grammar.SIGN
        case ast.IsTest():
            return grammar.IS
        case ast.Between() | ast.InList() | ast.InQuery() | ast.Like():
            return grammar.PREDICATE
        case ast.FunctionCall(form="OVERLAPS"):
            return grammar.COMPARE
    return _CLOSED


def _interval_unit(node: ast.IntervalLiteral) -> str:
    sizes = [node.precision] if node.precision is not None else []
    fraction = "" if node.fraction is None else f"({node.fraction})"
    if node.to_unit is None:
        if node.fraction is not None:
            sizes.append(node.fraction)
        fraction = ""
    leading = f"{node.unit}({', '.join(map(str, sizes))})" if sizes else node.unit
    return leading if node.to_unit is None else f"{leading} TO {node.to_unit}{fraction}"


def _unit(node: ast.Expression) -> str:
    assert isinstance(node, ast.StringLiteral)
    return node.value


def _enforced(enforced: bool | None) -> str | None:
    return {None: None, True: "ENFORCED", False: "NOT ENFORCED"}[enforced]


def _create(kind: str, temporary: bool, if_not_exists: bool) -> str:
    return _words(
        "CREATE",
        "TEMPORARY" if temporary else None,
        kind,
        "IF NOT EXISTS" if if_not_exists else None,
    )


_SET_LEVELS = {"UNION": 1, "EXCEPT": 1, "INTERSECT": 2}
# Loosest first; all other patterns stand by themselves.
_PATTERN_LEVELS: dict[type[ast.Pattern], int] = {
    ast.PatternAlternation: 0,
    ast.PatternSequence: 1,
    ast.PatternRepetition: 2,
}
_JSON_READS = frozenset({"JSON_EXISTS", "JSON_VALUE", "JSON_QUERY"})
_JSON_ARGUMENTS = {"JSON_OBJECTAGG": (2,), "JSON_ARRAYAGG": (1,)}

# Calls with a syntax of their own, by the first word of their form or by their name. None as a result: the tree is not
# of that syntax, so the function's name has to be quoted.
_FORMS: dict[str, Callable[[_Printer, ast.FunctionCall], str | None]] = {
    "EXTRACT": _Printer.extract,
    "POSITION": _Printer.position,
    "TRIM": _Printer.trim,
    "SUBSTRING": _Printer.substring,
    "OVERLAY": _Printer.overlay,
    "CEIL": _Printer.rounding,
    "CEILING": _Printer.rounding,
    "FLOOR": _Printer.rounding,
    "TIMESTAMPADD": _Printer.timestamp_arithmetic,
    "TIMESTAMPDIFF": _Printer.timestamp_arithmetic,
    "OVERLAPS": _Printer.overlaps,
    "JSON": _Printer.json,
    "JSON_EXISTS": _Printer.json,
    "JSON_VALUE": _Printer.json,
    "JSON_QUERY": _Printer.json,
    "JSON_OBJECT": _Printer.json,
    "JSON_OBJECTAGG": _Printer.json,
    "JSON_ARRAY": _Printer.json,
    "JSON_ARRAYAGG": _Printer.json,
}

_TEXTS: dict[type[ast.Node], Callable[[_Printer, Any], str]] = {
    ast.Identifier: _Printer.identifier,
    ast.QualifiedName: _Printer.qualified_name,
    ast.NumberLiteral: _Printer.number,
    ast.StringLiteral: _Printer.string,
    ast.BinaryLiteral: _Printer.binary_literal,
    ast.BooleanLiteral: _Printer.boolean,
    ast.NullLiteral: _Printer.null,
    ast.TemporalLiteral: _Printer.temporal,
    ast.IntervalLiteral: _Printer.interval,
    ast.ColumnReference: _Printer.column,
    ast.Star: _Printer.star,
    ast.Unary: _Printer.unary,
    ast.Binary: _Printer.binary,
    ast.IsTest: _Printer.is_test,
    ast.Between: _Printer.between,
    ast.InList: _Printer.in_list,
    ast.InQuery: _Printer.in_query,
    ast.Exists: _Printer.exists,
    ast.ScalarQuery: _Printer.scalar_query,
    ast.Like: _Printer.like,
    ast.Case: _Printer.case,
    ast.Cast: _Printer.cast,
    ast.WindowFrame: _Printer.frame,
    ast.FrameBound: _Printer.frame_bound,
    ast.WindowSpecification: _Printer.window,
    ast.NamedArgument: _Printer.named_argument,
    ast.FunctionCall: _Printer.call,
    ast.ArrayConstructor: _Printer.array,
    ast.MapConstructor: _Printer.map,
    ast.RowConstructor: _Printer.row,
    ast.ElementAccess: _Printer.element,
    ast.FieldAccess: _Printer.field_access,
    ast.Hint: _Printer.hint,
    ast.TableReference: _Printer.table_reference,
    ast.Subquery: _Printer.subquery,
    ast.TableFunction: _Printer.table_function,
    ast.TableArgument: _Printer.table_argument,
    ast.DescriptorArgument: _Printer.descriptor,
    ast.Join: _Printer.join,
    ast.PatternVariable: _Printer.pattern_variable,
    ast.PatternSequence: _Printer.pattern_sequence,
    ast.PatternAlternation: _Printer.pattern_alternation,
    ast.PatternPermutation: _Printer.pattern_permutation,
    ast.PatternExclusion: _Printer.pattern_exclusion,
    ast.PatternRepetition: _Printer.pattern_repetition,
    ast.Measure: _Printer.measure,
    ast.MatchRecognize: _Printer.match_recognize,
    ast.SelectItem: _Printer.select_item,
    ast.OrderItem: _Printer.order_item,
    ast.GroupingSet: _Printer.grouping_set,
    ast.CommonTable: _Printer.common_table,
    ast.Query: _Printer.query,
    ast.Select: _Printer.select,
    ast.SetOperation: _Printer.set_operation,
    ast.Values: _Printer.values,
    ast.NestedQuery: _Printer.nested_query,
    ast.PhysicalColumn: _Printer.physical_column,
    ast.MetadataColumn: _Printer.metadata_column,
    ast.ComputedColumn: _Printer.computed_column,
    ast.NamedColumn: _Printer.named_column,
    ast.WatermarkDefinition: _Printer.watermark,
    ast.PrimaryKey: _Printer.primary_key,
    ast.Option: _Printer.option,
    ast.TableLike: _Printer.table_like,
    ast.LikeOption: _Printer.like_option,
    ast.CreateTable: _Printer.create_table,
    ast.CreateView: _Printer.create_view,
    ast.CreateFunction: _Printer.create_function,
    ast.CreateCatalog: _Printer.create_catalog,
    ast.CreateDatabase: _Printer.create_database,
    ast.DropObject: _Printer.drop,
    ast.RenameTo: _Printer.rename_to,
    ast.SetOptions: _Printer.set_options,
    ast.ResetOptions: _Printer.reset_options,
    ast.RenameColumn: _Printer.rename_column,
    ast.PlacedColumn: _Printer.placed_column,
    ast.AddElements: _Printer.add,
    ast.ModifyElements: _Printer.modify,
    ast.DropColumns: _Printer.drop_columns,
    ast.DropElement: _Printer.drop_element,
    ast.RedefineView: _Printer.redefine_view,
    ast.Comment: _Printer.comment_change,
    ast.Alter: _Printer.alter,
    ast.Use: _Printer.use,
    ast.Show: _Printer.show,
    ast.Describe: _Printer.describe,
    ast.AddJar: _Printer.add_jar,
    ast.Insert: _Printer.insert,
    ast.StatementSet: _Printer.statement_set,
    ast.QueryStatement: _Printer.query_statement,
    ast.SetOption: _Printer.set_option,
    ast.ResetOption: _Printer.reset_option,
    ast.Explain: _Printer.explain,
}

_PLAIN = _Printer(full=False)
_FULL = _Printer(full=True)

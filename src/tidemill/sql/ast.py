"""The syntax tree. In: nothing but the parser builds it. Law: every node knows its span, is immutable,
and two trees are equal when they say the same, wherever they stood (spans do not count)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from enum import Enum

from tidemill.errors import Span
from tidemill.types import SqlType


@dataclass(frozen=True)
class Node:
    span: Span = field(compare=False, repr=False)


def walk(node: Node) -> Iterator[Node]:
    """The nodes of a tree, in the order of its text. With a stack of its own: a chain may be thousands long."""
    stack: list[object] = [node]
    while stack:
        value = stack.pop()
        if isinstance(value, tuple):
            stack.extend(reversed(value))
        elif isinstance(value, Node):
            yield value
            stack.extend(getattr(value, f.name) for f in reversed(fields(value)))


# --- names -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Identifier(Node):
    """One name as it counts: unquoted text as typed, or the inside of back quotes."""

    name: str


@dataclass(frozen=True)
class QualifiedName(Node):
    parts: tuple[Identifier, ...]

    def __str__(self) -> str:
        return ".".join(p.name for p in self.parts)


# --- expressions -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Expression(Node):
    pass


@dataclass(frozen=True)
class NumberLiteral(Expression):
    """An unsigned number, kept as text: `1`, `1.50`, `1e3`; its type follows from its form."""

    text: str


@dataclass(frozen=True)
class StringLiteral(Expression):
    value: str


@dataclass(frozen=True)
class BinaryLiteral(Expression):
    """X'0A1F'"""

    value: bytes


@dataclass(frozen=True)
class BooleanLiteral(Expression):
    value: bool


@dataclass(frozen=True)
class NullLiteral(Expression):
    pass


class TemporalKind(Enum):
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"


@dataclass(frozen=True)
class TemporalLiteral(Expression):
    """DATE '2020-01-01', TIME '12:00:00', TIMESTAMP '2020-01-01 12:00:00.123'"""

    kind: TemporalKind
    text: str


@dataclass(frozen=True)
class IntervalLiteral(Expression):
    """INTERVAL [-] '2' SECOND, INTERVAL '1 10' DAY TO HOUR. Units are upper case and singular."""

    text: str
    negative: bool
    unit: str
    to_unit: str | None = None
    precision: int | None = None
    """DAY(3): digits of the leading unit; None when not written."""
    fraction: int | None = None
    """SECOND(3) as the last unit: fractional digits; None when not written."""


@dataclass(frozen=True)
class ColumnReference(Expression):
    """`a`, `t.a`, `t.row_column.field`: which is which, the binder finds out."""

    name: QualifiedName


@dataclass(frozen=True)
class Star(Expression):
    """`*` or `t.*`, in a select list only."""

    qualifier: QualifiedName | None = None


@dataclass(frozen=True)
class Unary(Expression):
    operator: str
    """One of `-`, `+`, `NOT`."""
    operand: Expression


@dataclass(frozen=True)
class Binary(Expression):
    operator: str
    """One of `+ - * / % || = <> < <= > >= AND OR`; `!=` is kept as `<>`."""
    left: Expression
    right: Expression


@dataclass(frozen=True)
class IsTest(Expression):
    """`x IS [NOT] NULL | TRUE | FALSE | UNKNOWN`, `x IS [NOT] DISTINCT FROM y`, `x IS [NOT] JSON`."""

    operand: Expression
    test: str
    """NULL, TRUE, FALSE, UNKNOWN, DISTINCT FROM, JSON [VALUE|OBJECT|ARRAY|SCALAR]"""
    negated: bool
    other: Expression | None = None


@dataclass(frozen=True)
class Between(Expression):
    operand: Expression
    low: Expression
    high: Expression
    negated: bool
    symmetric: bool = False


@dataclass(frozen=True)
class InList(Expression):
    operand: Expression
    items: tuple[Expression, ...]
    negated: bool


@dataclass(frozen=True)
class InQuery(Expression):
    operand: Expression
    query: Query
    negated: bool


@dataclass(frozen=True)
class Exists(Expression):
    query: Query


@dataclass(frozen=True)
class ScalarQuery(Expression):
    query: Query


@dataclass(frozen=True)
class Like(Expression):
    operand: Expression
    pattern: Expression
    negated: bool
    escape: Expression | None = None
    similar: bool = False
    """True for SIMILAR TO."""


@dataclass(frozen=True)
class Case(Expression):
    operand: Expression | None
    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression | None


@dataclass(frozen=True)
class Cast(Expression):
    operand: Expression
    type: SqlType
    type_span: Span = field(compare=False, repr=False)
    safe: bool = False
    """True for TRY_CAST."""


@dataclass(frozen=True)
class WindowFrame(Node):
    unit: str
    """ROWS or RANGE"""
    start: FrameBound
    end: FrameBound | None


@dataclass(frozen=True)
class FrameBound(Node):
    kind: str
    """UNBOUNDED PRECEDING, PRECEDING, CURRENT ROW, FOLLOWING, UNBOUNDED FOLLOWING"""
    value: Expression | None = None


@dataclass(frozen=True)
class WindowSpecification(Node):
    base: Identifier | None
    """A name from the WINDOW clause that this specification starts from."""
    partition_by: tuple[Expression, ...]
    order_by: tuple[OrderItem, ...]
    frame: WindowFrame | None


@dataclass(frozen=True)
class NamedArgument(Expression):
    """`SIZE => INTERVAL '1' MINUTE` in a call."""

    name: Identifier
    value: Expression


@dataclass(frozen=True)
class FunctionCall(Expression):
    """A call by name. Special forms are calls too: EXTRACT(unit FROM x) is EXTRACT('unit', x), and so on;
    `form` keeps the spelling where it carries meaning."""

    name: QualifiedName
    arguments: tuple[Expression, ...]
    distinct: bool = False
    star: bool = False
    """True for COUNT(*)."""
    filter: Expression | None = None
    order_by: tuple[OrderItem, ...] = ()
    """WITHIN GROUP or an ORDER BY inside the parentheses."""
    nulls: str | None = None
    """IGNORE NULLS or RESPECT NULLS"""
    over: WindowSpecification | Identifier | None = None
    form: str | None = None
    """For special forms: `TRIM BOTH`, `EXTRACT`, `POSITION`, `OVERLAY`, `JSON NULL ON NULL` …; None otherwise."""
    returning: SqlType | None = None
    """JSON_VALUE(… RETURNING type)"""


@dataclass(frozen=True)
class ArrayConstructor(Expression):
    """ARRAY[1, 2]"""

    items: tuple[Expression, ...]


@dataclass(frozen=True)
class MapConstructor(Expression):
    """MAP['a', 1, 'b', 2]: keys and values in turn."""

    items: tuple[Expression, ...]


@dataclass(frozen=True)
class RowConstructor(Expression):
    """ROW(a, b) or (a, b)"""

    items: tuple[Expression, ...]


@dataclass(frozen=True)
class ElementAccess(Expression):
    """a[1], m['k']"""

    operand: Expression
    index: Expression


@dataclass(frozen=True)
class FieldAccess(Expression):
    """(expression).field: a field of something that is not a plain name."""

    operand: Expression
    field: Identifier


# --- queries -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hint(Node):
    """/*+ OPTIONS('k'='v') */ or /*+ STATE_TTL('t'='1d') */"""

    name: str
    arguments: tuple[tuple[str | None, str], ...]


@dataclass(frozen=True)
class Relation(Node):
    pass


@dataclass(frozen=True)
class TableReference(Relation):
    name: QualifiedName
    alias: Identifier | None = None
    column_aliases: tuple[Identifier, ...] = ()
    hints: tuple[Hint, ...] = ()
    as_of: Expression | None = None
    """FOR SYSTEM_TIME AS OF expression"""


@dataclass(frozen=True)
class Subquery(Relation):
    query: Query
    alias: Identifier | None = None
    column_aliases: tuple[Identifier, ...] = ()
    lateral: bool = False


@dataclass(frozen=True)
class TableFunction(Relation):
    """TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), …)), LATERAL TABLE(f(x)), UNNEST(a) [WITH ORDINALITY]"""

    call: FunctionCall
    alias: Identifier | None = None
    column_aliases: tuple[Identifier, ...] = ()
    lateral: bool = False
    with_ordinality: bool = False


@dataclass(frozen=True)
class TableArgument(Expression):
    """`TABLE t [PARTITION BY …] [ORDER BY …]` or a query as a table function's argument."""

    relation: Relation
    partition_by: tuple[Expression, ...] = ()
    order_by: tuple[OrderItem, ...] = ()


@dataclass(frozen=True)
class DescriptorArgument(Expression):
    """DESCRIPTOR(ts)"""

    columns: tuple[Identifier, ...]


@dataclass(frozen=True)
class Join(Relation):
    kind: str
    """INNER, LEFT, RIGHT, FULL, CROSS, LEFT SEMI, LEFT ANTI"""
    left: Relation
    right: Relation
    condition: Expression | None = None
    using: tuple[Identifier, ...] = ()
    natural: bool = False


@dataclass(frozen=True)
class Pattern(Node):
    """A row pattern of MATCH_RECOGNIZE."""


@dataclass(frozen=True)
class PatternVariable(Pattern):
    name: Identifier


@dataclass(frozen=True)
class PatternSequence(Pattern):
    """`A B C`; an empty one is `()`."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True)
class PatternAlternation(Pattern):
    """`A | B`"""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True)
class PatternPermutation(Pattern):
    """`PERMUTE(A, B)`"""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True)
class PatternExclusion(Pattern):
    """`{- A -}`"""

    operand: Pattern


@dataclass(frozen=True)
class PatternRepetition(Pattern):
    """`A*`, `A+`, `A?`, `A{2,5}`; with `?` behind it reluctant."""

    operand: Pattern
    least: int
    most: int | None
    """None: without end."""
    reluctant: bool = False


@dataclass(frozen=True)
class Measure(Node):
    """`FINAL LAST(A.price) AS p`"""

    expression: Expression
    alias: Identifier
    semantics: str | None = None
    """FINAL or RUNNING"""


@dataclass(frozen=True)
class MatchRecognize(Relation):
    input: Relation
    pattern: Pattern
    definitions: tuple[tuple[Identifier, Expression], ...]
    partition_by: tuple[Expression, ...] = ()
    order_by: tuple[OrderItem, ...] = ()
    measures: tuple[Measure, ...] = ()
    rows_per_match: str | None = None
    """ONE or ALL"""
    after_match: str | None = None
    """`PAST LAST ROW`, `TO NEXT ROW`, `TO FIRST A`, `TO LAST A`"""
    within: IntervalLiteral | None = None
    subsets: tuple[tuple[Identifier, tuple[Identifier, ...]], ...] = ()
    starts: bool = False
    """`^` before the pattern."""
    ends: bool = False
    """`$` behind it."""
    alias: Identifier | None = None
    column_aliases: tuple[Identifier, ...] = ()


@dataclass(frozen=True)
class SelectItem(Node):
    expression: Expression
    alias: Identifier | None = None


@dataclass(frozen=True)
class OrderItem(Node):
    expression: Expression
    descending: bool = False
    nulls_first: bool | None = None


@dataclass(frozen=True)
class GroupingSet(Node):
    """One of GROUPING SETS, CUBE or ROLLUP with its lists."""

    kind: str
    sets: tuple[tuple[Expression, ...], ...]


@dataclass(frozen=True)
class CommonTable(Node):
    name: Identifier
    columns: tuple[Identifier, ...]
    query: Query


@dataclass(frozen=True)
class QueryBody(Node):
    pass


@dataclass(frozen=True)
class Query(Node):
    """A body with what may stand around it."""

    body: QueryBody
    common_tables: tuple[CommonTable, ...] = ()
    order_by: tuple[OrderItem, ...] = ()
    limit: Expression | None = None
    offset: Expression | None = None


@dataclass(frozen=True)
class Select(QueryBody):
    items: tuple[SelectItem, ...]
    source: Relation | None = None
    where: Expression | None = None
    group_by: tuple[Expression | GroupingSet, ...] | None = None
    having: Expression | None = None
    qualify: Expression | None = None
    windows: tuple[tuple[Identifier, WindowSpecification], ...] = ()
    distinct: bool = False
    hints: tuple[Hint, ...] = ()


@dataclass(frozen=True)
class SetOperation(QueryBody):
    operator: str
    """UNION, INTERSECT or EXCEPT"""
    all: bool
    left: QueryBody
    right: QueryBody


@dataclass(frozen=True)
class Values(QueryBody):
    rows: tuple[RowConstructor, ...]


@dataclass(frozen=True)
class NestedQuery(QueryBody):
    """A query in parentheses as an operand of a set operation."""

    query: Query


# --- tables ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ColumnDefinition(Node):
    name: Identifier
    comment: str | None


@dataclass(frozen=True)
class PhysicalColumn(ColumnDefinition):
    type: SqlType
    type_span: Span = field(compare=False, repr=False)
    primary_key: bool = False
    """PRIMARY KEY [NOT ENFORCED] written at the column."""
    enforced: bool | None = None


@dataclass(frozen=True)
class MetadataColumn(ColumnDefinition):
    type: SqlType
    type_span: Span = field(compare=False, repr=False)
    key: str | None
    """The text after FROM; None means the column's own name."""
    virtual: bool


@dataclass(frozen=True)
class ComputedColumn(ColumnDefinition):
    expression: Expression


@dataclass(frozen=True)
class NamedColumn(ColumnDefinition):
    """A name alone, in CREATE TABLE … AS SELECT: gives the order of the query's columns."""


@dataclass(frozen=True)
class WatermarkDefinition(Node):
    column: QualifiedName
    expression: Expression
    name: Identifier | None = None
    """Blink's `WATERMARK name FOR …`; it means nothing."""


@dataclass(frozen=True)
class PrimaryKey(Node):
    name: Identifier | None
    columns: tuple[Identifier, ...]
    enforced: bool | None
    """None when neither ENFORCED nor NOT ENFORCED is written."""


@dataclass(frozen=True)
class Option(Node):
    """'key' = 'value' inside WITH or SET; the span is the key's."""

    key: str
    value: str
    value_span: Span = field(compare=False, repr=False)


@dataclass(frozen=True)
class Distribution(Node):
    """DISTRIBUTED BY [HASH | RANGE] (a, b) INTO 4 BUCKETS, DISTRIBUTED INTO 4 BUCKETS"""

    kind: str | None
    columns: tuple[Identifier, ...]
    buckets: int | None


@dataclass(frozen=True)
class LikeOption(Node):
    """INCLUDING OPTIONS"""

    behaviour: str
    """INCLUDING, EXCLUDING or OVERWRITING"""
    feature: str
    """ALL, CONSTRAINTS, DISTRIBUTION, GENERATED, METADATA, OPTIONS, PARTITIONS or WATERMARKS"""


@dataclass(frozen=True)
class TableLike(Node):
    """LIKE other [(INCLUDING … EXCLUDING …)]"""

    table: QualifiedName
    options: tuple[LikeOption, ...] = ()


# --- statements --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Statement(Node):
    pass


@dataclass(frozen=True)
class CreateTable(Statement):
    name: QualifiedName
    columns: tuple[ColumnDefinition, ...]
    watermark: WatermarkDefinition | None
    primary_key: PrimaryKey | None
    options: tuple[Option, ...]
    comment: str | None = None
    partitioned_by: tuple[Identifier, ...] = ()
    temporary: bool = False
    if_not_exists: bool = False
    distribution: Distribution | None = None
    like: TableLike | None = None
    query: Query | None = None
    """CREATE TABLE … AS SELECT"""
    vendor: str | None = field(default=None, compare=False, repr=False)
    """Whose table it was before it was written as today's: rules that only this vendor has go on to hold."""

    @property
    def names_connector(self) -> bool:
        """Whether it says itself what it is; one that is LIKE another need not."""
        return any(option.key == "connector" for option in self.options)


@dataclass(frozen=True)
class CreateView(Statement):
    name: QualifiedName
    columns: tuple[Identifier, ...]
    query: Query
    comment: str | None = None
    temporary: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateFunction(Statement):
    """CREATE [TEMPORARY [SYSTEM]] FUNCTION f AS 'class' [LANGUAGE PYTHON] [USING JAR 'x.jar']"""

    name: QualifiedName
    implementation: str
    """`package.Class`, or `module.function` for Python."""
    implementation_span: Span = field(compare=False, repr=False)
    language: str | None = None
    """JAVA, SCALA or PYTHON; None when not written, which means Java."""
    temporary: bool = False
    system: bool = False
    if_not_exists: bool = False
    resources: tuple[tuple[str, str], ...] = ()
    """Kind (JAR, FILE, ARCHIVE) and path of USING."""


@dataclass(frozen=True)
class CreateCatalog(Statement):
    name: Identifier
    options: tuple[Option, ...] = ()
    comment: str | None = None
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateDatabase(Statement):
    name: QualifiedName
    options: tuple[Option, ...] = ()
    comment: str | None = None
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropObject(Statement):
    kind: str
    """TABLE, VIEW, FUNCTION, CATALOG or DATABASE"""
    name: QualifiedName
    if_exists: bool
    temporary: bool = False
    system: bool = False
    """DROP TEMPORARY SYSTEM FUNCTION"""
    cascade: bool | None = None
    """DROP DATABASE … CASCADE or RESTRICT; None when not written."""


@dataclass(frozen=True)
class TableChange(Node):
    """What ALTER does: one of the classes below."""


@dataclass(frozen=True)
class RenameTo(TableChange):
    name: QualifiedName


@dataclass(frozen=True)
class SetOptions(TableChange):
    options: tuple[Option, ...]


@dataclass(frozen=True)
class ResetOptions(TableChange):
    keys: tuple[str, ...]
    key_spans: tuple[Span, ...] = field(compare=False, repr=False)


@dataclass(frozen=True)
class RenameColumn(TableChange):
    column: QualifiedName
    to: Identifier


@dataclass(frozen=True)
class PlacedColumn(Node):
    """A column of ADD or MODIFY and where it goes: None is at the end (ADD) or where it is (MODIFY)."""

    definition: ColumnDefinition
    first: bool = False
    after: QualifiedName | None = None


@dataclass(frozen=True)
class AddElements(TableChange):
    """ADD column | (column [FIRST | AFTER c], …, WATERMARK …, PRIMARY KEY …) | DISTRIBUTION"""

    columns: tuple[PlacedColumn, ...] = ()
    watermark: WatermarkDefinition | None = None
    primary_key: PrimaryKey | None = None
    distribution: Distribution | None = None


@dataclass(frozen=True)
class ModifyElements(TableChange):
    columns: tuple[PlacedColumn, ...] = ()
    watermark: WatermarkDefinition | None = None
    primary_key: PrimaryKey | None = None
    distribution: Distribution | None = None


@dataclass(frozen=True)
class DropColumns(TableChange):
    columns: tuple[QualifiedName, ...]


@dataclass(frozen=True)
class DropElement(TableChange):
    """DROP PRIMARY KEY, CONSTRAINT c, WATERMARK or DISTRIBUTION"""

    what: str
    """PRIMARY KEY, CONSTRAINT, WATERMARK or DISTRIBUTION"""
    constraint: Identifier | None = None


@dataclass(frozen=True)
class RedefineView(TableChange):
    """ALTER VIEW v AS SELECT …"""

    query: Query


@dataclass(frozen=True)
class Comment(TableChange):
    """ALTER CATALOG c COMMENT '…'"""

    text: str


@dataclass(frozen=True)
class Alter(Statement):
    kind: str
    """TABLE, VIEW, DATABASE or CATALOG"""
    name: QualifiedName
    change: TableChange
    if_exists: bool = False


@dataclass(frozen=True)
class Use(Statement):
    """USE [CATALOG] name"""

    name: QualifiedName
    catalog: bool = False


@dataclass(frozen=True)
class Show(Statement):
    """SHOW TABLES [FROM db] [[NOT] LIKE 'x%'], SHOW CURRENT DATABASE, SHOW COLUMNS FROM t, SHOW CREATE TABLE t …"""

    what: str
    """The words after SHOW: TABLES, VIEWS, CATALOGS, DATABASES, FUNCTIONS, USER FUNCTIONS, COLUMNS, CURRENT CATALOG,
    CURRENT DATABASE, CREATE TABLE, CREATE VIEW, CREATE CATALOG, PARTITIONS, MODULES, FULL MODULES, JARS, JOBS,
    PROCEDURES, MODELS"""
    name: QualifiedName | None = None
    """The object, or that which stands after FROM or IN."""
    preposition: str | None = None
    """FROM or IN, as written."""
    like: str | None = None
    operator: str | None = None
    """LIKE or ILIKE"""
    negated: bool = False


@dataclass(frozen=True)
class Describe(Statement):
    """DESCRIBE | DESC [EXTENDED] name, DESCRIBE CATALOG name, DESCRIBE FUNCTION name"""

    name: QualifiedName
    extended: bool = False
    kind: str = "TABLE"
    """TABLE (views too), CATALOG, DATABASE or FUNCTION"""


@dataclass(frozen=True)
class AddJar(Statement):
    """ADD JAR 'path'; REMOVE JAR 'path'"""

    path: str
    remove: bool = False


@dataclass(frozen=True)
class Insert(Statement):
    target: QualifiedName
    columns: tuple[Identifier, ...]
    query: Query
    overwrite: bool = False
    hints: tuple[Hint, ...] = ()
    partition: tuple[tuple[Identifier, Expression | None], ...] = ()
    """PARTITION (day = '2024-01-01', hour)"""
    on_conflict: str | None = None
    """ON CONFLICT DO ERROR, NOTHING or DEDUPLICATE"""


@dataclass(frozen=True)
class StatementSet(Statement):
    """EXECUTE STATEMENT SET BEGIN … END, or BEGIN STATEMENT SET; … END: one job."""

    inserts: tuple[Insert, ...]


@dataclass(frozen=True)
class QueryStatement(Statement):
    """A SELECT at the top of a script: its changelog is printed."""

    query: Query


@dataclass(frozen=True)
class SetOption(Statement):
    """SET 'k' = 'v' (quotes optional); SET alone has no option."""

    option: Option | None


@dataclass(frozen=True)
class ResetOption(Statement):
    key: str | None


@dataclass(frozen=True)
class Explain(Statement):
    statement: Statement
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class Script(Node):
    statements: tuple[Statement, ...]

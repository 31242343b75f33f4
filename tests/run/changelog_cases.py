"""Random chains of stateful operators, random changes that go through them, and what DuckDB says should come out.

In: a number. Out: a `Chain`, the same for the same number: a few tables of changes with random columns, four or more
operators upon each other, and for many small datasets at once the records of every batch. Each dataset has a number in
the column `c`, which is part of every key, every group and every join, so that one job runs them all and they are
independent of each other; only a global aggregate and a LIMIT are over all of them. A stage's SQL is written twice, for
Flink's dialect and for DuckDB's, where they differ.

A chain is drawn again until its operators fit together, it has the operator that its number asks for, and its tables
are neither large nor empty. Whether a retraction gets through it is not asked: that is counted by `deep_datasets`.

Law: nothing is left to the order of arrival. A Top-N is ordered by all its columns, the rows of a LIMIT without an
order are only counted, sums are exact, and columns that are not (`exact` is false: averages and deviations of DOUBLE)
are only carried along.
"""

from __future__ import annotations

import datetime
import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa

BATCHES = 5
TOLERANCE = 1e-9

Row = tuple[Any, ...]


# --- types --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Type:
    """A type by Flink's name: how DuckDB and Arrow call it, and the few values that columns of it hold."""

    sql: str
    duck: str
    arrow: Any
    values: tuple[Any, ...]
    absent: str
    """A literal that is none of the values, in the place of NULL where NULL cannot be."""


def _times(*days: int) -> tuple[datetime.datetime, ...]:
    return tuple(datetime.datetime(2024, 2, day, 10, 0, 0, 250_000 * (day % 2)) for day in days)


TYPES = {
    t.sql: t
    for t in (
        Type("INT", "INTEGER", pa.int32(), tuple(range(-2, 6)), "-99"),
        Type("BIGINT", "BIGINT", pa.int64(), (-(10**7), 0, 3, 4, 10**7), "CAST(-99 AS BIGINT)"),
        Type("STRING", "VARCHAR", pa.string(), ("", "a", "b", "bb", "é"), "'~'"),
        Type(
            "DECIMAL(10, 2)",
            "DECIMAL(10, 2)",
            pa.decimal128(10, 2),
            tuple(map(Decimal, ("-1.50", "0.00", "2.25", "10.01"))),
            "CAST(-99 AS DECIMAL(10, 2))",
        ),
        Type("DOUBLE", "DOUBLE", pa.float64(), (-0.5, 0.0, 0.25, 8.75), "CAST(-99 AS DOUBLE)"),
        Type("BOOLEAN", "BOOLEAN", pa.bool_(), (False, True), "FALSE"),
        Type(
            "DATE",
            "DATE",
            pa.date32(),
            tuple(datetime.date(2024, 2, day) for day in (1, 28, 29)),
            "DATE '1999-01-01'",
        ),
        Type(
            "TIMESTAMP(3)",
            "TIMESTAMP",
            pa.timestamp("us"),
            _times(1, 2, 29),
            "TIMESTAMP '1999-01-01 00:00:00'",
        ),
    )
}
# No column of a source is as wide as sums and averages of decimals.
SUM, AVERAGE = "DECIMAL(38, 2)", "DECIMAL(38, 6)"
WIDE = {
    name: Type(name, name, pa.decimal128(38, scale), (), f"CAST(-99 AS {name})")
    for name, scale in ((SUM, 2), (AVERAGE, 6))
}
ALL_TYPES = {**TYPES, **WIDE}
DECIMALS = ("DECIMAL(10, 2)", *WIDE)
NUMBERS = ("INT", "BIGINT", *DECIMALS, "DOUBLE")


def on_the_wire(value: Any) -> Any:
    """A value as the json format reads it."""
    if isinstance(value, Decimal | datetime.date) and not isinstance(value, datetime.datetime):
        return str(value)
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ", "milliseconds")
    return value


def from_the_wire(text: Any, type_: str) -> Any:
    """A value of ours: JSON with numbers as Decimal."""
    if text is None:
        return None
    if type_ == "DOUBLE":
        return float(text)
    if type_ in ("INT", "BIGINT"):
        return int(text)
    if type_ == "DATE":
        return datetime.date.fromisoformat(text)
    if type_.startswith("TIMESTAMP"):
        return datetime.datetime.fromisoformat(text)
    return text


# --- relations ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    name: str
    type: str
    exact: bool = True


@dataclass(frozen=True)
class Relation:
    """A source or a view. The first column is `c`, the number of the dataset."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] | None = None

    @property
    def rest(self) -> tuple[Column, ...]:
        return self.columns[1:]

    @property
    def exact(self) -> tuple[Column, ...]:
        return tuple(c for c in self.rest if c.exact)


@dataclass(frozen=True)
class Source:
    """A topic of changes: `upsert`, `changes` (debezium with a key), `bag` (debezium without), `append`."""

    kind: str
    relation: Relation

    def ddl(self, bootstrap: str, topic: str) -> str:
        r = self.relation
        columns = ", ".join(f"{c.name} {c.type}" for c in r.columns)
        key = f", PRIMARY KEY ({', '.join(r.key)}) NOT ENFORCED" if r.key else ""
        options = {"topic": topic, "properties.bootstrap.servers": bootstrap}
        if self.kind == "upsert":
            options |= {"connector": "upsert-kafka", "key.format": "json", "value.format": "json"}
        else:
            shape = "json" if self.kind == "append" else "debezium-json"
            options |= {"connector": "kafka", "scan.startup.mode": "earliest-offset"}
            options |= {"format": shape}
        return f"CREATE TABLE {r.name} ({columns}{key}) WITH ({_options(options)});"


def _options(options: Mapping[str, str]) -> str:
    return ", ".join(f"'{key}' = '{value}'" for key, value in options.items())


@dataclass(frozen=True)
class Change:
    """What happens to a table: the row that goes and the row that comes."""

    before: Row | None
    after: Row | None


@dataclass(frozen=True)
class Message:
    key: str | None
    value: str | None


def message(source: Source, change: Change) -> Message:
    """A change as a record of the source's topic."""
    names = [c.name for c in source.relation.columns]

    def shown(row: Row | None) -> dict[str, Any] | None:
        return row and {n: on_the_wire(v) for n, v in zip(names, row, strict=True)}

    before, after = shown(change.before), shown(change.after)
    if source.kind == "append":
        return Message(None, json.dumps(after))
    if source.kind == "upsert":
        of = after or before
        assert of is not None and source.relation.key is not None
        key = json.dumps({name: of[name] for name in source.relation.key})
        return Message(key, json.dumps(after) if after else None)
    op = "u" if before and after else "c" if after else "d"
    return Message(None, json.dumps({"op": op, "before": before, "after": after}))


# --- stages -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stage:
    """An operator as a view over what is before it. `duck` is the same in DuckDB's words."""

    operator: str
    relation: Relation
    flink: str
    duck: str
    of_all: str | None = None
    """What a global aggregate is over."""


def _both(text: str) -> tuple[str, str]:
    return text, text


def _pairs(left: Relation, right: Relation) -> list[tuple[Column, Column]]:
    """Columns of both sides that can be compared."""
    pairs = [
        (a, b)
        for a in left.exact
        for b in right.exact
        if a.type == b.type or {a.type, b.type} == {"INT", "BIGINT"}
    ]
    return [p for p in pairs if p[0].type not in ("BOOLEAN",)] or pairs


def _taken(columns: Sequence[Column], of: str = "") -> tuple[list[Column], list[str]]:
    """The number of the dataset and some columns under new names, and how a SELECT shows them."""
    named = [replace(column, name=f"x{i}") for i, column in enumerate(columns, 1)]
    shown = [
        f"{of}{a.name}" + (f" AS {b.name}" if a.name != b.name else "")
        for a, b in zip(columns, named, strict=True)
    ]
    return [Column("c", "INT"), *named], [f"{of}c", *shown]


def join(dice: random.Random, name: str, left: Relation, right: Relation) -> Stage | None:
    pairs = _pairs(left, right)
    if not pairs:
        return None
    a, b = dice.choice(pairs)
    condition = f"l.c = r.c AND l.{a.name} = r.{b.name}"
    others = [p for p in pairs if p[0] is not a and p[1] is not b]
    if others and dice.random() < 0.3:
        x, y = dice.choice(others)
        condition += f" AND l.{x.name} {dice.choice(['<', '<=', '<>', '>='])} r.{y.name}"
    kind = dice.choice(["INNER", "INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"])
    if kind in ("SEMI", "ANTI"):
        word = "EXISTS" if kind == "SEMI" else "NOT EXISTS"
        text = f"SELECT * FROM {left.name} AS l WHERE {word} (SELECT 1 FROM {right.name} AS r WHERE {condition})"
        return Stage(f"{kind} join", replace(left, name=name), *_both(text))
    of_left = dice.sample(left.rest, min(len(left.rest), 3))
    of_right = dice.sample(right.rest, min(len(right.rest), 2))
    number = {"INNER": "l.c", "LEFT": "l.c", "RIGHT": "r.c", "FULL": "COALESCE(l.c, r.c)"}[kind]
    columns = [Column("c", "INT")]
    shown = [f"{number} AS c"]
    for side, chosen in (("l", of_left), ("r", of_right)):
        for column in chosen:
            columns.append(replace(column, name=f"x{len(columns)}"))
            shown.append(f"{side}.{column.name} AS {columns[-1].name}")
    text = f"SELECT {', '.join(shown)} FROM {left.name} AS l {kind} JOIN {right.name} AS r ON {condition}"
    return Stage(f"{kind} join", Relation(name, tuple(columns)), *_both(text))


def membership(
    dice: random.Random, name: str, left: Relation, right: Relation, word: str
) -> Stage | None:
    """IN or NOT IN, where a NULL on either side decides."""
    pairs = _pairs(left, right)
    if not pairs:
        return None
    a, b = dice.choice(pairs)
    within = f"SELECT r.{b.name} FROM {right.name} AS r WHERE r.c = l.c"
    if dice.random() < 0.5:
        on = dice.choice(right.exact)
        # Without its NULLs the other side lets more rows of NOT IN through.
        within += f" AND r.{on.name} IS NOT NULL"
    text = f"SELECT * FROM {left.name} AS l WHERE l.{a.name} {word} ({within})"
    return Stage(word, replace(left, name=name), *_both(text))


@dataclass(frozen=True)
class Function:
    """An aggregate function: of which types, the type of its result, and DuckDB's words if they are others."""

    flink: str
    types: tuple[str, ...]
    gives: Callable[[str], str]
    duck: str | None = None
    exact: Callable[[str], bool] = lambda type_: True


_ANY = tuple(ALL_TYPES)
_SUMS = {"DECIMAL(10, 2)": SUM}


def _summed(type_: str) -> str:
    return _SUMS.get(type_, type_)


def _bigint(type_: str) -> str:
    return "BIGINT"


def _double(type_: str) -> str:
    return "DOUBLE"


def _same(type_: str) -> str:
    return type_


def _never(type_: str) -> bool:
    return False


def _average(type_: str) -> str:
    return AVERAGE


# DuckDB's own average of decimals is a DOUBLE: so the sum's digits are divided, and half is rounded away from zero.
_DIGITS = f"CAST(REPLACE(CAST(CAST(SUM({{0}}) AS {AVERAGE}) AS VARCHAR), '.', '') AS HUGEINT)"
_ROUNDED = f"SIGN({_DIGITS}) * ((ABS({_DIGITS}) * 2 + COUNT({{0}})) // (2 * COUNT({{0}})))"
_AVERAGE = f"CAST({_ROUNDED} AS DECIMAL(20, 0)) * CAST('0.000001' AS DECIMAL(7, 6))"


FUNCTIONS = (
    Function("COUNT({})", _ANY, _bigint),
    Function("COUNT(DISTINCT {})", _ANY, _bigint),
    Function("SUM({})", NUMBERS, _summed),
    Function("SUM(DISTINCT {})", ("INT", "BIGINT", "DECIMAL(10, 2)"), _summed),
    Function("MIN({})", _ANY, _same),
    Function("MAX({})", _ANY, _same),
    Function(
        "AVG({})", ("INT",), _same, duck="TRUNC(CAST(SUM({0}) AS DOUBLE) / NULLIF(COUNT({0}), 0))"
    ),
    Function("AVG({})", DECIMALS, _average, duck=_AVERAGE),
    Function("AVG({})", ("DOUBLE",), _double, exact=_never),
    Function("STDDEV_POP({})", ("DOUBLE",), _double, exact=_never),
    Function("VAR_POP({})", ("DOUBLE",), _double, exact=_never),
    Function("VAR_SAMP({})", ("DOUBLE",), _double, exact=_never),
)


def _calls(
    dice: random.Random, of: Relation, number: int, begin: int, wished: Sequence[Column] = ()
) -> list[tuple[str, str, Column]]:
    """Some aggregates of a relation's columns: Flink's words, DuckDB's, and the column that each gives. Of one of the
    wished columns there is an average."""
    calls: list[tuple[Function | None, Column | None]] = [(None, None)]
    for column in dice.choices(of.rest, k=number):
        fitting = [f for f in FUNCTIONS if column.type in f.types]
        if not column.exact:
            fitting = [f for f in fitting if f.flink in ("MIN({})", "MAX({})", "COUNT({})")]
        calls.append((dice.choice(fitting), column))
    calls = dice.sample(calls, number)
    if wished:
        column = dice.choice(wished)
        average = next(f for f in FUNCTIONS if f.flink == "AVG({})" and column.type in f.types)
        calls[0] = (average, column)
    made = []
    for function, column in calls:
        called = f"x{begin + len(made)}"
        condition = None
        if dice.random() < 0.25:
            on = dice.choice(of.exact)
            test = "IS NOT NULL" if dice.random() < 0.5 or on.type != "INT" else "> 0"
            condition = f"{on.name} {test}"
        only = f" FILTER (WHERE {condition})" if condition else ""
        if function is None or column is None:
            text = f"COUNT(*){only} AS {called}"
            made.append((text, text, Column(called, "BIGINT")))
            continue
        gives = function.gives(column.type)
        flink = f"{function.flink.format(column.name)}{only}"
        duck = flink
        if function.duck:
            what = f"CASE WHEN {condition} THEN {column.name} END" if condition else column.name
            duck = function.duck.format(what)
        exact = column.exact and function.exact(column.type)
        made.append(
            (
                f"{flink} AS {called}",
                f"CAST({duck} AS {ALL_TYPES[gives].duck}) AS {called}",
                Column(called, gives, exact),
            )
        )
    return made


def aggregate(dice: random.Random, name: str, of: Relation, averages: bool = False) -> Stage | None:
    """A group aggregate; one that `averages` has an average of a DECIMAL."""
    decimals = [c for c in of.exact if c.type in DECIMALS] if averages else []
    if not of.exact or (averages and not decimals):
        return None
    groups = dice.sample(of.exact, min(len(of.exact), dice.choice([0, 1, 1, 1, 2])))
    columns, head = _taken(groups)
    calls = _calls(dice, of, 3, len(columns), decimals)
    columns += [column for _, _, column in calls]
    keys = ", ".join(["c", *(g.name for g in groups)])
    key: tuple[str, ...] | None = tuple(column.name for column in columns[: len(groups) + 1])
    by = f" GROUP BY {keys}"
    if groups and dice.random() < 0.15:
        # The group of all and the group of NULL look alike.
        by, key = f" GROUP BY GROUPING SETS (({keys}), (c))", None
    if dice.random() < 0.2:
        by += f" HAVING COUNT(*) {dice.choice(['> 1', '<= 2', '<> 2'])}"
    return Stage(
        "aggregate",
        Relation(name, tuple(columns), key),
        f"SELECT {', '.join([*head, *(flink for flink, _, _ in calls)])} FROM {of.name}{by}",
        f"SELECT {', '.join([*head, *(duck for _, duck, _ in calls)])} FROM {of.name}{by}",
    )


def global_aggregate(
    dice: random.Random, name: str, left: Relation, right: Relation
) -> Stage | None:
    """Rows of one side, each with what is known of all rows of the other, or only those that compare with it so."""
    if not right.exact:
        return None
    columns, head = _taken(dice.sample(left.rest, min(len(left.rest), 3)), "l.")
    calls = _calls(dice, right, 2, len(columns))
    within = right.name
    if dice.random() < 0.25:
        # Which rows these are is left open, but not how many.
        within = f"(SELECT c FROM {right.name} LIMIT {dice.choice([7, 60])})"
        text = f"COUNT(*) AS {calls[0][2].name}"
        calls = [(text, text, replace(calls[0][2], type="BIGINT", exact=True))]
    columns += [column for _, _, column in calls]
    together = "CROSS JOIN"
    condition = ""
    pairs = _pairs(left, Relation("g", (columns[0], *(column for _, _, column in calls))))
    if pairs and dice.random() < 0.5:
        together = dice.choice(["INNER JOIN", "LEFT JOIN"])
        a, b = dice.choice(pairs)
        condition = f" ON l.{a.name} {dice.choice(['<', '<=', '<>', '>='])} g.{b.name}"
    shown = ", ".join([*head, *(f"g.{column.name}" for _, _, column in calls)])

    def text_of(words: Iterable[str]) -> str:
        of_all = f"(SELECT {', '.join(words)} FROM {within}) AS g"
        return f"SELECT {shown} FROM {left.name} AS l {together} {of_all}{condition}"

    return Stage(
        "global aggregate",
        Relation(name, tuple(columns)),
        text_of(flink for flink, _, _ in calls),
        text_of(duck for _, duck, _ in calls),
        within,
    )


def distinct(dice: random.Random, name: str, of: Relation) -> Stage | None:
    if not of.exact:
        return None
    chosen = dice.sample(of.exact, min(len(of.exact), dice.choice([1, 2, 3])))
    columns, shown = _taken(chosen)
    text = f"SELECT DISTINCT {', '.join(shown)} FROM {of.name}"
    key = tuple(c.name for c in columns)
    return Stage("DISTINCT", Relation(name, tuple(columns), key), *_both(text))


def set_operation(dice: random.Random, name: str, left: Relation, right: Relation) -> Stage | None:
    """Columns of equal types of both sides, one or two."""
    pairs: list[tuple[Column, Column]] = []
    for a in dice.sample(left.exact, len(left.exact)):
        taken = [p[1] for p in pairs]
        fitting = [b for b in right.exact if b.type == a.type and b not in taken]
        if fitting and len(pairs) < 2:
            pairs.append((a, dice.choice(fitting)))
    if not pairs:
        return None
    word = dice.choice(["UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"])
    columns = [Column("c", "INT")]
    columns += [Column(f"x{i}", a.type) for i, (a, _) in enumerate(pairs, 1)]
    shown = [
        ", ".join(["c", *(f"{p[side].name} AS x{i}" for i, p in enumerate(pairs, 1))])
        for side in (0, 1)
    ]
    text = f"SELECT {shown[0]} FROM {left.name} {word} SELECT {shown[1]} FROM {right.name}"
    return Stage(word, Relation(name, tuple(columns)), *_both(text))


def _orders(dice: random.Random, columns: Sequence[Column]) -> tuple[str, str]:
    """An order by all columns, in Flink's words and in DuckDB's: NULL is less than everything in Flink."""
    ordered = [(c.name, dice.choice(["ASC", "DESC"])) for c in dice.sample(columns, len(columns))]
    flink = ", ".join(f"{name} {direction}" for name, direction in ordered)
    duck = ", ".join(
        f"{name} {direction} NULLS {'FIRST' if direction == 'ASC' else 'LAST'}"
        for name, direction in ordered
    )
    return flink, duck


def top_n(dice: random.Random, name: str, of: Relation) -> Stage | None:
    if not of.exact:
        return None
    parts = dice.sample(of.exact, dice.choice([0, 0, 1]))
    flink, duck = _orders(dice, of.exact)
    n = dice.choice([1, 2, 2, 3, 5])
    first = dice.choice([1, 1, 1, 2]) if n > 1 else 1
    # Rows that are equal but for what is not exact would be in no order.
    columns, shown = _taken(of.exact)
    key = None
    if dice.random() < 0.4:
        places = {of.exact.index(part) + 1 for part in parts}
        key = ("c", *(columns[i].name for i in sorted(places)), f"x{len(columns)}")
        shown.append(f"rn AS x{len(columns)}")
        columns.append(Column(f"x{len(columns)}", "BIGINT"))
    by = ", ".join(["c", *(p.name for p in parts)])
    rows = f"rn <= {n}" if first == 1 else f"rn BETWEEN {first} AND {n}"

    def text(order: str) -> str:
        number = f"ROW_NUMBER() OVER (PARTITION BY {by} ORDER BY {order}) AS rn"
        return f"SELECT {', '.join(shown)} FROM (SELECT *, {number} FROM {of.name}) WHERE {rows}"

    return Stage("Top-N", Relation(name, tuple(columns), key), text(flink), text(duck))


def limit(dice: random.Random, name: str, of: Relation) -> Stage | None:
    """The first rows of all datasets together; which dataset they are of comes last in the order."""
    if not of.exact:
        return None
    orders = _orders(dice, of.exact)
    columns, shown = _taken(of.exact)
    rows = f"LIMIT {dice.choice([40, 60, 100])}"
    if dice.random() < 0.3:
        rows += f" OFFSET {dice.choice([1, 10])}"
    texts = [
        f"SELECT {', '.join(shown)} FROM {of.name} ORDER BY {order}, c {rows}" for order in orders
    ]
    return Stage("LIMIT", Relation(name, tuple(columns)), *texts)


# --- chains -------------------------------------------------------------------------------------


@dataclass
class Chain:
    """A script, and the records of every batch for each of its datasets."""

    number: int
    sources: list[Source]
    stages: list[Stage]
    filters: list[Stage]
    """Views of sources without some of their rows, which operators read instead."""
    is_materialized: bool
    """Written to an upsert table by a key that the planner cannot know to be one; else a SELECT."""
    repeats: bool
    """Whether records of changes with a key come twice, as a connector that starts again sends them."""
    restarts: frozenset[int]
    """Before which batches the job is stopped and started again; a job that writes to a topic is stopped in them."""
    changes: list[dict[int, list[tuple[int, Change]]]] = field(default_factory=list)
    """Of each batch, by dataset: the number of a source and what happens, in order."""

    @property
    def result(self) -> Relation:
        return self.stages[-1].relation

    def views(self, dialect: str) -> list[str]:
        views = (*self.filters, *self.stages)
        return [f"CREATE VIEW {s.relation.name} AS {getattr(s, dialect)};" for s in views]

    def messages(self, batch: int, dataset: int) -> Iterator[tuple[int, Message]]:
        """The records of a dataset in a batch, each with the number of its source."""
        for number, (at, change) in enumerate(self.changes[batch].get(dataset, [])):
            sent = message(self.sources[at], change)
            twice = self.repeats and self.sources[at].kind == "changes" and number % 3 == 0
            yield from [(at, sent)] * (2 if twice else 1)

    def script(self, bootstrap: str, topics: Sequence[str], sink: str) -> str:
        tables = [
            source.ddl(bootstrap, topic) for source, topic in zip(self.sources, topics, strict=True)
        ]
        if self.repeats:
            tables.insert(0, "SET 'table.exec.source.cdc-events-duplicate' = 'true';")
        columns = self.result.columns
        if not self.is_materialized:
            last = f"SELECT {', '.join(c.name for c in columns)} FROM {self.result.name};"
            return "\n".join([*tables, *self.views("flink"), last])
        options = {
            "connector": "upsert-kafka",
            "topic": sink,
            "properties.bootstrap.servers": bootstrap,
            "key.format": "json",
            "value.format": "json",
        }
        key = self.result.key or ()
        declared = ", ".join(f"{c.name} {c.type}" for c in columns)
        # NULL cannot be in a key; an expression is no key that the planner knows.
        places = {c.name: f"k{i}" for i, c in enumerate(columns) if c.name in key}
        keys = ", ".join(
            f"{places[c.name]} {c.type}" for c in columns if c.name in key and c.name != "c"
        )
        by = ["c", *(places[name] for name in key if name != "c")]
        shown = [c.name for c in columns]
        shown += [
            f"COALESCE({c.name}, {ALL_TYPES[c.type].absent})"
            for c in columns
            if c.name in key and c.name != "c"
        ]
        table = f"CREATE TABLE dst ({declared}{', ' if keys else ''}{keys}, "
        table += f"PRIMARY KEY ({', '.join(by)}) NOT ENFORCED) WITH ({_options(options)});"
        insert = f"INSERT INTO dst SELECT {', '.join(shown)} FROM {self.result.name};"
        return "\n".join([*tables, table, *self.views("flink"), insert])


def draw_source(dice: random.Random, number: int) -> Source:
    kind = dice.choice(["upsert", "upsert", "upsert", "changes", "bag", "append"])
    others = [dice.choice([*TYPES, "INT", "STRING"]) for _ in range(dice.randint(1, 3))]
    key = Column("k", dice.choice(["INT", "STRING"]))
    columns = (
        Column("c", "INT"),
        key,
        Column("f", "INT"),
        *(Column(f"v{i}", type_) for i, type_ in enumerate(others)),
    )
    keyed = kind in ("upsert", "changes")
    return Source(kind, Relation(f"t{number}", columns, ("c", "k") if keyed else None))


def draw_filters(dice: random.Random, sources: list[Source]) -> list[Stage]:
    """Some of the sources without the rows that a condition on their key or another column leaves out."""
    filters = []
    for relation in (source.relation for source in sources):
        if dice.random() < 0.3:
            column = dice.choice(relation.rest)
            condition = (
                f"{column.name} <> 0" if column.type == "INT" else f"{column.name} IS NOT NULL"
            )
            text = f"SELECT * FROM {relation.name} WHERE {condition}"
            filtered = replace(relation, name=f"some_{relation.name}")
            filters.append(Stage("filter", filtered, *_both(text)))
    return filters


# Operators and how often they come. A global aggregate or a LIMIT makes one of all datasets.
OPERATORS = {
    "join": 8,
    "aggregate": 8,
    "average": 2,
    "distinct": 8,
    "set": 8,
    "top": 8,
    "in": 2,
    "not in": 2,
    "global": 2,
    "limit": 2,
}
# One of these is in a chain, by its number.
WISHES = ("average", "distinct", "set", "top", "in", "not in", "global", "limit")


def draw_stages(dice: random.Random, inputs: Sequence[Relation], wished: str) -> list[Stage]:
    """A join, an aggregate, the operator that is wished and at least one more, in any order; each reads the one before
    it. None if they do not fit together."""
    wanted = ["join", "aggregate", wished]
    wanted += dice.choices([*OPERATORS], [*OPERATORS.values()], k=dice.choice([1, 1, 2]))
    dice.shuffle(wanted)
    stages: list[Stage] = []
    current = inputs[0]
    for number, operator in enumerate(wanted, 1):
        name = f"s{number}"
        # The other side is a source, or one of the stages before: then a change comes from both sides.
        other = dice.choice([*inputs[1:], *inputs[1:], *(s.relation for s in stages[:-1])])
        sides = dice.sample([current, other], 2)
        stage = {
            "join": lambda: join(dice, name, *sides),  # noqa: B023
            "in": lambda: membership(dice, name, *sides, "IN"),  # noqa: B023
            "not in": lambda: membership(dice, name, *sides, "NOT IN"),  # noqa: B023
            "global": lambda: global_aggregate(dice, name, *sides),  # noqa: B023
            "aggregate": lambda: aggregate(dice, name, current),  # noqa: B023
            "average": lambda: aggregate(dice, name, current, averages=True),  # noqa: B023
            "distinct": lambda: distinct(dice, name, current),  # noqa: B023
            "set": lambda: set_operation(dice, name, current, other),  # noqa: B023
            "top": lambda: top_n(dice, name, current),  # noqa: B023
            "limit": lambda: limit(dice, name, current),  # noqa: B023
        }[operator]()
        if stage is None:
            return []
        stages.append(stage)
        current = stage.relation
    return stages


def draw_changes(dice: random.Random, source: Source, dataset: int, events: int) -> list[Change]:
    """What happens to a table of a dataset. Keys collide; upserts repeat themselves and delete what is not there."""
    types = [TYPES[c.type] for c in source.relation.columns[1:]]
    keys = types[0].values[:4]
    table: dict[Any, Row] = {}
    bag: list[Row] = []
    changes: list[Change] = []

    def drawn(key: Any) -> Row:
        rest = (None if dice.random() < 0.1 else dice.choice(t.values[:5]) for t in types[1:])
        return (dataset, key, *rest)

    for _ in range(events):
        key, luck = dice.choice(keys), dice.random()
        old, new = table.get(key), drawn(key)
        if source.kind == "append":
            changes.append(Change(None, new))
        elif source.kind == "bag":
            if bag and luck < 0.5:
                old = bag.pop(dice.randrange(len(bag)))
                gone = luck < 0.25
                changes.append(Change(old, None if gone else new))
                bag += [] if gone else [new]
            else:
                new = dice.choice(bag) if bag and luck > 0.9 else new
                changes.append(Change(None, new))
                bag.append(new)
        elif luck < 0.3 and (old is not None or source.kind == "upsert"):
            changes.append(Change(old or new, None))
            table.pop(key, None)
        else:
            new = old if old is not None and luck > 0.92 else new
            changes.append(Change(old, new))
            table[key] = new
    return changes


def draw(number: int, datasets: int) -> Chain:
    """The chain of a number: drawn anew, with the dice as they lie, until it fits."""
    dice = random.Random(f"chain {number}")
    while True:
        sources = [draw_source(dice, i) for i in range(3)]
        filters = draw_filters(dice, sources)
        instead = {f.relation.name.removeprefix("some_"): f.relation for f in filters}
        inputs = [instead.get(s.relation.name, s.relation) for s in sources]
        stages = draw_stages(dice, inputs, WISHES[number % len(WISHES)])
        if not stages:
            continue
        last = stages[-1].relation
        # FALSE is the only value of its type that could stand for NULL.
        has_flags = any(c.type == "BOOLEAN" for c in last.columns if c.name in (last.key or ()))
        is_materialized = last.key is not None and not has_flags and dice.random() < 0.6
        restarts = frozenset(dice.sample(range(1, BATCHES), dice.choice([0, 1, 1, 2])))
        # Without a key a change that comes again is another one.
        repeats = all(source.kind != "bag" for source in sources) and dice.random() < 0.4
        chain = Chain(number, sources, stages, filters, is_materialized, repeats, restarts)
        chain.changes = [{} for _ in range(BATCHES)]
        for dataset in range(datasets):
            for at, source in enumerate(sources):
                events = draw_changes(dice, source, dataset, dice.randint(10, 20))
                ends = sorted(dice.choices(range(len(events) + 1), k=BATCHES - 1))
                for batch, (begin, end) in enumerate(
                    zip([0, *ends], [*ends, len(events)], strict=True)
                ):
                    mine = chain.changes[batch].setdefault(dataset, [])
                    mine += [(at, change) for change in events[begin:end]]
        sizes = Model(chain).sizes()
        if max(sizes) <= 40 * datasets and sizes[-1] * 2 >= datasets:
            return chain


# --- what should come out -----------------------------------------------------------------------


class Model:
    """The tables after every batch, by DuckDB over the folded inputs."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self.tables: list[Counter[Row]] = [Counter() for _ in chain.sources]
        self.duck = duckdb.connect()
        self._begun: set[str] = set()
        self._put()
        for view in chain.views("duck"):
            self.duck.execute(view)

    def apply(self, batch: int) -> None:
        for changes in self.chain.changes[batch].values():
            for at, change in changes:
                table = self.tables[at]
                for row, more in ((change.before, -1), (change.after, 1)):
                    # An upsert may delete what is not there.
                    if row is not None and (more > 0 or table[row]):
                        table[row] += more
        self._put()

    def is_comparable(self) -> bool:
        """Whether each global aggregate has had a row by now. Until then it gives no result in Flink and here; in
        DuckDB it gives one of no rows, as it does here when the last one has gone."""
        for stage in self.chain.stages:
            if stage.of_all and self.duck.execute(f"SELECT 1 FROM {stage.of_all}").fetchone():
                self._begun.add(stage.relation.name)
        return all(s.relation.name in self._begun for s in self.chain.stages if s.of_all)

    def rows(self, relation: Relation, prefix: str = "") -> list[Row]:
        names = ", ".join(c.name for c in relation.columns)
        return self.duck.execute(f"SELECT {names} FROM {prefix}{relation.name}").fetchall()

    def sizes(self) -> list[int]:
        """How many rows each stage has in the end."""
        for batch in range(BATCHES):
            self.apply(batch)
        return [len(self.rows(stage.relation)) for stage in self.chain.stages]

    def remember(self) -> None:
        """Keep all tables as they are, as `was_` and their names."""
        for name in self._names():
            self.duck.execute(f"CREATE OR REPLACE TABLE was_{name} AS SELECT * FROM {name}")

    def rows_with(self, stage: Stage, new: str) -> list[Row]:
        """What a stage would give if of all that it reads only this one had changed."""
        names = [name for name in self._names() if name != new]
        text = re.sub(rf"\b({'|'.join(names)})\b", r"was_\1", stage.duck)
        return self.duck.execute(text).fetchall()

    def _names(self) -> list[str]:
        views = (*self.chain.sources, *self.chain.filters, *self.chain.stages)
        return [each.relation.name for each in views]

    def _put(self) -> None:
        for source, table in zip(self.chain.sources, self.tables, strict=True):
            rows = list(table.elements())
            columns = source.relation.columns
            arrays = [
                pa.array([row[i] for row in rows], ALL_TYPES[c.type].arrow)
                for i, c in enumerate(columns)
            ]
            made = pa.table(arrays, names=[c.name for c in columns])
            self.duck.execute(f"DROP VIEW IF EXISTS {source.relation.name}")
            self.duck.register(source.relation.name, made)


def deep_datasets(chain: Chain) -> set[int]:
    """Datasets in which a batch took back rows of an operator, because of that rows of the next, and because of that
    rows of a third.

    Because of that: it would do so also if all else that the operator reads had stayed as it was.
    """
    model = Model(chain)
    deep: set[int] = set()
    for batch in range(BATCHES):
        model.remember()
        model.apply(batch)
        # Of each stage the datasets that lose rows, and those that do because of the stage before.
        lost: list[set[int]] = []
        passed: list[set[int]] = []
        for at, stage in enumerate(chain.stages):
            old = by_dataset(model.rows(stage.relation, "was_"))
            new = by_dataset(model.rows(stage.relation))
            lost.append(_losing(old, new))
            before = chain.stages[at - 1].relation.name
            passed.append(_losing(old, by_dataset(model.rows_with(stage, before))) if at else set())
        for three in zip(lost, passed[1:], passed[2:], strict=False):
            deep |= set.intersection(*three)
    return deep


def _losing(old: dict[int, Counter[Row]], new: dict[int, Counter[Row]]) -> set[int]:
    return {c for c, rows in old.items() if rows - new.get(c, Counter())}


def by_dataset(rows: Iterable[Row]) -> dict[int, Counter[Row]]:
    found: dict[int, Counter[Row]] = defaultdict(Counter)
    for row in rows:
        found[row[0]][row] += 1
    return found


def unequal(columns: Sequence[Column], ours: Counter[Row], theirs: Counter[Row]) -> bool:
    """Whether two tables differ: exact columns exactly, the others within the tolerance."""
    if ours == theirs:
        return False
    exact = [i for i, c in enumerate(columns) if c.exact]
    loose = [i for i, c in enumerate(columns) if not c.exact]

    def parts(table: Counter[Row]) -> dict[Row, list[Row]]:
        found: dict[Row, list[Row]] = defaultdict(list)
        for row in table.elements():
            found[tuple(row[i] for i in exact)].append(tuple(row[i] for i in loose))
        return found

    mine, other = parts(ours), parts(theirs)
    return mine.keys() != other.keys() or any(not _close(mine[key], other[key]) for key in mine)


def _close(left: list[Row], right: list[Row]) -> bool:
    if len(left) != len(right):
        return False

    def order(row: Row) -> list[tuple[bool, float]]:
        return [(v is not None, 0.0 if v is None else round(v, 6)) for v in row]

    return all(
        (a is None) == (b is None)
        and (a is None or abs(a - b) <= TOLERANCE * max(1.0, abs(a), abs(b)))
        for one, two in zip(sorted(left, key=order), sorted(right, key=order), strict=True)
        for a, b in zip(one, two, strict=True)
    )

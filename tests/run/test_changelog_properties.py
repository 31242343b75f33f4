"""Changes through random chains of four and more stateful operators: after every batch the job's output, folded, is
what DuckDB answers over the folded inputs; functions that depend on the order are held against a model here. FUZZ=n, or
`make fuzz`, tries new chains, as many as give n random cases.

A chain is one job that runs many small datasets at once, and a case is one dataset in one chain. `CHAIN=number` runs
that chain alone, and `DATASET=number` only one of its datasets, which shows a difference at its smallest.

At least half of the cases that ran carry a retraction through three operators. That is counted by the model's tables,
not by what the job's operators say; chains are not chosen by it (changelog_cases says how they are drawn)."""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import pytest
from changelog_cases import (
    AVERAGE,
    BATCHES,
    Chain,
    Change,
    Column,
    Message,
    Model,
    Relation,
    Row,
    Source,
    by_dataset,
    deep_datasets,
    draw,
    draw_changes,
    from_the_wire,
    message,
    unequal,
)

from harness.waiting import settle
from tidemill import Session
from tidemill.broker import Broker, topics
from tidemill.broker.records import Record
from tidemill.changelog import RowKind
from tidemill.errors import Source as SqlSource
from tidemill.errors import TidemillError
from tidemill.plan.environment import Environment, compile_script, require_runnable
from tidemill.sql import parse_script
from tidemill.types import Field

DATASETS = 100 if "FUZZ" in os.environ else 40
CASES = int(os.environ.get("FUZZ", "0")) or 320
# Random, but the same in every run unless new ones are asked for.
BEGIN = random.randrange(10**6, 10**9) if "FUZZ" in os.environ else 0
CHAINS = (
    [int(os.environ["CHAIN"])]
    if "CHAIN" in os.environ
    else [BEGIN + i for i in range(-(-CASES // DATASETS))]
)
AT_A_TIME = 3


class Difference(AssertionError):
    """What came out is not what should have."""


class Folded:
    """The table that a SELECT's changelog leaves. Law: nothing is taken back that is not there."""

    style: ClassVar[str] = "json"

    def __init__(self) -> None:
        self.texts: Counter[str] = Counter()
        self.strange: list[str] = []

    def take(self, fields: tuple[Field, ...], rows: Iterable[tuple[RowKind, str]]) -> None:
        for kind, text in rows:
            if kind.symbol in ("+I", "+U"):
                self.texts[text] += 1
            elif self.texts[text] > 0:
                self.texts[text] -= 1
            else:
                self.strange.append(f"{kind.symbol} {text}")


@dataclass
class Run:
    """A job over topics of its own, fed batch by batch."""

    name: str
    bootstrap: str
    spark: Any
    place: Path
    sources: list[Source]
    columns: tuple[Column, ...]
    script: Callable[[str, list[str], str], str]
    is_written: bool
    """To a topic, which is read back; else the SELECT's rows are taken."""
    output: Folded = field(default_factory=Folded)
    session: Session | None = None
    jobs: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.inputs = [f"{self.name}-{s.relation.name}" for s in self.sources]
        self.sink = f"{self.name}-dst"
        for topic, source in zip(self.inputs, self.sources, strict=True):
            # Records with a key find their partition by it; of others the order would be lost.
            topics.create(self.bootstrap, topic, 2 if source.kind == "upsert" else 1)
        topics.create(self.bootstrap, self.sink, 1)

    def start(self) -> None:
        self.session = Session(self.spark, checkpoint=self.place, output=self.output)
        sql = self.script(self.bootstrap, self.inputs, self.sink)
        self.jobs = [j for j in self.session.execute(sql, name="chain") if not isinstance(j, str)]

    def stop(self) -> None:
        if self.session is not None:
            self.session.close()
        self.session = None

    def break_off(self, seconds: float) -> None:
        """Stop at whatever it is doing: it has to do it again, and the same comes out."""
        time.sleep(seconds)
        for job in self.jobs:
            job.query.stop()
        self.stop()

    def feed(self, messages: Iterable[tuple[int, Message]]) -> None:
        """Write records, each to the topic of its source."""
        by_topic: dict[int, list[Record]] = defaultdict(list)
        for at, sent in messages:
            by_topic[at].append(_record(sent))
        for at, records in by_topic.items():
            topics.write(self.bootstrap, self.inputs[at], records)

    def settle(self) -> None:
        for job in self.jobs:
            try:
                settle(job.query)
            except Exception:
                failure = job.failure()
                raise failure if failure is not None else Difference("the job ended") from None

    def rows(self) -> Iterator[Row]:
        if self.is_written:
            table: dict[bytes | None, bytes] = {}
            for record in topics.read(self.bootstrap, self.sink):
                if record.value is None:
                    table.pop(record.key, None)
                else:
                    table[record.key] = record.value
            texts: Iterable[str | bytes] = table.values()
        else:
            if self.output.strange:
                raise Difference(f"taken back, but not there: {self.output.strange[:5]}")
            texts = self.output.texts.elements()
        for text in texts:
            members = json.loads(text, parse_float=Decimal)
            yield tuple(from_the_wire(members[c.name], c.type) for c in self.columns)


def _record(message: Message) -> Record:
    key, value = message.key, message.value
    return Record(None if value is None else value.encode(), None if key is None else key.encode())


# --- chains -------------------------------------------------------------------------------------


def drawn(number: int) -> Chain:
    chain = draw(number, DATASETS)
    if "DATASET" in os.environ:
        only = int(os.environ["DATASET"])
        chain.changes = [{only: batch.get(only, [])} for batch in chain.changes]
    return chain


def missing(script: str) -> str | None:
    """What a chain needs that cannot be executed yet."""
    try:
        require_runnable(
            compile_script(parse_script(SqlSource("chain.sql", script)), Environment())
        )
    except TidemillError as error:
        found = error.diagnostics[0]
        if found.code != "PLAN-020":
            raise
        return found.message
    return None


def run_chain(chain: Chain, broker: Broker, spark: Any, place: Path) -> None:
    run = Run(
        f"chain-{chain.number}",
        broker.bootstrap,
        spark,
        place / str(chain.number),
        chain.sources,
        chain.result.columns,
        chain.script,
        chain.is_materialized,
    )
    model = Model(chain)
    try:
        run.start()
        for batch in range(BATCHES):
            stops = batch in chain.restarts
            # Rows that were printed cannot be printed again; what was written to a key can.
            if stops and not chain.is_materialized:
                run.stop()
                run.start()
            run.feed(each for c in chain.changes[batch] for each in chain.messages(batch, c))
            if stops and chain.is_materialized:
                run.break_off(batch * 0.2)
                run.start()
            model.apply(batch)
            run.settle()
            if model.is_comparable():
                check(chain, batch, by_dataset(run.rows()), by_dataset(model.rows(chain.result)))
    finally:
        run.stop()


def check(
    chain: Chain,
    batch: int,
    ours: dict[int, Counter[Row]],
    theirs: dict[int, Counter[Row]],
) -> None:
    none: Counter[Row] = Counter()
    for dataset in sorted(ours.keys() | theirs.keys()):
        mine, right = ours.get(dataset, none), theirs.get(dataset, none)
        if unequal(chain.result.columns, mine, right):
            only, lacking = list((mine - right).elements()), list((right - mine).elements())
            raise Difference(
                f"{told(chain, dataset, batch)}\nonly ours: {only}\nonly DuckDB's: {lacking}"
            )


def told(chain: Chain, dataset: int, batch: int) -> str:
    """The script, and all that has happened in a dataset."""
    inputs = [source.relation.name for source in chain.sources]
    lines = [f"CHAIN={chain.number} DATASET={dataset}, after batch {batch}"]
    lines += [chain.script("BROKER", inputs, "dst")]
    for number in range(batch + 1):
        again = " (after a restart)" if number in chain.restarts else ""
        lines.append(f"batch {number}{again}")
        for at, sent in chain.messages(number, dataset):
            lines.append(f"  {inputs[at]} {sent.key or ''} {sent.value}")
    return "\n".join(lines)


def test_a_row_that_is_wrong_is_told_with_its_dataset() -> None:
    chain = draw(0, 3)
    model = Model(chain)
    for batch in range(BATCHES):
        model.apply(batch)
    right = by_dataset(model.rows(chain.result))
    check(chain, BATCHES - 1, right, right)
    dataset, rows = max(right.items())
    wrong = {**right, dataset: rows + Counter([next(iter(rows))])}
    with pytest.raises(Difference, match=f"CHAIN=0 DATASET={dataset}, after batch 4"):
        check(chain, BATCHES - 1, wrong, right)


@pytest.mark.parametrize(
    ("ours", "theirs", "is_equal"),
    [
        ([(1, 2.0)], [(1, 2.0 + 1e-12)], True),
        ([(1, 2.0)], [(1, 2.0 + 1e-6)], False),
        ([(1, None)], [(1, 0.0)], False),
        ([(1, 2.0), (1, 3.0)], [(1, 3.0 + 1e-12), (1, 2.0)], True),
        ([(1, 2.0)], [(1, 2.0), (1, 2.0)], False),
        ([(1, 2.0)], [(2, 2.0)], False),
    ],
)
def test_a_double_may_be_off_by_very_little(
    ours: list[Row], theirs: list[Row], is_equal: bool
) -> None:
    columns = (Column("c", "INT"), Column("x", "DOUBLE", exact=False))
    assert unequal(columns, Counter(ours), Counter(theirs)) is not is_equal


@pytest.fixture(scope="module")
def runs(
    request: pytest.FixtureRequest,
    broker: Broker,
    spark: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[int, tuple[Chain, Future[None]]]]:
    """Chains that were asked for, a few at a time: each waits much for Spark and the broker."""
    numbers = [
        item.callspec.params["number"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and {"runs", "number"} <= {*item.fixturenames}
    ]
    place = tmp_path_factory.mktemp("chains")
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        chains = [drawn(number) for number in numbers]
        chains = [c for c in chains if missing(c.script("b:9092", ["a", "b", "c"], "d")) is None]
        yield {c.number: (c, pool.submit(run_chain, c, broker, spark, place)) for c in chains}
        pool.shutdown(cancel_futures=True)


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.parametrize("number", CHAINS)
def test_a_chain_gives_what_a_batch_query_gives(
    number: int, runs: dict[int, tuple[Chain, Future[None]]]
) -> None:
    if number not in runs:
        pytest.skip(missing(drawn(number).script("b:9092", ["a", "b", "c"], "d")) or "")
    runs[number][1].result()


@pytest.mark.skipif(len(CHAINS) < 8, reason="a few have not all of them")
def test_every_operator_is_in_some_chain() -> None:
    stages = [stage for number in CHAINS for stage in draw(number, DATASETS).stages]
    operators = {stage.operator.rpartition(" ")[2] for stage in stages}
    assert operators >= {"join", "aggregate", "DISTINCT", "Top-N", "IN", "LIMIT"}
    assert {"global aggregate", "NOT IN"} <= {stage.operator for stage in stages}
    assert any(column.type == AVERAGE for stage in stages for column in stage.relation.columns)


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.skipif(
    len(CHAINS) < (20 if "FUZZ" in os.environ else 8), reason="of a few, less than half may do so"
)
def test_half_of_the_cases_carry_a_retraction_through_three_operators(
    runs: dict[int, tuple[Chain, Future[None]]],
) -> None:
    ran = [chain for chain, run in runs.values() if run.exception() is None]
    if len(ran) < len(CHAINS):
        pytest.skip("not all chains were asked for, or one has failed")
    deep = sum(len(deep_datasets(chain)) for chain in ran)
    assert deep * 2 >= len(ran) * DATASETS, f"{deep} of {len(ran) * DATASETS}"
    assert all(len(chain.stages) >= 4 for chain in ran)


# --- functions that depend on the order ---------------------------------------------------------

ORDERED = (
    "SELECT c, k, FIRST_VALUE(v0) AS first_one, LAST_VALUE(v0) AS last_one, LISTAGG(v0, '+') AS listed,"
    " ARRAY_AGG(v0) AS collected FROM t0 GROUP BY c, k;"
)
ORDERED_COLUMNS = (
    Column("c", "INT"),
    Column("k", "STRING"),
    Column("first_one", "STRING"),
    Column("last_one", "STRING"),
    Column("listed", "STRING"),
    Column("collected", "ARRAY"),
)


class Ordered:
    """The rows of each group in the order of their arrival; of equal rows the oldest is taken back."""

    def __init__(self) -> None:
        self.groups: dict[tuple[int, str], list[str | None]] = defaultdict(list)

    def apply(self, change: Change) -> None:
        for row, is_new in ((change.before, False), (change.after, True)):
            if row is not None:
                values = self.groups[row[0], row[1]]
                values.append(row[3]) if is_new else values.remove(row[3])

    def rows(self) -> Iterator[Row]:
        for (c, k), values in self.groups.items():
            known = [v for v in values if v is not None]
            if values:
                first, last = (known[0], known[-1]) if known else (None, None)
                listed = "+".join(known) if known else None
                yield (c, k, first, last, listed, tuple(values))


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.parametrize("kind", ["append", "bag"])
def test_functions_of_the_order_follow_the_arrival(
    kind: str, broker: Broker, spark: Any, tmp_path: Path
) -> None:
    columns = (
        Column("c", "INT"),
        Column("k", "STRING"),
        Column("f", "INT"),
        Column("v0", "STRING"),
    )
    source = Source(kind, Relation("t0", columns))

    def script(bootstrap: str, inputs: list[str], sink: str) -> str:
        return f"{source.ddl(bootstrap, inputs[0])}\n{ORDERED}"

    lacking = missing(script("b:9092", ["a"], "d"))
    if lacking:
        pytest.skip(lacking)
    dice = random.Random(f"{kind} {BEGIN}")
    datasets = [draw_changes(dice, source, dataset, 15) for dataset in range(DATASETS)]
    run = Run(
        f"ordered-{kind}",
        broker.bootstrap,
        spark,
        tmp_path,
        [source],
        ORDERED_COLUMNS,
        script,
        False,
    )
    model = Ordered()
    try:
        run.start()
        for begin, end in ((0, 4), (4, 9), (9, 15)):
            if begin == 9:
                run.stop()
                run.start()
            changes = [change for events in datasets for change in events[begin:end]]
            run.feed((0, message(source, change)) for change in changes)
            for change in changes:
                model.apply(change)
            run.settle()
            ours = Counter((*row[:5], tuple(row[5])) for row in run.rows())
            theirs = Counter(model.rows())
            assert ours == theirs, (list(ours - theirs)[:3], list(theirs - ours)[:3])
    finally:
        run.stop()

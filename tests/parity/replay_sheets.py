"""Sheets of expressions on Tidemill: bound by the planner, run by Spark, compared with what Flink recorded.

In: a sheet and its answer. Out: for each expression our type and values, or our error; and in words what differs.
Expressions run over a table of sample rows that never saw a topic: the rows take the way from the kernel's blocks on.
Aggregates run as streaming jobs over a real topic, because that is what the kernel's operator is made for.

    python tests/parity/replay_sheets.py text [--only 'UPPER*']      # show every difference of a sheet
"""

from __future__ import annotations

import contextlib
import fnmatch
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from case import (
    SAMPLES,
    Evaluated,
    Sheet,
    SheetAnswer,
    fill,
    json_members,
    read_sheet,
    read_sheet_answer,
)
from pyspark.errors import StreamingQueryException
from replay import plain

from tidemill.changelog import RowKind
from tidemill.errors import Source, TidemillError
from tidemill.plan import nodes
from tidemill.plan.environment import Environment, Job, compile_script, require_runnable
from tidemill.sql import parse_script

_CHUNK = 25


@dataclass(frozen=True)
class Bench:
    """Evaluates the expressions of one sheet."""

    spark: Any
    sheet: Sheet
    bootstrap: str = "127.0.0.1:9"
    topic: str = "samples"

    def expressions(self, wanted: Sequence[Evaluated]) -> Iterator[Evaluated]:
        """Our answers to Flink's; those where Flink fails run singly, since one failure fails the job."""
        bound = {e.text: self._bound(e.text) for e in wanted}
        values: dict[str, Evaluated] = {}
        for group in _groups([e for e in wanted if bound[e.text].error is None]):
            values.update(self._values(group))
        for text, each in bound.items():
            found = values.get(text, each)
            yield Evaluated(text, each.type, found.values, error=found.error or each.error)

    def aggregates(self, wanted: Sequence[Evaluated]) -> Iterator[Evaluated]:
        refused: list[Evaluated] = []
        for each in wanted:
            try:
                self._job(f"SELECT {each.text} AS r FROM samples")
            except TidemillError as error:
                refused.append(Evaluated(each.text, error=_said(error)))
        yield from refused
        known = {e.text for e in refused}
        for group in _groups([e for e in wanted if e.text not in known]):
            yield from self._aggregated(group)

    def _aggregated(self, group: Sequence[str]) -> Iterator[Evaluated]:
        listed = ", ".join(f"{e} AS r{i}" for i, e in enumerate(group))
        try:
            types, [row] = self._aggregate(f"SELECT {listed} FROM samples")
            keyed: dict[str, list[str]] = {}
            group_types = [""] * len(group)
            if self.sheet.has_groups:
                [_, *group_types], rows = self._aggregate(
                    f"SELECT g, {listed} FROM samples GROUP BY g"
                )
                keyed = {key: values for key, *values in rows}
        except TidemillError as error:
            if len(group) == 1:
                yield Evaluated(group[0], error=_said(error))
            else:
                for each in group:
                    yield from self._aggregated([each])
            return
        for i, each in enumerate(group):
            if self.sheet.has_groups:
                groups = tuple((key, values[i]) for key, values in keyed.items())
                yield Evaluated(each, types[i], (row[i],), group_types[i], groups)
            else:
                yield Evaluated(each, types[i], (row[i],))

    @cached_property
    def _environment(self) -> Environment:
        values = {"samples": self.topic, "BOOTSTRAP": self.bootstrap}
        table = fill(SAMPLES.format(columns=self.sheet.columns), values) + ";"
        environment = Environment(overrides={"table.local-time-zone": "UTC"})
        script = "".join(f"{s};\n" for s in self.sheet.settings)
        if "local-time-zone" in script:
            environment = Environment()
        compile_script(parse_script(Source("<sheet>", script + table), {}), environment)
        return environment

    def _job(self, query: str) -> Job:
        [job] = compile_script(parse_script(Source("<sheet>", query), {}), self._environment)
        assert isinstance(job, Job)
        require_runnable([job])
        return job

    def _bound(self, expression: str) -> Evaluated:
        try:
            job = self._job(f"SELECT {expression} AS r FROM samples")
        except TidemillError as error:
            return Evaluated(expression, error=_said(error))
        return Evaluated(expression, str(job.roots[0].input.columns[0].type))

    def _values(self, expressions: Sequence[str]) -> Iterator[tuple[str, Evaluated]]:
        listed = ", ".join(f"{e} AS r{i}" for i, e in enumerate(expressions))
        try:
            rows = self._rows(self._job(f"SELECT {listed} FROM samples"))
        except TidemillError as error:
            yield expressions[0], Evaluated(expressions[0], error=_said(error))
            return
        except Exception as error:
            if len(expressions) > 1:
                for each in expressions:
                    yield from self._values([each])
                return
            text = next((x for x in str(error).splitlines() if x.strip()), type(error).__name__)
            yield expressions[0], Evaluated(expressions[0], error=text[:400])
            return
        for i, each in enumerate(expressions):
            yield each, Evaluated(each, "", tuple(row[i] for row in rows))

    def _rows(self, job: Job) -> list[list[str]]:
        """The rows of a query, value by value as JSON text, without a stream."""
        from tidemill.spark.lower import Lowering
        from tidemill.spark.operators import Tally
        from tidemill.spark.printing import rendered
        from tidemill.spark.source import Scanning, decoding_of

        spark, block = self.spark, self._block()
        zone = job.settings.get("table.local-time-zone")
        spark.conf.set("spark.sql.session.timeZone", str(zone))

        class Batch(Lowering):
            def _scan(self, node: nodes.Scan) -> Any:
                blocks = spark.createDataFrame([(block,)], "block BINARY").coalesce(1)
                return decoding_of(node, Scanning()).rows(blocks)

        root, modes = job.roots[0].input, job.modes[0]
        uncounted = lambda table: lambda name, number: None  # noqa: E731
        frame = Batch(spark, modes, None, uncounted, Tally(spark), ()).lower(root)
        found = rendered(frame, root.columns, "json").collect()
        return [[text for _, text in json_members(row.text)] for row in found]

    def _block(self) -> bytearray:
        values = [row.encode() for row in self.sheet.rows]
        numbers = list(range(len(values)))
        batch = pa.record_batch(
            {
                "value": pa.array(values, pa.binary()),
                "partition": pa.array([0] * len(values), pa.int32()),
                "offset": pa.array(numbers, pa.int64()),
            }
        )
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        return bytearray(sink.getvalue().to_pybytes())

    def _aggregate(self, query: str) -> tuple[list[str], list[list[str]]]:
        """The types of the columns, and the rows that are left when all changes are done."""
        from tidemill import Session

        job = self._job(query)
        output = _Last()
        with Session(self.spark, output=output) as session:
            running = session.start(job, "sheet")
            with contextlib.suppress(StreamingQueryException):
                running.query.awaitTermination()
            failure = running.failure()
            if failure is not None:
                raise failure
        rows = [[text for _, text in json_members(row)] for row in output.rows]
        return [str(c.type) for c in job.roots[0].input.columns], rows


def _groups(wanted: Sequence[Evaluated]) -> Iterator[list[str]]:
    fine = [e.text for e in wanted if e.error is None]
    yield from (fine[start : start + _CHUNK] for start in range(0, len(fine), _CHUNK))
    yield from ([e.text] for e in wanted if e.error is not None)


class _Last:
    """Folds a changelog."""

    style: ClassVar[str] = "json"

    def __init__(self) -> None:
        self.rows: list[str] = []

    def take(self, fields: object, rows: Iterable[tuple[RowKind, str]]) -> None:
        for kind, text in rows:
            if kind in (RowKind.INSERT, RowKind.UPDATE_AFTER):
                self.rows.append(text)
            else:
                self.rows.remove(text)


def _said(error: TidemillError) -> str:
    found = error.diagnostics[0]
    return f"{found.code}: {found.message}"


def difference(ours: Evaluated, flinks: Evaluated) -> str | None:
    """What is not equal, in words; None if all is."""
    if flinks.error is not None:
        return None if ours.error is not None else f"Flink fails: {flinks.error.splitlines()[0]}"
    if ours.error is not None:
        return f"we fail: {ours.error}"
    # Flink's decimals have all their places, ours are as the json format writes them.
    short = plain if "DECIMAL" in (ours.type or "") else str
    for what, mine, theirs in (
        ("type", ours.type, flinks.type),
        ("values", tuple(map(short, ours.values)), tuple(map(short, flinks.values))),
        ("type by g", ours.group_type, flinks.group_type),
        ("values by g", _by_group(ours, short), _by_group(flinks, short)),
    ):
        if mine != theirs:
            return f"{what}: ours {_shown(mine)}, Flink's {_shown(theirs)}"
    return None


def _by_group(found: Evaluated, short: Callable[[str], str]) -> tuple[tuple[str, str], ...] | None:
    return found.groups and tuple(sorted((g, short(value)) for g, value in found.groups))


def _shown(found: object) -> str:
    return f"[{', '.join(map(str, found))}]" if isinstance(found, tuple) else str(found)


def differences(
    spark: Any, sheet: Sheet, answer: SheetAnswer, only: str = "*", **place: str
) -> dict[str, str]:
    """For each expression that is not equal: what differs."""
    from tidemill.spark.engine import attach

    # A session of its own: sheets have time zones, and run side by side.
    bench = Bench(attach(spark), sheet, **place)
    found: dict[str, str] = {}
    for wanted, evaluate in (
        (answer.expressions, bench.expressions),
        (answer.aggregates, bench.aggregates),
    ):
        flinks = {e.text: e for e in wanted if fnmatch.fnmatch(e.text, only)}
        for ours in evaluate(list(flinks.values())):
            what = difference(ours, flinks[ours.text])
            if what is not None:
                found[ours.text] = what
    return found


def main() -> None:
    import argparse
    import tempfile

    from confluent_kafka import Producer

    from tidemill.broker import start, topics
    from tidemill.spark.engine import create_spark

    parser = argparse.ArgumentParser()
    parser.add_argument("sheet")
    parser.add_argument("--only", default="*")
    chosen = parser.parse_args()
    path = Path(__file__).parent / "sheets" / f"{chosen.sheet}.sheet"
    sheet, answer = read_sheet(path), read_sheet_answer(path.with_suffix(".answer"))
    spark = create_spark("local[2]", {"spark.sql.shuffle.partitions": "1"})
    if not sheet.aggregates:
        found = differences(spark, sheet, answer, chosen.only)
    else:
        with tempfile.TemporaryDirectory() as place:
            broker = start(Path(place), port=0)
            try:
                topics.create(broker.bootstrap, "samples", 1, {})
                producer = Producer({"bootstrap.servers": broker.bootstrap})
                for row in sheet.rows:
                    producer.produce("samples", row.encode())
                producer.flush()
                found = differences(spark, sheet, answer, chosen.only, bootstrap=broker.bootstrap)
            finally:
                broker.stop()
    if answer.input != sheet.input:
        print("the answer was recorded for another sheet: make parity-record first")
    for text, what in found.items():
        mark = sheet.marks.get(text)
        print(f"{text}\n    {what}" + (f"\n    {mark.kind}: {mark.reason}" if mark else ""))
    for text in sheet.marks.keys() - found.keys():
        print(f"{text}\n    is equal and yet marked")
    print(f"{len(found)} of {len(sheet.expressions) + len(sheet.aggregates)} differ")


if __name__ == "__main__":
    main()

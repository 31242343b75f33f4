"""A parity case on Tidemill, in one of three ways, and the comparison of what came out with what Flink recorded.

In: a case, its answer, a broker and a Spark. Out: nothing, or a `Difference` that says what is not equal.

Rows of an append-only result are a multiset. An updating result is checked on its way (a -U or -D takes back just the
row that was last sent for its key) and compared as the table that is left. Topics are compared on the wire: keys,
values, headers, tombstones, partitions, byte for byte but for the order of members in an inner JSON object, which
Flink takes from a hash map.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar

import wire
from case import (
    QUIET_SECONDS,
    Answer,
    Case,
    Record,
    Result,
    Row,
    fill,
    format_offsets,
    format_record,
    is_append_only,
    json_members,
    unfill,
)

from harness.waiting import settle
from tidemill import Session
from tidemill.changelog import RowKind
from tidemill.errors import Source, TidemillError
from tidemill.plan.environment import Environment, compile_script, require_runnable
from tidemill.spark.runner import ends_by_itself
from tidemill.sql import parse_script
from tidemill.types import Field


class Way(Enum):
    STRAIGHT = "straight"
    SINGLE = "one record a batch"
    """Or a 25th of the records, where they are many."""
    RESTARTED = "stopped in the middle and restarted"


class Difference(AssertionError):
    """We are not equal; the message says in what."""


@dataclass
class Ours:
    """What came out of Tidemill."""

    result: Result
    code: str | None = None
    """Of the diagnostic, where it failed."""
    types: tuple[tuple[str, str], ...] | None = None
    keys: frozenset[frozenset[int]] = frozenset()
    """The upsert keys of the SELECT."""


@dataclass
class _Rows:
    style: ClassVar[str] = "json"
    rows: list[Row] = field(default_factory=list)

    def take(self, fields: tuple[Field, ...], rows: Iterable[tuple[RowKind, str]]) -> None:
        self.rows += [Row(kind.symbol, text) for kind, text in rows]


# --- running ------------------------------------------------------------------------------------


def missing(case: Case) -> str | None:
    """What a case needs that cannot be executed yet: it is planned, not run, until there is nothing left to name."""
    names = {each.name: each.name for each in (*case.topics, *case.groups)}
    values = {**names, "BOOTSTRAP": "b:9092", "REGISTRY": "http://r:8081"}
    values |= {name: "/files" for name, _ in case.files}
    script = fill(case.script, values)
    try:
        require_runnable(compile_script(parse_script(Source("case.sql", script)), Environment()))
    except TidemillError as error:
        found = error.diagnostics[0]
        return found.message if found.code == "PLAN-020" else None
    return None


def run(case: Case, way: Way, bootstrap: str, spark: Any, place: Path, serial: str) -> Ours:
    names = wire.names_of(case, serial)
    with wire.world(bootstrap, case, names, serial) as world:
        replayed = _Replayed(case, way, world.values, spark, place)
        try:
            replayed.run()
        except TidemillError as error:
            found = error.diagnostics[0]
            replayed.code, replayed.error = found.code, f"{found.code}: {found.message}"
        finally:
            replayed.close()
        files = world.files(case)
    rows = [Row(r.kind, unfill(r.text, world.values)) for r in replayed.output.rows]
    found_topics = {
        look.topic: tuple(wire.read(bootstrap, case, look, names[look.topic]))
        for look in case.looks
        if look.topic
    }
    groups = {
        look.group: wire.committed(bootstrap, names[look.group], names)
        for look in case.looks
        if look.group
    }
    return Ours(
        Result(tuple(rows), found_topics, replayed.error, groups, world.schemas(), files),
        replayed.code,
        replayed.types,
        replayed.keys,
    )


class _Replayed:
    def __init__(
        self, case: Case, way: Way, values: Mapping[str, str], spark: Any, place: Path
    ) -> None:
        self.case, self.way, self.values, self.spark, self.place = case, way, values, spark, place
        self.output = _Rows()
        self.code: str | None = None
        self.error: str | None = None
        self.types: tuple[tuple[str, str], ...] | None = None
        self.keys: frozenset[frozenset[int]] = frozenset()
        self.session: Session | None = None
        self.jobs: list[Any] = []

    def run(self) -> None:
        wire.prepare(self.bootstrap, self.case, self.values)
        for step in range(len(self.case.steps)):
            if step:
                if self.way is Way.RESTARTED:
                    self.close()  # two jobs of one checkpoint would take each other's work
                wire.write_step(self.bootstrap, self.case, step, self.values)
            if self.way is Way.RESTARTED:
                self._start(one_by_one=True)
                self._wait_for_half(step)
                self.close()
                self._start()
            elif not step:
                self._start(one_by_one=self.way is Way.SINGLE)
            self._settle(step)

    def close(self) -> None:
        if self.session is not None:
            self.session.close()
        self.session, self.jobs = None, []

    @property
    def bootstrap(self) -> str:
        return self.values["BOOTSTRAP"]

    def _start(self, one_by_one: bool = False) -> None:
        many = sum(len(step.records) for step in self.case.steps)
        settings = {"tidemill.batch.max-rows": str(max(1, many // 25))} if one_by_one else {}
        self.session = Session(
            self.spark,
            checkpoint=self.place,
            settings=settings,
            variables=self.values,
            output=self.output,
        )
        found = self.session.execute(self.case.script, name="case")
        self.jobs = [job for job in found if not isinstance(job, str)]
        for job in self.jobs:
            if job.job.target == "select":
                columns = job.job.roots[0].input.columns
                self.types = tuple((c.name, str(c.type)) for c in columns)
                self.keys = job.job.roots[0].input.upsert_keys

    def _wait_for_half(self, step: int) -> None:
        """Until a job has read half of what a step brings, or all that it will read of it, or has ended."""
        half = len(self.case.steps[step].records) // 2
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and any(job.is_active for job in self.jobs):
            if any(_records_read(job) >= half or _is_idle(job) for job in self.jobs):
                return
            time.sleep(0.02)

    def _settle(self, step: int) -> None:
        if self.case.steps[step].partitions:
            time.sleep(2)  # New ones are found at the script's interval.
        if self.case.quiet_seconds != QUIET_SECONDS:
            # Something happens after the work, and is none: a partition becomes idle, a clock moves on.
            for job in self.jobs:
                if not ends_by_itself(job.job, False):
                    self._wait(job, step)
            time.sleep(self.case.quiet_seconds)
        for job in self.jobs:
            self._wait(job, step)

    def _wait(self, job: Any, step: int) -> None:
        try:
            if not ends_by_itself(job.job, False):
                settle(job.query)
            elif step < len(self.case.steps) - 1:
                # It waits for what a later step brings, and Spark cannot tell that from work.
                time.sleep(self.case.quiet_seconds)
            else:
                job.query.awaitTermination()
        except Exception:
            if job.failure() is None:
                raise
        failure = job.failure()
        if failure is not None:
            raise failure


def _records_read(job: Any) -> int:
    totals = [
        int((source.get("metrics") or {}).get("records", 0))
        for report in job.reports()[-1:]
        for source in report["sources"]
    ]
    return sum(totals)


def _is_idle(job: Any) -> bool:
    """Whether it has found nothing to read, as where its group has read everything before."""
    return bool(job.query.status["message"] == "Waiting for data to arrive")


class Replays:
    """Work by its name, a few at a time on the one Spark and the one broker: each is mostly waiting."""

    AT_A_TIME = 4

    def __init__(self, work: Mapping[Any, Callable[[], Any]]) -> None:
        self._pool = ThreadPoolExecutor(self.AT_A_TIME)
        self._found = {name: self._pool.submit(each) for name, each in work.items()}

    def of(self, name: Any) -> Any:
        return self._found[name].result()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


# --- comparing ----------------------------------------------------------------------------------


def compare(case: Case, answer: Answer, ours: Ours) -> None:
    if case.tidemill is not None:
        _compare_ours(case.tidemill, answer, ours)
        return
    for look in case.looks:
        if look.what == "error":
            if ours.result.error is None:
                raise Difference(f"we do not fail; Flink does: {look.fragment}")
            if ours.code != look.code:
                raise Difference(f"we fail with {ours.result.error}, not with {look.code}")
            continue
        if ours.result.error is not None:
            raise Difference(f"we fail: {ours.result.error}")
        if look.what == "select":
            if ours.types != answer.types:
                raise Difference(f"types: ours {ours.types}, Flink's {answer.types}")
            _compare_rows(ours, answer.result.select or ())
        elif look.topic:
            theirs = answer.result.topics[look.topic]
            updating = not is_append_only(answer.changelog_mode or "")
            _compare_topic(look.topic, look.words, ours.result.topics[look.topic], theirs, updating)
        elif look.group:
            _compare_group(look.group, ours, answer.result)
        elif look.what == "registry":
            _compare_registry(ours, answer.result)
        elif look.files:
            lines = [Counter(side.files[look.files]) for side in (ours.result, answer.result)]
            _same_bag(f"files {look.files}", *lines)


def _compare_ours(expected: Result, answer: Answer, ours: Ours) -> None:
    """A case that differs on purpose says itself what we give."""
    if expected.error is not None:
        if expected.error.strip() not in (ours.result.error or ""):
            raise Difference(f"we say {ours.result.error!r}, not {expected.error!r}")
    elif ours.result.error is not None:
        raise Difference(f"we fail: {ours.result.error}")
    if expected.select is not None:
        _compare_rows(ours, expected.select)
    for name, records in expected.topics.items():
        updating = not is_append_only(answer.changelog_mode or "")
        _compare_topic(name, frozenset(), ours.result.topics[name], records, updating)
    for name in expected.groups:
        _compare_group(name, ours, expected)
    if expected.registry is not None:
        _compare_registry(ours, expected)


def _compare_group(name: str, ours: Ours, theirs: Result) -> None:
    left, right = (format_offsets(side.groups[name]) for side in (ours.result, theirs))
    if left != right:
        raise Difference(f"group {name}: ours {left}, Flink's {right}")


def _compare_registry(ours: Ours, theirs: Result) -> None:
    """Schemas are equal as JSON: the order of members within one says nothing."""
    left, right = (
        [(subject, json.loads(schema)) for subject, schema in side.registry or ()]
        for side in (ours.result, theirs)
    )
    if left != right:
        raise Difference(f"registry: ours {left}, Flink's {right}")


def _compare_rows(ours: Ours, theirs: tuple[Row, ...]) -> None:
    mine = ours.result.select or ()
    _check_changelog(mine, ours.keys)
    decimals = [name for name, type_ in ours.types or () if "DECIMAL" in type_]
    _same_bag("rows", _table(mine, decimals), _table(theirs, decimals))


def _table(rows: Iterable[Row], decimals: Sequence[str]) -> Counter[str]:
    """The rows that a changelog leaves. Flink's decimals have all their places, ours as many as json writes."""
    table: Counter[str] = Counter()
    for row in rows:
        members = [
            f"{json.dumps(name)}:{plain(text) if name in decimals else text}"
            for name, text in json_members(canonical(row.text))
        ]
        table["{" + ",".join(members) + "}"] += 1 if row.kind in ("+I", "+U") else -1
    return +table


def plain(text: str) -> str:
    """JSON text with every number as short as it can be without an exponent."""
    return _NUMBER.sub(lambda found: found[1] or f"{Decimal(found[0]).normalize():f}", text)


_NUMBER = re.compile(r'("(?:[^"\\]|\\.)*")|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?')


def _check_changelog(rows: Sequence[Row], keys: frozenset[frozenset[int]]) -> None:
    """Law: what is taken back is what was last sent, and nothing is taken back that is not there.

    Of several keys one is enough: numbers of a Top-N change hands in the order of the numbers, not of the rows.
    """
    wrong: list[Difference] = []
    for key in sorted(map(sorted, keys)) or [None]:
        try:
            _check_by_key(rows, key)
        except Difference as difference:
            wrong.append(difference)
        else:
            return
    raise wrong[0]


def _check_by_key(rows: Iterable[Row], key: list[int] | None) -> None:
    table: Counter[str] = Counter()
    last: dict[str, str] = {}
    for row in rows:
        values = list(json.loads(row.text, parse_float=str, parse_int=str).values())
        at = json.dumps([values[i] for i in key]) if key is not None else ""
        if row.kind in ("-U", "-D"):
            if not table[row.text]:
                raise Difference(f"{row.kind} {row.text} takes back a row that is not there")
            if key is not None and last.get(at) != row.text:
                raise Difference(f"{row.kind} {row.text}, but last sent was {last.get(at)}")
            table[row.text] -= 1
            last.pop(at, None)
            continue
        if key is not None:
            if row.kind == "+I" and at in last:
                raise Difference(f"+I {row.text}, but there is {last[at]}")
            if row.kind == "+U" and at in last:
                raise Difference(f"+U {row.text} without a -U of {last[at]}")
        table[row.text] += 1
        last[at] = row.text


def _compare_topic(
    name: str,
    words: frozenset[str],
    mine: tuple[Record, ...],
    theirs: tuple[Record, ...],
    updating: bool,
) -> None:
    # Changes in a topic without keys are all there is: none of them replaces another.
    if (updating or "last" in words) and any(r.key is not None for r in theirs):
        strange = _deletes_of_nothing(mine) - _deletes_of_nothing(theirs)
        if strange:
            raise Difference(f"topic {name}: tombstones for keys that are not there: {strange}")
        left, right = _upserts(mine), _upserts(theirs)
        if left != right:
            raise Difference(f"topic {name}: ours {left}, Flink's {right}")
        return
    left_lines, right_lines = ([_line(r) for r in side] for side in (mine, theirs))
    _same_bag(f"topic {name}", Counter(left_lines), Counter(right_lines))
    # Flink's records of several partitions are kept in order of their text.
    in_order = all(r.partition == 0 for r in (*mine, *theirs)) and "by key" not in words
    if in_order and left_lines != right_lines and sorted(right_lines) != right_lines:
        raise Difference(f"topic {name}: the order is ours {left_lines}")


def _upserts(records: tuple[Record, ...]) -> dict[str, str]:
    """Key → last record, without those that are gone."""
    table: dict[str, str] = {}
    for record in records:
        at = format_record(Record(None, record.key, (), record.partition))
        if record.value is None:
            table.pop(at, None)
        else:
            table[at] = _line(replace(record, key=None, partition=None))
    return table


def _deletes_of_nothing(records: tuple[Record, ...]) -> set[bytes | None]:
    there: set[bytes | None] = set()
    strange: set[bytes | None] = set()
    for record in records:
        if record.value is not None:
            there.add(record.key)
        elif record.key in there:
            there.remove(record.key)
        else:
            strange.add(record.key)
    return strange


def _line(record: Record) -> str:
    text = record.value.decode("utf-8", "replace") if record.value is not None else None
    if text is not None and text.startswith("{"):
        record = replace(record, value=canonical(text).encode())
    return format_record(record)


def _same_bag(what: str, mine: Counter[str], theirs: Counter[str]) -> None:
    if mine != theirs:
        only = sorted((mine - theirs).elements()), sorted((theirs - mine).elements())
        raise Difference(f"{what}: only ours {only[0]}, only Flink's {only[1]}")


def canonical(text: str) -> str:
    """A JSON object with the members of its inner objects in order; texts and numbers as they are written."""
    if "{" not in text[1:]:
        return text
    try:
        parsed = json.loads(text, parse_float=_Written, parse_int=_Written)
    except ValueError:
        return text
    return "{" + ",".join(f"{json.dumps(k)}:{_sorted(v)}" for k, v in parsed.items()) + "}"


class _Written(str):
    """A number as it is written."""


def _sorted(value: Any) -> str:
    if isinstance(value, _Written):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{_sorted(value[k])}" for k in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_sorted, value)) + "]"
    return json.dumps(value)

"""What operators remember, for one who looks into a checkpoint.

In: a checkpoint, in which a job has left what it asked of the kernel. Out: its operators with their keys and sizes, and
the rows that one of them keeps, as columns of SQL types. Law: nothing is written, and a job may run meanwhile: what is
read is the state after the last batch that is done.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import types as s

from tidemill import types as t
from tidemill.errors import usage_error
from tidemill.functions import type_of
from tidemill.plan import nodes
from tidemill.plan.environment import Job
from tidemill.plan.fingerprint import has_state
from tidemill.spark.checkpoints import Checkpoint
from tidemill.spark.expressions import column_name
from tidemill.spark.java import java_class
from tidemill.spark.operators import Tally
from tidemill.spark.windows import own_windows
from tidemill.types import Field


def kept_by(job: Job, tally: Tally) -> list[dict[str, Any]]:
    """What a checkpoint says of the operators of a job, as Spark numbers them: from the sinks down."""
    return [_described(node, tally.made.get(id(node))) for node in with_state(job)]


def with_state(job: Job) -> list[nodes.Node]:
    """The operators that keep something, as Spark numbers them."""
    found = [n for root in job.roots for n in nodes.walk(root) if has_state(n)]
    # The sessions of an aggregate are its own.
    owned = {id(own_windows(n)) for n in found if isinstance(n, nodes.WindowAggregate)}
    return [n for n in found if id(n) not in owned]


def operator_names(job: Job) -> list[str]:
    """Their names, for people."""
    return [node.describe().partition("(")[0] for node in with_state(job)]


def _described(node: nodes.Node, made: Mapping[str, Any] | None) -> dict[str, Any]:
    if made is None:
        return {"name": node.describe()}
    # A join has the columns of both its inputs, one after the other.
    below = [column for child in node.inputs for column in child.columns]
    names = nodes.unique_names(column.name for column in below)
    columns: dict[str, list[str | None]] = {
        column_name(i): [name, str(t.materialized(c.type.as_nullable))]
        for i, (name, c) in enumerate(zip(names, below, strict=True))
    }
    columns["_side"] = ["side", "STRING"]
    if isinstance(node, nodes.Aggregate):
        for i, (call, column) in enumerate(
            zip(node.calls, node.columns[len(node.keys) :], strict=True)
        ):
            # For an aggregate function of the user's its group's rows are kept, and not its result.
            kept = None if call.implementation is not None else str(call.type)
            columns[f"a{i}"] = [column.name, kept]
    spec = _without_properties(made["spec"])
    keys = _keys(spec)
    return {"name": node.describe(), "keys": keys, "columns": columns, **made, "spec": spec}


def _without_properties(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A spec as a file may hold it: the client that sends letters has passwords, and nobody sends any from there."""
    clock = spec.get("clock")
    if not clock or "letters" not in clock:
        return dict(spec)
    letters = clock["letters"]
    box = json.loads(letters["sink"])
    box["sinks"] = [{**sink, "properties": {}} for sink in box["sinks"]]
    return {**spec, "clock": {**clock, "letters": {**letters, "sink": json.dumps(box)}}}


def _keys(spec: Mapping[str, Any]) -> list[str]:
    """The columns by which an operator keeps state, of its first input."""
    found = next(spec[word] for word in ("keys", "partition", "left") if word in spec)
    return list(found["keys"] if isinstance(found, Mapping) else found)


_BY_TIME = frozenset(
    [
        "windowAggregate",
        "sessionAggregate",
        "sessions",
        "windowRank",
        "windowDeduplicate",
        "windowJoin",
    ]
)
"""The kernel's operators that keep what they know in timelines, which Spark's reader of state does not know."""


@dataclass(frozen=True)
class Operator:
    """An operator with state, as its checkpoint knows it."""

    checkpoint: Checkpoint
    number: int
    described: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.described["name"])

    @property
    def key(self) -> list[Field]:
        return [self._field(name) for name in self.described.get("keys", ())]

    @property
    def bytes(self) -> int:
        """On the disk, with what is kept for the batches before."""
        spark = self.checkpoint.spark
        files = java_class(spark, "io.tidemill.checkpoint.StateFiles")
        sizes = dict(files.sizes(self.checkpoint.place, spark._jsc.hadoopConfiguration()))
        return int(sizes.get(self.number, 0))

    @property
    def is_by_time(self) -> bool:
        """Whether it keeps what it knows by time, and not by key."""
        return self.described.get("operator") in _BY_TIME

    def count(self) -> int | None:
        """How many keys there are; None where that is not known."""
        return None if self.is_by_time else int(self._variable("state").count())

    def rows(self) -> tuple[DataFrame, list[Field]]:
        """Columns c0, c1, …, and what they are; of an operator that tells no more, its keys."""
        if "operator" not in self.described or self.is_by_time:
            raise usage_error(
                "CLI-022",
                f"what {self.name} keeps cannot be read back yet",
                "'tidemill status CHECKPOINT' tells how many rows it keeps",
            )
        spark = self.checkpoint.spark
        values = self._variable("state").selectExpr("key._1 AS key", "value.value AS value")
        if self._has_pages():
            entries = self._variable("pages").selectExpr(
                "key._1 AS key", "struct(user_map_key.value, user_map_value.value) AS page"
            )
            pages = entries.groupBy("key").agg({"page": "collect_list"})
            pages = pages.toDF("key", "pages").selectExpr("key", "map_from_entries(pages) AS pages")
            values = values.join(pages, "key", "left")
        else:
            values = values.selectExpr("key", "value", "CAST(NULL AS MAP<BIGINT, BINARY>) AS pages")
        schema = s.StructType.fromJson(json.loads(self.described["inputs"][0]))
        keys = s.StructType([schema[name] for name in self.described["keys"]])
        read = java_class(spark, "io.tidemill.state.StateReader").rows(
            values._jdf,
            self.described["operator"],
            json.dumps(self.described["spec"]),
            self.described["inputs"],
            keys.json(),
        )
        found = DataFrame(read, spark)
        told = [self.described["columns"].get(name, [name, None]) for name in found.columns]
        numbered = found.toDF(*(column_name(i) for i in range(len(told))))
        shown = [
            column_name(i)
            if type_
            else f"to_json(named_struct('v', {column_name(i)})) AS {column_name(i)}"
            for i, (_, type_) in enumerate(told)
        ]
        fields = [Field(name, type_of(type_ or "STRING")) for name, type_ in told]
        return numbered.selectExpr(*shown), fields

    def _field(self, name: str) -> Field:
        shown, type_ = self.described["columns"][name]
        return Field(shown, type_of(type_))

    def _variable(self, name: str) -> DataFrame:
        reader = self.checkpoint.spark.read.format("statestore")
        reader = reader.option("path", self.checkpoint.place).option("operatorId", self.number)
        return reader.option("stateVarName", name).load()

    def _has_pages(self) -> bool:
        known = self.checkpoint.spark.read.format("state-metadata").load(self.checkpoint.place)
        [row] = known.where(f"operatorId = {self.number}").select("operatorProperties").collect()
        return any(v["stateName"] == "pages" for v in json.loads(row[0])["stateVariables"])


def operators(checkpoint: Checkpoint) -> list[Operator]:
    """Those of the job whose checkpoint it is."""
    facts = checkpoint.facts()
    checkpoint.check(has_state=bool(facts.get("operators")))
    if "time_zone" in facts:
        checkpoint.spark.conf.set("spark.sql.session.timeZone", facts["time_zone"])
    if checkpoint.last_batch < 0:
        return []
    return [Operator(checkpoint, i, each) for i, each in enumerate(facts.get("operators", []))]


def named(found: list[Operator], name: str) -> Operator:
    """An operator by its number, or by as much of its name as tells it from the others."""
    if name.isdigit() and int(name) < len(found):
        return found[int(name)]
    alike = [o for o in found if o.name.lower().startswith(name.lower())]
    if len(alike) == 1:
        return alike[0]
    known = "; ".join(f"{o.number}: {o.name}" for o in found) or "none"
    what = f"{len(alike)} operators begin with" if alike else "no operator is called"
    raise usage_error("CLI-021", f"{what} '{name}'", f"name one by its number. There are {known}")

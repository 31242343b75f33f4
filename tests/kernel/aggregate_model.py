"""The group aggregate operator, and a plain Python model of what Flink makes of a group's rows."""

from __future__ import annotations

import json
import math
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

from streams import new_counts, operators

Row = dict[str, Any]
Key = tuple[Any, ...]
Change = tuple[Any, ...]


def call(
    function: str,
    argument: str | Sequence[str] | None,
    output: str,
    type_: str,
    distinct: bool = False,
    filter_: str | None = None,
    settings: Sequence[str] = (),
) -> dict[str, Any]:
    arguments = [argument] if isinstance(argument, str) else list(argument or ())
    return {
        "function": function,
        "arguments": arguments,
        "settings": list(settings),
        "distinct": distinct,
        "filter": filter_,
        "output": output,
        "type": type_,
    }


def group_aggregate(
    frame: Any,
    keys: list[str],
    calls: list[dict[str, Any]],
    update_before: bool = True,
    counts: Any = None,
    ttl: int | None = None,
) -> Any:
    """Retracting if the frame has kinds. `counts` is where the operator counts bad input."""
    from pyspark.sql import DataFrame

    spec = {
        "name": "GroupAggregate of test",
        "keys": keys,
        "aggregates": calls,
        "updateBefore": update_before,
        "retracting": "_kind" in frame.columns,
        "ttl": None if ttl is None else [ttl],
    }
    session = frame.sparkSession
    counts = counts or new_counts(session)
    return DataFrame(
        operators(session).groupAggregate(frame._jdf, json.dumps(spec), counts), session
    )


def typed(spark: Any, stream_columns: dict[str, str], rows: list[Row]) -> list[Row]:
    """The rows as Spark reads them: its casts are not what is tested here."""
    texts = ", ".join(f"{name} STRING" for name in stream_columns)
    casts = [
        f"from_json({name}, '{type_}') AS {name}"
        if type_.startswith(("ARRAY", "STRUCT"))
        else f"cast({name} AS {type_}) AS {name}"
        for name, type_ in stream_columns.items()
    ]
    data = [tuple(row[name] for name in stream_columns) for row in rows]
    return [row.asDict() for row in spark.createDataFrame(data, texts).selectExpr(*casts).collect()]


# --- numbers -------------------------------------------------------------------------------------

WIDTHS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


def wrap(number: int, bits: int) -> int:
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number


def single(number: float) -> float:
    """A double rounded to a float."""
    return float(struct.unpack("f", struct.pack("f", number))[0])


def truncated(dividend: int, divisor: int) -> int:
    return abs(dividend) // divisor * (-1 if dividend < 0 else 1)


def fitted(number: Decimal, type_: str) -> Decimal | None:
    precision, scale = map(int, type_[len("decimal(") : -1].split(","))
    with localcontext(prec=100):
        rounded = number.quantize(Decimal(1).scaleb(-scale), rounding=ROUND_HALF_UP)
        return rounded if abs(rounded) < Decimal(10) ** (precision - scale) else None


# --- one call over the changes of a group --------------------------------------------------------


@dataclass
class Step:
    """One row that came (sign 1) or went (sign -1) in a batch."""

    batch: int
    sign: int
    row: Row


def same(value: Any) -> str:
    """Values are equal when this is: -0.0 is not 0.0."""
    return repr(value)


def operands(spec: dict[str, Any], log: list[Step]) -> list[tuple[int, int, Any]]:
    """What a call is fed: (batch, sign, value), without what its filter keeps away."""
    kept = [c for c in log if not spec["filter"] or c.row[spec["filter"]]]
    if len(spec["arguments"]) > 1:
        return [(c.batch, c.sign, tuple(c.row[a] for a in spec["arguments"])) for c in kept]
    [argument] = spec["arguments"]
    return [(c.batch, c.sign, c.row[argument]) for c in kept]


def distinct(fed: list[tuple[int, int, Any]]) -> list[tuple[int, int, Any]]:
    """The values that a batch leaves and did not find come once; those that it found and does not leave go."""
    counts: Counter[str] = Counter()
    found: list[tuple[int, int, Any]] = []
    for batch in dict.fromkeys(b for b, _, _ in fed):
        before = counts.copy()
        touched: dict[str, Any] = {}
        for _, sign, value in (f for f in fed if f[0] == batch):
            touched.setdefault(same(value), value)
            counts[same(value)] += sign
        for text, value in touched.items():
            step = (counts[text] > 0) - (before[text] > 0)
            found += [(batch, step, value)] if step else []
    return found


def left(fed: list[tuple[int, int, Any]]) -> list[Any]:
    """The values in the order of their arrival; the first of equal ones goes first."""
    values: list[Any] = []
    for _, sign, value in fed:
        if sign > 0:
            values.append(value)
        else:
            del values[[same(v) for v in values].index(same(value))]
    return values


def expected(spec: dict[str, Any], log: list[Step]) -> Any:
    """What Flink gives for one call over all changes of a group, in the order in which they came."""
    if not spec["arguments"]:
        return sum(c.sign for c in log if not spec["filter"] or c.row[spec["filter"]])
    fed = operands(spec, log)
    if spec["function"] not in ("ARRAY_AGG", "JSON_ARRAYAGG", "SINGLE_VALUE"):
        fed = [f for f in fed if f[2] is not None]
    if spec["distinct"]:
        fed = distinct(fed)
    return RESULTS[spec["function"]](spec, fed, left(fed))


def total(spec: dict[str, Any], fed: list[tuple[int, int, Any]], values: list[Any]) -> Any:
    function, type_ = spec["function"], spec["type"]
    if not values:
        return None
    if type_ in WIDTHS:
        whole = wrap(sum(values), 64)
        return wrap(whole if function == "SUM" else truncated(whole, len(values)), WIDTHS[type_])
    if type_.startswith("decimal"):
        with localcontext(prec=100):
            exact = sum(values, Decimal(0))
            return fitted(exact if function == "SUM" else exact / len(values), type_)
    running = 0.0
    for _, sign, value in fed:
        step = running + sign * value
        running = single(step) if (function, type_) == ("SUM", "float") else step
    result = running if function == "SUM" else running / len(values)
    return single(result) if type_ == "float" else result


def extreme(spec: dict[str, Any], fed: list[tuple[int, int, Any]], values: list[Any]) -> Any:
    if not values:
        return None
    order = (lambda v: v.encode()) if isinstance(values[0], str) else None
    return (min if spec["function"] == "MIN" else max)(values, key=order)


def joined(spec: dict[str, Any], fed: list[tuple[int, int, Any]], values: list[Any]) -> Any:
    return (spec["settings"] or [","])[0].join(values) if values else None


def percentile(spec: dict[str, Any], fed: list[tuple[int, int, Any]], values: list[Any]) -> Any:
    if len(spec["arguments"]) > 1:
        values = [v for v, often in values if v is not None for _ in range(often or 0)]
    if not values:
        return None
    values = sorted(values)
    found = []
    for share in map(float, spec["settings"]):
        place = share * (len(values) - 1) + 1
        low, high = values[math.floor(place) - 1], values[math.ceil(place) - 1]
        between = (math.ceil(place) - place) * low + (place - math.floor(place)) * high
        found.append(low if low == high or place == math.floor(place) else between)
    return found if spec["type"].startswith("array") else found[0]


RESULTS = {
    "FIRST_VALUE": lambda spec, fed, values: values[0] if values else None,
    "LAST_VALUE": lambda spec, fed, values: values[-1] if values else None,
    "LISTAGG": joined,
    "ARRAY_AGG": lambda spec, fed, values: values or None,
    "COLLECT": lambda spec, fed, values: dict(Counter(values)),
    "PERCENTILE": percentile,
    "JSON_ARRAYAGG": lambda spec, fed, values: (
        "["
        + ",".join(
            "null" if v is None else v
            for v in values
            if v is not None or "ABSENT ON NULL" not in spec["settings"]
        )
        + "]"
    ),
    "COUNT": lambda spec, fed, values: len(values),
    "SUM": total,
    "AVG": total,
    "MIN": extreme,
    "MAX": extreme,
}


# --- the changelog -------------------------------------------------------------------------------


@dataclass
class Model:
    keys: list[str]
    calls: list[dict[str, Any]]
    update_before: bool = True
    groups: dict[Key, list[Step]] = field(default_factory=dict)
    sent: dict[Key, Key] = field(default_factory=dict)
    batches: int = 0

    def batch(self, rows: list[Row], signs: list[int] | None = None) -> dict[Key, list[Change]]:
        """The changes that leave for each key when rows come (sign 1) and go (sign -1)."""
        self.batches += 1
        touched: dict[Key, None] = {}
        for row, sign in zip(rows, signs or [1] * len(rows), strict=True):
            key = tuple(row[name] for name in self.keys)
            self.groups.setdefault(key, []).append(Step(self.batches, sign, row))
            touched[key] = None
        changes: dict[Key, list[Change]] = {}
        for key in touched:
            old = self.sent.pop(key, None)
            if sum(c.sign for c in self.groups[key]) == 0:
                del self.groups[key]
                if old is not None:
                    changes[key] = [("-D", *key, *old)]
                continue
            now = tuple(expected(spec, self.groups[key]) for spec in self.calls)
            self.sent[key] = now
            if old is None:
                changes[key] = [("+I", *key, *now)]
            elif old != now:
                before = [("-U", *key, *old)] if self.update_before else []
                changes[key] = [*before, ("+U", *key, *now)]
        return changes


def by_key(changes: list[Change], keys: int) -> dict[Key, list[Change]]:
    grouped: dict[Key, list[Change]] = {}
    for change in changes:
        grouped.setdefault(change[1 : 1 + keys], []).append(change)
    return grouped


def difference(
    calls: list[dict[str, Any]], found: dict[Key, list[Change]], wanted: dict[Key, list[Change]]
) -> list[str]:
    """Where two sets of changes differ, by the calls' names; of changes that are not there, as a whole."""
    lines = []
    for key in {**found, **wanted}:
        ours, theirs = found.get(key, []), wanted.get(key, [])
        if [c[0] for c in ours] != [c[0] for c in theirs]:
            lines.append(f"{key}: {ours} instead of {theirs}")
            continue
        names = ["kind", *(f"key {i}" for i in range(len(key))), *(c["output"] for c in calls)]
        for our, their in zip(ours, theirs, strict=True):
            lines += [
                f"{key} {our[0]} {name}: {a!r} instead of {b!r}"
                for name, a, b in zip(names, our, their, strict=True)
                if a != b
            ]
    return lines

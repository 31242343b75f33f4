"""Rows per second of one core's time, of the formats without Kafka and Spark: `python bench/formats.py [rows]`."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from decimal import Decimal

import orjson
import pyarrow as pa

from tidemill import types as t
from tidemill.formats import json
from tidemill.formats.arrow import arrow_type

ORDERS = (
    t.Field("user_id", t.BIGINT),
    t.Field("item", t.STRING),
    t.Field("amount", t.DOUBLE),
    t.Field("ts", t.TimestampType(precision=3)),
    t.Field("region", t.STRING),
    t.Field("n", t.INT),
)
TYPES = (
    t.BOOLEAN,
    t.TinyIntType(),
    t.BIGINT,
    t.DOUBLE,
    t.FloatType(),
    t.DecimalType(precision=10, scale=2),
    t.DecimalType(precision=38, scale=18),
    t.STRING,
    t.BYTES,
    t.DateType(),
    t.TimeType(precision=3),
    t.TimestampType(precision=3),
    t.TimestampLtzType(precision=3),
    t.ArrayType(element=t.INT),
    t.MapType(key=t.STRING, value=t.DOUBLE),
    t.RowType(fields=(t.Field("a", t.INT), t.Field("b", t.STRING))),
)


def best(rows: int, action: Callable[[], object], repeats: int = 5) -> float:
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        action()
        seconds.append(time.process_time() - start)
    return rows / min(seconds)


def show(name: str, rate: float) -> None:
    print(f"{name:<58} {rate / 1000:>8,.0f}k rows/s")


def sample(type_: t.SqlType, dice: random.Random) -> object:
    match type_:
        case t.BooleanType():
            return dice.random() < 0.5
        case t.TinyIntType():
            return dice.randrange(100)
        case t.IntType() | t.BigIntType():
            return dice.randrange(2**31)
        case t.DoubleType() | t.FloatType():
            return round(dice.uniform(0, 1000), 2)
        case t.DecimalType():
            return Decimal(dice.randrange(100_000)).scaleb(-2)
        case t.VarCharType():
            return f"item-{dice.randrange(10_000)}"
        case t.VarBinaryType():
            return dice.randbytes(12)
        case t.DateType():
            return dice.randrange(20_000)
        case t.TimeType():
            return dice.randrange(86_400_000) * 1_000_000
        case t.TimestampType() | t.TimestampLtzType():
            return (1_700_000_000_000 + dice.randrange(10**9)) * 1000
        case t.ArrayType():
            return [sample(type_.element, dice) for _ in range(3)]
        case t.MapType():
            return [(f"k{i}", sample(type_.value, dice)) for i in range(2)]
        case t.RowType():
            return {f.name: sample(f.type, dice) for f in type_.fields}
    raise TypeError(type_)


def orders(
    rows: int, dice: random.Random, **change: Callable[[dict[str, object]], object]
) -> pa.Array:
    documents = []
    for i in range(rows):
        stamp = f"2024-01-{dice.randrange(1, 28):02d} 12:{dice.randrange(60):02d}:17.{dice.randrange(1000):03d}"
        order: dict[str, object] = {
            "user_id": dice.randrange(200_000),
            "item": f"item-{dice.randrange(10_000)}",
            "amount": round(dice.random() * 1000, 2),
            "ts": stamp,
            "region": f"region-{dice.randrange(20)}",
            "n": i,
        }
        order.update({name: make(order) for name, make in change.items()})
        documents.append(orjson.dumps(order))
    return pa.array(documents, pa.binary())


def main(rows: int) -> None:
    dice = random.Random(7)
    plain = orders(rows, dice)
    wanted = [f.name for f in ORDERS if f.name != "n"]
    size = plain.nbytes // rows
    plain_decoder = json.decoder(ORDERS, {}, wanted)
    show(
        f"decode {size}-byte documents, 5 of 6 fields",
        best(rows, lambda: plain_decoder.decode(plain)),
    )
    for many in (1, 2):
        some = json.decoder(ORDERS, {}, wanted[:many])
        show(f"  {many} of 6 fields", best(rows, lambda some=some: some.decode(plain)))
    cases = {
        "  one document in 1,000 is broken": (
            pa.array(
                [d[:-3] if i % 1000 == 500 else d for i, d in enumerate(plain.to_pylist())],
                pa.binary(),
            ),
            {"ignore-parse-errors": True},
        ),
        "  one amount in 100 is text, one region a number": (
            orders(
                rows,
                dice,
                amount=lambda o: str(o["amount"]) if dice.random() < 0.01 else o["amount"],
                region=lambda o: 1.5 if dice.random() < 0.01 else o["region"],
            ),
            {},
        ),
        "  every amount is text": (orders(rows, dice, amount=lambda o: str(o["amount"])), {}),
        "  every region is a fraction (all parsed exactly)": (
            orders(rows, dice, region=lambda o: o["amount"]),
            {},
        ),
    }
    for name, (values, options) in cases.items():
        other = json.decoder(ORDERS, options, wanted)
        show(name, best(rows, lambda other=other, values=values: other.decode(values), 3))
    columns = plain_decoder.decode(plain).columns
    plain_encoder = json.encoder([f for f in ORDERS if f.name in wanted], {})
    show("encode the same 5 fields", best(rows, lambda: plain_encoder.encode(columns)))
    for type_ in TYPES:
        fields = [t.Field("f", type_)]
        column = pa.array([sample(type_, dice) for _ in range(rows)], arrow_type(type_))
        writer, reader = json.encoder(fields, {}), json.decoder(fields, {})
        values = writer.encode([column])
        show(
            f"encode {type_}",
            best(rows, lambda writer=writer, column=column: writer.encode([column])),
        )
        show(
            f"decode {type_}",
            best(rows, lambda reader=reader, values=values: reader.decode(values)),
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)

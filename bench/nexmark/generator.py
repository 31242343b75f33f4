"""Events of an auction house, as Nexmark has them: persons, auctions and bids in one stream, the same in every run.

In: how many, how many to a second of event time, and a seed. Out: JSON documents of 335 bytes on average, each with the
number of its partition's turn. Standard library only, so that tests can make the same events. Laws:

- Event n is at START + n / density, to the millisecond. Of 50 events the first is a person, the next three are
  auctions, the rest are bids, by n modulo 50.
- Ids begin at 1000. A bid is on one of the last 100 auctions or of the next 10, half of them on the hot one, the first
  of the current hundred. Its bidder is one of the last 1000 persons or of the next 10; three in four are the hot one,
  the second of the current hundred. The seller of three auctions in four is the first of the current hundred.
- Half of the bids come by one of four channels, the others by one of 10,000, of which nine in ten tell their number in
  the URL. Prices are spread evenly over their logarithm, from 100 to 100,000,000.
- Nothing depends on how partitions are read: no auction has two bids of the same price, and all events of a millisecond
  are in one partition, in their order. So no tie is left open: of the bids of one bidder on one auction in the same
  millisecond the last one is the last, and who pays most is one.

The published generator adds its first id twice to a bidder, so that bidders are persons who come 50,000 events later.
Here a bidder is a person who is there, or about to come.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

START = datetime(2024, 1, 1)
DENSITY = 100_000
SEED = 42

CYCLE = 50
AUCTIONS = 3
"""Of the 50 events of a cycle, after the one person."""
FIRST = 1000
BLOCK = 100
"""The hot auction, seller and bidder are those of the current block of ids."""
IN_FLIGHT, ACTIVE, AHEAD = 100, 1000, 10

FIRST_NAMES = tuple(
    ["Anna", "Bodo", "Carla", "David", "Emma", "Felix", "Greta", "Hugo", "Ida", "Jonas", "Klara"]
)
LAST_NAMES = tuple(
    ["Adler", "Berger", "Conrad", "Dietz", "Ebert", "Fuchs", "Graf", "Huber", "Iwan"]
)
CITIES = (
    *(("Phoenix", "AZ"), ("San Francisco", "CA"), ("Los Angeles", "CA"), ("Boise", "ID")),
    *(("Portland", "OR"), ("Bend", "OR"), ("Kent", "WA"), ("Seattle", "WA"), ("Cheyenne", "WY")),
)
"""Five of nine in Oregon, Idaho and California."""
CATEGORIES = (10, 11, 12, 13, 14)
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
CHANNELS = 10_000

PERSON = (
    b'{"event_type":0,"person":{"id":%d,"name":"%s","emailAddress":"%s","creditCard":"%s",'
    b'"city":"%s","state":"%s","dateTime":"%s","extra":"%s"},"auction":null,"bid":null}'
)
AUCTION = (
    b'{"event_type":1,"person":null,"auction":{"id":%d,"itemName":"%s","description":"%s",'
    b'"initialBid":%d,"reserve":%d,"dateTime":"%s","expires":"%s","seller":%d,"category":%d,'
    b'"extra":"%s"},"bid":null}'
)
BID = (
    b'{"event_type":2,"person":null,"auction":null,"bid":{"auction":%d,"bidder":%d,"price":%d,'
    b'"channel":"%s","url":"%s","dateTime":"%s","extra":"%s"}}'
)

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_POOL = 1 << 16


def events(rows: int, density: float = DENSITY, seed: int = SEED) -> Iterator[tuple[int, bytes]]:
    """Pairs of a turn and a document. Turns are the milliseconds with events: partition = turn modulo partitions."""
    draw = random.Random(seed).random
    pool = bytes(ord(_LETTERS[int(draw() * 26)]) for _ in range(_POOL + 1024))
    hot_channels = [_channel(draw, name, None) for name in HOT_CHANNELS]
    channels = [_channel(draw, f"channel-{i}", i) for i in range(CHANNELS)]
    # The prices that a running auction has had, by the last digits of its id.
    taken: list[set[int]] = [set() for _ in range(256)]
    # So long do 100 more auctions take to come.
    horizon = IN_FLIGHT * CYCLE // AUCTIONS * 1000 / density
    persons, auctions = 0, 0
    turn, last, moment = -1, -1, b""
    for n in range(rows):
        ms = int(n * 1000 / density)
        if ms != last:
            turn, last, moment = turn + 1, ms, _text(ms)
        place = n % CYCLE
        if place > AUCTIONS:
            if draw() < 0.5:
                auction = (auctions - 1) // BLOCK * BLOCK
            else:
                low = max(0, auctions - IN_FLIGHT)
                auction = low + int(draw() * (auctions - low + AHEAD))
            if draw() < 0.75:
                bidder = (persons - 1) // BLOCK * BLOCK + 1
            else:
                low = max(0, persons - ACTIVE)
                bidder = low + int(draw() * (persons - low + AHEAD))
            price = round(100 * 10 ** (6 * draw()))
            had = taken[auction & 255]
            while price in had:
                price += 1
            had.add(price)
            u = draw()
            channel, url = hot_channels[int(u * 8)] if u < 0.5 else channels[int(u * 2e4) - 10_000]
            u = draw()
            at = int(u * _POOL)
            extra = pool[at : at + 48 + int(u * 977) % 41]
            yield turn, BID % (FIRST + auction, FIRST + bidder, price, channel, url, moment, extra)
        elif place:
            seller = (persons - 1) // BLOCK * BLOCK
            if draw() >= 0.75:
                low = max(0, persons - ACTIVE)
                seller = low + int(draw() * (persons - low + AHEAD))
            price = round(100 * 10 ** (6 * draw()))
            at = int(draw() * _POOL)
            expires = _text(ms + 1 + int(draw() * 2 * horizon))
            yield (
                turn,
                AUCTION
                % (
                    FIRST + auctions,
                    pool[at : at + 5 + at % 15],
                    pool[at + 20 : at + 50 + at % 61],
                    price,
                    price + round(100 * 10 ** (6 * draw())),
                    moment,
                    expires,
                    FIRST + seller,
                    CATEGORIES[int(draw() * 5)],
                    pool[at + 120 : at + 442 + at % 121],
                ),
            )
            auctions += 1
            taken[(auctions + AHEAD) & 255].clear()
        else:
            at = int(draw() * _POOL)
            first = FIRST_NAMES[int(draw() * len(FIRST_NAMES))]
            family = LAST_NAMES[int(draw() * len(LAST_NAMES))]
            city, state = CITIES[int(draw() * len(CITIES))]
            card = b"%04d %04d %04d %04d" % tuple(int(draw() * 10_000) for _ in range(4))
            yield (
                turn,
                PERSON
                % (
                    FIRST + persons,
                    f"{first} {family}".encode(),
                    b"%s@%s.example" % (pool[at : at + 7], pool[at + 7 : at + 12]),
                    card,
                    city.encode(),
                    state.encode(),
                    moment,
                    pool[at + 12 : at + 113 + at % 61],
                ),
            )
            persons += 1


def side_input(directory: Path) -> None:
    """The 10,000 lines that q13 looks words up in."""
    lines = "".join(f"{i},word {i}\n" for i in range(10_000))
    (directory / "side_input.csv").write_text(lines, encoding="utf-8")


def _channel(draw: Callable[[], float], name: str, number: int | None) -> tuple[bytes, bytes]:
    parts = ["".join(_LETTERS[int(draw() * 26)] for _ in range(5)) for _ in range(3)]
    url = f"https://auctions.example/{'/'.join(parts)}/item.htm?query=1"
    if number is not None and draw() < 0.9:
        url += f"&channel_id={number * 7919 % 1_000_003}"
    return name.encode(), url.encode()


def _text(ms: int) -> bytes:
    # Flink writes and reads a fraction of any length; three digits are always there, as in the published documents.
    moment = START + timedelta(milliseconds=ms)
    return b"%s.%03d" % (moment.strftime("%Y-%m-%d %H:%M:%S").encode(), ms % 1000)

"""When a job whose broker was away is tried again, and when it is given up. No Spark, no broker: a clock and a list."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from tidemill.spark.restarts import Recovery, Restarts, answers, host_and_port, silence


@dataclass
class Outage:
    """A broker that is away from the start, a clock that stands still, and what is said meanwhile."""

    restarts: Restarts
    now: float = 0.0
    is_back: bool = False
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.recovery = Recovery(
            self.restarts,
            ["broker:1"],
            self.said.append,
            clock=lambda: self.now,
            answers=lambda servers: self.is_back,
        )

    def pass_seconds(self, seconds: int) -> bool:
        """Look every second; whether the job was started."""
        for _ in range(seconds):
            self.now += 1
            if self.recovery.is_due():
                return True
        return False


def test_a_broker_that_comes_back_in_time_is_waited_for() -> None:
    outage = Outage(Restarts(timedelta(minutes=10)))
    assert outage.recovery.fail(batch=7)
    assert not outage.pass_seconds(300)
    assert outage.recovery.is_waiting
    assert len(outage.said) == 5
    assert outage.said[0].startswith(
        "no broker answers at broker:1; the job waits for it, at most 59"
    )
    outage.is_back = True
    assert outage.pass_seconds(10)
    assert not outage.recovery.is_waiting


def test_patience_ends() -> None:
    outage = Outage(Restarts(timedelta(seconds=30)))
    assert outage.recovery.fail(batch=7)
    assert not outage.pass_seconds(60)
    assert not outage.recovery.is_waiting


def test_no_patience_no_restart() -> None:
    assert not Outage(Restarts(timedelta(0))).recovery.fail(batch=7)


def test_a_batch_in_between_begins_a_new_outage() -> None:
    outage = Outage(Restarts(timedelta(seconds=30)), is_back=True)
    for batch in range(20):
        assert outage.recovery.fail(batch)
        assert outage.pass_seconds(20)


def test_a_job_that_fails_although_its_broker_answers_is_given_up() -> None:
    outage = Outage(Restarts(), is_back=True)
    tries = 0
    while outage.recovery.fail(batch=7):
        assert outage.pass_seconds(20)
        tries += 1
    assert tries == 2


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, Restarts()),
        ({"restart-strategy.type": "none"}, Restarts(timedelta(0))),
        ({"restart-strategy.type": "DISABLE"}, Restarts(timedelta(0))),
        (
            {"restart-strategy.type": "fixed-delay"},
            Restarts(attempts=1),
        ),
        (
            {
                "restart-strategy.type": "fixed-delay",
                "restart-strategy.fixed-delay.attempts": 3,
                "restart-strategy.fixed-delay.delay": timedelta(seconds=20),
            },
            Restarts(attempts=3, delay=timedelta(seconds=20), most_delay=timedelta(seconds=20)),
        ),
        (
            {
                "restart-strategy.type": "exponential-delay",
                "restart-strategy.exponential-delay.initial-backoff": timedelta(seconds=2),
                "restart-strategy.exponential-delay.max-backoff": timedelta(seconds=40),
            },
            Restarts(delay=timedelta(seconds=2), most_delay=timedelta(seconds=40)),
        ),
    ],
)
def test_flinks_strategies_are_understood(settings: dict[str, object], expected: Restarts) -> None:
    assert Restarts.of(settings, None) == expected
    given = Restarts.of(settings, timedelta(minutes=1))
    assert (given.patience, given.attempts) == (timedelta(minutes=1), None)


def test_the_delay_doubles_up_to_its_limit() -> None:
    restarts = Restarts(delay=timedelta(seconds=1), most_delay=timedelta(seconds=6))
    assert [restarts.wait(n) for n in range(5)] == [1, 2, 4, 6, 6]


# -- knocking --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("broker:9092", ("broker", 9092)),
        ("PLAINTEXT://broker:9092", ("broker", 9092)),
        ("[::1]:9092", ("::1", 9092)),
        ("SASL_SSL://[fe80::1%eth0]:9092", ("fe80::1%eth0", 9092)),
    ],
)
def test_addresses_are_those_of_the_java_client(address: str, expected: tuple[str, int]) -> None:
    assert host_and_port(address) == expected


@pytest.mark.parametrize(
    "form", ["127.0.0.1:{}", "PLAINTEXT://127.0.0.1:{}", "nowhere, 127.0.0.1:{}"]
)
def test_whoever_listens_answers(form: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        assert answers(form.format(listening.getsockname()[1]))


def test_silence_has_a_reason_for_every_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    assert silence(f"broker, 127.0.0.1:{port}", 1) == [
        "broker: not of the form HOST:PORT",
        f"127.0.0.1:{port}: Connection refused",
    ]

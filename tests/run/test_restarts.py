"""When a job whose broker was away is tried again, and when it is given up. No Spark, no broker: a clock and a list."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from datetime import timedelta

import click
import pytest

from tidemill.cli import cli
from tidemill.cli.run import run
from tidemill.errors import UsageError
from tidemill.spark.restarts import Recovery, Restarts, answers, host_and_port, silence
from tidemill.tables.settings import resolve


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
    assert outage.recovery.fail(has_worked=True)
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
    assert outage.recovery.fail(has_worked=True)
    assert not outage.pass_seconds(60)
    assert not outage.recovery.is_waiting


def test_no_patience_no_restart() -> None:
    assert not Outage(Restarts(timedelta(0))).recovery.fail(has_worked=True)


def test_work_in_between_begins_a_new_outage() -> None:
    """Also where it was to find nothing to do: an idle topic has outages, too."""
    outage = Outage(Restarts(timedelta(seconds=30)), is_back=True)
    for _ in range(20):
        assert outage.recovery.fail(has_worked=True)
        assert outage.pass_seconds(20)


def test_a_start_in_vain_does_not_begin_a_new_outage() -> None:
    outage = Outage(Restarts(timedelta(seconds=30)), is_back=True)
    assert outage.recovery.fail(has_worked=True)
    assert outage.pass_seconds(10)
    outage.now += 30
    assert not outage.recovery.fail(has_worked=False)


def test_a_job_that_fails_although_somebody_answers_is_tried_while_there_is_patience() -> None:
    """A load balancer answers for brokers that are away, and one server of several for the others."""
    outage = Outage(Restarts(timedelta(minutes=10)), is_back=True)
    while outage.recovery.fail(has_worked=False):
        outage.recovery.tell("failed", "it fails")
        assert outage.pass_seconds(20)
    assert 600 <= outage.now < 610
    assert len(outage.said) == 10


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, Restarts()),
        ({"restart-strategy.type": "none"}, Restarts(timedelta(0))),
        ({"restart-strategy.type": "off"}, Restarts(timedelta(0))),
        ({"restart-strategy.type": "DISABLE"}, Restarts(timedelta(0))),
        ({"restart-strategy": "none"}, Restarts(timedelta(0))),
        (
            {"restart-strategy.type": "fixed-delay"},
            Restarts(None, attempts=1),
        ),
        (
            {
                "restart-strategy": "fixed-delay",
                "restart-strategy.fixed-delay.attempts": "1000",
                "restart-strategy.fixed-delay.delay": "1 min",
            },
            Restarts(
                None,
                attempts=1000,
                delay=timedelta(minutes=1),
                most_delay=timedelta(minutes=1),
            ),
        ),
        (
            {"restart-strategy.type": "failure-rate"},
            Restarts(None, attempts=1),
        ),
        (
            {
                "restart-strategy.type": "failure-rate",
                "restart-strategy.failure-rate.max-failures-per-interval": "5",
                "restart-strategy.failure-rate.delay": "20 s",
            },
            Restarts(
                None,
                attempts=5,
                delay=timedelta(seconds=20),
                most_delay=timedelta(seconds=20),
            ),
        ),
        (
            {
                "restart-strategy.type": "exponential-delay",
                "restart-strategy.exponential-delay.initial-backoff": "2 s",
                "restart-strategy.exponential-delay.max-backoff": "40 s",
            },
            Restarts(None, delay=timedelta(seconds=2), most_delay=timedelta(seconds=40)),
        ),
    ],
)
def test_flinks_strategies_are_understood(settings: dict[str, str], expected: Restarts) -> None:
    resolved = [resolve(key, value) for key, value in settings.items()]
    meant = {r.key: r.value for r in resolved}
    assert Restarts.of(meant, None) == expected
    given = Restarts.of(meant, timedelta(minutes=1))
    assert (given.patience, given.attempts) == (timedelta(minutes=1), None)


@pytest.mark.parametrize(
    ("strategy", "gives_up_after"),
    [
        (Restarts(None, 1000, timedelta(minutes=1), timedelta(minutes=1)), 60_000),
        (Restarts(None), None),
    ],
)
def test_a_strategy_ends_by_its_attempts_alone(
    strategy: Restarts, gives_up_after: int | None
) -> None:
    outage = Outage(strategy)
    assert outage.recovery.fail(has_worked=True)
    while outage.recovery.is_waiting and outage.now < 100_000:
        assert not outage.pass_seconds(1)
    assert outage.now == (gives_up_after or 100_000)
    assert outage.said[0] == "no broker answers at broker:1; the job waits for it"


def test_the_delay_doubles_up_to_its_limit() -> None:
    restarts = Restarts(delay=timedelta(seconds=1), most_delay=timedelta(seconds=6))
    assert [restarts.wait(n) for n in range(5)] == [1, 2, 4, 6, 6]


# -- the command line ------------------------------------------------------------------------------


def restart_for(*arguments: str) -> timedelta | None:
    """What `tidemill run` makes of its arguments."""
    tidemill = click.Context(cli, **cli.context_settings)
    with run.make_context("run", ["job.sql", *arguments], tidemill) as context:
        found: timedelta | None = context.params["restart_for"]
    return found


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], Restarts()),
        (["--restart-for", "90 s"], Restarts(timedelta(seconds=90))),
        (["--restart-for", "PT1H"], Restarts(timedelta(hours=1))),
        (["--restart-for", "1500"], Restarts(timedelta(seconds=1.5))),
        (["--restart-for", "0s"], Restarts(timedelta(0))),
    ],
)
def test_the_command_line_says_how_long(given: list[str], expected: Restarts) -> None:
    assert Restarts.of({}, restart_for(*given)) == expected


@pytest.mark.parametrize("bad", ["soon", "5 fortnights", "-1 s", ""])
def test_the_command_line_refuses_what_is_no_duration(bad: str) -> None:
    with pytest.raises(UsageError) as refused:
        restart_for("--restart-for", bad)
    (found,) = refused.value.diagnostics
    assert found.code == "CLI-002"
    assert found.message.startswith("--restart-for: ")


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

"""Restarts: what becomes of a job whose broker goes away.

In: how often and how long a job may be started again (`--restart-for`, Flink's `restart-strategy.*`), and its failures.
Out: when to try again, or that it is over. Law: only what passes by itself is tried again; a mistake fails at once.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

DEFAULT_PATIENCE = timedelta(minutes=10)
_KNOCK_SECONDS = 2.0
_SAY_SECONDS = 60.0
# The Java client's own (Utils.HOST_PORT_PATTERN): a protocol in front and brackets of IPv6 are no part of the host.
_ADDRESS = re.compile(r".*?\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)")


@dataclass(frozen=True)
class Restarts:
    """How a job is started again."""

    patience: timedelta | None = DEFAULT_PATIENCE
    """For how long after its work was broken off; zero: never; None: without end."""
    attempts: int | None = None
    """How often at most; None: as often as there is time for."""
    delay: timedelta = timedelta(seconds=1)
    most_delay: timedelta = timedelta(seconds=10)
    """The delay doubles until it is this."""

    @classmethod
    def of(cls, settings: Mapping[str, object], patience: timedelta | None) -> Restarts:
        """Flink's settings, which know no patience; one that somebody has given beats what they say of attempts."""
        kind = str(settings.get("restart-strategy.type") or "").lower()
        chosen = cls()
        if kind in ("none", "off", "disable"):
            chosen = cls(timedelta(0))
        elif kind in _STRATEGIES:
            attempts, delay, most_delay = (
                settings.get(key) if key else None for key in _STRATEGIES[kind]
            )
            chosen = replace(
                chosen,
                patience=None,
                attempts=attempts if isinstance(attempts, int) else _ATTEMPTS.get(kind),
                delay=delay if isinstance(delay, timedelta) else chosen.delay,
            )
            most = most_delay if isinstance(most_delay, timedelta) else chosen.most_delay
            chosen = replace(chosen, most_delay=max(most, chosen.delay))
        return chosen if patience is None else replace(chosen, patience=patience, attempts=None)

    def wait(self, attempt: int) -> float:
        """Seconds before the next try, after so many in vain."""
        doubled = self.delay.total_seconds() * 2.0 ** min(attempt, 30)
        return min(doubled, self.most_delay.total_seconds())


# Flink's strategies: the keys of how often, after what delay, and after what delay at most.
_STRATEGIES: Mapping[str, tuple[str | None, str, str | None]] = {
    "fixed-delay": (
        "restart-strategy.fixed-delay.attempts",
        "restart-strategy.fixed-delay.delay",
        "restart-strategy.fixed-delay.delay",
    ),
    "failure-rate": (
        "restart-strategy.failure-rate.max-failures-per-interval",
        "restart-strategy.failure-rate.delay",
        "restart-strategy.failure-rate.delay",
    ),
    "exponential-delay": (
        None,
        "restart-strategy.exponential-delay.initial-backoff",
        "restart-strategy.exponential-delay.max-backoff",
    ),
}
_ATTEMPTS: Mapping[str, int] = {"fixed-delay": 1, "failure-rate": 1}


@dataclass
class Recovery:
    """One job's way through its failures."""

    restarts: Restarts
    servers: Sequence[str]
    """`bootstrap.servers` of all its tables."""
    say: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    answers: Callable[[str], bool] = field(default=lambda servers: answers(servers))
    _since: float | None = None
    _tries: int = 0
    _due: float | None = None
    _said: dict[str, float] = field(default_factory=dict)

    @property
    def is_waiting(self) -> bool:
        return self._due is not None

    def fail(self, has_worked: bool) -> bool:
        """The job has failed, in a way that may pass. Whether it is to be tried again.

        `has_worked`: since it was started it has done a batch, or asked its sources and found nothing to do. Then what
        was before is over, and this is another outage.
        """
        now = self.clock()
        if self._since is None or has_worked:
            self._since, self._tries = now, 0
            self._said.clear()
        return self._plan(now, self._since)

    def is_due(self) -> bool:
        """Whether to start the job now. Asks the brokers when it is time to, and gives up when it is too late."""
        now = self.clock()
        if self._since is None or self._due is None or now < self._due:
            return False
        absent = [s for s in self.servers if not self.answers(s)]
        if not absent:
            self._due = None
            self._tries += 1
            return True
        waiting = f"no broker answers at {', '.join(absent)}; the job waits for it"
        if self.restarts.patience is not None:
            left = self._since + self.restarts.patience.total_seconds() - now
            waiting += f", at most {left:.0f} s more"
        self.tell("absent", waiting)
        self._tries += 1
        self._plan(now, self._since)
        return False

    def tell(self, matter: str, text: str) -> None:
        """Say it, unless something was said of the same matter in this outage within the last minute."""
        now = self.clock()
        said = self._said.get(matter)
        if said is None or now - said >= _SAY_SECONDS:
            self._said[matter] = now
            self.say(text)

    def _plan(self, now: float, since: float) -> bool:
        patience, limit = self.restarts.patience, self.restarts.attempts
        is_late = patience is not None and now - since >= patience.total_seconds()
        is_over = is_late or (limit is not None and self._tries >= limit)
        self._due = None if is_over else now + self.restarts.wait(self._tries)
        return not is_over


def answers(servers: str) -> bool:
    """Whether anybody listens at one of the addresses."""
    return not silence(servers, _KNOCK_SECONDS)


def silence(servers: str, seconds: float) -> list[str]:
    """Why nobody answers at any of some addresses, as `bootstrap.servers` lists them; nothing, if somebody does."""
    reasons = []
    for address in map(str.strip, servers.split(",")):
        try:
            with socket.create_connection(host_and_port(address), seconds):
                return []
        except (ValueError, OverflowError):
            reasons.append(f"{address}: not of the form HOST:PORT")
        except OSError as error:
            reasons.append(f"{address}: {error.strerror or error}")
    return reasons


def host_and_port(address: str) -> tuple[str, int]:
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise ValueError(address)
    return found[1], int(found[2])

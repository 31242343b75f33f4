"""A real Apache Kafka for development and tests: KRaft, one node, loopback only.

In: a data directory and a port. Out: a running broker, in a process of its own, that clients
reach at `Broker.bootstrap`. A real broker and not a fake, because transactions, compaction,
consumer groups and timestamps are what our users' scripts are about.

    DATA/version             the Kafka that wrote the data; says that the directory is ours
    DATA/broker.lock         locked by the broker process for as long as it lives
    DATA/broker.json         pid, port and start time of that process
    DATA/broker.log          the broker's log; DATA/server.properties its configuration
    DATA/kafka/              Kafka's own files
    DATA/security/           of a secured broker, see `security`

Law: whether a broker lives is asked of the lock and of nothing else. The kernel drops it with
the process, so a killed broker leaves no stale state and a reused pid is never taken for ours.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tidemill.broker import security as securities
from tidemill.broker.clients import speaks_kafka, write_properties
from tidemill.broker.jars import fetch
from tidemill.broker.java import find_java
from tidemill.broker.security import HOST, Secured, Security, write_secret
from tidemill.errors import JobError, job_error, usage_error

LOCK = Path(__file__).with_name("kafka.lock")
KAFKA_VERSION = "4.3.1"
DEFAULT_PORT = 9092

_START_SECONDS = 60
_STOP_SECONDS = 30

# Heap of a broker with a handful of topics, a collector without threads of its own, and only the
# quick compiler: it halves the cost of a start, and Kafka mostly waits for files and sockets.
_JVM = (
    "-Xmx512m",
    "-Xms64m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Djava.awt.headless=true",
    f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}",
)

_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    # Kafka's internal topics want three brokers unless told otherwise, and fifty partitions that
    # cost files and start-up time for nothing.
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # Records with old timestamps are usual in tests and must not vanish.
    "log.retention.ms": "-1",
    # A broker that was killed is let in again only when its old session has ended.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    # What a killed job leaves open holds readers up until its time is over and the broker looks: every ten seconds
    # unless told otherwise.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    # Kafka's 128 MB would be a quarter of the heap.
    "log.cleaner.dedupe.buffer.size": str(16 << 20),
}

# Brokers that this process started, by pid, each with its leash if it has one.
_CHILDREN: dict[int, list[subprocess.Popen[bytes]]] = {}


def default_data() -> Path:
    """TIDEMILL_HOME/broker, else the user's data directory, then `tidemill/broker`."""
    home = os.environ.get("TIDEMILL_HOME")
    if home:
        return Path(home).expanduser() / "broker"
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser() / "tidemill" / "broker"


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker that was running when this value was made."""

    data: Path
    port: int
    pid: int
    started: datetime

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def log(self) -> Path:
        return self.data / "broker.log"

    @property
    def secured(self) -> Secured | None:
        """By what it is secured; None: everyone on this machine may come in."""
        return securities.find(self.data)

    @property
    def client(self) -> dict[str, str]:
        """The properties of a user's client, `bootstrap.servers` among them; passwords are references to files."""
        secured = self.secured
        own = {"bootstrap.servers": self.bootstrap}
        return own if secured is None else secured.local_client(self.bootstrap)

    @property
    def admin(self) -> dict[str, str]:
        """The properties of a client that may do everything, `bootstrap.servers` among them."""
        secured = self.secured
        return {"bootstrap.servers": self.bootstrap} if secured is None else secured.admin()

    def is_running(self) -> bool:
        found = find_running(self.data)
        return found is not None and found.pid == self.pid

    def stop(self, timeout_seconds: float = _STOP_SECONDS) -> None:
        """Stop cleanly and return when the process is gone; a broker already gone is fine."""
        if self.is_running():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)
        deadline = time.monotonic() + timeout_seconds
        while self.is_running():
            if time.monotonic() > deadline:
                message = f"the broker (process {self.pid}) did not stop in {timeout_seconds:g} s"
                raise job_error("BRK-006", message, f"look into {self.log}, or kill the process")
            time.sleep(0.02)
        _reap(self.pid)

    def wait(self) -> None:
        """Return when the broker has ended, whoever stopped it."""
        while self.is_running():
            time.sleep(0.2)
        _reap(self.pid)


@dataclass(frozen=True, slots=True)
class Status:
    """What a data directory holds."""

    data: Path
    exists: bool
    broker: Broker | None


def status(data: Path | None = None) -> Status:
    place = _absolute(data)
    return Status(place, (place / "version").is_file(), find_running(place))


def find_running(data: Path | None = None) -> Broker | None:
    """The broker that runs on this data directory, if one does."""
    place = _absolute(data)
    if not _is_locked(place):
        return None
    try:
        state = json.loads((place / "broker.json").read_text(encoding="utf-8"))
        started = datetime.fromisoformat(state["started"])
        return Broker(place, int(state["port"]), int(state["pid"]), started)
    except (OSError, ValueError, KeyError, TypeError):
        return None  # locked by one that is only starting


def start(
    data: Path | None = None,
    port: int | None = None,
    detach: bool = False,
    note: Callable[[str], None] | None = None,
    settings: Mapping[str, str] | None = None,
    security: Security | None = None,
) -> Broker:
    """Start a broker and return when it answers.

    port: a number that must be free, 0 for any free one, None for 9092 or, if taken, any free one.
    detach: the broker outlives this process; otherwise it is stopped when this process ends, in
    whatever way.  note: is told what takes long (the fetching of jars).  settings: Kafka's own,
    over ours.  security: who may come in, of a new data directory; one that is there stays as it is.
    """
    place = _absolute(data)
    settings = dict(settings or {})
    _choose_port(port)
    is_new = not _is_formatted(place)
    securities.check(place, security, is_new)
    _claim(place)
    java = find_java()
    classpath = os.pathsep.join(str(path) for path in fetch(LOCK, note))
    with _locked(place) as lock:
        (place / "broker.json").unlink(missing_ok=True)
        is_new = not _is_formatted(place)
        if is_new and security is not None and note is not None:
            note(f"making keys and users in {place / 'security'}")
        secured = securities.prepare(place, security, is_new)
        if is_new:
            _format(place, java, classpath, settings, secured)
        (place / "version").write_text(f"{KAFKA_VERSION}\n", encoding="utf-8")
        for attempts_left in (2, 1, 0):
            chosen = _choose_port(port)
            try:
                return _launch(place, java, classpath, settings, secured, chosen, detach, lock)
            except JobError as problem:
                # A free port can be lost to another program before Kafka opens it.
                if not attempts_left or "Address already in use" not in str(problem):
                    raise
        raise AssertionError("the last attempt returns or raises")


def _absolute(data: Path | None) -> Path:
    return Path(os.path.abspath((data or default_data()).expanduser()))


# --- the data directory -------------------------------------------------------------------------


def _claim(place: Path) -> None:
    """Make the directory ours, or say why it cannot be."""
    other = "choose another one with --data DIR"
    marker = place / "version"
    try:
        place.mkdir(parents=True, exist_ok=True)
        if not marker.is_file():
            if any(place.iterdir()):
                message = f"'{place}' is not empty and not the data of an embedded broker"
                raise usage_error("BRK-003", message, other)
            marker.write_text(f"{KAFKA_VERSION}\n", encoding="utf-8")
        written_by = marker.read_text(encoding="utf-8").strip()
    except OSError as problem:
        message = f"the data directory '{place}' cannot be used: {problem.strerror or problem}"
        raise usage_error("BRK-002", message, other) from problem
    # A newer Kafka reads the files of an older one; the other way round it may damage them.
    if _numbers(written_by) > _numbers(KAFKA_VERSION):
        message = (
            f"the data in '{place}' was written by Kafka {written_by}, "
            f"newer than the embedded Kafka {KAFKA_VERSION}"
        )
        raise usage_error("BRK-004", message, f"{other}, or delete it if its topics are not needed")


def _is_formatted(place: Path) -> bool:
    return (place / "kafka" / "meta.properties").is_file()


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in version.split(".") if n.isdigit())


@contextlib.contextmanager
def _locked(place: Path) -> Iterator[int]:
    """The lock as a file descriptor; a process that inherits it keeps it locked."""
    descriptor = os.open(place / "broker.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        # Tried for a moment: one who only asks whether a broker lives holds it for an instant.
        deadline = time.monotonic() + 0.5
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise _in_use(place) from None
                time.sleep(0.02)
        yield descriptor
    finally:
        os.close(descriptor)


def _in_use(place: Path) -> JobError:
    running = find_running(place)
    if running is None:
        message = f"another broker is just starting on '{place}'"
        return job_error("BRK-005", message, "look again with: tidemill broker status")
    message = f"a broker already runs on '{place}', at {running.bootstrap} (process {running.pid})"
    hint = "use that one, stop it with `tidemill broker stop`, or choose another --data DIR"
    return job_error("BRK-005", message, hint)


def _is_locked(place: Path) -> bool:
    try:
        descriptor = os.open(place / "broker.lock", os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


# --- the port -----------------------------------------------------------------------------------


def _choose_port(port: int | None) -> int:
    if port is None:
        return DEFAULT_PORT if _is_free(DEFAULT_PORT) else _free_port()
    if port == 0:
        return _free_port()
    if not 0 < port < 65536:
        raise usage_error("BRK-001", f"{port} is not a port number", "ports are 1 to 65535")
    if not _is_free(port):
        message = f"port {port} of {HOST} is taken by another program"
        hint = "choose another with --port N, or let any free one be taken with --port 0"
        raise job_error("BRK-001", message, hint)
    return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As Java listens: connections of an earlier broker that linger do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except PermissionError as problem:
            message = f"port {port} may not be opened: {problem.strerror}"
            raise usage_error("BRK-001", message, "choose a --port above 1023") from problem
        except OSError:
            return False
        return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


# --- the process --------------------------------------------------------------------------------


def _format(
    place: Path,
    java: Path,
    classpath: str,
    settings: Mapping[str, str],
    secured: Secured | None,
) -> None:
    """Let Kafka write its first files, beside their place, so that half of them never counts."""
    fresh = place / "kafka.new"
    shutil.rmtree(fresh, ignore_errors=True)
    _write_settings(place, settings, secured, fresh.name, (1, 2, 3))
    # The tool takes an id that begins with a dash for an option; with this bit off none does.
    identity = (uuid.uuid4().int & ~(1 << 127)).to_bytes(16, "big")
    cluster = base64.urlsafe_b64encode(identity).decode().rstrip("=")
    program = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", "server.properties"]
    begin = _log_size(place)
    told = place / "format.arguments"
    if secured is not None and secured.format_arguments():
        # They hold passwords, which a command line would show to everyone; the tool reads them, one a line.
        write_secret(told, "\n".join(secured.format_arguments()) + "\n")
        program.append(f"@{told.name}")
    process = _spawn(place, [java, *_JVM, "-cp", classpath, *program])
    try:
        process.wait()
    finally:
        process.kill()
        process.wait()
        told.unlink(missing_ok=True)
    if process.returncode != 0:
        raise _failed(place, begin)
    fresh.rename(place / "kafka")


def _launch(
    place: Path,
    java: Path,
    classpath: str,
    settings: Mapping[str, str],
    secured: Secured | None,
    port: int,
    detach: bool,
    lock: int,
) -> Broker:
    internal_port = _free_port() if secured else port
    _write_settings(place, settings, secured, "kafka", (port, internal_port, _free_port()))
    begin = _log_size(place)
    options = secured.jvm_options() if secured else []
    command: list[str | Path] = [java, *_JVM, *options, "-cp", classpath]
    command += ["kafka.Kafka", "server.properties"]
    process = _spawn(place, command, pass_fds=(lock,))
    _CHILDREN[process.pid] = [process]
    try:
        if not detach:
            _CHILDREN[process.pid].append(_leash(process.pid))
        deadline = time.monotonic() + _START_SECONDS
        # A secured broker tells everyone its version at its own listener, which asks for a user only then.
        while process.poll() is None and not (speaks_kafka(HOST, internal_port) and _accepts(port)):
            if time.monotonic() > deadline:
                message = f"the broker did not answer at {HOST}:{port} in {_START_SECONDS} s"
                raise job_error("BRK-007", message, f"its log is {place / 'broker.log'}")
            time.sleep(0.02)
        if process.poll() is not None:
            raise _failed(place, begin)
        if secured is not None:
            secured.write_client_files(port, internal_port)
        started = datetime.now(UTC)
        state = {"pid": process.pid, "port": port, "started": started.isoformat()}
        fresh = place / "broker.json.new"
        fresh.write_text(json.dumps(state), encoding="utf-8")
        fresh.replace(place / "broker.json")
    except BaseException:
        process.kill()
        _reap(process.pid)
        raise
    return Broker(place, port, process.pid, started)


def _spawn(
    place: Path, command: list[str | Path], pass_fds: tuple[int, ...] = ()
) -> subprocess.Popen[bytes]:
    """Run Java in the data directory, all it says going to the log there."""
    with (place / "broker.log").open("ab") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=place,
            # Java takes the encoding of file names from the locale.
            env={**os.environ, "LC_ALL": "C.UTF-8"},
            # A session of its own: Ctrl-C in the terminal is for us, who then stop the broker.
            start_new_session=True,
            pass_fds=pass_fds,
        )


def _write_settings(
    place: Path,
    given: Mapping[str, str],
    secured: Secured | None,
    logs: str,
    ports: tuple[int, int, int],
) -> None:
    port, internal_port, controller_port = ports
    settings = dict(_SETTINGS)
    if secured is None:
        settings["listeners"] = f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}"
        settings["advertised.listeners"] = f"PLAINTEXT://{HOST}:{port}"
    else:
        settings |= secured.settings(port, internal_port, controller_port)
    settings |= given
    settings["controller.quorum.voters"] = f"1@{HOST}:{controller_port}"
    # Relative: Kafka would split the path at a comma and read it as Latin-1.
    settings["log.dirs"] = logs
    # A secured broker's has passwords.
    write_secret(place / "server.properties", write_properties(settings))


def _leash(pid: int) -> subprocess.Popen[bytes]:
    """A shell that stops the broker when our end of its pipe closes, even if we are killed."""
    return subprocess.Popen(
        ["/bin/sh", "-c", f"read _; kill {pid}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _reap(pid: int) -> None:
    """Collect a broker that has ended, and then its leash, which only now cannot be needed."""
    for child in _CHILDREN.pop(pid, []):
        if child.stdin is not None:
            child.kill()
            child.stdin.close()
        child.wait()


def _accepts(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=5).close()
    except OSError:
        return False
    return True


def _log_size(place: Path) -> int:
    log = place / "broker.log"
    return log.stat().st_size if log.exists() else 0


def _failed(place: Path, begin: int) -> JobError:
    """Why the broker ended, from what it logged after `begin`: the root of its last error."""
    log = place / "broker.log"
    said = log.read_bytes()
    text = said[begin if begin <= len(said) else 0 :].decode("utf-8", "replace")
    *_, last = re.split(r"^\S+ (?:ERROR|FATAL) ", text.strip(), flags=re.M)
    causes = re.findall(r"^(?:Caused by: )?[\w.$]+(?:Exception|Error): (.+)$", last, re.M)
    # Without an exception: the error's own line, or the last word of a program that only printed.
    lines = last.splitlines() or ["it said nothing"]
    reason = causes[-1] if causes else lines[-1 if last == text.strip() else 0]
    return job_error("BRK-007", f"the broker did not start: {reason}", f"its log is {log}")

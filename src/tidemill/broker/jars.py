"""Third-party jars, fetched by coordinates and held to their checksums.

In: a lock file, one `group:artifact:version[:classifier][@extension] sha256` a line. Out: the paths
of exactly these jars, from a cache that all projects of a user share. Law: no jar is handed out whose
SHA-256 is not the locked one, and a lock whose jars are cached needs neither network nor Java.

The fetching is done by the Ivy inside pyspark, so that pip and a JDK are all a user needs. Ivy
asks Maven Central, or whatever the user's own `ivysettings.xml` says.

    python -m tidemill.broker.jars fetch LOCK            print the paths
    python -m tidemill.broker.jars lock COORDINATE…      print the lock of all they depend on
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

from tidemill.broker.java import find_java, find_javac
from tidemill.errors import TidemillError, job_error, usage_error

__all__ = ["Jar", "cache_directory", "fetch", "find_java", "find_javac", "read_lock", "resolve"]

# Ivy prints a dot for every few kilobytes that arrive; a line this silent is dead.
_SILENCE_SECONDS = 120

_OFFLINE = (
    "no network|UnknownHost|Host .* not found|ConnectException|Connection refused|timed out"
    "|NoRouteToHost|Network is unreachable|SocketException|SSLHandshake|Server access error"
)


@dataclass(frozen=True, slots=True, order=True)
class Jar:
    """One locked jar, or what else has a coordinate (`@tar.gz`, as Gradle writes it).

    A checksum of None is known only to the one who writes the lock.
    """

    group: str
    artifact: str
    version: str
    classifier: str | None = None
    sha256: str | None = None
    extension: str = "jar"

    @classmethod
    def parse(cls, coordinate: str, sha256: str | None = None) -> Jar:
        names, at, extension = coordinate.partition("@")
        parts = names.split(":")
        words = [*parts, extension] if at else parts
        if not 3 <= len(parts) <= 4 or not all(re.fullmatch(r"[\w.+-]+", w) for w in words):
            message = f"'{coordinate}' is not a coordinate of the form group:artifact:version"
            raise usage_error("SETUP-007", message)
        group, artifact, version, *classifier = parts
        tail = classifier[0] if classifier else None
        return cls(group, artifact, version, tail, sha256, extension or "jar")

    @property
    def coordinate(self) -> str:
        tail = f":{self.classifier}" if self.classifier else ""
        end = "" if self.extension == "jar" else f"@{self.extension}"
        return f"{self.group}:{self.artifact}:{self.version}{tail}{end}"

    @property
    def path(self) -> Path:
        """Its place below the cache directory."""
        tail = f"-{self.classifier}" if self.classifier else ""
        return Path(self.group, f"{self.artifact}-{self.version}{tail}.{self.extension}")


def cache_directory() -> Path:
    """Where fetched jars stay: TIDEMILL_CACHE, else the user's cache directory, then `jars`."""
    own = os.environ.get("TIDEMILL_CACHE")
    if own:
        return Path(own).expanduser() / "jars"
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "tidemill" / "jars"


def read_lock(lock: Path) -> list[Jar]:
    try:
        text = lock.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise usage_error(
            "SETUP-007", f"the lock file '{lock}' cannot be read: {problem}"
        ) from None
    jars = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 2 or not re.fullmatch("[0-9a-f]{64}", words[1]):
            message = f"line {number} of '{lock}' is not a coordinate and a SHA-256 sum"
            raise usage_error("SETUP-007", message)
        jars.append(Jar.parse(words[0], words[1]))
    return jars


def fetch(lock: Path, note: Callable[[str], None] | None = None) -> list[Path]:
    """The jars of a lock, in its order; `note` is told before anything is fetched."""
    jars = read_lock(lock)
    cache = cache_directory()
    missing = [jar for jar in jars if _sum_of(cache / jar.path) != jar.sha256]
    if missing:
        if note:
            jars_of = "jar of" if len(missing) == 1 else "jars of"
            note(f"fetching {len(missing)} {jars_of} {lock.stem} (once; cached in {cache})")
        try:
            _fetch_into(cache, missing)
        except OSError as problem:
            message = f"the jar cache '{cache}' cannot be written: {problem.strerror or problem}"
            hint = "make room or set TIDEMILL_CACHE to another directory"
            raise job_error("SETUP-009", message, hint) from problem
    return [cache / jar.path for jar in jars]


def _fetch_into(cache: Path, jars: list[Jar]) -> None:
    cache.mkdir(parents=True, exist_ok=True)
    # The staging directory is inside the cache, so that a jar moves to its place atomically and
    # processes that fetch at the same time cannot see each other's halves.
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=cache) as staging:
        stage = Path(staging)
        _run_ivy(stage, jars, "[organisation]/[artifact]-[revision](-[classifier]).[ext]")
        for jar in jars:
            fetched = stage / "out" / jar.path
            found = _sum_of(fetched)
            if found is None:
                message = f"the repositories have no jar {jar.coordinate}"
                raise job_error("SETUP-005", message, _SETTINGS_HINT)
            if found != jar.sha256:
                message = (
                    f"the fetched jar {jar.coordinate} has SHA-256 {found}, "
                    f"but the lock says {jar.sha256}; it was thrown away"
                )
                hint = "a mirror or a proxy alters files: fetch through another one"
                raise job_error("SETUP-006", message, hint)
        for jar in jars:
            (cache / jar.path).parent.mkdir(exist_ok=True)
            os.replace(stage / "out" / jar.path, cache / jar.path)


def resolve(coordinates: Iterable[str]) -> list[Jar]:
    """All jars that the coordinates need at run time, with the checksums found now."""
    with tempfile.TemporaryDirectory() as staging:
        stage = Path(staging)
        pattern = "[organisation]/[module]/[revision]/[artifact](-[classifier]).[ext]"
        _run_ivy(stage, [Jar.parse(c) for c in coordinates], pattern, transitive=True)
        jars = []
        for path in (stage / "out").glob("*/*/*/*.jar"):
            group, artifact, version, name = path.relative_to(stage / "out").parts
            classifier = name.removesuffix(".jar").removeprefix(artifact).removeprefix("-")
            jars.append(Jar(group, artifact, version, classifier or None, _sum_of(path)))
        return sorted(jars)


_SETTINGS_HINT = (
    "if your network has its own repository, name it in ~/.ivy2/ivysettings.xml "
    "or in the file that TIDEMILL_IVY_SETTINGS names"
)


def _run_ivy(stage: Path, jars: list[Jar], pattern: str, transitive: bool = False) -> None:
    java = find_java()
    settings = _user_settings()
    if settings is None:
        settings = stage / "settings.xml"
        settings.write_text(_settings_xml(transitive), encoding="utf-8")
    module = stage / "ivy.xml"
    module.write_text(_module_xml(jars, transitive), encoding="utf-8")
    command: list[str | Path] = [java, "-XX:TieredStopAtLevel=1", *_proxy_properties()]
    command += ["-jar", _ivy_jar(), "-settings", settings, "-ivy", module]
    # A cache of its own: Ivy remembers failures, and a half-written one would outlive this run.
    command += ["-cache", stage / "ivy", "-retrieve", stage / "out" / pattern]
    log = stage / "ivy.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
        )
        try:
            size, since = 0, time.monotonic()
            while process.poll() is None and time.monotonic() - since < _SILENCE_SECONDS:
                time.sleep(0.1)
                if log.stat().st_size != size:
                    size, since = log.stat().st_size, time.monotonic()
        finally:
            silent = process.poll() is None
            process.kill()
            process.wait()
    said = log.read_text(encoding="utf-8", errors="replace")
    names = ", ".join(j.coordinate for j in jars[:2]) + (", …" if len(jars) > 2 else "")
    if silent or (process.returncode != 0 and re.search(_OFFLINE, said)):
        cause = re.search(r"\((?:java[\w.]*\.)([A-Z]\w+: [^)\n]*)\)", said)
        message = f"the jars {names} could not be fetched: the repository is out of reach"
        message += f" ({cause[1]})" if cause else ""
        hint = f"connect to the network once, the jars are then cached; {_SETTINGS_HINT}"
        raise job_error("SETUP-004", message, hint)
    if process.returncode != 0:
        absent = re.search(r"module not found: (\S+)#(\S+);(\S+)", said)
        if absent:
            message = f"the repositories have no jar {':'.join(absent.groups())}"
            raise job_error("SETUP-005", message, _SETTINGS_HINT)
        last = [line.strip() for line in said.splitlines() if line.strip()][-1:]
        message = f"Ivy could not fetch {names}: {last[0] if last else 'it said nothing'}"
        raise job_error("SETUP-004", message, _SETTINGS_HINT)


def _ivy_jar() -> Path:
    # find_spec does not run pyspark's __init__, which costs most of a second.
    spec = importlib.util.find_spec("pyspark")
    for place in (spec.submodule_search_locations or []) if spec else []:
        for jar in sorted(Path(place, "jars").glob("ivy-*.jar")):
            return jar
    message = "no Ivy found: the installed pyspark is missing or carries no jars"
    raise job_error("SETUP-008", message, "install it with: pip install 'pyspark>=4.3,<4.4'")


def _user_settings() -> Path | None:
    named = os.environ.get("TIDEMILL_IVY_SETTINGS")
    if named:
        path = Path(named).expanduser()
        if not path.is_file():
            message = f"TIDEMILL_IVY_SETTINGS names '{named}', which is not a file"
            raise usage_error("SETUP-010", message)
        return path
    usual = Path("~/.ivy2/ivysettings.xml").expanduser()
    return usual if usual.is_file() else None


def _settings_xml(transitive: bool) -> str:
    # Without POMs and their checksums there is one request a jar, and our own sum says more than
    # theirs. An ibiblio resolver without a root is Maven Central.
    poms = f'usepoms="{str(transitive).lower()}" checksums=""'
    return f"""<ivysettings>
  <settings defaultResolver="all"/>
  <timeout-constraints>
    <timeout-constraint name="patience" connectionTimeout="15000" readTimeout="60000"/>
  </timeout-constraints>
  <resolvers>
    <chain name="all" returnFirst="true">
      <ibiblio name="maven-local" m2compatible="true" {poms}
               root="file:${{user.home}}/.m2/repository/"/>
      <ibiblio name="maven-central" m2compatible="true" {poms} timeoutConstraint="patience"/>
    </chain>
  </resolvers>
</ivysettings>
"""


def _module_xml(jars: list[Jar], transitive: bool) -> str:
    lines = []
    for jar in jars:
        extra = f" m:classifier={quoteattr(jar.classifier)}" if jar.classifier else ""
        kind = quoteattr(jar.extension)
        target = "default" if transitive else "*"
        lines.append(
            f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)}"
            f" rev={quoteattr(jar.version)} conf={quoteattr('default->' + target)}"
            f' transitive="{str(transitive).lower()}">'
            + (
                ""
                if transitive
                else f"<artifact name={quoteattr(jar.artifact)} type={kind} ext={kind}{extra}/>"
            )
            + "</dependency>"
        )
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="tidemill" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(lines)}</dependencies></ivy-module>\n"
    )


def _proxy_properties() -> list[str]:
    """The proxy of the environment, which pip obeys and Java does not read by itself."""
    from urllib.request import getproxies  # drags http and ssl in: only when there is work

    properties = []
    for scheme, address in getproxies().items():
        url = urlsplit(address if "//" in address else f"//{address}")
        if scheme in ("http", "https") and url.hostname:
            properties += [f"-D{scheme}.proxyHost={url.hostname}"]
            properties += [f"-D{scheme}.proxyPort={url.port or 80}"]
    return properties


def _sum_of(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None  # what cannot be read has to be fetched, and that says why it cannot


def main(arguments: list[str]) -> int:
    try:
        match arguments:
            case ["fetch", lock]:
                for path in fetch(Path(lock), lambda text: print(text, file=sys.stderr)):
                    print(path)
            case ["lock", _, *_]:
                print(f"# {' '.join(arguments[1:])} and what they need at run time; written by")
                print(f"# python -m tidemill.broker.jars {' '.join(arguments)}")
                for jar in resolve(arguments[1:]):
                    print(jar.coordinate, jar.sha256)
            case _:
                print((__doc__ or "").strip(), file=sys.stderr)
                return 2
    except TidemillError as problem:
        print(problem, file=sys.stderr)
        return problem.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

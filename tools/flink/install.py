"""Make the virtual environment that the oracle runs in, and fetch the jars that Flink lacks.

    python tools/flink/install.py [PYTHON]

In: nothing but the network. Out: Flink in TIDEMILL_FLINK_HOME (build/flink unless it is set) and the jars
of flink.lock and registry.lock in the per-user cache. Law: what is there already is left alone. PYTHON is
the one to make the environment with, for Flink's package is behind Python's newest versions.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests" / "parity")]

from case import FLINK  # noqa: E402

from tidemill.broker.jars import fetch  # noqa: E402
from tidemill.errors import TidemillError  # noqa: E402

LOCK = HERE / "flink.lock"
REGISTRY_LOCK = HERE / "registry.lock"
"""In its place, for the formats of a schema registry: they carry an Avro of their own inside."""
OLDEST, NEWEST = (3, 9), (3, 12)


def flink_home() -> Path:
    return Path(os.environ.get("TIDEMILL_FLINK_HOME") or ROOT / "build" / "flink").expanduser()


def flink_python(home: Path) -> Path:
    return home / "bin" / "python"


def installed(home: Path) -> str | None:
    """The version of Flink in the environment, if there is one."""
    ask = "import importlib.metadata as m; print(m.version('apache-flink'))"
    try:
        done = subprocess.run(
            [flink_python(home), "-c", ask], capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def installed_home() -> Path:
    """Where Flink is; who needs it cannot go on without."""
    home = flink_home()
    if installed(home) is None:
        raise SystemExit(f"there is no Flink in {home}: run make parity-setup")
    return home


def stop(sentence: str) -> None:
    sys.exit(f"parity set-up: {sentence}")


def install(home: Path, python: str) -> None:
    ask = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        shown = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as problem:
        stop(f"'{python}' does not run: {problem}")
        return
    version = tuple(map(int, shown.stdout.split(".")))
    if not OLDEST <= version <= NEWEST:
        stop(
            f"Flink {FLINK} installs on Python 3.{OLDEST[1]} to 3.{NEWEST[1]}, but {python} is "
            f"{shown.stdout.strip()}; name another: make parity-setup FLINK_PYTHON=python3.12"
        )
    print(f"making {home} …", flush=True)
    home.mkdir(parents=True, exist_ok=True)
    log = home / "install.log"
    pip = [flink_python(home), "-m", "pip", "--disable-pip-version-check"]
    with log.open("w") as out:
        for said, command in (
            ("", [python, "-m", "venv", str(home)]),
            (
                f"installing apache-flink {FLINK} (half a gigabyte, a few minutes) …",
                [*pip, "install", f"apache-flink=={FLINK}"],
            ),
        ):
            if said:
                print(said, flush=True)
            done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False)
            if done.returncode != 0:
                out.flush()
                text = log.read_text(errors="replace")
                offline = r"NewConnectionError|Connection refused|Temporary failure|timed out"
                reason = "the network is out of reach" if re.search(offline, text) else "it failed"
                stop(f"{reason}, see {log}")


def main() -> None:
    home = flink_home()
    found = installed(home)
    if found is not None and found != FLINK:
        stop(f"{home} holds Flink {found}, not {FLINK}: remove it, then run this again")
    if found is None:
        install(home, sys.argv[1] if len(sys.argv) > 1 else sys.executable)
    try:
        for lock in (LOCK, REGISTRY_LOCK):
            fetch(lock, lambda text: print(text, flush=True))
    except TidemillError as problem:
        sys.exit(str(problem))
    print(f"Flink {FLINK} is ready in {home}")


if __name__ == "__main__":
    main()

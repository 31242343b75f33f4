"""Make .venv and install the project into it. Standard library only: it runs before anything is installed.

Law: whatever is missing on the machine is told in one sentence that says what to do.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"


def stop(sentence: str) -> None:
    sys.exit(f"tidemill set-up: {sentence}")


def check_python() -> None:
    if sys.version_info < (3, 11):  # noqa: UP036 (this very check is for older ones)
        found = ".".join(map(str, sys.version_info[:2]))
        stop(f"Python 3.11 or newer is needed, but this is {found}; run make PYTHON=python3.11")


def check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    javac = shutil.which("javac", path=f"{home}/bin") if home else shutil.which("javac")
    if javac is None:
        where = f"in JAVA_HOME ({home})" if home else "on the PATH"
        stop(
            f"no javac {where}; install a JDK 17 or newer (Debian: apt-get install openjdk-17-jdk-headless)"
        )
        return
    shown = subprocess.run([javac, "-version"], capture_output=True, text=True, check=False)
    matched = re.search(r"javac (\d+)", shown.stdout + shown.stderr)
    if matched is None or int(matched[1]) < 17:
        found = matched[1] if matched else "unknown"
        stop(
            f"a JDK 17 or newer is needed, but {javac} is version {found}; set JAVA_HOME to a newer one"
        )


def install() -> None:
    python = VENV / "bin" / "python"
    if not python.exists():
        print("making .venv …", flush=True)
        try:
            venv.create(VENV, with_pip=True)
        except subprocess.CalledProcessError:
            stop("the module venv is not complete here (Debian: apt-get install python3-venv)")
    print(
        "installing the project and its tools into .venv (a few minutes the first time) …",
        flush=True,
    )
    log = VENV / "install.log"
    command = [python, "-m", "pip", "install", "--disable-pip-version-check", "-e", f"{ROOT}[dev]"]
    with log.open("w") as out:
        done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        text = log.read_text(errors="replace")
        if re.search(
            r"NewConnectionError|Connection refused|Temporary failure|No matching distribution",
            text,
        ):
            stop(
                "packages could not be downloaded: check the network or pip's index settings, then run the"
                f" same command again (details: {log.relative_to(ROOT)})"
            )
        stop(f"pip failed, see {log.relative_to(ROOT)}")
    (VENV / ".ready").touch()


if __name__ == "__main__":
    check_python()
    check_java()
    install()

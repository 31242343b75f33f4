"""Find the Java that Spark, the kernel build and the broker run on.

In: JAVA_HOME, else PATH, in the order Spark itself looks. Out: the path of a program of Java 17
or newer. Law: no Java, too old a Java or a JDK without its compiler is one sentence that says
what to install.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tidemill.errors import job_error

OLDEST_JAVA = 17

_INSTALL = f"install a JDK {OLDEST_JAVA} or newer, or set JAVA_HOME to one"


def find_java() -> Path:
    """The `java` of a Java that is new enough."""
    return _find("java", "SETUP-001", f"no Java found: Tidemill needs Java {OLDEST_JAVA} or newer")


def find_javac() -> Path:
    """The `javac` of a JDK that is new enough."""
    return _find("javac", "SETUP-003", "no Java compiler found: building the kernel needs a JDK")


class ToolFailed(Exception):
    """A tool of the JDK ended with what this says."""


def keytool(*given: str | Path, secrets: Mapping[str, str]) -> str:
    """What the JDK's keytool prints. Options name their passwords `-storepass:env NAME`, with NAME of `secrets`:
    a command line can be read by everyone, an environment cannot."""
    program = find_java().resolve().with_name("keytool")
    if not program.is_file():
        raise job_error(
            "SETUP-003", f"the Java at '{program.parent.parent}' has no keytool", _INSTALL
        )
    # keytool speaks the user's language; its errors are searched for words.
    command = [
        program,
        "-J-XX:TieredStopAtLevel=1",
        "-J-Duser.language=en",
        "-J-XX:+UseSerialGC",
        *given,
    ]
    environment = {**os.environ, "LC_ALL": "C.UTF-8", **secrets}
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment,
        text=True,
        errors="replace",
    )
    if done.returncode != 0:
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        said = next(
            (line for line in lines if "error" in line.lower()), *lines[-1:] or ["no reason given"]
        )
        raise ToolFailed(re.sub(r"^keytool error: (?:[\w.$]+(?:Exception|Error): )?", "", said))
    return done.stdout


def _find(program: str, missing_code: str, missing: str) -> Path:
    home = os.environ.get("JAVA_HOME")
    if home:
        path = Path(home) / "bin" / program
        if not path.is_file():
            message = f"JAVA_HOME is '{home}', which has no bin/{program}"
            raise job_error(missing_code, message, _INSTALL)
    else:
        on_path = shutil.which(program)
        if on_path is None:
            raise job_error(missing_code, missing, _INSTALL)
        path = Path(on_path)
    version = java_version(path)
    if version is None:
        # macOS puts a stub on PATH that only says that no Java is installed.
        raise job_error(missing_code, missing, _INSTALL)
    if version < OLDEST_JAVA:
        message = f"'{path}' is Java {version}: Tidemill needs Java {OLDEST_JAVA} or newer"
        raise job_error("SETUP-002", message, _INSTALL)
    return path


def java_version(program: Path) -> int | None:
    """The feature release (8, 11, 17 …) of a java or javac; None if it does not run."""
    # A JDK says its version in a file, which saves the start of a JVM.
    release = program.resolve().parent.parent / "release"
    try:
        text = release.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    found = re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE)
    if found is None:
        try:
            run = subprocess.run(
                [program, "-version"], capture_output=True, text=True, errors="replace", timeout=30
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        if run.returncode != 0:
            return None
        # java: `openjdk version "17.0.15"`, javac: `javac 17.0.15`, old ones: "1.8.0_402".
        found = re.search(r'(?:version "|javac )([0-9][^"\s]*)', run.stderr + run.stdout)
        if found is None:
            return None
    numbers = [int(n) for n in re.findall(r"\d+", found[1])]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]

"""The command as a user types it: a process of its own, its streams and its exit code."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

COMMAND = Path(sys.executable).with_name("tidemill")


@dataclass
class Process:
    """A running `tidemill`, its output in files so that no pipe can fill up."""

    process: subprocess.Popen[bytes]
    out: Path
    err: Path

    def stdout(self) -> str:
        return self.out.read_text(encoding="utf-8")

    def stderr(self) -> str:
        return self.err.read_text(encoding="utf-8")

    def until(self, text: str, seconds: float = 90) -> None:
        """Wait until stderr shows a text."""
        end = time.monotonic() + seconds
        while not re.search(text, self.stderr()):
            assert self.process.poll() is None, f"ended with {self.process.poll()}: {self.stderr()}"
            assert time.monotonic() < end, f"no {text!r} in {self.stderr()}"
            time.sleep(0.1)

    def wait(self, seconds: float = 120) -> int:
        return self.process.wait(seconds)


@dataclass
class Done:
    """A command that has ended, and what it has written."""

    code: int
    out: str
    err: str


IN_TURN = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from tidemill.cli import main

ended = []
for command in json.loads(sys.argv[1]):
    sys.argv = ["tidemill", *command]
    # Some commands write bytes.
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            ended.append((end.code, *(each.buffer.getvalue().decode() for each in (out, err))))
print(json.dumps(ended))
"""


@dataclass
class Command:
    place: Path
    home: Path
    started: list[Process] = field(default_factory=list)

    def script(self, text: str, name: str = "job.sql") -> str:
        path = self.place / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "TIDEMILL_HOME": str(self.home)}

    def start(self, *arguments: str) -> Process:
        number = len(self.started)
        out, err = self.place / f"out{number}", self.place / f"err{number}"
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(
                [COMMAND, *arguments],
                stdout=stdout,
                stderr=stderr,
                stdin=subprocess.DEVNULL,
                cwd=self.place,
                # A group of its own, so that a signal hits what a terminal's Ctrl-C would hit.
                start_new_session=True,
                env=self.environment,
            )
        self.started.append(Process(process, out, err))
        return self.started[-1]

    def __call__(self, *arguments: str) -> Process:
        started = self.start(*arguments)
        started.wait()
        return started

    def end(self) -> None:
        """Whatever still runs of what was started."""
        for each in self.started:
            if each.process.poll() is None:
                os.killpg(each.process.pid, signal.SIGKILL)
                each.process.wait()

    def in_turn(self, *commands: Sequence[str]) -> list[Done]:
        """Commands that are run in one process, one after the other, and so by one JVM."""
        given = json.dumps(commands)
        run = [sys.executable, "-c", IN_TURN, given]
        done = subprocess.run(
            run,
            capture_output=True,
            text=True,
            cwd=self.place,
            env=self.environment,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return [Done(*each) for each in json.loads(done.stdout)]

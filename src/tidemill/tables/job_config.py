"""What a job brings beside its script: a file of settings, and files that settings name.

In: `--job-config FILE`, lines `key: value` as Flink's flink-conf.yaml and the consoles of vendors take them, and
`--package FILE.jar`. Out: the settings, each with its place in the file; and paths of files. Law: a line that says
nothing is told; a secret is never shown with its line.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import weakref
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

from tidemill.errors import Diagnostic, Source, Span, UsageError, usage_error
from tidemill.sql import ast
from tidemill.tables.options import is_secret

_COMMENT = r"(?:\s+\#.*)?"
_LINE = re.compile(
    rf"""\s*(?P<key>[\w.\-]+)\s*:\s*
    (?: '(?P<single>(?:[^']|'')*)' | "(?P<double>[^"]*)" | (?P<plain>[^'"\s\#].*?) ){_COMMENT}\s*""",
    re.VERBOSE,
)
_EMPTY = re.compile(r"\s*(?:#.*)?|---\s*")
_WITHOUT_VALUE = re.compile(rf"\s*[\w.\-]+\s*:{_COMMENT}\s*")


def read_job_config(path: Path) -> tuple[ast.Option, ...]:
    """The settings of a file, in its order; every wrong line is told at once."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise usage_error("CLI-031", f"--job-config {path} cannot be read: {reason}") from None
    source = Source(str(path), text)
    found: dict[str, ast.Option] = {}
    problems: list[Diagnostic] = []
    start = 0
    for line in text.splitlines(keepends=True):
        bare = line.rstrip("\r\n")
        match = _LINE.fullmatch(bare)
        if match is None:
            if not _EMPTY.fullmatch(bare):
                problems.append(_wrong_line(source, start, bare))
        else:
            which = next(n for n in ("single", "double", "plain") if match[n] is not None)
            value = match[which].replace("''", "'") if which == "single" else match[which]
            key, key_at, value_at = match["key"], match.span("key"), match.span(which)
            option = ast.Option(
                Span(source, start + key_at[0], start + key_at[1]),
                key,
                value,
                Span(source, start + value_at[0], start + value_at[1]),
            )
            if key in found:
                problems.append(
                    Diagnostic("CLI-030", f"'{key}' is given twice", _place(option.span, bare))
                )
            found[key] = option
        start += len(line)
    if problems:
        raise UsageError(problems)
    return tuple(found.values())


def _place(span: Span, line: str) -> Span | None:
    return None if is_secret(line) else span


def _wrong_line(source: Source, start: int, line: str) -> Diagnostic:
    number = source.position(start)[0]
    indent = len(line) - len(line.lstrip())
    span = Span(source, start + indent, start + len(line.rstrip()))
    if _WITHOUT_VALUE.fullmatch(line):
        what = "has no value"
        hint = "write the whole key and its value in one line: 'pipeline.name: my job'"
    else:
        what = "is not of the form 'key: value'"
        hint = "write for example 'security.kerberos.login.contexts: KafkaClient'"
    return Diagnostic("CLI-030", f"line {number} of {source.name} {what}", _place(span, line), hint)


# --- files -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Inside:
    """A file of a package."""

    package: Path
    name: str


@dataclass
class Attachments:
    """Finds the files that settings name: beside the job's configuration, inside packages, in the working directory.

    What a package holds is taken out when its path is asked for, into a directory that only its owner can read, which
    is gone with `close`, or with the process.
    """

    directory: Path | None = None
    """Of the job's configuration."""
    packages: tuple[Path, ...] = ()
    _members: dict[Path, frozenset[str]] = field(default_factory=dict)
    _taken: dict[_Inside, Path] = field(default_factory=dict)
    _private: Path | None = None

    def __post_init__(self) -> None:
        for package in self.packages:
            try:
                with zipfile.ZipFile(package) as jar:
                    self._members[package] = frozenset(jar.namelist())
            except (OSError, zipfile.BadZipFile) as error:
                reason = error.strerror if isinstance(error, OSError) else "it is no jar"
                message = f"--package {package} cannot be read: {reason}"
                raise usage_error("CLI-032", message) from None

    def _find(self, name: str) -> Path | _Inside | None:
        path = Path(name).expanduser()
        if path.is_absolute():
            return path if path.is_file() else None
        if self.directory is not None and (self.directory / path).is_file():
            return (self.directory / path).absolute()
        for package, members in self._members.items():
            if name in members:
                return _Inside(package, name)
        return path.absolute() if path.is_file() else None

    def missing(self, name: str, setting: str, span: Span | None = None) -> Diagnostic | None:
        """What to say if a file that a setting names is nowhere."""
        if self._find(name) is not None:
            return None
        if Path(name).expanduser().is_absolute():
            message = f"there is no file {name}, which '{setting}' names"
            return Diagnostic("OPT-077", message, span)
        looked = [str(self.directory)] if self.directory is not None else []
        looked += [*map(str, self.packages), f"{Path.cwd()}"]
        deeper = [
            f"{package} has it as '{member}': write that"
            for package, members in self._members.items()
            for member in sorted(members)
            if member.rpartition("/")[2] == name
        ]
        return Diagnostic(
            "OPT-077",
            f"'{name}', which '{setting}' names, is nowhere; looked for in {', '.join(looked)}",
            span,
            deeper[0]
            if deeper
            else "put it beside the file of --job-config, or into a jar: --package FILE.jar",
        )

    def read(self, name: str) -> bytes | None:
        """What the file holds; None if it cannot be read."""
        found = self._find(name)
        try:
            if isinstance(found, _Inside):
                return _content(found)
            return None if found is None else found.read_bytes()
        except OSError:
            return None

    def path(self, name: str) -> str:
        """Where the file is; a name that is nowhere stays as it is, for whoever opens it to complain."""
        found = self._find(name)
        if not isinstance(found, _Inside):
            return name if found is None else str(found)
        if found not in self._taken:
            self._taken[found] = self._take_out(found)
        return str(self._taken[found])

    def _take_out(self, inside: _Inside) -> Path:
        if self._private is None:
            self._private = Path(tempfile.mkdtemp(prefix="tidemill-package-"))
            # Also at the end of the process, if nobody closes.
            weakref.finalize(self, shutil.rmtree, self._private, ignore_errors=True)
        directory = self._private / str(len(self._taken))
        directory.mkdir(mode=0o700)
        path = directory / Path(inside.name).name
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_content(inside))
        return path

    def close(self) -> None:
        """Remove what was taken out."""
        if self._private is not None:
            shutil.rmtree(self._private, ignore_errors=True)
        self._private = None
        self._taken.clear()


def _content(inside: _Inside) -> bytes:
    with zipfile.ZipFile(inside.package) as jar:
        return jar.read(inside.name)

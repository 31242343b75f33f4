"""What goes wrong, as values: a Diagnostic has a code, a sentence, a place in the script and a hint.

    TidemillError            carries one or more Diagnostics; owns its exit code
    ├── ScriptError      1   the script is wrong; found without a cluster
    ├── UsageError       2   the command line or an argument is wrong
    └── JobError         3   something that needed a cluster or a running job

Law: a user's mistake is one of these, never a traceback. A fault of ours stays an ordinary exception.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache


@dataclass(frozen=True)
class Source:
    """One text that a span can point into: a file, or a statement typed by hand."""

    name: str
    text: str

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0] + [i + 1 for i, char in enumerate(self.text) if char == "\n"]

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column, both from 1; the column counts characters."""
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        start = self._line_starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start : len(self.text) if end < 0 else end].rstrip("\r")


@dataclass(frozen=True, slots=True)
class Span:
    """The characters [start, end) of a source."""

    source: Source
    start: int
    end: int

    def to(self, other: Span) -> Span:
        return Span(self.source, self.start, max(self.end, other.end))

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]


def display_width(text: str) -> int:
    """Terminal cells that a text takes: wide characters take two, combining marks none."""
    width = 0
    for char in text:
        if unicodedata.combining(char) or unicodedata.category(char) == "Cf":
            continue
        width += 2 if unicodedata.east_asian_width(char) in "WF" else 1
    return width


SECRET_WORDS = (
    r"passw(?:or)?d|passphrase|passcode|(?<![a-z])(?:pass|pwd)(?![a-z])|secret|token|jaas|credentials?(?!s?-source)"
    r"|user[-.]?info|basic-auth\.user|(?:api|access|service|account|encryption|signing|private)[-._]?key"
    r"|keystore\.key|auth-params|authorization|http-headers"
)
"""What a key holds whose value must never be shown, as a regular expression."""
# It starts at the word itself and looks a bounded way ahead, so that a text of any length is read once. What is glued
# to a closing quote belongs to a secret with a quote in it.
_SECRET_PAIR = re.compile(
    rf"""((?:{SECRET_WORDS})[\w.-]{{0,100}}['"`]?\s*=\s*)('(?:[^']|'')*'?|"[^"]*"?)([^\s,;()=]*)""",
    re.IGNORECASE,
)
# A map in one value that has such a key.
_SECRET_MAP = re.compile(
    rf"""(properties['"`]\s*=\s*)('(?=[^']*(?:{SECRET_WORDS}))(?:[^']|'')*'?)()""", re.IGNORECASE
)
_VARIABLE = re.compile(r"""(['"])\$\{[^}]*\}\1""")
_SECRET_INSIDE = re.compile(
    r"""(?<=://)[^\s'"/@]*:(?![0-9]{1,5}(?:[/,]|$))[^\s'"]*(?=@)|(?<=://)[^\s'"/@:]+(?=@)"""
    r"""|(?<=:)[\w.$#-]+/[^\s'"@]+(?=@(?://|\())|(?<=password=)\\?"[^"]*"?"""
    rf"""|(?<=[?&;])(?:{SECRET_WORDS})[\w.-]{{0,40}}=(?!\$\{{)[^\s&;,'"\\)]+"""
    r"""|-----BEGIN[ A-Z]*PRIVATE KEY-----[^-]*""",
    re.IGNORECASE,
)
"""A secret in a value of another name: in an address, in its query, in a JAAS line, a private key."""
_QUERY_WORD = re.compile(rf"(?:{SECRET_WORDS})[\w.-]*=", re.IGNORECASE)


def holds_secret_text(value: str) -> bool:
    """Whether a value shows by itself that a secret is in it."""
    return bool(_SECRET_INSIDE.search(value))


def _starred(text: str) -> str:
    return re.sub(r"[^\n]", "*", text)


def masked(script: str) -> str:
    """A script as it may be shown: the values of secret options as stars, every character in its place; a variable is
    no secret."""

    def stars(pair: re.Match[str]) -> str:
        if _VARIABLE.fullmatch(pair[2]) and not pair[3]:
            return pair[0]
        quote, rest = pair[2][0], pair[2][1:]
        closed = rest.endswith(quote)
        inner = rest[:-1] if closed else rest
        return pair[1] + quote + _starred(inner) + quote * closed + _starred(pair[3])

    def inside(found: re.Match[str]) -> str:
        # Of `password=…` the word may be seen.
        word = _QUERY_WORD.match(found[0])
        kept = word[0] if word else ""
        return kept + _starred(found[0][len(kept) :])

    return _SECRET_INSIDE.sub(inside, _SECRET_MAP.sub(stars, _SECRET_PAIR.sub(stars, script)))


@lru_cache(maxsize=8)
def _without_secrets(source: Source) -> Source:
    return Source(source.name, masked(source.text))


_LONGEST_LINE = 400


def _excerpt(line: str, at: int) -> tuple[str, int]:
    """A line as it is shown, and where in it the place `at` stands: of a very long one, what is around the place."""
    if len(line) <= _LONGEST_LINE:
        return line, at
    start, end = max(0, at - _LONGEST_LINE // 4), at + _LONGEST_LINE // 2
    before, behind = "…" * (start > 0), "…" * (end < len(line))
    return f"{before}{line[start:end]}{behind}", at - start + len(before)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    code: str
    message: str
    span: Span | None = None
    hint: str | None = None
    severity: str = "error"

    def _said(self, text: str) -> str:
        """A sentence that quotes the place in the script, where that is part of a secret, without it."""
        span = self.span
        if span is None or not span.text.strip("'\"") or span.text not in text:
            return text
        shown = _without_secrets(span.source).text
        return text.replace(span.text, shown[span.start : span.end])

    def render(self) -> str:
        """The text a person reads: place, sentence, the line with a caret, the hint."""
        head = f"{self.severity} {self.code}: {self._said(self.message)}"
        if self.severity == "notice":
            return head
        if self.span is None:
            lines = [head]
        else:
            source = self.span.source
            number, column = source.position(self.span.start)
            line = _without_secrets(source).line(number).replace("\t", " ")
            shown, at = _excerpt(line, column - 1)
            marked = shown[at : at + self.span.end - self.span.start]
            gutter = f"{number:>4}"
            carets = "^" * max(1, display_width(marked))
            lines = [
                f"{source.name}:{number}:{column}: {head}",
                f"{gutter} | {shown}",
                f"{' ' * len(gutter)} | {' ' * display_width(shown[:at])}{carets}",
            ]
        if self.hint:
            lines.append(f" hint: {self._said(self.hint)}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, object]:
        place: dict[str, object] = {}
        if self.span is not None:
            source = self.span.source
            line, column = source.position(self.span.start)
            end_line, end_column = source.position(self.span.end)
            place = {
                "file": source.name,
                "line": line,
                "column": column,
                "end_line": end_line,
                "end_column": end_column,
            }
        return {
            "code": self.code,
            "severity": self.severity,
            "message": self._said(self.message),
            "hint": self.hint and self._said(self.hint),
            **place,
        }


@dataclass
class TidemillError(Exception):
    """Base of everything we raise on purpose."""

    diagnostics: list[Diagnostic] = field(default_factory=list)
    exit_code = 3

    def __str__(self) -> str:
        return "\n".join(d.render() for d in self.diagnostics)

    # A mutable exception is compared by identity, or contextlib cannot re-raise it.
    __eq__ = object.__eq__
    __hash__ = object.__hash__


class ScriptError(TidemillError):
    exit_code = 1


class UsageError(TidemillError):
    exit_code = 2


class JobError(TidemillError):
    exit_code = 3


def script_error(
    code: str, message: str, span: Span | None, hint: str | None = None
) -> ScriptError:
    return ScriptError([Diagnostic(code, message, span, hint)])


def job_error(
    code: str, message: str, hint: str | None = None, span: Span | None = None
) -> JobError:
    return JobError([Diagnostic(code, message, span, hint)])


def usage_error(code: str, message: str, hint: str | None = None) -> UsageError:
    return UsageError([Diagnostic(code, message, None, hint)])


def in_script_order(
    diagnostics: Iterable[Diagnostic], sources: Sequence[Source] = ()
) -> list[Diagnostic]:
    """As a reader of the script meets them: by file, then by place; those without a place first."""
    files = [source.name for source in sources]

    def place(diagnostic: Diagnostic) -> tuple[int, int]:
        span = diagnostic.span
        if span is None:
            return -1, -1
        name = span.source.name
        return files.index(name) if name in files else 0, span.start

    return sorted(diagnostics, key=place)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that somebody who typed `word` most likely meant."""
    candidates = {k.lower(): k for k in known}
    found = difflib.get_close_matches(word.lower(), candidates, n=1, cutoff=0.6)
    return candidates[found[0]] if found else None


def did_you_mean(word: str, known: Sequence[str], otherwise: str | None = None) -> str | None:
    found = nearest(word, known)
    return f"did you mean '{found}'?" if found else otherwise

"""Options of another age, written as today's: rules as data, and the few lines that apply them.

In: the options of a WITH clause and a table of rules. Out: today's options, each standing where the old one stood,
and a note for every change. Law: an option that no rule takes stays as it is, so that the connector's own option
table accepts it or refuses it by name; nothing is dropped without a note.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tidemill.errors import Diagnostic, Span
from tidemill.sql import ast
from tidemill.tables.options import shown

CODES: Mapping[str, str] = {
    "DIA-001": "the dialect that a script was found to be written in",
    "DIA-002": "something of another dialect or of an old Flink, written as today",
    "DIA-003": "something that has no meaning today is left out",
    "DIA-004": "a translation that guesses, or does not keep everything",
    "DIA-005": "an option that only old clients of Kafka knew, and what took its place",
}
"""Every code that dialects can give, with its title in the error index."""


@dataclass(frozen=True)
class Rule:
    """One old option and what it is today."""

    old: str
    """`#` stands for a number, `*` at the end for any rest."""
    new: str | None = None
    """Today's key, `*` being the same rest and `{format}` the table's format; None: it is left out."""
    doc: str = ""
    """Why, in half a sentence; every option that is left out has one."""
    values: Mapping[str, str] = field(default_factory=dict)
    """Old value → today's, whatever the case; other values stay."""
    convert: Callable[[str], str | None] = lambda value: value
    """For values that are computed; None: not such a value, so that the option stays as it is."""
    when: frozenset[str] | None = None
    """The values that the rule is for, in lower case; None: all."""
    warns: bool = False
    """Whether the change is told to everybody, not only to those who ask for a translation."""
    folds: bool = False
    """Whether the rest counts whatever its case; today it counts in lower case only."""
    old_client: bool = False
    """Whether it is of Kafka 0.8's client, which nobody runs today: what took its place is told to everybody, too, but
    is nothing to look at."""

    def __post_init__(self) -> None:
        if self.new is None and not self.doc:
            raise ValueError(f"'{self.old}' is left out without a reason")

    def match(self, option: ast.Option) -> str | None:
        """The rest that `*` stands for, empty without one; None when the rule is not for this option."""
        pattern = re.escape(self.old).replace(r"\#", r"[0-9]+").replace(r"\*", "(.+)")
        found = re.fullmatch(pattern, option.key, re.IGNORECASE)
        if found is None or (self.when is not None and option.value.lower() not in self.when):
            return None
        rest: str = found[1] if found.groups() else ""
        return rest.lower() if self.folds else rest

    def value_today(self, value: str) -> str | None:
        by_name = {old.lower(): new for old, new in self.values.items()}
        return by_name.get(value.lower()) or self.convert(value)


@dataclass
class Renewal:
    """Options as they come to be, and what was said on the way."""

    options: list[ast.Option] = field(default_factory=list)
    notes: list[Diagnostic] = field(default_factory=list)

    def apply(self, option: ast.Option, rules: Iterable[Rule], format_prefix: str = "") -> None:
        """Add what the first rule that takes the option makes of it, or the option itself."""
        for rule in rules:
            rest = rule.match(option)
            if rest is None:
                continue
            value = rule.value_today(option.value)
            if value is None:
                break
            code = "DIA-005" if rule.old_client else None
            if rule.new is None:
                self.leave_out(option, rule.doc, rule.warns, code)
            else:
                key = rule.new.replace("*", rest).replace("{format}", format_prefix)
                self.rename(option, key, value, rule.doc, rule.warns, code)
            return
        self.options.append(option)

    def rename(
        self,
        option: ast.Option,
        key: str,
        value: str,
        doc: str = "",
        warns: bool = False,
        code: str | None = None,
    ) -> None:
        self.options.append(ast.Option(option.span, key, value, option.value_span))
        if (key, value) == (option.key, option.value):
            return
        reason = f": {doc}" if doc else ""
        if value == option.value:
            message = f"'{option.key}' is '{key}' today{reason}"
            self.note(code or "DIA-002", message, option.span, warns)
            return
        old, new = shown(option.key, option.value), shown(key, value)
        self.note(
            code or "DIA-002",
            f"'{option.key}' = '{old}' is '{key}' = '{new}' today{reason}",
            option.span,
            warns,
        )

    def leave_out(
        self, option: ast.Option, reason: str, warns: bool = False, code: str | None = None
    ) -> None:
        message = f"'{option.key}' is left out: {reason}"
        self.note(code or "DIA-003", message, option.span, warns)

    def add(self, key: str, value: str, place: Span, doc: str) -> None:
        """An option that nobody wrote; it points at what it follows from, and stands behind it if that is an option."""
        behind = [i + 1 for i, option in enumerate(self.options) if option.span == place]
        at = behind[-1] if behind else len(self.options)
        self.options.insert(at, ast.Option(place, key, value, place))
        self.note("DIA-002", f"'{key}' = '{value}' is added: {doc}", place)

    def note(self, code: str, message: str, span: Span, warns: bool = False) -> None:
        severity = "warning" if warns else "notice"
        self.notes.append(Diagnostic(code, message, span, severity=severity))

    def find(self, key: str) -> ast.Option | None:
        """The option that has come to be under today's key."""
        return next((option for option in self.options if option.key == key), None)

"""Failures of running jobs as diagnostics.

Java and Python workers put `TIDEMILL{"code":…}` into the message of what they throw (`io.tidemill.Fault`,
`RecordFault`); Spark wraps that many times over, so it is looked for anywhere in the text of the outermost failure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tidemill.errors import Diagnostic, JobError, Span, TidemillError

_MARK = "TIDEMILL{"


class RecordFault(Exception):
    """Raised in a Python worker; only its text reaches the driver."""

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        self.told = {"code": code, "message": message, "hint": hint}
        super().__init__("TIDEMILL" + json.dumps(self.told, ensure_ascii=True))


@contextmanager
def reported(table: str) -> Iterator[None]:
    """In a Python worker: a diagnostic that stops the job reaches the driver as one, with the table's name."""
    try:
        yield
    except TidemillError as error:
        found = error.diagnostics[0]
        raise RecordFault(found.code, f"table '{table}': {found.message}", found.hint) from None


# What Spark says of a broken run, as (pattern, code, message, hint); first match wins.
_KNOWN = (
    (
        r"cannot cast '(.*?)' to ([A-Z_]+(?:\(\d+(?:, \d+)?\))?)",
        "RUN-020",
        "cannot cast '{1}' to {2}",
        "TRY_CAST gives NULL instead",
    ),
    (
        r"division by zero",
        "RUN-021",
        "division by zero",
        "guard it: CASE WHEN d <> 0 THEN n / d END, or NULLIF(d, 0)",
    ),
    (
        r"\[NULL_MAP_KEY\]",
        "RUN-024",
        "a map with a NULL key",
        "guard it: COALESCE(key, '…')",
    ),
    (
        r"OutOfMemoryError",
        "RUN-022",
        "Spark ran out of memory",
        "give it more: --conf spark.driver.memory=4g",
    ),
    (
        r"No space left on device",
        "RUN-023",
        "no space left on the disk",
        "free some, or choose another --checkpoint",
    ),
    (
        r"\[CANNOT_LOAD_STATE_STORE|\[STDS_FAILED_TO_READ_OPERATOR_METADATA|_MISSING_STATE_DIRECTORY\]|/_stateSchema/",
        "RUN-038",
        "the state in its checkpoint cannot be read",
        "bring the checkpoint back from a copy, or start with another --checkpoint; a job whose directory is moved away"
        " starts anew",
    ),
)


def is_passing(text: str) -> bool:
    """Whether a failure may be over when the job is started again."""
    found = _hidden(text)
    return found is not None and found.get("passing") is True


def _hidden(text: str) -> dict[str, Any] | None:
    at = text.find(_MARK)
    if at < 0:
        return None
    try:
        found, _ = json.JSONDecoder().raw_decode(text, at + len("TIDEMILL"))
    except json.JSONDecodeError:
        return None
    return found if isinstance(found, dict) and {"code", "message"} <= found.keys() else None


def diagnose(text: str, job: str, span: Span | None = None) -> JobError | None:
    """The diagnostic hidden in a failure's text, if it is one of the expected kinds."""
    found = _hidden(text)
    if found is not None:
        return JobError([Diagnostic(found["code"], found["message"], span, found.get("hint"))])
    for pattern, code, message, hint in _KNOWN:
        matched = re.search(pattern, text)
        if matched:
            for index, group in enumerate(matched.groups(), 1):
                message = message.replace(f"{{{index}}}", group)
            return JobError([Diagnostic(code, f"job '{job}': {message}", span, hint)])
    return None

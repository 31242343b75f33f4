"""What other packages add: objects registered under an entry point, found by name.

In: a group of entry points and a name. Out: the object that is registered there, or None. Law: whatever is wrong with
somebody else's package is a `PluginProblem`, a sentence and a hint, never a traceback.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

FORMATS = "tidemill.formats"
"""Entry points of this group are formats: docs/formats/plugins.md."""


class PluginProblem(Exception):
    """What is wrong with a plug-in, for people."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def names(group: str) -> list[str]:
    # Importing it takes longer than checking a script, which rarely needs it.
    from importlib.metadata import entry_points

    return sorted({point.name for point in entry_points(group=group)})


@cache
def load(group: str, name: str) -> Any:
    from importlib.metadata import entry_points

    points = list(dict.fromkeys(entry_points(group=group, name=name)))
    if not points:
        return None
    if len(points) > 1:
        owners = " and ".join(sorted(map(_owner, points)))
        raise PluginProblem(f"'{name}' is offered by {owners}", "uninstall all of them but one")
    [point] = points
    try:
        return point.load()
    except Exception as error:
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise PluginProblem(
            f"'{name}' of {_owner(point)} ({point.value}) cannot be loaded: {said}",
            "mend the package, or install what it needs",
        ) from None


def _owner(point: EntryPoint) -> str:
    return f"package {point.dist.name}" if point.dist else point.value

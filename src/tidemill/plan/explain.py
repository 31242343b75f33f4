"""Plans as text, in the shape of Flink's EXPLAIN CHANGELOG_MODE."""

from __future__ import annotations

from datetime import timedelta

from tidemill.plan import nodes
from tidemill.plan.modes import Modes
from tidemill.types import TimeAttribute, time_attribute


def explain(root: nodes.Node, modes: Modes, keys: bool = False) -> str:
    """`keys`: also what Flink keeps to itself, the upsert keys and the time attributes of every node."""
    lines: list[str] = []

    def show(node: nodes.Node, indent: str, branch: str) -> None:
        text = node.describe()
        if not isinstance(node, nodes.Sink):
            facts = [f"changelogMode={modes.of(node)}"]
            facts += _ttls(node)
            facts += [*_keys(node), *_clocks(node)] if keys else []
            before = "" if text.endswith("()") else ", "
            text = f"{text[:-1]}{before}{', '.join(facts)})"
        lines.append(indent + branch + text)
        below = indent + ("" if not branch else "   " if branch == "+- " else ":  ")
        for i, child in enumerate(node.inputs):
            show(child, below, "+- " if i == len(node.inputs) - 1 else ":- ")

    show(root, "", "")
    return "\n".join(lines)


def _ttls(node: nodes.Node) -> list[str]:
    names = ("LEFT", "RIGHT") if len(node.ttls) == 2 else ("",)
    pairs = zip(names, node.ttls, strict=True) if node.ttls else ()
    shown = [f"{name}={x}".lstrip("=") for name, x in ((n, _length(x)) for n, x in pairs if x)]
    return [f"stateTtl=[{', '.join(shown)}]"] if shown else []


def _length(length: timedelta) -> str:
    return nodes.milliseconds(length // timedelta(milliseconds=1))


def _keys(node: nodes.Node) -> list[str]:
    shown = ", ".join(f"[{', '.join(key)}]" for key in upsert_keys(node))
    return [f"upsertKeys=[{shown}]"] if shown else []


def _clocks(node: nodes.Node) -> list[str]:
    shown = ", ".join(f"{name} {clock.value}" for name, clock in time_attributes(node).items())
    return [f"timeAttributes=[{shown}]"] if shown else []


def upsert_keys(node: nodes.Node) -> list[list[str]]:
    """What tells a changed row from the others, by name; of rows that never change, nobody asks."""
    if isinstance(node, nodes.Sink) or node.kinds.insert_only:
        return []
    names = [c.name for c in node.columns]
    return sorted([names[i] for i in sorted(key)] for key in node.upsert_keys)


def time_attributes(node: nodes.Node) -> dict[str, TimeAttribute]:
    found = ((c.name, time_attribute(c.type)) for c in node.columns)
    return {name: clock for name, clock in found if clock is not None}


def tree(node: nodes.Node, modes: Modes) -> dict[str, object]:
    """A plan as nested values, for programs."""
    return {
        "operator": node.describe(),
        "changelog_mode": [] if isinstance(node, nodes.Sink) else modes.of(node).names,
        "columns": [{"name": c.name, "type": str(c.type)} for c in node.columns],
        "upsert_keys": upsert_keys(node),
        "time_attributes": {name: clock.value for name, clock in time_attributes(node).items()},
        "inputs": [tree(child, modes) for child in node.inputs],
    }

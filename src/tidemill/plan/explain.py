"""Plans as text, in the shape of Flink's EXPLAIN CHANGELOG_MODE, with upsert keys and time attributes besides."""

from __future__ import annotations

from tidemill import types as t
from tidemill.plan import nodes
from tidemill.plan.modes import Modes


def explain(root: nodes.Node, modes: Modes) -> str:
    lines: list[str] = []

    def show(node: nodes.Node, indent: str, branch: str) -> None:
        text = node.describe()
        if not isinstance(node, nodes.Sink):
            facts = [f"changelogMode={modes.of(node)}", *_keys(node), *_clocks(node)]
            text = f"{text[:-1].removesuffix('(')}{'(' if text.endswith('()') else ', '}{', '.join(facts)})"
        lines.append(indent + branch + text)
        below = indent + ("" if not branch else "   " if branch == "+- " else ":  ")
        for i, child in enumerate(node.inputs):
            show(child, below, "+- " if i == len(node.inputs) - 1 else ":- ")

    show(root, "", "")
    return "\n".join(lines)


def _keys(node: nodes.Node) -> list[str]:
    """What tells a changed row from the others; of rows that never change, nobody asks."""
    if node.kinds.insert_only or not node.upsert_keys:
        return []
    names = [c.name for c in node.columns]
    keys = sorted(sorted(key) for key in node.upsert_keys)
    shown = ", ".join("[" + ", ".join(names[c] for c in key) + "]" for key in keys)
    return [f"upsertKeys=[{shown}]"]


def _clocks(node: nodes.Node) -> list[str]:
    found = []
    for attribute in t.TimeAttribute:
        names = [c.name for c in node.columns if t.time_attribute(c.type) is attribute]
        if names:
            found.append(f"{attribute.value.lower()}=[{', '.join(names)}]")
    return found

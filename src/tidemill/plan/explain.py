"""Plans as text, in the shape of Flink's EXPLAIN CHANGELOG_MODE."""

from __future__ import annotations

from tidemill.plan import nodes
from tidemill.plan.modes import Modes


def explain(root: nodes.Node, modes: Modes) -> str:
    lines: list[str] = []

    def show(node: nodes.Node, indent: str, branch: str) -> None:
        text = node.describe()
        mode = modes.of(node)
        if not isinstance(node, nodes.Sink):
            text = f"{text[:-1]}, changelogMode={mode})" if text.endswith(")") else text
        lines.append(indent + branch + text)
        below = indent + ("" if not branch else "   " if branch == "+- " else ":  ")
        for i, child in enumerate(node.inputs):
            show(child, below, "+- " if i == len(node.inputs) - 1 else ":- ")

    show(root, "", "")
    return "\n".join(lines)


def tree(node: nodes.Node, modes: Modes) -> dict[str, object]:
    """A plan as nested values, for programs."""
    names = [c.name for c in node.columns]
    return {
        "operator": node.describe(),
        "changelog_mode": [] if isinstance(node, nodes.Sink) else modes.of(node).names,
        "columns": [{"name": c.name, "type": str(c.type)} for c in node.columns],
        "upsert_keys": sorted([names[i] for i in sorted(key)] for key in node.upsert_keys),
        "inputs": [tree(child, modes) for child in node.inputs],
    }

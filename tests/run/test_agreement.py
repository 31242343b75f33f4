"""`check` accepts what a job accepts: whatever a start refuses is known without one, or cannot be known before.

No Spark runs: the sources of the modules that start jobs are read.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tidemill.errors import Source, TidemillError
from tidemill.plan import nodes, runnable
from tidemill.plan.environment import Environment, Job, compile_script
from tidemill.plan.nodes import Node
from tidemill.sql import parse_script

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "tidemill"
STARTING = [*sorted((PACKAGE / "spark").rglob("*.py")), PACKAGE / "session.py"]

# What stops a job and has nothing to do with what a script says: why `check` cannot know it.
ONLY_WHEN_RUN = {
    "RUN-001": "a broker has to be reached",
    "RUN-002": "a broker has to be asked for its topics",
    "RUN-007": "a broker has to be asked for rights",
    "RUN-010": "a record has to be read",
    "RUN-011": "a row has to be written",
    "RUN-013": "a row has to be written",
    "RUN-016": "a file or a database has to be read",
    "RUN-020": "a value has to be cast",
    "RUN-021": "a value has to be divided",
    "RUN-022": "memory has to run out",
    "RUN-023": "a disk has to be full",
    "RUN-024": "a key has to be NULL",
    "RUN-030": "a checkpoint has to be there",
    "RUN-031": "--master and --checkpoint are no part of a script",
    "RUN-032": "--checkpoint is no part of a script",
    "RUN-033": "a checkpoint has to be there",
    "RUN-034": "a checkpoint has to be there",
    "RUN-035": "a checkpoint has to be there",
    "RUN-036": "a checkpoint has to be there",
    "RUN-037": "a checkpoint has to be there",
    "RUN-038": "a checkpoint has to be there",
    "RUN-039": "a checkpoint has to be there",
    "RUN-040": "a function has to be called",
    "RUN-041": "a function has to be called",
    "RUN-042": "a function has to travel",
    "RUN-043": "a partitioner has to be called; whether it can be, the planner has looked",
    "RUN-050": "a file has to be read",
    "RUN-099": "a fault of ours",
}

# Calls that say of a script that it is wrong or too much: they belong to the planner.
PLANNERS = {"not_yet", "script_error", "ScriptError"}


def calls(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id


def test_what_is_wrong_with_a_script_is_told_by_the_planner() -> None:
    assert not {(p.name, name) for p in STARTING for name in calls(p) if name in PLANNERS}


def test_what_stops_a_job_cannot_be_known_before() -> None:
    used = {
        code
        for path in STARTING
        for code in re.findall(r'"((?:RUN|PLAN|OPT|FMT)-[0-9]{3})"', path.read_text("utf-8"))
    }
    assert used == set(ONLY_WHEN_RUN)


def lowered() -> set[str]:
    """The nodes that have a case in `Lowering.lower`."""
    tree = ast.parse((PACKAGE / "spark" / "lower.py").read_text(encoding="utf-8"))
    patterns = (p for p in ast.walk(tree) if isinstance(p, ast.MatchClass))
    return {p.cls.attr for p in patterns if isinstance(p.cls, ast.Attribute)}


def scripts() -> list[tuple[str, str]]:
    found = [(p.name, p.read_text("utf-8")) for p in sorted((ROOT / "examples").rglob("*.sql"))]
    for path in sorted((ROOT / "tests" / "parity" / "cases").glob("*/*.case")):
        script = re.search(r"^== script.*?\n(.*?)(?=^== |\Z)", path.read_text("utf-8"), re.M | re.S)
        assert script, path
        found.append((path.name, re.sub(r"\$\{\w+\}", "x", script[1])))
    return found


def test_every_job_that_may_run_can_be_lowered() -> None:
    known = lowered() | {"Sink", "Collect"}
    assert {"Scan", "Aggregate"} <= known
    jobs = 0
    for name, text in scripts():
        try:
            answers = compile_script(parse_script(Source(name, text), {}), Environment())
        except TidemillError:
            continue  # a case of what is refused
        for job in answers:
            if not isinstance(job, Job) or job.not_runnable:
                continue
            jobs += 1
            found = {type(node).__name__ for root in job.roots for node in nodes.walk(root)}
            assert found <= known, name
    assert jobs > 250


def kinds(kind: type[Node]) -> Iterator[type[Node]]:
    for below in kind.__subclasses__():
        yield below
        yield from kinds(below)


# Judged by what they hold, or left out of every plan that runs.
CONDITIONAL = {"ChangelogNormalize"}


def test_every_node_can_be_lowered_or_is_called_not_yet_runnable() -> None:
    refused = tuple(kind for kind, _ in runnable._NODES)
    for kind in set(kinds(Node)):
        if kind.__subclasses__() or kind.__module__.partition(".")[0] != "tidemill":
            continue
        name = kind.__name__
        is_known = name in lowered() | CONDITIONAL | {"Sink", "Collect"}
        assert is_known or issubclass(kind, refused), name

"""The statements whose plans Flink has recorded, as Tidemill plans them: each is compiled once for all tests."""

from __future__ import annotations

import contextlib
import copy
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "parity"))

from plan_case import TABLES, plan_paths, read_plans  # noqa: E402

from tidemill.errors import Source, TidemillError  # noqa: E402
from tidemill.plan.environment import Environment, Job, compile_script  # noqa: E402
from tidemill.sql import ast, parse_script  # noqa: E402


@cache
def _shared() -> Environment:
    """The tables of tables.sql. One that cannot be declared yet is missing, so what reads it needs a mark."""
    environment = Environment()
    for statement in parse_script(Source("tables.sql", TABLES.read_text("utf-8"))).statements:
        with contextlib.suppress(TidemillError):
            compile_script(ast.Script(statement.span, (statement,)), environment)
    return environment


def with_tables(environment: Environment | None = None) -> Environment:
    """A copy that a test may change; tables never change and are not copied."""
    given = environment or _shared()
    kept = {id(table): table for table in given.objects.values()}
    return copy.deepcopy(given, kept)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Compiled:
    name: str
    script: ast.Script
    jobs: tuple[Job, ...]


@cache
def compiled(path: Path) -> tuple[Compiled, ...]:
    """The statements of a file that we plan; what we refuse is left out."""
    found = []
    for entry in read_plans(path).entries:
        with contextlib.suppress(TidemillError):
            script = parse_script(Source("entry.sql", entry.sql))
            answers = compile_script(script, with_tables())
            jobs = tuple(a for a in answers if isinstance(a, Job))
            found.append(Compiled(entry.full_name, script, jobs))
    return tuple(found)


__all__ = ["Compiled", "compiled", "plan_paths", "with_tables"]

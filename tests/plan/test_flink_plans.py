"""Our plans are Flink's: the same columns, the same operators, the same changelog modes, the same refusals.

In: the statements and plans of tests/parity/plans, the plans in the answers of tests/parity/cases. An entry that is not
equal carries a mark; a mark whose entry is equal fails. REWRITE=1 takes such marks away and gives unequal entries a
`not yet`. Whether a difference stays (`differs`) and which code of ours answers a refusal (`error`) is said by hand.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PARITY = Path(__file__).parent.parent / "parity"
sys.path.append(str(PARITY))

from case import Case, Mark, case_paths, fill, read_answer, read_case  # noqa: E402
from plan_case import (  # noqa: E402
    CASE_MARKS,
    Entry,
    Tree,
    parse_plan,
    plan_paths,
    read_case_marks,
    read_plans,
    write_case_marks,
    write_plans,
)
from recorded import with_tables  # noqa: E402

from tidemill.errors import Diagnostic, Source, TidemillError  # noqa: E402
from tidemill.plan.environment import Environment, Job, Text, compile_script  # noqa: E402
from tidemill.sql import ast, parse_script  # noqa: E402
from tidemill.tables.modern import modernise  # noqa: E402

# What we refuse only because we cannot do it yet: no answer to what Flink refuses.
NOT_YET = {"PLAN-014", "PLAN-020", "SQL-017"}
STALE = "was not recorded as it stands: make plans-record"
JOBS = (ast.QueryStatement, ast.Insert, ast.StatementSet)


@dataclass(frozen=True)
class Planned:
    """Our answer to a script: what its jobs look like, or why there is none."""

    columns: tuple[str, ...] = ()
    roots: tuple[Tree, ...] = ()
    problem: Diagnostic | None = None

    def lines(self) -> Iterator[str]:
        yield from (f"> {column}" for column in self.columns)
        for root in self.roots:
            yield from root.lines()


def plan(sql: str, environment: Environment) -> Planned:
    """Every job of a script as EXPLAIN shows it; the columns are the last query's."""
    columns: tuple[str, ...] = ()
    roots: list[Tree] = []
    try:
        script, _ = modernise(parse_script(Source("entry.sql", sql)))
        for statement in script.statements:
            is_job = isinstance(statement, JOBS) or getattr(statement, "query", None) is not None
            if not is_job or isinstance(statement, ast.CreateView):
                compile_script(ast.Script(statement.span, (statement,)), environment)
                continue
            if isinstance(statement, ast.QueryStatement):
                columns = columns_of(statement, environment)
            explained = ast.Explain(statement.span, statement, ("CHANGELOG_MODE",))
            [shown] = compile_script(ast.Script(statement.span, (explained,)), environment)
            assert isinstance(shown, Text)
            roots += parse_plan(physical(shown.text))
    except TidemillError as error:
        return Planned(problem=error.diagnostics[0])
    return Planned(columns, tuple(roots))


def columns_of(statement: ast.QueryStatement, environment: Environment) -> tuple[str, ...]:
    [job] = compile_script(ast.Script(statement.span, (statement,)), environment)
    assert isinstance(job, Job)
    return tuple(f"{c.name} {c.type}" for c in job.roots[0].input.columns)


def physical(text: str) -> str:
    """The physical plan of an EXPLAIN, which may have other sections, too."""
    found = re.search(r"== Optimized Physical Plan ==\n(.*?)(?:\n\s*\n== |\Z)", text, re.DOTALL)
    return found[1] if found else text


# --- recorded statements ------------------------------------------------------------------------


def differences(flink: Planned, ours: Planned, code: str | None) -> str | None:
    """What is not equal, or nothing."""
    problem = ours.problem
    if not flink.roots:
        if problem is None:
            return "we plan what Flink refuses"
        if problem.code == code and code not in NOT_YET:
            return None
        wanted = f"{code} was expected, but " if code else ""
        return f"{wanted}{problem.code}: {problem.message}"
    if problem is not None:
        return f"{problem.code}: {problem.message}"
    if not same_columns(flink.columns, ours.columns) or flink.roots != ours.roots:
        shown = difflib.unified_diff(
            list(flink.lines()), list(ours.lines()), "Flink", "Tidemill", lineterm="", n=2
        )
        return "\n".join(shown)
    return None


def same_columns(flink: tuple[str, ...], ours: tuple[str, ...]) -> bool:
    """Flink's schema calls a column a time attribute even where no window would take it: it is computed, grouped by, or
    has been through a regular join. Ours says what holds; so it may say less, never more."""

    def same(theirs: str, mine: str) -> bool:
        return mine in (theirs, re.sub(r" \*(ROWTIME|PROCTIME)\*", "", theirs))

    return len(flink) == len(ours) and all(map(same, flink, ours))


def difference_of(entry: Entry) -> str | None:
    recorded = entry.plan
    assert recorded is not None
    flink = Planned(recorded.columns, parse_plan(recorded.text) if recorded.text else ())
    ours = plan(entry.sql, with_tables())
    return differences(flink, ours, entry.code)


def in_short(difference: str) -> str:
    """One line of a difference, for a mark."""
    changed = [line for line in difference.split("\n") if re.match(r"[-+](?![-+])", line)]
    if not changed:
        return difference.split("\n")[0]
    mine = next((line[1:].strip() for line in changed if line[0] == "+"), "nothing")
    theirs = next((line[1:].strip() for line in changed if line[0] == "-"), "nothing")
    return f"Flink has {theirs}, we have {mine}"


def remarked(entry: Entry) -> Entry:
    found = difference_of(entry)
    if found is None:
        return dataclasses.replace(entry, mark=None)
    if entry.mark and entry.mark.kind == "differs":
        return entry
    return dataclasses.replace(entry, mark=Mark("not yet", in_short(found)))


@pytest.mark.parametrize("path", plan_paths(), ids=lambda p: p.stem)
def test_plans_are_flinks(path: Path) -> None:
    file = read_plans(path)
    stale = [f"{entry.place}: {entry.name} {STALE}" for entry in file.entries if not entry.is_fresh]
    assert not stale, "\n".join(stale)
    if os.environ.get("REWRITE"):
        marked = dataclasses.replace(file, entries=tuple(map(remarked, file.entries)))
        path.write_text(write_plans(marked), encoding="utf-8")
        return
    wrong = []
    for entry in file.entries:
        found = difference_of(entry)
        if entry.mark is None and found is not None:
            wrong.append(f"{entry.place}: {entry.name}\n{entry.sql}\n{found}")
        elif entry.mark is not None and found is None:
            wrong.append(f"{entry.place}: {entry.name} is equal: its mark can go")
    shown = "\n\n".join(wrong[:20])
    assert not wrong, f"{len(wrong)} of {len(file.entries)} are not as marked\n{shown}"


def test_there_are_enough_statements() -> None:
    assert sum(len(read_plans(path).entries) for path in plan_paths()) >= 500


# --- the plans of parity cases ------------------------------------------------------------------


SERVERS = {"BOOTSTRAP": "b:9092", "REGISTRY": "http://r:8081"}


def difference_of_case(case: Case, recorded: str) -> str | None:
    names = {each.name: each.name for each in (*case.topics, *case.groups)}
    files = {name: f"/{name}" for name, _ in case.files}
    ours = plan(fill(case.script, {**names, **files, **SERVERS}), Environment())
    # The types of what comes out are compared when the case is replayed.
    ours = dataclasses.replace(ours, columns=())
    return differences(Planned((), parse_plan(recorded)), ours, None)


def test_plans_of_parity_cases_are_flinks() -> None:
    marks = read_case_marks()
    found: dict[str, str] = {}
    cases = {case.name: case for case in map(read_case, case_paths())}
    for name, case in cases.items():
        recorded = read_answer(case.answer_path).changelog_mode
        difference = difference_of_case(case, recorded) if recorded else None
        if difference:
            found[name] = difference
    if os.environ.get("REWRITE"):
        renewed = {
            name: marks[name]
            if name in marks and marks[name].kind == "differs"
            else Mark("not yet", in_short(difference))
            for name, difference in found.items()
        }
        CASE_MARKS.write_text(write_case_marks(renewed), encoding="utf-8")
        return
    wrong = [f"{name}\n{found[name]}" for name in found if name not in marks]
    wrong += [f"{name} is equal: its mark can go" for name in marks if name not in found]
    shown = "\n\n".join(wrong[:20])
    assert not wrong, f"{len(wrong)} of {len(cases)} cases are not as marked\n{shown}"

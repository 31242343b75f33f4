"""Files of recorded plans: those in the tree are fresh and say each thing once; mistakes are told by line."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from case import CaseError, Mark
from plan_case import Plan, Tree, parse_plan, plan_paths, read_plans, write_plans

TEXT = """\
# A sentence.

== first
# A reason.
error PLAN-030
not yet: joins
CREATE VIEW v AS SELECT 1;
SELECT * FROM v
---- 0123456789abcdef
! a.B: no

== second
SELECT 2
---- 0123456789abcdef
> EXPR$0 INT NOT NULL
Calc(select=[2 AS EXPR$0], changelogMode=[I])
+- Values(tuples=[[{ 0 }]], changelogMode=[I])

== third
SELECT 3
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "x.plans"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_is_read_and_written_as_it_was(tmp_path: Path) -> None:
    file = read_plans(written(tmp_path, TEXT))
    assert write_plans(file) == TEXT
    first, second, third = file.entries
    assert (first.code, first.mark) == ("PLAN-030", Mark("not yet", "joins"))
    assert first.statements[-2:] == ("CREATE VIEW v AS SELECT 1", "SELECT * FROM v")
    assert first.plan == Plan("0123456789abcdef", error=("a.B: no",))
    assert second.plan is not None and second.plan.columns == ("EXPR$0 INT NOT NULL",)
    assert third.plan is None and not third.is_fresh


@pytest.mark.parametrize("path", plan_paths(), ids=lambda p: p.stem)
def test_files_in_the_tree_are_fresh_and_in_their_form(path: Path) -> None:
    file = read_plans(path)
    assert write_plans(file) == path.read_text(encoding="utf-8")
    assert [entry.place for entry in file.entries if not entry.is_fresh] == []
    inputs = [entry.input for entry in file.entries]
    assert len(set(inputs)) == len(inputs), "a statement stands here twice"


def test_what_flink_saw_decides_whether_an_answer_is_fresh(tmp_path: Path) -> None:
    [*_, third] = read_plans(written(tmp_path, TEXT)).entries
    answered = f"{TEXT}---- {third.input}\n> EXPR$0 INT NOT NULL\nValues(changelogMode=[I])\n"
    assert read_plans(written(tmp_path, answered)).entries[-1].is_fresh
    marked = answered.replace("SELECT 3", "not yet: so\nSELECT 3")
    assert read_plans(written(tmp_path, marked)).entries[-1].is_fresh
    other = answered.replace("SELECT 3", "SELECT 4")
    assert not read_plans(written(tmp_path, other)).entries[-1].is_fresh


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("# A sentence.", "", "x.plans:1: the first line must be a comment"),
        ("== second", "== first", "x.plans:12: 'first' stands here twice"),
        ("== second", "== a second", "x.plans:12: an entry begins with == and its name"),
        ("\nSELECT 3", "", "x.plans:20: an entry has a statement"),
        ("SELECT 3", "SELECT 3\n---- a\n---- b", "x.plans:22: an entry has one answer"),
        ("== first", "so\n== first", "x.plans:3: 'so' stands before the first entry"),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in TEXT
    with pytest.raises(CaseError, match=re.escape(message)):
        read_plans(written(tmp_path, TEXT.replace(old, new, 1)))


PLAN = """\
Sink(table=[default_catalog.default_database.out], fields=[k, c], upsertMaterialize=[true], changelogMode=[NONE])
+- Calc(select=[k, c], where=[>(c, 1)], changelogMode=[I,UB,UA])
   +- Join(joinType=[InnerJoin], where=[=(k, k0)], leftInputSpec=[NoUniqueKey], rightInputSpec=[HasUniqueKey], \
changelogMode=[I,UB,UA], stateTtlHints=[[[STATE_TTL options:{LEFT=1d}]]])
      :- Exchange(distribution=[hash[k]], changelogMode=[I])
      :  +- TableSourceScan(table=[[default_catalog, default_database, t, watermark=[ts]]], changelogMode=[I])
      +- GlobalWindowAggregate(groupBy=[k], changelogMode=[I])
         +- LocalWindowAggregate(groupBy=[k], changelogMode=[I])
            +- DropUpdateBefore(changelogMode=[I,UA,D])
               +- TableSourceScan(table=[s], changelogMode=[I,UB,UA,D])

Sink(table=[p])
+- Union(all=[true], changelogMode=[I])
   :- Union(all=[true], changelogMode=[I])
   :  :- Values(changelogMode=[I])
   :  +- TableSourceScan(table=[a], changelogMode=[I])
   +- Union(all=[true], changelogMode=[I])
      :- Values(changelogMode=[I])
      +- Values(changelogMode=[I])
"""


def test_a_plan_is_the_tree_of_its_stateful_operators() -> None:
    join = (
        ("joinType", "InnerJoin"),
        ("leftInputSpec", "NoUniqueKey"),
        ("rightInputSpec", "HasUniqueKey"),
    )
    scan = Tree("TableSourceScan", "[I,UB,UA,D]", (("table", "s"),))
    dropped = Tree("DropUpdateBefore", "[I,UA,D]", (), (scan,))
    left = Tree("TableSourceScan", "[I]", (("table", "t"),))
    right = Tree("WindowAggregate", "[I]", (), (dropped,))
    first = Tree(
        "Sink",
        "",
        (("table", "out"), ("upsertMaterialize", "true")),
        (Tree("Join", "[I,UB,UA]", join, (left, right)),),
    )
    values = Tree("Values", "[I]")
    union = Tree(
        "Union", "[I]", (), (values, Tree("TableSourceScan", "[I]", (("table", "a"),)), values)
    )
    assert parse_plan(PLAN) == (first, Tree("Sink", "", (("table", "p"),), (union,)))


def test_what_is_no_plan_is_refused() -> None:
    with pytest.raises(ValueError, match=re.escape("not a line of a plan: == Plan ==")):
        parse_plan("== Plan ==")


def test_of_a_chain_of_causes_the_ends_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    tools = Path(__file__).parent.parent.parent / "tools" / "flink"
    monkeypatch.setattr(sys, "path", [str(tools), *sys.path])
    from record_plans import said_by

    wrapped = ["java.lang.RuntimeException", "Error while applying rule X, args [rel#12]"]
    assert said_by([wrapped, ["a.B", "no"]]) == [["a.B", "no"]]
    assert said_by([["a.B", "x: no"], ["c.D", "no"]]) == [["a.B", "x: no"]]
    assert said_by([["a.B", "x"], ["c.D", "y"], ["e.F", "z"]]) == [["a.B", "x"], ["e.F", "z"]]

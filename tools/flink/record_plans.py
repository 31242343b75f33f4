"""Ask Flink for its plans and write them down.

    python tools/flink/record_plans.py [--all] [NAME…]

In: the statements of tests/parity/plans, the oracle in Flink's own environment; no broker, for planning reads none.
Out: the answers in the same files, a line printed for each that was asked for. Without arguments those are recorded
that have no answer or whose input has changed; a NAME (`area/name`, a prefix of it, or a glob) records anew, --all
everything. Law: only what stands below an entry's rule is written.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests" / "parity"), str(HERE)]

import install  # noqa: E402
from case import CaseError  # noqa: E402
from plan_case import Entry, Plan, plan_paths, read_plans, write_plans  # noqa: E402
from record import Chain, Oracle, Unrecorded, asked_for, chain_text, is_chosen, stable  # noqa: E402

# How the optimizer begins when one of its rules has refused.
RULE_FAILED = "Error while applying rule "


def said_by(chain: Chain) -> Chain:
    """Of a chain of causes what says something: the first, and the last unless the first quotes it."""
    links = [link for link in chain if not link[1].startswith(RULE_FAILED)]
    first, last = links[0], links[-1]
    return [first] if last[1] in first[1] else [first, last]


def ask(oracle: Oracle, entry: Entry) -> Plan:
    said = oracle.ask("plan", statements=entry.statements)
    if "error" in said:
        text = stable(chain_text(said_by(said["error"]), first_lines=True), {})
        return Plan(entry.input, error=tuple(text.split("\n")))
    columns = tuple(f"{name} {type_}" for name, type_ in said["types"] or ())
    return Plan(entry.input, columns, "\n".join(line.rstrip() for line in said["plan"].split("\n")))


def main() -> int:
    asked = asked_for(__doc__)
    try:
        files = [read_plans(path) for path in plan_paths()]
    except CaseError as problem:
        print(problem, file=sys.stderr)
        return 2

    def is_wanted(entry: Entry) -> bool:
        if asked.names:
            return is_chosen(entry.full_name, asked.names)
        return asked.all or not entry.is_fresh

    wanted = {entry.full_name for file in files for entry in file.entries if is_wanted(entry)}
    if not wanted:
        print("no entry is called so" if asked.names else "all plans are fresh")
        return 2 if asked.names else 0
    failed = 0
    oracle = Oracle(install.installed_home())
    try:
        for file in files:
            entries = []
            for entry in file.entries:
                if entry.full_name in wanted:
                    try:
                        entry = dataclasses.replace(entry, plan=ask(oracle, entry))
                        said = "refused" if entry.plan and entry.plan.error else "planned"
                    except Unrecorded as problem:
                        failed += 1
                        said = f"FAILED {problem}"
                    print(f"{entry.full_name}: {said}", flush=True)
                entries.append(entry)
            if any(entry.full_name in wanted for entry in entries):
                text = write_plans(dataclasses.replace(file, entries=tuple(entries)))
                file.path.write_text(text, encoding="utf-8")
    finally:
        oracle.close()
    print(f"{len(wanted) - failed} of {len(wanted)} answered")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

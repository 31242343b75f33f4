"""The one-way import rule of docs/architecture.md, read off the source text."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "src" / "tidemill"

FOUNDATION = {"errors", "types", "changelog"}
# Each area and what it may import besides itself and the foundation.
ALLOWED = {
    "errors": set(),
    "types": set(),
    "changelog": set(),
    "sql": set(),
    "plugins": set(),
    "formats": {"plugins"},
    "broker": set(),
    "functions": {"sql"},
    "tables": {"sql", "functions", "plugins", "formats"},
    "plan": {"sql", "functions", "tables"},
    "spark": {"sql", "functions", "tables", "plan", "formats", "output"},
    "output": set(),
    "session": {"sql", "tables", "plan", "spark", "output"},
    "cli": {"sql", "tables", "plan", "spark", "session", "broker", "output"},
    "__init__": {"session", "spark", "functions"},
}


def area(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "tidemill":
                found |= {f"tidemill.{alias.name}" for alias in node.names}
            else:
                found.add(node.module)
    return found


def test_every_area_imports_only_what_lies_below_it() -> None:
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        own = area(path)
        assert own in ALLOWED, (
            f"a new area {own}: give it a place in ALLOWED and in docs/architecture.md"
        )
        allowed = ALLOWED[own] | (set() if own in FOUNDATION else FOUNDATION) | {own, "__version__"}
        wrong += [
            f"{path.relative_to(PACKAGE)} imports {name}"
            for name in imports(path)
            if name.startswith("tidemill.") and name.split(".")[1] not in allowed
        ]
    assert not wrong, "\n".join(wrong)


def test_only_spark_knows_pyspark() -> None:
    users = {
        area(path)
        for path in PACKAGE.rglob("*.py")
        if any(name.split(".")[0] in ("pyspark", "py4j") for name in imports(path))
    }
    # session names Spark's classes for type checkers only.
    assert users <= {"spark", "session"}


def test_check_needs_neither_spark_nor_arrow(tmp_path: Path) -> None:
    script = tmp_path / "s.sql"
    script.write_text("CREATE TABLE t (a INT) WITH ('connector' = 'datagen'); SELECT a FROM t;")
    code = (
        "import sys; from tidemill.cli import cli\n"
        f"try: cli(['check', {str(script)!r}], standalone_mode=False)\n"
        "except SystemExit as stop: assert stop.code == 0, stop.code\n"
        "heavy = {'pyspark', 'pyarrow', 'py4j', 'orjson', 'msgspec', 'confluent_kafka', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

"""What `import tidemill` gives, and that docs/python.md tells it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import tidemill
from tidemill.errors import TidemillError
from tidemill.session import Session

PAGE = (Path(__file__).parent.parent / "docs" / "python.md").read_text(encoding="utf-8")
# Used by the command line, too thin to promise to programs.
INTERNAL = {"adapt_tables", "compile", "environment", "prepare", "start", "start_all", "start_each"}


def test_all_names_are_there_and_sorted() -> None:
    assert tidemill.__all__ == sorted(tidemill.__all__)
    for name in tidemill.__all__:
        assert getattr(tidemill, name) is not None


def test_nothing_else_is_public() -> None:
    modules = {p.name.removesuffix(".py") for p in Path(tidemill.__file__).parent.iterdir()}
    public = {
        name
        for name in vars(tidemill)
        if not name.startswith("_") and name not in modules - set(tidemill.__all__)
    }
    assert public - {"annotations", "Any", "TYPE_CHECKING"} <= set(tidemill.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(tidemill, "Sesion")


def test_errors_are_one_family() -> None:
    for name in ("ScriptError", "UsageError", "JobError"):
        assert issubclass(getattr(tidemill, name), TidemillError)
    codes = [tidemill.ScriptError.exit_code, tidemill.UsageError.exit_code]
    assert [*codes, tidemill.JobError.exit_code] == [1, 2, 3]


def test_import_is_cheap() -> None:
    code = (
        "import sys, tidemill\n"
        "heavy = {'pyspark', 'pyarrow', 'orjson', 'msgspec', 'click', 'rich', 'confluent_kafka'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_package_is_typed() -> None:
    assert (Path(tidemill.__file__).parent / "py.typed").exists()


def test_public_names_are_documented() -> None:
    for name in tidemill.__all__:
        assert re.search(rf"\b{re.escape(name)}\b", PAGE), name


def test_members_of_session_are_documented() -> None:
    members = {n for n in {*vars(Session), *vars(Session())} if not n.startswith("_")}
    assert members >= INTERNAL
    for name in members - INTERNAL:
        assert re.search(rf"`{name}\b", PAGE), name


def test_a_misspelt_argument_of_session_is_not_taken_for_a_setting() -> None:
    from tidemill import Session

    with pytest.raises(TypeError, match="checkpiont"):
        Session(checkpiont="/tmp/x")

"""The documents are true: generated parts are fresh, links live, commands exist, scripts pass `check`."""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest

from tidemill.cli import cli
from tidemill.errors import Source
from tidemill.plan.environment import Environment, Job, compile_script
from tidemill.sql import parse_script
from tidemill.tables import CONNECTORS, FORMATS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])


def load_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs", ROOT / "tools" / "docs.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    # Its dataclasses look their module up by name.
    import sys

    sys.modules["docs"] = module
    spec.loader.exec_module(module)
    return module


generator = load_generator()


@dataclass(frozen=True)
class Fence:
    """A fenced block of a page."""

    path: Path
    line: int
    words: tuple[str, ...]
    text: str

    @property
    def place(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}"


def fences(*languages: str) -> list[Fence]:
    found = []
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        # In a list a block is indented.
        block = re.compile(r"^( *)```(\S[^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
        for match in block.finditer(text):
            words = tuple(match[2].split())
            if words[0] in languages:
                line = text.count("\n", 0, match.start()) + 1
                found.append(Fence(path, line, words, textwrap.dedent(match[3])))
    return found


def ids(fence: Fence) -> str:
    return fence.place


# --- generated parts -----------------------------------------------------------------------------


def test_generated_parts_are_fresh() -> None:
    assert not generator.stale(), "run make docs"


def test_a_page_with_generated_parts_says_so_in_its_first_line() -> None:
    for path in generator.pages():
        assert path.read_text(encoding="utf-8").splitlines()[0] == generator.FIRST_LINE, path


def test_every_block_that_can_be_generated_is_on_a_page() -> None:
    text = "".join(p.read_text(encoding="utf-8") for p in generator.pages())
    used = {m["name"] for m in generator.BLOCK.finditer(text)}
    assert used == set(generator.BLOCKS)
    assert text.count("<!-- make docs:") == len(generator.BLOCK.findall(text))


@pytest.mark.parametrize("name", CONNECTORS)
def test_every_connector_has_a_page_with_its_options_and_a_script(name: str) -> None:
    path = DOCS / "connectors" / f"{name}.md"
    text = path.read_text(encoding="utf-8")
    assert f"<!-- make docs: connector-options {name} -->" in text
    assert any(f.path == path and "script" in f.words for f in fences("sql"))


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_has_a_page_with_its_options_and_a_script(name: str) -> None:
    path = DOCS / "formats" / f"{name}.md"
    text = path.read_text(encoding="utf-8")
    assert f"<!-- make docs: format-options {name} -->" in text
    assert f"({name}.md)" in (DOCS / "formats" / "README.md").read_text(encoding="utf-8")
    assert any(f.path == path and "script" in f.words for f in fences("sql"))


def test_every_diagnostic_of_the_source_is_listed() -> None:
    page = (DOCS / "errors.md").read_text(encoding="utf-8")
    source = [*(ROOT / "src").rglob("*.py"), *(ROOT / "kernel/src/main").rglob("*.java")]
    used = {c for p in source for c in re.findall(r'"([A-Z]+-\d{3})"', p.read_text("utf-8"))}
    assert {c.split("-")[0] for c in used} == set(generator.AREAS)
    assert not {c for c in used if f'<a id="{c.lower()}"></a>`{c}`' not in page}


def test_codes_that_pages_name_exist() -> None:
    known = {f.code for f in generator.found_codes()} | set(generator.CODES)
    areas = "|".join(generator.AREAS)
    for path in PAGES:
        named = set(re.findall(rf"\b(?:{areas})-\d{{3}}\b", path.read_text(encoding="utf-8")))
        assert named <= known, f"{path.name}: {named - known}"


def test_a_sentence_is_found_behind_a_name_and_what_is_filled_in_is_left_open() -> None:
    tree = ast.parse(
        'message = "not this one"\n'
        "message = f\"no '{x}' here\" + ': ' + reason\n"
        'raise job_error("AREA-001", message, hint)\n'
        'message = "nor this one"\n'
        'table = (("pattern", "AREA-002", "as it is"),)\n'
    )
    found = [(f.code, f.sentence) for f in generator._scan(tree)]
    assert found == [("AREA-001", "no '…' here: …"), ("AREA-002", "as it is")]


def test_every_environment_variable_of_ours_is_documented() -> None:
    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    used = set()
    for path in (ROOT / "src").rglob("*.py"):
        used |= set(re.findall(r'"(TIDEMILL_[A-Z_]+)"', path.read_text(encoding="utf-8")))
    assert used and all(f"`{name}`" in page for name in used), used


def test_every_setting_of_spark_that_we_choose_has_its_reason() -> None:
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    section = page.split("## Settings of Spark and why")[1].split("\n## ")[0]
    source = ROOT / "src/tidemill/spark"
    text = "".join((source / name).read_text("utf-8") for name in ("engine.py", "runner.py"))
    chosen = set(
        re.findall(r'(?:^    |(?<!_)settings\[|conf\.set\()"(spark\.[\w.]+)"(?=:|\]|,)', text, re.M)
    )
    assert len(chosen) > 20
    assert not {name for name in chosen if f"`{name}`" not in section}


# --- links ---------------------------------------------------------------------------------------


def anchors(path: Path) -> set[str]:
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    slugs = (re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings)
    return {*slugs, *re.findall(r'<a id="([^"]+)"', text)}


def links() -> Iterator[tuple[Path, str]]:
    for path in PAGES:
        text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            yield path, target


def test_links_inside_the_project_lead_somewhere() -> None:
    dead = []
    for path, target in links():
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        aim = (path.parent / name).resolve() if name else path
        if not aim.exists() or (anchor and anchor not in anchors(aim)):
            dead.append(f"{path.relative_to(ROOT)} → {target}")
    assert not dead, dead


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached = {ROOT / "README.md"}
    todo = list(reached)
    while todo:
        page = todo.pop()
        for path, target in links():
            aim = (path.parent / target.partition("#")[0]).resolve()
            if path == page and aim.suffix == ".md" and aim not in reached and aim.exists():
                reached.add(aim)
                todo.append(aim)
    assert set(PAGES) <= reached, {str(p.relative_to(ROOT)) for p in set(PAGES) - reached}


def test_pages_that_code_points_to_exist() -> None:
    for path in (ROOT / "src").rglob("*.py"):
        for name in re.findall(r"\bdocs/[\w/-]+\.md\b", path.read_text(encoding="utf-8")):
            assert (ROOT / name).exists(), f"{path.relative_to(ROOT)} names {name}"


# --- commands ------------------------------------------------------------------------------------


def shown_commands() -> Iterator[tuple[str, list[str], bool]]:
    """Commands of `$` lines in console and sh blocks, of text between back quotes, and of the heads of examples;
    and whether they are whole: running text may speak of `tidemill run --bounded`."""
    texts: list[tuple[str, list[str], bool]] = []
    for fence in fences("console", "sh"):
        whole = fence.text.replace("\\\n", " ")
        texts.append((fence.place, re.findall(r"^\$ (.*)$", whole, re.MULTILINE), True))
    for path in PAGES:
        inline = re.findall(r"`(tidemill [^`]+|make [a-z][^`]*)`", path.read_text(encoding="utf-8"))
        texts.append((str(path.relative_to(ROOT)), inline, False))
    for path in sorted((ROOT / "examples").rglob("*.sql")):
        head = re.findall(r"^--     (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        texts.append((path.name, "\n".join(head).replace("\\\n", " ").splitlines(), True))
    for place, lines, whole_line in texts:
        for line in lines:
            lexer = shlex.shlex(line, posix=True, punctuation_chars="|;&")
            lexer.whitespace_split = True
            words: list[str] = []
            for word in [*lexer, ";"]:
                if word and set(word) <= set("|;&"):
                    if words and words[0] in ("tidemill", "make"):
                        yield place, words, whole_line
                    words = []
                else:
                    words.append(word)


def problem(words: list[str], is_whole: bool = True) -> str | None:
    """What is wrong with a `tidemill …` command line; nothing is run, no file opened."""
    command: click.Command = cli
    context = click.Context(cli, info_name="tidemill", **cli.context_settings)
    rest = words[1:]
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        try:
            name, inner, rest = command.resolve_command(context, rest)
        except click.UsageError:
            return f"there is no command '{rest[0]}'"
        assert inner is not None
        command, context = inner, click.Context(inner, context, info_name=name)
    if isinstance(command, click.Group):
        return None
    try:
        values, extra, _ = command.make_parser(context).parse_args(args=rest)
    except click.UsageError as wrong:
        return wrong.format_message()
    if extra:
        return f"too many arguments: {extra}"
    # What was not given is None, or a mark of click's own.
    given = {name for name, value in values.items() if isinstance(value, (str, tuple)) and value}
    arguments = [p for p in command.params if isinstance(p, click.Argument) and p.required]
    missing = [p.name for p in arguments if p.name not in given]
    return f"missing: {missing}" if missing and is_whole else None


def test_commands_that_are_shown_exist() -> None:
    verbs = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    seen, wrong = 0, []
    for place, words, is_whole in shown_commands():
        seen += 1
        if words[0] == "make":
            unknown = {w for w in words[1:] if "=" not in w} - verbs
            found = f"there is no verb {sorted(unknown)}" if unknown else None
        else:
            found = problem(words, is_whole)
        if found:
            wrong.append(f"{place}: {shlex.join(words)}: {found}")
    assert not wrong, "\n".join(wrong)
    assert seen > 20


def test_a_wrong_command_would_be_noticed() -> None:
    assert problem(["tidemill", "run", "a.sql", "--var", "A=1"]) is None
    assert "no command" in (problem(["tidemill", "rum", "a.sql"]) or "")
    assert "--boundet" in (problem(["tidemill", "run", "--boundet", "a.sql"]) or "")
    assert "missing" in (problem(["tidemill", "topic", "read"]) or "")
    assert "too many" in (problem(["tidemill", "topic", "read", "a", "b"]) or "")


# --- scripts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("fence", fences("sql"), ids=ids)
def test_sql_blocks_parse_and_scripts_pass_check(fence: Fence) -> None:
    script = parse_script(Source(fence.place, fence.text), {})
    if "script" in fence.words:
        environment = Environment()
        assert compile_script(script, environment), "a script has a job"
        assert not [w for w in environment.warnings if w.severity == "warning"]


# The format of plugins.md has to be installed; tests/faces/test_plugin_command.py does so and runs the page's script.
# The others run in tests/run/test_page_examples.py.
TABLES = [
    f
    for f in fences("sql")
    if f.path.parent.name in ("connectors", "formats") and f.path.name != "plugins.md"
]


@pytest.mark.parametrize("fence", TABLES, ids=ids)
def test_examples_of_tables_can_be_planned_as_they_stand(fence: Fence) -> None:
    assert "script" in fence.words, "an example has a query, so that it is planned as a whole"
    jobs = compile_script(parse_script(Source(fence.place, fence.text), {}), Environment())
    assert [d.message for job in jobs if isinstance(job, Job) for d in job.not_runnable] == []


def test_a_block_in_a_list_is_looked_at() -> None:
    shown = {f.path.name for f in fences("sql", "console") if "--checkpoint /data/che" in f.text}
    assert "moving-from-flink.md" in shown


@pytest.mark.parametrize("fence", fences("python"), ids=ids)
def test_python_blocks_compile(fence: Fence) -> None:
    compile(fence.text, fence.place, "exec")


def test_the_partitioner_that_is_shown_places_a_row() -> None:
    (shown,) = [f.text for f in fences("python") if f.path.name == "kafka.md"]
    made: dict[str, Any] = {}
    exec(shown, made)  # the page's own text
    place = made["ByRegion"]().partition
    assert [place({"region": "x" * n}, None, b"", "t", [0, 1, 2]) for n in range(4)] == [0, 1, 2, 0]


def test_the_readme_shows_the_first_example_as_it_is() -> None:
    example = (ROOT / "examples" / "first.sql").read_text(encoding="utf-8")
    shown = [f.text for f in fences("sql") if f.path == ROOT / "README.md"]
    statements = example[example.index("CREATE TABLE") :]
    assert statements in shown

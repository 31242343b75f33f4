"""CREATE FUNCTION and calls of what it makes.

In: a statement, or a call in a query. Out: a `PythonFunction`, or a sentence that says what is wrong with the module,
the function or the call. Java's functions are refused with the Python form written out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path

from tidemill import types as t
from tidemill.errors import ScriptError, Span, script_error
from tidemill.functions import (
    AGGREGATE,
    SCALAR,
    TABLE,
    FunctionProblem,
    PythonFunction,
    load_function,
    load_partition_method,
)
from tidemill.sql import ast
from tidemill.tables.catalog import Table
from tidemill.tables.kafka import KafkaTable, is_partitioner_class

FindFunction = Callable[[ast.QualifiedName], PythonFunction | None]
"""How a query looks up a function that scripts have made."""


def no_function(name: ast.QualifiedName) -> PythonFunction | None:
    """For expressions that can name built-in functions only."""
    return None


@dataclass(frozen=True)
class PythonPlaces:
    """Where a script's Python comes from, and where it does not."""

    allowed: tuple[Path, ...]
    """Where modules are looked for, beside the installed packages."""
    others: tuple[Path, ...] = ()
    """Where they might be meant to be: only to say how they are allowed."""

    def hint(self, problem: FunctionProblem) -> str | None:
        """What to do about a function that cannot be had."""
        top = (problem.missing_module or "").partition(".")[0]
        for place in self.others if top else ():
            if PathFinder.find_spec(top, [str(place)]) is not None:
                return f"it is in {place}, and a script's Python is not loaded unless you allow it: --pyfiles {place}"
        return problem.hint


def make_function(statement: ast.CreateFunction, places: PythonPlaces) -> PythonFunction:
    name = statement.name.parts[-1].name
    if statement.language != "PYTHON":
        language = (statement.language or "Java").capitalize()
        raise script_error(
            "PLAN-087",
            f"function '{name}' is a {language} class, which cannot be run here",
            statement.implementation_span,
            f"write it {python_form(name)}",
        )
    if statement.resources:
        kind = statement.resources[0][0]
        raise script_error(
            "PLAN-087",
            f"USING {kind} does not go with LANGUAGE PYTHON",
            statement.span,
            "leave it out; --pyfiles names Python files",
        )
    try:
        return load_function(name, statement.implementation, places.allowed)
    except FunctionProblem as problem:
        hint = places.hint(problem)
        raise script_error(
            "PLAN-088", problem.message, statement.implementation_span, hint
        ) from None


def check_partitioner(table: Table, places: PythonPlaces, span: Span | None) -> None:
    """Whether the class that places a table's records can be found and used."""
    connector = table.connector
    if not isinstance(connector, KafkaTable) or not is_partitioner_class(connector.partitioner):
        return
    try:
        load_partition_method(connector.partitioner, places.allowed)
    except FunctionProblem as problem:
        raise script_error(
            "PLAN-088",
            f"partitioner of table '{table.name}': {problem.message}",
            span,
            places.hint(problem),
        ) from None


def python_form(name: str) -> str:
    """The way out for a function of Java's: the statement, and the file that --pyfiles names (the body of a hint)."""
    word = name if name.isidentifier() else "f"
    return (
        f"in Python: CREATE FUNCTION {name} AS 'functions.{word}' LANGUAGE PYTHON, and in functions.py, which"
        " --pyfiles names:\n       from tidemill import udf\n       @udf(result_type='STRING')\n"
        f"       def {word}(x): return …"
    )


def refuse_jar(statement: ast.AddJar) -> ScriptError:
    verb = "REMOVE" if statement.remove else "ADD"
    return script_error(
        "PLAN-087",
        f"{verb} JAR is not supported: classes of Java's cannot be run here",
        statement.span,
        "a connector needs no jar; a function is written " + python_form("f"),
    )


def python_places(files: Sequence[str], setting: str, script: str) -> PythonPlaces:
    """`files`: those that the user allows; `setting`: those that the script names."""
    beside = [Path(script).resolve().parent] if Path(script).is_file() else []
    others = [*(_entry(Path(f)) for f in listed_files(setting)), *beside, Path.cwd().resolve()]
    return PythonPlaces(python_path(files), tuple(dict.fromkeys(others)))


def python_path(files: Sequence[str]) -> tuple[Path, ...]:
    """Where modules are looked for beside the installed packages: where the user says, and not where a script says, nor
    beside it, so that to run a script is not to run code that came with it."""
    return tuple(dict.fromkeys(_entry(Path(f)) for f in files))


def listed_files(setting: str) -> list[str]:
    """The files and directories that `python.files` names."""
    return [f.strip() for f in setting.split(",") if f.strip()]


def not_allowed(named: Sequence[str], files: Sequence[str]) -> list[str]:
    """Of the files and directories that a script names, those where nothing is looked for."""
    allowed = python_path(files)
    return [
        name
        for name in named
        if not any(_entry(Path(name)).is_relative_to(place) for place in allowed)
    ]


def _entry(path: Path) -> Path:
    """A file of Python's is found through its directory; an archive and a directory are looked into."""
    return path.resolve().parent if path.suffix == ".py" else path.resolve()


# --- calls ---------------------------------------------------------------------------------------


_PLACES = {
    SCALAR: "it stands in a select list or a condition",
    TABLE: "it stands in LATERAL TABLE({name}(…))",
    AGGREGATE: "it stands in a select list or HAVING, beside GROUP BY",
}


def check_user_call(function: PythonFunction, node: ast.FunctionCall, *kinds: str) -> None:
    """Whether a function may be called so, in a place that takes functions of these kinds."""
    name = function.name
    if function.kind not in kinds:
        article = "an" if function.kind == AGGREGATE else "a"
        raise script_error(
            "PLAN-009",
            f"{name} is {article} {function.kind} function",
            node.span,
            _PLACES[function.kind].format(name=name),
        )
    if function.kind == AGGREGATE:
        _check_aggregate(name, node)
    elif node.distinct or node.filter is not None or node.star or node.over is not None:
        raise script_error("PLAN-009", f"{name} is not an aggregate function", node.span)
    named = [a for a in node.arguments if isinstance(a, ast.NamedArgument)]
    if named:
        raise script_error(
            "PLAN-012",
            f"{name} takes its arguments by position",
            named[0].span,
            f"its form is {function.signature}",
        )
    count = len(node.arguments)
    if not function.accepts(count):
        raise script_error(
            "PLAN-012",
            f"{name} does not take {count} argument{'s' * (count != 1)}",
            node.span,
            f"its form is {function.signature}",
        )


def _check_aggregate(name: str, node: ast.FunctionCall) -> None:
    given = {
        "DISTINCT": node.distinct,
        "*": node.star,
        "OVER": node.over is not None,
        "ORDER BY": bool(node.order_by),
    }
    for clause in (clause for clause, is_there in given.items() if is_there):
        raise script_error(
            "PLAN-010",
            f"the Python aggregate function {name} does not go with {clause}",
            node.span,
            "it takes its arguments by position, FILTER (WHERE …) and a GROUP BY",
        )


def wrong_user_argument(
    function: PythonFunction, index: int, found: t.SqlType, node: ast.FunctionCall
) -> ScriptError:
    return script_error(
        "PLAN-013",
        f"argument {index + 1} of {function.name} must be {function.parameter(index)}, but is {found.as_nullable}",
        node.arguments[index].span,
        f"its form is {function.signature}; a CAST may help",
    )

"""Functions written in Python: how they are marked, found and typed.

    from tidemill import udf

    @udf(result_type="BIGINT")                       def total(a: int, b: int) -> int:
    def total(a, b):                                     return a + b
        return a + b                                 # type hints do as well

    CREATE FUNCTION total AS 'prices.total' LANGUAGE PYTHON;

A scalar function gives a value for a row, a table function (`udtf`, or a generator) rows for a row, an aggregate
function (`udaf`, or a class with `accumulate`) a value for the rows of a group.

In: `module.function` and the directories to look in. Out: a `PythonFunction` whose types are SQL's.
Law: whatever is wrong with the user's module is a `FunctionProblem`, a sentence and a hint; `sys.path` is left as it
was, and modules of the user's are known by name, so that they can travel to the workers.
"""

from __future__ import annotations

import collections.abc
import importlib
import inspect
import sys
import traceback
import types as python_types
import typing
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time
from decimal import Decimal
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from tidemill import types as t
from tidemill.errors import Source, TidemillError, did_you_mean
from tidemill.sql import ast, parse_expression

SCALAR, TABLE, AGGREGATE = "scalar", "table", "aggregate"
"""What a function is, and where it stands: in an expression, in LATERAL TABLE(…), beside GROUP BY."""
GENERAL, ARROW = "general", "arrow"


class FunctionProblem(Exception):
    """What is wrong with a user's function, for people."""

    def __init__(
        self, message: str, hint: str | None = None, missing_module: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.missing_module = missing_module
        """The module of the user's that is nowhere to be found, if that is the problem."""


@dataclass(frozen=True)
class PythonFunction:
    """A function of the user's as the planner sees it."""

    name: str
    implementation: str
    """module.function"""
    parameters: tuple[t.SqlType | None, ...]
    """None: whatever is given."""
    result: t.SqlType
    required: int
    """Parameters without a default value."""
    repeated: bool = False
    """Whether the last parameter stands for any number of arguments."""
    deterministic: bool = True
    kind: str = SCALAR
    style: str = GENERAL
    """general: called once a row; arrow: called with Arrow arrays, once a batch, of an aggregate once a group."""
    call: Callable[..., Any] = field(default=lambda: None, compare=False, repr=False)
    modules: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """The user's own modules, which workers do not have."""

    @property
    def value(self) -> t.SqlType:
        """What a call gives: of a table function, an array of rows whose fields are known by place."""
        if self.kind != TABLE:
            return self.result
        assert isinstance(self.result, t.RowType)
        fields = tuple(t.Field(f"f{i}", f.type) for i, f in enumerate(self.result.fields))
        return t.ArrayType(element=t.RowType(fields=fields))

    @property
    def signature(self) -> str:
        shown = [str(p or "ANY") for p in self.parameters]
        for index in range(self.required, len(shown)):
            shown[index] = f"[{shown[index]}]"
        if self.repeated:
            shown[-1] = shown[-1].strip("[]") + ", …"
        return f"{self.name}({', '.join(shown)})"

    def parameter(self, index: int) -> t.SqlType | None:
        return self.parameters[min(index, len(self.parameters) - 1)]

    def accepts(self, count: int) -> bool:
        return self.required <= count and (self.repeated or count <= len(self.parameters))


# --- how a user marks a function -----------------------------------------------------------------


@dataclass(frozen=True)
class MarkedFunction:
    """What `@udf`, `@udtf` and `@udaf` make of a function; it can still be called."""

    function: Any
    result_type: Any
    input_types: Any
    deterministic: bool
    func_type: str
    kind: str = SCALAR

    def __call__(self, *arguments: Any) -> Any:
        return _callable(self.function)(*arguments)


def udf(
    f: Any = None,
    input_types: Any = None,
    result_type: Any = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str = GENERAL,
) -> Any:
    """Mark a scalar function, as PyFlink's `udf` does: with types as SQL text, bare or with arguments.

    `func_type="arrow"`: the function takes and gives Arrow arrays, a batch at a time. `name` is not used: a function
    is called in SQL as CREATE FUNCTION says.
    """
    return _marker(f, result_type, input_types, deterministic, func_type, SCALAR)


def udtf(
    f: Any = None,
    input_types: Any = None,
    result_types: Any = None,
    deterministic: bool | None = None,
    name: str | None = None,
) -> Any:
    """Mark a table function, as PyFlink's `udtf` does: it gives several rows for one. `result_types` are those of its
    columns, or one ROW that names them."""
    return _marker(f, result_types, input_types, deterministic, GENERAL, TABLE)


def udaf(
    f: Any = None,
    input_types: Any = None,
    result_type: Any = None,
    accumulator_type: Any = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str = GENERAL,
) -> Any:
    """Mark an aggregate function, as PyFlink's `udaf` does: a class with `create_accumulator`, `accumulate` and
    `get_value`; with `func_type="arrow"` a function that takes a group's values as Arrow arrays and gives one value.

    `accumulator_type` is not used: what is kept of a group are its rows, not an accumulator.
    """
    return _marker(f, result_type, input_types, deterministic, func_type, AGGREGATE)


def _marker(
    f: Any, result: Any, inputs: Any, deterministic: bool | None, func_type: str, kind: str
) -> Any:
    if func_type not in (GENERAL, ARROW):
        raise ValueError(f"func_type must be '{GENERAL}' or '{ARROW}', not '{func_type}'")

    def mark(function: Any) -> MarkedFunction:
        made = _instance(function)
        fixed = _is_deterministic(made) if deterministic is None else deterministic
        return MarkedFunction(made, result, inputs, fixed, func_type, kind)

    return mark if f is None else mark(f)


def _is_deterministic(function: Any) -> bool:
    """What an object says of itself, as in PyFlink; others are."""
    certain = getattr(function, "is_deterministic", None)
    return certain is None or bool(certain())


def _instance(function: Any) -> Any:
    """A class with a method `eval`, as in PyFlink, stands for an object of it."""
    return function() if inspect.isclass(function) else function


def _callable(function: Any) -> Callable[..., Any]:
    """The function itself, or the method `eval` of an object."""
    return getattr(function, "eval", function)  # type: ignore[no-any-return]


# --- from an object to types ---------------------------------------------------------------------

_HINTS: dict[Any, t.SqlType] = {
    bool: t.BOOLEAN,
    int: t.BIGINT,
    float: t.DOUBLE,
    str: t.STRING,
    bytes: t.BYTES,
    bytearray: t.BYTES,
    Decimal: t.DecimalType(precision=38, scale=18),
    date: t.DateType(),
    time: t.TimeType(),
    datetime: t.TimestampType(),
}
# PyFlink's type classes without parts; the others are read below.
_PYFLINK: dict[str, t.SqlType] = {
    "BooleanType": t.BOOLEAN,
    "TinyIntType": t.TinyIntType(),
    "SmallIntType": t.SmallIntType(),
    "IntType": t.INT,
    "BigIntType": t.BIGINT,
    "FloatType": t.FloatType(),
    "DoubleType": t.DOUBLE,
    "DateType": t.DateType(),
}
_PYFLINK_SIZED: dict[str, type[Any]] = {
    "CharType": t.CharType,
    "VarCharType": t.VarCharType,
    "BinaryType": t.BinaryType,
    "VarBinaryType": t.VarBinaryType,
}
_PYFLINK_TIMES: dict[str, type[Any]] = {
    "TimeType": t.TimeType,
    "TimestampType": t.TimestampType,
    "LocalZonedTimestampType": t.TimestampLtzType,
}
_ITERATED = (collections.abc.Iterator, collections.abc.Iterable, collections.abc.Generator)
_KINDS = (("_accumulator_type", AGGREGATE), ("_result_types", TABLE), ("_result_type", SCALAR))


def type_of_hint(hint: Any) -> t.SqlType | None:
    """`int`, `list[str]`, `float | None` … as SQL types; None for a hint that says nothing."""
    if hint in (Any, inspect.Parameter.empty):
        return None
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, python_types.UnionType):
        rest = [a for a in arguments if a is not type(None)]
        if len(rest) == 1:
            return type_of_hint(rest[0])
    elif origin is list and len(arguments) == 1:
        element = type_of_hint(arguments[0])
        if element is not None:
            return t.ArrayType(element=element)
    elif origin is dict and len(arguments) == 2:
        key, value = (type_of_hint(a) for a in arguments)
        if key is not None and value is not None:
            return t.MapType(key=key, value=value)
    elif isinstance(hint, type) and hint in _HINTS:
        return _HINTS[hint]
    raise FunctionProblem(
        f"the type hint '{getattr(hint, '__name__', hint)}' has no SQL type",
        "give the SQL types: @udf(result_type='BIGINT', input_types=['STRING'])",
    )


def type_of(given: Any) -> t.SqlType:
    """A type as SQL text, as a Python type, or as one of PyFlink's type objects."""
    if isinstance(given, t.SqlType):
        return given
    if isinstance(given, str):
        return _type_of_text(given)
    name = type(given).__name__
    if type(given).__module__.startswith("pyflink") or hasattr(given, "_nullable"):
        return _type_of_pyflink(given, name)
    found = type_of_hint(given)
    if found is None:
        raise FunctionProblem(f"'{given}' is not a type", "write SQL's name of it: 'BIGINT'")
    return found


def _type_of_text(text: str) -> t.SqlType:
    try:
        cast = parse_expression(Source("<type>", f"CAST(NULL AS {text})"))
    except TidemillError as error:
        raise FunctionProblem(
            f"'{text}' is not a type: {error.diagnostics[0].message}", error.diagnostics[0].hint
        ) from None
    assert isinstance(cast, ast.Cast)
    return cast.type


def _type_of_pyflink(given: Any, name: str) -> t.SqlType:
    nullable = bool(getattr(given, "_nullable", True))
    if name in _PYFLINK:
        found = _PYFLINK[name]
    elif name in _PYFLINK_SIZED:
        found = _PYFLINK_SIZED[name](length=given.length)
    elif name in _PYFLINK_TIMES:
        found = _PYFLINK_TIMES[name](precision=given.precision)
    elif name == "DecimalType":
        found = t.DecimalType(precision=given.precision, scale=given.scale)
    elif name in ("ArrayType", "ListViewType"):
        found = t.ArrayType(element=type_of(given.element_type))
    elif name == "MapType":
        found = t.MapType(key=type_of(given.key_type), value=type_of(given.value_type))
    elif name == "RowType":
        found = t.RowType(fields=tuple(t.Field(f.name, type_of(f.data_type)) for f in given.fields))
    else:
        raise FunctionProblem(f"PyFlink's type {name} has no counterpart here", "give it as text")
    return found.with_nullable(nullable)


def describe_function(name: str, implementation: str, found: Any) -> PythonFunction:
    """Types of what a module holds under a name: a function, a class or object with `eval` or `accumulate`, or a marked
    one."""
    marked = _as_marked(found)
    call = _called(marked, found, implementation)
    hints = _type_hints(call)
    rows = _rows_of_hint(hints.get("return"))
    if marked == replace(marked, kind=SCALAR, result_type=None, func_type=GENERAL) and rows:
        marked = replace(marked, kind=TABLE)
    parameters = _positional(call, implementation)
    if marked.kind == AGGREGATE and marked.func_type == GENERAL:
        parameters = parameters[1:]  # the accumulator
    repeated = bool(parameters) and parameters[-1].kind is inspect.Parameter.VAR_POSITIONAL
    required = sum(
        p.default is inspect.Parameter.empty and p.kind is not inspect.Parameter.VAR_POSITIONAL
        for p in parameters
    )
    if marked.input_types is not None:
        given = marked.input_types
        listed = list(given) if isinstance(given, (list, tuple)) else [given]
        types: list[t.SqlType | None] = [type_of(g) for g in listed]
        if not repeated and not required <= len(types) <= len(parameters):
            raise FunctionProblem(
                f"'{implementation}' takes {len(parameters)} arguments, but its input_types are {len(types)}"
            )
        required, repeated = min(required, len(types)), False
    elif marked.func_type == ARROW:
        types = [None for _ in parameters]
    else:
        types = [type_of_hint(hints.get(p.name, inspect.Parameter.empty)) for p in parameters]
    return PythonFunction(
        name,
        implementation,
        tuple(types),
        _result_of(marked, hints, rows, implementation),
        required,
        repeated,
        marked.deterministic,
        marked.kind,
        marked.func_type,
        call,
    )


_ACCUMULATING = ("create_accumulator", "accumulate", "get_value")


def _called(marked: MarkedFunction, found: Any, implementation: str) -> Callable[..., Any]:
    """What is called for each row: of an aggregate, `accumulate`."""
    if marked.kind == AGGREGATE and marked.func_type == GENERAL:
        for method in _ACCUMULATING:
            if not callable(getattr(marked.function, method, None)):
                raise FunctionProblem(
                    f"the aggregate function '{implementation}' has no method '{method}'",
                    f"it is a class with {', '.join(_ACCUMULATING)}; a function over Arrow arrays is marked with"
                    f" @udaf(func_type='{ARROW}', result_type='BIGINT')",
                )
        return marked.function.accumulate  # type: ignore[no-any-return]
    call = _callable(marked.function)
    if not callable(call):
        raise FunctionProblem(
            f"'{implementation}' is no function, but of type {type(found).__name__}",
            "name a function, or a class with a method 'eval'",
        )
    return call


def _rows_of_hint(hint: Any) -> list[Any] | None:
    """The columns of `Iterator[tuple[str, int]]`, the result of a generator; None for other hints."""
    if typing.get_origin(hint) not in _ITERATED:
        return None
    row = typing.get_args(hint)[0]
    return list(typing.get_args(row)) if typing.get_origin(row) is tuple else [row]


def _result_of(
    marked: MarkedFunction, hints: dict[str, Any], rows: list[Any] | None, implementation: str
) -> t.SqlType:
    """The type of a value; of a table function, its row."""
    result = marked.result_type
    if marked.kind == TABLE:
        given = rows if result is None else result
        return _row_of(given if isinstance(given, (list, tuple)) else [given])
    if result is None and marked.kind == AGGREGATE and marked.func_type == GENERAL:
        asked = getattr(marked.function, "get_result_type", None)
        result = asked() if asked else _type_hints(marked.function.get_value).get("return")
    elif result is None and marked.func_type == GENERAL:
        result = hints.get("return")
    if result is None or result is type(None):
        if inspect.isgeneratorfunction(_callable(marked.function)):
            return _row_of([None])
        mark, hint = (
            ("@udaf", "def get_value(self, accumulator) -> int")
            if marked.kind == AGGREGATE
            else ("@udf", "def f(x: int) -> int")
        )
        raise FunctionProblem(
            f"the result type of '{implementation}' is not known",
            f"say it: {mark}(result_type='BIGINT'), or a type hint: {hint}",
        )
    return type_of(result)


def _as_marked(found: Any) -> MarkedFunction:
    if isinstance(found, MarkedFunction):
        return found
    if not inspect.isclass(found) and not inspect.isfunction(found):
        for attribute, kind in _KINDS:
            if hasattr(found, attribute) and hasattr(found, "_func"):
                return _pyflink_marked(found, attribute, kind)
    made = _instance(found)
    kind = AGGREGATE if hasattr(made, "accumulate") else SCALAR
    return MarkedFunction(made, None, None, _is_deterministic(made), GENERAL, kind)


def _pyflink_marked(found: Any, attribute: str, kind: str) -> MarkedFunction:
    """A function that PyFlink's own decorator has wrapped."""
    result = getattr(found, "_result_type" if kind == AGGREGATE else attribute, None)
    if kind == TABLE and not isinstance(result, (list, tuple)):
        result = [result]
    style = getattr(found, "_func_type", GENERAL)
    if style != GENERAL:
        raise FunctionProblem(
            f"functions of the kind '{style}' cannot be run",
            f"mark it with func_type='{ARROW}': it gets Arrow arrays instead of pandas Series",
        )
    deterministic = getattr(found, "_deterministic", True) is not False
    return MarkedFunction(
        found._func, result, getattr(found, "_input_types", None), deterministic, GENERAL, kind
    )


def _row_of(result_types: Sequence[Any]) -> t.RowType:
    """The columns of a table function: those of its one ROW, or f0, f1 …"""
    if list(result_types) == [None]:
        raise FunctionProblem(
            "the result types of a table function are not known",
            "say them: @udtf(result_types=['STRING', 'INT']), or a type hint: def f(x) -> Iterator[tuple[str, int]]",
        )
    found = [type_of(r) for r in result_types]
    if len(found) == 1 and isinstance(found[0], t.RowType):
        return found[0]
    return t.RowType(fields=tuple(t.Field(f"f{i}", x) for i, x in enumerate(found)))


def _type_hints(call: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(call)
    except Exception as error:  # a hint is an expression of the user's
        raise FunctionProblem(f"its type hints cannot be read: {_said(error)}") from None


def _positional(call: Any, implementation: str) -> list[inspect.Parameter]:
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        raise FunctionProblem(
            f"the parameters of '{implementation}' cannot be read",
            "wrap it in a function of Python's: def f(x: int) -> int",
        ) from None
    named = [
        p.name
        for p in parameters
        if p.kind is inspect.Parameter.KEYWORD_ONLY and p.default is inspect.Parameter.empty
    ]
    if named:
        raise FunctionProblem(
            f"parameter '{named[0]}' of '{implementation}' can be given by name only",
            "SQL gives arguments by position",
        )
    places = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.VAR_POSITIONAL,
    )
    return [p for p in parameters if p.kind in places]


# --- from a name to an object --------------------------------------------------------------------


def load_function(name: str, implementation: str, directories: Sequence[Path]) -> PythonFunction:
    """Import `module.function` from the given directories, or from what is installed."""
    module_name, _, attribute = implementation.rpartition(".")
    if not module_name or not all(p.isidentifier() for p in implementation.split(".")):
        raise FunctionProblem(
            f"'{implementation}' is not of the form module.function",
            f"for a function {name} in the file prices.py: AS 'prices.{name}' LANGUAGE PYTHON",
        )
    paths = [str(d) for d in directories]
    module, modules = _module(module_name, paths)
    if not hasattr(module, attribute):
        public = [n for n, what in vars(module).items() if callable(what) and n[0] != "_"]
        raise FunctionProblem(
            f"module '{module_name}' ({getattr(module, '__file__', None) or 'built in'}) has no '{attribute}'",
            did_you_mean(
                attribute, public, f"it has {', '.join(public)}" if public else "it has no function"
            ),
        )
    if module_name not in modules and not _is_marked(getattr(module, attribute)):
        raise FunctionProblem(
            f"'{implementation}' of an installed package is not marked as a function for SQL",
            "mark it with @udf, @udtf or @udaf of tidemill, or allow its directory: --pyfiles DIR",
        )
    try:
        described = describe_function(name, implementation, getattr(module, attribute))
    except FunctionProblem:
        raise
    except Exception as error:  # the constructor of a class of the user's
        raise FunctionProblem(f"'{implementation}' cannot be made: {_said(error)}") from None
    return PythonFunction(
        **{f: getattr(described, f) for f in described.__dataclass_fields__ if f != "modules"},
        modules=modules,
    )


def load_class(implementation: str, directories: Sequence[Path]) -> tuple[Any, tuple[str, ...]]:
    """An object of the class `module:Class`, and the modules of the user's that come with it."""
    module_name, _, attribute = implementation.partition(":")
    module, modules = _module(module_name, [str(d) for d in directories])
    if not isinstance(found := getattr(module, attribute, None), type):
        raise FunctionProblem(f"module '{module_name}' has no class '{attribute}'")
    try:
        return found(), modules
    except Exception as error:  # the constructor of a class of the user's
        raise FunctionProblem(f"'{implementation}' cannot be made: {_said(error)}") from None


def load_partition_method(
    implementation: str, directories: Sequence[Path]
) -> tuple[Callable[..., Any], tuple[str, ...]]:
    """The method `partition` of an object of the class `module:Class`, and the user's modules that come with it."""
    made, modules = load_class(implementation, directories)
    choose = getattr(made, "partition", None)
    if not callable(choose):
        raise FunctionProblem(
            f"'{implementation}' has no method partition",
            "def partition(self, row, key, value, topic, partitions): return partitions[0]",
        )
    return choose, modules


def _module(name: str, paths: Sequence[str]) -> tuple[Any, tuple[str, ...]]:
    """A module from the given directories or from what is installed, and the modules of the user's that came with it.

    Python's own library has functions for everything and none for SQL: to name one is a slip, or worse.
    """
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names and PathFinder.find_spec(top, list(paths)) is None:
        raise FunctionProblem(
            f"'{name}' is a module of Python's own, which has no functions for SQL"
        )
    with _on_path(paths):
        _forget_others(top, paths)
        module = _import(name, paths)
        return module, tuple(sorted(_own_modules(paths)))


def _is_marked(found: Any) -> bool:
    """Whether somebody has said that this is a function for SQL."""
    pyflink = any(hasattr(found, attribute) for attribute, _ in _KINDS) and hasattr(found, "_func")
    return isinstance(found, MarkedFunction) or pyflink


@contextmanager
def _on_path(paths: Sequence[str]) -> Iterator[None]:
    kept = list(sys.path)
    sys.path[:0] = paths
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = kept


def _forget_others(top: str, paths: Sequence[str]) -> None:
    """A module of the same name from another script's directory must not stand in for this one."""
    here, known = PathFinder.find_spec(top, list(paths)), sys.modules.get(top)
    if here is None or known is None:
        return
    spec = getattr(known, "__spec__", None)
    if spec is None or spec.origin != here.origin:
        for name in [n for n in sys.modules if n == top or n.startswith(f"{top}.")]:
            del sys.modules[name]


def _import(name: str, paths: Sequence[str]) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or name
        if name == missing or name.startswith(f"{missing}."):
            places = ", ".join(dict.fromkeys(paths)) or "the installed packages"
            raise FunctionProblem(
                f"there is no Python module '{missing}'",
                f"looked in {places}; --pyfiles names further files and directories",
                missing,
            ) from None
        hint = f"install '{missing}' for the Python that runs Tidemill and its workers"
        if missing.partition(".")[0] == "pyflink":
            hint = "write 'from tidemill import udf' instead of 'from pyflink.table.udf import udf'"
        raise FunctionProblem(
            f"module '{name}' cannot be imported: it needs '{missing}', which is not there", hint
        ) from None
    except (Exception, SystemExit) as error:
        raise FunctionProblem(
            f"module '{name}' cannot be imported: {_said(error)}{_place(error, paths)}"
        ) from None


def _said(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg}"
    return f"{type(error).__name__}: {error}".rstrip(": ").partition("\n")[0]


def _place(error: BaseException, paths: Sequence[str]) -> str:
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return f" (line {error.lineno} of {Path(error.filename).name})"
    frames = [
        f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(tuple(paths))
    ]
    return f" (line {frames[-1].lineno} of {Path(frames[-1].filename).name})" if frames else ""


def _own_modules(paths: Sequence[str]) -> Iterator[str]:
    """Imported modules that come from the given directories, as opposed to installed ones."""
    origins: dict[str, str | None] = {}
    for name, module in list(sys.modules.items()):
        top = name.partition(".")[0]
        if top == "tidemill" or getattr(module, "__file__", None) is None:
            continue
        if top not in origins:
            spec = PathFinder.find_spec(top, list(paths))
            origins[top] = spec.origin if spec else None
        known = getattr(sys.modules.get(top), "__spec__", None)
        if origins[top] is not None and known is not None and known.origin == origins[top]:
            yield name


__all__ = [
    "FunctionProblem",
    "MarkedFunction",
    "PythonFunction",
    "load_function",
    "udaf",
    "udf",
    "udtf",
]

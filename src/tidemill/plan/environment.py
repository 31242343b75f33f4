"""What a script builds up statement by statement: tables, views, settings; and the jobs that it asks for.

In: parsed statements. Out: `Job`s, each with the plan of its sinks and the settings that held when it was written.
Runs without a JVM, so that `tidemill check` and `tidemill run` say the same about a script.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tidemill.errors import (
    Diagnostic,
    ScriptError,
    Span,
    UsageError,
    did_you_mean,
    script_error,
)
from tidemill.plan import nodes
from tidemill.plan.binder import bind_insert, bind_query
from tidemill.plan.explain import explain
from tidemill.plan.modes import Modes, infer_modes
from tidemill.plan.runnable import not_runnable
from tidemill.plan.scope import not_yet
from tidemill.plan.tables import BrokenTable, bind_table
from tidemill.sql import ast
from tidemill.tables import check_writers, redacted
from tidemill.tables import settings as known_settings
from tidemill.tables.catalog import (
    DEFAULT_CATALOG,
    DEFAULT_DATABASE,
    Connector,
    Table,
    Unusable,
    View,
)


@dataclass(frozen=True)
class Job:
    """One streaming query: the sinks of an INSERT or a STATEMENT SET, or the rows of a SELECT."""

    roots: tuple[nodes.Sink | nodes.Collect, ...]
    modes: tuple[Modes, ...]
    settings: Mapping[str, object]
    """Typed values of the honoured keys that were set."""
    span: Span
    not_runnable: tuple[Diagnostic, ...] = ()
    """What the plan holds that cannot be executed yet."""

    @property
    def sources(self) -> list[Table]:
        """The tables that the job reads, once for every scan."""
        touched = (n for root in self.roots for n in nodes.walk(root))
        return [n.table for n in touched if isinstance(n, nodes.Scan)]

    @property
    def sinks(self) -> list[Table]:
        return [r.table for r in self.roots if isinstance(r, nodes.Sink)]

    @property
    def tables(self) -> list[Table]:
        return [*self.sources, *self.sinks]

    @property
    def target(self) -> str:
        """The name that tells this job from the others of its script."""
        return "+".join(t.name for t in self.sinks) or "select"


@dataclass(frozen=True)
class Text:
    """A statement's answer that needs no job: EXPLAIN, SET alone."""

    text: str


@dataclass
class Environment:
    """Tables and settings as they stand after the statements so far."""

    overrides: Mapping[str, str] = field(default_factory=dict)
    """Settings from the command line: they beat the script's SET."""
    adapt: Callable[[Connector], Connector] = lambda connector: connector
    """What the command line asks of every table: `--local`."""
    settings: dict[str, object] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    """The settings as they were written."""
    objects: dict[str, Table | View] = field(default_factory=dict)
    warnings: list[Diagnostic] = field(default_factory=list)
    meaningless: list[str] = field(default_factory=list)
    """Flink's settings that were given and have nothing to act on here."""
    broken: set[str] = field(default_factory=set)
    """Names whose CREATE failed: that they are missing is no news."""

    def __post_init__(self) -> None:
        for key, value in self.overrides.items():
            self._set(key, value, None)

    # --- names -------------------------------------------------------------------------------

    def find(self, name: ast.QualifiedName) -> Table | View:
        found = self.objects.get(self._key(name))
        if found is None:
            raise script_error(
                "PLAN-059",
                f"table '{name}' does not exist",
                name.span,
                did_you_mean(
                    name.parts[-1].name, list(self.objects), "create it with CREATE TABLE first"
                ),
            )
        return found

    def setting(self, key: str) -> str | None:
        return self.texts.get(key)

    def with_options(self, table: Table, hint: ast.Hint) -> Table:
        raise not_yet("the hint OPTIONS", hint.span)

    def forget_unusable(self) -> None:
        """Tables that were kept for the sake of a script's other mistakes do not outlive it."""
        self.objects = {
            name: found
            for name, found in self.objects.items()
            if not (isinstance(found, Table) and isinstance(found.connector, Unusable))
        }

    def warn(self, warning: Diagnostic) -> None:
        if warning not in self.warnings:
            self.warnings.append(warning)

    @staticmethod
    def _key(name: ast.QualifiedName) -> str:
        path = [p.name for p in name.parts[:-1]]
        if path not in ([], [DEFAULT_DATABASE], [DEFAULT_CATALOG, DEFAULT_DATABASE]):
            raise script_error(
                "PLAN-060",
                f"'{'.'.join(path)}' does not exist: there is one catalog and one database",
                name.span,
                f"leave it out, or write {DEFAULT_CATALOG}.{DEFAULT_DATABASE}",
            )
        return name.parts[-1].name

    # --- statements --------------------------------------------------------------------------

    def apply(self, statement: ast.Statement) -> Job | Text | None:
        match statement:
            case ast.CreateTable():
                table, warnings = bind_table(statement, self.texts)
                self.warnings += warnings
                adapted = Table(table.name, table.schema, self.adapt(table.connector), table.span)
                self._create(statement, adapted)
            case ast.CreateView():
                bound = bind_query(statement.query, self)
                names = tuple(c.name for c in statement.columns)
                if names and len(names) != len(bound.columns):
                    raise script_error(
                        "PLAN-055",
                        f"{len(names)} names for {len(bound.columns)} columns",
                        statement.columns[0].span,
                    )
                view = View(
                    statement.name.parts[-1].name, names, statement.query, statement.name.span
                )
                self._create(statement, view)
            case ast.DropObject():
                self._drop(statement)
            case ast.SetOption(option=None):
                shown = sorted(redacted(self.texts).items())
                return Text("\n".join(f"'{k}' = '{v}'" for k, v in shown))
            case ast.SetOption(option=ast.Option() as option):
                if option.key not in self.overrides:
                    self._set(option.key, option.value, option)
            case ast.ResetOption():
                for key in list(self.texts) if statement.key is None else [statement.key]:
                    if key not in self.overrides:
                        self.settings.pop(key, None)
                        self.texts.pop(key, None)
            case ast.Insert():
                return self._job((bind_insert(statement, self),), statement.target.span)
            case ast.StatementSet():
                return self._job(
                    tuple(bind_insert(i, self) for i in statement.inserts), statement.span
                )
            case ast.QueryStatement():
                node = bind_query(statement.query, self)
                return self._job((nodes.Collect(node),), statement.query.span)
            case ast.Explain():
                return self._explain(statement)
            case _:
                raise not_yet("this statement", statement.span)
        return None

    def _create(self, statement: ast.CreateTable | ast.CreateView, what: Table | View) -> None:
        key = self._key(statement.name)
        if key in self.objects:
            if statement.if_not_exists:
                return
            raise script_error(
                "PLAN-061",
                f"'{key}' exists already",
                statement.name.span,
                "write IF NOT EXISTS, or DROP it first",
            )
        self.objects[key] = what

    def _drop(self, statement: ast.DropObject) -> None:
        key = self._key(statement.name)
        kind = View if statement.kind == "VIEW" else Table
        if not isinstance(self.objects.get(key), kind):
            if statement.if_exists:
                return
            raise script_error(
                "PLAN-059", f"{statement.kind.lower()} '{key}' does not exist", statement.name.span
            )
        del self.objects[key]

    def _set(self, key: str, value: str, option: ast.Option | None) -> None:
        spans = (option.span, option.value_span) if option else (None, None)
        resolved = known_settings.resolve(key, value, *spans)
        found = resolved.diagnostic
        if found is not None and found.severity == "error":
            raise ScriptError([found]) if option else UsageError([found])
        if found is not None:
            self.warnings.append(found)
        if resolved.status is known_settings.Status.MEANINGLESS and key not in self.meaningless:
            self.meaningless.append(key)
        self.settings[resolved.key] = resolved.value
        self.texts[key] = value

    def _job(self, roots: tuple[nodes.Sink | nodes.Collect, ...], span: Span) -> Job:
        settled: list[nodes.Sink | nodes.Collect] = []
        modes = []
        for root in roots:
            materialize = self.texts.get("table.exec.sink.upsert-materialize", "AUTO").upper()
            end, emitted = infer_modes(root, span, materialize)
            assert isinstance(end, nodes.Sink | nodes.Collect)
            settled.append(end)
            modes.append(emitted)
            if isinstance(end, nodes.Sink):
                parallelism = self.settings.get("parallelism.default", 1)
                assert isinstance(parallelism, int)
                check_writers(end.table, emitted.of(end.input), parallelism, end.span)
        missing = not_runnable(settled, span)
        return Job(tuple(settled), tuple(modes), dict(self.settings), span, missing)

    def _explain(self, statement: ast.Explain) -> Text:
        query = statement.statement
        if isinstance(query, ast.QueryStatement):
            node = bind_query(query.query, self)
            asked = (nodes.Updates.AFTER, nodes.Updates.BOTH)
            end = nodes.Collect(node, asked)
            inner: Job | Text | None = self._job((end,), query.span)
        else:
            inner = self.apply(query)
        if not isinstance(inner, Job):
            raise script_error(
                "PLAN-062", "EXPLAIN needs a query, an INSERT or a STATEMENT SET", statement.span
            )
        pairs = zip(inner.roots, inner.modes, strict=True)
        keys = "CHANGELOG_MODE" in statement.details
        return Text("\n\n".join(explain(root, modes, keys) for root, modes in pairs))


def compile_script(script: ast.Script, environment: Environment) -> list[Job | Text]:
    """Apply every statement; report the mistakes of all of them in one go."""
    found: list[Job | Text] = []
    problems: list[Diagnostic] = []
    for statement in script.statements:
        try:
            answer = environment.apply(statement)
        except RecursionError:
            problems.append(
                Diagnostic(
                    "PLAN-023",
                    "this statement is nested too deeply",
                    statement.span,
                    "split it up with views, or write long chains of OR as IN (…)",
                )
            )
            continue
        except ScriptError as error:
            problems += error.diagnostics
            _remember_broken(statement, error, environment)
            continue
        if answer is not None:
            found.append(answer)
    if problems:
        environment.forget_unusable()
        raise ScriptError(_without_echoes(problems, environment))
    return found


def require_runnable(answers: Iterable[Job | Text]) -> None:
    """Refuse jobs that cannot be executed yet, all of them at once, before any is started."""
    missing = [d for answer in answers if isinstance(answer, Job) for d in answer.not_runnable]
    if missing:
        raise ScriptError(missing)


def _remember_broken(
    statement: ast.Statement, error: ScriptError, environment: Environment
) -> None:
    """A table that failed must not make every statement that names it fail as well."""
    if not isinstance(statement, (ast.CreateTable, ast.CreateView)):
        return
    name = statement.name.parts[-1].name
    environment.broken.add(name)
    if isinstance(error, BrokenTable) and error.table is not None:
        environment.objects.setdefault(name, error.table)


def _without_echoes(problems: Iterable[Diagnostic], environment: Environment) -> list[Diagnostic]:
    return [
        p
        for p in problems
        if not (p.code == "PLAN-059" and p.span and p.span.text.strip("`") in environment.broken)
    ]

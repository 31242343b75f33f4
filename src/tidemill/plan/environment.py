"""What a script builds up statement by statement: catalogs, tables, views, functions, settings; and the jobs that it
asks for.

In: parsed statements. Out: `Job`s, each with the plan of its sinks and the settings that held when it was written, and
texts. Runs without a JVM, so that `tidemill check` and `tidemill run` say the same about a script.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from tidemill.errors import (
    Diagnostic,
    ScriptError,
    Span,
    UsageError,
    did_you_mean,
    script_error,
)
from tidemill.functions import PythonFunction
from tidemill.plan import answers, nodes
from tidemill.plan.binder import bind_insert, bind_query, bind_view
from tidemill.plan.declarations import altered, as_select, like
from tidemill.plan.explain import explain, tree
from tidemill.plan.expressions import AggregateCall, UserCall, walk
from tidemill.plan.functions import FUNCTIONS, NOT_YET, SET_MARKS
from tidemill.plan.functions.aggregates import SIGNATURES as AGGREGATES
from tidemill.plan.modes import Modes, infer_modes
from tidemill.plan.runnable import not_runnable
from tidemill.plan.scope import not_yet
from tidemill.plan.tables import BrokenTable, bind_table
from tidemill.plan.user_functions import (
    PythonPlaces,
    check_partitioner,
    listed_files,
    make_function,
    not_allowed,
    python_places,
    refuse_jar,
)
from tidemill.sql import ast
from tidemill.tables import check_writers, redacted, with_options
from tidemill.tables import settings as known_settings
from tidemill.tables.catalog import Connector, ObjectPath, Schema, Table, View
from tidemill.tables.kafka import DeliveryGuarantee, TopicTable
from tidemill.tables.logins import Logins
from tidemill.tables.namespaces import Namespaces
from tidemill.tables.options import is_secret
from tidemill.tables.references import Unresolved, anchored, has_reference, resolved


@dataclass(frozen=True)
class Job:
    """One streaming query: the sinks of an INSERT or a STATEMENT SET, or the rows of a SELECT."""

    roots: tuple[nodes.Root, ...]
    modes: tuple[Modes, ...]
    settings: Mapping[str, object]
    """Typed values of the honoured keys that were set."""
    span: Span
    not_runnable: tuple[Diagnostic, ...] = ()
    """What the plan holds that cannot be executed yet."""

    @property
    def functions(self) -> tuple[PythonFunction, ...]:
        """Functions of the user's that its queries call."""
        computed = (
            e for root in self.roots for n in nodes.walk(root) for e in nodes.expressions(n)
        )
        called = (
            part.implementation
            for expr in computed
            for part in walk(expr)
            if isinstance(part, UserCall | AggregateCall)
        )
        return tuple(dict.fromkeys(function for function in called if function is not None))

    @property
    def sources(self) -> list[Table]:
        """The tables that the job reads. One with other options, by a hint, is another table."""
        distinct: list[Table] = []
        for node in (n for root in self.roots for n in nodes.walk(root)):
            if isinstance(node, nodes.Scan) and node.table not in distinct:
                distinct.append(node.table)
        return distinct

    @property
    def sinks(self) -> list[Table]:
        return [r.table for r in self.roots if isinstance(r, nodes.Sink)]

    @property
    def exactly_once(self) -> list[Table]:
        """Those of its sinks that are written exactly once."""
        return [
            t
            for t in self.sinks
            if isinstance(t.connector, TopicTable)
            and t.connector.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE
        ]

    @property
    def tables(self) -> list[Table]:
        return [*self.sources, *self.sinks]

    @property
    def late_rows(self) -> tuple[str, Table] | None:
        """The topic for rows that come too late, and a table of its brokers; None if they are dropped."""
        if self.settings.get("table.exec.late-rows") != "dead-letter":
            return None
        topic = self.settings.get("table.exec.late-rows.topic")
        if topic is None:
            raise script_error(
                "PLAN-090",
                "'table.exec.late-rows' = 'dead-letter' needs a topic",
                self.span,
                "say which: SET 'table.exec.late-rows.topic' = '…';",
            )
        for table in self.tables:
            if isinstance(table.connector, TopicTable):
                return str(topic), table
        raise script_error(
            "PLAN-090",
            f"no Kafka table of this job says at which brokers the topic '{topic}' for late rows is",
            self.span,
            "SET 'table.exec.late-rows' = 'drop';",
        )

    @property
    def target(self) -> str:
        """The name that tells this job from the others of its script."""
        return "+".join(t.path.label for t in self.sinks) or "select"


@dataclass(frozen=True)
class Text:
    """A statement's answer that needs no job: EXPLAIN, SHOW, DESCRIBE, SET alone."""

    text: str


# Statements after which a name in a view may mean something else.
_CHANGING = (
    ast.Alter,
    ast.CreateFunction,
    ast.DropObject,
    ast.ResetOption,
    ast.SetOption,
    ast.Use,
)


@dataclass
class Environment:
    """Names and settings as they stand after the statements so far."""

    overrides: Mapping[str, str] = field(default_factory=dict)
    """Settings from the command line: they beat the script's SET."""
    config: Sequence[ast.Option] = ()
    """Settings of `--job-config`: the overrides beat them, and they beat the script's SET."""
    logins: Logins | None = None
    """What tables may log in with; None: what they name is not looked up."""
    adapt: Callable[[Connector], Connector] = lambda connector: connector
    """What the command line asks of every table: `--local`."""
    python_files: Sequence[str] = ()
    """Files and directories of `--pyfiles`: from where Python may be loaded, beside the installed packages."""
    settings: dict[str, object] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    """The settings as they were given."""
    written: dict[str, str] = field(default_factory=dict)
    """Of those with references, what was written."""
    places: dict[str, Span | None] = field(default_factory=dict)
    """Where each setting was given, by its name of today; None: on the command line."""
    names: Namespaces = field(default_factory=Namespaces)
    warnings: list[Diagnostic] = field(default_factory=list)
    meaningless: list[str] = field(default_factory=list)
    """Flink's settings that were given and have nothing to act on here."""
    view_plans: dict[int, tuple[View, nodes.Node]] = field(default_factory=dict)
    """What the binder has made of views, by their identity: a view may stand in many others."""

    _fixed: set[str] = field(default_factory=set, init=False)
    """Settings that a script cannot change, by their names of today."""

    def __post_init__(self) -> None:
        given = {known_settings.name_of(key) for key in self.overrides}
        for option in self.config:
            if known_settings.name_of(option.key) not in given:
                try:
                    self._set(option.key, option.value, option)
                except ScriptError as error:
                    raise UsageError(error.diagnostics) from None
        for key, value in self.overrides.items():
            self._set(key, value, None)
        self._fixed = given | {known_settings.name_of(option.key) for option in self.config}

    @property
    def objects(self) -> Mapping[str, Table | View]:
        """Tables and views of the current database, by name."""
        return self.names.objects()

    # --- names -------------------------------------------------------------------------------

    def find(self, name: ast.QualifiedName, within: tuple[str, str] | None = None) -> Table | View:
        found = self.names.find(name, within)
        if found is None:
            raise self.names.missing(
                name, f"table '{name}' does not exist", "create it with CREATE TABLE first"
            )
        return found

    def function(
        self, name: ast.QualifiedName, within: tuple[str, str] | None = None
    ) -> PythonFunction | None:
        """A function that the script has made. Behind a bare name the built-in one counts, unless a system function has
        taken its place."""
        word = name.parts[-1].name
        built_in = (FUNCTIONS, AGGREGATES, SET_MARKS, NOT_YET)
        if len(name.parts) == 1 and any(word.upper() in table for table in built_in):
            found = self.names.system_functions.get(word.lower())
        else:
            found = self.names.function(name, within)
        return found

    def setting(self, key: str) -> str | None:
        return self.texts.get(key)

    def within(self, found: Table | View) -> _Within:
        place = found.made_in if isinstance(found, View) else (found.catalog, found.database)
        return _Within(self, place)

    def with_options(self, table: Table, hint: ast.Hint) -> Table:
        """The table of one query, as `/*+ OPTIONS(…) */` changes it."""
        assert table.statement is not None
        return self._table(with_options(table.statement, hint), table.path)

    def warn(self, warning: Diagnostic) -> None:
        if warning not in self.warnings:
            self.warnings.append(warning)

    # --- statements --------------------------------------------------------------------------

    def apply(self, statement: ast.Statement) -> Job | Text | None:
        if isinstance(statement, _CHANGING) or getattr(statement, "temporary", False):
            self.view_plans.clear()
        match statement:
            case ast.CreateTable(query=ast.Query()):
                return self._create_as_select(statement)
            case ast.CreateTable():
                self._create_table(statement)
            case ast.CreateView():
                view = self._view(statement, self.names.path(statement.name))
                self.names.create(
                    statement.name, view, statement.temporary, statement.if_not_exists
                )
            case ast.CreateFunction():
                self._create_function(statement)
            case ast.CreateCatalog():
                self.names.create_catalog(statement)
            case ast.CreateDatabase():
                self.names.create_database(statement)
            case ast.Use():
                self.names.use(statement)
            case ast.DropObject():
                self._drop(statement)
            case ast.Alter():
                self._alter(statement)
            case ast.Show() | ast.Describe():
                return Text(self._shown(statement))
            case ast.SetOption(option=None):
                shown = sorted(redacted(self.texts | self.written).items())
                return Text("\n".join(f"'{k}' = '{v}'" for k, v in shown))
            case ast.SetOption(option=ast.Option() as option):
                if known_settings.name_of(option.key) not in self._fixed:
                    self._set(option.key, option.value, option)
            case ast.ResetOption():
                for key in list(self.texts) if statement.key is None else [statement.key]:
                    if known_settings.name_of(key) not in self._fixed:
                        self.settings.pop(known_settings.name_of(key), None)
                        self.texts.pop(key, None)
                        self.written.pop(key, None)
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
            case ast.AddJar():
                raise refuse_jar(statement)
            case _:
                raise not_yet("this statement", statement.span)
        return None

    # --- tables and views --------------------------------------------------------------------

    def _create_table(self, statement: ast.CreateTable) -> None:
        if statement.like is not None:
            statement = like(statement, self._like_base(statement.like))
        table = self._table(statement, self.names.path(statement.name))
        self.names.create(statement.name, table, statement.temporary, statement.if_not_exists)

    def _table(self, statement: ast.CreateTable, path: ObjectPath) -> Table:
        within = (path.catalog, path.database)
        table, warnings = bind_table(
            statement, self.texts, path, lambda name: self.function(name, within)
        )
        self.warnings += warnings
        adapted = replace(table, connector=self.adapt(table.connector))
        if self.logins is not None:
            self._tell(self.logins.check_table(adapted))
        return adapted

    def _like_base(self, node: ast.TableLike) -> ast.CreateTable:
        found = self.names.find(node.table)
        if found is None:
            raise self.names.missing(
                node.table,
                f"Source table '{self.names.path(node.table).quoted}' of the LIKE clause not found in the catalog",
                None,
            )
        if isinstance(found, View):
            raise script_error(
                "PLAN-082",
                f"Source table '{found.path.quoted}' of the LIKE clause can not be a VIEW",
                node.table.span,
            )
        assert found.statement is not None
        return found.statement

    def _create_as_select(self, statement: ast.CreateTable) -> Job | None:
        assert statement.query is not None
        query = bind_view(statement.query, self)
        table_of_query = as_select(statement, query.columns)
        table = self._table(table_of_query, self.names.path(statement.name))
        if not self.names.create(statement.name, table, if_not_exists=statement.if_not_exists):
            return None
        place = statement.query.span
        columns = tuple(ast.Identifier(place, c.name) for c in query.columns)
        insert = ast.Insert(statement.span, statement.name, columns, statement.query)
        try:
            return self._job((bind_insert(insert, self),), statement.name.span)
        except ScriptError:
            self.names.remove(table.path)
            raise

    def _view(self, statement: ast.CreateView, path: ObjectPath) -> View:
        bound = bind_view(statement.query, self)
        names = tuple(c.name for c in statement.columns)
        for column in statement.columns:
            if names.count(column.name) > 1:
                raise script_error(
                    "PLAN-040", f"column '{column.name}' is declared twice", column.span
                )
        if names and len(names) != len(bound.columns):
            raise script_error(
                "PLAN-055",
                f"{len(names)} names for {len(bound.columns)} columns",
                statement.columns[0].span,
            )
        # Short names in the query count from where the statement was given.
        return View(
            path.name,
            names,
            statement.query,
            statement.name.span,
            path.catalog,
            path.database,
            statement,
            (self.names.catalog, self.names.database),
        )

    def _create_function(self, statement: ast.CreateFunction) -> None:
        places = self._python_places(statement.span)
        self.names.create_function(statement, make_function(statement, places))

    @property
    def allowed_files(self) -> list[str]:
        """Those that the user names: by `--pyfiles`, or by `--set python.files=…`."""
        return [*self.python_files, *listed_files(self.overrides.get("python.files", ""))]

    def _python_places(self, span: Span) -> PythonPlaces:
        setting = self.texts.get("python.files", "")
        return python_places(self.allowed_files, setting, span.source.name)

    def _drop(self, statement: ast.DropObject) -> None:
        drops = {
            "FUNCTION": self.names.drop_function,
            "CATALOG": self.names.drop_catalog,
            "DATABASE": self.names.drop_database,
        }
        drops.get(statement.kind, self.names.drop)(statement)

    # --- ALTER -------------------------------------------------------------------------------

    def _alter(self, statement: ast.Alter) -> None:
        match statement.kind:
            case "DATABASE":
                database = self.names.find_database(statement.name)[1]
                self._alter_options(statement, database.options)
            case "CATALOG":
                catalog = self.names.find_catalog(statement.name.parts[0])
                if isinstance(statement.change, ast.Comment):
                    catalog.comment = statement.change.text
                else:
                    self._alter_options(statement, catalog.options)
            case _:
                self._alter_object(statement)

    @staticmethod
    def _alter_options(statement: ast.Alter, options: dict[str, str]) -> None:
        match statement.change:
            case ast.SetOptions() as change:
                options |= {o.key: o.value for o in change.options}
            case ast.ResetOptions() as change:
                for key, span in zip(change.keys, change.key_spans, strict=True):
                    if key == "type":
                        raise script_error(
                            "PLAN-084",
                            f"ALTER {statement.kind} RESET does not support changing 'type'",
                            span,
                        )
                    options.pop(key, None)
            case _:
                raise script_error(
                    "PLAN-084", f"ALTER {statement.kind} cannot do this", statement.span
                )

    def _alter_object(self, statement: ast.Alter) -> None:
        path = self.names.path(statement.name)
        word = statement.kind.lower()
        is_temporary = path in self.names.temporary
        found = None if is_temporary else self.names.find(statement.name)
        if found is None:
            if statement.if_exists:
                return
            raise self.names.missing(
                statement.name,
                f"{word.capitalize()} {path.quoted} doesn't exist or is a temporary {word}.",
                f"DROP the temporary {word} and create it anew" if is_temporary else None,
            )
        if isinstance(found, View) != (statement.kind == "VIEW"):
            other = "view" if isinstance(found, View) else "table"
            raise script_error(
                "PLAN-084",
                f"{path.quoted} is a {other}: ALTER {statement.kind} cannot change it",
                statement.name.span,
                f"write ALTER {other.upper()}",
            )
        if isinstance(statement.change, ast.RenameTo):
            self._rename(found, statement.change.name)
        elif isinstance(found, View):
            self._redefine(found, statement)
        else:
            self._alter_table(found, statement)

    def _rename(self, found: Table | View, to: ast.QualifiedName) -> None:
        path = self.names.path(to)
        if (path.catalog, path.database) != (found.catalog, found.database):
            raise script_error(
                "PLAN-084",
                f"RENAME TO cannot move '{found.path}' to another database",
                to.span,
                "create it there, with LIKE for a table",
            )
        hint = "choose another name, or DROP what has it"
        self.names.create(to, replace(found, name=path.name), hint=hint)
        self.names.remove(found.path)

    def _redefine(self, found: View, statement: ast.Alter) -> None:
        if not isinstance(statement.change, ast.RedefineView) or found.statement is None:
            raise script_error("PLAN-084", "ALTER VIEW cannot do this", statement.span)
        created = replace(
            found.statement, name=statement.name, columns=(), query=statement.change.query
        )
        self.names.put(found.path, self._view(created, found.path), False)

    def _alter_table(self, found: Table, statement: ast.Alter) -> None:
        assert found.statement is not None
        change = statement.change
        if isinstance(change, ast.ResetOptions):
            known = [o.key for o in found.statement.options]
            for key, span in zip(change.keys, change.key_spans, strict=True):
                if key not in known:
                    hint = did_you_mean(key, known)
                    message = f"table '{found.name}' has no option '{key}' to reset"
                    self.warn(Diagnostic("PLAN-089", message, span, hint, "warning"))
        changed = altered(found.statement, change, statement.span)
        try:
            table = self._table(replace(changed, name=statement.name), found.path)
        except ScriptError as error:
            # What was right until now is not to blame: the ALTER is.
            moved = [
                d if _is_inside(d.span, statement.span) else replace(d, span=statement.name.span)
                for d in error.diagnostics
            ]
            raise ScriptError(moved) from None
        self.names.put(found.path, table, False)

    # --- SHOW and DESCRIBE -------------------------------------------------------------------

    def _shown(self, statement: ast.Show | ast.Describe) -> str:
        if isinstance(statement, ast.Show):
            return answers.show(statement, self.names, self._schema)
        match statement.kind:
            case "CATALOG":
                return answers.describe_catalog(statement, self.names)
            case "DATABASE":
                return answers.describe_database(statement, self.names)
            case "FUNCTION":
                return answers.describe_function(
                    statement, self.names, self.function(statement.name)
                )
        return answers.columns_box(self._schema(statement.name))

    def _schema(self, name: ast.QualifiedName) -> Schema:
        found = answers.find_described(name, self.names)
        if isinstance(found, Table):
            return found.schema
        node = bind_view(found.query, self.within(found))
        names = found.columns or tuple(c.name for c in node.columns)
        return answers.view_schema(names, node.columns)

    def _set(self, key: str, value: str, option: ast.Option | None) -> None:
        # A line of --job-config is shown as it stands there, so that one with a secret is not shown.
        is_shown = option is not None and (option not in self.config or not is_secret(key))
        spans = (option.span, option.value_span) if option and is_shown else (None, None)
        if has_reference(value):
            self.written[key] = value
            value = _referred(key, value, option)
        else:
            self.written.pop(key, None)
        known = known_settings.resolve(key, value, *spans)
        found = known.diagnostic
        if found is not None and found.severity == "error":
            raise ScriptError([found]) if option else UsageError([found])
        if found is not None:
            self.warnings.append(found)
        if key == "python.files" and option is not None:
            self._tell_not_allowed(option)
        if (
            known.status is known_settings.Status.MEANINGLESS
            and found is None
            and key not in self.meaningless
        ):
            self.meaningless.append(key)
        self.settings[known.key] = known.value
        self.places[known.key] = spans[1]
        self.texts[key] = value

    def _tell_not_allowed(self, option: ast.Option) -> None:
        named = not_allowed(listed_files(option.value), self.allowed_files)
        if named:
            self.warn(
                Diagnostic(
                    "PLAN-094",
                    f"Python is not loaded from '{named[0]}' because a script says so",
                    option.value_span,
                    "allow it on the command line: " + " ".join(f"--pyfiles {n}" for n in named),
                    "warning",
                )
            )

    def _tell(self, found: Sequence[Diagnostic]) -> None:
        """Keep what is only worth a word; refuse the statement for the rest."""
        errors = [d for d in found if d.severity == "error"]
        for diagnostic in found:
            if diagnostic not in errors:
                self.warn(diagnostic)
        if errors:
            raise ScriptError(errors)

    def _job(self, roots: tuple[nodes.Root, ...], span: Span) -> Job:
        settled: list[nodes.Root] = []
        modes = []
        materialize = self.texts.get("table.exec.sink.upsert-materialize", "AUTO").upper()
        requires = self.settings.get("table.exec.sink.require-on-conflict")
        for root in roots:
            end, emitted = infer_modes(root, span, materialize, requires is True)
            assert isinstance(end, nodes.Root)
            settled.append(end)
            modes.append(emitted)
            if isinstance(end, nodes.Sink):
                parallelism = self.settings.get("parallelism.default", 1)
                assert isinstance(parallelism, int)
                check_writers(end.table, emitted.of(end.input), parallelism, end.span)
                check_partitioner(end.table, self._python_places(span), end.span)
        missing = not_runnable(settled, span)
        job = Job(tuple(settled), tuple(modes), dict(self.settings), span, missing)
        _ = job.late_rows  # a slip in its settings is told here
        if self.logins is not None:
            self._tell(self.logins.check_job(job.tables, self.settings, self.places))
        return job

    def _explain(self, statement: ast.Explain) -> Text:
        inner = statement.statement
        answer: Job | Text | None
        if isinstance(inner, ast.QueryStatement):
            node = bind_query(inner.query, self)
            asked = (nodes.Updates.AFTER, nodes.Updates.BOTH)
            end = nodes.Collect(node, asked)
            answer = self._job((end,), inner.span)
        else:
            answer = self.apply(inner)
            if isinstance(inner, ast.CreateTable) and answer is not None:
                self.names.remove(self.names.path(inner.name))
        if not isinstance(answer, Job):
            raise script_error(
                "PLAN-062", "EXPLAIN needs a query, an INSERT or a STATEMENT SET", statement.span
            )
        pairs = list(zip(answer.roots, answer.modes, strict=True))
        keys = "CHANGELOG_MODE" in statement.details
        plans = [explain(root, modes, keys) for root, modes in pairs]
        if "JSON_EXECUTION_PLAN" in statement.details:
            trees = [tree(root, modes) for root, modes in pairs]
            plans.append(json.dumps(trees, ensure_ascii=False, indent=2))
        return Text("\n\n".join(plans))


@dataclass(frozen=True)
class _Within:
    """An environment as a view or table sees it: short names count from another catalog and database."""

    environment: Environment
    place: tuple[str, str]

    def find(self, name: ast.QualifiedName) -> Table | View:
        return self.environment.find(name, self.place)

    def function(self, name: ast.QualifiedName) -> PythonFunction | None:
        return self.environment.function(name, self.place)

    def within(self, found: Table | View) -> _Within:
        return self.environment.within(found)

    def setting(self, key: str) -> str | None:
        return self.environment.setting(key)

    @property
    def view_plans(self) -> dict[int, tuple[View, nodes.Node]]:
        return self.environment.view_plans

    def with_options(self, table: Table, hint: ast.Hint) -> Table:
        return self.environment.with_options(table, hint)

    def warn(self, warning: Diagnostic) -> None:
        self.environment.warn(warning)


def _referred(key: str, value: str, option: ast.Option | None) -> str:
    """What a setting with references comes to."""
    try:
        return resolved(anchored(value, option.span) if option else value)
    except Unresolved as problem:
        message = f"setting '{key}': {problem.reason}"
        place = option.value_span if option else None
        found = [Diagnostic("OPT-017", message, place, problem.hint)]
        raise (ScriptError(found) if option else UsageError(found)) from None


def _is_inside(span: Span | None, other: Span) -> bool:
    return (
        span is not None
        and span.source is other.source
        and other.start <= span.start
        and span.end <= other.end
    )


@contextmanager
def _deep_calls() -> Iterator[None]:
    """Room for plans of views upon views: a plan is walked by functions that call themselves."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, 5000))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def compile_script(script: ast.Script, environment: Environment) -> list[Job | Text]:
    """Apply every statement; report the mistakes of all of them in one go."""
    with _deep_calls():
        return _compile(script, environment)


def _compile(script: ast.Script, environment: Environment) -> list[Job | Text]:
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
            environment.names.remember_broken(statement)
            continue
        except ScriptError as error:
            # An error without a diagnostic is the echo of one that was reported.
            problems += error.diagnostics
            _remember_broken(statement, error, environment)
            continue
        if answer is not None:
            found.append(answer)
    environment.names.forget_broken()
    if problems:
        # A table made LIKE a broken one is broken in the same place.
        raise ScriptError(list(dict.fromkeys(problems)))
    return found


def place_of(job: Job, name: str) -> str:
    """Where below its root a job keeps its checkpoint; `name` is the script's, which the job may not like."""
    return f"{job.settings.get('pipeline.name') or name}/{job.target}"


def shared_place(place: str, span: Span) -> ScriptError:
    return script_error(
        "PLAN-063",
        f"two jobs of this script would share the checkpoint '{place}'",
        span,
        "SET another 'pipeline.name' before the second INSERT, or put both into one STATEMENT SET",
    )


def check_places(jobs: Iterable[Job], name: str) -> list[Diagnostic]:
    """Jobs that would share a checkpoint in the directory that the script itself names."""
    taken: set[str] = set()
    found: list[Diagnostic] = []
    for job in jobs:
        place = place_of(job, name)
        if job.settings.get("execution.checkpointing.dir"):
            found += shared_place(place, job.span).diagnostics if place in taken else ()
            taken.add(place)
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
    names = environment.names
    names.remember_broken(statement)
    table = error.table if isinstance(error, BrokenTable) else None
    if table is None or not isinstance(statement, ast.CreateTable):
        return
    if table.name not in names.objects(table.catalog, table.database):
        names.put(table.path, table, statement.temporary)

"""Catalogs and databases, and where a name leads.

In: names as scripts write them, of one to three parts. Out: tables, views and functions, or a sentence that says which
part of the name is wrong. Law: Flink's rules: short names count from the current catalog and database; what is
temporary hides what is not; nothing outlives the session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tidemill.errors import ScriptError, Span, did_you_mean, script_error
from tidemill.functions import PythonFunction
from tidemill.sql import ast
from tidemill.tables.catalog import (
    DEFAULT_CATALOG,
    DEFAULT_DATABASE,
    ObjectPath,
    Table,
    Unusable,
    View,
)

CATALOG_TYPE = "generic_in_memory"
_MEMORY_OPTIONS = ("type", "default-database", "property-version")
# Flink's other types, and the way out.
_OTHER_TYPES = {
    "hive": "tables of a metastore are not read; declare the tables in the script",
    "jdbc": "tables of a database are not read; declare the tables in the script",
    "iceberg": "lake tables are not read; declare the Kafka tables in the script",
    "paimon": "lake tables are not read; declare the Kafka tables in the script",
    "hudi": "lake tables are not read; declare the Kafka tables in the script",
}


@dataclass
class Database:
    name: str
    options: dict[str, str] = field(default_factory=dict)
    comment: str | None = None
    objects: dict[str, Table | View] = field(default_factory=dict)
    functions: dict[str, PythonFunction] = field(default_factory=dict)
    """By name in lower case: a function's name has no case."""
    broken: bool = False
    """Its CREATE was refused; that something is missing in it is no news."""


@dataclass
class Catalog:
    name: str
    default_database: str
    options: dict[str, str] = field(default_factory=dict)
    comment: str | None = None
    databases: dict[str, Database] = field(default_factory=dict)
    broken: bool = False

    def __post_init__(self) -> None:
        self.databases.setdefault(self.default_database, Database(self.default_database))


@dataclass
class Namespaces:
    """All names of a session, and which of them may be written short."""

    catalog: str = DEFAULT_CATALOG
    database: str = DEFAULT_DATABASE
    catalogs: dict[str, Catalog] = field(
        default_factory=lambda: {
            DEFAULT_CATALOG: Catalog(DEFAULT_CATALOG, DEFAULT_DATABASE, {"type": CATALOG_TYPE})
        }
    )
    temporary: dict[ObjectPath, Table | View] = field(default_factory=dict)
    temporary_functions: dict[ObjectPath, PythonFunction] = field(default_factory=dict)
    system_functions: dict[str, PythonFunction] = field(default_factory=dict)
    """CREATE TEMPORARY SYSTEM FUNCTION: known everywhere, before the built-in ones."""
    broken: set[ObjectPath] = field(default_factory=set)
    """Tables, views and functions whose CREATE was refused."""

    # --- paths -------------------------------------------------------------------------------

    def path(self, name: ast.QualifiedName, within: tuple[str, str] | None = None) -> ObjectPath:
        """The whole name; `within` stands in for the current catalog and database."""
        catalog, database = within or (self.catalog, self.database)
        match [p.name for p in name.parts]:
            case [last]:
                return ObjectPath(catalog, database, last)
            case [middle, last]:
                return ObjectPath(catalog, middle, last)
            case [first, middle, last]:
                return ObjectPath(first, middle, last)
        raise script_error(
            "PLAN-060",
            f"'{name}' has more than three parts",
            name.span,
            "a whole name is catalog.database.table",
        )

    def home(self, path: ObjectPath, name: ast.QualifiedName) -> Database:
        """The database that a path leads into; it must exist."""
        catalog = self.catalogs.get(path.catalog)
        if catalog is None:
            raise self._no_catalog(path.catalog, name.parts[0].span)
        database = catalog.databases.get(path.database)
        if database is None:
            if catalog.broken:
                raise ScriptError([])
            part = name.parts[-2] if len(name.parts) > 1 else name.parts[0]
            raise self._no_database(catalog, path.database, part.span)
        return database

    def _no_catalog(self, name: str, span: Span) -> ScriptError:
        hint = did_you_mean(name, list(self.catalogs), f"catalogs are {', '.join(self.catalogs)}")
        return script_error("PLAN-060", f"A catalog with name [{name}] does not exist.", span, hint)

    def _no_database(self, catalog: Catalog, name: str, span: Span) -> ScriptError:
        known = list(catalog.databases)
        hint = did_you_mean(name, known, f"its databases are {', '.join(known)}")
        if name in self.catalogs:
            hint = "a name that begins with a catalog has three parts: catalog.database.table"
        return script_error(
            "PLAN-060",
            f"A database with name [{name}] does not exist in the catalog: [{catalog.name}].",
            span,
            hint,
        )

    # --- tables and views --------------------------------------------------------------------

    def find(
        self, name: ast.QualifiedName, within: tuple[str, str] | None = None
    ) -> Table | View | None:
        """The table or view of a name, the temporary one first; None when there is none."""
        path = self.path(name, within)
        if path in self.temporary:
            return self.temporary[path]
        home = self.home(path, name)
        found = home.objects.get(path.name)
        if found is None and (home.broken or self._is_broken(path)):
            raise ScriptError([])
        return found

    def missing(self, name: ast.QualifiedName, message: str, otherwise: str | None) -> ScriptError:
        """The sentence for a table that is not there: a name like it, here or in another database."""
        path = self.path(name)
        here = self.objects(path.catalog, path.database)
        hint = None if path.name in here else did_you_mean(path.name, list(here))
        if hint is None and path.name not in here:
            found = next((p for p in self._all_paths() if p.name == path.name), None)
            if found is not None:
                short = str(found).removeprefix(f"{self.catalog}.")
                hint = f"did you mean '{short}'?"
        hint = hint or otherwise
        return script_error("PLAN-059", message, name.span, hint)

    def objects(
        self, catalog: str | None = None, database: str | None = None
    ) -> Mapping[str, Table | View]:
        """What a database holds, by name, as a query sees it."""
        place = (catalog or self.catalog, database or self.database)
        found: dict[str, Table | View] = {}
        if place[0] in self.catalogs and place[1] in self.catalogs[place[0]].databases:
            found |= self.catalogs[place[0]].databases[place[1]].objects
        hiding = {
            p.name: what for p, what in self.temporary.items() if (p.catalog, p.database) == place
        }
        return found | hiding

    def _all_paths(self) -> Iterator[ObjectPath]:
        yield from self.temporary
        for catalog in self.catalogs.values():
            for database in catalog.databases.values():
                for name in database.objects:
                    yield ObjectPath(catalog.name, database.name, name)

    def create(
        self,
        name: ast.QualifiedName,
        what: Table | View,
        temporary: bool = False,
        if_not_exists: bool = False,
        hint: str = "write IF NOT EXISTS, or DROP it first",
    ) -> bool:
        """Keep a table or view; False when there was one and IF NOT EXISTS was said."""
        path = self.path(name)
        if temporary:
            exists, message = path in self.temporary, f"Temporary table '{path}' already exists"
        else:
            home = self.home(path, name)
            exists = path.name in home.objects
            message = f"Table (or view) {path.database}.{path.name} already exists in Catalog {path.catalog}."
        if exists and not if_not_exists:
            raise script_error("PLAN-061", message, name.span, hint)
        if exists:
            return False
        self.put(path, what, temporary)
        return True

    def put(self, path: ObjectPath, what: Table | View, temporary: bool) -> None:
        """Keep a table or view under a path that was looked at."""
        if temporary:
            self.temporary[path] = what
        else:
            self.catalogs[path.catalog].databases[path.database].objects[path.name] = what

    def drop(self, statement: ast.DropObject) -> None:
        """DROP [TEMPORARY] TABLE or VIEW."""
        path, word = self.path(statement.name), statement.kind.lower()
        kind = View if statement.kind == "VIEW" else Table
        hidden = self.temporary.get(path)
        if statement.temporary:
            if isinstance(hidden, kind):
                del self.temporary[path]
            elif not statement.if_exists:
                raise self.missing(
                    statement.name,
                    f"Temporary {word} with identifier '{path}' does not exist.",
                    f"what is not temporary goes with DROP {statement.kind}",
                )
            return
        if isinstance(hidden, kind):
            raise script_error(
                "PLAN-080",
                f"Temporary {word} with identifier '{path}' exists. Drop it first before removing the permanent"
                f" {word}.",
                statement.name.span,
                f"write DROP TEMPORARY {statement.kind} {statement.name}",
            )
        found = self._permanent(path, statement)
        if isinstance(found, kind):
            self.remove(path)
        elif not statement.if_exists:
            other = "table" if word == "view" else "view"
            hint = f"it is a {other}: write DROP {other.upper()}" if found else None
            raise self.missing(
                statement.name,
                f"{word.capitalize()} with identifier '{path}' does not exist.",
                hint,
            )

    def _permanent(self, path: ObjectPath, statement: ast.DropObject) -> Table | View | None:
        try:
            home = self.home(path, statement.name)
        except ScriptError:
            if statement.if_exists:
                return None
            raise
        found = home.objects.get(path.name)
        if found is None and (home.broken or self._is_broken(path)):
            raise ScriptError([])
        return found

    def remove(self, path: ObjectPath) -> None:
        del self.catalogs[path.catalog].databases[path.database].objects[path.name]

    # --- functions ---------------------------------------------------------------------------

    def function(
        self, name: ast.QualifiedName, within: tuple[str, str] | None = None
    ) -> PythonFunction | None:
        """The function of a name, as far as scripts have made it; None when they have not."""
        last = name.parts[-1].name.lower()
        if len(name.parts) == 1 and last in self.system_functions:
            return self.system_functions[last]
        if len(name.parts) > 3:
            return None
        whole = self.path(name, within)
        path = ObjectPath(whole.catalog, whole.database, last)
        if path in self.temporary_functions:
            return self.temporary_functions[path]
        catalog = self.catalogs.get(path.catalog)
        home = catalog.databases.get(path.database) if catalog else None
        found = home.functions.get(last) if home else None
        if found is None and ((home is not None and home.broken) or self._is_broken(path)):
            raise ScriptError([])
        return found

    def create_function(self, statement: ast.CreateFunction, function: PythonFunction) -> None:
        path = self._function_path(statement.name)
        if statement.system:
            place, kind = f"Temporary system function '{path.name}'", "system"
            exists = path.name in self.system_functions
        elif statement.temporary:
            place, kind = f"Temporary catalog function '{path}'", "temporary"
            exists = path in self.temporary_functions
        else:
            home = self.home(path, statement.name)
            place, kind = f"Function {path.database}.{path.name}", ""
            exists = path.name in home.functions
        if exists:
            if statement.if_not_exists:
                return
            where = "" if kind else f" in Catalog {path.catalog}"
            raise script_error(
                "PLAN-061",
                f"{place} already exists{where}.",
                statement.name.span,
                "write IF NOT EXISTS, or DROP it first",
            )
        if kind == "system":
            self.system_functions[path.name] = function
        elif kind == "temporary":
            self.temporary_functions[path] = function
        else:
            self.catalogs[path.catalog].databases[path.database].functions[path.name] = function

    def drop_function(self, statement: ast.DropObject) -> None:
        path = self._function_path(statement.name)
        if statement.system:
            removed = self.system_functions.pop(path.name, None)
        elif statement.temporary:
            removed = self.temporary_functions.pop(path, None)
        else:
            removed = self.home(path, statement.name).functions.pop(path.name, None)
        if removed is None and not statement.if_exists:
            if self._is_broken(path):
                raise ScriptError([])
            known = list(self.functions())
            raise script_error(
                "PLAN-059",
                f"Function {path.database}.{path.name} does not exist in Catalog {path.catalog}.",
                statement.name.span,
                did_you_mean(path.name, known),
            )

    def functions(
        self, catalog: str | None = None, database: str | None = None
    ) -> Mapping[str, PythonFunction]:
        """The functions that scripts have made, as far as a short name reaches them."""
        place = (catalog or self.catalog, database or self.database)
        found = dict(self.system_functions)
        if place[0] in self.catalogs and place[1] in self.catalogs[place[0]].databases:
            found |= self.catalogs[place[0]].databases[place[1]].functions
        return found | {
            p.name: f
            for p, f in self.temporary_functions.items()
            if (p.catalog, p.database) == place
        }

    def _function_path(self, name: ast.QualifiedName) -> ObjectPath:
        path = self.path(name)
        return ObjectPath(path.catalog, path.database, path.name.lower())

    # --- catalogs and databases --------------------------------------------------------------

    def create_catalog(self, statement: ast.CreateCatalog) -> None:
        name = statement.name.name
        if name in self.catalogs:
            if statement.if_not_exists:
                return
            raise script_error(
                "PLAN-061", f"Catalog {name} already exists.", statement.name.span, "DROP it first"
            )
        given = {o.key: o for o in statement.options}
        type_ = given.get("type")
        if type_ is None:
            raise script_error(
                "PLAN-081",
                f"catalog '{name}' has no option 'type'",
                statement.name.span,
                f"write WITH ('type' = '{CATALOG_TYPE}')",
            )
        if type_.value != CATALOG_TYPE:
            way = _OTHER_TYPES.get(type_.value, "declare the tables in the script")
            raise script_error(
                "PLAN-081",
                f"a catalog of type '{type_.value}' is not supported; '{CATALOG_TYPE}' is",
                type_.value_span,
                way,
            )
        for option in statement.options:
            if option.key not in _MEMORY_OPTIONS:
                raise script_error(
                    "PLAN-081",
                    f"Unsupported options found for '{CATALOG_TYPE}'. Unsupported option: '{option.key}'",
                    option.span,
                    did_you_mean(option.key, _MEMORY_OPTIONS),
                )
        default = given["default-database"].value if "default-database" in given else "default"
        texts = {o.key: o.value for o in statement.options}
        self.catalogs[name] = Catalog(name, default, texts, statement.comment)

    def create_database(self, statement: ast.CreateDatabase) -> None:
        catalog, name = self._database_name(statement.name)
        if name in catalog.databases:
            if statement.if_not_exists:
                return
            raise script_error(
                "PLAN-061",
                f"Database {name} already exists in Catalog {catalog.name}.",
                statement.name.span,
                "write IF NOT EXISTS, or DROP it first",
            )
        texts = {o.key: o.value for o in statement.options}
        catalog.databases[name] = Database(name, texts, statement.comment)

    def find_catalog(self, name: ast.Identifier) -> Catalog:
        found = self.catalogs.get(name.name)
        if found is None:
            raise self._no_catalog(name.name, name.span)
        return found

    def find_database(self, name: ast.QualifiedName) -> tuple[Catalog, Database]:
        catalog, last = self._database_name(name)
        found = catalog.databases.get(last)
        if found is None:
            if catalog.broken:
                raise ScriptError([])
            raise self._no_database(catalog, last, name.parts[-1].span)
        return catalog, found

    def _database_name(self, name: ast.QualifiedName) -> tuple[Catalog, str]:
        if len(name.parts) > 2:
            raise script_error(
                "PLAN-060",
                f"'{name}' has more than two parts",
                name.span,
                "a database's whole name is catalog.database",
            )
        if len(name.parts) == 1:
            return self.catalogs[self.catalog], name.parts[0].name
        return self.find_catalog(name.parts[0]), name.parts[1].name

    def use(self, statement: ast.Use) -> None:
        if statement.catalog:
            catalog = self.find_catalog(statement.name.parts[0])
            self.catalog, self.database = catalog.name, catalog.default_database
        else:
            catalog, database = self.find_database(statement.name)
            self.catalog, self.database = catalog.name, database.name

    def drop_catalog(self, statement: ast.DropObject) -> None:
        name = statement.name.parts[0]
        if name.name not in self.catalogs and statement.if_exists:
            return
        catalog = self.find_catalog(name)
        if catalog.name == self.catalog:
            raise script_error(
                "PLAN-080",
                "Cannot drop a catalog which is currently in use.",
                statement.name.span,
                "USE CATALOG another one first",
            )
        del self.catalogs[catalog.name]

    def drop_database(self, statement: ast.DropObject) -> None:
        try:
            catalog, database = self.find_database(statement.name)
        except ScriptError:
            if statement.if_exists:
                return
            raise
        if (catalog.name, database.name) == (self.catalog, self.database):
            raise script_error(
                "PLAN-080",
                "Cannot drop a database which is currently in use.",
                statement.name.span,
                "USE another one first",
            )
        if (database.objects or database.functions) and not statement.cascade:
            raise script_error(
                "PLAN-080",
                f"Database {database.name} in catalog {catalog.name} is not empty.",
                statement.name.span,
                "DROP DATABASE … CASCADE drops what it holds as well",
            )
        del catalog.databases[database.name]

    # --- what was refused --------------------------------------------------------------------

    def remember_broken(self, statement: ast.Statement) -> None:
        """A name whose statement failed must not make every statement that uses it fail as well."""
        match statement:
            case ast.CreateTable() | ast.CreateView() | ast.CreateFunction() if (
                len(statement.name.parts) <= 3
            ):
                path = self.path(statement.name)
                self.broken |= {path, ObjectPath(path.catalog, path.database, path.name.lower())}
            case ast.Alter(change=ast.RenameTo() as change) if len(change.name.parts) <= 3:
                self.broken.add(self.path(change.name))
            case ast.CreateCatalog():
                self._stand_in(statement.name.name)
            case ast.CreateDatabase() if len(statement.name.parts) <= 2:
                parts = [p.name for p in statement.name.parts]
                self._stand_in(*([self.catalog, *parts][-2:]))
            case ast.Use() if statement.catalog:
                self._stand_in(statement.name.parts[0].name)
                self.use(statement)
            case ast.Use() if len(statement.name.parts) <= 2:
                parts = [p.name for p in statement.name.parts]
                self._stand_in(*([self.catalog, *parts][-2:]))
                self.use(statement)

    def _stand_in(self, catalog: str, database: str | None = None) -> None:
        """An empty catalog or database for one that was refused, so that the rest of the script can be checked."""
        if catalog not in self.catalogs:
            self.catalogs[catalog] = Catalog(catalog, "default", broken=True)
            self.catalogs[catalog].databases["default"].broken = True
        if database is not None and database not in self.catalogs[catalog].databases:
            self.catalogs[catalog].databases[database] = Database(database, broken=True)

    def forget_broken(self) -> None:
        """The next script starts without them, and without tables that were kept for the sake of its other mistakes."""
        self.broken.clear()
        for path in [p for p, what in self.temporary.items() if _is_unusable(what)]:
            del self.temporary[path]
        for catalog in self.catalogs.values():
            for database in catalog.databases.values():
                for name in [n for n, what in database.objects.items() if _is_unusable(what)]:
                    del database.objects[name]
        for name in [n for n, c in self.catalogs.items() if c.broken]:
            del self.catalogs[name]
        for catalog in self.catalogs.values():
            for name in [n for n, d in catalog.databases.items() if d.broken]:
                del catalog.databases[name]
        if self.catalog not in self.catalogs:
            self.catalog, self.database = DEFAULT_CATALOG, DEFAULT_DATABASE
            self.catalogs.setdefault(DEFAULT_CATALOG, Catalog(DEFAULT_CATALOG, DEFAULT_DATABASE))
        current = self.catalogs[self.catalog]
        if self.database not in current.databases:
            self.database = current.default_database
            current.databases.setdefault(self.database, Database(self.database))

    def _is_broken(self, path: ObjectPath) -> bool:
        return path in self.broken


def _is_unusable(what: Table | View) -> bool:
    return isinstance(what, Table) and isinstance(what.connector, Unusable)


__all__ = ["CATALOG_TYPE", "Catalog", "Database", "Namespaces"]

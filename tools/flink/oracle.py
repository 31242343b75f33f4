"""Flink itself, asked by lines of JSON. Runs in Flink's own virtual environment: `oracle.py JAVA JAR…`.

In, a request a line; out, an answer a line:

    {"do": "start", "statements": […], "settings": {…}}   → {"types": [[name, type]…], "plans": […]}
    {"do": "settle", "quiet": 3, "patience": 120}         → {"rows": [[kind, text]…], "ended": bool}
    {"do": "finish", "patience": 600}                     → {"seconds": since the start}
    {"do": "stop", "savepoints": directory}               → {"rows": …}
    {"do": "plan", "statements": […]}                     → {"types": …, "plan": text}

`start` runs the statements in a fresh TableEnvironment on the one cluster of this process; a final
SELECT is collected. `settle` answers when all jobs have ended, or when every task runs and nothing has
moved for `quiet` seconds: no row came, no operator counted a record, no source has records pending.
`finish` waits for the end of jobs that end by themselves and counts nothing meanwhile, because it is for
measuring; so is `"explained": false` of a `start`, which then asks for no plans. `stop` cancels what still
runs, or, told where, ends it with a savepoint. `plan` runs all statements but the last, which is only
explained; no job starts and nothing outside is asked. An answer with `"error": [[class, message]…]`, the
chain of causes, says that Flink refused or failed, one with `"fault": text` that the oracle did; what was
known by then is in the answer too.

Law: whatever a request does, it gets exactly one answer, and a row's text is written by Flink's JSON
format. Only what that format cannot carry (an interval, a map whose keys are no strings, a fraction of a
TIME's second) is written here.
"""

from __future__ import annotations

import base64
import glob
import json
import os
import re
import sys
import threading
import time
import urllib.parse
import urllib.request
from decimal import Decimal
from typing import Any

import pyflink
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JJavaError

# What every script starts from; its own SET statements come later and win.
SETTINGS = {
    "parallelism.default": "1",
    "table.local-time-zone": "UTC",
    # With checkpoints on, Flink would restart a job that reads a bad record for ever.
    "restart-strategy.type": "none",
}
CLUSTER = {
    "rest.port": "0",
    "rest.address": "127.0.0.1",
    "rest.bind-address": "127.0.0.1",
    # `settle` reads states and counters; by default they are up to three and ten seconds old.
    "web.refresh-interval": "100",
    "metrics.fetcher.update-interval": "200",
    # A cluster of many short jobs need not remember them.
    "jobstore.max-capacity": "20",
}
# Who measures says what a cluster is like.
CLUSTER |= json.loads(os.environ.get("TIDEMILL_FLINK_CLUSTER", "{}"))
SLOTS = int(os.environ.get("TIDEMILL_FLINK_SLOTS", "8"))

# Flink's own list for Java 17, without what only its command line needs.
OPENED = (
    *("lang", "net", "io", "nio", "lang.reflect", "text", "time", "util"),
    *("util.concurrent", "util.concurrent.atomic", "util.concurrent.locks"),
)

# An exactly-once sink tells its committer of every checkpoint, also of one without records.
COUNTERS = re.compile(r"(?<!_Committer)\.(numRecordsIn|numRecordsOut|pendingRecords)$")
MOMENT = re.compile(r"(?:(-?\d{4,}-\d\d-\d\d)T)?(\d\d:\d\d)(:\d\d)?(\.\d+)?(Z)?")
SPACE = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*", re.DOTALL)
SET = re.compile(r"SET\s+'?([\w.-]+)'?\s*=\s*(?:'((?:[^']|'')*)'|(\S+))\s*$", re.IGNORECASE)
PHYSICAL = re.compile(r"== Optimized Physical Plan ==\n(.*?)\n\s*\n== ", re.DOTALL)
# Only Flink's SQL client knows this form of a statement set.
CLIENT_SET = re.compile(r"^BEGIN\s+STATEMENT\s+SET\s*;", re.IGNORECASE)
QUERIES = ("SELECT", "WITH", "VALUES", "(")
JOBS = ("INSERT", "EXECUTE", "BEGIN")


class Flink:
    """The JVM and its cluster."""

    def __init__(self, java: str, jars: list[str]) -> None:
        own = glob.glob(os.path.join(os.path.dirname(pyflink.__file__), "lib", "*.jar"))
        self.gateway = JavaGateway.launch_gateway(
            java_path=java,
            classpath=os.pathsep.join([*sorted(own), *jars]),
            javaopts=[
                f"-Xmx{os.environ.get('TIDEMILL_FLINK_HEAP', '1g')}",
                *(f"--add-opens=java.base/java.{p}=ALL-UNNAMED" for p in OPENED),
            ],
            die_on_exit=True,
            redirect_stdout=sys.stderr,
            redirect_stderr=sys.stderr,
        )
        self.jvm = self.gateway.jvm
        self.flink = self.jvm.org.apache.flink
        minicluster = self.flink.runtime.minicluster
        builder = getattr(minicluster, "MiniClusterConfiguration$Builder")()
        builder.setConfiguration(self.configuration(CLUSTER))
        builder.setNumTaskManagers(1).setNumSlotsPerTaskManager(SLOTS)
        self.cluster = minicluster.MiniCluster(builder.build())
        self.cluster.start()
        self.rest = self.cluster.getRestAddress().get().toString()
        explain = self.flink.table.api.ExplainDetail
        self.details = self.gateway.new_array(explain, 1)
        self.details[0] = explain.CHANGELOG_MODE

    def configuration(self, settings: dict[str, str]) -> Any:
        made = self.flink.configuration.Configuration()
        for key, value in settings.items():
            made.setString(key, value)
        return made

    def environment(self, settings: dict[str, str]) -> Any:
        remote = {
            "execution.target": "remote",
            "rest.address": CLUSTER["rest.address"],
            "rest.port": self.rest.rpartition(":")[2],
        }
        builder = self.flink.table.api.EnvironmentSettings.newInstance().inStreamingMode()
        builder.withConfiguration(self.configuration({**SETTINGS, **settings, **remote}))
        return self.flink.table.api.TableEnvironment.create(builder.build())

    def plan(self, environment: Any, statement: str) -> str:
        """The physical plan of a statement, with changelog modes."""
        text = self.flink.table.api.ExplainFormat.TEXT
        explained = environment.explainSql(statement, text, self.details)
        return str(PHYSICAL.search(explained)[1])  # type: ignore[index]

    def ask(self, path: str) -> Any:
        with urllib.request.urlopen(self.rest + path, timeout=20) as answer:
            return json.load(answer)


def begin_of(statement: str) -> tuple[str, str]:
    """A statement without comments before it and in a form that Flink's API knows; its first word."""
    bare = statement[SPACE.match(statement).end() :]  # type: ignore[union-attr]
    bare = CLIENT_SET.sub("EXECUTE STATEMENT SET BEGIN", bare)
    return bare, re.match(r"\w+|\(|", bare)[0].upper()  # type: ignore[index]


def declare(environment: Any, statement: str) -> None:
    """Run a statement that starts no job."""
    assigned = SET.match(begin_of(statement)[0])
    if assigned:
        key, text, word = assigned.groups()
        value = word if text is None else text.replace("''", "'")
        environment.getConfig().set(key, value)
    else:
        environment.executeSql(statement)


def types_of(schema: Any) -> list[list[str]]:
    return [
        [column.getName(), column.getDataType().getLogicalType().asSummaryString()]
        for column in schema.getColumns()
    ]


class Rows:
    """Collects the changelog of one SELECT in a thread, because Flink's iterator blocks."""

    def __init__(self, flink: Flink, result: Any) -> None:
        schema = result.getResolvedSchema()
        self.types = types_of(schema)
        self.write = RowWriter(flink, schema)
        self.fresh: list[list[str]] = []
        self.count = 0
        self.broken: BaseException | None = None
        self.broken_at = 0.0
        self.stopped = False
        self.iterator = result.collect()
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        try:
            while self.iterator.hasNext():
                row = self.iterator.next()
                self.fresh.append([row.getKind().shortString(), self.write(row)])
                self.count += 1
        except Exception as problem:
            if not self.stopped:
                self.broken, self.broken_at = problem, time.monotonic()

    @property
    def is_ours(self) -> bool:
        return not isinstance(self.broken, Py4JJavaError)

    def take(self) -> list[list[str]]:
        taken, self.fresh = self.fresh, []
        return taken


class RowWriter:
    """An external Row as the text of a JSON object, column by column."""

    def __init__(self, flink: Flink, schema: Any) -> None:
        self.flink = flink
        data_type = schema.toPhysicalRowDataType()
        table = flink.flink.table
        self.converter = table.data.conversion.DataStructureConverters.getConverter(data_type)
        loader = flink.jvm.java.lang.Thread.currentThread().getContextClassLoader()
        self.converter.open(loader)
        self.columns = []
        for index, column in enumerate(schema.getColumns()):
            logical = column.getDataType().getLogicalType()
            json_schema = self._schema(logical) if is_json(logical) else None
            place = flink.gateway.new_array(flink.jvm.int, 1)
            place[0] = index
            only = getattr(table.data.utils.ProjectedRowData, "from")(place)
            self.columns.append((column.getName(), logical, json_schema, only))

    def _schema(self, logical: Any) -> Any:
        flink = self.flink.flink
        row_type = flink.table.types.logical.RowType
        field = getattr(flink.table.types.logical, "RowType$RowField")("v", logical)
        fields = self.flink.jvm.java.util.ArrayList()
        fields.add(field)
        options = flink.formats
        null_keys = getattr(options.json, "JsonFormatOptions$MapNullKeyMode").LITERAL
        schema = options.json.JsonRowDataSerializationSchema(
            row_type(fields), options.common.TimestampFormat.SQL, null_keys, "null", True, False
        )
        schema.open(None)
        return schema

    def __call__(self, row: Any) -> str:
        internal = self.converter.toInternalOrNull(row)
        members = []
        for index, (name, logical, schema, only) in enumerate(self.columns):
            if schema is None:
                text = other_text(logical, row.getField(index))
            else:
                document = schema.serialize(only.replaceRow(internal)).decode("utf-8")
                text = document[len('{"v":') : -1]
            members.append(f"{quoted(name)}:{text}")
        return "{" + ",".join(members) + "}"


# Types that Flink's JSON format writes as they are, if their parts are.
JSON_ROOTS = {
    *("CHAR", "VARCHAR", "BOOLEAN", "BINARY", "VARBINARY", "DECIMAL", "TINYINT", "SMALLINT"),
    *("INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DATE", "TIMESTAMP_WITHOUT_TIME_ZONE"),
    *("TIMESTAMP_WITH_LOCAL_TIME_ZONE", "ARRAY", "MAP", "MULTISET", "ROW", "NULL"),
}


def root_of(logical: Any) -> str:
    return str(logical.getTypeRoot().name())


def is_json(logical: Any) -> bool:
    root = root_of(logical)
    if root in ("MAP", "MULTISET") and root_of(logical.getChildren()[0]) not in ("CHAR", "VARCHAR"):
        return False
    if root == "TIME_WITHOUT_TIME_ZONE":
        # The format drops the fraction.
        return bool(logical.getPrecision() == 0)
    return root in JSON_ROOTS and all(is_json(part) for part in logical.getChildren())


def other_text(logical: Any, value: Any) -> str:
    """What Flink's JSON format cannot write, in the form it would have."""
    if value is None:
        return "null"
    root = root_of(logical)
    parts = list(logical.getChildren())
    if root in ("MAP", "MULTISET"):
        keys, values = parts[0], parts[1] if root == "MAP" else None
        members = []
        for entry in value.entrySet():
            key = other_text(keys, entry.getKey())
            count = entry.getValue()
            text = str(count) if values is None else other_text(values, count)
            members.append(f"{key if key.startswith(chr(34)) else quoted(key)}:{text}")
        return "{" + ",".join(sorted(members)) + "}"
    if root == "ARRAY":
        return "[" + ",".join(other_text(parts[0], item) for item in value) + "]"
    if root == "ROW":
        members = [
            f"{quoted(name)}:{other_text(part, value.getField(index))}"
            for index, (name, part) in enumerate(zip(logical.getFieldNames(), parts, strict=True))
        ]
        return "{" + ",".join(members) + "}"
    if isinstance(value, (bytes, bytearray)):
        return quoted(base64.b64encode(bytes(value)).decode("ascii"))
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, (bool, int, float, str)):
        return quoted(value)
    return quoted(java_text(value))


def java_text(value: Any) -> str:
    text = str(value.toString())
    found = MOMENT.fullmatch(text)
    if not found:
        return text
    # java.time leaves a zero of seconds out and writes a fraction in threes.
    date, minutes, seconds, fraction, zone = (part or "" for part in found.groups())
    fraction = fraction.rstrip("0").rstrip(".")
    return f"{date} {minutes}{seconds or ':00'}{fraction}{zone}".lstrip()


def quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


class Conversation:
    """One script, from start to stop."""

    def __init__(self, flink: Flink) -> None:
        self.flink = flink
        self.rows: Rows | None = None
        self.plans: list[str] = []
        self.jobs: list[Any] = []
        self.begun = time.monotonic()

    def start(self, statements: list[str], settings: dict[str, str], explained: bool) -> None:
        self.begun = time.monotonic()
        environment = self.flink.environment(settings)
        for statement in statements:
            bare, first = begin_of(statement)
            if first in (*QUERIES, *JOBS) and explained:
                self.plans.append(self.flink.plan(environment, bare))
            if first in QUERIES:
                self._running(environment.executeSql(statement), collected=True)
            elif first in JOBS:
                self._running(environment.executeSql(bare), collected=False)
            else:
                declare(environment, statement)

    def _running(self, result: Any, collected: bool) -> None:
        client = result.getJobClient()
        if client.isPresent():
            self.jobs.append(client.get())
        if collected:
            self.rows = Rows(self.flink, result)

    def finish(self, patience: float) -> float:
        """The seconds from the start to the end of all jobs; raises what made one fail."""
        for job in self.jobs:
            # Its result is asked for by Flink's client every two seconds only.
            while not job.getJobStatus().get().isGloballyTerminalState():
                if time.monotonic() - self.begun > patience:
                    raise TimeoutError(f"the jobs did not end within {patience:g} seconds")
                time.sleep(0.05)
        seconds = time.monotonic() - self.begun
        for job in self.jobs:
            if job.getJobStatus().get().name() != "FINISHED":
                job.getJobExecutionResult().get()  # raises what made it fail
        return seconds

    def settle(self, quiet: float, patience: float) -> bool:
        """Whether all jobs have ended by themselves."""
        begun = since = time.monotonic()
        before: Any = None
        while True:
            states = [self._look_at(job) for job in self.jobs]
            for job, (state, _) in zip(self.jobs, states, strict=True):
                if state in ("FAILED", "FAILING"):
                    job.getJobExecutionResult().get()  # raises what made it fail
            if self.rows and self.rows.broken:
                # The job's own failure says more than that of the one who waits for its rows.
                if time.monotonic() - self.rows.broken_at > 10 or self.rows.is_ours:
                    raise self.rows.broken
                time.sleep(0.1)
                continue
            ended = all(state in ("FINISHED", "CANCELED") for state, _ in states)
            if ended and not (self.rows and self.rows.thread.is_alive()):
                return True
            now = time.monotonic()
            moved = (self.rows.count if self.rows else 0, states)
            busy = any(
                state != "RUNNING" and state != "FINISHED" or counters is None
                for state, counters in states
            )
            if busy or moved != before:
                since, before = now, moved
            elif now - since >= quiet:
                return False
            if now - begun > patience:
                raise TimeoutError(f"the jobs were not quiet within {patience:g} seconds: {states}")
            time.sleep(0.1)

    def _look_at(self, job: Any) -> tuple[str, dict[str, str] | None]:
        """The state of a job and its counters; none while it is not at its steady work."""
        path = f"/jobs/{job.getJobID().toString()}"
        detail = self.flink.ask(path)
        if detail["state"] != "RUNNING":
            return detail["state"], None if detail["state"] != "FINISHED" else {}
        counters: dict[str, str] = {}
        for vertex in detail["vertices"]:
            if vertex["status"] not in ("RUNNING", "FINISHED"):
                return "RUNNING", None
            of_vertex = f"{path}/vertices/{vertex['id']}/metrics"
            names = [m["id"] for m in self.flink.ask(of_vertex) if COUNTERS.search(m["id"])]
            if not names and vertex["status"] == "RUNNING":
                return "RUNNING", None
            wanted = urllib.parse.quote(",".join(names))
            for metric in self.flink.ask(f"{of_vertex}?get={wanted}") if names else []:
                counters[f"{vertex['id']}.{metric['id']}"] = metric["value"]
                if metric["id"].endswith("pendingRecords") and metric["value"] not in ("0", "0.0"):
                    return "RUNNING", None
        return "RUNNING", counters

    def stop(self, savepoints: str | None = None) -> None:
        if self.rows:
            self.rows.stopped = True
        canonical = self.flink.flink.core.execution.SavepointFormatType.CANONICAL
        for job in self.jobs:
            if job.getJobStatus().get().isGloballyTerminalState():
                continue
            if savepoints:
                job.stopWithSavepoint(False, savepoints, canonical).get()
            else:
                job.cancel().get()
        for job in self.jobs:
            while not job.getJobStatus().get().isGloballyTerminalState():
                time.sleep(0.05)
        if self.rows:
            self.rows.iterator.close()
            self.rows.thread.join(10)

    def take(self) -> list[list[str]]:
        return self.rows.take() if self.rows else []


def failure(problem: BaseException) -> dict[str, Any]:
    """Class and message of Flink's exception and its causes, outermost first."""
    if not isinstance(problem, Py4JJavaError):
        return {"fault": f"{type(problem).__name__}: {problem}"}
    links: list[list[str]] = []
    cause = problem.java_exception
    while cause is not None and len(links) < 30:
        links.append([str(cause.getClass().getName()), str(cause.getMessage() or "")])
        cause = cause.getCause()
    return {"error": links}


class Oracle:
    """Requests → answers, one conversation at a time."""

    def __init__(self, flink: Flink) -> None:
        self.flink = flink
        self.talk = Conversation(flink)

    def answer(self, line: str) -> dict[str, Any]:
        try:
            request = json.loads(line)
            requests = {
                "start": self._start,
                "settle": self._settle,
                "finish": self._finish,
                "stop": self._stop,
                "plan": self._plan,
            }
            return requests[request.pop("do")](**request)
        except Exception as problem:
            return failure(problem)

    def _start(
        self,
        statements: list[str],
        settings: dict[str, str] | None = None,
        explained: bool = True,
    ) -> dict[str, Any]:
        self._stop()
        failed = {}
        try:
            self.talk.start(statements, settings or {}, explained)
        except Exception as problem:
            failed = failure(problem)
        rows = self.talk.rows
        return {"types": rows.types if rows else None, "plans": self.talk.plans, **failed}

    def _settle(self, quiet: float = 3, patience: float = 120) -> dict[str, Any]:
        try:
            ended = self.talk.settle(quiet, patience)
            return {"rows": self.talk.take(), "ended": ended}
        except Exception as problem:
            return {"rows": self.talk.take(), "ended": True, **failure(problem)}

    def _finish(self, patience: float = 600) -> dict[str, Any]:
        return {"seconds": self.talk.finish(patience)}

    def _stop(self, savepoints: str | None = None) -> dict[str, Any]:
        # Whatever becomes of the old conversation, the next request finds a new one.
        old, self.talk = self.talk, Conversation(self.flink)
        old.stop(savepoints)
        return {"rows": old.take()}

    def _plan(self, statements: list[str]) -> dict[str, Any]:
        environment = self.flink.environment({})
        *before, last = statements
        for statement in before:
            declare(environment, statement)
        bare, first = begin_of(last)
        types = None
        if first in QUERIES:
            types = types_of(environment.sqlQuery(bare).getResolvedSchema())
        return {"types": types, "plan": self.flink.plan(environment, bare)}


def main() -> None:
    # The answers' channel is ours alone: what a print sink or a library writes goes to stderr.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    java, *jars = sys.argv[1:]
    flink = Flink(java, jars)
    oracle = Oracle(flink)
    for line in sys.stdin:
        out.write(json.dumps(oracle.answer(line), ensure_ascii=False) + "\n")
        out.flush()
    flink.gateway.shutdown()


if __name__ == "__main__":
    main()

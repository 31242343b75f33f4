"""Loops: jobs that read what they write, and so feed themselves without end.

In: jobs. Out: a diagnostic at each sink whose every record comes back through a source of the same job. Law: only what
is certain is refused. A sink whose rows choose among topics, of which some are not read, is left to advice; so is a
table that has an end, which is fixed before anything is written. `--allow-loop` says that a loop is meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

from tidemill.errors import Diagnostic, ScriptError
from tidemill.plan import nodes
from tidemill.plan.environment import Job, Text
from tidemill.tables.catalog import Table
from tidemill.tables.kafka import TopicTable
from tidemill.tables.references import Unresolved, resolved

_HINT = "write to another topic; if it is meant, say so: --allow-loop"


def require_no_loop(answers: Iterable[Job | Text]) -> None:
    """Refuse jobs that feed themselves, all of them at once, before any is started."""
    found = loops(answer for answer in answers if isinstance(answer, Job))
    if found:
        raise ScriptError(found)


def loops(jobs: Iterable[Job]) -> list[Diagnostic]:
    return [diagnostic for job in jobs for diagnostic in dict.fromkeys(_loops_of(job))]


def _loops_of(job: Job) -> Iterator[Diagnostic]:
    # A hint may give one scan of a table an end, and another none.
    read_tables = ((table, table.connector) for table in job.sources)
    endless = [(t, c) for t, c in read_tables if isinstance(c, TopicTable) and not c.is_bounded]
    for root in job.roots:
        sink = root.table if isinstance(root, nodes.Sink) else None
        if sink is None or not isinstance(sink.connector, TopicTable):
            continue
        for source, read in endless:
            what = _all_shared(read, sink.connector)
            if what:
                yield Diagnostic(
                    "PLAN-093",
                    f"table '{sink.name}' writes {what}, which the same job reads through"
                    f" '{source.name}': it would read what it writes, without end",
                    (root.span if isinstance(root, nodes.Sink) else None) or job.span,
                    _HINT,
                )
    if job.late_rows is not None:
        topic, written = job.late_rows
        assert isinstance(written.connector, TopicTable)
        for source, read in endless:
            if _servers(read) & _servers(written.connector) and _reads(read, topic):
                yield Diagnostic(
                    "PLAN-093",
                    f"late rows go to topic '{topic}', which the same job reads through '{source.name}'",
                    job.span,
                    _HINT,
                )


def _all_shared(read: TopicTable, written: TopicTable) -> str | None:
    """What a sink writes, if all of it is read."""
    if not written.topics:
        same = read.topic_pattern == written.topic_pattern and _servers(read) & _servers(written)
        return f"topics that match '{written.topic_pattern}'" if same else None
    shared = shared_topics(read, written)
    if len(shared) < len(written.topics):
        return None
    return f"topic '{shared[0]}'" if len(shared) == 1 else "topics " + ", ".join(shared)


def topic_tables(tables: Iterable[Table]) -> list[tuple[Table, TopicTable]]:
    found = {table.identifier: table for table in tables}
    return [(x, x.connector) for x in found.values() if isinstance(x.connector, TopicTable)]


def shared_topics(read: TopicTable, written: TopicTable) -> list[str]:
    """The topics that one table writes and another reads, at the same brokers."""
    if not _servers(read) & _servers(written):
        return []
    return [topic for topic in written.topics if _reads(read, topic)]


def _reads(table: TopicTable, topic: str) -> bool:
    if table.topic_pattern is None:
        return topic in table.topics
    try:
        return re.fullmatch(table.topic_pattern, topic) is not None
    except re.error:  # Java's own syntax
        return False


_THIS_MACHINE = re.compile(r"^(localhost|\[::1\])(?=:)")


def _servers(table: TopicTable) -> set[str]:
    """The addresses of a table's brokers; as they are written, where a variable is not known here."""
    text = table.bootstrap_servers
    with suppress(Unresolved):
        text = resolved(text)
    bare = (server.strip().lower().rpartition("://")[2] for server in text.split(","))
    return {_THIS_MACHINE.sub("127.0.0.1", server) for server in bare if server}

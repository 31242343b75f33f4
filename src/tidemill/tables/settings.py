"""Configuration keys: what SET and --set may say.

In: a key and a text. Out: the typed value and how far it is honoured. Law: every key that Flink documents is
known here, as honoured, meaningless on Spark, still to come, or not supported; only another one is called
unknown. Keys that act on a job are listed one by one, so that a slip of the pen is noticed; keys of Flink's
processes go by families.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from tidemill.errors import Diagnostic, Span, did_you_mean
from tidemill.tables.kerberos import CONTEXTS, KEYTAB, KRB5_CONF, PRINCIPAL, USE_TICKET_CACHE
from tidemill.tables.options import (
    BOOLEAN,
    DURATION,
    INTEGER,
    PARALLELISM,
    STRING,
    TEXT,
    BadValue,
    OptionType,
    at_least,
    one_of,
    shown,
)


class Status(Enum):
    HONOURED = "honoured"
    MEANINGLESS = "meaningless here"
    """Accepted: it tunes something that Spark or Tidemill does in another way."""
    LATER = "not honoured yet"
    UNSUPPORTED = "not supported"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Setting:
    """One row of the table of configuration keys. A key that ends in `*` is a family."""

    key: str
    type: OptionType[Any]
    doc: str
    status: Status
    default: Any = None
    """What holds without the key; for LATER, the value that is in force whatever the key says."""
    aliases: tuple[str, ...] = ()
    """Older names of the same key, and those of vendors."""
    told: bool = False
    """Whether a MEANINGLESS key is told on its own, with the reason that its `doc` gives."""


@dataclass(frozen=True)
class Resolved:
    """What one SET means."""

    key: str
    """Today's name of the key."""
    value: object
    """Typed; the text itself where nobody reads it; None when it was refused."""
    status: Status
    diagnostic: Diagnostic | None = None
    """An error (the value is refused) or a warning (the key has no effect)."""


# --- types -------------------------------------------------------------------------------------


def _zone(text: str) -> str:
    """A zone's name as Java and Python both know it; `default` is the machine's own."""
    if text.lower() == "default":
        return "default"
    offset = re.fullmatch(r"GMT[+-](?:1[0-8]|0?[0-9])(?::[0-5][0-9])?", text)
    if offset or text in ("UTC", "GMT", "Z"):
        return text
    try:
        ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        raise BadValue(
            "The supported Zone ID is either a full name such as 'America/Los_Angeles',"
            f" or a custom timezone id such as 'GMT-08:00', but configured Zone ID is '{text}'.",
            did_you_mean(text, sorted(available_timezones())),
        ) from None
    return text


def _only(*accepted: str, refused: Mapping[str, str]) -> OptionType[str]:
    """An enumeration some of whose words are refused, each with its way out."""
    words = one_of(*accepted, *refused)

    def parse(text: str) -> str:
        word = words.parse(text)
        if word in refused:
            raise _Refused(f"'{text}' is not supported.", refused[word])
        return word

    return OptionType("Enum", parse, words.choices)


class _Refused(BadValue):
    """A value that is right for Flink and not for us."""


_ZONE = OptionType("String", _zone)
_RUNTIME_MODE = _only(
    "STREAMING",
    refused={
        "BATCH": "run with --bounded: it reads what is there and ends",
        "AUTOMATIC": "use STREAMING; run with --bounded to read what is there and end",
    },
)
_DIALECT = _only("default", refused={"hive": "write Flink's default dialect"})

# --- the table ---------------------------------------------------------------------------------

_HONOURED = (
    Setting(
        "python.files",
        TEXT,
        "Where the modules of Python functions are looked for: directories, .py and .zip files, with commas between."
        " Counts where the command line gives it, or allows the same places by `--pyfiles`.",
        Status.HONOURED,
    ),
    Setting(
        "pipeline.name",
        TEXT,
        "Name of the job; also a part of its checkpoint's path.",
        Status.HONOURED,
    ),
    Setting(
        "execution.checkpointing.interval",
        DURATION,
        "Longest time between epochs; without it an epoch begins as soon as there is data.",
        Status.HONOURED,
    ),
    Setting(
        "execution.checkpointing.dir",
        TEXT,
        "Directory of checkpoints; the same script resumes from there.",
        Status.HONOURED,
        aliases=("state.checkpoints.dir", "state.backend.fs.checkpointdir"),
    ),
    Setting(
        "restart-strategy.type",
        one_of("none", "off", "disable", "fixed-delay", "failure-rate", "exponential-delay"),
        "How a job is started again when its broker was away; without it, for 10 minutes. `--restart-for` beats it.",
        Status.HONOURED,
        aliases=("restart-strategy",),
    ),
    Setting(
        "restart-strategy.fixed-delay.attempts",
        at_least(1, INTEGER),
        "How often `fixed-delay` tries; 1 without it.",
        Status.HONOURED,
    ),
    Setting(
        "restart-strategy.fixed-delay.delay",
        DURATION,
        "How long `fixed-delay` waits between two tries; 1 s without it.",
        Status.HONOURED,
    ),
    Setting(
        "restart-strategy.failure-rate.max-failures-per-interval",
        at_least(1, INTEGER),
        "How often `failure-rate` tries after the job has worked; 1 without it.",
        Status.HONOURED,
    ),
    Setting(
        "restart-strategy.failure-rate.delay",
        DURATION,
        "How long `failure-rate` waits between two tries; 1 s without it.",
        Status.HONOURED,
    ),
    Setting(
        "restart-strategy.exponential-delay.initial-backoff",
        DURATION,
        "How long `exponential-delay` waits at first; 1 s without it.",
        Status.HONOURED,
    ),
    Setting(
        "restart-strategy.exponential-delay.max-backoff",
        DURATION,
        "How long `exponential-delay` waits at most; 10 s without it.",
        Status.HONOURED,
    ),
    Setting(
        "parallelism.default",
        PARALLELISM,
        "Parallelism of shuffles.",
        Status.HONOURED,
        aliases=("table.exec.resource.default-parallelism",),
    ),
    Setting(
        "tidemill.batch.max-rows",
        at_least(1, INTEGER, "rows"),
        "Most rows that one batch reads of a Kafka table; without it two million, and 50,000 where rows are printed.",
        Status.HONOURED,
    ),
    Setting(
        "table.local-time-zone",
        _ZONE,
        "Zone of casts, of printed timestamps and of Spark's session.",
        Status.HONOURED,
        "default",
    ),
    Setting(
        "table.dml-sync",
        BOOLEAN,
        "Whether an INSERT waits for the one before it.",
        Status.HONOURED,
        False,
    ),
    Setting(
        "table.exec.sink.not-null-enforcer",
        one_of("ERROR", "DROP"),
        "NULL in a NOT NULL column of a sink: ERROR stops the job, DROP leaves the row out and counts it.",
        Status.HONOURED,
        "ERROR",
    ),
    Setting(
        "table.exec.sink.type-length-enforcer",
        one_of("IGNORE", "TRIM_PAD", "ERROR"),
        "A value of a sink of another length than CHAR(n), VARCHAR(n), BINARY(n) or VARBINARY(n) says: IGNORE"
        " writes it as it is, TRIM_PAD cuts and pads it, ERROR stops the job.",
        Status.HONOURED,
        "IGNORE",
    ),
    Setting(
        "table.exec.sink.nested-constraint-enforcer",
        one_of("IGNORE", "ROWS", "ROWS_AND_COLLECTIONS"),
        "Whether the two above look into ROWs, or into ARRAYs and MAPs as well; in the latter nothing is cut.",
        Status.HONOURED,
        "IGNORE",
    ),
    Setting(
        "execution.runtime-mode",
        _RUNTIME_MODE,
        "STREAMING; --bounded ends.",
        Status.HONOURED,
        "STREAMING",
    ),
    Setting(
        "table.exec.state.ttl",
        DURATION,
        "How long state of an idle key is kept; 0 is for ever.",
        Status.HONOURED,
        timedelta(0),
    ),
    Setting(
        "table.exec.late-rows",
        one_of("drop", "dead-letter"),
        "What becomes of rows that come too late to a window, OVER or a join: they are dropped, or go to a topic.",
        Status.HONOURED,
        "drop",
    ),
    Setting(
        "table.exec.late-rows.topic",
        TEXT,
        "The topic for late rows, at the brokers of the job's first Kafka table.",
        Status.HONOURED,
    ),
    Setting(
        "table.exec.source.idle-timeout",
        DURATION,
        "After this time a partition without records no longer holds the watermark back.",
        Status.HONOURED,
        timedelta(0),
    ),
    Setting(
        "table.exec.source.cdc-events-duplicate",
        BOOLEAN,
        "Whether a CDC source may repeat changes.",
        Status.HONOURED,
        False,
    ),
    Setting("table.sql-dialect", _DIALECT, "Flink's default dialect.", Status.HONOURED, "default"),
    Setting(
        PRINCIPAL,
        TEXT,
        "Who logs in to brokers that ask for Kerberos: `user@REALM`, or `service/host@REALM`.",
        Status.HONOURED,
    ),
    Setting(
        KEYTAB,
        TEXT,
        "File with the principal's keys. A name that is not absolute is looked for beside the file of `--job-config`,"
        " inside each `--package`, and in the working directory.",
        Status.HONOURED,
    ),
    Setting(
        KRB5_CONF,
        TEXT,
        "The krb5.conf of the realm, looked for as the keytab; without it the machine's own.",
        Status.HONOURED,
        aliases=("security.kerberos.login.conf",),
    ),
    Setting(
        CONTEXTS,
        TEXT,
        "Login contexts that get these credentials, with commas between. `KafkaClient` is that of Kafka tables; others"
        " are accepted and not used.",
        Status.HONOURED,
    ),
    Setting(
        USE_TICKET_CACHE,
        BOOLEAN,
        "Whether, without a keytab, the ticket that `kinit` has left on this machine is used.",
        Status.HONOURED,
        True,
    ),
)

_LATER = (
    Setting(
        "table.exec.sink.upsert-materialize",
        one_of("NONE", "AUTO", "FORCE"),
        "Whether changes are put in order before an upsert sink.",
        Status.HONOURED,
        "AUTO",
    ),
    Setting(
        "table.exec.sink.require-on-conflict",
        BOOLEAN,
        "Whether an upsert key other than the primary key needs ON CONFLICT.",
        Status.HONOURED,
        False,
    ),
    Setting(
        "table.exec.sink.rowtime-inserter",
        one_of("ENABLED", "DISABLED"),
        "Whether the rowtime becomes the record's timestamp.",
        Status.LATER,
    ),
    Setting(
        "table.exec.legacy-cast-behaviour",
        one_of("ENABLED", "DISABLED"),
        "Whether a failing CAST gives NULL.",
        Status.LATER,
        "DISABLED",
    ),
    Setting(
        "table.exec.legacy-bytes-to-string-cast",
        BOOLEAN,
        "Whether bytes are cast to strings in the old way.",
        Status.LATER,
        False,
    ),
    Setting(
        "table.optimizer.non-deterministic-update.strategy",
        one_of("TRY_RESOLVE", "IGNORE"),
        "What happens to non-deterministic functions under updates.",
        Status.LATER,
        "IGNORE",
    ),
    Setting(
        "table.column-expansion-strategy",
        STRING,
        "Which columns `*` leaves out.",
        Status.LATER,
        "",
    ),
)

_RESUME = (
    "to resume, run with --checkpoint; Flink's savepoints hold Flink's state and cannot be read"
)
_UNSUPPORTED = (
    Setting(
        "execution.state-recovery.path",
        STRING,
        _RESUME,
        Status.UNSUPPORTED,
        aliases=("execution.savepoint.path",),
    ),
    Setting("spark.*", STRING, "give Spark's settings with --conf", Status.UNSUPPORTED),
)


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# Keys of jobs that mean nothing here: Flink's documented ones, and older names of some.
_MEANINGLESS_KEYS = _words("""
execution.attached execution.batch-shuffle-mode
execution.buffer-timeout execution.buffer-timeout.enabled execution.buffer-timeout.interval
execution.checkpointing.aligned-checkpoint-timeout execution.checkpointing.alignment-timeout
execution.checkpointing.checkpoints-after-tasks-finish
execution.checkpointing.checkpoints-after-tasks-finish.enabled
execution.checkpointing.cleaner.parallel-mode execution.checkpointing.create-subdir
execution.checkpointing.data-inline-threshold execution.checkpointing.during-recovery.enabled
execution.checkpointing.externalized-checkpoint-retention execution.checkpointing.force-unaligned
execution.checkpointing.incremental execution.checkpointing.interval-during-backlog
execution.checkpointing.max-concurrent-checkpoints execution.checkpointing.min-pause
execution.checkpointing.mode execution.checkpointing.num-retained
execution.checkpointing.prefer-checkpoint-for-recovery execution.checkpointing.savepoint-dir
execution.checkpointing.snapshot-compression execution.checkpointing.storage
execution.checkpointing.sync-phase-timeout execution.checkpointing.timeout
execution.checkpointing.tolerable-failed-checkpoints execution.checkpointing.unaligned
execution.checkpointing.write-buffer-size
execution.job-listeners execution.job-status-changed-listeners
execution.program-config.enabled execution.program-config.wildcards
execution.shutdown-on-application-finish execution.shutdown-on-attached-exit
execution.sort-keyed-partition.memory execution.sort-partition.memory
execution.savepoint.ignore-unclaimed-state execution.savepoint-restore-mode
execution.state-recovery.claim-mode execution.state-recovery.from-local
execution.state-recovery.ignore-unclaimed-state
execution.state-recovery.without-channel-state.checkpoint-id
execution.submit-failed-job-on-application-error execution.target
execution.terminate-application-on-any-job-terminated-exceptionally
pipeline.auto-generate-uids pipeline.auto-type-registration pipeline.auto-watermark-interval
pipeline.cached-files pipeline.classpaths pipeline.closure-cleaner-level pipeline.default-kryo-serializers
pipeline.force-avro pipeline.force-kryo pipeline.force-kryo-avro pipeline.generic-types
pipeline.global-job-parameters pipeline.jars pipeline.jobvertex-parallelism-overrides
pipeline.max-parallelism pipeline.object-reuse pipeline.operator-chaining
pipeline.operator-chaining.chain-operators-with-different-max-parallelism
pipeline.operator-chaining.enabled pipeline.registered-kryo-types pipeline.registered-pojo-types
pipeline.serialization-config pipeline.sources.pause-until-first-checkpoint pipeline.time-characteristic
pipeline.vertex-description-mode pipeline.vertex-name-include-index-prefix
sql-client.verbose
state.checkpoint-storage state.checkpoint.cleaner.parallel-mode state.checkpoints.create-subdir
state.checkpoints.num-retained state.savepoints.dir
table.builtin-catalog-name table.builtin-database-name table.catalog-modification.listeners
table.display.max-column-width table.dynamic-table-options.enabled
table.exec.deduplicate.insert-update-after-sensitive-enabled
table.exec.deduplicate.mini-batch.compact-changes-enabled table.exec.disabled-operators
table.exec.interval-join.min-cleanup-interval table.exec.legacy-transformation-uids
table.exec.operator-fusion-codegen.enabled table.exec.rank.topn-cache-size table.exec.shuffle-mode
table.exec.simplify-operator-name-enabled table.exec.sink.keyed-shuffle
table.exec.sink.legacy-check-constraints
table.exec.sink.upsert-materialize-strategy.adaptive.threshold.high
table.exec.sink.upsert-materialize-strategy.adaptive.threshold.low
table.exec.sink.upsert-materialize-strategy.type
table.exec.uid.format table.exec.uid.generation table.exec.unbounded-over.version
table.exec.window-agg.buffer-size-limit
table.generated-code.max-length table.generated-code.max-members table.legacy-nested-row-nullability
table.materialized-table.conversion-from-table.enabled table.planner table.resources.download-dir
table.rtas-ctas.atomicity-enabled
""")

# Families whose keys mean nothing here.
_MEANINGLESS_FAMILIES = _words("""
execution.batch execution.checkpointing.file-merging execution.checkpointing.local-backup
execution.checkpointing.unaligned pipeline.cep pipeline.watermark-alignment
table.exec.async-lookup table.exec.async-ml-predict table.exec.async-scalar table.exec.async-state
table.exec.async-table table.exec.async-vector-search table.exec.delta-join table.exec.hive
table.exec.iceberg table.exec.local-hash-agg table.exec.mini-batch table.exec.resource table.exec.sort
table.exec.spill-compression table.optimizer table.plan sql-client.display sql-client.execution
sql-gateway state.backend state.changelog state.latency-track state.size-track state.storage state.ttl
application-result-store blob classloader cleanup-strategy client cluster compiler
completed-application-store containerized custom-headers dstl env events exceptions-history
external-resource flink fs fine-grained heartbeat high-availability historyserver io jmx job-event
job-result-store jobmanager jobstore kubernetes materialized-table mdc metrics minicluster pekko
akka process python queryable-state resourcemanager rest restart-strategy s3 oss security
shuffle-service-factory slot slotmanager slow-task-detector task taskmanager traces
user web workflow-scheduler yarn zookeeper
""")

# Meaningless keys without a family.
_MEANINGLESS_WORDS = _words("""
external-resources high-availability scheduler-mode state.backend
""")

_TOLD = (
    Setting(
        "fs.hdfs.hadoop.security.authentication",
        STRING,
        "it is for Hadoop's file systems, and no table here is on one",
        Status.MEANINGLESS,
        told=True,
    ),
)

SETTINGS: Mapping[str, Setting] = {
    setting.key: setting
    for setting in (
        *_HONOURED,
        *_TOLD,
        *_LATER,
        *_UNSUPPORTED,
        *(
            Setting(key, STRING, "Meaningless on Spark.", Status.MEANINGLESS)
            for key in (
                *_MEANINGLESS_KEYS,
                *_MEANINGLESS_WORDS,
                *(f"{family}.*" for family in _MEANINGLESS_FAMILIES),
            )
        ),
    )
}
"""Every known key, and `family.*` for the families."""

_ALIASES = {alias: setting.key for setting in SETTINGS.values() for alias in setting.aliases}
_FAMILIES = sorted((key[:-1] for key in SETTINGS if key.endswith(".*")), key=len, reverse=True)


def find(key: str) -> Setting | None:
    """The row for a key, under its own name, an older one, or its family's."""
    exact = SETTINGS.get(_ALIASES.get(key, key))
    if exact or "*" in key:
        return exact
    family = next((f for f in _FAMILIES if key.startswith(f)), None)
    return SETTINGS[family + "*"] if family else None


def name_of(key: str) -> str:
    """Today's name of a key."""
    return _ALIASES.get(key, key)


def resolve(
    key: str, value: str, key_span: Span | None = None, value_span: Span | None = None
) -> Resolved:
    """What `SET 'key' = 'value'` means. The spans are where a diagnostic points."""
    setting = find(key)
    if setting is None:
        known = [k for k in SETTINGS if not k.endswith("*")]
        hint = did_you_mean(
            key, [*known, *_ALIASES], "it is neither a key of Tidemill's nor of Flink's"
        )
        unknown = _warning("OPT-080", f"unknown configuration key '{key}'", key_span, hint)
        return Resolved(key, value, Status.UNKNOWN, unknown)
    name = key if setting.key.endswith("*") else setting.key
    if setting.status is Status.UNSUPPORTED:
        refused = Diagnostic("OPT-082", f"'{key}' is not supported", key_span, setting.doc)
        return Resolved(name, None, setting.status, refused)
    try:
        parsed = setting.type.parse(value)
    except _Refused as bad:
        refused = Diagnostic("OPT-082", f"'{key}' = {bad.reason}", value_span, bad.hint)
        return Resolved(name, None, Status.UNSUPPORTED, refused)
    except BadValue as bad:
        message = f"Invalid value for configuration key '{key}'. {bad.reason}"
        return Resolved(
            name, None, setting.status, Diagnostic("OPT-081", message, value_span, bad.hint)
        )
    if setting.status is Status.LATER and parsed != setting.default:
        message = f"'{key}' = '{shown(key, value)}' is not honoured yet"
        hint = None if setting.default is None else f"in force is {_written(setting.default)}"
        return Resolved(name, parsed, setting.status, _warning("OPT-083", message, key_span, hint))
    if setting.told:
        ignored = f"'{key}' is accepted and ignored: {setting.doc}"
        notice = Diagnostic("OPT-084", ignored, key_span, severity="notice")
        return Resolved(name, parsed, setting.status, notice)
    return Resolved(name, parsed, setting.status)


def _written(value: object) -> str:
    if isinstance(value, bool):
        return f"'{str(value).lower()}'"
    return "'0'" if value == timedelta(0) else f"'{value}'"


def _warning(code: str, message: str, span: Span | None, hint: str | None) -> Diagnostic:
    return Diagnostic(code, message, span, hint, severity="warning")

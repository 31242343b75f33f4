"""How the tables of a job log in: named authentication and Kerberos settings, checked and put to use.

In: tables with their options, the settings of a job, and what the command line brings (`--credentials`, `--job-config`,
`--package`). Out: diagnostics while a script is read, and the properties of clients when it runs. Law: what is checked
while reading is all that can be checked without a secret and without a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tidemill.errors import Diagnostic, Span
from tidemill.tables import kerberos
from tidemill.tables.catalog import Table
from tidemill.tables.credentials import KERBEROS, Credentials, default_credentials
from tidemill.tables.job_config import Attachments
from tidemill.tables.kafka import TopicTable

_FILES = (kerberos.KEYTAB, kerberos.KRB5_CONF)
"""The settings that name files."""


@dataclass(frozen=True)
class Logins:
    """What jobs may log in with."""

    credentials: Credentials = field(default_factory=lambda: Credentials(default_credentials()))
    attachments: Attachments = field(default_factory=Attachments)

    @staticmethod
    def given(
        credentials: str | Path | None = None,
        job_config: str | Path | None = None,
        packages: Sequence[str | Path] = (),
        checking: bool = False,
    ) -> Logins:
        """As the command line gives them. `checking`: nothing is going to run, so the user's own credentials may be
        on another machine."""
        named = default_credentials() if credentials is None else Path(credentials)
        beside = None if job_config is None else Path(job_config).absolute().parent
        return Logins(
            Credentials(named, may_be_missing=checking and credentials is None),
            Attachments(beside, tuple(map(Path, packages))),
        )

    def close(self) -> None:
        """Forget what was unpacked."""
        self.attachments.close()

    # --- while a script is read --------------------------------------------------------------

    def check_table(self, table: Table) -> list[Diagnostic]:
        """Whether the names on a table can be looked up."""
        if not isinstance(table.connector, TopicTable) or table.connector.named is None:
            return []
        options = table.statement.options if table.statement is not None else ()
        return self.credentials.check(table.connector.named, options)

    def check_job(
        self,
        tables: Sequence[Table],
        settings: Mapping[str, object],
        places: Mapping[str, Span | None],
    ) -> list[Diagnostic]:
        """Whether the tables of a job that log in with Kerberos can, as far as that is known here.

        `places`: where each setting was given.
        """
        found = kerberos.check_settings(settings, places)
        missing = [
            self.attachments.missing(str(settings[key]), key, places.get(key))
            for key in _FILES
            if settings.get(key)
        ]
        secured = [
            (table, table.connector)
            for table in {t.identifier: t for t in tables}.values()
            if isinstance(table.connector, TopicTable)
            and kerberos.uses_gssapi(table.connector.properties)
        ]
        if secured:
            found += [diagnostic for diagnostic in missing if diagnostic is not None]
        login = kerberos.login_of(settings, str)
        for table, connector in secured:
            named = connector.named is not None and connector.named.krb is not None
            if not named and kerberos.needs_login(connector.properties):
                found += _check_login(table, connector, login, settings)
        return found + self._check_confs([table for table, _ in secured], settings)

    def _check_confs(
        self, tables: Sequence[Table], settings: Mapping[str, object]
    ) -> list[Diagnostic]:
        """A JVM knows one krb5.conf."""
        by_content: dict[bytes, tuple[str, Table]] = {}
        for table in tables:
            conf = self._conf(table, settings)
            content = self.attachments.read(conf) if conf is not None else None
            if conf is not None and content is not None:
                by_content.setdefault(content, (conf, table))
        if len(by_content) < 2:
            return []
        (one, first), (other, second) = list(by_content.values())[:2]
        return [
            Diagnostic(
                "OPT-078",
                f"table '{first.name}' needs the krb5.conf {one} and table '{second.name}' another, {other}: a process"
                " of Java knows only one",
                second.span,
                "write the realms of both into one krb5.conf",
            )
        ]

    def _conf(self, table: Table, settings: Mapping[str, object]) -> str | None:
        connector = table.connector
        assert isinstance(connector, TopicTable)
        named = connector.named.krb if connector.named is not None else None
        entry = self.credentials.entries.get(named) if named is not None else None
        if entry is not None and entry.type == KERBEROS and "krb5_conf" in entry.values:
            given = entry.properties(self.credentials.path.absolute().parent)
            return given[kerberos.CONF_PROPERTY]
        return kerberos.conf_of(settings, str)

    # --- when it runs ------------------------------------------------------------------------

    def with_named(self, properties: Mapping[str, str], connector: TopicTable) -> dict[str, str]:
        """The properties of a table's client with what the names on the table stand for."""
        return self.credentials.added_to(properties, connector.named)

    def with_kerberos(
        self, properties: Mapping[str, str], settings: Mapping[str, object]
    ) -> dict[str, str]:
        """The properties of a client with the login that the settings of its job give."""
        return kerberos.with_login(properties, settings, self.attachments.path)


def _check_login(
    table: Table,
    connector: TopicTable,
    login: kerberos.Login | None,
    settings: Mapping[str, object],
) -> list[Diagnostic]:
    """A table that logs in with Kerberos as the settings of its job say."""
    span = _option_span(table, "properties.sasl.mechanism", "properties.security.protocol")
    if login is None:
        told = "is not set"
        if kerberos.contexts_of(settings):
            told = f"does not name '{kerberos.KAFKA_CONTEXT}'"
        return [
            Diagnostic(
                "OPT-079",
                f"table '{table.name}' logs in with Kerberos (GSSAPI), and nothing says as whom:"
                f" 'properties.{kerberos.JAAS}' is not given, and '{kerberos.CONTEXTS}' {told}",
                span,
                f"SET '{kerberos.PRINCIPAL}', '{kerberos.KEYTAB}' and '{kerberos.CONTEXTS}' ="
                f" '{kerberos.KAFKA_CONTEXT}', or give them with --job-config FILE",
                severity="warning",
            )
        ]
    service = connector.properties.get(kerberos.SERVICE_NAME)
    if not service:
        return [
            Diagnostic(
                "OPT-074",
                f"table '{table.name}' logs in with Kerberos (GSSAPI), and nothing says what the brokers' principal is"
                f" called: 'properties.{kerberos.SERVICE_NAME}' is not given",
                span,
                f"add 'properties.{kerberos.SERVICE_NAME}' = '{login.service or 'kafka'}'",
            )
        ]
    if login.service is None or service == login.service:
        return []
    return [
        Diagnostic(
            "OPT-075",
            f"'properties.{kerberos.SERVICE_NAME}' is '{service}', and the principal's first part is '{login.service}'"
            f" ('{login.principal}')",
            _option_span(table, f"properties.{kerberos.SERVICE_NAME}"),
            "the service's name is the first part of the brokers' principal; it is right to differ only where the job"
            " has a principal of its own",
            severity="warning",
        )
    ]


def _option_span(table: Table, *keys: str) -> Span | None:
    """Where the first of these options that is given has its value."""
    given = {o.key: o.value_span for o in table.statement.options} if table.statement else {}
    return next((given[key] for key in keys if key in given), table.span)

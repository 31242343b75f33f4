"""Logging in with Kerberos: from Flink's settings, or a named entry, to what the Kafka client is told.

In: `security.kerberos.*`, and the properties of a table's client. Out: the properties with a JAAS line of their own.
Law: what a script says of its client stands; a JAAS line is made only where there is none, as Flink's JAAS entries are
for clients that bring none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidemill.errors import Diagnostic, Span

PRINCIPAL = "security.kerberos.login.principal"
KEYTAB = "security.kerberos.login.keytab"
CONTEXTS = "security.kerberos.login.contexts"
USE_TICKET_CACHE = "security.kerberos.login.use-ticket-cache"
KRB5_CONF = "security.kerberos.krb5-conf.path"

CONF_PROPERTY = "tidemill.kerberos.conf"
"""The krb5.conf that a client needs. The kernel takes it out: a JVM knows one, so it is no property of a client's."""
KAFKA_CONTEXT = "KafkaClient"
"""The login context of Kafka's clients; others are those of ZooKeeper and of what else Flink may speak to."""

JAAS = "sasl.jaas.config"
SERVICE_NAME = "sasl.kerberos.service.name"
_MODULE = "com.sun.security.auth.module.Krb5LoginModule"


def uses_gssapi(properties: Mapping[str, str]) -> bool:
    """Whether a client logs in with Kerberos; GSSAPI is the mechanism of a SASL client that names none."""
    protocol = properties.get("security.protocol", "").upper()
    return protocol.startswith("SASL_") and properties.get("sasl.mechanism", "GSSAPI") == "GSSAPI"


def needs_login(properties: Mapping[str, str]) -> bool:
    """Whether a client logs in with Kerberos and does not say as whom."""
    return uses_gssapi(properties) and not properties.get(JAAS, "").strip()


@dataclass(frozen=True)
class Login:
    """As whom, and by what."""

    principal: str | None
    keytab: str | None
    """None: by the ticket that `kinit` has left."""
    conf: str | None = None
    """None: the machine's own krb5.conf."""

    @property
    def service(self) -> str | None:
        """The principal's first part: `kafka` of `kafka/host@REALM`."""
        return self.principal.partition("@")[0].partition("/")[0] if self.principal else None

    @property
    def jaas(self) -> str:
        options = {"useTicketCache": "true", "doNotPrompt": "true"}
        if self.keytab is not None:
            # As Flink's own entry: another login may have read another krb5.conf before.
            options = {"useKeyTab": "true", "storeKey": "true", "doNotPrompt": "true"}
            options |= {"refreshKrb5Config": "true", "keyTab": _quoted(self.keytab)}
        if self.principal is not None:
            options["principal"] = _quoted(self.principal)
        return f"{_MODULE} required {' '.join(f'{k}={v}' for k, v in options.items())};"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


# --- settings ----------------------------------------------------------------------------------


def contexts_of(settings: Mapping[str, object]) -> tuple[str, ...]:
    """The login contexts that the settings name."""
    names = str(settings.get(CONTEXTS) or "").split(",")
    return tuple(dict.fromkeys(name.strip() for name in names if name.strip()))


def login_of(settings: Mapping[str, object], find: Callable[[str], str]) -> Login | None:
    """The login that the settings of a job give to Kafka's clients; None: they give none.

    `find` gives the path of a file that they name.
    """
    if KAFKA_CONTEXT not in contexts_of(settings):
        return None
    keytab, conf = _text(settings, KEYTAB), conf_of(settings, find)
    return Login(_text(settings, PRINCIPAL), find(keytab) if keytab else None, conf)


def conf_of(settings: Mapping[str, object], find: Callable[[str], str]) -> str | None:
    """The krb5.conf that the settings name. It is for every login of a job, whoever has made it."""
    conf = _text(settings, KRB5_CONF)
    return find(conf) if conf else None


def with_login(
    properties: Mapping[str, str], settings: Mapping[str, object], find: Callable[[str], str]
) -> dict[str, str]:
    """The properties of a client that logs in as the settings of its job say, if it logs in with Kerberos at all."""
    found = dict(properties)
    if not uses_gssapi(found):
        return found
    login = login_of(settings, find)
    if login is not None and needs_login(found):
        found[JAAS] = login.jaas
    conf = conf_of(settings, find)
    if conf is not None:
        # A named entry may have brought its own.
        found.setdefault(CONF_PROPERTY, conf)
    return found


def _text(settings: Mapping[str, object], key: str) -> str | None:
    value = settings.get(key)
    return str(value) if value else None


def check_settings(
    settings: Mapping[str, object], places: Mapping[str, Span | None]
) -> list[Diagnostic]:
    """What is wrong with the Kerberos settings of a job, or worth a word; whether files are there is another's."""
    keytab, principal = _text(settings, KEYTAB), _text(settings, PRINCIPAL)
    contexts = contexts_of(settings)
    found = [
        Diagnostic(
            "OPT-076",
            f"login context '{name}' is accepted and not used: only '{KAFKA_CONTEXT}' is",
            places.get(CONTEXTS),
            severity="notice",
        )
        for name in contexts
        if name != KAFKA_CONTEXT
    ]
    if keytab and not principal:
        found.append(
            Diagnostic(
                "OPT-074",
                f"'{KEYTAB}' needs '{PRINCIPAL}': a keytab holds keys of several principals",
                places.get(KEYTAB),
                "'klist -kt FILE' lists those of a keytab",
            )
        )
    elif principal and not keytab and settings.get(USE_TICKET_CACHE) is False:
        found.append(
            Diagnostic(
                "OPT-074",
                f"nothing says by what '{principal}' logs in: there is no '{KEYTAB}', and '{USE_TICKET_CACHE}' is"
                " 'false'",
                places.get(PRINCIPAL),
                f"set '{KEYTAB}'",
            )
        )
    if keytab and not contexts:
        found.append(
            Diagnostic(
                "OPT-074",
                f"'{KEYTAB}' has no effect: '{CONTEXTS}' names no login context",
                places.get(KEYTAB),
                f"set '{CONTEXTS}' to '{KAFKA_CONTEXT}'",
                severity="warning",
            )
        )
    return found

"""What goes wrong with Kerberos is told by its cause; clocks that differ cannot be tried here."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from guarded import READ, counted, refusal

from harness.kdc import REALM

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

Names = Callable[..., str]


def table(topic: str, options: str) -> str:
    return (
        f"CREATE TABLE t (n INT) WITH ('connector' = 'kafka', 'topic' = '{topic}', 'format' = 'json',"
        f" 'scan.startup.mode' = 'earliest-offset', {options});\n"
    )


def use(spark: Any, conf: Path) -> None:
    spark._jvm.java.lang.System.setProperty("java.security.krb5.conf", str(conf))
    spark._jvm.sun.security.krb5.Config.refresh()


@pytest.fixture(autouse=True)
def krb5_conf(spark: Any, kdc: Any) -> Iterator[None]:
    use(spark, kdc.conf)
    yield
    use(spark, kdc.conf)


def test_a_principal_that_the_kdc_does_not_know(
    spark: Any, kerberos: Any, kdc: Any, topic_name: Names
) -> None:
    keytab = kdc.keytab("ghost")
    kdc.run("kadmin.local", "-r", REALM, "-q", f"delete_principal -force ghost@{REALM}")
    told = refusal(
        spark, table(topic_name(), kerberos.table_options("GSSAPI", "ghost", str(keytab))) + READ
    )
    assert told.code == "RUN-007"
    assert told.message.startswith("table 't': the login by GSSAPI for ")
    assert told.message.endswith("the KDC does not know the principal")
    assert "klist -kt" in (told.hint or "")


def test_a_keytab_without_the_principal(
    spark: Any, kerberos: Any, kdc: Any, topic_name: Names
) -> None:
    other = kdc.keytab("other")
    told = refusal(
        spark, table(topic_name(), kerberos.table_options("GSSAPI", "eve", str(other))) + READ
    )
    assert told.code == "RUN-007"
    assert "the keytab has no key for the principal, or an old one" in told.message


def test_a_service_that_the_kdc_does_not_know(spark: Any, kerberos: Any, topic_name: Names) -> None:
    with counted(kerberos.broker.port) as proxy:
        at = f"localhost:{proxy.port}"
        changes = {"bootstrap.servers": at, "sasl.kerberos.service.name": "nobodys"}
        told = refusal(
            spark, table(topic_name(), kerberos.table_options("GSSAPI", changes=changes)) + READ
        )
        assert told.code == "RUN-007"
        assert f"the broker at {at} refused a login by GSSAPI" in told.message
        assert "'properties.sasl.kerberos.service.name'" in (told.hint or "")
        time.sleep(1)
        assert proxy.connections <= 3


def test_a_kdc_that_is_not_there(
    spark: Any, kerberos: Any, kdc: Any, topic_name: Names, tmp_path: Path
) -> None:
    """An outage, which passes by itself: it is no refusal."""
    conf = tmp_path / "krb5.conf"
    conf.write_text(kdc.conf.read_text().replace(kdc.address, "127.0.0.1:9"))
    options = kerberos.table_options("GSSAPI")
    use(spark, conf)
    told = refusal(spark, table(topic_name(), options) + READ)
    assert told.code == "RUN-001"
    assert "no answer from the KDC" in told.message
    assert "krb5.conf" in (told.hint or "")

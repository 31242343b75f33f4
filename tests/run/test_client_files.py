"""Files that the properties of a client name: checked before the start, and carried to where tasks run."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tidemill.errors import JobError, Source
from tidemill.plan.environment import Environment, compile_script
from tidemill.spark.access import Access
from tidemill.spark.client_files import check_files, shipped
from tidemill.sql import parse_script
from tidemill.tables.catalog import Table
from tidemill.tables.kafka import TopicTable

KERBEROS = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true"


def declared(options: str) -> Table:
    text = (
        "CREATE TABLE orders (n INT) WITH ('connector' = 'kafka', 'topic' = 'a', 'format' = 'json',"
        f" 'properties.bootstrap.servers' = 'b:1', {options})"
    )
    environment = Environment()
    compile_script(parse_script(Source("case.sql", text), {}), environment)
    (found,) = [t for t in environment.objects.values() if isinstance(t, Table)]
    return found


def told(table: Table) -> str:
    assert isinstance(table.connector, TopicTable)
    with pytest.raises(JobError) as caught:
        check_files(table, Access().local_properties(table.connector))
    (found,) = caught.value.diagnostics
    assert found.code == "RUN-050"
    assert found.span == table.span
    return found.message


@pytest.mark.parametrize("option", ["ssl.truststore.location", "ssl.keystore.location"])
def test_a_store_that_is_not_there_is_told_with_table_option_and_path(
    tmp_path: Path, option: str
) -> None:
    path = tmp_path / "no such.jks"
    table = declared(f"'properties.{option}' = '{path}'")
    assert (
        told(table) == f"table 'orders': the file of 'properties.{option}' does not exist: {path}"
    )
    path.mkdir()
    assert "is not a file" in told(table)
    path.rmdir()
    path.write_bytes(b"x")
    assert isinstance(table.connector, TopicTable)
    check_files(table, Access().local_properties(table.connector))


@pytest.mark.parametrize(
    "written", ['keyTab="{}"', 'keyTab = "{}"', "keyTab={}", 'keyTab="FILE:{}"', r"keyTab=\"{}\""]
)
def test_a_keytab_that_is_not_there_is_told(tmp_path: Path, written: str) -> None:
    path = tmp_path / "alice.keytab"
    line = f'{KERBEROS} {written.format(path)} principal="alice@A";'
    table = declared(f"'properties.sasl.jaas.config' = '{line}'")
    assert f"the keytab of 'properties.sasl.jaas.config' does not exist: {path}" in told(table)
    path.write_bytes(b"\x05\x02")
    assert isinstance(table.connector, TopicTable)
    properties = Access(ships=True).properties(table.connector)
    carried = base64.b64encode(b"\x05\x02").decode()
    assert f'"tidemill-file:alice.keytab:{carried}:"' in properties["sasl.jaas.config"]
    assert str(path) not in properties["sasl.jaas.config"]
    assert str(path) in Access().properties(table.connector)["sasl.jaas.config"]


def test_only_files_are_carried(tmp_path: Path) -> None:
    store = tmp_path / "a b.jks"
    store.write_bytes(bytes(range(256)))
    properties = {
        "ssl.truststore.location": str(store),
        "ssl.keystore.location": "",
        "ssl.truststore.password": "pw",
        "sasl.jaas.config": 'X required password="keyTab";',
    }
    carried = base64.b64encode(bytes(range(256))).decode()
    assert shipped(properties) == {
        **properties,
        "ssl.truststore.location": f"tidemill-file:a_b.jks:{carried}:",
    }

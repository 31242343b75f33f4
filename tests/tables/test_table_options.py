"""Values as users write them, lists, secrets, and the law that every code is in the index."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

import tidemill.tables
from tidemill.tables import CODES, CONNECTORS, FORMATS, redacted
from tidemill.tables.options import (
    BOOLEAN,
    INTEGER,
    LONG,
    MASK,
    NUMBER,
    PARALLELISM,
    BadValue,
    format_duration,
    one_of,
    parse_duration,
    split_list,
)

SOURCES = Path(tidemill.tables.__file__).parent


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5 min", timedelta(minutes=5)),
        ("100ms", timedelta(milliseconds=100)),
        ("1d", timedelta(days=1)),
        ("1000", timedelta(seconds=1)),
        ("  2 Hours ", timedelta(hours=2)),
        ("3 secs", timedelta(seconds=3)),
        ("7 micros", timedelta(microseconds=7)),
        ("2500 ns", timedelta(microseconds=2)),
        ("0", timedelta(0)),
        ("PT1M30S", timedelta(seconds=90)),
        ("p1dt0.5s", timedelta(days=1, milliseconds=500)),
    ],
)
def test_durations_are_read_as_flink_reads_them(text: str, expected: timedelta) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize(
    "text", ["", "-1 s", "five minutes", "5 mn", "PT", "P", "99999999999999 d"]
)
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(BadValue):
        parse_duration(text)


@pytest.mark.parametrize("text", ["5 min", "100 ms", "1 d", "0 ms", "1500 ms", "7 µs"])
def test_durations_are_written_in_the_largest_exact_unit(text: str) -> None:
    assert format_duration(parse_duration(text)) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a;b", ("a", "b")),
        (" k_event_id;  k_user_id ", ("k_event_id", "k_user_id")),
        ("'A;B';C", ("A;B", "C")),
        ('"AB\'D";B;C', ("AB'D", "B", "C")),
        ("'it''s'", ("it's",)),
        ("a;;b", ("a", "", "b")),
        ("a;", ("a",)),
        ("", ()),
        ("it's;b", ("it's", "b")),
    ],
)
def test_lists_are_split_with_flinks_quoting(text: str, expected: tuple[str, ...]) -> None:
    assert split_list(text) == expected


@pytest.mark.parametrize("text", ["'a", "'a'b;c", 'a;"b'])
def test_unclosed_or_misplaced_quotes_are_refused(text: str) -> None:
    with pytest.raises(BadValue, match="Could not split string"):
        split_list(text)


def test_numbers_stay_in_the_range_of_their_type() -> None:
    assert INTEGER.parse("-2147483648") == -(2**31)
    assert LONG.parse("9223372036854775807") == 2**63 - 1
    assert NUMBER.parse("1.50") == Decimal("1.50")
    for type_, text in [
        (INTEGER, "2147483648"),
        (LONG, "9223372036854775808"),
        (INTEGER, "1.0"),
        (INTEGER, " 1"),
        (INTEGER, "１"),
        (NUMBER, "NaN"),
        (NUMBER, "abc"),
        (PARALLELISM, "0"),
    ]:
        with pytest.raises(BadValue):
            type_.parse(text)


def test_booleans_are_true_or_false_in_any_case() -> None:
    assert (BOOLEAN.parse("TRUE"), BOOLEAN.parse("false")) == (True, False)
    with pytest.raises(BadValue, match="Unrecognized option for boolean: yes"):
        BOOLEAN.parse("yes")


def test_enumerations_ignore_case_unless_told_otherwise() -> None:
    guarantee = one_of("at-least-once", "exactly-once")
    assert guarantee.parse("Exactly-Once") == "exactly-once"
    with pytest.raises(BadValue) as raised:
        guarantee.parse("EXACTLY_ONCE")
    assert raised.value.hint == "did you mean 'exactly-once'?"
    with pytest.raises(BadValue):
        one_of("ISO-8601", exactly=True).parse("iso-8601")


def test_secrets_are_masked_and_the_rest_is_not() -> None:
    secret = {
        "properties.ssl.truststore.password": "test1234",
        "properties.sasl.jaas.config": "… required;",
        "properties.ssl.keystore.key": "-----BEGIN PRIVATE KEY-----",
        "value.avro-confluent.basic-auth.user-info": "me:pw",
        "value.avro-confluent.bearer-auth.token": "t",
        "s3.access-key": "AK",
        "s3.secret-key": "SK",
        "properties.client.secret": "x",
        "plain.key": 'PlainLoginModule required username="u" password="p";',
        "registry": "https://me:pw@registry:8081",
        "registries": "http://first:8081,https://me:p/w@second:8081",
        "address": "https://token@registry:8081",
        "properties.ssl.key.password": "pw",
        "properties.sasl.oauthbearer.client.credentials.client.secret": "s",
        "properties.sasl.oauthbearer.assertion.private.key.passphrase": "s",
        "connection.pass": "p",
        "db_pwd": "p",
        "fs.azure.account.key.x.net": "k",
        "cloud.api_key": "k",
        "header.Authorization": "Basic abc",
        "avro-confluent.properties": "{basic.auth.user.info:'me:pw', a:b}",
        "db": "jdbc:mysql://h:3306/shop?user=me&password=pw",
        "sqlserver": "jdbc:sqlserver://h:1433;databaseName=shop;password=pw",
        "oracle": "jdbc:oracle:thin:scott/tiger@//h:1521/shop",
        "pem": "-----BEGIN ENCRYPTED PRIVATE KEY----- MIIE -----END ENCRYPTED PRIVATE KEY-----",
    }
    plain = {
        "connector": "kafka",
        "key.format": "json",
        "key.fields": "a;b",
        "properties.bootstrap.servers": "localhost:9092",
        "properties.ssl.keystore.location": "/k.jks",
        "value.avro-confluent.basic-auth.credentials-source": "USER_INFO",
        "registry.url": "http://registry:8081/a@b",
        "db.url": "jdbc:mysql://h:3306/shop?useSSL=true",
        "bypass.name": "x",
        "properties.ssl.truststore.password": "${file:/run/secrets/pw}",
        "value.avro-confluent.bearer-auth.token": "${env:TOKEN}",
    }
    assert set(redacted(secret).values()) == {MASK}
    assert redacted(plain) == plain


def test_every_code_that_is_used_has_a_title_and_every_title_is_used() -> None:
    used = set()
    for path in SOURCES.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path.name == "options.py":
            text = text.replace(text[text.index("CODES:") : text.index("# --- values")], "")
        used |= set(re.findall(r'"(OPT-[0-9]{3})"', text))
    assert used == set(CODES)


def test_every_option_is_documented_once() -> None:
    for definition in (*CONNECTORS.values(), *FORMATS.values()):
        keys = [option.key for option in definition.options]
        assert len(keys) == len(set(keys)), definition.name
        assert definition.doc.endswith((".", ")."))
        for option in definition.options:
            assert option.doc.endswith("."), option.key
            assert option.type.name

"""Client properties in Kafka's own form, and what librdkafka is told of them. Without a JVM: stores are PEM here."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.broker.clients import (
    jaas,
    jaas_options,
    parse_properties,
    read_properties,
    settings,
    unused,
    write_properties,
)
from tidemill.errors import UsageError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\nb = 2 \nc: 3\nd 4\n", {"a": "1", "b": "2 ", "c": "3", "d": "4"}),
        ("# a=1\n  ! b=2\n\n\t\n", {}),
        ("a=1 \\\n   2\\\n\tb\n", {"a": "1 2b"}),
        ("a=x\\\\\nb=1", {"a": "x\\", "b": "1"}),
        ("a\\=b\\:c=\\u00e9\\t\\x\r\nd", {"a=b:c": "é\tx", "d": ""}),
        (
            'j=M required\\\n  username="u=1;" password="#x";',
            {"j": 'M requiredusername="u=1;" password="#x";'},
        ),
        ("a=b=c:d\n", {"a": "b=c:d"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=end\\", {"a": "end"}),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


_TEXT = st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1).map(
    lambda text: f"v{text}"
)


@given(st.dictionaries(st.from_regex(r"[a-z][a-z.]{0,20}", fullmatch=True), _TEXT, max_size=4))
def test_what_is_written_is_read_back(properties: dict[str, str]) -> None:
    assert parse_properties(write_properties(properties)) == properties


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f'{PLAIN} required username="u" password="p";', {"username": "u", "password": "p"}),
        (
            f"{PLAIN} required\n  username='u v'\n  password='it\\'s' ;",
            {"username": "u v", "password": "it's"},
        ),
        (
            f"{PLAIN} required username=ckafka-1#u password=p$1@2;",
            {"username": "ckafka-1#u", "password": "p$1@2"},
        ),
        (
            f'{PLAIN} required username = "a;b=c" password="\\"\\\\";',
            {"username": "a;b=c", "password": '"\\'},
        ),
        (
            f'{PLAIN} required /* who */ username="u" // so\n password="//p";',
            {"username": "u", "password": "//p"},
        ),
        (f"{PLAIN} required;", {}),
    ],
)
def test_jaas_lines_are_cut_as_kafka_cuts_them(line: str, expected: dict[str, str]) -> None:
    assert jaas_options(line) == expected


@pytest.mark.parametrize(
    "line", ["", ";", PLAIN, f'{PLAIN} required username="u"', f"{PLAIN} required username;"]
)
def test_lines_that_are_no_jaas_are_refused(line: str) -> None:
    with pytest.raises(ValueError, match="it "):
        jaas_options(line)


@given(
    st.dictionaries(
        st.sampled_from(["username", "password", "user_a#b"]),
        st.text(st.characters(blacklist_categories=("Cs",))),
    )
)
def test_jaas_that_is_written_is_read_back(options: dict[str, str]) -> None:
    assert jaas_options(jaas(PLAIN, options)) == options


def test_user_of_a_jaas_line_is_told_to_the_library() -> None:
    told = settings(
        {
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": jaas("x.ScramLoginModule", {"username": "a#b", "password": 'p"q'}),
        }
    )
    assert told == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "a#b",
        "sasl.password": 'p"q',
    }


def test_certificates_in_pem_are_told_as_they_are(tmp_path: Path) -> None:
    store = tmp_path / "all.pem"
    store.write_text("-----BEGIN CERTIFICATE-----\n")
    told = settings(
        {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(store),
            "ssl.keystore.location": str(store),
            "ssl.key.password": "p",
            "ssl.endpoint.identification.algorithm": "",
        }
    )
    assert told == {
        "security.protocol": "SSL",
        "ssl.ca.location": str(store),
        "ssl.key.location": str(store),
        "ssl.certificate.location": str(store),
        "ssl.key.password": "p",
        "ssl.endpoint.identification.algorithm": "none",
    }
    inline = {
        "ssl.truststore.certificates": "C",
        "ssl.keystore.key": "K",
        "ssl.keystore.certificate.chain": "D",
    }
    told = settings({"security.protocol": "SSL", **inline})
    assert (told["ssl.ca.pem"], told["ssl.key.pem"], told["ssl.certificate.pem"]) == ("C", "K", "D")
    assert told["ssl.endpoint.identification.algorithm"] == "https"


SASL = {"security.protocol": "SASL_SSL"}


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        (
            {"security.protocol": "SASL_TLS"},
            "KAFKA-010: security.protocol 'SASL_TLS' is none of Kafka's",
        ),
        (SASL, "KAFKA-011: the topic commands cannot log in with the mechanism GSSAPI (Kerberos)"),
        (
            {**SASL, "sasl.mechanism": "OAUTHBEARER"},
            "KAFKA-011: the topic commands cannot log in with",
        ),
        (
            {**SASL, "sasl.mechanism": "PLAIN"},
            "KAFKA-010: sasl.jaas.config is missing, which PLAIN needs",
        ),
        (
            {
                **SASL,
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": f'{PLAIN} required username="u" password="hush"',
            },
            "KAFKA-010: sasl.jaas.config cannot be read: it does not end with a semicolon",
        ),
        (
            {
                **SASL,
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": f'{PLAIN} required password="hush";',
            },
            "KAFKA-010: sasl.jaas.config names no username and password",
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "/no/such/store.jks"},
            "KAFKA-010: ssl.truststore.location: '/no/such/store.jks' cannot be read: No such file",
        ),
        (
            {"security.protocol": "SSL", "ssl.keystore.location": __file__},
            "is no store of the kinds JKS, PKCS12 or PEM",
        ),
    ],
)
def test_properties_that_cannot_be_told_are_refused(
    properties: dict[str, str], expected: str
) -> None:
    with pytest.raises(UsageError) as caught:
        settings(properties)
    assert expected in str(caught.value)
    assert "hush" not in str(caught.value)


def test_properties_without_use_are_named() -> None:
    assert unused({"security.protocol": "SSL", "ssl.cipher.suites": "x", "acks": "1"}) == [
        "acks",
        "ssl.cipher.suites",
    ]


def test_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"KAFKA-010: the properties file .* cannot be read: No such file"
    ):
        read_properties(tmp_path / "none")
    (tmp_path / "binary").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="cannot be read: it is not UTF-8"):
        read_properties(tmp_path / "binary")

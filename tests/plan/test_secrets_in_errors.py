"""Secrets of a script are in no diagnostic, wherever it points."""

from __future__ import annotations

import json

import pytest

from tidemill.errors import Diagnostic, ScriptError, Source, Span, masked
from tidemill.plan.environment import Environment, compile_script
from tidemill.sql import parse_script

SECRET = "hunter2"
WITH = "CREATE TABLE t (id BIGINT) WITH ('connector' = 'kafka', 'topic' = 'a', 'format' = 'json',"

# Scripts with a mistake beside, around or inside of a secret.
SCRIPTS = {
    "a mistake in the same line": f"{WITH} 'properties.ssl.key.password' = '{SECRET}', 'nonsense' = 'x')",
    "a quote in it": f"{WITH} 'properties.ssl.key.password' = 'a'{SECRET}')",
    "a quote in it, and more": f"{WITH} 'properties.ssl.key.password' = 'a'{SECRET}', 'b' = 'c')",
    "no quote at its end": f"{WITH} 'properties.ssl.key.password' = '{SECRET}",
    "no comma after it": f"{WITH} 'properties.ssl.key.password' = '{SECRET}' 'b' = 'c')",
    "a variable in it": f"{WITH} 'properties.ssl.key.password' = '{SECRET}${{UNDEFINED}}')",
    "several lines": f"""{WITH} 'properties.sasl.jaas.config' = 'x required
      username="u"
      password="a
{SECRET} ${{UNDEFINED}}";')""",
    "a key in several lines": f"""{WITH} 'properties.ssl.keystore.key' = '-----BEGIN PRIVATE KEY-----
{SECRET} ${{UNDEFINED}}
-----END PRIVATE KEY-----')""",
    "an address": f"CREATE TABLE t (id BIGINT) WITH ('connector' = 'jdbc', 'url' = 'http://u:{SECRET}@h/x', 'b' = 'c')",
    "the query of an address": "CREATE TABLE t (id BIGINT) WITH ('connector' = 'jdbc',"
    f" 'url' = 'jdbc:x://h/d?password={SECRET}&a=b', 'b' = 'c')",
    "a setting": f"SET 'table.exec.password' = '{SECRET}'; SET 'parallelism.default' = 'x';"
    f" SET 'my.secret' = '{SECRET}' y;",
    "a wrong connector": f"CREATE TABLE t (id BIGINT) WITH ('password' = '{SECRET}', 'connector' = 'jdcb')",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_mistake_near_a_secret_does_not_show_it(name: str) -> None:
    environment = Environment()
    with pytest.raises(ScriptError) as raised:
        compile_script(parse_script(Source("case.sql", SCRIPTS[name])), environment)
    shown = [d.render() for d in (*raised.value.diagnostics, *environment.warnings)]
    told = [json.dumps(d.to_json()) for d in (*raised.value.diagnostics, *environment.warnings)]
    assert SECRET not in "\n".join([*shown, *told, str(raised.value)])


def test_masks_keep_every_character_in_its_place() -> None:
    text = f"a 'password' = '{SECRET}\n{SECRET}' b\n'x' = 'http://u:{SECRET}@h'"
    shown = masked(text)
    assert SECRET not in shown
    assert [len(line) for line in shown.splitlines()] == [len(x) for x in text.splitlines()]
    assert shown.endswith("@h'") and shown.startswith("a 'password' = '*******\n*******' b\n")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a.token=b.token FROM a JOIN b ON a.token = b.token",
        "'properties.ssl.key.password' = '${env:PW}'",
        "'url' = 'http://host:8081/a@b'",
        "'properties.bootstrap.servers' = 'h1:9092,h2:9092'",
        "-- the password is in ${file:pw}",
    ],
)
def test_what_is_no_secret_is_shown(text: str) -> None:
    assert masked(text) == text


def test_a_sentence_that_quotes_its_place() -> None:
    source = Source("s.sql", f"'password' = '{SECRET}' x")
    inside = Span(source, 14, 14 + len(SECRET))
    assert SECRET not in Diagnostic("X-1", f"unexpected {SECRET}", inside, f"not {SECRET}").render()
    outside = Span(source, 23, 24)
    assert "unexpected x" in Diagnostic("X-1", "unexpected x", outside).render()

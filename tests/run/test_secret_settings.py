"""Settings of Spark's that are secret are told apart, so that they stay off its JVM's command line and its pages."""

from __future__ import annotations

import re

import pytest

from tidemill.errors import UsageError
from tidemill.spark.engine import STATIC_SETTINGS, _secret_settings

REDACTION = "spark.redaction.regex"


def test_secrets_are_known_by_their_keys_and_by_references(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_KEY", "hunter2")
    conf, hidden = _secret_settings(
        {
            "spark.hadoop.fs.my.setting": "${env:STORAGE_KEY}",
            "spark.ssl.keyPassword": "x",
            "spark.app.name": "n",
        }
    )
    assert hidden == {"spark.hadoop.fs.my.setting", "spark.ssl.keyPassword"}
    assert conf["spark.hadoop.fs.my.setting"] == "hunter2" and conf["spark.app.name"] == "n"
    # Spark shows a setting of Hadoop's under two keys.
    words = re.compile(conf[REDACTION])
    assert words.search("fs.my.setting") and words.search("spark.hadoop.fs.my.setting")
    assert words.search("spark.ssl.keyPassword") and not words.search("spark.app.name")


def test_what_the_user_hides_stays_hidden() -> None:
    conf, _ = _secret_settings({REDACTION: "mine", "my.token": "x"})
    assert conf[REDACTION] == r"mine|my\.token"
    assert _secret_settings({"spark.app.name": "n"}) == ({"spark.app.name": "n"}, set())
    for key in ("a.secret.key", "sasl.jaas.config", "basic.auth.user.info", "fs.account.key"):
        assert re.search(STATIC_SETTINGS[REDACTION], key)


def test_a_reference_that_leads_nowhere_is_a_slip_of_the_command_line() -> None:
    with pytest.raises(UsageError, match="SETUP-019: a setting of Spark's: the environment"):
        _secret_settings({"spark.x": "${env:SURELY_NOT_SET}"})

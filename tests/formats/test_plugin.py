"""Formats of other packages. The example of docs/formats/plugins.md is installed as a package of its own."""

from __future__ import annotations

import re
import sys

import pyarrow as pa
import pytest

from harness.packages import example, install, install_example
from tidemill import plugins
from tidemill import types as t
from tidemill.changelog import ALL_CHANGES
from tidemill.errors import JobError, ScriptError, Source
from tidemill.formats import BadRecord, Decoded, format_module
from tidemill.formats.plugin import PluginFormat
from tidemill.plan.environment import Environment, compile_script
from tidemill.sql import parse_script
from tidemill.tables.completion import complete_key, complete_value
from tidemill.tables.formats import FORMATS, FormatDefinition, find_format, format_names

FIELDS = (t.Field("user", t.STRING), t.Field("path", t.STRING))


@pytest.fixture
def place(tmp_path, monkeypatch):
    known = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins.load.cache_clear()
    yield tmp_path
    plugins.load.cache_clear()
    for name in set(sys.modules) - known:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def pairs(place):
    install_example(place)
    return format_module("pairs")


def check(script: str):
    return compile_script(parse_script(Source("script.sql", script)), Environment())


# ---- the example -----------------------------------------------------------------------------------------


def test_the_example_is_short():
    code = [line for line in example("python").split("\n") if line and not line.startswith("#")]
    assert len(code) <= 30


def test_it_is_found(pairs):
    assert "pairs" in format_names()
    assert find_format("pairs").doc == "Names and texts: `user=mia path=/cart`."
    assert [o.key for o in find_format("pairs").options] == ["separator"]


def test_it_reads_and_writes(pairs):
    options = {"separator": "&"}
    values = pa.array([b"user=mia&path=/cart", b"oops", b"path=a=b", None], pa.binary())
    decoded = pairs.decoder(FIELDS, options, ["path", "user"]).decode(values)
    assert [c.to_pylist() for c in decoded.columns] == [["/cart", "a=b", None], ["mia", None, None]]
    assert decoded.records.to_pylist() == [0, 2, 3]
    assert decoded.bad == [BadRecord(1, None, "expected pairs like a=1")]
    columns = [pa.array(["mia", None]), pa.array(["/", "/x"])]
    written = pairs.encoder(FIELDS, options).encode(columns)
    assert written.to_pylist() == [b"user=mia&path=/", b"path=/x"]


def test_its_script_is_planned(pairs):
    [job] = check(example("sql"))
    assert not job.not_runnable


def test_its_options_are_checked_like_ours(pairs):
    with pytest.raises(ScriptError) as caught:
        check(example("sql").replace("pairs.separator", "pairs.seperator"))
    [found] = caught.value.diagnostics
    assert found.code == "OPT-003"
    assert "pairs.separator" in found.hint


def test_its_types_are_checked_like_ours(pairs):
    with pytest.raises(ScriptError) as caught:
        check(example("sql").replace("path STRING", "path INT").replace("path FROM", "1 FROM"))
    [found] = caught.value.diagnostics
    assert found.code == "OPT-014"
    assert found.message == "column 'path': pairs hold STRING, not INT"


def test_its_name_and_options_are_completed(pairs):
    assert "pairs" in [c.text for c in complete_value("format", "", {"connector": "kafka"})]
    given = {"connector": "kafka", "key.format": "pairs"}
    assert "key.pairs.separator" in [c.text for c in complete_key("key.pairs", given)]


def test_an_unknown_format_is_told_about_it(pairs):
    with pytest.raises(ScriptError) as caught:
        check(example("sql").replace("'format' = 'pairs'", "'format' = 'pears'"))
    assert "pairs" in caught.value.diagnostics[0].hint


# ---- plug-ins that are not right -------------------------------------------------------------------------

BROKEN = {
    "not_there": (
        "nowhere:Format",
        "cannot be loaded: ModuleNotFoundError: No module named 'nowhere'",
    ),
    "fails": ("broken:missing", "cannot be loaded: AttributeError"),
    "nothing": ("broken:Nothing", "has no 'definition' that is a FormatDefinition"),
    "renamed": ("broken:Renamed", "is registered under this name but calls itself 'other'"),
    "half": ("broken:Half", "has no 'encoder' that can be called"),
}
BROKEN_CODE = """
from tidemill.tables.formats import FormatDefinition
class Nothing: pass
class Renamed: definition = FormatDefinition("other", "")
class Half:
    definition = FormatDefinition("half", "")
    def decoder(*given): pass
"""


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_with_a_plugin_is_said_at_its_name(place, name):
    points = "\n".join(f"{n} = {point}" for n, (point, _) in BROKEN.items())
    install(place, "broken-formats", points, broken=BROKEN_CODE)
    with pytest.raises(ScriptError) as caught:
        check(example("sql").replace("'pairs'", f"'{name}'").replace("pairs.", f"{name}."))
    [found] = caught.value.diagnostics
    assert found.code == "OPT-018"
    assert found.message.startswith(f"format '{name}'")
    assert BROKEN[name][1] in found.message
    assert found.span is not None
    assert found.hint
    assert name not in [c.text for c in complete_value("format", "", {"connector": "kafka"})]


def test_two_packages_cannot_offer_one_name(place):
    install(place, "one", "pairs = a:B")
    install(place, "two", "pairs = c:D")
    with pytest.raises(ScriptError, match="'pairs' is offered by package one and package two"):
        check(example("sql"))


def test_our_formats_cannot_be_replaced(place):
    install(place, "shop-formats", "json = nowhere:Json\nraw = nowhere:Raw")
    assert find_format("json") is FORMATS["json"]
    assert format_module("raw").__name__ == "tidemill.formats.raw"
    assert format_names() == list(FORMATS)


def test_a_worker_without_the_package_says_so(place):
    with pytest.raises(JobError) as caught:
        format_module("pairs")
    [found] = caught.value.diagnostics
    assert found.code == "FMT-010"
    assert "every machine" in found.hint


class Answers:
    """A plug-in that answers whatever it is told to."""

    definition = FormatDefinition("answers", "", changelog=ALL_CHANGES)

    def __init__(self, answer):
        self.answer = answer

    def decoder(self, *made_of):
        return self

    encoder = decoder

    def decode(self, values):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    encode = decode


NUMBERS = pa.array([1, 2], pa.int32())
RECORDS = pa.array([b"a", b"b"], pa.binary())
INTS = [t.Field("n", t.INT)]


@pytest.mark.parametrize(
    ("answer", "code", "message"),
    [
        (ZeroDivisionError("oops"), "FMT-011", "could not decode a batch: ZeroDivisionError: oops"),
        (None, "FMT-012", "gave a NoneType instead of a Decoded"),
        (Decoded([]), "FMT-012", "gave 0 columns instead of 1"),
        (Decoded([pa.array([1, 2])]), "FMT-012", "gave int64 instead of int32 for 'n'"),
        (Decoded([NUMBERS.slice(1)]), "FMT-012", "gave columns of lengths 1 for 2 rows"),
    ],
)
def test_a_wrong_decoder(answer, code, message):
    decoder = PluginFormat("answers", Answers(answer)).decoder(INTS, {})
    with pytest.raises(JobError) as caught:
        decoder.decode(RECORDS)
    [found] = caught.value.diagnostics
    assert (found.code, found.message) == (code, f"format 'answers' {message}")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (ValueError(), "could not encode a batch: ValueError"),
        (None, "gave NoneType instead of a binary array"),
        (pa.array(["a", "b"]), "gave string instead of a binary array"),
        (RECORDS.slice(1), "gave 1 records for 2 rows"),
    ],
)
def test_a_wrong_encoder(answer, message):
    encoder = PluginFormat("answers", Answers(answer)).encoder(INTS, {})
    with pytest.raises(JobError, match=re.escape(f"format 'answers' {message}")):
        encoder.encode([NUMBERS])


def test_rows_without_kinds_are_inserts():
    decoder = PluginFormat("answers", Answers(Decoded([NUMBERS]))).decoder(INTS, {})
    assert decoder.decode(RECORDS).kinds.to_pylist() == [0, 0]

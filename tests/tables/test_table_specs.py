"""CREATE TABLE → resolved spec, or diagnostics: one case per rule, in data/*.txt.

A case is a comment line, a statement, `----`, and what comes out; cases are parted by blank lines.
`REWRITE=1 pytest tests/tables` writes what comes out into the files: read the diff before you keep it.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from datetime import timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path

import pytest
from declared_tables import declare

from tidemill.errors import ScriptError
from tidemill.tables import build_table, redacted
from tidemill.tables.builtin import Random, Sequence
from tidemill.tables.catalog import Connector
from tidemill.tables.connector import WatermarkOptions
from tidemill.tables.formats import FORMATS, FormatSpec
from tidemill.tables.kafka import Bounded, Reading, Startup
from tidemill.tables.options import MASK, format_duration, is_secret
from tidemill.tables.upsert_kafka import BufferFlush

DATA = Path(__file__).parent / "data"
OTHERS = ("flink_configuration_keys.txt", "rules.txt", "mistakes_of_a_script.txt")
FILES = sorted(path.name for path in DATA.glob("*.txt") if path.name not in OTHERS)


def cases(path: Path) -> Iterator[tuple[str, str]]:
    """The input (with its comment) and the output of every case."""
    for block in path.read_text(encoding="utf-8").strip("\n").split("\n\n"):
        given, _, expected = block.partition("\n----")
        yield given, expected.strip("\n")


def outcome(text: str) -> str:
    statement = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    name, create, schema = declare("t.sql", statement)
    try:
        connector, warnings = build_table(name, create, schema, {})
    except ScriptError as error:
        return str(error)
    return "\n".join([*(w.render() for w in warnings), describe(connector)])


def describe(connector: Connector) -> str:
    """The spec without what is absent, one field per line."""
    lines = [type(connector).__name__]
    for f in dataclasses.fields(connector):
        value = getattr(connector, f.name)
        if value is not None and is_secret(f.name):
            value = MASK
        if f.name == "fields":
            lines += [f"  {_show(field)}" for field in value]
        elif value not in (None, (), "", {}) and value not in (
            WatermarkOptions(),
            Bounded(),
            Reading(),
        ):
            shown = redacted(value) if f.name == "properties" else value
            lines.append(f"  {f.name}: {_show(shown)}")
    return "\n".join(lines)


def _show(value: object) -> str:
    match value:
        case FormatSpec(name, options, prefix):
            defaults = {o.key: o.default for o in FORMATS[name].options}
            changed = {
                k: MASK if is_secret(k) else v
                for k, v in options.items()
                if v != defaults[k] and v != {}
            }
            return f"{prefix}* {_show(changed)}" if changed else f"{prefix}*"
        case (
            Startup()
            | Bounded()
            | Reading()
            | BufferFlush()
            | WatermarkOptions()
            | Random()
            | Sequence()
        ):
            given = ((f, getattr(value, f.name)) for f in dataclasses.fields(value))
            parts = (
                f"{f.name}={_show(v)}" for f, v in given if v != f.default and v not in ({}, ())
            )
            return f"{type(value).__name__.lower()}({', '.join(parts)})"
        case Enum():
            return str(value.value)
        case timedelta():
            return format_duration(value)
        case Decimal():
            return str(value)
        case Mapping():
            return "{" + ", ".join(f"{k}: {_show(v)}" for k, v in value.items()) + "}"
        case tuple():
            return "[" + ", ".join(map(_show, value)) + "]"
    return str(value)


@pytest.mark.parametrize("file", FILES)
def test_declared_tables(file: str) -> None:
    path = DATA / file
    if os.environ.get("REWRITE"):
        blocks = [f"{given}\n----\n{outcome(given)}" for given, _ in cases(path)]
        path.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
    wrong = [
        f"{given}\n---- expected\n{expected}\n---- got\n{got}"
        for given, expected in cases(path)
        if (got := outcome(given)) != expected
    ]
    assert not wrong, "\n\n".join(wrong)

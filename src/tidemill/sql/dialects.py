"""Dialects as data: what the grammar and the types of each vendor do otherwise than today's Flink.

The parser reads the switches; what a vendor's options mean is said in `tidemill.tables`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.errors import did_you_mean, usage_error


@dataclass(frozen=True)
class Dialect:
    name: str
    bare_options: bool = False
    """WITH (type = 'kafka010', bootstrap.servers = '…', `group.id` = '…'): keys bare, dotted or back-quoted; values may
    be bare too."""
    double_quoted_options: bool = False
    """WITH ("connector" = "kafka"): double quotes around keys and values of options."""
    unsized_is_unbounded: bool = False
    """VARCHAR and VARBINARY without a length are STRING and BYTES, not of length 1."""
    key_is_not_enforced: bool = False
    """PRIMARY KEY (k) alone means NOT ENFORCED."""
    named_watermarks: bool = False
    """WATERMARK name FOR ts AS …"""


FLINK = Dialect("flink")
OCEANUS = Dialect("oceanus")
BLINK = Dialect(
    "blink",
    bare_options=True,
    unsized_is_unbounded=True,
    key_is_not_enforced=True,
    named_watermarks=True,
)
DLI = Dialect("dli", double_quoted_options=True)
DIALECTS = {d.name: d for d in (FLINK, OCEANUS, BLINK, DLI)}
FLINK_1_10 = Dialect("flink-1.10")
"""Flink before 1.11, whose options are old and whose grammar is today's; a name for translation only."""


def dialect_named(name: str) -> Dialect:
    if name not in DIALECTS:
        names = ", ".join(DIALECTS)
        hint = did_you_mean(name, list(DIALECTS), f"dialects are {names}")
        raise usage_error("CLI-003", f"there is no dialect '{name}'", hint)
    return DIALECTS[name]

"""Formats of other packages, held to the contract of our own.

In: the name of a format that is registered under the entry point group `tidemill.formats`. Out: its decoders and
encoders, each inside one that watches it. Law: what a plug-in raises, and an answer that no caller could use, is a
diagnostic that names the format.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidemill import plugins
from tidemill.changelog import RowKind
from tidemill.errors import JobError, TidemillError, job_error
from tidemill.formats import Decoded, Decoder, Encoder
from tidemill.formats.arrow import arrow_type
from tidemill.types import Field


@dataclass(frozen=True)
class PluginFormat:
    """A plug-in as a format."""

    name: str
    plugin: Any

    @classmethod
    def load(cls, name: str) -> PluginFormat:
        hint = "install the package that has it on every machine that runs the job"
        try:
            found = plugins.load(plugins.FORMATS, name)
        except plugins.PluginProblem as problem:
            raise job_error("FMT-010", f"format {problem.message}", problem.hint) from None
        if found is None:
            raise job_error("FMT-010", f"format '{name}' is not installed in this worker", hint)
        return cls(name, found)

    def decoder(
        self,
        fields: Sequence[Field],
        options: Mapping[str, object],
        wanted: Sequence[str] | None = None,
        *metadata: Sequence[str],
    ) -> Decoder:
        types = {f.name: arrow_type(f.type) for f in fields}
        names = [f.name for f in fields] if wanted is None else list(wanted)
        with _watched(self.name, "made no decoder"):
            made = self.plugin.decoder(fields, options, wanted, *metadata)
            has_kinds = not self.plugin.definition.changelog.insert_only
        return _Decoder(self.name, made, [(name, types[name]) for name in names], has_kinds)

    def encoder(self, fields: Sequence[Field], options: Mapping[str, object]) -> Encoder:
        with _watched(self.name, "made no encoder"):
            made = self.plugin.encoder(fields, options)
        return _Encoder(self.name, made)


@contextmanager
def _watched(name: str, what: str) -> Iterator[None]:
    try:
        yield
    except TidemillError:
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise job_error(
            "FMT-011",
            f"format '{name}' {what}: {said}",
            "this is for the authors of the package that has the format; a record that cannot be read is to be"
            " reported as a BadRecord",
        ) from error


def _wrong(name: str, what: str) -> JobError:
    return job_error(
        "FMT-012",
        f"format '{name}' {what}",
        "this is for the authors of the package that has the format: docs/formats/plugins.md tells the contract",
    )


@dataclass(frozen=True)
class _Decoder:
    name: str
    made: Any
    wanted: list[tuple[str, Any]]
    has_kinds: bool

    def decode(self, values: Any) -> Decoded:
        with _watched(self.name, "could not decode a batch"):
            decoded = self.made.decode(values)
        if not isinstance(decoded, Decoded):
            raise _wrong(self.name, f"gave a {type(decoded).__name__} instead of a Decoded")
        if len(decoded.columns) < len(self.wanted):
            raise _wrong(
                self.name, f"gave {len(decoded.columns)} columns instead of {len(self.wanted)}"
            )
        for (name, arrow), column in zip(self.wanted, decoded.columns, strict=False):
            if column.type != arrow:
                raise _wrong(self.name, f"gave {column.type} instead of {arrow} for '{name}'")
        rows = len(values) if decoded.records is None else len(decoded.records)
        told = [*decoded.columns, *([] if decoded.kinds is None else [decoded.kinds])]
        if any(len(column) != rows for column in told):
            lengths = ", ".join(str(len(column)) for column in told)
            raise _wrong(self.name, f"gave columns of lengths {lengths} for {rows} rows")
        if decoded.kinds is None and self.has_kinds:
            decoded.kinds = pa.repeat(pa.scalar(int(RowKind.INSERT), pa.int8()), rows)
        return decoded


@dataclass(frozen=True)
class _Encoder:
    name: str
    made: Any

    def encode(self, columns: Sequence[Any], *kinds: Any) -> Any:
        with _watched(self.name, "could not encode a batch"):
            encoded = self.made.encode(columns, *kinds)
        if getattr(encoded, "type", None) != pa.binary():
            found = getattr(encoded, "type", type(encoded).__name__)
            raise _wrong(self.name, f"gave {found} instead of a binary array")
        if columns and len(encoded) != len(columns[0]):
            raise _wrong(self.name, f"gave {len(encoded)} records for {len(columns[0])} rows")
        return encoded

"""A script of another dialect or age as text of today's Flink.

In: the text of a script. Out: the same text with today's forms in the places of the old ones, and a note for every
change, above its statement and as a value. Law: what need not change stays to the letter: comments, layout and
`${NAME}` are the author's. A translation parses in Flink's dialect, and translating it again changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise, takewhile

from tidemill.errors import Diagnostic, Source
from tidemill.sql import ast, parse_script
from tidemill.sql.dialects import BLINK, Dialect
from tidemill.sql.lexer import Token, tokenize
from tidemill.tables.blink import check_keys, only_declared
from tidemill.tables.modern import modernise_statement
from tidemill.tables.vendors import OLD_OPTIONS, refuse_old_form


@dataclass(frozen=True)
class Translation:
    text: str
    notes: tuple[Diagnostic, ...]
    """In the order of the script; a `warning` is something to look at."""


@dataclass(frozen=True, order=True)
class _Edit:
    """These characters become that text."""

    start: int
    end: int
    text: str = ""


class _Placeholders(dict[str, str]):
    """Variables that stand for themselves: a translation keeps `${NAME}`, whatever it will be."""

    def __bool__(self) -> bool:  # never "no variables given"
        return True

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> str:
        return f"${{{name}}}"


def translate(
    source: Source,
    dialect: Dialect,
    variables: Mapping[str, str] | None = None,
    comment_notes: bool = True,
) -> Translation:
    """The script in today's Flink SQL. A variable outside of a text must be given, so that the script can be read."""
    known = _Placeholders(variables or {})
    script = parse_script(source, known, dialect)
    if dialect is BLINK:
        check_keys(script)
    tokens, _ = tokenize(source, known, dialect)
    edits = list(_spelling(tokens, dialect))
    notes: list[Diagnostic] = []
    for statement in script.statements:
        today, changes = modernise_statement(statement, dialect)
        if isinstance(statement, ast.CreateTable) and isinstance(today, ast.CreateTable):
            edits += _table_edits(statement, today, source.text, tokens)
            changes += _left_as_it_is(today) + only_declared(today, script)
        notes += changes
        if changes and comment_notes:
            edits.append(_comment(changes, statement.span.start, source.text))
    return Translation(_edited(source.text, edits), tuple(notes))


def _left_as_it_is(table: ast.CreateTable) -> list[Diagnostic]:
    """What is neither of today nor translated: somebody must look at it."""
    refused = refuse_old_form(table.options)
    if refused is not None:
        message = f"table '{table.name}' stays as it is: {refused.message}"
        return [Diagnostic("DIA-004", message, refused.span, refused.hint, "warning")]
    return [
        Diagnostic("DIA-004", f"'{o.key}' stays as it is", o.span, OLD_OPTIONS[o.key], "warning")
        for o in table.options
        if o.key in OLD_OPTIONS
    ]


def _comment(notes: list[Diagnostic], start: int, text: str) -> _Edit:
    """The notes on lines of their own above a statement, but for those that stand there already."""
    line = text.rfind("\n", 0, start) + 1
    indent = text[line:start]
    opening, indent = ("", indent) if not indent.strip() else ("\n", "")
    lines_above = map(str.strip, reversed(text[:line].splitlines()))
    there = set(takewhile(lambda above: above.startswith("--"), lines_above))
    lines = [comment for comment in map(_comment_line, notes) if comment not in there]
    return _Edit(start, start, opening * bool(lines) + "".join(f"{c}\n{indent}" for c in lines))


def _comment_line(note: Diagnostic) -> str:
    kind = "warning" if note.severity == "warning" else "note"
    hint = f"; {note.hint}" if note.hint else ""
    return " ".join(f"-- {kind}: {note.message}{hint}".split())


def _edited(text: str, edits: list[_Edit]) -> str:
    line_end = "\r\n" if "\r\n" in text else "\n"
    pieces: list[str] = []
    position = 0
    for edit in sorted(edits):
        pieces += [text[position : edit.start], edit.text.replace("\n", line_end)]
        position = edit.end
    return "".join(pieces) + text[position:]


# --- words -------------------------------------------------------------------------------------

_UNBOUNDED = {"VARCHAR": "STRING", "VARBINARY": "BYTES"}
_VARYING = {"CHAR": "STRING", "CHARACTER": "STRING", "BINARY": "BYTES"}


def _spelling(tokens: list[Token], dialect: Dialect) -> Iterator[_Edit]:
    """What a dialect spells otherwise, wherever it stands: its words are reserved, so they mean one thing only."""
    for at, (token, following) in enumerate(pairwise(tokens)):
        if token.kind != "word":
            continue
        after = tokens[min(at + 2, len(tokens) - 1)]
        if dialect.unsized_is_unbounded:
            if token.key in _UNBOUNDED and following.key != "(":
                yield _Edit(token.start, token.end, _UNBOUNDED[token.key])
            elif token.key in _VARYING and following.key == "VARYING" and after.key != "(":
                yield _Edit(token.start, following.end, _VARYING[token.key])
        if dialect.key_is_not_enforced and (token.key, following.key) == ("PRIMARY", "KEY"):
            end = at + 1
            if after.key == "(":
                end = next(i for i in range(at, len(tokens)) if tokens[i].key == ")")
            dropped = tokens[at - 1].key == "DROP"
            if not dropped and tokens[end + 1].key not in ("NOT", "ENFORCED"):
                yield _Edit(tokens[end].end, tokens[end].end, " NOT ENFORCED")
        if dialect.named_watermarks and token.key == "WATERMARK" and after.key == "FOR":
            yield _Edit(following.start, after.start)


# --- tables ------------------------------------------------------------------------------------


def _table_edits(
    old: ast.CreateTable, new: ast.CreateTable, text: str, tokens: list[Token]
) -> Iterator[_Edit]:
    for before, column in zip(old.columns, new.columns, strict=True):
        if isinstance(column, ast.MetadataColumn) and isinstance(before, ast.PhysicalColumn):
            origin = f" FROM {_quoted(column.key)}" if column.key else ""
            end = column.type_span.end
            yield _Edit(end, end, f" METADATA{origin} VIRTUAL")
    if old.watermark and new.watermark and old.watermark.expression != new.watermark.expression:
        span = old.watermark.expression.span
        yield _Edit(span.start, span.end, _written(new.watermark.expression))
    yield from _option_edits(old, new, text, tokens)


def _written(expression: ast.Expression) -> str:
    match expression:
        case ast.Binary(operator=sign, left=left, right=ast.IntervalLiteral(text=delay, unit=unit)):
            return f"{left.span.text} {sign} INTERVAL '{delay}' {unit}"
    return expression.span.text


def _option_edits(
    old: ast.CreateTable, new: ast.CreateTable, text: str, tokens: list[Token]
) -> Iterator[_Edit]:
    """Each option is written where the one stood that it comes from; those that come from elsewhere, at the end."""
    places = {option.span.start: option for option in old.options}
    values = {option.value_span: option.value for option in old.options}
    pairs = [
        _pair(option, places.get(option.span.start), values.get(option.value_span))
        for option in new.options
    ]
    if pairs == [text[o.span.start : o.value_span.end] for o in old.options]:
        return
    written: dict[int, list[str]] = {start: [] for start in places}
    last = max((o.span.start for o in new.options if o.span.start in places), default=min(places))
    for option, pair in zip(new.options, pairs, strict=True):
        written[option.span.start if option.span.start in places else last].append(pair)
    for start, option in places.items():
        end, comma = option.value_span.end, _comma_behind(option, tokens)
        if written[start]:
            sign = "," if start != last else ""
            yield _Edit(start, end, _separator(start, text).join(written[start]) + sign)
            if comma:
                yield _Edit(comma.start, comma.end)
        elif comma and not text[end : comma.start].strip():
            yield _whole_line(start, comma.end, text)
        else:
            yield _whole_line(start, end, text)
            if comma:
                yield _Edit(comma.start, comma.end)


def _pair(option: ast.Option, old: ast.Option | None, value_read: str | None) -> str:
    """The option as Flink writes it; what is as it was and in single quotes stays to the letter."""
    key, value = option.span.text, option.value_span.text
    if option == old and key[:1] == "'" and value[-1:] == "'":
        return option.span.to(option.value_span).text
    if option.value == value_read and value[:1] == '"':
        value = _quoted(value[1:-1].replace('""', '"'))
    elif option.value != value_read or value[-1:] != "'":
        value = _quoted(option.value)
    return f"{_quoted(option.key)} = {value}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _separator(start: int, text: str) -> str:
    """A comma, and the line break and indentation that the option before it has."""
    line = text.rfind("\n", 0, start) + 1
    indent = text[line:start]
    return ", " if indent.strip() else f",\n{indent}"


def _comma_behind(option: ast.Option, tokens: list[Token]) -> Token | None:
    behind = next(token for token in tokens if token.start >= option.value_span.end)
    return behind if behind.key == "," else None


def _whole_line(start: int, end: int, text: str) -> _Edit:
    """Take out these characters and the spaces beside them, or their line if nothing else stands on it."""
    line = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", end)
    if line_end < 0:
        line_end = len(text)
    before, behind = text[line:start], text[end:line_end]
    if behind.strip():
        return _Edit(start, end + len(behind) - len(behind.lstrip()))
    if before.strip():
        return _Edit(line + len(before.rstrip()), end)
    return _Edit(line, min(line_end + 1, len(text)))

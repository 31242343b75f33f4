"""A script → the same script in canonical layout. In: the text of a script. Out: its text, formatted.

Law: white space, the case of keywords and the semicolon behind the last statement are all that changes. Tokens keep
their order and spelling, `${NAME}` stays as it is written, and every comment stays where it was: on lines of its own
before a token, right before it, or behind it up to the end of the line. Formatting what is formatted changes nothing.
A script with mistakes is not formatted.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tidemill.errors import ScriptError, Source, Span, script_error
from tidemill.sql import ast
from tidemill.sql.dialects import FLINK, Dialect
from tidemill.sql.layout import Piece, lay_out, starts_operand
from tidemill.sql.lexer import Token, tokenize
from tidemill.sql.parser import parse_script

_COMMENT = re.compile(r"--[^\r\n]*|//[^\r\n]*|/\*.*?\*/|\n", re.DOTALL)
_COMMENT_START = re.compile(r"--|//|/\*")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_.-]*)\}")

# What a variable without a value may stand for; the first that makes the script parse is taken.
_STAND_INS = ("a", "9", "'a'", "INT")

# Keywords that open a parenthesis like a function does, without a space. A name before one is known from the tree.
_CALLED_WORDS_TEXT = """
CAST TRY_CAST ROW TABLE DESCRIPTOR PERMUTE CHAR CHARACTER VARCHAR VARYING BINARY VARBINARY DECIMAL DEC
NUMERIC TIME TIMESTAMP TIMESTAMP_LTZ YEAR QUARTER MONTH WEEK DAY HOUR MINUTE SECOND
"""
_CALLED_WORDS = frozenset(_CALLED_WORDS_TEXT.split())
_NEVER_BEFORE = frozenset({")", "]", ",", ";", ".", "[", ":"})
_NEVER_BEHIND = frozenset({"(", "[", "."})
_TYPES_WITH_TYPES = frozenset({"ROW", "ARRAY", "MAP", "MULTISET"})


def format_script(
    source: Source, variables: Mapping[str, str] | None = None, dialect: Dialect = FLINK
) -> str:
    """Variables without a value may stay without: what they stand for is found out from their place."""
    script, filled = _parse(source, dict(variables or {}), dialect)
    formatted = _format(source, script, filled, dialect)
    _check(source, formatted, filled, dialect)
    # A comment in the middle of a line moves to its end, and then may no longer need the line breaks it needed before.
    before = source.text if _COMMENT_START.search(source.text) else formatted
    while formatted != before:
        before, again = formatted, Source(source.name, formatted)
        formatted = _format(again, parse_script(again, filled, dialect), filled, dialect)
    return _with_line_ends_of(source, formatted)


def _with_line_ends_of(source: Source, formatted: str) -> str:
    r"""\r\n where the script has no other line ends; those inside texts are part of the text and tell nothing."""
    everywhere = source.text.count("\n") == source.text.count("\r\n")
    tokens, _ = tokenize(source)
    starts, ends = [t.start for t in tokens], [0, *(t.end for t in tokens)]
    between = any("\n" in source.text[end:start] for end, start in zip(ends, starts, strict=False))
    if not (everywhere and between):
        return formatted
    return formatted.replace("\r\n", "\n").replace("\n", "\r\n")


def _format(
    source: Source, script: ast.Script, variables: Mapping[str, str], dialect: Dialect
) -> str:
    tokens = _whole_tokens(tokenize(source, variables, dialect)[0])
    return _Formatter(source, script, tokens).format()


def _parse(
    source: Source, variables: dict[str, str], dialect: Dialect
) -> tuple[ast.Script, dict[str, str]]:
    """The tree, and the variables with values that give it one. Where a mistake touches a variable that has no value
    of its own, the variable may stand for something else."""
    open_names = {name for name in _VARIABLE.findall(source.text) if name not in variables}
    tried = dict.fromkeys(open_names, 0)
    while True:
        filled = {**variables, **{name: _STAND_INS[i] for name, i in tried.items()}}
        try:
            return parse_script(source, filled, dialect), filled
        except ScriptError as error:
            at_fault = {
                name
                for problem in error.diagnostics
                if problem.span is not None
                for name in _variables_near(source, problem.span)
                if name in open_names
            }
            if not at_fault:
                raise
            for name in at_fault:
                tried[name] += 1
                if tried[name] == len(_STAND_INS):
                    raise _undefined(source, name) from None


def _variables_near(source: Source, span: Span) -> Iterator[str]:
    """Variables at a mistake, or as the last thing before it."""
    for found in _VARIABLE.finditer(source.text):
        between = source.text[found.end() : span.start] if found.end() <= span.start else ""
        if (
            found.start() <= span.end
            and not between.strip()
            and span.start <= found.end() + len(between)
        ):
            yield found[1]


def _undefined(source: Source, name: str) -> ScriptError:
    place = source.text.index(f"${{{name}}}")
    return script_error(
        "SQL-006",
        f"variable '{name}' is not defined, and what it stands for cannot be guessed",
        Span(source, place, place + len(name) + 3),
        f"give it with --var {name}=VALUE; it stays a variable in the script",
    )


def _whole_tokens(tokens: list[Token]) -> list[Token]:
    """The value of a variable may be several tokens; in the script it is one, and a name like any other."""
    whole: list[Token] = []
    for token in tokens:
        if whole and token.start == whole[-1].start and token.kind != "end":
            whole[-1] = Token("name", "", "", token.start, token.end)
        else:
            whole.append(token)
    return whole


def _check(source: Source, formatted: str, variables: Mapping[str, str], dialect: Dialect) -> None:
    """A precaution: what has lost something is never written over a script."""

    def content(text: Source) -> tuple[list[tuple[str, str, str]], Counter[str]]:
        tokens = tokenize(text, variables, dialect)[0]
        said = [(t.kind, t.key, t.value.upper()) for t in tokens if t.key != ";"]
        whole = _whole_tokens(tokens)
        ends = [0, *(t.end for t in whole)]
        gaps = (text.text[end : t.start] for end, t in zip(ends, whole, strict=False))
        return said, Counter(c for gap in gaps for line in _comment_lines(gap) for c in line)

    if content(source) != content(Source(source.name, formatted)):
        raise RuntimeError(f"{source.name}: the formatted text would say something else")


# --- comments ----------------------------------------------------------------------------------


def _comment_lines(gap: str) -> list[list[str]]:
    """The comments between two tokens, line by line."""
    lines: list[list[str]] = [[]]
    for found in _COMMENT.finditer(gap):
        if found[0] == "\n":
            lines.append([])
        else:
            text = "\n".join(line.rstrip() for line in found[0].split("\n"))
            lines[-1].append(text)
    return lines


@dataclass
class _Surroundings:
    """What stands between two tokens."""

    behind: tuple[str, ...]
    """Comments on the first token's line."""
    above: tuple[str, ...]
    inline: tuple[str, ...]
    """Comments on the second token's line."""
    blank: tuple[bool, ...]
    """For each comment above, and then for the second token: whether an empty line stands before it."""


def _surroundings(gap: str, first: bool, last: bool) -> _Surroundings:
    lines = _comment_lines(gap)
    behind = [] if first or (len(lines) == 1 and not last) else lines.pop(0)
    inline = [] if last or not lines else lines.pop()
    above: list[str] = []
    blank: list[bool] = []
    was_empty = False
    for line in lines:
        for comment in line:
            above.append(comment)
            blank.append(was_empty)
            was_empty = False
        was_empty = was_empty or not line
    return _Surroundings(tuple(behind), tuple(above), tuple(inline), (*blank, was_empty))


# --- the script --------------------------------------------------------------------------------


class _Formatter:
    def __init__(self, source: Source, script: ast.Script, tokens: list[Token]) -> None:
        self.text = source.text
        self.script = script
        self.tokens = tokens
        self.names: set[int] = set()
        """Where words stand that are names, and so keep their case."""
        self.calls: set[int] = set()
        """Where the names of functions end."""
        self.types: set[int] = set()
        """Where the tokens of types stand."""
        self.options: set[int] = set()
        """Where the keys of options stand, which may be bare words."""
        self.hints: set[int] = set()
        """Which tokens stand in hints."""
        self.starts = [token.start for token in tokens]
        for statement in script.statements:
            self._collect(statement)

    def _collect(self, statement: ast.Statement) -> None:
        """What only the tree knows about the words."""
        for node in ast.walk(statement):
            match node:
                # The argument `ON EMPTY` of JSON_VALUE stands for DEFAULT, which is no name.
                case ast.Identifier() if " " not in node.name:
                    self.names.add(node.span.start)
                case ast.FunctionCall() if node.form != "OVERLAPS":
                    self.calls.add(node.name.span.end)
                case ast.Cast() | ast.PhysicalColumn() | ast.MetadataColumn():
                    self.types.update(self._tokens_in(node.type_span))
                case ast.Option():
                    self.options.update(self._tokens_in(node.span))

    def format(self) -> str:
        between = self._between()
        pieces = self._pieces(between)
        lines: list[str] = []

        def add_comments(comments: _Surroundings) -> None:
            for comment, blank in zip((*comments.above, None), comments.blank, strict=True):
                if blank and lines:
                    lines.append("")
                if comment is not None:
                    lines.append(comment)

        for statement in self._statements():
            add_comments(between[statement[0]])
            first, *others = (pieces[i] for i in statement)
            if first.key == ";":  # a statement of nothing: only its comments are of use
                lines += [*first.inline, *first.behind]
                continue
            if pieces[statement[-1]].key != ";":
                others.append(Piece(";", ";", spaced=False))
            lines.append(lay_out([replace(first, above=()), *others]))
        add_comments(between[-1])
        while lines and not lines[-1]:
            lines.pop()
        return "\n".join([*lines, ""]) if lines else ""

    def _between(self) -> list[_Surroundings]:
        """What stands before each token; the last is the end."""
        found: list[_Surroundings] = []
        end = 0
        for i, token in enumerate(self.tokens):
            gap = self.text[end : token.start]
            found.append(_surroundings(gap, first=i == 0, last=token.kind == "end"))
            end = token.end
        return found

    def _statements(self) -> Iterator[list[int]]:
        """The tokens of each statement, its semicolon included. Those inside a statement set end nothing."""
        ends = iter([*(s.span.end for s in self.script.statements), len(self.text)])
        end = next(ends)
        statement: list[int] = []
        for i, token in enumerate(self.tokens[:-1]):
            statement.append(i)
            if token.key == ";" and (len(statement) == 1 or token.start >= end):
                if len(statement) > 1:
                    end = next(ends)
                yield statement
                statement = []
        if statement:
            yield statement

    def _pieces(self, between: list[_Surroundings]) -> list[Piece]:
        keys = self._keys()
        spaced = self._spaces(keys)
        return [
            Piece(
                keys[i] if token.kind == "word" and keys[i] else self.text[token.start : token.end],
                keys[i],
                spaced[i],
                between[i].above,
                between[i].inline,
                between[i + 1].behind,
                any(between[i].blank),
            )
            for i, token in enumerate(self.tokens[:-1])
        ]

    def _tokens_in(self, span: Span) -> list[int]:
        first, last = (bisect_left(self.starts, at) for at in (span.start, span.end))
        return self.starts[first:last]

    def _keys(self) -> list[str]:
        """For each token the keyword or sign that it is, or nothing for names and literals."""
        keys: list[str] = []
        brackets: list[str] = []
        for i, token in enumerate(self.tokens[:-1]):
            key, before = token.key, keys[-1] if keys else ""
            inside = brackets[-1] if brackets else ""
            if inside == "hint":
                self.hints.add(i)
            if token.kind == "word" and (
                token.start in self.names
                or token.start in self.options
                or (inside == "fields" and before in ("<", "(", ","))
                or (inside == "hint" and brackets[-2:] == ["hint", "hint"])
                or before == "CONSTRAINT"
                or _is_skip_target(keys, key)
            ):
                key = ""
            match key:
                case "/*+":
                    brackets.append("hint")
                case "(" | "[" | "<" if key != "<" or before in _TYPES_WITH_TYPES:
                    named = before == "ROW" and (key == "<" or token.start in self.types)
                    plain = "type" if key == "<" else ""
                    brackets.append("fields" if named else "hint" if inside == "hint" else plain)
                case ")" | "]" | "*/" if brackets:
                    brackets.pop()
                case ">" if inside in ("fields", "type"):
                    brackets.pop()
            keys.append(key)
        return keys

    def _spaces(self, keys: list[str]) -> list[bool]:
        """For each token whether a space stands before it on a line."""
        spaced: list[bool] = []
        types = 0  # how many < of types are open
        pattern = 0  # how many parentheses of a row pattern are open
        counting = False  # inside the braces of {2,5}
        signed = False  # whether the token before is the sign of an operand
        for i, token in enumerate(self.tokens[:-1]):
            last = self.tokens[i - 1] if i else None
            key, before = keys[i], keys[i - 1] if i else "("
            space = key not in _NEVER_BEFORE and before not in _NEVER_BEHIND
            if key in ("<", "<>") and before in _TYPES_WITH_TYPES:
                space, types = False, types + (key == "<")
            elif key == ">" and types:
                space, types = False, types - 1
            elif (before == "<" and not spaced[-1]) or (signed and key not in ("+", "-")):
                space = False
            elif last is not None and token.start in self.options and last.start in self.options:
                space = last.end < token.start
            elif last is not None and key == "(":
                # DISTRIBUTED BY RANGE(k), but a window's RANGE (1 + 1) PRECEDING.
                called = before in _CALLED_WORDS or keys[i - 2 : i] in (
                    ["BY", "HASH"],
                    ["BY", "RANGE"],
                )
                called = called or last.end in self.calls or i in self.hints
                space = space and not called
            if pattern:
                if key == "{" and self.tokens[i + 1].key != "-":
                    space, counting = False, True
                elif counting or before == "{" or key in ("*", "+", "?", "}"):
                    space, counting = False, counting and key != "}"
                pattern += (key == "(") - (key == ")")
            elif key == "(" and before == "PATTERN":
                pattern = 1
            signed = (
                key in ("+", "-")
                and not pattern
                and not (before == ">" and not spaced[-1])
                and starts_operand(before, last is None or last.kind == "sign")
            )
            spaced.append(space)
        return spaced


def _is_skip_target(keys: list[str], key: str) -> bool:
    """AFTER MATCH SKIP TO a, TO FIRST a, TO LAST a: the variable is a name."""
    if keys[-2:] == ["SKIP", "TO"]:
        return key not in ("FIRST", "LAST", "NEXT")
    return keys[-3:] in (["SKIP", "TO", "FIRST"], ["SKIP", "TO", "LAST"])

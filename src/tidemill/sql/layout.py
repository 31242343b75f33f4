"""Tokens of one statement → lines. In: pieces, each a token's text with its comments. Out: the same pieces, in lines.

Law: layout decides about white space and about nothing else. Every piece and every comment comes out once, pieces in
their order; what fits on a line and holds no comment stays on one, except for the columns and options of a table.

The pieces are nested by their brackets, each level is cut at the words that start a clause, and what comes of it is a
document of texts and possible line breaks, of which the renderer breaks those groups that do not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tidemill.errors import Source, display_width
from tidemill.sql.lexer import Token

WIDTH = 100
_INDENT = 2


@dataclass(frozen=True, slots=True)
class Piece:
    """A token as it will be written, and the comments that go with it."""

    text: str
    key: str = ""
    """The keyword in upper case, or the sign; empty for names and literals."""
    spaced: bool = True
    """Whether a space stands between it and the piece before, if both are on one line."""
    above: tuple[str, ...] = ()
    """Comments on lines of their own before it."""
    inline: tuple[str, ...] = ()
    """Comments right before it, on its line."""
    behind: tuple[str, ...] = ()
    """Comments behind it, up to the end of the line."""
    gap: bool = False
    """Whether an empty line stands before it and its comments; kept where a statement, column or option begins."""


def pieces_of(source: Source, tokens: Sequence[Token]) -> list[Piece]:
    """The pieces of a text that has no comments and is spaced as it should be."""
    text = source.text
    return [
        Piece(text[t.start : t.end], t.key, t.start > 0 and text[t.start - 1] == " ")
        for t in tokens
        if t.kind != "end"
    ]


def lay_out(pieces: Sequence[Piece], width: int = WIDTH) -> str:
    """One statement, with or without its semicolon."""
    return _render(_statement(_nest(pieces)), width)


# --- documents: texts and possible line breaks ---------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Line:
    """A line break, or `flat` where its group stays on one line."""

    flat: str | None


@dataclass(frozen=True, slots=True)
class _Indented:
    body: _Doc


@dataclass(frozen=True, slots=True)
class _Group:
    """All of its breaks are taken, or none."""

    body: _Doc
    broken: bool


@dataclass(frozen=True, slots=True)
class _Behind:
    """A comment that ends its line: it waits until the line ends."""

    text: str


@dataclass(frozen=True, slots=True)
class _Above:
    """A comment that has its line for itself."""

    text: str


_Doc: TypeAlias = "str | list[_Doc] | _Line | _Indented | _Group | _Behind | _Above"

_SPACE = _Line(" ")
_NOTHING = _Line("")
_BREAK = _Line(None)


def _group(*parts: _Doc) -> _Doc:
    """A group of the parts. Comments at its edges stand outside of it, so that they do not break it."""
    before, body, behind = _edges(parts)
    return [*before, _Group(body, any(map(_must_break, body))), *behind]


def _indented(*parts: _Doc) -> _Doc:
    before, body, behind = _edges(parts)
    return [_Indented([*before, *body]), *behind]


def _edges(parts: Iterable[_Doc]) -> tuple[list[_Doc], list[_Doc], list[_Doc]]:
    """The parts, apart from comments above the first of them and behind the last."""
    body = list(_flat_parts(parts))
    start, end = 0, len(body)
    while start < end and isinstance(body[start], _Above):
        start += 1
    while end > start and isinstance(body[end - 1], _Behind):
        end -= 1
    return body[:start], body[start:end], body[end:]


def _flat_parts(parts: Iterable[_Doc]) -> Iterator[_Doc]:
    for part in parts:
        if isinstance(part, list):
            yield from _flat_parts(part)
        else:
            yield part


def _must_break(doc: _Doc) -> bool:
    match doc:
        case str():
            return False
        case list():
            return any(map(_must_break, doc))
        case _Indented():
            return _must_break(doc.body)
        case _Group():
            return doc.broken
        case _Line():
            return doc.flat is None
    return True


def _width(text: str) -> int:
    return len(text) if text.isascii() else display_width(text)


class _Page:
    """The lines written so far."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.indent = self.column = 0
        self.is_fresh = True
        self.waiting: list[str] = []

    def write(self, text: str) -> None:
        if self.is_fresh:
            if text in ("", " "):
                return
            self.parts.append(" " * self.indent)
            self.is_fresh = False
        self.parts.append(text)
        *lines, last = text.split("\n")
        self.column = _width(last) + (0 if lines else self.column)

    def end_line(self, indent: int) -> None:
        self.finish()
        self.parts.append("\n")
        self.indent = self.column = indent
        self.is_fresh = True

    def finish(self) -> None:
        """The end of a line: no space stays there, and the comments that waited for it come."""
        while self.parts and self.parts[-1] == " ":
            self.parts.pop()
        start = " "
        for comment in self.waiting:
            self.parts.append(start + comment)
            # Nothing goes on behind a comment that ends with its line.
            start = " " if comment.startswith("/*") else "\n" + " " * self.indent
        self.waiting.clear()


def _render(doc: _Doc, width: int) -> str:
    page = _Page()
    stack: list[tuple[int, bool, _Doc]] = [(0, False, doc)]
    while stack:
        indent, flat, doc = stack.pop()
        match doc:
            case str():
                page.write(doc)
            case list():
                stack.extend((indent, flat, part) for part in reversed(doc))
            case _Indented():
                stack.append((indent + _INDENT, flat, doc.body))
            case _Group():
                fits = not doc.broken and (flat or _fits(doc, width - page.column, stack))
                stack.append((indent, fits, doc.body))
            case _Line():
                if flat and doc.flat is not None:
                    page.write(doc.flat)
                else:
                    page.end_line(indent)
            case _Behind():
                page.waiting.append(doc.text)
            case _Above():
                if not page.is_fresh or page.waiting:
                    page.end_line(indent)
                page.write(doc.text)
                page.end_line(indent)
    page.finish()
    return "".join(page.parts)


def _fits(group: _Group, room: int, behind: Sequence[tuple[int, bool, _Doc]]) -> bool:
    """Whether a group on one line, and what follows it up to the next possible break, leaves the line its width."""
    at = len(behind)
    stack: list[tuple[bool, _Doc]] = [(True, group.body)]
    while room >= 0:
        if not stack:
            if at == 0:
                return True
            at -= 1
            _, flat, doc = behind[at]
        else:
            flat, doc = stack.pop()
        match doc:
            case str():
                room -= _width(doc.partition("\n")[0])
                if "\n" in doc:
                    return room >= 0
            case list():
                stack.extend((flat, part) for part in reversed(doc))
            case _Indented():
                stack.append((flat, doc.body))
            case _Group():
                stack.append((flat and not doc.broken, doc.body))
            case _Line():
                if not flat or doc.flat is None:
                    return True
                room -= len(doc.flat)
    return False


# --- brackets ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Bracket:
    """What stands between two brackets, or between CASE and END."""

    opening: Piece
    items: list[_Item]
    closing: Piece


_Item: TypeAlias = Piece | _Bracket

_CLOSINGS = {"(": ")", "[": "]", "/*+": "*/", "CASE": "END", "<": ">"}


def _nest(pieces: Sequence[Piece]) -> list[_Item]:
    outer: list[tuple[Piece, list[_Item]]] = []
    items: list[_Item] = []
    for piece in pieces:
        if outer and piece.key == _CLOSINGS[outer[-1][0].key]:
            opening, before = outer.pop()
            before.append(_Bracket(opening, items, piece))
            items = before
        elif piece.key in _CLOSINGS and (piece.key != "<" or not piece.spaced):
            outer.append((piece, items))
            items = []
        else:
            items.append(piece)
    while outer:  # a sign that opened nothing after all
        opening, before = outer.pop()
        items = [*before, opening, *items]
    return items


def _key(items: Sequence[_Item], at: int) -> str:
    """The word or sign at a place; empty for names, literals and brackets, and behind the end."""
    if not 0 <= at < len(items):
        return ""
    item = items[at]
    return item.key if isinstance(item, Piece) else ""


def _cut(items: list[_Item], starts: Sequence[int]) -> Iterator[list[_Item]]:
    """The parts that begin at the given places."""
    for i, start in enumerate(starts):
        yield items[start : starts[i + 1] if i + 1 < len(starts) else len(items)]


def _first(items: Sequence[_Item]) -> Piece:
    item = items[0]
    return item if isinstance(item, Piece) else item.opening


def _bracket_at(items: Sequence[_Item], at: int) -> _Bracket | None:
    if not 0 <= at < len(items):
        return None
    item = items[at]
    return item if isinstance(item, _Bracket) else None


# --- statements --------------------------------------------------------------------------------


def _statement(items: list[_Item]) -> _Doc:
    if _key(items, len(items) - 1) == ";":
        return [_statement(items[:-1]), _piece(_first(items[-1:]))]
    if _find(items, "BEGIN") < len(items):
        return _statement_set(items)
    match _key(items, 0):
        case "EXPLAIN":
            at = min(_find(items, "INSERT", "CREATE"), _find_query(items))
            return _group(_sequence(items[:at]), _SPACE, _statement(items[at:]))
        case "CREATE" if _key(items, 2 if _key(items, 1) == "TEMPORARY" else 1) in _WITH_OPTIONS:
            return _create_table(items)
        case "CREATE" | "ALTER" | "INSERT":
            at = _find_query(items)
            if at < len(items):
                return _group(_sequence(items[:at]), _SPACE, _query(items[at:]))
    if items and _starts_query(items, 0):
        return _query(items)
    return _group(_expression(items))


def _find(items: Sequence[_Item], *keys: str, start: int = 0) -> int:
    """Where the first of some words or signs stands; behind the end if none does."""
    return next((i for i in range(start, len(items)) if _key(items, i) in keys), len(items))


def _find_query(items: Sequence[_Item]) -> int:
    return next((i for i in range(len(items)) if _starts_query(items, i)), len(items))


def _starts_query(items: Sequence[_Item], at: int) -> bool:
    if _key(items, at) in ("SELECT", "VALUES") or _at_with(items, at):
        return True
    bracket = _bracket_at(items, at)
    return bracket is not None and _is_query(bracket.items)


def _at_with(items: Sequence[_Item], at: int) -> bool:
    """WITH of a query: a name follows, where options or ORDINALITY would stand otherwise."""
    return (
        _key(items, at) == "WITH"
        and isinstance(items[at + 1] if at + 1 < len(items) else None, Piece)
        and not _is_ordinality(items, at + 1)
    )


def _is_ordinality(items: Sequence[_Item], at: int) -> bool:
    """The clause, and not a common table of that name, which a bracket follows."""
    behind = at + 2 if _key(items, at + 1) == "AS" else at + 1
    return _key(items, at) == "ORDINALITY" and _bracket_at(items, behind) is None


def _is_query(items: Sequence[_Item]) -> bool:
    if not items or _bracket_at(items, 0) is None:
        return bool(items) and _starts_query(items, 0)
    return _starts_query(items, 0) and (
        len(items) == 1
        or _key(items, 1) in ("UNION", "INTERSECT", "EXCEPT", "ORDER", "LIMIT", "OFFSET")
    )


def _statement_set(items: list[_Item]) -> _Doc:
    """The words that open it on lines of their own, then the statements, then END."""
    begin = _find(items, "BEGIN")
    if begin == 0:  # BEGIN STATEMENT SET; … END
        start = _find(items, ";") + 1
        head: _Doc = _sequence(items[:start])
    else:
        start = begin + 1
        head = [_sequence(items[:begin]), _BREAK, _piece(_first(items[begin:start]))]
    end = len(items) - 1
    statements: list[_Doc] = []
    while start < end:
        stop = min(_find(items, ";", start=start) + 1, end)
        if statements and _first(items[start:]).gap:
            statements.append(_BREAK)
        statements += [_BREAK, _statement(items[start:stop])]
        start = stop
    return [head, _indented(*statements), _BREAK, _sequence(items[end:])]


_WITH_OPTIONS = frozenset({"TABLE", "CATALOG", "DATABASE"})
_TABLE_CLAUSES = frozenset({"COMMENT", "WITH", "LIKE", "AS"})


def _create_table(items: list[_Item]) -> _Doc:
    """One column a line, one option a line; clauses start lines, but for WITH behind the columns."""
    # All the words may stand in the query behind AS as well.
    end = min(_find(items, "AS") + 1, len(items))
    starts = [i for i in range(end) if _starts_table_clause(items, i)]
    head = items[: starts[0] if starts else len(items)]
    columns = _bracket_at(head, len(head) - 1)
    if columns is not None:
        doc: list[_Doc] = [_sequence(head[:-1]), " ", _lines_of(columns, _column)]
    else:
        doc = [_sequence(head)]
    behind_columns = columns is not None
    for clause in _cut(items, starts):
        tight = behind_columns and _key(clause, 0) == "WITH" and not _first(clause).above
        doc += [" " if tight else _BREAK, _table_clause(clause)]
        behind_columns = False
    return doc


def _starts_table_clause(items: Sequence[_Item], at: int) -> bool:
    key = _key(items, at)
    if key in ("DISTRIBUTED", "PARTITIONED"):  # which may be names
        return _key(items, at + 1) in ("BY", "INTO")
    return key in _TABLE_CLAUSES


def _table_clause(items: list[_Item]) -> _Doc:
    match _key(items, 0), _bracket_at(items, len(items) - 1):
        case "WITH", _Bracket() as options:
            several = _find(options.items, ",") < len(options.items)
            body = _lines_of(options, _sequence) if several else _bracket(options, "")
            return [_sequence(items[:-1]), " ", body]
        case "AS", _:
            return _group(_sequence(items[:1]), _SPACE, _query(items[1:]))
    return _group(_expression(items))


def _lines_of(bracket: _Bracket, entry: Callable[[list[_Item]], _Doc]) -> _Doc:
    entries: list[_Doc] = []
    for items, comma in _split(bracket.items, ","):
        if entries and _first(items).gap:
            entries.append(_BREAK)
        entries += [_BREAK, entry(items), *([_piece(comma)] if comma else [])]
    return _enclosed(bracket, _indented(*entries), _BREAK)


def _column(items: list[_Item]) -> _Doc:
    """A column's definition; a long comment goes to a line of its own."""
    at = _find(items, "COMMENT", start=1)
    if at == len(items):
        return _group(_expression(items))
    return _group(_expression(items[:at]), _indented(_SPACE, _sequence(items[at:])))


# --- queries -----------------------------------------------------------------------------------

_JOIN_WORDS = frozenset(
    {"NATURAL", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "OUTER", "SEMI", "ANTI"}
)
_SET_WORDS = frozenset({"UNION", "INTERSECT", "EXCEPT", "MINUS"})
_CLAUSE_WORDS = frozenset(
    {"SELECT", "WHERE", "HAVING", "WINDOW", "QUALIFY", "LIMIT", "OFFSET", "FETCH", "VALUES"}
)
_CONDITIONS = frozenset({"WHERE", "HAVING", "QUALIFY"})
_LISTS = frozenset(
    {"SELECT", "VALUES", "GROUP", "ORDER", "PARTITION", "WINDOW", "MEASURES", "DEFINE", "SUBSET"}
)


def _query(items: list[_Item]) -> _Doc:
    """The clauses, each on its own line unless all fit on one."""
    starts = [i for i in range(len(items)) if i == 0 or _starts_clause(items, i)]
    docs: list[_Doc] = []
    for clause in _cut(items, starts):
        docs += [_SPACE, _clause(clause)]
    return _group(*docs[1:])


def _starts_clause(items: Sequence[_Item], at: int) -> bool:
    key, before, following = _key(items, at), _key(items, at - 1), _key(items, at + 1)
    if key in _CLAUSE_WORDS or key in _SET_WORDS:
        return True
    if before in _SET_WORDS or (
        before in ("ALL", "DISTINCT") and _key(items, at - 2) in _SET_WORDS
    ):
        return key not in ("ALL", "DISTINCT")
    match key:
        case "FROM":  # but not that of IS DISTINCT FROM
            return before != "DISTINCT"
        case "GROUP":
            return following == "BY" and before != "WITHIN"
        case "ORDER":
            return following == "BY"
        case "ON":
            return following == "CONFLICT"
    return _join_end(items, at) > at and before not in _JOIN_WORDS


def _join_end(items: Sequence[_Item], at: int) -> int:
    """Where the words end that announce a join: behind JOIN, or at the place itself if there is none."""
    end = at
    while _key(items, end) in _JOIN_WORDS:
        end += 1
    return end + 1 if _key(items, end) == "JOIN" else at


def _clause(items: list[_Item]) -> _Doc:
    key = _key(items, 0)
    if _at_with(items, 0):
        return _common_tables(items)
    if key in _LISTS:
        return _list_clause(items)
    if key in _CONDITIONS:
        return _group(_sequence(items[:1]), " ", _expression(items[1:]))
    if key == "FROM":
        return _group(_sequence(items[:1]), " ", _relations(items[1:]))
    if end := _join_end(items, 0):
        return _join(items, end)
    bracket = _bracket_at(items, 0)
    if bracket is not None and len(items) == 1:
        return _bracket(bracket, "")
    return _group(_expression(items))


def _common_tables(items: list[_Item]) -> _Doc:
    docs: list[_Doc] = [_sequence(items[:1]), " "]
    for table, comma in _split(items[1:], ","):
        docs += [_sequence(table), *([_piece(comma), _SPACE] if comma else [])]
    return docs


def _list_clause(items: list[_Item]) -> _Doc:
    """SELECT, GROUP BY and their kin: the entries behind the words, or each on its own line below."""
    at = 1
    while _key(items, at) in ("BY", "DISTINCT", "ALL") or (
        (hint := _bracket_at(items, at)) is not None and hint.opening.key == "/*+"
    ):
        at += 1
    entries = list(_split(items[at:], ","))
    body: list[_Doc] = []
    for entry, comma in entries:
        body += [_SPACE, _entry(entry), *([_piece(comma)] if comma else [])]
    if len(entries) == 1 and not _first(entries[0][0]).above:
        return _group(_sequence(items[:at]), " ", *body[1:])
    return _group(_sequence(items[:at]), _indented(*body))


def _relations(items: list[_Item]) -> _Doc:
    docs: list[_Doc] = []
    for relation, comma in _split(items, ","):
        docs += [_sequence(relation), *([_piece(comma), _SPACE] if comma else [])]
    return _indented(*docs) if len(docs) > 1 else docs


def _join(items: list[_Item], words: int) -> _Doc:
    on = _find(items, "ON")
    relation: list[_Doc] = [_sequence(items[:words]), " ", _sequence(items[words:on])]
    if on == len(items):
        return _group(*relation)
    condition = [_sequence(items[on : on + 1]), " ", _expression(items[on + 1 :])]
    return _group(*relation, _indented(_SPACE, *condition))


# --- expressions -------------------------------------------------------------------------------

_OPERATORS = (frozenset({"OR"}), frozenset({"AND"}), frozenset({"+", "-", "||"}))

# Behind one of these an operand starts, so that a sign belongs to it.
_BEFORE_OPERAND_WORDS = """
SELECT WHERE AND OR NOT ON HAVING QUALIFY WHEN THEN ELSE CASE BETWEEN SYMMETRIC ASYMMETRIC LIKE IN BY AS DISTINCT ALL
FROM FOR OF INTERVAL LIMIT OFFSET VALUE VALUES TO ESCAPE PLACING KEY DEFAULT ROWS RANGE IS RETURNING RUNNING FINAL
"""
_BEFORE_OPERAND = frozenset(_BEFORE_OPERAND_WORDS.split())


def starts_operand(key: str, is_sign: bool) -> bool:
    """Whether an operand, and not an operator, comes behind this word or sign, which does not close a type."""
    return is_sign and key not in (")", "]") or key in _BEFORE_OPERAND


def _entry(items: list[_Item]) -> _Doc:
    return _group(_expression(items))


def _expression(items: list[_Item], level: int = 0) -> _Doc:
    """Operands with breaks before the operators that bind loosest."""
    while level < len(_OPERATORS):
        parts = list(_operands(items, _OPERATORS[level]))
        level += 1
        if len(parts) > 1:
            first, *others = (_expression(part, level) for part in parts)
            return _group(first, _indented(*(d for other in others for d in (_SPACE, other))))
    return _sequence(items)


def _operands(items: list[_Item], operators: frozenset[str]) -> Iterator[list[_Item]]:
    """The items cut before each of the operators; AND of BETWEEN and signs of operands are none."""
    start = betweens = 0
    for at in range(len(items)):
        key = _key(items, at)
        if key == "BETWEEN":
            betweens += 1
        elif key == "AND" and betweens:
            betweens -= 1
        elif key in operators and at > start and not _is_sign_of_operand(items, at):
            yield items[start:at]
            start = at
    yield items[start:]


def _is_sign_of_operand(items: Sequence[_Item], at: int) -> bool:
    if _key(items, at) not in ("+", "-"):
        return False
    before = items[at - 1]
    if isinstance(before, _Bracket):
        return before.opening.key == "/*+"
    return starts_operand(before.key, bool(before.key) and not before.key[0].isalpha())


def _sequence(items: Sequence[_Item]) -> list[_Doc]:
    """Items one behind the other, broken only inside their brackets."""
    docs: list[_Doc] = []
    before: _Item | None = None
    for item in items:
        first = _first([item])
        if before is not None:
            docs.append(_between(before, first))
        if isinstance(item, Piece):
            docs.append(_piece(item))
        else:
            docs.append(_bracket(item, before.key if isinstance(before, Piece) else ""))
        before = item
    return docs


def _between(before: _Item, piece: Piece) -> _Doc:
    if isinstance(before, Piece) and before.text.endswith("'") and piece.text.endswith("'"):
        return _BREAK  # a text goes on in a second pair of quotes only on a further line
    return " " if piece.spaced else ""


def _piece(piece: Piece) -> _Doc:
    if not piece.above and not piece.inline and not piece.behind:
        return piece.text
    docs: list[_Doc] = [_Above(comment) for comment in piece.above]
    closes = piece.key in (")", "]", ",", ";", ".")
    for comment in piece.inline:
        docs += [" ", comment] if closes else [comment, " "]
    return [*docs, piece.text, *(_Behind(comment) for comment in piece.behind)]


def _split(items: Sequence[_Item], sign: str) -> Iterator[tuple[list[_Item], Piece | None]]:
    """The entries of a list, each with the comma behind it."""
    entry: list[_Item] = []
    for item in items:
        if isinstance(item, Piece) and item.key == sign:
            yield entry, item
            entry = []
        else:
            entry.append(item)
    if entry:
        yield entry, None


# --- what stands in brackets ---

_WINDOW_CLAUSES = frozenset({"PARTITION", "ORDER", "ROWS", "RANGE"})
_MATCH_CLAUSES = frozenset(
    {"MEASURES", "ONE", "ALL", "AFTER", "PATTERN", "WITHIN", "SUBSET", "DEFINE"}
)
_LIKE_OPTIONS = frozenset({"INCLUDING", "EXCLUDING", "OVERWRITING"})
_LIKE_PARTS = frozenset(
    [
        "ALL",
        "CONSTRAINTS",
        "DISTRIBUTION",
        "GENERATED",
        "METADATA",
        "OPTIONS",
        "PARTITIONS",
        "WATERMARKS",
    ]
)


def _bracket(bracket: _Bracket, before: str) -> _Doc:
    items = bracket.items
    match bracket.opening.key:
        case "CASE":
            return _case(bracket)
        case "/*+":
            return _group(_enclosed(bracket, _indented(_SPACE, _entries(items)), _SPACE))
    if not items:
        return _enclosed(bracket, [], "")
    if _is_query(items):
        body: _Doc = _query(items)
    elif before == "MATCH_RECOGNIZE":
        return _enclosed(
            bracket, _indented(_BREAK, _clauses(items, _MATCH_CLAUSES, _BREAK)), _BREAK
        )
    elif before == "PATTERN":
        body = _sequence(items)
    elif before == "OVER" or _key(items, 0) in _WINDOW_CLAUSES:
        body = _clauses(items, frozenset(), _SPACE)
    elif _is_like_options(items):
        body = _clauses(items, _LIKE_OPTIONS, _SPACE)
    elif all(map(_is_size, items)):
        return _enclosed(bracket, _sequence(items), "")
    else:
        body = _entries(items)
    return _group(_enclosed(bracket, _indented(_NOTHING, body), _NOTHING))


def _is_like_options(items: list[_Item]) -> bool:
    """(INCLUDING ALL …), and not a window that is based on one of such a name, or a column that has one."""
    return _key(items, 0) in _LIKE_OPTIONS and _key(items, 1) in _LIKE_PARTS


def _is_size(item: _Item) -> bool:
    """DECIMAL(10, 2): too short to be worth a line break."""
    if not isinstance(item, Piece) or item.above or item.behind:
        return False
    return item.key == "," or item.text.isdigit()


def _enclosed(bracket: _Bracket, body: _Doc, end: _Doc) -> _Doc:
    """A body between its brackets. Comments above the closing one belong to the body's lines."""
    closing = bracket.closing
    last = [_Indented([_BREAK, comment]) for comment in closing.above]
    if last:
        end = _BREAK
    return [_piece(bracket.opening), body, *last, end, _piece(replace(closing, above=()))]


def _entries(items: list[_Item]) -> list[_Doc]:
    docs: list[_Doc] = []
    for entry, comma in _split(items, ","):
        docs += [_entry(entry), *([_piece(comma), _SPACE] if comma else [])]
    return docs


def _clauses(items: list[_Item], words: frozenset[str], end: _Doc) -> list[_Doc]:
    """A window, a row pattern or the options of LIKE: one clause after the other."""

    def starts(at: int) -> bool:
        key, following = _key(items, at), _key(items, at + 1)
        if key in ("PARTITION", "ORDER"):
            return following == "BY"
        if key == "AFTER":
            return following == "MATCH"
        if key in ("ONE", "ALL"):
            return following in ("ROW", "ROWS") and key in words
        return key in words or (key in ("ROWS", "RANGE") and not words)

    docs: list[_Doc] = []
    for clause in _cut(items, [i for i in range(len(items)) if i == 0 or starts(i)]):
        docs += [
            end,
            _list_clause(clause) if _key(clause, 0) in _LISTS else _group(_expression(clause)),
        ]
    return docs[1:]


def _case(bracket: _Bracket) -> _Doc:
    items = bracket.items
    starts = [i for i in range(len(items)) if _key(items, i) in ("WHEN", "ELSE")]
    docs: list[_Doc] = []
    head = items[: starts[0]] if starts else items
    for branch in _cut(items, starts):
        then = _find(branch, "THEN")
        parts: list[_Doc] = [_sequence(branch[:1]), " ", _expression(branch[1:then])]
        if then < len(branch):
            result = [_sequence(branch[then : then + 1]), " ", _expression(branch[then + 1 :])]
            parts.append(_indented(_SPACE, *result))
        docs += [_SPACE, _group(*parts)]
    operand: list[_Doc] = [" ", _expression(head)] if head else []
    return _group(_enclosed(bracket, [*operand, _indented(*docs)], _SPACE))

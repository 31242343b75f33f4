"""Bytes → text → tokens. In: a script file, or its text. Out: tokens that know where they stand.

Law: a token's place is that of the text as the user wrote it, also where a `${NAME}` was filled in: the value
takes the place of the braces, so that a caret never points into text that nobody sees.
Every mistake is collected and the reading goes on, so that one run reports them all.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from tidemill.errors import (
    Diagnostic,
    Source,
    Span,
    did_you_mean,
    script_error,
    usage_error,
)
from tidemill.sql.dialects import DLI, FLINK, Dialect

# --- the words ---------------------------------------------------------------------------------

# Reserved by every Flink from 1.13 to 2.2: as a name they need back quotes. Words that only later releases
# reserve (HASH, RESUME, DATETIME …) stay usable, because a script written for an older Flink uses them.
_RESERVED_WORDS = """
ABS ALL ALLOCATE ALLOW ALTER AND ANY ARE ARRAY ARRAY_MAX_CARDINALITY AS ASENSITIVE ASYMMETRIC AT
ATOMIC AUTHORIZATION AVG BEGIN BEGIN_FRAME BEGIN_PARTITION BETWEEN BIGINT BINARY BIT BLOB BOOLEAN
BOTH BY BYTES CALL CALLED CARDINALITY CASCADED CASE CAST CATALOGS CEIL CEILING CHAR CHARACTER
CHARACTER_LENGTH CHAR_LENGTH CHECK CLASSIFIER CLOB CLOSE COALESCE COLLATE COLLECT COLUMN COMMENT
COMMIT CONDITION CONNECT CONSTRAINT CONTAINS CONVERT CORR CORRESPONDING COUNT COVAR_POP COVAR_SAMP
CREATE CROSS CUBE CUME_DIST CURRENT CURRENT_CATALOG CURRENT_DATE CURRENT_DEFAULT_TRANSFORM_GROUP
CURRENT_PATH CURRENT_ROLE CURRENT_ROW CURRENT_SCHEMA CURRENT_TIME CURRENT_TIMESTAMP
CURRENT_TRANSFORM_GROUP_FOR_TYPE CURRENT_USER CURSOR CYCLE DATABASES DATE DAY DEALLOCATE DEC DECIMAL
DECLARE DEFAULT DEFINE DELETE DENSE_RANK DEREF DESCRIBE DETERMINISTIC DISALLOW DISCONNECT DISTINCT
DOUBLE DROP DYNAMIC EACH ELEMENT ELSE EMPTY END END_FRAME END_PARTITION EQUALS ESCAPE EVERY EXCEPT
EXEC EXECUTE EXISTS EXP EXPLAIN EXTEND EXTENDED EXTERNAL EXTRACT FALSE FETCH FILTER FIRST_VALUE
FLOAT FLOOR FOR FOREIGN FRAME_ROW FREE FROM FULL FUNCTION FUNCTIONS FUSION GET GLOBAL GRANT GROUP
GROUPING GROUPS HAVING HOLD HOUR IDENTITY IMPORT IN INDICATOR INITIAL INNER INOUT INSENSITIVE INSERT
INT INTEGER INTERSECT INTERSECTION INTERVAL INTO IS JOIN JSON_ARRAY JSON_ARRAYAGG JSON_EXISTS
JSON_OBJECT JSON_OBJECTAGG JSON_QUERY JSON_VALUE LAG LANGUAGE LARGE LAST_VALUE LATERAL LEAD LEADING
LEFT LIKE LIKE_REGEX LIMIT LN LOCAL LOCALTIME LOCALTIMESTAMP LOWER MATCH MATCHES MATCH_NUMBER
MATCH_RECOGNIZE MAX MEASURES MEMBER MERGE METHOD MIN MINUS MINUTE MOD MODIFIES MODULE MODULES MONTH
MULTISET NATIONAL NATURAL NCHAR NCLOB NEW NEXT NO NONE NORMALIZE NOT NTH_VALUE NTILE NULL
NULLIF NUMERIC OCCURRENCES_REGEX OCTET_LENGTH OF OFFSET OLD OMIT ON ONE ONLY OPEN OR ORDER OUT OUTER
OVER OVERLAPS OVERLAY PARAMETER PARTITION PATTERN PER PERCENT PERCENTILE_CONT PERCENTILE_DISC
PERCENT_RANK PERIOD PERMUTE PIVOT PORTION POSITION POSITION_REGEX POWER PRECEDES PRECISION PREPARE
PREV PRIMARY PROCEDURE RANGE RANK RAW READS REAL RECURSIVE REF REFERENCES REFERENCING REGR_AVGX
REGR_AVGY REGR_COUNT REGR_INTERCEPT REGR_R2 REGR_SLOPE REGR_SXX REGR_SXY REGR_SYY RELEASE RENAME
RESET RESULT RETURN RETURNS REVOKE RIGHT ROLLBACK ROLLUP ROW ROWS ROW_NUMBER RUNNING SAVEPOINT SCALA
SCOPE SCROLL SEARCH SECOND SEEK SELECT SENSITIVE SESSION_USER SET SHOW SIMILAR SKIP SMALLINT SOME
SPECIFIC SPECIFICTYPE SQL SQLEXCEPTION SQLSTATE SQLWARNING SQRT START STATIC STDDEV_POP STDDEV_SAMP
STREAM STRING SUBMULTISET SUBSET SUBSTRING SUBSTRING_REGEX SUCCEEDS SUM SYMMETRIC SYSTEM SYSTEM_TIME
SYSTEM_USER TABLE TABLES TABLESAMPLE THEN TIME TIMESTAMP TIMESTAMP_LTZ TIMEZONE_HOUR TIMEZONE_MINUTE
TINYINT TO TRAILING TRANSLATE TRANSLATE_REGEX TRANSLATION TREAT TRIGGER TRIM TRIM_ARRAY TRUE
TRUNCATE UESCAPE UNION UNIQUE UNKNOWN UNNEST UPDATE UPPER UPSERT USE USER USING VALUE VALUES
VALUE_OF VARBINARY VARCHAR VARYING VAR_POP VAR_SAMP VERSIONING VIEWS WATERMARK WATERMARKS WHEN
WHENEVER WHERE WIDTH_BUCKET WINDOW WITH WITHIN WITHOUT YEAR
QUALIFY
"""
RESERVED = frozenset(_RESERVED_WORDS.split())

# --- characters --------------------------------------------------------------------------------

_LETTER = (
    r"A-Za-z_\u00aa\u00b5\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u1fff\u2c00-\u2dff\u3005-\u3007"
    r"\u3040-\u318f\u31a0-\u31ff\u3300-\u4dbf\u4e00-\ua4cf\ua4d0-\ud7ff\uf900-\ufaff"
    r"\U00010000-\U0001efff\U00020000-\U0003ffff"
)
_ZERO_WIDTH = "\u200b\u200c\u200d\u2060\ufeff\u180e"

# What a Chinese input method types for ASCII punctuation, besides the full-width block U+FF01–FF5E.
_LOOKALIKES = {
    "‘": "'",
    "’": "'",
    "“": "'",
    "”": "'",
    "「": "'",
    "」": "'",
    "、": ",",
    "。": ".",
    "【": "[",
    "】": "]",
    "《": "<",
    "》": ">",
    "〈": "<",
    "〉": ">",
    "—": "-",
    "–": "-",
    "−": "-",
    "×": "*",
    "÷": "/",
    "≠": "<>",
    "≤": "<=",
    "≥": ">=",
    "´": "'",
}
_OPENING_QUOTES = {"‘": "’", "“": "”", "「": "」", "’": "’", "”": "”", "＇": "＇", "＂": "＂"}

_VARIABLE = re.compile(r"\$\{([^{}\n]*)\}")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\Z")
_RESERVED_VARIABLE = re.compile(r"(?:env|file):")

_TEXT = r"'[^']*(?:''[^']*)*'"
_WORD = rf"(?:[{_LETTER}]|\$(?!\{{))(?:[{_LETTER}0-9]|\$(?!\{{))*"

_TOKEN = re.compile(
    rf"""
      (?P<skip> [\s{_ZERO_WIDTH}]+ | --[^\r\n]* | //[^\r\n]* | /\*(?!\+)[^*]*\*+(?:[^/*][^*]*\*+)*/ )
    | (?P<filled> [{_LETTER}0-9$]*\$\{{[^{{}}\n]*\}}(?:[{_LETTER}0-9]|\$\{{[^{{}}\n]*\}}|\$(?!\{{))* )
    | (?P<prefixed> [uU]&{_TEXT}(?:\s+[uU][eE][sS][cC][aA][pP][eE]\s*{_TEXT})? | [xX]{_TEXT}
                    | [eE]'[^'\\]*(?:(?:\\.|'')[^'\\]*)*' | (?:[nN]|_[A-Za-z0-9][\w:.-]*){_TEXT} )
    | (?P<word> {_WORD} )
    | (?P<text> {_TEXT} )
    | (?P<quoted> `[^`\r\n]*(?:``[^`\r\n]*)*` )
    | (?P<number> (?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)? )
    | (?P<operator> /\*\+ | \*/ | \.\.\. | <> | != | <= | >= | == | => | -> | \|\| | && | ::
                    | /(?!\*) | [-+*%=<>(),.;\[\]{{}}:?|&^~!@\#] )
    | (?P<double> "[^"]*(?:""[^"]*)*" )
    """,
    re.VERBOSE | re.DOTALL,
)

# SET and RESET take their key and value as plain text up to the semicolon; quotes are optional.
_RAW_SET = re.compile(rf"\s+(?P<key>{_TEXT}|[^\s'=;]+)\s*=[^\S\r\n]*(?P<value>{_TEXT}|[^;\r\n]*)")
_RAW_RESET = re.compile(r"[^\S\r\n]+(?P<key>[^\s';]+)")
_TRAILING_COMMENT = re.compile(r"(?:^|\s)(?:--|/\*).*")

_OPENINGS = {
    "'": ("text", "a text ends with ', and a ' inside it is written twice: ''"),
    "`": ("quoted name", "a quoted name ends with ` on the same line"),
    '"': ("text in double quotes", "Flink SQL writes text in single quotes: 'text'"),
    "/*": ("comment", "a comment that starts with /* ends with */"),
}


_PLAIN_NAME = re.compile(_WORD)


def is_plain_name(name: str) -> bool:
    """Whether a name is read as one word without back quotes; whether the word is reserved is another question."""
    return _PLAIN_NAME.fullmatch(name) is not None


class Token:
    """One word, literal or sign. `key` is what the grammar compares: an unquoted word in upper case, or a sign;
    it is empty for literals and quoted names, which are never keywords."""

    __slots__ = ("end", "key", "kind", "start", "value")

    def __init__(self, kind: str, key: str, value: str, start: int, end: int) -> None:
        self.kind = kind
        """word, name (back-quoted), text, binary, number, sign or end"""
        self.key = key
        self.value = value
        self.start = start
        self.end = end

    def __repr__(self) -> str:
        return f"Token({self.kind}, {self.value!r}, {self.start}:{self.end})"


# --- files -------------------------------------------------------------------------------------


def read_script(path: str | PathLike[str]) -> Source:
    """A script file as text. UTF-8, with or without a byte order mark; line ends stay as they are."""
    name = str(path)
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise usage_error("SQL-009", f"script '{name}' cannot be read: {reason}") from None
    return decode_script(name, data)


def decode_script(name: str, data: bytes) -> Source:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        shown = Source(name, data.decode("utf-16", "replace"))
        raise script_error(
            "SQL-005",
            "script is not UTF-8: it starts with the byte order mark of UTF-16",
            Span(shown, 0, 0),
            f"convert it: iconv -f UTF-16 -t UTF-8 {name}",
        )
    body = data.removeprefix(b"\xef\xbb\xbf")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _not_utf8(name, body, error.start, len(data) - len(body)) from None
    # A lone carriage return ends a line too; the length, and so every offset, stays.
    return Source(name, re.sub(r"\r(?!\n)", "\n", text))


def _not_utf8(name: str, body: bytes, at: int, bom: int) -> Exception:
    """The mistake shown in the user's own characters: the bytes are read as GB18030 if they can be."""
    try:
        text, offset = body.decode("gb18030"), len(body[:at].decode("gb18030", "ignore"))
        guess = "; the bytes look like GBK"
        hint = f"save it as UTF-8, for example: iconv -f GB18030 -t UTF-8 {name}"
    except UnicodeDecodeError:
        text, offset = body.decode("utf-8", "replace"), len(body[:at].decode("utf-8"))
        guess, hint = "", "save it as UTF-8"
    source = Source(name, re.sub(r"\r(?!\n)", "\n", text))
    return script_error(
        "SQL-005",
        f"script is not UTF-8: byte 0x{body[at]:02X} at offset {at + bom}{guess}",
        Span(source, offset, min(offset + 1, len(text))),
        hint,
    )


# --- tokens ------------------------------------------------------------------------------------


def tokenize(
    source: Source, variables: Mapping[str, str] | None = None, dialect: Dialect = FLINK
) -> tuple[list[Token], list[Diagnostic]]:
    """All tokens of a text, the last of kind `end`, and what is wrong with its characters."""
    lexer = _Lexer(source, variables or {}, dialect)
    lexer.read()
    return lexer.tokens, lexer.diagnostics


class _Lexer:
    def __init__(self, source: Source, variables: Mapping[str, str], dialect: Dialect) -> None:
        self.source = source
        self.text = source.text
        self.variables = variables
        self.dialect = dialect
        self.in_options = False
        """Between `WITH (` and its `)`."""
        self.tokens: list[Token] = []
        self.diagnostics: list[Diagnostic] = []

    def report(self, code: str, message: str, start: int, end: int, hint: str | None) -> None:
        self.diagnostics.append(Diagnostic(code, message, Span(self.source, start, end), hint))

    def read(self) -> None:
        text, tokens = self.text, self.tokens
        position, length = 0, len(text)
        at_statement_start = True
        hint_starts: list[int] = []
        match = _TOKEN.match
        while position < length:
            found = match(text, position)
            if found is None:
                position = self._read_odd(position)
                continue
            kind, start, end = found.lastgroup, position, found.end()
            position = end
            if kind == "skip":
                if text[start] in _ZERO_WIDTH:
                    self._check_invisible(start, end)
                continue
            if kind == "word":
                word = text[start:end]
                key = word.upper() if word.isascii() else word
                tokens.append(Token("word", key, word, start, end))
                if at_statement_start and (key == "SET" or key == "RESET"):
                    position = self._read_raw_option(key, end)
            elif kind == "operator":
                sign = text[start:end]
                if sign == "/*+":
                    hint_starts.append(start)
                elif sign == "*/":
                    if hint_starts:
                        hint_starts.pop()
                    else:  # `SELECT */* all */ FROM t`: a star that meets a comment
                        position = end = start + 1
                        sign = "*"
                elif sign == "(":
                    self.in_options = bool(tokens) and tokens[-1].key == "WITH"
                elif sign == ")" or sign == ";":
                    self.in_options = False
                tokens.append(Token("sign", sign, sign, start, end))
                at_statement_start = sign == ";"
                continue
            elif kind == "text":
                tokens.append(
                    Token(
                        "text", "", self._fill(_unquote(text, start, end), start, end), start, end
                    )
                )
            elif kind == "quoted":
                name = text[start + 1 : end - 1].replace("``", "`")
                if not name:
                    self.report("SQL-002", "a name in back quotes is empty", start, end, None)
                tokens.append(Token("name", "", self._fill(name, start, end), start, end))
            elif kind == "number":
                tokens.append(Token("number", "", text[start:end], start, end))
            elif kind == "prefixed":
                self._read_prefixed(start, end)
            elif kind == "filled":
                self._read_filled(start, end)
            else:
                self._read_double_quoted(start, end)
            at_statement_start = False
        for start in hint_starts:
            self.report("SQL-001", "hint is not closed", start, start + 3, "a hint ends with */")
        tokens.append(Token("end", "", "", length, length))

    # --- SET without quotes ---

    def _read_raw_option(self, key: str, position: int) -> int:
        """Key and value of SET and RESET as text tokens, so that the grammar sees one form only."""
        pattern = _RAW_SET if key == "SET" else _RAW_RESET
        found = pattern.match(self.text, position)
        if found is None:
            return position
        start, end = found.span("key")
        bare_key = self.text[start] != "'"
        if key == "RESET":
            self._append_raw(start, end)
            return end
        value_start, value_end = found.span("value")
        bare_value = self.text[value_start : value_start + 1] != "'"
        if bare_value:
            raw = self.text[value_start:value_end]
            value_end = value_start + len(_TRAILING_COMMENT.sub("", raw).rstrip())
            if value_end == value_start:
                return position
        if not bare_key and not bare_value:
            return position
        self._append_raw(start, end)
        equals = self.text.index("=", end)
        self.tokens.append(Token("sign", "=", "=", equals, equals + 1))
        self._append_raw(value_start, value_end)
        return value_end

    def _append_raw(self, start: int, end: int) -> None:
        quoted = self.text[start] == "'" and end - start > 1
        value = _unquote(self.text, start, end) if quoted else self.text[start:end]
        self.tokens.append(Token("text", "", self._fill(value, start, end), start, end))

    # --- variables ---

    def _fill(self, value: str, start: int, end: int) -> str:
        """A text or name with its variables filled in; `${env:…}` and `${file:…}` stay for later."""
        if "${" not in value:
            return value

        def fill(found: re.Match[str]) -> str:
            name = found[1]
            if name in self.variables:
                return self.variables[name]
            if _VARIABLE_NAME.match(name):
                place = self.text.find(found[0], start, end)
                self._report_undefined(
                    name, *((place, place + len(found[0])) if place >= 0 else (start, end))
                )
            return found.group(0)

        return _VARIABLE.sub(fill, value)

    def _report_undefined(self, name: str, start: int, end: int) -> None:
        known = ", ".join(sorted(self.variables))
        meant = did_you_mean(name, list(self.variables))
        given = f"variables given: {known}" if known else f"give it with --var {name}=VALUE"
        hint = f"{meant} {given}" if meant else given
        self.report("SQL-006", f"variable '{name}' is not defined", start, end, hint)

    def _read_filled(self, start: int, end: int) -> None:
        """`${NAME}` outside quotes, with the word characters that touch it: the value is read as SQL in its place."""
        problems = len(self.diagnostics)

        def fill(found: re.Match[str]) -> str:
            name, place = found[1], (start + found.start(), start + found.end())
            if name in self.variables:
                return self.variables[name]
            if _RESERVED_VARIABLE.match(name):
                self.report(
                    "SQL-006",
                    f"'${{{name}}}' is reserved and may stand only inside a text",
                    *place,
                    "write it inside single quotes, or use a variable given with --var",
                )
            elif _VARIABLE_NAME.match(name):
                self._report_undefined(name, *place)
            else:
                self.report(
                    "SQL-006", f"'{name}' is not a variable's name", *place, "write ${NAME}"
                )
            return "_"

        value = _VARIABLE.sub(fill, self.text[start:end])
        if len(self.diagnostics) > problems:
            self.tokens.append(Token("name", "", self.text[start:end], start, end))
            return
        inner = _Lexer(Source(self.source.name, value), {}, self.dialect)
        inner.in_options = self.in_options
        inner.read()
        for problem in inner.diagnostics:
            self.report(
                problem.code,
                f"in the value of {self.text[start:end]}: {problem.message}",
                start,
                end,
                problem.hint,
            )
        for token in inner.tokens[:-1]:
            self.tokens.append(Token(token.kind, token.key, token.value, start, end))

    # --- literals with a prefix ---

    def _read_prefixed(self, start: int, end: int) -> None:
        quote = self.text.index("'", start)
        prefix = self.text[start:quote].upper()
        if prefix == "X":
            digits = self.text[quote + 1 : end - 1]
            if len(digits) % 2 or not re.fullmatch("[0-9A-Fa-f]*", digits):
                self.report(
                    "SQL-004",
                    "binary literal must hold pairs of hexadecimal digits",
                    start,
                    end,
                    "for example X'0A1F'",
                )
                digits = ""
            self.tokens.append(Token("binary", "", digits, start, end))
            return
        if prefix == "U&":
            value = self._unescape_unicode(start, quote, end)
        elif prefix == "E":
            value = _C_ESCAPE.sub(_c_escape, self.text[quote + 1 : end - 1].replace("''", "'"))
        else:
            value = _unquote(self.text, quote, end)
        self.tokens.append(Token("text", "", self._fill(value, start, end), start, end))

    def _unescape_unicode(self, start: int, quote: int, end: int) -> str:
        parts: list[str] = re.findall(_TEXT, self.text[quote:end])
        body = parts[0][1:-1].replace("''", "'")
        escape = parts[1][1:-1] if len(parts) > 1 else "\\"
        if len(escape) != 1 or re.match(r"[0-9A-Fa-f+'\"\s]", escape):
            self.report(
                "SQL-004",
                "UESCAPE takes one character that is no hexadecimal digit, plus, quote or space",
                start,
                end,
                None,
            )
            return body
        mark = re.escape(escape)
        bad = False

        def replace(found: re.Match[str]) -> str:
            nonlocal bad
            if found[1]:
                return escape
            if found[2] and int(found[2], 16) < 0x110000:
                return chr(int(found[2], 16))
            bad = True
            return found.group(0)

        value = re.sub(
            rf"{mark}(?:({mark})|\+?((?<=\+)[0-9A-Fa-f]{{6}}|(?<!\+)[0-9A-Fa-f]{{4}})|)",
            replace,
            body,
        )
        if bad:
            self.report(
                "SQL-004",
                f"unicode escape in U&'…' must be {escape}XXXX or {escape}+XXXXXX",
                start,
                end,
                f"write {escape}{escape} for the character {escape} itself",
            )
            return body
        # Two escapes may be the halves of one character, as in Java.
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    # --- what is not SQL ---

    def _read_double_quoted(self, start: int, end: int) -> None:
        inside = self.text[start + 1 : end - 1].replace('""', '"')
        if self.in_options and self.dialect.double_quoted_options:
            self.tokens.append(Token("text", "", self._fill(inside, start, end), start, end))
            return
        if self.in_options:
            hint = f"write single quotes, or run it with --dialect {DLI.name}"
        elif len(inside) <= 40 and "\n" not in inside:
            hint = f"write '{inside}' for text or `{inside}` for a name"
        else:
            hint = "write single quotes for text and back quotes for names"
        self.report("SQL-003", "double quotes do not quote anything in Flink SQL", start, end, hint)
        self.tokens.append(Token("text", "", inside, start, end))

    def _check_invisible(self, start: int, end: int) -> None:
        """Invisible characters between tokens do no harm; inside a word they break it in two."""
        before = self.tokens[-1] if self.tokens else None
        if (
            before is not None
            and before.end == start
            and before.kind == "word"
            and re.match(f"[{_LETTER}0-9]", self.text[end : end + 1])
            and not self.text[start:end].strip(_ZERO_WIDTH)
        ):
            char = self.text[start]
            self.report(
                "SQL-002",
                f"invisible character U+{ord(char):04X} ({_name(char)}) inside a word",
                start,
                end,
                "delete it, or type the word again",
            )

    def _read_odd(self, start: int) -> int:
        """A character that starts no token. Where the meaning is plain, a token stands in for it, so that the
        rest of the statement is still read."""
        char = self.text[start]
        for opening, (what, hint) in _OPENINGS.items():
            if self.text.startswith(opening, start):
                self.report("SQL-001", f"{what} is not closed", start, start + len(opening), hint)
                return self._end_of_unclosed(opening, start)
        if char in _OPENING_QUOTES:
            return self._read_wide_quotes(start)
        ascii_char = _LOOKALIKES.get(char)
        if ascii_char is None and "\uff01" <= char <= "\uff5e":
            ascii_char = chr(ord(char) - 0xFEE0)
        if ascii_char is not None:
            end = start + 1
            while (
                end < len(self.text)
                and ascii_char.isalnum()
                and "\uff10" <= self.text[end] <= "\uff5a"
            ):
                end += 1
            self.report(
                "SQL-002",
                f"full-width character '{char}' (U+{ord(char):04X}) is not SQL",
                start,
                end,
                f"write the ASCII character {ascii_char}",
            )
            kind = "name" if ascii_char.isalnum() else "sign"
            key = "" if kind == "name" else ascii_char
            self.tokens.append(Token(kind, key, ascii_char, start, end))
            return end
        shown = f"'{char}' " if char.isprintable() else ""
        self.report(
            "SQL-002",
            f"character {shown}(U+{ord(char):04X} {_name(char)}) is not SQL",
            start,
            start + 1,
            "a variable is written ${NAME}"
            if char == "$"
            else "delete it, or put it inside quotes",
        )
        return start + 1

    def _end_of_unclosed(self, opening: str, start: int) -> int:
        if opening != "`":
            return len(self.text)
        # A quoted name cannot pass the end of its line.
        end = re.compile(r"[\r\n]|\Z").search(self.text, start)
        assert end is not None
        self.tokens.append(
            Token("name", "", self.text[start + 1 : end.start()].strip(), start, end.start())
        )
        return end.start()

    def _read_wide_quotes(self, start: int) -> int:
        """‘text’ as an input method types it: reported once, read as one text."""
        opening = self.text[start]
        closing = self.text.find(_OPENING_QUOTES[opening], start + 1)
        line_end = self.text.find("\n", start)
        closed = closing >= 0 and (line_end < 0 or closing < line_end)
        end = closing + 1 if closed else start + 1
        self.report(
            "SQL-002",
            f"full-width quote '{opening}' (U+{ord(opening):04X}) is not SQL",
            start,
            end,
            "write the ASCII quote ' around text and ` around names",
        )
        if closed:
            self.tokens.append(Token("text", "", self.text[start + 1 : closing], start, end))
        return end


def _unquote(text: str, start: int, end: int) -> str:
    return text[start + 1 : end - 1].replace("''", "'")


def _name(char: str) -> str:
    return unicodedata.name(char, "control character")


_C_ESCAPE = re.compile(
    r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL
)
_C_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def _c_escape(found: re.Match[str]) -> str:
    octal, byte, short, long, letter = found.groups()
    if letter is not None:
        return _C_LETTERS.get(letter, letter)
    code = int(octal, 8) if octal else int(byte or short or long, 16)
    return chr(code) if code < 0x110000 else found[0]

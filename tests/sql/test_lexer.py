"""Files, characters and places: what the lexer does before there is a grammar."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemill.errors import ScriptError, Source, UsageError
from tidemill.sql import ast, decode_script, parse_expression, parse_script, read_script
from tidemill.sql.lexer import RESERVED, tokenize


def words(text: str, **variables: str) -> list[str]:
    tokens, problems = tokenize(Source("s", text), variables)
    assert problems == []
    return [token.value for token in tokens[:-1]]


def problems(text: str) -> list[tuple[str, str, str | None]]:
    _, found = tokenize(Source("s", text))
    return [(d.code, d.span.text if d.span else "", d.hint) for d in found]


def rendered(error: pytest.ExceptionInfo[ScriptError]) -> str:
    return str(error.value)


def test_byte_order_mark_does_not_count_as_a_column(tmp_path: Path) -> None:
    path = tmp_path / "bom.sql"
    path.write_bytes(b"\xef\xbb\xbfSELEC 1")
    with pytest.raises(ScriptError) as error:
        parse_script(read_script(path))
    assert f"{path}:1:1: error SQL-012" in rendered(error)
    assert "\n   1 | SELEC 1\n     | ^^^^^\n" in rendered(error)


def test_carets_stand_right_with_carriage_returns(tmp_path: Path) -> None:
    path = tmp_path / "crlf.sql"
    path.write_bytes("SELECT a\r\nFROM 订单\r\nWHERE ；\r\n".encode())
    with pytest.raises(ScriptError) as error:
        parse_script(read_script(path))
    assert f"{path}:3:7: error SQL-002" in rendered(error)
    assert "\n   3 | WHERE ；\n     |       ^^\n" in rendered(error)


def test_lone_carriage_returns_end_lines_and_comments() -> None:
    source = decode_script("mac.sql", b"-- first\rSELECT 1;\rSELEC 2")
    with pytest.raises(ScriptError) as error:
        parse_script(source)
    assert "mac.sql:3:1: error SQL-012" in rendered(error)


def test_gbk_bytes_are_shown_where_they_stand() -> None:
    data = "SELECT 1;\nSELECT '订单' AS x".encode("gbk")
    with pytest.raises(ScriptError) as error:
        decode_script("gbk.sql", data)
    assert rendered(error) == (
        "gbk.sql:2:9: error SQL-005: script is not UTF-8: byte 0xB6 at offset 18; the bytes look like GBK\n"
        "   2 | SELECT '订单' AS x\n"
        "     |         ^^\n"
        " hint: save it as UTF-8, for example: iconv -f GB18030 -t UTF-8 gbk.sql"
    )


def test_bytes_of_no_known_encoding_are_named() -> None:
    with pytest.raises(ScriptError) as error:
        decode_script("x.sql", b"SELECT \xff\xff")
    (problem,) = error.value.diagnostics
    assert problem.message == "script is not UTF-8: byte 0xFF at offset 7"
    assert problem.span is not None and problem.span.source.position(problem.span.start) == (1, 8)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_is_named(encoding: str) -> None:
    bom = b"\xff\xfe" if encoding.endswith("le") else b"\xfe\xff"
    with pytest.raises(ScriptError) as error:
        decode_script("w.sql", bom + "SELECT 1".encode(encoding))
    assert "byte order mark of UTF-16" in rendered(error)
    assert "iconv -f UTF-16" in rendered(error)


def test_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_script(tmp_path / "none.sql")
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        read_script(tmp_path)


def test_spaces_that_look_like_spaces_are_spaces() -> None:
    assert words("SELECT\u00a0a\u3000FROM\u2003t\ufeff\u200b;") == ["SELECT", "a", "FROM", "t", ";"]


def test_invisible_character_inside_a_word_is_named() -> None:
    assert problems("SELECT us\u200ber") == [
        ("SQL-002", "\u200b", "delete it, or type the word again")
    ]
    (message,) = [d.message for d in tokenize(Source("s", "SELECT us\u200ber"))[1]]
    assert message == "invisible character U+200B (ZERO WIDTH SPACE) inside a word"


def test_names_may_be_of_any_script() -> None:
    assert words("订单 Ünï ชื่อ имя $a _b a$1 𠀀") == [
        "订单",
        "Ünï",
        "ชื่อ",
        "имя",
        "$a",
        "_b",
        "a$1",
        "𠀀",
    ]


def test_only_ascii_words_are_keywords() -> None:
    tokens, _ = tokenize(Source("s", "select ſelect"))
    assert [token.key for token in tokens] == ["SELECT", "ſelect", ""]


@pytest.mark.parametrize(
    ("text", "marked", "hint"),
    [
        ("SELECT ａbc", "ａ", "write the ASCII character a"),
        ("SELECT １２", "１２", "write the ASCII character 1"),
        ("SELECT a ＞ b", "＞", "write the ASCII character >"),
        ("SELECT a ≥ b", "≥", "write the ASCII character >="),
        ("SELECT 【1】", "【", "write the ASCII character ["),
    ],
)
def test_full_width_characters_are_named_with_the_ascii_one(
    text: str, marked: str, hint: str
) -> None:
    assert problems(text)[0] == ("SQL-002", marked, hint)


def test_control_characters_are_named() -> None:
    (message,) = [d.message for d in tokenize(Source("s", "SELECT \x00 1"))[1]]
    assert message == "character (U+0000 control character) is not SQL"


def test_reserved_words_are_flinks() -> None:
    assert len(RESERVED) > 350
    assert {
        "VALUE",
        "USER",
        "DATE",
        "TIMESTAMP",
        "OFFSET",
        "PARTITION",
        "START",
        "STRING",
    } <= RESERVED
    assert (
        not {"NAME", "TYPE", "KEY", "DATA", "ID", "STATE", "SOURCE", "HASH", "METADATA"} & RESERVED
    )


def test_tokens_of_a_variable_stand_where_its_braces_stand() -> None:
    text = "SELECT a FROM t WHERE ${CONDITION} AND b"
    script = parse_script(Source("s", text), {"CONDITION": "x > 1 AND y"})
    (statement,) = script.statements
    assert isinstance(statement, ast.QueryStatement)
    select = statement.query.body
    assert isinstance(select, ast.Select)
    assert isinstance(select.where, ast.Binary)
    assert select.where.left.span.text == "${CONDITION}"
    assert select.where.span.text == "${CONDITION} AND b"


def test_a_mistake_in_a_variables_value_points_at_the_variable() -> None:
    with pytest.raises(ScriptError) as error:
        parse_script(Source("s", "SELECT a FROM ${T}, b"), {"T": "x y z"})
    (problem,) = error.value.diagnostics
    assert problem.span is not None and problem.span.text == "${T}"
    with pytest.raises(ScriptError) as error:
        parse_script(Source("s", "SELECT a FROM ${T}"), {"T": "'open"})
    (problem,) = error.value.diagnostics
    assert problem.message == "in the value of ${T}: text is not closed"
    assert problem.span is not None and problem.span.text == "${T}"


def test_a_quote_in_a_variable_stays_inside_the_text() -> None:
    expression = parse_expression(Source("s", "'${X}'"), {"X": "it's; DROP"})
    assert expression == parse_expression(Source("s", "'it''s; DROP'"))


def test_several_files_are_one_script() -> None:
    first, second = Source("a.sql", "SET 'a' = 'b'"), Source("b.sql", "SELECT 1; SELECT 2")
    script = parse_script([first, second])
    assert [s.span.source.name for s in script.statements] == ["a.sql", "b.sql", "b.sql"]
    with pytest.raises(ScriptError) as error:
        parse_script([Source("a.sql", "SELEC 1"), Source("b.sql", "SELECT")])
    assert [d.span.source.name for d in error.value.diagnostics if d.span] == ["a.sql", "b.sql"]

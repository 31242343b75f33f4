"""Text → tree: the lexer, the parser and the syntax tree of Flink SQL. Knows neither tables nor Spark."""

from __future__ import annotations

from tidemill.sql.lexer import decode_script, read_script
from tidemill.sql.parser import parse_expression, parse_script

__all__ = ["decode_script", "parse_expression", "parse_script", "read_script"]

"""A syntax tree as short text: statements and clauses one per line, expressions inside a line, fully bracketed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from tidemill.sql import ast
from tidemill.types import SqlType

# Fields that tell "no" from "nothing was said".
_NO_IS_AN_ANSWER = ("enforced", "cascade", "nulls_first")


def children(node: ast.Node) -> Iterator[ast.Node]:
    """The nodes directly below one, in the order of its fields."""

    def inside(value: object) -> Iterator[ast.Node]:
        if isinstance(value, ast.Node):
            yield value
        elif isinstance(value, tuple):
            for item in value:
                yield from inside(item)

    for f in fields(node):
        yield from inside(getattr(node, f.name))


def walk(node: ast.Node) -> Iterator[ast.Node]:
    stack = [node]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(children(node))


def dump(node: ast.Node, indent: int = 0) -> str:
    """Blocks: script, statements, queries, relations, definitions. Everything else is inline."""
    pad = "  " * indent
    if isinstance(node, ast.Script):
        return "\n".join(dump(statement, indent) for statement in node.statements)
    head = [type(node).__name__]
    below: list[str] = []
    for f in fields(node):
        value = getattr(node, f.name)
        if f.name == "span" or f.name.endswith(("_span", "_spans")) or value in (None, ()):
            continue
        if value is False:
            if f.name in _NO_IS_AN_ANSWER:
                head.append(f"not-{f.name}")
        elif _is_block(value):
            below.append(f"{pad}  {f.name}:\n{dump(value, indent + 2)}")
        elif isinstance(value, tuple) and value and all(map(_is_block, value)):
            below.append(f"{pad}  {f.name}:")
            below += [dump(item, indent + 2) for item in value]
        elif f.name in ("name", "target") and not isinstance(node, ast.SelectItem):
            head.append(inline(value))
        elif value is True:
            head.append(f.name)
        elif isinstance(node, (ast.SelectItem, ast.PhysicalColumn)) and f.name in (
            "expression",
            "type",
        ):
            head.append(inline(value))
        else:
            head.append(f"{f.name}={inline(value)}")
    return "\n".join([pad + " ".join(head), *below])


def _is_block(value: object) -> bool:
    blocks = (ast.Statement, ast.Query, ast.QueryBody, ast.Relation, ast.ColumnDefinition)
    parts = (ast.SelectItem, ast.CommonTable, ast.WatermarkDefinition, ast.PrimaryKey)
    return isinstance(value, blocks + parts)


def inline(value: object) -> str:
    match value:
        case None:
            return "-"
        case ast.Identifier(name=name):
            plain = name.replace("_", "a").isalnum() and not name[0].isdigit()
            return name if plain else f"`{name}`"
        case ast.QualifiedName(parts=parts):
            return ".".join(map(inline, parts))
        case ast.ColumnReference(name=name):
            return inline(name)
        case ast.NumberLiteral(text=text):
            return text
        case ast.StringLiteral(value=text):
            return repr(text)
        case ast.Binary(operator=operator, left=left, right=right):
            return f"({inline(left)} {operator} {inline(right)})"
        case ast.Unary(operator=operator, operand=operand):
            return f"({operator} {inline(operand)})"
        case ast.Option(key=key, value=text):
            return f"{key!r}={text!r}"
        case ast.Query() | ast.QueryBody() | ast.Relation():
            return "{" + " ".join(dump(value).split()) + "}"
        case ast.Node():
            return _inline_node(value)
        case SqlType():
            return f"<{value}>"
        case tuple():
            return "[" + ", ".join(map(inline, value)) + "]"
        case ast.TemporalKind():
            return value.name
    return repr(value)


def _inline_node(node: ast.Node) -> str:
    shown = []
    for f in fields(node):
        value = getattr(node, f.name)
        if f.name == "span" or f.name.endswith(("_span", "_spans")) or value in (None, ()):
            continue
        if value is False:
            if f.name in _NO_IS_AN_ANSWER:
                shown.append(f"not-{f.name}")
        elif value is True:
            shown.append(f.name)
        elif f.name in ("name", "operand", "arguments", "items", "text", "test", "kind") and not (
            isinstance(node, ast.Case)
        ):
            shown.append(inline(value))
        else:
            shown.append(f"{f.name}={inline(value)}")
    return f"{type(node).__name__}({', '.join(shown)})"

"""What the Spark form of a function is: a template, or a function that writes the text of a call."""

from __future__ import annotations

from collections.abc import Callable

from tidemill.plan.expressions import Call
from tidemill.spark.types import spark_ddl

# Given the bound call and its arguments as Spark SQL.
Write = Callable[[Call, list[str]], str]
# A template's `{0}` is an argument, `{*}` all of them, `{1?…$…}` the text in it only if argument 1, its `$`, is there.
Form = str | Write


def fill(template: str, arguments: list[str]) -> str:
    if "{*}" in template:
        return template.replace("{*}", ", ".join(arguments))
    for index in range(5):
        marker = f"{{{index}?"
        if marker in template:
            start = template.index(marker)
            end = template.index("}", start)
            inner = template[start + len(marker) : end]
            shown = inner.replace("$", arguments[index]) if index < len(arguments) else ""
            template = template[:start] + shown + template[end + 1 :]
    for index, argument in enumerate(arguments):
        template = template.replace(f"{{{index}}}", argument)
    return template


def cast_to_result(template: str) -> Write:
    """For a function whose result is wider or narrower in Spark: bring it to the bound type."""

    def write(call: Call, arguments: list[str]) -> str:
        return f"CAST({fill(template, arguments)} AS {spark_ddl(call.type)})"

    return write


def quote(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"

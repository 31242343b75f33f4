"""The Spark form of every function of `plan.functions` and of every operator: a module for each area, in each a table.

Spark runs with ANSI mode off, because Flink wraps integers and turns a decimal overflow into NULL; where Flink fails
(a text that is no number, a division by zero) the text says so with raise_error.
"""

from tidemill.spark.functions import casts, collections, json, logic, numbers, text, times
from tidemill.spark.functions.form import Form, fill

FORMS: dict[str, Form] = {
    **casts.FORMS,
    **text.FORMS,
    **numbers.FORMS,
    **logic.FORMS,
    **times.FORMS,
    **collections.FORMS,
    **json.FORMS,
}

__all__ = ["FORMS", "fill"]

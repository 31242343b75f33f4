"""Functions of the user's in Spark: a call in a plan becomes a call of a registered function of Spark's.

In: the functions that a job calls. Out: their names in Spark SQL, known to the session. Batches go to Python as Arrow
arrays, without pandas. Law: what goes wrong inside a function stops the job as a diagnostic that names the function.
"""

from __future__ import annotations

import itertools
import re
import sys
import traceback
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from tidemill import types as t
from tidemill.errors import job_error
from tidemill.formats.arrow import arrow_type
from tidemill.functions import AGGREGATE, ARROW, SCALAR, TABLE, PythonFunction
from tidemill.spark.faults import RecordFault
from tidemill.spark.types import spark_type


def spark_name(function: PythonFunction, count: int) -> str:
    """The function's name in Spark SQL. A call without arguments goes to a variant that gets a column all the same."""
    word = re.sub(r"\W", "_", function.name.lower())
    whole = f"{function.implementation} {function.signature} {function.result}"
    return f"tidemill_user_{word}_{zlib.crc32(whole.encode()):08x}" + ("" if count else "_0")


def call_sql(function: PythonFunction, arguments: Sequence[str]) -> str:
    # Without a column Spark could not say how many rows a batch has.
    return f"{spark_name(function, len(arguments))}({', '.join(arguments) or 'TRUE'})"


def aggregate_sql(function: PythonFunction, count: int, rows: str) -> str:
    """An aggregate function of so many arguments over an array of rows that hold them."""
    return f"{spark_name(function, count)}({rows})"


def register(spark: SparkSession, functions: Iterable[PythonFunction]) -> None:
    """Make functions known to a session, code and all: workers do not have the user's modules."""
    for function in functions:
        for name in function.modules:
            if name in sys.modules:
                cloudpickle.register_pickle_by_value(sys.modules[name])
        for count in (0, 1):
            if count or function.accepts(0):
                _register(spark, function, count)


def _register(spark: SparkSession, function: PythonFunction, count: int) -> None:
    evaluate = _EVALUATORS[function.kind](function, count == 0)
    udf = UserDefinedFunction(
        evaluate,
        spark_type(function.value),
        name=spark_name(function, count),
        evalType=PythonEvalType.SQL_SCALAR_ARROW_UDF,
        deterministic=function.deterministic,
    )
    try:
        made = udf._judf
    except Exception as error:  # pickling runs code of the user's
        raise job_error(
            "RUN-042",
            f"function '{function.name}' ({function.implementation}) cannot be sent to the workers: {_said(error)}",
            "make what cannot travel (locks, connections, models) inside the function, or in 'open' of a class",
        ) from error
    spark._jsparkSession.udf().registerPython(spark_name(function, count), made)


# --- in the workers ------------------------------------------------------------------------------


@dataclass
class Evaluate:
    """Arrow arrays in, one Arrow array out. Per row Python, unless the function takes arrays."""

    function: PythonFunction
    without_arguments: bool
    _opened: bool = field(default=False, repr=False)

    def __call__(self, *columns: Any) -> Any:
        self._open()
        if self.function.style == ARROW:
            return self._whole(columns)
        found = []
        arguments: tuple[Any, ...] = ()
        try:
            for arguments in self._rows(columns, len(columns[0])):
                found.append(self._one(arguments))
        except Exception as error:
            raise self._failed(error, arguments) from error
        return self._array(found)

    def _rows(self, columns: Sequence[Any], count: int) -> Iterator[tuple[Any, ...]]:
        """The arguments of each call."""
        if self.without_arguments:
            return itertools.repeat((), count)
        values = (c.to_pylist(maps_as_pydicts="strict") for c in columns)
        return zip(*values, strict=True)

    def _one(self, arguments: tuple[Any, ...]) -> Any:
        return self.function.call(*arguments)

    def _open(self) -> None:
        """The method `open` of a function that is an object, once a task."""
        opening = getattr(getattr(self.function.call, "__self__", None), "open", None)
        if not self._opened and callable(opening):
            try:
                opening(None)
            except Exception as error:
                raise self._failed(error) from error
        self._opened = True

    def _whole(self, columns: Sequence[Any]) -> Any:
        try:
            found = self.function.call(*(() if self.without_arguments else columns))
            if isinstance(found, pa.ChunkedArray):
                found = found.combine_chunks()
            array = found if isinstance(found, pa.Array) else pa.array(found)
            array = array.cast(arrow_type(self.function.value))
        except Exception as error:
            raise self._failed(error) from error
        if len(array) != len(columns[0]):
            raise RecordFault(
                "RUN-041",
                f"function '{self.function.name}' gave {len(array)} values for {len(columns[0])} rows",
            )
        return array

    def _array(self, found: list[Any]) -> Any:
        encode, target = _encoder(self.function.value), arrow_type(self.function.value)
        try:
            return pa.array(found if encode is None else [encode(v) for v in found], target)
        except Exception:
            for value in found:
                try:
                    pa.array([value if encode is None else encode(value)], target)
                except Exception as error:
                    raise self._misfit(value, error) from None
            raise

    def _misfit(self, value: Any, error: Exception) -> RecordFault:
        return RecordFault(
            "RUN-041",
            f"function '{self.function.name}' gave a value of type {type(value).__name__} that is not"
            f" {self.function.result.as_nullable}: {_said(error)}",
            "give another result_type, or convert the value",
        )

    def _failed(self, error: Exception, arguments: tuple[Any, ...] = ()) -> RecordFault:
        if isinstance(error, RecordFault):
            return error
        frames = traceback.extract_tb(error.__traceback__)
        place = f" (line {frames[-1].lineno} of {Path(frames[-1].filename).name})" if frames else ""
        hint = "an argument is NULL, which is None: guard against it" if None in arguments else None
        return RecordFault(
            "RUN-040", f"function '{self.function.name}' failed: {_said(error)}{place}", hint
        )


class EvaluateTable(Evaluate):
    """The rows that a function makes of each row, as lists. Per row Python.

    As in PyFlink, a list, a range and what can be stepped through are rows, None is no row, and anything else is one
    row; of a row, a tuple holds the columns, and what is no tuple is the one column that there is. A dict names them.
    """

    def _one(self, arguments: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        found = self.function.call(*arguments)
        if found is None:
            return []
        several = isinstance(found, list | range | Iterator)
        return [self._row(row) for row in (found if several else (found,))]

    def _row(self, row: Any) -> tuple[Any, ...]:
        assert isinstance(self.function.result, t.RowType)
        fields = self.function.result.fields
        if len(fields) > 1 and isinstance(row, dict):
            row = [row.get(field.name) for field in fields]
        is_whole = isinstance(row, tuple) or (len(fields) > 1 and isinstance(row, list))
        values = tuple(row) if is_whole else (row,)
        if len(values) != len(fields):
            raise RecordFault(
                "RUN-041",
                f"function '{self.function.name}' gave a row of {len(values)} value{'s' * (len(values) != 1)}, but has"
                f" {len(fields)} column{'s' * (len(fields) != 1)}",
                "yield a tuple with a value for each column",
            )
        return values

    def _misfit(self, value: Any, error: Exception) -> RecordFault:
        return RecordFault(
            "RUN-041",
            f"function '{self.function.name}' gave a row that is not {self.function.result}: {_said(error)}",
            "give other result_types, or convert the values",
        )


class EvaluateAggregate(Evaluate):
    """One value for each group, whose rows come as a list; their fields are the arguments. Per row Python, unless the
    function takes arrays: then it is called once a group.

    A group without rows, which FILTER may leave, has the value of an accumulator that nothing went into.
    """

    def __call__(self, groups: Any) -> Any:
        self._open()
        columns = groups.flatten().flatten()
        counts = [count or 0 for count in pc.list_value_length(groups).to_pylist()]
        try:
            if self.function.style == ARROW:
                found = self._of_arrays([] if self.without_arguments else columns, counts)
            else:
                rows = self._rows(columns, sum(counts))
                found = [self._of_rows(itertools.islice(rows, count)) for count in counts]
        except Exception as error:
            raise self._failed(error) from error
        return self._array(found)

    def _of_arrays(self, columns: Sequence[Any], counts: Sequence[int]) -> list[Any]:
        ends = list(itertools.accumulate(counts))
        found = (
            self.function.call(*(c.slice(end - count, count) for c in columns))
            for count, end in zip(counts, ends, strict=True)
        )
        return [f.as_py() if isinstance(f, pa.Scalar) else f for f in found]

    def _of_rows(self, rows: Iterable[tuple[Any, ...]]) -> Any:
        made: Any = self.function.call.__self__  # type: ignore[attr-defined]
        accumulator = made.create_accumulator()
        arguments: tuple[Any, ...] = ()
        try:
            for arguments in rows:
                self.function.call(accumulator, *arguments)
        except Exception as error:
            raise self._failed(error, arguments) from error
        return made.get_value(accumulator)


_EVALUATORS = {SCALAR: Evaluate, TABLE: EvaluateTable, AGGREGATE: EvaluateAggregate}


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ").partition("\n")[0]


def _encoder(type_: t.SqlType) -> Callable[[Any], Any] | None:
    """What a value needs before Arrow takes it; None: nothing."""
    match type_:
        case t.DecimalType():
            step = Decimal(1).scaleb(-type_.scale)
            return lambda v: None if v is None else Decimal(v).quantize(step, ROUND_HALF_UP)
        case t.ArrayType():
            element = _encoder(type_.element)
            return element and (lambda v: None if v is None else [element(e) for e in v])
        case t.MapType():
            key, value = _encoder(type_.key), _encoder(type_.value)

            def pairs(v: Any) -> Any:
                if v is None:
                    return None
                items = v.items() if isinstance(v, dict) else v
                return [(key(k) if key else k, value(x) if value else x) for k, x in items]

            return pairs
        case t.RowType():
            encoders = [(f.name, _encoder(f.type)) for f in type_.fields]

            def row(v: Any) -> Any:
                if v is None:
                    return None
                values = [v[n] for n, _ in encoders] if isinstance(v, dict) else list(v)
                if len(values) != len(encoders):
                    raise ValueError(f"{len(values)} values for {len(encoders)} fields")
                return {
                    name: encode(x) if encode else x
                    for (name, encode), x in zip(encoders, values, strict=True)
                }

            return row
    return None

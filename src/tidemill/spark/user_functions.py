"""Functions of the user's in Spark: a call in a plan becomes a call of a registered function of Spark's.

In: the functions that a job calls. Out: their names in Spark SQL, known to the session. Batches go to Python as Arrow
arrays, without pandas. Law: what goes wrong inside a function stops the job as a diagnostic that names the function.
"""

from __future__ import annotations

import re
import sys
import traceback
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from tidemill import types as t
from tidemill.errors import job_error
from tidemill.formats.arrow import arrow_type
from tidemill.functions import ARROW, PythonFunction
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
    evaluate = Evaluate(
        function.name, function.call, function.result, function.style == ARROW, count == 0
    )
    udf = UserDefinedFunction(
        evaluate,
        spark_type(function.result),
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


@dataclass
class Evaluate:
    """Runs in the workers: Arrow arrays in, one Arrow array out. Per row Python, unless the function takes arrays."""

    name: str
    call: Callable[..., Any]
    result: t.SqlType
    takes_arrays: bool
    without_arguments: bool
    _opened: bool = field(default=False, repr=False)

    def __call__(self, *columns: Any) -> Any:
        self._open()
        if self.takes_arrays:
            return self._whole(columns)
        if self.without_arguments:
            rows: Iterable[tuple[Any, ...]] = (() for _ in range(len(columns[0])))
        else:
            rows = zip(*(c.to_pylist(maps_as_pydicts="strict") for c in columns), strict=True)
        call, found = self.call, []
        arguments: tuple[Any, ...] = ()
        try:
            for arguments in rows:
                found.append(call(*arguments))
        except Exception as error:
            hint = (
                "an argument is NULL, which is None: guard against it"
                if None in arguments
                else None
            )
            raise self._failed(error, hint) from error
        return self._array(found)

    def _open(self) -> None:
        """The method `open` of a function that is an object, once a task."""
        opening = getattr(getattr(self.call, "__self__", None), "open", None)
        if not self._opened and callable(opening):
            try:
                opening(None)
            except Exception as error:
                raise self._failed(error, None) from error
        self._opened = True

    def _whole(self, columns: Sequence[Any]) -> Any:
        try:
            found = self.call(*(() if self.without_arguments else columns))
            if isinstance(found, pa.ChunkedArray):
                found = found.combine_chunks()
            array = found if isinstance(found, pa.Array) else pa.array(found)
            array = array.cast(arrow_type(self.result))
        except Exception as error:
            raise self._failed(error, None) from error
        if len(array) != len(columns[0]):
            raise RecordFault(
                "RUN-041",
                f"function '{self.name}' gave {len(array)} values for {len(columns[0])} rows",
            )
        return array

    def _array(self, found: list[Any]) -> Any:
        encode, target = _encoder(self.result), arrow_type(self.result)
        try:
            return pa.array(found if encode is None else [encode(v) for v in found], target)
        except Exception:
            for value in found:
                try:
                    pa.array([value if encode is None else encode(value)], target)
                except Exception as error:
                    raise RecordFault(
                        "RUN-041",
                        f"function '{self.name}' gave a value of type {type(value).__name__} that is not"
                        f" {self.result.as_nullable}: {_said(error)}",
                        "give another result_type, or convert the value",
                    ) from None
            raise

    def _failed(self, error: Exception, hint: str | None) -> RecordFault:
        frames = traceback.extract_tb(error.__traceback__)
        place = f" (line {frames[-1].lineno} of {Path(frames[-1].filename).name})" if frames else ""
        return RecordFault("RUN-040", f"function '{self.name}' failed: {_said(error)}{place}", hint)


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

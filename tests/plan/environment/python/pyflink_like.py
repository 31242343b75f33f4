"""Objects of the shape that PyFlink's decorators make."""

from __future__ import annotations


class IntType:
    _nullable = False


class VarCharType:
    _nullable = True
    length = 2147483647


class ArrayType:
    _nullable = True
    element_type = VarCharType()


class UserDefinedScalarFunctionWrapper:
    def __init__(self, func, input_types, result_type, func_type="general"):
        self._func = func
        self._input_types = input_types
        self._result_type = result_type
        self._deterministic = True
        self._func_type = func_type


class UserDefinedTableFunctionWrapper:
    def __init__(self, func, input_types, result_types):
        self._func = func
        self._input_types = input_types
        self._result_types = result_types
        self._deterministic = True


scaled = UserDefinedScalarFunctionWrapper(
    lambda x, names: x * len(names), [IntType(), ArrayType()], IntType()
)
split = UserDefinedTableFunctionWrapper(lambda x: x.split(), [VarCharType()], [VarCharType()])
pandas_one = UserDefinedScalarFunctionWrapper(lambda x: x, [IntType()], IntType(), "pandas")

"""Functions on numbers. How to read a signature: `tidemill.plan.functions`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidemill import types as t
from tidemill.plan.expressions import Expr, Literal

SIGNATURES = """
ABS                   number                                  => $1
SIGN                  number                                  => $1
CEIL                  number                                  => whole
CEILING               number                                  => whole
FLOOR                 number                                  => whole
ROUND                 number [INT]                            => rounded
TRUNCATE              number [INT]                            => rounded
POWER                 DOUBLE DOUBLE                           => DOUBLE
SQRT                  DOUBLE                                  => DOUBLE
EXP                   DOUBLE                                  => DOUBLE
LN                    DOUBLE                                  => DOUBLE
LOG                   DOUBLE [DOUBLE]                         => DOUBLE
LOG10                 DOUBLE                                  => DOUBLE
LOG2                  DOUBLE                                  => DOUBLE
SIN                   DOUBLE                                  => DOUBLE
COS                   DOUBLE                                  => DOUBLE
TAN                   DOUBLE                                  => DOUBLE
COT                   DOUBLE                                  => DOUBLE
ASIN                  DOUBLE                                  => DOUBLE
ACOS                  DOUBLE                                  => DOUBLE
ATAN                  DOUBLE                                  => DOUBLE
ATAN2                 DOUBLE DOUBLE                           => DOUBLE
SINH                  DOUBLE                                  => DOUBLE
COSH                  DOUBLE                                  => DOUBLE
TANH                  DOUBLE                                  => DOUBLE
DEGREES               DOUBLE                                  => DOUBLE
RADIANS               DOUBLE                                  => DOUBLE
PI                                                            => DOUBLE!
E                                                             => DOUBLE!
RAND                  [INT]                                   => DOUBLE
RAND_INTEGER          INT [INT]                               => INT
BIN                   BIGINT                                  => STRING
HEX                   integer|string                          => STRING
"""


def _whole(arguments: Sequence[Expr]) -> t.SqlType:
    type_ = arguments[0].type
    return t.DecimalType(precision=type_.precision) if isinstance(type_, t.DecimalType) else type_


def _rounded(arguments: Sequence[Expr]) -> t.SqlType:
    """A DECIMAL has the digits that are asked for, if they are known beforehand."""
    type_ = arguments[0].type
    if not isinstance(type_, t.DecimalType):
        return type_
    digits = arguments[1] if len(arguments) > 1 else Literal(t.INT, 0)
    if not isinstance(digits, Literal) or not isinstance(digits.value, int):
        return type_
    return t.rounded_decimal(type_, digits.value)


RULES: dict[str, Callable[[Sequence[Expr]], t.SqlType]] = {"whole": _whole, "rounded": _rounded}

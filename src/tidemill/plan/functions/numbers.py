"""Functions on numbers. How to read a signature: `tidemill.plan.functions`."""

SIGNATURES = """
ABS                   number                                  -> $1
SIGN                  number                                  -> $1
CEIL                  number                                  -> $1
CEILING               number                                  -> $1
FLOOR                 number                                  -> $1
ROUND                 number [INT]                            -> $1
POWER                 DOUBLE DOUBLE                           -> DOUBLE
SQRT                  DOUBLE                                  -> DOUBLE
EXP                   DOUBLE                                  -> DOUBLE
LN                    DOUBLE                                  -> DOUBLE
LOG10                 DOUBLE                                  -> DOUBLE
LOG2                  DOUBLE                                  -> DOUBLE
SIN                   DOUBLE                                  -> DOUBLE
COS                   DOUBLE                                  -> DOUBLE
TAN                   DOUBLE                                  -> DOUBLE
ASIN                  DOUBLE                                  -> DOUBLE
ACOS                  DOUBLE                                  -> DOUBLE
ATAN                  DOUBLE                                  -> DOUBLE
ATAN2                 DOUBLE DOUBLE                           -> DOUBLE
DEGREES               DOUBLE                                  -> DOUBLE
RADIANS               DOUBLE                                  -> DOUBLE
PI                                                            -> DOUBLE!
E                                                             -> DOUBLE!
BIN                   BIGINT                                  -> STRING
HEX                   any                                     -> STRING
"""

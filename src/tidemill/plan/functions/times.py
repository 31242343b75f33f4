"""Functions on dates and times. How to read a signature: `tidemill.plan.functions`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidemill import types as t
from tidemill.plan.expressions import Expr

SIGNATURES = """
CURRENT_TIMESTAMP                                             -> TIMESTAMP_LTZ(3)!
CURRENT_ROW_TIMESTAMP                                         -> TIMESTAMP_LTZ(3)!
NOW                                                           -> TIMESTAMP_LTZ(3)!
PROCTIME                                                      -> TIMESTAMP_LTZ(3)!
LOCALTIMESTAMP                                                -> TIMESTAMP(3)!
CURRENT_DATE                                                  -> DATE!
LOCALTIME                                                     -> TIME(0)!
CURRENT_TIME                                                  -> TIME(0)!
TO_TIMESTAMP          string [string]                         -> TIMESTAMP(3)?
TO_TIMESTAMP_LTZ      number [INT]                            -> TIMESTAMP_LTZ(3)?
TO_DATE               string [string]                         -> DATE?
DATE_FORMAT           temporal string                         -> STRING
FROM_UNIXTIME         BIGINT [string]                         -> STRING
UNIX_TIMESTAMP        [string] [string]                       -> BIGINT
YEAR                  temporal                                -> BIGINT
QUARTER               temporal                                -> BIGINT
MONTH                 temporal                                -> BIGINT
WEEK                  temporal                                -> BIGINT
DAYOFYEAR             temporal                                -> BIGINT
DAYOFMONTH            temporal                                -> BIGINT
DAYOFWEEK             temporal                                -> BIGINT
HOUR                  temporal                                -> BIGINT
MINUTE                temporal                                -> BIGINT
SECOND                temporal                                -> BIGINT
"""

RULES: dict[str, Callable[[Sequence[Expr]], t.SqlType]] = {}

"""Functions on dates and times. How to read a signature: `tidemill.plan.functions`.

EXTRACT(unit FROM x) is the function of the unit's name where there is one, else `EXTRACT unit`; FLOOR(x TO unit) is
`FLOOR TO` with the unit as a text, which TIMESTAMPADD and TIMESTAMPDIFF have as their first argument. `zoned` is
TIMESTAMP_LTZ, `unzoned` TIMESTAMP; `months` and `millis` are intervals, which are numbers of these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidemill import types as t
from tidemill.plan.expressions import Expr, Literal

SIGNATURES = """
CURRENT_TIMESTAMP                                             -> TIMESTAMP_LTZ(3)!
CURRENT_ROW_TIMESTAMP                                         -> TIMESTAMP_LTZ(3)!
NOW                                                           -> TIMESTAMP_LTZ(3)!
PROCTIME                                                      -> PROCTIME!
LOCALTIMESTAMP                                                -> TIMESTAMP(3)!
CURRENT_DATE                                                  -> DATE!
LOCALTIME                                                     -> TIME(0)!
CURRENT_TIME                                                  -> TIME(0)!
TO_TIMESTAMP          string [string]                         => TIMESTAMP(3)?
TO_TIMESTAMP_LTZ      number [INT]                            -> TIMESTAMP_LTZ(3)?
TO_TIMESTAMP_LTZ      string [string] [string]                -> TIMESTAMP_LTZ(3)?
TO_DATE               string [string]                         => DATE?
DATE_FORMAT           timestamp|string string                 => STRING?
FROM_UNIXTIME         BIGINT [string]                         => STRING?
UNIX_TIMESTAMP                                                => BIGINT!
UNIX_TIMESTAMP        string [string]                         => BIGINT
CONVERT_TZ            string string string                    => STRING?
YEAR                  date|timestamp|months                   => BIGINT
QUARTER               date|timestamp                          => BIGINT
MONTH                 date|timestamp|months                   => BIGINT
WEEK                  date|timestamp                          => BIGINT
DAYOFYEAR             date|timestamp                          => BIGINT
DAYOFMONTH            date|timestamp|millis                   => BIGINT
DAYOFWEEK             date|timestamp                          => BIGINT
HOUR                  temporal|millis                         => BIGINT
MINUTE                temporal|millis                         => BIGINT
SECOND                temporal|millis                         => BIGINT
EXTRACT MILLISECOND   temporal                                => BIGINT
EXTRACT MICROSECOND   timestamp                               => BIGINT
EXTRACT NANOSECOND    timestamp                               => BIGINT
EXTRACT EPOCH         date|timestamp                          => BIGINT
EXTRACT ISODOW        date|timestamp                          => BIGINT
EXTRACT ISOYEAR       date|timestamp                          => BIGINT
EXTRACT DECADE        date|timestamp                          => BIGINT
EXTRACT CENTURY       date|timestamp                          => BIGINT
EXTRACT MILLENNIUM    date|timestamp                          => BIGINT
FLOOR TO              temporal unit                           => $1
CEIL TO               temporal unit                           => $1
TIMESTAMPADD          unit integer temporal                   => shifted
TIMESTAMPDIFF         unit date|unzoned date|unzoned          => INT
TIMESTAMPDIFF         unit zoned zoned                        => INT
"""

_SHIFTS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND")
_STEPS = ("MILLENNIUM", "CENTURY", "DECADE", *_SHIFTS)
# Units that a function takes, and the place of the unit among its arguments.
UNITS: dict[str, tuple[int, tuple[str, ...]]] = {
    "TIMESTAMPADD": (0, _SHIFTS),
    "TIMESTAMPDIFF": (0, _SHIFTS),
    "FLOOR TO": (1, _STEPS),
    "CEIL TO": (1, _STEPS),
}
# Units that a DATE does not have: it becomes a TIMESTAMP when they are added.
_OF_DAY = ("HOUR", "MINUTE", "SECOND", "MILLISECOND")


def _shifted(arguments: Sequence[Expr]) -> t.SqlType:
    unit, _, time = arguments
    assert isinstance(unit, Literal)
    if isinstance(time.type, t.DateType) and unit.value in _OF_DAY:
        return t.TimestampType(precision=6)
    return time.type


RULES: dict[str, Callable[[Sequence[Expr]], t.SqlType]] = {"shifted": _shifted}

"""Comparison, logic and choice. How to read a signature: `tidemill.plan.functions`."""

SIGNATURES = """
=                     common common                           -> BOOLEAN
<>                    common common                           -> BOOLEAN
<                     common common                           -> BOOLEAN
<=                    common common                           -> BOOLEAN
>                     common common                           -> BOOLEAN
>=                    common common                           -> BOOLEAN
IS DISTINCT FROM      common common                           -> BOOLEAN!
IS NOT DISTINCT FROM  common common                           -> BOOLEAN!
IS NULL               any                                     -> BOOLEAN!
IS NOT NULL           any                                     -> BOOLEAN!
IS TRUE               boolean                                 -> BOOLEAN!
IS FALSE              boolean                                 -> BOOLEAN!
AND                   boolean boolean                         -> BOOLEAN
OR                    boolean boolean                         -> BOOLEAN
NOT                   boolean                                 -> BOOLEAN
IN                    common common...                        -> BOOLEAN
COALESCE              common...                               -> common&
IFNULL                common common                           -> common&
NULLIF                common common                           -> $1?
IF                    boolean common common                   -> common
GREATEST              common...                               -> common
LEAST                 common...                               -> common
"""

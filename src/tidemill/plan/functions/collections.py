"""Functions on arrays and maps. How to read a signature: `tidemill.plan.functions`."""

SIGNATURES = """
CARDINALITY           collection                              -> INT
MAP_KEYS              map                                     -> keys
MAP_VALUES            map                                     -> values
ARRAY_CONTAINS        array any                               -> BOOLEAN
"""

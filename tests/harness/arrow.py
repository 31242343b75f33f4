"""Arrow's arrays, compared as tests want it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def same(left: pa.Array, right: pa.Array) -> bool:
    """Equal; a NaN is equal to a NaN, 0 is not equal to -0, and what lies under a NULL does not count."""
    if left.type != right.type or not left.is_null().equals(right.is_null()):
        return False
    if pa.types.is_struct(left.type):
        # Flattened, the columns are NULL where the struct is.
        return all(map(same, left.flatten(), right.flatten()))
    if pa.types.is_map(left.type):
        return same(_entries(left), _entries(right))
    if pa.types.is_list(left.type):
        lengths = pc.list_value_length
        return bool(lengths(left).equals(lengths(right))) and same(left.flatten(), right.flatten())
    if pa.types.is_floating(left.type):
        return bool(left.to_string(window=1 << 20) == right.to_string(window=1 << 20))
    return bool(left.equals(right))


def _entries(maps: pa.MapArray) -> pa.ListArray:
    pairs = pa.StructArray.from_arrays([maps.keys, maps.items], names=["key", "item"])
    return pa.ListArray.from_arrays(maps.offsets, pairs, mask=maps.is_null())

"""Arrow arrays taken apart, and lists, maps and structs put together again with other parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def plain_numbers(values: pa.Array) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Numbers with zeros for nulls, and where the nulls are."""
    mask = np.asarray(values.is_null())
    return values.fill_null(0).to_numpy(zero_copy_only=False), mask


def list_parts(values: pa.ListArray | pa.MapArray) -> tuple[npt.NDArray[np.int32], list[pa.Array]]:
    """Offsets from 0 on, and the elements (of a map: keys and values) that are in valid lists.

    Elements of the buffers below nulls or outside of a slice are left out.
    """
    offsets = np.asarray(values.offsets)
    lengths = np.diff(offsets)
    lengths[np.asarray(values.is_null())] = 0
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    parts = [values.keys, values.items] if pa.types.is_map(values.type) else [values.values]
    if ends[-1] == offsets[-1] - offsets[0]:
        return ends, [part.slice(offsets[0], ends[-1]) for part in parts]
    where = pa.array(np.repeat(offsets[:-1] - ends[:-1], lengths) + np.arange(ends[-1]))
    return ends, [part.take(where) for part in parts]


def list_of(
    values: pa.ListArray | pa.MapArray, offsets: npt.NDArray[np.int32], parts: list[pa.Array], arrow_type: pa.DataType
) -> pa.Array:
    """Lists or maps of `arrow_type` from parts, null where `values` are."""
    mask = values.is_null()
    if pa.types.is_map(arrow_type):
        return pa.MapArray.from_arrays(pa.array(offsets), *parts, type=arrow_type, mask=mask)
    return pa.ListArray.from_arrays(pa.array(offsets), *parts, type=arrow_type, mask=mask)


def struct_of(values: pa.StructArray, parts: list[pa.Array], arrow_type: pa.DataType) -> pa.Array:
    """Structs of `arrow_type` from parts, null where `values` are."""
    fields = [arrow_type.field(i) for i in range(arrow_type.num_fields)]
    return pa.StructArray.from_arrays(parts, fields=fields, mask=values.is_null())

"""Aggregate functions whose values are serialised bitmaps and sketches: `rbm32`, `rbm64`, `hll_sketch`, `theta_sketch`.

Each folds the values of a key by union; the result is the bytes that the Java libraries give for the same values in
the same order. Null values change nothing, and a key with one value keeps its bytes as they are.

Source: `FieldRoaringBitmap32Agg`, `FieldRoaringBitmap64Agg`, `FieldHllSketchAgg`, `FieldThetaSketchAgg` of the Java
library.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

import datasketches
import numpy as np
import pyarrow as pa

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.format.roaring import union_32, union_64
from paimon_engine.merge.versions import Step, Versions

Union = Callable[[bytes, bytes], bytes]
"""Serialised form of what either of two serialised sketches has; the first is the older one."""

_THETA_LG_NOMINAL: Final = 12
_THETA_SHARE_AT: Final = 12
_THETA_SHARE: Final = struct.pack("<f", 1.0)


def rbm32(versions: Versions, column: str) -> pa.Array:
    """Union of bitmaps of 32-bit numbers."""
    return _united(versions, column, union_32)


def rbm64(versions: Versions, column: str) -> pa.Array:
    """Union of bitmaps of 64-bit numbers."""
    return _united(versions, column, union_64)


def hll_sketch(versions: Versions, column: str) -> pa.Array:
    """Union of HyperLogLog sketches."""
    return _united(versions, column, _hll_union)


def theta_sketch(versions: Versions, column: str) -> pa.Array:
    """Union of theta sketches."""
    return _united(versions, column, _theta_union)


def _united(versions: Versions, column: str, union: Union) -> pa.Array:
    """Value of each key: its only one, null, or the union of all, oldest first."""
    counted = versions.only(versions.valid(column))
    values = counted.rows[column]
    counts = counted.ends - counted.starts
    places = counted.at(np.where(counts > 0, counted.ends - 1, -1))
    several = np.flatnonzero(counts > 1)
    results = []
    for key in several.tolist():
        members = counted.positions[counted.starts[key] : counted.ends[key]]
        steps = counted.steps[counted.starts[key] : counted.ends[key]].tolist()
        results.append(_folded(column, values.take(pa.array(members)).to_pylist(), steps, union))
    places[several] = len(values) + np.arange(len(several))
    return pa.concat_arrays([values, pa.array(results, values.type)]).take(pa.array(places, mask=places < 0))


def _folded(column: str, values: list[bytes], steps: list[int], union: Union) -> bytes:
    state = values[0]
    for value, step in zip(values[1:], steps[1:], strict=True):
        try:
            state = union(value, state) if step == Step.ADD_BELOW else union(state, value)
        except (InvalidArgumentError, RuntimeError, ValueError) as error:
            raise InvalidArgumentError(
                f"column {column!r}: a value is no sketch that its aggregate function can unite: {error}"
            ) from error
    return state


def _hll_union(one: bytes, other: bytes) -> bytes:
    newer = datasketches.hll_sketch.deserialize(other)
    union = datasketches.hll_union(newer.lg_config_k)
    union.update(newer)
    union.update(datasketches.hll_sketch.deserialize(one))
    return bytes(union.get_result(datasketches.tgt_hll_type.HLL_4).serialize_compact())


def _theta_union(one: bytes, other: bytes) -> bytes:
    union = datasketches.theta_union(_THETA_LG_NOMINAL)
    union.update(datasketches.compact_theta_sketch.deserialize(one))
    union.update(datasketches.compact_theta_sketch.deserialize(other))
    united = bytes(union.get_result(ordered=True).serialize())
    # Java keeps the sampling share of the sketch there; the field is unused in C++.
    at, end = _THETA_SHARE_AT, _THETA_SHARE_AT + len(_THETA_SHARE)
    return united[:at] + _THETA_SHARE + united[end:] if len(united) >= end else united

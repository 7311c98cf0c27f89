"""Aggregate functions whose values are serialised bitmaps and sketches: `rbm32`, `rbm64`, `hll_sketch`, `theta_sketch`.

Each folds the values of a key by union; the result is the bytes that the Java libraries give for the same values in
the same order. Null values change nothing, and a key with one value keeps its bytes as they are.

Source: `FieldRoaringBitmap32Agg`, `FieldRoaringBitmap64Agg`, `FieldHllSketchAgg`, `FieldThetaSketchAgg` of the Java
library.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa

from paimon_engine.errors import InvalidArgumentError, UnsupportedError
from paimon_engine.format.roaring import union_32, union_64
from paimon_engine.merge.versions import Step, Versions

Union = Callable[[bytes, bytes], bytes]
"""Serialised form of what either of two serialised sketches has; the first is the older one."""

# Bytes of a HyperLogLog sketch: offsets of the fields of its header, and of what follows.
_HLL_LG_K: Final = 3
_HLL_FLAGS: Final = 5
_HLL_MODE: Final = 7
_HLL_SUMS: Final = slice(8, 32)
_HLL_ARRAY_AT: Final = 40
_HLL_SET_AT: Final = 12
_HLL_LIST_AT: Final = 8
_OUT_OF_ORDER: Final = 16
_COUPON_SLOT_BITS: Final = 26
_HLL_LIST, _HLL_ARRAY = 0, 2

# The same of a theta sketch.
_THETA_LG_NOMINAL: Final = 12
_THETA_HEAD_BYTES: Final = 8
_THETA_FLAGS: Final = 5
_THETA_SINGLE: Final = 32
_THETA_SHARE_AT: Final = 12
_THETA_SHARE: Final = struct.pack("<f", 1.0)


def _library() -> Any:
    """The package of sketches, which few tables need: workers may do without it.

    Raises: UnsupportedError.
    """
    try:
        import datasketches
    except ImportError as error:
        raise UnsupportedError(
            f"hll_sketch and theta_sketch need the package datasketches, which {socket.gethostname()} lacks: "
            'pip install "datasketches>=5.2" there'
        ) from error
    return datasketches


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
    indices = counted.at(np.where(counts > 0, counted.ends - 1, -1))
    several = np.flatnonzero(counts > 1)
    results = []
    for key in several.tolist():
        members = counted.positions[counted.starts[key] : counted.ends[key]]
        steps = counted.steps[counted.starts[key] : counted.ends[key]].tolist()
        results.append(_folded(column, values.take(pa.array(members)).to_pylist(), steps, union))
    indices[several] = len(values) + np.arange(len(several))
    return pa.concat_arrays([values, pa.array(results, values.type)]).take(pa.array(indices, mask=indices < 0))


def _folded(column: str, values: list[bytes], steps: list[int], union: Union) -> bytes:
    state = values[0]
    for value, step in zip(values[1:], steps[1:], strict=True):
        try:
            state = union(value, state) if step == Step.ADD_BELOW else union(state, value)
        except (InvalidArgumentError, RuntimeError, ValueError, IndexError) as error:
            raise InvalidArgumentError(
                f"column {column!r}: a value is not a sketch that its aggregate function can unite: {error}"
            ) from error
    return state


def _hll_union(one: bytes, other: bytes) -> bytes:
    datasketches = _library()
    sketches = [datasketches.hll_sketch.deserialize(data) for data in (other, one)]
    union = datasketches.hll_union(sketches[0].lg_config_k)
    for sketch in sketches:
        union.update(sketch)
    united = bytes(union.get_result(datasketches.tgt_hll_type.HLL_4).serialize_compact())
    arrays = [index for index, data in enumerate((other, one)) if _is_out_of_order_array(data)]
    if len(arrays) != 1 or not _is_out_of_order_array(united) or united[_HLL_LG_K] != sketches[arrays[0]].lg_config_k:
        return united
    share = _hip_sum((other, one)[arrays[0]], sketches[arrays[0]], sketches[1 - arrays[0]])
    return united[: _HLL_SUMS.start] + share + united[_HLL_SUMS.start + len(share) :]


def _is_out_of_order_array(data: bytes) -> bool:
    return data[_HLL_MODE] & 3 == _HLL_ARRAY and bool(data[_HLL_FLAGS] & _OUT_OF_ORDER)


def _hip_sum(data: bytes, array: Any, few: Any) -> bytes:
    """The sum of the HIP estimator after the values of `few` went into `array`, whose stored form is `data`.

    It means nothing once sketches were united, so that C++ leaves it 0. Java continues to add to it.
    """
    datasketches = _library()
    union = datasketches.hll_union(array.lg_config_k)
    union.update(array)
    slots = 1 << array.lg_config_k
    highest = bytearray(union.get_result(datasketches.tgt_hll_type.HLL_8).serialize_updatable()[_HLL_ARRAY_AT:][:slots])
    stored = few.serialize_updatable()
    mode = stored[_HLL_MODE] & 3
    if mode == _HLL_ARRAY:
        return bytes(8)
    table = stored[_HLL_LIST_AT if mode == _HLL_LIST else _HLL_SET_AT :]
    hip, low, high = struct.unpack("<ddd", data[_HLL_SUMS])
    for (coupon,) in struct.iter_unpack("<I", table):
        slot, value = coupon & slots - 1, coupon >> _COUPON_SLOT_BITS
        before = highest[slot]
        if value <= before:
            continue
        highest[slot] = value
        hip += slots / (low + high)
        low += (2.0**-value if value < 32 else 0.0) - (2.0**-before if before < 32 else 0.0)
        high += (2.0**-value if value >= 32 else 0.0) - (2.0**-before if before >= 32 else 0.0)
    return struct.pack("<d", hip)


def _theta_union(one: bytes, other: bytes) -> bytes:
    datasketches = _library()
    union = datasketches.theta_union(_THETA_LG_NOMINAL)
    union.update(datasketches.compact_theta_sketch.deserialize(one))
    union.update(datasketches.compact_theta_sketch.deserialize(other))
    united = bytes(union.get_result(ordered=True).serialize())
    return _as_java_marks_it(united)


def _as_java_marks_it(theta: bytes) -> bytes:
    """The sketch with what C++ leaves out of its head: the mark of a single value, or the sampling share."""
    if theta[0] > 1:
        return theta[:_THETA_SHARE_AT] + _THETA_SHARE + theta[_THETA_SHARE_AT + len(_THETA_SHARE) :]
    if len(theta) > _THETA_HEAD_BYTES:
        flags = theta[_THETA_FLAGS] | _THETA_SINGLE
        return theta[:_THETA_FLAGS] + bytes([flags]) + theta[_THETA_FLAGS + 1 :]
    return theta

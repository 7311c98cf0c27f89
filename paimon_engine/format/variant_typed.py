"""Scalars of VARIANT values as Arrow values of one type, as Java Paimon puts them into columns of a file.

A number may be in a column of another numeric type where its value stays the same: 1.00 in one of integers, 3 in one
of decimals. All else must have the type of the column.
Source: `VariantShreddingWriter.tryTypedShred`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.format.variant_nodes import BadVariantError, spread
from paimon_engine.format.variant_parts import numbers_at
from paimon_engine.format.variant_scalars import (
    BINARY,
    DECIMAL4,
    DOUBLE,
    FALSE,
    FLOAT,
    INT1,
    LONG_TEXT,
    SHORT_TEXT,
    TRUE,
    Bytes,
    Ints,
    copy_spans,
)

Mask = npt.NDArray[np.bool_]
DECIMAL_DIGITS_MAX: Final = 38
_LONG_HEAD_BYTES: Final = 5


class Scalar(NamedTuple):
    """Values in one byte string: where each begins, its basic type, and what else its first byte says.

    Those that are no scalars may be among them.
    """

    heap: Bytes
    begins: Ints
    basic: Ints
    info: Ints

    def of_type(self, first: int, last: int | None = None) -> Mask:
        """Which are scalars of the types from the first to the last."""
        mask: Mask = (self.basic == 0) & (self.info >= first) & (self.info <= (first if last is None else last))
        return mask

    def at(self, mask: Mask) -> Scalar:
        """Those of the mask."""
        return Scalar(self.heap, self.begins[mask], self.basic[mask], self.info[mask])


def typed_values(values: Scalar, kind: pa.DataType) -> tuple[Mask, pa.Array]:
    """Which values a column of the type takes, shape [n], and these as an array of it, without nulls.

    Raises: BadVariantError for texts that are no UTF-8.
    """
    for is_kind, convert in _CONVERTERS:
        if is_kind(kind):
            return convert(values, kind)
    raise AssertionError(f"no column of VARIANT has the type {kind}")


def integers_of(values: Scalar) -> tuple[Mask, Ints]:
    """Which values are integers, and these."""
    mask = values.of_type(INT1, INT1 + 3)
    found = values.at(mask)
    bits = np.int64(8) << (found.info - INT1)
    raw = numbers_at(found.heap, found.begins + 1, bits >> 3)
    return mask, raw << (64 - bits) >> (64 - bits)


def decimals_of(values: Scalar) -> tuple[Mask, list[tuple[Ints, pa.Array]]]:
    """Which values are decimals; and of each scale, where they are among these, and their array, DECIMAL(38, scale).

    Raises: BadVariantError for a scale or a value of more than 38 digits.
    """
    mask = values.of_type(DECIMAL4, DECIMAL4 + 2)
    found = values.at(mask)
    scales = found.heap[found.begins + 1]
    sizes = np.int64(4) << (found.info - DECIMAL4)
    low = numbers_at(found.heap, found.begins + 2, np.minimum(sizes, 8))
    is_narrow = sizes == 4
    low[is_narrow] = low[is_narrow].astype("<i4")
    high = low >> 63
    is_wide = sizes == 16
    high[is_wide] = numbers_at(found.heap, found.begins[is_wide] + 10, np.full(int(is_wide.sum()), 8))
    halves = np.stack([low, high], axis=1)
    groups = []
    for scale in np.unique(scales).tolist():
        if scale > DECIMAL_DIGITS_MAX:
            raise BadVariantError(f"a decimal of a VARIANT has the scale {scale}")
        places = np.flatnonzero(scales == scale)
        data = pa.py_buffer(np.ascontiguousarray(halves[places]))
        array = pa.Array.from_buffers(pa.decimal128(DECIMAL_DIGITS_MAX, scale), len(places), [None, data])
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as error:
            raise BadVariantError("a decimal of a VARIANT has more than 38 digits") from error
        groups.append((places, array))
    return mask, groups


def texts_of(values: Scalar) -> tuple[Mask, pa.Array]:
    """Which values are texts, and their bytes."""
    mask = (values.basic == SHORT_TEXT) | values.of_type(LONG_TEXT)
    found = values.at(mask)
    is_long = found.basic == 0
    sizes, begins = found.info.copy(), found.begins + 1
    sizes[is_long] = numbers_at(found.heap, begins[is_long], np.full(int(is_long.sum()), 4))
    begins[is_long] += 4
    return mask, spans(found.heap, begins, sizes)


def spans(heap: Bytes, begins: Ints, sizes: Ints) -> pa.Array:
    """The spans of a byte string as an array of bytes.

    Raises: BadVariantError if they take more bytes than there are, so that they overlap.
    """
    total = int(sizes.sum())
    if total > len(heap):
        raise BadVariantError("values of a VARIANT overlap")
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    data = np.empty(total, np.uint8)
    copy_spans(data, offsets[:-1].astype(np.int64), heap, begins, sizes)
    return pa.Array.from_buffers(pa.binary(), len(sizes), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _booleans(values: Scalar, _: pa.DataType) -> tuple[Mask, pa.Array]:
    mask = values.of_type(TRUE, FALSE)
    return mask, pa.array(values.info[mask] == TRUE)


def _integers(values: Scalar, kind: pa.DataType) -> tuple[Mask, pa.Array]:
    """Integers, and decimals that are whole, within the limits of the type."""
    limits = np.iinfo(kind.to_pandas_dtype())
    mask, found = integers_of(values)
    fits = (found >= limits.min) & (found <= limits.max)
    out = np.zeros(len(mask), np.int64)
    is_taken = np.zeros(len(mask), bool)
    out[mask], is_taken[mask] = found, fits
    of_decimals, groups = decimals_of(values)
    places = np.flatnonzero(of_decimals)
    for within, array in groups:
        chosen, whole = _rescaled(array, DECIMAL_DIGITS_MAX, 0)
        low, high = pa.scalar(limits.min).cast(whole.type), pa.scalar(limits.max).cast(whole.type)
        inside = _mask(pc.and_(pc.greater_equal(whole, low), pc.less_equal(whole, high)))
        at = places[within[chosen][inside]]
        out[at] = whole.filter(pa.array(inside)).cast(pa.int64()).to_numpy(zero_copy_only=False)
        is_taken[at] = True
    return is_taken, pa.array(out[is_taken]).cast(kind)


def _decimals(values: Scalar, kind: pa.DataType) -> tuple[Mask, pa.Array]:
    """Decimals and integers that are the same with the type's digits."""
    is_integer, integers = integers_of(values)
    of_decimals, groups = decimals_of(values)
    places = np.flatnonzero(of_decimals)
    whole = pa.array(integers).cast(pa.decimal128(DECIMAL_DIGITS_MAX, 0))
    taken, arrays = [], []
    for at, array in [(np.flatnonzero(is_integer), whole), *((places[within], array) for within, array in groups)]:
        chosen, fitting = _rescaled(array, kind.precision, kind.scale)
        taken.append(at[chosen])
        arrays.append(fitting.cast(kind))
    found = np.concatenate(taken)
    is_taken = np.zeros(len(values.begins), bool)
    is_taken[found] = True
    return is_taken, pa.concat_arrays(arrays).take(pa.array(np.argsort(found)))


def _rescaled(array: pa.Array, precision: int, scale: int) -> tuple[Mask, pa.Array]:
    """Which decimals are equal to one of that precision and scale, and these: DECIMAL(38, scale)."""
    own = array.type.scale
    if scale >= own:
        mask = _within(array, precision - (scale - own))
        return mask, array.filter(pa.array(mask)).cast(pa.decimal128(DECIMAL_DIGITS_MAX, scale))
    cut = array.cast(pa.decimal128(DECIMAL_DIGITS_MAX, scale), safe=False)
    mask = _mask(pc.equal(cut.cast(array.type), array)) & _within(cut, precision)
    return mask, cut.filter(pa.array(mask))


def _within(array: pa.Array, digits: int) -> Mask:
    """Which decimals have no more digits than these, before and behind the point together."""
    if digits >= DECIMAL_DIGITS_MAX:
        return np.ones(len(array), bool)
    whole = pa.decimal128(DECIMAL_DIGITS_MAX, 0)
    unscaled, limit = array.view(whole), pa.array([10 ** max(digits, 0)], whole)[0]
    return _mask(pc.and_(pc.less(unscaled, limit), pc.greater(unscaled, pc.negate(limit))))


def _mask(found: pa.Array) -> Mask:
    mask: Mask = found.to_numpy(zero_copy_only=False)
    return mask


def _floats(values: Scalar, kind: pa.DataType) -> tuple[Mask, pa.Array]:
    return _of_width(values, kind, FLOAT if pa.types.is_float32(kind) else DOUBLE)


def _of_width(values: Scalar, kind: pa.DataType, code: int) -> tuple[Mask, pa.Array]:
    mask = values.of_type(code)
    begins, width = values.begins[mask] + 1, kind.bit_width // 8
    data = values.heap[spread(begins, np.full(len(begins), width))]
    return mask, pa.Array.from_buffers(kind, len(begins), [None, pa.py_buffer(data)])


def _texts(values: Scalar, kind: pa.DataType) -> tuple[Mask, pa.Array]:
    mask, found = texts_of(values)
    try:
        return mask, found.cast(kind)
    except pa.ArrowInvalid as error:
        raise BadVariantError("a text of a VARIANT is no UTF-8") from error


def _binaries(values: Scalar, _: pa.DataType) -> tuple[Mask, pa.Array]:
    mask = values.of_type(BINARY)
    begins = values.begins[mask]
    sizes = numbers_at(values.heap, begins + 1, np.full(len(begins), 4))
    return mask, spans(values.heap, begins + _LONG_HEAD_BYTES, sizes)


_CONVERTERS: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[Scalar, Any], tuple[Mask, pa.Array]]], ...]] = (
    (pa.types.is_boolean, _booleans),
    (pa.types.is_signed_integer, _integers),
    (pa.types.is_decimal, _decimals),
    (pa.types.is_floating, _floats),
    (pa.types.is_string, _texts),
    (pa.types.is_binary, _binaries),
)

"""The binary form of VARIANT values: sizes of scalars, and the parts of objects and arrays, of many values at once.

All functions take the values as places in one byte string: where each begins, and where the bytes that it may use end.
They raise BadVariantError if the bytes break the format.
Source: parquet-format, VariantEncoding.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from paimon_engine.format.variant_nodes import OBJECT, BadVariantError, spread
from paimon_engine.format.variant_scalars import BINARY, LONG_TEXT, SHORT_TEXT, Bytes, Ints, copy_spans, spans_of

_UNKNOWN: Final = 0
_SIZES: Final = np.zeros(64, np.int64)
"""Bytes of a scalar of each type; those of variable length have a number of 4 bytes behind the head."""
_SIZES[:17] = [1, 1, 1, 2, 3, 5, 9, 9, 6, 10, 18, 5, 9, 9, 5, 5, 5]
_SIZES[20] = 17
_VERSION_BITS: Final = 0x0F
ID_BITS: Final = 32
"""A pair is a number of a metadata, shifted by these, and a number of a name in it."""


def check(is_good: NDArray[np.bool_]) -> None:
    """Raises BadVariantError unless all are good."""
    if not is_good.all():
        raise BadVariantError("the bytes of a VARIANT break its format")


def numbers_at(data: Bytes, begins: Ints, widths: Ints) -> Ints:
    """Numbers of so many bytes each, the lowest first."""
    found = np.zeros(len(begins), np.int64)
    for index in range(int(widths.max(initial=0))):
        chosen = widths > index
        found[chosen] |= data[begins[chosen] + index].astype(np.int64) << 8 * index
    return found


def heads_of(heap: Bytes, begins: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """The basic type of each value, and what else its first byte says."""
    check(begins < ends)
    heads = heap[begins].astype(np.int64)
    return heads & 3, heads >> 2


def scalar_sizes(heap: Bytes, begins: Ints, ends: Ints, basic: Ints, info: Ints) -> Ints:
    """The bytes that each scalar takes."""
    is_short = basic == SHORT_TEXT
    sizes = np.where(is_short, 1 + info, _SIZES[info])
    check(sizes != _UNKNOWN)
    is_long = ~is_short & ((info == BINARY) | (info == LONG_TEXT))
    check(begins + sizes <= ends)
    sizes[is_long] += numbers_at(heap, begins[is_long] + 1, np.full(int(is_long.sum()), 4))
    check(begins + sizes <= ends)
    return sizes


def value_sizes(heap: Bytes, begins: Ints, ends: Ints) -> Ints:
    """The bytes that each value takes."""
    basic, info = heads_of(heap, begins, ends)
    sizes = np.zeros(len(begins), np.int64)
    outer = basic >= OBJECT
    heads = Heads.of(heap, begins[outer], ends[outer], basic[outer], info[outer])
    sizes[outer] = heads.sizes(heap)
    plain = ~outer
    sizes[plain] = scalar_sizes(heap, begins[plain], ends[plain], basic[plain], info[plain])
    check(begins + sizes <= ends)
    return sizes


@dataclass(frozen=True, slots=True)
class Heads:
    """The heads of objects and arrays: how many parts each has, and where their names, places and bytes begin."""

    is_object: NDArray[np.bool_]
    counts: Ints
    begins: Ints
    ids_begin: Ints
    id_widths: Ints
    offsets_begin: Ints
    offset_widths: Ints
    data_begin: Ints

    @classmethod
    def of(cls, heap: Bytes, begins: Ints, ends: Ints, basic: Ints, info: Ints) -> Heads:
        """Those of values whose first bytes are known."""
        is_object = basic == OBJECT
        count_widths = np.where(info >> np.where(is_object, 4, 2) & 1, 4, 1)
        offset_widths = (info & 3) + 1
        id_widths = np.where(is_object, (info >> 2 & 3) + 1, 0)
        ids_begin = begins + 1 + count_widths
        check(ids_begin <= ends)
        counts = numbers_at(heap, begins + 1, count_widths)
        offsets_begin = ids_begin + counts * id_widths
        data_begin = offsets_begin + (counts + 1) * offset_widths
        check(data_begin <= ends)
        return cls(is_object, counts, begins, ids_begin, id_widths, offsets_begin, offset_widths, data_begin)

    def sizes(self, heap: Bytes) -> Ints:
        """The bytes of each, as its last offset says."""
        last = numbers_at(heap, self.offsets_begin + self.counts * self.offset_widths, self.offset_widths)
        return self.data_begin - self.begins + last

    def parts(self, heap: Bytes) -> tuple[Ints, Ints, Ints]:
        """Of all parts in order: which value each is in, the how manieth there, and where it begins, unchecked."""
        outer = np.repeat(np.arange(len(self.counts)), self.counts)
        within = spread(np.zeros(len(self.counts), np.int64), self.counts)
        widths = self.offset_widths[outer]
        offsets = numbers_at(heap, self.offsets_begin[outer] + within * widths, widths)
        return outer, within, self.data_begin[outer] + offsets

    def ids(self, heap: Bytes, outer: Ints, within: Ints) -> Ints:
        """The numbers of the names of parts of objects."""
        widths = self.id_widths[outer]
        return numbers_at(heap, self.ids_begin[outer] + within * widths, widths)


def names_of(metadata: pa.Array, pairs: Ints) -> pa.Array:
    """The names of pairs of a metadata and a number in it.

    Raises: BadVariantError.
    """
    data, begins, sizes = spans_of(metadata)
    which, ids = pairs >> ID_BITS, pairs & (1 << ID_BITS) - 1
    begins, ends = begins[which], (begins + sizes)[which]
    check(begins < ends)
    heads = data[begins].astype(np.int64)
    check(heads & _VERSION_BITS == 1)
    widths = (heads >> 6) + 1
    check(begins + 1 + widths <= ends)
    counts = numbers_at(data, begins + 1, widths)
    texts = begins + 1 + widths * (counts + 2)
    check((ids < counts) & (texts <= ends))
    at = begins + 1 + widths * (1 + ids)
    firsts, lasts = numbers_at(data, at, widths), numbers_at(data, at + widths, widths)
    check((firsts <= lasts) & (texts + lasts <= ends))
    lengths = lasts - firsts
    if int(lengths.sum()) > len(data):
        raise BadVariantError("names of a VARIANT overlap")
    out = np.empty(int(lengths.sum()), np.uint8)
    offsets = np.append(0, np.cumsum(lengths))
    copy_spans(out, offsets[:-1], data, texts + firsts, lengths)
    names = pa.Array.from_buffers(
        pa.binary(), len(pairs), [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(out)]
    )
    try:
        pc.cast(names, pa.string())
    except pa.ArrowInvalid as error:
        raise BadVariantError("a name of a VARIANT is no UTF-8") from error
    return names

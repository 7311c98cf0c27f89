"""VARIANT values in their binary form, taken apart into nodes: those of a depth of all rows at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from paimon_engine.format.variant_nodes import (
    NO_KEY,
    OBJECT,
    SCALAR,
    BadVariantError,
    Nodes,
    Placed,
    spread,
)
from paimon_engine.format.variant_scalars import BINARY, LONG_TEXT, SHORT_TEXT, Bytes, Ints, copy_spans, spans_of

DEPTH_MAX: Final = 1_000
"""Of objects and arrays within each other, as in Java's reader of JSON."""
_UNKNOWN: Final = 0
_SIZES: Final = np.zeros(64, np.int64)
"""Bytes of a scalar of each type; those of variable length have a number of 4 bytes behind the head."""
_SIZES[:17] = [1, 1, 1, 2, 3, 5, 9, 9, 6, 10, 18, 5, 9, 9, 5, 5, 5]
_SIZES[20] = 17
_VERSION_BITS: Final = 0x0F
_ID_BITS: Final = 32


class _Front(NamedTuple):
    """Values to look at: where each begins and where its bytes end, its node, row, and the rank of its first part.

    `groups`: for the leftover fields of an object, which object of the columns it is; others have -1.
    """

    begins: Ints
    ends: Ints
    nodes: Ints
    rows: Ints
    first_ranks: Ints
    groups: Ints


@dataclass
class Leftovers:
    """Values of the `value` columns, whose nodes are added to those of the other columns."""

    nodes: Nodes
    metadata: pa.Array
    """Of each row."""
    first_key: int
    """The number that keys get which no column has."""

    def __post_init__(self) -> None:
        self._heaps: list[Bytes] = []
        self._size = 0
        self._fronts: list[_Front] = []
        self._pairs: list[Ints] = []
        self._forbidden: list[tuple[Ints, Ints]] = []
        """Keys of fields, as places in the pairs, and the objects of columns that they are in."""

    def add(self, values: pa.Array, nodes: Ints, rows: Ints, *, first_rank: int = 0, group: int = -1) -> None:
        """Values without nulls that are these nodes, or of an object, `group`, the fields beside those of columns."""
        data, begins, sizes = spans_of(values)
        begins = begins + self._size
        self._heaps.append(data)
        self._size += len(data)
        ranks, groups = np.full(len(nodes), first_rank), np.full(len(nodes), group)
        self._fronts.append(_Front(begins, begins + sizes, nodes, rows, ranks, groups))

    def taken_apart(self) -> tuple[pa.Array, Ints]:
        """Adds all nodes. The names of keys from `first_key` on, and for each key that was found its place in them.

        Raises: BadVariantError.
        """
        if not self._fronts:
            return pa.array([], pa.binary()), np.zeros(0, np.int64)
        heap = np.concatenate(self._heaps)
        data_begin = self.nodes.add_data(heap)
        front = _Front(*(np.concatenate(parts) for parts in zip(*self._fronts, strict=True)))
        self._left_nodes = self._left_bytes = len(heap) + 1
        metadata = self.metadata.dictionary_encode()
        rows = metadata.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        depth = 0
        while len(front.begins):
            depth += 1
            if depth > DEPTH_MAX:
                raise BadVariantError(f"a VARIANT has more than {DEPTH_MAX} objects and arrays within each other")
            front = self._step(heap, data_begin, front, rows)
        pairs = np.concatenate([np.zeros(0, np.int64), *self._pairs])
        distinct, inverse = np.unique(pairs, return_inverse=True)
        return _names(metadata.dictionary, distinct), inverse

    def forbidden(self) -> list[tuple[Ints, Ints]]:
        """Of the fields beside those of columns: the place of each key among those found, and its object's group."""
        return self._forbidden

    def _step(self, heap: Bytes, data_begin: int, front: _Front, metadata_of: Ints) -> _Front:
        """Adds the nodes within those of the front, which are the next one."""
        _check(front.begins < front.ends)
        heads = heap[front.begins].astype(np.int64)
        basic, info = heads & 3, heads >> 2
        is_outer = basic >= OBJECT
        _check(is_outer & (basic == OBJECT) | (front.groups < 0))
        scalars = ~is_outer
        self._scalars(heap, data_begin, _chosen(front, scalars), basic[scalars], info[scalars])
        own = is_outer & (front.groups < 0)
        self.nodes.set_kinds(front.nodes[own], basic[own].astype(np.uint8))
        return self._parts(heap, _chosen(front, is_outer), basic[is_outer], info[is_outer], metadata_of)

    def _scalars(self, heap: Bytes, data_begin: int, front: _Front, basic: Ints, info: Ints) -> None:
        is_short = basic == SHORT_TEXT
        sizes = np.where(is_short, 1 + info, _SIZES[info])
        _check(sizes != _UNKNOWN)
        is_long = ~is_short & ((info == BINARY) | (info == LONG_TEXT))
        _check(front.begins + sizes <= front.ends)
        sizes[is_long] += _numbers(heap, front.begins[is_long] + 1, np.full(int(is_long.sum()), 4))
        _check(front.begins + sizes <= front.ends)
        self._left_bytes -= int(sizes.sum())
        if self._left_bytes < 0:
            raise BadVariantError("values of a VARIANT overlap")
        self.nodes.set_kinds(front.nodes, SCALAR)
        self.nodes.set_scalars(front.nodes, front.begins + data_begin, sizes)

    def _parts(self, heap: Bytes, front: _Front, basic: Ints, info: Ints, metadata_of: Ints) -> _Front:
        """Adds the parts of objects and arrays, which are the next front."""
        is_object = basic == OBJECT
        count_widths = np.where(info >> np.where(is_object, 4, 2) & 1, 4, 1)
        offset_widths = (info & 3) + 1
        id_widths = np.where(is_object, (info >> 2 & 3) + 1, 0)
        ids_begin = front.begins + 1 + count_widths
        _check(ids_begin <= front.ends)
        counts = _numbers(heap, front.begins + 1, count_widths)
        offsets_begin = ids_begin + counts * id_widths
        data_begin = offsets_begin + (counts + 1) * offset_widths
        _check(data_begin <= front.ends)
        self._left_nodes -= int(counts.sum())
        if self._left_nodes < 0:
            raise BadVariantError("values of a VARIANT overlap")
        outer = np.repeat(np.arange(len(counts)), counts)
        within = spread(np.zeros(len(counts), np.int64), counts)
        offsets = _numbers(heap, offsets_begin[outer] + within * offset_widths[outer], offset_widths[outer])
        in_object = is_object[outer]
        keyed = outer[in_object]
        ids = _numbers(heap, ids_begin[keyed] + within[in_object] * id_widths[keyed], id_widths[keyed])
        keys = np.full(len(outer), NO_KEY)
        known = sum(map(len, self._pairs))
        # What a key is, is known when all names are: until then it is its place among those found.
        keys[in_object] = self.first_key + known + np.arange(len(keyed))
        rows = front.rows[outer]
        self._pairs.append(metadata_of[rows[in_object]] << _ID_BITS | ids)
        in_group = front.groups[keyed] >= 0
        if in_group.any():
            self._forbidden.append((known + np.flatnonzero(in_group), front.groups[keyed][in_group]))
        placed = Placed(front.nodes[outer], front.first_ranks[outer] + within, keys, rows)
        zeros = np.zeros(len(outer), np.int64)
        begins = data_begin[outer] + offsets
        return _Front(begins, front.ends[outer], self.nodes.add(placed), rows, zeros, zeros - 1)


def _chosen(front: _Front, mask: NDArray[np.bool_]) -> _Front:
    return _Front(*(column[mask] for column in front))


def _check(is_good: NDArray[np.bool_]) -> None:
    if not is_good.all():
        raise BadVariantError("the bytes of a VARIANT break its format")


def _numbers(data: Bytes, begins: Ints, widths: Ints) -> Ints:
    """Numbers of so many bytes each, the lowest first."""
    found = np.zeros(len(begins), np.int64)
    for index in range(int(widths.max(initial=0))):
        chosen = widths > index
        found[chosen] |= data[begins[chosen] + index].astype(np.int64) << 8 * index
    return found


def _names(metadata: pa.Array, pairs: Ints) -> pa.Array:
    """The names of pairs of a metadata and a number in it.

    Raises: BadVariantError.
    """
    data, begins, sizes = spans_of(metadata)
    which, ids = pairs >> _ID_BITS, pairs & (1 << _ID_BITS) - 1
    begins, ends = begins[which], (begins + sizes)[which]
    _check(begins < ends)
    heads = data[begins].astype(np.int64)
    _check(heads & _VERSION_BITS == 1)
    widths = (heads >> 6) + 1
    _check(begins + 1 + widths <= ends)
    counts = _numbers(data, begins + 1, widths)
    texts = begins + 1 + widths * (counts + 2)
    _check((ids < counts) & (texts <= ends))
    at = begins + 1 + widths * (1 + ids)
    firsts, lasts = _numbers(data, at, widths), _numbers(data, at + widths, widths)
    _check((firsts <= lasts) & (texts + lasts <= ends))
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

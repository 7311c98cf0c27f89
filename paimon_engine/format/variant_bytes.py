"""VARIANT values in their binary form, taken apart into nodes: those of a depth of all rows at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from paimon_engine.format.variant_nodes import NO_KEY, OBJECT, SCALAR, BadVariantError, Nodes, Placed
from paimon_engine.format.variant_parts import ID_BITS, Heads, check, heads_of, names_of, scalar_sizes
from paimon_engine.format.variant_scalars import Bytes, Ints, spans_of

DEPTH_MAX: Final = 1_000
"""Of objects and arrays within each other, as in Java's reader of JSON."""


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
        return names_of(metadata.dictionary, distinct), inverse

    def forbidden(self) -> list[tuple[Ints, Ints]]:
        """Of the fields beside those of columns: the place of each key among those found, and its object's group."""
        return self._forbidden

    def _step(self, heap: Bytes, data_begin: int, front: _Front, metadata_of: Ints) -> _Front:
        """Adds the nodes within those of the front, which are the next one."""
        basic, info = heads_of(heap, front.begins, front.ends)
        is_outer = basic >= OBJECT
        check(is_outer & (basic == OBJECT) | (front.groups < 0))
        scalars = ~is_outer
        self._scalars(heap, data_begin, _chosen(front, scalars), basic[scalars], info[scalars])
        own = is_outer & (front.groups < 0)
        self.nodes.set_kinds(front.nodes[own], basic[own].astype(np.uint8))
        return self._parts(heap, _chosen(front, is_outer), basic[is_outer], info[is_outer], metadata_of)

    def _scalars(self, heap: Bytes, data_begin: int, front: _Front, basic: Ints, info: Ints) -> None:
        sizes = scalar_sizes(heap, front.begins, front.ends, basic, info)
        self._left_bytes -= int(sizes.sum())
        if self._left_bytes < 0:
            raise BadVariantError("values of a VARIANT overlap")
        self.nodes.set_kinds(front.nodes, SCALAR)
        self.nodes.set_scalars(front.nodes, front.begins + data_begin, sizes)

    def _parts(self, heap: Bytes, front: _Front, basic: Ints, info: Ints, metadata_of: Ints) -> _Front:
        """Adds the parts of objects and arrays, which are the next front."""
        heads = Heads.of(heap, front.begins, front.ends, basic, info)
        self._left_nodes -= int(heads.counts.sum())
        if self._left_nodes < 0:
            raise BadVariantError("values of a VARIANT overlap")
        outer, within, begins = heads.parts(heap)
        in_object = heads.is_object[outer]
        keyed = outer[in_object]
        ids = heads.ids(heap, keyed, within[in_object])
        keys = np.full(len(outer), NO_KEY)
        known = sum(map(len, self._pairs))
        # What a key is, is known when all names are: until then it is its place among those found.
        keys[in_object] = self.first_key + known + np.arange(len(keyed))
        rows = front.rows[outer]
        self._pairs.append(metadata_of[rows[in_object]] << ID_BITS | ids)
        in_group = front.groups[keyed] >= 0
        if in_group.any():
            self._forbidden.append((known + np.flatnonzero(in_group), front.groups[keyed][in_group]))
        placed = Placed(front.nodes[outer], front.first_ranks[outer] + within, keys, rows)
        zeros = np.zeros(len(outer), np.int64)
        return _Front(begins, front.ends[outer], self.nodes.add(placed), rows, zeros, zeros - 1)


def _chosen(front: _Front, mask: NDArray[np.bool_]) -> _Front:
    return _Front(*(column[mask] for column in front))

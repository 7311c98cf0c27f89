"""VARIANT values made of nodes: objects, arrays and scalars of many rows, in arrays of NumPy.

The bytes are those of Java Paimon (`GenericVariantBuilder`): a row's names are numbered in the order in which its
fields are visited, an object lists its fields by name and has their values in the order of the visit, and each number
in a header takes the fewest bytes that its largest one needs. All of it is computed for all nodes of a depth at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from paimon_engine.format.variant_scalars import Bytes, Ints, copy_spans, numbers, spans_of

SCALAR: Final = 0
OBJECT: Final = 2
ARRAY: Final = 3
"""Kinds of nodes; those of objects and arrays are also their basic types in the binary form."""
NO_KEY: Final = -1
VALUE_BYTES_MAX: Final = 128 << 20
"""Java takes no longer value, and no longer list of names."""
LARGE_COUNT: Final = 255
_VERSION: Final = 1


class BadVariantError(Exception):
    """The parts of a VARIANT break its format; says how."""


class TooLongError(Exception):
    """The values of these rows take more bytes than a batch may have."""


class Placed(NamedTuple):
    """Where nodes belong: at which rank among the parts of which node, of which row, under which key."""

    parents: Ints
    ranks: Ints
    keys: Ints
    rows: Ints


class Nodes:
    """Nodes in any order, but parents before their parts. A node of no parent is the value of its row."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.count = 0
        self._placed: list[Placed] = []
        self._kinds: list[tuple[Ints, NDArray[np.uint8]]] = []
        self._scalars: list[tuple[Ints, Ints, Ints]] = []
        self._data: list[Bytes] = []
        self._data_size = 0

    def add(self, placed: Placed) -> Ints:
        """The numbers of new nodes."""
        begin = self.count
        self.count += len(placed.rows)
        self._placed.append(placed)
        return np.arange(begin, self.count)

    def set_kinds(self, nodes: Ints, kinds: NDArray[np.uint8] | int) -> None:
        """Says that nodes are objects or arrays."""
        self._kinds.append((nodes, np.broadcast_to(np.asarray(kinds, np.uint8), nodes.shape)))

    def add_data(self, data: Bytes) -> int:
        """Where the data begin in all data of scalars."""
        begin = self._data_size
        self._data.append(data)
        self._data_size += len(data)
        return begin

    def set_scalars(self, nodes: Ints, begins: Ints, sizes: Ints) -> None:
        """Says where in the data nodes are, which are scalars."""
        self._scalars.append((nodes, begins, sizes))

    def name_keys(self, names: Ints) -> None:
        """Says which name each key is: keys are indices in these until then, and these in the names."""
        named = np.append(names, NO_KEY)
        self._placed = [placed._replace(keys=named[placed.keys]) for placed in self._placed]

    def built(self, names: pa.Array, bytes_max: int | None) -> tuple[pa.Array, pa.Array]:
        """`value` and `metadata` of each row; a key is an index in `names`, which have no two alike.

        Raises: BadVariantError; TooLongError for more than `bytes_max` bytes.
        """
        table = _NodeTable.of(self._placed, self._kinds, self._scalars, self.count)
        levels = table.levels()
        keys = _RowKeys.of(table, table.order(levels), self.rows)
        lengths = spans_of(names)
        metadata_sizes = keys.metadata_sizes(lengths.sizes)
        layout = _Layout(table, levels, keys.ids, _ranks_of(names))
        sizes = np.zeros(self.rows, np.int64)
        sizes[table.rows[levels[0]]] = layout.sizes[levels[0]]
        total = int(sizes.sum() + metadata_sizes.sum())
        if bytes_max is not None and total > bytes_max:
            raise TooLongError
        if max(int(sizes.max(initial=0)), int(metadata_sizes.max(initial=0))) > VALUE_BYTES_MAX:
            raise BadVariantError("a VARIANT takes more than 128 MiB")
        data = np.concatenate([np.zeros(0, np.uint8), *self._data])
        values = layout.written(data, np.cumsum(sizes) - sizes, int(sizes.sum()))
        return _binaries(values, sizes), _binaries(keys.metadata(lengths, metadata_sizes), metadata_sizes)


def _ranks_of(names: pa.Array) -> Ints:
    """The place of each name in the order of bytes."""
    ranks = np.empty(len(names), np.int64)
    ranks[numbers(pc.sort_indices(names), "<u8").astype(np.int64)] = np.arange(len(names))
    return ranks


def _binaries(data: Bytes, sizes: Ints) -> pa.Array:
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    kind = pa.binary() if offsets[-1] <= np.iinfo(np.int32).max else pa.large_binary()
    buffer = offsets.astype(np.int32 if kind == pa.binary() else np.int64)
    return pa.Array.from_buffers(kind, len(sizes), [None, pa.py_buffer(buffer), pa.py_buffer(data)])


@dataclass(frozen=True)
class _NodeTable:
    """All nodes: by number their place, kind and, for a scalar, its bytes in the data."""

    parents: Ints
    ranks: Ints
    keys: Ints
    rows: Ints
    kinds: NDArray[np.uint8]
    begins: Ints
    sizes: Ints

    @classmethod
    def of(
        cls,
        placed: Sequence[Placed],
        kinds: Sequence[tuple[Ints, NDArray[np.uint8]]],
        scalars: Sequence[tuple[Ints, Ints, Ints]],
        count: int,
    ) -> _NodeTable:
        empty = np.zeros(0, np.int64)
        place = Placed(
            *(np.concatenate([empty, *(one[index] for one in placed)]) for index in range(len(Placed._fields)))
        )
        all_kinds, begins, sizes = np.zeros(count, np.uint8), np.zeros(count, np.int64), np.zeros(count, np.int64)
        for nodes, found in kinds:
            all_kinds[nodes] = found
        for nodes, some_begins, some_sizes in scalars:
            begins[nodes], sizes[nodes] = some_begins, some_sizes
        return cls(place.parents, place.ranks, place.keys, place.rows, all_kinds, begins, sizes)

    def levels(self) -> list[Ints]:
        """The nodes of each depth, in the order of their parents, and of these their ranks."""
        roots = np.flatnonzero(self.parents < 0)
        levels = [roots[np.argsort(self.rows[roots], kind="stable")]]
        inner = np.flatnonzero(self.parents >= 0)
        # Grouped by parent in the order of ranks.
        inner = inner[np.lexsort((self.ranks[inner], self.parents[inner]))]
        counts = np.bincount(self.parents[inner], minlength=len(self.parents))
        begins = np.cumsum(counts) - counts
        while True:
            above = levels[-1]
            parts = spread(begins[above], counts[above])
            if not len(parts):
                return levels
            levels.append(inner[parts])

    def order(self, levels: Sequence[Ints]) -> Ints:
        """The nodes in the order of the visit: by row, parents before their parts."""
        counts = np.ones(len(self.parents), np.int64)
        for level in reversed(levels[1:]):
            np.add.at(counts, self.parents[level], counts[level])
        places = np.zeros(len(self.parents), np.int64)
        places[levels[0]] = _before(counts[levels[0]])
        for level in levels[1:]:
            parents = self.parents[level]
            places[level] = places[parents] + 1 + before_siblings(counts[level], parents)
        order = np.empty(len(places), np.int64)
        order[places] = np.arange(len(places))
        return order


def spread(begins: Ints, counts: Ints) -> Ints:
    """begin, begin + 1, ... of each, so many as its count, one after the other."""
    return np.repeat(begins - _before(counts), counts) + np.arange(int(counts.sum()))


def _before(sizes: Ints) -> Ints:
    return np.cumsum(sizes) - sizes


def before_siblings(sizes: Ints, parents: Ints) -> Ints:
    """The sum of those before each one of the same parent; parts of a parent follow each other."""
    before = _before(sizes)
    is_first = np.ones(len(parents), bool)
    is_first[1:] = parents[1:] != parents[:-1]
    firsts = np.flatnonzero(is_first)
    return before - np.repeat(before[firsts], np.diff(np.append(firsts, len(parents))))


@dataclass(frozen=True)
class _RowKeys:
    """The keys of each row in the order of their numbers: `keys` one row after the other; `ids` by node."""

    keys: Ints
    counts: Ints
    ids: Ints

    @classmethod
    def of(cls, table: _NodeTable, order: Ints, rows: int) -> _RowKeys:
        named = order[table.keys[order] >= 0]
        width = int(table.keys.max(initial=0)) + 1
        pairs = table.rows[named] * width + table.keys[named]
        distinct, firsts, inverse = np.unique(pairs, return_index=True, return_inverse=True)
        by_first = np.argsort(firsts, kind="stable")
        found = distinct[by_first]
        counts = np.bincount(found // width, minlength=rows)
        ids_of_pairs = np.empty(len(found), np.int64)
        ids_of_pairs[by_first] = np.arange(len(found)) - np.repeat(_before(counts), counts)
        ids = np.full(len(table.keys), NO_KEY, np.int64)
        ids[named] = ids_of_pairs[inverse]
        return cls(found % width, counts, ids)

    def _text_sizes(self, lengths: Ints) -> Ints:
        ends = np.append(0, np.cumsum(lengths[self.keys]))
        until = np.cumsum(self.counts)
        found: Ints = ends[until] - ends[until - self.counts]
        return found

    def metadata_sizes(self, lengths: Ints) -> Ints:
        """Bytes of the metadata of each row, given those of each name."""
        texts = self._text_sizes(lengths)
        return 1 + widths_of(np.maximum(texts, self.counts)) * (self.counts + 2) + texts

    def metadata(self, names: tuple[Bytes, Ints, Ints], sizes: Ints) -> Bytes:
        """The metadata of all rows: a head, the number of names, their offsets, and the names."""
        source, name_begins, lengths = names
        own = lengths[self.keys]
        texts = self._text_sizes(lengths)
        widths = widths_of(np.maximum(texts, self.counts))
        begins = _before(sizes)
        out = np.empty(int(sizes.sum()), np.uint8)
        out[begins] = _VERSION | (widths - 1) << 6
        put_numbers(out, begins + 1, self.counts, widths)
        rows = np.repeat(np.arange(len(sizes)), self.counts)
        offsets = before_siblings(own, rows)
        numbers_within = np.arange(len(rows)) - np.repeat(_before(self.counts), self.counts)
        put_numbers(out, begins[rows] + 1 + widths[rows] * (1 + numbers_within), offsets, widths[rows])
        put_numbers(out, begins + 1 + widths * (1 + self.counts), texts, widths)
        at = begins[rows] + 1 + widths[rows] * (self.counts[rows] + 2) + offsets
        copy_spans(out, at, source, name_begins[self.keys], own)
        return out


def widths_of(largest: Ints) -> Ints:
    """Bytes that numbers up to this one take."""
    return 1 + (largest > 0xFF).astype(np.int64) + (largest > 0xFFFF) + (largest > 0xFFFFFF)


def put_numbers(out: Bytes, begins: Ints, values: Ints, widths: Ints) -> None:
    """Writes numbers, the lowest byte first, in so many bytes each."""
    for index in range(int(widths.max(initial=0))):
        chosen = widths > index
        out[begins[chosen] + index] = values[chosen] >> 8 * index & 255


@dataclass
class _Layout:
    """How many bytes each node takes, and its header.

    Raises: BadVariantError for an object with a key twice.
    """

    table: _NodeTable
    levels: Sequence[Ints]
    ids: Ints
    name_ranks: Ints
    sizes: Ints = field(init=False)

    def __post_init__(self) -> None:
        table, count = self.table, len(self.table.parents)
        self.sizes = table.sizes.copy()
        self._heads, self._content = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self._counts, self._id_widths = np.zeros(count, np.int64), np.ones(count, np.int64)
        below, largest = np.zeros(0, np.int64), np.zeros(count, np.int64)
        for level in reversed(self.levels):
            parents = table.parents[below]
            np.add.at(self._content, parents, self.sizes[below])
            np.add.at(self._counts, parents, 1)
            np.maximum.at(largest, parents, self.ids[below])
            self._id_widths[parents] = widths_of(largest[parents])
            outer = level[table.kinds[level] != SCALAR]
            self._heads[outer] = self._head_sizes(outer)
            self.sizes[outer] = self._heads[outer] + self._content[outer]
            below = level

    def _count_widths(self, outer: Ints) -> Ints:
        return np.where(self._counts[outer] > LARGE_COUNT, 4, 1)

    def _head_sizes(self, outer: Ints) -> Ints:
        counts = self._counts[outer]
        ids = np.where(self.table.kinds[outer] == OBJECT, self._id_widths[outer], 0)
        return 1 + self._count_widths(outer) + counts * ids + (counts + 1) * widths_of(self._content[outer])

    def written(self, data: Bytes, begins: Ints, size: int) -> Bytes:
        """The bytes of all rows, of which the value begins at these places; `data` has those of the scalars."""
        table = self.table
        out = np.zeros(size, np.uint8)
        places = np.zeros(len(table.parents), np.int64)
        places[self.levels[0]] = begins[table.rows[self.levels[0]]]
        for level, below in zip(self.levels, [*self.levels[1:], np.zeros(0, np.int64)], strict=True):
            scalars = level[table.kinds[level] == SCALAR]
            copy_spans(out, places[scalars], data, table.begins[scalars], table.sizes[scalars])
            outer = level[table.kinds[level] != SCALAR]
            self._write_heads(out, places, outer)
            parents = table.parents[below]
            offsets = before_siblings(self.sizes[below], parents)
            places[below] = places[parents] + self._heads[parents] + offsets
            self._write_parts(out, places, below, offsets)
        return out

    def _write_heads(self, out: Bytes, places: Ints, outer: Ints) -> None:
        counts, count_widths = self._counts[outer], self._count_widths(outer)
        offset_widths = widths_of(self._content[outer])
        is_object = self.table.kinds[outer] == OBJECT
        large = (counts > LARGE_COUNT).astype(np.int64)
        info = np.where(is_object, large << 4 | self._id_widths[outer] - 1 << 2, large << 2)
        out[places[outer]] = (info | offset_widths - 1) << 2 | self.table.kinds[outer]
        put_numbers(out, places[outer] + 1, counts, count_widths)
        end = places[outer] + self._heads[outer] - offset_widths
        put_numbers(out, end, self._content[outer], offset_widths)

    def _write_parts(self, out: Bytes, places: Ints, below: Ints, offsets: Ints) -> None:
        """What the headers say of the parts of a level: ids and offsets, those of objects in the order of names."""
        table = self.table
        parents = table.parents[below]
        # The last rank is that of no key.
        names = np.append(self.name_ranks, 0)[table.keys[below]]
        # Stable: elements of arrays stay in their order. Parents are in the order of their place.
        order = np.lexsort((names, places[parents]))
        parents, names, offsets = parents[order], names[order], offsets[order]
        is_object = table.kinds[parents] == OBJECT
        is_same = (parents[1:] == parents[:-1]) & (names[1:] == names[:-1]) & is_object[1:]
        if is_same.any():
            raise BadVariantError("an object of a VARIANT has a field twice")
        within = before_siblings(np.ones(len(parents), np.int64), parents)
        ids_begin = places[parents] + 1 + self._count_widths(parents)
        id_widths = self._id_widths[parents]
        put_numbers(
            out, (ids_begin + within * id_widths)[is_object], self.ids[below][order][is_object], id_widths[is_object]
        )
        offset_widths = widths_of(self._content[parents])
        begin = ids_begin + np.where(is_object, self._counts[parents] * id_widths, 0)
        put_numbers(out, begin + within * offset_widths, offsets, offset_widths)

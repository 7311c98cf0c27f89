"""Range bitmaps: each value is replaced by its rank among the distinct ones, and the ranks are stored as bit slices.

    index       head size int32 | version byte = 1 | rows int32 | distinct int32 | least value | greatest value
                | size of the dictionary int32 || dictionary | slices
    dictionary  head size int32 | version byte = 1 | chunks int32 | size of the offsets int32 | size of the chunks int32
                || offset int32 of each chunk | chunks | keys of all chunks
    chunk       version byte = 1 | first value | rank int32 | offset of its keys int32 | keys int32
                | fixed width:   size of the keys int32 | width int32
                | strings:       size of their offsets int32 | size of the keys int32
    slices      head size int32 | version byte = 1 | count byte | size of the rows int32 | size of the offsets int32
                | offset and length int32 of each slice || rows bitmap | slices, lowest bit first

`||` ends a head. Integers are big-endian; strings have their length, int32, in front. A chunk's keys are the values
after its first one; those of strings have their offsets, int32, in front. Without values there is neither a least
nor a greatest one, and there are 64 empty slices.

Source: `RangeBitmap`, `ChunkedDictionary`, `FixedLengthChunk`, `VariableLengthChunk`, `BitSliceIndexBitmap` of the
Java library.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from paimon_engine.format.bitmaps import serialize
from paimon_engine.format.file_index.cursor import Cursor
from paimon_engine.format.file_index.slices import Slices, slice_numbers
from paimon_engine.format.file_index.values import (
    Value,
    group_rows,
    is_binary,
    record_sizes,
    records,
    sort_keys,
    sorted_order,
    width_of,
)
from paimon_engine.options.texts import named
from paimon_engine.types import AtomicType, TypeRoot
from paimon_engine.units import parse_size_bytes

VERSION: Final = 1
CHUNK_BYTES: Final = "16kb"
_UNCHUNKED: Final = frozenset({TypeRoot.BOOLEAN, TypeRoot.TINYINT, TypeRoot.SMALLINT})
_SLICES_OF_NOTHING: Final = 64


# ── writing ─────────────────────────────────────────────────────────────────────────────────────


def chunk_bytes_of(options: Mapping[str, str], data_type: AtomicType, prefix: str) -> int:
    """Size of the option `chunk-size`. Raises: InvalidArgumentError naming it; its name begins with `prefix`."""
    text = options.get("chunk-size", "0 b" if data_type.root in _UNCHUNKED else CHUNK_BYTES)
    return named(f"{prefix}.chunk-size", text, parse_size_bytes)


def encode_range_bitmap(chunks: Sequence[pa.Array], data_type: AtomicType, chunk_bytes: int) -> bytes:
    """Index of a column in stored form; the keys of a chunk of the dictionary have at most `chunk_bytes`."""
    groups = group_rows(chunks)
    order = sorted_order(groups.values, data_type)
    values = groups.values.take(pa.array(order))
    ranks = np.empty(len(order), np.uint64)
    ranks[order] = np.arange(len(order), dtype=np.uint64)
    slice_count = max(1, (len(values) - 1).bit_length()) if len(values) else _SLICES_OF_NOTHING
    slices = slice_numbers(groups.rows, np.repeat(ranks, groups.counts), slice_count)
    dictionary = _dictionary(values, chunk_bytes)
    ends = records(pa.concat_arrays([values.slice(0, 1), values.slice(len(values) - 1)])) if len(values) else b""
    head = struct.pack(">Bii", VERSION, groups.row_count, len(values)) + ends + struct.pack(">i", len(dictionary))
    return b"".join([_sized(head), dictionary, _slices(slices)])


def _dictionary(values: pa.Array, chunk_bytes: int) -> bytes:
    """The distinct values, sorted, in chunks of about `chunk_bytes`: a head with offsets, then chunks, then their keys.

    A chunk names its first value, so that a search reads the other values of one chunk only.
    """
    binary = pa.types.is_binary(values.type)
    sizes = record_sizes(values, 0)
    chunks, keys = [], []
    key_bytes = 0
    for begin, end in _chunks(sizes, chunk_bytes, binary=binary):
        rest = values.slice(begin + 1, end - begin - 1)
        rest_sizes = sizes[begin + 1 : end]
        offsets = (np.cumsum(rest_sizes) - rest_sizes).astype(">i4").tobytes() if binary else b""
        stored = records(rest)
        first = records(values.slice(begin, 1))
        if binary:
            layout = struct.pack(">iiiii", begin, key_bytes, len(rest), len(offsets), len(stored))
        else:
            layout = struct.pack(">iiiii", begin, key_bytes, len(rest), len(stored), len(first))
        chunks.append(bytes([VERSION]) + first + layout)
        keys += [offsets, stored]
        key_bytes += len(offsets) + len(stored)
    chunk_sizes = np.array([len(chunk) for chunk in chunks], np.int64)
    starts = (np.cumsum(chunk_sizes) - chunk_sizes).astype(">i4").tobytes()
    head = struct.pack(">Biii", VERSION, len(chunks), len(starts), int(chunk_sizes.sum()))
    return b"".join([_sized(head), starts, *chunks, *keys])


def _chunks(sizes: Any, chunk_bytes: int, *, binary: bool) -> list[tuple[int, int]]:
    """Begin and end of the chunks: a first value, and as many others as fit."""
    ends = np.cumsum(sizes)
    found = []
    begin = 0
    while begin < len(sizes):
        end = int(np.searchsorted(ends, int(ends[begin]) + chunk_bytes, side="right"))
        if binary:
            end = min(end, begin + 1 + chunk_bytes // 4)
        found.append((begin, end))
        begin = end
    return found


def _slices(slices: Slices) -> bytes:
    present = serialize(slices.present)
    bitmaps = [serialize(bitmap) for bitmap in slices.slices]
    sizes = np.array([len(bitmap) for bitmap in bitmaps], np.int64)
    starts = np.stack([np.cumsum(sizes) - sizes, sizes], axis=1).astype(">i4").tobytes()
    head = struct.pack(">BBii", VERSION, len(bitmaps), len(present), len(starts)) + starts
    return b"".join([_sized(head), present, *bitmaps])


def _sized(head: bytes) -> bytes:
    return struct.pack(">i", len(head)) + head


# ── reading ─────────────────────────────────────────────────────────────────────────────────────


class RangeBitmapIndex:
    """An index that was read."""

    def __init__(self, cursor: Cursor, data_type: AtomicType) -> None:
        """Parses the complete index. Raises: CorruptTableError."""
        self._data_type = data_type
        head_end = cursor.int32() + cursor.offset
        cursor.version(VERSION)
        self.row_count, value_count = cursor.int32(), cursor.int32()
        if value_count > 0:
            self._value(cursor)
            self._value(cursor)
        dictionary_bytes = cursor.int32()
        _expect(cursor, head_end, "head")
        dictionary_end = cursor.offset + dictionary_bytes
        self._keys = self._dictionary(cursor)
        _expect(cursor, dictionary_end, "dictionary")
        if len(self._keys) != value_count:
            raise cursor.corrupt(f"the dictionary has {len(self._keys)} values, the head says {value_count}")
        self._slices = _read_slices(cursor, self.row_count)

    def nulls(self) -> BitMap:
        """Rows that are null."""
        return BitMap(range(self.row_count)) - self._slices.present

    def present(self) -> BitMap:
        """Rows that are not null."""
        return self._slices.present

    def compare(self, value: Value) -> tuple[BitMap, BitMap, BitMap]:
        """Rows less than, equal to and greater than the stored value."""
        key = self._key(value)
        rank = bisect_left(self._keys, key)
        less, equal, greater = self._slices.compare(rank)
        if rank < len(self._keys) and self._keys[rank] == key:
            return less, equal, greater
        return less, BitMap(), greater | equal

    def _key(self, value: Value) -> Any:
        """What the value is ordered by."""
        if isinstance(value, bytes):
            return value
        numbers = np.array([value], f"i{width_of(self._data_type)}")
        return int(sort_keys(numbers, self._data_type)[0])

    def _value(self, cursor: Cursor) -> Any:
        return self._values(cursor, 1)[0]

    def _values(self, cursor: Cursor, count: int) -> list[Any]:
        """The keys of the values that follow one another."""
        if is_binary(self._data_type):
            return [cursor.take(cursor.count()) for _ in range(count)]
        width = width_of(self._data_type)
        numbers = np.frombuffer(cursor.take(width * count), f">i{width}").astype(f"i{width}")
        keys: list[Any] = sort_keys(numbers, self._data_type).tolist()
        return keys

    def _dictionary(self, cursor: Cursor) -> list[Any]:
        """The distinct values of the column, ascending.

        Raises: CorruptTableError if the chunks do not fit together.
        """
        head_end = cursor.int32() + cursor.offset
        cursor.version(VERSION)
        chunk_count, offsets_bytes, chunks_bytes = cursor.int32(), cursor.int32(), cursor.int32()
        _expect(cursor, head_end, "head of the dictionary")
        cursor.skip(offsets_bytes)
        chunks_end = cursor.offset + chunks_bytes
        firsts = []
        while cursor.offset < chunks_end:
            cursor.version(VERSION)
            first = self._value(cursor)
            rank, start, count = cursor.int32(), cursor.int32(), cursor.int32()
            sizes = cursor.int32(), cursor.int32()
            firsts.append((first, rank, start, count, sizes))
        _expect(cursor, chunks_end, "list of chunks")
        if len(firsts) != chunk_count or offsets_bytes != 4 * chunk_count:
            raise cursor.corrupt(f"there are {len(firsts)} chunks, the head says {chunk_count}")
        keys: list[Any] = []
        for first, rank, start, count, sizes in firsts:
            _expect(cursor, chunks_end + start, "list of keys")
            if rank != len(keys) or not 0 <= count <= len(cursor.data):
                raise cursor.corrupt(f"a chunk of {count} keys begins with rank {rank}, after {len(keys)} values")
            if is_binary(self._data_type):
                cursor.skip(sizes[0])
            keys += [first, *self._values(cursor, count)]
        if any(left >= right for left, right in pairwise(keys)):
            raise cursor.corrupt("the values of the dictionary do not ascend")
        return keys


def _read_slices(cursor: Cursor, row_count: int) -> Slices:
    """A bitmap for each bit of the values' codes, and one of the rows that have a value.

    Raises: CorruptTableError if a part is not where the head says, or has more rows than the file.
    """
    head_end = cursor.int32() + cursor.offset
    cursor.version(VERSION)
    count, present_bytes, offsets_bytes = cursor.int8(), cursor.int32(), cursor.int32()
    if not 0 <= count <= _SLICES_OF_NOTHING or offsets_bytes != 8 * count:
        raise cursor.corrupt(f"{count} slices with {offsets_bytes} bytes for their offsets")
    ranges = [(cursor.int32(), cursor.int32()) for _ in range(count)]
    _expect(cursor, head_end, "head of the slices")
    present = cursor.bitmap(row_count, present_bytes)
    begin = cursor.offset
    slices = []
    for offset, length in ranges:
        _expect(cursor, begin + offset, "list of slices")
        slices.append(cursor.bitmap(row_count, length))
    return Slices(present, slices)


def _expect(cursor: Cursor, expected: int, what: str) -> None:
    if cursor.offset != expected:
        raise cursor.corrupt(f"the {what} ends here, it should end at {expected}")

"""Bitmap indexes: for each distinct value of a column the rows that have it. Integers are big-endian.

    version 1:  1 | head | (value, offset)… | bitmaps          read by all releases
    version 2:  2 | head | blocks int32 | (first value, offset)… | size of the blocks int32 | blocks | bitmaps

    head   rows int32, distinct values int32, has nulls byte; with nulls: their offset int32, in version 2 also length
    block  entries int32 | (value, offset int32, length int32)…, values ascending over all blocks

Offsets count from the first bitmap. A negative one means a single row, −1 − row, which has no bitmap. The nulls'
bitmap comes first; all are Roaring bitmaps. Strings have their length, int32, in front.

Source: `BitmapFileIndex`, `BitmapFileIndexMeta`, `BitmapFileIndexMetaV2` of the Java library.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.format.bitmaps import bitmap_of, serialize
from paimon_engine.format.file_index.cursor import Cursor
from paimon_engine.format.file_index.hashing import java_order
from paimon_engine.format.file_index.values import (
    Groups,
    Value,
    group_rows,
    hash_codes,
    is_binary,
    record_sizes,
    records,
    sorted_order,
    width_of,
)
from paimon_engine.options.texts import named
from paimon_engine.types import AtomicType, TypeRoot
from paimon_engine.units import parse_size_bytes

BLOCK_BYTES: Final = "16kb"
_UNKNOWN_LENGTH: Final = -1


# ── writing ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class BitmapSettings:
    """Version of the index, and size of the blocks of version 2."""

    version: int
    block_bytes: int


def bitmap_settings(options: Mapping[str, str], data_type: AtomicType, prefix: str) -> BitmapSettings:
    """Settings of the options `version` and `index-block-size`.

    Version 1 by default, since 0.9 reads no other; BOOLEAN, which it does not read at all, in version 2.

    Raises: InvalidArgumentError naming an option, whose name begins with `prefix`.
    """
    version = options.get("version", "2" if data_type.root is TypeRoot.BOOLEAN else "1").strip()
    if version not in ("1", "2"):
        raise InvalidArgumentError(f"option '{prefix}.version' = {version!r}; choose 1 or 2")
    block_bytes = named(f"{prefix}.index-block-size", options.get("index-block-size", BLOCK_BYTES), parse_size_bytes)
    return BitmapSettings(int(version), block_bytes)


def encode_bitmap(chunks: Sequence[pa.Array], data_type: AtomicType, settings: BitmapSettings) -> bytes:
    """Index of a column in stored form."""
    groups = group_rows(chunks)
    nulls = serialize(bitmap_of(groups.nulls))
    null_count = len(groups.nulls)
    null_offset = -1 - int(groups.nulls[0]) if null_count == 1 else 0
    order = java_order(hash_codes(groups.values, data_type))
    offsets, lengths, bitmaps = _bitmaps(groups, order, nulls if null_count > 1 else b"")
    head = struct.pack(">BiiB", settings.version, groups.row_count, len(groups.values), null_count > 0)
    if settings.version == 1:
        null_bytes = struct.pack(">i", null_offset) if null_count else b""
        return b"".join([head, null_bytes, records(groups.values.take(pa.array(order)), offsets[order]), *bitmaps])
    null_bytes = struct.pack(">ii", null_offset, len(nulls)) if null_count else b""
    ascending = sorted_order(groups.values, data_type)
    values = groups.values.take(pa.array(ascending))
    return b"".join(
        [head, null_bytes, _blocks(values, offsets[ascending], lengths[ascending], settings.block_bytes), *bitmaps]
    )


def _bitmaps(
    groups: Groups, order: npt.NDArray[np.int64], nulls: bytes
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], list[bytes]]:
    """Offset and length of each value's bitmap, and the bitmaps in their order in the file."""
    firsts = groups.rows[groups.bounds[:-1]].astype(np.int32)
    offsets = -1 - firsts
    lengths = np.full(len(firsts), _UNKNOWN_LENGTH, np.int32)
    shared = order[groups.counts[order] > 1]
    bitmaps = [serialize(groups.bitmap(number)) for number in shared]
    sizes = np.array([len(bitmap) for bitmap in bitmaps], np.int64)
    offsets[shared] = len(nulls) + np.cumsum(sizes) - sizes
    lengths[shared] = sizes
    return offsets, lengths, [nulls, *bitmaps]


def _blocks(
    values: pa.Array, offsets: npt.NDArray[np.int32], lengths: npt.NDArray[np.int32], block_bytes: int
) -> bytes:
    """What version 2 has between head and bitmaps: the list of blocks, and the blocks."""
    ends = np.cumsum(record_sizes(values, 2))
    firsts = []
    begin = 0
    while begin < len(values):
        firsts.append(begin)
        before = int(ends[begin - 1]) if begin else 0
        # Java fails on a value that is larger than a block; here it gets a separate block, which Java can read.
        begin = max(begin + 1, int(np.searchsorted(ends, before + block_bytes - 4, side="right")))
    bounds = [*firsts, len(values)]
    blocks = [
        struct.pack(">i", end - start)
        + records(values.slice(start, end - start), offsets[start:end], lengths[start:end])
        for start, end in pairwise(bounds)
    ]
    sizes = np.array([len(block) for block in blocks], np.int64)
    listed = records(values.take(pa.array(firsts, pa.int64())), (np.cumsum(sizes) - sizes).astype(np.int32))
    return b"".join([struct.pack(">i", len(blocks)), listed, struct.pack(">i", int(sizes.sum())), *blocks])


# ── reading ─────────────────────────────────────────────────────────────────────────────────────


class BitmapIndex:
    """An index that was read; bitmaps are decoded when they are needed."""

    def __init__(self, cursor: Cursor, data_type: AtomicType) -> None:
        """Takes head and entries. Raises: CorruptTableError."""
        self._cursor = cursor
        self._data_type = data_type
        version = cursor.int8()
        if version not in (1, 2):
            raise cursor.corrupt(f"version 1 or 2 of a bitmap index expected, found {version}", at=0)
        self.row_count = cursor.int32()
        value_count = cursor.count()
        self._null_offset = cursor.int32() if cursor.flag() else None
        if version == 1:
            self._offsets = self._entries(value_count, has_length=False)
        else:
            if self._null_offset is not None:
                cursor.int32()
            self._offsets = self._block_entries(value_count)
        self._body = cursor.offset

    def _block_entries(self, value_count: int) -> dict[Value, int]:
        """The offset of each value's bitmap in version 2, which has its values in blocks, after a list of the blocks.

        Raises: CorruptTableError if blocks are not where the list says.
        """
        cursor = self._cursor
        blocks = sorted(self._entries(cursor.count(), has_length=False).values())
        size = cursor.int32()
        begin = cursor.offset
        offsets: dict[Value, int] = {}
        for block in blocks:
            if cursor.offset != begin + block:
                raise cursor.corrupt(f"the block at {block} begins elsewhere")
            offsets.update(self._entries(cursor.count(), has_length=True))
        if cursor.offset != begin + size:
            raise cursor.corrupt(f"the blocks end here, they should end at {begin + size}")
        if len(offsets) != value_count:
            raise cursor.corrupt(f"the blocks have {len(offsets)} values, the head says {value_count}")
        return offsets

    def _entries(self, count: int, *, has_length: bool) -> dict[Value, int]:
        """Offset by value, of entries with or without a length behind it."""
        cursor = self._cursor
        if not is_binary(self._data_type):
            width = width_of(self._data_type)
            layout = [("value", f">i{width}"), ("offset", ">i4"), *([("length", ">i4")] if has_length else [])]
            entries = np.frombuffer(cursor.take(np.dtype(layout).itemsize * count), layout)
            return dict(zip(entries["value"].tolist(), entries["offset"].tolist(), strict=True))
        offsets: dict[Value, int] = {}
        for _ in range(count):
            value = cursor.take(cursor.count())
            offsets[value] = cursor.int32()
            if has_length:
                cursor.int32()
        return offsets

    def equal(self, values: Sequence[Value]) -> BitMap:
        """Rows that have one of the stored values."""
        found = (self._offsets.get(value) for value in values)
        return BitMap.union(BitMap(), *(self._rows(offset) for offset in found if offset is not None))

    def nulls(self) -> BitMap:
        """Rows that are null."""
        return BitMap() if self._null_offset is None else self._rows(self._null_offset)

    def _rows(self, offset: int) -> BitMap:
        cursor = self._cursor
        if offset >= 0:
            return Cursor(cursor.data, cursor.where, self._body + offset).bitmap(self.row_count)
        if -1 - offset >= self.row_count:
            raise cursor.corrupt(f"a value is in row {-1 - offset} of {self.row_count}", at=0)
        return BitMap([-1 - offset])

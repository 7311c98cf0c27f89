"""Bloom filters: the number of hash functions (int32 BE), then the bits, lowest bit of a byte first.

Source: `BloomFilterFileIndex`, `BloomFilter64` of the Java library.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.format.file_index.cursor import Cursor
from paimon_engine.format.file_index.hashing import wang_hashes, xx_hashes
from paimon_engine.format.file_index.values import Value, numbers_of
from paimon_engine.options.texts import integer_of, number_of

ITEMS: Final = "1000000"
FALSE_POSITIVES: Final = "0.1"
_BITS_MAX: Final = (1 << 31) - 8
_FUNCTIONS_MAX: Final = 64
"""Enough for one false answer in 10¹⁹; bounds the work of a damaged filter."""


def bloom_shape(options: Mapping[str, str], named: str) -> tuple[int, int]:
    """Bits and hash functions for `items` distinct values, of which a share of `fpp` is found though it is not there.

    Raises: InvalidArgumentError naming an option, whose name begins with `named`.
    """
    items = integer_of(f"{named}.items", options.get("items", ITEMS).strip(), bits=64)
    share = number_of(f"{named}.fpp", options.get("fpp", FALSE_POSITIVES))
    if items < 1:
        raise InvalidArgumentError(f"option '{named}.items' = '{items}'; use a positive number")
    if not 0 < share < 1:
        raise InvalidArgumentError(f"option '{named}.fpp' = '{share}'; use a number between 0 and 1")
    bits = int(min(-items * math.log(share) / (math.log(2) * math.log(2)), _BITS_MAX))
    if bits >= _BITS_MAX:
        raise InvalidArgumentError(
            f"options '{named}.*': a bloom filter for items = {items} with fpp = {share} is larger than 256 MiB"
        )
    bit_count = bits + 8 - bits % 8
    return bit_count, max(1, math.floor(bit_count / items * math.log(2) + 0.5))


class BloomBuilder:
    """Collects the values of a column; memory is that of the filter."""

    def __init__(self, options: Mapping[str, str], named: str) -> None:
        """An empty filter as the options say, whose names begin with `named`; see `bloom_shape`.

        Raises: InvalidArgumentError.
        """
        self._bit_count, self._function_count = bloom_shape(options, named)
        self._bits = np.zeros(self._bit_count // 8, np.uint8)

    def add(self, column: pa.Array) -> None:
        """Adds stored values; nulls are left out."""
        hashes = _hashes(pc.unique(column).drop_null())
        for number in range(1, self._function_count + 1):
            bit_numbers = _bit_numbers(hashes, number, self._bit_count)
            np.bitwise_or.at(self._bits, bit_numbers >> 3, np.left_shift(1, bit_numbers & 7).astype(np.uint8))

    def finish(self) -> bytes:
        """Bytes of the filter."""
        return struct.pack(">i", self._function_count) + self._bits.tobytes()


class BloomFilter:
    """A filter that was read."""

    def __init__(self, cursor: Cursor) -> None:
        """Takes the filter that reaches to the end of the cursor's bytes. Raises: CorruptTableError."""
        self._function_count = cursor.int32()
        if not 1 <= self._function_count <= _FUNCTIONS_MAX:
            raise cursor.corrupt(f"a bloom filter has no {self._function_count} hash functions", at=0)
        self._bits = np.frombuffer(cursor.take(len(cursor.data) - cursor.offset), np.uint8)
        if not len(self._bits):
            raise cursor.corrupt("a bloom filter without bits")

    def may_hold(self, values: list[Value]) -> bool:
        """Whether one of the stored values may be in the column."""
        if not values:
            return False
        binary = isinstance(values[0], bytes)
        hashes = _hashes(pa.array(values, pa.binary() if binary else pa.int64()))
        found = np.ones(len(values), np.bool_)
        for number in range(1, self._function_count + 1):
            bit_numbers = _bit_numbers(hashes, number, len(self._bits) * 8)
            found &= (self._bits[bit_numbers >> 3] >> (bit_numbers & 7)) & 1 == 1
        return bool(found.any())


def _hashes(values: pa.Array) -> npt.NDArray[np.uint64]:
    return xx_hashes(values) if pa.types.is_binary(values.type) else wang_hashes(numbers_of(values))


def _bit_numbers(hashes: npt.NDArray[np.uint64], number: int, bit_count: int) -> npt.NDArray[np.int32]:
    low, high = hashes.astype(np.uint32).view(np.int32), (hashes >> np.uint64(32)).astype(np.uint32).view(np.int32)
    combined = low + np.int32(number) * high
    return np.where(combined < 0, ~combined, combined) % np.int32(bit_count)

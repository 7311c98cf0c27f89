"""Hashes of whole columns: those of bloom filters, and those that order Java's maps.

All functions take values without nulls and give one hash per value; integers wrap as Java's do.

Source: `FastHash`, `BinaryString.hashCode`, `HashMap` of the Java library; XXH64 of the xxHash specification.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_engine.format.layout import text_offsets

Array = npt.NDArray[Any]

_PRIME_1: Final = np.uint64(0x9E3779B185EBCA87)
_PRIME_2: Final = np.uint64(0xC2B2AE3D27D4EB4F)
_PRIME_3: Final = np.uint64(0x165667B19E3779F9)
_PRIME_4: Final = np.uint64(0x85EBCA77C2B2AE63)
_PRIME_5: Final = np.uint64(0x27D4EB2F165667C5)
_STRIPE_BYTES: Final = 32
_STARTS: Final = (0x60EA27EEADC0B5D6, 0xC2B2AE3D27D4EB4F, 0, 0x61C8864E7A143579)
"""State of the four lanes before the first stripe, for seed 0."""

_MURMUR_SEED: Final = 42


# ── bloom filters ───────────────────────────────────────────────────────────────────────────────


def wang_hashes(numbers: Array) -> npt.NDArray[np.uint64]:
    """Thomas Wang's hash of 64-bit integers: int64[n] -> uint64[n]."""
    key = numbers.astype(np.int64)
    key = ~key + (key << 21)
    key ^= key >> 24
    key = key + (key << 3) + (key << 8)
    key ^= key >> 14
    key = key + (key << 2) + (key << 4)
    key ^= key >> 28
    key = key + (key << 31)
    hashes: npt.NDArray[np.uint64] = key.view(np.uint64)
    return hashes


def xx_hashes(column: pa.Array) -> npt.NDArray[np.uint64]:
    """XXH64 with seed 0 of each value: binary[n] -> uint64[n]."""
    data, starts, lengths = _bytes_of(column)
    hashes = np.full(len(starts), _PRIME_5)
    long = np.flatnonzero(lengths >= _STRIPE_BYTES)
    if len(long):
        hashes[long] = _stripes(data, starts[long], lengths[long] // _STRIPE_BYTES)
    hashes += lengths.astype(np.uint64)
    positions = starts + lengths // _STRIPE_BYTES * _STRIPE_BYTES
    ends = starts + lengths
    for rows in _while_left(positions, ends, 8):
        word = _round(np.zeros(len(rows), np.uint64), _words(data, positions[rows], "<u8"))
        hashes[rows] = _rotated(hashes[rows] ^ word, 27) * _PRIME_1 + _PRIME_4
    for rows in _while_left(positions, ends, 4):
        word = _words(data, positions[rows], "<u4").astype(np.uint64) * _PRIME_1
        hashes[rows] = _rotated(hashes[rows] ^ word, 23) * _PRIME_2 + _PRIME_3
    for rows in _while_left(positions, ends, 1):
        word = data[positions[rows]].astype(np.uint64) * _PRIME_5
        hashes[rows] = _rotated(hashes[rows] ^ word, 11) * _PRIME_1
    hashes ^= hashes >> np.uint64(33)
    hashes *= _PRIME_2
    hashes ^= hashes >> np.uint64(29)
    hashes *= _PRIME_3
    return hashes ^ hashes >> np.uint64(32)


def _stripes(data: Array, starts: Array, counts: Array) -> Array:
    """State after the whole stripes of values that have at least one."""
    lanes = [np.full(len(starts), start, np.uint64) for start in _STARTS]
    rows = np.arange(len(starts))
    for number in range(int(counts.max())):
        rows = rows[counts[rows] > number]
        for index, lane in enumerate(lanes):
            words = _words(data, starts[rows] + number * _STRIPE_BYTES + index * 8, "<u8")
            lane[rows] = _round(lane[rows], words)
    turns = zip(lanes, (1, 7, 12, 18), strict=True)
    state: Array = np.add.reduce([_rotated(lane, turn) for lane, turn in turns])
    for lane in lanes:
        state = (state ^ _round(np.zeros_like(lane), lane)) * _PRIME_1 + _PRIME_4
    return state


def _round(state: Array, words: Array) -> Array:
    return _rotated(state + words * _PRIME_2, 31) * _PRIME_1


def _rotated(words: Array, turn: int) -> Array:
    return words << np.uint64(turn) | words >> np.uint64(64 - turn)


def _while_left(positions: Array, ends: Array, width: int) -> Iterator[Array]:
    """Rows that have `width` bytes left, repeatedly; afterwards their positions are after these bytes."""
    rows = np.flatnonzero(ends - positions >= width)
    while len(rows):
        yield rows
        positions[rows] += width
        rows = rows[ends[rows] - positions[rows] >= width]


def _words(data: Array, positions: Array, dtype: str) -> Array:
    """The number that begins at each position."""
    width = np.dtype(dtype).itemsize
    return data[positions[:, None] + np.arange(width)].view(dtype).ravel()


def _bytes_of(column: pa.Array) -> tuple[Array, Array, Array]:
    """All bytes of a binary column, and where each value begins and how long it is."""
    offsets, data_buffer = text_offsets(column).astype(np.int64), column.buffers()[2]
    data = np.empty(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    return data, offsets[:-1], np.diff(offsets)


# ── the order of Java's maps ────────────────────────────────────────────────────────────────────


def java_order(hash_codes: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """Order of distinct values, given in order of insertion, in the order in which a Java `HashMap` gives them.

    For maps that are filled by `computeIfAbsent`, which grow late and put new values in front of their bin. Java makes
    trees of very crowded bins, whose order is different; nothing depends on it.
    """
    last = len(hash_codes) - 1
    capacity = 16
    while last > capacity * 3 // 4:
        capacity *= 2
    unsigned = hash_codes[::-1].view(np.uint32)
    bins = (unsigned ^ unsigned >> np.uint32(16)) & np.uint32(capacity - 1)
    return last - np.argsort(bins, kind="stable")


def java_map_order(names: Sequence[str]) -> list[str]:
    """Distinct strings in the order in which a Java `HashMap` gives them."""
    codes = np.array([_string_hash(name) for name in names], np.uint32).view(np.int32)
    return [names[position] for position in java_order(codes)]


def _string_hash(text: str) -> int:
    code = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        code = (code * 31 + int.from_bytes(units[position : position + 2], "big")) & 0xFFFF_FFFF
    return code


def number_hash_codes(numbers: Array) -> npt.NDArray[np.int32]:
    """`hashCode` of boxed integers, or of floating-point numbers given by their bits."""
    if numbers.dtype.itemsize < 8:
        return numbers.astype(np.int32)
    bits = numbers.view(np.uint64)
    return (bits ^ bits >> np.uint64(32)).astype(np.uint32).view(np.int32)


def string_hash_codes(column: pa.Array) -> npt.NDArray[np.int32]:
    """`BinaryString.hashCode` of each value: MurmurHash3, bytes after the last complete word one by one."""
    data, starts, lengths = _bytes_of(column)
    hashes = np.full(len(starts), _MURMUR_SEED, np.uint32)
    positions, ends = starts.copy(), starts + lengths
    for rows in _while_left(positions, ends, 4):
        hashes[rows] = _murmur(hashes[rows], _words(data, positions[rows], "<u4"))
    for rows in _while_left(positions, ends, 1):
        hashes[rows] = _murmur(hashes[rows], data[positions[rows]].view(np.int8).astype(np.int32).view(np.uint32))
    hashes ^= lengths.astype(np.uint32)
    hashes ^= hashes >> np.uint32(16)
    hashes *= np.uint32(0x85EBCA6B)
    hashes ^= hashes >> np.uint32(13)
    hashes *= np.uint32(0xC2B2AE35)
    hashes ^= hashes >> np.uint32(16)
    return hashes.view(np.int32)


def _murmur(state: Array, words: Array) -> Array:
    words = words * np.uint32(0xCC9E2D51)
    words = (words << np.uint32(15) | words >> np.uint32(17)) * np.uint32(0x1B873593)
    mixed = state ^ words
    mixed = mixed << np.uint32(13) | mixed >> np.uint32(19)
    return mixed * np.uint32(5) + np.uint32(0xE6546B64)

"""MurmurHash3 (x86, 32 bits, seed 42) of many rows at once, one word of all of them after another.

Source: `MurmurHashUtils` of the Java library.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Word = Array | int
"""Four bytes of each row, uint32 [n], or a number if they are the same in all rows."""

SEED = 42

_C1 = 0xCC9E2D51
_C2 = 0x1B873593
_C3 = 0xE6546B64
_MASK = 0xFFFFFFFF


def hash_bytes(data: bytes, *, seed: int = SEED) -> int:
    """Hash of one row's bytes without the arity, or of other bytes, as a signed 32-bit integer."""
    words = len(data) // 4 * 4
    state = absorbed(seed, data[:words]) ^ _scrambled(int.from_bytes(data[words:], "little")) ^ len(data)
    state = (state ^ state >> 16) * 0x85EBCA6B & _MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & _MASK
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


class Murmur:
    """MurmurHash3 of rows that are fed word by word, without the allocation of an array per step.

    `hashes` is where the hashes go, uint32 [n]; `scratch`, uint32 [2, n or more], is overwritten.
    """

    def __init__(self, hashes: Array, scratch: Array) -> None:
        self._hashes = hashes
        self._block, self._spare = scratch[:, : len(hashes)]
        self._common: int | None = SEED
        """State of all rows; None once they differ."""

    def add(self, word: Word) -> None:
        """One more word of each row."""
        if self._common is not None and isinstance(word, int):
            self._common = _mixed(self._common, word)
        else:
            mix(self.states(), word, self._block, self._spare)

    def states(self) -> Array:
        """The state of each row, to continue from there."""
        if self._common is not None:
            self._hashes.fill(self._common)
            self._common = None
        return self._hashes

    def finish(self, size: Word) -> None:
        """Turns the states into hashes, given the length of each row in bytes."""
        state, spare = self.states(), self._spare
        state ^= size if isinstance(size, int) else size.astype(np.uint32)
        state ^= np.right_shift(state, 16, out=spare)
        state *= np.uint32(0x85EBCA6B)
        state ^= np.right_shift(state, 13, out=spare)
        state *= np.uint32(0xC2B2AE35)
        state ^= np.right_shift(state, 16, out=spare)


def mix(state: Array, word: Word, block: Array, spare: Array) -> None:
    """Brings MurmurHash states to those after one more word of each row, in place.

    `block` and `spare`, uint32 of the same shape, are overwritten.
    """
    if isinstance(word, int):
        state ^= _scrambled(word)
    else:
        np.multiply(word, np.uint32(_C1), out=block)
        np.right_shift(block, 17, out=spare)
        block <<= 15
        block |= spare
        block *= np.uint32(_C2)
        state ^= block
    np.right_shift(state, 19, out=spare)
    state <<= 13
    state |= spare
    state *= np.uint32(5)
    state += np.uint32(_C3)


def _scrambled(word: int) -> int:
    """What a word does to the state of its row."""
    word = word * _C1 & _MASK
    return (word << 15 | word >> 17) * _C2 & _MASK


def _mixed(state: int, word: int) -> int:
    """`mix` for one row, in plain integers."""
    state ^= _scrambled(word)
    return ((state << 13 | state >> 19) & _MASK) * 5 + _C3 & _MASK


def absorbed(state: int, data: bytes) -> int:
    """The state of one row after all words of `data`."""
    for (word,) in struct.iter_unpack("<I", data):
        state = _mixed(state, word)
    return state

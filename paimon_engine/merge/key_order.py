"""The order of keys that are byte strings, found by sorting numbers.

NumPy sorts numbers three times as fast as byte strings, and the keys of a window have much in common, so that what
differs often fits in a number:

1. Of each eight bytes of the keys take the bits from the first to the last one that differs anywhere, until there are
   64 of them. As one number they order the keys as far as they go.
2. Sort by that number.
3. Unless that was all that differs, compare neighbours of equal number by the bytes that are left, and sort by bytes
   where such neighbours differ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from paimon_engine.merge.keys import Keys

Positions = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]

NUMBERED_KEYS_MIN = 256
"""Fewer keys are sorted sooner than numbered."""

SCANNED_BYTES_MAX = 256
"""Bytes that are compared. Each eight cost a pass, and longer common beginnings are rare."""

COMPARED_POSITIONS = 8192
"""Pairs of neighbours compared at a time."""

DIFFERING_SHARE_MAX = 1 / 16
"""If more of the keys than this differ from their neighbour of equal number, all are sorted by bytes."""

FEW_RUNS_MAX = 4
"""So many sorted runs a stable sort merges soonest."""

FALLING_SHARE_MAX = 1 / 1024
"""Where fewer numbers are below the one before, they are sorted runs, which a stable sort merges.

In eight runs of 8,000 it takes 13 ns for a number; NumPy's vector instructions take 50 on AMD's fourth Zen."""

FALLING_SHARE_OF_DROPPED_MAX = 1 / 64
"""The same, where so many bits are dropped that an order by what is left of the numbers must be corrected."""

DROPPED_BITS_FEW = 8
"""So few bits hardly ever decide."""

_WORD = 8
_WORD_BITS = 64


def order_keys(keys: Keys) -> tuple[Positions, Flags]:
    """Positions that sort the keys, those of equal keys ascending; and whether each sorted key is the first such."""
    if keys.dtype == np.int64:
        return _order_numbers(keys)
    if keys.dtype.kind == "S" and len(keys) >= NUMBERED_KEYS_MIN:
        numbers, end = _leading_bits(keys)
        order, first = _order_numbers(numbers, overwrites=True)
        if end >= keys.itemsize or _split_equals(order, first, keys, end):
            return order, first
    order = np.argsort(keys, kind="stable")
    return order, _firsts(keys[order])


def _order_numbers(numbers: npt.NDArray[Any], *, overwrites: bool = False) -> tuple[Positions, Flags]:
    """As `order_keys`, for numbers of 64 bits, whose memory is used for the result if it `overwrites` them.

    NumPy sorts values with vector instructions, where they are in no order ten times as fast as positions by such
    values: so a position is packed behind each number, of which some low bits may have to go.
    """
    count = len(numbers)
    if count == 0:
        return np.zeros(0, np.intp), np.zeros(0, bool)
    least, position_bits = int(numbers.min()), (count - 1).bit_length()
    dropped = max(0, (int(numbers.max()) - least).bit_length() + position_bits - _WORD_BITS)
    falling = np.count_nonzero(numbers[1:] < numbers[:-1])
    share_max = FALLING_SHARE_OF_DROPPED_MAX if dropped > DROPPED_BITS_FEW else FALLING_SHARE_MAX
    if falling < FEW_RUNS_MAX or falling <= count * share_max:
        order = np.argsort(numbers, kind="stable")
        return order, _firsts(numbers[order])
    unsigned, in_place = numbers.view(np.uint64), overwrites and not dropped
    packed = np.subtract(unsigned, np.uint64(least % (1 << _WORD_BITS)), out=unsigned if in_place else None)
    packed >>= dropped
    packed <<= position_bits
    packed |= np.arange(count, dtype=np.uint64)
    packed.sort()
    order = (packed & ((1 << position_bits) - 1)).view(np.intp)
    packed >>= position_bits
    if not dropped:
        return order, _firsts(packed)
    ordered = numbers[order]
    torn = np.flatnonzero(ordered[1:] < ordered[:-1]) + 1
    if len(torn) > count * DIFFERING_SHARE_MAX:
        order = order[np.argsort(ordered, kind="stable")]
    elif len(torn):
        _sort_groups(order, _firsts(packed), torn, numbers)
    return order, _firsts(numbers[order] if len(torn) else ordered)


def _firsts(ordered: npt.NDArray[Any]) -> Flags:
    """Whether each value differs from the one before."""
    first = np.empty(len(ordered), dtype=bool)
    first[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return first


def _leading_bits(keys: Keys) -> tuple[npt.NDArray[np.uint64], int]:
    """Numbers that order the keys by their first bytes, and how many bytes that is."""
    width = keys.itemsize
    if width < _WORD:
        keys = keys.astype(f"S{_WORD}")
    numbers, used = None, 0
    for begin in range(0, min(width, SCANNED_BYTES_MAX), _WORD):
        # The last word reaches back into the one before.
        at = max(0, min(begin, width - _WORD))
        words = np.ndarray(len(keys), ">u8", keys, at, (keys.itemsize,)).astype(np.uint64)
        differing = int(np.bitwise_or.reduce(words)) ^ int(np.bitwise_and.reduce(words))
        differing &= (1 << 8 * (at + _WORD - begin)) - 1
        if differing == 0:
            continue
        top, bottom = differing.bit_length(), (differing & -differing).bit_length() - 1
        taken = min(top - bottom, _WORD_BITS - used)
        if numbers is None:
            # The bits above are those of all keys.
            words >>= top - taken
        else:
            words <<= _WORD_BITS - top
            words >>= _WORD_BITS - taken
            numbers <<= taken
            words |= numbers
        numbers, used = words, used + taken
        if taken < top - bottom:
            return numbers, at + (_WORD_BITS - top + taken) // 8
    return np.zeros(len(keys), dtype=np.uint64) if numbers is None else numbers, min(width, SCANNED_BYTES_MAX)


def _split_equals(order: Positions, first: Flags, keys: Keys, begin: int) -> bool:
    """Corrects an order that is right for the bytes of the keys up to `begin`; False if too many are wrong for that."""
    rest = np.ndarray(len(keys), f"S{keys.itemsize - begin}", keys, begin, (keys.itemsize,))
    differing = np.zeros(0, dtype=np.intp)
    equal = np.flatnonzero(~first)
    for start in range(0, len(equal), COMPARED_POSITIONS):
        positions = equal[start : start + COMPARED_POSITIONS]
        differing = np.append(differing, positions[rest[order[positions - 1]] != rest[order[positions]]])
        if len(differing) > len(keys) * DIFFERING_SHARE_MAX:
            return False
    if len(differing):
        positions = _sort_groups(order, first, differing, keys)
        first[positions] = _firsts(keys[order[positions]])
    return True


def _sort_groups(order: Positions, first: Flags, torn: Positions, keys: Keys) -> Positions:
    """Sorts groups of positions by their keys, those that contain an index in `torn`; returns all their positions.

    `first` says where groups begin, which are in order. Not only neighbours may be wrong: one key may be before and
    behind another.
    """
    group = np.cumsum(first)
    is_torn = np.zeros(group[-1] + 1, dtype=bool)
    is_torn[group[torn]] = True
    positions = np.flatnonzero(is_torn[group])
    members = order[positions]
    order[positions] = members[np.argsort(keys[members], kind="stable")]
    return positions

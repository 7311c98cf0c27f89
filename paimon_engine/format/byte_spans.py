"""Many spans of one byte string as values: cut out side by side, and values of equal spans made once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

_LENGTHS_MAX: Final = 16
"""Different lengths up to which cutting by length is faster than cutting one by one."""
LENGTH_MAX: Final = 4_096
"""Bytes of a span up to which a copy of all of them costs little memory."""


def cut(data: bytes, begins: Ints, ends: Ints) -> list[bytes]:
    """The spans, in order. All of them must be within `data`, and none may end before it begins."""
    lengths = ends - begins
    different = different_lengths(lengths)
    if len(different) > _LENGTHS_MAX or (different and different[-1] > LENGTH_MAX):
        return [data[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
    if len(different) == 1:
        return _cut_alike(data, begins, different[0])
    parts, indices = [], []
    for length in different:
        [who] = (lengths == length).nonzero()
        parts += _cut_alike(data, begins[who], length)
        indices.append(who)
    if not indices:
        return []
    order = np.empty(len(lengths), np.int64)
    order[np.concatenate(indices)] = np.arange(len(lengths))
    return list(map(parts.__getitem__, order.tolist()))


def different_lengths(lengths: Ints) -> list[int]:
    """Each length that occurs, from the smallest; none may be negative."""
    if not len(lengths):
        return []
    if int(lengths.max()) > LENGTH_MAX:
        return list(np.unique(lengths).tolist())
    # Counting takes a fraction of the time of `unique`.
    return list(np.bincount(lengths).nonzero()[0].tolist())


def _cut_alike(data: bytes, begins: Ints, length: int) -> list[bytes]:
    if length == 0:
        return [b""] * len(begins)
    found: list[bytes] = windows(data, length)[begins].tolist()
    return found


def windows(data: bytes, length: int) -> NDArray[Any]:
    """So many bytes, at least one, at each position of the data that has them, without a copy."""
    return np.ndarray((len(data) - length + 1,), f"V{length}", data, strides=(1,))


def bytes_at(data: bytes, begins: Ints, length: int) -> NDArray[np.uint8]:
    """So many bytes, at least one, from each of these positions on, as a row for each; all of them must be there."""
    return windows(data, length)[begins].view(np.uint8).reshape(len(begins), length)


def all_alike(data: bytes, begins: Ints, ends: Ints) -> bool:
    """Whether all spans have the same bytes; there must be one."""
    length = int(ends[0] - begins[0])
    if (ends - begins != length).any():
        return False
    if length == 0:
        return True
    if length > LENGTH_MAX:
        return False
    # A few of them first, since most columns are not alike.
    for some in (begins[:: len(begins) // 8 + 1], begins):
        found = bytes_at(data, some, length)
        if (found != found[0]).any():
            return False
    return True


def cut_once(data: bytes, begins: Ints, ends: Ints) -> list[bytes]:
    """As `cut`; equal spans that follow each other are one object, and are not looked at again."""
    lengths = ends - begins
    if not len(lengths) or lengths[0] < 1 or lengths[0] > LENGTH_MAX or (lengths != lengths[0]).any():
        return cut(data, begins, ends)
    rows = bytes_at(data, begins, int(lengths[0]))
    first = np.flatnonzero(np.append(True, (rows[1:] != rows[:-1]).any(axis=1)))
    values = np.empty(len(first), object)
    values[:] = cut(data, begins[first], ends[first])
    found: list[bytes] = np.repeat(values, np.diff(np.append(first, len(rows)))).tolist()
    return found


def made_once(spans: list[bytes], make: Callable[[bytes], Any]) -> list[Any]:
    """What `make` gives for each span; for equal ones the same object."""
    known = {span: make(span) for span in set(spans)}
    return list(map(known.__getitem__, spans))

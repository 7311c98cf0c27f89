"""Values of a field of many objects, kept in little memory: numbers in arrays, byte strings in one behind the other.

They become Python values only of those objects that are requested (`frozen.instances`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from paimon_engine.format.byte_spans import LENGTH_MAX, bytes_at, cut, different_lengths
from paimon_engine.frozen import FieldValues, Same, instances
from paimon_engine.meta.stats import SimpleStats

Ints = NDArray[np.int64]

_LENGTHS_MAX: Final = 16
"""Different lengths of byte strings up to which those of a length are copied at once."""


_LOWER: Final = np.uint8(0x20)
"""The bit of letters that are small; other printable bytes of names of formats have it, too."""


class FieldColumn(Protocol):
    """Values of one field, in the order of the objects."""

    def at(self, places: Ints) -> FieldValues:
        """The values of the objects at these places, in that order."""


class NumberColumn:
    """Integers; None where they are not `present`."""

    __slots__ = ("present", "values")

    def __init__(self, values: Ints, present: NDArray[np.bool_] | None = None) -> None:
        self.values, self.present = values, present

    def at(self, places: Ints) -> FieldValues:
        values: list[int] = self.values[places].tolist()
        if self.present is None:
            return values
        there = self.present[places].tolist()
        return [value if is_there else None for value, is_there in zip(values, there, strict=True)]


class Objects:
    """Any values."""

    __slots__ = ("values",)

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = values

    def at(self, places: Ints) -> FieldValues:
        return list(map(self.values.__getitem__, places.tolist()))


class ByteStrings:
    """Copies of spans of a byte string, all of which must be within it; `as_text` if they are ASCII."""

    __slots__ = ("_as_text", "_begins", "_data", "_ends")

    def __init__(self, data: bytes, begins: Ints, ends: Ints, *, as_text: bool = False) -> None:
        lengths = ends - begins
        self._as_text = as_text
        self._begins = np.empty(len(lengths), np.int64)
        different = different_lengths(lengths)
        if len(different) > _LENGTHS_MAX or (different and different[-1] > LENGTH_MAX):
            self._data = b"".join(cut(data, begins, ends))
            self._begins = np.cumsum(lengths) - lengths
        else:
            parts, size = [], 0
            for length in different:
                [who] = (lengths == length).nonzero()
                parts.append(bytes_at(data, begins[who], length).tobytes() if length else b"")
                self._begins[who] = np.arange(size, size + len(who) * length, length) if length else size
                size += len(parts[-1])
            self._data = b"".join(parts)
        self._ends = self._begins + lengths

    def at(self, places: Ints) -> FieldValues:
        found = cut(self._data, self._begins[places], self._ends[places])
        return [item.decode("ascii") for item in found] if self._as_text else found

    def rows(self, places: Ints) -> NDArray[np.uint8] | None:
        """The bytes at these places, of each in a row; None where not all have the same length, at least 1."""
        begins = self._begins[places]
        lengths = self._ends[places] - begins
        if not len(lengths) or lengths[0] < 1 or (lengths != lengths[0]).any():
            return None
        return bytes_at(self._data, begins, int(lengths[0]))

    def end_with(self, suffix: bytes, places: Ints) -> NDArray[np.bool_]:
        """Which of those at these places end with that, in letters of any case."""
        begins = self._ends[places] - len(suffix)
        found: NDArray[np.bool_] = begins >= self._begins[places]
        if found.any():
            ends = bytes_at(self._data, begins[found], len(suffix)) | _LOWER
            found[found] = (ends == np.frombuffer(suffix, np.uint8)).all(axis=1)
        return found


class Statistics:
    """Statistics of columns, by the columns of their parts."""

    __slots__ = ("_parts",)

    def __init__(self, min_values: FieldColumn, max_values: FieldColumn, null_counts: FieldColumn) -> None:
        self._parts = (min_values, max_values, null_counts)

    def at(self, places: Ints) -> FieldValues:
        return instances(SimpleStats, len(places), [part.at(places) for part in self._parts])

    def apart(self, places: Ints) -> list[list[Any]]:
        """The values of each part at these places."""
        found = [part.at(places) for part in self._parts]
        return [[some.value] * len(places) if isinstance(some, Same) else list(some) for some in found]


def statistics_column(min_values: FieldColumn, max_values: FieldColumn, null_counts: FieldColumn) -> FieldColumn:
    """Statistics of columns; one object for all where all are alike."""
    parts = [part.value for part in (min_values, max_values, null_counts) if isinstance(part, Same)]
    return Same(SimpleStats(*parts)) if len(parts) == 3 else Statistics(min_values, max_values, null_counts)

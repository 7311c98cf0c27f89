"""Sorted runs of a bucket: every file of level 0 is one, each higher level is one.

Source: `Levels`, `SortedRun` of the Java library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from paimon_engine.format.binary_row import decode_row, null_bits_size, row_order
from paimon_engine.meta.manifest import DataFile
from paimon_engine.types import AtomicType, RowType, TypeRoot

_INTEGERS: Final[Mapping[TypeRoot, str]] = {
    TypeRoot.TINYINT: "<i1",
    TypeRoot.SMALLINT: "<i2",
    TypeRoot.INT: "<i4",
    TypeRoot.DATE: "<i4",
    TypeRoot.TIME: "<i4",
    TypeRoot.BIGINT: "<i8",
}
"""Types whose values are integers in their slot of a binary row."""
_ARITY_BYTES: Final = 4
_SLOT_BYTES: Final = 8


class KeyOrder:
    """Order of keys of a type: bytes of a key to a value that compares as keys do."""

    def __init__(self, key_type: RowType) -> None:
        """Nothing is decoded yet."""
        self._types = [field.type for field in key_type]
        self._known: dict[bytes, tuple[Any, ...]] = {}
        kinds = [_INTEGERS.get(one.root) if isinstance(one, AtomicType) else None for one in self._types]
        self._integers = [kind for kind in kinds if kind is not None]
        self._head = len(kinds).to_bytes(_ARITY_BYTES, "big") + bytes(null_bits_size(len(kinds)))

    def __call__(self, key: bytes) -> tuple[Any, ...]:
        """A value that compares as keys do. Raises: CorruptTableError if the bytes are no key of the type."""
        known = self._known.get(key)
        if known is None:
            known = row_order(decode_row(self._types, key))
            self._known[key] = known
        return known

    def numbers(self, keys: Sequence[bytes]) -> NDArray[np.int64] | None:
        """A number for each key, which compare as the keys do; None for others than plain rows of integers."""
        if not keys or set(map(len, keys)) != {self._size()}:
            return None
        return self.numbers_of_rows(np.frombuffer(b"".join(keys), np.uint8).reshape(len(keys), -1))

    def _size(self) -> int:
        """Bytes of a key of numbers."""
        return len(self._head) + _SLOT_BYTES * len(self._types)

    def numbers_of_rows(self, rows: NDArray[np.uint8]) -> NDArray[np.int64] | None:
        """As `numbers`, of the bytes of each key in a row."""
        if not self._integers or len(self._integers) != len(self._types) or rows.shape[1] != self._size():
            return None
        if (rows[:, : len(self._head)] != np.frombuffer(self._head, np.uint8)).any():
            # A null, or no row of this type.
            return None
        columns = []
        for index, kind in enumerate(self._integers):
            begin = len(self._head) + _SLOT_BYTES * index
            part = np.ascontiguousarray(rows[:, begin : begin + np.dtype(kind).itemsize])
            columns.append(part.view(kind)[:, 0].astype(np.int64))
        return columns[0] if len(columns) == 1 else _ranks(columns)


def _ranks(columns: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Numbers that compare as rows of these columns do, the first column first."""
    order = np.lexsort(columns[::-1])
    differs = np.zeros(len(order), bool)
    for column in columns:
        differs[1:] |= column[order[1:]] != column[order[:-1]]
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.cumsum(differs)
    return ranks


def key_order(key_type: RowType) -> KeyOrder:
    """Order of keys of that type."""
    return KeyOrder(key_type)


@dataclass(frozen=True, slots=True)
class SortedRun:
    """Files of one level whose keys are disjoint, in key order; a single file at level 0."""

    level: int
    files: tuple[DataFile, ...]

    @property
    def size_bytes(self) -> int:
        """Compressed bytes."""
        return sum(file.size_bytes for file in self.files)


def sorted_runs(files: Sequence[DataFile], order: KeyOrder) -> list[SortedRun]:
    """Runs of a bucket, newest first: level 0 from the newest file on, then level 1, 2 and so on."""
    recent = sorted((file for file in files if file.level == 0), key=_newest_first)
    runs = [SortedRun(0, (file,)) for file in recent]
    for level in sorted({file.level for file in files} - {0}):
        members = _by_smallest_key([file for file in files if file.level == level], order)
        runs.append(SortedRun(level, tuple(members)))
    return runs


def _by_smallest_key(files: Sequence[DataFile], order: KeyOrder) -> Sequence[DataFile]:
    numbers = order.numbers([file.min_key for file in files])
    if numbers is None:
        return sorted(files, key=lambda file: order(file.min_key))
    return [files[place] for place in np.argsort(numbers, kind="stable").tolist()]


def _newest_first(file: DataFile) -> tuple[Any, ...]:
    return (-file.max_sequence_number, file.min_sequence_number, file.creation_time_ms or 0, file.name)


def level_count(files: Sequence[DataFile], option: int) -> int:
    """Levels of the bucket: as the option says, or more if files already are in higher ones."""
    return max(option, max((file.level for file in files), default=0) + 1)

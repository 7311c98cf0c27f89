"""Sorted runs of a bucket: every file of level 0 is one, each higher level is one.

Source: `Levels`, `SortedRun` of the Java library.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from paimon_engine.format.binary_row import decode_row, row_order
from paimon_engine.meta.manifest import DataFile
from paimon_engine.types import RowType

KeyOrder = Callable[[bytes], tuple[Any, ...]]
"""Bytes of a key to a value that compares as keys do."""


def key_order(key_type: RowType) -> KeyOrder:
    """Order of keys of that type."""
    types = [field.type for field in key_type]

    @cache
    def order(key: bytes) -> tuple[Any, ...]:
        return row_order([_nan_above_all(value) for value in decode_row(types, key)])

    return order


def _nan_above_all(value: Any) -> Any:
    return (math.isnan(value), 0.0 if math.isnan(value) else value) if isinstance(value, float) else value


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
        members = sorted((file for file in files if file.level == level), key=lambda file: order(file.min_key))
        runs.append(SortedRun(level, tuple(members)))
    return runs


def _newest_first(file: DataFile) -> tuple[Any, ...]:
    return (-file.max_sequence_number, file.min_sequence_number, file.creation_time_ms or 0, file.name)


def level_count(files: Sequence[DataFile], option: int) -> int:
    """Levels of the bucket: as the option says, or more if files already are in higher ones."""
    return max(option, max((file.level for file in files), default=0) + 1)

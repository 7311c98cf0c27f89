"""Facts in the footer of a Parquet file about whole columns, so that some need not be decoded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

IntegerRanges = Mapping[str, tuple[int, int]]
"""Column → smallest and largest integer."""

ColumnChoice = Callable[[pq.FileMetaData], pa.Schema]
"""Footer → the columns that are to be read of that file."""


def keeps_within(metadata: pq.FileMetaData, bounds: IntegerRanges) -> bool:
    """Whether the footer shows that each of the columns exists, has no null, and only values within its bounds."""
    indices = {metadata.schema.column(index).path: index for index in range(metadata.num_columns)}
    if not bounds.keys() <= indices.keys():
        return False
    return all(
        _group_keeps_within(metadata.row_group(number).column(indices[name]), low, high)
        for number in range(metadata.num_row_groups)
        for name, (low, high) in bounds.items()
    )


def _group_keeps_within(chunk: pq.ColumnChunkMetaData, low: int, high: int) -> bool:
    found = chunk.statistics
    if found is None or not (found.has_min_max and found.has_null_count) or found.null_count:
        return False
    least, most = found.min, found.max
    return isinstance(least, int) and isinstance(most, int) and low <= least and most <= high


@dataclass
class SparedColumns:
    """Leaves `omittable` columns out where the footer `keeps_within` bounds; `omitted` are those of the last file."""

    wanted: pa.Schema
    omittable: frozenset[str]
    bounds: IntegerRanges
    omitted: frozenset[str] = frozenset()

    def __call__(self, metadata: pq.FileMetaData) -> pa.Schema:
        """The columns to be read of a file with this footer."""
        self.omitted = self.omittable if self.omittable and keeps_within(metadata, self.bounds) else frozenset()
        return pa.schema([field for field in self.wanted if field.name not in self.omitted])

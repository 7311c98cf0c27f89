"""Facts in the footer of a Parquet file about whole columns and row groups, so that some need not be decoded."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.predicate import (
    Predicate,
    all_match,
    bind,
    columns_of,
    conjuncts_of,
    find_field,
    may_match,
    with_values,
)

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


_NOTHING_KNOWN: Final = None, None


class ChunkBounds(NamedTuple):
    """Of a column in a row group or some pages; None is unknown. Points in time are integers."""

    min: Any | None
    max: Any | None
    null_count: int | None


def matching_groups(
    file: pq.ParquetFile, where: Predicate | None, without_nan: Collection[str]
) -> list[tuple[int, bool]]:
    """Numbers of the row groups that may have a row that matches; each with whether all its rows match.

    Rows with a null in a column of the filter count as matching there: who reads them looks at each.

    Footers do not count NaN, which columns have none of only if they are in `without_nan`.
    """
    parts = _bound_parts(where, file.schema_arrow)
    metadata = file.metadata
    if not parts:
        return [(number, True) for number in range(metadata.num_row_groups)]
    columns = _plain_leaves(metadata, frozenset().union(*map(columns_of, parts)))
    types = {name: find_field(file.schema_arrow, name)[1].type for name in columns}
    found = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        ranges = {
            name: bounds_of(group.column(index), types[name], may_be_nan=name not in without_nan)
            for name, index in columns.items()
        }
        if all(may_match(part, ranges, group.num_rows) for part in parts):
            found.append((number, all(all_match(part, ranges, group.num_rows) for part in parts)))
    return found


def _bound_parts(where: Predicate | None, stored: pa.Schema) -> Sequence[Predicate]:
    """The conjuncts with values as ranges have them."""
    parts = []
    for part in conjuncts_of(where):
        # A column that is stored as another type than it has in the table may not take the literal.
        with contextlib.suppress(InvalidArgumentError):
            parts.append(with_plain_values(bind(part, stored)))
    return parts


def with_plain_values(bound: Predicate) -> Predicate:
    """A filter whose literals have the types of the columns, with values as `ChunkBounds` have them."""
    return with_values(bound, _plain_value)


def _plain_value(value: pa.Scalar) -> Any:
    return value.value if pa.types.is_temporal(value.type) else value.as_py()


def _plain_leaves(metadata: pq.FileMetaData, names: Iterable[str]) -> dict[str, int]:
    """Column index of those of the columns that have a value or null for each row."""
    schema = metadata.schema
    paths = [schema.column(index).path for index in range(metadata.num_columns)]
    counts = Counter(paths)
    return {
        path: index
        for index, path in enumerate(paths)
        if path in names and counts[path] == 1 and not schema.column(index).max_repetition_level
    }


def bounds_of(chunk: pq.ColumnChunkMetaData, arrow_type: pa.DataType, *, may_be_nan: bool = True) -> ChunkBounds:
    """What the footer says of the values of a column in a row group, which have that type in Arrow.

    No checksum covers the footer: what cannot be is not believed.
    """
    found = chunk.statistics
    if found is None:
        return ChunkBounds(*_NOTHING_KNOWN, None)
    low, high = _bounds(found, arrow_type) if found.has_min_max else _NOTHING_KNOWN
    null_count = found.null_count if found.has_null_count else None
    if low is not None and (low > high or null_count == chunk.num_values):
        return ChunkBounds(*_NOTHING_KNOWN, None)
    if null_count is not None and not 0 <= null_count <= chunk.num_values:
        null_count = None
    if may_be_nan and isinstance(high, float):
        high = math.nan
    return ChunkBounds(low, high, null_count)


def _bounds(found: pq.Statistics, arrow_type: pa.DataType) -> tuple[Any, Any]:
    if not pa.types.is_temporal(arrow_type):
        try:
            return found.min, found.max
        except (pa.ArrowException, UnicodeDecodeError):
            # Texts that were cut within a character, and types whose bounds Arrow does not know.
            return _NOTHING_KNOWN
    low, high = found.min_raw, found.max_raw
    return (low, high) if isinstance(low, int) and isinstance(high, int) else _NOTHING_KNOWN

"""How many bytes the rows of a Parquet file take when they are decoded, so that a batch is no larger than meant.

Footers tell bytes before compression, which is what most values take. Texts and bytes that lie in dictionaries may be
many times as large: a long one is stored once, and decoded for each row. Where the bounds of a column, or that it has
none, say that its values may be long, a few rows of each row group are decoded first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow.parquet as pq

from paimon_engine.format.layout import BATCH_BYTES

_SAMPLE_ROWS: Final = 64
_SHORT_BYTES: Final = 256
"""Values up to that long need no closer look."""
_FIXED_BYTES: Final = 8


def row_bytes(file: pq.ParquetFile, columns: Sequence[str], row_groups: Sequence[int] | None = None) -> int:
    """About how many bytes a row of these columns takes in Arrow, in that row group where rows are widest.

    `columns` are names of columns, or paths of their leaves, as for `ParquetFile.iter_batches`.
    """
    metadata = file.metadata
    groups = range(metadata.num_row_groups) if row_groups is None else row_groups
    leaves = [
        (place, path)
        for place in range(metadata.num_columns)
        for path in [metadata.schema.column(place).path]
        if any(path == name or path.startswith(f"{name}.") for name in columns)
    ]
    return max((_of_group(file, number, leaves) for number in groups), default=1)


def _of_group(file: pq.ParquetFile, number: int, leaves: Sequence[tuple[int, str]]) -> int:
    group = file.metadata.row_group(number)
    if not group.num_rows:
        return 1
    size_bytes, largest, long = 0, 1, list[str]()
    for place, path in leaves:
        chunk = group.column(place)
        if chunk.physical_type == "BYTE_ARRAY" and chunk.has_dictionary_page:
            longest = _longest_bound(chunk)
            if longest is None or longest > _SHORT_BYTES:
                long.append(path)
                largest += chunk.total_uncompressed_size
            size_bytes += max(chunk.total_uncompressed_size, chunk.num_values * (longest or 0))
        else:
            size_bytes += max(chunk.total_uncompressed_size, chunk.num_values * _FIXED_BYTES)
    width: int = size_bytes // group.num_rows
    if long:
        width = max(width, _sampled(file, number, long, largest))
    return max(1, width)


def _sampled(file: pq.ParquetFile, number: int, columns: Sequence[str], largest: int) -> int:
    """Bytes of a row in the first rows of a row group, of which none takes more than `largest`."""
    step = max(1, min(_SAMPLE_ROWS, BATCH_BYTES // largest))
    size_bytes = rows = 0
    for batch in file.iter_batches(step, row_groups=[number], columns=columns, use_threads=False):
        size_bytes += batch.nbytes
        rows += batch.num_rows
        if rows >= _SAMPLE_ROWS or size_bytes >= BATCH_BYTES:
            break
    return size_bytes // max(1, rows)


def _longest_bound(chunk: pq.ColumnChunkMetaData) -> int | None:
    """Length of the longer one of the bounds; 0 where all values are null, None if nothing is known."""
    if not chunk.is_stats_set:
        return None
    statistics = chunk.statistics
    if statistics.has_min_max:
        bounds: tuple[bytes, bytes] = statistics.min_raw, statistics.max_raw
        return max(map(len, bounds))
    has_nulls_only: bool = statistics.has_null_count and statistics.null_count == chunk.num_values
    return 0 if has_nulls_only else None

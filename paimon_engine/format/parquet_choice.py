"""Rows of a Parquet file that a filter chooses: found by the columns of the filter before the others are decoded.

For a filter over a good part of the columns, and where rows that match are all over a row group, this costs more than
it saves: row groups are read as a whole then.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.arrow_values import as_numbers
from paimon_engine.errors import InvalidArgumentError
from paimon_engine.format.layout import leaf_paths
from paimon_engine.format.parquet_pages import Run, part_of
from paimon_engine.format.parquet_stored import StoredFile
from paimon_engine.format.parquet_widths import leaf_indices
from paimon_engine.predicate import Predicate, bind, columns_of, conjunction, conjuncts_of, matches

_CHOSEN_ROWS_MIN = 1 << 14
"""Row groups with fewer rows are read as a whole."""
_CHOSEN_BYTES_SHARE_MAX = 0.3
"""Largest share of the bytes of all columns in those of the filter, which are decoded for nothing if all rows match."""


class RowChoice:
    """Finds the rows that match by the columns of a filter, and reads the pages of all columns with them."""

    def __init__(self, stored: StoredFile, columns: pa.Schema, where: Predicate | None) -> None:
        self._stored = stored
        self._columns = columns
        paths = leaf_paths(columns, stored.schema) if where is not None else []
        self._leaves = leaf_indices(stored.metadata, paths)
        fields: dict[str, pa.Field] = {}
        parts: list[Predicate] = []
        for part in conjuncts_of(where):
            used = [field for field in stored.schema if field.name in columns_of(part)]
            # As in `matching_groups`: a column may have another type in the file.
            with contextlib.suppress(InvalidArgumentError):
                bound = bind(part, pa.schema(used))
                if all(field.name in self._leaves for field in used):
                    fields |= {field.name: field for field in used}
                    parts.append(bound)
        self._filter_schema = pa.schema(list(fields.values()))
        self._parts = parts

    def matching(self, number: int) -> Iterable[tuple[int, pa.RecordBatch]] | None:
        """Batches with all matching rows of a row group, and other rows, by the position of their first row in it.

        None: the whole row group should be read.

        Raises: CorruptTableError.
        """
        if not self._parts or not self._is_worth_it(number):
            return None
        positions = self._positions(number)
        if not len(positions):
            return []
        stored = self._stored
        part = part_of(
            stored.source, stored.metadata, number, [*self._leaves.values()], positions=positions, path=stored.path
        )
        if part is None:
            # For the other row groups it will not be worth it either.
            self._parts = []
            return None
        pages = stored.of_part(io.BytesIO(part.file))
        extents = [(run.begin, *_extent(positions, run)) for run in part.runs]
        return (
            rows
            for index, (begin, first, end) in enumerate(extents)
            for rows in numbered(first, pages.read(self._columns, [index], begin=first - begin, end=end - begin))
        )

    def _is_worth_it(self, number: int) -> bool:
        group = self._stored.metadata.row_group(number)
        sizes = {name: int(group.column(index).total_uncompressed_size) for name, index in self._leaves.items()}
        in_filter = sum(sizes[name] for name in self._filter_schema.names)
        return bool(group.num_rows >= _CHOSEN_ROWS_MIN) and in_filter <= _CHOSEN_BYTES_SHARE_MAX * sum(sizes.values())

    def _positions(self, number: int) -> npt.NDArray[np.int64]:
        """Positions in the row group of the rows that match, or may match as a column of the filter is null."""
        found, begin = [np.zeros(0, np.int64)], 0
        where = conjunction(*self._parts)
        for rows in self._stored.plain().read(self._filter_schema, [number]):
            match = matches(where, rows)
            if match.null_count:
                # The caller may know what is null here, as keys that Java left out of its rows.
                match = pc.fill_null(match, fill_value=True)
            found.append(as_numbers(pc.indices_nonzero(match)).astype(np.int64) + begin)
            begin += rows.num_rows
        return np.concatenate(found)


def numbered(row: int, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Each batch with the position of its first row; that of the first batch is `row`."""
    for rows in batches:
        yield row, rows
        row += rows.num_rows


def _extent(positions: npt.NDArray[np.int64], run: Run) -> tuple[int, int]:
    """The first one of the positions within the run, and the last one plus one."""
    first, last = np.searchsorted(positions, run).tolist()
    return int(positions[first]), int(positions[last - 1]) + 1

"""Rows of a Parquet file that a filter chooses: found by the columns of the filter before the others are decoded.

Where bounds of pages are known, as of keys in their order, the columns of the filter are decoded of those pages only
that may have such rows. For a filter over a good part of the columns, and where rows that match are all over a row
group, this costs more than it saves: row groups are read as a whole then.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from paimon_engine.arrow_values import as_numbers
from paimon_engine.errors import InvalidArgumentError
from paimon_engine.format.layout import leaf_paths
from paimon_engine.format.parquet_bounds import bounds_of, with_plain_values
from paimon_engine.format.parquet_chunk_check import StoredFooter
from paimon_engine.format.parquet_page_bounds import PageBounds, headers_have_bounds
from paimon_engine.format.parquet_pages import GroupPages, Part, Run, rows_in
from paimon_engine.format.parquet_stored import StoredFile
from paimon_engine.format.parquet_widths import leaf_indices
from paimon_engine.predicate import (
    Predicate,
    all_match,
    bind,
    columns_of,
    conjunction,
    conjuncts_of,
    matches,
    may_match,
)

_CHOSEN_ROWS_MIN = 1 << 14
"""Row groups with fewer rows are read as a whole."""
_CHOSEN_BYTES_SHARE_MAX = 0.3
"""Largest share of the bytes of all columns in those of the filter, which are decoded for nothing if all rows match."""
_NEAR_SHARE_MAX = 0.5
"""Share of the rows, by the page index, up to which the columns of the filter may have more of the bytes."""


class RowChoice:
    """Finds the rows that match by the columns of a filter, and reads the pages of all columns with them."""

    def __init__(self, stored: StoredFile, columns: pa.Schema, where: Predicate | None) -> None:
        self._stored = stored
        self._columns = columns
        paths = leaf_paths(columns, stored.schema) if where is not None else []
        self._leaves = leaf_indices(stored.metadata, paths)
        self._footer = StoredFooter(stored.source, stored.metadata, stored.path)
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
        self._plain_parts = [with_plain_values(part) for part in parts]

    def matching(self, number: int) -> Iterable[tuple[int, pa.RecordBatch]] | None:
        """Batches with all matching rows of a row group, and other rows, by the position of their first row in it.

        None: the whole row group should be read.

        Raises: CorruptTableError.
        """
        stored = self._stored
        group = stored.metadata.row_group(number)
        if not self._parts or group.num_rows < _CHOSEN_ROWS_MIN:
            return None
        indices = [self._leaves[name] for name in self._filter_schema.names]
        pages = GroupPages(stored.source, stored.metadata, number, stored.path, footer=self._footer, bounded=indices)
        is_light = self._share_of_filter(group) <= _CHOSEN_BYTES_SHARE_MAX
        if not is_light and not all(map(pages.is_indexed, indices)):
            return None
        near = self._near(number, pages)
        if not is_light and (near is None or rows_in(run for run, _ in near) > _NEAR_SHARE_MAX * pages.rows):
            return None
        positions = self._positions(number) if near is None else self._positions_near(number, pages, near)
        if not len(positions):
            return []
        end = int(positions[-1]) + 1
        if end == len(positions) < pages.rows:
            # What Arrow need not skip it reads of the file itself.
            return numbered(0, stored.read(self._columns, [number], end=end))
        part = pages.part_of([*self._leaves.values()], positions)
        if part is not None:
            return self._rows_of(part, positions)
        if near is None:
            # For the other row groups it will not be worth it either.
            self._parts = []
        return None

    def _rows_of(self, part: Part, positions: npt.NDArray[np.int64]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """As `matching`, of the pages in which these positions are."""
        pages = self._stored.of_part(pa.BufferReader(part.file))
        for index, run in enumerate(part.runs):
            first, last = np.searchsorted(positions, run).tolist()
            begin, end = int(positions[first]), int(positions[last - 1]) + 1
            found = pages.read(self._columns, [index], begin=begin - run.begin, end=end - run.begin)
            yield from numbered(begin, found)

    def _near(self, number: int, pages: GroupPages) -> list[tuple[Run, bool]] | None:
        """Rows of a row group that may match by the bounds of pages, each run with whether all of them match.

        None if bounds tell nothing, or to look at headers takes longer than to decode all. Raises: CorruptTableError.
        """
        stored = self._stored
        group, schema = stored.metadata.row_group(number), stored.metadata.schema
        indices = [self._leaves[name] for name in self._filter_schema.names]
        if stored.is_ranged and not all(map(pages.is_indexed, indices)):
            # Each header of a page would take a request.
            return None
        in_headers = headers_have_bounds(stored.metadata)
        bounds: dict[str, PageBounds] = {}
        for field, index in zip(self._filter_schema, indices, strict=True):
            if not (in_headers or pages.is_indexed(index)):
                continue
            within = bounds_of(group.column(index), field.type)
            one = PageBounds(stored.source, schema.column(index), within, field.type)
            if one.are_known:
                bounds[field.name] = one
        cuts = pages.cuts(indices) if bounds else None
        if cuts is None:
            return None
        near = []
        for begin, end in pairwise([*cuts, pages.rows]):
            ranges = {
                name: over
                for name, one in bounds.items()
                if (over := one.over(pages.within(self._leaves[name], begin, end))) is not None
            }
            if all(may_match(part, ranges, end - begin) for part in self._plain_parts):
                is_whole = all(all_match(part, ranges, end - begin) for part in self._plain_parts)
                near.append((Run(begin, end), is_whole))
        return near if rows_in(run for run, is_whole in near if not is_whole) < pages.rows else None

    def _share_of_filter(self, group: pq.RowGroupMetaData) -> float:
        """Share of the bytes of all columns that are in those of the filter."""
        sizes = {name: int(group.column(index).total_uncompressed_size) for name, index in self._leaves.items()}
        return sum(sizes[name] for name in self._filter_schema.names) / max(1, sum(sizes.values()))

    def _positions(self, number: int) -> npt.NDArray[np.int64]:
        """Positions in the row group of the rows that match, or may match as a column of the filter is null."""
        return self._found(self._stored.plain().read(self._filter_schema, [number]))

    def _positions_near(
        self, number: int, pages: GroupPages, near: Sequence[tuple[Run, bool]]
    ) -> npt.NDArray[np.int64]:
        """The same; columns of the filter are decoded in those runs only of which some rows may match, and not all."""
        found = {run.begin: np.arange(*run) for run, is_whole in near if is_whole}
        unsure = [np.arange(*run) for run, is_whole in near if not is_whole]
        if unsure:
            leaves = [self._leaves[name] for name in self._filter_schema.names]
            part = pages.part_of(leaves, np.concatenate(unsure))
            if part is None:
                return self._positions(number)
            stored = self._stored.of_part(pa.BufferReader(part.file), keeps_dictionaries=False)
            for index, run in enumerate(part.runs):
                found[run.begin] = self._found(stored.read(self._filter_schema, [index])) + run.begin
        return np.concatenate([np.zeros(0, np.int64), *(found[begin] for begin in sorted(found))])

    def _found(self, batches: Iterable[pa.RecordBatch]) -> npt.NDArray[np.int64]:
        """Positions in the batches, from the first one on, of the rows that match or may match."""
        found, begin = [np.zeros(0, np.int64)], 0
        where = conjunction(*self._parts)
        for rows in batches:
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

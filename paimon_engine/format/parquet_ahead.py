"""A Parquet file whose pages are checked by their headers before Arrow reads them, so that it reads the file itself.

For files in which a look costs nothing: those of the local disk, and bytes in memory. Each read of Arrow through
Python copies the bytes twice and waits for the interpreter lock: with `parquet_watch` a scan of three columns took 6 %
more processor time, a compaction 3 %, and one of four buckets on two threads 4 % (6,000,000 rows).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from paimon_engine.format.parquet_page_sizes import ChunkPages, chunks_to_read, headers


@dataclass(slots=True)
class _Group:
    """Chunks of a row group; `begin`, `rows`: its place among the rows that are read."""

    begin: int
    rows: int
    chunks: list[ChunkPages]


class PagesAhead:
    """Looks at headers of pages in a file that Arrow reads itself.

    Only for flat columns: of these it is known which pages have which rows.
    """

    is_ranged = False
    """Whether a look here and there costs a request."""

    def __init__(self, source: BinaryIO, path: str) -> None:
        """Nothing is checked before `expect`."""
        self.file = source
        """What Arrow reads."""
        self._path = path
        self._groups: dict[int, _Group] = {}
        self._left: deque[_Group] = deque()
        self._batch_rows = 0
        self._end: float = inf

    def expect(
        self, metadata: pq.FileMetaData, indices: Collection[int], row_groups: Sequence[int], *, batch_rows: int
    ) -> None:
        """From now on the chunks of the columns at these indices, in these row groups, are read.

        Raises: CorruptTableError if they overlap.
        """
        self._groups, begin = {}, 0
        found = chunks_to_read(metadata, row_groups, indices, self._path, batch_rows=batch_rows)
        for number, chunks in zip(row_groups, found, strict=True):
            self._groups[number] = _Group(begin, metadata.row_group(number).num_rows, chunks)
            begin += self._groups[number].rows

    def look(self, row_group: int, indices: Collection[int]) -> None:
        """Checks the pages of these columns in a row group, some of whose rows are read now.

        Raises: CorruptTableError, StorageError.
        """
        for pages in self._groups[row_group].chunks:
            if pages.index in indices:
                self._check(pages, self._groups[row_group].rows)

    def expect_again(
        self,
        longest_bytes: Mapping[int, int],
        *,
        batch_rows: int,
        size_bytes: int,  # noqa: ARG002 - nothing is held
        end: int | None = None,
    ) -> None:
        """The same chunks are read from their begin, so many rows at once, up to row `end`.

        `longest_bytes`: as for `WatchedFile.expect_again`.
        """
        self._batch_rows, self._end = batch_rows, inf if end is None else end
        self._left = deque(self._groups.values())
        for group in self._left:
            for pages in group.chunks:
                pages.restart(batch_rows, longest_bytes[pages.index])

    def begin_batch(self, row: int) -> None:
        """Checks the row groups that begin among the rows that Arrow decodes next, of which the first one is at `row`.

        Raises: CorruptTableError, StorageError.
        """
        if not self._left:
            return
        # Where a row group ends within them, they come as two batches, decoded at once.
        end = (row // self._batch_rows + 1) * self._batch_rows
        while self._left and self._left[0].begin < end:
            group = self._left.popleft()
            rows = int(min(group.rows, self._end - group.begin))
            first = self._batch_rows - group.begin % self._batch_rows
            for pages in group.chunks:
                # All at once takes half of the time that it takes batch by batch, between what Arrow does.
                for until in (*range(first, rows, self._batch_rows), rows):
                    pages.begin_batch()
                    self._check(pages, until)

    def end_batch(self, row: int) -> None:
        """The rows in front of that one have been decoded, whose pages had all values."""

    def finish(self) -> None:
        """They are not read any more."""
        self._left.clear()

    def _check(self, pages: ChunkPages, rows: int) -> None:
        for _ in headers(self.file, pages, values=rows):
            pass


def is_at_hand(source: BinaryIO) -> bool:
    """Whether Arrow reads the file without Python, and a look here and there costs nothing."""
    return isinstance(source, pa.OSFile | pa.BufferReader)

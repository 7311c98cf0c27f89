"""A changelog that repeats the rows of new data files: their row groups are copied, not encoded once more.

Where all rows of a row group are new to the table, as those of events are, its bytes are what the changelog has to say.
So such rows wait until their row group is complete, and are forgotten then; when the data files are complete, these row
groups are copied into changelog files of their own. To encode them took a quarter of such a compaction (measured).

Changes of row groups that have other rows as well are written at once, as usual.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise

import pyarrow as pa

from paimon_engine.meta.manifest import DataFile
from paimon_engine.table.compaction.row_group_copies import RowGroupCopies
from paimon_engine.table.files.rolling_writer import RollingWriter


class ChangelogBeside:
    """Takes the changes beside the rows that a compaction leaves; `finish` gives the changelog files."""

    def __init__(self, data: RollingWriter, begin: Callable[[], RollingWriter], copies: RowGroupCopies) -> None:
        """`data` gets the rows; `begin` makes a writer of changelog files."""
        self._data = data
        self._begin_files = begin
        self._changelog = begin()
        self._copies = copies
        self._rows = 0
        self._begin = 0
        """The first row, of all that `data` got, that is not in a complete row group."""
        self._waiting: list[pa.RecordBatch] = []
        """Changes from there on, as long as they repeat the rows."""
        self._repeats = True
        self._repeated: list[tuple[int, int]] = []
        """Ranges of rows, whole row groups, whose changes were not written."""

    def write(self, changes: pa.RecordBatch | None, rows: pa.RecordBatch) -> None:
        """Adds changes, which are `rows` itself where these are all new. The last ones that `data` got are `rows`."""
        if not self._copies.are_for_changelogs:
            if changes is not None:
                self._changelog.write(changes)
            return
        before, repeats = self._rows, changes is rows
        self._rows += rows.num_rows
        complete = self._rows - self._data.rows_pending
        closes = complete > self._begin
        # What follows the end of a row group may be part of one that repeats all of its rows.
        inside, behind = (complete - before, [rows.slice(complete - before)]) if closes else (rows.num_rows, [])
        if repeats and self._repeats:
            if closes:
                self._repeated.append((self._begin, complete))
            self._waiting = behind if closes else [*self._waiting, rows]
        elif repeats:
            self._changelog.write(rows.slice(0, inside))
            self._waiting, self._repeats = behind, closes
        else:
            self._write_waiting()
            if changes is not None:
                self._changelog.write(changes)
            self._repeats = closes and complete == self._rows
        if closes:
            self._begin = complete

    def _write_waiting(self) -> None:
        for rows in self._waiting:
            self._changelog.write(rows)
        self._waiting = []

    def finish(self, files: Sequence[DataFile]) -> list[DataFile]:
        """The changelog files, given the data files, which are complete.

        Raises: NotFoundError, CorruptTableError, StorageError.
        """
        if self._waiting and not self._repeated:
            self._write_waiting()
        elif self._waiting:
            self._repeated.append((self._begin, self._rows))
        return [*self._changelog.finish(), *self._copied(files)]

    def _copied(self, files: Sequence[DataFile]) -> Sequence[DataFile]:
        if not self._repeated:
            return ()
        writer = self._begin_files()
        ends = accumulate((file.row_count for file in files), initial=0)
        for (begin, end), file in zip(pairwise(ends), files, strict=True):
            ranges = [(max(low, begin) - begin, min(high, end) - begin) for low, high in self._repeated]
            if inside := [(low, high) for low, high in ranges if low < high]:
                self._copies.copy_repeated(file, inside, writer)
        return writer.finish()

"""Writing a part of a source whose number of rows is unknown: some rows here, the others with those of other parts.

A bucket of which a part has many rows gets files from it at once. Of fewer rows, many parts would make many small
files: these are passed on with their sequence numbers, to be shuffled by bucket
(`table.write.writer.write_rests`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

import pyarrow as pa

from paimon_engine.errors import UnsupportedError
from paimon_engine.merge.chosen_rows import ChosenRows
from paimon_engine.meta.schema import BucketMode
from paimon_engine.table.files.bucketing import BucketRows, split_by_bucket
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.write.writer import BucketBuffer, TableWriter, WriteState

OWN_FILE_BYTES: Final = 32 << 20
"""Number of rows in memory from which a separate file is written."""

PART_SEQUENCES: Final = 1 << 32
"""Sequence numbers reserved for the rows of one part; they suffice for a million writes of two thousand parts."""


def write_part(
    table: TableHandle,
    state: WriteState,
    part: int,
    batches: Iterable[pa.RecordBatch],
    *,
    kind_column: str | None = None,
    own_file_bytes: int = OWN_FILE_BYTES,
) -> Iterator[BucketRows | tuple[CommitMessage, ...]]:
    """Writes the rows that fill complete files, if rows determine their buckets; yields the others, then the messages.

    Rows of a later part are newer. After a failure, or if the messages are not read, no file is left.

    Raises: InvalidArgumentError if rows do not fit the table; UnsupportedError if they are too many; StorageError.
    """
    own = replace(state, sequence_offset=state.sequence_offset + part * PART_SEQUENCES)
    return PartWriter(table, own, kind_column, own_file_bytes).write(batches)


class PartWriter(TableWriter):
    """A writer that passes on the rows of small buckets.

    A bucket that has a file gets all that follows, and one that was handed on gets none, so that the sequence numbers
    of a file are in one piece.
    """

    def __init__(self, table: TableHandle, state: WriteState, kind_column: str | None, own_file_bytes: int) -> None:
        super().__init__(table, state, kind_column=kind_column)
        # Postponed rows wait for a compaction in any case, and it takes the files of a write one after the other.
        self._own_file_bytes = 0 if table.schema.bucket_mode is BucketMode.POSTPONED else own_file_bytes
        if table.options.snapshot_ordering:
            # Other parts may have rows of the same keys, and files of one commit have no order.
            self._own_file_bytes = sys.maxsize
        self._handed_on: set[tuple[bytes, int]] = set()
        self._row_count = 0

    def write(self, batches: Iterable[pa.RecordBatch]) -> Iterator[BucketRows | tuple[CommitMessage, ...]]:
        """See `write_part`."""
        try:
            for rows in self._table_rows(batches):
                self._count(rows)
                for part in split_by_bucket(self._table.schema, rows):
                    self._add_part(part)
                if self._bytes_pending > self._limit_bytes:
                    self._flush_largest(self._large())
                if self._bytes_pending > self._limit_bytes:
                    yield from self._pass_on()
            self._flush_largest(self._large(), kept_share=0)
            yield from self._pass_on()
            messages = self._finish()
        except BaseException:
            self._abort()
            raise
        # From here on the files belong to the caller, who has the messages.
        if messages:
            yield tuple(messages)

    def _count(self, rows: pa.RecordBatch) -> None:
        self._row_count += rows.num_rows
        if self._row_count > PART_SEQUENCES:
            raise UnsupportedError(
                f"{self._table.paths.root}: a partition of the DataFrame has more than {PART_SEQUENCES:,} rows, "
                "for which the sequence numbers do not suffice; repartition it"
            )

    def _large(self) -> list[BucketBuffer]:
        """Buckets that have files or should."""
        return [
            bucket
            for place, bucket in self._buckets.items()
            if bucket.has_files or (bucket.bytes_pending >= self._own_file_bytes and place not in self._handed_on)
        ]

    def _pass_on(self) -> Iterator[BucketRows]:
        """The waiting rows of all buckets without files."""
        for place, bucket in self._buckets.items():
            if bucket.bytes_pending and not bucket.has_files:
                self._handed_on.add(place)
                self._bytes_pending -= bucket.bytes_pending
                for rows in bucket.give_up():
                    yield BucketRows(*place, ChosenRows(rows))

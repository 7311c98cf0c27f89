"""A Parquet file that is read in batches within a limit, with a look at all of its pages that are read."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from paimon_engine.errors import damaged, unreadable
from paimon_engine.format.layout import BatchLimit, leaf_paths
from paimon_engine.format.parquet_ahead import PagesAhead, is_at_hand
from paimon_engine.format.parquet_chunk_check import check_chunks, read_footer
from paimon_engine.format.parquet_file import parquet_file
from paimon_engine.format.parquet_int96 import bytes_metadata, checked_nanos, int96_columns
from paimon_engine.format.parquet_page_sizes import check_row_counts
from paimon_engine.format.parquet_small import is_small
from paimon_engine.format.parquet_watch import WatchedFile
from paimon_engine.format.parquet_widths import StoredRows, decoded, leaf_indices, reading_of
from paimon_engine.format.thrift_compact import DECODE_ERRORS
from paimon_engine.format.variant_columns import physical_schema

READ_BUFFER_BYTES = 65_536


class StoredFile:
    """A file that is read in batches within a limit, with a look at all of its pages that are read."""

    def __init__(
        self,
        source: BinaryIO,
        path: str,
        limit: BatchLimit,
        kept: Collection[str],
        metadata: pq.FileMetaData | None = None,
        *,
        is_our_own: bool = False,
    ) -> None:
        """`kept`: columns that may come as dictionaries. `is_our_own`: its footer was just written here."""
        self.source = source
        self.path = path
        self._limit = limit
        self._kept = kept
        self._pages = PagesAhead(source, path) if is_at_hand(source) else WatchedFile(source, path)
        plain = open_parquet(self._pages.file, path, metadata=metadata, is_our_own=is_our_own)
        self.metadata = plain.metadata
        self.schema: pa.Schema = plain.schema_arrow
        """The columns in Arrow's types, none of which are dictionaries."""
        if len({*self.schema.names}) != len(self.schema.names):
            raise damaged(path, f"two of its columns have one name: {', '.join(self.schema.names)}")
        if isinstance(self._pages, PagesAhead) and any(map(pa.types.is_nested, self.schema.types)):
            # Of lists it is not known which pages have which rows.
            self._pages = WatchedFile(source, path)
            plain = open_parquet(self._pages.file, path, metadata=self.metadata)
        self._opened = {frozenset[str](): plain}

    @property
    def is_ranged(self) -> bool:
        """Whether the file is one of a store that takes long to answer, so that to look here and there costs more."""
        return self._pages.is_ranged

    def of_part(self, source: BinaryIO, *, keeps_dictionaries: bool = True) -> StoredFile:
        """A file with a part of this one, read in the same way, or without dictionaries."""
        kept = self._kept if keeps_dictionaries else ()
        return StoredFile(source, self.path, self._limit, kept, is_our_own=True)

    def plain(self) -> StoredFile:
        """The same file, of which no column comes as dictionaries."""
        return StoredFile(self.source, self.path, self._limit, (), self.metadata) if self._kept else self

    def file(self, dictionaries: Collection[str] = ()) -> pq.ParquetFile:
        """The file, in which columns of these paths come as dictionaries."""
        wanted = frozenset(dictionaries)
        if wanted not in self._opened:
            self._opened[wanted] = open_parquet(
                self._pages.file, self.path, metadata=self.metadata, read_dictionary=sorted(wanted)
            )
        return self._opened[wanted]

    def _to_look(self, group: int, leaves: Mapping[str, int]) -> pq.ParquetFile:
        """The file, of which some rows of these columns in a row group are read next, as dictionaries."""
        self._pages.look(group, leaves.values())
        return self.file(leaves)

    def read(
        self, schema: pa.Schema, groups: Sequence[int], *, begin: int = 0, end: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The columns of a schema in these row groups; of the rows of all of them, those from `begin` to `end`.

        Raises: CorruptTableError.
        """
        file = self.file()
        physical = physical_schema(schema, self.schema)
        paths = leaf_paths(physical, self.schema)
        leaves = leaf_indices(self.metadata, paths)
        small = self._is_small(leaves, groups)
        if not small:
            check_row_counts(self.metadata, self.path, list(leaves.values()) or None, groups)
        if not leaves:
            # For no columns Arrow allots memory by the number of rows alone.
            counts = [self.metadata.row_group(number).num_rows for number in groups]
            yield from (_no_columns(rows) for count in counts for rows in _parts(count, self._limit.rows))
            return
        if small:
            self._pages.finish()
            size = self._limit.rows
        else:
            size, dictionaries = self._expect(file, leaves, groups, end)
            file = self.file(dictionaries)
        batches = file.iter_batches(size, columns=paths, row_groups=groups, use_threads=False)
        int96 = int96_columns(file.schema, paths)
        if int96:
            try:
                with_bytes = open_parquet(self._pages.file, self.path, metadata=bytes_metadata(self._pages.file))
            except DECODE_ERRORS as error:
                raise damaged(self.path, f"its Parquet footer cannot be read: {error}") from error
            stored = with_bytes.iter_batches(size, columns=int96, row_groups=groups, use_threads=False)
            batches = checked_nanos(batches, stored, self.path)
        row, last = 0, sum(self.metadata.row_group(number).num_rows for number in groups)
        while row < (last if end is None else min(end, last)):
            self._pages.begin_batch(row)
            if (rows := next(batches, None)) is None or not rows.num_rows:
                # Of pages that end too early Arrow says nothing.
                raise damaged(self.path, f"pages of its columns end after {row} of {last} rows")
            row += rows.num_rows
            self._pages.end_batch(row)
            first = max(0, begin - row + rows.num_rows)
            rows = rows.slice(first, None if end is None else max(0, end - row + rows.num_rows - first))
            if rows.num_rows:
                plain = decoded(rows, self._kept, self._limit.size_bytes)
                yield from plain if physical == schema else self._joined(plain, schema)
        self._pages.finish()

    def _is_small(self, leaves: Mapping[str, int], groups: Sequence[int]) -> bool:
        """Whether these columns can be read at once, and nothing more needs to be known of them."""
        at_hand = isinstance(self._pages, PagesAhead)
        return at_hand and is_small(self._pages.file, self.metadata, leaves.values(), groups, self._limit.size_bytes)

    def _expect(
        self, file: pq.ParquetFile, leaves: Mapping[str, int], groups: Sequence[int], end: int | None
    ) -> tuple[int, frozenset[str]]:
        """Rows to read at once of these columns, up to row `end`, and the columns that come as dictionaries.

        Their pages are looked at from now on. Raises: CorruptTableError.
        """
        self._pages.expect(self.metadata, leaves.values(), groups, batch_rows=self._limit.rows)
        reading = reading_of(StoredRows(file, self._pages.file, self.path, leaves, groups, self._to_look), self._limit)
        longest = {index: reading.longest_bytes.get(name, 0) for name, index in leaves.items()}
        # Equal batches, the last of which ends where the rows do: Arrow decodes all of a batch.
        size = reading.rows if not end else math.ceil(end / math.ceil(end / reading.rows))
        reached = None if end is None else math.ceil(end / size) * size
        self._pages.expect_again(longest, batch_rows=size, size_bytes=self._limit.size_bytes, end=reached)
        return size, reading.dictionaries

    def _joined(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        from paimon_engine.format.shredded_variants import joined

        for rows in batches:
            yield from joined(rows, schema, self.path, self._limit.size_bytes)


def _parts(count: int, most: int) -> Iterator[int]:
    """A number in parts."""
    for begin in range(0, count, most):
        yield min(most, count - begin)


def _no_columns(count: int) -> pa.RecordBatch:
    return pa.record_batch([pa.nulls(count)], names=[""]).select([])


def open_parquet(
    source: BinaryIO,
    path: str,
    *,
    metadata: pq.FileMetaData | None = None,
    read_dictionary: list[str] | None = None,
    is_our_own: bool = False,
) -> pq.ParquetFile:
    """The file with the settings of every read; page checksums are verified.

    Its column chunks are checked, so that they can be described, unless its `metadata` is given, which was checked when
    it was read, or the file `is_our_own`.

    Raises: CorruptTableError.
    """
    try:
        file = parquet_file(
            source,
            metadata=metadata,
            pre_buffer=False,
            buffer_size=READ_BUFFER_BYTES,
            read_dictionary=read_dictionary,
            page_checksum_verification=True,
        )
        if metadata is None and not is_our_own:
            check_chunks(read_footer(source, file.metadata), file.schema, path)
        return file
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise unreadable(path, "a Parquet file", error) from error

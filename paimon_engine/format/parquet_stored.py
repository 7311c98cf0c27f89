"""A Parquet file that is read in batches within a limit, with a look at all of its pages that are read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import BinaryIO
from typing import cast as cast_to

import pyarrow as pa
import pyarrow.parquet as pq

from paimon_engine.arrow_variant import is_arrow_variant
from paimon_engine.errors import UnsupportedError, damaged
from paimon_engine.format.layout import BatchLimit, leaf_paths
from paimon_engine.format.parquet_int96 import bytes_metadata, checked_nanos, int96_columns
from paimon_engine.format.parquet_page_sizes import check_row_counts
from paimon_engine.format.parquet_watch import WatchedFile
from paimon_engine.format.parquet_widths import StoredRows, decoded, leaf_indices, reading_of

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
    ) -> None:
        """`kept`: columns that may come as dictionaries."""
        self._watch = WatchedFile(source, path)
        self._source = cast_to("BinaryIO", self._watch)
        self.source = source
        self.path = path
        self._limit = limit
        self._kept = kept
        plain = open_parquet(self._source, path, metadata=metadata)
        self.metadata = plain.metadata
        self._opened = {frozenset[str](): plain}

    def of_part(self, source: BinaryIO) -> StoredFile:
        """A file with a part of this one, read in the same way."""
        return StoredFile(source, self.path, self._limit, self._kept)

    def plain(self) -> StoredFile:
        """The same file, of which no column comes as dictionaries."""
        return StoredFile(self.source, self.path, self._limit, (), self.metadata) if self._kept else self

    def file(self, dictionaries: Collection[str] = ()) -> pq.ParquetFile:
        """The file, in which columns of these paths come as dictionaries."""
        wanted = frozenset(dictionaries)
        if wanted not in self._opened:
            self._opened[wanted] = open_parquet(
                self._source, self.path, metadata=self.metadata, read_dictionary=sorted(wanted)
            )
        return self._opened[wanted]

    def read(
        self, schema: pa.Schema, groups: Sequence[int], *, begin: int = 0, end: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The columns of a schema in these row groups; of the rows of all of them, those from `begin` to `end`.

        Raises: UnsupportedError for VARIANT values that the file has in parts.
        """
        file = self.file()
        _refuse_shredded(schema, file.schema_arrow, self.path)
        paths = leaf_paths(schema, file.schema_arrow)
        leaves = leaf_indices(self.metadata, paths)
        check_row_counts(self.metadata, self.path, list(leaves.values()) or None, groups)
        if not leaves:
            # For no columns Arrow allots memory by the number of rows alone.
            counts = [self.metadata.row_group(number).num_rows for number in groups]
            yield from (_no_columns(rows) for count in counts for rows in _parts(count, self._limit.rows))
            return
        self._watch.expect(self.metadata, leaves.values(), groups, batch_rows=self._limit.rows)
        reading = reading_of(StoredRows(file, self._source, self.path, leaves, groups, self.file), self._limit)
        longest = {index: reading.longest_bytes.get(name, 0) for name, index in leaves.items()}
        size = reading.rows if end is None else min(reading.rows, end)
        self._watch.expect_again(longest, batch_rows=size)
        file = self.file(reading.dictionaries)
        batches = file.iter_batches(size, columns=paths, row_groups=groups, use_threads=False)
        int96 = int96_columns(file.schema, paths)
        if int96:
            with_bytes = open_parquet(self._source, self.path, metadata=bytes_metadata(self._source))
            stored = with_bytes.iter_batches(size, columns=int96, row_groups=groups, use_threads=False)
            batches = checked_nanos(batches, stored, self.path)
        row = 0
        while (end is None or row < end) and (rows := next(batches, None)) is not None:
            row += rows.num_rows
            first = max(0, begin - row + rows.num_rows)
            rows = rows.slice(first, None if end is None else max(0, end - row + rows.num_rows - first))
            if rows.num_rows:
                yield from decoded(rows, self._kept, self._limit.size_bytes)
            self._watch.begin_batch()


def _refuse_shredded(wanted: pa.Schema, stored: pa.Schema, path: str) -> None:
    """Raises UnsupportedError if VARIANT values of a column are in several columns of the file."""
    names = {*stored.names}
    for field in wanted:
        if field.name not in names or not pa.types.is_nested(field.type):
            continue
        if _has_shredded(field.type, stored.field(field.name).type):
            raise UnsupportedError(
                f"{path}: column {field.name!r} of type VARIANT is shredded (its values are in several columns of the "
                "file), which is not supported yet; unset 'variant.shreddingSchema' and 'variant.inferShreddingSchema' "
                "of the table, and rewrite its files by a full compaction of Java"
            )


def _has_shredded(wanted: pa.DataType, stored: pa.DataType) -> bool:
    """Whether a file has other columns of a VARIANT than its two, at any depth."""
    if not (pa.types.is_nested(wanted) and pa.types.is_nested(stored)):
        return False
    if is_arrow_variant(wanted):
        return {field.name for field in stored} != {field.name for field in wanted}
    if pa.types.is_struct(wanted):
        inner = {field.name: field.type for field in stored}
        return any(field.name in inner and _has_shredded(field.type, inner[field.name]) for field in wanted)
    if pa.types.is_map(wanted) and pa.types.is_map(stored):
        return _has_shredded(wanted.key_type, stored.key_type) or _has_shredded(wanted.item_type, stored.item_type)
    return wanted.num_fields == stored.num_fields and any(
        _has_shredded(wanted.field(index).type, stored.field(index).type) for index in range(wanted.num_fields)
    )


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
) -> pq.ParquetFile:
    """The file with the settings of every read; page checksums are verified. Raises: CorruptTableError."""
    try:
        return pq.ParquetFile(
            source,
            metadata=metadata,
            pre_buffer=False,
            buffer_size=READ_BUFFER_BYTES,
            read_dictionary=read_dictionary,
            page_checksum_verification=True,
        )
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise damaged(path, f"cannot be read as a Parquet file: {error}") from error

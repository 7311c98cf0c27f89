"""Parquet data files: bytes → record batches, record batches → bytes.

Reading streams batches of a limited size, so that memory stays bounded by the batch, not by the row group.
Writing gathers batches into row groups, encoded as `parquet_encoding` chooses.
Texts that a file has encoded with a small dictionary can be read as Arrow dictionaries, and are written as such again,
so that only indices are copied in between.

Types are laid out as the Java library's `ParquetSchemaConverter` does: decimals as INT32, INT64 or fixed bytes,
times as milliseconds adjusted to UTC, timestamps as INT64 in milliseconds or microseconds, or as INT96 if they have
more than 6 digits. Arrow reads INT96 as nanoseconds and gives wrong values outside 1677 to 2262 without a word, so
`parquet_int96` looks at such columns.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from paimon_engine.errors import unreadable
from paimon_engine.format.binary_row import COMPACT_DECIMAL_PRECISION_MAX
from paimon_engine.format.codecs import codec_of
from paimon_engine.format.layout import (
    BATCH_LIMIT,
    BatchLimit,
    WriteOptions,
    cast,
    leaves_of,
    replace_leaves,
    text_offsets,
    without_nulls_below,
)
from paimon_engine.format.parquet_bounds import ColumnChoice, matching_groups
from paimon_engine.format.parquet_choice import RowChoice, numbered
from paimon_engine.format.parquet_copies import copies_of, leading_chunks, with_copies
from paimon_engine.format.parquet_encoding import (
    PAGE_BYTES,
    PAGE_ROWS,
    SAMPLE_ROWS,
    codecs_of,
    joined_rows,
    repeating_columns,
    rows_per_part,
    with_dictionaries,
)
from paimon_engine.format.parquet_footer import FooterSink, with_timestamps
from paimon_engine.format.parquet_index_copies import IndexBytes
from paimon_engine.format.parquet_nan import leaves_with_nan, without_nan_bounds
from paimon_engine.format.parquet_row_groups import Layout, MovedRowGroup, StoredRowGroup, with_row_groups
from paimon_engine.format.parquet_stored import StoredFile, open_parquet
from paimon_engine.format.stored import check_row_count
from paimon_engine.predicate import Predicate

if TYPE_CHECKING:
    from paimon_engine.format.parquet_variants import ShreddedColumns

WRITE_BUFFER_BYTES = 1 << 20
ROW_GROUP_ROWS_MAX = 1 << 17
"""Readers decode row groups as a whole to find one key. With groups eight times as large, one key of 1.5 M rows took
2.3 times the processor time, and a compaction where only late keys change 1.5 times; a full compaction of narrow rows
took 5 % less, and files were 0.3 % smaller (measured)."""

_BOUND_BYTES_MAX = 4_096
"""Arrow leaves longer ones out of the footer (`parquet::WriterProperties::max_statistics_size`)."""


def read_batches(
    source: BinaryIO,
    schema: pa.Schema,
    *,
    path: str,
    limit: BatchLimit = BATCH_LIMIT,
    dictionary_columns: Collection[str] = (),
    choose: ColumnChoice | None = None,
) -> Iterator[pa.RecordBatch]:
    """Rows of the file in order: the columns of `schema` that the file has, in the file's own types and order.

    `choose` may choose fewer of them, once it sees the footer. The text columns `dictionary_columns` may come as
    dictionaries, where the file keeps them so.

    Raises: CorruptTableError if the bytes are not a Parquet file; UnsupportedError for nanoseconds beyond 1677 to 2262.
    """
    try:
        stored = StoredFile(source, path, limit, dictionary_columns)
        columns = schema if choose is None else choose(stored.metadata)
        yield from stored.read(columns, range(stored.metadata.num_row_groups))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise unreadable(path, "a Parquet file", error) from error


def read_matching(
    source: BinaryIO,
    schema: pa.Schema,
    where: Predicate | None,
    *,
    path: str,
    row_count: int | None = None,
    without_nan: Collection[str] = (),
    limit: BatchLimit = BATCH_LIMIT,
    row_groups: Collection[int] | None = None,
    dictionary_columns: Collection[str] = (),
    choose: ColumnChoice | None = None,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """As `read_batches`, without row groups whose statistics show that no row matches, or not in `row_groups`.

    Each batch comes with the position of its first row in the file. Columns of `where` must be the file's own;
    of those in `without_nan` the file is known to have no NaN, which footers do not show.

    Raises: CorruptTableError if the bytes are not a Parquet file, or one of another `row_count`.
    """
    try:
        stored = StoredFile(source, path, limit, dictionary_columns)
        metadata = stored.metadata
        counts = (metadata.row_group(number).num_rows for number in range(metadata.num_row_groups))
        starts = list(accumulate(counts, initial=0))
        check_row_count(path, starts[-1], row_count)
        columns = schema if choose is None else choose(metadata)
        choice = RowChoice(stored, columns, where)
        for number, is_whole in matching_groups(stored.file(), where, without_nan):
            if row_groups is not None and number not in row_groups:
                continue
            chosen = None if is_whole else choice.matching(number)
            for row, rows in numbered(0, stored.read(columns, [number])) if chosen is None else chosen:
                yield starts[number] + row, rows
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise unreadable(path, "a Parquet file", error) from error


def _codec(options: WriteOptions) -> tuple[str, int | None]:
    """Pyarrow's codec name and level.

    Raises: InvalidArgumentError.
    """
    codec = codec_of("parquet", options.compression)
    return codec, options.zstd_level if codec == "zstd" else None


class ParquetWriter:
    """Writes batches of one schema to one file; `bytes_written` grows when a row group is closed."""

    def __init__(self, sink: BinaryIO, schema: pa.Schema, options: WriteOptions) -> None:
        """Begins a file on `sink`; the caller closes the sink.

        Raises: InvalidArgumentError for a codec that Parquet does not have.
        """
        self._codec = _codec(options)
        self._copies = copies_of(schema, options.copies)
        self._target = _stored_schema(pa.schema([schema.field(name) for name in self._copies.written]))
        self._leaves = [leaf for field in self._target for leaf in leaves_of(field.type)]
        units = {leaf.unit for leaf in self._leaves if pa.types.is_timestamp(leaf)}
        self._has_int96 = "ns" in units
        self._marks_timestamps = len(units) > 1 and self._has_int96
        self._schema = _with_plain_timestamps(self._target) if self._marks_timestamps else self._target
        self._variants = _shredded_columns(self._schema, options)
        self._stored = self._schema
        self._sink = FooterSink(sink)
        # Arrow writes each page separately, and each call of Python costs time.
        self._stream = pa.BufferedOutputStream(pa.PythonFile(self._sink, mode="w"), WRITE_BUFFER_BYTES)
        self._options = options
        self._writer: pq.ParquetWriter | None = None
        self._footer: list[pq.FileMetaData] = []
        self._shifts: list[dict[str, int]] = []
        self._with_nan: list[Collection[int]] = []
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._groups: list[MovedRowGroup | None] = []
        self._bounded = [field.name for field in self._target if _has_exact_bounds(field.type)]
        self._bounds: dict[str, tuple[Any, Any]] = {}
        self._unbounded: set[str] = set()

    def __del__(self) -> None:
        # The rest of an aborted file in the stream is discarded: its sink may be closed by now.
        if hasattr(self, "_sink"):
            self._sink.give_up()

    @property
    def stored_bounds(self) -> Mapping[str, tuple[Any, Any]]:
        """Smallest and largest value of each column of the types of `FileWriter` that has one, after `close`."""
        return self._bounds

    @property
    def bytes_written(self) -> int:
        """Bytes of the closed row groups."""
        return int(self._stream.tell())

    @property
    def bytes_pending(self) -> int:
        """Arrow bytes of the open row group."""
        return self._pending_bytes

    @property
    def rows_pending(self) -> int:
        """Rows of the open row group."""
        return self._pending_rows

    def write(self, batch: pa.RecordBatch) -> None:
        """Adds rows; closes the row group when it is full."""
        rows, begin = self._fitted(batch), 0
        while begin < rows.num_rows:
            part = rows.slice(begin, ROW_GROUP_ROWS_MAX - self._pending_rows)
            begin += part.num_rows
            self._pending.append(part)
            self._pending_rows += part.num_rows
            self._pending_bytes += part.nbytes
            if self._pending_rows >= ROW_GROUP_ROWS_MAX or self._pending_bytes >= self._options.row_group_bytes:
                self.close_row_group()

    def _fitted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows as they are given to Arrow."""
        arrays = [
            column
            if pa.types.is_dictionary(column.type)
            else without_nulls_below(cast(cast(column, meant.type), field.type))
            for column, meant, field in zip(
                batch.select(self._copies.written).columns, self._target, self._schema, strict=True
            )
        ]
        return pa.RecordBatch.from_arrays(arrays, names=self._schema.names)

    def close_row_group(self) -> None:
        """Writes the pending rows as one row group."""
        self._close_row_group(is_last=False)

    def _close_row_group(self, *, is_last: bool) -> None:
        """As `close_row_group`; `is_last`: no rows come after it."""
        if not self._pending:
            return
        if self._writer is None:
            self._writer = self._begin(self._pending, is_all=is_last)
        rows = joined_rows(self._pending, self._schema)
        if self._variants is not None:
            rows = self._variants.table(rows)
        self._with_nan.append(leaves_with_nan(rows))
        for name, column in _long_texts(rows):
            bounds = pc.min_max(column)
            self._widen(name, bounds["min"].as_py(), bounds["max"].as_py())
        if self._copies.sources:
            self._write_with_copies(self._writer, rows)
        else:
            self._writer.write_table(rows, row_group_size=rows.num_rows)
        self._groups.append(None)
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0

    def copy(self, group: StoredRowGroup, source: BinaryIO) -> None:
        """Adds a row group of another file, `source`, unchanged.

        Raises: CorruptTableError.
        """
        self.close_row_group()
        if self._writer is None:
            self._writer = self._begin([self._fitted(self._first_rows(group, source))])
        self._groups.append(group.copy(source, self._stream.write, self._stream.tell()))
        for name in self._bounded:
            bounds = group.bounds[name]
            if bounds.null_count == 0:
                self._widen(name, *(bounds.cast(pa.int32()) if pa.types.is_date(bounds.type) else bounds).to_pylist())
            elif group.null_counts[name] != group.row_count:
                self._unbounded.add(name)

    def _write_with_copies(self, writer: pq.ParquetWriter, rows: pa.Table) -> None:
        """Writes a row group, and copies of its first chunks after it."""
        self._stream.flush()
        begin = self._stream.tell()
        self._sink.record(self._copies.stored_bytes_max(rows))
        writer.write_table(rows, row_group_size=rows.num_rows)
        self._stream.flush()
        chunks = leading_chunks(self._sink.recorded(), len(self._copies.sources), rows.num_rows)
        shifts = {}
        for name, chunk in zip(self._copies.sources, chunks, strict=True):
            shifts[name] = self._stream.tell() - begin
            self._stream.write(chunk)
            begin += len(chunk)
        self._shifts.append(shifts)

    def close(self, *, without_rows: bool = False) -> None:
        """Writes what is pending and the footer; nothing if there are no rows, unless the file is `without_rows`."""
        self._close_row_group(is_last=True)
        if not self._groups and not without_rows:
            return
        if self._writer is None:
            self._writer = self._begin([pa.RecordBatch.from_pylist([], self._schema)])
        self._stream.flush()
        self._sink.hold()
        self._writer.close()
        self._stream.flush()
        self._sink.release(self._changed_footer)
        self._take_bounds(self._footer[0])

    def _changed_footer(self, footer: bytes, begin: int, before: bytes) -> tuple[bytes, bytes]:
        """Page indexes, which begin at that offset, and footer, with what Arrow does not write."""
        indexes = IndexBytes(begin, before)
        if self._marks_timestamps:
            footer = with_timestamps(footer, self._leaves)
        if any(self._with_nan):
            footer = without_nan_bounds(footer, self._with_nan)
        if self._copies.sources:
            footer = with_copies(footer, self._copies, self._shifts, indexes)
        if any(self._groups):
            footer = with_row_groups(footer, self._groups, indexes)
        return indexes.joined(), footer

    def _take_bounds(self, footer: pq.FileMetaData) -> None:
        """Those that the footer has of each row group, which are exact; columns with NaN have none."""
        # By index: `a.b` may be a column, or a part of one.
        widths = [sum(1 for _ in leaves_of(field.type)) for field in self._stored]
        indices = dict(zip(self._target.names, accumulate(widths, initial=0), strict=False))
        for number in range(footer.num_row_groups):
            group = footer.row_group(number)
            for name in self._bounded:
                found = group.column(indices[name]).statistics
                if found.has_min_max:
                    is_plain = not pa.types.is_decimal(self._target.field(name).type)
                    raw = (found.min_raw, found.max_raw) if is_plain else (found.min, found.max)
                    low, high = (bound.decode() if isinstance(bound, bytes) else bound for bound in raw)
                    self._widen(name, low, high)
        with_nan = frozenset().union(*self._with_nan)
        self._unbounded.update(name for name in self._bounded if indices[name] in with_nan)
        known = {name: bounds for name, bounds in self._bounds.items() if name not in self._unbounded}
        self._bounds = known | {name: known[one] for name, one in self._copies.sources.items() if one in known}

    def _widen(self, column: str, low: Any, high: Any) -> None:
        before = self._bounds.get(column, (low, high))
        self._bounds[column] = min(before[0], low), max(before[1], high)

    def _first_rows(self, group: StoredRowGroup, source: BinaryIO) -> pa.RecordBatch:
        limit, texts = BatchLimit(SAMPLE_ROWS), [field.name for field in self._target if _is_text(field.type)]
        rows = read_matching(
            source,
            self._target,
            None,
            path=group.path,
            limit=limit,
            row_groups={group.number},
            dictionary_columns=texts,
        )
        return next(rows)[1]

    def _begin(self, rows: list[pa.RecordBatch], *, is_all: bool = False) -> pq.ParquetWriter:
        """Arrow's writer of the file. The first row group decides which columns get dictionaries and codecs.

        `is_all`: these are all rows of the file.
        """
        self._stored = self._schema = with_dictionaries(self._schema, rows)
        repeating = repeating_columns(rows[0], self._codec[0])
        if self._variants is not None:
            self._variants.choose(rows)
            self._stored = self._variants.schema(self._schema)
            repeating += self._variants.repeating(rows[0], self._codec[0])
        codec, level = codecs_of(
            rows, self._stored, *self._codec, repeating, mixes=is_all and self._options.mixes_codecs
        )
        return pq.ParquetWriter(
            self._stream,
            self._stored,
            compression=codec,
            compression_level=level,
            use_dictionary=repeating,
            store_decimal_as_integer=True,
            write_time_adjusted_to_utc=True,
            use_deprecated_int96_timestamps=self._has_int96,
            store_schema=False,
            write_page_checksum=True,
            write_page_index=True,
            data_page_size=PAGE_BYTES,
            max_rows_per_page=PAGE_ROWS,
            write_batch_size=rows_per_part(rows),
            metadata_collector=self._footer,
        )


def _shredded_columns(schema: pa.Schema, options: WriteOptions) -> ShreddedColumns | None:
    if not options.variants:
        return None
    from paimon_engine.format.parquet_variants import ShreddedColumns

    return ShreddedColumns.of(schema, options.variants)


def _is_text(data_type: pa.DataType) -> bool:
    value_type = data_type.value_type if pa.types.is_dictionary(data_type) else data_type
    return bool(pa.types.is_string(value_type))


def _has_exact_bounds(data_type: pa.DataType) -> bool:
    """Whether footers have the smallest and the largest value, or `_long_texts` finds them."""
    if pa.types.is_decimal(data_type):
        return bool(data_type.precision <= COMPACT_DECIMAL_PRECISION_MAX)
    is_number = pa.types.is_integer(data_type) or pa.types.is_date(data_type) or pa.types.is_floating(data_type)
    return bool(is_number) or _is_text(data_type)


def _long_texts(rows: pa.Table) -> Iterator[tuple[str, pa.ChunkedArray]]:
    """The text columns, as texts, that have one of which the footer may keep no bounds."""
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        if _is_text(column.type):
            parts = [column.chunk(0).dictionary] if pa.types.is_dictionary(column.type) else column.chunks
            if any(np.diff(text_offsets(part)).max(initial=0) > _BOUND_BYTES_MAX for part in parts):
                yield name, column.cast(pa.string())


def _with_plain_timestamps(schema: pa.Schema) -> pa.Schema:
    """The schema with plain integers for timestamps of up to 6 digits."""

    def plain(leaf: pa.DataType) -> pa.DataType:
        return pa.int64() if pa.types.is_timestamp(leaf) and leaf.unit != "ns" else leaf

    return pa.schema([field.with_type(replace_leaves(field.type, plain)) for field in schema])


def _stored_schema(schema: pa.Schema) -> pa.Schema:
    """The schema as it is written: seconds become milliseconds, as Parquet has no coarser unit."""

    def stored(leaf: pa.DataType) -> pa.DataType:
        return pa.timestamp("ms", leaf.tz) if pa.types.is_timestamp(leaf) and leaf.unit == "s" else leaf

    return pa.schema([field.with_type(replace_leaves(field.type, stored)) for field in schema])


def footer(source: BinaryIO, path: str) -> Any:
    """The file's `pyarrow.parquet.FileMetaData`.

    Raises: CorruptTableError.
    """
    return open_parquet(source, path).metadata


def stored_schema(source: BinaryIO, path: str) -> pa.Schema:
    """The file's columns in Arrow's types.

    Raises: CorruptTableError.
    """
    return open_parquet(source, path).schema_arrow


def layout_of(schema: pa.Schema, options: WriteOptions) -> Layout:
    """What files of the schema have in common that `ParquetWriter` writes."""
    if _shredded_columns(schema, options) is not None:
        # The columns of their files differ, and more of them belong to one column of the table.
        return Layout.of_none(schema, _codec(options)[0])
    sink = io.BytesIO()
    ParquetWriter(sink, schema, options).close(without_rows=True)
    return Layout.of(sink.getvalue(), schema, _codec(options)[0])

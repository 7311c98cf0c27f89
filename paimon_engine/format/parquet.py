"""Parquet data files: bytes → record batches, record batches → bytes.

Reading streams batches of `BATCH_ROWS` rows, so that memory stays bounded by the batch, not by the row group.
Writing gathers batches into row groups; per column it uses a dictionary only where the first rows repeat
themselves, which halves the time and a quarter of the size against a dictionary on every column.

Types are laid out as the Java library's `ParquetSchemaConverter` does: decimals as INT32, INT64 or fixed bytes,
times as milliseconds adjusted to UTC, timestamps as INT64 in milliseconds or microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from paimon_engine.errors import InvalidArgumentError, UnsupportedError, damaged
from paimon_engine.format.layout import BATCH_ROWS, WriteOptions, cast, replace_leaves

READ_BUFFER_BYTES = 65_536
ROW_GROUP_ROWS_MAX = 1 << 20
ROW_GROUP_BYTES_MAX = 64 << 20
"""Arrow bytes per row group: bounds what a writer holds, and lets readers skip."""

_DICTIONARY_SHARE_MAX = 0.5
_CODECS = {"zstd", "snappy", "gzip", "lz4", "brotli", "none", "uncompressed"}


def read_batches(
    source: BinaryIO, schema: pa.Schema, *, path: str, batch_rows: int = BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """Rows of the file in order: the columns of `schema` that the file has, in the file's own types and order.

    Raises: CorruptTableError if the bytes are no Parquet file.
    """
    file = _open(source, path)
    try:
        names = set(file.schema_arrow.names)
        wanted = [name for name in schema.names if name in names]
        yield from file.iter_batches(batch_size=batch_rows, columns=wanted, use_threads=False)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise damaged(path, f"cannot be read as a Parquet file: {error}") from error


def _open(source: BinaryIO, path: str) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(source, pre_buffer=False, buffer_size=READ_BUFFER_BYTES, page_checksum_verification=True)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise damaged(path, f"cannot be read as a Parquet file: {error}") from error


def _codec(options: WriteOptions) -> tuple[str, int | None]:
    """Pyarrow's codec name and level.

    Raises: InvalidArgumentError.
    """
    name = options.compression
    if name not in _CODECS:
        raise InvalidArgumentError(f"'file.compression' = {name!r}; Parquet takes one of {', '.join(sorted(_CODECS))}")
    if name in ("none", "uncompressed"):
        return "none", None
    return name, options.zstd_level if name == "zstd" else None


class ParquetWriter:
    """Writes batches of one schema to one file; `bytes_written` grows when a row group is closed."""

    def __init__(self, sink: BinaryIO, schema: pa.Schema, options: WriteOptions) -> None:
        """Begins a file on `sink`; the caller closes the sink.

        Raises: UnsupportedError for columns that Parquet files of Paimon cannot hold; InvalidArgumentError for a codec
        that Parquet does not have.
        """
        _check_types(schema)
        _codec(options)
        self._sink = sink
        self._schema = _stored_schema(schema)
        self._options = options
        self._writer: pq.ParquetWriter | None = None
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._pending_bytes = 0

    @property
    def bytes_written(self) -> int:
        """Bytes of the closed row groups."""
        return self._sink.tell()

    @property
    def bytes_pending(self) -> int:
        """Arrow bytes of the open row group."""
        return self._pending_bytes

    def write(self, batch: pa.RecordBatch) -> None:
        """Adds rows; closes the row group when it is full."""
        arrays = [cast(column, field.type) for column, field in zip(batch.columns, self._schema, strict=True)]
        self._pending.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        self._pending_rows += batch.num_rows
        self._pending_bytes += batch.nbytes
        if self._pending_rows >= ROW_GROUP_ROWS_MAX or self._pending_bytes >= ROW_GROUP_BYTES_MAX:
            self.close_row_group()

    def close_row_group(self) -> None:
        """Writes the pending rows as one row group."""
        if not self._pending:
            return
        if self._writer is None:
            self._writer = self._begin(self._pending[0])
        self._writer.write_table(pa.Table.from_batches(self._pending, self._schema), row_group_size=self._pending_rows)
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0

    def close(self) -> None:
        """Writes what is pending and the footer."""
        self.close_row_group()
        if self._writer is not None:
            self._writer.close()

    def _begin(self, first: pa.RecordBatch) -> pq.ParquetWriter:
        codec, level = _codec(self._options)
        return pq.ParquetWriter(
            self._sink,
            self._schema,
            compression=codec,
            compression_level=level,
            use_dictionary=_repeating_columns(first),
            store_decimal_as_integer=True,
            write_time_adjusted_to_utc=True,
            store_schema=False,
            write_page_checksum=True,
        )


def _repeating_columns(batch: pa.RecordBatch) -> list[str]:
    """Top-level columns whose values repeat within the batch, so that a dictionary pays."""
    names = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_nested(column.type) or pa.types.is_boolean(column.type):
            continue
        if pc.count_distinct(column).as_py() <= max(1, len(column) * _DICTIONARY_SHARE_MAX):
            names.append(name)
    return names


def _check_types(schema: pa.Schema) -> None:
    for field in schema:
        if pa.types.is_timestamp(field.type) and field.type.unit == "ns":
            raise UnsupportedError(
                f"column {field.name!r}: timestamps of more than 6 digits cannot be written to Parquet yet; "
                "use TIMESTAMP(6)"
            )


def _stored_schema(schema: pa.Schema) -> pa.Schema:
    """The schema as it is written: whole seconds become milliseconds, as Parquet has no coarser unit."""

    def stored(leaf: pa.DataType) -> pa.DataType:
        return pa.timestamp("ms", leaf.tz) if pa.types.is_timestamp(leaf) and leaf.unit == "s" else leaf

    return pa.schema([field.with_type(replace_leaves(field.type, stored)) for field in schema])


def footer(source: BinaryIO, path: str) -> Any:
    """The file's `pyarrow.parquet.FileMetaData`.

    Raises: CorruptTableError.
    """
    return _open(source, path).metadata

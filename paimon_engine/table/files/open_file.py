"""A data file while it is written, and what manifests need of its rows.

Source: `KeyValueDataFileWriter`, `RowDataFileWriter` of the Java library.
"""

from __future__ import annotations

from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.format.binary_row import EMPTY_ROW, encode_row, internal_values
from paimon_engine.format.layout import WriteOptions
from paimon_engine.format.parquet import ParquetWriter
from paimon_engine.format.parquet_row_groups import StoredRowGroup
from paimon_engine.merge.records import is_retract
from paimon_engine.meta.clustered_keys import ends_type
from paimon_engine.meta.manifest import DataFile, FileSource
from paimon_engine.meta.schema import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND
from paimon_engine.meta.stats import EMPTY_STATS, FORMAT_STATS, StatsCollector, to_simple_stats
from paimon_engine.meta.stats_modes import FileTraits, stats_modes, stored_stats
from paimon_engine.table.files.external import store_of
from paimon_engine.table.files.file_index import FileIndexWriter
from paimon_engine.table.files.formats import WRITERS
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.unneeded import discard
from paimon_engine.units import local_wall_clock_ms


class OpenFile:
    """The data file being written, and what was seen of its rows."""

    def __init__(
        self,
        table: TableHandle,
        path: str,
        schema: pa.Schema,
        traits: FileTraits,
        encoding: WriteOptions,
        *,
        index: FileIndexWriter | None,
    ) -> None:
        """Opens the file; if its format's writer cannot be made, the store keeps nothing of it.

        Raises: StorageError; UnsupportedError for a type that the format lacks.
        """
        self._table = table
        self.path = path
        self._schema = schema
        self._index = index
        self._level = traits.level
        options = table.options
        self._context = store_of(table, path).writer(path)
        self._sink: BinaryIO = self._context.__enter__()
        try:
            self._writer = WRITERS[traits.format](self._sink, schema, encoding)
        except BaseException:
            self.discard()
            raise
        values, keys = table.schema.row_type, table.schema.key_type
        key_modes, value_modes = stats_modes(options, traits, keys=keys.names, values=values.names)
        rules = FORMAT_STATS[traits.format]
        apart = self._writer.stored_bounds is not None
        self._value_stats = StatsCollector([field.type for field in values], value_modes, rules, bounds_apart=apart)
        self._key_stats = StatsCollector([field.type for field in keys], key_modes, rules, bounds_apart=apart)
        self._ends_type = ends_type(table.schema, 0 if traits.is_changelog else traits.level)
        self._min_key = EMPTY_ROW
        self._last_key: pa.RecordBatch | None = None
        self._sequence: tuple[int, int] | None = None
        self._row_count = 0
        self._delete_row_count = 0
        self._encoded_share = 0.5  # stored bytes per Arrow byte, a guess at first

    def note_sequence(self, low: int, high: int) -> None:
        """Widens the range of sequence numbers in the file."""
        before = self._sequence
        self._sequence = (low, high) if before is None else (min(before[0], low), max(before[1], high))

    def write(self, rows: pa.RecordBatch) -> None:
        if self._table.schema.primary_keys:
            self._note_keys(rows)
        values = rows.select(list(self._table.schema.row_type.names))
        self._value_stats.add(values)
        if self._index is not None:
            self._index.add(values)
        self._row_count += rows.num_rows
        self._writer.write(self._in_file(rows))

    def copy(self, group: StoredRowGroup, source: BinaryIO, ends: pa.RecordBatch) -> None:
        assert isinstance(self._writer, ParquetWriter)
        assert self._index is None
        schema, nulls = self._table.schema, group.null_counts
        values, keys = schema.row_type.names, schema.trimmed_primary_keys
        self._value_stats.add_known(group.bounds.select(list(values)), [nulls[name] for name in values])
        self._key_stats.add_known(group.bounds.select(list(keys)), [nulls[name] for name in keys])
        if self._row_count == 0:
            self._min_key = self._key_of(ends.slice(0, 1))
        self._last_key = ends.slice(1)
        self.note_sequence(*group.bounds[SEQUENCE_NUMBER].to_pylist())
        self._row_count += group.row_count
        self._writer.copy(group, source)

    def _in_file(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows in the file's columns; `_KEY_x` is column x again."""
        arrays, given = [], set(rows.schema.names)
        for field in self._schema:
            column = rows[field.name if field.name in given else field.name.removeprefix(KEY_PREFIX)]
            fits = column.type == field.type or pa.types.is_dictionary(column.type)
            arrays.append(column if fits else column.cast(field.type))
        return pa.RecordBatch.from_arrays(arrays, names=self._schema.names)

    def _note_keys(self, rows: pa.RecordBatch) -> None:
        self._key_stats.add(rows.select(list(self._table.schema.trimmed_primary_keys)))
        ends = rows.select(list(self._ends_type.names))
        if self._row_count == 0:
            self._min_key = self._key_of(ends.slice(0, 1))
        self._last_key = ends.slice(ends.num_rows - 1, 1)
        bounds = pc.min_max(rows[SEQUENCE_NUMBER])
        self.note_sequence(bounds["min"].as_py(), bounds["max"].as_py())
        self._delete_row_count += int(is_retract(np.asarray(rows[VALUE_KIND])).sum())

    def _key_of(self, row: pa.RecordBatch) -> bytes:
        types = [field.type for field in self._ends_type]
        values = [internal_values(column, kind)[0] for column, kind in zip(row.columns, types, strict=True)]
        return encode_row(types, values, reserve_null=True)

    def is_full(self, target_bytes: int) -> bool:
        """Whether the file has reached the target. If it has by estimate, the row group is closed, to know its size.

        The estimate learns from each row group that is closed here how much smaller rows become when they are encoded.
        """
        pending = self._writer.bytes_pending
        before = self._writer.bytes_written
        if before + pending * self._encoded_share < target_bytes:
            return False
        self._writer.close_row_group()
        if pending:
            self._encoded_share = max(0.01, (self._writer.bytes_written - before) / pending)
        return self._writer.bytes_written >= target_bytes

    def is_nearly_full(self, group: StoredRowGroup, target_bytes: int) -> bool:
        """Whether the file is nearer to the target without that row group."""
        before = self._writer.bytes_written + self._writer.bytes_pending * self._encoded_share
        return before + group.size_bytes / 2 > target_bytes

    @property
    def bytes_pending(self) -> int:
        """Bytes in memory of the rows that wait for their row group."""
        return self._writer.bytes_pending

    @property
    def rows_pending(self) -> int:
        """Rows that wait for their row group, of a Parquet file."""
        assert isinstance(self._writer, ParquetWriter)
        return self._writer.rows_pending

    def close_row_group(self) -> None:
        self._writer.close_row_group()

    def discard(self) -> None:
        """Aborts the file: what the store has of it so far is deleted."""
        discard(self._context)

    def finish(self, *, source: FileSource) -> tuple[DataFile, bytes | None]:
        """Closes the file; its part of the manifest entry, and its file index, None without one."""
        index = None if self._index is None else self._index.finish()
        self._writer.close()
        size_bytes = self._sink.tell()
        self._context.__exit__(None, None, None)
        schema = self._table.schema
        low, high = self._sequence or (0, 0)
        key_types = [field.type for field in schema.key_type]
        dense = self._table.options.stats_dense
        bounds = self._writer.stored_bounds or {}
        of_values = self._value_stats.finish([bounds.get(name) for name in schema.row_type.names])
        value_stats, value_stats_columns = stored_stats(schema.row_type, of_values, dense=dense)
        of_keys = self._key_stats.finish([bounds.get(name) for name in schema.key_type.names])
        file = DataFile(
            name=self.path.rsplit("/", 1)[-1],
            size_bytes=size_bytes,
            row_count=self._row_count,
            min_key=self._min_key,
            max_key=EMPTY_ROW if self._last_key is None else self._key_of(self._last_key),
            key_stats=to_simple_stats(key_types, of_keys) if key_types else EMPTY_STATS,
            value_stats=value_stats,
            min_sequence_number=low,
            max_sequence_number=high,
            schema_id=schema.id,
            level=self._level,
            creation_time_ms=local_wall_clock_ms(self._table.env.clock()),
            delete_row_count=self._delete_row_count,
            file_source=int(source),
            value_stats_columns=value_stats_columns,
        )
        return file, index

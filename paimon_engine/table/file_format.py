"""Reading the data files of a table, whatever their format and schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from paimon_engine.errors import CorruptTableError, UnsupportedError
from paimon_engine.format import parquet
from paimon_engine.format.binary_row import decode_row
from paimon_engine.meta.evolution import column_sources, conform
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.paths import partition_path
from paimon_engine.meta.schema import SEQUENCE_NUMBER, VALUE_KIND
from paimon_engine.table.handle import TableHandle

READERS = {"parquet": parquet.read_batches}
"""File format → function that streams batches of some columns."""


def bucket_path(table: TableHandle, partition: bytes, bucket: int) -> str:
    """Directory of a bucket's files."""
    columns, options = table.schema.partition_type, table.options
    values = decode_row([field.type for field in columns], partition)
    relative = partition_path(
        columns, values, default_name=options.partition_default_name, legacy_name=options.partition_legacy_name
    )
    return table.paths.bucket_dir(relative, bucket)


def data_file_path(table: TableHandle, partition: bytes, bucket: int, file: DataFile) -> str:
    """Path of a data file; an external path wins over the bucket's directory."""
    return file.external_path or f"{bucket_path(table, partition, bucket)}/{file.name}"


def read_data_file(
    table: TableHandle, directory: str, file: DataFile, columns: Sequence[str], *, with_system_columns: bool
) -> Iterator[pa.RecordBatch]:
    """Rows of a file in order, as table columns; in front `_SEQUENCE_NUMBER` and `_VALUE_KIND` where asked for.

    Raises: UnsupportedError for formats that the engine cannot read; NotFoundError; CorruptTableError.
    """
    reader = READERS.get(file.format)
    if reader is None:
        raise UnsupportedError(f"data file {file.name}: format {file.format!r} is not supported yet")
    if file.external_path is not None:
        raise UnsupportedError(
            f"data file {file.name} lies outside the table, in {file.external_path}; not supported yet"
        )
    sources = column_sources(table.schema_of(file.schema_id), table.schema, columns)
    stored = [source.name_in_file for source in sources if source.name_in_file is not None]
    wanted = [*([SEQUENCE_NUMBER, VALUE_KIND] if with_system_columns else []), *stored]
    path = f"{directory}/{file.name}"
    with table.env.storage.open(path) as stream:
        # A file must be asked for something, or its batches would have no rows.
        for rows in reader(stream, wanted or _any_column(stream, path), path=path):
            _check_columns(rows, wanted, path)
            batch = conform(rows, sources)
            if with_system_columns:
                batch = batch.add_column(0, SEQUENCE_NUMBER, rows[SEQUENCE_NUMBER].cast(pa.int64()))
                batch = batch.add_column(1, VALUE_KIND, rows[VALUE_KIND].cast(pa.int8()))
            yield batch


def _any_column(stream: object, path: str) -> list[str]:
    return list(parquet.column_names(stream, path)[:1])  # type: ignore[arg-type]


def _check_columns(rows: pa.RecordBatch, wanted: Sequence[str], path: str) -> None:
    missing = [name for name in wanted if name not in rows.schema.names]
    if missing:
        raise CorruptTableError(
            f"{path}: expected columns {', '.join(wanted)}, found {', '.join(rows.schema.names) or 'none of them'}"
        )

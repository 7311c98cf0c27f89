"""Columns whose values are in files of their own, beside a data file of the other columns of the same rows.

Those of BLOB always are, one file for each column; those of VECTOR if `vector.file.format` is set, in files together.
Such a file has a part of the row ids of its data file.

Source: `BlobType`, `VectorType`, `DedicatedFormatRollingFileWriter` of the Java library (2.0).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from paimon_engine.meta.blobs import blob_columns, is_blob_file
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.schema import TableSchema
from paimon_engine.types import VectorType

_VECTOR_MARK = ".vector."


def vector_columns(schema: TableSchema) -> tuple[str, ...]:
    """Names of the columns of VECTOR that new files have apart, in order."""
    if schema.table_options.vector_file_format is None:
        return ()
    return tuple(field.name for field in schema.row_type if isinstance(field.type, VectorType))


def of_data_files(schema: TableSchema) -> TableSchema:
    """The schema with the columns that a new data file has: all but those that are in files of their own."""
    apart = frozenset((*blob_columns(schema), *vector_columns(schema)))
    if not apart:
        return schema
    fields = tuple(field for field in schema.row_type if field.name not in apart)
    return replace(schema, row_type=replace(schema.row_type, fields=fields))


def is_vector_file(file: DataFile) -> bool:
    """Whether the file has values of columns of VECTOR alone."""
    return _VECTOR_MARK in file.name


def is_beside(file: DataFile) -> bool:
    """Whether the file has values of rows whose other columns are in a data file."""
    return is_blob_file(file) or is_vector_file(file)


def rows_in(files: Iterable[DataFile]) -> int:
    """How many rows there are in the files: those that others are beside count once."""
    return sum(file.row_count for file in files if not is_beside(file))

"""Rules for columns of BLOB, whose values are in files of their own.

Source: `SchemaValidation`, `BlobType` of the Java library (2.0).
"""

from __future__ import annotations

from typing import Final

from paimon_engine.errors import InvalidArgumentError, UnsupportedError
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.row_tracking import stored_columns
from paimon_engine.meta.schema import TableSchema
from paimon_engine.types import DataField, is_blob, missing_column, type_to_json

BLOB_FORMAT: Final = "blob"


def blob_columns(schema: TableSchema) -> tuple[str, ...]:
    """Names of the columns of BLOB, in order."""
    return tuple(field.name for field in schema.row_type if is_blob(field.type))


def check_blobs(schema: TableSchema) -> None:
    """Checks that the table can have its columns of BLOB, and that `blob-field` names such columns.

    Raises: UnsupportedError; InvalidArgumentError.
    """
    columns = blob_columns(schema)
    # As in Java, spaces around a name do not belong to it.
    for name in filter(None, map(str.strip, schema.options.get("blob-field", "").split(","))):
        if name not in schema.row_type:
            raise missing_column(name, schema.row_type.names, "'blob-field'")
        if name not in columns:
            raise InvalidArgumentError(
                f"'blob-field': column {name!r} is {type_to_json(schema.row_type.field(name).type)}; give it the type "
                "BLOB, or remove it from the option"
            )
    if not columns:
        return
    check_blobs_readable(schema)
    if len(columns) == len(schema.row_type.fields):
        raise InvalidArgumentError("a table with columns of BLOB needs a column of another type")
    if set(columns) & set(schema.partition_keys):
        raise InvalidArgumentError(f"column {columns[0]!r}: a BLOB cannot be a partition key; use another type")


def check_blobs_readable(schema: TableSchema) -> None:
    """Raises UnsupportedError for columns of BLOB in a table without data evolution, which stores them otherwise."""
    columns = blob_columns(schema)
    if columns and not schema.table_options.data_evolution_enabled:
        raise UnsupportedError(
            f"column {columns[0]!r}: type BLOB is supported in tables without primary key that have "
            "'row-tracking.enabled' = 'true' and 'data-evolution.enabled' = 'true'; use BYTES in others"
        )


def is_blob_file(file: DataFile) -> bool:
    """Whether the file has values of a column of BLOB."""
    return file.format == BLOB_FORMAT


def blob_field(file: DataFile, schema: TableSchema) -> DataField:
    """The column of a file of BLOB; `schema` is that of the file.

    Raises: UnsupportedError if there is no such column, or more than one.
    """
    fields = stored_columns(schema, file).row_type.fields
    if len(fields) != 1 or not is_blob(fields[0].type):
        names = ", ".join(field.name for field in fields)
        raise UnsupportedError(f"{file.name}: a file of a BLOB column is expected to have one, not {names or 'none'}")
    return fields[0]

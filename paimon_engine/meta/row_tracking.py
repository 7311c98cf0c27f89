"""Row tracking: each row of an append table keeps an id of its own, and the snapshot that wrote it.

1. A file of new rows stores neither: its first row has the id `_FIRST_ROW_ID` of its manifest entry, the others
   follow, and all have the sequence number of the entry, which is the id of the snapshot that added the file.
2. A file of rewritten rows stores both, in the columns `_ROW_ID` and `_SEQUENCE_NUMBER` behind the others;
   `_WRITE_COLS` of its entry names all its columns.
3. `nextRowId` of a snapshot is the first id that no row has had yet. So a commit gives ids to its files only when it
   knows the snapshot before.

A release that does not know row tracking adds files without ids; their rows stay without.

Source: `RowTrackingCommitUtils`, `SpecialFields`, `DataFileRecordReader` of the Java library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from paimon_engine.errors import UnsupportedError
from paimon_engine.meta.manifest import DataFile, FileKind, FileSource, ManifestEntry
from paimon_engine.meta.schema import ROW_ID, SEQUENCE_NUMBER, TableSchema
from paimon_engine.meta.stats import UNKNOWN_STATS, ColumnStats
from paimon_engine.types import AtomicType, DataField, RowType, TypeRoot

NEXT_ROW_ID: Final = "nextRowId"
"""Field of a snapshot."""

_FIRST_ROW_ID: Final = "_FIRST_ROW_ID"
_WRITE_COLUMNS: Final = "_WRITE_COLS"
_FIELDS: Final = (
    DataField(2147483642, ROW_ID, AtomicType(TypeRoot.BIGINT)),
    DataField(2147483646, SEQUENCE_NUMBER, AtomicType(TypeRoot.BIGINT)),
)
TRACKING_COLUMNS: Final = tuple(field.name for field in _FIELDS)


def with_tracking(schema: TableSchema) -> TableSchema:
    """The schema with the columns `_ROW_ID` and `_SEQUENCE_NUMBER` behind its own; they are null where unknown."""
    return replace(schema, row_type=replace(schema.row_type, fields=(*schema.row_type.fields, *_FIELDS)))


def has_tracking(schema: TableSchema) -> bool:
    """Whether the schema is one of `with_tracking`."""
    return schema.row_type.names[-len(_FIELDS) :] == TRACKING_COLUMNS


def first_row_id(file: DataFile) -> int | None:
    """Id of the file's first row; None if its rows have none, or store theirs."""
    found: int | None = file.extras.get(_FIRST_ROW_ID)
    return found


def row_ids_from(first: int | None) -> dict[str, int | None]:
    """What a manifest entry says of a file whose rows have the ids from `first` on."""
    return {_FIRST_ROW_ID: first}


def written_columns(file: DataFile) -> tuple[str, ...] | None:
    """Names of the columns that the file has, where its entry says it; those of its schema else."""
    listed = file.extras.get(_WRITE_COLUMNS)
    return None if listed is None else tuple(listed)


def stores_row_ids(file: DataFile) -> bool:
    """Whether the file has the columns of tracking."""
    return ROW_ID in (file.extras.get(_WRITE_COLUMNS) or ())


def without_first_row_id(file: DataFile) -> DataFile:
    """The file, to be added where its rows get other ids.

    Raises: UnsupportedError if it stores the ids of its rows, which others may have there.
    """
    if stores_row_ids(file):
        raise UnsupportedError(f"{file.name} stores ids of its rows, which other rows of the table may have as well")
    extras = {name: value for name, value in file.extras.items() if name != _FIRST_ROW_ID}
    return replace(file, extras=extras)


def as_rewritten(file: DataFile, schema: TableSchema) -> DataFile:
    """The file of rewritten rows, or of some columns, with the names of all its columns, those of `schema`."""
    return replace(file, extras={**file.extras, _WRITE_COLUMNS: list(schema.row_type.names)})


def stored_columns(schema: TableSchema, file: DataFile) -> TableSchema:
    """The schema of a file with those of its columns that the file has, without ids and sequence numbers of rows."""
    listed = file.extras.get(_WRITE_COLUMNS)
    if listed is None:
        return schema
    fields = tuple(field for field in schema.row_type if field.name in listed)
    return replace(schema, row_type=replace(schema.row_type, fields=fields))


def statistics_columns(schema: TableSchema, file: DataFile) -> RowType:
    """The columns of which a manifest has statistics of values; `schema` is that of the file.

    Raises: InvalidArgumentError naming a column that the schema does not have.
    """
    listed = file.value_stats_columns
    if listed is None:
        listed = file.extras.get(_WRITE_COLUMNS)
    if listed is None:
        return schema.row_type
    known = schema if has_tracking(schema) or ROW_ID in schema.row_type.names else with_tracking(schema)
    return known.row_type.project(tuple(listed))


def tracking_ranges(file: DataFile) -> dict[str, ColumnStats]:
    """What the manifest entry says of the ids and sequence numbers of the file's rows."""
    first = first_row_id(file)
    unknown = first is None or stores_row_ids(file)
    ids = UNKNOWN_STATS if unknown or first is None else ColumnStats(first, first + file.row_count - 1, 0)
    return {ROW_ID: ids, SEQUENCE_NUMBER: ColumnStats(file.min_sequence_number, file.max_sequence_number, None)}


def number_rows(
    entries: Sequence[ManifestEntry], snapshot_id: int, next_row_id: int
) -> tuple[list[ManifestEntry], int]:
    """The entries of a commit with the ids and the sequence numbers of their rows, and the next id that is free.

    A sequence number of zero means that of the snapshot: all rows of a file have it if the smallest is zero.
    Files beside a data file, of BLOB or VECTOR columns, come behind it and get its ids, each column from the first on.
    """
    numbered = []
    first, ends = next_row_id, dict[tuple[str, ...], int]()
    for entry in entries:
        file = entry.file
        # Numbers of a compacted file are those of its rows; rows of a release without row tracking may have zero.
        if entry.kind is FileKind.ADD and not (file.file_source == FileSource.COMPACT and stores_row_ids(file)):
            if file.min_sequence_number == 0:
                file = replace(file, min_sequence_number=snapshot_id, max_sequence_number=snapshot_id)
            elif file.max_sequence_number == 0:
                file = replace(file, max_sequence_number=snapshot_id)
            if file.file_source == FileSource.APPEND and first_row_id(file) is None and not stores_row_ids(file):
                columns = written_columns(file) or ()
                if file.format == "blob" or ".vector." in file.name:
                    begin = ends.get(columns, first)
                    ends[columns] = begin + file.row_count
                else:
                    begin, first, ends = next_row_id, next_row_id, {}
                    next_row_id += file.row_count
                file = replace(file, extras={**file.extras, _FIRST_ROW_ID: begin})
        numbered.append(entry if file is entry.file else replace(entry, file=file))
    return numbered, next_row_id

"""Data evolution: the columns of a row may be in several files, which have the same range of row ids.

1. Files whose ranges of ids are the same make a group. Its rows are side by side: row n of each file is one row.
2. A column is that of the newest file that has it; older copies of it do not count. What no file has is null.
3. Deleted rows are marked for the oldest file of the group, the anchor.

Source: `DataEvolutionSplitRead`, `DataEvolutionUtils` of the Java library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from paimon_engine.errors import CorruptTableError, UnsupportedError
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.row_tracking import TRACKING_COLUMNS, first_row_id, row_ids_from, stored_columns
from paimon_engine.meta.schema import TableSchema

Group = tuple[DataFile, ...]
"""Files of the same rows, newest first."""


def column_groups(files: Iterable[DataFile]) -> list[Group]:
    """Groups in the order of their ids; a file without ids, as older releases add them, is one by itself.

    Raises: CorruptTableError if ranges of ids overlap without being the same; UnsupportedError for files of BLOB and
    VECTOR columns.
    """
    found: dict[tuple[int, int], list[DataFile]] = {}
    alone = []
    for file in files:
        if file.format == "blob":
            raise UnsupportedError(f"{file.name}: files of BLOB columns are not supported yet")
        if ".vector." in file.name:
            raise UnsupportedError(
                f"{file.name}: VECTOR columns in files of their own ('vector.file.format') are not supported yet"
            )
        first = first_row_id(file)
        if first is None:
            alone.append((file,))
        else:
            found.setdefault((first, file.row_count), []).append(file)
    end = 0
    for (first, count), members in sorted(found.items()):
        if first < end:
            raise CorruptTableError(
                f"{members[0].name} has the row ids from {first} on, of which other files have only a part"
            )
        end = first + count
    groups = [tuple(sorted(members, key=_age, reverse=True)) for _, members in sorted(found.items())]
    return [*groups, *alone]


def _age(file: DataFile) -> tuple[int, str]:
    return file.max_sequence_number, file.name


def anchor(group: Group) -> DataFile:
    """The file for which deleted rows of the group are marked."""
    return min(group, key=_age)


def joined_groups(groups: Sequence[Sequence[Sequence[DataFile]]], made: DataFile | None = None) -> DataFile:
    """The file `made` of all rows of groups whose ids follow each other, each a list of runs of files, with their ids.

    Sequence numbers are those of the oldest and of the newest file, as in Java. Without `made`: about that file.

    Raises: CorruptTableError if it does not have as many rows.
    """
    files = [file for group in groups for run in group for file in run]
    row_count = sum(group[0][0].row_count for group in groups)
    made = made or replace(files[0], size_bytes=sum(file.size_bytes for file in files), row_count=row_count)
    if made.row_count != row_count:
        raise CorruptTableError(
            f"{files[0].name} and others have {row_count} rows by their manifests, not {made.row_count}"
        )
    return replace(
        made,
        min_sequence_number=min(file.min_sequence_number for file in files),
        max_sequence_number=max(file.max_sequence_number for file in files),
        extras={**made.extras, **row_ids_from(first_row_id(groups[0][0][0]))},
    )


def column_shares(
    group: Group, schema: TableSchema, schema_of: Callable[[int], TableSchema], columns: Sequence[str]
) -> list[tuple[DataFile, list[str]]]:
    """The files to be read, each with those of the table's columns that are taken from it.

    The newest file gives ids and sequence numbers, and the nulls of columns that no file has.
    """
    shares: dict[str, list[str]] = {}
    stored = {
        file.name: {field.id for field in stored_columns(schema_of(file.schema_id), file).row_type} for file in group
    }
    for name in columns:
        field = schema.row_type.field(name)
        having = (file for file in group if field.id in stored[file.name])
        chosen = group[0] if name in TRACKING_COLUMNS else next(having, group[0])
        shares.setdefault(chosen.name, []).append(name)
    if not shares:
        shares[group[0].name] = []
    return [(file, shares[file.name]) for file in group if file.name in shares]

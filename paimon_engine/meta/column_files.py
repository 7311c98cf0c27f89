"""Data evolution: the columns of a row may be in several files, which have the same range of row ids.

1. Files whose ranges of ids are the same make a group. Its rows are side by side: row n of each file is one row.
2. A column is that of the newest file that has it; older copies of it do not count. What no file has is null.
3. Deleted rows are marked for the oldest file of the group, the anchor.
4. Columns of BLOB are in files of their own, each with one of them for a part of the ids of its group. The value of a
   row is that of the newest file that has its id, where that is not a placeholder, else of the next older one.
5. Columns of VECTOR may be in files of their own, too, each for a part of the ids of its group.

Source: `DataEvolutionSplitRead`, `DataEvolutionUtils` of the Java library.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from paimon_engine.errors import CorruptTableError
from paimon_engine.meta.blobs import blob_field, is_blob_file
from paimon_engine.meta.files_beside import is_beside, is_vector_file
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.row_tracking import (
    TRACKING_COLUMNS,
    first_row_id,
    row_ids_from,
    stored_columns,
    written_columns,
)
from paimon_engine.meta.schema import TableSchema
from paimon_engine.types import RowType, VectorType, is_blob

Group = tuple[DataFile, ...]
"""Files of the same rows, newest first, and behind them those beside them, of a part of these rows."""


def column_groups(files: Iterable[DataFile]) -> list[Group]:
    """Groups in the order of their ids; a file without ids, as older releases add them, is one by itself.

    Raises: CorruptTableError if ranges of ids overlap without being the same, or if a file of BLOB or VECTOR columns
    belongs to no group.
    """
    found: dict[tuple[int, int], list[DataFile]] = {}
    alone, beside = [], []
    for file in files:
        if is_beside(file):
            beside.append(file)
            continue
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
    return [*_with_files_beside(groups, beside), *alone]


def _with_files_beside(groups: list[Group], beside: Sequence[DataFile]) -> list[Group]:
    """The groups, which are in the order of their ids, each with those of the files beside that have ids of it."""
    if not beside:
        return groups
    starts = [first_row_id(group[0]) or 0 for group in groups]
    members: dict[int, list[DataFile]] = {}
    for file in sorted(beside, key=_age, reverse=True):
        first = first_row_id(file)
        index = -1 if first is None else bisect_right(starts, first) - 1
        if first is None or index < 0 or first + file.row_count > starts[index] + groups[index][0].row_count:
            raise CorruptTableError(f"{file.name} has values of BLOB or VECTOR, and no file has the rows with its ids")
        members.setdefault(index, []).append(file)
    return [(*group, *members.get(index, ())) for index, group in enumerate(groups)]


def plain_files(group: Group) -> Group:
    """The files of a group without those beside it."""
    return tuple(file for file in group if not is_beside(file))


def blob_shares(
    group: Group, schema: TableSchema, schema_of: Callable[[int], TableSchema], columns: Iterable[str]
) -> dict[str, list[DataFile]]:
    """For each of the columns that is a BLOB the files that have values of it, oldest first.

    Raises: CorruptTableError if a row has two values of the same age; UnsupportedError for a file of another layout.
    """
    by_field: dict[int, list[DataFile]] = {}
    for file in reversed(group):
        if is_blob_file(file):
            by_field.setdefault(blob_field(file, schema_of(file.schema_id)).id, []).append(file)
    for files in by_field.values():
        _check_apart(files)
    fields = (schema.row_type.field(name) for name in columns)
    return {field.name: by_field.get(field.id, []) for field in fields if is_blob(field.type)}


def cover_beside(
    group: Group, schema_of: Callable[[int], TableSchema], *, vectors_apart: bool
) -> frozenset[tuple[object, ...]] | None:
    """Which columns have files beside the group: of BLOB ids and names, of VECTOR all by which Java tells files apart.

    None if such files lack rows, or if columns of VECTOR are not where the table has them today. Java reads rows only
    if the files of a column are for all rows of their group, and call it by the same name.
    """
    members: dict[tuple[object, ...], list[DataFile]] = {}
    for file in group:
        if is_blob_file(file):
            field = blob_field(file, schema_of(file.schema_id))
            members.setdefault((field.id, field.name), []).append(file)
        elif is_vector_file(file):
            members.setdefault(("VECTOR", file.schema_id, file.format, *(written_columns(file) or ())), []).append(file)
        elif vectors_apart and any(isinstance(one.type, VectorType) for one in _stored(file, schema_of)):
            return None
    has_vectors = any(map(is_vector_file, group))
    # Ids of columns of BLOB are told once, and one kind of files of VECTOR columns.
    if (has_vectors and not vectors_apart) or len({key[0] for key in members}) < len(members):
        return None
    return frozenset(members) if all(_covers(files, group[0]) for files in members.values()) else None


def _stored(file: DataFile, schema_of: Callable[[int], TableSchema]) -> RowType:
    return stored_columns(schema_of(file.schema_id), file).row_type


def _covers(files: Sequence[DataFile], whole: DataFile) -> bool:
    """Whether the files of a column have values of all rows of that file."""
    end = first_row_id(whole) or 0
    last = end + whole.row_count
    for first, count in sorted((first_row_id(file) or 0, file.row_count) for file in files):
        if first > end:
            return False
        end = max(end, first + count)
    return end >= last


def check_covered(group: Group) -> None:
    """Raises CorruptTableError if there are files of a BLOB or VECTOR column for some rows of the group only."""
    members: dict[tuple[str, ...], list[DataFile]] = {}
    for file in group:
        if is_beside(file):
            members.setdefault(written_columns(file) or (), []).append(file)
    for columns, files in members.items():
        if not _covers(files, group[0]):
            raise CorruptTableError(
                f"{files[0].name} and others have values of {', '.join(columns)} for some rows of {group[0].name} only"
            )


def _check_apart(files: Sequence[DataFile]) -> None:
    ranges = sorted((file.max_sequence_number, first_row_id(file) or 0, file.row_count, file.name) for file in files)
    for (age, first, count, name), (next_age, next_first, _, other) in pairwise(ranges):
        if age == next_age and next_first < first + count:
            raise CorruptTableError(f"{name} and {other} have values of the same rows, and none is the newer one")


def _age(file: DataFile) -> tuple[int, str]:
    return file.max_sequence_number, file.name


def anchor(group: Group) -> DataFile:
    """The file for which deleted rows of the group are marked."""
    return min(plain_files(group), key=_age)


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
) -> list[tuple[Group, list[str]]]:
    """The files to be read, each with those of the table's columns that are taken from it, without those of BLOB.

    Columns of VECTOR may be taken from several files, whose rows follow each other. The newest file gives ids and
    sequence numbers, and the nulls of columns that no file has.

    Raises: CorruptTableError if files of VECTOR columns lack rows.
    """
    plain = plain_files(group)
    vectors = [file for file in group if is_vector_file(file)]
    shares: dict[str, tuple[Group, list[str]]] = {}
    stored = {file.name: {field.id for field in _stored(file, schema_of)} for file in (*plain, *vectors)}
    for name in columns:
        field = schema.row_type.field(name)
        if is_blob(field.type):
            continue
        chosen: Group = (plain[0],)
        if name not in TRACKING_COLUMNS:
            having = [file for file in (*plain, *vectors) if field.id in stored[file.name]]
            newest = max(having, key=_age, default=plain[0])
            chosen = _in_order(plain[0], having) if is_vector_file(newest) else (newest,)
        shares.setdefault(chosen[0].name, (chosen, []))[1].append(name)
    return list(shares.values()) or [((plain[0],), [])]


def _in_order(whole: DataFile, files: Sequence[DataFile]) -> Group:
    """The newest of the files of VECTOR columns for each row of that file. Raises: CorruptTableError."""
    found: list[DataFile] = []
    begin = first_row_id(whole) or 0
    end = begin + whole.row_count
    beside = [file for file in files if is_vector_file(file)]
    for file in sorted(beside, key=lambda one: (first_row_id(one) or 0, -one.max_sequence_number)):
        first = first_row_id(file) or 0
        if first == begin:
            found.append(file)
            begin += file.row_count
        elif first > begin or file.max_sequence_number > found[-1].max_sequence_number:
            raise CorruptTableError(f"{file.name} and others have values of VECTOR for some rows of {whole.name} only")
    if begin != end:
        raise CorruptTableError(
            f"files of VECTOR columns have {begin - end + whole.row_count} rows of {whole.name} only"
        )
    return tuple(found)

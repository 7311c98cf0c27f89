"""Data evolution: which groups of files with columns of the same rows (`meta.column_files`) become one file.

Neighbours whose ids follow each other, up to a file of the target size: the rows of the new file have the ids from the
first one's on, so that none of them changes.

Files of BLOB and VECTOR columns stay as they are, since each is for rows with certain ids. Neighbours of which one has
such files and the other has none, as before the column was added, are not joined: Java could not read the rows then.

Source: `DataEvolutionCompactCoordinator` of the Java library.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from paimon_engine.lsm.pick import NothingToDo
from paimon_engine.lsm.sections import Section
from paimon_engine.meta.column_files import Group, column_groups, cover_beside, plain_files
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.row_tracking import first_row_id
from paimon_engine.meta.schema import TableSchema
from paimon_engine.options import TableOptions

ColumnPack = tuple[Section, ...]
"""Groups, each as a section whose runs are its files, newest first."""


def pack_column_groups(
    files: Sequence[DataFile], options: TableOptions, schema_of: Callable[[int], TableSchema], *, full: bool
) -> list[ColumnPack] | NothingToDo:
    """Packs of at least `compaction.min.file-num` files, or of at least two for a full compaction.

    Files without ids, as older releases add them, are left alone, and so are rows of which only some have files of a
    column of BLOB or VECTOR.

    Raises: CorruptTableError, UnsupportedError as `column_groups`.
    """
    least = 2 if full else options.compaction_min_file_num
    packs: list[list[Group]] = []
    pack_bytes, next_id, pack_beside = 0, -1, None
    for group in column_groups(files):
        first, beside = (
            first_row_id(group[0]),
            cover_beside(group, schema_of, vectors_apart=options.vector_file_format is not None),
        )
        if first is None or beside is None:
            next_id = -1
            continue
        plain = plain_files(group)
        size_bytes = sum(max(file.size_bytes, options.split_open_file_cost_bytes) for file in plain)
        is_large = size_bytes > options.target_file_size_bytes
        if first != next_id or beside != pack_beside or is_large or pack_bytes > options.target_file_size_bytes:
            packs.append([])
            pack_bytes, pack_beside = 0, beside
        packs[-1].append(plain)
        pack_bytes += size_bytes
        next_id = first + group[0].row_count
    found = [pack for pack in packs if sum(map(len, pack)) >= least]
    if not found:
        most = max((sum(map(len, pack)) for pack in packs), default=0)
        return NothingToDo(f"files of rows whose ids follow each other: {most}; compaction begins at {least}")
    return [tuple(tuple((file,) for file in group) for group in pack) for pack in found]

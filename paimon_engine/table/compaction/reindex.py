"""New indexes for existing data files; their rows are read, not written.

Source: `RewriteFileIndexSink` of the Java library. A file that has exactly the indexes that are wanted is left, and a
new index file gets a new name, so that readers of older snapshots keep theirs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from paimon_engine.env import Env
from paimon_engine.errors import StorageError
from paimon_engine.meta.manifest import DataFile
from paimon_engine.table.files.data_file import bucket_location, read_data_file
from paimon_engine.table.files.external import data_file_at
from paimon_engine.table.files.file_index import FileIndexWriter, WantedIndex, present_indexes, wanted_indexes
from paimon_engine.table.files.index_filter import SUFFIX
from paimon_engine.table.files.new_paths import delete_new
from paimon_engine.table.state.handle import PlainTable, TableHandle, bucket_path


@dataclass(frozen=True, slots=True)
class ReindexTask:
    """A data file and the table it belongs to, as a picklable value."""

    table: PlainTable
    partition: bytes
    bucket: int
    file: DataFile


@dataclass(frozen=True, slots=True)
class Reindexed:
    """The file with its new indexes, and their size; 0 where it has none any more."""

    file: DataFile
    index_bytes: int


def is_current(table: TableHandle, partition: bytes, bucket: int, file: DataFile) -> bool:
    """Whether the file has exactly the indexes that the table's options require; their content is not checked.

    Raises: NotFoundError, CorruptTableError; InvalidArgumentError, UnsupportedError for wrong options.
    """
    wanted = {(index.name, index.spec.kind) for index in _wanted(table, file)}
    return wanted == present_indexes(table, bucket_path(table, partition, bucket), file)


def _wanted(table: TableHandle, file: DataFile) -> list[WantedIndex]:
    return wanted_indexes(table.schema, table.schema_of(file.schema_id))


def reindex(env: Env, work: ReindexTask) -> Reindexed:
    """Reads the file and makes its indexes. Repeating it writes another index file, so it is harmless.

    Raises: NotFoundError if the file is missing: another process has compacted it; UnsupportedError, CorruptTableError.
    """
    table, file = work.table.load(env), work.file
    location = bucket_location(table, work.partition, work.bucket)
    wanted = _wanted(table, file)
    data = None
    if wanted:
        index = FileIndexWriter(wanted)
        columns = list(dict.fromkeys(item.spec.column for item in wanted))
        for rows in read_data_file(table, location, file, columns, with_system_columns=False):
            index.add(rows)
        data = index.finish()
    others = tuple(name for name in file.extra_files if not name.endswith(SUFFIX))
    if data is None:
        return Reindexed(replace(file, extra_files=others, embedded_file_index=None), 0)
    if len(data) <= table.options.file_index_in_manifest_threshold_bytes:
        return Reindexed(replace(file, extra_files=others, embedded_file_index=data), len(data))
    name = f"{file.name}-{env.new_id()}{SUFFIX}"
    # Readers look for it beside the file, which may be outside the table.
    storage, directory = data_file_at(table, location.directory, file)
    try:
        with storage.writer(f"{directory}/{name}") as sink:
            sink.write(data)
    except StorageError:
        # Its reply may be all that was lost.
        delete_new(table, [f"{directory}/{name}"])
        raise
    return Reindexed(replace(file, extra_files=(*others, name), embedded_file_index=None), len(data))

"""The statistics file that a snapshot names: reading it, writing it, and whether the next snapshot keeps it."""

from __future__ import annotations

from paimon_engine.errors import StorageError
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.meta.table_statistics import TableStatistics, parse_table_statistics, table_statistics_to_json
from paimon_engine.table.state.handle import TableHandle, read_needed
from paimon_engine.table.state.unneeded import delete_unneeded


def read_statistics(table: TableHandle, name: str) -> TableStatistics:
    """Statistics of that file.

    Raises: NotFoundError, CorruptTableError.
    """
    path = table.paths.statistics(name)
    return parse_table_statistics(read_needed(table, path), path)


def write_statistics(table: TableHandle, statistics: TableStatistics) -> str:
    """Writes a new statistics file; its name."""
    name = f"stats-{table.env.new_id()}-0"
    path = table.paths.statistics(name)
    try:
        with table.env.storage.writer(path) as sink:
            sink.write(table_statistics_to_json(statistics).encode())
    except StorageError:
        # Its reply may be all that was lost.
        delete_unneeded(table.env.storage, [path])
        raise
    return name


def inherited_statistics(table: TableHandle, latest: Snapshot | None, schema_id: int) -> str | None:
    """The statistics file that a snapshot at that schema takes over: the latest one's, unless of another schema.

    Raises: NotFoundError, CorruptTableError.
    """
    if latest is None or latest.statistics is None:
        return None
    return latest.statistics if read_statistics(table, latest.statistics).schema_id == schema_id else None

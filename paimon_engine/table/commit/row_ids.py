"""The first id that no row of a table has, where rows keep ids; see `meta.row_tracking`.

The snapshot before says it. A release that does not know row tracking leaves it out, so older snapshots are asked then,
and the live files: an id must not come twice.
"""

from __future__ import annotations

from paimon_engine.errors import CorruptTableError
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.row_tracking import NEXT_ROW_ID, first_row_id, statistics_columns, stores_row_ids
from paimon_engine.meta.schema import ROW_ID
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.meta.stats import from_simple_stats
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.table.state.snapshots import snapshots_newest_first


def first_free_row_id(table: TableHandle, latest: Snapshot | None) -> int:
    """The id of the first row after `latest`.

    Raises: CorruptTableError if neither snapshots nor files say it; NotFoundError.
    """
    if latest is None:
        return 0
    noted = _noted(latest)
    if noted is not None:
        return noted
    before = next((found for item in snapshots_newest_first(table) if (found := _noted(item)) is not None), 0)
    return max(before, *(_end(table, entry.file) for entry in live_entries(table, latest)), 0)


def _noted(snapshot: Snapshot) -> int | None:
    found: int | None = snapshot.extras.get(NEXT_ROW_ID)
    return found


def _end(table: TableHandle, file: DataFile) -> int:
    """The first id behind those of the file's rows."""
    if not stores_row_ids(file):
        first = first_row_id(file)
        return 0 if first is None else first + file.row_count
    columns = statistics_columns(table.schema_of(file.schema_id), file)
    known = dict(
        zip(columns.names, from_simple_stats([field.type for field in columns], file.value_stats), strict=True)
    )
    if ROW_ID not in known or known[ROW_ID].max is None:
        raise CorruptTableError(
            f"{table.paths.root}: no snapshot has {NEXT_ROW_ID!r} any more, since a release wrote to the table that "
            f"does not know 'row-tracking.enabled', and statistics of {file.name} do not show which ids its rows have; "
            "roll back to a tag from before, or copy the rows to a new table"
        )
    return int(known[ROW_ID].max) + 1

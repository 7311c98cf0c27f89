"""Deletion vectors switched on or off: when a snapshot means the same in both modes, and what is refused otherwise.

| snapshot made | read | the same rows, if |
| --- | --- | --- |
| without vectors | with them: level 0 is not seen, levels are not merged | each bucket is one run above level 0 |
| with vectors | without them: vectors are not seen, all levels are merged | it has no vectors |

Rows in level 0 that readers of vectors do not see yet become visible when the mode ends. A full compaction brings a
table into both states. Append tables have neither levels nor merges: the first line always holds for them.

A snapshot from before a switch is read as the table was then with the option's old value as a dynamic one.
"""

from __future__ import annotations

from typing import Final

from paimon_engine.errors import InvalidArgumentError, UnsupportedError
from paimon_engine.meta.file_set import by_bucket
from paimon_engine.meta.index_manifest import DELETION_VECTORS
from paimon_engine.meta.schema import TableSchema
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.options import POSTPONED_BUCKET
from paimon_engine.table.handle import TableHandle, read_schema_file
from paimon_engine.table.manifests import live_entries, live_index_files

KEY: Final = "deletion-vectors.enabled"


def check_switch(table: TableHandle, snapshot: Snapshot | None, before: TableSchema, after: TableSchema) -> None:
    """Raises InvalidArgumentError if a change of the schema switches the mode, and the table is not ready for it."""
    wanted = after.table_options.deletion_vectors_enabled
    if before.table_options.deletion_vectors_enabled == wanted or snapshot is None:
        return
    reason = _difference(table, snapshot, wanted=wanted)
    if reason is not None:
        raise InvalidArgumentError(
            f"{table.paths.root}: '{KEY}' cannot become '{_text(wanted)}' now: {reason}. Compact the table fully while "
            "nobody writes, and change the option then"
        )


def check_mode(table: TableHandle, *snapshots: Snapshot | None) -> None:
    """Raises UnsupportedError if a snapshot was made in another mode, and would show other rows in that of the table.

    Costs nothing where the snapshot has the newest schema.
    """
    wanted = table.options.deletion_vectors_enabled
    for snapshot in snapshots:
        if snapshot is None or _mode_of(table, snapshot) == wanted:
            continue
        reason = _difference(table, snapshot, wanted=wanted)
        if reason is not None:
            old = _text(not wanted)
            raise UnsupportedError(
                f"{table.paths.root}: snapshot {snapshot.id} was made with '{KEY}' = '{old}', and the table says "
                f"'{_text(wanted)}' now: {reason}. Open the table with the option '{KEY}' = '{old}' to read what was "
                "then"
            )


def _mode_of(table: TableHandle, snapshot: Snapshot) -> bool:
    """The mode that the stored schema of the snapshot has."""
    if KEY not in table.dynamic_options:
        return table.schema_of(snapshot.schema_id).table_options.deletion_vectors_enabled
    stored = read_schema_file(table.env, table.paths, snapshot.schema_id, {})
    return stored.table_options.deletion_vectors_enabled


def _difference(table: TableHandle, snapshot: Snapshot, *, wanted: bool) -> str | None:
    """Why a snapshot of the other mode would show other rows; None if it shows the same."""
    if not wanted:
        marked = [file for file in live_index_files(table, snapshot) if file.kind == DELETION_VECTORS and file.vectors]
        return f"rows of {len(marked[0].vectors)} data files or more are deleted by vectors only" if marked else None
    if not table.schema.primary_keys:
        return None
    for (_, bucket), entries in by_bucket(live_entries(table, snapshot)).items():
        levels = {entry.file.level for entry in entries}
        if bucket == POSTPONED_BUCKET:
            continue
        if 0 in levels:
            return f"bucket {bucket} has files in level 0, which would not be seen"
        if len(levels) > 1:
            return f"bucket {bucket} has files in {len(levels)} levels, and these would not be merged"
        if any(entry.file.delete_row_count for entry in entries):
            return f"bucket {bucket} has delete records, which would not be merged"
    return None


def _text(value: bool) -> str:  # noqa: FBT001 - a value, not a switch
    return "true" if value else "false"

"""What the levels of a table mean: two modes, when a snapshot means the same in both, and what is refused otherwise.

| snapshot made | read | the same rows, if |
| --- | --- | --- |
| without deletion vectors | with them: level 0 is not seen, levels are not merged | each bucket is one run above level 0 |
| with deletion vectors | without them: vectors are not seen, all levels are merged | it has no vectors |
| without lookup compaction | with it: of the levels above 0, only the newest record of a key counts | each bucket has one of these levels at most, or the newest record wins anyway |
| with lookup compaction | without it: records that hold older ones already are merged with these | the same, or merging again changes nothing |

Rows in level 0 that readers of vectors do not see yet become visible when the mode ends. A full compaction brings a
table into all these states, and back to the mode of its latest snapshot it can go at any time. Append tables have
neither levels nor merges: the first line always holds for them.

A snapshot from before a switch is read as the table was then with the option's old value as a dynamic one.
"""  # noqa: E501 - a table

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from paimon_engine.errors import InvalidArgumentError, UnsupportedError
from paimon_engine.meta.file_set import by_bucket
from paimon_engine.meta.index_manifest import DELETION_VECTORS
from paimon_engine.meta.schema import TableSchema
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.options import POSTPONED_BUCKET, TableOptions
from paimon_engine.table.state.handle import TableHandle, read_schema_file
from paimon_engine.table.state.manifests import live_entries, live_index_files

_VECTORS: Final = "deletion-vectors.enabled"
_PRODUCER: Final = "changelog-producer"


@dataclass(frozen=True, slots=True)
class _ModeDifference:
    """Why a snapshot would show other rows, and which option makes it do so."""

    key: str
    then: str
    now: str
    reason: str


def check_switch(table: TableHandle, snapshot: Snapshot | None, before: TableSchema, after: TableSchema) -> None:
    """Raises InvalidArgumentError if a change of the schema switches a mode, and the table is not ready for it."""
    if snapshot is None or _modes(before.table_options) == _modes(after.table_options):
        return
    found = _difference(table, snapshot, after.table_options)
    if found is not None:
        raise InvalidArgumentError(
            f"{table.paths.root}: '{found.key}' cannot become '{found.now}' now: {found.reason}. Compact the table "
            "fully while no one writes, and change the option then"
        )


def check_mode(table: TableHandle, *snapshots: Snapshot | None, merges_levels: bool = True) -> None:
    """Raises UnsupportedError if a snapshot was made in another mode, and would show other rows in that of the table.

    Costs nothing where the snapshot has the newest schema. `merges_levels=False`: only what it has changed is read.
    """
    for snapshot in snapshots:
        found = None if snapshot is None else _difference(table, snapshot, table.options, merges_levels=merges_levels)
        if snapshot is not None and found is not None:
            raise UnsupportedError(
                f"{table.paths.root}: snapshot {snapshot.id} was made with '{found.key}' = '{found.then}', and the "
                f"table says '{found.now}' now: {found.reason}. Open the table with the option '{found.key}' = "
                f"'{found.then}' to read what was then"
            )


def _modes(options: TableOptions) -> tuple[bool, bool]:
    return options.deletion_vectors_enabled, options.levels_hold_older_versions


def _difference(
    table: TableHandle, snapshot: Snapshot, now: TableOptions, *, merges_levels: bool = True
) -> _ModeDifference | None:
    """What is in the way of reading the snapshot with those options; None if its rows are the same."""
    then = _options_of(table, snapshot)
    marked, marks = then.deletion_vectors_enabled, now.deletion_vectors_enabled
    reason = None
    if marked != marks:
        reason = _unlike_without_vectors(table, snapshot) if marked else _unlike_with_vectors(table, snapshot)
        return None if reason is None else _ModeDifference(_VECTORS, _text(marked), _text(marks), reason)
    is_lookup_switched = then.levels_hold_older_versions != now.levels_hold_older_versions
    differs = now.adds_versions and not (then.levels_hold_older_versions and now.may_merge_again)
    if merges_levels and is_lookup_switched and not marks and differs:
        reason = _unlike_levels(table, snapshot)
    return (
        None if reason is None else _ModeDifference(_PRODUCER, then.changelog_producer, now.changelog_producer, reason)
    )


def _options_of(table: TableHandle, snapshot: Snapshot) -> TableOptions:
    """The options that the stored schema of the snapshot has."""
    if not table.dynamic_options.keys() & {_VECTORS, _PRODUCER}:
        return table.schema_of(snapshot.schema_id).table_options
    return read_schema_file(table.env, table.paths, snapshot.schema_id, {}).table_options


def _unlike_without_vectors(table: TableHandle, snapshot: Snapshot) -> str | None:
    marked = [file for file in live_index_files(table, snapshot) if file.kind == DELETION_VECTORS and file.vectors]
    return f"rows of {len(marked[0].vectors)} data files or more are deleted by vectors only" if marked else None


def _unlike_with_vectors(table: TableHandle, snapshot: Snapshot) -> str | None:
    """Why readers of deletion vectors would see other rows; None if each bucket is one level without deletes."""
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
        # Uncounted ones would be dropped by readers in both modes: there is no other level for which they matter.
        if any(entry.file.delete_row_count != 0 for entry in entries):
            return f"bucket {bucket} has delete records, which would not be merged"
    return None


def _unlike_levels(table: TableHandle, snapshot: Snapshot) -> str | None:
    for (_, bucket), entries in by_bucket(live_entries(table, snapshot)).items():
        levels = {entry.file.level for entry in entries} - {0}
        if len(levels) > 1:
            return f"bucket {bucket} has files in {len(levels)} levels above level 0, which would be merged differently"
    return None


def _text(value: bool) -> str:  # noqa: FBT001 - a value, not a switch
    return "true" if value else "false"

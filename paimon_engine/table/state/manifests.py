"""Reading manifests, manifest lists and index manifests."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from paimon_engine.collection import without_collection
from paimon_engine.errors import CorruptTableError, NotFoundError, damaged, naming
from paimon_engine.format.avro import read_notes, read_records, record_fields
from paimon_engine.format.binary_row import decode_row
from paimon_engine.meta.file_set import FoldError, live_files
from paimon_engine.meta.index_manifest import (
    IndexFile,
    index_files,
)
from paimon_engine.meta.manifest import (
    FileKind,
    ManifestEntry,
    ManifestFile,
    counts,
    entry_from_record,
    manifest_file_from_record,
    unknown_types_of_entries,
    unknown_types_of_manifests,
)
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.meta.stats import EMPTY_STATS, ColumnStats, from_simple_stats
from paimon_engine.table.state.entry_choice import (
    ENTRIES_MIN,
    Choice,
    FoundFiles,
    of_buckets,
    of_partitions,
    worth_columns,
)
from paimon_engine.table.state.handle import TableHandle, read_needed
from paimon_engine.table.state.side_by_side import side_by_side, some_at_a_time

if TYPE_CHECKING:
    from paimon_engine.meta.manifest_columns import ManifestColumns

COMMIT_NOTE: Final = "paimon-engine.commit"
"""In the header of a base list: branch and number of its snapshot."""
_NAMED_MAX: Final = 8
"""Manifests that a message names."""


def _read(table: TableHandle, name: str) -> tuple[str, list[dict[str, Any]]]:
    path, data = _bytes(table, name)
    return path, read_records(data, path)


def _bytes(table: TableHandle, name: str, size_bytes: int | None = None) -> tuple[str, bytes]:
    path = table.paths.manifest(name)
    known = table.memory.get(path) if table.remembers else None
    if known is not None and size_bytes not in (None, len(known)):
        # Another file has replaced it.
        known = None
    data = read_needed(table, path) if known is None else known
    if table.remembers and known is None:
        table.memory.put(path, data)
    if size_bytes not in (None, len(data)):
        raise damaged(path, f"it has {len(data)} bytes, and should have {size_bytes}")
    return path, data


def _fields(data: bytes, path: str, kind: str, notifying: str) -> list[dict[str, Any]]:
    """Fields of the records; a file of another kind may be empty, so that no record shows that it is one."""
    found = record_fields(data, path)
    if all(field["name"] != notifying for field in found):
        raise damaged(path, f"it is not a {kind}: its records have no field {notifying}")
    return found


def read_manifest_list(table: TableHandle, name: str, size_bytes: int | None = None) -> list[ManifestFile]:
    """Manifests of a list, in order. `size_bytes` is its size, where the snapshot has it.

    Raises: NotFoundError, CorruptTableError.
    """
    path, data = _bytes(table, name, size_bytes)
    unknown = unknown_types_of_manifests(_fields(data, path, "manifest list", "_NUM_ADDED_FILES"))
    return [manifest_file_from_record(record, path, unknown) for record in read_records(data, path)]


def commit_note(table: TableHandle, name: str) -> str | None:
    """Branch and number, as in `main/7`, of the snapshot for which this engine wrote a base list.

    None for other lists, those of other engines, and missing ones.
    """
    try:
        return read_notes(table.env.storage.read(table.paths.manifest(name))).get(COMMIT_NOTE)
    except NotFoundError:
        return None


def writer_of(name: str) -> str:
    """The id of the writer of a manifest or manifest list."""
    return name.removeprefix("manifest-").removeprefix("list-").rpartition("-")[0]


def read_manifest(table: TableHandle, name: str, listed: ManifestFile | None = None) -> list[ManifestEntry]:
    """Entries of a manifest, in order; compared with what its manifest list says of it, where that is known.

    Raises: NotFoundError, CorruptTableError.
    """
    known = None if listed is None or not table.remembers else table.memory.entries(table.paths.manifest(name), listed)
    if known is not None:
        return list(known)
    path, data = _bytes(table, name, None if listed is None else listed.size_bytes)
    if listed is not None and listed.added_count + listed.deleted_count >= ENTRIES_MIN:
        entries = _many_entries_in(data, path, listed)
    else:
        entries = _entries_in(data, path)
    if listed is not None and counts(entries) != (listed.added_count, listed.deleted_count):
        added, deleted = counts(entries)
        expected = f"{listed.added_count} and {listed.deleted_count}"
        raise damaged(path, f"it adds {added} files and removes {deleted}, its manifest list says {expected}")
    if listed is not None and table.remembers:
        table.memory.put_entries(path, listed, tuple(entries))
    return entries


def _entries_in(data: bytes, path: str) -> list[ManifestEntry]:
    """Raises: CorruptTableError."""
    unknown = unknown_types_of_entries(_fields(data, path, "manifest", "_FILE"))
    return [entry_from_record(record, path, unknown) for record in read_records(data, path)]


def _many_entries_in(data: bytes, path: str, listed: ManifestFile) -> list[ManifestEntry]:
    """The same, by way of columns where that is possible. Raises: CorruptTableError."""
    # Only a table of many files needs what decodes columns.
    from paimon_engine.table.state.live_columns import decoded

    with without_collection():
        parts = decoded(
            [listed],
            [data],
            entries_of=lambda _: _entries_in(data, path),
            of_columns=_all_in_columns,
            of_entries=lambda _, entries: entries,
        )
        return [entry for part in parts for entry in part]


def _all_in_columns(_: object, columns: ManifestColumns) -> list[list[ManifestEntry]]:
    return [columns.entries(np.arange(len(columns)))]


def read_index_manifest(table: TableHandle, name: str) -> list[dict[str, Any]]:
    """Records of an index manifest.

    Raises: NotFoundError, CorruptTableError.
    """
    return _read(table, name)[1]


def live_index_files(table: TableHandle, snapshot: Snapshot | None) -> list[IndexFile]:
    """Index files of a snapshot, in the order of its index manifest; none where it has no index manifest.

    Raises: NotFoundError, CorruptTableError.
    """
    if snapshot is None or snapshot.index_manifest is None:
        return []
    path, data = _bytes(table, snapshot.index_manifest)
    return index_files(read_records(data, path), path, _fields(data, path, "index manifest", "_INDEX_TYPE"))


def snapshot_manifests(table: TableHandle, snapshot: Snapshot) -> list[ManifestFile]:
    """All manifests of a snapshot: base, then delta."""
    base, delta = side_by_side(
        table,
        [
            partial(read_manifest_list, table, snapshot.base_manifest_list, snapshot.base_manifest_list_size),
            partial(read_manifest_list, table, snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
        ],
    )
    return [*base, *delta]


def changelog_manifests(table: TableHandle, snapshot: Snapshot) -> list[ManifestFile]:
    """Manifests of the snapshot's changelog files; none where it has no changelog.

    Raises: NotFoundError, CorruptTableError.
    """
    name = snapshot.changelog_manifest_list
    return [] if name is None else read_manifest_list(table, name, snapshot.changelog_manifest_list_size)


class EntryFilter(NamedTuple):
    """Chooses entries by their partitions and buckets; `may_hold` says whether a manifest can have any of them."""

    may_hold: Callable[[ManifestFile], bool]
    choice: Choice


def live_entries(
    table: TableHandle,
    snapshot: Snapshot | None,
    partitions: Collection[bytes] | None = None,
    *,
    where: EntryFilter | None = None,
) -> list[ManifestEntry]:
    """Entries of the files live in a snapshot, of these partitions only where given, or of those that a filter chooses.

    Raises: NotFoundError, CorruptTableError.
    """
    with without_collection():
        return list(live_in_any_form(table, snapshot, partitions, where=where))


def live_in_any_form(
    table: TableHandle,
    snapshot: Snapshot | None,
    partitions: Collection[bytes] | None = None,
    *,
    where: EntryFilter | None = None,
) -> Sequence[ManifestEntry]:
    """As `live_entries`; many of them as `ColumnarEntries`, which make entries when they are requested."""
    if snapshot is None:
        return ()
    return _live_of(table, snapshot, snapshot_manifests(table, snapshot), partitions, where)


def live_of(
    table: TableHandle,
    snapshot: Snapshot | None,
    manifests: Sequence[ManifestFile],
    partitions: Collection[bytes] | None = None,
) -> list[ManifestEntry]:
    """As `live_entries`, of a snapshot with these manifests."""
    if snapshot is None:
        return []
    with without_collection():
        return list(_live_of(table, snapshot, manifests, partitions, None))


def _live_of(
    table: TableHandle,
    snapshot: Snapshot,
    manifests: Sequence[ManifestFile],
    partitions: Collection[bytes] | None,
    where: EntryFilter | None,
) -> Sequence[ManifestEntry]:
    """As `live_in_any_form`, of a snapshot with these manifests."""
    if partitions is not None:
        manifests = [manifest for manifest in manifests if may_hold_partitions(table, manifest, partitions)]
    if where is not None:
        manifests = [manifest for manifest in manifests if where.may_hold(manifest)]
    with naming(lists_of(table, snapshot)):
        choice = (Choice() if where is None else where.choice).within(partitions)
        live = _found_in(table, manifests, choice)
    total = live.row_count
    if choice.partitions is None and snapshot.total_record_count not in (None, total):
        what = f"their files have {total} records, snapshot {snapshot.id} says {snapshot.total_record_count}"
        raise damaged(f"{lists_of(table, snapshot)}, of {_names(manifests)}", what)
    return live.entries


def _found_in(table: TableHandle, manifests: Sequence[ManifestFile], choice: Choice) -> FoundFiles:
    """The live files, in columns where that is faster. Raises: CorruptTableError naming manifests that do not agree."""
    if worth_columns(table, manifests):
        # Only a table of many files needs what decodes columns.
        from paimon_engine.table.state.live_columns import live_in_columns

        read, entries_of_one = partial(bytes_of_manifests, table), partial(entries_of_manifest, table)
        found = live_in_columns(manifests, read, entries_of_one, choice)
        if found is not None:
            return found
    try:
        # Of other partitions there may be removals here, and what they remove in a manifest that was left out.
        every = [entry for entries in read_manifests(table, manifests) for entry in entries]
        live = live_files(of_partitions(every, choice))
    except FoldError as error:
        concerned = [item for item in manifests if _mentions(table, item, error.file_name)]
        raise CorruptTableError(f"{_names(concerned)}: {error}") from error
    return FoundFiles(of_buckets(live, choice), sum(entry.file.row_count for entry in live))


def entries_of_manifest(table: TableHandle, manifest: ManifestFile) -> list[ManifestEntry]:
    """As `read_manifest`, of a manifest in a list."""
    return read_manifest(table, manifest.name, manifest)


def read_manifests(table: TableHandle, manifests: Iterable[ManifestFile]) -> Iterator[list[ManifestEntry]]:
    """Entries of manifests in lists, in order; some requests are made at the same time. Raises: as `read_manifest`."""
    return some_at_a_time(table, entries_of_manifest, manifests)


def bytes_of_manifests(table: TableHandle, manifests: Iterable[ManifestFile]) -> Iterator[bytes]:
    """The bytes of manifests, in order; some requests are made at the same time. Raises: as `read_manifest`."""
    return some_at_a_time(table, lambda table, item: _bytes(table, item.name, item.size_bytes)[1], manifests)


def _mentions(table: TableHandle, manifest: ManifestFile, file_name: str) -> bool:
    return any(entry.file.name == file_name for entry in entries_of_manifest(table, manifest))


def _names(manifests: Sequence[ManifestFile]) -> str:
    """The manifests, for messages; of many the last, which are the newest."""
    more = len(manifests) - _NAMED_MAX
    shown = ", ".join(manifest.name for manifest in manifests[-_NAMED_MAX:]) or "no manifest"
    return shown if more <= 0 else f"{shown} and {more} older"


def lists_of(table: TableHandle, snapshot: Snapshot) -> str:
    """The manifest lists of a snapshot, for messages."""
    return f"{table.paths.manifest(snapshot.base_manifest_list)} and {snapshot.delta_manifest_list}"


def _entries(
    table: TableHandle, manifests: Iterable[ManifestFile], partitions: Collection[bytes] | None
) -> Iterable[ManifestEntry]:
    wanted = None if partitions is None else frozenset(partitions)
    for entries in read_manifests(table, manifests):
        yield from (entry for entry in entries if wanted is None or entry.partition in wanted)


def entries_of(
    table: TableHandle, manifests: Iterable[ManifestFile], partitions: Collection[bytes] | None
) -> Iterable[ManifestEntry]:
    """Entries of the manifests, in order; of these partitions only where given.

    Raises: NotFoundError, CorruptTableError.
    """
    if partitions is not None:
        manifests = [manifest for manifest in manifests if may_hold_partitions(table, manifest, partitions)]
    return _entries(table, manifests, partitions)


def may_hold_partitions(table: TableHandle, manifest: ManifestFile, partitions: Collection[bytes]) -> bool:
    """Whether the manifest can have entries of one of the partitions, by its partition statistics."""
    types = [field.type for field in table.schema.partition_type]
    if not types or manifest.partition_stats == EMPTY_STATS:
        return True
    with naming(f"{table.paths.root}: partitions of manifest {manifest.name} in its manifest list"):
        ranges = from_simple_stats(types, manifest.partition_stats)
        return any(
            all(_in_range(value, known) for value, known in zip(decode_row(types, partition), ranges, strict=True))
            for partition in partitions
        )


def _in_range(value: Any, known: ColumnStats) -> bool:
    if value is None:
        return known.null_count is None or known.null_count > 0
    if known.min is None or known.max is None:
        return True
    if isinstance(value, float):
        # NaN compares with nothing. Where it is the smallest, or missing, a writer has not ordered it as Java does.
        return math.isnan(value) or math.isnan(known.min) or (known.min <= value and not known.max < value)
    return bool(known.min <= value <= known.max)


def delta_entries(table: TableHandle, snapshot: Snapshot) -> list[ManifestEntry]:
    """What the snapshot's commit changed, in order.

    Raises: NotFoundError, CorruptTableError.
    """
    name, size_bytes = snapshot.delta_manifest_list, snapshot.delta_manifest_list_size
    return _list_entries(table, name, snapshot.delta_record_count, size_bytes)


def changelog_entries(table: TableHandle, snapshot: Snapshot) -> list[ManifestEntry]:
    """The snapshot's changelog files.

    Raises: NotFoundError, CorruptTableError.
    """
    name, size_bytes = snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size
    return [] if name is None else _list_entries(table, name, snapshot.changelog_record_count, size_bytes)


def _list_entries(
    table: TableHandle, name: str, record_count: int | None, size_bytes: int | None = None
) -> list[ManifestEntry]:
    """Entries of all manifests of a list, in order; their records, added less removed, are as many as expected."""
    manifests = read_manifest_list(table, name, size_bytes)
    entries = list(_entries(table, manifests, None))
    found = sum(entry.file.row_count if entry.kind is FileKind.ADD else -entry.file.row_count for entry in entries)
    if record_count not in (None, found):
        what = f"its files come to {found} records, the snapshot says {record_count}"
        raise damaged(f"{table.paths.manifest(name)}, of {_names(manifests)}", what)
    return entries


def missing_metadata(table: TableHandle, snapshot: Snapshot) -> str | None:
    """Path of a metadata file of the snapshot that cannot be read; None if all of them can."""
    try:
        for manifest in snapshot_manifests(table, snapshot):
            if not table.env.storage.exists(table.paths.manifest(manifest.name)):
                return table.paths.manifest(manifest.name)
    except (NotFoundError, CorruptTableError) as error:
        return str(error)
    return None

"""Remove manifests that no longer exist from the table's lists, so that the rest can be read again.

1. The manifest lists of the latest snapshot say which manifests there should be; a list that is missing itself counts
   as empty. Those that the store does not have are left out.
2. The others are folded again: a file whose removal was in a lost manifest is live again, a removal of a file
   that a lost manifest had added has nothing to remove and is dropped.
3. One commit of the kind OVERWRITE names what is left. A dry run ends before it.

Rows of files that only lost manifests named are lost. Some of the files that show again may be missing: run
`remove_unexisting_files` after this. Older snapshots and tags are not changed.

Source: `RemoveUnexistingManifestsAction` of the Java library. Differences: a lost list is repaired too; removals of
files that no manifest adds are dropped, so that the result can be read; where the index manifest is lost it refuses,
since rows that deletion vectors had deleted, or keys of a hash index, would appear twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from paimon_engine.action import Context, Result, action_once
from paimon_engine.errors import ConflictError, NotFoundError, UnsupportedError
from paimon_engine.meta.commit_identifier import Maker
from paimon_engine.meta.manifest import FileKind, ManifestEntry, ManifestFile
from paimon_engine.meta.snapshot import CommitKind, Snapshot
from paimon_engine.specs import DryRun, Spec
from paimon_engine.supported import check_metadata_writable
from paimon_engine.table.commit.job_commit import JobCommit
from paimon_engine.table.commit.own_files import work_begins
from paimon_engine.table.commit.publish_metadata import publish_metadata
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import live_index_files, read_manifest, read_manifest_list
from paimon_engine.table.state.metadata_writer import MetadataWriter
from paimon_engine.table.state.snapshots import is_latest, read_at_latest


@dataclass(frozen=True, slots=True)
class RemoveUnexistingManifests(Spec):
    """Remove missing manifests from the table's lists."""

    dry_run: DryRun = False


@dataclass(frozen=True, slots=True)
class RemoveUnexistingManifestsResult(Result):
    """What was found; `status` is `committed`, `already_done`, `noop` or `dry_run` (then: what would be removed).

    `removed` names the lists and manifests that are missing. `rows_before` is what the snapshot said that it had,
    `rows_after` what the files have that are named now.
    """

    status: str
    snapshot_id: int | None = None
    removed: tuple[str, ...] = ()
    manifests_left: int = 0
    rows_before: int | None = None
    rows_after: int | None = None
    seconds: float = 0.0


@action_once(CommitKind.OVERWRITE, Maker.REMOVE_UNEXISTING_MANIFESTS, RemoveUnexistingManifestsResult)
def remove_unexisting_manifests(context: Context, spec: RemoveUnexistingManifests) -> RemoveUnexistingManifestsResult:
    """Removes what is missing; once for a `commit_user`. No one can write to such a table meanwhile.

    Raises: CorruptTableError if a manifest exists and is damaged; UnsupportedError if the index manifest is missing;
    ConflictError if others committed; OutcomeUnknownError; StorageError.
    """
    table = context.table
    check_metadata_writable(table.options)
    found = read_at_latest(table, lambda latest: None if latest is None else _found(table, latest))
    if found is None:
        return RemoveUnexistingManifestsResult("noop")
    latest, manifests, lost, entries = found
    if not lost:
        return RemoveUnexistingManifestsResult("noop", None, (), len(manifests), latest.total_record_count)
    live = _still_live(entries)
    _check_index(table, latest)
    result = RemoveUnexistingManifestsResult(
        "dry_run",
        None,
        tuple(table.paths.manifest(name) for name in lost),
        len(manifests),
        latest.total_record_count,
        sum(entry.file.row_count for entry in live),
    )
    if not spec.dry_run:
        snapshot_id = _commit(table, latest, live, context.job)
        result = replace(result, status="committed", snapshot_id=snapshot_id)
    return result


class _Found(NamedTuple):
    """A snapshot, its manifests that exist, the names of what does not, and the entries of the former."""

    snapshot: Snapshot
    manifests: Sequence[ManifestFile]
    lost: Sequence[str]
    entries: Sequence[ManifestEntry]


def _found(table: TableHandle, latest: Snapshot) -> _Found:
    """Raises: NotFoundError if it is the latest one no longer, so that what is missing may have expired."""
    manifests, lost = _listed(table, latest)
    entries = [entry for manifest in manifests for entry in read_manifest(table, manifest.name, manifest)]
    if lost and not is_latest(table, latest):
        raise NotFoundError(f"{table.paths.root}: others have committed and expired snapshot {latest.id} meanwhile")
    return _Found(latest, manifests, lost, entries)


def _listed(table: TableHandle, snapshot: Snapshot) -> tuple[list[ManifestFile], list[str]]:
    """Existing manifests, in order, and names of lists and manifests that do not exist."""
    manifests: list[ManifestFile] = []
    lost: list[str] = []
    for name, size_bytes in (
        (snapshot.base_manifest_list, snapshot.base_manifest_list_size),
        (snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
    ):
        try:
            manifests += read_manifest_list(table, name, size_bytes)
        except NotFoundError:
            lost.append(name)
    there = [manifest for manifest in manifests if table.env.storage.exists(table.paths.manifest(manifest.name))]
    return there, [*lost, *(manifest.name for manifest in manifests if manifest not in there)]


def _still_live(entries: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    """The files that are added and not removed again; removals of files that no entry adds are ignored."""
    live: dict[Any, ManifestEntry] = {}
    for entry in entries:
        if entry.kind is FileKind.ADD:
            live[entry.identity] = entry
        else:
            live.pop(entry.identity, None)
    return list(live.values())


def _check_index(table: TableHandle, latest: Snapshot) -> None:
    try:
        live_index_files(table, latest)
    except NotFoundError as error:
        raise UnsupportedError(
            f"{error}; without it rows that were deleted would show again: roll back to an earlier snapshot"
        ) from error


def _commit(table: TableHandle, latest: Snapshot, live: Sequence[ManifestEntry], job: JobCommit) -> int:
    """Publishes a snapshot of these live files; returns its id. Raises: ConflictError if another commit was faster."""
    begun = work_begins(table, latest)
    writer = MetadataWriter(table)
    try:
        base = writer.manifest_list(writer.manifests(live) if live else [], base_of=latest.id + 1)
        delta = writer.manifest_list([])
    except BaseException:
        writer.take_back()
        raise
    rows = sum(entry.file.row_count for entry in live)
    kept = ("nextRowId", "logOffsets")
    snapshot = replace(
        job.next_like(latest, latest, base, delta, table.env.clock()),
        total_record_count=rows,
        delta_record_count=0,
        statistics=None,
        extras={"logOffsets": {}, **{key: value for key, value in latest.extras.items() if key in kept}},
    )
    if not publish_metadata(table, snapshot, latest, [], writer=writer, begun=begun, request=job.request()):
        raise ConflictError(f"{table.paths.root}: others have committed meanwhile; run it again")
    return snapshot.id

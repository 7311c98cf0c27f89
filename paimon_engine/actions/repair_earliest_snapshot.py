"""Repair the start of a table's row of snapshots, after a crash or after files were deleted by hand.

What can be wrong: the hint `EARLIEST` points to nothing; snapshots are missing in the middle, so that those before the
gap cannot be reached; a snapshot's own file, its manifest lists or manifests are missing or damaged, so that nothing is
deleted any more, since it may protect anything.

1. The row that ends at the latest snapshot, unbroken and of readable snapshots only, says where the table begins: at
   its first one. The latest snapshot itself must be readable.
   A lost version looks the same as one that is not visible, as while a table is copied. So the
   caller must name that first snapshot wherever anything before it is given up; otherwise the run says `stopped`, which
   one it is and what would be deleted. Only a hint that contradicts complete snapshots is repaired without it.
2. Snapshots before it are stranded. Their files, the snapshots' own, are removed, oldest first; `EARLIEST` is written.
3. Data and metadata files that only stranded snapshots reached are deleted or quarantined
   (`table.removal.deletion_plan`). What the damaged ones alone named is left for `remove_orphan_files`, which can prove
   that nothing needs it once this is done.

A dry run is the same plan, also without a name. Tags and branches stay as they are.

Source: `SnapshotManager.repairEarliestSnapshot` of the Java library, which moves the hint to a snapshot behind a gap.
Differences: a run without a name reports it; stranded snapshots are removed; snapshots whose metadata is missing count
as gaps.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from paimon_engine.action import Context, Result, action
from paimon_engine.errors import CorruptTableError, InvalidArgumentError, NotFoundError
from paimon_engine.executor import Executor
from paimon_engine.specs import DryRun, Index
from paimon_engine.table.check.findings import FINDINGS
from paimon_engine.table.commit.records import settle_records
from paimon_engine.table.reach.completeness import WAIT, find_missing_versions, shown
from paimon_engine.table.reach.observation import observe_branch
from paimon_engine.table.reach.reachability import all_roots, every_root, lost_roots
from paimon_engine.table.removal.candidates import Candidates
from paimon_engine.table.removal.deletion_plan import (
    DeletedFile,
    Deletion,
    carry_out,
    finish_interrupted,
    plan_deletion,
    prepare,
)
from paimon_engine.table.removal.file_removal import Disposal
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.hints import hint_of, write_hint
from paimon_engine.table.state.manifests import live_index_files, missing_metadata
from paimon_engine.table.state.side_by_side import in_threads
from paimon_engine.table.state.snapshots import read_snapshot, snapshot_ids

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RepairEarliestSnapshot(Disposal):
    """Let the table begin with the first snapshot of the unbroken row that ends at the latest one.

    `snapshot` says which one that is: all versions before it are lost. If none is lost, it
    may be left out. Any other id is refused, as complete snapshots are deleted by expiry.
    """

    snapshot: Annotated[
        Index | None, "id of the first one to keep: all before it are lost; a run without it says which id that is"
    ] = None
    dry_run: DryRun = False


@dataclass(frozen=True, slots=True)
class RepairEarliestSnapshotResult(Result):
    """What was wrong; `status` is `repaired`, `noop` (nothing was), `dry_run` (what would be done) or `stopped`.

    `stopped` as a status: nothing was changed, since versions may be missing; the texts say what to do.

    `previous_hint` is what EARLIEST said, None if it said nothing. `missing_snapshots` are the gaps, `broken_snapshots`
    maps ids to what is wrong with them; `removed_snapshots` are the deleted ones. `deleted` names every file deleted
    with them, `quarantine` where they are now, if they were quarantined; `stopped` says why files were left.
    """

    status: str
    earliest_snapshot_id: int | None = None
    latest_snapshot_id: int | None = None
    previous_hint: int | None = None
    missing_snapshots: tuple[int, ...] = ()
    broken_snapshots: tuple[tuple[int, str], ...] = ()
    removed_snapshots: tuple[int, ...] = ()
    files_deleted: int = 0
    bytes_deleted: int = 0
    deleted: tuple[DeletedFile, ...] = ()
    quarantine: str | None = None
    stopped: tuple[str, ...] = ()
    seconds: float = 0.0


@action
def repair_earliest_snapshot(context: Context, spec: RepairEarliestSnapshot) -> RepairEarliestSnapshotResult:
    """Repairs the table's branch. Safe to repeat, and concurrently with readers; nothing else should delete meanwhile.

    Raises: NotFoundError if there is no snapshot; CorruptTableError if the latest one is broken; InvalidArgumentError
    if the named one is not behind a gap; UnsupportedError.
    """
    table, executor = context.table, context.executor
    ids = snapshot_ids(table)
    if not ids:
        raise NotFoundError(f"{table.paths.root} has no snapshot to begin with")
    broken = {number: why for number, why in zip(ids, in_threads(table, _damage, ids), strict=True) if why is not None}
    first = _first(table, ids, broken, spec.snapshot)
    hint = hint_of(table, table.paths.earliest_hint)
    stranded = [number for number in ids if number < first]
    deletion, status = Deletion(), "noop"
    doubts = _doubts(table, stranded, first, spec.snapshot)
    if doubts and not spec.dry_run:
        deletion, stranded, status = Deletion(stopped=doubts), [], "stopped"
    elif stranded or hint != first:
        status = "dry_run" if spec.dry_run else "repaired"
        deletion = _repair(table, stranded, first, spec, executor)
        deletion = replace(deletion, stopped=(*doubts, *deletion.stopped))
        logger.info("%s: %s begins with snapshot %d", status, table.paths.root, first)
    elif not spec.dry_run:
        deletion = finish_interrupted(table, executor, spec)
    return RepairEarliestSnapshotResult(
        status,
        first,
        ids[-1],
        hint,
        tuple(sorted(set(range(ids[0], ids[-1])) - set(ids))),
        tuple(broken.items()),
        tuple(stranded),
        len(deletion.files),
        deletion.size_bytes,
        deletion.files,
        deletion.quarantine,
        deletion.stopped,
    )


def _damage(table: TableHandle, snapshot_id: int) -> str | None:
    """What keeps a snapshot from being read, as far as metadata shows.

    Raises: StorageError, which says nothing of the snapshot.
    """
    try:
        snapshot = read_snapshot(table, snapshot_id)
        live_index_files(table, snapshot)
        lacks = missing_metadata(table, snapshot)
    except FINDINGS as error:
        return str(error)
    return None if lacks is None else f"it lacks {lacks}"


def _first(table: TableHandle, ids: Sequence[int], broken: dict[int, str], asked: int | None) -> int:
    """Where the table is to begin."""
    latest = ids[-1]
    if latest in broken:
        raise CorruptTableError(
            f"snapshot {latest} of {table.paths.root}, the latest one, cannot be read: {broken[latest]}; "
            "roll back to an earlier one, or remove_unexisting_manifests"
        )
    complete = set(ids) - broken.keys()
    begin = latest
    while begin - 1 in complete:
        begin -= 1
    if asked is None or asked == begin:
        return begin
    if not begin <= asked <= latest:
        raise InvalidArgumentError(
            f"snapshot {asked} is not in {begin} to {latest}, the last ids without a gap of {table.paths.root}"
        )
    raise InvalidArgumentError(
        f"snapshot {asked - 1} before {asked} is complete: nothing to repair; expire_snapshots deletes old ones"
    )


def _doubts(table: TableHandle, stranded: Sequence[int], first: int, asked: int | None) -> tuple[str, ...]:
    """Why nothing may be given up yet."""
    seen = observe_branch(table)
    unseen = list(find_missing_versions(seen))
    reasons = [f"nothing is changed: {doubt.reason}" for doubt in unseen if not doubt.is_earlier]
    begin = min(seen.earliest_hint or first, *stranded, first)
    lacking = sorted(set(range(begin, first)) - set(stranded) - seen.removed_snapshots)
    if asked is None and (stranded or lacking):
        lost = f"snapshot {shown(lacking)} is not there" if lacking else f"snapshot {stranded[-1]} cannot be read"
        given_up = f", and with it snapshot {shown(stranded)} would be deleted" if stranded else ""
        reasons.append(
            f"nothing is changed: {lost}{given_up}; {WAIT}; if it is lost permanently, snapshot={first} lets the table "
            "begin there; all before it is lost"
        )
    return tuple(reasons)


def _repair(
    table: TableHandle, stranded: Sequence[int], first: int, spec: RepairEarliestSnapshot, executor: Executor
) -> Deletion:
    """Removes the stranded snapshots and what only they reach; a dry run only plans."""
    paths = table.paths
    roots, unreadable = every_root(table)
    removed = [
        root
        for root in roots
        if root.branch == paths.branch and root.tag is None and not root.is_changelog and root.snapshot.id in stranded
    ]
    hidden = [paths.snapshot(number) for number in stranded]
    candidates = Candidates(table)
    for root in removed:
        candidates.add_live(root, f"only in {root.label}")
        candidates.add_changelog(root)
    candidates.add_metadata(removed)
    identities = {root.identity for root in removed}
    kept = [root for root in roots if root.identity not in identities]
    # Snapshots that another branch lacks may need files that it shares with the stranded ones.
    lost = [doubt for doubt in lost_roots(table, all_roots(table)) if doubt.branch != paths.branch]
    plan = plan_deletion(table, candidates, kept, executor, lost=lost)
    others = [
        f"nothing is deleted: {path} cannot be read: {why.reason}" for path, why in unreadable if path not in hidden
    ]
    if others:
        plan = plan.without_files(others)
    if spec.dry_run:
        return Deletion(plan.files, plan.stopped)
    prepared = prepare(table, plan, spec, "repair_earliest_snapshot", roots=hidden, neighbours=[paths.snapshot(first)])
    settle_records(table, [root.snapshot for root in removed])
    write_hint(table, paths.earliest_hint, first)
    for path in hidden:
        table.env.storage.delete([path])
    return carry_out(table, plan, executor, prepared)
